//! A case: a program and what happens, as data, so that it can be run again and made smaller.

use ir::{Pipeline, Program, TableId, Update, ValueSetId};
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
