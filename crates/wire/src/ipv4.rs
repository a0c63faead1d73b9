//! IPv4 (RFC 791; DSCP and ECN as in RFC 2474 and RFC 3168).

use std::net::Ipv4Addr;

use crate::bytes::{Field, array, bits, fields, fits, flags, need, room, span, span_mut, view};
use crate::{Error, IpProtocol, checksum};

const WHAT: &str = "ipv4 header";

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;
/// Octets of the longest header.
pub const HEADER_LEN_MAX: usize = 60;

view! {
    /// A view of a datagram. Octets beyond its total length, such as Ethernet padding, may follow
    /// in the buffer and are not part of it.
    Packet, check
}

fn check_header(bytes: &[u8]) -> Result<usize, Error> {
    need(WHAT, bytes, 1)?;
    let field =
        |field, value: u8, want| Error::Field { what: WHAT, field, value: value.into(), want };
    if bytes[0] >> 4 != 4 {
        return Err(field("version", bytes[0] >> 4, "4"));
    }
    if bytes[0] & 0x0f < 5 {
        return Err(field("ihl", bytes[0] & 0x0f, "5 to 15 words of 4 octets"));
    }
    need(WHAT, bytes, HEADER_LEN)?;
    let header_len = usize::from(bytes[0] & 0x0f) * 4;
    need("ipv4 header with options", bytes, header_len)?;
    Ok(header_len)
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    let header_len = check_header(bytes)?;
    let total_len = u16::get(bytes, 2);
    if usize::from(total_len) < header_len {
        return Err(Error::Field {
            what: WHAT,
            field: "total length",
            value: total_len.into(),
            want: "at least the header's length",
        });
    }
    need("ipv4 datagram", bytes, total_len.into())
}

bits! {
    Packet {
        /// Version; 4 in a checked packet.
        version, set_version: u8 @ 0, 4, 0x0f;
        /// Internet header length, in words of 4 octets.
        ihl, set_ihl: u8 @ 0, 0, 0x0f;
        /// Differentiated services code point (RFC 2474), 0 to 63.
        dscp, set_dscp: u8 @ 1, 2, 0x3f;
        /// Explicit congestion notification (RFC 3168), 0 to 3.
        ecn, set_ecn: u8 @ 1, 0, 0x03;
        /// Fragment offset in units of 8 octets.
        fragment_offset_words, set_fragment_offset_words: u16 @ 6, 0, 0x1fff;
    }
}

flags! {
    Packet {
        /// Don't fragment.
        dont_fragment, set_dont_fragment @ 6, 0x40;
        /// More fragments follow.
        more_fragments, set_more_fragments @ 6, 0x20;
    }
}

fields! {
    Packet {
        /// Type of service: DSCP and ECN together.
        tos, set_tos: u8 @ 1;
        /// Octets of header and payload.
        total_len, set_total_len: u16 @ 2;
        /// Identification.
        ident, set_ident: u16 @ 4;
        /// Time to live.
        ttl, set_ttl: u8 @ 8;
        /// Protocol of the payload.
        protocol, set_protocol: IpProtocol @ 9;
        /// Header checksum.
        checksum, set_checksum: u16 @ 10;
        /// Source address.
        src, set_src: Ipv4Addr @ 12;
        /// Destination address; the next hop's, not the final one, where a source route is left.
        dst, set_dst: Ipv4Addr @ 16;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps `buffer` if the header is whole and consistent, though the payload may be cut short:
    /// for datagrams quoted by ICMP errors and for frames captured in part.
    ///
    /// # Errors
    /// As [`new_checked`](Self::new_checked), but for the total length.
    pub fn new_header_checked(buffer: T) -> Result<Self, Error> {
        check_header(buffer.as_ref())?;
        Ok(Packet { buffer })
    }

    /// Octets of the header with its options.
    pub fn header_len(&self) -> usize {
        usize::from(self.ihl()) * 4
    }

    /// Fragment offset in octets.
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragment_offset_words()) * 8
    }

    /// Whether this is a piece of a datagram, first, middle or last.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset_words() != 0
    }

    /// The options' octets, padding included.
    pub fn options_bytes(&self) -> &[u8] {
        span(self.as_bytes(), HEADER_LEN, self.header_len())
    }

    /// The options, one by one.
    pub fn options(&self) -> Options<'_> {
        Options { rest: self.options_bytes() }
    }

    /// Where a source route (RFC 791 §3.1) ends, or the destination if none is left to go: the
    /// address that a pseudo-header holds.
    pub fn final_dst(&self) -> Ipv4Addr {
        for option in self.options().flatten() {
            if matches!(option.kind, OPTION_LSRR | OPTION_SSRR) {
                // The pointer counts from 1 at the option's kind; past the option, none is left.
                let pointer = option.data.first().copied().map_or(0, usize::from);
                let route = option.data.get(1..).unwrap_or_default();
                if pointer < option.data.len() + 2
                    && let Some(last) = route.as_chunks::<4>().0.last()
                {
                    return Ipv4Addr::from(*last);
                }
            }
        }
        self.dst()
    }

    /// Whether the header's checksum is right.
    pub fn verify_checksum(&self) -> bool {
        checksum::sum(span(self.as_bytes(), 0, self.header_len())) == 0xffff
    }

    /// The payload, up to the total length.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), self.header_len(), self.total_len().into())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the header's checksum and stores it.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let sum = checksum::checksum(span(self.as_bytes(), 0, self.header_len()));
        self.set_checksum(sum);
    }

    /// As [`payload`](Self::payload), to be written to.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (from, to) = (self.header_len(), self.total_len().into());
        span_mut(self.as_bytes_mut(), from, to)
    }
}

/// End of options.
pub const OPTION_END: u8 = 0;
/// No operation.
pub const OPTION_NOP: u8 = 1;
/// Record route.
pub const OPTION_RECORD_ROUTE: u8 = 7;
/// Timestamp.
pub const OPTION_TIMESTAMP: u8 = 68;
/// Loose source and record route.
pub const OPTION_LSRR: u8 = 131;
/// Strict source and record route.
pub const OPTION_SSRR: u8 = 137;
/// Router alert (RFC 2113).
pub const OPTION_ROUTER_ALERT: u8 = 148;

/// An option: its kind, and its data without kind and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opt<'a> {
    /// Option type, with its copied flag and class.
    pub kind: u8,
    /// Data; empty for a no-operation.
    pub data: &'a [u8],
}

/// A walk over options (RFC 791 §3.1); ends at the end-of-options option, or after an error.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Begins at `bytes`, the octets after a header's first twenty.
    pub fn new(bytes: &'a [u8]) -> Self {
        Options { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        let (&kind, after) = rest.split_first()?;
        match kind {
            OPTION_END => None,
            OPTION_NOP => {
                self.rest = after;
                Some(Ok(Opt { kind, data: &[] }))
            }
            _ => Some(tlv("ipv4 option", rest).map(|(data, after)| {
                self.rest = after;
                Opt { kind, data }
            })),
        }
    }
}

/// Splits an option whose length octet counts kind and length too, as IPv4's and TCP's do.
pub(crate) fn tlv<'a>(what: &'static str, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Error> {
    need(what, bytes, 2)?;
    let len = bytes[1];
    if len < 2 {
        return Err(Error::Field { what, field: "length", value: len.into(), want: "at least 2" });
    }
    need(what, bytes, len.into())?;
    let (option, after) = bytes.split_at(len.into());
    Ok((&option[2..], after))
}

/// An IPv4 header as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repr {
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Explicit congestion notification, 0 to 3.
    pub ecn: u8,
    /// Identification.
    pub ident: u16,
    /// Don't fragment.
    pub dont_fragment: bool,
    /// More fragments follow.
    pub more_fragments: bool,
    /// Fragment offset in octets, a multiple of 8, at most 65528.
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: IpProtocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Options as they lie in the header: a multiple of 4 octets, at most 40.
    pub options: Vec<u8>,
    /// Octets of payload.
    pub payload_len: usize,
}

impl Repr {
    /// A header without options and fragmentation: TTL 64, best effort.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: IpProtocol, payload_len: usize) -> Self {
        Repr {
            dscp: 0,
            ecn: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            src,
            dst,
            options: Vec::new(),
            payload_len,
        }
    }

    /// Reads the header.
    ///
    /// # Errors
    /// Those of [`Packet::check`], and [`Error::Checksum`] for a wrong header checksum.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        if !packet.verify_checksum() {
            let mut header = span(packet.as_bytes(), 0, packet.header_len()).to_vec();
            0_u16.put(&mut header, 10);
            let expected = checksum::checksum(&header);
            return Err(Error::Checksum {
                what: WHAT,
                found: packet.checksum().into(),
                expected: expected.into(),
            });
        }
        Ok(Repr {
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset_words() << 3,
            ttl: packet.ttl(),
            protocol: packet.protocol(),
            src: packet.src(),
            dst: packet.dst(),
            options: packet.options_bytes().to_vec(),
            payload_len: packet.payload().len(),
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header, its checksum included, to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short; [`Error::TooLarge`] when a field, the options or
    /// the total length is; [`Error::Malformed`] for options or a fragment offset that are no
    /// multiple of their unit.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let len = self.buffer_len();
        fits(WHAT, "dscp", self.dscp.into(), 0x3f)?;
        fits(WHAT, "ecn", self.ecn.into(), 0x03)?;
        fits(WHAT, "options of length", self.options.len() as u64, 40)?;
        let total_len = len.saturating_add(self.payload_len);
        fits(WHAT, "total length", total_len as u64, 0xffff)?;
        if !self.options.len().is_multiple_of(4) {
            let why = "its options are no multiple of 4 octets; pad them with zeros";
            return Err(Error::Malformed { what: WHAT, why });
        }
        if !self.fragment_offset.is_multiple_of(8) {
            let why = "its fragment offset is no multiple of 8 octets";
            return Err(Error::Malformed { what: WHAT, why });
        }
        let mut packet = Packet { buffer: room(WHAT, out, len)? };
        packet.set_version(4);
        packet.set_ihl((len / 4) as u8);
        packet.set_dscp(self.dscp);
        packet.set_ecn(self.ecn);
        packet.set_total_len(total_len as u16);
        packet.set_ident(self.ident);
        packet.set_dont_fragment(self.dont_fragment);
        packet.set_more_fragments(self.more_fragments);
        packet.set_fragment_offset_words(self.fragment_offset >> 3);
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        packet.as_bytes_mut()[HEADER_LEN..].copy_from_slice(&self.options);
        packet.fill_checksum();
        Ok(())
    }
}

/// The addresses of a datagram as its pseudo-header holds them.
impl<T: AsRef<[u8]>> From<&Packet<T>> for checksum::Pseudo {
    fn from(packet: &Packet<T>) -> Self {
        checksum::Pseudo::V4 {
            src: Ipv4Addr::from(array::<4>(packet.as_bytes(), 12)),
            dst: packet.final_dst(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    fn sample() -> Repr {
        Repr {
            dscp: 46,
            ecn: 1,
            ident: 0x1234,
            more_fragments: true,
            dont_fragment: false,
            fragment_offset: 1480,
            options: vec![148, 4, 0, 0, 1, 1, 0, 0],
            ..Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), IpProtocol::UDP, 3)
        }
    }

    fn bytes(repr: &Repr) -> Vec<u8> {
        let mut out = vec![0xff; repr.buffer_len() + repr.payload_len + 2];
        repr.emit(&mut out).unwrap();
        out
    }

    #[test]
    fn round_trip() {
        let plain = Repr::new([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), IpProtocol::TCP, 0);
        for repr in [sample(), plain] {
            let out = bytes(&repr);
            let packet = Packet::new_checked(&out[..]).unwrap();
            assert!(packet.verify_checksum());
            assert_eq!(Repr::parse(&packet).unwrap(), repr);
            assert_eq!(packet.payload().len(), repr.payload_len);
        }
    }

    #[test]
    fn every_truncation() {
        let out = bytes(&sample());
        truncations(&out, 31, |bytes| Packet::new_checked(bytes.to_vec()));
        truncations(&out, 28, |bytes| Packet::new_header_checked(bytes.to_vec()));
    }

    #[test]
    fn lengths_that_lie() {
        let mut out = bytes(&sample());
        for ihl in 0..5 {
            out[0] = 0x40 | ihl;
            assert!(matches!(
                Packet::new_checked(&out[..]),
                Err(Error::Field { field: "ihl", .. })
            ));
        }
        out[0] = 0x65;
        assert!(matches!(
            Packet::new_checked(&out[..]),
            Err(Error::Field { field: "version", value: 6, .. })
        ));
        out[0] = 0x47;
        out[2..4].copy_from_slice(&[0, 27]);
        assert!(matches!(
            Packet::new_checked(&out[..]),
            Err(Error::Field { field: "total length", value: 27, .. })
        ));
        out[2..4].copy_from_slice(&[0xff, 0xff]);
        assert!(matches!(Packet::new_checked(&out[..]), Err(Error::Truncated { .. })));
    }

    #[test]
    fn wrong_checksum() {
        let mut out = bytes(&sample());
        let right = u32::from(u16::get(&out, 10));
        out[10] ^= 1;
        let packet = Packet::new_checked(&out[..]).unwrap();
        assert_eq!(
            Repr::parse(&packet),
            Err(Error::Checksum { what: WHAT, found: right ^ 0x100, expected: right })
        );
    }

    #[test]
    fn options_that_lie() {
        fn walk(bytes: &[u8]) -> Result<Vec<Opt<'_>>, Error> {
            Options::new(bytes).collect()
        }
        assert_eq!(walk(&[0, 9, 9, 9]).unwrap(), []);
        assert_eq!(walk(&[1, 1]).unwrap().len(), 2);
        assert_eq!(walk(&[148, 4, 0, 0]).unwrap(), [Opt { kind: 148, data: &[0, 0] }]);
        assert!(matches!(walk(&[7]), Err(Error::Truncated { need: 2, have: 1, .. })));
        assert!(matches!(walk(&[7, 0]), Err(Error::Field { field: "length", value: 0, .. })));
        assert!(matches!(walk(&[7, 1]), Err(Error::Field { field: "length", value: 1, .. })));
        assert!(matches!(walk(&[7, 5, 0, 0]), Err(Error::Truncated { need: 5, have: 4, .. })));
    }

    #[test]
    fn source_route_has_the_final_destination() {
        let mut repr = sample();
        repr.options = vec![131, 11, 4, 1, 1, 1, 1, 2, 2, 2, 2, 0];
        let out = bytes(&repr);
        let packet = Packet::new_checked(&out[..]).unwrap();
        assert_eq!(packet.final_dst(), Ipv4Addr::new(2, 2, 2, 2));
        repr.options[2] = 12; // Past the option: all hops are done.
        let out = bytes(&repr);
        assert_eq!(Packet::new_checked(&out[..]).unwrap().final_dst(), repr.dst);
    }

    #[test]
    fn refuses_to_emit_what_does_not_fit() {
        let mut out = [0; 100];
        let emit = |repr: Repr, out: &mut [u8]| repr.emit(out).unwrap_err();
        let e = emit(Repr { dscp: 64, ..sample() }, &mut out);
        assert!(matches!(e, Error::TooLarge { field: "dscp", .. }));
        let e = emit(Repr { options: vec![1; 44], ..sample() }, &mut out);
        assert!(matches!(e, Error::TooLarge { .. }));
        let e = emit(Repr { options: vec![1; 3], ..sample() }, &mut out);
        assert!(matches!(e, Error::Malformed { .. }));
        let e = emit(Repr { fragment_offset: 4, ..sample() }, &mut out);
        assert!(matches!(e, Error::Malformed { .. }));
        let e = emit(Repr { payload_len: usize::MAX, ..sample() }, &mut out);
        assert!(matches!(e, Error::TooLarge { field: "total length", .. }));
        let e = emit(sample(), &mut out[..27]);
        assert!(matches!(e, Error::NoRoom { need: 28, have: 27, .. }));
    }
}
