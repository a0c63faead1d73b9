//! ICMP for IPv6 (RFC 4443). Neighbour discovery's messages are in [`ndp`](crate::ndp).

use crate::bytes::{Field, fields, need, room, span, view};
use crate::checksum::Pseudo;
use crate::{Error, IpProtocol};

const WHAT: &str = "icmpv6 header";

/// Octets of the header, the message's own first four included.
pub const HEADER_LEN: usize = 8;
/// Where the checksum lies in the header.
pub const CHECKSUM_AT: usize = 2;

/// Destination unreachable.
pub const DEST_UNREACHABLE: u8 = 1;
/// Packet too big.
pub const PACKET_TOO_BIG: u8 = 2;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Router solicitation (RFC 4861 §4.1).
pub const ROUTER_SOLICITATION: u8 = 133;
/// Router advertisement (RFC 4861 §4.2).
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Neighbour solicitation (RFC 4861 §4.3).
pub const NEIGHBOR_SOLICITATION: u8 = 135;
/// Neighbour advertisement (RFC 4861 §4.4).
pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
/// Redirect (RFC 4861 §4.5).
pub const REDIRECT: u8 = 137;

view! {
    /// A view of a message. Every assigned type has a body of at least 4 octets, which the view
    /// asks for.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)
}

fields! {
    Packet {
        /// Type; below 128 an error.
        kind, set_kind: u8 @ 0;
        /// Code, by type.
        code, set_code: u8 @ 1;
        /// Checksum over pseudo-header and message.
        checksum, set_checksum: u16 @ 2;
        /// The second word, whose meaning depends on the type.
        rest, set_rest: u32 @ 4;
        /// Identifier, of echo.
        ident, set_ident: u16 @ 4;
        /// Sequence number, of echo.
        sequence, set_sequence: u16 @ 6;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// What follows the first 8 octets.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), HEADER_LEN, usize::MAX)
    }

    /// Whether this is an error, which quotes the packet that caused it (RFC 4443 §2.1).
    pub fn is_error(&self) -> bool {
        self.kind() < 128
    }

    /// Whether this is one of neighbour discovery's five messages.
    pub fn is_ndp(&self) -> bool {
        matches!(self.kind(), ROUTER_SOLICITATION..=REDIRECT)
    }

    /// Whether the checksum of the message, which is the whole buffer, is right.
    pub fn verify_checksum(&self, pseudo: &Pseudo) -> bool {
        pseudo.sum_over(IpProtocol::ICMPV6, self.as_bytes()) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum of the message, which is the whole buffer, and stores it.
    pub fn fill_checksum(&mut self, pseudo: &Pseudo) {
        self.set_checksum(0);
        let sum = pseudo.checksum(IpProtocol::ICMPV6, self.as_bytes());
        self.set_checksum(sum);
    }
}

/// An ICMPv6 header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repr {
    /// Echo request.
    EchoRequest {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// Echo reply.
    EchoReply {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// Destination unreachable.
    DestUnreachable {
        /// Why: 0 no route, 1 prohibited, 3 address, 4 port, ...
        code: u8,
    },
    /// Packet too big.
    PacketTooBig {
        /// The next link's MTU in octets.
        mtu: u32,
    },
    /// Time exceeded.
    TimeExceeded {
        /// 0 in transit, 1 in reassembly.
        code: u8,
    },
    /// Parameter problem.
    ParameterProblem {
        /// 0 a field, 1 a next header, 2 an option.
        code: u8,
        /// Octet of the quoted packet where the problem lies.
        pointer: u32,
    },
    /// Another type; its first 8 octets.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The second word.
        rest: u32,
    },
}

impl Repr {
    /// Reads the header. Of a known type, bits that it does not use are dropped.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        let (code, rest) = (packet.code(), packet.rest());
        let (ident, sequence) = (packet.ident(), packet.sequence());
        Ok(match (packet.kind(), code) {
            (ECHO_REQUEST, 0) => Repr::EchoRequest { ident, sequence },
            (ECHO_REPLY, 0) => Repr::EchoReply { ident, sequence },
            (DEST_UNREACHABLE, _) => Repr::DestUnreachable { code },
            (PACKET_TOO_BIG, 0) => Repr::PacketTooBig { mtu: rest },
            (TIME_EXCEEDED, _) => Repr::TimeExceeded { code },
            (PARAMETER_PROBLEM, _) => Repr::ParameterProblem { code, pointer: rest },
            (kind, _) => Repr::Other { kind, code, rest },
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
    /// [`Error::NoRoom`] when `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let echo = |ident: u16, sequence: u16| u32::from(ident) << 16 | u32::from(sequence);
        let (kind, code, rest) = match *self {
            Repr::EchoRequest { ident, sequence } => (ECHO_REQUEST, 0, echo(ident, sequence)),
            Repr::EchoReply { ident, sequence } => (ECHO_REPLY, 0, echo(ident, sequence)),
            Repr::DestUnreachable { code } => (DEST_UNREACHABLE, code, 0),
            Repr::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu),
            Repr::TimeExceeded { code } => (TIME_EXCEEDED, code, 0),
            Repr::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, pointer),
            Repr::Other { kind, code, rest } => (kind, code, rest),
        };
        let out = room(WHAT, out, HEADER_LEN)?;
        kind.put(out, 0);
        code.put(out, 1);
        rest.put(out, 4);
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
        for repr in [
            Repr::EchoRequest { ident: 1, sequence: 2 },
            Repr::EchoReply { ident: 0xffff, sequence: 0 },
            Repr::DestUnreachable { code: 4 },
            Repr::PacketTooBig { mtu: 1280 },
            Repr::TimeExceeded { code: 0 },
            Repr::ParameterProblem { code: 1, pointer: 40 },
            Repr::Other { kind: 143, code: 0, rest: 1 },
        ] {
            let mut out = [0xff; 11];
            repr.emit(&mut out).unwrap();
            let mut packet = Packet::new_checked(&mut out[..]).unwrap();
            assert_eq!(Repr::parse(&packet), Ok(repr));
            let pseudo = Pseudo::from((Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST));
            packet.fill_checksum(&pseudo);
            assert!(packet.verify_checksum(&pseudo));
            packet.set_code(packet.code() ^ 1);
            assert!(!packet.verify_checksum(&pseudo));
            truncations(&out, 8, |bytes| Packet::new_checked(bytes.to_vec()));
            assert!(repr.emit(&mut out[..7]).is_err());
        }
    }
}
