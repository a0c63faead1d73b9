//! Values and patterns as a person writes them, and back.
//!
//! Numbers (`5`, `0x1f`, `0b101`, `8w5`), addresses (IPv4, IPv6, MAC), wild digits (`0x1*`), masks,
//! prefixes and ranges. Nothing written here can be wider than the key or parameter it is for.

use crate::lower::names::KeyName;
use ir::program::MatchKind;
use ir::{Bits, Pattern};
use num_bigint::BigUint;
use num_traits::Num;

/// A number as written: digits, and which hexadecimal or binary digits are wild.
struct Number {
    value: BigUint,
    mask: Option<BigUint>,
}

fn number(text: &str) -> Result<Number, String> {
    let plain = text.replace('_', "");
    // A width in front, as in P4, says nothing that the key does not say.
    let plain = match plain.split_once('w') {
        Some((w, rest)) if w.chars().all(|c| c.is_ascii_digit()) && !w.is_empty() => {
            rest.to_string()
        }
        _ => plain,
    };
    let bad = || format!("`{text}` is no number");
    if plain.contains(':') || plain.matches('.').count() == 3 {
        return address(&plain).map(|value| Number { value, mask: None }).ok_or_else(bad);
    }
    if let Some(rest) = plain.strip_prefix('-') {
        let _ = rest;
        return Err(format!("`{text}`: negative numbers are written as their bits"));
    }
    let (radix, bits, digits) = match plain.get(..2) {
        Some("0x" | "0X") => (16, 4, &plain[2..]),
        Some("0b" | "0B") => (2, 1, &plain[2..]),
        Some("0o" | "0O") => (8, 3, &plain[2..]),
        _ => (10, 0, plain.as_str()),
    };
    if !digits.contains('*') || bits == 0 {
        let value = BigUint::from_str_radix(digits, radix).map_err(|_| bad())?;
        return Ok(Number { value, mask: None });
    }
    let (mut value, mut mask) = (BigUint::ZERO, BigUint::ZERO);
    for c in digits.chars() {
        value <<= bits;
        mask <<= bits;
        if c != '*' {
            value |= BigUint::from(c.to_digit(radix).ok_or_else(bad)?);
            mask |= BigUint::from((1u32 << bits) - 1);
        }
    }
    Ok(Number { value, mask: Some(mask) })
}

/// An IPv4, IPv6 or MAC address.
fn address(text: &str) -> Option<BigUint> {
    if let Ok(a) = text.parse::<std::net::Ipv4Addr>() {
        return Some(BigUint::from_bytes_be(&a.octets()));
    }
    if let Ok(a) = text.parse::<std::net::Ipv6Addr>() {
        return Some(BigUint::from_bytes_be(&a.octets()));
    }
    let bytes: Option<Vec<u8>> = text.split(':').map(|b| u8::from_str_radix(b, 16).ok()).collect();
    bytes.filter(|b| b.len() == 6).map(|b| BigUint::from_bytes_be(&b))
}

/// A number of `width` bits.
fn bits(n: &BigUint, width: u32, text: &str) -> Result<Bits, String> {
    if n.bits() > u64::from(width) {
        return Err(format!("`{text}` needs {} bits and has {width}", n.bits()));
    }
    let bytes = n.to_bytes_be();
    Ok(Bits::from_be_bytes(&bytes, bytes.len() as u32 * 8).cast(width))
}

/// A value as text, of `width` bits.
pub fn value(text: &str, width: u32) -> Result<Bits, String> {
    match text {
        "true" => return Ok(Bits::from_u128(1, width)),
        "false" => return Ok(Bits::zero(width)),
        _ => {}
    }
    let n = number(text)?;
    if n.mask.is_some() {
        return Err(format!("`{text}`: a value has no wild digits"));
    }
    bits(&n.value, width, text)
}

/// What a key must look like, as text: `5`, `0x1*`, `5&&&7`, `10.0.0.0/8`, `1..5`, `1->5`, `*`.
pub fn pattern(text: &str, key: &KeyName) -> Result<Option<Pattern>, String> {
    let w = key.width;
    let only = |kinds: &[MatchKind], what: &str| {
        if kinds.contains(&key.kind) {
            Ok(())
        } else {
            Err(format!(
                "`{text}`: {what} for the key `{}`, which is {}",
                key.name,
                key.kind.word()
            ))
        }
    };
    if text == "*" || text == "_" {
        if key.kind == MatchKind::Exact {
            return Err(format!("the key `{}` is exact and needs a value", key.name));
        }
        return Ok(None);
    }
    let whole = Bits::ones(w);
    if let Some((a, b)) = text.split_once("&&&") {
        only(&[MatchKind::Ternary, MatchKind::Optional], "a mask")?;
        let (a, m) = (value(a.trim(), w)?, value(b.trim(), w)?);
        if key.kind == MatchKind::Optional && !m.is_zero() && m != whole {
            return Err(format!("`{text}`: an optional key is given whole or not at all"));
        }
        return Ok(if m.is_zero() { None } else { Some(Pattern::Masked(a.and(&m), m)) }).map(|p| {
            match p {
                Some(Pattern::Masked(a, m)) if m == whole && key.kind == MatchKind::Optional => {
                    Some(Pattern::Exact(a))
                }
                p => p,
            }
        });
    }
    if let Some((a, b)) = text.split_once("->").or_else(|| text.split_once("..")) {
        only(&[MatchKind::Range], "a range")?;
        return Ok(Some(Pattern::Range(value(a.trim(), w)?, value(b.trim(), w)?)));
    }
    if let Some((a, len)) = text.split_once('/') {
        only(&[MatchKind::Lpm, MatchKind::Ternary], "a prefix")?;
        let len: u32 = len.trim().parse().ok().filter(|l| *l <= w).ok_or_else(|| {
            format!("`{text}`: a prefix of the key `{}` has 0 to {w} bits", key.name)
        })?;
        let a = value(a.trim(), w)?.and(&Bits::prefix_mask(len, w));
        return Ok(if len == 0 { None } else { Some(Pattern::Prefix(a, len)) });
    }
    let n = number(text)?;
    let v = bits(&n.value, w, text)?;
    match n.mask {
        None if key.kind == MatchKind::Range => Ok(Some(Pattern::Range(v.clone(), v))),
        None => Ok(Some(Pattern::Exact(v))),
        Some(mask) => {
            // Digits in front of those written are given, as zero.
            let digits =
                text.trim_start_matches("0x").trim_start_matches("0b").replace('_', "").len()
                    as u32;
            let each = if text.starts_with("0b") { 1 } else { 4 };
            let high = if digits * each < w {
                whole.sub(&Bits::ones(digits * each).cast(w))
            } else {
                Bits::zero(w)
            };
            let mask =
                Bits::from_be_bytes(&mask.to_bytes_be(), mask.to_bytes_be().len() as u32 * 8)
                    .cast(w)
                    .or(&high);
            if mask.is_zero() {
                return Ok(None);
            }
            match (key.kind, mask.prefix_len()) {
                (MatchKind::Lpm, Some(len)) => Ok(Some(Pattern::Prefix(v.and(&mask), len))),
                (MatchKind::Ternary, _) => Ok(Some(Pattern::Masked(v.and(&mask), mask))),
                _ if mask == whole => Ok(Some(Pattern::Exact(v))),
                _ => Err(format!(
                    "`{text}`: wild digits for the key `{}`, which is {}",
                    key.name,
                    key.kind.word()
                )),
            }
        }
    }
}

/// A value as [`value`] reads it back: small ones in decimal, wide ones in hexadecimal.
pub fn show(bits: &Bits) -> String {
    match (bits.width(), bits.to_u128()) {
        (0..=16, Some(n)) => n.to_string(),
        _ => {
            let digits: String = bits.to_be_bytes().iter().map(|b| format!("{b:02x}")).collect();
            let short = digits.trim_start_matches('0');
            format!("0x{}", if short.is_empty() { "0" } else { short })
        }
    }
}

/// The last words of names of addresses of IP.
const ADDRESSES: &[&str] =
    &["addr", "address", "ip", "ipv4", "ipv6", "hop", "nhop", "nexthop", "src", "dst"];

/// Whether what has this name is likely an address: by its last word, as in `hdr.ipv4.dstAddr` or `nhop_ipv4`.
fn names_address(name: &str) -> bool {
    let last = name.rsplit(['.', '_']).next().unwrap_or(name);
    // The word that a capital letter begins.
    let at = last.rfind(|c: char| c.is_ascii_uppercase()).unwrap_or(0);
    let word = last.get(at..).unwrap_or(last).to_ascii_lowercase();
    ADDRESSES.contains(&word.as_str()) || ADDRESSES.contains(&last.to_ascii_lowercase().as_str())
}

/// As [`show`], what has the name and width of an address as an address: MAC, IPv4, IPv6.
pub fn show_as(bits: &Bits, name: &str) -> String {
    let bytes = bits.to_be_bytes();
    match (bits.width(), bytes.as_slice()) {
        (48, mac) => mac.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":"),
        (32, &[a, b, c, d]) if names_address(name) => format!("{a}.{b}.{c}.{d}"),
        (128, bytes) if names_address(name) => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => std::net::Ipv6Addr::from(bytes).to_string(),
            Err(_) => show(bits),
        },
        _ => show(bits),
    }
}

/// A pattern as [`pattern`] reads it back; `None` is any value.
pub fn show_pattern(pattern: Option<&Pattern>, key: &KeyName) -> String {
    let show = |bits: &Bits| show_as(bits, &key.name);
    match pattern {
        None if key.kind == MatchKind::Lpm => "0/0".to_string(),
        None if key.kind == MatchKind::Ternary => "0&&&0".to_string(),
        None => "*".to_string(),
        Some(Pattern::Exact(v)) if key.kind == MatchKind::Lpm => {
            format!("{}/{}", show(v), key.width)
        }
        Some(Pattern::Exact(v)) if key.kind == MatchKind::Ternary => {
            format!("{}&&&{}", show(v), show(&Bits::ones(key.width)))
        }
        Some(Pattern::Exact(v)) => show(v),
        Some(Pattern::Prefix(v, len)) => format!("{}/{len}", show(v)),
        Some(Pattern::Masked(v, m)) => format!("{}&&&{}", show(v), show(m)),
        Some(Pattern::Range(a, b)) => format!("{}->{}", show(a), show(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_addresses_and_read_back() {
        let cases: [(u32, &str, u128, &str); 9] = [
            (48, "anything", 0x0200_0000_00fe, "02:00:00:00:00:fe"),
            (32, "hdr.ipv4.dstAddr", 0x0a00_0001, "10.0.0.1"),
            (32, "nhop_ipv4", 0x0a00_0002, "10.0.0.2"),
            (32, "ip", 1, "0.0.0.1"),
            (32, "hdr.ip.src", 0xffff_ffff, "255.255.255.255"),
            (32, "meta.count", 0x0a00_0001, "0xa000001"),
            (32, "strip", 20, "0x14"),
            (128, "dst_addr", 0xfe80 << 112 | 1, "fe80::1"),
            (16, "dst_addr", 80, "80"),
        ];
        for (width, name, number, text) in cases {
            let bits = Bits::from_u128(number, width);
            assert_eq!(show_as(&bits, name), text, "{name}");
            assert_eq!(value(text, width), Ok(bits), "{text}");
        }
    }

    #[test]
    fn patterns_of_addresses_are_read_back() {
        let key = |kind| KeyName { name: "h.addr".into(), width: 32, kind, source: 0 };
        for (kind, text) in [
            (MatchKind::Lpm, "10.0.0.0/8"),
            (MatchKind::Ternary, "10.0.0.1&&&255.0.0.255"),
            (MatchKind::Range, "10.0.0.1->10.0.0.9"),
            (MatchKind::Exact, "10.0.0.1"),
        ] {
            let read = pattern(text, &key(kind)).unwrap();
            assert_eq!(show_pattern(read.as_ref(), &key(kind)), text);
        }
    }
}
