//! Nicira's extensions, of which Open vSwitch's tools make use (ovs-fields(7), ovs-actions(7)):
//! matches of NXM TLVs, actions, and in 1.0 the messages that carry them.
//!
//! What they say is said by the neutral form where that has a word: a load is a set-field, a move a
//! copy-field, NXM's flow-mod a flow-mod. What is not known is refused by name.

use super::nx_learn::{decode_learn, encode_learn, is_longer};
use super::nxm::{
    bits_of, field_of, header_of, header_of_bits, place, set_field, settable, unknown_field,
};
use super::reader::{DecodeError, Reader, Result};
use super::writer::Put;
use super::{oxm, property};
use crate::action::{Action, CopyField, SetField, Subfield};
use crate::error::ErrorCode;
use crate::extension::{
    Bits, BundleAlgorithm, Conjunction, Conntrack, FinTimeout, HashAlgorithm, HashFields,
    Multipath, Nat, NatRange, NatSide, PortBundle, ToController, Zone,
};
use crate::field::{FieldId, OxmHeader};
use crate::ids::{GroupId, MeterId, NICIRA, PortNo, QueueId, TableId};
use crate::packet::PacketInReason;
use crate::version::Version;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `group`, which 1.0 has as Nicira's.
const GROUP: u16 = 40;

/// Actions that are known by name and not done here.
fn name(subtype: u16) -> &'static str {
    match subtype {
        29 | 38 | 41 => "sample",
        36 => "nat outside of ct",
        37 => "controller with a property that is new",
        46 | 47 => "encap and decap",
        48 => "dec_nsh_ttl",
        50 => "delete_field",
        _ => "an action",
    }
}

fn unknown(r: &Reader<'_>, subtype: u16) -> DecodeError {
    r.error(
        ErrorCode::BacBadExpType,
        super::reader::DecodeFault::Absent {
            what: "Nicira's action",
            name: name(subtype),
            subtype,
        },
    )
}

/// The reason that a `controller` action gives.
fn reason(r: &Reader<'_>, number: u8) -> Result<PacketInReason> {
    PacketInReason::ALL.get(usize::from(number)).copied().ok_or_else(|| {
        r.bad_value(ErrorCode::BacBadArgument, "controller's reason", number, "0 to 5")
    })
}

/// A `controller` action: a plain output where it asks for nothing else.
fn to_controller(to: ToController) -> Action {
    if to.is_output() {
        Action::Output { port: PortNo::CONTROLLER, max_len: to.max_len }
    } else {
        Action::Controller(to)
    }
}

/// `controller` with properties.
fn decode_controller(r: &mut Reader<'_>) -> Result<Action> {
    r.skip(6)?;
    let (mut max_len, mut id, mut why) = (u16::MAX, 0, PacketInReason::Action);
    let (mut userdata, mut meter, mut pause) = (Vec::new(), None, false);
    while r.left() >= 4 {
        let start = r.left();
        let mut ahead = *r;
        let (kind, length) = (ahead.u16()?, usize::from(ahead.u16()?));
        let padded = length.next_multiple_of(8).min(start);
        let mut p = r.sub(padded, "controller's property", ErrorCode::BacBadLen)?;
        if length < 4 || length > padded {
            return Err(p.bad_length(length, "4 or more, and no more than is there,"));
        }
        p.skip(4)?;
        match kind {
            0 => max_len = p.u16()?,
            1 => id = p.u16()?,
            2 => {
                let number = p.u8()?;
                why = reason(&p, number)?;
            }
            3 => userdata = p.take(length - 4)?.to_vec(),
            4 => pause = true,
            // Number 0 says that there is none.
            5 => meter = Some(MeterId(p.u32()?)).filter(|meter| meter.0 != 0),
            _ => return Err(unknown(r, 37)),
        }
        p.rest();
    }
    r.rest();
    Ok(to_controller(ToController { max_len, reason: why, id, userdata, meter, pause }))
}

fn decode_multipath(r: &mut Reader<'_>) -> Result<Multipath> {
    let (fields, basis) = (r.u16()?, r.u16()?);
    r.skip(2)?;
    let (algorithm, max_link, arg) = (r.u16()?, r.u16()?, r.u32()?);
    r.skip(2)?;
    let (offset, count) = place(r)?;
    let header = oxm::header(r)?;
    let of = bits_of(r, header, offset, count)?;
    let bad =
        |r: &Reader<'_>, what, got, right| r.bad_value(ErrorCode::BacBadArgument, what, got, right);
    let known = HashFields::ALL.get(usize::from(fields));
    let (fields, _) = *known.ok_or_else(|| bad(r, "multipath's fields", fields, "0 to 6"))?;
    let known = HashAlgorithm::ALL.get(usize::from(algorithm));
    let (algorithm, _) = *known.ok_or_else(|| {
        bad(
            r,
            "multipath's algorithm",
            algorithm,
            "0 to 3: modulo_n, hash_threshold, hrw, iter_hash",
        )
    })?;
    if count < 16 && max_link >> count != 0 || !of.field.info().settable {
        return Err(bad(r, "multipath's links", max_link, "as many as a settable field can hold"));
    }
    Ok(Multipath { fields, basis, algorithm, max_link, arg, to: Bits { of, count } })
}

/// `NXM_OF_IN_PORT`, what members are named by: their ports' numbers.
const MEMBER_TYPE: u32 = 0x0000_0002;

/// `bundle` and, with a place for the port's number, `bundle_load`.
fn decode_bundle(r: &mut Reader<'_>, load: bool) -> Result<PortBundle> {
    let (algorithm, fields, basis) = (r.u16()?, r.u16()?, r.u16()?);
    let (kind, count) = (r.u32()?, usize::from(r.u16()?));
    let (offset, bits) = place(r)?;
    let header = r.u32()?;
    r.skip(4)?;
    let bad =
        |r: &Reader<'_>, what, got, right| r.bad_value(ErrorCode::BacBadArgument, what, got, right);
    let known = BundleAlgorithm::ALL.get(usize::from(algorithm));
    let (algorithm, _) = *known.ok_or_else(|| {
        bad(r, "bundle's algorithm", u32::from(algorithm), "active_backup (0) or hrw (1)")
    })?;
    let known = HashFields::ALL.get(usize::from(fields));
    let (fields, _) = *known.ok_or_else(|| bad(r, "bundle's fields", fields.into(), "0 to 6"))?;
    if kind != MEMBER_TYPE {
        return Err(bad(r, "bundle's type of members", kind, "0x2, ports"));
    }
    if !(1..=PortBundle::MEMBERS_MAX).contains(&count) {
        return Err(bad(r, "bundle's members", count as u32, "1 to 64"));
    }
    let to = if load {
        let of = bits_of(r, OxmHeader(header), offset, bits)?;
        if !of.field.info().settable || bits < 16 {
            return Err(bad(r, "bundle_load's place", header, "16 bits or more that can be set"));
        }
        Some(Bits { of, count: bits })
    } else if header != 0 || (offset, bits) != (0, 1) {
        return Err(bad(r, "bundle's place", header, "0, as nothing is loaded"));
    } else {
        None
    };
    if r.left() < 2 * count {
        let right = "as many members as it says";
        return Err(r.bad_value(ErrorCode::BacBadLen, "bundle's members", count as u32, right));
    }
    let members = (0..count).map(|_| r.u16().map(PortNo::from_v10)).collect::<Result<_>>()?;
    r.rest();
    Ok(PortBundle { fields, basis, algorithm, members, to })
}

fn encode_bundle(buf: &mut Vec<u8>, m: &PortBundle) {
    let number = |at: Option<usize>| at.unwrap_or(0) as u16;
    buf.put_u16(number(BundleAlgorithm::ALL.iter().position(|(a, _)| *a == m.algorithm)));
    buf.put_u16(number(HashFields::ALL.iter().position(|(f, _)| *f == m.fields)));
    buf.put_u16(m.basis);
    buf.put_u32(MEMBER_TYPE);
    buf.put_u16(m.members.len() as u16);
    match m.to {
        Some(Bits { of, count }) => {
            let (header, offset) = header_of_bits(of, count);
            buf.put_u16(offset << 6 | (count - 1));
            buf.put_u32(header);
        }
        None => buf.pad(6),
    }
    buf.pad(4);
    m.members.iter().for_each(|port| buf.put_u16(port.to_v10().unwrap_or(0xffff)));
}

/// The head of a `clone`; gives back where it begins.
pub(super) fn begin_clone(buf: &mut Vec<u8>) -> usize {
    let start = buf.len();
    buf.put_u16(0xffff);
    buf.put_u16(0);
    buf.put_u32(NICIRA);
    buf.put_u16(42);
    buf.pad(6);
    start
}

/// `NX_CT_F_COMMIT`, `NX_CT_F_FORCE`.
const CT_FLAGS: (u16, u16) = (1, 2);
/// `NX_CT_RECIRC_NONE`.
const CT_NO_TABLE: u8 = 0xff;
/// `NX_NAT_F_SRC`, `NX_NAT_F_DST`.
const NAT_SIDES: (u16, u16) = (1, 2);

fn decode_ct(version: Version, r: &mut Reader<'_>) -> Result<Conntrack> {
    let flags = r.u16()?;
    let (header, zone) = (r.u32()?, r.u16()?);
    let table = r.u8()?;
    r.skip(3)?;
    let alg = r.u16()?;
    let bad = |r: &Reader<'_>, what, got: u32, right| {
        Err(r.bad_value(ErrorCode::BacBadArgument, what, got, right))
    };
    let (commit, force) = (flags & CT_FLAGS.0 != 0, flags & CT_FLAGS.1 != 0);
    if flags & !(CT_FLAGS.0 | CT_FLAGS.1) != 0 || force && !commit {
        return bad(r, "ct's flags", flags.into(), "commit (1), force (2) with it, or 0");
    }
    if alg != 0 && !Conntrack::ALGS.iter().any(|(_, number)| *number == alg) {
        return bad(r, "ct's alg", alg.into(), "ftp (21), tftp (69) or 0");
    }
    let zone = match header {
        0 => Zone::Number(zone),
        header => {
            let count = (zone & 0x3f) + 1;
            if count > 16 {
                return bad(r, "bits of ct's zone", count.into(), "at most 16");
            }
            Zone::Field(Bits { of: bits_of(r, OxmHeader(header), zone >> 6, count)?, count })
        }
    };
    let mut nat = None;
    let mut exec = Vec::new();
    while !r.is_empty() {
        let is_nat = r.left() >= 10
            && (r.peek_u16(0)?, r.peek_u16(4)?, r.peek_u16(6)?, r.peek_u16(8)?)
                == (0xffff, 0, NICIRA as u16, 36);
        if is_nat && nat.is_none() {
            nat = Some(decode_nat(r)?);
            continue;
        }
        let length = usize::from(r.peek_u16(2)?);
        let mut one = r.sub(length.min(r.left()), "action of ct", ErrorCode::BacBadLen)?;
        // So deep, neither clone nor ct is read.
        let depth = Action::CLONE_DEPTH_MAX + 1;
        let list = super::action::decode_actions_at(version, &mut one, depth)?;
        let of_connection = |field: FieldId| field.is_of_connection();
        let fine = list.iter().all(|action| match action {
            Action::SetField(set) => of_connection(set.field),
            Action::CopyField(copy) => of_connection(copy.to.field),
            _ => false,
        });
        if !fine || list.is_empty() || exec.len() >= Conntrack::EXEC_MAX {
            let right = "nat once, and 64 set-fields and copies to ct_mark or ct_label";
            return bad(r, "actions of ct", exec.len() as u32, right);
        }
        exec.extend(list);
    }
    if !commit && (!exec.is_empty() || nat.is_some_and(Nat::is_of_new)) {
        return bad(r, "ct's flags", flags.into(), "commit, as there is exec or a new translation");
    }
    let table = (table != CT_NO_TABLE).then_some(TableId(table));
    Ok(Conntrack { commit, force, zone, table, nat, alg, exec })
}

fn decode_nat(list: &mut Reader<'_>) -> Result<Nat> {
    let length = usize::from(list.peek_u16(2)?);
    let mut r = list.sub(length, "nat", ErrorCode::BacBadLen)?;
    r.skip(12)?;
    let (flags, present) = (r.u16()?, r.u16()?);
    let bad = |r: &Reader<'_>, what, got: u16, right| {
        Err(r.bad_value(ErrorCode::BacBadArgument, what, got, right))
    };
    if present & !0x3f != 0 {
        return bad(&r, "nat's range", present, "bits 0 to 5");
    }
    let has = |bit: u16| present >> bit & 1 == 1;
    let mut address = |at: u16| -> Result<Option<IpAddr>> {
        let v4 = if has(at) { Some(IpAddr::V4(Ipv4Addr::from(r.u32()?))) } else { None };
        Ok(v4)
    };
    let v4 = (address(0)?, address(1)?);
    let mut address = |at: u16| -> Result<Option<IpAddr>> {
        let v6 = if has(at) { Some(IpAddr::V6(Ipv6Addr::from(r.number(16)?))) } else { None };
        Ok(v6)
    };
    let v6 = (address(2)?, address(3)?);
    let first_port = if has(4) { Some(r.u16()?) } else { None };
    let last_port = if has(5) { Some(r.u16()?) } else { None };
    r.rest();
    let side = match flags & 3 {
        0 if flags == 0 && present == 0 => return Ok(Nat::Existing),
        side if side == NAT_SIDES.0 => NatSide::Source,
        side if side == NAT_SIDES.1 => NatSide::Destination,
        _ => return bad(&r, "nat's flags", flags, "src (1), dst (2), or 0 without a range"),
    };
    let flags = flags & !3;
    let (first, last) = match (v4, v6) {
        ((None, None), (None, None)) if present == 0 => {
            if !NatRange::are_flags(flags) {
                let right = "persistent (4), and hash (8) or random (16)";
                return bad(&r, "nat's flags", flags, right);
            }
            return Ok(Nat::Unranged { side, flags });
        }
        ((Some(first), last), (None, None)) | ((None, None), (Some(first), last)) => (first, last),
        _ => return bad(&r, "nat's range", present, "addresses of one family"),
    };
    let ports = match (first_port, last_port) {
        (Some(first), last) => Some((first, last.unwrap_or(first))),
        (None, None) => None,
        _ => return bad(&r, "nat's range", present, "a first port with the last one"),
    };
    let last = last.unwrap_or(first);
    let range = NatRange { side, first, last, ports, flags };
    if !range.is_sound() {
        let right = "ranges whose first comes first, and persistent (4), hash (8) or random (16)";
        return bad(&r, "nat", flags, right);
    }
    Ok(Nat::New(range))
}

/// The head of a `ct`, and its `nat`; gives back where it begins.
pub(super) fn begin_ct(buf: &mut Vec<u8>, ct: &Conntrack) -> usize {
    let start = buf.len();
    buf.put_u16(0xffff);
    buf.put_u16(0);
    buf.put_u32(NICIRA);
    buf.put_u16(35);
    let flag = |said: bool, bit: u16| if said { bit } else { 0 };
    buf.put_u16(flag(ct.commit, CT_FLAGS.0) | flag(ct.force, CT_FLAGS.1));
    match ct.zone {
        Zone::Number(zone) => {
            buf.put_u32(0);
            buf.put_u16(zone);
        }
        Zone::Field(Bits { of, count }) => {
            let (header, offset) = header_of_bits(of, count);
            buf.put_u32(header);
            buf.put_u16(offset << 6 | (count - 1));
        }
    }
    buf.put_u8(ct.table.map_or(CT_NO_TABLE, |table| table.0));
    buf.pad(3);
    buf.put_u16(ct.alg);
    let Some(nat) = ct.nat else { return start };
    let begin = buf.len();
    buf.put_u16(0xffff);
    buf.put_u16(0);
    buf.put_u32(NICIRA);
    buf.put_u16(36);
    buf.pad(2);
    let side = |side| match side {
        NatSide::Source => NAT_SIDES.0,
        NatSide::Destination => NAT_SIDES.1,
    };
    let (flags, range) = match nat {
        Nat::Existing => (0, None),
        Nat::Unranged { side: of, flags } => (side(of) | flags, None),
        Nat::New(range) => (side(range.side) | range.flags, Some(range)),
    };
    buf.put_u16(flags);
    let Some(range) = range else {
        buf.pad(2);
        buf.patch_length(begin + 2, begin);
        return start;
    };
    let more = range.last != range.first;
    let addresses = (1 | u16::from(more) << 1) << if range.first.is_ipv4() { 0 } else { 2 };
    let ports = match range.ports {
        None => 0,
        Some((first, last)) => 0x10 | u16::from(first != last) << 5,
    };
    buf.put_u16(addresses | ports);
    for address in [Some(range.first), more.then_some(range.last)].into_iter().flatten() {
        match address {
            IpAddr::V4(v4) => buf.put_u32(v4.into()),
            IpAddr::V6(v6) => buf.put_number(v6.into(), 16),
        }
    }
    if let Some((first, last)) = range.ports {
        buf.put_u16(first);
        if first != last {
            buf.put_u16(last);
        }
    }
    buf.pad_to_8(begin);
    buf.patch_length(begin + 2, begin);
    start
}

/// Whether an output can be cut so.
fn truncates(r: &Reader<'_>, port: PortNo, max_len: u32) -> Result<()> {
    if !port.takes_truncated() {
        let right = "an ordinary port, IN_PORT or LOCAL";
        return Err(r.bad_value(ErrorCode::BacBadOutPort, "output's port", port.0, right));
    }
    if max_len < Action::TRUNCATED_MIN {
        let right = "14, an Ethernet header, or more";
        return Err(r.bad_value(ErrorCode::BacBadArgument, "output's max_len", max_len, right));
    }
    Ok(())
}

/// Reads what follows the experimenter's id.
pub(super) fn decode_action(version: Version, mut r: Reader<'_>, depth: usize) -> Result<Action> {
    let subtype = r.u16()?;
    let set = |field, value: u128| Action::set_field(field, value);
    let action = match subtype {
        1 => {
            let in_port = PortNo::from_v10(r.u16()?);
            r.skip(4)?;
            Action::Resubmit { in_port, table: TableId::ALL, ct: false }
        }
        14 | 44 => {
            let in_port = PortNo::from_v10(r.u16()?);
            let table = TableId(r.u8()?);
            r.skip(3)?;
            Action::Resubmit { in_port, table, ct: subtype == 44 }
        }
        5 => {
            r.skip(6)?;
            Action::PopQueue
        }
        19 => {
            let fin = FinTimeout { idle_timeout: r.u16()?, hard_timeout: r.u16()? };
            r.skip(2)?;
            Action::FinTimeout(fin)
        }
        39 => {
            let port = PortNo::from_v10(r.u16()?);
            let max_len = r.u32()?;
            truncates(&r, port, max_len)?;
            Action::OutputTruncated { port, max_len }
        }
        2 => {
            r.skip(2)?;
            set(FieldId::TunnelId, r.u32()?.into())
        }
        4 => {
            r.skip(2)?;
            Action::SetQueue(QueueId(r.u32()?))
        }
        6 => {
            let bits = r.u16()?;
            let (from_offset, to_offset) = (r.u16()?, r.u16()?);
            let (from, to) = (oxm::header(&mut r)?, oxm::header(&mut r)?);
            r.rest();
            let from = bits_of(&mut r, from, from_offset, bits)?;
            let to = bits_of(&mut r, to, to_offset, bits)?;
            Action::CopyField(CopyField { bits, from, to })
        }
        7 => {
            let (offset, bits) = place(&mut r)?;
            let header = oxm::header(&mut r)?;
            let Subfield { field, offset } = bits_of(&mut r, header, offset, bits)?;
            settable(&r, field)?;
            let value = u128::from(r.u64()?);
            if bits < 64 && value >> bits != 0 {
                let right = "a value of so many bits";
                return Err(r.bad_value(ErrorCode::BacBadArgument, "load's value", value, right));
            }
            // Nicira's ingress ports have 16 bits.
            if field == FieldId::InPort && (offset, bits) == (0, 16) {
                Action::SetField(set_field(field, 2, value, None))
            } else {
                let mask = (u128::MAX >> (128 - u32::from(bits))) << offset;
                let mask = (mask != field.all_bits()).then_some(mask);
                Action::SetField(SetField { field, value: value << offset, mask }.narrowed())
            }
        }
        8 => Action::Note(r.rest().to_vec()),
        GROUP => {
            r.skip(2)?;
            Action::Group(GroupId(r.u32()?))
        }
        9 => {
            r.skip(6)?;
            set(FieldId::TunnelId, r.u64()?.into())
        }
        18 => {
            r.skip(6)?;
            Action::DecNwTtl
        }
        20 => {
            let max_len = r.u16()?;
            let (id, number) = (r.u16()?, r.u8()?);
            r.skip(1)?;
            let reason = reason(&r, number)?;
            let (userdata, meter, pause) = (Vec::new(), None, false);
            to_controller(ToController { max_len, reason, id, userdata, meter, pause })
        }
        37 => decode_controller(&mut r)?,
        12 | 13 => Action::Bundle(Box::new(decode_bundle(&mut r, subtype == 13)?)),
        42 if depth >= Action::CLONE_DEPTH_MAX => {
            let right = "at most 8 of them inside each other";
            return Err(r.bad_value(ErrorCode::BacTooMany, "clone", depth as u32 + 1, right));
        }
        42 => {
            r.skip(6)?;
            Action::Clone(super::action::decode_actions_at(version, &mut r, depth + 1)?)
        }
        35 if depth > Action::CLONE_DEPTH_MAX => {
            let right = "none inside of another";
            return Err(r.bad_value(ErrorCode::BacBadArgument, "ct", subtype, right));
        }
        35 => Action::Ct(Box::new(decode_ct(version, &mut r)?)),
        43 => {
            r.skip(6)?;
            Action::CtClear
        }
        17 => {
            r.skip(6)?;
            Action::Exit
        }
        10 => Action::Multipath(Box::new(decode_multipath(&mut r)?)),
        15 => {
            let (offset, count) = place(&mut r)?;
            let header = oxm::header(&mut r)?;
            let of = bits_of(&mut r, header, offset, count)?;
            let max_len = r.u16()?;
            r.skip(6)?;
            Action::OutputField { from: Bits { of, count }, max_len }
        }
        16 | 45 => Action::Learn(Box::new(decode_learn(&mut r, subtype == 45)?)),
        34 => {
            let (dimension, dimensions) = (r.u8()?, r.u8()?);
            let conjunction = Conjunction { dimension, dimensions, id: r.u32()? };
            if !conjunction.is_sound() {
                let right = "2 to 64 dimensions, and one of them";
                let got = u16::from_be_bytes([dimension, dimensions]);
                return Err(r.bad_value(ErrorCode::BacBadArgument, "conjunction", got, right));
            }
            Action::Conjunction(conjunction)
        }
        21 => {
            let count = usize::from(r.u16()?);
            r.skip(4)?;
            if count * 2 > r.left() {
                let right = "as many ids as there are";
                return Err(r.bad_value(
                    ErrorCode::BacBadLen,
                    "dec_ttl's ids",
                    count as u16,
                    right,
                ));
            }
            let ids = (0..count).map(|_| r.u16()).collect::<Result<_>>()?;
            r.rest();
            Action::DecNwTtlTo(ids)
        }
        27 | 28 => {
            let offset = r.u16()?;
            let header = oxm::header(&mut r)?;
            let count = r.u16()?;
            let of = bits_of(&mut r, header, offset, count)?;
            r.rest();
            let bits = Bits { of, count };
            if subtype == 27 { Action::StackPush(bits) } else { Action::StackPop(bits) }
        }
        49 => {
            let (bytes, offset) = (r.u16()?, r.u16()?);
            let header = oxm::header(&mut r)?;
            let to = bits_of(&mut r, header, offset, 1)?;
            r.rest();
            Action::CheckPktLarger { bytes, to }
        }
        23 => Action::PushMpls(padded(&mut r)?),
        24 => Action::PopMpls(padded(&mut r)?),
        25 => {
            let ttl = r.u8()?;
            r.skip(5)?;
            Action::SetMplsTtl(ttl)
        }
        26 => {
            r.skip(6)?;
            Action::DecMplsTtl
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
        33 => {
            r.skip(6)?;
            let header = oxm::header(&mut r)?;
            let Some((field, bytes)) = field_of(header) else {
                return Err(unknown_field(&r, ErrorCode::BacBadSetType, header));
            };
            settable(&r, field)?;
            if header.length() != bytes << u32::from(header.has_mask()) {
                let (code, right) = (ErrorCode::BacBadSetLen, "the field's length");
                return Err(r.bad_field(code, "set-field's header", field, header.0, right));
            }
            let value = r.number(bytes)?;
            let mask = if header.has_mask() { Some(r.number(bytes)?) } else { None };
            r.rest();
            let all = u128::MAX >> (128 - 8 * bytes) & field.all_bits();
            if value & !mask.unwrap_or(all) != 0 || value & !all != 0 {
                let (code, right) =
                    (ErrorCode::BacBadSetArgument, "a value within the field and its mask");
                return Err(r.bad_field(code, "set-field's value", field, value, right));
            }
            let mask = mask.map(|mask| mask & all).filter(|mask| *mask != all);
            Action::SetField(set_field(field, bytes, value, mask))
        }
        _ => return Err(unknown(&r, subtype)),
    };
    r.finish()?;
    Ok(action)
}

fn padded(r: &mut Reader<'_>) -> Result<u16> {
    let value = r.u16()?;
    r.skip(4)?;
    Ok(value)
}

/// Writes an action that the version has no number for by one of Nicira's, if there is one.
pub(super) fn encode_action(buf: &mut Vec<u8>, action: &Action) -> bool {
    let start = buf.len();
    let head = |buf: &mut Vec<u8>, subtype: u16| {
        buf.put_u16(0xffff);
        buf.put_u16(0);
        buf.put_u32(NICIRA);
        buf.put_u16(subtype);
    };
    match action {
        Action::Resubmit { in_port, table, ct } => {
            let plain = *table == TableId::ALL && !ct;
            head(buf, if plain { 1 } else { 14 + 30 * u16::from(*ct) });
            buf.put_u16(in_port.to_v10().unwrap_or(0xfff8));
            buf.put_u8(if plain { 0 } else { table.0 });
            buf.pad(3);
        }
        Action::PopQueue => {
            head(buf, 5);
            buf.pad(6);
        }
        Action::FinTimeout(FinTimeout { idle_timeout, hard_timeout }) => {
            head(buf, 19);
            buf.put_u16(*idle_timeout);
            buf.put_u16(*hard_timeout);
            buf.pad(2);
        }
        Action::OutputTruncated { port, max_len } => {
            head(buf, 39);
            buf.put_u16(port.to_v10().unwrap_or(0xffff));
            buf.put_u32(*max_len);
        }
        Action::Group(group) => {
            head(buf, GROUP);
            buf.pad(2);
            buf.put_u32(group.0);
        }
        Action::Note(bytes) => {
            head(buf, 8);
            buf.extend_from_slice(bytes);
        }
        Action::CopyField(CopyField { bits, from, to }) => {
            head(buf, 6);
            buf.put_u16(*bits);
            buf.put_u16(from.offset);
            buf.put_u16(to.offset);
            buf.put_u32(header_of(from.field, false).0.0);
            buf.put_u32(header_of(to.field, false).0.0);
        }
        Action::SetField(SetField { field: FieldId::InPort, value, mask: None })
            if let Some(port) = PortNo(*value as u32).to_v10() =>
        {
            head(buf, 7);
            buf.put_u16(15);
            buf.put_u32(header_of(FieldId::InPort, false).0.0);
            buf.put_u64(port.into());
        }
        Action::SetField(SetField { field, value, mask }) => {
            let mask = mask.unwrap_or(field.all_bits());
            let (offset, bits) = (mask.trailing_zeros(), mask.count_ones());
            let run = mask != 0 && mask >> offset == u128::MAX >> (128 - bits);
            // VLAN ids and DSCPs lie otherwise in NXM: by OpenFlow's own header.
            if run && bits <= 64 {
                head(buf, 7);
                buf.put_u16((offset as u16) << 6 | (bits - 1) as u16);
                buf.put_u32(header_of(*field, false).0.0);
                buf.put_u64((value >> offset) as u64);
            } else {
                head(buf, 33);
                buf.pad(6);
                let (header, bytes) = header_of(*field, mask != field.all_bits());
                buf.put_u32(header.0);
                buf.put_number(*value, bytes);
                if mask != field.all_bits() {
                    buf.put_number(mask, bytes);
                }
            }
        }
        Action::Controller(ToController { max_len, reason, id, userdata, meter, pause })
            if !userdata.is_empty() || meter.is_some() || *pause =>
        {
            head(buf, 37);
            buf.pad(6);
            let reason = reason.wire(crate::version::Version::V15);
            let numbers: [(u16, &[u8]); 3] =
                [(0, &max_len.to_be_bytes()), (1, &id.to_be_bytes()), (2, &[reason])];
            for (number, value) in numbers {
                let at = property::begin(buf, number);
                buf.extend_from_slice(value);
                // Small numbers are padded to four bytes, which count.
                buf.pad(4 - value.len());
                property::end(buf, at);
            }
            if !userdata.is_empty() {
                let at = property::begin(buf, 3);
                buf.extend_from_slice(userdata);
                property::end(buf, at);
            }
            if *pause {
                let at = property::begin(buf, 4);
                property::end(buf, at);
            }
            if let Some(meter) = meter {
                let at = property::begin(buf, 5);
                buf.put_u32(meter.0);
                property::end(buf, at);
            }
        }
        Action::Controller(ToController { max_len, reason, id, .. }) => {
            head(buf, 20);
            buf.put_u16(*max_len);
            buf.put_u16(*id);
            buf.put_u8(reason.wire(crate::version::Version::V15));
            buf.pad(1);
        }
        Action::DecNwTtlTo(ids) => {
            head(buf, 21);
            buf.put_u16(ids.len() as u16);
            buf.pad(4);
            ids.iter().for_each(|id| buf.put_u16(*id));
        }
        Action::OutputField { from: Bits { of, count }, max_len } => {
            head(buf, 15);
            let (header, offset) = header_of_bits(*of, *count);
            buf.put_u16(offset << 6 | (count - 1));
            buf.put_u32(header);
            buf.put_u16(*max_len);
            buf.pad(6);
        }
        Action::StackPush(Bits { of, count }) | Action::StackPop(Bits { of, count }) => {
            head(buf, if matches!(action, Action::StackPush(_)) { 27 } else { 28 });
            let (header, offset) = header_of_bits(*of, *count);
            buf.put_u16(offset);
            buf.put_u32(header);
            buf.put_u16(*count);
        }
        Action::CheckPktLarger { bytes, to } => {
            head(buf, 49);
            let (header, offset) = header_of_bits(*to, 1);
            buf.put_u16(*bytes);
            buf.put_u16(offset);
            buf.put_u32(header);
        }
        Action::Multipath(m) => {
            head(buf, 10);
            let number = |at: Option<usize>| at.unwrap_or(0) as u16;
            buf.put_u16(number(HashFields::ALL.iter().position(|(f, _)| *f == m.fields)));
            buf.put_u16(m.basis);
            buf.pad(2);
            buf.put_u16(number(HashAlgorithm::ALL.iter().position(|(a, _)| *a == m.algorithm)));
            buf.put_u16(m.max_link);
            buf.put_u32(m.arg);
            buf.pad(2);
            let (header, offset) = header_of_bits(m.to.of, m.to.count);
            buf.put_u16(offset << 6 | (m.to.count - 1));
            buf.put_u32(header);
        }
        Action::Bundle(m) => {
            head(buf, if m.to.is_some() { 13 } else { 12 });
            encode_bundle(buf, m);
        }
        Action::CtClear => {
            head(buf, 43);
            buf.pad(6);
        }
        Action::Exit => {
            head(buf, 17);
            buf.pad(6);
        }
        Action::Conjunction(m) => {
            head(buf, 34);
            buf.put_u8(m.dimension);
            buf.put_u8(m.dimensions);
            buf.put_u32(m.id);
        }
        Action::Learn(m) => {
            head(buf, if is_longer(m) { 45 } else { 16 });
            encode_learn(buf, m);
        }
        Action::SetQueue(queue) => {
            head(buf, 4);
            buf.pad(2);
            buf.put_u32(queue.0);
        }
        Action::DecNwTtl => {
            head(buf, 18);
            buf.pad(6);
        }
        Action::PushMpls(t) | Action::PopMpls(t) => {
            head(buf, if matches!(action, Action::PushMpls(_)) { 23 } else { 24 });
            buf.put_u16(*t);
            buf.pad(4);
        }
        Action::SetNwTtl(ttl) => {
            return encode_action(buf, &Action::set_field(FieldId::NwTtl, u128::from(*ttl)));
        }
        Action::SetMplsTtl(ttl) => {
            head(buf, 25);
            buf.put_u8(*ttl);
            buf.pad(5);
        }
        Action::DecMplsTtl => {
            head(buf, 26);
            buf.pad(6);
        }
        _ => return false,
    }
    buf.pad_to_8(start);
    buf.patch_length(start + 2, start);
    true
}
