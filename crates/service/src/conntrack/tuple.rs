//! What tells one connection's packets from another's: addresses, ports, protocol, zone.
//!
//! ICMP's informational messages are a connection of their own per identifier: the identifier
//! stands for the requester's port, type and code of the request for the other's, and [`Role`]
//! tells requests from replies, so that two hosts that ping each other with the same identifier are
//! two connections.
//!
//! The hash is the same for both directions, so a connection that nobody translates needs one place
//! in the index. It is keyed, so that who chooses addresses and ports cannot choose places.

use crate::hash::fold;
use wire::{IpProtocol, icmpv4, icmpv6};

/// Which side of a request a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The protocol does not say.
    Any,
    /// A request: only the side that opened a connection sends these.
    Request,
    /// A reply: only the other side does.
    Reply,
}

/// One direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address; of IPv4, in the low 32 bits.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Source port, or what stands for one.
    pub src_port: u16,
    /// Destination port, or what stands for one.
    pub dst_port: u16,
    /// Which zone it is in; the same addresses in another are another connection.
    pub zone: u16,
    /// The transport protocol.
    pub protocol: IpProtocol,
    /// Whether the addresses are IPv6's.
    pub v6: bool,
    /// Which side of a request it is.
    pub role: Role,
}

impl Tuple {
    /// The other direction.
    pub fn inverted(&self) -> Tuple {
        Tuple {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            role: match self.role {
                Role::Any => Role::Any,
                Role::Request => Role::Reply,
                Role::Reply => Role::Request,
            },
            ..*self
        }
    }

    /// Whether its protocol has ports, which a translation may change.
    pub fn has_ports(&self) -> bool {
        matches!(
            self.protocol,
            IpProtocol::TCP
                | IpProtocol::UDP
                | IpProtocol::SCTP
                | IpProtocol::UDP_LITE
                | IpProtocol::DCCP
        )
    }

    /// Of ICMP's informational messages: identifier, type and code as packets of this direction have them.
    pub fn message(&self) -> Option<(u16, u8, u8)> {
        let (id, asked, answers) = match self.role {
            Role::Request => (self.src_port, self.dst_port, false),
            Role::Reply => (self.dst_port, self.src_port, true),
            Role::Any => return None,
        };
        let [asked, code] = asked.to_be_bytes();
        let kind = match (answers, self.v6, asked) {
            (false, ..) => asked,
            (true, false, icmpv4::ECHO_REQUEST) => icmpv4::ECHO_REPLY,
            // Of all others the answer comes next.
            (true, ..) => asked.wrapping_add(1),
        };
        Some((id, kind, code))
    }

    /// Whether it is of ICMP's informational messages.
    pub fn is_query(&self) -> bool {
        self.role != Role::Any
    }
}

/// What an ICMP type means to a tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// A request; the type is its own.
    Request(u8),
    /// A reply, and the type of its request.
    Reply(u8),
    /// An error, which quotes a packet.
    Error,
    /// Neighbour discovery and multicast listeners: not tracked.
    Untracked,
    /// No connection can be made of it.
    Other,
}

impl Message {
    pub(crate) fn v4(kind: u8) -> Message {
        match kind {
            icmpv4::ECHO_REQUEST | 13 | 15 | 17 => Message::Request(kind),
            icmpv4::ECHO_REPLY => Message::Reply(icmpv4::ECHO_REQUEST),
            14 | 16 | 18 => Message::Reply(kind - 1),
            icmpv4::DEST_UNREACHABLE | 4 | icmpv4::REDIRECT => Message::Error,
            icmpv4::TIME_EXCEEDED | icmpv4::PARAMETER_PROBLEM => Message::Error,
            _ => Message::Other,
        }
    }

    pub(crate) fn v6(kind: u8) -> Message {
        match kind {
            icmpv6::ECHO_REQUEST | 139 => Message::Request(kind),
            icmpv6::ECHO_REPLY | 140 => Message::Reply(kind - 1),
            // Multicast listener discovery (RFC 2710, RFC 3810) and neighbour discovery.
            130..=132 | 143 | icmpv6::ROUTER_SOLICITATION..=icmpv6::REDIRECT => Message::Untracked,
            0..128 => Message::Error,
            _ => Message::Other,
        }
    }
}

/// The keys of the hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hasher {
    keys: [u64; 4],
}

impl Hasher {
    /// Keys drawn from a seed (SplitMix64).
    pub(crate) fn new(seed: u64) -> Hasher {
        let mut state = seed;
        let keys = std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        });
        Hasher { keys }
    }

    /// The hash of a tuple and of its inverse.
    #[inline]
    pub(crate) fn hash(&self, tuple: &Tuple) -> u64 {
        let [k0, k1, k2, k3] = self.keys;
        let end = |address: u128, port: u16| {
            // Prefix and port are both the sender's to choose: mixed first, no two choices are known to cancel out.
            let prefix = match (address >> 64) as u64 {
                0 => 0,
                prefix => fold(prefix ^ k2, k3 | 1),
            };
            fold((address as u64) ^ k0, prefix ^ u64::from(port) ^ k1)
        };
        let ends = end(tuple.src, tuple.src_port).wrapping_add(end(tuple.dst, tuple.dst_port));
        let rest = u64::from(tuple.protocol.0) | u64::from(tuple.zone) << 8;
        fold(ends ^ k2, rest ^ k3)
    }

    /// The same, of a [`Key`]'s tuple in this zone.
    #[inline(always)]
    pub(crate) fn hash_key(&self, key: &Key, zone: u16) -> u64 {
        let [k0, k1, k2, k3] = self.keys;
        let end = |address: u32, port: u16| fold(u64::from(address) ^ k0, u64::from(port) ^ k1);
        let [src, dst] = key.ends;
        let [src_port, dst_port] = key.ports;
        let ends = end(src, src_port).wrapping_add(end(dst, dst_port));
        let rest = u64::from(key.protocol.0) | u64::from(zone) << 8;
        fold(ends ^ k2, rest ^ k3)
    }
}

/// What a [`Tuple`] is for most packets, whose addresses are IPv4's and whose protocol has ports; without the zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// Source and destination address.
    pub(crate) ends: [u32; 2],
    /// Source and destination port.
    pub(crate) ports: [u16; 2],
    pub(crate) protocol: IpProtocol,
}

impl Key {
    /// Of no packet that has a key.
    pub(crate) const NONE: Key = Key { ends: [0; 2], ports: [0; 2], protocol: IpProtocol(0) };

    /// The whole tuple.
    pub(crate) fn tuple(&self, zone: u16) -> Tuple {
        let ([src, dst], [src_port, dst_port]) = (self.ends, self.ports);
        Tuple {
            src: src.into(),
            dst: dst.into(),
            src_port,
            dst_port,
            zone,
            protocol: self.protocol,
            v6: false,
            role: Role::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_have_one_hash_and_nothing_else_has_it() {
        let hasher = Hasher::new(1);
        let tuple = Tuple {
            src: 0x0a00_0001,
            dst: 0x0a00_0002,
            src_port: 1000,
            dst_port: 80,
            zone: 0,
            protocol: IpProtocol::TCP,
            v6: false,
            role: Role::Any,
        };
        assert_eq!(hasher.hash(&tuple), hasher.hash(&tuple.inverted()));
        assert_eq!(tuple.inverted().inverted(), tuple);
        let others = [
            Tuple { src_port: 80, dst_port: 1000, ..tuple },
            Tuple { src: tuple.dst, ..tuple },
            Tuple { zone: 1, ..tuple },
            Tuple { protocol: IpProtocol::UDP, ..tuple },
        ];
        for other in others {
            assert_ne!(hasher.hash(&other), hasher.hash(&tuple), "{other:?}");
        }
        assert_ne!(Hasher::new(2).hash(&tuple), hasher.hash(&tuple));
        // A prefix that goes up with the port is another hash each time.
        let v6 = |n: u16| {
            let src = (0x2001_0db8_0000_u128 << 16 | u128::from(n)) << 64 | 1;
            hasher.hash(&Tuple { src, src_port: 4000 ^ n, v6: true, ..tuple })
        };
        let hashes: std::collections::HashSet<u64> = (0..1000).map(v6).collect();
        assert_eq!(hashes.len(), 1000);
        let key =
            Key { ends: [0x0a00_0001, 0x0a00_0002], ports: [1000, 80], protocol: IpProtocol::TCP };
        for zone in [0, 1, 0xffff] {
            assert_eq!(key.tuple(zone), Tuple { zone, ..tuple });
            assert_eq!(hasher.hash_key(&key, zone), hasher.hash(&key.tuple(zone)));
        }
    }
}
