//! What a run has seen while it captures.

use super::capture::Capture;
use super::live::{Came, Live};
use super::plan::Plan;
use super::port::DataPort;
use crate::clock;
use crate::error::Error;
use crate::expect::{self, Makes};
use crate::probe::{self, Probe, Reading};
use port::{Burst, Pool, StampedBy};
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// Latencies that stay above [`Plan::queue_max`] for so long are those of a queue, and no stall of ours.
const QUEUED_NS: u64 = 100_000_000;

/// What a run has seen so far, while it captures.
pub(super) struct Seen<'a> {
    pub(super) plan: &'a Plan,
    pub(super) live: &'a Live,
    pub(super) capture: Capture,
    pub(super) newest: Vec<u64>,
    pub(super) flows: Vec<bool>,
    pub(super) received: u64,
    pub(super) last_at: u64,
    /// The frame that should come, and of which flow it is.
    pub(super) expected: Vec<u8>,
    pub(super) expected_flow: Option<u32>,
    /// The first bytes of all frames that are sent; made when one is first needed.
    pub(super) heads: Option<HashSet<[u8; 12]>>,
    /// The least latency since the run began, and since when latencies are too great.
    pub(super) least: u64,
    pub(super) queued_since: u64,
}

impl Seen<'_> {
    /// Takes all that a port has ready; how many frames there were.
    pub(super) fn take(
        &mut self,
        port: &mut DataPort,
        burst: &mut Burst,
        pool: &mut Pool,
        returned: bool,
    ) -> Result<usize, Error> {
        let got = match port.receive(burst, pool) {
            Ok(got) => got,
            // Its link was taken away by ourselves.
            Err(_) if self.capture.cut_at > 0 => 0,
            Err(reason) => {
                let (name, reason) = (port.name.clone(), reason.to_string());
                return Err(Error::Receive { name, reason });
            }
        };
        if got == 0 {
            return Ok(0);
        }
        let by_kernel = port.stamps != StampedBy::Process;
        let (now, wall) = (clock::now(), if by_kernel { port::now_ns() } else { 0 });
        let before = self.received;
        for frame in burst.frames() {
            let bytes = frame.data();
            if self.plan.filter.as_ref().is_some_and(|filter| !filter.passes(bytes)) {
                self.capture.filtered += 1;
                continue;
            }
            let age = if by_kernel { wall.saturating_sub(frame.rx_ns) } else { 0 };
            let at = now.saturating_sub(age);
            let aside = returned && !self.plan.both;
            if let Some(record) = self.plan.record.as_ref().filter(|_| !aside) {
                record.write(port::now_ns().saturating_sub(age), bytes);
            }
            let probe = self.read(bytes, aside);
            if self.live.frames && !aside {
                let probe = probe.map(|(probe, _)| (probe.seq, probe.due));
                self.tell(Came { probe, at, returned, bytes: bytes.into() });
            }
            if let Some((probe, whole)) = probe {
                if aside {
                    self.capture.odd.returned += 1;
                    continue;
                }
                let stamp = if by_kernel { frame.rx_ns } else { 0 };
                if self.one(probe, at, stamp, returned) {
                    self.judge(probe, bytes, whole);
                }
            }
        }
        burst.recycle(pool);
        if self.received > before {
            self.live.received.store(self.received, Ordering::Release);
        }
        Ok(got)
    }

    fn tell(&mut self, came: Came) {
        if let Some(captures) = &self.live.captures {
            self.capture.untold += u64::from(captures.try_send(came).is_err());
        }
    }

    /// Which probe of the run a frame is, and whether its mark was whole; what else came is counted.
    #[inline]
    fn read(&mut self, bytes: &[u8], aside: bool) -> Option<(Probe, bool)> {
        let odd = &mut self.capture.odd;
        let (probe, whole) = match probe::read(bytes) {
            Some(Reading::Ours(probe)) => (probe, true),
            Some(Reading::Damaged(probe)) => (probe, false),
            Some(Reading::Others) => {
                odd.others += u64::from(!aside);
                odd.strange_bytes += if aside { 0 } else { bytes.len() as u64 };
                return None;
            }
            None => {
                self.unread(bytes, aside);
                return None;
            }
        };
        if probe.stream != self.plan.stream {
            odd.earlier += u64::from(!aside);
            odd.strange_bytes += if aside { 0 } else { bytes.len() as u64 };
            return None;
        }
        // What we send ourselves we know by heart.
        let due = self.capture.due.get(probe.seq as usize).copied();
        let fits = match self.plan.transmit {
            true => due.is_some_and(|due| due > 0 && probe::due_told(due) == probe.due),
            false => due.is_some(),
        };
        if !fits {
            self.unread(bytes, aside);
            return None;
        }
        Some((
            Probe { due: due.filter(|_| self.plan.transmit).unwrap_or(probe.due), ..probe },
            whole,
        ))
    }

    /// A frame that is no probe: one of ours that is beyond recognition, or somebody else's.
    fn unread(&mut self, bytes: &[u8], aside: bool) {
        let plan = self.plan;
        let heads = self.heads.get_or_insert_with(|| match &plan.frames {
            Some(frames) => frames.frames.iter().filter_map(|f| f.first_chunk().copied()).collect(),
            None => {
                let probe = Probe { stream: 0, seq: 0, due: 0 };
                let own = probe::frame(probe::LEN_MIN, 0, probe);
                own.first_chunk().copied().into_iter().collect()
            }
        });
        let ours = bytes.first_chunk().is_some_and(|head: &[u8; 12]| heads.contains(head));
        let odd = &mut self.capture.odd;
        match (ours, aside) {
            (true, true) => odd.returned += 1,
            (false, true) => {}
            (true, false) => {
                odd.unreadable += 1;
                odd.looked_at += 1;
                *odd.fields.entry("mark").or_default() += 1;
            }
            (false, false) => {
                odd.foreign += 1;
                odd.strange_bytes += bytes.len() as u64;
            }
        }
    }

    /// Compares a frame with what the rule makes of it.
    #[inline]
    fn judge(&mut self, probe: Probe, came: &[u8], whole: bool) {
        self.capture.odd.looked_at += 1;
        let flow = self.plan.flow(probe.seq);
        let template = match (&self.plan.makes, &self.plan.frames) {
            (Makes::Anything, _) => {
                if !whole {
                    self.capture.odd.corrupted += 1;
                    *self.capture.odd.fields.entry("mark").or_default() += 1;
                }
                return;
            }
            (_, Some(frames)) => Some(&frames.frames[flow as usize]),
            (_, None) => None,
        };
        match template {
            Some(template) => {
                self.expected.clear();
                self.expected.extend_from_slice(template);
                probe::stamp(&mut self.expected, probe);
            }
            None if self.expected_flow == Some(flow) => probe::renumber(&mut self.expected, probe),
            None => probe::rewrite(&mut self.expected, flow, probe),
        }
        self.expected_flow = Some(flow);
        match &self.plan.makes {
            Makes::Changed(actions) => {
                let mut made = self.expected.clone();
                // Actions that nobody knows here are not judged.
                if expect::apply(actions, &mut made).is_none() || came == made {
                    return;
                }
                match came == self.expected {
                    true => self.capture.odd.undone += 1,
                    false => self.capture.odd.differs(&made, came),
                }
            }
            _ if came == self.expected => {}
            _ => self.capture.odd.differs(&self.expected, came),
        }
    }

    /// Takes note of a probe; `false` if it had come before.
    #[inline]
    fn one(&mut self, probe: Probe, at: u64, stamp: u64, returned: bool) -> bool {
        let seq = probe.seq as usize;
        let capture = &mut self.capture;
        let Some(received) = capture.received.get_mut(seq) else { return false };
        if *received != 0 {
            capture.odd.doubled += 1;
            return false;
        }
        // A clock that was set back in between must not make it "never".
        *received = at.max(probe.due).max(1);
        capture.due[seq] = probe.due;
        if let Some(most) = self.plan.queue_max {
            let took = at.saturating_sub(capture.sent.get(seq).copied().unwrap_or(at));
            self.least = self.least.min(took);
            if took <= self.least.saturating_add(most.as_nanos() as u64) {
                self.queued_since = 0;
            } else if self.queued_since == 0 {
                self.queued_since = at;
            } else if at.saturating_sub(self.queued_since) > QUEUED_NS {
                capture.queued = true;
            }
        }
        if let Some([_, came]) = capture.on_wire.get_mut(seq) {
            *came = stamp;
        }
        self.last_at = at;
        if self.received == 0 {
            capture.came_first = at;
        }
        self.received += 1;
        if returned {
            capture.returned[seq] = true;
            self.live.returned.fetch_add(1, Ordering::AcqRel);
        }
        let flow = self.plan.flow(probe.seq) as usize;
        let newest = &mut self.newest[flow];
        capture.reordered += u64::from(*newest > u64::from(probe.seq));
        *newest = u64::from(probe.seq).max(*newest);
        if !std::mem::replace(&mut self.flows[flow], true) {
            self.live.flows_seen.fetch_add(1, Ordering::AcqRel);
        }
        if self.live.captures.is_some() && !self.live.frames {
            let probe = Some((probe.seq, probe.due));
            self.tell(Came { probe, at, returned, bytes: Box::default() });
        }
        true
    }
}
