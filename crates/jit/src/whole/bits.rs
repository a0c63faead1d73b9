//! Bit strings in bytes: appended, and read at any bit.

use ir::Bits;

/// Eight bits from bit `at` on; zero past the end.
fn byte_at(bytes: &[u8], at: usize) -> u8 {
    let byte = |i: usize| bytes.get(i).copied().unwrap_or(0);
    match at % 8 {
        0 => byte(at / 8),
        shift => byte(at / 8) << shift | byte(at / 8 + 1) >> (8 - shift),
    }
}

/// Copies `bits` bits from bit `at` on to the start of `out`, which is long enough, in whole bytes.
pub(crate) fn copy(bytes: &[u8], at: usize, bits: usize, out: &mut [u8]) {
    let n = bits.div_ceil(8);
    match bytes.get(at / 8..at / 8 + n) {
        Some(run) if at.is_multiple_of(8) => out[..n].copy_from_slice(run),
        _ => out[..n].iter_mut().enumerate().for_each(|(i, b)| *b = byte_at(bytes, at + 8 * i)),
    }
}

/// At most 64 bits from bit `at` on; zero past the end.
pub(crate) fn peek(bytes: &[u8], at: usize, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let mut word = 0u128;
    for i in 0..9 {
        word = word << 8 | u128::from(bytes.get(at / 8 + i).copied().unwrap_or(0));
    }
    let value = word >> (72 - at as u32 % 8 - width);
    value as u64 & u64::MAX >> (64 - width)
}

/// Appends bit strings to bytes. The last byte is padded with zero bits.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    bits: usize,
}

impl<'a> Writer<'a> {
    /// Writes to `out`, which it empties first.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        out.clear();
        Writer { out, bits: 0 }
    }

    /// Bits written.
    pub(crate) fn bits(&self) -> usize {
        self.bits
    }

    /// Appends `bits` bits of `bytes` from bit `at` on.
    pub(crate) fn bits_of(&mut self, bytes: &[u8], at: usize, bits: usize) {
        if self.bits.is_multiple_of(8)
            && at.is_multiple_of(8)
            && bits.is_multiple_of(8)
            && let Some(run) = bytes.get(at / 8..at / 8 + bits / 8)
        {
            self.out.extend_from_slice(run);
            self.bits += bits;
            return;
        }
        let shift = self.bits % 8;
        for i in 0..bits.div_ceil(8) {
            let left = bits - 8 * i;
            let mut byte = byte_at(bytes, at + 8 * i);
            if left < 8 {
                byte &= 0xff << (8 - left);
            }
            if shift == 0 {
                self.out.push(byte);
                continue;
            }
            if let Some(last) = self.out.last_mut() {
                *last |= byte >> shift;
            }
            if left > 8 - shift {
                self.out.push(byte << (8 - shift));
            }
        }
        self.bits += bits;
    }

    /// Appends zeros.
    pub(crate) fn zeros(&mut self, bits: usize) {
        self.bits += bits;
        self.out.resize(self.bits.div_ceil(8), 0);
    }

    /// Appends a value.
    pub(crate) fn value(&mut self, value: &Bits) {
        let width = value.width() as usize;
        let bytes = value.to_be_bytes();
        self.bits_of(&bytes, 8 * bytes.len() - width, width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_any_bits_follow_one_another() {
        let bytes: Vec<u8> = (0..40).map(|i| (i * 37 + 11) as u8).collect();
        let bit = |bytes: &[u8], i: usize| bytes[i / 8] >> (7 - i % 8) & 1;
        for first in 0..20 {
            for from in 0..17 {
                for n in 0..70 {
                    let mut out = Vec::new();
                    let mut writer = Writer::new(&mut out);
                    writer.bits_of(&bytes, 3, first);
                    writer.bits_of(&bytes, from, n);
                    assert_eq!(writer.bits(), first + n);
                    assert_eq!(out.len(), (first + n).div_ceil(8));
                    assert!((0..first).all(|i| bit(&out, i) == bit(&bytes, 3 + i)));
                    assert!((0..n).all(|i| bit(&out, first + i) == bit(&bytes, from + i)));
                    assert!((first + n..8 * out.len()).all(|i| bit(&out, i) == 0));
                    if n <= 64 {
                        let value = Bits::extract(&bytes, from, n as u32);
                        assert_eq!(peek(&bytes, from, n as u32), value.low_u64());
                    }
                }
            }
        }
        assert_eq!(peek(&[0xff], 4, 16), 0xf000);
        assert_eq!(peek(&[0xff], 800, 64), 0);
    }
}
