//! Groups and meters: life, errors, cascades, statistics.

use super::bed::*;
use crate::Event;
use openflow::{
    Action, Band, BandKind, Bucket, BucketId, ErrorCode, FieldId, FlowMod, FlowModFlags,
    FlowRemovedReason, GroupId, GroupMod, GroupModCommand, GroupStats, GroupType, Instruction,
    Instructions, Match, MeterFlags, MeterId, MeterMod, MeterModCommand, MultipartReplyBody,
    MultipartRequestBody, PortNo, TableId,
};

fn bucket(actions: Vec<Action>) -> Bucket {
    let id = BucketId(0);
    Bucket { id, weight: 0, watch_port: PortNo::ANY, watch_group: GroupId::ANY, actions }
}

fn group(id: u32, group_type: GroupType, buckets: Vec<Bucket>) -> GroupMod {
    let mut buckets = buckets;
    buckets.iter_mut().enumerate().for_each(|(i, b)| b.id = BucketId(i as u32));
    GroupMod {
        command: GroupModCommand::Add,
        group_type,
        group_id: GroupId(id),
        command_bucket: BucketId::ALL,
        selection: None,
        buckets,
    }
}

fn to_group(id: u32) -> Vec<Action> {
    vec![Action::Group(GroupId(id))]
}

fn delete_group(id: GroupId) -> GroupMod {
    GroupMod { command: GroupModCommand::Delete, group_id: id, ..group(0, GroupType::All, vec![]) }
}

fn stats(bed: &mut Bed, id: GroupId) -> Vec<GroupStats> {
    let parts = bed.ask(V13, MultipartRequestBody::Group(id));
    let groups = parts.into_iter().flat_map(|body| match body {
        MultipartReplyBody::Group(groups) => groups,
        other => panic!("{other:?}"),
    });
    groups.collect()
}

#[test]
fn refused_group_mods_have_the_codes_of_the_specification() {
    use ErrorCode::*;
    use GroupType::*;
    let mut bed = Bed::new(2);
    bed.ok(group(1, All, vec![bucket(vec![output(1)])]));
    let modify = |request| GroupMod { command: GroupModCommand::Modify, ..request };
    let watching = |port| Bucket { watch_port: PortNo(port), ..bucket(vec![output(1)]) };
    let weight = |weight| Bucket { weight, ..bucket(vec![output(1)]) };
    let cases = [
        (group(1, All, vec![]), GmfcGroupExists),
        (group(0xffff_ff01, All, vec![]), GmfcInvalidGroup),
        (group(GroupId::ALL.0, All, vec![]), GmfcInvalidGroup),
        (modify(group(2, All, vec![])), GmfcUnknownGroup),
        (group(2, Indirect, vec![]), GmfcInvalidGroup),
        (group(2, Indirect, vec![bucket(vec![]), bucket(vec![])]), GmfcInvalidGroup),
        (group(2, All, vec![weight(1)]), GmfcInvalidGroup),
        (group(2, Select, vec![weight(0), weight(0)]), GmfcInvalidGroup),
        (group(2, FastFailover, vec![bucket(vec![])]), GmfcInvalidGroup),
        (group(2, All, vec![watching(1)]), GmfcWatchUnsupported),
        (group(2, FastFailover, vec![watching(0)]), GmfcBadWatch),
        (
            group(2, FastFailover, vec![Bucket { watch_group: GroupId(7), ..bucket(vec![]) }]),
            GmfcBadWatch,
        ),
        (group(2, All, vec![bucket(vec![]); 1025]), GmfcOutOfBuckets),
        (group(2, All, vec![bucket(to_group(3))]), BacBadOutGroup),
        (group(2, All, vec![bucket(to_group(2))]), GmfcLoop),
        (modify(group(1, All, vec![bucket(to_group(1))])), GmfcLoop),
        (group(2, All, vec![bucket(vec![output(0)])]), BacBadOutPort),
        (group(2, All, vec![bucket(vec![Action::Meter(MeterId(1))])]), BacBadType),
        (delete_group(GroupId(0xffff_ff01)), GmfcInvalidGroup),
    ];
    for (request, code) in cases {
        assert_eq!(bed.refused(request.clone()), code, "{request:?}");
        assert_eq!(bed.agent.groups().len(), 1);
    }
    bed.ok(delete_group(GroupId(9)));
    bed.ok(group(0, Select, vec![weight(1), weight(2)]));
    assert_eq!(bed.refused(modify(group(0, Select, vec![weight(0)]))), GmfcInvalidGroup);
    bed.ok(modify(group(0, Select, vec![])));
    for id in 2..10 {
        bed.ok(group(id, FastFailover, vec![watching(1)]));
    }
    assert_eq!(bed.refused(group(10, All, vec![])), GmfcOutOfGroups);
}

#[test]
fn chains_have_no_loops_and_an_end() {
    let mut bed = Bed::new(1);
    bed.ok(group(0, GroupType::All, vec![]));
    for id in 1..8 {
        bed.ok(group(id, GroupType::All, vec![bucket(to_group(id - 1))]));
    }
    let loops = |id, to| GroupMod {
        command: GroupModCommand::Modify,
        ..group(id, GroupType::All, vec![bucket(to_group(to))])
    };
    assert_eq!(bed.refused(loops(0, 7)), ErrorCode::GmfcLoop);
    assert_eq!(bed.refused(loops(3, 5)), ErrorCode::GmfcLoop);
    // A shortcut is none, and a group that others lead to cannot go alone.
    bed.ok(loops(7, 0));
    assert_eq!(bed.refused(delete_group(GroupId(3))), ErrorCode::GmfcChainedGroup);
    bed.ok(delete_group(GroupId(7)));
    bed.ok(group(7, GroupType::All, vec![bucket(to_group(6))]));
    bed.ok(delete_group(GroupId::ALL));
    assert!(bed.agent.groups().is_empty());
}

#[test]
fn too_deep_a_chain_is_refused_from_either_end() {
    let mut bed = Bed::new(1);
    let of = |id, to: Option<u32>| {
        group(id, GroupType::All, to.map(|to| bucket(to_group(to))).into_iter().collect())
    };
    // Two chains of four, then joined: eight in a row, and no ninth.
    for id in 0..4 {
        bed.ok(of(id, id.checked_sub(1)));
    }
    for id in 4..8 {
        bed.ok(of(id, (id > 4).then(|| id - 1)));
    }
    let modify = |request| GroupMod { command: GroupModCommand::Modify, ..request };
    bed.ok(modify(of(4, Some(3))));
    assert_eq!(bed.refused(of(8, Some(7))), ErrorCode::GmfcChainingUnsupported);
    bed.ok(of(8, None));
    assert_eq!(bed.refused(modify(of(0, Some(8)))), ErrorCode::GmfcChainingUnsupported);
    bed.ok(modify(of(5, None)));
    bed.ok(modify(of(0, Some(8))));
}

#[test]
fn deleting_a_group_takes_its_entries_along() {
    let mut bed = Bed::new(2);
    bed.ok(group(1, GroupType::All, vec![bucket(vec![output(2)])]));
    let flags = FlowModFlags::SEND_FLOW_REM;
    bed.ok(FlowMod { flags, ..add(from_port(1), apply(to_group(1))) });
    let written = Instructions::from_iter([Instruction::WriteActions(to_group(1))]);
    bed.ok(FlowMod { table_id: TableId(3), ..add(from_port(1), written) });
    bed.ok(add(from_port(2), apply([output(1)])));
    assert_eq!(stats(&mut bed, GroupId(1))[0].ref_count, 2);
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(2), frame(1, 2));
    let counted = &stats(&mut bed, GroupId::ALL)[0];
    assert_eq!((counted.packet_count, counted.byte_count), (1, 60));
    assert_eq!(counted.buckets[0].packet_count, 1);

    bed.ok(delete_group(GroupId(1)));
    let left = bed.flows(TableId::ALL);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].matching, from_port(2));
    let events = bed.agent.poll();
    let [Event::FlowRemoved(removed)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((removed.reason, removed.packet_count), (FlowRemovedReason::GroupDelete, 1));
    assert_eq!(bed.refused(add(from_port(1), apply(to_group(1)))), ErrorCode::BacBadOutGroup);
}

#[test]
fn a_modified_group_keeps_its_count_and_forwards_anew() {
    let mut bed = Bed::new(3);
    let to = |port| vec![bucket(vec![output(port)])];
    bed.ok(group(1, GroupType::Indirect, to(2)));
    bed.ok(add(from_port(1), apply(to_group(1))));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    let modify = GroupModCommand::Modify;
    bed.ok(GroupMod { command: modify, ..group(1, GroupType::Indirect, to(3)) });
    bed.send(1, &frame(1, 2));
    bed.receive(3);
    bed.silent(2);
    let s = stats(&mut bed, GroupId(1));
    assert_eq!((s[0].packet_count, s[0].buckets[0].packet_count), (2, 1));
    let desc = bed.ask(V13, MultipartRequestBody::GroupDesc(GroupId::ALL));
    let [MultipartReplyBody::GroupDesc(descs)] = &desc[..] else { panic!("{desc:?}") };
    assert_eq!((descs.len(), &descs[0].buckets), (1, &to(3)));
}

#[test]
fn a_modify_can_undo_what_entries_are_deleted_by() {
    let mut bed = Bed::new(2);
    bed.ok(group(1, GroupType::All, vec![]));
    bed.ok(add(from_port(1), apply(to_group(1))));
    let modify = openflow::FlowModCommand::Modify;
    bed.ok(with_command(modify, add(from_port(1), apply([output(2)]))));
    assert_eq!(stats(&mut bed, GroupId(1))[0].ref_count, 0);
    bed.ok(delete_group(GroupId::ALL));
    assert_eq!(bed.flows(TableId::ALL).len(), 1);
}

#[test]
fn fast_failover_follows_ports() {
    let mut bed = Bed::new(3);
    let watching = |port| Bucket { watch_port: PortNo(port), ..bucket(vec![output(port)]) };
    bed.ok(group(1, GroupType::FastFailover, vec![watching(2), watching(3)]));
    bed.ok(add(from_port(1), apply(to_group(1))));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    bed.far[1].set_carrier(false);
    let switch = bed.agent.switch().clone();
    bed.until("the link went down", |_| !switch.port(2).unwrap().is_live());
    bed.send(1, &frame(1, 2));
    bed.receive(3);
}

fn meter(id: u32, kind: BandKind) -> MeterMod {
    MeterMod {
        command: MeterModCommand::Add,
        flags: MeterFlags::PKTPS,
        meter_id: MeterId(id),
        bands: vec![Band { rate: 1, burst_size: 0, kind }],
    }
}

fn delete_meter(id: MeterId) -> MeterMod {
    MeterMod { command: MeterModCommand::Delete, meter_id: id, ..meter(1, BandKind::Drop) }
}

#[test]
fn meters_live_and_take_their_entries_along() {
    let mut bed = Bed::new(2);
    let modify = |request| MeterMod { command: MeterModCommand::Modify, ..request };
    let drop_meter = |id| meter(id, BandKind::Drop);
    let cases = [
        (drop_meter(0), ErrorCode::MmfcInvalidMeter),
        (drop_meter(MeterId::CONTROLLER.0), ErrorCode::MmfcInvalidMeter),
        (drop_meter(MeterId::ALL.0), ErrorCode::MmfcInvalidMeter),
        (modify(drop_meter(1)), ErrorCode::MmfcUnknownMeter),
        (
            MeterMod { flags: MeterFlags::KBPS | MeterFlags::PKTPS, ..drop_meter(1) },
            ErrorCode::MmfcBadFlags,
        ),
    ];
    for (request, code) in cases {
        assert_eq!(bed.refused(request), code);
    }
    bed.ok(drop_meter(1));
    assert_eq!(bed.refused(drop_meter(1)), ErrorCode::MmfcMeterExists);
    let metered = Instructions::from_vec(vec![
        Instruction::Meter(MeterId(1)),
        Instruction::ApplyActions(vec![output(2)]),
    ]);
    bed.ok(add(from_port(1), metered));
    bed.ok(add(from_port(2), apply([])));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    let parts = bed.ask(V13, MultipartRequestBody::Meter(MeterId::ALL));
    let [MultipartReplyBody::Meter(stats)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!((stats[0].flow_count, stats[0].packet_in_count), (1, 1));
    assert_eq!((stats[0].byte_in_count, stats[0].bands.len()), (60, 1));
    // What was sent comes back, a burst size of 0 included.
    let parts = bed.ask(V13, MultipartRequestBody::MeterConfig(MeterId(1)));
    let [MultipartReplyBody::MeterConfig(configs)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!((configs[0].flags, &configs[0].bands), (MeterFlags::PKTPS, &drop_meter(1).bands));
    let unknown = MultipartRequestBody::MeterConfig(MeterId(2));
    assert_eq!(bed.refused(unknown), ErrorCode::MmfcUnknownMeter);

    bed.ok(modify(meter(1, BandKind::DscpRemark { prec_level: 1 })));
    bed.ok(delete_meter(MeterId(3)));
    bed.ok(delete_meter(MeterId::ALL));
    assert!(bed.agent.meters().is_empty());
    let left = bed.flows(TableId::ALL);
    assert_eq!((left.len(), left[0].matching.exact(FieldId::InPort)), (1, Some(2)));
    for id in 1..=4 {
        bed.ok(drop_meter(id));
    }
    assert_eq!(bed.refused(drop_meter(5)), ErrorCode::MmfcOutOfMeters);
}

#[test]
fn select_groups_spread_by_address_and_keep_a_flow_together() {
    let mut bed = Bed::new(3);
    let weighted = |port| Bucket { weight: 1, ..bucket(vec![output(port)]) };
    bed.ok(group(1, GroupType::Select, vec![weighted(2), weighted(3)]));
    bed.ok(add(Match::new(), apply(to_group(1))));
    for n in 0..64 {
        bed.send(1, &frame(2, 0x0200_0000_0000 + n));
    }
    bed.send(1, &frame(2, 0x0200_0000_0000));
    bed.until("all came out", |bed| {
        bed.agent.switch().port_counters().iter().map(|(_, c, _)| c.tx_packets).sum::<u64>() == 65
    });
    let mut seen = [Vec::new(), Vec::new()];
    for (port, frames) in [(2, 0), (3, 1)] {
        while let Some(f) = bed.far[port - 1].take() {
            seen[frames].push(f.data().to_vec());
        }
    }
    assert!(seen[0].len() > 16 && seen[1].len() > 16, "{} {}", seen[0].len(), seen[1].len());
    let twice = |f: &[Vec<u8>]| f.iter().filter(|b| **b == frame(2, 0x0200_0000_0000)).count();
    assert!(seen.iter().any(|f| twice(f) == 2));
}

//= openflow-1.3.5 §7.3.5.9: what counts as a user forwards to the group; a watcher does not.
#[test]
fn who_watches_a_group_does_not_use_it() {
    let mut bed = Bed::new(3);
    let watching = |port| Bucket { watch_port: PortNo(port), ..bucket(vec![output(port)]) };
    bed.ok(group(1, GroupType::FastFailover, vec![watching(2)]));
    let by_group = Bucket { watch_group: GroupId(1), ..bucket(vec![output(2)]) };
    bed.ok(group(2, GroupType::FastFailover, vec![by_group, watching(3)]));
    assert_eq!(stats(&mut bed, GroupId(1))[0].ref_count, 0);
    bed.ok(group(3, GroupType::All, vec![bucket(to_group(1)), bucket(to_group(1))]));
    assert_eq!(stats(&mut bed, GroupId(1))[0].ref_count, 1);
    // A watched group cannot go alone either: it would leave the watcher blind.
    bed.ok(delete_group(GroupId(3)));
    assert_eq!(bed.refused(delete_group(GroupId(1))), ErrorCode::GmfcChainedGroup);
}

//= openflow-1.3.5 §5.6.1: a fast-failover group without a live bucket drops.
//= openflow-1.3.5 §6.5: a bucket that watches a group lives while one of its buckets does.
#[test]
fn liveness_passes_through_watched_groups_and_without_any_packets_drop() {
    let mut bed = Bed::new(3);
    let watching = |port| Bucket { watch_port: PortNo(port), ..bucket(vec![output(port)]) };
    bed.ok(group(1, GroupType::FastFailover, vec![watching(2)]));
    let by_group = Bucket { watch_group: GroupId(1), ..bucket(vec![output(2)]) };
    bed.ok(group(2, GroupType::FastFailover, vec![by_group, watching(3)]));
    bed.ok(add(from_port(1), apply(to_group(2))));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    let switch = bed.agent.switch().clone();
    bed.far[1].set_carrier(false);
    bed.until("the link of 2 went down", |_| !switch.port(2).unwrap().is_live());
    bed.send(1, &frame(1, 2));
    bed.receive(3);
    bed.far[2].set_carrier(false);
    bed.until("the link of 3 went down", |_| !switch.port(3).unwrap().is_live());
    bed.send(1, &frame(1, 2));
    bed.silent(3);
    // It is counted all the same, once a busy machine comes to it.
    let counted = |bed: &mut Bed| stats(bed, GroupId(2))[0].packet_count;
    for _ in 0..500 {
        if counted(&mut bed) == 3 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(counted(&mut bed), 3);
    bed.silent(3);
}

//= openflow-1.3.5 §7.3.4.2: a bucket of weight 0 is not selected.
#[test]
fn a_bucket_without_weight_gets_nothing() {
    let mut bed = Bed::new(3);
    let weighted = |port, weight| Bucket { weight, ..bucket(vec![output(port)]) };
    bed.ok(group(1, GroupType::Select, vec![weighted(2, 0), weighted(3, 1)]));
    bed.ok(add(Match::new(), apply(to_group(1))));
    for n in 0..16 {
        bed.send(1, &frame(2, 0x0200_0000_0000 + n));
        bed.receive(3);
    }
    bed.silent(2);
}

//= openflow-1.3.5 §6.6: a modified meter goes on counting; its bands begin anew.
#[test]
fn a_modified_meter_keeps_its_count() {
    let mut bed = Bed::new(2);
    bed.ok(meter(1, BandKind::Drop));
    let list = vec![Instruction::Meter(MeterId(1)), Instruction::ApplyActions(vec![output(2)])];
    bed.ok(add(from_port(1), Instructions::from_vec(list)));
    let count = |bed: &mut Bed| {
        let parts = bed.ask(V13, MultipartRequestBody::Meter(MeterId(1)));
        let [MultipartReplyBody::Meter(stats)] = &parts[..] else { panic!("{parts:?}") };
        (stats[0].packet_in_count, stats[0].byte_in_count, stats[0].bands[0].packet_count)
    };
    // One packet a second: of these one passes, the others go.
    for _ in 0..3 {
        bed.send(1, &frame(1, 2));
    }
    bed.receive(2);
    bed.until("all were metered", |bed| {
        let stats = bed.agent.switch().meter_stats(ir::MeterId(1));
        stats.is_some_and(|s| s.input.packets == 3)
    });
    assert_eq!(count(&mut bed), (3, 180, 2));
    let quick = Band { rate: 1000, burst_size: 0, kind: BandKind::Drop };
    let modify = MeterMod {
        command: MeterModCommand::Modify,
        bands: vec![quick],
        ..meter(1, BandKind::Drop)
    };
    bed.ok(modify.clone());
    bed.agent.switch().sync();
    assert_eq!(count(&mut bed), (3, 180, 0));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    assert_eq!(count(&mut bed), (4, 240, 0));
    bed.ok(modify);
    assert_eq!(count(&mut bed), (4, 240, 0));
    bed.ok(delete_meter(MeterId(1)));
    bed.ok(meter(1, BandKind::Drop));
    assert_eq!(count(&mut bed), (0, 0, 0));
}

/// A group-mod costs the same however many groups there are: what is kept of their hashes is kept once, and who leads to a
/// group is known without a search.
#[test]
fn groups_share_the_inputs_of_their_hashes() {
    let mut bed = Bed::new(2);
    let weighed = || vec![Bucket { weight: 1, ..bucket(vec![output(1)]) }];
    (1..=6).for_each(|id| drop(bed.ok(group(id, GroupType::Select, weighed()))));
    let selection = openflow::Selection {
        method: openflow::SelectionMethod::Hash,
        param: 0,
        fields: vec![(FieldId::Ipv4Src, u128::from(u32::MAX))],
    };
    let own = GroupMod { selection: Some(selection), ..group(7, GroupType::Select, weighed()) };
    bed.ok(own.clone());
    bed.ok(GroupMod { group_id: GroupId(8), ..own });
    let inputs = |bed: &Bed| {
        bed.agent.switch().with_pipeline(|pipeline| {
            let selects = |group: &ir::Group| group.kind == ir::GroupKind::Select;
            let all = pipeline.groups().filter(|(_, group)| selects(group));
            let all = all.map(|(_, group)| group.hash.as_ptr());
            all.collect::<std::collections::BTreeSet<_>>().len()
        })
    };
    assert_eq!(inputs(&bed), 2);
    bed.ok(group(9, GroupType::All, vec![bucket(to_group(1))]));
    bed.ok(group(10, GroupType::All, vec![bucket(to_group(1)), bucket(to_group(9))]));
    let references = |bed: &mut Bed, id| stats(bed, GroupId(id))[0].ref_count;
    assert_eq!([references(&mut bed, 1), references(&mut bed, 9)], [2, 1]);
    assert_eq!(bed.refused(delete_group(GroupId(1))), ErrorCode::GmfcChainedGroup);
    let modify = GroupMod { command: GroupModCommand::Modify, ..group(10, GroupType::All, vec![]) };
    bed.ok(modify);
    assert_eq!([references(&mut bed, 1), references(&mut bed, 9)], [1, 0]);
    bed.ok(delete_group(GroupId(9)));
    assert_eq!(references(&mut bed, 1), 0);
    bed.ok(delete_group(GroupId(1)));
}
