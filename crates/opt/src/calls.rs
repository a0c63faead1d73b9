//! What a call leads to, as a copy of blocks that lead back.
//!
//! ```text
//! action a: pre; call t5 until set; post        becomes    action a: pre; goto t5@1
//! block t5: apply t5 hit set miss set                      block t5@1: apply t5@1 hit back@1 miss back@1
//!                                                          block back@1: post; jump wherever a leads
//! ```
//!
//! The engine gives packets up at calls, but not at jumps. So what is called is laid out once more for each call, behind the
//! last table that runs the calling action and in front of all that comes behind; a call within a copy has a copy of its
//! own. What ends the pass there ends the call only: a drop is one on a copy of the packet, which counts the same and goes
//! on. What the action does behind the call stands in a block, and the arguments that it looks at are kept in metadata.
//!
//! A call stays as it is where that would be long, where lookups take another port's guise, and where it is unknown where
//! control goes behind it. In copies, and behind calls, what tells the control side where the packet has been, calls a
//! service, or may end the pass by itself is given up: a call that does nothing stands there.
//!
//! Copies of tables and actions have the numbers that [`unroll`](crate::unroll) says.
//!
//! Requires: calls are given up. Ensures: what is not given up does the same.
//! Checked by: `tests/oracle.rs`.

use crate::contents::Contents;
use crate::copies::{ACTIONS, beside_copy, writes};
use crate::simplify::Facts;
use crate::state::State;
use ir::program::{MetaField, intrinsic};
use ir::{
    Action, ActionId, Block, BlockId, DropReason, Expr, FieldRef, MetaId, Op, ParserOp, Program,
    Table, TableId, Terminator,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Copies, the pipeline itself included, at most.
const COPIES_MAX: usize = 48;
/// Blocks of one copy, at most.
const CALLED_MAX: usize = 24;
/// Blocks of all copies, at most.
const BLOCKS_MAX: usize = 512;
/// Calls inside of each other, at most.
const DEPTH_MAX: u32 = 8;
/// Choices into both sides of which is moved what follows, at most.
const CHOICES_MAX: usize = 256;

/// The program with what is called laid out, and its contents. None if there is nothing to lay out.
pub(crate) fn lay_out(program: &Program, contents: &Contents) -> Option<(Program, Contents)> {
    let calls = |action: &Arc<Action>| may_call(&action.body);
    if !contents.actions.values().any(calls) || contents.actions.keys().any(|id| id.0 >= ACTIONS) {
        return None;
    }
    let (program, contents) = decided(program, contents);
    let mut lay = Lay::new(&program, &contents);
    lay.pipeline();
    (lay.copies.len() > 1).then(|| lay.finish())
}

/// The same without what is decided by metadata that nobody writes, which is not worth a copy.
fn decided(program: &Program, contents: &Contents) -> (Program, Contents) {
    let mut written: BTreeSet<MetaId> = BTreeSet::new();
    for state in &program.parser {
        for op in &state.ops {
            if let ParserOp::Assign(FieldRef::Meta(meta), _) = op {
                written.insert(*meta);
            }
        }
    }
    let blocks = program.blocks.iter().map(|block| &block.ops);
    for op in blocks.chain(contents.actions.values().map(|action| &action.body)).flatten() {
        op.visit(&mut |op| match op {
            Op::Assign(_, Expr::Const(value)) if value.is_zero() => {}
            op => writes(op, &mut |meta| {
                written.insert(meta);
            }),
        });
    }
    let mut state = State::anything(program);
    for (meta, known) in State::received(program).metas() {
        let own = meta.index() >= intrinsic::FIELDS.len();
        let idle = own && !written.contains(&meta);
        if idle && known.only() == Some(0) {
            state.set_meta(meta, known);
        }
    }
    let facts = Facts { program, state: &state, args: &[] };
    let mut program = program.clone();
    for block in &mut program.blocks {
        block.ops = decided_ops(&facts, &block.ops);
        if let Terminator::If { condition, then, or_else } = &block.end
            && let Some(value) = facts.simplify(condition).0.only()
        {
            block.end = Terminator::Jump(if value == 0 { *or_else } else { *then });
        }
    }
    let mut contents = contents.clone();
    for action in contents.actions.values_mut() {
        let body = decided_ops(&facts, &action.body);
        if body != action.body {
            Arc::make_mut(action).body = body;
        }
    }
    (program, contents)
}

fn decided_ops(facts: &Facts<'_>, ops: &[Op]) -> Vec<Op> {
    let mut out = Vec::with_capacity(ops.len());
    for op in ops {
        let Op::If { condition, then, or_else } = op else {
            out.push(op.clone());
            continue;
        };
        let taken = match facts.simplify(condition).0.only() {
            Some(0) => or_else,
            Some(_) => then,
            None => {
                let (then, or_else) = (decided_ops(facts, then), decided_ops(facts, or_else));
                out.push(Op::If { condition: condition.clone(), then, or_else });
                continue;
            }
        };
        match taken.is_empty() {
            // It was something that was done.
            true => out.push(idle()),
            false => out.extend(decided_ops(facts, taken)),
        }
    }
    out
}

/// What has no effect, but that something was done.
fn idle() -> Op {
    Op::If { condition: Expr::bool(false), then: Vec::new(), or_else: Vec::new() }
}

/// A call of which lookups see the packet as it is, and which is over where control comes to by itself.
fn is_plain(op: &Op) -> bool {
    matches!(op, Op::Call { block, until, guise: None, .. } if until > block)
}

/// The packet itself may call something in these operations.
fn may_call(ops: &[Op]) -> bool {
    ops.iter().any(|op| match op {
        Op::If { then, or_else, .. } => may_call(then) || may_call(or_else),
        op => is_plain(op),
    })
}

/// A place in the new order of blocks, before that is known. Block numbers of new blocks are these.
type Label = u32;

/// The pipeline, or a copy of what a call leads to.
struct Copy {
    /// By block of the pipeline.
    labels: BTreeMap<BlockId, Label>,
    /// Where control goes when it is over, and at which block it is: none for the pipeline itself.
    back: Option<(Label, BlockId)>,
    /// Calls that it is inside of.
    depth: u32,
}

/// Where control goes at the end of a list that became a block.
#[derive(Clone, Copy)]
enum End {
    /// As behind this block of the pipeline.
    Of(BlockId),
    /// There; or nowhere.
    To(Option<Label>),
}

/// A call to be laid out, and what stands behind it.
struct Called {
    copy: usize,
    rest: Vec<Op>,
    end: Option<Label>,
}

struct Lay<'a> {
    program: &'a Program,
    contents: &'a Contents,
    copies: Vec<Copy>,
    /// Blocks in their order, by label.
    order: Vec<(Label, Block)>,
    labels: Label,
    actions: BTreeMap<ActionId, Arc<Action>>,
    metadata: Vec<MetaField>,
    /// Blocks of copies.
    copied: usize,
    /// Choices that had what follows moved into them.
    choices: usize,
    /// Groups may tell the control side something.
    groups_tell: bool,
    /// Some default action does nothing, so that a packet may have missed.
    missed: bool,
}

impl<'a> Lay<'a> {
    fn new(program: &'a Program, contents: &'a Contents) -> Lay<'a> {
        let body = |id: &ActionId| contents.actions.get(id).map_or(&[][..], |a| &a.body);
        let tells = |id: &ActionId| any(body(id), &|op| matches!(op, Op::Punt { .. }));
        let groups_tell =
            contents.buckets.as_ref().is_none_or(|buckets| buckets.actions.iter().any(tells));
        let idle = |id: &ActionId| body(id).iter().all(|op| matches!(op, Op::Exit));
        Lay {
            program,
            contents,
            copies: Vec::new(),
            order: Vec::new(),
            labels: 0,
            actions: BTreeMap::new(),
            metadata: program.metadata.clone(),
            copied: 0,
            choices: 0,
            groups_tell,
            missed: contents.tables.iter().any(|t| idle(&t.default.action)),
        }
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        self.labels - 1
    }

    fn pipeline(&mut self) {
        let blocks: Vec<BlockId> = (0..self.program.blocks.len() as u32).map(BlockId).collect();
        self.copy(&blocks, None, 0);
        self.blocks(0, &blocks);
    }

    /// A new copy, of these blocks.
    fn copy(&mut self, blocks: &[BlockId], back: Option<(Label, BlockId)>, depth: u32) -> usize {
        let labels = blocks.iter().map(|block| (*block, self.label())).collect();
        self.copies.push(Copy { labels, back, depth });
        self.copies.len() - 1
    }

    /// Lays a copy's blocks out, and behind each the copies that actions call which no later one runs.
    fn blocks(&mut self, copy: usize, blocks: &[BlockId]) {
        let mut users: BTreeMap<ActionId, Vec<BlockId>> = BTreeMap::new();
        for block in blocks {
            for id in self.run_by(*block) {
                users.entry(id).or_default().push(*block);
            }
        }
        for block in blocks {
            let old = &self.program.blocks[block.index()];
            let label = self.copies[copy].labels[block];
            if copy == 0 {
                let ops = self.relabelled(&old.ops);
                let end = self.end_of(copy, *block);
                self.order.push((label, Block { name: old.name.clone(), ops, end }));
            } else {
                self.block(copy, label, old.ops.clone(), End::Of(*block));
            }
            for id in self.run_by(*block) {
                if users.get(&id).and_then(|blocks| blocks.last()) == Some(block) {
                    self.action(copy, id, &users[&id]);
                }
            }
        }
    }

    /// Actions that the table of a block may run, each once.
    fn run_by(&self, block: BlockId) -> Vec<ActionId> {
        let Terminator::Apply { table, .. } = &self.program.blocks[block.index()].end else {
            return Vec::new();
        };
        let Some(table) = self.contents.tables.get(table.index()) else { return Vec::new() };
        let mut all = table.actions.clone();
        if !all.contains(&table.default.action) {
            all.push(table.default.action);
        }
        all
    }

    /// Where control goes in a copy when the pipeline has it go there. None: the pass ends.
    fn to(&self, copy: usize, block: BlockId) -> Option<Label> {
        let Copy { labels, back, .. } = &self.copies[copy];
        match back {
            Some((back, until)) if block == *until => Some(*back),
            Some((back, _)) => Some(labels.get(&block).copied().unwrap_or(*back)),
            None => labels.get(&block).copied(),
        }
    }

    /// The same from a block: what does not lead on ends the pass.
    fn on(&self, copy: usize, from: BlockId, block: BlockId) -> Option<Label> {
        match block > from {
            true => self.to(copy, block),
            false => self.copies[copy].back.map(|(back, _)| back),
        }
    }

    /// How a block of the pipeline ends in a copy.
    fn end_of(&mut self, copy: usize, from: BlockId) -> Terminator {
        let n = self.program.tables.len() as u32;
        let end = self.program.blocks[from.index()].end.clone();
        if copy == 0 {
            // Labels are in the blocks' order, so that what leads back still does.
            let at = |block: BlockId| match self.copies[0].labels.get(&block) {
                Some(label) => BlockId(*label),
                None => BlockId(self.copies[0].labels[&from]),
            };
            return match end {
                Terminator::Exit => Terminator::Exit,
                Terminator::Jump(to) => Terminator::Jump(at(to)),
                Terminator::If { condition, then, or_else } => {
                    Terminator::If { condition, then: at(then), or_else: at(or_else) }
                }
                Terminator::Apply { table, hit, miss, by_action } => Terminator::Apply {
                    table,
                    hit: at(hit),
                    miss: at(miss),
                    by_action: by_action.into_iter().map(|(a, to)| (a, at(to))).collect(),
                },
            };
        }
        let back = self.copies[copy].back.map_or(0, |(back, _)| back);
        let at = |block: BlockId| BlockId(self.on(copy, from, block).unwrap_or(back));
        match end {
            Terminator::Exit => Terminator::Jump(BlockId(back)),
            Terminator::Jump(to) => Terminator::Jump(at(to)),
            Terminator::If { condition, then, or_else } => {
                Terminator::If { condition, then: at(then), or_else: at(or_else) }
            }
            Terminator::Apply { table, hit, miss, .. } => Terminator::Apply {
                table: TableId(table.0 + copy as u32 * n),
                hit: at(hit),
                miss: at(miss),
                by_action: Vec::new(),
            },
        }
    }

    /// Operations of the pipeline itself, which lead to the same blocks.
    fn relabelled(&self, ops: &[Op]) -> Vec<Op> {
        let at = |block: &BlockId| {
            self.copies[0].labels.get(block).map_or(*block, |label| BlockId(*label))
        };
        let one = |op: &Op| match op {
            Op::Goto(block) => Op::Goto(at(block)),
            Op::Clone { block, copy } => Op::Clone { block: at(block), copy: *copy },
            Op::Call { block, until, guise, site } => {
                Op::Call { block: at(block), until: at(until), guise: guise.clone(), site: *site }
            }
            Op::If { condition, then, or_else } => Op::If {
                condition: condition.clone(),
                then: self.relabelled(then),
                or_else: self.relabelled(or_else),
            },
            Op::Loop { condition, body } => {
                Op::Loop { condition: condition.clone(), body: self.relabelled(body) }
            }
            Op::OnCopy { body } => Op::OnCopy { body: self.relabelled(body) },
            op => op.clone(),
        };
        ops.iter().map(one).collect()
    }

    /// The packet is given up.
    fn given_up(&self) -> Op {
        let nowhere = BlockId(self.copies[0].labels.get(&BlockId(0)).copied().unwrap_or(0));
        Op::Call { block: nowhere, until: nowhere, guise: None, site: 0 }
    }

    /// An operation, in a copy or behind a call, is given up.
    fn gives_up(&self, copy: usize, op: &Op) -> bool {
        let leads = |op: &Op| match op {
            Op::Punt { .. } | Op::Clone { .. } | Op::Call { .. } => true,
            Op::Group { .. } => self.groups_tell,
            _ => false,
        };
        let ends = match op {
            // It may end the pass by itself.
            Op::Service { .. } | Op::Reparse | Op::PushFront(..) => true,
            Op::Resubmit { .. } | Op::Recirculate { .. } => true,
            Op::Loop { body, .. } => any(body, &|op| matches!(op, Op::Drop(_) | Op::Exit)),
            Op::Drop(reason) => *reason == DropReason::LoopLimit,
            _ => false,
        };
        copy > 0 && ends || any(std::slice::from_ref(op), &leads)
    }

    /// Nothing behind an operation is done: it is given up, whichever way control takes in it.
    fn stops_at(&self, copy: usize, op: &Op) -> bool {
        !matches!(op, Op::If { .. }) && self.gives_up(copy, op)
    }

    /// Control may go elsewhere within these operations than to what is behind them.
    fn is_choice(copy: usize, ops: &[Op]) -> bool {
        ops.iter().any(|op| match op {
            Op::Goto(_) => true,
            Op::Drop(_) | Op::Exit => copy > 0,
            op if is_plain(op) => true,
            Op::If { then, or_else, .. } => {
                Self::is_choice(copy, then) || Self::is_choice(copy, or_else)
            }
            _ => false,
        })
    }

    /// A list that control does not leave, with what is given up in it.
    fn kept(&self, copy: usize, ops: &[Op]) -> Vec<Op> {
        let mut out = Vec::with_capacity(ops.len());
        for op in ops {
            match op {
                Op::If { condition, then, or_else } => out.push(Op::If {
                    condition: condition.clone(),
                    then: self.kept(copy, then),
                    or_else: self.kept(copy, or_else),
                }),
                op if self.gives_up(copy, op) => {
                    out.push(self.given_up());
                    break;
                }
                op => out.push(op.clone()),
            }
        }
        out
    }

    /// A list becomes a block with this label, in a copy: and others behind it, where it makes choices.
    fn block(&mut self, copy: usize, label: Label, ops: Vec<Op>, end: End) {
        let mut end = end;
        let mut out = Vec::with_capacity(ops.len());
        let back = self.copies[copy].back.map(|(back, _)| back);
        for (at, op) in ops.iter().enumerate() {
            let jump = match op {
                Op::Goto(block) => {
                    end = End::To(self.to(copy, *block));
                    continue;
                }
                Op::Drop(reason) if copy > 0 && *reason != DropReason::LoopLimit => {
                    out.push(Op::OnCopy { body: vec![Op::Drop(*reason)] });
                    back
                }
                Op::Exit if copy > 0 => back,
                Op::Call { block, until, .. } if is_plain(op) => {
                    let fall = match end {
                        End::To(to) => Some(to),
                        End::Of(_) => None,
                    };
                    let rest = ops[at + 1..].to_vec();
                    let called = fall.and_then(|to| self.call(copy, *block, *until, rest, to));
                    let Some(called) = called else {
                        out.push(self.given_up());
                        break;
                    };
                    let start = self.copies[called.copy].labels[block];
                    self.put(label, out, Terminator::Jump(BlockId(start)));
                    return self.called(copy, called);
                }
                Op::If { condition, then, or_else }
                    if Self::is_choice(copy, std::slice::from_ref(op)) =>
                {
                    let rest = &ops[at + 1..];
                    self.choices += 1;
                    if self.choices > CHOICES_MAX {
                        out.push(self.given_up());
                        break;
                    }
                    let labels = (self.label(), self.label());
                    let (then, or_else) = ([then, rest].concat(), [or_else, rest].concat());
                    let condition = condition.clone();
                    let (yes, no) = (BlockId(labels.0), BlockId(labels.1));
                    self.put(label, out, Terminator::If { condition, then: yes, or_else: no });
                    self.block(copy, labels.0, then, end);
                    self.block(copy, labels.1, or_else, end);
                    return;
                }
                op => {
                    out.extend(self.kept(copy, std::slice::from_ref(op)));
                    if self.stops_at(copy, op) {
                        break;
                    }
                    continue;
                }
            };
            let end = jump.map_or(Terminator::Exit, |to| Terminator::Jump(BlockId(to)));
            return self.put(label, out, end);
        }
        let end = match end {
            End::Of(block) => self.end_of(copy, block),
            End::To(Some(to)) => Terminator::Jump(BlockId(to)),
            End::To(None) => Terminator::Exit,
        };
        self.put(label, out, end);
    }

    fn put(&mut self, label: Label, ops: Vec<Op>, end: Terminator) {
        self.copied += 1;
        self.order.push((label, Block { name: format!("called@{label}"), ops, end }));
    }

    /// Makes room for what is called; none if it stays a call.
    fn call(
        &mut self,
        from: usize,
        start: BlockId,
        until: BlockId,
        rest: Vec<Op>,
        end: Option<Label>,
    ) -> Option<Called> {
        let depth = self.copies[from].depth + 1;
        let blocks = self.reached(start, until);
        let full = self.copies.len() >= COPIES_MAX || self.copied + blocks.len() > BLOCKS_MAX;
        if full || depth > DEPTH_MAX || blocks.is_empty() || blocks.len() > CALLED_MAX {
            return None;
        }
        let back = self.label();
        let copy = self.copy(&blocks, Some((back, until)), depth);
        Some(Called { copy, rest, end })
    }

    /// Lays out what is called, and behind it what stands behind the call.
    fn called(&mut self, from: usize, called: Called) {
        let Called { copy, rest, end } = called;
        let blocks: Vec<BlockId> = self.copies[copy].labels.keys().copied().collect();
        self.blocks(copy, &blocks);
        let mut ops = Vec::with_capacity(rest.len() + 1);
        if self.missed {
            // What was missed there was looked up by the way.
            ops.push(Op::If {
                condition: Expr::bool(false),
                then: Vec::new(),
                or_else: Vec::new(),
            });
        }
        ops.extend(rest);
        let label = self.copies[copy].back.map_or(0, |(back, _)| back);
        self.block(from, label, ops, End::To(end));
    }

    /// Blocks that control may come to before it comes to `until`, ascending.
    fn reached(&self, start: BlockId, until: BlockId) -> Vec<BlockId> {
        let mut found = BTreeSet::new();
        let mut left = vec![start];
        while let Some(at) = left.pop() {
            let Some(block) = self.program.blocks.get(at.index()) else { continue };
            if at == until || !found.insert(at) {
                continue;
            }
            if found.len() > CALLED_MAX {
                break;
            }
            let mut to = |to: BlockId| {
                if to > at {
                    left.push(to);
                }
            };
            match &block.end {
                Terminator::Exit => {}
                Terminator::Jump(next) => to(*next),
                Terminator::If { then, or_else, .. } => {
                    to(*then);
                    to(*or_else);
                }
                // Lists name actions of the pipeline.
                Terminator::Apply { by_action, .. } if !by_action.is_empty() => return Vec::new(),
                Terminator::Apply { hit, miss, .. } => {
                    to(*hit);
                    to(*miss);
                    for id in self.run_by(at) {
                        let Some(action) = self.contents.actions.get(&id) else { continue };
                        let mut goto = |op: &Op| {
                            if let Op::Goto(next) = op {
                                to(*next);
                            }
                        };
                        action.body.iter().for_each(|op| op.visit(&mut goto));
                    }
                }
            }
        }
        found.into_iter().collect()
    }

    /// Where control goes behind an action that does not say so itself, if that is one place behind all that run it.
    fn behind(&self, copy: usize, id: ActionId, users: &[BlockId]) -> Option<Option<Label>> {
        let last = *users.last()?;
        let mut all: BTreeSet<BlockId> = BTreeSet::new();
        for block in users {
            let Terminator::Apply { table, hit, miss, by_action } =
                &self.program.blocks[block.index()].end
            else {
                return None;
            };
            let table = self.contents.tables.get(table.index())?;
            if let Some((_, to)) = by_action.iter().find(|(action, _)| *action == id) {
                all.insert(*to);
                continue;
            }
            if table.actions.contains(&id) {
                all.insert(*hit);
            }
            if table.default.action == id {
                all.insert(*miss);
            }
        }
        match (all.len(), all.first()) {
            (1, Some(to)) if *to > last => Some(self.to(copy, *to)),
            _ => None,
        }
    }

    /// An action of a copy, run by the tables of these blocks.
    fn action(&mut self, copy: usize, id: ActionId, users: &[BlockId]) {
        let Some(action) = self.contents.actions.get(&id) else { return };
        if copy == 0 && !may_call(&action.body) {
            return;
        }
        let fall = self.behind(copy, id, users);
        let mut called = Vec::new();
        let body = self.list(copy, action, action.body.clone(), fall, &mut called);
        let (name, params) = (action.name.clone(), action.params.clone());
        let new = Action { name, params, body };
        self.actions.insert(beside_copy(id, copy), Arc::new(new));
        called.into_iter().for_each(|called| self.called(copy, called));
    }

    /// A list of an action. `fall` is where control goes behind it, as far as that is known; what it calls goes to
    /// `called`.
    fn list(
        &mut self,
        copy: usize,
        action: &Action,
        ops: Vec<Op>,
        mut fall: Option<Option<Label>>,
        called: &mut Vec<Called>,
    ) -> Vec<Op> {
        let back = self.copies[copy].back.map(|(back, _)| BlockId(back));
        let mut out = Vec::with_capacity(ops.len());
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Goto(block) => {
                    let to = self.to(copy, *block);
                    fall = Some(to);
                    out.extend(to.map(|to| Op::Goto(BlockId(to))));
                }
                Op::Drop(reason) if *reason != DropReason::LoopLimit && back.is_some() => {
                    out.push(Op::OnCopy { body: vec![Op::Drop(*reason)] });
                    out.extend(back.map(Op::Goto));
                    return out;
                }
                Op::Exit if back.is_some() => {
                    out.extend(back.map(Op::Goto));
                    return out;
                }
                Op::Call { block, until, .. } if is_plain(op) => {
                    let found = fall.and_then(|to| self.call(copy, *block, *until, Vec::new(), to));
                    let mut rest = ops[at + 1..].to_vec();
                    let Some(found) = found else {
                        out.push(match copy {
                            0 => Op::clone(&self.relabelled(std::slice::from_ref(op))[0]),
                            _ => self.given_up(),
                        });
                        if copy == 0 {
                            out.extend(self.relabelled(&rest));
                        }
                        return out;
                    };
                    self.keep(action, &mut rest, &mut out);
                    out.push(Op::Goto(BlockId(self.copies[found.copy].labels[block])));
                    called.push(Called { rest, ..found });
                    return out;
                }
                Op::If { condition, then, or_else }
                    if Self::is_choice(copy, std::slice::from_ref(op)) =>
                {
                    self.choices += 1;
                    if self.choices > CHOICES_MAX {
                        out.push(self.given_up());
                        return out;
                    }
                    let rest = &ops[at + 1..];
                    let (then, or_else) = ([then, rest].concat(), [or_else, rest].concat());
                    let condition = condition.clone();
                    let then = self.list(copy, action, then, fall, called);
                    let or_else = self.list(copy, action, or_else, fall, called);
                    out.push(Op::If { condition, then, or_else });
                    return out;
                }
                op if copy == 0 => out.extend(self.relabelled(std::slice::from_ref(op))),
                op => {
                    out.extend(self.kept(copy, std::slice::from_ref(op)));
                    if self.stops_at(copy, op) {
                        break;
                    }
                }
            }
        }
        out
    }

    /// Arguments that operations look at are kept in metadata, for which `out` sees.
    fn keep(&mut self, action: &Action, ops: &mut [Op], out: &mut Vec<Op>) {
        let mut kept: BTreeMap<u32, MetaId> = BTreeMap::new();
        let (metadata, number) = (&mut self.metadata, self.labels);
        let mut change = |e: &mut Expr| {
            let Expr::Param(i) = *e else { return };
            let Some(param) = action.params.get(i as usize) else { return };
            let meta = *kept.entry(i).or_insert_with(|| {
                let name = format!("{}@{number}", param.name);
                metadata.push(MetaField { name, width: param.width });
                MetaId(metadata.len() as u32 - 1)
            });
            *e = Expr::meta(meta);
        };
        ops.iter_mut().for_each(|op| op.exprs_mut(&mut change));
        let keeps = kept.into_iter();
        out.extend(keeps.map(|(i, meta)| Op::Assign(FieldRef::Meta(meta), Expr::Param(i))));
    }

    /// Numbers blocks by their places.
    fn finish(mut self) -> (Program, Contents) {
        let mut places = vec![BlockId(0); self.labels as usize];
        for (at, (label, _)) in self.order.iter().enumerate() {
            places[*label as usize] = BlockId(at as u32);
        }
        let at = |label: BlockId| places.get(label.index()).copied().unwrap_or(label);
        let mut blocks: Vec<Block> =
            std::mem::take(&mut self.order).into_iter().map(|b| b.1).collect();
        for block in &mut blocks {
            place(&mut block.ops, &at);
            match &mut block.end {
                Terminator::Exit => {}
                Terminator::Jump(to) => *to = at(*to),
                Terminator::If { then, or_else, .. } => {
                    (*then, *or_else) = (at(*then), at(*or_else));
                }
                Terminator::Apply { hit, miss, by_action, .. } => {
                    (*hit, *miss) = (at(*hit), at(*miss));
                    by_action.iter_mut().for_each(|(_, to)| *to = at(*to));
                }
            }
        }
        let mut actions = std::mem::take(&mut self.actions);
        for (id, action) in &self.contents.actions {
            if !actions.contains_key(id) {
                let body = self.relabelled(&action.body);
                let (name, params) = (action.name.clone(), action.params.clone());
                actions.insert(*id, Arc::new(Action { name, params, body }));
            }
        }
        for action in actions.values_mut() {
            place(&mut Arc::make_mut(action).body, &at);
        }
        let (mut tables, mut held) = (Vec::new(), Vec::new());
        for copy in 0..self.copies.len() {
            tables.extend(self.program.tables.iter().map(|table| table_of(table, copy)));
            held.extend(self.contents.tables.iter().map(|table| {
                let mut table = table.clone();
                table.actions.iter_mut().for_each(|id| *id = beside_copy(*id, copy));
                table.only.iter_mut().for_each(|call| call.action = beside_copy(call.action, copy));
                table.default.action = beside_copy(table.default.action, copy);
                table
            }));
        }
        let own = actions.clone();
        let program = Program {
            metadata: self.metadata,
            blocks,
            tables,
            actions: { self.program.actions.iter().enumerate() }
                .map(|(id, action)| own.get(&ActionId(id as u32)).unwrap_or(action).clone())
                .collect(),
            ..self.program.clone()
        };
        let contents = Contents {
            tables: held,
            actions,
            value_sets: self.contents.value_sets.clone(),
            buckets: self.contents.buckets.clone(),
        };
        (program, contents)
    }
}

/// Some operation of a list, or within one, is such a one.
fn any(ops: &[Op], is: &dyn Fn(&Op) -> bool) -> bool {
    let mut found = false;
    ops.iter().for_each(|op| op.visit(&mut |op| found |= is(op)));
    found
}

/// Puts places for labels.
fn place(ops: &mut [Op], at: &dyn Fn(BlockId) -> BlockId) {
    for op in ops {
        match op {
            Op::Goto(block) | Op::Clone { block, .. } => *block = at(*block),
            Op::Call { block, until, .. } => (*block, *until) = (at(*block), at(*until)),
            Op::If { then, or_else, .. } => {
                place(then, at);
                place(or_else, at);
            }
            Op::Loop { body, .. } | Op::OnCopy { body } => place(body, at),
            _ => {}
        }
    }
}

/// A table of a copy.
fn table_of(table: &Table, copy: usize) -> Table {
    if copy == 0 {
        return table.clone();
    }
    // Who asks what it does asks for the pipeline's, and for the copy of that.
    Table { name: format!("{}@{copy}", table.name), ..table.clone() }
}
