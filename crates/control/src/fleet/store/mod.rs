//! The store: buckets of JetStream's key-value store.
//!
//! `millrace-GROUP-config` has one key, `version`; its history is the last 64 writes. Operators write it, and only over the revision that
//! they have read. `millrace-GROUP-members` has a key for each member, which that member writes.
//!
//! [`kept`] is the store where there is a client of NATS, [`absent`] where this is built without one: nothing of it can be made.

#[cfg(not(feature = "replication-nats"))]
mod absent;
#[cfg(feature = "replication-nats")]
mod kept;
mod told;

#[cfg(not(feature = "replication-nats"))]
pub(crate) use absent::{Event, Store, connected, member};
#[cfg(feature = "replication-nats")]
pub(crate) use kept::{Event, Store, connected, member};
pub(crate) use told::{Head, NotWritten, Said};
