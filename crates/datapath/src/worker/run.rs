//! Run: a burst through the pipeline.
//!
//! Compiled code runs all of a burst at once, as far as it goes. What it leaves is run one packet at a time (module
//! `fallback`). Then each frame goes where its outcome says, in the order of arrival.

use super::fallback::{Fallback, Prior};
use super::transmit::{Transmit, count_lost, drop_reason};
use crate::capture::{Before, Fate, Watch};
use crate::counts::Counts;
use crate::engine::Scratch;
use crate::held::Held;
use crate::notify::{HeldBack, hold_back, notify};
use crate::ports::PortShared;
use crate::publish::Reader;
use crate::punt::PuntRing;
use crate::repeats::Repeats;
use crate::services::{Services, StartPoint};
use crate::sink::{Collector, Notes, edit};
use crate::tally::Reason;
use crate::validate::{Done, Sampler, full_copies};
use abi::{Live, Outcome, Output, Ways, status};
use ir::{DropReason, Verdict};
use port::burst::BURST_MAX;
use port::prng::Prng;
use port::{BorrowedBurst, Burst, Csum, Frame, Mark};
use smallvec::SmallVec;
use state::counters::WorkerCounters;
use std::sync::Arc;

/// A burst at hand, and room for what becomes of it.
pub(super) struct Buffers {
    /// What came as frames.
    pub(super) frames: Burst,
    /// What came in buffers of a driver's own.
    pub(super) borrowed: BorrowedBurst,
    outcomes: Vec<Outcome>,
}

impl Default for Buffers {
    fn default() -> Buffers {
        let outcomes = Vec::with_capacity(BURST_MAX);
        Buffers { frames: Burst::new(), borrowed: BorrowedBurst::new(), outcomes }
    }
}

/// The part of a lane that runs packets.
pub(super) struct Run {
    /// The worker's number.
    pub(super) index: usize,
    /// The version that packets run by.
    pub(super) version: Reader,
    pub(super) services: Services,
    pub(super) scratch: Scratch,
    pub(super) counters: WorkerCounters,
    pub(super) random: Prng,
    pub(super) punts: PuntRing,
    pub(super) repeats: Repeats,
    pub(super) held: Held,
    /// Packets of the last burst had messages.
    pub(super) tells: bool,
    /// What the packet at hand sends.
    pub(super) notes: Notes,
    pub(super) fallback: Fallback,
    pub(super) sampler: Option<Sampler>,
    /// Captures.
    pub(super) watch: Watch,
}

impl Run {
    /// Frames may run where their driver has them: nobody looks at them, and none is a sample to be checked. If so, they are
    /// counted for the sampler.
    #[inline]
    pub(super) fn takes_borrowed(&mut self, n: usize) -> bool {
        self.watch.is_off() && self.sampler.as_mut().is_none_or(|sampler| sampler.passes(n))
    }

    /// Runs packets through compiled code, as far as there is some. `csums` and `marks` are what ports
    /// report of them, if anybody wants to know.
    #[inline]
    fn run_code(
        &mut self,
        packets: &mut [abi::Packet<'_>],
        csums: &[Csum],
        marks: &[Mark],
        (live, ways): (&Live, Ways<'_>),
        now_ns: u64,
    ) {
        let held = self.version.get();
        let mut serving = self.services.serve(csums, now_ns).marked(marks);
        let (state, counters) = (held.forward.state(), &self.counters);
        let outside = (&mut serving as &mut _, &mut self.random as &mut _);
        let mut counts = Counts::new(self.index, state, counters, outside, live, now_ns)
            .once(&mut self.repeats, &mut self.held)
            .dealing(ways);
        held.forward.burst(&mut self.scratch, packets, &mut counts, now_ns);
        held.forward.tally().count_given(self.index, packets.len());
    }

    /// Runs frames that are still their driver's, and that nobody looks at. Where all are dropped or go to one
    /// port each, as they lie, which is nearly always, no frame is made of them: that is most of what a worker
    /// spends on a packet. The same as [`run_frames`](Self::run_frames) otherwise. True if it was so for all of them, by
    /// compiled code alone.
    #[inline(never)]
    pub(super) fn run_borrowed(
        &mut self,
        buffers: &mut Buffers,
        from: &Arc<PortShared>,
        tx: &mut Transmit,
        now_ns: u64,
    ) -> bool {
        let Buffers { frames, borrowed, outcomes } = buffers;
        let mut csums: SmallVec<[Csum; BURST_MAX]> = SmallVec::new();
        // Where the device has reported nothing, nothing is known.
        if borrowed.vouches() && !self.services.is_empty() {
            csums.extend(borrowed.csums());
        }
        self.begin_messages(true, from, now_ns);
        borrowed.show_to(tx.places(), |packets, ways| {
            self.run_code(packets, &csums, &[], (tx.ports.live(), ways), now_ns);
            self.end_messages(packets, from);
        });
        if let Some(dealt) = self.scratch.code.dealt() {
            if tx.deal_as(borrowed, dealt, from) {
                return true;
            }
            borrowed.forget_dealt(dealt);
        }
        let left = borrowed.show(|packets| {
            if self.scratch.code.tells() {
                self.hold_back(packets, from, now_ns);
            }
            self.run_fallback(packets, &csums, from, &tx.ports, now_ns)
        });
        let dealt = tx.deal(borrowed, from);
        if borrowed.is_empty() {
            return !left;
        }
        outcomes.extend(borrowed.outcomes().copied());
        borrowed.become_frames(frames);
        frames.frames_mut().iter_mut().for_each(|frame| frame.rx_port = from.ingress());
        self.conclude(frames, (outcomes, dealt), from, None, tx, now_ns);
        outcomes.clear();
        false
    }

    /// Runs received frames: what compiled code does all at once, what it leaves one by one, and all
    /// of them leave in the order in which they result.
    pub(super) fn run_frames(
        &mut self,
        buffers: &mut Buffers,
        from: &Arc<PortShared>,
        tx: &mut Transmit,
        now_ns: u64,
    ) {
        let Buffers { frames: burst, outcomes, .. } = buffers;
        tx.hand_over_batches();
        let before = match self.watch.is_off() {
            true => None,
            false => self.watch.before(burst.frames(), from, &self.counters),
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
        let in_port = from.ingress();
        packets.extend(burst.frames_mut().iter_mut().map(|frame| {
            frame.rx_port = in_port;
            at_rest &= !matches!(frame.offload.csum, Csum::Partial { .. });
            let (buffer, start, len) = frame.parts_mut();
            abi::Packet::new(buffer, start, len, in_port)
        }));
        // Who looks at frames sees what is held back of each.
        let seen = before.is_some() || picked.is_some() || !self.watch.is_off();
        self.begin_messages(!seen, from, now_ns);
        self.run_code(&mut packets, &csums, &marks, (tx.ports.live(), Ways::none()), now_ns);
        self.end_messages(&mut packets, from);
        if at_rest {
            self.run_fallback(&mut packets, &csums, from, &tx.ports, now_ns);
        }
        outcomes.extend(packets.iter().map(|packet| **packet));
        drop(packets);
        if let (Some(picked), Some(sampler), Some(held)) =
            (picked, &self.sampler, self.version.held())
            && let outcome = &outcomes[picked.at]
            && let Some(verdict) = self.scratch.code.verdict(picked.at, outcome)
            && !self.scratch.code.was_edited(picked.at)
        {
            let answers = self.scratch.code.said(picked.at);
            let (buffer, start, len) = burst.frames_mut()[picked.at].parts_mut();
            let copies = self.scratch.code.copies(picked.at, outcome);
            let done = Done {
                verdict,
                copies: full_copies(outcome, copies, (buffer, start, len)),
                answers,
            };
            sampler.take(picked, &held.forward, in_port, now_ns, done);
        }
        self.conclude(burst, (outcomes, 0), from, before, tx, now_ns);
        outcomes.clear();
    }

    /// Reports to captures that a burst was dropped as it came in.
    pub(super) fn refuse(
        &mut self,
        burst: &Burst,
        from: &PortShared,
        reason: DropReason,
        now_ns: u64,
    ) {
        if self.watch.is_off() {
            return;
        }
        let before = self.watch.before(burst.frames(), from, &self.counters);
        let held = self.version.get();
        if let Some(mut before) = before {
            let dropped = smallvec::smallvec![(reason.word(), None)];
            let fate = Fate { dropped, ..Fate::default() };
            (0..burst.len()).for_each(|at| before.became(at, fate.clone()));
            self.watch.after(before, &*held.forward, &self.counters, now_ns);
        }
    }

    /// Does with the frames of a burst what compiled code has decided, and runs those that it has left. The burst
    /// is empty then. It may be the rest of one, of which so many frames are gone.
    fn conclude(
        &mut self,
        burst: &mut Burst,
        (outcomes, gone): (&[Outcome], usize),
        from: &Arc<PortShared>,
        mut before: Option<Before>,
        tx: &mut Transmit,
        now_ns: u64,
    ) {
        let plain = before.is_none() && self.watch.is_off();
        // Frames stay where they lie as long as they can: to move one costs as much as to send it.
        for (at, (frame, outcome)) in burst.frames_mut().iter_mut().zip(outcomes).enumerate() {
            match outcome.status {
                status::FORWARD if plain && outcome.outputs_len == 1 => {
                    self.forward_once(frame, outcome, from, tx, now_ns);
                }
                status::FORWARD => {
                    edit(frame, outcome.shift, outcome.changed != 0);
                    self.forward(frame.take(), outcome.outputs(), from, tx, now_ns);
                }
                status::DROP => {
                    count_lost(from, self.index, outcome.reason, 1);
                    tx.pool.give(frame.take());
                    if before.is_some() {
                        self.watch.note_drop(drop_reason(outcome.reason).word(), None);
                    }
                }
                _ => self.conclude_other(frame, outcome, gone + at, from, tx, now_ns),
            }
            match &mut before {
                Some(before) => before.became(at, self.watch.take_fate()),
                None if plain => {}
                // Nobody asks what became of it, and of the next frame it is not to be reported.
                None => drop(self.watch.take_fate()),
            }
        }
        burst.clear();
        if let (Some(before), Some(held)) = (before, self.version.held()) {
            self.watch.after(before, &*held.forward, &self.counters, now_ns);
        }
        if !self.watch.is_off() {
            self.watch.settle();
        }
    }

    /// The same for one frame that has copies or messages, or that compiled code has left. It was the packet at this place.
    fn conclude_other(
        &mut self,
        frame: &mut Frame,
        outcome: &Outcome,
        at: usize,
        from: &Arc<PortShared>,
        tx: &mut Transmit,
        now_ns: u64,
    ) {
        match outcome.status {
            status::COPIES => {
                let copies = self.scratch.code.copies(at, outcome);
                self.notes.send_all(frame, outcome, copies);
                self.finish(frame.take(), from, tx, now_ns);
            }
            status::TOLD => {
                self.notify(frame, outcome, at, from, now_ns);
                match self.scratch.code.verdict(at, outcome) {
                    Some(Verdict::Drop(reason)) => {
                        from.cell(self.index).count_drop(reason, 1);
                        if !self.watch.is_off() {
                            self.watch.note_drop(reason.word(), None);
                        }
                    }
                    _ => {
                        let copies = self.scratch.code.copies(at, outcome);
                        self.notes.send_all(frame, outcome, copies);
                    }
                }
                self.finish(frame.take(), from, tx, now_ns);
            }
            status::RAN => {
                match self.take_noted(at) {
                    Some(waiting) => {
                        self.wait(frame.take(), from, &StartPoint::Pipeline, *waiting, tx);
                    }
                    None => self.finish(frame.take(), from, tx, now_ns),
                }
                self.run_ready(tx, now_ns);
            }
            _ => {
                let answers = self.scratch.code.said(at);
                let reason = self.count_fallback(outcome.reason);
                let prior = Prior { counted: outcome.lookups, answers: &answers, reason };
                self.process(frame.take(), from, &StartPoint::Pipeline, prior, tx, now_ns);
            }
        }
    }

    /// A burst of this port is about to run: its messages may be held back, if the limit refuses the port. While no packet has a
    /// message, nobody asks the limit.
    fn begin_messages(&mut self, may: bool, from: &PortShared, now_ns: u64) {
        self.held.begin(may && self.tells && self.punts.refuses(from.ingress(), now_ns));
    }

    /// It has run: what was held back is counted, and frames of which nothing is left are to be dropped for that.
    fn end_messages(&mut self, packets: &mut [abi::Packet<'_>], from: &PortShared) {
        self.tells = self.held.any() || self.scratch.code.tells();
        if self.held.any() {
            self.count_held(self.held.settle(packets), from);
        }
    }

    /// Lets frames go whose messages the limit holds back.
    fn hold_back(&self, packets: &mut [abi::Packet<'_>], from: &PortShared, now_ns: u64) {
        let code = &self.scratch.code;
        self.count_held(hold_back(code, packets, &self.punts, from.ingress(), now_ns), from);
    }

    fn count_held(&self, held: HeldBack, from: &PortShared) {
        let cell = from.cell(self.index);
        if held.punts > 0 {
            cell.count_drop(DropReason::PuntRateLimit, held.punts);
        }
        if held.digests > 0 {
            cell.count_digests_refused(held.digests);
        }
    }

    /// Sends the control side the messages that compiled code has of a frame.
    fn notify(
        &mut self,
        frame: &mut Frame,
        outcome: &Outcome,
        at: usize,
        from: &PortShared,
        now_ns: u64,
    ) {
        let (in_port, csum) = (frame.rx_port, frame.offload.csum);
        let (buffer, start, len) = frame.parts_mut();
        let place = (&*buffer, start, len);
        let received = (&buffer[start..start + len], in_port, csum);
        let mut collector = Collector::new(&mut self.notes, received, &self.punts, now_ns);
        let code = &self.scratch.code;
        notify(code, at, outcome, place, &mut collector, &mut self.repeats, now_ns);
        let notified = collector.count(from.cell(self.index));
        if !self.watch.is_off() {
            self.watch.note_notified(&notified);
        }
    }

    /// Why compiled code has left a packet, which is counted.
    pub(super) fn count_fallback(&mut self, bail: u32) -> Reason {
        let held = self.version.get();
        held.forward.tally().count_fallback(self.index);
        held.forward.reason(bail)
    }

    /// Sends what compiled code has forwarded to one port, with nobody looking: what nearly all
    /// frames are. The same as [`forward`](Self::forward), with less on the way.
    #[inline]
    fn forward_once(
        &mut self,
        frame: &mut Frame,
        outcome: &Outcome,
        from: &PortShared,
        tx: &mut Transmit,
        now_ns: u64,
    ) {
        edit(frame, outcome.shift, outcome.changed != 0);
        if !tx.send_direct(frame, outcome.outputs[0].port) {
            // Counted there under its reason, or queued.
            self.forward(frame.take(), outcome.outputs(), from, tx, now_ns);
        }
    }

    /// Sends what compiled code has forwarded.
    fn forward(
        &mut self,
        frame: Frame,
        outputs: &[Output],
        from: &PortShared,
        tx: &mut Transmit,
        now_ns: u64,
    ) {
        for output in outputs {
            self.notes.send_same(output.port, output.queue);
        }
        self.finish(frame, from, tx, now_ns);
    }

    /// Sends the copies that were noted of a frame.
    pub(super) fn finish(
        &mut self,
        frame: Frame,
        from: &PortShared,
        tx: &mut Transmit,
        now_ns: u64,
    ) {
        tx.send_copies(frame, &mut self.notes, from, &self.watch, now_ns);
    }
}
