//! Groups as data for compiled code ([`abi::groups`]): what a group-mod edits.
//!
//! Code knows the actions that buckets run, and the inputs of the hashes that select groups choose by, by numbers. Numbers
//! stay as long as the groups exist, so code and data agree without being made together; an action that is removed
//! leaves its number unused for good.
//!
//! A bucket that watches groups is live while some port is that these lead to: liveness only has "or" in it, so the
//! ports are listed when a group changes.
//!
//! Holds true: a chunk stays where it is until its group changes; slots hold addresses of chunks that are there.
//! Cost: a change, the group's buckets, and those of groups that watch others.
//! Checked by: the tests below; `tests/differential.rs`.

use abi::groups::{GroupSlot, NO_PORT, chunk, draws, group_hash, kind};
use abi::{BUCKETS_MAX, Live};
use ir::{ActionId, Bucket, Expr, Group, GroupId, GroupKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// In place of an action: its number is not used.
pub const NO_ACTION: ActionId = ActionId(u32::MAX);

/// Kinds of hashes that groups may have, at most: groups with others are left.
const HASHES_MAX: usize = 64;
/// Groups that a bucket's copy may be inside of, and buckets that are looked at for whether one is live, as the interpreter has it.
const DEPTH_MAX: u32 = 16;
const STEPS_MAX: u32 = 4096;

/// Something that groups use, by number.
#[derive(Debug)]
struct Used<T> {
    what: T,
    /// Buckets, or groups.
    users: usize,
}

/// All groups.
#[derive(Debug, Default)]
pub struct Groups {
    groups: BTreeMap<u32, Arc<Group>>,
    chunks: HashMap<u32, Box<[u64]>>,
    slots: Vec<GroupSlot>,
    /// Groups with buckets that watch groups.
    watching: BTreeSet<u32>,
    actions: Vec<Used<ActionId>>,
    hashes: Vec<Used<Arc<[Expr]>>>,
}

/// Calls `f` on each port that keeps a bucket live. True: it is live whatever ports are. None: that cannot be told.
fn watched(
    groups: &BTreeMap<u32, Arc<Group>>,
    bucket: &Bucket,
    depth: u32,
    steps: &mut u32,
    ports: &mut Vec<u32>,
) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    let mut always = bucket.watch_port.is_none() && bucket.watch_group.is_none();
    ports.extend(bucket.watch_port);
    if let Some(group) = bucket.watch_group.filter(|_| depth < DEPTH_MAX) {
        for bucket in groups.get(&group.0).iter().flat_map(|group| &group.buckets) {
            always |= watched(groups, bucket, depth + 1, steps, ports)?;
        }
    }
    Some(always)
}

impl Groups {
    /// The group is this from now on.
    pub fn set(&mut self, id: GroupId, group: Option<&Arc<Group>>) {
        let number = id.0;
        if let Some(old) = self.groups.remove(&number) {
            for bucket in &old.buckets {
                let action = bucket.action.action;
                let used = self.actions.iter_mut().find(|used| used.what == action);
                used.into_iter().for_each(|used| used.users -= 1);
            }
            if let Some(at) = self.hash_of(&old) {
                self.hashes[at].users -= 1;
            }
            self.watching.remove(&number);
        }
        if let Some(group) = group {
            for bucket in &group.buckets {
                let action = bucket.action.action;
                match self.actions.iter_mut().find(|used| used.what == action) {
                    Some(used) => used.users += 1,
                    None => self.actions.push(Used { what: action, users: 1 }),
                }
            }
            if group.kind.hashes() {
                match self.hash_of(group) {
                    Some(at) => self.hashes[at].users += 1,
                    None if self.hashes.len() < HASHES_MAX => {
                        self.hashes.push(Used { what: group.hash.clone(), users: 1 });
                    }
                    None => {}
                }
            }
            if group.buckets.iter().any(|bucket| bucket.watch_group.is_some()) {
                self.watching.insert(number);
            }
            self.groups.insert(number, group.clone());
        }
        self.chunks.remove(&number);
        let others = self.watching.iter().copied().filter(|other| *other != number);
        let changed: Vec<u32> = others.chain([number]).collect();
        for number in &changed {
            if let Some(group) = self.groups.get(number) {
                let chunk = self.chunk(group);
                self.chunks.insert(*number, chunk);
            }
        }
        self.fill(&changed);
    }

    /// The action is removed; nothing uses it any more.
    pub fn retire(&mut self, action: ActionId) {
        for used in self.actions.iter_mut().filter(|used| used.what == action) {
            used.what = NO_ACTION;
        }
    }

    /// Actions that buckets run, by number; [`NO_ACTION`] for those that none runs now.
    pub fn actions(&self) -> Vec<ActionId> {
        let now = |used: &Used<ActionId>| if used.users > 0 { used.what } else { NO_ACTION };
        self.actions.iter().map(now).collect()
    }

    /// Inputs of hashes that groups choose by, by number; none for those that no group has now.
    pub fn hashes(&self) -> Vec<Option<Arc<[Expr]>>> {
        let now = |used: &Used<Arc<[Expr]>>| (used.users > 0).then(|| used.what.clone());
        self.hashes.iter().map(now).collect()
    }

    /// As generated code reaches them.
    pub fn view<'a>(&'a self, live: &'a Live) -> abi::Groups<'a> {
        abi::Groups::new(&self.slots, live)
    }

    fn hash_of(&self, group: &Group) -> Option<usize> {
        let is = |used: &Used<Arc<[Expr]>>| used.what[..] == group.hash[..];
        self.hashes.iter().position(is).filter(|_| group.kind.hashes())
    }

    /// What code reads of a group.
    fn chunk(&self, group: &Group) -> Box<[u64]> {
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let head = chunk::FIRST as usize / 8;
        let left = || [two(kind::LEFT, 0), two(group.counter.0, 24), 0].into();
        let numbered = (1u32..).zip(&group.buckets);
        // Of an indirect group the first one runs; one without weight is never selected.
        let buckets: Vec<(u32, &Bucket)> = match group.kind {
            GroupKind::Indirect => numbered.take(1).collect(),
            GroupKind::Select => numbered.filter(|(_, bucket)| bucket.weight > 0).collect(),
            GroupKind::All | GroupKind::FastFailover | GroupKind::Slots => numbered.collect(),
        };
        let kind = match group.kind {
            GroupKind::All | GroupKind::Indirect => kind::ALL,
            GroupKind::FastFailover => kind::FAST_FAILOVER,
            GroupKind::Select | GroupKind::Slots => match self.hash_of(group) {
                Some(at) => kind::SELECT + at as u32,
                None => return left(),
            },
        };
        if buckets.len() > BUCKETS_MAX {
            return left();
        }
        let words = |bucket: &Bucket| {
            bucket.action.args.iter().map(|arg| arg.width().div_ceil(64) as usize).sum::<usize>()
        };
        let args = buckets.iter().map(|(_, bucket)| words(bucket)).max().unwrap_or(0);
        let stride = abi::groups::bucket::ARGS as usize / 8 + args;
        let mut ports: Vec<u32> = Vec::new();
        let watches_at = 8 * (head + buckets.len() * stride);
        let first = buckets.first().map_or(0, |(_, bucket)| bucket.weight);
        let differ = buckets.iter().any(|(_, bucket)| bucket.weight != first);
        let draws = match group.kind {
            GroupKind::Slots => draws::SLOTS,
            _ if differ => draws::BY_WEIGHT,
            _ => draws::EQUALLY,
        };
        let watches = kind != kind::ALL && group.kind != GroupKind::Slots;
        let mut out = vec![
            two(kind, buckets.len() as u32),
            two(group.counter.0, 8 * stride as u32),
            two(draws, 0),
        ];
        for (place, bucket) in &buckets {
            let end = out.len() + stride;
            let action = bucket.action.action;
            let variant = self.actions.iter().position(|used| used.what == action);
            let before = ports.len();
            if watches {
                let mut steps = STEPS_MAX;
                match watched(&self.groups, bucket, 0, &mut steps, &mut ports) {
                    None => return left(),
                    Some(true) => ports.truncate(before),
                    Some(false) if ports[before..].iter().any(|port| *port >= NO_PORT) => {
                        return left();
                    }
                    Some(false) if ports.len() == before => ports.push(NO_PORT),
                    Some(false) => {}
                }
            }
            let at = watches_at + 4 * before;
            out.push(two(variant.map_or(0, |at| at as u32 + 1), bucket.counter.0));
            out.push(two(bucket.weight.into(), *place));
            out.push(two(at as u32, (ports.len() - before) as u32));
            out.extend(bucket.action.args.iter().flat_map(|arg| {
                let limbs = arg.width().div_ceil(64) as usize;
                (0..limbs).map(|i| arg.limbs().get(i).copied().unwrap_or(0))
            }));
            out.resize(end, 0);
        }
        out.extend(ports.chunks(2).map(|both| two(both[0], *both.last().unwrap_or(&NO_PORT))));
        out.into()
    }

    /// Where a group is, or could be, among the slots.
    fn place(&self, group: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = group_hash(group) as usize & mask;
        while self.slots[at].chunk != 0 && self.slots[at].group != u64::from(group) {
            at = (at + 1) & mask;
        }
        at
    }

    /// Puts these groups' chunks into slots, or takes them out. Now and then all are arranged anew, so that each costs little
    /// however many there are.
    fn fill(&mut self, changed: &[u32]) {
        let n = self.chunks.len();
        if 2 * n >= self.slots.len() || 16 * (n + 1) < self.slots.len() {
            self.slots.clear();
            self.slots.resize((4 * n + 1).next_power_of_two(), GroupSlot::default());
            self.slots.shrink_to_fit();
            let all: Vec<u32> = self.chunks.keys().copied().collect();
            return all.into_iter().for_each(|group| self.put(group));
        }
        for group in changed {
            match self.chunks.contains_key(group) {
                true => self.put(*group),
                false => self.take_out(*group),
            }
        }
    }

    fn put(&mut self, group: u32) {
        let at = self.place(group);
        let chunk = self.chunks[&group].as_ptr().expose_provenance() as u64;
        self.slots[at] = GroupSlot { group: group.into(), chunk };
    }

    /// Leaves no gap between a group and where it is looked for: those behind move up (Knuth, TAOCP 3, 6.4, algorithm R).
    fn take_out(&mut self, group: u32) {
        let mask = self.slots.len() - 1;
        let mut gap = self.place(group);
        let mut at = gap;
        while self.slots[at].chunk != 0 {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            let home = group_hash(slot.group as u32) as usize & mask;
            let from_home = at.wrapping_sub(home) & mask;
            if slot.chunk != 0 && from_home >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = GroupSlot::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{ActionCall, Bits, CounterId};

    fn bucket(action: u32, port: u32, watch: (Option<u32>, Option<u32>), weight: u16) -> Bucket {
        Bucket {
            weight,
            watch_port: watch.0,
            watch_group: watch.1.map(GroupId),
            action: ActionCall::with(ActionId(action), [Bits::from_u128(port.into(), 32)]),
            counter: CounterId(port),
        }
    }

    fn group(kind: GroupKind, buckets: Vec<Bucket>) -> Arc<Group> {
        Arc::new(Group { kind, buckets, hash: [].into(), counter: CounterId(77) })
    }

    /// A field of 32 bits at so many bytes.
    fn field(chunk: &[u64], at: usize) -> u32 {
        (chunk[at / 8] >> (8 * (at % 8))) as u32
    }

    fn ports(chunk: &[u64], n: usize) -> Vec<u32> {
        let stride = field(chunk, chunk::STRIDE as usize) as usize;
        let of = chunk::FIRST as usize + n * stride;
        let at = field(chunk, of + abi::groups::bucket::WATCHED as usize) as usize;
        let len = field(chunk, of + abi::groups::bucket::WATCHES as usize) as usize;
        (0..len).map(|i| field(chunk, at + 4 * i)).collect()
    }

    #[test]
    fn a_bucket_is_live_by_the_ports_that_its_groups_lead_to() {
        let mut groups = Groups::default();
        let ff = |buckets| group(GroupKind::FastFailover, buckets);
        groups.set(GroupId(2), Some(&ff(vec![bucket(1, 1, (Some(5), None), 0)])));
        let watching = ff(vec![
            bucket(1, 2, (None, Some(2)), 0),
            bucket(1, 3, (Some(9), Some(2)), 0),
            bucket(1, 4, (None, Some(8)), 0),
            bucket(1, 4, (None, None), 0),
        ]);
        groups.set(GroupId(1), Some(&watching));
        let all =
            |groups: &Groups| (0..4).map(|n| ports(&groups.chunks[&1], n)).collect::<Vec<_>>();
        assert_eq!(all(&groups), [vec![5], vec![9, 5], vec![NO_PORT], vec![]]);
        // The group that is watched changes, and with it those that watch it.
        let more = vec![bucket(1, 1, (Some(6), None), 0), bucket(1, 1, (Some(7), None), 0)];
        groups.set(GroupId(2), Some(&ff(more)));
        assert_eq!(all(&groups), [vec![6, 7], vec![9, 6, 7], vec![NO_PORT], vec![]]);
        groups.set(GroupId(2), Some(&ff(vec![bucket(1, 1, (None, None), 0)])));
        assert_eq!(all(&groups), [vec![], vec![], vec![NO_PORT], vec![]]);
        groups.set(GroupId(2), None);
        assert_eq!(all(&groups), [vec![NO_PORT], vec![9], vec![NO_PORT], vec![]]);
        // Code does not know whether this one is live.
        groups.set(GroupId(2), Some(&ff(vec![bucket(1, 1, (Some(70_000), None), 0)])));
        assert_eq!(field(&groups.chunks[&1], 0), kind::LEFT);
    }

    #[test]
    fn numbers_stay_and_slots_find_every_group() {
        let mut groups = Groups::default();
        let all = |action| group(GroupKind::All, vec![bucket(action, action, (None, None), 0)]);
        for number in 0..100 {
            groups.set(GroupId(number * 64), Some(&all(10 + number % 3)));
        }
        for number in (0..100).step_by(3) {
            groups.set(GroupId(number * 64), None);
        }
        groups.set(GroupId(64), Some(&all(12)));
        assert_eq!(groups.actions(), [NO_ACTION, ActionId(11), ActionId(12)]);
        groups.retire(ActionId(10));
        groups.set(GroupId(3), Some(&all(10)));
        assert_eq!(groups.actions(), [NO_ACTION, ActionId(11), ActionId(12), ActionId(10)]);
        for (number, chunk) in &groups.chunks {
            let slot = groups.slots[groups.place(*number)];
            assert_eq!(slot.chunk, chunk.as_ptr() as u64);
            let first = chunk::FIRST as usize;
            let variant = field(chunk, first) as usize;
            let port = field(chunk, first + abi::groups::bucket::ARGS as usize);
            assert_eq!(groups.actions()[variant - 1], ActionId(port));
        }
        assert_eq!(groups.slots[groups.place(0)].chunk, 0, "a group that is gone");
        assert_eq!(groups.chunks.len(), 67);
    }

    #[test]
    fn only_buckets_with_weight_are_selected() {
        let mut groups = Groups::default();
        let buckets = |weights: &[u16]| {
            weights.iter().map(|weight| bucket(1, 1, (None, None), *weight)).collect::<Vec<_>>()
        };
        let mut chunk = |weights: &[u16]| {
            let select = group(GroupKind::Select, buckets(weights));
            groups.set(GroupId(1), Some(&select));
            let chunk = &groups.chunks[&1];
            let of = |at: i32| field(chunk, at as usize);
            let place = abi::groups::bucket::PLACE + chunk::FIRST;
            let buckets = of(chunk::BUCKETS);
            let place = (buckets > 0).then(|| of(place));
            (of(chunk::KIND), buckets, of(chunk::DRAWS), place)
        };
        assert_eq!(chunk(&[0, 3, 3]), (kind::SELECT, 2, 0, Some(2)));
        assert_eq!(chunk(&[1, 3, 3]), (kind::SELECT, 3, 1, Some(1)));
        assert_eq!(chunk(&[0, 0]), (kind::SELECT, 0, 0, None));
        assert_eq!(groups.hashes().len(), 1);
    }

    #[test]
    fn groups_are_found_whatever_came_and_went() {
        let mut random = ir::testing::Rng::new(9);
        let mut groups = Groups::default();
        for round in 0..6000 {
            // Few numbers, so that many meet the same slots; sometimes nearly all go.
            let id = GroupId(random.below(300) as u32 * 64);
            let goes = random.below(100) < [20, 50, 95][round / 500 % 3];
            let new = group(GroupKind::All, vec![bucket(1, id.0, (None, None), 0)]);
            groups.set(id, (!goes).then_some(&new));
            if round % 7 == 0 {
                let slots = groups.slots.iter().filter(|slot| slot.chunk != 0).count();
                assert_eq!(slots, groups.chunks.len(), "round {round}");
                for number in (0..300).map(|n| n * 64) {
                    let slot = groups.slots[groups.place(number)];
                    let chunk = groups.chunks.get(&number);
                    let chunk = chunk.map_or(0, |chunk| chunk.as_ptr().expose_provenance() as u64);
                    assert_eq!(slot.chunk, chunk, "round {round}, group {number}");
                }
                assert!(groups.slots.len() <= 16 * (groups.chunks.len() + 1));
            }
        }
    }
}
