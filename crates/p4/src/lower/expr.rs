//! Expressions.

use super::fold::{binary, cast, mux, not, slice};
use super::operand::V;
use super::step::Step;
use super::{Lower, Part, Refused, Result};
use crate::ast::{BinaryOp as B, UnaryOp as U};
use crate::hir::{Const, Expr as H, ExprKind, TableField};
use crate::source::Span;
use crate::types::*;
use ir::program::{ParserOp, parser_error};
use ir::{BinaryOp, Bits, Expr, FieldRef, UnaryOp};
use num_traits::ToPrimitive;

/// It calls something or may reject the packet, so that the order matters.
pub(super) fn calls(e: &H) -> bool {
    if e.value.is_some() {
        return false;
    }
    match &e.kind {
        ExprKind::Call(c) => !matches!(c.callee, crate::hir::Callee::Builtin(..)),
        ExprKind::TableField(..) => true,
        ExprKind::Field(a, _)
        | ExprKind::Slice(a, _, _)
        | ExprKind::Unary(_, a)
        | ExprKind::Cast(a)
        | ExprKind::LastIndex(a) => calls(a),
        ExprKind::Next(_) | ExprKind::Last(_) => true,
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) | ExprKind::PlusSlice(a, b, _) => {
            calls(a) || calls(b)
        }
        ExprKind::Mux(a, b, c) => calls(a) || calls(b) || calls(c),
        ExprKind::Aggregate(items) | ExprKind::Reordered(items, _) => items.iter().any(calls),
        _ => false,
    }
}

impl Lower<'_> {
    /// A single value and its width.
    pub(super) fn scalar(&mut self, e: &H) -> Result<(Expr, u32)> {
        let v = self.expr(e)?;
        self.read(&v, e.span)
    }

    pub(super) fn condition(&mut self, e: &H) -> Result<Expr> {
        Ok(self.scalar(e)?.0)
    }

    pub(super) fn expr(&mut self, e: &H) -> Result<V> {
        self.nested(e.span, |l| l.expr_inside(e))
    }

    fn expr_inside(&mut self, e: &H) -> Result<V> {
        let span = e.span;
        if let Some(c) = &e.value {
            return self.constant(c, e.ty);
        }
        if let Some((at, v)) = &self.compound
            && *at == span
        {
            return Ok(v.clone());
        }
        match &e.kind {
            ExprKind::Var(v) => match self.frame.vars.get(v) {
                Some(v) => Ok(v.clone()),
                None => {
                    let name = self.p.vars[v.index()].name.clone();
                    self.refuse(span, format!("`{name}` has no value here"))
                }
            },
            ExprKind::Field(a, i) => {
                if let ExprKind::Last(stack) = &a.kind
                    && let V::K(items, Some(id), None) = self.expr(stack)?
                {
                    let leaf = self.field(&items[0], *i, span)?;
                    if let V::F(FieldRef::Header(_, f), w) = leaf {
                        self.taken(&Expr::StackSize(id));
                        return Ok(V::F(FieldRef::Last(id, f), w));
                    }
                }
                let v = self.expr(a)?;
                self.field(&v, *i, span)
            }
            ExprKind::Index(a, i) => self.index(a, i, span),
            ExprKind::Next(a) => {
                let v = self.expr(a)?;
                let index = self.next_index(&v, "next", span)?;
                let V::K(items, ..) = v else { return Err(Refused) };
                let fits = binary(BinaryOp::Lt, index.clone(), Expr::int(items.len() as u128, 8));
                self.in_bounds(fits);
                Ok(V::Dyn(items, Box::new(index)))
            }
            ExprKind::Last(a) => {
                let v = self.expr(a)?;
                let size = self.next_index(&v, "last", span)?;
                let V::K(items, ..) = v else { return Err(Refused) };
                self.taken(&size);
                let index = Expr::binary(BinaryOp::Sub, size, Expr::int(1, 8));
                Ok(V::Dyn(items, Box::new(index)))
            }
            ExprKind::LastIndex(a) => {
                let v = self.expr(a)?;
                let size = self.next_index(&v, "lastIndex", span)?;
                Ok(V::E(Expr::binary(BinaryOp::Sub, size.cast(32), Expr::int(1, 32)), 32))
            }
            ExprKind::Slice(a, hi, lo) => {
                let v = self.expr(a)?;
                Ok(match v {
                    V::F(..) | V::Slice(..) | V::Dyn(..) => V::Slice(Box::new(v), *hi, *lo),
                    v => {
                        let (e, w) = self.read(&v, span)?;
                        V::E(slice(e, w, *hi, *lo), hi - lo + 1)
                    }
                })
            }
            ExprKind::PlusSlice(a, lo, w) => {
                let (a, aw) = self.scalar(a)?;
                let (l, _) = self.scalar(lo)?;
                let shifted = binary(BinaryOp::Shr, a, l);
                Ok(V::E(slice(shifted, aw, w - 1, 0), *w))
            }
            ExprKind::Unary(op, a) => {
                let (a, w) = self.scalar(a)?;
                Ok(match op {
                    U::Plus => V::E(a, w),
                    U::LogicalNot => V::E(not(a), 1),
                    U::Neg => match a {
                        Expr::Const(b) => V::E(Expr::Const(b.neg()), w),
                        a => V::E(Expr::Unary(UnaryOp::Neg, Box::new(a)), w),
                    },
                    U::Not => match a {
                        Expr::Const(b) => V::E(Expr::Const(b.not()), w),
                        a => V::E(Expr::Unary(UnaryOp::Not, Box::new(a)), w),
                    },
                })
            }
            ExprKind::Binary(op, a, b) => self.binary_expr(*op, a, b, e.ty, span),
            ExprKind::Mux(c, a, b) => {
                let c = self.condition(c)?;
                let ty = self.ty(e.ty);
                if calls(a) || calls(b) || self.width(ty).is_none() {
                    let home = self.alloc(ty, "tmp.choice", span)?;
                    let then = self.steps(|l| {
                        let v = l.expr(a)?;
                        l.assign(&home, &v, span)
                    })?;
                    let or_else = self.steps(|l| {
                        let v = l.expr(b)?;
                        l.assign(&home, &v, span)
                    })?;
                    self.out.push(Step::If(c, then, or_else));
                    return Ok(home);
                }
                let (a, w) = self.scalar(a)?;
                let (b, _) = self.scalar(b)?;
                Ok(V::E(mux(c, a, b), w))
            }
            ExprKind::Cast(a) => {
                let v = self.expr(a)?;
                self.cast_value(v, a.ty, e.ty, span)
            }
            ExprKind::Aggregate(items) => {
                let order: Vec<usize> = (0..items.len()).collect();
                self.aggregate(items, &order, e.ty)
            }
            ExprKind::Reordered(items, order) => self.aggregate(items, order, e.ty),
            ExprKind::Invalid => Ok(V::Invalid),
            ExprKind::Instance(i) => self.instance_object(*i, span).map(V::O),
            ExprKind::Construct(_) => self.static_value(e, "object"),
            ExprKind::Call(c) => self.call(c, e.ty, span),
            ExprKind::TableField(call, field) => {
                let (_, result) = self.temp("hit", 1);
                let (on_hit, on_miss) = match field {
                    TableField::Hit => (true, false),
                    TableField::Miss => (false, true),
                    TableField::ActionRun => {
                        return self.refuse(span, "`action_run` is for `switch` only");
                    }
                };
                let set =
                    |l: &mut Self, b: bool| l.steps(|l| l.write(&result, Expr::bool(b), span));
                let hit = set(self, on_hit)?;
                let miss = set(self, on_miss)?;
                self.apply_table(call, hit, miss, Vec::new(), span)?;
                Ok(result)
            }
            ExprKind::This => match self.frame.this {
                Some(id) => Ok(V::O(id)),
                None => self.refuse(span, "`this` has no meaning here"),
            },
            ExprKind::Const => self.refuse(span, "this constant is not supported"),
            _ => self.refuse(span, "this is no value"),
        }
    }

    /// Parts of a value, evaluated in the order in which they are written (§8.1), which leaves out those
    /// that are constants.
    fn aggregate(&mut self, items: &[H], order: &[usize], ty: TyId) -> Result<V> {
        let any = items.iter().any(calls);
        let mut out = vec![V::Void; items.len()];
        let rest = (0..items.len()).filter(|i| !order.contains(i));
        for at in order.iter().copied().chain(rest) {
            let i = &items[at];
            let v = self.expr(i)?;
            out[at] = if any { self.keep_value(&v, i.ty, i.span)? } else { v };
        }
        let ty = self.ty(ty);
        Ok(V::S(out.into(), ty))
    }

    /// How many elements of a stack `next` has taken, 8 bits.
    pub(super) fn next_index(&mut self, stack: &V, word: &str, span: Span) -> Result<Expr> {
        match stack {
            V::K(_, _, Some(next)) => Ok(Expr::meta(*next)),
            V::K(_, Some(id), None) => Ok(Expr::StackSize(*id)),
            _ => self.refuse(span, format!("`{word}` of this is not supported")),
        }
    }

    /// Sets a stack's own next index.
    pub(super) fn set_next(&mut self, next: ir::MetaId, index: Expr) {
        self.v1.filled.remove(&Expr::meta(next));
        self.op(ir::Op::Assign(FieldRef::Meta(next), index));
    }

    /// A parser goes to reject unless an element of a stack is there (§8.18).
    pub(super) fn in_bounds(&mut self, condition: Expr) {
        if self.part == Part::Parser {
            let code = parser_error::STACK_OUT_OF_BOUNDS;
            self.out.push(Step::Parse(ParserOp::Verify(condition, code)));
        }
    }

    /// A parser goes to reject unless `next` has taken an element, of which there are `size`.
    fn taken(&mut self, size: &Expr) {
        if !self.v1.filled.contains(size) {
            self.in_bounds(binary(BinaryOp::Ne, size.clone(), Expr::int(0, 8)));
            self.v1.filled.insert(size.clone());
        }
    }

    fn index(&mut self, a: &H, i: &H, span: Span) -> Result<V> {
        let v = self.expr(a)?;
        let at = self.expr(i)?;
        let items = match &v {
            V::K(items, ..) | V::S(items, _) => items.clone(),
            V::Dyn(outer, index) => {
                // An element of an element.
                let inner: Vec<V> = outer.to_vec();
                let mut out = Vec::new();
                for o in inner {
                    let (V::K(items, ..) | V::S(items, _)) = o else {
                        return self.refuse(span, "this has no elements");
                    };
                    out.push(match constant_index(&at) {
                        Some(n) => match items.get(n) {
                            Some(v) => v.clone(),
                            None => return self.refuse(span, "an index past the end"),
                        },
                        None => {
                            let (e, _) = self.read(&at, span)?;
                            V::Dyn(items, Box::new(e))
                        }
                    });
                }
                return Ok(V::Dyn(out.into(), index.clone()));
            }
            V::C(Const::List(items)) => items.iter().map(|c| V::C(c.clone())).collect(),
            _ => return self.refuse(span, "this has no elements"),
        };
        match constant_index(&at) {
            Some(n) => match items.get(n) {
                Some(v) => Ok(v.clone()),
                None => self.refuse(span, "an index past the end"),
            },
            None => {
                let (e, w) = self.read(&at, i.span)?;
                // Wide enough for every index.
                let e = if w < 8 { cast(e, w, 8, false) } else { e };
                Ok(V::Dyn(items, Box::new(e)))
            }
        }
    }

    pub(super) fn cast_value(&mut self, v: V, from: TyId, to: TyId, span: Span) -> Result<V> {
        let to = self.ty(to);
        let Some(tw) = self.width(to) else { return Ok(v) };
        if let V::C(Const::Int(n)) = &v {
            if *self.p.ty(to) == Ty::Bool {
                return Ok(V::E(Expr::bool(n.to_u8() != Some(0)), 1));
            }
            return Ok(V::E(Expr::Const(super::fold::bits(n, tw)), tw));
        }
        let signed = self.is_signed(from);
        let (e, w) = self.read(&v, span)?;
        if w == tw {
            return Ok(v);
        }
        Ok(V::E(cast(e, w, tw, signed), tw))
    }

    fn binary_expr(&mut self, op: B, a: &H, b: &H, ty: TyId, span: Span) -> Result<V> {
        if matches!(op, B::LogicalAnd | B::LogicalOr) {
            let left = self.condition(a)?;
            if !calls(b) {
                let right = self.condition(b)?;
                let op =
                    if op == B::LogicalAnd { BinaryOp::LogicalAnd } else { BinaryOp::LogicalOr };
                return Ok(V::E(binary(op, left, right), 1));
            }
            // The right side runs only if it matters.
            let (field, result) = self.temp("both", 1);
            self.op(ir::Op::Assign(field, left));
            let right = self.steps(|l| {
                let e = l.condition(b)?;
                l.write(&result, e, span)
            })?;
            let flag = Expr::Field(field);
            self.out.push(match op {
                B::LogicalAnd => Step::If(flag, right, Vec::new()),
                _ => Step::If(flag, Vec::new(), right),
            });
            return Ok(result);
        }
        let mut left = self.expr(a)?;
        if calls(b) {
            left = self.keep_value(&left, a.ty, a.span)?;
        }
        let right = self.expr(b)?;
        if matches!(op, B::Eq | B::Ne) {
            let (left, right) = (self.sized(left, b.ty), self.sized(right, a.ty));
            let same = self.equal(&left, &right, span)?;
            return Ok(V::E(if op == B::Eq { same } else { not(same) }, 1));
        }
        let left = self.sized(left, if matches!(op, B::Shl | B::Shr) { ty } else { b.ty });
        let (x, w) = self.read(&left, a.span)?;
        let right = match right {
            V::C(Const::Int(n)) if matches!(op, B::Shl | B::Shr) => {
                V::E(Expr::Const(super::fold::bits(&n, 32)), 32)
            }
            other => self.sized(other, a.ty),
        };
        let (y, wy) = self.read(&right, b.span)?;
        let signed = self.is_signed(a.ty);
        let bool = |e| V::E(e, 1);
        Ok(match op {
            B::Add => V::E(binary(BinaryOp::Add, x, y), w),
            B::Sub => V::E(binary(BinaryOp::Sub, x, y), w),
            B::Mul => V::E(binary(BinaryOp::Mul, x, y), w),
            B::And => V::E(binary(BinaryOp::And, x, y), w),
            B::Or => V::E(binary(BinaryOp::Or, x, y), w),
            B::Xor => V::E(binary(BinaryOp::Xor, x, y), w),
            B::Concat => {
                if w == 0 {
                    V::E(y, wy)
                } else if wy == 0 {
                    V::E(x, w)
                } else {
                    V::E(binary(BinaryOp::Concat, x, y), w + wy)
                }
            }
            B::Shl => V::E(binary(BinaryOp::Shl, x, y), w),
            B::Shr => V::E(binary(if signed { BinaryOp::Sar } else { BinaryOp::Shr }, x, y), w),
            B::AddSat | B::SubSat if signed => {
                // Both sides stand four times in the result.
                let weight = super::fold::weight(&x) + super::fold::weight(&y);
                self.spend(weight.saturating_mul(4), span)?;
                V::E(saturate(op == B::AddSat, signed, x, y, w), w)
            }
            B::AddSat | B::SubSat => V::E(saturate(op == B::AddSat, signed, x, y, w), w),
            B::Lt if signed => bool(binary(BinaryOp::SLt, x, y)),
            B::Le if signed => bool(binary(BinaryOp::SLe, x, y)),
            B::Gt if signed => bool(binary(BinaryOp::SLt, y, x)),
            B::Ge if signed => bool(binary(BinaryOp::SLe, y, x)),
            B::Lt => bool(binary(BinaryOp::Lt, x, y)),
            B::Le => bool(binary(BinaryOp::Le, x, y)),
            B::Gt => bool(binary(BinaryOp::Gt, x, y)),
            B::Ge => bool(binary(BinaryOp::Ge, x, y)),
            B::Div | B::Mod => {
                let (q, r) = self.divide(x, y, w);
                V::E(if op == B::Div { q } else { r }, w)
            }
            B::Eq | B::Ne | B::LogicalAnd | B::LogicalOr => {
                return self.refuse(span, "this operator is not supported");
            }
        })
    }

    /// A number that is known has its type's width; one of type `int` as many bits as it needs, at least 32.
    pub(super) fn known(&mut self, v: V, ty: TyId) -> V {
        match (&v, self.width(ty)) {
            (V::C(Const::Int(n)), None) => {
                let w = (n.bits() as u32).max(32);
                V::E(Expr::Const(super::fold::bits(n, w)), w)
            }
            _ => self.sized(v, ty),
        }
    }

    /// A number without a width gets that of the other side.
    fn sized(&mut self, v: V, other: TyId) -> V {
        match (&v, self.width(other)) {
            (V::C(Const::Int(n)), Some(w)) => V::E(Expr::Const(super::fold::bits(n, w)), w),
            _ => v,
        }
    }

    /// Quotient and remainder of unsigned numbers, bit by bit: the pipeline language has no division.
    /// Division by zero gives all ones, and the dividend as remainder.
    pub(super) fn divide(&mut self, x: Expr, y: Expr, w: u32) -> (Expr, Expr) {
        if let Expr::Const(c) = &y {
            let ones: u32 = (0..w).filter(|i| c.bit(*i)).count() as u32;
            if ones == 1 {
                let by = (0..w).find(|i| c.bit(*i)).unwrap_or(0);
                let q = binary(BinaryOp::Shr, x.clone(), Expr::int(u128::from(by), 32));
                let mask = c.sub(&Bits::from_u128(1, w));
                return (q, binary(BinaryOp::And, x, Expr::Const(mask)));
            }
        }
        if w == 0 {
            return (x.clone(), x);
        }
        let x = self.keep(x, w);
        let y = self.keep(y, w);
        let wide = w + 1;
        let (rest, _) = self.temp("rest", wide);
        let (quotient, _) = self.temp("quotient", w);
        self.op(ir::Op::Assign(rest, Expr::Const(Bits::zero(wide))));
        self.op(ir::Op::Assign(quotient, Expr::Const(Bits::zero(w))));
        let y = cast(y, w, wide, false);
        for i in (0..w).rev() {
            let bit = slice(x.clone(), w, i, i);
            let next = binary(BinaryOp::Concat, Expr::Field(rest).slice(wide - 2, 0), bit);
            self.op(ir::Op::Assign(rest, next));
            let fits = binary(BinaryOp::Ge, Expr::Field(rest), y.clone());
            let less = binary(BinaryOp::Sub, Expr::Field(rest), y.clone());
            self.op(ir::Op::If {
                condition: fits,
                then: vec![
                    ir::Op::Assign(rest, less),
                    ir::Op::AssignSlice(quotient, i, i, Expr::int(1, 1)),
                ],
                or_else: Vec::new(),
            });
        }
        (Expr::Field(quotient), Expr::Field(rest).slice(w - 1, 0))
    }
}

fn constant_index(v: &V) -> Option<usize> {
    match v {
        V::E(Expr::Const(b), _) => b.to_u128().and_then(|n| usize::try_from(n).ok()),
        V::C(Const::Int(n)) => n.to_usize(),
        _ => None,
    }
}

/// Saturating addition or subtraction; of signed numbers in two bits more (§8.6).
fn saturate(add: bool, signed: bool, x: Expr, y: Expr, w: u32) -> Expr {
    if !signed {
        return binary(if add { BinaryOp::AddSat } else { BinaryOp::SubSat }, x, y);
    }
    let wide = w + 1;
    let (a, b) = (cast(x, w, wide, true), cast(y, w, wide, true));
    let sum = binary(if add { BinaryOp::Add } else { BinaryOp::Sub }, a, b);
    let max = Bits::ones(w - 1).cast(wide);
    let min = max.not();
    let over = binary(BinaryOp::SLt, Expr::Const(max.clone()), sum.clone());
    let under = binary(BinaryOp::SLt, sum.clone(), Expr::Const(min.clone()));
    let inner = mux(under, Expr::Const(min.cast(w)), slice(sum, wide, w - 1, 0));
    mux(over, Expr::Const(max.cast(w)), inner)
}
