//! IPv6: the fixed header (RFC 8200 §3), with jumbograms (RFC 2675).
//!
//! Extension headers are in [`ext`].

use std::net::Ipv6Addr;

use crate::bytes::{Field, array, bits, fields, fits, need, room, span, span_mut, view};
use crate::{Error, IpProtocol, checksum};

pub mod ext;

const WHAT: &str = "ipv6 header";

/// Octets of the fixed header.
pub const HEADER_LEN: usize = 40;

view! {
    /// A view of a packet. Octets beyond its payload length may follow in the buffer and are not
    /// part of it.
    Packet, check
}

fn check_header(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, 1)?;
    let version = bytes[0] >> 4;
    if version != 6 {
        let value = version.into();
        return Err(Error::Field { what: WHAT, field: "version", value, want: "6" });
    }
    need(WHAT, bytes, HEADER_LEN)
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    check_header(bytes)?;
    need("ipv6 packet", bytes, HEADER_LEN.saturating_add(payload_len(bytes)))
}

/// The payload's length: the field, or a jumbo payload option's where the field is zero and
/// hop-by-hop options follow (RFC 2675 §3).
fn payload_len(bytes: &[u8]) -> usize {
    let len = u16::get(bytes, 4);
    if len != 0 || IpProtocol::get(bytes, 6) != IpProtocol::HOP_BY_HOP {
        return len.into();
    }
    ext::Chain::new(IpProtocol::HOP_BY_HOP, span(bytes, HEADER_LEN, usize::MAX))
        .next()
        .and_then(Result::ok)
        .and_then(|header| {
            header.options().flatten().find_map(|option| match (option.kind, option.data) {
                (ext::OPTION_JUMBO, data) if data.len() == 4 => Some(u32::get(data, 0)),
                _ => None,
            })
        })
        .map_or(0, |len| usize::try_from(len).unwrap_or(usize::MAX))
}

bits! {
    Packet {
        /// Version; 6 in a checked packet.
        version, set_version: u8 @ 0, 4, 0x0f;
        /// Explicit congestion notification (RFC 3168), 0 to 3.
        ecn, set_ecn: u8 @ 1, 4, 0x03;
        /// Flow label, 20 bits (RFC 6437).
        flow_label, set_flow_label: u32 @ 0, 0, 0x000f_ffff;
    }
}

fields! {
    Packet {
        /// Octets after the fixed header; 0 in a jumbogram.
        payload_len, set_payload_len: u16 @ 4;
        /// What follows the fixed header: an extension header, or the payload's protocol.
        next_header, set_next_header: IpProtocol @ 6;
        /// Hop limit.
        hop_limit, set_hop_limit: u8 @ 7;
        /// Source address.
        src, set_src: Ipv6Addr @ 8;
        /// Destination address; the next hop's, not the final one, where a routing header has
        /// segments left.
        dst, set_dst: Ipv6Addr @ 24;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if the fixed header is whole, though the payload may be cut short: for
    /// packets quoted by ICMPv6 errors and for frames captured in part.
    ///
    /// # Errors
    /// As [`new_checked`](Self::new_checked), but for the payload length.
    pub fn new_header_checked(buffer: T) -> Result<Self, Error> {
        check_header(buffer.as_ref())?;
        Ok(Packet { buffer })
    }

    /// Octets of the fixed header.
    pub fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Traffic class: DSCP and ECN together.
    pub fn traffic_class(&self) -> u8 {
        (u16::get(self.as_bytes(), 0) >> 4) as u8
    }

    /// Differentiated services code point (RFC 2474), 0 to 63.
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Everything after the fixed header, extension headers first, to where the packet ends.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.as_bytes();
        span(bytes, HEADER_LEN, HEADER_LEN.saturating_add(payload_len(bytes)))
    }

    /// The chain of extension headers.
    pub fn extensions(&self) -> ext::Chain<'_> {
        ext::Chain::new(self.next_header(), self.payload())
    }

    /// The last stop of a routing header with segments left, else the destination: the address
    /// that a pseudo-header holds (RFC 8200 §8.1). `None` when a routing header has segments left
    /// and is of a kind that we cannot read.
    pub fn final_dst(&self) -> Option<Ipv6Addr> {
        for header in self.extensions().flatten() {
            if header.kind == IpProtocol::ROUTING && header.segments_left() != 0 {
                return header.last_segment();
            }
        }
        Some(self.dst())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes [`traffic_class`](Self::traffic_class).
    pub fn set_traffic_class(&mut self, value: u8) {
        let word = u16::get(self.as_bytes(), 0) & 0xf00f | u16::from(value) << 4;
        word.put(self.as_bytes_mut(), 0);
    }

    /// Writes [`dscp`](Self::dscp); bits beyond its width are dropped.
    pub fn set_dscp(&mut self, value: u8) {
        self.set_traffic_class(value << 2 | self.ecn());
    }

    /// As [`payload`](Self::payload), to be written to.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = HEADER_LEN.saturating_add(payload_len(self.as_bytes()));
        span_mut(self.as_bytes_mut(), HEADER_LEN, end)
    }
}

/// A fixed IPv6 header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, below 2²⁰.
    pub flow_label: u32,
    /// What follows the fixed header.
    pub next_header: IpProtocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// The payload length field: octets after the fixed header, extension headers included; 0 in
    /// a jumbogram.
    pub payload_len: usize,
}

impl Repr {
    /// A header of best effort with hop limit 64.
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: IpProtocol, payload_len: usize) -> Self {
        Repr { traffic_class: 0, flow_label: 0, next_header, hop_limit: 64, src, dst, payload_len }
    }

    /// Reads the header.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        Ok(Repr {
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            src: packet.src(),
            dst: packet.dst(),
            payload_len: packet.payload_len().into(),
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] when `flow_label` or
    /// `payload_len` is.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        fits(WHAT, "flow label", self.flow_label.into(), 0x000f_ffff)?;
        fits(WHAT, "payload length", self.payload_len as u64, 0xffff)?;
        let mut packet = Packet { buffer: room(WHAT, out, HEADER_LEN)? };
        packet.set_version(6);
        packet.set_traffic_class(self.traffic_class);
        packet.set_flow_label(self.flow_label);
        packet.set_payload_len(self.payload_len as u16);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        Ok(())
    }
}

/// The addresses of a packet as its pseudo-header holds them; the next hop's where a routing
/// header cannot be read (see [`Packet::final_dst`]).
impl<T: AsRef<[u8]>> From<&Packet<T>> for checksum::Pseudo {
    fn from(packet: &Packet<T>) -> Self {
        checksum::Pseudo::V6 {
            src: Ipv6Addr::from(array::<16>(packet.as_bytes(), 8)),
            dst: packet.final_dst().unwrap_or(packet.dst()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    fn sample() -> Repr {
        Repr {
            traffic_class: 0xb9,
            flow_label: 0xabcde,
            ..Repr::new(
                "2001:db8::1".parse().unwrap(),
                "2001:db8::2".parse().unwrap(),
                IpProtocol::UDP,
                5,
            )
        }
    }

    #[test]
    fn round_trip() {
        let repr = sample();
        let mut out = [0xff; 47];
        repr.emit(&mut out).unwrap();
        let packet = Packet::new_checked(&out[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr));
        assert_eq!((packet.dscp(), packet.ecn()), (46, 1));
        assert_eq!(packet.payload(), &[0xff; 5]);
        assert_eq!(packet.final_dst(), Some(repr.dst));
        truncations(&out, 45, |bytes| Packet::new_checked(bytes.to_vec()));
        truncations(&out, 40, |bytes| Packet::new_header_checked(bytes.to_vec()));
    }

    #[test]
    fn setters_keep_to_their_bits() {
        let mut packet = Packet { buffer: [0_u8; 40] };
        packet.set_version(6);
        packet.set_traffic_class(0xff);
        assert_eq!(packet.as_bytes()[..4], [0x6f, 0xf0, 0, 0]);
        packet.set_dscp(0);
        assert_eq!(packet.as_bytes()[..4], [0x60, 0x30, 0, 0]);
        packet.set_ecn(0);
        packet.set_flow_label(0xffff_ffff);
        assert_eq!(packet.as_bytes()[..4], [0x60, 0x0f, 0xff, 0xff]);
    }

    #[test]
    fn refuses_wrong_versions_and_values() {
        let mut out = [0; 45];
        sample().emit(&mut out).unwrap();
        out[0] = 0x45;
        assert!(matches!(
            Packet::new_checked(&out[..]),
            Err(Error::Field { field: "version", value: 4, .. })
        ));
        let e = Repr { flow_label: 1 << 20, ..sample() }.emit(&mut out).unwrap_err();
        assert!(matches!(e, Error::TooLarge { field: "flow label", .. }));
        let e = Repr { payload_len: 65536, ..sample() }.emit(&mut out).unwrap_err();
        assert!(matches!(e, Error::TooLarge { field: "payload length", .. }));
    }

    #[test]
    fn jumbogram() {
        let repr = Repr { next_header: IpProtocol::HOP_BY_HOP, payload_len: 0, ..sample() };
        let mut out = vec![0; 40];
        repr.emit(&mut out).unwrap();
        out.extend([6, 0, 0xc2, 4, 0, 1, 0, 8]); // 65544 octets
        assert_eq!(
            Packet::new_checked(&out[..]),
            Err(Error::Truncated { what: "ipv6 packet", need: 65584, have: 48 })
        );
        out.resize(65590, 7);
        let packet = Packet::new_checked(&out[..]).unwrap();
        assert_eq!(packet.payload().len(), 65544);
        assert_eq!(packet.extensions().end().unwrap().protocol, IpProtocol::TCP);
    }
}
