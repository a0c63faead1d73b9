//! What a demonstration shows, and what its hosts have seen.

use control::sync::lock;
use port::memory::Handle;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What a demonstration shows.
pub(super) trait Scene: Send {
    /// One line that says what is to be seen.
    fn title(&self) -> String;
    /// Names of the ports, in the order of their numbers from 1.
    fn ports(&self) -> Vec<String>;
    /// Flow entries, in ovs-ofctl's syntax.
    fn flows(&self) -> Vec<String>;
    /// Plays the hosts at the far ends of the ports until `stop`, then takes what is still coming.
    fn play(&mut self, ends: &[Handle], stop: &AtomicBool, tally: &Tally);
    /// Whether one frame in is at most one frame out, so that received = sent + dropped.
    fn is_unicast(&self) -> bool;
}

/// What the hosts have seen.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Frames that the switch took from hosts.
    pub(super) sent: AtomicU64,
    /// Frames that hosts took from the switch.
    pub(super) received: AtomicU64,
    /// Frames found right.
    pub(super) verified: AtomicU64,
    /// Frames found wrong, missing or too many.
    pub(super) errors: AtomicU64,
    /// The first error, as text.
    pub(super) first_error: Mutex<Option<String>>,
    /// Lines of the scene's own, for the view and the summary.
    pub(super) notes: Mutex<Vec<String>>,
}

impl Tally {
    pub(super) fn error(&self, text: impl FnOnce() -> String) {
        self.errors.fetch_add(1, Relaxed);
        lock(&self.first_error).get_or_insert_with(text);
    }

    pub(super) fn note(&self, lines: Vec<String>) {
        *lock(&self.notes) = lines;
    }

    /// Lines for people: what was checked so far, what was learned, and the scene's own.
    pub(super) fn lines(&self, learned: Option<String>) -> Vec<String> {
        let (verified, errors) = (self.verified.load(Relaxed), self.errors.load(Relaxed));
        let learned = learned.map_or(String::new(), |l| format!("; {l}"));
        let mut lines = vec![format!("{verified} frames verified, {errors} errors{learned}")];
        lines.extend(lock(&self.first_error).clone());
        lines.extend(lock(&self.notes).iter().cloned());
        lines
    }
}
