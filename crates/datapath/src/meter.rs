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
    pub fn new(meter: &ir::Meter, now_ns: u64, arena: &Arc<CounterArena>) -> Result<LiveMeter, CountersFull> {
        // Rates of the pipeline are in kilobits or packets; those of `state` in bits or packets.
        let unit = if meter.packets { 1 } else { 1000 };
        let band = |b: &ir::Band| Band {
            rate: b.rate.saturating_mul(unit),
            burst: b.burst.saturating_mul(unit),
            level: u32::from(b.level),
        };
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
}

impl Drop for LiveMeter {
    fn drop(&mut self) {
        if let Some(meter) = self.meter.take() {
            meter.free(&self.arena);
        }
    }
}
