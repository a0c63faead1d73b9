//! What [`Control`](super::Control) keeps of members, groups, multicast groups and mirroring sessions.
//!
//! [`profiles`](super::profiles) and [`multicast`](super::multicast) change it.

use hashbrown::HashMap;
use ir::{ActionCall, Bits, EntryId, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// What an entry refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refers {
    /// A member.
    Member(u32),
    /// A group.
    Group(u32),
}

/// What an entry does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Does {
    /// An action, with a value for each parameter of the control plane.
    Action(ActionCall),
    /// What a member or group does.
    Refers(Refers),
}

/// A member: its action's full name, and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Full name of the action.
    pub action: String,
    /// One for each parameter.
    pub args: Vec<Bits>,
}

/// A member's part in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many places it has.
    pub weight: u32,
    /// It has them only while this port is up.
    pub watch_port: Option<u32>,
}

impl Default for Share {
    fn default() -> Share {
        Share { weight: 1, watch_port: None }
    }
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOf {
    /// Its members, by handle.
    pub members: BTreeMap<u32, Share>,
    /// Most places that its members may have together; 0 leaves that to the program.
    pub max_size: u32,
    /// How an entry's own group was written.
    pub form: Form,
    /// The action that it has before that of a member; only an entry's own group has one.
    pub before: Option<Member>,
}

/// How an entry's own group was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Its size is how many members it has, whatever their weights.
    pub by_members: bool,
    /// Members are chosen at random.
    pub random: bool,
    /// The control plane's own word about it.
    pub word: u32,
}

/// Groups and members from this number on belong to one entry each, and are nobody else's.
pub(super) const OWN: u32 = 0xff00_0000;

/// The members and groups of one profile.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    pub(super) members: BTreeMap<u32, Member>,
    pub(super) groups: BTreeMap<u32, GroupOf>,
    pub(super) next_member: u32,
    pub(super) next_group: u32,
    /// How many of the members belong to one entry each.
    pub(super) own_members: usize,
    /// The groups of each member.
    pub(super) groups_of: BTreeMap<u32, BTreeSet<u32>>,
    /// Entries and defaults by what they refer to.
    pub(super) users: BTreeMap<Refers, BTreeSet<(TableId, Option<EntryId>)>>,
}

impl Profile {
    /// How many members there are that belong to no entry alone.
    pub(super) fn shared_members(&self) -> usize {
        self.members.len() - self.own_members
    }

    /// A group is this now; what it was.
    pub(super) fn set_group(&mut self, group: u32, to: Option<GroupOf>) -> Option<GroupOf> {
        let was = self.groups.remove(&group);
        for member in was.iter().flat_map(|g| g.members.keys()) {
            if let Some(groups) = self.groups_of.get_mut(member) {
                groups.remove(&group);
                if groups.is_empty() {
                    self.groups_of.remove(member);
                }
            }
        }
        if let Some(to) = to {
            for member in to.members.keys() {
                self.groups_of.entry(*member).or_default().insert(group);
            }
            self.groups.insert(group, to);
        }
        was
    }
}

/// Everything that is indirect.
#[derive(Clone, Debug, Default)]
pub(super) struct Profiles {
    /// By the profile's full name.
    pub(super) by_name: BTreeMap<String, Profile>,
    /// The profile and what entries refer to, by table and id; what a default action refers to has no id.
    pub(super) uses: HashMap<(TableId, Option<EntryId>), (String, Refers)>,
    /// Entries of the tables of members, by group and place.
    pub(super) places: BTreeMap<(TableId, u32, u16), EntryId>,
}

impl Profiles {
    /// Entries of the tables of members.
    pub(super) fn place_ids(&self) -> impl Iterator<Item = EntryId> {
        self.places.values().copied()
    }

    pub(super) fn refer(
        &mut self,
        table: TableId,
        entry: Option<EntryId>,
        profile: &str,
        to: Refers,
    ) {
        self.forget(table, entry);
        let users = &mut self.by_name.entry(profile.to_string()).or_default().users;
        users.entry(to).or_default().insert((table, entry));
        self.uses.insert((table, entry), (profile.to_string(), to));
    }

    /// What it referred to.
    pub(super) fn forget(
        &mut self,
        table: TableId,
        entry: Option<EntryId>,
    ) -> Option<(String, Refers)> {
        let (profile, to) = self.uses.remove(&(table, entry))?;
        if let Some(p) = self.by_name.get_mut(&profile)
            && let Some(users) = p.users.get_mut(&to)
        {
            users.remove(&(table, entry));
            if users.is_empty() {
                p.users.remove(&to);
            }
        }
        Some((profile, to))
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) rid: u16,
    pub(super) ports: Vec<u16>,
}

/// A copy of a multicast group or session: to the first of these ports that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The port.
    pub port: u32,
    /// The copy's number.
    pub instance: u16,
    /// Whoever made it names ports by numbers, as clients did once.
    pub numbered: bool,
    /// Ports in its place while it is down, and the copy's number there.
    pub backups: Vec<(u32, u16)>,
}

/// A multicast group that was made with its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Its copies.
    pub replicas: Vec<Replica>,
    /// The control plane's own word about it.
    pub metadata: Vec<u8>,
}

/// What a session makes of its clones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Bytes that they are cut to; 0 cuts none.
    pub length: u32,
    /// The queue of the port that they leave by.
    pub queue: u32,
}

/// A mirroring session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Its copies.
    pub replicas: Vec<Replica>,
    /// What they are like.
    pub cut: Cut,
}

/// Groups, nodes and sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct Multicast {
    pub(super) nodes: BTreeMap<usize, Node>,
    pub(super) next_node: usize,
    /// Groups: which nodes.
    pub(super) groups: BTreeMap<u32, Vec<usize>>,
    /// Copies that groups have beside those of nodes.
    pub(super) copies: BTreeMap<u32, Copies>,
    /// Groups that mirroring sessions send to.
    pub(super) mirrored: BTreeSet<u32>,
    /// Sessions.
    pub(super) sessions: BTreeMap<u32, Session>,
    /// What clones to groups that sessions have of their own are like.
    pub(super) cuts: BTreeMap<u32, Cut>,
}
