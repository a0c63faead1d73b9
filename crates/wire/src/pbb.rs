//! Provider backbone bridging: the I-TAG (802.1ah; IEEE Std 802.1Q-2018 §9.7).
//!
//! A view begins after the tag protocol identifier 0x88e7: four octets of tag control information,
//! which end in the 24-bit service identifier, then the customer's frame, whose addresses the
//! standard counts as part of the tag.

use crate::bytes::{bits, fields, fits, flags, need, room, span, view};
use crate::{Error, MacAddr, ethernet};

const WHAT: &str = "pbb i-tag";

/// Octets of the tag control information, after which the customer's frame begins.
pub const TAG_LEN: usize = 4;

view! {
    /// A view of an I-TAG and the customer's frame after it.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, TAG_LEN + ethernet::HEADER_LEN)
}

fields! {
    Packet {
        /// The customer's destination address (C-DA).
        customer_dst, set_customer_dst: MacAddr @ 4;
        /// The customer's source address (C-SA).
        customer_src, set_customer_src: MacAddr @ 10;
    }
}

bits! {
    Packet {
        /// Priority code point of the service (I-PCP), 0 to 7.
        pcp, set_pcp: u8 @ 0, 5, 0x07;
        /// Backbone service instance identifier (I-SID), 24 bits.
        isid, set_isid: u32 @ 0, 0, 0x00ff_ffff;
    }
}

flags! {
    Packet {
        /// Drop eligible indicator (I-DEI).
        dei, set_dei @ 0, 0x10;
        /// Use customer address (UCA).
        uca, set_uca @ 0, 0x08;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The customer's frame, from its destination address on.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), TAG_LEN, usize::MAX)
    }
}

/// An I-TAG as a value, without the customer's addresses, which belong to the inner frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// Use customer address.
    pub uca: bool,
    /// Backbone service instance identifier, below 2²⁴.
    pub isid: u32,
}

impl Repr {
    /// Reads the tag.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        Ok(Repr { pcp: packet.pcp(), dei: packet.dei(), uca: packet.uca(), isid: packet.isid() })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag control information to the front of `out`; the customer's frame follows it.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] when `pcp` or `isid` is.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        fits(WHAT, "pcp", self.pcp.into(), 7)?;
        fits(WHAT, "isid", self.isid.into(), 0x00ff_ffff)?;
        let mut packet = Packet { buffer: room(WHAT, out, TAG_LEN)? };
        packet.set_pcp(self.pcp);
        packet.set_dei(self.dei);
        packet.set_uca(self.uca);
        packet.set_isid(self.isid);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    #[test]
    fn round_trip() {
        let repr = Repr { pcp: 5, dei: true, uca: true, isid: 0x00ab_cdef };
        let mut out = [0xff; 18];
        repr.emit(&mut out).unwrap();
        assert_eq!(out[..4], [0xb8, 0xab, 0xcd, 0xef]);
        let packet = Packet::new_checked(&out[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr));
        assert_eq!(packet.customer_dst(), MacAddr::BROADCAST);
        assert_eq!(packet.payload().len(), 14);
        truncations(&out, 18, |bytes| Packet::new_checked(bytes.to_vec()));
        let wide = Repr { isid: 1 << 24, ..repr };
        assert!(matches!(wide.emit(&mut out), Err(Error::TooLarge { field: "isid", .. })));
    }

    #[test]
    fn setting_the_isid_keeps_the_flags() {
        let mut packet = Packet::new_checked([0xff_u8; 18]).unwrap();
        packet.set_isid(0);
        assert_eq!((packet.pcp(), packet.dei(), packet.uca()), (7, true, true));
        packet.set_uca(false);
        assert_eq!(packet.as_bytes()[..4], [0xf7, 0, 0, 0]);
    }
}
