//! Flow-mods by the text of 1.3.5 §6.4 and 1.0.2 §4.6, case by case.

use super::bed::*;
use openflow::{
    Action, BufferId, ErrorCode, FieldId, FlowMod, FlowModCommand, FlowModFlags, FlowRemovedReason,
    FlowStatsRequest, GroupId, Instruction, Instructions, Match, PortNo, TableId,
};
use std::time::Duration;

fn ip_src(address: u32, mask: u32) -> Match {
    Match::new().with(FieldId::EthType, 0x0800).with_masked(
        FieldId::Ipv4Src,
        address.into(),
        mask.into(),
    )
}

#[test]
fn an_equal_entry_is_replaced_and_its_counters_stay() {
    let mut bed = Bed::new(2);
    let first = FlowMod { cookie: 1, ..add(from_port(1), apply([output(2)])) };
    bed.ok(first.clone());
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    let second = FlowMod { cookie: 2, ..add(from_port(1), apply([])) };
    bed.ok(second.clone());
    let flows = bed.flows(TableId(0));
    assert_eq!(flows.len(), 1);
    assert_eq!((flows[0].cookie, flows[0].packet_count), (2, 1));
    assert_eq!(flows[0].instructions, apply([]));
    // With timeouts, which begin anew, and with RESET_COUNTS.
    bed.ok(FlowMod { idle_timeout: 9, ..first.clone() });
    let flows = bed.flows(TableId(0));
    assert_eq!((flows[0].packet_count, flows[0].idle_timeout), (1, 9));
    bed.ok(FlowMod { flags: FlowModFlags::RESET_COUNTS, ..second });
    assert_eq!(bed.flows(TableId(0))[0].packet_count, 0);
    // Another priority is another entry; another match, too.
    bed.ok(FlowMod { priority: 7, ..first.clone() });
    bed.ok(FlowMod { matching: from_port(2), ..first });
    assert_eq!(bed.flows(TableId(0)).len(), 3);
    assert_eq!(bed.agent.poll(), [], "replacing tells nobody");
}

#[test]
fn in_1_0_the_counters_of_a_replaced_entry_go() {
    let mut bed = Bed::new(2);
    let request = v10(add(from_port(1), apply([output(2)])));
    bed.ok(request.clone());
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    assert_eq!(bed.flows(TableId(0))[0].packet_count, 1);
    bed.ok(request);
    assert_eq!(bed.flows(TableId(0))[0].packet_count, 0);
}

#[test]
fn overlap_is_checked_when_asked_for() {
    // (existing, its priority, new, its priority, refused)
    let net = || ip_src(0x0a00_0000, 0xff00_0000);
    let host = || ip_src(0x0a01_0203, u32::MAX);
    let other = || ip_src(0x0b00_0000, 0xff00_0000);
    let cases = [
        (net(), 5, host(), 5, true),
        (host(), 5, net(), 5, true),
        (net(), 5, host(), 6, false),
        (net(), 5, other(), 5, false),
        (net(), 5, from_port(1), 5, true),
        (net(), 5, net(), 5, true),
        (net(), 5, Match::new(), 5, true),
    ];
    for (there, its, new, priority, refused) in cases {
        let mut bed = Bed::new(0);
        bed.ok(FlowMod { priority: its, ..add(there.clone(), apply([])) });
        let flags = FlowModFlags::CHECK_OVERLAP;
        let request = FlowMod { priority, flags, ..add(new.clone(), apply([])) };
        let unchecked = FlowMod { flags: FlowModFlags::empty(), ..request.clone() };
        if refused {
            assert_eq!(bed.refused(request), ErrorCode::FmfcOverlap, "{there:?} {new:?}");
            bed.ok(unchecked);
        } else {
            bed.ok(request);
        }
    }
}

#[test]
fn modify_changes_instructions_and_nothing_else() {
    let mut bed = Bed::new(2);
    for port in [1, 2] {
        bed.ok(FlowMod {
            cookie: 0x10 + u64::from(port),
            idle_timeout: 60,
            flags: FlowModFlags::SEND_FLOW_REM,
            ..add(from_port(port).with(FieldId::EthType, 0x88b5), apply([output(2)]))
        });
    }
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    let modify = |request| with_command(FlowModCommand::Modify, request);
    let drop = || add(from_port(1), apply([]));
    bed.ok(modify(FlowMod { cookie: 9, idle_timeout: 1, ..drop() }));
    let flows = bed.flows(TableId(0));
    let of = |port: u32| {
        let is = |f: &&openflow::FlowStats| f.matching.exact(FieldId::InPort) == Some(port.into());
        flows.iter().find(is).unwrap()
    };
    assert_eq!(of(1).instructions, apply([]));
    assert_eq!((of(1).cookie, of(1).idle_timeout, of(1).packet_count), (0x11, 60, 1));
    assert_eq!(of(1).flags, FlowModFlags::SEND_FLOW_REM);
    assert_eq!(of(2).instructions, apply([output(2)]));
    // Strict: the match must be the same.
    let strict = |request| with_command(FlowModCommand::ModifyStrict, request);
    bed.ok(strict(add(from_port(2), apply([]))));
    bed.ok(strict(FlowMod {
        priority: 1,
        ..add(from_port(2).with(FieldId::EthType, 0x88b5), apply([]))
    }));
    assert_eq!(bed.flows(TableId(0)).len(), 2, "a modify adds nothing in 1.3");
    assert!(bed.flows(TableId(0)).iter().any(|f| f.instructions == apply([output(2)])));
    bed.ok(strict(add(from_port(2).with(FieldId::EthType, 0x88b5), apply([output(1)]))));
    assert!(bed.flows(TableId(0)).iter().any(|f| f.instructions == apply([output(1)])));
    // The cookie filters, and counters go when asked.
    bed.ok(modify(FlowMod { cookie: 0x12, cookie_mask: 0xff, ..add(Match::new(), apply([])) }));
    bed.ok(modify(FlowMod {
        flags: FlowModFlags::RESET_COUNTS,
        cookie: 0x11,
        cookie_mask: u64::MAX,
        ..add(Match::new(), apply([output(1)]))
    }));
    let flows = bed.flows(TableId(0));
    let of = |cookie| flows.iter().find(|f| f.cookie == cookie).unwrap();
    assert_eq!((&of(0x11).instructions, of(0x11).packet_count), (&apply([output(1)]), 0));
    assert_eq!(of(0x12).instructions, apply([]));
}

#[test]
fn in_1_0_a_modify_adds_and_sets_the_cookie() {
    for command in [FlowModCommand::Modify, FlowModCommand::ModifyStrict] {
        let mut bed = Bed::new(2);
        let request = FlowMod { cookie: 5, ..v10(add(from_port(1), apply([output(2)]))) };
        bed.ok(with_command(command, request.clone()));
        assert_eq!(bed.flows(TableId(0)).len(), 1);
        bed.ok(with_command(command, FlowMod { cookie: 6, ..request }));
        let flows = bed.flows(TableId(0));
        assert_eq!((flows.len(), flows[0].cookie), (1, 6));
    }
}

#[test]
fn delete_filters() {
    let group = |id| GroupId(id);
    let fill = |bed: &mut Bed| {
        let add_group = openflow::GroupMod {
            command_bucket: openflow::BucketId::ALL,
            selection: None,
            command: openflow::GroupModCommand::Add,
            group_type: openflow::GroupType::All,
            group_id: GroupId(3),
            buckets: vec![],
        };
        bed.ok(add_group);
        let in_table = |table: u8, request| FlowMod { table_id: TableId(table), ..request };
        bed.ok(FlowMod { cookie: 0x11, ..add(from_port(1), apply([output(2)])) });
        bed.ok(FlowMod { cookie: 0x12, ..add(ip_src(0x0a010203, u32::MAX), apply([output(1)])) });
        bed.ok(FlowMod { cookie: 0x22, ..add(Match::new(), apply([Action::Group(GroupId(3))])) });
        let write = Instruction::WriteActions(vec![output(2)]);
        bed.ok(in_table(1, add(from_port(1), Instructions::from_iter([write]))));
    };
    let any = || delete(Match::new());
    let strict = |request: FlowMod| FlowMod {
        command: FlowModCommand::DeleteStrict,
        table_id: TableId(0),
        ..request
    };
    // What is deleted, and how many entries of the four are left.
    let cases: Vec<(FlowMod, usize)> = vec![
        (any(), 0),
        (FlowMod { table_id: TableId(0), ..any() }, 1),
        (FlowMod { table_id: TableId(2), ..any() }, 4),
        (FlowMod { cookie: 0x10, cookie_mask: 0xf0, ..any() }, 2),
        (FlowMod { cookie: 0x99, cookie_mask: 0, ..any() }, 0),
        (FlowMod { out_port: PortNo(2), ..any() }, 2),
        (FlowMod { out_port: PortNo(2), table_id: TableId(0), ..any() }, 3),
        (FlowMod { out_port: PortNo(9), ..any() }, 4),
        (FlowMod { out_group: group(3), ..any() }, 3),
        (FlowMod { out_group: group(3), out_port: PortNo(1), ..any() }, 4),
        (delete(from_port(1)), 2),
        (delete(from_port(2)), 4),
        (delete(ip_src(0x0a000000, 0xff00_0000)), 3),
        (delete(ip_src(0x0b000000, 0xff00_0000)), 4),
        (strict(delete(from_port(1))), 3),
        (strict(FlowMod { table_id: TableId::ALL, ..strict(delete(from_port(1))) }), 3),
        (strict(FlowMod { priority: 1, ..delete(from_port(1)) }), 4),
        (strict(delete(Match::new())), 3),
        (strict(delete(ip_src(0x0a000000, 0xff00_0000))), 4),
        (strict(FlowMod { out_port: PortNo(1), ..delete(from_port(1)) }), 4),
        (v10(any()), 0),
        (FlowMod { out_port: PortNo(2), ..v10(any()) }, 2),
        // In 1.0 the cookie is not a filter.
        (FlowMod { cookie: 0x99, cookie_mask: u64::MAX, ..v10(any()) }, 0),
    ];
    for (request, left) in cases {
        let mut bed = Bed::new(2);
        fill(&mut bed);
        bed.ok(request.clone());
        assert_eq!(bed.flows(TableId::ALL).len(), left, "{request:?}");
        // And the switch agrees.
        let in_switch: usize = bed
            .agent
            .switch()
            .with_pipeline(|p| (0..8).map(|t| p.entries(ir::TableId(t)).len()).sum());
        assert_eq!(in_switch, left);
    }
}

#[test]
fn strict_deletes_reach_all_tables() {
    let mut bed = Bed::new(1);
    for table in [0, 3, 7] {
        bed.ok(FlowMod { table_id: TableId(table), ..add(from_port(1), apply([])) });
    }
    bed.ok(with_command(FlowModCommand::DeleteStrict, delete(from_port(1))));
    assert_eq!(bed.flows(TableId::ALL), []);
}

#[test]
fn statistics_filter_alike() {
    let mut bed = Bed::new(2);
    bed.ok(FlowMod { cookie: 0x11, ..add(from_port(1), apply([output(2)])) });
    bed.ok(FlowMod { table_id: TableId(1), ..add(Match::new(), apply([output(1)])) });
    let mut count = |request| bed.flows_by(request).len();
    let all = FlowStatsRequest::all;
    assert_eq!(count(all()), 2);
    assert_eq!(count(FlowStatsRequest { table_id: TableId(1), ..all() }), 1);
    assert_eq!(count(FlowStatsRequest { out_port: PortNo(2), ..all() }), 1);
    assert_eq!(count(FlowStatsRequest { cookie: 1, cookie_mask: 1, ..all() }), 1);
    assert_eq!(count(FlowStatsRequest { cookie: 2, cookie_mask: 2, ..all() }), 0);
    assert_eq!(count(FlowStatsRequest { matching: from_port(1), ..all() }), 1);
    let bad = FlowStatsRequest { table_id: TableId(8), ..all() };
    let request = openflow::MultipartRequestBody::Flow(bad);
    assert_eq!(bed.refused(request), ErrorCode::BrcBadTableId);
}

#[test]
fn refused_flow_mods_have_the_codes_of_the_specification() {
    let mut bed = Bed::new(2);
    let plain = || add(from_port(1), apply([output(2)]));
    let table = |id| FlowMod { table_id: TableId(id), ..plain() };
    let with = |instruction| add(from_port(1), Instructions::from_iter([instruction]));
    let goto = |from: u8, to: u8| FlowMod {
        table_id: TableId(from),
        ..with(Instruction::GotoTable(TableId(to)))
    };
    let emergency = FlowModFlags::EMERG;
    let unknown_meter = Instruction::Meter(openflow::MeterId(1));
    let cases = [
        (table(8), ErrorCode::FmfcBadTableId),
        (table(0xff), ErrorCode::FmfcBadTableId),
        (with_command(FlowModCommand::Modify, table(0xff)), ErrorCode::FmfcBadTableId),
        (with_command(FlowModCommand::Delete, table(9)), ErrorCode::FmfcBadTableId),
        (FlowMod { buffer_id: Some(BufferId(0)), ..plain() }, ErrorCode::BrcBufferUnknown),
        //= openflow-1.3.5 §7.3.4.1: the cookie of all ones is reserved.
        (FlowMod { cookie: u64::MAX, ..plain() }, ErrorCode::FmfcUnknown),
        (goto(0, 0), ErrorCode::BicBadTableId),
        (goto(3, 2), ErrorCode::BicBadTableId),
        (goto(0, 8), ErrorCode::BicBadTableId),
        (with(unknown_meter), ErrorCode::MmfcUnknownMeter),
        (FlowMod { flags: emergency, idle_timeout: 1, ..v10(plain()) }, ErrorCode::FmfcBadTimeout),
        (add(Match::new().with(FieldId::TcpDst, 1), apply([])), ErrorCode::BmcBadPrereq),
    ];
    for (request, code) in cases {
        assert_eq!(bed.refused(request.clone()), code, "{request:?}");
    }
    bed.ok(goto(0, 7));
    // A delete takes no heed of a buffer.
    bed.ok(FlowMod { buffer_id: Some(BufferId(7)), ..delete(Match::new()) });
}

#[test]
fn what_1_0_said_and_does_not_count_is_told_back() {
    let mut bed = Bed::new(1);
    let icmp = Match::new()
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::IpProto, 1)
        .with(FieldId::Icmpv4Type, 8);
    let uncounted = openflow::Uncounted { priority: Some(7), icmp: [0xda, 0] };
    let flags = FlowModFlags::SEND_FLOW_REM;
    let request = FlowMod { priority: u16::MAX, uncounted, flags, ..v10(add(icmp, apply([]))) };
    bed.ok(request.clone());
    assert_eq!(bed.flows(TableId(0))[0].uncounted, uncounted);
    // It is no part of what an entry is found by, and stays when that is changed.
    let other = FlowMod { uncounted: Default::default(), ..request };
    bed.ok(with_command(FlowModCommand::ModifyStrict, other.clone()));
    assert_eq!(bed.flows(TableId(0))[0].uncounted, uncounted);
    bed.ok(with_command(FlowModCommand::DeleteStrict, other.clone()));
    let told = bed.event(|event| match event {
        crate::Event::FlowRemoved(removed) => Some(removed.uncounted),
        _ => None,
    });
    assert_eq!(told, uncounted);
}

#[test]
fn a_full_table_refuses_new_entries_and_still_replaces() {
    let mut bed = Bed::new(1);
    for port in 1..=100 {
        bed.ok(add(from_port(port), apply([])));
    }
    assert_eq!(bed.refused(add(from_port(101), apply([]))), ErrorCode::FmfcTableFull);
    bed.ok(add(from_port(100), apply([output(1)])));
    bed.ok(FlowMod { table_id: TableId(1), ..add(from_port(101), apply([])) });
    bed.ok(with_command(FlowModCommand::Delete, add(from_port(5), apply([]))));
    bed.ok(add(from_port(101), apply([])));
}

#[test]
fn removal_is_told_with_reason_and_counts() {
    let mut bed = Bed::new(2);
    let told = FlowModFlags::SEND_FLOW_REM;
    let request =
        FlowMod { cookie: 7, flags: told, priority: 9, ..add(from_port(1), apply([output(2)])) };
    bed.ok(request);
    bed.ok(add(from_port(2), apply([])));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    bed.ok(delete(Match::new()));
    let events = bed.agent.poll();
    let [crate::Event::FlowRemoved(removed)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((removed.cookie, removed.priority), (7, 9));
    assert_eq!((removed.packet_count, removed.byte_count), (1, 60));
    assert_eq!(removed.reason, FlowRemovedReason::Delete);
    assert_eq!(removed.matching, from_port(1));
}

#[test]
fn timeouts_remove_entries() {
    let mut bed = Bed::new(2);
    let told = FlowModFlags::SEND_FLOW_REM | FlowModFlags::NO_BYT_COUNTS;
    let timed = |idle_timeout, hard_timeout, port| FlowMod {
        idle_timeout,
        hard_timeout,
        flags: told,
        ..add(from_port(port), apply([output(2)]))
    };
    bed.ok(timed(0, 1, 1));
    bed.ok(timed(1, 0, 2));
    bed.ok(timed(30, 30, 3));
    let mut reasons = Vec::new();
    let until = std::time::Instant::now() + Duration::from_secs(8);
    while reasons.len() < 2 {
        assert!(std::time::Instant::now() < until, "they stay: {reasons:?}");
        for event in bed.agent.poll() {
            let crate::Event::FlowRemoved(removed) = event else { continue };
            assert!(removed.age.sec >= 1);
            assert_eq!((removed.packet_count, removed.byte_count), (0, u64::MAX));
            reasons.push((removed.matching.exact(FieldId::InPort), removed.reason));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    reasons.sort_by_key(|(port, _)| *port);
    assert_eq!(
        reasons,
        [(Some(1), FlowRemovedReason::HardTimeout), (Some(2), FlowRemovedReason::IdleTimeout)]
    );
    assert_eq!(bed.flows(TableId::ALL).len(), 1);
}

#[test]
fn in_1_0_a_failed_modify_adds_nothing() {
    let mut bed = Bed::new(1);
    let bad = v10(add(from_port(1), apply([output(0)])));
    assert_eq!(bed.refused(with_command(FlowModCommand::Modify, bad)), ErrorCode::BacBadOutPort);
    assert_eq!(bed.flows(TableId::ALL), []);
}

//= openflow-1.3.5 §7.3.5.3: sums over the entries that a flow request would list.
#[test]
fn aggregates_are_sums() {
    use openflow::{MultipartReplyBody, MultipartRequestBody};
    let mut bed = Bed::new(2);
    bed.ok(add(from_port(1), apply([output(2)])));
    bed.ok(FlowMod { priority: 1, ..add(from_port(2), apply([output(1)])) });
    bed.ok(FlowMod { table_id: TableId(1), ..add(Match::new(), apply([])) });
    for (from, to) in [(1, 2), (1, 2), (2, 1)] {
        bed.send(from, &frame(1, 2));
        bed.receive(to);
    }
    let mut sums = |request| {
        let parts = bed.ask(V13, MultipartRequestBody::Aggregate(request));
        let [MultipartReplyBody::Aggregate(sums)] = &parts[..] else { panic!("{parts:?}") };
        (sums.flow_count, sums.packet_count, sums.byte_count)
    };
    let all = FlowStatsRequest::all;
    assert_eq!(sums(all()), (3, 3, 180));
    assert_eq!(sums(FlowStatsRequest { matching: from_port(1), ..all() }), (1, 2, 120));
    assert_eq!(sums(FlowStatsRequest { out_port: PortNo(9), ..all() }), (0, 0, 0));
}
