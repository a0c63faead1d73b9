//! Connections that are over make room, and give up their address and port.

use super::*;
use crate::nat::{Pool, Ports, Rule};

/// A client's end and a server's.
type Ends = ((IpAddr, u16), (IpAddr, u16));

struct Bed {
    tracker: Tracker,
    now_ns: u64,
    opens: Request,
}

impl Bed {
    fn new(config: Config, ports: Option<Ports>) -> Bed {
        let mut tracker = Tracker::new(config, 0);
        let nat = match ports {
            None => Nat::None,
            Some(ports) => {
                let pool = Pool::new(v4(99), v4(99), ports).unwrap();
                let source = Some(tracker.add_pool(pool));
                Nat::New(Rule { source, destination: None })
            }
        };
        let opens = Request { commit: true, nat, ..Request::default() };
        Bed { tracker, now_ns: SECOND, opens }
    }

    fn send(&mut self, request: Request, frame: &Frame) -> (Outcome, Vec<u8>) {
        let mut bytes = frame.bytes();
        let mut outcome = [Outcome::default()];
        let packet = Packet::of(&mut bytes);
        self.tracker.process(self.now_ns, &request, &mut [packet], &mut outcome);
        (outcome[0], bytes)
    }

    /// A SYN of this number; the port that it leaves with.
    fn syn(&mut self, (client, server): Ends, seq: u32) -> Result<u16, Drop> {
        let (outcome, bytes) =
            self.send(self.opens, &Frame::tcp(client, server, Tcp::SYN, (seq, 0), 0));
        let port = u16::from_be_bytes([bytes[34], bytes[35]]);
        outcome.drop.map_or(Ok(port), Err)
    }

    /// A connection that is opened, and closed by both ends or reset by the server.
    fn whole(&mut self, ends: Ends, seq: u32, reset: bool) -> Result<u16, Drop> {
        let port = self.syn(ends, seq)?;
        let (client, server) = ends;
        let nat = if self.opens.nat == Nat::None { Nat::None } else { Nat::Existing };
        let request = Request { nat, ..Request::default() };
        let outside = (if nat == Nat::None { client.0 } else { v4(99) }, port);
        let there = |flags, numbers| Frame::tcp(client, server, flags, numbers, 0);
        let back = |flags, numbers| Frame::tcp(server, outside, flags, numbers, 0);
        let (ack, fin) = (Tcp::ACK, Tcp::FIN | Tcp::ACK);
        let mut frames = vec![back(Tcp::SYN | ack, (500, seq + 1)), there(ack, (seq + 1, 501))];
        if reset {
            frames.push(back(Tcp::RST | ack, (501, seq + 1)));
        } else {
            frames.push(there(fin, (seq + 1, 501)));
            frames.push(back(fin, (501, seq + 2)));
            frames.push(there(ack, (seq + 2, 502)));
        }
        for frame in frames {
            let (outcome, _) = self.send(request, &frame);
            assert!(outcome.state.contains(CtState::ESTABLISHED), "{frame:?}: {outcome:?}");
        }
        Ok(port)
    }

    fn states(&self) -> Vec<tcp::State> {
        self.tracker.connections(self.now_ns).filter_map(|c| c.tcp).collect()
    }
}

fn translating() -> Config {
    Config { translated_max: 100, ..Config::new(100, 3) }
}

fn ends(host: u8, port: u16) -> Ends {
    ((v4(host), port), (v4(200), 80))
}

#[test]
fn a_port_of_a_closed_connection_serves_the_next() {
    for (reset, state) in [(false, tcp::State::TimeWait), (true, tcp::State::Closed)] {
        for ports in [
            Ports::Range(3000, 3002),
            Ports::Deterministic { first: 3000, last: 3002, inside: v4(1), senders: 1 },
            Ports::Blocks { first: 3000, last: 3002, size: 3, blocks_max: 1 },
        ] {
            let mut bed = Bed::new(translating(), Some(ports));
            for n in 0..20 {
                let port = bed.whole(ends(1, 20_000 + n), 1000 + u32::from(n) * 20_000, reset);
                assert!((3000..=3002).contains(&port.unwrap()), "{ports:?} {n}");
            }
            assert_eq!(bed.states(), [state; 3], "{ports:?}");
            let counters = bed.tracker.counters();
            assert_eq!((counters.closed_replaced, counters.nat_exhausted), (17, 0), "{ports:?}");
            assert!(bed.tracker.pools.iter().all(|pool| pool.exhausted() == 0));
            bed.tracker.flush(None);
            assert!(bed.tracker.pools.iter().all(|p| p.blocks().is_none_or(|(used, _)| used == 0)));
        }
    }
}

#[test]
fn a_port_gives_way_only_to_a_syn_beyond_what_was_sent() {
    let only = Some(Ports::Range(4000, 4000));
    for (what, seq, passes) in [
        ("above", 1002, true),
        ("not above", 1001, false),
        ("below", 17, false),
        ("far", 1 << 31, true),
    ] {
        let mut bed = Bed::new(translating(), only);
        bed.whole(ends(1, 5000), 1000, false).unwrap();
        assert_eq!(bed.syn(ends(2, 5001), seq).is_ok(), passes, "{what}");
    }
    // An open one keeps its port, and so does one that is not over yet; another server shares it.
    let mut bed = Bed::new(translating(), only);
    bed.syn(ends(1, 5000), 1000).unwrap();
    assert_eq!(bed.syn(ends(2, 5001), 90_000), Err(Drop::NatExhausted));
    assert_eq!(bed.syn(((v4(2), 5001), (v4(201), 80)), 90_000), Ok(4000));
    // Neither UDP nor a segment without SYN makes a closed one give way.
    let mut bed = Bed::new(translating(), only);
    bed.whole(ends(1, 5000), 1000, false).unwrap();
    let (client, server) = ends(2, 5001);
    let ack = Frame::tcp(client, server, Tcp::ACK, (90_000, 1), 0);
    assert_eq!(bed.send(bed.opens, &ack).0.drop, Some(Drop::NatExhausted));
    // Where a port is free, the closed one stays.
    let mut bed = Bed::new(translating(), Some(Ports::Range(4000, 4001)));
    bed.whole(ends(1, 5000), 1000, false).unwrap();
    bed.syn(ends(2, 5001), 90_000).unwrap();
    assert_eq!(bed.tracker.counters().closed_replaced, 0);
    assert_eq!(bed.tracker.len(), 2);
}

#[test]
fn a_connection_whose_time_is_over_holds_no_port() {
    let mut bed = Bed::new(translating(), Some(Ports::Range(4000, 4000)));
    let (client, server) = ends(1, 5000);
    bed.send(bed.opens, &Frame::udp(client, server, 1));
    bed.now_ns += 31 * SECOND;
    let (outcome, _) = bed.send(bed.opens, &Frame::udp((v4(2), 7), server, 1));
    assert_eq!(outcome.drop, None);
}

#[test]
fn a_table_full_of_closed_connections_makes_room() {
    for (reset, translated) in [(false, false), (true, false), (false, true), (true, true)] {
        let config = Config { translated_max: 16, ..Config::new(16, 3) };
        let mut bed = Bed::new(config, translated.then_some(Ports::Range(1024, 65535)));
        for n in 0..16 {
            bed.whole(ends(1, 20_000 + n), 1000, reset).unwrap();
        }
        for n in 0..40 {
            bed.syn(ends(1, 30_000 + n), 1000).unwrap();
        }
        let counters = bed.tracker.counters();
        assert_eq!(
            (counters.closed_evicted, counters.table_full),
            (8, 0),
            "the rest by half-open ones"
        );
        assert_eq!(counters.half_open_evicted, 32);
    }
}

/// Reset ones go before those in their TIME-WAIT, the oldest of each first, and open ones never.
#[test]
fn the_oldest_closed_goes_first_and_an_open_one_never() {
    let mut config = Config::new(4, 3);
    config.half_open_max = 100;
    let mut bed = Bed::new(config, None);
    bed.whole(ends(1, 1), 1000, false).unwrap();
    bed.whole(ends(1, 2), 1000, true).unwrap();
    bed.whole(ends(1, 3), 1000, false).unwrap();
    let (client, server) = ends(1, 4);
    bed.syn((client, server), 1000).unwrap();
    let answer = Frame::tcp(server, client, Tcp::SYN | Tcp::ACK, (5, 1001), 0);
    bed.send(Request::default(), &answer);
    bed.send(Request::default(), &Frame::tcp(client, server, Tcp::ACK, (1001, 6), 0));
    let left = |bed: &Bed| {
        let mut ports: Vec<u16> =
            bed.tracker.connections(bed.now_ns).map(|c| c.original.src_port).collect();
        ports.sort_unstable();
        ports
    };
    for (new, want) in [(11, [1, 3, 4, 11]), (12, [3, 4, 11, 12]), (13, [4, 11, 12, 13])] {
        bed.syn(ends(1, new), 1).unwrap();
        assert_eq!(left(&bed), want);
    }
    bed.syn(ends(1, 14), 1).unwrap();
    assert_eq!(left(&bed), [4, 12, 13, 14], "then half-open ones");
}

#[test]
fn an_association_that_was_shut_down_makes_room() {
    let mut bed = Bed::new(Config::new(1, 3), None);
    let (a, b) = ((v4(1), 7), (v4(2), 8));
    let packet = |(src, from): (IpAddr, u16), (dst, to): (IpAddr, u16), tag: u32, chunk: &[u8]| {
        let mut body = Vec::new();
        body.extend(from.to_be_bytes());
        body.extend(to.to_be_bytes());
        body.extend(tag.to_be_bytes());
        body.extend([0; 4]);
        body.extend(chunk);
        Frame::new(src, dst, IpProtocol::SCTP, body)
    };
    let init =
        |kind: u8, tag: u8| [kind, 0, 0, 20, 0, 0, 0, tag, 0, 0, 16, 0, 0, 1, 0, 1, 0, 0, 0, 1];
    for frame in [
        packet(a, b, 0, &init(1, 9)),
        packet(b, a, 9, &init(2, 5)),
        packet(a, b, 5, &[10, 0, 0, 4]),
        packet(b, a, 9, &[11, 0, 0, 4]),
        packet(a, b, 5, &[7, 0, 0, 8, 0, 0, 0, 0]),
        packet(b, a, 9, &[8, 0, 0, 4]),
    ] {
        bed.send(commit(), &frame);
    }
    let other = Frame::udp((v4(3), 1), (v4(4), 2), 0);
    assert_eq!(bed.send(commit(), &other).0.drop, Some(Drop::TableFull), "not over yet");
    bed.send(commit(), &packet(a, b, 5, &[14, 0, 0, 4]));
    assert_eq!(bed.send(commit(), &other).0.drop, None);
    assert_eq!(bed.tracker.counters().closed_evicted, 1);
}

/// A connection that is closed and opened anew is open, and makes room for nobody.
#[test]
fn a_reopened_connection_makes_no_room() {
    let mut config = Config::new(1, 3);
    config.half_open_max = 1;
    let mut bed = Bed::new(config, None);
    let (client, server) = ends(1, 9);
    bed.whole((client, server), 1000, false).unwrap();
    bed.syn((client, server), 90_000).unwrap();
    for frame in [
        Frame::tcp(server, client, Tcp::SYN | Tcp::ACK, (7, 90_001), 0),
        Frame::tcp(client, server, Tcp::ACK, (90_001, 8), 0),
    ] {
        bed.send(Request::default(), &frame);
    }
    assert_eq!(bed.states(), [tcp::State::Established]);
    assert_eq!(bed.syn(ends(2, 9), 1), Err(Drop::TableFull));
}

/// `nat(src)` without an address: the source stays, and its port does where it can.
#[test]
fn no_address_in_particular_resolves_a_collision_by_the_port() {
    let mut bed = Bed::new(translating(), None);
    let inside = Pool::new(v4(3), v4(3), Ports::Keep).unwrap();
    let inside = Rule { source: None, destination: Some(bed.tracker.add_pool(inside)) };
    let (host, vip, server) = (v4(1), v4(50), v4(3));
    let syn = |to| Frame::tcp((host, 10_000), (to, 80), Tcp::SYN, (1, 0), 0);
    let to_server = Request { commit: true, nat: Nat::New(inside), ..Request::default() };
    assert_eq!(bed.send(to_server, &syn(vip)).0.drop, None);
    let any = Request { commit: true, nat: Nat::New(Rule::default()), ..Request::default() };
    // Straight to the server: the answers would be the other connection's.
    assert_eq!(bed.send(commit(), &syn(server)).0.drop, Some(Drop::Clash));
    let (outcome, bytes) = bed.send(any, &syn(server));
    let port = u16::from_be_bytes([bytes[34], bytes[35]]);
    assert!(outcome.drop.is_none() && port != 10_000 && port >= 1024);
    assert_eq!(
        (bytes[26..30].to_vec(), names(outcome)),
        (vec![10, 0, 0, 1], "+new+trk+snat".into())
    );
    let back = Frame::tcp((server, 80), (host, port), Tcp::SYN | Tcp::ACK, (9, 2), 0);
    let (outcome, bytes) = bed.send(Request { nat: Nat::Existing, ..Request::default() }, &back);
    assert_eq!(names(outcome), "+est+rpl+trk+dnat");
    assert_eq!(bytes[36..38], 10_000_u16.to_be_bytes());
    // Nothing in the way: nothing is changed. A protocol without ports has nothing to change.
    let (outcome, bytes) = bed.send(any, &Frame::udp((host, 10_000), (server, 80), 3));
    assert_eq!(
        (names(outcome), &bytes[34..36]),
        ("+new+trk".into(), &10_000_u16.to_be_bytes()[..])
    );
    let gre = |to| Frame::new(host, to, IpProtocol::GRE, vec![0; 8]);
    assert_eq!(bed.send(to_server, &gre(vip)).0.drop, None);
    assert_eq!(bed.send(any, &gre(server)).0.drop, Some(Drop::NatExhausted));
    // A request's identifier stands for its port.
    let ping = |to| Frame::icmp(host, to, 8, 0, 7 << 16, b"x");
    assert_eq!(bed.send(to_server, &ping(vip)).0.drop, None);
    let (outcome, bytes) = bed.send(any, &ping(server));
    assert_eq!(names(outcome), "+new+trk+snat");
    assert_ne!(bytes[38..40], [0, 7]);
}
