//! A hash from key words to one word of payload, laid out in cache lines.
//!
//! A bucket is a line of 64 bytes: first the keys of its slots side by side, then their payloads.
//! Keys of one word have four slots, of two or three words two, of up to seven words one; longer
//! keys take several lines. So a probe that finds its bucket not overflowed costs one cache miss,
//! key and answer together. A full bucket overflows into the next one.
//!
//! A burst is looked up in stages ([`Probe`]): the homes of all keys, then what lies there. Keys that
//! are not at home are seen to last ([`Buckets::find_on`]), since which they are cannot be guessed.
//! All is generic over the number of words, so that the compiler unrolls it.
//!
//! Invariants: slots of a bucket are filled from the first; every bucket between a key's home and
//! where it lies is full, so the first bucket with a free slot ends every search (removals move
//! keys back to keep this, there are no tombstones); some slot is always free. A free slot's
//! payload is [`EMPTY`], and its key is one whose home is elsewhere (zeros, or in the home of the
//! key of zeros some other), so that what is equal in a key's home is the key.
//! Where slots leave a word of the line, it says whether any key passed over the bucket since it
//! became full, so that most searches for keys that are not there end at home.
//! Homes grow with the hash, so that growing reads and writes memory in order.
//! Cost: lookup, one line in most cases: of 100 keys 4 are elsewhere in a small table, about 10 in a
//! large one; update the same; growth by three fifths moves every key.
//! Checked by: the unit test below, against a map; `tests/model.rs`.

use crate::mask::{self, Window};
use crate::simd::{self, Lanes, Place, Plain, payload_at, slots_for};

/// The payload of a free slot; no other has it. As a [`Hit`](crate::Hit), it is a miss.
pub(crate) const EMPTY: u64 = u32::MAX as u64;

/// Buckets of the smallest table.
const BUCKETS_MIN: usize = 2;

/// Buckets of tables that are kept roomier: there the branches that keys away from home cost are
/// dearer than the memory that fewer of them take.
const ROOMY_MAX: usize = 4096;

/// The word that says whether keys passed over a bucket of one line; the last, if slots leave it.
const PASSED: usize = 7;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line([u64; 8]);

impl Line {
    /// The payload of a key of `W` words, or another if it is not here.
    ///
    /// There is no branch on what is found, so that a burst can go on with its other keys.
    #[inline(always)]
    pub(crate) fn find<const W: usize, L: Lanes>(&self, words: &[u64; W], otherwise: u64) -> u64 {
        // Of several slots the first: a key goes before a free slot that looks like it.
        L::select(&self.0, words, otherwise)
    }

    /// Whether a key that is not here may lie farther on.
    #[inline(always)]
    fn goes_on<const W: usize>(&self) -> bool {
        let slots = const { slots_for(W) };
        if payload_at(W, slots - 1) < PASSED {
            return self.0[PASSED] != 0;
        }
        self.0[payload_at(W, slots - 1)] != EMPTY
    }
}

/// Key words to payloads.
#[derive(Debug, Clone)]
pub(crate) struct Buckets {
    lines: Vec<Line>,
    /// Words of a key, at least one.
    width: usize,
    slots: usize,
    /// Lines of a bucket.
    span: usize,
    len: usize,
    place: Place,
    /// The home of a key of zeros, and the word that free slots hold there.
    zeros: (usize, u64),
}

/// What a burst's lookups read of [`Buckets`].
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) lines: &'a [Line],
    pub(crate) place: &'a Place,
}

/// A bucket to look at where there is none to look at. Its payloads are [`EMPTY`], as are its keys.
pub(crate) const NOWHERE: Probe<'static> =
    Probe { lines: &[Line([EMPTY; 8])], place: &Place::NOWHERE };

impl Buckets {
    /// An empty one for keys of `width` words.
    pub(crate) fn new(width: usize, seed: u64) -> Buckets {
        assert!(width > 0, "a key has at least one word");
        let slots = slots_for(width);
        let span = (slots * (width + 1)).div_ceil(8);
        let (lines, place) = (Vec::new(), Place::new(seed));
        let zeros = (0, 0);
        let mut new = Buckets { lines, width, slots, span, len: 0, place, zeros };
        new.clear_to(BUCKETS_MIN);
        new
    }

    fn clear_to(&mut self, buckets: usize) -> Vec<Line> {
        let mut line = Line([0; 8]);
        if self.span == 1 {
            (0..self.slots).for_each(|slot| line.0[payload_at(self.width, slot)] = EMPTY);
        }
        let old = std::mem::replace(&mut self.lines, vec![line; buckets * self.span]);
        assert!(buckets < 1 << 32, "a bucket has a number of 32 bits");
        self.place.buckets = buckets as u64;
        if self.span > 1 {
            (0..buckets).for_each(|bucket| self.free(bucket, 0));
        }
        let home_of = |word| self.home_of((0..self.width).map(|_| word));
        let zeros = home_of(0);
        let other = (1..).find(|&word| home_of(word) != zeros);
        self.zeros = (zeros, other.expect("words have different homes"));
        (0..self.slots).for_each(|slot| self.free(zeros, slot));
        old
    }

    /// Keys held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Keys that so many buckets hold at most.
    fn capacity(&self, buckets: usize) -> usize {
        let slots = buckets * self.slots;
        match (buckets <= ROOMY_MAX, self.slots) {
            (true, 4) => slots / 2,
            (true, _) => slots * 2 / 5,
            (false, 4) => slots * 3 / 4,
            (false, 2) => slots * 2 / 3,
            (false, _) => slots * 3 / 5,
        }
    }

    #[inline]
    fn word(&self, bucket: usize, at: usize) -> u64 {
        self.lines[bucket * self.span + at / 8].0[at % 8]
    }

    fn set_word(&mut self, bucket: usize, at: usize, word: u64) {
        self.lines[bucket * self.span + at / 8].0[at % 8] = word;
    }

    #[inline]
    fn payload(&self, bucket: usize, slot: usize) -> u64 {
        self.word(bucket, payload_at(self.width, slot))
    }

    fn set_payload(&mut self, bucket: usize, slot: usize, payload: u64) {
        self.set_word(bucket, payload_at(self.width, slot), payload);
    }

    fn key(&self, bucket: usize, slot: usize) -> impl Iterator<Item = u64> + '_ {
        (0..self.width).map(move |i| self.word(bucket, slot * self.width + i))
    }

    fn free(&mut self, bucket: usize, slot: usize) {
        let word = if bucket == self.zeros.0 { self.zeros.1 } else { 0 };
        for i in 0..self.width {
            self.set_word(bucket, slot * self.width + i, word);
        }
        self.set_payload(bucket, slot, EMPTY);
    }

    /// Notes whether keys passed over a full bucket, where there is room for that.
    fn set_passed(&mut self, bucket: usize, passed: bool) {
        if self.span == 1 && payload_at(self.width, self.slots - 1) < PASSED {
            self.set_word(bucket, PASSED, u64::from(passed));
        }
    }

    /// Slots in use; they are the first.
    fn used(&self, bucket: usize) -> usize {
        (0..self.slots).take_while(|&slot| self.payload(bucket, slot) != EMPTY).count()
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets() { 0 } else { bucket + 1 }
    }

    #[inline]
    fn home_of(&self, words: impl Iterator<Item = u64>) -> usize {
        self.place.home(words) as usize
    }

    fn buckets(&self) -> usize {
        self.place.buckets as usize
    }

    /// The bucket in which a search for the key begins.
    #[inline]
    pub(crate) fn home<const W: usize>(&self, words: &[u64; W]) -> usize {
        self.home_of(words.iter().copied())
    }

    /// As [`Buckets::home`], for a key of any width.
    #[inline]
    pub(crate) fn home_wide(&self, windows: &[Window], key: &[u8]) -> usize {
        self.home_of(windows.iter().map(|w| mask::word(key, w)))
    }

    /// Asks for the memory of a bucket of keys of `W` words, at most [`UNROLLED_MAX`].
    #[inline(always)]
    pub(crate) fn prefetch<const W: usize>(&self, bucket: usize) {
        if let Some(line) = self.lines.get(bucket) {
            simd::prefetch(line);
        }
    }

    /// As [`Buckets::prefetch`], for keys of any width.
    #[inline]
    pub(crate) fn prefetch_wide(&self, bucket: usize) {
        for i in 0..self.span {
            if let Some(line) = self.lines.get(bucket * self.span + i) {
                simd::prefetch(line);
            }
        }
    }

    /// The payload of a key of `W` words whose home is known, or [`EMPTY`].
    ///
    /// `W` must be the width and at most [`UNROLLED_MAX`].
    #[inline(always)]
    pub(crate) fn find<const W: usize>(&self, home: usize, words: &[u64; W]) -> u64 {
        match self.lines[home].find::<W, Plain>(words, EMPTY) {
            EMPTY => self.find_on::<W, Plain>(home, words),
            found => found,
        }
    }

    /// What a burst reads.
    #[inline(always)]
    pub(crate) fn probe(&self) -> Probe<'_> {
        Probe { lines: &self.lines, place: &self.place }
    }

    /// The payload of a key that is not in its home, or [`EMPTY`].
    #[inline(always)]
    pub(crate) fn find_on<const W: usize, L: Lanes>(&self, home: usize, words: &[u64; W]) -> u64 {
        let mut bucket = home;
        while self.lines[bucket].goes_on::<W>() {
            bucket = self.after(bucket);
            let found = self.lines[bucket].find::<W, L>(words, EMPTY);
            if found != EMPTY {
                return found;
            }
        }
        EMPTY
    }

    /// As [`Buckets::find`], for a key of any width.
    pub(crate) fn find_wide(&self, home: usize, windows: &[Window], key: &[u8]) -> u64 {
        let mut bucket = home;
        loop {
            for slot in 0..self.slots {
                let payload = self.payload(bucket, slot);
                let same = || {
                    self.key(bucket, slot)
                        .zip(windows)
                        .all(|(stored, w)| stored == mask::word(key, w))
                };
                if payload == EMPTY || same() {
                    return payload;
                }
            }
            bucket = self.after(bucket);
        }
    }

    fn locate(&self, words: &[u64]) -> Option<(usize, usize)> {
        let mut bucket = self.home_of(words.iter().copied());
        loop {
            for slot in 0..self.slots {
                if self.payload(bucket, slot) == EMPTY {
                    return None;
                }
                if self.key(bucket, slot).eq(words.iter().copied()) {
                    return Some((bucket, slot));
                }
            }
            bucket = self.after(bucket);
        }
    }

    /// The payload of a key.
    pub(crate) fn get(&self, words: &[u64]) -> Option<u64> {
        self.locate(words).map(|(bucket, slot)| self.payload(bucket, slot))
    }

    /// Changes the payload of a key that is there.
    pub(crate) fn set(&mut self, words: &[u64], payload: u64) {
        if let Some((bucket, slot)) = self.locate(words) {
            self.set_payload(bucket, slot, payload);
        }
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert(&mut self, words: &[u64], payload: u64) {
        if self.len >= self.capacity(self.buckets()) {
            self.resize((self.buckets() * 8).div_ceil(5));
        }
        self.len += 1;
        self.place(words, payload);
    }

    fn place(&mut self, words: &[u64], payload: u64) {
        let mut bucket = self.home_of(words.iter().copied());
        let slot = loop {
            let used = self.used(bucket);
            if used < self.slots {
                break used;
            }
            self.set_passed(bucket, true);
            bucket = self.after(bucket);
        };
        for (i, &word) in words.iter().enumerate() {
            self.set_word(bucket, slot * self.width + i, word);
        }
        self.set_payload(bucket, slot, payload);
    }

    /// Takes a key out; its payload, if it was there.
    pub(crate) fn remove(&mut self, words: &[u64]) -> Option<u64> {
        let (mut bucket, mut slot) = self.locate(words)?;
        let payload = self.payload(bucket, slot);
        self.len -= 1;
        loop {
            let used = self.used(bucket);
            self.copy((bucket, used - 1), (bucket, slot));
            self.free(bucket, used - 1);
            if used < self.slots {
                break;
            }
            // Searches went on from here; the hole takes a key from farther on that may lie here.
            match self.overflowed(bucket) {
                Some(from) => {
                    self.copy(from, (bucket, used - 1));
                    (bucket, slot) = from;
                }
                None => {
                    self.set_passed(bucket, false);
                    break;
                }
            }
        }
        if self.buckets() > 16 && self.len < self.capacity(self.buckets()) / 6 {
            self.resize(self.buckets() / 3);
        }
        Some(payload)
    }

    /// A key beyond a bucket that would lie in it or before if there were room.
    fn overflowed(&self, hole: usize) -> Option<(usize, usize)> {
        let (mut bucket, mut distance) = (self.after(hole), 1);
        loop {
            let used = self.used(bucket);
            for slot in 0..used {
                let words = self.key(bucket, slot);
                let home = self.home_of(words);
                if (bucket + self.buckets() - home) % self.buckets() >= distance {
                    return Some((bucket, slot));
                }
            }
            if used < self.slots {
                return None;
            }
            (bucket, distance) = (self.after(bucket), distance + 1);
        }
    }

    fn copy(&mut self, from: (usize, usize), to: (usize, usize)) {
        for i in 0..self.width {
            let word = self.word(from.0, from.1 * self.width + i);
            self.set_word(to.0, to.1 * self.width + i, word);
        }
        let payload = self.payload(from.0, from.1);
        self.set_payload(to.0, to.1, payload);
    }

    fn resize(&mut self, buckets: usize) {
        let before = self.buckets();
        let lines = self.clear_to(buckets.max(BUCKETS_MIN));
        let mut words = vec![0; self.width];
        for bucket in lines.chunks_exact(self.span).take(before) {
            let word = |at: usize| bucket[at / 8].0[at % 8];
            for slot in 0..self.slots {
                let payload = word(payload_at(self.width, slot));
                if payload != EMPTY {
                    (0..self.width).for_each(|i| words[i] = word(slot * self.width + i));
                    self.place(&words, payload);
                }
            }
        }
    }

    /// Every payload, in the order of the buckets.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = u64> + '_ {
        let of = move |bucket| (0..self.slots).map(move |slot| self.payload(bucket, slot));
        (0..self.buckets()).flat_map(of).filter(|&payload| payload != EMPTY)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn find(buckets: &Buckets, words: &[u64]) -> u64 {
        fn go<const W: usize>(buckets: &Buckets, words: &[u64]) -> u64 {
            let words = words.first_chunk::<W>().unwrap();
            buckets.find(buckets.home(words), words)
        }
        let windows: Vec<Window> =
            (0..words.len() as u32).map(|i| Window { offset: 8 * i, mask: u64::MAX }).collect();
        let key: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let wide = buckets.find_wide(buckets.home_wide(&windows, &key), &windows, &key);
        let unrolled = match words.len() {
            1 => go::<1>(buckets, words),
            2 => go::<2>(buckets, words),
            3 => go::<3>(buckets, words),
            5 => go::<5>(buckets, words),
            7 => go::<7>(buckets, words),
            _ => wide,
        };
        assert_eq!(unrolled, wide);
        wide
    }

    #[test]
    fn agrees_with_a_map_while_it_grows_and_shrinks() {
        for width in [1, 2, 3, 5, 7, 8, 20] {
            let mut buckets = Buckets::new(width, 3);
            let mut twin = BTreeMap::new();
            let mut n = width as u64;
            let mut random = || {
                n ^= n << 13;
                n ^= n >> 7;
                n ^= n << 17;
                n
            };
            for step in 0..12_000u64 {
                // The key of zeros is among them; phases of growing and of shrinking.
                let mut words = vec![0; width];
                words[random() as usize % width] = random() % 700;
                let grow = if step / 4000 % 2 == 0 { 3 } else { 1 };
                let there = twin.contains_key(&words);
                if random() % 4 < grow {
                    if there {
                        buckets.set(&words, step << 32 | 7);
                    } else {
                        buckets.insert(&words, step << 32 | 7);
                    }
                    twin.insert(words.clone(), step << 32 | 7);
                } else {
                    assert_eq!(buckets.remove(&words), twin.remove(&words));
                }
                assert_eq!(buckets.len(), twin.len());
                let probe = if random() % 2 == 0 { words } else { vec![random() % 9; width] };
                assert_eq!(find(&buckets, &probe), twin.get(&probe).copied().unwrap_or(EMPTY));
                assert_eq!(buckets.get(&probe), twin.get(&probe).copied());
                if step % 500 == 0 {
                    let mut all: Vec<u64> = buckets.payloads().collect();
                    all.sort_unstable();
                    let mut want: Vec<u64> = twin.values().copied().collect();
                    want.sort_unstable();
                    assert_eq!(all, want);
                    for (words, &payload) in &twin {
                        assert_eq!(find(&buckets, words), payload);
                    }
                }
            }
        }
    }

    #[test]
    fn most_keys_lie_at_home_however_they_count_up() {
        for (shift, seed) in [0, 8, 16, 24, 40, 48, 56]
            .into_iter()
            .flat_map(|s| [0, 1, 2, 3, 0x1234567890].map(|x| (s, x)))
        {
            let mut buckets = Buckets::new(1, seed);
            let count = if shift > 48 { 256 } else { 60_000u64 };
            for n in 0..count {
                buckets.insert(&[n << shift], n);
            }
            let at_home = |n: &u64| {
                let words = [n << shift];
                buckets.locate(&words).map(|(bucket, _)| bucket) == Some(buckets.home(&words))
            };
            let away = (0..count).filter(|n| !at_home(n)).count();
            assert!(away * 6 < count as usize, "{away} of {count} keys are away, shift {shift}");
        }
    }
}
