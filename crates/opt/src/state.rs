//! What is known of the packet at a place in the program.
//!
//! Of every metadata field, the known bits; of every header, whether it may and whether it must be
//! valid. A condition that was decided adds what follows from it ([`State::assume`]).

use crate::known::Known;
use crate::set::Set;
use ir::program::intrinsic;
use ir::{BinaryOp, Expr, FieldRef, HeaderId, MetaId, Program, StackId, UnaryOp};
use std::ops::Range;

/// What is known of the packet.
#[derive(Clone, Debug)]
pub(crate) struct State {
    metas: Vec<Known>,
    /// Headers that may be valid.
    pub(crate) may: Set,
    /// Headers that surely are.
    pub(crate) must: Set,
    /// One-bit metadata that the parser sets together with headers.
    links: Vec<Link>,
}

/// What a one-bit field that the parser has set says of headers.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) meta: MetaId,
    /// If it is one, these are valid.
    pub(crate) must_if_one: Set,
    /// If it is zero, only these may be.
    pub(crate) may_if_zero: Set,
}

impl State {
    /// A frame that comes in, not parsed yet: metadata is zero but for what comes with it.
    pub(crate) fn received(program: &Program) -> State {
        let zero = program.metadata.iter().map(|m| Known::value(0, m.width)).collect();
        let mut state =
            State { metas: zero, may: Set::default(), must: Set::default(), links: Vec::new() };
        for meta in [intrinsic::IN_PORT, intrinsic::PACKET_LENGTH, intrinsic::NOW] {
            state.forget(meta);
        }
        state
    }

    /// Nothing is known.
    pub(crate) fn anything(program: &Program) -> State {
        State {
            metas: program.metadata.iter().map(|m| Known::nothing(m.width)).collect(),
            may: Set::below(program.headers.len()),
            must: Set::default(),
            links: Vec::new(),
        }
    }

    /// What is known if it is this or that; true if that is less than before.
    pub(crate) fn join(&mut self, other: &State) -> bool {
        let mut less = false;
        for (mine, theirs) in self.metas.iter_mut().zip(&other.metas) {
            less |= mine.join(theirs);
        }
        less |= self.may.union(&other.may);
        less |= self.must.intersect(&other.must);
        self.links.retain_mut(|link| match other.links.iter().find(|l| l.meta == link.meta) {
            Some(theirs) => {
                less |= link.must_if_one.intersect(&theirs.must_if_one);
                less |= link.may_if_zero.union(&theirs.may_if_zero);
                true
            }
            None => {
                less = true;
                false
            }
        });
        less
    }

    pub(crate) fn meta(&self, meta: MetaId) -> Known {
        self.metas[meta.index()]
    }

    pub(crate) fn metas(&self) -> impl Iterator<Item = (MetaId, Known)> {
        self.metas.iter().enumerate().map(|(i, known)| (MetaId(i as u32), *known))
    }

    pub(crate) fn set_meta(&mut self, meta: MetaId, value: Known) {
        self.links.retain(|link| link.meta != meta);
        let known = &mut self.metas[meta.index()];
        *known = if value.width == known.width { value } else { Known::nothing(known.width) };
    }

    pub(crate) fn forget(&mut self, meta: MetaId) {
        let width = self.metas[meta.index()].width;
        self.set_meta(meta, Known::nothing(width));
    }

    pub(crate) fn forget_metas(&mut self) {
        self.links.clear();
        for known in &mut self.metas {
            *known = Known::nothing(known.width);
        }
    }

    /// A write to a field, of which this is known.
    pub(crate) fn write(&mut self, field: FieldRef, value: Known) {
        if let FieldRef::Meta(meta) = field {
            self.set_meta(meta, value);
        }
    }

    /// No header is valid.
    pub(crate) fn clear_headers(&mut self) {
        self.may = Set::default();
        self.must = Set::default();
        self.links.clear();
    }

    pub(crate) fn set_links(&mut self, links: Vec<Link>) {
        self.links = links;
    }

    /// The field may be in a valid header (metadata always is).
    pub(crate) fn writable(&self, program: &Program, field: FieldRef) -> bool {
        match field {
            FieldRef::Meta(_) => true,
            FieldRef::Header(header, _) => self.may.contains(header.index()),
            FieldRef::Last(stack, _) => elements(program, stack).any(|i| self.may.contains(i)),
        }
    }

    /// How many elements of a stack are valid: at least, at most.
    pub(crate) fn stack_size(&self, program: &Program, stack: StackId) -> (usize, usize) {
        let count = |set: &Set| elements(program, stack).filter(|i| set.contains(*i)).count();
        (count(&self.must), count(&self.may))
    }

    /// The header becomes valid (or, unless `surely`, may become it).
    pub(crate) fn make_valid(&mut self, program: &Program, header: HeaderId, surely: bool) {
        self.links.clear();
        if let Some(union) = program.headers[header.index()].union {
            for member in &program.unions[union.index()].members {
                self.must.remove(member.index());
                if surely {
                    self.may.remove(member.index());
                }
            }
        }
        self.may.insert(header.index());
        if surely {
            self.must.insert(header.index());
        }
    }

    pub(crate) fn make_invalid(&mut self, header: HeaderId) {
        self.links.clear();
        self.may.remove(header.index());
        self.must.remove(header.index());
    }

    pub(crate) fn copy_header(&mut self, program: &Program, to: HeaderId, from: HeaderId) {
        if to == from {
            return;
        }
        let (may, must) = (self.may.contains(from.index()), self.must.contains(from.index()));
        if !must {
            self.links.clear();
            self.must.remove(to.index());
        }
        match (may, must) {
            (false, _) => self.make_invalid(to),
            (true, true) => self.make_valid(program, to, true),
            (true, false) => {
                self.make_valid(program, to, false);
            }
        }
    }

    pub(crate) fn push_front(&mut self, program: &Program, stack: StackId, count: u32) {
        self.links.clear();
        let Range { start, end } = elements(program, stack);
        let count = count as usize;
        for i in (start..end).rev() {
            let from = i.checked_sub(count).filter(|from| *from >= start);
            self.may.set(i, from.is_none_or(|from| self.may.contains(from)));
            self.must.set(i, from.is_none_or(|from| self.must.contains(from)));
        }
    }

    pub(crate) fn pop_front(&mut self, program: &Program, stack: StackId, count: u32) {
        self.links.clear();
        let Range { start, end } = elements(program, stack);
        for i in start..end {
            let from = Some(i + count as usize).filter(|from| *from < end);
            self.may.set(i, from.is_some_and(|from| self.may.contains(from)));
            self.must.set(i, from.is_some_and(|from| self.must.contains(from)));
        }
    }

    /// The condition is one bit, and has this value here.
    pub(crate) fn assume(&mut self, condition: &Expr, holds: bool) {
        match condition {
            Expr::Valid(header) if holds => self.must.insert(header.index()),
            Expr::Valid(header) => {
                self.may.remove(header.index());
                self.must.remove(header.index());
            }
            Expr::Unary(UnaryOp::LogicalNot, e) => self.assume(e, !holds),
            Expr::Binary(BinaryOp::LogicalAnd, a, b) if holds => {
                self.assume(a, true);
                self.assume(b, true);
            }
            Expr::Binary(BinaryOp::LogicalOr, a, b) if !holds => {
                self.assume(a, false);
                self.assume(b, false);
            }
            Expr::Binary(BinaryOp::Eq, a, b) if holds => self.assume_value(a, b),
            Expr::Binary(BinaryOp::Ne, a, b) if !holds => self.assume_value(a, b),
            Expr::Binary(BinaryOp::Eq, a, b) if !holds => self.assume_other(a, b),
            Expr::Binary(BinaryOp::Ne, a, b) if holds => self.assume_other(a, b),
            Expr::Field(_) | Expr::Slice(..) => self.assume_bits(condition, 1, holds.into()),
            _ => {}
        }
    }

    fn assume_value(&mut self, a: &Expr, b: &Expr) {
        match (a, b) {
            (e, Expr::Const(value)) | (Expr::Const(value), e) => {
                let value = Known::of(value);
                self.assume_bits(e, value.zeros | value.ones, value.ones);
            }
            _ => {}
        }
    }

    /// The values differ: if they can do so in one bit only, that bit is the other one.
    fn assume_other(&mut self, a: &Expr, b: &Expr) {
        let ((e, Expr::Const(value)) | (Expr::Const(value), e)) = (a, b) else { return };
        let (Expr::Field(FieldRef::Meta(meta)), value) = (e, Known::of(value)) else { return };
        let known = self.metas[meta.index()];
        let agree = known.zeros & value.zeros | known.ones & value.ones;
        let open = !(known.zeros | known.ones) & (value.zeros | value.ones);
        if value.width == known.width
            && open.is_power_of_two()
            && agree | open == crate::known::mask(known.width)
        {
            self.assume_bits(e, open, !value.ones & open);
        }
    }

    /// The bits of `e` that `mask` selects are those of `value`.
    fn assume_bits(&mut self, e: &Expr, mask: u128, value: u128) {
        match e {
            Expr::Field(FieldRef::Meta(meta)) => {
                let known = &mut self.metas[meta.index()];
                known.learn(!value & mask, value & mask);
                let width = known.width;
                if width == 1 && mask & 1 == 1 {
                    self.follow_links(*meta, value & 1 == 1);
                }
            }
            Expr::Slice(e, hi, lo) if *hi < 128 => {
                let mask = mask & crate::known::mask(hi - lo + 1);
                self.assume_bits(e, mask << lo, value << lo);
            }
            Expr::Binary(BinaryOp::And, a, b) => {
                let ((Expr::Const(selects), e) | (e, Expr::Const(selects))) = (&**a, &**b) else {
                    return;
                };
                let selects = Known::of(selects).ones;
                self.assume_bits(e, mask & selects, value & selects);
            }
            _ => {}
        }
    }

    fn follow_links(&mut self, meta: MetaId, one: bool) {
        if let Some(link) = self.links.iter().find(|link| link.meta == meta) {
            match one {
                true => drop(self.must.union(&link.must_if_one)),
                false => {
                    self.may.intersect(&link.may_if_zero);
                    self.must.intersect(&self.may);
                }
            }
        }
    }
}

/// The headers of a stack.
pub(crate) fn elements(program: &Program, stack: StackId) -> Range<usize> {
    let stack = &program.stacks[stack.index()];
    stack.first.index()..stack.first.index() + stack.size as usize
}
