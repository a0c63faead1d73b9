//! The one clock of a measurement: nanoseconds, monotonic, since the first look at it.
//!
//! Probes, captures and messages are all stamped by it, so that their times can be subtracted.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds since the clock was first read in this process, plus one, so that 0 can mean "never".
pub fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let since = ORIGIN.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1) + 1
}

/// Waits until something is so, for at most so long; says whether it is.
pub fn wait(most: Duration, mut so: impl FnMut() -> bool) -> bool {
    let until = std::time::Instant::now() + most;
    while !so() {
        if std::time::Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    true
}
