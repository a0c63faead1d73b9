//! Ethernet: destination, source, and type or length (IEEE Std 802.3-2018 §3.1.1).
//!
//! Tags are not looked through here: a tagged frame's type is its first tag's, see
//! [`vlan`](crate::vlan). A value below 0x0600 in the type field is the length of an 802.2 LLC
//! payload; [`Packet::payload`] then ends where that length says.

use crate::bytes::{Field, fields, need, room, span, span_mut, view};
use crate::{Error, EtherType, MacAddr};

const WHAT: &str = "ethernet header";

/// Octets of the header.
pub const HEADER_LEN: usize = 14;

view! {
    /// A view of a frame, from its destination address on and without its frame check sequence.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)?;
    let kind = EtherType::get(bytes, 12);
    if kind.is_length() {
        need("802.3 payload", &bytes[HEADER_LEN..], usize::from(kind.0))?;
    }
    Ok(())
}

fields! {
    Packet {
        /// Destination address.
        dst, set_dst: MacAddr @ 0;
        /// Source address.
        src, set_src: MacAddr @ 6;
        /// Type, or length where [`EtherType::is_length`].
        ethertype, set_ethertype: EtherType @ 12;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    fn end(&self) -> usize {
        let kind = self.ethertype();
        if kind.is_length() { HEADER_LEN + usize::from(kind.0) } else { usize::MAX }
    }

    /// What follows the header: all of it for a type, as much as it says for a length.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), HEADER_LEN, self.end())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// As [`payload`](Self::payload), to be written to.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.end();
        span_mut(self.as_bytes_mut(), HEADER_LEN, end)
    }
}

/// An Ethernet header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// Type, or length of an 802.2 payload.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        Ok(Repr { dst: packet.dst(), src: packet.src(), ethertype: packet.ethertype() })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let mut packet = Packet { buffer: room(WHAT, out, HEADER_LEN)? };
        packet.set_dst(self.dst);
        packet.set_src(self.src);
        packet.set_ethertype(self.ethertype);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    const FRAME: [u8; 18] =
        [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0xde, 0xad, 0xbe, 0xef];

    #[test]
    fn round_trip() {
        let packet = Packet::new_checked(&FRAME[..]).unwrap();
        let repr = Repr::parse(&packet).unwrap();
        assert_eq!(repr.dst, MacAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!(repr.ethertype, EtherType::IPV4);
        assert_eq!(packet.payload(), &[0xde, 0xad, 0xbe, 0xef]);
        let mut out = [0xff; 14];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, FRAME[..14]);
        assert!(repr.emit(&mut out[..13]).is_err());
    }

    #[test]
    fn truncated_and_length() {
        truncations(&FRAME, 14, |bytes| Packet::new_checked(bytes.to_vec()));
        let mut llc = FRAME;
        llc[12..14].copy_from_slice(&[0, 3]);
        assert_eq!(Packet::new_checked(&llc[..]).unwrap().payload(), &[0xde, 0xad, 0xbe]);
        llc[13] = 5;
        assert_eq!(
            Packet::new_checked(&llc[..]),
            Err(Error::Truncated { what: "802.3 payload", need: 5, have: 4 })
        );
    }
}
