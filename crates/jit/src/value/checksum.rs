//! The Internet checksum (RFC 1071) of values, and its adjustment (RFC 1624).
//!
//! A sum is kept in an `i64` and folded once at the end. It equals the sum of 16-bit words modulo
//! 0xffff and is zero only if that is, so folding gives the very same 16 bits. Each 32 bits of a value
//! add less than 2^48, so that 65 536 times as many fit.
//!
//! An adjustment takes only the fields that changed. The exact result also depends on whether *any*
//! bit of the inputs is not a one that became a zero: the two forms of zero, 0x0000 and 0xffff, tell
//! them apart. Which bits were given is known while code is generated, so [`Adjust`] adds what the
//! others amount to as a constant.
//!
//! Checked by: `tests/value.rs`, against sums of whole strings of words.

use super::Val;
use super::limb::{Limb, ones};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use smallvec::SmallVec;

/// Adds a value to a sum: a bit string whose first bit lies `bit_position_mod_16` bits after the
/// start of a 16-bit word.
pub fn csum_add(
    b: &mut FunctionBuilder<'_>,
    acc: Value,
    val: &Val,
    bit_position_mod_16: u32,
) -> Value {
    let acc = Limb::new(acc, u64::MAX);
    contribution(b, val, bit_position_mod_16).fold(b, acc)
}

/// The sum folded to 16 bits, as an `i64`.
pub fn csum_fold(b: &mut FunctionBuilder<'_>, acc: Value) -> Value {
    // Adding the halves to each other leaves their sum with the carry brought round in the upper
    // one.
    let by = b.ins().iconst(types::I64, 32);
    let turned = b.ins().rotl(acc, by);
    let sum = b.ins().iadd(acc, turned);
    let sum = b.ins().ushr(sum, by);
    let sum = b.ins().ireduce(types::I32, sum);
    let by = b.ins().iconst(types::I32, 16);
    let turned = b.ins().rotl(sum, by);
    let sum = b.ins().iadd(sum, turned);
    let sum = b.ins().ushr(sum, by);
    b.ins().uextend(types::I64, sum)
}

/// RFC 1624, equation 3: `!(!old + minus + plus)`, where `minus` is the sum of the complements of
/// the words before and `plus` that of the words after. All are `i64`; the result has 16 bits.
pub fn csum_adjust(b: &mut FunctionBuilder<'_>, old: Value, minus: Value, plus: Value) -> Value {
    let word = b.ins().iconst(types::I64, 0xffff);
    let old = b.ins().bxor(old, word);
    let sum = b.ins().iadd(minus, plus);
    let sum = b.ins().iadd(sum, old);
    let sum = csum_fold(b, sum);
    b.ins().bxor(sum, word)
}

/// How far a string's last bit is from the end of its word.
fn to_word_end(position: u32, width: u32) -> u32 {
    (16 - (position % 16 + width % 16) % 16) % 16
}

/// What a value adds: parts of less than 2^48 once shifted, 2^16 being 1 modulo 0xffff.
struct Contribution {
    parts: SmallVec<[Limb; 4]>,
    shift: u32,
}

fn contribution(b: &mut FunctionBuilder<'_>, val: &Val, position: u32) -> Contribution {
    let shift = to_word_end(position, val.width);
    let mut parts = SmallVec::new();
    for limb in &val.limbs {
        if limb.may() >> (48 - shift) == 0 {
            parts.push(*limb);
        } else {
            parts.push(limb.keep(b, ones(32)));
            parts.push(limb.shr(b, 32));
        }
    }
    Contribution { parts, shift }
}

impl Contribution {
    /// Adds it to a sum.
    fn fold(self, b: &mut FunctionBuilder<'_>, acc: Limb) -> Value {
        let mut constant = 0;
        let mut sum = acc;
        for limb in self.parts {
            match limb.shl(b, self.shift) {
                Limb::Known(k) => constant += k % 0xffff + 0xffff * u64::from(k != 0),
                limb => sum = sum.add(b, limb),
            }
        }
        sum.add(b, Limb::Known(constant)).value(b)
    }
}

/// An adjustment under construction.
#[derive(Clone, Debug)]
pub struct Adjust {
    sum: Limb,
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
        Adjust { sum: Limb::ZERO, bits: 0, all_ones: 0 }
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
        let gone = before.not(b);
        for val in [&gone, &after] {
            let part = contribution(b, val, bit_position_mod_16);
            self.sum = Limb::new(part.fold(b, self.sum), u64::MAX);
        }
        self.bits += u64::from(before.width);
        // A whole word of ones adds nothing modulo 0xffff.
        let shift = to_word_end(bit_position_mod_16, before.width);
        self.all_ones = (self.all_ones + (ones(before.width % 16) << shift)) % 0xffff;
    }

    /// The new checksum (an `i64` of 16 bits), given the old one (likewise) and the length of all
    /// inputs, changed or not, in bits.
    pub fn finish(self, b: &mut FunctionBuilder<'_>, old: Value, input_bits: u64) -> Value {
        // The complement of a bit that stayed, plus the bit itself, is a one; so is the complement
        // of padding. All ones together add nothing modulo 0xffff.
        let unchanged = input_bits.next_multiple_of(16).saturating_sub(self.bits);
        let constant = if unchanged == 0 { 0 } else { 0xffff - self.all_ones };
        let minus = self.sum.value(b);
        let plus = b.ins().iconst(types::I64, constant as i64);
        csum_adjust(b, old, minus, plus)
    }
}
