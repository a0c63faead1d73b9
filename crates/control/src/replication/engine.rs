//! The engine: what carries the stream and keeps the store. [`nats`](super::nats) is one; another takes its place behind this.

use replication::Owner;
use replication::pool::Claims;

/// What an engine brings.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "replication-nats"),
    expect(dead_code, reason = "without a client of NATS there is no engine")
)]
pub(crate) enum Brought {
    /// It is there, or is not any more.
    Connected(bool),
    /// Octets of a message, in the order in which their sender published them.
    Message(Vec<u8>),
    /// What the store holds of a share, with its revision: 0 and none, if nobody has written.
    Stored(String, u64, Option<Owner>),
    /// Which stripes of a share's pool are claimed, with the revision; none, if nobody has written.
    Claims(String, u64, Option<Claims>),
    /// A claim about a share was refused, or has failed; of all shares, if it does not say of which.
    NotClaimed(Option<String>),
    /// What keeps it from being there, or what it refuses.
    Fault(String),
    /// A write about a share was refused, or has failed; of all shares, if it does not say of which. What the store holds comes behind it.
    NotWritten(Option<String>),
}

/// An engine.
pub(crate) trait Engine {
    /// Publishes octets to all members; false if there is no room, or it is away, and they are lost.
    fn publish(&self, octets: Vec<u8>) -> bool;
    /// Whether there is room for what can wait.
    fn has_room(&self) -> bool;
    /// Writes into the store who has a share, if its revision is still this one.
    fn write(&self, share: &str, revision: u64, owner: Owner);
    /// Writes into the store who has claimed which stripes of a share's pool, likewise.
    fn claim(&self, share: &str, revision: u64, claims: Claims);
}
