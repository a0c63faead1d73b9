//! Descriptors of tunnel ports, read and put in front.

use super::bed::{Bed, Sent, apply, hex, out};
use super::frames::{L4, frame, v4};
use crate::normal::config::Extras;
use crate::tunnel::descriptor;
use contract::tunnel::{IN_PORT, LEN, OptionMap};
use ir::{DropReason, Verdict};
use openflow::FieldId as F;
use openflow::{Action, GroupId, Match, PortNo};
use std::sync::Arc;

/// Tunnel ports.
const TUNNELS: [u32; 2] = [5, 6];

fn map() -> Arc<OptionMap> {
    Arc::new(OptionMap::new(3, &[(0, 0x102, 0x80, 4), (9, 0xffff, 1, 12)]).unwrap())
}

fn bed() -> Bed {
    let mut bed = Bed::of(&Extras { tunnels: Some(map()), ..Extras::default() });
    bed.externs.tunnel_ports.extend(TUNNELS);
    bed
}

fn tcp() -> Vec<u8> {
    frame(v4(), L4::Tcp(1, 2)).bytes()
}

/// A frame as a tunnel port gives it.
fn tunnelled(fields: &Match) -> Vec<u8> {
    [descriptor(&map(), fields), tcp()].concat()
}

fn from_tunnel(bed: &mut Bed, number: u32, bytes: &[u8]) -> Sent {
    bed.send(IN_PORT ^ number, bytes)
}

fn fields() -> Match {
    Match::new()
        .with(F::TunnelId, 0x77)
        .with(F::TunSrc, 0xc0a8_4d01)
        .with(F::TunDst, 0xc0a8_4d02)
        .with(F::TunIpv6Src, 1 << 100)
        .with(F::TunFlags, 1)
        .with(F::TunGbpId, 0x1234)
        .with(F::TunGbpFlags, 0x48)
        .with(F::TunErspanVer, 2)
        .with(F::TunErspanIdx, 0xa_bcde)
        .with(F::TunErspanDir, 1)
        .with(F::TunErspanHwid, 0x2a)
        .with(F::TunMetadata0, 0x0001_0002)
        .with(F::TunMetadata9, 0x1111_2222_3333_4444_5555_6666)
}

#[test]
fn a_packet_of_a_tunnel_port_has_its_fields_and_no_descriptor() {
    let mut bed = bed();
    for field in &fields() {
        let other = Match::new().with(field.id, field.value ^ 1);
        bed.flow(0, 9, other, &[apply(&[out(3)])]);
    }
    bed.flow(0, 1, fields().with(F::InPort, 5), &[apply(&[out(2)])]);
    let sent = from_tunnel(&mut bed, 5, &tunnelled(&fields()));
    assert_eq!((sent.one().port, hex(&sent.one().bytes)), (2, hex(&tcp())));
    // By another tunnel port it matches nothing.
    let sent = from_tunnel(&mut bed, 6, &tunnelled(&fields()));
    sent.dropped(DropReason::TableMiss);
    // An ordinary port has no descriptor to give.
    bed.flow(0, 0, Match::new(), &[apply(&[out(2)])]);
    assert_eq!(hex(&bed.send(1, &tcp()).one().bytes), hex(&tcp()));
}

#[test]
fn what_is_sent_to_a_tunnel_port_has_a_descriptor() {
    let mut bed = bed();
    let mut list: Vec<Action> =
        fields().iter().map(|field| Action::set_field(field.id, field.value)).collect();
    list.extend([out(2), out(5), out(3), Action::set_field(F::TunnelId, 0x78), out(6)]);
    bed.flow(0, 1, Match::new(), &[apply(&list)]);
    let sent = bed.send(1, &tcp());
    assert_eq!(sent.ports(), [2, 5, 3, 6]);
    let all: Vec<String> = sent.all.outputs.iter().map(|o| hex(&o.bytes)).collect();
    let other = fields().with(F::TunnelId, 0x78);
    assert_eq!((&all[0], &all[2]), (&hex(&tcp()), &hex(&tcp())));
    assert_eq!(all[1], hex(&tunnelled(&fields())));
    assert_eq!(all[3], hex(&tunnelled(&other)));
}

#[test]
fn options_go_from_tunnel_to_tunnel_unless_they_are_deleted() {
    let mut bed = bed();
    bed.flow(0, 1, Match::new().with(F::InPort, 5), &[apply(&[out(6)])]);
    let sent = from_tunnel(&mut bed, 5, &tunnelled(&fields()));
    assert_eq!(hex(&sent.one().bytes), hex(&tunnelled(&fields())));
    let without = Match::new().with(F::TunnelId, 1);
    let sent = from_tunnel(&mut bed, 5, &tunnelled(&without));
    assert_eq!(hex(&sent.one().bytes), hex(&tunnelled(&without)), "no option is present");
}

#[test]
fn an_option_is_deleted_and_lengths_are_the_frames() {
    let mut bed = bed();
    let to = openflow::Subfield { field: F::Reg0, offset: 0 };
    let larger = |bytes| Action::CheckPktLarger { bytes, to };
    let length = tcp().len() as u16;
    let list = [Action::DeleteField(F::TunMetadata0), larger(length), out(6)];
    bed.flow(0, 1, Match::new().with(F::Reg0, 0), &[apply(&list), super::bed::goto(1)]);
    bed.flow(1, 1, Match::new().with(F::Reg0, 1), &[apply(&[out(2)])]);
    bed.flow(1, 0, Match::new(), &[apply(&[larger(length - 1)]), super::bed::goto(2)]);
    bed.flow(2, 1, Match::new().with(F::Reg0, 1), &[apply(&[out(3)])]);
    let sent = from_tunnel(&mut bed, 5, &tunnelled(&fields()));
    assert_eq!(sent.ports(), [6, 3]);
    let mut without = fields();
    without.remove(F::TunMetadata0);
    assert_eq!(hex(&sent.all.outputs[0].bytes), hex(&tunnelled(&without)));
}

#[test]
fn buckets_floods_and_action_sets_know_tunnel_ports() {
    let mut bed = bed();
    bed.group(7, ir::GroupKind::All, &[&[out(5)], &[out(2)]]);
    let set = Action::set_field(F::TunnelId, 4);
    bed.flow(0, 1, Match::new(), &[apply(&[set, Action::Group(GroupId(7))])]);
    let sent = bed.send(1, &tcp());
    let described = tunnelled(&Match::new().with(F::TunnelId, 4));
    let all: Vec<String> = sent.all.outputs.iter().map(|o| hex(&o.bytes)).collect();
    assert_eq!(all, [hex(&described), hex(&tcp())]);
    let mut bed = self::bed();
    let in_set = [Action::set_field(F::TunnelId, 4), out(5)];
    bed.flow(0, 1, Match::new(), &[super::bed::write(&in_set)]);
    assert_eq!(hex(&bed.send(1, &tcp()).one().bytes), hex(&described));
}

#[test]
fn a_copy_that_is_cut_keeps_its_descriptor() {
    let mut bed = bed();
    let cut = |port| Action::OutputTruncated { port: PortNo(port), max_len: 20 };
    bed.flow(0, 1, Match::new(), &[apply(&[cut(2), cut(5)])]);
    let sent = bed.send(1, &tcp());
    let all: Vec<usize> = sent.all.outputs.iter().map(|o| o.bytes.len()).collect();
    assert_eq!(all, [20, 20 + LEN + 16]);
}

#[test]
fn a_descriptor_of_another_map_or_half_of_one_is_dropped() {
    let mut bed = bed();
    bed.flow(0, 1, Match::new(), &[apply(&[out(2)])]);
    let whole = tunnelled(&fields());
    let mut other = whole.clone();
    other[1] ^= 1;
    for (bytes, reason) in [
        (&other[..], DropReason::TunnelMap),
        (&whole[..LEN], DropReason::FrameTooShort),
        (&[], DropReason::FrameTooShort),
    ] {
        let sent = from_tunnel(&mut bed, 5, bytes);
        assert_eq!(sent.verdict, Verdict::Drop(reason), "{bytes:?}");
    }
}

#[test]
fn a_packet_that_is_parsed_again_keeps_what_its_tunnel_said() {
    let mut bed = bed();
    let push = Action::PushVlan(0x8100);
    let pop = Action::PopVlan;
    bed.flow(0, 1, Match::new(), &[apply(&[Action::PushPbb(0x88e7), push, out(2), pop, out(5)])]);
    let sent = from_tunnel(&mut bed, 6, &tunnelled(&fields()));
    assert_eq!(sent.ports(), [2, 5]);
    let described = descriptor(&map(), &fields());
    assert_eq!(hex(&sent.all.outputs[1].bytes[..described.len()]), hex(&described));
}
