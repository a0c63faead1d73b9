//! SCTP: the common header and the walk over chunks (RFC 9260 §3).

use crate::Error;
use crate::bytes::{Field, array, fields, need, room, span, store, view};
use crate::crc32c::Crc32c;

const WHAT: &str = "sctp header";

/// Octets of the common header.
pub const HEADER_LEN: usize = 12;
/// Where the checksum lies in the header.
pub const CHECKSUM_AT: usize = 8;

view! {
    /// A view of a packet: common header and chunks.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)
}

fields! {
    Packet {
        /// Source port.
        src_port, set_src_port: u16 @ 0;
        /// Destination port.
        dst_port, set_dst_port: u16 @ 2;
        /// Verification tag.
        tag, set_tag: u32 @ 4;
    }
}

/// The CRC32c of `packet` with its checksum field taken as zero (RFC 9260 §6.8).
pub fn checksum(packet: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.add_bytes(span(packet, 0, CHECKSUM_AT));
    crc.add_bytes(&[0; 4]);
    crc.add_bytes(span(packet, HEADER_LEN, usize::MAX));
    crc.finish()
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The checksum, which lies least significant octet first.
    pub fn checksum(&self) -> u32 {
        u32::from_le_bytes(array(self.as_bytes(), CHECKSUM_AT))
    }

    /// Whether the checksum of the packet, which is the whole buffer, is right.
    pub fn verify_checksum(&self) -> bool {
        self.checksum() == checksum(self.as_bytes())
    }

    /// What follows the common header: the chunks.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), HEADER_LEN, usize::MAX)
    }

    /// The chunks, one by one.
    pub fn chunks(&self) -> Chunks<'_> {
        Chunks { rest: self.payload() }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Stores a checksum, least significant octet first.
    pub fn set_checksum(&mut self, value: u32) {
        store(self.as_bytes_mut(), CHECKSUM_AT, &value.to_le_bytes());
    }

    /// Computes the checksum of the packet, which is the whole buffer, and stores it.
    pub fn fill_checksum(&mut self) {
        let value = checksum(self.as_bytes());
        self.set_checksum(value);
    }
}

/// A chunk (RFC 9260 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Chunk type: 0 DATA, 1 INIT, 2 INIT ACK, 3 SACK, ...
    pub kind: u8,
    /// Flags, by type.
    pub flags: u8,
    /// Value, without padding.
    pub data: &'a [u8],
}

impl Chunk<'_> {
    /// The type's name in RFC 9260 §3.2, in lower case.
    pub fn name(&self) -> Option<&'static str> {
        let names = [
            "data",
            "init",
            "init-ack",
            "sack",
            "heartbeat",
            "heartbeat-ack",
            "abort",
            "shutdown",
            "shutdown-ack",
            "error",
            "cookie-echo",
            "cookie-ack",
            "ecne",
            "cwr",
            "shutdown-complete",
        ];
        names.get(usize::from(self.kind)).copied()
    }
}

/// A walk over chunks, each padded to a multiple of 4 octets; ends after an error.
#[derive(Debug, Clone, Copy)]
pub struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        let what = "sctp chunk";
        if let Err(error) = need(what, rest, 4) {
            return Some(Err(error));
        }
        let len = usize::from(u16::get(rest, 2));
        if len < 4 {
            let value = len as u64;
            return Some(Err(Error::Field { what, field: "length", value, want: "at least 4" }));
        }
        if let Err(error) = need(what, rest, len) {
            return Some(Err(error));
        }
        // The last chunk's padding may be missing: senders differ on whether it counts.
        self.rest = span(rest, len.next_multiple_of(4), usize::MAX);
        Some(Ok(Chunk { kind: rest[0], flags: rest[1], data: &rest[4..len] }))
    }
}

/// A common header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Verification tag.
    pub tag: u32,
}

impl Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        Ok(Repr { src_port: packet.src_port(), dst_port: packet.dst_port(), tag: packet.tag() })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, its checksum zero (see [`Packet::fill_checksum`]), to the front of
    /// `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let mut packet = Packet { buffer: room(WHAT, out, HEADER_LEN)? };
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_tag(self.tag);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    #[test]
    fn round_trip_and_checksum() {
        let repr = Repr { src_port: 1, dst_port: 2, tag: 0xabad_cafe };
        let mut out = vec![0xff; 12];
        repr.emit(&mut out).unwrap();
        out.extend([1, 0, 0, 6, 0xaa, 0xbb, 0, 0, 11, 0, 0, 4]);
        let mut packet = Packet::new_checked(&mut out[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr));
        packet.fill_checksum();
        assert!(packet.verify_checksum());
        let chunks: Vec<_> = packet.chunks().map(Result::unwrap).collect();
        assert_eq!(chunks[0], Chunk { kind: 1, flags: 0, data: &[0xaa, 0xbb] });
        assert_eq!(chunks[1].name(), Some("cookie-ack"));
        packet.set_tag(0);
        assert!(!packet.verify_checksum());
        truncations(&out, 12, |bytes| Packet::new_checked(bytes.to_vec()));
    }

    #[test]
    fn chunks_that_lie() {
        let walk = |bytes: &[u8]| Chunks { rest: bytes }.map(|c| c.is_ok()).collect::<Vec<_>>();
        assert_eq!(walk(&[0, 0, 0]), [false]);
        assert_eq!(walk(&[0, 0, 0, 3, 0, 0]), [false]);
        assert_eq!(walk(&[0, 0, 0, 9, 0, 0, 0, 0]), [false]);
        assert_eq!(walk(&[0, 0, 0, 5, 7]), [true]);
        assert_eq!(walk(&[0, 0, 0, 5, 7, 0, 0, 0, 1]), [true, false]);
    }
}
