//! A meter of the pipeline at work: token buckets, and what each band says of a packet above its
//! rate.
//!
//! Buckets are shared by all workers (`state::meters` says why); its counters are taken from the
//! switch's arena and go back when the last replica has let go of the meter, when no worker can
//! count on them any more.

use interp::Color;
use state::counters::{CounterArena, CountersFull, WorkerCounters};
use state::meters::{Band, Meter, MeterConfig, MeterStats, MeterVerdict, Unit};
use std::sync::Arc;

/// A meter at work.
pub struct LiveMeter {
    /// Taken only by `drop`.
    meter: Option<Meter>,
    colors: Box<[Color]>,
    arena: Arc<CounterArena>,
}

impl LiveMeter {
    /// A meter with full buckets and counters at zero.
    pub fn new(
        meter: &ir::Meter,
        now_ns: u64,
        arena: &Arc<CounterArena>,
    ) -> Result<LiveMeter, CountersFull> {
        let band = |b: &ir::Band| Band { rate: b.rate, burst: b.burst, level: u32::from(b.level) };
        let config = MeterConfig {
            unit: if meter.packets { Unit::Packets } else { Unit::Bits },
            bands: meter.bands.iter().map(band).collect(),
        };
        Ok(LiveMeter {
            meter: Some(Meter::new(&config, now_ns, arena)?),
            colors: meter.bands.iter().map(|b| Color { color: b.color, level: b.level }).collect(),
            arena: arena.clone(),
        })
    }

    /// What the meter says of a packet; counts it.
    pub fn measure(&self, counters: &WorkerCounters, bytes: u32, now_ns: u64) -> Color {
        let green = Color { color: 0, level: 0 };
        let Some(meter) = &self.meter else { return green };
        match meter.measure(counters, u64::from(bytes), now_ns) {
            MeterVerdict::Conforms => green,
            MeterVerdict::Exceeds { band, .. } => self.colors.get(band).copied().unwrap_or(green),
        }
    }

    /// What was counted so far.
    pub fn stats(&self) -> MeterStats {
        let reader = self.arena.reader();
        let empty = || MeterStats { input: Default::default(), bands: Vec::new() };
        self.meter.as_ref().map_or_else(empty, |m| m.stats(&reader))
    }

    /// Goes on from what another process's meter has counted; see [`Meter::carry`].
    pub fn carry(&self, counted: &MeterStats) -> bool {
        self.meter.as_ref().is_some_and(|m| m.carry(&self.arena, counted))
    }
}

impl Drop for LiveMeter {
    fn drop(&mut self) {
        if let Some(meter) = self.meter.take() {
            meter.free(&self.arena);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(rate: u64, burst: u64, color: u8, level: u8) -> ir::Band {
        ir::Band { rate, burst, color, level }
    }

    #[test]
    fn the_highest_band_exceeded_gives_the_colour() {
        let arena = Arc::new(CounterArena::new(100));
        let worker = arena.worker();
        let bands = vec![band(10, 10, 1, 4), band(20, 20, 2, 5)];
        let meter = LiveMeter::new(&ir::Meter { packets: true, bands }, 0, &arena).unwrap();
        let colors: Vec<u8> = (0..30).map(|_| meter.measure(&worker, 100, 0).color).collect();
        let of = |color| colors.iter().filter(|c| **c == color).count();
        assert_eq!((of(0), of(1), of(2)), (10, 10, 10));
        assert_eq!(meter.measure(&worker, 100, 0), Color { color: 2, level: 5 });
        let stats = meter.stats();
        assert_eq!((stats.input.packets, stats.input.bytes), (31, 3100));
        assert_eq!(stats.bands.iter().map(|b| b.packets).collect::<Vec<_>>(), [10, 11]);
        // A second later both buckets are full again.
        assert_eq!(meter.measure(&worker, 100, 1_000_000_000).color, 0);
    }

    #[test]
    fn bytes_are_eight_bits() {
        let arena = Arc::new(CounterArena::new(100));
        let worker = arena.worker();
        let bits = ir::Meter { packets: false, bands: vec![band(8000, 8000, 2, 0)] };
        let meter = LiveMeter::new(&bits, 0, &arena).unwrap();
        assert_eq!((0..11).filter(|_| meter.measure(&worker, 100, 0).color == 0).count(), 10);
    }

    #[test]
    fn its_counters_go_back_with_it() {
        let arena = Arc::new(CounterArena::new(3));
        let two = ir::Meter { packets: true, bands: vec![band(1, 1, 2, 0), band(2, 1, 1, 0)] };
        for _ in 0..5 {
            let meter = LiveMeter::new(&two, 0, &arena).unwrap();
            assert_eq!(arena.len(), 3);
            assert!(LiveMeter::new(&two, 0, &arena).is_err());
            drop(meter);
            assert!(arena.is_empty());
        }
    }
}
