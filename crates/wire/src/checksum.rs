//! The Internet checksum: full (RFC 1071), over pseudo-headers, and incremental (RFC 1624).
//!
//! [`Sum`] gathers a ones'-complement sum over any sequence of pieces. Words are added as they lie
//! in memory, 32 octets a turn in independent lanes, and folded once at the end, where the byte
//! order is put right (RFC 1071 §2(B)). [`Delta`] gathers the changes of fields that a checksum
//! covers and applies them to it, by RFC 1624 equation 3: `HC' = ~(~HC + ~m + m')`.
//!
//! Zero has two forms in ones' complement. A sum over data that is not all zero never folds to
//! +0, so a computed checksum is never 0xffff, and equation 3 keeps that so: an update gives just
//! what a recomputation gives, unless the new data is all zero, which no IP header and no
//! pseudo-header is. UDP alone gives the forms different meanings: 0 says that there is no
//! checksum, and a checksum that computes to 0 is sent as 0xffff (RFC 768); see [`udp`] and
//! [`Delta::apply_udp`].
//!
//! Cost: a full sum reads each octet once, a vector of them at a time where they are many; an
//! update is a few additions.
//! Checked by: a sum over single 16-bit words, and updates against recomputation.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::IpProtocol;

/// A ones'-complement sum being gathered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    /// The sum of 16-bit words in big-endian order, not yet folded.
    total: u64,
    /// Whether an odd number of octets has been added, so that the next is the low half of a word.
    odd: bool,
}

impl Sum {
    /// The sum of nothing.
    pub fn new() -> Self {
        Sum::default()
    }

    /// Adds octets that follow the ones added before, whether those were even in number or odd.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let folded = sum_native(bytes).to_be();
        let folded = if self.odd { folded.swap_bytes() } else { folded };
        self.add_total(u64::from(folded));
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// Adds a 16-bit word. Call it at even places only, as with the words of a pseudo-header.
    pub fn add_u16(&mut self, word: u16) {
        self.add_total(u64::from(word));
    }

    /// Adds a 32-bit word, at an even place.
    pub fn add_u32(&mut self, word: u32) {
        self.add_total(u64::from(word >> 16) + u64::from(word & 0xffff));
    }

    fn add_total(&mut self, value: u64) {
        let (total, carry) = self.total.overflowing_add(value);
        self.total = total + u64::from(carry);
    }

    /// The sum folded to 16 bits, not complemented: what a partial checksum holds.
    pub fn fold(self) -> u16 {
        fold(self.total)
    }

    /// The checksum: the folded sum, complemented.
    pub fn finish(self) -> u16 {
        !self.fold()
    }
}

/// Folds to 16 bits by adding the carries back in; zero only if `total` is zero.
fn fold(total: u64) -> u16 {
    let mut total = (total >> 32) + (total & 0xffff_ffff);
    total = (total >> 16) + (total & 0xffff);
    total = (total >> 16) + (total & 0xffff);
    total = (total >> 16) + (total & 0xffff);
    total as u16
}

/// The folded sum of `bytes` as native-endian words; an odd last octet is padded with a zero.
fn sum_native(bytes: &[u8]) -> u16 {
    const LANES: usize = 8;
    let mut total = 0_u64;
    let mut rest = bytes;
    // Lanes pay once there are a few turns of them; a header is shorter.
    if bytes.len() >= LANES * 16 {
        let mut lanes = [0_u64; LANES];
        let (blocks, after) = bytes.as_chunks::<{ LANES * 4 }>();
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                // A lane takes 2³² words, one of each 32 octets, before it could overflow.
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        // Each lane is folded first, so that their sum cannot overflow however full they are.
        total = lanes.iter().map(|lane| u64::from(fold(*lane))).sum();
        rest = after;
    }
    let (words, last) = rest.as_chunks::<4>();
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let mut word = [0; 4];
    for (place, octet) in word.iter_mut().zip(last) {
        *place = *octet;
    }
    fold(total + u64::from(u32::from_ne_bytes(word)))
}

/// The folded sum of `bytes`, not complemented. 0xffff over bytes that hold their own checksum
/// means that it is right.
pub fn sum(bytes: &[u8]) -> u16 {
    sum_native(bytes).to_be()
}

/// The checksum of `bytes` (RFC 1071 §1), with the checksum field among them zero.
pub fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// Sends a computed UDP checksum of 0 as 0xffff, since 0 says that there is none (RFC 768).
pub fn udp(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// The addresses of a pseudo-header (RFC 9293 §3.1 for IPv4, RFC 8200 §8.1 for IPv6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pseudo {
    /// Between IPv4 addresses.
    V4 {
        /// Source.
        src: Ipv4Addr,
        /// Final destination.
        dst: Ipv4Addr,
    },
    /// Between IPv6 addresses.
    V6 {
        /// Source.
        src: Ipv6Addr,
        /// Final destination.
        dst: Ipv6Addr,
    },
}

impl Pseudo {
    /// The sum over the pseudo-header, for an upper-layer packet of `len` octets.
    pub fn sum(&self, protocol: IpProtocol, len: u32) -> Sum {
        let mut sum = Sum::new();
        match self {
            Pseudo::V4 { src, dst } => {
                sum.add_u32(src.to_bits());
                sum.add_u32(dst.to_bits());
            }
            Pseudo::V6 { src, dst } => {
                sum.add_bytes(&src.octets());
                sum.add_bytes(&dst.octets());
            }
        }
        sum.add_u16(u16::from(protocol.0));
        sum.add_u32(len);
        sum
    }

    /// The checksum of `packet`, whose checksum field is zero, under this pseudo-header.
    pub fn checksum(&self, protocol: IpProtocol, packet: &[u8]) -> u16 {
        !self.sum_over(protocol, packet)
    }

    /// The folded sum of the pseudo-header and `packet`; 0xffff if `packet` holds the right
    /// checksum.
    pub fn sum_over(&self, protocol: IpProtocol, packet: &[u8]) -> u16 {
        // An upper-layer packet is at most 2³² - 1 octets (RFC 2675 §2).
        let mut sum = self.sum(protocol, u32::try_from(packet.len()).unwrap_or(u32::MAX));
        sum.add_bytes(packet);
        sum.fold()
    }
}

impl From<(Ipv4Addr, Ipv4Addr)> for Pseudo {
    fn from((src, dst): (Ipv4Addr, Ipv4Addr)) -> Self {
        Pseudo::V4 { src, dst }
    }
}

impl From<(Ipv6Addr, Ipv6Addr)> for Pseudo {
    fn from((src, dst): (Ipv6Addr, Ipv6Addr)) -> Self {
        Pseudo::V6 { src, dst }
    }
}

/// Whether a TCP segment or UDP datagram that fills an IPv4 packet holds the right checksum; `addresses` are the header's,
/// source and destination. The same as [`Pseudo::sum_over`] being 0xffff, for what most packets are, in a third of the
/// instructions where they are short.
#[inline]
pub fn is_right_over_ipv4(addresses: &[u8; 8], protocol: IpProtocol, packet: &[u8]) -> bool {
    /// From so many octets on, lanes pay.
    const LONG: usize = 128;
    let halves = |word: u64| (word & 0xffff_ffff) + (word >> 32);
    let Ok(len) = u16::try_from(packet.len()) else { return false };
    // All words are read the same way round; 0xffff is the same in both.
    let mut total = halves(u64::from_le_bytes(*addresses));
    total += u64::from(u16::from(protocol.0).swap_bytes()) + u64::from(len.swap_bytes());
    let (words, rest) = packet.as_chunks::<8>();
    if packet.len() >= LONG {
        total += u64::from(u16::from_le_bytes(sum_native(packet).to_ne_bytes()));
    } else {
        total += words.iter().map(|word| halves(u64::from_le_bytes(*word))).sum::<u64>();
        if let (Some(last), false) = (packet.last_chunk::<8>(), rest.is_empty()) {
            // What was read before is shifted out.
            total += halves(u64::from_le_bytes(*last) >> (8 * (8 - rest.len())));
        } else if words.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            total += halves(u64::from_le_bytes(word));
        }
    }
    fold(total) == 0xffff
}

/// Changes of fields under a checksum, gathered so that several cost one fold.
///
/// Fields must begin at an even place of what the checksum covers, as all fields of 16 bits and
/// more do; of a narrower field, give the 16-bit word that holds it, before and after.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delta {
    total: u64,
}

impl Delta {
    /// No change.
    pub fn new() -> Self {
        Delta::default()
    }

    /// A 16-bit word changes.
    pub fn u16(&mut self, old: u16, new: u16) -> &mut Self {
        self.total += u64::from(!old) + u64::from(new);
        self
    }

    /// A 32-bit word changes.
    pub fn u32(&mut self, old: u32, new: u32) -> &mut Self {
        self.u16((old >> 16) as u16, (new >> 16) as u16).u16(old as u16, new as u16)
    }

    /// A 48-bit word, the low bits of a `u64`, changes.
    pub fn u48(&mut self, old: u64, new: u64) -> &mut Self {
        self.u16((old >> 32) as u16, (new >> 32) as u16).u32(old as u32, new as u32)
    }

    /// A 128-bit word changes.
    pub fn u128(&mut self, old: u128, new: u128) -> &mut Self {
        for shift in [96, 64, 32, 0] {
            self.u32((old >> shift) as u32, (new >> shift) as u32);
        }
        self
    }

    /// An IPv4 address changes.
    pub fn ipv4(&mut self, old: Ipv4Addr, new: Ipv4Addr) -> &mut Self {
        self.u32(old.to_bits(), new.to_bits())
    }

    /// An IPv6 address changes.
    pub fn ipv6(&mut self, old: Ipv6Addr, new: Ipv6Addr) -> &mut Self {
        self.u128(old.to_bits(), new.to_bits())
    }

    /// The checksum after the changes (RFC 1624 §3, equation 3).
    pub fn apply(&self, checksum: u16) -> u16 {
        !fold(self.total + u64::from(!checksum))
    }

    /// As [`apply`](Self::apply), for UDP's field: 0 (no checksum) stays 0, and a checksum that
    /// becomes 0 is 0xffff.
    pub fn apply_udp(&self, checksum: u16) -> u16 {
        if checksum == 0 { 0 } else { udp(self.apply(checksum)) }
    }

    /// The partial checksum (see [`offload`](crate::offload)) after the changes: the field holds
    /// a sum that is not complemented, so the changes are added to it.
    pub fn apply_partial(&self, sum: u16) -> u16 {
        fold(self.total + u64::from(sum))
    }
}

/// `checksum` after a 16-bit word that it covers changed (RFC 1624 §3).
pub fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    Delta::new().u16(old, new).apply(checksum)
}

/// `checksum` after a 32-bit word that it covers changed.
pub fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    Delta::new().u32(old, new).apply(checksum)
}

/// `checksum` after a 128-bit word that it covers changed.
pub fn update_u128(checksum: u16, old: u128, new: u128) -> u16 {
    Delta::new().u128(old, new).apply(checksum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    /// One word at a time, folding at once: the plainest form.
    fn model(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for word in bytes.chunks(2) {
            sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn whole_packets_over_ipv4_are_judged_as_by_their_sum() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        let mut right = 0;
        for round in 0..4000usize {
            let addresses: [u8; 8] = std::array::from_fn(|_| random());
            let [a, b, c, d, e, f, g, h] = addresses;
            let pseudo = Pseudo::from((Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h)));
            let protocol = if round % 2 == 0 { IpProtocol::TCP } else { IpProtocol::UDP };
            let mut packet: Vec<u8> = (0..round % 300).map(|_| random()).collect();
            if let (Some(field), true) = (packet.first_chunk_mut::<2>(), round % 3 > 0) {
                *field = [0, 0];
                let checksum = pseudo.checksum(protocol, &packet);
                packet[..2].copy_from_slice(&checksum.to_be_bytes());
            }
            let expected = pseudo.sum_over(protocol, &packet) == 0xffff;
            right += u32::from(expected);
            let found = is_right_over_ipv4(&addresses, protocol, &packet);
            assert_eq!(found, expected, "{round}");
        }
        assert!(right > 2000);
    }

    #[test]
    fn known_vectors() {
        // RFC 1071 §3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(checksum(&header), 0xb861);
        assert_eq!(checksum(&[]), 0xffff);
        assert_eq!(checksum(&[0xff, 0xff]), 0);
        assert_eq!(checksum(&[0xff]), 0x00ff);
    }

    #[test]
    fn sum_equals_model_at_every_length_and_split() {
        let mut rng = Rng::new(1);
        for len in 0..300 {
            let bytes = rng.bytes(len);
            assert_eq!(checksum(&bytes), model(&bytes), "len {len}");
            let (a, b) = (rng.below(len + 1), rng.below(len + 1));
            let (a, b) = (a.min(b), a.max(b));
            let mut pieces = Sum::new();
            for piece in [&bytes[..a], &bytes[a..b], &bytes[b..]] {
                pieces.add_bytes(piece);
            }
            assert_eq!(pieces.finish(), model(&bytes), "len {len} split {a} {b}");
        }
        let ones = vec![0xff; 1 << 20];
        assert_eq!(checksum(&ones), model(&ones));
    }

    #[test]
    fn update_equals_recompute() {
        let mut rng = Rng::new(2);
        for round in 0..200_000 {
            let mut data = rng.bytes(40);
            if round % 3 == 0 {
                // Many words of 0 and 0xffff, where the two zeros meet.
                for word in data.chunks_mut(2) {
                    let octet = if rng.below(2) == 0 { 0 } else { 0xff };
                    word.fill(octet);
                }
            }
            data[0] |= 0x40;
            let before = checksum(&data);
            let at = 2 + 2 * rng.below(12);
            let mut new = rng.bytes(16);
            if round % 5 == 0 {
                let octet = if rng.below(2) == 0 { 0 } else { 0xff };
                new.fill(octet);
            }
            let width = [2, 4, 16][rng.below(3)];
            let old: Vec<u8> = data[at..at + width].to_vec();
            data[at..at + width].copy_from_slice(&new[..width]);
            let new = &new[..width];
            let after = match width {
                2 => update_u16(
                    before,
                    u16::from_be_bytes(old[..].try_into().unwrap()),
                    u16::from_be_bytes(new.try_into().unwrap()),
                ),
                4 => update_u32(
                    before,
                    u32::from_be_bytes(old[..].try_into().unwrap()),
                    u32::from_be_bytes(new.try_into().unwrap()),
                ),
                _ => update_u128(
                    before,
                    u128::from_be_bytes(old[..].try_into().unwrap()),
                    u128::from_be_bytes(new.try_into().unwrap()),
                ),
            };
            assert_eq!(after, checksum(&data), "{data:02x?} at {at} was {old:02x?}");
        }
    }

    #[test]
    fn both_zeros() {
        // RFC 1624 §4: the example that equation 2 got wrong.
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
        // An unchanged word changes nothing, whatever the checksum but -0.
        for checksum in 0..0xffff {
            assert_eq!(update_u16(checksum, 0, 0), checksum);
            assert_eq!(update_u16(checksum, 0xffff, 0xffff), checksum);
        }
        assert_eq!(update_u16(0xffff, 0x1234, 0x1234), 0);
    }

    #[test]
    fn udp_never_becomes_zero_nor_begins() {
        let mut delta = Delta::new();
        delta.u16(0x5555, 0x3285);
        assert_eq!(delta.apply_udp(0xdd2f), 0xffff);
        assert_eq!(delta.apply_udp(0), 0);
        assert_eq!(Delta::new().u16(7, 7).apply_udp(0xffff), 0xffff);
    }

    #[test]
    fn partial_update_equals_fresh_pseudo_header() {
        let mut rng = Rng::new(3);
        for _ in 0..10_000 {
            let a = Ipv6Addr::from_bits(u128::from(rng.next_u64()) << 64 | 1);
            let b = Ipv6Addr::from_bits(u128::from(rng.next_u64()) << 64 | 2);
            let c = Ipv6Addr::from_bits(u128::from(rng.next_u64()));
            let before = Pseudo::from((a, b)).sum(IpProtocol::TCP, 99).fold();
            let after = Pseudo::from((a, c)).sum(IpProtocol::TCP, 99).fold();
            assert_eq!(Delta::new().ipv6(b, c).apply_partial(before), after);
        }
    }

    #[test]
    fn forty_eight_bits() {
        let mut data = [0x45, 0, 1, 2, 3, 4, 5, 6];
        let before = checksum(&data);
        data[2..].copy_from_slice(&[9, 8, 7, 0xff, 0xfe, 0]);
        let after = Delta::new().u48(0x0102_0304_0506, 0x0908_07ff_fe00).apply(before);
        assert_eq!(after, checksum(&data));
    }
}
