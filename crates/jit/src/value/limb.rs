//! One 64-bit limb of a value, with what is known about it while code is generated.
//!
//! A limb is a constant, or a value of the generated code together with the bits that may be set in
//! it. Every operation folds constants, drops what cannot matter (a mask that keeps every bit that
//! may be set, an or with zero) and only then emits an instruction, so that masks after narrow loads
//! and comparisons with constants cost nothing, in the code and in the compiler.
//!
//! A limb that was read from a packet also knows its bytes as they were loaded, so that comparing it
//! for equality with a constant, or storing it elsewhere (a column of a key), needs no byte swap; an
//! unused swap is dropped by Cranelift.
//!
//! Checked by: `tests/value.rs`; a claim about the bits that may be set that is too strong shows as a
//! wrong value.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    InstBuilder, InstructionData, MemFlagsData, Opcode, Value, ValueDef, types,
};
use cranelift_frontend::FunctionBuilder;

/// A limb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limb {
    /// A constant.
    Known(u64),
    /// A value of type `i64`, and the bits that may be set in it.
    Dynamic {
        /// The value.
        value: Value,
        /// Bits that may be set; all others are zero.
        may: u64,
        /// The bytes of memory that it was read from, if it is nothing but them.
        raw: Option<Raw>,
    },
}

/// Bytes as they were loaded: the number that they are, the first byte the most significant one, is
/// the limb. What only moves them, or compares them for equality, need not swap them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raw {
    /// The first byte is the least significant one.
    pub(super) value: Value,
    /// How many they are, at most 8.
    pub(super) bytes: u32,
    /// Nothing lies above them; otherwise, anything.
    pub(super) exact: bool,
}

use Limb::{Dynamic, Known};

/// The instruction whose result this is.
fn made_by(b: &FunctionBuilder<'_>, value: Value) -> Option<InstructionData> {
    let dfg = &b.func.dfg;
    match dfg.value_def(dfg.resolve_aliases(value)) {
        ValueDef::Result(inst, 0) => Some(dfg.insts[inst]),
        _ => None,
    }
}

fn constant(b: &FunctionBuilder<'_>, value: Value) -> Option<u64> {
    match made_by(b, value)? {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits() as u64),
        _ => None,
    }
}

/// Both are one value, or loaded alike.
fn are_loaded_alike(b: &FunctionBuilder<'_>, one: Value, other: Value) -> bool {
    let resolved = |value| b.func.dfg.resolve_aliases(value);
    if resolved(one) == resolved(other) {
        return true;
    }
    let load = |value| match made_by(b, value)? {
        InstructionData::Load { opcode, arg, flags, offset } => {
            Some((opcode, resolved(arg), flags, offset))
        }
        _ => None,
    };
    load(one).is_some_and(|one| load(other) == Some(one))
}

/// A number is another one and a constant more or less, within bits in which the constant is not zero: so they differ,
/// whatever they are. That they are not is not said otherwise.
///
/// What both were loaded from must not have been written in between.
pub(super) fn is_step_from(b: &FunctionBuilder<'_>, limb: Limb, other: Limb) -> bool {
    let (Dynamic { value, .. }, Dynamic { value: from, may, .. }) = (limb, other) else {
        return false;
    };
    let masked = match made_by(b, value) {
        Some(InstructionData::Binary { opcode: Opcode::Band, args: [value, mask] }) => {
            constant(b, mask).map(|mask| (value, mask))
        }
        _ => Some((value, u64::MAX)),
    };
    let Some((value, mask)) = masked else { return false };
    let Some(InstructionData::Binary { opcode, args: [one, by] }) = made_by(b, value) else {
        return false;
    };
    let steps = matches!(opcode, Opcode::Iadd | Opcode::Isub)
        && constant(b, by).is_some_and(|by| by & mask != 0);
    // Low bits, all that the other one has among them.
    let low = mask & mask.wrapping_add(1) == 0 && may & !mask == 0;
    steps && low && are_loaded_alike(b, one, from)
}

/// What was swapped to make the value: all eight bytes, or those at the top moved down.
fn swapped_load(b: &FunctionBuilder<'_>, value: Value) -> Option<Raw> {
    let (swap, bytes) = match made_by(b, value)? {
        InstructionData::Binary { opcode: Opcode::Ushr, args: [swap, by] } => {
            let by = constant(b, by).filter(|by| *by < 64 && by.is_multiple_of(8))?;
            (made_by(b, swap)?, 8 - by as u32 / 8)
        }
        swap => (swap, 8),
    };
    let InstructionData::Unary { opcode: Opcode::Bswap, arg } = swap else { return None };
    let exact = bytes == 8
        || match made_by(b, arg) {
            Some(InstructionData::Load { opcode, .. }) => match opcode {
                Opcode::Uload8 => bytes == 1,
                Opcode::Uload16 => bytes == 2,
                Opcode::Uload32 => bytes == 4,
                _ => false,
            },
            _ => false,
        };
    Some(Raw { value: arg, bytes, exact })
}

/// A mask, and the bytes that were swapped to make what it was laid over, if nothing lies above them.
fn masked_load(b: &FunctionBuilder<'_>, value: Value) -> Option<(u64, Raw)> {
    let Some(InstructionData::Binary { opcode: Opcode::Band, args: [value, mask] }) =
        made_by(b, value)
    else {
        return None;
    };
    let raw = swapped_load(b, value).filter(|raw| raw.exact)?;
    Some((constant(b, mask)?, raw))
}

/// The low `n` bits, at most 64.
pub(super) fn ones(n: u32) -> u64 {
    match n {
        0 => 0,
        1..=63 => (1 << n) - 1,
        _ => u64::MAX,
    }
}

/// All bits up to the highest that may be set.
fn up_to_highest(may: u64) -> u64 {
    ones(64 - may.leading_zeros())
}

/// A load of all bytes of a limb and no others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    pub(super) address: Value,
    pub(super) at: i32,
    pub(super) bytes: u32,
    pub(super) flags: MemFlagsData,
}

impl Limb {
    /// The load that it comes from.
    pub(super) fn loaded(self, b: &FunctionBuilder<'_>) -> Option<Loaded> {
        let raw = self.raw().filter(|raw| raw.exact)?;
        match made_by(b, raw.value)? {
            InstructionData::Load { opcode, arg, offset, flags } => {
                let bytes = match opcode {
                    Opcode::Uload8 => 1,
                    Opcode::Uload16 => 2,
                    Opcode::Uload32 => 4,
                    _ => 8,
                };
                let flags = b.func.dfg.mem_flags[flags];
                let at = i32::from(offset);
                (bytes == raw.bytes).then_some(Loaded { address: arg, at, bytes, flags })
            }
            _ => None,
        }
    }

    /// Zero.
    pub(super) const ZERO: Limb = Known(0);

    /// A value in which at most the bits of `may` are set.
    pub(super) fn new(value: Value, may: u64) -> Limb {
        if may == 0 { Known(0) } else { Dynamic { value, may, raw: None } }
    }

    /// The same limb; if the code shows that it is bytes that were loaded and swapped, it knows them.
    pub(super) fn traced(self, b: &FunctionBuilder<'_>) -> Limb {
        match self {
            Dynamic { value, raw: None, .. } => match swapped_load(b, value) {
                Some(raw) => self.read_from(raw),
                None => self,
            },
            limb => limb,
        }
    }

    /// The same limb, read from these bytes.
    pub(super) fn read_from(self, read: Raw) -> Limb {
        match self {
            Known(k) => Known(k),
            Dynamic { value, may, .. } => Dynamic { value, may, raw: Some(read) },
        }
    }

    /// The same limb, about which nothing is claimed: modulo 2^64, it may have been negative on its
    /// way.
    pub(super) fn of_any(self) -> Limb {
        match self {
            Known(k) => Known(k),
            Dynamic { value, .. } => Limb::new(value, u64::MAX),
        }
    }

    /// The bytes that it was read from.
    pub(super) fn raw(self) -> Option<Raw> {
        match self {
            Known(_) => None,
            Dynamic { raw, .. } => raw,
        }
    }

    /// Operands whose equality is that of these, with fewer instructions to get them.
    pub(super) fn unswapped(self, b: &mut FunctionBuilder<'_>, other: Limb) -> (Limb, Limb) {
        match (self, other, self.raw(), other.raw()) {
            (_, Known(k), Some(raw), _) | (Known(k), _, _, Some(raw)) => {
                let (above, all) = (64 - 8 * raw.bytes, Limb::new(raw.value, u64::MAX));
                match raw.exact {
                    true => (all, Known(k.swap_bytes() >> above)),
                    // Moved to the top, what lies above them falls off.
                    false => (all.shl(b, above), Known(k.swap_bytes() >> above << above)),
                }
            }
            (_, _, Some(x), Some(y)) if x.exact && y.exact && x.bytes == y.bytes => {
                (Limb::new(x.value, u64::MAX), Limb::new(y.value, u64::MAX))
            }
            (Dynamic { value, .. }, Known(k), None, _)
            | (Known(k), Dynamic { value, .. }, _, None) => match masked_load(b, value) {
                Some((mask, Raw { value, bytes, .. })) => {
                    let moved = |k: u64| k.swap_bytes() >> (64 - 8 * bytes);
                    // What is beyond the bytes is set in no such number.
                    if k > ones(8 * bytes) {
                        return (self, other);
                    }
                    (Limb::new(value, ones(8 * bytes)).keep(b, moved(mask)), Known(moved(k)))
                }
                None => (self, other),
            },
            _ => (self, other),
        }
    }

    /// A comparison's result as 0 or 1.
    fn flag(b: &mut FunctionBuilder<'_>, flag: Value) -> Limb {
        Dynamic { value: b.ins().uextend(types::I64, flag), may: 1, raw: None }
    }

    /// Bits that may be set.
    pub(super) fn may(self) -> u64 {
        match self {
            Known(k) => k,
            Dynamic { may, .. } => may,
        }
    }

    /// The least that it can be.
    fn least(self) -> u64 {
        match self {
            Known(k) => k,
            Dynamic { .. } => 0,
        }
    }

    /// The constant, if it is one.
    pub(super) fn known(self) -> Option<u64> {
        match self {
            Known(k) => Some(k),
            Dynamic { .. } => None,
        }
    }

    /// As a value of the code.
    pub(super) fn value(self, b: &mut FunctionBuilder<'_>) -> Value {
        match self {
            Known(k) => b.ins().iconst(types::I64, k as i64),
            Dynamic { value, .. } => value,
        }
    }

    /// Bitwise and.
    pub(super) fn and(self, b: &mut FunctionBuilder<'_>, other: Limb) -> Limb {
        let may = self.may() & other.may();
        match (self, other) {
            _ if may == 0 => Known(0),
            (Known(x), Known(y)) => Known(x & y),
            (x @ Dynamic { may, .. }, Known(k)) | (Known(k), x @ Dynamic { may, .. })
                if may & !k == 0 =>
            {
                x
            }
            (x, y) if x == y => x,
            (x, y) => {
                let (x, y) = (x.value(b), y.value(b));
                Limb::new(b.ins().band(x, y), may)
            }
        }
    }

    /// The bits of a mask; the others become zero.
    pub(super) fn keep(self, b: &mut FunctionBuilder<'_>, mask: u64) -> Limb {
        self.and(b, Known(mask))
    }

    /// Bitwise or.
    pub(super) fn or(self, b: &mut FunctionBuilder<'_>, other: Limb) -> Limb {
        match (self, other) {
            (Known(x), Known(y)) => Known(x | y),
            (x, Known(0)) | (Known(0), x) => x,
            (Dynamic { may, .. }, Known(k)) | (Known(k), Dynamic { may, .. }) if may & !k == 0 => {
                Known(k)
            }
            (x, y) if x == y => x,
            (x, y) => {
                let may = x.may() | y.may();
                let (x, y) = (x.value(b), y.value(b));
                Limb::new(b.ins().bor(x, y), may)
            }
        }
    }

    /// Bitwise exclusive or.
    pub(super) fn xor(self, b: &mut FunctionBuilder<'_>, other: Limb) -> Limb {
        match (self, other) {
            (Known(x), Known(y)) => Known(x ^ y),
            (x, Known(0)) | (Known(0), x) => x,
            (x, y) if x == y => Known(0),
            (x, y) => {
                let may = x.may() | y.may();
                let (x, y) = (x.value(b), y.value(b));
                Limb::new(b.ins().bxor(x, y), may)
            }
        }
    }

    /// Wrapping addition.
    pub(super) fn add(self, b: &mut FunctionBuilder<'_>, other: Limb) -> Limb {
        match (self, other) {
            (Known(x), Known(y)) => Known(x.wrapping_add(y)),
            (x, Known(0)) | (Known(0), x) => x,
            (x, y) => {
                let may = match up_to_highest(x.may()).checked_add(up_to_highest(y.may())) {
                    Some(most) => up_to_highest(most),
                    None => u64::MAX,
                };
                let (x, y) = (x.value(b), y.value(b));
                Limb::new(b.ins().iadd(x, y), may)
            }
        }
    }

    /// Addition; the carry out, 0 or 1.
    pub(super) fn add_carry(self, b: &mut FunctionBuilder<'_>, other: Limb) -> (Limb, Limb) {
        let sum = self.add(b, other);
        let carry = match self.may().checked_add(other.may()) {
            Some(_) => Known(0),
            None => sum.compare(b, IntCC::UnsignedLessThan, self),
        };
        (sum, carry)
    }

    /// Wrapping subtraction.
    pub(super) fn sub(self, b: &mut FunctionBuilder<'_>, other: Limb) -> Limb {
        match (self, other) {
            (Known(x), Known(y)) => Known(x.wrapping_sub(y)),
            (x, Known(0)) => x,
            (x, y) if x == y => Known(0),
            (x, y) => {
                // What cannot be negative stays below what it was.
                let may = if y.may() <= x.least() { up_to_highest(x.may()) } else { u64::MAX };
                let (x, y) = (x.value(b), y.value(b));
                Limb::new(b.ins().isub(x, y), may)
            }
        }
    }

    /// Wrapping multiplication.
    pub(super) fn mul(self, b: &mut FunctionBuilder<'_>, other: Limb) -> Limb {
        match (self, other) {
            (Known(x), Known(y)) => Known(x.wrapping_mul(y)),
            (_, Known(0)) | (Known(0), _) => Known(0),
            (x, Known(k)) | (Known(k), x) if k.is_power_of_two() => x.shl(b, k.trailing_zeros()),
            (x, y) => {
                let may = x.may().checked_mul(y.may()).map_or(u64::MAX, up_to_highest);
                let (x, y) = (x.value(b), y.value(b));
                Limb::new(b.ins().imul(x, y), may)
            }
        }
    }

    /// The high 64 bits of the product.
    pub(super) fn mul_high(self, b: &mut FunctionBuilder<'_>, other: Limb) -> Limb {
        let high = |x: u64, y: u64| ((u128::from(x) * u128::from(y)) >> 64) as u64;
        match (self, other) {
            (Known(x), Known(y)) => Known(high(x, y)),
            (x, y) if high(x.may(), y.may()) == 0 => Known(0),
            (x, y) => {
                let may = up_to_highest(high(x.may(), y.may()));
                let (x, y) = (x.value(b), y.value(b));
                Limb::new(b.ins().umulhi(x, y), may)
            }
        }
    }

    /// Shift left by a constant; zero from 64 on.
    pub(super) fn shl(self, b: &mut FunctionBuilder<'_>, by: u32) -> Limb {
        match self {
            _ if by >= 64 => Known(0),
            Known(k) => Known(k << by),
            x if by == 0 || x.may() << by == 0 => x.keep(b, ones(64 - by)),
            x => {
                let (value, by_value) = (x.value(b), b.ins().iconst(types::I64, i64::from(by)));
                Limb::new(b.ins().ishl(value, by_value), x.may() << by)
            }
        }
    }

    /// Logical shift right by a constant; zero from 64 on.
    pub(super) fn shr(self, b: &mut FunctionBuilder<'_>, by: u32) -> Limb {
        match self {
            _ if by >= 64 => Known(0),
            Known(k) => Known(k >> by),
            x if by == 0 => x,
            x if x.may() >> by == 0 => Known(0),
            x => {
                let (value, by_value) = (x.value(b), b.ins().iconst(types::I64, i64::from(by)));
                Limb::new(b.ins().ushr(value, by_value), x.may() >> by)
            }
        }
    }

    /// Arithmetic shift right by a constant; only the sign is left from 63 on.
    pub(super) fn sar(self, b: &mut FunctionBuilder<'_>, by: u32) -> Limb {
        match self {
            Known(k) => Known((k as i64 >> by.min(63)) as u64),
            x if x.may() >> 63 == 0 => x.shr(b, by),
            x if by == 0 => x,
            x => {
                let by_value = b.ins().iconst(types::I64, i64::from(by.min(63)));
                let value = x.value(b);
                let may = (x.may() as i64 >> by.min(63)) as u64;
                Limb::new(b.ins().sshr(value, by_value), may)
            }
        }
    }

    /// Shift left by a limb's low six bits.
    pub(super) fn shl_by(self, b: &mut FunctionBuilder<'_>, by: Limb) -> Limb {
        match (self, by) {
            (Known(0), _) => Known(0),
            (x, Known(k)) => x.shl(b, k as u32 % 64),
            (x, by) => {
                let (x, by) = (x.value(b), by.value(b));
                Limb::new(b.ins().ishl(x, by), u64::MAX)
            }
        }
    }

    /// Logical shift right by a limb's low six bits.
    pub(super) fn shr_by(self, b: &mut FunctionBuilder<'_>, by: Limb) -> Limb {
        match (self, by) {
            (Known(0), _) => Known(0),
            (x, Known(k)) => x.shr(b, k as u32 % 64),
            (x, by) => {
                let may = up_to_highest(x.may());
                let (x, by) = (x.value(b), by.value(b));
                Limb::new(b.ins().ushr(x, by), may)
            }
        }
    }

    /// Arithmetic shift right by a limb's low six bits.
    pub(super) fn sar_by(self, b: &mut FunctionBuilder<'_>, by: Limb) -> Limb {
        match (self, by) {
            (x, by) if x.may() >> 63 == 0 => x.shr_by(b, by),
            (x, Known(k)) => x.sar(b, k as u32 % 64),
            (x, by) => {
                let (x, by) = (x.value(b), by.value(b));
                Limb::new(b.ins().sshr(x, by), u64::MAX)
            }
        }
    }

    /// Compares as integers: 0 or 1. Of the orders only the unsigned *less* is asked for.
    pub(super) fn compare(self, b: &mut FunctionBuilder<'_>, how: IntCC, other: Limb) -> Limb {
        let folded = match how {
            IntCC::Equal | IntCC::NotEqual => {
                let differ = match (self, other) {
                    (Known(x), Known(y)) => Some(x != y),
                    (x, y) if x == y => Some(false),
                    (x, Known(k)) | (Known(k), x) if k & !x.may() != 0 => Some(true),
                    _ => None,
                };
                differ.map(|differ| differ == (how == IntCC::NotEqual))
            }
            IntCC::UnsignedLessThan => match (self, other) {
                (x, y) if x == y => Some(false),
                (x, y) if x.may() < y.least() => Some(true),
                (x, y) if x.least() >= y.may() => Some(false),
                _ => None,
            },
            _ => None,
        };
        if let Some(folded) = folded {
            return Known(u64::from(folded));
        }
        match (how, self, other) {
            // A flag is what it says.
            (IntCC::NotEqual, x, Known(0)) | (IntCC::NotEqual, Known(0), x) if x.may() == 1 => x,
            (IntCC::Equal, x, Known(1)) | (IntCC::Equal, Known(1), x) if x.may() == 1 => x,
            (how, x, y) => {
                let (x, y) = match how {
                    IntCC::Equal | IntCC::NotEqual => x.unswapped(b, y),
                    _ => (x, y),
                };
                let (x, y) = (x.value(b), y.value(b));
                let flag = b.ins().icmp(how, x, y);
                Limb::flag(b, flag)
            }
        }
    }

    /// `self != 0 ? then : otherwise`.
    pub(super) fn select(self, b: &mut FunctionBuilder<'_>, then: Limb, otherwise: Limb) -> Limb {
        match (self, then, otherwise) {
            (Known(c), x, y) => {
                if c != 0 {
                    x
                } else {
                    y
                }
            }
            (_, x, y) if x == y => x,
            (c, Known(1), Known(0)) if c.may() == 1 => c,
            (c, x, y) => {
                let may = x.may() | y.may();
                let (c, x, y) = (c.value(b), x.value(b), y.value(b));
                Limb::new(b.ins().select(c, x, y), may)
            }
        }
    }
}
