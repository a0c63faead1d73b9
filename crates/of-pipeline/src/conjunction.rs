//! Conjunctive flows: a packet that matches an entry of each of several dimensions is looked up once
//! more, with `conj_id` set (ovs-fields(7), *Conjunctive match fields*).
//!
//! The pipeline knows nothing of this. An entry of its own stands for each choice of one entry of
//! every dimension, and leads to the conjunctive flow's own entries:
//!
//! | the controller's entry | is in the pipeline |
//! |---|---|
//! | one with `conjunction(...)`, of a dimension | out of every packet's way, for its timeouts |
//! | one that matches `conj_id` | in the second table that each flow table has |
//! | any other | in the flow table |
//! | - | in the flow table, for each choice: what all of them and one of the conjunctive flow's own entries match, with the dimensions' priority; it sets `conj_id` and goes to the second table |
//!
//! So one more entry of a dimension costs as many entries as there are choices of the others, and
//! packets pay one lookup more when a conjunctive flow takes them, and nothing else. A table has
//! [`CHOICES_MAX`] of them at most.
//!
//! What a packet sees is what the manual says: a conjunctive flow without an entry of its own that
//! matches the packet is as if it were not there; an ordinary entry of the dimensions' priority, or
//! of that of the conjunctive flow's own entry, comes first. (One difference is left: where
//! conjunctive flows of different priorities overlap, and the own entry of the higher one has a lower
//! priority than both, the lower one is taken.)
//!
//! Checked by: `tests/conjunctions.rs`, random entries against the manual's text done plainly.

use crate::flow::Flow;
use crate::flow_table::FlowTables;
use crate::refusal::Refusal;
use crate::stage::Batch;
use hashbrown::HashMap;
use ir::{Entry, EntryId, TableId, Update};
use of_lower::conjunctive::{Part, dimensions, part};
use of_lower::{Layout, lower_conjunctive, lower_match};
use openflow::{FieldId, Match};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Choices of entries of dimensions in one table, at most; fewer in tests, which fill a table.
pub(crate) const CHOICES_MAX: usize = if cfg!(test) { 1 << 13 } else { 1 << 17 };

fn without_id(matching: &Match) -> Match {
    let mut matching = matching.clone();
    matching.remove(FieldId::ConjId);
    matching
}

/// A conjunctive flow: entries of another priority, or with another number of dimensions, are
/// another one's.
type Name = (u32, u16, u8);

/// What stands in the pipeline for choices: their priority, and what they match.
type Key = (u16, Match);

#[derive(Clone, Debug, Default)]
struct Table {
    /// The match of each entry of each dimension.
    dimensions: BTreeMap<Name, Vec<BTreeMap<u32, Match>>>,
    /// Priority and match of the conjunctive flows' own entries.
    own: BTreeMap<u32, BTreeMap<u32, (u16, Match)>>,
    choices: HashMap<Key, Choice>,
    /// Choices of all keys.
    count: usize,
}

/// An entry that stands for choices.
#[derive(Clone, Debug, Default)]
struct Choice {
    /// Its id; none while an ordinary entry is in its place.
    entry: Option<u32>,
    /// How many choices of which conjunctive flow; the first one is taken.
    of: BTreeMap<u32, usize>,
}

/// The conjunctive flows of all tables.
#[derive(Debug, Default)]
pub(crate) struct Conjunctions {
    tables: HashMap<u8, Table>,
    log: Vec<Undo>,
}

/// How one change is undone.
#[derive(Debug)]
enum Undo {
    Dimension { table: u8, name: Name, dimension: u8, id: u32, was: Option<Match> },
    Own { table: u8, conj: u32, id: u32, was: Option<(u16, Match)> },
    Choice { table: u8, key: Key, was: Option<Choice>, count: usize },
    Table { table: u8, was: Table },
}

/// What updates are made with.
pub(crate) struct Making<'a, 't> {
    pub(crate) tx: &'a mut Batch<'t>,
    pub(crate) flows: &'a FlowTables,
    /// The entry that the request is about: it is not in its old place any more.
    pub(crate) about: u32,
}

impl Conjunctions {
    /// What was done stays.
    pub(crate) fn keep(&mut self) {
        self.log.clear();
    }

    /// What was done since the last [`keep`](Self::keep) is undone.
    pub(crate) fn undo(&mut self) {
        for undo in std::mem::take(&mut self.log).into_iter().rev() {
            match undo {
                Undo::Dimension { table, name, dimension, id, was } => {
                    self.table(table).set_dimension(name, dimension, id, was);
                }
                Undo::Own { table, conj, id, was } => {
                    self.table(table).set_own(conj, id, was);
                }
                Undo::Choice { table, key, was, count } => {
                    let t = self.table(table);
                    t.count = count;
                    match was {
                        Some(choice) => drop(t.choices.insert(key, choice)),
                        None => drop(t.choices.remove(&key)),
                    }
                }
                Undo::Table { table, was } => drop(self.tables.insert(table, was)),
            }
        }
    }

    fn table(&mut self, table: u8) -> &mut Table {
        self.tables.entry(table).or_default()
    }

    /// An entry comes; its own update is pushed behind.
    pub(crate) fn add(
        &mut self,
        make: &mut Making<'_, '_>,
        table: u8,
        flow: &Flow,
    ) -> Result<(), Refusal> {
        let id = make.about;
        match part(&flow.matching, &flow.instructions) {
            Part::None => self.displace(make, table, flow),
            Part::Own(conj) => {
                let own = (flow.priority, without_id(&flow.matching));
                self.choose_own(make, table, conj, &own, true)?;
                self.table(table).set_own(conj, id, Some(own));
                self.log.push(Undo::Own { table, conj, id, was: None });
            }
            Part::Dimension => {
                // The table's second one has an entry now.
                self.table(table);
                let matching = flow.matching.clone();
                for c in dimensions(&flow.instructions) {
                    let name = (c.id, flow.priority, c.dimensions);
                    self.choose_with(make, table, name, c.dimension, &matching, true)?;
                    let new = Some(matching.clone());
                    self.table(table).set_dimension(name, c.dimension, id, new);
                    let dimension = c.dimension;
                    self.log.push(Undo::Dimension { table, name, dimension, id, was: None });
                }
            }
        }
        Ok(())
    }

    /// An entry goes; its own update is pushed before.
    pub(crate) fn remove(
        &mut self,
        make: &mut Making<'_, '_>,
        table: u8,
        flow: &Flow,
    ) -> Result<(), Refusal> {
        let id = make.about;
        match part(&flow.matching, &flow.instructions) {
            Part::None => self.restore(make, table, flow)?,
            Part::Own(conj) => {
                let was = self.table(table).set_own(conj, id, None);
                let Some(own) = was.clone() else { return Ok(()) };
                self.log.push(Undo::Own { table, conj, id, was });
                self.choose_own(make, table, conj, &own, false)?;
            }
            Part::Dimension => {
                for c in dimensions(&flow.instructions).into_iter().rev() {
                    let (name, dimension) = ((c.id, flow.priority, c.dimensions), c.dimension);
                    let was = self.table(table).set_dimension(name, dimension, id, None);
                    let Some(matching) = was.clone() else { continue };
                    self.log.push(Undo::Dimension { table, name, dimension, id, was });
                    self.choose_with(make, table, name, dimension, &matching, false)?;
                }
            }
        }
        Ok(())
    }

    /// An entry of a conjunctive flow's own, with its priority and match, comes or goes: so do all choices
    /// that lead to it.
    fn choose_own(
        &mut self,
        make: &mut Making<'_, '_>,
        table: u8,
        conj: u32,
        own: &(u16, Match),
        comes: bool,
    ) -> Result<(), Refusal> {
        let most = if comes { CHOICES_MAX } else { usize::MAX };
        for (name, _) in self.names(table, conj) {
            let chosen = self.table(table).chosen(name, None, &own.1, most);
            let priority = name.1.min(own.0);
            self.choose(make, table, conj, priority, chosen, comes)?;
        }
        Ok(())
    }

    /// All entries of a table go. The updates that clear its tables of the pipeline are pushed, too.
    pub(crate) fn clear(&mut self, tx: &mut Batch<'_>, layout: &Layout, table: u8) {
        let Some(was) = self.tables.remove(&table) else { return };
        tx.push(Update::Clear(layout.conjunctive_table(table)));
        for choice in was.choices.values() {
            let Some((entry, conj)) = choice.entry.zip(choice.of.keys().next()) else { continue };
            tx.release_call(&lower_conjunctive(table, *conj));
            tx.spend(entry);
        }
        self.log.push(Undo::Table { table, was });
    }

    /// How many entries of its own stand in the pipeline for a table's choices.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn entries(&self, table: u8) -> usize {
        let choices = self.tables.get(&table).into_iter().flat_map(|t| t.choices.values());
        choices.filter(|choice| choice.entry.is_some()).count()
    }

    fn names(&self, table: u8, conj: u32) -> Vec<(Name, usize)> {
        let Some(t) = self.tables.get(&table) else { return Vec::new() };
        let range = (conj, 0, 0)..=(conj, u16::MAX, u8::MAX);
        t.dimensions.range(range).map(|(name, all)| (*name, all.len())).collect()
    }

    /// The choices that one entry of a dimension is part of, for each own entry.
    fn choose_with(
        &mut self,
        make: &mut Making<'_, '_>,
        table: u8,
        name: Name,
        dimension: u8,
        matching: &Match,
        come: bool,
    ) -> Result<(), Refusal> {
        let own = self.table(table).own.get(&name.0).cloned().unwrap_or_default();
        for (priority, own) in own.into_values() {
            let Some(both) = own.intersection(matching) else { continue };
            let most = if come { CHOICES_MAX } else { usize::MAX };
            let chosen = self.table(table).chosen(name, Some(dimension), &both, most);
            self.choose(make, table, name.0, name.1.min(priority), chosen, come)?;
        }
        Ok(())
    }

    /// Choices come or go.
    fn choose(
        &mut self,
        make: &mut Making<'_, '_>,
        table: u8,
        conj: u32,
        priority: u16,
        chosen: Option<Vec<Match>>,
        come: bool,
    ) -> Result<(), Refusal> {
        let t = self.tables.entry(table).or_default();
        let full = Refusal::Choices { conjunction: conj, table, max: CHOICES_MAX };
        let chosen = chosen.ok_or(full.clone())?;
        if come && t.count + chosen.len() > CHOICES_MAX {
            return Err(full);
        }
        for matching in chosen {
            let key = (priority, matching);
            let count = t.count;
            let was = t.choices.get(&key).cloned();
            let mut now = was.clone().unwrap_or_default();
            let before = now.of.keys().next().copied();
            if come {
                *now.of.entry(conj).or_default() += 1;
                t.count += 1;
            } else if let Some(n) = now.of.get_mut(&conj) {
                *n -= 1;
                if *n == 0 {
                    now.of.remove(&conj);
                }
                t.count -= 1;
            }
            let after = now.of.keys().next().copied();
            let taken = || {
                let at = make.flows.find_strict(table, priority, &key.1)?;
                let other = make.flows.get(at).filter(|_| at.id != make.about)?;
                (part(&other.matching, &other.instructions) == Part::None).then_some(())
            };
            if before != after {
                now.entry = match (now.entry, after) {
                    (None, Some(conj)) if before.is_none() && taken().is_none() => {
                        Some(insert(make.tx, table, &key, conj)?)
                    }
                    (entry @ Some(id), Some(conj)) => {
                        make.tx.push(Update::Delete(TableId(table.into()), EntryId(id)));
                        make.tx.release_call(&lower_conjunctive(table, conj));
                        push(make.tx, table, &key, conj, id);
                        entry
                    }
                    (Some(id), None) => {
                        make.tx.push(Update::Delete(TableId(table.into()), EntryId(id)));
                        make.tx.release_call(&lower_conjunctive(table, conj));
                        make.tx.spend(id);
                        None
                    }
                    (None, _) => None,
                };
            }
            if after.is_some() {
                t.choices.insert(key.clone(), now);
            } else {
                t.choices.remove(&key);
            }
            self.log.push(Undo::Choice { table, key, was, count });
        }
        Ok(())
    }

    /// An ordinary entry comes where a choice may be.
    fn displace(&mut self, make: &mut Making<'_, '_>, table: u8, flow: &Flow) {
        let Some(t) = self.tables.get_mut(&table) else { return };
        let key = (flow.priority, flow.matching.clone());
        let count = t.count;
        let Some(choice) = t.choices.get_mut(&key) else { return };
        let was = Some(choice.clone());
        if let (Some(id), Some(conj)) = (choice.entry.take(), choice.of.keys().next()) {
            make.tx.push(Update::Delete(TableId(table.into()), EntryId(id)));
            make.tx.release_call(&lower_conjunctive(table, *conj));
            make.tx.spend(id);
        }
        self.log.push(Undo::Choice { table, key, was, count });
    }

    /// An ordinary entry went where a choice may be.
    fn restore(
        &mut self,
        make: &mut Making<'_, '_>,
        table: u8,
        flow: &Flow,
    ) -> Result<(), Refusal> {
        let Some(t) = self.tables.get_mut(&table) else { return Ok(()) };
        let key = (flow.priority, flow.matching.clone());
        let count = t.count;
        let Some(choice) = t.choices.get_mut(&key) else { return Ok(()) };
        let was = Some(choice.clone());
        if let (None, Some(conj)) = (choice.entry, choice.of.keys().next()) {
            choice.entry = Some(insert(make.tx, table, &key, *conj)?);
        }
        self.log.push(Undo::Choice { table, key, was, count });
        Ok(())
    }
}

/// Adds the entry of a choice under an id of its own.
fn insert(tx: &mut Batch<'_>, table: u8, key: &Key, conj: u32) -> Result<u32, Refusal> {
    let EntryId(id) = tx.take_entry_id()?;
    push(tx, table, key, conj, id);
    Ok(id)
}

fn push(tx: &mut Batch<'_>, table: u8, key: &Key, conj: u32, id: u32) {
    let action = tx.intern(lower_conjunctive(table, conj));
    let entry = Entry {
        id: EntryId(id),
        priority: key.0.into(),
        matches: lower_match(&key.1),
        action,
        cookie: 0,
        idle_timeout_ns: 0,
        hard_timeout_ns: 0,
    };
    tx.push(Update::Insert(TableId(table.into()), Arc::new(entry)));
}

impl Table {
    fn set_dimension(
        &mut self,
        name: Name,
        dimension: u8,
        id: u32,
        new: Option<Match>,
    ) -> Option<Match> {
        let all = self
            .dimensions
            .entry(name)
            .or_insert_with(|| vec![BTreeMap::new(); usize::from(name.2)]);
        let of = &mut all[usize::from(dimension)];
        let was = match new {
            Some(matching) => of.insert(id, matching),
            None => of.remove(&id),
        };
        if all.iter().all(BTreeMap::is_empty) {
            self.dimensions.remove(&name);
        }
        was
    }

    fn set_own(&mut self, conj: u32, id: u32, new: Option<(u16, Match)>) -> Option<(u16, Match)> {
        let of = self.own.entry(conj).or_default();
        let was = match new {
            Some(own) => of.insert(id, own),
            None => of.remove(&id),
        };
        if of.is_empty() {
            self.own.remove(&conj);
        }
        was
    }

    /// What the choices match of one entry of each dimension, of `but` excepted, and of `matching`;
    /// none if there are more than `most` on the way.
    fn chosen(
        &self,
        name: Name,
        but: Option<u8>,
        matching: &Match,
        most: usize,
    ) -> Option<Vec<Match>> {
        let Some(all) = self.dimensions.get(&name) else { return Some(Vec::new()) };
        let mut some = vec![matching.clone()];
        let others = all.iter().enumerate().filter(|(i, _)| but != Some(*i as u8));
        let mut others: Vec<_> = others.map(|(_, of)| of).collect();
        // The smallest first, so that what cannot be is seen early.
        others.sort_by_key(|of| of.len());
        for of in others {
            let mut next = Vec::new();
            for a in &some {
                next.extend(of.values().filter_map(|b| a.intersection(b)));
                if next.len() > most {
                    return None;
                }
            }
            some = next;
        }
        Some(some)
    }
}
