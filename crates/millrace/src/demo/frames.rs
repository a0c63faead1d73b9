//! Frames of the demonstrations, built with `wire`.
//!
//! Frames of a stream end in the stream's number, by which a frame that comes out is known again
//! whatever the switch did to its headers.

use std::net::Ipv4Addr;
use wire::checksum::Pseudo;
use wire::{EtherType, IpProtocol, MacAddr, ethernet, ipv4, tcp, udp, vlan};

/// Transport of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// A frame, in words.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    /// Ethernet source.
    pub(super) src_mac: MacAddr,
    /// Ethernet destination.
    pub(super) dst_mac: MacAddr,
    /// 802.1Q tag.
    pub(super) vlan: Option<u16>,
    /// IPv4 source.
    pub(super) src: Ipv4Addr,
    /// IPv4 destination.
    pub(super) dst: Ipv4Addr,
    /// Time to live.
    pub(super) ttl: u8,
    /// UDP or TCP.
    pub(super) transport: Transport,
    /// Source port.
    pub(super) src_port: u16,
    /// Destination port.
    pub(super) dst_port: u16,
    /// Bytes of payload, at least [`PAYLOAD_MIN`].
    pub(super) payload: usize,
}

/// Least payload: the frame needs no padding, and the stream's number fits.
pub(super) const PAYLOAD_MIN: usize = 18;

/// The stream of a frame, from its last four bytes.
pub(super) fn stream_of(frame: &[u8]) -> Option<u32> {
    frame.last_chunk::<4>().map(|b| u32::from_be_bytes(*b))
}

impl Datagram {
    /// The frame's bytes, ending in the number of its stream.
    pub(super) fn bytes(&self, stream: u32) -> Vec<u8> {
        self.emit(stream).expect("a demonstration's frame is within every length's bounds")
    }

    fn emit(&self, stream: u32) -> Result<Vec<u8>, wire::Error> {
        let mut payload = vec![0x6d; self.payload.max(PAYLOAD_MIN)];
        let mark = payload.len() - 4;
        payload[mark..].copy_from_slice(&stream.to_be_bytes());
        let pseudo = Pseudo::V4 { src: self.src, dst: self.dst };
        let (protocol, segment) = match self.transport {
            Transport::Udp => (IpProtocol::UDP, self.udp(&payload, &pseudo)?),
            Transport::Tcp => (IpProtocol::TCP, self.tcp(&payload, &pseudo)?),
        };
        let ip = ipv4::Repr {
            ttl: self.ttl,
            ..ipv4::Repr::new(self.src, self.dst, protocol, segment.len())
        };
        let ethertype = if self.vlan.is_some() { EtherType::VLAN } else { EtherType::IPV4 };
        let ethernet = ethernet::Repr { dst: self.dst_mac, src: self.src_mac, ethertype };
        let mut out = vec![0; ethernet.buffer_len()];
        ethernet.emit(&mut out)?;
        if let Some(vid) = self.vlan {
            let tag = vlan::Repr { pcp: 0, dei: false, vid, ethertype: EtherType::IPV4 };
            let at = grow(&mut out, tag.buffer_len());
            tag.emit(&mut out[at..])?;
        }
        let at = grow(&mut out, ip.buffer_len());
        ip.emit(&mut out[at..])?;
        out.extend(segment);
        Ok(out)
    }

    fn udp(&self, payload: &[u8], pseudo: &Pseudo) -> Result<Vec<u8>, wire::Error> {
        let repr = udp::Repr {
            src_port: self.src_port,
            dst_port: self.dst_port,
            payload_len: payload.len(),
        };
        let mut segment = vec![0; repr.buffer_len()];
        repr.emit(&mut segment)?;
        segment.extend(payload);
        udp::Packet::new_checked(&mut segment[..])?.fill_checksum(pseudo);
        Ok(segment)
    }

    fn tcp(&self, payload: &[u8], pseudo: &Pseudo) -> Result<Vec<u8>, wire::Error> {
        let repr = tcp::Repr {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq: 1,
            ack: 1,
            flags: tcp::Flags::ACK,
            window: 65_535,
            urgent: 0,
            options: Vec::new(),
        };
        let mut segment = vec![0; repr.buffer_len()];
        repr.emit(&mut segment)?;
        segment.extend(payload);
        tcp::Packet::new_checked(&mut segment[..])?.fill_checksum(pseudo);
        Ok(segment)
    }
}

/// Makes room for `n` more bytes and returns where.
pub(super) fn grow(out: &mut Vec<u8>, n: usize) -> usize {
    let at = out.len();
    out.resize(at + n, 0);
    at
}

/// A locally administered address: `02:kind:…:n`.
pub(super) fn mac(kind: u8, n: u32) -> MacAddr {
    let [a, b, c, d] = n.to_be_bytes();
    MacAddr([2, kind, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_what_it_was_told() {
        let datagram = Datagram {
            src_mac: mac(1, 1),
            dst_mac: mac(2, 2),
            vlan: Some(101),
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(192, 0, 2, 1),
            ttl: 63,
            transport: Transport::Udp,
            src_port: 1,
            dst_port: 2,
            payload: 0,
        };
        let bytes = datagram.bytes(7);
        assert_eq!(bytes.len(), 64);
        assert_eq!(stream_of(&bytes), Some(7));
        let ip = ipv4::Packet::new_checked(&bytes[18..]).unwrap();
        assert!(ip.verify_checksum());
        assert_eq!((ip.ttl(), ip.dst()), (63, datagram.dst));
        let pseudo = Pseudo::V4 { src: datagram.src, dst: datagram.dst };
        assert!(udp::Packet::new_checked(ip.payload()).unwrap().verify_checksum(&pseudo));
        let untagged = Datagram { vlan: None, transport: Transport::Tcp, ..datagram }.bytes(8);
        let ip = ipv4::Packet::new_checked(&untagged[14..]).unwrap();
        assert!(tcp::Packet::new_checked(ip.payload()).unwrap().verify_checksum(&pseudo));
        assert_eq!(stream_of(b"abc"), None);
    }
}
