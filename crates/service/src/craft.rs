//! Frames for tests, benches and the fuzz target: a description, of which a caller names what matters.

use std::net::IpAddr;
use wire::checksum::Pseudo;
use wire::tcp::Flags;
use wire::{IpProtocol, ipv4, ipv6, offload};

/// An IP packet in an Ethernet frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Source.
    pub src: IpAddr,
    /// Destination, of the same family.
    pub dst: IpAddr,
    /// Transport protocol.
    pub protocol: IpProtocol,
    /// What follows the IP header; its checksum is filled in.
    pub body: Vec<u8>,
    /// IPv4's identification and flags with fragment offset.
    pub fragment: (u16, u16),
}

impl Frame {
    /// A packet from `src` to `dst`.
    pub fn new(src: IpAddr, dst: IpAddr, protocol: IpProtocol, body: Vec<u8>) -> Frame {
        Frame { src, dst, protocol, body, fragment: (0, 0) }
    }

    /// TCP.
    pub fn tcp(
        (src, sport): (IpAddr, u16),
        (dst, dport): (IpAddr, u16),
        flags: Flags,
        (seq, ack): (u32, u32),
        len: usize,
    ) -> Frame {
        Frame::tcp_with((src, sport), (dst, dport), flags, (seq, ack), 1000, &[], len)
    }

    /// TCP with a window and options (a multiple of 4 octets).
    pub fn tcp_with(
        (src, sport): (IpAddr, u16),
        (dst, dport): (IpAddr, u16),
        flags: Flags,
        (seq, ack): (u32, u32),
        window: u16,
        options: &[u8],
        len: usize,
    ) -> Frame {
        let mut body = Vec::new();
        body.extend(sport.to_be_bytes());
        body.extend(dport.to_be_bytes());
        body.extend(seq.to_be_bytes());
        body.extend(ack.to_be_bytes());
        body.push((((20 + options.len()) / 4) << 4) as u8);
        body.push(flags.0 as u8);
        body.extend(window.to_be_bytes());
        body.extend([0; 4]);
        body.extend(options);
        body.resize(body.len() + len, b'x');
        Frame::new(src, dst, IpProtocol::TCP, body)
    }

    /// UDP.
    pub fn udp((src, sport): (IpAddr, u16), (dst, dport): (IpAddr, u16), len: usize) -> Frame {
        let mut body = Vec::new();
        body.extend(sport.to_be_bytes());
        body.extend(dport.to_be_bytes());
        body.extend((8 + len as u16).to_be_bytes());
        body.extend([0; 2]);
        body.resize(8 + len, b'x');
        Frame::new(src, dst, IpProtocol::UDP, body)
    }

    /// ICMP or ICMPv6, by the addresses: type, code, the second word, what follows.
    pub fn icmp(src: IpAddr, dst: IpAddr, kind: u8, code: u8, word: u32, data: &[u8]) -> Frame {
        let mut body = vec![kind, code, 0, 0];
        body.extend(word.to_be_bytes());
        body.extend(data);
        let protocol = if src.is_ipv4() { IpProtocol::ICMP } else { IpProtocol::ICMPV6 };
        Frame::new(src, dst, protocol, body)
    }

    /// An error about this frame, of `quoted` octets of its IP packet at most, from `src`.
    pub fn error(&self, src: IpAddr, kind: u8, code: u8, quoted: usize) -> Frame {
        let packet = &self.bytes()[14..];
        Frame::icmp(src, self.src, kind, code, 0, &packet[..packet.len().min(quoted)])
    }

    /// The frame's octets, checksums right.
    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        let header = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                frame.extend([8, 0]);
                let repr = ipv4::Repr::new(src, dst, self.protocol, self.body.len());
                let mut header = vec![0; repr.buffer_len()];
                repr.emit(&mut header).expect("a header without options");
                header
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                frame.extend([0x86, 0xdd]);
                let repr = ipv6::Repr::new(src, dst, self.protocol, self.body.len());
                let mut header = vec![0; repr.buffer_len()];
                repr.emit(&mut header).expect("a header");
                header
            }
            _ => panic!("addresses of one family"),
        };
        frame.extend(header);
        frame.extend(&self.body);
        // Frames whose transport header is cut short have no checksum to fill in.
        let _ = offload::fill_checksums(&mut frame);
        let (ident, fragment) = self.fragment;
        if (ident, fragment) != (0, 0) {
            frame[18..20].copy_from_slice(&ident.to_be_bytes());
            frame[20..22].copy_from_slice(&fragment.to_be_bytes());
            if let Ok(mut packet) = ipv4::Packet::new_header_checked(&mut frame[14..]) {
                packet.fill_checksum();
            }
        }
        frame
    }
}

/// Whether all checksums of a frame that [`Frame::bytes`] made, perhaps translated since, are right,
/// the quoted packet's of an error included as far as it is there.
pub fn checksums_are_right(frame: &[u8]) -> bool {
    ip_is_right(&frame[14..], true)
}

fn ip_is_right(packet: &[u8], whole: bool) -> bool {
    let (pseudo, protocol, body): (Pseudo, _, _) = if packet[0] >> 4 == 4 {
        let Ok(view) = ipv4::Packet::new_header_checked(packet) else { return false };
        if !view.verify_checksum() {
            return false;
        }
        let len = usize::from(view.total_len()).min(packet.len());
        ((&view).into(), view.protocol(), &packet[view.header_len()..len])
    } else {
        let Ok(view) = ipv6::Packet::new_header_checked(packet) else { return false };
        let len = (40 + usize::from(view.payload_len())).min(packet.len());
        ((view.src(), view.dst()).into(), view.next_header(), &packet[40..len])
    };
    if !whole {
        return true;
    }
    match protocol {
        IpProtocol::SCTP => {
            wire::sctp::Packet::new_checked(body).is_ok_and(|p| p.verify_checksum())
        }
        IpProtocol::ICMP => {
            let error = matches!(body[0], 3 | 11 | 12);
            wire::checksum::sum(body) == 0xffff
                && (!error || ip_is_right(&body[8..], quoted_whole(&body[8..])))
        }
        IpProtocol::ICMPV6 => {
            let error = body[0] < 128;
            pseudo.sum_over(protocol, body) == 0xffff
                && (!error || ip_is_right(&body[8..], quoted_whole(&body[8..])))
        }
        IpProtocol::UDP if body[6..8] == [0, 0] => true,
        IpProtocol::TCP | IpProtocol::UDP => pseudo.sum_over(protocol, body) == 0xffff,
        _ => true,
    }
}

fn quoted_whole(packet: &[u8]) -> bool {
    let len = if packet[0] >> 4 == 4 {
        usize::from(u16::from_be_bytes([packet[2], packet[3]]))
    } else {
        40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]))
    };
    packet.len() >= len
}
