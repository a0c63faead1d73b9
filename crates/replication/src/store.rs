//! What the engine's store holds of a group: who is active, and in which epoch.
//!
//! One key, `owner`, whose value is `EPOCH NAME`. Who changes it says which revision it has seen (compare and set), so of two
//! that are promoted at once one learns that it has lost.

use crate::bytes::is_name;

/// Who is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// In which epoch.
    pub epoch: u64,
    /// Its name.
    pub member: String,
}

impl Owner {
    /// As it is stored.
    pub fn encode(&self) -> String {
        format!("{} {}", self.epoch, self.member)
    }

    /// Of what is stored; none if that is nothing that a member has written.
    pub fn decode(value: &[u8]) -> Option<Owner> {
        let (epoch, member) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        let epoch = epoch.parse().ok()?;
        is_name(member).then(|| Owner { epoch, member: member.to_owned() })
    }
}

/// What is known of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Store {
    /// Whether the engine is there.
    pub connected: bool,
    /// What it holds, with its revision: 0 and none before anybody has written. None before it has said so.
    pub owner: Option<(u64, Option<Owner>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back() {
        let owner = Owner { epoch: 12, member: "gw-1".to_owned() };
        assert_eq!(Owner::decode(owner.encode().as_bytes()), Some(owner));
        for wrong in ["", "x", "1", "1 ", "-1 a", "1 a b", "99999999999999999999 a", "1 a.b"] {
            assert_eq!(Owner::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
