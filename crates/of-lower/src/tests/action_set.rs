//! The action set: merging, order, clearing; groups and buckets.

use super::bed::{Bed, apply, goto, hex, out, write};
use super::frames::{pbb, tcp4, tcp6};
use crate::places::places;
use crate::{Context, LowerError, lower_instructions, no_elements};
use ir::{DropReason, GroupKind, PuntReason};
use openflow::testing::{Rng, arbitrary};
use openflow::{Action, FieldId, GroupId, Instruction, Match, PortNo, QueueId, Version};

use Action::*;

fn all() -> Match {
    Match::new()
}

#[test]
fn order_of_execution() {
    // Written backwards over two tables; executed in the specification's order.
    let mut bed = Bed::new();
    let set = Action::set_field(FieldId::VlanVid, 0x1005);
    bed.flow(0, 1, all(), &[write(&[out(2), SetQueue(QueueId(3)), set, DecNwTtl]), goto(1)]);
    bed.flow(1, 1, all(), &[write(&[CopyTtlOut, PushVlan(0x8100), PushMpls(0x8847)])]);
    let sent = bed.send(1, &tcp4().bytes());
    // Behind MPLS, decrementing the IP TTL has no effect.
    let after = tcp4().mpls(0, 0, 64).vlan(0x8100, 5);
    assert_eq!(hex(&sent.one().bytes), hex(&after.bytes()));
    assert_eq!(sent.one().queue, 3);
}

#[test]
fn every_structural_action_at_once() {
    let mut bed = Bed::new();
    let actions = [
        out(2),
        SetNwTtl(9),
        Action::set_field(FieldId::EthDst, 0x99),
        DecMplsTtl,
        SetMplsTtl(50),
        CopyTtlOut,
        PushVlan(0x8100),
        PushPbb(0x88e7),
        PushMpls(0x8847),
        PopMpls(0x0800),
        PopVlan,
        CopyTtlIn,
    ];
    bed.flow(0, 1, all(), &[write(&actions)]);
    let before = tcp4().mpls(100, 3, 40).vlan(0x8100, 0x6064);
    // Copied in: IP TTL 40. Popped to IP, labelled again (40), wrapped, tagged.
    let inner = tcp4().set_v4(|_, _, _, ttl| *ttl = 40).mpls(0, 0, 40);
    let mut after = pbb(0, &inner.bytes());
    after.splice(12..12, [0x81, 0, 0, 0]);
    after[..6].copy_from_slice(&[0, 0, 0, 0, 0, 0x99]);
    assert_eq!(hex(&bed.send(1, &before.bytes()).one().bytes), hex(&after));
}

#[test]
fn later_actions_replace_and_clear_empties() {
    let mut bed = Bed::new();
    let set = |port| Action::set_field(FieldId::TcpDst, port);
    bed.flow(0, 1, all(), &[write(&[out(3), set(1), set(2)]), goto(1)]);
    bed.flow(1, 1, all(), &[write(&[set(3), out(2)])]);
    let after = tcp4().l4(super::frames::L4::Tcp(11111, 3)).bytes();
    let sent = bed.send(1, &tcp4().bytes());
    assert_eq!((sent.ports(), hex(&sent.one().bytes)), (vec![2], hex(&after)));
    // Cleared, then written anew by the same entry.
    let mut bed = Bed::new();
    bed.flow(0, 1, all(), &[write(&[out(3), DecNwTtl]), goto(1)]);
    bed.flow(1, 1, all(), &[write(&[out(2)]), Instruction::ClearActions]);
    assert!(bed.send(1, &tcp4().bytes()).one().unchanged);
    let mut bed = Bed::new();
    bed.flow(0, 1, all(), &[write(&[out(3)]), goto(1)]);
    bed.flow(1, 1, all(), &[Instruction::ClearActions]);
    bed.send(1, &tcp4().bytes()).dropped(DropReason::Action);
    // An entry that does nothing leaves the set to be done.
    let mut bed = Bed::new();
    bed.flow(0, 1, all(), &[write(&[out(3)]), goto(1)]);
    bed.flow(1, 1, all(), &[]);
    assert_eq!(bed.send(1, &tcp4().bytes()).ports(), [3]);
}

#[test]
fn outputs_of_the_set() {
    let f = tcp4().bytes();
    let send = |port: PortNo| {
        let mut bed = Bed::new();
        bed.flow(0, 1, all(), &[write(&[Output { port, max_len: 99 }])]);
        bed.send(1, &f)
    };
    assert_eq!(send(PortNo(2)).ports(), [2]);
    assert_eq!(send(PortNo::IN_PORT).ports(), [1]);
    assert_eq!(send(PortNo::ALL).ports(), [2, 3]);
    assert_eq!(send(PortNo::FLOOD).ports(), [2, 3]);
    assert_eq!(send(PortNo::LOCAL).ports(), [0xffff_fffe]);
    assert_eq!(send(PortNo::NORMAL).ports(), [2, 3]);
    send(PortNo(1)).dropped(DropReason::OutputToIngress);
    let sent = send(PortNo::CONTROLLER);
    let (punt, args) = sent.punt();
    assert_eq!((punt.reason, args.max_len, args.in_port), (PuntReason::ActionSet, 99, 1));
    // Without output or group, nothing goes out; what was applied does.
    let mut bed = Bed::new();
    bed.flow(0, 1, all(), &[write(&[DecNwTtl])]);
    bed.send(1, &f).dropped(DropReason::NoOutput);
    let mut bed = Bed::new();
    bed.flow(0, 1, all(), &[write(&[DecNwTtl, out(3)]), apply(&[out(2)])]);
    let sent = bed.send(1, &f);
    assert_eq!(sent.ports(), [2, 3]);
    assert_eq!(sent.all.outputs[0].bytes, f);
    assert_eq!(sent.all.outputs[1].bytes, tcp4().set_v4(|_, _, _, ttl| *ttl = 63).bytes());
}

#[test]
fn applied_changes_come_before_the_set() {
    let mut bed = Bed::new();
    bed.flow(0, 1, all(), &[write(&[out(2), DecNwTtl]), apply(&[SetNwTtl(10)]), goto(1)]);
    bed.flow(1, 1, all(), &[apply(&[DecNwTtl])]);
    let after = tcp4().set_v4(|_, _, _, ttl| *ttl = 8).bytes();
    assert_eq!(bed.send(1, &tcp4().bytes()).one().bytes, after);
}

#[test]
fn a_miss_after_writes_drops() {
    let mut bed = Bed::new();
    bed.flow(0, 1, all(), &[write(&[out(2)]), goto(1)]);
    bed.send(1, &tcp4().bytes()).dropped(DropReason::TableMiss);
}

#[test]
fn groups() {
    let f = tcp4().bytes();
    let mut bed = Bed::new();
    bed.group(1, GroupKind::All, &[&[out(2)], &[out(3), DecNwTtl], &[out(1)], &[]]);
    bed.flow(0, 1, all(), &[apply(&[Group(GroupId(1)), out(3)])]);
    let sent = bed.send(1, &f);
    assert_eq!(sent.ports(), [2, 3, 3]);
    let less = tcp4().set_v4(|_, _, _, ttl| *ttl = 63).bytes();
    // Buckets work on copies; the packet goes on as it was.
    let bytes: Vec<_> = sent.all.outputs.iter().map(|o| &o.bytes).collect();
    assert_eq!(bytes, [&f, &less, &f]);

    // A group wins over an output, wherever each was written.
    let mut bed = Bed::new();
    bed.group(1, GroupKind::Indirect, &[&[out(3)]]);
    bed.flow(0, 1, all(), &[write(&[Group(GroupId(1))]), goto(1)]);
    bed.flow(1, 1, all(), &[write(&[out(2), PushVlan(0x8100)])]);
    assert_eq!(bed.send(1, &f).one().port, 3);
    assert_eq!(bed.send(1, &f).one().bytes, tcp4().vlan(0x8100, 0).bytes());

    // Groups of groups; a bucket's own list is a set.
    let mut bed = Bed::new();
    bed.group(1, GroupKind::Indirect, &[&[out(2), out(3), PushVlan(0x8100), PopVlan]]);
    bed.group(2, GroupKind::All, &[&[out(2), Group(GroupId(1)), DecNwTtl], &[out(2)]]);
    bed.flow(0, 1, all(), &[apply(&[Group(GroupId(2))])]);
    let sent = bed.send(1, &tcp4().vlan(0x8100, 7).bytes());
    assert_eq!(sent.ports(), [3, 2]);
    let first = tcp4().set_v4(|_, _, _, ttl| *ttl = 63).vlan(0x8100, 0).bytes();
    assert_eq!(hex(&sent.all.outputs[0].bytes), hex(&first));

    let mut bed = Bed::new();
    bed.group(1, GroupKind::Indirect, &[&[Action::output(PortNo::CONTROLLER)]]);
    bed.flow(0, 1, all(), &[apply(&[Group(GroupId(1))])]);
    assert_eq!(bed.send(1, &f).punt().0.reason, PuntReason::Group);
}

#[test]
fn select_spreads_over_every_layer() {
    let mut bed = Bed::new();
    bed.group(1, GroupKind::Select, &[&[out(2)], &[out(3)]]);
    bed.flow(0, 1, all(), &[apply(&[Group(GroupId(1))])]);
    let frames: [fn(u16) -> Vec<u8>; 5] = [
        |i| tcp4().with(|f| f.dst = u64::from(i) << 8).bytes(),
        |i| tcp4().with(|f| f.src = u64::from(i) << 8).bytes(),
        |i| tcp4().l4(super::frames::L4::Tcp(i, 80)).bytes(),
        |i| tcp6().set_v6(|_, dst, _, _| *dst = u128::from(i)).bytes(),
        |i| tcp4().vlan(0x8100, i & 0xfff).bytes(),
    ];
    for (at, f) in frames.iter().enumerate() {
        let second = (0..1000).filter(|i| bed.send(1, &f(*i)).one().port == 3).count();
        assert!((400..600).contains(&second), "variant {at}: {second} of 1000");
    }
    // A flow stays together, whatever its TTL.
    let port = |bed: &mut Bed, n: u8| {
        bed.send(1, &tcp4().set_v4(|_, _, _, ttl| *ttl = n).bytes()).one().port
    };
    assert_eq!(port(&mut bed, 9), port(&mut bed, 10));
}

/// What has no place in a set is not written to one, and the refusal calls it what its row does.
#[test]
fn what_a_set_cannot_hold_has_no_lowering_there() {
    let bed = Bed::new();
    let mut rng = Rng::new(9);
    let (mut held, mut refused) = (0, 0);
    for action in (0..2000).flat_map(|_| arbitrary::actions(&mut rng, Version::V15)) {
        let places = places(&action);
        let write = [Instruction::WriteActions(vec![action.clone()])];
        let layout = &bed.layout;
        let written = lower_instructions(layout, &no_elements, 0, Context::Entry, &write);
        match (places.set, written) {
            (Some(_), Ok(_)) => held += 1,
            // Of a set-field, some have no slot.
            (Some(_), Err(LowerError::NotInSet(_))) => {
                assert!(matches!(action, SetField(_)), "{action:?}");
            }
            (Some(_), Err(LowerError::Port(_) | LowerError::ReadOnly(_))) => {}
            (None, Err(LowerError::NotInSet(name))) => {
                assert_eq!(name, places.name);
                refused += 1;
            }
            (None, Err(LowerError::Experimenter(_))) => {}
            (set, other) => panic!("{action:?} {set:?}: {other:?}"),
        }
    }
    assert!(held > 500 && refused > 500, "{held} {refused}");
}
