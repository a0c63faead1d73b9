//! Meters: bands of rates, measured exactly over all workers.
//!
//! Each band is a token bucket kept as one number, the time at which the bucket will be full again
//! (the generic cell rate algorithm, ITU-T I.371 annex A): a packet conforms if that time, moved on
//! by what the packet costs, is no further ahead than the burst. One compare-and-swap per band and
//! packet, so any number of workers share a rate without error.
//!
//! The alternative, a bucket per worker that is refilled with its share, needs no shared line but
//! is wrong whenever traffic is not spread evenly over workers: a single flow would get 1/n of its
//! rate. A contended line costs tens of nanoseconds on metered packets alone; we take that.
//!
//! Bands are asked from the highest rate down, and the first that is exceeded applies
//! (openflow-1.3.5 §5.7.1: the band with the highest rate that the measured rate exceeds). Packets
//! that a band claims take no tokens of the lower ones, which makes two bands the two-rate marker
//! of RFC 2698 in colour-blind mode (peak rate as the upper band).
//!
//! Invariants: at most `burst + rate·t` units conform to a band in any span of `t`.
//! Cost: one division and one compare-and-swap per band asked, and the counters.
//! Times may wrap: only differences count. A band left idle for over a year of its clock may treat
//! one burst wrongly.
//! Checked by: tests below, against a bucket of exact tokens, and with workers in parallel.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counters::{CounterArena, CounterValue, CountersFull, Reader, WorkerCounters};

/// Fractional bits of a nanosecond in which costs are kept: at 400 Gb/s the error for a packet of
/// 64 bytes stays below 0.4 %.
const FRACTION: u32 = 8;
/// Longest span a band can look ahead, in fractions: beyond, wrapping times could not be told.
const AHEAD_MAX: u128 = 1 << 61;
const NS_PER_S: u128 = 1_000_000_000;

/// What a meter's rates count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bits of the frame.
    Bits,
    /// Packets.
    Packets,
}

/// One band of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Band {
    /// Units per second above which the band applies; at 0 it always does.
    pub rate: u64,
    /// Units that may pass at once. 0 means unset: one second's worth, as Open vSwitch has it. A
    /// packet larger than the burst never conforms.
    pub burst: u64,
    /// What the caller calls this band: an index, a colour.
    pub level: u32,
}

impl Band {
    /// A band in kilobits per second and kilobits, for a meter of [`Unit::Bits`].
    pub fn kilobits(rate_kbps: u32, burst_kb: u32, level: u32) -> Band {
        Band { rate: u64::from(rate_kbps) * 1000, burst: u64::from(burst_kb) * 1000, level }
    }
}

/// A meter as its owner wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterConfig {
    /// What the bands count.
    pub unit: Unit,
    /// In any order; a meter without bands passes everything and counts it.
    pub bands: Vec<Band>,
}

/// What a meter says of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterVerdict {
    /// Within every band's rate.
    Conforms,
    /// Above this band's rate.
    Exceeds {
        /// The band's place in the configuration.
        band: usize,
        /// Its level.
        level: u32,
    },
}

/// A band at work.
#[derive(Debug)]
struct Bucket {
    /// When the bucket is full again, in fractions of a nanosecond, wrapping.
    full_at: AtomicU64,
    /// How far ahead that may be: the burst.
    ahead_max: u64,
    rate: u64,
    band: usize,
    level: u32,
    counter: u32,
}

/// A meter at work, shared by all workers.
#[derive(Debug)]
pub struct Meter {
    unit: Unit,
    /// By rate, highest first.
    buckets: Box<[Bucket]>,
    counter: u32,
}

/// What a meter and its bands have counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterStats {
    /// All packets that came to the meter.
    pub input: CounterValue,
    /// Those each band applied to, in the configuration's order.
    pub bands: Vec<CounterValue>,
}

/// Units at a rate, as time in fractions of a nanosecond.
#[inline]
fn duration(units: u64, rate: u64) -> u64 {
    /// So many at most, and the numerator has 64 bits. A frame of any length has fewer.
    const FEW: u64 = u64::MAX / ((NS_PER_S as u64) << FRACTION);
    if units <= FEW {
        // A division of 64 bits takes a third of the time.
        let span = ((units * NS_PER_S as u64) << FRACTION) / rate.max(1);
        return span.min(AHEAD_MAX as u64);
    }
    let span = ((u128::from(units) * NS_PER_S) << FRACTION) / u128::from(rate.max(1));
    span.min(AHEAD_MAX) as u64
}

impl Bucket {
    /// Takes a packet's tokens if they are there.
    fn conforms(&self, units: u64, now_ns: u64) -> bool {
        if self.rate == 0 {
            return false;
        }
        let now = now_ns << FRACTION;
        let cost = duration(units, self.rate);
        let mut full_at = self.full_at.load(Relaxed);
        loop {
            // A bucket that has been full for a while is full.
            let ahead = (full_at.wrapping_sub(now) as i64).max(0) as u64;
            if ahead.saturating_add(cost) > self.ahead_max {
                return false;
            }
            let next = now.wrapping_add(ahead + cost);
            match self.full_at.compare_exchange_weak(full_at, next, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(other) => full_at = other,
            }
        }
    }
}

impl Meter {
    /// A meter whose buckets are full at `now_ns`. Its counters come from the arena, one and one
    /// per band.
    pub fn new(
        config: &MeterConfig,
        now_ns: u64,
        arena: &CounterArena,
    ) -> Result<Meter, CountersFull> {
        let mut taken = Vec::with_capacity(config.bands.len() + 1);
        for _ in 0..=config.bands.len() {
            match arena.allocate() {
                Ok(id) => taken.push(id),
                Err(full) => {
                    for id in taken {
                        arena.free(id);
                    }
                    return Err(full);
                }
            }
        }
        let bucket = |(band, (of, &counter)): (usize, (&Band, &u32))| Bucket {
            full_at: AtomicU64::new(now_ns << FRACTION),
            ahead_max: duration(if of.burst == 0 { of.rate } else { of.burst }, of.rate),
            rate: of.rate,
            band,
            level: of.level,
            counter,
        };
        let mut buckets: Vec<Bucket> =
            config.bands.iter().zip(&taken[1..]).enumerate().map(bucket).collect();
        // Of equal rates the band named first is asked first.
        buckets.sort_by_key(|b| std::cmp::Reverse(b.rate));
        Ok(Meter { unit: config.unit, buckets: buckets.into(), counter: taken[0] })
    }

    /// Measures one packet of `bytes` bytes at `now_ns`, and counts it.
    pub fn measure(&self, counters: &WorkerCounters, bytes: u64, now_ns: u64) -> MeterVerdict {
        counters.add(self.counter, 1, bytes, now_ns);
        let units = match self.unit {
            Unit::Bits => bytes.saturating_mul(8),
            Unit::Packets => 1,
        };
        for bucket in &self.buckets {
            if !bucket.conforms(units, now_ns) {
                counters.add(bucket.counter, 1, bytes, now_ns);
                return MeterVerdict::Exceeds { band: bucket.band, level: bucket.level };
            }
        }
        MeterVerdict::Conforms
    }

    /// What was counted so far.
    pub fn stats(&self, reader: &Reader<'_>) -> MeterStats {
        let read = |id| reader.read(id).unwrap_or_default();
        let mut bands = vec![CounterValue::default(); self.buckets.len()];
        self.buckets.iter().for_each(|b| bands[b.band] = read(b.counter));
        MeterStats { input: read(self.counter), bands }
    }

    /// Goes on from what another meter has counted. Its bands do, too, if there are as many; false if the counters are not in
    /// use. What buckets have saved up stays.
    pub fn carry(&self, arena: &CounterArena, counted: &MeterStats) -> bool {
        let carry = |id, of: &CounterValue| arena.carry(id, of.packets, of.bytes);
        if self.buckets.len() == counted.bands.len() {
            for bucket in &self.buckets {
                carry(bucket.counter, &counted.bands[bucket.band]);
            }
        }
        carry(self.counter, &counted.input)
    }

    /// Gives the meter's counters back; see [`CounterArena::free`] for when.
    pub fn free(self, arena: &CounterArena) {
        arena.free(self.counter);
        for bucket in &self.buckets {
            arena.free(bucket.counter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::tests::Random;

    const SECOND: u64 = 1_000_000_000;

    fn meter(unit: Unit, bands: &[Band], now: u64) -> (Meter, CounterArena) {
        let arena = CounterArena::new(64);
        let config = MeterConfig { unit, bands: bands.to_vec() };
        (Meter::new(&config, now, &arena).unwrap(), arena)
    }

    #[test]
    fn twice_the_rate_for_ten_seconds_passes_the_rate_and_one_burst() {
        for start in [0, 5 * SECOND, 1_790_000_000 * SECOND, u64::MAX - 3 * SECOND] {
            for rate_kbps in [64u32, 1000, 1_000_000, 100_000_000] {
                let (meter, arena) =
                    meter(Unit::Bits, &[Band::kilobits(rate_kbps, rate_kbps / 10, 7)], start);
                let worker = arena.worker();
                let bytes = if rate_kbps < 1_000_000 { 125 } else { 60_000 };
                let rate = u64::from(rate_kbps) * 1000;
                let packets = 2 * rate * 10 / (bytes * 8);
                let mut passed = 0;
                for n in 0..packets {
                    let now =
                        start.wrapping_add((n as u128 * 10 * NS_PER_S / packets as u128) as u64);
                    passed +=
                        u64::from(meter.measure(&worker, bytes, now) == MeterVerdict::Conforms);
                }
                let (bits, want, burst) = (passed * bytes * 8, rate * 10, rate / 10);
                assert!(
                    bits + bytes * 8 >= want && bits <= want + burst + want / 1000,
                    "{bits} {want}"
                );
                let stats = meter.stats(&arena.reader());
                assert_eq!(stats.input.packets, packets);
                assert_eq!(stats.bands[0].packets, packets - passed);
            }
        }
    }

    #[test]
    fn agrees_with_a_bucket_of_exact_tokens() {
        let mut random = Random(9);
        for case in 0..40 {
            let (rate, burst) = (1 + random.below(5_000_000), 8 * (1 + random.below(100_000)));
            let (meter, arena) = meter(Unit::Bits, &[Band { rate, burst, level: 1 }], 0);
            let worker = arena.worker();
            // Tokens in billionths of a bit; the meter rounds times, hence the slack.
            let (full, mut now) = (i128::from(burst) * NS_PER_S as i128, 0u64);
            let (mut tokens, mut disagreed) = (full, 0);
            let slack = i128::from(rate) * 10_000;
            for _ in 0..5000 {
                let bytes = random.below(1500);
                let pause = random.below(2 * (bytes * 8 * SECOND / rate).max(1));
                now += pause;
                tokens = (tokens + i128::from(pause) * i128::from(rate)).min(full);
                let cost = i128::from(bytes * 8) * NS_PER_S as i128;
                let conforms = meter.measure(&worker, bytes, now) == MeterVerdict::Conforms;
                if conforms != (tokens >= cost) {
                    assert!((tokens - cost).abs() <= slack, "case {case}: {tokens} {cost}");
                    disagreed += 1;
                }
                if conforms {
                    tokens -= cost;
                }
            }
            assert!(disagreed < 5, "case {case}: {disagreed}");
        }
    }

    #[test]
    fn the_highest_band_exceeded_applies_and_spares_the_lower() {
        let bands = [
            Band { rate: 10, burst: 10, level: 1 },
            Band { rate: 30, burst: 30, level: 3 },
            Band { rate: 20, burst: 20, level: 2 },
        ];
        let (meter, arena) = meter(Unit::Packets, &bands, 0);
        let worker = arena.worker();
        let mut seen = [0u64; 4];
        for n in 0..400u64 {
            // 40 packets per second for 10 seconds.
            let level = match meter.measure(&worker, 100, n * SECOND / 40) {
                MeterVerdict::Conforms => 0,
                MeterVerdict::Exceeds { band, level } => {
                    assert_eq!(bands[band].level, level);
                    level as usize
                }
            };
            seen[level] += 1;
        }
        for (level, want) in [(0, 110), (1, 110), (2, 110), (3, 70)] {
            assert!(u64::abs_diff(seen[level], want) <= 3, "{seen:?}");
        }
        let stats = meter.stats(&arena.reader());
        let by_band: Vec<u64> = stats.bands.iter().map(|b| b.packets).collect();
        assert_eq!(by_band, [seen[1], seen[3], seen[2]]);
        meter.free(&arena);
        assert!(arena.is_empty());
    }

    #[test]
    fn workers_share_one_rate() {
        let (meter, arena) = meter(Unit::Packets, &[Band { rate: 1000, burst: 500, level: 0 }], 0);
        let passed: u64 = std::thread::scope(|scope| {
            let run = |worker: WorkerCounters| {
                let passes =
                    |n: u64| meter.measure(&worker, 1, n * 100_000) == MeterVerdict::Conforms;
                (0..100_000).filter(|&n| passes(n)).count() as u64
            };
            let hands: Vec<_> = (0..4).map(|_| arena.worker()).collect();
            let threads: Vec<_> =
                hands.into_iter().map(|hand| scope.spawn(move || run(hand))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        // Ten seconds of 1000 packets; the threads' clocks run apart, which can only lose.
        assert!(passed <= 10_500, "{passed}");
        assert!(passed >= 5_000, "{passed}");
    }

    #[test]
    fn short_and_long_divisions_agree() {
        const FEW: u64 = u64::MAX / ((NS_PER_S as u64) << FRACTION);
        let exact = |units: u64, rate: u64| {
            let span = ((u128::from(units) * NS_PER_S) << FRACTION) / u128::from(rate.max(1));
            span.min(AHEAD_MAX) as u64
        };
        for units in [0, 1, 511, 524_280, FEW - 1, FEW, FEW + 1, u64::MAX] {
            for rate in [0, 1, 2, 3, 1000, 999_999_937, 1 << 40, u64::MAX] {
                assert_eq!(duration(units, rate), exact(units, rate), "{units} {rate}");
            }
        }
    }

    #[test]
    fn odd_configurations_have_a_meaning() {
        let (none, arena) = meter(Unit::Bits, &[], 0);
        let worker = arena.worker();
        assert_eq!(none.measure(&worker, u64::MAX, 0), MeterVerdict::Conforms);
        let zero = |rate, burst| MeterConfig {
            unit: Unit::Packets,
            bands: vec![Band { rate, burst, level: 4 }],
        };
        let closed = Meter::new(&zero(0, 0), 0, &arena).unwrap();
        let exceeds = MeterVerdict::Exceeds { band: 0, level: 4 };
        assert_eq!(closed.measure(&worker, 1, 0), exceeds);
        let unset = Meter::new(&zero(5, 0), 0, &arena).unwrap();
        let passed = (0..9).filter(|_| unset.measure(&worker, 1, 0) != exceeds).count();
        assert_eq!(passed, 5);
        let huge = Meter::new(&zero(1, u64::MAX), 0, &arena).unwrap();
        assert!((0..1000).all(|_| huge.measure(&worker, 1, 0) != exceeds));
        let small = CounterArena::new(1);
        assert!(Meter::new(&zero(1, 1), 0, &small).is_err());
        assert!(small.is_empty());
    }
}
