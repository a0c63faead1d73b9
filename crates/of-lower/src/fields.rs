//! Match fields: how each is read, and what set-field does.
//!
//! The key of every flow table has one column for each [`FieldId`] that is one field, at its own number;
//! so a match field's place in the key is the field itself. A field that the packet lacks reads as zero;
//! a match that uses it names the prerequisites beside it, so that zero is never mistaken for a
//! value.

use super::headers::{Headers, METADATA};
use super::tags::{ensure_vlan, pop_vlan};
use ir::program::intrinsic;
use ir::{BinaryOp, Expr, FieldRef, Key, MatchKind, Op};
use openflow::{FIELDS, FieldId, Subfield};
use std::sync::Arc;

/// The key that all flow tables share.
pub fn key(h: &Headers) -> Arc<[Key]> {
    let column = |id: FieldId| Key {
        name: id.to_string(),
        expr: read(h, id),
        kind: MatchKind::Ternary,
        width: id.info().bits,
    };
    FIELDS.iter().filter(|info| !info.id.is_composite()).map(|info| column(info.id)).collect()
}

/// The key's columns as they are when a packet and the first one of its connection change places (ovs-actions(7),
/// `resubmit` with `ct`): addresses, protocol and ports, ICMP's type and code being ports.
pub fn original_tuple(h: &Headers) -> Vec<(u32, Expr)> {
    use FieldId::*;
    let read = |id: FieldId| read(h, id);
    let byte = |id: FieldId| read(id).slice(7, 0);
    // Of a packet without such a header it is 0.
    let port = |ports: [FieldId; 3], types: [FieldId; 2]| {
        let types = types.map(|id| read(id).cast(16));
        let all = ports.map(&read).into_iter().chain(types);
        all.reduce(|a, b| Expr::binary(BinaryOp::Or, a, b)).unwrap_or_else(|| Expr::int(0, 16))
    };
    let swapped = [(IpProto, CtNwProto), (Ipv4Src, CtNwSrc), (Ipv4Dst, CtNwDst)]
        .into_iter()
        .chain([(Ipv6Src, CtIpv6Src), (Ipv6Dst, CtIpv6Dst)])
        .flat_map(|(own, original)| [(own, read(original)), (original, read(own))]);
    let ports = [TcpSrc, UdpSrc, SctpSrc].map(|id| (id, read(CtTpSrc))).into_iter();
    let ports = ports.chain([TcpDst, UdpDst, SctpDst].map(|id| (id, read(CtTpDst))));
    let types = [Icmpv4Type, Icmpv6Type].map(|id| (id, byte(CtTpSrc))).into_iter();
    let types = types.chain([Icmpv4Code, Icmpv6Code].map(|id| (id, byte(CtTpDst))));
    let back = [
        (CtTpSrc, port([TcpSrc, UdpSrc, SctpSrc], [Icmpv4Type, Icmpv6Type])),
        (CtTpDst, port([TcpDst, UdpDst, SctpDst], [Icmpv4Code, Icmpv6Code])),
    ];
    swapped.chain(ports).chain(types).chain(back).map(|(id, e)| (id as u32, e)).collect()
}

/// `packet_type` of an Ethernet frame: namespace 0, type 0.
pub const PACKET_TYPE_ETHERNET: u128 = 0;

/// Where a field that has one place lives.
fn place(h: &Headers, id: FieldId) -> Option<FieldRef> {
    Some(match id {
        FieldId::Metadata => FieldRef::Meta(h.metadata),
        FieldId::EthDst => h.eth_dst,
        FieldId::EthSrc => h.eth_src,
        FieldId::EthType => FieldRef::Meta(h.ether_type),
        FieldId::VlanPcp => h.vlan_pcp,
        FieldId::IpProto => FieldRef::Meta(h.ip_proto),
        FieldId::Ipv4Src => h.ipv4_src,
        FieldId::Ipv4Dst => h.ipv4_dst,
        FieldId::TcpSrc => h.tcp_src,
        FieldId::TcpDst => h.tcp_dst,
        FieldId::UdpSrc => h.udp_src,
        FieldId::UdpDst => h.udp_dst,
        FieldId::SctpSrc => h.sctp_src,
        FieldId::SctpDst => h.sctp_dst,
        FieldId::Icmpv4Type => h.icmp_type,
        FieldId::Icmpv4Code => h.icmp_code,
        FieldId::ArpOp => h.arp_op,
        FieldId::ArpSpa => h.arp_spa,
        FieldId::ArpTpa => h.arp_tpa,
        FieldId::ArpSha => h.arp_sha,
        FieldId::ArpTha => h.arp_tha,
        FieldId::Ipv6Src => h.ipv6_src,
        FieldId::Ipv6Dst => h.ipv6_dst,
        FieldId::Ipv6Flabel => h.ipv6_flabel,
        FieldId::Icmpv6Type => h.icmpv6_type,
        FieldId::Icmpv6Code => h.icmpv6_code,
        FieldId::Ipv6NdTarget => h.nd_target,
        FieldId::Ipv6NdSll => h.nd_sll_addr,
        FieldId::Ipv6NdTll => h.nd_tll_addr,
        FieldId::MplsLabel => h.mpls_label,
        FieldId::MplsTc => h.mpls_tc,
        FieldId::MplsBos => h.mpls_bos,
        FieldId::PbbIsid => h.itag_isid,
        FieldId::TunnelId => FieldRef::Meta(h.tunnel_id),
        FieldId::Ipv6Exthdr => FieldRef::Meta(h.exthdr),
        FieldId::PbbUca => h.itag_uca,
        FieldId::TcpFlags => h.tcp_flags,
        FieldId::IpFrag => FieldRef::Meta(h.fragment),
        FieldId::ConjId => FieldRef::Meta(h.conj_id),
        FieldId::CtState => FieldRef::Meta(h.ct[0]),
        FieldId::CtMark => FieldRef::Meta(h.ct[1]),
        FieldId::CtLabel => FieldRef::Meta(h.ct[2]),
        FieldId::CtZone => FieldRef::Meta(h.ct[3]),
        FieldId::CtNwSrc => FieldRef::Meta(h.ct[4]),
        FieldId::CtNwDst => FieldRef::Meta(h.ct[5]),
        FieldId::CtIpv6Src => FieldRef::Meta(h.ct[6]),
        FieldId::CtIpv6Dst => FieldRef::Meta(h.ct[7]),
        FieldId::CtNwProto => FieldRef::Meta(h.ct[8]),
        FieldId::CtTpSrc => FieldRef::Meta(h.ct[9]),
        FieldId::CtTpDst => FieldRef::Meta(h.ct[10]),
        FieldId::SfMetadata => FieldRef::Meta(h.sf[0]),
        FieldId::SfAction => FieldRef::Meta(h.sf[1]),
        FieldId::SfStage => FieldRef::Meta(h.sf[2]),
        FieldId::SfCoalesce => FieldRef::Meta(h.sf[3]),
        FieldId::SfArgument => FieldRef::Meta(h.sf[4]),
        id if id.is_register() => FieldRef::Meta(h.regs[id as usize - FieldId::Reg0 as usize]),
        id => {
            let at = METADATA.iter().position(|plain| *plain == id)?;
            FieldRef::Meta(h.plain[at])
        }
    })
}

/// The field's value.
pub fn read(h: &Headers, id: FieldId) -> Expr {
    match (place(h, id), id) {
        (Some(field), _) => Expr::Field(field),
        (None, FieldId::InPort) => h.in_port(),
        (None, FieldId::InPhyPort) => h.in_phy_port(),
        (None, FieldId::VlanTci) => {
            let vid = read(h, FieldId::VlanVid);
            Expr::binary(BinaryOp::Concat, Expr::Field(h.vlan_pcp), vid)
        }
        (None, FieldId::IpTos) => {
            Expr::binary(BinaryOp::Concat, read(h, FieldId::IpDscp), Expr::int(0, 2))
        }
        (None, id) if let Some((first, count)) = id.registers() => {
            let one = |number| read(h, FieldId::register(number));
            let more = (first + 1..first + count).map(one);
            more.fold(one(first), |all, next| Expr::binary(BinaryOp::Concat, all, next))
        }
        (None, FieldId::IpDscp) => Headers::either(h.ipv4_dscp, h.ipv6_dscp),
        (None, FieldId::IpEcn) => Headers::either(h.ipv4_ecn, h.ipv6_ecn),
        (None, FieldId::NwTtl) => Headers::either(h.ipv4_ttl, h.ipv6_hlim),
        (None, id) if id.tun_metadata().is_some() => {
            let value = h.tunnels.as_ref().and_then(|tunnels| tunnels.read(id));
            value.unwrap_or_else(|| Expr::int(0, 128))
        }
        // Every packet is an Ethernet frame.
        (None, FieldId::PacketType) => Expr::int(PACKET_TYPE_ETHERNET, 32),
        (None, FieldId::ActsetOutput) => h.slots.actset_output(),
        // OFPVID_PRESENT and the id: zero without a tag.
        (None, _) => Expr::binary(BinaryOp::Concat, Expr::Valid(h.vlan_0), Expr::Field(h.vlan_vid)),
    }
}

/// Writes the field, where the packet has it; `value` is of the field's width.
pub fn write(h: &Headers, id: FieldId, value: Expr) -> Vec<Op> {
    match id {
        FieldId::EthType => write_ether_type(h, value),
        FieldId::VlanVid => vec![Op::Assign(h.vlan_vid, value.slice(11, 0))],
        FieldId::InPort => {
            let real = Expr::meta(intrinsic::IN_PORT);
            let changed = Expr::binary(BinaryOp::Xor, real, value);
            vec![Op::Assign(FieldRef::Meta(h.in_port_changed), changed)]
        }
        FieldId::VlanTci => write_tci(h, value),
        FieldId::IpTos => write(h, FieldId::IpDscp, value.slice(7, 2)),
        id if id.tun_metadata().is_some() => {
            h.tunnels.as_ref().map_or_else(Vec::new, |tunnels| tunnels.write(id, value))
        }
        id if let Some((first, count)) = id.registers() => {
            // Kept first, since it may read the registers that it goes to.
            let mut ops = vec![Op::Assign(FieldRef::Meta(h.scratch), value.cast(128))];
            for i in 0..count {
                let low = 32 * (count - 1 - i) as u32;
                let part = Expr::meta(h.scratch).slice(low + 31, low);
                ops.extend(write(h, FieldId::register(first + i), part));
            }
            ops
        }
        FieldId::IpDscp => {
            vec![Op::Assign(h.ipv4_dscp, value.clone()), Op::Assign(h.ipv6_dscp, value)]
        }
        FieldId::IpEcn => {
            vec![Op::Assign(h.ipv4_ecn, value.clone()), Op::Assign(h.ipv6_ecn, value)]
        }
        FieldId::NwTtl => {
            vec![Op::Assign(h.ipv4_ttl, value.clone()), Op::Assign(h.ipv6_hlim, value)]
        }
        FieldId::IpProto => vec![
            Op::Assign(h.ipv4_proto, value.clone()),
            Op::If {
                condition: Expr::Valid(h.ipv6_ext_0),
                then: vec![Op::Assign(h.ipv6_ext_last_next, value.clone())],
                or_else: vec![Op::Assign(h.ipv6_next, value.clone())],
            },
            Op::Assign(FieldRef::Meta(h.ip_proto), value),
        ],
        _ => place(h, id).map(|field| Op::Assign(field, value)).into_iter().collect(),
    }
}

/// Writes all of the outermost tag (ovs-fields(7), `vlan_tci`): without the bit that says that there is one,
/// the tag goes; with it one comes where there was none.
fn write_tci(h: &Headers, value: Expr) -> Vec<Op> {
    let kept = || Expr::meta(h.scratch);
    let then = vec![
        ensure_vlan(h),
        Op::Assign(h.vlan_pcp, kept().slice(15, 13)),
        Op::Assign(h.vlan_vid, kept().slice(11, 0)),
    ];
    vec![
        // Kept first, since it may read the tag that changes.
        Op::Assign(FieldRef::Meta(h.scratch), value.cast(128)),
        Op::If { condition: kept().slice(12, 12), then, or_else: pop_vlan(h) },
    ]
}

/// Nicira's ingress ports have 16 bits: all of them stand for a port of 32.
fn is_port(to: Subfield, count: u16) -> bool {
    to.field == FieldId::InPort && (to.offset, count) == (0, 16)
}

/// The port of a number of 16 bits.
fn port(number: Expr) -> Expr {
    let reserved = Expr::binary(BinaryOp::Ge, number.clone(), Expr::int(0xff00, 16));
    let high =
        Expr::Mux(Box::new(reserved), Box::new(Expr::int(0xffff, 16)), Box::new(Expr::int(0, 16)));
    Expr::binary(BinaryOp::Concat, high, number)
}

/// Writes the bits of the field that `mask` selects; `value` has no others.
pub fn write_masked(h: &Headers, id: FieldId, value: Expr, mask: Expr) -> Vec<Op> {
    write(h, id, merge(read(h, id), value, mask))
}

/// Copies bits of a field into another (1.5.1 §7.2.6.8); both have so many from their offsets on.
pub fn copy(h: &Headers, bits: u16, from: Subfield, to: Subfield) -> Vec<Op> {
    let (bits, offset) = (u32::from(bits), u32::from(from.offset));
    let taken = read(h, from.field).slice(offset + bits - 1, offset);
    let width = to.field.info().bits;
    if bits == width {
        return write(h, to.field, taken);
    }
    if is_port(to, bits as u16) {
        return write(h, to.field, port(taken));
    }
    let at = u32::from(to.offset);
    let mask = (u128::MAX >> (128 - bits)) << at;
    let shifted = Expr::binary(BinaryOp::Shl, taken.cast(width), Expr::int(at.into(), 8));
    write(h, to.field, merge(read(h, to.field), shifted, Expr::int(mask, width)))
}

/// Writes bits of a field, whose others stay; `value` has at least so many.
pub fn write_bits(h: &Headers, to: Subfield, count: u16, value: Expr) -> Vec<Op> {
    let (count, at) = (u32::from(count), u32::from(to.offset));
    let width = to.field.info().bits;
    let value = value.cast(count);
    if count == width {
        return write(h, to.field, value);
    }
    if is_port(to, count as u16) {
        return write(h, to.field, port(value));
    }
    let mask = (u128::MAX >> (128 - count)) << at;
    let shifted = Expr::binary(BinaryOp::Shl, value.cast(width), Expr::int(at.into(), 8));
    write(h, to.field, merge(read(h, to.field), shifted, Expr::int(mask, width)))
}

/// Bits of a field.
pub fn read_bits(h: &Headers, of: Subfield, count: u16) -> Expr {
    let at = u32::from(of.offset);
    read(h, of.field).slice(at + u32::from(count) - 1, at)
}

/// `old` with the bits of `mask` replaced by those of `value`, which has no others.
pub fn merge(old: Expr, value: Expr, mask: Expr) -> Expr {
    let keep = Expr::Unary(ir::UnaryOp::Not, Box::new(mask));
    Expr::binary(BinaryOp::Or, Expr::binary(BinaryOp::And, old, keep), value)
}

/// Writes the EtherType behind the innermost tag, and the metadata that mirrors it.
pub fn write_ether_type(h: &Headers, value: Expr) -> Vec<Op> {
    vec![
        Op::If {
            condition: Expr::Valid(h.snap),
            then: vec![Op::Assign(h.snap_type, value.clone())],
            or_else: vec![Op::If {
                condition: Expr::Valid(h.vlan_0),
                then: vec![Op::Assign(h.vlan_last_type, value.clone())],
                or_else: vec![Op::Assign(h.eth_type, value.clone())],
            }],
        },
        Op::Assign(FieldRef::Meta(h.ether_type), value),
    ]
}
