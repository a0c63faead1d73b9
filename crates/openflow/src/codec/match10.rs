//! The fixed match of 1.0: twelve fields and wildcard bits (1.0.2 §5.2.3).
//!
//! Its network and transport fields mean different things by `dl_type` and `nw_proto`; each becomes
//! the neutral field that it means, and one that means nothing there is dropped, as Open vSwitch
//! does:
//!
//! | `dl_type`       | `nw_tos`  | `nw_proto` | `nw_src`, `nw_dst`     | `tp_src`, `tp_dst`             |
//! |-----------------|-----------|------------|------------------------|--------------------------------|
//! | 0x0800          | `ip_dscp` | `ip_proto` | `ipv4_src`, `ipv4_dst` | TCP, UDP, SCTP ports; ICMP     |
//! | 0x86dd          | `ip_dscp` | `ip_proto` | -                      | TCP, UDP, SCTP ports; ICMPv6   |
//! | 0x0806, 0x8035  | -         | `arp_op`   | `arp_spa`, `arp_tpa`   | -                              |
//! | other, wildcard | -         | -          | -                      | -                              |
//!
//! `dl_vlan` 0xffff is `vlan_vid=0`; another value gains the presence bit; a priority without an id
//! is `vlan_vid=0x1000/0x1000` with `vlan_pcp`.

use super::reader::{Reader, Result};
use super::writer::Put;
use crate::field::{FieldId, VLAN_NONE, VLAN_PRESENT};
use crate::flow_match::Match;
use crate::ids::{MacAddr, PortNo};

const IN_PORT: u32 = 1 << 0;
const DL_VLAN: u32 = 1 << 1;
const DL_SRC: u32 = 1 << 2;
const DL_DST: u32 = 1 << 3;
const DL_TYPE: u32 = 1 << 4;
const NW_PROTO: u32 = 1 << 5;
const TP_SRC: u32 = 1 << 6;
const TP_DST: u32 = 1 << 7;
const NW_SRC_SHIFT: u32 = 8;
const NW_DST_SHIFT: u32 = 14;
const DL_VLAN_PCP: u32 = 1 << 20;
const NW_TOS: u32 = 1 << 21;
/// Everything wildcarded, the addresses by 32 bits each.
const ALL: u32 = IN_PORT
    | DL_VLAN
    | DL_SRC
    | DL_DST
    | DL_TYPE
    | NW_PROTO
    | TP_SRC
    | TP_DST
    | 32 << NW_SRC_SHIFT
    | 32 << NW_DST_SHIFT
    | DL_VLAN_PCP
    | NW_TOS;
/// Every bit that says that something is wild.
const WILD: u32 = (1 << 22) - 1;
const VLAN_NONE_V10: u16 = 0xffff;
const VID_BITS: u128 = 0x0fff;

const IPV4: u128 = 0x0800;
const ARP: u128 = 0x0806;
const RARP: u128 = 0x8035;
const IPV6: u128 = 0x86dd;

/// The fields that 1.0's transport ports stand for.
fn transport(eth_type: u128, ip_proto: u128) -> Option<(FieldId, FieldId)> {
    Some(match (eth_type, ip_proto) {
        (IPV4 | IPV6, 6) => (FieldId::TcpSrc, FieldId::TcpDst),
        (IPV4 | IPV6, 17) => (FieldId::UdpSrc, FieldId::UdpDst),
        (IPV4 | IPV6, 132) => (FieldId::SctpSrc, FieldId::SctpDst),
        (IPV4, 1) => (FieldId::Icmpv4Type, FieldId::Icmpv4Code),
        (IPV6, 58) => (FieldId::Icmpv6Type, FieldId::Icmpv6Code),
        _ => return None,
    })
}

fn is_icmp(src: FieldId) -> bool {
    matches!(src, FieldId::Icmpv4Type | FieldId::Icmpv6Type)
}

/// The fields that 1.0's network addresses stand for.
fn addresses(eth_type: u128) -> Option<(FieldId, FieldId)> {
    match eth_type {
        IPV4 => Some((FieldId::Ipv4Src, FieldId::Ipv4Dst)),
        ARP | RARP => Some((FieldId::ArpSpa, FieldId::ArpTpa)),
        _ => None,
    }
}

fn prefix_mask(wildcards: u32, shift: u32) -> u128 {
    let wild_bits = (wildcards >> shift & 0x3f).min(32);
    u128::from(u32::MAX.checked_shl(wild_bits).unwrap_or(0))
}

/// Whether the match that follows has no wildcards.
pub(super) fn is_exact(mut r: Reader<'_>) -> Result<bool> {
    Ok(r.u32()? & WILD == 0)
}

/// Reads the match.
pub(super) fn decode(r: &mut Reader<'_>) -> Result<Match> {
    Ok(decode_with_icmp(r)?.0)
}

/// Reads the match, and the high bytes of ICMP's type and code.
pub(super) fn decode_with_icmp(r: &mut Reader<'_>) -> Result<(Match, [u8; 2])> {
    let w = r.u32()?;
    let in_port = r.u16()?;
    let dl_src = r.mac()?;
    let dl_dst = r.mac()?;
    let dl_vlan = r.u16()?;
    let dl_vlan_pcp = r.u8()?;
    r.skip(1)?;
    let dl_type = r.u16()?;
    let nw_tos = r.u8()?;
    let nw_proto = r.u8()?;
    r.skip(2)?;
    let (nw_src, nw_dst) = (r.u32()?, r.u32()?);
    let (tp_src, tp_dst) = (r.u16()?, r.u16()?);
    let given = |bit: u32| w & bit == 0;

    let (mut m, mut icmp) = (Match::new(), [0; 2]);
    if given(IN_PORT) {
        m.set(FieldId::InPort, PortNo::from_v10(in_port).0.into());
    }
    if given(DL_DST) {
        m.set(FieldId::EthDst, dl_dst.to_u64().into());
    }
    if given(DL_SRC) {
        m.set(FieldId::EthSrc, dl_src.to_u64().into());
    }
    if given(DL_VLAN) && dl_vlan == VLAN_NONE_V10 {
        // A priority without a tag contradicts itself; "no tag" wins.
        m.set(FieldId::VlanVid, VLAN_NONE);
    } else {
        if given(DL_VLAN) {
            m.set(FieldId::VlanVid, u128::from(dl_vlan) & VID_BITS | VLAN_PRESENT);
        } else if given(DL_VLAN_PCP) {
            m.set_masked(FieldId::VlanVid, VLAN_PRESENT, VLAN_PRESENT);
        }
        if given(DL_VLAN_PCP) {
            m.set(FieldId::VlanPcp, dl_vlan_pcp.into());
        }
    }
    if !given(DL_TYPE) {
        return Ok((m, icmp));
    }
    let eth_type = u128::from(dl_type);
    m.set(FieldId::EthType, eth_type);
    if let Some((src, dst)) = addresses(eth_type) {
        m.set_masked(src, nw_src.into(), prefix_mask(w, NW_SRC_SHIFT));
        m.set_masked(dst, nw_dst.into(), prefix_mask(w, NW_DST_SHIFT));
    }
    match eth_type {
        IPV4 | IPV6 => {
            if given(NW_TOS) {
                m.set(FieldId::IpDscp, (nw_tos >> 2).into());
            }
            if given(NW_PROTO) {
                m.set(FieldId::IpProto, nw_proto.into());
                if let Some((src, dst)) = transport(eth_type, nw_proto.into()) {
                    let ports = [(TP_SRC, src, tp_src), (TP_DST, dst, tp_dst)];
                    for (high, (bit, id, port)) in icmp.iter_mut().zip(ports) {
                        if given(bit) {
                            //= openflow-1.0.2 §3.4: of ICMP's type and code the low 8 bits count.
                            m.set(id, port.into());
                            if is_icmp(src) {
                                *high = port.to_be_bytes()[0];
                            }
                        }
                    }
                }
            }
        }
        ARP | RARP if given(NW_PROTO) => m.set(FieldId::ArpOp, nw_proto.into()),
        _ => {}
    }
    Ok((m, icmp))
}

/// Writes the match; gives back whether 1.0 can say all of it.
pub(super) fn encode(buf: &mut Vec<u8>, m: &Match) -> bool {
    encode_with_icmp(buf, m, [0; 2])
}

/// Writes the match, with the high bytes of ICMP's type and code where it has them; gives back whether 1.0 can say
/// all of it.
pub(super) fn encode_with_icmp(buf: &mut Vec<u8>, m: &Match, icmp: [u8; 2]) -> bool {
    let mut w = ALL;
    let mut said = 0;
    // The field's exact value; clears its wildcard bit.
    let exact = |w: &mut u32, said: &mut usize, bit: u32, id: FieldId| match m.exact(id) {
        Some(value) => {
            *w &= !bit;
            *said += 1;
            value
        }
        None => 0,
    };
    // The field's value under a prefix mask.
    let prefix = |w: &mut u32, said: &mut usize, shift: u32, id: FieldId| {
        let Some(field) = m.get(id) else { return 0 };
        let mask = field.mask as u32;
        let wild_bits = mask.trailing_zeros();
        if mask.leading_ones() + wild_bits == 32 {
            *said += 1;
        }
        *w = *w & !(0x3f << shift) | wild_bits << shift;
        field.value as u32
    };

    let in_port = match m.exact(FieldId::InPort).and_then(|p| PortNo(p as u32).to_v10()) {
        Some(port) => {
            w &= !IN_PORT;
            said += 1;
            port
        }
        None => 0,
    };
    let dl_src = exact(&mut w, &mut said, DL_SRC, FieldId::EthSrc);
    let dl_dst = exact(&mut w, &mut said, DL_DST, FieldId::EthDst);
    let (mut dl_vlan, mut dl_vlan_pcp) = (0, 0);
    if let Some(vid) = m.get(FieldId::VlanVid) {
        if vid.mask & VLAN_PRESENT != 0 && vid.value & VLAN_PRESENT == 0 {
            w &= !(DL_VLAN | DL_VLAN_PCP);
            dl_vlan = VLAN_NONE_V10;
            said += 1;
        } else {
            if vid.mask & VID_BITS != 0 {
                w &= !DL_VLAN;
                dl_vlan = (vid.value & VID_BITS) as u16;
            }
            if let Some(pcp) = m.exact(FieldId::VlanPcp) {
                w &= !DL_VLAN_PCP;
                dl_vlan_pcp = pcp as u8;
                said += 1;
            }
            let any_tag_with_pcp = vid.mask == VLAN_PRESENT && w & DL_VLAN_PCP == 0;
            said += usize::from(vid.is_exact() || any_tag_with_pcp);
        }
    }
    let eth_type = exact(&mut w, &mut said, DL_TYPE, FieldId::EthType);
    let nw_tos = exact(&mut w, &mut said, NW_TOS, FieldId::IpDscp) << 2;
    let (mut nw_proto, mut nw_src, mut nw_dst, mut tp_src, mut tp_dst) = (0, 0, 0, 0, 0);
    if matches!(eth_type, ARP | RARP) {
        if m.exact(FieldId::ArpOp).is_some_and(|op| op <= 0xff) {
            nw_proto = exact(&mut w, &mut said, NW_PROTO, FieldId::ArpOp);
        }
    } else {
        nw_proto = exact(&mut w, &mut said, NW_PROTO, FieldId::IpProto);
    }
    if let Some((src, dst)) = addresses(eth_type) {
        nw_src = prefix(&mut w, &mut said, NW_SRC_SHIFT, src);
        nw_dst = prefix(&mut w, &mut said, NW_DST_SHIFT, dst);
    }
    if let Some((src, dst)) = transport(eth_type, nw_proto) {
        tp_src = exact(&mut w, &mut said, TP_SRC, src);
        tp_dst = exact(&mut w, &mut said, TP_DST, dst);
        if is_icmp(src) {
            let high = |bit: u32, high: u8| if w & bit == 0 { u128::from(high) << 8 } else { 0 };
            tp_src |= high(TP_SRC, icmp[0]);
            tp_dst |= high(TP_DST, icmp[1]);
        }
    }

    buf.put_u32(w);
    buf.put_u16(in_port);
    buf.put_mac(MacAddr::from_u64(dl_src as u64));
    buf.put_mac(MacAddr::from_u64(dl_dst as u64));
    buf.put_u16(dl_vlan);
    buf.put_u8(dl_vlan_pcp);
    buf.pad(1);
    buf.put_u16(eth_type as u16);
    buf.put_u8(nw_tos as u8);
    buf.put_u8(nw_proto as u8);
    buf.pad(2);
    buf.put_u32(nw_src);
    buf.put_u32(nw_dst);
    buf.put_u16(tp_src as u16);
    buf.put_u16(tp_dst as u16);
    said == m.len()
}
