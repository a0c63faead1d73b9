//! What the test suites of several crates share. Nothing but tests depends on it.
//!
//! | module | holds |
//! |---|---|
//! | [`copies`] | random programs whose packets go to many ports and change between them |
//! | [`heap`] | an allocator that counts |
//! | [`ledger`] | documents of a standard's requirements, against citations and tests |
//! | [`nats`] | a broker that is started, killed and started again |
//! | [`packet`] | frames from header values |
//! | [`running`] | a process that is started, waited for and ended |
//! | [`spaces`] | network namespaces, and commands in them |
//! | [`station`] | a small program of two tables, whose entries say where each station's frames go |
//! | [`lookups`] | random programs, entries and packets that hit each other often |
//!
//! Everything is seeded: the same seed gives the same thing on every machine. What breaks an
//! invariant panics, as tests do.

pub mod copies;
pub mod heap;
pub mod ledger;
pub mod lookups;
pub mod nats;
pub mod packet;
pub mod running;
pub mod spaces;
pub mod station;
