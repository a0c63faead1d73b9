//! Drops writes that nobody reads.
//!
//! ```text
//! of.suppressed = 1               becomes   nothing           (where no live test reads it)
//! ipv4.ttl = a; ipv4.ttl = b      becomes   ipv4.ttl = b      (nothing is emitted in between)
//! ```
//!
//! Liveness, backward: what may be read behind each place, of metadata one by one, of header fields
//! as all but those that are surely overwritten first. An emission reads every header field, a group
//! whose buckets run here everything; the end of a pass reads nothing. Metadata that a checksum looks
//! at is always read. Blocks lead to later ones, so one walk from the last to the first is enough;
//! actions are rewritten in the end, with what may be read behind any of their tables.
//!
//! Requires: nothing. Ensures: no live write is dead, as far as this sees.

use crate::mark::Marks;
use crate::set::Set;
use crate::state::elements;
use crate::uses::Uses;
use crate::work::{Bail, Work};
use ir::program::intrinsic;
use ir::{
    ActionId, BlockId, Copy, Expr, FieldId, FieldRef, HeaderId, Op, ParserOp, Program, Terminator,
    Transition,
};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
pub(crate) fn drop_dead_writes(work: &mut Work<'_>) {
    let marks = Marks::of(work);
    let mut pass = Pass {
        program: &work.program,
        bail: work.options.bail,
        always: Set::default(),
        parser: parser_reads(&work.program),
        before: vec![Live::nothing(); work.program.blocks.len()],
        buckets: None,
        dropped: 0,
    };
    let mut checksums = Uses::default();
    work.program.checksums.iter().for_each(|c| checksums.checksum(&work.program, c));
    pass.always = checksums.metas;
    pass.buckets = pass.of_buckets(work);
    let mut behind: BTreeMap<ActionId, Live> = BTreeMap::new();
    let mut blocks = Vec::new();
    for (at, block) in work.program.blocks.iter().enumerate().rev() {
        if block.ops.is_empty() && block.end == Terminator::Exit {
            continue;
        }
        let mut live = match &block.end {
            Terminator::Exit => Live::nothing(),
            Terminator::Jump(to) => pass.before(*to).clone(),
            Terminator::If { condition, then, or_else } => {
                let mut live = pass.before(*then).clone();
                live.join(pass.before(*or_else));
                live.read(&work.program, condition);
                live
            }
            Terminator::Apply { table, hit, miss, by_action } => {
                let contents = &work.contents.tables[table.index()];
                let mut live = Live::nothing();
                for id in work.tables[table.index()].iter().flat_map(|t| &t.actions) {
                    let Some(action) = work.actions.get(id) else { continue };
                    let mut after = match by_action.iter().find(|(a, _)| a == id) {
                        Some((_, to)) => pass.before(*to).clone(),
                        None => {
                            let mut after = Live::nothing();
                            if contents.actions.binary_search(id).is_ok() {
                                after.join(pass.before(*hit));
                            }
                            if contents.default.action == *id {
                                after.join(pass.before(*miss));
                            }
                            after
                        }
                    };
                    let mut goes = |op: &Op| {
                        if let Op::Goto(to) = op {
                            after.join(pass.before(*to));
                        }
                    };
                    action.body.iter().for_each(|op| op.visit(&mut goes));
                    behind.entry(*id).or_insert_with(Live::nothing).join(&after);
                    pass.ops(&action.body, &mut after, None);
                    live.join(&after);
                }
                let key = &work.program.tables[table.index()].key;
                for column in work.tables[table.index()].iter().flat_map(|t| &t.columns) {
                    if let Some(key) = key.get(usize::from(*column)) {
                        live.read(&work.program, &key.expr);
                    }
                }
                live
            }
        };
        let mut ops = Vec::new();
        pass.ops(&block.ops, &mut live, Some(&mut ops));
        pass.before[at] = live;
        if ops != block.ops {
            marks.block(&block.ops, &mut ops);
            blocks.push((at, ops));
        }
    }
    let mut bodies = Vec::new();
    for (id, action) in &work.actions {
        let mut live = behind.remove(id).unwrap_or_else(Live::nothing);
        let mut body = Vec::new();
        pass.ops(&action.body, &mut live, Some(&mut body));
        marks.action(*id, &action.body, &mut body);
        bodies.push((*id, body));
    }
    let dropped = pass.dropped;
    blocks.into_iter().for_each(|(at, ops)| work.program.blocks[at].ops = ops);
    bodies.into_iter().for_each(|(id, body)| work.set_body(id, body));
    if dropped > 0 {
        work.note("drop_dead_writes", format!("{dropped} writes"));
    }
}

/// Metadata that the parser reads.
fn parser_reads(program: &Program) -> Set {
    let mut uses = Uses::default();
    for state in &program.parser {
        for op in &state.ops {
            match op {
                ParserOp::Extract { varbit, .. } | ParserOp::ExtractNext { varbit, .. } => {
                    varbit.iter().for_each(|e| uses.expr(program, e));
                }
                ParserOp::Advance(e) | ParserOp::Assign(_, e) | ParserOp::Verify(e, _) => {
                    uses.expr(program, e);
                }
            }
        }
        let mut left = vec![&state.next];
        while let Some(transition) = left.pop() {
            if let Transition::Select { keys, cases } = transition {
                keys.iter().for_each(|e| uses.expr(program, e));
                left.extend(cases.iter().map(|case| &case.next));
            }
        }
    }
    uses.metas
}

/// What may be read from here on.
#[derive(Clone, Debug)]
struct Live {
    metas: Set,
    /// Every header field but `fields`; else `fields` only.
    most: bool,
    fields: BTreeSet<(HeaderId, FieldId)>,
}

impl Live {
    fn nothing() -> Live {
        Live { metas: Set::default(), most: false, fields: BTreeSet::new() }
    }

    fn join(&mut self, other: &Live) {
        self.metas.union(&other.metas);
        match (self.most, other.most) {
            (true, true) => self.fields.retain(|f| other.fields.contains(f)),
            (true, false) => self.fields.retain(|f| !other.fields.contains(f)),
            (false, true) => {
                let dead = other.fields.difference(&self.fields).copied().collect();
                (self.most, self.fields) = (true, dead);
            }
            (false, false) => self.fields.extend(&other.fields),
        }
    }

    fn all_headers(&mut self) {
        self.most = true;
        self.fields.clear();
    }

    fn field(&self, field: (HeaderId, FieldId)) -> bool {
        self.fields.contains(&field) != self.most
    }

    fn set_field(&mut self, field: (HeaderId, FieldId), live: bool) {
        match live == self.most {
            true => drop(self.fields.remove(&field)),
            false => drop(self.fields.insert(field)),
        }
    }

    fn read_field(&mut self, program: &Program, field: FieldRef) {
        match field {
            FieldRef::Meta(meta) => self.metas.insert(meta.index()),
            FieldRef::Header(header, field) => self.set_field((header, field), true),
            FieldRef::Last(stack, field) => {
                for i in elements(program, stack) {
                    self.set_field((HeaderId(i as u32), field), true);
                }
            }
        }
    }

    fn read(&mut self, program: &Program, e: &Expr) {
        e.visit(&mut |e| {
            if let Expr::Field(field) = e {
                self.read_field(program, *field);
            }
        });
    }
}

struct Pass<'a> {
    program: &'a Program,
    bail: Bail,
    /// Metadata that is never dead.
    always: Set,
    /// Metadata that the parser reads.
    parser: Set,
    /// What may be read from each block on.
    before: Vec<Live>,
    /// What groups' buckets may read, if that is known.
    buckets: Option<Live>,
    dropped: usize,
}

impl Pass<'_> {
    /// What groups' buckets may read. What a group inside of a group reads is everything, where that is not known yet.
    fn of_buckets(&mut self, work: &Work<'_>) -> Option<Live> {
        let buckets = work.contents.buckets.as_ref()?;
        let mut all = Live::nothing();
        for action in buckets.actions.iter().filter_map(|id| work.actions.get(id)) {
            let clones = |op: &Op| matches!(op, Op::Clone { .. }) && !self.bail.at(op);
            let mut leads = false;
            action.body.iter().for_each(|op| op.visit(&mut |op| leads |= clones(op)));
            if leads {
                // What is read there is not known yet.
                return None;
            }
            let mut live = Live::nothing();
            self.ops(&action.body, &mut live, None);
            all.join(&live);
        }
        for e in buckets.hashes.iter().flat_map(|hash| hash.iter()) {
            all.read(self.program, e);
        }
        Some(all)
    }

    fn before(&self, block: BlockId) -> &Live {
        &self.before[block.index()]
    }

    /// A write to the whole field is of no use.
    fn dead(&self, live: &Live, field: FieldRef) -> bool {
        match field {
            FieldRef::Meta(meta) => {
                !live.metas.contains(meta.index()) && !self.always.contains(meta.index())
            }
            FieldRef::Header(header, field) => !live.field((header, field)),
            FieldRef::Last(stack, field) => {
                elements(self.program, stack).all(|i| !live.field((HeaderId(i as u32), field)))
            }
        }
    }

    fn overwrite(&self, live: &mut Live, field: FieldRef) {
        match field {
            FieldRef::Meta(meta) => live.metas.remove(meta.index()),
            FieldRef::Header(header, field) => live.set_field((header, field), false),
            FieldRef::Last(..) => {}
        }
    }

    /// Goes through a list from its end; with `out`, the list without dead writes.
    fn ops(&mut self, ops: &[Op], live: &mut Live, mut out: Option<&mut Vec<Op>>) {
        for op in ops.iter().rev() {
            self.op(op, live, out.as_deref_mut());
        }
        if let Some(out) = out {
            out.reverse();
        }
    }

    fn op(&mut self, op: &Op, live: &mut Live, out: Option<&mut Vec<Op>>) {
        let program = self.program;
        if self.bail.at(op) {
            *live = Live::nothing();
            out.into_iter().for_each(|out| out.push(op.clone()));
            return;
        }
        match op {
            Op::If { condition, then, or_else } => {
                let mut other = live.clone();
                let Some(out) = out else {
                    self.ops(then, live, None);
                    self.ops(or_else, &mut other, None);
                    live.join(&other);
                    return live.read(program, condition);
                };
                let (mut new_then, mut new_else) = (Vec::new(), Vec::new());
                self.ops(then, live, Some(&mut new_then));
                self.ops(or_else, &mut other, Some(&mut new_else));
                live.join(&other);
                if !(new_then.is_empty() && new_else.is_empty()) {
                    live.read(program, condition);
                    let condition = condition.clone();
                    out.push(Op::If { condition, then: new_then, or_else: new_else });
                }
                return;
            }
            Op::Assign(field, _) | Op::AssignSlice(field, ..) if self.dead(live, *field) => {
                self.dropped += usize::from(out.is_some());
                return;
            }
            Op::Assign(field, _)
            | Op::RegisterRead { field, .. }
            | Op::Random { field, .. }
            | Op::PortIs { field, .. } => self.overwrite(live, *field),
            // What it leaves of the field is read.
            Op::AssignSlice(..) => {}
            Op::Meter { color, level, .. } => {
                self.overwrite(live, *level);
                self.overwrite(live, *color);
            }
            // It may be dropped there, and then nothing is read behind it: what is read there is live.
            Op::Service { service, results, .. } => {
                results.iter().for_each(|meta| self.overwrite(live, FieldRef::Meta(*meta)));
                live.all_headers();
                if program.services[service.index()].edits {
                    live.metas.union(&self.parser);
                }
            }
            Op::SetValid(_) | Op::SetInvalid(_) => {}
            Op::PayloadSum { field } | Op::PayloadHash { field, .. } => {
                self.overwrite(live, *field)
            }
            Op::CopyHeader { .. }
            | Op::CopyVarbit { .. }
            | Op::PushFront(..)
            | Op::PopFront(..) => live.all_headers(),
            Op::Reparse => {
                live.all_headers();
                live.metas.union(&self.parser);
            }
            Op::Output { .. } => {
                live.all_headers();
                live.metas.insert(intrinsic::QUEUE.index());
            }
            Op::Punt { .. } => live.all_headers(),
            Op::Group { .. } if self.buckets.is_some() => {
                if let Some(buckets) = &self.buckets {
                    live.join(buckets);
                }
            }
            // A round reads what the one before wrote: nothing inside is dropped.
            Op::Group { .. } | Op::Loop { .. } | Op::Call { .. } | Op::OnCopy { .. } => {
                live.all_headers();
                live.metas = Set::below(program.metadata.len());
            }
            Op::Clone { block, copy } => {
                let copied = self.before(*block).clone();
                live.join(&copied);
                live.all_headers();
                if *copy == Copy::Ingress {
                    live.metas.union(&self.parser);
                }
            }
            Op::Resubmit { keep } | Op::Recirculate { keep } => {
                *live = Live::nothing();
                keep.iter().for_each(|meta| live.metas.insert(meta.index()));
                if matches!(op, Op::Recirculate { .. }) {
                    live.all_headers();
                }
            }
            Op::Drop(_) | Op::Exit => *live = Live::nothing(),
            Op::Goto(_)
            | Op::Digest { .. }
            | Op::Count { .. }
            | Op::Truncate { .. }
            | Op::RegisterWrite { .. } => {}
        }
        op.exprs(&mut |e| live.read(program, e));
        out.into_iter().for_each(|out| out.push(op.clone()));
    }
}
