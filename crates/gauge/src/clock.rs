//! The one clock of a measurement: nanoseconds, monotonic, since the first look at it.
//!
//! Probes, captures and messages are all stamped by it, so that their times can be subtracted.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the clock was first read in this process, plus one, so that 0 can mean "never".
pub fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let since = ORIGIN.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1) + 1
}
