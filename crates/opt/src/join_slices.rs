//! Makes one write of several that together are a whole field.
//!
//! ```text
//! f[15:8] = a
//! f[7:0] = b      becomes   f = a ++ b
//! ```
//!
//! if they follow one another and none reads the field. One slice that is the whole field becomes a
//! plain write, which says that nothing of the old value is left.
//!
//! Requires: nothing. Ensures: no slice is the whole field.

use crate::state::elements;
use crate::work::Work;
use ir::{BinaryOp, Expr, FieldRef, Op, Program};

/// Most slices joined, so that the expression is not nested deeply.
const SLICES_MAX: usize = 16;

/// See the module.
pub(crate) fn join_slices(work: &mut Work<'_>) {
    let mut joined = 0;
    let mut blocks = Vec::new();
    for (at, block) in work.program.blocks.iter().enumerate() {
        if let Some(ops) = list(&work.program, &block.ops, &mut joined) {
            blocks.push((at, ops));
        }
    }
    let new = |(id, body): (&ir::ActionId, &[Op]), joined: &mut usize| {
        Some((*id, list(&work.program, body, joined)?))
    };
    let actions = work.actions.iter().map(|(id, action)| (id, &*action.body));
    let bodies: Vec<_> = actions.filter_map(|action| new(action, &mut joined)).collect();
    blocks.into_iter().for_each(|(at, ops)| work.program.blocks[at].ops = ops);
    bodies.into_iter().for_each(|(id, body)| work.set_body(id, body));
    if joined > 0 {
        work.note("join_slices", format!("{joined} fields are written whole"));
    }
}

/// The list rewritten, if there is anything to rewrite.
fn list(program: &Program, ops: &[Op], joined: &mut usize) -> Option<Vec<Op>> {
    let mut sliced = false;
    let mut look = |op: &Op| sliced |= matches!(op, Op::AssignSlice(..));
    ops.iter().for_each(|op| op.visit(&mut look));
    if !sliced {
        return None;
    }
    let mut out = Vec::with_capacity(ops.len());
    let mut at = 0;
    while at < ops.len() {
        if let Some((whole, n)) = run(program, &ops[at..]) {
            *joined += 1;
            out.push(whole);
            at += n;
            continue;
        }
        out.push(match &ops[at] {
            Op::If { condition, then, or_else } => Op::If {
                condition: condition.clone(),
                then: list(program, then, joined).unwrap_or_else(|| then.clone()),
                or_else: list(program, or_else, joined).unwrap_or_else(|| or_else.clone()),
            },
            op => op.clone(),
        });
        at += 1;
    }
    Some(out)
}

/// The write that the first operations come to, and how many they are.
fn run(program: &Program, ops: &[Op]) -> Option<(Op, usize)> {
    let Some(Op::AssignSlice(field, ..)) = ops.first() else { return None };
    let width = program.field_width(*field)?;
    // Highest bits first, no two of which overlap.
    let mut pieces: Vec<(u32, u32, &Expr)> = Vec::new();
    for (n, op) in ops.iter().enumerate().take(SLICES_MAX) {
        let Op::AssignSlice(same, hi, lo, value) = op else { return None };
        let apart = pieces.iter().all(|(h, l, _)| hi < l || lo > h);
        if same != field || !apart || n > 0 && reads(program, value, *field) {
            return None;
        }
        let place = pieces.partition_point(|(h, ..)| h > hi);
        pieces.insert(place, (*hi, *lo, value));
        if pieces.iter().map(|(hi, lo, _)| hi - lo + 1).sum::<u32>() == width {
            let mut values = pieces.iter().map(|(.., value)| (*value).clone());
            let first = values.next()?;
            let whole = values.fold(first, |all, e| Expr::binary(BinaryOp::Concat, all, e));
            return Some((Op::Assign(*field, whole), n + 1));
        }
    }
    None
}

/// The value depends on the field, which other writes may have changed.
fn reads(program: &Program, e: &Expr, field: FieldRef) -> bool {
    let within = |f: &FieldRef| match (*f, field) {
        (a, b) if a == b => true,
        (FieldRef::Last(stack, a), FieldRef::Header(h, b))
        | (FieldRef::Header(h, b), FieldRef::Last(stack, a)) => {
            a == b && elements(program, stack).contains(&h.index())
        }
        _ => false,
    };
    let mut found = false;
    e.visit(&mut |e| found |= matches!(e, Expr::Field(f) if within(f)));
    found
}
