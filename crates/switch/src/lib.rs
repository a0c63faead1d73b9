//! The switch: one transactional object over pipeline, engine, workers and ports.
//!
//! In: updates, ports, packets from the control side. Out: versions in force, statistics, punted
//! packets, port events, expired entries, traces. OpenFlow agent, P4Runtime server, command line and
//! dashboard are its clients and see the same versions; none of their words appear here.
//!
//! | module | holds |
//! |---|---|
//! | [`Switch`] | the façade: transactions, barriers, counters, injection |
//! | [`ports`] | ports by number: adding, removing, link changes, statistics |
//! | `events` | what happens to ports, for the client and for followers |
//! | [`changes`] | what clients change, told in lines and sums |
//! | [`expiry`] | idle and hard timeouts of entries |
//! | [`tracing`](trace) | what would happen to a packet, step by step |
//! | [`watch`] | which thread stands still |
//! | [`Workers`] | the threads of the packet path, which several switches may share |
//!
//! A transaction is in the pipeline when [`Switch::transact`] returns, in force when
//! [`Switch::sync`] returns: every worker forwards by it. In between a control thread
//! publishes what has gathered, at the latest after [`PUBLISH_INTERVAL`], so that a stream of
//! single updates costs one publication per interval.

pub mod changes;
mod events;
pub mod expiry;
mod monitor;
pub mod ports;
mod signals;
mod signs;
mod slot;
mod start;
mod switch;
mod timings;
pub mod trace;
mod traffic;
mod wait;
pub mod watch;
mod workers;

pub use datapath::capture::{Captured, Filter as CaptureFilter, Record as CaptureRecord, Way};
pub use datapath::engine::TableExplanation;
pub use datapath::punt::{Caller, Message, Punt};
pub use datapath::queues;
pub use datapath::repeats::{Forgotten, Place};
pub use datapath::tally::{Counted, Ran};
pub use datapath::worker::{Injection, Load};
pub use events::PortFollower;
pub use expiry::{Expired, Reason};
pub use ir::TableId;
pub use ports::{PortConfig, PortError, PortEvent, PortView};
pub use start::StartError;
pub use state::FairLimit;
pub use state::counters::CounterValue;
pub use state::meters::MeterStats;
pub use switch::{Barrier, Config, EngineKind, PUBLISH_INTERVAL, Switch, TableStats, Validation};
pub use timings::{Timings, Watcher, Work};
pub use trace::Traced;
pub use watch::{Pulse, Still};
pub use workers::Workers;
