//! Expressions, made smaller by what is known of the packet.
//!
//! ```text
//! as.present[15:15]       becomes   0             (as.present is zero there)
//! ipv4.ttl | ipv6.hlim    becomes   ipv4.ttl      (ipv6 is never valid)
//! a == 1                  becomes   a             (one bit)
//! ```
//!
//! Each rule keeps the width, and none makes an expression larger. An expression that stays as it is
//! costs no allocation.

use crate::known::Known;
use crate::state::State;
use ir::{BinaryOp, Bits, Expr, FieldRef, Program};

/// Where an expression stands.
pub(crate) struct Facts<'a> {
    pub(crate) program: &'a Program,
    pub(crate) state: &'a State,
    /// What is known of the action's arguments.
    pub(crate) args: &'a [Known],
}

/// What is known of the value, and the expression to put in its place, if there is a better one.
type Simplified = (Known, Option<Expr>);

impl Facts<'_> {
    /// Simplifies an expression.
    pub(crate) fn simplify(&self, e: &Expr) -> Simplified {
        let (known, new) = self.step(e);
        match (e, known.constant()) {
            (Expr::Const(_), _) | (_, None) => (known, new),
            (_, Some(bits)) => (known, Some(Expr::Const(bits))),
        }
    }

    /// The expression, simplified or as it is.
    pub(crate) fn simplified(&self, e: &Expr) -> (Known, Expr) {
        let (known, new) = self.simplify(e);
        (known, new.unwrap_or_else(|| e.clone()))
    }

    fn step(&self, e: &Expr) -> Simplified {
        let plain = |known| (known, None);
        match e {
            Expr::Const(bits) => plain(Known::of(bits)),
            Expr::Field(field) => self.field(*field),
            Expr::Param(i) => {
                plain(self.args.get(*i as usize).copied().unwrap_or(Known::nothing(0)))
            }
            Expr::Valid(header) => {
                let (may, must) = (&self.state.may, &self.state.must);
                plain(match (may.contains(header.index()), must.contains(header.index())) {
                    (false, _) => Known::bool(false),
                    (true, true) => Known::bool(true),
                    (true, false) => Known::nothing(1),
                })
            }
            Expr::StackSize(stack) => match self.state.stack_size(self.program, *stack) {
                (least, most) if least == most => plain(Known::value(least as u128, 8)),
                _ => plain(Known::nothing(8)),
            },
            Expr::Lookahead { width, .. } => plain(Known::nothing(*width)),
            Expr::Remaining => plain(Known::nothing(32)),
            Expr::Slice(inner, hi, lo) => {
                let (known, new) = self.simplify(inner);
                if *lo == 0 && hi + 1 == known.width {
                    return (known, Some(new.unwrap_or_else(|| (**inner).clone())));
                }
                (known.slice(*hi, *lo), new.map(|new| Expr::Slice(Box::new(new), *hi, *lo)))
            }
            Expr::Cast(inner, width) => {
                let (known, new) = self.simplify(inner);
                if *width == known.width {
                    return (known, Some(new.unwrap_or_else(|| (**inner).clone())));
                }
                (known.cast(*width), new.map(|new| Expr::Cast(Box::new(new), *width)))
            }
            Expr::SignCast(inner, width) => {
                let (known, new) = self.simplify(inner);
                if *width == known.width {
                    return (known, Some(new.unwrap_or_else(|| (**inner).clone())));
                }
                (known.sign_cast(*width), new.map(|new| Expr::SignCast(Box::new(new), *width)))
            }
            Expr::Unary(op, inner) => {
                let (known, new) = self.simplify(inner);
                if let Expr::Unary(same, twice) = new.as_ref().unwrap_or(inner)
                    && same == op
                {
                    return (known.unary(*op), Some((**twice).clone()));
                }
                (known.unary(*op), new.map(|new| Expr::Unary(*op, Box::new(new))))
            }
            Expr::Binary(op, a, b) => self.binary(*op, a, b),
            Expr::Mux(condition, a, b) => {
                let (decides, new_c) = self.simplify(condition);
                let taken = match decides.only() {
                    Some(0) => Some(b),
                    Some(_) => Some(a),
                    None => None,
                };
                if let Some(taken) = taken {
                    let (known, new) = self.simplify(taken);
                    return (known, Some(new.unwrap_or_else(|| (**taken).clone())));
                }
                let ((mut known, new_a), (other, new_b)) = (self.simplify(a), self.simplify(b));
                known.join(&other);
                if new_a.as_ref().unwrap_or(a) == new_b.as_ref().unwrap_or(b) {
                    return (known, Some(new_a.unwrap_or_else(|| (**a).clone())));
                }
                if new_c.is_none() && new_a.is_none() && new_b.is_none() {
                    return (known, None);
                }
                let boxed =
                    |new: Option<Expr>, old: &Expr| Box::new(new.unwrap_or_else(|| old.clone()));
                let (c, a, b) = (boxed(new_c, condition), boxed(new_a, a), boxed(new_b, b));
                (known, Some(Expr::Mux(c, a, b)))
            }
            Expr::Hash { algorithm, width, inputs } => {
                let new: Vec<_> = inputs.iter().map(|e| self.simplify(e).1).collect();
                let known = Known::nothing(*width);
                if new.iter().all(Option::is_none) {
                    return (known, None);
                }
                let inputs = new.into_iter().zip(inputs);
                let inputs = inputs.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect();
                (known, Some(Expr::Hash { algorithm: *algorithm, width: *width, inputs }))
            }
        }
    }

    fn field(&self, field: FieldRef) -> Simplified {
        if let FieldRef::Meta(meta) = field {
            return (self.state.meta(meta), None);
        }
        let width = self.program.field_width(field).unwrap_or(0);
        if self.state.writable(self.program, field) {
            return (Known::nothing(width), None);
        }
        // Zero, of whatever width.
        (Known::value(0, width), Some(Expr::Const(Bits::zero(width))))
    }

    fn binary(&self, op: BinaryOp, a: &Expr, b: &Expr) -> Simplified {
        let ((known_a, new_a), (known_b, new_b)) = (self.simplify(a), self.simplify(b));
        let known = Known::binary(op, known_a, known_b);
        let left = || new_a.clone().unwrap_or_else(|| a.clone());
        let right = || new_b.clone().unwrap_or_else(|| b.clone());
        let all = |k: &Known| k.only().is_some_and(|v| v == crate::known::mask(k.width));
        let zero_a = known_a.only() == Some(0) || is_zero(new_a.as_ref().unwrap_or(a));
        let zero_b = known_b.only() == Some(0) || is_zero(new_b.as_ref().unwrap_or(b));
        let (one_bit, ones_a, ones_b) = (known_a.width == 1, all(&known_a), all(&known_b));
        // What remains if one operand decides nothing.
        let new = match op {
            BinaryOp::Or | BinaryOp::Xor | BinaryOp::Add | BinaryOp::AddSat if zero_a => {
                Some(right())
            }
            BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Add
            | BinaryOp::AddSat
            | BinaryOp::Sub
            | BinaryOp::SubSat
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::Sar
                if zero_b =>
            {
                Some(left())
            }
            BinaryOp::And | BinaryOp::LogicalAnd if ones_a => Some(right()),
            BinaryOp::And | BinaryOp::LogicalAnd if ones_b => Some(left()),
            BinaryOp::LogicalOr if zero_a => Some(right()),
            BinaryOp::LogicalOr if zero_b => Some(left()),
            BinaryOp::Eq if one_bit && ones_a => Some(right()),
            BinaryOp::Eq if one_bit && ones_b => Some(left()),
            BinaryOp::Ne if one_bit && zero_a => Some(right()),
            BinaryOp::Ne if one_bit && zero_b => Some(left()),
            _ if new_a.is_some() || new_b.is_some() => Some(Expr::binary(op, left(), right())),
            _ => None,
        };
        (known, new)
    }
}

/// A constant zero of any width.
fn is_zero(e: &Expr) -> bool {
    matches!(e, Expr::Const(bits) if bits.is_zero())
}
