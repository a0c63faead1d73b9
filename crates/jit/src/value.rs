//! Values of any IR width in generated code.
//!
//! A [`Val`] is what [`ir::Bits`] is in the interpreter: an unsigned number of a fixed width in
//! 64-bit limbs, least significant first, whose bits above the width are zero, so that equality is
//! that of the limbs. The operations are those of `Bits` and of the interpreter's evaluation to the
//! bit: operands of different widths are allowed, the right one is cast to the left one's width
//! (comparisons compare the numbers), a shift by the width or more gives zero or the sign.
//!
//! Each limb is a constant or a value of the code with the bits that may be set in it; operations
//! fold what is known (see [`limb`]), so that generated code stays small without an optimiser.
//! Booleans are values of width 1.
//!
//! Cost: additions, comparisons and shifts by constants emit a few instructions per limb; a shift by
//! a variable of *n* limbs emits about *n* log *n* selections. What is not worth it is refused with
//! a reason ([`Unsupported`]).
//!
//! Checked by: `tests/value.rs`, which runs every operation at random widths against `Bits`.

mod bytes;
mod checksum;
mod hash;
mod limb;

pub use bytes::{
    Base, copy_bytes, load_be, load_words, store_be, store_columns, store_pieces, store_words,
};
pub use checksum::Adjust;
pub use hash::{HASHED_MAX, hash};

use crate::mutant::{Mutant, is_planted};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use ir::{BinaryOp, Bits, UnaryOp};
use limb::{Limb, ones};
use smallvec::SmallVec;

/// Bits that are multiplied, at most.
pub const MULTIPLIED_MAX: u32 = 256;

/// Widest result of an operation in generated code, in bits.
pub const WIDTH_MAX: u32 = 4096;

type Limbs = SmallVec<[Limb; 2]>;

/// Why an operation is left to the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unsupported {
    /// A multiplication of more than [`MULTIPLIED_MAX`] bits.
    #[error("multiplication of {0} bits; generated code multiplies up to {MULTIPLIED_MAX}")]
    Multiplication(u32),
    /// The two sides of a choice have different widths.
    #[error("choice between {0} and {1} bits; generated code needs equal widths")]
    Choice(u32, u32),
    /// A hash of more than [`HASHED_MAX`] bits.
    #[error("hash of {0} bits; generated code hashes up to {HASHED_MAX}")]
    Hash(u32),
    /// A value of more than [`WIDTH_MAX`] bits.
    #[error("value of {0} bits; generated code handles up to {WIDTH_MAX}")]
    Width(u64),
}

/// An unsigned number of a fixed width in generated code.
#[derive(Clone, Debug)]
pub struct Val {
    /// Width in bits.
    pub width: u32,
    /// As many as the width takes; bits above the width are zero.
    limbs: Limbs,
}

fn limbs_for(width: u32) -> usize {
    (width as usize).div_ceil(64)
}

/// Bits of limb `i` that belong to a value of this width.
fn mask(width: u32, i: usize) -> u64 {
    ones(u32::try_from(u64::from(width).saturating_sub(64 * i as u64)).unwrap_or(64))
}

impl Val {
    /// Whatever the limbs hold above the width is cut off.
    fn trimmed(b: &mut FunctionBuilder<'_>, width: u32, mut limbs: Limbs) -> Val {
        limbs.resize(limbs_for(width), Limb::ZERO);
        if let Some(last) = limbs.last_mut() {
            *last = last.keep(b, mask(width, limbs_for(width) - 1));
        }
        Val { width, limbs }
    }

    fn flag(limb: Limb) -> Val {
        Val { width: 1, limbs: SmallVec::from_slice(&[limb]) }
    }

    fn limb(&self, i: usize) -> Limb {
        self.limbs.get(i).copied().unwrap_or(Limb::ZERO)
    }

    /// Zero.
    pub fn zero(width: u32) -> Val {
        Val { width, limbs: SmallVec::from_elem(Limb::ZERO, limbs_for(width)) }
    }

    /// True or false, one bit.
    pub fn bool(value: bool) -> Val {
        Val::flag(Limb::Known(u64::from(value)))
    }

    /// A constant. No code is emitted before it is used.
    pub fn constant(_: &mut FunctionBuilder<'_>, bits: &Bits) -> Val {
        let limbs = bits.limbs().iter().map(|limb| Limb::Known(*limb)).collect();
        Val { width: bits.width(), limbs }
    }

    /// The constant that this is, if it is known.
    pub fn as_const(&self) -> Option<Bits> {
        let limbs: Option<SmallVec<[u64; 4]>> = self.limbs.iter().map(|l| l.known()).collect();
        let limbs = limbs?;
        if self.width <= 128 {
            let limb = |i: usize| u128::from(limbs.get(i).copied().unwrap_or(0));
            return Some(Bits::from_u128(limb(0) | limb(1) << 64, self.width));
        }
        let bytes: Vec<u8> = limbs.iter().rev().flat_map(|l| l.to_be_bytes()).collect();
        Some(Bits::from_be_bytes(&bytes, self.width))
    }

    /// An `i64` that has no bits above the width, zero-extended to it if it is wider.
    pub fn from_i64(_: &mut FunctionBuilder<'_>, value: Value, width: u32) -> Val {
        let mut val = Val::zero(width);
        if let Some(first) = val.limbs.first_mut() {
            *first = Limb::new(value, mask(width, 0));
        }
        val
    }

    /// The low `width` bits of an `i64`, zero-extended if it is wider.
    pub fn from_i64_masked(b: &mut FunctionBuilder<'_>, value: Value, width: u32) -> Val {
        Val::trimmed(b, width, SmallVec::from_slice(&[Limb::new(value, u64::MAX)]))
    }

    /// A comparison's result (an `i8` of 0 or 1) as one bit.
    pub fn from_flag(b: &mut FunctionBuilder<'_>, flag: Value) -> Val {
        let value = b.ins().uextend(types::I64, flag);
        Val::flag(Limb::new(value, 1))
    }

    /// Limbs that have no bits above the width, as [`limbs`](Self::limbs) gave them (perhaps through
    /// block parameters or variables since); missing ones are zero.
    pub fn from_limbs(width: u32, limbs: &[Value]) -> Val {
        let mut val = Val::zero(width);
        for (i, (to, from)) in val.limbs.iter_mut().zip(limbs).enumerate() {
            *to = Limb::new(*from, mask(width, i));
        }
        val
    }

    /// As [`from_limbs`](Self::from_limbs); a value of one limb that was loaded, and comes from a
    /// variable, knows the bytes that it was loaded as.
    pub fn from_variables(b: &FunctionBuilder<'_>, width: u32, limbs: &[Value]) -> Val {
        let mut val = Val::from_limbs(width, limbs);
        if let [limb] = &mut val.limbs[..] {
            *limb = limb.traced(b);
        }
        val
    }

    /// The limbs as values of the code (`i64`), least significant first: `ceil(width / 64)`.
    pub fn limbs(&self, b: &mut FunctionBuilder<'_>) -> SmallVec<[Value; 2]> {
        self.limbs.iter().map(|limb| limb.value(b)).collect()
    }

    /// The low 64 bits (`i64`); zero if the width is 0.
    pub fn to_i64_low(&self, b: &mut FunctionBuilder<'_>) -> Value {
        self.limb(0).value(b)
    }

    /// The low 32 bits (`i32`).
    pub fn low_u32(&self, b: &mut FunctionBuilder<'_>) -> Value {
        match self.limb(0) {
            Limb::Known(k) => b.ins().iconst(types::I32, i64::from(k as u32)),
            limb => {
                let value = limb.value(b);
                b.ins().ireduce(types::I32, value)
            }
        }
    }

    /// Non-zero as an `i64` for `brif` and `select`: non-zero if and only if the value is.
    pub fn truth(&self, b: &mut FunctionBuilder<'_>) -> Value {
        self.any(b).value(b)
    }

    /// Whether it is non-zero, if that is known.
    pub fn known_truth(&self) -> Option<bool> {
        if self.limbs.iter().any(|l| matches!(l, Limb::Known(k) if *k != 0)) {
            return Some(true);
        }
        self.limbs.iter().all(|l| *l == Limb::ZERO).then_some(false)
    }

    /// Non-zero if and only if some limb is.
    fn any(&self, b: &mut FunctionBuilder<'_>) -> Limb {
        if self.known_truth() == Some(true) {
            return Limb::Known(1);
        }
        self.limbs.iter().fold(Limb::ZERO, |any, limb| any.or(b, *limb))
    }

    /// One bit: no bit is set.
    pub fn is_zero(&self, b: &mut FunctionBuilder<'_>) -> Val {
        let any = self.any(b);
        Val::flag(any.compare(b, IntCC::Equal, Limb::ZERO))
    }

    /// One bit: some bit is set.
    pub fn is_nonzero(&self, b: &mut FunctionBuilder<'_>) -> Val {
        let any = self.any(b);
        Val::flag(any.compare(b, IntCC::NotEqual, Limb::ZERO))
    }

    /// Truncated or zero-extended.
    pub fn cast(&self, b: &mut FunctionBuilder<'_>, width: u32) -> Val {
        Val::trimmed(b, width, self.limbs.clone())
    }

    /// Truncated or sign-extended.
    pub fn sign_cast(&self, b: &mut FunctionBuilder<'_>, width: u32) -> Val {
        if width <= self.width || self.width == 0 {
            return self.cast(b, width);
        }
        let (mut limbs, fill) = self.sign_extended(b);
        limbs.resize(limbs_for(width), fill);
        Val::trimmed(b, width, limbs)
    }

    /// The limbs with the sign filling the last one, and the limb that follows them.
    fn sign_extended(&self, b: &mut FunctionBuilder<'_>) -> (Limbs, Limb) {
        let mut limbs = self.limbs.clone();
        let Some(last) = limbs.last_mut() else { return (limbs, Limb::ZERO) };
        let pad = 64 * limbs_for(self.width) as u32 - self.width;
        *last = last.shl(b, pad).sar(b, pad);
        let fill = last.sar(b, 63);
        (limbs, fill)
    }

    /// Bits `hi` to `lo`, inclusive; zero past the width.
    pub fn slice(&self, b: &mut FunctionBuilder<'_>, hi: u32, lo: u32) -> Val {
        let width = hi.saturating_add(1).saturating_sub(lo);
        let limbs = (0..limbs_for(width)).map(|i| self.limb_at(b, u64::from(lo) + 64 * i as u64));
        let limbs = limbs.collect();
        Val::trimmed(b, width, limbs)
    }

    /// The 64 bits from bit `lo` on.
    fn limb_at(&self, b: &mut FunctionBuilder<'_>, lo: u64) -> Limb {
        let (i, bits) = (usize::try_from(lo / 64).unwrap_or(usize::MAX), (lo % 64) as u32);
        let (low, high) = (self.limb(i), self.limb(i.saturating_add(1)));
        joined(b, low, high, bits)
    }

    /// `condition ? then : otherwise`, where any set bit of the condition counts.
    pub fn mux(
        b: &mut FunctionBuilder<'_>,
        condition: &Val,
        then: &Val,
        otherwise: &Val,
    ) -> Result<Val, Unsupported> {
        match condition.known_truth() {
            Some(true) => return Ok(then.clone()),
            Some(false) => return Ok(otherwise.clone()),
            None => {}
        }
        if then.width != otherwise.width {
            return Err(Unsupported::Choice(then.width, otherwise.width));
        }
        let condition = condition.any(b);
        let pairs = then.limbs.iter().zip(&otherwise.limbs);
        let limbs = pairs.map(|(x, y)| condition.select(b, *x, *y)).collect();
        Ok(Val { width: then.width, limbs })
    }

    /// Bitwise complement.
    pub fn not(&self, b: &mut FunctionBuilder<'_>) -> Val {
        let limbs = self.limbs.iter().enumerate();
        let limbs = limbs.map(|(i, limb)| limb.xor(b, Limb::Known(mask(self.width, i)))).collect();
        Val { width: self.width, limbs }
    }

    /// The operation of one operand.
    pub fn unary(b: &mut FunctionBuilder<'_>, op: UnaryOp, a: &Val) -> Result<Val, Unsupported> {
        check_width(u64::from(a.width))?;
        Ok(match op {
            UnaryOp::Not => a.not(b),
            UnaryOp::Neg => Val::zero(a.width).sub(b, a),
            UnaryOp::LogicalNot => a.is_zero(b),
        })
    }

    /// It is known to be one.
    fn is_one(&self) -> bool {
        self.as_const().is_some_and(|k| k.to_u128() == Some(1))
    }

    /// The operation of two operands.
    pub fn binary(
        b: &mut FunctionBuilder<'_>,
        op: BinaryOp,
        left: &Val,
        right: &Val,
    ) -> Result<Val, Unsupported> {
        check_width(u64::from(left.width.max(right.width)))?;
        Ok(match op {
            BinaryOp::Add => left.add(b, right),
            BinaryOp::Sub if is_planted(Mutant::TimeToLive) && right.is_one() => left.clone(),
            BinaryOp::Sub => left.sub(b, right),
            BinaryOp::Mul => {
                if left.width > MULTIPLIED_MAX {
                    return Err(Unsupported::Multiplication(left.width));
                }
                left.product(b, right)
            }
            BinaryOp::AddSat => left.add_sat(b, right),
            BinaryOp::SubSat => left.sub_sat(b, right),
            BinaryOp::And => left.zip(b, right, Limb::and),
            BinaryOp::Or => left.zip(b, right, Limb::or),
            BinaryOp::Xor => left.zip(b, right, Limb::xor),
            BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Sar => left.shift(b, op, right),
            BinaryOp::Eq => left.equal(b, right),
            BinaryOp::Ne => left.differs(b, right),
            BinaryOp::Lt => left.less(b, right),
            BinaryOp::Le => right.less(b, left).is_zero(b),
            BinaryOp::Gt => right.less(b, left),
            BinaryOp::Ge => left.less(b, right).is_zero(b),
            BinaryOp::SLt => {
                let right = right.cast(b, left.width).sign_flipped(b);
                left.sign_flipped(b).less(b, &right)
            }
            BinaryOp::SLe => {
                let right = right.cast(b, left.width).sign_flipped(b);
                let left = left.sign_flipped(b);
                right.less(b, &left).is_zero(b)
            }
            BinaryOp::LogicalAnd => {
                let (left, right) = (left.is_nonzero(b), right.is_nonzero(b));
                left.zip(b, &right, Limb::and)
            }
            BinaryOp::LogicalOr => {
                let (left, right) = (left.is_nonzero(b), right.is_nonzero(b));
                left.zip(b, &right, Limb::or)
            }
            BinaryOp::Concat => left.concat(b, right)?,
        })
    }

    /// `self` as the high bits, `low` as the low ones.
    pub fn concat(&self, b: &mut FunctionBuilder<'_>, low: &Val) -> Result<Val, Unsupported> {
        let width = check_width(u64::from(self.width) + u64::from(low.width))?;
        let high = self.cast(b, width).shl(b, low.width);
        Ok(high.zip(b, low, Limb::or))
    }

    fn zip(
        &self,
        b: &mut FunctionBuilder<'_>,
        other: &Val,
        f: fn(Limb, &mut FunctionBuilder<'_>, Limb) -> Limb,
    ) -> Val {
        let limbs = self.limbs.iter().enumerate().map(|(i, limb)| f(*limb, b, other.limb(i)));
        let limbs = limbs.collect();
        Val::trimmed(b, self.width, limbs)
    }

    /// The sum modulo 2 to the 64 times the number of limbs, not trimmed, and the carry out.
    fn sum(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> (Limbs, Limb) {
        let mut carry = Limb::ZERO;
        let mut limbs = Limbs::new();
        for (i, limb) in self.limbs.iter().enumerate() {
            let (sum, first) = limb.add_carry(b, other.limb(i));
            let (sum, second) = sum.add_carry(b, carry);
            carry = first.or(b, second);
            limbs.push(sum);
        }
        (limbs, carry)
    }

    /// The difference, likewise, and the borrow.
    fn difference(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> (Limbs, Limb) {
        let mut borrow = Limb::ZERO;
        let mut limbs = Limbs::new();
        for (i, limb) in self.limbs.iter().enumerate() {
            let other = other.limb(i);
            let first = limb.compare(b, IntCC::UnsignedLessThan, other);
            let difference = limb.sub(b, other);
            let second = difference.compare(b, IntCC::UnsignedLessThan, borrow);
            limbs.push(difference.sub(b, borrow));
            borrow = first.or(b, second);
        }
        (limbs, borrow)
    }

    /// Wrapping addition.
    pub fn add(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> Val {
        let (limbs, _) = self.sum(b, other);
        Val::trimmed(b, self.width, limbs)
    }

    /// Wrapping subtraction.
    pub fn sub(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> Val {
        let (limbs, _) = self.difference(b, other);
        Val::trimmed(b, self.width, limbs)
    }

    /// Wrapping multiplication, limb by limb.
    fn product(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> Val {
        let n = self.limbs.len();
        let mut sum: Limbs = SmallVec::from_elem(Limb::ZERO, n);
        for i in 0..n {
            let mut carry = Limb::ZERO;
            for j in 0..n - i {
                let (x, y) = (self.limb(i), other.limb(j));
                let low = x.mul(b, y);
                let (here, first) = sum[i + j].add_carry(b, low);
                let (here, second) = here.add_carry(b, carry);
                sum[i + j] = here;
                if i + j + 1 < n {
                    // A product's high limb is not all ones, so two carries fit.
                    let high = x.mul_high(b, y).add(b, first);
                    carry = high.add(b, second);
                }
            }
        }
        Val::trimmed(b, self.width, sum)
    }

    fn add_sat(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> Val {
        let other = other.cast(b, self.width);
        let (mut limbs, carry) = self.sum(b, &other);
        let over = match (self.width % 64, limbs.last()) {
            (0, _) | (_, None) => carry,
            // The highest limb had room for the carry.
            (rest, Some(last)) => last.shr(b, rest),
        };
        let fill = Limb::ZERO.sub(b, over);
        limbs.iter_mut().for_each(|limb| *limb = limb.or(b, fill));
        Val::trimmed(b, self.width, limbs)
    }

    fn sub_sat(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> Val {
        let other = other.cast(b, self.width);
        let (mut limbs, borrow) = self.difference(b, &other);
        let keep = borrow.sub(b, Limb::Known(1));
        limbs.iter_mut().for_each(|limb| *limb = limb.and(b, keep));
        Val::trimmed(b, self.width, limbs)
    }

    /// Non-zero if and only if the numbers differ, whatever their widths.
    fn unequal(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> Val {
        let n = self.limbs.len().max(other.limbs.len());
        let limbs = (0..n).map(|i| {
            let (x, y) = self.limb(i).unswapped(b, other.limb(i));
            x.xor(b, y)
        });
        let limbs = limbs.collect();
        Val { width: 64 * n as u32, limbs }
    }

    /// One limb against one limb.
    fn singles(&self, other: &Val) -> Option<(Limb, Limb)> {
        let single = self.limbs.len().max(other.limbs.len()) <= 1;
        single.then(|| (self.limb(0), other.limb(0)))
    }

    /// One bit: the numbers are equal.
    pub fn equal(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> Val {
        match self.singles(other) {
            Some((x, y)) => Val::flag(x.compare(b, IntCC::Equal, y)),
            None if self.never_equals(other) => Val::bool(false),
            None => self.unequal(b, other).is_zero(b),
        }
    }

    /// One bit: the numbers differ.
    pub fn differs(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> Val {
        match self.singles(other) {
            Some((x, y)) => Val::flag(x.compare(b, IntCC::NotEqual, y)),
            None if self.never_equals(other) => Val::bool(true),
            None => self.unequal(b, other).is_nonzero(b),
        }
    }

    /// The other one, and a constant more or less: the numbers differ. Else nothing is known.
    ///
    /// What both were loaded from must not have been written in between.
    pub(crate) fn is_step_from(&self, b: &FunctionBuilder<'_>, other: &Val) -> bool {
        let pair = self.singles(other);
        pair.is_some_and(|(limb, other)| limb::is_step_from(b, limb, other))
    }

    /// Some limb cannot be that of the other one.
    fn never_equals(&self, other: &Val) -> bool {
        let n = self.limbs.len().max(other.limbs.len());
        (0..n).any(|i| match (self.limb(i), other.limb(i)) {
            (x, Limb::Known(k)) | (Limb::Known(k), x) => {
                k & !x.may() != 0 || x.known().is_some_and(|x| x != k)
            }
            _ => false,
        })
    }

    /// One bit: unsigned less, whatever the widths.
    pub fn less(&self, b: &mut FunctionBuilder<'_>, other: &Val) -> Val {
        let n = self.limbs.len().max(other.limbs.len());
        let less = (0..n).fold(Limb::ZERO, |less, i| {
            let (x, y) = (self.limb(i), other.limb(i));
            let here = x.compare(b, IntCC::UnsignedLessThan, y);
            if i == 0 {
                return here;
            }
            let equal = x.compare(b, IntCC::Equal, y);
            let below = equal.and(b, less);
            here.or(b, below)
        });
        Val::flag(less)
    }

    /// One bit: the number is one of `lo` to `hi`, inclusive.
    pub fn within(&self, b: &mut FunctionBuilder<'_>, lo: &Bits, hi: &Bits) -> Val {
        let (lo, hi) = (Val::constant(b, lo), Val::constant(b, hi));
        let single = self.singles(&lo).zip(self.singles(&hi));
        if let Some(((x, Limb::Known(lo)), (_, Limb::Known(hi)))) = single
            && let Some(span) = hi.checked_sub(lo)
            && span < u64::MAX
        {
            // What is below becomes larger than all.
            let above = x.sub(b, Limb::Known(lo));
            return Val::flag(above.compare(b, IntCC::UnsignedLessThan, Limb::Known(span + 1)));
        }
        let (below, above) = (self.less(b, &lo), hi.less(b, self));
        below.zip(b, &above, Limb::or).is_zero(b)
    }

    /// With the sign bit complemented, so that signed order becomes unsigned order.
    fn sign_flipped(&self, b: &mut FunctionBuilder<'_>) -> Val {
        let mut flipped = self.clone();
        if let Some(last) = flipped.limbs.last_mut() {
            *last = last.xor(b, Limb::Known(1 << ((self.width - 1) % 64)));
        }
        flipped
    }

    /// Shift left by a constant; zero from the width on.
    pub fn shl(&self, b: &mut FunctionBuilder<'_>, by: u32) -> Val {
        let (whole, bits) = (by as usize / 64, by % 64);
        let limbs = (0..self.limbs.len()).map(|i| {
            let at = |back: usize| i.checked_sub(whole + back).map_or(Limb::ZERO, |i| self.limb(i));
            if bits == 0 { at(0) } else { joined(b, at(1), at(0), 64 - bits) }
        });
        let limbs = limbs.collect();
        Val::trimmed(b, self.width, limbs)
    }

    /// Logical shift right by a constant.
    pub fn shr(&self, b: &mut FunctionBuilder<'_>, by: u32) -> Val {
        let n = self.limbs.len() as u64;
        let limbs = (0..n).map(|i| self.limb_at(b, u64::from(by) + 64 * i)).collect();
        Val { width: self.width, limbs }
    }

    /// Arithmetic shift right by a constant.
    pub fn sar(&self, b: &mut FunctionBuilder<'_>, by: u32) -> Val {
        let by = by.min(self.width);
        let (limbs, fill) = self.sign_extended(b);
        let (whole, bits) = (by as usize / 64, by % 64);
        let at = |i: usize| limbs.get(i).copied().unwrap_or(fill);
        let limbs = (0..limbs.len()).map(|i| match i + whole + 1 < limbs.len() {
            true => joined(b, at(i + whole), at(i + whole + 1), bits),
            false => at(i + whole).sar(b, bits),
        });
        let limbs = limbs.collect();
        Val::trimmed(b, self.width, limbs)
    }

    /// A shift by an amount of any width.
    fn shift(&self, b: &mut FunctionBuilder<'_>, op: BinaryOp, by: &Val) -> Val {
        if let Some(by) = by.as_const() {
            return match op {
                BinaryOp::Shl => self.shl(b, by.shift_amount()),
                BinaryOp::Shr => self.shr(b, by.shift_amount()),
                _ => self.sar(b, by.shift_amount()),
            };
        }
        let n = self.limbs.len();
        let (mut limbs, fill) = match op {
            BinaryOp::Sar => self.sign_extended(b),
            _ => (self.limbs.clone(), Limb::ZERO),
        };
        let left = op == BinaryOp::Shl;
        let amount = by.limb(0);
        // Whole limbs, by powers of two.
        for stage in (0..usize::BITS - n.saturating_sub(1).leading_zeros()).map(|s| 1 << s) {
            let taken = amount.keep(b, 64 * stage as u64);
            let moved: Limbs = (0..n)
                .map(|i| {
                    let from = if left { i.checked_sub(stage) } else { Some(i + stage) };
                    let from = from.and_then(|i| limbs.get(i).copied()).unwrap_or(fill);
                    taken.select(b, from, limbs[i])
                })
                .collect();
            limbs = moved;
        }
        // The rest of less than a limb. What crosses over is shifted by 64 less the amount, in two
        // steps because the amount may be 0.
        let rest = amount.xor(b, Limb::Known(63));
        let moved: Limbs = (0..n)
            .map(|i| {
                if left {
                    let low = if i == 0 { Limb::ZERO } else { limbs[i - 1].shr(b, 1) };
                    let (low, high) = (low.shr_by(b, rest), limbs[i].shl_by(b, amount));
                    low.or(b, high)
                } else if i + 1 < n {
                    let high = limbs[i + 1].shl(b, 1).shl_by(b, rest);
                    let low = limbs[i].shr_by(b, amount);
                    low.or(b, high)
                } else if op == BinaryOp::Sar {
                    limbs[i].sar_by(b, amount)
                } else {
                    limbs[i].shr_by(b, amount)
                }
            })
            .collect();
        let most = Limb::Known((64 * n as u64).saturating_sub(1));
        let beyond = most.compare(b, IntCC::UnsignedLessThan, amount);
        let beyond = by.limbs.iter().skip(1).fold(beyond, |any, limb| any.or(b, *limb));
        let limbs = moved.iter().map(|limb| beyond.select(b, fill, *limb)).collect();
        Val::trimmed(b, self.width, limbs)
    }
}

/// The 64 bits from bit `bits` (below 64) of `high:low` on.
fn joined(b: &mut FunctionBuilder<'_>, low: Limb, high: Limb, bits: u32) -> Limb {
    let (low, high) = (low.shr(b, bits), high.shl(b, 64 - bits));
    low.or(b, high)
}

fn check_width(width: u64) -> Result<u32, Unsupported> {
    match u32::try_from(width) {
        Ok(width) if width <= WIDTH_MAX => Ok(width),
        _ => Err(Unsupported::Width(width)),
    }
}
