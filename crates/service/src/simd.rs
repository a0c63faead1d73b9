//! What the processor does for tables: lines asked for before they are needed, sixteen octets compared at once.
//!
//! `unsafe` here: instructions that every processor of the target has.

pub(crate) use classify::prefetch;

/// Which of sixteen octets equal `octet`, as bits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn equal(octets: &[u8; 16], octet: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let [low, high] = octets.as_chunks::<8>().0 else { return 0 };
    let [low, high] = [low, high].map(|half| i64::from_le_bytes(*half));
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let equal = _mm_cmpeq_epi8(_mm_set_epi64x(high, low), _mm_set1_epi8(octet as i8));
        _mm_movemask_epi8(equal) as u32
    }
}

/// Which of sixteen octets equal `octet`, as bits.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use plain as equal;

/// The same in its plainest form, of which no compiler makes a loop.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
pub(crate) fn plain(octets: &[u8; 16], octet: u8) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let half = |half: &[u8; 8]| {
        let differ = u64::from_le_bytes(*half) ^ u64::from_le_bytes([octet; 8]);
        // The highest bit of each octet that is zero, exactly: no carry leaves an octet.
        let zero = !(((differ & LOW) + LOW) | differ | LOW);
        // The eight bits side by side.
        ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    let [low, high] = octets.as_chunks::<8>().0 else { return 0 };
    half(low) | half(high) << 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn equal_octets_are_found_wherever_they_lie() {
        let mut random = Random(2);
        for _ in 0..100_000 {
            let octets: [u8; 16] =
                std::array::from_fn(|_| [0, 1, 127, 128, 129, 255][random.below(6) as usize]);
            let octet = octets[random.below(16) as usize] ^ random.below(2) as u8;
            let plain = (0..16).map(|n| u32::from(octets[n] == octet) << n).sum::<u32>();
            assert_eq!(super::plain(&octets, octet), plain, "{octets:?} {octet}");
            assert_eq!(equal(&octets, octet), plain, "{octets:?} {octet}");
        }
    }
}
