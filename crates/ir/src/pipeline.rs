//! A program with what controllers put into it, and how that changes.
//!
//! [`Pipeline`] is the truth that the switch keeps: the program, entries by table, default actions,
//! groups, meters, value sets, and actions that were added while running. It changes by
//! [`Pipeline::transact`]: a list of [`Update`]s that happen whole, making version *n+1*, or not at
//! all. Engines keep structures of their own and follow the same updates.
//!
//! Cost: an update of an entry is a few hash and tree operations; a transaction that fails is undone
//! step by step. Entries are shared (`Arc`) with whoever else keeps them.

pub use crate::call::ActionCall;
pub use crate::contents::{
    Band, Bucket, Entry, Group, GroupKind, KeyMatch, Meter, Pattern, Update,
};

use crate::id::{ActionId, EntryId, GroupId, MeterId, TableId, ValueSetId};
use crate::id_map::IdMap;
use crate::order::{Order, Rank};
use crate::program::{Action, Program, Select, Table};
use crate::verify;
use hashbrown::HashTable;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Why an update was refused. Nothing of its transaction happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// No such table.
    #[error("there is no {0}; the program has {1} tables")]
    NoTable(TableId, usize),
    /// The table is full.
    #[error(
        "table {table} is full: {capacity} of {capacity} entries; delete some or declare it larger"
    )]
    TableFull {
        /// The table's name.
        table: String,
        /// Its capacity.
        capacity: u32,
    },
    /// The id is in use.
    #[error("table {table}: {id} is already there; choose an id that is not in use")]
    EntryExists {
        /// The table's name.
        table: String,
        /// The id.
        id: EntryId,
    },
    /// An entry with the same key and priority is there.
    #[error(
        "table {table}: {existing} has the same key and priority; modify it or delete it first"
    )]
    Duplicate {
        /// The table's name.
        table: String,
        /// The entry that has them.
        existing: EntryId,
    },
    /// No such entry.
    #[error("table {table} has no {id}")]
    NoEntry {
        /// The table's name.
        table: String,
        /// The id.
        id: EntryId,
    },
    /// Key or priority of an entry cannot be modified.
    #[error(
        "table {table}: {id} was inserted with another key or priority; delete it and insert the new one"
    )]
    KeyChanged {
        /// The table's name.
        table: String,
        /// The id.
        id: EntryId,
    },
    /// The default action is constant.
    #[error("table {0}: the default action is constant")]
    DefaultConst(String),
    /// The action's id is in use, or out of order.
    #[error("{0} is already there; added actions take ids that are not in use")]
    ActionExists(ActionId),
    /// No such action, or one that came with the program.
    #[error("{0} was not added at run time, so it cannot be removed")]
    NoAction(ActionId),
    /// Entries, default actions or buckets call the action.
    #[error(
        "{id} is called in {users} places, so it cannot be removed; change or delete those first"
    )]
    ActionInUse {
        /// The action.
        id: ActionId,
        /// In how many places.
        users: usize,
    },
    /// No such value set.
    #[error("there is no {0}")]
    NoValueSet(ValueSetId),
    /// Too many members.
    #[error("value set {name}: {members} members, it holds {capacity}")]
    ValueSetFull {
        /// The value set's name.
        name: String,
        /// Members given.
        members: usize,
        /// Its capacity.
        capacity: u32,
    },
    /// No such group.
    #[error("there is no {0}")]
    NoGroup(GroupId),
    /// No such meter.
    #[error("there is no {0}")]
    NoMeter(MeterId),
    /// A rule of the verifier is broken.
    #[error(transparent)]
    Invalid(#[from] verify::Error),
}

/// Place of an entry among those of its table: the first one that matches wins.
fn rank(table: &Table, entry: &Entry) -> Rank {
    (std::cmp::Reverse(entry.priority), std::cmp::Reverse(entry.prefix_len(table)))
}

/// An entry, with its place in the order of insertion.
#[derive(Clone, Debug)]
struct Held {
    entry: Arc<Entry>,
    sequence: u64,
}

/// The entries of one table.
///
/// Entries lie by id; what finds them otherwise holds ids, so that replacing an entry touches no order.
#[derive(Clone, Debug)]
pub struct Entries {
    held: IdMap<Held>,
    order: Order,
    /// Ids by hash of priority and key; the hash lies beside, so that growing looks at no entry.
    by_key: HashTable<(u32, EntryId)>,
    hasher: hashbrown::DefaultHashBuilder,
    default: ActionCall,
}

fn key_hash(hasher: &hashbrown::DefaultHashBuilder, priority: i32, matches: &[KeyMatch]) -> u32 {
    hasher.hash_one((priority, matches)) as u32
}

/// A hash for the table, which looks at the lowest and at the highest bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Entries {
    fn new(table: &Table) -> Entries {
        Entries {
            held: IdMap::default(),
            order: Order::default(),
            by_key: HashTable::new(),
            hasher: hashbrown::DefaultHashBuilder::default(),
            default: table.default.clone(),
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The entry with this id.
    pub fn get(&self, id: EntryId) -> Option<&Arc<Entry>> {
        self.held.get(id.0).map(|held| &held.entry)
    }

    /// All entries, best first: the first one that matches is the one that wins.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.order.iter().filter_map(|id| self.get(id))
    }

    /// The default action.
    pub fn default(&self) -> &ActionCall {
        &self.default
    }

    /// The entry with exactly this key and priority.
    pub fn find_strict(&self, priority: i32, matches: &[KeyMatch]) -> Option<&Arc<Entry>> {
        self.find_hashed(key_hash(&self.hasher, priority, matches), priority, matches)
    }

    fn find_hashed(&self, hash: u32, priority: i32, matches: &[KeyMatch]) -> Option<&Arc<Entry>> {
        let is = |e: &Arc<Entry>| e.priority == priority && *e.matches == *matches;
        let found = |(h, id): &(u32, EntryId)| *h == hash && self.get(*id).is_some_and(is);
        let (_, id) = self.by_key.find(spread(hash), found)?;
        self.get(*id)
    }

    fn hash(&self, entry: &Entry) -> u32 {
        key_hash(&self.hasher, entry.priority, &entry.matches)
    }

    fn insert(&mut self, table: &Table, hash: u32, entry: Arc<Entry>, sequence: u64) {
        let id = entry.id;
        self.order.insert(rank(table, &entry), sequence, id);
        self.held.insert(id.0, Held { entry, sequence });
        self.by_key.insert_unique(spread(hash), (hash, id), |(hash, _)| spread(*hash));
    }

    fn remove(&mut self, table: &Table, id: EntryId) -> Option<(u64, Arc<Entry>)> {
        let Held { entry, sequence } = self.held.remove(id.0)?;
        self.order.remove(rank(table, &entry), sequence);
        let hash = self.hash(&entry);
        if let Ok(slot) = self.by_key.find_entry(spread(hash), |(_, other)| *other == id) {
            slot.remove();
        }
        Some((sequence, entry))
    }

    /// The entry with this id, where it can be replaced.
    fn get_mut(&mut self, id: EntryId) -> Option<&mut Arc<Entry>> {
        self.held.get_mut(id.0).map(|held| &mut held.entry)
    }
}

/// A step backwards, for a transaction that fails.
enum Undo {
    Remove(TableId, EntryId),
    Reinsert(TableId, u64, Arc<Entry>),
    Replace(TableId, Arc<Entry>),
    Entries(TableId, Box<Entries>),
    Default(TableId, ActionCall),
    Action(ActionId, Option<Arc<Action>>),
    Group(GroupId, Option<Arc<Group>>),
    Meter(MeterId, Option<Arc<Meter>>),
    ValueSet(ValueSetId, Vec<Select>),
    All(Box<Pipeline>),
}

/// Whether another pipeline with the same contents has taken an update.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entered {
    Unseen,
    Checked,
}

/// An action that was added at run time.
#[derive(Clone, Debug)]
struct Added {
    action: Arc<Action>,
    /// Entries, default actions and buckets that call it.
    users: usize,
}

/// A program and everything in it.
#[derive(Clone, Debug)]
pub struct Pipeline {
    program: Arc<Program>,
    version: u64,
    sequence: u64,
    tables: Vec<Entries>,
    actions: BTreeMap<ActionId, Added>,
    groups: BTreeMap<GroupId, Arc<Group>>,
    meters: BTreeMap<MeterId, Arc<Meter>>,
    value_sets: Vec<Vec<Select>>,
}

impl verify::Contents for Pipeline {
    fn program(&self) -> &Program {
        self.program()
    }

    fn action(&self, id: ActionId) -> Option<&Action> {
        self.action(id).map(|action| &**action)
    }

    fn group(&self, id: GroupId) -> Option<&Group> {
        self.group(id).map(|group| &**group)
    }
}

impl Pipeline {
    /// Version 0: a verified program, empty tables.
    pub fn new(program: Arc<Program>) -> Result<Pipeline, verify::Error> {
        verify::program(&program)?;
        Ok(Pipeline {
            version: 0,
            sequence: 0,
            tables: program.tables.iter().map(Entries::new).collect(),
            actions: BTreeMap::new(),
            groups: BTreeMap::new(),
            meters: BTreeMap::new(),
            value_sets: vec![Vec::new(); program.value_sets.len()],
            program,
        })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// How many transactions were committed.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The entries of a table. The table exists.
    pub fn entries(&self, table: TableId) -> &Entries {
        &self.tables[table.index()]
    }

    /// The action with this id, whether it came with the program or was added.
    pub fn action(&self, id: ActionId) -> Option<&Arc<Action>> {
        self.program.actions.get(id.index()).or_else(|| Some(&self.actions.get(&id)?.action))
    }

    /// Actions added at run time.
    pub fn added_actions(&self) -> impl Iterator<Item = (ActionId, &Arc<Action>)> {
        self.actions.iter().map(|(id, added)| (*id, &added.action))
    }

    /// The action with this name.
    pub fn find_action(&self, name: &str) -> Option<ActionId> {
        let added = || self.added_actions().find(|(_, a)| a.name == name).map(|(id, _)| id);
        self.program.find_action(name).or_else(added)
    }

    /// The group with this number.
    pub fn group(&self, id: GroupId) -> Option<&Arc<Group>> {
        self.groups.get(&id)
    }

    /// All groups by number.
    pub fn groups(&self) -> impl Iterator<Item = (GroupId, &Arc<Group>)> {
        self.groups.iter().map(|(id, g)| (*id, g))
    }

    /// The meter with this number.
    pub fn meter(&self, id: MeterId) -> Option<&Arc<Meter>> {
        self.meters.get(&id)
    }

    /// All meters by number.
    pub fn meters(&self) -> impl Iterator<Item = (MeterId, &Arc<Meter>)> {
        self.meters.iter().map(|(id, m)| (*id, m))
    }

    /// The members of a value set. The value set exists.
    pub fn value_set(&self, id: ValueSetId) -> &[Select] {
        &self.value_sets[id.index()]
    }

    /// What makes this of version 0 of its program.
    pub fn contents(&self) -> Vec<Update> {
        let mut updates = Vec::new();
        updates.extend(self.added_actions().map(|(id, a)| Update::AddAction(id, a.clone())));
        for set in (0..self.value_sets.len() as u32).map(ValueSetId) {
            updates.push(Update::SetValueSet(set, self.value_set(set).to_vec()));
        }
        updates.extend(self.meters().map(|(id, meter)| Update::SetMeter(id, meter.clone())));
        updates.extend(self.groups().map(|(id, group)| Update::SetGroup(id, group.clone())));
        for (n, table) in (0..).zip(&self.program.tables) {
            let entries = self.entries(TableId(n));
            if *entries.default() != table.default {
                updates.push(Update::SetDefault(TableId(n), entries.default().clone()));
            }
            updates.extend(entries.iter().map(|e| Update::Insert(TableId(n), e.clone())));
        }
        updates
    }

    /// Does all of the updates, in order, or none of them. Returns the new version.
    ///
    /// On an error, the index of the update that was refused comes with the reason.
    pub fn transact(&mut self, updates: &[Update]) -> Result<u64, (usize, UpdateError)> {
        self.transact_as(updates, Entered::Unseen)
    }

    /// As [`transact`](Self::transact), for updates that a pipeline with the same contents has taken, in the same order:
    /// what entries must keep to beside each other and the program is not looked at again.
    pub fn follow(&mut self, updates: &[Update]) -> Result<u64, (usize, UpdateError)> {
        self.transact_as(updates, Entered::Checked)
    }

    /// As [`transact`](Self::transact) with one entry to be inserted.
    pub fn insert(&mut self, table: TableId, entry: &Arc<Entry>) -> Result<u64, UpdateError> {
        self.enter(table, entry, Entered::Unseen)?;
        self.version += 1;
        Ok(self.version)
    }

    fn transact_as(
        &mut self,
        updates: &[Update],
        entered: Entered,
    ) -> Result<u64, (usize, UpdateError)> {
        let mut undo: SmallVec<[Undo; 4]> = SmallVec::with_capacity(updates.len());
        for (i, update) in updates.iter().enumerate() {
            match self.apply(update, entered) {
                Ok(step) => undo.push(step),
                Err(error) => {
                    undo.into_iter().rev().for_each(|step| self.undo(step));
                    return Err((i, error));
                }
            }
        }
        self.version += 1;
        Ok(self.version)
    }

    fn table(&self, id: TableId) -> Result<&Table, UpdateError> {
        let n = self.program.tables.len();
        self.program.tables.get(id.index()).ok_or(UpdateError::NoTable(id, n))
    }

    /// One more place calls an action.
    fn calls(&mut self, call: &ActionCall) {
        if let Some(added) = self.actions.get_mut(&call.action) {
            added.users += 1;
        }
    }

    /// One place less.
    fn leaves(&mut self, call: &ActionCall) {
        if let Some(added) = self.actions.get_mut(&call.action) {
            added.users -= 1;
        }
    }

    /// Inserts an entry.
    fn enter(
        &mut self,
        id: TableId,
        entry: &Arc<Entry>,
        entered: Entered,
    ) -> Result<(), UpdateError> {
        let table = self.table(id)?;
        let name = || table.name.clone();
        let entries = &self.tables[id.index()];
        let unseen = entered == Entered::Unseen;
        if unseen {
            verify::entry(self, id, entry)?;
        }
        if entries.len() >= table.capacity as usize {
            return Err(UpdateError::TableFull { table: name(), capacity: table.capacity });
        }
        if entries.get(entry.id).is_some() {
            return Err(UpdateError::EntryExists { table: name(), id: entry.id });
        }
        let hash = entries.hash(entry);
        if unseen && let Some(e) = entries.find_hashed(hash, entry.priority, &entry.matches) {
            return Err(UpdateError::Duplicate { table: name(), existing: e.id });
        }
        self.sequence += 1;
        self.calls(&entry.action);
        let table = &self.program.tables[id.index()];
        self.tables[id.index()].insert(table, hash, entry.clone(), self.sequence);
        Ok(())
    }

    fn apply(&mut self, update: &Update, entered: Entered) -> Result<Undo, UpdateError> {
        Ok(match update {
            Update::Insert(id, entry) => {
                self.enter(*id, entry, entered)?;
                Undo::Remove(*id, entry.id)
            }
            Update::Modify(id, entry) => {
                self.table(*id)?;
                if entered == Entered::Unseen {
                    verify::entry(self, *id, entry)?;
                }
                let name = || self.program.tables[id.index()].name.clone();
                let Some(old) = self.tables[id.index()].get_mut(entry.id) else {
                    return Err(UpdateError::NoEntry { table: name(), id: entry.id });
                };
                if old.priority != entry.priority || old.matches != entry.matches {
                    return Err(UpdateError::KeyChanged { table: name(), id: entry.id });
                }
                let old = std::mem::replace(old, entry.clone());
                self.calls(&entry.action);
                self.leaves(&old.action);
                Undo::Replace(*id, old)
            }
            Update::Delete(id, entry) => {
                self.table(*id)?;
                let table = &self.program.tables[id.index()];
                match self.tables[id.index()].remove(table, *entry) {
                    Some((sequence, old)) => {
                        self.leaves(&old.action);
                        Undo::Reinsert(*id, sequence, old)
                    }
                    None => {
                        let table = table.name.clone();
                        return Err(UpdateError::NoEntry { table, id: *entry });
                    }
                }
            }
            Update::Clear(id) => {
                let mut empty = Entries::new(self.table(*id)?);
                let entries = &mut self.tables[id.index()];
                empty.default = entries.default.clone();
                let old = std::mem::replace(entries, empty);
                old.iter().for_each(|entry| self.leaves(&entry.action));
                Undo::Entries(*id, Box::new(old))
            }
            Update::SetDefault(id, call) => {
                let table = self.table(*id)?;
                if table.default_const {
                    return Err(UpdateError::DefaultConst(table.name.clone()));
                }
                verify::table_call(self, *id, call)?;
                let default = &mut self.tables[id.index()].default;
                let old = std::mem::replace(default, call.clone());
                self.calls(call);
                self.leaves(&old);
                Undo::Default(*id, old)
            }
            Update::AddAction(id, action) => {
                if self.action(*id).is_some() {
                    return Err(UpdateError::ActionExists(*id));
                }
                verify::action(&self.program, action)?;
                self.actions.insert(*id, Added { action: action.clone(), users: 0 });
                Undo::Action(*id, None)
            }
            Update::RemoveAction(id) => match self.actions.get(id) {
                Some(Added { users: 0, action }) => {
                    let undo = Undo::Action(*id, Some(action.clone()));
                    self.actions.remove(id);
                    undo
                }
                Some(Added { users, .. }) => {
                    return Err(UpdateError::ActionInUse { id: *id, users: *users });
                }
                None => return Err(UpdateError::NoAction(*id)),
            },
            Update::SetGroup(id, group) => {
                verify::group(self, *id, group)?;
                let old = self.groups.insert(*id, group.clone());
                group.buckets.iter().for_each(|bucket| self.calls(&bucket.action));
                old.iter().flat_map(|g| &g.buckets).for_each(|bucket| self.leaves(&bucket.action));
                Undo::Group(*id, old)
            }
            Update::RemoveGroup(id) => match self.groups.remove(id) {
                Some(group) => {
                    group.buckets.iter().for_each(|bucket| self.leaves(&bucket.action));
                    Undo::Group(*id, Some(group))
                }
                None => return Err(UpdateError::NoGroup(*id)),
            },
            Update::SetMeter(id, meter) => Undo::Meter(*id, self.meters.insert(*id, meter.clone())),
            Update::RemoveMeter(id) => match self.meters.remove(id) {
                Some(meter) => Undo::Meter(*id, Some(meter)),
                None => return Err(UpdateError::NoMeter(*id)),
            },
            Update::SetValueSet(id, members) => {
                let set =
                    self.program.value_sets.get(id.index()).ok_or(UpdateError::NoValueSet(*id))?;
                if members.len() > set.capacity as usize {
                    return Err(UpdateError::ValueSetFull {
                        name: set.name.clone(),
                        members: members.len(),
                        capacity: set.capacity,
                    });
                }
                verify::value_set(set, members)?;
                let slot = &mut self.value_sets[id.index()];
                Undo::ValueSet(*id, std::mem::replace(slot, members.clone()))
            }
            Update::SetProgram(program) => {
                let mut next = Pipeline::new(program.clone())?;
                next.version = self.version;
                next.sequence = self.sequence;
                Undo::All(Box::new(std::mem::replace(self, next)))
            }
        })
    }

    fn undo(&mut self, step: Undo) {
        fn restore<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
            match value {
                Some(v) => map.insert(key, v),
                None => map.remove(&key),
            };
        }
        match step {
            Undo::Remove(t, id) => {
                if let Some((_, entry)) =
                    self.tables[t.index()].remove(&self.program.tables[t.index()], id)
                {
                    self.leaves(&entry.action);
                }
            }
            Undo::Reinsert(t, sequence, entry) => {
                self.calls(&entry.action);
                let table = &self.program.tables[t.index()];
                let entries = &mut self.tables[t.index()];
                entries.insert(table, entries.hash(&entry), entry, sequence);
            }
            Undo::Replace(t, entry) => {
                self.calls(&entry.action);
                if let Some(held) = self.tables[t.index()].get_mut(entry.id) {
                    let new = std::mem::replace(held, entry);
                    self.leaves(&new.action);
                }
            }
            Undo::Entries(t, entries) => {
                entries.iter().for_each(|entry| self.calls(&entry.action));
                self.tables[t.index()] = *entries;
            }
            Undo::Default(t, call) => {
                self.calls(&call);
                let new = std::mem::replace(&mut self.tables[t.index()].default, call);
                self.leaves(&new);
            }
            Undo::Action(id, action) => {
                let added = action.map(|action| Added { action, users: 0 });
                restore(&mut self.actions, id, added);
            }
            Undo::Group(id, group) => {
                let buckets = group.iter().flat_map(|g| &g.buckets);
                buckets.for_each(|bucket| self.calls(&bucket.action));
                let new = self.groups.get(&id).cloned();
                restore(&mut self.groups, id, group);
                new.iter().flat_map(|g| &g.buckets).for_each(|bucket| self.leaves(&bucket.action));
            }
            Undo::Meter(id, meter) => restore(&mut self.meters, id, meter),
            Undo::ValueSet(id, members) => self.value_sets[id.index()] = members,
            Undo::All(pipeline) => *self = *pipeline,
        }
    }
}
