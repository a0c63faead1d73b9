//! How busy a worker is: rounds, frames and time, counted by it and read by others.
//!
//! In: what each round of [`Worker::run`](super::Worker::run) took. Out: [`Load`], sums since the start. Two readings give a
//! share of the time and the frames of a round in between.
//!
//! Cost: the loop reads the clock once a round in any case. A round that took something adds to cells of the worker's own
//! line; an empty one adds to a variable of the loop.

use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Rounds that took frames or commands.
    pub busy_rounds: u64,
    /// Rounds that found nothing.
    pub idle_rounds: u64,
    /// Frames and commands that were taken.
    pub taken: u64,
    /// Time in rounds that took something, in nanoseconds.
    pub busy_ns: u64,
    /// Time asleep, in nanoseconds.
    pub asleep_ns: u64,
    /// Sleeps.
    pub sleeps: u64,
}

#[derive(Debug, Default)]
struct Cells {
    busy_rounds: AtomicU64,
    idle_rounds: AtomicU64,
    taken: AtomicU64,
    busy_ns: AtomicU64,
    asleep_ns: AtomicU64,
    sleeps: AtomicU64,
}

/// What others read.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader(Arc<CachePadded<Cells>>);

impl Reader {
    /// What was counted until now. An idle worker's rounds come at its next sleep or frame.
    pub(super) fn load(&self) -> Load {
        let of = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let cells = &**self.0;
        Load {
            busy_rounds: of(&cells.busy_rounds),
            idle_rounds: of(&cells.idle_rounds),
            taken: of(&cells.taken),
            busy_ns: of(&cells.busy_ns),
            asleep_ns: of(&cells.asleep_ns),
            sleeps: of(&cells.sleeps),
        }
    }
}

/// The worker's end. It alone writes.
pub(super) struct Meter {
    cells: Reader,
    /// When the round began, and what it has taken; nothing before the first.
    round: Option<(u64, usize)>,
    /// Rounds that are not written yet.
    idle: u64,
}

/// Empty rounds are written so seldom while a worker polls without sleep.
const IDLE_MAX: u64 = 1 << 16;

/// One thread writes: no addition is lost.
fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl Meter {
    /// Of a worker that has not begun.
    pub(super) fn new(cells: Reader) -> Meter {
        Meter { cells, round: None, idle: 0 }
    }

    /// A round begins; the one before it ends.
    #[inline]
    pub(super) fn begin(&mut self, now_ns: u64) {
        if let Some((began, taken)) = self.round.replace((now_ns, 0))
            && taken > 0
        {
            let cells = &**self.cells.0;
            add(&cells.busy_rounds, 1);
            add(&cells.taken, taken as u64);
            add(&cells.busy_ns, now_ns.saturating_sub(began));
        }
    }

    /// It took so many frames and commands.
    #[inline]
    pub(super) fn took(&mut self, taken: usize) {
        match &mut self.round {
            Some(round) if taken > 0 => round.1 = taken,
            _ => {
                self.idle += 1;
                if self.idle >= IDLE_MAX {
                    self.write_idle();
                }
            }
        }
    }

    /// The worker was asleep from one time to another.
    pub(super) fn slept(&mut self, from_ns: u64, to_ns: u64) {
        self.round = None;
        self.write_idle();
        let cells = &**self.cells.0;
        add(&cells.sleeps, 1);
        add(&cells.asleep_ns, to_ns.saturating_sub(from_ns));
    }

    fn write_idle(&mut self) {
        add(&self.cells.0.idle_rounds, std::mem::take(&mut self.idle));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_rounds_that_took_something_and_to_sleep() {
        let reader = Reader::default();
        let mut meter = Meter::new(reader.clone());
        for (at, taken) in [(100, 0), (110, 32), (150, 1), (170, 0), (180, 0)] {
            meter.begin(at);
            meter.took(taken);
        }
        assert_eq!(
            reader.load(),
            Load { busy_rounds: 2, taken: 33, busy_ns: 60, ..Load::default() }
        );
        meter.slept(180, 1_180);
        // The first round after sleep is no part of it.
        meter.begin(1_185);
        meter.took(4);
        meter.begin(1_200);
        assert_eq!(
            reader.load(),
            Load {
                busy_rounds: 3,
                idle_rounds: 3,
                taken: 37,
                busy_ns: 75,
                asleep_ns: 1_000,
                sleeps: 1
            }
        );
    }

    #[test]
    fn a_worker_that_only_polls_is_seen() {
        let reader = Reader::default();
        let mut meter = Meter::new(reader.clone());
        for at in 0..IDLE_MAX {
            meter.begin(at);
            meter.took(0);
        }
        assert_eq!(reader.load().idle_rounds, IDLE_MAX);
    }
}
