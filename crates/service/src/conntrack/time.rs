//! Time in ticks.

use super::tcp;

/// The shift from nanoseconds to ticks: 134 ms. Time ends 18 years after the clock's zero.
pub(super) const TICK_SHIFT: u32 = 27;

pub(super) fn ticks(now_ns: u64) -> u32 {
    u32::try_from(now_ns >> TICK_SHIFT).unwrap_or(u32::MAX)
}

/// The first tick that is not before so many seconds from now.
pub(super) fn deadline_of(now_ns: u64, seconds: u32) -> u32 {
    let at = now_ns.saturating_add(u64::from(seconds) * 1_000_000_000);
    u32::try_from(at.div_ceil(1 << TICK_SHIFT)).unwrap_or(u32::MAX)
}

/// How far ahead a connection is filed by its end: no further than to where an open TCP connection's comes while data is
/// under way, so that it need not be filed anew for that.
pub(super) fn far(timeouts: &tcp::Timeouts) -> u32 {
    let seconds = timeouts.unacknowledged.min(timeouts.repeating);
    // Looked at once in a minute at most, however short those are.
    ((u64::from(seconds.max(60)) * 1_000_000_000) >> TICK_SHIFT) as u32
}

/// Ticks in so many seconds, rounded up.
pub(super) fn deadline_after(seconds: u32) -> u32 {
    deadline_of(0, seconds)
}
