//! Kernels for x86-64 processors with AVX2, and for those with AVX-512.
//!
//! What decides is looked up where a burst begins, in what the standard library has found out once.
//!
//! Keys of one or two words have functions of their own: a bucket's slots are compared at once, and
//! with AVX-512 keys that lie side by side are masked and hashed eight or four at a time, and a
//! payload gets from the bucket to the answers without passing through a general register. Longer
//! keys are compared as by [`Plain`].
//!
//! Checked by: the unit tests of [`simd`](super) and [`hash`](crate::hash).

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::hint::select_unpredictable;

use super::{Each, Kernel, Lanes, Line, PHASE, Place, Plain, SPREAD, View};
use crate::hit::Hit;

#[inline]
fn has_avx2() -> bool {
    #[cfg(test)]
    if super::LANES_MAX.get() < 1 {
        return false;
    }
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
}

#[inline]
fn has_avx512() -> bool {
    #[cfg(test)]
    if super::LANES_MAX.get() < 2 {
        return false;
    }
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
}

/// Runs a kernel, or gives it back.
#[inline]
pub(super) fn run<K: Kernel>(kernel: K) -> Option<K> {
    if !has_avx2() {
        return Some(kernel);
    }
    if has_avx512() {
        // SAFETY: the processor has the instructions that the function is compiled for.
        // WHY: a burst in a hash takes half the time (`benches/lookup.rs`, 6 exact bytes).
        unsafe { run_avx512(kernel) };
    } else {
        // SAFETY: as above.
        // WHY: a burst in a hash takes three quarters of the time.
        unsafe { run_avx2(kernel) };
    }
    None
}

/// Runs every kind that the processor can.
#[cfg(test)]
pub(super) fn run_each<K: Kernel>(make: impl Fn() -> K) {
    if has_avx2() {
        // SAFETY: the processor has the instructions that the function is compiled for.
        unsafe { run_avx2(make()) };
    }
    if has_avx2() && has_avx512() {
        // SAFETY: as above.
        unsafe { run_avx512(make()) };
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn run_avx2(kernel: impl Kernel) {
    kernel.run::<Avx2>();
}

#[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512bw")]
fn run_avx512(kernel: impl Kernel) {
    kernel.run::<Avx512>();
}

/// Only [`run_avx2`] may use it.
struct Avx2;

/// Only [`run_avx512`] may use it.
struct Avx512;

impl Lanes for Avx2 {
    #[inline(always)]
    fn select<const W: usize>(line: &[u64; 8], words: &[u64; W], otherwise: u64) -> u64 {
        match W {
            // SAFETY: the caller is compiled for these instructions and runs where they are.
            // WHY: as in `run`.
            1 => unsafe { avx2::select_1(line, words[0], otherwise) },
            // SAFETY: as above.
            // WHY: as above.
            2 => unsafe { avx2::select_2(line, words[0], words[1], otherwise) },
            _ => Plain::select(line, words, otherwise),
        }
    }

    #[inline(always)]
    fn extract(word: u64, mask: u64) -> u64 {
        // SAFETY: as above.
        // WHY: a step of a search by cuts, `benches/classbench.rs`.
        unsafe { avx2::extract(word, mask) }
    }
}

mod avx2 {
    use super::*;
    use std::hint::select_unpredictable;

    #[inline]
    #[target_feature(enable = "bmi2")]
    pub(super) fn extract(word: u64, mask: u64) -> u64 {
        _pext_u64(word, mask)
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) fn select_1(line: &[u64; 8], word: u64, otherwise: u64) -> u64 {
        // SAFETY: a line is 64 bytes.
        // WHY: as in `run`.
        let slots = unsafe { _mm256_loadu_si256(line.as_ptr().cast()) };
        let equal = _mm256_cmpeq_epi64(slots, _mm256_set1_epi64x(word as i64));
        let equal = _mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u32;
        let payload = line[4 + equal.trailing_zeros() as usize % 4];
        select_unpredictable(equal != 0, payload, otherwise)
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) fn select_2(line: &[u64; 8], first: u64, second: u64, otherwise: u64) -> u64 {
        // SAFETY: a line is 64 bytes.
        // WHY: as in `run`.
        let slots = unsafe { _mm256_loadu_si256(line.as_ptr().cast()) };
        let key = _mm_set_epi64x(second as i64, first as i64);
        let equal = _mm256_cmpeq_epi64(slots, _mm256_broadcastsi128_si256(key));
        let words = _mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u32;
        let equal = words & words >> 1 & 0b101;
        let payload = line[4 + equal.trailing_zeros() as usize % 4];
        select_unpredictable(equal != 0, payload, otherwise)
    }
}

impl Lanes for Avx512 {
    #[inline(always)]
    fn hashes<'a, const W: usize>(
        view: &View<'_, W>,
        place: &Place,
        buckets: Option<u64>,
        words: &'a mut Each<[u64; W]>,
        hashes: &'a mut Each<u64>,
    ) -> (&'a [[u64; W]], &'a [u64]) {
        if view.stride == 8 * W && W <= 2 {
            // SAFETY: the caller is compiled for these instructions and runs where they are.
            // WHY: as in `run`.
            unsafe { avx512::hashes(view, place, buckets, words, hashes) }
        } else {
            Plain::hashes(view, place, buckets, words, hashes)
        }
    }

    #[inline(always)]
    fn select<const W: usize>(line: &[u64; 8], words: &[u64; W], otherwise: u64) -> u64 {
        match W {
            // SAFETY: as above.
            // WHY: as above.
            1 | 2 => unsafe { avx512::select(line, words, otherwise) },
            _ => Plain::select(line, words, otherwise),
        }
    }

    #[inline(always)]
    fn equal(hits: &[Hit], payload: u64) -> u32 {
        // SAFETY: as above.
        // WHY: as above.
        unsafe { avx512::equal(hits, payload) }
    }

    #[inline(always)]
    fn matching(masks: &[u64; 8], values: &[u64; 8], word: u64) -> u8 {
        // SAFETY: as above.
        // WHY: as below.
        unsafe { avx512::matching(masks, values, word) }
    }

    #[inline(always)]
    fn within(ranges: &[u64; 8], values: [u16; 2]) -> u8 {
        // SAFETY: as above.
        // WHY: as below.
        unsafe { avx512::within(ranges, values) }
    }

    #[inline(always)]
    fn common<const N: usize>(
        alive: &[Line; N],
        rows: &[[Line; N]],
        chosen: &[u16],
    ) -> Option<usize> {
        // SAFETY: as above.
        // WHY: a search by bit vectors is little else, `benches/classbench.rs`.
        unsafe { avx512::common(alive, rows, chosen) }
    }

    #[inline(always)]
    fn extract(word: u64, mask: u64) -> u64 {
        // SAFETY: as above; what has AVX-512 and is used here has BMI2.
        // WHY: a step of a search by cuts, `benches/classbench.rs`.
        unsafe { avx2::extract(word, mask) }
    }
}

mod avx512 {
    use super::*;

    /// [`Lanes::matching`].
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512bw")]
    pub(super) fn matching(masks: &[u64; 8], values: &[u64; 8], word: u64) -> u8 {
        // SAFETY: eight words are 64 bytes.
        // WHY: as in `run`.
        let (masks, values) = unsafe {
            (_mm512_loadu_si512(masks.as_ptr().cast()), _mm512_loadu_si512(values.as_ptr().cast()))
        };
        _mm512_cmpeq_epi64_mask(_mm512_and_si512(_mm512_set1_epi64(word as i64), masks), values)
    }

    /// [`Lanes::common`].
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512bw")]
    pub(super) fn common<const N: usize>(
        alive: &[Line; N],
        rows: &[[Line; N]],
        chosen: &[u16],
    ) -> Option<usize> {
        // SAFETY: a line is 64 bytes.
        // WHY: as in `run`.
        let load = |line: &Line| unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) };
        let mut all = [_mm512_setzero_si512(); N];
        // By plain loops: through closures of arrays these do not stay in registers.
        for (all, line) in all.iter_mut().zip(alive) {
            *all = load(line);
        }
        for &row in chosen {
            for (all, line) in all.iter_mut().zip(&rows[usize::from(row)]) {
                *all = _mm512_and_si512(*all, load(line));
            }
        }
        let mut found = usize::MAX;
        for (n, &all) in all.iter().enumerate().rev() {
            let words = _mm512_test_epi64_mask(all, all);
            let word = _mm512_maskz_compress_epi64(words, all);
            let word = _mm_cvtsi128_si64(_mm512_castsi512_si128(word)) as u64;
            let at =
                512 * n + 64 * words.trailing_zeros() as usize + word.trailing_zeros() as usize;
            found = select_unpredictable(words != 0, at, found);
        }
        (found != usize::MAX).then_some(found)
    }

    /// Bits for the first `count` of eight.
    #[inline]
    fn first(count: usize) -> u8 {
        (0xff_u32 >> 8_usize.saturating_sub(count)) as u8
    }

    /// [`Lanes::within`].
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512bw")]
    pub(super) fn within(ranges: &[u64; 8], values: [u16; 2]) -> u8 {
        // SAFETY: eight words are 64 bytes.
        // WHY: as in `run`.
        let ranges = unsafe { _mm512_loadu_si512(ranges.as_ptr().cast()) };
        let pair = u32::from(values[0]) | u32::from(values[1]) << 16;
        let above = _mm512_sub_epi16(_mm512_set1_epi64(i64::from(pair)), ranges);
        // Widths come down to where the lowest values are.
        let widths = _mm512_srli_epi64::<32>(ranges);
        let inside = _mm512_cmple_epu16_mask(above, widths);
        // Of each lane's four, the first two.
        _pext_u64(u64::from(inside & inside >> 1), 0x1111_1111) as u8
    }

    /// [`Lanes::hashes`] of keys of one word or two that lie side by side.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512bw")]
    pub(super) fn hashes<'a, const W: usize>(
        view: &View<'_, W>,
        place: &Place,
        buckets: Option<u64>,
        words: &'a mut Each<[u64; W]>,
        hashes: &'a mut Each<u64>,
    ) -> (&'a [[u64; W]], &'a [u64]) {
        let (from, count) = (view.keys.as_ptr(), view.count.min(PHASE));
        let (words_to, hashes_to) = (words.0.as_mut_ptr(), hashes.0.as_mut_ptr());
        let (one, two) = (view.windows[0], view.windows[W - 1]);
        let every_other = |a: u64, b: u64| {
            let (a, b) = (a as i64, b as i64);
            _mm512_set_epi64(b, a, b, a, b, a, b, a)
        };
        let mask = every_other(one.mask, two.mask);
        let factors = every_other(place.factors[0], place.factors[W - 1]);
        let start = _mm512_set1_epi64(place.start as i64);
        let spread = _mm512_set1_epi64(SPREAD as i64);
        for at in (0..count).step_by(8 / W) {
            let there = first((count - at) * W);
            // SAFETY: `View::new` has checked that `view.count` strides lie in the keys, and the
            // windows in a stride: that of a key of one word begins at 0, and of two words the
            // even ones are read by the first window, the odd ones by the second. Bits stand for
            // keys below the count alone. `PHASE` is a multiple of eight, so there is room for the
            // words of `8 / W` keys from `at` on.
            // WHY: as in `run`.
            let words = unsafe {
                let keys = from.add(at * 8 * W);
                let key = keys.wrapping_add(one.offset as usize).cast();
                let loaded = if W == 1 {
                    _mm512_maskz_loadu_epi64(there, key)
                } else {
                    let odd = keys.wrapping_add(two.offset as usize).wrapping_sub(8).cast();
                    let even = _mm512_maskz_loadu_epi64(0b0101_0101 & there, key);
                    _mm512_mask_loadu_epi64(even, 0b1010_1010 & there, odd)
                };
                let masked = _mm512_and_si512(loaded, mask);
                _mm512_storeu_si512(words_to.add(at).cast(), masked);
                masked
            };
            let mut sum = _mm512_mullo_epi64(words, factors);
            if W == 2 {
                sum = _mm512_add_epi64(sum, _mm512_shuffle_epi32::<0b01_00_11_10>(sum));
            }
            sum = _mm512_add_epi64(sum, start);
            let mixed = _mm512_xor_si512(sum, _mm512_srli_epi64::<32>(sum));
            let mixed = _mm512_mullo_epi64(mixed, spread);
            let mixed = _mm512_xor_si512(mixed, _mm512_srli_epi64::<32>(mixed));
            let hash = _mm512_srli_epi64::<32>(_mm512_mullo_epi64(mixed, spread));
            let result = match buckets {
                None => hash,
                Some(buckets) => {
                    let buckets = _mm512_set1_epi64(buckets as i64);
                    _mm512_srli_epi64::<32>(_mm512_mul_epu32(hash, buckets))
                }
            };
            if W == 1 {
                // SAFETY: as above: there is room for eight.
                // WHY: as above.
                unsafe { _mm512_storeu_si512(hashes_to.add(at).cast(), result) };
            } else {
                let evens = _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6);
                let result = _mm512_castsi512_si256(_mm512_permutexvar_epi64(evens, result));
                // SAFETY: as above: there is room for four.
                // WHY: as above.
                unsafe { _mm256_storeu_si256(hashes_to.add(at).cast(), result) };
            }
        }
        // SAFETY: `count` of each have been written.
        // WHY: as above.
        unsafe {
            (
                std::slice::from_raw_parts(words_to.cast(), count),
                std::slice::from_raw_parts(hashes_to.cast(), count),
            )
        }
    }

    /// [`Lanes::select`] of keys of one word or two.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512bw")]
    pub(super) fn select<const W: usize>(line: &[u64; 8], words: &[u64; W], otherwise: u64) -> u64 {
        // SAFETY: a line is 64 bytes.
        // WHY: as in `run`.
        let (slots, payloads) = unsafe {
            let at = line.as_ptr().cast::<__m256i>();
            (_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1)))
        };
        let equal = if W == 1 {
            _mm256_cmpeq_epi64_mask(slots, _mm256_set1_epi64x(words[0] as i64))
        } else {
            let key = _mm_set_epi64x(words[W - 1] as i64, words[0] as i64);
            let differ = _mm256_xor_si256(slots, _mm256_broadcastsi128_si256(key));
            let either = _mm256_or_si256(differ, _mm256_shuffle_epi32::<0b01_00_11_10>(differ));
            _mm256_mask_testn_epi64_mask(0b0101, either, either)
        };
        let none = _mm256_set1_epi64x(otherwise as i64);
        // The payload of the first equal slot comes first; none leaves what was there.
        let found = _mm256_mask_compress_epi64(none, equal, payloads);
        _mm_cvtsi128_si64(_mm256_castsi256_si128(found)) as u64
    }

    /// [`Lanes::equal`].
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512bw")]
    pub(super) fn equal(hits: &[Hit], payload: u64) -> u32 {
        let (count, payload) = (hits.len().min(PHASE), _mm512_set1_epi64(payload as i64));
        let mut bits = 0;
        for at in (0..count).step_by(8) {
            let there = first(count - at);
            // SAFETY: a hit is eight bytes; bits stand for hits below `count` alone.
            // WHY: as in `run`.
            let hits = unsafe { _mm512_maskz_loadu_epi64(there, hits.as_ptr().add(at).cast()) };
            bits |= u32::from(_mm512_mask_cmpeq_epi64_mask(there, hits, payload)) << at;
        }
        bits
    }
}
