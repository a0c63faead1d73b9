//! Another program in place of this one, with what was put into this one.
//!
//! Carried over are entries of tables that are the same: the same full name and the same keys (name,
//! width, match kind, in order). Such an entry keeps its id, so its counter goes on, and its action if
//! the new table has one of the same name and parameters. So are defaults that were set, multicast
//! groups and mirroring sessions, members and groups of action profiles, parameters of CRCs, and meters and value sets of the
//! same name, size and width. Entries
//! that a program has itself come and go with it. Whatever has no place is left behind, and counted.

use super::calculations::change;
use super::indirect::{OWN, Profiles, Refers};
use super::refused::{Refused, no};
use super::{Control, Handles, default_meter_of, meter_of};
use crate::lower::Lowered;
use crate::lower::names::{Calculation, Names, TableName};
use hashbrown::HashSet;
use ir::{ActionCall, Crc, Entry, EntryId, MeterId, Pipeline, TableId, Update};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What came along to the new program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Tables that are the same in both programs.
    pub tables: usize,
    /// Entries that came along.
    pub entries: usize,
    /// What did not, a line each: the table or thing, how much of it, and why.
    pub left: Vec<String>,
}

fn same_keys(a: &TableName, b: &TableName) -> bool {
    a.keys.len() == b.keys.len()
        && a.keys
            .iter()
            .zip(&b.keys)
            .all(|(a, b)| a.name == b.name && a.width == b.width && a.kind == b.kind)
}

/// The same call in another table.
fn call_in(
    from: &TableName,
    to: &TableName,
    call: &ActionCall,
    meter: MeterId,
) -> Result<ActionCall, Refused> {
    let Some(old) = Control::action_of(from, call.action) else {
        return Ok(call.clone());
    };
    let new = to.actions.iter().find(|a| a.name == old.name);
    match new {
        Some(new) if new.params == old.params => {
            let given = call.args.iter().take(old.params.len()).cloned();
            Ok(ActionCall::with(new.id, given.chain(Control::meter_arg(to, new.id, meter))))
        }
        Some(_) => Err(no!(Invalid, "the parameters of `{}` are others now", old.name)),
        None => Err(no!(NotFound, "it has no action `{}` any more", old.name)),
    }
}

impl Control {
    /// Takes another program; the updates that do it, to be taken as one transaction, and what came
    /// along. On an error all is as it was.
    pub fn swap(&mut self, lowered: Lowered) -> Result<(Vec<Update>, Carried), Refused> {
        self.swap_if(lowered, |_| true)
    }

    /// Takes another program, if nothing is left behind.
    pub fn swap_whole(&mut self, lowered: Lowered) -> Result<Vec<Update>, Refused> {
        self.swap_if(lowered, |carried| carried.left.is_empty()).map(|(updates, _)| updates)
    }

    fn swap_if(
        &mut self,
        mut lowered: Lowered,
        will: impl FnOnce(&Carried) -> bool,
    ) -> Result<(Vec<Update>, Carried), Refused> {
        for new in &mut lowered.names.calculations {
            let same = |old: &&Calculation| old.name == new.name && old.crc.width == new.crc.width;
            if let Some(old) = self.names.calculations.iter().find(same) {
                new.crc = Crc { function: new.crc.function, ..old.crc };
                change(&mut lowered.program, new.crc);
            }
        }
        let program = Arc::new(lowered.program);
        let mut pipeline = self.pipeline.clone();
        pipeline
            .transact(&[Update::SetProgram(program.clone())])
            .map_err(|(_, e)| Refused::from(e))?;
        let old_pipeline = std::mem::replace(&mut self.pipeline, pipeline);
        let old_names = std::mem::replace(&mut self.names, lowered.names);
        let old_own = std::mem::take(&mut self.own);
        let old_handles = std::mem::take(&mut self.handles);
        let multicast = self.multicast.clone();
        let old_profiles = std::mem::take(&mut self.profiles);
        self.index();
        let mut updates = vec![Update::SetProgram(program)];
        let result = self.swapped(
            lowered.entries,
            &Before {
                pipeline: &old_pipeline,
                names: &old_names,
                own: &old_own,
                handles: &old_handles,
                profiles: &old_profiles,
            },
            &mut updates,
        );
        let result = result.and_then(|carried| match will(&carried) {
            true => Ok(carried),
            false => Err(no!(
                Precondition,
                "this would be lost: {}",
                carried.left.iter().take(20).cloned().collect::<Vec<_>>().join("; ")
            )),
        });
        match result {
            Ok(carried) => {
                // Ids of entries that are gone: all places of groups among them.
                for t in &old_names.tables {
                    for e in old_pipeline.entries(t.id).iter() {
                        if !self.has(e.id) {
                            self.notes.remove(&e.id);
                            self.retired.push(e.id.0);
                        }
                    }
                    let places =
                        t.selector.iter().flat_map(|s| old_pipeline.entries(s.members).iter());
                    self.retired.extend(places.map(|e| e.id.0));
                }
                Ok((updates, carried))
            }
            Err(e) => {
                let new: HashSet<EntryId> = self.own.drain().collect();
                self.retired.extend(new.into_iter().map(|e| e.0));
                self.pipeline = old_pipeline;
                self.names = old_names;
                self.index();
                self.own = old_own;
                self.handles = old_handles;
                self.multicast = multicast;
                let new = std::mem::replace(&mut self.profiles, old_profiles);
                self.retired.extend(new.place_ids().map(|e| e.0));
                Err(e)
            }
        }
    }

    fn has(&self, entry: EntryId) -> bool {
        self.handles.values().any(|h| h.of_entry.get(entry.0).is_some())
    }

    fn swapped(
        &mut self,
        entries: Vec<(TableId, Entry)>,
        before: &Before<'_>,
        updates: &mut Vec<Update>,
    ) -> Result<Carried, Refused> {
        let mut carried = Carried::default();
        updates.extend(self.own_entries(entries)?);
        let groups = self.all_groups();
        updates.extend(self.commit(groups)?);
        updates.extend(self.carry_profiles(
            before.profiles,
            &before.names.profiles,
            &mut carried.left,
        )?);
        for old in &before.names.tables {
            self.carry_table(old, before, updates, &mut carried)?;
        }
        self.carry_meters(before, updates, &mut carried)?;
        self.carry_value_sets(before, updates, &mut carried)?;
        updates.extend(self.drop_own_groups()?);
        Ok(carried)
    }

    /// Groups whose entry has not come along go.
    fn drop_own_groups(&mut self) -> Result<Vec<Update>, Refused> {
        let mut left: Vec<(String, u32)> = Vec::new();
        for (name, state) in &self.profiles.by_name {
            let own = state.groups.range(OWN..).map(|(g, _)| *g);
            let unused = own.filter(|g| !state.users.contains_key(&Refers::Group(*g)));
            left.extend(unused.map(|g| (name.clone(), g)));
        }
        let mut updates = Vec::new();
        for (profile, group) in left {
            updates.extend(self.own_group_gone(&profile, group)?);
        }
        Ok(updates)
    }

    fn carry_table(
        &mut self,
        old: &TableName,
        before: &Before<'_>,
        updates: &mut Vec<Update>,
        carried: &mut Carried,
    ) -> Result<(), Refused> {
        let held = before.pipeline.entries(old.id);
        let mut put: Vec<Arc<Entry>> =
            held.iter().filter(|e| !before.own.contains(&e.id)).cloned().collect();
        let handle = |e: &Arc<Entry>| before.handles.get(&old.id)?.of_entry.get(e.id.0).copied();
        put.sort_by_key(|e| handle(e));
        let new = self.names.tables.iter().find(|t| t.name == old.name).cloned();
        let why = match &new {
            None => "the new program has no such table",
            Some(new) if !same_keys(old, new) || old.keyless != new.keyless => {
                "its keys are others now"
            }
            Some(_) => "",
        };
        let Some(new) = new.filter(|_| why.is_empty()) else {
            if !put.is_empty() {
                carried.left.push(format!("{}: {} entries, as {why}", old.name, put.len()));
            }
            return Ok(());
        };
        carried.tables += 1;
        let given = &before.pipeline.program().tables[old.id.index()].default;
        if held.default() != given {
            let call = match self.carried_call(before.profiles, old.id, None, &new) {
                Some(found) => found.map(|(call, refers)| (call, Some(refers))),
                None => {
                    let action = old.of_default(held.default().action);
                    let call = ActionCall { action, ..held.default().clone() };
                    let call = call_in(old, &new, &call, default_meter_of(new.id));
                    call.map(|call| {
                        (ActionCall { action: new.as_default(call.action), ..call }, None)
                    })
                }
            };
            let done = call.and_then(|(call, refers)| {
                let call = if refers.is_some() { Self::as_default(&new, call) } else { call };
                let done = self.commit(vec![Update::SetDefault(new.id, call)])?;
                refers.iter().for_each(|r| self.note_carried(new.id, None, *r));
                Ok(done)
            });
            match done {
                Ok(done) => updates.extend(done),
                Err(e) => carried.left.push(format!("{}: its default action: {e}", old.name)),
            }
        }
        if new.meter.is_some() && new.meter == old.meter {
            let meter = before.pipeline.meter(default_meter_of(old.id)).cloned();
            let set = meter.map(|m| Update::SetMeter(default_meter_of(new.id), m));
            updates.extend(self.commit(set.into_iter().collect())?);
        }
        let mut refused: BTreeMap<String, usize> = BTreeMap::new();
        for e in put {
            let call = match self.carried_call(before.profiles, old.id, Some(e.id), &new) {
                Some(found) => found.map(|(call, refers)| (call, Some(refers))),
                None => call_in(old, &new, &e.action, meter_of(e.id)).map(|call| (call, None)),
            };
            let done = call.and_then(|(call, refers)| {
                let action = match refers {
                    Some(_) => Self::with_meter(&new, call, meter_of(e.id)),
                    None => call,
                };
                let idle_timeout_ns = if new.timeouts { e.idle_timeout_ns } else { 0 };
                let entry = Arc::new(Entry { action, idle_timeout_ns, ..(*e).clone() });
                let mut done = vec![Update::Insert(new.id, entry)];
                if new.meter.is_some() && new.meter == old.meter {
                    let meter = before.pipeline.meter(meter_of(e.id));
                    done.extend(meter.map(|m| Update::SetMeter(meter_of(e.id), m.clone())));
                }
                let done = self.commit(done)?;
                refers.iter().for_each(|r| self.note_carried(new.id, Some(e.id), *r));
                Ok(done)
            });
            match done {
                Ok(done) => {
                    updates.extend(done);
                    self.handles.entry(new.id).or_default().insert(e.id);
                    carried.entries += 1;
                }
                Err(e) => *refused.entry(e.text).or_default() += 1,
            }
        }
        for (why, n) in refused {
            carried.left.push(format!("{}: {n} entries: {why}", old.name));
        }
        Ok(())
    }

    fn carry_meters(
        &mut self,
        before: &Before<'_>,
        updates: &mut Vec<Update>,
        carried: &mut Carried,
    ) -> Result<(), Refused> {
        for old in &before.names.meters {
            let set: Vec<_> = (0..old.size)
                .filter_map(|i| Some((i, before.pipeline.meter(MeterId(old.first + i))?.clone())))
                .collect();
            if set.is_empty() {
                continue;
            }
            let same = self.names.meters.iter().find(|m| m.name == old.name && m.size == old.size);
            let Some(first) = same.map(|m| m.first) else {
                carried.left.push(format!("{}: the rates of {} meters", old.name, set.len()));
                continue;
            };
            let sets =
                set.into_iter().map(|(i, m)| Update::SetMeter(MeterId(first + i), m)).collect();
            updates.extend(self.commit(sets)?);
        }
        Ok(())
    }

    fn carry_value_sets(
        &mut self,
        before: &Before<'_>,
        updates: &mut Vec<Update>,
        carried: &mut Carried,
    ) -> Result<(), Refused> {
        for (name, id, widths) in &before.names.value_sets {
            let members = before.pipeline.value_set(*id).to_vec();
            if members.is_empty() {
                continue;
            }
            let same = self.names.value_sets.iter().find(|v| v.0 == *name && v.2 == *widths);
            let done = match same.map(|v| v.1) {
                Some(id) => self.commit(vec![Update::SetValueSet(id, members)]),
                None => Err(no!(NotFound, "the new program has no such value set")),
            };
            match done {
                Ok(done) => updates.extend(done),
                Err(e) => carried.left.push(format!("{name}: its members: {e}")),
            }
        }
        Ok(())
    }
}

/// What there was.
struct Before<'a> {
    pipeline: &'a Pipeline,
    names: &'a Names,
    own: &'a HashSet<EntryId>,
    handles: &'a BTreeMap<TableId, Handles>,
    profiles: &'a Profiles,
}
