//! Values in memory: fields of packets, packed keys, arrays of limbs.
//!
//! Fields lie in network bit order: bit 0 is the most significant bit of the first byte. A field may
//! start and end within bytes, and its neighbours, even the byte after the header, may be out of
//! bounds; so every access says which bytes may be touched, and the cheapest accesses within them are
//! chosen while code is generated: one load of 1, 2, 4 or 8 bytes that covers the field if there is
//! one, placed so that a shift alone isolates the field if possible. Stores are of exactly the
//! field's bytes; where bits of its first or last byte must stay, one access that covers it all is
//! read, changed and written.
//!
//! Accesses are unaligned, never trap (the caller has checked the length) and little-endian, which
//! both instruction sets are; the bytes are swapped in registers, or not at all where a value only
//! moves from one place to another.
//!
//! Checked by: `tests/value.rs`, with every field of headers of up to 9 bytes that end or begin at a
//! page that traps.

use super::limb::{Limb, Raw, ones};
use super::{Limbs, Val, limbs_for};
use crate::mutant::{Mutant, is_planted};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use smallvec::SmallVec;
use std::ops::Range;

/// An address and what is known of the memory behind it.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// The address.
    pub address: Value,
    /// What all accesses are counted from, in bytes behind the address.
    pub offset: i32,
    /// Flags of all accesses, such as an alias region; by default only that they do not trap.
    pub flags: MemFlagsData,
}

impl Base {
    /// Memory about which only what the flags say is known.
    pub fn new(address: Value, flags: MemFlagsData) -> Base {
        Base { address, offset: 0, flags: flags.with_endianness(Endianness::Little) }
    }

    /// The memory so many bytes behind the address.
    pub fn at(self, offset: i32) -> Base {
        Base { offset, ..self }
    }
}

impl From<Value> for Base {
    fn from(address: Value) -> Base {
        Base::new(address, MemFlagsData::new().with_notrap())
    }
}

/// Sizes of accesses in bytes, largest first.
const SIZES: [i64; 4] = [8, 4, 2, 1];

fn int(size: i64) -> Type {
    match size {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}

impl Base {
    /// The bytes from `at` on as a little-endian number.
    fn load(self, b: &mut FunctionBuilder<'_>, at: i64, size: i64) -> Limb {
        let (address, at) = (self.address, self.offset + at as i32);
        let value = match size {
            1 => b.ins().uload8(types::I64, self.flags, address, at),
            2 => b.ins().uload16(types::I64, self.flags, address, at),
            4 if is_planted(Mutant::LoadWidth) => {
                b.ins().uload16(types::I64, self.flags, address, at)
            }
            4 => b.ins().uload32(self.flags, address, at),
            _ => b.ins().load(types::I64, self.flags, address, at),
        };
        Limb::new(value, ones(8 * size as u32))
    }

    /// Stores the low bytes of a number, lowest first.
    fn store(self, b: &mut FunctionBuilder<'_>, at: i64, size: i64, limb: Limb) {
        let value = narrow(b, limb, size);
        b.ins().store(self.flags, value, self.address, self.offset + at as i32);
    }

    /// Stores the low bytes of a number, highest first; where bits of `keep` are set, memory stays.
    fn store_swapped(self, b: &mut FunctionBuilder<'_>, at: i64, size: i64, limb: Limb, keep: u64) {
        let new = match limb.known() {
            Some(k) => narrow(b, Limb::Known(swapped(k, size)), size),
            None if size == 1 => narrow(b, limb, size),
            None => {
                let value = narrow(b, limb, size);
                b.ins().bswap(value)
            }
        };
        let new = if keep == 0 {
            new
        } else {
            let old = b.ins().load(int(size), self.flags, self.address, self.offset + at as i32);
            let keep = narrow(b, Limb::Known(swapped(keep, size)), size);
            let kept = b.ins().band(old, keep);
            if limb == Limb::ZERO { kept } else { b.ins().bor(kept, new) }
        };
        b.ins().store(self.flags, new, self.address, self.offset + at as i32);
    }
}

/// The low bytes of a number in the opposite order.
fn swapped(k: u64, size: i64) -> u64 {
    k.swap_bytes() >> (64 - 8 * size)
}

/// The low bytes, as a value of that size.
fn narrow(b: &mut FunctionBuilder<'_>, limb: Limb, size: i64) -> Value {
    let ty = int(size);
    match limb {
        Limb::Known(k) => b.ins().iconst(ty, (k & ones(8 * size as u32)) as i64),
        limb if size == 8 => limb.value(b),
        limb => {
            let value = limb.value(b);
            b.ins().ireduce(ty, value)
        }
    }
}

/// First and last bit (exclusive) of a field, counted from the base.
fn bits(byte_offset: i32, first_bit: u32, width: u32) -> Range<i64> {
    let start = 8 * i64::from(byte_offset) + i64::from(first_bit);
    start..start + i64::from(width)
}

/// The bytes that hold bits.
fn bytes_of(bits: &Range<i64>) -> Range<i64> {
    bits.start.div_euclid(8)..(bits.end + 7).div_euclid(8)
}

fn wide(range: &Range<i32>) -> Range<i64> {
    i64::from(range.start)..i64::from(range.end)
}

/// The `width` bits that start `first_bit` bits after byte `byte_offset` from `base`. Only bytes of
/// `readable` (counted from `base` too) are touched; bits outside it are zero.
pub fn load_be(
    b: &mut FunctionBuilder<'_>,
    base: impl Into<Base>,
    byte_offset: i32,
    first_bit: u32,
    width: u32,
    readable: Range<i32>,
) -> Val {
    let (base, readable) = (base.into(), wide(&readable));
    let field = bits(byte_offset, first_bit, width);
    let limbs: Limbs = (0..limbs_for(width) as i64)
        .map(|i| {
            load_bits(
                b,
                base,
                (field.end - 64 * (i + 1)).max(field.start)..field.end - 64 * i,
                &readable,
            )
        })
        .collect();
    Val { width, limbs }
}

/// At most 64 bits.
fn load_bits(
    b: &mut FunctionBuilder<'_>,
    base: Base,
    field: Range<i64>,
    readable: &Range<i64>,
) -> Limb {
    let span = bytes_of(&field);
    if field.is_empty() || span.end <= readable.start || readable.end <= span.start {
        return Limb::ZERO;
    }
    if let Some((at, size)) = window(&field, &span, readable) {
        // Moved to the top, the bits above the field fall off.
        let above = (field.start - 8 * at) as u32;
        let width = (field.end - field.start) as u32;
        let raw = base.load(b, at, size);
        if size == 1 {
            return raw.shr(b, 8 - above - width).keep(b, ones(width));
        }
        let value = raw.value(b);
        let top = match size == 2 && is_planted(Mutant::ByteOrder) {
            true => b.ins().ishl_imm_u(value, 48),
            false => b.ins().bswap(value),
        };
        let top = Limb::new(top, ones(8 * size as u32) << (64 - 8 * size as u32));
        let limb = top.shr(b, 64 - above - width).keep(b, ones(width));
        if above == 0 && width.is_multiple_of(8) {
            let (bytes, exact) = (width / 8, width == 8 * size as u32);
            return limb.read_from(Raw { value, bytes, exact });
        }
        return limb;
    }
    // In two: at the end of what is readable, or else after the largest access that fits.
    let cut = match () {
        () if span.start < readable.start => readable.start,
        () if span.end > readable.end => readable.end,
        () => span.start + SIZES.into_iter().find(|s| *s < span.end - span.start).unwrap_or(1),
    };
    let high = load_bits(b, base, field.start..8 * cut, readable);
    let low = load_bits(b, base, 8 * cut..field.end, readable);
    let high = high.shl(b, (field.end - 8 * cut) as u32);
    high.or(b, low)
}

/// Where one load covers a field, and its size: the smallest; among those, one that needs no mask,
/// then one that needs no shift.
fn window(field: &Range<i64>, span: &Range<i64>, readable: &Range<i64>) -> Option<(i64, i64)> {
    let size = SIZES.into_iter().rev().find(|s| *s >= span.end - span.start)?;
    let first = readable.start.max(span.end - size);
    let last = span.start.min(readable.end - size);
    (first..=last)
        .min_by_key(|at| {
            let masked = field.start != 8 * at;
            let shifted = field.end != 8 * (at + size);
            (u32::from(masked) + u32::from(shifted), masked)
        })
        .map(|at| (at, size))
}

/// Writes the `width` bits that start `first_bit` bits after byte `byte_offset` from `base`; all
/// other bits stay. The value is cast to the width. Only bytes of `accessible` are touched; bits
/// outside it are lost.
pub fn store_be(
    b: &mut FunctionBuilder<'_>,
    base: impl Into<Base>,
    byte_offset: i32,
    first_bit: u32,
    width: u32,
    accessible: Range<i32>,
    val: &Val,
) {
    let (base, accessible) = (base.into(), wide(&accessible));
    let field = bits(byte_offset, first_bit, width);
    let span = bytes_of(&field);
    let span = span.start.max(accessible.start)..span.end.min(accessible.end);
    if field.is_empty() || span.is_empty() {
        return;
    }
    let val = val.cast(b, width);
    let whole = field.start <= 8 * span.start && field.end >= 8 * span.end;
    if !whole && let Some((at, size)) = window(&field, &span, &accessible) {
        return store_piece(b, base, at, size, &field, &val);
    }
    let mut at = span.start;
    while at < span.end {
        let size = SIZES.into_iter().find(|s| *s <= span.end - at).unwrap_or(1);
        store_piece(b, base, at, size, &field, &val);
        at += size;
    }
}

/// Writes values of whole bytes, each at its place and so many bytes long, by ascending places.
///
/// They are written from the last one on, so that one of five to seven bytes may be written together with
/// what lies before it, if that is written, too.
pub fn store_pieces(
    b: &mut FunctionBuilder<'_>,
    base: impl Into<Base>,
    pieces: &[(i32, u32, Val)],
) {
    let base = base.into();
    for (i, (at, bytes, val)) in pieces.iter().enumerate().rev() {
        let before = i.checked_sub(1).map(|i| &pieces[i]);
        let room = match before {
            Some((from, len, _)) if *from + *len as i32 == *at => *len,
            _ => 0,
        };
        let val = val.cast(b, 8 * bytes);
        let limb = val.limb(0);
        let moves = limb.known().is_some() || limb.raw().is_some();
        if (5..8).contains(bytes) && 8 - bytes <= room && !moves {
            let at = i64::from(*at) + i64::from(*bytes) - 8;
            base.store_swapped(b, at, 8, limb, 0);
        } else {
            store_be(b, base, *at, 0, 8 * bytes, *at..*at + *bytes as i32, &val);
        }
    }
}

/// Writes what part of a field lies in the bytes from `at` on.
fn store_piece(
    b: &mut FunctionBuilder<'_>,
    base: Base,
    at: i64,
    size: i64,
    field: &Range<i64>,
    val: &Val,
) {
    let end = 8 * (at + size);
    let part = field.start.max(8 * at)..field.end.min(end);
    let (width, below) = ((part.end - part.start) as u32, (end - part.end) as u32);
    let low = (field.end - part.end) as u64;
    let keep = ones(8 * size as u32) & !(ones(width) << below);
    if keep == 0
        && let Some(limb) = unswapped(b, val, low, size as u32)
    {
        return base.store(b, at, size, limb);
    }
    let limb = val.limb_at(b, low).keep(b, ones(width)).shl(b, below);
    base.store_swapped(b, at, size, limb, keep);
}

/// `size` bytes of the value from bit `low` on, the most significant one lowest, if they were read
/// from memory and need not be swapped.
fn unswapped(b: &mut FunctionBuilder<'_>, val: &Val, low: u64, size: u32) -> Option<Limb> {
    let raw = val.limb((low / 64) as usize).raw()?;
    let end = (low % 64) as u32 + 8 * size;
    let before = (8 * raw.bytes).checked_sub(end).filter(|_| low.is_multiple_of(8))?;
    Some(Limb::new(raw.value, u64::MAX).shr(b, before))
}

/// Writes a packed key of `len` bytes: its columns, each right-aligned and big-endian in whole bytes,
/// then zeros up to `stride` bytes.
///
/// Columns that lie side by side in a packet, too, are moved at once, as are constants. A store may
/// reach past its column where what comes next is written later, or is to be zero.
pub fn store_columns(
    b: &mut FunctionBuilder<'_>,
    base: impl Into<Base>,
    columns: &[Val],
    len: usize,
    stride: usize,
) {
    let base = base.into();
    let (len, stride) = (len as i64, stride as i64);
    let mut pieces: SmallVec<[Val; 8]> = SmallVec::new();
    for column in columns.iter().filter(|column| column.width > 0) {
        let mut piece = column.cast(b, column.width.next_multiple_of(8));
        while let Some(last) = pieces.last() {
            let Some(both) = side_by_side(b, last, &piece) else { break };
            piece = both;
            pieces.pop();
        }
        pieces.push(piece);
    }
    if let (8, Some(word)) = (stride, word(b, &pieces)) {
        return base.store(b, 0, 8, word);
    }
    // Before the columns, which may come to lie over it.
    if (1..8).contains(&(stride - len)) && stride >= 8 {
        base.store(b, stride - 8, 8, Limb::ZERO);
    } else if len < stride {
        let all = 0..stride as i32;
        store_be(b, base, len as i32, 0, 8 * (stride - len) as u32, all, &Val::zero(64));
    }
    let mut at = 0;
    for piece in &pieces {
        let bytes = i64::from(piece.width / 8);
        let size = SIZES.into_iter().rev().find(|size| *size >= bytes).unwrap_or(8);
        let whole = match piece.limb(0) {
            _ if size <= bytes || at + size > stride => None,
            Limb::Known(k) => Some(Limb::Known(swapped(k, bytes))),
            limb => limb
                .raw()
                .filter(|raw| i64::from(raw.bytes) == bytes && (raw.exact || at + size <= len))
                .map(|raw| Limb::new(raw.value, u64::MAX)),
        };
        match whole {
            Some(limb) => base.store(b, at, size, limb),
            None => {
                let end = (at + bytes) as i32;
                store_be(b, base, at as i32, 0, piece.width, at as i32..end, piece);
            }
        }
        at += bytes;
    }
}

/// At most eight bytes of values as a little-endian word, zeros behind them, if they are known or were read from
/// memory and need not be swapped.
fn word(b: &mut FunctionBuilder<'_>, pieces: &[Val]) -> Option<Limb> {
    let mut at = 0;
    let mut limbs: SmallVec<[(Limb, u32, u32); 8]> = SmallVec::new();
    for piece in pieces {
        let (width, limb) = (piece.width, piece.limb(0));
        if at + width > 64 {
            return None;
        }
        limbs.push(match limb {
            Limb::Known(k) => (Limb::Known(swapped(k, i64::from(width / 8))), 0, at),
            limb => {
                let raw = limb.raw().filter(|raw| 8 * raw.bytes == width)?;
                match raw.exact {
                    true => (Limb::new(raw.value, ones(width)), 0, at),
                    // Moved to the top, what lies above them falls off.
                    false => (Limb::new(raw.value, u64::MAX), 64 - width, at),
                }
            }
        });
        at += width;
    }
    let mut word = Limb::ZERO;
    for (limb, above, at) in limbs {
        let limb = match above {
            0 => limb.shl(b, at),
            _ => limb.shl(b, above).shr(b, above - at),
        };
        word = word.or(b, limb);
    }
    Some(word)
}

/// Two values as one, the first in the upper bits, if that is known or is a single load.
fn side_by_side(b: &mut FunctionBuilder<'_>, first: &Val, then: &Val) -> Option<Val> {
    let width = first.width + then.width;
    if width > 64 {
        return None;
    }
    if let (Limb::Known(high), Limb::Known(low)) = (first.limb(0), then.limb(0)) {
        let mut both = Val::zero(width);
        both.limbs[0] = Limb::Known(high << then.width | low);
        return Some(both);
    }
    let (high, low) = (first.limb(0).loaded(b)?, then.limb(0).loaded(b)?);
    let size = i64::from(high.bytes);
    let right = high.bytes == low.bytes
        && first.width == 8 * high.bytes
        && then.width == first.width
        && high.address == low.address
        && high.flags == low.flags
        && i64::from(high.at) + size == i64::from(low.at)
        && matches!(size, 2 | 4);
    if !right {
        return None;
    }
    let base = Base { address: high.address, offset: 0, flags: high.flags };
    let raw = base.load(b, high.at.into(), 2 * size).value(b);
    let bytes = 2 * high.bytes;
    let swapped = b.ins().bswap(raw);
    let limb = Limb::new(swapped, u64::MAX).shr(b, 64 - width);
    let mut both = Val::zero(width);
    both.limbs[0] = limb.read_from(Raw { value: raw, bytes, exact: true });
    Some(both)
}

/// Copies a constant number of bytes; the two runs must not overlap.
pub fn copy_bytes(
    b: &mut FunctionBuilder<'_>,
    from: impl Into<Base>,
    from_offset: i32,
    to: impl Into<Base>,
    to_offset: i32,
    bytes: u32,
) {
    let (from, to, bytes) = (from.into(), to.into(), i64::from(bytes));
    let (from_offset, to_offset) = (i64::from(from_offset), i64::from(to_offset));
    let Some(largest) = SIZES.into_iter().find(|s| *s <= bytes) else { return };
    let mut at = 0;
    while at < bytes {
        // The last access may overlap the one before it.
        let rest = bytes - at;
        let size = SIZES.into_iter().rev().find(|s| *s >= rest).unwrap_or(8).min(largest);
        let start = at.min(bytes - size);
        let limb = from.load(b, from_offset + start, size);
        to.store(b, to_offset + start, size, limb);
        at = start + size;
    }
}

/// A value of `width` bits stored by [`store_words`] (or by Rust, with zeros above the width).
pub fn load_words(
    b: &mut FunctionBuilder<'_>,
    base: impl Into<Base>,
    offset: i32,
    width: u32,
) -> Val {
    let base = base.into();
    let words: SmallVec<[Value; 2]> = (0..limbs_for(width) as i64)
        .map(|i| base.load(b, i64::from(offset) + 8 * i, 8).value(b))
        .collect();
    Val::from_limbs(width, &words)
}

/// Writes the limbs, least significant first, 8 bytes each.
pub fn store_words(b: &mut FunctionBuilder<'_>, base: impl Into<Base>, offset: i32, val: &Val) {
    let base = base.into();
    for (i, limb) in val.limbs.iter().enumerate() {
        base.store(b, i64::from(offset) + 8 * i as i64, 8, *limb);
    }
}
