//! Flow monitors (1.4.1 §7.3.5.17), and what came before: Nicira's in 1.0 (`NXST_FLOW_MONITOR`, NXM
//! matches), and the ONF's experimenter multipart 1870 in 1.3, which has Nicira's flags and events
//! with 1.3's matches and instructions.

use super::action::{
    decode_actions, decode_instructions, encode_instructions, encode_instructions_10,
    instructions_from_v10,
};
use super::loss::{Encode, Loss};
use super::nx_match;
use super::oxm::{Unknown, decode_fields, decode_match, encode_match};
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::ids::{GroupId, PortNo, TableId, Xid};
use crate::monitor::{
    FlowMonitorRequest, FlowUpdate, FlowUpdateKind, FullUpdate, MonitorCommand, MonitorFlags,
};
use crate::version::Version;

const ABBREVIATED: u16 = 4;
const PAUSED: u16 = 5;
const RESUMED: u16 = 6;

const KINDS: [FlowUpdateKind; 4] = [
    FlowUpdateKind::Initial,
    FlowUpdateKind::Added,
    FlowUpdateKind::Removed,
    FlowUpdateKind::Modified,
];

/// Nicira's flag of a watcher that sees its own changes in full.
const NX_OWN: u16 = 1 << 5;
/// Nicira's flags that mean what 1.4's of the same bits mean.
const NX_COMMON: u16 = 0x1f;
/// Nicira's number of an abbreviated update, and of one that is none of the three others.
const NX_ABBREVIATED: u16 = 3;

fn flags_from_nx(r: &Reader<'_>, bits: u16) -> Result<MonitorFlags> {
    if bits & !(NX_COMMON | NX_OWN) != 0 {
        let code = ErrorCode::MofcBadFlags;
        return Err(r.bad_value(code, "flow monitor flags", bits, "bits 0 to 5"));
    }
    let mut flags = MonitorFlags::from_bits_truncate(bits & NX_COMMON);
    flags.set(MonitorFlags::NO_ABBREV, bits & NX_OWN != 0);
    Ok(flags)
}

fn flags_to_nx(flags: MonitorFlags) -> u16 {
    let own = if flags.contains(MonitorFlags::NO_ABBREV) { NX_OWN } else { 0 };
    flags.bits() & NX_COMMON | own
}

/// Reads a request of Nicira's (1.0) or the ONF's (1.3).
pub(super) fn decode_request_nx(
    version: Version,
    r: &mut Reader<'_>,
) -> Result<FlowMonitorRequest> {
    let monitor_id = r.u32()?;
    let bits = r.u16()?;
    let flags = flags_from_nx(r, bits)?;
    let (out_port, table_id, matching);
    if version == Version::V10 {
        out_port = PortNo::from_v10(r.u16()?);
        let length = usize::from(r.u16()?);
        table_id = TableId(r.u8()?);
        r.skip(5)?;
        matching = nx_match::decode_match(r, length)?.matching;
    } else {
        let length = usize::from(r.u16()?);
        out_port = PortNo(r.u32()?);
        table_id = TableId(r.u8()?);
        r.skip(3)?;
        // Open vSwitch sends a match with its head, of which the length is that told before; the
        // extension's text has TLVs alone.
        let head = (r.peek_u16(0), r.peek_u16(2));
        matching = if head == (Ok(1), Ok(length as u16)) {
            decode_match(version, r, Unknown::Refuse)?
        } else {
            let padded = length.next_multiple_of(8);
            let mut all = r.sub(padded, "match with its padding", ErrorCode::BmcBadLen)?;
            let mut fields = all.sub(length, "match", ErrorCode::BmcBadLen)?;
            decode_fields(version, &mut fields, Unknown::Refuse)?
        };
    }
    let (command, out_group) = (MonitorCommand::Add, GroupId::ANY);
    Ok(FlowMonitorRequest { monitor_id, command, flags, out_port, out_group, table_id, matching })
}

/// Writes a match, padded; gives back its length without the padding.
fn encode_whole(
    buf: &mut Vec<u8>,
    version: Version,
    matching: &crate::Match,
    loss: Loss,
) -> std::result::Result<u16, super::EncodeError> {
    let start = buf.len();
    if version == Version::V10 {
        return Ok(nx_match::encode_match(buf, matching, (0, 0)) as u16);
    }
    encode_match(buf, version, matching, loss)?;
    // The match tells its length itself, behind its type.
    Ok(u16::from_be_bytes([buf[start + 2], buf[start + 3]]))
}

/// Writes a request in Nicira's or the ONF's form.
pub(super) fn encode_request_nx(
    buf: &mut Vec<u8>,
    version: Version,
    m: &FlowMonitorRequest,
) -> Encode {
    let more = m.flags.contains(MonitorFlags::ONLY_OWN) || m.out_group != GroupId::ANY;
    if m.command != MonitorCommand::Add || more {
        Loss::Refuse.leave_out(version, "such flow monitor request")?;
    }
    buf.put_u32(m.monitor_id);
    buf.put_u16(flags_to_nx(m.flags));
    let length_at;
    if version == Version::V10 {
        buf.put_u16(Loss::Refuse.port(m.out_port)?);
        length_at = buf.len();
        buf.put_u16(0);
        buf.put_u8(m.table_id.0);
        buf.pad(5);
    } else {
        length_at = buf.len();
        buf.put_u16(0);
        buf.put_u32(m.out_port.0);
        buf.put_u8(m.table_id.0);
        buf.pad(3);
    }
    let length = encode_whole(buf, version, &m.matching, Loss::Refuse)?;
    buf[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Reads an update of Nicira's or the ONF's.
pub(super) fn decode_update_nx(version: Version, list: &mut Reader<'_>) -> Result<FlowUpdate> {
    let mut r = list.element(0, 8, "flow update", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let number = r.u16()?;
    let kind = match number {
        0 => FlowUpdateKind::Added,
        1 => FlowUpdateKind::Removed,
        2 => FlowUpdateKind::Modified,
        NX_ABBREVIATED => {
            let xid = Xid(r.u32()?);
            r.finish()?;
            return Ok(FlowUpdate::Abbreviated(xid));
        }
        _ => {
            let code = ErrorCode::BrcBadType;
            return Err(r.bad_value(code, "flow update event", number, "0 to 3"));
        }
    };
    let (reason, priority) = (r.u16()? as u8, r.u16()?);
    let (idle_timeout, hard_timeout) = (r.u16()?, r.u16()?);
    let length = usize::from(r.u16()?);
    let table_id = TableId(r.u8()?);
    r.skip(1)?;
    let cookie = r.u64()?;
    let (matching, instructions);
    if version == Version::V10 {
        matching = nx_match::decode_match(&mut r, length)?.matching;
        instructions = instructions_from_v10(decode_actions(version, &mut r)?);
    } else {
        matching = decode_match(version, &mut r, Unknown::Refuse)?;
        instructions = decode_instructions(version, &mut r)?;
    }
    r.finish()?;
    Ok(FlowUpdate::Full(FullUpdate {
        kind,
        table_id,
        reason,
        idle_timeout,
        hard_timeout,
        priority,
        cookie,
        matching,
        instructions,
    }))
}

/// Writes an update in Nicira's or the ONF's form. An entry that is there when the watching begins
/// is one that is added; pauses are messages of their own there.
pub(super) fn encode_update_nx(buf: &mut Vec<u8>, version: Version, m: &FlowUpdate) -> Encode {
    let start = buf.len();
    buf.put_u16(0);
    match m {
        FlowUpdate::Full(m) => {
            buf.put_u16(match m.kind {
                FlowUpdateKind::Initial | FlowUpdateKind::Added => 0,
                FlowUpdateKind::Removed => 1,
                FlowUpdateKind::Modified => 2,
            });
            buf.put_u16(m.reason.into());
            buf.put_u16(m.priority);
            buf.put_u16(m.idle_timeout);
            buf.put_u16(m.hard_timeout);
            let length_at = buf.len();
            buf.put_u16(0);
            buf.put_u8(m.table_id.0);
            buf.pad(1);
            buf.put_u64(m.cookie);
            let length = encode_whole(buf, version, &m.matching, Loss::LeaveOut)?;
            buf[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
            if version == Version::V10 {
                encode_instructions_10(buf, &m.instructions, Loss::LeaveOut)?;
            } else {
                encode_instructions(buf, version, &m.instructions, &m.matching, Loss::LeaveOut)?;
            }
        }
        FlowUpdate::Abbreviated(xid) => {
            buf.put_u16(NX_ABBREVIATED);
            buf.put_u32(xid.0);
        }
        FlowUpdate::Paused | FlowUpdate::Resumed => {
            buf.truncate(start);
            return Loss::LeaveOut.leave_out(version, "pauses in flow updates");
        }
    }
    buf.patch_length(start, start);
    Ok(())
}

pub(super) fn decode_request(version: Version, r: &mut Reader<'_>) -> Result<FlowMonitorRequest> {
    let monitor_id = r.u32()?;
    let (out_port, out_group) = (PortNo(r.u32()?), GroupId(r.u32()?));
    let bits = r.u16()?;
    let Some(flags) = MonitorFlags::from_bits(bits) else {
        let code = ErrorCode::MofcBadFlags;
        return Err(r.bad_value(code, "flow monitor flags", bits, "bits 0 to 6"));
    };
    let table_id = TableId(r.u8()?);
    let number = r.u8()?;
    let command = match number {
        0 => MonitorCommand::Add,
        1 => MonitorCommand::Modify,
        2 => MonitorCommand::Delete,
        _ => {
            let code = ErrorCode::MofcBadCommand;
            return Err(r.bad_value(code, "flow monitor command", number, "0 to 2"));
        }
    };
    let matching = decode_match(version, r, Unknown::Refuse)?;
    Ok(FlowMonitorRequest { monitor_id, command, flags, out_port, out_group, table_id, matching })
}

pub(super) fn encode_request(
    buf: &mut Vec<u8>,
    version: Version,
    m: &FlowMonitorRequest,
) -> Encode {
    buf.put_u32(m.monitor_id);
    buf.put_u32(m.out_port.0);
    buf.put_u32(m.out_group.0);
    buf.put_u16(m.flags.bits());
    buf.put_u8(m.table_id.0);
    buf.put_u8(m.command as u8);
    encode_match(buf, version, &m.matching, Loss::Refuse)
}

pub(super) fn decode_update(version: Version, list: &mut Reader<'_>) -> Result<FlowUpdate> {
    let mut r = list.element(0, 8, "flow update", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let number = r.u16()?;
    let update = match number {
        0..=3 => {
            let (table_id, reason) = (TableId(r.u8()?), r.u8()?);
            let (idle_timeout, hard_timeout, priority) = (r.u16()?, r.u16()?, r.u16()?);
            r.skip(4)?;
            let cookie = r.u64()?;
            let matching = decode_match(version, &mut r, Unknown::Refuse)?;
            let instructions = decode_instructions(version, &mut r)?;
            FlowUpdate::Full(FullUpdate {
                kind: KINDS[usize::from(number)],
                table_id,
                reason,
                idle_timeout,
                hard_timeout,
                priority,
                cookie,
                matching,
                instructions,
            })
        }
        ABBREVIATED => FlowUpdate::Abbreviated(Xid(r.u32()?)),
        PAUSED | RESUMED => {
            r.skip(4)?;
            if number == PAUSED { FlowUpdate::Paused } else { FlowUpdate::Resumed }
        }
        _ => return Err(r.bad_value(ErrorCode::BrcBadType, "flow update event", number, "0 to 6")),
    };
    r.finish()?;
    Ok(update)
}

pub(super) fn encode_update(buf: &mut Vec<u8>, version: Version, m: &FlowUpdate) -> Encode {
    let start = buf.len();
    buf.put_u16(0);
    match m {
        FlowUpdate::Full(m) => {
            buf.put_u16(m.kind as u16);
            buf.put_u8(m.table_id.0);
            buf.put_u8(m.reason);
            buf.put_u16(m.idle_timeout);
            buf.put_u16(m.hard_timeout);
            buf.put_u16(m.priority);
            buf.pad(4);
            buf.put_u64(m.cookie);
            encode_match(buf, version, &m.matching, Loss::LeaveOut)?;
            encode_instructions(buf, version, &m.instructions, &m.matching, Loss::LeaveOut)?;
        }
        FlowUpdate::Abbreviated(xid) => {
            buf.put_u16(ABBREVIATED);
            buf.put_u32(xid.0);
        }
        FlowUpdate::Paused | FlowUpdate::Resumed => {
            buf.put_u16(if *m == FlowUpdate::Paused { PAUSED } else { RESUMED });
            buf.pad(4);
        }
    }
    buf.patch_length(start, start);
    Ok(())
}
