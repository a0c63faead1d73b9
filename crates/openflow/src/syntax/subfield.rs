//! Bits of a field: `FIELD[FIRST..LAST]`, read and printed.

use crate::action::Subfield;
use crate::codec::{nxm_field, nxm_name};
use crate::extension::Bits;
use crate::field::FieldId;
use crate::syntax::matches::unknown_field;
use crate::syntax::piece::{Piece, Result};
use std::fmt::{self, Write};

/// Bits of a field.
pub(crate) fn bits(arg: Piece<'_>) -> Result<Bits> {
    subfield(arg).map(|(of, count)| Bits { of, count })
}

/// Bits of a field that actions may write.
pub(crate) fn settable_bits(arg: Piece<'_>) -> Result<Bits> {
    let bits = bits(arg)?;
    if bits.of.field.info().settable {
        Ok(bits)
    } else {
        Err(arg.refused("no action may set this field"))
    }
}

/// `FIELD`, `FIELD[]`, `FIELD[a]` or `FIELD[a..b]`, and how many bits it has.
pub(crate) fn subfield(piece: Piece<'_>) -> Result<(Subfield, u16)> {
    let (name, bits) = match piece.split_once("[") {
        None => (piece, None),
        Some((name, rest)) => match rest.split_once("]") {
            Some((bits, rest)) if rest.text.is_empty() => (name, Some(bits)),
            _ => return Err(rest.expected("bits and `]`")),
        },
    };
    let (field, width) = match nxm_field(name.text) {
        Some(known) => known,
        None => {
            let Some(field) = FieldId::from_name(name.text) else {
                return Err(unknown_field(name));
            };
            (field, field.info().bits as u16)
        }
    };
    let (first, last) = match bits {
        None => (0, width - 1),
        Some(bits) if bits.text.is_empty() => (0, width - 1),
        Some(bits) => match bits.split_once("..") {
            None => (bits.u16()?, bits.u16()?),
            Some((first, last)) => (first.u16()?, last.u16()?),
        },
    };
    if first > last || last >= width {
        return Err(piece.expected(format!("bits from 0 to {}", width - 1)));
    }
    let count = last - first + 1;
    Ok((Subfield { field, offset: first }.narrowed(count), count))
}

/// Prints bits of a field.
pub(crate) fn print_subfield(out: &mut dyn Write, of: Subfield, bits: u16) -> fmt::Result {
    let (name, shift, width) = nxm_name(of.field);
    let of = Subfield { offset: of.offset + shift, ..of };
    out.write_str(name)?;
    match (of.offset, of.offset + bits - 1) {
        (0, last) if last + 1 == width => out.write_str("[]"),
        (first, last) if first == last => write!(out, "[{first}]"),
        (first, last) => write!(out, "[{first}..{last}]"),
    }
}

/// The name of a field in `set_field`; where it differs from a match's, it is the specification's.
pub(crate) fn set_field_name(field: FieldId) -> &'static str {
    match field {
        FieldId::EthSrc => "eth_src",
        FieldId::EthDst => "eth_dst",
        FieldId::EthType => "eth_type",
        FieldId::VlanPcp => "vlan_pcp",
        FieldId::Ipv4Src => "ip_src",
        FieldId::Ipv4Dst => "ip_dst",
        _ => field.info().ofctl[0],
    }
}
