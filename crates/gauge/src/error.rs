//! Why a measurement could not be made. A switch that misbehaves is no error: that is a finding.

use openflow::{EncodeError, ErrorMessage};
use std::io;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The control channel could not be opened.
    #[error("{peer}: {action} failed: {source}")]
    Connect {
        /// Whom to.
        peer: String,
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// No version in common.
    #[error("{peer}: the switch speaks none of {ours}; give others by --protocols")]
    Version {
        /// The switch.
        peer: String,
        /// What we offered.
        ours: String,
    },
    /// The control channel broke.
    #[error("the switch closed the control channel{}", because(.reason))]
    Closed {
        /// What was seen last, if that says more.
        reason: Option<String>,
    },
    /// No answer.
    #[error("no answer to {what} within {seconds} s")]
    Timeout {
        /// What was asked.
        what: &'static str,
        /// How long we waited.
        seconds: u64,
    },
    /// The switch refused a request that a measurement rests on.
    #[error("the switch refused {what}: {:?}", .error.kind)]
    Refused {
        /// Which request.
        what: &'static str,
        /// Its answer.
        error: Box<ErrorMessage>,
    },
    /// The version cannot say it.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A data port failed.
    #[error("port {name}: {source}")]
    Port {
        /// Its name.
        name: String,
        /// How.
        source: port::Error,
    },
    /// A data port stopped receiving.
    #[error("port {name}: {reason}")]
    Receive {
        /// Its name.
        name: String,
        /// How.
        reason: String,
    },
    /// The question cannot be asked of this switch, or not without something that was not given.
    #[error("{0}")]
    NotAsked(String),
    /// A script is wrong, or went wrong.
    #[error("{0}")]
    Script(String),
    /// Somebody asked us to end.
    #[error("interrupted")]
    Interrupted,
    /// The switch's ports are not wired as we were told.
    #[error("{0}")]
    Wiring(String),
}

impl Error {
    /// Whether the switch failed: it cannot be reached, closed the channel, or stopped answering.
    pub fn is_of_switch(&self) -> bool {
        use Error::{Closed, Connect, Timeout, Version};
        matches!(self, Connect { .. } | Version { .. } | Closed { .. } | Timeout { .. })
    }

    /// Whether it only means that one module has no answer; others may be asked.
    pub fn is_of_one_module(&self) -> bool {
        use Error::{Encode, NotAsked, Refused, Script};
        matches!(self, NotAsked(_) | Refused { .. } | Encode(_) | Script(_))
    }
}

fn because(reason: &Option<String>) -> String {
    reason.as_ref().map_or_else(String::new, |r| format!(": {r}"))
}
