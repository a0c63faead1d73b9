//! Why a packet comes to the controller (1.3.5 §7.4.1, 1.4.1 §7.4.1).

use crate::version::Version;

/// Why a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketInReason {
    /// No entry matched (1.3: a table-miss entry sent it).
    NoMatch,
    /// An applied action sent it.
    Action,
    /// Its TTL ended (1.3).
    InvalidTtl,
    /// The action set sent it (1.4; told as [`PacketInReason::Action`] before).
    ActionSet,
    /// A group's bucket sent it (1.4; told as [`PacketInReason::Action`] before).
    Group,
    /// A packet-out sent it (1.4; told as [`PacketInReason::Action`] before).
    PacketOut,
}

impl PacketInReason {
    /// Every reason, in the order of 1.4's numbers.
    pub const ALL: [PacketInReason; 6] = [
        PacketInReason::NoMatch,
        PacketInReason::Action,
        PacketInReason::InvalidTtl,
        PacketInReason::ActionSet,
        PacketInReason::Group,
        PacketInReason::PacketOut,
    ];

    /// The number in a version; what 1.0 and 1.3 have no number for is an action's.
    pub fn wire(self, version: Version) -> u8 {
        let number = PacketInReason::ALL.iter().position(|r| *r == self).unwrap_or(1) as u8;
        if version < Version::V14 && number > 2 { 1 } else { number }
    }
}
