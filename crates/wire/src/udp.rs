//! UDP (RFC 768; over IPv6, RFC 8200 §8.1 and RFC 6935).

use crate::bytes::{Field, fields, fits, need, room, span, span_mut, view};
use crate::checksum::{self, Pseudo};
use crate::{Error, IpProtocol};

const WHAT: &str = "udp header";

/// Octets of the header.
pub const HEADER_LEN: usize = 8;
/// Where the checksum lies in the header.
pub const CHECKSUM_AT: usize = 6;

/// Port of VXLAN (RFC 7348 §5).
pub const PORT_VXLAN: u16 = 4789;
/// Port of Geneve (RFC 8926 §3.3).
pub const PORT_GENEVE: u16 = 6081;
/// Port of GTP-U (3GPP TS 29.281 §4.4.2).
pub const PORT_GTPU: u16 = 2152;

view! {
    /// A view of a datagram. Octets beyond its length may follow in the buffer and are not part
    /// of it.
    Packet, check
}

fn check_header(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)?;
    let len = u16::get(bytes, 4);
    if usize::from(len) < HEADER_LEN {
        let value = len.into();
        return Err(Error::Field { what: WHAT, field: "length", value, want: "at least 8" });
    }
    Ok(())
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    check_header(bytes)?;
    need("udp datagram", bytes, u16::get(bytes, 4).into())
}

fields! {
    Packet {
        /// Source port; 0 when not used.
        src_port, set_src_port: u16 @ 0;
        /// Destination port.
        dst_port, set_dst_port: u16 @ 2;
        /// Octets of header and payload.
        len, set_len: u16 @ 4;
        /// Checksum over pseudo-header, header and payload; 0 for none.
        checksum, set_checksum: u16 @ 6;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if the header is whole, though the payload may be cut short.
    ///
    /// # Errors
    /// As [`new_checked`](Self::new_checked), but for the payload's truncation.
    pub fn new_header_checked(buffer: T) -> Result<Self, Error> {
        check_header(buffer.as_ref())?;
        Ok(Packet { buffer })
    }

    /// Whether the datagram is its header alone.
    pub fn is_empty(&self) -> bool {
        usize::from(self.len()) <= HEADER_LEN
    }

    /// The payload, up to the length.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), HEADER_LEN, self.len().into())
    }

    /// Whether the checksum is right, or absent. Whether it may be absent over IPv6 (RFC 6936) is
    /// the caller's affair.
    pub fn verify_checksum(&self, pseudo: &Pseudo) -> bool {
        let datagram = span(self.as_bytes(), 0, self.len().into());
        self.checksum() == 0 || pseudo.sum_over(IpProtocol::UDP, datagram) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum and stores it, 0xffff for a computed 0.
    pub fn fill_checksum(&mut self, pseudo: &Pseudo) {
        self.set_checksum(0);
        let datagram = span(self.as_bytes(), 0, self.len().into());
        let checksum = checksum::udp(pseudo.checksum(IpProtocol::UDP, datagram));
        self.set_checksum(checksum);
    }

    /// As [`payload`](Self::payload), to be written to.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.len().into();
        span_mut(self.as_bytes_mut(), HEADER_LEN, end)
    }
}

/// A UDP header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Octets of payload, at most 65527.
    pub payload_len: usize,
}

impl Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        Ok(Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            payload_len: packet.payload().len(),
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, its checksum zero (see [`Packet::fill_checksum`]), to the front of
    /// `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] when the payload is.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let len = HEADER_LEN.saturating_add(self.payload_len);
        fits(WHAT, "length", len as u64, 0xffff)?;
        let mut packet = Packet { buffer: room(WHAT, out, HEADER_LEN)? };
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_len(len as u16);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;
    use std::net::Ipv6Addr;

    #[test]
    fn round_trip() {
        let repr = Repr { src_port: 53, dst_port: 5353, payload_len: 3 };
        let mut out = [0xff; 13];
        repr.emit(&mut out).unwrap();
        let mut packet = Packet::new_checked(&mut out[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr));
        let pseudo = Pseudo::from((Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST));
        assert!(packet.verify_checksum(&pseudo), "no checksum is not a wrong one");
        packet.fill_checksum(&pseudo);
        assert!(packet.checksum() != 0 && packet.verify_checksum(&pseudo));
        packet.payload_mut()[1] ^= 1;
        assert!(!packet.verify_checksum(&pseudo));
        truncations(&out, 11, |bytes| Packet::new_checked(bytes.to_vec()));
        assert!(Repr { payload_len: 65528, ..repr }.emit(&mut out).is_err());
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_ones() {
        let mut bytes = [0, 0, 0, 0, 0, 10, 0, 0, 0, 0];
        let pseudo = Pseudo::from((Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED));
        // Protocol 17, length twice 10: the payload that makes the sum 0xffff.
        bytes[8..].copy_from_slice(&(0xffff_u16 - 17 - 20).to_be_bytes());
        let mut packet = Packet::new_checked(&mut bytes[..]).unwrap();
        packet.fill_checksum(&pseudo);
        assert_eq!(packet.checksum(), 0xffff);
        assert!(packet.verify_checksum(&pseudo));
    }

    #[test]
    fn lengths_that_lie() {
        for len in 0..8 {
            let bytes = [0, 1, 0, 2, 0, len, 0, 0];
            assert!(matches!(
                Packet::new_checked(&bytes[..]),
                Err(Error::Field { field: "length", .. })
            ));
        }
        let bytes = [0, 1, 0, 2, 0, 9, 0, 0];
        assert!(matches!(Packet::new_checked(&bytes[..]), Err(Error::Truncated { need: 9, .. })));
        assert!(Packet::new_header_checked(&bytes[..]).unwrap().payload().is_empty());
    }
}
