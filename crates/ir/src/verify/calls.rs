//! Calls of actions: their arguments, and where an action leads.

use super::rule::{Result, ensure};
use crate::call::ActionCall;
use crate::id::{BlockId, TableId};
use crate::op::Op;
use crate::program::{Action, Block, Program, Terminator};

pub(super) fn arguments(action: &Action, call: &ActionCall) -> Result {
    let (have, want) = (call.args.len(), action.params.len());
    ensure!(have == want, A1, "action {} takes {want} arguments, {have} given", action.name);
    for (arg, param) in call.args.iter().zip(&action.params) {
        ensure!(
            arg.width() == param.width,
            A1,
            "action {}, parameter {}: {} bits given, it has {}",
            action.name,
            param.name,
            arg.width(),
            param.width
        );
    }
    Ok(())
}

/// Rule T3.
pub(super) fn position(program: &Program, table: TableId, action: &Action) -> Result {
    let targets = Targets::of(&action.body);
    let Some(target) = targets.goto.into_iter().chain(targets.clone).min() else { return Ok(()) };
    let applies = |b: &Block| matches!(&b.end, Terminator::Apply { table: t, .. } if *t == table);
    let Some(last) = program.blocks.iter().rposition(applies) else { return Ok(()) };
    ensure!(
        target.index() > last,
        T3,
        "action {} goes to {}, but {} applies the table; go to a later block",
        action.name,
        block_name(program, target),
        block_name(program, BlockId(last as u32))
    );
    Ok(())
}

fn block_name(program: &Program, id: BlockId) -> String {
    match program.blocks.get(id.index()) {
        Some(b) => format!("block {}", b.name),
        None => id.to_string(),
    }
}

/// The earliest blocks that a body goes to and clones to.
#[derive(Default)]
pub(super) struct Targets {
    pub(super) goto: Option<BlockId>,
    pub(super) clone: Option<BlockId>,
}

impl Targets {
    pub(super) fn of(body: &[Op]) -> Targets {
        fn least(slot: &mut Option<BlockId>, block: BlockId) {
            *slot = Some(slot.map_or(block, |b| b.min(block)));
        }
        fn walk(ops: &[Op], out: &mut Targets) {
            for op in ops {
                match op {
                    Op::Goto(block) => least(&mut out.goto, *block),
                    Op::Clone { block, .. } => least(&mut out.clone, *block),
                    Op::If { then, or_else, .. } => {
                        walk(then, out);
                        walk(or_else, out);
                    }
                    Op::OnCopy { body } => walk(body, out),
                    _ => {}
                }
            }
        }
        let mut out = Targets::default();
        walk(body, &mut out);
        out
    }
}
