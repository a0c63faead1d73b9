//! Ports in memory that give frames as fast as they are asked for and forget those that they are given.
//!
//! A whole switch can be measured behind them: what a packet costs is the worker's processor time from the first burst
//! that it takes until it asks for more and finds nothing, so all that it has sent is flushed by then. Frames come from a
//! [`Trace`], copied to buffers of the worker's pool as a driver would.
//!
//! Holds true: a port gives as many frames as it was told to ([`Feed::give`]), then none; while it records, it keeps what
//! it is sent, in order. Cost: a copy of 64 bytes and two reads of the clock a run.

use super::trace::Trace;
use port::{
    Burst, DropReason, Error, Frame, LinkState, Pool, Port, PortInfo, RxError, RxQueue, TxQueue,
    TxReport,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{ClockId, clock_gettime};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The near end: what the bench holds.
pub(super) struct Feed {
    shared: Arc<Shared>,
}

struct Shared {
    /// The frames of the trace that are given, over and over.
    from: AtomicUsize,
    to: AtomicUsize,
    /// Frames that are still to be given. The bench sets it when it is 0; else the worker takes from it.
    left: AtomicU64,
    /// Readable while some are.
    ready: OwnedFd,
    /// All that was given has been dealt with.
    done: AtomicBool,
    /// Processor time that this took, in nanoseconds.
    spent_ns: AtomicU64,
    /// Frames sent, and what they were, if somebody wants to know.
    sent: AtomicU64,
    records: AtomicBool,
    recorded: Mutex<Vec<Vec<u8>>>,
}

/// The port that a switch is given.
struct Far {
    info: PortInfo,
    shared: Arc<Shared>,
    trace: Option<Arc<Trace>>,
}

/// A port by this name whose frames are those of a trace, in order and again from its beginning.
pub(super) fn port(name: &str, trace: Arc<Trace>) -> std::io::Result<(Box<dyn Port>, Feed)> {
    port_as(name, trace, false)
}

/// The same; frames begin with a descriptor, or not.
pub(super) fn port_as(
    name: &str,
    trace: Arc<Trace>,
    described: bool,
) -> std::io::Result<(Box<dyn Port>, Feed)> {
    let shared = Arc::new(Shared {
        from: AtomicUsize::new(0),
        to: AtomicUsize::new(0),
        left: AtomicU64::new(0),
        ready: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        done: AtomicBool::new(true),
        spent_ns: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        records: AtomicBool::new(false),
        recorded: Mutex::default(),
    });
    let number = name.bytes().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    let info = PortInfo {
        name: name.to_owned(),
        kind: "bench",
        mac: [2, 0xbe, 0, 0, 0, number],
        mtu: 1500,
        curr_speed_kbps: 10_000_000,
        carries_offload: true,
        described,
        rx_queues: 1,
        warnings: Vec::new(),
    };
    let far = Far { info, shared: shared.clone(), trace: Some(trace) };
    Ok((Box::new(far), Feed { shared }))
}

impl Feed {
    /// Has so many more frames come in, of this part of the trace, from where it was left if that is in it. All of those
    /// before have been [dealt with](Self::is_done).
    pub(super) fn give(&self, part: Range<usize>, frames: u64) {
        self.shared.from.store(part.start, Ordering::Relaxed);
        self.shared.to.store(part.end, Ordering::Relaxed);
        self.shared.done.store(frames == 0, Ordering::Release);
        self.shared.left.store(frames, Ordering::Release);
        // Full only after 2^64-1 calls that no worker has heard: then it is readable all the same.
        let _ = rustix::io::write(&self.shared.ready, &1u64.to_ne_bytes());
    }

    /// All frames that were given have been dealt with.
    pub(super) fn is_done(&self) -> bool {
        self.shared.done.load(Ordering::Acquire)
    }

    /// The worker's processor time for the last frames given.
    pub(super) fn spent(&self) -> Duration {
        Duration::from_nanos(self.shared.spent_ns.load(Ordering::Acquire))
    }

    /// Frames that were sent here so far.
    pub(super) fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Acquire)
    }

    /// Keeps what is sent here from now on, or no more.
    pub(super) fn record(&self, on: bool) {
        self.shared.records.store(on, Ordering::Release);
    }

    /// What was kept.
    pub(super) fn recorded(&self) -> Vec<Vec<u8>> {
        let mut kept = self.shared.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *kept)
    }
}

impl Port for Far {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn link(&mut self) -> LinkState {
        LinkState { admin_up: true, carrier: true, present: true }
    }

    fn set_admin(&mut self, _up: bool) -> Result<(), Error> {
        Ok(())
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.info.check_rx_queue(queue, self.trace.is_none())?;
        let trace = self.trace.take().unwrap_or_default();
        let shared = self.shared.clone();
        Ok(Box::new(Rx { shared, trace, long: Vec::new(), part: 0..0, at: 0, began: None }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        Ok(Box::new(Tx { shared: self.shared.clone(), report: TxReport::default() }))
    }
}

struct Rx {
    shared: Arc<Shared>,
    trace: Arc<Trace>,
    /// A frame of more than a line, put together.
    long: Vec<u8>,
    part: Range<usize>,
    at: usize,
    /// When the worker took the first of what it was given last; it is not done with it yet.
    began: Option<Duration>,
}

/// This thread's processor time.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let left = self.shared.left.load(Ordering::Acquire);
        if left == 0 {
            if let Some(began) = self.began.take() {
                let spent = processor_time().saturating_sub(began);
                let spent = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
                self.shared.spent_ns.store(spent, Ordering::Release);
                // Empty is what we want.
                let _ = rustix::io::read(&self.shared.ready, &mut [0u8; 8]);
                self.shared.done.store(true, Ordering::Release);
            }
            return Ok(0);
        }
        if self.began.is_none() {
            let end = self.shared.to.load(Ordering::Relaxed).min(self.trace.len());
            self.part = self.shared.from.load(Ordering::Relaxed)..end;
            if !self.part.contains(&self.at) {
                self.at = self.part.start;
            }
            self.began = Some(processor_time());
        }
        if self.part.is_empty() {
            self.shared.left.store(0, Ordering::Release);
            return Ok(0);
        }
        let n = left.min(burst.room() as u64) as usize;
        for _ in 0..n {
            let (_, len, line) = self.trace.head(self.at);
            let Some(place) = burst.add() else { break };
            *place = pool.take(len);
            if len <= line.len() {
                place.replace(&line[..len]);
            } else {
                self.long.resize(len, 0);
                self.trace.copy(self.at, &mut self.long);
                place.replace(&self.long);
            }
            self.at += 1;
            if self.at == self.part.end {
                self.at = self.part.start;
            }
        }
        self.shared.left.store(left - n as u64, Ordering::Release);
        Ok(n)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.ready.as_fd())
    }
}

struct Tx {
    shared: Arc<Shared>,
    report: TxReport,
}

impl Tx {
    #[inline]
    fn take(&mut self, frame: &Frame) {
        self.report.sent += 1;
        self.report.sent_bytes += frame.len() as u64;
        if self.shared.records.load(Ordering::Relaxed) {
            let mut kept = self.shared.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(frame.data().to_vec());
        }
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.take(frame);
        Ok(())
    }

    fn flush(&mut self) -> TxReport {
        let report = std::mem::take(&mut self.report);
        if report.sent > 0 {
            abi::counters::bump(&self.shared.sent, report.sent);
        }
        report
    }
}
