//! Nicira's `conjunction`: the entry is one of a dimension's of a conjunctive flow.

use super::row::{Parsed, Row, foreign, head};
use crate::action::Action;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::extension::Conjunction;
use crate::syntax::piece::Word;
use crate::version::Version;

pub(super) static CONJUNCTION: Row = Row {
    name: "conjunction",
    words: &[("conjunction", Version::V10)],
    nicira: &[34],
    parse: Some(|word, _| parse(word)),
    print: Some(|out, action, _| {
        let Action::Conjunction(m) = action else { foreign(action) };
        write!(out, "conjunction({},{}/{})", m.id, m.dimension + 1, m.dimensions)
    }),
    decode: Some(|_, r, _| {
        let (dimension, dimensions) = (r.u8()?, r.u8()?);
        let conjunction = Conjunction { dimension, dimensions, id: r.u32()? };
        if !conjunction.is_sound() {
            let right = "2 to 64 dimensions, and one of them";
            let got = u16::from_be_bytes([dimension, dimensions]);
            return Err(r.bad_value(ErrorCode::BacBadArgument, "conjunction", got, right));
        }
        Ok(Action::Conjunction(conjunction))
    }),
    encode: Some(|buf, action, _| {
        let Action::Conjunction(m) = action else { foreign(action) };
        head(buf, 34);
        buf.put_u8(m.dimension);
        buf.put_u8(m.dimensions);
        buf.put_u32(m.id);
        Ok(())
    }),
    arbitrary: Some(|rng, _| {
        let dimensions = 2 + (rng.u8() & 31);
        let dimension = rng.u8() % dimensions;
        Action::Conjunction(Conjunction { id: rng.u32(), dimension, dimensions })
    }),
    ..Row::EXTENSION
};

/// `conjunction(ID,K/N)`, K from 1 on.
fn parse(word: &Word<'_>) -> Parsed {
    let arg = word.arg()?;
    let wrong = || arg.expected("`conjunction(ID,K/N)`, K from 1 to N, N from 2 to 64");
    let (id, place) = arg.split_once(",").ok_or_else(wrong)?;
    let (k, n) = place.split_once("/").ok_or_else(wrong)?;
    let (id, k, n) = (id.trim().u32()?, k.trim().u8()?, n.trim().u8()?);
    let dimension = k.checked_sub(1).ok_or_else(wrong)?;
    let conjunction = Conjunction { id, dimension, dimensions: n };
    if conjunction.is_sound() { Ok(Action::Conjunction(conjunction)) } else { Err(wrong()) }
}
