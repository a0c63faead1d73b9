//! Meters that measure, for offline runs: one token bucket for each band.
//!
//! A band is exceeded by a packet that finds too few tokens; a packet that is not takes its tokens:
//! one, or its bits. Bands are asked from the highest rate down, and the first that is exceeded applies
//! (OpenFlow 1.3.5 §5.7); the packet takes no tokens of the lower ones, which makes two bands the
//! two-rate marker of RFC 2698. Of equal rates the band named first is asked first. Buckets start full; a
//! burst of 0 is one second's worth.

use crate::externs::Color;
use ir::Meter;

/// Nanoseconds in a second: tokens are counted in billionths.
const SECOND: u128 = 1_000_000_000;

#[derive(Clone, Debug)]
struct Band {
    /// Tokens per second.
    rate: u128,
    /// Most tokens, in billionths.
    most: u128,
    /// Tokens, in billionths.
    tokens: u128,
    /// When they were counted.
    at_ns: u64,
    answer: Color,
}

/// A meter and its state.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    packets: bool,
    /// The highest rate first.
    bands: Vec<Band>,
}

impl Measured {
    pub(crate) fn new(meter: &Meter) -> Measured {
        let mut bands: Vec<Band> = meter
            .bands
            .iter()
            .map(|band| {
                let burst = if band.burst == 0 { band.rate } else { band.burst };
                let most = u128::from(burst) * SECOND;
                let answer = Color { color: band.color, level: band.level };
                Band { rate: u128::from(band.rate), most, tokens: most, at_ns: 0, answer }
            })
            .collect();
        bands.sort_by_key(|b| std::cmp::Reverse(b.rate));
        Measured { packets: meter.packets, bands }
    }

    pub(crate) fn ask(&mut self, bytes: u32, now_ns: u64) -> Color {
        let cost = if self.packets { SECOND } else { 8 * u128::from(bytes) * SECOND };
        for band in &mut self.bands {
            let passed = u128::from(now_ns.saturating_sub(band.at_ns));
            band.tokens = (band.tokens + passed * band.rate).min(band.most);
            band.at_ns = band.at_ns.max(now_ns);
            if band.tokens < cost {
                return band.answer;
            }
            band.tokens -= cost;
        }
        Color::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_exceeded_band_answers() {
        let band = |rate, burst, color, level| ir::Band { rate, burst, color, level };
        let bands = vec![band(1, 1, 1, 7), band(2, 2, 2, 0)];
        let mut meter = Measured::new(&Meter { packets: true, bands });
        let mut ask = |now_ns| {
            let Color { color, level } = meter.ask(100, now_ns);
            (color, level)
        };
        assert_eq!([ask(0), ask(0), ask(0)], [(0, 0), (1, 7), (2, 0)]);
        assert_eq!([ask(500_000_000), ask(1_000_000_000)], [(1, 7), (0, 0)]);
        // The red packet took nothing of the lower band: a packet a second conforms.
        assert_eq!([ask(1_000_000_001), ask(2_000_000_001)], [(2, 0), (0, 0)]);
        // Time that goes backwards gives nothing.
        assert_eq!([ask(5), ask(5)], [(1, 7), (2, 0)]);
        let bands = vec![band(1000, 0, 2, 0)];
        let mut bits = Measured::new(&Meter { packets: false, bands });
        assert_eq!(bits.ask(125, 0).color, 0);
        assert_eq!(bits.ask(1, 7_999_999).color, 2);
        assert_eq!(bits.ask(1, 8_000_000).color, 0);
    }
}
