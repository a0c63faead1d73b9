//! Expressions that are worked out by Rust rather than code: those of values too wide for it, of varbit fields,
//! of hashes over long strings.

use super::bits::Writer;
use super::hash;
use super::layout::Layout;
use super::state::Values;
use ir::{BinaryOp, Bits, Expr, UnaryOp};
use std::cmp::Ordering;

/// What expressions may look at.
pub(crate) struct Env<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) values: Values<'a>,
    /// The action's arguments.
    pub(crate) args: &'a [Bits],
    /// The packet's bytes.
    pub(crate) source: &'a [u8],
    /// Where their unparsed rest begins, in bits.
    pub(crate) cursor: usize,
}

impl Env<'_> {
    /// The value.
    pub(crate) fn eval(&self, e: &Expr) -> Bits {
        match e {
            Expr::Const(bits) => bits.clone(),
            Expr::Param(i) => self.args.get(*i as usize).cloned().unwrap_or_else(|| Bits::zero(0)),
            Expr::Field(field) => self.values.read(self.layout, *field),
            Expr::Valid(header) => Bits::from_bool(self.values.valid(*header)),
            Expr::StackSize(stack) => {
                Bits::from_u128(self.values.stack_size(self.layout, *stack) as u128, 8)
            }
            Expr::Lookahead { skip, width } => {
                let at = self.cursor.saturating_add(*skip as usize);
                let mut run = vec![0; (*width as usize).div_ceil(8)];
                super::bits::copy(self.source, at, *width as usize, &mut run);
                Bits::extract(&run, 0, *width)
            }
            Expr::Remaining => {
                Bits::from_u128((8 * self.source.len()).saturating_sub(self.cursor) as u128, 32)
            }
            Expr::Slice(e, hi, lo) => self.eval(e).slice(*hi, *lo),
            Expr::Cast(e, width) => self.eval(e).cast(*width),
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
            Expr::Mux(condition, a, b) => self.eval(if self.holds(condition) { a } else { b }),
            Expr::Hash { algorithm, width, inputs } => {
                let mut bytes = Vec::new();
                let bits = self.concat(inputs, &mut bytes, true);
                hash::hash(*algorithm, &bytes, bits).cast(*width)
            }
        }
    }

    /// A one-bit expression is 1.
    pub(crate) fn holds(&self, condition: &Expr) -> bool {
        !self.eval(condition).is_zero()
    }

    /// Writes the values one after the other to `out`, padded with zero bits to whole bytes; how many bits they
    /// are. A varbit field gives the bits that it has, or, if not `exact`, zeros in front of them.
    pub(crate) fn concat(&self, inputs: &[Expr], out: &mut Vec<u8>, exact: bool) -> usize {
        let mut writer = Writer::new(out);
        for input in inputs {
            match input {
                Expr::Field(field) => self.values.append(self.layout, *field, exact, &mut writer),
                _ => writer.value(&self.eval(input)),
            }
        }
        writer.bits()
    }

    fn binary(&self, op: BinaryOp, a: &Expr, b: &Expr) -> Bits {
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
