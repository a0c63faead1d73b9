//! Hash functions and Internet checksums over strings of bytes, by tables of bytes or words.
//!
//! A CRC by parameters of a program's own goes bit by bit.
//! Checked by: published check values, and the interpreter.

use ir::{Bits, Crc, HashAlgorithm};
use std::sync::LazyLock;

/// The register of a CRC at the top of a word, so that all widths shift out alike, after one more byte.
fn step(crc: Crc, register: u32, byte: u8) -> u32 {
    let byte = if crc.reflect_in { byte.reverse_bits() } else { byte };
    let (mut register, polynomial) =
        (register ^ u32::from(byte) << 24, crc.polynomial << (32 - crc.width));
    for _ in 0..8 {
        let out = register >> 31 != 0;
        register <<= 1;
        if out {
            register ^= polynomial;
        }
    }
    register
}

fn begun(crc: Crc) -> u32 {
    crc.init << (32 - crc.width)
}

fn ended(crc: Crc, register: u32) -> u32 {
    let register = register >> (32 - crc.width);
    let register = match crc.reflect_out {
        true => register.reverse_bits() >> (32 - crc.width),
        false => register,
    };
    register ^ crc.xor_out
}

/// The register of a CRC whose bytes come in lowest bit first, after each byte and up to seven bytes of zeros behind
/// it (Kounavis and Berry 2005).
#[derive(Debug)]
struct Table {
    crc: Crc,
    of: [[u32; 256]; 8],
}

impl Table {
    /// For a CRC that is reflected on both ends.
    fn new(crc: Crc) -> Table {
        let polynomial = crc.polynomial.reverse_bits() >> (32 - crc.width);
        let mut of = [[0; 256]; 8];
        for (byte, entry) in (0u32..).zip(&mut of[0]) {
            let step = |r: u32, _| if r & 1 == 1 { r >> 1 ^ polynomial } else { r >> 1 };
            *entry = (0..8).fold(byte, step);
        }
        for behind in 1..8 {
            for byte in 0..256 {
                let before = of[behind - 1][byte];
                of[behind][byte] = before >> 8 ^ of[0][(before & 0xff) as usize];
            }
        }
        Table { crc, of }
    }

    fn run(&self, runs: &[&[u8]]) -> u32 {
        let of = &self.of;
        let at = |table: usize, byte: u8| of[table][usize::from(byte)];
        let mut register = self.crc.init.reverse_bits() >> (32 - self.crc.width);
        for run in runs {
            let (words, rest) = run.as_chunks::<8>();
            for w in words {
                let first = register ^ u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
                let f = first.to_le_bytes();
                register = at(7, f[0]) ^ at(6, f[1]) ^ at(5, f[2]) ^ at(4, f[3]);
                register ^= at(3, w[4]) ^ at(2, w[5]) ^ at(1, w[6]) ^ at(0, w[7]);
            }
            for byte in rest {
                register = register >> 8 ^ at(0, register as u8 ^ byte);
            }
        }
        register ^ self.crc.xor_out
    }
}

static CRC16: LazyLock<Option<Table>> =
    LazyLock::new(|| HashAlgorithm::Crc16.crc().map(Table::new));
static CRC32: LazyLock<Option<Table>> =
    LazyLock::new(|| HashAlgorithm::Crc32.crc().map(Table::new));
static CRC32C: LazyLock<Option<Table>> =
    LazyLock::new(|| HashAlgorithm::Crc32c.crc().map(Table::new));

fn by(table: &LazyLock<Option<Table>>, runs: &[&[u8]]) -> u32 {
    table.as_ref().map_or(0, |table| table.run(runs))
}

/// CRC-32C of several runs of bytes, one after the other.
pub(crate) fn crc32c(runs: &[&[u8]]) -> u32 {
    by(&CRC32C, runs)
}

/// Ones' complement sum of 16-bit words (RFC 1071) over runs of bytes, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    /// Of words as this machine reads them.
    sum: u64,
    /// The bytes so far are odd in number.
    odd: bool,
}

impl Sum {
    /// Adds bytes.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        if self.odd
            && let [first, rest @ ..] = bytes
        {
            self.sum += u64::from(u16::from_ne_bytes([0, *first]));
            self.odd = false;
            bytes = rest;
        }
        let (words, rest) = bytes.as_chunks::<4>();
        // Each adds less than 2^32, and a packet has fewer than 2^32 of them.
        self.sum += words.iter().map(|w| u64::from(u32::from_ne_bytes(*w))).sum::<u64>();
        let (words, rest) = rest.as_chunks::<2>();
        self.sum += words.iter().map(|w| u64::from(u16::from_ne_bytes(*w))).sum::<u64>();
        if let [last] = rest {
            self.sum += u64::from(u16::from_ne_bytes([*last, 0]));
            self.odd = true;
        }
    }

    /// The sum, folded to 16 bits.
    pub(crate) fn fold(self) -> u16 {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::from_be_bytes((sum as u16).to_ne_bytes())
    }
}

/// RFC 1624, equation 3, for many words at once. `before` and `after` have the same even length.
pub(crate) fn adjust(old: u16, before: &[u8], after: &[u8]) -> u16 {
    let mut sum = u64::from(!old);
    let word = |w: &[u8; 2]| u64::from(u16::from_be_bytes(*w));
    sum += after.as_chunks::<2>().0.iter().map(word).sum::<u64>();
    sum += before.as_chunks::<2>().0.iter().map(|w| 0xffff - word(w)).sum::<u64>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A hash of a bit string, which is padded with zero bits to whole bytes.
pub(crate) fn hash(algorithm: HashAlgorithm, bytes: &[u8], bits: usize) -> Bits {
    let word = |value: u32, width| Bits::from_u128(u128::from(value), width);
    match algorithm {
        HashAlgorithm::Identity => Bits::extract(bytes, 0, u32::try_from(bits).unwrap_or(u32::MAX)),
        HashAlgorithm::Crc16 => word(by(&CRC16, &[bytes]), 16),
        HashAlgorithm::Crc32 => word(by(&CRC32, &[bytes]), 32),
        HashAlgorithm::Crc32c => word(by(&CRC32C, &[bytes]), 32),
        HashAlgorithm::Crc(crc) => {
            let register = bytes.iter().fold(begun(crc), |r, byte| step(crc, r, *byte));
            word(ended(crc, register), crc.width)
        }
        HashAlgorithm::Csum16 => {
            let mut sum = Sum::default();
            sum.add(bytes);
            word(u32::from(!sum.fold()), 16)
        }
        HashAlgorithm::Xor16 => {
            let (words, rest) = bytes.as_chunks::<2>();
            let last = rest.first().map_or(0, |b| u16::from(*b) << 8);
            let all = words.iter().fold(last, |xor, w| xor ^ u16::from_be_bytes(*w));
            word(u32::from(all), 16)
        }
    }
}

/// A bijection of 64-bit numbers that scatters them well (the finalizer of splitmix64).
pub(crate) fn mix64(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(algorithm: HashAlgorithm, bytes: &[u8]) -> u32 {
        hash(algorithm, bytes, 8 * bytes.len()).low_u32()
    }

    #[test]
    fn published_check_values() {
        let check = b"123456789";
        assert_eq!(of(HashAlgorithm::Crc16, check), 0xbb3d);
        assert_eq!(of(HashAlgorithm::Crc32, check), 0xcbf4_3926);
        assert_eq!(of(HashAlgorithm::Crc32c, check), 0xe306_9283);
        assert_eq!(crc32c(&[&check[..4], &[], &check[4..]]), 0xe306_9283);
        for (width, polynomial, init, reflect_in, reflect_out, xor_out, value) in [
            (8, 0x07, 0x00, false, false, 0x00, 0xf4),
            (8, 0x07, 0xff, true, true, 0x00, 0xd0),
            (12, 0x80f, 0x000, false, true, 0x000, 0xdaf),
            (16, 0x1021, 0xffff, false, false, 0x0000, 0x29b1),
            (16, 0x1021, 0xb2aa, true, true, 0x0000, 0x63d0),
            (24, 0x0086_4cfb, 0x00b7_04ce, false, false, 0, 0x0021_cf02),
            (32, 0x04c1_1db7, u32::MAX, false, false, u32::MAX, 0xfc89_1918),
        ] {
            let function = 0;
            let crc = Crc { width, polynomial, init, xor_out, reflect_in, reflect_out, function };
            assert_eq!(of(HashAlgorithm::Crc(crc), check), value, "{crc:?}");
        }
        // RFC 1071 §3: the sum is ddf2.
        let rfc1071 = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(of(HashAlgorithm::Csum16, &rfc1071), !0xddf2 & 0xffff);
        assert_eq!(of(HashAlgorithm::Xor16, &[1, 2, 3]), 0x0102 ^ 0x0300);
        // RFC 1624 §4.
        assert_eq!(adjust(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]), 0x0000);
    }

    #[test]
    fn a_crc_does_not_depend_on_where_the_runs_are_cut() {
        let bytes: Vec<u8> = (0u8..40).map(|i| i.wrapping_mul(37)).collect();
        let whole = crc32c(&[&bytes]);
        for cut in 0..bytes.len() {
            assert_eq!(crc32c(&[&bytes[..cut], &bytes[cut..]]), whole);
            for crc in [HashAlgorithm::Crc16, HashAlgorithm::Crc32, HashAlgorithm::Crc32c] {
                let by_bits = HashAlgorithm::Crc(crc.crc().unwrap());
                assert_eq!(of(crc, &bytes[cut..]), of(by_bits, &bytes[cut..]));
            }
        }
    }

    #[test]
    fn a_sum_does_not_depend_on_where_the_runs_are_cut() {
        let bytes: Vec<u8> = (0..=100).collect();
        let mut whole = Sum::default();
        whole.add(&bytes);
        for cut in 0..bytes.len() {
            let mut sum = Sum::default();
            sum.add(&bytes[..cut]);
            sum.add(&bytes[cut..]);
            assert_eq!(sum.fold(), whole.fold());
        }
    }
}
