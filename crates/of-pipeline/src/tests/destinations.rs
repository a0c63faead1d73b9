//! Destinations of actions, in several versions and by both engines: queues, the type of service, tags, flags of
//! TCP, the ingress port and the metadata. `fields` has what a field is as a whole.

use super::bed::*;
use super::fields::{each, flow, tagged, udp};
use openflow::PortNo;
use openflow::{MultipartReplyBody, MultipartRequestBody, QueueId, QueueStatsRequest, Version};
use switch::EngineKind;
use switch::queues::Setting;

const VERSIONS: [Version; 4] = [Version::V10, Version::V13, Version::V14, Version::V15];
const WITH_TABLES: [Version; 3] = [Version::V13, Version::V14, Version::V15];

/// Packets that left by each queue of a port.
fn by_queue(bed: &mut Bed, port: u32) -> Vec<(u32, u64)> {
    let request = QueueStatsRequest { port_no: PortNo(port), queue_id: QueueId::ALL };
    let parts = bed.ask(V13, MultipartRequestBody::Queue(request));
    let [MultipartReplyBody::Queue(stats)] = &parts[..] else { panic!("{parts:?}") };
    stats.iter().map(|s| (s.queue_id.0, s.tx_packets)).collect()
}

/// `enqueue` is about its own output alone, and `pop_queue` gives back the default queue.
#[test]
fn packets_leave_by_the_queue_that_they_are_given() {
    let flows = [
        "in_port=1 actions=enqueue:2:7,output:2,set_queue:1,output:2,output:2,pop_queue,output:2,enqueue:2:7",
        "in_port=3 actions=set_queue:7,pop_queue,output:2",
    ];
    for engine in [EngineKind::Interp, EngineKind::default()] {
        for version in VERSIONS {
            let mut bed = Bed::by(engine.clone(), program(), 3);
            let settings = ["2,max=8G", "2:1,weight=2", "2:7,weight=3"];
            let settings = settings.map(|text| Setting::parse(text).unwrap());
            bed.agent.switch().set_queues(&settings).unwrap();
            flows.iter().for_each(|line| drop(bed.ok(flow(line, version))));
            bed.send(1, &frame(2, 1));
            bed.send(3, &frame(2, 1));
            (0..7).for_each(|_| drop(bed.receive(2)));
            let sent = |bed: &Bed| bed.agent.switch().port_counters()[1].1.tx_packets;
            bed.until("all are counted", |bed| sent(bed) == 7);
            assert_eq!(by_queue(&mut bed, 2), [(0, 3), (1, 2), (7, 2)], "{engine:?}, {version}");
        }
    }
}

#[test]
fn the_type_of_service_is_pushed_and_popped() {
    let flows =
        ["ip,in_port=1 actions=push:NXM_OF_IP_TOS[],load:0x10->NXM_OF_IP_TOS[2..7],output:2,\
                  pop:NXM_OF_IP_TOS[],output:3"];
    each(&VERSIONS, &flows, |bed| {
        bed.send(1, &udp(0xb9, [0x64, 0x2a]));
        assert_eq!(bed.receive(2)[15], 0x41);
        assert_eq!(bed.receive(3), udp(0xb9, [0x64, 0x2a]));
    });
}

/// Runs a learner on port 1, then asks by port 2 with what was learned.
fn learned(learner: &str, version: Version, first: &[u8], test: impl Fn(&Bed)) {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let mut bed = Bed::by(engine, program(), 3);
        let asks = "in_port=2 actions=resubmit(,2)";
        [learner, asks].iter().for_each(|line| drop(bed.ok(flow(line, version))));
        bed.send(1, first);
        bed.receive(3);
        bed.until("an entry is learned", |bed| bed.agent.flows().len(2) > 0);
        test(&bed);
    }
}

#[test]
fn types_of_service_and_tags_are_learned_by_both_engines() {
    for version in VERSIONS {
        let tos = "in_port=1,ip actions=learn(table=2,eth_type=0x800,NXM_OF_IP_TOS[],\
                   load:0->NXM_OF_IP_TOS[],output:NXM_OF_IN_PORT[]),output:3";
        learned(tos, version, &udp(0xb8, [0x64, 0x2b]), |bed| {
            bed.send(2, &udp(0xb8, [0x64, 0x2b]));
            assert_eq!(bed.receive(1)[15], 0);
            bed.send(2, &udp(0x20, [0x64, 0xc3]));
            bed.silent(1);
        });
        let tag = "in_port=1 actions=learn(table=2,NXM_OF_VLAN_TCI[],load:0->NXM_OF_VLAN_TCI[],\
                   output:NXM_OF_IN_PORT[]),output:3";
        learned(tag, version, &tagged(&frame(2, 1), 0x4003), |bed| {
            bed.send(2, &tagged(&frame(2, 1), 0x4003));
            assert_eq!(bed.receive(1), frame(2, 1));
            bed.send(2, &tagged(&frame(2, 1), 0x6003));
            bed.silent(1);
        });
    }
}

/// An entry that was learned writes metadata, and the port that the packet came in by.
#[test]
fn what_is_learned_writes_metadata_and_the_ingress_port() {
    let learner = "in_port=1 actions=learn(table=2,NXM_OF_ETH_SRC[],load:0x2a->OXM_OF_METADATA[0..7],\
                   load:3->NXM_OF_IN_PORT[],output:NXM_OF_IN_PORT[]),output:3";
    for version in VERSIONS {
        learned(learner, version, &frame(2, 1), |bed| {
            bed.send(2, &frame(2, 1));
            assert_eq!(bed.receive(1), frame(2, 1));
        });
    }
}

#[test]
fn the_ingress_port_and_metadata_are_moved_to_and_loaded_in_part() {
    let flows = [
        // As if it had come in by port 3, which is what the destination's last octet says.
        "in_port=1 actions=move:NXM_OF_ETH_DST[0..15]->NXM_OF_IN_PORT[],resubmit(,1)",
        // 2 becomes 3 by its lowest bit.
        "in_port=2 actions=load:1->NXM_OF_IN_PORT[0],move:NXM_OF_ETH_DST[0..15]->OXM_OF_METADATA[8..23],resubmit(,1)",
        "table=1,in_port=3,metadata=0 actions=output:2",
        "table=1,in_port=3,metadata=0x300 actions=output:1",
    ];
    each(&WITH_TABLES, &flows, |bed| {
        bed.send(1, &frame(3, 1));
        assert_eq!(bed.receive(2), frame(3, 1));
        bed.send(2, &frame(3, 1));
        assert_eq!(bed.receive(1), frame(3, 1));
        bed.silent(3);
    });
}

/// The first live link is port 2, which a port's number and a register's bits hold alike.
#[test]
fn bundles_and_multipath_write_metadata_and_the_ingress_port() {
    let flows = [
        "in_port=1 actions=bundle_load(eth_src,0,active_backup,ofport,OXM_OF_METADATA[4..19],members:2,3),resubmit(,1)",
        "in_port=2 actions=bundle_load(eth_src,0,active_backup,ofport,NXM_OF_IN_PORT[],members:3,1),resubmit(,1)",
        "in_port=3 actions=multipath(eth_src,0,modulo_n,1,0,OXM_OF_METADATA[0..3]),\
         multipath(eth_src,0,modulo_n,1,0,NXM_OF_IN_PORT[]),resubmit(,1)",
        "table=1,in_port=1,metadata=0x20 actions=output:2",
        "table=1,in_port=3,metadata=0 actions=output:1",
        "table=1,in_port=0,metadata=0 actions=output:1,output:2",
    ];
    each(&WITH_TABLES, &flows, |bed| {
        bed.send(1, &frame(2, 1));
        assert_eq!(bed.receive(2), frame(2, 1));
        bed.send(2, &frame(2, 1));
        assert_eq!(bed.receive(1), frame(2, 1));
        bed.send(3, &frame(2, 1));
        assert_eq!([bed.receive(1), bed.receive(2)], [frame(2, 1), frame(2, 1)]);
    });
}

/// A segment to port 80 with these flags.
fn tcp(flags: u8) -> Vec<u8> {
    let mut bytes = udp(0, [0x64, 0xe3]);
    bytes[23] = 6;
    bytes[36..38].copy_from_slice(&[0, 80]);
    bytes[38..50].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0, 0]);
    bytes
}

#[test]
fn flags_of_tcp_are_matched_masked_and_exactly_and_moved() {
    let flows = [
        "priority=9,in_port=1,tcp,tcp_flags=0x18 actions=output:2",
        "priority=8,in_port=1,tcp,tcp_flags=0x10/0x12 actions=output:3",
        "priority=7,in_port=1,tcp,tcp_flags=+syn-ack actions=output:2,output:3",
        "in_port=2,tcp actions=move:NXM_NX_TCP_FLAGS[0..11]->NXM_OF_ETH_DST[0..11],output:3",
    ];
    each(&WITH_TABLES, &flows, |bed| {
        bed.send(1, &tcp(0x18));
        assert_eq!(bed.receive(2), tcp(0x18), "exactly");
        bed.send(1, &tcp(0x11));
        assert_eq!(bed.receive(3), tcp(0x11), "masked");
        bed.send(1, &tcp(0x02));
        assert_eq!([bed.receive(2), bed.receive(3)], [tcp(0x02), tcp(0x02)]);
        bed.send(1, &tcp(0x12));
        bed.send(2, &tcp(0x12));
        assert_eq!(bed.receive(3)[4..6], [0, 0x12]);
        bed.silent(2);
    });
}

#[test]
fn flags_of_tcp_are_learned() {
    for version in VERSIONS {
        let learner = "in_port=1,tcp actions=learn(table=2,eth_type=0x800,nw_proto=6,NXM_NX_TCP_FLAGS[],\
                       output:NXM_OF_IN_PORT[]),output:3";
        learned(learner, version, &tcp(0x12), |bed| {
            bed.send(2, &tcp(0x12));
            assert_eq!(bed.receive(1), tcp(0x12));
            bed.send(2, &tcp(0x10));
            bed.silent(1);
        });
    }
}
