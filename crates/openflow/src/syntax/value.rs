//! Values of fields: how each is written, read and printed.

use super::context::Context;
use super::piece::{Piece, Result};
use crate::field::{CT_STATES, FieldId, Form, TUN_FLAGS};
use crate::ids::{MacAddr, PortNo};
use crate::softflow::ElementName;
use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Reads a value, with a mask after `/` if there is one. Bits of the value outside the mask become
/// 0, as for `ovs-ofctl`.
pub(crate) fn parse(id: FieldId, piece: Piece<'_>, cx: &Context<'_>) -> Result<(u128, u128)> {
    let (value, mask) = match piece.split_once("/") {
        Some((value, mask)) => (value, Some(mask)),
        None => (piece, None),
    };
    let all = id.all_bits();
    let form = id.info().form;
    let named = match (form, mask) {
        (Form::TcpFlags, None) => flags(piece, &TCP_FLAGS, 0xfff)?,
        (Form::CtState, None) => flags(piece, &CT_STATES, all)?,
        (Form::TunFlags, None) => flags(piece, &TUN_FLAGS, all)?,
        (Form::Fragment, None) => FRAGMENTS
            .iter()
            .find(|(name, ..)| piece.is(name))
            .map(|(_, value, mask)| (*value, *mask)),
        _ => None,
    };
    if let Some(named) = named {
        return Ok(named);
    }
    let value = one(form, id, value, cx)?;
    let mask = match mask {
        None => all,
        Some(mask) => match (form, mask.text.parse::<u32>()) {
            (Form::Ipv4, Ok(length @ 0..=32)) => prefix(length, 32),
            (Form::Ipv6, Ok(length @ 0..=128)) => prefix(length, 128),
            (Form::Ipv4, Ok(_)) => return Err(mask.expected("a prefix length from 0 to 32")),
            (Form::Ipv6, Ok(_)) => return Err(mask.expected("a prefix length from 0 to 128")),
            (Form::Port, _) => return Err(mask.refused(format!("{id} takes no mask"))),
            _ if mask.text == "-1" => all,
            _ => one(form, id, mask, cx)?,
        },
    };
    Ok((value & mask, mask))
}

/// The mask of the first `length` of `bits` bits.
fn prefix(length: u32, bits: u32) -> u128 {
    let all = u128::MAX >> (128 - bits);
    all & !all.checked_shr(length).unwrap_or(0)
}

fn one(form: Form, id: FieldId, piece: Piece<'_>, cx: &Context<'_>) -> Result<u128> {
    match form {
        Form::Port => piece.port(cx).map(|port| port.0.into()),
        Form::Mac => mac(piece),
        Form::Ipv4 => ipv4(piece).map(u128::from),
        Form::Ipv6 => match piece.text.parse::<Ipv6Addr>() {
            Ok(address) => Ok(address.into()),
            Err(_) => Err(piece.expected("an IPv6 address")),
        },
        Form::Hex { .. } if id.info().bits > 64 && piece.text.starts_with("0x") => {
            u128::from_str_radix(&piece.text[2..], 16)
                .map_err(|_| piece.expected("a hexadecimal number of 128 bits"))
        }
        Form::Element if piece.text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            let name = ElementName::new(piece.text);
            name.map(|name| name.number().into()).map_err(|e| piece.expected(e.to_string()))
        }
        // `(NAMESPACE,TYPE)`, both of 16 bits.
        Form::PacketType if piece.text.starts_with('(') => {
            let wrong = || piece.expected("a packet type like (0,0) or (1,0x800)");
            let (space, kind) = piece.strip(&['(', ')']).split_once(",").ok_or_else(wrong)?;
            Ok(u128::from(space.trim().u16()?) << 16 | u128::from(kind.trim().u16()?))
        }
        Form::Decimal
        | Form::Hex { .. }
        | Form::TcpFlags
        | Form::CtState
        | Form::TunFlags
        | Form::Fragment
        | Form::PacketType
        | Form::Element => piece.number(id.info().bits.min(64)).map(u128::from),
    }
}

/// The names of TCP's flags, from bit 0 on.
const TCP_FLAGS: [&str; 12] =
    ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];

/// What `nw_frag` says: value and mask.
const FRAGMENTS: [(&str, u128, u128); 5] =
    [("no", 0, 3), ("first", 1, 3), ("later", 3, 3), ("yes", 1, 1), ("not_later", 0, 2)];

/// `+syn-ack` (these bits alone) or `syn|ack` (all bits); nothing for a number.
fn flags(piece: Piece<'_>, names: &[&str], all: u128) -> Result<Option<(u128, u128)>> {
    let text = piece.text;
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    let bit = |name: &str| names.iter().position(|flag| flag.eq_ignore_ascii_case(name));
    let (mut value, mut mask) = (0u128, 0u128);
    let signed = text.starts_with(['+', '-']);
    let mut rest = text;
    while !rest.is_empty() {
        let (sign, tail) = match rest.chars().next() {
            Some(sign @ ('+' | '-' | '|')) => (sign, &rest[1..]),
            _ => ('|', rest),
        };
        let end = tail.find(['+', '-', '|']).unwrap_or(tail.len());
        let Some(bit) = bit(&tail[..end]).filter(|_| signed == (sign != '|')) else {
            let at = |place: usize| names[place.min(names.len() - 1)];
            let (a, b) = (at(1), at(4));
            return Err(piece.expected(format!("flags like `+{a}-{b}`, `{a}|{b}` or a number")));
        };
        mask |= 1 << bit;
        if sign != '-' {
            value |= 1 << bit;
        }
        rest = &tail[end..];
    }
    Ok(Some((value, if signed { mask } else { all })))
}

fn print_flags(
    out: &mut dyn Write,
    names: &[&str],
    all: u128,
    (value, mask): (u128, u128),
) -> fmt::Result {
    let count = names.len();
    let flags = |bits: u128| (0..count).filter(move |i| bits >> i & 1 == 1);
    // What has no name is written as a number.
    if (value | if mask == all { 0 } else { mask }) >> count != 0 {
        write!(out, "{value:#x}")?;
        return if mask == all { Ok(()) } else { write!(out, "/{mask:#x}") };
    }
    if mask == all {
        if value == 0 {
            return out.write_char('0');
        }
        return flags(value).enumerate().try_for_each(|(i, bit)| {
            write!(out, "{}{}", if i == 0 { "" } else { "|" }, names[bit])
        });
    }
    flags(mask).try_for_each(|bit| {
        write!(out, "{}{}", if value >> bit & 1 == 1 { '+' } else { '-' }, names[bit])
    })
}

/// An IPv4 address.
pub(crate) fn ipv4(piece: Piece<'_>) -> Result<u32> {
    match piece.text.parse::<Ipv4Addr>() {
        Ok(address) => Ok(address.into()),
        Err(_) => Err(piece.expected("an IPv4 address like 10.0.0.1")),
    }
}

/// An Ethernet address: six numbers of one or two hexadecimal digits.
fn mac(piece: Piece<'_>) -> Result<u128> {
    let mut parts = 0;
    let mut value = 0;
    for part in piece.text.split(':') {
        let fine = matches!(part.len(), 1 | 2) && part.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(part, 16) {
            Ok(byte) if fine => value = value << 8 & 0xffff_ffff_ffff | byte,
            _ => parts = 6,
        }
        parts += 1;
    }
    if parts == 6 {
        Ok(value)
    } else {
        Err(piece.expected("an Ethernet address like 00:11:22:33:44:55"))
    }
}

/// Prints a value and, unless it has all bits, `/` and the mask.
pub(crate) fn print(out: &mut dyn Write, id: FieldId, value: u128, mask: u128) -> fmt::Result {
    // All bits of a Geneve option's data are some words of the field.
    let words = mask.count_ones();
    let option =
        id.tun_metadata().is_some() && words.is_multiple_of(32) && words == mask.trailing_ones();
    let exact = mask == id.all_bits() || option && words > 0;
    let form = id.info().form;
    match form {
        Form::TcpFlags => print_flags(out, &TCP_FLAGS, 0xfff, (value, mask)),
        Form::CtState => print_flags(out, &CT_STATES, id.all_bits(), (value, mask)),
        Form::TunFlags => print_flags(out, &TUN_FLAGS, id.all_bits(), (value, mask)),
        Form::Fragment => match FRAGMENTS.iter().find(|f| (f.1, f.2) == (value, mask)) {
            Some((name, ..)) => out.write_str(name),
            None => write!(out, "{value:#x}/{mask:#x}"),
        },
        Form::Decimal | Form::Hex { .. } => {
            let digits = if let Form::Hex { digits } = form { digits } else { 0 };
            match exact {
                true if form == Form::Decimal => write!(out, "{value}"),
                true => hex(out, value, digits),
                false => {
                    hex(out, value, digits)?;
                    out.write_char('/')?;
                    hex(out, mask, digits)
                }
            }
        }
        _ => {
            print_one(out, form, value)?;
            if exact {
                return Ok(());
            }
            out.write_char('/')?;
            match prefix_length(form, mask) {
                Some(length) => write!(out, "{length}"),
                None => print_one(out, form, mask),
            }
        }
    }
}

fn hex(out: &mut dyn Write, value: u128, digits: usize) -> fmt::Result {
    // As C's "%#x" has it.
    if value == 0 && digits == 0 {
        return out.write_char('0');
    }
    write!(out, "0x{value:0digits$x}")
}

fn print_one(out: &mut dyn Write, form: Form, value: u128) -> fmt::Result {
    match form {
        Form::Port => write!(out, "{}", PortNo(value as u32)),
        Form::Mac => write!(out, "{}", MacAddr::from_u64(value as u64)),
        Form::Ipv4 => write!(out, "{}", Ipv4Addr::from(value as u32)),
        // What the C library prints of an IPv4-compatible address (RFC 4291 §2.5.5.1).
        Form::Ipv6 if value >> 32 == 0 && value >> 16 != 0 => {
            write!(out, "::{}", Ipv4Addr::from(value as u32))
        }
        Form::Ipv6 => write!(out, "{}", Ipv6Addr::from(value)),
        Form::PacketType => match value as u16 {
            0 => write!(out, "({},0)", value >> 16),
            kind => write!(out, "({},{kind:#x})", value >> 16),
        },
        Form::Decimal
        | Form::Hex { .. }
        | Form::TcpFlags
        | Form::CtState
        | Form::TunFlags
        | Form::Fragment
        | Form::Element => {
            write!(out, "{value:#x}")
        }
    }
}

/// The length of a mask that is a prefix.
fn prefix_length(form: Form, mask: u128) -> Option<u32> {
    let bits = match form {
        Form::Ipv4 => 32,
        Form::Ipv6 => 128,
        _ => return None,
    };
    let length = mask.count_ones();
    (mask == prefix(length, bits)).then_some(length)
}
