//! `controller(pause)`: a packet waits for its controller, and goes on where it stopped when that resumes it.

use super::bed::*;
use crate::Event;
use openflow::syntax::{Context, parse_flow};
use openflow::{
    ErrorCode, FieldId, FlowMod, Message, PacketIn, Resume, Version, Xid, decode, encode,
};
use switch::EngineKind;

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(Version::V15));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn packet_in(bed: &mut Bed) -> PacketIn {
    bed.event(|event| match event {
        Event::PacketIn(packet) => Some(packet.clone()),
        _ => None,
    })
}

/// What a controller sends back, through its bytes.
fn resumed(packet: &PacketIn, version: Version) -> Request {
    let resume = Resume {
        data: packet.data.clone(),
        matching: packet.matching.clone(),
        continuation: packet.continuation.clone(),
    };
    let bytes = encode(version, Xid(3), &Message::Resume(Box::new(resume))).unwrap();
    let (_, message) = decode(version, &bytes).unwrap();
    assert!(matches!(message, Message::Resume(_)));
    Request(version, message)
}

fn each(flows: &[&str], f: impl Fn(&mut Bed)) {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let mut bed = Bed::by(engine, program(), 3);
        for line in flows {
            bed.ok(flow(line));
        }
        f(&mut bed);
    }
}

#[test]
fn what_stands_behind_is_done_when_the_packet_is_resumed() {
    let flows = [
        "in_port=1 actions=set_field:7->reg3,set_field:0x4->metadata,resubmit(,1),output:3",
        "table=1,metadata=4 actions=set_field:00:00:00:00:00:07->eth_dst,\
         controller(userdata=01.02,pause),resubmit(,2)",
        "table=2,reg3=7 actions=output:2",
        "table=2,reg3=8 actions=in_port",
    ];
    each(&flows, |bed| {
        for version in Version::ALL {
            bed.send(1, &frame(2, 1));
            let packet = packet_in(bed);
            assert_eq!(packet.userdata, [1, 2]);
            assert_eq!(packet.matching.exact(FieldId::Reg3), Some(7));
            assert_eq!(packet.matching.exact(FieldId::Metadata), Some(4));
            bed.silent(2);
            bed.silent(3);
            bed.ok(resumed(&packet, version));
            assert_eq!(bed.receive(2), frame(7, 1));
            // The controller changes the packet, and what is known of it.
            let mut changed = packet.clone();
            changed.data[5] = 9;
            changed.matching.set(FieldId::Reg3, 8);
            bed.ok(resumed(&changed, version));
            assert_eq!(bed.receive(1), frame(9, 1));
        }
    });
}

#[test]
fn instructions_behind_it_wait_too_and_a_clone_waits_alone() {
    let flows = [
        "in_port=1 actions=controller(pause),set_field:5->reg0,write_metadata:6,goto_table:1",
        "table=1,reg0=5,metadata=6 actions=output:2",
        "in_port=2 actions=clone(controller(userdata=07),controller(pause),output:1),output:3",
    ];
    each(&flows, |bed| {
        bed.send(1, &frame(2, 1));
        let packet = packet_in(bed);
        bed.silent(2);
        bed.ok(resumed(&packet, Version::V13));
        assert_eq!(bed.receive(2), frame(2, 1));
        bed.send(2, &frame(2, 1));
        assert_eq!(bed.receive(3), frame(2, 1), "the packet itself does not wait");
        let waits = bed.event(|event| match event {
            Event::PacketIn(packet) if packet.userdata.is_empty() => Some(packet.clone()),
            _ => None,
        });
        bed.ok(resumed(&waits, Version::V15));
        assert_eq!(bed.receive(1), frame(2, 1));
        bed.silent(3);
    });
}

#[test]
fn what_cannot_wait_or_be_resumed_is_refused() {
    let mut bed = Bed::new(2);
    let behind = "actions=controller(pause),learn(table=1,NXM_OF_ETH_DST[])";
    assert_eq!(bed.refused(flow(behind)), ErrorCode::BacBadArgument);
    let twice = "actions=controller(pause),controller(userdata=01)";
    assert_eq!(bed.refused(flow(twice)), ErrorCode::BacBadArgument);
    bed.ok(flow("in_port=1 actions=controller(pause),output:2"));
    bed.send(1, &frame(2, 1));
    let packet = packet_in(&mut bed);
    let broken = |f: fn(&mut PacketIn)| {
        let mut packet = packet.clone();
        f(&mut packet);
        resumed(&packet, Version::V15)
    };
    assert_eq!(bed.refused(broken(|p| p.continuation.clear())), ErrorCode::BrcBadLen);
    assert_eq!(bed.refused(broken(|p| p.continuation.truncate(40))), ErrorCode::BrcBadLen);
    assert_eq!(bed.refused(broken(|p| p.data.truncate(3))), ErrorCode::BrcBadPacket);
    bed.ok(resumed(&packet, Version::V15));
    assert_eq!(bed.receive(2), frame(2, 1));
}
