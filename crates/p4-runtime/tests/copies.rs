//! What bmv2's tests ask of copies and of entries that are idle.

#[allow(unreachable_pub, reason = "shared by tests")]
mod common;

use common::{arbitration, bed, exact, write};
use p4_runtime::proto::v1;
use port::memory::{Config, Handle};
use std::time::Duration;
use v1::entity::Entity as E;
use v1::packet_replication_engine_entry::Type as Pre;
use v1::replica::PortKind;
use v1::update::Type;

/// Clones by the session that the first byte names: 1 in ingress, 2 in egress. The second byte tells the copy's number.
const PROGRAM: &str = "#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> session; bit<8> rid; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    table seen { key = { h.h.session: exact; } actions = { NoAction; } support_timeout = true; }
    apply {
        seen.apply();
        if (h.h.session == 1) { clone(CloneType.I2E, 1); }
        sm.egress_spec = 1;
    }
}
control G(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (h.h.session == 2 && sm.instance_type == 0) { EGRESS }
        h.h.rid = (bit<8>) sm.egress_rid;
    }
}
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), G(), U(), D()) main;
";

fn ports(bed: &common::Bed) -> Vec<Handle> {
    let port = |n: u32| {
        let (memory, far) = port::memory::port(&format!("p{n}"), Config::default()).unwrap();
        bed.switch.add_port(Some(n), Box::new(memory)).unwrap();
        far
    };
    (1..=3).map(port).collect()
}

fn session(session_id: u32, to: &[(u8, u32)]) -> E {
    let replica = |(port, instance): &(u8, u32)| v1::Replica {
        port_kind: Some(PortKind::Port(vec![*port])),
        instance: *instance,
        backup_replicas: Vec::new(),
    };
    let replicas = to.iter().map(replica).collect();
    let entry = v1::CloneSessionEntry { session_id, replicas, ..v1::CloneSessionEntry::default() };
    let pre = Some(Pre::CloneSessionEntry(entry));
    E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: pre })
}

fn rid(port: &Handle) -> u8 {
    port.take_within(Duration::from_secs(10)).expect("a frame comes out").data()[1]
}

#[test]
fn a_clone_has_the_number_of_its_replica() {
    let bed = bed(&PROGRAM.replace("EGRESS", ""));
    let ports = ports(&bed);
    let _told = bed.primary();
    let mut frame = [0; 60];
    frame[0] = 1;
    bed.done(&write(Type::Insert, session(1, &[(2, 7)])));
    ports[0].inject_bytes(&frame);
    assert_eq!((rid(&ports[0]), rid(&ports[1])), (0, 7));
    bed.done(&write(Type::Modify, session(1, &[(2, 8), (3, 9)])));
    ports[0].inject_bytes(&frame);
    assert_eq!((rid(&ports[0]), rid(&ports[1]), rid(&ports[2])), (0, 8, 9));
}

#[test]
fn a_clone_of_egress_has_it_too() {
    let bed = bed(&PROGRAM.replace("EGRESS", "clone(CloneType.E2E, 2);"));
    let ports = ports(&bed);
    let _told = bed.primary();
    let mut frame = [0; 60];
    frame[0] = 2;
    bed.done(&write(Type::Insert, session(2, &[(3, 5)])));
    ports[0].inject_bytes(&frame);
    assert_eq!((rid(&ports[0]), rid(&ports[2])), (0, 5));
}

/// A port that says how much waits.
struct Slow(port::memory::Memory);

impl port::Port for Slow {
    fn info(&self) -> &port::PortInfo {
        self.0.info()
    }

    fn link(&mut self) -> port::LinkState {
        self.0.link()
    }

    fn set_admin(&mut self, up: bool) -> Result<(), port::Error> {
        self.0.set_admin(up)
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn port::RxQueue>, port::Error> {
        self.0.rx_queue(queue)
    }

    fn tx_queue(&mut self) -> Result<Box<dyn port::TxQueue>, port::Error> {
        self.0.tx_queue()
    }

    fn tx_waiting(&mut self) -> u64 {
        20_000
    }
}

#[test]
fn a_program_sees_how_much_waits_at_a_port() {
    let program = PROGRAM.replace("EGRESS", "");
    let bed = bed(&program.replace("(bit<8>) sm.egress_rid", "(bit<8>) sm.enq_qdepth"));
    let (memory, far) = port::memory::port("p1", Config::default()).unwrap();
    bed.switch.add_port(Some(1), Box::new(Slow(memory))).unwrap();
    bed.device.tick();
    far.inject_bytes(&[0; 60]);
    // As many frames of 1,500 bytes as need so much of the kernel's memory.
    assert_eq!(rid(&far), 9);
}

/// An entry that is told of as idle is named by its key, without what it does.
#[test]
fn an_idle_entry_is_told_without_its_action() {
    let bed = bed(&PROGRAM.replace("EGRESS", ""));
    let (stream, mut told) = bed.device.open();
    bed.device.message(stream, arbitration(Some(1))).unwrap();
    let entry = v1::TableEntry {
        table_id: bed.id("I.seen"),
        r#match: vec![exact(1, &[4])],
        action: Some(common::action(bed.id("NoAction"), None)),
        idle_timeout_ns: 1_000_000,
        ..v1::TableEntry::default()
    };
    bed.done(&write(Type::Insert, E::TableEntry(entry.clone())));
    let idle = loop {
        bed.device.tick();
        let Ok(message) = told.try_recv() else {
            std::thread::yield_now();
            continue;
        };
        if let Some(v1::stream_message_response::Update::IdleTimeoutNotification(idle)) =
            message.unwrap().update
        {
            break idle;
        }
    };
    assert_eq!(idle.table_entry[0], v1::TableEntry { action: None, ..entry });
}
