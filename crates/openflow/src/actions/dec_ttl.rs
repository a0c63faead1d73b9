//! Nicira's `dec_ttl(ID,ID...)`, which says whose controllers are told of what expires. Without ids it is OpenFlow's.

use super::row::{Decoded, Parsed, Parsing, Row, foreign, head};
use crate::action::Action;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::syntax::piece::Word;

pub(super) static TO: Row = Row {
    name: "dec_ttl with ids",
    nicira: &[21],
    parse: Some(parse),
    print: Some(|out, action, _| {
        let Action::DecNwTtlTo(ids) = action else { foreign(action) };
        let ids: Vec<String> = ids.iter().map(u16::to_string).collect();
        write!(out, "dec_ttl({})", ids.join(","))
    }),
    decode: Some(|_, r, _| {
        let count = usize::from(r.u16()?);
        r.skip(4)?;
        if count * 2 > r.left() {
            let right = "as many ids as there are";
            return Err(r.bad_value(ErrorCode::BacBadLen, "dec_ttl's ids", count as u16, right));
        }
        let ids = (0..count).map(|_| r.u16()).collect::<Decoded<_>>()?;
        r.rest();
        Ok(Action::DecNwTtlTo(ids))
    }),
    encode: Some(|buf, action, _| {
        let Action::DecNwTtlTo(ids) = action else { foreign(action) };
        head(buf, 21);
        buf.put_u16(ids.len() as u16);
        buf.pad(4);
        ids.iter().for_each(|id| buf.put_u16(*id));
        Ok(())
    }),
    arbitrary: Some(|rng, _| Action::DecNwTtlTo((0..rng.below(3)).map(|_| rng.u16()).collect())),
    ..Row::EXTENSION
};

/// `dec_ttl`, `dec_ttl(ID,ID...)`.
pub(super) fn parse(word: &Word<'_>, _: &Parsing<'_>) -> Parsed {
    match word.value {
        // As `ovs-ofctl` takes `dec_ttl()`.
        Some(ids) if !ids.text.is_empty() => {
            let ids = ids.text.split(',').map(|id| id.trim().parse().ok());
            let ids: Option<Vec<u16>> = ids.collect();
            ids.map(Action::DecNwTtlTo)
                .ok_or_else(|| word.key.expected("`dec_ttl(ID,ID...)`, ids from 0 to 65535"))
        }
        _ => {
            word.bare()?;
            Ok(Action::DecNwTtl)
        }
    }
}
