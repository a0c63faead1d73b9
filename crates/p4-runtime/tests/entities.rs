//! Each kind of entity: written, read back the same, refused with the code and the words that say why.

#[allow(unreachable_pub)]
mod common;

use common::{action, batch, bed, bed_with, exact, lpm, ternary, write};
use p4_runtime::packet::BYTES_MAX;
use p4_runtime::proto::v1;
use switch::EngineKind;
use v1::entity::Entity as E;
use v1::packet_replication_engine_entry::Type as Pre;
use v1::table_action::Type as A;
use v1::update::Type;

const EVERYTHING: &str = include_str!("../../../filetests/p4/everything.p4");
const PROFILES: &str = include_str!("../../../filetests/p4/profiles.p4");

fn entry(table_id: u32, key: Vec<v1::FieldMatch>, does: v1::TableAction) -> v1::TableEntry {
    v1::TableEntry { table_id, r#match: key, action: Some(does), ..v1::TableEntry::default() }
}

fn of_table(table_id: u32) -> E {
    E::TableEntry(v1::TableEntry { table_id, ..v1::TableEntry::default() })
}

#[test]
fn entries_come_back_as_they_were_written() {
    let bed = bed(EVERYTHING);
    let _told = bed.primary();
    let (many, go) = (bed.id("many"), bed.id("go"));
    use v1::field_match::FieldMatchType as F;
    let range = v1::field_match::Range { low: vec![3], high: vec![9] };
    let optional = v1::field_match::Optional { value: vec![7] };
    let of = |id, told| v1::FieldMatch { field_id: id, field_match_type: Some(told) };
    let key = vec![
        ternary(1, &[10, 0, 0, 0], &[0xff, 0, 0, 0]),
        of(2, F::Range(range)),
        of(3, F::Optional(optional)),
    ];
    let mut e = entry(many, key, action(go, Some(&[1, 0xfe])));
    e.priority = 5;
    e.metadata = b"mine".to_vec();
    bed.done(&write(Type::Insert, E::TableEntry(e.clone())));
    assert_eq!(bed.read(of_table(many)), [E::TableEntry(e.clone())]);
    // Zeros in front are read; the shortest bytes are told.
    let mut long = e.clone();
    long.r#match[0] = ternary(1, &[0, 0, 10, 0, 0, 0], &[0, 0xff, 0, 0, 0]);
    long.action = Some(action(go, Some(&[0, 0, 9])));
    bed.done(&write(Type::Modify, E::TableEntry(long)));
    e.action = Some(action(go, Some(&[9])));
    assert_eq!(
        bed.read(of_table(many)),
        [E::TableEntry(v1::TableEntry { metadata: e.metadata.clone(), ..e.clone() })]
    );
    bed.done(&write(Type::Delete, E::TableEntry(e.clone())));
    assert_eq!(bed.read(of_table(many)), []);
    let told = bed.refused(&write(Type::Delete, E::TableEntry(e)));
    assert_eq!(told, (5, "table `I.many` has no entry with this key and priority".to_owned()));
}

#[test]
fn wrong_entries_are_told_by_table_and_key() {
    let bed = bed(EVERYTHING);
    let _told = bed.primary();
    let (exactly, longest, many) = (bed.id("exactly"), bed.id("longest"), bed.id("many"));
    let (go, drop, fixed) = (bed.id("go"), bed.id("I.drop"), bed.id("fixed"));
    let does = || action(go, Some(&[1]));
    let try_it = |kind, e| bed.refused(&write(kind, E::TableEntry(e)));
    let keys = |a: &[u8], b: &[u8]| vec![exact(1, a), exact(2, b)];
    for (kind, e, code, text) in [
        (Type::Insert, entry(7, vec![], does()), 5, "the P4Info has no table with the id 7"),
        (
            Type::Insert,
            entry(exactly, vec![exact(1, &[1])], does()),
            3,
            "table `I.exactly`, key `kind`: it is exact and needs a value",
        ),
        (
            Type::Insert,
            entry(exactly, keys(&[1], &[1, 0, 0]), does()),
            11,
            "table `I.exactly`, key `kind`: the value needs 17 bits; the width is 16",
        ),
        (
            Type::Insert,
            entry(exactly, keys(&[1], &[]), does()),
            3,
            "table `I.exactly`, key `kind`: the value is empty; zero is one byte 0x00",
        ),
        (
            Type::Insert,
            entry(exactly, vec![exact(1, &[1]), exact(9, &[1])], does()),
            3,
            "no key field has the id 9; there are 1 (h.h.a), 2 (kind)",
        ),
        (
            Type::Insert,
            entry(longest, vec![lpm(1, &[10, 0, 0, 1], 8)], does()),
            3,
            "the value has bits below its prefix",
        ),
        (Type::Insert, entry(longest, vec![lpm(1, &[0], 0)], does()), 3, "leave the field out"),
        (
            Type::Insert,
            entry(longest, vec![exact(1, &[1])], does()),
            3,
            "it is lpm, and the match is exact",
        ),
        (Type::Insert, entry(many, vec![], does()), 3, "its keys need a priority above 0"),
        (
            Type::Insert,
            entry(longest, vec![lpm(1, &[8], 32)], action(drop, None)),
            7,
            "table `I.longest`: `I.drop` is for the default action only",
        ),
        (
            Type::Insert,
            entry(exactly, keys(&[1], &[1]), action(go, Some(&[2, 0]))),
            11,
            "table `I.exactly`, action `I.go`, parameter `port`: the value needs 10 bits; the width is 9",
        ),
        (
            Type::Insert,
            entry(exactly, keys(&[1], &[1]), action(go, None)),
            3,
            "the parameter `port` has no value",
        ),
        (
            Type::Insert,
            entry(exactly, keys(&[1], &[1]), action(drop, None)),
            3,
            "it has no action with the id",
        ),
        (
            Type::Insert,
            entry(fixed, vec![exact(1, &[3])], does()),
            7,
            "table `I.fixed` has const entries",
        ),
        (Type::Modify, entry(exactly, keys(&[1], &[1]), does()), 5, "has no entry with this key"),
    ] {
        let told = try_it(kind, e);
        assert!(told.0 == code && told.1.contains(text), "{told:?}, and not {code} {text}");
    }
    let mut timed = entry(longest, vec![lpm(1, &[8], 32)], does());
    timed.idle_timeout_ns = 5;
    assert!(try_it(Type::Insert, timed).1.contains("support_timeout"));
    let mut counted = entry(longest, vec![lpm(1, &[8], 32)], does());
    counted.counter_data = Some(v1::CounterData::default());
    assert!(try_it(Type::Insert, counted).1.ends_with("has no direct counter"));
    // Nothing of it was done.
    assert_eq!(bed.read(of_table(exactly)), []);
    // And twice is once too often.
    bed.done(&write(Type::Insert, E::TableEntry(entry(exactly, keys(&[1], &[1]), does()))));
    let told = try_it(Type::Insert, entry(exactly, keys(&[0, 1], &[1]), does()));
    assert!(told.0 == 6 && told.1.contains("MODIFY changes it"), "{told:?}");
}

#[test]
fn defaults_are_set_and_reset() {
    let bed = bed(EVERYTHING);
    let _told = bed.primary();
    let (longest, go, drop) = (bed.id("longest"), bed.id("go"), bed.id("I.drop"));
    let default = |action| v1::TableEntry {
        table_id: longest,
        action,
        is_default_action: true,
        ..v1::TableEntry::default()
    };
    let asked = || bed.read(E::TableEntry(default(None)));
    let is = |action| vec![E::TableEntry(default(Some(action)))];
    assert_eq!(asked(), is(action(drop, None)));
    bed.done(&write(Type::Modify, E::TableEntry(default(Some(action(go, Some(&[3])))))));
    assert_eq!(asked(), is(action(go, Some(&[3]))));
    bed.done(&write(Type::Modify, E::TableEntry(default(None))));
    assert_eq!(asked(), is(action(drop, None)));
    let told = bed.refused(&write(Type::Insert, E::TableEntry(default(None))));
    assert!(told.1.contains("only MODIFY"), "{told:?}");
}

//= p4runtime-1.5.0 §9.1: a table takes as many entries as the program says, and refuses more with RESOURCE_EXHAUSTED.
#[test]
fn a_table_is_as_large_as_it_says() {
    for (size, most) in [("size = 3;", 3u8), ("", 0)] {
        let bed = bed(&EVERYTHING.replace("table exactly {", &format!("table exactly {{ {size}")));
        let _told = bed.primary();
        let (exactly, go) = (bed.id("exactly"), bed.id("go"));
        let of = |n: u8| {
            let key = vec![exact(1, &[n]), exact(2, &[1])];
            write(Type::Insert, E::TableEntry(entry(exactly, key, action(go, Some(&[1])))))
        };
        let fits = if most == 0 { 200 } else { most };
        (0..fits).for_each(|n| bed.done(&of(n)));
        if most > 0 {
            let told = bed.refused(&of(most));
            assert!(told.0 == 8 && told.1.contains("full"), "{told:?}");
            // Another one's place will do.
            let gone = entry(exactly, vec![exact(1, &[0]), exact(2, &[1])], action(go, Some(&[1])));
            bed.done(&write(Type::Delete, E::TableEntry(gone)));
            bed.done(&of(most));
        }
    }
}

#[test]
fn counters_and_registers_are_written_and_read() {
    let bed = bed(EVERYTHING);
    let _told = bed.primary();
    let (hits, last, exactly, go) =
        (bed.id("hits"), bed.id("last"), bed.id("exactly"), bed.id("go"));
    let data = v1::CounterData { byte_count: 70, packet_count: 7 };
    let cell = |index, data| {
        let index = Some(v1::Index { index });
        E::CounterEntry(v1::CounterEntry { counter_id: hits, index, data })
    };
    bed.done(&write(Type::Modify, cell(2, Some(data))));
    assert_eq!(bed.read(cell(2, None)), [cell(2, Some(data))]);
    let all = E::CounterEntry(v1::CounterEntry { counter_id: hits, index: None, data: None });
    let zero = Some(v1::CounterData::default());
    assert_eq!(bed.read(all), [cell(0, zero), cell(1, zero), cell(2, Some(data)), cell(3, zero)]);
    let told = bed.refused(&write(Type::Modify, cell(4, Some(data))));
    assert_eq!(told, (11, "`I.hits`: index 4; it has 4 cells, 0 to 3".to_owned()));
    assert_eq!(bed.refused(&write(Type::Insert, cell(1, Some(data)))).0, 3);
    // Registers, one and all.
    let value = |bytes: &[u8]| {
        Some(v1::P4Data { data: Some(v1::p4_data::Data::Bitstring(bytes.to_vec())) })
    };
    let cell = |index: Option<i64>, data| {
        let index = index.map(|index| v1::Index { index });
        E::RegisterEntry(v1::RegisterEntry { register_id: last, index, data })
    };
    bed.done(&write(Type::Modify, cell(None, value(&[5]))));
    bed.done(&write(Type::Modify, cell(Some(1), value(&[0, 1, 2, 3]))));
    let is =
        [cell(Some(0), value(&[5])), cell(Some(1), value(&[1, 2, 3])), cell(Some(2), value(&[5]))];
    assert_eq!(bed.read(cell(None, None)), is);
    assert_eq!(bed.refused(&write(Type::Modify, cell(Some(0), value(&[1, 0, 0, 0])))).0, 11);
    // A direct counter, with its entry.
    let mut e = entry(exactly, vec![exact(1, &[1]), exact(2, &[2])], action(go, Some(&[3])));
    e.counter_data = Some(data);
    bed.done(&write(Type::Insert, E::TableEntry(e.clone())));
    let mut asked = entry(exactly, vec![], action(go, None));
    (asked.action, asked.counter_data) = (None, zero);
    assert_eq!(bed.read(E::TableEntry(asked)), [E::TableEntry(e.clone())]);
    let direct = v1::DirectCounterEntry {
        table_entry: Some(v1::TableEntry { action: None, counter_data: None, ..e }),
        data: Some(v1::CounterData { byte_count: 1, packet_count: 1 }),
    };
    bed.done(&write(Type::Modify, E::DirectCounterEntry(direct.clone())));
    let asked = E::DirectCounterEntry(v1::DirectCounterEntry { data: None, ..direct.clone() });
    assert_eq!(bed.read(asked), [E::DirectCounterEntry(direct)]);
}

#[test]
fn meters_are_set_and_reset() {
    let bed = bed(EVERYTHING);
    let _told = bed.primary();
    let rate = bed.id("rate");
    let config = v1::MeterConfig { cir: 10, cburst: 5, pir: 20, pburst: 6, eburst: 0 };
    let cell = |config| {
        let index = Some(v1::Index { index: 1 });
        E::MeterEntry(v1::MeterEntry { meter_id: rate, index, config, counter_data: None })
    };
    assert_eq!(bed.read(cell(None)), [cell(None)]);
    bed.done(&write(Type::Modify, cell(Some(config))));
    assert_eq!(bed.read(cell(None)), [cell(Some(config))]);
    bed.done(&write(Type::Modify, cell(None)));
    assert_eq!(bed.read(cell(None)), [cell(None)]);
    let wrong = v1::MeterConfig { cir: 30, ..config };
    let told = bed.refused(&write(Type::Modify, cell(Some(wrong))));
    assert_eq!(told, (3, "meter of `I.rate`: cir 30 is above pir 20".to_owned()));
}

#[test]
fn replication_and_value_sets_come_back() {
    let bed = bed(EVERYTHING);
    let _told = bed.primary();
    let replica = |port: &[u8], instance| v1::Replica {
        port_kind: Some(v1::replica::PortKind::Port(port.to_vec())),
        instance,
        backup_replicas: Vec::new(),
    };
    let pre =
        |of| E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(of) });
    let group = |id, replicas| {
        let multicast_group_id = id;
        let metadata = Vec::new();
        let of = v1::MulticastGroupEntry { multicast_group_id, replicas, metadata };
        pre(Pre::MulticastGroupEntry(of))
    };
    let first = vec![replica(&[1], 1), replica(&[1, 0xfe], 2)];
    bed.done(&write(Type::Insert, group(7, first.clone())));
    assert_eq!(bed.read(group(0, vec![])), [group(7, first.clone())]);
    assert_eq!(bed.refused(&write(Type::Insert, group(7, first))).0, 6);
    bed.done(&write(Type::Modify, group(7, vec![replica(&[2], 0)])));
    assert_eq!(bed.read(group(7, vec![])), [group(7, vec![replica(&[2], 0)])]);
    let twice = vec![replica(&[2], 0), replica(&[2], 0)];
    assert!(bed.refused(&write(Type::Modify, group(7, twice))).1.contains("there twice"));
    let far = vec![replica(&[2, 0], 0)];
    assert_eq!(bed.refused(&write(Type::Modify, group(7, far))).0, 11);
    bed.done(&write(Type::Delete, group(7, vec![])));
    assert_eq!(bed.read(group(0, vec![])), []);
    let session = |id, replicas, packet_length_bytes| {
        let class_of_service = 0;
        pre(Pre::CloneSessionEntry(v1::CloneSessionEntry {
            session_id: id,
            replicas,
            class_of_service,
            packet_length_bytes,
        }))
    };
    let two = vec![replica(&[1], 1), replica(&[3], 1)];
    bed.done(&write(Type::Insert, session(5, two.clone(), 0)));
    assert_eq!(bed.read(session(0, vec![], 0)), [session(5, two, 0)]);
    bed.done(&write(Type::Modify, session(5, vec![replica(&[9], 0)], 0)));
    assert_eq!(bed.read(session(5, vec![], 0)), [session(5, vec![replica(&[9], 0)], 0)]);
    let cut = session(5, vec![replica(&[9], 0)], 64);
    bed.done(&write(Type::Modify, cut.clone()));
    assert_eq!(bed.read(session(5, vec![], 0)), [cut]);
    bed.done(&write(Type::Delete, session(5, vec![], 0)));
    assert_eq!(bed.read(session(0, vec![], 0)), []);
    // A value set has all of its members at once.
    let seen = bed.id("seen");
    let set = |members: &[&[u8]]| {
        let members = members.iter().map(|m| v1::ValueSetMember { r#match: vec![exact(1, m)] });
        E::ValueSetEntry(v1::ValueSetEntry { value_set_id: seen, members: members.collect() })
    };
    bed.done(&write(Type::Modify, set(&[&[8, 0], &[1]])));
    assert_eq!(bed.read(set(&[])), [set(&[&[8, 0], &[1]])]);
    let five = set(&[&[1], &[2], &[3], &[4], &[5]]);
    assert_eq!(bed.refused(&write(Type::Modify, five)).0, 8);
    let external = E::ExternEntry(v1::ExternEntry::default());
    let told = bed.refused(&write(Type::Insert, external));
    assert!(told.0 == 12 && told.1.contains("extern entries"), "{told:?}");
}

#[test]
fn members_groups_and_action_sets_come_back() {
    let bed = bed(PROFILES);
    let _told = bed.primary();
    let (balanced, spread, send) = (bed.id("balanced"), bed.id("spread"), bed.id("send"));
    let call = |port: u8| v1::Action {
        action_id: send,
        params: vec![v1::action::Param { param_id: 1, value: vec![port] }],
    };
    let member = |id, port| {
        let action = Some(call(port));
        E::ActionProfileMember(v1::ActionProfileMember {
            action_profile_id: balanced,
            member_id: id,
            action,
        })
    };
    let group = |id, members: &[(u32, i32)], max_size| {
        let members = members.iter().map(|(member_id, weight)| {
            let (member_id, weight, watch_kind) = (*member_id, *weight, None);
            v1::action_profile_group::Member { member_id, weight, watch_kind }
        });
        E::ActionProfileGroup(v1::ActionProfileGroup {
            action_profile_id: balanced,
            group_id: id,
            members: members.collect(),
            max_size,
        })
    };
    bed.done(&batch((1..=3).map(|n| (Type::Insert, member(n * 10, n as u8))).collect()));
    let asked = E::ActionProfileMember(v1::ActionProfileMember::default());
    assert_eq!(bed.read(asked.clone()), [member(10, 1), member(20, 2), member(30, 3)]);
    bed.done(&write(Type::Insert, group(1, &[(10, 2), (20, 1)], 6)));
    let all = E::ActionProfileGroup(v1::ActionProfileGroup::default());
    assert_eq!(bed.read(all.clone()), [group(1, &[(10, 2), (20, 1)], 6)]);
    assert_eq!(bed.refused(&write(Type::Modify, group(1, &[(10, 7)], 6))).0, 8);
    assert_eq!(bed.refused(&write(Type::Modify, group(1, &[(99, 1)], 6))).0, 5);
    assert_eq!(bed.refused(&write(Type::Delete, member(10, 1))).0, 9);
    let key = || vec![lpm(1, &[0x10], 4)];
    let to = |to| v1::TableAction { r#type: Some(to) };
    bed.done(&write(
        Type::Insert,
        E::TableEntry(entry(spread, key(), to(A::ActionProfileGroupId(1)))),
    ));
    assert_eq!(
        bed.read(of_table(spread)),
        [E::TableEntry(entry(spread, key(), to(A::ActionProfileGroupId(1))))]
    );
    assert_eq!(bed.refused(&write(Type::Delete, group(1, &[], 0))).0, 9);
    let direct = E::TableEntry(entry(spread, key(), action(send, Some(&[1]))));
    assert!(bed.refused(&write(Type::Modify, direct)).1.contains("has an action profile"));
    // In one shot: nobody else sees its members.
    let one = |port, weight| v1::ActionProfileAction {
        action: Some(call(port)),
        weight,
        watch_kind: None,
    };
    use v1::action_profile_action_set::{ActionSelectionMode as M, SizeSemantics as S};
    let set = v1::ActionProfileActionSet {
        action_profile_actions: vec![one(5, 1), one(6, 3)],
        action_selection_mode: M::Hash as i32,
        size_semantics: S::SumOfMembers as i32,
        group_action: None,
    };
    let shot = entry(spread, key(), to(A::ActionProfileActionSet(set)));
    bed.done(&write(Type::Modify, E::TableEntry(shot.clone())));
    assert_eq!(bed.read(of_table(spread)), [E::TableEntry(shot.clone())]);
    assert_eq!(bed.read(asked.clone()).len(), 3);
    bed.done(&write(Type::Delete, group(1, &[], 0)));
    // All or nothing: the group goes with the entry, and comes back with it.
    let mut request = batch(vec![
        (Type::Delete, E::TableEntry(shot.clone())),
        (Type::Delete, E::TableEntry(shot.clone())),
    ]);
    request.atomicity = 1;
    assert_eq!(bed.refused(&request).0, 10);
    assert_eq!(bed.read(of_table(spread)), [E::TableEntry(shot.clone())]);
    bed.done(&write(Type::Delete, E::TableEntry(shot)));
    assert_eq!((bed.read(of_table(spread)), bed.read(all)), (vec![], vec![]));
}

#[test]
fn many_members_and_groups_take_little_time() {
    let text = PROFILES.replace("32w16, 32w8", "32w8192, 32w8");
    let bed = bed(&text);
    let _told = bed.primary();
    let (balanced, send) = (bed.id("balanced"), bed.id("send"));
    let params = vec![v1::action::Param { param_id: 1, value: vec![1] }];
    let action = Some(v1::Action { action_id: send, params });
    let members = (0..8000).map(|member_id| {
        let action = action.clone();
        let of = v1::ActionProfileMember { action_profile_id: balanced, member_id, action };
        (Type::Insert, E::ActionProfileMember(of))
    });
    let groups = (0..2000u32).map(|group_id| {
        let members = (0..4).map(|n| v1::action_profile_group::Member {
            member_id: group_id * 4 + n,
            weight: 1,
            watch_kind: None,
        });
        let of = v1::ActionProfileGroup {
            action_profile_id: balanced,
            group_id,
            members: members.collect(),
            max_size: 0,
        };
        (Type::Insert, E::ActionProfileGroup(of))
    });
    let (members, groups) = (batch(members.collect()), batch(groups.collect()));
    let started = std::time::Instant::now();
    bed.done(&members);
    bed.done(&groups);
    let took = started.elapsed();
    eprintln!("8,000 members and 2,000 groups of 4: {took:?}");
    // It took 22 s when each operation copied all of it; this bound is for a loaded machine.
    assert!(took < std::time::Duration::from_secs(5), "{took:?}");
}

/// A program that hands packets to the control plane and takes them from it.
const PUNTS: &str = r#"
#include <core.p4>
#include <v1model.p4>
@controller_header("packet_in") header in_t { bit<9> port; bit<7> pad; }
@controller_header("packet_out") header out_t { bit<9> port; bit<7> pad; }
header e_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct learn_t { bit<48> src; bit<9> port; }
struct headers { in_t i; out_t o; e_t e; }
struct meta { }
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {
    state start { transition select(sm.ingress_port) { 510: sent; default: e; } }
    state sent { p.extract(h.o); transition e; }
    state e { p.extract(h.e); transition accept; }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t sm) {
    apply {
        if (h.o.isValid()) { sm.egress_spec = h.o.port; h.o.setInvalid(); }
        else {
            digest<learn_t>(1, { h.e.src, sm.ingress_port });
            h.i.setValid(); h.i.port = sm.ingress_port; h.i.pad = 0;
            sm.egress_spec = 510;
        }
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout meta m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.i); p.emit(h.e); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

#[test]
fn packets_and_digests_pass() {
    use v1::stream_message_response::Update as Told;
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let config = || port::memory::Config { mtu: 9000, ..port::memory::Config::default() };
        let (cpu, far) = port::memory::port("cpu", config()).unwrap();
        let (one, host) = port::memory::port("one", config()).unwrap();
        let bed = bed_with(PUNTS, Some(far), engine);
        bed.switch.add_port(Some(510), Box::new(cpu)).unwrap();
        bed.switch.add_port(Some(1), Box::new(one)).unwrap();
        let mut told = bed.primary();
        told.try_recv().unwrap().unwrap();
        let learn = bed.id("learn_t");
        let config = v1::digest_entry::Config::default();
        let digest = v1::DigestEntry { digest_id: learn, config: Some(config) };
        bed.done(&write(Type::Insert, E::DigestEntry(digest)));
        assert_eq!(bed.read(E::DigestEntry(digest)), [E::DigestEntry(digest)]);
        let _server = common::serve(&bed.device);
        let frame: Vec<u8> = (0..60).collect();
        assert!(host.inject_bytes(&frame));
        let (mut packet, mut list) = (None, None);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while (packet.is_none() || list.is_none()) && std::time::Instant::now() < until {
            match told.try_recv().ok().and_then(|m| m.unwrap().update) {
                Some(Told::Packet(p)) => packet = Some(p),
                Some(Told::Digest(d)) => list = Some(d),
                Some(other) => panic!("{other:?}"),
                None => std::thread::sleep(std::time::Duration::from_millis(2)),
            }
        }
        let packet = packet.expect("a packet-in");
        assert_eq!(packet.payload, frame);
        assert_eq!((packet.metadata[0].metadata_id, &packet.metadata[0].value[..]), (1, &[1][..]));
        let list = list.expect("a digest");
        let Some(v1::p4_data::Data::Struct(s)) = &list.data[0].data else { panic!("{list:?}") };
        let bits = |n: usize| s.members[n].data.clone();
        assert_eq!(bits(0), Some(v1::p4_data::Data::Bitstring(vec![6, 7, 8, 9, 10, 11])));
        assert_eq!(bits(1), Some(v1::p4_data::Data::Bitstring(vec![1])));
        // And out again.
        let metadata = [(1, vec![1]), (2, vec![0])];
        let metadata =
            metadata.map(|(metadata_id, value)| v1::PacketMetadata { metadata_id, value }).to_vec();
        let out = v1::PacketOut { payload: frame.clone(), metadata };
        let say = |update| v1::StreamMessageRequest { update: Some(update) };
        use v1::stream_message_request::Update as Say;
        bed.device.message(1, say(Say::Packet(out.clone()))).unwrap();
        let sent = host.take_within(std::time::Duration::from_secs(20)).expect("a frame");
        assert_eq!(sent.data(), frame);
        // Wrong ones are answered on the stream, and nobody but the primary may.
        let long = v1::PacketOut { payload: vec![0; BYTES_MAX + 1], ..out.clone() };
        bed.device.message(1, say(Say::Packet(long))).unwrap();
        let Some(Told::Error(error)) = told.blocking_recv().unwrap().unwrap().update else {
            panic!("an error was expected")
        };
        assert_eq!(error.canonical_code, 3, "{}", error.message);
        let (backup, mut its) = bed.device.open();
        bed.device.message(backup, say(Say::Packet(out))).unwrap();
        let Some(Told::Error(error)) = its.try_recv().unwrap().unwrap().update else {
            panic!("an error was expected")
        };
        assert_eq!(error.canonical_code, 7, "{}", error.message);
    }
}

#[test]
fn pipelines_are_pushed_saved_committed_and_read() {
    use v1::get_forwarding_pipeline_config_request::ResponseType as R;
    use v1::set_forwarding_pipeline_config_request::Action as S;
    let bed = bed(EVERYTHING);
    let _told = bed.primary();
    let config = |text: &str, info| v1::ForwardingPipelineConfig {
        p4info: Some(info),
        p4_device_config: text.as_bytes().to_vec(),
        cookie: Some(v1::forwarding_pipeline_config::Cookie { cookie: 9 }),
    };
    let set = |action: S, config| {
        bed.device.set_pipeline(&v1::SetForwardingPipelineConfigRequest {
            device_id: 0,
            election_id: Some(v1::Uint128 { high: 0, low: 1 }),
            action: action as i32,
            config,
            ..v1::SetForwardingPipelineConfigRequest::default()
        })
    };
    let code = |done: Result<_, p4_runtime::code::Fault>| done.map(drop).unwrap_err().code as i32;
    let mine = config(EVERYTHING, bed.info.clone());
    assert_eq!(code(set(S::Commit, None)), 9);
    assert_eq!(code(set(S::Unspecified, Some(mine.clone()))), 3);
    assert_eq!(code(set(S::VerifyAndCommit, Some(config("nonsense", bed.info.clone())))), 3);
    let mut other = bed.info.clone();
    other.tables[0].match_fields[0].bitwidth = 31;
    let told = set(S::Verify, Some(config(EVERYTHING, other))).unwrap_err();
    assert!(told.text.contains("31 bits; the program's has 32"), "{}", told.text);
    // An entry stays when pipelines are reconciled, and goes when one is committed.
    let (exactly, go) = (bed.id("exactly"), bed.id("go"));
    let e = entry(exactly, vec![exact(1, &[1]), exact(2, &[2])], action(go, Some(&[3])));
    bed.done(&write(Type::Insert, E::TableEntry(e.clone())));
    set(S::ReconcileAndCommit, Some(mine.clone())).unwrap();
    assert_eq!(bed.read(of_table(exactly)), [E::TableEntry(e.clone())]);
    // What would lose it is refused, with what it is.
    let without = EVERYTHING.replace("h.h.a: exact;", "h.h.d: exact;");
    let built = p4_runtime::config::compile(&without, p4::limits::Limits::default());
    let lost = config(&without, built.map_err(|e| e.text).unwrap().info);
    let told = set(S::ReconcileAndCommit, Some(lost)).unwrap_err();
    assert!(told.code as i32 == 9 && told.text.contains("I.exactly: 1 entries"), "{}", told.text);
    assert_eq!(bed.read(of_table(exactly)), [E::TableEntry(e)]);
    set(S::VerifyAndSave, Some(mine.clone())).unwrap();
    set(S::Commit, None).unwrap();
    assert_eq!(bed.read(of_table(exactly)), []);
    // In all response types.
    let get = |of: R| {
        let request =
            v1::GetForwardingPipelineConfigRequest { device_id: 1, response_type: of as i32 };
        bed.device.pipeline(request).map_err(|e| e.text).unwrap().config.unwrap()
    };
    assert_eq!(get(R::All), mine);
    assert_eq!(get(R::CookieOnly).cookie, mine.cookie);
    let info = get(R::P4infoAndCookie);
    assert!(info.p4info.is_some() && info.p4_device_config.is_empty());
    let device = get(R::DeviceConfigAndCookie);
    assert!(device.p4info.is_none() && !device.p4_device_config.is_empty());
}
