//! When to compile: time that a transaction may wait for it, and how often tables change.

use std::time::{Duration, Instant};

/// Time for compiling while a transaction waits: a share of all time, saved up to a bound.
pub(super) struct Budget {
    left: Duration,
    at: Instant,
    /// What compiling took last.
    pub(super) expected: Duration,
}

impl Budget {
    const MOST: Duration = Duration::from_millis(200);
    /// One part in so many of all time.
    const SHARE: u32 = 4;

    pub(super) fn new() -> Budget {
        Budget { left: Budget::MOST, at: Instant::now(), expected: Duration::ZERO }
    }

    pub(super) fn allows(&mut self) -> bool {
        let now = Instant::now();
        self.left = (self.left + (now - self.at) / Budget::SHARE).min(Budget::MOST);
        self.at = now;
        self.left >= self.expected
    }

    pub(super) fn spend(&mut self, took: Duration) {
        self.left = self.left.saturating_sub(took);
        self.expected = took;
    }
}

/// How often a table changes.
#[derive(Clone)]
pub(super) struct Churn {
    /// Changes ever.
    pub(super) changes: u64,
    /// Changes since it was last quiet.
    pub(super) recent: u32,
    /// Changes when the arrangement of its rules was last looked into.
    pub(super) arranged: u64,
    /// What a lookup of the traffic then took, in the arrangement that was kept or made; none if there was none.
    pub(super) ns: Option<f64>,
    /// Not before then is it looked into again.
    pub(super) after: Instant,
    pub(super) at: Instant,
}

impl Churn {
    pub(super) fn touch(&mut self) {
        self.changes += 1;
        self.recent = self.recent.saturating_add(1);
    }
}
