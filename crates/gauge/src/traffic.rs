//! Data ports, and one loop that sends probes on schedule and captures what comes back.
//!
//! [`drive`] runs in a thread of its own while the measuring thread talks to the switch. Each probe
//! has a time at which it is due; it is sent then, or as soon after as the loop gets to it, and never
//! left out. Latency counts from when a probe was *due*, so a sender that falls behind shows in the
//! figures rather than hiding a stall; how far it fell behind is kept, and a run in which too many
//! probes missed their slot is not believed ([`Capture::late`]).
//!
//! Sent times are taken before a probe is handed to its port, received times after a burst was
//! taken from its port: what happened in between, the switch's part included, is never told too
//! short. Time stamps are this process's, not the kernel's.

use crate::arrivals::Arrivals;
use crate::clock;
use crate::error::Error;
use crate::probe::{self, Probe};
use port::{BURST_MAX, Burst, Frame, Pool, Port, RxQueue, TxQueue, wait_readable};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A probe that leaves so much after it was due has missed its slot, in nanoseconds.
pub const SLOT_NS: u64 = 1_000_000;
/// How long to look for others after the last probe has come back, in nanoseconds.
const GRACE_NS: u64 = 50_000_000;
/// The loop sleeps only if nothing is due for so long; shorter waits are spent looking.
const SPIN_NS: u64 = 300_000;

/// A port of ours, wired to one of the switch's.
pub struct DataPort {
    /// Its name.
    pub name: String,
    /// The number of the switch's port at the other end.
    pub number: u32,
    /// What kind of port it is.
    pub kind: &'static str,
    port: Box<dyn Port>,
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    lost: u64,
}

impl DataPort {
    /// Opens the queues of a port that is wired to the switch's port `number`.
    pub fn new(name: &str, number: u32, mut port: Box<dyn Port>) -> Result<DataPort, Error> {
        let failed = |source| Error::Port { name: name.to_string(), source };
        let rx = port.rx_queue(0).map_err(failed)?;
        let tx = port.tx_queue().map_err(failed)?;
        let kind = port.info().kind;
        let name = name.to_string();
        let mut port = DataPort { name, number, kind, port, rx, tx, lost: 0 };
        port.lost = port.lost_in_all();
        Ok(port)
    }

    /// The longest probe that fits, without the frame check sequence.
    pub fn len_max(&self) -> usize {
        (self.port.info().mtu as usize + 14).min(probe::LEN_MAX)
    }

    fn lost_in_all(&mut self) -> u64 {
        self.port.kernel_stats().rx_dropped + self.rx.drops().total()
    }

    /// Frames that came to this port and were lost on our side since the last call.
    fn newly_lost(&mut self) -> u64 {
        let lost = self.lost_in_all();
        let before = std::mem::replace(&mut self.lost, lost);
        lost.saturating_sub(before)
    }
}

/// What to send and to expect.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Marks the probes of this run.
    pub stream: u16,
    /// How many, at most.
    pub probes: u32,
    /// They belong to so many flows in turn, at least one.
    pub flows: u32,
    /// Length of a frame, without the frame check sequence.
    pub len: usize,
    /// Probes a second.
    pub rate_pps: f64,
    /// How they follow each other.
    pub arrivals: Arrivals,
    /// For [`Arrivals::Poisson`].
    pub seed: u64,
    /// Whether we send them; if not, others do, and we look for them until stopped.
    pub transmit: bool,
    /// How long nothing must come at the end before what is missing counts as lost. If the last
    /// probe is back, the run ends sooner.
    pub drain: Duration,
}

/// What another thread can see of a run, and do to it.
#[derive(Debug, Default)]
pub struct Live {
    stop: AtomicBool,
    sent: AtomicU64,
    flows_seen: AtomicU64,
}

impl Live {
    /// No more probes; the run ends when those on their way are there, or the drain time is over.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Probes sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Flows of which a probe came back.
    pub fn flows_seen(&self) -> u64 {
        self.flows_seen.load(Ordering::Acquire)
    }
}

/// What happened, probe by probe: the index is the sequence number. Times by [`clock`]; 0 is never.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// When each was due.
    pub due: Vec<u64>,
    /// When each was sent; of those that the port took.
    pub sent: Vec<u64>,
    /// When each first came back.
    pub received: Vec<u64>,
    /// Copies beyond the first.
    pub duplicates: u64,
    /// Probes that came after a later one of the same flow.
    pub reordered: u64,
    /// Probes that our port refused to send.
    pub refused: u64,
    /// Frames that were lost on our side of the wire.
    pub missed: u64,
    /// Probes that left more than [`SLOT_NS`] after they were due.
    pub late: u64,
}

impl Capture {
    /// Probes sent.
    pub fn sent_count(&self) -> u64 {
        self.sent.iter().filter(|t| **t > 0).count() as u64
    }

    /// Probes that came back, each counted once.
    pub fn received_count(&self) -> u64 {
        self.received.iter().filter(|t| **t > 0).count() as u64
    }

    /// From when it was due to its coming back, of each that did, in nanoseconds.
    pub fn latencies(&self) -> impl Iterator<Item = u64> + '_ {
        let both = self.due.iter().zip(&self.received);
        both.filter(|(_, r)| **r > 0).map(|(due, r)| r.saturating_sub(*due))
    }
}

/// Sends by `tx` what the plan says, and captures at `rx` what comes of it.
pub fn drive(
    tx: &mut DataPort,
    rx: &mut DataPort,
    plan: &Plan,
    live: &Live,
) -> Result<Capture, Error> {
    let flows = plan.flows.clamp(1, probe::FLOWS_MAX);
    let probes = plan.probes as usize;
    let len = plan.len.min(tx.len_max());
    let mut capture = Capture {
        due: vec![0; probes],
        sent: vec![0; probes],
        received: vec![0; probes],
        ..Capture::default()
    };
    let mut offsets = plan.arrivals.offsets(plan.rate_pps, plan.seed);
    let mut newest = vec![0u64; flows as usize];
    let mut seen = vec![false; flows as usize];
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    let mut frame =
        Frame::copy_of(&probe::frame(len, 0, Probe { stream: plan.stream, seq: 0, due: 0 }));
    rx.newly_lost();
    let start = clock::now() + 500_000;
    let (mut next, mut received) = (0, 0u64);
    let mut due = start + offsets.next().unwrap_or(0);
    let (mut done_at, mut last_at) = (None, 0);
    loop {
        let mut waiting = 0;
        let stopped = live.stop.load(Ordering::Acquire);
        let sending = plan.transmit && !stopped && next < probes;
        while sending && next < probes && waiting < BURST_MAX {
            let now = clock::now();
            if now < due {
                break;
            }
            let flow = next as u32 % flows;
            let probe = Probe { stream: plan.stream, seq: next as u32, due };
            probe::rewrite(frame.data_mut(), flow, probe);
            capture.due[next] = due;
            capture.late += u64::from(now - due > SLOT_NS);
            match tx.tx.tx(&frame) {
                Ok(()) => capture.sent[next] = now,
                Err(_) => capture.refused += 1,
            }
            next += 1;
            waiting += 1;
            due = start + offsets.next().unwrap_or(u64::MAX - start);
        }
        if waiting > 0 {
            // Probes that are refused here were counted as sent; they must not look like losses.
            capture.refused += tx.tx.flush().drops.total();
            live.sent.store(next as u64, Ordering::Release);
        }
        let got = match rx.rx.rx(&mut burst, &mut pool) {
            Ok(got) => got,
            Err(reason) => {
                return Err(Error::Receive { name: rx.name.clone(), reason: reason.to_string() });
            }
        };
        if got > 0 {
            let now = clock::now();
            for frame in burst.frames() {
                let Some(probe) = probe::parse(frame.data()) else { continue };
                let (seq, flow) = (probe.seq as usize, (probe.seq % flows) as usize);
                if probe.stream != plan.stream || seq >= probes {
                    continue;
                }
                if capture.received[seq] != 0 {
                    capture.duplicates += 1;
                    continue;
                }
                capture.received[seq] = now;
                last_at = now;
                capture.due[seq] = probe.due;
                received += 1;
                capture.reordered += u64::from(newest[flow] > u64::from(probe.seq));
                newest[flow] = newest[flow].max(u64::from(probe.seq));
                if !std::mem::replace(&mut seen[flow], true) {
                    live.flows_seen.fetch_add(1, Ordering::AcqRel);
                }
            }
            burst.recycle(&mut pool);
            continue;
        }
        let now = clock::now();
        let done = stopped || (plan.transmit && next >= probes);
        if done {
            let expected = if plan.transmit { next } else { probes };
            let last_is_back = expected > 0 && capture.received[expected - 1] != 0;
            let quiet = if last_is_back { GRACE_NS } else { plan.drain.as_nanos() as u64 };
            let quiet_since = (*done_at.get_or_insert(now)).max(last_at);
            if received >= expected as u64 || now - quiet_since >= quiet {
                break;
            }
        }
        let idle = if sending && !done { due.saturating_sub(now) } else { 2_000_000 };
        if waiting == 0 && idle > SPIN_NS {
            let rest = Duration::from_nanos((idle - SPIN_NS).min(2_000_000));
            match rx.rx.fd() {
                Some(fd) => drop(wait_readable(fd, rest)),
                None => std::thread::yield_now(),
            }
        }
    }
    capture.missed = rx.newly_lost();
    if plan.transmit {
        for list in [&mut capture.due, &mut capture.sent, &mut capture.received] {
            list.truncate(next);
        }
    }
    Ok(capture)
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::fault::{FaultInjector, Faults};
    use port::memory;

    fn plan(probes: u32) -> Plan {
        Plan {
            stream: 3,
            probes,
            flows: 7,
            len: 60,
            rate_pps: 50_000.0,
            arrivals: Arrivals::Poisson,
            seed: 1,
            transmit: true,
            drain: Duration::from_millis(300),
        }
    }

    fn over(faults: Faults) -> Capture {
        let (a, b) = memory::cable("a", "b", memory::Config::default()).unwrap();
        let a = Box::new(FaultInjector::new(Box::new(a), faults, 5));
        let mut a = DataPort::new("a", 1, a).unwrap();
        let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
        drive(&mut a, &mut b, &plan(5000), &Live::default()).unwrap()
    }

    #[test]
    fn a_cable_loses_nothing_and_adds_up() {
        let capture = over(Faults::default());
        assert_eq!((capture.sent_count(), capture.received_count()), (5000, 5000));
        assert_eq!((capture.duplicates, capture.reordered, capture.missed), (0, 0, 0));
        assert!(capture.due.is_sorted());
        for i in 0..5000 {
            assert!(capture.due[i] <= capture.sent[i] && capture.sent[i] <= capture.received[i]);
        }
        let seconds = (capture.due[4999] - capture.due[0]) as f64 / 1e9;
        assert!((0.09..0.11).contains(&seconds), "{seconds}");
    }

    #[test]
    fn losses_copies_and_disorder_are_told_apart() {
        let capture = over(Faults { loss: 0.05, ..Faults::default() });
        assert!((100..500).contains(&(capture.sent_count() - capture.received_count())));
        assert_eq!((capture.duplicates, capture.reordered), (0, 0));
        let capture = over(Faults { duplication: 0.05, ..Faults::default() });
        assert!(capture.duplicates > 100 && capture.received_count() == 5000);
    }

    #[test]
    fn stops_when_told() {
        let (a, b) = memory::cable("a", "b", memory::Config::default()).unwrap();
        let mut a = DataPort::new("a", 1, Box::new(a)).unwrap();
        let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
        let live = Live::default();
        let plan = plan(1_000_000);
        let capture = std::thread::scope(|scope| {
            let run = scope.spawn(|| drive(&mut a, &mut b, &plan, &live));
            while live.flows_seen() < 7 {
                std::thread::sleep(Duration::from_millis(1));
            }
            live.stop();
            run.join().unwrap().unwrap()
        });
        assert!(capture.due.len() < 1_000_000);
        assert_eq!(capture.sent_count(), capture.received_count());
    }
}
