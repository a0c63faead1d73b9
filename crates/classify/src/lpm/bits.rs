//! Fields as numbers, and what all indices of prefixes share.

use crate::rule::Field;

/// In the place of a prefix's number: none. The slot of what a miss answers.
pub(super) const NONE: u32 = 0;
/// Keys taken through a phase together.
pub(super) const BURST: usize = 32;

/// A field of at most 32 bits as the leading bits of a number.
#[inline(always)]
pub(super) fn narrow_of(key: &[u8], field: Field) -> u32 {
    let bytes = &key[field.offset..field.offset + field.len];
    match *bytes {
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
        _ => top_u32(bits_of(key, field)),
    }
}

/// The item at an index, or the last: something to prefetch. There must be one.
#[inline(always)]
pub(super) fn nearest<T>(items: &[T], index: u32) -> &T {
    &items[(index as usize).min(items.len() - 1)]
}

/// The first 32 bits of a left-aligned number.
#[inline(always)]
pub(super) fn top_u32(bits: u128) -> u32 {
    (bits >> 96) as u32
}

/// The field's bytes as the leading bits of a number.
#[inline(always)]
pub(super) fn bits_of(key: &[u8], field: Field) -> u128 {
    let bytes = &key[field.offset..field.offset + field.len];
    match bytes.len() {
        16 => leading::<16>(bytes),
        4 => leading::<4>(bytes),
        8 => leading::<8>(bytes),
        6 => leading::<6>(bytes),
        2 => leading::<2>(bytes),
        _ => bytes.iter().enumerate().fold(0, |n, (i, &b)| n | u128::from(b) << (120 - 8 * i)),
    }
}

#[inline(always)]
fn leading<const N: usize>(bytes: &[u8]) -> u128 {
    let mut wide = [0; 16];
    wide[..N].copy_from_slice(&bytes[..N]);
    u128::from_be_bytes(wide)
}
