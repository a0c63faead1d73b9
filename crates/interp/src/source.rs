//! The bytes that a parser reads, and writing bit strings.
//!
//! A packet's bytes are a *front*, emitted by an earlier pass (empty for a received frame), followed
//! by a tail of the input. So nothing of a long payload is ever copied, however often the packet is
//! parsed again. Positions are in bits from the front's start.
//!
//! Cost: byte-aligned reads are slice copies; others go byte by byte.

use ir::Bits;

/// The bytes of a packet: its own front, then the input from `tail` on.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) front: Vec<u8>,
    pub(crate) tail: usize,
}

impl Source {
    /// The input itself, whole.
    pub(crate) fn reset(&mut self) {
        self.front.clear();
        self.tail = 0;
    }

    pub(crate) fn copy_from(&mut self, other: &Source) {
        self.front.clone_from(&other.front);
        self.tail = other.tail;
    }

    /// It is the input, whole.
    pub(crate) fn is_input(&self) -> bool {
        self.front.is_empty() && self.tail == 0
    }

    pub(crate) fn parts<'a>(&'a self, input: &'a [u8]) -> Parts<'a> {
        Parts { front: &self.front, tail: input.get(self.tail..).unwrap_or_default() }
    }
}

/// Two runs of bytes, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    front: &'a [u8],
    tail: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.front.len() + self.tail.len()
    }

    /// Length in bits.
    pub(crate) fn bits(&self) -> usize {
        8 * self.len()
    }

    /// A byte; zero past the end.
    fn byte(&self, i: usize) -> u8 {
        match self.front.get(i) {
            Some(byte) => *byte,
            None => self.tail.get(i - self.front.len()).copied().unwrap_or(0),
        }
    }

    /// Eight bits from bit `at` on; zero past the end.
    fn byte_at_bit(&self, at: usize) -> u8 {
        let (i, shift) = (at / 8, at % 8);
        match shift {
            0 => self.byte(i),
            _ => self.byte(i) << shift | self.byte(i + 1) >> (8 - shift),
        }
    }

    /// What is left from byte `at` on, in two runs.
    pub(crate) fn rest(&self, at: usize) -> (&'a [u8], &'a [u8]) {
        let front = self.front.get(at..).unwrap_or_default();
        let in_tail = at.saturating_sub(self.front.len());
        (front, self.tail.get(in_tail..).unwrap_or_default())
    }

    /// Copies `bits` bits from bit `at` on to the start of `out`, which is long enough; bits past
    /// the end are zero.
    pub(crate) fn copy(&self, at: usize, bits: usize, out: &mut [u8]) {
        let bytes = bits.div_ceil(8);
        let start = at / 8;
        if at.is_multiple_of(8)
            && start >= self.front.len()
            && let Some(run) =
                self.tail.get(start - self.front.len()..start - self.front.len() + bytes)
        {
            out[..bytes].copy_from_slice(run);
            return;
        }
        for (i, byte) in out[..bytes].iter_mut().enumerate() {
            *byte = self.byte_at_bit(at + 8 * i);
        }
    }

    /// The value of `width` bits from bit `at` on; bits past the end are zero.
    pub(crate) fn read(&self, at: usize, width: u32) -> Bits {
        let front_bits = 8 * self.front.len();
        if at >= front_bits {
            return Bits::extract(self.tail, at - front_bits, width);
        }
        let mut run = vec![0; (width as usize).div_ceil(8)];
        self.copy(at, width as usize, &mut run);
        Bits::extract(&run, 0, width)
    }
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

    /// Appends the first `bits` bits of `bytes`.
    pub(crate) fn bytes(&mut self, bytes: &[u8], bits: usize) {
        if self.bits.is_multiple_of(8) && bits.is_multiple_of(8) {
            self.out.extend_from_slice(&bytes[..bits / 8]);
            self.bits += bits;
        } else {
            self.append(bits, |i| bytes[i]);
        }
    }

    /// Appends `bits` bits of `parts` from bit `at` on.
    pub(crate) fn parts(&mut self, parts: &Parts<'_>, at: usize, bits: usize) {
        self.append(bits, |i| parts.byte_at_bit(at + 8 * i));
    }

    /// Appends `bits` bits of `bytes` from bit `at` on.
    pub(crate) fn bits_of(&mut self, bytes: &[u8], at: usize, bits: usize) {
        let bytes = &bytes[at / 8..];
        let byte = |i: usize| bytes.get(i).copied().unwrap_or(0);
        match at % 8 {
            0 => self.bytes(bytes, bits),
            shift => self.append(bits, |i| byte(i) << shift | byte(i + 1) >> (8 - shift)),
        }
    }

    /// Appends zeros.
    pub(crate) fn zeros(&mut self, bits: usize) {
        self.bits += bits;
        self.out.resize(self.bits.div_ceil(8), 0);
    }

    /// Appends a value.
    pub(crate) fn value(&mut self, value: &Bits) {
        let width = value.width() as usize;
        if self.bits.is_multiple_of(8) && width.is_multiple_of(8) && width <= 64 {
            let bytes = value.low_u64().to_be_bytes();
            self.out.extend_from_slice(&bytes[8 - width / 8..]);
            self.bits += width;
            return;
        }
        let start = self.bits;
        self.bits += width;
        self.out.resize(self.bits.div_ceil(8), 0);
        value.deposit(self.out, start);
    }

    fn append(&mut self, bits: usize, byte: impl Fn(usize) -> u8) {
        let shift = self.bits % 8;
        for i in 0..bits.div_ceil(8) {
            let n = (bits - 8 * i).min(8);
            let b = byte(i) & (0xff_u32 << (8 - n)) as u8;
            match self.out.last_mut() {
                Some(last) if shift != 0 => {
                    *last |= b >> shift;
                    if n > 8 - shift {
                        self.out.push(b << (8 - shift));
                    }
                }
                _ => self.out.push(b),
            }
        }
        self.bits += bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit(bytes: &[u8], i: usize) -> bool {
        bytes.get(i / 8).is_some_and(|b| b >> (7 - i % 8) & 1 == 1)
    }

    #[test]
    fn reads_across_the_seam_at_any_bit() {
        let input = [0xff, 0x12, 0x34, 0x56, 0x78, 0x9a];
        let whole = [0xab, 0xcd, 0xef, 0x34, 0x56, 0x78, 0x9a];
        let source = Source { front: vec![0xab, 0xcd, 0xef], tail: 2 };
        let parts = source.parts(&input);
        assert_eq!(parts.bits(), 56);
        for at in 0..60 {
            for width in 0..70u32 {
                assert_eq!(parts.read(at, width), Bits::extract(&whole, at, width), "{at} {width}");
                let mut out = [0; 9];
                parts.copy(at, width as usize, &mut out);
                for i in 0..width as usize {
                    assert_eq!(bit(&out, i), bit(&whole, at + i));
                }
            }
        }
        assert_eq!(parts.rest(2), (&[0xef][..], &input[2..]));
        assert_eq!(parts.rest(5), (&[][..], &input[4..]));
        assert_eq!(parts.rest(9), (&[][..], &[][..]));
    }

    #[test]
    fn writes_bit_strings_of_any_length_at_any_bit() {
        let bytes = [0xa5, 0x3c, 0xff, 0x01];
        for first in 0..20usize {
            for second in 0..30usize {
                let mut out = vec![9];
                let mut writer = Writer::new(&mut out);
                writer.bytes(&bytes, first);
                writer.parts(&Parts { front: &bytes[..1], tail: &bytes[1..] }, 2, second);
                writer.value(&Bits::from_u128(0x155, 9));
                assert_eq!(writer.bits(), first + second + 9);
                assert_eq!(out.len(), (first + second + 9).div_ceil(8));
                for i in 0..8 * out.len() {
                    let expected = if i < first {
                        bit(&bytes, i)
                    } else if i < first + second {
                        bit(&bytes, 2 + i - first)
                    } else {
                        let i = i - first - second;
                        i < 9 && 0x155 >> (8 - i) & 1 == 1
                    };
                    assert_eq!(bit(&out, i), expected, "{first} {second} {i}");
                }
            }
        }
    }
}
