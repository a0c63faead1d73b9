//! The steps that bring a replica up to date.

use super::structures::{Replacement, StructureChoice};
use crate::meter::LiveMeter;
use crate::program_state::ProgramState;
use ir::{
    Action, ActionCall, ActionId, Entry, Group, GroupId, MeterId, Program, Select, TableId,
    ValueSetId,
};
use std::sync::Arc;

/// Steps that ask for memory together.
pub(super) const TOGETHER: usize = 32;

/// An update, with what it makes made once, so that both replicas share it.
#[derive(Clone)]
pub(super) enum Step {
    Insert(TableId, Arc<Entry>, u64),
    Modify(TableId, Arc<Entry>),
    Delete(TableId, ir::EntryId),
    Clear(TableId),
    SetDefault(TableId, ActionCall),
    SetAction(ActionId, Option<Arc<Action>>),
    SetGroup(GroupId, Option<Arc<Group>>),
    SetMeter(MeterId, Option<Arc<LiveMeter>>),
    SetValueSet(ValueSetId, Vec<Select>),
    /// The number of the first stamp of its tables is greater than any before.
    SetProgram(Arc<Program>, Arc<ProgramState>, u64),
    /// Another structure takes over a table's rules.
    Serve(TableId, StructureChoice),
    /// One that was made beside takes over.
    Adopt(TableId, Arc<Replacement>),
    Version(u64),
}

impl Step {
    /// The entry that it inserts.
    pub(super) fn inserts(&self) -> Option<(TableId, &Entry)> {
        match self {
            Step::Insert(table, entry, _) => Some((*table, entry)),
            _ => None,
        }
    }

    /// The entry that it changes.
    pub(super) fn changes(&self) -> Option<(TableId, ir::EntryId)> {
        match self {
            Step::Modify(table, entry) => Some((*table, entry.id)),
            Step::Delete(table, id) => Some((*table, *id)),
            _ => None,
        }
    }
}
