//! Groups: the store, and group-mods (1.3.5 §5.6, §6.5).
//!
//! A group is kept as its controller wrote it, with the counters and the actions of its buckets.
//! Deleting one takes along the flow entries that use it, in one transaction. A group that another
//! one leads to is only deleted together with that one (`OFPG_ALL`).
//!
//! Invariants: groups lead only to groups that are there, never in a circle, and never more than
//! [`CHAIN_MAX`] deep; nothing refers to a group that is not there.
//! Cost: a chain check walks the groups that the group leads to, and those that lead to it. Whatever the number of
//! groups, a group-mod costs about the same: select groups share the inputs of their hash, by which engines know it.

use crate::agent::Agent;
use crate::refusal::Refusal;
use crate::stats::buckets_bytes;
use crate::transaction::Transaction;
use ir::{CounterId, Expr, GroupKind, Update};
use of_lower::{Call, lower_bucket};
use openflow::{
    Action, Bucket, BucketId, FlowRemovedReason, GroupId, GroupMod, GroupModCommand, GroupType,
    PortNo, Selection,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Longest chain of groups that lead to groups.
pub const CHAIN_MAX: usize = ir::verify::GROUP_CHAIN_MAX;
/// Buckets in one group, at most.
pub const BUCKETS_MAX: usize = 1024;

/// One group.
#[derive(Clone, Debug)]
pub struct GroupEntry {
    /// How it uses its buckets.
    pub group_type: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// How it chooses, if it is a select group that says so.
    pub selection: Option<Selection>,
    /// Counts what reaches it.
    pub counter: CounterId,
    /// The same of each bucket.
    pub bucket_counters: Vec<CounterId>,
    /// When it was added, in nanoseconds of the switch's clock.
    pub created_ns: u64,
    actions: Vec<ir::ActionId>,
    /// Where in the pipeline's group each bucket is. A bucket keeps its place, by which it draws packets: when
    /// others come and go, only the packets that are or were theirs move.
    places: Vec<usize>,
}

impl GroupEntry {
    /// The bucket at a place of the pipeline's group.
    pub(crate) fn bucket_at(&self, place: usize) -> Option<&Bucket> {
        let at = self.places.iter().position(|own| *own == place)?;
        self.buckets.get(at)
    }
}

/// All groups of a switch.
#[derive(Debug, Default)]
pub struct GroupTable {
    groups: BTreeMap<u32, GroupEntry>,
    /// By group, those whose buckets lead to it.
    leading: HashMap<u32, BTreeSet<u32>>,
    /// Inputs of hashes that groups choose by.
    hashes: Hashes,
    /// Bytes that all buckets have in messages, about.
    bytes: usize,
    /// What groups were since a bundle began, to be undone if nothing comes of it.
    journal: Option<Vec<(u32, Option<GroupEntry>)>>,
}

/// Inputs of hashes, each once.
#[derive(Debug, Default)]
struct Hashes {
    known: HashSet<Arc<[Expr]>>,
    /// When there are so many, those that no group has are let go.
    limit: usize,
}

impl Hashes {
    /// These inputs, shared with all groups that have the same.
    fn shared(&mut self, inputs: Vec<Expr>) -> Arc<[Expr]> {
        if let Some(known) = self.known.get(&inputs[..]) {
            return known.clone();
        }
        if self.known.len() >= self.limit {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.limit = 2 * self.known.len() + 16;
        }
        let inputs: Arc<[Expr]> = inputs.into();
        self.known.insert(inputs.clone());
        inputs
    }
}

/// The groups that a bucket's actions name.
fn forwards_to(bucket: &Bucket) -> impl Iterator<Item = u32> {
    Action::flat(&bucket.actions).filter_map(|action| match action {
        Action::Group(group) => Some(group.0),
        _ => None,
    })
}

/// The groups that buckets lead to: by an action, or by watching.
fn leads_to(buckets: &[Bucket]) -> impl Iterator<Item = u32> {
    buckets.iter().flat_map(|bucket| {
        let watched = Some(bucket.watch_group).filter(|g| *g != GroupId::ANY);
        forwards_to(bucket).chain(watched.map(|g| g.0))
    })
}

impl GroupTable {
    /// From here on changes can be undone.
    pub(crate) fn begin(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// What changed stays.
    pub(crate) fn keep(&mut self) {
        self.journal = None;
    }

    /// All is as it was when it began.
    pub(crate) fn undo(&mut self) {
        for (group, entry) in self.journal.take().into_iter().flatten().rev() {
            self.put(group, entry);
        }
    }

    /// The group is this from now on.
    fn put(&mut self, group: u32, entry: Option<GroupEntry>) {
        self.bytes += entry.as_ref().map_or(0, |entry| buckets_bytes(&entry.buckets));
        for old in self.groups.get(&group).iter().flat_map(|old| leads_to(&old.buckets)) {
            if let Some(leading) = self.leading.get_mut(&old) {
                leading.remove(&group);
                if leading.is_empty() {
                    self.leading.remove(&old);
                }
            }
        }
        for new in entry.iter().flat_map(|entry| leads_to(&entry.buckets)) {
            self.leading.entry(new).or_default().insert(group);
        }
        let old = match entry {
            Some(entry) => self.groups.insert(group, entry),
            None => self.groups.remove(&group),
        };
        self.bytes -= old.as_ref().map_or(0, |old| buckets_bytes(&old.buckets));
        if let Some(journal) = &mut self.journal {
            journal.push((group, old));
        }
    }

    /// The group is there.
    pub fn contains(&self, group: u32) -> bool {
        self.groups.contains_key(&group)
    }

    /// The group.
    pub fn get(&self, group: u32) -> Option<&GroupEntry> {
        self.groups.get(&group)
    }

    /// All groups by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &GroupEntry)> {
        self.groups.iter().map(|(id, g)| (*id, g))
    }

    /// Bytes that all buckets have in messages, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All groups by number, from one on.
    pub(crate) fn iter_from(&self, from: u32) -> impl Iterator<Item = (u32, &GroupEntry)> {
        self.groups.range(from..).map(|(id, g)| (*id, g))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Groups whose buckets lead to `group`.
    pub fn leading_to(&self, group: u32) -> impl Iterator<Item = u32> {
        self.leading.get(&group).into_iter().flatten().copied()
    }

    /// How many groups forward to `group`; one that merely watches it does not.
    pub fn forwarding_to(&self, group: u32) -> usize {
        let forwards = |bucket: &Bucket| forwards_to(bucket).any(|g| g == group);
        let leading = self.leading_to(group).filter_map(|by| self.groups.get(&by));
        leading.filter(|entry| entry.buckets.iter().any(forwards)).count()
    }

    /// How many groups in a row `group` is the first of, or an error if it leads back to `origin`.
    fn depth(
        &self,
        origin: u32,
        buckets: &[Bucket],
        known: &mut BTreeMap<u32, usize>,
    ) -> Result<usize, Refusal> {
        let mut deepest = 0;
        for next in leads_to(buckets) {
            if next == origin {
                return Err(Refusal::GroupLoop { group: origin });
            }
            let depth = match known.get(&next) {
                Some(depth) => *depth,
                None => {
                    let empty = Vec::new();
                    let buckets = self.groups.get(&next).map_or(&empty, |g| &g.buckets);
                    // Ends: what is there already has no circles.
                    let depth = self.depth(origin, buckets, known)?;
                    known.insert(next, depth);
                    depth
                }
            };
            deepest = deepest.max(depth);
        }
        Ok(deepest + 1)
    }

    /// How many groups in a row lead to `group`.
    fn height(&self, group: u32) -> usize {
        let mut level: BTreeSet<u32> = BTreeSet::from([group]);
        let mut height = 0;
        while height <= CHAIN_MAX {
            level = level.iter().flat_map(|g| self.leading_to(*g)).collect();
            if level.is_empty() {
                break;
            }
            height += 1;
        }
        height
    }

    /// What a group of this type may consist of.
    fn check(&self, request: &GroupMod) -> Result<(), Refusal> {
        let GroupId(group) = request.group_id;
        let buckets = &request.buckets;
        if buckets.len() > BUCKETS_MAX {
            let buckets = buckets.len();
            return Err(Refusal::OutOfBuckets { group, buckets, max: BUCKETS_MAX });
        }
        //= openflow-1.3.5 §5.6.1: an indirect group has one bucket.
        if request.group_type == GroupType::Indirect && buckets.len() != 1 {
            return Err(Refusal::Indirect { group, buckets: buckets.len() });
        }
        //= openflow-1.3.5 §7.3.4.2: a bucket's share is its weight in the sum of all weights, which is not 0.
        let select = request.group_type == GroupType::Select;
        // `ovs-ofctl insert-buckets` sends a weight of 0 where none is said; of such buckets none is chosen.
        let partly = matches!(
            request.command,
            GroupModCommand::InsertBucket | GroupModCommand::RemoveBucket
        );
        if select && !partly && !buckets.is_empty() && buckets.iter().all(|b| b.weight == 0) {
            return Err(Refusal::NoWeight { group });
        }
        //= openflow-1.5.1 §7.3.4.3: each bucket has its own number.
        let mut ids = BTreeSet::new();
        if let Some(twice) = buckets.iter().find(|b| !ids.insert(b.id)) {
            return Err(Refusal::BucketExists { group, bucket: twice.id.0 });
        }
        for bucket in buckets {
            //= openflow-1.3.5 §7.3.4.2: weights are select groups'; other buckets have 0.
            if !select && bucket.weight != 0 {
                return Err(Refusal::Weight { group, weight: bucket.weight });
            }
            let watches = bucket.watch_port != PortNo::ANY || bucket.watch_group != GroupId::ANY;
            match request.group_type {
                //= openflow-1.3.5 §5.6.1: each fast-failover bucket watches a port or group.
                GroupType::FastFailover if !watches => return Err(Refusal::Unwatched { group }),
                GroupType::All | GroupType::Indirect if watches => {
                    return Err(Refusal::WatchUnsupported { group });
                }
                _ => {}
            }
        }
        Ok(())
    }

    //= openflow-1.3.5 §6.5: a chain of groups that would make a loop is refused with OFPGMFC_LOOP.
    fn check_chain(&self, group: u32, buckets: &[Bucket]) -> Result<(), Refusal> {
        let depth = self.depth(group, buckets, &mut BTreeMap::new())?;
        // Nothing leads to a group that is not there yet.
        let height = if self.contains(group) { self.height(group) } else { 0 };
        if depth + height > CHAIN_MAX {
            return Err(Refusal::GroupDepth { group, max: CHAIN_MAX });
        }
        Ok(())
    }
}

fn kind(group_type: GroupType) -> GroupKind {
    match group_type {
        GroupType::All => GroupKind::All,
        GroupType::Select => GroupKind::Select,
        GroupType::Indirect => GroupKind::Indirect,
        GroupType::FastFailover => GroupKind::FastFailover,
    }
}

impl Agent {
    /// Executes a group-mod.
    pub(crate) fn group_mod(&mut self, request: GroupMod) -> Result<(), Refusal> {
        let GroupId(group) = request.group_id;
        if request.command == GroupModCommand::Delete {
            return self.delete_groups(request.group_id);
        }
        if request.group_id > GroupId::MAX {
            return Err(Refusal::GroupNumber { group });
        }
        let exists = self.groups.contains(group);
        match request.command {
            //= openflow-1.3.5 §6.5: adding a group that is there is OFPGMFC_GROUP_EXISTS.
            GroupModCommand::Add if exists => return Err(Refusal::GroupExists { group }),
            //= openflow-1.3.5 §6.5: modifying one that is not there is OFPGMFC_UNKNOWN_GROUP.
            GroupModCommand::Modify
            | GroupModCommand::InsertBucket
            | GroupModCommand::RemoveBucket
                if !exists =>
            {
                return Err(Refusal::UnknownGroup { group });
            }
            GroupModCommand::Add | GroupModCommand::AddOrModify
                if !exists && self.groups.len() >= self.config.groups_max as usize =>
            {
                return Err(Refusal::OutOfGroups { max: self.config.groups_max });
            }
            _ => {}
        }
        let request = self.whole_group(request)?;
        self.groups.check(&request)?;
        let rules = self.rules();
        for bucket in &request.buckets {
            let bad_watch = |watch: String| Refusal::BadWatch { group, watch };
            if bucket.watch_port != PortNo::ANY && !rules.is_port(bucket.watch_port) {
                return Err(bad_watch(format!("port {}", bucket.watch_port)));
            }
            let GroupId(watched) = bucket.watch_group;
            let to_itself = watched == group;
            if bucket.watch_group != GroupId::ANY && !to_itself && !self.groups.contains(watched) {
                return Err(bad_watch(format!("group {watched}")));
            }
        }
        self.groups.check_chain(group, &request.buckets)?;
        rules_for_buckets(&rules, &request)?;
        let old = self.groups.get(group).map_or(0, |old| buckets_bytes(&old.buckets));
        let max = self.config.content();
        if self.groups.bytes + buckets_bytes(&request.buckets) - old.min(self.groups.bytes) > max {
            return Err(Refusal::GroupsFull { max });
        }
        self.set_group(request)
    }

    //= openflow-1.5.1 §7.3.4.3: inserting and removing buckets leaves the others as they are; the
    //= group is then what a modify with all of them would make it, but that counters of buckets stay.
    /// A request about some buckets of a group as one about all of them.
    fn whole_group(&self, request: GroupMod) -> Result<GroupMod, Refusal> {
        let GroupId(group) = request.group_id;
        let (Some(old), id) = (self.groups.get(group), request.command_bucket) else {
            return Ok(request);
        };
        let place = |id: BucketId| {
            let place = old.buckets.iter().position(|b| b.id == id);
            place.ok_or(Refusal::UnknownBucket { group, bucket: id.0 })
        };
        let mut buckets = old.buckets.clone();
        match request.command {
            GroupModCommand::InsertBucket => {
                let at = match id {
                    BucketId::FIRST => 0,
                    BucketId::LAST => buckets.len(),
                    BucketId::ALL => return Err(Refusal::BucketCommand { group }),
                    id => place(id)? + 1,
                };
                buckets.splice(at..at, request.buckets);
            }
            GroupModCommand::RemoveBucket => {
                if !request.buckets.is_empty() {
                    return Err(Refusal::BucketCommand { group });
                }
                match id {
                    BucketId::ALL => buckets.clear(),
                    // Without any bucket there is nothing to remove.
                    BucketId::FIRST | BucketId::LAST if buckets.is_empty() => {}
                    BucketId::FIRST => drop(buckets.remove(0)),
                    BucketId::LAST => drop(buckets.pop()),
                    id => drop(buckets.remove(place(id)?)),
                }
            }
            _ => return Ok(request),
        }
        let (group_type, selection) = (old.group_type, old.selection.clone());
        Ok(GroupMod { group_type, selection, buckets, ..request })
    }

    /// Puts a group that was checked into the place of the one of its number, if any.
    fn set_group(&mut self, request: GroupMod) -> Result<(), Refusal> {
        let GroupId(group) = request.group_id;
        let now_ns = self.switch.now_ns();
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        let old = self.groups.groups.get(&group);
        //= openflow-1.3.5 §6.5: a modify replaces type and buckets; what counts the group goes on,
        //= what counts its buckets begins anew.
        let counter = match old {
            Some(old) => old.counter,
            None => tx.take_group_counter()?,
        };
        let keeps = |bucket: &Bucket| {
            let partly = request.command != GroupModCommand::Modify;
            let old = old.filter(|_| partly)?;
            let place = old.buckets.iter().position(|b| b.id == bucket.id)?;
            old.bucket_counters.get(place).copied()
        };
        if let Some(old) = old {
            let kept: BTreeSet<_> = request.buckets.iter().filter_map(keeps).collect();
            let gone = old.bucket_counters.iter().filter(|id| !kept.contains(id));
            gone.for_each(|id| tx.spend(id.0));
            old.actions.iter().for_each(|id| tx.release(*id));
        }
        let places = places(old, &request);
        let mut actions = Vec::with_capacity(request.buckets.len());
        let mut bucket_counters = Vec::with_capacity(request.buckets.len());
        let mut buckets = Vec::with_capacity(request.buckets.len());
        for bucket in &request.buckets {
            let call: Call = lower_bucket(&self.layout, &bucket.actions)?;
            let action = tx.intern(call);
            let counter = match keeps(bucket) {
                Some(counter) => counter,
                None => tx.take_group_counter()?,
            };
            actions.push(action.action);
            bucket_counters.push(counter);
            let watch_group = Some(bucket.watch_group).filter(|g| *g != GroupId::ANY);
            buckets.push(ir::Bucket {
                weight: bucket.weight,
                watch_port: Some(bucket.watch_port).filter(|p| *p != PortNo::ANY).map(|p| p.0),
                watch_group: watch_group.map(|g| ir::GroupId(g.0)),
                action,
                counter,
            });
        }
        let hash = match request.group_type {
            GroupType::Select => {
                let inputs = self.layout.selection_hash(request.selection.as_ref());
                self.groups.hashes.shared(inputs)
            }
            _ => Arc::default(),
        };
        let buckets = spread(&places, buckets);
        let lowered = ir::Group { kind: kind(request.group_type), buckets, hash, counter };
        tx.push(Update::SetGroup(ir::GroupId(group), Arc::new(lowered)));
        let spent = tx.commit()?;
        spent.retire(&self.switch);
        let created_ns = self.groups.groups.get(&group).map_or(now_ns, |old| old.created_ns);
        let entry = GroupEntry {
            group_type: request.group_type,
            buckets: request.buckets,
            selection: request.selection,
            counter,
            bucket_counters,
            created_ns,
            actions,
            places,
        };
        self.groups.put(group, Some(entry));
        Ok(())
    }

    //= openflow-1.3.5 §6.5: deleting a group that is not there is no error; flow entries that use a
    //= deleted group are removed with it; OFPG_ALL deletes all groups.
    fn delete_groups(&mut self, id: GroupId) -> Result<(), Refusal> {
        let gone: Vec<u32> = if id == GroupId::ALL {
            self.groups.iter().map(|(id, _)| id).collect()
        } else if self.groups.contains(id.0) {
            //= openflow-1.3.5 §6.5: a group that another group leads to may be refused with
            //= OFPGMFC_CHAINED_GROUP.
            if let Some(by) = self.groups.leading_to(id.0).next() {
                return Err(Refusal::ChainedGroup { group: id.0, by });
            }
            vec![id.0]
        } else if id > GroupId::MAX {
            return Err(Refusal::GroupNumber { group: id.0 });
        } else {
            Vec::new()
        };
        if gone.is_empty() {
            return Ok(());
        }
        let users: BTreeSet<_> =
            gone.iter().flat_map(|group| self.flows.users_of_group(*group)).collect();
        let users = self.with_reflections(users.into_iter().collect());
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        let keys = users.iter().copied();
        crate::removed::take_out(&mut tx, &mut self.conjunctions, &self.layout, &self.flows, keys)?;
        for group in &gone {
            tx.push(Update::RemoveGroup(ir::GroupId(*group)));
            if let Some(entry) = self.groups.groups.get(group) {
                tx.spend(entry.counter.0);
                entry.bucket_counters.iter().for_each(|id| tx.spend(id.0));
                entry.actions.iter().for_each(|id| tx.release(*id));
            }
        }
        let spent = tx.commit()?;
        gone.iter().for_each(|group| self.groups.put(*group, None));
        let gone = users.into_iter().map(|key| (key, FlowRemovedReason::GroupDelete));
        self.forget_flows(gone, spent);
        Ok(())
    }
}

/// Where the buckets of a select group are: those that were there stay, new ones take what is free. Of other
/// groups, in their order.
fn places(old: Option<&GroupEntry>, request: &GroupMod) -> Vec<usize> {
    if request.group_type != GroupType::Select {
        return (0..request.buckets.len()).collect();
    }
    let kept = |bucket: &Bucket| {
        let old = old.filter(|old| old.group_type == GroupType::Select)?;
        let at = old.buckets.iter().position(|b| b.id == bucket.id)?;
        old.places.get(at).copied()
    };
    let taken: BTreeSet<usize> = request.buckets.iter().filter_map(kept).collect();
    let mut free = (0..).filter(|place| !taken.contains(place));
    let place = |bucket| kept(bucket).or_else(|| free.next()).unwrap_or(0);
    request.buckets.iter().map(place).collect()
}

/// The buckets at their places; what is between has no weight, so that it is never chosen.
fn spread(places: &[usize], buckets: Vec<ir::Bucket>) -> Vec<ir::Bucket> {
    let Some(any) = buckets.first().cloned() else { return buckets };
    // It watches a port that is none, so it is not live either.
    let none = ir::Bucket { weight: 0, watch_port: Some(0), watch_group: None, ..any };
    let room = places.iter().max().map_or(0, |last| last + 1);
    let mut all = vec![none; room];
    for (place, bucket) in places.iter().zip(buckets) {
        all[*place] = bucket;
    }
    all
}

fn rules_for_buckets(
    rules: &crate::validate::Rules<'_>,
    request: &GroupMod,
) -> Result<(), Refusal> {
    request.buckets.iter().try_for_each(|bucket| rules.bucket(&bucket.actions))
}
