//! The hash that finds which rule of one mask a key may meet, for tables of few thousand rules.
//!
//! A slot names a row, a row holds the masked key, what the rule is worth, and the row behind it with
//! the same slot. There are many small slots per row, and of several seeds that one is taken which puts
//! the fewest rows behind others, so nearly every search ends at the first row; whether it does, is not
//! guessed by a branch:
//! [`Probe::ask`] compares one row for each key of a burst and then goes on with those few keys that
//! need it.
//!
//! What a rule is worth is its rank, its place in the order of precedence of the whole table, so that
//! the lowest rank found by any means wins.
//!
//! Invariants: rows of a slot are linked by ascending rank; row 0 is no rule's, worth [`NOTHING`], and
//! empty slots name it. A row whose rule compares ranges is worth nothing at first sight and is always
//! gone on from.
//! Cost: lookup, one load of a slot and one row; update, the same; a change of ranks, every row.
//! Checked by: [`scan`](crate::scan)'s tests; `tests/model.rs`.

use std::hint::select_unpredictable;

use crate::mask::{Window, word};
use crate::simd::{PHASE, View};

/// The rank of no rule.
pub(crate) const NOTHING: u32 = u32::MAX;

/// Words of the widest masked keys that are found so.
pub(crate) const WORDS_MAX: usize = 7;

/// Slots per row, at least.
const SPARSE: usize = 8;
/// Seeds of the hash that are tried for one that puts few rows behind others.
const SEEDS: u64 = 16;

/// In a row's link: the rule compares ranges.
const RANGED: u32 = 1 << 31;

/// Masked keys to ranks.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    windows: Box<[Window]>,
    seed: u64,
    /// Rows by the hash's low bits.
    slots: Box<[u16]>,
    /// Of each row the masked key, then the rank at first sight and the link.
    rows: Vec<u64>,
    /// The rank of each row.
    ranks: Vec<u32>,
    free: Vec<u16>,
}

impl Probe {
    /// An empty one for rules of a mask, which is seen through at least one and at most
    /// [`WORDS_MAX`] windows.
    pub(crate) fn new(windows: &[Window], seed: u64) -> Probe {
        assert!((1..=WORDS_MAX).contains(&windows.len()), "a probe's key has a few words");
        let mut nobody = vec![0; windows.len() + 1];
        nobody[windows.len()] = u64::from(NOTHING);
        Probe {
            windows: windows.into(),
            seed,
            slots: vec![0; 2 * SPARSE].into(),
            rows: nobody,
            ranks: vec![NOTHING],
            free: Vec::new(),
        }
    }

    /// Finds what the keys of a burst may meet here, and lowers each key's `best` rank to it. The bits
    /// of the result say which keys are to be gone on with, by [`Probe::find`].
    ///
    /// Panics as [`View::new`] does.
    pub(crate) fn ask(
        &self,
        keys: &[u8],
        stride: usize,
        count: usize,
        best: &mut [u32; PHASE],
    ) -> u32 {
        match self.windows.len() {
            1 => self.ask_of::<1>(keys, stride, count, best),
            2 => self.ask_of::<2>(keys, stride, count, best),
            3 => self.ask_of::<3>(keys, stride, count, best),
            4 => self.ask_of::<4>(keys, stride, count, best),
            5 => self.ask_of::<5>(keys, stride, count, best),
            6 => self.ask_of::<6>(keys, stride, count, best),
            _ => self.ask_of::<7>(keys, stride, count, best),
        }
    }

    #[inline(never)]
    fn ask_of<const W: usize>(
        &self,
        keys: &[u8],
        stride: usize,
        count: usize,
        best: &mut [u32; PHASE],
    ) -> u32 {
        let Some(windows) = self.windows.first_chunk::<W>() else { return 0 };
        let view = View::new(keys, stride, count, windows);
        let (mut found, mut links) = ([NOTHING; PHASE], [0; PHASE]);
        for ((i, found), link) in (0..count).zip(&mut found).zip(&mut links) {
            let words = view.words(i);
            let at = usize::from(self.slots[self.home(&words)]) * (W + 1);
            let row = &self.rows[at..at + W + 1];
            let differs = (0..W).fold(0, |d, w| d | (row[w] ^ words[w]));
            *link = (row[W] >> 32) as u32;
            *found = select_unpredictable(differs == 0, row[W] as u32, NOTHING);
        }
        let mut unsettled = 0;
        for ((best, &found), &link) in best.iter_mut().zip(&found).zip(&links) {
            *best = found.min(*best);
            unsettled |= link & (found as i32 >> 31) as u32;
        }
        if unsettled == 0 {
            return 0;
        }
        let bit = |(found, link): (&u32, &u32)| (*link != 0) & (*found == NOTHING);
        found.iter().zip(&links).map(bit).rev().fold(0, |bits, bit| bits << 1 | u32::from(bit))
    }

    /// The lowest rank of a rule here that has the key's masked words and that the key `meets`.
    pub(crate) fn find(&self, key: &[u8], meets: impl Fn(u32) -> bool) -> u32 {
        let mut words = [0; WORDS_MAX];
        for (to, window) in words.iter_mut().zip(&self.windows) {
            *to = word(key, window);
        }
        let words = &words[..self.windows.len()];
        let mut row = self.slots[self.home(words)];
        while row != 0 {
            let rank = self.ranks[usize::from(row)];
            if self.words(row) == words && (self.link(row) & RANGED == 0 || meets(rank)) {
                return rank;
            }
            row = self.next(row);
        }
        NOTHING
    }

    /// Adds a rule by its masked words. Its rank is no other row's.
    pub(crate) fn insert(&mut self, words: &[u64], rank: u32, ranged: bool) {
        let width = self.windows.len() + 1;
        let row = self.free.pop().unwrap_or_else(|| {
            self.rows.resize(self.rows.len() + width, 0);
            self.ranks.push(NOTHING);
            (self.ranks.len() - 1) as u16
        });
        let at = usize::from(row) * width;
        self.rows[at..at + width - 1].copy_from_slice(words);
        let (sight, link) = if ranged { (NOTHING, RANGED) } else { (rank, 0) };
        self.rows[at + width - 1] = u64::from(sight) | u64::from(link) << 32;
        self.ranks[usize::from(row)] = rank;
        if self.ranks.len() * SPARSE > self.slots.len() {
            self.spread();
        } else {
            self.hang(row);
        }
    }

    /// Takes the rule of this rank out.
    pub(crate) fn remove(&mut self, words: &[u64], rank: u32) {
        let home = self.home(words);
        let mut before = 0;
        let mut row = self.slots[home];
        while row != 0 && self.ranks[usize::from(row)] != rank {
            (before, row) = (row, self.next(row));
        }
        if row == 0 {
            return;
        }
        let next = self.next(row);
        if before == 0 {
            self.slots[home] = next
        } else {
            self.set_next(before, next)
        }
        self.ranks[usize::from(row)] = NOTHING;
        self.free.push(row);
    }

    /// Makes room at a rank: those from it on grow by one.
    pub(crate) fn raise(&mut self, from: u32) {
        self.shift(|rank| rank >= from, 1);
    }

    /// Closes the gap at a rank: those above it fall by one.
    pub(crate) fn lower(&mut self, above: u32) {
        self.shift(|rank| rank > above, u64::MAX);
    }

    fn shift(&mut self, moves: impl Fn(u32) -> bool, by: u64) {
        let width = self.windows.len() + 1;
        for (rank, row) in self.ranks.iter_mut().zip(self.rows.chunks_exact_mut(width)) {
            if *rank != NOTHING && moves(*rank) {
                *rank = rank.wrapping_add(by as u32);
                let word = &mut row[width - 1];
                if *word as u32 != NOTHING {
                    *word = word.wrapping_add(by);
                }
            }
        }
    }

    /// The lowest rank there is.
    pub(crate) fn rank_min(&self) -> u32 {
        self.ranks.iter().fold(NOTHING, |least, &rank| least.min(rank))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.windows)
            + size_of_val(&*self.slots)
            + self.rows.capacity() * 8
            + self.ranks.capacity() * 4
            + self.free.capacity() * 2
    }

    /// More slots, and every row in its new one.
    fn spread(&mut self) {
        let slots = (self.ranks.len() * 2 * SPARSE).next_power_of_two();
        let live = |row: &u16| self.ranks[usize::from(*row)] != NOTHING;
        let rows: Vec<u16> = (1..self.ranks.len() as u16).filter(live).collect();
        let mut taken = vec![0u64; slots.div_ceil(64)];
        let mut shared = |seed: u64| {
            taken.fill(0);
            let mut shared = 0;
            for &row in &rows {
                let home = hash(seed, self.words(row)) as usize & (slots - 1);
                shared += taken[home / 64] >> (home % 64) & 1;
                taken[home / 64] |= 1 << (home % 64);
            }
            shared
        };
        let seeds = (0..SEEDS).map(|n| self.seed.wrapping_add(n));
        self.seed = seeds.min_by_key(|&seed| shared(seed)).unwrap_or(self.seed);
        self.slots = vec![0; slots].into();
        rows.into_iter().for_each(|row| self.hang(row));
    }

    /// Links a row into its slot.
    fn hang(&mut self, row: u16) {
        let home = self.home(self.words(row));
        let rank = self.ranks[usize::from(row)];
        let mut before = 0;
        let mut next = self.slots[home];
        while next != 0 && self.ranks[usize::from(next)] < rank {
            (before, next) = (next, self.next(next));
        }
        self.set_next(row, next);
        if before == 0 { self.slots[home] = row } else { self.set_next(before, row) }
    }

    fn words(&self, row: u16) -> &[u64] {
        let words = self.windows.len();
        &self.rows[usize::from(row) * (words + 1)..][..words]
    }

    fn link(&self, row: u16) -> u32 {
        let words = self.windows.len();
        (self.rows[usize::from(row) * (words + 1) + words] >> 32) as u32
    }

    fn next(&self, row: u16) -> u16 {
        self.link(row) as u16
    }

    fn set_next(&mut self, row: u16, next: u16) {
        let words = self.windows.len();
        let word = &mut self.rows[usize::from(row) * (words + 1) + words];
        *word = *word & !(0xffff << 32) | u64::from(next) << 32;
    }

    /// The slot of a masked key.
    #[inline(always)]
    fn home(&self, words: &[u64]) -> usize {
        hash(self.seed, words) as usize & (self.slots.len() - 1)
    }
}

/// What words are mixed with; digits of pi.
const SECRETS: [u64; 8] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d1,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6d,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
];

/// One multiplication for two words, none waiting for another.
#[inline(always)]
pub(crate) fn hash(seed: u64, words: &[u64]) -> u64 {
    let mut hash = 0;
    for (pair, secrets) in words.chunks(2).zip(SECRETS.chunks_exact(2)) {
        let first = pair[0] ^ secrets[0] ^ seed;
        let second = pair.get(1).unwrap_or(&0) ^ secrets[1];
        let product = u128::from(first) * u128::from(second);
        hash ^= product as u64 ^ (product >> 64) as u64;
    }
    hash
}
