//! `softflow` on real packets (SoftFlow, USENIX ATC 2016, §3 and §4).

use super::bed::*;
use datapath::services::elements::New;
use ir::DropReason;
use openflow::syntax::{Context, parse_flow, print_actions, print_match};
use openflow::{ElementName, ErrorCode, FlowMod, Instruction, TableId};
use service::craft::Frame;
use service::element::{Element, Instance, Passing, Writes};
use service::neighbour::Neighbour;
use service::simple::{Firewall, Noop, PayloadMatch, RateLimiter};
use std::net::IpAddr;
use wire::tcp::Flags;

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V13));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn number(name: &str) -> u32 {
    ElementName::new(name).unwrap().number()
}

/// Writes a letter over the payload's first octet, and says how often it did.
struct Stamp;

impl Element for Stamp {
    fn name(&self) -> &'static str {
        "stamp"
    }
    fn writes(&self) -> Writes {
        Writes::Payload
    }
    fn instance(&self, _: usize, _: u64, _: u64) -> Box<dyn Instance> {
        Box::new(Stamp)
    }
}

impl Instance for Stamp {
    fn ingress(&mut self, _now_ns: u64, burst: &mut [Passing<'_>]) {
        for passing in burst {
            let at = passing.packet.at.l4 as usize + 20;
            let letter = b'A' + passing.metadata.argument as u8;
            passing.packet.frame[at] = letter;
            passing.metadata.register += 1;
        }
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A switch of three ports with these services, for both engines.
fn with(engine: switch::EngineKind, flows: &[&str]) -> Bed {
    let mut bed = Bed::by(engine, program(), 3);
    let owned = vec![(v4(9), v4(9)), ("fd00::9".parse().unwrap(), "fd00::9".parse().unwrap())];
    let services: [(&str, Box<dyn Element>); 6] = [
        ("conntrack", Box::new(Firewall::new(service::conntrack::Config::new(1000, 0)))),
        ("idle", Box::new(Noop)),
        ("ids", Box::new(PayloadMatch::new(&[b"EVIL"]).unwrap())),
        ("limit", Box::new(RateLimiter { octets_per_second: 0, burst_octets: 100 })),
        ("nb", Box::new(Neighbour::new(owned, [2, 0, 0, 0, 0, 9]))),
        ("stamp", Box::new(Stamp)),
    ];
    for (name, element) in services {
        let elements = bed.agent.switch().services().elements().unwrap().clone();
        let (number, kind, settings) = (number(name), "test", Vec::new());
        let new = New { number, name, kind, settings, group: None, element };
        elements.add(new, (0, 1)).unwrap();
    }
    flows.iter().for_each(|line| drop(bed.ok(flow(line))));
    bed
}

fn engines() -> [switch::EngineKind; 2] {
    [switch::EngineKind::Interp, switch::EngineKind::default()]
}

fn v4(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

const A: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 1000);
const B: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 80);

fn tcp(src: (IpAddr, u16), dst: (IpAddr, u16), flags: Flags, numbers: (u32, u32)) -> Vec<u8> {
    Frame::tcp(src, dst, flags, numbers, 10).bytes()
}

/// Figure 4 of the paper: an access list in front of the tracker, and what comes back of it in front of both.
const FIREWALL: [&str; 6] = [
    "priority=100,sf_stage=1,sf_action=conntrack,sf_metadata=1 actions=goto_table:1",
    "priority=90,sf_stage=1,sf_action=conntrack actions=drop",
    "priority=80,tcp,nw_src=10.0.0.1,tp_dst=80 actions=softflow(conntrack,1)",
    "priority=70,ip actions=softflow(conntrack)",
    "table=1,ip,nw_dst=10.0.0.2 actions=output:2",
    "table=1,ip,nw_dst=10.0.0.1 actions=output:1",
];

/// A request of ARP from 10.0.0.1, behind these tags.
fn who_has(tags: &[u8], target: [u8; 4]) -> Vec<u8> {
    let ethernet = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], tags, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]];
    let rest = [&[2, 0, 0, 0, 0, 1, 10, 0, 0, 1][..], &[0; 6], &target, &[0; 18]];
    [ethernet.concat(), rest.concat()].concat()
}

#[test]
fn addresses_of_services_are_answered_for_in_their_vlan_and_others_go_on() {
    for engine in engines() {
        let flows = [
            "priority=30,sf_stage=1,sf_action=nb,sf_metadata=1 actions=in_port",
            "priority=20,sf_stage=0,arp,arp_op=1 actions=softflow(nb)",
            "priority=20,sf_stage=0,icmp6,icmpv6_type=135 actions=softflow(nb)",
            "priority=10 actions=output:2",
        ];
        let bed = with(engine, &flows);
        for tags in [&[][..], &[0x81, 0, 0, 7]] {
            bed.send(1, &who_has(tags, [10, 0, 0, 9]));
            let answer = bed.receive(1);
            let arp = 14 + tags.len();
            assert_eq!(answer[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9]);
            assert_eq!((&answer[12..12 + tags.len()], answer[arp + 7]), (tags, 2));
            assert_eq!(answer[arp + 8..arp + 18], [2, 0, 0, 0, 0, 9, 10, 0, 0, 9]);
            let other = who_has(tags, [10, 0, 0, 2]);
            bed.send(1, &other);
            assert_eq!(bed.receive(2), other, "nobody's here: it goes on as it came");
        }
        // The checksum is taken as checked where a port says so; here it is made right.
        let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let mut frame =
            [&[0x33, 0x33, 0xff, 0, 0, 9][..], &[2, 0, 0, 0, 0, 1], &[0x86, 0xdd]].concat();
        frame.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
        frame.extend(octets("fd00::1"));
        frame.extend(octets("ff02::1:ff00:9"));
        frame.extend([135, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(octets("fd00::9"));
        frame.extend([1, 1, 2, 0, 0, 0, 0, 1]);
        let sum = wire::checksum::sum(
            &[&frame[22..54], &[0, 0, 0, 32, 0, 0, 0, 58], &frame[54..]].concat(),
        );
        frame[56..58].copy_from_slice(&(!sum).to_be_bytes());
        bed.send(1, &frame);
        let answer = bed.receive(1);
        assert_eq!((answer[54], answer[58]), (136, 0x60));
        assert_eq!(answer[78..86], [2, 1, 2, 0, 0, 0, 0, 9]);
        assert_eq!(answer[22..38], octets("fd00::9"));
    }
}

#[test]
fn the_papers_firewall_lets_answers_in_and_nothing_else() {
    for engine in engines() {
        let bed = with(engine, &FIREWALL);
        let answer = Frame::tcp(B, A, Flags::SYN | Flags::ACK, (7, 2), 0).bytes();
        bed.send(2, &answer);
        bed.silent(1);
        let syn = Frame::tcp(A, B, Flags::SYN, (1, 0), 0).bytes();
        bed.send(1, &syn);
        assert_eq!(bed.receive(2), syn);
        bed.send(2, &answer);
        assert_eq!(bed.receive(1), answer);
        let data = tcp(A, B, Flags::ACK, (2, 8));
        bed.send(1, &data);
        assert_eq!(bed.receive(2), data);
        bed.send(2, &tcp((v4(2), 81), A, Flags::SYN, (7, 2)));
        bed.silent(1);
    }
}

#[test]
fn a_chain_carries_its_register_and_nothing_else() {
    for engine in engines() {
        let bed = with(
            engine,
            &[
                "sf_stage=0,tcp actions=set_field:5->sf_metadata,set_field:9->reg0,softflow(stamp,1)",
                "sf_stage=1,sf_action=stamp,sf_argument=1,sf_coalesce=0,reg0=0 actions=softflow(stamp,2)",
                "sf_stage=2,sf_argument=2 actions=softflow(ids,0)",
                "sf_stage=3,sf_action=ids,sf_coalesce=1,sf_metadata=0 actions=in_port,goto_table:1",
                "table=1,sf_stage=3 actions=output:2",
            ],
        );
        let frame = tcp(A, B, Flags::ACK, (2, 8));
        bed.send(1, &frame);
        let mut stamped = frame.clone();
        stamped[14 + 20 + 20] = b'C';
        assert_eq!(bed.receive(2), stamped, "the second stamp is on it");
        assert_eq!(bed.receive(1), stamped);
    }
}

#[test]
fn the_register_is_told_and_answered() {
    for engine in engines() {
        let bed = with(
            engine,
            &[
                "sf_stage=0,tcp actions=set_field:5->sf_metadata,softflow(stamp)",
                "sf_stage=1,sf_metadata=6 actions=output:3",
                "sf_stage=1 actions=drop",
            ],
        );
        bed.send(1, &tcp(A, B, Flags::ACK, (2, 8)));
        assert_eq!(bed.receive(3)[14 + 20 + 20], b'A');
    }
}

/// Both services and both passes see a packet as its actions have left it so far, and it is changed once.
#[test]
fn a_packet_that_is_aged_before_its_service_is_aged_once() {
    let sent = tcp(A, B, Flags::SYN, (1, 0));
    let ttl = sent[14 + 8];
    let aged = |left: u8| {
        let mut frame = sent.clone();
        frame[14 + 8] -= left;
        let sum = u32::from(u16::from_be_bytes([frame[24], frame[25]])) + (u32::from(left) << 8);
        frame[24..26].copy_from_slice(&((sum & 0xffff) as u16 + (sum >> 16) as u16).to_be_bytes());
        frame
    };
    let seen = format!("sf_stage=1,sf_metadata=1,ip,nw_ttl={} actions=output:2", ttl - 1);
    let tracked = format!("table=1,ip,ct_state=+trk+new,nw_ttl={} actions=output:3", ttl - 2);
    for engine in engines() {
        let flows = [
            "sf_stage=0,in_port=1,ip actions=dec_ttl,softflow(conntrack,1)",
            &seen,
            "sf_stage=0,in_port=2,ip actions=dec_ttl,dec_ttl,ct(commit,table=1)",
            &tracked,
        ];
        let bed = with(engine, &flows);
        bed.send(1, &sent);
        assert_eq!(bed.receive(2), aged(1));
        bed.send(2, &sent);
        assert_eq!(bed.receive(3), aged(2));
    }
}

#[test]
fn what_a_service_drops_is_a_service_drop_and_a_loop_ends() {
    for engine in engines() {
        let bed = with(
            engine,
            &[
                "priority=1,tcp actions=softflow(limit)",
                "priority=2,tcp,sf_stage=1 actions=output:2",
                "udp actions=softflow(idle)",
            ],
        );
        let frame = Frame::tcp(A, B, Flags::ACK, (2, 8), 20).bytes();
        assert!((51..=100).contains(&frame.len()));
        bed.send(1, &frame);
        bed.receive(2);
        bed.send(1, &frame);
        bed.silent(2);
        assert_eq!(bed.drops(DropReason::Service), 1);
        bed.send(1, &Frame::udp(A, B, 3).bytes());
        bed.silent(2);
        assert_eq!(bed.drops(DropReason::RecirculationLimit), 1);
    }
}

#[test]
fn a_packet_for_a_service_that_is_gone_is_dropped_and_counted() {
    for engine in engines() {
        let bed =
            with(engine, &["sf_stage=0,tcp actions=softflow(idle)", "sf_stage=1 actions=output:2"]);
        let elements = bed.agent.switch().services().elements().unwrap().clone();
        let frame = tcp(A, B, Flags::ACK, (2, 8));
        bed.send(1, &frame);
        assert_eq!(bed.receive(2), frame);
        assert!(elements.remove(number("idle")));
        bed.send(1, &frame);
        bed.silent(2);
        assert_eq!(bed.drops(DropReason::Service), 1);
        assert_eq!(elements.for_nobody(), 1);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut bed = with(switch::EngineKind::default(), &[]);
    let refused = [
        "tcp actions=softflow(unknown)",
        "tcp actions=softflow(idle),output:2",
        "tcp actions=softflow(idle),goto_table:1",
        "tcp actions=clone(softflow(idle)),output:1",
        "tcp actions=write_actions(softflow(idle))",
    ];
    for line in refused {
        let code = bed.refused(flow(line));
        let right = [ErrorCode::BacBadArgument, ErrorCode::BacBadType];
        assert!(right.contains(&code), "{line}: {code:?}");
    }
    let told = bed.refusal(flow(refused[0])).to_string();
    assert!(told.contains("millrace service add unknown"), "{told}");
}

#[test]
fn flows_are_dumped_as_they_were_written() {
    let mut bed = with(switch::EngineKind::default(), &FIREWALL);
    let of = |bed: &mut Bed, priority| {
        let flows = bed.flows(TableId(0));
        let flow = flows.into_iter().find(|flow| flow.priority == priority).unwrap();
        let actions = flow.instructions.iter().find_map(|i| match i {
            Instruction::ApplyActions(actions) => Some(print_actions(actions, V13)),
            _ => None,
        });
        (print_match(&flow.matching, V13), actions)
    };
    let conntrack = number("conntrack");
    let expected = format!("sf_stage=1,sf_action={conntrack:#x},sf_metadata=0x1");
    assert_eq!(of(&mut bed, 100), (expected, None));
    assert_eq!(of(&mut bed, 80).1.as_deref(), Some("softflow(conntrack,1)"));
}

/// A trace calls no service, since that would remember the packet, and says which it did not call.
#[test]
fn a_trace_names_the_services_that_it_does_not_call() {
    for engine in engines() {
        let flows = [
            "table=0,priority=1,in_port=1 actions=softflow(stamp,1)",
            "table=0,priority=2,sf_stage=1 actions=output:2",
        ];
        let bed = with(engine, &flows);
        let frame = Frame::udp(A, (v4(2), 2000), 4).bytes();
        let traced = bed.agent.switch().trace(1, &frame);
        assert_eq!(traced.not_called, ["stamp"]);
        assert_eq!(traced.outputs, [(2, frame.clone())], "as it came");
        assert!(bed.agent.switch().trace(2, &frame).not_called.is_empty());
    }
}
