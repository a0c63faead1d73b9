//! What the store holds, and what members have said.

use crate::fleet::ack::Ack;
use crate::fleet::version::Version;
use std::time::{Duration, SystemTime};

/// What the store holds of a version.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) revision: u64,
    /// Or why it is none.
    pub(crate) version: Result<Version, String>,
    /// When it was written, by the server's clock.
    pub(crate) written: SystemTime,
}

impl Head {
    /// How long it has waited, by both clocks.
    pub(crate) fn age(&self) -> Duration {
        SystemTime::now().duration_since(self.written).unwrap_or_default()
    }

    /// For how long it still waits for a confirmation; none if it does not, or not any more.
    pub(crate) fn waits(&self) -> Option<Duration> {
        let waits = self.version.as_ref().ok()?.waits.as_ref()?;
        let left = Duration::from_secs(waits.seconds).saturating_sub(self.age());
        (!left.is_zero()).then_some(left)
    }
}

/// What a member has said.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) member: String,
    pub(crate) ack: Ack,
    /// How long ago.
    pub(crate) age: Duration,
}

/// Why a version was not written.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "replication-nats"),
    expect(dead_code, reason = "without a client of NATS nothing is written")
)]
pub(crate) enum NotWritten {
    /// Somebody else was faster.
    Raced,
    Failed(String),
}
