//! `ct` on real packets, as ovs-actions(7) and ovs-fields(7) have it.

use super::bed::*;
use openflow::syntax::{Context, parse_flow, print_actions, print_match};
use openflow::{CtFlush, CtTuple, ErrorCode, FlowMod, Instruction, TableId};
use service::craft::{Frame, checksums_are_right};
use std::net::IpAddr;
use wire::tcp::Flags;

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V13));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn with(flows: &[&str]) -> Bed {
    let mut bed = Bed::new(3);
    flows.iter().for_each(|line| drop(bed.ok(flow(line))));
    bed
}

fn v4(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

type End = (IpAddr, u16);

fn tcp(src: End, dst: End, flags: Flags, numbers: (u32, u32)) -> Vec<u8> {
    Frame::tcp(src, dst, flags, numbers, 10).bytes()
}

const INSIDE: u8 = 1;
const OUTSIDE: u8 = 2;

/// The firewall of Open vSwitch's tutorial: port 1 is inside, who opens connections; port 2 is not.
const FIREWALL: [&str; 6] = [
    "priority=10,arp actions=normal",
    "priority=5,ct_state=-trk,ip actions=ct(table=1)",
    "table=1,in_port=1,ip,ct_state=+trk+new actions=ct(commit),2",
    "table=1,in_port=1,ip,ct_state=+trk+est actions=2",
    "table=1,in_port=2,ip,ct_state=+trk+est actions=1",
    "table=1,in_port=2,ip,ct_state=+trk+new actions=drop",
];

#[test]
fn a_stateful_firewall_lets_answers_in_and_nothing_else() {
    let bed = with(&FIREWALL);
    let (a, b) = ((v4(INSIDE), 1000), (v4(OUTSIDE), 80));
    bed.send(2, &tcp(b, a, Flags::SYN, (1, 0)));
    bed.send(2, &tcp(b, a, Flags::SYN | Flags::ACK, (1, 2)));
    bed.silent(1);
    let syn = Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes();
    bed.send(1, &syn);
    assert_eq!(bed.receive(2), syn);
    let answer = Frame::tcp(b, a, Flags::SYN | Flags::ACK, (7, 2), 0).bytes();
    bed.send(2, &answer);
    assert_eq!(bed.receive(1), answer);
    let data = tcp(a, b, Flags::ACK, (2, 8));
    bed.send(1, &data);
    assert_eq!(bed.receive(2), data);
    // Outside of the window it belongs to no connection; nor does it from another port.
    bed.send(2, &tcp(b, a, Flags::ACK, (1 << 30, 12)));
    bed.send(2, &tcp((v4(OUTSIDE), 81), a, Flags::SYN, (7, 2)));
    bed.silent(1);
    let data = tcp(b, a, Flags::ACK, (8, 12));
    bed.send(2, &data);
    assert_eq!(bed.receive(1), data);
}

#[test]
fn the_original_goes_on_and_knows_nothing() {
    // The copy goes to table 1 with what is known; the packet itself to port 3, without.
    let bed = with(&[
        "ip actions=ct(table=1),resubmit(,2),ct(commit),resubmit(,2)",
        "table=1,ct_state=+new+trk,ct_nw_src=10.0.0.1,ct_tp_dst=80,ct_nw_proto=6 actions=2",
        "table=2,ct_state=0 actions=3",
    ]);
    let syn = Frame::tcp((v4(1), 1000), (v4(2), 80), Flags::SYN, (1, 0), 0).bytes();
    bed.send(1, &syn);
    assert_eq!(bed.receive(2), syn);
    assert_eq!(bed.receive(3), syn);
    assert_eq!(bed.receive(3), syn);
    bed.silent(2);
    // What an action set holds is done by the copy, and by the packet itself.
    let bed = with(&[
        "ip actions=write_actions(output:3),goto_table:1",
        "table=1,ip actions=ct(table=2)",
        "table=2 actions=2",
    ]);
    bed.send(1, &syn);
    assert_eq!(bed.receive(3), syn);
    assert_eq!(bed.receive(3), syn);
    assert_eq!(bed.receive(2), syn);
    bed.silent(3);
}

#[test]
fn what_led_to_a_table_whose_packets_are_tracked_goes_on_with_the_original() {
    for later in [2, 1] {
        let bed = with(&[
            "in_port=1,ip actions=resubmit(,1),resubmit(,3)",
            &format!("table=1,ct_state=-trk,ip actions=ct(table={later})"),
            "table=1,ct_state=+trk,ip actions=set_field:00:00:00:00:00:07->eth_dst,output:3",
            "table=2,ip actions=set_field:00:00:00:00:00:07->eth_dst,output:3",
            "table=3,ip,ct_state=-trk actions=output:2",
        ]);
        let syn = Frame::tcp((v4(1), 1000), (v4(2), 80), Flags::SYN, (1, 0), 0).bytes();
        bed.send(1, &syn);
        assert_eq!(bed.receive(2), syn);
        assert_eq!(bed.receive(3)[..6], [0, 0, 0, 0, 0, 7]);
        bed.silent(2);
        bed.silent(3);
    }
}

#[test]
fn back_to_the_same_table_and_clear() {
    let bed = with(&[
        "priority=9,ip,ct_state=+trk,in_port=1 actions=ct_clear,resubmit(,3)",
        "priority=1,ip,in_port=1 actions=ct(table=0,zone=7)",
        "table=3,ip,ct_state=0,ct_zone=0 actions=2",
        // For ever, if it were not for a bound.
        "priority=1,ip,in_port=2 actions=ct(table=0)",
    ]);
    let syn = Frame::tcp((v4(1), 1000), (v4(2), 80), Flags::SYN, (1, 0), 0).bytes();
    bed.send(1, &syn);
    assert_eq!(bed.receive(2), syn);
    bed.send(2, &syn);
    bed.silent(1);
    bed.send(1, &syn);
    assert_eq!(bed.receive(2), syn);
}

#[test]
fn marks_labels_and_zones() {
    let bed = with(&[
        "in_port=1,ip actions=load:5->NXM_NX_REG1[],load:0x1234->NXM_NX_REG2[],\
         ct(commit,zone=NXM_NX_REG1[0..15],exec(load:0x3->NXM_NX_CT_MARK[4..7],\
         move:NXM_NX_REG2[0..15]->NXM_NX_CT_LABEL[64..79])),3",
        "in_port=2,ip actions=ct(table=1,zone=5)",
        "in_port=3,ip actions=ct(table=1,zone=6)",
        "table=1,ct_zone=5,ct_state=+est+rpl,ct_mark=0x30/0xf0,\
         ct_label=0x12340000000000000000/0xffff0000000000000000 actions=in_port",
        "table=1,priority=1,ct_zone=6,ct_state=+inv actions=1",
    ]);
    let (a, b) = ((v4(1), 1000), (v4(2), 80));
    let syn = Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes();
    bed.send(1, &syn);
    assert_eq!(bed.receive(3), syn);
    let answer = Frame::tcp(b, a, Flags::SYN | Flags::ACK, (7, 2), 0).bytes();
    bed.send(2, &answer);
    assert_eq!(bed.receive(2), answer);
    bed.send(3, &answer);
    assert_eq!(bed.receive(1), answer, "the zone has no such connection");
}

#[test]
fn sources_and_destinations_are_translated_both_ways() {
    let bed = with(&[
        "in_port=1,tcp,ct_state=-trk actions=ct(table=1,zone=1,nat)",
        "in_port=2,tcp,ct_state=-trk actions=ct(table=1,zone=1,nat)",
        "table=1,in_port=1,tcp,ct_state=+new actions=ct(commit,zone=1,nat(src=10.0.0.100-10.0.0.100:5000-5100)),2",
        "table=1,in_port=2,tcp,ct_state=+new actions=ct(commit,zone=1,nat(dst=10.0.0.1:8080)),1",
        "table=1,in_port=1,tcp,ct_state=+est actions=2",
        "table=1,in_port=2,tcp,ct_state=+est actions=1",
    ]);
    let (a, b) = ((v4(1), 1000), (v4(2), 80));
    let frame = |src, dst, flags, numbers| Frame::tcp(src, dst, flags, numbers, 0).bytes();
    bed.send(1, &frame(a, b, Flags::SYN, (1, 0)));
    let out = bed.receive(2);
    assert!(checksums_are_right(&out));
    assert_eq!(out[26..30], [10, 0, 0, 100]);
    let port = u16::from_be_bytes([out[34], out[35]]);
    assert!((5000..=5100).contains(&port), "{port}");
    // Sent again, it is the same connection's.
    bed.send(1, &frame(a, b, Flags::SYN, (1, 0)));
    assert_eq!(bed.receive(2), out);
    let outside = (v4(100), port);
    bed.send(2, &frame(b, outside, Flags::SYN | Flags::ACK, (7, 2)));
    assert_eq!(bed.receive(1), frame(b, a, Flags::SYN | Flags::ACK, (7, 2)));
    bed.send(1, &frame(a, b, Flags::ACK, (2, 8)));
    assert_eq!(bed.receive(2), frame(outside, b, Flags::ACK, (2, 8)));
    // The other way, to a server inside.
    let (c, service) = ((v4(3), 4000), (v4(50), 80));
    bed.send(2, &frame(c, service, Flags::SYN, (5, 0)));
    assert_eq!(bed.receive(1), frame(c, (v4(1), 8080), Flags::SYN, (5, 0)));
    bed.send(1, &frame((v4(1), 8080), c, Flags::SYN | Flags::ACK, (9, 6)));
    assert_eq!(bed.receive(2), frame(service, c, Flags::SYN | Flags::ACK, (9, 6)));
}

/// A trace shows the address and port that a packet would leave with, by each engine, and opens nothing.
#[test]
fn a_trace_shows_what_a_translation_makes_of_a_packet() {
    for engine in [switch::EngineKind::Interp, switch::EngineKind::default()] {
        let mut bed = Bed::by(engine, program(), 3);
        for line in [
            "in_port=1,tcp,ct_state=-trk actions=ct(table=1,zone=1,nat)",
            "in_port=2,tcp,ct_state=-trk actions=ct(table=1,zone=1,nat)",
            "table=1,in_port=1,tcp,ct_state=+new actions=ct(commit,zone=1,nat(src=10.0.0.100:5000-5100),exec(load:7->NXM_NX_CT_MARK[])),2",
            "table=1,in_port=2,tcp,ct_state=+est,ct_mark=7 actions=1",
            "table=1,in_port=2,tcp,ct_state=+new actions=ct(commit,zone=1,nat(dst=10.0.0.1:8080),table=2)",
            "table=2,tcp,ct_state=+new+dnat,nw_dst=10.0.0.1 actions=3",
        ] {
            drop(bed.ok(flow(line)));
        }
        let (a, b) = ((v4(1), 5050), (v4(2), 80));
        let frame = |src, dst, flags, numbers| Frame::tcp(src, dst, flags, numbers, 0).bytes();
        let syn = frame(a, b, Flags::SYN, (1, 0));
        let trace = |bed: &Bed, port, frame: &[u8]| bed.agent.switch().trace(port, frame).outputs;
        let told = trace(&bed, 1, &syn);
        assert_eq!(told, trace(&bed, 1, &syn), "nothing was kept");
        bed.send(1, &syn);
        let out = bed.receive(2);
        assert_eq!(told, [(2, out.clone())], "the port that it then has");
        assert!(checksums_are_right(&out));
        let outside = (v4(100), u16::from_be_bytes([out[34], out[35]]));
        let answer = frame(b, outside, Flags::SYN | Flags::ACK, (7, 2));
        assert_eq!(trace(&bed, 2, &answer), [(1, frame(b, a, Flags::SYN | Flags::ACK, (7, 2)))]);
        // To a server inside, and on in a table that looks for what the translation made.
        let (c, service) = ((v4(3), 4000), (v4(50), 80));
        let told = trace(&bed, 2, &frame(c, service, Flags::SYN, (5, 0)));
        assert_eq!(told, [(3, frame(c, (v4(1), 8080), Flags::SYN, (5, 0)))]);
    }
}

/// A packet of either direction is looked up as its connection's first one was, and stays what it is.
#[test]
fn a_resubmit_sees_a_packet_as_its_connection_s_first_one() {
    let v6 = |n: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]);
    for engine in [switch::EngineKind::Interp, switch::EngineKind::default()] {
        let mut bed = Bed::by(engine.clone(), program(), 3);
        for line in [
            "in_port=1,ip actions=ct(commit),2",
            "in_port=1,ipv6 actions=ct(commit),2",
            "in_port=2,ip actions=ct(table=1)",
            "in_port=2,ipv6 actions=ct(table=1)",
            // Seen as the first one, then as itself.
            "table=1 actions=resubmit(,2,ct),resubmit(,3)",
            "table=2,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1000,tp_dst=80,in_port=2 actions=1",
            "table=2,tcp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tp_dst=80,in_port=2 actions=1",
            "table=2,udp,nw_src=10.0.0.1,tp_src=1000,tp_dst=53 actions=1",
            "table=3,priority=9,tcp,nw_src=10.0.0.2,nw_dst=10.0.0.1,tp_src=80,tp_dst=1000 actions=3",
            "table=3,priority=9,tcp6,ipv6_src=fd00::2,tp_src=80 actions=3",
            "table=3,priority=9,icmp,nw_src=10.0.0.9,icmp_type=3 actions=3",
        ] {
            bed.ok(flow(line));
        }
        let connections = [((v4(1), 1000), (v4(2), 80)), ((v6(1), 1000), (v6(2), 80))];
        for (a, b) in connections {
            let syn = Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes();
            bed.send(1, &syn);
            assert_eq!(bed.receive(2), syn);
            let answer = Frame::tcp(b, a, Flags::SYN | Flags::ACK, (7, 2), 0).bytes();
            bed.send(2, &answer);
            assert_eq!(bed.receive(1), answer);
            assert_eq!(bed.receive(3), answer);
        }
        // An error has no ports: it is of the connection that its quotation is of.
        let query = Frame::udp((v4(1), 1000), (v4(2), 53), 8);
        bed.send(1, &query.bytes());
        assert_eq!(bed.receive(2), query.bytes());
        let error = query.error(v4(9), 3, 1, 60).bytes();
        bed.send(2, &error);
        assert_eq!(bed.receive(1), error);
        assert_eq!(bed.receive(3), error);
        // A new connection's first packet is itself.
        let new = Frame::udp((v4(1), 1000), (v4(3), 53), 8).bytes();
        bed.send(2, &new);
        assert_eq!(bed.receive(1), new);
        (1..=3).for_each(|port| bed.silent(port));
    }
}

/// The first packet had the address that it was sent to, not the one that it was translated to; both tuples change
/// places; another port may be told with it; a bucket may do it.
#[test]
fn a_resubmit_by_the_connection_knows_what_was_before_translation() {
    for engine in [switch::EngineKind::Interp, switch::EngineKind::default()] {
        let mut bed = Bed::by(engine.clone(), program(), 3);
        let group = "group_id=1,type=all,bucket=actions=resubmit(,5,ct)";
        bed.ok(openflow::syntax::parse_group(group, &Context::new(openflow::Version::V15)).unwrap());
        for line in [
            "in_port=1,ip actions=ct(commit,nat(dst=10.0.0.9:8080),table=1)",
            "table=1,in_port=1,ip actions=2",
            "in_port=2,ip actions=ct(nat,table=2)",
            "table=2,ip actions=resubmit(3,4,ct),resubmit(,6),group:1",
            "table=4,in_port=3,ct_state=+trk+rpl,tcp,nw_dst=10.0.0.2,tp_dst=80,ct_nw_src=10.0.0.2,\
             ct_nw_dst=10.0.0.1,ct_tp_src=80,ct_tp_dst=1000,ct_nw_proto=6 actions=1",
            "table=6,in_port=3 actions=3",
            "table=5,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2 actions=3",
        ] {
            bed.ok(flow(line));
        }
        let (a, b, real) = ((v4(1), 1000), (v4(2), 80), (v4(9), 8080));
        bed.send(1, &Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes());
        assert_eq!(bed.receive(2), Frame::tcp(a, real, Flags::SYN, (1, 0), 0).bytes());
        bed.send(2, &Frame::tcp(real, a, Flags::SYN | Flags::ACK, (7, 2), 0).bytes());
        let answer = Frame::tcp(b, a, Flags::SYN | Flags::ACK, (7, 2), 0).bytes();
        assert_eq!(bed.receive(1), answer);
        assert_eq!(bed.receive(3), answer, "by the bucket");
        (1..=3).for_each(|port| bed.silent(port));
    }
}

/// It waits for nothing that is not there: packets that are not tracked, or are none of IP, pass by.
#[test]
fn a_resubmit_by_the_connection_passes_by_what_has_none() {
    for engine in [switch::EngineKind::Interp, switch::EngineKind::default()] {
        let mut bed = Bed::by(engine.clone(), program(), 3);
        bed.ok(flow("actions=resubmit(,1,ct),2"));
        bed.ok(flow("table=1 actions=3"));
        for bytes in
            [Frame::tcp((v4(1), 1000), (v4(2), 80), Flags::SYN, (1, 0), 0).bytes(), frame(2, 1)]
        {
            bed.send(1, &bytes);
            assert_eq!(bed.receive(2), bytes);
            bed.silent(3);
        }
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let mut bed = with(&[]);
    assert_eq!(bed.refused(flow("ip actions=ct(table=99)")), ErrorCode::FmfcBadTableId);
    let parse = |line: &str| parse_flow(line, &Context::new(V13)).is_err();
    assert!(parse("ip actions=ct(force)"));
    assert!(parse("ip actions=ct(exec(set_field:1->ct_mark))"));
    assert!(parse("ip actions=ct(commit,exec(output:1))"));
    assert!(parse("ip actions=ct(nat(src=10.0.0.1))"));
    assert!(parse("ip actions=ct(commit,nat(src=10.0.0.2-10.0.0.1))"));
    assert!(parse("ip actions=ct(commit,alg=pptp)"));
    assert!(parse("ip actions=ct(commit,exec(ct(commit)))"));
    assert_eq!(bed.refused(flow("arp actions=ct(table=1)")), ErrorCode::BacMatchInconsistent);
    // Fields of a connection are written in a `ct` alone, and need to be known.
    assert_eq!(bed.refused(flow("ip actions=set_field:1->ct_mark")), ErrorCode::BacBadSetType);
    assert_eq!(bed.refused(flow("ip actions=write_actions(ct(commit))")), ErrorCode::BacBadType);
    assert!(parse("ip,ct_nw_src=10.0.0.1 actions=drop"));
    assert!(parse("ip,ct_state=+trk,ct_tp_src=1 actions=drop"));
    assert!(!parse("ip,ct_state=+trk-inv,ct_tp_src=1 actions=drop"));
}

#[test]
fn flows_are_told_as_they_were_said() {
    let lines = [
        "ct_state=+est-inv+trk,ct_zone=5,ct_mark=0x1/0xff,tcp actions=ct(commit,force,table=3,zone=5,nat(src=10.0.0.1-10.0.0.9:1-99,random),exec(set_field:0x5->ct_mark))",
        "ct_state=0,ip actions=ct(table=0)",
        "ct_state=est|trk,ip actions=ct()",
        "ipv6 actions=ct(commit,zone=NXM_NX_REG0[0..15],nat(dst=[fd00::1-fd00::2]:80)),ct_clear",
    ];
    let mut bed = with(&lines);
    let told: Vec<String> = bed
        .flows(TableId(0))
        .iter()
        .map(|f| {
            let actions = match &f.instructions[..] {
                [Instruction::ApplyActions(actions)] => print_actions(actions, V13),
                other => panic!("{other:?}"),
            };
            format!("{} actions={actions}", print_match(&f.matching, V13))
        })
        .collect();
    for line in &told {
        let (again, was) = (flow(line), lines.iter().map(|l| flow(l)).collect::<Vec<_>>());
        assert!(was.contains(&again), "{line}");
    }
    assert_eq!(told.len(), lines.len());
}

#[test]
fn a_zone_s_connections_are_forgotten() {
    let bed = with(&[
        "priority=1,ip,in_port=1 actions=ct(commit,zone=7),2",
        "priority=1,ip,in_port=2 actions=ct(table=1,zone=7)",
        "table=1,ip,ct_state=+est actions=1",
    ]);
    let syn = Frame::tcp((v4(1), 1000), (v4(2), 80), Flags::SYN, (1, 0), 0).bytes();
    let answer = Frame::tcp((v4(2), 80), (v4(1), 1000), Flags::SYN | Flags::ACK, (1, 2), 0).bytes();
    bed.send(1, &syn);
    bed.receive(2);
    bed.send(2, &answer);
    bed.receive(1);
    assert_eq!((bed.agent.flush_zone(6), bed.agent.flush_zone(7)), (0, 1));
    bed.send(2, &answer);
    bed.silent(1);
}

#[test]
fn connections_are_forgotten_by_their_tuples() {
    let bed = with(&["priority=1,ip actions=ct(commit,zone=7),2"]);
    let syn = |host| Frame::tcp((v4(host), 1000), (v4(9), 80), Flags::SYN, (1, 0), 0).bytes();
    for host in 1..=3 {
        bed.send(1, &syn(host));
        bed.receive(2);
    }
    let tuple = |host, dst_port| CtTuple {
        src: Some(v4(host)),
        dst: Some(v4(9)),
        src_port: 1000,
        dst_port,
        ..CtTuple::default()
    };
    let flush = |zone, original, reply| {
        let chosen = CtFlush { zone, protocol: 6, original, reply, ..CtFlush::default() };
        bed.agent.flush_connections(&chosen)
    };
    // A whole tuple without a zone is one of zone 0.
    assert_eq!(flush(None, tuple(1, 80), CtTuple::default()), 0);
    assert_eq!(flush(Some(7), tuple(1, 80), CtTuple::default()), 1);
    assert_eq!(flush(Some(7), tuple(1, 80), CtTuple::default()), 0);
    let answer = CtTuple { dst: Some(v4(2)), ..CtTuple::default() };
    assert_eq!(flush(None, CtTuple::default(), answer), 1);
    assert_eq!(flush(None, tuple(3, 0), CtTuple::default()), 1);
    assert_eq!(flush(None, CtTuple::default(), CtTuple::default()), 0);
}
