//! Where the layers of a frame begin: network header, transport header, its checksum.
//!
//! [`Layers::of`] walks from the Ethernet header over VLAN tags, I-TAGs (into the customer's
//! frame), MPLS label stacks (whose payload is known by its first nibble alone, RFC 4928), the IP
//! header and IPv6 extension headers, and stops at the transport header. It goes into no tunnel.
//!
//! It finds as much as the bytes allow, and says where and why it had to stop; lengths that lie
//! are clamped to the frame rather than refused, so that a frame cut short still has layers.
//!
//! Invariants: offsets are within the frame and ascend; every turn of the walk moves on by at
//! least 4 octets.
//! Cost: one pass over the headers, no allocation.

use crate::bytes::{Field, span};
use crate::ipv6::ext::Chain;
use crate::{Error, EtherType, IpProtocol, ethernet, ipv4, ipv6, mpls, pbb, sctp, tcp, udp, vlan};
use crate::{icmpv4, icmpv6};

/// Which network protocol a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// None that is known here: see [`Layers::ethertype`].
    #[default]
    Other,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// ARP or RARP.
    Arp,
}

/// Which part of a datagram a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fragment {
    /// All of it (an atomic fragment, RFC 6946, included).
    #[default]
    Whole,
    /// The first part, with the transport header or its beginning.
    First,
    /// A later part, which has no transport header.
    Later {
        /// Where it belongs, in octets of the datagram's payload.
        offset: u16,
    },
}

/// How a transport protocol's checksum is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumKind {
    /// Ones' complement over pseudo-header and packet: TCP, UDP, UDP-Lite, DCCP, ICMPv6.
    Pseudo,
    /// Ones' complement over the packet alone: ICMP, IGMP.
    Plain,
    /// CRC32c over the packet, four octets: SCTP.
    Crc32c,
}

/// The checksum of a transport protocol: how it is computed and where in the header it lies.
/// `ipv6` says over which network protocol.
pub fn transport_checksum(protocol: IpProtocol, ipv6: bool) -> Option<(ChecksumKind, usize)> {
    match protocol {
        IpProtocol::TCP => Some((ChecksumKind::Pseudo, tcp::CHECKSUM_AT)),
        IpProtocol::UDP | IpProtocol::UDP_LITE => Some((ChecksumKind::Pseudo, udp::CHECKSUM_AT)),
        IpProtocol::DCCP => Some((ChecksumKind::Pseudo, 6)),
        IpProtocol::SCTP => Some((ChecksumKind::Crc32c, sctp::CHECKSUM_AT)),
        IpProtocol::ICMPV6 if ipv6 => Some((ChecksumKind::Pseudo, icmpv6::CHECKSUM_AT)),
        IpProtocol::ICMP if !ipv6 => Some((ChecksumKind::Plain, icmpv4::CHECKSUM_AT)),
        IpProtocol::IGMP if !ipv6 => Some((ChecksumKind::Plain, 2)),
        _ => None,
    }
}

/// Where the layers of a frame begin. Offsets are in octets from the frame's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layers {
    /// VLAN tags walked over.
    pub vlan_tags: usize,
    /// MPLS label stack entries walked over.
    pub mpls_labels: usize,
    /// Type of what follows the last tag; under MPLS, of what the first nibble suggests, or MPLS
    /// itself.
    pub ethertype: EtherType,
    /// Which network protocol it is.
    pub network: Network,
    /// Where the network header begins, or would begin for another protocol.
    pub l3: Option<usize>,
    /// Where the IP packet ends, by its own length clamped to the frame; the frame's end for
    /// other protocols.
    pub l3_end: usize,
    /// Where the transport header begins; in a later fragment, its part of the payload.
    pub l4: Option<usize>,
    /// The transport protocol, after any IPv6 extension headers.
    pub protocol: Option<IpProtocol>,
    /// Where the transport checksum lies, if the protocol has one, this is no later fragment, and
    /// the field lies wholly within the packet.
    pub checksum_at: Option<usize>,
    /// Which part of a datagram this is.
    pub fragment: Fragment,
    /// Why the walk stopped early, if it did.
    pub stopped: Option<Error>,
}

impl Layers {
    /// Walks over `frame`, an Ethernet frame without its frame check sequence.
    pub fn of(frame: &[u8]) -> Layers {
        let mut layers = Layers { l3_end: frame.len(), ..Layers::default() };
        layers.stopped = layers.link(frame, 0).err();
        layers
    }

    /// Walks over an IP packet without a link header, as a TUN device carries.
    pub fn of_ip(packet: &[u8]) -> Layers {
        let mut layers = Layers { l3_end: packet.len(), l3: Some(0), ..Layers::default() };
        layers.ethertype = mpls::guess_payload(packet).unwrap_or_default();
        layers.stopped = layers.network(packet, 0).err();
        layers
    }

    /// How the transport checksum is computed, if there is one.
    pub fn checksum_kind(&self) -> Option<ChecksumKind> {
        let kind = transport_checksum(self.protocol?, self.network == Network::Ipv6);
        self.checksum_at.and(kind).map(|(kind, _)| kind)
    }

    fn link(&mut self, frame: &[u8], start: usize) -> Result<(), Error> {
        let mut at = start;
        let mut ethertype = None;
        let ethertype = loop {
            match ethertype {
                None => {
                    let rest = span(frame, at, usize::MAX);
                    // The length of an 802.3 frame is not the walk's concern.
                    crate::bytes::need("ethernet header", rest, ethernet::HEADER_LEN)?;
                    ethertype = Some(EtherType::get(rest, 12));
                    at += ethernet::HEADER_LEN;
                }
                Some(kind) if kind.is_vlan() => {
                    let tag = vlan::Packet::new_checked(span(frame, at, usize::MAX))?;
                    ethertype = Some(tag.ethertype());
                    at += vlan::TAG_LEN;
                    self.vlan_tags += 1;
                }
                Some(EtherType::PBB) => {
                    pbb::Packet::new_checked(span(frame, at, usize::MAX))?;
                    ethertype = None;
                    at += pbb::TAG_LEN;
                }
                Some(kind) => break kind,
            }
            self.ethertype = ethertype.unwrap_or(EtherType::PBB);
        };
        self.ethertype = ethertype;
        if ethertype.is_mpls() {
            let mut stack = mpls::Stack::new(span(frame, at, usize::MAX));
            for entry in stack.by_ref() {
                entry?;
                self.mpls_labels += 1;
                at += mpls::ENTRY_LEN;
            }
            self.ethertype = mpls::guess_payload(stack.rest()).unwrap_or(ethertype);
        }
        self.l3 = Some(at);
        self.network(frame, at)
    }

    fn network(&mut self, frame: &[u8], at: usize) -> Result<(), Error> {
        match self.ethertype {
            EtherType::IPV4 => self.ipv4(frame, at),
            EtherType::IPV6 => self.ipv6(frame, at),
            EtherType::ARP | EtherType::RARP => {
                self.network = Network::Arp;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ipv4(&mut self, frame: &[u8], at: usize) -> Result<(), Error> {
        self.network = Network::Ipv4;
        let packet = ipv4::Packet::new_header_checked(span(frame, at, usize::MAX))?;
        // A total length of zero is a segment beyond 64 KiB that is yet to be cut (Linux's
        // "BIG TCP"), which ends with the frame.
        let len = match usize::from(packet.total_len()) {
            0 => usize::MAX,
            len => len.max(packet.header_len()),
        };
        self.l3_end = at.saturating_add(len).min(frame.len());
        self.fragment = match (packet.fragment_offset_words(), packet.more_fragments()) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First,
            (words, _) => Fragment::Later { offset: words << 3 },
        };
        self.transport(at + packet.header_len(), packet.protocol());
        Ok(())
    }

    fn ipv6(&mut self, frame: &[u8], at: usize) -> Result<(), Error> {
        self.network = Network::Ipv6;
        let packet = ipv6::Packet::new_header_checked(span(frame, at, usize::MAX))?;
        let len = match (packet.payload_len(), packet.payload().len()) {
            (0, 0) => usize::MAX,
            (_, len) => len + ipv6::HEADER_LEN,
        };
        self.l3_end = at.saturating_add(len).min(frame.len());
        let start = at + ipv6::HEADER_LEN;
        let end = Chain::new(packet.next_header(), span(frame, start, self.l3_end)).end()?;
        self.fragment = match end.fragment {
            Some(fragment) if fragment.offset != 0 => Fragment::Later { offset: fragment.offset },
            Some(fragment) if fragment.more => Fragment::First,
            _ => Fragment::Whole,
        };
        self.transport(start + end.offset, end.protocol);
        Ok(())
    }

    fn transport(&mut self, at: usize, protocol: IpProtocol) {
        self.protocol = Some(protocol);
        self.l4 = Some(at);
        if matches!(self.fragment, Fragment::Later { .. }) {
            return;
        }
        let checksum = transport_checksum(protocol, self.network == Network::Ipv6);
        self.checksum_at = checksum.and_then(|(kind, offset)| {
            let width = if kind == ChecksumKind::Crc32c { 4 } else { 2 };
            (at + offset + width <= self.l3_end).then_some(at + offset)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{frames, truncations};

    #[test]
    fn finds_the_layers_of_every_sample() {
        for (name, frame) in frames() {
            let layers = Layers::of(&frame);
            assert_eq!(layers.stopped, None, "{name}");
            let found = (layers.vlan_tags, layers.mpls_labels, layers.l3, layers.l4);
            let expected = match name {
                "tcp4" | "udp4" | "icmp4" | "sctp4" => (0, 0, Some(14), Some(34)),
                "qinq" => (2, 0, Some(22), Some(42)),
                "mpls" => (0, 2, Some(22), Some(42)),
                "pbb" => (0, 0, Some(32), Some(52)),
                "tcp6ext" => (1, 0, Some(18), Some(74)),
                "udp6" | "ns" => (0, 0, Some(14), Some(54)),
                "arp" => (0, 0, Some(14), None),
                "vxlan" | "geneve" | "gtpu" | "gre" => (0, 0, Some(14), Some(34)),
                other => panic!("{other} is new: say what it holds"),
            };
            assert_eq!(found, expected, "{name}");
            if let (Some(at), Some(l4)) = (layers.checksum_at, layers.l4) {
                let (_, offset) =
                    transport_checksum(layers.protocol.unwrap(), layers.network == Network::Ipv6)
                        .unwrap();
                assert_eq!(at, l4 + offset, "{name}");
            }
        }
    }

    #[test]
    fn every_truncation_stops_where_it_must() {
        for (name, frame) in frames() {
            truncations(&frame, 14, |bytes| match Layers::of(bytes).stopped {
                Some(error) => Err(error),
                None => Ok(name),
            });
            for len in 0..frame.len() {
                let layers = Layers::of(&frame[..len]);
                assert!(layers.l3_end <= len, "{name} cut to {len}");
                for at in [layers.l3, layers.l4, layers.checksum_at.map(|at| at + 2)] {
                    assert!(at.is_none_or(|at| at <= len), "{name} cut to {len}: {layers:?}");
                }
            }
        }
    }

    #[test]
    fn fragments() {
        let (_, mut frame) = frames().into_iter().find(|(name, _)| *name == "udp4").unwrap();
        frame[20] |= 0x20;
        assert_eq!(Layers::of(&frame).fragment, Fragment::First);
        assert!(Layers::of(&frame).checksum_at.is_some());
        frame[21] = 3;
        let layers = Layers::of(&frame);
        assert_eq!(layers.fragment, Fragment::Later { offset: 24 });
        assert_eq!(layers.checksum_at, None);
        assert_eq!(layers.l4, Some(34));
    }

    #[test]
    fn without_a_link_header() {
        let (_, frame) = frames().into_iter().find(|(name, _)| *name == "udp6").unwrap();
        let layers = Layers::of_ip(&frame[14..]);
        assert_eq!((layers.network, layers.l4), (Network::Ipv6, Some(40)));
        assert_eq!(Layers::of_ip(&[]).network, Network::Other);
    }
}
