//! A tracker and its copy: what is told, what is not, and how the copy goes on.

use super::*;
use crate::conntrack::image::tests::{end, outside, packet, pass, with_pools};
use crate::conntrack::{Config, CtState, Nat, Request, tcp};
use crate::craft::Frame;
use crate::nat::{Pool, PoolId, Ports, Rule, Stripes};
use crate::random::Random;
use std::collections::BTreeSet;
use wire::tcp::Flags as Tcp;

const SECOND: u64 = 1_000_000_000;

/// What is known of connections that are not half-open, but for what moves with each packet.
fn settled(tracker: &Tracker, now_ns: u64) -> BTreeSet<String> {
    let now_ns = tracker.clock.at(now_ns);
    (0..tracker.records.len() as u32)
        .filter(|at| {
            let record = &tracker.records[*at as usize];
            record.flags().has(Flags::LIVE)
                && record.deadline > crate::conntrack::ticks(now_ns)
                && tracker.is_settled(*at)
        })
        .map(|at| {
            let c = tracker.show(at, 0);
            format!(
                "{:?} {:?} {} {} {:?} {:?}",
                c.original, c.reply, c.mark, c.label, c.tcp, c.sctp
            )
        })
        .collect()
}

fn apply(copy: &mut Tracker, now_ns: u64, records: &[u8]) -> Applied {
    let (mut records, mut sum) = (records, Applied::default());
    while !records.is_empty() {
        let applied = copy.apply(now_ns, &mut records, 5).unwrap();
        sum.connections += applied.connections;
        sum.gone += applied.gone;
        assert_eq!((applied.no_room, applied.known), (0, 0));
    }
    sum
}

fn told(tracker: &mut Tracker, now_ns: u64) -> Vec<u8> {
    let (mut out, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        from = tracker.tell_all(now_ns, at, 9, &mut out);
    }
    out
}

fn sync(copy: &mut Tracker, now_ns: u64, records: &[u8]) {
    copy.begin_sync();
    apply(copy, now_ns, records);
    let mut from = Some(0);
    while let Some(at) = from {
        from = copy.end_sync(at, 7);
    }
}

/// Random traffic of all kinds, also IPv6, translated, marked and closed: whenever all was told, the copy has what is not
/// half-open, and nothing else.
#[test]
fn a_copy_has_what_is_settled_and_nothing_else() {
    let (mut connections, mut gone) = (0, 0);
    for seed in 0..40_u64 {
        let mut random = Random(seed);
        let (mut a, pools) = with_pools(seed, 0);
        let (mut copy, _) = with_pools(seed + 100, 7 * SECOND);
        a.follow(1 << 16);
        copy.stand_still(7 * SECOND);
        let (mut now_ns, mut spare) = (0, Vec::with_capacity(1 << 16));
        for n in 0..800 {
            now_ns += random.below(SECOND);
            let (frame, request) = packet(&mut random, &pools);
            pass(&mut a, now_ns, &frame, &request);
            if n % 400 == 399 && seed % 4 == 0 {
                a.flush(Some(1));
            }
            if random.below(10) != 0 {
                continue;
            }
            while a.expire(now_ns, 64) {}
            let changes = a.take_changes(now_ns, spare);
            assert!(!changes.full);
            let applied = apply(&mut copy, now_ns, &changes.records);
            assert_eq!(applied.connections + applied.gone, changes.told);
            (connections, gone) = (connections + applied.connections, gone + applied.gone);
            spare = changes.records;
            assert_eq!(settled(&copy, now_ns), settled(&a, now_ns), "seed {seed}, packet {n}");
            assert_eq!(copy.len(), settled(&copy, now_ns).len());
            // The same again does no harm.
            apply(&mut copy, now_ns, &spare);
            assert_eq!(settled(&copy, now_ns), settled(&a, now_ns));
        }
    }
    assert!(connections > 1500 && gone > 500, "{connections} {gone}");
}

fn handshake(a: &mut Tracker, now_ns: u64, request: &Request, port: u16) -> Frame {
    let (client, server) = (end(1, false, port), end(9, false, 80));
    let syn = Frame::tcp_with(client, server, Tcp::SYN, (1000, 0), 65000, &[3, 3, 7, 1], 0);
    let (outcome, out) = pass(a, now_ns, &syn, request);
    assert!(outcome.drop.is_none());
    // The answer goes to where the SYN seems to come from.
    let (src, sport) =
        ([out[26], out[27], out[28], out[29]].into(), u16::from_be_bytes([out[34], out[35]]));
    let existing = Request { nat: Nat::Existing, ..Request::default() };
    let answer = Frame::tcp_with(
        server,
        (src, sport),
        Tcp::SYN | Tcp::ACK,
        (5000, 1001),
        65000,
        &[3, 3, 7, 1],
        0,
    );
    pass(a, now_ns, &answer, &existing);
    pass(a, now_ns, &Frame::tcp(client, server, Tcp::ACK, (1001, 5001), 0), &existing);
    answer
}

/// A hundred connections, far beyond what the copy was told of them when it goes on, and late: none is stuck, all are translated as
/// before, and each has the time that was left to it.
#[test]
fn connections_go_on_where_nobody_has_told_their_windows() {
    let (mut a, pools) = with_pools(1, 0);
    let (mut copy, _) = with_pools(2, 0);
    a.follow(1 << 16);
    copy.stand_still(0);
    let source = Rule { source: Some(pools[0]), destination: None };
    let opens = Request { commit: true, nat: Nat::New(source), ..Request::default() };
    let existing = Request { nat: Nat::Existing, ..Request::default() };
    let answers: Vec<Frame> =
        (0..100).map(|n| handshake(&mut a, SECOND, &opens, 2000 + n)).collect();
    // One is but half open: its opener asks again.
    let late = Frame::tcp(end(2, false, 5), end(9, false, 80), Tcp::SYN, (1, 0), 0);
    pass(&mut a, SECOND, &late, &opens);
    let changes = a.take_changes(SECOND, Vec::new());
    assert_eq!(changes.told, 100);
    assert!(changes.records.len() <= 100 * 50, "{}", changes.records.len());
    apply(&mut copy, SECOND, &changes.records);
    // A million seconds as a standby.
    let now_ns = 1_000_000 * SECOND;
    while copy.expire(now_ns, 64) {}
    assert_eq!(copy.len(), 100);
    copy.go_on(now_ns);
    for (n, answer) in (0..).zip(&answers) {
        let (client, server) = (end(1, false, 2000 + n), end(9, false, 80));
        let far = 1001 + (n as u32 + 1) * 40_000_000;
        let there = Frame::tcp(client, server, Tcp::ACK, (far, 90_000_000), 1000);
        let (outcome, bytes) = pass(&mut copy, now_ns, &there, &existing);
        assert!(outcome.state.contains(CtState::ESTABLISHED), "{n}: {:?}", outcome.state);
        let (_, before) =
            pass(&mut a, SECOND, &Frame::tcp(client, server, Tcp::ACK, (1001, 5001), 0), &existing);
        assert_eq!(bytes[26..36], before[26..36], "it leaves as it has left");
        let back = Frame::tcp(
            server,
            (answer.dst, u16::from_be_bytes([before[34], before[35]])),
            Tcp::ACK,
            (91_000_000, far - 500_000),
            1000,
        );
        let (outcome, _) = pass(&mut copy, now_ns, &back, &existing);
        assert!(outcome.state.contains(CtState::ESTABLISHED | CtState::REPLY), "{n}");
    }
    let timeouts: BTreeSet<u32> = copy.connections(now_ns).map(|c| c.timeout).collect();
    let of = tcp::Timeouts::default();
    assert!(
        timeouts
            .iter()
            .all(|left| left.abs_diff(of.unacknowledged) < 2 || left.abs_diff(of.established) < 2),
        "{timeouts:?}"
    );
}

#[test]
fn a_full_buffer_is_told_and_telling_all_makes_up_for_it() {
    let (mut a, pools) = with_pools(1, 0);
    let (mut copy, _) = with_pools(2, 0);
    copy.stand_still(0);
    let source = Rule { source: Some(pools[0]), destination: None };
    let opens = Request { commit: true, nat: Nat::New(source), ..Request::default() };
    for n in 0..20 {
        handshake(&mut a, SECOND, &opens, 2000 + n);
    }
    a.follow(4 * RECORD_MAX);
    // Those that were there before somebody followed come with all, and so do their ends.
    sync(&mut copy, SECOND, &told(&mut a, SECOND));
    assert_eq!((copy.len(), settled(&copy, SECOND)), (20, settled(&a, SECOND)));
    for n in 20..60 {
        handshake(&mut a, SECOND, &opens, 2000 + n);
    }
    let changes = a.take_changes(SECOND, Vec::with_capacity(4 * RECORD_MAX));
    assert!(changes.full && changes.told < 40 && changes.records.len() <= 4 * RECORD_MAX);
    a.flush_selected(
        &crate::conntrack::Selection::parse(&["ct_nw_proto=6,ct_tp_src=2003"]).unwrap(),
    );
    let again = a.take_changes(SECOND, Vec::with_capacity(4 * RECORD_MAX));
    assert!(!again.full, "it was told once");
    apply(&mut copy, SECOND, &changes.records);
    assert_ne!(settled(&copy, SECOND), settled(&a, SECOND));
    sync(&mut copy, SECOND, &told(&mut a, SECOND));
    assert_eq!(settled(&copy, SECOND), settled(&a, SECOND));
}

/// What was active and is a copy now knows less than who tells it.
#[test]
fn who_is_no_more_active_takes_what_it_is_told() {
    let (mut old, pools) = with_pools(1, 0);
    let (mut new, _) = with_pools(2, 0);
    old.follow(1 << 16);
    new.stand_still(0);
    let source = Rule { source: Some(pools[0]), destination: None };
    let opens = Request { commit: true, nat: Nat::New(source), ..Request::default() };
    for n in 0..5 {
        handshake(&mut old, SECOND, &opens, 2000 + n);
    }
    apply(&mut new, SECOND, &old.take_changes(SECOND, Vec::new()).records);
    // Unheard of, and half open: both are gone where the other one tells.
    handshake(&mut old, SECOND, &opens, 3000);
    pass(
        &mut old,
        SECOND,
        &Frame::tcp(end(2, false, 5), end(9, false, 80), Tcp::SYN, (1, 0), 0),
        &opens,
    );
    new.go_on(SECOND);
    new.follow(1 << 16);
    new.flush_selected(
        &crate::conntrack::Selection::parse(&["ct_nw_proto=6,ct_tp_src=2001"]).unwrap(),
    );
    handshake(&mut new, SECOND, &opens, 4000);
    old.unfollow();
    old.stand_still(9 * SECOND);
    sync(&mut old, 9 * SECOND, &told(&mut new, 2 * SECOND));
    assert_eq!(settled(&old, 9 * SECOND), settled(&new, 2 * SECOND));
    assert_eq!(old.len(), 5);
}

/// Two that are active at once, of one pool: whatever they bind, they never bind the same.
#[test]
fn stripes_keep_two_translators_apart() {
    let ranges = [
        Ports::Range(1, u16::MAX),
        Ports::Range(2000, 2999),
        Ports::Blocks { first: 1024, last: 5119, size: 32, blocks_max: 4 },
    ];
    for ports in ranges {
        let mut seen = BTreeSet::new();
        let mut both = [0x5555_5555_5555_5555, !0x5555_5555_5555_5555].map(|stripes| {
            let config = Config {
                translated_max: 4000,
                half_open_max: 4000,
                check_checksums: false,
                ..Config::new(4000, stripes)
            };
            let mut tracker = Tracker::new(config, 0);
            let id = tracker.add_pool(Pool::new(outside(false), outside(false), ports).unwrap());
            tracker.set_stripes(Stripes(stripes));
            (tracker, id)
        });
        let bind = |(tracker, id): &mut (Tracker, PoolId), n: u16, own: u16| {
            let rule = Rule { source: Some(*id), destination: None };
            let request = Request { commit: true, nat: Nat::New(rule), ..Request::default() };
            let frame = Frame::udp(end(u64::from(1 + n % 20), false, own), end(9, false, 53), 4);
            let (outcome, bytes) = pass(tracker, 0, &frame, &request);
            (outcome.drop.is_none(), u16::from_be_bytes([bytes[34], bytes[35]]))
        };
        let mut bound = 0;
        for n in 0..400 {
            for side in &mut both {
                // The same sockets on both sides.
                let (done, port) = bind(side, n, 1024 + n / 20);
                if done {
                    bound += 1;
                    assert!(seen.insert(port), "{ports:?}: {port} twice");
                }
            }
        }
        assert!(bound > 700, "{ports:?} {bound}");
        // Half of the stripes is nobody's, then one's: all of a small range is used up and more.
        both[1].0.flush(None);
        both[0].0.set_stripes(Stripes::ALL);
        let more = (400..900).filter(|n| bind(&mut both[0], *n, 3000 + n).0).count();
        assert!(more > 400, "{ports:?} {more}");
    }
}

#[test]
fn what_was_announced_or_opened_alone_is_told_in_its_time() {
    let (mut a, _) = with_pools(3, 0);
    a.follow(4096);
    let opens = Request { commit: true, ..Request::default() };
    let ping = |reply: u64| {
        Frame::icmp(
            end(1 + 8 * reply, false, 0).0,
            end(9 - 8 * reply, false, 0).0,
            8 - 8 * (reply as u8),
            0,
            5 << 16,
            b"",
        )
    };
    pass(&mut a, SECOND, &ping(0), &opens);
    assert_eq!(a.take_changes(SECOND, Vec::new()).told, 0, "nobody has answered");
    pass(&mut a, SECOND, &ping(1), &Request::default());
    assert_eq!(a.take_changes(SECOND, Vec::new()).told, 1);
    for _ in 0..5 {
        pass(&mut a, SECOND, &ping(0), &Request::default());
        pass(&mut a, SECOND, &ping(1), &Request::default());
    }
    assert_eq!(a.take_changes(SECOND, Vec::new()).told, 0, "nothing has changed");
    let marks = Request { commit: true, mark: Some((7, !0)), ..Request::default() };
    pass(&mut a, SECOND, &ping(0), &marks);
    pass(&mut a, SECOND, &ping(0), &marks);
    assert_eq!(a.take_changes(SECOND, Vec::new()).told, 1, "a mark, once");
    while a.expire(100 * SECOND, 64) {}
    let changes = a.take_changes(SECOND, Vec::new());
    assert_eq!((changes.told, changes.records[0]), (1, 2));
}

/// Who cares for connections of some age hears nothing of those that do not live to it.
#[test]
fn what_is_too_young_is_told_when_it_is_older_or_never() {
    let (mut a, pools) = with_pools(4, 0);
    a.follow(1 << 16);
    a.follow_older_than(SECOND);
    let source = Rule { source: Some(pools[0]), destination: None };
    let opens = Request { commit: true, nat: Nat::New(source), ..Request::default() };
    for n in 0..20 {
        handshake(&mut a, SECOND + u64::from(n), &opens, 2000 + n);
    }
    assert_eq!(a.take_changes(2 * SECOND - 1, Vec::new()).told, 0);
    let gone = crate::conntrack::Selection::parse(&["ct_nw_proto=6,ct_tp_src=2003"]).unwrap();
    a.flush_selected(&gone);
    assert_eq!(a.take_changes(2 * SECOND - 1, Vec::new()).told, 0, "nobody has heard of it");
    assert_eq!(a.take_changes(2 * SECOND + 9, Vec::new()).told, 9);
    let changes = a.take_changes(3 * SECOND, Vec::new());
    assert_eq!((changes.told, changes.full), (10, false));
    assert_eq!(a.take_changes(9 * SECOND, Vec::new()).told, 0, "once");
    // What was told is told of at once from then on.
    let gone = crate::conntrack::Selection::parse(&["ct_nw_proto=6,ct_tp_src=2004"]).unwrap();
    a.flush_selected(&gone);
    assert_eq!(a.take_changes(9 * SECOND, Vec::new()).told, 1);
}

/// What is written in one go is what the general way writes.
#[test]
fn short_records_are_those_of_the_codec() {
    let (mut short, mut long) = (0, 0);
    for seed in 0..20_u64 {
        let mut random = Random(seed);
        let (mut a, pools) = with_pools(seed, 0);
        let mut now_ns = 0;
        for _ in 0..300 {
            now_ns += random.below(SECOND);
            let (frame, request) = packet(&mut random, &pools);
            pass(&mut a, now_ns, &frame, &request);
            for at in 0..a.records.len() as u32 {
                if !a.records[at as usize].flags().has(Flags::LIVE) {
                    continue;
                }
                let Some((octets, len)) = a.short(now_ns, at) else {
                    long += 1;
                    continue;
                };
                let mut whole = vec![kind::CONNECTION];
                Entry { loose: true, ..a.entry(at, now_ns) }.write(&mut whole);
                assert_eq!(octets[..len], whole);
                short += 1;
            }
        }
    }
    assert!(short > 10_000 && long > 1000, "{short} {long}");
}

#[test]
fn what_is_no_record_is_refused() {
    let (mut copy, _) = with_pools(1, 0);
    for (bytes, why) in [
        (&[3][..], "no kind"),
        (&[1, 0], "cut short"),
        (&[2, 4, 6, 0, 0], "bit that means nothing"),
        (&[1, 0, 4, 6, 0, 0, 0, 0, 0, 0, 0], "bit that means nothing"),
        (
            &[
                1, 0, 1, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0,
            ],
            "windows are left out",
        ),
    ] {
        let error = copy.apply(0, &mut { bytes }, 9).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

/// Who has closed and opens anew from the same port is half open again: the copy has nothing of it until it is answered.
#[test]
fn one_that_opens_anew_is_gone_until_it_is_answered() {
    let (mut a, _) = with_pools(1, 0);
    let (mut copy, _) = with_pools(2, 0);
    a.follow(1 << 16);
    copy.stand_still(0);
    let opens = Request { commit: true, ..Request::default() };
    handshake(&mut a, SECOND, &opens, 2000);
    let (client, server) = (end(1, false, 2000), end(9, false, 80));
    for frame in [
        Frame::tcp(client, server, Tcp::FIN | Tcp::ACK, (1001, 5001), 0),
        Frame::tcp(server, client, Tcp::FIN | Tcp::ACK, (5001, 1002), 0),
        Frame::tcp(client, server, Tcp::ACK, (1002, 5002), 0),
    ] {
        pass(&mut a, SECOND, &frame, &opens);
    }
    apply(&mut copy, SECOND, &a.take_changes(2 * SECOND, Vec::new()).records);
    assert_eq!(copy.len(), 1, "it is closing, and known");
    let syn = Frame::tcp_with(client, server, Tcp::SYN, (1_000_000, 0), 65000, &[3, 3, 7, 1], 0);
    pass(&mut a, 2 * SECOND, &syn, &opens);
    let changes = a.take_changes(2 * SECOND, Vec::new());
    assert!(changes.told > 0, "it is told");
    apply(&mut copy, 2 * SECOND, &changes.records);
    assert_eq!((copy.len(), a.len()), (0, 1));
    assert!(told(&mut a, 2 * SECOND).is_empty(), "nor is it among all");
    handshake(&mut a, 3 * SECOND, &opens, 2000);
    apply(&mut copy, 3 * SECOND, &a.take_changes(2 * SECOND, Vec::new()).records);
    assert_eq!(settled(&copy, 3 * SECOND), settled(&a, 3 * SECOND));
}
