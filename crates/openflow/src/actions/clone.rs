//! Open vSwitch's `clone`: actions on a copy of the packet.

use super::row::{Parsed, Parsing, Row, foreign, head};
use crate::action::Action;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::syntax::piece::Word;
use crate::version::Version;

pub(super) static CLONE: Row = Row {
    name: "clone",
    words: &[("clone", Version::V10)],
    nicira: &[42],
    parse: Some(parse),
    print: Some(|out, action, printing| {
        let Action::Clone(inner) = action else { foreign(action) };
        out.write_str("clone(")?;
        (printing.list)(out, inner, printing.version)?;
        out.write_char(')')
    }),
    decode: Some(|_, r, of| {
        if of.depth >= Action::CLONE_DEPTH_MAX {
            let right = "at most 8 of them inside each other";
            return Err(r.bad_value(ErrorCode::BacTooMany, "clone", of.depth as u32 + 1, right));
        }
        r.skip(6)?;
        (of.list)(of.version, r, of.depth + 1).map(Action::Clone)
    }),
    encode: Some(|buf, action, list| {
        let Action::Clone(inner) = action else { foreign(action) };
        head(buf, 42);
        buf.pad(6);
        list(buf, inner)
    }),
    arbitrary: Some(|rng, making| {
        let count = rng.below(4);
        let one = |_| (making.action)(rng, making.version, making.depth + 1);
        Action::Clone((0..count).map(one).collect())
    }),
    ..Row::EXTENSION
};

/// `clone(ACTIONS)`.
fn parse(word: &Word<'_>, parsing: &Parsing<'_>) -> Parsed {
    let list = match word.value {
        Some(list) if word.parenthesised() => list,
        _ => return Err(word.key.refused("its actions follow in parentheses")),
    };
    // No deeper than they may be, whatever else has parentheses.
    let mut depth = 0;
    let most = list.text.chars().fold(0, |most, c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        most.max(depth)
    });
    if most >= Action::CLONE_DEPTH_MAX as i32 {
        let max = Action::CLONE_DEPTH_MAX;
        return Err(word.key.refused(format!("at most {max} of them stand inside each other")));
    }
    (parsing.list)(list, parsing.cx).map(Action::Clone)
}
