//! GRE (RFC 2784), with key and sequence number (RFC 2890).
//!
//! The source routes of RFC 1701 and version 1 (PPTP) are refused, as RFC 2784 §2.3 asks.

use crate::bytes::{Field, array, fields, flags, need, room, span, store, view};
use crate::{Error, EtherType, checksum};

const WHAT: &str = "gre header";

/// Octets of a header without optional words.
pub const HEADER_LEN: usize = 4;

view! {
    /// A view of a header, its optional words, and what follows them.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)?;
    let value = u16::get(bytes, 0);
    if value & 7 != 0 {
        let value = (value & 7).into();
        return Err(Error::Field { what: WHAT, field: "version", value, want: "0" });
    }
    // Bits 1, 4 and 5: routing, strict source route, and the first of the recursion bits.
    if value & 0x4c00 != 0 {
        let value = value.into();
        let want = "none but C, K and S among the first six bits";
        return Err(Error::Field { what: WHAT, field: "flags", value, want });
    }
    need("gre header with optional words", bytes, header_len(bytes))
}

fn header_len(bytes: &[u8]) -> usize {
    HEADER_LEN + (u8::get(bytes, 0) & 0xb0).count_ones() as usize * 4
}

flags! {
    Packet {
        /// Whether there is a checksum (the C bit).
        has_checksum, set_has_checksum @ 0, 0x80;
        /// Whether there is a key (the K bit).
        has_key, set_has_key @ 0, 0x20;
        /// Whether there is a sequence number (the S bit).
        has_sequence, set_has_sequence @ 0, 0x10;
    }
}

fields! {
    Packet {
        /// Type of what is carried.
        protocol, set_protocol: EtherType @ 2;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Octets of the header with its optional words.
    pub fn header_len(&self) -> usize {
        header_len(self.as_bytes())
    }

    fn key_at(&self) -> usize {
        HEADER_LEN + usize::from(self.has_checksum()) * 4
    }

    fn sequence_at(&self) -> usize {
        self.key_at() + usize::from(self.has_key()) * 4
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(array(self.as_bytes(), at))
    }

    /// The checksum over header and payload, if there is one.
    pub fn checksum(&self) -> Option<u16> {
        self.has_checksum().then(|| u16::get(self.as_bytes(), HEADER_LEN))
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<u32> {
        self.has_key().then(|| self.word(self.key_at()))
    }

    /// The sequence number, if there is one.
    pub fn sequence(&self) -> Option<u32> {
        self.has_sequence().then(|| self.word(self.sequence_at()))
    }

    /// What is carried.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), self.header_len(), usize::MAX)
    }

    /// Whether the checksum of the packet, which is the whole buffer, is right, or absent.
    pub fn verify_checksum(&self) -> bool {
        !self.has_checksum() || checksum::sum(self.as_bytes()) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes the key; does nothing when there is none.
    pub fn set_key(&mut self, key: u32) {
        if self.has_key() {
            let at = self.key_at();
            store(self.as_bytes_mut(), at, &key.to_be_bytes());
        }
    }

    /// Computes the checksum of the packet, which is the whole buffer, and stores it; does nothing
    /// when the packet has none.
    pub fn fill_checksum(&mut self) {
        if self.has_checksum() {
            0_u16.put(self.as_bytes_mut(), HEADER_LEN);
            let sum = checksum::checksum(self.as_bytes());
            sum.put(self.as_bytes_mut(), HEADER_LEN);
        }
    }
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Type of what is carried.
    pub protocol: EtherType,
    /// Whether there is a checksum.
    pub checksum: bool,
    /// Key.
    pub key: Option<u32>,
    /// Sequence number.
    pub sequence: Option<u32>,
}

impl Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        Ok(Repr {
            protocol: packet.protocol(),
            checksum: packet.has_checksum(),
            key: packet.key(),
            sequence: packet.sequence(),
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        let words = [self.checksum, self.key.is_some(), self.sequence.is_some()];
        HEADER_LEN + words.into_iter().filter(|there| *there).count() * 4
    }

    /// Writes the header, its checksum zero (see [`Packet::fill_checksum`]), to the front of
    /// `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let mut packet = Packet { buffer: room(WHAT, out, self.buffer_len())? };
        packet.set_has_checksum(self.checksum);
        packet.set_has_key(self.key.is_some());
        packet.set_has_sequence(self.sequence.is_some());
        packet.set_protocol(self.protocol);
        packet.set_key(self.key.unwrap_or(0));
        if let Some(sequence) = self.sequence {
            let at = packet.sequence_at();
            sequence.put(packet.as_bytes_mut(), at);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    #[test]
    fn every_combination_round_trips() {
        for bits in 0..8 {
            let repr = Repr {
                protocol: EtherType::IPV6,
                checksum: bits & 1 != 0,
                key: (bits & 2 != 0).then_some(0xdead_beef),
                sequence: (bits & 4 != 0).then_some(7),
            };
            let mut out = vec![0xff; repr.buffer_len() + 3];
            repr.emit(&mut out).unwrap();
            let mut packet = Packet::new_checked(&mut out[..]).unwrap();
            assert_eq!(Repr::parse(&packet), Ok(repr));
            assert_eq!(packet.payload(), &[0xff; 3]);
            packet.fill_checksum();
            assert!(packet.verify_checksum());
            packet.set_protocol(EtherType::IPV4);
            assert_eq!(packet.verify_checksum(), !repr.checksum);
            let len = repr.buffer_len();
            truncations(&out, len, |bytes| Packet::new_checked(bytes.to_vec()));
            assert!(repr.emit(&mut out[..len - 1]).is_err());
        }
    }

    #[test]
    fn refuses_what_it_does_not_speak() {
        let field = |bytes: [u8; 4]| match Packet::new_checked(bytes) {
            Err(Error::Field { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field([0x30, 0x01, 0x88, 0x0b]), "version");
        assert_eq!(field([0x40, 0, 8, 0]), "flags");
        assert_eq!(field([0x08, 0, 8, 0]), "flags");
        assert_eq!(field([0x04, 0, 8, 0]), "flags");
    }
}
