//! Workers by hand: rounds driven one by one on memory ports and a clock of the test's own; and on
//! threads, where sleeping, stopping and publication matter.

use datapath::engine::Scratch;
use datapath::ports::PortCounters;
use datapath::punt::{self, PuntReceiver};
use datapath::queues::{Queues, QueuesConfig, Setting};
use datapath::replica::InterpEngine;
use datapath::tally::{Ran, Tally};
use datapath::worker::{BURSTS_MAX, Handle, Injection, RETRY_NS};
use datapath::{
    Command, Engine, Forward, LaneConfig, Message, PortFlags, PortShared, PortTable, Publisher,
    Worker, WorkerConfig,
};
use interp::{Externs, Input, Sink};
use ir::program::intrinsic;
use ir::{Action, DropReason, Expr, FieldRef, Op, Param, Pipeline, Update, Verdict};
use port::{Burst, Drops, Frame, Pool, Port, RxError, RxQueue, TxQueue, memory};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::station::{FIRST, SECOND, call, frame, insert, modify, program};

/// Workers over one pipeline, with some ports.
struct Bench {
    pipeline: Pipeline,
    engine: InterpEngine,
    publisher: Arc<Publisher>,
    workers: Vec<Worker>,
    handles: Vec<Handle>,
    punts: PuntReceiver,
    ports: PortTable,
    control: Arc<PortShared>,
    now_ns: u64,
}

impl Bench {
    /// Rounds that take all the commands that wait, however long the machine takes for them.
    fn new(workers: usize, punt_rate: u64) -> Bench {
        Bench::taking(workers, punt_rate, Duration::MAX)
    }

    fn taking(workers: usize, punt_rate: u64, commands_time: Duration) -> Bench {
        let arena = Arc::new(state::counters::CounterArena::new(1 << 16));
        (0..1000).for_each(|_| assert!(arena.allocate().is_ok()));
        let (engine, first) = InterpEngine::new(program(), workers, arena.clone());
        let publisher = Arc::new(Publisher::new(first, workers));
        let (ring, punts) = punt::ring(punt_rate);
        let control = Arc::new(PortShared::new(0xffff_fffd, "control", 0, workers));
        let make = |index| {
            let config = WorkerConfig { index, cpu: None, commands_time, bursts_max: BURSTS_MAX };
            let (worker, handle) = Worker::new(config).unwrap();
            let lane = LaneConfig {
                services: Default::default(),
                publisher: publisher.clone(),
                ring: ring.clone(),
                counters: arena.worker(),
                control: control.clone(),
                sampler: None,
                seed: 1,
            };
            let (mut worker, handle) = (worker, handle.add(lane));
            // It takes the lane in.
            assert_eq!(worker.poll(0), 1);
            (worker, handle)
        };
        let (workers, handles) = (0..workers).map(make).unzip();
        let pipeline = Pipeline::new(program()).unwrap();
        let (ports, now_ns) = (PortTable::default(), 1);
        Bench { pipeline, engine, publisher, workers, handles, punts, ports, control, now_ns }
    }

    fn transact(&mut self, updates: &[Update]) {
        self.pipeline.transact(updates).unwrap();
        self.engine.apply(&self.pipeline, updates, self.now_ns);
        self.publisher.publish(self.engine.publish(&|| {}));
    }

    fn add(&mut self, number: u32, rx: Vec<Box<dyn RxQueue>>, tx: Vec<Box<dyn TxQueue>>) {
        let (name, workers) = (format!("p{number}"), self.handles.len());
        let shared = Arc::new(PortShared::new(number, &name, PortFlags::UP, workers));
        self.ports.insert(shared.clone());
        let mut rx = Some(rx);
        for (handle, tx) in self.handles.iter().zip(tx) {
            handle.send(Command::Ports(Arc::new(self.ports.clone())));
            let rx = rx.take().unwrap_or_default();
            handle.send(Command::AddPort { shared: shared.clone(), rx, tx });
        }
    }

    /// A memory port with room for so many frames, served by the first worker.
    fn port(&mut self, number: u32, capacity: usize) -> memory::Handle {
        let config = memory::Config { capacity, ..memory::Config::default() };
        let (mut port, far) = memory::port(&format!("p{number}"), config).unwrap();
        let rx = vec![port.rx_queue(0).unwrap()];
        let tx = self.handles.iter().map(|_| port.tx_queue().unwrap()).collect();
        self.add(number, rx, tx);
        far
    }

    fn round(&mut self) -> usize {
        self.now_ns += 1000;
        let now_ns = self.now_ns;
        self.workers.iter_mut().map(|w| w.poll(now_ns)).sum()
    }

    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round();
        }
    }

    fn counters(&self, number: u32) -> PortCounters {
        self.ports.get(number).unwrap().counters()
    }

    fn inject(&self, in_port: u32, bytes: Vec<u8>, ops: Vec<Op>) -> bool {
        let params = vec![Param { name: "port".to_string(), width: 32 }];
        let action = Arc::new(Action { name: "injected".to_string(), params, body: ops });
        let args = vec![ir::Bits::from_u128(2, 32)];
        self.handles[0].send(Command::Inject(Injection { in_port, bytes, action, args }))
    }
}

fn out() -> Vec<Op> {
    vec![Op::Output { port: Expr::Param(0) }]
}

fn taken(far: &memory::Handle) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    far.take_into(usize::MAX, |frame| frames.push(frame.data().to_vec()));
    frames
}

#[test]
fn every_frame_has_one_fate() {
    let mut bench = Bench::new(1, 0);
    let far: Vec<_> = (1..=6).map(|n| bench.port(n, 40)).collect();
    let fates = [
        (1, call("out", &[2])),
        (2, call("drop", &[])),
        (3, call("punt", &[])),
        (4, call("out", &[3])),
        (5, call("out", &[4])),
        (6, call("out", &[99])),
        (7, call("pass", &[])),
    ];
    let updates: Vec<_> =
        fates.iter().map(|(n, action)| insert(FIRST, *n, *n, action.clone())).collect();
    bench.transact(&updates);
    bench.ports.get(3).unwrap().set_flag(PortFlags::UP, false);
    bench.ports.get(4).unwrap().set_flag(PortFlags::NO_FORWARD, true);
    bench.ports.get(5).unwrap().set_flag(PortFlags::NO_RECEIVE, true);
    let mut sent = 0;
    for round in 0..70 {
        for station in 1..=9 {
            sent += u64::from(far[0].inject_bytes(&frame(station, round)));
            if round == 0 {
                assert!(far[4].inject_bytes(&frame(station, round)));
            }
        }
        bench.round();
    }
    while bench.round() > 0 {}
    let counters = bench.counters(1);
    assert_eq!((counters.rx_packets, counters.rx_bytes), (sent, sent * 64));
    let each = sent / 9;
    let of = |c: &PortCounters, word| c.drops.iter().find(|(w, _)| *w == word).map_or(0, |d| d.1);
    assert_eq!(of(&counters, "action_drop"), each);
    assert_eq!(of(&counters, "port_unknown"), each);
    // The station without entries, and the one whose action does nothing.
    assert_eq!(of(&counters, "table_miss") + of(&counters, "no_output"), 3 * each);
    // Rate 0 lets one burst of 64 pass.
    assert_eq!((counters.punted, of(&counters, "punt_rate_limit")), (64, each - 64));
    assert_eq!(of(&bench.counters(3), "port_down"), each);
    assert_eq!(of(&bench.counters(4), "port_no_fwd"), each);
    let out = bench.counters(2);
    assert_eq!((out.tx_packets, out.tx_bytes), (40, 40 * 64));
    assert_eq!((of(&out, "tx_ring_full"), out.tx_dropped), (each - 40, each - 40));
    assert_eq!(taken(&far[1]).len(), 40);
    let closed = bench.counters(5);
    assert_eq!((closed.rx_packets, closed.rx_dropped, of(&closed, "port_no_recv")), (9, 9, 9));
    let punts = std::iter::from_fn(|| bench.punts.try_recv()).count();
    assert_eq!(punts, 64);
    let all = (1..=6).map(|n| bench.counters(n));
    let ended = all.map(|c| c.tx_packets + c.punted + c.drops.iter().map(|d| d.1).sum::<u64>());
    assert_eq!(ended.sum::<u64>(), sent + 9);
}

#[test]
fn injected_packets_run_their_action_and_are_accounted() {
    let mut bench = Bench::new(1, 1000);
    let far = bench.port(2, 8);
    bench.transact(&[insert(FIRST, 1, 5, call("punt", &[]))]);
    let mark = bench.handles[0].sent();
    assert!(!bench.handles[0].has_obeyed(mark + 1));
    assert!(bench.inject(7, frame(5, 1), out()));
    assert!(bench.inject(7, frame(5, 2), vec![Op::Drop(DropReason::Action)]));
    let punt =
        Op::Punt { reason: ir::PuntReason::PacketOut, args: vec![Expr::meta(ir::MetaId(0))] };
    assert!(bench.inject(7, frame(5, 3), vec![punt]));
    assert_eq!(bench.handles[0].waiting(), 5);
    bench.round();
    assert!(bench.handles[0].has_obeyed(bench.handles[0].sent()));
    assert_eq!(taken(&far), [frame(5, 1)]);
    let Some(Message::Punt(punted)) = bench.punts.try_recv() else { panic!("it is there") };
    assert_eq!((punted.in_port, punted.args[0].low_u32(), punted.table), (7, 7, None));
    let control = bench.control.counters();
    assert_eq!((control.rx_packets, control.punted, control.drops.len()), (3, 1, 1));
    assert_eq!(control.drops[0], ("action_drop", 1));
}

#[test]
fn what_was_queued_on_a_port_leaves_before_the_port_goes() {
    let mut bench = Bench::new(1, 1000);
    let far = bench.port(2, 8);
    assert!(bench.inject(1, frame(1, 1), out()));
    bench.ports.remove(2);
    bench.handles[0].send(Command::RemovePort(2, None));
    bench.handles[0].send(Command::Ports(Arc::new(bench.ports.clone())));
    assert!(bench.inject(1, frame(1, 2), out()));
    bench.round();
    assert_eq!(taken(&far).len(), 1);
    assert_eq!(bench.control.counters().drops, [("port_unknown", 1)]);
    // Another port may have the number.
    let far = bench.port(2, 8);
    assert!(bench.inject(1, frame(1, 3), out()));
    bench.round();
    assert_eq!(taken(&far), [frame(1, 3)]);
}

#[test]
fn frames_wait_in_egress_queues_and_none_is_lost() {
    let mut config = QueuesConfig::default();
    for text in ["2,max=8M,burst=64", "2:1,priority=1", "2:0,priority=2,limit=12"] {
        config.set(Setting::parse(text).unwrap().of).unwrap();
    }
    let set = |bench: &Bench, config: Option<&QueuesConfig>| {
        let queues = config.map(|config| Arc::new(Queues::new(config.clone(), 1, 0)));
        bench.ports.get(2).unwrap().set_queues(queues.clone());
        bench.handles[0].send(Command::Queues { number: 2, queues: queues.clone() });
        queues
    };
    let send = |bench: &Bench, queue: u32, n: u32| {
        let queue = Op::Assign(FieldRef::Meta(intrinsic::QUEUE), Expr::int(queue.into(), 32));
        let ops = [vec![queue], out()].concat();
        let bytes = [frame(1, n), vec![0; 936]].concat();
        assert!(bench.inject(1, bytes, ops));
    };
    let mut bench = Bench::new(1, 1000);
    let far = bench.port(2, 1000);
    let queues = set(&bench, Some(&config)).unwrap();
    // A thousand bytes take a millisecond.
    for n in 0..15 {
        send(&bench, 0, n);
    }
    for n in 0..5 {
        send(&bench, 1, n);
    }
    bench.round();
    let shared = bench.ports.get(2).unwrap().clone();
    // Queue 0 held 12 of its frames. The first of all leaves when all have come, so it is queue 1's.
    assert_eq!(taken(&far).len(), 1);
    assert_eq!(bench.counters(2).drops, [("tx_queue_full", 3)]);
    let mut order = Vec::new();
    for _ in 0..10 {
        bench.now_ns += 1_000_000;
        bench.round();
        order.extend(taken(&far).iter().map(|bytes| bytes.len()));
    }
    let sent = |queues: &Queues| queues.counters().map(|(_, c)| c.tx_packets).collect::<Vec<_>>();
    assert_eq!((order.len(), sent(&queues)), (10, vec![6, 5]));
    assert_eq!(bench.counters(2).tx_packets, 11);
    // Other queues: what waits moves over; queue 1 is gone, so its frames are the default's.
    send(&bench, 1, 9);
    config = QueuesConfig::default();
    config.set(Setting::parse("2,max=80M,burst=64").unwrap().of).unwrap();
    let queues = set(&bench, Some(&config)).unwrap();
    bench.round();
    assert_eq!((taken(&far).len(), sent(&queues)), (1, vec![1]));
    // The port goes down and comes back: what waited is dropped, under its reason.
    shared.set_flag(PortFlags::UP, false);
    bench.now_ns += 1_000_000;
    bench.round();
    shared.set_flag(PortFlags::UP, true);
    let drops = |bench: &Bench| bench.counters(2).drops;
    assert_eq!(drops(&bench), [("port_down", 6), ("tx_queue_full", 3)]);
    // No queues: what waits leaves at once.
    (0..4).for_each(|n| send(&bench, 0, n));
    bench.round();
    assert_eq!(taken(&far).len(), 1);
    set(&bench, None);
    bench.round();
    assert_eq!(taken(&far).len(), 3);
    // The port is removed, and then another one with the worker: what waits is counted.
    set(&bench, Some(&config));
    (0..4).for_each(|n| send(&bench, 0, n));
    bench.round();
    bench.handles[0].send(Command::RemovePort(2, None));
    bench.round();
    assert_eq!(taken(&far).len(), 1);
    assert_eq!(drops(&bench), [("port_unknown", 3), ("port_down", 6), ("tx_queue_full", 3)]);
    let counters = bench.counters(2);
    let lost: u64 = counters.drops.iter().map(|drop| drop.1).sum();
    assert_eq!(counters.tx_packets + lost, bench.control.counters().rx_packets);
}

#[test]
fn a_stopped_worker_is_waited_for_by_nobody() {
    let mut bench = Bench::new(1, 1000);
    let far = bench.port(2, 8);
    assert!(bench.inject(1, frame(1, 1), out()));
    bench.handles[0].send(Command::Stop);
    assert!(bench.inject(1, frame(1, 2), out()));
    bench.round();
    assert_eq!(taken(&far).len(), 1);
    bench.transact(&[insert(FIRST, 1, 1, call("drop", &[]))]);
    assert!(bench.publisher.adopted_by_all(bench.publisher.version()));
    let mark = bench.handles[0].sent();
    bench.workers.clear();
    assert!(bench.handles[0].has_obeyed(mark));
    assert!(!bench.inject(1, frame(1, 3), out()));
    assert_eq!(bench.control.counters().drops, [("switch_stopped", 1)]);
    // The replica that the worker ran by is free.
    bench.transact(&[insert(FIRST, 2, 2, call("drop", &[]))]);
    bench.transact(&[insert(FIRST, 3, 3, call("drop", &[]))]);
}

/// What a [`Script`] answers, in order.
type Answers = Arc<Mutex<VecDeque<Result<Vec<u8>, RxError>>>>;

/// A receive queue that answers as it is told.
struct Script {
    answers: Answers,
    asked: Arc<AtomicUsize>,
    readable: Option<rustix::fd::OwnedFd>,
}

impl RxQueue for Script {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.answers.lock().unwrap().pop_front() {
            Some(Ok(bytes)) => Ok(usize::from(burst.push(pool.copy_of(&bytes)).is_ok())),
            Some(Err(error)) => Err(error),
            None if self.readable.is_some() => Err(RxError::Down),
            None => Ok(0),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        use rustix::fd::AsFd;
        self.readable.as_ref().map(|fd| fd.as_fd())
    }

    fn drops(&self) -> Drops {
        let mut drops = Drops::default();
        drops.add(port::DropReason::RxTruncated, self.asked.load(Ordering::Relaxed) as u64);
        drops
    }
}

#[test]
fn an_interface_that_comes_back_is_served_again() {
    let mut bench = Bench::new(1, 1000);
    let answers = Arc::new(Mutex::new(VecDeque::new()));
    let asked = Arc::new(AtomicUsize::new(0));
    let (mut port, _far) = memory::port("tx", memory::Config::default()).unwrap();
    let queue = Script { answers: answers.clone(), asked: asked.clone(), readable: None };
    let tx = port.tx_queue().unwrap();
    bench.add(1, vec![Box::new(queue)], vec![tx]);
    let io = std::io::Error::other("trouble");
    let mut received = 0;
    for error in [RxError::Down, RxError::Gone, RxError::Io(io)] {
        answers.lock().unwrap().extend([Ok(frame(1, 1)), Err(error)]);
        bench.rounds(2);
        received += 1;
        assert_eq!(bench.counters(1).rx_packets, received);
        // It is left alone for a while.
        answers.lock().unwrap().push_back(Ok(frame(1, 2)));
        let before = asked.load(Ordering::Relaxed);
        bench.rounds(10);
        assert_eq!(asked.load(Ordering::Relaxed), before);
        bench.now_ns += RETRY_NS;
        bench.round();
        received += 1;
        assert_eq!(bench.counters(1).rx_packets, received);
    }
    answers.lock().unwrap().extend([Err(RxError::Ended), Ok(frame(1, 3))]);
    bench.round();
    bench.now_ns += 10 * RETRY_NS;
    bench.round();
    assert_eq!(bench.counters(1).rx_packets, received);
    let counters = bench.counters(1);
    assert_eq!(
        counters.drops[..],
        [("table_miss", received), ("rx_truncated", asked.load(Ordering::Relaxed) as u64)]
    );
    assert_eq!(counters.rx_dropped, asked.load(Ordering::Relaxed) as u64);
}

#[test]
fn a_dead_interface_whose_descriptor_stays_readable_costs_no_processor() {
    let mut bench = Bench::new(1, 1000);
    let asked = Arc::new(AtomicUsize::new(0));
    let flags = rustix::event::EventfdFlags::NONBLOCK;
    let readable = Some(rustix::event::eventfd(1, flags).unwrap());
    let queue = Script { answers: Arc::default(), asked: asked.clone(), readable };
    let (mut port, _far) = memory::port("tx", memory::Config::default()).unwrap();
    let tx = port.tx_queue().unwrap();
    bench.add(1, vec![Box::new(queue)], vec![tx]);
    let worker = bench.workers.remove(0);
    let thread = std::thread::spawn(move || worker.run(Instant::now()));
    let begun = Instant::now();
    while asked.load(Ordering::Relaxed) == 0 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(200));
    bench.handles[0].send(Command::Stop);
    thread.join().unwrap();
    let (asked, ms) = (asked.load(Ordering::Relaxed), begun.elapsed().as_millis());
    assert!(asked >= 1 && asked as u128 <= ms / 10, "asked {asked} times in {ms} ms");
}

/// A queue of the worker's own, in which frames may come to be due while it sleeps: its descriptor tells.
struct Due {
    due: Arc<rustix::fd::OwnedFd>,
    given: Arc<AtomicUsize>,
}

impl Due {
    fn is_due(&self) -> bool {
        port::wait_readable(rustix::fd::AsFd::as_fd(&*self.due), Duration::ZERO)
    }
}

impl RxQueue for Due {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        rustix::io::read(&*self.due, &mut [0u8; 8]).unwrap();
        self.given.fetch_add(1, Ordering::Release);
        Ok(usize::from(burst.push(pool.copy_of(&frame(1, 1))).is_ok()))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(rustix::fd::AsFd::as_fd(&*self.due))
    }

    fn local(&self) -> Option<bool> {
        Some(self.is_due())
    }
}

#[test]
fn a_queue_of_the_workers_own_wakes_it_by_its_descriptor() {
    let mut bench = Bench::new(1, 1000);
    let flags = rustix::event::EventfdFlags::NONBLOCK;
    let due = Arc::new(rustix::event::eventfd(0, flags).unwrap());
    let given = Arc::new(AtomicUsize::new(0));
    let queue = Due { due: due.clone(), given: given.clone() };
    let (mut port, _far) = memory::port("tx", memory::Config::default()).unwrap();
    let tx = port.tx_queue().unwrap();
    bench.add(1, vec![Box::new(queue)], vec![tx]);
    let worker = bench.workers.remove(0);
    let thread = std::thread::spawn(move || worker.run(Instant::now()));
    for n in 1..=3 {
        // By then it sleeps, most likely; it must wake in any case.
        std::thread::sleep(Duration::from_millis(20));
        rustix::io::write(&*due, &1u64.to_ne_bytes()).unwrap();
        let begun = Instant::now();
        while given.load(Ordering::Acquire) < n {
            assert!(begun.elapsed() < Duration::from_secs(60), "{n}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    bench.handles[0].send(Command::Stop);
    thread.join().unwrap();
    assert_eq!(bench.counters(1).rx_packets, 3);
}

#[test]
fn a_worker_whose_handles_are_all_gone_ends() {
    let mut bench = Bench::new(1, 1000);
    let worker = bench.workers.remove(0);
    let thread = std::thread::spawn(move || worker.run(Instant::now()));
    std::thread::sleep(Duration::from_millis(5));
    let handle = bench.handles.remove(0);
    drop(handle);
    let waiting = Instant::now();
    while !thread.is_finished() && waiting.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(thread.is_finished());
}

/// An engine whose packets panic.
struct Panics(Arc<dyn Forward>);

impl Forward for Panics {
    fn version(&self) -> u64 {
        self.0.version() + 1000
    }
    fn state(&self) -> &Arc<datapath::program_state::ProgramState> {
        self.0.state()
    }
    fn tally(&self) -> &Tally {
        self.0.tally()
    }
    fn meter(&self, _: ir::MeterId) -> Option<&datapath::meter::LiveMeter> {
        None
    }
    fn run(&self, _: &mut Scratch, _: Input<'_>, _: &mut dyn Externs, _: &mut dyn Sink) -> Verdict {
        std::panic::resume_unwind(Box::new("a broken invariant"))
    }
    fn trace(
        &self,
        _: &mut Scratch,
        _: Input<'_>,
        _: &mut dyn Externs,
        _: &mut dyn Sink,
    ) -> (Verdict, interp::Trace) {
        unreachable!("nobody traces")
    }
}

#[test]
fn a_worker_that_panics_holds_nobody_up() {
    let mut bench = Bench::new(1, 1000);
    let far = bench.port(1, 8);
    bench.transact(&[insert(FIRST, 1, 1, call("drop", &[]))]);
    let panics = Panics(bench.publisher.snapshot());
    bench.publisher.publish(Arc::new(panics));
    let worker = bench.workers.remove(0);
    let thread = std::thread::spawn(move || worker.run(Instant::now()));
    assert!(far.inject_bytes(&frame(1, 1)));
    assert!(thread.join().is_err());
    assert!(bench.publisher.adopted_by_all(u64::MAX));
    assert!(bench.handles[0].has_obeyed(u64::MAX));
    assert!(!bench.handles[0].send(Command::Stop));
    bench.publisher.publish(bench.engine.publish(&|| {}));
    (2..6).for_each(|n| bench.transact(&[insert(FIRST, n, n, call("drop", &[]))]));
}

/// An engine that says of frames for odd stations that code for one packet has run them.
struct Says(Arc<dyn Forward>);

impl Forward for Says {
    fn version(&self) -> u64 {
        self.0.version() + 1000
    }
    fn state(&self) -> &Arc<datapath::program_state::ProgramState> {
        self.0.state()
    }
    fn tally(&self) -> &Tally {
        self.0.tally()
    }
    fn meter(&self, meter: ir::MeterId) -> Option<&datapath::meter::LiveMeter> {
        self.0.meter(meter)
    }
    fn run(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> Verdict {
        if input.bytes[5] % 2 == 1 {
            scratch.ran = Ran::Whole;
            scratch.reason = Some(self.0.tally().reason("it is odd"));
        }
        self.0.run(scratch, input, externs, sink)
    }
    fn trace(
        &self,
        _: &mut Scratch,
        _: Input<'_>,
        _: &mut dyn Externs,
        _: &mut dyn Sink,
    ) -> (Verdict, interp::Trace) {
        unreachable!("nobody traces")
    }
}

#[test]
fn packets_are_counted_by_what_the_version_says_has_run_them() {
    let mut bench = Bench::new(1, 1000);
    let far = bench.port(1, 64);
    bench.transact(&[insert(FIRST, 1, 1, call("drop", &[]))]);
    bench.publisher.publish(Arc::new(Says(bench.publisher.snapshot())));
    (0..30).for_each(|n| assert!(far.inject_bytes(&frame(n % 3, n))));
    assert!(bench.inject(1, frame(1, 1), out()) && bench.inject(1, frame(2, 1), out()));
    bench.rounds(5);
    let counted = bench.publisher.snapshot().tally().counted();
    let told = |ran| -> Vec<(String, u64)> {
        let (_, reasons) = counted.of(ran);
        reasons.iter().map(|(text, n)| (text.to_string(), *n)).collect()
    };
    assert_eq!((counted.code, counted.packets()), (0, 32));
    assert_eq!(told(Ran::Whole), [("it is odd".to_owned(), 11)]);
    let injected = ("a packet of the control side's".to_owned(), 1);
    assert_eq!(
        told(Ran::Interpreter),
        [("the engine is the interpreter".to_owned(), 20), injected]
    );
}

/// Two tables change in every transaction; a packet that met the old entry of one and the new entry
/// of the other would be dropped as `checksum_bad`.
#[test]
fn a_burst_never_mixes_versions() {
    const WORKERS: usize = 2;
    const TRANSACTIONS: u32 = 100_000;
    let mut bench = Bench::new(WORKERS, 1000);
    let far = bench.port(1, 256);
    let mut sinks = Vec::new();
    for handle in &bench.handles[1..] {
        // A queue for the second worker, too.
        let (mut port, far) = memory::port("more", memory::Config::default()).unwrap();
        let shared = bench.ports.get(1).unwrap().clone();
        let rx = vec![port.rx_queue(0).unwrap()];
        handle.send(Command::AddPort { shared, rx, tx: port.tx_queue().unwrap() });
        sinks.push(far);
    }
    let entries = |m: u32| [call("mark", &[m]), call("same", &[m, 1])];
    let [first, second] = entries(0);
    bench.transact(&[insert(FIRST, 1, 5, first), insert(SECOND, 2, 5, second)]);
    let epoch = Instant::now();
    let threads: Vec<_> = bench
        .workers
        .drain(..)
        .map(|worker| std::thread::spawn(move || worker.run(epoch)))
        .collect();
    let done = Arc::new(AtomicUsize::new(0));
    let traffic = {
        let (done, ends) = (done.clone(), [vec![far], sinks].concat());
        std::thread::spawn(move || {
            while done.load(Ordering::Relaxed) == 0 {
                for far in &ends {
                    (0..64).for_each(|_| drop(far.inject(Frame::copy_of(&frame(5, 0)))));
                    far.take_into(usize::MAX, drop);
                }
                std::thread::yield_now();
            }
        })
    };
    let begin = Instant::now();
    for m in 1..=TRANSACTIONS {
        let [first, second] = entries(m & 0xffff);
        bench.transact(&[modify(FIRST, 1, 5, first), modify(SECOND, 2, 5, second)]);
        if m % 64 == 0 {
            let version = bench.publisher.version();
            while !bench.publisher.adopted_by_all(version) {
                bench.handles.iter().for_each(Handle::wake);
                std::thread::yield_now();
            }
        }
    }
    let took = begin.elapsed();
    done.store(1, Ordering::Relaxed);
    traffic.join().unwrap();
    bench.handles.iter().for_each(|h| assert!(h.send(Command::Stop)));
    threads.into_iter().for_each(|t| t.join().unwrap());
    let counters = bench.counters(1);
    println!("{TRANSACTIONS} versions, {} frames in {took:?}", counters.rx_packets);
    assert!(counters.rx_packets > 1000);
    let bad = counters.drops.iter().find(|(word, _)| *word == "checksum_bad");
    assert_eq!(bad, None, "of {} frames", counters.rx_packets);
}

/// Packets of the control side run for as long as their actions do; what comes in by ports does not
/// wait for all of them.
#[test]
fn packets_of_the_control_side_leave_time_for_those_of_ports() {
    let mut bench = Bench::taking(1, 0, Duration::ZERO);
    let far: Vec<_> = (1..=2).map(|n| bench.port(n, 4096)).collect();
    bench.transact(&[insert(FIRST, 1, 1, call("out", &[2]))]);
    while bench.round() > 0 {}
    let long: Vec<Op> = (0..5000).flat_map(|_| out()).collect();
    for _ in 0..100 {
        assert!(bench.inject(7, vec![0; 1000], long.clone()));
    }
    assert!(far[0].inject_bytes(&frame(1, 0)));
    assert_eq!(bench.round(), 2, "one of them, since it took longer than it may");
    assert_eq!(bench.counters(1).rx_packets, 1, "and the frame that came in");
    while bench.round() > 0 {
        taken(&far[1]);
    }
    assert_eq!(bench.control.counters().rx_packets, 100, "in the end all are done");
}
