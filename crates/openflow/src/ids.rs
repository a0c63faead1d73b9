//! The numbers that OpenFlow names things by, each its own type.
//!
//! All are 1.3's; the one that 1.0 spells differently is the port number, whose 16-bit space maps
//! onto the 32-bit one so that the reserved ports meet (see [`PortNo::from_v10`]).

use std::fmt;

/// Nicira's experimenter id.
pub const NICIRA: u32 = 0x0000_2320;

pub use wire::MacAddr;

/// A transaction id: a reply carries its request's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub u32);

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A port number in 1.3's 32-bit space (1.3.5 §7.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNo(pub u32);

impl PortNo {
    /// One above the highest number of a physical or logical port.
    pub const MAX: PortNo = PortNo(0xffff_ff00);
    /// Out of the port that the packet came in by.
    pub const IN_PORT: PortNo = PortNo(0xffff_fff8);
    /// To the first flow table (packet-out only).
    pub const TABLE: PortNo = PortNo(0xffff_fff9);
    /// By the switch's own learning forwarding.
    pub const NORMAL: PortNo = PortNo(0xffff_fffa);
    /// To all ports but the one it came in by and those with flooding off.
    pub const FLOOD: PortNo = PortNo(0xffff_fffb);
    /// To all ports but the one it came in by.
    pub const ALL: PortNo = PortNo(0xffff_fffc);
    /// To the controller.
    pub const CONTROLLER: PortNo = PortNo(0xffff_fffd);
    /// The switch's local networking.
    pub const LOCAL: PortNo = PortNo(0xffff_fffe);
    /// In matches of `actset_output`: the action set has no output (1.5).
    pub const UNSET: PortNo = PortNo(0xffff_fff7);
    /// Any port, in requests; no port, in watches. 1.0's `OFPP_NONE`.
    pub const ANY: PortNo = PortNo(0xffff_ffff);

    /// The reserved ports with the names that `ovs-ofctl` reads and prints.
    pub const RESERVED: [(PortNo, &'static str); 9] = [
        (PortNo::IN_PORT, "IN_PORT"),
        (PortNo::TABLE, "TABLE"),
        (PortNo::NORMAL, "NORMAL"),
        (PortNo::FLOOD, "FLOOD"),
        (PortNo::ALL, "ALL"),
        (PortNo::CONTROLLER, "CONTROLLER"),
        (PortNo::LOCAL, "LOCAL"),
        (PortNo::ANY, "ANY"),
        (PortNo::UNSET, "UNSET"),
    ];

    /// The numbers that OpenFlow 1.0 reserves, `IN_PORT` to `LOCAL`.
    pub const V10_RESERVED: std::ops::RangeInclusive<u16> = 0xfff8..=0xfffe;

    /// Whether the number may belong to a physical or logical port.
    pub const fn is_ordinary(self) -> bool {
        self.0 > 0 && self.0 < PortNo::MAX.0
    }

    /// Whether a truncating output may name it.
    pub fn takes_truncated(self) -> bool {
        self.is_ordinary() || self == PortNo::IN_PORT || self == PortNo::LOCAL
    }

    /// The port of a 1.0 number: 0xff00 and above keep their low byte at the top of 32 bits.
    pub const fn from_v10(number: u16) -> PortNo {
        if number >= 0xff00 { PortNo(0xffff_0000 | number as u32) } else { PortNo(number as u32) }
    }

    /// The 1.0 number of a port; none for 0xff00 to 0xfffffeff, which 1.0 cannot name.
    pub const fn to_v10(self) -> Option<u16> {
        if self.0 < 0xff00 || self.0 >= 0xffff_ff00 { Some(self.0 as u16) } else { None }
    }

    /// The reserved port's name, if it is one.
    pub fn reserved_name(self) -> Option<&'static str> {
        PortNo::RESERVED.into_iter().find(|(port, _)| *port == self).map(|(_, name)| name)
    }
}

impl fmt::Display for PortNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reserved_name() {
            Some(name) => f.write_str(name),
            // In decimal it would be read as one of 1.0's reserved ports.
            None if u16::try_from(self.0).is_ok_and(|n| PortNo::V10_RESERVED.contains(&n)) => {
                write!(f, "{:#x}", self.0)
            }
            None => write!(f, "{}", self.0),
        }
    }
}

macro_rules! plain_id {
    ($(#[$meta:meta])* $name:ident($int:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

plain_id!(
    /// A flow table's number.
    TableId(u8)
);
plain_id!(
    /// A group's number.
    GroupId(u32)
);
plain_id!(
    /// A meter's number.
    MeterId(u32)
);
plain_id!(
    /// A queue's number, of one port.
    QueueId(u32)
);
plain_id!(
    /// A packet kept in the switch. "No buffer" is `None` of an `Option<BufferId>`.
    BufferId(u32)
);

impl TableId {
    /// The highest number of a table.
    pub const MAX: TableId = TableId(0xfe);
    /// 1.0's emergency entries, in requests.
    pub const EMERGENCY: TableId = TableId(0xfe);
    /// All tables, in delete and in requests; "the switch chooses" in a 1.0 add.
    pub const ALL: TableId = TableId(0xff);
}

impl GroupId {
    /// The highest number of a group.
    pub const MAX: GroupId = GroupId(0xffff_ff00);
    /// All groups, in delete and in requests.
    pub const ALL: GroupId = GroupId(0xffff_fffc);
    /// Any group (no filter), in requests; no group, in watches.
    pub const ANY: GroupId = GroupId(0xffff_ffff);
}

impl MeterId {
    /// The highest number of a meter that flows may use.
    pub const MAX: MeterId = MeterId(0xffff_0000);
    /// The meter of the slow data path.
    pub const SLOWPATH: MeterId = MeterId(0xffff_fffd);
    /// The meter of the connection to the controller.
    pub const CONTROLLER: MeterId = MeterId(0xffff_fffe);
    /// All meters, in delete and in requests.
    pub const ALL: MeterId = MeterId(0xffff_ffff);
}

impl QueueId {
    /// All queues, in requests.
    pub const ALL: QueueId = QueueId(0xffff_ffff);
}

/// How long something has existed, as the wire splits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age {
    /// Whole seconds.
    pub sec: u32,
    /// Nanoseconds beyond `sec`, below 10^9; `u32::MAX` in a queue's or port's statistics when the
    /// switch does not know the time.
    pub nsec: u32,
}

impl From<std::time::Duration> for Age {
    fn from(d: std::time::Duration) -> Age {
        Age { sec: d.as_secs().try_into().unwrap_or(u32::MAX), nsec: d.subsec_nanos() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_numbers_cross_between_versions() {
        assert_eq!(PortNo::from_v10(0xffff), PortNo::ANY);
        assert_eq!(PortNo::from_v10(0xfffd), PortNo::CONTROLLER);
        assert_eq!(PortNo::from_v10(0xfeff), PortNo(0xfeff));
        assert_eq!(PortNo(0xff00).to_v10(), None);
        assert_eq!(PortNo(0xffff_feff).to_v10(), None);
        for n in 0..=u16::MAX {
            assert_eq!(PortNo::from_v10(n).to_v10(), Some(n));
        }
    }
}
