//! Packets that compiled code has left: each is run from the start, by itself.
//!
//! Most of them are run where they lie ([`Run::run_fallback`]), so that those which are dropped, or go to a few ports as
//! they came in, or to one with new headers, are to the rest of the worker what compiled code's packets are.
//! What does not fit into an [`Outcome`](abi::Outcome) is noted: other copies, and what a service keeps.
//! Packets that somebody looks at, or whose checksum is left to the port, are run as frames.

use super::run::Run;
use super::transmit::Transmit;
use crate::externs::{Late, Resumed, State};
use crate::ports::{PortShared, PortTable};
use crate::services::{StartPoint, WaitTicket, WaitingPacket};
use crate::sink::{Collector, Notes, Notified};
use crate::tally::{Ran, Reason};
use abi::{Packet, status};
use interp::{Input, Start};
use ir::Verdict;
use jit::Said;
use port::{Csum, Frame};
use std::collections::VecDeque;
use std::sync::Arc;

/// What is kept of packets that were run by themselves.
#[derive(Default)]
pub(super) struct Fallback {
    /// Of those that an outcome cannot describe, by place in the burst.
    noted: VecDeque<(usize, Noted)>,
    /// Without notes: their memory is used again.
    spare: Vec<Notes>,
    /// Frames that have waited for another, and go on behind it.
    ready: VecDeque<WaitingPacket>,
}

enum Noted {
    /// What it sends.
    Sent(Notes),
    /// It waits for another.
    Waits(Box<Suspended>),
}

/// How far compiled code, or an earlier run, has come with a packet.
#[derive(Clone, Copy)]
pub(super) struct Prior<'a> {
    /// Lookups that were counted.
    pub counted: u32,
    /// What services and state have answered.
    pub answers: &'a Said,
    /// Why it was left.
    pub reason: Reason,
}

impl Prior<'_> {
    /// Nothing was done.
    pub(super) fn none(reason: Reason) -> Prior<'static> {
        static NOTHING: Said = Said::NONE;
        Prior { counted: 0, answers: &NOTHING, reason }
    }
}

/// A packet that waits for another, and how far it has come.
pub(super) struct Suspended {
    pub waits: WaitTicket,
    pub version: u64,
    pub counted: u32,
    pub answers: Said,
    pub reason: Reason,
}

/// A received packet to be run.
#[derive(Clone, Copy)]
struct Received<'a> {
    bytes: &'a [u8],
    in_port: u32,
    csum: Csum,
}

/// What running a packet came to, besides what was noted of it.
struct RunResult {
    pub verdict: Verdict,
    /// Of what may wait.
    pub late: Option<Late>,
    /// The version it ran by.
    pub version: u64,
    /// What reached the control side.
    pub notified: Notified,
    /// Why nothing faster ran it.
    pub reason: Reason,
}

impl Run {
    /// Runs a packet by itself.
    #[inline]
    fn run_one(
        &mut self,
        received: Received<'_>,
        from: &PortShared,
        begins: &StartPoint,
        Prior { counted, answers, reason }: Prior<'_>,
        ports: &PortTable,
        now_ns: u64,
    ) -> RunResult {
        let Received { bytes, in_port, csum } = received;
        // `poll` and `obey` have adopted one.
        let held = self.version.get();
        let received = (bytes, in_port, csum);
        let mut collector = Collector::new(&mut self.notes, received, &self.punts, now_ns);
        let mut externs = State {
            worker: self.index,
            forward: &*held.forward,
            counters: &self.counters,
            ports,
            random: &mut self.random,
            services: &self.services,
            received: bytes,
            csum,
            now_ns,
            late: (!self.services.is_empty()).then(Late::default),
        };
        let start = match begins {
            StartPoint::Pipeline => Start::Pipeline,
            StartPoint::Action(action, args) => Start::Action(action, args),
        };
        let input = Input { bytes, in_port, now_ns, start };
        (self.scratch.ran, self.scratch.reason) = (Ran::Interpreter, None);
        let verdict = if counted == 0 && answers.is_none() {
            held.forward.run(&mut self.scratch, input, &mut externs, &mut collector)
        } else {
            let mut resumed = Resumed::new(&mut externs, counted, answers);
            held.forward.run(&mut self.scratch, input, &mut resumed, &mut collector)
        };
        let late = externs.late;
        let notified = collector.count(from.cell(self.index));
        RunResult {
            verdict,
            late,
            version: held.forward.version(),
            notified,
            reason: self.scratch.reason.unwrap_or(reason),
        }
    }

    /// Counts a packet that has run, by what ran it.
    #[inline]
    fn count_ran(&mut self, reason: Reason) {
        if let Some(held) = self.version.held() {
            let tally = held.forward.tally();
            tally.count(self.index, self.scratch.ran, reason);
            tally.count_full(self.index, self.scratch.whole.take_full());
        }
    }

    /// Lets those go on that have waited for what has run now; says whether it waits itself.
    fn news(&mut self, result: &mut RunResult, prior: Prior<'_>) -> Option<Suspended> {
        let late = result.late.take()?;
        self.fallback.ready.extend(late.news.ready);
        let Prior { counted, answers, reason } = prior;
        let waits = late.news.waits?;
        // What it sends is noted again when it goes on.
        self.notes.forget();
        let mut answers = answers.clone();
        answers.calls.extend(late.answers.into_iter().flatten());
        Some(Suspended {
            waits,
            version: result.version,
            counted: counted.saturating_add(late.lookups),
            answers,
            reason,
        })
    }

    /// Runs those of a burst that compiled code has left, where they lie. Nobody looks, and no packet's checksum is left
    /// to the port. Those of which an outcome cannot say what has become of them have [`status::RAN`]
    /// then, and [`take_noted`](Self::take_noted) has what was noted of them. True if there were some.
    ///
    /// Behind one that waits or that others have waited for, packets stay as they are, so that all run in order.
    pub(super) fn run_fallback(
        &mut self,
        packets: &mut [Packet<'_>],
        csums: &[Csum],
        from: &PortShared,
        ports: &PortTable,
        now_ns: u64,
    ) -> bool {
        let mut some = false;
        for (at, packet) in packets.iter_mut().enumerate() {
            match packet.status {
                status::BAIL => {}
                status::COPIES => {
                    if let Some(copy) = self.scratch.code.only_copy(packet, at) {
                        // Without room, it leaves as copies do.
                        packet.leave_as_copy(copy.bytes, copy.payload, copy.changed);
                    }
                    continue;
                }
                // Its messages come first.
                status::TOLD => break,
                _ => continue,
            }
            let (why, counted) = (packet.reason, packet.lookups);
            let Some(bytes) = packet.received() else { continue };
            some = true;
            let csum = csums.get(at).copied().unwrap_or_default();
            let received = Received { bytes, in_port: from.ingress(), csum };
            let answers = self.scratch.code.said(at);
            let prior = Prior { counted, answers: &answers, reason: self.count_fallback(why) };
            let mut result =
                self.run_one(received, from, &StartPoint::Pipeline, prior, ports, now_ns);
            if let Some(waiting) = self.news(&mut result, prior) {
                packet.status = status::RAN;
                self.fallback.noted.push_back((at, Noted::Waits(Box::new(waiting))));
                return true;
            }
            self.count_ran(result.reason);
            let others = !self.fallback.ready.is_empty();
            match result.verdict {
                // What has waited leaves behind it.
                _ if others => self.note(at, packet, result.verdict, from),
                Verdict::Drop(reason) => {
                    self.notes.forget();
                    packet.drop_for(reason as u32);
                }
                _ if self.notes.is_empty() => packet.drop_for(abi::reason::NONE),
                _ if self.notes.put_in(packet) => self.notes.forget(),
                _ => self.note(at, packet, result.verdict, from),
            }
            if others {
                break;
            }
        }
        some
    }

    /// Keeps what is noted of a packet for later.
    fn note(&mut self, at: usize, packet: &mut Packet<'_>, verdict: Verdict, from: &PortShared) {
        if let Verdict::Drop(reason) = verdict {
            from.cell(self.index).count_drop(reason, 1);
        }
        packet.status = status::RAN;
        let spare = self.fallback.spare.pop().unwrap_or_default();
        let notes = std::mem::replace(&mut self.notes, spare);
        self.fallback.noted.push_back((at, Noted::Sent(notes)));
    }

    /// What was noted of the packet at this place, which [has run](Self::run_fallback), is at hand now; unless it waits.
    pub(super) fn take_noted(&mut self, at: usize) -> Option<Box<Suspended>> {
        while let Some((place, noted)) = self.fallback.noted.pop_front() {
            match noted {
                Noted::Waits(waiting) if place == at => return Some(waiting),
                Noted::Waits(_) => {}
                Noted::Sent(notes) => {
                    let spare = std::mem::replace(&mut self.notes, notes);
                    self.fallback.spare.push(spare);
                    if place == at {
                        return None;
                    }
                    self.notes.forget();
                }
            }
        }
        None
    }

    /// Runs one frame that compiled code has left, and behind it those that have waited for it.
    pub(super) fn process(
        &mut self,
        frame: Frame,
        from: &Arc<PortShared>,
        begins: &StartPoint,
        prior: Prior<'_>,
        tx: &mut Transmit,
        now_ns: u64,
    ) {
        self.interpret(frame, from, begins, prior, tx, now_ns);
        self.run_ready(tx, now_ns);
    }

    /// Runs frames that have waited for another and go on now.
    pub(super) fn run_ready(&mut self, tx: &mut Transmit, now_ns: u64) {
        while let Some(kept) = self.fallback.ready.pop_front() {
            let WaitingPacket { frame, from, begins, version, counted, answers, reason } = kept;
            let same = self.version.held().is_some_and(|held| held.forward.version() == version);
            let prior = match same {
                true => Prior { counted, answers: &answers, reason },
                false => Prior::none(reason),
            };
            // It is the burst's frame of which is reported what becomes of it.
            let fate = self.watch.take_fate();
            self.interpret(frame, &from, &begins, prior, tx, now_ns);
            self.watch.set_fate(fate);
        }
    }

    fn interpret(
        &mut self,
        frame: Frame,
        from: &Arc<PortShared>,
        begins: &StartPoint,
        prior: Prior<'_>,
        tx: &mut Transmit,
        now_ns: u64,
    ) {
        let received =
            Received { bytes: frame.data(), in_port: frame.rx_port, csum: frame.offload.csum };
        let mut result = self.run_one(received, from, begins, prior, &tx.ports, now_ns);
        if let Some(waiting) = self.news(&mut result, prior) {
            return self.wait(frame, from, begins, waiting, tx);
        }
        self.count_ran(result.reason);
        let dropped = match result.verdict {
            Verdict::Drop(reason) => Some(reason),
            _ => None,
        };
        if let Some(reason) = dropped {
            from.cell(self.index).count_drop(reason, 1);
        }
        if !self.watch.is_off() {
            self.watch.note_notified(&result.notified);
            dropped.into_iter().for_each(|reason| self.watch.note_drop(reason.word(), None));
        }
        self.finish(frame, from, tx, now_ns);
    }

    /// A frame waits for another, in a buffer of its own: its port may want this one back.
    pub(super) fn wait(
        &mut self,
        frame: Frame,
        from: &Arc<PortShared>,
        begins: &StartPoint,
        waiting: Suspended,
        tx: &mut Transmit,
    ) {
        let mut copy = Frame::copy_of(frame.data());
        copy.copy_metadata(&frame);
        tx.pool.give(frame);
        let Suspended { waits, version, counted, answers, reason } = waiting;
        let kept = WaitingPacket {
            frame: copy,
            from: from.clone(),
            begins: begins.clone(),
            version,
            counted,
            answers,
            reason,
        };
        self.fallback.ready.extend(self.services.keep(waits, kept));
    }
}
