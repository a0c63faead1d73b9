//! What the packet path writes and time-driven control keeps.
//!
//! In: packets counted, metered and timed by workers; times, as nanoseconds of one monotonic clock
//! that the caller reads. Out: sums for statistics, verdicts of meters, expired timers.
//!
//! | module | written by | read by |
//! |---|---|---|
//! | [`counters`] | each worker its own cells | control, which sums them |
//! | [`meters`] | all workers, one atomic per band | workers; control for the counters |
//! | [`registers`] | all workers | all workers, control |
//! | [`timers`] | control | control |
//! | [`rate_limit`] | its one owner | its owner |
//! | [`fair_limit`] | whoever holds it | the same |
//!
//! Invariants: nothing a worker calls here blocks or allocates, except that registers wider than
//! 64 bits take a short lock. Control may allocate, and locks only against other control.
//!
//! Absences: no sockets, no threads of its own, no clocks; nothing here knows OpenFlow or P4.
//!
//! Checked by: model tests beside each module, against the plainest twin.

pub mod counters;
pub mod fair_limit;
pub mod meters;
pub mod rate_limit;
pub mod registers;
pub mod timers;

pub use counters::{CounterArena, CounterValue, WorkerCounters};
pub use fair_limit::FairLimit;
pub use meters::{Band, Meter, MeterConfig, MeterVerdict, Unit};
pub use rate_limit::RateLimit;
pub use registers::Registers;
pub use timers::Timers;
