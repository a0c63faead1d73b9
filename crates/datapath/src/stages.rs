//! A compiled pipeline as the cost model sees it (ESWITCH §4.4).
//!
//! What is known without running it: tables, templates, sizes, what actions do. What only traffic
//! shows, how often each table is visited, comes from the caller, who has the tables' counters.

use ir::{Action, Expr, FieldRef, HeaderId, Op, ParserOp, ParserStateId, Program, Transition};
use plan::cost::ActionShape;
use std::collections::BTreeSet;

/// What an action does to a packet, both branches of a condition counted half.
pub(crate) fn action_shape(program: &Program, action: &Action) -> ActionShape {
    let mut shape = ActionShape::default();
    let mut written = BTreeSet::new();
    add(&action.body, 1.0, &mut shape, &mut written);
    let covered = |c: &&ir::Checksum| {
        let mut hit = false;
        let mut look = |e: &Expr| hit |= matches!(e, Expr::Field(f) if written.contains(f));
        c.inputs.iter().for_each(|input| input.visit(&mut look));
        hit
    };
    shape.checksums = program.checksums.iter().filter(covered).count() as f64;
    shape
}

fn add(ops: &[Op], share: f64, shape: &mut ActionShape, written: &mut BTreeSet<FieldRef>) {
    for op in ops {
        match op {
            Op::Assign(field, _) | Op::AssignSlice(field, ..)
                if !matches!(field, FieldRef::Meta(_)) && written.insert(*field) =>
            {
                shape.stores += share;
            }
            Op::PushFront(..) | Op::SetValid(_) => shape.pushes += share,
            Op::PopFront(..) | Op::SetInvalid(_) => shape.pops += share,
            Op::Output { .. } => shape.outputs += share,
            Op::If { then, or_else, .. } => {
                // A test that guards against what is rare: the longer branch is the usual one.
                let (long, short) =
                    if then.len() >= or_else.len() { (then, or_else) } else { (or_else, then) };
                add(long, share, shape, written);
                if !short.is_empty() && !short.iter().any(|op| matches!(op, Op::Drop(_))) {
                    add(short, share / 2.0, shape, written);
                }
            }
            _ => {}
        }
    }
}

/// Headers that the parser takes on its longest way, a stack's elements counted once.
pub(crate) fn parse_layers(program: &Program) -> f64 {
    fn longest(program: &Program, at: usize, seen: &mut Vec<usize>) -> usize {
        if seen.contains(&at) || seen.len() > 64 {
            return 0;
        }
        let Some(state) = program.parser.get(at) else { return 0 };
        seen.push(at);
        let mut taken: BTreeSet<HeaderId> = BTreeSet::new();
        for op in &state.ops {
            match op {
                ParserOp::Extract { header, .. } => {
                    taken.insert(*header);
                }
                ParserOp::ExtractNext { stack, .. } => {
                    taken.insert(program.stacks[stack.index()].first);
                }
                _ => {}
            }
        }
        let mut next: Vec<ParserStateId> = Vec::new();
        match &state.next {
            Transition::State(state) => next.push(*state),
            Transition::Select { cases, .. } => {
                for case in cases {
                    if let Transition::State(state) = &case.next {
                        next.push(*state);
                    }
                }
            }
            Transition::Accept | Transition::Reject => {}
        }
        next.sort_unstable();
        next.dedup();
        let deepest = next.iter().map(|n| longest(program, n.index(), seen)).max();
        seen.pop();
        taken.len() + deepest.unwrap_or(0)
    }
    longest(program, 0, &mut Vec::new()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_action_does_is_counted() {
        let text = "\
use std
action route(mac: 48, port: 32) {
  if ipv4.ttl <= 1 { drop }
  ipv4.ttl = ipv4.ttl - 1
  eth.dst = mac
  eth.dst = mac
  output port
}
block start { end }
";
        let program = ir::text::program(text).unwrap();
        let route = program.find_action("route").unwrap();
        let shape = action_shape(&program, &program.actions[route.index()]);
        assert_eq!((shape.stores, shape.outputs, shape.pushes), (2.0, 1.0, 0.0));
        assert!(shape.checksums <= 1.0);
        assert!(parse_layers(&program) >= 3.0);
    }
}
