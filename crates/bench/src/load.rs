//! Frames that come in by a port beside whatever else is measured: so many a second, or as many as are taken.
//!
//! In: the near end of a port in memory ([`Feed`]). Out: what was served of what came, and how far the worker fell behind.
//! A port in memory drops nothing: a worker that cannot keep up serves less than has come.
//!
//! Cost: a thread that wakes every half millisecond, or every 20 µs where all that is taken comes.

use super::feed::Feed;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between looks whether frames are due.
const PAUSE: Duration = Duration::from_micros(500);
/// The same where there are always more.
const SHORT_PAUSE: Duration = Duration::from_micros(20);
/// Frames at once where there are always more.
const MANY: u64 = 1 << 18;

/// What became of the frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    /// Frames that the worker was done with.
    pub(super) frames: u64,
    /// Frames that were due.
    pub(super) due: u64,
    /// From the first to the last.
    pub(super) seconds: f64,
    /// The worker's processor time meanwhile. Frames of other ports, and changes, are in it.
    pub(super) spent: f64,
    /// Frames that were due at once, at most.
    pub(super) behind: u64,
}

impl Served {
    /// Frames a second.
    pub(super) fn rate(&self) -> f64 {
        self.frames as f64 / self.seconds.max(1e-9)
    }

    /// Of the frames that were due.
    pub(super) fn share(&self) -> f64 {
        self.frames as f64 / self.due.max(1) as f64
    }
}

/// Has frames of this part of a port's trace come in, `rate` a second or as many as are taken, until told to stop.
pub(super) fn load(
    feed: &Feed,
    part: &Range<usize>,
    rate: Option<u64>,
    stop: &AtomicBool,
) -> Served {
    let began = Instant::now();
    let mut served = Served::default();
    let (mut given, mut pending) = (0, 0);
    loop {
        if pending > 0 && feed.is_done() {
            served.frames += pending;
            served.spent += feed.spent().as_secs_f64();
            served.seconds = began.elapsed().as_secs_f64();
            pending = 0;
        }
        if pending == 0 {
            if stop.load(Ordering::Relaxed) {
                return served;
            }
            let due = match rate {
                Some(rate) => (began.elapsed().as_secs_f64() * rate as f64) as u64 - given,
                None => MANY,
            };
            if due > 0 {
                feed.give(part.clone(), due);
                served.behind = served.behind.max(due);
                (given, pending) = (given + due, due);
                served.due = given;
            }
        }
        std::thread::sleep(if rate.is_some() { PAUSE } else { SHORT_PAUSE });
    }
}
