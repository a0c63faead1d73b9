//! Entries and default actions with values in place of texts; all of a program's state kept and put back.
//!
//! What a client writes as text comes here, too, so that one place says what an entry may be.

use super::indirect::{Does, Multicast, OWN, Profiles, Refers};
use super::refused::{Refused, no};
use super::{Change, Control, Handles, meter_of};
use crate::lower::names::TableName;
use hashbrown::{HashMap, HashSet};
use ir::pipeline::UpdateError;
use ir::program::MatchKind;
use ir::{ActionCall, Entry, EntryId, KeyMatch, Pattern, Pipeline, TableId, Update};
use std::collections::{BTreeMap, HashSet as StdHashSet};
use std::sync::Arc;

/// What the control plane wants kept beside an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Any bytes.
    pub metadata: Vec<u8>,
    /// A number.
    pub number: u64,
    /// When it was put in, in nanoseconds of the switch's clock; 0 if nobody asks.
    pub since_ns: u64,
}

/// A program's state, to be put back.
#[derive(Debug)]
pub struct Kept {
    pipeline: Pipeline,
    handles: BTreeMap<TableId, Handles>,
    own: HashSet<EntryId>,
    multicast: Multicast,
    profiles: Profiles,
    notes: HashMap<EntryId, Note>,
    retired: usize,
}

/// The one form of a pattern that a key of this kind has, so that equal keys are found equal.
pub fn normal(pattern: Pattern, kind: MatchKind) -> Pattern {
    match (kind, pattern) {
        (MatchKind::Range, Pattern::Exact(v)) => Pattern::Range(v.clone(), v),
        (MatchKind::Range, p) => p,
        (MatchKind::Lpm, Pattern::Exact(v)) => {
            let len = v.width();
            Pattern::Prefix(v, len)
        }
        (MatchKind::Lpm, p) => p,
        (_, Pattern::Prefix(v, len)) if len == v.width() => Pattern::Exact(v),
        (_, Pattern::Masked(v, m)) if m.is_ones() => Pattern::Exact(v),
        (_, p) => p,
    }
}

impl Control {
    /// What a default action or an entry (`id`) of a table calls.
    fn calls(&self, t: &TableName, does: Does, id: Option<EntryId>) -> Result<ActionCall, Refused> {
        let call = match does {
            Does::Refers(refers) => self.indirect_call(t, refers)?,
            Does::Action(call) => {
                let a = Self::action_of(t, call.action);
                let a = a.ok_or_else(|| no!(Invalid, "`{}` has no such action", t.name))?;
                if a.group_only {
                    return Err(no!(
                        Denied,
                        "`{}` is @groupaction in the table `{}`: only a group may have it",
                        a.name,
                        t.name
                    ));
                }
                if id.is_some() && a.default_only {
                    return Err(no!(
                        Denied,
                        "`{}` is @defaultonly in the table `{}`: no entry may have it",
                        a.name,
                        t.name
                    ));
                }
                call
            }
        };
        Ok(match id {
            Some(id) => Self::with_meter(t, call, meter_of(id)),
            None => Self::as_default(t, call),
        })
    }

    fn table_of(&self, table: TableId) -> Result<&TableName, Refused> {
        self.named(table).ok_or_else(|| no!(NotFound, "there is no {table}"))
    }

    /// Adds an entry with patterns as [`normal`] makes them. Higher priorities win. What the switch is to be told goes
    /// behind `updates`.
    pub fn entry_insert(
        &mut self,
        table: TableId,
        matches: Box<[KeyMatch]>,
        priority: i32,
        does: Does,
        idle_ns: u64,
        updates: &mut Vec<Update>,
    ) -> Result<EntryId, Refused> {
        if self.guard.is_some() {
            let (key, own) = (matches.clone(), does.clone());
            let change = Change::Insert { table, matches: &key, does: &own };
            return self.guarded(&change, |c| {
                c.entry_insert(table, matches, priority, does, idle_ns, updates)
            });
        }
        let t = self.table_of(table)?;
        Self::may_change(t)?;
        Self::has_keys(t)?;
        Self::may_time_out(t, idle_ns)?;
        let id = EntryId(self.id()?);
        let refers = refers_of(&does);
        let done = self.table_of(table).and_then(|t| self.calls(t, does, Some(id)));
        let done = done.and_then(|action| {
            let entry = Arc::new(Entry {
                id,
                priority,
                matches,
                action,
                cookie: 0,
                idle_timeout_ns: idle_ns,
                hard_timeout_ns: 0,
            });
            match self.pipeline.insert(table, &entry) {
                Ok(_) => Ok(entry),
                Err(e) => Err(self.not_inserted(table, &entry, e)),
            }
        });
        match done {
            Ok(entry) => {
                updates.push(Update::Insert(table, entry));
                self.handles.entry(table).or_default().insert(id);
                if refers.is_some() {
                    // It is new, so that it has referred to nothing.
                    self.refer(table, Some(id), refers)?;
                }
                Ok(id)
            }
            Err(e) => {
                self.retired.push(id.0);
                Err(e)
            }
        }
    }

    /// Why an entry is not taken: that its key is there already goes before all else.
    fn not_inserted(&self, table: TableId, entry: &Entry, e: UpdateError) -> Refused {
        let there = self.pipeline.entries(table).find_strict(entry.priority, &entry.matches);
        match (there, self.named(table)) {
            (Some(_), Some(t)) => no!(
                Exists,
                "the table `{}` has an entry with this key{} already; modify or delete it",
                t.name,
                if super::prioritised(t) { " and priority" } else { "" }
            ),
            _ => e.into(),
        }
    }

    /// Notes what an entry refers to. What it referred to before is forgotten; its own group goes.
    fn refer(
        &mut self,
        table: TableId,
        entry: Option<EntryId>,
        to: Option<Refers>,
    ) -> Result<Vec<Update>, Refused> {
        if self.refers(table, entry) == to {
            return Ok(Vec::new());
        }
        let updates = self.forget_referred(table, entry)?;
        if let Some(refers) = to {
            let profile = self.profile_name(table)?;
            self.profiles.refer(table, entry, &profile, refers);
        }
        Ok(updates)
    }

    /// Gives an entry another action and timeout.
    pub fn entry_set(
        &mut self,
        table: TableId,
        entry: EntryId,
        does: Does,
        idle_ns: u64,
    ) -> Result<Vec<Update>, Refused> {
        if self.guard.is_some() {
            let own = does.clone();
            let change = Change::Modify { table, entry, does: &own };
            return self.guarded(&change, |c| c.entry_set(table, entry, does, idle_ns));
        }
        let t = self.table_of(table)?;
        Self::may_change(t)?;
        Self::may_time_out(t, idle_ns)?;
        let refers = refers_of(&does);
        let action = self.calls(t, does, Some(entry))?;
        let old = self.held(table, entry)?;
        let new = Arc::new(Entry { action, idle_timeout_ns: idle_ns, ..(*old).clone() });
        let mut updates = self.commit(vec![Update::Modify(table, new)])?;
        updates.extend(self.refer(table, Some(entry), refers)?);
        Ok(updates)
    }

    /// The entry of a table with this key and priority.
    pub fn entry_find(
        &self,
        table: TableId,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Option<&Arc<Entry>> {
        self.pipeline.entries(table).find_strict(priority, matches)
    }

    /// Sets a table's default action.
    pub fn default_set(&mut self, table: TableId, does: Does) -> Result<Vec<Update>, Refused> {
        if self.guard.is_some() {
            let own = does.clone();
            let change = Change::Default { table, does: Some(&own) };
            return self.guarded(&change, |c| c.default_set(table, does));
        }
        let refers = refers_of(&does);
        let call = self.calls(self.table_of(table)?, does, None)?;
        let mut updates = self.commit(vec![Update::SetDefault(table, call)])?;
        updates.extend(self.refer(table, None, refers)?);
        Ok(updates)
    }

    /// Sets a table's default action to what the program says.
    pub fn default_reset(&mut self, table: TableId) -> Result<Vec<Update>, Refused> {
        if self.guard.is_some() {
            let change = Change::Default { table, does: None };
            return self.guarded(&change, |c| c.default_reset(table));
        }
        let default = self.pipeline.program().tables[table.index()].default.clone();
        let mut updates = self.commit(vec![Update::SetDefault(table, default)])?;
        updates.extend(self.forget_referred(table, None)?);
        Ok(updates)
    }

    /// The program has written this entry itself.
    pub fn is_own(&self, entry: EntryId) -> bool {
        self.own.contains(&entry)
    }

    /// What is kept beside an entry.
    pub fn note(&self, entry: EntryId) -> Option<&Note> {
        self.notes.get(&entry)
    }

    /// Keeps something beside an entry until it goes.
    pub fn set_note(&mut self, entry: EntryId, note: Note) {
        match note == Note::default() {
            true => drop(self.notes.remove(&entry)),
            false => drop(self.notes.insert(entry, note)),
        }
    }

    /// A group that belongs to one entry alone, as [`own_group`](Self::own_group) makes them.
    pub fn is_own_group(refers: Refers) -> bool {
        matches!(refers, Refers::Group(group) if group >= OWN)
    }

    /// Ports that are up or down now: what follows them is told.
    pub fn set_down(&mut self, down: StdHashSet<u32>) -> Result<Vec<Update>, Refused> {
        let changed: Vec<u32> = self.down.symmetric_difference(&down).copied().collect();
        if changed.is_empty() {
            return Ok(Vec::new());
        }
        self.down = down;
        let mut updates = self.select_anew(&changed)?;
        updates.extend(self.replicate_anew(&changed)?);
        Ok(updates)
    }

    /// All that is there, for [`restore`](Self::restore) or [`let_go`](Self::let_go). It costs a copy of all of it.
    pub fn keep(&mut self) -> Kept {
        self.issued = Some(Vec::new());
        Kept {
            pipeline: self.pipeline.clone(),
            handles: self.handles.clone(),
            own: self.own.clone(),
            multicast: self.multicast.clone(),
            profiles: self.profiles.clone(),
            notes: self.notes.clone(),
            retired: self.retired.len(),
        }
    }

    /// What was done since all was kept stays.
    pub fn let_go(&mut self, kept: Kept) {
        drop(kept);
        self.issued = None;
    }

    /// All is as it was when it was kept; no other program has come since.
    pub fn restore(&mut self, kept: Kept) {
        let Kept { pipeline, handles, own, multicast, profiles, notes, retired } = kept;
        self.pipeline = pipeline;
        self.handles = handles;
        self.own = own;
        self.multicast = multicast;
        self.profiles = profiles;
        self.notes = notes;
        self.retired.truncate(retired);
        self.retired.extend(self.issued.take().into_iter().flatten());
    }

    /// A program in place of this one, with its own entries and nothing of what was put into this one.
    pub fn replace(&mut self, lowered: crate::lower::Lowered) -> Result<Vec<Update>, Refused> {
        let program = Arc::new(lowered.program);
        let pipeline = Pipeline::new(program.clone()).map_err(|e| no!(Invalid, "{e}"))?;
        let tables = 0..self.pipeline.program().tables.len() as u32;
        let old: Vec<u32> =
            tables.flat_map(|t| self.pipeline.entries(TableId(t)).iter().map(|e| e.id.0)).collect();
        self.pipeline = pipeline;
        self.names = lowered.names;
        self.index();
        self.retired.extend(old);
        self.handles.clear();
        self.own.clear();
        self.multicast = Multicast::default();
        self.profiles = Profiles::default();
        self.notes.clear();
        let mut updates = vec![Update::SetProgram(program)];
        updates.extend(self.own_entries(lowered.entries)?);
        Ok(updates)
    }
}

fn refers_of(does: &Does) -> Option<Refers> {
    match does {
        Does::Refers(refers) => Some(*refers),
        Does::Action(_) => None,
    }
}
