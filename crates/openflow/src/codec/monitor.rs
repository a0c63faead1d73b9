//! Flow monitors (1.4.1 §7.3.5.17).

use super::action::{decode_instructions, encode_instructions};
use super::oxm::{Unknown, decode_match, encode_match};
use super::reader::{Reader, Result};
use super::writer::Put;
use super::{Encode, Loss};
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
