//! The burst loop: receive, run, transmit; sleep when all is silent.
//!
//! A worker serves one or more switches: it has a lane (module `lane`) for each. A lane has three parts, one module each:
//! `receive` (receive queues), `run` (the version, and all that it takes to run packets by it) and `transmit` (a transmit
//! queue per port, egress queues). Each part calls the next. Buffers belong to the worker, and are with the lane that runs.
//!
//! [`Worker::poll`] is one round: take commands, then for each lane adopt the current version, take one burst of each
//! receive queue, run it to completion, and flush what was queued. [`Worker::run`] repeats it on a
//! thread of its own and sleeps on the queues' descriptors once nothing has come for
//! [`SPIN_NS`]; a waker ends the sleep. Queues without a descriptor (DPDK's) are asked again every
//! [`POLL_INTERVAL_NS`] meanwhile; [`WorkerHandle::set_polling`] forbids sleep altogether.
//!
//! What one lane sends by a patch port (`port::patch`) waits in a queue of this worker for the other lane, which takes it
//! in its own turn, as from any other port: so no burst is cut short, and a loop of bridges starves nobody.
//!
//! Invariants: every frame received or injected ends as sent, punted, or counted under a reason; a
//! queue whose interface is down or gone is asked again after [`RETRY_NS`], so that an interface
//! which comes back is served again; a round takes a bounded number of commands, so that neither
//! the control side nor traffic can starve the other.
//! Checked by: `tests/worker.rs`, `tests/lanes.rs`; whole switches by the tests of `switch`.
//!
//! Tests and simulations call `poll` themselves, with a clock of their own.

mod control;
mod fallback;
mod lane;
mod load;
mod receive;
mod run;
mod transmit;

pub use self::control::{Command, Handle, Injection, Removed, Waker, WorkerHandle};
pub use self::lane::LaneConfig;
pub use self::load::Load;
pub use self::receive::{POLL_INTERVAL_NS, RETRY_NS, Receiving};

use self::control::{Inbox, Order};
use self::lane::Lane;
use self::load::{Meter, Reader};
use self::run::Buffers;
use port::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
    /// One for each switch that it serves.
    lanes: Vec<Lane>,
    /// The burst at hand.
    buffers: Buffers,
    /// Free buffers, while no lane runs.
    pool: Pool,
    /// How busy it is, as others read it.
    load: Reader,
    /// It never sleeps.
    polls: bool,
    stopped: bool,
}

impl Worker {
    /// A worker without lanes, and its handle.
    pub fn new(config: WorkerConfig) -> std::io::Result<(Worker, WorkerHandle)> {
        let WorkerConfig { index, cpu, commands_time, bursts_max } = config;
        let load = Reader::default();
        let (inbox, handle) = Inbox::new(index, bursts_max, commands_time, load.clone())?;
        let worker = Worker {
            index,
            cpu,
            inbox,
            lanes: Vec::new(),
            buffers: Buffers::default(),
            pool: Pool::new(),
            load,
            polls: false,
            stopped: false,
        };
        Ok((worker, handle))
    }

    /// Rounds until told to stop. `epoch` is the zero of its switches' clock.
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
        let mut meter = Meter::new(self.load.clone());
        while !self.stopped {
            let time = now();
            meter.begin(time);
            let taken = self.poll(time);
            meter.took(taken);
            if taken > 0 {
                last_work = time;
            } else if !self.polls && time.saturating_sub(last_work) > SPIN_NS {
                self.sleep(time);
                last_work = now();
                meter.slept(time, last_work);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// One round. Returns how many frames and commands it took.
    pub fn poll(&mut self, now_ns: u64) -> usize {
        self.lanes.iter_mut().for_each(Lane::adopt);
        let commands = self.obey_all(now_ns);
        let mut received = 0;
        if !self.stopped {
            let Worker { lanes, buffers, pool, .. } = self;
            for lane in lanes {
                received += lane.round((buffers, pool), commands == 0, now_ns);
            }
        }
        self.inbox.note_obeyed(commands);
        commands as usize + received
    }

    /// Obeys commands that wait, as many as a round may take. Returns how many.
    #[inline]
    fn obey_all(&mut self, now_ns: u64) -> u64 {
        let (mut obeyed, mut began) = (0, None);
        while obeyed < COMMANDS_MAX && !self.stopped {
            let Some(order) = self.inbox.next(obeyed) else { break };
            obeyed += 1;
            let first = *began.get_or_insert_with(Instant::now);
            self.obey(order, now_ns);
            if first.elapsed() >= self.inbox.time_max {
                break;
            }
        }
        self.stopped |= self.lanes.is_empty() && self.inbox.is_final();
        obeyed
    }

    fn obey(&mut self, order: Order, now_ns: u64) {
        match order {
            Order::Add(mut lane) => {
                // It may have been on its way for a while.
                lane.adopt();
                self.lanes.push(*lane);
            }
            Order::Poll(polls) => self.polls = polls,
            Order::Lane(key, command) => {
                let at = self.lanes.iter().position(|lane| Arc::ptr_eq(&lane.key, &key));
                match (at, command) {
                    (None, Command::Inject(_)) => key.count_late(1),
                    (None, _) => {}
                    (Some(at), command) => {
                        if !self.lanes[at].obey(command, &mut self.pool, now_ns) {
                            self.lanes.remove(at);
                        }
                    }
                }
            }
            Order::End => {
                for lane in &mut self.lanes {
                    lane.end(&mut self.pool, now_ns);
                }
                self.lanes.clear();
                self.stopped = true;
            }
        }
    }

    /// Sleeps until a frame, a command or a new version is there, or a queue is to be asked again.
    fn sleep(&mut self, now_ns: u64) {
        self.lanes.iter_mut().for_each(Lane::sleep);
        let mut fds = vec![PollFd::new(self.inbox.fd(), PollFlags::IN)];
        let each = self.lanes.iter().filter_map(|lane| lane.wait_for(&mut fds, now_ns));
        let until_ns = each.min();
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
/// waits for it or its lanes any more.
impl Drop for Worker {
    fn drop(&mut self) {
        self.lanes.clear();
        self.inbox.close();
    }
}
