//! Nicira's `learn`: adds a flow entry made of the packet.

use super::row::{Decoded, FieldUse, Parsed, Row, foreign, head};
use crate::action::Action;
use crate::codec::nxm::{bits_of, header_of_bits, settable};
use crate::codec::oxm;
use crate::codec::reader::Reader;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::extension::{Bits, Learn, LearnSource, LearnSpec, LearnTarget};
use crate::field::FieldId;
use crate::ids::TableId;
use crate::syntax::context::Context;
use crate::syntax::piece::{Piece, Word};
use crate::syntax::subfield::{print_subfield, set_field_name, settable_bits, subfield};
use crate::syntax::value;
use crate::testing::parts;
use crate::testing::rng::Rng;
use crate::version::Version;
use std::fmt::{self, Write};

pub(super) static LEARN: Row = Row {
    name: "learn",
    words: &[("learn", Version::V10)],
    nicira: &[16, 45],
    parse: Some(|word, parsing| parse(word, parsing.cx)),
    print: Some(|out, action, _| {
        let Action::Learn(m) = action else { foreign(action) };
        print(out, m)
    }),
    decode: Some(|subtype, r, _| Ok(Action::Learn(Box::new(decode(r, subtype == 45)?)))),
    encode: Some(|buf, action, _| {
        let Action::Learn(m) = action else { foreign(action) };
        head(buf, if is_longer(m) { 45 } else { 16 });
        put(buf, m);
        Ok(())
    }),
    fields: |action, see| {
        let Action::Learn(learn) = action else { foreign(action) };
        learn.result_dst.iter().for_each(|to| see(FieldUse::Writes, to.field));
        for spec in &learn.specs {
            if let LearnSource::Field(of) = spec.from {
                see(FieldUse::Reads, of.field);
            }
            if let LearnTarget::Match(of) | LearnTarget::Load(of) = spec.to {
                see(FieldUse::Names, of.field);
            }
        }
    },
    arbitrary: Some(|rng, _| Action::Learn(Box::new(arbitrary(rng)))),
    ..Row::EXTENSION
};

const LEARN_SEND_FLOW_REM: u16 = 1;
/// `NX_LEARN_F_DELETE_LEARNED`.
const LEARN_DELETE_LEARNED: u16 = 2;
/// `NX_LEARN_F_WRITE_RESULT`, in the longer form alone.
const LEARN_WRITE_RESULT: u16 = 4;
/// Parts of a learned entry, at most.
const LEARN_SPECS_MAX: usize = 64;

/// `learn`, and in its longer form with a limit and a place for the result.
fn decode(r: &mut Reader<'_>, longer: bool) -> Decoded<Learn> {
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
fn is_longer(m: &Learn) -> bool {
    m.limit != 0 || m.result_dst.is_some()
}

fn put(buf: &mut Vec<u8>, m: &Learn) {
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

/// `learn(OPTIONS, FIELD[BITS]=FIELD[BITS], FIELD=VALUE, load:...->..., output:FIELD[BITS])`.
fn parse(word: &Word<'_>, cx: &Context<'_>) -> Parsed {
    let mut learn = Learn::default();
    let arg = word.arg()?;
    for piece in arg.list() {
        let (key, value) = match piece.split_once("=") {
            Some((key, value)) if !piece.text.starts_with("load:") => (key, Some(value)),
            _ => (piece, None),
        };
        match (key.text, value) {
            ("idle_timeout", Some(value)) => learn.idle_timeout = value.u16()?,
            ("hard_timeout", Some(value)) => learn.hard_timeout = value.u16()?,
            ("priority", Some(value)) => learn.priority = value.u16()?,
            ("cookie", Some(value)) => learn.cookie = value.number(64)?,
            ("table", Some(value)) => match value.u8()? {
                255 => return Err(value.expected("a table from 0 to 254")),
                table => learn.table_id = TableId(table),
            },
            ("send_flow_rem", None) => learn.send_flow_rem = true,
            ("delete_learned", None) => learn.delete_learned = true,
            ("fin_idle_timeout", Some(value)) => learn.fin_idle_timeout = value.u16()?,
            ("fin_hard_timeout", Some(value)) => learn.fin_hard_timeout = value.u16()?,
            ("limit", Some(value)) => learn.limit = value.u32()?,
            ("result_dst", Some(value)) => match settable_bits(value)? {
                Bits { of, count: 1 } => learn.result_dst = Some(of),
                _ => return Err(value.expected("one bit")),
            },
            _ => learn.specs.push(learned(piece, key, value, cx)?),
        }
    }
    Ok(Action::Learn(Box::new(learn)))
}

/// One part of a learned entry.
fn learned(
    piece: Piece<'_>,
    key: Piece<'_>,
    value: Option<Piece<'_>>,
    cx: &Context<'_>,
) -> Parsed<LearnSpec> {
    if let Some((_, load)) = piece.split_once("load:").filter(|(before, _)| before.text.is_empty())
    {
        let Some((from, to)) = load.split_once("->") else {
            return Err(piece.expected("`load:VALUE->FIELD[BITS]` or `load:FIELD[BITS]->...`"));
        };
        let Bits { of, count: bits } = settable_bits(to)?;
        let from = if from.text.contains('[') {
            let (source, n) = subfield(from)?;
            if n != bits {
                return Err(piece.expected("as many bits on both sides"));
            }
            LearnSource::Field(source)
        } else {
            LearnSource::Value(from.number(u32::from(bits).min(64))?.into())
        };
        return Ok(LearnSpec { bits, from, to: LearnTarget::Load(of) });
    }
    if let Some((_, port)) = piece.split_once("output:").filter(|(b, _)| b.text.is_empty()) {
        let (source, bits) = subfield(port)?;
        let from = LearnSource::Field(source);
        return Ok(LearnSpec { bits, from, to: LearnTarget::Output });
    }
    let (of, bits) = subfield(key)?;
    let from = match value {
        // The field's own value.
        None => LearnSource::Field(of),
        Some(value) if value.text.contains('[') => {
            let (source, n) = subfield(value)?;
            if n != bits {
                return Err(piece.expected("as many bits on both sides"));
            }
            LearnSource::Field(source)
        }
        Some(value) => {
            let (number, mask) = value::parse(of.field, value, cx)?;
            if mask != of.field.all_bits() {
                return Err(value.expected("a value without a mask"));
            }
            LearnSource::Value(number)
        }
    };
    Ok(LearnSpec { bits, from, to: LearnTarget::Match(of) })
}

fn print(out: &mut dyn Write, m: &Learn) -> fmt::Result {
    write!(out, "learn(table={}", m.table_id)?;
    if m.idle_timeout != 0 {
        write!(out, ",idle_timeout={}", m.idle_timeout)?;
    }
    if m.hard_timeout != 0 {
        write!(out, ",hard_timeout={}", m.hard_timeout)?;
    }
    if m.priority != 0x8000 {
        write!(out, ",priority={}", m.priority)?;
    }
    if m.fin_idle_timeout != 0 {
        write!(out, ",fin_idle_timeout={}", m.fin_idle_timeout)?;
    }
    if m.fin_hard_timeout != 0 {
        write!(out, ",fin_hard_timeout={}", m.fin_hard_timeout)?;
    }
    if m.send_flow_rem {
        out.write_str(",send_flow_rem")?;
    }
    if m.delete_learned {
        out.write_str(",delete_learned")?;
    }
    if m.cookie != 0 {
        write!(out, ",cookie={:#x}", m.cookie)?;
    }
    if m.limit != 0 {
        write!(out, ",limit={}", m.limit)?;
    }
    if let Some(to) = m.result_dst {
        out.write_str(",result_dst=")?;
        print_subfield(out, to, 1)?;
    }
    for LearnSpec { bits, from, to } in &m.specs {
        out.write_char(',')?;
        match (to, from) {
            (LearnTarget::Match(to), LearnSource::Field(from)) => {
                print_subfield(out, *to, *bits)?;
                if to != from {
                    out.write_char('=')?;
                    print_subfield(out, *from, *bits)?;
                }
            }
            (LearnTarget::Match(to), LearnSource::Value(value)) => {
                let info = to.field.info();
                if u32::from(*bits) == info.bits {
                    write!(out, "{}=", set_field_name(to.field))?;
                    match to.field {
                        // Of any number of digits, other than in matches.
                        FieldId::EthType => write!(out, "{value:#x}")?,
                        field => value::print(out, field, *value, field.all_bits())?,
                    }
                } else {
                    print_subfield(out, *to, *bits)?;
                    write!(out, "={value:#x}")?;
                }
            }
            (LearnTarget::Load(to), from) => {
                out.write_str("load:")?;
                match from {
                    LearnSource::Field(from) => print_subfield(out, *from, *bits)?,
                    LearnSource::Value(value) => write!(out, "{value:#x}")?,
                }
                out.write_str("->")?;
                print_subfield(out, *to, *bits)?;
            }
            (LearnTarget::Output, from) => {
                out.write_str("output:")?;
                match from {
                    LearnSource::Field(from) => print_subfield(out, *from, *bits)?,
                    LearnSource::Value(value) => write!(out, "{value}")?,
                }
            }
        }
    }
    out.write_char(')')
}

fn arbitrary(rng: &mut Rng) -> Learn {
    let specs = parts::list(rng, |rng| {
        let from = parts::bits(rng, false);
        let to = loop {
            let to = parts::bits(rng, true).of;
            // The bit that says that there is a tag is the whole tag's.
            let width = if to.field == FieldId::VlanVid { 12 } else { to.field.info().bits };
            if width >= u32::from(to.offset + from.count) {
                break to.narrowed(from.count);
            }
        };
        let taken = LearnSource::Field(from.of);
        let value = LearnSource::Value(rng.u128() >> (128 - from.count));
        let (from, bits) = (if rng.one_in(3) { value } else { taken }, from.count);
        match rng.below(3) {
            0 if from == taken => LearnSpec { bits, from, to: LearnTarget::Output },
            1 => LearnSpec { bits, from, to: LearnTarget::Load(to) },
            _ => LearnSpec { bits, from: taken, to: LearnTarget::Match(to) },
        }
    });
    Learn {
        idle_timeout: rng.u16(),
        hard_timeout: rng.u16(),
        priority: rng.u16(),
        cookie: rng.u64(),
        send_flow_rem: rng.one_in(2),
        delete_learned: rng.one_in(2),
        fin_idle_timeout: rng.u16(),
        fin_hard_timeout: rng.u16(),
        limit: if rng.one_in(2) { rng.u32() } else { 0 },
        result_dst: rng.one_in(3).then(|| parts::bits(rng, true).of.narrowed(1)),
        table_id: TableId(rng.u8() % 255),
        specs,
    }
}
