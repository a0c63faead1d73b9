//! GTP-U, the user plane of the GPRS tunnelling protocol (3GPP TS 29.281 §5).

use crate::Error;
use crate::bytes::{Field, fields, fits, flags, need, room, span, store, view};

const WHAT: &str = "gtp-u header";

/// Octets of a header without optional fields.
pub const HEADER_LEN: usize = 8;
/// Message type of a carried user packet (G-PDU).
pub const G_PDU: u8 = 255;
/// Message type of an echo request.
pub const ECHO_REQUEST: u8 = 1;
/// Message type of an echo response.
pub const ECHO_RESPONSE: u8 = 2;
/// Message type of an error indication.
pub const ERROR_INDICATION: u8 = 26;
/// Message type of an end marker.
pub const END_MARKER: u8 = 254;
/// Extension header type of a PDU session container (3GPP TS 38.415).
pub const EXTENSION_PDU_SESSION: u8 = 0x85;

view! {
    /// A view of a message. Octets beyond its length may follow in the buffer and are not part
    /// of it.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)?;
    let (version, protocol) = (bytes[0] >> 5, bytes[0] >> 4 & 1);
    if version != 1 {
        let value = version.into();
        return Err(Error::Field { what: WHAT, field: "version", value, want: "1" });
    }
    if protocol != 1 {
        let want = "1 (GTP; 0 is GTP')";
        return Err(Error::Field { what: WHAT, field: "protocol type", value: 0, want });
    }
    let len = u16::get(bytes, 2);
    if bytes[0] & 7 != 0 && len < 4 {
        let want = "at least 4, for the optional fields";
        return Err(Error::Field { what: WHAT, field: "length", value: len.into(), want });
    }
    need("gtp-u message", bytes, HEADER_LEN + usize::from(len))?;
    let view = Packet { buffer: bytes };
    view.extensions().try_for_each(|extension| extension.map(drop))
}

flags! {
    Packet {
        /// Whether the next extension header type counts (the E flag).
        has_extensions, set_has_extensions @ 0, 0x04;
        /// Whether the sequence number counts (the S flag).
        has_sequence, set_has_sequence @ 0, 0x02;
        /// Whether the N-PDU number counts (the PN flag).
        has_npdu, set_has_npdu @ 0, 0x01;
    }
}

fields! {
    Packet {
        /// Message type.
        kind, set_kind: u8 @ 1;
        /// Octets after the first 8: optional fields, extension headers and payload.
        len, set_len: u16 @ 2;
        /// Tunnel endpoint identifier.
        teid, set_teid: u32 @ 4;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    fn has_optional(&self) -> bool {
        u8::get(self.as_bytes(), 0) & 7 != 0
    }

    /// Whether nothing follows the first 8 octets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sequence number, if it counts.
    pub fn sequence(&self) -> Option<u16> {
        self.has_sequence().then(|| u16::get(self.as_bytes(), 8))
    }

    /// The N-PDU number, if it counts.
    pub fn npdu(&self) -> Option<u8> {
        self.has_npdu().then(|| u8::get(self.as_bytes(), 10))
    }

    /// The extension headers, one by one.
    pub fn extensions(&self) -> Extensions<'_> {
        let next = if self.has_extensions() { u8::get(self.as_bytes(), 11) } else { 0 };
        let end = HEADER_LEN + usize::from(self.len());
        Extensions { next, rest: span(self.as_bytes(), 12, end) }
    }

    /// Octets before the payload: header, optional fields and extension headers.
    pub fn header_len(&self) -> usize {
        let extensions: usize =
            self.extensions().flatten().map(|extension| 2 + extension.data.len()).sum();
        HEADER_LEN + usize::from(self.has_optional()) * 4 + extensions
    }

    /// The payload: of a G-PDU the user's packet, else information elements.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), self.header_len(), HEADER_LEN + usize::from(self.len()))
    }
}

/// An extension header (3GPP TS 29.281 §5.2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension<D = Vec<u8>> {
    /// Extension header type; the two highest bits say who must understand it.
    pub kind: u8,
    /// Content, without length and next type: 2 octets less than a multiple of 4, at most 1018.
    pub data: D,
}

/// A walk over extension headers; ends after an error.
#[derive(Debug, Clone, Copy)]
pub struct Extensions<'a> {
    next: u8,
    rest: &'a [u8],
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<&'a [u8]>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let kind = std::mem::take(&mut self.next);
        if kind == 0 {
            return None;
        }
        let what = "gtp-u extension header";
        let len = usize::from(u8::get(self.rest, 0)) * 4;
        if len == 0 && !self.rest.is_empty() {
            let want = "at least 1 word of 4 octets";
            return Some(Err(Error::Field { what, field: "length", value: 0, want }));
        }
        Some(need(what, self.rest, len.max(4)).map(|()| {
            let (extension, after) = self.rest.split_at(len);
            self.rest = after;
            self.next = extension[len - 1];
            Extension { kind, data: &extension[1..len - 1] }
        }))
    }
}

/// A header as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repr {
    /// Message type.
    pub kind: u8,
    /// Tunnel endpoint identifier.
    pub teid: u32,
    /// Sequence number.
    pub sequence: Option<u16>,
    /// N-PDU number.
    pub npdu: Option<u8>,
    /// Extension headers, in order; none has type 0, which ends them.
    pub extensions: Vec<Extension>,
    /// Octets of payload.
    pub payload_len: usize,
}

impl Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        let extensions = packet
            .extensions()
            .map(|e| e.map(|e| Extension { kind: e.kind, data: e.data.to_vec() }));
        Ok(Repr {
            kind: packet.kind(),
            teid: packet.teid(),
            sequence: packet.sequence(),
            npdu: packet.npdu(),
            extensions: extensions.collect::<Result<_, _>>()?,
            payload_len: packet.payload().len(),
        })
    }

    fn has_optional(&self) -> bool {
        self.sequence.is_some() || self.npdu.is_some() || !self.extensions.is_empty()
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        let extensions: usize = self.extensions.iter().map(|e| 2 + e.data.len()).sum();
        HEADER_LEN + usize::from(self.has_optional()) * 4 + extensions
    }

    /// Writes the header to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] when an extension header or
    /// the message is, [`Error::Malformed`] for an extension header of type 0, or one whose length
    /// does not fill words.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let what = "gtp-u extension header";
        for extension in &self.extensions {
            fits(what, "length", extension.data.len() as u64, 255 * 4 - 2)?;
            if extension.kind == 0 {
                return Err(Error::Malformed { what, why: "its type is 0, which ends the list" });
            }
            if extension.data.len() % 4 != 2 {
                let why = "its content is not 2 octets less than a multiple of 4; pad it";
                return Err(Error::Malformed { what, why });
            }
        }
        let header_len = self.buffer_len();
        let len = (header_len - HEADER_LEN).saturating_add(self.payload_len);
        fits(WHAT, "length", len as u64, 0xffff)?;
        let out = room(WHAT, out, header_len)?;
        out[0] = 0x30;
        let mut packet = Packet { buffer: &mut *out };
        packet.set_has_extensions(!self.extensions.is_empty());
        packet.set_has_sequence(self.sequence.is_some());
        packet.set_has_npdu(self.npdu.is_some());
        packet.set_kind(self.kind);
        packet.set_len(len as u16);
        packet.set_teid(self.teid);
        if self.has_optional() {
            self.sequence.unwrap_or(0).put(out, 8);
            self.npdu.unwrap_or(0).put(out, 10);
        }
        // Each extension's type lies in the last octet of what comes before it.
        let mut at = 12;
        for extension in &self.extensions {
            let len = extension.data.len() + 2;
            extension.kind.put(out, at - 1);
            ((len / 4) as u8).put(out, at);
            store(out, at + 1, &extension.data);
            at += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    fn sample() -> Repr {
        Repr {
            kind: G_PDU,
            teid: 0xdead_beef,
            sequence: Some(7),
            npdu: Some(9),
            extensions: vec![
                Extension { kind: EXTENSION_PDU_SESSION, data: vec![0x00, 0x09] },
                Extension { kind: 0x40, data: vec![1; 6] },
            ],
            payload_len: 5,
        }
    }

    #[test]
    fn round_trip() {
        let plain = Repr { sequence: None, npdu: None, extensions: vec![], ..sample() };
        let sequence = Repr { sequence: Some(0), ..plain.clone() };
        let extension = Repr { sequence: None, npdu: None, ..sample() };
        for repr in [sample(), plain, sequence, extension] {
            let mut out = vec![0xff; repr.buffer_len() + repr.payload_len];
            repr.emit(&mut out).unwrap();
            let packet = Packet::new_checked(&out[..]).unwrap();
            assert_eq!(Repr::parse(&packet).unwrap(), repr);
            assert_eq!(packet.header_len(), repr.buffer_len());
            assert_eq!(packet.payload(), &[0xff; 5]);
            truncations(&out, out.len(), |bytes| Packet::new_checked(bytes.to_vec()));
        }
    }

    #[test]
    fn lies() {
        let mut out = vec![0; sample().buffer_len() + 5];
        sample().emit(&mut out).unwrap();
        let refused = |at: usize, value: u8| {
            let mut bytes = out.clone();
            bytes[at] = value;
            Packet::new_checked(bytes).map(drop).unwrap_err()
        };
        assert!(matches!(refused(0, 0x57), Error::Field { field: "version", value: 2, .. }));
        assert!(matches!(refused(0, 0x27), Error::Field { field: "protocol type", .. }));
        assert!(matches!(refused(3, 3), Error::Field { field: "length", value: 3, .. }));
        assert!(matches!(refused(12, 0), Error::Field { field: "length", value: 0, .. }));
        assert!(matches!(refused(12, 255), Error::Truncated { need: 1020, .. }));
        // The last extension announces another, which begins in the payload's zeros.
        assert!(matches!(refused(23, 1), Error::Field { field: "length", value: 0, .. }));

        let bad = |data, kind| Repr { extensions: vec![Extension { kind, data }], ..sample() };
        assert!(matches!(bad(vec![0; 3], 1).emit(&mut out), Err(Error::Malformed { .. })));
        assert!(matches!(bad(vec![0; 2], 0).emit(&mut out), Err(Error::Malformed { .. })));
        assert!(matches!(bad(vec![0; 1022], 1).emit(&mut out), Err(Error::TooLarge { .. })));
    }
}
