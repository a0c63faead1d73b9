//! Durations, counted without a lock.
//!
//! Buckets grow by a factor of four from 1 µs to 17 s, which is enough to tell a table's edit from a compilation. A
//! duration above them is in the last bucket, `+Inf`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of buckets, in nanoseconds.
pub const BOUNDS_NS: [u64; 13] = {
    let mut bounds = [1_000; 13];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 4;
        at += 1;
    }
    bounds
};

/// Counts of durations. Any thread may add to it.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

/// A histogram at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many are in each bucket and none before it; the last has no bound.
    pub buckets: [u64; BOUNDS_NS.len() + 1],
    /// All durations together, in nanoseconds.
    pub sum_ns: u64,
}

impl Counts {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl Histogram {
    /// An empty one.
    pub const fn new() -> Histogram {
        Histogram {
            buckets: [const { AtomicU64::new(0) }; BOUNDS_NS.len() + 1],
            sum_ns: AtomicU64::new(0),
        }
    }

    /// Something took so long.
    pub fn add(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let at = BOUNDS_NS.partition_point(|bound| *bound < ns);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// What was counted until now.
    pub fn counts(&self) -> Counts {
        let buckets = std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed));
        Counts { buckets, sum_ns: self.sum_ns.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new();
        for ns in [0, 1_000, 1_001, 4_000, u64::MAX / 2] {
            histogram.add(Duration::from_nanos(ns));
        }
        let counts = histogram.counts();
        assert_eq!(counts.buckets[..3], [2, 2, 0]);
        assert_eq!(counts.buckets[BOUNDS_NS.len()], 1);
        assert_eq!(counts.count(), 5);
        assert_eq!(counts.sum_ns, 6_001 + u64::MAX / 2);
        assert_eq!(BOUNDS_NS[12], 1_000 << 24);
    }
}
