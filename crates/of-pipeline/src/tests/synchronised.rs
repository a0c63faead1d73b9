//! Synchronised tables: what reflects what, on packets and on random requests.

use super::bed::*;
use super::model::Random;
use crate::{Agent, AgentConfig, AgentError, Event, Synchronised};
use datapath::services::Services;
use of_lower::ProgramConfig;
use openflow::syntax::{Context, parse_flow, parse_group, parse_meter};
use openflow::{
    ErrorCode, FieldId, FlowMod, FlowModCommand, FlowRemovedReason, FlowStats, Match, Message,
    MultipartReplyBody, MultipartRequest, MultipartRequestBody, TableFeatures, TableId, TableMod,
    TableProperty, Version,
};
use std::sync::Arc;
use switch::{Config, EngineKind, Switch};

const V14: Version = Version::V14;
const V15: Version = Version::V15;

fn flow(line: &str) -> FlowMod {
    parse_flow(line, &Context::new(V15)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn delete_of(line: &str) -> FlowMod {
    FlowMod { command: FlowModCommand::Delete, ..flow(&format!("{line},actions=drop")) }
}

fn list(of: &[&str]) -> Vec<Synchronised> {
    of.iter().map(|text| text.parse().unwrap()).collect()
}

/// A switch of four ports with tables synchronised so, and these flows.
fn with(of: &[&str], flows: &[&str]) -> Bed {
    by(EngineKind::default(), program(), of, flows)
}

fn by(engine: EngineKind, program: ProgramConfig, of: &[&str], flows: &[&str]) -> Bed {
    let mut bed = Bed::synchronised(engine, program, 4, list(of));
    flows.iter().for_each(|line| drop(bed.ok(flow(line))));
    bed
}

/// Learning in table 0, forwarding in table 1: stations 0xa at port 1 and 0xb at port 2.
const BRIDGE: [&str; 4] = [
    "table=0,priority=0,actions=controller,goto_table:1",
    "table=1,priority=0,actions=flood",
    "table=1,priority=5,dl_dst=00:00:00:00:00:0a,actions=output:1",
    "table=1,priority=5,dl_dst=00:00:00:00:00:0b,actions=output:2",
];
const LEARNING: [&str; 1] = ["0=1,goto_table:1"];

/// Everything but times and counts, sorted.
fn held(bed: &mut Bed) -> Vec<String> {
    let plain = |f: FlowStats| {
        let FlowStats { table_id, priority, cookie, importance, .. } = f;
        let (flags, idle, hard) = (f.flags, f.idle_timeout, f.hard_timeout);
        let fields: Vec<_> = f.matching.iter().map(|f| (f.id, f.value, f.mask)).collect();
        format!(
            "{table_id:?} {priority} {cookie} {importance} {flags:?} {idle} {hard} {fields:?} {:?}",
            f.instructions
        )
    };
    let mut all: Vec<_> = bed.flows(TableId::ALL).into_iter().map(plain).collect();
    all.sort();
    all
}

fn of_table(bed: &mut Bed, table: u8) -> usize {
    bed.flows(TableId(table)).len()
}

//= openflow-1.4.1 §5.11: one set of addresses, looked up as sources and as destinations.
#[test]
fn a_forwarding_table_brings_its_learning_table() {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let mut bed = by(engine, program(), &LEARNING, &BRIDGE);
        let is_packet_in = |event: &Event| match event {
            Event::PacketIn(packet) => Some(packet.data.to_vec()),
            _ => None,
        };
        // Both are known: the packet is forwarded, and nobody is told.
        bed.send(1, &frame(0xb, 0xa));
        assert_eq!(bed.receive(2), frame(0xb, 0xa));
        bed.no_event();
        // The sender is not.
        bed.send(3, &frame(0xa, 0xc));
        assert_eq!(bed.receive(1), frame(0xa, 0xc));
        assert_eq!(bed.event(is_packet_in), frame(0xa, 0xc));
        // Now it is; and each entry counts for itself.
        bed.ok(flow("table=1,priority=5,dl_dst=00:00:00:00:00:0c,actions=output:3"));
        bed.send(3, &frame(0xa, 0xc));
        assert_eq!(bed.receive(1), frame(0xa, 0xc));
        bed.no_event();
        let count = |bed: &mut Bed, table, field, station: u128| {
            let m = Match::new().with(field, station);
            let found = bed.flows(TableId(table)).into_iter().find(|f| f.matching == m);
            found.map(|f| (f.priority, f.packet_count))
        };
        assert_eq!(count(&mut bed, 0, FieldId::EthSrc, 0xc), Some((5, 1)));
        assert_eq!(count(&mut bed, 1, FieldId::EthDst, 0xc), Some((5, 0)));
        assert_eq!(count(&mut bed, 1, FieldId::EthDst, 0xa), Some((5, 2)));
        // Gone in one table, gone in the other.
        bed.ok(delete_of("table=1,dl_dst=00:00:00:00:00:0c"));
        assert_eq!(count(&mut bed, 0, FieldId::EthSrc, 0xc), None);
        bed.send(3, &frame(0xa, 0xc));
        assert_eq!(bed.event(is_packet_in), frame(0xa, 0xc));
    }
}

fn features(bed: &mut Bed, version: Version) -> Vec<TableFeatures> {
    let parts = bed.ask(version, MultipartRequestBody::TableFeatures(vec![]));
    let tables = parts.into_iter().flat_map(|part| match part {
        MultipartReplyBody::TableFeatures(tables) => tables,
        other => panic!("{other:?}"),
    });
    tables.collect()
}

fn request(version: Version, tables: Vec<TableFeatures>) -> Request {
    let body = MultipartRequestBody::TableFeatures(tables);
    Request(version, Message::MultipartRequest(MultipartRequest { more: false, body }))
}

//= openflow-1.4.1 §7.3.5.5: OFPTFPT_TABLE_SYNC_FROM tells which table it is synchronised from.
#[test]
fn features_tell_what_is_synchronised() {
    let mut bed = with(&["0=1,goto_table:1", "3=1"], &[]);
    let from = |bed: &mut Bed, version| -> Vec<_> {
        let all = features(bed, version).into_iter();
        let told = all.flat_map(|table| {
            let id = table.table_id.0;
            table.properties.into_iter().filter_map(move |property| match property {
                TableProperty::SyncFrom(tables) => Some((id, tables)),
                _ => None,
            })
        });
        told.collect()
    };
    let expected = vec![(0, vec![TableId(1)]), (3, vec![TableId(1)])];
    assert_eq!(from(&mut bed, V15), expected);
    assert_eq!(from(&mut bed, V14), expected);
    assert_eq!(from(&mut bed, V13), [], "1.3 has no word for it");

    let with = |id, tables: &[u8]| TableFeatures {
        table_id: TableId(id),
        command: 1,
        features: if id == 0 { 1 } else { 3 },
        max_entries: 100,
        properties: vec![TableProperty::SyncFrom(tables.iter().map(|t| TableId(*t)).collect())],
        ..TableFeatures::default()
    };
    bed.ok(request(V15, vec![with(0, &[1]), with(3, &[])]));
    for wrong in [with(0, &[2]), with(0, &[1, 2]), with(1, &[0])] {
        assert_eq!(bed.refused(request(V15, vec![wrong])), ErrorCode::TffcBadArgument);
    }
    let command = |id, command| TableFeatures { command, properties: vec![], ..with(id, &[]) };
    // Disabled, or left out of what replaces: the source, and what is synchronised from it.
    assert_eq!(bed.refused(request(V15, vec![command(1, 3)])), ErrorCode::TffcEperm);
    assert_eq!(bed.refused(request(V15, vec![command(3, 3)])), ErrorCode::TffcEperm);
    let replacing = |ids: &[u8]| request(V15, ids.iter().map(|id| command(*id, 0)).collect());
    assert_eq!(bed.refused(replacing(&[0, 1])), ErrorCode::TffcEperm);
    bed.ok(replacing(&[0, 1, 3]));
    assert_eq!(from(&mut bed, V15), expected);
}

//= openflow-1.5.1 §7.5.4: what is there by synchronisation is changed by its source alone.
#[test]
fn reflections_change_with_their_sources_alone() {
    let mut bed = with(&LEARNING, &BRIDGE);
    let before = held(&mut bed);
    let reflection = "table=0,priority=5,dl_src=00:00:00:00:00:0a";
    let strict = |command, line: &str| FlowMod { command, ..flow(&format!("{line},actions=drop")) };
    let refused = [
        flow(&format!("{reflection},actions=drop")),
        strict(FlowModCommand::ModifyStrict, reflection),
        strict(FlowModCommand::DeleteStrict, reflection),
        strict(FlowModCommand::Modify, "table=0"),
        delete_of("table=0"),
        FlowMod { table_id: TableId::ALL, ..delete_of("dl_src=00:00:00:00:00:0a") },
    ];
    for request in refused {
        let refusal = bed.refusal(request.clone());
        assert_eq!(
            refusal.to_string(),
            "the entry is in table 0 because of one in table 1, with which it comes, changes and goes; change \
             that one (OFPFMFC_IS_SYNC)",
            "{request:?}"
        );
        assert_eq!(held(&mut bed), before, "{request:?}");
    }
    assert_eq!(ErrorCode::FmfcIsSync.wire(V15), (5, 10));
    assert_eq!(ErrorCode::FmfcIsSync.wire(V14), (5, 4), "OFPFMFC_EPERM before 1.5");
    assert_eq!(ErrorCode::FmfcIsSync.wire(V10), (3, 2));
    // Its own entries are as in any table.
    bed.ok(flow("table=0,priority=9,dl_src=00:00:00:00:00:0e,actions=drop"));
    bed.ok(strict(FlowModCommand::Modify, "table=0,dl_src=00:00:00:00:00:0e"));
    bed.ok(delete_of("table=0,dl_src=00:00:00:00:00:0e"));
    assert_eq!(held(&mut bed), before);
    // A modify of the source leaves instructions that the configuration gives; an add sets all else anew.
    bed.ok(strict(FlowModCommand::Modify, "table=1,dl_dst=00:00:00:00:00:0a"));
    let then = held(&mut bed);
    assert_eq!((of_table(&mut bed, 0), of_table(&mut bed, 1)), (3, 3));
    assert_eq!(then.iter().filter(|line| !before.contains(line)).count(), 1);
    bed.ok(flow("table=1,priority=5,cookie=7,dl_dst=00:00:00:00:00:0a,actions=output:1"));
    let told = bed.flows(TableId::ALL).into_iter().filter(|f| f.cookie == 7);
    assert_eq!(told.map(|f| f.table_id.0).collect::<Vec<_>>(), [0, 1]);
    // With its source it goes by any request.
    bed.ok(FlowMod { cookie: 7, cookie_mask: u64::MAX, ..delete(Match::new()) });
    assert_eq!((of_table(&mut bed, 0), of_table(&mut bed, 1)), (2, 2));
    bed.ok(delete(Match::new()));
    assert_eq!(held(&mut bed), [] as [String; 0]);
}

//= openflow-1.4.1 §5.11: an entry that cannot be synchronised is OFPFMFC_CANT_SYNC.
#[test]
fn what_cannot_be_reflected_is_refused_and_leaves_nothing() {
    let small = ProgramConfig { table_capacity: 3, ..program() };
    let mut bed = by(
        EngineKind::default(),
        small,
        &["2=1"],
        &[
            "table=2,priority=7,dl_src=00:00:00:00:00:01,actions=drop",
            "table=1,priority=7,dl_dst=00:00:00:00:00:02,actions=goto_table:3",
        ],
    );
    let why = |bed: &mut Bed, line: &str| {
        let before = held(bed);
        let refusal = bed.refusal(flow(line));
        assert_eq!(refusal.code(), ErrorCode::FmfcCantSync, "{refusal}");
        assert_eq!(held(bed), before);
        refusal.to_string()
    };
    assert_eq!(
        why(&mut bed, "table=1,priority=7,dl_dst=00:00:00:00:00:01,actions=output:1"),
        "table 2 is synchronised from table 1, and cannot have what reflects this entry: an entry of its own is in \
         that place; delete it (OFPFMFC_CANT_SYNC)"
    );
    let text = why(&mut bed, "table=1,dl_dst=00:00:00:00:00:03,actions=goto_table:2");
    assert!(text.contains("goto table 2 from table 2"), "{text}");
    let text = why(&mut bed, "table=1,dl_dst=00:00:00:00:00:03,actions=conjunction(1,1/2)");
    assert!(text.contains("conjunctions are not reflected"), "{text}");
    // The same by a modify.
    let modify = flow("table=1,dl_dst=00:00:00:00:00:02,actions=goto_table:2");
    let modify = FlowMod { command: FlowModCommand::Modify, ..modify };
    assert_eq!(bed.refused(modify), ErrorCode::FmfcCantSync);
    bed.ok(flow("table=2,priority=1,actions=drop"));
    let text = why(&mut bed, "table=1,dl_dst=00:00:00:00:00:04,actions=drop");
    assert!(text.contains("it is full: 3 of 3 entries"), "{text}");
    // What names no end is not reflected; so a table-miss entry has room.
    bed.ok(flow("table=1,priority=0,actions=drop"));
    bed.ok(flow("table=1,priority=3,in_port=2,arp,actions=drop"));
    assert_eq!((of_table(&mut bed, 1), of_table(&mut bed, 2)), (3, 3));
}

#[test]
fn reflections_go_with_their_sources_however_those_go() {
    let source = |rest: &str| format!("table=1,send_flow_rem,dl_dst=00:00:00:00:00:0a,{rest}");
    let cases = [
        (source("actions=group:1"), FlowRemovedReason::GroupDelete),
        (source("actions=meter:1,output:1"), FlowRemovedReason::MeterDelete),
        (source("hard_timeout=1,actions=output:1"), FlowRemovedReason::HardTimeout),
        (source("idle_timeout=1,actions=output:1"), FlowRemovedReason::IdleTimeout),
        (source("importance=0,actions=output:1"), FlowRemovedReason::Eviction),
        (source("actions=output:1"), FlowRemovedReason::Delete),
    ];
    for (line, reason) in cases {
        for of in [["2=1"], ["0=1,goto_table:1"]] {
            let to = u8::from(of[0].starts_with('2')) * 2;
            let small = ProgramConfig { table_capacity: 3, ..program() };
            let mut bed = by(EngineKind::default(), small, &of, &[]);
            bed.ok(parse_group("group_id=1,type=all,bucket=output:1", &Context::new(V15)).unwrap());
            let meter = parse_meter("meter=1,kbps,band=type=drop,rate=1000", &Context::new(V15));
            bed.ok(meter.unwrap());
            bed.ok(flow(&line));
            assert_eq!((of_table(&mut bed, to), of_table(&mut bed, 1)), (1, 1), "{line}");
            match reason {
                FlowRemovedReason::GroupDelete => {
                    let line = "group_id=1,type=all";
                    let group = parse_group(line, &Context::new(V15)).unwrap();
                    let command = openflow::GroupModCommand::Delete;
                    bed.ok(openflow::GroupMod { command, ..group });
                }
                FlowRemovedReason::MeterDelete => {
                    bed.ok(openflow::MeterMod {
                        command: openflow::MeterModCommand::Delete,
                        flags: openflow::MeterFlags::empty(),
                        meter_id: openflow::MeterId(1),
                        bands: vec![],
                    });
                }
                FlowRemovedReason::Eviction => {
                    let config = openflow::table::TABLE_EVICTION;
                    let table_id = TableId::ALL;
                    let evict = TableMod { table_id, config, eviction: None, vacancy: None };
                    bed.ok(Request(V14, Message::TableMod(evict)));
                    for station in 1..=3 {
                        let to = format!("dl_dst=00:00:00:00:01:0{station}");
                        bed.ok(flow(&format!("table=1,importance=1,{to},actions=output:2")));
                    }
                    // The reflection's table is as full, and makes room for entries of its own by none.
                    let own = flow(&format!("table={to},importance=9,arp,actions=drop"));
                    assert_eq!(bed.refused(own), ErrorCode::FmfcTableFull);
                    bed.ok(delete_of("table=1"));
                }
                FlowRemovedReason::Delete => drop(bed.ok(delete_of("table=1"))),
                _ => {}
            }
            let told = bed.event(|event| match event {
                Event::FlowRemoved(removed) => Some(removed.clone()),
                _ => None,
            });
            assert_eq!((told.table_id.0, told.reason), (1, reason), "{line}");
            bed.no_event();
            assert_eq!(held(&mut bed), [] as [String; 0], "{line}");
            let actions = bed.agent.switch().with_pipeline(|p| p.added_actions().count());
            let of_group = usize::from(reason != FlowRemovedReason::GroupDelete);
            assert_eq!(actions, of_group, "{line}: only the group's bucket is left");
        }
    }
}

#[test]
fn a_bundle_brings_both_or_neither() {
    let mut bed = with(&LEARNING, &BRIDGE);
    let before = held(&mut bed);
    let version = |bed: &Bed| bed.agent.switch().with_pipeline(|p| p.version());
    let was = version(&bed);
    let good = [
        flow("table=1,priority=5,dl_dst=00:00:00:00:00:0c,actions=output:3"),
        flow("table=1,priority=5,cookie=9,dl_dst=00:00:00:00:00:0a,actions=output:4"),
        delete_of("table=1,dl_dst=00:00:00:00:00:0b"),
    ];
    let messages = |more: &[FlowMod]| -> Vec<Message> {
        good.iter().chain(more).cloned().map(Message::FlowMod).collect()
    };
    let bad = flow("table=0,priority=5,dl_src=00:00:00:00:00:0c,actions=drop");
    let fault = bed.agent.bundle(V15, messages(&[bad])).unwrap_err();
    assert_eq!((fault.at, fault.refusal.code()), (3, ErrorCode::FmfcIsSync));
    assert_eq!((held(&mut bed), version(&bed)), (before, was));
    bed.agent.bundle(V15, messages(&[])).unwrap();
    assert_eq!(version(&bed), was + 1, "one version for all");
    let mut told: Vec<_> = bed
        .flows(TableId(0))
        .into_iter()
        .filter_map(|f| Some((f.matching.exact(FieldId::EthSrc)?, f.cookie)))
        .collect();
    told.sort_unstable();
    assert_eq!(told, [(0xa, 9), (0xc, 0)]);
    assert_eq!(of_table(&mut bed, 1), 3);
}

/// After random requests to all tables, what is synchronised is what its source says, and nothing else is told to be.
#[test]
fn random_requests_keep_tables_in_step() {
    for seed in 1..=20 {
        for of in [vec!["0=1,goto_table:1", "2=1"], vec!["1=0"], vec!["2=0", "1=0,drop"]] {
            let mut random = Random(seed);
            let mut bed = with(&of, &[]);
            let mut taken = 0;
            for step in 0..200 {
                let mut request = random.request();
                if let Some(field) = request.matching.get(FieldId::EthDst).copied()
                    && random.below(2) == 0
                {
                    request.matching.remove(FieldId::EthDst);
                    request.matching.set_masked(FieldId::EthSrc, field.value, field.mask);
                }
                let messages = vec![Message::FlowMod(request.clone())];
                // A bundle of one does the same.
                let done = match random.below(3) {
                    0 => bed.agent.bundle(V15, messages).map_err(|fault| fault.refusal),
                    _ => bed.agent.handle(request.dialect, messages[0].clone()).map(drop),
                };
                taken += u32::from(done.is_ok());
                if step % 10 == 9 {
                    compare(&mut bed, &list(&of), &format!("seed {seed}, step {step}, {of:?}"));
                }
            }
            assert!(taken > 50, "{taken}");
            bed.ok(delete(Match::new()));
            let left = bed.agent.switch().with_pipeline(|p| p.added_actions().count());
            assert_eq!((held(&mut bed), left), (vec![], 0));
        }
    }
}

fn compare(bed: &mut Bed, synchronised: &[Synchronised], at: &str) {
    let key = |priority: u16, matching: &Match| {
        let fields: Vec<_> = matching.iter().copied().collect();
        (priority, fields)
    };
    for one in synchronised {
        let mut expected: Vec<_> = bed
            .flows(TableId(one.from))
            .into_iter()
            .filter_map(|f| {
                let matching = f.matching.transposed()?;
                let instructions = one.instructions.clone().unwrap_or(f.instructions);
                Some((key(f.priority, &matching), f.cookie, instructions))
            })
            .collect();
        let agent = &bed.agent;
        let flows = agent.flows().iter(one.table);
        let keys: Vec<_> = flows.filter(|(_, f)| f.synchronised).map(|(key, _)| key).collect();
        for key in &keys {
            let source = agent.stores.source_of(*key).expect(at);
            assert_eq!(source.table, one.from, "{at}");
            assert!(agent.stores.reflections_of(source).contains(key), "{at}");
        }
        let mut told = Vec::new();
        for at in keys {
            let f = agent.flows().get(at).unwrap();
            told.push((key(f.priority, &f.matching), f.cookie, f.instructions.to_owned()));
        }
        let by_key = |a: &((u16, Vec<_>), u64, _)| a.0.clone();
        expected.sort_by_key(by_key);
        told.sort_by_key(by_key);
        assert_eq!(told, expected, "{at}");
    }
    let entries: usize =
        bed.agent.switch().with_pipeline(|p| (0..8).map(|t| p.entries(ir::TableId(t)).len()).sum());
    assert_eq!(entries, bed.flows(TableId::ALL).len(), "{at}");
}

#[test]
fn impossible_configurations_are_refused() {
    let cases = [
        (vec!["1=1"], "table 1 cannot be synchronised from table 1: it is the same one"),
        (vec!["9=1"], "there is no table 9, tables are 0 to 7"),
        (vec!["1=9"], "there is no table 9, tables are 0 to 7"),
        (vec!["1=0", "1=2"], "it is synchronised already"),
        (vec!["1=0", "2=1"], "the source is synchronised itself"),
        (vec!["2=1", "1=0"], "the source is synchronised itself"),
        (vec!["2=1,goto_table:1"], "goto table 1 from table 2"),
        (vec!["2=1,group:1"], "group 1 does not exist"),
        (vec!["2=1,meter:1"], "meter 1 does not exist"),
        (vec!["2=1,conjunction(1,1/2)"], "part of conjunctions"),
    ];
    for (of, why) in cases {
        let (ir, _) = of_lower::program(&program());
        let config = Config {
            program: Arc::new(ir),
            workers: 1,
            cpus: vec![],
            punt_rate: 1000,
            engine: EngineKind::Interp,
            validate: None,
        };
        let switch = Switch::start_with(config, Services::default()).unwrap();
        let config =
            AgentConfig { program: program(), synchronised: list(&of), ..AgentConfig::default() };
        let Err(AgentError::Synchronised(error)) = Agent::new(switch.clone(), config) else {
            panic!("{of:?} is taken")
        };
        assert!(error.to_string().contains(why), "{of:?}: {error}");
        switch.stop();
    }
    for text in ["", "1", "a=1", "1=256", "1=0,fly"] {
        assert!(text.parse::<Synchronised>().is_err(), "{text}");
    }
}

#[test]
fn entries_that_new_tables_refuse_go_on_both_sides() {
    // Table 5 becomes the first egress table: what leads there from table 1 goes, and its reflection.
    let mut bed = with(
        &["2=1"],
        &[
            "table=1,priority=5,dl_dst=00:00:00:00:00:0a,actions=goto_table:5",
            "table=1,priority=5,dl_dst=00:00:00:00:00:0b,actions=goto_table:4",
        ],
    );
    let first = TableFeatures {
        table_id: TableId(5),
        command: 1,
        features: 3 | 1 << 4,
        max_entries: 100,
        ..TableFeatures::default()
    };
    bed.ok(request(V15, vec![first]));
    assert_eq!((of_table(&mut bed, 1), of_table(&mut bed, 2)), (1, 1));
    assert_eq!(bed.flows(TableId(2))[0].matching.exact(FieldId::EthSrc), Some(0xb));
}
