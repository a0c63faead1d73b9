//! Joins a block with the one block that jumps to it, if nothing else leads there.
//!
//! ```text
//! t1: apply t1, hit a         t1: apply t1, hit a
//! a: x; jump b        becomes a: x; y; apply t2, ...
//! b: y; apply t2, ...         b:
//! ```
//!
//! Requires: unreachable blocks are empty. Ensures: a jump leads to a block that others lead to, too.

use crate::work::Work;
use ir::{BlockId, Op, Terminator};

/// See the module.
pub(crate) fn merge_blocks(work: &mut Work<'_>) {
    let mut users = vec![0u32; work.program.blocks.len()];
    let mut uses = |to: &BlockId| users[to.index()] += 1;
    let mut targets = |op: &Op| {
        if let Op::Goto(to) | Op::Clone { block: to, .. } = op {
            uses(to);
        }
    };
    work.actions.values().flat_map(|a| &a.body).for_each(|op| op.visit(&mut targets));
    for block in &work.program.blocks {
        block.ops.iter().for_each(|op| op.visit(&mut targets));
    }
    for block in &work.program.blocks {
        match &block.end {
            Terminator::Exit => {}
            Terminator::Jump(to) => uses(to),
            Terminator::If { then, or_else, .. } => [then, or_else].into_iter().for_each(&mut uses),
            Terminator::Apply { hit, miss, by_action, .. } => {
                [hit, miss].into_iter().for_each(&mut uses);
                by_action.iter().for_each(|(_, to)| uses(to));
            }
        }
    }
    let blocks = &mut work.program.blocks;
    let mut merged = 0;
    for at in 0..blocks.len() {
        while let Terminator::Jump(to) = blocks[at].end {
            if users[to.index()] != 1 || to.index() == 0 {
                break;
            }
            let next = &mut blocks[to.index()];
            let (mut ops, end) =
                (std::mem::take(&mut next.ops), std::mem::replace(&mut next.end, Terminator::Exit));
            blocks[at].ops.append(&mut ops);
            blocks[at].end = end;
            merged += 1;
        }
    }
    if merged > 0 {
        work.note("merge_blocks", format!("{merged} blocks joined with the one before"));
    }
}
