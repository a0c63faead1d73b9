//! 1.0's emergency entries.

use super::bed::*;
use crate::emergency::EMERGENCY_MAX;
use openflow::{
    AggregateStats, ErrorCode, FieldId, FlowMod, FlowModCommand, FlowModFlags, FlowStats,
    FlowStatsRequest, Match, MultipartReplyBody, MultipartRequestBody, PortNo, TableId,
};

/// The same as an emergency entry.
fn emergency(request: FlowMod) -> FlowMod {
    FlowMod { flags: request.flags | FlowModFlags::EMERG, ..v10(request) }
}

fn asked(table_id: TableId) -> FlowStatsRequest {
    FlowStatsRequest { table_id, ..FlowStatsRequest::all() }
}

/// What 1.0 is told of a table.
fn told(bed: &mut Bed, table_id: TableId) -> Vec<FlowStats> {
    let parts = bed.ask(V10, MultipartRequestBody::Flow(asked(table_id)));
    let [MultipartReplyBody::Flow(flows)] = &parts[..] else { panic!("{parts:?}") };
    flows.clone()
}

#[test]
fn emergency_entries_take_the_place_of_all_others_when_controllers_are_lost() {
    let mut bed = Bed::new(3);
    bed.ok(add(from_port(1), apply([output(2)])));
    bed.ok(FlowMod { table_id: TableId(3), ..add(Match::new(), apply([output(2)])) });
    // Nobody's loss changes anything while there are none.
    bed.agent.lost_controllers();
    assert_eq!(bed.flows(TableId::ALL).len(), 2);

    let flags = FlowModFlags::SEND_FLOW_REM | FlowModFlags::CHECK_OVERLAP;
    bed.ok(emergency(FlowMod { flags, cookie: 7, ..add(from_port(1), apply([output(3)])) }));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    bed.silent(3);
    let listed = told(&mut bed, TableId::EMERGENCY);
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].table_id, listed[0].cookie), (TableId::EMERGENCY, 7));
    assert_eq!((listed[0].packet_count, &listed[0].matching), (0, &from_port(1)));
    assert_eq!(told(&mut bed, TableId(0)).len(), 1, "the first table's own");
    let sums = bed.ask(V10, MultipartRequestBody::Aggregate(asked(TableId::EMERGENCY)));
    let one = AggregateStats { flow_count: 1, ..AggregateStats::default() };
    assert_eq!(sums, [MultipartReplyBody::Aggregate(one)]);

    //= openflow-1.0.2 §4.3: in emergency mode the emergency entries decide, and all others are gone.
    bed.agent.lost_controllers();
    bed.send(1, &frame(1, 2));
    bed.receive(3);
    bed.silent(2);
    let now = bed.flows(TableId::ALL);
    assert_eq!(now.len(), 1);
    assert_eq!((now[0].table_id, now[0].cookie, now[0].packet_count), (TableId(0), 7, 1));

    // They stay as entries like others, and are kept for the next time.
    bed.ok(add(from_port(2), apply([output(1)])));
    bed.ok(delete(from_port(1)));
    //= openflow-1.0.2 §4.6: a deleted emergency entry tells nothing.
    bed.no_event();
    assert_eq!(told(&mut bed, TableId::EMERGENCY).len(), 1);
    bed.agent.lost_controllers();
    bed.send(1, &frame(1, 2));
    bed.receive(3);
    assert_eq!(bed.flows(TableId::ALL).len(), 1);
    bed.ok(emergency(delete(Match::new())));
    bed.ok(delete(Match::new()));
    bed.no_event();
    bed.ok(add(from_port(2), apply([output(1)])));
    bed.agent.lost_controllers();
    assert_eq!(bed.flows(TableId::ALL).len(), 1);
}

#[test]
fn emergency_entries_are_added_changed_and_deleted_by_themselves() {
    let mut bed = Bed::new(3);
    let at = |priority, request| FlowMod { priority, ..request };
    let to = |from: u32, port: u32| add(from_port(from), apply([output(port)]));
    bed.ok(add(from_port(1), apply([])));
    bed.ok(emergency(at(1, to(1, 2))));
    bed.ok(emergency(at(2, to(1, 2))));
    // An equal one takes the place, and a modify that finds nothing adds.
    bed.ok(emergency(FlowMod { cookie: 5, ..at(2, to(1, 3)) }));
    bed.ok(emergency(with_command(FlowModCommand::Modify, at(3, to(2, 1)))));
    let all = |bed: &mut Bed| -> Vec<_> {
        let flows = told(bed, TableId::EMERGENCY).into_iter();
        flows.map(|f| (f.priority, f.cookie, f.instructions)).collect()
    };
    let (two, three, one) = (apply([output(2)]), apply([output(3)]), apply([output(1)]));
    assert_eq!(all(&mut bed), [(1, 0, two.clone()), (2, 5, three), (3, 0, one.clone())]);
    let modify = FlowMod { cookie: 6, ..at(1, to(1, 1)) };
    bed.ok(emergency(with_command(FlowModCommand::ModifyStrict, modify)));
    assert_eq!(all(&mut bed)[0], (1, 6, one.clone()));
    let modify = with_command(FlowModCommand::Modify, add(Match::new(), two.clone()));
    bed.ok(emergency(modify));
    assert!(all(&mut bed).iter().all(|(_, _, does)| *does == two));
    bed.ok(emergency(with_command(FlowModCommand::DeleteStrict, at(2, to(1, 1)))));
    assert_eq!(all(&mut bed).len(), 2);
    let outputs = |port| FlowMod { out_port: PortNo(port), ..delete(Match::new()) };
    bed.ok(emergency(outputs(3)));
    assert_eq!(all(&mut bed).len(), 2);
    // Without the flag, it is about other entries.
    bed.ok(v10(delete(Match::new())));
    assert_eq!((all(&mut bed).len(), bed.flows(TableId::ALL).len()), (2, 0));
    bed.ok(emergency(outputs(2)));
    assert_eq!(all(&mut bed).len(), 0);

    let overlap = FlowModFlags::CHECK_OVERLAP;
    bed.ok(emergency(at(1, to(1, 2))));
    let cases = [
        (FlowMod { idle_timeout: 1, ..to(1, 2) }, ErrorCode::FmfcBadTimeout),
        (FlowMod { hard_timeout: 1, ..to(1, 2) }, ErrorCode::FmfcBadTimeout),
        (
            FlowMod { buffer_id: Some(openflow::BufferId(1)), ..to(1, 2) },
            ErrorCode::BrcBufferUnknown,
        ),
        (to(1, 0), ErrorCode::BacBadOutPort),
        (FlowMod { flags: overlap, ..at(1, add(Match::new(), two)) }, ErrorCode::FmfcOverlap),
        (add(Match::new().with(FieldId::TcpDst, 1), apply([])), ErrorCode::BmcBadPrereq),
    ];
    for (request, code) in cases {
        assert_eq!(bed.refused(emergency(request.clone())), code, "{request:?}");
        assert_eq!(all(&mut bed).len(), 1);
    }
    // The first table of this bed holds 100.
    for port in 2..=100 {
        bed.ok(emergency(to(port, 1)));
    }
    const { assert!(EMERGENCY_MAX > 100) };
    assert_eq!(bed.refused(emergency(to(101, 1))), ErrorCode::FmfcTableFull);
    bed.ok(emergency(to(100, 2)));
    bed.agent.lost_controllers();
    assert_eq!(bed.flows(TableId::ALL).len(), 100);
}
