//! Frames described by their fields; bytes with every checksum computed in full.

/// Addresses that most frames have.
pub(super) const DST: u64 = 0x2222_2222_2222;
pub(super) const SRC: u64 = 0x1211_1111_1111;

#[derive(Clone, Debug)]
pub(super) enum Net {
    None,
    Arp { op: u16, sha: u64, spa: u32, tha: u64, tpa: u32 },
    V4 { src: u32, dst: u32, tos: u8, ttl: u8, options: Vec<u8>, frag: u16 },
    V6 { src: u128, dst: u128, tc: u8, flabel: u32, hlim: u8, exts: Vec<(u8, Vec<u8>)> },
}

#[derive(Clone, Debug)]
pub(super) enum L4 {
    None,
    Tcp(u16, u16),
    Udp(u16, u16, bool),
    Sctp(u16, u16),
    Icmp(u8, u8),
    Icmp6(u8, u8),
    Nd { kind: u8, target: u128, option: u8, address: u64 },
}

/// A frame, outermost first.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) dst: u64,
    pub(super) src: u64,
    /// TPID and TCI of each tag.
    pub(super) vlans: Vec<(u16, u16)>,
    pub(super) mpls_type: u16,
    /// Whole entries but for the bottom-of-stack bit: label, traffic class, TTL.
    pub(super) mpls: Vec<(u32, u8, u8)>,
    /// Instead of the one that the network layer has.
    pub(super) ether_type: Option<u16>,
    pub(super) net: Net,
    pub(super) l4: L4,
    /// Instead of the one that layer 4 has.
    pub(super) proto: Option<u8>,
    pub(super) payload: Vec<u8>,
}

pub(super) fn frame(net: Net, l4: L4) -> Frame {
    Frame {
        dst: DST,
        src: SRC,
        vlans: vec![],
        mpls_type: 0x8847,
        mpls: vec![],
        ether_type: None,
        net,
        l4,
        proto: None,
        payload: (0..37).collect(),
    }
}

pub(super) fn v4() -> Net {
    Net::V4 { src: 0xc0a8_0a0a, dst: 0xc0a8_0014, tos: 32, ttl: 64, options: vec![], frag: 0 }
}

pub(super) fn v6() -> Net {
    Net::V6 { src: 0x10 << 120 | 0x20, dst: 0x20, tc: 32, flabel: 100, hlim: 64, exts: vec![] }
}

pub(super) fn arp() -> Net {
    Net::Arp { op: 1, sha: SRC, spa: 0xc0a8_0a0a, tha: DST, tpa: 0xc0a8_0014 }
}

pub(super) fn tcp4() -> Frame {
    frame(v4(), L4::Tcp(11111, 2222))
}

pub(super) fn tcp6() -> Frame {
    frame(v6(), L4::Tcp(11111, 2222))
}

pub(super) fn arp_frame() -> Frame {
    frame(arp(), L4::None)
}

/// A customer's frame in a service tag.
pub(super) fn pbb(isid: u32, inner: &[u8]) -> Vec<u8> {
    let mut out = mac(DST);
    out.extend(mac(SRC));
    out.extend([0x88, 0xe7]);
    out.extend(isid.to_be_bytes());
    out.extend(inner);
    out
}

pub(super) fn mac(address: u64) -> Vec<u8> {
    address.to_be_bytes()[2..].to_vec()
}

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0)));
    let mut s: u32 = words.sum();
    while s > 0xffff {
        s = (s & 0xffff) + (s >> 16);
    }
    !(s as u16)
}

/// CRC-32C bit by bit (RFC 9260 appendix A), as SCTP carries it.
fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

impl Frame {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = mac(self.dst);
        out.extend(mac(self.src));
        for (tpid, tci) in &self.vlans {
            out.extend(tpid.to_be_bytes());
            out.extend(tci.to_be_bytes());
        }
        let of_net = match &self.net {
            Net::None => 0x88b5,
            Net::Arp { .. } => 0x0806,
            Net::V4 { .. } => 0x0800,
            Net::V6 { .. } => 0x86dd,
        };
        let of_link = if self.mpls.is_empty() { of_net } else { self.mpls_type };
        out.extend(self.ether_type.unwrap_or(of_link).to_be_bytes());
        for (i, (label, tc, ttl)) in self.mpls.iter().enumerate() {
            let bos = u32::from(i + 1 == self.mpls.len());
            let entry = label << 12 | u32::from(*tc) << 9 | bos << 8 | u32::from(*ttl);
            out.extend(entry.to_be_bytes());
        }
        out.extend(self.network());
        out
    }

    fn network(&self) -> Vec<u8> {
        let l4 = self.transport();
        match &self.net {
            Net::None => self.payload.clone(),
            Net::Arp { op, sha, spa, tha, tpa } => {
                let mut out = vec![0, 1, 8, 0, 6, 4];
                out.extend(op.to_be_bytes());
                out.extend(mac(*sha));
                out.extend(spa.to_be_bytes());
                out.extend(mac(*tha));
                out.extend(tpa.to_be_bytes());
                out.extend(&self.payload);
                out
            }
            Net::V4 { src, dst, tos, ttl, options, frag } => {
                let words = 5 + options.len() / 4;
                let mut out = vec![0x40 | words as u8, *tos];
                out.extend((words as u16 * 4 + l4.len() as u16).to_be_bytes());
                out.extend([0x12, 0x34]);
                out.extend(frag.to_be_bytes());
                out.extend([*ttl, self.protocol(), 0, 0]);
                out.extend(src.to_be_bytes());
                out.extend(dst.to_be_bytes());
                out.extend(options);
                let csum = sum(&out).to_be_bytes();
                out[10..12].copy_from_slice(&csum);
                out.extend(l4);
                out
            }
            Net::V6 { src, dst, tc, flabel, hlim, exts } => {
                let word = 6 << 28 | u32::from(*tc) << 20 | flabel;
                let mut out = word.to_be_bytes().to_vec();
                let length: usize = exts.iter().map(|(_, body)| body.len() + 1).sum();
                out.extend(((length + l4.len()) as u16).to_be_bytes());
                let last = [(self.protocol(), vec![])];
                let mut chain = exts.iter().chain(&last);
                out.push(chain.next().unwrap().0);
                out.push(*hlim);
                out.extend(src.to_be_bytes());
                out.extend(dst.to_be_bytes());
                for ((_, body), (next, _)) in exts.iter().zip(chain) {
                    out.push(*next);
                    out.extend(body);
                }
                out.extend(l4);
                out
            }
        }
    }

    fn protocol(&self) -> u8 {
        self.proto.unwrap_or(match self.l4 {
            L4::None => 253,
            L4::Tcp(..) => 6,
            L4::Udp(..) => 17,
            L4::Sctp(..) => 132,
            L4::Icmp(..) => 1,
            L4::Icmp6(..) | L4::Nd { .. } => 58,
        })
    }

    /// Sum of the pseudo-header and a segment.
    fn with_pseudo(&self, segment: &[u8]) -> u16 {
        let mut all = match &self.net {
            Net::V4 { src, dst, .. } => [src.to_be_bytes(), dst.to_be_bytes()].concat(),
            Net::V6 { src, dst, .. } => [src.to_be_bytes(), dst.to_be_bytes()].concat(),
            _ => vec![],
        };
        all.extend((segment.len() as u32).to_be_bytes());
        all.extend([0, 0, 0, self.protocol()]);
        all.extend(segment);
        sum(&all)
    }

    fn transport(&self) -> Vec<u8> {
        let mut out;
        let at = match &self.l4 {
            L4::None => return self.payload.clone(),
            L4::Tcp(src, dst) => {
                out = [src.to_be_bytes(), dst.to_be_bytes()].concat();
                out.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
                16
            }
            L4::Udp(src, dst, _) => {
                out = [src.to_be_bytes(), dst.to_be_bytes()].concat();
                out.extend((8 + self.payload.len() as u16).to_be_bytes());
                out.extend([0, 0]);
                6
            }
            L4::Sctp(src, dst) => {
                out = [src.to_be_bytes(), dst.to_be_bytes()].concat();
                out.extend([1, 2, 3, 4, 0, 0, 0, 0]);
                8
            }
            L4::Icmp(kind, code) | L4::Icmp6(kind, code) => {
                out = vec![*kind, *code, 0, 0];
                2
            }
            L4::Nd { kind, target, option, address } => {
                out = vec![*kind, 0, 0, 0, 0, 0, 0, 0];
                out.extend(target.to_be_bytes());
                out.extend([*option, 1]);
                out.extend(mac(*address));
                2
            }
        };
        out.extend(&self.payload);
        let csum = match &self.l4 {
            L4::Udp(_, _, false) => return out,
            L4::Sctp(..) => crc32c(&out).to_vec(),
            L4::Icmp(..) => sum(&out).to_be_bytes().to_vec(),
            _ => self.with_pseudo(&out).to_be_bytes().to_vec(),
        };
        out[at..at + csum.len()].copy_from_slice(&csum);
        out
    }

    /// With one thing changed.
    pub(super) fn with(&self, change: impl FnOnce(&mut Frame)) -> Frame {
        let mut out = self.clone();
        change(&mut out);
        out
    }

    pub(super) fn vlan(&self, tpid: u16, tci: u16) -> Frame {
        self.with(|f| f.vlans.insert(0, (tpid, tci)))
    }

    pub(super) fn mpls(&self, label: u32, tc: u8, ttl: u8) -> Frame {
        self.with(|f| f.mpls.insert(0, (label, tc, ttl)))
    }

    pub(super) fn l4(&self, l4: L4) -> Frame {
        self.with(|f| f.l4 = l4)
    }

    pub(super) fn set_v4(
        &self,
        change: impl FnOnce(&mut u32, &mut u32, &mut u8, &mut u8),
    ) -> Frame {
        self.with(|f| {
            if let Net::V4 { src, dst, tos, ttl, .. } = &mut f.net {
                change(src, dst, tos, ttl);
            }
        })
    }

    pub(super) fn set_v6(
        &self,
        change: impl FnOnce(&mut u128, &mut u128, &mut u8, &mut u8),
    ) -> Frame {
        self.with(|f| {
            if let Net::V6 { src, dst, tc, hlim, .. } = &mut f.net {
                change(src, dst, tc, hlim);
            }
        })
    }

    pub(super) fn exts(&self, list: Vec<(u8, Vec<u8>)>) -> Frame {
        self.with(|f| {
            if let Net::V6 { exts, .. } = &mut f.net {
                *exts = list;
            }
        })
    }
}
