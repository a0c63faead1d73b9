//! A fuzzer that knows the protocol: 64 controllers of all versions at once, each sending requests of
//! every kind, right and damaged, some of them reading nothing. The switch must not fall, must not
//! grow without bounds, must answer who asks properly, and must go on forwarding.
//!
//! Settings: `MILLRACE_STORM`, seconds of storm (2; an hour before a release); `MILLRACE_STORM_RATE`,
//! requests a second of all controllers together (no limit). Without a limit the storm takes every
//! processor there is, so on a machine that does other things, too, it judges the scheduler; a limit
//! leaves each request as hostile as it is.
//!
//! Now and then it lulls: the controllers leave, and one takes all flow entries, groups and meters away.
//! What is allocated must then come back to what it was after the first of these lulls, but for what the
//! requests may leave (the configuration of tables and ports, learned addresses). `MILLRACE_STORM_LULLS`
//! says how often (3).
//!
//! While it blows, newcomers shake hands, ask for an echo and for a barrier, one after the other, and
//! what they waited is told at the end. Where something comes too late, the switch's threads are listed
//! with what they did in the second after.

mod common;

use common::*;
use openflow::codec::{self, Header};
use openflow::testing::Rng;
use openflow::testing::arbitrary;
use openflow::{
    FlowMod, FlowModCommand, FlowModFlags, Hello, Match, Message, TableId, Version, VersionSet, Xid,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: testkit::heap::Counting = testkit::heap::Counting::new();

const CONTROLLERS: u64 = 64;
/// What may be left in a lull beyond what was left in the first.
const LEFT_MAX: usize = 16 << 20;
/// What all of it may take beyond what was there before: 64 times what a peer may cost, and what the
/// entries, groups and bundles of the requests take.
const GROWTH_MAX: u64 = 1 << 30;

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// A request of some kind, damaged now and then: a length that is wrong is left to others, as it ends
/// the connection.
fn request(rng: &mut Rng, version: Version, out: &mut Vec<u8>) {
    let message = arbitrary::message(rng, version);
    let start = out.len();
    if codec::encode_into(out, version, Xid(rng.u32()), &message).is_err() {
        out.truncate(start);
        return;
    }
    if rng.one_in(3) && out.len() > start + 8 {
        for _ in 0..1 + rng.below(4) {
            let at = start + 8 + rng.below(out.len() - start - 8);
            out[at] ^= 1 << rng.below(8);
        }
    }
    if rng.one_in(20) {
        // The end is missing, and the header says so.
        let cut = rng.below(out.len() - start - 7);
        out.truncate(out.len() - cut);
        let length = (out.len() - start) as u16;
        out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    if rng.one_in(50) {
        // A type that may not be there.
        out[start + 1] = rng.u8();
    }
}

fn hello(version: Version) -> Vec<u8> {
    let versions = Some(VersionSet::of(&[version]));
    codec::encode(version, Xid(1), &Message::Hello(Hello { versions })).unwrap()
}

/// Requests that controllers may send.
struct Rate {
    /// A second, for one controller.
    each: Option<f64>,
    began: Instant,
}

impl Rate {
    fn of_settings() -> Rate {
        let all = std::env::var("MILLRACE_STORM_RATE").ok().map(|n| n.parse::<f64>().unwrap());
        Rate { each: all.map(|all| all / CONTROLLERS as f64), began: Instant::now() }
    }

    /// Waits until so many requests of one controller are in order.
    fn wait(&self, mine: u64, stop: &AtomicBool) {
        let Some(each) = self.each else { return };
        let due = self.began + Duration::from_secs_f64(mine as f64 / each);
        while !stop.load(Ordering::Relaxed) {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// One controller, which connects again whenever it is thrown out.
fn controller(
    address: std::net::SocketAddr,
    seed: u64,
    rate: &Rate,
    stop: &AtomicBool,
    sent: &AtomicU64,
) {
    let mut mine = 0;
    let mut rng = Rng::new(seed);
    let reads = !seed.is_multiple_of(4);
    while !stop.load(Ordering::Relaxed) {
        let version = rng.choose(&Version::ALL);
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut bytes = hello(version);
        let mut chunk = vec![0; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..1 + rng.below(20) {
                request(&mut rng, version, &mut bytes);
                sent.fetch_add(1, Ordering::Relaxed);
                mine += 1;
            }
            rate.wait(mine, stop);
            // Who does not read is held up, and writes what it can.
            let gone = match stream.write(&bytes) {
                Ok(n) => {
                    bytes.drain(..n);
                    bytes.len() > 1 << 20
                }
                Err(e) => !matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ),
            };
            if gone || bytes.len() > 1 << 20 {
                break;
            }
            if reads {
                while let Ok(n @ 1..) = stream.read(&mut chunk) {
                    if n < chunk.len() {
                        break;
                    }
                }
            }
            if rng.one_in(200) {
                break;
            }
        }
    }
}

/// Lets the controllers end whatever becomes of the test.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Time on a processor and state of each thread of this process that has a name of the switch's.
fn threads() -> Vec<(String, char, u64)> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(text) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        let (Some(from), Some(to)) = (text.find('('), text.rfind(')')) else { continue };
        let name = &text[from + 1..to];
        let fields: Vec<_> = text[to + 2..].split(' ').collect();
        let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        let ours = ["worker-", "publish", "work-", "monitor", "services", "openflow", "of-events"];
        if ours.iter().any(|start| name.starts_with(start)) {
            all.push((name.to_string(), fields[0].chars().next().unwrap(), ticks));
        }
    }
    all
}

/// What became of something that came too late: what the switch's threads do in a second.
fn diagnosis() -> String {
    let before = threads();
    std::thread::sleep(Duration::from_secs(1));
    let after = threads();
    let mut text = String::new();
    for (name, state, ticks) in after {
        let old = before.iter().find(|(n, _, _)| *n == name).map_or(0, |(_, _, t)| *t);
        text += &format!("{name} {state} {} ticks; ", ticks - old);
    }
    text
}

/// What newcomers waited for, and how long.
#[derive(Default)]
struct Waits {
    what: Vec<(&'static str, Vec<Duration>)>,
}

impl Waits {
    fn note(&mut self, what: &'static str, waited: Duration) {
        match self.what.iter_mut().find(|(w, _)| *w == what) {
            Some((_, all)) => all.push(waited),
            None => {
                // At once, so that what is left in the lulls does not grow by it.
                let mut all = Vec::with_capacity(1 << 16);
                all.push(waited);
                self.what.push((what, all));
            }
        }
    }

    fn add(&mut self, other: Waits) {
        for (what, all) in other.what {
            all.into_iter().for_each(|waited| self.note(what, waited));
        }
    }

    fn tell(&mut self) {
        for (what, all) in &mut self.what {
            all.sort();
            let at = |part: f64| all[((all.len() - 1) as f64 * part) as usize];
            println!(
                "{what}: {} times; half within {:?}, 99 of 100 within {:?}, all within {:?}",
                all.len(),
                at(0.5),
                at(0.99),
                at(1.0)
            );
        }
    }
}

/// Somebody who asks properly is answered in the midst of it.
fn newcomer(bed: &Bed, waits: &mut Waits) {
    let started = Instant::now();
    let stream = bed.connect();
    let mut proper = Controller::silent(stream, Version::V13);
    proper.stream.write_all(&hello(Version::V13)).unwrap();
    let xid = proper.send(&Message::EchoRequest(vec![7; 100]));
    let answered = |c: &mut Controller, xid| {
        let until = Instant::now() + PATIENCE;
        loop {
            match c.next_within(until.saturating_duration_since(Instant::now())) {
                Some(Some((at, message))) if at == xid => return message,
                Some(Some(_)) => {}
                Some(None) => panic!("a newcomer's connection ended"),
                None => panic!("a newcomer waited {:?}: {}", started.elapsed(), diagnosis()),
            }
        }
    };
    let echo = answered(&mut proper, xid);
    assert!(matches!(echo, Message::EchoReply(data) if data.len() == 100));
    waits.note("hello and echo", started.elapsed());
    let asked = Instant::now();
    let xid = proper.send(&Message::BarrierRequest);
    assert!(matches!(answered(&mut proper, xid), Message::BarrierReply));
    waits.note("barrier", asked.elapsed());
}

/// What one spell of the storm came to.
#[derive(Default)]
struct Spell {
    requests: u64,
    packets: u64,
    /// Bytes of the process at most.
    most: u64,
}

/// The controllers send for so long, while packets come and newcomers ask.
fn blow(bed: &Bed, spell: u64, rate: &Rate, time: Duration, waits: &mut Waits) -> Spell {
    let address = bed.address();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut most = 0;
    let mut taken = 0u64;
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for seed in 0..CONTROLLERS {
            let (stop, sent) = (&stop, &sent);
            let seed = spell * CONTROLLERS + seed;
            scope.spawn(move || controller(address, seed, rate, stop, sent));
        }
        let until = Instant::now() + time;
        let proper = scope.spawn(move || {
            let mut waits = Waits::default();
            while Instant::now() < until {
                newcomer(bed, &mut waits);
                std::thread::sleep(Duration::from_millis(200));
            }
            waits
        });
        let mut told = Instant::now();
        while Instant::now() < until && !proper.is_finished() {
            // The packet path takes what comes: a full queue is emptied, unless a port-mod took the
            // port down.
            for n in 0..200 {
                if bed.hosts[0].inject_bytes(&frame(n, 60)) {
                    taken += 1;
                    continue;
                }
                let full = Instant::now();
                loop {
                    let port = bed.switch.port(1);
                    if bed.hosts[0].inject_bytes(&frame(n, 60))
                        || port.is_none_or(|p| p.config != Default::default())
                    {
                        break;
                    }
                    let waited = full.elapsed();
                    assert!(waited < PATIENCE, "no packet taken for {waited:?}: {}", diagnosis());
                    std::thread::sleep(Duration::from_millis(2));
                }
                waits.note("room for a packet", full.elapsed());
            }
            while bed.hosts[1].take().is_some() {}
            most = most.max(resident());
            if told.elapsed() > Duration::from_secs(60) {
                told = Instant::now();
                let sent = sent.load(Ordering::Relaxed);
                println!("{sent} requests, {taken} packets, {}", bed_text(bed));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        waits.add(proper.join().unwrap());
        assert!(taken > 0);
    });
    Spell { requests: sent.load(Ordering::Relaxed), packets: taken, most }
}

/// What the switch holds, and what that takes.
fn bed_text(bed: &Bed) -> String {
    let (groups, meters) = {
        let agent = bed.agent.lock().unwrap();
        (agent.groups().len(), agent.meters().len())
    };
    let (flows, allocated, resident) = (bed.flows(), HEAP.bytes() >> 10, resident() >> 20);
    format!(
        "{flows} flows, {groups} groups, {meters} meters, {allocated} KiB allocated, {resident} MiB"
    )
}

/// The controllers have left: takes all away, and tells what is allocated then.
fn lull(bed: &Bed) -> usize {
    let all_gone = || bed.channel().connected().is_empty();
    wait_for("controllers' connections end", all_gone);
    // What they had sent is done.
    HEAP.settled(3 * PATIENCE);
    let full = bed_text(bed);
    // 1.0's emergency entries would take the place of the others once more.
    let emergency = FlowMod {
        dialect: Version::V10,
        table_id: TableId::ALL,
        command: FlowModCommand::Delete,
        flags: FlowModFlags::EMERG,
        ..FlowMod::add(Match::new(), Default::default())
    };
    let mut c = bed.controller(Version::V10);
    c.send(&Message::FlowMod(emergency));
    c.barrier();
    bed.controller(Version::V15).clear();
    let left = HEAP.settled(PATIENCE);
    println!("a lull with {full}; cleared: {}", bed_text(bed));
    assert_eq!(bed.flows(), 0);
    left
}

#[test]
fn a_storm_of_requests_from_64_controllers() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seconds = number("MILLRACE_STORM").unwrap_or(3);
    let spells = number("MILLRACE_STORM_LULLS").unwrap_or(3).max(1);
    let bed = Bed::new(listening());
    let before = resident();
    let mut waits = Waits::default();
    let (mut all, mut left) = (Spell::default(), Vec::new());
    for spell in 0..spells {
        let rate = Rate::of_settings();
        let time = Duration::from_secs_f64(seconds as f64 / spells as f64);
        let came = blow(&bed, spell, &rate, time, &mut waits);
        all.requests += came.requests;
        all.packets += came.packets;
        all.most = all.most.max(came.most);
        left.push(lull(&bed));
    }
    waits.tell();
    let growth = all.most.saturating_sub(before);
    println!(
        "{} requests, {} packets, {} MiB more at most",
        all.requests,
        all.packets,
        growth >> 20
    );
    let kib: Vec<_> = left.iter().map(|bytes| bytes >> 10).collect();
    println!("left in the lulls: {kib:?} KiB");
    assert!(growth < GROWTH_MAX, "{} MiB", growth >> 20);
    for left in &left {
        let more = left.saturating_sub(kib[0] << 10);
        assert!(more < LEFT_MAX, "{} KiB more are left than after the first spell", more >> 10);
    }
    assert!(Header::parse(&hello(Version::V13)).is_some());
    // And afterwards all is as ever.
    let mut c = bed.controller(Version::V13);
    c.barrier();
}
