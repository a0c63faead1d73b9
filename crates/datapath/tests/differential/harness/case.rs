//! A case: a program and what happens, as data, so that it can be run again and made smaller.

use ir::{Entry, GroupId, Pipeline, Program, TableId, Update, ValueSetId};
use std::sync::Arc;

/// A packet that comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incoming {
    /// The port.
    pub(crate) in_port: u32,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A transaction. One that the pipeline refuses does not happen.
    Transact(Vec<Update>),
    /// What was committed is published.
    Publish,
    /// The engine is told that all is quiet.
    Settle,
    /// The engine's job, if it has one, is run.
    Work,
    /// What came of the job is handed over.
    Finish,
    /// Packets come in together.
    Burst {
        /// A worker has not yet adopted the last publication.
        late: bool,
        /// The packets.
        packets: Vec<Incoming>,
    },
}

/// A program and what happens.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The program to begin with.
    pub(crate) program: Arc<Program>,
    /// What happens, in order.
    pub(crate) steps: Vec<Step>,
}

/// Updates that make an empty pipeline of the same program into this one. Entries that rank alike
/// keep their order.
pub(crate) fn contents(p: &Pipeline) -> Vec<Update> {
    let program = p.program();
    let mut out: Vec<Update> = Vec::new();
    out.extend(p.added_actions().map(|(id, a)| Update::AddAction(id, a.clone())));
    for i in 0..program.value_sets.len() as u32 {
        let id = ValueSetId(i);
        out.push(Update::SetValueSet(id, p.value_set(id).to_vec()));
    }
    out.extend(p.meters().map(|(id, m)| Update::SetMeter(id, m.clone())));
    out.extend(p.groups().map(|(id, g)| Update::SetGroup(id, g.clone())));
    for (i, table) in program.tables.iter().enumerate() {
        let id = TableId(i as u32);
        let entries = p.entries(id);
        if *entries.default() != table.default {
            out.push(Update::SetDefault(id, entries.default().clone()));
        }
        out.extend(entries.iter().map(|e| Update::Insert(id, e.clone())));
    }
    out
}

/// Updates that lead from one pipeline to another of the same program, as a controller's requests
/// would: what goes, goes first.
pub(crate) fn difference(from: &Pipeline, to: &Pipeline) -> Vec<Update> {
    let mut out: Vec<Update> = Vec::new();
    for i in 0..from.program().tables.len() as u32 {
        let id = TableId(i);
        let (old, new) = (from.entries(id), to.entries(id));
        let key = |e: &Entry, other: &Entry| e.priority == other.priority && e.matches == other.matches;
        let stays = |e: &Arc<Entry>| new.get(e.id).is_some_and(|n| key(e, n));
        out.extend(old.iter().filter(|e| !stays(e)).map(|e| Update::Delete(id, e.id)));
    }
    for (id, action) in to.added_actions() {
        if from.action(id).is_none() {
            out.push(Update::AddAction(id, action.clone()));
        }
    }
    for i in 0..to.program().value_sets.len() as u32 {
        let id = ValueSetId(i);
        if from.value_set(id) != to.value_set(id) {
            out.push(Update::SetValueSet(id, to.value_set(id).to_vec()));
        }
    }
    for (id, meter) in to.meters() {
        if from.meter(id) != Some(meter) {
            out.push(Update::SetMeter(id, meter.clone()));
        }
    }
    for (id, group) in to.groups() {
        if from.group(id) != Some(group) {
            out.push(Update::SetGroup(id, group.clone()));
        }
    }
    for i in 0..to.program().tables.len() as u32 {
        let id = TableId(i);
        let (old, new) = (from.entries(id), to.entries(id));
        if old.default() != new.default() {
            out.push(Update::SetDefault(id, new.default().clone()));
        }
        for entry in new.iter() {
            match old.get(entry.id) {
                Some(before) if before == entry => {}
                Some(before) if before.matches == entry.matches && before.priority == entry.priority => {
                    out.push(Update::Modify(id, entry.clone()));
                }
                _ => out.push(Update::Insert(id, entry.clone())),
            }
        }
    }
    let gone = |id: &GroupId| to.group(*id).is_none();
    out.extend(from.groups().map(|(id, _)| id).filter(gone).map(Update::RemoveGroup));
    out.extend(from.meters().filter(|(id, _)| to.meter(*id).is_none()).map(|(id, _)| Update::RemoveMeter(id)));
    let actions = from.added_actions().filter(|(id, _)| to.action(*id).is_none());
    out.extend(actions.map(|(id, _)| Update::RemoveAction(id)));
    out
}
