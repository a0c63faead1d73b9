//! `controller(pause)`: a packet waits for its controller, and goes on where it stopped when that resumes it.

use super::bed::*;
use crate::Event;
use openflow::syntax::{Context, parse_flow, parse_group};
use openflow::{
    ErrorCode, FieldId, FlowMod, Match, Message, PacketIn, PacketOut, PortNo, Resume, Version, Xid,
    decode, encode,
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
            assert_eq!(bed.receive(3), frame(7, 1));
            // The controller changes the packet, and what is known of it.
            let mut changed = packet.clone();
            changed.data[5] = 9;
            changed.matching.set(FieldId::Reg3, 8);
            bed.ok(resumed(&changed, version));
            assert_eq!(bed.receive(1), frame(9, 1));
            assert_eq!(bed.receive(3), frame(9, 1));
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
fn a_packet_goes_on_in_all_that_led_to_where_it_waits_and_each_is_done_once() {
    let flows = [
        "in_port=1 actions=set_field:1->reg0,push:NXM_NX_REG0[],resubmit(,1),output:2,pop:NXM_NX_REG4[],resubmit(,4)",
        "table=1 actions=set_field:2->reg0,push:NXM_NX_REG0[],resubmit(,2),set_field:00:00:00:00:00:08->eth_dst,output:3",
        "table=2 actions=controller(pause),set_field:00:00:00:00:00:07->eth_dst,write_metadata:9,goto_table:3",
        "table=3,metadata=9 actions=pop:NXM_NX_REG3[],in_port",
        // What was on the stack came back in its order.
        "table=4,reg3=2,reg4=1 actions=set_field:00:00:00:00:00:09->eth_dst,output:2",
    ];
    each(&flows, |bed| {
        bed.send(1, &frame(2, 1));
        let packet = packet_in(bed);
        (1..=3).for_each(|port| bed.silent(port));
        bed.ok(resumed(&packet, Version::V15));
        assert_eq!(bed.receive(1), frame(7, 1));
        assert_eq!(bed.receive(3), frame(8, 1));
        assert_eq!(bed.receive(2), frame(8, 1));
        assert_eq!(bed.receive(2), frame(9, 1));
        (1..=3).for_each(|port| bed.silent(port));
    });
}

#[test]
fn the_action_set_waits_too() {
    let flows = [
        "in_port=1 actions=write_actions(set_field:00:00:00:00:00:07->eth_dst,output:2),goto_table:1",
        "table=1 actions=resubmit(,2),output:3",
        "table=2 actions=controller(pause)",
        // What is cleared behind the pause is gone; what is written is there.
        "in_port=2 actions=write_actions(output:1),goto_table:3",
        "table=3 actions=controller(pause),clear_actions,write_actions(output:3)",
    ];
    each(&flows, |bed| {
        bed.send(1, &frame(2, 1));
        let packet = packet_in(bed);
        bed.silent(2);
        bed.ok(resumed(&packet, Version::V10));
        assert_eq!(bed.receive(3), frame(2, 1));
        assert_eq!(bed.receive(2), frame(7, 1));
        (1..=3).for_each(|port| bed.silent(port));
        bed.send(2, &frame(2, 1));
        let packet = packet_in(bed);
        bed.ok(resumed(&packet, Version::V15));
        assert_eq!(bed.receive(3), frame(2, 1));
        (1..=3).for_each(|port| bed.silent(port));
    });
}

#[test]
fn a_bucket_s_copy_waits_alone_and_by_a_group_of_the_action_set_too() {
    let group = |line: &str| {
        let group = parse_group(line, &Context::new(Version::V15));
        group.unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    let engines = [EngineKind::Interp, EngineKind::default()];
    for engine in engines {
        let mut bed = Bed::by(engine, program(), 3);
        bed.ok(Request(Version::V15, Message::GroupMod(group(
            "group_id=1,type=all,bucket=actions=set_field:00:00:00:00:00:07->eth_dst,controller(userdata=05,pause),output:2,\
             bucket=actions=set_field:00:00:00:00:00:08->eth_dst,output:3",
        ))));
        bed.ok(Request(
            Version::V15,
            Message::GroupMod(group(
                "group_id=2,type=select,bucket=weight:1,actions=resubmit(,2),output:3",
            )),
        ));
        bed.ok(flow("in_port=1 actions=group:1,in_port"));
        bed.ok(flow("in_port=2 actions=write_actions(group:2)"));
        bed.ok(flow(
            "table=2 actions=controller(pause),set_field:00:00:00:00:00:09->eth_dst,output:1",
        ));
        bed.send(1, &frame(2, 1));
        let packet = packet_in(&mut bed);
        assert_eq!(packet.userdata, [5]);
        assert_eq!(bed.receive(3), frame(8, 1), "the other bucket does not wait");
        assert_eq!(bed.receive(1), frame(2, 1), "nor does the packet");
        bed.silent(2);
        bed.ok(resumed(&packet, Version::V13));
        assert_eq!(bed.receive(2), frame(7, 1));
        (1..=3).for_each(|port| bed.silent(port));
        // In a table that a bucket leads to, of a group in the action set.
        bed.send(2, &frame(2, 1));
        let packet = packet_in(&mut bed);
        (1..=3).for_each(|port| bed.silent(port));
        bed.ok(resumed(&packet, Version::V13));
        assert_eq!(bed.receive(1), frame(9, 1));
        assert_eq!(bed.receive(3), frame(9, 1));
        (1..=3).for_each(|port| bed.silent(port));
    }
}

#[test]
fn a_clone_that_waits_in_a_table_goes_on_alone() {
    let flows = [
        "in_port=1 actions=clone(resubmit(,1),output:2),output:3",
        "table=1 actions=controller(pause),set_field:00:00:00:00:00:07->eth_dst",
    ];
    each(&flows, |bed| {
        bed.send(1, &frame(2, 1));
        let packet = packet_in(bed);
        assert_eq!(bed.receive(3), frame(2, 1));
        bed.silent(2);
        bed.ok(resumed(&packet, Version::V15));
        assert_eq!(bed.receive(2), frame(7, 1));
        (1..=3).for_each(|port| bed.silent(port));
    });
}

#[test]
fn a_packet_waits_again_behind_where_it_was_resumed() {
    let flows = [
        "in_port=1 actions=resubmit(,1),controller(userdata=02,pause),output:2",
        "table=1 actions=controller(userdata=01,pause),resubmit(,2),output:3",
        "table=2 actions=controller(userdata=03,pause),set_field:00:00:00:00:00:07->eth_dst",
    ];
    each(&flows, |bed| {
        bed.send(1, &frame(2, 1));
        for userdata in [1, 3, 2] {
            let packet = packet_in(bed);
            assert_eq!(packet.userdata, [userdata]);
            bed.silent(2);
            bed.ok(resumed(&packet, Version::V15));
        }
        assert_eq!(bed.receive(3), frame(7, 1));
        assert_eq!(bed.receive(2), frame(7, 1));
        (1..=3).for_each(|port| bed.silent(port));
    });
}

#[test]
fn packets_of_the_controller_s_own_wait_as_well_and_learn() {
    let flows = ["table=1 actions=controller(pause),output:2"];
    each(&flows, |bed| {
        let actions =
            flow("actions=resubmit(,1),learn(table=6,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),output:3");
        let [openflow::Instruction::ApplyActions(actions)] = &actions.instructions[..] else {
            panic!("{actions:?}")
        };
        let data = frame(2, 1);
        let request = PacketOut {
            buffer_id: None,
            in_port: PortNo::CONTROLLER,
            pipeline: Match::new(),
            actions: actions.to_vec(),
            data,
        };
        bed.ok(Request(Version::V13, Message::PacketOut(request)));
        let packet = packet_in(bed);
        bed.ok(resumed(&packet, Version::V13));
        assert_eq!(bed.receive(2), frame(2, 1));
        assert_eq!(bed.receive(3), frame(2, 1));
        bed.until("it is learned", |bed| bed.agent.flows().len(6) == 1);
        (1..=3).for_each(|port| bed.silent(port));
    });
}

#[test]
fn what_cannot_be_resumed_is_refused() {
    let mut bed = Bed::new(2);
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
