//! TCP (RFC 9293 §3.1).

use std::fmt;

use crate::bytes::{Field, bits, fields, fits, need, room, span, view};
use crate::checksum::Pseudo;
use crate::ipv4::tlv;
use crate::{Error, IpProtocol};

const WHAT: &str = "tcp header";

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;
/// Octets of the longest header.
pub const HEADER_LEN_MAX: usize = 60;
/// Where the checksum lies in the header.
pub const CHECKSUM_AT: usize = 16;

view! {
    /// A view of a segment.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)?;
    let data_offset = bytes[12] >> 4;
    if data_offset < 5 {
        return Err(Error::Field {
            what: WHAT,
            field: "data offset",
            value: data_offset.into(),
            want: "5 to 15 words of 4 octets",
        });
    }
    need("tcp header with options", bytes, usize::from(data_offset) * 4)
}

fields! {
    Packet {
        /// Source port.
        src_port, set_src_port: u16 @ 0;
        /// Destination port.
        dst_port, set_dst_port: u16 @ 2;
        /// Sequence number.
        seq, set_seq: u32 @ 4;
        /// Acknowledgment number.
        ack, set_ack: u32 @ 8;
        /// Window, not scaled.
        window, set_window: u16 @ 14;
        /// Checksum over pseudo-header, header and payload.
        checksum, set_checksum: u16 @ 16;
        /// Urgent pointer.
        urgent, set_urgent: u16 @ 18;
    }
}

bits! {
    Packet {
        /// Data offset in words of 4 octets.
        data_offset, set_data_offset: u8 @ 12, 4, 0x0f;
        /// The flags' bits; see [`Flags`].
        flags_bits, set_flags_bits: u16 @ 12, 0, 0x01ff;
    }
}

/// The control bits (RFC 9293 §3.1; bit 8 is AccECN's AE, formerly NS of RFC 3540).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x002);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x004);
    /// Push.
    pub const PSH: Flags = Flags(0x008);
    /// The acknowledgment number counts.
    pub const ACK: Flags = Flags(0x010);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(0x020);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x080);
    /// Accurate ECN.
    pub const AE: Flags = Flags(0x100);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// One letter each, lowest bit first, with `.` for ACK: `S`, `S.`, `F.`, `P.`; `none` for none.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 & 0x1ff == 0 {
            return f.write_str("none");
        }
        for (bit, letter) in ["F", "S", "R", "P", ".", "U", "E", "W", "A"].iter().enumerate() {
            if self.0 >> bit & 1 != 0 {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Octets of the header with its options.
    pub fn header_len(&self) -> usize {
        usize::from(self.data_offset()) * 4
    }

    /// The control bits.
    pub fn flags(&self) -> Flags {
        Flags(self.flags_bits())
    }

    /// The options' octets, padding included.
    pub fn options_bytes(&self) -> &[u8] {
        span(self.as_bytes(), HEADER_LEN, self.header_len())
    }

    /// The options, one by one.
    pub fn options(&self) -> Options<'_> {
        Options { rest: self.options_bytes() }
    }

    /// The payload: what follows the header.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), self.header_len(), usize::MAX)
    }

    /// Whether the checksum of the segment, which is the whole buffer, is right.
    pub fn verify_checksum(&self, pseudo: &Pseudo) -> bool {
        pseudo.sum_over(IpProtocol::TCP, self.as_bytes()) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum of the segment, which is the whole buffer, and stores it.
    pub fn fill_checksum(&mut self, pseudo: &Pseudo) {
        self.set_checksum(0);
        let checksum = pseudo.checksum(IpProtocol::TCP, self.as_bytes());
        self.set_checksum(checksum);
    }

    /// Sets the control bits.
    pub fn set_flags(&mut self, flags: Flags) {
        self.set_flags_bits(flags.0);
    }
}

/// A TCP option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opt<'a> {
    /// No operation: padding.
    Nop,
    /// Maximum segment size in octets (RFC 9293 §3.7.1).
    MaxSegmentSize(u16),
    /// Window scale: the shift (RFC 7323 §2).
    WindowScale(u8),
    /// Selective acknowledgment permitted (RFC 2018 §2).
    SackPermitted,
    /// Blocks received: pairs of left and right edges, 8 octets each (RFC 2018 §3).
    Sack(&'a [[u8; 8]]),
    /// Timestamps (RFC 7323 §3).
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The peer's clock, echoed.
        echo: u32,
    },
    /// Another kind, or a known one with a length that is not its own.
    Other {
        /// Option kind.
        kind: u8,
        /// Data, without kind and length.
        data: &'a [u8],
    },
}

/// A walk over options (RFC 9293 §3.2); ends at the end-of-options option, or after an error.
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
        match *rest.first()? {
            0 => None,
            1 => {
                self.rest = &rest[1..];
                Some(Ok(Opt::Nop))
            }
            kind => Some(tlv("tcp option", rest).map(|(data, after)| {
                self.rest = after;
                match (kind, data) {
                    (2, &[a, b]) => Opt::MaxSegmentSize(u16::from_be_bytes([a, b])),
                    (3, &[shift]) => Opt::WindowScale(shift),
                    (4, &[]) => Opt::SackPermitted,
                    (5, blocks) if !blocks.is_empty() && blocks.len().is_multiple_of(8) => {
                        Opt::Sack(blocks.as_chunks().0)
                    }
                    (8, data) if data.len() == 8 => {
                        Opt::Timestamps { value: u32::get(data, 0), echo: u32::get(data, 4) }
                    }
                    _ => Opt::Other { kind, data },
                }
            })),
        }
    }
}

/// A TCP header as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options as they lie in the header: a multiple of 4 octets, at most 40.
    pub options: Vec<u8>,
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
            seq: packet.seq(),
            ack: packet.ack(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
            options: packet.options_bytes().to_vec(),
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header, its checksum zero (see [`Packet::fill_checksum`]), to the front of
    /// `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] when flags or options are,
    /// [`Error::Malformed`] for options that are no multiple of 4 octets.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        fits(WHAT, "flags", self.flags.0.into(), 0x1ff)?;
        fits(WHAT, "options of length", self.options.len() as u64, 40)?;
        if !self.options.len().is_multiple_of(4) {
            let why = "its options are no multiple of 4 octets; pad them with zeros";
            return Err(Error::Malformed { what: WHAT, why });
        }
        let len = self.buffer_len();
        let mut packet = Packet { buffer: room(WHAT, out, len)? };
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_seq(self.seq);
        packet.set_ack(self.ack);
        packet.set_data_offset((len / 4) as u8);
        packet.set_flags(self.flags);
        packet.set_window(self.window);
        packet.set_urgent(self.urgent);
        packet.as_bytes_mut()[HEADER_LEN..].copy_from_slice(&self.options);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;
    use std::net::Ipv4Addr;

    fn sample() -> Repr {
        Repr {
            src_port: 1000,
            dst_port: 80,
            seq: 0x0102_0304,
            ack: 0xfffe_fdfc,
            flags: Flags::SYN | Flags::ACK | Flags::AE,
            window: 29200,
            urgent: 7,
            options: vec![2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7],
        }
    }

    #[test]
    fn round_trip_and_options() {
        let repr = sample();
        let mut out = [0xff; 43];
        repr.emit(&mut out).unwrap();
        let mut packet = Packet::new_checked(&mut out[..]).unwrap();
        assert_eq!(Repr::parse(&packet).unwrap(), repr);
        assert_eq!(packet.payload(), &[0xff; 3]);
        assert_eq!(
            packet.options().map(Result::unwrap).collect::<Vec<_>>(),
            [
                Opt::MaxSegmentSize(1460),
                Opt::SackPermitted,
                Opt::Timestamps { value: 1, echo: 2 },
                Opt::Nop,
                Opt::WindowScale(7),
            ]
        );
        let pseudo = Pseudo::from((Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST));
        packet.fill_checksum(&pseudo);
        assert!(packet.verify_checksum(&pseudo));
        packet.set_window(1);
        assert!(!packet.verify_checksum(&pseudo));
        truncations(&out, 40, |bytes| Packet::new_checked(bytes.to_vec()));
    }

    #[test]
    fn lies() {
        let mut out = [0; 40];
        sample().emit(&mut out).unwrap();
        out[12] = 0x4f;
        assert!(matches!(
            Packet::new_checked(&out[..]),
            Err(Error::Field { field: "data offset", value: 4, .. })
        ));
        let walk = |bytes: &[u8]| Options::new(bytes).map(|o| o.is_ok()).collect::<Vec<_>>();
        assert_eq!(walk(&[2]), [false]);
        assert_eq!(walk(&[2, 0, 1, 1]), [false]);
        assert_eq!(walk(&[1, 2, 5, 1, 1]), [true, false]);
        assert_eq!(walk(&[0, 2, 0]), [] as [bool; 0]);
        let odd: Vec<_> = Options::new(&[2, 3, 9, 5, 3, 1]).map(Result::unwrap).collect();
        assert_eq!(odd, [Opt::Other { kind: 2, data: &[9] }, Opt::Other { kind: 5, data: &[1] }]);
    }

    #[test]
    fn refuses_to_emit_what_does_not_fit() {
        let mut out = [0; 100];
        assert!(Repr { options: vec![1; 44], ..sample() }.emit(&mut out).is_err());
        assert!(Repr { options: vec![1; 5], ..sample() }.emit(&mut out).is_err());
        assert!(Repr { flags: Flags(0x200), ..sample() }.emit(&mut out).is_err());
        assert!(sample().emit(&mut out[..39]).is_err());
    }

    #[test]
    fn flags_print() {
        assert_eq!((Flags::SYN | Flags::ACK).to_string(), "S.");
        assert_eq!(Flags::default().to_string(), "none");
        assert_eq!(Flags(0x1ff).to_string(), "FSRP.UEWA");
        assert!(Flags(0x12).contains(Flags::SYN) && !Flags(0x10).contains(Flags::SYN));
    }
}
