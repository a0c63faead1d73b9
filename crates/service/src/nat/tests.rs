//! Translation: every checksum is worked out anew behind it.

use super::*;
use crate::conntrack::{Config, Nat, Outcome, Request, Tracker};
use crate::craft::{Frame, checksums_are_right};
use std::collections::HashSet;
use wire::checksum::Pseudo;
use wire::tcp::Flags;

fn v4(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn tracker() -> Tracker {
    Tracker::new(Config { translated_max: 5000, ..Config::new(5000, 7) }, 0)
}

fn pool(first: &str, last: &str, ports: Ports) -> Pool {
    Pool::new(v4(first), v4(last), ports).unwrap()
}

/// The frame as it leaves, and what is said of it.
fn pass(tracker: &mut Tracker, nat: Nat, frame: &[u8]) -> (Vec<u8>, Outcome) {
    let mut frame = frame.to_vec();
    let mut outcome = [Outcome::default()];
    let request = Request { commit: nat != Nat::Existing, nat, ..Request::default() };
    tracker.process(0, &request, &mut [Packet::of(&mut frame)], &mut outcome);
    assert!(outcome[0].drop.is_some() || checksums_are_right(&frame), "{frame:02x?}");
    (frame, outcome[0])
}

/// Source and destination of a frame: address and port.
fn ends(frame: &[u8]) -> [(IpAddr, u16); 2] {
    let at = crate::packet::Offsets::of(frame);
    let l4 = at.l4 as usize;
    let (src, dst) = match at.network {
        crate::packet::Network::V4 => {
            let view = wire::ipv4::Packet::new_header_checked(&frame[14..]).unwrap();
            (view.src().into(), view.dst().into())
        }
        _ => {
            let view = wire::ipv6::Packet::new_header_checked(&frame[14..]).unwrap();
            (view.src().into(), view.dst().into())
        }
    };
    [(src, word(frame, l4).unwrap()), (dst, word(frame, l4 + 2).unwrap())]
}

fn source(tracker: &mut Tracker, pool: Pool) -> Nat {
    Nat::New(Rule { source: Some(tracker.add_pool(pool)), destination: None })
}

#[test]
fn a_source_is_translated_there_and_back() {
    let udp = |a, b| Frame::udp(a, b, 5).bytes();
    let tcp = |a, b| Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes();
    for (inside, server, outside) in
        [("10.0.0.1", "192.0.2.1", "203.0.113.5"), ("fd00::1", "2001:db8::1", "2001:db8:ffff::5")]
    {
        for make in [&udp as &dyn Fn(_, _) -> Vec<u8>, &tcp] {
            let mut tracker = tracker();
            let nat = source(&mut tracker, pool(outside, outside, Ports::Range(1024, 65535)));
            let (a, b) = ((v4(inside), 5000), (v4(server), 53));
            let (out, outcome) = pass(&mut tracker, nat, &make(a, b));
            assert_eq!(ends(&out), [(v4(outside), 5000), b]);
            assert_eq!(outcome.state.to_string(), "+new+trk+snat");
            let (back, outcome) =
                pass(&mut tracker, Nat::Existing, &Frame::udp(b, (v4(outside), 5000), 9).bytes());
            if word(&out, 12) == Some(0x0800) && out[23] == 17 {
                assert_eq!(ends(&back), [b, a]);
                assert_eq!(outcome.state.to_string(), "+est+rpl+trk+dnat");
            }
            // Another host with the same port gets another.
            let (other, _) = pass(
                &mut tracker,
                nat,
                &make((v4(&inside.replace('1', "2").replace("20.0.0.2", "10.0.0.2")), 5000), b),
            );
            let [(address, port), _] = ends(&other);
            assert_eq!(address, v4(outside));
            assert!(port != 5000 && port >= 1024);
        }
    }
}

#[test]
fn a_destination_and_a_hairpin() {
    let mut tracker = tracker();
    let inside = tracker.add_pool(pool("10.0.0.9", "10.0.0.9", Ports::Range(8080, 8080)));
    let outside = tracker.add_pool(pool("203.0.113.5", "203.0.113.5", Ports::Range(1024, 65535)));
    let forward = Nat::New(Rule { source: None, destination: Some(inside) });
    let hairpin = Nat::New(Rule { source: Some(outside), destination: Some(inside) });
    let vip = (v4("203.0.113.5"), 80);
    let server = (v4("10.0.0.9"), 8080);
    let syn = |a, b| Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes();
    let answer = |a, b| Frame::tcp(a, b, Flags::SYN | Flags::ACK, (9, 2), 0).bytes();

    let client = (v4("198.51.100.1"), 4000);
    let (out, outcome) = pass(&mut tracker, forward, &syn(client, vip));
    assert_eq!(
        (ends(&out), outcome.state.to_string().as_str()),
        ([client, server], "+new+trk+dnat")
    );
    let (back, outcome) = pass(&mut tracker, Nat::Existing, &answer(server, client));
    assert_eq!(
        (ends(&back), outcome.state.to_string().as_str()),
        ([vip, client], "+est+rpl+trk+snat")
    );

    let host = (v4("10.0.0.1"), 4000);
    let (out, outcome) = pass(&mut tracker, hairpin, &syn(host, vip));
    assert_eq!(ends(&out), [(v4("203.0.113.5"), 4000), server]);
    assert_eq!(outcome.state.to_string(), "+new+trk+snat+dnat");
    let (back, _) = pass(&mut tracker, Nat::Existing, &answer(server, (v4("203.0.113.5"), 4000)));
    assert_eq!(ends(&back), [vip, host]);
}

/// A pipeline asks first for known connections, then lets some hosts open them, by the addresses that packets came with
/// (Linux's `ovs_ct_nat`, which leaves packets of unanswered connections to who commits them).
#[test]
fn packets_of_an_unanswered_connection_are_translated_by_who_may_open_it() {
    let (a, b) = ((v4("10.0.0.1"), 5000), (v4("192.0.2.1"), 53));
    let outside = (v4("203.0.113.5"), 7);
    let udp = |from, to| Frame::udp(from, to, 5);
    let tcp = |from, to, flags, numbers| Frame::tcp(from, to, flags, numbers, 0);
    let both = Flags::SYN | Flags::ACK;
    for [there, back, next] in [
        [udp(a, b), udp(b, outside), udp(a, b)],
        [
            tcp(a, b, Flags::SYN, (1, 0)),
            tcp(b, outside, both, (9, 2)),
            tcp(a, b, Flags::ACK, (2, 10)),
        ],
    ] {
        let mut tracker = tracker();
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(7, 7)));
        // The second is a repetition: nobody has answered the first.
        for _ in 0..2 {
            let (asked, outcome) = pass(&mut tracker, Nat::Existing, &there.bytes());
            assert_eq!((ends(&asked), outcome.state.to_string().as_str()), ([a, b], "+new+trk"));
            let (opened, outcome) = pass(&mut tracker, nat, &asked);
            assert_eq!(ends(&opened), [outside, b]);
            assert_eq!(outcome.state.to_string(), "+new+trk+snat");
        }
        let (back, _) = pass(&mut tracker, Nat::Existing, &back.bytes());
        assert_eq!(ends(&back), [b, a]);
        let (next, outcome) = pass(&mut tracker, Nat::Existing, &next.bytes());
        assert_eq!(
            (ends(&next), outcome.state.to_string().as_str()),
            ([outside, b], "+est+trk+snat")
        );
    }
}

#[test]
fn a_reset_of_an_unanswered_connection_is_translated_since_it_ends_it() {
    let (a, b) = ((v4("10.0.0.1"), 5000), (v4("192.0.2.1"), 80));
    let outside = (v4("203.0.113.5"), 7);
    let tcp = |flags, numbers| Frame::tcp(a, b, flags, numbers, 0).bytes();
    let mut tracker = tracker();
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(7, 7)));
    let (opened, _) = pass(&mut tracker, nat, &tcp(Flags::SYN, (1, 0)));
    assert_eq!(ends(&opened), [outside, b]);
    let (reset, _) = pass(&mut tracker, Nat::Existing, &tcp(Flags::RST, (2, 0)));
    assert_eq!(ends(&reset), [outside, b]);
    // It is forgotten: the next reset belongs to nothing.
    let (next, _) = pass(&mut tracker, Nat::Existing, &tcp(Flags::RST, (2, 0)));
    assert_eq!(ends(&next), [a, b]);
}

#[test]
fn errors_are_translated_inside() {
    for (inside, server, outside, router, kind) in [
        ("10.0.0.1", "192.0.2.1", "203.0.113.5", "192.0.2.77", 3),
        ("fd00::1", "2001:db8::1", "2001:db8:ffff::5", "2001:db8::77", 1),
    ] {
        let mut tracker = tracker();
        let nat = source(&mut tracker, pool(outside, outside, Ports::Range(7000, 7999)));
        let (a, b) = ((v4(inside), 5000), (v4(server), 53));
        let sent = Frame::udp(a, b, 16);
        let (out, _) = pass(&mut tracker, nat, &sent.bytes());
        let [(_, port), _] = ends(&out);
        assert!((7000..8000).contains(&port));
        for quoted in [28, 48, 200] {
            if quoted < 48 && kind == 1 {
                continue;
            }
            // A router on the way complains about what it saw; the sender must know it again.
            let seen = Frame::udp((v4(outside), port), b, 16);
            let error = seen.error(v4(router), kind, 1, quoted);
            let (back, outcome) = pass(&mut tracker, Nat::Existing, &error.bytes());
            assert_eq!(outcome.state.to_string(), "+rel+rpl+trk+dnat");
            let header = if kind == 3 { 20 } else { 40 };
            let inner = &back[14 + header + 8..];
            let original = &sent.bytes()[14..];
            let len = inner.len().min(original.len());
            assert_eq!(inner[..len], original[..len], "as its sender sent it");
            let [(src, _), (dst, _)] = ends(&back);
            assert_eq!((src, dst), (v4(router), a.0));
        }
    }
}

#[test]
fn an_error_that_quotes_too_little_or_redirects_is_not_translated() {
    let mut tracker = tracker();
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(1, 65535)));
    let (a, b, out) = ((v4("10.0.0.1"), 5000), (v4("192.0.2.1"), 53), v4("203.0.113.5"));
    pass(&mut tracker, nat, &Frame::udp(a, b, 16).bytes());
    let seen = Frame::udp((out, 5000), b, 16);
    for (kind, quoted, drop) in [
        (3, 24, Some(Drop::NatImpossible)),
        (3, 27, Some(Drop::NatImpossible)),
        (3, 28, None),
        (5, 28, Some(Drop::NatImpossible)),
    ] {
        let error = seen.error(v4("192.0.2.77"), kind, 1, quoted);
        let (_, outcome) = pass(&mut tracker, Nat::Existing, &error.bytes());
        assert_eq!(outcome.drop, drop, "{kind} {quoted}");
    }
    assert_eq!(tracker.counters().nat_impossible, 3);
}

#[test]
fn of_all_ports_one_of_the_same_kind_is_chosen() {
    let mut tracker = tracker();
    let all = Ports::Range(1, u16::MAX);
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", all));
    for (own, kind) in [(4000, 1024..=65535), (700, 600..=1023), (80, 1..=511)] {
        for host in 1..=50 {
            let from = (IpAddr::from([10, 0, 0, host]), own);
            let frame = Frame::udp(from, (v4("192.0.2.1"), 53), 0);
            let (out, outcome) = pass(&mut tracker, nat, &frame.bytes());
            let [(_, port), _] = ends(&out);
            assert!(outcome.drop.is_none() && kind.contains(&port), "{own} became {port}");
        }
    }
}

#[test]
fn a_client_of_one_server_by_two_addresses_is_told_apart_by_its_port() {
    let mut tracker = tracker();
    let server = tracker.add_pool(pool("10.0.0.9", "10.0.0.9", Ports::Range(8080, 8080)));
    let forward = Nat::New(Rule { source: None, destination: Some(server) });
    let server = (v4("10.0.0.9"), 8080);
    let answer = |a, b| Frame::tcp(a, b, Flags::SYN | Flags::ACK, (9, 2), 0).bytes();
    for (own, ports) in [(4000, 1024..=65535), (700, 600..=1023), (80, 1..=511)] {
        let client = (v4("198.51.100.1"), own);
        let mut used = HashSet::new();
        for vip in ["203.0.113.5", "203.0.113.6", "203.0.113.7"] {
            let vip = (v4(vip), 80);
            let syn = Frame::tcp(client, vip, Flags::SYN, (1, 0), 0).bytes();
            let (out, outcome) = pass(&mut tracker, forward, &syn);
            let [from, to] = ends(&out);
            assert_eq!((from.0, to, outcome.drop), (client.0, server, None));
            assert!(ports.contains(&from.1) && used.insert(from.1), "{from:?}");
            assert!(used.len() > 1 || from.1 == own);
            // The answers go to whom they are for, as from where they are expected.
            let (back, _) = pass(&mut tracker, Nat::Existing, &answer(server, from));
            assert_eq!(ends(&back), [vip, client]);
        }
    }
    // Without ports nothing tells them apart.
    let other = |to| Frame::new(v4("198.51.100.1"), v4(to), wire::IpProtocol(50), vec![0; 20]);
    assert_eq!(pass(&mut tracker, forward, &other("203.0.113.5").bytes()).1.drop, None);
    let (_, outcome) = pass(&mut tracker, forward, &other("203.0.113.6").bytes());
    assert_eq!(outcome.drop, Some(Drop::NatExhausted));
}

#[test]
fn a_connection_whose_answers_would_be_anothers_is_refused() {
    let mut tracker = tracker();
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(100, 109)));
    let (a, b) = ((v4("10.0.0.1"), 2000), (v4("192.0.2.1"), 53));
    let there = Frame::udp(a, b, 0).bytes();
    let (out, _) = pass(&mut tracker, nat, &there);
    assert_eq!(ends(&out)[0].0, v4("203.0.113.5"));
    // Its answers would be packets from A to B, which are translated.
    let back = Frame::udp(b, a, 0).bytes();
    let (_, outcome) = pass(&mut tracker, Nat::None, &back);
    assert_eq!(outcome.drop, Some(Drop::Clash));
    assert_eq!(tracker.counters().insert_failed, 1);
    let (again, outcome) = pass(&mut tracker, nat, &there);
    assert_eq!((again, outcome.drop), (out, None), "the first is as it was");
    let other = Frame::udp(b, (a.0, 2001), 0).bytes();
    assert_eq!(pass(&mut tracker, Nat::None, &other).1.drop, None);
}

#[test]
fn pings_are_translated_by_their_identifier() {
    let mut tracker = tracker();
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(1, 9)));
    let (a, b, n) = (v4("10.0.0.1"), v4("192.0.2.1"), v4("203.0.113.5"));
    let (out, _) = pass(&mut tracker, nat, &Frame::icmp(a, b, 8, 0, 0x5555_0001, b"x").bytes());
    let ident = word(&out, 38).unwrap();
    assert!((1..10).contains(&ident));
    let reply = Frame::icmp(b, n, 0, 0, u32::from(ident) << 16 | 1, b"x");
    let (back, outcome) = pass(&mut tracker, Nat::Existing, &reply.bytes());
    assert_eq!(
        (word(&back, 38), outcome.state.to_string().as_str()),
        (Some(0x5555), "+est+rpl+trk+dnat")
    );
    assert_eq!(ends(&back)[1].0, a);
}

#[test]
fn exhaustion_is_counted_and_ends_when_connections_do() {
    let mut tracker = tracker();
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(100, 109)));
    let server = (v4("192.0.2.1"), 53);
    let from = |n: u16| Frame::udp((v4("10.0.0.1"), 2000 + n), server, 0).bytes();
    let mut ports = HashSet::new();
    for n in 0..10 {
        let (out, outcome) = pass(&mut tracker, nat, &from(n));
        assert_eq!(outcome.drop, None);
        assert!(ports.insert(ends(&out)[0].1));
    }
    let (_, outcome) = pass(&mut tracker, nat, &from(10));
    assert_eq!(outcome.drop, Some(Drop::NatExhausted));
    assert_eq!(tracker.counters().nat_exhausted, 1);
    // To another server, the ports serve again.
    let elsewhere = Frame::udp((v4("10.0.0.1"), 2010), (v4("192.0.2.2"), 53), 0).bytes();
    assert_eq!(pass(&mut tracker, nat, &elsewhere).1.drop, None);
    tracker.flush(Some(0));
    assert_eq!(pass(&mut tracker, nat, &from(10)).1.drop, None);
}

#[test]
fn blocks_are_a_senders_own_and_come_back() {
    let mut tracker = tracker();
    let ports = Ports::Blocks { first: 1000, last: 1099, size: 10, blocks_max: 2 };
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.6", ports));
    let Nat::New(Rule { source: Some(id), .. }) = nat else { unreachable!() };
    let server = (v4("192.0.2.1"), 53);
    let from =
        |host: u8, n: u16| Frame::udp((IpAddr::from([10, 0, 0, host]), n), server, 0).bytes();
    let mut of = std::collections::HashMap::new();
    for host in 1..=10 {
        for n in 0..20 {
            let (out, outcome) = pass(&mut tracker, nat, &from(host, n));
            assert_eq!(outcome.drop, None);
            let (address, port) = ends(&out)[0];
            assert_eq!(*of.entry((address, port / 10)).or_insert(host), host);
        }
        let outcome = pass(&mut tracker, nat, &from(host, 20)).1;
        assert_eq!(outcome.drop, Some(Drop::NatExhausted), "two blocks, no more");
    }
    assert_eq!(tracker.pool(id).unwrap().blocks(), Some((20, 20)));
    assert_eq!(pass(&mut tracker, nat, &from(11, 0)).1.drop, Some(Drop::NatExhausted));
    tracker.flush(Some(0));
    assert_eq!(tracker.pool(id).unwrap().blocks(), Some((0, 20)));
    assert_eq!(pass(&mut tracker, nat, &from(11, 0)).1.drop, None);
}

#[test]
fn blocks_are_not_lost_where_none_of_their_ports_serves() {
    let mut tracker = tracker();
    let ports = Ports::Blocks { first: 1000, last: 1001, size: 2, blocks_max: 1 };
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", ports));
    let Nat::New(Rule { source: Some(id), .. }) = nat else { unreachable!() };
    let server = (v4("192.0.2.1"), 53);
    for port in [1000, 1001] {
        let other = Frame::udp(server, (v4("203.0.113.5"), port), 0).bytes();
        assert_eq!(pass(&mut tracker, Nat::None, &other).1.drop, None);
    }
    let from = |host: u8| Frame::udp((IpAddr::from([10, 0, 0, host]), 1), server, 0).bytes();
    assert_eq!(pass(&mut tracker, nat, &from(1)).1.drop, Some(Drop::NatExhausted));
    assert_eq!(tracker.pool(id).unwrap().blocks(), Some((0, 1)));
    tracker.flush(Some(0));
    assert_eq!(pass(&mut tracker, nat, &from(2)).1.drop, None);
}

#[test]
fn ports_that_are_a_senders_own_are_no_destinations() {
    let inside = v4("10.0.0.0");
    for ports in [
        Ports::Blocks { first: 1, last: 8, size: 2, blocks_max: 2 },
        Ports::Deterministic { first: 1, last: 8, inside, senders: 4 },
    ] {
        let mut tracker = tracker();
        let id = tracker.add_pool(pool("203.0.113.5", "203.0.113.5", ports));
        let nat = Nat::New(Rule { source: None, destination: Some(id) });
        let frame = Frame::udp((v4("10.0.0.1"), 1), (v4("192.0.2.1"), 53), 0).bytes();
        assert_eq!(pass(&mut tracker, nat, &frame).1.drop, Some(Drop::NatExhausted));
        let pool = tracker.pool(id).unwrap();
        assert_eq!((pool.exhausted(), pool.blocks().map_or(0, |(used, _)| used)), (1, 0));
    }
}

#[test]
fn deterministic_ports_tell_their_sender() {
    let mut tracker = tracker();
    let inside = v4("10.0.0.0");
    let ports = Ports::Deterministic { first: 1024, last: 65535, inside, senders: 100 };
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.7", ports));
    let Nat::New(Rule { source: Some(id), .. }) = nat else { unreachable!() };
    let server = (v4("192.0.2.1"), 53);
    for host in 0..100_u8 {
        for n in 0..3 {
            let a = IpAddr::from([10, 0, 0, host]);
            let (out, _) = pass(&mut tracker, nat, &Frame::udp((a, n), server, 0).bytes());
            let (address, port) = ends(&out)[0];
            assert_eq!(tracker.pool(id).unwrap().sender(address, port), Some(a));
        }
    }
    let stranger = Frame::udp((v4("10.0.0.100"), 1), server, 0).bytes();
    assert_eq!(pass(&mut tracker, nat, &stranger).1.drop, Some(Drop::NatExhausted));
    assert_eq!(tracker.pool(id).unwrap().sender(v4("203.0.113.8"), 1024), None);
    assert_eq!(tracker.pool(id).unwrap().sender(v4("203.0.113.7"), 65535), None);
}

#[test]
fn pools_that_cannot_be() {
    let (a, b) = (v4("10.0.0.1"), v4("10.0.0.2"));
    let deterministic = |senders| Ports::Deterministic { first: 1, last: 2, inside: a, senders };
    let blocks = |size| Ports::Blocks { first: 1, last: 2, size, blocks_max: 1 };
    for (first, last, ports, text) in [
        (
            b,
            a,
            Ports::Keep,
            "addresses 10.0.0.2 to 10.0.0.1 are no range; the first comes first, of one family",
        ),
        (
            a,
            v4("fd00::1"),
            Ports::Keep,
            "addresses 10.0.0.1 to fd00::1 are no range; the first comes first, of one family",
        ),
        (a, b, Ports::Range(2, 1), "ports 2 to 1 are no range; the smaller comes first"),
        (a, b, blocks(3), "a block of 3 ports does not fit; take 1 up to the number of ports"),
        (a, b, blocks(0), "a block of 0 ports does not fit; take 1 up to the number of ports"),
        (a, b, deterministic(5), "5 senders have no port each; take more addresses or ports"),
    ] {
        assert_eq!(Pool::new(first, last, ports).unwrap_err().to_string(), text);
    }
}

#[test]
fn sctp_ports_cost_a_new_crc_and_partial_checksums_stay_partial() {
    let mut tracker = tracker();
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(7, 7)));
    let mut body = vec![0; 12];
    body[..4].copy_from_slice(&[0x10, 0, 0x0b, 0x59]);
    body.extend([1, 0, 0, 20, 0, 0, 0, 9, 0, 0, 16, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
    let (a, b) = (v4("10.0.0.1"), v4("192.0.2.1"));
    let (out, outcome) = pass(&mut tracker, nat, &Frame::new(a, b, IpProtocol::SCTP, body).bytes());
    assert_eq!((ends(&out)[0], outcome.drop), ((v4("203.0.113.5"), 7), None));

    let mut frame = Frame::udp((a, 9), (b, 53), 8).bytes();
    let place = wire::pseudo_header_partial(&mut frame).unwrap();
    let mut outcome = [Outcome::default()];
    let request = Request { commit: true, nat, ..Request::default() };
    let packet = Packet { checksum: Checksum::Partial, ..Packet::of(&mut frame) };
    tracker.process(0, &request, &mut [packet], &mut outcome);
    wire::complete_partial_checksum(&mut frame, place.start.into(), place.offset.into()).unwrap();
    assert!(checksums_are_right(&frame) && ends(&frame)[0] == (v4("203.0.113.5"), 7));
}

#[test]
fn a_pool_is_used_evenly_whoever_sends() {
    let nth = |first: IpAddr, n: u128| {
        let (bits, v6) = bits(first);
        address(bits + n, v6)
    };
    // Senders one after the other, in steps, far apart, of one prefix; pools that begin anywhere.
    for (first, step, outside, last, server) in [
        ("10.0.0.1", 1, "198.51.100.1", "198.51.100.8", "203.0.113.1"),
        ("10.0.0.1", 256, "198.51.100.4", "198.51.100.11", "203.0.113.1"),
        ("10.0.0.1", 1 << 16 | 1, "198.51.100.255", "198.51.101.6", "203.0.113.1"),
        ("2001:db8::1", 1, "2001:db8:f::", "2001:db8:f::7", "2001:db8:9::1"),
        ("2001:db8::1", 1 << 64, "2001:db8:f::", "2001:db8:f::7", "2001:db8:9::1"),
        ("::1", 1, "2001:db8:f::", "2001:db8:f::7", "2001:db8:9::1"),
    ] {
        for ports in [Ports::Range(1, u16::MAX), Ports::Range(5000, 5999), Ports::Keep] {
            for is_source in [true, false] {
                let mut tracker = tracker();
                let id = Some(tracker.add_pool(pool(outside, last, ports)));
                let (source, destination) = if is_source { (id, None) } else { (None, id) };
                let nat = Nat::New(Rule { source, destination });
                let mut shares = std::collections::BTreeMap::new();
                for n in 0..200 {
                    let port = 4000 + n as u16;
                    let (a, b) = ((nth(v4(first), n * step), port), (v4(server), 53));
                    let (out, outcome) = pass(&mut tracker, nat, &Frame::udp(a, b, 3).bytes());
                    assert_eq!(outcome.drop, None);
                    let end = ends(&out)[usize::from(!is_source)];
                    *shares.entry(end.0).or_insert(0) += 1;
                    // Another connection of the sender comes from the same address.
                    let again = Frame::udp((a.0, port + 1000), b, 3).bytes();
                    let (out, _) = pass(&mut tracker, nat, &again);
                    assert_eq!(ends(&out)[usize::from(!is_source)].0, end.0);
                }
                let even = shares.len() == 8 && shares.values().all(|n| (10..=42).contains(n));
                assert!(even, "{first} by {step} to {outside} {ports:?}: {shares:?}");
            }
        }
    }
}

#[test]
fn a_socket_has_one_outside_port_for_all_ends() {
    let all = Ports::Range(1, u16::MAX);
    let ours =
        Ports::Deterministic { first: 1024, last: 65535, inside: v4("10.0.0.0"), senders: 8 };
    let udp = |a, b| Frame::udp(a, b, 4).bytes();
    let tcp = |a, b| Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes();
    for ports in [all, Ports::Range(10_000, 10_999), ours] {
        for make in [&udp as &dyn Fn(_, _) -> Vec<u8>, &tcp] {
            let mut tracker = tracker();
            let nat = source(&mut tracker, pool("198.51.100.1", "198.51.100.4", ports));
            // Enough sockets with this port that some share an address, and so meet.
            let sockets: Vec<_> = (1..=6).map(|n| (IpAddr::from([10, 0, 0, n]), 4444)).collect();
            let mut outside = Vec::new();
            for socket in &sockets {
                let out = pass(&mut tracker, nat, &make(*socket, (v4("203.0.113.7"), 80))).0;
                outside.push(ends(&out)[0]);
            }
            assert_eq!(outside.iter().collect::<HashSet<_>>().len(), 6, "{ports:?}");
            for server in ["203.0.113.8", "203.0.113.9", "192.0.2.200"] {
                for (socket, outside) in sockets.iter().zip(&outside) {
                    let out = pass(&mut tracker, nat, &make(*socket, (v4(server), 80))).0;
                    assert_eq!(ends(&out)[0], *outside, "{ports:?} {socket:?} to {server}");
                }
            }
            // It is forgotten with the last connection, in any order.
            tracker.flush(Some(0));
            assert!(tracker.mappings.is_empty());
        }
    }
}

#[test]
fn identifiers_of_pings_are_a_sockets_own_too_and_taken_ones_are_not_offered() {
    let mut tracker = tracker();
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(100, 199)));
    let ping = |host: u8, to| {
        Frame::icmp(IpAddr::from([10, 0, 0, host]), v4(to), 8, 0, 0x5555_0001, b"x").bytes()
    };
    let ident = |frame: Vec<u8>| word(&frame, 38).unwrap();
    let first = ident(pass(&mut tracker, nat, &ping(1, "192.0.2.1")).0);
    assert_eq!(ident(pass(&mut tracker, nat, &ping(1, "192.0.2.2")).0), first);
    // Who has this port towards an end keeps it; the socket gets another one there, and its own elsewhere.
    let (server, taken) = (v4("192.0.2.3"), (v4("203.0.113.5"), first));
    let theirs = Frame::udp((v4("203.0.113.5"), first), (server, 53), 0).bytes();
    assert_eq!(pass(&mut tracker, Nat::None, &theirs).1.drop, None);
    let socket = (v4("10.0.0.9"), first);
    let to = |n: &str| Frame::udp(socket, (v4(n), 53), 0).bytes();
    assert_eq!(ends(&pass(&mut tracker, nat, &to("192.0.2.1")).0)[0], taken);
    let elsewhere = ends(&pass(&mut tracker, nat, &to("192.0.2.3")).0)[0];
    assert_ne!(elsewhere, taken);
    assert_eq!(ends(&pass(&mut tracker, nat, &to("192.0.2.4")).0)[0], taken);
}

#[test]
fn of_all_ports_any_own_port_is_kept_if_it_is_free() {
    for own in [0, 1, 511, 512, 599, 600, 1023, 1024, 65535] {
        let mut tracker = tracker();
        let all = Ports::Range(1, u16::MAX);
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", all));
        let from = |host: u8| {
            let a = (IpAddr::from([10, 0, 0, host]), own);
            Frame::udp(a, (v4("192.0.2.1"), 53), 0).bytes()
        };
        assert_eq!(ends(&pass(&mut tracker, nat, &from(1)).0)[0].1, own);
        let (out, outcome) = pass(&mut tracker, nat, &from(2));
        assert!(outcome.drop.is_none() && ![own, 0].contains(&ends(&out)[0].1), "{own}");
    }
    // A range that is told is kept to.
    let mut tracker = tracker();
    let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(2, 9)));
    let zero = Frame::udp((v4("10.0.0.1"), 0), (v4("192.0.2.1"), 53), 0).bytes();
    assert!((2..10).contains(&ends(&pass(&mut tracker, nat, &zero).0)[0].1));
}

/// A packet of this protocol, its checksum over pseudo-header and body, at `place`.
fn covered((src, dst): (&str, &str), protocol: IpProtocol, place: usize) -> Frame {
    let mut body: Vec<u8> = (0..24).map(|n| n * 7 + 1).collect();
    put(&mut body, place, 0);
    let pseudo: Pseudo = match (v4(src), v4(dst)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => (src, dst).into(),
        (IpAddr::V6(src), IpAddr::V6(dst)) => (src, dst).into(),
        _ => unreachable!("addresses of one family"),
    };
    let sum = !pseudo.sum_over(protocol, &body);
    put(&mut body, place, sum);
    Frame::new(v4(src), v4(dst), protocol, body)
}

#[test]
fn checksums_of_rarer_transports_follow_their_addresses() {
    let (v4_ends, v6_ends) = (("10.0.0.5", "203.0.113.5"), ("fd00::5", "2001:db8::5"));
    for (ends, protocol, place) in [
        (v4_ends, IpProtocol::DCCP, 6),
        (v6_ends, IpProtocol::DCCP, 6),
        (v4_ends, IpProtocol::HIP, 4),
        (v6_ends, IpProtocol::OSPF, 12),
        (v6_ends, IpProtocol::PIM, 2),
    ] {
        let mut tracker = tracker();
        let outside = if ends.0.contains(':') { "2001:db8:f::1" } else { "198.51.100.1" };
        let range = Ports::Range(7000, 7009);
        let nat = source(&mut tracker, pool(outside, outside, range));
        let frame = covered(ends, protocol, place).bytes();
        let (mut out, mut outcome) = (frame.clone(), [Outcome::default()]);
        let request = Request { commit: true, nat, ..Request::default() };
        tracker.process(0, &request, &mut [Packet::of(&mut out)], &mut outcome);
        assert_eq!(outcome[0].drop, None, "{protocol}");
        let at = crate::packet::Offsets::of(&out);
        let body = &out[at.l4 as usize..at.end as usize];
        let pseudo: Pseudo = match (v4(outside), v4(ends.1)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (src, dst).into(),
            (IpAddr::V6(src), IpAddr::V6(dst)) => (src, dst).into(),
            _ => unreachable!("addresses of one family"),
        };
        assert_eq!(pseudo.sum_over(protocol, body), 0xffff, "{protocol}: {body:02x?}");
        if protocol == IpProtocol::DCCP {
            assert!((7000..=7009).contains(&word(body, 0).unwrap()), "it has ports");
        }
    }
}

#[test]
fn what_covers_addresses_and_cannot_be_edited_is_not_translated() {
    let mut tracker = tracker();
    let all = Ports::Range(1, u16::MAX);
    let nat4 = source(&mut tracker, pool("198.51.100.1", "198.51.100.1", all));
    let nat6 = source(&mut tracker, pool("2001:db8:f::1", "2001:db8:f::1", all));
    let (a, b) = (v4("10.0.0.5"), v4("203.0.113.5"));
    let (a6, b6) = (v4("fd00::5"), v4("2001:db8::5"));
    let udp = Frame::udp((a6, 5), (b6, 53), 8).body;
    let behind = |header: &[u8]| [header, &udp].concat();
    let ah = behind(&[17, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let hip = behind(&[17, 0, 1, 1, 0x12, 0x34, 0, 0]);
    let mobility = behind(&[17, 0, 1, 0, 0x12, 0x34, 0, 0]);
    let mut route = vec![17, 2, 0, 1, 0, 0, 0, 0];
    route.extend(u128::to_be_bytes(0x2001_0db8_0000_0000_0000_0000_0000_0077));
    let route = behind(&route);
    let frames = [
        (nat4, Frame::new(a, b, IpProtocol::AUTH, ah.clone())),
        (nat4, Frame::new(a, b, IpProtocol::VRRP, vec![0x31, 1, 100, 1, 0, 100, 0x12, 0x34])),
        (nat6, Frame::new(a6, b6, IpProtocol::AUTH, ah)),
        (nat6, Frame::new(a6, b6, IpProtocol::HIP, hip)),
        (nat6, Frame::new(a6, b6, IpProtocol::MOBILITY, mobility)),
        (nat6, Frame::new(a6, b6, IpProtocol::ROUTING, route)),
    ];
    for (n, (nat, frame)) in frames.into_iter().enumerate() {
        let mut octets = frame.bytes();
        let mut outcome = [Outcome::default()];
        let request = Request { commit: true, nat, ..Request::default() };
        let packet = Packet { checksum: Checksum::Good, ..Packet::of(&mut octets) };
        tracker.process(0, &request, &mut [packet], &mut outcome);
        assert_eq!(outcome[0].drop, Some(Drop::NatImpossible), "{}", frame.protocol);
        assert_eq!(octets, frame.bytes(), "nothing is half done");
        assert_eq!(tracker.counters().nat_impossible, n as u64 + 1);
    }
}

/// What a look says, without keeping anything, is what then comes to pass: state, mark, addresses, ports, checksums, drops.
#[test]
fn a_look_tells_what_comes_to_pass() {
    let mut random = crate::random::Random(5);
    let mut tracker = tracker();
    let wide = pool("203.0.113.5", "203.0.113.6", Ports::Range(1, u16::MAX));
    let narrow = pool("203.0.113.9", "203.0.113.9", Ports::Range(7000, 7009));
    let servers = pool("10.0.9.1", "10.0.9.3", Ports::Keep);
    let per_sender =
        Ports::Deterministic { first: 2000, last: 2999, inside: v4("10.0.0.0"), senders: 9 };
    let fixed = pool("203.0.113.7", "203.0.113.7", per_sender);
    let [wide, narrow, servers, fixed] =
        [wide, narrow, servers, fixed].map(|pool| tracker.add_pool(pool));
    let rule = |source, destination| Nat::New(Rule { source, destination });
    let rules = [
        Nat::None,
        Nat::Existing,
        rule(Some(wide), None),
        rule(Some(narrow), None),
        rule(Some(fixed), None),
        rule(None, Some(servers)),
        rule(Some(wide), Some(servers)),
        rule(None, None),
    ];
    // What has left, so that answers to it can come.
    let mut left: Vec<Vec<u8>> = Vec::new();
    let (mut translated, mut dropped) = (0, 0);
    for _ in 0..4000 {
        let host = v4(&format!("10.0.0.{}", 1 + random.below(8)));
        let a = (host, 5000 + random.below(5) as u16);
        let b = (v4(&format!("192.0.2.{}", 1 + random.below(3))), 53);
        let frame = match (random.below(4), left.len()) {
            (0, 1..) => {
                let [src, dst] = ends(&left[random.below(left.len() as u64) as usize]);
                Frame::udp(dst, src, 3).bytes()
            }
            (1, _) => {
                let flags = [Flags::SYN, Flags::ACK, Flags::RST, Flags::FIN | Flags::ACK];
                let sequence = random.below(1 << 20) as u32;
                Frame::tcp(a, b, flags[random.below(4) as usize], (sequence, 0), 0).bytes()
            }
            _ => Frame::udp(a, b, 5).bytes(),
        };
        let request = Request {
            zone: random.below(2) as u16,
            commit: random.below(3) != 0,
            nat: rules[random.below(rules.len() as u64) as usize],
            mark: (random.below(2) == 0).then_some((random.below(256) as u32, 0xff)),
            ..Request::default()
        };
        let counters = *tracker.counters();
        let (mut seen, live) = (frame.clone(), tracker.len());
        let look = tracker.look(0, &request, &mut Packet::of(&mut seen));
        assert_eq!(
            (tracker.len(), *tracker.counters()),
            (live, counters),
            "a look changes nothing"
        );
        let known = look.original.is_some_and(|tuple| tracker.get(0, &tuple).is_some());
        let (mut out, mut outcome) = (frame.clone(), [Outcome::default()]);
        tracker.process(0, &request, &mut [Packet::of(&mut out)], &mut outcome);
        // The rules of a connection that is open are its own.
        let [outcome] = outcome;
        if known && frame[23] == 6 || outcome.drop == Some(Drop::Clash) {
            continue;
        }
        assert_eq!(
            (look.state.to_string(), look.drop),
            (outcome.state.to_string(), outcome.drop),
            "{request:?}"
        );
        assert_eq!((look.mark, look.original), (outcome.mark, outcome.original), "{request:?}");
        assert_eq!(seen, out, "{request:?}");
        translated += u32::from(out != frame);
        dropped += u32::from(outcome.drop.is_some());
        if outcome.drop.is_none() && frame[23] == 17 {
            left.push(out);
        }
    }
    assert!(translated > 1000 && dropped > 10, "{translated} {dropped}");
}
