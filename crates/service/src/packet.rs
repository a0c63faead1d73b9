//! What a service is handed: a frame's octets, and where its layers begin.
//!
//! A service never parses again: the pipeline has found the layers and hands their offsets over.
//! [`Offsets::of`] is the walk for callers that have no pipeline, such as tests and benches.
//!
//! Invariants: none that memory safety depends on. Offsets that lie beyond the frame make a packet
//! that services call invalid.

use std::ops::Range;
use wire::layers::{self, Layers};
use wire::{IpProtocol, ipv6};

/// Which network protocol a packet has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// Neither IPv4 nor IPv6.
    #[default]
    Other,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Which part of a datagram a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fragment {
    /// All of it.
    #[default]
    Whole,
    /// Its beginning, with the transport header.
    First {
        /// The datagram's identification.
        ident: u32,
    },
    /// A later part, which has no transport header.
    Later {
        /// The datagram's identification.
        ident: u32,
    },
}

/// Where a packet's layers begin, in octets from the frame's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offsets {
    /// The network header.
    pub l3: u32,
    /// The transport header; in a later fragment, its part of the payload.
    pub l4: u32,
    /// The end of the IP packet: at most the frame's end, less where the link layer padded it.
    pub end: u32,
    /// Which network protocol it is.
    pub network: Network,
    /// The transport protocol, after any IPv6 extension headers.
    pub protocol: IpProtocol,
    /// Which part of a datagram it is.
    pub fragment: Fragment,
}

impl Offsets {
    /// Walks over an Ethernet frame. What is no IP packet, or is one cut short within its headers,
    /// gives [`Network::Other`].
    #[inline]
    pub fn of(frame: &[u8]) -> Offsets {
        Offsets::usual(frame).unwrap_or_else(|| Offsets::walked(frame))
    }

    /// The same, whatever the frame is.
    #[cold]
    pub fn walked(frame: &[u8]) -> Offsets {
        Offsets::from_layers(frame, &Layers::of(frame))
    }

    /// The same, for what most frames are: IPv4 without options and fragments, straight behind the Ethernet header. None for
    /// others. Who keeps the two apart has these offsets in registers.
    #[inline(always)]
    pub fn usual(frame: &[u8]) -> Option<Offsets> {
        let head: &[u8; 34] = frame.first_chunk()?;
        // No offset and no more fragments; the bit for "do not fragment" says nothing here, nor does the one above.
        let whole = head[20] & 0x3f == 0 && head[21] == 0;
        let len = u32::from(u16::from_be_bytes([head[16], head[17]]));
        if head[12..15] != [8, 0, 0x45] || !whole || len < 20 {
            return None;
        }
        let end = (14 + len).min(u32::try_from(frame.len()).unwrap_or(u32::MAX));
        let (network, protocol) = (Network::V4, IpProtocol(head[23]));
        Some(Offsets { l3: 14, l4: 34, end, network, protocol, fragment: Fragment::Whole })
    }

    /// The offsets that a walk has found in `frame`.
    pub fn from_layers(frame: &[u8], layers: &Layers) -> Offsets {
        let network = match layers.network {
            layers::Network::Ipv4 => Network::V4,
            layers::Network::Ipv6 => Network::V6,
            _ => return Offsets::default(),
        };
        let (Some(l3), Some(l4), Some(protocol), None) =
            (layers.l3, layers.l4, layers.protocol, layers.stopped)
        else {
            return Offsets::default();
        };
        let fragment = match layers.fragment {
            layers::Fragment::Whole => Fragment::Whole,
            layers::Fragment::First => Fragment::First { ident: ident(frame, l3, network) },
            layers::Fragment::Later { .. } => Fragment::Later { ident: ident(frame, l3, network) },
        };
        let [l3, l4, end] = [l3, l4, layers.l3_end].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
        Offsets { l3, l4, end, network, protocol, fragment }
    }
}

/// The identification of a fragment; 0 where it cannot be read.
fn ident(frame: &[u8], l3: usize, network: Network) -> u32 {
    let packet = frame.get(l3..).unwrap_or_default();
    match network {
        Network::V4 => packet.get(4..6).map_or(0, |b| u32::from(u16::from_be_bytes([b[0], b[1]]))),
        _ => ipv6::Packet::new_header_checked(packet)
            .ok()
            .and_then(|packet| packet.extensions().end().ok())
            .and_then(|end| end.fragment)
            .map_or(0, |fragment| fragment.ident),
    }
}

/// What is known of a packet's transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// Nothing: a service that relies on it computes it.
    #[default]
    Unknown,
    /// The port has seen that it is right.
    Good,
    /// It is yet to be completed by the sender's hardware: the field holds the pseudo-header's sum
    /// (see [`wire::offload`]).
    Partial,
}

/// What a port's hardware has said of a packet: which connection it is of, if the table that it was told is the one that the
/// tracker has. It may be wrong in any way: it is checked before it is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hint {
    /// The connection's place.
    pub mark: u32,
    /// Which tracker's places they are; 0 for no hint.
    pub generation: u32,
}

impl Hint {
    /// Nothing was said.
    pub const NONE: Hint = Hint { mark: 0, generation: 0 };
}

/// A packet in a burst.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The frame's octets.
    pub frame: &'a mut [u8],
    /// Where its layers begin.
    pub at: Offsets,
    /// What is known of its transport checksum.
    pub checksum: Checksum,
    /// Which connection it may be of.
    pub hint: Hint,
}

impl<'a> Packet<'a> {
    /// A frame, its layers found by a walk, its checksum unknown.
    #[inline]
    pub fn of(frame: &'a mut [u8]) -> Packet<'a> {
        let at = Offsets::of(frame);
        Packet { frame, at, checksum: Checksum::Unknown, hint: Hint::NONE }
    }

    /// Where what follows a TCP or UDP header lies in the frame, in a first fragment as far as it is
    /// there. None for other protocols, later fragments, and headers that are cut short or say a length
    /// that cannot be.
    pub fn payload(&self) -> Option<Range<usize>> {
        if let Fragment::Later { .. } = self.at.fragment {
            return None;
        }
        let (l4, end) = (self.at.l4 as usize, self.at.end as usize);
        let segment = self.frame.get(l4..end).filter(|_| self.at.network != Network::Other)?;
        match self.at.protocol {
            IpProtocol::TCP => {
                let header = usize::from(segment.get(12)? >> 4) * 4;
                (20..=segment.len()).contains(&header).then(|| l4 + header..end)
            }
            IpProtocol::UDP => {
                let [hi, lo] = *segment.get(4..6)?.first_chunk()?;
                let said = usize::from(u16::from_be_bytes([hi, lo]));
                let len = match self.at.fragment {
                    // A datagram beyond 65,535 octets says 0 (RFC 2675 §4).
                    _ if said == 0 => segment.len(),
                    Fragment::Whole => said,
                    _ => said.min(segment.len()),
                };
                (8..=segment.len()).contains(&len).then(|| l4 + 8..l4 + len)
            }
            _ => None,
        }
    }
}

/// Something by which a packet comes through a service: itself, or what it carries.
pub trait Carries<'a> {
    /// The packet.
    fn packet(&mut self) -> &mut Packet<'a>;
}

impl<'a> Carries<'a> for Packet<'a> {
    #[inline(always)]
    fn packet(&mut self) -> &mut Packet<'a> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_no_ip_packet_has_no_offsets() {
        for len in 0..34 {
            let mut frame = vec![0x45; len];
            if len >= 14 {
                frame[12..14].copy_from_slice(&[8, 0]);
            }
            assert_eq!(Offsets::of(&frame).network, Network::Other, "{len}");
        }
    }

    #[test]
    fn the_short_way_finds_what_the_walk_finds() {
        let mut random = crate::random::Random(4);
        let (mut short, mut long) = (0, 0);
        for _ in 0..50_000 {
            let mut frame = testkit::packet::Udp::default().frame();
            for _ in 0..random.below(3) {
                let at = 12 + random.below(14) as usize;
                frame[at] = match random.below(3) {
                    0 => random.next() as u8,
                    1 => frame[at] ^ 1 << random.below(8),
                    _ => 0,
                };
            }
            frame.truncate(random.below(80) as usize);
            let walk = Offsets::from_layers(&frame, &Layers::of(&frame));
            match Offsets::usual(&frame) {
                Some(found) => {
                    assert_eq!(found, walk, "{frame:02x?}");
                    short += 1;
                }
                None => long += 1,
            }
        }
        assert!(short > 5000 && long > 5000, "{short} {long}");
    }

    #[test]
    fn payloads_lie_behind_their_headers() {
        let mut frame = testkit::packet::Udp::default().frame();
        let udp = Packet::of(&mut frame).at.l4 as usize;
        let end = frame.len();
        assert_eq!(Packet::of(&mut frame).payload(), Some(udp + 8..end));
        for (said, want) in [(8, Some(udp + 8..udp + 8)), (7, None), (0, Some(udp + 8..end))] {
            frame[udp + 5] = said;
            assert_eq!(Packet::of(&mut frame).payload(), want, "{said}");
        }
        frame[udp + 4] = 0xff;
        assert_eq!(Packet::of(&mut frame).payload(), None, "longer than the packet");
        frame[20] = 0x20;
        assert_eq!(Packet::of(&mut frame).payload(), Some(udp + 8..end), "a first fragment");
        frame[21] = 1;
        assert_eq!(Packet::of(&mut frame).payload(), None, "a later one");
        let ends = (([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2));
        let mut frame =
            crate::craft::Frame::tcp(ends.0, ends.1, wire::tcp::Flags::ACK, (1, 1), 5).bytes();
        assert_eq!(Packet::of(&mut frame).payload(), Some(54..59));
        frame[46] = 0x40;
        assert_eq!(Packet::of(&mut frame).payload(), None, "a header shorter than a header");
        frame[46] = 0xf0;
        assert_eq!(Packet::of(&mut frame).payload(), None, "a header longer than the packet");
    }

    #[test]
    fn fragments_have_their_identification() {
        let mut frame = testkit::packet::Udp::default().frame();
        frame[18..22].copy_from_slice(&[0x12, 0x34, 0x20, 0]);
        assert_eq!(Offsets::of(&frame).fragment, Fragment::First { ident: 0x1234 });
        frame[21] = 1;
        assert_eq!(Offsets::of(&frame).fragment, Fragment::Later { ident: 0x1234 });
    }
}
