//! Packets that are left to come alone, and fragments that wait.

use super::*;

fn leaving() -> Request {
    Request { apart: Apart::Leave, ..Request::default() }
}

fn holding() -> Request {
    Request { apart: Apart::Hold, ..Request::default() }
}

/// A burst through one call; what each packet is told.
fn burst(tracker: &mut Tracker, request: &Request, frames: &[Frame]) -> Vec<Outcome> {
    let mut bytes: Vec<Vec<u8>> = frames.iter().map(Frame::bytes).collect();
    let mut packets: Vec<_> = bytes.iter_mut().map(|bytes| Packet::of(bytes)).collect();
    let mut outcomes = vec![Outcome::default(); packets.len()];
    tracker.begin();
    tracker.process(SECOND, request, &mut packets, &mut outcomes);
    outcomes
}

fn apart(outcomes: &[Outcome]) -> Vec<bool> {
    outcomes.iter().map(|outcome| outcome.drop == Some(Drop::Apart)).collect()
}

/// A datagram's fragments of so many octets, from one that is whole.
fn fragments(whole: &Frame, ident: u16, octets: usize) -> Vec<Frame> {
    let body = whole.bytes()[34..].to_vec();
    let parts = body.chunks(octets).enumerate();
    let count = body.len().div_ceil(octets);
    let cut = parts.map(|(n, part)| Frame {
        body: part.to_vec(),
        fragment: (ident, (n * octets / 8) as u16 | if n + 1 < count { 0x2000 } else { 0 }),
        ..whole.clone()
    });
    cut.collect()
}

#[test]
fn what_an_earlier_packet_may_open_comes_alone() {
    let mut tracker = Tracker::new(Config::new(10, 1), 0);
    let (a, b, c) = ((v4(1), 1), (v4(2), 2), (v4(3), 3));
    let there = Frame::udp(a, b, 4);
    let frames = [
        there.clone(),
        Frame::udp(b, a, 4),
        Frame::udp(a, c, 4),
        there.clone(),
        there.error(v4(9), 3, 1, 28),
    ];
    let told = burst(&mut tracker, &leaving(), &frames);
    assert_eq!(apart(&told), [false, true, false, true, true]);
    assert_eq!(tracker.counters().left_apart, 3);
    let counted: u64 = tracker.counters().all().take(8).map(|(_, n)| n).sum();
    assert_eq!(counted, 2, "what is left is not counted yet");
    // The first's second call keeps its connection; what was left then comes alone.
    burst(&mut tracker, &commit(), std::slice::from_ref(&there));
    assert_eq!(names(one(&mut tracker, SECOND, &holding(), &frames[1])), "+est+rpl+trk");
    assert_eq!(names(one(&mut tracker, SECOND, &holding(), &frames[3])), "+est+trk");
    assert_eq!(names(one(&mut tracker, SECOND, &holding(), &frames[4])), "+rel+rpl+trk");
    // Of a connection that is there, nothing is left; nor where all is kept by the first call, or nobody can leave it.
    assert_eq!(apart(&burst(&mut tracker, &leaving(), &frames[..2])), [false; 2]);
    let (x, y) = (Frame::udp(a, (v4(7), 1), 0), Frame::udp((v4(7), 1), a, 0));
    let keeping = Request { commit: true, ..leaving() };
    assert_eq!(
        apart(&burst(&mut tracker, &Request::default(), &[x.clone(), x.clone()])),
        [false; 2]
    );
    assert_eq!(apart(&burst(&mut tracker, &keeping, &[x.clone(), y, x])), [false; 3]);
}

#[test]
fn a_reply_to_a_request_of_the_burst_comes_alone() {
    let mut tracker = Tracker::new(Config::new(10, 1), 0);
    let ping = |from, to, kind| Frame::icmp(from, to, kind, 0, 5 << 16, b"");
    let frames = [ping(v4(1), v4(2), 8), ping(v4(2), v4(1), 0), ping(v4(2), v4(1), 8)];
    let told = burst(&mut tracker, &leaving(), &frames);
    assert_eq!(apart(&told), [false, true, false], "the last is another's request");
    let (a, b) = ((v4(1), 1), (v4(2), 2));
    let syn = Frame::tcp(a, b, Tcp::SYN, (1, 0), 0);
    let answer = Frame::tcp(b, a, Tcp::SYN | Tcp::ACK, (9, 2), 0);
    assert_eq!(apart(&burst(&mut tracker, &leaving(), &[syn, answer])), [false, true]);
}

/// Packets that nobody lets open a connection are left in vain once, and others' no more often than is bounded.
#[test]
fn what_is_left_in_vain_is_not_left_again() {
    let mut tracker = Tracker::new(Config::new(10, 1), 0);
    let denied = Frame::udp((v4(1), 1), (v4(2), 2), 4);
    let twice = [denied.clone(), denied.clone()];
    assert_eq!(apart(&burst(&mut tracker, &leaving(), &twice)), [false, true]);
    one(&mut tracker, SECOND, &holding(), &denied);
    for _ in 0..3 {
        assert_eq!(apart(&burst(&mut tracker, &leaving(), &twice)), [false, false]);
    }
    let mut left = 0;
    for n in 0..2000 {
        let other = Frame::udp((v4(1), n), (v4(3), 2), 4);
        let told = burst(&mut tracker, &leaving(), &[other.clone(), other.clone()]);
        if told[1].drop.is_some() {
            left += 1;
            one(&mut tracker, SECOND, &holding(), &other);
        }
    }
    assert!((100..=300).contains(&left), "{left}");
    // Once it is opened after all, it is as any other.
    one(&mut tracker, SECOND, &commit(), &denied);
    assert_eq!(names(burst(&mut tracker, &leaving(), &twice)[1]), "+new+trk");
}

#[test]
fn fragments_of_a_burst_come_alone_until_their_first_is_known() {
    let mut tracker = Tracker::new(Config::new(10, 1), 0);
    let parts = fragments(&Frame::udp((v4(1), 1), (v4(2), 2), 300), 7, 104);
    assert_eq!(parts.len(), 3);
    assert_eq!(apart(&burst(&mut tracker, &leaving(), &parts)), [true; 3]);
    assert_eq!(tracker.fragments.waiting(), 0, "nothing is noted of what is left");
    for (n, part) in parts.iter().enumerate() {
        assert_eq!(names(one(&mut tracker, SECOND, &holding(), part)), "+new+trk", "{n}");
        one(&mut tracker, SECOND, &commit(), part);
    }
    let answer = Frame::udp((v4(2), 2), (v4(1), 1), 0);
    one(&mut tracker, SECOND, &holding(), &answer);
    // A later one whose first is known needs not come alone.
    let parts = fragments(&Frame::udp((v4(1), 1), (v4(2), 2), 300), 8, 104);
    one(&mut tracker, SECOND, &holding(), &parts[0]);
    let told = burst(&mut tracker, &leaving(), &parts[1..]);
    assert_eq!(told.iter().map(|o| names(*o)).collect::<Vec<_>>(), ["+est+trk"; 2]);
}

#[test]
fn fragments_wait_for_their_first_and_no_longer() {
    let mut tracker = Tracker::new(Config::new(10, 1), 0);
    let parts = fragments(&Frame::udp((v4(1), 1), (v4(2), 2), 300), 7, 104);
    let ticket = |outcome: Outcome| match outcome.drop {
        Some(Drop::Waits(ticket)) => ticket,
        other => panic!("{other:?}"),
    };
    let wait =
        |tracker: &mut Tracker, n: usize| ticket(one(tracker, SECOND, &holding(), &parts[n]));
    let (third, second) = (wait(&mut tracker, 2), wait(&mut tracker, 1));
    assert!(!tracker.has_news() && tracker.waiting() == 2);
    assert_eq!(names(one(&mut tracker, SECOND, &holding(), &parts[0])), "+new+trk");
    assert_eq!(tracker.take_ready(), [second, third]);
    for part in &parts[1..] {
        assert_eq!(names(one(&mut tracker, SECOND, &holding(), part)), "+new+trk");
    }
    // One whose first does not come is lost when its time is over, and counted.
    let parts = fragments(&Frame::udp((v4(1), 1), (v4(2), 2), 300), 8, 104);
    let lost = ticket(one(&mut tracker, SECOND, &holding(), &parts[2]));
    tracker.expire(30 * SECOND, 10);
    assert!(!tracker.has_news());
    tracker.expire(32 * SECOND, 10);
    assert_eq!((tracker.take_lost(), tracker.waiting()), (vec![lost], 0));
    let counters = tracker.counters();
    assert_eq!((counters.fragments_waited, counters.fragments_lost), (3, 1));
    assert_eq!(counters.fragment_orphan, 1);
    // Nor does any wait when nothing does any more.
    let waits = one(&mut tracker, 40 * SECOND, &holding(), &parts[1]);
    tracker.give_up_waiting();
    assert_eq!(tracker.take_lost(), [ticket(waits)]);
}

#[test]
fn overlapping_and_tiny_fragments_are_dropped_and_counted() {
    let (a, b) = ((v4(1), 1), (v4(2), 2));
    let mut tracker = Tracker::new(Config::new(10, 1), 0);
    let parts = fragments(&Frame::udp(a, b, 300), 7, 104);
    one(&mut tracker, SECOND, &commit(), &parts[0]);
    let mut overlapping = parts[1].clone();
    overlapping.fragment.1 -= 1;
    for part in [&overlapping, &parts[1], &parts[2]] {
        let told = one(&mut tracker, SECOND, &commit(), part);
        assert_eq!(told.drop, Some(Drop::Fragment), "and all behind it");
    }
    // TCP's flags lie in the second eight octets (RFC 3128).
    let parts = fragments(&Frame::tcp(a, b, Tcp::SYN, (1, 0), 100), 8, 24);
    one(&mut tracker, SECOND, &commit(), &parts[0]);
    let mut tiny = parts[1].clone();
    tiny.fragment.1 = 1 | 0x2000;
    assert_eq!(one(&mut tracker, SECOND, &commit(), &tiny).drop, Some(Drop::Fragment));
    let counters = tracker.counters();
    assert_eq!(
        (counters.fragments_overlapping, counters.fragments_tiny, counters.malformed),
        (3, 1, 4)
    );
    // The rest of the datagram is as it was.
    assert_eq!(one(&mut tracker, SECOND, &commit(), &parts[1]).drop, None);
}

/// An IPv6 fragment of a UDP datagram.
fn v6_fragment(ident: u32, start: u16, octets: &[u8], more: bool) -> Vec<u8> {
    let mut body = vec![17, 0];
    body.extend((start << 3 | u16::from(more)).to_be_bytes());
    body.extend(ident.to_be_bytes());
    body.extend(octets);
    Frame::new(v6(1), v6(2), IpProtocol(44), body).bytes()
}

#[test]
fn fragments_of_ipv6_wait_and_are_checked_alike() {
    let mut tracker = Tracker::new(Config::new(10, 1), 0);
    let body = Frame::udp((v6(1), 1), (v6(2), 2), 88).bytes()[54..].to_vec();
    let mut send = |ident: u32, start: usize, end: usize, more: bool| {
        let mut bytes = v6_fragment(ident, (start / 8) as u16, &body[start..end], more);
        let mut outcome = [Outcome::default()];
        tracker.process(SECOND, &holding(), &mut [Packet::of(&mut bytes)], &mut outcome);
        let ready = tracker.take_ready().len();
        (outcome[0], ready)
    };
    assert!(matches!(send(5, 64, 96, false).0.drop, Some(Drop::Waits(_))));
    assert!(matches!(send(5, 32, 64, true).0.drop, Some(Drop::Waits(_))));
    let (first, ready) = send(5, 0, 32, true);
    assert_eq!((names(first), ready), ("+new+trk".into(), 2));
    assert_eq!(names(send(5, 32, 64, true).0), "+new+trk");
    assert_eq!(names(send(5, 64, 96, false).0), "+new+trk");
    // Another's identification; one that overlaps; one whose length cannot be.
    send(6, 0, 32, true);
    assert_eq!(names(send(6, 32, 61, true).0), "+inv+trk");
    assert_eq!(send(6, 24, 48, true).0.drop, Some(Drop::Fragment));
    assert_eq!(send(6, 64, 96, false).0.drop, Some(Drop::Fragment));
}

/// Thousands of first fragments from one host take nothing from another's datagrams.
#[test]
fn a_flood_of_first_fragments_costs_its_sender() {
    let mut tracker = Tracker::new(Config::new(100, 1), 0);
    let victims: Vec<_> = (0..20)
        .map(|n| fragments(&Frame::udp((v4(1), 1000 + n), (v4(2), 2), 300), n, 104))
        .collect();
    for parts in &victims {
        one(&mut tracker, SECOND, &commit(), &parts[0]);
    }
    for ident in 0..9000 {
        let mut first = Frame::udp((v4(66), 1), (v4(67), 2), 16);
        first.fragment = (ident, 0x2000);
        one(&mut tracker, SECOND, &Request::default(), &first);
    }
    assert!(tracker.counters().fragmented_evicted > 4000);
    for parts in &victims {
        for part in &parts[1..] {
            assert_eq!(names(one(&mut tracker, SECOND, &commit(), part)), "+new+trk");
        }
    }
}
