//! The summary of a pipeline's tables, by reading every entry.
//!
//! Cost: linear in the entries; who follows updates keeps it up to date instead.

use ir::{Action, ActionCall, ActionId, Entry, Expr, Group, Pipeline, Select, TableId, ValueSetId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a pipeline's tables hold, in summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// By table.
    pub tables: Vec<TableContents>,
    /// Every action: the program's and those added while it runs.
    pub actions: BTreeMap<ActionId, Arc<Action>>,
    /// Members of the value sets.
    pub value_sets: Vec<Vec<Select>>,
    /// What groups do; `None`, if they may do anything.
    pub buckets: Option<Buckets>,
}

/// What groups do, in summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// Actions of their buckets, each once.
    pub actions: Vec<ActionId>,
    /// Inputs of the hashes that they choose by.
    pub hashes: Vec<Arc<[Expr]>>,
}

impl Buckets {
    /// Of groups.
    pub fn of<'a>(groups: impl Iterator<Item = &'a Group>) -> Buckets {
        let mut buckets = Buckets::default();
        for group in groups {
            for bucket in &group.buckets {
                if !buckets.actions.contains(&bucket.action.action) {
                    buckets.actions.push(bucket.action.action);
                }
            }
            let is = |hash: &Arc<[Expr]>| hash[..] == group.hash[..];
            if group.kind.hashes() && !buckets.hashes.iter().any(is) {
                buckets.hashes.push(group.hash.clone());
            }
        }
        buckets
    }
}

/// What one table holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableContents {
    /// How many entries.
    pub entries: usize,
    /// Positions of the key fields that some entry looks at, ascending.
    pub columns: Vec<u16>,
    /// Actions of the entries, each once, ascending.
    pub actions: Vec<ActionId>,
    /// Set if all entries (at least one) have this very call.
    pub only: Option<ActionCall>,
    /// What happens on a miss.
    pub default: ActionCall,
}

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
