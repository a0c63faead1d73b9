//! Lookups in merged tuples: a key, and a burst of keys side by side.

use super::{AHEAD, LAST, RANGED, RANGES, TupleMerge, hash_of};
use crate::hit::Hit;
use crate::mask::load;
use crate::probe::hash;
use crate::simd::PHASE;
use crate::tagged::NONE;
use std::hint::select_unpredictable;

/// Whether a key meets the range in a word, if there is one.
#[inline]
pub(super) fn meets(word: u64, key: &[u8]) -> bool {
    let bytes = key.get(usize::from((word >> 32) as u16)..).unwrap_or_default();
    let value = match (word >> 48, bytes) {
        (1, [byte, ..]) => u16::from(*byte),
        (2, [high, low, ..]) => u16::from_be_bytes([*high, *low]),
        _ => return true,
    };
    word as u16 <= value && value <= (word >> 16) as u16
}

/// The best row that a key has met so far.
#[derive(Debug, Clone, Copy)]
struct Best {
    row: u32,
    /// Its priority; less than any, if there is none.
    priority: i64,
}

const NOBODY: Best = Best { row: NONE, priority: -1 };

impl TupleMerge {
    /// Goes along a chain to the first row that a key meets, for its words as `word` gives them.
    #[inline(always)]
    fn walk(
        &self,
        mut row: u32,
        words: usize,
        word: impl Fn(usize) -> u64,
        key: &[u8],
        best: &mut Best,
    ) {
        let span = (2 * words + 2 + RANGES).div_ceil(8);
        while row != LAST {
            let lines = &self.lines[row as usize * span..][..span];
            let at = |i: usize| lines[i / 8].0[i % 8];
            let differs = (0..words).fold(0, |d, i| d | (word(i) ^ at(words + i)) & at(i));
            let meta = at(2 * words);
            let priority = i64::from((meta >> 32) as u32);
            if priority < best.priority {
                return;
            }
            if differs == 0 {
                let ranges = [at(2 * words + 2), at(2 * words + 3)];
                if meta as u32 & RANGED == 0 || self.meets(row, ranges, key) {
                    if priority > best.priority || self.rank(row) > self.rank(best.row) {
                        *best = Best { row, priority };
                    }
                    return;
                }
            }
            row = meta as u32 & LAST;
        }
    }

    /// Whether the first row of a chain decides whether a key meets any on it, and the better of that row
    /// and the best so far if so.
    #[inline(always)]
    fn first<const W: usize>(&self, row: u32, words: &[u64; W], best: Best) -> (bool, Best) {
        let span = const { (2 * W + 2 + RANGES).div_ceil(8) };
        let lines = &self.lines[row as usize * span..][..span];
        let at = |i: usize| lines[i / 8].0[i % 8];
        let differs = (0..W).fold(0, |d, i| d | (words[i] ^ at(W + i)) & at(i));
        let meta = at(2 * W);
        let priority = i64::from((meta >> 32) as u32);
        let (meets, last) = (differs == 0, meta as u32 & LAST == LAST);
        let plain = (meta as u32 & RANGED == 0) & (priority != best.priority);
        let better = meets & plain & (priority > best.priority);
        let row = select_unpredictable(better, row, best.row);
        let priority = select_unpredictable(better, priority, best.priority);
        (meets & plain | !meets & last, Best { row, priority })
    }

    /// Looks up to [`PHASE`] keys of `W` words up.
    #[inline(never)]
    pub(super) fn search<const W: usize>(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        let count = hits.len().min(PHASE);
        let mut words = [[0; W]; PHASE];
        for (words, key) in words.iter_mut().zip(keys.chunks_exact(stride)).take(count) {
            *words = std::array::from_fn(|at| load(key, 8 * at));
        }
        let mut best = [NOBODY; PHASE];
        let mut pending: [u8; PHASE] = std::array::from_fn(|i| i as u8);
        let mut left = count;
        // Of the tuple that is asked; outside of the loop, lest they be cleared for each.
        let (mut hashes, mut homes) = ([0; PHASE], [0; PHASE]);
        let (mut found, mut longer) = ([(0u8, 0u32); PHASE], [(0u8, 0u32); PHASE]);
        for place in &self.order {
            let most = i64::from(place.best.0);
            let mut kept = 0;
            for at in 0..left {
                let i = pending[at];
                pending[kept] = i;
                kept += usize::from(best[usize::from(i) % PHASE].priority <= most);
            }
            left = kept;
            if left == 0 {
                break;
            }
            let Some(tuple) = self.tuple(place.tuple) else { continue };
            let Some(mask) = tuple.mask.first_chunk::<W>() else { continue };
            let pending = &pending[..left];
            for ((&i, to), home) in pending.iter().zip(&mut hashes).zip(&mut homes) {
                let words = &words[usize::from(i) % PHASE];
                *to = hash(tuple.salt, &std::array::from_fn::<u64, W, _>(|w| words[w] & mask[w]));
                *home = self.heads.home(*to);
                self.heads.prefetch(*home);
            }
            // Keys that may meet something here, and chains.
            let (mut some, mut several) = (0, 0u32);
            for ((&i, &hash), &home) in pending.iter().zip(&hashes).zip(&homes) {
                let (slots, head, more) = self.heads.look(home, hash);
                found[some % PHASE] = (i, head);
                some += usize::from(slots.any() & !more);
                several |= u32::from(more) << (i % 32);
            }
            let found = &found[..some];
            for &(_, head) in found {
                self.prefetch_line(head);
            }
            // Most chains are short: their first rows decide, or nothing does.
            let mut count = 0;
            for &(i, head) in found {
                let at = usize::from(i) % PHASE;
                let (decided, better) = self.first(head, &words[at], best[at]);
                best[at] = better;
                longer[count % PHASE] = (i, head);
                count += usize::from(!decided);
            }
            for &(i, head) in &longer[..count] {
                let i = usize::from(i) % PHASE;
                let key = &keys[i * stride..][..stride];
                self.walk(head, W, |w| words[i][w], key, &mut best[i]);
            }
            if several != 0 {
                for (&i, &hash) in pending.iter().zip(&hashes) {
                    if several >> (i % 32) & 1 == 0 {
                        continue;
                    }
                    let i = usize::from(i) % PHASE;
                    let key = &keys[i * stride..][..stride];
                    for head in self.heads.heads(hash) {
                        self.walk(head, W, |w| words[i][w], key, &mut best[i]);
                    }
                }
            }
        }
        for (hit, best) in hits.iter_mut().zip(&best) {
            *hit = if best.row == NONE { Hit::MISS } else { self.hit(best.row) };
        }
    }

    /// Looks one key of `W` words up.
    pub(super) fn search_one<const W: usize>(&self, key: &[u8]) -> Hit {
        let words: [u64; W] = std::array::from_fn(|at| load(key, 8 * at));
        let mut best = NOBODY;
        // Some tuples at a time: what they ask of memory comes at once, and is hardly more than is needed.
        let mut hashes = [0; AHEAD];
        for places in self.order.chunks(AHEAD) {
            if places.first().is_some_and(|place| best.priority > i64::from(place.best.0)) {
                break;
            }
            for (place, to) in places.iter().zip(&mut hashes) {
                let Some(tuple) = self.tuple(place.tuple) else { continue };
                let Some(mask) = tuple.mask.first_chunk::<W>() else { continue };
                *to = hash(tuple.salt, &std::array::from_fn::<u64, W, _>(|w| words[w] & mask[w]));
                self.heads.prefetch(self.heads.home(*to));
            }
            for &hash in &hashes[..places.len()] {
                let (slots, head, _) = self.heads.look(self.heads.home(hash), hash);
                if slots.any() {
                    self.prefetch_line(head);
                }
            }
            for (place, &hash) in places.iter().zip(&hashes) {
                if best.priority > i64::from(place.best.0) {
                    break;
                }
                let (slots, head, more) = self.heads.look(self.heads.home(hash), hash);
                if more {
                    for head in self.heads.heads(hash) {
                        self.walk(head, W, |w| words[w], key, &mut best);
                    }
                } else if slots.any() {
                    self.walk(head, W, |w| words[w], key, &mut best);
                }
            }
        }
        if best.row == NONE { Hit::MISS } else { self.hit(best.row) }
    }

    /// Looks a key of any length up.
    pub(super) fn search_wide(&self, key: &[u8]) -> Hit {
        let mut best = NOBODY;
        let word = |at: usize| load(key, 8 * at);
        for place in &self.order {
            if best.priority > i64::from(place.best.0) {
                break;
            }
            let Some(tuple) = self.tuple(place.tuple) else { continue };
            let hash = hash_of(tuple.salt, self.words, |at| word(at) & tuple.mask[at]);
            for head in self.heads.heads(hash) {
                self.walk(head, self.words, word, key, &mut best);
            }
        }
        if best.row == NONE { Hit::MISS } else { self.hit(best.row) }
    }
}
