//! Nicira's extensions, of which Open vSwitch's tools make use (ovs-fields(7), ovs-actions(7)):
//! matches of NXM TLVs, actions, and in 1.0 the messages that carry them.
//!
//! What they say is said by the neutral form where that has a word: a load is a set-field, a move a
//! copy-field, NXM's flow-mod a flow-mod. What is not known is refused by name.

use super::reader::{DecodeError, Reader, Result};
use super::writer::Put;
use super::{Encode, Loss};
use crate::action::{Action, CopyField, SetField, Subfield};
use crate::error::ErrorCode;
use crate::field::{FieldId, NXM_CLASS_NX, NXM_CLASS_OF, OxmHeader, VLAN_PRESENT};
use crate::flow_match::{Match, MatchField};
use crate::ids::{GroupId, PortNo, QueueId, TableId};

/// Nicira's experimenter id.
pub const NICIRA: u32 = 0x0000_2320;

/// Fields whose NXM number differs from OXM's: class, number, bytes of the value.
const NXM: [(FieldId, u16, u8, u8); 35] = {
    use FieldId::*;
    const OF: u16 = NXM_CLASS_OF;
    const NX: u16 = NXM_CLASS_NX;
    [
        (InPort, OF, 0, 2),
        (EthDst, OF, 1, 6),
        (EthSrc, OF, 2, 6),
        (EthType, OF, 3, 2),
        (IpProto, OF, 6, 1),
        (Ipv4Src, OF, 7, 4),
        (Ipv4Dst, OF, 8, 4),
        (TcpSrc, OF, 9, 2),
        (TcpDst, OF, 10, 2),
        (UdpSrc, OF, 11, 2),
        (UdpDst, OF, 12, 2),
        (Icmpv4Type, OF, 13, 1),
        (Icmpv4Code, OF, 14, 1),
        (ArpOp, OF, 15, 2),
        (ArpSpa, OF, 16, 4),
        (ArpTpa, OF, 17, 4),
        (TunnelId, NX, 16, 8),
        (ArpSha, NX, 17, 6),
        (ArpTha, NX, 18, 6),
        (Ipv6Src, NX, 19, 16),
        (Ipv6Dst, NX, 20, 16),
        (Icmpv6Type, NX, 21, 1),
        (Icmpv6Code, NX, 22, 1),
        (Ipv6NdTarget, NX, 23, 16),
        (Ipv6NdSll, NX, 24, 6),
        (Ipv6NdTll, NX, 25, 6),
        (IpFrag, NX, 26, 1),
        (Ipv6Flabel, NX, 27, 4),
        (IpEcn, NX, 28, 1),
        (NwTtl, NX, 29, 1),
        (TcpFlags, NX, 34, 2),
        // OXM's numbers, which NXM has none for.
        (Metadata, 0x8000, 2, 8),
        (MplsLabel, 0x8000, 34, 4),
        (MplsTc, 0x8000, 35, 1),
        (MplsBos, 0x8000, 36, 1),
    ]
};

/// `NXM_OF_VLAN_TCI`: the tag's 16 bits, of which 0x1000 says that there is one.
const VLAN_TCI: (u16, u8) = (NXM_CLASS_OF, 4);
/// `NXM_OF_IP_TOS`: the DSCP in its place in the byte.
const IP_TOS: (u16, u8) = (NXM_CLASS_OF, 5);
/// `NXM_NX_COOKIE`: a filter of flow-mods and requests, no field.
const COOKIE: (u16, u8) = (NXM_CLASS_NX, 30);

/// A header's field and the bytes of its value, if it is one whole field.
pub(super) fn field_of(header: OxmHeader) -> Option<(FieldId, usize)> {
    let key = (header.class(), header.number());
    NXM.iter()
        .find(|(_, class, number, _)| (*class, *number) == key)
        .map(|(id, _, _, bytes)| (*id, usize::from(*bytes)))
        .or_else(|| header.field().map(|id| (id, usize::from(id.info().bytes))))
}

/// The header that NXM has for a field.
fn header_of(id: FieldId, mask: bool) -> (OxmHeader, usize) {
    match NXM.iter().find(|(field, ..)| *field == id) {
        Some((_, class, number, bytes)) => {
            let length = u32::from(*bytes) << u32::from(mask);
            let bits = u32::from(*class) << 16 | u32::from(*number) << 9 | u32::from(mask) << 8;
            (OxmHeader(bits | length), usize::from(*bytes))
        }
        None => (OxmHeader::of(id, mask), usize::from(id.info().bytes)),
    }
}

/// A match of NXM TLVs, and the cookie that it filters by.
#[derive(Default)]
pub(super) struct NxMatch {
    pub(super) matching: Match,
    pub(super) cookie: u64,
    pub(super) cookie_mask: u64,
}

/// Reads `length` bytes of NXM TLVs and the padding behind them.
pub(super) fn decode_match(r: &mut Reader<'_>, length: usize) -> Result<NxMatch> {
    let padded = length.next_multiple_of(8);
    let mut all = r.sub(padded, "match with its padding", ErrorCode::BmcBadLen)?;
    let mut fields = all.sub(length, "match", ErrorCode::BmcBadLen)?;
    let mut out = NxMatch::default();
    while !fields.is_empty() {
        let header = OxmHeader(fields.u32()?);
        let key = (header.class(), header.number());
        let (id, bytes) = match key {
            VLAN_TCI => (FieldId::VlanVid, 2),
            IP_TOS => (FieldId::IpDscp, 1),
            COOKIE => (FieldId::Metadata, 8),
            _ => field_of(header).ok_or_else(|| {
                let right = "a field of NXM or OpenFlow that is known here";
                fields.bad_value(ErrorCode::BmcBadField, "NXM header", header.0, right)
            })?,
        };
        if header.length() != bytes << u32::from(header.has_mask()) {
            let right = "the field's length, doubled with a mask";
            return Err(fields.bad_value(ErrorCode::BmcBadLen, "NXM header", header.0, right));
        }
        let mut value = fields.number(bytes)?;
        let all = u128::MAX >> (128 - 8 * bytes);
        let mut mask = if header.has_mask() { fields.number(bytes)? } else { all };
        if value & !mask != 0 {
            let right = "a value within its mask";
            return Err(fields.bad_value(ErrorCode::BmcBadWildcards, "NXM value", value, right));
        }
        match key {
            COOKIE => {
                (out.cookie, out.cookie_mask) = (value as u64, mask as u64);
                continue;
            }
            VLAN_TCI => {
                vlan_tci(&mut out.matching, value, mask);
                continue;
            }
            IP_TOS => (value, mask) = (value >> 2, mask >> 2),
            _ if id == FieldId::InPort => value = PortNo::from_v10(value as u16).0.into(),
            _ => {}
        }
        let whole = !header.has_mask() || mask & id.all_bits() == id.all_bits();
        if whole {
            mask = id.all_bits();
        }
        let field = MatchField::masked(id, value & mask, mask)
            .map_err(|e| super::oxm::match_error(&fields, e))?;
        out.matching.check_prerequisites(id).map_err(|e| super::oxm::match_error(&fields, e))?;
        out.matching.insert(field).map_err(|e| super::oxm::match_error(&fields, e))?;
    }
    Ok(out)
}

/// NXM's tag as OpenFlow's id and priority.
fn vlan_tci(matching: &mut Match, tci: u128, mask: u128) {
    matching.set_masked(FieldId::VlanVid, tci & 0x1fff, mask & 0x1fff);
    let no_tag = mask & VLAN_PRESENT != 0 && tci & VLAN_PRESENT == 0;
    if mask >> 13 == 7 && !no_tag {
        matching.set(FieldId::VlanPcp, tci >> 13);
    }
}

/// Writes NXM TLVs without padding; gives back how many bytes.
pub(super) fn encode_match(buf: &mut Vec<u8>, matching: &Match, cookie: (u64, u64)) -> usize {
    let start = buf.len();
    let vid = matching.get(FieldId::VlanVid).map_or((0, 0), |f| (f.value, f.mask));
    let pcp = matching.get(FieldId::VlanPcp).map_or((0, 0), |f| (f.value, f.mask));
    let (tci, mut tci_mask) = (vid.0 | pcp.0 << 13, vid.1 | pcp.1 << 13);
    // Without a tag none of its bits is set.
    if vid.1 == 0x1fff && vid.0 == 0 {
        tci_mask = 0xffff;
    }
    for field in matching {
        let (mut value, mut mask) = (field.value, field.mask);
        match field.id {
            FieldId::VlanPcp => continue,
            FieldId::VlanVid => {
                let whole = tci_mask == 0xffff;
                let length = if whole { 2 } else { 4 };
                buf.put_u32(0x0000_0800 | u32::from(!whole) << 8 | length);
                buf.put_u16(tci as u16);
                if !whole {
                    buf.put_u16(tci_mask as u16);
                }
                continue;
            }
            FieldId::IpDscp => {
                buf.put_u32(0x0000_0a01);
                buf.put_u8((value << 2) as u8);
                continue;
            }
            FieldId::InPort => {
                value = PortNo(value as u32).to_v10().unwrap_or(0xffff).into();
                mask = 0xffff;
            }
            _ => {}
        }
        let masked = !field.is_exact();
        let (header, bytes) = header_of(field.id, masked);
        buf.put_u32(header.0);
        buf.put_number(value, bytes);
        if masked {
            buf.put_number(mask, bytes);
        }
    }
    if cookie.1 != 0 {
        buf.put_u32(0x0001_3d10);
        buf.put_u64(cookie.0);
        buf.put_u64(cookie.1);
    }
    let length = buf.len() - start;
    buf.pad_to_8(start);
    length
}

/// Actions that are known by name and not done here.
fn name(subtype: u16) -> &'static str {
    match subtype {
        5 => "pop_queue",
        10 => "multipath",
        12 | 13 => "bundle",
        15 | 32 => "output to a field",
        16 | 45 => "learn",
        17 => "exit",
        19 => "fin_timeout",
        21 => "dec_ttl with controller ids",
        27 | 28 => "push and pop",
        29 | 38 | 41 => "sample",
        34 => "conjunction",
        35 | 36 | 43 | 44 => "ct",
        37 => "controller with options",
        39 => "a truncating output",
        42 => "clone",
        46 | 47 => "encap and decap",
        48 => "dec_nsh_ttl",
        49 => "check_pkt_larger",
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

/// One end of a load or move.
fn subfield(r: &mut Reader<'_>, header: u32) -> Result<FieldId> {
    let header = OxmHeader(header);
    match field_of(header).filter(|_| !header.has_mask()) {
        Some((field, _)) => Ok(field),
        None => Err(r.bad_value(
            ErrorCode::BacBadArgument,
            "NXM header",
            header.0,
            "a field that is known here, without a mask",
        )),
    }
}

fn within(r: &Reader<'_>, field: FieldId, offset: u16, bits: u16) -> Result<()> {
    if bits == 0 || u32::from(offset) + u32::from(bits) > field.info().bits {
        let right = "1 or more bits, within the field";
        return Err(r.bad_value(ErrorCode::BacBadArgument, "bits of a field", bits, right));
    }
    Ok(())
}

/// Reads what follows the experimenter's id.
pub(super) fn decode_action(mut r: Reader<'_>) -> Result<Action> {
    let subtype = r.u16()?;
    let set = |field, value: u128| Action::set_field(field, value);
    let action = match subtype {
        1 => {
            let in_port = PortNo::from_v10(r.u16()?);
            r.skip(4)?;
            Action::Resubmit { in_port, table: TableId::ALL }
        }
        14 => {
            let in_port = PortNo::from_v10(r.u16()?);
            let table = TableId(r.u8()?);
            r.skip(3)?;
            Action::Resubmit { in_port, table }
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
            let (from, to) = (r.u32()?, r.u32()?);
            let (from, to) = (subfield(&mut r, from)?, subfield(&mut r, to)?);
            within(&r, from, from_offset, bits)?;
            within(&r, to, to_offset, bits)?;
            let from = Subfield { field: from, offset: from_offset };
            Action::CopyField(CopyField {
                bits,
                from,
                to: Subfield { field: to, offset: to_offset },
            })
        }
        7 => {
            let place = r.u16()?;
            let (offset, bits) = (place >> 6, (place & 0x3f) + 1);
            let header = r.u32()?;
            let field = subfield(&mut r, header)?;
            let value = u128::from(r.u64()?);
            within(&r, field, offset, bits)?;
            if bits < 64 && value >> bits != 0 {
                let right = "a value of so many bits";
                return Err(r.bad_value(ErrorCode::BacBadArgument, "load's value", value, right));
            }
            let mask = (u128::MAX >> (128 - u32::from(bits))) << offset;
            let mask = (mask != field.all_bits()).then_some(mask);
            Action::SetField(SetField { field, value: value << offset, mask })
        }
        8 => Action::Note(r.rest().to_vec()),
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
            let (id, reason) = (r.u16()?, r.u8()?);
            r.skip(1)?;
            if id != 0 || reason != 1 {
                return Err(unknown(&r, 37));
            }
            Action::Output { port: PortNo::CONTROLLER, max_len }
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
            let header = OxmHeader(r.u32()?);
            let Some((field, bytes)) = field_of(header) else {
                let right = "a field that is known here";
                return Err(r.bad_value(ErrorCode::BacBadSetType, "NXM header", header.0, right));
            };
            let value = r.number(bytes)?;
            let mask = if header.has_mask() { Some(r.number(bytes)?) } else { None };
            r.rest();
            if value & !mask.unwrap_or(field.all_bits()) != 0 {
                let right = "a value within the field and its mask";
                return Err(r.bad_value(
                    ErrorCode::BacBadSetArgument,
                    "load's value",
                    value,
                    right,
                ));
            }
            let mask = mask.filter(|m| *m != field.all_bits());
            Action::SetField(SetField { field, value, mask })
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
        Action::Resubmit { in_port, table } => {
            head(buf, if *table == TableId::ALL { 1 } else { 14 });
            buf.put_u16(in_port.to_v10().unwrap_or(0xfff8));
            buf.put_u8(if *table == TableId::ALL { 0 } else { table.0 });
            buf.pad(3);
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

/// What a flow request of NXM asks (`NXST_FLOW`, `NXST_AGGREGATE`).
pub(super) fn decode_stats_request(r: &mut Reader<'_>) -> Result<crate::flow::FlowStatsRequest> {
    let out_port = PortNo::from_v10(r.u16()?);
    let length = usize::from(r.u16()?);
    let table_id = TableId(r.u8()?);
    r.skip(3)?;
    let NxMatch { matching, cookie, cookie_mask } = decode_match(r, length)?;
    Ok(crate::flow::FlowStatsRequest {
        table_id,
        out_port,
        out_group: GroupId::ANY,
        cookie,
        cookie_mask,
        matching,
        extended: true,
    })
}

pub(super) fn encode_stats_request(buf: &mut Vec<u8>, m: &crate::flow::FlowStatsRequest) -> Encode {
    if m.out_group != GroupId::ANY {
        Loss::Refuse.leave_out(crate::version::Version::V10, "filter by group")?;
    }
    buf.put_u16(Loss::Refuse.port(m.out_port)?);
    let length_at = buf.len();
    buf.put_u16(0);
    buf.put_u8(m.table_id.0);
    buf.pad(3);
    let length = encode_match(buf, &m.matching, (m.cookie, m.cookie_mask)) as u16;
    buf[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Reads a flow entry of a reply to `NXST_FLOW`.
pub(super) fn decode_stats(list: &mut Reader<'_>) -> Result<crate::flow::FlowStats> {
    let mut r = list.element(0, 48, "flow statistics", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let table_id = TableId(r.u8()?);
    r.skip(1)?;
    let age = crate::ids::Age { sec: r.u32()?, nsec: r.u32()? };
    let (priority, idle_timeout, hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
    let length = usize::from(r.u16()?);
    r.skip(4)?;
    let (cookie, packet_count, byte_count) = (r.u64()?, r.u64()?, r.u64()?);
    let matching = decode_match(&mut r, length)?.matching;
    let actions = super::action::decode_actions(crate::version::Version::V10, &mut r)?;
    Ok(crate::flow::FlowStats {
        table_id,
        age,
        priority,
        idle_timeout,
        hard_timeout,
        flags: crate::flow::FlowModFlags::empty(),
        importance: 0,
        cookie,
        packet_count,
        byte_count,
        matching,
        instructions: super::action::instructions_from_v10(actions),
    })
}

/// Writes a flow entry of a reply to `NXST_FLOW`.
pub(super) fn encode_stats(buf: &mut Vec<u8>, m: &crate::flow::FlowStats) -> Encode {
    let start = buf.len();
    buf.put_u16(0);
    buf.put_u8(m.table_id.0);
    buf.pad(1);
    buf.put_age(m.age);
    buf.put_u16(m.priority);
    buf.put_u16(m.idle_timeout);
    buf.put_u16(m.hard_timeout);
    let length_at = buf.len();
    buf.put_u16(0);
    // How long it has been idle, and unchanged, is not told.
    buf.pad(4);
    buf.put_u64(m.cookie);
    buf.put_u64(m.packet_count);
    buf.put_u64(m.byte_count);
    let length = encode_match(buf, &m.matching, (0, 0)) as u16;
    buf[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    super::action::encode_instructions_10(buf, &m.instructions, Loss::LeaveOut)?;
    buf.patch_length(start, start);
    Ok(())
}
