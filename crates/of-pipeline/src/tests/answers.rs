//! Addresses that services own (`answer=`): answered before the first table, by both engines alike.

use super::bed::*;
use crate::vlans::{MirrorConfig, MirrorTarget, NormalConfig};
use datapath::services::elements::New;
use openflow::syntax::{Context, parse_flow};
use openflow::{ElementName, FlowMod, Match, Message, PacketOut, PortNo, TableId};
use service::catalogue;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::EngineKind;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const ASKER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const LB: &str = "backends=a answer=10.0.0.9@02:00:00:00:00:09,fd00::9@02:00:00:00:00:09";
const NAT: &str = "direction=out addresses=10.0.0.20-10.0.0.29 answer=02:00:00:00:00:09";

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V13));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn engines() -> [EngineKind; 2] {
    [EngineKind::Interp, EngineKind::default()]
}

fn try_add(bed: &mut Bed, name: &str, kind: &str, words: &str) -> Result<(), String> {
    let settings = catalogue::parse(words.split_whitespace()).unwrap();
    let element = catalogue::element(kind, &settings).unwrap();
    let number = ElementName::new(name).unwrap().number();
    let elements = bed.agent.switch().services().elements().unwrap().clone();
    let new = New { number, name, kind, settings, group: None, element };
    elements.add(new, (0, 1)).map_err(|e| e.to_string())?;
    bed.agent.follow_services().map_err(|e| e.to_string())
}

fn add_service(bed: &mut Bed, name: &str, kind: &str, words: &str) {
    try_add(bed, name, kind, words).unwrap();
}

fn remove(bed: &mut Bed, name: &str) {
    let elements = bed.agent.switch().services().elements().unwrap().clone();
    assert!(elements.remove(ElementName::new(name).unwrap().number()));
    bed.agent.follow_services().unwrap();
}

/// What a service has counted.
fn counted(bed: &Bed, name: &str, counter: &str) -> u64 {
    bed.settle();
    let number = ElementName::new(name).unwrap().number();
    let named = bed.agent.switch().services().elements().unwrap().get(number).unwrap();
    let counters = named.counters();
    counters.into_iter().find(|(word, _)| word == counter).map_or(0, |(_, n)| n)
}

fn who_has(tags: &[u8], target: [u8; 4]) -> Vec<u8> {
    let head = [&[0xff; 6][..], &ASKER, tags, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &ASKER].concat();
    [&head[..], &[10, 0, 0, 1], &[0; 6], &target, &[0; 18]].concat()
}

fn is_at(tags: &[u8], target: [u8; 4]) -> Vec<u8> {
    let head = [&ASKER[..], &MAC, tags, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &MAC, &target].concat();
    [&head[..], &ASKER, &[10, 0, 0, 1], &[0; 18]].concat()
}

fn octets(text: &str) -> [u8; 16] {
    text.parse::<Ipv6Addr>().unwrap().octets()
}

/// A neighbour solicitation from fd00::1, or with `free` from nobody.
fn solicitation(tags: &[u8], target: &str, free: bool) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0, 0, 0, 58, 255];
    ip.extend(octets(if free { "::" } else { "fd00::1" }));
    ip.extend(octets("ff02::1:ff00:9"));
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(octets(target));
    if !free {
        message.extend([1, 1]);
        message.extend(ASKER);
    }
    ip[5] = message.len() as u8;
    let pseudo = [&ip[8..40], &[0, 0, 0, ip[5], 0, 0, 0, 58], &message].concat();
    let sum = !wire::checksum::sum(&pseudo);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    [&[0x33, 0x33, 0xff, 0, 0, 9][..], &ASKER, tags, &[0x86, 0xdd], &ip, &message].concat()
}

/// Waits until there is code for all that was told.
fn rest(bed: &Bed) {
    let until = Instant::now() + Duration::from_secs(60);
    bed.agent.switch().sync();
    while !bed.agent.switch().is_settled() {
        assert!(Instant::now() < until, "the engine does not come to rest");
        bed.agent.switch().advance();
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn requests_are_answered_in_their_vlan_whatever_entries_there_are() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), 3);
        bed.ok(flow("priority=65535 actions=drop"));
        bed.ok(flow("priority=0 actions=output:2"));
        add_service(&mut bed, "lb", "balancer", LB);
        for tags in [&[][..], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7]] {
            bed.send(1, &who_has(tags, [10, 0, 0, 9]));
            assert_eq!(bed.receive(1), is_at(tags, [10, 0, 0, 9]));
            bed.send(1, &solicitation(tags, "fd00::9", false));
            let answer = bed.receive(1);
            let l4 = 54 + tags.len();
            assert_eq!(
                (&answer[..12], answer[l4], answer[l4 + 4]),
                (&[ASKER, MAC].concat()[..], 136, 0x60)
            );
            assert_eq!(answer[12..12 + tags.len()], *tags);
        }
        // A controller deletes all that it can.
        bed.ok(delete(Match::new()));
        assert_eq!(bed.flows(TableId::ALL), []);
        bed.send(1, &who_has(&[], [10, 0, 0, 9]));
        assert_eq!(bed.receive(1), is_at(&[], [10, 0, 0, 9]));
        bed.silent(2);
        assert_eq!(["arp_answered", "nd_answered"].map(|n| counted(&bed, "lb", n)), [4, 3]);
    }
}

#[test]
fn all_else_goes_on_as_it_came() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), 3);
        bed.ok(flow("priority=0 actions=output:2"));
        add_service(&mut bed, "lb", "balancer", LB);
        for other in [
            who_has(&[], [10, 0, 0, 8]),
            is_at(&[], [10, 0, 0, 9]),
            solicitation(&[], "fd00::8", false),
            frame(1, 2),
        ] {
            bed.send(1, &other);
            assert_eq!(bed.receive(2), other);
        }
        bed.silent(1);
        // A trace says what would happen, and counts nothing.
        let traced = bed.agent.switch().trace(1, &who_has(&[], [10, 0, 0, 9]));
        assert_eq!(traced.outputs, [(1, is_at(&[], [10, 0, 0, 9]))]);
        assert_eq!(counted(&bed, "lb", "arp_answered"), 0);
    }
}

#[test]
fn owners_come_and_go_and_no_address_has_two() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), 3);
        bed.ok(flow("priority=0 actions=output:2"));
        let request = who_has(&[], [10, 0, 0, 25]);
        for _ in 0..2 {
            bed.send(1, &request);
            assert_eq!(bed.receive(2), request, "nobody's");
            add_service(&mut bed, "lb", "balancer", LB);
            add_service(&mut bed, "out", "nat", NAT);
            bed.send(1, &request);
            assert_eq!(bed.receive(1), is_at(&[], [10, 0, 0, 25]));
            assert_eq!(
                (counted(&bed, "out", "arp_answered"), counted(&bed, "lb", "arp_answered")),
                (1, 0)
            );
            let also = "direction=out addresses=10.0.0.29-10.0.0.31 answer=02:00:00:00:00:0a";
            let refused = try_add(&mut bed, "too", "nat", also).unwrap_err();
            assert_eq!(
                refused,
                "service out is answered for at 10.0.0.29 already; no address has two owners"
            );
            remove(&mut bed, "out");
            bed.send(1, &request);
            assert_eq!(bed.receive(2), request);
            remove(&mut bed, "lb");
        }
    }
}

#[test]
fn mirrors_see_request_and_answer() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), 3);
        bed.ok(flow("priority=0 actions=drop"));
        let ports = Some(BTreeSet::from([1]));
        let mirror = MirrorConfig {
            sources: ports.clone(),
            destinations: ports,
            vlans: None,
            to: MirrorTarget::Port(3),
            length_max: None,
        };
        let config = NormalConfig { mirrors: vec![mirror], ..NormalConfig::default() };
        add_service(&mut bed, "lb", "balancer", LB);
        bed.agent.set_normal_config(config).unwrap();
        let (request, answer) = (who_has(&[], [10, 0, 0, 9]), is_at(&[], [10, 0, 0, 9]));
        bed.send(1, &request);
        assert_eq!(bed.receive(1), answer);
        assert_eq!([bed.receive(3), bed.receive(3)], [request, answer]);
    }
}

#[test]
fn a_controllers_own_packet_has_nowhere_to_go_back_to() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), 3);
        bed.ok(flow("priority=0 actions=output:2"));
        add_service(&mut bed, "lb", "balancer", LB);
        let data = who_has(&[], [10, 0, 0, 9]);
        let out = |in_port| PacketOut {
            buffer_id: None,
            in_port,
            actions: vec![output(PortNo::TABLE.0)],
            pipeline: Match::new(),
            data: data.clone(),
        };
        bed.ok(Request(V13, Message::PacketOut(out(PortNo::CONTROLLER))));
        assert_eq!(bed.receive(2), data);
        bed.ok(Request(V13, Message::PacketOut(out(PortNo(1)))));
        assert_eq!(bed.receive(1), is_at(&[], [10, 0, 0, 9]));
    }
}

/// Random frames in bursts: compiled code sends what the interpreter sends, by the code for bursts alone.
#[test]
fn bursts_are_answered_by_code_as_the_interpreter_does() {
    let mut seed = 1u64;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let mut any = || {
        let tags: &[u8] = [&[][..], &[0x81, 0, 0, 7], &[0x81, 0, 0x20, 0]][below(3) as usize];
        let mut bytes = match below(6) {
            0 | 1 => who_has(tags, [10, 0, 0, 5 + below(30) as u8]),
            2 => solicitation(tags, ["fd00::9", "fd00::8"][below(2) as usize], below(2) == 0),
            3 => is_at(tags, [10, 0, 0, 9]),
            4 => frame(1, 2),
            _ => [&MAC[..], &ASKER, tags, &[8, 0, 0x45, 0, 0, 28], &[0; 60]].concat(),
        };
        // What is cut short or garbled is no request, and must not be taken for one.
        if below(8) == 0 {
            bytes.truncate(below(bytes.len() as u64) as usize);
            bytes.resize(bytes.len().max(20), 0);
        }
        if below(8) == 0 {
            let at = below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << below(8);
        }
        bytes
    };
    let bursts: Vec<Vec<Vec<u8>>> = (0..60).map(|_| (0..20).map(|_| any()).collect()).collect();
    let mut told = Vec::new();
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), 3);
        for line in [
            "priority=9,arp actions=output:3",
            "priority=8,dl_vlan=7 actions=output:2",
            "priority=0 actions=output:2",
        ] {
            bed.ok(flow(line));
        }
        add_service(&mut bed, "lb", "balancer", LB);
        add_service(&mut bed, "out", "nat", NAT);
        rest(&bed);
        let before = bed.agent.switch().ran();
        let mut came = Vec::new();
        for burst in &bursts {
            bed.burst(1, burst);
            for port in 1..=3 {
                while let Some(bytes) = bed.taken(port) {
                    came.push((port, bytes));
                }
            }
        }
        let after = bed.agent.switch().ran();
        if !told.is_empty() {
            assert_eq!(after.interpreter.packets - before.interpreter.packets, 0, "{after:?}");
            // Frames that end within a header run one at a time, answered for or not.
            let cut = |(why, _): &&(Arc<str>, u64)| why.starts_with("parser state");
            let cut: u64 = after.whole.reasons.iter().filter(cut).map(|(_, n)| n).sum();
            assert_eq!(after.whole.packets - before.whole.packets, cut, "{after:?}");
        }
        let counts = ["arp_answered", "nd_answered", "answer_malformed"];
        let counts: Vec<u64> = ["lb", "out"]
            .iter()
            .flat_map(|name| counts.map(|counter| counted(&bed, name, counter)))
            .collect();
        assert!(counts[0] > 0 && counts[1] > 0 && counts[2] > 0 && counts[3] > 0, "{counts:?}");
        told.push((came, counts));
    }
    assert_eq!(told[0].1, told[1].1);
    for (interpreted, compiled) in told[0].0.iter().zip(&told[1].0) {
        assert_eq!(interpreted, compiled);
    }
    assert_eq!(told[0].0.len(), told[1].0.len());
}
