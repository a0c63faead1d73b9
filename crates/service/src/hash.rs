//! The folded product: a fast mix of two words, whose every bit depends on all of theirs.

/// The two halves of a product, folded.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
