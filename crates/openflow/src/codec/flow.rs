//! Flow-mod, flow-removed and flow statistics (1.3.5 §7.3.4.1, §7.4.2, §7.3.5.2; 1.0.2 §5.3.3).

use super::action::{
    decode_actions, decode_instructions, encode_instructions, encode_instructions_10,
    instructions_from_v10,
};
use super::buffer::{buffer_from_wire, buffer_to_wire};
use super::loss::{Encode, EncodeError, Loss};
use super::oxm::{Unknown, decode_match, encode_match};
use super::reader::{Reader, Result};
use super::writer::Put;
use super::{match10, nx_match, oxs};
use crate::error::ErrorCode;
use crate::flow::{
    AggregateStats, EntryStats, FlowCounts, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved,
    FlowRemovedReason, FlowStats, FlowStatsRequest, Uncounted,
};
use crate::flow_match::Match;
use crate::ids::NICIRA;
use crate::ids::{Age, GroupId, PortNo, TableId};
use crate::version::Version;

const EMERG_V10: u16 = 1 << 2;
const FLAGS_V10: FlowModFlags = FlowModFlags::SEND_FLOW_REM.union(FlowModFlags::CHECK_OVERLAP);
const FLAGS_V13: FlowModFlags = FlowModFlags::all().difference(FlowModFlags::EMERG);

const COMMANDS: [FlowModCommand; 5] = [
    FlowModCommand::Add,
    FlowModCommand::Modify,
    FlowModCommand::ModifyStrict,
    FlowModCommand::Delete,
    FlowModCommand::DeleteStrict,
];

fn command(r: &Reader<'_>, number: u16) -> Result<FlowModCommand> {
    COMMANDS
        .get(usize::from(number))
        .copied()
        .ok_or_else(|| r.bad_value(ErrorCode::FmfcBadCommand, "flow-mod command", number, "0 to 4"))
}

fn flags(r: &Reader<'_>, version: Version, bits: u16) -> Result<FlowModFlags> {
    let (known, emerg) = match version {
        Version::V10 => (FLAGS_V10.bits(), EMERG_V10),
        _ => (FLAGS_V13.bits(), 0),
    };
    if bits & !(known | emerg) != 0 {
        let right = match version {
            Version::V10 => "bits 0 to 2",
            _ => "bits 0 to 4",
        };
        return Err(r.bad_value(ErrorCode::FmfcBadFlags, "flow-mod flags", bits, right));
    }
    let mut flags = FlowModFlags::from_bits_truncate(bits & known);
    flags.set(FlowModFlags::EMERG, bits & emerg != 0);
    Ok(flags)
}

/// A flow entry's importance, padding before 1.4.
fn importance(version: Version, r: &mut Reader<'_>) -> Result<u16> {
    let importance = r.u16()?;
    Ok(if version >= Version::V14 { importance } else { 0 })
}

fn put_importance(buf: &mut Vec<u8>, version: Version, importance: u16) {
    buf.put_u16(if version >= Version::V14 { importance } else { 0 });
}

/// The command of 1.0, and the table in its high byte if that is asked for.
fn command_10(r: &mut Reader<'_>, table_ids: bool) -> Result<(FlowModCommand, TableId)> {
    let number = r.u16()?;
    if table_ids {
        return Ok((command(r, number & 0xff)?, TableId((number >> 8) as u8)));
    }
    Ok((command(r, number)?, TableId::ALL))
}

/// Reads NXM's flow-mod (`NXT_FLOW_MOD`).
pub(super) fn decode_nx_mod(table_ids: bool, r: &mut Reader<'_>) -> Result<FlowMod> {
    let version = Version::V10;
    let cookie = r.u64()?;
    let (command, table_id) = command_10(r, table_ids)?;
    let (idle_timeout, hard_timeout, priority) = (r.u16()?, r.u16()?, r.u16()?);
    let buffer_id = buffer_from_wire(r.u32()?);
    let out_port = PortNo::from_v10(r.u16()?);
    let bits = r.u16()?;
    let flags = flags(r, version, bits)?;
    let length = usize::from(r.u16()?);
    r.skip(6)?;
    let nx = nx_match::decode_match(r, length)?;
    if command == FlowModCommand::Add && nx.cookie_mask != 0 {
        let right = "no cookie in the match of an add";
        return Err(r.bad_value(ErrorCode::BmcBadField, "cookie filter", nx.cookie_mask, right));
    }
    let actions = decode_actions(version, r)?;
    // A filter's cookie is in the match, a new one in the message.
    let filters = nx.cookie_mask != 0;
    Ok(FlowMod {
        dialect: version,
        cookie: if filters { nx.cookie } else { cookie },
        cookie_mask: nx.cookie_mask,
        new_cookie: Some(cookie).filter(|cookie| filters && *cookie != u64::MAX),
        table_id,
        command,
        idle_timeout,
        hard_timeout,
        priority,
        buffer_id,
        out_port,
        out_group: GroupId::ANY,
        flags,
        importance: 0,
        extended: true,
        uncounted: Uncounted::default(),
        matching: nx.matching,
        instructions: instructions_from_v10(actions),
    })
}

fn encode_nx_mod(buf: &mut Vec<u8>, m: &FlowMod) -> Encode {
    let command = COMMANDS.iter().position(|c| *c == m.command).unwrap_or(0) as u16;
    let table = if m.table_id == TableId::ALL { 0 } else { m.table_id.0 };
    let emerg = if m.flags.contains(FlowModFlags::EMERG) { EMERG_V10 } else { 0 };
    buf.put_u32(NICIRA);
    buf.put_u32(13);
    let filters = m.cookie_mask != 0;
    buf.put_u64(if filters { m.new_cookie.unwrap_or(u64::MAX) } else { m.cookie });
    buf.put_u16(u16::from(table) << 8 | command);
    buf.put_u16(m.idle_timeout);
    buf.put_u16(m.hard_timeout);
    buf.put_u16(m.priority);
    buf.put_u32(buffer_to_wire(m.buffer_id));
    buf.put_u16(Loss::Refuse.port(m.out_port)?);
    buf.put_u16((m.flags & FLAGS_V10).bits() | emerg);
    let length_at = buf.len();
    buf.pad(8);
    let length = nx_match::encode_match(buf, &m.matching, (m.cookie, m.cookie_mask)) as u16;
    buf[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    encode_instructions_10(buf, &m.instructions, Loss::Refuse)
}

pub(super) fn decode_mod(version: Version, table_ids: bool, r: &mut Reader<'_>) -> Result<FlowMod> {
    match version {
        Version::V10 => {
            let exact = match10::is_exact(*r)?;
            let (matching, icmp) = match10::decode_with_icmp(r)?;
            let cookie = r.u64()?;
            let (command, table_id) = command_10(r, table_ids)?;
            let idle_timeout = r.u16()?;
            let hard_timeout = r.u16()?;
            let said = r.u16()?;
            //= openflow-1.0.2 §3.4: an entry without wildcards has the highest priority.
            let priority = if exact { u16::MAX } else { said };
            let uncounted = Uncounted { priority: (said != priority).then_some(said), icmp };
            let buffer_id = buffer_from_wire(r.u32()?);
            let out_port = PortNo::from_v10(r.u16()?);
            let bits = r.u16()?;
            let flags = flags(r, version, bits)?;
            let actions = decode_actions(version, r)?;
            Ok(FlowMod {
                dialect: version,
                cookie,
                cookie_mask: 0,
                new_cookie: None,
                table_id,
                command,
                idle_timeout,
                hard_timeout,
                priority,
                buffer_id,
                out_port,
                out_group: GroupId::ANY,
                flags,
                importance: 0,
                extended: table_ids,
                uncounted,
                matching,
                instructions: instructions_from_v10(actions),
            })
        }
        _ => {
            let cookie = r.u64()?;
            let cookie_mask = r.u64()?;
            let table_id = TableId(r.u8()?);
            let number = r.u8()?;
            let command = command(r, number.into())?;
            let idle_timeout = r.u16()?;
            let hard_timeout = r.u16()?;
            let priority = r.u16()?;
            let buffer_id = buffer_from_wire(r.u32()?);
            let out_port = PortNo(r.u32()?);
            let out_group = GroupId(r.u32()?);
            let bits = r.u16()?;
            let flags = flags(r, version, bits)?;
            let importance = importance(version, r)?;
            let matching = decode_match(version, r, Unknown::Refuse)?;
            let instructions = decode_instructions(version, r)?;
            Ok(FlowMod {
                dialect: version,
                cookie,
                cookie_mask,
                new_cookie: None,
                table_id,
                command,
                idle_timeout,
                hard_timeout,
                priority,
                buffer_id,
                out_port,
                out_group,
                flags,
                importance,
                extended: false,
                uncounted: Uncounted::default(),
                matching,
                instructions,
            })
        }
    }
}

pub(super) fn encode_mod(buf: &mut Vec<u8>, version: Version, m: &FlowMod) -> Encode {
    let command = COMMANDS.iter().position(|c| *c == m.command).unwrap_or(0) as u8;
    match version {
        Version::V10 if m.extended => encode_nx_mod(buf, m),
        Version::V10 => {
            let wildcards = buf.len();
            if !match10::encode_with_icmp(buf, &m.matching, m.uncounted.icmp) {
                return Err(EncodeError::MatchBeyondV10);
            }
            if m.uncounted.priority.is_some() {
                // Nothing was wild, fields of protocols that the packet does not have included.
                buf[wildcards..wildcards + 4].fill(0);
            }
            let filters = m.command != FlowModCommand::Add;
            let deletes =
                matches!(m.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
            if deletes && m.out_group != GroupId::ANY {
                return Loss::Refuse.leave_out(version, "filter by group");
            }
            if filters && m.cookie_mask != 0 {
                return Loss::Refuse.leave_out(version, "filter by cookie");
            }
            if !matches!(m.table_id, TableId::ALL | TableId(0)) {
                return Loss::Refuse.leave_out(version, "table number in a flow-mod");
            }
            buf.put_u64(m.cookie);
            buf.put_u16(command.into());
            buf.put_u16(m.idle_timeout);
            buf.put_u16(m.hard_timeout);
            buf.put_u16(m.uncounted.priority.unwrap_or(m.priority));
            buf.put_u32(buffer_to_wire(m.buffer_id));
            buf.put_u16(Loss::Refuse.port(m.out_port)?);
            let emerg = if m.flags.contains(FlowModFlags::EMERG) { EMERG_V10 } else { 0 };
            buf.put_u16((m.flags & FLAGS_V10).bits() | emerg);
            encode_instructions_10(buf, &m.instructions, Loss::Refuse)
        }
        _ => {
            buf.put_u64(m.cookie);
            buf.put_u64(m.cookie_mask);
            buf.put_u8(m.table_id.0);
            buf.put_u8(command);
            buf.put_u16(m.idle_timeout);
            buf.put_u16(m.hard_timeout);
            buf.put_u16(m.priority);
            buf.put_u32(buffer_to_wire(m.buffer_id));
            buf.put_u32(m.out_port.0);
            buf.put_u32(m.out_group.0);
            buf.put_u16((m.flags & FLAGS_V13).bits());
            put_importance(buf, version, m.importance);
            encode_match(buf, version, &m.matching, Loss::Refuse)?;
            encode_instructions(buf, version, &m.instructions, &m.matching, Loss::Refuse)
        }
    }
}

fn age(r: &mut Reader<'_>) -> Result<Age> {
    Ok(Age { sec: r.u32()?, nsec: r.u32()? })
}

fn removed_reason(version: Version, r: &Reader<'_>, number: u8) -> Result<FlowRemovedReason> {
    match (number, version) {
        (0, _) => Ok(FlowRemovedReason::IdleTimeout),
        (1, _) => Ok(FlowRemovedReason::HardTimeout),
        (2, _) => Ok(FlowRemovedReason::Delete),
        (3, _) if version >= Version::V13 => Ok(FlowRemovedReason::GroupDelete),
        (4, _) if version >= Version::V14 => Ok(FlowRemovedReason::MeterDelete),
        (5, _) if version >= Version::V14 => Ok(FlowRemovedReason::Eviction),
        _ => {
            let right = match version {
                Version::V10 => "0 to 2",
                Version::V13 => "0 to 3",
                Version::V14 | Version::V15 => "0 to 5",
            };
            Err(r.bad_value(ErrorCode::BrcBadType, "flow-removed reason", number, right))
        }
    }
}

pub(super) fn decode_removed(version: Version, r: &mut Reader<'_>) -> Result<FlowRemoved> {
    match version {
        Version::V10 => {
            let (matching, icmp) = match10::decode_with_icmp(r)?;
            let cookie = r.u64()?;
            let priority = r.u16()?;
            let number = r.u8()?;
            let reason = removed_reason(version, r, number)?;
            r.skip(1)?;
            let age = age(r)?;
            let idle_timeout = r.u16()?;
            r.skip(2)?;
            Ok(FlowRemoved {
                cookie,
                priority,
                reason,
                table_id: TableId(0),
                age,
                idle_timeout,
                hard_timeout: 0,
                packet_count: r.u64()?,
                byte_count: r.u64()?,
                uncounted: Uncounted { priority: None, icmp },
                matching,
            })
        }
        Version::V15 => {
            let table_id = TableId(r.u8()?);
            let number = r.u8()?;
            let reason = removed_reason(version, r, number)?;
            let priority = r.u16()?;
            let (idle_timeout, hard_timeout) = (r.u16()?, r.u16()?);
            let cookie = r.u64()?;
            let matching = decode_match(version, r, Unknown::Refuse)?;
            let stats = oxs::decode(r)?;
            Ok(FlowRemoved {
                cookie,
                priority,
                reason,
                table_id,
                age: stats.duration.unwrap_or_default(),
                idle_timeout,
                hard_timeout,
                packet_count: stats.packets.unwrap_or(u64::MAX),
                byte_count: stats.bytes.unwrap_or(u64::MAX),
                uncounted: Uncounted::default(),
                matching,
            })
        }
        _ => {
            let cookie = r.u64()?;
            let priority = r.u16()?;
            let number = r.u8()?;
            Ok(FlowRemoved {
                cookie,
                priority,
                reason: removed_reason(version, r, number)?,
                table_id: TableId(r.u8()?),
                age: age(r)?,
                idle_timeout: r.u16()?,
                hard_timeout: r.u16()?,
                packet_count: r.u64()?,
                byte_count: r.u64()?,
                uncounted: Uncounted::default(),
                matching: decode_match(version, r, Unknown::Refuse)?,
            })
        }
    }
}

pub(super) fn encode_removed(buf: &mut Vec<u8>, version: Version, m: &FlowRemoved) -> Encode {
    let reason = m.reason.wire(version);
    match version {
        Version::V10 => {
            match10::encode_with_icmp(buf, &m.matching, m.uncounted.icmp);
            buf.put_u64(m.cookie);
            buf.put_u16(m.uncounted.priority.unwrap_or(m.priority));
            buf.put_u8(reason);
            buf.pad(1);
            buf.put_age(m.age);
            buf.put_u16(m.idle_timeout);
            buf.pad(2);
            buf.put_u64(m.packet_count);
            buf.put_u64(m.byte_count);
        }
        Version::V15 => {
            buf.put_u8(m.table_id.0);
            buf.put_u8(reason);
            buf.put_u16(m.priority);
            buf.put_u16(m.idle_timeout);
            buf.put_u16(m.hard_timeout);
            buf.put_u64(m.cookie);
            encode_match(buf, version, &m.matching, Loss::LeaveOut)?;
            oxs::encode(
                buf,
                &EntryStats {
                    duration: Some(m.age),
                    packets: Some(m.packet_count),
                    bytes: Some(m.byte_count),
                    ..EntryStats::default()
                },
            );
        }
        _ => {
            buf.put_u64(m.cookie);
            buf.put_u16(m.priority);
            buf.put_u8(reason);
            buf.put_u8(m.table_id.0);
            buf.put_age(m.age);
            buf.put_u16(m.idle_timeout);
            buf.put_u16(m.hard_timeout);
            buf.put_u64(m.packet_count);
            buf.put_u64(m.byte_count);
            encode_match(buf, version, &m.matching, Loss::LeaveOut)?;
        }
    }
    Ok(())
}

pub(super) fn decode_stats_request(
    version: Version,
    r: &mut Reader<'_>,
) -> Result<FlowStatsRequest> {
    match version {
        Version::V10 => {
            let matching = match10::decode(r)?;
            let table_id = TableId(r.u8()?);
            r.skip(1)?;
            let out_port = PortNo::from_v10(r.u16()?);
            Ok(FlowStatsRequest { table_id, out_port, matching, ..FlowStatsRequest::all() })
        }
        _ => {
            let table_id = TableId(r.u8()?);
            r.skip(3)?;
            let out_port = PortNo(r.u32()?);
            let out_group = GroupId(r.u32()?);
            r.skip(4)?;
            Ok(FlowStatsRequest {
                table_id,
                out_port,
                out_group,
                cookie: r.u64()?,
                cookie_mask: r.u64()?,
                matching: decode_match(version, r, Unknown::Refuse)?,
                extended: false,
            })
        }
    }
}

pub(super) fn encode_stats_request(
    buf: &mut Vec<u8>,
    version: Version,
    m: &FlowStatsRequest,
) -> Encode {
    match version {
        Version::V10 => {
            if !match10::encode(buf, &m.matching) {
                return Err(EncodeError::MatchBeyondV10);
            }
            if m.out_group != GroupId::ANY {
                Loss::Refuse.leave_out(version, "filter by group")?;
            }
            if m.cookie_mask != 0 {
                Loss::Refuse.leave_out(version, "filter by cookie")?;
            }
            buf.put_u8(m.table_id.0);
            buf.pad(1);
            buf.put_u16(Loss::Refuse.port(m.out_port)?);
        }
        _ => {
            buf.put_u8(m.table_id.0);
            buf.pad(3);
            buf.put_u32(m.out_port.0);
            buf.put_u32(m.out_group.0);
            buf.pad(4);
            buf.put_u64(m.cookie);
            buf.put_u64(m.cookie_mask);
            encode_match(buf, version, &m.matching, Loss::Refuse)?;
        }
    }
    Ok(())
}

/// Reads a flow description of 1.5 (1.5.1 §7.3.5.2).
fn decode_stats_15(list: &mut Reader<'_>) -> Result<FlowStats> {
    let version = Version::V15;
    let mut r = list.element(0, 32, "flow description", ErrorCode::BrcBadLen)?;
    r.skip(4)?;
    let table_id = TableId(r.u8()?);
    r.skip(1)?;
    let priority = r.u16()?;
    let (idle_timeout, hard_timeout) = (r.u16()?, r.u16()?);
    let flags = FlowModFlags::from_bits_truncate(r.u16()?) & FLAGS_V13;
    let importance = r.u16()?;
    let cookie = r.u64()?;
    let matching = decode_match(version, &mut r, Unknown::Refuse)?;
    let stats = oxs::decode(&mut r)?;
    let instructions = decode_instructions(version, &mut r)?;
    Ok(FlowStats {
        table_id,
        age: stats.duration.unwrap_or_default(),
        priority,
        idle_timeout,
        hard_timeout,
        flags,
        importance,
        cookie,
        packet_count: stats.packets.unwrap_or(u64::MAX),
        byte_count: stats.bytes.unwrap_or(u64::MAX),
        uncounted: Uncounted::default(),
        matching,
        instructions,
    })
}

fn encode_stats_15(buf: &mut Vec<u8>, m: &FlowStats) -> Encode {
    let version = Version::V15;
    let start = buf.len();
    buf.put_u16(0);
    buf.pad(2);
    buf.put_u8(m.table_id.0);
    buf.pad(1);
    buf.put_u16(m.priority);
    buf.put_u16(m.idle_timeout);
    buf.put_u16(m.hard_timeout);
    buf.put_u16((m.flags & FLAGS_V13).bits());
    buf.put_u16(m.importance);
    buf.put_u64(m.cookie);
    encode_match(buf, version, &m.matching, Loss::LeaveOut)?;
    let stats = EntryStats {
        duration: Some(m.age),
        packets: Some(m.packet_count),
        bytes: Some(m.byte_count),
        ..EntryStats::default()
    };
    oxs::encode(buf, &stats);
    encode_instructions(buf, version, &m.instructions, &m.matching, Loss::LeaveOut)?;
    buf.patch_length(start, start);
    Ok(())
}

/// Reads counters alone (1.5.1 §7.3.5.3).
pub(super) fn decode_counts(list: &mut Reader<'_>) -> Result<FlowCounts> {
    let mut r = list.element(0, 16, "flow statistics", ErrorCode::BrcBadLen)?;
    r.skip(4)?;
    let (table_id, reason, priority) = (TableId(r.u8()?), r.u8()?, r.u16()?);
    let matching = decode_match(Version::V15, &mut r, Unknown::Refuse)?;
    let stats = oxs::decode(&mut r)?;
    r.finish()?;
    Ok(FlowCounts { table_id, reason, priority, matching, stats })
}

pub(super) fn encode_counts(buf: &mut Vec<u8>, m: &FlowCounts) -> Encode {
    let start = buf.len();
    buf.put_u16(0);
    buf.pad(2);
    buf.put_u8(m.table_id.0);
    buf.put_u8(m.reason);
    buf.put_u16(m.priority);
    encode_match(buf, Version::V15, &m.matching, Loss::LeaveOut)?;
    oxs::encode(buf, &m.stats);
    buf.patch_length(start, start);
    Ok(())
}

pub(super) fn decode_stats(version: Version, list: &mut Reader<'_>) -> Result<FlowStats> {
    if version >= Version::V15 {
        return decode_stats_15(list);
    }
    let min = match version {
        Version::V10 => 88,
        _ => 56,
    };
    let mut r = list.element(0, min, "flow statistics", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let table_id = TableId(r.u8()?);
    r.skip(1)?;
    let (mut matching, icmp) = match version {
        Version::V10 => match10::decode_with_icmp(&mut r)?,
        _ => (Match::new(), [0; 2]),
    };
    let age = age(&mut r)?;
    let priority = r.u16()?;
    let idle_timeout = r.u16()?;
    let hard_timeout = r.u16()?;
    let mut flags = FlowModFlags::empty();
    let mut entry_importance = 0;
    match version {
        Version::V10 => r.skip(6)?,
        _ => {
            flags = FlowModFlags::from_bits_truncate(r.u16()?) & FLAGS_V13;
            entry_importance = importance(version, &mut r)?;
            r.skip(2)?;
        }
    }
    let cookie = r.u64()?;
    let packet_count = r.u64()?;
    let byte_count = r.u64()?;
    let instructions = match version {
        Version::V10 => instructions_from_v10(decode_actions(version, &mut r)?),
        _ => {
            matching = decode_match(version, &mut r, Unknown::Refuse)?;
            decode_instructions(version, &mut r)?
        }
    };
    Ok(FlowStats {
        table_id,
        age,
        priority,
        idle_timeout,
        hard_timeout,
        flags,
        importance: entry_importance,
        cookie,
        packet_count,
        byte_count,
        uncounted: Uncounted { priority: None, icmp },
        matching,
        instructions,
    })
}

pub(super) fn encode_stats(buf: &mut Vec<u8>, version: Version, m: &FlowStats) -> Encode {
    if version >= Version::V15 {
        return encode_stats_15(buf, m);
    }
    let start = buf.len();
    buf.put_u16(0);
    buf.put_u8(m.table_id.0);
    buf.pad(1);
    let mut priority = m.priority;
    if version == Version::V10 {
        match10::encode_with_icmp(buf, &m.matching, m.uncounted.icmp);
        priority = m.uncounted.priority.unwrap_or(priority);
    }
    buf.put_age(m.age);
    buf.put_u16(priority);
    buf.put_u16(m.idle_timeout);
    buf.put_u16(m.hard_timeout);
    match version {
        Version::V10 => buf.pad(6),
        _ => {
            buf.put_u16((m.flags & FLAGS_V13).bits());
            put_importance(buf, version, m.importance);
            buf.pad(2);
        }
    }
    buf.put_u64(m.cookie);
    buf.put_u64(m.packet_count);
    buf.put_u64(m.byte_count);
    match version {
        Version::V10 => encode_instructions_10(buf, &m.instructions, Loss::LeaveOut)?,
        _ => {
            encode_match(buf, version, &m.matching, Loss::LeaveOut)?;
            encode_instructions(buf, version, &m.instructions, &m.matching, Loss::LeaveOut)?;
        }
    }
    buf.patch_length(start, start);
    Ok(())
}

/// What a flow request of NXM asks (`NXST_FLOW`, `NXST_AGGREGATE`).
pub(super) fn decode_nx_stats_request(r: &mut Reader<'_>) -> Result<FlowStatsRequest> {
    let out_port = PortNo::from_v10(r.u16()?);
    let length = usize::from(r.u16()?);
    let table_id = TableId(r.u8()?);
    r.skip(3)?;
    let nx_match::NxMatch { matching, cookie, cookie_mask } = nx_match::decode_match(r, length)?;
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

pub(super) fn encode_nx_stats_request(buf: &mut Vec<u8>, m: &FlowStatsRequest) -> Encode {
    if m.out_group != GroupId::ANY {
        Loss::Refuse.leave_out(Version::V10, "filter by group")?;
    }
    buf.put_u16(Loss::Refuse.port(m.out_port)?);
    let length_at = buf.len();
    buf.put_u16(0);
    buf.put_u8(m.table_id.0);
    buf.pad(3);
    let length = nx_match::encode_match(buf, &m.matching, (m.cookie, m.cookie_mask)) as u16;
    buf[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Reads a flow entry of a reply to `NXST_FLOW`.
pub(super) fn decode_nx_stats(list: &mut Reader<'_>) -> Result<FlowStats> {
    let mut r = list.element(0, 48, "flow statistics", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let table_id = TableId(r.u8()?);
    r.skip(1)?;
    let age = age(&mut r)?;
    let (priority, idle_timeout, hard_timeout) = (r.u16()?, r.u16()?, r.u16()?);
    let length = usize::from(r.u16()?);
    r.skip(4)?;
    let (cookie, packet_count, byte_count) = (r.u64()?, r.u64()?, r.u64()?);
    let matching = nx_match::decode_match(&mut r, length)?.matching;
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
pub(super) fn encode_nx_stats(buf: &mut Vec<u8>, m: &FlowStats) -> Encode {
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
    let length = nx_match::encode_match(buf, &m.matching, (0, 0)) as u16;
    buf[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    encode_instructions_10(buf, &m.instructions, Loss::LeaveOut)?;
    buf.patch_length(start, start);
    Ok(())
}

pub(super) fn decode_aggregate(version: Version, r: &mut Reader<'_>) -> Result<AggregateStats> {
    if version >= Version::V15 {
        let stats = oxs::decode(r)?;
        return Ok(AggregateStats {
            packet_count: stats.packets.unwrap_or(u64::MAX),
            byte_count: stats.bytes.unwrap_or(u64::MAX),
            flow_count: stats.flows.unwrap_or(u32::MAX),
        });
    }
    let stats =
        AggregateStats { packet_count: r.u64()?, byte_count: r.u64()?, flow_count: r.u32()? };
    r.skip(4)?;
    Ok(stats)
}

pub(super) fn encode_aggregate(buf: &mut Vec<u8>, version: Version, m: &AggregateStats) {
    if version >= Version::V15 {
        let stats = EntryStats {
            flows: Some(m.flow_count),
            packets: Some(m.packet_count),
            bytes: Some(m.byte_count),
            ..EntryStats::default()
        };
        return oxs::encode(buf, &stats);
    }
    buf.put_u64(m.packet_count);
    buf.put_u64(m.byte_count);
    buf.put_u32(m.flow_count);
    buf.pad(4);
}
