//! Egress tables on real packets, and what may be set of tables.

use super::bed::*;
use openflow::syntax::{Context, parse_flow, parse_group};
use openflow::{
    Action, ActionType, ErrorCode, FieldId, FlowMod, FlowModCommand, Instruction, InstructionType,
    Message, MultipartReplyBody, MultipartRequest, MultipartRequestBody, OxmHeader, PacketOut,
    PortNo, TableFeatures, TableId, TableMod, TableProperty, Version,
};
use switch::EngineKind;

const V15: Version = Version::V15;
const V14: Version = Version::V14;

const REPLACE: u8 = 0;
const MODIFY: u8 = 1;
const ENABLE: u8 = 2;
const DISABLE: u8 = 3;
/// `OFPTFF_FIRST_EGRESS`.
const FIRST: u32 = 1 << 4;

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V15));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn features(bed: &mut Bed, version: Version) -> Vec<TableFeatures> {
    let parts = bed.ask(version, MultipartRequestBody::TableFeatures(vec![]));
    let tables = parts.into_iter().flat_map(|part| match part {
        MultipartReplyBody::TableFeatures(tables) => tables,
        other => panic!("{other:?}"),
    });
    tables.collect()
}

/// Features with nothing but a number, flags and a size.
fn table(id: u8, command: u8, flags: u32) -> TableFeatures {
    TableFeatures {
        table_id: TableId(id),
        command,
        features: flags,
        max_entries: 100,
        ..TableFeatures::default()
    }
}

fn request(version: Version, tables: Vec<TableFeatures>) -> Request {
    let body = MultipartRequestBody::TableFeatures(tables);
    Request(version, Message::MultipartRequest(MultipartRequest { more: false, body }))
}

fn set(bed: &mut Bed, version: Version, tables: Vec<TableFeatures>) {
    bed.ok(request(version, tables));
}

fn first_egress(bed: &mut Bed, id: u8) {
    set(bed, V15, vec![table(id, MODIFY, 3 | FIRST)]);
}

/// A switch of four ports with these flows, and egress tables from table 5 on.
fn with(engine: EngineKind, flows: &[&str]) -> Bed {
    let mut bed = Bed::by(engine, program(), 4);
    first_egress(&mut bed, 5);
    flows.iter().for_each(|line| drop(bed.ok(flow(line))));
    bed
}

fn engines() -> [EngineKind; 2] {
    [EngineKind::Interp, EngineKind::default()]
}

//= openflow-1.5.1 §5.1: an output begins egress processing in the first egress table.
#[test]
fn egress_tables_process_what_is_output() {
    for engine in engines() {
        let mut bed = with(
            engine,
            &[
                "in_port=1 actions=output:2,output:3,output:4",
                "in_port=2 actions=IN_PORT",
                // By port; the set's output goes where it was meant to.
                "table=5,actset_output=2 actions=set_field:00:00:00:00:00:0a->eth_src,goto_table:6",
                "table=5,actset_output=3,in_port=1 actions=clear_actions",
                "table=6 actions=write_actions(set_field:00:00:00:00:00:0b->eth_dst)",
            ],
        );
        for _ in 0..2 {
            bed.send(1, &frame(1, 2));
            // What one port's processing changes is not seen by the next one's; a miss drops.
            assert_eq!(bed.receive(2), frame(0xb, 0xa));
            bed.silent(3);
            bed.silent(4);
        }
        bed.ok(flow("table=5,actset_output=4 actions=drop"));
        bed.send(1, &frame(1, 2));
        assert_eq!(bed.receive(2), frame(0xb, 0xa));
        // An entry that changes nothing lets the packet go.
        assert_eq!(bed.receive(4), frame(1, 2));
        // The ingress port is one that a packet may leave by.
        bed.send(2, &frame(1, 2));
        assert_eq!(bed.receive(2), frame(0xb, 0xa));
        // A packet that enters by the controller's hand goes the same way.
        let packet = PacketOut {
            buffer_id: None,
            in_port: PortNo(1),
            pipeline: Default::default(),
            actions: vec![output(2), output(3)],
            data: frame(1, 2),
        };
        bed.ok(Request(V15, Message::PacketOut(packet)));
        assert_eq!(bed.receive(2), frame(0xb, 0xa));
        bed.silent(3);
        // Without egress tables outputs go straight to their ports, and entries of ingress tables stay.
        set(&mut bed, V15, vec![table(5, MODIFY, 3)]);
        bed.send(1, &frame(1, 2));
        for port in 2..=4 {
            assert_eq!(bed.receive(port), frame(1, 2));
        }
    }
}

//= openflow-1.5.1 §5.12: so do outputs of action sets, groups, ALL and NORMAL, one port at a time.
#[test]
fn every_output_is_processed_for_its_port() {
    for engine in engines() {
        let mut bed = with(engine, &[]);
        let group = parse_group(
            "group_id=1,type=all,bucket=actions=output:2,bucket=actions=output:3",
            &Context::new(V15),
        );
        bed.ok(Request(V15, Message::GroupMod(group.unwrap())));
        for port in 1..=4 {
            let source = format!("00:00:00:00:00:1{port}");
            bed.ok(flow(&format!(
                "table=5,actset_output={port} actions=set_field:{source}->eth_src"
            )));
        }
        let through = |port: u64| frame(1, 0x10 + port);
        let cases: [(&str, &[u64]); 7] = [
            ("in_port=1 actions=write_actions(output:3)", &[3]),
            ("in_port=1 actions=write_actions(group:1)", &[2, 3]),
            ("in_port=1 actions=group:1,output:4", &[2, 3, 4]),
            ("in_port=1 actions=ALL", &[2, 3, 4]),
            ("in_port=1 actions=NORMAL", &[2, 3, 4]),
            ("in_port=1 actions=write_actions(output:IN_PORT)", &[1]),
            ("in_port=1 actions=output:1,output:2", &[2]),
        ];
        for (line, ports) in cases {
            bed.ok(flow(line));
            bed.send(1, &frame(1, 2));
            for port in 1..=4 {
                match ports.contains(&port) {
                    true => assert_eq!(bed.receive(port as usize), through(port), "{line}"),
                    false => bed.silent(port as usize),
                }
            }
        }
    }
}

//= openflow-1.5.1 §5.12: outputs of egress tables' entries are processed for their ports, but not for
//= ever.
#[test]
fn a_mirror_in_an_egress_table_does_not_mirror_itself() {
    for engine in engines() {
        let bed = with(
            engine,
            &[
                "in_port=1 actions=output:2,output:3",
                "table=5 actions=output:4,set_field:00:00:00:00:00:0c->eth_src",
            ],
        );
        bed.send(1, &frame(1, 2));
        assert_eq!(bed.receive(2), frame(1, 0xc));
        assert_eq!(bed.receive(3), frame(1, 0xc));
        // One for each output, processed for port 4 like any other.
        assert_eq!([bed.receive(4), bed.receive(4)], [frame(1, 0xc), frame(1, 0xc)]);
        bed.silent(4);
    }
}

//= openflow-1.5.1 §7.2.3.9: the port of the action set's output; OFPP_UNSET without one, and beside a
//= group.
#[test]
fn ingress_tables_match_the_output_of_the_action_set() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), 3);
        let group = parse_group("group_id=1,type=all,bucket=actions=output:2", &Context::new(V15));
        bed.ok(Request(V15, Message::GroupMod(group.unwrap())));
        bed.ok(flow("table=1,actset_output=2 actions=output:3"));
        bed.ok(flow(
            "table=1,actset_output=unset actions=set_field:00:00:00:00:00:0d->eth_src,output:3",
        ));
        let cases = [
            ("in_port=1 actions=write_actions(output:2),goto_table:1", true),
            ("in_port=1 actions=write_actions(output:2,group:1),goto_table:1", false),
            ("in_port=1 actions=goto_table:1", false),
        ];
        for (line, seen) in cases {
            bed.ok(flow(line));
            bed.send(1, &frame(1, 2));
            let source = if seen { 2 } else { 0xd };
            assert_eq!(bed.receive(3), frame(1, source), "{line}");
        }
    }
}

//= openflow-1.5.1 §5.12: entries lead from ingress to ingress and from egress to egress tables, and
//= egress tables' action sets take no output.
#[test]
fn what_would_mix_ingress_and_egress_is_refused() {
    let mut bed =
        with(EngineKind::Interp, &["table=1 actions=goto_table:2", "table=5 actions=goto_table:6"]);
    let cases = [
        ("actions=goto_table:5", ErrorCode::BicBadTableId),
        ("actions=resubmit(,6)", ErrorCode::BicBadTableId),
        ("table=6 actions=resubmit(,1)", ErrorCode::BicBadTableId),
        ("ip actions=ct(table=7)", ErrorCode::BicBadTableId),
        ("table=5 actions=write_actions(output:2)", ErrorCode::BacBadType),
        ("table=7 actions=write_actions(group:1)", ErrorCode::BacBadType),
    ];
    for (line, code) in cases {
        assert_eq!(bed.refused(flow(line)), code, "{line}");
    }
    bed.ok(flow("table=6 actions=resubmit(,7)"));
    bed.ok(flow("table=7 actions=output:2,CONTROLLER"));
    //= openflow-1.5.1 §7.3.5.18: features tell it.
    let tables = features(&mut bed, V15);
    assert_eq!(tables.iter().map(|t| t.features).collect::<Vec<_>>(), [1, 3, 3, 3, 3, 0x13, 3, 3]);
    let next = |table: &TableFeatures| {
        table.properties.iter().find_map(|p| match p {
            TableProperty::NextTables { tables, .. } => Some(tables.clone()),
            _ => None,
        })
    };
    assert_eq!(next(&tables[3]), Some(vec![TableId(4)]));
    assert_eq!(next(&tables[4]), Some(vec![]));
    assert_eq!(next(&tables[5]), Some(vec![TableId(6), TableId(7)]));
    let writes = |table: &TableFeatures, kind| {
        table.properties.iter().any(|p| match p {
            TableProperty::WriteActions { types, .. } => types.contains(&kind),
            _ => false,
        })
    };
    assert!(writes(&tables[4], ActionType::Output) && !writes(&tables[5], ActionType::Output));
    assert!(writes(&tables[4], ActionType::Group) && !writes(&tables[5], ActionType::Group));
    let goto = InstructionType::GotoTable;
    let instructs = |table: &TableFeatures| {
        table.properties.iter().any(|p| match p {
            TableProperty::Instructions { types, .. } => types.contains(&goto),
            _ => false,
        })
    };
    assert!(!instructs(&tables[4]) && instructs(&tables[5]) && !instructs(&tables[7]));
}

//= openflow-1.3.5 §7.3.5.5: entries that the new pipeline has no place for go without a word; others
//= stay, with their counters and timeouts.
#[test]
fn entries_that_do_not_fit_go_and_others_stay() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), 2);
        let all = [
            "in_port=1,send_flow_rem,hard_timeout=1 actions=output:2",
            "in_port=2,send_flow_rem actions=goto_table:4",
            "table=2,send_flow_rem actions=goto_table:3",
            "table=6,send_flow_rem actions=write_actions(output:1)",
            "table=6,send_flow_rem,priority=5 actions=output:1",
        ];
        all.iter().for_each(|line| drop(bed.ok(flow(line))));
        bed.send(1, &frame(1, 2));
        bed.receive(2);
        std::thread::sleep(std::time::Duration::from_millis(600));
        first_egress(&mut bed, 3);
        bed.no_event();
        let left = bed.flows(TableId::ALL);
        let mut places: Vec<_> = left.iter().map(|f| (f.table_id.0, f.priority)).collect();
        places.sort_unstable();
        assert_eq!(places, [(0, 0x8000), (6, 5)]);
        let first = left.iter().find(|f| f.table_id.0 == 0).unwrap();
        assert_eq!((first.packet_count, first.byte_count), (1, 60));
        // Its second began when it was added.
        let age = bed.event(|e| match e {
            crate::Event::FlowRemoved(removed) => Some(removed.age.sec),
            _ => None,
        });
        assert_eq!(age, 1);
    }
}

//= openflow-1.3.5 §5.5: a hard timeout counts from when the entry came, whatever becomes of it and of the
//= tables meanwhile.
#[test]
fn hard_timeouts_count_from_when_the_entry_came() {
    let mut bed = Bed::by(engines()[0].clone(), program(), 2);
    let added = std::time::Instant::now();
    bed.ok(flow("in_port=1,send_flow_rem,hard_timeout=2 actions=output:2"));
    let past = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    for (first, port) in [(3, 1), (5, 2)] {
        past(600);
        first_egress(&mut bed, first);
        let change = flow(&format!("in_port=1 actions=output:{port}"));
        bed.ok(FlowMod { command: FlowModCommand::Modify, ..change });
    }
    let removed = bed.event(|e| match e {
        crate::Event::FlowRemoved(removed) => Some((removed.reason, removed.age.sec)),
        _ => None,
    });
    assert_eq!(removed, (openflow::FlowRemovedReason::HardTimeout, 2));
    // One that began anew would end 3.2 seconds after that.
    assert!(added.elapsed().as_millis() < 3000, "{:?}", added.elapsed());
}

#[test]
fn tables_are_what_a_request_makes_them() {
    let mut bed = Bed::new(2);
    let named = |id, name: &str, max_entries| TableFeatures {
        name: name.to_owned(),
        max_entries,
        ..table(id, MODIFY, 3)
    };
    set(&mut bed, V15, vec![named(1, "acl", 2), named(3, "route", 100)]);
    let told = features(&mut bed, V13);
    let of = |id: usize| (told[id].name.as_str(), told[id].max_entries);
    assert_eq!([of(0), of(1), of(3)], [("t0", 100), ("acl", 2), ("route", 100)]);
    // As many entries as it said, and none is made to go by a smaller table.
    for port in 1..=2 {
        bed.ok(flow(&format!("table=1,in_port={port} actions=drop")));
    }
    assert_eq!(bed.refused(flow("table=1,in_port=3 actions=drop")), ErrorCode::FmfcTableFull);
    let smaller = request(V15, vec![named(1, "acl", 1)]);
    assert_eq!(bed.refused(smaller), ErrorCode::TffcBadMaxEntries);
    set(&mut bed, V15, vec![named(1, "", 3)]);
    bed.ok(flow("table=1,in_port=3 actions=drop"));
    assert_eq!(features(&mut bed, V15)[1].name, "t1");

    //= openflow-1.3.5 §7.3.5.5: a request before 1.5 is the whole pipeline.
    bed.ok(flow("table=2 actions=drop"));
    bed.ok(flow("in_port=2 actions=goto_table:2"));
    bed.ok(flow("in_port=1 actions=goto_table:1"));
    let mut whole = features(&mut bed, V13);
    whole.retain(|table| table.table_id != TableId(2));
    // What a table is asked to lead to may be less than what it can.
    set(&mut bed, V13, whole);
    assert_eq!(features(&mut bed, V14).len(), 7);
    assert_eq!(bed.refused(flow("table=2 actions=drop")), ErrorCode::FmfcBadTableId);
    assert_eq!(bed.refused(flow("table=1 actions=goto_table:2")), ErrorCode::BicBadTableId);
    let left: Vec<_> = bed.flows(TableId::ALL).iter().map(|f| f.table_id.0).collect();
    assert_eq!(left.iter().filter(|table| **table == 0).count(), 1, "what led to it went");
    assert!(!left.contains(&2));
    let gone = TableMod { table_id: TableId(2), config: 0, eviction: None, vacancy: None };
    assert_eq!(bed.refused(Message::TableMod(gone)), ErrorCode::TmfcBadTable);
    //= openflow-1.5.1 §7.3.5.18: tables are taken out and come back.
    set(&mut bed, V15, vec![table(2, ENABLE, 0), table(4, ENABLE, 0)]);
    assert_eq!(features(&mut bed, V15).len(), 8);
    set(&mut bed, V15, vec![table(6, DISABLE, 0), table(7, DISABLE, 0)]);
    assert_eq!(features(&mut bed, V15).len(), 6);
    set(&mut bed, V15, (0..3).map(|id| table(id, REPLACE, 1)).collect());
    assert_eq!(features(&mut bed, V15).len(), 3);
}

#[test]
fn what_tables_cannot_be_is_refused() {
    use ErrorCode::*;
    let mut bed = Bed::new(1);
    first_egress(&mut bed, 4);
    let before = features(&mut bed, V15);
    let with = |property| TableFeatures { properties: vec![property], ..table(1, MODIFY, 3) };
    let twice = |property: TableProperty| TableFeatures {
        properties: vec![property.clone(), property],
        ..table(1, MODIFY, 3)
    };
    let fields = |field, mask| vec![OxmHeader::of(field, mask)];
    let sync = TableProperty::SyncFrom(vec![TableId(2)]);
    let cases = [
        (vec![table(8, MODIFY, 3)], TffcBadTable),
        (vec![table(255, MODIFY, 3)], TffcBadTable),
        (vec![table(2, MODIFY, 3), table(1, MODIFY, 3)], TffcBadTable),
        (vec![table(2, MODIFY, 3), table(2, MODIFY, 3)], TffcBadTable),
        (vec![table(2, 4, 3)], TffcBadCommand),
        (vec![table(2, MODIFY, 3), table(3, ENABLE, 3)], TffcBadCommand),
        (vec![table(0, MODIFY, 1 | FIRST)], TffcBadFeatures),
        (vec![table(0, MODIFY, 3)], TffcBadFeatures),
        (vec![table(2, MODIFY, 3 | 1 << 2)], TffcBadFeatures),
        (vec![table(2, MODIFY, 3 | FIRST), table(3, MODIFY, 3 | FIRST)], TffcBadFeatures),
        (vec![TableFeatures { config: 1 << 5, ..table(1, MODIFY, 3) }], TffcBadCapability),
        (vec![TableFeatures { max_entries: 101, ..table(1, MODIFY, 3) }], TffcBadMaxEntries),
        (vec![TableFeatures { max_entries: 0, ..table(1, MODIFY, 3) }], TffcBadMaxEntries),
        // The first table, and the first egress table, stay.
        (vec![table(1, REPLACE, 3)], TffcEperm),
        (vec![table(0, DISABLE, 0)], TffcEperm),
        (vec![table(4, DISABLE, 0)], TffcEperm),
        (
            vec![with(TableProperty::NextTables { miss: false, tables: vec![TableId(1)] })],
            TffcBadArgument,
        ),
        (vec![with(TableProperty::Match(fields(FieldId::InPort, true)))], TffcBadArgument),
        (vec![with(TableProperty::Match(vec![OxmHeader(0x8000_fe04)]))], TffcBadArgument),
        (
            vec![with(TableProperty::ApplySetField {
                miss: true,
                fields: fields(FieldId::TcpFlags, false),
            })],
            TffcBadArgument,
        ),
        (
            vec![with(TableProperty::WriteActions { miss: false, types: vec![ActionType::Meter] })],
            TffcBadArgument,
        ),
        (
            vec![with(TableProperty::Instructions {
                miss: false,
                types: vec![InstructionType::Meter],
            })],
            TffcBadArgument,
        ),
        (vec![with(TableProperty::PacketTypes(vec![1]))], TffcBadArgument),
        (vec![with(sync)], TffcBadArgument),
        (vec![twice(TableProperty::Match(vec![]))], BpcDupType),
    ];
    for (tables, code) in cases {
        let what = format!("{tables:?}");
        assert_eq!(bed.refused(request(V15, tables)), code, "{what}");
        assert_eq!(features(&mut bed, V15), before, "a refusal changes nothing: {what}");
    }
    // Less than a table can do is right; it goes on to do all.
    let less = TableFeatures {
        properties: vec![
            TableProperty::Match(fields(FieldId::EthDst, true)),
            TableProperty::NextTables { miss: false, tables: vec![TableId(2)] },
            TableProperty::Instructions { miss: true, types: vec![InstructionType::ApplyActions] },
            TableProperty::SyncFrom(vec![]),
        ],
        ..table(1, MODIFY, 3)
    };
    set(&mut bed, V15, vec![less]);
    assert_eq!(features(&mut bed, V15), before);
    let write = Instruction::WriteActions(vec![Action::PopVlan]);
    bed.ok(FlowMod {
        table_id: TableId(1),
        ..add(Default::default(), [write].into_iter().collect())
    });
}
