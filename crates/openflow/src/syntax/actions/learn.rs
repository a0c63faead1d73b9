//! `learn`: what an entry that the packet makes matches and does.

use super::subfield::{settable_bits, subfield};
use crate::action::Action;
use crate::extension::{Bits, Learn, LearnSource, LearnSpec, LearnTarget};
use crate::ids::TableId;
use crate::syntax::context::Context;
use crate::syntax::piece::{Piece, Result, Word};
use crate::syntax::value;

/// `learn(OPTIONS, FIELD[BITS]=FIELD[BITS], FIELD=VALUE, load:...->..., output:FIELD[BITS])`.
pub(super) fn learn(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
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
) -> Result<LearnSpec> {
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
