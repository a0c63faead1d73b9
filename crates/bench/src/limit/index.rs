//! A hash index for the limits: from a 64-bit key to a number, one cache line a lookup.
//!
//! Buckets of eight places; a place holds eleven bits of the hash and the number. Keys themselves lie
//! with the entries, where the lookup has to go anyway to count, so the index stays small: 8 MiB for
//! a million keys. A bucket that is full spills into the next.

use crate::cache::prefetch;

/// Bits of a place that hold the number.
const BITS: u32 = 21;
const NUMBER: u32 = (1 << BITS) - 1;
const PLACES: usize = 8;

#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Bucket([u32; PLACES]);

/// The index. Numbers begin at 1; 0 stands for none.
pub(super) struct Index {
    buckets: Vec<Bucket>,
    shift: u32,
}

/// A key's place: bucket and tag.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    bucket: u32,
    tag: u32,
}

impl Index {
    /// Of these keys, numbered from 1.
    pub(super) fn new(keys: impl ExactSizeIterator<Item = u64>) -> Index {
        let buckets = (keys.len() / 4).max(1).next_power_of_two();
        let shift = 64 - buckets.trailing_zeros();
        let mut index = Index { buckets: vec![Bucket::default(); buckets], shift };
        for (number, key) in (1u32..).zip(keys) {
            let place = index.place(key);
            let mut at = place.bucket as usize;
            loop {
                if let Some(free) = index.buckets[at].0.iter_mut().find(|p| **p == 0) {
                    *free = place.tag << BITS | number;
                    break;
                }
                at = (at + 1) & (buckets - 1);
            }
        }
        index
    }

    /// Where a key would be.
    #[inline(always)]
    pub(super) fn place(&self, key: u64) -> Place {
        let mixed = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bucket = mixed.checked_shr(self.shift).unwrap_or(0) as u32;
        // Never 0, which an empty place has.
        Place { bucket, tag: (mixed >> 8) as u32 & 0x7ff | 1 }
    }

    /// Asks for the bucket.
    #[inline(always)]
    pub(super) fn touch(&self, place: Place) {
        prefetch(&self.buckets, place.bucket as usize);
    }

    /// The number of the first place of the bucket that has the tag; 0 if none has. Whether it is the
    /// key's is for the caller to see, and [`search`](Self::search) finds it if it is not.
    #[inline(always)]
    pub(super) fn guess(&self, place: Place) -> u32 {
        let Some(Bucket(places)) = self.buckets.get(place.bucket as usize) else { return 0 };
        let mut found = 0u32;
        for (i, p) in places.iter().enumerate() {
            found |= u32::from(p >> BITS == place.tag) << i;
        }
        let first = found.trailing_zeros() as usize;
        // With none found, `first` is 32: a number of 0.
        places.get(first).map_or(0, |p| p & NUMBER)
    }

    /// The number for which `is_key` holds.
    #[cold]
    #[inline(never)]
    pub(super) fn search(&self, place: Place, is_key: impl Fn(u32) -> bool) -> u32 {
        let mut at = place.bucket as usize;
        for _ in 0..self.buckets.len() {
            let Bucket(places) = &self.buckets[at];
            let hit = places.iter().find(|p| **p >> BITS == place.tag && is_key(**p & NUMBER));
            if let Some(hit) = hit {
                return hit & NUMBER;
            }
            if places.contains(&0) {
                return 0;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
        0
    }

    /// A miss of the guess is a miss for good: the bucket has not spilled and no place of it has the
    /// tag.
    #[inline(always)]
    pub(super) fn is_final_miss(&self, place: Place, guess: u32) -> bool {
        let full = self.buckets.get(place.bucket as usize).is_some_and(|b| b.0[PLACES - 1] != 0);
        guess == 0 && !full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::prng::Prng;

    #[test]
    fn every_key_is_found_and_no_other() {
        for n in [1usize, 2, 9, 1000, 20_000] {
            let mut random = Prng::new(n as u64);
            let keys: Vec<u64> = (0..n).map(|_| random.next_u64() >> 16).collect();
            let index = Index::new(keys.iter().copied());
            let lookup = |key: u64| {
                let place = index.place(key);
                let guess = index.guess(place);
                let is_key = |number: u32| number > 0 && keys[number as usize - 1] == key;
                if is_key(guess) {
                    return guess;
                }
                let found = index.search(place, is_key);
                assert!(!index.is_final_miss(place, guess) || found == 0);
                found
            };
            for (number, key) in (1..).zip(&keys) {
                assert_eq!(lookup(*key), number);
            }
            for _ in 0..1000 {
                assert_eq!(lookup(random.next_u64() | 1 << 60), 0);
            }
        }
    }
}
