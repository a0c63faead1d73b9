//! Masked hashing and comparing of keys, without copying them.
//!
//! A mask becomes a list of [`Window`]s: the eight-byte words of the key in which it has bits. A
//! key of 150 bytes of which a mask demands three fields is thus read in two or three words, and
//! what a group of rules stores are these words alone.
//!
//! Invariants: windows of a mask never count a key byte twice; a window lies inside the key, except
//! that a key of less than eight bytes is read as one word padded with zeros.
//! Cost: one load, one and, one multiply per window.
//! Checked by: unit tests below, against the masked bytes.

/// Eight bytes of the key and the bits of them that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) offset: u32,
    pub(crate) mask: u64,
}

/// The windows through which a key must be seen under this mask.
pub(crate) fn windows(mask: &[u8]) -> Box<[Window]> {
    let mut found = Vec::new();
    let mut next = 0;
    while next < mask.len() {
        if mask[next] == 0 {
            next += 1;
            continue;
        }
        let offset = next.min(mask.len().saturating_sub(8));
        let mut word = load(mask, offset);
        word &= u64::MAX << (8 * (next - offset));
        found.push(Window { offset: offset as u32, mask: word });
        next = offset + 8;
    }
    found.into()
}

/// Eight bytes from `offset`, little-endian; zeros beyond the end.
#[inline]
pub(crate) fn load(key: &[u8], offset: usize) -> u64 {
    match key.get(offset..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(word) => u64::from_le_bytes(*word),
        None => load_short(key, offset),
    }
}

#[cold]
fn load_short(key: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    let rest = key.get(offset..).unwrap_or_default();
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// The key's word in a window.
#[inline]
pub(crate) fn word(key: &[u8], window: &Window) -> u64 {
    load(key, window.offset as usize) & window.mask
}

/// Hash of the masked key.
#[inline]
pub(crate) fn hash_key(seed: u64, windows: &[Window], key: &[u8]) -> u64 {
    finish(windows.iter().fold(start(seed), |h, w| mix(h, word(key, w))))
}

/// Hash of stored words; equal to [`hash_key`] of a key that has them.
#[inline]
pub(crate) fn hash_words(seed: u64, words: &[u64]) -> u64 {
    finish(words.iter().fold(start(seed), |h, &w| mix(h, w)))
}

/// The masked key as words; one load and one `and` each.
#[inline(always)]
pub(crate) fn gather<const W: usize>(windows: &[Window; W], key: &[u8]) -> [u64; W] {
    std::array::from_fn(|i| word(key, &windows[i]))
}

/// Whether the masked key equals the stored words.
#[inline]
pub(crate) fn equals(windows: &[Window], words: &[u64], key: &[u8]) -> bool {
    windows.iter().zip(words).fold(0, |diff, (w, &stored)| diff | (word(key, w) ^ stored)) == 0
}

/// Writes stored words back to the bytes they came from.
pub(crate) fn unload(windows: &[Window], words: &[u64], value: &mut [u8]) {
    for (window, word) in windows.iter().zip(words) {
        let offset = window.offset as usize;
        for (byte, part) in value[offset..].iter_mut().zip(word.to_le_bytes()) {
            *byte |= part;
        }
    }
}

#[inline]
fn start(seed: u64) -> u64 {
    seed ^ 0x243f_6a88_85a3_08d3
}

/// Multiplies to 128 bits and folds the halves: every input bit reaches high and low output bits.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn mix(h: u64, word: u64) -> u64 {
    fold(h ^ word, 0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

#[inline]
fn finish(h: u64) -> u64 {
    fold(h ^ 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1)
}

/// The bits of a word under a mask, side by side.
#[inline(always)]
pub(crate) fn extract(word: u64, mask: u64) -> u64 {
    let (mut bits, mut left, mut at) = (0, mask, 0);
    while left != 0 {
        bits |= (word >> left.trailing_zeros() & 1) << at;
        left &= left - 1;
        at += 1;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_see_each_masked_byte_once() {
        for len in 0..40 {
            for gap in 0..=len {
                for width in 0..=len - gap {
                    let mut mask = vec![0u8; len];
                    mask[gap..gap + width].fill(0x5a);
                    if len > 1 {
                        mask[len - 1] |= 1;
                    }
                    let windows = windows(&mask);
                    let key: Vec<u8> = (0..len as u8).map(|b| b.wrapping_mul(37) ^ 0xc3).collect();
                    let words: Vec<u64> = windows.iter().map(|w| word(&key, w)).collect();
                    let masked: Vec<u8> = key.iter().zip(&mask).map(|(k, m)| k & m).collect();
                    let mut back = vec![0; len];
                    unload(&windows, &words, &mut back);
                    assert_eq!(back, masked);
                    let bits: u32 = mask.iter().map(|m| m.count_ones()).sum();
                    assert_eq!(bits, windows.iter().map(|w| w.mask.count_ones()).sum::<u32>());
                    assert!(equals(&windows, &words, &masked));
                    assert_eq!(hash_key(7, &windows, &key), hash_words(7, &words));
                }
            }
        }
    }

    #[test]
    fn hashes_spread_over_high_and_low_bits() {
        let windows = windows(&[0xff; 8]);
        let (mut low, mut high) = (std::collections::HashSet::new(), [0; 128]);
        for n in 0..4096u64 {
            let h = hash_key(0, &windows, &(n << 24).to_be_bytes());
            low.insert(h & 0xffff);
            high[(h >> 57) as usize] += 1;
        }
        assert!(low.len() > 3800, "{}", low.len());
        assert!(high.iter().all(|&n| n < 80), "{high:?}");
    }
}
