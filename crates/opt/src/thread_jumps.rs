//! Skips blocks that do nothing.
//!
//! ```text
//! t0: apply t0, hit action_set         t0: apply t0, hit end
//! action_set: jump end         becomes action_set: jump end
//! ```
//!
//! An `if` that comes to the same on both sides becomes a jump, a jump to an empty last block an
//! exit. Targets only move to later blocks, so control still does.
//!
//! Requires: nothing. Ensures: no live terminator or `goto` leads to an empty block that jumps.

use crate::work::Work;
use ir::{Block, BlockId, Op, Terminator};

/// See the module.
pub(crate) fn thread_jumps(work: &mut Work<'_>) {
    let blocks = &mut work.program.blocks;
    let mut target: Vec<BlockId> = (0..blocks.len() as u32).map(BlockId).collect();
    let mut skipped = 0;
    for at in (0..blocks.len()).rev() {
        if let (true, Terminator::Jump(to)) = (blocks[at].ops.is_empty(), &blocks[at].end) {
            target[at] = target[to.index()];
            skipped += 1;
        }
    }
    let last = |b: &Block| b.ops.is_empty() && b.end == Terminator::Exit;
    let empty: Vec<bool> = blocks.iter().map(last).collect();
    for block in blocks.iter_mut() {
        match &mut block.end {
            Terminator::Exit => {}
            Terminator::Jump(to) => follow(to, &target),
            Terminator::If { then, or_else, .. } => {
                follow(then, &target);
                follow(or_else, &target);
            }
            Terminator::Apply { hit, miss, by_action, .. } => {
                follow(hit, &target);
                follow(miss, &target);
                by_action.iter_mut().for_each(|(_, to)| follow(to, &target));
            }
        }
        if let Terminator::If { then, or_else, .. } = &block.end
            && then == or_else
        {
            block.end = Terminator::Jump(*then);
        }
        if matches!(&block.end, Terminator::Jump(to) if empty[to.index()]) {
            block.end = Terminator::Exit;
        }
        retarget(&mut block.ops, &target);
    }
    let stale = |op: &Op| match op {
        Op::Goto(to) | Op::Clone { block: to, .. } => target[to.index()] != *to,
        _ => false,
    };
    let mut bodies = Vec::new();
    for (id, action) in &work.actions {
        let mut any = false;
        action.body.iter().for_each(|op| op.visit(&mut |op| any |= stale(op)));
        if any {
            let mut body = action.body.clone();
            retarget(&mut body, &target);
            bodies.push((*id, body));
        }
    }
    bodies.into_iter().for_each(|(id, body)| work.set_body(id, body));
    if skipped > 0 {
        work.note("thread_jumps", format!("{skipped} blocks do nothing"));
    }
}

fn follow(to: &mut BlockId, target: &[BlockId]) {
    *to = target[to.index()];
}

fn retarget(ops: &mut [Op], target: &[BlockId]) {
    for op in ops {
        match op {
            Op::Goto(to) | Op::Clone { block: to, .. } => follow(to, target),
            Op::If { then, or_else, .. } => {
                retarget(then, target);
                retarget(or_else, target);
            }
            _ => {}
        }
    }
}
