//! What a flow is: which packets go to one backend.
//!
//! A flow is addresses and protocol, and ports of TCP, UDP, UDP-Lite, SCTP and DCCP. Two kinds of packets are about a flow
//! and do not have its header:
//!
//! - An ICMP error is of the flow that it quotes: it comes from somewhere on the way, and the backend that sent the quoted
//!   packet is who must hear of it ("fragmentation needed", say: RFC 1191, RFC 8201).
//! - A later fragment has no ports: what its first fragment was is remembered by addresses, protocol and identification,
//!   in fixed memory, for [`FRAGMENT_S`]. One that comes before its first, or whose entry has made room, goes by addresses and protocol
//!   alone and is counted.
//!
//! What is no IP packet goes by its Ethernet header.
//!
//! Cost: one hash of a packet; a look into four entries for a fragment. Checked by: the tests below.

use crate::conntrack::parse::{self, Subject};
use crate::hash::fold;
use crate::packet::{Fragment, Network, Packet};
use wire::IpProtocol;

/// Datagrams in fragments that are remembered, about, by each instance.
const FRAGMENTED_MAX: usize = 4096;
/// Seconds for which a first fragment is remembered (RFC 1122 §3.3.2 has 60 to 120 for putting together, Linux 30).
const FRAGMENT_S: u32 = 30;
/// Ways of a set of remembered datagrams.
const WAYS: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct Datagram {
    /// The hash of addresses, protocol and identification; 0 in an entry that is empty.
    name: u64,
    /// The hash of its flow.
    flow: u64,
    /// Seconds of its first fragment.
    seen: u32,
}

/// Flows of packets as numbers, the same for all packets of one direction, whatever worker or switch asks with the same
/// key; who does not know the key cannot well choose flows that collide.
#[derive(Debug)]
pub(crate) struct Flows {
    key: u64,
    datagrams: Box<[[Datagram; WAYS]]>,
    orphans: u64,
}

impl Flows {
    /// Flows as this key tells them.
    pub(crate) fn new(key: u64) -> Flows {
        let sets = vec![[Datagram::default(); WAYS]; FRAGMENTED_MAX / WAYS];
        Flows { key, datagrams: sets.into_boxed_slice(), orphans: 0 }
    }

    /// Later fragments whose first was not known.
    pub(crate) fn orphans(&self) -> u64 {
        self.orphans
    }

    /// The flow of a packet, at second `now_s` of a monotonic clock.
    #[inline]
    pub(crate) fn of(&mut self, now_s: u32, packet: &Packet<'_>) -> u64 {
        let flow = flow_hash(packet, self.key);
        match packet.at.fragment {
            Fragment::Whole => flow,
            Fragment::First { ident } => {
                self.note(now_s, packet, ident, flow);
                flow
            }
            Fragment::Later { ident } => match self.find(now_s, packet, ident) {
                Some(flow) => flow,
                None => {
                    self.orphans += 1;
                    flow
                }
            },
        }
    }

    /// The name of a datagram, and the set it would be in.
    fn name(&self, packet: &Packet<'_>, ident: u32) -> (u64, usize) {
        let ends = hash(packet.at.protocol, addresses(packet), &[], !self.key);
        let name = fold(ends ^ u64::from(ident), 0xd6e8_feb8_6659_fd93).max(1);
        (name, ((u128::from(name) * self.datagrams.len() as u128) >> 64) as usize)
    }

    fn note(&mut self, now_s: u32, packet: &Packet<'_>, ident: u32, flow: u64) {
        let (name, set) = self.name(packet, ident);
        let set = &mut self.datagrams[set];
        let at = set.iter().position(|have| have.name == name);
        let oldest = || {
            let age = |have: &Datagram| if have.name == 0 { 0 } else { u64::from(have.seen) + 1 };
            (0..WAYS).min_by_key(|n| age(&set[*n])).unwrap_or(0)
        };
        let at = at.unwrap_or_else(oldest);
        set[at] = Datagram { name, flow, seen: now_s };
    }

    fn find(&self, now_s: u32, packet: &Packet<'_>, ident: u32) -> Option<u64> {
        let (name, set) = self.name(packet, ident);
        let lives =
            |have: &&Datagram| have.name == name && now_s.saturating_sub(have.seen) <= FRAGMENT_S;
        self.datagrams[set].iter().find(lives).map(|have| have.flow)
    }
}

/// A packet's flow as far as the packet itself says it: a later fragment's is that of its addresses and protocol.
fn flow_hash(packet: &Packet<'_>, key: u64) -> u64 {
    let (at, frame) = (&packet.at, &*packet.frame);
    let is_error = matches!(at.protocol, IpProtocol::ICMP | IpProtocol::ICMPV6)
        && at.network != Network::Other
        && !matches!(at.fragment, Fragment::Later { .. });
    if is_error && let Subject::Error { tuple } = parse::subject(packet, 0, false) {
        // What came to the backend was the inverse of what it quotes, which this is.
        let mut octets = [0; 32];
        let ends = if tuple.v6 {
            octets[..16].copy_from_slice(&tuple.src.to_be_bytes());
            octets[16..].copy_from_slice(&tuple.dst.to_be_bytes());
            &octets[..]
        } else {
            octets[..4].copy_from_slice(&(tuple.src as u32).to_be_bytes());
            octets[4..8].copy_from_slice(&(tuple.dst as u32).to_be_bytes());
            &octets[..8]
        };
        let mut ports = [0; 4];
        ports[..2].copy_from_slice(&tuple.src_port.to_be_bytes());
        ports[2..].copy_from_slice(&tuple.dst_port.to_be_bytes());
        let ports = if tuple.has_ports() { &ports[..] } else { &[] };
        return hash(tuple.protocol, ends, ports, key);
    }
    if at.network == Network::Other {
        return hash(IpProtocol(0), frame.get(..14).unwrap_or(frame), &[], key);
    }
    let ports = match at.protocol {
        IpProtocol::TCP
        | IpProtocol::UDP
        | IpProtocol::UDP_LITE
        | IpProtocol::SCTP
        | IpProtocol::DCCP
            if !matches!(at.fragment, Fragment::Later { .. }) =>
        {
            frame.get(at.l4 as usize..at.l4 as usize + 4).unwrap_or_default()
        }
        _ => &[],
    };
    hash(at.protocol, addresses(packet), ports, key)
}

/// Source and destination as they lie in the packet.
fn addresses<'a>(packet: &'a Packet<'_>) -> &'a [u8] {
    let l3 = packet.at.l3 as usize;
    let place = match packet.at.network {
        Network::V4 => l3 + 12..l3 + 20,
        Network::V6 => l3 + 8..l3 + 40,
        Network::Other => 0..14,
    };
    packet.frame.get(place).unwrap_or(packet.frame)
}

#[inline]
fn hash(protocol: IpProtocol, addresses: &[u8], ports: &[u8], key: u64) -> u64 {
    const FACTOR: u64 = 0x9fb2_1c65_1e98_df25;
    let mut hash = key ^ 0x2d35_8dcc_aa6c_78a5;
    let mut mix = |octets: &[u8]| {
        for part in octets.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            hash = fold(hash ^ u64::from_le_bytes(word), FACTOR);
        }
    };
    mix(addresses);
    let mut word = [protocol.0, 0, 0, 0, 0];
    word[1..=ports.len()].copy_from_slice(ports);
    mix(&word);
    fold(hash ^ key.rotate_left(32), 0xd6e8_feb8_6659_fd93)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::craft::Frame;
    use std::net::IpAddr;
    use wire::tcp::Flags;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn of(flows: &mut Flows, now_s: u32, frame: &Frame) -> u64 {
        flows.of(now_s, &Packet::of(&mut frame.bytes()))
    }

    fn fragments(n: u16) -> [Frame; 3] {
        let (a, b) = ((ip("10.0.0.1"), 5 + n), (ip("10.0.0.2"), 6));
        let mut first = Frame::udp(a, b, 16);
        first.fragment = (7 + n, 0x2000);
        let mut later = Frame::new(a.0, b.0, IpProtocol::UDP, vec![9; 24]);
        later.fragment = (7 + n, 0x2003);
        let mut last = later.clone();
        last.fragment.1 = 6;
        [first, later, last]
    }

    #[test]
    fn fragments_go_where_whole_packets_of_their_connection_go() {
        let mut flows = Flows::new(5);
        for n in 0..500 {
            let whole = Frame::udp((ip("10.0.0.1"), 5 + n), (ip("10.0.0.2"), 6), 8);
            let [first, later, last] = fragments(n);
            let flow = of(&mut flows, 1, &whole);
            for part in [&first, &later, &last] {
                assert_eq!(of(&mut flows, 1, part), flow);
            }
        }
        // After its time, and before its first, a later one goes by addresses.
        let [first, later, last] = fragments(1000);
        let alone = of(&mut flows, 1, &later);
        assert_eq!((of(&mut flows, 1, &last), flows.orphans()), (alone, 2));
        assert_ne!(of(&mut flows, 1, &first), alone);
        assert_ne!(of(&mut flows, 1 + FRAGMENT_S, &later), alone);
        assert_eq!((of(&mut flows, 2 + FRAGMENT_S, &later), flows.orphans()), (alone, 3));
        // One datagram again, of another connection: the last word is what counts.
        let mut again = fragments(1001)[0].clone();
        again.fragment.0 = first.fragment.0;
        let flow = of(&mut flows, 99, &again);
        assert_eq!(of(&mut flows, 99, &later), flow);
    }

    #[test]
    fn memory_of_fragments_is_bounded_and_the_oldest_make_room() {
        let mut flows = Flows::new(1);
        for n in 0..60_000_u16 {
            let [first, later, _] = fragments(n);
            let flow = of(&mut flows, u32::from(n / 1000), &first);
            assert_eq!(of(&mut flows, u32::from(n / 1000), &later), flow, "{n}");
        }
        assert_eq!(flows.orphans(), 0);
        assert_eq!(flows.datagrams.len() * WAYS, FRAGMENTED_MAX);
    }

    #[test]
    fn an_error_is_of_the_flow_that_it_quotes() {
        let mut flows = Flows::new(9);
        for (client, vip, router, kind, code) in [
            ("10.9.9.9", "192.0.2.1", "192.0.2.77", 3, 4),
            ("10.9.9.9", "192.0.2.1", "10.9.9.9", 11, 0),
            ("2001:db8::9", "2001:db8:1::1", "2001:db8:2::77", 2, 0),
            ("2001:db8::9", "2001:db8:1::1", "2001:db8:2::77", 1, 4),
        ] {
            for port in 0..50 {
                let (a, b) = ((ip(client), 1000 + port), (ip(vip), 80));
                let tcp = |a, b| Frame::tcp(a, b, Flags::ACK, (1, 1), 9);
                for (there, back) in
                    [(tcp(a, b), tcp(b, a)), (Frame::udp(a, b, 9), Frame::udp(b, a, 9))]
                {
                    // From the switch's port to clients: what it quotes went back to the client.
                    let error = back.error(ip(router), kind, code, 60);
                    assert_eq!(of(&mut flows, 0, &error), of(&mut flows, 0, &there));
                }
            }
            // Of a ping, too, which has no ports; one that quotes what its receiver did not send is its own.
            let ping = Frame::icmp(ip(client), ip(vip), if kind < 3 { 128 } else { 8 }, 0, 7, b"x");
            let answer =
                Frame::icmp(ip(vip), ip(client), if kind < 3 { 129 } else { 0 }, 0, 7, b"x");
            if code == 4 && kind == 3 {
                let error = answer.error(ip(router), kind, code, 60);
                assert_eq!(of(&mut flows, 0, &error), of(&mut flows, 0, &ping));
            }
            let quoted = Frame::udp((ip(client), 1), (ip(vip), 2), 9);
            let mut foreign = quoted.error(ip(router), kind, code, 60);
            foreign.dst = ip(vip);
            let own = of(&mut flows, 0, &foreign);
            assert_ne!(own, of(&mut flows, 0, &quoted));
        }
    }

    #[test]
    fn all_frames_have_a_flow() {
        let mut flows = Flows::new(0);
        let mut hash = |mut frame: Vec<u8>| flows.of(0, &Packet::of(&mut frame));
        let all: std::collections::HashSet<u64> = (0..14).map(|n| hash(vec![7; n])).collect();
        assert_eq!(all.len(), 14);
        assert_eq!(hash([7; 14].to_vec()), hash([7; 60].to_vec()));
    }
}
