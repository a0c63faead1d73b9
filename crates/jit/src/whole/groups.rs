//! Which bucket of a group of kind `Select` a packet gets: weighted rendezvous hashing, as [`interp`] tells.

use super::hash::mix64;

/// A bucket's number for one packet: the least one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    /// A fraction of 2^64.
    u: u64,
    /// `-log2(u)`, 16 binary places.
    log: u64,
    weight: u16,
}

impl Draw {
    pub(crate) fn new(hash: u32, at: usize, weight: u16) -> Draw {
        let u = mix64(u64::from(hash) << 32 | (at as u64 + 1));
        Draw { u, log: (64 << 16) - log2(u.max(1)), weight }
    }
}

impl Ord for Draw {
    fn cmp(&self, other: &Draw) -> std::cmp::Ordering {
        let ours = self.log * u64::from(other.weight);
        let theirs = other.log * u64::from(self.weight);
        ours.cmp(&theirs).then(other.u.cmp(&self.u))
    }
}

impl PartialOrd for Draw {
    fn partial_cmp(&self, other: &Draw) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The binary logarithm of a positive number with 16 binary places, rounded down.
fn log2(x: u64) -> u64 {
    let whole = u64::from(63 - x.leading_zeros());
    // Scaled to [1, 2) with 31 binary places; each square gives one more place.
    let mut scaled = x << (63 - whole) >> 32;
    let mut log = whole;
    for _ in 0..16 {
        let square = (scaled * scaled) >> 31;
        let place = square >> 32;
        log = log << 1 | place;
        scaled = square >> place;
    }
    log
}
