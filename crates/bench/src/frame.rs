//! Frames of the traces: 64 bytes on the wire, 60 in memory (the checksum of the frame is left out).
//!
//! [`Flow`] says what a frame of a flow looks like; [`Flow::write`] makes it, with right lengths and
//! checksums, in a few dozen nanoseconds, since a trace may have a million of them. An attack changes
//! fields of a flow, so that its frames stay valid.
//!
//! Checked by: the tests below, by `wire`.

/// Bytes of a frame.
pub(crate) const LEN: usize = 60;
/// Bytes of the memory it lies in: a cache line.
pub(crate) const LINE: usize = 64;

/// The protocol above IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// An ICMP echo request.
    Icmp,
}

impl Transport {
    fn number(self) -> u8 {
        match self {
            Transport::Icmp => 1,
            Transport::Tcp => 6,
            Transport::Udp => 17,
        }
    }
}

/// A flow, as its frames show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The port that its frames come in by.
    pub(crate) in_port: u32,
    /// Ethernet destination, the low 48 bits.
    pub(crate) dst_mac: u64,
    /// Ethernet source, the low 48 bits.
    pub(crate) src_mac: u64,
    /// 802.1Q tag.
    pub(crate) vlan: Option<u16>,
    /// IPv4 source.
    pub(crate) src: u32,
    /// IPv4 destination.
    pub(crate) dst: u32,
    /// Time to live.
    pub(crate) ttl: u8,
    /// What follows.
    pub(crate) transport: Transport,
    /// Source port; an echo's identifier.
    pub(crate) src_port: u16,
    /// Destination port; an echo's sequence number.
    pub(crate) dst_port: u16,
}

impl Flow {
    /// A frame of the flow.
    pub(crate) fn bytes(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[0..6].copy_from_slice(&self.dst_mac.to_be_bytes()[2..]);
        out[6..12].copy_from_slice(&self.src_mac.to_be_bytes()[2..]);
        let mut at = 12;
        if let Some(vid) = self.vlan {
            out[12..14].copy_from_slice(&0x8100u16.to_be_bytes());
            out[14..16].copy_from_slice(&vid.to_be_bytes());
            at = 16;
        }
        out[at..at + 2].copy_from_slice(&0x0800u16.to_be_bytes());
        let ip = at + 2;
        let total = LEN - ip;
        out[ip] = 0x45;
        out[ip + 2..ip + 4].copy_from_slice(&(total as u16).to_be_bytes());
        // Don't fragment.
        out[ip + 6] = 0x40;
        out[ip + 8] = self.ttl;
        out[ip + 9] = self.transport.number();
        out[ip + 12..ip + 16].copy_from_slice(&self.src.to_be_bytes());
        out[ip + 16..ip + 20].copy_from_slice(&self.dst.to_be_bytes());
        let sum = !fold(sum(&out[ip..ip + 20]));
        out[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        self.write_transport(&mut out[ip + 20..]);
        out
    }

    fn write_transport(&self, out: &mut [u8]) {
        let words = [self.src_port.to_be_bytes(), self.dst_port.to_be_bytes()].concat();
        let len = out.len() as u16;
        let at = match self.transport {
            Transport::Tcp => {
                out[0..4].copy_from_slice(&words);
                out[7] = 1;
                out[11] = 1;
                // Five words of header; ACK; the window.
                out[12..16].copy_from_slice(&[0x50, 0x10, 0xff, 0xff]);
                16
            }
            Transport::Udp => {
                out[0..4].copy_from_slice(&words);
                out[4..6].copy_from_slice(&len.to_be_bytes());
                6
            }
            Transport::Icmp => {
                out[0] = 8;
                out[4..8].copy_from_slice(&words);
                2
            }
        };
        let pseudo = match self.transport {
            Transport::Icmp => 0,
            // Addresses, protocol, length (RFC 768, RFC 9293 §3.1).
            _ => {
                let addresses = sum(&self.src.to_be_bytes()) + sum(&self.dst.to_be_bytes());
                addresses + u32::from(self.transport.number()) + u32::from(len)
            }
        };
        let mut check = !fold(pseudo + sum(out));
        if self.transport == Transport::Udp && check == 0 {
            check = 0xffff;
        }
        out[at..at + 2].copy_from_slice(&check.to_be_bytes());
    }
}

/// The sum of big-endian 16-bit words, not yet folded.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum()
}

/// The one's complement sum in 16 bits.
pub(crate) fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::checksum::Pseudo;

    #[test]
    fn frames_are_what_wire_takes_for_right() {
        for n in 0..300u32 {
            let flow = Flow {
                in_port: 1,
                dst_mac: 0x0200_0000_0001,
                src_mac: 0x0200_0000_0002,
                vlan: n.is_multiple_of(2).then_some(101),
                src: n.wrapping_mul(0x9e37_79b1),
                dst: n.wrapping_mul(0x85eb_ca77),
                ttl: 64,
                transport: [Transport::Tcp, Transport::Udp, Transport::Icmp][n as usize % 3],
                src_port: n.wrapping_mul(77) as u16,
                dst_port: 80,
            };
            let bytes = flow.bytes();
            let at = if flow.vlan.is_some() { 18 } else { 14 };
            let ip = wire::ipv4::Packet::new_checked(&bytes[at..]).unwrap();
            assert!(ip.verify_checksum());
            assert_eq!((ip.src().to_bits(), ip.dst().to_bits()), (flow.src, flow.dst));
            let pseudo = Pseudo::V4 { src: ip.src(), dst: ip.dst() };
            match flow.transport {
                Transport::Tcp => {
                    let tcp = wire::tcp::Packet::new_checked(ip.payload()).unwrap();
                    assert!(tcp.verify_checksum(&pseudo));
                    assert_eq!(tcp.src_port(), flow.src_port);
                }
                Transport::Udp => {
                    let udp = wire::udp::Packet::new_checked(ip.payload()).unwrap();
                    assert!(udp.verify_checksum(&pseudo));
                    assert_eq!(udp.dst_port(), flow.dst_port);
                }
                Transport::Icmp => assert_eq!(fold(sum(ip.payload())), 0xffff),
            }
        }
    }
}
