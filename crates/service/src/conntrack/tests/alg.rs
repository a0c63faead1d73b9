//! Connections that others announce: FTP's and TFTP's.

use super::*;
use crate::craft::checksums_are_right;
use crate::nat::{Pool, Ports, Rule};

type End = (IpAddr, u16);

const CLIENT: u8 = 1;
const SERVER: u8 = 2;
const OUTSIDE: u8 = 99;

/// An FTP client and its server, with the tracker between them.
struct Bed {
    tracker: Tracker,
    /// How a new connection is kept, and what all others ask for.
    opens: Request,
    plain: Request,
    /// Client and server, and the client as the server knows it.
    client: End,
    server: End,
    seen: End,
    /// What each has sent, in its own numbers.
    sent: [u32; 2],
    /// And what of the client's the server has seen.
    came: u32,
}

impl Bed {
    fn new(translated: bool) -> Bed {
        Bed::between(v4(CLIENT), v4(SERVER), v4(OUTSIDE), translated)
    }

    fn between(client: IpAddr, server: IpAddr, outside: IpAddr, translated: bool) -> Bed {
        let mut tracker = Tracker::new(Config { translated_max: 50, ..Config::new(50, 5) }, 0);
        let pool = Pool::new(outside, outside, Ports::Range(1, 65535)).unwrap();
        let source = Some(tracker.add_pool(pool));
        let nat = match translated {
            true => Nat::New(Rule { source, destination: None }),
            false => Nat::None,
        };
        let (alg, mark) = (Some(Alg::Ftp), Some((7, !0)));
        let opens = Request { commit: true, nat, alg, mark, ..Request::default() };
        let nat = if translated { Nat::Existing } else { Nat::None };
        let plain = Request { nat, ..Request::default() };
        let (client, server) = ((client, 4000), (server, 21));
        let seen = (if translated { outside } else { client.0 }, 4000);
        let mut bed =
            Bed { tracker, opens, plain, client, server, seen, sent: [1000, 5000], came: 1001 };
        let syn = Frame::tcp(client, server, Tcp::SYN, (1000, 0), 0);
        bed.pass(bed.opens, &syn);
        bed.pass(bed.plain, &Frame::tcp(server, bed.seen, Tcp::SYN | Tcp::ACK, (5000, 1001), 0));
        bed.sent = [1001, 5001];
        bed.pass(bed.plain, &Frame::tcp(client, server, Tcp::ACK, (1001, 5001), 0));
        bed
    }

    /// A packet through the tracker; what leaves.
    fn pass(&mut self, request: Request, frame: &Frame) -> (Outcome, Vec<u8>) {
        let mut bytes = frame.bytes();
        let mut outcome = [Outcome::default()];
        self.tracker.process(SECOND, &request, &mut [Packet::of(&mut bytes)], &mut outcome);
        let bytes = self.tracker.take_rewritten().unwrap_or(bytes);
        assert!(outcome[0].drop.is_some() || checksums_are_right(&bytes), "{outcome:?}");
        (outcome[0], bytes)
    }

    fn segment((src, dst): (End, End), numbers: (u32, u32), text: &str) -> Frame {
        let mut frame = Frame::tcp(src, dst, Tcp::ACK | Tcp::PSH, numbers, 0);
        frame.body.extend(text.as_bytes());
        frame
    }

    /// The client says something; what the server reads, and from which number on.
    fn client_says(&mut self, text: &str) -> (u32, String) {
        let frame = Bed::segment((self.client, self.server), (self.sent[0], self.sent[1]), text);
        let (outcome, bytes) = self.pass(self.plain, &frame);
        assert_eq!((outcome.drop, outcome.mark), (None, 7), "{text}");
        let (seq, read) = said(&bytes);
        self.sent[0] += text.len() as u32;
        self.came = seq + read.len() as u32;
        (seq, read)
    }

    /// The server says something, and acknowledges all that it has read; what the client reads, and what is acknowledged.
    fn server_says(&mut self, text: &str) -> (u32, String) {
        let frame = Bed::segment((self.server, self.seen), (self.sent[1], self.came), text);
        let (outcome, bytes) = self.pass(self.plain, &frame);
        assert_eq!(outcome.drop, None, "{text}");
        assert!(outcome.state.contains(CtState::ESTABLISHED), "{outcome:?}");
        self.sent[1] += text.len() as u32;
        let l4 = Packet::of(&mut bytes.clone()).at.l4 as usize;
        (u32::from_be_bytes(*bytes[l4 + 8..].first_chunk().unwrap()), said(&bytes).1)
    }
}

/// A segment's number and text.
fn said(bytes: &[u8]) -> (u32, String) {
    let mut bytes = bytes.to_vec();
    let packet = Packet::of(&mut bytes);
    let (l4, place) = (packet.at.l4 as usize, packet.payload().unwrap());
    let seq = u32::from_be_bytes(*bytes[l4 + 4..].first_chunk().unwrap());
    (seq, String::from_utf8(bytes[place].to_vec()).unwrap())
}

#[test]
fn what_the_client_announces_is_related() {
    let mut bed = Bed::new(false);
    bed.server_says("220 welcome\r\n");
    bed.client_says("USER a\r\n");
    assert_eq!(bed.client_says("PORT 10,0,0,1,19,137\r\n").1, "PORT 10,0,0,1,19,137\r\n");
    let (from, to) = ((v4(SERVER), 20), (v4(CLIENT), 5001));
    let syn = Frame::tcp(from, to, Tcp::SYN, (1, 0), 0);
    let (outcome, _) = bed.pass(bed.plain, &syn);
    assert_eq!((names(outcome), outcome.mark), ("+new+rel+trk".into(), 7));
    assert_eq!(outcome.original.map(|o| (o.src_port, o.dst_port)), Some((4000, 21)));
    // Another port, another host: nobody announced them.
    let others = [(from, (v4(CLIENT), 5002)), ((v4(3), 20), to), ((v4(SERVER), 20), (v4(3), 5001))];
    for (from, to) in others {
        let told = bed.pass(bed.plain, &Frame::tcp(from, to, Tcp::SYN, (1, 0), 0)).0;
        assert_eq!(names(told), "+new+trk");
    }
    // It is related for as long as it is there, and was announced once.
    assert_eq!(names(bed.pass(commit(), &syn).0), "+new+rel+trk");
    let answer = Frame::tcp(to, from, Tcp::SYN | Tcp::ACK, (9, 2), 0);
    let (outcome, _) = bed.pass(bed.plain, &answer);
    assert_eq!((names(outcome), outcome.mark), ("+est+rel+rpl+trk".into(), 7));
    let second = Frame::tcp((v4(SERVER), 22), to, Tcp::SYN, (1, 0), 0);
    assert_eq!(names(bed.pass(bed.plain, &second).0), "+new+trk");
    let counters = bed.tracker.counters();
    assert_eq!((counters.alg_announced, counters.alg_related), (1, 1));
}

#[test]
fn what_the_server_announces_is_related() {
    for (line, port) in [
        ("227 Entering Passive Mode (10,0,0,2,39,16).\r\n", 10_000),
        ("229 Entering Extended Passive Mode (|||10001|)\r\n", 10_001),
    ] {
        let mut bed = Bed::new(false);
        assert_eq!(bed.server_says(line).1, line);
        let syn = Frame::tcp((v4(CLIENT), 4001), (v4(SERVER), port), Tcp::SYN, (1, 0), 0);
        assert_eq!(names(bed.pass(commit(), &syn).0), "+new+rel+trk");
    }
}

#[test]
fn nobody_announces_anothers_address() {
    let mut bed = Bed::new(true);
    let line = "PORT 10,0,0,3,19,137\r\n";
    assert_eq!(bed.client_says(line).1, line);
    bed.server_says("227 Entering Passive Mode (10,0,0,4,39,16).\r\n");
    let counters = bed.tracker.counters();
    assert_eq!((counters.alg_announced, counters.alg_refused), (0, 2));
}

/// A client behind a translation: the server is told the outside address, and both ends agree about what was sent.
#[test]
fn an_active_client_is_translated_with_what_it_says() {
    let mut bed = Bed::new(true);
    let (seq, text) = bed.client_says("PORT 10,0,0,1,19,137\r\n");
    assert_eq!((seq, text.as_str()), (1001, "PORT 10,0,0,99,19,137\r\n"));
    let repeated = Bed::segment((bed.client, bed.server), (1001, 5001), "PORT 10,0,0,1,19,137\r\n");
    let (_, bytes) = bed.pass(bed.plain, &repeated);
    assert_eq!(said(&bytes), (1001, text), "the same again is the same");
    // One octet longer: what comes behind is moved, and acknowledgments are moved back.
    let (acknowledged, _) = bed.server_says("200 ok\r\n");
    assert_eq!(acknowledged, bed.sent[0]);
    assert_eq!(bed.client_says("RETR f\r\n").0, bed.sent[0] - 8 + 1);
    let (acknowledged, _) = bed.server_says("150 comes\r\n");
    assert_eq!(acknowledged, bed.sent[0]);
    // The data connection comes to the outside address and is taken to the client.
    let syn = Frame::tcp((v4(SERVER), 20), (v4(OUTSIDE), 5001), Tcp::SYN, (1, 0), 0);
    let keep = Request { commit: true, ..bed.plain };
    let (outcome, bytes) = bed.pass(keep, &syn);
    assert_eq!(names(outcome), "+new+rel+trk+dnat");
    assert_eq!(
        (&bytes[30..34], &bytes[36..38]),
        (&[10, 0, 0, CLIENT][..], &5001_u16.to_be_bytes()[..])
    );
    let answer = Frame::tcp((v4(CLIENT), 5001), (v4(SERVER), 20), Tcp::SYN | Tcp::ACK, (9, 2), 0);
    let (outcome, bytes) = bed.pass(bed.plain, &answer);
    assert_eq!(names(outcome), "+est+rel+rpl+trk+snat");
    assert_eq!(bytes[26..30], [10, 0, 0, OUTSIDE]);
    // A block of selective acknowledgments is moved back, too.
    let ack = (bed.came - 8, bed.came);
    let mut options = vec![1, 1, 5, 10];
    options.extend(ack.0.to_be_bytes());
    options.extend(ack.1.to_be_bytes());
    let (from, to, numbers) = (bed.server, bed.seen, (bed.sent[1], ack.0));
    let sack = Frame::tcp_with(from, to, Tcp::ACK, numbers, 1000, &options, 0);
    let (_, bytes) = bed.pass(bed.plain, &sack);
    let word = |at: usize| u32::from_be_bytes(*bytes[34 + at..].first_chunk().unwrap());
    assert_eq!([word(8), word(24), word(28)], [ack.0 - 1, ack.0 - 1, ack.1 - 1]);
}

#[test]
fn a_longer_address_over_ipv6_and_a_port_that_another_has() {
    let outside: IpAddr = "fd00:1111:2222:3333:4444:5555:6666:7777".parse().unwrap();
    let mut bed = Bed::between(v6(1), v6(2), outside, true);
    let (_, text) = bed.client_says("EPRT |2|fd00::1|5001|\r\n");
    assert_eq!(text, format!("EPRT |2|{outside}|5001|\r\n"));
    let (acknowledged, _) = bed.server_says("200 ok\r\n");
    assert_eq!(acknowledged, bed.sent[0]);
    // Another client of the same outside address announces the same port.
    let mut bed = Bed::new(true);
    bed.client_says("PORT 10,0,0,1,19,137\r\n");
    let (client, server) = ((v4(5), 4001), bed.server);
    bed.pass(bed.opens, &Frame::tcp(client, server, Tcp::SYN, (1, 0), 0));
    let seen = (v4(OUTSIDE), 4001);
    bed.pass(bed.plain, &Frame::tcp(server, seen, Tcp::SYN | Tcp::ACK, (1, 2), 0));
    let port = Bed::segment((client, server), (2, 2), "PORT 10,0,0,5,19,137\r\n");
    let (_, bytes) = bed.pass(bed.plain, &port);
    assert_eq!(said(&bytes).1, "PORT 10,0,0,99,19,138\r\n");
}

/// A server behind a translation of destinations: the client is told the outside address.
#[test]
fn a_passive_server_is_translated_with_what_it_says() {
    let mut tracker = Tracker::new(Config { translated_max: 50, ..Config::new(50, 5) }, 0);
    let inside = Pool::new(v4(SERVER), v4(SERVER), Ports::Keep).unwrap();
    let destination = Some(tracker.add_pool(inside));
    let nat = Nat::New(Rule { source: None, destination });
    let opens = Request { commit: true, nat, alg: Some(Alg::Ftp), ..Request::default() };
    let plain = Request { nat: Nat::Existing, ..Request::default() };
    let (client, vip, server) = ((v4(CLIENT), 4000), (v4(OUTSIDE), 21), (v4(SERVER), 21));
    let mut pass = |request: Request, frame: &Frame| {
        let mut bytes = frame.bytes();
        let mut outcome = [Outcome::default()];
        tracker.process(SECOND, &request, &mut [Packet::of(&mut bytes)], &mut outcome);
        (outcome[0], tracker.take_rewritten().unwrap_or(bytes))
    };
    pass(opens, &Frame::tcp(client, vip, Tcp::SYN, (1000, 0), 0));
    pass(plain, &Frame::tcp(server, client, Tcp::SYN | Tcp::ACK, (5000, 1001), 0));
    let line = "227 Entering Passive Mode (10,0,0,2,39,16).\r\n";
    let (_, bytes) = pass(plain, &Bed::segment((server, client), (5001, 1001), line));
    assert_eq!(said(&bytes).1, "227 Entering Passive Mode (10,0,0,99,39,16).\r\n");
    let ack = Frame::tcp(client, vip, Tcp::ACK, (1001, 5001 + line.len() as u32 + 1), 0);
    let (outcome, bytes) = pass(plain, &ack);
    assert!(outcome.state.contains(CtState::ESTABLISHED), "{outcome:?}");
    assert_eq!(bytes[42..46], (5001 + line.len() as u32).to_be_bytes());
    let syn = Frame::tcp((v4(CLIENT), 4001), (v4(OUTSIDE), 10_000), Tcp::SYN, (1, 0), 0);
    let (outcome, bytes) = pass(Request { commit: true, ..plain }, &syn);
    assert_eq!(names(outcome), "+new+rel+trk+dnat");
    assert_eq!(bytes[30..34], [10, 0, 0, SERVER]);
}

#[test]
fn a_line_that_is_cut_off_is_dropped_until_it_is_whole() {
    let mut bed = Bed::new(true);
    bed.client_says("NOOP\r\n");
    let cut = Bed::segment((bed.client, bed.server), (bed.sent[0], 5001), "PORT 10,0,0,1,1");
    assert_eq!(bed.pass(bed.plain, &cut).0.drop, Some(Drop::Partial));
    assert_eq!(bed.tracker.counters().alg_partial, 1);
    assert_eq!(bed.client_says("PORT 10,0,0,1,19,137\r\n").1, "PORT 10,0,0,99,19,137\r\n");
    // What is no announcement may be cut anywhere, and what follows it is no line's beginning.
    bed.client_says("STOR a-file-called-");
    assert_eq!(bed.client_says("PORT 10,0,0,1,19,138\r\n").1, "PORT 10,0,0,1,19,138\r\n");
}

#[test]
fn an_expectation_ends_with_its_time_and_with_its_control_connection() {
    let mut bed = Bed::new(false);
    bed.client_says("PORT 10,0,0,1,19,137\r\n");
    bed.server_says("200 ok\r\n");
    // All is acknowledged: an idle connection.
    bed.pass(
        bed.plain,
        &Frame::tcp(bed.client, bed.server, Tcp::ACK, (bed.sent[0], bed.sent[1]), 0),
    );
    let syn = Frame::tcp((v4(SERVER), 20), (v4(CLIENT), 5001), Tcp::SYN, (1, 0), 0);
    let late = one(&mut bed.tracker, 303 * SECOND, &Request::default(), &syn);
    assert_eq!(names(late), "+new+trk");
    bed.client_says("PORT 10,0,0,1,19,137\r\n");
    assert_eq!(names(bed.pass(bed.plain, &syn).0), "+new+rel+trk");
    // The next announcement takes the place of the one before.
    bed.client_says("PORT 10,0,0,1,19,138\r\n");
    assert_eq!(names(bed.pass(bed.plain, &syn).0), "+new+trk");
    bed.tracker.flush(None);
    let other = Frame::tcp((v4(SERVER), 20), (v4(CLIENT), 5002), Tcp::SYN, (1, 0), 0);
    assert_eq!(names(bed.pass(bed.plain, &other).0), "+new+trk");
    assert!(!bed.tracker.helpers.expects());
}

#[test]
fn a_file_transfer_without_connections_is_related_to_its_request() {
    for translated in [false, true] {
        let mut bed = Bed::new(translated);
        let (client, server) = ((v4(CLIENT), 3000), (v4(SERVER), 69));
        let mut request = Frame::udp(client, server, 0);
        request.body.extend(b"\0\x01file\0octet\0");
        request.body[5] += 13;
        let opens = Request { alg: Some(Alg::Tftp), ..bed.opens };
        let (outcome, bytes) = bed.pass(opens, &request);
        assert_eq!(outcome.drop, None);
        let to = (if translated { v4(OUTSIDE) } else { v4(CLIENT) }, 3000);
        assert_eq!(bytes[34..36], 3000_u16.to_be_bytes());
        let data = Frame::udp((v4(SERVER), 34_567), to, 100);
        assert_eq!(names(bed.pass(bed.plain, &data).0), "+new+rel+trk");
        let (outcome, bytes) = bed.pass(Request { commit: true, ..bed.plain }, &data);
        assert_eq!(outcome.mark, 7);
        assert_eq!(bytes[30..34], [10, 0, 0, CLIENT]);
        let ack = Frame::udp(client, (v4(SERVER), 34_567), 4);
        let (outcome, bytes) = bed.pass(bed.plain, &ack);
        let state = if translated { "+est+rel+rpl+trk+snat" } else { "+est+rel+rpl+trk" };
        assert_eq!(names(outcome), state);
        assert_eq!(
            bytes[26..30],
            if translated { [10, 0, 0, OUTSIDE] } else { [10, 0, 0, CLIENT] }
        );
    }
}

/// In a burst, what may get another length is left to come alone.
#[test]
fn what_may_grow_comes_alone() {
    let mut bed = Bed::new(true);
    let leaving = Request { apart: Apart::Leave, ..bed.plain };
    let line = Bed::segment((bed.client, bed.server), (1001, 5001), "PORT 10,0,0,1,19,137\r\n");
    let (outcome, bytes) = bed.pass(leaving, &line);
    assert_eq!((outcome.drop, bytes), (Some(Drop::Apart), line.bytes()));
    let bare = Frame::tcp(bed.client, bed.server, Tcp::ACK, (1001, 5001), 0);
    assert_eq!(bed.pass(leaving, &bare).0.drop, None);
}
