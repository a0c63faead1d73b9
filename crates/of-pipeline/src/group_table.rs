//! Groups: the store, and what a group may consist of (1.3.5 §5.6).
//!
//! A group is kept as its controller wrote it, with the counters and the actions of its buckets.
//!
//! Invariants: groups lead only to groups that are there, never in a circle, and never more than
//! [`CHAIN_MAX`] deep; nothing refers to a group that is not there.
//! Cost: a chain check walks the groups that the group leads to, and those that lead to it. Whatever the number of
//! groups, a group-mod costs about the same: select groups share the inputs of their hash, by which engines know it.

use crate::refusal::Refusal;
use crate::sizes::buckets_bytes;
use crate::touched::Numbers;
use ir::{CounterId, Expr};
use openflow::{Action, Bucket, GroupId, GroupMod, GroupModCommand, GroupType, PortNo, Selection};
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
    /// How long it had been there in a process before this one.
    pub before_ns: u64,
    pub(crate) actions: Vec<ir::ActionId>,
    /// Where in the pipeline's group each bucket is. A bucket keeps its place, by which it draws packets: when
    /// others come and go, only the packets that are or were theirs move.
    pub(crate) places: Vec<usize>,
}

impl GroupEntry {
    /// How long it has been there.
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.created_ns).saturating_add(self.before_ns)
    }

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
    /// Those that came, changed or went, to be kept.
    pub(crate) touched: Numbers,
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
    pub(crate) fn put(&mut self, group: u32, entry: Option<GroupEntry>) {
        self.touched.touch(group);
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

    /// A group had been there so long before.
    pub(crate) fn set_before(&mut self, group: u32, before_ns: u64) {
        if let Some(entry) = self.groups.get_mut(&group) {
            entry.before_ns = before_ns;
        }
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

    /// Inputs of a hash that groups choose by, shared with all groups that have the same.
    pub(crate) fn shared_hash(&mut self, inputs: Vec<Expr>) -> Arc<[Expr]> {
        self.hashes.shared(inputs)
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
    pub(crate) fn check(&self, request: &GroupMod) -> Result<(), Refusal> {
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
    pub(crate) fn check_chain(&self, group: u32, buckets: &[Bucket]) -> Result<(), Refusal> {
        let depth = self.depth(group, buckets, &mut BTreeMap::new())?;
        // Nothing leads to a group that is not there yet.
        let height = if self.contains(group) { self.height(group) } else { 0 };
        if depth + height > CHAIN_MAX {
            return Err(Refusal::GroupDepth { group, max: CHAIN_MAX });
        }
        Ok(())
    }
}
