//! Expressions of the pipeline language, made so that what is constant is computed now.

use ir::{BinaryOp, Bits, Expr, UnaryOp};
use num_bigint::BigInt;
use num_traits::Signed as _;

/// A number as bits.
pub(super) fn bits(v: &BigInt, width: u32) -> Bits {
    let bytes = if v.is_negative() {
        let modulus = BigInt::from(1) << width;
        let mut m = v % &modulus;
        if m.is_negative() {
            m += modulus;
        }
        m.to_bytes_be().1
    } else {
        v.to_bytes_be().1
    };
    let wide = Bits::from_be_bytes(&bytes, bytes.len() as u32 * 8);
    wide.cast(width)
}

/// How many parts an expression has.
pub(super) fn weight(e: &Expr) -> u64 {
    1 + match e {
        Expr::Slice(a, ..) | Expr::Cast(a, _) | Expr::SignCast(a, _) | Expr::Unary(_, a) => {
            weight(a)
        }
        Expr::Binary(_, a, b) => weight(a) + weight(b),
        Expr::Mux(a, b, c) => weight(a) + weight(b) + weight(c),
        Expr::Hash { inputs, .. } => inputs.iter().map(weight).sum(),
        _ => 0,
    }
}

/// An operation on constants is done now.
pub(super) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    use BinaryOp::*;
    if let (Expr::Const(x), Expr::Const(y)) = (&a, &b) {
        let bool = |v| Expr::bool(v);
        return match op {
            Add => Expr::Const(x.add(y)),
            Sub => Expr::Const(x.sub(y)),
            Mul => Expr::Const(x.mul(y)),
            AddSat => Expr::Const(x.add_sat(y)),
            SubSat => Expr::Const(x.sub_sat(y)),
            And | LogicalAnd => Expr::Const(x.and(y)),
            Or | LogicalOr => Expr::Const(x.or(y)),
            Xor => Expr::Const(x.xor(y)),
            Shl => Expr::Const(x.shl(y.shift_amount())),
            Shr => Expr::Const(x.shr(y.shift_amount())),
            Sar => Expr::Const(x.sar(y.shift_amount())),
            Eq => bool(x == y),
            Ne => bool(x != y),
            Lt => bool(x.compare(y).is_lt()),
            Le => bool(x.compare(y).is_le()),
            Gt => bool(x.compare(y).is_gt()),
            Ge => bool(x.compare(y).is_ge()),
            SLt => bool(x.compare_signed(y).is_lt()),
            SLe => bool(x.compare_signed(y).is_le()),
            Concat => Expr::Const(x.concat(y)),
        };
    }
    // The one value of no bits stays itself, and shifts by nothing.
    let none = |e: &Expr| matches!(e, Expr::Const(x) if x.width() == 0);
    if none(&a) && !matches!(op, Concat) || none(&b) && matches!(op, Shl | Shr | Sar) {
        return a;
    }
    match (op, &a, &b) {
        (LogicalAnd, Expr::Const(x), _) => return if x.is_zero() { a } else { b },
        (LogicalAnd, _, Expr::Const(x)) if !x.is_zero() => return a,
        (LogicalOr, Expr::Const(x), _) => return if x.is_zero() { b } else { a },
        (LogicalOr, _, Expr::Const(x)) if x.is_zero() => return a,
        _ => {}
    }
    Expr::binary(op, a, b)
}

pub(super) fn not(a: Expr) -> Expr {
    match a {
        Expr::Const(b) => Expr::bool(b.is_zero()),
        Expr::Unary(UnaryOp::LogicalNot, inner) => *inner,
        e => e.not(),
    }
}

pub(super) fn mux(c: Expr, a: Expr, b: Expr) -> Expr {
    match (&c, &a) {
        (Expr::Const(v), _) => {
            if v.is_zero() {
                b
            } else {
                a
            }
        }
        (_, Expr::Const(v)) if v.width() == 0 => a,
        _ => Expr::Mux(Box::new(c), Box::new(a), Box::new(b)),
    }
}

pub(super) fn cast(a: Expr, from: u32, to: u32, signed: bool) -> Expr {
    if from == to {
        return a;
    }
    match a {
        _ if to == 0 => Expr::Const(Bits::zero(0)),
        Expr::Const(b) if signed => Expr::Const(b.sign_cast(to)),
        Expr::Const(b) => Expr::Const(b.cast(to)),
        e if signed => Expr::SignCast(Box::new(e), to),
        e => e.cast(to),
    }
}

pub(super) fn slice(a: Expr, width: u32, hi: u32, lo: u32) -> Expr {
    if lo == 0 && hi + 1 == width {
        return a;
    }
    match a {
        Expr::Const(b) => Expr::Const(b.slice(hi, lo)),
        e => e.slice(hi, lo),
    }
}

/// Values that are compared with one after the other; of more, half of them are ruled out at a time.
const CHAIN_MAX: usize = 8;

/// One of several values by its number, of `width` bits; the last one stands for numbers past the end as
/// well. There is at least one.
pub(super) fn choose(index: &Expr, width: u32, values: &[Expr]) -> Option<Expr> {
    fn go(index: &Expr, width: u32, from: usize, values: &[Expr]) -> Option<Expr> {
        let number = |i: usize| Expr::int(i as u128, width);
        if values.len() <= CHAIN_MAX {
            let (last, rest) = values.split_last()?;
            return Some(rest.iter().enumerate().rev().fold(last.clone(), |other, (i, e)| {
                let is = binary(BinaryOp::Eq, index.clone(), number(from + i));
                mux(is, e.clone(), other)
            }));
        }
        let half = values.len() / 2;
        let low = go(index, width, from, &values[..half])?;
        let high = go(index, width, from + half, &values[half..])?;
        Some(mux(binary(BinaryOp::Lt, index.clone(), number(from + half)), low, high))
    }
    go(index, width, 0, values)
}
