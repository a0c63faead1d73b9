//! Values of any width and their arithmetic.
//!
//! A [`Bits`] is an unsigned number of a fixed width, 0 to [`WIDTH_MAX`] bits, kept in 64-bit limbs,
//! least significant first; up to 128 bits live inline. The bits above the width are always zero, so
//! that equality and hashing are those of the limbs.
//!
//! Operands of different widths are a mistake of whoever built the expression (the verifier refuses
//! it); here they are defined all the same: the right operand is cast to the left one's width.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Greatest width of a value in bits that is computed: that of the widest fixed field, times two for
/// concatenation, and enough for a hash's or checksum's input list. A varbit field as it is may be wider.
pub const WIDTH_MAX: u32 = 1 << 16;

/// Widths up to this are kept without an allocation.
const INLINE: u32 = 128;

/// An unsigned number of a fixed width.
#[derive(Clone)]
pub struct Bits(Repr);

/// The width decides which: `Small` up to [`INLINE`] bits, with zero in limbs past the width.
#[derive(Clone)]
enum Repr {
    Small { width: u32, limbs: [u64; 2] },
    Wide { width: u32, limbs: Box<[u64]> },
}

// Entries hold many of them.
const _: () = assert!(size_of::<Bits>() == 24);

impl PartialEq for Bits {
    #[inline]
    fn eq(&self, other: &Bits) -> bool {
        match (&self.0, &other.0) {
            (Repr::Small { width: v, limbs: a }, Repr::Small { width: w, limbs: b }) => {
                v == w && a == b
            }
            _ => self.width() == other.width() && self.limbs() == other.limbs(),
        }
    }
}

impl Eq for Bits {}

impl Hash for Bits {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.width());
        self.limbs().iter().for_each(|limb| state.write_u64(*limb));
    }
}

/// By width, then by limbs from the least significant on: an order, not that of the numbers.
impl Ord for Bits {
    fn cmp(&self, other: &Bits) -> Ordering {
        (self.width(), self.limbs()).cmp(&(other.width(), other.limbs()))
    }
}

impl PartialOrd for Bits {
    fn partial_cmp(&self, other: &Bits) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn limbs_for(width: u32) -> usize {
    (width as usize).div_ceil(64)
}

impl Bits {
    /// Zero of `width` bits.
    pub fn zero(width: u32) -> Bits {
        Bits(if width <= INLINE {
            Repr::Small { width, limbs: [0; 2] }
        } else {
            Repr::Wide { width, limbs: vec![0; limbs_for(width)].into() }
        })
    }

    /// All ones.
    pub fn ones(width: u32) -> Bits {
        let mut b = Bits::zero(width);
        b.limbs_mut().fill(u64::MAX);
        b.trim();
        b
    }

    /// The low `width` bits of `value`.
    pub fn from_u128(value: u128, width: u32) -> Bits {
        let halves = [value as u64, (value >> 64) as u64];
        if width <= INLINE {
            let limbs = match width {
                0 => [0; 2],
                1..=64 => [halves[0] & (u64::MAX >> (64 - width)), 0],
                _ => [halves[0], halves[1] & (u64::MAX >> (128 - width))],
            };
            return Bits(Repr::Small { width, limbs });
        }
        let mut b = Bits::zero(width);
        b.limbs_mut()[..2].copy_from_slice(&halves);
        b
    }

    /// One bit.
    pub fn from_bool(value: bool) -> Bits {
        Bits::from_u128(value as u128, 1)
    }

    /// The last `width` bits of a big-endian byte string, zero-extended if it is shorter.
    pub fn from_be_bytes(bytes: &[u8], width: u32) -> Bits {
        if width <= INLINE {
            let mut word = [0u8; 16];
            let n = bytes.len().min(16);
            word[16 - n..].copy_from_slice(&bytes[bytes.len() - n..]);
            return Bits::from_u128(u128::from_be_bytes(word), width);
        }
        let mut b = Bits::zero(width);
        for (limb, chunk) in b.limbs_mut().iter_mut().zip(bytes.rchunks(8)) {
            let mut word = [0u8; 8];
            word[8 - chunk.len()..].copy_from_slice(chunk);
            *limb = u64::from_be_bytes(word);
        }
        b.trim();
        b
    }

    /// `width` bits of a byte string, from bit `offset` on (bit 0 is the first byte's most
    /// significant); bits past the end are zero.
    pub fn extract(bytes: &[u8], offset: usize, width: u32) -> Bits {
        if offset.is_multiple_of(8)
            && width.is_multiple_of(8)
            && offset + width as usize <= bytes.len() * 8
        {
            let start = offset / 8;
            return Bits::from_be_bytes(&bytes[start..start + width as usize / 8], width);
        }
        if width <= 57 {
            let first = offset / 8;
            let mut word = [0u8; 8];
            let end = (first + 8).min(bytes.len());
            if first < end {
                word[..end - first].copy_from_slice(&bytes[first..end]);
            }
            let word = u64::from_be_bytes(word) << (offset % 8);
            let value = if width == 0 { 0 } else { word >> (64 - width) };
            return Bits::from_u128(value as u128, width);
        }
        let mut out = Bits::zero(width);
        for i in 0..width as usize {
            let at = offset + i;
            let bit = bytes.get(at / 8).is_some_and(|b| b >> (7 - at % 8) & 1 == 1);
            if bit {
                let low = width as usize - 1 - i;
                out.limbs_mut()[low / 64] |= 1 << (low % 64);
            }
        }
        out
    }

    /// Writes the value into a byte string at bit `offset`, as [`extract`](Self::extract) reads it;
    /// bits past the end are lost.
    pub fn deposit(&self, bytes: &mut [u8], offset: usize) {
        let width = self.width() as usize;
        if offset.is_multiple_of(8) && width.is_multiple_of(8) && offset + width <= bytes.len() * 8
        {
            let out = &mut bytes[offset / 8..offset / 8 + width / 8];
            for (i, byte) in out.iter_mut().rev().enumerate() {
                *byte = (self.limbs()[i / 8] >> (8 * (i % 8))) as u8;
            }
            return;
        }
        for i in 0..width {
            let at = offset + i;
            let Some(byte) = bytes.get_mut(at / 8) else { break };
            let mask = 0x80 >> (at % 8);
            if self.bit((width - 1 - i) as u32) {
                *byte |= mask;
            } else {
                *byte &= !mask;
            }
        }
    }

    /// The value as big-endian bytes, `ceil(width / 8)` of them.
    pub fn to_be_bytes(&self) -> Vec<u8> {
        let n = (self.width() as usize).div_ceil(8);
        (0..n).rev().map(|i| (self.limbs()[i / 8] >> (8 * (i % 8))) as u8).collect()
    }

    fn trim(&mut self) {
        let rest = self.width() % 64;
        if rest != 0
            && let Some(last) = self.limbs_mut().last_mut()
        {
            *last &= (1 << rest) - 1;
        }
    }

    /// Width in bits.
    #[inline]
    pub fn width(&self) -> u32 {
        match self.0 {
            Repr::Small { width, .. } | Repr::Wide { width, .. } => width,
        }
    }

    /// A value of so many bits from the first words of a list, the least significant first: takes as many as
    /// [`limbs`](Self::limbs) gives; missing ones are zero, and so are bits past the width.
    pub fn from_words(words: &[u64], width: u32) -> Bits {
        let mut b = Bits::zero(width);
        for (limb, word) in b.limbs_mut().iter_mut().zip(words) {
            *limb = *word;
        }
        b.trim();
        b
    }

    /// The limbs, least significant first: as many as the width takes.
    #[inline]
    pub fn limbs(&self) -> &[u64] {
        match &self.0 {
            Repr::Small { width, limbs } => &limbs[..limbs_for(*width)],
            Repr::Wide { limbs, .. } => limbs,
        }
    }

    #[inline]
    fn limbs_mut(&mut self) -> &mut [u64] {
        match &mut self.0 {
            Repr::Small { width, limbs } => &mut limbs[..limbs_for(*width)],
            Repr::Wide { limbs, .. } => limbs,
        }
    }

    /// The value, if it fits 128 bits.
    pub fn to_u128(&self) -> Option<u128> {
        if self.limbs().iter().skip(2).any(|l| *l != 0) {
            return None;
        }
        Some(self.low_u128())
    }

    /// The low 128 bits.
    #[inline]
    pub fn low_u128(&self) -> u128 {
        let (lo, hi) = match &self.0 {
            Repr::Small { limbs, .. } => (limbs[0], limbs[1]),
            Repr::Wide { limbs, .. } => (limbs[0], limbs[1]),
        };
        u128::from(lo) | u128::from(hi) << 64
    }

    /// The low 64 bits.
    #[inline]
    pub fn low_u64(&self) -> u64 {
        match &self.0 {
            Repr::Small { limbs, .. } => limbs[0],
            Repr::Wide { limbs, .. } => limbs[0],
        }
    }

    /// The low 32 bits.
    #[inline]
    pub fn low_u32(&self) -> u32 {
        self.low_u64() as u32
    }

    /// No bit is set.
    pub fn is_zero(&self) -> bool {
        self.limbs().iter().all(|l| *l == 0)
    }

    /// Every bit is set.
    pub fn is_ones(&self) -> bool {
        *self == Bits::ones(self.width())
    }

    /// Bit `i`, 0 the least significant; false past the width.
    pub fn bit(&self, i: u32) -> bool {
        self.limbs().get(i as usize / 64).is_some_and(|l| l >> (i % 64) & 1 == 1)
    }

    /// If the set bits are the highest `n` (a prefix mask), `n`.
    pub fn prefix_len(&self) -> Option<u32> {
        let n = (0..self.width()).rev().take_while(|i| self.bit(*i)).count() as u32;
        (0..self.width() - n).all(|i| !self.bit(i)).then_some(n)
    }

    /// A mask of the highest `n` bits.
    pub fn prefix_mask(n: u32, width: u32) -> Bits {
        Bits::ones(width).shl(width.saturating_sub(n))
    }

    /// Truncated or zero-extended.
    pub fn cast(&self, width: u32) -> Bits {
        if width == self.width() {
            return self.clone();
        }
        if width <= INLINE {
            return Bits::from_u128(self.low_u128(), width);
        }
        let mut out = Bits::zero(width);
        for (o, i) in out.limbs_mut().iter_mut().zip(self.limbs()) {
            *o = *i;
        }
        out.trim();
        out
    }

    /// Truncated or sign-extended.
    pub fn sign_cast(&self, width: u32) -> Bits {
        if width <= self.width() || self.width() == 0 || !self.bit(self.width() - 1) {
            return self.cast(width);
        }
        let high = Bits::ones(width).shl(self.width());
        high.or(&self.cast(width))
    }

    /// Bits `hi` to `lo`, inclusive.
    pub fn slice(&self, hi: u32, lo: u32) -> Bits {
        let width = (hi + 1).saturating_sub(lo);
        self.shr(lo).cast(width)
    }

    /// This value with bits `hi` to `lo` replaced.
    pub fn with_slice(&self, hi: u32, lo: u32, value: &Bits) -> Bits {
        let width = (hi + 1).saturating_sub(lo);
        let hole = Bits::ones(width).cast(self.width()).shl(lo);
        self.and(&hole.not()).or(&value.cast(width).cast(self.width()).shl(lo))
    }

    /// `self` as the high bits, `low` as the low ones.
    pub fn concat(&self, low: &Bits) -> Bits {
        let width = self.width() + low.width();
        self.cast(width).shl(low.width()).or(&low.cast(width))
    }

    fn zip(&self, other: &Bits, f: impl Fn(u64, u64) -> u64) -> Bits {
        if let (Repr::Small { width, limbs: a }, Repr::Small { limbs: b, .. }) = (&self.0, &other.0)
        {
            let value = u128::from(f(a[0], b[0])) | u128::from(f(a[1], b[1])) << 64;
            return Bits::from_u128(value, *width);
        }
        let mut out = self.clone();
        for (i, o) in out.limbs_mut().iter_mut().enumerate() {
            *o = f(*o, other.limbs().get(i).copied().unwrap_or(0));
        }
        out.trim();
        out
    }

    /// Bitwise and.
    pub fn and(&self, other: &Bits) -> Bits {
        self.zip(other, |a, b| a & b)
    }

    /// Bitwise or.
    pub fn or(&self, other: &Bits) -> Bits {
        self.zip(other, |a, b| a | b)
    }

    /// Bitwise exclusive or.
    pub fn xor(&self, other: &Bits) -> Bits {
        self.zip(other, |a, b| a ^ b)
    }

    /// Bitwise complement.
    #[allow(clippy::should_implement_trait)]
    pub fn not(&self) -> Bits {
        self.zip(self, |a, _| !a)
    }

    /// Wrapping addition.
    pub fn add(&self, other: &Bits) -> Bits {
        let other = other.cast(self.width());
        let mut out = self.clone();
        let mut carry = false;
        for (o, b) in out.limbs_mut().iter_mut().zip(other.limbs()) {
            let (s, c1) = o.overflowing_add(*b);
            let (s, c2) = s.overflowing_add(carry as u64);
            *o = s;
            carry = c1 | c2;
        }
        out.trim();
        out
    }

    /// Two's complement negation.
    #[allow(clippy::should_implement_trait)]
    pub fn neg(&self) -> Bits {
        self.not().add(&Bits::from_u128(1, self.width()))
    }

    /// Wrapping subtraction.
    pub fn sub(&self, other: &Bits) -> Bits {
        self.add(&other.cast(self.width()).neg())
    }

    /// Wrapping multiplication.
    pub fn mul(&self, other: &Bits) -> Bits {
        let (a, b) = (self.limbs(), other.limbs());
        let n = a.len();
        let mut product = Bits::zero(self.width());
        let out = product.limbs_mut();
        for i in 0..n {
            let mut carry = 0u128;
            for j in 0..n - i {
                let b = b.get(j).copied().unwrap_or(0) as u128;
                let t = a[i] as u128 * b + out[i + j] as u128 + carry;
                out[i + j] = t as u64;
                carry = t >> 64;
            }
        }
        product.trim();
        product
    }

    /// Saturating addition.
    pub fn add_sat(&self, other: &Bits) -> Bits {
        let sum = self.add(other);
        if sum.compare(self) == Ordering::Less { Bits::ones(self.width()) } else { sum }
    }

    /// Saturating subtraction.
    pub fn sub_sat(&self, other: &Bits) -> Bits {
        let other = other.cast(self.width());
        if self.compare(&other) == Ordering::Less {
            Bits::zero(self.width())
        } else {
            self.sub(&other)
        }
    }

    /// Shift left; zero from `width` on.
    pub fn shl(&self, by: u32) -> Bits {
        if let Repr::Small { width, .. } = self.0 {
            return Bits::from_u128(self.low_u128().checked_shl(by).unwrap_or(0), width);
        }
        let mut shifted = Bits::zero(self.width());
        let (from, out) = (self.limbs(), shifted.limbs_mut());
        let (limbs, bits) = ((by / 64) as usize, by % 64);
        for i in limbs..out.len() {
            let low = from[i - limbs] << bits;
            let carry = if bits > 0 && i > limbs { from[i - limbs - 1] >> (64 - bits) } else { 0 };
            out[i] = low | carry;
        }
        shifted.trim();
        shifted
    }

    /// Logical shift right.
    pub fn shr(&self, by: u32) -> Bits {
        if let Repr::Small { width, .. } = self.0 {
            return Bits::from_u128(self.low_u128().checked_shr(by).unwrap_or(0), width);
        }
        let mut shifted = Bits::zero(self.width());
        let (from, out) = (self.limbs(), shifted.limbs_mut());
        let (limbs, bits) = ((by / 64) as usize, by % 64);
        let n = from.len();
        for i in 0..n.saturating_sub(limbs) {
            let low = from[i + limbs] >> bits;
            let carry =
                if bits > 0 && i + limbs + 1 < n { from[i + limbs + 1] << (64 - bits) } else { 0 };
            out[i] = low | carry;
        }
        shifted
    }

    /// Arithmetic shift right.
    pub fn sar(&self, by: u32) -> Bits {
        if self.width() == 0 || !self.bit(self.width() - 1) {
            return self.shr(by);
        }
        let by = by.min(self.width());
        self.shr(by).or(&Bits::prefix_mask(by, self.width()))
    }

    /// This value as a shift amount: saturated to 32 bits.
    pub fn shift_amount(&self) -> u32 {
        self.to_u128().and_then(|v| u32::try_from(v).ok()).unwrap_or(u32::MAX)
    }

    /// Unsigned comparison of the numbers, whatever their widths.
    pub fn compare(&self, other: &Bits) -> Ordering {
        let n = self.limbs().len().max(other.limbs().len());
        let limb = |b: &Bits, i: usize| b.limbs().get(i).copied().unwrap_or(0);
        (0..n)
            .rev()
            .map(|i| limb(self, i).cmp(&limb(other, i)))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Signed comparison (two's complement; the right operand cast to the left one's width).
    pub fn compare_signed(&self, other: &Bits) -> Ordering {
        let other = other.cast(self.width());
        let negative = |b: &Bits| b.width() > 0 && b.bit(b.width() - 1);
        match (negative(self), negative(&other)) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => self.compare(&other),
        }
    }
}

/// `0x` and the shortest hexadecimal number; with `{:#}`, decimal up to 128 bits.
impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_u128() {
            Some(v) if f.alternate() || v < 10 => write!(f, "{v}"),
            Some(v) => write!(f, "{v:#x}"),
            None => {
                let mut limbs = self.limbs().iter().rev().skip_while(|l| **l == 0);
                write!(f, "{:#x}", limbs.next().unwrap_or(&0))?;
                limbs.try_for_each(|l| write!(f, "{l:016x}"))
            }
        }
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}:{}", self.width())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mask(w: u32) -> u128 {
        if w == 128 { u128::MAX } else { (1 << w) - 1 }
    }

    proptest! {
        #[test]
        fn agrees_with_u128(a: u128, b: u128, w in 1u32..=128, s in 0u32..140) {
            let (a, b) = (a & mask(w), b & mask(w));
            let (x, y) = (Bits::from_u128(a, w), Bits::from_u128(b, w));
            let v = |b: Bits| { assert_eq!(b.width(), w); b.low_u128() };
            prop_assert_eq!(v(x.add(&y)), a.wrapping_add(b) & mask(w));
            prop_assert_eq!(v(x.sub(&y)), a.wrapping_sub(b) & mask(w));
            prop_assert_eq!(v(x.mul(&y)), a.wrapping_mul(b) & mask(w));
            prop_assert_eq!(v(x.and(&y)), a & b);
            prop_assert_eq!(v(x.or(&y)), a | b);
            prop_assert_eq!(v(x.xor(&y)), a ^ b);
            prop_assert_eq!(v(x.not()), !a & mask(w));
            prop_assert_eq!(v(x.neg()), a.wrapping_neg() & mask(w));
            prop_assert_eq!(v(x.shl(s)), if s < 128 { (a << s) & mask(w) } else { 0 });
            prop_assert_eq!(v(x.shr(s)), if s < 128 { a >> s } else { 0 });
            prop_assert_eq!(v(x.add_sat(&y)), a.saturating_add(b).min(mask(w)));
            prop_assert_eq!(v(x.sub_sat(&y)), a.saturating_sub(b));
            prop_assert_eq!(x.compare(&y), a.cmp(&b));
            let sign = |v: u128| ((v << (128 - w)) as i128) >> (128 - w);
            prop_assert_eq!(x.compare_signed(&y), sign(a).cmp(&sign(b)));
            prop_assert_eq!(v(x.sar(s)), (sign(a) >> s.min(127)) as u128 & mask(w));
        }

        #[test]
        fn extract_reads_what_deposit_wrote(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            value in proptest::collection::vec(any::<u8>(), 0..48),
            offset in 0usize..200, width in 0u32..300,
        ) {
            let v = Bits::from_be_bytes(&value, width);
            let mut out = bytes.clone();
            v.deposit(&mut out, offset);
            if offset + width as usize <= out.len() * 8 {
                prop_assert_eq!(Bits::extract(&out, offset, width), v);
            }
            for i in (0..bytes.len() * 8).filter(|i| *i < offset || *i >= offset + width as usize) {
                prop_assert_eq!(bytes[i / 8] >> (7 - i % 8) & 1, out[i / 8] >> (7 - i % 8) & 1);
            }
        }

        #[test]
        fn wide_values_behave(
            a in proptest::collection::vec(any::<u8>(), 40), w in 129u32..320, s in 0u32..330,
        ) {
            let x = Bits::from_be_bytes(&a, w);
            prop_assert_eq!(x.add(&x.neg()), Bits::zero(w));
            prop_assert_eq!(x.sub(&x), Bits::zero(w));
            prop_assert_eq!(x.xor(&x.not()), Bits::ones(w));
            if s < w {
                prop_assert_eq!(x.slice(w - 1, s).concat(&x.cast(s)), x.clone());
                prop_assert_eq!(x.shr(s).shl(s), x.and(&Bits::prefix_mask(w - s, w)));
            }
            prop_assert_eq!(Bits::from_be_bytes(&x.to_be_bytes(), w), x.clone());
            prop_assert_eq!(x.mul(&Bits::from_u128(2, w)), x.shl(1));
        }
    }

    #[test]
    fn corners() {
        assert!(Bits::zero(0).is_zero());
        assert_eq!(Bits::ones(13).low_u128(), 0x1fff);
        assert_eq!(Bits::prefix_mask(8, 32).low_u128(), 0xff00_0000);
        assert_eq!(Bits::from_u128(0xff00_0000, 32).prefix_len(), Some(8));
        assert_eq!(Bits::from_u128(0xff00_0001, 32).prefix_len(), None);
        assert_eq!(Bits::zero(32).prefix_len(), Some(0));
        assert_eq!(
            Bits::from_u128(0x12, 8).with_slice(7, 4, &Bits::from_u128(0xf, 4)).low_u128(),
            0xf2
        );
        assert_eq!(Bits::from_u128(0b1000, 4).sign_cast(8).low_u128(), 0xf8);
        assert_eq!(Bits::ones(200).to_string(), format!("0xff{}", "f".repeat(48)));
        assert_eq!(format!("{:#}", Bits::from_u128(80, 16)), "80");
    }
}
