//! The order of a table's entries: which of those that match wins.
//!
//! Priority goes first, then the longer prefix, then who came first. Entries that differ in nothing but when they came lie in
//! one line, the latest last, so that the usual one is put behind the others.
//!
//! Invariants: lines are sorted by sequence, and no sequence is twice in a table; a line without entries is not kept. Places
//! of entries that have gone stay in a line until they are half of it.
//! Cost: an insert, a look-up among ranks that differ; a removal, a binary search besides.
//! Checked by: the test below, against a map.

use crate::id::EntryId;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What decides before the order of arrival: priority and length of the prefix.
pub(crate) type Rank = (Reverse<i32>, Reverse<u32>);

/// Places of gone entries that a line may always have.
const GONE_MIN: usize = 32;

/// Entries of one rank by sequence.
#[derive(Clone, Debug, Default)]
struct Line {
    places: SmallVec<[(u64, Option<EntryId>); 1]>,
    gone: usize,
}

impl Line {
    fn insert(&mut self, sequence: u64, id: EntryId) {
        if self.places.last().is_none_or(|(last, _)| *last < sequence) {
            return self.places.push((sequence, Some(id)));
        }
        // A step backwards: it comes back to where it was.
        match self.places.binary_search_by_key(&sequence, |place| place.0) {
            Ok(at) => {
                self.gone -= usize::from(self.places[at].1.is_none());
                self.places[at].1 = Some(id);
            }
            Err(at) => self.places.insert(at, (sequence, Some(id))),
        }
    }

    fn remove(&mut self, sequence: u64) {
        let Ok(at) = self.places.binary_search_by_key(&sequence, |place| place.0) else { return };
        self.gone += usize::from(self.places[at].1.take().is_some());
        if self.gone > GONE_MIN && self.gone > self.places.len() / 2 {
            self.places.retain(|place| place.1.is_some());
            self.places.shrink_to_fit();
            self.gone = 0;
        }
    }
}

/// The order of a table's entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order(BTreeMap<Rank, Line>);

impl Order {
    pub(crate) fn insert(&mut self, rank: Rank, sequence: u64, id: EntryId) {
        self.0.entry(rank).or_default().insert(sequence, id);
    }

    pub(crate) fn remove(&mut self, rank: Rank, sequence: u64) {
        if let Some(line) = self.0.get_mut(&rank) {
            line.remove(sequence);
            if line.gone == line.places.len() {
                self.0.remove(&rank);
            }
        }
    }

    /// All of them, best first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.0.values().flat_map(|line| line.places.iter().filter_map(|place| place.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_a_plain_map() {
        let (mut order, mut plain) = (Order::default(), BTreeMap::new());
        let mut gone: Vec<(Rank, u64, EntryId)> = Vec::new();
        let mut state = 11u64;
        for sequence in 1..40_000u64 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let draw = (state >> 33) as u32;
            let rank = (Reverse((draw % 3) as i32), Reverse(draw / 3 % 2));
            match draw >> 8 & 7 {
                // More come than go, and then the other way round.
                0..=2 if sequence > 20_000 => {}
                0..=4 => {
                    let id = EntryId(draw);
                    order.insert(rank, sequence, id);
                    plain.insert((rank, sequence), id);
                }
                5 if !gone.is_empty() => {
                    // One that was taken out comes back.
                    let (rank, sequence, id) = gone.swap_remove(draw as usize % gone.len());
                    order.insert(rank, sequence, id);
                    plain.insert((rank, sequence), id);
                }
                _ => {
                    let from = (rank, u64::from(draw) % sequence);
                    let Some((&(rank, at), &id)) = plain.range(from..).next() else { continue };
                    order.remove(rank, at);
                    plain.remove(&(rank, at));
                    gone.push((rank, at, id));
                }
            }
            if sequence % 500 == 0 {
                assert!(order.iter().eq(plain.values().copied()));
            }
        }
        for ((rank, sequence), _) in plain {
            order.remove(rank, sequence);
        }
        assert!(order.0.is_empty());
    }
}
