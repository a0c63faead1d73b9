//! Hash and checksum functions, in their plainest form.
//!
//! Checked by the check values of the CRC catalogue (the string `123456789`) and RFC 1071 §3.

use ir::{Bits, Crc, HashAlgorithm};

/// The table of a reflected CRC of up to 32 bits.
const fn crc_table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// Polynomials reflected: 0x8005, 0x04c11db7, 0x1edc6f41.
static CRC16: [u32; 256] = crc_table(0xa001);
static CRC32: [u32; 256] = crc_table(0xedb8_8320);
static CRC32C: [u32; 256] = crc_table(0x82f6_3b78);

fn crc(table: &[u32; 256], start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |crc, b| crc >> 8 ^ table[((crc ^ u32::from(*b)) & 0xff) as usize])
}

/// A CRC by its parameters, bit by bit.
fn by_parameters(crc: Crc, bytes: &[u8]) -> u32 {
    let top = 1 << (crc.width - 1);
    let mut register = crc.init;
    for byte in bytes {
        let byte = if crc.reflect_in { byte.reverse_bits() } else { *byte };
        register ^= u32::from(byte) << (crc.width - 8);
        for _ in 0..8 {
            let out = register & top != 0;
            register = register << 1 & (top << 1).wrapping_sub(1);
            if out {
                register ^= crc.polynomial;
            }
        }
    }
    let register =
        if crc.reflect_out { register.reverse_bits() >> (32 - crc.width) } else { register };
    register ^ crc.xor_out
}

/// CRC-32C of several runs of bytes, one after the other.
pub(crate) fn crc32c(runs: &[&[u8]]) -> u32 {
    !runs.iter().fold(u32::MAX, |state, bytes| crc(&CRC32C, state, bytes))
}

/// Ones' complement sum of 16-bit words (RFC 1071) over runs of bytes, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
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
            self.sum += u64::from(*first);
            self.odd = false;
            bytes = rest;
        }
        let (words, rest) = bytes.as_chunks::<2>();
        self.sum += words.iter().map(|w| u64::from(u16::from_be_bytes(*w))).sum::<u64>();
        if let [last] = rest {
            self.sum += u64::from(*last) << 8;
            self.odd = true;
        }
    }

    /// The sum, folded to 16 bits.
    pub(crate) fn fold(self) -> u16 {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }
}

/// RFC 1624, equation 3, for many words at once: `!(!old + Σ(!before) + Σ(after))`.
///
/// `before` and `after` have the same even length.
pub(crate) fn adjust(old: u16, before: &[u8], after: &[u8]) -> u16 {
    let mut sum = Sum { sum: u64::from(!old), odd: false };
    sum.add(after);
    let words = before.as_chunks::<2>().0;
    sum.sum += words.iter().map(|w| u64::from(!u16::from_be_bytes(*w))).sum::<u64>();
    !sum.fold()
}

/// A hash of a bit string, which is padded with zero bits to whole bytes.
pub(crate) fn hash(algorithm: HashAlgorithm, bytes: &[u8], bits: usize) -> Bits {
    let word = |value: u32, width| Bits::from_u128(u128::from(value), width);
    match algorithm {
        HashAlgorithm::Identity => Bits::extract(bytes, 0, u32::try_from(bits).unwrap_or(u32::MAX)),
        HashAlgorithm::Crc16 => word(crc(&CRC16, 0, bytes), 16),
        HashAlgorithm::Crc32 => word(!crc(&CRC32, u32::MAX, bytes), 32),
        HashAlgorithm::Crc32c => word(crc32c(&[bytes]), 32),
        HashAlgorithm::Crc(crc) => word(by_parameters(crc, bytes), crc.width),
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
    fn known_vectors() {
        let check = b"123456789";
        assert_eq!(of(HashAlgorithm::Crc16, check), 0xbb3d);
        assert_eq!(of(HashAlgorithm::Crc32, check), 0xcbf4_3926);
        assert_eq!(of(HashAlgorithm::Crc32c, check), 0xe306_9283);
        assert_eq!(crc32c(&[&check[..4], &[], &check[4..]]), 0xe306_9283);
        // RFC 3720 §B.4: 32 bytes of zeros.
        assert_eq!(of(HashAlgorithm::Crc32c, &[0; 32]), 0x8a91_36aa);
        // RFC 1071 §3: the sum is ddf2.
        let rfc1071 = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(of(HashAlgorithm::Csum16, &rfc1071), !0xddf2 & 0xffff);
        assert_eq!(of(HashAlgorithm::Xor16, &rfc1071), 0x0001 ^ 0xf203 ^ 0xf4f5 ^ 0xf6f7);
        assert_eq!(of(HashAlgorithm::Xor16, &[1, 2, 3]), 0x0102 ^ 0x0300);
        assert_eq!(of(HashAlgorithm::Identity, &[1, 2, 3]), 0x010203);
        assert_eq!(hash(HashAlgorithm::Identity, &[0xff, 0xf8], 13), Bits::ones(13));
        for algorithm in [HashAlgorithm::Crc16, HashAlgorithm::Crc32, HashAlgorithm::Crc32c] {
            assert_eq!(of(algorithm, &[]), 0);
        }
    }

    /// Check values of the catalogue of parametrised CRC algorithms (reveng): width, polynomial, init,
    /// reflected in and out, final XOR, and the CRC of `123456789`.
    #[test]
    fn crcs_by_their_parameters_have_their_published_check_values() {
        let published = [
            ("CRC-8/SMBUS", 8, 0x07, 0x00, false, false, 0x00, 0xf4),
            ("CRC-8/ROHC", 8, 0x07, 0xff, true, true, 0x00, 0xd0),
            ("CRC-12/UMTS", 12, 0x80f, 0x000, false, true, 0x000, 0xdaf),
            ("CRC-16/ARC", 16, 0x8005, 0x0000, true, true, 0x0000, 0xbb3d),
            ("CRC-16/MODBUS", 16, 0x8005, 0xffff, true, true, 0x0000, 0x4b37),
            ("CRC-16/USB", 16, 0x8005, 0xffff, true, true, 0xffff, 0xb4c8),
            ("CRC-16/IBM-3740", 16, 0x1021, 0xffff, false, false, 0x0000, 0x29b1),
            ("CRC-16/XMODEM", 16, 0x1021, 0x0000, false, false, 0x0000, 0x31c3),
            ("CRC-16/KERMIT", 16, 0x1021, 0x0000, true, true, 0x0000, 0x2189),
            ("CRC-16/DNP", 16, 0x3d65, 0x0000, true, true, 0xffff, 0xea82),
            ("CRC-16/RIELLO", 16, 0x1021, 0xb2aa, true, true, 0x0000, 0x63d0),
            ("CRC-24/OPENPGP", 24, 0x864cfb, 0xb704ce, false, false, 0x000000, 0x21cf02),
            ("CRC-32/ISO-HDLC", 32, 0x04c11db7, u32::MAX, true, true, u32::MAX, 0xcbf43926),
            ("CRC-32/BZIP2", 32, 0x04c11db7, u32::MAX, false, false, u32::MAX, 0xfc891918),
            ("CRC-32/ISCSI", 32, 0x1edc6f41, u32::MAX, true, true, u32::MAX, 0xe3069283),
            ("CRC-32/MPEG-2", 32, 0x04c11db7, u32::MAX, false, false, 0, 0x0376e6e7),
            ("CRC-32/CKSUM", 32, 0x04c11db7, 0, false, false, u32::MAX, 0x765e7680),
            ("CRC-32/JAMCRC", 32, 0x04c11db7, u32::MAX, true, true, 0, 0x340bc6d9),
            ("CRC-32/XFER", 32, 0x000000af, 0, false, false, 0, 0xbd0be338),
            ("CRC-32/AIXM", 32, 0x814141ab, 0, false, false, 0, 0x3010bf7f),
        ];
        for (name, width, polynomial, init, reflect_in, reflect_out, xor_out, check) in published {
            let function = 0;
            let crc = Crc { width, polynomial, init, xor_out, reflect_in, reflect_out, function };
            assert_eq!(of(HashAlgorithm::Crc(crc), b"123456789"), check, "{name}");
        }
        let bytes: Vec<u8> = (0..=255).collect();
        for named in [HashAlgorithm::Crc16, HashAlgorithm::Crc32, HashAlgorithm::Crc32c] {
            let crc = HashAlgorithm::Crc(named.crc().unwrap());
            for n in 0..bytes.len() {
                assert_eq!(of(crc, &bytes[..n]), of(named, &bytes[..n]));
            }
        }
    }

    #[test]
    fn a_sum_does_not_depend_on_where_the_runs_are_cut() {
        let bytes: Vec<u8> = (0..=200).collect();
        let mut whole = Sum::default();
        whole.add(&bytes);
        for cut in 0..bytes.len() {
            for second in cut..bytes.len() {
                let mut sum = Sum::default();
                sum.add(&bytes[..cut]);
                sum.add(&bytes[cut..second]);
                sum.add(&bytes[second..]);
                assert_eq!(sum.fold(), whole.fold());
            }
        }
    }

    #[test]
    fn adjusting_is_recomputing() {
        let full = |bytes: &[u8]| {
            let mut sum = Sum::default();
            sum.add(bytes);
            !sum.fold()
        };
        let mut state = 1;
        for _ in 0..10_000 {
            state = mix64(state + 1);
            let before = [state.to_be_bytes(), [0x45, 0, 0, 1, 2, 3, 4, 5]].concat();
            state = mix64(state + 1);
            let after = [state.to_be_bytes(), [0x45, 0, 0, 1, 2, 3, 4, 5]].concat();
            assert_eq!(adjust(full(&before), &before, &after), full(&after));
        }
        // RFC 1624 §4: a header word goes from 0x5555 to 0x3285, HC from 0xdd2f to 0x0000.
        assert_eq!(adjust(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]), 0x0000);
    }
}
