//! What [`Control`](super::Control) keeps of members, groups, multicast nodes and mirroring sessions.
//!
//! [`profiles`](super::profiles) and [`multicast`](super::multicast) change it.

use ir::{Bits, EntryId, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// What an entry refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refers {
    /// A member.
    Member(u32),
    /// A group.
    Group(u32),
}

/// A member: its action's full name, and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Full name of the action.
    pub action: String,
    /// One for each parameter.
    pub args: Vec<Bits>,
}

/// The members and groups of one profile.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    pub(super) members: BTreeMap<u32, Member>,
    pub(super) groups: BTreeMap<u32, BTreeSet<u32>>,
    pub(super) next_member: u32,
    pub(super) next_group: u32,
}

/// Everything that is indirect.
#[derive(Clone, Debug, Default)]
pub(super) struct Profiles {
    /// By the profile's full name.
    pub(super) by_name: BTreeMap<String, Profile>,
    /// Entries, by table and id; what a default action refers to has no id.
    pub(super) uses: BTreeMap<(TableId, Option<EntryId>), Refers>,
    /// Entries of the tables of members, by group and place.
    pub(super) places: BTreeMap<(TableId, u32, u16), EntryId>,
}

impl Profiles {
    /// Entries of the tables of members.
    pub(super) fn place_ids(&self) -> impl Iterator<Item = EntryId> {
        self.places.values().copied()
    }

    pub(super) fn forget(&mut self, table: TableId, entry: Option<EntryId>) {
        self.uses.remove(&(table, entry));
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) rid: u16,
    pub(super) ports: Vec<u16>,
}

/// Groups and nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Multicast {
    pub(super) nodes: BTreeMap<usize, Node>,
    pub(super) next_node: usize,
    /// Groups: which nodes.
    pub(super) groups: BTreeMap<u32, Vec<usize>>,
    /// Groups that mirroring sessions send to.
    pub(super) mirrored: BTreeSet<u32>,
}
