//! Expressions: what they read, and what conditions decide.

use super::shape::Kind;
use super::state::{State, YES};
use super::walker::{Place, Walker};
use crate::ast::{BinaryOp, UnaryOp};
use crate::hir::{Builtin, Callee, Const, Expr, ExprKind, TableField};
use crate::types::TyId;

impl Walker<'_> {
    /// All that an expression reads and does.
    pub(super) fn eval(&mut self, e: &Expr) {
        if e.value.is_some() || !self.state.reached {
            return;
        }
        match &e.kind {
            ExprKind::Var(_)
            | ExprKind::Field(..)
            | ExprKind::Index(..)
            | ExprKind::Next(_)
            | ExprKind::Last(_)
                if Self::is_place(e) =>
            {
                self.indices(e);
                if !self.use_fields(e) {
                    self.use_value(e);
                }
            }
            ExprKind::Binary(BinaryOp::LogicalAnd | BinaryOp::LogicalOr, ..) => {
                let (yes, no) = self.condition(e);
                self.state = yes;
                self.state.join(&no);
            }
            ExprKind::Slice(inner, hi, lo) if Self::is_place(inner) => {
                if !self.has_slice(inner, *hi, *lo) {
                    self.eval(inner);
                }
            }
            ExprKind::Mux(c, a, b) => {
                let (yes, no) = self.condition(c);
                self.state = yes;
                self.eval(a);
                let after = std::mem::replace(&mut self.state, no);
                self.eval(b);
                self.state.join(&after);
            }
            ExprKind::Call(call) => self.call(e, call),
            ExprKind::Reordered(all, order) => {
                order.iter().filter_map(|i| all.get(*i)).for_each(|part| self.eval(part));
            }
            ExprKind::Field(a, _)
            | ExprKind::Next(a)
            | ExprKind::Last(a)
            | ExprKind::Slice(a, ..)
            | ExprKind::Unary(_, a)
            | ExprKind::Cast(a)
            | ExprKind::TableField(a, _) => self.eval(a),
            // The place of the last element is always there.
            ExprKind::LastIndex(a) => self.indices(a),
            ExprKind::Index(a, b)
            | ExprKind::PlusSlice(a, b, _)
            | ExprKind::Binary(_, a, b)
            | ExprKind::Mask(a, b)
            | ExprKind::Range(a, b) => {
                self.eval(a);
                self.eval(b);
            }
            ExprKind::Aggregate(all) | ExprKind::SetTuple(all) => {
                all.iter().for_each(|part| self.eval(part));
            }
            // Arguments of constructors are known at compile time.
            ExprKind::Construct(_)
            | ExprKind::Const
            | ExprKind::Var(_)
            | ExprKind::Invalid
            | ExprKind::Instance(_)
            | ExprKind::Any
            | ExprKind::ValueSet(_)
            | ExprKind::This
            | ExprKind::Bad => {}
        }
    }

    /// What an l-value reads: its indices.
    pub(super) fn indices(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Field(a, _)
            | ExprKind::Next(a)
            | ExprKind::Last(a)
            | ExprKind::Slice(a, ..) => self.indices(a),
            ExprKind::Index(a, at) | ExprKind::PlusSlice(a, at, _) => {
                self.indices(a);
                self.eval(at);
            }
            _ => {}
        }
    }

    /// A condition: the states in which it holds and in which it does not. The state at hand is used up.
    pub(super) fn condition(&mut self, e: &Expr) -> (State, State) {
        if let Some(Const::Bool(b)) = e.value {
            let state = self.state.take();
            return if b { (state, State::default()) } else { (State::default(), state) };
        }
        match &e.kind {
            ExprKind::Unary(UnaryOp::LogicalNot, inner) => {
                let (yes, no) = self.condition(inner);
                (no, yes)
            }
            ExprKind::Binary(BinaryOp::LogicalAnd, a, b) => {
                let (yes, mut no) = self.condition(a);
                self.state = yes;
                let (yes, other) = self.condition(b);
                no.join(&other);
                (yes, no)
            }
            ExprKind::Binary(BinaryOp::LogicalOr, a, b) => {
                let (mut yes, no) = self.condition(a);
                self.state = no;
                let (other, no) = self.condition(b);
                yes.join(&other);
                (yes, no)
            }
            ExprKind::Call(call) => match &call.callee {
                Callee::Builtin(header, Builtin::IsValid) if self.validity(header).is_some() => {
                    self.indices(header);
                    let mut yes = self.state.clone();
                    self.found_invalid(header, e.span);
                    std::mem::swap(&mut self.state, &mut yes);
                    self.found_valid(header);
                    (self.state.take(), yes)
                }
                _ => self.either(e),
            },
            ExprKind::TableField(inner, field @ (TableField::Hit | TableField::Miss)) => {
                let Some(id) = Self::applied(inner) else { return self.either(e) };
                let before = self.state.clone();
                let ways = self.table(id);
                let t = &self.p.tables[id.index()];
                let default = t.default.as_ref().map(|d| d.action);
                let (mut hit, mut miss) = (State::default(), State::default());
                for (action, state) in &ways {
                    hit.join(state);
                    if !t.default_const || Some(*action) == default {
                        miss.join(state);
                    }
                }
                hit.forget_asked(&before);
                miss.forget_asked(&before);
                if *field == TableField::Hit { (hit, miss) } else { (miss, hit) }
            }
            _ => self.either(e),
        }
    }

    /// A condition that decides nothing.
    fn either(&mut self, e: &Expr) -> (State, State) {
        self.eval(e);
        let state = self.state.take();
        (state.clone(), state)
    }

    /// The value of an expression, which was evaluated, is now in this place.
    pub(super) fn store(&mut self, to: &Place, e: &Expr) {
        if !self.state.reached {
            return;
        }
        if Self::is_place(e)
            && let Some(from) = self.place(e)
            && from.ty == to.ty
        {
            return self.copy(&from, to);
        }
        match to.bases[..] {
            [base] => self.store_one(base, to.ty, e),
            _ => to.bases.iter().for_each(|base| self.fill(*base, to.ty, YES)),
        }
    }

    fn store_one(&mut self, base: u32, ty: TyId, e: &Expr) {
        self.fill(base, ty, YES);
        let shape = self.shape(ty);
        // Of what has no header nothing more is to be known.
        if shape.validities().next().is_none() {
            return;
        }
        if let Some(value) = &e.value {
            return self.store_const(base, ty, value);
        }
        match &e.kind {
            ExprKind::Invalid => self.store_const(base, ty, &Const::Invalid),
            ExprKind::Cast(inner) if inner.ty == e.ty => self.store_one(base, ty, inner),
            ExprKind::Aggregate(parts) | ExprKind::Reordered(parts, _) => match &shape.kind {
                Kind::Struct(fields) => {
                    for ((offset, ty), part) in fields.iter().zip(parts) {
                        self.store(&Place { bases: vec![base + offset], ty: *ty }, part);
                    }
                }
                Kind::Stack(element, each) => {
                    let count = shape.cells.len() as u32 / each;
                    for (i, part) in (0..count).zip(parts) {
                        let place = Place { bases: vec![base + i * each], ty: *element };
                        self.store(&place, part);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn store_const(&mut self, base: u32, ty: TyId, value: &Const) {
        let shape = self.shape(ty);
        match (value, &shape.kind) {
            (Const::Invalid, _) => self.fill(base, ty, super::state::NO),
            (Const::List(parts), Kind::Struct(fields)) => {
                for ((offset, ty), part) in fields.iter().zip(parts.iter()) {
                    self.store_const(base + offset, *ty, part);
                }
            }
            (Const::List(parts), Kind::Stack(element, each)) => {
                for (i, part) in (0u32..).zip(parts.iter()) {
                    self.store_const(base + i * each, *element, part);
                }
            }
            _ => {}
        }
    }
}
