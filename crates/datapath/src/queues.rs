//! A port's egress queues: their rates, and who goes first.
//!
//! A frame leaves by the queue that the pipeline chose (OpenFlow's `set_queue`, `enqueue`), or by
//! queue 0, which every port has. Queues share what the port may send, as Linux's HTB and OVS's
//! `linux-htb` share it:
//!
//! 1. A queue below its `min` rate goes before those that had theirs.
//! 2. What is left goes to the queue of the least `priority` that wants it;
//! 3. among equals, in proportion to their `weight` (start-time fair queueing: Goyal, Vin, Cheng,
//!    SIGCOMM 1996);
//! 4. nobody exceeds its own `max`, nor all of them the port's.
//!
//! A queue waits only for rates: where neither the queue nor the port has a `max`, frames pass
//! through, in this order within a burst. Who wants priorities to count gives the port the rate of
//! its line.
//!
//! [`Queues`] is what workers and control side share: configuration, token buckets, counters.
//! [`Shaper`] is one worker's: the frames that wait. Rates hold over all workers together, since the
//! buckets are shared; order is each worker's own. The buckets are the one thing that workers write
//! in common, and only for ports that have queues: other ports do not come here at all.
//!
//! Invariants: a frame is in one queue, or sent, or counted under a reason at its queue and port; a
//! queue holds at most `limit` frames per worker; no queue that may send waits for ever, whatever
//! the others of its priority do.
//! Cost: a frame, one look at each queue that holds frames; no allocation once a queue has been at
//! its fullest.
//! Checked by: the unit tests below; `tests/worker.rs`; `lab/qos` with real traffic.

mod dscp;
mod spec;

pub use spec::{Change, Of, PortRef, Setting, SpecError};

use crate::bucket::Bucket;
use crate::ports::PortCell;
use abi::counters::bump;
use crossbeam_utils::CachePadded;
use port::{DropReason, Frame, Pool, TxQueue};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames that a queue holds per worker unless its configuration says otherwise.
pub const LIMIT: usize = 1000;
/// The queue of frames for which none was chosen, or one that is not there.
pub const DEFAULT: u32 = 0;

/// One queue as configured. Rates are in bits per second of frames, from the Ethernet header on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its number.
    pub id: u32,
    /// Guaranteed.
    pub min_bps: Option<u64>,
    /// Not exceeded.
    pub max_bps: Option<u64>,
    /// The least goes first; 0 unless given.
    pub priority: u32,
    /// Share among queues of one priority; 1 unless given.
    pub weight: u32,
    /// Bytes that may leave at once after a silence; if not given, a millisecond's worth of each
    /// rate, and 16 KiB at least.
    pub burst_bytes: Option<u64>,
    /// Frames that wait, per worker; [`LIMIT`] unless given.
    pub limit: usize,
    /// IP packets that leave by it have this DSCP; as they are unless given.
    pub dscp: Option<u8>,
}

impl QueueConfig {
    /// A queue without rates.
    pub fn new(id: u32) -> QueueConfig {
        let (priority, weight, limit) = (0, 1, LIMIT);
        let (min_bps, max_bps, burst_bytes, dscp) = (None, None, None, None);
        QueueConfig { id, min_bps, max_bps, priority, weight, burst_bytes, limit, dscp }
    }
}

/// A port's queues as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuesConfig {
    /// What the port sends in all is not above this, in bits per second.
    pub max_bps: Option<u64>,
    /// As [`QueueConfig::burst_bytes`], of the port's rate.
    pub burst_bytes: Option<u64>,
    /// By ascending number. Without an entry, [`DEFAULT`] is there all the same.
    pub queues: Vec<QueueConfig>,
}

impl QueuesConfig {
    /// Whether there is nothing to shape.
    pub fn is_empty(&self) -> bool {
        self.max_bps.is_none() && self.queues.is_empty()
    }
}

/// What one worker sent by a queue.
#[derive(Debug, Default)]
struct QueueCell {
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    tx_errors: AtomicU64,
}

/// A queue's counters, summed over workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Frames sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames dropped: the queue was full, or the port did not take them.
    pub tx_errors: u64,
}

#[derive(Debug)]
struct Queue {
    config: QueueConfig,
    min: Option<Bucket>,
    max: Option<Bucket>,
    cells: Box<[CachePadded<QueueCell>]>,
    /// What another process had counted.
    before: QueueCell,
}

/// A port's queues, as control side and workers share them.
#[derive(Debug)]
pub struct Queues {
    config: QueuesConfig,
    max: Option<Bucket>,
    /// By ascending number; the first is [`DEFAULT`].
    queues: Box<[Queue]>,
    /// When they were configured, in nanoseconds of the switch's clock.
    pub since_ns: u64,
    /// How long they had been there in a process before this one, in nanoseconds.
    before_ns: AtomicU64,
}

impl Queues {
    /// Queues for so many workers, with zero counters.
    pub fn new(config: QueuesConfig, workers: usize, since_ns: u64) -> Queues {
        let mut all = config.queues.clone();
        if all.iter().all(|queue| queue.id != DEFAULT) {
            all.push(QueueConfig::new(DEFAULT));
        }
        all.sort_by_key(|queue| queue.id);
        let queue = |config: QueueConfig| Queue {
            min: config.min_bps.map(|bps| Bucket::new(bps, config.burst_bytes)),
            max: config.max_bps.map(|bps| Bucket::new(bps, config.burst_bytes)),
            cells: (0..workers).map(|_| CachePadded::default()).collect(),
            before: QueueCell::default(),
            config,
        };
        Queues {
            max: config.max_bps.map(|bps| Bucket::new(bps, config.burst_bytes)),
            queues: all.into_iter().map(queue).collect(),
            config,
            since_ns,
            before_ns: AtomicU64::new(0),
        }
    }

    /// How long they have been there.
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        let before_ns = self.before_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(self.since_ns).saturating_add(before_ns)
    }

    /// They had been there so long in another process.
    pub fn carry_age(&self, before_ns: u64) {
        self.before_ns.store(before_ns, Ordering::Relaxed);
    }

    /// A queue goes on from what another process has counted of it; false if there is none of this number.
    pub fn carry(&self, id: u32, counted: &QueueCounters) -> bool {
        let found = self.queues.binary_search_by_key(&id, |queue| queue.config.id);
        let Ok(at) = found else { return false };
        let before = &self.queues[at].before;
        before.tx_packets.fetch_add(counted.tx_packets, Ordering::Relaxed);
        before.tx_bytes.fetch_add(counted.tx_bytes, Ordering::Relaxed);
        before.tx_errors.fetch_add(counted.tx_errors, Ordering::Relaxed);
        true
    }

    /// What was configured.
    pub fn config(&self) -> &QueuesConfig {
        &self.config
    }

    /// Every queue and what it counted, by ascending number.
    pub fn counters(&self) -> impl Iterator<Item = (&QueueConfig, QueueCounters)> {
        self.queues.iter().map(|queue| {
            let sum = |of: fn(&QueueCell) -> &AtomicU64| {
                let own = queue.cells.iter().map(|cell| of(cell).load(Ordering::Relaxed));
                own.sum::<u64>() + of(&queue.before).load(Ordering::Relaxed)
            };
            let counters = QueueCounters {
                tx_packets: sum(|cell| &cell.tx_packets),
                tx_bytes: sum(|cell| &cell.tx_bytes),
                tx_errors: sum(|cell| &cell.tx_errors),
            };
            (&queue.config, counters)
        })
    }

    /// The place of the queue that a frame leaves by.
    fn place(&self, id: u32) -> usize {
        self.queues.binary_search_by_key(&id, |queue| queue.config.id).unwrap_or(0)
    }
}

/// Frames that wait in one queue.
#[derive(Default)]
struct Waiting {
    frames: VecDeque<Frame>,
    /// When the first of them is due by fair shares: bytes sent over weight, scaled.
    start: u64,
}

/// Scale of [`Waiting::start`].
const SHARE: u64 = 1 << 16;

/// One worker's part of a port's queues.
pub(crate) struct Shaper {
    queues: Arc<Queues>,
    worker: usize,
    waiting: Box<[Waiting]>,
    /// Frames that wait in all of them.
    count: usize,
    /// The start of what was sent last.
    served: u64,
}

impl Shaper {
    pub(crate) fn new(queues: Arc<Queues>, worker: usize) -> Shaper {
        let waiting = queues.queues.iter().map(|_| Waiting::default()).collect();
        Shaper { queues, worker, waiting, count: 0, served: 0 }
    }

    /// Frames that wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Takes a frame for a queue, or for the default one if that is not there. `Err`: it was full;
    /// the frame went back to the pool and is counted at the queue.
    pub(crate) fn push(
        &mut self,
        id: u32,
        mut frame: Frame,
        pool: &mut Pool,
    ) -> Result<(), DropReason> {
        let at = self.queues.place(id);
        let (queue, waiting) = (&self.queues.queues[at], &mut self.waiting[at]);
        if waiting.frames.len() >= queue.config.limit {
            bump(&queue.cells[self.worker].tx_errors, 1);
            pool.give(frame);
            return Err(DropReason::TxQueueFull);
        }
        if waiting.frames.is_empty() {
            waiting.start = waiting.start.max(self.served);
        }
        if let Some(dscp) = queue.config.dscp {
            dscp::mark(frame.data_mut(), dscp);
        }
        waiting.frames.push_back(frame);
        self.count += 1;
        Ok(())
    }

    /// Hands on what may go now, in order. Returns when to come again, if frames are left.
    pub(crate) fn run(
        &mut self,
        now_ns: u64,
        tx: &mut dyn TxQueue,
        pool: &mut Pool,
        cell: &PortCell,
    ) -> Option<u64> {
        while self.count > 0 {
            if let Some(ready) = self.queues.max.as_ref().map(Bucket::ready_ns)
                && ready > now_ns
            {
                return Some(ready);
            }
            let at = match self.choose(now_ns) {
                Ok(at) => at,
                Err(ready) => return Some(ready),
            };
            let (queue, waiting) = (&self.queues.queues[at], &mut self.waiting[at]);
            let Some(frame) = waiting.frames.pop_front() else { continue };
            self.count -= 1;
            let bytes = frame.len() as u64;
            self.served = waiting.start;
            waiting.start += bytes * SHARE / u64::from(queue.config.weight.max(1));
            let buckets = [&queue.min, &queue.max, &self.queues.max];
            buckets.into_iter().flatten().for_each(|bucket| bucket.charge(now_ns, bytes));
            let counts = &queue.cells[self.worker];
            match tx.tx_owned(frame, pool) {
                Ok(()) => {
                    bump(&counts.tx_packets, 1);
                    bump(&counts.tx_bytes, bytes);
                }
                Err(reason) => {
                    bump(&counts.tx_errors, 1);
                    cell.count_tx_drop(reason, 1);
                }
            }
        }
        None
    }

    /// The queue whose turn it is, or when the first will have one.
    fn choose(&self, now_ns: u64) -> Result<usize, u64> {
        let mut best = None;
        let mut soonest = u64::MAX;
        for (at, (queue, waiting)) in self.queues.queues.iter().zip(&self.waiting).enumerate() {
            if waiting.frames.is_empty() {
                continue;
            }
            let ready = queue.max.as_ref().map_or(0, Bucket::ready_ns);
            if ready > now_ns {
                soonest = soonest.min(ready);
                continue;
            }
            let owed = queue.min.as_ref().is_some_and(|min| min.ready_ns() <= now_ns);
            // Among those that are owed their least rate, too, priority goes before share.
            let rank = (!owed, queue.config.priority, waiting.start, at);
            if best.is_none_or(|best| rank < best) {
                best = Some(rank);
            }
        }
        best.map(|(.., at)| at).ok_or(soonest)
    }

    /// Hands on all that waits, whatever the rates: the port has no queues any more.
    pub(crate) fn release(&mut self, tx: &mut dyn TxQueue, pool: &mut Pool, cell: &PortCell) {
        for frame in self.waiting.iter_mut().flat_map(|waiting| waiting.frames.drain(..)) {
            if let Err(reason) = tx.tx_owned(frame, pool) {
                cell.count_tx_drop(reason, 1);
            }
        }
        self.count = 0;
    }

    /// Gives up what waits: how many frames.
    pub(crate) fn discard(&mut self, pool: &mut Pool) -> u64 {
        let mut count = 0;
        for (queue, waiting) in self.queues.queues.iter().zip(&mut self.waiting) {
            bump(&queue.cells[self.worker].tx_errors, waiting.frames.len() as u64);
            for frame in waiting.frames.drain(..) {
                pool.give(frame);
                count += 1;
            }
        }
        self.count = 0;
        count
    }

    /// Moves what waits to other queues of the port; those that find theirs full are counted there.
    /// Returns how many did not fit.
    pub(crate) fn move_to(&mut self, other: &mut Shaper, pool: &mut Pool) -> u64 {
        let mut lost = 0;
        for (queue, waiting) in self.queues.queues.iter().zip(&mut self.waiting) {
            for frame in waiting.frames.drain(..) {
                lost += u64::from(other.push(queue.config.id, frame, pool).is_err());
            }
        }
        self.count = 0;
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::TxReport;

    /// A line that takes all, or nothing.
    #[derive(Default)]
    struct Sink {
        refuses: bool,
        frames: Vec<(u8, usize)>,
    }

    impl TxQueue for Sink {
        fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
            if self.refuses {
                return Err(DropReason::TxRingFull);
            }
            self.frames.push((frame.data()[0], frame.len()));
            Ok(())
        }

        fn flush(&mut self) -> TxReport {
            TxReport::default()
        }
    }

    const MS: u64 = 1_000_000;

    fn config(settings: &[&str]) -> QueuesConfig {
        let mut config = QueuesConfig::default();
        for text in settings {
            let setting = Setting::parse(text).expect("it is right");
            config.set(setting.of).expect("it fits");
        }
        config
    }

    /// Keeps queues full for so long; how many bytes each sent.
    fn saturated(settings: &[&str], ids: &[u32], ms: u64, len: usize) -> Vec<u64> {
        let queues = Arc::new(Queues::new(config(settings), 1, 0));
        let mut shaper = Shaper::new(queues, 0);
        let (mut pool, mut sink, cell) = (Pool::new(), Sink::default(), PortCell::default());
        let mut now_ns = 0;
        while now_ns < ms * MS {
            for id in ids {
                while shaper.waiting[shaper.queues.place(*id)].frames.len() < 100 {
                    let frame = pool.copy_of(&vec![*id as u8; len]);
                    assert_eq!(shaper.push(*id, frame, &mut pool), Ok(()));
                }
            }
            let due = shaper.run(now_ns, &mut sink, &mut pool, &cell).expect("frames are left");
            assert!(due > now_ns, "it would turn for ever");
            now_ns = due;
        }
        let of = |id: u32| sink.frames.iter().filter(move |(tag, _)| u32::from(*tag) == id);
        ids.iter().map(|id| of(*id).map(|(_, len)| *len as u64).sum()).collect()
    }

    /// Bytes in so many milliseconds at so many bits per second, within 4 percent or a burst.
    fn assert_rate(bytes: u64, bps: u64, ms: u64) {
        let expected = bps / 8 * ms / 1000;
        let off = bytes.abs_diff(expected);
        assert!(off <= expected / 25 + 20_000, "{bytes} bytes, {expected} expected");
    }

    #[test]
    fn a_port_keeps_to_its_rate() {
        for (setting, bps, ms) in [
            ("p,max=64k", 64_000, 20_000),
            ("p,max=10M", 10_000_000, 2_000),
            ("p,max=40G,burst=16384", 40_000_000_000, 4),
        ] {
            assert_rate(saturated(&[setting], &[0], ms, 1000)[0], bps, ms);
        }
    }

    #[test]
    fn queues_keep_to_their_rates() {
        let sent = saturated(&["p:1,max=2M", "p:2,max=5M"], &[1, 2], 2000, 700);
        assert_rate(sent[0], 2_000_000, 2000);
        assert_rate(sent[1], 5_000_000, 2000);
    }

    #[test]
    fn equals_share_by_weight() {
        let sent = saturated(&["p,max=8M", "p:1", "p:2,weight=3"], &[1, 2], 4000, 300);
        assert_rate(sent[0], 2_000_000, 4000);
        assert_rate(sent[1], 6_000_000, 4000);
    }

    #[test]
    fn what_nobody_else_wants_is_anyones() {
        let all = ["p,max=8M", "p:1,min=1M", "p:2,weight=3,min=6M"];
        assert_rate(saturated(&all, &[1], 2000, 300)[0], 8_000_000, 2000);
    }

    #[test]
    fn the_least_priority_goes_first_after_what_is_guaranteed() {
        let all = ["p,max=10M", "p:1,priority=1", "p:2,priority=2,min=3M", "p:3,priority=3"];
        let sent = saturated(&all, &[1, 2, 3], 4000, 500);
        assert_rate(sent[0], 7_000_000, 4000);
        assert_rate(sent[1], 3_000_000, 4000);
        assert_rate(sent[2], 0, 4000);
        // A ceiling on the first leaves the rest to the next.
        let all = ["p,max=10M", "p:1,priority=1,max=4M", "p:2,priority=2"];
        let sent = saturated(&all, &[1, 2], 4000, 500);
        assert_rate(sent[0], 4_000_000, 4000);
        assert_rate(sent[1], 6_000_000, 4000);
    }

    #[test]
    fn frames_of_a_queue_keep_their_order() {
        let queues = Arc::new(Queues::new(config(&["p,max=1M", "p:4"]), 1, 0));
        let mut shaper = Shaper::new(queues, 0);
        let (mut pool, mut sink, cell) = (Pool::new(), Sink::default(), PortCell::default());
        for n in 0..200u8 {
            let frame = pool.copy_of(&[n; 400]);
            let id = if n % 2 == 0 { 4 } else { 9 };
            assert_eq!(shaper.push(id, frame, &mut pool), Ok(()));
        }
        let mut now_ns = 0;
        while let Some(due) = shaper.run(now_ns, &mut sink, &mut pool, &cell) {
            now_ns = due;
        }
        let tags = |odd: u8| sink.frames.iter().map(|(tag, _)| *tag).filter(move |n| n % 2 == odd);
        assert!(tags(0).is_sorted() && tags(1).is_sorted() && sink.frames.len() == 200);
        // Queue 9 is not there: its frames were the default's.
        let counted: Vec<_> = shaper.queues.counters().map(|(q, c)| (q.id, c.tx_packets)).collect();
        assert_eq!(counted, [(0, 100), (4, 100)]);
    }

    #[test]
    fn workers_share_a_rate() {
        let queues = Arc::new(Queues::new(config(&["p:1,max=6M"]), 2, 0));
        let mut shapers = [Shaper::new(queues.clone(), 0), Shaper::new(queues.clone(), 1)];
        let (mut pool, mut sink, cell) = (Pool::new(), Sink::default(), PortCell::default());
        for step in 0..20_000 {
            let shaper = &mut shapers[step % 2];
            while shaper.len() < 10 {
                let frame = pool.copy_of(&[1; 300]);
                assert_eq!(shaper.push(1, frame, &mut pool), Ok(()));
            }
            shaper.run(step as u64 * MS / 10, &mut sink, &mut pool, &cell);
        }
        let sent: usize = sink.frames.iter().map(|(_, len)| len).sum();
        assert_rate(sent as u64, 6_000_000, 2000);
        let (_, counters) = queues.counters().nth(1).expect("queue 1 is there");
        assert_eq!((counters.tx_packets, counters.tx_bytes), (sent as u64 / 300, sent as u64));
    }

    #[test]
    fn every_frame_is_somewhere() {
        let mut random = port::prng::Prng::new(5);
        let settings = ["p,max=3M", "p:1,limit=20,max=1M", "p:2,limit=5,priority=1,min=500k"];
        let mut shaper = Shaper::new(Arc::new(Queues::new(config(&settings), 1, 0)), 0);
        let (mut pool, mut sink, cell) = (Pool::new(), Sink::default(), PortCell::default());
        let (mut pushed, mut refused, mut now_ns) = (0u64, 0u64, 0);
        for step in 0..20_000 {
            match random.below(20) {
                0..=11 => {
                    let (id, len) = (random.below(4) as u32, 14 + random.below(1500) as usize);
                    let frame = pool.copy_of(&vec![id as u8; len]);
                    pushed += 1;
                    refused += u64::from(shaper.push(id, frame, &mut pool).is_err());
                }
                12..=17 => {
                    now_ns += random.below(1_000_000);
                    sink.refuses = random.below(4) == 0;
                    let due = shaper.run(now_ns, &mut sink, &mut pool, &cell);
                    assert!(due.is_none_or(|due| due > now_ns));
                    assert_eq!(due.is_none(), shaper.len() == 0);
                }
                18 if step % 7 == 0 => {
                    let mut new = Shaper::new(shaper.queues.clone(), 0);
                    assert_eq!(shaper.move_to(&mut new, &mut pool), 0);
                    assert_eq!(shaper.len(), 0);
                    shaper = new;
                }
                _ if step % 11 == 0 => {
                    let left = shaper.len() as u64;
                    assert_eq!(shaper.discard(&mut pool), left);
                }
                _ => {}
            }
            let waiting: usize = shaper.waiting.iter().map(|waiting| waiting.frames.len()).sum();
            assert_eq!(waiting, shaper.len());
        }
        let sum = shaper
            .queues
            .counters()
            .fold((0, 0), |(sent, lost), (_, c)| (sent + c.tx_packets, lost + c.tx_errors));
        assert_eq!(sum.0, sink.frames.len() as u64);
        assert_eq!(pushed, sum.0 + sum.1 + shaper.len() as u64);
        assert!(refused > 100 && sum.1 > refused && sum.0 > 1000, "{refused} {sum:?}");
    }
}
