//! How names and values are spelled.
//!
//! A value is read with the width of its place, so any spelling of a number is right; the one chosen
//! here is the one that a person expects there: addresses as addresses, types in hexadecimal.

use super::lex::word_len;
use crate::bits::Bits;
use crate::pipeline::Pattern;

/// Words with a meaning of their own where any name could stand.
const RESERVED: &[&str] =
    &["_", "accept", "reject", "next", "like", "select", "none", "field", "in", "id"];

/// Words with a meaning of their own where a field could stand.
const RESERVED_FIELDS: &[&str] = &[
    "advance",
    "apply",
    "branch",
    "cast",
    "clone",
    "cookie",
    "copy",
    "count",
    "digest",
    "drop",
    "end",
    "exit",
    "extract",
    "goto",
    "group",
    "hard_ns",
    "hash",
    "idle_ns",
    "if",
    "jump",
    "lookahead",
    "meter",
    "output",
    "pop",
    "priority",
    "punt",
    "push",
    "random",
    "read",
    "recirculate",
    "remaining",
    "reparse",
    "resubmit",
    "service",
    "set_invalid",
    "set_valid",
    "sign_cast",
    "size",
    "sle",
    "slt",
    "valid",
    "verify",
    "write",
];

/// A field's name, or a key's, quoted if it is not a plain word or has a meaning of its own.
pub(super) fn field_name(n: &str) -> String {
    if RESERVED_FIELDS.contains(&n) { quoted(n) } else { name(n) }
}

/// A name, quoted if it is not a plain word.
pub fn name(name: &str) -> String {
    let first = name.bytes().next().unwrap_or(b'0');
    let plain = (first.is_ascii_alphabetic() || first == b'_') && word_len(name) == name.len();
    if plain && !RESERVED.contains(&name) { name.to_string() } else { quoted(name) }
}

fn quoted(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push('"');
    for c in name.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value of the field with this name: an address where the name and width say so, hexadecimal for
/// types, masks and wide values, decimal otherwise.
pub fn value(field: &str, v: &Bits) -> String {
    let last = field.rsplit('.').next().unwrap_or(field);
    let bytes = v.to_be_bytes();
    match v.width() {
        32 if is_address(last) => {
            return bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(".");
        }
        48 => {
            return bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":");
        }
        128 => {
            if let Ok(octets) = <[u8; 16]>::try_from(bytes) {
                let text = std::net::Ipv6Addr::from(octets).to_string();
                // The mixed spelling (`::ffff:1.2.3.4`) is not one of ours.
                if !text.contains('.') {
                    return text;
                }
            }
        }
        _ => {}
    }
    if v.width() <= 64 && !last.ends_with("type") {
        return format!("{v:#}");
    }
    v.to_string()
}

fn is_address(last: &str) -> bool {
    ["src", "dst", "addr", "spa", "tpa", "_ip"].iter().any(|end| last.ends_with(end))
}

/// A pattern for the key with this name.
pub fn pattern(key: &str, p: &Pattern) -> String {
    match p {
        Pattern::Exact(v) => value(key, v),
        Pattern::Prefix(v, len) => format!("{}/{len}", value(key, v)),
        Pattern::Masked(v, mask) => format!("{} &&& {}", value(key, v), mask_value(key, mask)),
        Pattern::Range(lo, hi) => format!("{}..{}", value(key, lo), value(key, hi)),
    }
}

/// A mask: an address for addresses, else hexadecimal.
pub(super) fn mask_value(key: &str, mask: &Bits) -> String {
    let text = value(key, mask);
    if text.contains(['.', ':']) { text } else { mask.to_string() }
}
