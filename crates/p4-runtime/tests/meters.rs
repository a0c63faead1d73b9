//! Meters count packets and bytes by colour.

#[allow(unreachable_pub)]
mod common;

use common::{action, batch, bed, bed_with, exact, write};
use p4_runtime::config::EMPTY;
use p4_runtime::proto::v1;
use std::time::Duration;
use switch::EngineKind;
use v1::entity::Entity as E;
use v1::update::Type;

/// One meter for all packets, and one for each entry.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> key; bit<8> color; }
struct headers { h_t h; }
struct meta { bit<8> color; }
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t sm) {
    meter(4, MeterType.bytes) all;
    direct_meter<bit<8>>(MeterType.bytes) own;
    action paced() { own.read(m.color); }
    action nothing() { }
    table slow { key = { h.h.key: exact; } actions = { paced; nothing; } meters = own; }
    apply {
        sm.egress_spec = 2;
        all.execute_meter<bit<8>>(1, h.h.color);
        slow.apply();
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout meta m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

fn counts(each: [i64; 3]) -> Option<v1::MeterCounterData> {
    let of = |n: i64| Some(v1::CounterData { byte_count: 100 * n, packet_count: n });
    let [green, yellow, red] = each.map(of);
    Some(v1::MeterCounterData { green, yellow, red })
}

/// A byte a second: the bursts are all that passes while the test runs.
const RATES: v1::MeterConfig =
    v1::MeterConfig { cir: 1, cburst: 200, pir: 1, pburst: 400, eburst: 0 };

//= p4runtime-1.5.0 §9.3: a meter's counts by colour are read and written; without rates there are none.
#[test]
fn colours_are_counted() {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let bed = bed_with(PROGRAM, None, engine);
        let mut far = Vec::new();
        for number in 1..3 {
            let config = port::memory::Config::default();
            let (near, end) = port::memory::port(&format!("p{number}"), config).unwrap();
            bed.switch.add_port(Some(number), Box::new(near)).unwrap();
            far.push(end);
        }
        let _told = bed.primary();
        let (all, slow, paced) = (bed.id("I.all"), bed.id("I.slow"), bed.id("I.paced"));
        let cell = |config, counter_data| {
            let index = Some(v1::Index { index: 1 });
            E::MeterEntry(v1::MeterEntry { meter_id: all, index, config, counter_data })
        };
        let entry = v1::TableEntry {
            table_id: slow,
            r#match: vec![exact(1, &[9])],
            action: Some(action(paced, None)),
            meter_config: Some(RATES),
            ..v1::TableEntry::default()
        };
        bed.done(&write(Type::Insert, E::TableEntry(entry.clone())));
        // Without rates nothing is counted.
        assert_eq!(bed.read(cell(None, counts([0; 3]))), [cell(None, None)]);
        bed.done(&write(Type::Modify, cell(Some(RATES), None)));
        assert_eq!(bed.read(cell(None, counts([0; 3]))), [cell(Some(RATES), counts([0; 3]))]);
        let send = |n: usize| {
            for _ in 0..n {
                assert!(far[0].inject_bytes(&[9; 100]));
                far[1].take_within(Duration::from_secs(20)).expect("a frame");
            }
        };
        send(7);
        let told = cell(Some(RATES), counts([2, 2, 3]));
        assert_eq!(bed.read(cell(None, counts([0; 3]))), [told]);
        assert_eq!(bed.read(cell(None, None)), [cell(Some(RATES), None)]);
        // The same of the entry's own, by either name.
        let asked = v1::TableEntry {
            table_id: slow,
            meter_config: Some(v1::MeterConfig::default()),
            meter_counter_data: counts([0; 3]),
            ..v1::TableEntry::default()
        };
        let is = v1::TableEntry { meter_counter_data: counts([2, 2, 3]), ..entry.clone() };
        assert_eq!(bed.read(E::TableEntry(asked)), [E::TableEntry(is)]);
        let direct = |config, counter_data| {
            let of = v1::TableEntry { action: None, meter_config: None, ..entry.clone() };
            let table_entry = Some(of);
            E::DirectMeterEntry(v1::DirectMeterEntry { table_entry, config, counter_data })
        };
        let told = bed.read(direct(None, counts([0; 3])));
        assert_eq!(told, [direct(Some(RATES), counts([2, 2, 3]))]);
        // Counts are written with rates, and go on from there.
        bed.done(&write(Type::Modify, cell(Some(RATES), counts([10, 20, 30]))));
        bed.done(&write(Type::Modify, direct(Some(RATES), counts([1, 2, 3]))));
        send(3);
        let told = bed.read(cell(None, counts([0; 3])));
        assert_eq!(told, [cell(Some(RATES), counts([12, 21, 30]))]);
        let told = bed.read(direct(None, counts([0; 3])));
        assert_eq!(told, [direct(Some(RATES), counts([3, 3, 3]))]);
        // Rates that are set anew count anew, in one batch, too.
        let first = (Type::Modify, cell(Some(RATES), counts([1, 1, 1])));
        bed.done(&batch(vec![first, (Type::Modify, cell(Some(RATES), None))]));
        let told = bed.read(cell(None, counts([0; 3])));
        assert_eq!(told, [cell(Some(RATES), counts([0; 3]))]);
        bed.done(&write(Type::Modify, cell(Some(RATES), counts([1, 1, 1]))));
        bed.done(&write(Type::Modify, cell(Some(RATES), None)));
        let told = bed.read(cell(None, counts([0; 3])));
        assert_eq!(told, [cell(Some(RATES), counts([0; 3]))]);
    }
}

#[test]
fn counts_without_rates_are_refused() {
    let bed = bed(PROGRAM);
    let _told = bed.primary();
    let (all, slow, paced) = (bed.id("I.all"), bed.id("I.slow"), bed.id("I.paced"));
    let cell = v1::MeterEntry {
        meter_id: all,
        index: None,
        config: None,
        counter_data: counts([1, 2, 3]),
    };
    let entry = v1::TableEntry {
        table_id: slow,
        r#match: vec![exact(1, &[9])],
        action: Some(action(paced, None)),
        meter_counter_data: counts([1, 2, 3]),
        ..v1::TableEntry::default()
    };
    for (kind, entity) in
        [(Type::Modify, E::MeterEntry(cell)), (Type::Insert, E::TableEntry(entry))]
    {
        let (code, text) = bed.refused(&write(kind, entity));
        assert!(code == 3 && text.contains("without rates it counts no colours"), "{text}");
    }
    assert_eq!(bed.read(E::TableEntry(v1::TableEntry::default())), []);
}

/// What another process goes on with has counts of cells, entries and defaults.
#[test]
fn counts_go_on_in_another_process() {
    let old = bed(PROGRAM);
    let _told = old.primary();
    let (all, slow, paced) = (old.id("I.all"), old.id("I.slow"), old.id("I.paced"));
    let cell = |at: i64, counter_data| {
        let index = Some(v1::Index { index: at });
        let config = Some(RATES);
        E::MeterEntry(v1::MeterEntry { meter_id: all, index, config, counter_data })
    };
    let entry = v1::TableEntry {
        table_id: slow,
        r#match: vec![exact(1, &[9])],
        action: Some(action(paced, None)),
        meter_config: Some(RATES),
        meter_counter_data: counts([1, 2, 3]),
        ..v1::TableEntry::default()
    };
    let default = v1::TableEntry {
        table_id: slow,
        is_default_action: true,
        action: Some(action(paced, None)),
        meter_config: Some(RATES),
        meter_counter_data: counts([4, 5, 6]),
        ..v1::TableEntry::default()
    };
    old.done(&write(Type::Insert, E::TableEntry(entry)));
    old.done(&write(Type::Modify, E::TableEntry(default)));
    old.done(&write(Type::Modify, cell(2, counts([7, 8, 9]))));
    old.done(&write(Type::Modify, cell(3, None)));
    let new = bed(EMPTY);
    new.device.take(&old.device.handed().map_err(|e| e.text).unwrap()).map_err(|e| e.text).unwrap();
    let told = |bed: &common::Bed| {
        let of = |is_default_action| {
            E::TableEntry(v1::TableEntry {
                table_id: slow,
                is_default_action,
                meter_config: Some(v1::MeterConfig::default()),
                meter_counter_data: counts([0; 3]),
                ..v1::TableEntry::default()
            })
        };
        let cells = E::MeterEntry(v1::MeterEntry {
            meter_id: all,
            index: None,
            config: None,
            counter_data: counts([0; 3]),
        });
        [bed.read(of(false)), bed.read(of(true)), bed.read(cells)]
    };
    let (before, without) = (told(&old), told(&new));
    assert!(before.iter().zip(&without).all(|(one, other)| one != other), "{without:?}");
    let state = old.device.state().map_err(|e| e.text).unwrap();
    new.device.take_state(&state).map_err(|e| e.text).unwrap();
    assert_eq!(told(&new), before);
}
