//! The burst loop: receive, run, transmit; sleep when all is silent.
//!
//! A [`Worker`] owns its receive queues, one transmit queue per port, its buffers and its counters.
//! [`Worker::poll`] is one round: take commands, adopt the current version, then for each receive
//! queue one burst, run to completion, and flush what was queued. [`Worker::run`] repeats it on a
//! thread of its own and sleeps on the queues' descriptors once nothing has come for
//! [`SPIN_NS`]; a waker ends the sleep. Queues without a descriptor (DPDK's) are asked again every
//! [`POLL_INTERVAL_NS`] meanwhile; [`Command::Poll`] forbids sleep altogether. While some queues have
//! frames, those that have been silent for a while are asked in one of [`SILENT_EVERY`] rounds.
//!
//! Invariants: every frame received or injected ends as sent, punted, or counted under a reason; a
//! queue whose interface is down or gone is asked again after [`RETRY_NS`], so that an interface
//! which comes back is served again; a round takes a bounded number of commands, so that neither
//! the control side nor traffic can starve the other.
//! Checked by: `tests/worker.rs`; whole switches by the tests of `switch`.
//!
//! Tests and simulations call `poll` themselves, with a clock of their own.

mod left;

use self::left::{Left, Received, Waiting};
use crate::capture::{Before, Fate, Tap, Watch};
use crate::engine::Scratch;
use crate::lane::Counts;
use crate::lines::{Line, Lines};
use crate::ports::{PortFlags, PortShared, PortTable};
use crate::publish::{Held, Publisher};
use crate::punt::PuntRing;
use crate::queues::{Queues, Shaper};
use crate::services::{Begins, Kept, Services};
use crate::sink::{Collector, Notes, Outgoing, edit};
use crate::tally::Reason;
use crate::telling::{hold_back, tell};
use crate::validate::{Done, Sampler, spelt};
use abi::{Outcome, Output};
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use ir::{Action, Bits, DropReason, Verdict};
use jit::Said;
use port::burst::BURST_MAX;
use port::prng::Prng;
use port::{Batch, Burst, Csum, Drops, Frame, Loans, Mark, Pool, RxError, RxQueue, TxQueue};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use smallvec::SmallVec;
use state::counters::WorkerCounters;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A worker that has received nothing for so long sleeps, in nanoseconds.
pub const SPIN_NS: u64 = 50_000;
/// A receive queue that is down, gone or in trouble is asked again after so long, in nanoseconds.
pub const RETRY_NS: u64 = 20_000_000;
/// Longest sleep while a queue without a descriptor must be polled, in nanoseconds: what comes first
/// after a silence waits so long.
pub const POLL_INTERVAL_NS: u64 = 40_000;
/// How much later than asked for the kernel may end such a sleep, in nanoseconds; by default 50,000.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1_000).unwrap();
/// In so many rounds, every receive queue is asked once what it lost.
const DROPS_EVERY: u64 = 64;
/// A queue that had nothing so many times in a row is silent.
const SILENT: u8 = 16;
/// While others have work, a silent queue is asked in one of so many rounds: to ask nine queues for nothing costs
/// what a few packets cost.
const SILENT_EVERY: u64 = 2;
/// Commands taken in one round, at most.
const COMMANDS_MAX: usize = 256;
/// A switch's [`WorkerConfig::bursts_max`].
pub const BURSTS_MAX: usize = 4;
/// A switch's [`WorkerConfig::commands_time`].
pub const COMMANDS_TIME: Duration = Duration::from_micros(100);

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
    /// A port is gone. Its queues go to whoever waits for them: to close one may take the kernel longer than a worker should
    /// be away from the others. If nobody does, they are closed here.
    RemovePort(u32, Option<Sender<Removed>>),
    /// A port has other egress queues, or none any more.
    Queues {
        /// Which port.
        number: u32,
        /// What it has now.
        queues: Option<Arc<Queues>>,
    },
    /// The ports by number have changed.
    Ports(Arc<PortTable>),
    /// A packet from the control side.
    Inject(Injection),
    /// Somebody looks at frames, until that is over.
    Capture(Arc<Tap>),
    /// Never sleep (true), or when all is silent.
    Poll(bool),
    /// Receive, or leave what comes in the ports.
    Receive(bool),
    /// Nothing: that it was obeyed tells that the worker does not stand still.
    Answer,
    /// The worker ends.
    Stop,
}

/// The queues of a port that a worker no longer has.
pub struct Removed {
    /// Receive queues that it served.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// The transmit queue.
    pub tx: Option<Box<dyn TxQueue>>,
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
    /// Stands for the control side as a port: counts the packets it injects, and what becomes of
    /// those that do not leave.
    pub control: Arc<PortShared>,
    /// Takes samples of what compiled code does.
    pub sampler: Option<Sampler>,
    /// What programs call by name.
    pub services: Services,
    /// Seed of its random numbers.
    pub seed: u64,
    /// No further command is taken in a round once they took so long: what comes in by ports does not wait for the
    /// control side's packets, each of which may run for as long as its actions do. This is time by the machine's
    /// clock, unlike what [`Worker::poll`] is given: whoever drives rounds by hand and wants them to be the same each
    /// time says [`Duration::MAX`].
    pub commands_time: Duration,
    /// Bursts that a queue gives in one round, at most: one, and more as long as each is full and all its frames are forwarded
    /// or dropped as they lie. That takes little time, and what a round costs beside its packets is shared by all of them.
    pub bursts_max: usize,
}

/// How far a worker is with what it was told.
#[derive(Default)]
struct Progress {
    /// Commands that were told, or are about to be.
    told: AtomicU64,
    /// Commands obeyed, with all that they sent flushed.
    obeyed: AtomicU64,
    /// The worker is no more.
    ended: AtomicBool,
    /// A handle has gone since the worker last looked whether any is left.
    left: AtomicBool,
}

/// The control side's handle of a worker.
#[derive(Clone)]
pub struct Handle {
    /// Taken only by `drop`.
    sender: Option<Sender<Command>>,
    waker: Waker,
    progress: Arc<Progress>,
}

impl Handle {
    /// Tells the worker; it obeys at its next round. False if it has stopped.
    pub fn tell(&self, command: Command) -> bool {
        self.progress.told.fetch_add(1, Ordering::Relaxed);
        let sent = self.sender.as_ref().is_some_and(|s| s.send(command).is_ok());
        self.waker.wake();
        sent
    }

    /// How many commands were told so far; a mark for [`has_obeyed`](Self::has_obeyed).
    pub fn told(&self) -> u64 {
        self.progress.told.load(Ordering::Relaxed)
    }

    /// The worker has obeyed all that was told before the mark was taken, and what these commands
    /// sent has left; or it has ended.
    pub fn has_obeyed(&self, mark: u64) -> bool {
        self.progress.ended.load(Ordering::Acquire)
            || self.progress.obeyed.load(Ordering::Acquire) >= mark
    }

    /// How many commands were obeyed so far.
    pub fn obeyed(&self) -> u64 {
        self.progress.obeyed.load(Ordering::Relaxed)
    }

    /// Commands that wait to be obeyed.
    pub fn waiting(&self) -> u64 {
        if self.progress.ended.load(Ordering::Acquire) {
            return 0;
        }
        self.told().saturating_sub(self.progress.obeyed.load(Ordering::Relaxed))
    }

    /// Wakes the worker, so that it adopts what was published.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

/// A worker ends with its last handle: it is woken to notice.
impl Drop for Handle {
    fn drop(&mut self) {
        self.sender = None;
        self.progress.left.store(true, Ordering::Release);
        self.waker.wake();
    }
}

struct Rx {
    shared: Arc<PortShared>,
    queue: Box<dyn RxQueue>,
    drops: Drops,
    state: RxState,
    /// How often in a row it had nothing.
    silent: u8,
}

impl Rx {
    /// Counts what the queue lost since the last time.
    fn count_drops(&mut self, worker: usize) {
        let drops = self.queue.drops();
        if drops != self.drops {
            self.shared.cell(worker).set_rx_drops(&self.drops, &drops);
            self.drops = drops;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RxState {
    /// Frames may come.
    Open,
    /// In trouble: not to be asked before this time.
    Retry(u64),
    /// No frame will ever come.
    Ended,
}

/// A worker.
pub struct Worker {
    index: usize,
    cpu: Option<usize>,
    commands: Receiver<Command>,
    waker: Waker,
    publisher: Arc<Publisher>,
    /// The version it runs by; none while it sleeps.
    held: Option<Held>,
    /// Frames that have waited for another, and go on behind it.
    ready: VecDeque<Kept>,
    scratch: Scratch,
    ring: PuntRing,
    counters: WorkerCounters,
    random: Prng,
    services: Services,
    ports: Arc<PortTable>,
    rx: Vec<Rx>,
    tx: Lines,
    /// When frames that wait in egress queues may go; never, if none wait.
    due_ns: u64,
    burst: Burst,
    /// What came in buffers of a driver's own.
    loans: Loans,
    pool: Pool,
    notes: Notes,
    /// What was noted of those that have run already.
    left: Left,
    outcomes: Vec<Outcome>,
    sampler: Option<Sampler>,
    control: Arc<PortShared>,
    watch: Watch,
    /// What becomes of the frame at hand, if somebody looks.
    fate: Fate,
    progress: Arc<Progress>,
    /// Commands taken so far.
    taken: u64,
    /// Rounds made.
    rounds: u64,
    /// The last round had frames.
    busy: bool,
    /// The last burst was forwarded or dropped as it lay, all by compiled code.
    swift: bool,
    /// It never sleeps.
    polls: bool,
    /// It takes what comes in by its queues.
    receives: bool,
    commands_time: Duration,
    bursts_max: usize,
    stopped: bool,
}

impl Worker {
    /// A worker without ports, and its handle. It counts as running from now on.
    pub fn new(config: WorkerConfig) -> std::io::Result<(Worker, Handle)> {
        let (sender, commands) = crossbeam_channel::unbounded();
        let waker = Waker::new()?;
        let progress = Arc::new(Progress::default());
        let worker = Worker {
            index: config.index,
            cpu: config.cpu,
            commands,
            waker: waker.clone(),
            held: Some(config.publisher.start(config.index)),
            ready: VecDeque::new(),
            publisher: config.publisher,
            scratch: Scratch::default(),
            ring: config.ring,
            counters: config.counters,
            random: Prng::new(config.seed),
            services: config.services,
            ports: Arc::new(PortTable::default()),
            rx: Vec::new(),
            tx: Lines::default(),
            due_ns: u64::MAX,
            burst: Burst::new(),
            loans: Loans::new(),
            pool: Pool::new(),
            notes: Notes::default(),
            left: Left::default(),
            outcomes: Vec::with_capacity(BURST_MAX),
            sampler: config.sampler,
            control: config.control,
            watch: Watch::default(),
            fate: Fate::default(),
            progress: progress.clone(),
            taken: 0,
            rounds: 0,
            busy: false,
            swift: false,
            polls: false,
            receives: true,
            commands_time: config.commands_time,
            bursts_max: config.bursts_max,
            stopped: false,
        };
        Ok((worker, Handle { sender: Some(sender), waker, progress }))
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
        if let Err(error) = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS)) {
            tracing::debug!(worker = self.index, %error, "sleeps are coarse");
        }
        let now = || u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut last_work = now();
        while !self.stopped {
            let time = now();
            if self.poll(time) > 0 {
                last_work = time;
            } else if !self.polls && time.saturating_sub(last_work) > SPIN_NS {
                self.sleep(time);
                last_work = now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// One round. Returns how many frames and commands it took.
    pub fn poll(&mut self, now_ns: u64) -> usize {
        let mut work = 0;
        self.adopt();
        let mut began = None;
        // To ask a channel for nothing costs a fence, behind which everything waits.
        while work < COMMANDS_MAX && !self.stopped && self.is_told(work as u64) {
            let command = match self.commands.try_recv() {
                Ok(command) => command,
                Err(TryRecvError::Empty) => break,
                // Nobody is left who could tell it to stop.
                Err(TryRecvError::Disconnected) => Command::Stop,
            };
            work += 1;
            let first = *began.get_or_insert_with(Instant::now);
            self.obey(command, now_ns);
            if first.elapsed() >= self.commands_time {
                break;
            }
        }
        let (commands, mut more) = (work as u64, false);
        if !self.stopped && self.receives {
            // Taken out, so that nothing of a port has to be held while its frames are run.
            let mut queues = std::mem::take(&mut self.rx);
            let (busy, mut received) = (self.busy, 0);
            for (rx, at) in queues.iter_mut().zip(self.rounds..) {
                if busy && rx.silent >= SILENT && !at.is_multiple_of(SILENT_EVERY) {
                    continue;
                }
                let mut n = self.receive(rx, now_ns);
                rx.silent = if n > 0 { 0 } else { rx.silent.saturating_add(1) };
                received += n;
                for _ in 1..self.bursts_max {
                    if n < BURST_MAX || !self.swift {
                        break;
                    }
                    self.flush(true, now_ns);
                    n = self.receive(rx, now_ns);
                    received += n;
                }
                more |= n == BURST_MAX;
            }
            (self.busy, work) = (received > 0, work + received);
            self.rx = queues;
            // A queue that gave fewer frames than it was asked for was asked what it lost; others, when there is nothing
            // better to do, or it has been a while.
            self.rounds = self.rounds.wrapping_add(1);
            if work == 0 || self.rounds.is_multiple_of(DROPS_EVERY) {
                self.rx.iter_mut().for_each(|rx| rx.count_drops(self.index));
            }
        }
        // While a queue gives all that it is asked for, there is a next round; what commands have sent leaves in this one.
        let keep = more && commands == 0;
        if self.due_ns <= now_ns {
            self.tx.touch_waiting();
            self.flush(keep, now_ns);
        } else if work > 0 || self.tx.holds() {
            self.flush(keep, now_ns);
        }
        if commands > 0 {
            self.taken += commands;
            self.progress.obeyed.store(self.taken, Ordering::Release);
        }
        if self.stopped {
            self.publisher.stop(self.index);
        }
        work
    }

    /// There are commands beside those that were obeyed, so many of them in this round, or a handle has gone.
    #[inline]
    fn is_told(&self, obeyed: u64) -> bool {
        let progress = &*self.progress;
        progress.told.load(Ordering::Relaxed) != self.taken + obeyed
            || progress.left.load(Ordering::Relaxed) && progress.left.swap(false, Ordering::Acquire)
    }

    /// Takes the current version, if it runs by another one or by none.
    fn adopt(&mut self) {
        match &mut self.held {
            Some(held) if !self.publisher.is_stale(held) => {}
            Some(held) => self.publisher.adopt(self.index, held),
            None => self.held = Some(self.publisher.start(self.index)),
        }
    }

    fn obey(&mut self, command: Command, now_ns: u64) {
        self.settle();
        match command {
            Command::AddPort { shared, rx, tx } => {
                // Of a port that had this number before, nothing is left behind.
                self.flush(false, now_ns);
                self.discard(|line| line.shared.number == shared.number, DropReason::PortUnknown);
                let rx = rx.into_iter().map(|queue| Rx {
                    shared: shared.clone(),
                    drops: Drops::default(),
                    queue,
                    state: RxState::Open,
                    silent: 0,
                });
                self.rx.extend(rx);
                self.tx.insert(shared, tx);
            }
            Command::RemovePort(number, to) => {
                self.flush(false, now_ns);
                self.discard(|line| line.shared.number == number, DropReason::PortUnknown);
                self.rx.iter_mut().for_each(|rx| rx.count_drops(self.index));
                let gone = self.rx.extract_if(.., |rx| rx.shared.number == number);
                let rx = gone.map(|rx| rx.queue).collect();
                let removed = Removed { rx, tx: self.tx.remove(number).map(|line| line.queue) };
                if let Some(to) = to {
                    // Unless nobody waits any more.
                    let _ = to.send(removed);
                }
            }
            Command::Queues { number, queues } => self.set_queues(number, queues),
            Command::Ports(ports) => self.ports = ports,
            Command::Inject(injection) => {
                // A packet-out must be forwarded by what its sender programmed before it.
                self.adopt();
                let mut frame = self.pool.copy_of(&injection.bytes);
                frame.rx_port = injection.in_port;
                let begins = Begins::Action(injection.action, injection.args);
                let control = self.control.clone();
                control.cell(self.index).count_rx(1, frame.len() as u64);
                self.process(frame, &control, &begins, (0, &Said::NONE, Reason::INJECTED), now_ns);
                self.fate = Fate::default();
                self.watch.settle();
            }
            Command::Capture(tap) => self.watch.add(tap),
            Command::Poll(polls) => self.polls = polls,
            Command::Receive(receives) => self.receives = receives,
            Command::Answer => {}
            Command::Stop => {
                self.rx.iter_mut().for_each(|rx| rx.count_drops(self.index));
                self.flush(false, now_ns);
                self.discard(|_| true, DropReason::Stopped);
                self.services.give_up(DropReason::Stopped);
                self.stopped = true;
            }
        }
    }

    fn receive(&mut self, rx: &mut Rx, now_ns: u64) -> usize {
        match rx.state {
            RxState::Open => {}
            RxState::Retry(at) if at <= now_ns => {}
            RxState::Retry(_) | RxState::Ended => return 0,
        }
        self.swift = false;
        self.loans.set_in_port(rx.shared.number);
        let result = rx.queue.rx_lent(&mut self.loans, &mut self.burst, &mut self.pool);
        let state = match &result {
            Ok(_) => RxState::Open,
            Err(RxError::Ended | RxError::Pcap(_)) => RxState::Ended,
            Err(RxError::Down | RxError::Gone | RxError::Io(_)) => {
                RxState::Retry(now_ns.saturating_add(RETRY_NS))
            }
        };
        if let Err(error) = result
            && rx.state == RxState::Open
        {
            let (port, ended) = (&rx.shared.name, state == RxState::Ended);
            tracing::info!(%port, %error, ended, "nothing is received");
        }
        rx.state = state;
        let n = self.burst.len() + self.loans.len();
        if n == 0 {
            return 0;
        }
        // One that gives all it is asked for is asked what it lost now and then only.
        if n < BURST_MAX {
            rx.count_drops(self.index);
        }
        let shared = &rx.shared;
        let cell = shared.cell(self.index);
        let refuses = shared.flags().has(PortFlags::NO_RECEIVE);
        // Whoever looks at frames, and what is checked of compiled code, has them as frames.
        let plain = |sampler: &mut Sampler| sampler.passes(n);
        if !self.loans.is_empty()
            && !refuses
            && self.watch.is_off()
            && self.sampler.as_mut().is_none_or(plain)
        {
            cell.count_rx(n as u64, self.loans.sizes().bytes.into());
            let mut loans = std::mem::take(&mut self.loans);
            self.run_loans(&mut loans, shared, now_ns);
            self.loans = loans;
            return n;
        }
        let mut burst = std::mem::take(&mut self.burst);
        self.loans.become_frames(&mut burst);
        let bytes: usize = burst.frames().iter().map(Frame::len).sum();
        cell.count_rx(n as u64, bytes as u64);
        if refuses {
            cell.count_drop(DropReason::PortNoReceive, n as u64);
            self.refused(&burst, shared, DropReason::PortNoReceive, now_ns);
            burst.drain().for_each(|frame| self.pool.give(frame));
        } else {
            self.run_burst(&mut burst, shared, now_ns);
        }
        self.burst = burst;
        n
    }

    /// Tells who looks that a burst was dropped as it came in.
    fn refused(&mut self, burst: &Burst, from: &PortShared, reason: DropReason, now_ns: u64) {
        if self.watch.is_off() {
            return;
        }
        let before = self.watch.before(burst.frames(), from.number, &self.counters);
        if let (Some(mut before), Some(held)) = (before, &self.held) {
            let dropped = smallvec::smallvec![(reason.word(), None)];
            let fate = Fate { dropped, ..Fate::default() };
            (0..burst.len()).for_each(|at| before.became(at, fate.clone()));
            self.watch.after(before, &*held.forward, &self.counters, now_ns);
        }
    }

    /// Runs packets through compiled code, as far as there is some. `csums` and `marks` are what ports
    /// have said of them, if anybody wants to know.
    #[inline]
    fn run_code(
        &mut self,
        packets: &mut [abi::Packet<'_>],
        csums: &[Csum],
        marks: &[Mark],
        now_ns: u64,
    ) {
        let held = self.held.get_or_insert_with(|| self.publisher.start(self.index));
        let mut serving = self.services.serve(csums, now_ns).marked(marks);
        let mut counts = Counts {
            worker: self.index,
            state: held.forward.state(),
            counters: &self.counters,
            services: &mut serving,
            random: &mut self.random,
            outside: None,
            live: self.ports.live(),
            now_ns,
        };
        held.forward.burst(&mut self.scratch, packets, &mut counts, now_ns);
        held.forward.tally().count_given(self.index, packets.len());
    }

    /// Runs frames that are still their driver's, and that nobody looks at. Where all are dropped or go to one
    /// port each, as they lie, which is nearly always, no frame is made of them: that is most of what a worker
    /// spends on a packet. The same as [`run_burst`](Self::run_burst) otherwise.
    #[inline(never)]
    fn run_loans(&mut self, loans: &mut Loans, from: &Arc<PortShared>, now_ns: u64) {
        let mut csums: SmallVec<[Csum; BURST_MAX]> = SmallVec::new();
        // Of those that are not spoken of, nothing is known.
        if loans.vouches() && !self.services.is_empty() {
            csums.extend(loans.csums());
        }
        let left = loans.show(|packets| {
            self.run_code(packets, &csums, &[], now_ns);
            if self.scratch.code.tells() {
                self.hold_back(packets, from, now_ns);
            }
            self.run_left(packets, &csums, from, now_ns)
        });
        let index = self.index;
        let dropped = &mut |why, n| count_lost(from, index, why, n);
        let mut dealt = self.tx.deal(loans, dropped);
        // Nearly always all of them.
        while !loans.is_empty() {
            // What is left may go once there is room, or, as frames, behind what was dealt.
            self.settle();
            let dropped = &mut |why, n| count_lost(from, index, why, n);
            match self.tx.deal(loans, dropped) {
                0 => break,
                more => dealt += more,
            }
        }
        self.swift = loans.is_empty() && !left;
        if loans.is_empty() {
            return;
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.extend(loans.outcomes().copied());
        let mut burst = std::mem::take(&mut self.burst);
        loans.become_frames(&mut burst);
        burst.frames_mut().iter_mut().for_each(|frame| frame.rx_port = from.number);
        self.conclude(&mut burst, (&outcomes, dealt), from, None, now_ns);
        self.burst = burst;
        outcomes.clear();
        self.outcomes = outcomes;
    }

    /// Hands what was dealt to ports over to their queues, so that what is sent next leaves behind it.
    fn settle(&mut self) {
        if self.tx.holds() {
            let (pool, index) = (&mut self.pool, self.index);
            self.tx.give(false, |tx, batch| hand_over(tx, batch, pool, index));
        }
    }

    /// Runs received frames: what compiled code does all at once, what it leaves one by one, and all
    /// of them leave in the order in which they came.
    fn run_burst(&mut self, burst: &mut Burst, from: &Arc<PortShared>, now_ns: u64) {
        self.settle();
        let before = match self.watch.is_off() {
            true => None,
            false => self.watch.before(burst.frames(), from.number, &self.counters),
        };
        let mut csums: SmallVec<[Csum; BURST_MAX]> = SmallVec::new();
        let mut marks: SmallVec<[Mark; BURST_MAX]> = SmallVec::new();
        if !self.services.is_empty() {
            csums.extend(burst.frames().iter().map(|frame| frame.offload.csum));
            marks.extend_from_slice(burst.marks().unwrap_or_default());
        }
        let frames = burst.frames();
        let picked = self
            .sampler
            .as_mut()
            .and_then(|sampler| sampler.pick(frames.len(), |at| frames[at].data()));
        let mut packets: SmallVec<[abi::Packet<'_>; BURST_MAX]> = SmallVec::new();
        // Nobody looks at what becomes of them.
        let mut at_rest = before.is_none() && picked.is_none() && self.watch.is_off();
        packets.extend(burst.frames_mut().iter_mut().map(|frame| {
            frame.rx_port = from.number;
            at_rest &= !matches!(frame.offload.csum, Csum::Partial { .. });
            let (buffer, start, len) = frame.parts_mut();
            abi::Packet::new(buffer, start, len, from.number)
        }));
        self.run_code(&mut packets, &csums, &marks, now_ns);
        if at_rest {
            self.run_left(&mut packets, &csums, from, now_ns);
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.extend(packets.iter().map(|packet| **packet));
        drop(packets);
        if let (Some(picked), Some(sampler), Some(held)) = (picked, &self.sampler, &self.held)
            && let outcome = &outcomes[picked.at]
            && let Some(verdict) = self.scratch.code.verdict(picked.at, outcome)
            && !self.scratch.code.was_edited(picked.at)
        {
            let said = self.scratch.code.said(picked.at);
            let (buffer, start, len) = burst.frames_mut()[picked.at].parts_mut();
            let copies = self.scratch.code.copies(picked.at, outcome);
            let done = Done { verdict, copies: spelt(outcome, copies, (buffer, start, len)), said };
            sampler.take(picked, &held.forward, from.number, now_ns, done);
        }
        self.conclude(burst, (&outcomes, 0), from, before, now_ns);
        outcomes.clear();
        self.outcomes = outcomes;
    }

    /// Does with the frames of a burst what compiled code has said, and runs those that it has left. The burst
    /// is empty then. It may be the rest of one, of which so many frames are gone.
    fn conclude(
        &mut self,
        burst: &mut Burst,
        (outcomes, gone): (&[Outcome], usize),
        from: &Arc<PortShared>,
        mut before: Option<Before>,
        now_ns: u64,
    ) {
        let plain = before.is_none() && self.watch.is_off();
        // Frames stay where they lie as long as they can: to move one costs as much as to send it.
        for (at, (frame, outcome)) in burst.frames_mut().iter_mut().zip(outcomes).enumerate() {
            match outcome.status {
                abi::status::FORWARD if plain && outcome.outputs_len == 1 => {
                    self.forwarded_once(frame, outcome, from, now_ns);
                }
                abi::status::FORWARD => {
                    edit(frame, outcome.shift, outcome.changed != 0);
                    self.forwarded(frame.take(), outcome.outputs(), from, now_ns);
                }
                abi::status::COPIES => {
                    let copies = self.scratch.code.copies(gone + at, outcome);
                    self.notes.send_all(frame, outcome, copies);
                    self.finish(frame.take(), from, now_ns);
                }
                abi::status::TOLD => {
                    self.tell(frame, outcome, gone + at, from, now_ns);
                    match self.scratch.code.verdict(gone + at, outcome) {
                        Some(Verdict::Drop(reason)) => {
                            from.cell(self.index).count_drop(reason, 1);
                            if !self.watch.is_off() {
                                self.fate.dropped.push((reason.word(), None));
                            }
                        }
                        _ => {
                            let copies = self.scratch.code.copies(gone + at, outcome);
                            self.notes.send_all(frame, outcome, copies);
                        }
                    }
                    self.finish(frame.take(), from, now_ns);
                }
                abi::status::DROP => {
                    count_lost(from, self.index, outcome.reason, 1);
                    self.pool.give(frame.take());
                    if before.is_some() {
                        let reason = drop_reason(outcome.reason);
                        self.fate.dropped.push((reason.word(), None));
                    }
                }
                abi::status::RAN => {
                    match self.take_noted(gone + at) {
                        Some(waiting) => {
                            self.wait(frame.take(), from, &Begins::Pipeline, *waiting);
                        }
                        None => self.finish(frame.take(), from, now_ns),
                    }
                    self.run_ready(now_ns);
                }
                _ => {
                    let said = self.scratch.code.said(gone + at);
                    let reason = self.left(outcome.reason);
                    let done = (outcome.lookups, &said, reason);
                    self.process(frame.take(), from, &Begins::Pipeline, done, now_ns);
                }
            }
            match &mut before {
                Some(before) => before.became(at, std::mem::take(&mut self.fate)),
                None if plain => {}
                // Nobody asks what became of it, and of the next frame it is not to be told.
                None => self.fate = Fate::default(),
            }
        }
        burst.clear();
        if let (Some(before), Some(held)) = (before, &self.held) {
            self.watch.after(before, &*held.forward, &self.counters, now_ns);
        }
        if !self.watch.is_off() {
            self.watch.settle();
        }
    }

    /// Lets frames go of which compiled code tells what the limit holds back.
    fn hold_back(&self, packets: &mut [abi::Packet<'_>], from: &PortShared, now_ns: u64) {
        let code = &self.scratch.code;
        let held = hold_back(code, packets, &self.ring, from.number, now_ns);
        let cell = from.cell(self.index);
        if held.punts > 0 {
            cell.count_drop(DropReason::PuntRateLimit, held.punts);
        }
        if held.digests > 0 {
            cell.count_digests_refused(held.digests);
        }
    }

    /// Tells the control side what compiled code has told of a frame.
    fn tell(
        &mut self,
        frame: &mut Frame,
        outcome: &Outcome,
        at: usize,
        from: &PortShared,
        now_ns: u64,
    ) {
        let (in_port, csum) = (frame.rx_port, frame.offload.csum);
        let (buffer, start, len) = frame.parts_mut();
        let mut collector = Collector {
            notes: &mut self.notes,
            input: &buffer[start..start + len],
            in_port,
            csum,
            now_ns,
            ring: &self.ring,
            punted: 0,
            refused: Default::default(),
            digests_refused: 0,
        };
        tell(&self.scratch.code, at, outcome, (buffer, start, len), &mut collector);
        let Collector { punted, refused, digests_refused, .. } = collector;
        let cell = from.cell(self.index);
        for reason in &refused {
            cell.count_drop(*reason, 1);
        }
        if punted > 0 {
            cell.count_punts(u64::from(punted));
        }
        if digests_refused > 0 {
            cell.count_digests_refused(u64::from(digests_refused));
        }
        if !self.watch.is_off() {
            self.fate.dropped.extend(refused.iter().map(|reason| (reason.word(), None)));
            self.fate.punted += punted;
        }
    }

    /// Why compiled code has left a packet, which is counted.
    fn left(&mut self, bail: u32) -> Reason {
        let held = self.held.get_or_insert_with(|| self.publisher.start(self.index));
        held.forward.tally().count_left(self.index);
        held.forward.reason(bail)
    }

    /// Sends what compiled code has forwarded to one port, with nobody looking: what nearly all
    /// frames are. The same as [`forwarded`](Self::forwarded), with less on the way.
    #[inline]
    fn forwarded_once(
        &mut self,
        frame: &mut Frame,
        outcome: &Outcome,
        from: &PortShared,
        now_ns: u64,
    ) {
        edit(frame, outcome.shift, outcome.changed != 0);
        let sends = PortFlags::UP | PortFlags::NO_FORWARD | PortFlags::QUEUES;
        match self.tx.get(outcome.outputs[0].port) {
            Some(tx) if tx.shared.flags().0 & sends == PortFlags::UP => {
                if let Err(reason) = tx.queue.tx_taken(frame, &mut self.pool) {
                    tx.shared.cell(self.index).count_tx_drop(reason, 1);
                }
            }
            // Counted there under its reason, or queued.
            _ => self.forwarded(frame.take(), outcome.outputs(), from, now_ns),
        }
    }

    /// Sends what compiled code has forwarded.
    fn forwarded(&mut self, frame: Frame, outputs: &[Output], from: &PortShared, now_ns: u64) {
        for output in outputs {
            self.notes.send_same(output.port, output.queue);
        }
        self.finish(frame, from, now_ns);
    }

    /// Runs one frame that compiled code has left, and behind it those that have waited for it; so many lookups were
    /// counted already, and this was said; and why.
    fn process(
        &mut self,
        frame: Frame,
        from: &Arc<PortShared>,
        begins: &Begins,
        done: (u32, &Said, Reason),
        now_ns: u64,
    ) {
        self.interpret(frame, from, begins, done, now_ns);
        self.run_ready(now_ns);
    }

    /// Runs frames that have waited for another and go on now.
    fn run_ready(&mut self, now_ns: u64) {
        while let Some(kept) = self.ready.pop_front() {
            let Kept { frame, from, begins, version, counted, said, reason } = kept;
            let same = self.held.as_ref().is_some_and(|held| held.forward.version() == version);
            let done = if same { (counted, &said, reason) } else { (0, &Said::NONE, reason) };
            // It is the burst's frame of which is told what becomes of it.
            let fate = std::mem::take(&mut self.fate);
            self.interpret(frame, &from, &begins, done, now_ns);
            self.fate = fate;
        }
    }

    fn interpret(
        &mut self,
        frame: Frame,
        from: &Arc<PortShared>,
        begins: &Begins,
        done: (u32, &Said, Reason),
        now_ns: u64,
    ) {
        let received =
            Received { bytes: frame.data(), in_port: frame.rx_port, csum: frame.offload.csum };
        let mut came = self.run_one(received, from, begins, done, now_ns);
        if let Some(waiting) = self.news(&mut came, done) {
            return self.wait(frame, from, begins, waiting);
        }
        self.count_ran(came.reason);
        let dropped = match came.verdict {
            Verdict::Drop(reason) => Some(reason),
            _ => None,
        };
        if let Some(reason) = dropped {
            from.cell(self.index).count_drop(reason, 1);
        }
        if !self.watch.is_off() {
            let dropped = came.refused.iter().copied().chain(dropped);
            self.fate.dropped.extend(dropped.map(|reason| (reason.word(), None)));
            self.fate.punted += came.punted;
        }
        self.finish(frame, from, now_ns);
    }

    /// A frame waits for another, in a buffer of its own: its port may want this one back.
    fn wait(&mut self, frame: Frame, from: &Arc<PortShared>, begins: &Begins, waiting: Waiting) {
        let mut copy = Frame::copy_of(frame.data());
        copy.copy_metadata(&frame);
        self.pool.give(frame);
        let Waiting { waits, version, counted, said, reason } = waiting;
        let kept = Kept {
            frame: copy,
            from: from.clone(),
            begins: begins.clone(),
            version,
            counted,
            said,
            reason,
        };
        self.ready.extend(self.services.keep(waits, kept));
    }

    /// Sends the copies that were noted of a frame.
    fn finish(&mut self, frame: Frame, from: &PortShared, now_ns: u64) {
        let cell = from.cell(self.index);
        let (index, ports, tx) = (self.index, &self.ports, &mut self.tx);
        let (watch, looks) = (&self.watch, !self.watch.is_off());
        // Both of what follows say what becomes of the frame.
        let fate = RefCell::new(&mut self.fate);
        let drop = |port: u32, reason: DropReason| {
            match ports.get(port) {
                Some(to) => to.cell(index).count_drop(reason, 1),
                None => cell.count_drop(reason, 1),
            }
            if looks {
                fate.borrow_mut().dropped.push((reason.word(), Some(port)));
            }
        };
        let out = |outgoing: Outgoing, pool: &mut Pool| match tx.get(outgoing.port) {
            Some(tx) => {
                if looks {
                    watch.out(outgoing.port, &outgoing.frame, from.number, now_ns);
                }
                let sent = match &mut tx.shaper {
                    None => tx.queue.tx_owned(outgoing.frame, pool),
                    Some(shaper) => shaper.push(outgoing.queue, outgoing.frame, pool),
                };
                if let Err(reason) = sent {
                    tx.shared.cell(index).count_tx_drop(reason, 1);
                }
                if looks {
                    match sent {
                        Ok(()) => fate.borrow_mut().sent.push(outgoing.port),
                        Err(reason) => {
                            fate.borrow_mut().dropped.push((reason.name(), Some(outgoing.port)))
                        }
                    }
                }
            }
            None => {
                drop(outgoing.port, DropReason::PortUnknown);
                pool.give(outgoing.frame);
            }
        };
        self.notes.finish(frame, &mut self.pool, ports, drop, out);
    }

    /// Sends what was queued, and of what waits in egress queues what may go. With `keep`, small batches wait for more.
    fn flush(&mut self, keep: bool, now_ns: u64) {
        let (index, pool, mut due_ns) = (self.index, &mut self.pool, self.due_ns);
        if due_ns <= now_ns {
            due_ns = u64::MAX;
        }
        if self.tx.holds() {
            self.tx.give(keep, |tx, batch| hand_over(tx, batch, pool, index));
        }
        self.tx.flush(|tx| {
            let cell = tx.shared.cell(index);
            if let Some(shaper) = &mut tx.shaper {
                if tx.shared.flags().has(PortFlags::UP) {
                    let due = shaper.run(now_ns, &mut *tx.queue, pool, cell);
                    due_ns = due_ns.min(due.unwrap_or(u64::MAX));
                } else {
                    cell.count_drop(DropReason::PortDown, shaper.discard(pool));
                }
            }
            let report = tx.queue.flush();
            cell.count_tx(report.sent, report.sent_bytes);
            if !report.drops.is_zero() {
                for (reason, n) in report.drops.iter() {
                    cell.count_tx_drop(reason, n);
                }
            }
        });
        self.due_ns = due_ns;
    }

    /// Gives up what waits in the egress queues of some ports.
    fn discard(&mut self, of: impl Fn(&Line) -> bool, reason: DropReason) {
        for line in self.tx.iter_mut().filter(|line| of(line)) {
            if let Some(shaper) = &mut line.shaper {
                line.shared.cell(self.index).count_drop(reason, shaper.discard(&mut self.pool));
            }
        }
    }

    /// Gives a port other egress queues; what waits moves over, and leaves at once where the port
    /// has none any more.
    fn set_queues(&mut self, number: u32, queues: Option<Arc<Queues>>) {
        let Some(line) = self.tx.get(number) else { return };
        let cell = line.shared.cell(self.index);
        let new = queues.map(|queues| Box::new(Shaper::new(queues, self.index)));
        let old = std::mem::replace(&mut line.shaper, new);
        match (old, &mut line.shaper) {
            (None, _) => {}
            (Some(mut old), Some(new)) => {
                let lost = old.move_to(new, &mut self.pool);
                cell.count_tx_drop(port::DropReason::TxQueueFull, lost);
            }
            (Some(mut old), None) => old.release(&mut *line.queue, &mut self.pool, cell),
        }
        self.tx.arrange();
    }

    /// Sleeps until a frame, a command or a new version is there, or a queue is to be asked again.
    fn sleep(&mut self, now_ns: u64) {
        let mut until_ns = (self.due_ns < u64::MAX).then_some(self.due_ns);
        let mut fds = Vec::with_capacity(self.rx.len() + 1);
        fds.push(PollFd::new(&*self.waker.0, PollFlags::IN));
        for rx in self.rx.iter().filter(|_| self.receives) {
            let at = match (rx.state, rx.queue.fd()) {
                (RxState::Ended, _) => continue,
                (RxState::Retry(at), _) => at,
                (RxState::Open, None) => now_ns.saturating_add(POLL_INTERVAL_NS),
                (RxState::Open, Some(fd)) => {
                    fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
                    continue;
                }
            };
            until_ns = Some(until_ns.map_or(at, |until| until.min(at)));
        }
        self.held = None;
        self.publisher.stop(self.index);
        let timeout = until_ns
            .map(|at| Duration::from_nanos(at.saturating_sub(now_ns)))
            .and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(worker = self.index, %error, "poll failed");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.waker.clear();
    }
}

/// Gives a queue what was dealt to it, or counts it there, if its port forwards nothing by now.
#[inline]
fn hand_over(line: &mut Line, batch: &mut Batch, pool: &mut Pool, index: usize) {
    let Line { queue, shared, .. } = line;
    let flags = shared.flags();
    if flags.0 & (PortFlags::UP | PortFlags::NO_FORWARD) == PortFlags::UP {
        return queue.tx_batch(batch, pool, &mut |why| shared.cell(index).count_tx_drop(why, 1));
    }
    let reason = match flags.has(PortFlags::NO_FORWARD) {
        true => DropReason::PortNoForward,
        false => DropReason::PortDown,
    };
    shared.cell(index).count_drop(reason, batch.len() as u64);
    batch.release();
}

/// Counts packets that are dropped, unless they are not lost.
fn count_lost(from: &PortShared, worker: usize, reason: u32, n: u64) {
    if reason != abi::reason::NONE {
        from.cell(worker).count_drop(drop_reason(reason), n);
    }
}

/// Why compiled code has dropped a packet, from its outcome.
fn drop_reason(reason: u32) -> DropReason {
    DropReason::ALL.get(reason as usize).copied().unwrap_or(DropReason::NoOutput)
}

/// However a worker ends, by command, by a panic or because its thread could not start: nobody
/// waits for it any more.
impl Drop for Worker {
    fn drop(&mut self) {
        self.publisher.stop(self.index);
        self.progress.ended.store(true, Ordering::Release);
        let late = self.commands.try_iter().filter(|c| matches!(c, Command::Inject(_))).count();
        if late > 0 {
            self.control.cell(self.index).count_rx(late as u64, 0);
            self.control.cell(self.index).count_drop(DropReason::Stopped, late as u64);
        }
    }
}
