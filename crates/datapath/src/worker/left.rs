//! Packets that compiled code has left: each is run from the start, by itself.
//!
//! Most of them are run where they lie ([`Worker::run_left`]), so that those which are dropped, or go to a few ports as
//! they came in, or to one with new headers, are to the rest of the worker what compiled code's packets are.
//! What cannot be said in an [`Outcome`](abi::Outcome) is noted: other copies, and what a service keeps.
//! Packets that somebody looks at, or whose checksum is left to the port, are run as frames.

use super::Worker;
use crate::lane::{Late, Resumed, State};
use crate::ports::PortShared;
use crate::services::{Begins, Waits};
use crate::sink::{Collector, Notes};
use crate::tally::{Ran, Reason};
use abi::{Packet, status};
use interp::{Input, Start};
use ir::{DropReason, Verdict};
use jit::Said;
use port::Csum;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// What was run where it lay and went elsewhere than an outcome can say.
#[derive(Default)]
pub(super) struct Left {
    /// By place in the burst.
    noted: VecDeque<(usize, Noted)>,
    /// Without notes: their memory is used again.
    spare: Vec<Notes>,
}

enum Noted {
    /// What it sends.
    Sent(Notes),
    /// It waits for another.
    Waits(Box<Waiting>),
}

/// A packet that waits for another, and how far it has come.
pub(super) struct Waiting {
    pub waits: Waits,
    pub version: u64,
    pub counted: u32,
    pub said: Said,
    pub reason: Reason,
}

/// A received packet to be run.
#[derive(Clone, Copy)]
pub(super) struct Received<'a> {
    pub bytes: &'a [u8],
    pub in_port: u32,
    pub csum: Csum,
}

/// What running a packet came to, besides what was noted of it.
pub(super) struct Came {
    pub verdict: Verdict,
    /// Of what may wait.
    pub late: Option<Late>,
    /// The version it ran by.
    pub version: u64,
    /// Copies that reached the control side.
    pub punted: u32,
    /// Why copies did not.
    pub refused: SmallVec<[DropReason; 1]>,
    /// Why nothing faster ran it.
    pub reason: Reason,
}

impl Worker {
    /// Runs a packet by itself. So many of its lookups were counted already, and this was said; why it was left.
    #[inline]
    pub(super) fn run_one(
        &mut self,
        received: Received<'_>,
        from: &PortShared,
        begins: &Begins,
        (counted, said, reason): (u32, &Said, Reason),
        now_ns: u64,
    ) -> Came {
        let Received { bytes, in_port, csum } = received;
        let cell = from.cell(self.index);
        // `poll` and `obey` have adopted one.
        let held = self.held.get_or_insert_with(|| self.publisher.start(self.index));
        let mut collector = Collector {
            notes: &mut self.notes,
            input: bytes,
            in_port,
            csum,
            now_ns,
            ring: &self.ring,
            punted: 0,
            refused: Default::default(),
            digests_refused: 0,
        };
        let mut externs = State {
            worker: self.index,
            forward: &*held.forward,
            counters: &self.counters,
            ports: &self.ports,
            random: &mut self.random,
            services: &self.services,
            received: bytes,
            csum,
            now_ns,
            late: (!self.services.is_empty()).then(Late::default),
        };
        let start = match begins {
            Begins::Pipeline => Start::Pipeline,
            Begins::Action(action, args) => Start::Action(action, args),
        };
        let input = Input { bytes, in_port, now_ns, start };
        (self.scratch.ran, self.scratch.reason) = (Ran::Interpreter, None);
        let verdict = if counted == 0 && said.is_none() {
            held.forward.run(&mut self.scratch, input, &mut externs, &mut collector)
        } else {
            let mut resumed = Resumed::new(&mut externs, counted, said);
            held.forward.run(&mut self.scratch, input, &mut resumed, &mut collector)
        };
        let late = externs.late;
        for reason in &collector.refused {
            cell.count_drop(*reason, 1);
        }
        if collector.punted > 0 {
            cell.count_punts(u64::from(collector.punted));
        }
        if collector.digests_refused > 0 {
            cell.count_digests_refused(u64::from(collector.digests_refused));
        }
        Came {
            verdict,
            late,
            version: held.forward.version(),
            punted: collector.punted,
            refused: collector.refused,
            reason: self.scratch.reason.unwrap_or(reason),
        }
    }

    /// Counts a packet that has run, by what ran it.
    #[inline]
    pub(super) fn count_ran(&mut self, reason: Reason) {
        if let Some(held) = &self.held {
            held.forward.tally().count(self.index, self.scratch.ran, reason);
        }
    }

    /// Lets those go on that have waited for what has run now; says whether it waits itself.
    pub(super) fn news(&mut self, came: &mut Came, done: (u32, &Said, Reason)) -> Option<Waiting> {
        let late = came.late.take()?;
        self.ready.extend(late.news.ready);
        let (counted, said, reason) = done;
        let waits = late.news.waits?;
        // What was said of it is said again when it goes on.
        self.notes.forget();
        let mut said = said.clone();
        said.calls.extend(late.answers.into_iter().flatten());
        Some(Waiting {
            waits,
            version: came.version,
            counted: counted.saturating_add(late.lookups),
            said,
            reason,
        })
    }

    /// Runs those of a burst that compiled code has left, where they lie. Nobody looks, and no packet's checksum is left
    /// to the port. Those of which an outcome cannot say what has become of them have [`status::RAN`]
    /// then, and [`take_noted`](Self::take_noted) has what was noted of them. True if there were some.
    ///
    /// Behind one that waits or that others have waited for, packets stay as they are, so that all run in order.
    pub(super) fn run_left(
        &mut self,
        packets: &mut [Packet<'_>],
        csums: &[Csum],
        from: &PortShared,
        now_ns: u64,
    ) -> bool {
        let mut some = false;
        for (at, packet) in packets.iter_mut().enumerate() {
            match packet.status {
                status::BAIL => {}
                // What it tells comes first.
                status::TOLD => break,
                _ => continue,
            }
            let (why, counted) = (packet.reason, packet.lookups);
            let Some(bytes) = packet.received() else { continue };
            some = true;
            let csum = csums.get(at).copied().unwrap_or_default();
            let received = Received { bytes, in_port: from.number, csum };
            let said = self.scratch.code.said(at);
            let done = (counted, &said, self.left(why));
            let mut came = self.run_one(received, from, &Begins::Pipeline, done, now_ns);
            if let Some(waiting) = self.news(&mut came, done) {
                packet.status = status::RAN;
                self.left.noted.push_back((at, Noted::Waits(Box::new(waiting))));
                return true;
            }
            self.count_ran(came.reason);
            let others = !self.ready.is_empty();
            match came.verdict {
                // What has waited leaves behind it.
                _ if others => self.note(at, packet, came.verdict, from),
                Verdict::Drop(reason) => {
                    self.notes.forget();
                    packet.drop_for(reason as u32);
                }
                _ if self.notes.is_empty() => packet.drop_for(abi::reason::NONE),
                _ if self.notes.put_in(packet) => self.notes.forget(),
                _ => self.note(at, packet, came.verdict, from),
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
        let spare = self.left.spare.pop().unwrap_or_default();
        let notes = std::mem::replace(&mut self.notes, spare);
        self.left.noted.push_back((at, Noted::Sent(notes)));
    }

    /// What was noted of the packet at this place, which [has run](Self::run_left), is at hand now; unless it waits.
    pub(super) fn take_noted(&mut self, at: usize) -> Option<Box<Waiting>> {
        while let Some((place, noted)) = self.left.noted.pop_front() {
            match noted {
                Noted::Waits(waiting) if place == at => return Some(waiting),
                Noted::Waits(_) => {}
                Noted::Sent(notes) => {
                    let spare = std::mem::replace(&mut self.notes, notes);
                    self.left.spare.push(spare);
                    if place == at {
                        return None;
                    }
                    self.notes.forget();
                }
            }
        }
        None
    }
}
