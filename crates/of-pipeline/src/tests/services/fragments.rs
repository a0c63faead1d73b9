//! Fragments by both engines: those that wait for their first at an element of the service pipeline, and those of one burst.

use crate::tests::bed::*;
use datapath::services::elements::New;
use ir::DropReason;
use openflow::syntax::{Context, parse_flow};
use openflow::{ElementName, FlowMod};
use service::catalogue;
use service::craft::Frame;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};
use switch::EngineKind;
use wire::IpProtocol;

fn engines() -> [EngineKind; 2] {
    [EngineKind::Interp, EngineKind::default()]
}

/// Octets of a datagram's UDP header and payload.
const OCTETS: usize = 40;

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V13));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn number(name: &str) -> u32 {
    ElementName::new(name).unwrap().number()
}

/// A switch of three ports with elements, each `NAME KIND SETTING...`, all in one group.
fn with(engine: EngineKind, elements: &[&str], flows: &[&str]) -> Bed {
    let mut bed = Bed::by(engine, program(), 3);
    for line in elements {
        let mut words = line.split(' ');
        let (name, kind) = (words.next().unwrap(), words.next().unwrap());
        let settings = catalogue::parse(words).unwrap();
        let element = catalogue::element(kind, &settings).unwrap();
        let new = New { number: number(name), name, kind, settings, group: Some("g"), element };
        bed.agent.switch().services().elements().unwrap().add(new, (0, 1)).unwrap();
    }
    flows.iter().for_each(|line| drop(bed.ok(flow(line))));
    bed
}

fn source(v6: bool) -> IpAddr {
    match v6 {
        false => Ipv4Addr::new(10, 0, 0, 1).into(),
        true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
    }
}

fn destination(v6: bool) -> IpAddr {
    match v6 {
        false => Ipv4Addr::new(10, 0, 0, 2).into(),
        true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into(),
    }
}

/// A UDP datagram's three fragments, of 16, 16 and 8 octets.
fn fragments(ident: u16, port: u16, v6: bool) -> Vec<Vec<u8>> {
    let (src, dst) = (source(v6), destination(v6));
    let whole = Frame::udp((src, port), (dst, 53), OCTETS - 8);
    let body = whole.bytes()[if v6 { 54 } else { 34 }..].to_vec();
    let part = |(n, octets): (usize, &[u8])| {
        let (unit, more) = (n as u16 * 2, n < 2);
        if v6 {
            let mut body = vec![17, 0];
            body.extend((unit << 3 | u16::from(more)).to_be_bytes());
            body.extend(u32::from(ident).to_be_bytes());
            body.extend(octets);
            return Frame::new(src, dst, IpProtocol(44), body).bytes();
        }
        let fragment = (ident, unit | if more { 0x2000 } else { 0 });
        let mut bytes = Frame { body: octets.to_vec(), fragment, ..whole.clone() }.bytes();
        // No piece has a checksum of its own.
        bytes[34..34 + octets.len()].copy_from_slice(octets);
        bytes
    };
    body.chunks(16).enumerate().map(part).collect()
}

/// Every order but the datagram's own, and the order in which fragments leave: what waited leaves behind its first.
const ORDERS: [([usize; 3], [usize; 3]); 5] = [
    ([2, 1, 0], [0, 1, 2]),
    ([1, 0, 2], [0, 1, 2]),
    ([2, 0, 1], [0, 2, 1]),
    ([1, 2, 0], [0, 1, 2]),
    ([0, 2, 1], [0, 2, 1]),
];

const FIREWALL: [&str; 4] = [
    "priority=100,sf_stage=1,sf_action=wall,sf_metadata=1 actions=output:2",
    "priority=90,sf_stage=1 actions=output:3",
    "priority=80,sf_stage=0,in_port=1,ip actions=softflow(wall,1)",
    "priority=80,sf_stage=0,in_port=1,ipv6 actions=softflow(wall,1)",
];

const TRANSLATOR: [&str; 4] = [
    "priority=100,sf_stage=1,sf_action=outward,sf_metadata=1 actions=output:2",
    "priority=90,sf_stage=1 actions=output:3",
    "priority=80,sf_stage=0,in_port=1,ip actions=softflow(outward)",
    "priority=80,sf_stage=0,in_port=1,ipv6 actions=softflow(outward)",
];

/// A later fragment waits at the firewall until its first has opened the connection.
#[test]
fn a_firewall_lets_fragments_wait() {
    for (engine, v6) in engines().into_iter().flat_map(|e| [(e.clone(), false), (e, true)]) {
        let bed = with(engine.clone(), &["wall conntrack"], &FIREWALL);
        for (n, (order, leaves)) in ORDERS.iter().enumerate() {
            let parts = fragments(n as u16 + 1, 1000 + n as u16, v6);
            order.iter().for_each(|part| bed.send(1, &parts[*part]));
            for part in leaves {
                assert!(bed.receive(2) == parts[*part], "{engine:?}, v6 {v6}, {order:?}: {part}");
            }
        }
        bed.silent(3);
        assert_eq!(bed.drops(DropReason::Service) + bed.drops(DropReason::FragmentLost), 0);
    }
}

/// The datagram that comes out is the one that came in, from another address, and its checksum is right.
#[test]
fn a_translator_lets_fragments_wait() {
    let outside: [(bool, IpAddr); 2] = [
        (false, Ipv4Addr::new(198, 51, 100, 1).into()),
        (true, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
    ];
    for (engine, (v6, outside)) in
        engines().into_iter().flat_map(|e| outside.map(|o| (e.clone(), o)))
    {
        let elements = [
            format!("outward nat direction=out addresses={outside}"),
            format!("inward nat direction=in addresses={outside}"),
        ];
        let bed = with(engine.clone(), &elements.each_ref().map(String::as_str), &TRANSLATOR);
        for (n, (order, _)) in ORDERS.iter().enumerate() {
            let parts = fragments(n as u16 + 1, 1000 + n as u16, v6);
            order.iter().for_each(|part| bed.send(1, &parts[*part]));
            let (at, header) = if v6 { (56, 62) } else { (20, 34) };
            let mut came: Vec<Vec<u8>> = (0..3).map(|_| bed.receive(2)).collect();
            came.sort_by_key(|frame| {
                let word = u16::from_be_bytes([frame[at], frame[at + 1]]);
                if v6 { word >> 3 } else { word & 0x1fff }
            });
            let body: Vec<u8> = came.iter().flat_map(|frame| frame[header..].to_vec()).collect();
            let port = u16::from_be_bytes([body[0], body[1]]);
            let whole = Frame::udp((outside, port), (destination(v6), 53), OCTETS - 8).bytes();
            let (start, end) = if v6 { (22, 38) } else { (26, 30) };
            for frame in &came {
                assert_eq!(frame[start..end], whole[start..end], "{engine:?}, {order:?}");
            }
            assert_eq!(body, whole[whole.len() - OCTETS..], "{engine:?}, v6 {v6}, {order:?}");
        }
        bed.silent(3);
        assert_eq!(bed.drops(DropReason::Service) + bed.drops(DropReason::FragmentLost), 0);
    }
}

/// One whose first never comes is lost, by its own reason, once its time is over; another datagram does not need it.
#[test]
fn a_first_fragment_that_never_comes() {
    for engine in engines() {
        let bed = with(engine.clone(), &["wall conntrack fragment=1"], &FIREWALL);
        let (lost, other) = (fragments(1, 1000, false), fragments(2, 1001, false));
        bed.send(1, &lost[2]);
        bed.send(1, &lost[1]);
        for part in &other {
            bed.send(1, part);
            assert_eq!(&bed.receive(2), part);
        }
        let until = Instant::now() + Duration::from_secs(60);
        while bed.drops(DropReason::FragmentLost) < 2 {
            assert!(Instant::now() < until, "{engine:?}: they wait for ever");
            std::thread::sleep(Duration::from_millis(10));
        }
        bed.silent(2);
        bed.silent(3);
        assert_eq!(bed.drops(DropReason::FragmentLost), 2);
        assert_eq!(bed.drops(DropReason::Service), 0);
    }
}

/// What waits at an element that is removed, or at a switch that stops, is counted once; its first comes to nobody.
#[test]
fn an_element_is_removed_while_fragments_wait_at_it() {
    for engine in engines() {
        let bed = with(engine.clone(), &["wall conntrack"], &FIREWALL);
        let parts = fragments(1, 1000, false);
        bed.send(1, &parts[2]);
        bed.send(1, &parts[1]);
        bed.silent(2);
        assert!(bed.agent.switch().services().elements().unwrap().remove(number("wall")));
        bed.send(1, &parts[0]);
        bed.silent(2);
        bed.silent(3);
        assert_eq!(bed.drops(DropReason::Stopped), 2, "{engine:?}");
        assert_eq!(bed.drops(DropReason::Service), 1, "{engine:?}");
    }
    for engine in engines() {
        let bed = with(engine.clone(), &["wall conntrack"], &FIREWALL);
        bed.send(1, &fragments(1, 1000, false)[1]);
        bed.silent(2);
        let port = bed.agent.switch().port_counters();
        assert!(port.iter().all(|(_, counters, _)| counters.drops.is_empty()));
        bed.agent.switch().stop();
        let port = bed.agent.switch().port_counters().swap_remove(0);
        assert_eq!(port.1.drops, [("switch_stopped", 1)], "{engine:?}");
    }
}

/// Fifty connections, each of which begins with a datagram of three fragments: all in bursts, and each follows its first.
#[test]
fn fragments_of_a_new_connection_follow_it_within_a_burst() {
    let flows = [
        "table=0,in_port=1,ip,ct_state=-trk actions=ct(table=1)",
        "table=1,in_port=1,ip,ct_state=+trk+new actions=ct(commit),output:2",
        "table=1,in_port=1,ip,ct_state=+trk+est actions=output:2",
        "table=1,priority=1,ct_state=+trk+inv actions=output:3",
    ];
    for engine in engines() {
        let bed = with(engine.clone(), &[], &flows);
        let all: Vec<Vec<u8>> = (0..50).flat_map(|n| fragments(100 + n, 1000 + n, false)).collect();
        bed.burst(1, &all);
        for (n, frame) in all.iter().enumerate() {
            assert!(bed.receive(2) == *frame, "{engine:?}: frame {n}");
        }
        bed.silent(3);
    }
}

/// A mark that a packet commits is seen by those of its connection behind it in the burst.
#[test]
fn a_mark_is_seen_within_a_burst() {
    let flows = [
        "table=0,in_port=1,ip,ct_state=-trk actions=ct(table=1)",
        "table=1,in_port=1,ip,ct_state=+trk,ct_mark=0 actions=ct(commit,exec(set_field:1->ct_mark)),output:2",
        "table=1,in_port=1,ip,ct_state=+trk,ct_mark=1 actions=output:3",
    ];
    for engine in engines() {
        let bed = with(engine.clone(), &[], &flows);
        let packet = |n: u16| Frame::udp((source(false), 1000 + n), (destination(false), 53), 20);
        let all: Vec<Vec<u8>> = (0..150).map(|n| packet(n / 3).bytes()).collect();
        bed.burst(1, &all);
        for three in all.chunks(3) {
            assert_eq!(bed.receive(2), three[0], "{engine:?}");
            assert_eq!([bed.receive(3), bed.receive(3)], three[1..], "{engine:?}");
        }
        bed.silent(2);
        bed.silent(3);
    }
}
