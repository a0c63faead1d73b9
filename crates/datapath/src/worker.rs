//! The burst loop: receive, run, transmit; sleep when all is silent.
//!
//! A [`Worker`] owns its receive queues, one transmit queue per port, its buffers and its counters.
//! [`Worker::poll`] is one round: take commands, adopt the current version, then for each receive
//! queue one burst, run to completion, and flush what was queued. [`Worker::run`] repeats it on a
//! thread of its own and sleeps on the queues' descriptors once nothing has come for
//! [`SPIN_NS`]; a waker ends the sleep.
//!
//! Tests and simulations call `poll` themselves, with a clock of their own.

use crate::engine::{Forward, Scratch};
use crate::ports::{PortFlags, PortShared, PortTable};
use crate::publish::Publisher;
use crate::punt::PuntRing;
use crate::sink::{Collector, Notes, Outgoing};
use crossbeam_channel::{Receiver, Sender};
use hashbrown::HashMap;
use interp::{Color, Externs, Input, Start};
use ir::{Action, Bits, DropReason, Verdict};
use port::prng::Prng;
use port::{Burst, Drops, Frame, Pool, RxError, RxQueue, TxQueue};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use state::counters::WorkerCounters;
use std::sync::Arc;
use std::time::Instant;

/// A worker that has received nothing for so long sleeps, in nanoseconds.
pub const SPIN_NS: u64 = 50_000;
/// Longest sleep while a queue without a descriptor must be polled.
const POLL_INTERVAL_MS: i64 = 1;

/// What the control side tells a worker. Taken between bursts.
pub enum Command {
    /// A port, with the receive queues that this worker serves and its transmit queue.
    AddPort {
        /// Flags and counters.
        shared: Arc<PortShared>,
        /// Receive queues, perhaps none.
        rx: Vec<Box<dyn RxQueue>>,
        /// The transmit queue.
        tx: Box<dyn TxQueue>,
    },
    /// A port is gone; its queues are dropped.
    RemovePort(u32),
    /// The ports by number have changed.
    Ports(Arc<PortTable>),
    /// A packet from the control side.
    Inject(Injection),
    /// The worker ends.
    Stop,
}

/// A packet from the control side, with what is to be done with it.
pub struct Injection {
    /// The port it claims to have come in by.
    pub in_port: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Run on it after the parser.
    pub action: Arc<Action>,
    /// The action's arguments.
    pub args: Vec<Bits>,
}

/// Wakes a worker that sleeps.
#[derive(Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    fn new() -> std::io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Waker(Arc::new(fd)))
    }

    /// Ends the worker's sleep, or the next one.
    pub fn wake(&self) {
        // Full only after 2^64-1 wake-ups that nobody took: then it is readable all the same.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        // Empty is what we want.
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }
}

/// What a worker is made of.
pub struct WorkerConfig {
    /// Its number, from 0.
    pub index: usize,
    /// The processor it is pinned to.
    pub cpu: Option<usize>,
    /// Where versions are published.
    pub publisher: Arc<Publisher>,
    /// Where punts go.
    pub ring: PuntRing,
    /// Its share of the entries', groups' and meters' counters.
    pub counters: WorkerCounters,
    /// Seed of its random numbers.
    pub seed: u64,
}

/// The control side's handle of a worker.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Command>,
    waker: Waker,
}

impl Handle {
    /// Tells the worker; it obeys at its next round. False if it has stopped.
    pub fn tell(&self, command: Command) -> bool {
        let sent = self.sender.send(command).is_ok();
        self.waker.wake();
        sent
    }

    /// Wakes the worker, so that it adopts what was published.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

struct Rx {
    shared: Arc<PortShared>,
    queue: Box<dyn RxQueue>,
    drops: Drops,
    ended: bool,
}

struct Tx {
    shared: Arc<PortShared>,
    queue: Box<dyn TxQueue>,
    dirty: bool,
}

/// A worker.
pub struct Worker {
    index: usize,
    cpu: Option<usize>,
    commands: Receiver<Command>,
    waker: Waker,
    publisher: Arc<Publisher>,
    forward: Arc<dyn Forward>,
    scratch: Scratch,
    ring: PuntRing,
    counters: WorkerCounters,
    random: Prng,
    ports: Arc<PortTable>,
    rx: Vec<Rx>,
    tx: HashMap<u32, Tx>,
    burst: Burst,
    pool: Pool,
    notes: Notes,
    stopped: bool,
}

impl Worker {
    /// A worker without ports, and its handle. It counts as running from now on.
    pub fn new(config: WorkerConfig) -> std::io::Result<(Worker, Handle)> {
        let (sender, commands) = crossbeam_channel::unbounded();
        let waker = Waker::new()?;
        let worker = Worker {
            index: config.index,
            cpu: config.cpu,
            commands,
            waker: waker.clone(),
            forward: config.publisher.start(config.index),
            publisher: config.publisher,
            scratch: Scratch::default(),
            ring: config.ring,
            counters: config.counters,
            random: Prng::new(config.seed),
            ports: Arc::new(PortTable::default()),
            rx: Vec::new(),
            tx: HashMap::new(),
            burst: Burst::new(),
            pool: Pool::new(),
            notes: Notes::default(),
            stopped: false,
        };
        Ok((worker, Handle { sender, waker }))
    }

    /// Rounds until told to stop. `epoch` is the zero of the switch's clock.
    pub fn run(mut self, epoch: Instant) {
        if let Some(cpu) = self.cpu {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu);
            if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
                tracing::warn!(worker = self.index, cpu, %error, "cannot pin worker");
            }
        }
        let now = || u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut last_work = now();
        while !self.stopped {
            let time = now();
            if self.poll(time) > 0 {
                last_work = time;
            } else if time.saturating_sub(last_work) > SPIN_NS {
                self.sleep();
                last_work = now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// One round. Returns how many frames and commands it took.
    pub fn poll(&mut self, now_ns: u64) -> usize {
        let mut work = 0;
        if self.publisher.version() != self.forward.version() {
            self.publisher.adopt(self.index, &mut self.forward);
        }
        while let Ok(command) = self.commands.try_recv() {
            work += 1;
            self.obey(command, now_ns);
            if self.stopped {
                return work;
            }
        }
        for i in 0..self.rx.len() {
            work += self.receive(i, now_ns);
        }
        if work > 0 {
            self.flush();
        }
        work
    }

    fn obey(&mut self, command: Command, now_ns: u64) {
        match command {
            Command::AddPort { shared, rx, tx } => {
                let rx = rx.into_iter().map(|queue| Rx {
                    shared: shared.clone(),
                    drops: Drops::default(),
                    queue,
                    ended: false,
                });
                self.rx.extend(rx);
                self.tx.insert(shared.number, Tx { queue: tx, dirty: false, shared });
            }
            Command::RemovePort(number) => {
                self.rx.retain(|rx| rx.shared.number != number);
                self.tx.remove(&number);
            }
            Command::Ports(ports) => self.ports = ports,
            Command::Inject(injection) => {
                // A packet-out must be forwarded by what its sender programmed before it.
                if self.publisher.version() != self.forward.version() {
                    self.publisher.adopt(self.index, &mut self.forward);
                }
                let mut frame = self.pool.copy_of(&injection.bytes);
                frame.rx_port = injection.in_port;
                let start = Start::Action(&injection.action, &injection.args);
                self.process(frame, None, start, now_ns);
            }
            Command::Stop => {
                self.flush();
                self.publisher.stop(self.index);
                self.stopped = true;
            }
        }
    }

    fn receive(&mut self, i: usize, now_ns: u64) -> usize {
        let rx = &mut self.rx[i];
        if rx.ended {
            return 0;
        }
        let mut burst = std::mem::take(&mut self.burst);
        match rx.queue.rx(&mut burst, &mut self.pool) {
            Ok(_) => {}
            Err(RxError::Ended) => rx.ended = true,
            Err(error) => {
                tracing::warn!(port = %rx.shared.name, %error, "receive queue closed");
                rx.ended = true;
            }
        }
        let drops = rx.queue.drops();
        let shared = rx.shared.clone();
        let cell = shared.cell(self.index);
        cell.set_rx_drops(&rx.drops, &drops);
        rx.drops = drops;
        let n = burst.len();
        if n > 0 {
            let bytes: usize = burst.frames().iter().map(Frame::len).sum();
            cell.count_rx(n as u64, bytes as u64);
            let closed = shared.flags().has(PortFlags::NO_RECEIVE);
            for mut frame in burst.drain() {
                if closed {
                    cell.count_drop(DropReason::PortNoReceive, 1);
                    self.pool.give(frame);
                    continue;
                }
                frame.rx_port = shared.number;
                self.process(frame, Some(&shared), Start::Pipeline, now_ns);
            }
        }
        self.burst = burst;
        n
    }

    fn process(&mut self, frame: Frame, from: Option<&PortShared>, start: Start<'_>, now_ns: u64) {
        let cell = from.map(|p| p.cell(self.index));
        let mut collector = Collector {
            notes: &mut self.notes,
            input: frame.data(),
            in_port: frame.rx_port,
            csum: frame.offload.csum,
            now_ns,
            ring: &self.ring,
            punted: 0,
            refused: Default::default(),
        };
        let mut externs = WorkerExterns {
            worker: self.index,
            forward: &*self.forward,
            counters: &self.counters,
            ports: &self.ports,
            random: &mut self.random,
            now_ns,
        };
        let input = Input { bytes: frame.data(), in_port: frame.rx_port, now_ns, start };
        let verdict = self.forward.run(&mut self.scratch, input, &mut externs, &mut collector);
        if let Some(cell) = cell {
            for reason in &collector.refused {
                cell.count_drop(*reason, 1);
            }
            (0..collector.punted).for_each(|_| cell.count_punt());
            if let Verdict::Drop(reason) = verdict {
                cell.count_drop(reason, 1);
            }
        }
        let (index, ports, tx) = (self.index, &self.ports, &mut self.tx);
        let drop = |port: u32, reason: DropReason| match (ports.get(port), cell) {
            (Some(to), _) => to.cell(index).count_drop(reason, 1),
            (None, Some(cell)) => cell.count_drop(reason, 1),
            (None, None) => tracing::debug!(port, %reason, "packet-out dropped"),
        };
        let out = |outgoing: Outgoing, pool: &mut Pool| match tx.get_mut(&outgoing.port) {
            Some(tx) => {
                tx.dirty = true;
                if let Err(reason) = tx.queue.tx_owned(outgoing.frame, pool) {
                    tx.shared.cell(index).count_port_drop(reason, 1);
                }
            }
            None => {
                drop(outgoing.port, DropReason::PortUnknown);
                pool.give(outgoing.frame);
            }
        };
        self.notes.finish(frame, &mut self.pool, ports, drop, out);
    }

    fn flush(&mut self) {
        for tx in self.tx.values_mut().filter(|tx| tx.dirty) {
            let report = tx.queue.flush();
            let cell = tx.shared.cell(self.index);
            cell.count_tx(report.sent, report.sent_bytes);
            for (reason, n) in report.drops.iter().filter(|(_, n)| *n > 0) {
                cell.count_port_drop(reason, n);
            }
            tx.dirty = false;
        }
    }

    /// Sleeps until a frame, a command or a new version is there.
    fn sleep(&mut self) {
        let mut timeout = None;
        let mut fds = Vec::with_capacity(self.rx.len() + 1);
        fds.push(PollFd::new(&*self.waker.0, PollFlags::IN));
        for rx in self.rx.iter().filter(|rx| !rx.ended) {
            match rx.queue.fd() {
                Some(fd) => fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN)),
                None => timeout = Some(POLL_INTERVAL_MS),
            }
        }
        let timeout = timeout.map(|ms| rustix::event::Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(worker = self.index, %error, "poll failed");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        self.waker.clear();
    }
}

/// The state that a worker's packets reach, for the duration of one packet.
struct WorkerExterns<'a> {
    worker: usize,
    forward: &'a dyn Forward,
    counters: &'a WorkerCounters,
    ports: &'a PortTable,
    random: &'a mut Prng,
    now_ns: u64,
}

impl Externs for WorkerExterns<'_> {
    fn port_live(&self, port: u32) -> bool {
        self.ports.is_live(port)
    }

    fn count_table(&mut self, table: ir::TableId, hit: bool) {
        self.forward.state().count_table(self.worker, table, hit);
    }

    fn count_entry(&mut self, _table: ir::TableId, entry: ir::EntryId, bytes: u32) {
        self.counters.add(entry.0, 1, u64::from(bytes), self.now_ns);
    }

    fn count(&mut self, counter: ir::CounterId, bytes: u32) {
        self.counters.add(counter.0, 1, u64::from(bytes), self.now_ns);
    }

    fn count_indirect(&mut self, array: u32, index: u32, bytes: u32) {
        self.forward.state().count_array(self.worker, array, index, bytes);
    }

    fn meter(&mut self, meter: ir::MeterId, bytes: u32) -> Color {
        match self.forward.meter(meter) {
            Some(meter) => meter.measure(self.counters, bytes, self.now_ns),
            None => Color { color: 0, level: 0 },
        }
    }

    fn register_read(&mut self, register: ir::RegisterId, index: u32) -> Option<Bits> {
        self.forward.state().read_register(register, index)
    }

    fn register_write(&mut self, register: ir::RegisterId, index: u32, value: Bits) {
        self.forward.state().write_register(register, index, &value);
    }

    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        random_between(self.random, lo, hi)
    }
}

/// A random value between two others, both included; `lo` if there is none.
fn random_between(random: &mut Prng, lo: &Bits, hi: &Bits) -> Bits {
    if hi.compare(lo).is_lt() {
        return lo.clone();
    }
    let width = lo.width();
    let bytes: Vec<u8> = (0..width.div_ceil(8)).map(|_| random.below(256) as u8).collect();
    let any = Bits::from_be_bytes(&bytes, width);
    match (lo.to_u128(), hi.to_u128(), any.to_u128()) {
        (Some(lo), Some(hi), Some(any)) => {
            let span = hi - lo;
            let offset = if span == u128::MAX { any } else { any % (span + 1) };
            Bits::from_u128(lo + offset, width)
        }
        // Wider than 128 bits: the high bits decide, so clamping hardly ever happens.
        _ if any.compare(lo).is_lt() => lo.clone(),
        _ if any.compare(hi).is_gt() => hi.clone(),
        _ => any,
    }
}
