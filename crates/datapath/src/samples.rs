//! Keys that traffic has brought: what arrangements of a table are judged by.
//!
//! Workers note a key now and then ([`EVERY`]); the latest few stay. A slot that two workers write at once, or
//! that is read meanwhile, may hold halves of two keys: looked up, counted and forgotten, that does no harm.
//!
//! Cost: a worker, two stores a key that is noted; 8 KiB for a table of keys of two words.
//! Checked by: the tests below, `tests/arranging.rs`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Keys that are kept.
pub const KEPT: usize = 512;
/// Of so many bursts of a worker, the lookups of one are noted: a key of each.
pub const EVERY: u32 = 32;

/// The latest keys of a table that were noted.
#[derive(Debug, Default)]
pub struct Samples {
    /// Words of a key.
    stride: usize,
    words: Box<[AtomicU64]>,
    /// How many were ever noted.
    noted: AtomicUsize,
}

impl Samples {
    /// Room for keys of so many bytes.
    pub fn new(key_len: usize) -> Samples {
        let stride = key_len.div_ceil(8);
        let words = (0..KEPT * stride).map(|_| AtomicU64::new(0)).collect();
        Samples { stride, words, noted: AtomicUsize::new(0) }
    }

    /// Notes a key, in place of the oldest. Bytes behind the room for one are left out.
    #[inline]
    pub fn note(&self, key: &[u8]) {
        let slot = self.noted.fetch_add(1, Ordering::Relaxed) % KEPT;
        let words = &self.words[slot * self.stride..][..self.stride];
        for (to, bytes) in words.iter().zip(key.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            to.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    /// How many were ever noted.
    pub fn noted(&self) -> usize {
        self.noted.load(Ordering::Relaxed)
    }

    /// The keys that are there, of so many bytes each.
    pub fn keys(&self, key_len: usize) -> Vec<Box<[u8]>> {
        if self.stride == 0 {
            return Vec::new();
        }
        let key = |words: &[AtomicU64]| -> Box<[u8]> {
            let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
            bytes.take(key_len).collect()
        };
        self.words.chunks_exact(self.stride).take(self.noted()).map(key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_keys_stay() {
        let samples = Samples::new(11);
        assert!(samples.keys(11).is_empty());
        let key = |n: u16| {
            let mut key = [7; 16];
            key[9..11].copy_from_slice(&n.to_le_bytes());
            key
        };
        samples.note(&key(3));
        assert_eq!(samples.keys(11), [Box::from(&key(3)[..11])]);
        (0..KEPT as u16 + 5).for_each(|n| samples.note(&key(n)[..11]));
        let keys = samples.keys(11);
        assert_eq!((keys.len(), samples.noted()), (KEPT, KEPT + 6));
        // What was noted first is gone; all others are there once.
        for n in 5..KEPT as u16 + 5 {
            assert!(keys.iter().any(|other| **other == key(n)[..11]));
        }
        // A table without a key has nothing to note.
        let none = Samples::new(0);
        none.note(&[]);
        assert!(none.keys(0).is_empty());
    }
}
