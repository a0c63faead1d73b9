//! Bundles: all or nothing, in one version; buckets of 1.5; what 1.4 and 1.5 add to actions.

use super::bed::*;
use crate::Event;
use openflow::{
    Action, Bucket, BucketId, CopyField, ErrorCode, FieldId, FlowMod, FlowModCommand, FlowModFlags,
    FlowRemovedReason, GroupDesc, GroupId, GroupMod, GroupModCommand, GroupType, Instructions,
    Match, Message, MeterFlags, MeterId, MeterMod, MeterModCommand, MultipartReplyBody,
    MultipartRequestBody, PacketOut, PortConfig, PortMod, PortNo, SetField, Subfield, TableId,
    Version,
};

const V15: Version = Version::V15;

fn to(dst: u128, port: u32) -> FlowMod {
    add(Match::new().with(FieldId::EthDst, dst), apply([output(port)]))
}

fn bucket(id: u32, port: u32) -> Bucket {
    Bucket {
        id: BucketId(id),
        weight: 0,
        watch_port: PortNo::ANY,
        watch_group: GroupId::ANY,
        actions: vec![output(port)],
    }
}

fn group(command: GroupModCommand, buckets: Vec<Bucket>) -> GroupMod {
    GroupMod {
        command,
        group_type: GroupType::All,
        group_id: GroupId(1),
        command_bucket: BucketId::ALL,
        selection: None,
        buckets,
    }
}

fn meter(id: u32, command: MeterModCommand) -> Message {
    let flags = MeterFlags::PKTPS;
    Message::MeterMod(MeterMod { command, flags, meter_id: MeterId(id), bands: Vec::new() })
}

fn version(bed: &Bed) -> u64 {
    bed.agent.switch().with_pipeline(|p| p.version())
}

/// What the pipeline holds, entry by entry, and what controllers are told.
fn all(bed: &mut Bed) -> String {
    let flows: Vec<_> = bed
        .flows(TableId::ALL)
        .into_iter()
        .map(|f| openflow::FlowStats { age: Default::default(), ..f })
        .collect();
    let groups = bed.ask(V15, MultipartRequestBody::GroupDesc(GroupId::ALL));
    let meters = bed.ask(V15, MultipartRequestBody::MeterConfig(MeterId::ALL));
    let held = bed.agent.switch().with_pipeline(|p| {
        let tables: Vec<usize> = (0..8).map(|t| p.entries(ir::TableId(t)).len()).collect();
        (tables, p.added_actions().count(), p.groups().count(), p.meters().count())
    });
    format!("{flows:?} {groups:?} {meters:?} {held:?}")
}

#[test]
fn a_bundle_is_one_version() {
    //= openflow-1.4.1 §6.8: the messages of a bundle are done together, in their order.
    let mut bed = Bed::new(3);
    bed.ok(to(1, 2));
    let before = version(&bed);
    let messages = vec![
        Message::GroupMod(group(GroupModCommand::Add, vec![bucket(0, 3)])),
        meter(1, MeterModCommand::Add),
        // A later message uses what an earlier one made, replaces it and deletes it.
        Message::FlowMod(add(
            Match::new().with(FieldId::EthDst, 9),
            apply([Action::Group(GroupId(1))]),
        )),
        Message::FlowMod(to(2, 2)),
        Message::FlowMod(to(2, 3)),
        Message::FlowMod(to(3, 2)),
        Message::FlowMod(with_command(FlowModCommand::DeleteStrict, to(3, 2))),
        Message::FlowMod(with_command(FlowModCommand::Modify, to(1, 3))),
        Message::PacketOut(PacketOut {
            buffer_id: None,
            in_port: PortNo(1),
            pipeline: Match::new(),
            actions: vec![Action::output(PortNo::TABLE)],
            data: frame(2, 5),
        }),
    ];
    bed.agent.bundle(V15, messages).unwrap();
    assert_eq!(version(&bed), before + 1);
    assert_eq!(bed.flows(TableId(0)).len(), 3);
    assert_eq!(bed.receive(3), frame(2, 5), "the packet finds what is in the bundle");
    bed.send(1, &frame(1, 5));
    assert_eq!(bed.receive(3), frame(1, 5));
    bed.send(1, &frame(9, 5));
    assert_eq!(bed.receive(3), frame(9, 5));
}

#[test]
fn a_bundle_with_one_bad_message_leaves_nothing() {
    //= openflow-1.4.1 §6.8: if one message cannot be done, none is.
    let mut bed = Bed::new(3);
    bed.ok(to(1, 2));
    bed.ok(FlowMod { flags: FlowModFlags::SEND_FLOW_REM, ..to(2, 3) });
    bed.ok(group(GroupModCommand::Add, vec![bucket(0, 3)]));
    bed.ok(meter(2, MeterModCommand::Add));
    bed.agent.poll();
    let (before, version_before) = (all(&mut bed), version(&bed));
    let mac = bed.agent.switch().port(2).unwrap().info.mac;
    let down = PortMod {
        port_no: PortNo(2),
        hw_addr: openflow::MacAddr(mac),
        config: PortConfig::PORT_DOWN,
        mask: PortConfig::PORT_DOWN,
        advertise: Default::default(),
    };
    let good = || {
        vec![
            Message::FlowMod(to(3, 2)),
            Message::FlowMod(to(1, 3)),
            Message::FlowMod(with_command(FlowModCommand::Modify, to(1, 1))),
            Message::FlowMod(delete(Match::new())),
            Message::FlowMod(to(4, 2)),
            Message::GroupMod(group(GroupModCommand::Modify, vec![bucket(5, 1), bucket(6, 2)])),
            Message::GroupMod(group(GroupModCommand::Delete, Vec::new())),
            meter(2, MeterModCommand::Delete),
            meter(3, MeterModCommand::Add),
            Message::PortMod(down),
            Message::PacketOut(PacketOut {
                buffer_id: None,
                in_port: PortNo(1),
                pipeline: Match::new(),
                actions: vec![output(3)],
                data: frame(1, 2),
            }),
        ]
    };
    let bad = [
        (Message::FlowMod(to(1, 0)), ErrorCode::BacBadOutPort),
        (
            Message::FlowMod(add(Match::new(), apply([Action::Group(GroupId(1))]))),
            ErrorCode::BacBadOutGroup,
        ),
        (meter(3, MeterModCommand::Add), ErrorCode::MmfcMeterExists),
        (Message::BarrierRequest, ErrorCode::BfcMsgUnsup),
    ];
    for (wrong, code) in bad {
        let mut messages = good();
        let at = messages.len();
        messages.push(wrong);
        messages.push(Message::FlowMod(to(5, 2)));
        let fault = bed.agent.bundle(V15, messages).unwrap_err();
        assert_eq!((fault.at, fault.refusal.code()), (at, code));
        assert_eq!(all(&mut bed), before);
        assert_eq!(version(&bed), version_before);
        assert!(!bed.agent.switch().port(2).unwrap().config.down, "the port is as it was");
    }
    bed.silent(3);
    // The same without the bad one is done, and the entry that went is told once.
    bed.agent.bundle(V15, good()[..9].to_vec()).unwrap();
    assert_eq!(bed.flows(TableId::ALL).len(), 1);
    let told = bed.agent.poll();
    let removed: Vec<_> =
        told.iter().filter(|e| matches!(e, crate::Event::FlowRemoved(_))).collect();
    assert_eq!(removed.len(), 1, "{removed:?}");
}

#[test]
fn bundles_against_a_plain_order() {
    // Random bundles, some with a bad message, against single requests on a second switch.
    let mut rng = openflow::testing::Rng::new(6);
    let (mut bundled, mut single) = (Bed::new(2), Bed::new(2));
    for _ in 0..60 {
        let count = rng.below(8);
        let mut requests: Vec<FlowMod> = (0..count)
            .map(|_| {
                let request = to(rng.below(6) as u128, 1 + rng.below(2) as u32);
                let command = rng.choose(&[
                    FlowModCommand::Add,
                    FlowModCommand::Modify,
                    FlowModCommand::ModifyStrict,
                    FlowModCommand::Delete,
                    FlowModCommand::DeleteStrict,
                ]);
                with_command(command, request)
            })
            .collect();
        let bad = rng.one_in(3);
        if bad {
            requests.push(to(1, 0));
        }
        let messages = requests.iter().cloned().map(Message::FlowMod).collect();
        assert_eq!(bundled.agent.bundle(V13, messages).is_err(), bad);
        if !bad {
            requests.into_iter().for_each(|request| drop(single.ok(request)));
        }
        let shown = |bed: &mut Bed| {
            let mut flows: Vec<_> = bed
                .flows(TableId::ALL)
                .into_iter()
                .map(|f| format!("{:?} {:?}", f.matching, f.instructions))
                .collect();
            flows.sort();
            flows
        };
        assert_eq!(shown(&mut bundled), shown(&mut single));
    }
}

fn buckets(bed: &mut Bed) -> Vec<u32> {
    let parts = bed.ask(V15, MultipartRequestBody::GroupDesc(GroupId(1)));
    let [MultipartReplyBody::GroupDesc(groups)] = &parts[..] else { panic!("{parts:?}") };
    let [GroupDesc { buckets, .. }] = &groups[..] else { panic!("{groups:?}") };
    buckets.iter().map(|b| b.id.0).collect()
}

#[test]
fn buckets_are_inserted_and_removed() {
    //= openflow-1.5.1 §7.3.4.3: insert and remove, each with its errors.
    let mut bed = Bed::new(3);
    let change = |command, at: BucketId, list: Vec<Bucket>| {
        Request(V15, Message::GroupMod(GroupMod { command_bucket: at, ..group(command, list) }))
    };
    let insert = |at, list| change(GroupModCommand::InsertBucket, at, list);
    let remove = |at| change(GroupModCommand::RemoveBucket, at, Vec::new());
    assert_eq!(bed.refused(insert(BucketId::LAST, vec![])), ErrorCode::GmfcUnknownGroup);
    bed.ok(group(GroupModCommand::Add, vec![bucket(10, 1), bucket(20, 2)]));
    bed.ok(insert(BucketId::LAST, vec![bucket(30, 3)]));
    bed.ok(insert(BucketId::FIRST, vec![bucket(5, 3)]));
    bed.ok(insert(BucketId(10), vec![bucket(15, 3)]));
    assert_eq!(buckets(&mut bed), [5, 10, 15, 20, 30]);
    assert_eq!(
        bed.refused(insert(BucketId::LAST, vec![bucket(5, 1)])),
        ErrorCode::GmfcBucketExists
    );
    assert_eq!(bed.refused(insert(BucketId(7), vec![bucket(6, 1)])), ErrorCode::GmfcUnknownBucket);
    assert_eq!(bed.refused(insert(BucketId::ALL, vec![bucket(6, 1)])), ErrorCode::GmfcBadBucket);
    assert_eq!(bed.refused(remove(BucketId(7))), ErrorCode::GmfcUnknownBucket);
    bed.ok(remove(BucketId::FIRST));
    bed.ok(remove(BucketId::LAST));
    bed.ok(remove(BucketId(15)));
    assert_eq!(buckets(&mut bed), [10, 20]);
    // A bucket that stays goes on counting.
    bed.ok(add(from_port(3), apply([Action::Group(GroupId(1))])));
    bed.send(3, &frame(1, 2));
    bed.receive(1);
    bed.receive(2);
    bed.ok(remove(BucketId(20)));
    let parts = bed.ask(V15, MultipartRequestBody::Group(GroupId(1)));
    let [MultipartReplyBody::Group(stats)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!(stats[0].buckets.len(), 1);
    assert_eq!(stats[0].buckets[0].packet_count, 1);
    bed.ok(remove(BucketId::ALL));
    assert_eq!(buckets(&mut bed), [] as [u32; 0]);
    bed.ok(remove(BucketId::FIRST));
}

#[test]
fn fields_are_copied_and_set_in_part() {
    //= openflow-1.5.1 §7.2.6.8: copy-field, from a header into a register and back.
    let mut bed = Bed::new(2);
    let sub = |field, offset| Subfield { field, offset };
    let copy = |bits, from, to| Action::CopyField(CopyField { bits, from, to });
    let actions = [
        copy(16, sub(FieldId::EthSrc, 8), sub(FieldId::Reg3, 4)),
        Action::SetField(SetField { field: FieldId::EthDst, value: 0xab00, mask: Some(0xff00) }),
        copy(16, sub(FieldId::Reg3, 4), sub(FieldId::EthDst, 32)),
        output(2),
    ];
    bed.ok(Request(V15, Message::FlowMod(add(Match::new(), apply(actions)))));
    bed.send(1, &frame(0x0000_0000_00ff, 0x0000_0012_3456));
    assert_eq!(bed.receive(2), frame(0x1234_0000_abff, 0x0000_0012_3456));
    // A register carries from table to table, and is matched under a mask.
    let set = Action::SetField(SetField { field: FieldId::Reg0, value: 0x20, mask: Some(0x30) });
    let mut to_1: Instructions = apply([set]);
    to_1.push(openflow::Instruction::GotoTable(TableId(1)));
    bed.ok(add(Match::new(), to_1));
    let in_1 = FlowMod {
        table_id: TableId(1),
        ..add(Match::new().with_masked(FieldId::Reg0, 0x20, 0x70), apply([output(2)]))
    };
    bed.ok(in_1);
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(2), frame(1, 2));
}

#[test]
fn meters_are_actions_too() {
    //= openflow-1.5.1 §7.5.4: a meter action that names an unknown meter is OFPBAC_BAD_METER.
    let mut bed = Bed::new(2);
    let metered = add(Match::new(), apply([Action::Meter(MeterId(1)), output(2)]));
    assert_eq!(
        bed.refused(Request(V15, Message::FlowMod(metered.clone()))),
        ErrorCode::BacBadMeter
    );
    bed.ok(meter(1, MeterModCommand::Add));
    bed.ok(metered);
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    bed.ok(meter(1, MeterModCommand::Delete));
    assert!(bed.flows(TableId::ALL).is_empty(), "its user goes with it");
}

#[test]
fn tables_are_described_as_configured() {
    //= openflow-1.4.1 §7.3.3: eviction and vacancy events are configured, and told.
    use openflow::{TableMod, Vacancy, table};
    let mut bed = Bed::new(1);
    let config = table::TABLE_EVICTION | table::TABLE_VACANCY_EVENTS;
    let vacancy = Some(Vacancy { down: 20, up: 80, now: 0 });
    let request = TableMod { table_id: TableId(2), config, eviction: None, vacancy };
    bed.ok(Request(Version::V14, Message::TableMod(request)));
    assert_eq!(bed.refused(Message::TableMod(request)), ErrorCode::TmfcBadConfig, "not in 1.3");
    let parts = bed.ask(Version::V14, MultipartRequestBody::TableDesc);
    let [MultipartReplyBody::TableDesc(tables)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!((tables.len(), tables[1].config), (8, 0));
    assert_eq!(tables[2].config, config);
    assert_eq!(tables[2].vacancy, Some(Vacancy { down: 20, up: 80, now: 100 }));
}

#[test]
fn a_full_table_evicts_by_importance_then_lifetime() {
    use openflow::{TableMod, table};
    let mut bed = Bed::new(1);
    let entry = |port: u32, importance: u16, hard_timeout: u16| {
        let matching = from_port(port);
        let flags = FlowModFlags::SEND_FLOW_REM;
        let flow = add(matching, apply([]));
        Request(V15, Message::FlowMod(FlowMod { importance, hard_timeout, flags, ..flow }))
    };
    for port in 1..=100 {
        let timeout = if port == 40 { 600 } else { 0 };
        bed.ok(entry(port, if (30..50).contains(&port) { 2 } else { 5 }, timeout));
    }
    assert_eq!(bed.refused(entry(101, 9, 0)), ErrorCode::FmfcTableFull, "not without leave");
    let config = table::TABLE_EVICTION;
    let leave = TableMod { table_id: TableId(0), config, eviction: None, vacancy: None };
    bed.ok(Request(Version::V14, Message::TableMod(leave)));
    //= openflow-1.4.1 §7.3.3: a full table makes room by eviction, told with its reason.
    assert_eq!(bed.refused(entry(101, 1, 0)), ErrorCode::FmfcTableFull, "all are worth more");
    let gone = |bed: &mut Bed| {
        let removed = bed.event(|event| match event {
            Event::FlowRemoved(removed) => Some(removed.clone()),
            _ => None,
        });
        assert_eq!(removed.reason, FlowRemovedReason::Eviction);
        removed.matching
    };
    // The one that would expire, then the oldest.
    for (new, old) in [(101, 40), (102, 30), (103, 31)] {
        bed.ok(entry(new, 9, 0));
        assert_eq!(gone(&mut bed), from_port(old));
        assert_eq!(bed.flows(TableId(0)).len(), 100);
    }
    // A replacement needs no room.
    bed.ok(entry(50, 0, 0));
    assert_eq!(bed.flows(TableId(0)).len(), 100);
}

#[test]
fn vacancy_events_come_in_turn() {
    use openflow::{TableMod, TableReason, Vacancy, table};
    let mut bed = Bed::new(1);
    let vacancy = Some(Vacancy { down: 20, up: 60, now: 0 });
    let config = table::TABLE_VACANCY_EVENTS;
    let request = TableMod { table_id: TableId(0), config, eviction: None, vacancy };
    bed.ok(Request(Version::V14, Message::TableMod(request)));
    let told = |bed: &mut Bed| -> Vec<(TableReason, u8)> {
        let events = bed.agent.poll();
        let status = events.iter().filter_map(|event| match event {
            Event::TableStatus(s) => Some((s.reason, s.desc.vacancy.map_or(255, |v| v.now))),
            _ => None,
        });
        status.collect()
    };
    let flow = |port: u32| add(from_port(port), apply([]));
    //= openflow-1.4.1 §7.3.3: down below the lower threshold, then up above the upper one.
    let mut all = Vec::new();
    for port in 1..=90 {
        bed.ok(flow(port));
        all.extend(told(&mut bed));
    }
    assert_eq!(all, [(TableReason::VacancyDown, 19)]);
    all.clear();
    for round in 0..2 {
        for port in (1..=90).rev() {
            let delete = FlowMod { command: FlowModCommand::DeleteStrict, ..flow(port) };
            bed.ok(delete);
            all.extend(told(&mut bed));
        }
        assert_eq!(all, [(TableReason::VacancyUp, 61)][round..], "told once");
        all.clear();
    }
}

#[test]
fn registers_and_tables_of_1_0_by_extensions() {
    // What `ovs-ofctl` says by default: 1.0 with NXM and table numbers.
    let mut bed = Bed::new(2);
    let extended = |table: u8, matching: Match, actions: Vec<Action>| FlowMod {
        extended: true,
        table_id: TableId(table),
        ..v10(add(matching, apply(actions)))
    };
    let sub = |field, offset| Subfield { field, offset };
    let resubmit =
        |table| Action::Resubmit { in_port: PortNo::IN_PORT, table: TableId(table), ct: false };
    let load = Action::SetField(SetField { field: FieldId::Reg1, value: 0x70, mask: Some(0xf0) });
    let first = FlowMod {
        table_id: TableId(0),
        ..extended(0, Match::new(), vec![load, Action::Note(vec![1; 6]), resubmit(1)])
    };
    bed.ok(first);
    let moved = Action::CopyField(CopyField {
        bits: 8,
        from: sub(FieldId::Reg1, 0),
        to: sub(FieldId::EthDst, 0),
    });
    let in_1 = Match::new().with_masked(FieldId::Reg1, 0x70, 0xf0);
    bed.ok(FlowMod { table_id: TableId(1), ..extended(1, in_1, vec![moved, output(2)]) });
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(2), frame(0x70, 2));
    // A resubmit to a table that is not there is refused.
    let request =
        FlowMod { table_id: TableId(0), ..extended(0, from_port(9), vec![resubmit(200)]) };
    assert_eq!(bed.refused(request), ErrorCode::BacBadArgument);
    // A delete of all tables by cookie, which 1.0 alone has not.
    let all = FlowMod {
        extended: true,
        cookie: 5,
        cookie_mask: u64::MAX,
        ..v10(with_command(FlowModCommand::Delete, add(Match::new(), Instructions::new())))
    };
    bed.ok(all.clone());
    assert_eq!(bed.flows(TableId::ALL).len(), 2);
    bed.ok(FlowMod { cookie: 0, ..all });
    assert!(bed.flows(TableId::ALL).is_empty());
}
