//! How many packet-ins a controller is sent: so many a second on average, so many at once.
//!
//! A bucket of tokens for each connection, which ports share fairly ([`FairLimit`]): a flood at one
//! port leaves the packet-ins of the others theirs. Time is an argument, in nanoseconds of any clock
//! that does not go back.

use switch::FairLimit;

/// A limit of packet-ins for each controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// A second, on average; at least 1.
    pub per_second: u32,
    /// At once, after a pause; at least 1.
    pub burst: u32,
}

impl Rate {
    /// What is left of it for one connection: all.
    pub(crate) fn limit(self, now_ns: u64) -> FairLimit {
        FairLimit::new(self.per_second.max(1).into(), self.burst.max(1).into(), now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_and_averages() {
        let mut limit = Rate { per_second: 100, burst: 5 }.limit(0);
        let sent = |limit: &mut FairLimit, ms: u64| limit.admit(1, ms * 1_000_000);
        assert_eq!((0..10).filter(|_| sent(&mut limit, 1)).count(), 5);
        // 10 ms for each from then on.
        let later = (1..=1000).filter(|ms| sent(&mut limit, 1 + ms)).count();
        assert_eq!(later, 100);
        // A long pause is worth no more than a burst.
        assert_eq!((0..10).filter(|_| sent(&mut limit, 1_000_000)).count(), 5);
        // A clock that goes back does no harm.
        assert!(!sent(&mut limit, 0));
        let none = Rate { per_second: 0, burst: 0 };
        assert!(none.limit(0).admit(1, 0));
    }

    #[test]
    fn a_flood_at_one_port_leaves_others_theirs() {
        let mut limit = Rate { per_second: 100, burst: 25 }.limit(0);
        let mut passed = [0; 2];
        for ms in 0..4000u64 {
            (0..20).for_each(|_| passed[0] += u32::from(limit.admit(1, ms * 1_000_000)));
            if ms % 50 == 0 {
                passed[1] += u32::from(limit.admit(2, ms * 1_000_000));
            }
        }
        assert_eq!(passed[1], 80, "20 a second, of 100");
        assert!((300..=360).contains(&passed[0]), "{passed:?}");
    }
}
