//! How names and values are spelled in traces: as in the text form (`.mill`).

use crate::layout::Layout;
use crate::store::Store;
use ir::program::parser_error as code;
use ir::text::{print_matches, print_name, print_value};
use ir::{Action, Bits, DigestId, Entry, FieldRef, HeaderId, Table};

/// A value of something with this name.
pub(crate) fn value(name: &str, value: &Bits) -> String {
    print_value(name, value)
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
    let name = print_name(&action.name);
    if args.is_empty() {
        return name;
    }
    let args: Vec<String> =
        action.params.iter().zip(args).map(|(p, v)| value(&p.name, v)).collect();
    format!("{name}({})", args.join(", "))
}

/// A digest with its values.
pub(crate) fn digest(layout: &Layout, id: DigestId, values: &[Bits]) -> String {
    let digest = &layout.program.digests[id.index()];
    let fields = digest.fields.iter().zip(values);
    let fields: Vec<String> =
        fields.map(|(f, v)| format!("{}={}", f.name, value(&f.name, v))).collect();
    format!("digest {}({})", digest.name, fields.join(", "))
}

/// What a lookup found, and the action that runs.
pub(crate) fn lookup(
    table: &Table,
    entry: Option<&Entry>,
    action: Option<&Action>,
    args: &[Bits],
) -> String {
    let found = match entry.map(|e| print_matches(table, e)) {
        None => "miss".to_string(),
        Some(matches) if matches.is_empty() => "*".to_string(),
        Some(matches) => matches,
    };
    let call = action.map_or("no such action".to_string(), |a| call(a, args));
    format!("{}: {found} -> {call}", table.name)
}

/// The values that were looked up: of the fields that the entry looks at or, after a miss, of those
/// that are not zero. With their names, unless all of a few are there.
pub(crate) fn key(
    table: &Table,
    entry: Option<&Entry>,
    values: &mut dyn FnMut(u16) -> Bits,
) -> String {
    let few = table.key.len() <= 2;
    let mut shown = Vec::new();
    for (i, key) in (0u16..).zip(table.key.iter()) {
        if entry.is_some_and(|e| e.matches.iter().all(|m| m.key != i)) {
            continue;
        }
        let bits = values(i);
        if entry.is_some() || few || !bits.is_zero() {
            shown.push((key, value(&key.name, &bits)));
        }
    }
    let all = few && shown.len() == table.key.len();
    let text = |(key, text): &(&ir::Key, String)| match all {
        true => text.clone(),
        false => format!("{}={text}", print_name(&key.name)),
    };
    let shown: Vec<String> = shown.iter().map(text).collect();
    format!("key: {}", if shown.is_empty() { "*".to_string() } else { shown.join(" ") })
}
