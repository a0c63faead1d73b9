//! Frames from header values, built by `wire`: a description of which a test names what matters.

use std::net::Ipv4Addr;
use wire::{EtherType, IpProtocol, MacAddr, ethernet, ipv4, offload, udp, vlan};

/// An IPv4 UDP frame; the fields are what its headers say.
#[derive(Clone, Debug)]
pub struct Udp {
    /// Destination address.
    pub eth_dst: [u8; 6],
    /// Source address.
    pub eth_src: [u8; 6],
    /// VLAN identifiers, outermost first.
    pub vlans: Vec<u16>,
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Default for Udp {
    fn default() -> Udp {
        Udp {
            eth_dst: [2, 0, 0, 0, 0, 2],
            eth_src: [2, 0, 0, 0, 0, 1],
            vlans: Vec::new(),
            src: [10, 0, 0, 1],
            dst: [10, 0, 0, 2],
            src_port: 4096,
            dst_port: 53,
            payload: vec![0x55; 32],
        }
    }
}

impl Udp {
    /// The frame, checksums complete.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = self.headers();
        offload::fill_checksums(&mut frame).expect("an IPv4 UDP frame has checksums");
        frame
    }

    /// The frame as a host with checksum offload hands it over: the UDP checksum field holds the sum
    /// of the pseudo header. With it, where summing begins and where the sum goes from there.
    pub fn partial(&self) -> (Vec<u8>, wire::PartialChecksum) {
        let mut frame = self.frame();
        let place = wire::pseudo_header_partial(&mut frame).expect("an IPv4 UDP frame");
        (frame, place)
    }

    fn headers(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut append = |len: usize, emit: &dyn Fn(&mut [u8]) -> Result<(), wire::Error>| {
            let at = out.len();
            out.resize(at + len, 0);
            emit(&mut out[at..]).expect("there is room, and the values fit");
        };
        let next = |i: usize| if i < self.vlans.len() { EtherType::VLAN } else { EtherType::IPV4 };
        let ethernet = ethernet::Repr {
            dst: MacAddr(self.eth_dst),
            src: MacAddr(self.eth_src),
            ethertype: next(0),
        };
        append(ethernet.buffer_len(), &|b| ethernet.emit(b));
        for (i, vid) in self.vlans.iter().enumerate() {
            let tag = vlan::Repr { pcp: 0, dei: false, vid: *vid, ethertype: next(i + 1) };
            append(tag.buffer_len(), &|b| tag.emit(b));
        }
        let [src, dst] = [self.src, self.dst].map(Ipv4Addr::from);
        let udp = udp::Repr {
            src_port: self.src_port,
            dst_port: self.dst_port,
            payload_len: self.payload.len(),
        };
        let ip = ipv4::Repr::new(src, dst, IpProtocol::UDP, udp.buffer_len() + self.payload.len());
        append(ip.buffer_len(), &|b| ip.emit(b));
        append(udp.buffer_len(), &|b| udp.emit(b));
        out.extend_from_slice(&self.payload);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_right_on_the_wire() {
        let frame = Udp { vlans: vec![5, 6], ..Udp::default() }.frame();
        assert_eq!(frame.len(), 14 + 8 + 20 + 8 + 32);
        offload::verify_checksums(&frame).unwrap();
        let (mut frame, place) = Udp::default().partial();
        assert_eq!((place.start, place.offset), (34, 6));
        assert!(offload::verify_checksums(&frame).is_err());
        wire::complete_partial_checksum(&mut frame, 34, 6).unwrap();
        assert_eq!(frame, Udp::default().frame());
    }
}
