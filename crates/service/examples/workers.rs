//! Several workers at one tracker: `cargo run --release -p service --example workers [CONNECTIONS [SECONDS]]`.
//!
//! Established TCP connections over IPv4 (100,000), as they are and with their source translated. One worker, then two, pass bursts of 32
//! segments of random ones of all connections, both directions, for so many seconds (1): once with the tracker behind a lock, once side by
//! side. Packets a second of all workers together, by the wall clock; best of five runs, the ways in turns. And with one new connection in
//! each burst, which one worker at a time opens.
//!
//! Segments are made before the time begins. Each must be told `+est`, and a new one `+new`.

use service::conntrack::together::Together;
use service::conntrack::{Config, CtState, Nat, Outcome, Request, Tracker};
use service::craft::Frame;
use service::nat::{Pool, Ports, Rule};
use service::packet::{Carries, Checksum, Offsets, Packet};
use service::random::Random;
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::tcp::Flags;

const BURST: usize = 32;
/// Bursts that each worker has, again and again.
const BURSTS: usize = 4096;
const RUNS: usize = 5;

fn inside(n: u32) -> (IpAddr, u16) {
    (Ipv4Addr::from_bits(0x0a00_0000 + (n >> 15)).into(), 1024 + (n & 0x7fff) as u16)
}

const SERVER: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 80);

/// A packet of a burst, and what it is told.
struct Asked<'a> {
    packet: Packet<'a>,
    told: Option<Outcome>,
}

impl<'a> Carries<'a> for Asked<'a> {
    #[inline(always)]
    fn packet(&mut self) -> &mut Packet<'a> {
        &mut self.packet
    }
}

fn asked(frames: &mut [Vec<u8>], at: Offsets) -> SmallVec<[Asked<'_>; BURST]> {
    frames
        .iter_mut()
        .map(|frame| Asked {
            packet: Packet { at, checksum: Checksum::Good, ..Packet::of(frame) },
            told: None,
        })
        .collect()
}

/// How a worker comes to the tracker.
enum Way {
    Lock(Box<Mutex<Tracker>>),
    Together(Box<Together<()>>),
}

impl Way {
    fn burst(&self, now_ns: u64, request: &Request, packets: &mut SmallVec<[Asked<'_>; BURST]>) {
        let tell = |asked: &mut Asked<'_>, outcome| asked.told = Some(outcome);
        let together = match self {
            Way::Lock(tracker) => {
                let mut tracker = tracker.lock().expect("no worker panics");
                return tracker.process_each(now_ns, request, packets, tell);
            }
            Way::Together(together) => together,
        };
        let Some(shared) = together.shared() else {
            return together.alone().tracker.process_each(now_ns, request, packets, tell);
        };
        let mut after = SmallVec::new();
        shared.view().process_each(now_ns, request, packets, &mut after, |asked, outcome| {
            asked.told = outcome;
        });
        drop(shared);
        let mut left: SmallVec<[&mut Asked<'_>; BURST]> =
            packets.iter_mut().filter(|asked| asked.told.is_none()).collect();
        if !left.is_empty() || !after.is_empty() {
            let mut alone = together.alone();
            alone.tracker.finish_after(now_ns, &after);
            for asked in &mut left {
                let one = std::slice::from_mut(*asked);
                alone.tracker.process_each(now_ns, request, one, |asked, outcome| {
                    asked.told = Some(outcome);
                });
            }
        }
    }
}

/// Packets a second.
fn run(
    way: &Way,
    request: &Request,
    workers: u32,
    connections: u32,
    new: bool,
    time: Duration,
) -> f64 {
    let (ready, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let packets = AtomicU64::new(0);
    let fresh = AtomicU64::new(u64::from(connections));
    let mut seconds = 0.0;
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (ready, stop, packets, fresh) = (&ready, &stop, &packets, &fresh);
            scope.spawn(move || {
                let mut random = Random(u64::from(worker) + 1);
                let outside = |n: u32| match request.nat {
                    // Ports go up with the connections, one address for each 60,000.
                    Nat::New(_) => translated(n),
                    _ => inside(n),
                };
                let mut frames: Vec<Vec<u8>> = (0..BURST * BURSTS)
                    .map(|_| {
                        let n = random.below(connections.into()) as u32;
                        match random.below(2) {
                            0 => Frame::tcp(inside(n), SERVER, Flags::ACK, (101, 501), 0),
                            _ => Frame::tcp(SERVER, outside(n), Flags::ACK, (501, 101), 0),
                        }
                        .bytes()
                    })
                    .collect();
                let pristine: Vec<[u8; 12]> =
                    frames.iter().map(|frame| std::array::from_fn(|n| frame[26 + n])).collect();
                let at = Offsets::of(&frames[0]);
                ready.fetch_add(1, Ordering::SeqCst);
                while ready.load(Ordering::SeqCst) <= u64::from(workers) {
                    std::hint::spin_loop();
                }
                let mut count = 0;
                'all: loop {
                    for (frames, pristine) in frames.chunks_mut(BURST).zip(pristine.chunks(BURST)) {
                        if stop.load(Ordering::Relaxed) {
                            break 'all;
                        }
                        if new {
                            let n = fresh.fetch_add(1, Ordering::Relaxed) as u32;
                            frames[7] =
                                Frame::tcp(inside(n), SERVER, Flags::SYN, (100, 0), 0).bytes();
                        }
                        let mut packets = asked(frames, at);
                        way.burst(2, request, &mut packets);
                        for (n, asked) in packets.iter().enumerate() {
                            let wanted =
                                if new && n == 7 { CtState::NEW } else { CtState::ESTABLISHED };
                            let told = asked.told.expect("each is told");
                            assert!(told.state.contains(wanted) && told.drop.is_none(), "{told:?}");
                        }
                        drop(packets);
                        // What was translated goes round again.
                        if request.nat != Nat::None {
                            for (frame, was) in frames.iter_mut().zip(pristine) {
                                frame[26..38].copy_from_slice(was);
                            }
                        }
                        count += BURST as u64;
                    }
                }
                packets.fetch_add(count, Ordering::SeqCst);
            });
        }
        while ready.load(Ordering::SeqCst) < u64::from(workers) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        ready.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(time);
        stop.store(true, Ordering::SeqCst);
        seconds = begun.elapsed().as_secs_f64();
    });
    packets.load(Ordering::SeqCst) as f64 / seconds
}

/// Where a connection is seen to be outside.
fn translated(n: u32) -> (IpAddr, u16) {
    (Ipv4Addr::from_bits(0xc633_6400 + n / 60_000).into(), 1024 + (n % 60_000) as u16)
}

/// A tracker with so many connections.
fn tracker(connections: u32, translates: bool) -> (Tracker, Request) {
    let room = connections as usize + 20_000_000;
    let config = Config {
        translated_max: if translates { connections as usize } else { 0 },
        ..Config::new(if translates { connections as usize } else { room }, 7)
    };
    let mut tracker = Tracker::new(config, 0);
    let commit = Request { commit: true, ..Request::default() };
    let mut request = commit;
    for n in 0..connections {
        if translates {
            // One address and port for it alone, so that its answers are known.
            let (address, port) = translated(n);
            let pool = Pool::new(address, address, Ports::Range(port, port)).expect("a pool");
            let id = tracker.add_pool(pool);
            request.nat = Nat::New(Rule { source: Some(id), destination: None });
        }
        let outside = if translates { translated(n) } else { inside(n) };
        for (from, to, flags, numbers) in [
            (inside(n), SERVER, Flags::SYN, (100, 0)),
            (SERVER, outside, Flags::SYN | Flags::ACK, (500, 101)),
            (inside(n), SERVER, Flags::ACK, (101, 501)),
        ] {
            let mut frame = Frame::tcp(from, to, flags, numbers, 0).bytes();
            let mut outcome = [Outcome::default()];
            tracker.process(1, &request, &mut [Packet::of(&mut frame)], &mut outcome);
            assert!(outcome[0].drop.is_none(), "{:?}", outcome[0]);
        }
    }
    (tracker, request)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let connections = args.next().map_or(100_000, |n| n.parse().expect("a number of connections"));
    let time = args.next().map_or(1.0, |n| n.parse().expect("seconds"));
    let time = Duration::from_secs_f64(time);
    for (what, translates, new) in [
        ("established", false, false),
        ("translated", true, false),
        ("one in 32 is new", false, true),
    ] {
        let ways = [("behind a lock", false), ("side by side", true)].map(|(name, together)| {
            let (tracker, request) = tracker(connections, translates);
            let way = match together {
                true => Way::Together(Box::new(Together::new(tracker, ()))),
                false => Way::Lock(Box::new(Mutex::new(tracker))),
            };
            (name, way, request)
        });
        let mut best = [[0.0_f64; 2]; 2];
        for _ in 0..RUNS {
            // One worker first: a tracker at which two have been is shared from then on.
            for workers in [1, 2] {
                for (n, (_, way, request)) in ways.iter().enumerate() {
                    let rate = run(way, request, workers, connections, new, time);
                    let best = &mut best[n][workers as usize - 1];
                    *best = best.max(rate);
                }
            }
        }
        for ((name, ..), [one, two]) in ways.iter().zip(best) {
            println!(
                "{what}, {name}: one worker {:.2} M/s, two {:.2} M/s, {:.2} times",
                one / 1e6,
                two / 1e6,
                two / one
            );
        }
    }
}
