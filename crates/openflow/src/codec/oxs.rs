//! Extensible statistics of flow entries: a list of OXS TLVs (1.5.1 §7.2.4).

use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::flow::EntryStats;
use crate::ids::Age;

const CLASS_BASIC: u16 = 0x8002;
const DURATION: u8 = 0;
const IDLE_TIME: u8 = 1;
const FLOW_COUNT: u8 = 3;
const PACKET_COUNT: u8 = 4;
const BYTE_COUNT: u8 = 5;

/// Reads `ofp_stats` with its padding. Fields that are not known only inform, and are left out.
pub(super) fn decode(r: &mut Reader<'_>) -> Result<EntryStats> {
    fields(r, |_, _| Ok(()))
}

/// Reads `ofp_stats` that say when to tell of an entry. Each field counts: those that no entry has are refused.
pub(super) fn decode_thresholds(r: &mut Reader<'_>) -> Result<EntryStats> {
    let stats = fields(r, |value, header| {
        let (code, what) = (ErrorCode::BicUnsupInst, "stat-trigger's statistic");
        Err(value.bad_value(code, what, header, "duration, idle time, packets or bytes"))
    })?;
    for age in [stats.duration, stats.idle].into_iter().flatten() {
        if age.nsec >= 1_000_000_000 {
            let (code, what) = (ErrorCode::BicUnsupInst, "stat-trigger's nanoseconds");
            return Err(r.bad_value(code, what, age.nsec, "less than a second"));
        }
    }
    Ok(stats)
}

/// Reads `ofp_stats` with its padding; `other` judges fields that are not of an entry.
fn fields(
    r: &mut Reader<'_>,
    other: impl Fn(&Reader<'_>, u32) -> Result<()>,
) -> Result<EntryStats> {
    let head = r.named("statistics", ErrorCode::BrcBadLen);
    let length = usize::from(head.peek_u16(2)?);
    if length < 4 {
        return Err(head.bad_length(length, "4 or more"));
    }
    let mut padded =
        r.sub(length.next_multiple_of(8), "statistics with their padding", ErrorCode::BrcBadLen)?;
    padded.skip(4)?;
    let mut fields = padded.sub(length - 4, "statistics", ErrorCode::BrcBadLen)?;
    let mut stats = EntryStats::default();
    while !fields.is_empty() {
        let class = fields.u16()?;
        let number = fields.u8()? >> 1;
        let length = usize::from(fields.u8()?);
        let mut value = fields.sub(length, "statistics field", ErrorCode::BrcBadLen)?;
        match (class, number) {
            (CLASS_BASIC, DURATION) => stats.duration = Some(age(&mut value)?),
            (CLASS_BASIC, IDLE_TIME) => stats.idle = Some(age(&mut value)?),
            (CLASS_BASIC, FLOW_COUNT) => {
                other(&value, u32::from(class) << 16 | u32::from(number) << 9)?;
                stats.flows = Some(value.u32()?);
            }
            (CLASS_BASIC, PACKET_COUNT) => stats.packets = Some(value.u64()?),
            (CLASS_BASIC, BYTE_COUNT) => stats.bytes = Some(value.u64()?),
            _ => {
                other(&value, u32::from(class) << 16 | u32::from(number) << 9)?;
                value.rest();
            }
        }
        value.finish()?;
    }
    Ok(stats)
}

fn age(r: &mut Reader<'_>) -> Result<Age> {
    Ok(Age { sec: r.u32()?, nsec: r.u32()? })
}

/// Writes `ofp_stats` with its padding.
pub(super) fn encode(buf: &mut Vec<u8>, stats: &EntryStats) {
    let start = buf.len();
    let head = |buf: &mut Vec<u8>, number: u8, length: u8| {
        buf.put_u16(CLASS_BASIC);
        buf.put_u8(number << 1);
        buf.put_u8(length);
    };
    buf.put_u16(0);
    buf.put_u16(0);
    for (number, age) in [(DURATION, stats.duration), (IDLE_TIME, stats.idle)] {
        if let Some(age) = age {
            head(buf, number, 8);
            buf.put_age(age);
        }
    }
    if let Some(flows) = stats.flows {
        head(buf, FLOW_COUNT, 4);
        buf.put_u32(flows);
    }
    for (number, count) in [(PACKET_COUNT, stats.packets), (BYTE_COUNT, stats.bytes)] {
        if let Some(count) = count {
            head(buf, number, 8);
            buf.put_u64(count);
        }
    }
    buf.patch_length(start + 2, start);
    buf.pad_to_8(start);
}
