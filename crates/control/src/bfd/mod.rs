//! BFD of tunnel ports: whether the other ends live.
//!
//! In: what is asked of a port ([`bfd::Config`]), frames of BFD that its tunnel has taken out, the port's counters. Out: frames
//! by the port, a port that is live or not, what is told of its session. How a session behaves is [`bfd::Session`]'s; here
//! are its clock and its port.
//!
//! | file | is |
//! |---|---|
//! | `run` | sessions of a bridge, and the thread that runs them, which is there from its first session on |
//! | `ask` | `bfd/*` of `ovs-appctl` |
//!
//! Holds true: a port with a session is live while the session says that it forwards, but for the moment of a change. A port
//! whose session ends is live by its link alone.
//! Locks: sessions → the switch. The agent's is taken without them.

mod ask;
mod run;
#[cfg(test)]
mod tests;

pub use ask::ask;
pub(crate) use run::{Around, Sessions};

/// A session that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BfdError {
    /// Only tunnels take frames out.
    #[error("BFD: only tunnel ports have it")]
    NoTunnel,
    /// The system has no thread for it.
    #[error("BFD: there is no thread for it: {0}")]
    NoThread(String),
}
