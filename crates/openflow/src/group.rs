//! Groups and their buckets (1.3.5 §7.3.4.2, §7.3.5.7 to §7.3.5.9). 1.0 has them by Nicira's messages.

use crate::action::Actions;
use crate::field::FieldId;
use crate::ids::{Age, GroupId, PortNo};
use crate::version::Version;
use bitflags::bitflags;

/// How a group uses its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupType {
    /// All of them (0).
    All,
    /// One, by weight (1).
    Select,
    /// Its only one (2).
    Indirect,
    /// The first live one (3).
    FastFailover,
}

/// What a group-mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupModCommand {
    /// Create the group.
    Add,
    /// Replace its type and buckets.
    Modify,
    /// Modify it, or create it if it is not there (Open vSwitch's).
    AddOrModify,
    /// Delete it, with all flow entries that use it.
    Delete,
    /// Add buckets to it (1.5, and 1.0 by Nicira's message).
    InsertBucket,
    /// Take buckets from it (1.5, and 1.0 by Nicira's message).
    RemoveBucket,
}

/// Names a bucket of a group, or a place among its buckets (1.5.1 §7.3.4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(pub u32);

impl BucketId {
    /// The highest number of a bucket.
    pub const MAX: BucketId = BucketId(0xffff_ff00);
    /// The first bucket, in commands.
    pub const FIRST: BucketId = BucketId(0xffff_fffd);
    /// The last bucket, in commands.
    pub const LAST: BucketId = BucketId(0xffff_fffe);
    /// All buckets, in commands.
    pub const ALL: BucketId = BucketId(0xffff_ffff);
}

/// Whether buckets have numbers and what can be asked of one of them, and whether a group says how it chooses: from 1.5 on,
/// and in 1.0, whose groups are Nicira's in the form of 1.5.
pub(crate) fn names_buckets(version: Version) -> bool {
    version >= Version::V15 || version == Version::V10
}

/// One way out of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Its number, unique in its group; its place, from 0 on, in 1.3 and 1.4.
    pub id: BucketId,
    /// Its share in a select group.
    pub weight: u16,
    /// The port whose liveness decides; [`PortNo::ANY`] for none.
    pub watch_port: PortNo,
    /// The group whose liveness decides; [`GroupId::ANY`] for none.
    pub watch_group: GroupId,
    /// An action set.
    pub actions: Actions,
}

/// How a select group hashes packets to choose a bucket (Netronome's extension, `selection_method`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selection {
    /// Of what.
    pub method: SelectionMethod,
    /// Goes into the hash; of [`SelectionMethod::DpHash`], the high half says which hash.
    pub param: u64,
    /// The fields of [`SelectionMethod::Hash`], each once, with their bits that count; empty for the
    /// switch's own choice.
    pub fields: Vec<(FieldId, u128)>,
}

/// What the hash is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SelectionMethod {
    /// Fields that the group names.
    Hash,
    /// Addresses, protocol and ports of the packet's connection.
    DpHash,
}

impl SelectionMethod {
    /// All of them, with their names.
    pub const ALL: [(SelectionMethod, &'static str); 2] =
        [(SelectionMethod::Hash, "hash"), (SelectionMethod::DpHash, "dp_hash")];
    /// What [`SelectionMethod::DpHash`] can be, by the high half of its parameter: each direction by itself
    /// (0), or both alike (1).
    pub const DP_HASHES: u64 = 2;

    /// Its name.
    pub fn name(self) -> &'static str {
        SelectionMethod::ALL.iter().find(|(m, _)| *m == self).map_or("", |(_, name)| name)
    }
}

/// Creates, changes or deletes a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupModCommand,
    /// Its type.
    pub group_type: GroupType,
    /// Which; [`GroupId::ALL`] in a delete for every one.
    pub group_id: GroupId,
    /// Which bucket an insert or removal is about; [`BucketId::ALL`] otherwise.
    pub command_bucket: BucketId,
    /// How a select group chooses; the switch's way if none.
    pub selection: Option<Selection>,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

/// A group as the switch describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// Its type.
    pub group_type: GroupType,
    /// Which.
    pub group_id: GroupId,
    /// How a select group chooses.
    pub selection: Option<Selection>,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

/// What a bucket has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketStats {
    /// Packets.
    pub packet_count: u64,
    /// Bytes.
    pub byte_count: u64,
}

/// What a group has carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// Which.
    pub group_id: GroupId,
    /// Flow entries and groups that lead here.
    pub ref_count: u32,
    /// Packets.
    pub packet_count: u64,
    /// Bytes.
    pub byte_count: u64,
    /// How long it has existed.
    pub age: Age,
    /// Per bucket, in order.
    pub buckets: Vec<BucketStats>,
}

bitflags! {
    /// What groups can do.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct GroupCapabilities: u32 {
        /// Weights in select groups.
        const SELECT_WEIGHT = 1 << 0;
        /// Liveness in select groups.
        const SELECT_LIVENESS = 1 << 1;
        /// Groups may lead to groups.
        const CHAINING = 1 << 2;
        /// Loops of groups are refused.
        const CHAINING_CHECKS = 1 << 3;
        /// Bits that the specification does not name.
        const _ = !0;
    }
}

/// What groups the switch can have; arrays go by group type's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Bit *n* is group type *n*.
    pub types: u32,
    /// What they can do.
    pub capabilities: GroupCapabilities,
    /// How many of each type.
    pub max_groups: [u32; 4],
    /// Bit *n* is action type *n*, for each group type.
    pub actions: [u32; 4],
}
