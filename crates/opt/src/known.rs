//! What is known of a value: bits that are surely zero, bits that are surely one.
//!
//! The lattice of known bits, for values up to 128 bits; of wider ones nothing is known. An operator
//! gives the bits that follow from those of its operands; where that is no simple rule of bits, it
//! follows only if both are constant, and then [`Bits`] does the arithmetic, as in the interpreter.
//!
//! Invariants: no bit is both, none at or above the width is either.
//! Checked by: `tests`, which compare with all values of small widths.

use ir::{BinaryOp, Bits, UnaryOp};

/// Values up to this width are followed.
pub const WIDTH_MAX: u32 = 128;

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its width in bits.
    pub width: u32,
    /// Bits that are surely zero.
    pub zeros: u128,
    /// Bits that are surely one.
    pub ones: u128,
}

/// All ones in the lowest bits; none of a width that is not followed.
pub fn mask(width: u32) -> u128 {
    match width {
        0 => 0,
        1..WIDTH_MAX => (1 << width) - 1,
        WIDTH_MAX => u128::MAX,
        _ => 0,
    }
}

impl Known {
    /// Nothing is.
    pub fn nothing(width: u32) -> Known {
        Known { width, zeros: 0, ones: 0 }
    }

    /// All of it is, if the width allows.
    pub fn value(value: u128, width: u32) -> Known {
        let mask = mask(width);
        Known { width, zeros: !value & mask, ones: value & mask }
    }

    /// All of this constant.
    pub fn of(bits: &Bits) -> Known {
        Known::value(bits.low_u128(), bits.width())
    }

    /// A constant of one bit.
    pub fn bool(value: bool) -> Known {
        Known::value(value.into(), 1)
    }

    /// The value, if it is the only one.
    pub fn only(&self) -> Option<u128> {
        let followed = (1..=WIDTH_MAX).contains(&self.width);
        let whole = followed && self.zeros | self.ones == mask(self.width);
        whole.then_some(self.ones)
    }

    /// The same as bits.
    pub fn constant(&self) -> Option<Bits> {
        self.only().map(|value| Bits::from_u128(value, self.width))
    }

    /// What is known if it is this or that; true if that is less than before.
    pub fn join(&mut self, other: &Known) -> bool {
        let before = *self;
        self.zeros &= other.zeros;
        self.ones &= other.ones;
        *self != before
    }

    /// Adds what was found out elsewhere. Of contradictions, which nothing can reach, the old stays.
    pub fn learn(&mut self, zeros: u128, ones: u128) {
        let mask = mask(self.width);
        self.zeros |= zeros & mask & !self.ones;
        self.ones |= ones & mask & !self.zeros;
    }

    fn least(&self) -> u128 {
        self.ones
    }

    fn greatest(&self) -> u128 {
        mask(self.width) & !self.zeros
    }

    /// Equal, or not, or unknown.
    pub fn equals(&self, other: &Known) -> Option<bool> {
        if self.zeros & other.ones != 0 || self.ones & other.zeros != 0 {
            return Some(false);
        }
        (self.only()? == other.only()?).then_some(true)
    }

    fn less(&self, other: &Known) -> Option<bool> {
        if self.width > WIDTH_MAX || other.width > WIDTH_MAX {
            return None;
        }
        if self.greatest() < other.least() {
            return Some(true);
        }
        (self.least() >= other.greatest()).then_some(false)
    }

    /// Of bits `hi` to `lo`.
    pub fn slice(&self, hi: u32, lo: u32) -> Known {
        let width = (hi + 1).saturating_sub(lo);
        if self.width > WIDTH_MAX || width > WIDTH_MAX || lo >= WIDTH_MAX {
            return Known::nothing(width);
        }
        let cut = |bits: u128| bits >> lo & mask(width);
        Known { width, zeros: cut(self.zeros), ones: cut(self.ones) }
    }

    /// Of the value at another width, zero-extended.
    pub fn cast(&self, width: u32) -> Known {
        if self.width > WIDTH_MAX || width > WIDTH_MAX {
            return Known::nothing(width);
        }
        let zeros = (self.zeros | !mask(self.width)) & mask(width);
        Known { width, zeros, ones: self.ones & mask(width) }
    }

    /// Of the value at another width, sign-extended.
    pub fn sign_cast(&self, width: u32) -> Known {
        match self.constant() {
            Some(bits) => Known::of(&bits.sign_cast(width)),
            None if width <= self.width => self.cast(width),
            None => Known::nothing(width),
        }
    }

    /// Of an operator's result.
    pub fn unary(&self, op: UnaryOp) -> Known {
        match op {
            UnaryOp::Not => Known { width: self.width, zeros: self.ones, ones: self.zeros },
            UnaryOp::Neg => match self.constant() {
                Some(bits) => Known::of(&bits.neg()),
                None => Known::nothing(self.width),
            },
            UnaryOp::LogicalNot => match (self.ones != 0, self.only()) {
                (true, _) => Known::bool(false),
                (_, Some(value)) => Known::bool(value == 0),
                _ => Known::nothing(1),
            },
        }
    }

    /// Of an operator's result, by what is known of both operands.
    pub fn binary(op: BinaryOp, a: Known, b: Known) -> Known {
        let both = || Some((a.constant()?, b.constant()?));
        let by_bits = |zeros: u128, ones: u128| {
            let mask = mask(a.width);
            Known { width: a.width, zeros: zeros & mask, ones: ones & mask }
        };
        let truth = |known: Option<bool>| known.map_or(Known::nothing(1), Known::bool);
        let same = a.width == b.width;
        match op {
            BinaryOp::And if same => by_bits(a.zeros | b.zeros, a.ones & b.ones),
            BinaryOp::Or if same => by_bits(a.zeros & b.zeros, a.ones | b.ones),
            BinaryOp::Xor if same => {
                by_bits(a.zeros & b.zeros | a.ones & b.ones, a.zeros & b.ones | a.ones & b.zeros)
            }
            BinaryOp::Eq if same => truth(a.equals(&b)),
            BinaryOp::Ne if same => truth(a.equals(&b).map(|equal| !equal)),
            BinaryOp::Lt if same => truth(a.less(&b)),
            BinaryOp::Ge if same => truth(a.less(&b).map(|less| !less)),
            BinaryOp::Gt if same => truth(b.less(&a)),
            BinaryOp::Le if same => truth(b.less(&a).map(|less| !less)),
            BinaryOp::LogicalAnd => match (a.only(), b.only()) {
                (Some(0), _) | (_, Some(0)) => Known::bool(false),
                (Some(_), Some(_)) => Known::bool(true),
                _ => Known::nothing(1),
            },
            BinaryOp::LogicalOr if a.ones != 0 || b.ones != 0 => Known::bool(true),
            BinaryOp::LogicalOr => match (a.only(), b.only()) {
                (Some(0), Some(0)) => Known::bool(false),
                _ => Known::nothing(1),
            },
            BinaryOp::Concat => {
                let width = a.width.saturating_add(b.width);
                if width > WIDTH_MAX || b.width >= WIDTH_MAX {
                    return Known::nothing(width);
                }
                let join = |high: u128, low: u128| high << b.width | low;
                Known { width, zeros: join(a.zeros, b.zeros), ones: join(a.ones, b.ones) }
            }
            BinaryOp::Shl | BinaryOp::Shr if b.only().is_some() && a.width <= WIDTH_MAX => {
                let by = b.only().map_or(u128::MAX, |by| by);
                if by >= u128::from(a.width) {
                    return Known::value(0, a.width);
                }
                let by = by as u32;
                match op {
                    BinaryOp::Shl => by_bits(a.zeros << by | mask(by), a.ones << by),
                    _ => by_bits(a.zeros >> by | !(mask(a.width) >> by), a.ones >> by),
                }
            }
            _ => {
                let Some((x, y)) = both() else {
                    let width = match op {
                        BinaryOp::SLt
                        | BinaryOp::SLe
                        | BinaryOp::Eq
                        | BinaryOp::Ne
                        | BinaryOp::Lt
                        | BinaryOp::Le
                        | BinaryOp::Gt
                        | BinaryOp::Ge => 1,
                        _ => a.width,
                    };
                    return Known::nothing(width);
                };
                Known::of(&constant(op, &x, &y))
            }
        }
    }
}

/// The operator on constants.
fn constant(op: BinaryOp, a: &Bits, b: &Bits) -> Bits {
    match op {
        BinaryOp::Add => a.add(b),
        BinaryOp::Sub => a.sub(b),
        BinaryOp::Mul => a.mul(b),
        BinaryOp::AddSat => a.add_sat(b),
        BinaryOp::SubSat => a.sub_sat(b),
        BinaryOp::And => a.and(b),
        BinaryOp::Or => a.or(b),
        BinaryOp::Xor => a.xor(b),
        BinaryOp::Shl => a.shl(b.shift_amount()),
        BinaryOp::Shr => a.shr(b.shift_amount()),
        BinaryOp::Sar => a.sar(b.shift_amount()),
        BinaryOp::Eq => Bits::from_bool(a.compare(b).is_eq()),
        BinaryOp::Ne => Bits::from_bool(a.compare(b).is_ne()),
        BinaryOp::Lt => Bits::from_bool(a.compare(b).is_lt()),
        BinaryOp::Le => Bits::from_bool(a.compare(b).is_le()),
        BinaryOp::Gt => Bits::from_bool(a.compare(b).is_gt()),
        BinaryOp::Ge => Bits::from_bool(a.compare(b).is_ge()),
        BinaryOp::SLt => Bits::from_bool(a.compare_signed(b).is_lt()),
        BinaryOp::SLe => Bits::from_bool(a.compare_signed(b).is_le()),
        BinaryOp::LogicalAnd => Bits::from_bool(!a.is_zero() && !b.is_zero()),
        BinaryOp::LogicalOr => Bits::from_bool(!a.is_zero() || !b.is_zero()),
        BinaryOp::Concat => a.concat(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that may be known of a value of this width.
    fn all(width: u32) -> Vec<Known> {
        let n = 1u128 << width;
        (0..n)
            .flat_map(|zeros| (0..n).map(move |ones| Known { width, zeros, ones }))
            .filter(|k| k.zeros & k.ones == 0)
            .collect()
    }

    fn holds(k: &Known, value: u128) -> bool {
        k.zeros & value == 0 && k.ones & !value == 0
    }

    fn values(k: Known) -> impl Iterator<Item = u128> {
        (0..1u128 << k.width).filter(move |v| holds(&k, *v))
    }

    #[test]
    fn operators_are_sound_on_all_small_values() {
        use BinaryOp::*;
        let ops = [
            Add, Sub, Mul, AddSat, SubSat, And, Or, Xor, Shl, Shr, Sar, Eq, Ne, Lt, Le, Gt, Ge,
            SLt, SLe, Concat,
        ];
        for (a, b) in all(3).into_iter().flat_map(|a| all(3).into_iter().map(move |b| (a, b))) {
            for op in ops {
                let known = Known::binary(op, a, b);
                for (x, y) in values(a).flat_map(|x| values(b).map(move |y| (x, y))) {
                    let value = constant(op, &Bits::from_u128(x, 3), &Bits::from_u128(y, 3));
                    assert_eq!(value.width(), known.width, "{op:?}");
                    assert!(holds(&known, value.low_u128()), "{op:?} {a:?} {b:?} {x} {y}");
                }
            }
        }
        for (a, b) in all(1).into_iter().flat_map(|a| all(1).into_iter().map(move |b| (a, b))) {
            for op in [LogicalAnd, LogicalOr] {
                let known = Known::binary(op, a, b);
                for (x, y) in values(a).flat_map(|x| values(b).map(move |y| (x, y))) {
                    let value = constant(op, &Bits::from_u128(x, 1), &Bits::from_u128(y, 1));
                    assert!(holds(&known, value.low_u128()), "{op:?} {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn casts_are_sound_on_all_small_values() {
        for a in all(4) {
            for v in values(a) {
                let bits = Bits::from_u128(v, 4);
                for width in [1, 3, 4, 6, 128] {
                    assert!(holds(&a.cast(width), bits.cast(width).low_u128()));
                    assert!(holds(&a.sign_cast(width), bits.sign_cast(width).low_u128()));
                }
                assert!(holds(&a.slice(2, 1), bits.slice(2, 1).low_u128()));
                for op in [UnaryOp::Not, UnaryOp::Neg] {
                    let value = if op == UnaryOp::Not { bits.not() } else { bits.neg() };
                    assert!(holds(&a.unary(op), value.low_u128()));
                }
            }
        }
    }

    #[test]
    fn wide_values_are_not_known() {
        let wide = Known::value(5, 200);
        assert_eq!((wide.only(), wide.zeros, wide.ones), (None, 0, 0));
        assert_eq!(wide.cast(8).only(), None);
        assert_eq!(Known::value(1, 128).binary_eq(&Known::value(1, 128)), Some(true));
    }

    impl Known {
        fn binary_eq(&self, other: &Known) -> Option<bool> {
            Known::binary(BinaryOp::Eq, *self, *other).only().map(|v| v == 1)
        }
    }
}
