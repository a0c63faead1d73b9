//! How wide expressions are.

use crate::expr::{BinaryOp, Expr, UnaryOp};
use crate::program::Program;

impl Expr {
    /// Width in bits, given the program (for fields) and the parameters' widths (inside actions).
    ///
    /// Says what is wrong when an operand does not exist; equal widths of operands are the
    /// verifier's business.
    pub fn width(&self, program: &Program, params: &[u32]) -> Option<u32> {
        Some(match self {
            Expr::Const(bits) => bits.width(),
            Expr::Field(field) => program.field_width(*field)?,
            Expr::Param(i) => *params.get(*i as usize)?,
            Expr::Valid(_) => 1,
            Expr::StackSize(_) => 8,
            Expr::Lookahead { width, .. } => *width,
            Expr::Remaining => 32,
            Expr::Slice(_, hi, lo) => hi.checked_sub(*lo)?.checked_add(1)?,
            Expr::Cast(_, width) | Expr::SignCast(_, width) => *width,
            Expr::Unary(UnaryOp::LogicalNot, _) => 1,
            Expr::Unary(_, e) => e.width(program, params)?,
            Expr::Binary(op, a, b) => match op {
                BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Le
                | BinaryOp::Gt
                | BinaryOp::Ge
                | BinaryOp::SLt
                | BinaryOp::SLe
                | BinaryOp::LogicalAnd
                | BinaryOp::LogicalOr => 1,
                BinaryOp::Concat => {
                    a.width(program, params)?.checked_add(b.width(program, params)?)?
                }
                _ => a.width(program, params)?,
            },
            Expr::Mux(_, a, _) => a.width(program, params)?,
            Expr::Hash { width, .. } => *width,
        })
    }
}
