//! Empties blocks that nothing leads to, and forgets tables and actions that nothing uses.
//!
//! Requires: nothing. Ensures: every block with anything in it can be reached by terminators, by the
//! `goto`s of actions that its tables may run, or by clones; `Work::tables` and `Work::actions` hold
//! what those blocks use.

use crate::work::{Bail, Work};
use ir::{ActionId, Op, Terminator};
use std::collections::BTreeSet;

/// See the module.
pub(crate) fn drop_unreachable(work: &mut Work<'_>) {
    let n = work.program.blocks.len();
    let mut found = Found {
        bail: work.options.bail,
        block: vec![false; n],
        table: vec![false; work.tables.len()],
        actions: BTreeSet::new(),
        groups: false,
    };
    found.reach(0);
    // A bucket's action may clone to any block but leads to none before it.
    for at in 0..n {
        if found.block[at] {
            found.block(work, at);
        }
        if found.groups {
            break;
        }
    }
    if found.groups {
        // Buckets may run these, or any action: all that they and the rest lead to lives.
        let run: Vec<ActionId> = match &work.contents.buckets {
            Some(buckets) => buckets.actions.clone(),
            None => work.actions.keys().copied().collect(),
        };
        for id in run {
            if let Some(action) = work.actions.get(&id) {
                found.actions.insert(id);
                found.ops(&action.body);
            }
        }
        for at in 0..n {
            if found.block[at] {
                found.block(work, at);
            }
        }
    }
    let mut emptied = 0;
    for (block, live) in work.program.blocks.iter_mut().zip(&found.block) {
        let empty = block.ops.is_empty() && block.end == Terminator::Exit;
        if !live && !empty {
            block.ops.clear();
            block.end = Terminator::Exit;
            emptied += 1;
        }
    }
    for (table, live) in work.tables.iter_mut().zip(&found.table) {
        if !live {
            *table = None;
        }
    }
    work.actions.retain(|id, _| found.actions.contains(id));
    if emptied > 0 {
        work.note("reach", format!("{emptied} more blocks emptied"));
    }
}

struct Found {
    bail: Bail,
    block: Vec<bool>,
    table: Vec<bool>,
    actions: BTreeSet<ActionId>,
    groups: bool,
}

impl Found {
    fn reach(&mut self, at: usize) {
        if let Some(block) = self.block.get_mut(at) {
            *block = true;
        }
    }

    fn block(&mut self, work: &Work<'_>, at: usize) {
        let block = &work.program.blocks[at];
        self.ops(&block.ops);
        match &block.end {
            Terminator::Exit => {}
            Terminator::Jump(to) => self.reach(to.index()),
            Terminator::If { then, or_else, .. } => {
                self.reach(then.index());
                self.reach(or_else.index());
            }
            Terminator::Apply { table, hit, miss, by_action } => {
                self.reach(hit.index());
                self.reach(miss.index());
                by_action.iter().for_each(|(_, to)| self.reach(to.index()));
                self.table[table.index()] = true;
                for id in work.tables[table.index()].iter().flat_map(|t| &t.actions) {
                    if let (true, Some(action)) = (self.actions.insert(*id), work.actions.get(id)) {
                        self.ops(&action.body);
                    }
                }
            }
        }
    }

    fn ops(&mut self, ops: &[Op]) {
        for op in ops {
            op.visit(&mut |op| match op {
                _ if self.bail.at(op) => {}
                Op::Goto(to) | Op::Clone { block: to, .. } => self.reach(to.index()),
                Op::Group { .. } => self.groups = true,
                _ => {}
            });
        }
    }
}
