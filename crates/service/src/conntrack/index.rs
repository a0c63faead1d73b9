//! Where connections are found: buckets of twelve, each key in one of two.
//!
//! A bucket is one cache line: twelve record numbers, and one octet of each key's hash to tell
//! nearly all misses without touching a record. A key lies in the first of its two buckets if that has room, as nine in ten do
//! at the intended fill, so that most lookups read one line. When both are full, insertion
//! moves one resident to that one's other bucket, found from its tag alone (partial-key cuckoo
//! hashing, Fan et al., 2014), and refuses if no resident of the two can move.
//!
//! All memory is taken at the start (the system hands out pages as they are touched), so nothing is
//! ever rehashed.
//!
//! Invariants: a record is in the index once for each key it was inserted under; a tag of 0 is an
//! empty place; `other` is its own inverse for one tag.
//! Cost: lookup one cache line or two, insertion the same but for rare moves of at most 24 looked-at
//! residents. 64 octets for 9 keys at the intended fill of 3/4.
//! Checked by: the model test below, against a list.

/// Keys in a bucket.
const PLACES: usize = 12;

#[derive(Debug, Clone)]
#[repr(C, align(64))]
struct Bucket {
    records: [u32; PLACES],
    /// Tags; the last four are always 0, so that sixteen are compared at once.
    tags: [u8; 16],
}

impl Bucket {
    /// Which places hold `tag`, as bits.
    #[inline(always)]
    fn matches(&self, tag: u8) -> u32 {
        crate::simd::equal(&self.tags, tag) & ((1 << PLACES) - 1)
    }
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Box<[Bucket]>,
}

/// The places a key may be in: its first bucket, and its tag, which give the second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    first: u32,
    tag: u8,
}

impl Places {
    /// Of no key.
    pub(crate) const NONE: Places = Places { first: 0, tag: 0 };
}

impl Index {
    /// Room for `keys_max` keys at a fill of 3/4.
    pub(crate) fn new(keys_max: usize) -> Index {
        let buckets = (keys_max * 4).div_ceil(PLACES * 3).max(1);
        let empty = Bucket { records: [0; PLACES], tags: [0; 16] };
        let mut all = crate::pages::with_capacity(buckets);
        all.resize(buckets, empty);
        Index { buckets: all.into_boxed_slice() }
    }

    /// Octets taken.
    pub(crate) fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.buckets)
    }

    /// Where a key with this hash may be.
    #[inline(always)]
    pub(crate) fn places(&self, hash: u64) -> Places {
        let tag = ((hash >> 56) as u8).max(1);
        Places { first: scale(hash as u32, self.buckets.len()), tag }
    }

    /// The second bucket.
    #[inline(always)]
    fn second(&self, at: Places) -> u32 {
        self.other(at.first, at.tag)
    }

    /// The other bucket of a key with this tag that may be in `bucket`.
    #[inline(always)]
    fn other(&self, bucket: u32, tag: u8) -> u32 {
        // Any function of the tag does; the two buckets' sum is it, so either gives the other.
        let sum = scale(u32::from(tag).wrapping_mul(0x9e37_79b1), self.buckets.len());
        let other = i64::from(sum) - i64::from(bucket);
        if other < 0 { (other + self.buckets.len() as i64) as u32 } else { other as u32 }
    }

    /// Asks for the first bucket of a key, so that it is near when it is needed.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: Places) {
        crate::simd::prefetch(&self.buckets[at.first as usize]);
    }

    /// The first record that may be under a key in its first bucket; if there is none, the second bucket is asked for.
    #[inline(always)]
    pub(crate) fn likely(&self, at: Places) -> Option<u32> {
        let first = &self.buckets[at.first as usize];
        let bits = first.matches(at.tag);
        if bits == 0 {
            crate::simd::prefetch(&self.buckets[self.second(at) as usize]);
            return None;
        }
        Some(first.records[bits.trailing_zeros() as usize % PLACES])
    }

    /// The first record that may be under a key in its second bucket.
    #[inline(always)]
    pub(crate) fn less_likely(&self, at: Places) -> Option<u32> {
        let second = &self.buckets[self.second(at) as usize];
        let bits = second.matches(at.tag);
        (bits != 0).then(|| second.records[bits.trailing_zeros() as usize % PLACES])
    }

    /// The records that may be under a key, most of the time one or none.
    #[inline]
    pub(crate) fn candidates(&self, at: Places) -> Candidates<'_> {
        let first = &self.buckets[at.first as usize];
        let second = &self.buckets[self.second(at) as usize];
        let bits = first.matches(at.tag) | second.matches(at.tag) << PLACES;
        Candidates { first, second, bits }
    }

    /// Puts a record under a key; false if there is no room.
    pub(crate) fn insert(&mut self, at: Places, record: u32) -> bool {
        for bucket in [at.first, self.second(at)] {
            let free = self.buckets[bucket as usize].matches(0);
            if free != 0 {
                self.put(bucket, free.trailing_zeros() as usize, at.tag, record);
                return true;
            }
        }
        for bucket in [at.first, self.second(at)] {
            for place in 0..PLACES {
                let tag = self.buckets[bucket as usize].tags[place];
                let other = self.other(bucket, tag);
                let free = self.buckets[other as usize].matches(0);
                if free != 0 {
                    let moved = self.buckets[bucket as usize].records[place];
                    self.put(other, free.trailing_zeros() as usize, tag, moved);
                    self.put(bucket, place, at.tag, record);
                    return true;
                }
            }
        }
        false
    }

    fn put(&mut self, bucket: u32, place: usize, tag: u8, record: u32) {
        let bucket = &mut self.buckets[bucket as usize];
        bucket.tags[place] = tag;
        bucket.records[place] = record;
    }

    /// Takes a record from under a key, once; false if it was not there.
    pub(crate) fn remove(&mut self, at: Places, record: u32) -> bool {
        for bucket in [at.first, self.second(at)] {
            let bucket = &mut self.buckets[bucket as usize];
            let mut bits = bucket.matches(at.tag);
            while bits != 0 {
                let place = bits.trailing_zeros() as usize;
                if bucket.records[place] == record {
                    bucket.tags[place] = 0;
                    return true;
                }
                bits &= bits - 1;
            }
        }
        false
    }
}

/// The records that may be under a key.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    first: &'a Bucket,
    second: &'a Bucket,
    bits: u32,
}

impl Iterator for Candidates<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.bits == 0 {
            return None;
        }
        let place = self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(if place < PLACES {
            self.first.records[place]
        } else {
            self.second.records[place - PLACES]
        })
    }
}

/// A number below `n`, evenly drawn from 32 bits.
#[inline]
fn scale(bits: u32, n: usize) -> u32 {
    ((u64::from(bits) * n as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn agrees_with_a_list() {
        for keys_max in [1, 9, 10, 100, 5000] {
            let mut index = Index::new(keys_max);
            let mut random = Random(keys_max as u64);
            let mut list = Vec::<(u64, u32)>::new();
            for step in 0..20_000_u32 {
                if list.len() < keys_max && random.below(3) != 0 {
                    // Few distinct hashes, so that keys collide wholly.
                    let hash = Random(random.below(7000)).next();
                    assert_eq!(
                        index.candidates(index.places(hash)).any(|r| r == step),
                        list.contains(&(hash, step))
                    );
                    if index.insert(index.places(hash), step) {
                        list.push((hash, step));
                    } else {
                        assert!(keys_max < 10, "no room at {} of {keys_max}", list.len());
                    }
                } else if !list.is_empty() {
                    let (hash, record) = list.swap_remove(random.below(list.len() as u64) as usize);
                    assert!(index.remove(index.places(hash), record));
                    assert!(!index.remove(index.places(hash), record));
                }
                if let Some(&(hash, record)) = list.get(random.below(keys_max as u64) as usize) {
                    assert!(index.candidates(index.places(hash)).any(|r| r == record));
                }
            }
            for (hash, record) in list {
                assert!(index.remove(index.places(hash), record));
            }
            assert!(index.buckets.iter().all(|b| b.tags == [0; 16]));
        }
    }

    #[test]
    fn at_the_intended_fill_everything_finds_room() {
        let mut index = Index::new(200_000);
        let mut random = Random(9);
        let keys: Vec<u64> = (0..200_000).map(|_| random.next()).collect();
        for (n, key) in keys.iter().enumerate() {
            assert!(index.insert(index.places(*key), n as u32), "key {n}");
        }
        for (n, key) in keys.iter().enumerate() {
            assert!(index.candidates(index.places(*key)).any(|r| r == n as u32));
        }
    }

    #[test]
    fn a_full_pair_of_buckets_refuses() {
        let mut index = Index::new(1);
        let hash = 0x1234_5678_9abc_def0;
        let room = (0..1000).take_while(|n| index.insert(index.places(hash), *n)).count();
        assert_eq!(room, PLACES * index.buckets.len());
    }
}
