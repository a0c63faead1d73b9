//! Hash and checksum functions, in their plainest form.
//!
//! Checked by the check values of the CRC catalogue (the string `123456789`) and RFC 1071 §3.

use ir::{Bits, HashAlgorithm};

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
