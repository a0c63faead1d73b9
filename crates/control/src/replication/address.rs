//! The frames by which a network learns that an address is elsewhere now: gratuitous ARP (RFC 5227 §3), unsolicited neighbour
//! advertisements (RFC 4861 §7.2.6).

use crate::config::group::Address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Octets of the shortest frame, without its checksum.
const SHORTEST: usize = 60;

/// The frame that says so.
pub(crate) fn frame(address: &Address) -> Vec<u8> {
    let (to, ethertype, body) = match address.ip {
        IpAddr::V4(ip) => ([0xff; 6], 0x0806_u16, arp(ip, address.mac)),
        IpAddr::V6(ip) => ([0x33, 0x33, 0, 0, 0, 1], 0x86dd, advertisement(ip, address.mac)),
    };
    let mut frame = [&to[..], &address.mac].concat();
    if let Some(vlan) = address.vlan {
        frame.extend(0x8100_u16.to_be_bytes());
        frame.extend(vlan.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(body);
    frame.resize(frame.len().max(SHORTEST), 0);
    frame
}

/// A request for the sender's own address.
fn arp(ip: Ipv4Addr, mac: [u8; 6]) -> Vec<u8> {
    let mut body = vec![0, 1, 8, 0, 6, 4, 0, 1];
    body.extend(mac);
    body.extend(ip.octets());
    body.extend([0; 6]);
    body.extend(ip.octets());
    body
}

/// To all nodes, overriding what they know.
fn advertisement(ip: Ipv6Addr, mac: [u8; 6]) -> Vec<u8> {
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    // From a router, not asked for, overriding.
    let mut message = vec![136, 0, 0, 0, 0xa0, 0, 0, 0];
    message.extend(ip.octets());
    message.extend([2, 1]);
    message.extend(mac);
    let len = message.len() as u16;
    let mut summed = [&ip.octets()[..], &all.octets(), &u32::from(len).to_be_bytes()].concat();
    summed.extend([0, 0, 0, 58]);
    summed.extend(&message);
    let sum = !wire::checksum::sum(&summed);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut body = vec![0x60, 0, 0, 0];
    body.extend(len.to_be_bytes());
    body.extend([58, 255]);
    body.extend(ip.octets());
    body.extend(all.octets());
    body.extend(message);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ip: &str, vlan: Option<u16>) -> (Vec<u8>, String) {
        let mac = [2, 0, 0, 0, 0, 7];
        let address = Address { port: "lan".to_owned(), ip: ip.parse().unwrap(), mac, vlan };
        let frame = frame(&address);
        let text = wire::summary(&frame);
        (frame, text)
    }

    #[test]
    fn frames_say_who_has_an_address() {
        let (frame, text) = told("10.1.0.1", None);
        assert_eq!(frame.len(), 60);
        assert!(text.contains("10.1.0.1") && text.to_lowercase().contains("arp"), "{text}");
        assert_eq!(
            (&frame[..12], &frame[20..22]),
            (&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 7][..], &[0, 1][..])
        );
        let (frame, _) = told("10.1.0.1", Some(100));
        assert_eq!(frame[12..18], [0x81, 0, 0, 100, 8, 6]);
        let (frame, text) = told("2001:db8::1", None);
        assert_eq!((frame.len(), frame[54], frame[58]), (86, 136, 0xa0));
        assert!(text.contains("2001:db8::1"), "{text}");
        let summed = [&frame[22..54], &[0, 0, 0, 32, 0, 0, 0, 58], &frame[54..]].concat();
        assert_eq!(wire::checksum::sum(&summed), 0xffff);
    }
}
