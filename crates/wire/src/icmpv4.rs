//! ICMP for IPv4 (RFC 792; next-hop MTU, RFC 1191 §4).

use std::net::Ipv4Addr;

use crate::bytes::{Field, fields, need, room, span, view};
use crate::{Error, checksum};

const WHAT: &str = "icmp header";

/// Octets of the header, the message's own four included.
pub const HEADER_LEN: usize = 8;
/// Where the checksum lies in the header.
pub const CHECKSUM_AT: usize = 2;

/// Echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Destination unreachable.
pub const DEST_UNREACHABLE: u8 = 3;
/// Redirect.
pub const REDIRECT: u8 = 5;
/// Echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;

view! {
    /// A view of a message.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, HEADER_LEN)
}

fields! {
    Packet {
        /// Type.
        kind, set_kind: u8 @ 0;
        /// Code, by type.
        code, set_code: u8 @ 1;
        /// Checksum over the message, without a pseudo-header.
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
    /// What follows the header: the echo's data, or the datagram an error quotes.
    pub fn payload(&self) -> &[u8] {
        span(self.as_bytes(), HEADER_LEN, usize::MAX)
    }

    /// Whether this is an error, which quotes the datagram that caused it (RFC 1122 §3.2.2).
    pub fn is_error(&self) -> bool {
        // 4 is source quench, which RFC 6633 retires.
        matches!(self.kind(), DEST_UNREACHABLE | 4 | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
    }

    /// Whether the checksum of the message, which is the whole buffer, is right.
    pub fn verify_checksum(&self) -> bool {
        checksum::sum(self.as_bytes()) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum of the message, which is the whole buffer, and stores it.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let sum = checksum::checksum(self.as_bytes());
        self.set_checksum(sum);
    }
}

/// An ICMP header as a value.
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
        /// Which part of it: 0 net, 1 host, 2 protocol, 3 port, 4 fragmentation needed, ...
        code: u8,
        /// Next-hop MTU in octets, with code 4; else 0.
        mtu: u16,
    },
    /// Time exceeded.
    TimeExceeded {
        /// 0 in transit, 1 in reassembly.
        code: u8,
    },
    /// Redirect.
    Redirect {
        /// 0 for the net, 1 for the host, 2 and 3 with type of service.
        code: u8,
        /// The better gateway.
        gateway: Ipv4Addr,
    },
    /// Parameter problem.
    ParameterProblem {
        /// 0: the pointer says where.
        code: u8,
        /// Octet of the quoted header where the problem lies.
        pointer: u8,
    },
    /// Another type.
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
            (DEST_UNREACHABLE, _) => Repr::DestUnreachable { code, mtu: rest as u16 },
            (TIME_EXCEEDED, _) => Repr::TimeExceeded { code },
            (REDIRECT, _) => Repr::Redirect { code, gateway: Ipv4Addr::from_bits(rest) },
            (PARAMETER_PROBLEM, _) => Repr::ParameterProblem { code, pointer: (rest >> 24) as u8 },
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
            Repr::DestUnreachable { code, mtu } => (DEST_UNREACHABLE, code, mtu.into()),
            Repr::TimeExceeded { code } => (TIME_EXCEEDED, code, 0),
            Repr::Redirect { code, gateway } => (REDIRECT, code, gateway.to_bits()),
            Repr::ParameterProblem { code, pointer } => {
                (PARAMETER_PROBLEM, code, u32::from(pointer) << 24)
            }
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

    #[test]
    fn round_trip() {
        for repr in [
            Repr::EchoRequest { ident: 1, sequence: 2 },
            Repr::EchoReply { ident: 0xffff, sequence: 0 },
            Repr::DestUnreachable { code: 4, mtu: 1400 },
            Repr::TimeExceeded { code: 1 },
            Repr::Redirect { code: 1, gateway: Ipv4Addr::new(10, 0, 0, 254) },
            Repr::ParameterProblem { code: 0, pointer: 9 },
            Repr::Other { kind: 13, code: 0, rest: 0xdead_beef },
            Repr::Other { kind: ECHO_REQUEST, code: 7, rest: 1 },
        ] {
            let mut out = [0xff; 11];
            repr.emit(&mut out).unwrap();
            let mut packet = Packet::new_checked(&mut out[..]).unwrap();
            assert_eq!(Repr::parse(&packet), Ok(repr));
            packet.fill_checksum();
            assert!(packet.verify_checksum());
            packet.set_code(packet.code() ^ 1);
            assert!(!packet.verify_checksum());
            truncations(&out, 8, |bytes| Packet::new_checked(bytes.to_vec()));
            assert!(repr.emit(&mut out[..7]).is_err());
        }
    }
}
