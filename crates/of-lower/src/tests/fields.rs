//! Every match field, hit and miss; every settable field, written.

use super::bed::{Bed, apply, becomes, goto, hex, out, through};
use super::frames::{DST, Frame, L4, Net, SRC, arp, arp_frame, frame, pbb, tcp4, tcp6, v4, v6};
use crate::{lower_match, raise_match};
use ir::DropReason;
use openflow::{Action, FieldId, Instruction, Match};

use FieldId as F;

fn m() -> Match {
    Match::new()
}

fn ip4() -> Match {
    m().with(F::EthType, 0x0800)
}

fn ip6() -> Match {
    m().with(F::EthType, 0x86dd)
}

fn matches(matching: &Match, bytes: &[u8]) -> bool {
    let mut bed = Bed::new();
    bed.flow(0, 1, matching.clone(), &[apply(&[out(2)])]);
    let sent = bed.send(1, bytes);
    if sent.all.outputs.is_empty() {
        sent.dropped(DropReason::TableMiss);
        false
    } else {
        assert_eq!(sent.one().bytes, bytes);
        assert!(sent.one().unchanged);
        true
    }
}

/// The frame matches this value of the field and no other, in all wrappings that keep it.
#[track_caller]
fn field(prerequisites: &Match, id: FieldId, value: u128, f: &Frame) {
    let width = id.info().bits;
    let other = value ^ 1 << (width - 1).min(11);
    let is = |value| prerequisites.clone().with(id, value);
    for (name, bytes) in [
        ("plain", f.bytes()),
        ("tagged", f.vlan(0x8100, 0x6064).bytes()),
        ("tagged twice", f.vlan(0x8100, 0x6064).vlan(0x88a8, 10).bytes()),
    ] {
        if matches!(id, F::VlanVid | F::VlanPcp) && name != "plain" {
            continue;
        }
        assert!(matches(&is(value), &bytes), "{id}={value:#x}, {name}");
        assert!(!matches(&is(other), &bytes), "{id}={other:#x}, {name}");
        if id.info().maskable && id != F::VlanVid {
            let mask = id.all_bits() & !3;
            let some = prerequisites.clone().with_masked(id, value, mask);
            assert!(matches(&some, &bytes), "{id} masked, {name}");
            let some = prerequisites.clone().with_masked(id, other, mask);
            assert!(!matches(&some, &bytes), "{id} masked to another value, {name}");
        }
    }
    if matches!(f.net, Net::V4 { .. } | Net::V6 { .. } | Net::Arp { .. }) && f.mpls.is_empty() {
        // Unwrapped in table 0, matched in table 1.
        let ether_type = prerequisites.exact(F::EthType).unwrap_or(0) as u16;
        let behind_mpls = f.mpls(100, 3, 64).bytes();
        let behind_pbb = pbb(100, &f.vlan(0x8100, 0x6064).vlan(0x88a8, 10).bytes());
        for (pop, bytes) in
            [(Action::PopMpls(ether_type), behind_mpls), (Action::PopPbb, behind_pbb)]
        {
            if ether_type == 0 {
                continue;
            }
            for (value, hit) in [(value, true), (other, false)] {
                let mut bed = Bed::new();
                bed.flow(0, 1, m(), &[apply(std::slice::from_ref(&pop)), goto(1)]);
                bed.flow(1, 1, is(value), &[apply(&[out(2)])]);
                let sent = bed.send(1, &bytes);
                assert_eq!(!sent.all.outputs.is_empty(), hit, "{pop:?}, {id}={value:#x}");
            }
        }
    }
}

fn udp4() -> Frame {
    frame(v4(), L4::Udp(11111, 2222, true))
}

fn nd(kind: u8, option: u8) -> Frame {
    frame(v6(), L4::Nd { kind, target: 0x20 << 100 | 7, option, address: SRC })
}

#[test]
fn link_fields() {
    field(&m(), F::InPort, 1, &tcp4());
    field(&m().with(F::InPort, 1), F::InPhyPort, 1, &tcp4());
    field(&m(), F::EthDst, DST.into(), &tcp4());
    field(&m(), F::EthSrc, SRC.into(), &tcp4());
    field(&m(), F::EthType, 0x0800, &tcp4());
    field(&m(), F::EthType, 0x86dd, &tcp6());
    field(&m(), F::EthType, 0x0806, &arp_frame());
    field(&m(), F::EthType, 0x88b5, &frame(Net::None, L4::None));
    field(&m(), F::EthType, 0x8847, &tcp4().mpls(5, 0, 1));
    field(&m(), F::TunnelId, 0, &tcp4());
    let tagged = tcp4().vlan(0x8100, 0x6064);
    field(&m(), F::VlanVid, 0x1064, &tagged);
    field(&m().with(F::VlanVid, 0x1064), F::VlanPcp, 3, &tagged);
    let outer = tagged.vlan(0x88a8, 0xa00a);
    field(&m(), F::VlanVid, 0x100a, &outer);
    field(&m().with(F::VlanVid, 0x100a), F::VlanPcp, 5, &outer);
}

#[test]
fn vlan_presence() {
    let untagged = tcp4().bytes();
    let priority = tcp4().vlan(0x8100, 0x6000).bytes();
    let tagged = tcp4().vlan(0x8100, 0x6064).bytes();
    let none = m().with(F::VlanVid, 0);
    let any = m().with_masked(F::VlanVid, 0x1000, 0x1000);
    let zero = m().with(F::VlanVid, 0x1000);
    let bits = m().with_masked(F::VlanVid, 96, 240);
    let hits = |m: &Match| [&untagged, &priority, &tagged].map(|bytes| matches(m, bytes));
    assert_eq!(hits(&none), [true, false, false]);
    assert_eq!(hits(&any), [false, true, true]);
    assert_eq!(hits(&zero), [false, true, false]);
    assert_eq!(hits(&bits), [false, false, true]);
}

#[test]
fn mpls_and_pbb_fields() {
    for ether_type in [0x8847u16, 0x8848] {
        let mpls = m().with(F::EthType, ether_type.into());
        let f = tcp6().mpls(100, 3, 64).with(|f| f.mpls_type = ether_type);
        field(&mpls, F::MplsLabel, 100, &f);
        field(&mpls, F::MplsTc, 3, &f);
        field(&mpls, F::MplsBos, 1, &f);
        let deep = f.mpls(200, 5, 9);
        field(&mpls, F::MplsLabel, 200, &deep);
        field(&mpls, F::MplsBos, 0, &deep);
    }
    let isid =
        |value: u128, mask| m().with(F::EthType, 0x88e7).with_masked(F::PbbIsid, value, mask);
    let inner = tcp4().vlan(0x8100, 0x6064).bytes();
    let plain = pbb(100, &inner);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x88, 0xa8, 0, 10]);
    for bytes in [plain, tagged] {
        assert!(matches(&isid(100, !0), &bytes));
        assert!(!matches(&isid(203, !0), &bytes));
        assert!(matches(&isid(96, 240), &bytes));
        assert!(!matches(&m().with(F::EthType, 0x0800), &bytes));
    }
}

#[test]
fn arp_fields() {
    let p = m().with(F::EthType, 0x0806);
    let f = arp_frame();
    field(&p, F::ArpOp, 1, &f);
    field(&p, F::ArpSpa, 0xc0a8_0a0a, &f);
    field(&p, F::ArpTpa, 0xc0a8_0014, &f);
    field(&p, F::ArpSha, SRC.into(), &f);
    field(&p, F::ArpTha, DST.into(), &f);
}

#[test]
fn ip_fields() {
    field(&ip4(), F::IpDscp, 8, &tcp4());
    field(&ip4(), F::IpEcn, 2, &tcp4().set_v4(|_, _, tos, _| *tos = 0x22));
    field(&ip4(), F::IpProto, 6, &tcp4());
    field(&ip4(), F::IpProto, 253, &frame(v4(), L4::None));
    field(&ip4(), F::Ipv4Src, 0xc0a8_0a0a, &tcp4());
    field(&ip4(), F::Ipv4Dst, 0xc0a8_0014, &tcp4());
    field(&ip6(), F::IpDscp, 8, &tcp6());
    field(&ip6(), F::IpEcn, 1, &tcp6().set_v6(|_, _, tc, _| *tc = 0x21));
    field(&ip6(), F::IpProto, 6, &tcp6());
    field(&ip6(), F::Ipv6Src, 0x10 << 120 | 0x20, &tcp6());
    field(&ip6(), F::Ipv6Dst, 0x20, &tcp6());
    field(&ip6(), F::Ipv6Flabel, 100, &tcp6());
    field(&ip6(), F::Ipv6Exthdr, 0, &tcp6());
}

#[test]
fn transport_fields() {
    for (ip, net) in [(ip4(), v4()), (ip6(), v6())] {
        let tcp = ip.clone().with(F::IpProto, 6);
        let f = frame(net.clone(), L4::Tcp(11111, 2222));
        field(&tcp, F::TcpSrc, 11111, &f);
        field(&tcp, F::TcpDst, 2222, &f);
        let udp = ip.clone().with(F::IpProto, 17);
        let f = frame(net.clone(), L4::Udp(11111, 2222, true));
        field(&udp, F::UdpSrc, 11111, &f);
        field(&udp, F::UdpDst, 2222, &f);
        let sctp = ip.clone().with(F::IpProto, 132);
        let f = frame(net, L4::Sctp(11111, 2222));
        field(&sctp, F::SctpSrc, 11111, &f);
        field(&sctp, F::SctpDst, 2222, &f);
    }
    let icmp = ip4().with(F::IpProto, 1);
    let f = frame(v4(), L4::Icmp(8, 3));
    field(&icmp, F::Icmpv4Type, 8, &f);
    field(&icmp, F::Icmpv4Code, 3, &f);
    let icmp = ip6().with(F::IpProto, 58);
    let f = frame(v6(), L4::Icmp6(128, 3));
    field(&icmp, F::Icmpv6Type, 128, &f);
    field(&icmp, F::Icmpv6Code, 3, &f);
    for (kind, option, id) in [(135, 1, F::Ipv6NdSll), (136, 2, F::Ipv6NdTll)] {
        let nd_match = icmp.clone().with(F::Icmpv6Type, kind.into());
        let f = nd(kind, option);
        field(&nd_match, F::Ipv6NdTarget, 0x20 << 100 | 7, &f);
        field(&nd_match, id, SRC.into(), &f);
    }
}

#[test]
fn neighbour_discovery_behind_other_options() {
    let solicit = ip6().with(F::IpProto, 58).with(F::Icmpv6Type, 135);
    let mut bytes = nd(135, 1).bytes();
    // Two nonces (type 14) of 8 and 16 bytes in front of the address.
    let mut nonces = vec![14, 1, 9, 9, 9, 9, 9, 9, 14, 2];
    nonces.extend([7; 14]);
    bytes.splice(78..78, nonces);
    assert!(matches(&solicit.clone().with(F::Ipv6NdSll, SRC.into()), &bytes));
    // An option of length zero ends the options (RFC 4861 §4.6).
    bytes[79] = 0;
    assert!(matches(&solicit.with(F::Ipv6NdSll, 0), &bytes));
}

#[test]
fn ipv6_extension_headers() {
    let body = |bytes: usize| [vec![((bytes - 2) / 8) as u8], vec![0; bytes - 2]].concat();
    let hop = (0u8, body(8));
    let dest = (60u8, body(16));
    // Hop-by-hop etc. count 8-byte units beyond the first; AH 4-byte units beyond two.
    let fix = |(n, mut b): (u8, Vec<u8>)| {
        b[0] = ((b.len() + 1) / 8 - 1) as u8;
        (n, b)
    };
    let (hop, dest) = (fix(hop), fix(dest));
    let routing = fix((43, body(8)));
    let frag = (44u8, vec![0u8; 7]);
    let auth = (51u8, {
        let mut b = vec![0u8; 23];
        b[0] = 4;
        b
    });
    let cases = [
        (vec![], 0),
        (vec![hop.clone()], 0x40),
        (vec![hop.clone(), auth.clone()], 0x44),
        (
            vec![
                hop.clone(),
                dest.clone(),
                routing.clone(),
                frag.clone(),
                auth.clone(),
                dest.clone(),
            ],
            0x7c,
        ),
        (vec![dest.clone(), dest.clone()], 0x08),
        (vec![dest.clone(), dest.clone(), dest.clone()], 0x88),
        (vec![dest.clone(), hop.clone()], 0x148),
        (vec![frag.clone(), routing.clone()], 0x130),
        (vec![hop.clone(), hop.clone()], 0xc0),
        (vec![auth.clone(), dest.clone()], 0x0c),
        (vec![auth.clone(), frag.clone()], 0x114),
    ];
    for (exts, bits) in cases {
        let numbers: Vec<u8> = exts.iter().map(|e| e.0).collect();
        let f = tcp6().exts(exts);
        for wrong in [0x40u128, 0x80, 1, 0x100] {
            let not = ip6().with(F::Ipv6Exthdr, bits ^ wrong);
            assert!(!matches(&not, &f.bytes()), "{numbers:?}");
        }
        let is = ip6().with(F::IpProto, 6).with(F::TcpDst, 2222).with(F::Ipv6Exthdr, bits);
        assert!(matches(&is, &f.bytes()), "{numbers:?} is {bits:#x}");
        // Set-fields reach behind them, and the checksum follows.
        becomes(
            &[Action::set_field(F::TcpDst, 7), Action::set_field(F::Ipv6Src, 99)],
            &f.bytes(),
            &f.l4(L4::Tcp(11111, 7)).set_v6(|src, _, _, _| *src = 99).bytes(),
        );
        becomes(
            &[Action::set_field(F::IpProto, 17)],
            &f.bytes(),
            &f.with(|f| f.proto = Some(17)).bytes(),
        );
    }
    let none = frame(v6(), L4::None).with(|f| f.proto = Some(59));
    assert!(matches(&ip6().with(F::Ipv6Exthdr, 1).with(F::IpProto, 59), &none.bytes()));
    let esp = frame(v6(), L4::None).with(|f| f.proto = Some(50));
    assert!(matches(&ip6().with(F::Ipv6Exthdr, 2).with(F::IpProto, 50), &esp.bytes()));
    // The destination in the IPv6 header is not the one that checksums cover (RFC 8200 §8.1).
    let mut on_the_way = routing;
    on_the_way.1[2] = 1;
    let f = tcp6().exts(vec![on_the_way]);
    let got = through(&[Action::set_field(F::Ipv6Dst, 99)], &f.bytes());
    let mut expected = f.bytes();
    expected[38..54].copy_from_slice(&99u128.to_be_bytes());
    assert_eq!(hex(&got), hex(&expected));
}

#[test]
fn fragments() {
    let ports = ip4().with(F::IpProto, 17);
    let first = udp4().with(|f| {
        if let Net::V4 { frag, .. } = &mut f.net {
            *frag = 0x2000;
        }
    });
    let later = udp4().with(|f| {
        if let Net::V4 { frag, .. } = &mut f.net {
            *frag = 0x2008;
        }
    });
    // Whose first ones have their ports is a policy; at first they have none.
    for fragment in [&first, &later] {
        assert!(!matches(&ports.clone().with(F::UdpSrc, 11111), &fragment.bytes()));
        assert!(matches(&ports.clone().with(F::UdpSrc, 0), &fragment.bytes()));
    }
    let six = |offset_and_more: u16| {
        let [a, b] = offset_and_more.to_be_bytes();
        frame(v6(), L4::Udp(11111, 2222, true)).exts(vec![(44, vec![0, a, b, 0, 0, 0, 9])])
    };
    let ports = ip6().with(F::IpProto, 17);
    for (field, src) in [(0u16, 11111), (1, 0), (8, 0), (9, 0)] {
        let bytes = six(field).bytes();
        assert!(matches(&ports.clone().with(F::UdpSrc, src), &bytes), "{field:#x}");
    }
    // A policy that drops them: all, then only later ones.
    for (member, dropped) in [
        (ir::Select::Masked(ir::Bits::from_u128(1, 2), ir::Bits::from_u128(1, 2)), [true, true]),
        (ir::Select::Masked(ir::Bits::from_u128(3, 2), ir::Bits::ones(2)), [false, true]),
    ] {
        let mut bed = Bed::new();
        bed.flow(0, 1, m(), &[apply(&[out(2)])]);
        let set = ir::Update::SetValueSet(bed.layout.drop_fragments, vec![member]);
        bed.pipeline.transact(&[set]).unwrap();
        for (f, dropped) in
            [(first.bytes(), dropped[0]), (later.bytes(), dropped[1]), (six(8).bytes(), dropped[1])]
        {
            let sent = bed.send(1, &f);
            if dropped {
                sent.dropped(DropReason::Fragment);
            } else {
                sent.one();
            }
        }
        bed.send(1, &udp4().bytes()).one();
        bed.send(1, &six(0).bytes()).one();
    }
}

#[test]
fn malformed_and_short_frames_read_as_zero() {
    let mut bed = Bed::new();
    bed.flow(0, 1, m(), &[apply(&[out(2)])]);
    let full = nd(135, 1).vlan(0x8100, 5).bytes();
    for length in 14..full.len() {
        assert_eq!(bed.send(1, &full[..length]).one().bytes, full[..length]);
    }
    for length in 0..14 {
        bed.send(1, &full[..length]).dropped(DropReason::FrameTooShort);
    }
    let ipv4 = tcp4().bytes();
    // Header length below five words; version 6 under IPv4's EtherType.
    for first in [0x44, 0x65, 0x00] {
        let mut bytes = ipv4.clone();
        bytes[14] = first;
        assert!(matches(&ip4().with(F::IpProto, 0), &bytes));
    }
    // Cut within TCP.
    assert!(matches(&ip4().with(F::IpProto, 6).with(F::TcpSrc, 0), &ipv4[..40]));
    // Options up to the greatest header.
    let with_options = |n: usize| {
        tcp4().with(|f| {
            if let Net::V4 { options, .. } = &mut f.net {
                *options = vec![1; n];
            }
        })
    };
    for n in [4, 20, 40] {
        let f = with_options(n);
        assert!(matches(&ip4().with(F::IpProto, 6).with(F::TcpDst, 2222), &f.bytes()));
        becomes(
            &[Action::set_field(F::Ipv4Dst, 1)],
            &f.bytes(),
            &f.set_v4(|_, dst, _, _| *dst = 1).bytes(),
        );
    }
}

#[test]
fn llc_frames() {
    let mut snap = tcp4().bytes();
    let length = (snap.len() - 14 + 8) as u16;
    snap.splice(12..12, [length.to_be_bytes().to_vec(), vec![0xaa, 0xaa, 3, 0, 0, 0]].concat());
    assert!(matches(&ip4().with(F::IpProto, 6).with(F::TcpDst, 2222), &snap));
    let stp =
        [super::frames::mac(DST), super::frames::mac(SRC), vec![0, 38, 0x42, 0x42, 3], vec![0; 40]]
            .concat();
    assert!(matches(&m().with(F::EthType, 0x05ff), &stp));
}

#[test]
fn more_tags_than_the_parser_takes() {
    let mut f = tcp4();
    for _ in 0..6 {
        f = f.vlan(0x8100, 7);
    }
    assert!(matches(&m().with(F::EthType, 0x8100).with(F::VlanVid, 0x1007), &f.bytes()));
    let mut f = tcp4();
    for i in 0..10 {
        f = f.mpls(i, 0, 9);
    }
    assert!(matches(&m().with(F::EthType, 0x8847).with(F::MplsLabel, 9), &f.bytes()));
    becomes(
        &[Action::PushMpls(0x8848), Action::DecMplsTtl],
        &f.bytes(),
        &f.mpls(9, 0, 8).with(|f| f.mpls_type = 0x8848).bytes(),
    );
}

#[test]
fn metadata_and_tunnel() {
    let write = |value, mask| Instruction::WriteMetadata { value, mask };
    for (value, mask, expected, hit) in [
        (255u64, 0xffff_ffff, (240u64, 0xffff_fff0u64), true),
        (255, u64::MAX, (255, u64::MAX), true),
        (0xff00, 0xff, (0, u64::MAX), true),
        (255, 0x0f, (255, u64::MAX), false),
    ] {
        let mut bed = Bed::new();
        bed.flow(0, 1, m(), &[write(value, mask), goto(1)]);
        let is = m().with_masked(F::Metadata, expected.0.into(), expected.1.into());
        bed.flow(1, 1, is, &[apply(&[out(2)])]);
        assert_eq!(bed.send(1, &tcp4().bytes()).all.outputs.len() == 1, hit);
    }
    // A second write keeps the bits that it does not name.
    let mut bed = Bed::new();
    bed.flow(0, 1, m(), &[write(0xff00, 0xff00), goto(1)]);
    bed.flow(1, 1, m(), &[write(0x00f0, 0x0ff0), goto(2)]);
    bed.flow(2, 1, m().with(F::Metadata, 0xf0f0), &[apply(&[out(2)])]);
    bed.send(1, &tcp4().bytes()).one();
    let mut bed = Bed::new();
    bed.flow(0, 1, m(), &[apply(&[Action::set_field(F::TunnelId, 12345)]), goto(1)]);
    bed.flow(1, 1, m().with_masked(F::TunnelId, 12288, 0xff00), &[apply(&[out(2)])]);
    assert!(bed.send(1, &tcp4().bytes()).one().unchanged);
}

#[test]
fn set_fields() {
    let set = |id, value: u128, before: &Frame, after: Frame| {
        becomes(&[Action::set_field(id, value)], &before.bytes(), &after.bytes());
        // A field that the packet lacks takes no write.
        let other = frame(Net::None, L4::None);
        if !matches!(id, F::EthDst | F::EthSrc | F::EthType) {
            becomes(&[Action::set_field(id, value)], &other.bytes(), &other.bytes());
        }
    };
    let (t4, t6) = (tcp4(), tcp6());
    set(F::EthDst, 5, &t4, t4.with(|f| f.dst = 5));
    set(F::EthSrc, 5, &t4, t4.with(|f| f.src = 5));
    set(F::EthType, 0x8848, &t4, t4.with(|f| f.ether_type = Some(0x8848)));
    let tagged = t4.vlan(0x8100, 0x6064).vlan(0x88a8, 0x7065);
    set(F::EthType, 0x8848, &tagged, tagged.with(|f| f.ether_type = Some(0x8848)));
    set(F::VlanVid, 0x10cb, &tagged, tagged.with(|f| f.vlans[0].1 = 0x70cb));
    set(F::VlanPcp, 5, &tagged, tagged.with(|f| f.vlans[0].1 = 0xb065));
    set(F::IpDscp, 16, &t4, t4.set_v4(|_, _, tos, _| *tos = 64));
    set(F::IpEcn, 1, &t4, t4.set_v4(|_, _, tos, _| *tos = 33));
    set(F::IpProto, 17, &t4, t4.with(|f| f.proto = Some(17)));
    set(F::Ipv4Src, 0x0a0a_0a0a, &t4, t4.set_v4(|src, _, _, _| *src = 0x0a0a_0a0a));
    set(F::Ipv4Dst, 0x0a0a_0a0a, &t4, t4.set_v4(|_, dst, _, _| *dst = 0x0a0a_0a0a));
    set(F::IpDscp, 16, &t6, t6.set_v6(|_, _, tc, _| *tc = 64));
    set(F::IpEcn, 1, &t6, t6.set_v6(|_, _, tc, _| *tc = 33));
    set(F::IpProto, 17, &t6, t6.with(|f| f.proto = Some(17)));
    set(F::Ipv6Src, 9, &t6, t6.set_v6(|src, _, _, _| *src = 9));
    set(F::Ipv6Dst, 9, &t6, t6.set_v6(|_, dst, _, _| *dst = 9));
    set(
        F::Ipv6Flabel,
        203,
        &t6,
        t6.with(|f| {
            if let Net::V6 { flabel, .. } = &mut f.net {
                *flabel = 203;
            }
        }),
    );
    for net in [v4(), v6()] {
        let f = |l4| frame(net.clone(), l4);
        set(F::TcpSrc, 9, &f(L4::Tcp(1, 2)), f(L4::Tcp(9, 2)));
        set(F::TcpDst, 9, &f(L4::Tcp(1, 2)), f(L4::Tcp(1, 9)));
        set(F::UdpSrc, 9, &f(L4::Udp(1, 2, true)), f(L4::Udp(9, 2, true)));
        set(F::UdpDst, 9, &f(L4::Udp(1, 2, true)), f(L4::Udp(1, 9, true)));
        set(F::SctpSrc, 9, &f(L4::Sctp(1, 2)), f(L4::Sctp(9, 2)));
        set(F::SctpDst, 9, &f(L4::Sctp(1, 2)), f(L4::Sctp(1, 9)));
    }
    // No UDP checksum stays none.
    let f = |src| frame(v4(), L4::Udp(src, 2, false));
    set(F::UdpSrc, 9, &f(1), f(9));
    let icmp = |t, c| frame(v4(), L4::Icmp(t, c));
    set(F::Icmpv4Type, 0, &icmp(8, 0), icmp(0, 0));
    set(F::Icmpv4Code, 10, &icmp(8, 0), icmp(8, 10));
    let icmp = |t, c| frame(v6(), L4::Icmp6(t, c));
    set(F::Icmpv6Type, 135, &icmp(128, 0), icmp(135, 0));
    set(F::Icmpv6Code, 10, &icmp(128, 0), icmp(128, 10));
    let nd =
        |kind, target, address| frame(v6(), L4::Nd { kind, target, option: kind - 134, address });
    set(F::Ipv6NdTarget, 77, &nd(135, 1, 2), nd(135, 77, 2));
    set(F::Ipv6NdSll, 77, &nd(135, 1, 2), nd(135, 1, 77));
    set(F::Ipv6NdTll, 77, &nd(136, 1, 2), nd(136, 1, 77));
    let arp_with = |change: fn(&mut Net)| arp_frame().with(|f| change(&mut f.net));
    let all = arp_frame();
    set(
        F::ArpOp,
        2,
        &all,
        arp_with(|n| {
            if let Net::Arp { op, .. } = n {
                *op = 2
            }
        }),
    );
    set(
        F::ArpSpa,
        2,
        &all,
        arp_with(|n| {
            if let Net::Arp { spa, .. } = n {
                *spa = 2
            }
        }),
    );
    set(
        F::ArpTpa,
        2,
        &all,
        arp_with(|n| {
            if let Net::Arp { tpa, .. } = n {
                *tpa = 2
            }
        }),
    );
    set(
        F::ArpSha,
        2,
        &all,
        arp_with(|n| {
            if let Net::Arp { sha, .. } = n {
                *sha = 2
            }
        }),
    );
    set(
        F::ArpTha,
        2,
        &all,
        arp_with(|n| {
            if let Net::Arp { tha, .. } = n {
                *tha = 2
            }
        }),
    );
    let mpls = frame(arp(), L4::None).mpls(100, 3, 64);
    set(F::MplsLabel, 203, &mpls, mpls.with(|f| f.mpls[0].0 = 203));
    set(F::MplsTc, 5, &mpls, mpls.with(|f| f.mpls[0].1 = 5));
    let mut bos = mpls.bytes();
    bos[16] ^= 1;
    becomes(&[Action::set_field(F::MplsBos, 0)], &mpls.bytes(), &bos);
    becomes(&[Action::set_field(F::PbbIsid, 203)], &pbb(100, &t4.bytes()), &pbb(203, &t4.bytes()));
}

#[test]
fn sctp_in_padded_frames() {
    for bytes in [4usize, 8, 12, 16] {
        let f = |src| frame(v4(), L4::Sctp(src, 2)).with(|f| f.payload.truncate(bytes));
        let padded = |f: Frame| {
            let mut out = f.bytes();
            out.resize(60.max(out.len()), 0);
            out
        };
        let set = [Action::set_field(F::SctpSrc, 9)];
        becomes(&set, &padded(f(1)), &padded(f(9)));
        becomes(&set, &f(1).bytes(), &f(9).bytes());
        // A fragment does not have all that the checksum covers.
        let fragment = |src| {
            let mut bytes = f(src).bytes();
            bytes[20] = 0x20;
            bytes
        };
        let mut after = fragment(1);
        becomes(&set, &fragment(1), &after);
        after[34..36].copy_from_slice(&[0, 9]);
        let mut bed = Bed::new();
        bed.flow(0, 1, m(), &[apply(&[set[0].clone(), out(2)])]);
        let shown = bed.layout.shown_policy(true);
        let update = ir::Update::SetValueSet(bed.layout.shown_fragments, shown);
        bed.pipeline.transact(&[update]).unwrap();
        let mut shown = bed.send(1, &fragment(1)).one().bytes.clone();
        shown.truncate(after.len());
        assert_eq!(hex(&shown), hex(&after));
    }
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let mut before = tcp4().bytes();
    before[25] ^= 1;
    before[51] ^= 1;
    let mut after = tcp4().set_v4(|_, _, _, ttl| *ttl = 63).bytes();
    after[25] ^= 1;
    after[51] ^= 1;
    becomes(&[Action::DecNwTtl], &before, &after);
}

#[test]
fn masked_set_field() {
    let set =
        Action::SetField(openflow::SetField { field: F::Ipv4Dst, value: 0xff, mask: Some(0xf) });
    let after = tcp4().set_v4(|_, dst, _, _| *dst = 0xc0a8_001f);
    becomes(&[set], &tcp4().bytes(), &after.bytes());
}

#[test]
fn matches_come_back() {
    let m = ip4()
        .with_masked(F::VlanVid, 0x1000, 0x1000)
        .with_masked(F::Ipv4Dst, 0x0a00_0000, 0xff00_0000)
        .with(F::IpProto, 17)
        .with(F::UdpDst, 53);
    assert_eq!(raise_match(&lower_match(&m)), m);
    assert!(lower_match(&Match::new()).is_empty());
}
