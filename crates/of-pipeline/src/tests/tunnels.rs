//! Tunnel ports, by ports whose frames begin with a descriptor, and the map of options.

use super::bed::*;
use contract::tunnel::OptionMap;
use of_lower::tunnel::descriptor;
use openflow::{
    Action, ErrorCode, FieldId, FlowMod, FlowModCommand, Instructions, Match, TlvMapping,
    TlvTableCommand, TlvTableMod,
};
use port::memory::{self, Handle};
use std::sync::{Arc, Mutex};

/// The tunnel port's number.
const TUNNEL: u32 = 9;

fn mapping(index: u16, kind: u8, len: u8) -> TlvMapping {
    TlvMapping { class: 0x102, kind, len, index }
}

fn change(bed: &mut Bed, command: TlvTableCommand, mappings: &[TlvMapping]) -> Option<ErrorCode> {
    let request = TlvTableMod { command, mappings: mappings.to_vec() };
    bed.agent.change_options(&request).err().map(|refusal| refusal.code())
}

fn map(bed: &mut Bed, index: u16, kind: u8, len: u8) -> Option<ErrorCode> {
    change(bed, TlvTableCommand::Add, &[mapping(index, kind, len)])
}

/// A tunnel port, and its far end.
fn add_tunnel(bed: &mut Bed) -> Handle {
    let config = memory::Config { described: true, ..memory::Config::default() };
    let (near, far) = memory::port("tunnel", config).unwrap();
    bed.agent.switch().add_port(Some(TUNNEL), Box::new(near)).unwrap();
    bed.agent.follow_ports();
    far
}

/// What the last map was.
fn follow(bed: &mut Bed) -> Arc<Mutex<Arc<OptionMap>>> {
    let last = Arc::new(Mutex::new(Arc::new(OptionMap::default())));
    let to = last.clone();
    bed.agent.set_options_follower(Box::new(move |map| *to.lock().unwrap() = map.clone()));
    last
}

fn received(far: &Handle) -> Vec<u8> {
    let frame = far.take_within(std::time::Duration::from_secs(5));
    frame.expect("a frame comes").data().to_vec()
}

#[test]
fn packets_come_and_go_by_a_tunnel_port() {
    let mut bed = Bed::new(2);
    let last = follow(&mut bed);
    assert_eq!(map(&mut bed, 0, 0x80, 4), None);
    let far = add_tunnel(&mut bed);
    let map = last.lock().unwrap().clone();
    let fields = Match::new()
        .with(FieldId::TunnelId, 7)
        .with(FieldId::TunDst, 0x0a00_0001)
        .with(FieldId::TunMetadata0, 0x0001_0002);
    let set = |id: FieldId| Action::set_field(id, fields.exact(id).unwrap_or(0x0001_0002));
    let list =
        [set(FieldId::TunnelId), set(FieldId::TunDst), set(FieldId::TunMetadata0), output(TUNNEL)];
    bed.ok(add(Match::new().with(FieldId::InPort, 1), apply(list)));
    bed.ok(add(fields.clone().with(FieldId::InPort, TUNNEL.into()), apply([output(2)])));
    let (frame, before) = (frame(1, 2), descriptor(&map, &fields));
    for _ in 0..50 {
        bed.send(1, &frame);
        assert_eq!(received(&far), [before.clone(), frame.clone()].concat());
        assert!(far.inject_bytes(&[before.clone(), frame.clone()].concat()));
        assert_eq!(bed.receive(2), frame);
    }
    // Descriptors are no octets of the port's frames.
    let all = bed.agent.switch().port_counters();
    let counters = &all.iter().find(|(view, ..)| view.number == TUNNEL).unwrap().1;
    assert_eq!((counters.rx_packets, counters.rx_bytes), (50, 50 * frame.len() as u64));
    // Nor of what entries count.
    for flow in bed.flows(openflow::TableId(0)) {
        assert_eq!((flow.packet_count, flow.byte_count), (50, 50 * frame.len() as u64), "{flow:?}");
    }
    // What another option says matches nothing.
    let other = fields.clone().with(FieldId::TunMetadata0, 3);
    assert!(far.inject_bytes(&[descriptor(&map, &other), frame.clone()].concat()));
    bed.silent(2);
}

#[test]
fn an_option_that_is_used_stays() {
    let mut bed = Bed::new(2);
    assert_eq!(map(&mut bed, 3, 1, 4), None);
    let field = FieldId::TunMetadata3;
    let request = |list: Instructions| FlowMod { priority: 5, ..add(Match::new(), list) };
    bed.ok(request(apply([Action::set_field(field, 1), output(2)])));
    let gone = |bed: &mut Bed| change(bed, TlvTableCommand::Delete, &[mapping(3, 1, 4)]);
    assert_eq!(gone(&mut bed), Some(ErrorCode::TtmfcInvalidTlvDel));
    assert_eq!(change(&mut bed, TlvTableCommand::Clear, &[]), Some(ErrorCode::TtmfcInvalidTlvDel));
    assert_eq!(map(&mut bed, 4, 2, 8), None, "others may come");
    bed.ok(FlowMod { command: FlowModCommand::Delete, ..request(Instructions::default()) });
    assert_eq!(gone(&mut bed), None);
    assert_eq!(bed.agent.options().mappings, [mapping(4, 2, 8)]);
    assert_eq!(change(&mut bed, TlvTableCommand::Clear, &[]), None);
    assert_eq!(bed.agent.options().mappings, []);
}

#[test]
fn maps_are_refused_with_their_codes() {
    let mut bed = Bed::new(1);
    assert_eq!(map(&mut bed, 0, 0, 4), None);
    for (index, kind, len, code) in [
        (64, 1, 4, ErrorCode::TtmfcBadFieldIdx),
        (1, 1, 0, ErrorCode::TtmfcBadOptLen),
        (1, 1, 6, ErrorCode::TtmfcBadOptLen),
        (1, 1, 20, ErrorCode::TtmfcBadOptLen),
        (0, 1, 4, ErrorCode::TtmfcAlreadyMapped),
        (1, 0, 4, ErrorCode::TtmfcDupEntry),
    ] {
        assert_eq!(map(&mut bed, index, kind, len), Some(code), "{index} {kind} {len}");
    }
    let many: Vec<TlvMapping> = (1..17).map(|i| mapping(i, i as u8, 16)).collect();
    let full = change(&mut bed, TlvTableCommand::Add, &many);
    assert_eq!(full, Some(ErrorCode::TtmfcTableFull));
    assert_eq!(bed.agent.options().mappings, [mapping(0, 0, 4)], "refused ones change nothing");
}

#[test]
fn fields_of_no_option_are_refused_and_masks_are_the_options() {
    let mut bed = Bed::new(2);
    let field = FieldId::TunMetadata5;
    let matched = |value| add(Match::new().with(field, value), apply([output(2)]));
    let sets = add(Match::new(), apply([Action::set_field(field, 1), output(2)]));
    assert_eq!(bed.refused(matched(1)), ErrorCode::FmfcInvalidTlvField);
    assert_eq!(bed.refused(sets.clone()), ErrorCode::FmfcInvalidTlvField);
    assert_eq!(map(&mut bed, 5, 0x80, 4), None);
    bed.ok(sets);
    assert_eq!(bed.refused(matched(1 << 32)), ErrorCode::BmcBadValue);
    bed.ok(matched(1));
    let flows = bed.flows(openflow::TableId(0));
    let mask = flows.iter().find_map(|flow| flow.matching.get(field)).unwrap().mask;
    assert_eq!(mask, 0xffff_ffff);
}
