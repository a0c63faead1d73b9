//! The action `learn`, as Nicira writes it (ovs-actions(7)).

use super::nxm::{bits_of, header_of_bits, settable};
use super::oxm;
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::extension::{Learn, LearnSource, LearnSpec, LearnTarget};
use crate::ids::TableId;

/// `NX_LEARN_F_SEND_FLOW_REM`.
const LEARN_SEND_FLOW_REM: u16 = 1;
/// `NX_LEARN_F_DELETE_LEARNED`.
const LEARN_DELETE_LEARNED: u16 = 2;
/// `NX_LEARN_F_WRITE_RESULT`, in the longer form alone.
const LEARN_WRITE_RESULT: u16 = 4;
/// Parts of a learned entry, at most.
const LEARN_SPECS_MAX: usize = 64;

/// `learn`, and in its longer form with a limit and a place for the result.
pub(super) fn decode_learn(r: &mut Reader<'_>, longer: bool) -> Result<Learn> {
    let (idle_timeout, hard_timeout, priority) = (r.u16()?, r.u16()?, r.u16()?);
    let (cookie, flags) = (r.u64()?, r.u16()?);
    let table_id = TableId(r.u8()?);
    r.skip(1)?;
    let (fin_idle_timeout, fin_hard_timeout) = (r.u16()?, r.u16()?);
    let bad = |r: &Reader<'_>, what, got: u16, right| {
        Err(r.bad_value(ErrorCode::BacBadArgument, what, got, right))
    };
    let known = LEARN_SEND_FLOW_REM | LEARN_DELETE_LEARNED;
    match longer {
        false if flags & !known != 0 => {
            return bad(r, "learn's flags", flags, "send_flow_rem (1) and delete_learned (2)");
        }
        true if flags & !(known | LEARN_WRITE_RESULT) != 0 => {
            let right = "send_flow_rem (1), delete_learned (2) and write_result (4)";
            return bad(r, "learn's flags", flags, right);
        }
        _ => {}
    }
    if table_id == TableId::ALL {
        return bad(r, "learn's table", 255, "one table");
    }
    let (mut limit, mut result_dst) = (0, None);
    if longer {
        limit = r.u32()?;
        let offset = r.u16()?;
        r.skip(2)?;
        if flags & LEARN_WRITE_RESULT != 0 {
            let header = oxm::header(r)?;
            let to = bits_of(r, header, offset, 1)?;
            settable(r, to.field)?;
            result_dst = Some(to);
        } else if offset != 0 {
            return bad(r, "learn's result_dst", offset, "0, as no result is written");
        }
    }
    let mut specs = Vec::new();
    while r.left() >= 2 {
        let head = r.u16()?;
        // Padding.
        if head == 0 {
            break;
        }
        if specs.len() == LEARN_SPECS_MAX {
            return bad(r, "learn's part", head, "64 parts at most");
        }
        let bits = head & 0x3ff;
        let from = if head >> 13 & 1 == 1 {
            let bytes = usize::from(bits.div_ceil(16)) * 2;
            if bits == 0 || bytes > 16 {
                return bad(r, "bits of learn's value", bits, "1 to 128");
            }
            LearnSource::Value(r.number(bytes)?)
        } else {
            let (header, offset) = (oxm::header(r)?, r.u16()?);
            LearnSource::Field(bits_of(r, header, offset, bits)?)
        };
        if let LearnSource::Value(value) = from
            && bits < 128
            && value >> bits != 0
        {
            return bad(r, "learn's value", value as u16, "a value of so many bits");
        }
        let to = match head >> 11 & 3 {
            2 => LearnTarget::Output,
            kind @ (0 | 1) => {
                let (header, offset) = (oxm::header(r)?, r.u16()?);
                let of = bits_of(r, header, offset, bits)?;
                if kind == 0 { LearnTarget::Match(of) } else { LearnTarget::Load(of) }
            }
            kind => return bad(r, "learn's target", kind, "0 to 2"),
        };
        if head >> 14 != 0 {
            return bad(r, "learn's part", head, "two highest bits 0");
        }
        specs.push(LearnSpec { bits, from, to });
    }
    r.rest();
    let send_flow_rem = flags & LEARN_SEND_FLOW_REM != 0;
    let delete_learned = flags & LEARN_DELETE_LEARNED != 0;
    Ok(Learn {
        idle_timeout,
        hard_timeout,
        priority,
        cookie,
        send_flow_rem,
        delete_learned,
        fin_idle_timeout,
        fin_hard_timeout,
        limit,
        result_dst,
        table_id,
        specs,
    })
}

/// Whether only the longer form can say it.
pub(super) fn is_longer(m: &Learn) -> bool {
    m.limit != 0 || m.result_dst.is_some()
}

pub(super) fn encode_learn(buf: &mut Vec<u8>, m: &Learn) {
    buf.put_u16(m.idle_timeout);
    buf.put_u16(m.hard_timeout);
    buf.put_u16(m.priority);
    buf.put_u64(m.cookie);
    let flag = |said: bool, bit: u16| if said { bit } else { 0 };
    buf.put_u16(
        flag(m.send_flow_rem, LEARN_SEND_FLOW_REM)
            | flag(m.delete_learned, LEARN_DELETE_LEARNED)
            | flag(m.result_dst.is_some(), LEARN_WRITE_RESULT),
    );
    buf.put_u8(m.table_id.0);
    buf.pad(1);
    buf.put_u16(m.fin_idle_timeout);
    buf.put_u16(m.fin_hard_timeout);
    if is_longer(m) {
        buf.put_u32(m.limit);
        let place = m.result_dst.map(|to| header_of_bits(to, 1));
        buf.put_u16(place.map_or(0, |(_, offset)| offset));
        buf.pad(2);
        if let Some((header, _)) = place {
            buf.put_u32(header);
        }
    }
    let put = |buf: &mut Vec<u8>, of, bits| {
        let (header, offset) = header_of_bits(of, bits);
        buf.put_u32(header);
        buf.put_u16(offset);
    };
    for spec in &m.specs {
        let value = matches!(spec.from, LearnSource::Value(_));
        let kind = match spec.to {
            LearnTarget::Match(_) => 0,
            LearnTarget::Load(_) => 1,
            LearnTarget::Output => 2,
        };
        buf.put_u16(u16::from(value) << 13 | kind << 11 | spec.bits);
        match spec.from {
            LearnSource::Field(of) => put(buf, of, spec.bits),
            LearnSource::Value(value) => {
                buf.put_number(value, usize::from(spec.bits.div_ceil(16)) * 2);
            }
        }
        if let LearnTarget::Match(of) | LearnTarget::Load(of) = spec.to {
            put(buf, of, spec.bits);
        }
    }
}
