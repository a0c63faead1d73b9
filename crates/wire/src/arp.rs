//! Address resolution: ARP and RARP (RFC 826, RFC 903).
//!
//! The view takes addresses of any length, as the format does; the value is Ethernet and IPv4.

use std::net::Ipv4Addr;

use crate::bytes::{Field, fields, need, room, span, view};
use crate::{Error, EtherType, MacAddr};

const WHAT: &str = "arp packet";

/// Octets before the addresses.
pub const FIXED_LEN: usize = 8;
/// Octets of a packet with Ethernet and IPv4 addresses.
pub const IPV4_LEN: usize = 28;
/// Hardware type of Ethernet.
pub const HARDWARE_ETHERNET: u16 = 1;

view! {
    /// A view of an ARP packet with addresses of any length.
    Packet, check
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, FIXED_LEN)?;
    need(WHAT, bytes, FIXED_LEN + 2 * usize::from(bytes[4]) + 2 * usize::from(bytes[5]))
}

fields! {
    Packet {
        /// Hardware type; 1 is Ethernet.
        hardware_type, set_hardware_type: u16 @ 0;
        /// Protocol type, an EtherType.
        protocol_type, set_protocol_type: EtherType @ 2;
        /// Octets of a hardware address.
        hardware_len, set_hardware_len: u8 @ 4;
        /// Octets of a protocol address.
        protocol_len, set_protocol_len: u8 @ 5;
        /// Operation; see [`Operation`].
        operation, set_operation: u16 @ 6;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    fn part(&self, hardware_before: usize, protocol_before: usize, len: u8) -> &[u8] {
        let at = FIXED_LEN
            + hardware_before * usize::from(self.hardware_len())
            + protocol_before * usize::from(self.protocol_len());
        span(self.as_bytes(), at, at + usize::from(len))
    }

    /// Sender's hardware address.
    pub fn sender_hardware(&self) -> &[u8] {
        self.part(0, 0, self.hardware_len())
    }

    /// Sender's protocol address.
    pub fn sender_protocol(&self) -> &[u8] {
        self.part(1, 0, self.protocol_len())
    }

    /// Target's hardware address.
    pub fn target_hardware(&self) -> &[u8] {
        self.part(1, 1, self.hardware_len())
    }

    /// Target's protocol address.
    pub fn target_protocol(&self) -> &[u8] {
        self.part(2, 1, self.protocol_len())
    }

    /// Whether the addresses are Ethernet's and IPv4's, by type and by length.
    pub fn is_ethernet_ipv4(&self) -> bool {
        self.hardware_type() == HARDWARE_ETHERNET
            && self.protocol_type() == EtherType::IPV4
            && self.hardware_len() == 6
            && self.protocol_len() == 4
    }
}

/// What an ARP packet asks or says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target's protocol address?
    Request,
    /// The sender has it.
    Reply,
    /// RARP: who am I?
    ReverseRequest,
    /// RARP: you are the target.
    ReverseReply,
    /// Another number.
    Other(u16),
}

impl From<u16> for Operation {
    fn from(value: u16) -> Self {
        match value {
            1 => Operation::Request,
            2 => Operation::Reply,
            3 => Operation::ReverseRequest,
            4 => Operation::ReverseReply,
            other => Operation::Other(other),
        }
    }
}

impl From<Operation> for u16 {
    fn from(value: Operation) -> Self {
        match value {
            Operation::Request => 1,
            Operation::Reply => 2,
            Operation::ReverseRequest => 3,
            Operation::ReverseReply => 4,
            Operation::Other(other) => other,
        }
    }
}

/// An ARP packet between Ethernet and IPv4 as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Operation.
    pub operation: Operation,
    /// Sender's MAC address.
    pub sender_mac: MacAddr,
    /// Sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// Target's MAC address; zero in a request.
    pub target_mac: MacAddr,
    /// Target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Reads the packet.
    ///
    /// # Errors
    /// Those of [`Packet::check`], and [`Error::Malformed`] for addresses that are not Ethernet's
    /// and IPv4's.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        if !packet.is_ethernet_ipv4() {
            let why = "its addresses are not Ethernet (type 1, 6 octets) and IPv4 (0x0800, 4)";
            return Err(Error::Malformed { what: WHAT, why });
        }
        let bytes = packet.as_bytes();
        Ok(Repr {
            operation: packet.operation().into(),
            sender_mac: MacAddr::get(bytes, 8),
            sender_ip: Ipv4Addr::get(bytes, 14),
            target_mac: MacAddr::get(bytes, 18),
            target_ip: Ipv4Addr::get(bytes, 24),
        })
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        IPV4_LEN
    }

    /// Writes the packet to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let out = room(WHAT, out, IPV4_LEN)?;
        HARDWARE_ETHERNET.put(out, 0);
        EtherType::IPV4.put(out, 2);
        out[4] = 6;
        out[5] = 4;
        u16::from(self.operation).put(out, 6);
        self.sender_mac.put(out, 8);
        self.sender_ip.put(out, 14);
        self.target_mac.put(out, 18);
        self.target_ip.put(out, 24);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::truncations;

    #[test]
    fn round_trip() {
        for operation in 0..6 {
            let repr = Repr {
                operation: Operation::from(operation),
                sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
                sender_ip: Ipv4Addr::new(10, 0, 0, 1),
                target_mac: MacAddr::ZERO,
                target_ip: Ipv4Addr::new(10, 0, 0, 2),
            };
            let mut out = [0xff; 30];
            repr.emit(&mut out).unwrap();
            let packet = Packet::new_checked(&out[..28]).unwrap();
            assert_eq!(Repr::parse(&packet), Ok(repr));
            assert_eq!(packet.operation(), operation);
            assert_eq!(packet.sender_hardware(), &[2, 0, 0, 0, 0, 1]);
            assert_eq!(packet.sender_protocol(), &[10, 0, 0, 1]);
            assert_eq!(packet.target_hardware(), &[0; 6]);
            assert_eq!(packet.target_protocol(), &[10, 0, 0, 2]);
            truncations(&out[..28], 28, |bytes| Packet::new_checked(bytes.to_vec()));
        }
    }

    #[test]
    fn other_addresses() {
        let mut bytes = vec![0, 6, 0x08, 0x00, 1, 1, 0, 1, 0xa, 0xb, 0xc, 0xd];
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        assert_eq!(packet.sender_hardware(), &[0xa]);
        assert_eq!(packet.target_protocol(), &[0xd]);
        assert!(matches!(Repr::parse(&packet), Err(Error::Malformed { .. })));
        bytes[4] = 255;
        bytes[5] = 255;
        assert_eq!(
            Packet::new_checked(&bytes[..]),
            Err(Error::Truncated { what: WHAT, need: 1028, have: 12 })
        );
        // Lengths that a setter broke clamp, and do not panic.
        let mut packet = Packet::new_checked(vec![0; 8]).unwrap();
        packet.set_hardware_len(200);
        assert_eq!(packet.target_hardware(), &[] as &[u8]);
    }
}
