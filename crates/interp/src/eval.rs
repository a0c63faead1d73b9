//! The value of an expression.
//!
//! Total: whatever the operands, there is a value (see [`ir::expr`]). Constants and parameters are
//! borrowed, so that comparing a field with one costs no copy.

use crate::hash;
use crate::layout::Layout;
use crate::source::{Parts, Writer};
use crate::store::Store;
use ir::{BinaryOp, Bits, Expr, UnaryOp};
use std::borrow::Cow;
use std::cmp::Ordering;

/// What expressions may look at.
pub(crate) struct Env<'a, 's> {
    pub(crate) layout: &'s Layout,
    pub(crate) store: &'s Store,
    /// The action's arguments.
    pub(crate) args: &'a [Bits],
    /// The packet's bytes.
    pub(crate) parts: Parts<'s>,
    /// Where its unparsed rest begins, in bits.
    pub(crate) cursor: usize,
}

impl<'a> Env<'a, '_> {
    /// The value.
    pub(crate) fn eval(&self, e: &'a Expr) -> Cow<'a, Bits> {
        Cow::Owned(match e {
            Expr::Const(bits) => return Cow::Borrowed(bits),
            Expr::Param(i) => match self.args.get(*i as usize) {
                Some(bits) => return Cow::Borrowed(bits),
                None => Bits::zero(0),
            },
            Expr::Field(field) => self.store.read(self.layout, *field),
            Expr::Valid(header) => Bits::from_bool(self.store.valid(*header)),
            Expr::StackSize(stack) => {
                Bits::from_u128(self.store.stack_size(self.layout, *stack) as u128, 8)
            }
            Expr::Lookahead { skip, width } => {
                self.parts.read(self.cursor.saturating_add(*skip as usize), *width)
            }
            Expr::Remaining => {
                let left = self.parts.bits().saturating_sub(self.cursor);
                Bits::from_u128(left as u128, 32)
            }
            Expr::Slice(e, hi, lo) => self.eval(e).slice(*hi, *lo),
            Expr::Cast(e, width) => {
                let value = self.eval(e);
                if value.width() == *width {
                    return value;
                }
                value.cast(*width)
            }
            Expr::SignCast(e, width) => self.eval(e).sign_cast(*width),
            Expr::Unary(op, e) => {
                let value = self.eval(e);
                match op {
                    UnaryOp::Not => value.not(),
                    UnaryOp::Neg => value.neg(),
                    UnaryOp::LogicalNot => Bits::from_bool(value.is_zero()),
                }
            }
            Expr::Binary(op, a, b) => self.binary(*op, a, b),
            Expr::Mux(condition, a, b) => {
                return if self.holds(condition) { self.eval(a) } else { self.eval(b) };
            }
            Expr::Hash { algorithm, width, inputs } => {
                let mut bytes = Vec::new();
                let bits = self.concat(inputs, &mut bytes, true);
                hash::hash(*algorithm, &bytes, bits).cast(*width)
            }
        })
    }

    /// A one-bit expression is 1.
    pub(crate) fn holds(&self, condition: &'a Expr) -> bool {
        !self.eval(condition).is_zero()
    }

    /// Writes the concatenated values to `out`, padded with zero bits to whole bytes; how many bits
    /// they are. A varbit field gives the bits that it has, or, if not `exact`, zeros in front of them.
    pub(crate) fn concat(&self, inputs: &'a [Expr], out: &mut Vec<u8>, exact: bool) -> usize {
        let mut writer = Writer::new(out);
        for input in inputs {
            match input {
                Expr::Field(field) => self.store.append(self.layout, *field, exact, &mut writer),
                _ => writer.value(&self.eval(input)),
            }
        }
        writer.bits()
    }

    fn binary(&self, op: BinaryOp, a: &'a Expr, b: &'a Expr) -> Bits {
        let (a, b) = (self.eval(a), self.eval(b));
        let order = |wanted: fn(Ordering) -> bool| Bits::from_bool(wanted(a.compare(&b)));
        match op {
            BinaryOp::Add => a.add(&b),
            BinaryOp::Sub => a.sub(&b),
            BinaryOp::Mul => a.mul(&b),
            BinaryOp::AddSat => a.add_sat(&b),
            BinaryOp::SubSat => a.sub_sat(&b),
            BinaryOp::And => a.and(&b),
            BinaryOp::Or => a.or(&b),
            BinaryOp::Xor => a.xor(&b),
            BinaryOp::Shl => a.shl(b.shift_amount()),
            BinaryOp::Shr => a.shr(b.shift_amount()),
            BinaryOp::Sar => a.sar(b.shift_amount()),
            BinaryOp::Eq => order(Ordering::is_eq),
            BinaryOp::Ne => order(Ordering::is_ne),
            BinaryOp::Lt => order(Ordering::is_lt),
            BinaryOp::Le => order(Ordering::is_le),
            BinaryOp::Gt => order(Ordering::is_gt),
            BinaryOp::Ge => order(Ordering::is_ge),
            BinaryOp::SLt => Bits::from_bool(a.compare_signed(&b).is_lt()),
            BinaryOp::SLe => Bits::from_bool(a.compare_signed(&b).is_le()),
            BinaryOp::LogicalAnd => Bits::from_bool(!a.is_zero() && !b.is_zero()),
            BinaryOp::LogicalOr => Bits::from_bool(!a.is_zero() || !b.is_zero()),
            BinaryOp::Concat => a.concat(&b),
        }
    }
}
