//! Figures as texts.

use crate::latency::Summary;
use std::fmt::Write;

/// A figure as tables have it; a small one keeps its first digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value}"),
        small if small < 0.01 => format!("{value:.1e}"),
        small if small < 1.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}

fn micros(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

/// A floor in words.
pub(crate) fn floor(summary: &Summary) -> String {
    let p50 = summary.percentile(50.0).map_or_else(|| "-".into(), micros);
    format!("p50 {p50} us, spread {} us, {} samples", micros(summary.spread_ns()), summary.count)
}

pub(crate) fn percentiles(summary: &Summary, floor: &Summary) -> String {
    let mut text = String::from("us:");
    for p in summary.percentiles.iter().filter(|p| p.percent >= 50.0) {
        let _ = write!(text, " p{} {}", p.percent, micros(p.ns));
        let _ = match p.high_ns {
            Some(high) => write!(text, " [{}..{}]", micros(p.low_ns), micros(high)),
            None => write!(text, " [{}..]", micros(p.low_ns)),
        };
    }
    let p50 = floor.percentile(50.0).map_or_else(|| "-".into(), micros);
    let spread = micros(floor.spread_ns());
    let _ = write!(text, " max {} n {}", micros(summary.max_ns), summary.count);
    let _ = write!(text, " (floor {p50} spread {spread})");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_figures_are_not_rounded_away() {
        let texts = [0.0, 120_000.0, 3.2e-5, 0.125, -0.5, 17.26].map(short);
        assert_eq!(texts, ["0", "120000", "3.2e-5", "0.125", "-0.500", "17.3"]);
    }
}
