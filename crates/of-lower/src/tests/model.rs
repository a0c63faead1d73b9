//! Random lists of actions on random frames, against the same done to the frame's description.

use super::bed::hex;
use super::bed::through;
use super::frames::{Frame, L4, Net, arp_frame, frame, tcp4, tcp6, v4};
use openflow::{Action, FieldId};

/// splitmix64 (Steele et al. 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}

fn ttl(f: &mut Frame) -> Option<&mut u8> {
    match &mut f.net {
        Net::V4 { ttl, .. } => Some(ttl),
        Net::V6 { hlim, .. } => Some(hlim),
        _ => None,
    }
}

fn net_type(f: &Frame) -> u16 {
    match f.net {
        Net::V4 { .. } => 0x0800,
        Net::V6 { .. } => 0x86dd,
        Net::Arp { .. } => 0x0806,
        Net::None => 0x88b5,
    }
}

/// One action, and what it does to the description.
fn step(r: &mut Random, f: &mut Frame) -> Action {
    let n = r.below(200) as u8;
    loop {
        match r.below(14) {
            0 if f.vlans.len() < 4 => {
                let tci = f.vlans.first().map_or(0, |v| v.1 & 0xefff);
                f.vlans.insert(0, (0x88a8, tci));
                return Action::PushVlan(0x88a8);
            }
            1 => {
                f.vlans.drain(..f.vlans.len().min(1));
                return Action::PopVlan;
            }
            2 if f.mpls.len() < 8 => {
                let inner = ttl(f).map_or(0, |t| *t);
                let entry = f.mpls.first().copied().unwrap_or((0, 0, inner));
                f.mpls.insert(0, entry);
                f.mpls_type = 0x8847;
                return Action::PushMpls(0x8847);
            }
            3 if !f.mpls.is_empty() => {
                f.mpls.remove(0);
                let left = if f.mpls.is_empty() { net_type(f) } else { 0x8847 };
                f.mpls_type = 0x8847;
                return Action::PopMpls(left);
            }
            4 => {
                if f.mpls.is_empty()
                    && let Some(t) = ttl(f)
                {
                    if *t < 2 {
                        continue;
                    }
                    *t -= 1;
                }
                return Action::DecNwTtl;
            }
            5 => {
                if f.mpls.is_empty()
                    && let Some(t) = ttl(f)
                {
                    *t = n;
                }
                return Action::SetNwTtl(n);
            }
            6 => {
                if let Some(entry) = f.mpls.first_mut() {
                    if entry.2 < 2 {
                        continue;
                    }
                    entry.2 -= 1;
                }
                return Action::DecMplsTtl;
            }
            7 => {
                if let Some(entry) = f.mpls.first_mut() {
                    entry.2 = n;
                }
                return Action::SetMplsTtl(n);
            }
            8 => {
                let inner = ttl(f).map(|t| *t);
                if f.mpls.len() > 1 {
                    f.mpls[0].2 = f.mpls[1].2;
                } else if let (Some(entry), Some(t)) = (f.mpls.first_mut(), inner) {
                    entry.2 = t;
                }
                return Action::CopyTtlOut;
            }
            9 => {
                let outer = f.mpls.first().map(|e| e.2);
                if f.mpls.len() > 1 {
                    f.mpls[1].2 = f.mpls[0].2;
                } else if let (Some(outer), Some(t)) = (outer, ttl(f)) {
                    *t = outer;
                }
                return Action::CopyTtlIn;
            }
            10 => {
                if let Some(tag) = f.vlans.first_mut() {
                    tag.1 = tag.1 & 0xf000 | u16::from(n);
                }
                return Action::set_field(FieldId::VlanVid, 0x1000 | u128::from(n));
            }
            11 => {
                if let Some(entry) = f.mpls.first_mut() {
                    entry.0 = u32::from(n);
                }
                return Action::set_field(FieldId::MplsLabel, n.into());
            }
            12 => {
                f.dst = n.into();
                return Action::set_field(FieldId::EthDst, n.into());
            }
            13 => {
                if let L4::Tcp(_, dst) = &mut f.l4 {
                    *dst = n.into();
                }
                return Action::set_field(FieldId::TcpDst, n.into());
            }
            _ => {}
        }
    }
}

#[test]
fn random_lists_do_what_they_say() {
    let mut r = Random(1);
    let starts =
        [tcp4(), tcp6(), arp_frame(), frame(v4(), L4::Sctp(1, 2)), frame(Net::None, L4::None)];
    for _ in 0..3000 {
        let mut f = starts[r.below(starts.len() as u64) as usize].clone();
        for _ in 0..r.below(3) {
            f = f.mpls(r.below(1 << 20) as u32, r.below(8) as u8, r.below(256) as u8);
        }
        for _ in 0..r.below(3) {
            f = f.vlan(0x8100, r.below(1 << 16) as u16);
        }
        let before = f.bytes();
        let actions: Vec<Action> = (0..1 + r.below(8)).map(|_| step(&mut r, &mut f)).collect();
        let after = through(&actions, &before);
        assert_eq!(hex(&after), hex(&f.bytes()), "{} {actions:?}", hex(&before));
    }
}
