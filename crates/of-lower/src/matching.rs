//! Matches to patterns of the flow tables' key, and back.
//!
//! The key has one column for each field, at the field's number, so a match is translated field by
//! field. Equal matches give equal patterns: exact where the mask is all ones, absent where it is
//! zero, in ascending order.

use ir::{Bits, KeyMatch, Pattern};
use openflow::{FieldId, Match};

/// Patterns of a match.
pub fn lower_match(matching: &Match) -> Box<[KeyMatch]> {
    let pattern = |f: &openflow::MatchField| {
        let width = f.id.info().bits;
        let value = Bits::from_u128(f.value, width);
        let pattern = if f.is_exact() {
            Pattern::Exact(value)
        } else {
            Pattern::Masked(value, Bits::from_u128(f.mask, width))
        };
        KeyMatch { key: f.id as u16, pattern }
    };
    matching.iter().map(pattern).collect()
}

/// The match of patterns that [`lower_match`] made; of others, what a match can say: ranges and
/// unknown columns are left out.
pub fn raise_match(matches: &[KeyMatch]) -> Match {
    let mut out = Match::new();
    for m in matches {
        let Some(id) = FieldId::ALL.get(m.key as usize) else { continue };
        match &m.pattern {
            Pattern::Exact(v) => out.set(*id, v.low_u128()),
            Pattern::Masked(v, mask) => out.set_masked(*id, v.low_u128(), mask.low_u128()),
            Pattern::Prefix(v, len) => {
                let mask = Bits::prefix_mask(*len, v.width());
                out.set_masked(*id, v.low_u128(), mask.low_u128());
            }
            Pattern::Range(..) => {}
        }
    }
    out
}
