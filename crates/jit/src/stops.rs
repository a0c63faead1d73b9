//! Stops: calls of services, at which packets wait as they do at a node.
//!
//! A service keeps state and is Rust, so code does not call it. A packet that reaches a call waits there, all
//! that do are handed over together ([`crate::unit::Services`]), and each goes on in code behind the call.
//!
//! Where a call is the last thing of a choice, or stands in no choice, what comes behind it is simply the rest of
//! its list. [`normalised`] makes that so, by moving what follows a choice into both of its sides. What is left
//! (calls within loops and copies, and those of a body that would become too long) is the interpreter's.
//!
//! Holds true: a packet waits at a stop once at most; stops have an order in which none leads to an earlier one.

use crate::unit::Unit;
use ir::{ActionId, BlockId, MetaId, Op, Program, ServiceId};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Operations of a body that was normalised, at most.
const OPS_MAX: usize = 2048;
/// Stops of a unit, at most: a packet is then parsed again less often than the interpreter allows.
const STOPS_MAX: usize = 200;

/// Whose operations a call is among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// A block's.
    Block(BlockId),
    /// Those of an action at this node.
    Action(usize, ActionId),
    /// A bucket's: nobody waits there.
    Bucket,
}

/// A call, at which packets wait.
#[derive(Clone, Debug)]
pub(crate) struct Stop<'u> {
    pub(crate) origin: Origin,
    pub(crate) service: ServiceId,
    pub(crate) results: &'u [MetaId],
    /// What is to be done behind it.
    pub(crate) rest: &'u [Op],
    /// The service may change bytes: the packet is parsed again.
    pub(crate) edits: bool,
}

/// A station's place in the order: its block; before its lookup, at it or behind it; and how much comes behind.
type Rank = (u32, u8, Reverse<usize>);

/// All of a unit's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops<'u> {
    pub(crate) all: Vec<Stop<'u>>,
    /// By origin and the operation's address.
    numbers: HashMap<(Origin, *const Op), usize>,
    /// Nodes, and behind them stops, in an order in which none leads to an earlier one.
    pub(crate) order: Vec<usize>,
}

impl<'u> Stops<'u> {
    pub(crate) fn new(unit: &'u Unit) -> Stops<'u> {
        let program = &unit.program.program;
        let mut stops = Stops::default();
        let mut ranks: Vec<(usize, Rank)> = Vec::new();
        for (node, spec) in unit.nodes.iter().enumerate() {
            ranks.push((node, (spec.block.0, 1, Reverse(0))));
        }
        let nodes = unit.nodes.len();
        let mut add = |ops: &'u [Op], origin: Origin, block: u32, phase: u8| {
            let mut found = Vec::new();
            tails(ops, &mut found);
            for (op, rest) in found {
                let Op::Service { service, results, .. } = op else { continue };
                let edits = program.services.get(service.index()).is_some_and(|s| s.edits);
                let number = stops.all.len();
                if number >= STOPS_MAX {
                    continue;
                }
                stops.numbers.insert((origin, std::ptr::from_ref(op)), number);
                ranks.push((nodes + number, (block, phase, Reverse(length(rest)))));
                stops.all.push(Stop { origin, service: *service, results, rest, edits });
            }
        };
        for (id, block) in (0..).zip(&program.blocks) {
            add(&block.ops, Origin::Block(BlockId(id)), id, 0);
        }
        for (node, spec) in unit.nodes.iter().enumerate() {
            for action in spec.may_run() {
                if let Some(body) = unit.program.actions.get(&action) {
                    add(&body.body, Origin::Action(node, action), spec.block.0, 2);
                }
            }
        }
        ranks.sort_by_key(|(_, rank)| *rank);
        stops.order = ranks.into_iter().map(|(station, _)| station).collect();
        stops
    }

    /// The stop that a call is.
    pub(crate) fn find(&self, origin: Origin, op: &Op) -> Option<usize> {
        self.numbers.get(&(origin, std::ptr::from_ref(op))).copied()
    }
}

/// Calls with what comes behind each, as far as that is the rest of the list.
fn tails<'u>(ops: &'u [Op], found: &mut Vec<(&'u Op, &'u [Op])>) {
    for (at, op) in ops.iter().enumerate() {
        match op {
            Op::Service { .. } => found.push((op, &ops[at + 1..])),
            Op::If { then, or_else, .. } if at + 1 == ops.len() => {
                tails(then, found);
                tails(or_else, found);
            }
            _ => {}
        }
    }
}

/// How many operations there are, those within others counted.
fn length(ops: &[Op]) -> usize {
    let mut n = 0;
    ops.iter().for_each(|op| op.visit(&mut |_| n += 1));
    n
}

/// A call is among these operations, or in a choice among them.
fn has_calls(ops: &[Op]) -> bool {
    ops.iter().any(|op| match op {
        Op::Service { .. } => true,
        Op::If { then, or_else, .. } => has_calls(then) || has_calls(or_else),
        _ => false,
    })
}

/// The same, with what follows a choice that has a call moved into both of its sides. None if it is so already,
/// or would become too long.
fn normal(ops: &[Op]) -> Option<Vec<Op>> {
    fn go(ops: &[Op], left: &mut usize) -> Option<Vec<Op>> {
        let mut out = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            let mut size = 0;
            op.visit(&mut |_| size += 1);
            match op {
                Op::If { condition, then, or_else } if has_calls(then) || has_calls(or_else) => {
                    *left = left.checked_sub(1)?;
                    let rest = &ops[at + 1..];
                    let mut side = |ops: &[Op]| go(&[ops, rest].concat(), left);
                    let (then, or_else) = (side(then)?, side(or_else)?);
                    out.push(Op::If { condition: condition.clone(), then, or_else });
                    return Some(out);
                }
                _ => {
                    *left = left.checked_sub(size)?;
                    out.push(op.clone());
                }
            }
        }
        Some(out)
    }
    let new = go(ops, &mut OPS_MAX.clone())?;
    (new != ops).then_some(new)
}

/// A unit whose calls stand where what comes behind them is the rest of their list, as far as possible.
pub(crate) fn normalised(unit: &Unit) -> Cow<'_, Unit> {
    let program: &Program = &unit.program.program;
    let blocks: Vec<(usize, Vec<Op>)> = (0..)
        .zip(&program.blocks)
        .filter(|(_, block)| has_calls(&block.ops))
        .filter_map(|(id, block)| Some((id, normal(&block.ops)?)))
        .collect();
    let actions: Vec<(ActionId, Vec<Op>)> = unit
        .program
        .actions
        .iter()
        .filter(|(_, action)| has_calls(&action.body))
        .filter_map(|(id, action)| Some((*id, normal(&action.body)?)))
        .collect();
    if blocks.is_empty() && actions.is_empty() {
        return Cow::Borrowed(unit);
    }
    let mut optimised = (*unit.program).clone();
    for (id, ops) in blocks {
        optimised.program.blocks[id].ops = ops;
    }
    for (id, body) in actions {
        if let Some(action) = optimised.actions.get_mut(&id) {
            Arc::make_mut(action).body = body;
        }
    }
    Cow::Owned(Unit { program: Arc::new(optimised), ..unit.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Expr;

    fn call(n: u32) -> Op {
        Op::Service { service: ServiceId(n), args: Vec::new(), results: Vec::new() }
    }

    fn choice(then: Vec<Op>, or_else: Vec<Op>) -> Op {
        Op::If { condition: Expr::int(1, 1), then, or_else }
    }

    #[test]
    fn what_follows_a_choice_with_a_call_is_on_both_sides() {
        let (end, drop) = (Op::Goto(BlockId(7)), Op::Drop(ir::DropReason::Action));
        let ops = [choice(vec![call(1)], vec![drop.clone()]), call(2), end.clone()];
        let new = normal(&ops).unwrap();
        let rest = vec![call(2), end.clone()];
        let right =
            choice([vec![call(1)], rest.clone()].concat(), [vec![drop], rest.clone()].concat());
        assert_eq!(new, [right]);
        assert!(normal(&new).is_none() && normal(&rest).is_none());
        let mut found = Vec::new();
        tails(&new, &mut found);
        let found: Vec<(Op, usize)> =
            found.iter().map(|(op, r)| ((*op).clone(), r.len())).collect();
        assert_eq!(found, [(call(1), 2), (call(2), 1), (call(2), 1)]);
        // In the middle of a choice it is none.
        let mut found = Vec::new();
        tails(&ops, &mut found);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_body_that_would_be_too_long_stays() {
        let ops: Vec<Op> = (0..40).map(|_| choice(vec![call(0)], vec![])).collect();
        assert!(normal(&ops).is_none());
    }
}
