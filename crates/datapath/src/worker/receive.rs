//! Receive: a lane's receive queues, asked in turn for a burst each.
//!
//! While some queues have frames, those that have been silent for a while are asked in one of [`SILENT_EVERY`] rounds.
//! A queue whose interface is down or gone is asked again after [`RETRY_NS`].

use super::run::{Buffers, Run};
use super::transmit::Transmit;
use crate::ports::{PortFlags, PortShared};
use ir::DropReason;
use port::burst::BURST_MAX;
use port::{Burst, Drops, Frame, RxError, RxQueue};
use rustix::event::{PollFd, PollFlags};
use std::sync::Arc;

/// A receive queue that is down, gone or in trouble is asked again after so long, in nanoseconds.
pub const RETRY_NS: u64 = 20_000_000;
/// Longest sleep while a queue without a descriptor must be polled, in nanoseconds: what comes first
/// after a silence waits so long.
pub const POLL_INTERVAL_NS: u64 = 40_000;
/// In so many rounds, every receive queue is asked once what it lost.
const DROPS_EVERY: u64 = 64;
/// A queue that had nothing so many times in a row is silent.
const SILENT: u8 = 16;
/// While others have work, a silent queue is asked in one of so many rounds: to ask nine queues for nothing costs
/// what a few packets cost.
const SILENT_EVERY: u64 = 2;

/// What a lane receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// What comes at any port.
    All,
    /// What other lanes of the same worker have sent: nothing new comes in, and what is on its way goes on.
    Inside,
    /// Nothing: what comes is left in the ports.
    Nothing,
    /// All, which is dropped under [`DropReason::Standby`].
    Standby,
}

/// The receive side of a lane.
pub(super) struct Receive {
    /// The worker's number.
    index: usize,
    queues: Vec<Queue>,
    /// See [`WorkerConfig::bursts_max`](super::WorkerConfig::bursts_max).
    bursts_max: usize,
    /// Rounds made.
    rounds: u64,
    /// The last round had frames.
    busy: bool,
    /// Which queues are asked.
    pub(super) what: Receiving,
}

/// One receive queue.
struct Queue {
    port: Arc<PortShared>,
    queue: Box<dyn RxQueue>,
    drops: Drops,
    state: State,
    /// How often in a row it had nothing.
    silent: u8,
    /// What it gives comes from this worker itself.
    local: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Frames may come.
    Open,
    /// In trouble: not to be asked before this time.
    Retry(u64),
    /// No frame will ever come.
    Ended,
}

impl Receive {
    /// No queues.
    pub(super) fn new(index: usize, bursts_max: usize) -> Receive {
        let what = Receiving::All;
        Receive { index, queues: Vec::new(), bursts_max, rounds: 0, busy: false, what }
    }

    /// Adds queues of a port.
    pub(super) fn add(&mut self, port: &Arc<PortShared>, queues: Vec<Box<dyn RxQueue>>) {
        self.queues.extend(queues.into_iter().map(|queue| Queue {
            port: port.clone(),
            local: queue.local().is_some(),
            queue,
            drops: Drops::default(),
            state: State::Open,
            silent: 0,
        }));
    }

    /// Takes out the queues of a port.
    pub(super) fn remove(&mut self, port: u32) -> Vec<Box<dyn RxQueue>> {
        let removed = self.queues.extract_if(.., |queue| queue.port.number == port);
        removed.map(|queue| queue.queue).collect()
    }

    /// The queues of a port are another's from now on.
    pub(super) fn renumber(&mut self, number: u32, port: &Arc<PortShared>) {
        for queue in self.queues.iter_mut().filter(|queue| queue.port.number == number) {
            queue.count_drops(self.index);
            queue.port = port.clone();
        }
    }

    /// Frames wait that another lane of this worker has sent.
    pub(super) fn waits_inside(&self) -> bool {
        self.queues.iter().any(|queue| queue.local && queue.queue.local() == Some(true))
    }

    /// Counts what all queues lost since the last time.
    pub(super) fn count_drops(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.count_drops(self.index));
    }

    /// Asks every queue once, and runs what it gives. `idle`: the round had nothing else to do. Returns how many frames result,
    /// and whether a queue may have more.
    pub(super) fn round(
        &mut self,
        idle: bool,
        buffers: &mut Buffers,
        run: &mut Run,
        tx: &mut Transmit,
        now_ns: u64,
    ) -> (usize, bool) {
        let (mut received, mut more) = (0, false);
        let standby = self.what == Receiving::Standby;
        let all = standby || self.what == Receiving::All;
        for (queue, at) in self.queues.iter_mut().zip(self.rounds..) {
            if self.busy && queue.silent >= SILENT && !at.is_multiple_of(SILENT_EVERY) {
                continue;
            }
            if queue.local {
                received += queue.receive_local(standby, buffers, run, tx, now_ns);
                continue;
            }
            if !all {
                continue;
            }
            let (mut n, mut in_place) = queue.receive(standby, buffers, run, tx, now_ns);
            queue.silent = if n > 0 { 0 } else { queue.silent.saturating_add(1) };
            received += n;
            for _ in 1..self.bursts_max {
                if n < BURST_MAX || !in_place {
                    break;
                }
                tx.flush(true, now_ns);
                (n, in_place) = queue.receive(standby, buffers, run, tx, now_ns);
                received += n;
            }
            more |= n == BURST_MAX;
        }
        self.busy = received > 0;
        // A queue that gave fewer frames than it was asked for was asked what it lost; others, when there is nothing
        // better to do, or it has been a while.
        self.rounds = self.rounds.wrapping_add(1);
        if idle && received == 0 || self.rounds.is_multiple_of(DROPS_EVERY) {
            self.count_drops();
        }
        (received, more)
    }

    /// Adds the descriptors that tell of frames, and says when a queue is to be asked without one: at once, if it has some.
    pub(super) fn wait_for<'a>(&'a self, fds: &mut Vec<PollFd<'a>>, now_ns: u64) -> Option<u64> {
        let mut until_ns: Option<u64> = None;
        let asked = |queue: &&Queue| match self.what {
            Receiving::All | Receiving::Standby => true,
            Receiving::Inside => queue.local,
            Receiving::Nothing => false,
        };
        for queue in self.queues.iter().filter(asked) {
            let at = match (queue.state, queue.queue.fd()) {
                (_, None) if queue.local && queue.queue.local() == Some(false) => continue,
                _ if queue.local && queue.queue.local() == Some(true) => now_ns,
                (State::Ended, _) => continue,
                (State::Retry(at), _) => at,
                (State::Open, None) => now_ns.saturating_add(POLL_INTERVAL_NS),
                (State::Open, Some(fd)) => {
                    fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
                    continue;
                }
            };
            until_ns = Some(until_ns.map_or(at, |until| until.min(at)));
        }
        until_ns
    }
}

impl Queue {
    /// As [`receive`](Self::receive), from a queue that another lane of this worker fills: all that is sent of the burst has
    /// been given to its queues before and behind it. Returns how many frames result.
    fn receive_local(
        &mut self,
        standby: bool,
        buffers: &mut Buffers,
        run: &mut Run,
        tx: &mut Transmit,
        now_ns: u64,
    ) -> usize {
        if self.queue.local() == Some(false) {
            return 0;
        }
        tx.hand_over_batches();
        let (n, _) = self.receive(standby, buffers, run, tx, now_ns);
        tx.hand_over_batches();
        self.queue.done();
        n
    }

    /// Counts what the queue lost since the last time.
    fn count_drops(&mut self, worker: usize) {
        let drops = self.queue.drops();
        if drops != self.drops {
            self.port.cell(worker).set_rx_drops(&self.drops, &drops);
            self.drops = drops;
        }
    }

    /// Drops what of a burst is beyond the port's rates.
    #[cold]
    fn police(&mut self, buffers: &mut Buffers, run: &mut Run, tx: &mut Transmit, now_ns: u64) {
        let Some(policer) = self.port.policer() else { return };
        let Buffers { frames, borrowed, .. } = buffers;
        borrowed.become_frames(frames);
        let (mut kept, mut beyond) = (Burst::new(), Burst::new());
        for frame in frames.drain() {
            let to = match policer.admits(now_ns, frame.len() as u64) {
                true => &mut kept,
                false => &mut beyond,
            };
            // A part of a burst fits into one.
            drop(to.push(frame));
        }
        for frame in kept.drain() {
            drop(frames.push(frame));
        }
        if !beyond.is_empty() {
            let (n, bytes) = (beyond.len(), beyond.frames().iter().map(Frame::len).sum::<usize>());
            let cell = self.port.cell(run.index);
            cell.count_rx(n as u64, self.port.octets(n, bytes));
            cell.count_drop(DropReason::Policed, n as u64);
            run.watch.begin(self.port.number, n, now_ns);
            run.refuse(&beyond, &self.port, DropReason::Policed, now_ns);
            beyond.drain().for_each(|frame| tx.pool.give(frame));
        }
    }

    /// Takes a burst and runs it. Returns how many frames result, and whether compiled code has forwarded or dropped all of
    /// them where they lay.
    fn receive(
        &mut self,
        standby: bool,
        buffers: &mut Buffers,
        run: &mut Run,
        tx: &mut Transmit,
        now_ns: u64,
    ) -> (usize, bool) {
        match self.state {
            State::Open => {}
            State::Retry(at) if at <= now_ns => {}
            State::Retry(_) | State::Ended => return (0, false),
        }
        let Buffers { frames, borrowed, .. } = buffers;
        borrowed.set_in_port(self.port.ingress());
        let result = self.queue.rx_borrowed(borrowed, frames, &mut tx.pool);
        let state = match &result {
            Ok(_) => State::Open,
            Err(RxError::Ended | RxError::Pcap(_)) => State::Ended,
            Err(RxError::Down | RxError::Gone | RxError::Io(_)) => {
                State::Retry(now_ns.saturating_add(RETRY_NS))
            }
        };
        if let Err(error) = result
            && self.state == State::Open
        {
            let (port, ended) = (&self.port.name, state == State::Ended);
            tracing::info!(%port, %error, ended, "nothing is received");
        }
        self.state = state;
        let n = frames.len() + borrowed.len();
        if n == 0 {
            return (0, false);
        }
        // One that gives all it is asked for is asked what it lost now and then only.
        if n < BURST_MAX {
            self.count_drops(run.index);
        }
        if self.port.flags().has(PortFlags::POLICED) {
            self.police(buffers, run, tx, now_ns);
        }
        let Buffers { frames, borrowed, .. } = buffers;
        let n = frames.len() + borrowed.len();
        let port = &self.port;
        let cell = port.cell(run.index);
        let refuses = match standby {
            true => Some(DropReason::Standby),
            false => (port.flags().has(PortFlags::NO_RECEIVE)).then_some(DropReason::PortNoReceive),
        };
        run.watch.begin(port.number, n, now_ns);
        if !borrowed.is_empty() && refuses.is_none() && run.takes_borrowed(n) {
            cell.count_rx(n as u64, port.octets(n, borrowed.sizes().bytes as usize));
            return (n, run.run_borrowed(buffers, port, tx, now_ns));
        }
        borrowed.become_frames(frames);
        let bytes: usize = frames.frames().iter().map(Frame::len).sum();
        cell.count_rx(n as u64, port.octets(n, bytes));
        if let Some(reason) = refuses {
            cell.count_drop(reason, n as u64);
            run.refuse(frames, port, reason, now_ns);
            frames.drain().for_each(|frame| tx.pool.give(frame));
        } else {
            run.run_frames(buffers, port, tx, now_ns);
        }
        (n, false)
    }
}
