//! Workers, the burst loop, and the publication of versions.
//!
//! In: ports' queues, and the updates that the control side has committed. Out: frames on ports,
//! punted copies and digests on a bounded ring, counters.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | the seam: what an engine is to the control side and to a worker |
//! | [`replica`] | the interpreter engine: two replicas of the tables, one serving, one following |
//! | [`publish`] | a version is published by one swap; who has adopted it |
//! | [`worker`] | the burst loop: receive, run, transmit, sleep when silent |
//! | [`sink`] | from the copies an engine sends to frames on ports |
//! | [`program_state`] | what belongs to a program and is written by packets: table counters, registers |
//! | [`meter`] | a meter at work |
//! | [`ports`] | port flags and counters, shared by control side and workers |
//! | [`punt`] | the ring to the control side, bounded in frames, bytes and rate |
//!
//! Invariants: a worker adopts a version between bursts only, so a burst never mixes two; what a
//! worker counts is its own, summed by readers; nothing that traffic does can grow memory or stop
//! the control side; every frame that comes in ends as sent, punted, or counted under a reason.
//! Nothing here knows what OpenFlow or P4 is.

pub mod engine;
pub mod meter;
pub mod ports;
pub mod program_state;
pub mod publish;
pub mod punt;
pub mod replica;
pub mod sink;
pub mod worker;

pub use engine::{Engine, Forward, Scratch};
pub use ports::{PortFlags, PortShared, PortTable};
pub use publish::Publisher;
pub use punt::{Message, PuntRing};
pub use worker::{Command, Worker, WorkerConfig};
