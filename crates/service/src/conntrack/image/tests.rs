//! The same packets to a tracker and to the one that reads its image; limits, damage, blocks of ports.

use super::*;
use crate::conntrack::{Config, CtState, Nat, Outcome, Request};
use crate::craft::Frame;
use crate::nat::Rule;
use crate::packet::Packet;
use crate::random::Random;
use std::net::IpAddr;
use wire::tcp::Flags as Tcp;

const SECOND: u64 = 1_000_000_000;
const TICK: u64 = 1 << TICK_SHIFT;

fn written(tracker: &mut Tracker, now_ns: u64, records: usize) -> Vec<u8> {
    let (mut writer, mut out) = Writer::new(tracker, 1_800_000_000);
    loop {
        let more = writer.slice(tracker, now_ns, records);
        out.extend(writer.frame());
        if !more {
            out.extend(writer.end());
            return out;
        }
    }
}

fn restored(image: &mut Image, tracker: &mut Tracker, now_ns: u64) -> Restored {
    while image.restore(tracker, now_ns, 7) {}
    image.restored()
}

fn all(tracker: &Tracker, now_ns: u64) -> Vec<String> {
    let mut list: Vec<String> = tracker.connections(now_ns).map(|c| format!("{c:?}")).collect();
    list.sort();
    list
}

pub(in crate::conntrack) fn end(n: u64, v6: bool, port: u16) -> (IpAddr, u16) {
    let address = match v6 {
        true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n as u16]),
        false => IpAddr::from([10, 0, 0, n as u8]),
    };
    (address, port)
}

/// A packet of few ends, in either direction, and what is asked of it.
pub(in crate::conntrack) fn packet(random: &mut Random, pools: &[PoolId; 2]) -> (Frame, Request) {
    let v6 = random.below(4) == 0;
    let (mut a, mut b) =
        (end(1 + random.below(3), v6, 1000 + random.below(3) as u16), end(9, v6, 80));
    if random.below(2) == 0 {
        (a, b) = (b, a);
        // Answers to what was translated go to where it seems to come from.
        if random.below(2) == 0 {
            b.0 = outside(v6);
        }
    }
    let frame = match random.below(8) {
        0..4 => {
            let ack = Tcp::ACK;
            let flags = [Tcp::SYN, Tcp::SYN | ack, ack, ack, Tcp::FIN | ack, Tcp::RST];
            let flags = flags[random.below(6) as usize];
            let numbers = [(); 2].map(|()| 1000 + random.below(60) as u32);
            let options: &[u8] = if flags.contains(Tcp::SYN) { &[3, 3, 4, 1] } else { &[] };
            let len = random.below(40) as usize;
            Frame::tcp_with(a, b, flags, (numbers[0], numbers[1]), 500, options, len)
        }
        4 | 5 => Frame::udp(a, b, 3),
        6 if !v6 => {
            let kind = if random.below(2) == 0 { 8 } else { 0 };
            Frame::icmp(a.0, b.0, kind, 0, 5 << 16, b"")
        }
        6 => Frame::udp(a, b, 3).error(b.0, 1, 4, 60),
        _ => {
            let kind = [1, 2, 10, 11, 3, 4, 5][random.below(7) as usize];
            let mut body = vec![0, 80, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0, kind, 0, 0, 20];
            body.extend([0, 0, 0, 7, 0, 0, 9, 9, 0, 1, 0, 1, 0, 0, 0, 1]);
            Frame::new(a.0, b.0, IpProtocol::SCTP, body)
        }
    };
    let source = Rule { source: Some(pools[usize::from(v6)]), destination: None };
    // What is not translated in one direction and opens a connection in the other would be two connections
    // at once, of which a packet finds either: so nobody opens one to whose packets are translated.
    let commit = random.below(3) != 0 && a.0 != end(9, v6, 80).0;
    let request = Request {
        zone: random.below(2) as u16,
        commit,
        force: random.below(20) == 0,
        nat: match random.below(4) {
            0 => Nat::New(source),
            1 => Nat::None,
            _ => Nat::Existing,
        },
        mark: (random.below(2) == 0).then(|| (random.next() as u32, 0xff)),
        label: (random.below(3) == 0).then(|| (u128::from(random.next()) << 64, !0)),
        ..Request::default()
    };
    (frame, request)
}

pub(in crate::conntrack) fn pass(
    tracker: &mut Tracker,
    now_ns: u64,
    frame: &Frame,
    request: &Request,
) -> (Outcome, Vec<u8>) {
    let mut bytes = frame.bytes();
    let mut outcome = [Outcome::default()];
    tracker.process(now_ns, request, &mut [Packet::of(&mut bytes)], &mut outcome);
    (outcome[0], bytes)
}

pub(in crate::conntrack) fn outside(v6: bool) -> IpAddr {
    if v6 { IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 0xc0]) } else { [192, 0, 2, 1].into() }
}

pub(in crate::conntrack) fn with_pools(seed: u64, now_ns: u64) -> (Tracker, [PoolId; 2]) {
    let config = Config {
        translated_max: 1000,
        half_open_max: 1000,
        check_checksums: false,
        accounting: true,
        ..Config::new(1000, seed)
    };
    let mut tracker = Tracker::new(config, now_ns);
    let pools = [false, true].map(|v6| {
        let range = Ports::Range(1000, 1500);
        tracker.add_pool(Pool::new(outside(v6), outside(v6), range).unwrap())
    });
    (tracker, pools)
}

/// Random traffic, an image, and then the same packets to the tracker that wrote it and to the one that read
/// it, whose clock began elsewhere: each is judged and translated alike.
#[test]
fn both_trackers_judge_alike_from_then_on() {
    let (mut established, mut translated, mut held) = (0, 0, 0);
    for seed in 0..40_u64 {
        let mut random = Random(seed);
        let (mut a, pools) = with_pools(seed, 0);
        let mut now_ns = 0;
        for _ in 0..600 {
            now_ns += random.below(SECOND);
            let (frame, request) = packet(&mut random, &pools);
            pass(&mut a, now_ns, &frame, &request);
        }
        let offset = TICK * random.below(1 << 20);
        let (mut b, _) = with_pools(seed + 1, now_ns + offset);
        b.random = a.random.clone();
        let mut image = Image::read(written(&mut a, now_ns, 1 + seed as usize)).unwrap();
        assert_eq!((image.len(), image.taken_at()), (all(&a, now_ns).len(), 1_800_000_000));
        let told = restored(&mut image, &mut b, now_ns + offset);
        let connections = image.len() as u64;
        assert_eq!(told, Restored { connections, ..Restored::default() }, "seed {seed}");
        assert_eq!(all(&a, now_ns), all(&b, now_ns + offset), "seed {seed}");
        assert_eq!(b.counters().connections_imported, connections);
        held += connections;
        for step in 0..600 {
            now_ns += random.below(SECOND);
            let (frame, request) = packet(&mut random, &pools);
            let of_a = pass(&mut a, now_ns, &frame, &request);
            let of_b = pass(&mut b, now_ns + offset, &frame, &request);
            assert_eq!(of_a, of_b, "seed {seed} step {step}: {request:?}");
            established += u32::from(of_a.0.state.contains(CtState::ESTABLISHED));
            translated += u32::from(of_a.0.state.contains(CtState::DESTINATION_NAT));
        }
        assert_eq!(all(&a, now_ns), all(&b, now_ns + offset), "seed {seed}");
    }
    assert!(
        established > 2000 && translated > 300 && held > 400,
        "{established} {translated} {held}"
    );
}

fn blocks() -> Pool {
    let ports = Ports::Blocks { first: 1000, last: 1063, size: 8, blocks_max: 2 };
    Pool::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), ports).unwrap()
}

/// Bindings in blocks: the connection goes on by its port, the sender keeps its block, and nobody else
/// gets either; all is given back in the end. In a tracker that has no such pool, has it, or has it in use.
#[test]
fn blocks_of_ports_stay_bound() {
    let commit = |id| {
        let rule = Rule { source: Some(id), destination: None };
        Request { commit: true, nat: Nat::New(rule), ..Request::default() }
    };
    let config = || Config { translated_max: 100, ..Config::new(100, 1) };
    let mut a = Tracker::new(config(), 0);
    let id = a.add_pool(blocks());
    let mut frames = Vec::new();
    for sender in 1..=5 {
        for port in 0..5 {
            let frame = Frame::udp(end(sender, false, port), end(99, false, 80), 1);
            frames.push((pass(&mut a, 0, &frame, &commit(id)).1, frame));
        }
    }
    assert_eq!(a.pool(id).unwrap().blocks(), Some((5, 16)));
    for having in 0..3 {
        let mut b = Tracker::new(config(), 0);
        if having > 0 {
            let id = b.add_pool(blocks());
            if having == 2 {
                // A stranger who talks to somebody else takes the first block before the image comes.
                let frame = Frame::udp(end(50, false, 1), end(98, false, 80), 1);
                pass(&mut b, 0, &frame, &commit(id));
            }
        }
        let mut image = Image::read(written(&mut a, 0, 4)).unwrap();
        let told = restored(&mut image, &mut b, 0);
        let unbound = if having == 2 { 5 } else { 0 };
        assert_eq!((told.connections, told.known, told.unbound), (25, 0, unbound));
        let id = b.pool_like(&blocks()).unwrap();
        assert_eq!(b.pool(id).unwrap().blocks(), Some((5, 16)), "{having}");
        for (out, frame) in &frames {
            assert_eq!(pass(&mut b, 1, frame, &commit(id)).1, *out, "{having}");
        }
        // A sender's next port is of its own block, and no one's yet.
        let frame = Frame::udp(end(2, false, 77), end(99, false, 80), 1);
        let (outcome, out) = pass(&mut b, 1, &frame, &commit(id));
        assert!(outcome.drop.is_none());
        assert!(frames.iter().all(|(have, _)| have[26..36] != out[26..36]), "{having}");
        assert_eq!(b.pool(id).unwrap().blocks(), Some((5, 16)), "{having}");
        while b.expire(1000 * SECOND, 64) {}
        assert!(b.is_empty());
        assert_eq!(b.pool(id).unwrap().blocks(), Some((0, 16)));
    }
}

/// Written by a tracker that goes on, or by one that has stopped, or by a program that did not say.
#[test]
fn an_image_tells_whether_its_tracker_went_on() {
    let mut tracker = some(2);
    let went_on = written(&mut tracker, 0, 100);
    let stopped = {
        let (writer, mut out) = Writer::new(&tracker, 1_800_000_000);
        let mut writer = writer.of_stopped();
        assert!(!writer.slice(&mut tracker, 0, 100));
        out.extend(writer.frame());
        out.extend(writer.end());
        out
    };
    assert!(Image::read(went_on.clone()).unwrap().went_on());
    assert!(!Image::read(stopped).unwrap().went_on());
    // As version 1 ends: without the last octet of the last chunk.
    let mut old = went_on;
    old[8] = 1;
    let sum = crc32c(&old[..28]);
    old[28..32].copy_from_slice(&sum.to_le_bytes());
    old.truncate(old.len() - 5);
    let end = old.len() - 8 - CHUNK_HEADER_LEN;
    old[end + 5] = 8;
    let sum = crc32c(&old[end..]);
    old.extend(sum.to_le_bytes());
    let old = Image::read(old).unwrap();
    assert!(old.went_on() && old.len() == 2);
}

/// What came behind the image is no reason to break a connection off.
#[test]
fn windows_that_moved_behind_an_image_are_not_held_against_a_connection() {
    let request = Request { commit: true, ..Request::default() };
    for v6 in [false, true] {
        let (a, b) = (end(1, v6, 1000), end(2, v6, 80));
        let tcp = |from, to, flags, numbers, len| {
            Frame::tcp_with(from, to, flags, numbers, 500, &[], len)
        };
        let mut first = Tracker::new(Config::new(100, 1), 0);
        let mut answers = Vec::new();
        for frame in [
            tcp(a, b, Tcp::SYN, (100, 0), 0),
            tcp(b, a, Tcp::SYN | Tcp::ACK, (200, 101), 0),
            tcp(a, b, Tcp::ACK, (101, 201), 10),
        ] {
            answers.push(pass(&mut first, 0, &frame, &request));
        }
        let bytes = written(&mut first, 0, 100);
        // A million octets later, in either direction, and the end of it.
        let far = 1_000_000;
        let later = [
            tcp(a, b, Tcp::ACK, (111 + far, 201 + far), 10),
            tcp(b, a, Tcp::ACK, (201 + far, 121 + far), 10),
            tcp(a, b, Tcp::ACK, (121 + far, 211 + far), 400),
            tcp(b, a, Tcp::FIN | Tcp::ACK, (211 + far, 521 + far), 0),
        ];
        let invalid = |loosens: bool| {
            let mut image = Image::read(bytes.clone()).unwrap();
            if loosens {
                image.loosen();
            }
            let mut second = Tracker::new(Config::new(100, 2), 0);
            assert_eq!(restored(&mut image, &mut second, SECOND).connections, 1);
            let said = later.each_ref().map(|f| pass(&mut second, SECOND, f, &request).0.state);
            said.map(|state| state.contains(CtState::INVALID))
        };
        assert_eq!(invalid(true), [false; 4]);
        assert!(invalid(false)[0], "it is what was wrong");
    }
}

/// UDP, a second apart; every other one was answered.
fn some(count: u16) -> Tracker {
    let mut tracker = Tracker::new(Config::new(1000, 1), 0);
    let request = Request { commit: true, ..Request::default() };
    for n in 0..count {
        let (a, b) = (end(1, false, 1000 + n), end(2, false, 80));
        let now_ns = u64::from(n) * SECOND;
        pass(&mut tracker, now_ns, &Frame::udp(a, b, 1), &request);
        if n % 2 == 0 {
            pass(&mut tracker, now_ns, &Frame::udp(b, a, 1), &request);
        }
    }
    tracker
}

/// What is too much, too old or known is counted and left out.
#[test]
fn limits_age_and_what_is_known() {
    let mut a = some(20);
    let now = 20 * SECOND;
    let bytes = written(&mut a, now, 100);
    let read = || Image::read(bytes.clone()).unwrap();
    let small =
        |max, half_open_max| Tracker::new(Config { half_open_max, ..Config::new(max, 2) }, 0);

    let mut b = small(12, 12);
    let told = restored(&mut read(), &mut b, 0);
    assert_eq!((told.connections, told.no_room), (12, 8));
    assert_eq!(b.connections(0).filter(|c| c.replied).count(), 10, "answered ones come first");
    let mut b = small(100, 3);
    assert_eq!(restored(&mut read(), &mut b, 0).no_room, 7);
    assert_eq!(b.half_open(), 3);

    // Each had 30 seconds from its packet on.
    let mut image = read();
    image.age(15 * SECOND);
    let mut b = small(100, 100);
    let told = restored(&mut image, &mut b, 0);
    assert_eq!(told.connections + told.expired, 20);
    let left = |tracker: &Tracker, now| {
        let mut left: Vec<u32> = tracker.connections(now).map(|c| c.timeout).collect();
        left.sort_unstable();
        left
    };
    let (before, after) = (left(&a, now + 15 * SECOND), left(&b, 0));
    assert_eq!((before.len(), after.len()), (15, 15), "{before:?} {after:?}");
    assert!(before.iter().zip(&after).all(|(a, b)| a.abs_diff(*b) <= 1), "{before:?} {after:?}");

    // A second time: answered ones replace what nothing has touched, nothing replaces what was touched.
    let mut b = small(100, 100);
    restored(&mut read(), &mut b, 0);
    let told = restored(&mut read(), &mut b, 0);
    assert_eq!((told.connections, told.replaced, told.known, b.len()), (10, 10, 10, 20));
    let request = Request { commit: true, ..Request::default() };
    for n in 0..20 {
        let frame = Frame::udp(end(1, false, 1000 + n), end(2, false, 80), 1);
        pass(&mut b, 0, &frame, &request);
    }
    let told = restored(&mut read(), &mut b, 0);
    assert_eq!((told.connections, told.known, b.len()), (0, 20, 20));

    // Of the half-open ones, the oldest makes room first.
    let mut b = small(100, 10);
    restored(&mut read(), &mut b, 0);
    let frame = Frame::udp(end(7, false, 7), end(2, false, 80), 1);
    pass(&mut b, 0, &frame, &request);
    assert!(b.len() == 20 && b.connections(0).all(|c| c.original.src_port != 1001));
}

/// Every octet changed, every length cut: an error, and never another image.
#[test]
fn damage_is_found_and_named() {
    let bytes = written(&mut some(6), 6 * SECOND, 2);
    assert_eq!(Image::read(bytes.clone()).unwrap().len(), 6);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(Image::read(damaged).is_err(), "octet {at}");
        assert!(Image::read(bytes[..at].to_vec()).is_err(), "cut at {at}");
    }
    let error = |bytes: Vec<u8>| Image::read(bytes).unwrap_err().to_string();
    let mut newer = bytes.clone();
    newer[8] = 4;
    assert_eq!(error(newer), "the image is of version 4; this program reads versions 1 to 3");
    let mut damaged = bytes.clone();
    damaged[60] ^= 1;
    let want = "the image is damaged: the checksum of chunk 0 at octet 32 is wrong";
    assert_eq!(error(damaged), want);
    assert_eq!(error([&bytes[..], b"x"].concat()), Error::Trailing(bytes.len()).to_string());
    assert_eq!(error(b"hello, world".to_vec()), Error::Magic.to_string());
    assert_eq!(error(bytes[..100].to_vec()), Error::Short(100).to_string());
    // A chunk less, all checksums right.
    let first = 32 + 13 + u32::from_le_bytes(bytes[37..41].try_into().unwrap()) as usize;
    let less = error([&bytes[..32], &bytes[first..]].concat());
    assert_eq!(less, "chunk 0 at octet 32: another chunk was to come here");
}

#[test]
fn an_empty_tracker_has_an_image() {
    let mut tracker = Tracker::new(Config::new(10, 1), 0);
    let mut image = Image::read(written(&mut tracker, 0, 100)).unwrap();
    assert!(image.is_empty());
    let mut other = Tracker::new(Config::new(1, 1), 5);
    assert_eq!(restored(&mut image, &mut other, 5), Restored::default());
}

/// An image while packets come, changes while packets come, and those that are left when they have stopped: the
/// reader has the same connections, and judges alike from then on.
#[test]
fn changes_make_up_for_what_an_image_has_missed() {
    let (mut gone, mut changed, mut held) = (0, 0, 0);
    for seed in 0..40_u64 {
        let mut random = Random(seed);
        let (mut a, pools) = with_pools(seed, 0);
        let (mut b, _) = with_pools(seed + 1, 0);
        let mut now_ns = 0;
        // No time passes while images are written: what is left is counted from then.
        let packets = |tracker: &mut Tracker, random: &mut Random, now_ns: u64, n: u64| {
            for _ in 0..n {
                let (frame, request) = packet(random, &pools);
                pass(tracker, now_ns, &frame, &request);
                tracker.expire(now_ns, 4);
            }
        };
        for _ in 0..400 {
            now_ns += random.below(SECOND);
            packets(&mut a, &mut random, now_ns, 1);
        }
        let rounds = 1 + seed % 4;
        for round in 0..=rounds {
            let (mut writer, mut bytes) = match round {
                0 => Writer::watch(&mut a, 7),
                _ => Writer::changes(&mut a, 7),
            };
            loop {
                let more = writer.slice(&mut a, now_ns, 1 + random.below(30) as usize);
                bytes.extend(writer.frame());
                if !more {
                    break;
                }
                if round < rounds {
                    let some = random.below(20);
                    packets(&mut a, &mut random, now_ns, some);
                }
            }
            bytes.extend(writer.end());
            let mut image = Image::read(bytes).unwrap();
            if round > 0 {
                image.supersede();
                changed += image.len();
            }
            gone += image.gone();
            let told = restored(&mut image, &mut b, now_ns);
            assert_eq!((told.known, told.no_room), (0, 0), "seed {seed} round {round}");
        }
        a.unwatch();
        assert_eq!(all(&a, now_ns), all(&b, now_ns), "seed {seed}");
        held += a.len();
        b.random = a.random.clone();
        for step in 0..300 {
            now_ns += random.below(SECOND);
            let (frame, request) = packet(&mut random, &pools);
            let of_a = pass(&mut a, now_ns, &frame, &request);
            let of_b = pass(&mut b, now_ns, &frame, &request);
            assert_eq!(of_a, of_b, "seed {seed} step {step}: {request:?}");
        }
    }
    assert!(gone > 10 && changed > 200 && held > 300, "{gone} {changed} {held}");
    // What has not changed is not written again.
    let mut tracker = some(20);
    let (mut writer, _) = Writer::watch(&mut tracker, 7);
    while writer.slice(&mut tracker, 20 * SECOND, 3) {}
    let request = Request { commit: true, ..Request::default() };
    let frame = Frame::udp(end(1, false, 1004), end(2, false, 80), 1);
    pass(&mut tracker, 20 * SECOND, &frame, &request);
    let (mut writer, _) = Writer::changes(&mut tracker, 7);
    while writer.slice(&mut tracker, 20 * SECOND, 3) {}
    assert_eq!(writer.connections(), 1);
}
