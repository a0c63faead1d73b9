//! `resubmit`, `clone` and `bundle` on real packets, as ovs-actions(7) has them.

use super::bed::*;
use openflow::syntax::{self, Context, parse_flow};
use openflow::{Action, ErrorCode, FlowMod, Instruction, Match, PacketOut, PortNo, TableId};

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V13));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// A switch of three ports with these flows.
fn with(flows: &[&str]) -> Bed {
    let mut bed = Bed::new(3);
    flows.iter().for_each(|line| drop(bed.ok(flow(line))));
    bed
}

/// An IPv4 packet of UDP.
fn udp(src: u8, dst_port: u8, ttl: u8) -> Vec<u8> {
    let mut bytes = frame(2, 1);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..34]
        .copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 0, src, 10, 0, 1, 1]);
    bytes[34..42].copy_from_slice(&[0, 99, 0, dst_port, 0, 26, 0, 0]);
    bytes
}

#[test]
fn a_resubmit_comes_back_with_what_was_changed() {
    let mut bed = with(&[
        "in_port=1 actions=resubmit(,1),output:NXM_NX_REG0[],resubmit(,2),output:3",
        "table=1 actions=set_field:00:00:00:00:00:07->eth_dst,load:2->NXM_NX_REG0[]",
        // What a table misses is no reason to stop.
        "table=2,in_port=9 actions=output:2",
    ]);
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(2), frame(7, 2));
    assert_eq!(bed.receive(3), frame(7, 2));
    bed.silent(2);
    // The same table twice, and an earlier one; both entries count.
    bed.ok(flow("table=3 actions=resubmit(,1),resubmit(,1),output:2"));
    bed.ok(flow("in_port=2 actions=resubmit(,3),goto_table:4"));
    bed.ok(flow("table=4 actions=output:3"));
    bed.send(2, &frame(1, 2));
    assert_eq!(bed.receive(3), frame(7, 2), "and not back to port 2");
    let counts = |bed: &mut Bed| {
        let mut all: Vec<_> = bed.flows(TableId::ALL);
        all.sort_by_key(|f| (f.table_id, f.priority));
        all.into_iter().map(|f| (f.table_id.0, f.packet_count)).collect::<Vec<_>>()
    };
    let all = counts(&mut bed);
    let of = |table| all.iter().filter(|(t, _)| *t == table).map(|(_, n)| *n).sum::<u64>();
    assert_eq!([0, 1, 2, 3, 4].map(of), [2, 3, 0, 1, 1]);
}

#[test]
fn a_resubmit_by_another_port_is_for_the_lookup_alone() {
    let bed = with(&[
        "in_port=1 actions=resubmit(9,1),resubmit(,1)",
        "table=1,in_port=9 actions=resubmit(,2)",
        "table=1,in_port=1 actions=output:2",
        // The one below sees the port that the packet came by, and so does its action.
        "table=2,in_port=1 actions=set_field:00:00:00:00:00:05->eth_src,in_port",
    ]);
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(1), frame(1, 5));
    assert_eq!(bed.receive(2), frame(1, 5));
    // As if by the port, through the entries of a conjunctive flow, too.
    let bed = with(&[
        "in_port=1 actions=resubmit(3,1)",
        "table=1,in_port=3 actions=conjunction(7,1/2)",
        "table=1,dl_src=00:00:00:00:00:02 actions=conjunction(7,2/2)",
        "table=1,conj_id=7 actions=output:2",
    ]);
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(2), frame(1, 2));
    bed.send(1, &frame(1, 3));
    bed.silent(2);
}

#[test]
fn what_never_ends_is_dropped() {
    let mut bed = with(&["in_port=1 actions=resubmit(,0),output:2", "in_port=2 actions=output:3"]);
    bed.send(1, &frame(1, 2));
    bed.silent(2);
    bed.send(2, &frame(1, 2));
    assert_eq!(bed.receive(3), frame(1, 2));
    // Tables that are not there, and lists that cannot hold it.
    for line in ["in_port=3 actions=resubmit(,200)", "in_port=3 actions=clone(resubmit(1,8))"] {
        assert_eq!(bed.refused(flow(line)), ErrorCode::BacBadArgument, "{line}");
    }
    let written = "in_port=3 actions=write_actions(resubmit(,1))";
    assert_eq!(bed.refused(flow(written)), ErrorCode::BacBadType);
}

#[test]
fn written_actions_wait_for_the_end() {
    let mut bed = with(&[
        "in_port=1 actions=resubmit(,1),set_field:00:00:00:00:00:07->eth_dst",
        "table=1 actions=write_actions(output:2)",
        // A copy's are the copy's.
        "in_port=2 actions=clone(resubmit(,1)),output:3",
    ]);
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(2), frame(7, 2));
    bed.send(2, &frame(1, 2));
    assert_eq!(bed.receive(3), frame(1, 2));
    bed.silent(2);
    // A packet-out's, too.
    let list =
        syntax::parse_actions("resubmit(,1),mod_dl_dst:00:00:00:00:00:09", &Context::new(V13));
    let Instruction::ApplyActions(actions) = &list.unwrap()[0] else { panic!() };
    let request = PacketOut {
        buffer_id: None,
        in_port: PortNo::CONTROLLER,
        pipeline: Match::new(),
        actions: actions.clone(),
        data: frame(1, 2),
    };
    bed.ok(request);
    assert_eq!(bed.receive(2), frame(9, 2));
}

#[test]
fn a_meter_in_a_resubmit_drops_the_packet() {
    let mut bed = Bed::new(3);
    let meter = "meter=1,pktps,burst,bands=type=drop,rate=1,burst_size=1";
    bed.ok(syntax::parse_meter(meter, &Context::new(V13)).unwrap());
    bed.ok(flow("in_port=1 actions=resubmit(,1),output:2"));
    bed.ok(flow("table=1 actions=meter:1,output:3"));
    let passed = |bed: &mut Bed, port: usize| {
        let mut n = 0;
        while bed.far[port - 1].take().is_some() {
            n += 1;
        }
        n
    };
    for _ in 0..20 {
        bed.send(1, &frame(1, 2));
    }
    bed.silent(1);
    let (by_table, behind) = (passed(&mut bed, 3), passed(&mut bed, 2));
    assert_eq!(by_table, behind);
    assert!((1..20).contains(&behind), "{behind}");
}

#[test]
fn a_clone_changes_nothing_but_the_copy() {
    let mut bed = with(&[
        "in_port=1,udp actions=clone(dec_ttl,set_field:00:00:00:00:00:07->eth_dst,output:2,\
         clone(push_vlan:0x8100,output:2)),output:3",
    ]);
    bed.send(1, &udp(1, 2, 9));
    let copy = bed.receive(2);
    assert_eq!((copy[5], copy[22]), (7, 8));
    assert_eq!(bed.receive(2)[12..14], [0x81, 0]);
    assert_eq!(bed.receive(3), udp(1, 2, 9));
    // What ends the copy does not end the packet.
    bed.send(1, &udp(1, 2, 1));
    assert_eq!(bed.receive(3), udp(1, 2, 1));
    bed.silent(2);
    // Its groups and meters are the entry's.
    let group =
        syntax::parse_group("group_id=1,type=all,bucket=actions=output:2", &Context::new(V13));
    let in_2 = "in_port=2 actions=clone(group:1)";
    assert_eq!(bed.refused(flow(in_2)), ErrorCode::BacBadOutGroup);
    bed.ok(group.clone().unwrap());
    bed.ok(flow(in_2));
    assert_eq!(bed.flows(TableId::ALL).len(), 2);
    bed.ok(openflow::GroupMod {
        command: openflow::GroupModCommand::Delete,
        buckets: Vec::new(),
        ..group.unwrap()
    });
    assert_eq!(bed.flows(TableId::ALL).len(), 1);
    // What the copy is made of must be there for it, and not behind it.
    let pushed = "in_port=2,vlan_tci=0 actions=clone(push_vlan:0x8100,pop_vlan),pop_vlan";
    assert_eq!(bed.refused(flow(pushed)), ErrorCode::BacMatchInconsistent);
    let conjunctive = "in_port=2 actions=clone(conjunction(1,1/2))";
    assert_eq!(bed.refused(flow(conjunctive)), ErrorCode::BacBadArgument);
}

#[test]
fn a_bundle_s_first_live_member_is_taken() {
    let mut bed = with(&[
        "in_port=1 actions=bundle(eth_src,0,active_backup,ofport,members:2,3)",
        "in_port=2 actions=bundle_load(eth_src,0,active_backup,ofport,NXM_NX_REG1[0..15],members:7,3),\
         output:NXM_NX_REG1[0..15]",
    ]);
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(2), frame(1, 2));
    bed.send(2, &frame(1, 2));
    assert_eq!(bed.receive(3), frame(1, 2), "port 7 is not there");
    bed.far[1].set_carrier(false);
    let switch = bed.agent.switch().clone();
    bed.until("the link went down", |_| !switch.port(2).unwrap().is_live());
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(3), frame(1, 2));
    bed.far[2].set_carrier(false);
    bed.until("this one, too", |_| !switch.port(3).unwrap().is_live());
    bed.send(1, &frame(1, 2));
    bed.silent(2);
    let line = "in_port=3 actions=bundle(eth_src,0,hrw,ofport,members:in_port)";
    assert_eq!(bed.refused(flow(line)), ErrorCode::BacBadOutPort);
}

#[test]
fn a_bundle_by_weight_spreads_and_moves_only_what_it_must() {
    let mut bed = Bed::new(4);
    bed.ok(flow("in_port=1 actions=bundle(nw_src,5,hrw,ofport,members:2,3,4)"));
    let switch = bed.agent.switch().clone();
    let places = |bed: &mut Bed, ports: &[usize]| -> Vec<usize> {
        let place = |src: u8| {
            bed.send(1, &udp(src, 1, 9));
            let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
            loop {
                let found = ports.iter().find(|p| bed.far[**p - 1].take().is_some());
                match found {
                    Some(port) => return *port,
                    None => assert!(std::time::Instant::now() < until, "{src} went nowhere"),
                }
            }
        };
        (0..120).map(place).collect()
    };
    let before = places(&mut bed, &[2, 3, 4]);
    for port in [2, 3, 4] {
        let share = before.iter().filter(|p| **p == port).count();
        assert!((20..=60).contains(&share), "port {port}: {share} of 120");
    }
    assert_eq!(places(&mut bed, &[2, 3, 4]), before);
    bed.far[2].set_carrier(false);
    bed.until("the link went down", |_| !switch.port(3).unwrap().is_live());
    let after = places(&mut bed, &[2, 4]);
    for (before, after) in before.into_iter().zip(after) {
        assert!(before == 3 || before == after);
    }
}

#[test]
fn lists_say_what_they_hold() {
    let list = flow("in_port=1 actions=clone(output:1,clone(group:3)),output:2");
    let Instruction::ApplyActions(actions) = &list.instructions[0] else { panic!() };
    let flat: Vec<_> = Action::flat(actions).map(Action::action_type).collect();
    use openflow::ActionType::{Experimenter, Group, Output};
    assert_eq!(flat, [Experimenter(0x2320), Output, Experimenter(0x2320), Group, Output]);
}

#[test]
fn an_exit_ends_every_table_that_led_there() {
    let mut bed = with(&[
        // What stands behind an exit is not done, be it an action or an instruction.
        "in_port=1 actions=output:2,exit,output:3,goto_table:3",
        // One in a table comes back to none of those that led there; the action set is done, once.
        "in_port=2 actions=resubmit(,1),output:3,write_actions(output:1)",
        "table=1 actions=resubmit(,2),output:3,write_actions(output:3)",
        "table=2 actions=set_field:00:00:00:00:00:08->eth_dst,exit",
        "table=3 actions=output:3",
        // A copy ends alone.
        "in_port=3 actions=clone(output:1,exit,output:2),clone(resubmit(,2),output:1),output:2",
    ]);
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(2), frame(1, 2));
    bed.silent(3);
    bed.send(2, &frame(1, 2));
    bed.silent(3);
    bed.silent(1);
    bed.ok(flow("table=2 actions=write_actions(output:1)"));
    bed.ok(flow("table=2,priority=40000 actions=set_field:00:00:00:00:00:08->eth_dst,exit"));
    bed.ok(flow("table=1 actions=resubmit(,3),resubmit(,2),output:3"));
    bed.ok(flow("table=3 actions=write_actions(output:1)"));
    bed.send(2, &frame(1, 2));
    assert_eq!(bed.receive(1), frame(8, 2));
    bed.silent(1);
    bed.silent(3);
    bed.send(3, &frame(1, 2));
    assert_eq!(bed.receive(1), frame(1, 2));
    assert_eq!(bed.receive(2), frame(1, 2));
    bed.silent(1);
    // The compiled way: nothing in a table that a goto leads to.
    bed.ok(flow("in_port=1 actions=goto_table:4"));
    bed.ok(flow("table=4 actions=write_actions(output:2)"));
    bed.ok(flow("table=4,priority=40000 actions=output:3,exit,write_actions(output:2)"));
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(3), frame(1, 2));
    bed.silent(2);
    let exit = parse_flow("actions=write_actions(exit)", &Context::new(V13));
    if let Ok(request) = exit {
        assert_eq!(bed.refused(request), ErrorCode::BacBadType);
    }
}
