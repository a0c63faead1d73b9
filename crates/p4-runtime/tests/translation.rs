//! Types that the client has other values of: in keys, parameters, packets, digests and registers.

#[allow(unreachable_pub)]
mod common;

use common::{action, bed, bed_with, exact, write};
use p4_runtime::config::compile;
use p4_runtime::proto::v1;
use switch::EngineKind;
use v1::entity::Entity as E;
use v1::stream_message_response::Update;
use v1::update::Type;

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("p4.org/port", 32) type bit<9> port_t;
@p4runtime_translation("p4.org/vrf", string) type bit<10> vrf_t;
@controller_header("packet_in") header packet_in_t { port_t port; bit<7> pad; }
@controller_header("packet_out") header packet_out_t { port_t port; bit<7> pad; }
header h_t { bit<8> a; bit<8> b; }
struct learn_t { vrf_t vrf; bit<8> a; port_t port; }
struct headers { packet_out_t out_; packet_in_t in_; h_t h; }
struct metadata { vrf_t vrf; port_t port; }
parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { m.port = (port_t) sm.ingress_port; transition select(sm.ingress_port) { 510: out_; default: rest; } }
    state out_ { b.extract(h.out_); transition rest; }
    state rest { b.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    register<vrf_t>(4) last;
    action vrf(vrf_t v) { m.vrf = v; }
    action forward(port_t port) { sm.egress_spec = (bit<9>) port; }
    table vrfs { key = { m.port: exact @name("port"); } actions = { vrf; NoAction; } default_action = NoAction(); }
    table routes { key = { m.vrf: exact @name("vrf"); h.h.a: exact @name("a"); } actions = { forward; NoAction; } default_action = NoAction(); }
    apply {
        if (h.out_.isValid()) {
            sm.egress_spec = (bit<9>) h.out_.port;
        } else {
            vrfs.apply();
            last.write(0, m.vrf);
            digest<learn_t>(1, { m.vrf, h.h.a, m.port });
            sm.egress_spec = 510;
            routes.apply();
        }
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    apply {
        h.out_.setInvalid();
        if (sm.egress_port == 510) { h.in_.setValid(); h.in_.port = m.port; h.in_.pad = 0; }
    }
}
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h.in_); b.emit(h.out_); b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

fn entry(table_id: u32, key: Vec<v1::FieldMatch>, does: v1::TableAction) -> E {
    E::TableEntry(v1::TableEntry {
        table_id,
        r#match: key,
        action: Some(does),
        ..v1::TableEntry::default()
    })
}

fn all(table_id: u32) -> E {
    E::TableEntry(v1::TableEntry { table_id, ..v1::TableEntry::default() })
}

#[test]
fn entries_have_the_clients_values() {
    let bed = bed(PROGRAM);
    let _told = bed.primary();
    let (vrfs, routes) = (bed.id("I.vrfs"), bed.id("I.routes"));
    let (vrf, forward) = (bed.id("I.vrf"), bed.id("I.forward"));
    let one = entry(vrfs, vec![exact(1, &[7])], action(vrf, Some(b"blue")));
    let two =
        entry(routes, vec![exact(1, b"blue"), exact(2, &[9])], action(forward, Some(&[1, 0])));
    bed.done(&write(Type::Insert, one.clone()));
    bed.done(&write(Type::Insert, two.clone()));
    assert_eq!(bed.read(all(vrfs)), [one]);
    assert_eq!(bed.read(all(routes)), std::slice::from_ref(&two));
    // A number of the client's that the program's type cannot hold; a string that says another one's number.
    let wide = entry(vrfs, vec![exact(1, &[2, 0])], action(vrf, Some(b"red")));
    let text = "table `I.vrfs`, key `port`: the value needs 10 bits; the width is 9";
    assert_eq!(bed.refused(&write(Type::Insert, wide)), (11, text.to_owned()));
    let taken = entry(vrfs, vec![exact(1, &[8])], action(vrf, Some(b"1")));
    let text = "table `I.vrfs`, action `I.vrf`, parameter `v`: the value says a number that another string \
                stands for";
    assert_eq!(bed.refused(&write(Type::Insert, taken)), (3, text.to_owned()));
    // Strings keep their numbers when the program is pushed again and takes over.
    let request = v1::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        action: v1::set_forwarding_pipeline_config_request::Action::ReconcileAndCommit as i32,
        config: Some(v1::ForwardingPipelineConfig {
            p4info: Some(bed.info.clone()),
            p4_device_config: PROGRAM.as_bytes().to_vec(),
            cookie: None,
        }),
        ..v1::SetForwardingPipelineConfigRequest::default()
    };
    bed.device.set_pipeline(&request).map_err(|e| e.text).unwrap();
    assert_eq!(bed.read(all(routes)), [two]);
}

//= p4runtime-1.5.0 §8: ports of replicas and watched ports have the client's values.
#[test]
fn replicas_and_watched_ports_have_the_clients_values() {
    use v1::packet_replication_engine_entry::Type as Pre;
    let text = include_str!("../../../filetests/p4/profiles.p4")
        .replace(
            "header h_t",
            "@p4runtime_translation(\"p4.org/ports\", string) type bit<9> port_t;\nheader h_t",
        )
        .replace(
            "action send(bit<9> port) { sm.egress_spec = port; }",
            "action send(port_t port) { sm.egress_spec = (bit<9>) port; }",
        );
    let bed = bed(&text);
    let _told = bed.primary();
    let pre =
        |of| E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(of) });
    let replica = |port: &str| v1::Replica {
        port_kind: Some(v1::replica::PortKind::Port(port.as_bytes().to_vec())),
        instance: 1,
        backup_replicas: vec![v1::BackupReplica { port: b"7".to_vec(), instance: 2 }],
    };
    let group = |replicas| {
        pre(Pre::MulticastGroupEntry(v1::MulticastGroupEntry {
            multicast_group_id: 3,
            replicas,
            metadata: Vec::new(),
        }))
    };
    let ports = || vec![replica("eth-a"), replica("eth-b")];
    bed.done(&write(Type::Insert, group(ports())));
    assert_eq!(bed.read(group(vec![])), [group(ports())]);
    let session = |replicas| {
        let of =
            v1::CloneSessionEntry { session_id: 4, replicas, ..v1::CloneSessionEntry::default() };
        pre(Pre::CloneSessionEntry(of))
    };
    bed.done(&write(Type::Insert, session(vec![replica("eth-b")])));
    assert_eq!(bed.read(session(vec![])), [session(vec![replica("eth-b")])]);
    // The same strings are the same ports in actions, and decimal digits are the program's numbers.
    let (balanced, send) = (bed.id("balanced"), bed.id("I.send"));
    let params = vec![v1::action::Param { param_id: 1, value: b"eth-b".to_vec() }];
    let member = E::ActionProfileMember(v1::ActionProfileMember {
        action_profile_id: balanced,
        member_id: 1,
        action: Some(v1::Action { action_id: send, params }),
    });
    bed.done(&write(Type::Insert, member));
    use v1::action_profile_group::member::WatchKind;
    let watching = E::ActionProfileGroup(v1::ActionProfileGroup {
        action_profile_id: balanced,
        group_id: 2,
        members: vec![v1::action_profile_group::Member {
            member_id: 1,
            weight: 1,
            watch_kind: Some(WatchKind::WatchPort(b"eth-a".to_vec())),
        }],
        max_size: 4,
    });
    bed.done(&write(Type::Insert, watching.clone()));
    assert_eq!(bed.read(watching.clone()), [watching]);
    let host = bed.host.lock().unwrap();
    let (_, copies) = host.control().multicast_groups().next().unwrap();
    let ports: Vec<u32> = copies.replicas.iter().map(|r| r.port).collect();
    let (_, own) = host.control().members("I.balanced").map(|m| m[0].clone()).unwrap();
    assert_eq!((ports[1], copies.replicas[0].backups[0].0), (own.args[0].low_u32(), 7));
    assert_ne!(ports[0], ports[1]);
}

#[test]
fn several_types_of_ports_are_told_apart_by_name() {
    let two = |first: &str| {
        format!(
            "@p4runtime_translation(\"p4.org/ports\", string) type bit<9> {first};\n\
             @p4runtime_translation(\"p4.org/uplinks\", string) type bit<9> uplink_port_t;\nheader h_t"
        )
    };
    let profiles = include_str!("../../../filetests/p4/profiles.p4");
    for (name, text) in [("port_id_t", true), ("port_t", false)] {
        let text_of = profiles.replace("header h_t", &two(name));
        let built = compile(&text_of, p4::limits::Limits::default()).map_err(|e| e.text).unwrap();
        let bound = p4_runtime::schema::Schema::bind(
            &built.info,
            &built.lowered.names,
            &built.lowered.program,
        );
        assert_eq!(bound.unwrap().port.translates(), text, "{name}");
    }
}

#[test]
fn packets_and_digests_have_the_clients_values() {
    let (near, far) = port::memory::port("near", port::memory::Config::default()).unwrap();
    let (cpu, cpu_far) = port::memory::port("cpu", port::memory::Config::default()).unwrap();
    let bed = bed_with(PROGRAM, Some(cpu_far), EngineKind::Interp);
    bed.switch.add_port(Some(7), Box::new(near)).unwrap();
    bed.switch.add_port(Some(510), Box::new(cpu)).unwrap();
    let mut told = bed.primary();
    let (vrfs, vrf) = (bed.id("I.vrfs"), bed.id("I.vrf"));
    bed.done(&write(Type::Insert, entry(vrfs, vec![exact(1, &[7])], action(vrf, Some(b"blue")))));
    let learn = bed.id("learn_t");
    let config =
        v1::digest_entry::Config { max_timeout_ns: 0, max_list_size: 1, ack_timeout_ns: 0 };
    let digest = v1::DigestEntry { digest_id: learn, config: Some(config) };
    bed.done(&write(Type::Insert, E::DigestEntry(digest)));
    let mut frame = vec![0; 60];
    frame[..2].copy_from_slice(&[5, 6]);
    assert!(far.inject_bytes(&frame));
    let (mut packet, mut list) = (None, None);
    for _ in 0..500 {
        bed.device.take_packets(std::time::Duration::from_millis(5));
        bed.device.take_messages(std::time::Duration::from_millis(5));
        while let Ok(Ok(message)) = told.try_recv() {
            match message.update {
                Some(Update::Packet(p)) => packet = Some(p),
                Some(Update::Digest(d)) => list = Some(d),
                _ => {}
            }
        }
        if packet.is_some() && list.is_some() {
            break;
        }
    }
    let packet = packet.expect("a packet came in");
    let metadata: Vec<(u32, Vec<u8>)> =
        packet.metadata.into_iter().map(|m| (m.metadata_id, m.value)).collect();
    assert_eq!((metadata, packet.payload), (vec![(1, vec![7]), (2, vec![0])], frame.clone()));
    use v1::p4_data::Data;
    let list = list.expect("a digest came");
    let Some(Data::Struct(values)) = &list.data[0].data else { panic!("{list:?}") };
    let values: Vec<&Data> = values.members.iter().flat_map(|m| &m.data).collect();
    let bits = |b: &[u8]| Data::Bitstring(b.to_vec());
    assert_eq!(values, [&bits(b"blue"), &bits(&[5]), &bits(&[7])]);
    let register = v1::RegisterEntry {
        register_id: bed.id("I.last"),
        index: Some(v1::Index { index: 0 }),
        data: None,
    };
    let read = bed.read(E::RegisterEntry(register));
    let [E::RegisterEntry(cell)] = read.as_slice() else { panic!("{read:?}") };
    assert_eq!(cell.data.as_ref().unwrap().data, Some(bits(b"blue")));
    // A packet of the client's names the port by 32 bits.
    let out = v1::PacketOut {
        payload: frame.clone(),
        metadata: vec![
            v1::PacketMetadata { metadata_id: 1, value: vec![0, 0, 0, 7] },
            v1::PacketMetadata { metadata_id: 2, value: vec![0] },
        ],
    };
    let message =
        v1::StreamMessageRequest { update: Some(v1::stream_message_request::Update::Packet(out)) };
    let (stream, _second) = bed.device.open();
    bed.device.message(stream, common::arbitration(Some(2))).unwrap();
    bed.device.message(stream, message).map_err(|e| e.text).unwrap();
    let sent = (0..500).find_map(|_| far.take_within(std::time::Duration::from_millis(10)));
    assert_eq!(sent.expect("the packet left").data(), frame);
}

#[test]
fn a_p4info_that_does_not_fit_is_refused() {
    let built = compile(PROGRAM, p4::limits::Limits::default()).map_err(|e| e.text).unwrap();
    let bind = |info: &p4_runtime::proto::info::P4Info| {
        let l = &built.lowered;
        p4_runtime::schema::Schema::bind(info, &l.names, &l.program).unwrap_err().text
    };
    let mut info = built.info.clone();
    let vrfs = info.tables.iter_mut().find(|t| t.match_fields[0].name == "port").unwrap();
    vrfs.match_fields[0].bitwidth = 16;
    let text = bind(&info);
    assert!(text.ends_with("key `port`: 16 bits; its type `port_t` is translated to 32"), "{text}");
    let ternary = PROGRAM.replace("m.port: exact", "m.port: ternary");
    let built = compile(&ternary, p4::limits::Limits::default()).map_err(|e| e.text).unwrap();
    let l = &built.lowered;
    let bound = p4_runtime::schema::Schema::bind(&built.info, &l.names, &l.program);
    let text = bound.unwrap_err().text;
    assert!(text.ends_with("so that the key has to be exact or optional"), "{text}");
}
