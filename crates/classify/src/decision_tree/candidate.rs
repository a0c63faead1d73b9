//! A rule in a leaf: what is left to compare.

use super::read::{Pieces, Read, number};
use crate::rule::Rule;
use smallvec::SmallVec;

/// These bits of a piece are to be these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) piece: u8,
    pub(super) mask: u64,
    pub(super) value: u64,
}

/// A field of one or two pieces is to lie between these, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Between {
    piece: u8,
    two: bool,
    /// Bits of the second piece.
    bits: u8,
    lo: u128,
    hi: u128,
}

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) checks: SmallVec<[Check; 3]>,
    between: SmallVec<[Between; 0]>,
    pub(super) id: u32,
    pub(super) action: u32,
    priority: u32,
    seq: u64,
}

impl Candidate {
    /// None if the rule compares what is not a field.
    pub(super) fn of(pieces: &Pieces, rule: &Rule) -> Option<Candidate> {
        let mut checks = SmallVec::new();
        for (at, piece) in pieces.list.iter().enumerate() {
            let span = piece.offset as usize..piece.offset as usize + usize::from(piece.len);
            let mask = number(&rule.mask[span.clone()]);
            if mask != 0 {
                let value = number(&rule.value[span]) & mask;
                checks.push(Check { piece: at as u8, mask, value });
            }
        }
        let mut between = SmallVec::new();
        for range in &rule.ranges {
            let at = pieces.list.iter().position(|p| p.offset == range.offset && p.within == 0)?;
            let piece = pieces.list[at];
            if piece.field_len != range.len || piece.field_len > 16 {
                return None;
            }
            let second = pieces.list.get(at + 1).filter(|p| p.field == piece.field);
            let (two, bits) = (second.is_some(), second.map_or(0, |p| 8 * p.len));
            between.push(Between { piece: at as u8, two, bits, lo: range.lo, hi: range.hi });
        }
        let Rule { id, action, priority, seq, .. } = *rule;
        Some(Candidate { checks, between, id, action, priority, seq })
    }

    /// It wins against the other.
    pub(super) fn precedes(&self, other: &Candidate) -> bool {
        (other.priority, self.seq, self.id) < (self.priority, other.seq, other.id)
    }

    /// What the piece must be under the mask, if all of that is to be compared.
    pub(super) fn under(&self, piece: u8, mask: u64) -> Option<u64> {
        let check = self.checks.iter().find(|c| c.piece == piece && c.mask & mask == mask)?;
        Some(check.value & mask)
    }

    /// The same where the piece is known to be right under the mask.
    pub(super) fn without(mut self, piece: u8, mask: u64) -> Candidate {
        for check in &mut self.checks {
            if check.piece == piece {
                check.mask &= !mask;
                check.value &= check.mask;
            }
        }
        self.checks.retain(|check| check.mask != 0);
        self
    }

    #[inline]
    pub(super) fn matches(&self, read: &mut Read<'_>) -> bool {
        let equal = self.checks.iter().all(|c| read.piece(c.piece) & c.mask == c.value);
        equal && (self.between.is_empty() || self.is_between(read))
    }

    fn is_between(&self, read: &mut Read<'_>) -> bool {
        self.between.iter().all(|b| {
            let mut value = u128::from(read.piece(b.piece));
            if b.two {
                value = value << b.bits | u128::from(read.piece(b.piece + 1));
            }
            b.lo <= value && value <= b.hi
        })
    }
}
