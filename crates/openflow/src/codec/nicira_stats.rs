//! Statistics of flow entries as Nicira has them in 1.0 (`NXST_FLOW`, `NXST_AGGREGATE`): matches of NXM, all tables.

use super::action::{decode_actions, encode_instructions_10, instructions_from_v10};
use super::nicira::{NxMatch, decode_match, encode_match};
use super::reader::{Reader, Result};
use super::writer::Put;
use super::{Encode, Loss};
use crate::error::ErrorCode;
use crate::flow::{FlowModFlags, FlowStats, FlowStatsRequest};
use crate::ids::{Age, GroupId, PortNo, TableId};
use crate::version::Version;

/// What a flow request of NXM asks (`NXST_FLOW`, `NXST_AGGREGATE`).
pub(super) fn decode_request(r: &mut Reader<'_>) -> Result<FlowStatsRequest> {
    let out_port = PortNo::from_v10(r.u16()?);
    let length = usize::from(r.u16()?);
    let table_id = TableId(r.u8()?);
    r.skip(3)?;
    let NxMatch { matching, cookie, cookie_mask } = decode_match(r, length)?;
    Ok(FlowStatsRequest {
        table_id,
        out_port,
        out_group: GroupId::ANY,
        cookie,
        cookie_mask,
        matching,
        extended: true,
    })
}

pub(super) fn encode_request(buf: &mut Vec<u8>, m: &FlowStatsRequest) -> Encode {
    if m.out_group != GroupId::ANY {
        Loss::Refuse.leave_out(Version::V10, "filter by group")?;
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
pub(super) fn decode(list: &mut Reader<'_>) -> Result<FlowStats> {
    let mut r = list.element(0, 48, "flow statistics", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let table_id = TableId(r.u8()?);
    r.skip(1)?;
    let age = Age { sec: r.u32()?, nsec: r.u32()? };
    let (priority, idle_timeout, hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
    let length = usize::from(r.u16()?);
    r.skip(4)?;
    let (cookie, packet_count, byte_count) = (r.u64()?, r.u64()?, r.u64()?);
    let matching = decode_match(&mut r, length)?.matching;
    let actions = decode_actions(Version::V10, &mut r)?;
    Ok(FlowStats {
        table_id,
        age,
        priority,
        idle_timeout,
        hard_timeout,
        flags: FlowModFlags::empty(),
        importance: 0,
        cookie,
        packet_count,
        byte_count,
        uncounted: Default::default(),
        matching,
        instructions: instructions_from_v10(actions),
    })
}

/// Writes a flow entry of a reply to `NXST_FLOW`.
pub(super) fn encode(buf: &mut Vec<u8>, m: &FlowStats) -> Encode {
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
    encode_instructions_10(buf, &m.instructions, Loss::LeaveOut)?;
    buf.patch_length(start, start);
    Ok(())
}
