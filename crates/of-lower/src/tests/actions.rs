//! Each action alone and in combinations.

use super::bed::{Bed, apply, becomes, goto, hex, out, through};
use super::frames::{L4, arp_frame, frame, pbb, tcp4, tcp6, v4, v6};
use ir::{DropReason, PuntReason, Verdict};
use openflow::{Action, FieldId, GroupId, Match, PortNo, QueueId};

use Action::*;

#[test]
fn vlan() {
    let f = tcp4();
    becomes(&[PushVlan(0x8100)], &f.bytes(), &f.vlan(0x8100, 0).bytes());
    let tagged = f.vlan(0x8100, 0x6064);
    becomes(&[PushVlan(0x88a8)], &tagged.bytes(), &tagged.vlan(0x88a8, 0x6064).bytes());
    becomes(&[PopVlan], &tagged.bytes(), &f.bytes());
    becomes(&[PopVlan], &f.bytes(), &f.bytes());
    becomes(&[PopVlan], &tagged.vlan(0x88a8, 5).bytes(), &tagged.bytes());
    becomes(
        &[PushVlan(0x8100), Action::set_field(FieldId::VlanVid, 0x10cb)],
        &f.bytes(),
        &f.vlan(0x8100, 203).bytes(),
    );
    becomes(
        &[PopVlan, PushVlan(0x88a8), Action::set_field(FieldId::VlanVid, 0x1001)],
        &tagged.bytes(),
        &f.vlan(0x88a8, 1).bytes(),
    );
}

#[test]
fn a_full_vlan_stack_drops() {
    let mut bed = Bed::new();
    let push: Vec<Action> = (0..9).map(|_| PushVlan(0x8100)).chain([out(2)]).collect();
    bed.flow(0, 1, Match::new(), &[apply(&push)]);
    bed.send(1, &tcp4().bytes()).dropped(DropReason::HeaderStackOverflow);
}

#[test]
fn eth_type_after_pushes_and_pops() {
    let mut bed = Bed::new();
    bed.flow(0, 1, Match::new(), &[apply(&[PushVlan(0x8100), PushMpls(0x8847)]), goto(1)]);
    let m = Match::new().with(FieldId::VlanVid, 0x1000).with(FieldId::EthType, 0x8847);
    bed.flow(1, 1, m, &[apply(&[PopVlan]), goto(2)]);
    let m = Match::new().with(FieldId::VlanVid, 0).with(FieldId::EthType, 0x8847);
    let m = m.with(FieldId::MplsBos, 1).with(FieldId::MplsLabel, 0);
    bed.flow(2, 1, m, &[apply(&[PopMpls(0x0800)]), goto(3)]);
    let m = Match::new().with(FieldId::EthType, 0x0800).with(FieldId::IpProto, 6);
    bed.flow(3, 1, m.with(FieldId::TcpDst, 2222), &[apply(&[out(2)])]);
    assert_eq!(hex(&bed.send(1, &tcp4().bytes()).one().bytes), hex(&tcp4().bytes()));
}

#[test]
fn mpls() {
    let f = tcp4();
    let pushed = f.mpls(0, 0, 64);
    becomes(&[PushMpls(0x8847)], &f.bytes(), &pushed.bytes());
    becomes(&[PushMpls(0x8847)], &tcp6().bytes(), &tcp6().mpls(0, 0, 64).bytes());
    becomes(&[PushMpls(0x8847)], &arp_frame().bytes(), &arp_frame().mpls(0, 0, 0).bytes());
    let labelled = f.mpls(100, 3, 40);
    let two = labelled.mpls(100, 3, 40);
    becomes(&[PushMpls(0x8847)], &labelled.bytes(), &two.bytes());
    // Behind the VLAN tags.
    let tagged = f.vlan(0x8100, 0x6064);
    becomes(&[PushMpls(0x8847)], &tagged.bytes(), &tagged.mpls(0, 0, 64).bytes());
    becomes(&[PopMpls(0x0800)], &tagged.mpls(1, 2, 3).bytes(), &tagged.bytes());
    becomes(&[PopMpls(0x0800)], &labelled.bytes(), &f.bytes());
    becomes(&[PopMpls(0x0806)], &arp_frame().mpls(1, 2, 3).bytes(), &arp_frame().bytes());
    becomes(&[PopMpls(0x8847)], &two.bytes(), &labelled.bytes());
    becomes(&[PopMpls(0x8847), PopMpls(0x0800)], &two.bytes(), &f.bytes());
    becomes(&[PopMpls(0x0800)], &f.bytes(), &f.bytes());
    becomes(
        &[PopMpls(0x0800), Action::set_field(FieldId::Ipv4Dst, 9)],
        &labelled.bytes(),
        &f.set_v4(|_, dst, _, _| *dst = 9).bytes(),
    );
    becomes(
        &[PushMpls(0x8848), PopMpls(0x0800), DecNwTtl],
        &f.bytes(),
        &f.set_v4(|_, _, _, t| *t = 63).bytes(),
    );
}

#[test]
fn ttl() {
    let f = tcp4();
    let ttl = |n: u8| f.set_v4(|_, _, _, ttl| *ttl = n);
    becomes(&[DecNwTtl], &f.bytes(), &ttl(63).bytes());
    becomes(&[SetNwTtl(32)], &f.bytes(), &ttl(32).bytes());
    becomes(&[SetNwTtl(3), DecNwTtl, DecNwTtl], &f.bytes(), &ttl(1).bytes());
    let six = |n: u8| tcp6().set_v6(|_, _, _, hlim| *hlim = n);
    becomes(&[DecNwTtl], &six(64).bytes(), &six(63).bytes());
    becomes(&[SetNwTtl(32)], &six(64).bytes(), &six(32).bytes());
    becomes(&[DecNwTtl, SetNwTtl(9)], &arp_frame().bytes(), &arp_frame().bytes());
    // IP behind MPLS is not the packet's TTL.
    let labelled = ttl(32).mpls(100, 3, 64);
    becomes(&[DecNwTtl, SetNwTtl(9)], &labelled.bytes(), &labelled.bytes());
    becomes(&[SetMplsTtl(127)], &labelled.bytes(), &ttl(32).mpls(100, 3, 127).bytes());
    becomes(&[DecMplsTtl], &labelled.bytes(), &ttl(32).mpls(100, 3, 63).bytes());
    becomes(&[DecMplsTtl, SetMplsTtl(9)], &f.bytes(), &f.bytes());
    becomes(&[CopyTtlOut], &labelled.bytes(), &ttl(32).mpls(100, 3, 32).bytes());
    becomes(&[CopyTtlIn], &labelled.bytes(), &ttl(64).mpls(100, 3, 64).bytes());
    let both = labelled.mpls(200, 1, 9);
    becomes(&[CopyTtlOut], &both.bytes(), &labelled.mpls(200, 1, 64).bytes());
    becomes(&[CopyTtlIn], &both.bytes(), &ttl(32).mpls(100, 3, 9).mpls(200, 1, 9).bytes());
    let six_labelled = six(5).mpls(1, 1, 77);
    becomes(&[CopyTtlOut], &six_labelled.bytes(), &six(5).mpls(1, 1, 5).bytes());
    becomes(&[CopyTtlIn], &six_labelled.bytes(), &six(77).mpls(1, 1, 77).bytes());
    becomes(&[CopyTtlIn, CopyTtlOut], &f.bytes(), &f.bytes());
    becomes(&[CopyTtlOut], &arp_frame().mpls(1, 1, 9).bytes(), &arp_frame().mpls(1, 1, 9).bytes());
}

#[test]
fn invalid_ttl() {
    let six = |n: u8| tcp6().set_v6(|_, _, _, hlim| *hlim = n).bytes();
    for n in [0u8, 1] {
        for (action, bytes) in [
            (DecNwTtl, tcp4().set_v4(|_, _, _, ttl| *ttl = n).bytes()),
            (DecNwTtl, six(n)),
            (DecMplsTtl, tcp4().mpls(1, 1, n).bytes()),
        ] {
            let mut bed = Bed::new();
            let id = bed.flow(0, 1, Match::new(), &[apply(&[action, out(2)])]);
            let sent = bed.send(1, &bytes);
            let (punt, args) = sent.punt();
            assert_eq!((punt.reason, punt.entry), (PuntReason::InvalidTtl, Some(id)));
            assert_eq!((args.in_port, args.max_len), (1, 0xffff));
            assert_eq!(punt.bytes, bytes);
            assert!(sent.all.outputs.is_empty());
        }
    }
}

#[test]
fn pbb_tags() {
    let f = tcp4();
    let once = pbb(0, &f.bytes());
    becomes(&[PushPbb(0x88e7)], &f.bytes(), &once);
    becomes(&[PushPbb(0x88e7), PushPbb(0x88e7)], &f.bytes(), &pbb(0, &once));
    let isid = pbb(100, &f.bytes());
    becomes(&[PushPbb(0x88e7)], &isid, &pbb(100, &isid));
    let tagged = f.vlan(0x8100, 0x6064).vlan(0x88a8, 10);
    becomes(&[PopPbb], &pbb(100, &tagged.bytes()), &tagged.bytes());
    becomes(&[PopPbb, PopPbb], &pbb(100, &isid), &f.bytes());
    becomes(&[PopPbb], &f.bytes(), &f.bytes());
    // The priority of the outermost tag becomes the service tag's.
    let mut prioritised = pbb(0, &f.vlan(0x8100, 0x6064).bytes());
    prioritised[14] = 0x60;
    becomes(&[PushPbb(0x88e7)], &f.vlan(0x8100, 0x6064).bytes(), &prioritised);
    // A backbone tag in front goes with the service tag; the customer's addresses come back.
    let mut backbone = isid.clone();
    backbone.splice(12..12, [0x88, 0xa8, 0, 10]);
    backbone[0] = 2;
    becomes(&[PopPbb], &backbone, &f.bytes());
    // Everything behind a push sees the new outermost headers.
    let mut wrapped = pbb(7, &f.set_v4(|_, _, _, ttl| *ttl = 63).bytes());
    wrapped[..6].copy_from_slice(&[0, 0, 0, 0, 0, 9]);
    wrapped.splice(12..12, [0x88, 0xa8, 0, 0]);
    becomes(
        &[
            DecNwTtl,
            PushPbb(0x88e7),
            Action::set_field(FieldId::PbbIsid, 7),
            Action::set_field(FieldId::EthDst, 9),
            PushVlan(0x88a8),
        ],
        &f.bytes(),
        &wrapped,
    );
}

#[test]
fn of_1_0_actions() {
    let f = tcp4();
    let tagged = f.vlan(0x8100, 0x6064);
    becomes(&[SetVlanVid(203)], &f.bytes(), &f.vlan(0x8100, 203).bytes());
    becomes(&[SetVlanVid(203)], &tagged.bytes(), &f.vlan(0x8100, 0x60cb).bytes());
    becomes(&[SetVlanPcp(5)], &f.bytes(), &f.vlan(0x8100, 0xa000).bytes());
    becomes(&[SetVlanPcp(5)], &tagged.bytes(), &f.vlan(0x8100, 0xa064).bytes());
    becomes(&[SetNwSrc(9)], &f.bytes(), &f.set_v4(|src, _, _, _| *src = 9).bytes());
    becomes(&[SetNwDst(9)], &f.bytes(), &f.set_v4(|_, dst, _, _| *dst = 9).bytes());
    becomes(&[SetNwSrc(9)], &tcp6().bytes(), &tcp6().bytes());
    becomes(
        &[SetNwTos(64)],
        &f.set_v4(|_, _, tos, _| *tos = 3).bytes(),
        &f.set_v4(|_, _, tos, _| *tos = 67).bytes(),
    );
    becomes(&[SetNwTos(64)], &tcp6().bytes(), &tcp6().set_v6(|_, _, tc, _| *tc = 64).bytes());
    for l4 in [L4::Tcp, |a, b| L4::Udp(a, b, true), L4::Sctp as fn(u16, u16) -> L4] {
        for net in [v4(), v6()] {
            let f = |src, dst| frame(net.clone(), l4(src, dst)).bytes();
            becomes(&[SetTpSrc(7), SetTpDst(8)], &f(1, 2), &f(7, 8));
        }
    }
    let icmp = frame(v4(), L4::Icmp(8, 0));
    becomes(&[SetTpSrc(7)], &icmp.bytes(), &icmp.bytes());
    becomes(&[SetNwSrc(9), SetNwDst(10)], &arp_frame().bytes(), &arp_frame().bytes());
    let mut bed = Bed::new();
    let enqueue = Enqueue { port: PortNo(2), queue: QueueId(5) };
    bed.flow(0, 1, Match::new(), &[apply(&[enqueue, out(3)])]);
    let sent = bed.send(1, &f.bytes());
    let queues: Vec<_> = sent.all.outputs.iter().map(|o| (o.port, o.queue)).collect();
    assert_eq!(queues, [(2, 5), (3, 0)]);
    // What was set before holds behind it, as in Open vSwitch.
    let enqueue = Enqueue { port: PortNo(2), queue: QueueId(5) };
    let mut bed = Bed::new();
    bed.flow(0, 1, Match::new(), &[apply(&[SetQueue(QueueId(7)), enqueue, out(3)])]);
    let sent = bed.send(1, &f.bytes());
    let queues: Vec<_> = sent.all.outputs.iter().map(|o| (o.port, o.queue)).collect();
    assert_eq!(queues, [(2, 5), (3, 7)]);
}

#[test]
fn ports() {
    let f = tcp4().bytes();
    let send = |actions: &[Action]| {
        let mut bed = Bed::new();
        bed.flow(0, 1, Match::new(), &[apply(actions)]);
        bed.send(1, &f)
    };
    let to = |port| Action::output(port);
    assert_eq!(send(&[out(2), out(3), out(2)]).ports(), [2, 3, 2]);
    send(&[out(1)]).dropped(DropReason::OutputToIngress);
    assert_eq!(send(&[out(1), out(2)]).ports(), [2]);
    assert_eq!(send(&[to(PortNo::IN_PORT)]).ports(), [1]);
    assert_eq!(send(&[to(PortNo::ALL)]).ports(), [2, 3]);
    assert_eq!(send(&[to(PortNo::FLOOD)]).ports(), [2, 3]);
    assert_eq!(send(&[to(PortNo::LOCAL)]).ports(), [0xffff_fffe]);
    send(&[]).dropped(DropReason::Action);
    send(&[DecNwTtl]).dropped(DropReason::NoOutput);
    let queue = send(&[SetQueue(QueueId(4)), out(2)]);
    assert_eq!(queue.one().queue, 4);
    let group = send(&[Group(GroupId(77))]);
    group.dropped(DropReason::GroupUnknown);
    // A copy is what the packet was then.
    let mut bed = Bed::new();
    let list = [out(2), PushVlan(0x8100), out(3), PopVlan, DecNwTtl, to(PortNo::IN_PORT)];
    bed.flow(0, 1, Match::new(), &[apply(&list)]);
    let sent = bed.send(1, &f);
    let bytes: Vec<_> = sent.all.outputs.iter().map(|o| o.bytes.clone()).collect();
    let tagged = tcp4().vlan(0x8100, 0).bytes();
    assert_eq!(bytes, [f.clone(), tagged, tcp4().set_v4(|_, _, _, ttl| *ttl = 63).bytes()]);
}

#[test]
fn controller() {
    let f = tcp4().bytes();
    let mut bed = Bed::new();
    let write = openflow::Instruction::WriteMetadata { value: 5, mask: !0 };
    let set = Action::set_field(FieldId::TunnelId, 6);
    let punt = Output { port: PortNo::CONTROLLER, max_len: 128 };
    bed.flow(0, 1, Match::new(), &[apply(&[set]), write, goto(1)]);
    let id =
        bed.flow(1, 1, Match::new().with(FieldId::InPort, 1), &[apply(&[DecNwTtl, punt.clone()])]);
    let sent = bed.send(1, &f);
    assert_eq!(sent.verdict, Verdict::Punt(PuntReason::Action));
    let (p, args) = sent.punt();
    assert_eq!((p.reason, p.table, p.entry), (PuntReason::Action, Some(ir::TableId(1)), Some(id)));
    assert_eq!((args.in_port, args.in_phy_port, args.metadata), (1, 1, 5));
    assert_eq!((args.tunnel_id, args.max_len), (6, 128));
    assert_eq!(p.bytes, tcp4().set_v4(|_, _, _, ttl| *ttl = 63).bytes());
    // A table-miss entry has another reason.
    let mut bed = Bed::new();
    bed.flow(0, 0, Match::new(), &[apply(&[punt])]);
    assert_eq!(bed.send(1, &f).punt().0.reason, PuntReason::TableMiss);
}

#[test]
fn packet_out() {
    let f = tcp4().bytes();
    let to = |port| Action::output(port);
    let mut bed = Bed::new();
    bed.flow(0, 1, Match::new().with(FieldId::InPort, 3), &[apply(&[DecNwTtl, out(2)])]);
    bed.flow(0, 0, Match::new(), &[apply(&[to(PortNo::CONTROLLER)])]);
    let sent = bed.packet_out(PortNo::CONTROLLER, &[PushVlan(0x8100), out(1), out(2)], &f);
    assert_eq!(sent.ports(), [1, 2]);
    assert_eq!(sent.all.outputs[0].bytes, tcp4().vlan(0x8100, 0).bytes());
    assert_eq!(bed.packet_out(PortNo::CONTROLLER, &[to(PortNo::FLOOD)], &f).ports(), [1, 2, 3]);
    assert_eq!(bed.packet_out(PortNo(2), &[to(PortNo::ALL)], &f).ports(), [1, 3]);
    assert_eq!(bed.packet_out(PortNo(2), &[to(PortNo::IN_PORT)], &f).ports(), [2]);
    // Through the tables, as if it had come in there; the list goes on afterwards.
    let sent = bed.packet_out(PortNo(3), &[to(PortNo::TABLE), out(1)], &f);
    assert_eq!(sent.ports(), [2, 1]);
    assert_eq!(sent.all.outputs[0].bytes, tcp4().set_v4(|_, _, _, ttl| *ttl = 63).bytes());
    assert_eq!(sent.all.outputs[1].bytes, f);
    let sent = bed.packet_out(PortNo::CONTROLLER, &[to(PortNo::TABLE)], &f);
    assert_eq!(sent.punt().1.in_port, PortNo::CONTROLLER.0);
    let sent = bed.packet_out(PortNo(3), &[to(PortNo::CONTROLLER)], &f);
    assert_eq!(sent.punt().0.reason, PuntReason::PacketOut);
    bed.packet_out(PortNo(3), &[], &f).dropped(DropReason::Action);
}

#[test]
fn the_ryu_suites_bytes() {
    // Vectors of the suite's own packets: offsets and bytes that change.
    let mut frame = vec![0x22; 6];
    frame.extend([0x12, 0x11, 0x11, 0x11, 0x11, 0x11, 0x08, 0x00, 0x45, 0x20]);
    frame.extend(tcp4().bytes()[16..].to_vec());
    let got = through(&[PushMpls(0x8847)], &frame);
    assert_eq!(hex(&got[12..20]), "8847 0000 0140 4520 ");
    let labelled = tcp4().mpls(100, 3, 64).bytes();
    assert_eq!(hex(&labelled[14..18]), "0006 4740 ");
    let got = through(&[PushMpls(0x8847)], &labelled);
    assert_eq!(hex(&got[12..22]), "8847 0006 4640 0006 4740 ");
    let got = through(&[Action::set_field(FieldId::MplsLabel, 203)], &labelled);
    assert_eq!(hex(&got[14..18]), "000c b740 ");
    let got = through(&[PushPbb(0x88e7)], &frame);
    assert_eq!(hex(&got[12..18]), "88e7 0000 0000 ");
    assert_eq!(&got[18..], frame);
}
