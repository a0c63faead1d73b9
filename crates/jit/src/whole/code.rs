//! A whole program as machine code: its parser, blocks, key fields, checksums, and the actions there are.
//!
//! None of it depends on entries: what a table holds is looked up, and arguments are handed over. So code is made
//! once for a program, and once for each action that comes later.

use super::layout::Layout;
use super::site::Site;
use crate::memory::Entry;
use foldhash::fast::FixedState;
use ir::{Action, ActionId, Expr, Group, Program, Terminator};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Words of metadata that are kept while an action runs in place of a copy, at most.
pub(crate) const WRITES_MAX: usize = 8;

/// Functions that were made together, and what Rust does for them.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) entries: Vec<Entry>,
    pub(crate) _sites: Vec<Arc<Site>>,
}

/// A block.
#[derive(Clone, Debug)]
pub(crate) struct BlockCode {
    /// Its operations; none if it has none, and decides nothing.
    pub(crate) entry: Option<Entry>,
    pub(crate) end: Terminator,
}

/// An action.
#[derive(Clone, Debug)]
pub(crate) struct ActionCode {
    pub(crate) action: Arc<Action>,
    /// None if it does nothing.
    pub(crate) entry: Option<Entry>,
    /// It does nothing, or ends the pass at once.
    pub(crate) idle: bool,
    /// Words of its arguments.
    pub(crate) words: usize,
    /// It changes nothing of the packet but these words of metadata; none if it changes more.
    pub(crate) writes: Option<SmallVec<[Range<usize>; 2]>>,
    pub(crate) _made: Option<Arc<Made>>,
}

/// Actions by their numbers: nearly all are small.
#[derive(Clone, Debug, Default)]
pub(crate) struct Actions {
    low: Vec<Option<ActionCode>>,
    high: HashMap<ActionId, ActionCode, FixedState>,
}

/// Numbers below this are places in a list.
const LOW_MAX: u32 = 1 << 14;

impl Actions {
    #[inline]
    pub(crate) fn get(&self, id: ActionId) -> Option<&ActionCode> {
        match self.low.get(id.index()) {
            Some(action) => action.as_ref(),
            None => self.high.get(&id),
        }
    }

    pub(crate) fn insert(&mut self, id: ActionId, action: ActionCode) {
        if id.0 >= LOW_MAX {
            self.high.insert(id, action);
            return;
        }
        if self.low.len() <= id.index() {
            self.low.resize_with(id.index() + 1, || None);
        }
        self.low[id.index()] = Some(action);
    }

    fn values(&self) -> impl Iterator<Item = &ActionCode> {
        self.low.iter().flatten().chain(self.high.values())
    }
}

/// A key field.
#[derive(Clone, Debug)]
pub(crate) struct KeyCode {
    /// As many as its value takes.
    pub(crate) bytes: usize,
    pub(crate) how: How,
}

/// How a key field's value is found.
#[derive(Clone, Debug)]
pub(crate) enum How {
    /// These bits of a word.
    Word(usize, u64),
    /// A function writes it.
    Code(Entry),
}

/// A hash that groups choose by.
#[derive(Clone, Debug)]
pub(crate) struct HashCode {
    pub(crate) inputs: Arc<[Expr]>,
    pub(crate) entry: Entry,
}

/// What code of a program is made of beside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// Actions that packets of the control side's begin with.
    pub injected: &'a [Arc<Action>],
    /// Inputs of the hashes that groups choose by.
    pub hashes: &'a [Arc<[Expr]>],
}

/// A whole program as machine code. Shared between threads, never changed.
#[derive(Clone, Debug)]
pub struct Code {
    pub(crate) layout: Arc<Layout>,
    pub(crate) parser: Option<Entry>,
    pub(crate) blocks: Arc<Vec<BlockCode>>,
    /// Lists of key fields.
    pub(crate) keys: Arc<Vec<Vec<KeyCode>>>,
    /// By table, which of the lists it has.
    pub(crate) key_of: Arc<Vec<usize>>,
    pub(crate) sums: Option<Entry>,
    pub(crate) actions: Actions,
    /// Actions that the control side's packets begin with, by what they do.
    pub(crate) injected: HashMap<u64, ActionCode, FixedState>,
    /// Inputs of groups' hashes, by where they lie in memory, as functions that work the hash out. They are
    /// kept, so that nothing else comes to lie there.
    pub(crate) hashes: HashMap<usize, HashCode, FixedState>,
    pub(crate) _made: Arc<Made>,
    pub(crate) compile_time: Duration,
}

impl Code {
    /// The program that it is of.
    pub fn program(&self) -> &Arc<Program> {
        &self.layout.program
    }

    /// This action, as it is, is no part of it.
    pub fn lacks(&self, id: ActionId, action: &Arc<Action>) -> bool {
        self.actions.get(id).is_none_or(|known| !same(&known.action, action))
    }

    /// Code of an action that a packet of the control side's begins with, if it does the same as one that there is
    /// code for; its name does not matter.
    pub(crate) fn injected(&self, action: &Action) -> Option<&ActionCode> {
        let known = self.injected.get(&shape(action))?;
        let same = known.action.body == action.body && widths(&known.action).eq(widths(action));
        same.then_some(known)
    }

    /// Packets of the control side's that begin with this action run by this code.
    pub fn injects(&self, action: &Action) -> bool {
        self.injected(action).is_some()
    }

    /// Code of a group's hash.
    pub(crate) fn group_hash(&self, group: &Group) -> Option<&Entry> {
        self.hashes.get(&(group.hash.as_ptr() as usize)).map(|known| &known.entry)
    }

    /// The hash over these inputs is worked out by code.
    pub fn hashes(&self, inputs: &Arc<[Expr]>) -> bool {
        self.hashes.contains_key(&(inputs.as_ptr() as usize))
    }

    /// How long the last step of making it took.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// Words that a packet's values take.
    pub fn words(&self) -> usize {
        self.layout.words
    }

    /// Bytes of machine code, of the program and of its actions.
    pub fn code_bytes(&self) -> (usize, usize) {
        let of = |entries: &[Entry]| entries.iter().map(|e| e.bytes().len()).sum();
        let actions = self.actions.values().filter_map(|a| a.entry.as_ref());
        (of(&self._made.entries), actions.map(|e| e.bytes().len()).sum())
    }
}

pub(crate) fn widths(action: &Action) -> impl Iterator<Item = u32> {
    action.params.iter().map(|param| param.width)
}

/// A number for what an action does.
pub(crate) fn shape(action: &Action) -> u64 {
    let widths: SmallVec<[u32; 8]> = widths(action).collect();
    FixedState::default().hash_one((&widths[..], &action.body))
}

pub(crate) fn same(a: &Arc<Action>, b: &Arc<Action>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}
