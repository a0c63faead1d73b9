//! A rate that several threads share: when it has been used up to (GCRA, ITU-T I.371).
//!
//! Time is an argument. Cost: a charge is one update of a shared word.

use std::sync::atomic::{AtomicU64, Ordering};

/// Parts of a nanosecond in which buckets count, so that the shortest frame on the fastest line
/// costs many.
const TICKS: u64 = 64;

/// A rate.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// The time at which all that was sent would have been sent at this rate, in ticks.
    used_until: AtomicU64,
    /// Ticks for 2^20 bytes.
    ticks: u64,
    /// How far that time may be ahead, in ticks.
    ahead: u64,
}

impl Bucket {
    /// Bits a second, and bytes at once; a millisecond's worth, and 16 KiB at least, unless they are said.
    pub(crate) fn new(bps: u64, burst_bytes: Option<u64>) -> Bucket {
        let bps = bps.max(1);
        let burst = burst_bytes.unwrap_or((bps / 8000).max(16 << 10));
        let ticks = (u128::from(8_000_000_000 * TICKS) << 20) / u128::from(bps);
        let mut bucket = Bucket {
            used_until: AtomicU64::new(0),
            ticks: u64::try_from(ticks).unwrap_or(u64::MAX),
            ahead: 0,
        };
        bucket.ahead = bucket.cost(burst);
        bucket
    }

    fn cost(&self, bytes: u64) -> u64 {
        u64::try_from((u128::from(bytes) * u128::from(self.ticks)) >> 20).unwrap_or(u64::MAX)
    }

    /// From when on a frame may go, in nanoseconds.
    pub(crate) fn ready_ns(&self) -> u64 {
        self.used_until.load(Ordering::Relaxed).saturating_sub(self.ahead).div_ceil(TICKS)
    }

    /// A frame goes.
    pub(crate) fn charge(&self, now_ns: u64, bytes: u64) {
        let (now, cost) = (now_ns.saturating_mul(TICKS), self.cost(bytes));
        let next = |until: u64| Some(until.max(now).saturating_add(cost));
        // Another worker's charge in between is added to, not lost.
        let _ = self.used_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}
