//! A burst of keys in one direct index, level by level.
//!
//! How many levels a key needs cannot be guessed, so a branch on that for each key costs more than
//! the levels do. With AVX2 a level is a masked gather for eight keys at a time: those that are at a
//! leaf keep it. All keys of a burst go through a level before the next begins, so their cache
//! misses overlap without anything being asked for ahead.
//!
//! Under a first level of 2^24 leaves it can be guessed: hardly a key goes further. There keys are
//! read eight at a time and then looked up one by one ([`x86::flat`]), and the processor overlaps
//! their misses by itself; asking ahead gained nothing (500,000 prefixes: at 1,000 flows 2.7 ns
//! against 4.5 in stages, at a million 18 against 15).
//!
//! Few keys go one by one, as do all without AVX2. So do those of other indices that the nearer
//! caches do not hold, after what each needs next has been asked for ([`staged`]): there gathers
//! lose to loads (500,000 prefixes, a million flows: by a third and more).
//!
//! Keys that lie eight bytes apart, as they do where prefix field and side key are eight bytes
//! together, are read and compared with the side key eight at a time, too; with AVX-512 their answers are
//! fetched so, and all is done for sixteen at a time.
//!
//! Cost: for 1,000 to 10,000 prefixes about half of what a loop per key costs (`benches/lpm.rs`).
//! Checked by: the unit test below, where the processor can do both; `tests/lpm.rs`.

#![allow(unsafe_code)]

use super::bits::{BURST, NONE, narrow_of, nearest};
use super::dir::Dir;
use crate::hit::Hit;
use crate::mask::{self, Window};
use crate::rule::Field;
use crate::simd::prefetch;

/// Keys from which on eight are done at a time.
const WIDE_FROM: usize = 6;

/// Bytes of blocks and hits from which on keys go one by one, in stages.
const FAR_FROM: usize = 4 << 20;

/// Where the prefix field and the side key lie in a key, and what the side key must be.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Bits before the prefixes in a key of eight bytes read as a number.
    before: u32,
    /// The bits of a prefix that the field has.
    bits: u32,
    field: Field,
    skip: u32,
    windows: &'a [Window],
    side: &'a [u64],
}

impl<'a> Place<'a> {
    /// For a field of at most 32 bits, `skip` bits of which come before its prefixes; `side` holds
    /// the words of the side key in these windows.
    pub(super) fn new(
        field: Field,
        skip: u32,
        windows: &'a [Window],
        side: &'a [u64],
    ) -> Place<'a> {
        let before = field.offset as u32 * 8 + skip;
        let bits = field.len as u32 * 8 - skip;
        let bits = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        Place { before, bits, field, skip, windows, side }
    }

    /// The field's prefix as the leading bits of a number.
    #[inline(always)]
    fn top(&self, key: &[u8]) -> u32 {
        narrow_of(key, self.field) << self.skip
    }

    /// The number of a key's longest prefix, or [`NONE`].
    #[inline(always)]
    pub(super) fn lookup(&self, dir: &Dir, key: &[u8]) -> u32 {
        let asked = mask::equals(self.windows, self.side, key);
        if asked { dir.lookup(self.top(key)) } else { NONE }
    }
}

/// Looks up at most [`BURST`] keys, `stride` bytes apart.
pub(super) fn burst(
    dir: &Dir,
    place: &Place<'_>,
    answers: &[Hit],
    keys: &[u8],
    stride: usize,
    hits: &mut [Hit],
) {
    if hits.len() < WIDE_FROM {
        return plain(dir, place, answers, keys, stride, hits);
    }
    let flat = dir.first_bits() == Dir::FLAT;
    if !flat && size_of_val(dir.lower()) + size_of_val(answers) >= FAR_FROM {
        return staged(dir, place, answers, keys, stride, hits);
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        if !flat && stride == 8 && place.windows.len() <= 1 && x86::is_wide() {
            // SAFETY: the processor has the instructions that the function is compiled for.
            // WHY: keys and answers move in vectors, too, with half as many instructions.
            return unsafe { x86::wide(dir, place, answers, keys, hits) };
        }
        if flat {
            // SAFETY: the processor has the instructions that the function is compiled for.
            // WHY: a burst takes a fifth less than by keys read one by one (as below).
            return unsafe { x86::flat(dir, place, answers, keys, stride, hits) };
        }
        // SAFETY: the processor has the instructions that the function is compiled for.
        // WHY: a burst takes half the time (`benches/lpm.rs`, 1,000 prefixes).
        return unsafe { x86::burst(dir, place, answers, keys, stride, hits) };
    }
    plain(dir, place, answers, keys, stride, hits);
}

fn plain(
    dir: &Dir,
    place: &Place<'_>,
    answers: &[Hit],
    keys: &[u8],
    stride: usize,
    hits: &mut [Hit],
) {
    for (hit, key) in hits.iter_mut().zip(keys.chunks_exact(stride)) {
        *hit = answers[place.lookup(dir, key) as usize];
    }
}

/// As [`plain`], asking for what a key needs next before it is read.
fn staged(
    dir: &Dir,
    place: &Place<'_>,
    answers: &[Hit],
    keys: &[u8],
    stride: usize,
    hits: &mut [Hit],
) {
    // Each key's prefix, then the number of its answer.
    let mut each = [0; BURST];
    let each = &mut each[..hits.len()];
    for (top, key) in each.iter_mut().zip(keys.chunks_exact(stride)) {
        *top = place.top(key);
        dir.prefetch_first(*top);
    }
    if dir.blocks() > 0 {
        each.iter().for_each(|&top| dir.prefetch_second(top, answers));
    }
    for each in &mut *each {
        *each = dir.lookup(*each);
        prefetch(nearest(answers, *each));
    }
    for (hit, &number) in hits.iter_mut().zip(&*each) {
        *hit = answers[number as usize];
    }
    if !place.windows.is_empty() {
        for (hit, key) in hits.iter_mut().zip(keys.chunks_exact(stride)) {
            let right = mask::equals(place.windows, place.side, key);
            *hit = if right { *hit } else { answers[NONE as usize] };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    /// Keys done at a time.
    const LANES: usize = 8;

    #[target_feature(enable = "avx2")]
    pub(super) fn burst(
        dir: &Dir,
        place: &Place<'_>,
        answers: &[Hit],
        keys: &[u8],
        stride: usize,
        hits: &mut [Hit],
    ) {
        // For each number of vectors its own loops, which hold them in registers.
        match hits.len().div_ceil(LANES) {
            0 => {}
            1 => go::<1>(dir, place, answers, keys, stride, hits),
            2 => go::<2>(dir, place, answers, keys, stride, hits),
            3 => go::<3>(dir, place, answers, keys, stride, hits),
            _ => go::<4>(dir, place, answers, keys, stride, hits),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn go<const N: usize>(
        dir: &Dir,
        place: &Place<'_>,
        answers: &[Hit],
        keys: &[u8],
        stride: usize,
        hits: &mut [Hit],
    ) {
        let count = hits.len().min(N * LANES);
        let (first, blocks) = (dir.first(), dir.lower());
        assert!(first.len() == 1 << dir.first_bits(), "a first level is as long as it says");
        let mut below = 32 - dir.first_bits();
        let (tops, mut leaves) = read::<N>(place, keys, stride, count);
        const { assert!(NONE == 0, "zeroes are no number") };
        let asked = leaves.map(|asked| _mm256_srai_epi32::<31>(asked));
        let shift = _mm_cvtsi32_si128(below as i32);
        for (leaf, top) in leaves.iter_mut().zip(tops) {
            let (at, none) = (_mm256_srl_epi32(top, shift), _mm256_set1_epi32(NONE as i32));
            // SAFETY: an index has no more bits than the first level's length, as asserted.
            // WHY: the compiler's own vectors do not gather.
            *leaf =
                unsafe { _mm256_mask_i32gather_epi32::<4>(none, first.as_ptr().cast(), at, *leaf) };
        }
        let within = blocks.len() << Dir::STRIDE;
        assert!(within <= 1 << 31, "an index is not negative");
        let last = _mm256_set1_epi32(within.saturating_sub(1) as i32);
        let mut deeper = within > 0;
        while deeper {
            below -= Dir::STRIDE;
            let shift = _mm_cvtsi32_si128(below as i32);
            deeper = false;
            for (leaf, top) in leaves.iter_mut().zip(tops) {
                if _mm256_movemask_ps(_mm256_castsi256_ps(*leaf)) == 0 {
                    continue;
                }
                let within = _mm256_and_si256(_mm256_srl_epi32(top, shift), _mm256_set1_epi32(15));
                let at =
                    _mm256_or_si256(_mm256_slli_epi32::<{ Dir::STRIDE as i32 }>(*leaf), within);
                let at = _mm256_min_epu32(at, last);
                // SAFETY: blocks are numbers side by side; no index is beyond the last of them or
                // negative, and there is one.
                // WHY: as above.
                *leaf = unsafe {
                    _mm256_mask_i32gather_epi32::<4>(*leaf, blocks.as_ptr().cast(), at, *leaf)
                };
                deeper |= _mm256_movemask_ps(_mm256_castsi256_ps(*leaf)) != 0;
            }
            deeper &= below >= Dir::STRIDE;
        }
        // Keys that asked for nothing have no leaf, those without a longer prefix the default's.
        let (none, default) = (_mm256_setzero_si256(), _mm256_set1_epi32(dir.default() as i32));
        for (hits, (leaf, asked)) in hits.chunks_mut(LANES).zip(leaves.into_iter().zip(asked)) {
            let unset = _mm256_and_si256(_mm256_cmpeq_epi32(leaf, none), asked);
            let leaf = _mm256_blendv_epi8(leaf, default, unset);
            for (hit, number) in hits.iter_mut().zip(numbers(leaf)) {
                *hit = answers[number as usize];
            }
        }
    }

    /// Whether the processor has what [`wide`] uses.
    pub(super) fn is_wide() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
    }

    /// As [`burst`], for keys of eight bytes side by side that are compared in one word at most: sixteen at a time.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    pub(super) fn wide(
        dir: &Dir,
        place: &Place<'_>,
        answers: &[Hit],
        keys: &[u8],
        hits: &mut [Hit],
    ) {
        // For each number of vectors its own loops, here too, in which all go through a level before the next begins: a
        // gather is so many operations of the processor that it does not reach the next vector's by itself.
        match hits.len().div_ceil(WIDE) {
            0 => {}
            1 => go_wide::<1>(dir, place, answers, keys, hits),
            _ => go_wide::<{ BURST / WIDE }>(dir, place, answers, keys, hits),
        }
    }

    /// Keys that [`wide`] does at a time.
    const WIDE: usize = 2 * LANES;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    fn go_wide<const N: usize>(
        dir: &Dir,
        place: &Place<'_>,
        answers: &[Hit],
        keys: &[u8],
        hits: &mut [Hit],
    ) {
        const { assert!(size_of::<Hit>() == 8 && NONE == 0, "answers are words, zeroes no number") };
        let (first, blocks) = (dir.first(), dir.lower());
        assert!(first.len() == 1 << dir.first_bits(), "a first level is as long as it says");
        assert!(hits.len() * 8 <= keys.len(), "a burst holds one key per answer");
        assert!(hits.len() <= N * WIDE, "the vectors have a lane for each key");
        let within = blocks.len() << Dir::STRIDE;
        assert!(within <= 1 << 31 && !answers.is_empty() && answers.len() <= 1 << 31);
        let last = _mm512_set1_epi32(within.saturating_sub(1) as i32);
        let answers_last = _mm512_set1_epi32((answers.len() - 1) as i32);
        let swap = _mm512_broadcast_i32x4(_mm_set_epi8(
            8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7,
        ));
        let before = _mm_cvtsi32_si128(place.before as i32);
        let bits = _mm512_set1_epi32(place.bits as i32);
        let (mask, side) = match (place.windows, place.side) {
            ([window], [side]) => (window.mask, *side),
            _ => (0, 0),
        };
        let (mask, side) = (_mm512_set1_epi64(mask as i64), _mm512_set1_epi64(side as i64));
        let default = _mm512_set1_epi32(dir.default() as i32);
        let none = _mm512_setzero_si512();
        // Lanes where there are keys.
        let there = ((1u64 << hits.len()) - 1) as u32;
        let there: [u16; N] = std::array::from_fn(|n| (there >> (n * WIDE)) as u16);
        let (mut tops, mut leaves, mut asked) = ([none; N], [none; N], [0u16; N]);
        let mut below = 32 - dir.first_bits();
        let shift = _mm_cvtsi32_si128(below as i32);
        for n in 0..N {
            let mut halves = [_mm256_setzero_si256(); 2];
            for (i, half) in halves.iter_mut().enumerate() {
                let there = (there[n] >> (i * LANES)) as u8;
                let from = keys.as_ptr().wrapping_add((n * WIDE + i * LANES) * 8).cast();
                // SAFETY: lanes beyond the keys, of which there are as many as answers, are masked.
                // WHY: the compiler makes no such loads of its own.
                let words = unsafe { _mm512_maskz_loadu_epi64(there, from) };
                let right = _mm512_cmpeq_epi64_mask(_mm512_and_si512(words, mask), side) & there;
                asked[n] |= u16::from(right) << (i * LANES);
                let top = _mm512_sll_epi64(_mm512_shuffle_epi8(words, swap), before);
                *half = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(top));
            }
            let top = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves[0]), halves[1]);
            tops[n] = _mm512_and_si512(top, bits);
            let at = _mm512_srl_epi32(tops[n], shift);
            // SAFETY: an index has no more bits than the first level's length, as asserted.
            // WHY: the compiler's own vectors do not gather.
            leaves[n] = unsafe {
                _mm512_mask_i32gather_epi32::<4>(none, asked[n], at, first.as_ptr().cast())
            };
        }
        while within > 0 && below >= Dir::STRIDE {
            let inner = leaves.map(|leaf| _mm512_movepi32_mask(leaf));
            if inner == [0; N] {
                break;
            }
            below -= Dir::STRIDE;
            let shift = _mm_cvtsi32_si128(below as i32);
            for n in 0..N {
                let at = _mm512_srl_epi32(tops[n], shift);
                let at = _mm512_and_si512(at, _mm512_set1_epi32(15));
                let at = _mm512_or_si512(_mm512_slli_epi32::<{ Dir::STRIDE }>(leaves[n]), at);
                let at = _mm512_min_epu32(at, last);
                // SAFETY: blocks are numbers side by side; no index is beyond the last of them or negative, and there
                // is one.
                // WHY: as above.
                leaves[n] = unsafe {
                    let from = blocks.as_ptr().cast();
                    _mm512_mask_i32gather_epi32::<4>(leaves[n], inner[n], at, from)
                };
            }
        }
        for n in 0..N {
            // Keys that asked for nothing have no leaf, those without a longer prefix the default's.
            let unset = _mm512_mask_cmpeq_epi32_mask(asked[n], leaves[n], none);
            let leaf = _mm512_mask_mov_epi32(leaves[n], unset, default);
            let leaf = _mm512_min_epu32(leaf, answers_last);
            let numbers = [_mm512_castsi512_si256(leaf), _mm512_extracti64x4_epi64::<1>(leaf)];
            for (i, numbers) in numbers.into_iter().enumerate() {
                let there = (there[n] >> (i * LANES)) as u8;
                // SAFETY: no number is beyond the last answer or negative, and answers are words side by side; lanes
                // beyond the hits are masked.
                // WHY: as above.
                unsafe {
                    let from = answers.as_ptr().cast();
                    let found = _mm512_mask_i32gather_epi64::<8>(none, there, numbers, from);
                    let to = hits.as_mut_ptr().wrapping_add(n * WIDE + i * LANES).cast();
                    _mm512_mask_storeu_epi64(to, there, found);
                }
            }
        }
    }

    /// Keys whose number the first level holds, all but a few.
    #[target_feature(enable = "avx2")]
    pub(super) fn flat(
        dir: &Dir,
        place: &Place<'_>,
        answers: &[Hit],
        keys: &[u8],
        stride: usize,
        hits: &mut [Hit],
    ) {
        let count = hits.len().min(BURST);
        let (tops, asked) = read::<{ BURST / LANES }>(place, keys, stride, count);
        let tops = tops.map(|top| numbers(top));
        let asked = asked.map(|asked| numbers(_mm256_srai_epi32::<31>(asked)));
        const { assert!(NONE == 0, "an answer is taken away by a mask") };
        let mut each = [NONE; BURST];
        let keys = tops.as_flattened().iter().zip(asked.as_flattened());
        for (each, (&top, &asked)) in each.iter_mut().zip(keys).take(count) {
            *each = dir.lookup(top) & asked;
        }
        for (hit, &number) in hits.iter_mut().zip(&each) {
            *hit = answers[number as usize];
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn numbers(of: __m256i) -> [u32; LANES] {
        let mut numbers = [0; LANES];
        // SAFETY: there is room for eight numbers.
        // WHY: as above.
        unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast(), of) };
        numbers
    }

    /// The prefixes of at most `N` vectors of keys, and the highest bit of a number for each whose side
    /// key is right; lanes beyond `count` have none.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn read<const N: usize>(
        place: &Place<'_>,
        keys: &[u8],
        stride: usize,
        count: usize,
    ) -> ([__m256i; N], [__m256i; N]) {
        let (mut tops, mut asked) = ([_mm256_setzero_si256(); N], [_mm256_setzero_si256(); N]);
        if stride == 8 && place.windows.len() <= 1 {
            let vectors = tops.iter_mut().zip(&mut asked).take(count.div_ceil(LANES));
            for (i, (top, asked)) in vectors.enumerate() {
                (*top, *asked) = eight(place, keys, i * LANES, count);
            }
        } else {
            gather(place, keys, stride, count, &mut tops, &mut asked);
        }
        (tops, asked)
    }

    /// The prefixes of keys, and the highest bit of a number for each whose side key is right.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn gather<const N: usize>(
        place: &Place<'_>,
        keys: &[u8],
        stride: usize,
        count: usize,
        tops: &mut [__m256i; N],
        asked: &mut [__m256i; N],
    ) {
        let (mut all_tops, mut all_asked) = ([[0u32; LANES]; N], [[0u32; LANES]; N]);
        let to = all_tops.as_flattened_mut().iter_mut().zip(all_asked.as_flattened_mut());
        for ((top, asked), key) in to.zip(keys.chunks_exact(stride)).take(count) {
            *top = place.top(key);
            *asked = u32::from(mask::equals(place.windows, place.side, key)) << 31;
        }
        for i in 0..N {
            // SAFETY: there are eight numbers.
            // WHY: as above.
            unsafe {
                tops[i] = _mm256_loadu_si256(all_tops[i].as_ptr().cast());
                asked[i] = _mm256_loadu_si256(all_asked[i].as_ptr().cast());
            }
        }
    }

    /// As [`gather`], of eight keys from `at` on that are eight bytes each.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn eight(place: &Place<'_>, keys: &[u8], at: usize, count: usize) -> (__m256i, __m256i) {
        assert!(at < count && count * 8 <= keys.len(), "a burst holds one key per answer");
        let left = _mm256_set1_epi64x((count - at) as i64);
        let [low, high] = [_mm256_set_epi64x(3, 2, 1, 0), _mm256_set_epi64x(7, 6, 5, 4)];
        let there = [_mm256_cmpgt_epi64(left, low), _mm256_cmpgt_epi64(left, high)];
        // SAFETY: keys of eight bytes are read of which `count` lie in `keys`; lanes beyond are
        // masked.
        // WHY: as above.
        let words = unsafe {
            let from = keys.as_ptr().add(at * 8).cast::<i64>();
            [
                _mm256_maskload_epi64(from, there[0]),
                _mm256_maskload_epi64(from.wrapping_add(4), there[1]),
            ]
        };
        // The upper halves of eight words.
        let halves = |[a, b]: [__m256i; 2]| {
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            let mixed = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
            _mm256_permute4x64_epi64::<0b11_01_10_00>(mixed)
        };
        let asked = match (place.windows, place.side) {
            ([window], [side]) => {
                let mask = _mm256_set1_epi64x(window.mask as i64);
                let side = _mm256_set1_epi64x(*side as i64);
                let same = |i: usize| {
                    let same = _mm256_cmpeq_epi64(_mm256_and_si256(words[i], mask), side);
                    _mm256_and_si256(same, there[i])
                };
                halves([same(0), same(1)])
            }
            _ => halves(there),
        };
        let swap = _mm256_set_epi8(
            8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0,
            1, 2, 3, 4, 5, 6, 7,
        );
        let before = _mm_cvtsi32_si128(place.before as i32);
        let top = |i: usize| _mm256_sll_epi64(_mm256_shuffle_epi8(words[i], swap), before);
        let bits = _mm256_set1_epi32(place.bits as i32);
        (_mm256_and_si256(halves([top(0), top(1)]), bits), asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn eight_at_a_time_answer_as_one_by_one() {
        let mut n = 3u64;
        let mut random = || {
            n ^= n << 13;
            n ^= n >> 7;
            n ^= n << 17;
            n
        };
        let answers: Vec<Hit> = (0..1000).map(|n| Hit { entry: n, action: n ^ 5 }).collect();
        for (lens, skip) in [
            (&[2, 4][..], 0),
            (&[4], 0),
            (&[8], 0),
            (&[1, 2], 0),
            (&[3], 4),
            (&[9, 4], 2),
            (&[2, 0, 4], 7),
        ] {
            let layout = crate::Layout::new(lens).unwrap();
            let field = *layout.fields().last().unwrap();
            let field = Field { len: field.len.min(4), ..field };
            let bits = field.len as u32 * 8 - skip;
            for first_bits in [12, 16, 20, Dir::FLAT] {
                let mut dir = Dir::new(first_bits);
                for number in 1..400 {
                    // Longer ones after those that cover them, and no two of a length alike.
                    let len = number * bits / 400;
                    let top = (random() as u32 & 0xf0f0_1111)
                        & u32::MAX.checked_shl(32 - len).unwrap_or(0);
                    let covering = dir.lookup(top);
                    dir.replace(top, len, covering, number);
                }
                for side_mask in [0u8, 0xff] {
                    let mut mask = vec![side_mask; layout.key_len()];
                    mask[field.offset..][..field.len].fill(0);
                    let windows = mask::windows(&mask);
                    for stride in [layout.stride(), layout.stride() + 8] {
                        for count in 0..=BURST {
                            let mut keys = vec![0; count * stride];
                            for key in keys.chunks_mut(stride) {
                                let random = random().to_be_bytes();
                                key[field.offset..][..field.len]
                                    .copy_from_slice(&random[..field.len]);
                                if field.offset > 0 {
                                    key[field.offset - 1] = random[7] & 1;
                                }
                            }
                            let side = vec![0; windows.len()];
                            let place = Place::new(field, skip, &windows, &side);
                            let mut one = [Hit::MISS; BURST];
                            plain(&dir, &place, &answers, &keys, stride, &mut one[..count]);
                            for way in [x86::burst, x86::flat] {
                                if !is_x86_feature_detected!("avx2") {
                                    break;
                                }
                                let mut eight = [Hit::MISS; BURST];
                                let to = &mut eight[..count];
                                // SAFETY: the processor has the instructions.
                                unsafe { way(&dir, &place, &answers, &keys, stride, to) };
                                assert_eq!(one, eight);
                            }
                            if stride == 8 && windows.len() <= 1 && x86::is_wide() {
                                let mut wide = [Hit::MISS; BURST];
                                let to = &mut wide[..count];
                                // SAFETY: the processor has the instructions.
                                unsafe { x86::wide(&dir, &place, &answers, &keys, to) };
                                assert_eq!(one, wide);
                            }
                            let mut stepped = [Hit::MISS; BURST];
                            staged(&dir, &place, &answers, &keys, stride, &mut stepped[..count]);
                            assert_eq!(one, stepped);
                            for (key, hit) in keys.chunks(stride).zip(one) {
                                let top = narrow_of(key, field) << skip;
                                let right = mask::equals(&windows, &side, key);
                                let want = if right { dir.lookup(top) } else { NONE };
                                assert_eq!(hit, answers[want as usize]);
                            }
                        }
                    }
                }
            }
        }
    }
}
