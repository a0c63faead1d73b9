//! Flows, and packets of them.

use super::Prop;
use crate::testing::Rng;

/// What packets have in common, and what entries look for.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    in_port: u32,
    dst: u64,
    src: u64,
    /// Outer first: type and control information.
    tags: Vec<(u16, u16)>,
    net: Net,
    proto: u8,
    ttl: u8,
    dscp: u8,
    sport: u16,
    dport: u16,
    payload: usize,
}

#[derive(Clone, Copy, Debug)]
enum Net {
    V4(u32, u32),
    V6(u128, u128),
    Other(u16),
}

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

impl Flow {
    /// What a key field is for this flow's packets when they come in; `None` for metadata.
    pub(super) fn prop(&self, prop: Prop) -> Option<u128> {
        let v4 = |f: fn(u32, u32) -> u32| match self.net {
            Net::V4(src, dst) => f(src, dst).into(),
            _ => 0,
        };
        let v6 = |f: fn(u128, u128) -> u128| match self.net {
            Net::V6(src, dst) => f(src, dst),
            _ => 0,
        };
        let ip = !matches!(self.net, Net::Other(_));
        let of = |proto: u8, port: u16| if ip && self.proto == proto { port.into() } else { 0 };
        let any = |port: u16| if matches!(self.proto, TCP | UDP) { port.into() } else { 0 };
        let is4 = matches!(self.net, Net::V4(..));
        Some(match prop {
            Prop::InPort => self.in_port.into(),
            Prop::Dst => self.dst.into(),
            Prop::Src => self.src.into(),
            Prop::Type => self.tags.first().map_or(self.ether_type(), |t| t.0).into(),
            Prop::Vid => self.tags.first().map_or(0, |t| t.1 & 0xfff).into(),
            Prop::Tagged => (!self.tags.is_empty()).into(),
            Prop::Src4 => v4(|src, _| src),
            Prop::Dst4 => v4(|_, dst| dst),
            Prop::Net4 => v4(|_, dst| dst >> 24),
            Prop::Src6 => v6(|src, _| src),
            Prop::Dst6 => v6(|_, dst| dst),
            Prop::Is4 => is4.into(),
            Prop::Proto => {
                if ip {
                    self.proto.into()
                } else {
                    0
                }
            }
            Prop::Ttl => {
                if is4 {
                    self.ttl.into()
                } else {
                    0
                }
            }
            Prop::Dscp => {
                if is4 {
                    self.dscp.into()
                } else {
                    0
                }
            }
            Prop::TcpSrc => of(TCP, self.sport),
            Prop::TcpDst => of(TCP, self.dport),
            Prop::UdpSrc => of(UDP, self.sport),
            Prop::UdpDst => of(UDP, self.dport),
            Prop::L4Src => any(self.sport),
            Prop::L4Dst => any(self.dport),
            Prop::Length => (ETHERNET + 4 * self.tags.len() + 20 + self.payload) as u128,
            Prop::Small => return None,
        })
    }

    fn ether_type(&self) -> u16 {
        match self.net {
            Net::V4(..) => 0x0800,
            Net::V6(..) => 0x86dd,
            Net::Other(ether_type) => ether_type,
        }
    }
}

/// The flows of a generator: some dozen, of few addresses, ports and tags.
pub(super) fn flows(r: &mut Rng) -> Vec<Flow> {
    let macs: Vec<u64> = (0..5).map(|_| r.next_u64() & 0xfeff_ffff_ffff).collect();
    let net = r.next_u64() as u32;
    let v4: Vec<u32> = (0..6)
        .map(|i| match i {
            0 => r.next_u64() as u32,
            1 | 2 => (net & 0xffff_0000) | r.below(1 << 16) as u32,
            _ => (net & 0xffff_ff00) | r.below(256) as u32,
        })
        .collect();
    let base = u128::from(r.next_u64()) << 64;
    let v6: Vec<u128> =
        (0..5).map(|i| base | if i < 3 { i } else { r.next_u64().into() }).collect();
    let count = 4 + r.below(8);
    (0..count)
        .map(|_| Flow {
            in_port: 1 + r.below(4) as u32,
            dst: r.pick(&macs),
            src: r.pick(&macs),
            tags: (0..r.pick(&[0, 0, 0, 1, 1, 2, 3]))
                .map(|_| {
                    let tci = r.below(5) as u16 | r.pick(&[0, 0, 0x2000, 0xf000]);
                    (r.pick(&[0x8100, 0x8100, 0x8100, 0x88a8]), tci)
                })
                .collect(),
            net: match r.below(8) {
                0..=4 => Net::V4(r.pick(&v4), r.pick(&v4)),
                5 | 6 => Net::V6(r.pick(&v6), r.pick(&v6)),
                _ => Net::Other(r.pick(&[0x0806, 0x9100, 0x1234])),
            },
            proto: r.pick(&[TCP, TCP, TCP, UDP, UDP, UDP, 1, 58, 47]),
            ttl: r.pick(&[64, 64, 64, 255, 2, 1, 0]),
            dscp: r.pick(&[0, 0, 8, 46]),
            sport: r.pick(&[53, 80, 1024, 40_000, 0xffff, 0]),
            dport: r.pick(&[53, 80, 80, 443, 40_000]),
            payload: r.below(40),
        })
        .collect()
}

/// A packet of one of the flows, or nearly so. Returns the port it comes in by.
pub(super) fn packet(r: &mut Rng, flows: &[Flow], out: &mut Vec<u8>) -> u32 {
    out.clear();
    if r.one_in(64) {
        out.extend((0..r.below(80)).map(|_| 0));
        out.iter_mut().for_each(|b| *b = r.next_u64() as u8);
        return 1 + r.below(4) as u32;
    }
    let flow = &flows[r.below(flows.len())];
    write(r, flow, out);
    let dice = r.next_u64();
    if dice & 0xf == 0 {
        let len = r.below(out.len() + 1);
        out.truncate(len);
    }
    if dice & 0x70 == 0 && !out.is_empty() {
        let bit = r.below(8 * out.len().min(80));
        out[bit / 8] ^= 1 << (bit % 8);
    }
    if dice & 0xf00 == 0 && !out.is_empty() {
        let at = r.below(out.len().min(80));
        out[at] = if dice & 0x1000 == 0 { 0 } else { 0xff };
    }
    if dice & 0xe000 == 0 { 1 + r.below(5) as u32 } else { flow.in_port }
}

fn write(r: &mut Rng, flow: &Flow, out: &mut Vec<u8>) {
    out.extend(&flow.dst.to_be_bytes()[2..]);
    out.extend(&flow.src.to_be_bytes()[2..]);
    for (ether_type, tci) in &flow.tags {
        out.extend(ether_type.to_be_bytes());
        out.extend(tci.to_be_bytes());
    }
    out.extend(flow.ether_type().to_be_bytes());
    let noise = r.next_u64();
    // Right checksums are as good as wrong ones to who adjusts them; all ones and zero are special.
    let sum = |salt: u32| match noise >> salt & 7 {
        0 => 0u16,
        1 => 0xffff,
        2 => 0xfffe,
        _ => (noise >> salt >> 3) as u16,
    };
    let more = (noise & 0xf == 0) as u8;
    let l4 = match flow.proto {
        TCP => 20,
        _ => 8,
    };
    let bytes = l4 + flow.payload;
    match flow.net {
        Net::V4(src, dst) => {
            out.extend([0x45 + more, flow.dscp << 2]);
            out.extend((20 + 4 * more as u16 + bytes as u16).to_be_bytes());
            let fragment = if noise & 0xf0 == 0 { 0x00b9u16 } else { 0x4000 };
            out.extend((noise as u16).to_be_bytes());
            out.extend(fragment.to_be_bytes());
            out.extend([flow.ttl, flow.proto]);
            out.extend(sum(16).to_be_bytes());
            out.extend(src.to_be_bytes());
            out.extend(dst.to_be_bytes());
            out.extend(&[1, 1, 1, 0][..4 * more as usize]);
        }
        Net::V6(src, dst) => {
            out.extend([0x60 | flow.dscp >> 2, flow.dscp << 6, 0, 1]);
            out.extend((bytes as u16).to_be_bytes());
            out.extend([flow.proto, flow.ttl]);
            out.extend(src.to_be_bytes());
            out.extend(dst.to_be_bytes());
        }
        Net::Other(_) => {}
    }
    out.extend(flow.sport.to_be_bytes());
    out.extend(flow.dport.to_be_bytes());
    match flow.proto {
        TCP => {
            out.extend(&r.next_u64().to_be_bytes());
            out.extend([0x50 + (more << 4), 0x10, 0xff, 0xff]);
            out.extend(sum(32).to_be_bytes());
            out.extend([0, 0]);
            out.extend(&[1, 1, 1, 0][..4 * more as usize]);
        }
        UDP => {
            out.extend((8 + flow.payload as u16).to_be_bytes());
            out.extend(sum(32).to_be_bytes());
        }
        // The ports are type, code and checksum.
        _ => out.extend(&noise.to_be_bytes()[..4]),
    }
    out.extend((0..flow.payload).map(|i| i as u8 ^ noise as u8));
}
