//! Frames that stay their driver's on the way through a worker, against the same frames carried as frames.
//!
//! Two workers with compiled code get the same traffic and the same commands. One has memory ports; the other
//! has the same ports behind a driver that lends its buffers ([`driver`]). What leaves each port, in which
//! order, every counter and every punt must be the same.

use datapath::capture::{self, Filter};
use datapath::compiled::{JitEngine, Options};
use datapath::punt::{self, PuntReceiver};
use datapath::queues::{Queues, QueuesConfig, Setting};
use datapath::validate;
use datapath::worker::Handle;
use datapath::{
    Command, Engine, LaneConfig, PortFlags, PortShared, PortTable, Publisher, Worker, WorkerConfig,
};
use ir::{Pipeline, Update};
use port::burst::BURST_MAX;
use port::prng::Prng;
use port::{Csum, Frame, Port, RxQueue, TxQueue, memory};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use testkit::station::{FIRST, SECOND, call, frame, insert, modify, program};

#[path = "borrowing/driver.rs"]
mod driver;

const PORTS: u32 = 6;
/// A port that is not the driver's.
const OTHER: u32 = 3;
/// A port whose number is none that frames are dealt to.
const FAR: u32 = 70_000;

struct Bench {
    engine: JitEngine,
    pipeline: Pipeline,
    publisher: Arc<Publisher>,
    worker: Worker,
    handle: Handle,
    punts: PuntReceiver,
    ports: PortTable,
    ends: Vec<(u32, memory::Handle)>,
    now_ns: u64,
    samples: crossbeam_channel::Receiver<validate::Sample>,
    sampled: usize,
}

impl Bench {
    fn new(lends: bool, bursts_max: usize) -> Bench {
        Bench::with(lends, true, bursts_max)
    }

    /// Without checks of what code does, of which a frame is made for the interpreter, all stays borrowed.
    fn with(lends: bool, checks: bool, bursts_max: usize) -> Bench {
        let arena = Arc::new(state::counters::CounterArena::new(1 << 16));
        (0..1000).for_each(|_| assert!(arena.allocate().is_ok()));
        let options = Options { synchronous: true, ..Options::default() };
        let (engine, first) = JitEngine::new(program(), 1, arena.clone(), options).unwrap();
        let publisher = Arc::new(Publisher::new(first, 1));
        let (ring, punts) = punt::ring(0);
        let (sampler, samples) = validate::ring(97);
        let config = WorkerConfig { index: 0, cpu: None, commands_time: Duration::MAX, bursts_max };
        let (worker, handle) = Worker::new(config).unwrap();
        let handle = handle.add(LaneConfig {
            services: Default::default(),
            publisher: publisher.clone(),
            ring,
            counters: arena.worker(),
            control: Arc::new(PortShared::new(0xffff_fffd, "control", 0, 1)),
            sampler: checks.then_some(sampler),
            seed: 1,
        });
        let pipeline = Pipeline::new(program()).unwrap();
        let mut bench = Bench {
            engine,
            pipeline,
            publisher,
            worker,
            handle,
            punts,
            ports: PortTable::default(),
            ends: Vec::new(),
            now_ns: 1,
            samples,
            sampled: 0,
        };
        for number in (1..=PORTS).chain([FAR]) {
            let config = memory::Config { capacity: 300, mtu: 900, ..memory::Config::default() };
            let (port, end) = memory::port(&format!("p{number}"), config).unwrap();
            bench.add(number, port, lends && number != OTHER);
            bench.ends.push((number, end));
        }
        bench
    }

    /// A port, in place of one of that number; what the control side knows of it.
    fn add(&mut self, number: u32, mut port: memory::Memory, lends: bool) -> Arc<PortShared> {
        let (rx, tx) = (port.rx_queue(0).unwrap(), port.tx_queue().unwrap());
        let (rx, tx): (Box<dyn RxQueue>, Box<dyn TxQueue>) = match lends {
            true => (Box::new(driver::Rx(rx)), Box::new(driver::Tx(tx))),
            false => (rx, tx),
        };
        let shared = Arc::new(PortShared::new(number, "p", PortFlags::UP, 1));
        self.ports.insert(shared.clone());
        self.tell(Command::Ports(Arc::new(self.ports.clone())));
        self.tell(Command::AddPort { shared: shared.clone(), rx: vec![rx], tx });
        shared
    }

    fn end(&self, number: u32) -> &memory::Handle {
        self.ends.iter().find(|(n, _)| *n == number).map(|(_, end)| end).unwrap()
    }

    fn tell(&self, command: Command) {
        assert!(self.handle.send(command));
    }

    fn transact(&mut self, updates: &[Update]) {
        // The worker lets go of the version before last.
        self.round();
        self.pipeline.transact(updates).unwrap();
        self.engine.apply(&self.pipeline, updates, self.now_ns);
        self.publisher.publish(self.engine.publish(&|| {}));
    }

    fn round(&mut self) {
        self.now_ns += 1000;
        self.worker.poll(self.now_ns);
        // What is sampled for checking goes its way as a frame.
        for sample in self.samples.try_iter() {
            let mut scratch = datapath::engine::Scratch::default();
            assert_eq!(validate::check(&sample, &mut scratch), Ok(()));
            self.sampled += 1;
        }
    }

    /// What left each port since the last time, what was punted, and every counter.
    fn seen(&mut self) -> impl PartialEq + std::fmt::Debug + use<> {
        let mut sent = Vec::new();
        for (number, end) in &self.ends {
            // The driver does not say what it knows of what it sends; the port that is not its own does.
            let csum = |frame: &Frame| (*number == OTHER).then_some(frame.offload.csum);
            end.take_into(usize::MAX, |frame| {
                sent.push((*number, frame.data().to_vec(), csum(&frame)));
            });
        }
        let counters: Vec<_> =
            self.ends.iter().map(|(n, _)| (*n, self.ports.get(*n).unwrap().counters())).collect();
        let mut punts = Vec::new();
        while let Some(message) = self.punts.try_recv() {
            punts.push(format!("{message:?}"));
        }
        (sent, counters, punts)
    }

    fn flag(&self, number: u32, bits: u32, on: bool) {
        self.ports.get(number).unwrap().set_flag(bits, on);
    }

    fn queues(&self, number: u32, on: bool) {
        let queues = on.then(|| {
            let mut config = QueuesConfig::default();
            for text in ["max=800M,burst=100", "1,priority=1", "0,priority=2,limit=20"] {
                let text = match text.split_once(',') {
                    Some((queue, rest)) if queue.len() == 1 => format!("{number}:{queue},{rest}"),
                    _ => format!("{number},{text}"),
                };
                config.set(Setting::parse(&text).unwrap().of).unwrap();
            }
            Arc::new(Queues::new(config, 1, self.now_ns))
        });
        self.ports.get(number).unwrap().set_queues(queues.clone());
        self.tell(Command::Queues { number, queues });
    }
}

/// What becomes of a station's frames.
fn fates() -> Vec<ir::ActionCall> {
    let mut fates = vec![call("drop", &[]), call("punt", &[]), call("pass", &[])];
    fates.extend((1..=PORTS).chain([FAR, 99]).map(|port| call("out", &[port])));
    fates.push(call("tag", &[7, 2]));
    fates.push(call("bare", &[4]));
    fates.push(call("same", &[3, 1]));
    fates
}

fn traffic(random: &mut Prng, stations: &[u32], number: &mut u32) -> Frame {
    *number += 1;
    let station = stations[random.below(stations.len() as u64) as usize];
    let mut bytes = frame(station, *number);
    match random.below(12) {
        // Too short for any port, and too long for these.
        0 => bytes.truncate(10),
        1 => bytes.resize(1000, 7),
        _ => {}
    }
    let mut frame = Frame::copy_of(&bytes);
    if random.below(4) == 0 {
        frame.offload.csum = Csum::Valid;
    }
    if random.below(400) == 0 && frame.len() > 40 {
        frame.offload.csum = Csum::Partial { start: 20, offset: 6 };
    }
    frame
}

/// One test at a time: the driver counts what is borrowed.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn lent_frames_fare_as_all_frames_do() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for seed in 0..40 {
        let mut random = Prng::new(seed);
        // Several bursts of one queue in one round come before another queue's, as far as they stay borrowed: then
        // there is one queue, so that the order is the same.
        let alone = seed % 2 == 1;
        let bursts_max = if alone { 4 } else { 1 };
        let mut benches = [Bench::new(true, bursts_max), Bench::new(false, bursts_max)];
        let (fates, mut number) = (fates(), 0);
        let (mut plain, mut updates) = (Vec::new(), Vec::new());
        for station in 0..30u32 {
            let at = random.below(fates.len() as u64) as usize;
            // Two tables, so that some go to two ports.
            let twice = random.below(4) == 0;
            let then = match twice {
                true => call("out", &[1 + station % PORTS]),
                false => call("mark", &[3]),
            };
            let moved = fates[at] == fates[fates.len() - 1] || fates[at] == fates[fates.len() - 3];
            if !twice && (at == 0 || (3..3 + PORTS as usize).contains(&at) || moved) {
                plain.push(station);
            }
            updates.push(insert(FIRST, 2 * station, station, then));
            updates.push(insert(SECOND, 2 * station + 1, station, fates[at].clone()));
        }
        benches.iter_mut().for_each(|bench| bench.transact(&updates));
        let all: Vec<u32> = (0..32).collect();
        for step in 0..150 {
            // Often a burst that can be dealt as a whole.
            let stations = match random.below(3) {
                0 => &all,
                _ if plain.is_empty() => &all,
                _ => &plain,
            };
            for port in (1..=PORTS).chain([FAR]) {
                // Now and then so many that batches wait for more over several rounds.
                let most = match random.below(20) {
                    _ if alone && port != 1 => 1,
                    0 => 290,
                    10.. if alone => 290,
                    _ => 90,
                };
                for _ in 0..random.below(most) {
                    let frame = traffic(&mut random, stations, &mut number);
                    let to = benches.each_ref().map(|b| {
                        b.ends.iter().find(|(n, _)| *n == port).map(|(_, end)| end.clone())
                    });
                    let into = |end: &Option<memory::Handle>| {
                        end.as_ref().unwrap().inject(frame.clone()).is_ok()
                    };
                    assert_eq!(into(&to[0]), into(&to[1]));
                }
            }
            let port = 1 + random.below(PORTS.into()) as u32;
            let station = random.below(30) as u32;
            // Ports are up, without queues and looked at by nobody, most of the time.
            let (on, what) = (random.below(8) == 0, random.below(8));
            let fate = &fates[random.below(fates.len() as u64) as usize];
            for bench in &mut benches {
                match what {
                    0 => bench.flag(port, PortFlags::UP, !on),
                    1 => bench.flag(port, PortFlags::NO_FORWARD, on),
                    2 => bench.flag(port, PortFlags::NO_RECEIVE, on),
                    // What leaves an egress queue, and when, depends on the round in which it came there.
                    3 if !alone => bench.queues(port, on),
                    4 => {
                        // What has come is forwarded by one version, in however many rounds.
                        if alone {
                            (0..6).for_each(|_| bench.round());
                        }
                        let change = modify(SECOND, 2 * station + 1, station, fate.clone());
                        bench.transact(&[change]);
                    }
                    5 if on => {
                        // Somebody looks for a while: over when it is dropped.
                        let filter = Filter { ingress: true, egress: true, ..Filter::default() };
                        let (tap, _captured) = capture::tap(Filter { snap_len: 64, ..filter });
                        bench.tell(Command::Capture(tap));
                        bench.round();
                    }
                    _ => {}
                }
                (0..6).for_each(|_| bench.round());
            }
            let [borrowed, owned] = benches.each_mut().map(Bench::seen);
            assert_eq!(borrowed, owned, "seed {seed}, step {step}");
        }
        assert!(benches.iter().all(|bench| bench.sampled > 0));
    }
    assert_eq!(driver::LENT.load(Relaxed), 0);
    // Often enough, the shortest way was taken.
    let returned = driver::RETURNED.load(Relaxed);
    assert!(returned > 10_000, "{returned}");
}

/// The station whose frames leave by [`TO`], and one whose frames are dropped.
const HERE: u32 = 1;
const NOWHERE: u32 = 2;
const TO: u32 = 2;

/// A bench of which a batch of 20 frames waits to be sent by [`TO`]; so many frames have come in by port 1.
fn waiting() -> (Bench, u64) {
    let mut bench = Bench::with(true, false, 1);
    bench.transact(&[
        insert(SECOND, 1, HERE, call("out", &[TO])),
        insert(SECOND, 2, NOWHERE, call("drop", &[])),
    ]);
    bench.round();
    let number = full_burst(&bench, 20, 0);
    bench.round();
    assert_eq!(bench.end(TO).take_into(usize::MAX, drop), 0, "they wait");
    (bench, number)
}

/// Puts as many frames as a worker takes at once on port 1; so many are [`HERE`]'s, numbered from `number`. The next number.
fn full_burst(bench: &Bench, here: usize, number: u64) -> u64 {
    for at in 0..BURST_MAX {
        let station = if at < here { HERE } else { NOWHERE };
        assert!(bench.end(1).inject_bytes(&frame(station, number as u32 + at as u32)));
    }
    number + BURST_MAX as u64
}

/// What left a far end, by its number.
fn numbers(end: &memory::Handle) -> Vec<u32> {
    let mut all = Vec::new();
    end.take_into(usize::MAX, |frame| {
        let number = *frame.data()[14..].first_chunk().unwrap();
        all.push(u32::from_be_bytes(number));
    });
    all
}

#[test]
fn a_batch_waits_for_eight_rounds() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut bench, mut number) = waiting();
    for _ in 0..7 {
        number = full_burst(&bench, 0, number);
        bench.round();
        assert_eq!(numbers(bench.end(TO)), Vec::<u32>::new());
    }
    full_burst(&bench, 0, number);
    bench.round();
    assert_eq!(numbers(bench.end(TO)), Vec::from_iter(0..20));
}

/// A batch waits for more, and its port goes, or is closed in one way or another. Each frame, of those that waited and of
/// those that come behind them, leaves or is counted under what it met.
#[test]
fn frames_that_wait_for_a_port_are_counted_whatever_becomes_of_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    type Happens = fn(&mut Bench);
    type Case = (&'static str, Happens, usize, Option<(u32, &'static str)>);
    // What happens; how many leave; of those that do not, at which port they are counted, and why.
    let cases: [Case; 10] = [
        ("nothing", |_| {}, 28, None),
        ("down", |b| b.flag(TO, PortFlags::UP, false), 0, Some((TO, "port_down"))),
        (
            "does not forward",
            |b| b.flag(TO, PortFlags::NO_FORWARD, true),
            0,
            Some((TO, "port_no_fwd")),
        ),
        // Not told yet: the driver refuses them.
        ("cable out", |b| b.end(TO).set_carrier(false), 0, Some((TO, "tx_link_down"))),
        // As `Switch::remove_port` tells it: they had a port when they were dealt.
        ("gone", |b| remove(b, TO), 20, Some((1, "port_unknown"))),
        (
            "down, then gone",
            |b| {
                b.flag(TO, PortFlags::UP, false);
                remove(b, TO);
            },
            0,
            None,
        ),
        (
            "cable out, then gone",
            |b| {
                b.end(TO).set_carrier(false);
                remove(b, TO);
            },
            0,
            None,
        ),
        (
            "down and up",
            |b| {
                b.flag(TO, PortFlags::UP, false);
                b.flag(TO, PortFlags::UP, true);
            },
            28,
            None,
        ),
        ("egress queues", |b| b.queues(TO, true), 28, None),
        ("stopped", |b| b.tell(Command::Stop), 20, None),
    ];
    for (what, happens, left, counted) in cases {
        // More for that port comes behind, or other traffic alone, or none.
        for more in [Some(8), Some(0), None] {
            let (mut bench, number) = waiting();
            let shared = bench.ports.get(TO).unwrap().clone();
            if let Some(here) = more {
                full_burst(&bench, here, number);
            }
            happens(&mut bench);
            (0..12).for_each(|_| bench.round());
            let stopped = what == "stopped";
            let all = 20 + if stopped { 0 } else { more.unwrap_or(0) };
            let left = left.min(all);
            let seen = numbers(bench.end(TO));
            let sent = (0..20).chain(number as u32..).take(left);
            assert_eq!(seen, Vec::from_iter(sent), "{what}, {more:?}");
            let at = |port: u32| match port {
                TO => shared.counters(),
                _ => bench.ports.get(port).unwrap().counters(),
            };
            assert_eq!(at(TO).tx_packets, left as u64, "{what}, {more:?}");
            // What waited is counted where it waited; what comes when there is no port any more, where it came in.
            let counted = match what {
                "down, then gone" => {
                    vec![(TO, "port_down", 20), (1, "port_unknown", more.unwrap_or(0))]
                }
                "cable out, then gone" => {
                    vec![(TO, "tx_link_down", 20), (1, "port_unknown", more.unwrap_or(0))]
                }
                _ => Vec::from_iter(counted.map(|(port, why)| (port, why, all - left))),
            };
            let mut lost = 0;
            for (port, why, n) in counted {
                let found =
                    at(port).drops.iter().find(|drop| drop.0 == why).map_or(0, |drop| drop.1);
                assert_eq!(found, n as u64, "{what}, {more:?}: {:?}", at(port));
                lost += n;
            }
            assert_eq!(left + lost, all, "{what}, {more:?}");
            // And all of it: what came in left, or was dropped, once.
            let mut ended = at(TO).tx_packets + at(TO).drops.iter().map(|d| d.1).sum::<u64>();
            ended += at(1).drops.iter().map(|d| d.1).sum::<u64>();
            assert_eq!(at(1).rx_packets, ended, "{what}, {more:?}");
        }
    }
    assert_eq!(driver::LENT.load(Relaxed), 0);
}

/// As a switch does it.
fn remove(bench: &mut Bench, number: u32) {
    bench.ports.remove(number);
    bench.tell(Command::Ports(Arc::new(bench.ports.clone())));
    bench.tell(Command::RemovePort(number, None));
}

/// A number is another port's before anything of the first was sent: each frame leaves by the port that it was dealt to.
#[test]
fn frames_that_wait_leave_by_the_port_that_had_the_number_then() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut bench, number) = waiting();
    let before = bench.ports.get(TO).unwrap().clone();
    full_burst(&bench, 8, number);
    let config = memory::Config { capacity: 300, mtu: 900, ..memory::Config::default() };
    let (port, end) = memory::port("other", config).unwrap();
    remove(&mut bench, TO);
    let after = bench.add(TO, port, true);
    (0..4).for_each(|_| bench.round());
    assert_eq!(numbers(bench.end(TO)), Vec::from_iter(0..20));
    assert_eq!(numbers(&end), Vec::from_iter(number as u32..number as u32 + 8));
    assert_eq!((before.counters().tx_packets, after.counters().tx_packets), (20, 8));
}
