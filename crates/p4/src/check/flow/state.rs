//! What is known of each cell at a point of the program.
//!
//! | bits | a value | a header |
//! |---|---|---|
//! | none | not followed, so taken as set | taken as valid |
//! | [`NO`] | on some way nothing was written to it | on some way made invalid, or never valid |
//! | [`YES`] | on some way it was written | on some way made valid, or taken to be |
//! | [`TESTED`] | | on some way found invalid by `isValid()`, which was thought valid |
//! | [`ASKED`] | | `isValid()` was used for what is done here: no doubts are told |
//!
//! A join keeps every bit of both. [`TESTED`] is kept apart from [`NO`] because a program that asks whether a
//! header is valid, and then goes on for both answers, has done nothing to it.

/// It may be unset, or invalid.
pub(super) const NO: u8 = 1;
/// It may be set, or valid.
pub(super) const YES: u8 = 2;
/// It was found invalid.
pub(super) const TESTED: u8 = 4;
/// Somebody asked whether it is valid.
pub(super) const ASKED: u8 = 8;

/// What is known at a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Some way leads here.
    pub(super) reached: bool,
    /// 64 cells at a time, their first bits, their second bits and so on.
    words: Vec<[u64; 4]>,
}

impl State {
    /// A point that is reached, nothing being known.
    pub(super) fn start() -> State {
        State { reached: true, words: Vec::new() }
    }

    /// The bits of a cell.
    pub(super) fn get(&self, cell: u32) -> u8 {
        let Some(word) = self.words.get(cell as usize / 64) else { return 0 };
        let bit = |plane: &u64| (plane >> (cell % 64) & 1) as u8;
        (0..).zip(word).fold(0, |bits, (i, plane)| bits | bit(plane) << i)
    }

    /// Gives a cell these bits and no others.
    pub(super) fn put(&mut self, cell: u32, bits: u8) {
        let at = cell as usize / 64;
        if self.words.len() <= at {
            self.words.resize(at + 1, [0; 4]);
        }
        let mask = 1 << (cell % 64);
        for (i, plane) in (0..).zip(&mut self.words[at]) {
            match bits >> i & 1 {
                1 => *plane |= mask,
                _ => *plane &= !mask,
            }
        }
    }

    /// Gives these bits to so many cells.
    pub(super) fn fill(&mut self, from: u32, count: u32, bits: u8) {
        let (mut at, end) = (from, from + count);
        if self.words.len() < end.div_ceil(64) as usize {
            self.words.resize(end.div_ceil(64) as usize, [0; 4]);
        }
        while at < end {
            let here = (64 - at % 64).min(end - at);
            let mask = (u64::MAX >> (64 - here)) << (at % 64);
            for (i, plane) in (0..).zip(&mut self.words[at as usize / 64]) {
                match bits >> i & 1 {
                    1 => *plane |= mask,
                    _ => *plane &= !mask,
                }
            }
            at += here;
        }
    }

    /// Adds what is known on another way to this point.
    pub(super) fn join(&mut self, other: &State) {
        if !other.reached {
            return;
        }
        if !self.reached {
            *self = other.clone();
            return;
        }
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), [0; 4]);
        }
        for (word, from) in self.words.iter_mut().zip(&other.words) {
            for (plane, from) in word.iter_mut().zip(from) {
                *plane |= from;
            }
        }
    }

    /// Forgets what was asked since that point.
    pub(super) fn forget_asked(&mut self, before: &State) {
        for (i, word) in self.words.iter_mut().enumerate() {
            word[3] &= before.words.get(i).map_or(0, |w| w[3]);
        }
    }

    /// What was made invalid since that point counts as found invalid: it is so here, and joined with a way on
    /// which it is valid it is taken as valid.
    pub(super) fn doubt_invalid(&mut self, before: &State) {
        for (i, [no, _, tested, _]) in self.words.iter_mut().enumerate() {
            let was = before.words.get(i).map_or(0, |w| w[0]);
            *tested |= *no & !was;
            *no &= was;
        }
    }

    /// Takes the state, leaving one that no way leads to.
    pub(super) fn take(&mut self) -> State {
        std::mem::take(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_apart() {
        let mut s = State::start();
        for (cell, bits) in [(0, NO), (63, YES | ASKED), (64, TESTED), (1000, NO | YES)] {
            s.put(cell, bits);
        }
        assert_eq!([0, 63, 64, 1000, 1, 65, 5000].map(|c| s.get(c)), [1, 10, 4, 3, 0, 0, 0]);
        s.put(63, NO);
        assert_eq!(s.get(63), NO);
        s.fill(62, 130, YES);
        assert_eq!([61, 62, 63, 64, 191, 192].map(|c| s.get(c)), [0, 2, 2, 2, 2, 0]);
        s.fill(62, 0, NO);
        s.fill(64, 64, TESTED);
        assert_eq!([62, 63, 64, 127, 128].map(|c| s.get(c)), [2, 2, 4, 4, 2]);
    }

    #[test]
    fn a_join_keeps_what_either_way_knows() {
        let (mut a, mut b) = (State::start(), State::start());
        a.put(1, NO);
        b.put(1, YES);
        b.put(100, NO | ASKED);
        a.join(&b);
        assert_eq!((a.get(1), a.get(100)), (NO | YES, NO | ASKED));
        // No way leads through a point that is not reached.
        let mut none = State::default();
        b.join(&none);
        assert_eq!(b.get(1), YES);
        none.join(&b);
        assert_eq!(none, b);
        b.forget_asked(&State::start());
        assert_eq!(b.get(100), NO);
        b.doubt_invalid(&a);
        assert_eq!(b.get(100), NO);
        b.doubt_invalid(&State::start());
        assert_eq!((b.get(1), b.get(100)), (YES, TESTED));
    }
}
