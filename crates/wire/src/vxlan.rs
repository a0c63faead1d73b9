//! VXLAN (RFC 7348 §5). The payload is an Ethernet frame.

use crate::Error;
use crate::bytes::{bits, fits, flags, need, room, span, view};

const WHAT: &str = "vxlan header";

/// Octets of the header.
pub const HEADER_LEN: usize = 8;

view! {
    /// A view of a header and the frame after it.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)
}

flags! {
    Packet {
        /// Whether the network identifier is valid (the I flag).
        has_vni, set_has_vni @ 0, 0x08;
    }
}

bits! {
    Packet {
        /// All eight flags.
        flags, set_flags: u8 @ 0, 0, 0xff;
        /// Network identifier, 24 bits.
        vni, set_vni: u32 @ 4, 8, 0x00ff_ffff;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The frame that is carried.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), HEADER_LEN, usize::MAX)
    }
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Network identifier, below 2²⁴.
    pub vni: u32,
}

impl Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// Those of [`Packet::check`], and [`Error::Field`] when the I flag is not set.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        if !packet.has_vni() {
            let value = packet.flags().into();
            let want = "the I flag (8) among them";
            return Err(Error::Field { what: WHAT, field: "flags", value, want });
        }
        Ok(Repr { vni: packet.vni() })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] when the identifier is.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        fits(WHAT, "vni", self.vni.into(), 0x00ff_ffff)?;
        let mut packet = Packet { buffer: room(WHAT, out, HEADER_LEN)? };
        packet.set_has_vni(true);
        packet.set_vni(self.vni);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    #[test]
    fn round_trip() {
        let repr = Repr { vni: 0x00ab_cdef };
        let mut out = [0xff; 9];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, [8, 0, 0, 0, 0xab, 0xcd, 0xef, 0, 0xff]);
        let packet = Packet::new_checked(&out[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr));
        assert_eq!(packet.payload(), &[0xff]);
        truncations(&out, 8, |bytes| Packet::new_checked(bytes.to_vec()));
        out[0] = 0xf7;
        let packet = Packet::new_checked(&out[..]).unwrap();
        assert!(matches!(Repr::parse(&packet), Err(Error::Field { value: 0xf7, .. })));
        assert!(Repr { vni: 1 << 24 }.emit(&mut out).is_err());
    }
}
