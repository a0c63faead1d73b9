//! Rewrites of a program by what its entries show.
//!
//! In: a program and [`Contents`], a summary of what its tables hold. Out: an [`Optimised`] program
//! that does the same to every packet as long as the contents stay within that summary, and does
//! less: the parser stops early, dead tables, actions, checksums and tests are gone.

use ir::{Action, ActionCall, ActionId, Program, Select};
use std::collections::BTreeMap;
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

/// A program that was rewritten. Ids are those of the input: what is dead is emptied, not renumbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimised {
    /// The program.
    pub program: Program,
    /// Live actions, rewritten.
    pub actions: BTreeMap<ActionId, Arc<Action>>,
    /// By table; `None` for one that no live block applies.
    pub tables: Vec<Option<LiveTable>>,
}

/// A table that packets can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTable {
    /// Positions of the key fields that matter, ascending.
    pub columns: Vec<u16>,
    /// Actions that can run, the default's among them, ascending.
    pub actions: Vec<ActionId>,
}
