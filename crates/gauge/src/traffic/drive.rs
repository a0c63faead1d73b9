//! The loop that sends on schedule and captures.

use super::capture::{Capture, Odd, SLOT_NS};
use super::live::Live;
use super::plan::{Plan, Turns};
use super::port::{DataPort, SPIN_NS};
use super::seen::Seen;
use crate::arrivals::Offsets;
use crate::clock;
use crate::error::Error;
use crate::probe::{self, Probe};
use port::{BURST_MAX, Burst, Frame, Pool, StampedBy, TxQueue};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long to look for others after the last probe has come back, in nanoseconds.
const GRACE_NS: u64 = 50_000_000;

/// Probes that are sent before the loop looks for what came; a port that sends many at once at little cost has as
/// many as are due, up to this.
const SENT_MAX: usize = 4 * BURST_MAX;

/// Up to so many probes a second the kernel is asked when each left.
pub const STAMPED_MAX_PPS: f64 = 25_000.0;

/// How often the port that sends is looked at for what came back, and the links for whether they are there.
const ASIDE_NS: u64 = 1_000_000;

/// Likewise, for links.
const LINK_NS: u64 = 100_000_000;

/// When probes are due after the start.
enum Schedule<'a> {
    Recorded(std::slice::Iter<'a, u64>),
    Made(Offsets),
}

impl Schedule<'_> {
    #[inline]
    fn next(&mut self) -> Option<u64> {
        match self {
            Schedule::Recorded(offsets) => offsets.next().copied(),
            Schedule::Made(offsets) => offsets.next(),
        }
    }
}

/// Memory that is there before the first probe: a page that the kernel finds only when it is written to would
/// hold up a burst.
fn zeroes(count: usize) -> Vec<u64> {
    let mut list = vec![std::hint::black_box(1); count];
    list.fill(0);
    list
}

/// Sends by `tx` what the plan says, and captures at `rx` what comes of it.
pub fn drive(
    tx: &mut DataPort,
    rx: &mut DataPort,
    plan: &Plan,
    live: &Live,
) -> Result<Capture, Error> {
    let stamped = plan.transmit
        && plan.rate_pps <= STAMPED_MAX_PPS
        && rx.stamps == StampedBy::Kernel
        && tx.tx.stamp_departures(true);
    let result = driven(tx, rx, plan, live, stamped);
    if stamped {
        tx.tx.stamp_departures(false);
    }
    if live.cut.load(Ordering::Acquire) {
        rx.set_link(true)?;
        // Its socket says once that the link was gone.
        drop(rx.receive(&mut Burst::new(), &mut Pool::new()));
    }
    result
}

fn driven(
    tx: &mut DataPort,
    rx: &mut DataPort,
    plan: &Plan,
    live: &Live,
    stamped: bool,
) -> Result<Capture, Error> {
    let flows = plan.flows_in_all();
    let probes = plan.probes as usize;
    let len = plan.len.min(tx.len_max());
    let mut seen = Seen {
        plan,
        live,
        capture: Capture {
            due: zeroes(probes),
            sent: zeroes(probes),
            received: zeroes(probes),
            on_wire: vec![[0; 2]; if stamped { probes } else { 0 }],
            returned: vec![false; probes],
            ..Capture::default()
        },
        newest: vec![0; flows as usize],
        flows: vec![false; flows as usize],
        received: 0,
        last_at: 0,
        expected: probe::frame(len, 0, Probe { stream: plan.stream, seq: 0, due: 0 }),
        expected_flow: None,
        heads: None,
        least: u64::MAX,
        queued_since: 0,
    };
    let mut offsets = match plan.frames.as_ref().and_then(|f| f.offsets.as_ref()) {
        Some(recorded) => Schedule::Recorded(recorded.iter()),
        None => Schedule::Made(plan.arrivals.offsets(plan.rate_pps, plan.seed)),
    };
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    let mut frame =
        Frame::copy_of(&probe::frame(len, 0, Probe { stream: plan.stream, seq: 0, due: 0 }));
    // What came in before is not of this run.
    while seen.take(rx, &mut burst, &mut pool, false)? > 0 {}
    while seen.take(tx, &mut burst, &mut pool, true)? > 0 {}
    seen.capture.odd = Odd::default();
    rx.newly_lost();
    let counted = tx.passed_in_all();
    let (mut aside_at, mut link_at, mut had_link) = (0, 0, true);
    let sent_max = if tx.sending().is_some() { SENT_MAX } else { BURST_MAX };
    let start = clock::now() + 500_000;
    let mut next = 0;
    let mut due = start + offsets.next().unwrap_or(0);
    let mut done_at = None;
    let mut flow = plan.flow(0);
    // The flow that the frame is of.
    let mut made = None;
    // The numbers of the probes that the port took, in that order, where it tells when they left.
    let mut taken: Vec<u32> = Vec::with_capacity(if stamped { probes } else { 0 });
    // Frames sent since one came.
    let mut unseen = 0;
    loop {
        let mut waiting = 0;
        if plan.interrupt.is_raised() {
            live.stop();
            return Err(Error::Interrupted);
        }
        let stopped = live.stop.load(Ordering::Acquire) || seen.capture.queued;
        if seen.capture.cut_at == 0 && live.cut.load(Ordering::Acquire) {
            seen.capture.cut_at = clock::now();
            rx.set_link(false)?;
        }
        let sending = plan.transmit && !stopped && next < probes;
        let now = clock::now();
        while sending && due <= now && next < probes && waiting < sent_max {
            let probe = Probe { stream: plan.stream, seq: next as u32, due };
            match &plan.frames {
                Some(frames) => {
                    frame.replace(&frames.frames[flow as usize]);
                    probe::stamp(frame.data_mut(), probe);
                }
                None if made == Some(flow) => probe::renumber(frame.data_mut(), probe),
                None => probe::rewrite(frame.data_mut(), flow, probe),
            }
            made = Some(flow);
            seen.capture.due[next] = due;
            seen.capture.late += u64::from(now - due > SLOT_NS);
            match tx.tx.tx(&frame) {
                Ok(()) => {
                    seen.capture.sent[next] = now;
                    if stamped {
                        taken.push(next as u32);
                    }
                }
                Err(_) => seen.capture.refused += 1,
            }
            next += 1;
            waiting += 1;
            flow = match plan.turns {
                Turns::Regular if flow + 1 == flows => 0,
                Turns::Regular => flow + 1,
                Turns::Random => plan.flow(next as u32),
            };
            due = start + offsets.next().unwrap_or(u64::MAX - start);
        }
        if waiting > 0 {
            // Probes that are refused here were counted as sent; they must not look like losses.
            seen.capture.refused += tx.tx.flush().drops.total();
            live.sent.store(next as u64, Ordering::Release);
        }
        let mut got = 0;
        loop {
            let more = seen.take(rx, &mut burst, &mut pool, false)?;
            got += more;
            // What came of a long burst is not left lying for the next one to add to.
            if more < BURST_MAX || got >= waiting {
                break;
            }
        }
        if plan.both || now.saturating_sub(aside_at) > ASIDE_NS {
            aside_at = now;
            let back = seen.take(tx, &mut burst, &mut pool, true)?;
            got += if plan.both { back } else { 0 };
        }
        if now.saturating_sub(link_at) > LINK_NS && !live.cut.load(Ordering::Acquire) {
            link_at = now;
            let has = tx.has_link() && rx.has_link();
            seen.capture.odd.link_gone += u64::from(had_link && !has);
            had_link = has;
        }
        unseen = if got > 0 { 0 } else { unseen + waiting };
        if unseen >= BURST_MAX {
            // What carries the frames may wait for this processor: a thread of the kernel's, the switch itself.
            std::thread::yield_now();
            unseen = 0;
        }
        if stamped && (got > 0 || waiting > 0) {
            departures(&mut *tx.tx, &taken, &mut seen.capture.on_wire);
        }
        if got > 0 || waiting > 0 {
            continue;
        }
        let now = clock::now();
        let done = stopped || (plan.transmit && next >= probes);
        if done {
            let expected = if plan.transmit { next } else { probes };
            let last_is_back = expected > 0 && seen.capture.received[expected - 1] != 0;
            let quiet = if last_is_back { GRACE_NS } else { plan.drain.as_nanos() as u64 };
            let quiet_since = (*done_at.get_or_insert(now)).max(seen.last_at);
            let waited = now.saturating_sub(done_at.unwrap_or(now));
            if seen.received >= expected as u64
                || now.saturating_sub(quiet_since) >= quiet
                || waited >= plan.drain_max.as_nanos() as u64
            {
                break;
            }
        }
        let idle = if sending && !done { due.saturating_sub(now) } else { 2_000_000 };
        if idle > SPIN_NS {
            // Of two ports only one can be slept on: the other is looked at soon.
            let most = if plan.both { SPIN_NS } else { 2_000_000 };
            let rest = Duration::from_nanos((idle - SPIN_NS).min(most));
            match seen.capture.cut_at {
                0 => rx.rest(rest),
                // Without a link its socket is ready all the time, to say so.
                _ => std::thread::sleep(rest),
            }
        }
    }
    if stamped {
        departures(&mut *tx.tx, &taken, &mut seen.capture.on_wire);
    }
    while seen.take(tx, &mut burst, &mut pool, true)? == BURST_MAX {}
    let mut capture = seen.capture;
    if let (Some([_, before]), Some([_, after])) = (counted, tx.passed_in_all()) {
        capture.odd.sent_by_others = after.saturating_sub(before).saturating_sub(next as u64);
    }
    capture.came_last = seen.last_at;
    capture.missed = rx.newly_lost();
    if plan.transmit {
        for list in [&mut capture.due, &mut capture.sent, &mut capture.received] {
            list.truncate(next);
        }
        capture.returned.truncate(next);
        capture.on_wire.truncate(next);
        let sent = || capture.sent.iter().copied().filter(|at| *at > 0);
        capture.sending_ns = sent().max().unwrap_or(0) - sent().min().unwrap_or(0);
    }
    Ok(capture)
}

/// Takes what the port tells of when probes left. `taken`: those that it took, in that order.
fn departures(tx: &mut dyn TxQueue, taken: &[u32], on_wire: &mut [[u64; 2]]) {
    tx.departures(&mut |number, at| {
        let seq = usize::try_from(number).ok().and_then(|number| taken.get(number));
        if let Some([left, _]) = seq.and_then(|seq| on_wire.get_mut(*seq as usize)) {
            *left = at;
        }
    });
}
