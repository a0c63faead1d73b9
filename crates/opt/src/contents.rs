//! The summary of a pipeline's tables, by reading every entry.
//!
//! Cost: linear in the entries; who follows updates keeps it up to date instead.

use crate::{Buckets, Contents, TableContents};
use ir::{ActionId, Entry, Pipeline, TableId, ValueSetId};
use std::collections::BTreeSet;

/// The contents of a pipeline.
pub fn contents(pipeline: &Pipeline) -> Contents {
    let program = pipeline.program();
    let own = program.actions.iter().enumerate().map(|(i, a)| (ActionId(i as u32), a.clone()));
    let added = pipeline.added_actions().map(|(id, a)| (id, a.clone()));
    let tables = (0..program.tables.len() as u32).map(|i| table(pipeline, TableId(i)));
    let sets = (0..program.value_sets.len() as u32).map(ValueSetId);
    Contents {
        tables: tables.collect(),
        // A program's own action comes before an added one of the same id, as in the pipeline.
        actions: added.chain(own).collect(),
        value_sets: sets.map(|id| pipeline.value_set(id).to_vec()).collect(),
        buckets: Some(Buckets::of(pipeline.groups().map(|(_, group)| &**group))),
    }
}

fn table(pipeline: &Pipeline, id: TableId) -> TableContents {
    let entries = pipeline.entries(id);
    let (mut columns, mut actions) = (BTreeSet::new(), BTreeSet::new());
    let mut first: Option<&Entry> = None;
    let mut alike = true;
    for entry in entries.iter() {
        columns.extend(entry.matches.iter().map(|m| m.key));
        actions.insert(entry.action.action);
        alike &= first.get_or_insert(entry).action == entry.action;
    }
    TableContents {
        entries: entries.len(),
        columns: columns.into_iter().collect(),
        actions: actions.into_iter().collect(),
        only: first.filter(|_| alike).map(|entry| entry.action.clone()),
        default: entries.default().clone(),
    }
}
