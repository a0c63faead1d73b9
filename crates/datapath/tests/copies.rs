//! Packets that go to many ports, or change on the way from one to the next: workers with compiled code against one with the
//! interpreter.
//!
//! Three workers get the same traffic and the same commands: one interprets, one runs compiled code on frames, one on frames
//! that stay their driver's as long as they can. What leaves each port, in which order, with what is left to be done for it by the
//! port, every counter, what the control side is told, and what is captured must be the same.

#[path = "borrowing/driver.rs"]
mod driver;

use datapath::capture::{self, Captured, Filter};
use datapath::compiled::{JitEngine, Options};
use datapath::queues::{Queues, QueuesConfig, Setting};
use datapath::replica::InterpEngine;
use datapath::worker::Handle;
use datapath::{
    Command, Engine, Forward, LaneConfig, PortFlags, PortShared, PortTable, Publisher, Worker,
    WorkerConfig, punt, validate,
};
use ir::Pipeline;
use ir::testing::Rng;
use port::{Csum, Frame, Port, RxQueue, TxQueue, memory};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use testkit::copies::{self, PORTS};

/// How a worker's frames are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Interpreted,
    Compiled,
    Lent,
}

struct Bench {
    how: How,
    worker: Worker,
    handle: Handle,
    ports: PortTable,
    ends: Vec<memory::Handle>,
    now_ns: u64,
    samples: crossbeam_channel::Receiver<validate::Sample>,
    captured: Option<Captured>,
    punts: punt::PuntReceiver,
}

impl Bench {
    fn new(how: How, pipeline: &Pipeline, punt_rate: u64) -> Bench {
        let arena = Arc::new(state::counters::CounterArena::new(1 << 16));
        (0..1000).for_each(|_| assert!(arena.allocate().is_ok()));
        let program = pipeline.program().clone();
        let (mut engine, first): (Box<dyn Engine>, Arc<dyn Forward>) = match how {
            How::Interpreted => {
                let (engine, first) = InterpEngine::new(program, 1, arena.clone());
                (Box::new(engine), first)
            }
            _ => {
                let options = Options { synchronous: true, ..Options::default() };
                let (engine, first) = JitEngine::new(program, 1, arena.clone(), options).unwrap();
                (Box::new(engine), first)
            }
        };
        let publisher = Arc::new(Publisher::new(first, 1));
        let mut updates = Vec::new();
        for table in 0..pipeline.program().tables.len() as u32 {
            let table = ir::TableId(table);
            let entries = pipeline.entries(table);
            updates.extend(entries.iter().map(|e| ir::Update::Insert(table, e.clone())));
        }
        engine.apply(pipeline, &updates, 1);
        publisher.publish(engine.publish(&|| {}));
        let (ring, punts) = punt::ring(punt_rate);
        let (sampler, samples) = validate::ring(23);
        let config =
            WorkerConfig { index: 0, cpu: None, commands_time: Duration::MAX, bursts_max: 1 };
        let (worker, handle) = Worker::new(config).unwrap();
        let handle = handle.add(LaneConfig {
            services: Default::default(),
            publisher,
            ring,
            counters: arena.worker(),
            control: Arc::new(PortShared::new(0xffff_fffd, "control", 0, 1)),
            sampler: (how == How::Compiled).then_some(sampler),
            seed: 1,
        });
        let mut bench = Bench {
            how,
            worker,
            handle,
            ports: PortTable::default(),
            ends: Vec::new(),
            now_ns: 1,
            samples,
            captured: None,
            punts,
        };
        (1..=PORTS).for_each(|number| bench.add(number));
        bench
    }

    fn add(&mut self, number: u32) {
        let config = memory::Config { capacity: 2000, ..memory::Config::default() };
        let (mut port, end) = memory::port(&format!("p{number}"), config).unwrap();
        let (rx, tx) = (port.rx_queue(0).unwrap(), port.tx_queue().unwrap());
        let (rx, tx): (Box<dyn RxQueue>, Box<dyn TxQueue>) = match self.how {
            How::Lent => (Box::new(driver::Rx(rx)), Box::new(driver::Tx(tx))),
            _ => (rx, tx),
        };
        let shared = Arc::new(PortShared::new(number, "p", PortFlags::UP, 1));
        self.ports.insert(shared.clone());
        self.tell(Command::Ports(Arc::new(self.ports.clone())));
        self.tell(Command::AddPort { shared, rx: vec![rx], tx });
        self.ends.push(end);
    }

    fn tell(&self, command: Command) {
        assert!(self.handle.send(command));
    }

    fn round(&mut self) {
        self.now_ns += 1000;
        self.worker.poll(self.now_ns);
        for sample in self.samples.try_iter() {
            let mut scratch = datapath::engine::Scratch::default();
            assert_eq!(validate::check(&sample, &mut scratch), Ok(()));
        }
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

    fn capture(&mut self, on: bool) {
        self.captured = on.then(|| {
            let filter = Filter { ingress: true, egress: true, ..Filter::default() };
            let (tap, captured) = capture::tap(filter);
            self.tell(Command::Capture(tap));
            captured
        });
    }

    /// What left each port since the last time.
    fn sent(&self) -> Vec<(u32, Vec<u8>, String)> {
        let mut sent = Vec::new();
        for (number, end) in (1..).zip(&self.ends) {
            end.take_into(usize::MAX, |frame| {
                let owed = format!("{:?}", frame.offload);
                sent.push((number, frame.data().to_vec(), owed));
            });
        }
        sent
    }

    /// What the control side was told since the last time.
    fn told(&self) -> Vec<String> {
        let next = || self.punts.try_recv();
        std::iter::from_fn(next).map(|message| format!("{message:?}")).collect()
    }

    /// Every counter of every port.
    fn counters(&self) -> Vec<String> {
        (1..=PORTS).map(|n| format!("{:?}", self.ports.get(n).unwrap().counters())).collect()
    }

    /// What was captured since the last time.
    fn seen(&self) -> Vec<String> {
        let Some(captured) = &self.captured else { return Vec::new() };
        let next = || captured.next(Duration::ZERO);
        std::iter::from_fn(next)
            .map(|mut record| {
                // Who tells of them is the interpreter, where that is asked.
                record.hits.clear();
                format!("{record:?}")
            })
            .collect()
    }
}

fn frame(rng: &mut Rng) -> Frame {
    let udp = copies::packet(rng);
    if rng.one_in(3) && udp.vlans.is_empty() {
        let (bytes, place) = udp.partial();
        let mut frame = Frame::copy_of(&bytes);
        frame.offload.csum = Csum::Partial { start: place.start, offset: place.offset };
        return frame;
    }
    let mut bytes = udp.frame();
    if rng.one_in(8) {
        bytes.truncate(14 + rng.below(40));
    }
    let mut frame = Frame::copy_of(&bytes);
    if rng.one_in(3) {
        frame.offload.csum = Csum::Valid;
    }
    frame
}

/// The same program, with punts, digests and state in place of some outputs.
fn telling(text: &str) -> String {
    let declared =
        "meta class: 8\ndigest told(mac: 48, class: 8)\nregister seen: 8, 4\ncounter hits: 4\n";
    let state =
        "class = read seen(std.in_port); write seen(std.in_port) = class + 1; count hits(2)";
    text.replace("meta class: 8\n", declared)
        .replace("output 3", "punt action(class)")
        .replace("output 5", "digest told(eth.dst, class)")
        .replace("output 7", state)
        .replace("output 8", "class = random(1, class)")
}

#[test]
fn copies_leave_as_the_interpreter_has_them() {
    let (mut all, mut captured, mut told) = (0, 0, 0);
    for seed in 0..16 {
        let mut random = Rng::new(seed);
        let mut text = copies::program(seed);
        if seed % 2 == 1 {
            text = telling(&text);
        }
        let pipeline = ir::text::pipeline(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let hows = [How::Interpreted, How::Compiled, How::Lent];
        let mut benches =
            hows.map(|how| Bench::new(how, &pipeline, if seed % 4 == 1 { 3000 } else { 1 << 40 }));
        let mut watched = false;
        for step in 0..60 {
            let number = 1 + random.below(PORTS as usize) as u32;
            let (on, what) = (random.one_in(3), random.below(12));
            for bench in &mut benches {
                match what {
                    0 => bench.ports.get(number).unwrap().set_flag(PortFlags::UP, !on),
                    1 => bench.ports.get(number).unwrap().set_flag(PortFlags::NO_FORWARD, on),
                    2 => bench.queues(number, on),
                    3 if on != watched => bench.capture(on),
                    _ => {}
                }
                (0..2).for_each(|_| bench.round());
            }
            if what == 3 {
                watched = on;
            }
            let from = random.below(copies::IN_PORTS as usize);
            // Frames that owe something are no driver's.
            let plain = random.one_in(2);
            for _ in 0..random.below(70) {
                let mut frame = frame(&mut random);
                if plain && !frame.offload.is_plain() {
                    frame.offload.csum = Csum::None;
                }
                for bench in &benches {
                    assert!(bench.ends[from].inject(frame.clone()).is_ok());
                }
            }
            benches.iter_mut().for_each(|bench| (0..6).for_each(|_| bench.round()));
            let what = || format!("seed {seed}, step {step}\n{text}");
            let [interpreted, compiled, borrowed] = &benches;
            let (right, is) = (interpreted.sent(), compiled.sent());
            assert_eq!(is, right, "compiled: {}", what());
            // The driver does not say what it knows of what it sends.
            let bytes = |sent: Vec<(u32, Vec<u8>, String)>| -> Vec<(u32, Vec<u8>)> {
                sent.into_iter().map(|(port, bytes, _)| (port, bytes)).collect()
            };
            all += right.len();
            assert_eq!(bytes(borrowed.sent()), bytes(right), "borrowed: {}", what());
            for other in [compiled, borrowed] {
                assert_eq!(other.counters(), interpreted.counters(), "{}", what());
            }
            let (right, is) = (interpreted.told(), compiled.told());
            told += right.len();
            assert_eq!((&is, &borrowed.told()), (&right, &right), "{}", what());
            let (right, is) = (interpreted.seen(), compiled.seen());
            captured += right.len();
            assert_eq!((&is, &borrowed.seen()), (&right, &right), "{}", what());
        }
        drop(benches);
    }
    assert_eq!(driver::LENT.load(Relaxed), 0);
    assert!(all > 30_000 && captured > 3_000 && told > 3_000, "{all} {captured} {told}");
}
