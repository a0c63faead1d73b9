//! What a packet is about: the tuple it is of, or the quoted packet's, or nothing that is tracked.
//!
//! The layers are known; what is read here are addresses, ports, ICMP's type and identifier, and the
//! quotation of an ICMP error. Checksums are computed if the tracker asks for that and the port has
//! not done so.

use super::fragment::{Piece, Ticket};
use super::tcp;
use super::tuple::{Key, Message, Role, Tuple};
use crate::packet::{Checksum, Fragment, Network, Offsets, Packet};
use wire::checksum::{self, Pseudo};
use wire::{IpProtocol, icmpv4, ipv4, ipv6, sctp, udp};

/// Whether a packet has its transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// It has.
    Whole,
    /// It is a later fragment.
    Later,
}

/// What a packet is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A connection with this tuple.
    Flow {
        /// The tuple.
        tuple: Tuple,
        /// Whether it has its transport header.
        transport: Transport,
    },
    /// A fragment; in a later one, the ports are not known.
    Fragment {
        /// The tuple.
        tuple: Tuple,
        /// The datagram's identification.
        ident: u32,
        /// Whether it is the first.
        first: bool,
    },
    /// An error about a packet; this is the inverse of its tuple.
    Error {
        /// The tuple to look for.
        tuple: Tuple,
    },
    /// Nothing that is tracked.
    Untracked,
    /// Headers cut short, a wrong checksum.
    Malformed,
    /// A fragment whose first was not seen, or a message that no connection can have.
    Orphan,
    /// A fragment that waits for its first.
    Waits(Ticket),
    /// A fragment that is to come alone.
    Apart,
    /// A fragment that overlaps others, or begins where none may.
    Refused {
        /// It begins within the transport header.
        tiny: bool,
    },
}

impl Subject {
    /// The tuple to look for.
    #[inline]
    pub(crate) fn tuple(&self) -> Option<&Tuple> {
        match self {
            Subject::Flow { tuple, .. } | Subject::Error { tuple } => Some(tuple),
            _ => None,
        }
    }
}

/// The IP packet's payload, from the transport header on.
pub(crate) fn payload<'a>(packet: &'a Packet<'_>) -> &'a [u8] {
    packet.frame.get(packet.at.l4 as usize..packet.at.end as usize).unwrap_or_default()
}

/// The key of what most packets are: whole, IPv4, TCP or UDP, and intact; and whether it is a segment other than a
/// [bare ACK](tcp::Segment::bare_ack). None for others, which [`subject`] looks into.
#[inline(always)]
pub(crate) fn usual(packet: &Packet<'_>, check_checksums: bool) -> Option<(Key, bool)> {
    let at = &packet.at;
    let protocol = at.protocol;
    // Not one after the other: traffic has both, in no order that a processor could foresee.
    let has_ports = (protocol == IpProtocol::TCP) | (protocol == IpProtocol::UDP);
    if !(at.network == Network::V4 && at.fragment == Fragment::Whole && has_ports) {
        return None;
    }
    let ends: &[u8; 8] = packet.frame.get(at.l3 as usize + 12..)?.first_chunk()?;
    let body = packet.frame.get(at.l4 as usize..at.end as usize)?;
    let ports: &[u8; 4] = body.first_chunk()?;
    // The short way says yes alone: whether others are right, or have a checksum at all, is looked into.
    let right = || {
        let fills = || body.get(4..6) == Some(&(body.len() as u16).to_be_bytes()[..]);
        let whole = protocol == IpProtocol::TCP || fills();
        whole && checksum::is_right_over_ipv4(ends, protocol, body) || right_checksum(packet, body)
    };
    if check_checksums && packet.checksum == Checksum::Unknown && !right() {
        return None;
    }
    let ([src, dst], [src_port, dst_port]) = (ends.as_chunks().0, ports.as_chunks().0) else {
        return None;
    };
    let key = Key {
        ends: [src, dst].map(|address| u32::from_be_bytes(*address)),
        ports: [src_port, dst_port].map(|port| u16::from_be_bytes(*port)),
        protocol,
    };
    // Looked at of UDP, too, which costs less than a choice that cannot be foreseen.
    Some((key, (protocol == IpProtocol::TCP) & !tcp::Segment::is_bare_ack(body)))
}

pub(crate) fn subject(packet: &Packet<'_>, zone: u16, check_checksums: bool) -> Subject {
    let at = &packet.at;
    let v6 = match at.network {
        Network::V4 => false,
        Network::V6 => true,
        Network::Other => return Subject::Untracked,
    };
    let Some((src, dst)) = addresses(packet.frame, at) else { return Subject::Malformed };
    let bare = Tuple {
        src,
        dst,
        src_port: 0,
        dst_port: 0,
        zone,
        protocol: at.protocol,
        v6,
        role: Role::Any,
    };
    let first = match at.fragment {
        Fragment::Later { ident } => {
            return Subject::Fragment { tuple: bare, ident, first: false };
        }
        Fragment::First { ident } => Some(ident),
        Fragment::Whole => None,
    };
    let body = payload(packet);
    let unknown = check_checksums && packet.checksum == Checksum::Unknown && first.is_none();
    if unknown && !right_checksum(packet, body) {
        return Subject::Malformed;
    }
    let tuple = match flow(&bare, body) {
        Flow::Tuple(tuple) => tuple,
        Flow::Error => {
            let quoted = body.get(icmpv4::HEADER_LEN..).unwrap_or_default();
            // An error goes to who sent what it quotes (RFC 1122 §3.2.2); were others let in as
            // related, they would get through a firewall by quoting any connection.
            return match quotation(quoted, zone, v6) {
                Some(tuple) if tuple.src == dst => Subject::Error { tuple: tuple.inverted() },
                Some(_) => Subject::Orphan,
                None => Subject::Malformed,
            };
        }
        Flow::Untracked => return Subject::Untracked,
        Flow::Never => return Subject::Orphan,
        Flow::Short => return Subject::Malformed,
    };
    match first {
        Some(ident) => Subject::Fragment { tuple, ident, first: true },
        None => Subject::Flow { tuple, transport: Transport::Whole },
    }
}

/// Which octets of its datagram a fragment has. None if it cannot have them.
pub(crate) fn piece(packet: &Packet<'_>) -> Option<Piece> {
    let header = packet.frame.get(packet.at.l3 as usize..)?;
    let word = |at: usize| header.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    match packet.at.network {
        Network::V4 => {
            let octets = word(2)?.checked_sub(u16::from(header.first()? & 0x0f) * 4)?;
            let field = word(6)?;
            Piece::new(field & 0x1fff, octets.into(), field & 0x2000 == 0)
        }
        Network::V6 => {
            let end = ipv6::HEADER_LEN + usize::from(word(4)?);
            let (mut next, mut at) = (*header.get(6)?, ipv6::HEADER_LEN);
            // What comes before the fragment header: hop-by-hop options, a route, options for the destination.
            while matches!(next, 0 | 43 | 60) {
                let len = (usize::from(*header.get(at + 1)?) + 1) * 8;
                (next, at) = (*header.get(at)?, at + len);
            }
            let field = (next == 44).then(|| word(at + 2)).flatten()?;
            let (octets, last) = (end.checked_sub(at + 8)?, field & 1 == 0);
            // RFC 8200 §4.5: only the last one may have another length.
            (last || octets.is_multiple_of(8)).then_some(())?;
            Piece::new(field >> 3, octets, last)
        }
        Network::Other => None,
    }
}

/// Source and destination as tuples hold them.
fn addresses(frame: &[u8], at: &Offsets) -> Option<(u128, u128)> {
    let header = frame.get(at.l3 as usize..)?;
    Some(match at.network {
        Network::V4 => {
            let [src, dst] = header.get(12..20)?.as_chunks::<4>().0 else { return None };
            (u32::from_be_bytes(*src).into(), u32::from_be_bytes(*dst).into())
        }
        _ => {
            let [src, dst] = header.get(8..40)?.as_chunks::<16>().0 else { return None };
            (u128::from_be_bytes(*src), u128::from_be_bytes(*dst))
        }
    })
}

enum Flow {
    Tuple(Tuple),
    Error,
    Untracked,
    /// No connection can be made of it.
    Never,
    Short,
}

/// The tuple, from addresses and the transport header at the front of `body`.
fn flow(bare: &Tuple, body: &[u8]) -> Flow {
    let word = |at: usize| body.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let ports = || Some(Tuple { src_port: word(0)?, dst_port: word(2)?, ..*bare });
    let tuple = match bare.protocol {
        IpProtocol::TCP
        | IpProtocol::UDP
        | IpProtocol::SCTP
        | IpProtocol::UDP_LITE
        | IpProtocol::DCCP => ports(),
        IpProtocol::ICMP | IpProtocol::ICMPV6 => {
            let Some(&[kind, code, _, _, hi, lo, _, _]) = body.first_chunk::<8>() else {
                return Flow::Short;
            };
            let v6 = bare.protocol == IpProtocol::ICMPV6;
            if v6 != bare.v6 {
                return Flow::Never;
            }
            let what = |kind: u8| u16::from_be_bytes([kind, code]);
            let ident = u16::from_be_bytes([hi, lo]);
            match if v6 { Message::v6(kind) } else { Message::v4(kind) } {
                Message::Request(kind) => Some(Tuple {
                    src_port: ident,
                    dst_port: what(kind),
                    role: Role::Request,
                    ..*bare
                }),
                Message::Reply(kind) => Some(Tuple {
                    src_port: what(kind),
                    dst_port: ident,
                    role: Role::Reply,
                    ..*bare
                }),
                Message::Error => return Flow::Error,
                Message::Untracked => return Flow::Untracked,
                Message::Other => return Flow::Never,
            }
        }
        _ => Some(*bare),
    };
    tuple.map_or(Flow::Short, Flow::Tuple)
}

/// The tuple of a quoted packet, of which at least the ports are there.
fn quotation(quoted: &[u8], zone: u16, v6: bool) -> Option<Tuple> {
    let (src, dst, protocol, l4) = if v6 {
        let packet = ipv6::Packet::new_header_checked(quoted).ok()?;
        let end = packet.extensions().end().ok()?;
        if end.fragment.is_some_and(|fragment| fragment.offset != 0) {
            return None;
        }
        let [src, dst] = [packet.src(), packet.dst()].map(|address| address.to_bits());
        (src, dst, end.protocol, ipv6::HEADER_LEN + end.offset)
    } else {
        let packet = ipv4::Packet::new_header_checked(quoted).ok()?;
        if packet.fragment_offset_words() != 0 {
            return None;
        }
        let [src, dst] = [packet.src(), packet.dst()].map(|address| address.to_bits().into());
        (src, dst, packet.protocol(), packet.header_len())
    };
    let bare = Tuple { src, dst, src_port: 0, dst_port: 0, zone, protocol, v6, role: Role::Any };
    match flow(&bare, quoted.get(l4..)?) {
        Flow::Tuple(tuple) => Some(tuple),
        _ => None,
    }
}

/// Whether the transport checksum is right; true where there is none, false where its field is cut
/// off.
fn right_checksum(packet: &Packet<'_>, body: &[u8]) -> bool {
    let at = &packet.at;
    let right = |pseudo: Pseudo| pseudo.sum_over(at.protocol, body) == 0xffff;
    match at.protocol {
        IpProtocol::TCP => pseudo(packet).is_some_and(right),
        IpProtocol::UDP => {
            let Ok(datagram) = udp::Packet::new_checked(body) else { return false };
            let body = body.get(..usize::from(datagram.len())).unwrap_or(body);
            datagram.checksum() == 0
                || pseudo(packet).is_some_and(|p| p.sum_over(at.protocol, body) == 0xffff)
        }
        IpProtocol::UDP_LITE => {
            // RFC 3828 §3.1: 0 covers all; else at least the header, at most all.
            let Some(header) = body.first_chunk::<8>() else { return false };
            let coverage = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
                0 => body.len(),
                coverage if coverage >= 8 && coverage <= body.len() => coverage,
                _ => return false,
            };
            let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
            pseudo(packet).is_some_and(|pseudo| {
                let mut sum = pseudo.sum(at.protocol, len);
                sum.add_bytes(&body[..coverage]);
                header[6..] != [0, 0] && sum.fold() == 0xffff
            })
        }
        IpProtocol::ICMPV6 if at.network == Network::V6 => pseudo(packet).is_some_and(right),
        IpProtocol::ICMP if at.network == Network::V4 => checksum::sum(body) == 0xffff,
        IpProtocol::SCTP => sctp::Packet::new_checked(body).is_ok_and(|p| p.verify_checksum()),
        _ => true,
    }
}

/// The pseudo-header's addresses: the final destination's, where a source route is left.
fn pseudo(packet: &Packet<'_>) -> Option<Pseudo> {
    let at = &packet.at;
    let header = packet.frame.get(at.l3 as usize..)?;
    match at.network {
        Network::V4 => Some((&ipv4::Packet::new_header_checked(header).ok()?).into()),
        _ => {
            let packet = ipv6::Packet::new_header_checked(header).ok()?;
            let plain = at.l4 - at.l3 == ipv6::HEADER_LEN as u32;
            let dst = if plain { packet.dst() } else { packet.final_dst()? };
            Some(Pseudo::V6 { src: packet.src(), dst })
        }
    }
}
