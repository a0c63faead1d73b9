//! Operations that must not all go.
//!
//! A packet that missed, and to which nothing was done since, counts as dropped by `table_miss`; one
//! to which something was done, however idle, as `no_output`. So a list that did something before
//! must do something after its last operation was found to have no effect: an `if` without effect
//! takes its place.

use crate::contents::Contents;
use crate::work::Work;
use ir::{ActionId, Expr, Op};

fn mark() -> Op {
    Op::If { condition: Expr::bool(false), then: Vec::new(), or_else: Vec::new() }
}

fn idle(ops: &[Op]) -> bool {
    ops.iter().all(|op| matches!(op, Op::Exit))
}

/// Who must keep a mark.
pub(crate) struct Marks<'a> {
    contents: &'a Contents,
    /// Some table's default action does nothing, so a packet may have missed.
    missed: bool,
}

impl<'a> Marks<'a> {
    pub(crate) fn new(contents: &'a Contents) -> Marks<'a> {
        let body = |id: &ActionId| contents.actions.get(id).map_or(&[][..], |a| &a.body);
        let missed = contents.tables.iter().any(|t| idle(body(&t.default.action)));
        Marks { contents, missed }
    }

    pub(crate) fn of(work: &Work<'a>) -> Marks<'a> {
        Marks::new(work.contents)
    }

    /// `new` takes the place of a block's operations.
    pub(crate) fn block(&self, old: &[Op], new: &mut Vec<Op>) {
        let acts = |ops: &[Op]| ops.first().is_some_and(|op| !matches!(op, Op::Exit));
        if self.missed && acts(old) && !acts(new) {
            new.insert(0, mark());
        }
    }

    /// `new` takes the place of an action's body.
    pub(crate) fn action(&self, id: ActionId, old: &[Op], new: &mut Vec<Op>) {
        if !idle(old) && idle(new) && self.contents.tables.iter().any(|t| t.default.action == id) {
            new.insert(0, mark());
        }
    }
}
