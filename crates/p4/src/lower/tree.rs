//! A structured tree of steps, and what is made of it: blocks, actions, parser states.
//!
//! `return`, `exit`, `break` and `continue` are a [`Step::Break`] out of the [`Step::Scope`] with its
//! label. Blocks and states are written like assembly: a label is placed after everything that jumps
//! to it, so control moves to later blocks only. An action has no jumps: leaving a scope sets a flag,
//! and what follows is done if no flag is set.

use super::step::{Label, Step};
use super::{Lower, Refused, Result};
use crate::source::Span;
use ir::program::{ParserOp, Select, SelectCase, Terminator, Transition};
use ir::{ActionId, Bits, BlockId, Expr, FieldRef, Op, ParserStateId, TableId};
use std::collections::HashMap;

/// Nothing but operations and `if`s of them.
fn simple(steps: &[Step]) -> bool {
    steps.iter().all(|s| match s {
        Step::Op(op) => !matches!(op, Op::Goto(_)),
        Step::If(_, a, b) => simple(a) && simple(b),
        _ => false,
    })
}

fn depth(steps: &[Step]) -> u32 {
    steps
        .iter()
        .map(|s| match s {
            Step::If(_, a, b) => 1 + depth(a).max(depth(b)),
            _ => 0,
        })
        .max()
        .unwrap_or(0)
}

fn plain(steps: Vec<Step>) -> Vec<Op> {
    steps
        .into_iter()
        .filter_map(|s| match s {
            Step::Op(op) => Some(op),
            Step::If(condition, a, b) => {
                Some(Op::If { condition, then: plain(a), or_else: plain(b) })
            }
            _ => None,
        })
        .collect()
}

/// How many steps there are, those inside of others counted.
pub(super) fn weight(steps: &[Step]) -> u64 {
    let of = |s: &Step| match s {
        Step::If(_, a, b) => weight(a) + weight(b),
        Step::Scope(_, a) => weight(a),
        Step::Apply { hit, miss, by_action, .. } => {
            weight(hit) + weight(miss) + by_action.iter().map(|(_, s)| weight(s)).sum::<u64>()
        }
        _ => 0,
    };
    steps.iter().map(|s| 1 + of(s)).sum()
}

/// Leaves some scope, somewhere inside.
fn leaves(steps: &[Step]) -> bool {
    steps.iter().any(|s| match s {
        Step::Break(_) => true,
        Step::If(_, a, b) => leaves(a) || leaves(b),
        Step::Scope(_, a) => leaves(a),
        _ => false,
    })
}

/// Leaves this scope, somewhere inside.
pub(super) fn leaves_for(steps: &[Step], label: Label) -> bool {
    steps.iter().any(|s| match s {
        Step::Break(l) => *l == label,
        Step::If(_, a, b) => leaves_for(a, label) || leaves_for(b, label),
        Step::Scope(_, a) => leaves_for(a, label),
        Step::Apply { hit, miss, by_action, .. } => {
            leaves_for(hit, label)
                || leaves_for(miss, label)
                || by_action.iter().any(|(_, s)| leaves_for(s, label))
        }
        _ => false,
    })
}

/// A place to jump to, not yet placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark(usize);

#[derive(Clone, Debug)]
enum End {
    Jump(Mark),
    If(Expr, Mark, Mark),
    Apply(TableId, Mark, Mark, Vec<(ActionId, Mark)>),
    Exit,
}

/// A block's operations and end.
pub(super) type Written = (Vec<Op>, Terminator);

/// Blocks in the making.
#[derive(Default)]
pub(super) struct Assembler {
    blocks: Vec<(Vec<Op>, Option<End>)>,
    marks: Vec<Option<usize>>,
    labels: HashMap<Label, Mark>,
    /// What is written now cannot be reached.
    dead: bool,
}

impl Assembler {
    pub(super) fn new() -> Assembler {
        Assembler { blocks: vec![(Vec::new(), None)], ..Assembler::default() }
    }

    fn mark(&mut self) -> Mark {
        self.marks.push(None);
        Mark(self.marks.len() - 1)
    }

    fn end(&mut self, end: End) {
        if !self.dead
            && let Some(last) = self.blocks.last_mut()
        {
            last.1 = Some(end);
        }
        self.dead = true;
    }

    fn place(&mut self, mark: Mark) {
        if !self.dead {
            self.end(End::Jump(mark));
        }
        self.marks[mark.0] = Some(self.blocks.len());
        self.blocks.push((Vec::new(), None));
        self.dead = false;
    }

    /// The place a label stands for, for those who jump there from outside.
    pub(super) fn mark_of(&mut self, label: Label) -> usize {
        if let Some(m) = self.labels.get(&label) {
            return m.0;
        }
        let m = self.mark();
        self.labels.insert(label, m);
        m.0
    }

    /// Begins a block here under this label.
    pub(super) fn begin(&mut self, label: Label) {
        let m = Mark(self.mark_of(label));
        self.place(m);
    }

    /// Ends the pass here.
    pub(super) fn exit(&mut self) {
        self.end(End::Exit);
    }

    pub(super) fn steps(&mut self, steps: Vec<Step>) {
        for step in steps {
            if self.dead {
                return;
            }
            match step {
                Step::Op(op) => {
                    if let Some(last) = self.blocks.last_mut() {
                        last.0.push(op);
                    }
                }
                Step::If(condition, a, b) => {
                    if simple(&a) && simple(&b) && depth(&a).max(depth(&b)) < 16 {
                        if let Some(last) = self.blocks.last_mut() {
                            last.0.push(Op::If { condition, then: plain(a), or_else: plain(b) });
                        }
                        continue;
                    }
                    let (then, or_else, join) = (self.mark(), self.mark(), self.mark());
                    self.end(End::If(condition, then, or_else));
                    for (mark, steps) in [(then, a), (or_else, b)] {
                        self.place(mark);
                        self.steps(steps);
                        self.end(End::Jump(join));
                    }
                    self.place(join);
                }
                Step::Apply { table, hit, miss, by_action } => {
                    let (h, m, join) = (self.mark(), self.mark(), self.mark());
                    let marks: Vec<Mark> = by_action.iter().map(|_| self.mark()).collect();
                    let mut on: Vec<(ActionId, Mark)> = Vec::new();
                    for ((actions, _), mark) in by_action.iter().zip(&marks) {
                        on.extend(actions.iter().map(|a| (*a, *mark)));
                    }
                    self.end(End::Apply(table, h, m, on));
                    let lists = by_action.into_iter().map(|(_, s)| s);
                    for (mark, steps) in marks.into_iter().zip(lists).chain([(h, hit), (m, miss)]) {
                        self.place(mark);
                        self.steps(steps);
                        self.end(End::Jump(join));
                    }
                    self.place(join);
                }
                Step::Scope(label, inner) => {
                    let mark = Mark(self.mark_of(label));
                    self.steps(inner);
                    self.place(mark);
                }
                Step::Break(label) => {
                    let mark = Mark(self.mark_of(label));
                    self.end(End::Jump(mark));
                }
                Step::Parse(_) | Step::ExtractAt { .. } | Step::Parser { .. } | Step::Emit(_) => {}
            }
        }
    }

    /// The blocks, and where each label's block is.
    pub(super) fn finish(mut self) -> (Vec<Written>, HashMap<Label, BlockId>) {
        if !self.dead {
            self.end(End::Exit);
        }
        let at = |m: &Mark| BlockId(self.marks[m.0].unwrap_or(0) as u32);
        let blocks = self
            .blocks
            .iter()
            .map(|(ops, end)| {
                let end = match end {
                    None | Some(End::Exit) => Terminator::Exit,
                    Some(End::Jump(m)) => Terminator::Jump(at(m)),
                    Some(End::If(c, a, b)) => {
                        Terminator::If { condition: c.clone(), then: at(a), or_else: at(b) }
                    }
                    Some(End::Apply(table, h, m, on)) => Terminator::Apply {
                        table: *table,
                        hit: at(h),
                        miss: at(m),
                        by_action: on.iter().map(|(a, m)| (*a, at(m))).collect(),
                    },
                };
                (ops.clone(), end)
            })
            .collect();
        let labels = self.labels.iter().map(|(l, m)| (*l, at(m))).collect();
        (blocks, labels)
    }
}

impl Lower<'_> {
    /// Steps without jumps: an action's body.
    pub(super) fn ops(&mut self, steps: Vec<Step>) -> Result<Vec<Op>> {
        let mut flags = HashMap::new();
        self.ops_with(steps, &mut flags)
    }

    fn flag(&mut self, label: Label, flags: &mut HashMap<Label, FieldRef>) -> FieldRef {
        if let Some(f) = flags.get(&label) {
            return *f;
        }
        let (field, _) = self.temp("left", 1);
        flags.insert(label, field);
        field
    }

    fn ops_with(
        &mut self,
        steps: Vec<Step>,
        flags: &mut HashMap<Label, FieldRef>,
    ) -> Result<Vec<Op>> {
        let mut out = Vec::new();
        let mut steps = steps.into_iter();
        while let Some(step) = steps.next() {
            match step {
                Step::Op(op) => out.push(op),
                Step::Break(label) => {
                    let flag = self.flag(label, flags);
                    out.push(Op::Assign(flag, Expr::bool(true)));
                    // Nothing after it is reached.
                    return Ok(out);
                }
                Step::Scope(label, inner) => {
                    let left = leaves_for(&inner, label);
                    if left {
                        let flag = self.flag(label, flags);
                        out.push(Op::Assign(flag, Expr::bool(false)));
                    }
                    // What leaves an outer scope is seen by what follows here.
                    let outer: Vec<Label> = flags
                        .keys()
                        .copied()
                        .filter(|l| *l != label && leaves_for(&inner, *l))
                        .collect();
                    out.extend(self.ops_with(inner, flags)?);
                    if !outer.is_empty() {
                        let rest: Vec<Step> = steps.collect();
                        return self.guarded(out, &outer, rest, flags);
                    }
                }
                Step::If(condition, a, b) => {
                    let labels = broken(&a).into_iter().chain(broken(&b)).collect::<Vec<_>>();
                    for l in &labels {
                        self.flag(*l, flags);
                    }
                    let then = self.ops_with(a, flags)?;
                    let or_else = self.ops_with(b, flags)?;
                    out.push(Op::If { condition, then, or_else });
                    if !labels.is_empty() {
                        let rest: Vec<Step> = steps.collect();
                        return self.guarded(out, &labels, rest, flags);
                    }
                }
                Step::Apply { .. }
                | Step::Parse(_)
                | Step::ExtractAt { .. }
                | Step::Parser { .. }
                | Step::Emit(_) => return Err(Refused),
            }
        }
        Ok(out)
    }

    /// A loop of steps without jumps; what leaves scopes around it does so behind it.
    pub(super) fn loop_steps(
        &mut self,
        condition: Expr,
        steps: Vec<Step>,
        span: Span,
    ) -> Result<Vec<Step>> {
        if applies(&steps) {
            return self.refuse(
                span,
                "a table in a loop whose end is not known at compile time is not supported",
            );
        }
        let mut flags = HashMap::new();
        let mut out = Vec::new();
        let left: Vec<(Label, FieldRef)> =
            broken(&steps).into_iter().map(|l| (l, self.flag(l, &mut flags))).collect();
        for (_, flag) in &left {
            out.push(Step::Op(Op::Assign(*flag, Expr::bool(false))));
        }
        let body = self.ops_with(steps, &mut flags)?;
        out.push(Step::Op(Op::Loop { condition, body }));
        for (label, flag) in left {
            out.push(Step::If(Expr::Field(flag), vec![Step::Break(label)], Vec::new()));
        }
        Ok(out)
    }

    /// What follows, if none of these scopes was left.
    fn guarded(
        &mut self,
        mut out: Vec<Op>,
        labels: &[Label],
        rest: Vec<Step>,
        flags: &mut HashMap<Label, FieldRef>,
    ) -> Result<Vec<Op>> {
        if rest.is_empty() {
            return Ok(out);
        }
        let mut condition = Expr::bool(false);
        for l in labels {
            let flag = self.flag(*l, flags);
            condition = super::fold::binary(ir::BinaryOp::LogicalOr, condition, Expr::Field(flag));
        }
        let then = self.ops_with(rest, flags)?;
        out.push(Op::If { condition: super::fold::not(condition), then, or_else: Vec::new() });
        Ok(out)
    }

    /// Steps of a parser state, from this state of the pipeline language on, to `next`.
    pub(super) fn states(
        &mut self,
        steps: Vec<Step>,
        from: ParserStateId,
        next: Transition,
        name: &str,
        span: Span,
    ) -> Result<()> {
        let mut w = States { at: from, ops: Vec::new(), dead: false, labels: HashMap::new() };
        self.state_steps(&mut w, steps, name, span)?;
        if !w.dead {
            self.b.set_state(w.at, w.ops, next);
        }
        Ok(())
    }

    fn new_state(&mut self, name: &str) -> ParserStateId {
        let name = self.unique(&format!("{name}.s"));
        self.b.state(&name)
    }

    fn state_steps(
        &mut self,
        w: &mut States,
        steps: Vec<Step>,
        name: &str,
        span: Span,
    ) -> Result<()> {
        for step in steps {
            if w.dead {
                return Ok(());
            }
            match step {
                Step::Parse(op) => w.ops.push(op),
                Step::Op(Op::Assign(f, e)) => w.ops.push(ParserOp::Assign(f, e)),
                Step::Op(Op::AssignSlice(f, hi, lo, e)) => {
                    let width = self.b.program().field_width(f).unwrap_or(hi + 1);
                    let old = Expr::Field(f);
                    let mut value = e;
                    if hi + 1 < width {
                        value = Expr::binary(
                            ir::BinaryOp::Concat,
                            old.clone().slice(width - 1, hi + 1),
                            value,
                        );
                    }
                    if lo > 0 {
                        value = Expr::binary(ir::BinaryOp::Concat, value, old.slice(lo - 1, 0));
                    }
                    w.ops.push(ParserOp::Assign(f, value));
                }
                Step::Op(Op::If { condition, then, or_else }) => {
                    let wrap = |ops: Vec<Op>| ops.into_iter().map(Step::Op).collect();
                    let step = Step::If(condition, wrap(then), wrap(or_else));
                    self.state_steps(w, vec![step], name, span)?;
                }
                Step::Op(op @ (Op::SetValid(_) | Op::SetInvalid(_) | Op::CopyHeader { .. })) => {
                    self.parser_header(&op, None, &mut w.ops, span)?;
                }
                Step::Op(op) => {
                    let what = match op {
                        Op::PushFront(..) | Op::PopFront(..) => "shifting a stack",
                        Op::RegisterRead { .. } | Op::RegisterWrite { .. } => "a register",
                        Op::Count { .. } => "a counter",
                        Op::Loop { .. } => "a loop whose end is not known at compile time",
                        Op::CopyVarbit { .. } => "an assignment of varbit",
                        _ => "this extern",
                    };
                    return self.refuse(span, format!("{what} in a parser is not supported"));
                }
                // One header of several: no states of its own.
                Step::If(c, a, b)
                    if b.is_empty()
                        && matches!(
                            a.as_slice(),
                            [Step::Op(Op::SetValid(_) | Op::SetInvalid(_) | Op::CopyHeader { .. })]
                        ) =>
                {
                    for step in a {
                        let Step::Op(op) = step else { continue };
                        self.parser_header(&op, Some(&c), &mut w.ops, span)?;
                    }
                }
                Step::ExtractAt { index, headers, varbit } => {
                    let join = self.new_state(name);
                    let width = self.index_width(&index);
                    let mut cases = Vec::new();
                    for (i, header) in headers.into_iter().enumerate() {
                        let state = self.new_state(name);
                        let op = ParserOp::Extract { header, varbit: varbit.clone() };
                        self.b.set_state(state, vec![op], Transition::State(join));
                        let number = Bits::from_u128(i as u128, width);
                        let pattern = Select::Masked(number, Bits::ones(width));
                        let next = Transition::State(state);
                        cases.push(SelectCase { patterns: vec![pattern], next });
                    }
                    let next = Transition::Select { keys: vec![index], cases };
                    self.b.set_state(w.at, std::mem::take(&mut w.ops), next);
                    w.at = join;
                }
                Step::Parser { start, done } => {
                    let ops = std::mem::take(&mut w.ops);
                    self.b.set_state(w.at, ops, Transition::State(start));
                    w.at = done;
                }
                Step::If(c, a, b) => {
                    let (then, or_else, join) =
                        (self.new_state(name), self.new_state(name), self.new_state(name));
                    let case = |bit: u128, to| SelectCase {
                        patterns: vec![Select::Masked(Bits::from_u128(bit, 1), Bits::ones(1))],
                        next: Transition::State(to),
                    };
                    let next = Transition::Select {
                        keys: vec![c],
                        cases: vec![case(1, then), case(0, or_else)],
                    };
                    self.b.set_state(w.at, std::mem::take(&mut w.ops), next);
                    for (state, steps) in [(then, a), (or_else, b)] {
                        w.at = state;
                        w.dead = false;
                        self.state_steps(w, steps, name, span)?;
                        if !w.dead {
                            self.b.set_state(
                                w.at,
                                std::mem::take(&mut w.ops),
                                Transition::State(join),
                            );
                        }
                    }
                    w.at = join;
                    w.ops.clear();
                    w.dead = false;
                }
                Step::Scope(label, inner) => {
                    let after = self.new_state(name);
                    w.labels.insert(label, after);
                    self.state_steps(w, inner, name, span)?;
                    if !w.dead {
                        self.b.set_state(
                            w.at,
                            std::mem::take(&mut w.ops),
                            Transition::State(after),
                        );
                    }
                    w.at = after;
                    w.ops.clear();
                    w.dead = false;
                }
                Step::Break(label) => {
                    let Some(to) = w.labels.get(&label).copied() else { return Err(Refused) };
                    self.b.set_state(w.at, std::mem::take(&mut w.ops), Transition::State(to));
                    w.dead = true;
                }
                Step::Apply { .. } | Step::Emit(_) => return Err(Refused),
            }
        }
        Ok(())
    }
}

struct States {
    at: ParserStateId,
    ops: Vec<ParserOp>,
    dead: bool,
    labels: HashMap<Label, ParserStateId>,
}

/// A table is looked up, somewhere inside.
fn applies(steps: &[Step]) -> bool {
    steps.iter().any(|s| match s {
        Step::Apply { .. } => true,
        Step::If(_, a, b) => applies(a) || applies(b),
        Step::Scope(_, a) => applies(a),
        _ => false,
    })
}

/// Labels left inside that are not of scopes inside.
fn broken(steps: &[Step]) -> Vec<Label> {
    let mut out = Vec::new();
    fn go(steps: &[Step], own: &mut Vec<Label>, out: &mut Vec<Label>) {
        for s in steps {
            match s {
                Step::Break(l) if !own.contains(l) && !out.contains(l) => out.push(*l),
                Step::If(_, a, b) => {
                    go(a, own, out);
                    go(b, own, out);
                }
                Step::Scope(l, a) => {
                    own.push(*l);
                    go(a, own, out);
                    own.pop();
                }
                _ => {}
            }
        }
    }
    if leaves(steps) {
        go(steps, &mut Vec::new(), &mut out);
    }
    out
}
