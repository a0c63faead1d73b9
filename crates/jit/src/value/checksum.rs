//! Adjustment of an Internet checksum (RFC 1071) for fields that changed (RFC 1624), and one made anew.
//!
//! The sum is one of little-endian words: one's complement sums do not depend on the order of bytes
//! (RFC 1071 §2 (B)), so fields that were read from a packet and the checksum itself need not be
//! swapped, and the result is stored as it is. A word swapped is the word times 2^8 modulo 0xffff,
//! and 2^16 is 1; so a number that did not come from memory adds with another shift.
//!
//! A field adds what it is now, less what it was, plus as many ones as it could have had: RFC 1624's
//! equation 3, with the complements of all fields in one constant. The sum is kept in an `i64` and
//! folded once at the end. It equals the sum of 16-bit words modulo 0xffff and is zero only if that
//! is, so folding gives the very same 16 bits. Each 32 bits of a value add less than 2^48, so that
//! 65 536 times as many fit.
//!
//! An adjustment takes only the fields that changed. The exact result also depends on whether *any*
//! bit of the inputs is not a one that became a zero: the two forms of zero, 0x0000 and 0xffff, tell
//! them apart. Which bits were given is known while code is generated, so [`Adjust`] adds what the
//! others amount to as a constant.
//!
//! Checked by: `tests/value.rs`, against sums of whole strings of words.

use super::Val;
use super::limb::{Limb, Raw, ones};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use smallvec::SmallVec;

/// How far a string's last bit is from the end of its word.
fn to_word_end(position: u32, width: u32) -> u32 {
    (16 - (position % 16 + width % 16) % 16) % 16
}

/// What a value adds: numbers, the bits that each could have, and how far they are shifted. Each is
/// less than 2^48 once it is.
struct Contribution {
    parts: SmallVec<[(Limb, u64); 4]>,
    shift: u32,
}

impl Contribution {
    fn new(b: &mut FunctionBuilder<'_>, val: &Val, position: u32) -> Contribution {
        let (mut limbs, shift) = match as_loaded(val, position) {
            Some((limb, shift)) => (SmallVec::from_slice(&[limb]), shift),
            None => (val.limbs.clone(), (to_word_end(position, val.width) + 8) % 16),
        };
        let mut parts = SmallVec::new();
        for (i, limb) in limbs.drain(..).enumerate() {
            let all = ones(val.width.saturating_sub(64 * i as u32));
            if all >> (48 - shift) == 0 {
                parts.push((limb, all));
            } else {
                parts.push((limb.keep(b, ones(32)), ones(32)));
                parts.push((limb.shr(b, 32), all >> 32));
            }
        }
        Contribution { parts, shift }
    }

    /// The most that it can add.
    fn most(&self) -> u64 {
        self.parts.iter().map(|(_, all)| all << self.shift).sum()
    }
}

/// A value of whole bytes as it was loaded, and how far from the start of its word it lies.
fn as_loaded(val: &Val, position: u32) -> Option<(Limb, u32)> {
    let [limb] = val.limbs[..] else { return None };
    let raw = limb.raw()?;
    let right = raw.exact && 8 * raw.bytes == val.width && position.is_multiple_of(8);
    right.then(|| (Limb::new(raw.value, ones(val.width)), position % 16))
}

/// An adjustment under construction.
#[derive(Clone, Debug)]
pub struct Adjust {
    /// What is added, not shifted back.
    sum: Limb,
    /// What must be added so that nothing is negative.
    constant: u64,
    /// The sum with the constant is not more.
    most: u64,
    /// Bits given so far.
    bits: u64,
    /// What they would add if all were ones, modulo 0xffff.
    all_ones: u64,
}

impl Default for Adjust {
    fn default() -> Adjust {
        Adjust::new()
    }
}

impl Adjust {
    /// Nothing has changed.
    pub fn new() -> Adjust {
        Adjust { sum: Limb::ZERO, constant: 0, most: 0, bits: 0, all_ones: 0 }
    }

    /// A field of the inputs, whose first bit lies `bit_position_mod_16` bits after the start of a
    /// 16-bit word, had one value and has another one of the same width. No field is given twice.
    pub fn change(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        before: &Val,
        after: &Val,
        bit_position_mod_16: u32,
    ) {
        let after = after.cast(b, before.width);
        let plus = Contribution::new(b, &after, bit_position_mod_16);
        let minus = Contribution::new(b, before, bit_position_mod_16);
        self.constant += minus.most();
        self.most += minus.most() + plus.most();
        self.all_ones = (self.all_ones + minus.most() % 0xffff) % 0xffff;
        self.bits += u64::from(before.width);
        if plus.shift == minus.shift && plus.parts.len() == 1 && minus.parts.len() == 1 {
            // One shift for both.
            let change = plus.parts[0].0.sub(b, minus.parts[0].0).shl(b, plus.shift);
            self.add(b, change);
            return;
        }
        for (limb, _) in plus.parts {
            let limb = limb.shl(b, plus.shift);
            self.add(b, limb);
        }
        for (limb, _) in minus.parts {
            let limb = limb.shl(b, minus.shift);
            self.subtract(b, limb);
        }
    }

    fn add(&mut self, b: &mut FunctionBuilder<'_>, limb: Limb) {
        match limb {
            Limb::Known(k) => self.constant = self.constant.wrapping_add(k),
            limb => self.sum = self.sum.add(b, limb).of_any(),
        }
    }

    fn subtract(&mut self, b: &mut FunctionBuilder<'_>, limb: Limb) {
        match limb {
            Limb::Known(k) => self.constant = self.constant.wrapping_sub(k),
            limb => self.sum = self.sum.sub(b, limb).of_any(),
        }
    }

    /// The new checksum, given the old one (both of 16 bits) and the length of all inputs, changed
    /// or not, in bits. With `zero_is_none`, a checksum that comes out as zero is all ones.
    pub fn finish(
        mut self,
        b: &mut FunctionBuilder<'_>,
        old: &Val,
        input_bits: u64,
        zero_is_none: bool,
    ) -> Val {
        // The complement of a bit that stayed, plus the bit itself, is a one; so is the complement
        // of padding. All ones together add nothing modulo 0xffff.
        let unchanged = input_bits.next_multiple_of(16).saturating_sub(self.bits);
        let others = if unchanged == 0 { 0 } else { 0xffff - self.all_ones };
        let minus = Contribution::new(b, old, 0);
        self.constant = self.constant.wrapping_add(others).wrapping_add(minus.most());
        self.most += others + minus.most();
        for (limb, _) in minus.parts {
            let limb = limb.shl(b, minus.shift);
            self.subtract(b, limb);
        }
        self.complement(b, zero_is_none)
    }

    /// A part of the inputs of a checksum that is computed anew, whose first bit lies
    /// `bit_position_mod_16` bits after the start of a word.
    pub fn include(&mut self, b: &mut FunctionBuilder<'_>, value: &Val, bit_position_mod_16: u32) {
        let plus = Contribution::new(b, value, bit_position_mod_16);
        self.most += plus.most();
        for (limb, _) in plus.parts {
            let limb = limb.shl(b, plus.shift);
            self.add(b, limb);
        }
    }

    /// The checksum of what was [included](Self::include), and of nothing else.
    pub fn anew(self, b: &mut FunctionBuilder<'_>) -> Val {
        self.complement(b, false)
    }

    /// The complement of the sum, which is at most `most`.
    fn complement(self, b: &mut FunctionBuilder<'_>, zero_is_none: bool) -> Val {
        let sum = self.sum.add(b, Limb::Known(self.constant)).value(b);
        let sum = fold(b, sum, self.most);
        let ones = b.ins().iconst(types::I32, 0xffff);
        let mut new = b.ins().bxor(sum, ones);
        if zero_is_none {
            let none = b.ins().icmp_imm_u(IntCC::Equal, new, 0);
            new = b.ins().select(none, ones, new);
        }
        let value = b.ins().uextend(types::I64, new);
        let swapped = b.ins().bswap(value);
        let swapped = b.ins().ushr_imm_u(swapped, 48);
        let limb = Limb::new(swapped, 0xffff).read_from(Raw { value, bytes: 2, exact: true });
        Val { width: 16, limbs: SmallVec::from_slice(&[limb]) }
    }
}

/// A sum that is at most `most` folded to 16 bits, as an `i32`.
fn fold(b: &mut FunctionBuilder<'_>, sum: Value, most: u64) -> Value {
    // Adding the halves to each other leaves their sum with the carry brought round in the upper
    // one.
    let mut sum = sum;
    if most > u64::from(u32::MAX) {
        let by = b.ins().iconst(types::I64, 32);
        let turned = b.ins().rotl(sum, by);
        let both = b.ins().iadd(sum, turned);
        sum = b.ins().ushr(both, by);
    }
    let sum = b.ins().ireduce(types::I32, sum);
    let by = b.ins().iconst(types::I32, 16);
    let turned = b.ins().rotl(sum, by);
    let sum = b.ins().iadd(sum, turned);
    b.ins().ushr(sum, by)
}
