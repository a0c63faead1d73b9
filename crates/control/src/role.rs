//! What a client of the control socket may do. Each role has a socket of its own, and the system asks for the right to
//! write to its file.

use serde::{Deserialize, Serialize};

/// A role; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look: all that changes nothing, and tells no frames and no keys.
    Read,
    /// Change bridges, ports, entries, connections; see frames.
    Operate,
    /// Make the switch open files, replace its configuration and its process.
    Admin,
}

impl Role {
    /// All but the last, whose socket has no further name.
    pub(crate) const OTHERS: [Role; 2] = [Role::Read, Role::Operate];

    /// The end of the name of its socket.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Admin => "",
        }
    }

    /// Refuses what wants another role.
    pub(crate) fn may(self, verb: &str, wanted: Role) -> Result<(), String> {
        if self >= wanted {
            return Ok(());
        }
        let (own, wanted) = (self.name(), wanted.name());
        Err(format!(
            "{verb} wants the role {wanted}, and you have {own}: ask by the socket of a group that has it"
        ))
    }

    fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }
}
