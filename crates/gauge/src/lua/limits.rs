//! How much a script may use, and have kept.

use std::time::Duration;

/// The longest that one call of a script's function may take.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The most memory of a script, in bytes.
pub const MEMORY_MAX: usize = 256 << 20;

/// Captures that may wait for the script.
pub(super) const CAPTURES_MAX: usize = 1 << 16;

/// Names of figures, of latencies and of series, and findings.
pub(super) const NAMES_MAX: usize = 200;

/// Bytes of a name, and of a finding or a note.
pub(super) const NAME_LEN_MAX: usize = 200;

/// Likewise.
pub(super) const TEXT_LEN_MAX: usize = 4096;

/// Messages, timers, notes and requests to managements that may wait at once, each.
pub(super) const WAITING_MAX: usize = 10_000;

/// Points of all series.
pub(super) const POINTS_MAX: usize = 1 << 20;
