//! Instructions, meters, misses, goto, NORMAL.

use super::bed::{Bed, apply, goto, hex, out, write};
use super::frames::{Frame, arp_frame, tcp4, tcp6};
use crate::{Context, LowerError, lower_actions, lower_bucket, lower_instructions, no_elements};
use interp::Color;
use ir::{DropReason, Entry, EntryId, MeterId, PuntReason, Update, Verdict};
use openflow::{Action, FieldId, Instruction, Match, PortNo};
use std::sync::Arc;

fn all() -> Match {
    Match::new()
}

#[test]
fn tables_in_a_chain() {
    let mut bed = Bed::new();
    for t in 0..7 {
        let push = Action::PushVlan(0x8100);
        let actions = if t % 2 == 0 { vec![push] } else { vec![Action::PopVlan] };
        bed.flow(t, 1, all(), &[apply(&actions), goto(t + 1)]);
    }
    bed.flow(7, 1, all().with(FieldId::VlanVid, 0x1000), &[apply(&[out(2)])]);
    let sent = bed.send(1, &tcp4().bytes());
    assert_eq!(sent.one().bytes, tcp4().vlan(0x8100, 0).bytes());
    // Entries without goto end the way; the higher priority wins.
    let mut bed = Bed::new();
    bed.flow(0, 1, all(), &[goto(1)]);
    bed.flow(0, 2, all().with(FieldId::InPort, 3), &[goto(5)]);
    bed.flow(1, 1, all(), &[apply(&[out(2)])]);
    bed.flow(5, 1, all(), &[write(&[out(1)])]);
    assert_eq!(bed.send(1, &tcp4().bytes()).ports(), [2]);
    assert_eq!(bed.send(3, &tcp4().bytes()).ports(), [1]);
    assert_eq!(bed.externs.tables[&ir::TableId(0)], (2, 0));
    assert_eq!(bed.externs.tables[&ir::TableId(5)], (1, 0));
}

#[test]
fn misses() {
    let mut bed = Bed::new();
    bed.send(1, &tcp4().bytes()).dropped(DropReason::TableMiss);
    assert_eq!(bed.externs.tables[&ir::TableId(0)], (0, 1));
    let call = ir::ActionCall::with(bed.layout.miss_to_controller, [ir::Bits::from_u128(128, 16)]);
    bed.pipeline.transact(&[Update::SetDefault(ir::TableId(0), call)]).unwrap();
    let sent = bed.send(1, &tcp4().bytes());
    let (punt, args) = sent.punt();
    assert_eq!((punt.reason, punt.entry), (PuntReason::TableMiss, None));
    assert_eq!((args.max_len, args.in_port), (128, 1));
    assert_eq!(sent.verdict, Verdict::Punt(PuntReason::TableMiss));
}

#[test]
fn instructions_run_in_the_specified_order() {
    let mut bed = Bed::new();
    let metadata = Instruction::WriteMetadata { value: 1, mask: !0 };
    let list = [
        goto(1),
        metadata,
        write(&[Action::DecNwTtl]),
        Instruction::ClearActions,
        apply(&[Action::SetNwTtl(10)]),
    ];
    bed.flow(0, 1, all(), &list);
    bed.flow(1, 1, all().with(FieldId::Metadata, 1), &[write(&[out(2)])]);
    let after = tcp4().set_v4(|_, _, _, ttl| *ttl = 9).bytes();
    assert_eq!(bed.send(1, &tcp4().bytes()).one().bytes, after);
}

fn metered(color: Color, f: &Frame) -> super::bed::Sent {
    let mut bed = Bed::new();
    bed.externs.meters.insert(MeterId(7), color);
    let meter = Instruction::Meter(openflow::MeterId(7));
    bed.flow(0, 1, all(), &[apply(&[out(2)]), meter]);
    bed.send(1, &f.bytes())
}

#[test]
fn meters() {
    let green = Color { color: 0, level: 0 };
    let red = Color { color: 2, level: 0 };
    let yellow = |level| Color { color: 1, level };
    assert!(metered(green, &tcp4()).one().unchanged);
    metered(red, &tcp4()).dropped(DropReason::Meter);
    // DSCP before, level, DSCP after: AF classes keep their class, others stay (RFC 2597 §6).
    for (before, level, after) in [
        (18, 1, 20),
        (18, 2, 22),
        (18, 3, 22),
        (18, 255, 22),
        (10, 1, 12),
        (38, 1, 38),
        (34, 2, 38),
        (0, 1, 0),
        (46, 1, 46),
        (8, 1, 8),
        (19, 1, 19),
        (42, 1, 42),
    ] {
        let v4 = |dscp: u8| tcp4().set_v4(|_, _, tos, _| *tos = dscp << 2 | 1);
        let v6 = |dscp: u8| tcp6().set_v6(|_, _, tc, _| *tc = dscp << 2 | 2);
        let sent = metered(yellow(level), &v4(before));
        assert_eq!(hex(&sent.one().bytes), hex(&v4(after).bytes()), "{before} by {level}");
        let sent = metered(yellow(level), &v6(before).vlan(0x8100, 9));
        let after = v6(after).vlan(0x8100, 9);
        assert_eq!(hex(&sent.one().bytes), hex(&after.bytes()), "{before} by {level}, IPv6");
    }
    assert!(metered(yellow(1), &arp_frame()).one().unchanged);
    let behind_mpls = tcp4().set_v4(|_, _, tos, _| *tos = 72).mpls(1, 1, 1);
    assert!(metered(yellow(1), &behind_mpls).one().unchanged);
}

#[test]
fn refused_lists() {
    let bed = Bed::new();
    let lower = |list: &[Instruction]| {
        lower_instructions(&bed.layout, &no_elements, 3, Context::Entry, list)
    };
    let back = |to| Err(LowerError::Goto { from: 3, to, tables: 8 });
    assert_eq!(lower(&[goto(3)]), back(3));
    assert_eq!(lower(&[goto(2)]), back(2));
    assert_eq!(lower(&[goto(8)]), back(8));
    assert!(lower(&[goto(7)]).is_ok());
    let port = |p| Err(LowerError::Port(p));
    for p in [PortNo::TABLE, PortNo::ANY, PortNo(0), PortNo(0xffff_ff00)] {
        assert_eq!(lower(&[apply(&[Action::output(p)])]), port(p));
        assert_eq!(lower(&[write(&[Action::output(p)])]), port(p));
        assert_eq!(lower_bucket(&bed.layout, &[Action::output(p)]), port(p));
    }
    assert!(lower_actions(Context::PacketOut, &[Action::output(PortNo::TABLE)]).is_ok());
    let normal = [Action::output(PortNo::NORMAL)];
    assert!(lower_bucket(&bed.layout, &normal).is_ok());
    let read_only = Action::set_field(FieldId::TcpFlags, 1);
    assert_eq!(lower(&[apply(&[read_only])]), Err(LowerError::ReadOnly(FieldId::TcpFlags)));
    assert!(matches!(lower(&[write(&[Action::SetVlanVid(1)])]), Err(LowerError::NotInSet(_))));
    let e = LowerError::Port(PortNo::TABLE).to_string();
    assert!(e.starts_with("port TABLE is no destination here"), "{e}");
}

/// Inserts what the digest of a learned station asks for.
fn learn(bed: &mut Bed, digest: &[ir::Bits], id: u32) {
    // Whether the station has said so itself is of interest to bonds.
    let [vlan, mac, port, _] = digest else { panic!("{digest:?}") };
    let (vlan, mac, port) = (vlan.low_u32() as u16, mac.low_u64(), port.low_u32());
    let src = bed.layout.normal_src_entry(vlan, mac, port);
    let dst = bed.layout.normal_dst_entry(vlan, mac, port, None);
    let tables = [(bed.layout.normal_src, src), (bed.layout.normal_dst, dst)];
    let updates: Vec<_> = tables
        .into_iter()
        .enumerate()
        .map(|(i, (table, (matches, action)))| {
            let entry = Entry {
                id: EntryId(id + i as u32),
                priority: 0,
                matches,
                action,
                cookie: 0,
                idle_timeout_ns: 0,
                hard_timeout_ns: 0,
            };
            Update::Insert(table, Arc::new(entry))
        })
        .collect();
    bed.pipeline.transact(&updates).unwrap();
}

#[test]
fn normal() {
    let normal = Action::output(PortNo::NORMAL);
    // For the packet itself, and for a copy.
    for list in [vec![normal.clone()], vec![normal.clone(), Action::PushVlan(0x8100)]] {
        let mut bed = Bed::new();
        bed.flow(0, 1, all(), &[apply(&list)]);
        let f = tcp4().bytes();
        let back = tcp4().with(|f| (f.dst, f.src) = (f.src, 0x2222_2222_2220)).bytes();
        // A group destination is flooded, and so is an unknown one; a group source is not learnt.
        let sent = bed.send(1, &f);
        assert_eq!(sent.ports(), [2, 3]);
        let (digest, args) = sent.all.digests[0].clone();
        assert_eq!(digest, bed.layout.learn);
        learn(&mut bed, &args, 1000);
        assert!(bed.send(1, &f).all.digests.is_empty());
        let sent = bed.send(2, &back);
        assert_eq!(sent.ports(), [1]);
        assert_eq!(sent.all.digests.len(), 1);
        // Not back to where it came from.
        bed.send(1, &back).dropped(DropReason::OutputToIngress);
        // Another VLAN knows nothing of it.
        let tagged = tcp4().with(|f| (f.dst, f.src) = (f.src, 2)).vlan(0x8100, 5).bytes();
        let sent = bed.send(2, &tagged);
        assert_eq!(sent.ports(), [1, 3]);
        assert_eq!(sent.all.digests[0].1[0].low_u32(), 5);
        // The station moved.
        assert_eq!(bed.send(3, &f).all.digests[0].1[2].low_u32(), 3);
        let group_source = tcp4().with(|f| f.src = 0x0100_0000_0001).bytes();
        assert!(bed.send(1, &group_source).all.digests.is_empty());
        let reserved = tcp4().with(|f| f.dst = 0x0180_c200_000e).bytes();
        bed.send(1, &reserved).dropped(DropReason::NoOutput);
        let multicast = tcp4().with(|f| f.dst = 0x0180_c200_0010).bytes();
        assert_eq!(bed.send(1, &multicast).ports(), [2, 3]);
        let sent = bed.packet_out(PortNo::CONTROLLER, std::slice::from_ref(&normal), &multicast);
        assert_eq!(sent.ports(), [1, 2, 3]);
        assert!(sent.all.digests.is_empty());
    }
}

#[test]
fn normal_and_the_action_set() {
    let mut bed = Bed::new();
    let normal = Action::output(PortNo::NORMAL);
    bed.flow(0, 1, all(), &[write(&[out(2), Action::DecNwTtl]), apply(&[normal])]);
    let sent = bed.send(1, &tcp4().bytes());
    assert_eq!(sent.ports(), [2, 3, 2]);
    assert_eq!(sent.all.outputs[1].bytes, tcp4().bytes());
    assert_eq!(sent.all.outputs[2].bytes, tcp4().set_v4(|_, _, _, ttl| *ttl = 63).bytes());
}
