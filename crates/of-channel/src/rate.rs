//! How many packet-ins a controller is sent: so many a second on average, so many at once.
//!
//! A bucket of tokens for each connection. Time is an argument, in nanoseconds of any clock that does
//! not go back.

/// A limit of packet-ins for each controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// A second, on average; at least 1.
    pub per_second: u32,
    /// At once, after a pause; at least 1.
    pub burst: u32,
}

/// What is left of a limit for one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    /// Nanoseconds worth of packets that were sent ahead of their time.
    ahead_ns: u64,
    at_ns: u64,
}

impl Bucket {
    /// Whether one more packet may be sent now; if so it counts.
    pub(crate) fn take(&mut self, rate: Rate, now_ns: u64) -> bool {
        let each = 1_000_000_000 / u64::from(rate.per_second.max(1));
        let passed = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        self.ahead_ns = self.ahead_ns.saturating_sub(passed);
        let most = each.saturating_mul(u64::from(rate.burst.max(1)));
        let fits = self.ahead_ns + each <= most;
        if fits {
            self.ahead_ns += each;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_and_averages() {
        let rate = Rate { per_second: 100, burst: 5 };
        let mut bucket = Bucket::default();
        let sent = |bucket: &mut Bucket, ms: u64| bucket.take(rate, ms * 1_000_000);
        assert_eq!((0..10).filter(|_| sent(&mut bucket, 1)).count(), 5);
        // 10 ms for each from then on.
        let later = (1..=1000).filter(|ms| sent(&mut bucket, 1 + ms)).count();
        assert_eq!(later, 100);
        // A long pause is worth no more than a burst.
        assert_eq!((0..10).filter(|_| sent(&mut bucket, 1_000_000)).count(), 5);
        // A clock that goes back does no harm.
        assert!(!sent(&mut bucket, 0));
        let none = Rate { per_second: 0, burst: 0 };
        assert!(Bucket::default().take(none, 0));
    }
}
