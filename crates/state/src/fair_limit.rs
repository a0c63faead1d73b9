//! A token bucket that several owners share fairly: one flood does not use up what others need.
//!
//! Tokens come at one rate for all. They are dealt in equal parts to the owners whose own bucket is
//! not full, so what a quiet owner does not use goes to those who want more (max-min fairness).
//! An owner's bucket holds its part of the burst. A new owner starts with a few tokens, so that its
//! first packet passes however much the others ask for.
//!
//! Invariants: in any span of `t` seconds at most `burst + rate·t` tokens are spent, and [`first`] of
//! each owner that is new in it; an owner that asks for less than `rate / owners` is refused nothing
//! once its bucket is full. At most [`OWNERS_MAX`] owners are told apart, so memory is bounded.
//! Cost: a hash, and one look at every owner each [`DEAL_NS`]. Exact: tokens are kept in billionths.
//! Checked by: tests below.

use hashbrown::HashMap;

const NS_PER_S: u128 = 1_000_000_000;
/// Owners that are told apart; more share their places.
pub const OWNERS_MAX: usize = 4096;
/// While more than [`FEW`] owners are there, tokens are dealt so often at most.
const DEAL_NS: u64 = 1_000_000;
const FEW: usize = 4;
/// A part of the burst that a new owner starts with.
const FIRST_PART: u64 = 16;

/// Tokens that a new owner starts with beside the first one, of such a burst.
pub fn first(burst: u64) -> u64 {
    (burst / FIRST_PART).max(1).min(burst)
}

/// A token bucket with several owners.
#[derive(Debug, Clone)]
pub struct FairLimit {
    rate: u64,
    /// Billionths of a token, as all that follow.
    full: u128,
    first: u128,
    /// Earned and not dealt, for want of a whole part.
    spare: u128,
    tokens: Vec<u128>,
    places: HashMap<u32, usize>,
    last_ns: u64,
}

impl FairLimit {
    /// `rate` tokens per second, at most `burst` at once; full at `now_ns`. A rate and burst of 0
    /// refuse everything.
    pub fn new(rate: u64, burst: u64, now_ns: u64) -> FairLimit {
        FairLimit {
            rate,
            full: u128::from(burst) * NS_PER_S,
            first: u128::from(first(burst)) * NS_PER_S,
            spare: 0,
            tokens: Vec::new(),
            places: HashMap::new(),
            last_ns: now_ns,
        }
    }

    /// The owner's place, below [`OWNERS_MAX`]; the same always.
    pub fn place(&mut self, owner: u32) -> usize {
        if let Some(place) = self.places.get(&owner) {
            return *place;
        }
        let place = self.tokens.len();
        if place >= OWNERS_MAX {
            return owner as usize % OWNERS_MAX;
        }
        self.places.insert(owner, place);
        self.tokens.push(if place == 0 { self.full } else { self.first });
        let most = self.most();
        self.tokens.iter_mut().for_each(|tokens| *tokens = most.min(*tokens));
        place
    }

    /// Whether [`admit`](Self::admit) would refuse an owner.
    pub fn refuses(&mut self, owner: u32, now_ns: u64) -> bool {
        let place = self.earn(owner, now_ns);
        self.tokens[place] < NS_PER_S
    }

    /// Takes one token of an owner's, if it has one.
    pub fn admit(&mut self, owner: u32, now_ns: u64) -> bool {
        let place = self.earn(owner, now_ns);
        match self.tokens[place].checked_sub(NS_PER_S) {
            Some(left) => {
                self.tokens[place] = left;
                true
            }
            None => false,
        }
    }

    /// Deals what was earned until now; the owner's place.
    fn earn(&mut self, owner: u32, now_ns: u64) -> usize {
        let place = self.place(owner);
        let elapsed = now_ns.saturating_sub(self.last_ns);
        if self.tokens.len() <= FEW || elapsed >= DEAL_NS {
            self.last_ns = self.last_ns.max(now_ns);
            self.deal(u128::from(elapsed) * u128::from(self.rate));
        }
        place
    }

    /// What one owner's bucket holds, at most.
    fn most(&self) -> u128 {
        (self.full / self.tokens.len().max(1) as u128).max(NS_PER_S.min(self.full))
    }

    /// Deals what was earned in equal parts to those whose buckets are not full.
    fn deal(&mut self, earned: u128) {
        let most = self.most();
        let mut left = self.spare + earned;
        loop {
            let open = self.tokens.iter().filter(|tokens| **tokens < most).count() as u128;
            if open == 0 {
                // All are full: more is not kept.
                self.spare = 0;
                return;
            }
            let part = left / open;
            if part == 0 {
                self.spare = left;
                return;
            }
            for tokens in self.tokens.iter_mut().filter(|tokens| **tokens < most) {
                let taken = part.min(most - *tokens);
                *tokens += taken;
                left -= taken;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of some owners is given in so many seconds, asking so often a second.
    fn given(limit: &mut FairLimit, seconds: u64, asks: &[u64]) -> Vec<u64> {
        let mut given = vec![0; asks.len()];
        // In steps of 10 µs, from a clock that does not begin at 0.
        for step in 0..seconds * 100_000 {
            let now_ns = 1_000_000_000 + step * 10_000;
            for (owner, per_second) in asks.iter().enumerate() {
                let due = |step: u64| step * per_second / 100_000;
                for _ in due(step)..due(step + 1) {
                    given[owner] += u64::from(limit.admit(owner as u32, now_ns));
                }
            }
        }
        given
    }

    #[test]
    fn one_owner_has_it_all() {
        let mut limit = FairLimit::new(1000, 100, 1_000_000_000);
        let given = given(&mut limit, 4, &[50_000]);
        assert!((4099..=4100).contains(&given[0]), "{given:?}");
    }

    #[test]
    fn who_asks_for_little_gets_it_beside_a_flood() {
        let mut limit = FairLimit::new(1000, 100, 1_000_000_000);
        let given = given(&mut limit, 4, &[500_000, 100, 400]);
        assert_eq!(given[1], 400, "{given:?}");
        assert!(given[2] >= 1270, "nearly a third of the rate: {given:?}");
        let all: u64 = given.iter().sum();
        assert!((3900..=4100 + 2 * first(100)).contains(&all), "{given:?}");
    }

    #[test]
    fn what_some_leave_goes_to_the_others() {
        let mut limit = FairLimit::new(1000, 100, 1_000_000_000);
        let given = given(&mut limit, 4, &[0, 10, 10, 10, 10, 10, 100_000, 100_000]);
        assert!(given[1..6].iter().all(|n| *n == 40), "{given:?}");
        assert!(given[6].abs_diff(given[7]) <= 150, "{given:?}");
        assert!(given[6] + given[7] >= 3700, "{given:?}");
    }

    #[test]
    fn the_first_of_a_new_owner_passes_beside_a_flood() {
        let mut limit = FairLimit::new(100, 10, 0);
        while limit.admit(1, 5) {}
        for owner in 2..50 {
            assert!(limit.admit(owner, 5), "{owner}");
        }
        assert!(!limit.admit(1, 5));
    }

    #[test]
    fn owners_are_bounded_and_extremes_do_no_harm() {
        let mut limit = FairLimit::new(10, 4, 0);
        for owner in 0..3 * OWNERS_MAX as u32 {
            limit.admit(owner, 0);
        }
        assert_eq!(limit.tokens.len(), OWNERS_MAX);
        assert!(limit.places.len() <= OWNERS_MAX);
        let mut none = FairLimit::new(0, 0, 0);
        assert!(!none.admit(1, u64::MAX));
        let mut much = FairLimit::new(u64::MAX, u64::MAX, 0);
        assert!(much.admit(1, u64::MAX) && much.admit(1, 0), "a clock that goes back");
    }
}
