//! What the language does not offer: hints to the processor, loads checked once for many, and
//! instructions that not every processor has.
//!
//! A loop over a burst that gains from such instructions is a [`Kernel`]: written once over
//! [`Lanes`], compiled for each implementation of these, run by [`fastest`]. [`Plain`] is the twin of
//! the others, which are in `x86`. Where a key's bucket is, [`Place`] says, since all must agree on
//! that.
//!
//! A hint does nothing where the processor has no such thing; the loads have a plain twin,
//! [`mask::gather`](crate::mask::gather). Other users of `unsafe` code here: `lpm::direct`,
//! `lpm::popcnt`, `lanes`.
//!
//! Cost: what decides is asked for every burst, in a few instructions.
//! Checked by: the unit tests below; `tests/model.rs` and `tests/mixed.rs`, whose bursts go through
//! here.

#![allow(unsafe_code)]

use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

use crate::hit::{Hit, pack};
use crate::mask::Window;

/// The keys of a burst as seen through the windows of a mask.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, const W: usize> {
    keys: &'a [u8],
    stride: usize,
    count: usize,
    windows: [Window; W],
}

/// Words of the widest keys for which the search is unrolled.
pub(crate) const UNROLLED_MAX: usize = 7;

/// Keys that are looked up together, at most.
pub(crate) const PHASE: usize = 32;

impl<'a, const W: usize> View<'a, W> {
    /// Panics unless `keys` holds `count` keys and every window lies inside a stride.
    #[inline]
    pub(crate) fn new(keys: &'a [u8], stride: usize, count: usize, windows: &[Window; W]) -> Self {
        let inside = count.checked_mul(stride).is_some_and(|len| len <= keys.len());
        assert!(inside, "a burst holds one key per answer");
        let seen = windows.iter().all(|w| w.offset as usize + 8 <= stride);
        assert!(seen, "a window lies inside a key");
        View { keys, stride, count, windows: *windows }
    }

    /// The masked words of a key.
    #[inline(always)]
    pub(crate) fn words(&self, i: usize) -> [u64; W] {
        assert!(i < self.count, "a burst has so many keys");
        let at = i * self.stride;
        std::array::from_fn(|k| {
            let window = &self.windows[k];
            // SAFETY: `new` has checked that the window's eight bytes end within a stride and that
            // `count` strides end within the keys; `i` is below `count`.
            // WHY: two branches per word in the loop that every lookup runs through.
            let word = unsafe {
                self.keys.as_ptr().add(at + window.offset as usize).cast::<u64>().read_unaligned()
            };
            u64::from_le(word) & window.mask
        })
    }
}

/// A cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; 8]);

/// A loop over a burst, compiled for each kind of processor.
pub(crate) trait Kernel {
    /// Does it. Implementations are `#[inline(always)]`, else they are compiled plainly.
    fn run<L: Lanes>(self);
}

#[cfg(test)]
thread_local! {
    /// In tests: kernels may be run by [`Plain`] (0), by AVX2 too (1), by all (2).
    pub(crate) static LANES_MAX: std::cell::Cell<u8> = const { std::cell::Cell::new(2) };
}

/// Runs a kernel by the best instructions that there are.
#[inline]
pub(crate) fn fastest(kernel: impl Kernel) {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = x86::run(kernel) {
        kernel.run::<Plain>();
    }
    #[cfg(not(target_arch = "x86_64"))]
    kernel.run::<Plain>();
}

/// The steps of a lookup in [`Buckets`](crate::buckets::Buckets) that gain from wide registers. All
/// do the same; what each function says of itself holds for every implementation.
pub(crate) trait Lanes {
    /// The masked words and the hash of every key of a view, of which there are at most [`PHASE`];
    /// where `buckets` are given, the home among so many instead of the hash.
    #[inline(always)]
    fn hashes<'a, const W: usize>(
        view: &View<'_, W>,
        place: &Place,
        buckets: Option<u64>,
        words: &'a mut Each<[u64; W]>,
        hashes: &'a mut Each<u64>,
    ) -> (&'a [[u64; W]], &'a [u64]) {
        let words = words.fill(view.count, |i| view.words(i));
        let hashes = hashes.fill(view.count, |i| {
            let hash = place.hash(words[i].into_iter());
            buckets.map_or(hash, |buckets| home_of(hash, buckets))
        });
        (words, hashes)
    }

    /// The payload of a key in a cache line, or `otherwise` if no slot has it.
    fn select<const W: usize>(line: &[u64; 8], words: &[u64; W], otherwise: u64) -> u64;

    /// A bit for each of eight lanes whose value a word has under the lane's mask.
    #[inline(always)]
    fn matching(masks: &[u64; 8], values: &[u64; 8], word: u64) -> u8 {
        let lanes = masks.iter().zip(values).enumerate();
        let bit =
            |(at, (mask, value)): (usize, (&u64, &u64))| u8::from(word & mask == *value) << at;
        lanes.map(bit).fold(0, |bits, bit| bits | bit)
    }

    /// A bit for each of eight lanes whose two ranges have these values. A lane's word is the ranges' lowest
    /// values, then their widths, 16 bits each.
    #[inline(always)]
    fn within(ranges: &[u64; 8], values: [u16; 2]) -> u8 {
        let inside = |word: u64| {
            let part = |at: u32| (word >> (16 * at)) as u16;
            values[0].wrapping_sub(part(0)) <= part(2) && values[1].wrapping_sub(part(1)) <= part(3)
        };
        let lanes = ranges.iter().enumerate();
        lanes.fold(0, |bits, (at, &word)| bits | u8::from(inside(word)) << at)
    }

    /// The first bit that is set in `alive` and in all of the rows that are chosen, if there is one.
    #[inline(always)]
    fn common<const N: usize>(
        alive: &[Line; N],
        rows: &[[Line; N]],
        chosen: &[u16],
    ) -> Option<usize> {
        for (n, line) in alive.iter().enumerate() {
            let mut all = line.0;
            for &row in chosen {
                let row = &rows[usize::from(row)][n].0;
                all.iter_mut().zip(row).for_each(|(all, word)| *all &= word);
            }
            let words = (0..8).fold(0u8, |bits, at| bits | u8::from(all[at] != 0) << at);
            if words != 0 {
                let word = words.trailing_zeros() as usize;
                return Some(512 * n + 64 * word + all[word].trailing_zeros() as usize);
            }
        }
        None
    }

    /// The bits of a word under a mask, side by side.
    #[inline(always)]
    fn extract(word: u64, mask: u64) -> u64 {
        crate::mask::extract(word, mask)
    }

    /// A bit for each answer, of which there are at most [`PHASE`], that is this payload.
    #[inline(always)]
    fn equal(hits: &[Hit], payload: u64) -> u32 {
        let bit = |(i, &hit)| u32::from(pack(hit) == payload) << i;
        hits.iter().take(PHASE).enumerate().map(bit).fold(0, |bits, bit| bits | bit)
    }
}

/// Something for each key of a burst, in memory that is not cleared before.
pub(crate) struct Each<T>([MaybeUninit<T>; PHASE]);

impl<T: Copy> Each<T> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Each([const { MaybeUninit::uninit() }; PHASE])
    }

    /// Makes one for each of the first `count` keys, of which there are at most [`PHASE`].
    #[inline(always)]
    pub(crate) fn fill(&mut self, count: usize, mut make: impl FnMut(usize) -> T) -> &[T] {
        for (i, at) in self.0[..count].iter_mut().enumerate() {
            at.write(make(i));
        }
        // SAFETY: each of them has just been written.
        // WHY: clearing such memory takes as long as a lookup of some keys does.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), count) }
    }
}

/// How key words become the number of a bucket: words times secrets are added up, so that two keys
/// have the same sum by chance alone; then each bit of the sum is spread upwards, twice: keys that
/// count up in their highest bits are as many multiples of one number after the first time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    start: u64,
    factors: [u64; UNROLLED_MAX],
    /// How many buckets there are; below 2^32.
    pub(crate) buckets: u64,
}

const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Place {
    /// Bucket 0, for every key.
    pub(crate) const NOWHERE: Place = Place { start: 0, factors: [0; UNROLLED_MAX], buckets: 0 };

    pub(crate) fn new(seed: u64) -> Place {
        let mut state = seed ^ 0x243f_6a88_85a3_08d3;
        let mut next = || {
            state = state.wrapping_add(SPREAD);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        let start = next();
        Place { start, factors: std::array::from_fn(|_| next() | 1), buckets: 0 }
    }

    /// The bucket in which a search for the key begins.
    #[inline(always)]
    pub(crate) fn home(&self, words: impl Iterator<Item = u64>) -> u64 {
        home_of(self.hash(words), self.buckets)
    }

    /// 32 bits of hash.
    #[inline(always)]
    fn hash(&self, words: impl Iterator<Item = u64>) -> u64 {
        let spread = |sum: u64| (sum ^ sum >> 32).wrapping_mul(SPREAD);
        let mut sum = self.start;
        for (i, word) in words.enumerate() {
            if i > 0 && i % UNROLLED_MAX == 0 {
                sum = spread(sum);
            }
            sum = sum.wrapping_add(word.wrapping_mul(self.factors[i % UNROLLED_MAX]));
        }
        spread(spread(sum)) >> 32
    }
}

/// As far into so many buckets as a hash of 32 bits is into its range.
#[inline(always)]
pub(crate) fn home_of(hash: u64, buckets: u64) -> u64 {
    (hash * buckets) >> 32
}

/// Slots of a line, for keys of so many words: each slot has one word besides.
pub(crate) const fn slots_for(width: usize) -> usize {
    match width {
        0 | 1 => 4,
        2 | 3 => 2,
        _ => 1,
    }
}

/// Where in a line the payload of a slot lies, for keys of so many words. Payloads of keys of two
/// words lie as far apart as these.
pub(crate) const fn payload_at(width: usize, slot: usize) -> usize {
    let apart = if width == 2 { 2 } else { 1 };
    slots_for(width) * width + slot * apart
}

/// One word after the other.
pub(crate) struct Plain;

impl Lanes for Plain {
    #[inline(always)]
    fn select<const W: usize>(line: &[u64; 8], words: &[u64; W], otherwise: u64) -> u64 {
        // Which slot it is cannot be guessed, so there is no branch on that. Of several slots the
        // first counts.
        let mut found = otherwise;
        for slot in (0..const { slots_for(W) }).rev() {
            let differs = (0..W).fold(0, |d, i| d | (line[slot * W + i] ^ words[i]));
            found = select_unpredictable(differs == 0, line[payload_at(W, slot)], found);
        }
        found
    }
}

#[cfg(target_arch = "x86_64")]
mod x86;

/// Stores a payload as the [`Hit`] it is, in one piece.
#[inline(always)]
pub(crate) fn answer(hit: &mut Hit, payload: u64) {
    #[cfg(target_endian = "little")]
    {
        const { assert!(size_of::<Hit>() == 8 && std::mem::offset_of!(Hit, action) == 4) };
        // SAFETY: a hit is two numbers of 32 bits, any two; `pack` puts the first into the low half.
        // WHY: else a payload in a wide register is taken apart for two stores.
        unsafe { std::ptr::from_mut(hit).cast::<u64>().write_unaligned(payload) };
    }
    #[cfg(not(target_endian = "little"))]
    {
        *hit = unpack(payload);
    }
}

/// Asks for the cache line in which `at` begins.
#[inline(always)]
pub fn prefetch<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the reference is valid for reads, and the hint reads nothing that the program sees.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(at).cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the reference is valid for reads, and the hint reads nothing that the program sees.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) std::ptr::from_ref(at),
                options(readonly, nostack, preserves_flags));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask;

    #[test]
    fn a_view_sees_what_plain_loads_see() {
        for len in 1..30usize {
            let stride = len.next_multiple_of(8).max(8);
            let keys: Vec<u8> = (0..stride * 5).map(|i| (i * 31) as u8).collect();
            for bits in [0xffu8, 0x18] {
                let windows = mask::windows(&vec![bits; len]);
                let Some(first) = windows.first_chunk::<1>() else { continue };
                let view = View::new(&keys, stride, 5, first);
                for i in 0..5 {
                    let key = &keys[i * stride..][..stride];
                    assert_eq!(view.words(i), mask::gather(first, key));
                    if let Some(two) = windows.first_chunk::<2>() {
                        let view = View::new(&keys, stride, 5, two);
                        assert_eq!(view.words(i), mask::gather(two, key));
                    }
                }
            }
        }
    }

    /// Every kernel that the processor can run answers as the plain one: every pattern of equal and
    /// different words in a line, keys of every number, strides and windows of several kinds.
    fn lanes_agree<const W: usize>() {
        struct Check<const W: usize>;
        impl<const W: usize> Kernel for Check<W> {
            #[inline(always)]
            fn run<L: Lanes>(self) {
                for pattern in 0..1u64 << 8 {
                    let line: [u64; 8] = std::array::from_fn(|i| match pattern >> i & 1 {
                        0 => (1 << 63) + 5 + (i % W) as u64,
                        _ => pattern ^ 77 ^ (i as u64) << 9,
                    });
                    let words: [u64; W] = std::array::from_fn(|i| (1 << 63) + 5 + i as u64);
                    let same = |slot: &usize| line[slot * W..][..W] == words;
                    let slot = (0..slots_for(W)).find(same);
                    let want = slot.map_or(99, |slot| line[payload_at(W, slot)]);
                    assert_eq!(L::select(&line, &words, 99), want, "{W} {pattern:b}");
                    assert_eq!(Plain::select(&line, &words, 99), want, "{W} {pattern:b}");
                }
                let hits: Vec<Hit> =
                    (0..32).map(|i| Hit { entry: i * i % 3, action: i % 2 }).collect();
                for count in 0..=32 {
                    let (bits, payload) = (L::equal(&hits[..count], 1 << 32), pack(hits[3]));
                    assert_eq!(bits, Plain::equal(&hits[..count], 1 << 32));
                    assert_eq!(
                        L::equal(&hits[..count], payload),
                        Plain::equal(&hits[..count], payload)
                    );
                }
                let mut place = Place::new(7);
                place.buckets = 12_345;
                for len in 8 * W - 7..=8 * W {
                    for more in [0, 8] {
                        let stride = len.next_multiple_of(8) + more;
                        let keys: Vec<u8> =
                            (0..stride * 32).map(|i| (i * i * 31 / 8) as u8).collect();
                        let windows = mask::windows(&vec![0xfe; len]);
                        let windows = windows.first_chunk::<W>().unwrap();
                        for count in 0..=32 {
                            // Nothing beyond the last key may be read.
                            let keys: Box<[u8]> = keys[..stride * count].into();
                            let view = View::new(&keys, stride, count, windows);
                            let (mut words, mut homes) = (Each::new(), Each::new());
                            let buckets = (count % 2 == 0).then_some(place.buckets);
                            let (words, homes) =
                                L::hashes(&view, &place, buckets, &mut words, &mut homes);
                            assert_eq!((words.len(), homes.len()), (count, count));
                            for i in 0..count {
                                let want = view.words(i);
                                assert_eq!(words[i], want);
                                let home = match buckets {
                                    Some(_) => homes[i],
                                    None => home_of(homes[i], place.buckets),
                                };
                                assert_eq!(home, place.home(want.into_iter()));
                                assert!(home < place.buckets);
                            }
                        }
                    }
                }
            }
        }
        Check::<W>.run::<Plain>();
        #[cfg(target_arch = "x86_64")]
        x86::run_each(|| Check::<W>);
    }

    #[test]
    fn wide_lanes_do_what_plain_ones_do() {
        lanes_agree::<1>();
        lanes_agree::<2>();
        lanes_agree::<3>();
        lanes_agree::<5>();
    }

    #[test]
    #[should_panic(expected = "a burst has so many keys")]
    fn no_key_beyond_the_last_is_read() {
        View::new(&[0; 24], 8, 2, &[Window { offset: 0, mask: 1 }]).words(2);
    }

    #[test]
    #[should_panic(expected = "a burst holds one key per answer")]
    fn too_few_keys_are_refused() {
        View::new(&[0; 23], 8, 3, &[Window { offset: 0, mask: 1 }]);
    }

    #[test]
    #[should_panic(expected = "a window lies inside a key")]
    fn a_window_outside_is_refused() {
        View::new(&[0; 24], 8, 3, &[Window { offset: 1, mask: 1 }]);
    }
}
