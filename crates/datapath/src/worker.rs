//! The burst loop: receive, run, transmit; sleep when all is silent.
//!
//! A [`Worker`] has three parts, one module each: `receive` (receive queues), `run` (the version, and all that it takes to run
//! packets by it) and `transmit` (a transmit queue per port, egress queues, free buffers). Each part calls the next.
//! [`Worker::poll`] is one round: take commands, adopt the current version, then for each receive
//! queue one burst, run to completion, and flush what was queued. [`Worker::run`] repeats it on a
//! thread of its own and sleeps on the queues' descriptors once nothing has come for
//! [`SPIN_NS`]; a waker ends the sleep. Queues without a descriptor (DPDK's) are asked again every
//! [`POLL_INTERVAL_NS`] meanwhile; [`Command::Poll`] forbids sleep altogether.
//!
//! Invariants: every frame received or injected ends as sent, punted, or counted under a reason; a
//! queue whose interface is down or gone is asked again after [`RETRY_NS`], so that an interface
//! which comes back is served again; a round takes a bounded number of commands, so that neither
//! the control side nor traffic can starve the other.
//! Checked by: `tests/worker.rs`; whole switches by the tests of `switch`.
//!
//! Tests and simulations call `poll` themselves, with a clock of their own.

mod control;
mod fallback;
mod receive;
mod run;
mod transmit;

pub use self::control::{Command, Handle, Injection, Removed, Waker};
pub use self::receive::{POLL_INTERVAL_NS, RETRY_NS};

use self::control::Inbox;
use self::fallback::{Fallback, Prior};
use self::receive::Receive;
use self::run::Run;
use self::transmit::Transmit;
use crate::capture::Watch;
use crate::engine::Scratch;
use crate::ports::PortShared;
use crate::publish::{Publisher, Reader};
use crate::punt::PuntRing;
use crate::services::{Services, StartPoint};
use crate::sink::Notes;
use crate::tally::Reason;
use crate::validate::Sampler;
use ir::DropReason;
use port::prng::Prng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use state::counters::WorkerCounters;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A worker that has received nothing for so long sleeps, in nanoseconds.
pub const SPIN_NS: u64 = 50_000;
/// How much later than asked for the kernel may end such a sleep, in nanoseconds; by default 50,000.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1_000).unwrap();
/// Commands taken in one round, at most.
const COMMANDS_MAX: u64 = 256;
/// A switch's [`WorkerConfig::bursts_max`].
pub const BURSTS_MAX: usize = 4;
/// A switch's [`WorkerConfig::commands_time`].
pub const COMMANDS_TIME: Duration = Duration::from_micros(100);

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

/// A worker.
pub struct Worker {
    index: usize,
    /// The processor it is pinned to.
    cpu: Option<usize>,
    inbox: Inbox,
    receive: Receive,
    run: Run,
    transmit: Transmit,
    /// Stands for the control side as a port.
    control: Arc<PortShared>,
    /// It never sleeps.
    polls: bool,
    stopped: bool,
}

impl Worker {
    /// A worker without ports, and its handle. It counts as running from now on.
    pub fn new(config: WorkerConfig) -> std::io::Result<(Worker, Handle)> {
        let (inbox, handle) = Inbox::new(config.commands_time)?;
        let index = config.index;
        let run = Run {
            index,
            version: Reader::new(config.publisher, index),
            services: config.services,
            scratch: Scratch::default(),
            counters: config.counters,
            random: Prng::new(config.seed),
            punts: config.ring,
            notes: Notes::default(),
            fallback: Fallback::default(),
            sampler: config.sampler,
            watch: Watch::default(),
        };
        let worker = Worker {
            index,
            cpu: config.cpu,
            inbox,
            receive: Receive::new(index, config.bursts_max),
            run,
            transmit: Transmit::new(index),
            control: config.control,
            polls: false,
            stopped: false,
        };
        Ok((worker, handle))
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
        self.run.version.adopt();
        let commands = self.obey_all(now_ns);
        let idle = commands == 0;
        let (mut received, mut more) = (0, false);
        if !self.stopped && self.receive.enabled {
            let Worker { receive, run, transmit, .. } = self;
            (received, more) = receive.round(idle, run, transmit, now_ns);
        }
        // While a queue gives all that it is asked for, there is a next round; what commands have sent leaves in this one.
        self.transmit.end_round(more && idle, received > 0 || !idle, now_ns);
        self.inbox.note_obeyed(commands);
        if self.stopped {
            self.run.version.stop();
        }
        commands as usize + received
    }

    /// Obeys commands that wait, as many as a round may take. Returns how many.
    #[inline]
    fn obey_all(&mut self, now_ns: u64) -> u64 {
        let (mut obeyed, mut began) = (0, None);
        while obeyed < COMMANDS_MAX && !self.stopped {
            let Some(command) = self.inbox.next(obeyed) else { break };
            obeyed += 1;
            let first = *began.get_or_insert_with(Instant::now);
            self.obey(command, now_ns);
            if first.elapsed() >= self.inbox.time_max {
                break;
            }
        }
        obeyed
    }

    fn obey(&mut self, command: Command, now_ns: u64) {
        self.transmit.hand_over_batches();
        match command {
            Command::AddPort { shared, rx, tx } => {
                self.transmit.add(shared.clone(), tx, now_ns);
                self.receive.add(&shared, rx);
            }
            Command::RemovePort(number, to) => {
                let tx = self.transmit.remove(number, now_ns);
                self.receive.count_drops();
                let removed = Removed { rx: self.receive.remove(number), tx };
                if let Some(to) = to {
                    // Unless nobody waits any more.
                    let _ = to.send(removed);
                }
            }
            Command::Queues { number, queues } => self.transmit.set_queues(number, queues),
            Command::Ports(ports) => self.transmit.ports = ports,
            Command::Inject(injection) => self.inject(injection, now_ns),
            Command::Capture(tap) => self.run.watch.add(tap),
            Command::Poll(polls) => self.polls = polls,
            Command::Receive(receives) => self.receive.enabled = receives,
            Command::Answer => {}
            Command::Stop => {
                self.receive.count_drops();
                self.transmit.stop(now_ns);
                self.run.services.give_up(DropReason::Stopped);
                self.stopped = true;
            }
        }
    }

    /// Runs a packet of the control side.
    fn inject(&mut self, injection: Injection, now_ns: u64) {
        let (run, tx) = (&mut self.run, &mut self.transmit);
        // A packet-out must be forwarded by what its sender programmed before it.
        run.version.adopt();
        let mut frame = tx.pool.copy_of(&injection.bytes);
        frame.rx_port = injection.in_port;
        let begins = StartPoint::Action(injection.action, injection.args);
        self.control.cell(self.index).count_rx(1, frame.len() as u64);
        run.process(frame, &self.control, &begins, Prior::none(Reason::INJECTED), tx, now_ns);
        drop(run.watch.take_fate());
        run.watch.settle();
    }

    /// Sleeps until a frame, a command or a new version is there, or a queue is to be asked again.
    fn sleep(&mut self, now_ns: u64) {
        let mut fds = vec![PollFd::new(self.inbox.fd(), PollFlags::IN)];
        let retry_ns = self.receive.wait_for(&mut fds, now_ns);
        let until_ns = retry_ns.into_iter().chain(self.transmit.due_ns()).min();
        self.run.version.sleep();
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
        self.inbox.clear();
    }
}

/// However a worker ends, by command, by a panic or because its thread could not start: nobody
/// waits for it any more.
impl Drop for Worker {
    fn drop(&mut self) {
        self.run.version.stop();
        let late = self.inbox.close();
        if late > 0 {
            self.control.cell(self.index).count_rx(late, 0);
            self.control.cell(self.index).count_drop(DropReason::Stopped, late);
        }
    }
}
