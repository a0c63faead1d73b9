//! Values at compile time (specification §8.6 to §8.9, §18.1).

use super::Checker;
use crate::ast::{BinaryOp, UnaryOp};
use crate::diag::Diagnostic;
use crate::hir::{Const, Expr, ExprKind};
use crate::source::Span;
use crate::types::*;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};

/// The number as a value of `width` bits: without its high bits, and its sign if `signed`.
pub(crate) fn wrap(value: &BigInt, width: u32, signed: bool) -> BigInt {
    let modulus = BigInt::from(1) << width;
    let mut v = value % &modulus;
    if v.is_negative() {
        v += &modulus;
    }
    if signed && width > 0 && v.bit(u64::from(width) - 1) {
        v -= modulus;
    }
    v
}

/// Least and greatest value of a width.
fn bounds(width: u32, signed: bool) -> (BigInt, BigInt) {
    let one = BigInt::from(1);
    if signed && width > 0 {
        (-(one.clone() << (width - 1)), (one.clone() << (width - 1)) - one)
    } else {
        (BigInt::zero(), (one.clone() << width) - one)
    }
}

/// Shifts of constants, at most, so that no constant grows without bound.
const SHIFT_MAX: u32 = 65_536;

impl Checker<'_> {
    /// Width and sign of a type of fixed width.
    pub(super) fn width_of(&self, ty: TyId) -> Option<(u32, bool)> {
        match self.p.ty(ty) {
            Ty::Bit(w) => Some((*w, false)),
            Ty::Signed(w) => Some((*w, true)),
            Ty::New(n) => self.width_of(self.p.newtypes[n.index()].base),
            Ty::Enum(e) => self.width_of(self.p.enums[e.index()].repr?),
            _ => None,
        }
    }

    pub(super) fn fitted(&self, value: BigInt, ty: TyId) -> BigInt {
        match self.width_of(ty) {
            Some((w, s)) => wrap(&value, w, s),
            None => value,
        }
    }

    /// A cast that is known to be allowed. An implicit one tells when a value does not fit.
    pub(super) fn cast_to(&mut self, e: Expr, to: TyId, explicit: bool) -> Expr {
        let span = e.span;
        let value = match (&e.value, self.p.ty(to).clone()) {
            (Some(Const::Int(v)), Ty::Bool) => Some(Const::Bool(!v.is_zero())),
            (Some(Const::Bool(b)), Ty::Bit(_)) => Some(Const::Int(BigInt::from(u8::from(*b)))),
            (Some(Const::Int(v)), _) => {
                let fitted = self.fitted(v.clone(), to);
                let from_int = *self.p.ty(e.ty) == Ty::Int;
                if fitted != *v && from_int && !explicit {
                    let (width, signed) = self.width_of(to).unwrap_or((0, false));
                    let (lo, hi) = bounds(width, signed);
                    // -1 as all ones is meant, and so is 0xFF as int<8>.
                    let meant = BigInt::from(1) << width;
                    if v.abs() >= meant || (signed && *v < lo) {
                        let text = format!(
                            "{v} does not fit {}, whose values are {lo} to {hi}; it becomes {fitted}",
                            self.p.show(to)
                        );
                        self.d.add(Diagnostic::warning("overflow", span, text));
                    }
                }
                Some(Const::Int(fitted))
            }
            (Some(v), _) => Some(v.clone()),
            (None, _) => None,
        };
        let kind = if value.is_some() { ExprKind::Const } else { ExprKind::Cast(Box::new(e)) };
        Expr { kind, ty: to, span, value }
    }

    pub(super) fn fold_unary(&mut self, op: UnaryOp, a: &Expr, ty: TyId) -> Option<Const> {
        Some(match (op, a.value.as_ref()?) {
            (UnaryOp::LogicalNot, Const::Bool(b)) => Const::Bool(!b),
            (UnaryOp::Plus, v) => v.clone(),
            (UnaryOp::Neg, Const::Int(v)) => Const::Int(self.fitted(-v, ty)),
            (UnaryOp::Not, Const::Int(v)) => Const::Int(self.fitted(!v, ty)),
            _ => return None,
        })
    }

    /// The value of an operation on constants. Tells of divisions by zero and the like.
    pub(super) fn fold_binary(
        &mut self,
        op: BinaryOp,
        a: &Expr,
        b: &Expr,
        ty: TyId,
        span: Span,
    ) -> Option<Const> {
        use BinaryOp::*;
        // What is wrong with the right side alone is wrong whatever the left one is.
        if let Some(Const::Int(y)) = &b.value {
            match op {
                Div | Mod if y.is_zero() => {
                    self.error("division", b.span, "division by zero");
                    return None;
                }
                Div | Mod if y.is_negative() => {
                    self.error("division", b.span, "division by a negative number is not defined");
                    return None;
                }
                Shl | Shr if y.is_negative() => {
                    let d = Diagnostic::error(
                        "bad-shift",
                        b.span,
                        format!("a shift by {y}, which is negative"),
                    );
                    self.d.add(d.help("shift the other way"));
                    return None;
                }
                _ => {}
            }
        }
        match (op, &a.value, &b.value) {
            (Div | Mod, Some(Const::Int(x)), _) if x.is_negative() => {
                self.error("division", a.span, "division of a negative number is not defined");
                return None;
            }
            (LogicalAnd, Some(Const::Bool(false)), _) => return Some(Const::Bool(false)),
            (LogicalOr, Some(Const::Bool(true)), _) => return Some(Const::Bool(true)),
            _ => {}
        }
        let (x, y) = (a.value.as_ref()?, b.value.as_ref()?);
        Some(match (op, x, y) {
            (Eq, _, _) => Const::Bool(x == y),
            (Ne, _, _) => Const::Bool(x != y),
            (LogicalAnd, Const::Bool(x), Const::Bool(y)) => Const::Bool(*x && *y),
            (LogicalOr, Const::Bool(x), Const::Bool(y)) => Const::Bool(*x || *y),
            (Concat, Const::Str(x), Const::Str(y)) => Const::Str(format!("{x}{y}").into()),
            (_, Const::Int(x), Const::Int(y)) => match op {
                Lt => Const::Bool(x < y),
                Le => Const::Bool(x <= y),
                Gt => Const::Bool(x > y),
                Ge => Const::Bool(x >= y),
                Concat => {
                    let (wa, _) = self.width_of(a.ty)?;
                    let (wb, _) = self.width_of(b.ty)?;
                    let v = (wrap(x, wa, false) << wb) | wrap(y, wb, false);
                    Const::Int(self.fitted(v, ty))
                }
                AddSat | SubSat => {
                    let (w, s) = self.width_of(ty)?;
                    let (lo, hi) = bounds(w, s);
                    let v = if op == AddSat { x + y } else { x - y };
                    Const::Int(v.clamp(lo, hi))
                }
                Shl | Shr => {
                    let by = y.to_u32().unwrap_or(u32::MAX);
                    if op == Shl && by > SHIFT_MAX {
                        if *self.p.ty(ty) == Ty::Int {
                            self.error(
                                "bad-shift",
                                span,
                                format!("a shift by more than {SHIFT_MAX} bits"),
                            );
                            return None;
                        }
                        return Some(Const::Int(BigInt::zero()));
                    }
                    if op == Shl {
                        let v = self.fitted(x << by, ty);
                        if v.bits() > u64::from(SHIFT_MAX) * 2 {
                            self.error("bad-shift", span, "the number becomes too large");
                            return None;
                        }
                        Const::Int(v)
                    } else {
                        let by = by.min(SHIFT_MAX * 2);
                        Const::Int(self.fitted(x >> by, ty))
                    }
                }
                _ => {
                    let v = match op {
                        Mul => x * y,
                        Div => x / y,
                        Mod => x % y,
                        Add => x + y,
                        Sub => x - y,
                        And => x & y,
                        Or => x | y,
                        Xor => x ^ y,
                        _ => return None,
                    };
                    let v = self.fitted(v, ty);
                    if v.bits() > u64::from(SHIFT_MAX) * 2 {
                        self.error("overflow", span, "the number becomes too large");
                        return None;
                    }
                    Const::Int(v)
                }
            },
            _ => return None,
        })
    }

    /// Bits `hi` to `lo` of a constant.
    pub(super) fn fold_slice(value: &Const, hi: u32, lo: u32) -> Option<Const> {
        match value {
            Const::Int(v) => Some(Const::Int(wrap(&(v >> lo), hi - lo + 1, false))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_to_their_width() {
        let wrapped = |v: i64, w, s| wrap(&BigInt::from(v), w, s).to_i64();
        assert_eq!(wrapped(256, 8, false), Some(0));
        assert_eq!(wrapped(-1, 8, false), Some(255));
        assert_eq!(wrapped(255, 8, true), Some(-1));
        assert_eq!(wrapped(128, 8, true), Some(-128));
        assert_eq!(wrapped(-129, 8, true), Some(127));
        assert_eq!(wrapped(5, 0, false), Some(0));
    }
}
