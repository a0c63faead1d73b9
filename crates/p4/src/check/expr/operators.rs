//! Operators: operands and types of their results; casts.

use crate::ast::{self, BinaryOp, UnaryOp};
use crate::check::Checker;
use crate::diag::Diagnostic;
use crate::hir::{Const, Expr, ExprKind};
use crate::source::Span;
use crate::types::*;
use num_bigint::BigInt;
use num_traits::Signed;

impl Checker<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, a: Expr, span: Span) -> Expr {
        let a = self.plain_number(a);
        let ty = self.zonk(a.ty);
        let ok = match (op, self.p.ty(ty)) {
            (_, Ty::Bad) => return self.bad(span),
            (UnaryOp::LogicalNot, Ty::Bool) => true,
            (UnaryOp::Not, Ty::Bit(_) | Ty::Signed(_)) => true,
            (UnaryOp::Neg | UnaryOp::Plus, Ty::Bit(_) | Ty::Signed(_) | Ty::Int) => true,
            _ => false,
        };
        if !ok {
            let sign = match op {
                UnaryOp::LogicalNot => "!",
                UnaryOp::Not => "~",
                UnaryOp::Neg => "-",
                UnaryOp::Plus => "+",
            };
            let text = format!("`{sign}` is not defined for {}", self.p.show(ty));
            let d = Diagnostic::error("bad-operand", span, text);
            self.d.add(match (op, self.p.ty(ty)) {
                (UnaryOp::LogicalNot, Ty::Bit(_)) => {
                    d.help("`~` inverts bits; compare with 0 for a bool")
                }
                (UnaryOp::Not, Ty::Int) => d.help("give the number a width: `8w1`"),
                (UnaryOp::Not, Ty::Bool) => d.help("`!` negates a bool"),
                _ => d,
            });
            return self.bad(span);
        }
        let value = self.fold_unary(op, &a, ty);
        let kind = match value {
            Some(_) => ExprKind::Const,
            None if op == UnaryOp::Plus => return Expr { span, ..a },
            None => ExprKind::Unary(op, Box::new(a)),
        };
        Expr { kind, ty, span, value }
    }

    /// A serializable enum as its number (§8.3), where a number is needed.
    pub(super) fn plain_number(&mut self, e: Expr) -> Expr {
        let ty = self.zonk(e.ty);
        match self.p.ty(ty) {
            Ty::Enum(n) => match self.p.enums[n.index()].repr {
                Some(repr) => self.cast_to(e, repr, true),
                None => e,
            },
            _ => Expr { ty, ..e },
        }
    }

    pub(in crate::check) fn binary(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        use BinaryOp::*;
        let (at, bt) = (self.zonk(a.ty), self.zonk(b.ty));
        if *self.p.ty(at) == Ty::Bad || *self.p.ty(bt) == Ty::Bad {
            return self.bad(span);
        }
        if matches!(op, Eq | Ne) {
            return self.equality(op, a, b, span);
        }
        let (a, b) = (self.plain_number(a), self.plain_number(b));
        let (at, bt) = (self.p.ty(a.ty).clone(), self.p.ty(b.ty).clone());
        let (a, b, ty) = match op {
            LogicalAnd | LogicalOr if at == Ty::Bool && bt == Ty::Bool => (a, b, basic::BOOL),
            Concat => match (&at, &bt) {
                (Ty::Bit(w) | Ty::Signed(w), Ty::Bit(v) | Ty::Signed(v)) => {
                    let sum = w + v;
                    if sum > crate::check::types::WIDTH_MAX {
                        self.error(
                            "bad-width",
                            span,
                            format!("{sum} bits are more than there can be"),
                        );
                        return self.bad(span);
                    }
                    let ty =
                        if matches!(at, Ty::Signed(_)) { Ty::Signed(sum) } else { Ty::Bit(sum) };
                    let ty = self.p.types.id(ty);
                    (a, b, ty)
                }
                (Ty::String, Ty::String) => (a, b, basic::STRING),
                _ => return self.bad_operands(op, &a, &b, span),
            },
            Shl | Shr => {
                let left = matches!(at, Ty::Bit(_) | Ty::Signed(_) | Ty::Int);
                match &bt {
                    Ty::Bit(_) | Ty::Int if left => {}
                    Ty::Signed(_) if left && b.value.is_some() => {}
                    Ty::Signed(_) if left => {
                        let text =
                            format!("a shift by {}, which could be negative", self.p.show(b.ty));
                        let d = Diagnostic::error("bad-shift", b.span, text);
                        self.d.add(d.help("cast it to `bit` first"));
                        return self.bad(span);
                    }
                    _ => return self.bad_operands(op, &a, &b, span),
                }
                if bt == Ty::Int && b.value.is_none() && !self.known(&b) {
                    self.error("not-constant", b.span, "an `int` is known at compile time");
                }
                if at == Ty::Int && !self.known(&b) {
                    let d = Diagnostic::error(
                        "bad-shift",
                        a.span,
                        "an `int` cannot be shifted by a value that is not constant",
                    );
                    self.d.add(d.help("give it a width: `32w1`"));
                    return self.bad(span);
                }
                let ty = a.ty;
                (a, b, ty)
            }
            _ => {
                if matches!(op, Div | Mod)
                    && let Some(Const::Int(v)) = &b.value
                    && v.is_negative()
                {
                    self.error("division", b.span, "division by a negative number is not defined");
                    return self.bad(span);
                }
                let (a, b) = match (&at, &bt) {
                    (Ty::Int, Ty::Bit(_) | Ty::Signed(_)) => {
                        let to = b.ty;
                        (self.cast_to(a, to, false), b)
                    }
                    (Ty::Bit(_) | Ty::Signed(_), Ty::Int) => {
                        let to = a.ty;
                        let b = self.cast_to(b, to, false);
                        (a, b)
                    }
                    _ => (a, b),
                };
                let ok = a.ty == b.ty
                    && match self.p.ty(a.ty) {
                        Ty::Bit(_) => true,
                        Ty::Signed(_) => !matches!(op, Div | Mod),
                        Ty::Int => !matches!(op, AddSat | SubSat),
                        _ => false,
                    };
                if !ok || matches!(op, LogicalAnd | LogicalOr) {
                    return self.bad_operands(op, &a, &b, span);
                }
                let ty = if matches!(op, Lt | Le | Gt | Ge) { basic::BOOL } else { a.ty };
                (a, b, ty)
            }
        };
        let before = self.d.errors();
        let value = self.fold_binary(op, &a, &b, ty, span);
        if self.d.errors() > before {
            return self.bad(span);
        }
        let kind = match value {
            Some(_) => ExprKind::Const,
            None => ExprKind::Binary(op, Box::new(a), Box::new(b)),
        };
        Expr { kind, ty, span, value }
    }

    pub(super) fn bad_operands(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Expr {
        use BinaryOp::*;
        let (at, bt) = (self.zonk(a.ty), self.zonk(b.ty));
        let text = format!(
            "`{}` is not defined for {} and {}",
            op.word(),
            self.p.show(at),
            self.p.show(bt)
        );
        let d = Diagnostic::error("bad-operand", span, text);
        let d = match (op, self.p.ty(at), self.p.ty(bt)) {
            (And, Ty::Bool, Ty::Bool) => d.help("`&&` is the operator on bools"),
            (Or, Ty::Bool, Ty::Bool) => d.help("`||` is the operator on bools"),
            (LogicalAnd, Ty::Bit(_), Ty::Bit(_)) => {
                d.help("`&` is the operator on bits; compare with 0 for a bool")
            }
            (LogicalOr, Ty::Bit(_), Ty::Bit(_)) => {
                d.help("`|` is the operator on bits; compare with 0 for a bool")
            }
            (Concat, Ty::Int, _) | (Concat, _, Ty::Int) => d.help("give the number a width: `8w1`"),
            (Div | Mod, Ty::Signed(_), _) => d.help("division is defined for unsigned numbers"),
            (_, Ty::Bit(x), Ty::Bit(y)) if x != y => {
                let wide = if x > y { at } else { bt };
                d.help(format!("cast one of them: `({}) ...`", self.p.show(wide)))
            }
            (_, Ty::Bit(_), Ty::Signed(_)) | (_, Ty::Signed(_), Ty::Bit(_)) => {
                d.help("cast one of them, so that both have the same sign")
            }
            _ => d,
        };
        self.d.add(d);
        self.bad(span)
    }

    pub(super) fn equality(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let (at, bt) = (self.zonk(a.ty), self.zonk(b.ty));
        let (ta, tb) = (self.p.ty(at).clone(), self.p.ty(bt).clone());
        let literal = |t: &Ty| matches!(t, Ty::Literal(..) | Ty::Int | Ty::Invalid | Ty::Dots);
        let numeric = |t: &Ty| matches!(t, Ty::Int | Ty::Bit(_) | Ty::Signed(_));
        let (a, b) = match (&ta, &tb) {
            (Ty::Enum(_), t) if numeric(t) => (self.plain_number(a), b),
            (t, Ty::Enum(_)) if numeric(t) => (a, self.plain_number(b)),
            _ => (a, b),
        };
        let (at, bt) = (a.ty, b.ty);
        let (ta, tb) = (self.p.ty(at).clone(), self.p.ty(bt).clone());
        let result = if literal(&ta) && !literal(&tb) {
            self.try_coerce(a.clone(), bt).map(|a| (a, b.clone()))
        } else if literal(&tb) && !literal(&ta) {
            self.try_coerce(b.clone(), at).map(|b| (a.clone(), b))
        } else if at == bt || self.unify(at, bt) {
            Ok((a.clone(), b.clone()))
        } else {
            let (x, y) = (self.plain_number(a.clone()), self.plain_number(b.clone()));
            if x.ty == y.ty { Ok((x, y)) } else { Err(String::new()) }
        };
        let Ok((a, b)) = result else {
            return self.bad_operands(op, &a, &b, span);
        };
        let ty = self.zonk(a.ty);
        if !self.comparable(ty) {
            return self.bad_operands(op, &a, &b, span);
        }
        let value = self.fold_binary(op, &a, &b, basic::BOOL, span);
        let kind = match value {
            Some(_) => ExprKind::Const,
            None => ExprKind::Binary(op, Box::new(a), Box::new(b)),
        };
        Expr { kind, ty: basic::BOOL, span, value }
    }

    pub(super) fn comparable(&mut self, ty: TyId) -> bool {
        match self.p.ty(ty).clone() {
            Ty::Void
            | Ty::Var(_)
            | Ty::MatchKind
            | Ty::Extern(..)
            | Ty::Apply(..)
            | Ty::Package(..)
            | Ty::Set(_)
            | Ty::TableResult(_)
            | Ty::ActionRun(_)
            | Ty::Dots
            | Ty::Invalid => false,
            Ty::Struct(s, args) => self.p.field_types(s, &args).iter().all(|f| self.comparable(*f)),
            Ty::Stack(e, _) | Ty::List(e) => self.comparable(e),
            Ty::Tuple(items) => items.iter().all(|i| self.comparable(*i)),
            _ => true,
        }
    }

    pub(super) fn mux(&mut self, c: &ast::Expr, a: &ast::Expr, b: &ast::Expr, span: Span) -> Expr {
        let c = self.condition(c);
        let a = self.expr(a);
        let b = self.expr(b);
        let (at, bt) = (self.zonk(a.ty), self.zonk(b.ty));
        let (ta, tb) = (self.p.ty(at).clone(), self.p.ty(bt).clone());
        if ta == Ty::Bad || tb == Ty::Bad {
            return self.bad(span);
        }
        let loose = |t: &Ty| matches!(t, Ty::Int | Ty::Literal(..) | Ty::Dots | Ty::Invalid);
        let (a, b) = if loose(&ta) && !loose(&tb) {
            (self.coerce(a, bt), b)
        } else if matches!((&ta, &tb), (Ty::Literal(..), Ty::Literal(..))) {
            // What it is for says what it becomes.
            let kind = ExprKind::Mux(Box::new(c), Box::new(a), Box::new(b));
            return Expr { kind, ty: at, span, value: None };
        } else {
            let to = self.settle(at);
            let a = self.coerce(a, to);
            (a, self.coerce(b, to))
        };
        let ty = self.zonk(a.ty);
        if *self.p.ty(ty) == Ty::Int && !self.known(&c) {
            let d =
                Diagnostic::error("not-constant", span, "both values are numbers without a width");
            self.d.add(d.help("give one of them a width: `8w1`"));
        }
        let chosen = match &c.value {
            Some(Const::Bool(true)) => a.value.clone(),
            Some(Const::Bool(false)) => b.value.clone(),
            _ => None,
        };
        let kind = match chosen {
            Some(_) => ExprKind::Const,
            None => ExprKind::Mux(Box::new(c), Box::new(a), Box::new(b)),
        };
        Expr { kind, ty, span, value: chosen }
    }

    /// An explicit cast (§8.11.1).
    pub(super) fn cast(&mut self, e: Expr, to: TyId, span: Span) -> Expr {
        let from = self.zonk(e.ty);
        let (f, t) = (self.p.ty(from).clone(), self.p.ty(to).clone());
        if f == Ty::Bad || t == Ty::Bad {
            return Expr { ty: to, ..self.bad(span) };
        }
        let base = |this: &Self, t: &Ty| match t {
            Ty::New(n) => Some(this.p.newtypes[n.index()].base),
            Ty::Enum(n) => this.p.enums[n.index()].repr,
            _ => None,
        };
        let direct = match (&f, &t) {
            _ if from == to => return Expr { span, ..e },
            (Ty::Int, Ty::Bit(_) | Ty::Signed(_)) => true,
            (Ty::Int, Ty::Bool) => {
                matches!(&e.value, Some(Const::Int(v)) if *v == BigInt::from(0) || *v == BigInt::from(1))
            }
            (Ty::Bit(_) | Ty::Signed(_), Ty::Int) => true,
            (Ty::Bit(_), Ty::Bit(_)) | (Ty::Signed(_), Ty::Signed(_)) => true,
            (Ty::Bit(a), Ty::Signed(b)) | (Ty::Signed(a), Ty::Bit(b)) => a == b,
            (Ty::Bit(1), Ty::Bool) | (Ty::Bool, Ty::Bit(1)) => true,
            // §8.11: between a `type` or a serializable enum and what it is made of.
            (_, Ty::New(_)) if base(self, &t) == Some(from) => true,
            (Ty::New(_), _) if base(self, &f) == Some(to) => true,
            (_, Ty::Enum(_)) if base(self, &t) == Some(from) => true,
            (Ty::Enum(_), _) if base(self, &f) == Some(to) => true,
            _ => false,
        };
        if direct {
            let e = self.cast_to(e, to, true);
            return Expr { span, ..e };
        }
        // In two steps, where the first one is by the representation.
        let through = match (&f, &t) {
            (
                Ty::New(_) | Ty::Enum(_),
                Ty::Bit(_) | Ty::Signed(_) | Ty::Int | Ty::Bool | Ty::New(_) | Ty::Enum(_),
            ) => base(self, &f),
            (Ty::Int | Ty::Bit(_) | Ty::Signed(_), Ty::New(_) | Ty::Enum(_)) => base(self, &t),
            _ => None,
        };
        if let Some(mid) = through {
            let widths = (self.width_of(from), self.width_of(to));
            let ok = match (&f, &t) {
                (Ty::Int, _) | (_, Ty::Int) => true,
                (_, Ty::Bit(_) | Ty::Signed(_)) => widths.0.is_some(),
                (Ty::Bit(_) | Ty::Signed(_), Ty::New(_)) => matches!(self.p.ty(mid), Ty::New(_)),
                (Ty::Bit(_) | Ty::Signed(_), Ty::Enum(_)) => {
                    widths.0.zip(widths.1).is_some_and(|(a, b)| a.1 == b.1)
                }
                _ => widths.0 == widths.1,
            };
            if ok {
                let e = self.cast(e, mid, span);
                return self.cast(e, to, span);
            }
        }
        match self.try_coerce(e, to) {
            Ok(e) => Expr { span, ..e },
            Err(detail) => {
                let text = format!("{} cannot be cast to {}", self.show(from), self.show(to));
                let mut d = Diagnostic::error("bad-cast", span, text);
                if !detail.is_empty() {
                    d = d.note(Span::default(), detail);
                }
                d = match (&f, &t) {
                    (Ty::Bit(a), Ty::Signed(b)) if a != b => {
                        d.help(format!("change the width first: `(int<{b}>) (bit<{b}>) ...`"))
                    }
                    (Ty::Signed(a), Ty::Bit(b)) if a != b => {
                        d.help(format!("change the width first: `(bit<{b}>) (int<{b}>) ...`"))
                    }
                    (Ty::Bit(_), Ty::Bool) => d.help("compare it: `... != 0`"),
                    _ => d,
                };
                self.d.add(d);
                Expr { ty: to, ..self.bad(span) }
            }
        }
    }
}
