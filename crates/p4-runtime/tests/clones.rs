//! Clones have the length and the queue that their session says, and the packet itself does not.

#[allow(unreachable_pub)]
mod common;

use common::{bed_with, write};
use p4_runtime::proto::v1;
use std::time::Duration;
use switch::EngineKind;
use v1::entity::Entity as E;
use v1::packet_replication_engine_entry::Type as Pre;
use v1::update::Type;

/// Forwards from port 1 to port 2, and clones by session 5 where `KIND` says.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header e_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers { e_t e; }
struct meta { }
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(h.e); transition accept; }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t sm) {
    apply { sm.egress_spec = 2; INGRESS }
}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) {
    apply { if (sm.instance_type == 0) { EGRESS } }
}
control U(inout headers h, inout meta m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.e); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

fn session(ports: &[u8], length: i32, queue: u32) -> E {
    let replica = |port: &u8| v1::Replica {
        port_kind: Some(v1::replica::PortKind::Port(vec![*port])),
        instance: 0,
        backup_replicas: Vec::new(),
    };
    let of = v1::CloneSessionEntry {
        session_id: 5,
        replicas: ports.iter().map(replica).collect(),
        class_of_service: queue,
        packet_length_bytes: length,
    };
    let of = Some(Pre::CloneSessionEntry(of));
    E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: of })
}

//= p4runtime-1.5.0 §9.5: clones of a session are cut to its length, and leave by the queue of its class of service.
#[test]
fn clones_are_cut_and_have_a_queue() {
    let ingress = "clone(CloneType.I2E, 5);";
    let egress = "clone(CloneType.E2E, 5);";
    let frame: Vec<u8> = (0..100).collect();
    for (engine, at_ingress, ports) in [
        (EngineKind::Interp, true, &[3][..]),
        (EngineKind::default(), true, &[3]),
        (EngineKind::Interp, true, &[3, 4]),
        (EngineKind::default(), true, &[3, 4]),
        (EngineKind::Interp, false, &[3]),
        (EngineKind::default(), false, &[3]),
        (EngineKind::Interp, false, &[3, 4]),
        (EngineKind::default(), false, &[3, 4]),
    ] {
        let (first, second) = if at_ingress { (ingress, "") } else { ("", egress) };
        let text = PROGRAM.replace("INGRESS", first).replace("EGRESS", second);
        let bed = bed_with(&text, None, engine.clone());
        let mut far = Vec::new();
        for number in 1..5 {
            let config = port::memory::Config::default();
            let (near, end) = port::memory::port(&format!("p{number}"), config).unwrap();
            bed.switch.add_port(Some(number), Box::new(near)).unwrap();
            far.push(end);
        }
        let _told = bed.primary();
        for (kind, length, queue) in
            [(Type::Insert, 0, 0), (Type::Modify, 64, 3), (Type::Modify, 60_000, 1)]
        {
            bed.done(&write(kind, session(ports, length, queue)));
            assert_eq!(bed.read(session(&[], 0, 0)), [session(ports, length, queue)]);
            assert!(far[0].inject_bytes(&frame));
            let took = |n: usize| far[n].take_within(Duration::from_secs(20)).expect("a frame");
            let cut = if length == 0 { 100 } else { frame.len().min(length as usize) };
            let what = format!("{engine:?}, at ingress {at_ingress}, {ports:?}, {length}");
            assert_eq!(took(1).data(), frame, "{what}");
            for port in ports {
                let clone = took(usize::from(*port) - 1);
                assert_eq!(clone.data(), &frame[..cut], "{what}");
            }
            let traced = bed.switch.trace(1, &frame);
            let told = traced.outputs.iter().zip(traced.queues).zip(traced.cuts);
            let mut told: Vec<_> = told.map(|(((port, _), q), cut)| (*port, q, cut)).collect();
            told.sort_unstable();
            let most = (length > 0).then_some(length as u32);
            let clones = ports.iter().map(|p| (u32::from(*p), queue, most));
            let wanted: Vec<_> = std::iter::once((2, 0, None)).chain(clones).collect();
            assert_eq!(told, wanted, "{what}");
        }
        let many: Vec<u8> = (1..=17).collect();
        if !at_ingress {
            let told = bed.refused(&write(Type::Modify, session(&many, 0, 0)));
            assert!(told.0 == 12 && told.1.contains("16 is the most"), "{told:?}");
            bed.done(&write(Type::Modify, session(&many[..16], 0, 0)));
        }
        let told = bed.refused(&write(Type::Modify, session(ports, -1, 0)));
        assert_eq!(told.0, 3);
        assert!(told.1.contains("packet_length_bytes -1; 0 or more"), "{}", told.1);
    }
}
