//! A token bucket for one owner, for paths that must not be flooded: punts, log lines.
//!
//! Invariants: never more than `burst` tokens; in any span of `t` seconds at most
//! `burst + rate·t` are spent. A clock that steps back adds nothing.
//! Cost: a multiplication. Exact: tokens are kept in billionths.
//! Checked by: tests below.

const NS_PER_S: u128 = 1_000_000_000;

/// A token bucket.
#[derive(Debug, Clone)]
pub struct RateLimit {
    rate: u64,
    /// Billionths of a token.
    full: u128,
    tokens: u128,
    last_ns: u64,
    refused: u64,
}

impl RateLimit {
    /// `rate` tokens per second, at most `burst` at once; full at `now_ns`. A rate and burst of 0
    /// refuse everything.
    pub fn new(rate: u64, burst: u64, now_ns: u64) -> RateLimit {
        let full = u128::from(burst) * NS_PER_S;
        RateLimit { rate, full, tokens: full, last_ns: now_ns, refused: 0 }
    }

    /// Takes `cost` tokens if they are there.
    pub fn admit(&mut self, cost: u64, now_ns: u64) -> bool {
        let elapsed = now_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now_ns);
        let earned = u128::from(elapsed) * u128::from(self.rate);
        self.tokens = self.tokens.saturating_add(earned).min(self.full);
        let cost = u128::from(cost) * NS_PER_S;
        if cost > self.tokens {
            self.refused += 1;
            return false;
        }
        self.tokens -= cost;
        true
    }

    /// Requests refused since creation.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_the_rate_and_one_burst() {
        let mut limit = RateLimit::new(1000, 50, 7);
        let passed = (0..200_000u64).filter(|n| limit.admit(1, 7 + n * 50_000)).count() as u64;
        // Ten seconds; the burst is there at the start.
        assert!((10_049..=10_050).contains(&passed), "{passed}");
        assert_eq!(limit.refused(), 200_000 - passed);
    }

    #[test]
    fn extremes_neither_wrap_nor_panic() {
        let mut limit = RateLimit::new(u64::MAX, u64::MAX, 0);
        assert!(limit.admit(u64::MAX, 0));
        assert!(limit.admit(u64::MAX, u64::MAX));
        assert!(!limit.admit(1, 3), "the clock stepped back");
        let mut closed = RateLimit::new(0, 0, 0);
        assert!(!closed.admit(1, u64::MAX));
        assert!(closed.admit(0, 0));
        let mut small = RateLimit::new(1, 1, 0);
        assert!(!small.admit(2, u64::MAX));
    }
}
