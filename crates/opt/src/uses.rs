//! What live code reads and writes.
//!
//! Live code is what [`Work`] still holds: blocks, actions, the columns of applied tables that
//! matter, the program's checksums. The parser is left to who asks. Reads of headers are told by
//! header, writes by field, since that is what their users need.

use crate::state::elements;
use crate::work::{Bail, Work};
use ir::program::intrinsic;
use ir::{Checksum, Expr, FieldId, FieldRef, HeaderId, Op, Program, StackId, Terminator};
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::set::Set;

/// What live code reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    bail: Bail,
    /// Inputs of the hashes that groups choose by, if it is known what groups do.
    buckets: Option<Vec<Arc<[Expr]>>>,
    /// Metadata read.
    pub(crate) metas: Set,
    /// Headers of which anything is read or written.
    pub(crate) headers: Set,
    /// Metadata written, other than by the parser.
    pub(crate) written_metas: Set,
    /// Header fields written.
    pub(crate) written: BTreeSet<(HeaderId, FieldId)>,
    /// Headers whose validity may change.
    pub(crate) restructured: Set,
    /// Those that may become valid.
    pub(crate) made: Set,
    /// Anything may be looked at; what is left unparsed counts.
    pub(crate) all: bool,
}

impl Uses {
    /// Of everything but the checksums and the parser.
    pub(crate) fn of(work: &Work<'_>) -> Uses {
        let program = &work.program;
        let buckets = work.contents.buckets.as_ref().map(|buckets| buckets.hashes.clone());
        let mut uses = Uses { bail: work.options.bail, buckets, ..Uses::default() };
        for block in &program.blocks {
            uses.ops(program, &block.ops);
            if let Terminator::If { condition, .. } = &block.end {
                uses.expr(program, condition);
            }
        }
        for action in work.actions.values() {
            uses.ops(program, &action.body);
        }
        for (table, live) in program.tables.iter().zip(&work.tables) {
            for column in live.iter().flat_map(|t| &t.columns) {
                if let Some(key) = table.key.get(usize::from(*column)) {
                    uses.expr(program, &key.expr);
                }
            }
        }
        if uses.all {
            uses.metas.union(&Set::below(program.metadata.len()));
            uses.headers.union(&Set::below(program.headers.len()));
        }
        uses
    }

    /// Adds what a checksum reads.
    pub(crate) fn checksum(&mut self, program: &Program, checksum: &Checksum) {
        self.field(program, checksum.field);
        checksum.inputs.iter().chain(&checksum.condition).for_each(|e| self.expr(program, e));
    }

    /// Adds what an expression reads.
    pub(crate) fn expr(&mut self, program: &Program, e: &Expr) {
        e.visit(&mut |e| match e {
            Expr::Field(field) => self.field(program, *field),
            Expr::Valid(header) => self.headers.insert(header.index()),
            Expr::StackSize(stack) => self.stack(program, *stack),
            _ => {}
        });
    }

    fn field(&mut self, program: &Program, field: FieldRef) {
        match field {
            FieldRef::Meta(meta) => self.metas.insert(meta.index()),
            FieldRef::Header(header, _) => self.headers.insert(header.index()),
            FieldRef::Last(stack, _) => self.stack(program, stack),
        }
    }

    fn stack(&mut self, program: &Program, stack: StackId) {
        elements(program, stack).for_each(|i| self.headers.insert(i));
    }

    fn write(&mut self, program: &Program, field: FieldRef) {
        match field {
            FieldRef::Meta(meta) => self.written_metas.insert(meta.index()),
            FieldRef::Header(header, field) => {
                self.headers.insert(header.index());
                self.written.insert((header, field));
            }
            FieldRef::Last(stack, field) => {
                self.stack(program, stack);
                self.written.extend(elements(program, stack).map(|i| (HeaderId(i as u32), field)));
            }
        }
    }

    fn restructure(&mut self, program: &Program, header: HeaderId, made: bool) {
        let mut touch = |header: HeaderId| {
            self.headers.insert(header.index());
            self.restructured.insert(header.index());
        };
        touch(header);
        if let (true, Some(union)) = (made, program.headers[header.index()].union) {
            program.unions[union.index()].members.iter().for_each(|m| touch(*m));
        }
        if made {
            self.made.insert(header.index());
        }
    }

    fn ops(&mut self, program: &Program, ops: &[Op]) {
        for op in ops {
            op.visit(&mut |op| self.op(program, op));
        }
    }

    fn op(&mut self, program: &Program, op: &Op) {
        if self.bail.at(op) {
            return;
        }
        op.exprs(&mut |e| self.expr(program, e));
        match op {
            Op::Assign(field, _)
            | Op::RegisterRead { field, .. }
            | Op::Random { field, .. }
            | Op::PortIs { field, .. } => self.write(program, *field),
            Op::AssignSlice(field, ..) => {
                self.write(program, *field);
                self.field(program, *field);
            }
            Op::Meter { color, level, .. } => {
                self.write(program, *color);
                self.write(program, *level);
            }
            Op::SetValid(header) => self.restructure(program, *header, true),
            Op::SetInvalid(header) => self.restructure(program, *header, false),
            Op::CopyHeader { to, from } => {
                self.headers.insert(from.index());
                self.restructure(program, *to, true);
            }
            Op::CopyVarbit { to, from } => {
                self.field(program, *from);
                self.write(program, *to);
            }
            // What it sums or hashes begins where the parser stops.
            Op::PayloadSum { field } | Op::PayloadHash { field, .. } => {
                self.write(program, *field);
                self.all = true;
            }
            Op::PushFront(stack, _) | Op::PopFront(stack, _) => {
                for i in elements(program, *stack) {
                    self.restructure(program, HeaderId(i as u32), true);
                }
            }
            Op::Output { .. } => self.metas.insert(intrinsic::QUEUE.index()),
            // What buckets do counts as actions do.
            Op::Group { .. } => match self.buckets.clone() {
                Some(hashes) => hashes.iter().flat_map(|h| h.iter()).for_each(|e| {
                    self.expr(program, e);
                }),
                None => self.all = true,
            },
            Op::Call { .. } => self.all = true,
            // It is handed the packet as it would leave; what it finds in there is its own affair.
            Op::Service { results, .. } => {
                results.iter().for_each(|meta| self.write(program, FieldRef::Meta(*meta)));
            }
            Op::Clone { .. } => self.written_metas.insert(intrinsic::PASS.index()),
            Op::Reparse
            | Op::Resubmit { .. }
            | Op::Recirculate { .. }
            | Op::Punt { .. }
            | Op::Digest { .. }
            | Op::Count { .. }
            | Op::RegisterWrite { .. }
            | Op::Truncate { .. }
            | Op::Loop { .. }
            | Op::OnCopy { .. }
            | Op::If { .. }
            | Op::Goto(_)
            | Op::Drop(_)
            | Op::Exit => {}
        }
    }

    /// The value of an expression may differ from what it was behind the parser.
    pub(crate) fn may_change(&self, program: &Program, e: &Expr) -> bool {
        let mut changes = false;
        let header = |i: usize| self.restructured.contains(i);
        let field = |h: HeaderId, f| header(h.index()) || self.written.contains(&(h, f));
        e.visit(&mut |e| {
            changes |= match e {
                Expr::Field(FieldRef::Meta(meta)) => self.written_metas.contains(meta.index()),
                Expr::Field(FieldRef::Header(h, f)) => field(*h, *f),
                Expr::Field(FieldRef::Last(stack, f)) => {
                    elements(program, *stack).any(|i| field(HeaderId(i as u32), *f))
                }
                Expr::Valid(h) => header(h.index()),
                Expr::StackSize(stack) => elements(program, *stack).any(header),
                _ => false,
            }
        });
        changes
    }
}
