//! `ct(nat)`: pools of addresses and ports, connections that make room, rare transports.

use super::*;
use service::craft::checksums_are_right;
use std::collections::{BTreeMap, HashSet};
use std::net::Ipv4Addr;
use wire::IpProtocol;
use wire::checksum::Pseudo;
use wire::tcp::Flags;

const SERVER: u8 = 200;

#[test]
fn a_pool_s_addresses_are_used_evenly() {
    let flows = ["ip actions=ct(commit,nat(src=198.51.100.1-198.51.100.4)),2"];
    each(&[], &flows, |bed| {
        let mut of = BTreeMap::<u8, u32>::new();
        for n in 1..=40 {
            let sends = |port| {
                bed.send(1, &Frame::udp((v4(n), 1000), (v4(SERVER), port), 5).bytes());
                let out = bed.receive(2);
                assert!(checksums_are_right(&out) && out[26..29] == [198, 51, 100]);
                source(&out).0
            };
            let address = sends(53);
            *of.entry(address).or_default() += 1;
            assert_eq!(sends(54), address, "a sender keeps its address");
        }
        assert_eq!(of.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(of.values().all(|n| (3..=20).contains(n)), "{of:?}");
    });
}

#[test]
fn a_pool_of_destinations_is_used_evenly() {
    let flows = ["ip actions=ct(commit,nat(dst=10.1.0.1-10.1.0.4)),2"];
    each(&[], &flows, |bed| {
        let mut of = BTreeMap::<u8, u32>::new();
        for n in 1..=40 {
            bed.send(1, &Frame::udp((v4(n), 1000), (v4(SERVER), 53), 5).bytes());
            let out = bed.receive(2);
            assert!(checksums_are_right(&out) && out[30..33] == [10, 1, 0]);
            *of.entry(out[33]).or_default() += 1;
        }
        assert_eq!(of.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(of.values().all(|n| (3..=20).contains(n)), "{of:?}");
    });
}

/// RFC 4787 REQ-1: behind a range of ports, and where another socket has its port already.
#[test]
fn a_socket_has_one_outside_port_whomever_it_speaks_to() {
    let ranged = ["ip actions=ct(commit,nat(src=198.51.100.1:3000-3029)),2"];
    each(&[], &ranged, |bed| {
        let mut all = HashSet::new();
        for n in 1..=20 {
            let ports: HashSet<u16> = (0..3)
                .map(|to| {
                    bed.send(1, &Frame::udp((v4(n), 5000), (v4(SERVER), 53 + to), 5).bytes());
                    source(&bed.receive(2)).1
                })
                .collect();
            assert_eq!(ports.len(), 1, "{n}: {ports:?}");
            assert!(ports.iter().all(|port| (3000..=3029).contains(port)));
            all.extend(ports);
        }
        assert_eq!(all.len(), 20, "no two sockets are the same outside");
    });
    let kept = ["ip actions=ct(commit,nat(src=198.51.100.1)),2"];
    each(&[], &kept, |bed| {
        let of = |n: u8, to: u16| {
            bed.send(1, &Frame::udp((v4(n), 5000), (v4(SERVER), to), 5).bytes());
            source(&bed.receive(2)).1
        };
        assert_eq!([of(1, 53), of(1, 54)], [5000; 2]);
        let other = of(2, 53);
        assert!(other != 5000, "two sockets are the same outside");
        assert_eq!([of(2, 54), of(2, 55)], [other; 2]);
    });
}

const STATEFUL: [&str; 5] = [
    "table=0,in_port=1,tcp,ct_state=-trk actions=ct(nat,table=1)",
    "table=0,in_port=2,tcp,ct_state=-trk actions=ct(nat,table=2)",
    "table=1,tcp,ct_state=+new actions=ct(commit,nat(src=198.51.100.1:3000-3000)),2",
    "table=1,tcp,ct_state=-new+est actions=2",
    "table=2,tcp,ct_state=+est actions=1",
];

/// A whole connection from a port of a client; whether its first segment came through.
fn whole(bed: &Bed, port: u16, isn: u32, reset: bool) -> bool {
    let (client, server) = ((v4(1), port), (v4(SERVER), 80));
    bed.send(1, &Frame::tcp(client, server, Flags::SYN, (isn, 0), 0).bytes());
    let Some(out) = bed.taken(2) else { return false };
    assert_eq!(source(&out), (1, 3000));
    let seen = (IpAddr::from([198, 51, 100, 1]), 3000);
    let inward = |flags, numbers| {
        bed.send(2, &Frame::tcp(server, seen, flags, numbers, 0).bytes());
        assert_eq!(bed.receive(1), Frame::tcp(server, client, flags, numbers, 0).bytes());
    };
    let outward = |flags, numbers| {
        bed.send(1, &Frame::tcp(client, server, flags, numbers, 0).bytes());
        assert_eq!(bed.receive(2), Frame::tcp(seen, server, flags, numbers, 0).bytes());
    };
    inward(Flags::SYN | Flags::ACK, (500, isn + 1));
    outward(Flags::ACK, (isn + 1, 501));
    if reset {
        outward(Flags::RST, (isn + 1, 0));
        return true;
    }
    outward(Flags::FIN | Flags::ACK, (isn + 1, 501));
    inward(Flags::FIN | Flags::ACK, (501, isn + 2));
    outward(Flags::ACK, (isn + 2, 502));
    true
}

/// RFC 5382 REQ-5: one outside port, one connection after another.
#[test]
fn the_port_of_a_closed_connection_serves_the_next() {
    for reset in [false, true] {
        each(&[], &STATEFUL, |bed| {
            for n in 0..4u16 {
                assert!(whole(bed, 7000 + n, 1000 + 100_000 * u32::from(n), reset), "{n}");
            }
        });
    }
    // One that is open keeps its port.
    each(&[], &STATEFUL, |bed| {
        let syn = |port| Frame::tcp((v4(1), port), (v4(SERVER), 80), Flags::SYN, (1, 0), 0).bytes();
        bed.send(1, &syn(7000));
        assert_eq!(source(&bed.receive(2)), (1, 3000));
        bed.send(1, &syn(7001));
        bed.silent(2);
    });
}

/// The tracker has room for 1000 connections.
#[test]
fn a_table_full_of_closed_connections_makes_room() {
    let flows = [
        "table=0,tcp,ct_state=-trk actions=ct(table=1)",
        "table=1,in_port=1,tcp,ct_state=+new actions=ct(commit),2",
        "table=1,in_port=1,tcp,ct_state=-new+est actions=2",
        "table=1,in_port=2,tcp,ct_state=+est actions=1",
    ];
    each(&[], &flows, |bed| {
        let client = |n: u16| ((v4(1), 1000 + n), (v4(SERVER), 80));
        let segment = |(from, to), flags, numbers| Frame::tcp(from, to, flags, numbers, 0).bytes();
        let back = |(from, to)| (to, from);
        let (syn_ack, fin_ack) = (Flags::SYN | Flags::ACK, Flags::FIN | Flags::ACK);
        let group = |first: u16, port: usize, make: &dyn Fn(u16) -> Vec<u8>| {
            let all: Vec<_> = (first..first + 25).map(make).collect();
            bed.burst(port, &all);
            for frame in all {
                assert_eq!(bed.receive(3 - port), frame);
            }
        };
        for first in (0..1000).step_by(25) {
            group(first, 1, &|n| segment(client(n), Flags::SYN, (10, 0)));
            group(first, 2, &|n| segment(back(client(n)), syn_ack, (50, 11)));
            group(first, 1, &|n| segment(client(n), fin_ack, (11, 51)));
            group(first, 2, &|n| segment(back(client(n)), fin_ack, (51, 12)));
            group(first, 1, &|n| segment(client(n), Flags::ACK, (12, 52)));
        }
        for n in 1000..1003 {
            let syn = segment(client(n), Flags::SYN, (10, 0));
            bed.send(1, &syn);
            assert_eq!(bed.receive(2), syn, "a closed one makes room");
        }
    });
}

/// RFC 5597: the addresses are in the checksum of these transports.
#[test]
fn checksums_of_rare_transports_follow_their_addresses() {
    let flows = ["ip actions=ct(commit,nat(src=198.51.100.1)),2"];
    each(&[], &flows, |bed| {
        let inside = Ipv4Addr::new(10, 0, 0, 5);
        let (outside, server) = (Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(203, 0, 113, 5));
        for (protocol, place) in [(IpProtocol::DCCP, 6), (IpProtocol::HIP, 4)] {
            let mut body: Vec<u8> = (0..24).map(|n| n * 7 + 1).collect();
            body[place..place + 2].fill(0);
            let pseudo: Pseudo = (inside, server).into();
            let sum = !pseudo.sum_over(protocol, &body);
            body[place..place + 2].copy_from_slice(&sum.to_be_bytes());
            bed.send(1, &Frame::new(inside.into(), server.into(), protocol, body).bytes());
            let out = bed.receive(2);
            assert_eq!(out[26..30], [198, 51, 100, 1], "{protocol}");
            let pseudo: Pseudo = (outside, server).into();
            assert_eq!(pseudo.sum_over(protocol, &out[34..58]), 0xffff, "{protocol}");
        }
    });
}
