//! The store of flow entries: what controllers asked for, by table.
//!
//! Each entry is kept as its controller wrote it, under the id that it also has in the switch. Three
//! ways lead to entries: by id (punts, expiry), by priority and match (strict requests), and by a
//! [`Filter`] (non-strict requests, statistics). Two more tell which entries use a group or a meter,
//! so that their deletion need not look at the others.
//!
//! Invariants: priority and match are unique in a table; the strict index and the users of groups
//! and meters hold exactly the entries that are there.
//! Cost: strict lookup, one hash of the match; a filter, one look at every entry of its tables;
//! memory per entry about 150 bytes, 48 for each field, and its action list.
//! Checked by: a model test against a plain list (`flow_mod`'s tests).

use crate::admission::Admission;
use crate::stats::flow_bytes;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use ir::ActionId;
use openflow::{
    Action, FinTimeout, FlowMod, FlowModFlags, GroupId, Instruction, Instructions, Match, PortNo,
    Uncounted,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Where an entry is: its table, and its id in the switch. Unique, and ordered by table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Its table.
    pub table: u8,
    /// Its id, which is also its counter.
    pub id: u32,
}

/// One flow entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Higher wins.
    pub priority: u16,
    /// As its controller set them.
    pub flags: FlowModFlags,
    /// It reflects an entry of another table ([`crate::synchronised`]).
    pub synchronised: bool,
    /// Entries of less importance are evicted first.
    pub importance: u16,
    /// Seconds without a packet until it goes; 0 for never.
    pub idle_timeout: u16,
    /// Seconds until it goes; 0 for never.
    pub hard_timeout: u16,
    /// Its controller's.
    pub cookie: u64,
    /// When it was added, in nanoseconds of the switch's clock.
    pub created_ns: u64,
    /// The action that it became.
    pub action: ActionId,
    /// What 1.0 said and is told back.
    pub uncounted: Uncounted,
    /// What it matches.
    pub matching: Match,
    /// What it does.
    pub instructions: Instructions,
}

impl Flow {
    /// The entry that a request to add one asks for, added now. Its action is yet to be lowered.
    pub(crate) fn asked_for(request: FlowMod, now_ns: u64) -> Flow {
        let mut flow = Flow {
            priority: request.priority,
            flags: request.flags,
            synchronised: false,
            importance: request.importance,
            idle_timeout: request.idle_timeout,
            hard_timeout: request.hard_timeout,
            cookie: request.cookie,
            created_ns: now_ns,
            action: ActionId(0),
            uncounted: request.uncounted,
            matching: request.matching,
            instructions: request.instructions,
        };
        flow.shrink_to_fit();
        flow
    }

    /// Gives back the room that building it left.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.matching.shrink_to_fit();
        self.instructions.shrink_to_fit();
        for instruction in &mut self.instructions {
            if let Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) =
                instruction
            {
                actions.shrink_to_fit();
            }
        }
    }

    /// A table-miss entry: priority 0, matches everything (1.3.5 §5.4).
    pub fn is_table_miss(&self) -> bool {
        self.priority == 0 && self.matching.is_empty()
    }
}

/// The lists of an entry, those applied and those written alike.
pub(crate) fn lists(instructions: &[Instruction]) -> impl Iterator<Item = &[Action]> {
    instructions.iter().filter_map(|i| match i {
        Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
            Some(actions.as_slice())
        }
        _ => None,
    })
}

/// The actions of these lists, and those of their clones.
fn actions(instructions: &[Instruction]) -> impl Iterator<Item = &Action> {
    lists(instructions).flat_map(|list| Action::flat(list))
}

/// Table and cookie of what instructions learn for as long as they are there.
fn deletes_learned(instructions: &[Instruction]) -> impl Iterator<Item = (u8, u64)> {
    actions(instructions).filter_map(|action| match action {
        Action::Learn(learn) if learn.delete_learned => Some((learn.table_id.0, learn.cookie)),
        _ => None,
    })
}

/// The `fin_timeout` of an entry, if it has one.
pub(crate) fn fin_timeout(instructions: &[Instruction]) -> Option<FinTimeout> {
    actions(instructions).find_map(|action| match action {
        Action::FinTimeout(fin) => Some(*fin),
        _ => None,
    })
}

/// Whether instructions output to a port.
pub(crate) fn outputs_to(instructions: &[Instruction], to: PortNo) -> bool {
    actions(instructions).any(
        |a| matches!(a, Action::Output { port, .. } | Action::Enqueue { port, .. } if *port == to),
    )
}

/// Whether instructions use a group.
pub(crate) fn uses_group(instructions: &[Instruction], group: GroupId) -> bool {
    actions(instructions).any(|a| *a == Action::Group(group))
}

/// Which entries a request is about.
#[derive(Clone, Debug)]
pub struct Filter<'a> {
    /// Those of this table; none for all tables.
    pub table: Option<u8>,
    /// Those that this covers.
    pub matching: &'a Match,
    /// Those with this cookie under `cookie_mask`.
    pub cookie: u64,
    /// 0 for all cookies.
    pub cookie_mask: u64,
    /// Those that output here; [`PortNo::ANY`] for all.
    pub out_port: PortNo,
    /// Those that use this group; [`GroupId::ANY`] for all.
    pub out_group: GroupId,
}

impl Filter<'_> {
    /// Whether the filter lets an entry pass, its match aside.
    fn passes(&self, flow: &Flow) -> bool {
        (flow.cookie ^ self.cookie) & self.cookie_mask == 0
            && (self.out_port == PortNo::ANY || outputs_to(&flow.instructions, self.out_port))
            && (self.out_group == GroupId::ANY || uses_group(&flow.instructions, self.out_group))
    }

    /// Whether the request is about an entry of its tables (1.3.5 §6.4, non-strict).
    pub fn admits(&self, flow: &Flow) -> bool {
        self.passes(flow) && self.matching.covers(&flow.matching)
    }
}

#[derive(Debug, Default)]
struct Table {
    flows: BTreeMap<u32, Box<Flow>>,
    /// Ids by hash of priority and match; the hash lies beside, so that growing looks at no entry.
    strict: HashTable<(u32, u32)>,
    /// In which order entries are evicted; only once that was asked.
    victims: Option<Victims>,
}

/// Who is evicted first: the least importance, then the earliest end, then the oldest.
type Rank = (u16, u64, u64, u32);

/// The order in which entries would be evicted. An entry with an idle timeout is where it would be if
/// no packet had matched it; it moves when its turn comes ([`FlowTables::first_victim`]).
#[derive(Debug, Default)]
struct Victims {
    order: BTreeSet<Rank>,
    ranks: HashMap<u32, Rank>,
}

impl Victims {
    fn place(&mut self, rank: Rank) {
        if let Some(old) = self.ranks.insert(rank.3, rank) {
            self.order.remove(&old);
        }
        self.order.insert(rank);
    }

    fn remove(&mut self, id: u32) {
        if let Some(rank) = self.ranks.remove(&id) {
            self.order.remove(&rank);
        }
    }
}

/// When an entry ends that was last used then, in nanoseconds of the switch's clock.
fn end_ns(flow: &Flow, used_ns: u64) -> u64 {
    let after = |since: u64, timeout: u16| match timeout {
        0 => u64::MAX,
        seconds => since.saturating_add(u64::from(seconds) * 1_000_000_000),
    };
    let idle = after(used_ns.max(flow.created_ns), flow.idle_timeout);
    idle.min(after(flow.created_ns, flow.hard_timeout))
}

fn rank(id: u32, flow: &Flow, used_ns: u64) -> Rank {
    (flow.importance, end_ns(flow, used_ns), flow.created_ns, id)
}

/// Which entries use something.
type Users = HashMap<u32, BTreeSet<FlowKey>>;

/// All flow entries of a switch.
#[derive(Debug)]
pub struct FlowTables {
    tables: Vec<Table>,
    hasher: DefaultHashBuilder,
    by_group: Users,
    by_meter: Users,
    triggered: BTreeSet<FlowKey>,
    /// Entries in all tables, and the bytes that they have in messages.
    total: (usize, usize),
    /// How many entries have a `learn` with `delete_learned` of this table and cookie.
    learners: HashMap<(u8, u64), usize>,
    /// Those that lost the last one.
    orphans: BTreeSet<(u8, u64)>,
    /// What changed since a bundle began, to be undone if nothing comes of it.
    journal: Option<Vec<Undo>>,
    /// Who is told of entries that come and go.
    admission: Arc<Admission>,
}

/// How one change is undone.
#[derive(Debug)]
enum Undo {
    Insert(FlowKey),
    Remove(FlowKey, Box<Flow>),
}

fn hash(hasher: &DefaultHashBuilder, priority: u16, matching: &Match) -> u32 {
    hasher.hash_one((priority, matching)) as u32
}

/// A hash for the table, which looks at the lowest and at the highest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Groups and meters that instructions name: `group` and `meter` are called with each.
fn references(
    instructions: &[Instruction],
    group: &mut dyn FnMut(u32),
    meter: &mut dyn FnMut(u32),
) {
    for action in actions(instructions) {
        match action {
            Action::Group(id) => group(id.0),
            Action::Meter(id) => meter(id.0),
            Action::Controller(to) => to.meter.iter().for_each(|id| meter(id.0)),
            _ => {}
        }
    }
    for instruction in instructions {
        if let Instruction::Meter(id) = instruction {
            meter(id.0);
        }
    }
}

fn disuse(users: &mut Users, id: u32, key: FlowKey) {
    if let Some(set) = users.get_mut(&id) {
        set.remove(&key);
        if set.is_empty() {
            users.remove(&id);
        }
    }
}

impl FlowTables {
    /// So many empty tables.
    pub fn new(tables: u32) -> FlowTables {
        FlowTables {
            tables: (0..tables).map(|_| Table::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            by_group: Users::new(),
            by_meter: Users::new(),
            triggered: BTreeSet::new(),
            total: (0, 0),
            learners: HashMap::new(),
            orphans: BTreeSet::new(),
            journal: None,
            admission: Arc::default(),
        }
    }

    /// The same, which tells of entries that come and go.
    #[must_use]
    pub(crate) fn told_to(self, admission: Arc<Admission>) -> FlowTables {
        FlowTables { admission, ..self }
    }

    /// How many tables there are.
    pub fn tables(&self) -> u32 {
        self.tables.len() as u32
    }

    /// How many entries a table has.
    pub fn len(&self, table: u8) -> usize {
        self.tables.get(usize::from(table)).map_or(0, |t| t.flows.len())
    }

    /// How many entries all tables have, and the bytes that these have in messages, about.
    pub fn total(&self) -> (usize, usize) {
        self.total
    }

    /// No table has any entry.
    pub fn is_empty(&self) -> bool {
        self.tables.iter().all(|t| t.flows.is_empty())
    }

    /// An entry.
    pub fn get(&self, key: FlowKey) -> Option<&Flow> {
        self.tables.get(usize::from(key.table))?.flows.get(&key.id).map(|f| &**f)
    }

    /// The entry with this priority and match.
    pub fn find_strict(&self, table: u8, priority: u16, matching: &Match) -> Option<FlowKey> {
        let t = self.tables.get(usize::from(table))?;
        let hash = hash(&self.hasher, priority, matching);
        let is = |f: &Flow| f.priority == priority && f.matching == *matching;
        let found = |(h, id): &(u32, u32)| *h == hash && t.flows.get(id).is_some_and(|f| is(f));
        let (_, id) = t.strict.find(spread(hash), found)?;
        Some(FlowKey { table, id: *id })
    }

    /// The entries with this priority and match that a filter lets pass: those of a strict request.
    pub fn select_strict(&self, filter: &Filter<'_>, priority: u16) -> Vec<FlowKey> {
        self.numbers(filter.table)
            .filter_map(|table| self.find_strict(table, priority, filter.matching))
            .filter(|key| self.get(*key).is_some_and(|flow| filter.passes(flow)))
            .collect()
    }

    /// The entries of a non-strict request, in order.
    pub fn select<'a>(
        &'a self,
        filter: &'a Filter<'a>,
    ) -> impl Iterator<Item = (FlowKey, &'a Flow)> {
        self.numbers(filter.table)
            .flat_map(|table| self.iter(table))
            .filter(|(_, flow)| filter.admits(flow))
    }

    fn numbers(&self, table: Option<u8>) -> std::ops::Range<u8> {
        let n = self.tables.len() as u8;
        match table {
            None => 0..n,
            Some(t) if t < n => t..t + 1,
            Some(_) => 0..0,
        }
    }

    /// The entries of a table, by id.
    pub fn iter(&self, table: u8) -> impl Iterator<Item = (FlowKey, &Flow)> {
        let flows = self.tables.get(usize::from(table)).map(|t| t.flows.iter());
        flows.into_iter().flatten().map(move |(id, f)| (FlowKey { table, id: *id }, &**f))
    }

    /// The entries of the tables of a non-strict request from one on, in order, and whether it is about them.
    pub(crate) fn select_from<'a>(
        &'a self,
        filter: &'a Filter<'a>,
        from: FlowKey,
    ) -> impl Iterator<Item = (FlowKey, &'a Flow, bool)> {
        let tables = self.numbers(filter.table).filter(move |table| *table >= from.table);
        tables
            .flat_map(move |table| {
                let first = if table == from.table { from.id } else { 0 };
                let flows = self.tables.get(usize::from(table)).map(|t| t.flows.range(first..));
                flows.into_iter().flatten().map(move |(id, f)| (FlowKey { table, id: *id }, &**f))
            })
            .map(|(key, flow)| (key, flow, filter.admits(flow)))
    }

    /// Whether an entry of this priority could match the same packet (1.3.5 §6.4).
    pub fn overlaps(&self, table: u8, priority: u16, matching: &Match) -> bool {
        self.iter(table).any(|(_, f)| f.priority == priority && f.matching.overlaps(matching))
    }

    /// The entries that use a group.
    pub fn users_of_group(&self, group: u32) -> impl Iterator<Item = FlowKey> {
        self.by_group.get(&group).into_iter().flatten().copied()
    }

    /// The entries that use a meter.
    pub fn users_of_meter(&self, meter: u32) -> impl Iterator<Item = FlowKey> {
        self.by_meter.get(&meter).into_iter().flatten().copied()
    }

    /// The entries with a stat-trigger.
    pub(crate) fn triggered(&self) -> &BTreeSet<FlowKey> {
        &self.triggered
    }

    /// Tables and cookies of learned entries that are to go, as nothing is left that learns such.
    pub(crate) fn take_orphans(&mut self) -> BTreeSet<(u8, u64)> {
        let mut orphans = std::mem::take(&mut self.orphans);
        orphans.retain(|learned| !self.learners.contains_key(learned));
        orphans
    }

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
        for undo in self.journal.take().into_iter().flatten().rev() {
            match undo {
                Undo::Insert(key) => drop(self.remove(key)),
                Undo::Remove(key, flow) => self.insert(key, *flow),
            }
        }
    }

    /// The entry of a table that is evicted first, reflections aside, and its importance: of the least importance the
    /// one that ends first (1.4.1 §7.3.3). `used_ns` tells when a packet last matched an entry. The
    /// first time this looks at every entry of the table, and from then on at those alone whose turn
    /// it would be if they had not been used.
    pub(crate) fn first_victim(
        &mut self,
        table: u8,
        used_ns: impl Fn(u32) -> u64,
    ) -> Option<(FlowKey, u16)> {
        let t = self.tables.get_mut(usize::from(table))?;
        let victims = match &mut t.victims {
            Some(victims) => victims,
            none => {
                let mut all = Victims::default();
                let own = t.flows.iter().filter(|(_, flow)| !flow.synchronised);
                own.for_each(|(id, flow)| all.place(rank(*id, flow, 0)));
                none.insert(all)
            }
        };
        loop {
            let first = *victims.order.first()?;
            let id = first.3;
            let Some(flow) = t.flows.get(&id) else {
                // Not so: both hold the same entries.
                victims.remove(id);
                continue;
            };
            let now = rank(id, flow, used_ns(id));
            if now == first {
                return Some((FlowKey { table, id }, first.0));
            }
            victims.place(now);
        }
    }

    /// Adds an entry whose id, and whose priority and match, are not there yet.
    pub(crate) fn insert(&mut self, key: FlowKey, flow: Flow) {
        if let Some(journal) = &mut self.journal {
            journal.push(Undo::Insert(key));
        }
        self.refer(key, &flow.instructions);
        self.admission.came(key.table, &flow);
        let Some(t) = self.tables.get_mut(usize::from(key.table)) else { return };
        self.total = (self.total.0 + 1, self.total.1 + flow_bytes(&flow));
        let at = hash(&self.hasher, flow.priority, &flow.matching);
        if let Some(victims) = &mut t.victims
            && !flow.synchronised
        {
            victims.place(rank(key.id, &flow, 0));
        }
        t.flows.insert(key.id, Box::new(flow));
        t.strict.insert_unique(spread(at), (at, key.id), |(hash, _)| spread(*hash));
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, key: FlowKey) -> Option<Box<Flow>> {
        let t = self.tables.get_mut(usize::from(key.table))?;
        let flow = t.flows.remove(&key.id)?;
        self.admission.went(key.table, &flow);
        self.total = (self.total.0 - 1, self.total.1 - flow_bytes(&flow));
        if let Some(victims) = &mut t.victims {
            victims.remove(key.id);
        }
        let at = hash(&self.hasher, flow.priority, &flow.matching);
        if let Ok(entry) = t.strict.find_entry(spread(at), |(_, id)| *id == key.id) {
            entry.remove();
        }
        self.unrefer(key, &flow.instructions);
        if let Some(journal) = &mut self.journal {
            journal.push(Undo::Remove(key, flow.clone()));
        }
        Some(flow)
    }

    /// Changes an entry: all but its priority and match.
    pub(crate) fn change(&mut self, key: FlowKey, change: impl FnOnce(&mut Flow)) {
        let flow = |t: &mut Vec<Table>| {
            t.get_mut(usize::from(key.table)).and_then(|t| t.flows.remove(&key.id))
        };
        let Some(mut flow) = flow(&mut self.tables) else { return };
        if let Some(journal) = &mut self.journal {
            // Undone in reverse: the changed entry goes, then the old one comes.
            journal.push(Undo::Remove(key, flow.clone()));
            journal.push(Undo::Insert(key));
        }
        self.unrefer(key, &flow.instructions);
        let before = flow_bytes(&flow);
        self.admission.went(key.table, &flow);
        change(&mut flow);
        self.admission.came(key.table, &flow);
        self.total.1 = self.total.1 - before + flow_bytes(&flow);
        self.refer(key, &flow.instructions);
        if let Some(t) = self.tables.get_mut(usize::from(key.table)) {
            t.flows.insert(key.id, flow);
        }
    }

    fn refer(&mut self, key: FlowKey, instructions: &[Instruction]) {
        if instructions.iter().any(|i| matches!(i, Instruction::StatTrigger(_))) {
            self.triggered.insert(key);
        }
        for learned in deletes_learned(instructions) {
            *self.learners.entry(learned).or_default() += 1;
        }
        let (groups, meters) = (&mut self.by_group, &mut self.by_meter);
        references(
            instructions,
            &mut |id| {
                groups.entry(id).or_default().insert(key);
            },
            &mut |id| {
                meters.entry(id).or_default().insert(key);
            },
        );
    }

    fn unrefer(&mut self, key: FlowKey, instructions: &[Instruction]) {
        if !self.triggered.is_empty() {
            self.triggered.remove(&key);
        }
        for learned in deletes_learned(instructions) {
            let Some(users) = self.learners.get_mut(&learned) else { continue };
            *users -= 1;
            if *users == 0 {
                self.learners.remove(&learned);
                self.orphans.insert(learned);
            }
        }
        let (groups, meters) = (&mut self.by_group, &mut self.by_meter);
        references(instructions, &mut |id| disuse(groups, id, key), &mut |id| {
            disuse(meters, id, key)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::FieldId;
    use openflow::testing::Rng;

    #[test]
    fn victims_are_those_of_a_plain_search() {
        let mut rng = Rng::new(1);
        let mut tables = FlowTables::new(1);
        // When packets last matched: later and later.
        let mut used: HashMap<u32, u64> = HashMap::new();
        let second = 1_000_000_000;
        let mut now = 0;
        for id in 0..2000u32 {
            now += u64::from(rng.u32() % 1000) * 1_000_000;
            let flow = Flow {
                priority: 1,
                flags: FlowModFlags::empty(),
                synchronised: false,
                importance: rng.u16() % 3,
                idle_timeout: rng.choose(&[0, 0, 5, 50]),
                hard_timeout: rng.choose(&[0, 0, 20, 200]),
                cookie: 0,
                created_ns: now,
                action: ActionId(0),
                uncounted: Uncounted::default(),
                matching: Match::new().with(FieldId::EthDst, id.into()),
                instructions: Instructions::new(),
            };
            tables.insert(FlowKey { table: 0, id }, flow);
            for _ in 0..3 {
                let id = rng.below(id as usize + 1) as u32;
                used.insert(id, now + rng.u64() % second);
            }
            if id % 3 == 0 && id > 20 {
                let of = |id: u32| used.get(&id).copied().unwrap_or(0);
                let plain = tables.iter(0).map(|(key, flow)| rank(key.id, flow, of(key.id))).min();
                let first = tables.first_victim(0, of);
                assert_eq!(first.map(|(key, i)| (i, key.id)), plain.map(|r| (r.0, r.3)), "{id}");
                if let Some((key, _)) = first.filter(|_| !rng.one_in(3)) {
                    tables.remove(key);
                }
            }
        }
    }
}
