//! A lane: what a worker does for one switch.
//!
//! It has the switch's version, the receive and transmit queues of its ports, and its counters. A worker runs its lanes in
//! turn; the buffers that a burst needs are the worker's, and are lent to the lane whose turn it is.

use super::control::{Command, Injection, Key, Removed};
use super::fallback::{Fallback, Prior};
use super::receive::{Receive, Receiving};
use super::run::{Buffers, Run};
use super::transmit::Transmit;
use crate::capture::Watch;
use crate::engine::Scratch;
use crate::held::Held;
use crate::ports::PortShared;
use crate::publish::{Publisher, Reader};
use crate::punt::PuntRing;
use crate::repeats::Repeats;
use crate::services::{Services, StartPoint};
use crate::sink::Notes;
use crate::tally::Reason;
use crate::validate::Sampler;
use ir::DropReason;
use port::Pool;
use port::prng::Prng;
use rustix::event::PollFd;
use state::counters::WorkerCounters;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a lane is made of.
pub struct LaneConfig {
    /// Where versions are published.
    pub publisher: Arc<Publisher>,
    /// Where punts go.
    pub ring: PuntRing,
    /// The worker's share of the entries', groups' and meters' counters.
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
}

/// A switch's part of a worker.
pub(super) struct Lane {
    pub(super) key: Arc<Key>,
    receive: Receive,
    run: Run,
    transmit: Transmit,
    /// Commands were obeyed since the last round.
    told: bool,
}

impl Lane {
    /// A lane without ports. It counts as running from now on.
    pub(super) fn new(config: LaneConfig, key: Arc<Key>, bursts_max: usize) -> Lane {
        let index = key.worker;
        let run = Run {
            index,
            version: Reader::new(config.publisher, index),
            services: config.services,
            scratch: Scratch::default(),
            counters: config.counters,
            random: Prng::new(config.seed),
            repeats: Repeats::new(config.ring.forgotten().clone()),
            held: Held::default(),
            tells: false,
            punts: config.ring,
            notes: Notes::default(),
            fallback: Fallback::default(),
            sampler: config.sampler,
            watch: Watch::default(),
        };
        let (receive, transmit) = (Receive::new(index, bursts_max), Transmit::new(index));
        Lane { key, receive, run, transmit, told: false }
    }

    /// Takes the current version, unless it has let go of its own.
    #[inline]
    pub(super) fn adopt(&mut self) {
        self.run.version.adopt();
    }

    /// One round: a burst of each receive queue, and what was queued leaves. `idle`: the worker had no commands.
    /// Returns how many frames it took.
    #[inline]
    pub(super) fn round(
        &mut self,
        (buffers, pool): (&mut Buffers, &mut Pool),
        idle: bool,
        now_ns: u64,
    ) -> usize {
        let Lane { receive, run, transmit, told, .. } = self;
        std::mem::swap(&mut transmit.pool, pool);
        let told = std::mem::take(told);
        let (mut received, mut more) = (0, false);
        if receive.what != Receiving::Nothing {
            (received, more) = receive.round(idle, buffers, run, transmit, now_ns);
        }
        // While a queue gives all that it is asked for, there is a next round; what commands have sent leaves in this one.
        transmit.end_round(more && !told, received > 0 || told, now_ns);
        std::mem::swap(&mut transmit.pool, pool);
        received
    }

    /// Obeys a command. Says whether the lane goes on.
    pub(super) fn obey(&mut self, command: Command, pool: &mut Pool, now_ns: u64) -> bool {
        self.told = true;
        std::mem::swap(&mut self.transmit.pool, pool);
        self.transmit.hand_over_batches();
        let goes_on = self.obey_with_pool(command, now_ns);
        std::mem::swap(&mut self.transmit.pool, pool);
        goes_on
    }

    fn obey_with_pool(&mut self, command: Command, now_ns: u64) -> bool {
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
            Command::Renumber { number, shared } => {
                if let Some(tx) = self.transmit.remove(number, now_ns) {
                    self.transmit.add(shared.clone(), tx, now_ns);
                }
                self.receive.renumber(number, &shared);
            }
            Command::Queues { number, queues } => self.transmit.set_queues(number, queues),
            Command::Ports(ports) => self.transmit.ports = ports,
            Command::Inject(injection) => self.inject(injection, now_ns),
            Command::Capture(tap) => self.run.watch.add(tap),
            Command::Receive(what) => self.receive.what = what,
            Command::Waits(to) => {
                // Unless nobody waits any more.
                let _ = to.send(self.receive.waits_inside());
            }
            Command::Answer => {}
            Command::Stop => {
                self.stop(now_ns);
                return false;
            }
        }
        true
    }

    /// Sends what may leave; what is left is counted as dropped.
    fn stop(&mut self, now_ns: u64) {
        self.receive.count_drops();
        self.transmit.stop(now_ns);
        self.run.services.give_up(DropReason::Stopped);
        self.run.version.stop();
    }

    /// The worker ends.
    pub(super) fn end(&mut self, pool: &mut Pool, now_ns: u64) {
        std::mem::swap(&mut self.transmit.pool, pool);
        self.transmit.hand_over_batches();
        self.stop(now_ns);
        std::mem::swap(&mut self.transmit.pool, pool);
    }

    /// Runs a packet of the control side.
    fn inject(&mut self, injection: Injection, now_ns: u64) {
        let (run, tx) = (&mut self.run, &mut self.transmit);
        // A packet-out must be forwarded by what its sender programmed before it.
        run.version.adopt();
        let mut frame = tx.pool.copy_of(&injection.bytes);
        frame.rx_port = injection.in_port;
        let begins = StartPoint::Action(injection.action, injection.args);
        let control = &self.key.control;
        control.cell(self.key.worker).count_rx(1, frame.len() as u64);
        run.process(frame, control, &begins, Prior::none(Reason::INJECTED), tx, now_ns);
        drop(run.watch.take_fate());
        run.watch.settle();
    }

    /// Adds the descriptors that tell of frames, and says when something is to be done without one.
    pub(super) fn wait_for<'a>(&'a self, fds: &mut Vec<PollFd<'a>>, now_ns: u64) -> Option<u64> {
        let retry_ns = self.receive.wait_for(fds, now_ns);
        retry_ns.into_iter().chain(self.transmit.due_ns()).min()
    }

    /// Lets go of its version: the worker goes to sleep.
    pub(super) fn sleep(&mut self) {
        self.run.version.sleep();
    }
}

/// However a lane ends, by command, by a panic of its worker or because the worker has stopped: nobody waits for it any
/// more.
impl Drop for Lane {
    fn drop(&mut self) {
        self.key.ended.store(true, Ordering::Release);
        self.run.version.stop();
    }
}
