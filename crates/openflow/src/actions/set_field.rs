//! Writes a field: OpenFlow's set-field, Nicira's loads, and words that name the field themselves.

use super::row::{
    ALL, Decoded, EncodeList, FieldUse, Parsed, Parsing, Printing, Row, foreign, head,
};
use crate::action::{Action, ActionType, SetField, Subfield};
use crate::codec::loss::Encode;
use crate::codec::nxm::{
    bits_of, field_of, fitted, header_of, place, set_field, settable, unknown_field,
};
use crate::codec::oxm;
use crate::codec::reader::Reader;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::field::{FieldId, VLAN_PRESENT};
use crate::ids::PortNo;
use crate::syntax::context::Context;
use crate::syntax::error::Fault;
use crate::syntax::matches;
use crate::syntax::piece::{Piece, Word};
use crate::syntax::subfield::{print_subfield, set_field_name, subfield};
use crate::syntax::value;
use crate::testing::rng::Rng;
use crate::version::Version;
use std::fmt::{self, Write};

pub(super) static SET_FIELD: Row = Row {
    name: "set_field",
    action_type: ActionType::SetField,
    words: &[
        ("set_field", Version::V10),
        ("load", Version::V10),
        ("mod_dl_src", Version::V10),
        ("mod_dl_dst", Version::V10),
        ("mod_nw_ecn", Version::V10),
        ("set_mpls_label", Version::V10),
        ("set_mpls_tc", Version::V10),
        ("set_tunnel", Version::V10),
        ("set_tunnel64", Version::V10),
    ],
    nicira: &[7, 2, 9, 30, 31, 33],
    versions: ALL,
    parse: Some(parse),
    print: Some(|out, action, printing| {
        let Action::SetField(set) = action else { foreign(action) };
        print(out, set, printing)
    }),
    decode: Some(|subtype, r, _| decode(subtype, r)),
    encode: Some(|buf, action, _| {
        let Action::SetField(set) = action else { foreign(action) };
        put(buf, set);
        Ok(())
    }),
    fields: |action, see| {
        let Action::SetField(set) = action else { foreign(action) };
        see(FieldUse::Writes, set.field);
    },
    arbitrary: Some(|rng, making| arbitrary(rng, making.version)),
    ..Row::EXTENSION
};

/// Nicira's loads, and its set-fields of one field.
fn decode(subtype: u16, r: &mut Reader<'_>) -> Decoded {
    let set = |field, value: u128| Action::set_field(field, value);
    Ok(match subtype {
        2 => {
            r.skip(2)?;
            set(FieldId::TunnelId, r.u32()?.into())
        }
        9 => {
            r.skip(6)?;
            set(FieldId::TunnelId, r.u64()?.into())
        }
        30 => {
            r.skip(2)?;
            set(FieldId::MplsLabel, u128::from(r.u32()?) & 0xf_ffff)
        }
        31 => {
            let tc = r.u8()?;
            r.skip(5)?;
            set(FieldId::MplsTc, u128::from(tc) & 7)
        }
        33 => decode_load2(r)?,
        _ => decode_load(r)?,
    })
}

fn decode_load(r: &mut Reader<'_>) -> Decoded {
    let (offset, bits) = place(r)?;
    let header = oxm::header(r)?;
    let Subfield { field, offset } = bits_of(r, header, offset, bits)?;
    settable(r, field)?;
    let value = u128::from(r.u64()?);
    if bits < 64 && value >> bits != 0 {
        let right = "a value of so many bits";
        return Err(r.bad_value(ErrorCode::BacBadArgument, "load's value", value, right));
    }
    // Nicira's ingress ports have 16 bits.
    Ok(if field == FieldId::InPort && (offset, bits) == (0, 16) {
        Action::SetField(set_field(field, 2, value, None))
    } else {
        let mask = (u128::MAX >> (128 - u32::from(bits))) << offset;
        let mask = (mask != field.all_bits()).then_some(mask);
        Action::SetField(SetField { field, value: value << offset, mask }.narrowed())
    })
}

fn decode_load2(r: &mut Reader<'_>) -> Decoded {
    r.skip(6)?;
    let header = oxm::header(r)?;
    let Some((field, bytes)) = field_of(header) else {
        return Err(unknown_field(r, ErrorCode::BacBadSetType, header));
    };
    settable(r, field)?;
    if header.length() != bytes << u32::from(header.has_mask()) {
        let (code, right) = (ErrorCode::BacBadSetLen, "the field's length");
        return Err(r.bad_field(code, "set-field's header", field, header.0, right));
    }
    let value = r.number(bytes)?;
    let mask = if header.has_mask() { Some(r.number(bytes)?) } else { None };
    r.rest();
    let all = u128::MAX >> (128 - 8 * bytes) & field.all_bits();
    if value & !mask.unwrap_or(all) != 0 || value & !all != 0 {
        let (code, right) = (ErrorCode::BacBadSetArgument, "a value within the field and its mask");
        return Err(r.bad_field(code, "set-field's value", field, value, right));
    }
    let mask = mask.map(|mask| mask & all).filter(|mask| *mask != all);
    Ok(Action::SetField(set_field(field, bytes, value, mask)))
}

/// A load where the bits are one run that it has room for; by the field's header otherwise.
fn put(buf: &mut Vec<u8>, set: &SetField) {
    let &SetField { field, value, mask } = set;
    if let (FieldId::InPort, None, Some(port)) = (field, mask, PortNo(value as u32).to_v10()) {
        head(buf, 7);
        buf.put_u16(15);
        buf.put_u32(header_of(FieldId::InPort, false).0.0);
        buf.put_u64(port.into());
        return;
    }
    let mask = mask.unwrap_or(field.all_bits());
    let (offset, bits) = (mask.trailing_zeros(), mask.count_ones());
    let run = mask != 0 && mask >> offset == u128::MAX >> (128 - bits);
    // VLAN ids and DSCPs lie otherwise in NXM: by OpenFlow's own header.
    if run && bits <= 64 && !field.has_long_header() {
        head(buf, 7);
        buf.put_u16((offset as u16) << 6 | (bits - 1) as u16);
        buf.put_u32(header_of(field, false).0.0);
        buf.put_u64((value >> offset) as u64);
    } else {
        head(buf, 33);
        buf.pad(6);
        let mask = (mask != field.all_bits()).then_some(mask);
        let usual = header_of(field, mask.is_some());
        let (header, bytes, mask) = fitted(field, (value, mask), usual);
        oxm::put_header(buf, header);
        buf.put_number(value, bytes);
        if let Some(mask) = mask {
            buf.put_number(mask, bytes);
        }
    }
}

/// Nicira has no number for a TTL that is set, but a load.
pub(super) fn encode_ttl(buf: &mut Vec<u8>, action: &Action, _: EncodeList<'_>) -> Encode {
    let Action::SetNwTtl(ttl) = action else { foreign(action) };
    put(buf, &SetField { field: FieldId::NwTtl, value: (*ttl).into(), mask: None });
    Ok(())
}

fn parse(word: &Word<'_>, parsing: &Parsing<'_>) -> Parsed {
    let number = |field, bits| {
        let value = word.arg()?.number(bits)?;
        Ok(Action::set_field(field, value.into()))
    };
    match parsing.name {
        "load" => loaded(word),
        "mod_dl_src" => exact(word.arg()?, FieldId::EthSrc, parsing.cx),
        "mod_dl_dst" => exact(word.arg()?, FieldId::EthDst, parsing.cx),
        "mod_nw_ecn" => number(FieldId::IpEcn, 2),
        "set_mpls_label" => number(FieldId::MplsLabel, 20),
        "set_mpls_tc" => number(FieldId::MplsTc, 3),
        "set_tunnel" | "set_tunnel64" => number(FieldId::TunnelId, 64),
        _ => set(word, parsing.cx),
    }
}

/// The whole of a field.
fn exact(arg: Piece<'_>, field: FieldId, cx: &Context<'_>) -> Parsed {
    match value::parse(field, arg, cx)? {
        (value, mask) if mask == field.all_bits() => Ok(Action::set_field(field, value)),
        _ => Err(arg.refused(format!("it takes no mask; set_field:VALUE/MASK->{field} does"))),
    }
}

/// A field, or bits of it: a version without masks says it by Nicira's load.
fn masked(arg: Piece<'_>, field: FieldId, cx: &Context<'_>) -> Parsed {
    let (value, mask) = value::parse(field, arg, cx)?;
    let mask = (mask != field.all_bits()).then_some(mask);
    Ok(Action::SetField(SetField { field, value, mask }.narrowed()))
}

/// `set_field:VALUE->FIELD`.
fn set(word: &Word<'_>, cx: &Context<'_>) -> Parsed {
    let arg = word.arg()?;
    let Some((value, name)) = arg.split_once("->") else {
        return Err(arg.expected("`set_field:VALUE->FIELD`"));
    };
    if name.is("mpls_ttl") || name.text.contains('[') {
        return Err(name.error(Fault::Extension));
    }
    if name.is("nw_tos") {
        return match value.u8()? {
            tos if tos & 3 == 0 => Ok(Action::set_field(FieldId::IpDscp, (tos >> 2).into())),
            _ => Err(value.expected("a type of service whose two low bits are 0")),
        };
    }
    let Some(field) = FieldId::from_name(name.text) else {
        return Err(matches::unknown_field(name));
    };
    if field.is_of_connection() {
        return masked(value, field, cx);
    }
    if !field.info().settable {
        return Err(name.refused("no action may set this field"));
    }
    if field.info().since > cx.version && cx.version > Version::V10 {
        return Err(name.error(Fault::NotIn { version: cx.version, what: "field to set" }));
    }
    masked(value, field, cx)
}

/// `load:VALUE->FIELD[a..b]`.
fn loaded(word: &Word<'_>) -> Parsed {
    let arg = word.arg()?;
    let Some((value, to)) = arg.split_once("->") else {
        return Err(arg.expected("`load:VALUE->FIELD[BITS]`"));
    };
    let (Subfield { field, offset }, bits) = subfield(to)?;
    if !field.info().settable && !field.is_of_connection() {
        return Err(to.refused("no action may set this field"));
    }
    let value = u128::from(value.number(u32::from(bits).min(64))?);
    // Nicira's ingress ports have 16 bits.
    if field == FieldId::InPort && (offset, bits) == (0, 16) {
        return Ok(Action::set_field(field, PortNo::from_v10(value as u16).0.into()));
    }
    let mask = (u128::MAX >> (128 - u32::from(bits))) << offset;
    let mask = (mask != field.all_bits()).then_some(mask);
    Ok(Action::SetField(SetField { field, value: value << offset, mask }.narrowed()))
}

fn print(out: &mut dyn Write, set: &SetField, printing: &Printing) -> fmt::Result {
    let (version, &SetField { field, value, mask }) = (printing.version, set);
    let mask = mask.unwrap_or(field.all_bits());
    let (offset, count) = (mask.trailing_zeros(), mask.count_ones());
    let part = mask != field.all_bits() && mask != 0 && count <= 64;
    if version == Version::V10 && mask == field.all_bits() {
        match field {
            FieldId::MplsLabel => return write!(out, "set_mpls_label({value})"),
            FieldId::MplsTc => return write!(out, "set_mpls_tc({value})"),
            // 1.0 has no set-field; Nicira's load has 64 bits.
            field if !settable_in_v10(field) && count <= 64 => {
                write!(out, "load:{value:#x}->")?;
                return print_subfield(out, Subfield { field, offset: 0 }, count as u16);
            }
            _ => {}
        }
    }
    if field.is_of_connection() && version < Version::V15 && part {
        let run = mask >> offset == u128::MAX >> (128 - count);
        if run {
            write!(out, "load:{:#x}->", value >> offset)?;
            return print_subfield(out, Subfield { field, offset: offset as u16 }, count as u16);
        }
    }
    let mod_dl = match field {
        FieldId::EthSrc => Some("mod_dl_src:"),
        FieldId::EthDst => Some("mod_dl_dst:"),
        _ => None,
    };
    if let (Version::V10, Some(word)) = (version, mod_dl) {
        out.write_str(word)?;
        return value::print(out, field, value, mask);
    }
    out.write_str("set_field:")?;
    value::print(out, field, value, mask)?;
    write!(out, "->{}", set_field_name(field))
}

/// Whether 1.0 has an action that sets the field.
fn settable_in_v10(field: FieldId) -> bool {
    use FieldId::*;
    matches!(
        field,
        EthSrc
            | EthDst
            | VlanVid
            | VlanPcp
            | Ipv4Src
            | Ipv4Dst
            | IpDscp
            | TcpSrc
            | TcpDst
            | UdpSrc
            | UdpDst
            | SctpSrc
            | SctpDst
    )
}

/// One of all settable fields; 1.0 has those of Ethernet addresses.
fn arbitrary(rng: &mut Rng, version: Version) -> Action {
    if version == Version::V10 {
        let field = rng.choose(&[FieldId::EthSrc, FieldId::EthDst]);
        return Action::set_field(field, rng.u128() >> 80);
    }
    if version >= Version::V15 && rng.one_in(4) {
        let mask = 1 + rng.u128() % 0xffff;
        let value = rng.u128() & mask;
        return Action::SetField(SetField { field: FieldId::EthDst, value, mask: Some(mask) });
    }
    loop {
        let field = rng.choose(FieldId::ALL);
        let of_many = field.registers().is_some() || field == FieldId::IpTos;
        if field.info().settable && field.info().since <= version && !of_many {
            let present = if field == FieldId::VlanVid { VLAN_PRESENT } else { 0 };
            return Action::set_field(field, rng.u128() & field.all_bits() | present);
        }
    }
}
