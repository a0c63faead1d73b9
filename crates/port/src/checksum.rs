//! Transport checksums of whole frames, for those that owe one ([`Offload`](crate::Offload)).
//!
//! The Internet checksum (RFC 1071) over a range, its pseudo-headers (RFC 9293 §3.1, RFC 8200
//! §8.1), and CRC32c (RFC 9260 appendix A), which SCTP uses instead.

/// Adds `bytes` to a ones' complement sum. Pairs count from the first byte of `bytes`, so all
/// pieces but the last must have an even length.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    let mut total = sum;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        total += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    total + u64::from(u32::from_be_bytes(last))
}

/// Folds a sum to 16 bits and complements it.
pub fn finish(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// As [`finish`], but never 0, which UDP reads as "no checksum"; the other spelling of zero means
/// the same to TCP.
pub fn finish_nonzero(sum: u64) -> u16 {
    match finish(sum) {
        0 => 0xffff,
        sum => sum,
    }
}

/// CRC32c of `bytes`, as SCTP puts it into its header (least significant byte first).
pub fn crc32c<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut crc = !0u32;
    for byte in pieces.into_iter().flatten() {
        crc = CRC32C[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
    }
    !crc
}

const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum, two bytes at a time, as RFC 1071 §1 words it.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        finish(sum)
    }

    #[test]
    fn agrees_with_the_plain_sum_at_every_length() {
        let mut random = crate::prng::Prng::new(1);
        let bytes: Vec<u8> = (0..200).map(|_| random.next_u64() as u8).collect();
        for len in 0..bytes.len() {
            assert_eq!(finish(add(0, &bytes[..len])), plain(&bytes[..len]), "length {len}");
        }
        assert_eq!(finish(add(0, &vec![0xff; 1 << 20])), 0);
        assert_eq!(finish_nonzero(0xffff), 0xffff);
    }

    #[test]
    fn crc32c_of_the_standard_string() {
        assert_eq!(crc32c([b"1234".as_slice(), b"56789"]), 0xe306_9283);
    }
}
