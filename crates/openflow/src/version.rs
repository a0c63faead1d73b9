//! Protocol versions and sets of them.
//!
//! A version is known here when the codec reads and writes it. A [`VersionSet`] may hold versions
//! that are not known, because a peer's hello names whatever that peer speaks.

use std::fmt;

/// A protocol version that this crate encodes and decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// OpenFlow 1.0, wire number 0x01.
    V10,
    /// OpenFlow 1.3, wire number 0x04.
    V13,
    /// OpenFlow 1.4, wire number 0x05.
    V14,
    /// OpenFlow 1.5, wire number 0x06.
    V15,
}

impl Version {
    /// Every known version, oldest first.
    pub const ALL: [Version; 4] = [Version::V10, Version::V13, Version::V14, Version::V15];

    /// The number in the first byte of a message.
    pub const fn wire(self) -> u8 {
        match self {
            Version::V10 => 0x01,
            Version::V13 => 0x04,
            Version::V14 => 0x05,
            Version::V15 => 0x06,
        }
    }

    /// The version of a wire number, if known.
    pub const fn from_wire(number: u8) -> Option<Version> {
        match number {
            0x01 => Some(Version::V10),
            0x04 => Some(Version::V13),
            0x05 => Some(Version::V14),
            0x06 => Some(Version::V15),
            _ => None,
        }
    }

    /// The name that `ovs-ofctl -O` uses, e.g. `OpenFlow13`.
    pub const fn name(self) -> &'static str {
        match self {
            Version::V10 => "OpenFlow10",
            Version::V13 => "OpenFlow13",
            Version::V14 => "OpenFlow14",
            Version::V15 => "OpenFlow15",
        }
    }

    /// The version of a name as in [`Version::name`], letter case ignored; also `1.0` to
    /// `1.5`.
    pub fn from_name(name: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|v| {
            v.name().eq_ignore_ascii_case(name)
                || match v {
                    Version::V10 => name == "1.0",
                    Version::V13 => name == "1.3",
                    Version::V14 => name == "1.4",
                    Version::V15 => name == "1.5",
                }
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of version numbers, as a hello's bitmap carries it: bit *n* stands for wire number *n*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VersionSet(pub u32);

impl VersionSet {
    /// The empty set.
    pub const EMPTY: VersionSet = VersionSet(0);

    /// The set of the given versions.
    pub fn of(versions: &[Version]) -> VersionSet {
        VersionSet(versions.iter().fold(0, |bits, v| bits | 1 << v.wire()))
    }

    /// Whether wire number `number` is in the set.
    pub const fn contains_wire(self, number: u8) -> bool {
        number < 32 && self.0 >> number & 1 == 1
    }

    /// Whether `version` is in the set.
    pub const fn contains(self, version: Version) -> bool {
        self.contains_wire(version.wire())
    }

    /// The versions that both sets hold.
    pub const fn intersection(self, other: VersionSet) -> VersionSet {
        VersionSet(self.0 & other.0)
    }

    /// The newest known version in the set.
    pub fn newest(self) -> Option<Version> {
        Version::ALL.into_iter().rev().find(|v| self.contains(*v))
    }

    /// The version that two sides speak after their hellos (1.3.5 §6.3.1).
    ///
    /// `ours` is what we speak. The peer sent a hello whose header carries `peer_header` and, when
    /// its bitmap was there, `peer_bitmap`. With a bitmap it is the newest common version; without
    /// one, the smaller of both header numbers, if we speak it.
    pub fn negotiate(
        ours: VersionSet,
        peer_header: u8,
        peer_bitmap: Option<VersionSet>,
    ) -> Option<Version> {
        if let Some(bitmap) = peer_bitmap
            && bitmap != VersionSet::EMPTY
        {
            return ours.intersection(bitmap).newest();
        }
        let newest = ours.newest()?;
        if peer_header >= newest.wire() {
            Some(newest)
        } else {
            Version::from_wire(peer_header).filter(|v| ours.contains(*v))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiation_follows_bitmap_then_header() {
        let both = VersionSet::of(&[Version::V10, Version::V13]);
        let all = VersionSet::of(&Version::ALL);
        assert_eq!(VersionSet::negotiate(all, 6, None), Some(Version::V15));
        assert_eq!(VersionSet::negotiate(all, 5, None), Some(Version::V14));
        assert_eq!(
            VersionSet::negotiate(all, 6, Some(VersionSet(1 << 5 | 1 << 1))),
            Some(Version::V14)
        );
        let old = VersionSet::of(&[Version::V10]);
        let new = VersionSet::of(&[Version::V13]);
        assert_eq!(VersionSet::negotiate(both, 4, Some(both)), Some(Version::V13));
        assert_eq!(VersionSet::negotiate(both, 6, Some(old)), Some(Version::V10));
        assert_eq!(VersionSet::negotiate(both, 6, None), Some(Version::V13));
        assert_eq!(VersionSet::negotiate(both, 1, None), Some(Version::V10));
        assert_eq!(VersionSet::negotiate(both, 2, None), None);
        assert_eq!(VersionSet::negotiate(new, 1, None), None);
        assert_eq!(VersionSet::negotiate(old, 4, None), Some(Version::V10));
        assert_eq!(VersionSet::negotiate(both, 6, Some(VersionSet(1 << 5))), None);
        assert_eq!(VersionSet::negotiate(VersionSet::EMPTY, 4, None), None);
    }

    #[test]
    fn names() {
        assert_eq!(Version::from_name("openflow13"), Some(Version::V13));
        assert_eq!(Version::from_name("1.0"), Some(Version::V10));
        assert_eq!(Version::from_name("1.5"), Some(Version::V15));
        assert_eq!(Version::from_name("OpenFlow12"), None);
    }
}
