//! What outlives the process: what a keeper is told makes the same of a new device.

#[allow(unreachable_pub)]
mod common;

use common::{Bed, Mirror, action, batch, bed, exact, write};
use p4_runtime::config::compile;
use p4_runtime::device::KeptPipeline;
use p4_runtime::proto::v1;
use v1::entity::Entity as E;
use v1::set_forwarding_pipeline_config_request::Action as Push;
use v1::update::Type;
use v1::write_request::Atomicity;

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("p4.org/port", string) type bit<9> port_id_t;
header h_t { bit<8> a; bit<8> b; }
struct headers { h_t h; }
struct metadata { bit<2> color; }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) count;
    direct_meter<bit<2>>(MeterType.packets) pace;
    meter(4, MeterType.bytes) cells;
    action go(port_id_t port) { sm.egress_spec = (bit<9>) port; pace.read(m.color); }
    action plain(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    table first {
        key = { h.h.a: exact; }
        actions = { go; NoAction; }
        default_action = NoAction();
        counters = count;
        meters = pace;
        support_timeout = true;
    }
    table given {
        key = { h.h.b: exact; }
        actions = { plain; drop; }
        default_action = drop();
        entries = { 1: plain(1); 2: plain(2); }
    }
    apply {
        cells.execute_meter<bit<2>>((bit<32>) h.h.a, m.color);
        first.apply();
        given.apply();
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

fn config() -> v1::MeterConfig {
    v1::MeterConfig { cir: 10, cburst: 20, pir: 30, pburst: 40, ..v1::MeterConfig::default() }
}

fn first(bed: &Bed, key: u8, port: &str) -> v1::TableEntry {
    v1::TableEntry {
        table_id: bed.id("I.first"),
        r#match: vec![exact(1, &[key])],
        action: Some(action(bed.id("I.go"), Some(port.as_bytes()))),
        ..v1::TableEntry::default()
    }
}

fn all(bed: &Bed, table: &str) -> Vec<E> {
    let table_id = bed.id(table);
    let meter_config = Some(v1::MeterConfig::default());
    let asked = v1::TableEntry { table_id, meter_config, ..v1::TableEntry::default() };
    let mut told = bed.read(E::TableEntry(asked));
    let order = |e: &E| prost::Message::encode_to_vec(&v1::Entity { entity: Some(e.clone()) });
    told.sort_by_cached_key(order);
    told
}

/// The same program with its P4Info, of another bed.
fn as_is(bed: &Bed, mut other: Bed) -> Bed {
    other.info = bed.info.clone();
    other
}

#[test]
fn entries_come_back_with_all_that_they_have() {
    let bed = bed(PROGRAM);
    let _told = bed.primary();
    let mirror = Mirror::of(&bed.device);
    // Strings have their numbers in the order of their first use, and not in that of keys.
    let mut all_of_it = first(&bed, 9, "eth9");
    all_of_it.metadata = b"who".to_vec();
    all_of_it.idle_timeout_ns = 5_000_000_000;
    all_of_it.meter_config = Some(config());
    bed.done(&write(Type::Insert, E::TableEntry(all_of_it)));
    bed.done(&write(Type::Insert, E::TableEntry(first(&bed, 1, "eth1"))));
    let table_entry = Some(v1::TableEntry { action: None, ..first(&bed, 1, "eth1") });
    let direct = v1::DirectMeterEntry { table_entry, config: Some(config()), counter_data: None };
    bed.done(&write(Type::Modify, E::DirectMeterEntry(direct)));
    let (meter_id, index) = (bed.id("I.cells"), Some(v1::Index { index: 2 }));
    let cell = v1::MeterEntry { meter_id, index, config: Some(config()), counter_data: None };
    bed.done(&write(Type::Modify, E::MeterEntry(cell)));
    let again = as_is(&bed, mirror.check(&bed.device));
    assert_eq!(all(&again, "I.first"), all(&bed, "I.first"));
    let asked = v1::MeterEntry { config: None, ..cell };
    assert_eq!(again.read(E::MeterEntry(asked)), [E::MeterEntry(cell)]);
    // The program has the same numbers for the client's ports.
    let program = ir::text::print_pipeline(&again.host.lock().unwrap().control().pipeline);
    let port_of = |key: u8| {
        let line = program.lines().find(|l| l.starts_with(&format!("entry I.first {key} ")));
        line.and_then(|l| l.split("I.go(").nth(1)?.split(',').next()).map(str::to_owned)
    };
    assert_eq!([port_of(9), port_of(1)], [Some("1".to_owned()), Some("2".to_owned())]);
    // What is taken away is gone.
    bed.done(&write(Type::Delete, E::TableEntry(first(&bed, 9, "eth9"))));
    bed.done(&write(Type::Modify, E::MeterEntry(asked)));
    assert_eq!(all(&as_is(&bed, mirror.check(&bed.device)), "I.first").len(), 1);
}

#[test]
fn what_the_program_has_by_itself_may_be_gone_or_changed() {
    let bed = bed(PROGRAM);
    let _told = bed.primary();
    let mirror = Mirror::of(&bed.device);
    let given = |key: u8, port: u8| {
        E::TableEntry(v1::TableEntry {
            table_id: bed.id("I.given"),
            r#match: vec![exact(1, &[key])],
            action: Some(action(bed.id("I.plain"), Some(&[port]))),
            ..v1::TableEntry::default()
        })
    };
    assert_eq!(all(&bed, "I.given").len(), 2);
    bed.done(&batch(vec![(Type::Delete, given(1, 0)), (Type::Modify, given(2, 7))]));
    let default = v1::TableEntry {
        table_id: bed.id("I.given"),
        is_default_action: true,
        action: Some(action(bed.id("I.plain"), Some(&[3]))),
        ..v1::TableEntry::default()
    };
    bed.done(&write(Type::Modify, E::TableEntry(default)));
    let again = as_is(&bed, mirror.check(&bed.device));
    assert_eq!(all(&again, "I.given"), [given(2, 7)]);
}

#[test]
fn a_batch_is_one_transaction_of_what_was_taken() {
    let bed = bed(PROGRAM);
    let _told = bed.primary();
    let mirror = Mirror::of(&bed.device);
    let insert = |key: u8| (Type::Insert, E::TableEntry(first(&bed, key, "1")));
    bed.done(&batch((0..100).map(insert).collect()));
    assert_eq!(mirror.records(), 1);
    // Of a batch that goes on what was taken is kept, of one that is undone nothing.
    let mut some = batch(vec![insert(100), insert(1), insert(101)]);
    some.atomicity = Atomicity::RollbackOnError as i32;
    bed.refused(&some);
    assert_eq!((mirror.records(), all(&bed, "I.first").len()), (1, 100));
    some.atomicity = Atomicity::ContinueOnError as i32;
    bed.refused(&some);
    assert_eq!((mirror.records(), all(&bed, "I.first").len()), (2, 102));
    mirror.check(&bed.device);
    // What changes nothing is not told, nor is what is not kept.
    let same = (Type::Modify, E::TableEntry(first(&bed, 1, "1")));
    let data = Some(v1::CounterData { packet_count: 7, ..v1::CounterData::default() });
    let table_entry = Some(v1::TableEntry { action: None, ..first(&bed, 1, "1") });
    let counter = E::DirectCounterEntry(v1::DirectCounterEntry { table_entry, data });
    bed.done(&batch(vec![same, (Type::Modify, counter)]));
    assert_eq!(mirror.records(), 2);
}

#[test]
fn lines_and_pipelines_are_kept_too() {
    let bed = bed(PROGRAM);
    let _told = bed.primary();
    let mirror = Mirror::of(&bed.device);
    assert!(KeptPipeline::of(&mirror.image()).unwrap().unwrap().started);
    let done = bed.device.commands("table_add given plain 5 => 4\nmc_mgrp_create 3");
    assert_eq!(done.wrong, []);
    assert_eq!(mirror.records(), 1);
    let again = as_is(&bed, mirror.check(&bed.device));
    assert_eq!(all(&again, "I.given").len(), 3);
    // A push forgets, and is what comes back.
    let other = PROGRAM.replace("table given", "table taken").replace("given.apply", "taken.apply");
    let info = compile(&other, p4::limits::Limits::default()).map_err(|e| e.text).unwrap().info;
    let config = v1::ForwardingPipelineConfig {
        p4info: Some(info.clone()),
        p4_device_config: other.into_bytes(),
        cookie: Some(v1::forwarding_pipeline_config::Cookie { cookie: 77 }),
    };
    let request = v1::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        action: Push::VerifyAndCommit as i32,
        config: Some(config.clone()),
        ..v1::SetForwardingPipelineConfigRequest::default()
    };
    bed.device.set_pipeline(&request).map_err(|e| e.text).unwrap();
    let kept = KeptPipeline::of(&mirror.image()).unwrap().unwrap();
    assert_eq!((kept.started, &kept.config), (false, &config));
    let mut again = mirror.check(&bed.device);
    again.info = info;
    assert_eq!(all(&again, "I.taken").len(), 2);
    let asked = v1::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 0 };
    assert_eq!(again.device.pipeline(asked).unwrap().config, Some(config));
}

#[test]
fn what_cannot_be_put_back_is_told() {
    let of = bed(PROGRAM);
    let _told = of.primary();
    let mirror = Mirror::of(&of.device);
    of.done(&write(Type::Insert, E::TableEntry(first(&of, 1, "eth0"))));
    let image = mirror.image();
    let refused = |edit: &dyn Fn(&mut Vec<u8>), kind: u8| {
        let mut image = image.clone();
        let (key, value) = image.iter().find(|(key, _)| key[0] == kind).unwrap();
        let (key, mut value) = (key.clone(), value.to_vec());
        edit(&mut value);
        image.insert(key, value.into());
        let empty = bed(p4_runtime::config::EMPTY);
        empty.device.put_back(&image).unwrap_err().text
    };
    assert_eq!(refused(&|value| value.truncate(9), 0x70), "an entity that was kept cannot be read");
    let other = refused(
        &|value| {
            let entry = v1::TableEntry { table_id: 7, ..v1::TableEntry::default() };
            let entity = v1::Entity { entity: Some(E::TableEntry(entry)) };
            *value = prost::Message::encode_to_vec(&entity);
        },
        0x70,
    );
    assert!(other.starts_with("what was kept is refused now: the P4Info has no table"), "{other}");
    let pipeline = refused(&|value| value.truncate(30), 0x10);
    assert_eq!(pipeline, "the pipeline that was kept cannot be read");
}
