//! What a rule makes of a frame, and how what came out differs from it.
//!
//! [`Makes`] is told with the traffic: a frame comes out as it went in, or changed by actions, which [`apply`] does in
//! the plainest way, sharing no code with a switch. [`differences`] names the fields in which two frames differ, by
//! where they lie in the one that was expected.
//!
//! Checked by: the tests below, and of `tests/`, where a path changes frames.

use crate::probe::checksum;
use openflow::{Action, FieldId};
use std::sync::Arc;

/// What the rule makes of the frames of a run.
#[derive(Clone, Debug, Default)]
pub enum Makes {
    /// It leaves them as they are.
    #[default]
    Same,
    /// It does this to them; an output does nothing.
    Changed(Arc<Vec<Action>>),
    /// Nobody knows: a script's rules.
    Anything,
}

/// Does to an Ethernet frame what actions say. `None`: one of them is none that is known here.
pub fn apply(actions: &[Action], frame: &mut Vec<u8>) -> Option<()> {
    for action in actions {
        one(action, frame)?;
    }
    Some(())
}

fn one(action: &Action, frame: &mut Vec<u8>) -> Option<()> {
    match action {
        Action::Output { .. } => {}
        Action::PushVlan(kind) => {
            let [high, low] = kind.to_be_bytes();
            frame.splice(12..12, [high, low, 0, 0]);
        }
        Action::PushMpls(kind) => {
            let (at, ip) = (ethertype(frame)?, ipv4(frame)?);
            let ttl = *frame.get(ip + 8)?;
            frame[at..at + 2].copy_from_slice(&kind.to_be_bytes());
            // The bottom of the stack.
            frame.splice(at + 2..at + 2, [0, 0, 1, ttl]);
        }
        Action::DecNwTtl => {
            let ip = ipv4(frame)?;
            *frame.get_mut(ip + 8)? -= 1;
            checksum(frame.get_mut(ip..ip + 20)?);
        }
        Action::SetField(set) if set.mask.is_none() => {
            let value = set.value.to_be_bytes();
            let low = |n: usize| &value[16 - n..];
            let put = |frame: &mut Vec<u8>, at: usize, n: usize| -> Option<()> {
                frame.get_mut(at..at + n)?.copy_from_slice(low(n));
                Some(())
            };
            match set.field {
                FieldId::EthDst => put(frame, 0, 6)?,
                FieldId::EthSrc => put(frame, 6, 6)?,
                FieldId::VlanVid => {
                    let tci = frame.get_mut(14..16)?;
                    tci[0] = tci[0] & 0xf0 | value[14] & 0x0f;
                    tci[1] = value[15];
                }
                FieldId::MplsLabel => {
                    let at = ethertype(frame)? + 2;
                    let label = (set.value as u32) << 4;
                    let [_, a, b, c] = label.to_be_bytes();
                    let entry = frame.get_mut(at..at + 3)?;
                    (entry[0], entry[1], entry[2]) = (a, b, c | entry[2] & 0x0f);
                }
                FieldId::Ipv4Src | FieldId::Ipv4Dst | FieldId::IpDscp => {
                    let ip = ipv4(frame)?;
                    match set.field {
                        FieldId::Ipv4Src => put(frame, ip + 12, 4)?,
                        FieldId::Ipv4Dst => put(frame, ip + 16, 4)?,
                        _ => frame[ip + 1] = value[15] << 2 | frame[ip + 1] & 3,
                    }
                    checksum(frame.get_mut(ip..ip + 20)?);
                }
                FieldId::UdpSrc | FieldId::UdpDst => {
                    let udp = ipv4(frame)? + 20;
                    put(frame, udp + if set.field == FieldId::UdpDst { 2 } else { 0 }, 2)?;
                }
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(())
}

/// Where the type of what follows all VLAN tags lies.
fn ethertype(frame: &[u8]) -> Option<usize> {
    let mut at = 12;
    while matches!(frame.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
        at += 4;
    }
    Some(at)
}

/// Where the IPv4 header of a frame without MPLS begins.
fn ipv4(frame: &[u8]) -> Option<usize> {
    let at = ethertype(frame)?;
    (frame.get(at..at + 3)? == [0x08, 0x00, 0x45]).then_some(at + 2)
}

/// The fields of a frame, by where each ends; what lies behind the last is payload.
fn fields(frame: &[u8]) -> Vec<(usize, &'static str)> {
    let mut fields = vec![(6, "eth_dst"), (12, "eth_src")];
    let mut at = 12;
    let kind = |at: usize| frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    while matches!(kind(at), 0x8100 | 0x88a8) {
        fields.extend([(at + 2, "eth_type"), (at + 4, "vlan")]);
        at += 4;
    }
    fields.push((at + 2, "eth_type"));
    let mut ip = at + 2;
    let is_ip = match kind(at) {
        0x8847 | 0x8848 => {
            fields.push((ip + 4, "mpls"));
            ip += 4;
            true
        }
        other => other == 0x0800,
    };
    if is_ip && frame.get(ip) == Some(&0x45) {
        let of_ip = [
            (1, "ip_version"),
            (2, "ip_dscp"),
            (4, "ip_length"),
            (6, "ip_id"),
            (8, "ip_fragment"),
            (9, "ip_ttl"),
            (10, "ip_proto"),
            (12, "ip_checksum"),
            (16, "ip_src"),
            (20, "ip_dst"),
        ];
        fields.extend(of_ip.map(|(end, name)| (ip + end, name)));
        if frame.get(ip + 9) == Some(&17) {
            let of_udp = [(2, "udp_src"), (4, "udp_dst"), (6, "udp_length"), (8, "udp_checksum")];
            fields.extend(of_udp.map(|(end, name)| (ip + 20 + end, name)));
        }
    }
    fields
}

/// Names the fields in which a frame differs from what was expected; none if it does not. `length` stands for a frame of another length.
pub fn differences(expected: &[u8], came: &[u8]) -> Vec<&'static str> {
    let mut names = Vec::new();
    if expected == came {
        return names;
    }
    if expected.len() != came.len() {
        names.push("length");
    }
    let mut from = 0;
    let differ = |from: usize, to: usize| {
        let part = |bytes: &[u8]| bytes.get(from..to.min(bytes.len())).map(<[u8]>::to_vec);
        let (a, b) = (part(expected).unwrap_or_default(), part(came).unwrap_or_default());
        // What was cut off is told by the length.
        a.iter().zip(&b).any(|(a, b)| a != b)
    };
    for (to, name) in fields(expected) {
        if differ(from, to) && !names.contains(&name) {
            names.push(name);
        }
        from = to;
    }
    if differ(from, expected.len().max(came.len())) {
        names.push("payload");
    }
    // A checksum that was made to fit another field is no fault of its own.
    let of_ip = |name: &&str| name.starts_with("ip_") && *name != "ip_checksum";
    if names.iter().any(of_ip) && header_sums(came) {
        names.retain(|name| *name != "ip_checksum");
    }
    names
}

/// Whether the checksum of a frame's IPv4 header is right.
fn header_sums(frame: &[u8]) -> bool {
    let Some(header) = ipv4(frame).and_then(|ip| frame.get(ip..ip + 20)) else { return false };
    let mut right = header.to_vec();
    checksum(&mut right);
    right == header
}

/// The only bit in which two frames of one length differ; none if there are more, or none.
pub fn flipped(expected: &[u8], came: &[u8]) -> Option<usize> {
    if expected.len() != came.len() {
        return None;
    }
    let mut bits = expected.iter().zip(came).enumerate().filter(|(_, (a, b))| a != b);
    let (at, (a, b)) = bits.next()?;
    let other = a ^ b;
    (other.count_ones() == 1 && bits.next().is_none())
        .then_some(at * 8 + other.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{self, Probe};

    fn base(len: usize) -> Vec<u8> {
        probe::frame(len, 3, Probe { stream: 1, seq: 2, due: 3 })
    }

    fn made(actions: &[Action]) -> Vec<u8> {
        let mut frame = base(60);
        apply(actions, &mut frame).unwrap();
        frame
    }

    #[test]
    fn each_action_changes_its_field() {
        let set = Action::set_field;
        for (actions, fields) in [
            (vec![set(FieldId::UdpDst, 4242)], &["udp_dst"][..]),
            (vec![set(FieldId::EthDst, 0x0200_0000_aa02)], &["eth_dst"]),
            (vec![set(FieldId::Ipv4Src, 0xc612_0909)], &["ip_src"]),
            (vec![set(FieldId::IpDscp, 10)], &["ip_dscp"]),
            (vec![Action::DecNwTtl], &["ip_ttl"]),
        ] {
            assert_eq!(differences(&base(60), &made(&actions)), fields, "{actions:?}");
            assert!(header_sums(&made(&actions)));
        }
        let tagged = made(&[Action::PushVlan(0x8100), set(FieldId::VlanVid, 0x1005)]);
        assert_eq!(tagged[12..18], [0x81, 0, 0, 5, 8, 0]);
        let untagged = made(&[Action::PushVlan(0x8100)]);
        assert_eq!(differences(&tagged, &untagged), ["vlan"]);
        let labelled = made(&[Action::PushMpls(0x8847), set(FieldId::MplsLabel, 77)]);
        assert_eq!(labelled[12..19], [0x88, 0x47, 0, 4, 0xd1, 64, 0x45]);
        assert!(apply(&[Action::PopVlan], &mut base(60)).is_none());
    }

    #[test]
    fn what_differs_is_named() {
        let (whole, mut cut) = (base(508), base(508));
        cut.truncate(200);
        assert_eq!(differences(&whole, &cut), ["length"]);
        let mut other = whole.clone();
        other[200..216].fill(0xff);
        assert_eq!(differences(&whole, &other), ["payload"]);
        // Without a fitting checksum that is a fault, too.
        let mut other = whole.clone();
        other[22] = 7;
        assert_eq!(differences(&whole, &other), ["ip_ttl", "ip_checksum"][..1]);
        other[24] ^= 0x40;
        assert_eq!(differences(&whole, &other), ["ip_ttl", "ip_checksum"]);
        assert_eq!(differences(&whole, &whole), [""; 0]);
    }

    #[test]
    fn one_flipped_bit_is_known() {
        for bit in 0..60 * 8 {
            let mut other = base(60);
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(flipped(&base(60), &other), Some(bit));
            assert_eq!(differences(&base(60), &other).len(), 1, "{bit}");
            other[(bit / 8 + 1) % 60] ^= 1;
            assert_eq!(flipped(&base(60), &other), None);
        }
        assert_eq!(flipped(&base(60), &base(61)), None);
    }
}
