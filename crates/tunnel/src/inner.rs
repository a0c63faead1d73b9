//! What the outer headers take from the inner frame, and give back to it: TOS, TTL, ECN, and a number for its flow.
//!
//! IP is found behind up to two VLAN tags. A frame of another kind has no TOS and no TTL.
//! Cost: one look at the headers.

use crate::refused::Refused;

const CE: u8 = 3;
const ECN: u8 = 3;

/// Where the IP header of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    V4(usize),
    V6(usize),
    Other,
}

/// Finds a whole IP header.
fn network(frame: &[u8]) -> Network {
    let word = |at: usize| frame.get(at..at + 2).map(|w| u16::from_be_bytes([w[0], w[1]]));
    let mut at = 12;
    for _ in 0..2 {
        match word(at) {
            Some(0x8100 | 0x88a8) => at += 4,
            _ => break,
        }
    }
    let (kind, at) = (word(at), at + 2);
    match (kind, frame.get(at).map(|first| first >> 4)) {
        (Some(0x0800), Some(4)) if frame.len() >= at + 20 => Network::V4(at),
        (Some(0x86dd), Some(6)) if frame.len() >= at + 40 => Network::V6(at),
        _ => Network::Other,
    }
}

/// What outer headers ask of an inner frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// TOS or traffic class, if it is IP.
    pub tos: Option<u8>,
    /// TTL or hop limit, if it is IP.
    pub ttl: Option<u8>,
    /// The same for all packets of a flow.
    pub hash: u32,
}

/// Mixes a word into a hash. By a multiplication whose high half is folded in, so that every bit reaches the top.
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

fn quad(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]).into())
}

impl Inner {
    /// Looks at a frame of any length.
    pub fn of(frame: &[u8]) -> Inner {
        let ports = |protocol: u8, fragment: bool, at: usize| match protocol {
            // TCP, UDP, DCCP, SCTP, UDP-Lite: ports come first.
            6 | 17 | 33 | 132 | 136 if !fragment => quad(frame, at),
            _ => 0,
        };
        let (tos, ttl, hash) = match network(frame) {
            Network::V4(at) => {
                let fragment = u16::from_be_bytes([frame[at + 6], frame[at + 7]]) & 0x3fff != 0;
                let protocol = frame[at + 9];
                let l4 = at + usize::from(frame[at] & 15) * 4;
                let addresses = quad(frame, at + 12) << 32 | quad(frame, at + 16);
                let last = ports(protocol, fragment, l4) << 8 | u64::from(protocol);
                (Some(frame[at + 1]), Some(frame[at + 8]), mix(mix(1, addresses), last))
            }
            Network::V6(at) => {
                let tos = frame[at] << 4 | frame[at + 1] >> 4;
                let mut hash = 2;
                for i in 0..4 {
                    let from = at + 8 + 8 * i;
                    hash = mix(hash, quad(frame, from) << 32 | quad(frame, from + 4));
                }
                let next = frame[at + 6];
                let last = ports(next, false, at + 40) << 8 | u64::from(next);
                (Some(tos), Some(frame[at + 7]), mix(hash, last))
            }
            Network::Other => {
                let hash = mix(mix(3, quad(frame, 0) << 32 | quad(frame, 4)), quad(frame, 8));
                (None, None, mix(hash, quad(frame, 12) >> 16))
            }
        };
        Inner { tos, ttl, hash: (hash ^ hash >> 32) as u32 }
    }

    /// The UDP source port: in 32768 to 60999, the same for a flow (RFC 8926 §3.3, RFC 7348 §5).
    pub fn source_port(&self) -> u16 {
        const FIRST: u64 = 32768;
        const COUNT: u64 = 61000 - FIRST;
        // The high bits choose, which are the best mixed.
        (FIRST + ((u64::from(self.hash) * COUNT) >> 32)) as u16
    }

    /// The ECN of the outer header. CE becomes ECT(0), so that congestion outside can still be told (Open vSwitch does so).
    pub fn outer_ecn(&self) -> u8 {
        match self.tos.unwrap_or(0) & ECN {
            CE => 2,
            ecn => ecn,
        }
    }
}

/// Gives the outer header's congestion to the inner frame (RFC 6040 §4.2). CE outside makes CE of what is ECN capable, and
/// drops IP that is not. ECT(1) outside makes ECT(1) of ECT(0). An IPv4 checksum is adjusted (RFC 1624).
pub fn decapsulate(outer_tos: u8, frame: &mut [u8]) -> Result<(), Refused> {
    //= rfc6040 §4.2: the codepoint of the inner header follows from both.
    let outer = outer_tos & ECN;
    if outer & 1 == 0 {
        return Ok(());
    }
    let at = network(frame);
    let inner = match at {
        Network::V4(at) => frame[at + 1] & ECN,
        Network::V6(at) => frame[at + 1] >> 4 & ECN,
        Network::Other => return Ok(()),
    };
    let becomes = match (inner, outer) {
        (0, CE) => return Err(Refused::EcnNotCapable),
        (1 | 2, CE) => CE,
        (2, 1) => 1,
        _ => return Ok(()),
    };
    match at {
        Network::V4(at) => {
            let old = u16::from_be_bytes([frame[at], frame[at + 1]]);
            let new = old & !u16::from(ECN) | u16::from(becomes);
            let sum = u16::from_be_bytes([frame[at + 10], frame[at + 11]]);
            let sum = wire::checksum::update_u16(sum, old, new);
            frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
            frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        }
        Network::V6(at) => frame[at + 1] = frame[at + 1] & !(ECN << 4) | becomes << 4,
        Network::Other => {}
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn udp4(port: u16, tos: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, tos, 0, 28, 0, 0, 0x40, 0, 17, 17, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = wire::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame.extend(port.to_be_bytes());
        frame.extend([0, 53, 0, 8, 0, 0]);
        frame
    }

    #[test]
    fn source_ports_spread_over_their_range_and_stay_with_a_flow() {
        let ports: std::collections::BTreeSet<u16> =
            (0..20_000).map(|port| Inner::of(&udp4(port, 0)).source_port()).collect();
        assert!(ports.iter().all(|port| (32768..61000).contains(port)));
        // 20,000 balls into 28,232 bins leave about 14,300 occupied.
        assert!((13_900..14_700).contains(&ports.len()), "{}", ports.len());
        let (mut one, two) = (udp4(7, 0), udp4(7, 3));
        one[22] = 5;
        assert_eq!(Inner::of(&one).hash, Inner::of(&two).hash, "TOS and TTL are no part of a flow");
        let least = Inner { tos: None, ttl: None, hash: 0 };
        let most = Inner { hash: u32::MAX, ..least };
        assert_eq!((least.source_port(), most.source_port()), (32768, 60999));
    }

    #[test]
    fn ecn_follows_the_table_of_rfc_6040() {
        // Rows: inner; columns: outer Not-ECT, ECT(1), ECT(0), CE; None: dropped.
        let table = [
            (0, [Some(0), Some(0), Some(0), None]),
            (1, [Some(1), Some(1), Some(1), Some(3)]),
            (2, [Some(2), Some(1), Some(2), Some(3)]),
            (3, [Some(3), Some(3), Some(3), Some(3)]),
        ];
        for (inner, row) in table {
            for (outer, becomes) in row.into_iter().enumerate() {
                let mut frame = udp4(1, 0xb8 | inner);
                let result = decapsulate(0x28 | outer as u8, &mut frame);
                match becomes {
                    None => assert_eq!(result, Err(Refused::EcnNotCapable)),
                    Some(becomes) => {
                        assert_eq!((result, frame[15]), (Ok(()), 0xb8 | becomes));
                        assert_eq!(wire::checksum::sum(&frame[14..34]), 0xffff);
                    }
                }
            }
        }
        let mut arp = vec![0; 42];
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(decapsulate(3, &mut arp), Ok(()));
        for len in 0..40 {
            let mut cut = udp4(1, 2)[..len.min(36)].to_vec();
            assert_eq!(decapsulate(3, &mut cut), Ok(()));
            Inner::of(&cut);
        }
    }
}
