//! One hash for the tables of many tuples: from hashes to the heads of chains.
//!
//! A bucket is a line of 64 bytes with eight slots; a byte of the hash (the *tag*) stands for each, so
//! that one look at the line says which slots, nearly always one or none, may be meant. What they lead
//! to must be checked by whoever asks: two keys may have one bucket and one tag. A full bucket overflows
//! into the next one and counts the keys that passed it, so that a search ends at the first bucket that
//! none has passed, and a removal leaves nothing behind.
//!
//! Invariants: a tag of zero marks a free slot, and no key has it; `passed` of a bucket is the number of
//! keys that lie behind it and belong to it or to one before it.
//! Cost: lookup, one line in most cases; update, the same; growth moves every key.
//! Checked by: the unit test below, against a map; `tests/model.rs`.

use crate::simd;

/// No row.
pub(crate) const NONE: u32 = u32::MAX;

/// Slots of a bucket.
const SLOTS: usize = 8;
/// Keys per bucket, at most in the mean.
const LOAD_MAX: usize = 4;
/// Keys per bucket, at least in the mean, if there are many.
const LOAD_MIN: usize = 1;
/// Buckets of the smallest store.
const BUCKETS_MIN: usize = 4;

const ONES: u64 = 0x0101_0101_0101_0101;
const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// A byte for each slot.
    tags: u64,
    heads: [u32; SLOTS],
    passed: u32,
}

const FREE: Bucket = Bucket { tags: 0, heads: [NONE; SLOTS], passed: 0 };

/// The slots of a bucket that may be meant: the highest bit of a byte for each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots(u64);

impl Slots {
    /// Whether there are any.
    #[inline(always)]
    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether there are several.
    #[inline(always)]
    pub(crate) fn several(self) -> bool {
        self.0 & self.0.wrapping_sub(1) != 0
    }
}

impl Bucket {
    #[inline(always)]
    fn slots(&self, tag: u64) -> Slots {
        let differs = self.tags ^ (tag * ONES);
        Slots(!((differs & LOW).wrapping_add(LOW) | differs | LOW))
    }

    fn tag(&self, slot: usize) -> u64 {
        self.tags >> (8 * slot) & 0xff
    }

    fn set(&mut self, slot: usize, tag: u64, head: u32) {
        self.tags = self.tags & !(0xff << (8 * slot)) | tag << (8 * slot);
        self.heads[slot] = head;
    }
}

/// The tag of a hash; not zero.
#[inline(always)]
fn tag_of(hash: u64) -> u64 {
    (hash & 0xff).max(1)
}

/// Hashes to heads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tagged {
    buckets: Vec<Bucket>,
    len: usize,
}

impl Tagged {
    /// An empty one.
    pub(crate) fn new() -> Tagged {
        Tagged { buckets: vec![FREE; BUCKETS_MIN], len: 0 }
    }

    /// The bucket in which a search begins.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    /// Asks for the memory of a bucket.
    #[inline(always)]
    pub(crate) fn prefetch(&self, bucket: usize) {
        if let Some(bucket) = self.buckets.get(bucket) {
            simd::prefetch(bucket);
        }
    }

    /// What a hash may mean in its home: the slots, the head in the first of them (any, if there is
    /// none), and whether there is more to see by [`Tagged::heads`].
    #[inline(always)]
    pub(crate) fn look(&self, home: usize, hash: u64) -> (Slots, u32, bool) {
        let bucket = &self.buckets[home];
        let slots = bucket.slots(tag_of(hash));
        let first = bucket.heads[slots.0.trailing_zeros() as usize / 8 % SLOTS];
        (slots, first, slots.several() | (bucket.passed != 0))
    }

    /// All heads that a hash may mean.
    pub(crate) fn heads(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        self.places(hash).map(|(bucket, slot)| self.buckets[bucket].heads[slot])
    }

    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut at = self.home(hash);
        let mut slots = self.buckets[at].slots(tag_of(hash)).0;
        // Once around, should keys have passed every bucket at one time or another.
        let mut left = self.buckets.len();
        std::iter::from_fn(move || {
            while slots == 0 {
                left -= 1;
                if self.buckets[at].passed == 0 || left == 0 {
                    return None;
                }
                at = self.after(at);
                slots = self.buckets[at].slots(tag_of(hash)).0;
            }
            let slot = slots.trailing_zeros() as usize / 8;
            slots &= slots - 1;
            Some((at, slot))
        })
    }

    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Changes the head that a hash leads to.
    pub(crate) fn set(&mut self, hash: u64, before: u32, now: u32) {
        let place = self.places(hash).find(|&(at, slot)| self.buckets[at].heads[slot] == before);
        if let Some((at, slot)) = place {
            self.buckets[at].heads[slot] = now;
        }
    }

    /// Adds a head. `hash_of` gives the hash of every head, should all have to move.
    pub(crate) fn insert(&mut self, hash: u64, head: u32, hash_of: impl Fn(u32) -> u64) {
        if self.len >= self.buckets.len() * LOAD_MAX {
            self.resize(self.buckets.len() * 8 / 5 + 1, &hash_of);
        }
        self.len += 1;
        self.place(hash, head);
    }

    fn place(&mut self, hash: u64, head: u32) {
        let mut at = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            let free = bucket.slots(0).0;
            if free != 0 {
                return bucket.set(free.trailing_zeros() as usize / 8, tag_of(hash), head);
            }
            bucket.passed += 1;
            at = self.after(at);
        }
    }

    /// Takes a head out.
    pub(crate) fn remove(&mut self, hash: u64, head: u32, hash_of: impl Fn(u32) -> u64) {
        let place = self.places(hash).find(|&(at, slot)| self.buckets[at].heads[slot] == head);
        let Some((found, slot)) = place else { return };
        let mut at = self.home(hash);
        while at != found {
            self.buckets[at].passed -= 1;
            at = self.after(at);
        }
        self.buckets[found].set(slot, 0, NONE);
        self.len -= 1;
        if self.buckets.len() > 16 && self.len < self.buckets.len() * LOAD_MIN {
            self.resize(self.buckets.len() / 2, &hash_of);
        }
    }

    fn resize(&mut self, buckets: usize, hash_of: &impl Fn(u32) -> u64) {
        let fresh = vec![FREE; buckets.max(BUCKETS_MIN)];
        let old = std::mem::replace(&mut self.buckets, fresh);
        for bucket in &old {
            for slot in (0..SLOTS).filter(|&slot| bucket.tag(slot) != 0) {
                self.place(hash_of(bucket.heads[slot]), bucket.heads[slot]);
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bad hashes on purpose: few homes, few tags.
    fn hash_of(head: u32) -> u64 {
        u64::from(head % 61) << 58 | u64::from(head % 7)
    }

    #[test]
    fn it_holds_what_a_set_holds() {
        let mut held = std::collections::BTreeSet::new();
        let mut tagged = Tagged::new();
        let mut state = 9u64;
        for step in 0..20_000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let head = (state >> 40) as u32 % 3000;
            // It grows, shrinks and grows again.
            let grows = step % 10_000 < 6000;
            if held.contains(&head) && (!grows || state >> 33 & 3 == 0) {
                tagged.remove(hash_of(head), head, hash_of);
                held.remove(&head);
            } else if !held.contains(&head) && grows {
                tagged.insert(hash_of(head), head, hash_of);
                held.insert(head);
            }
            assert_eq!(tagged.len, held.len());
            if step % 500 == 0 {
                for head in 0..3000 {
                    let found = tagged.heads(hash_of(head)).any(|other| other == head);
                    assert_eq!(found, held.contains(&head));
                }
            }
        }
        for head in std::mem::take(&mut held) {
            tagged.set(hash_of(head), head, head + 61 * 7 * 1000);
            tagged.remove(hash_of(head), head + 61 * 7 * 1000, hash_of);
        }
        assert!(tagged.buckets.iter().all(|b| b.passed == 0 && b.tags == 0));
        assert_eq!(tagged.len, 0);
    }

    #[test]
    fn a_look_sees_the_home_alone_and_says_so() {
        let mut tagged = Tagged::new();
        let hash = 0x40;
        assert!(!tagged.look(0, hash).0.any());
        for head in 0..9 {
            tagged.insert(hash, head, |_| hash);
            let (slots, first, more) = tagged.look(tagged.home(hash), hash);
            assert!(slots.any() && first == 0 && more == (head > 0));
        }
        assert_eq!(tagged.heads(hash).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
        // A neighbour in the tags by one bit is no match.
        assert!(!tagged.look(tagged.home(0x41), 0x41).0.any());
    }
}
