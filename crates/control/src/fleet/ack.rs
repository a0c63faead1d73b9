//! What a member says of a version.

use serde::{Deserialize, Serialize};

/// What has become of a version at a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is what the member is.
    #[default]
    Applied,
    /// It is, until somebody confirms it or time runs out.
    Waits,
    /// It could not be applied. The member is what it was.
    Refused,
    /// It changes what only a restart changes. The member is what it was.
    Restart,
    /// Nobody has confirmed it in time. The member is what it was.
    Lapsed,
}

impl Outcome {
    /// For people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Outcome::Applied => "applied",
            Outcome::Waits => "applied, waits for confirmation",
            Outcome::Refused => "refused",
            Outcome::Restart => "waits for a restart",
            Outcome::Lapsed => "not confirmed: rolled back",
        }
    }
}

/// What the store holds of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Ack {
    /// The version that this is said of.
    pub(crate) number: u64,
    pub(crate) outcome: Outcome,
    /// Why it was not applied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) error: String,
    /// The version that the member is, and its digest.
    pub(crate) running: u64,
    pub(crate) digest: String,
    /// Since when, in UTC.
    pub(crate) since: String,
    /// The program's version.
    pub(crate) program: String,
}

impl Ack {
    pub(crate) fn decode(octets: &[u8]) -> Option<Ack> {
        serde_json::from_slice(octets).ok()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Strings and numbers can be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
