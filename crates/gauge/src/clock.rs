//! The one clock of a measurement: nanoseconds, monotonic, since the first look at it.
//!
//! Probes, captures and messages are all stamped by it, so that their times can be subtracted.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the clock was first read in this process, plus one, so that 0 can mean "never".
pub fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let since = ORIGIN.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1) + 1
}

/// The time in UTC, for people: 2026-11-29T02:30:25Z.
pub fn utc() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    civil(since.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date and a time (Hinnant, *chrono-compatible low-level date algorithms*).
fn civil(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
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

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(civil(seconds), text);
        }
    }
}
