//! Direct counters and meters of default actions: counted on the packet path, written and read.

#[allow(unreachable_pub)]
mod common;

use common::{action, bed_with, exact, write};
use p4_runtime::proto::v1;
use std::time::Duration;
use switch::EngineKind;
use v1::entity::Entity as E;
use v1::update::Type;

/// `plain` tells the program which action has run, `paced` has a meter; both count.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> key; bit<8> ran; bit<8> color; }
struct headers { h_t h; }
struct meta { bit<8> color; }
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_counter(CounterType.packets_and_bytes) passed;
    direct_meter<bit<8>>(MeterType.packets) pace;
    action mark(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    action colour() { pace.read(m.color); }
    table plain {
        key = { h.h.key: exact; }
        actions = { mark; drop; }
        default_action = drop();
        counters = hits;
    }
    table paced {
        key = { h.h.key: exact; }
        actions = { colour; NoAction; }
        default_action = colour();
        counters = passed;
        meters = pace;
    }
    apply {
        switch (plain.apply().action_run) {
            mark: { h.h.ran = 1; }
            drop: { h.h.ran = 2; }
        }
        if (paced.apply().miss) { h.h.color = m.color; }
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout meta m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

const SENT: usize = 80;

fn count(packets: i64) -> Option<v1::CounterData> {
    Some(v1::CounterData { byte_count: SENT as i64 * packets, packet_count: packets })
}

fn default_of(table_id: u32) -> v1::TableEntry {
    v1::TableEntry { table_id, is_default_action: true, ..v1::TableEntry::default() }
}

//= p4runtime-1.5.0 §9.1: a default action has the direct counter and meter of its table, as entries have.
#[test]
fn default_actions_are_counted_and_metered() {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let bed = bed_with(PROGRAM, None, engine.clone());
        let mut far = Vec::new();
        for number in 1..4 {
            let config = port::memory::Config::default();
            let (near, end) = port::memory::port(&format!("p{number}"), config).unwrap();
            bed.switch.add_port(Some(number), Box::new(near)).unwrap();
            far.push(end);
        }
        let _told = bed.primary();
        let (plain, paced) = (bed.id("I.plain"), bed.id("I.paced"));
        let (mark, drop, colour) = (bed.id("I.mark"), bed.id("I.drop"), bed.id("I.colour"));
        let asked = |table| {
            let of = v1::TableEntry { counter_data: count(0), ..default_of(table) };
            bed.read(E::TableEntry(of))
        };
        let is = |table, does, packets| {
            let action = Some(does);
            [E::TableEntry(v1::TableEntry {
                action,
                counter_data: count(packets),
                ..default_of(table)
            })]
        };
        let direct = |table, packets: Option<i64>| {
            let data = packets.and_then(count);
            let table_entry = Some(default_of(table));
            E::DirectCounterEntry(v1::DirectCounterEntry { table_entry, data })
        };
        let send = |key: u8, n: usize| {
            for _ in 0..n {
                assert!(far[0].inject_bytes(&[key; SENT]));
            }
        };
        // Those that are dropped are waited for by one that is not.
        let entry = v1::TableEntry {
            table_id: plain,
            r#match: vec![exact(1, &[9])],
            action: Some(action(mark, Some(&[3]))),
            ..v1::TableEntry::default()
        };
        bed.done(&write(Type::Insert, E::TableEntry(entry.clone())));
        let took = |n: usize| far[n].take_within(Duration::from_secs(20)).expect("a frame");
        send(5, 4);
        send(9, 1);
        assert_eq!(took(2).data()[..2], [9, 1], "{engine:?}");
        assert_eq!(asked(plain), is(plain, action(drop, None), 4), "{engine:?}");
        // The entry has counted its own alone.
        let of = v1::TableEntry { counter_data: count(0), ..entry.clone() };
        let own = v1::TableEntry { counter_data: count(1), ..entry };
        assert_eq!(bed.read(E::TableEntry(of)), [E::TableEntry(own)]);
        // Another default goes on counting, the program sees which one it was, and counts are written by either name.
        let to = v1::TableEntry { action: Some(action(mark, Some(&[2]))), ..default_of(plain) };
        bed.done(&write(Type::Modify, E::TableEntry(to)));
        send(6, 2);
        assert_eq!(took(1).data()[..2], [6, 1], "{engine:?}");
        took(1);
        assert_eq!(asked(plain), is(plain, action(mark, Some(&[2])), 6), "{engine:?}");
        bed.done(&write(Type::Modify, direct(plain, Some(100))));
        send(6, 1);
        took(1);
        assert_eq!(bed.read(direct(plain, None)), [direct(plain, Some(101))], "{engine:?}");
        let to = v1::TableEntry {
            action: Some(action(mark, Some(&[2]))),
            counter_data: count(7),
            ..default_of(plain)
        };
        bed.done(&write(Type::Modify, E::TableEntry(to)));
        assert_eq!(asked(plain), is(plain, action(mark, Some(&[2])), 7));
        // The meter of a default: two are green, two yellow, the rest red.
        let rates = v1::MeterConfig { cir: 1, cburst: 2, pir: 1, pburst: 4, eburst: 0 };
        let meter = |config, counter_data| {
            let table_entry = Some(default_of(paced));
            E::DirectMeterEntry(v1::DirectMeterEntry { table_entry, config, counter_data })
        };
        assert_eq!(bed.read(meter(None, None)), [meter(None, None)]);
        bed.done(&write(Type::Modify, meter(Some(rates), None)));
        assert_eq!(bed.read(meter(None, None)), [meter(Some(rates), None)]);
        let colours: Vec<u8> = (0..6)
            .map(|_| {
                send(6, 1);
                took(1).data()[2]
            })
            .collect();
        assert_eq!(colours, [0, 0, 1, 1, 2, 2], "{engine:?}");
        let counts = [2, 2, 2].map(count);
        let [green, yellow, red] = counts;
        let counts = Some(v1::MeterCounterData { green, yellow, red });
        let read = bed.read(meter(None, Some(v1::MeterCounterData::default())));
        assert_eq!(read, [meter(Some(rates), counts)], "{engine:?}");
        // Without rates it is green again, also by the default itself.
        bed.done(&write(Type::Modify, E::TableEntry(default_of(paced))));
        let of =
            v1::TableEntry { meter_config: Some(v1::MeterConfig::default()), ..default_of(paced) };
        let own = v1::TableEntry { action: Some(action(colour, None)), ..default_of(paced) };
        assert_eq!(bed.read(E::TableEntry(of)), [E::TableEntry(own)]);
        send(6, 1);
        assert_eq!(took(1).data()[2], 0, "{engine:?}");
        // What passed `paced` without an entry: all but none of it had one.
        assert_eq!(asked(paced), is(paced, action(colour, None), 4 + 1 + 2 + 1 + 6 + 1));
    }
}

#[test]
fn defaults_come_along_to_another_program() {
    let bed = bed_with(PROGRAM, None, EngineKind::Interp);
    let _told = bed.primary();
    let (plain, paced) = (bed.id("I.plain"), bed.id("I.paced"));
    let (mark, colour) = (bed.id("I.mark"), bed.id("I.colour"));
    let rates = v1::MeterConfig { cir: 1, cburst: 2, pir: 1, pburst: 4, eburst: 0 };
    let first = v1::TableEntry {
        action: Some(action(mark, Some(&[2]))),
        counter_data: count(7),
        ..default_of(plain)
    };
    let second = v1::TableEntry {
        action: Some(action(colour, None)),
        meter_config: Some(rates),
        ..default_of(paced)
    };
    bed.done(&write(Type::Modify, E::TableEntry(first.clone())));
    bed.done(&write(Type::Modify, E::TableEntry(second.clone())));
    // A table more in front, so that numbers of tables and arrays are others.
    let table = "table front { key = { h.h.ran: exact; } actions = { mark; } counters = front_hits; }\n    table plain {";
    let other = PROGRAM
        .replace("table plain {", table)
        .replace("direct_counter(CounterType.packets_and_bytes) hits;", "direct_counter(CounterType.packets) front_hits;\n    direct_counter(CounterType.packets_and_bytes) hits;")
        .replace("apply {\n        switch", "apply {\n        front.apply();\n        switch");
    let built = p4_runtime::config::compile(&other, p4::limits::Limits::default());
    let info = built.map_err(|e| e.text).unwrap().info;
    use v1::set_forwarding_pipeline_config_request::Action;
    let request = v1::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        action: Action::ReconcileAndCommit as i32,
        config: Some(v1::ForwardingPipelineConfig {
            p4info: Some(info),
            p4_device_config: other.into_bytes(),
            cookie: None,
        }),
        ..v1::SetForwardingPipelineConfigRequest::default()
    };
    bed.device.set_pipeline(&request).map_err(|e| e.text).unwrap();
    let asked = |of: &v1::TableEntry| {
        let asked = v1::TableEntry { action: None, ..of.clone() };
        bed.read(E::TableEntry(asked))
    };
    assert_eq!(asked(&first), [E::TableEntry(first.clone())]);
    assert_eq!(asked(&second), [E::TableEntry(second.clone())]);
}
