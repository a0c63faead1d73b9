//! Several at one tracker: the same as one alone, and nothing lost between them.

use super::*;
use crate::conntrack::{Account, Config, CtState, Nat, Outcome, Request};
use crate::craft::Frame;
use crate::nat;
use crate::packet::{Checksum, Hint, Packet};
use crate::random::Random;
use smallvec::SmallVec;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::tcp::Flags as Tcp;

const SECOND: u64 = 1_000_000_000;

fn v4(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn v6(n: u16) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n])
}

/// A burst as a worker takes it that shares a tracker: what its packets are told, and how many others had to wait for.
fn burst(
    together: &Together<()>,
    now_ns: u64,
    request: &Request,
    frames: &mut [Vec<u8>],
    hints: &[Hint],
) -> (Vec<Outcome>, usize) {
    let mut told = vec![None; frames.len()];
    let mut packets: Vec<(usize, Packet<'_>)> =
        (0..).zip(frames.iter_mut().map(|f| Packet::of(f))).collect();
    for ((_, packet), hint) in packets.iter_mut().zip(hints) {
        packet.hint = *hint;
    }
    let mut packets: Vec<Numbered<'_>> =
        packets.into_iter().map(|(n, packet)| Numbered { n, packet }).collect();
    let mut after = SmallVec::new();
    let shared = together.shared().expect("two have come");
    shared.view().process_each(now_ns, request, &mut packets, &mut after, |packet, outcome| {
        told[packet.n] = outcome;
    });
    drop(shared);
    packets.retain(|packet| told[packet.n].is_none());
    let mut alone = together.alone();
    alone.tracker.finish_after(now_ns, &after);
    alone.tracker.process_each(now_ns, request, &mut packets, |packet, outcome| {
        told[packet.n] = Some(outcome);
    });
    let left = packets.len();
    (told.into_iter().map(|told| told.expect("each is told once")).collect(), left)
}

struct Numbered<'a> {
    n: usize,
    packet: Packet<'a>,
}

impl<'a> crate::packet::Carries<'a> for Numbered<'a> {
    fn packet(&mut self) -> &mut Packet<'a> {
        &mut self.packet
    }
}

/// A tracker at which two threads have been.
fn shared(config: Config) -> Together<()> {
    let together = Together::new(Tracker::new(config, 0), ());
    // The places of threads come round: one of so many has another than this one.
    while together.shared().is_none() {
        std::thread::scope(|scope| drop(scope.spawn(|| drop(together.shared())).join()));
    }
    together
}

/// Conversations over TCP and UDP, IPv4 and IPv6, translated and not, in order mostly, with losses, repetitions, closed windows, ends and
/// new beginnings: bursts are taken by one who has the tracker alone, and by one who shares it. Both tell, change and keep the same.
#[test]
fn a_shared_tracker_tells_what_one_alone_does() {
    let mut random = Random(11);
    let config = || Config { translated_max: 400, accounting: true, ..Config::new(400, 9) };
    let together = shared(config());
    let mut single = Tracker::new(config(), 0);
    let pool = |tracker: &mut Tracker| {
        tracker.add_pool(nat::Pool::new(v4(200), v4(200), nat::Ports::Range(1, 4000)).unwrap())
    };
    let pool = (pool(&mut single), pool(&mut together.alone().tracker)).0;
    // Of each conversation, what each side sends next and has seen of the other, and where its opener is seen to be.
    let mut sides = [[(0_u32, 0_u32); 2]; 60];
    let mut outside: Vec<(IpAddr, u16)> =
        (0..60).map(|n| (if n % 4 < 2 { v4(1) } else { v6(1) }, 1000 + n)).collect();
    let (mut now_ns, mut taken, mut translated) = (0, 0, 0);
    for round in 0..4000_u64 {
        now_ns += [1, SECOND / 10, 3 * SECOND, 200 * SECOND][random.below(4) as usize]
            * random.below(2)
            / (1 + round % 7);
        // What is over is forgotten at other times by the two, and has its port until then.
        while single.expire(now_ns, 100) {}
        while together.alone().tracker.expire(now_ns, 100) {}
        let rule = nat::Rule { source: Some(pool), destination: None };
        let request = Request {
            commit: true,
            mark: (random.below(16) == 0).then_some((round as u32, 0xff)),
            nat: [Nat::None, Nat::Existing, Nat::New(rule), Nat::New(rule)]
                [random.below(4) as usize],
            ..Request::default()
        };
        let mut frames: Vec<Vec<u8>> = Vec::new();
        let mut of = Vec::new();
        for _ in 0..=random.below(100) {
            let n = random.below(60) as usize;
            let me = random.below(2) as usize;
            let inside = (if n % 4 < 2 { v4(1) } else { v6(1) }, 1000 + n as u16);
            let server = (if n % 4 < 2 { v4(2) } else { v6(2) }, 80);
            let (from, to) = if me == 0 { (inside, server) } else { (server, outside[n]) };
            of.push((n, me));
            if n.is_multiple_of(2) {
                frames.push(Frame::udp(from, to, 3).bytes());
                continue;
            }
            let (mut seq, mut ack) = sides[n][me];
            let mut len = [0, 0, 1, 3][random.below(4) as usize];
            let mut flags = Tcp::ACK;
            match random.below(60) {
                0 => (flags, seq, len) = (Tcp::SYN, random.next() as u32, 0),
                1 | 2 => flags = Tcp::SYN | Tcp::ACK,
                3 if random.below(4) == 0 => flags = Tcp::FIN | Tcp::ACK,
                4 if random.below(4) == 0 => (flags, len) = (Tcp::RST, 0),
                5 => seq = seq.wrapping_add(random.below(3000) as u32),
                6 => seq = random.next() as u32,
                7 => ack = ack.wrapping_sub(random.below(100_000) as u32),
                _ => {}
            }
            frames.push(Frame::tcp(from, to, flags, (seq, ack), len).bytes());
            let takes = u32::from(flags.contains(Tcp::SYN)) + u32::from(flags.contains(Tcp::FIN));
            if random.below(10) != 0 {
                sides[n][me].0 = seq.wrapping_add(len as u32 + takes);
                sides[n][1 - me].1 = sides[n][me].0;
            }
        }
        let hints: Vec<Hint> = frames
            .iter_mut()
            .map(|frame| match random.below(3) {
                0 => Hint {
                    mark: random.below(60) as u32,
                    generation: together.alone().tracker.generation,
                },
                1 => Hint::NONE,
                _ => {
                    let packet = Packet::of(frame);
                    let subject = crate::conntrack::parse::subject(&packet, 0, false);
                    let tracker = &together.alone().tracker;
                    subject.tuple().and_then(|tuple| tracker.hint(tuple)).unwrap_or(Hint::NONE)
                }
            })
            .collect();
        let mut same = frames.clone();
        let mut want = vec![Outcome::default(); frames.len()];
        let mut packets: Vec<Packet<'_>> = same.iter_mut().map(|f| Packet::of(f)).collect();
        packets.iter_mut().for_each(|packet| packet.checksum = Checksum::Unknown);
        single.process(now_ns, &request, &mut packets, &mut want);
        let (got, left) = burst(&together, now_ns, &request, &mut frames, &hints);
        for (n, ((got, want), frame)) in got.iter().zip(&want).zip(&frames).enumerate() {
            assert_eq!(got, want, "round {round}, packet {n}");
            assert!(*frame == same[n], "round {round}, packet {n}");
        }
        taken += frames.len() - left;
        for (((n, me), frame), outcome) in of.into_iter().zip(&frames).zip(&got) {
            let changed =
                outcome.state.0 & (CtState::SOURCE_NAT.0 | CtState::DESTINATION_NAT.0) != 0;
            translated += usize::from(changed && left == 0);
            if changed && me == 0 && n % 4 < 2 {
                let port = u16::from_be_bytes([frame[34], frame[35]]);
                outside[n] = (v4(frame[29]), port);
            }
        }
        if round % 50 == 0 {
            let alone = together.alone();
            let show = |tracker: &Tracker| {
                let mut all: Vec<String> = tracker
                    .connections(now_ns)
                    .map(|connection| format!("{connection:?}"))
                    .collect();
                all.sort();
                all
            };
            assert_eq!(show(&alone.tracker), show(&single), "round {round}");
        }
    }
    let counted = together.counted();
    let mut all = together.alone().tracker.counters.with(&counted);
    (all.hints_used, all.hints_stale) = (0, 0);
    assert_eq!(all, single.counters);
    assert!(taken > 100_000 && translated > 500, "{taken} {translated}");
    assert!(counted.established > 50_000 && counted.invalid > 100, "{counted:?}");
    assert!(all.connections_closed > 50 && all.connections_expired > 50, "{all:?}");
}

/// Four threads, connections of their own and connections of all, opened, used and closed side by side: each packet is counted at its
/// connection once, and none is told what is not so.
#[test]
fn threads_at_one_tracker_lose_nothing_between_them() {
    const THREADS: u16 = 4;
    const ROUNDS: u64 = 400;
    let config = Config { accounting: true, ..Config::new(4000, 3) };
    let together = shared(config);
    let commit = Request { commit: true, ..Request::default() };
    let ends = |n: u16| [(v4(1), 1000 + n), (v4(2), 80)];
    let hints = [Hint::NONE; 64];
    // Those of all are there before: 16, of UDP.
    for n in 0..16 {
        let [a, b] = ends(n);
        let mut frames = vec![Frame::udp(a, b, 3).bytes(), Frame::udp(b, a, 3).bytes()];
        burst(&together, 1, &commit, &mut frames, &hints);
    }
    let clock = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (together, hints, clock) = (&together, &hints, &clock);
            scope.spawn(move || {
                let mut random = Random(u64::from(thread));
                for round in 0..ROUNDS {
                    // One clock, which each moves on; none is so late that its connection's time is over when it comes.
                    let now_ns = 2 + clock.fetch_add(SECOND / 100, Ordering::Relaxed);
                    let all: Vec<(u16, usize)> = (0..48)
                        .map(|_| (random.below(16) as u16, random.below(2) as usize))
                        .collect();
                    let mut frames: Vec<Vec<u8>> = all
                        .iter()
                        .map(|(n, me)| Frame::udp(ends(*n)[*me], ends(*n)[1 - me], 3).bytes())
                        .collect();
                    // One of its own opens with each round, is answered in the same burst, and is used once more.
                    let own = [(v4(10 + thread as u8), round as u16), (v4(2), 80)];
                    frames.insert(5, Frame::udp(own[0], own[1], 3).bytes());
                    frames.insert(20, Frame::udp(own[1], own[0], 3).bytes());
                    frames.insert(40, Frame::udp(own[0], own[1], 3).bytes());
                    let (told, left) = burst(together, now_ns, &commit, &mut frames, hints);
                    let names = |n: usize| told[n].state.to_string();
                    let (new, est, rpl) = (names(5), names(40), names(20));
                    assert_eq!((&*new, &*rpl, &*est), ("+new+trk", "+est+rpl+trk", "+est+trk"));
                    assert!(told.iter().all(|told| told.state.contains(CtState::TRACKED)));
                    let others =
                        told.iter().filter(|told| told.state.contains(CtState::NEW)).count();
                    assert!((1..48).contains(&left) && others == 1, "{left} {others}");
                }
            });
        }
    });
    let alone = together.alone();
    let sum = alone.tracker.connections(1).fold(Account::default(), |sum, connection| {
        let Account { packets, octets } = connection.account.unwrap();
        assert!(connection.original.src_port >= 1000 || packets == [2, 1], "{connection:?}");
        Account {
            packets: [0, 1].map(|way| sum.packets[way] + packets[way]),
            octets: [0, 1].map(|way| sum.octets[way] + octets[way]),
        }
    });
    let sent = 32 + u64::from(THREADS) * ROUNDS * 51;
    assert_eq!(sum.packets.iter().sum::<u64>(), sent);
    assert_eq!(sum.octets.iter().sum::<u64>(), 31 * sum.packets.iter().sum::<u64>());
}
