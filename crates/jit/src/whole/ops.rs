//! Operations and blocks of whole programs. What keeps state, makes copies or moves headers is done by Rust, which
//! code hands the values to ([`Gen::site`]); all else is done in place.

use super::function::{Flow, Gen};
use super::layout::at;
use super::run;
use super::site::{What, end};
use crate::value::{Base, Val, store_words};
use cranelift_codegen::ir::InstBuilder;
use ir::{BlockId, Expr, Op, Terminator};

impl Gen<'_> {
    /// Operations follow: the lookup before them has done something, unless they only end the pass.
    pub(crate) fn clear_missed(&mut self, ops: &[Op]) {
        if ops.first().is_some_and(|op| !matches!(op, Op::Exit)) {
            self.set_word_to(at::MISSED, 0);
        }
    }

    /// Operations in order.
    pub(crate) fn ops(&mut self, ops: &[Op]) -> Flow {
        for op in ops {
            if self.op(op) == Flow::Ended {
                return Flow::Ended;
            }
        }
        Flow::On
    }

    fn op(&mut self, op: &Op) -> Flow {
        match op {
            Op::Assign(field, value) => {
                let value = self.value(value);
                self.assign(*field, &value);
            }
            Op::AssignSlice(field, hi, lo, value) => self.assign_slice(*field, *hi, *lo, value),
            Op::SetInvalid(h) => {
                let valid = self.valid(*h);
                let (yes, rest) = (self.block(), self.block());
                self.branch(&valid, yes, rest);
                self.enter(yes);
                self.touch();
                self.set_valid_byte(*h, false);
                self.jump(rest);
                self.enter(rest);
            }
            Op::SetValid(h) => {
                let valid = self.valid(*h);
                let (no, rest) = (self.block(), self.block());
                self.branch(&valid, rest, no);
                self.enter(no);
                self.touch();
                let place = self.layout.headers[h.index()];
                let to = Base::new(self.words, super::function::flags());
                let zeros = Val::zero(8 * place.bytes.next_multiple_of(8) as u32);
                match zeros.width {
                    0..=1024 => store_words(&mut self.b, to, place.at as i32, &zeros),
                    _ => drop(self.site_of(op, None, None)),
                }
                self.set_varbit(*h, 0);
                self.mark_valid(*h);
                self.jump(rest);
                self.enter(rest);
            }
            Op::Truncate { length } => {
                let length = self.value(length);
                let length = length.cast(&mut self.b, 32).cast(&mut self.b, 64);
                let length = length.to_i64_low(&mut self.b);
                let cut = self.word(at::CUT);
                let least = self.b.ins().umin(length, cut);
                self.set_word(at::CUT, least);
            }
            Op::Loop { condition, body } => return self.rounds(condition, body),
            Op::If { condition, then, or_else } => return self.choice(condition, then, or_else),
            Op::Goto(block) => self.set_word_to(at::GOTO, u64::from(block.0) + 1),
            Op::Drop(reason) => {
                self.ret(end::DROP | (*reason as u64) << 8);
                return Flow::Ended;
            }
            Op::Exit => {
                self.ret(end::EXIT);
                return Flow::Ended;
            }
            Op::OnCopy { body } => {
                let number = self.body(body);
                self.site_of(&Op::OnCopy { body: Vec::new() }, None, Some(number));
            }
            Op::Resubmit { .. } | Op::Recirculate { .. } => {
                let ended = self.site_of(op, None, None);
                self.b.ins().return_(&[ended]);
                return Flow::Ended;
            }
            // Its inputs may be varbit fields.
            Op::PayloadHash { .. } => drop(self.site(What::Op(op.clone()), &[], None)),
            Op::CopyHeader { .. }
            | Op::CopyVarbit { .. }
            | Op::PopFront(..)
            | Op::PayloadSum { .. }
            | Op::Output { .. }
            | Op::Group { .. }
            | Op::Clone { .. }
            | Op::PortIs { .. }
            | Op::Punt { .. }
            | Op::Digest { .. }
            | Op::Meter { .. }
            | Op::Count { .. }
            | Op::RegisterRead { .. }
            | Op::RegisterWrite { .. }
            | Op::Random { .. } => drop(self.by_rust_op(op)),
            // These may end the pass.
            Op::PushFront(..) | Op::Reparse | Op::Call { .. } | Op::Service { .. } => {
                let ended = self.by_rust_op(op);
                let (yes, rest) = (self.block(), self.block());
                self.b.ins().brif(ended, yes, &[], rest, &[]);
                self.enter(yes);
                self.b.ins().return_(&[ended]);
                self.enter(rest);
            }
        }
        Flow::On
    }

    /// Rust does the operation; its own expressions are worked out here, in their order.
    fn by_rust_op(&mut self, op: &Op) -> cranelift_codegen::ir::Value {
        let mut exprs: Vec<Expr> = Vec::new();
        op.exprs(&mut |e| exprs.push(e.clone()));
        let values: Vec<Val> = exprs.iter().map(|e| self.value(e)).collect();
        let lists = matches!(
            op,
            Op::Punt { .. } | Op::Digest { .. } | Op::Service { .. } | Op::Call { .. }
        );
        if let ([] | [_], false) = (&values[..], lists) {
            return self.site_of(op, values.first(), None);
        }
        self.site(What::Op(op.clone()), &values, None)
    }

    /// A list that becomes a function of its own: its number.
    fn body(&mut self, ops: &[Op]) -> usize {
        let number = *self.functions;
        *self.functions += 1;
        let params = self.params().to_vec();
        self.bodies.push(super::function::Body { ops: ops.to_vec(), params, number });
        number
    }

    fn assign_slice(&mut self, field: ir::FieldRef, hi: u32, lo: u32, value: &Expr) {
        let value = self.value(value);
        let old = self.value(&Expr::Field(field));
        let width = old.width;
        let part = value.cast(&mut self.b, hi - lo + 1).cast(&mut self.b, width);
        let part = part.shl(&mut self.b, lo);
        let keep = ir::Bits::ones(width).with_slice(hi, lo, &ir::Bits::zero(hi - lo + 1));
        let keep = Val::constant(&mut self.b, &keep);
        let both = Val::binary(&mut self.b, ir::BinaryOp::And, &old, &keep)
            .and_then(|old| Val::binary(&mut self.b, ir::BinaryOp::Or, &old, &part));
        match both {
            Ok(whole) => self.assign(field, &whole),
            Err(why) => drop(self.failed.get_or_insert_with(|| why.to_string())),
        }
    }

    fn choice(&mut self, condition: &Expr, then: &[Op], or_else: &[Op]) -> Flow {
        let condition = self.value(condition);
        match condition.known_truth() {
            Some(true) => return self.ops(then),
            Some(false) => return self.ops(or_else),
            None => {}
        }
        let (yes, no, rest) = (self.block(), self.block(), self.block());
        self.branch(&condition, yes, no);
        let mut flow = Flow::Ended;
        for (block, ops) in [(yes, then), (no, or_else)] {
            self.enter(block);
            if self.ops(ops) == Flow::On {
                flow = Flow::On;
                self.jump(rest);
            }
        }
        // Where both sides end, this is an empty block that nobody comes to.
        self.enter(rest);
        if flow == Flow::Ended {
            self.ret(end::NONE);
        }
        flow
    }

    fn rounds(&mut self, condition: &Expr, body: &[Op]) -> Flow {
        let (head, round, rest, limit) = (self.block(), self.block(), self.block(), self.block());
        self.jump(head);
        self.enter(head);
        let condition = self.value(condition);
        self.branch(&condition, round, rest);
        self.enter(round);
        let ended = self.call(run::helper::ROUND(), &[self.words]);
        let go = self.block();
        self.b.ins().brif(ended, limit, &[], go, &[]);
        self.enter(limit);
        self.b.ins().return_(&[ended]);
        self.enter(go);
        if self.ops(body) == Flow::On {
            self.jump(head);
        }
        self.enter(rest);
        Flow::On
    }

    /// A block: its operations, and where control goes, as far as that is known without a lookup.
    pub(crate) fn block_of(&mut self, ops: &[Op], terminator: &Terminator) {
        self.clear_missed(ops);
        if self.ops(ops) == Flow::Ended {
            return;
        }
        let next = |block: &BlockId| end::NEXT | u64::from(block.0) << 8;
        match terminator {
            Terminator::Jump(block) => self.ret(next(block)),
            Terminator::If { condition, then, or_else } => {
                let condition = self.value(condition);
                let (yes, no) = (self.block(), self.block());
                self.branch(&condition, yes, no);
                for (block, to) in [(yes, then), (no, or_else)] {
                    self.enter(block);
                    self.ret(next(to));
                }
            }
            Terminator::Apply { .. } | Terminator::Exit => self.ret(end::NONE),
        }
    }
}
