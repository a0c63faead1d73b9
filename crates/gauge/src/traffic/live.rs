//! What other threads see of a run in progress, and do to it.

use crate::clock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// A probe that came back, or any frame where [`Live::with_frames`] asks for them.
#[derive(Clone, Debug)]
pub struct Came {
    /// Its number and when it was due, by [`clock`]; none if it is no probe of this run.
    pub probe: Option<(u32, u64)>,
    /// When it came.
    pub at: u64,
    /// Whether it came to the port that sends.
    pub returned: bool,
    /// Its bytes, if they were asked for.
    pub bytes: Box<[u8]>,
}

/// What another thread can see of a run, and do to it.
#[derive(Debug, Default)]
pub struct Live {
    pub(super) stop: AtomicBool,
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) returned: AtomicU64,
    pub(super) flows_seen: AtomicU64,
    pub(super) cut: AtomicBool,
    pub(super) captures: Option<SyncSender<Came>>,
    /// Not only probes, each once, but all frames that are captured, with their bytes.
    pub(super) frames: bool,
}

impl Live {
    /// One that tells of each probe that comes back, as long as somebody takes it.
    pub fn with_captures(captures: Option<SyncSender<Came>>) -> Live {
        Live { captures, ..Live::default() }
    }

    /// One that tells of every frame that is captured, with its bytes, likewise.
    pub fn with_frames(captures: SyncSender<Came>) -> Live {
        Live { captures: Some(captures), frames: true, ..Live::default() }
    }

    /// No more probes; the run ends when those on their way are there, or the drain time is over.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Probes sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Probes that came back.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// Those of them that came back at the port that sent them.
    pub fn returned(&self) -> u64 {
        self.returned.load(Ordering::Acquire)
    }

    /// Waits until something is so or the run ends, for at most so long; says whether it is so.
    pub fn wait(&self, most: Duration, so: impl Fn() -> bool) -> bool {
        clock::wait(most, || so() || self.stop.load(Ordering::Acquire)) && so()
    }

    /// Takes the receiving port's link away from the switch, until the run ends.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Release);
    }

    /// Flows of which a probe came back.
    pub fn flows_seen(&self) -> u64 {
        self.flows_seen.load(Ordering::Acquire)
    }
}
