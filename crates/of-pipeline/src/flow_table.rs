//! The store of flow entries: what controllers asked for, by table.
//!
//! Each entry is kept as its controller wrote it, under the id that it also has in the switch. Three
//! ways lead to entries: by id (punts, expiry), by priority and match (strict requests), and by a
//! [`Filter`] (non-strict requests, statistics). What else is to be known of entries is kept by observers, which the
//! store tells of each that comes and goes ([`Observers`]).
//!
//! Invariants: priority and match are unique in a table; the strict index holds exactly the entries that are there.
//! Cost: strict lookup, one hash of the match; a filter, one look at every entry of its tables;
//! memory per entry about 150 bytes, 48 for each field, and its action list unless others have the same.
//! Checked by: a model test against a plain list (`flow_mod`'s tests).

use crate::admission::Admission;
use crate::alike::Alike;
pub use crate::flow::{Filter, Flow, FlowKey};
use crate::observer::Observer;
use crate::observers::Observers;
use crate::relearning::Learned;
use crate::sizes::flow_bytes;
use crate::touched::Touched;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use openflow::Match;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use switch::{Forgotten, Place};

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

/// All flow entries of a switch.
#[derive(Debug)]
pub struct FlowTables {
    tables: Vec<Table>,
    hasher: DefaultHashBuilder,
    /// Entries in all tables, and the bytes that they have in messages.
    total: (usize, usize),
    /// What changed since a bundle began, to be undone if nothing comes of it.
    journal: Option<Vec<Undo>>,
    observers: Observers,
    alike: Alike,
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

impl FlowTables {
    /// So many empty tables.
    pub fn new(tables: u32) -> FlowTables {
        FlowTables {
            tables: (0..tables).map(|_| Table::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            total: (0, 0),
            journal: None,
            observers: Observers::default(),
            alike: Alike::default(),
        }
    }

    /// The same, which tells of entries that come and go.
    #[must_use]
    pub(crate) fn told_to(
        self,
        admission: Arc<Admission>,
        forgotten: Arc<Forgotten>,
    ) -> FlowTables {
        let learned = Learned::new(forgotten);
        let observers = Observers { admission, learned, ..self.observers };
        FlowTables { observers, ..self }
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

    /// An entry had been there so long before.
    pub(crate) fn set_before(&mut self, key: FlowKey, before_ns: u64) {
        let table = self.tables.get_mut(usize::from(key.table));
        if let Some(flow) = table.and_then(|table| table.flows.get_mut(&key.id)) {
            flow.before_ns = before_ns;
        }
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
        self.observers.users.of_group(group)
    }

    /// The entries that use a meter.
    pub fn users_of_meter(&self, meter: u32) -> impl Iterator<Item = FlowKey> {
        self.observers.users.of_meter(meter)
    }

    /// The entries with a stat-trigger.
    pub(crate) fn triggered(&self) -> &BTreeSet<FlowKey> {
        self.observers.triggered.keys()
    }

    /// An entry is there as workers told of it.
    pub(crate) fn learned(&mut self, key: FlowKey, place: Place) {
        self.observers.learned.told(key, place);
    }

    /// Entries that came or went, to be kept.
    pub(crate) fn touched(&mut self) -> &mut Touched {
        &mut self.observers.touched
    }

    /// Tables and cookies of learned entries that are to go, as nothing is left that learns such.
    pub(crate) fn take_orphans(&mut self) -> BTreeSet<(u8, u64)> {
        self.observers.orphans.take()
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
    pub(crate) fn insert(&mut self, key: FlowKey, mut flow: Flow) {
        self.alike.share(&self.hasher, &mut flow.instructions);
        if let Some(journal) = &mut self.journal {
            journal.push(Undo::Insert(key));
        }
        self.observers.came(key, &flow);
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
        self.observers.went(key, &flow);
        self.total = (self.total.0 - 1, self.total.1 - flow_bytes(&flow));
        if let Some(victims) = &mut t.victims {
            victims.remove(key.id);
        }
        let at = hash(&self.hasher, flow.priority, &flow.matching);
        if let Ok(entry) = t.strict.find_entry(spread(at), |(_, id)| *id == key.id) {
            entry.remove();
        }
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
        let before = flow_bytes(&flow);
        self.observers.went(key, &flow);
        change(&mut flow);
        self.alike.share(&self.hasher, &mut flow.instructions);
        self.observers.came(key, &flow);
        self.total.1 = self.total.1 - before + flow_bytes(&flow);
        if let Some(t) = self.tables.get_mut(usize::from(key.table)) {
            t.flows.insert(key.id, flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::ActionId;
    use openflow::testing::Rng;
    use openflow::{FieldId, FlowModFlags, Instructions, Uncounted};

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
                before_ns: 0,
                action: ActionId(0),
                uncounted: Uncounted::default(),
                matching: Match::new().with(FieldId::EthDst, id.into()),
                instructions: Instructions::new().into(),
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
