//! Workers, the burst loop, and the publication of versions.
//!
//! In: ports' queues, and the updates that the control side has committed. Out: frames on ports,
//! punted copies and digests on a bounded ring, counters.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | the seam: what an engine is to the control side and to a worker |
//! | [`replica`] | what it takes to forward by a version; two of them are the interpreter engine |
//! | [`compiled`] | the compiling engine: the same replicas, with code for them |
//! | `whole` | when code of whole programs is made, for packets that the code of bursts leaves |
//! | `rearrange` | a table gets another structure on a control core while it serves |
//! | [`samples`] | keys that traffic has brought |
//! | [`filetest`] | test files on the compiling engine |
//! | [`counts`] | where the counts of compiled code go, and who answers what it asks |
//! | [`externs`] | state, services and counters, as a packet reaches them |
//! | [`publish`] | a version is published by one swap; who has adopted it |
//! | [`worker`] | the burst loop: receive, run, transmit, sleep when silent |
//! | [`records`] | what compiled code reads of an entry's action |
//! | `reach` | which tables packets may come to |
//! | `stages` | a compiled pipeline as the cost model sees it |
//! | [`services`] | what programs call by name: connection tracking |
//! | [`sink`] | from the copies an engine sends to frames on ports |
//! | `tx_ports` | a worker's transmit queues, and batches for them |
//! | [`notify`] | what compiled code has for the control side: punts and digests, within the limit |
//! | [`validate`] | a sample of what compiled code did, checked by the interpreter |
//! | [`program_state`] | what belongs to a program and is written by packets: table counters, registers |
//! | [`meter`] | a meter at work |
//! | [`tally`] | packets by what ran them: code, code for one packet, the interpreter; and why |
//! | [`ports`] | port flags and counters, shared by control side and workers |
//! | [`queues`] | a port's egress queues: rates, and who goes first |
//! | [`held`] | messages that the limit refuses are not noted |
//! | [`repeats`] | digests that were sent a moment ago, and are left out |
//! | [`punt`] | the ring to the control side, bounded in frames, bytes and rate |
//!
//! Invariants: a worker adopts a version between bursts only, so a burst never mixes two; what a
//! worker counts is its own, summed by readers; nothing that traffic does can grow memory or stop
//! the control side; every frame that comes in ends as sent, punted, or counted under a reason.
//! Nothing here knows what OpenFlow or P4 is.

mod bucket;
pub mod capture;
pub mod compiled;
pub mod counts;
pub mod engine;
pub mod externs;
pub mod filetest;
pub mod held;
pub mod meter;
pub mod notify;
pub mod policer;
pub mod ports;
pub mod program_state;
pub mod publish;
pub mod punt;
pub mod queues;
mod reach;
mod rearrange;
pub mod records;
pub mod repeats;
pub mod replica;
pub mod samples;
pub mod services;
pub mod sink;
mod stages;
pub mod tally;
mod tx_ports;
pub mod validate;
mod whole;
pub mod worker;

pub use engine::{Engine, Forward, Scratch};
pub use ports::{PortFlags, PortShared, PortTable};
pub use publish::Publisher;
pub use punt::{Message, PuntRing};
pub use worker::{Command, LaneConfig, Worker, WorkerConfig};
