//! What a process was started with, for those who run it.

use super::cache::{Cache, Refused};
use super::place::Place;
use super::plain::Plain;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a process starts with.
#[derive(Debug)]
pub struct Begun {
    pub(crate) place: Place,
    pub(crate) cache: Cache,
    /// The version that it takes.
    pub(crate) running: Plain,
    /// The version that it did not take.
    pub(crate) refused: Option<Refused>,
    /// It has been good before.
    pub(super) known: bool,
    pub(super) ready: AtomicBool,
}

impl Begun {
    /// The process is ready: what it was started with is good.
    pub(crate) fn is_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
        if let Err(error) = self.cache.keep_good(&self.running) {
            tracing::warn!(error, "the last good configuration is not kept");
        }
    }
}
