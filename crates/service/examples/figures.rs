//! What the tracker, the transcoder and the sandbox cost: `cargo run --release -p service --example figures
//! [CONNECTIONS | established CONNECTIONS | follow CONNECTIONS | accounting CONNECTIONS | flood | transcoder]`, and with `--features wasm` also `sandbox`.
//!
//! Transcoder: bursts of 32 UDP datagrams over IPv4, 256 frames in turn, of each length; medians of five
//! runs. Frames are encrypted and then decrypted, each way timed by itself; what comes back must be what went
//! in. Once with checksums that the element keeps right, once with those left to hardware.
//!
//! Sandbox: bursts of 1 and of 32 frames through an element that does nothing and one that counts packets, native
//! and as modules; medians of five runs. What the trap of a module costs, with the instance made anew.
//!
//! Flood: 100,000 established connections, one segment of a random one of them for each nine SYNs of sources that never
//! come again, 50 million of those; with the most half-open connections that are allowed, and with few. Every segment of the
//! established must be told `+est`, and none of them may be gone in the end. All of it twice, burst by burst the same, so that the
//! interruptions of the machine show.
//!
//! The tracker:
//!
//! Established: bursts of 32 TCP segments of random ones of so many established connections (1,000,000), in which the opener sends
//! an octet and the other side acknowledges it, in turns;
//! packets a second; the same with hints, as a port's hardware would give them (all right; all of them another
//! connection's), and with 90 in 100 packets of 1,000 connections, which alone have hints, as an adapter's table of 1,024 entries would
//! hold them. New: SYNs of
//! connections not seen before, with half-open ones evicted or all kept. Expiry: 100,000 connections
//! whose time is over at once, while packets of others pass: the longest burst. Memory: octets a
//! connection, of what was taken, and of what the process has resident. Image: all connections written in
//! slices of 256 records and restored in slices of 32 into a tracker that is new, whose memory the system has yet to
//! clear, and once more when it has been emptied; with the longest slice, which is how long a lock is held; octets a
//! connection.
//!
//! Follow: so many connections (200,000), each from SYN to reset in five segments, by a tracker that nobody follows and by one that is
//! followed, in turns, medians of seven; established segments likewise; and how fast a copy applies what was told, and all of them.
//!
//! Accounting: the same connections by a tracker that counts packets and octets of each, and by one that does not, in turns.
//!
//! Times are the thread's on a CPU, so that what else runs on the machine costs cache, not time. Where the longest burst is
//! told, that clock is read around each burst, which takes some 15 to 25 ns a packet that are in the figures; else around 32 of them.
//!
//! Every figure is checked before it is printed: each packet's state must be what it should be.

use service::conntrack::image::{Image, Writer};
use service::conntrack::{Config, Connection, CtState, Request, Role, Tracker, Tuple};
use service::craft::Frame;
use service::element::{Element, Fate, Passing};
use service::packet::{Checksum, Hint, Offsets, Packet};
use service::random::Random;
use service::transcode::{Direction, GCM_ROOM, Key, Mode, Transcoder};
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use wire::tcp::Flags;

const BURST: usize = 32;
/// Connections whose segments go by together where whole connections are timed.
const EACH: usize = 4096;
const SECOND: u64 = 1_000_000_000;

/// A frame that is made into that of connection `n` by writing its addresses and ports.
struct Template {
    bytes: Vec<u8>,
    at: Offsets,
    reply: bool,
}

impl Template {
    fn new(flags: Flags, numbers: (u32, u32), reply: bool) -> Template {
        Template::with(flags, numbers, reply, 0)
    }

    /// The same with so many octets of data.
    fn with(flags: Flags, numbers: (u32, u32), reply: bool, len: usize) -> Template {
        let ends: [(IpAddr, u16); 2] = [([10, 0, 0, 0].into(), 0), ([192, 0, 2, 1].into(), 80)];
        let [a, b] = if reply { [ends[1], ends[0]] } else { ends };
        let bytes = Frame::tcp_with(a, b, flags, numbers, 65535, &[], len).bytes();
        let at = Offsets::of(&bytes);
        Template { bytes, at, reply }
    }

    /// The frame of connection `n`: source 10.0.0.0 and up, port 1024 and up.
    fn write(&self, n: u32, into: &mut [u8]) {
        into[..self.bytes.len()].copy_from_slice(&self.bytes);
        let client = Ipv4Addr::from_bits(0x0a00_0000 + (n >> 15)).octets();
        let port = (1024 + (n & 0x7fff) as u16).to_be_bytes();
        let (address, place) = if self.reply { (30, 36) } else { (26, 34) };
        into[address..address + 4].copy_from_slice(&client);
        into[place..place + 2].copy_from_slice(&port);
    }
}

struct Bench {
    tracker: Tracker,
    request: Request,
    now_ns: u64,
    buffers: Vec<Vec<u8>>,
    /// What a port says of each connection's packets.
    hints: Vec<Hint>,
    /// Segments of each connection so far, where each is another.
    turns: Vec<u32>,
    /// Bursts between two looks at the clock.
    bursts: usize,
    /// Nanoseconds in the tracker, and the longest of such portions.
    spent: u64,
    longest: u64,
    /// Nanoseconds of each portion, if somebody wants them.
    log: Option<Vec<u32>>,
}

/// Bursts in a portion where single ones are not of interest.
const PORTION: usize = 32;

impl Bench {
    fn new(config: Config) -> Bench {
        Bench {
            tracker: Tracker::new(config, 0),
            request: Request { commit: true, ..Request::default() },
            now_ns: 0,
            buffers: vec![vec![0; 60]; BURST * PORTION],
            hints: Vec::new(),
            turns: Vec::new(),
            bursts: 1,
            spent: 0,
            longest: 0,
            log: None,
        }
    }

    /// Sends these connections' frames, in bursts; each must be told `want`.
    fn send(
        &mut self,
        template: &Template,
        want: CtState,
        numbers: impl Iterator<Item = u32>,
    ) -> u64 {
        let (mut numbers, mut packets) = (numbers, 0);
        (self.spent, self.longest) = (0, 0);
        let mut hints = vec![Hint::NONE; BURST * self.bursts];
        let templates = [
            Template::with(Flags::ACK | Flags::PSH, (0, 501), false, 1),
            Template::new(Flags::ACK, (501, 0), true),
        ];
        loop {
            let mut count = 0;
            let mut replies = [0_u32; PORTION];
            for ((buffer, hint), n) in self.buffers.iter_mut().zip(&mut hints).zip(&mut numbers) {
                match self.turns.get_mut(n as usize) {
                    Some(turn) => {
                        replies[count / BURST] |= (*turn & 1) << (count % BURST);
                        templates[(*turn & 1) as usize].write(n, buffer);
                        // Number and acknowledgment, of the octets so far.
                        let (sent, at) = match *turn & 1 {
                            0 => (101 + *turn / 2, 38),
                            _ => (101 + *turn / 2 + 1, 42),
                        };
                        buffer[at..at + 4].copy_from_slice(&sent.to_be_bytes());
                        *turn += 1;
                    }
                    None => template.write(n, buffer),
                }
                *hint = self.hints.get(n as usize).copied().unwrap_or_default();
                count += 1;
            }
            if count == 0 {
                return packets;
            }
            let mut right = 0;
            let begun = cpu_ns();
            let frames = self.buffers[..count].chunks_mut(BURST);
            for ((frames, hints), replies) in frames.zip(hints.chunks(BURST)).zip(&replies) {
                let ats = match self.turns.is_empty() {
                    true => [template.at; 2],
                    false => [templates[0].at, templates[1].at],
                };
                let mut burst: SmallVec<[Packet<'_>; BURST]> = frames
                    .iter_mut()
                    .zip(hints)
                    .enumerate()
                    .map(|(n, (frame, hint))| Packet {
                        frame,
                        at: ats[(*replies >> n & 1) as usize],
                        checksum: Checksum::Good,
                        hint: *hint,
                    })
                    .collect();
                let mut replies = *replies;
                self.tracker.process_each(self.now_ns, &self.request, &mut burst, |_, outcome| {
                    let want = if replies & 1 != 0 { want | CtState::REPLY } else { want };
                    replies >>= 1;
                    right += usize::from(outcome.state == want && outcome.drop.is_none());
                });
            }
            let spent = cpu_ns() - begun;
            self.spent += spent;
            self.longest = self.longest.max(spent);
            if let Some(log) = &mut self.log {
                log.push(spent.try_into().unwrap_or(u32::MAX));
            }
            assert_eq!(right, count);
            packets += count as u64;
        }
    }

    /// The tuple of connection `n`.
    fn tuple(n: u32) -> Tuple {
        Tuple {
            src: (0x0a00_0000 + (n >> 15)).into(),
            dst: 0xc000_0201,
            src_port: 1024 + (n & 0x7fff) as u16,
            dst_port: 80,
            zone: 0,
            protocol: wire::IpProtocol::TCP,
            v6: false,
            role: Role::Any,
        }
    }

    /// What a port would say of its packets.
    fn hint(&self, n: u32) -> Hint {
        self.tracker.hint(&Bench::tuple(n)).expect("a connection that is there")
    }

    fn find(&self, n: u32) -> Option<Connection> {
        let found = self.tracker.get(self.now_ns, &Bench::tuple(n));
        found.map(|(connection, _)| connection).filter(|connection| connection.replied)
    }

    fn establish(&mut self, first: u32, count: u32) {
        let syn = Template::new(Flags::SYN, (100, 0), false);
        let answer = Template::new(Flags::SYN | Flags::ACK, (500, 101), true);
        let ack = Template::new(Flags::ACK, (101, 501), false);
        // In portions, so that half-open ones stay few.
        for portion in (first..first + count).step_by(500) {
            let portion = portion..(portion + 500).min(first + count);
            self.send(&syn, CtState::NEW | CtState::TRACKED, portion.clone());
            let reply = CtState::ESTABLISHED | CtState::REPLY | CtState::TRACKED;
            self.send(&answer, reply, portion.clone());
            self.send(&ack, CtState::ESTABLISHED | CtState::TRACKED, portion);
        }
    }

    fn say(&self, what: &str, packets: u64) {
        let ns = self.spent as f64 / packets as f64;
        let longest = match self.bursts {
            1 => format!(", longest burst {} µs", self.longest / 1000),
            _ => String::new(),
        };
        println!("{what}: {:.2} M/s, {ns:.1} ns each{longest}", 1e3 / ns);
    }
}

/// The thread's time on a CPU.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("transcoder") => transcoder(),
        Some("flood") => flood(),
        Some("follow") => {
            let count = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(200_000);
            followed(count);
        }
        Some("accounting") => {
            let count = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(200_000);
            accounted(count);
        }
        Some("established") => {
            let count = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
            drop(established(count));
        }
        #[cfg(feature = "wasm")]
        Some("sandbox") => sandbox(),
        Some(n) => tracker(n.parse().expect("a number of connections, or `transcoder`")),
        None => {
            tracker(1_000_000);
            transcoder();
        }
    }
}

fn transcoder() {
    for (key, name) in [(Key::Aes128([1; 16]), "AES-128"), (Key::Aes256([2; 32]), "AES-256")] {
        for mode in [Mode::Cbc, Mode::Gcm] {
            // GCM's room is more than the payload of a frame of 64 octets.
            let shortest = if mode == Mode::Gcm { 128 } else { 64 };
            for len in [shortest, 512, 1500] {
                for checksum in [Checksum::Good, Checksum::Partial] {
                    let both = transcode(mode, &key, len, checksum);
                    for (way, ns) in ["encrypt", "decrypt"].into_iter().zip(both) {
                        println!(
                            "{name} {mode:?} {way}, frames of {len}, checksum {checksum:?}: {ns:.0} ns a packet, \
                             {:.2} GB/s of frames, {:.2} of payload",
                            len as f64 / ns,
                            (len - HEADERS) as f64 / ns
                        );
                    }
                }
            }
        }
    }
}

/// What a call of a module costs.
#[cfg(feature = "wasm")]
fn sandbox() {
    use service::catalogue;
    use service::element::Instance;
    const COUNTER: &str = r#"(module
        (memory (export "memory") 2)
        (global (export "millrace_abi") i32 (i32.const 1))
        (global $seen (export "count_packets") (mut i64) (i64.const 0))
        (func (export "buffer") (param i32) (result i32) (i32.const 0))
        (func (export "ingress") (param i64) (param $packets i32) (local $n i32)
            (loop $next
                (global.set $seen (i64.add (global.get $seen) (i64.const 1)))
                (i64.store offset=32 (i32.shl (local.get $n) (i32.const 6)) (i64.const 1))
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (br_if $next (i32.lt_u (local.get $n) (local.get $packets))))))"#;
    let trap = COUNTER.replace("(loop $next", "unreachable (loop $next");
    let noop = COUNTER.replace("(loop $next", "return (loop $next");
    let folder = std::env::temp_dir();
    let mut paths = Vec::new();
    let mut make = |kind: &str, text: Option<(&str, &str)>, more: &str| -> Box<dyn Instance> {
        let mut settings = catalogue::parse(more.split_whitespace()).expect("settings");
        if let Some((name, text)) = text {
            let path = folder.join(format!("millrace-figures-{}-{name}.wat", std::process::id()));
            std::fs::write(&path, text).expect("a module is written");
            settings.push(("module".to_string(), path.display().to_string()));
            paths.push(path);
        }
        let begun = cpu_ns();
        let element = catalogue::element(kind, &settings).expect("an element");
        let compiled = cpu_ns();
        let instance = element.instance(0, 0, 1);
        if text.is_some() {
            let (made, instance) = (compiled - begun, cpu_ns() - compiled);
            println!(
                "{more}: compiled in {} µs, an instance in {} µs",
                made / 1000,
                instance / 1000
            );
        }
        instance
    };
    let mut elements = [
        ("noop, native", make("noop", None, "")),
        ("noop, wasm", make("wasm", Some(("noop", &noop)), "octets=64")),
        ("noop, wasm, all of the frame", make("wasm", Some(("noop", &noop)), "octets=2048")),
        ("counter, native", make("counter", None, "")),
        ("counter, wasm", make("wasm", Some(("counter", COUNTER)), "octets=64")),
        ("one that traps", make("wasm", Some(("trap", &trap)), "octets=64")),
    ];
    paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
    for len in [64, 1500] {
        let ends: [(IpAddr, u16); 2] = [([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2)];
        let mut frames = vec![Frame::udp(ends[0], ends[1], len - HEADERS).bytes(); BURST];
        let at = Offsets::of(&frames[0]);
        for burst in [1, BURST] {
            for (what, instance) in &mut elements {
                let mut times: Vec<f64> = (0..5)
                    .map(|_| {
                        let rounds = 100_000 / burst;
                        let begun = cpu_ns();
                        for _ in 0..rounds {
                            let mut burst: SmallVec<[Passing<'_>; BURST]> = frames[..burst]
                                .iter_mut()
                                .map(|frame| {
                                    Passing::new(Packet {
                                        frame,
                                        at,
                                        checksum: Checksum::Good,
                                        hint: Hint::NONE,
                                    })
                                })
                                .collect();
                            instance.ingress(0, &mut burst);
                            let lost = burst.iter().all(|p| p.fate == Fate::Drop);
                            assert_eq!(lost, *what == "one that traps");
                        }
                        (cpu_ns() - begun) as f64 / (rounds * burst) as f64
                    })
                    .collect();
                times.sort_by(f64::total_cmp);
                println!("{what}: frames of {len}, bursts of {burst}: {:.1} ns a packet", times[2]);
            }
        }
    }
}

/// Ethernet, IPv4, UDP.
const HEADERS: usize = 42;

/// Nanoseconds a packet to encrypt and to decrypt frames of this length.
fn transcode(mode: Mode, key: &Key, len: usize, checksum: Checksum) -> [f64; 2] {
    const FRAMES: u16 = 256;
    const ROUNDS: usize = 100;
    let mut random = Random(1);
    let mut frames: Vec<Vec<u8>> = (0..FRAMES)
        .map(|n| {
            let ends: [(IpAddr, u16); 2] = [([10, 0, 0, 1].into(), n), ([10, 0, 0, 2].into(), 2)];
            let mut frame = Frame::udp(ends[0], ends[1], len - HEADERS);
            frame.body[8..].fill_with(|| random.next() as u8);
            if mode == Mode::Gcm {
                let room = frame.body.len() - GCM_ROOM;
                frame.body[room..].fill(0);
            }
            frame.bytes()
        })
        .collect();
    let at = Offsets::of(&frames[0]);
    let before = frames.clone();
    let mut ways = [Direction::Encrypt, Direction::Decrypt]
        .map(|way| Transcoder::new(mode, key, way).instance(0, 0, 1));
    let mut pass = |frames: &mut [Vec<u8>], way: usize| {
        let begun = cpu_ns();
        for frames in frames.chunks_mut(BURST) {
            let mut burst: SmallVec<[Passing<'_>; BURST]> = frames
                .iter_mut()
                .map(|frame| Passing::new(Packet { frame, at, checksum, hint: Hint::NONE }))
                .collect();
            ways[way].ingress(0, &mut burst);
            assert!(burst.iter().all(|p| p.metadata.register == 1 && p.fate == Fate::Continue));
        }
        cpu_ns() - begun
    };
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        let mut spent = [0; 2];
        for _ in 0..ROUNDS {
            spent[0] += pass(&mut frames, 0);
            assert!(frames.iter().zip(&before).all(|(after, before)| after != before));
            spent[1] += pass(&mut frames, 1);
            assert!(frames == before, "what comes back is what went in");
        }
        for (run, spent) in runs.iter_mut().zip(spent) {
            run.push(spent as f64 / (ROUNDS * usize::from(FRAMES)) as f64);
        }
    }
    runs.map(|mut run| {
        run.sort_by(f64::total_cmp);
        run[run.len() / 2]
    })
}

/// An image of all connections, written, read and restored.
fn image(bench: &mut Bench) {
    let count = bench.tracker.len() as f64;
    let mut slices = [const { Vec::<u64>::new() }; 3];
    let mut timed = |which: usize, call: &mut dyn FnMut() -> bool| {
        let begun = cpu_ns();
        let more = call();
        slices[which].push(cpu_ns() - begun);
        more
    };
    let begun = cpu_ns();
    let (mut writer, mut out) = Writer::new(&bench.tracker, 0);
    out.reserve_exact(bench.tracker.len() * 100);
    while timed(0, &mut || writer.slice(&mut bench.tracker, 0, 256)) {
        out.extend(writer.frame());
    }
    out.extend(writer.frame());
    out.extend(writer.end());
    let (written, len) = (cpu_ns() - begun, out.len());
    let begun = cpu_ns();
    let mut image = Image::read(out.clone()).expect("what was written can be read");
    let read = cpu_ns() - begun;
    let mut tracker = Tracker::new(Config::new(bench.tracker.len(), 2), 0);
    while timed(1, &mut || image.restore(&mut tracker, 0, 32)) {}
    assert_eq!(tracker.len(), bench.tracker.len());
    tracker.flush(None);
    let mut image = Image::read(out).expect("what was written can be read");
    while timed(2, &mut || image.restore(&mut tracker, 0, 32)) {}
    assert_eq!(tracker.len(), bench.tracker.len());
    // A copy that was watched, and what is left to write when nothing has changed since.
    let (mut writer, _) = Writer::watch(&mut bench.tracker, 0);
    while writer.slice(&mut bench.tracker, 0, 256) {}
    let begun = cpu_ns();
    let (mut writer, _) = Writer::changes(&mut bench.tracker, 0);
    while writer.slice(&mut bench.tracker, 0, 256) {}
    println!("changes: of none looked for in {:.1} ms", (cpu_ns() - begun) as f64 / 1e6);
    bench.tracker.unwatch();
    let each = |ns: u64| ns as f64 / count;
    println!(
        "image: {:.1} octets each; written in {:.0} ns each, read and checked in {:.0}",
        len as f64 / count,
        each(written),
        each(read)
    );
    for (what, mut slices) in ["written", "restored", "restored again"].into_iter().zip(slices) {
        slices.sort_unstable();
        println!(
            "image, {what} in slices: {:.0} ns each; of {} slices the middle one {} µs, of a thousand the longest \
             {}, of all {}",
            each(slices.iter().sum()),
            slices.len(),
            slices[slices.len() / 2] / 1000,
            slices[slices.len() * 999 / 1000] / 1000,
            slices[slices.len() - 1] / 1000
        );
    }
}

/// So many established connections, and what their packets take.
/// What it costs to be followed.
/// A connection from SYN to reset, in five segments, and what each is found to be.
fn phases() -> [(Template, CtState); 5] {
    let tracked = CtState::TRACKED;
    let (new, open) = (CtState::NEW | tracked, CtState::ESTABLISHED | tracked);
    let back = open | CtState::REPLY;
    [
        (Template::new(Flags::SYN, (100, 0), false), new),
        (Template::new(Flags::SYN | Flags::ACK, (500, 101), true), back),
        (Template::new(Flags::ACK, (101, 501), false), open),
        (Template::new(Flags::ACK, (501, 101), true), back),
        (Template::new(Flags::RST | Flags::ACK, (101, 501), false), open),
    ]
}

/// Some connections live; what all segments took, and what so many established ones took besides.
fn live(bench: &mut Bench, phases: &[(Template, CtState)], some: &Range<u32>) -> (u64, u64) {
    let (mut spent, mut acks) = (0, 0);
    for (n, (template, want)) in phases.iter().enumerate() {
        bench.send(template, *want, some.clone());
        spent += bench.spent;
        if n == 3 {
            bench.send(template, *want, some.clone());
            acks += bench.spent;
        }
    }
    (spent, acks)
}

/// Medians of two ways, in turns.
fn compare(what: &str, [one, other]: [&str; 2], all: &mut [Vec<f64>; 2]) {
    let [a, b] = all.each_mut().map(|all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
    println!("{what}: {a:.1} ns {one}, {b:.1} {other}: {:+.1} %", (b / a - 1.0) * 100.0);
}

fn accounted(count: u32) {
    let phases = phases();
    let (mut lives, mut segments) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..14 {
        let accounting = round % 2 == 1;
        let config = Config::new(count as usize + 100, 1);
        let mut bench = Bench::new(Config { half_open_max: count as usize, accounting, ..config });
        bench.bursts = PORTION;
        let (mut spent, mut acks) = (0, 0);
        for first in (0..count).step_by(EACH) {
            let some = first..(first + EACH as u32).min(count);
            let (all, established) = live(&mut bench, &phases, &some);
            (spent, acks) = (spent + all, acks + established);
        }
        lives[usize::from(accounting)].push(spent as f64 / f64::from(count));
        segments[usize::from(accounting)].push(acks as f64 / f64::from(count));
    }
    let names = ["without accounting", "with"];
    compare("a connection from SYN to reset", names, &mut lives);
    compare("an established segment", names, &mut segments);
}

fn followed(count: u32) {
    const LOG: usize = 512 << 10;
    let phases = phases();
    let (mut lives, mut segments) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let (mut told, mut records) = (0, Vec::new());
    for round in 0..14 {
        let follows = round % 2 == 1;
        let mut bench = Bench::new(Config {
            half_open_max: count as usize,
            ..Config::new(count as usize + 100, 1)
        });
        bench.bursts = PORTION;
        if follows {
            bench.tracker.follow(LOG);
        }
        let mut spare = Vec::with_capacity(LOG);
        let (mut spent, mut acks) = (0, 0);
        // What is told is taken as often as it is in a switch, so that the buffers stay in the cache.
        for first in (0..count).step_by(EACH) {
            let some = first..(first + EACH as u32).min(count);
            let (all, established) = live(&mut bench, &phases, &some);
            (spent, acks) = (spent + all, acks + established);
            if follows {
                let changes = bench.tracker.take_changes(0, spare);
                assert!(!changes.full);
                if round == 13 {
                    told += changes.told;
                    records.extend(&changes.records);
                }
                spare = changes.records;
            }
        }
        lives[usize::from(follows)].push(spent as f64 / f64::from(count));
        segments[usize::from(follows)].push(acks as f64 / f64::from(count));
    }
    compare("a connection from SYN to reset", ["alone", "followed"], &mut lives);
    compare("an established segment", ["alone", "followed"], &mut segments);
    println!("{told} records, {:.1} octets each", records.len() as f64 / told as f64);
    let mut copy = Tracker::new(Config::new(count as usize, 2), 0);
    copy.stand_still(0);
    let mut rest = &records[..];
    let begin = cpu_ns();
    while !rest.is_empty() {
        copy.apply(0, &mut rest, 1024).expect("records");
    }
    println!("a copy applies a record in {:.0} ns", (cpu_ns() - begin) as f64 / told as f64);
    let mut all =
        Bench::new(Config { half_open_max: count as usize, ..Config::new(count as usize, 1) });
    all.bursts = PORTION;
    for (template, want) in &phases[..4] {
        all.send(template, *want, 0..count);
    }
    let (mut from, mut longest, mut out, begin) =
        (Some(0), 0, Vec::with_capacity(count as usize * 64), cpu_ns());
    while let Some(at) = from {
        let since = cpu_ns();
        from = all.tracker.tell_all(0, at, 1024, &mut out);
        longest = longest.max(cpu_ns() - since);
    }
    println!(
        "all told in {:.1} ms, the longest slice of 1,024 in {} us, {:.1} octets each",
        (cpu_ns() - begin) as f64 / 1e6,
        longest / 1000,
        out.len() as f64 / f64::from(count)
    );
    let (mut rest, begin, mut longest) = (&out[..], cpu_ns(), 0);
    copy.begin_sync();
    while !rest.is_empty() {
        let since = cpu_ns();
        copy.apply(0, &mut rest, 1024).expect("records");
        longest = longest.max(cpu_ns() - since);
    }
    while copy.end_sync(0, usize::MAX).is_some() {}
    assert_eq!(copy.len(), count as usize);
    println!(
        "a copy applies all in {:.1} ms, 1,024 in {} us at most",
        (cpu_ns() - begin) as f64 / 1e6,
        longest / 1000
    );
}

fn established(count: u32) -> Bench {
    let before = resident();
    let mut bench = Bench::new(Config::new(count as usize, 1));
    bench.establish(0, count);
    assert_eq!(bench.tracker.len(), count as usize);
    let memory = bench.tracker.memory().total();
    println!(
        "{count} connections: {:.1} octets each taken, {:.1} resident",
        memory as f64 / f64::from(count),
        (resident() - before) as f64 / f64::from(count)
    );
    let ack = Template::new(Flags::ACK, (101, 501), false);
    let state = CtState::ESTABLISHED | CtState::TRACKED;
    let mut random = Random(1);
    let few = count.min(1000);
    let right: Vec<Hint> = (0..count).map(|n| bench.hint(n)).collect();
    let wrong: Vec<Hint> = (0..count).map(|n| right[((n + 1) % count) as usize]).collect();
    let some: Vec<Hint> = right[..few as usize].to_vec();
    for (what, of_few, hints) in [
        ("of all", 0, &[][..]),
        ("of all, hints", 0, &right),
        ("of all, hints of others", 0, &wrong),
        ("of all, 90 in 100 of 1,000 of them", 90, &[]),
        ("of all, 90 in 100 of 1,000 of them, hints of those", 90, &some),
        ("of 1,000 of them", 100, &[]),
        ("of 1,000 of them, hints", 100, &some),
        ("of all, once more", 0, &[]),
    ] {
        bench.hints = hints.to_vec();
        bench.bursts = PORTION;
        bench.turns.resize(count as usize, 0);
        // One more than is counted, so that all begin alike.
        let mut times: Vec<(u64, u64)> = (0..6)
            .map(|_| {
                let among = |random: &mut Random| match random.below(100) < of_few {
                    true => few,
                    false => count,
                };
                let numbers: Vec<u32> = (0..1_000_000)
                    .map(|_| {
                        let among = among(&mut random);
                        random.below(among.into()) as u32
                    })
                    .collect();
                bench.send(&ack, state, numbers.into_iter());
                (bench.spent, bench.longest)
            })
            .collect();
        times.remove(0);
        times.sort_unstable();
        bench.spent = times[2].0;
        bench.longest = times.iter().map(|(_, longest)| *longest).max().unwrap_or(0);
        bench.say(&format!("established, random {what}"), 1_000_000);
    }
    (bench.hints, bench.turns, bench.bursts) = (Vec::new(), Vec::new(), 1);
    bench
}

/// Twice the same: a burst that takes long in one run and not in the other was kept waiting by the machine, whose
/// interruptions are in the thread's time.
fn flood() {
    for half_open_max in [500_000, 10_000] {
        let [first, again] = [(); 2].map(|()| one_flood(half_open_max));
        let both = first.iter().zip(&again).map(|(a, b)| *a.min(b));
        let above = |log: &[u32], ns: u32| log.iter().filter(|spent| **spent > ns).count();
        println!(
            "of {} bursts, twice: {} and {} took more than 100 µs, {} in both runs; longest {} and {} µs, longest in both {} µs",
            first.len(),
            above(&first, 100_000),
            above(&again, 100_000),
            above(&both.clone().collect::<Vec<u32>>(), 100_000),
            first.iter().max().unwrap_or(&0) / 1000,
            again.iter().max().unwrap_or(&0) / 1000,
            both.max().unwrap_or(0) / 1000,
        );
    }
}

/// How long each burst took.
fn one_flood(half_open_max: usize) -> Vec<u32> {
    const ESTABLISHED: u32 = 100_000;
    let segment = Template::new(Flags::ACK, (101, 501), false);
    let syn = Template::new(Flags::SYN, (100, 0), false);
    let new = CtState::NEW | CtState::TRACKED;
    let config = Config { half_open_max, ..Config::new(1_000_000, 1) };
    let mut bench = Bench::new(config);
    bench.establish(0, ESTABLISHED);
    bench.log = Some(Vec::with_capacity(2_000_000));
    let (memory, mut random) = (bench.tracker.memory().total(), Random(3));
    let (mut next, mut spent, mut longest) = (ESTABLISHED, [0; 2], [0; 2]);
    let mut segments = 0;
    while next < 50_000_000 {
        bench.send(&syn, new, next..next + 288);
        next += 288;
        spent[0] += bench.spent;
        longest[0] = bench.longest.max(longest[0]);
        let numbers: Vec<u32> = (0..32).map(|_| random.below(ESTABLISHED.into()) as u32).collect();
        let state = CtState::ESTABLISHED | CtState::TRACKED;
        segments += bench.send(&segment, state, numbers.into_iter());
        spent[1] += bench.spent;
        longest[1] = bench.longest.max(longest[1]);
    }
    let syns = u64::from(next - ESTABLISHED);
    let counters = *bench.tracker.counters();
    let lost = (0..ESTABLISHED).filter(|n| bench.find(*n).is_none()).count();
    assert_eq!((lost, counters.invalid, counters.table_full), (0, 0, 0));
    assert_eq!(bench.tracker.memory().total(), memory);
    println!(
        "flood, {half_open_max} half-open at most: {syns} SYNs, {:.2} M/s, {segments} segments of {ESTABLISHED} \
         established connections, none lost, {:.0} ns each; {} half-open made room, {} are there; memory {} MB as \
         at the start, {} MB resident; longest burst {} and {} µs",
        1e3 * syns as f64 / spent[0] as f64,
        spent[1] as f64 / segments as f64,
        counters.half_open_evicted,
        bench.tracker.half_open(),
        memory / 1_000_000,
        resident() / 1_000_000,
        longest[0] / 1000,
        longest[1] / 1000,
    );
    bench.log.take().unwrap_or_default()
}

fn tracker(count: u32) {
    let mut bench = established(count);
    let ack = Template::new(Flags::ACK, (101, 501), false);
    let established = CtState::ESTABLISHED | CtState::TRACKED;
    let mut random = Random(1);
    for _ in 0..3 {
        image(&mut bench);
    }
    drop(bench);

    let syn = Template::new(Flags::SYN, (100, 0), false);
    let new = CtState::NEW | CtState::TRACKED;
    for (what, half_open_max) in [("all kept", count as usize), ("1,000 half-open at most", 1000)] {
        let config = Config { half_open_max, ..Config::new(count as usize, 1) };
        let mut bench = Bench::new(config);
        // Touched first, so that the system's pages are not what is measured.
        bench.send(&syn, new, 0..count);
        bench.tracker.flush(Some(0));
        for round in 1..=3 {
            let packets = bench.send(&syn, new, (round * count)..((round + 1) * count));
            bench.say(&format!("new, {what}"), packets);
            bench.tracker.flush(Some(0));
        }
    }

    // 100,000 whose time is over at once, among 100,000 that live, whose packets pass meanwhile.
    let mut config = Config::new(200_000, 1);
    config.timeouts.tcp.unacknowledged = 100_000;
    config.timeouts.tcp.established = 100_000;
    let mut bench = Bench::new(config);
    bench.establish(0, 100_000);
    bench.now_ns = 99_990 * SECOND;
    bench.establish(100_000, 100_000);
    bench.now_ns = 100_010 * SECOND;
    let mut packets = 0;
    let (mut spent, mut longest) = (0, 0);
    while bench.tracker.len() > 100_000 {
        let numbers = (0..3200).map(|_| 100_000 + random.below(100_000) as u32);
        packets += bench.send(&ack, established, numbers.collect::<Vec<_>>().into_iter());
        spent += bench.spent;
        longest = longest.max(bench.longest);
    }
    (bench.spent, bench.longest) = (spent, longest);
    bench.say("established, while 100,000 expire", packets);
    bench.establish(0, 100_000);
    bench.now_ns += 200_000 * SECOND;
    let mut longest = 0;
    while !bench.tracker.is_empty() {
        let begun = cpu_ns();
        bench.tracker.expire(bench.now_ns, 64);
        longest = longest.max(cpu_ns() - begun);
    }
    println!("expiry in steps of 64, no packets: longest {} µs", longest / 1000);
}
