//! When probes are due: constant rate, bursts, or a Poisson process.
//!
//! A schedule is fixed before the first probe leaves and depends on nothing that happens later, so
//! that a slow switch cannot slow down its own test (coordinated omission).

use port::prng::Prng;
use std::fmt;
use std::str::FromStr;

/// How probes follow each other; the mean rate is a schedule's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal gaps.
    #[default]
    Constant,
    /// So many at once, then a gap that keeps the mean rate.
    Burst(u32),
    /// Independent, exponentially distributed gaps.
    Poisson,
}

impl Arrivals {
    /// The offsets from the start at which probes are due, in nanoseconds, rising, without end.
    pub fn offsets(self, rate_pps: f64, seed: u64) -> Offsets {
        let gap_ns = 1e9 / rate_pps.clamp(1e-3, 1e9);
        Offsets { arrivals: self, gap_ns, next: 0, at_ns: 0.0, prng: Prng::new(seed) }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::Constant => f.write_str("constant"),
            Arrivals::Burst(size) => write!(f, "burst:{size}"),
            Arrivals::Poisson => f.write_str("poisson"),
        }
    }
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        let size = |n: &str| n.parse().ok().filter(|n| *n > 0).map(Arrivals::Burst);
        match (text, text.strip_prefix("burst:")) {
            ("constant", _) => Some(Arrivals::Constant),
            ("poisson", _) => Some(Arrivals::Poisson),
            (_, Some(n)) => size(n),
            _ => None,
        }
        .ok_or_else(|| format!("{text:?}: expected constant, poisson or burst:N with N at least 1"))
    }
}

/// See [`Arrivals::offsets`].
#[derive(Clone, Debug)]
pub struct Offsets {
    arrivals: Arrivals,
    gap_ns: f64,
    next: u64,
    at_ns: f64,
    prng: Prng,
}

impl Iterator for Offsets {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.next;
        self.next += 1;
        Some(match self.arrivals {
            // From the index, not by adding up: no error gathers.
            Arrivals::Constant => (index as f64 * self.gap_ns) as u64,
            Arrivals::Burst(size) => {
                let first = index / u64::from(size) * u64::from(size);
                (first as f64 * self.gap_ns) as u64
            }
            Arrivals::Poisson => {
                let at = self.at_ns;
                // 53 random bits, above 0 and at most 1.
                let uniform = ((self.prng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                self.at_ns += -uniform.ln() * self.gap_ns;
                at as u64
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_keeps_its_mean_rate_and_never_goes_back() {
        for arrivals in [Arrivals::Constant, Arrivals::Burst(32), Arrivals::Poisson] {
            let offsets: Vec<u64> = arrivals.offsets(1e5, 1).take(100_001).collect();
            assert!(offsets.is_sorted(), "{arrivals}");
            let seconds = offsets[100_000] as f64 / 1e9;
            assert!((0.98..1.02).contains(&seconds), "{arrivals}: {seconds}");
        }
        assert_eq!(Arrivals::Constant.offsets(1e6, 0).nth(1_000_000), Some(1_000_000_000));
    }

    #[test]
    fn poisson_gaps_spread_as_an_exponential_and_repeat_by_seed() {
        let take = |seed| Arrivals::Poisson.offsets(1e6, seed).take(50_000).collect::<Vec<_>>();
        let offsets = take(3);
        assert_eq!(offsets, take(3));
        assert_ne!(offsets, take(4));
        // Half of the gaps are below ln 2 of the mean.
        let below = offsets.windows(2).filter(|w| w[1] - w[0] < 693).count();
        assert!((24_000..26_000).contains(&below), "{below}");
    }

    #[test]
    fn words() {
        for text in ["constant", "poisson", "burst:8"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        for text in ["", "burst", "burst:0", "burst:x", "steady"] {
            assert!(text.parse::<Arrivals>().is_err());
        }
    }
}
