//! Latencies: every one is kept in a histogram of high dynamic range, and summed up by percentiles
//! that state how sure they are.
//!
//! A percentile is an order statistic, so its 95% confidence interval lies between two ranks that
//! the binomial distribution gives (here by its normal approximation). Where the sample is too small
//! for a percentile, there is none: a maximum is not a p99.99.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The percentiles of a summary, in percent.
pub const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 1.0];
/// Samples that must lie beyond a percentile before it is stated.
const BEYOND_MIN: f64 = 5.0;

/// A histogram of nanoseconds, to three digits, up to an hour.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Latency {
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
            .expect("the bounds rise and three digits are allowed");
        Latency { histogram }
    }
}

/// One percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Which, in percent.
    pub percent: f64,
    /// Its value in nanoseconds.
    pub ns: u64,
    /// The lower end of its 95% confidence interval, in nanoseconds.
    pub low_ns: u64,
    /// The upper end; none if it lies beyond the greatest sample.
    pub high_ns: Option<u64>,
}

/// A histogram, summed up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples.
    pub count: u64,
    /// The least, in nanoseconds.
    pub min_ns: u64,
    /// The greatest, in nanoseconds.
    pub max_ns: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: f64,
    /// Percentiles that the sample is large enough for.
    pub percentiles: Vec<Percentile>,
    /// The histogram itself: the greatest value of each bucket that is not empty, in nanoseconds,
    /// and how many samples it has.
    pub histogram: Vec<(u64, u64)>,
}

impl Latency {
    /// Adds one; what takes longer than an hour counts as an hour.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Sums up.
    pub fn summary(&self) -> Summary {
        let n = self.count() as f64;
        if self.count() == 0 {
            return Summary::default();
        }
        let mut percentiles: Vec<Percentile> = PERCENTILES
            .into_iter()
            .filter_map(|percent| {
                let p = percent / 100.0;
                if n * p.min(1.0 - p) < BEYOND_MIN {
                    return None;
                }
                let margin = 1.96 * (n * p * (1.0 - p)).sqrt();
                let at = |rank: f64| self.histogram.value_at_quantile((rank / n).clamp(0.0, 1.0));
                let high = n * p + margin;
                Some(Percentile {
                    percent,
                    ns: at(n * p),
                    low_ns: at(n * p - margin),
                    high_ns: (high <= n).then(|| at(high)),
                })
            })
            .collect();
        percentiles.sort_by(|a, b| a.percent.total_cmp(&b.percent));
        Summary {
            count: self.count(),
            min_ns: self.histogram.min(),
            max_ns: self.histogram.max(),
            mean_ns: self.histogram.mean(),
            percentiles,
            histogram: self
                .histogram
                .iter_recorded()
                .map(|v| (v.value_iterated_to(), v.count_at_value()))
                .collect(),
        }
    }
}

impl Summary {
    /// A percentile in nanoseconds, if the sample is large enough for it.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        self.percentiles.iter().find(|p| p.percent == percent).map(|p| p.ns)
    }

    /// What lies between the 1st and the 99th percentile, in nanoseconds: how far apart two figures
    /// may be without meaning anything. With too few samples for that, all that there is.
    pub fn spread_ns(&self) -> u64 {
        match (self.percentile(1.0), self.percentile(99.0)) {
            (Some(low), Some(high)) => high - low,
            _ => self.max_ns - self.min_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_appear_only_with_enough_samples() {
        let mut latency = Latency::default();
        assert_eq!(latency.summary(), Summary::default());
        for i in 1..=9 {
            latency.record(i * 1000);
        }
        assert!(latency.summary().percentiles.is_empty());
        // To three digits.
        assert!((7990..8010).contains(&latency.summary().spread_ns()));
        for i in 10..=1000 {
            latency.record(i * 1000);
        }
        let summary = latency.summary();
        let stated: Vec<f64> = summary.percentiles.iter().map(|p| p.percent).collect();
        assert_eq!(stated, [1.0, 50.0, 90.0, 99.0]);
        assert_eq!(summary.histogram.iter().map(|(_, n)| n).sum::<u64>(), 1000);
    }

    #[test]
    fn confidence_encloses_the_value() {
        let mut latency = Latency::default();
        for i in 1..=100_000u64 {
            latency.record(i);
        }
        let summary = latency.summary();
        assert_eq!(summary.percentiles.len(), PERCENTILES.len());
        for p in &summary.percentiles {
            let true_value = (p.percent * 1000.0) as u64;
            assert!(p.low_ns <= true_value + true_value / 500 && true_value <= p.ns + 1);
            assert!(p.high_ns.is_none_or(|high| high >= p.ns));
        }
        // 10 of 100,000 samples lie beyond: the interval ends before the greatest.
        assert!(summary.percentiles.last().unwrap().high_ns.is_some());
        latency.record(u64::MAX);
        assert!(latency.summary().max_ns >= 3_600_000_000_000);
    }
}
