//! Masked compares of all keys of a burst with many rules at once.
//!
//! Rules stand side by side in [`Block`]s of eight, one lane each, and a [`Round`] of blocks answers
//! for every key with a word: bit *n* says that the rule in lane *n* matches. A block is held in
//! registers while the keys go by, so a rule costs a fraction of a compare. Rules stand in the order of
//! their ranks, so that the lowest bit is the best rule.
//!
//! What the processor can do is asked once ([`Level::detect`]); on x86-64 a block is one register
//! (AVX-512) or two (AVX2), elsewhere, and beside them in the tests, a plain loop.
//!
//! Invariants: lanes without a rule never match, and there is none in lane [`NOBODY`]; every column of a
//! block reads eight bytes that end within a key's stride, which [`Round::compare`] checks.
//! Cost: a block and a key, one load and three operations per word compared.
//! Checked by: the unit test below, each level against the plain one; `tests/model.rs`.

#![allow(unsafe_code)]

use crate::mask::{self, Window};
use crate::probe::NOTHING;
use crate::simd::PHASE;

/// Rules of a block.
const LANES: usize = 8;
/// Rules of a round, at most.
pub(crate) const LANES_MAX: usize = 63;
/// The lane that stands for no rule.
const NOBODY: usize = 63;
/// Words for which a block's compares are unrolled; of more, so many at a time.
const WORDS: usize = 3;

/// For each key of a burst, which lanes match: eight bytes, lowest first.
pub(crate) type Matched = [[u8; LANES]; PHASE];

/// How compares are done here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level(Set);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The plain loop.
    pub(crate) const PLAIN: Level = Level(Set::Plain);

    /// The best that this processor has.
    pub(crate) fn detect() -> Level {
        Self::all().pop().unwrap_or(Self::PLAIN)
    }

    /// All that this processor has, the best last.
    fn all() -> Vec<Level> {
        let mut levels = vec![Self::PLAIN];
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx2") {
                levels.push(Level(Set::Avx2));
            }
            if std::arch::is_x86_feature_detected!("avx512f")
                && std::arch::is_x86_feature_detected!("avx512cd")
                && std::arch::is_x86_feature_detected!("avx512dq")
            {
                levels.push(Level(Set::Avx512));
            }
        }
        levels
    }
}

/// What the rules of a block demand of one word of the key.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Column {
    mask: [u64; LANES],
    value: [u64; LANES],
    offset: u32,
}

/// Eight rules.
#[derive(Debug, Clone)]
struct Block {
    columns: Box<[Column]>,
}

impl Block {
    fn new(rules: &[Lane<'_>]) -> Block {
        let mut union = vec![0; rules.first().map_or(0, |rule| rule.mask.len())];
        for rule in rules {
            union.iter_mut().zip(rule.mask).for_each(|(all, bits)| *all |= bits);
        }
        let mut windows = mask::windows(&union);
        if windows.is_empty() {
            windows = Box::new([Window { offset: 0, mask: 0 }]);
        }
        let column = |(at, window): (usize, &Window)| {
            let nobody = if at == 0 { u64::MAX } else { 0 };
            let mut column =
                Column { mask: [0; LANES], value: [nobody; LANES], offset: window.offset };
            for (lane, Lane { mask, value, .. }) in rules.iter().enumerate().take(LANES) {
                column.mask[lane] = mask::word(mask, window);
                column.value[lane] = mask::word(value, window) & column.mask[lane];
            }
            column
        };
        Block { columns: windows.iter().enumerate().map(column).collect() }
    }
}

/// What a rule demands of a key's bits, and what it is worth.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane<'a> {
    /// As long as a key.
    pub(crate) mask: &'a [u8],
    /// As long as a key.
    pub(crate) value: &'a [u8],
    pub(crate) rank: u32,
    /// Whether the key must meet something besides.
    pub(crate) ranged: bool,
}

/// Up to [`LANES_MAX`] rules.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    blocks: Vec<Block>,
    /// The farthest byte that is read of a key, plus one.
    reach: usize,
    /// Of each lane.
    ranks: Ranks,
    /// Lanes whose rules demand nothing besides.
    sure: u64,
}

/// The rank of each lane, [`NOTHING`] of those without a rule.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
struct Ranks([u32; 64]);

impl Round {
    /// Of rules by ascending rank.
    pub(crate) fn new(rules: &[Lane<'_>]) -> Round {
        assert!(rules.len() <= LANES_MAX, "a round has {LANES_MAX} lanes");
        let blocks: Vec<Block> = rules.chunks(LANES).map(Block::new).collect();
        let columns = blocks.iter().flat_map(|block| &block.columns);
        let reach = columns.map(|c| c.offset as usize + 8).max().unwrap_or(0);
        let (mut ranks, mut sure) = (Ranks([NOTHING; 64]), 0);
        for ((lane, to), at) in rules.iter().zip(&mut ranks.0).zip(0..) {
            *to = lane.rank;
            sure |= u64::from(!lane.ranged) << at;
        }
        Round { blocks, reach, ranks, sure }
    }

    /// Lanes that match and of which something is demanded besides, best first, with their ranks.
    pub(crate) fn ranged(&self, matched: [u8; LANES]) -> impl Iterator<Item = u32> + '_ {
        let mut lanes = u64::from_le_bytes(matched) & !self.sure;
        std::iter::from_fn(move || {
            let rank = self.ranks.0.get(lanes.trailing_zeros() as usize)?;
            lanes &= lanes - 1;
            Some(*rank)
        })
    }

    /// The rank of the first rule.
    pub(crate) fn best(&self) -> u32 {
        self.ranks.0[0]
    }

    /// Whether something is demanded besides by any rule.
    pub(crate) fn has_ranged(&self) -> bool {
        self.ranks.0.iter().zip(0..).any(|(&rank, at)| rank != NOTHING && self.sure >> at & 1 == 0)
    }

    /// Blocks of eight rules.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let columns = self.blocks.iter().map(|block| size_of_val(&*block.columns));
        self.blocks.capacity() * size_of::<Block>() + columns.sum::<usize>()
    }

    /// Finds which lanes match each of `count` keys, at most [`PHASE`], that lie `stride` bytes apart,
    /// and lowers each key's `best` rank to that of the first lane of which nothing is demanded besides.
    ///
    /// Of `matched`, only the bytes of this round's blocks are written; the others must be zero. Panics
    /// unless `keys` holds so many and every word that is compared lies inside a stride.
    pub(crate) fn compare(
        &self,
        level: Level,
        (keys, stride, count): (&[u8], usize, usize),
        matched: &mut Matched,
        best: &mut [u32; PHASE],
    ) {
        let burst = self.burst(keys, stride, count);
        match level.0 {
            Set::Plain => {
                plain::compare(&self.blocks, &burst, matched);
                plain::rank(self, matched, best);
            }
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => {
                // SAFETY: levels are made by `Level::all` alone, which has seen that the processor has
                // AVX2; `burst` has checked the keys and the columns' reach.
                unsafe { x86::compare_256(&self.blocks, &burst, matched) };
                plain::rank(self, matched, best);
            }
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above, with AVX-512.
            Set::Avx512 => unsafe {
                x86::compare_512(&self.blocks, &burst, matched);
                x86::rank_512(self, matched, best);
            },
        }
    }

    /// As [`Round::compare`], for one key; also the lanes that match it, up to the first of which nothing is demanded
    /// besides.
    pub(crate) fn compare_one(&self, level: Level, key: &[u8], best: u32) -> (u32, [u8; LANES]) {
        assert!(self.reach <= key.len(), "a word that is compared lies inside a key");
        let mut matched = [0; LANES];
        match level.0 {
            Set::Plain => plain::compare_one(self, key, &mut matched),
            // SAFETY: levels are made by `Level::all` alone, which has seen that the processor has AVX2; the columns' reach
            // was checked.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { x86::compare_one_256(self, key, &mut matched) },
            // SAFETY: as above, with AVX-512.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { x86::compare_one_512(self, key, &mut matched) },
        }
        let mut best = [best];
        plain::rank(self, &[matched], &mut best);
        (best[0], matched)
    }

    /// Lanes of this block match, and none further on is better.
    fn is_enough(&self, block: usize, lanes: u8) -> bool {
        u64::from(lanes) << (LANES * block) & self.sure != 0
    }

    fn burst<'a>(&self, keys: &'a [u8], stride: usize, count: usize) -> Burst<'a> {
        assert!(count <= PHASE, "a burst has so many keys");
        let inside = count.checked_mul(stride).is_some_and(|len| len <= keys.len());
        assert!(inside, "a burst holds one key per answer");
        assert!(self.reach <= stride, "a word that is compared lies inside a key");
        Burst { keys, stride, count }
    }
}

/// The keys that are compared.
struct Burst<'a> {
    keys: &'a [u8],
    stride: usize,
    count: usize,
}

mod plain {
    use super::{Block, Burst, LANES, NOBODY, Round};

    /// The definition.
    pub(super) fn rank(round: &Round, matched: &[[u8; LANES]], best: &mut [u32]) {
        for (best, &lanes) in best.iter_mut().zip(matched) {
            let lanes = u64::from_le_bytes(lanes) & round.sure | 1 << NOBODY;
            *best = round.ranks.0[lanes.trailing_zeros() as usize].min(*best);
        }
    }

    /// The definition of what one key is compared to.
    pub(super) fn compare_one(round: &Round, key: &[u8], to: &mut [u8; LANES]) {
        let burst = Burst { keys: key, stride: key.len().max(1), count: 1 };
        for (at, block) in round.blocks.iter().enumerate() {
            let mut matched = [[0; LANES]];
            compare(std::slice::from_ref(block), &burst, &mut matched);
            to[at] = matched[0][0];
            if round.is_enough(at, to[at]) {
                break;
            }
        }
    }

    /// The definition.
    pub(super) fn compare(blocks: &[Block], burst: &Burst<'_>, to: &mut [[u8; LANES]]) {
        for (block, at) in blocks.iter().zip(0..LANES) {
            for (key, to) in burst.keys.chunks_exact(burst.stride).take(burst.count).zip(&mut *to) {
                let mut differs = [0; LANES];
                for column in &block.columns {
                    let word = crate::mask::load(key, column.offset as usize);
                    for ((d, mask), value) in
                        differs.iter_mut().zip(&column.mask).zip(&column.value)
                    {
                        *d |= word & mask ^ value;
                    }
                }
                let lane = |(lane, d): (usize, &u64)| u8::from(*d == 0) << lane;
                to[at] = differs.iter().enumerate().map(lane).sum();
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Block, Burst, Column, LANES, Matched, NOBODY, PHASE, Round, WORDS};

    /// A word of a key.
    ///
    /// # Safety
    ///
    /// The keys of `burst` hold as many as it says, `i` is one of them, and the column's word lies
    /// inside a stride.
    #[inline(always)]
    unsafe fn word(burst: &Burst<'_>, i: usize, column: &Column) -> i64 {
        let at = i * burst.stride + column.offset as usize;
        // SAFETY: the caller's promise.
        // WHY: two branches per word in the loop that every lookup runs through.
        unsafe { burst.keys.as_ptr().add(at).cast::<i64>().read_unaligned() }
    }

    /// The columns of all blocks, as many at a time as are unrolled.
    macro_rules! each {
        ($blocks:expr, $burst:expr, $to:expr, $one:ident) => {
            for (block, at) in $blocks.iter().zip(0..8) {
                for (columns, part) in block.columns.chunks(WORDS).zip(0..) {
                    // SAFETY: the caller's promise.
                    unsafe {
                        match (columns, part) {
                            ([a], 0) => $one::<1, true>(&[*a], $burst, $to, at),
                            ([a, b], 0) => $one::<2, true>(&[*a, *b], $burst, $to, at),
                            ([a, b, c, ..], 0) => $one::<3, true>(&[*a, *b, *c], $burst, $to, at),
                            ([a], _) => $one::<1, false>(&[*a], $burst, $to, at),
                            ([a, b], _) => $one::<2, false>(&[*a, *b], $burst, $to, at),
                            ([a, b, c, ..], _) => $one::<3, false>(&[*a, *b, *c], $burst, $to, at),
                            ([], _) => {}
                        }
                    }
                }
            }
        };
    }

    /// # Safety
    ///
    /// The keys are as many as `burst` says, and every column lies inside a stride.
    #[target_feature(enable = "avx512f,avx512cd,avx512dq")]
    pub(super) unsafe fn compare_512(blocks: &[Block], burst: &Burst<'_>, to: &mut [[u8; LANES]]) {
        each!(blocks, burst, to, columns_512);
    }

    /// Some columns of a block, the first ones or further ones.
    ///
    /// # Safety
    ///
    /// As [`compare_512`].
    #[target_feature(enable = "avx512f,avx512cd,avx512dq")]
    #[inline]
    unsafe fn columns_512<const W: usize, const FIRST: bool>(
        columns: &[Column; W],
        burst: &Burst<'_>,
        to: &mut [[u8; LANES]],
        at: usize,
    ) {
        // SAFETY: eight words are 64 bytes.
        let load = |words: &[u64; LANES]| unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        let masks = columns.each_ref().map(|c| load(&c.mask));
        let values = columns.each_ref().map(|c| load(&c.value));
        for (i, to) in (0..burst.count).zip(to) {
            let mut differs = _mm512_setzero_si512();
            for w in 0..W {
                // SAFETY: the caller's promise.
                let key = _mm512_set1_epi64(unsafe { word(burst, i, &columns[w]) });
                // Key and mask, exclusive or value.
                let d = _mm512_ternarylogic_epi64::<0x6a>(key, masks[w], values[w]);
                differs = if w == 0 { d } else { _mm512_or_si512(differs, d) };
            }
            let equal = _mm512_testn_epi64_mask(differs, differs);
            to[at] = if FIRST { equal } else { equal & to[at] };
        }
    }

    /// As [`plain::compare_one`](super::plain::compare_one).
    ///
    /// # Safety
    ///
    /// Every column's word lies inside the key.
    #[target_feature(enable = "avx512f,avx512cd,avx512dq")]
    pub(super) unsafe fn compare_one_512(round: &Round, key: &[u8], to: &mut [u8; LANES]) {
        // SAFETY: eight words are 64 bytes.
        let load = |words: &[u64; LANES]| unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        for ((at, block), to) in round.blocks.iter().enumerate().zip(to) {
            let mut differs = _mm512_setzero_si512();
            for column in &block.columns {
                // SAFETY: the caller's promise.
                let key = unsafe {
                    key.as_ptr().add(column.offset as usize).cast::<i64>().read_unaligned()
                };
                let key = _mm512_set1_epi64(key);
                let (mask, value) = (load(&column.mask), load(&column.value));
                // Key and mask, exclusive or value.
                let d = _mm512_ternarylogic_epi64::<0x6a>(key, mask, value);
                differs = _mm512_or_si512(differs, d);
            }
            *to = _mm512_testn_epi64_mask(differs, differs);
            if round.is_enough(at, *to) {
                break;
            }
        }
    }

    /// As [`plain::compare_one`](super::plain::compare_one).
    ///
    /// # Safety
    ///
    /// Every column's word lies inside the key.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn compare_one_256(round: &Round, key: &[u8], to: &mut [u8; LANES]) {
        let load = |words: &[u64; LANES]| {
            let at = words.as_ptr().cast::<__m256i>();
            // SAFETY: eight words are twice 32 bytes.
            unsafe { [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))] }
        };
        for ((at, block), to) in round.blocks.iter().enumerate().zip(to) {
            let mut equal = [_mm256_set1_epi64x(-1); 2];
            for column in &block.columns {
                // SAFETY: the caller's promise.
                let key = unsafe {
                    key.as_ptr().add(column.offset as usize).cast::<i64>().read_unaligned()
                };
                let key = _mm256_set1_epi64x(key);
                let (mask, value) = (load(&column.mask), load(&column.value));
                for half in 0..2 {
                    let same = _mm256_cmpeq_epi64(_mm256_and_si256(key, mask[half]), value[half]);
                    equal[half] = _mm256_and_si256(equal[half], same);
                }
            }
            let [low, high] = equal.map(|half| _mm256_movemask_pd(_mm256_castsi256_pd(half)) as u8);
            *to = low | high << 4;
            if round.is_enough(at, *to) {
                break;
            }
        }
    }

    /// As [`plain::rank`](super::plain::rank).
    #[target_feature(enable = "avx512f,avx512cd,avx512dq")]
    pub(super) fn rank_512(round: &Round, matched: &Matched, best: &mut [u32; PHASE]) {
        // SAFETY: sixteen ranks are 64 bytes.
        let load = |at: &[u32; 16]| unsafe { _mm512_loadu_si512(at.as_ptr().cast()) };
        let (ranks, _) = round.ranks.0.as_chunks::<16>();
        let [low, high, upper, top] = [0, 1, 2, 3].map(|part| load(&ranks[part]));
        let sure = _mm512_set1_epi64(round.sure as i64);
        let nobody = _mm512_set1_epi64(1 << NOBODY);
        // The first of the lanes of eight keys.
        let first = |lanes: &[[u8; LANES]; 8]| {
            // SAFETY: eight keys' lanes are 64 bytes.
            let lanes = unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) };
            // Lanes and sure, or nobody.
            let lanes = _mm512_ternarylogic_epi64::<0xea>(lanes, sure, nobody);
            let below = _mm512_add_epi64(lanes, _mm512_set1_epi64(-1));
            // As many bits as there are below the lowest that is set.
            let zeros = _mm512_lzcnt_epi64(_mm512_andnot_si512(lanes, below));
            _mm512_sub_epi64(_mm512_set1_epi64(64), zeros)
        };
        let evens = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        let (matched, _) = matched.as_chunks::<8>();
        let (best, _) = best.as_chunks_mut::<16>();
        for (best, matched) in best.iter_mut().zip(matched.chunks_exact(2)) {
            let lanes = _mm512_permutex2var_epi32(first(&matched[0]), evens, first(&matched[1]));
            let far = _mm512_test_epi32_mask(lanes, _mm512_set1_epi32(32));
            let near = _mm512_permutex2var_epi32(low, lanes, high);
            let beyond = _mm512_permutex2var_epi32(upper, lanes, top);
            let found = _mm512_mask_blend_epi32(far, near, beyond);
            let least = _mm512_min_epu32(found, load(best));
            // SAFETY: sixteen ranks are 64 bytes.
            unsafe { _mm512_storeu_si512(best.as_mut_ptr().cast(), least) };
        }
    }

    /// # Safety
    ///
    /// The keys are as many as `burst` says, and every column lies inside a stride.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn compare_256(blocks: &[Block], burst: &Burst<'_>, to: &mut [[u8; LANES]]) {
        each!(blocks, burst, to, columns_256);
    }

    /// Some columns of a block, the first ones or further ones.
    ///
    /// # Safety
    ///
    /// As [`compare_256`].
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn columns_256<const W: usize, const FIRST: bool>(
        columns: &[Column; W],
        burst: &Burst<'_>,
        to: &mut [[u8; LANES]],
        at: usize,
    ) {
        let load = |words: &[u64; LANES]| {
            let at = words.as_ptr().cast::<__m256i>();
            // SAFETY: eight words are twice 32 bytes.
            unsafe { [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))] }
        };
        let masks = columns.each_ref().map(|c| load(&c.mask));
        let values = columns.each_ref().map(|c| load(&c.value));
        let all = _mm256_set1_epi64x(-1);
        for (i, to) in (0..burst.count).zip(to) {
            let mut equal = [all; 2];
            for w in 0..W {
                // SAFETY: the caller's promise.
                let key = _mm256_set1_epi64x(unsafe { word(burst, i, &columns[w]) });
                for half in 0..2 {
                    let masked = _mm256_and_si256(key, masks[w][half]);
                    let same = _mm256_cmpeq_epi64(masked, values[w][half]);
                    equal[half] = _mm256_and_si256(equal[half], same);
                }
            }
            let [low, high] = equal.map(|half| _mm256_movemask_pd(_mm256_castsi256_pd(half)) as u8);
            let equal = low | high << 4;
            to[at] = if FIRST { equal } else { equal & to[at] };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_finds_what_rules_demand() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        for len in [1, 3, 8, 9, 17, 40, 100] {
            let stride = usize::next_multiple_of(len, 8);
            for rules in [0, 1, 7, 8, 9, 33, 63] {
                let rules: Vec<(Vec<u8>, Vec<u8>)> = (0..rules)
                    .map(|_| {
                        let mask: Vec<u8> = (0..len)
                            .map(|_| [0, 0, 0, 0x80, 1, 3][random() as usize % 6])
                            .collect();
                        let value = mask.iter().map(|m| random() & m).collect();
                        (mask, value)
                    })
                    .collect();
                let lanes: Vec<Lane<'_>> = rules
                    .iter()
                    .enumerate()
                    .map(|(n, (mask, value))| Lane {
                        mask,
                        value,
                        rank: 100 + 3 * n as u32,
                        ranged: n % 5 == 4,
                    })
                    .collect();
                let round = Round::new(&lanes);
                assert_eq!(round.has_ranged(), rules.len() > 4);
                for count in [0, 1, 5, 32] {
                    let mut keys = vec![0; stride * count];
                    for key in keys.chunks_mut(stride) {
                        key[..len].iter_mut().for_each(|byte| *byte = random());
                    }
                    for level in Level::all() {
                        let mut got = [[0; LANES]; PHASE];
                        let mut best = [150; PHASE];
                        round.compare(level, (&keys, stride, count), &mut got, &mut best);
                        for ((key, got), best) in keys.chunks(stride).zip(got).zip(best) {
                            let meets = |lane: &&Lane<'_>| {
                                (0..len).all(|i| key[i] & lane.mask[i] == lane.value[i])
                            };
                            let key = &key[..stride];
                            let one = round.compare_one(level, key, 150);
                            // Behind the first sure one no more blocks are looked at.
                            let first = (u64::from_le_bytes(got) & round.sure).trailing_zeros();
                            let seen = u64::MAX >> (56 - (first / 8 * 8).min(56));
                            let seen = u64::from_le_bytes(got) & seen;
                            assert_eq!(one, (best, seen.to_le_bytes()), "{level:?}");
                            let met: Vec<&Lane<'_>> = lanes.iter().filter(meets).collect();
                            let bits = met.iter().map(|lane| 1 << ((lane.rank - 100) / 3));
                            assert_eq!(u64::from_le_bytes(got), bits.sum::<u64>(), "{level:?}");
                            let sure = met.iter().find(|lane| !lane.ranged);
                            assert_eq!(best, sure.map_or(150, |lane| lane.rank.min(150)));
                            let ranged = met.iter().filter(|lane| lane.ranged);
                            assert!(round.ranged(got).eq(ranged.map(|lane| lane.rank)));
                        }
                    }
                }
            }
        }
    }

    fn compare(round: &Round, burst: (&[u8], usize, usize)) {
        round.compare(Level::detect(), burst, &mut [[0; LANES]; PHASE], &mut [0; PHASE]);
    }

    #[test]
    #[should_panic(expected = "a burst holds one key per answer")]
    fn too_few_keys_are_refused() {
        compare(&Round::new(&[]), (&[0; 23], 8, 3));
    }

    #[test]
    #[should_panic(expected = "a word that is compared lies inside a key")]
    fn a_word_outside_is_refused() {
        let lane = Lane { mask: &[1; 17], value: &[1; 17], rank: 0, ranged: false };
        compare(&Round::new(&[lane]), (&[0; 32], 16, 2));
    }
}
