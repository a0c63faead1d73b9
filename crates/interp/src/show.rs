//! How names and values are spelled in traces.
//!
//! Numbers of up to 32 bits are decimal and wider ones hexadecimal, except addresses: 48 bits are a
//! MAC address, 128 bits an IPv6 address, and 32 bits an IPv4 address if the name says that they are
//! an address.

use crate::layout::Layout;
use crate::store::Store;
use ir::program::parser_error as code;
use ir::{Action, Bits, DigestId, Entry, FieldRef, HeaderId, Key, Pattern, Table};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Endings of the names of 32-bit fields that hold IPv4 addresses.
const ADDRESS_NAMES: [&str; 6] = ["src", "dst", "addr", "spa", "tpa", "_ip"];

/// A value of something with this name.
pub(crate) fn value(name: &str, value: &Bits) -> String {
    let is_address = || ADDRESS_NAMES.iter().any(|end| name.ends_with(end));
    match value.width() {
        32 if is_address() => Ipv4Addr::from(value.low_u32()).to_string(),
        48 => {
            let bytes = value.low_u64().to_be_bytes();
            let bytes: Vec<String> = bytes[2..].iter().map(|b| format!("{b:02x}")).collect();
            bytes.join(":")
        }
        128 => Ipv6Addr::from(value.low_u128()).to_string(),
        0..=32 => format!("{value:#}"),
        _ => value.to_string(),
    }
}

/// A value of a field.
pub(crate) fn field_value(layout: &Layout, field: FieldRef, bits: &Bits) -> String {
    let width = layout.program.field_width(field).unwrap_or(bits.width());
    value(&layout.program.field_name(field), &bits.cast(width))
}

/// A header instance's name.
pub(crate) fn header(layout: &Layout, header: HeaderId) -> &str {
    &layout.program.headers[header.index()].name
}

/// Names of the valid headers, in the order of their declaration.
pub(crate) fn valid_headers(layout: &Layout, store: &Store) -> String {
    let ids = (0..layout.headers.len() as u32).map(HeaderId);
    let names: Vec<&str> = ids.filter(|h| store.valid(*h)).map(|h| header(layout, h)).collect();
    if names.is_empty() { "no header".to_string() } else { names.join(", ") }
}

/// A parser error's name; a number for a program's own.
pub(crate) fn parser_error(error: u8) -> String {
    match error {
        code::NONE => "none".to_string(),
        code::PACKET_TOO_SHORT => "packet_too_short".to_string(),
        code::NO_MATCH => "no_match".to_string(),
        code::STACK_OUT_OF_BOUNDS => "stack_out_of_bounds".to_string(),
        code::HEADER_TOO_SHORT => "header_too_short".to_string(),
        code::TIMEOUT => "timeout".to_string(),
        own => format!("error {own}"),
    }
}

/// An action with its arguments.
pub(crate) fn call(action: &Action, args: &[Bits]) -> String {
    let args: Vec<String> =
        action.params.iter().zip(args).map(|(p, v)| value(&p.name, v)).collect();
    format!("{}({})", action.name, args.join(", "))
}

/// A digest with its values.
pub(crate) fn digest(layout: &Layout, id: DigestId, values: &[Bits]) -> String {
    let digest = &layout.program.digests[id.index()];
    let fields = digest.fields.iter().zip(values);
    let fields: Vec<String> =
        fields.map(|(f, v)| format!("{}={}", f.name, value(&f.name, v))).collect();
    format!("digest {}({})", digest.name, fields.join(", "))
}

fn pattern(key: &Key, pattern: &Pattern) -> String {
    let show = |v: &Bits| value(&key.name, v);
    match pattern {
        Pattern::Exact(v) => show(v),
        Pattern::Prefix(v, len) => format!("{}/{len}", show(v)),
        Pattern::Masked(v, mask) => format!("{}&{}", show(v), show(mask)),
        Pattern::Range(lo, hi) => format!("{}..{}", show(lo), show(hi)),
    }
}

/// A list of key fields: with their names, unless the table has only one.
fn fields<'a>(table: &Table, parts: impl Iterator<Item = (&'a Key, String)>) -> String {
    let parts: Vec<String> = parts
        .map(|(key, text)| match table.key.len() {
            1 => text,
            _ => format!("{}={text}", key.name),
        })
        .collect();
    if parts.is_empty() { "*".to_string() } else { parts.join(" ") }
}

/// What a lookup found, and the action that runs.
pub(crate) fn lookup(
    table: &Table,
    entry: Option<&Entry>,
    action: Option<&Action>,
    args: &[Bits],
) -> String {
    let found = entry.map_or("miss".to_string(), |entry| {
        let matches = entry.matches.iter();
        fields(
            table,
            matches.filter_map(|m| {
                let key = table.key.get(m.key as usize)?;
                Some((key, pattern(key, &m.pattern)))
            }),
        )
    });
    let call = action.map_or("no such action".to_string(), |a| call(a, args));
    format!("{}: {found} -> {call}", table.name)
}

/// The values that were looked up: of the fields that the entry looks at or, after a miss, of those
/// that are not zero.
pub(crate) fn key(
    table: &Table,
    entry: Option<&Entry>,
    values: &mut dyn FnMut(u16) -> Bits,
) -> String {
    let all = (0u16..).zip(table.key.iter());
    let shown = all.filter_map(|(i, key)| {
        let bits = match entry {
            Some(e) if !e.matches.iter().any(|m| m.key == i) => return None,
            _ => values(i),
        };
        let shown = entry.is_some() || !bits.is_zero() || table.key.len() == 1;
        shown.then(|| (key, value(&key.name, &bits)))
    });
    format!("key: {}", fields(table, shown))
}
