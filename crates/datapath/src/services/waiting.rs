//! Frames that wait for what a service expects: fragments whose first has not come.
//!
//! A service says that a packet waits, under a ticket of its own ([`WaitNews::waits`]). Whoever runs packets hands the frame
//! over, as it came in, with what was counted and answered before that call ([`WaitingPacket`]). When the service says that it is to go on,
//! it comes back ([`WaitNews::ready`]) to whoever runs the packet that it has waited for, and is run behind that one: by the version that
//! is current then, and where that is the same, without what was counted and answered before.
//!
//! A service may say that a frame goes on, or is lost, before the frame was handed over: another worker was faster.
//! Then [`WaitQueue::keep`] gives it back at once.
//!
//! Holds true: a frame that was handed over goes on or is counted as dropped at the port that it came in by, once; also
//! when its service ends.
//! Bounded by the services, which say what waits.

use crate::ports::PortShared;
use crate::tally::Reason;
use hashbrown::HashMap;
use ir::{Action, Bits, DropReason};
use jit::Said;
use port::Frame;
use service::conntrack::Ticket;
use std::sync::Arc;

/// Where a packet's way begins, of a packet that may be run later.
#[derive(Clone)]
pub enum StartPoint {
    /// At the pipeline's beginning.
    Pipeline,
    /// With an action.
    Action(Arc<Action>, Vec<Bits>),
}

/// A frame that waits.
pub struct WaitingPacket {
    /// As it came in.
    pub frame: Frame,
    /// The port that counts what becomes of it.
    pub from: Arc<PortShared>,
    /// Where it begins.
    pub begins: StartPoint,
    /// The version by which the rest was counted and answered.
    pub version: u64,
    /// Lookups that were counted.
    pub counted: u32,
    /// What services and state answered of it.
    pub answers: Said,
    /// Why compiled code has left it.
    pub reason: Reason,
}

impl WaitingPacket {
    /// It is dropped.
    pub fn drop(self, reason: DropReason) {
        self.from.count_late_drop(reason);
    }
}

/// By whom, and under which ticket, a packet waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTicket {
    /// Which service of the list.
    pub service: usize,
    /// Which element of it.
    pub element: u32,
    /// Its ticket.
    pub ticket: Ticket,
}

/// What a call reports about packets that wait.
#[derive(Default)]
pub struct WaitNews {
    /// This one does.
    pub waits: Option<WaitTicket>,
    /// These go on, behind this one.
    pub ready: Vec<WaitingPacket>,
}

impl std::fmt::Debug for WaitNews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "waits {:?}, {} go on", self.waits, self.ready.len())
    }
}

/// The frames that wait of one service.
#[derive(Default)]
pub struct WaitQueue {
    kept: HashMap<Ticket, WaitingPacket>,
    /// Told before the frame was here: it goes on, or is lost.
    early: HashMap<Ticket, bool>,
}

impl WaitQueue {
    /// Takes a frame. Gives it back if it goes on already.
    pub fn keep(&mut self, ticket: Ticket, kept: WaitingPacket) -> Option<WaitingPacket> {
        match self.early.remove(&ticket) {
            None => {
                self.kept.insert(ticket, kept);
                None
            }
            Some(true) => Some(kept),
            Some(false) => {
                kept.drop(DropReason::FragmentLost);
                None
            }
        }
    }

    /// A frame goes on.
    pub fn ready(&mut self, ticket: Ticket) -> Option<WaitingPacket> {
        let kept = self.kept.remove(&ticket);
        if kept.is_none() {
            self.early.insert(ticket, true);
        }
        kept
    }

    /// A frame is lost.
    pub fn lost(&mut self, ticket: Ticket) {
        match self.kept.remove(&ticket) {
            Some(kept) => kept.drop(DropReason::FragmentLost),
            None => drop(self.early.insert(ticket, false)),
        }
    }

    /// All of them are dropped.
    pub fn give_up(&mut self, reason: DropReason) {
        self.kept.drain().for_each(|(_, kept)| kept.drop(reason));
        self.early.clear();
    }
}

impl Drop for WaitQueue {
    fn drop(&mut self) {
        self.give_up(DropReason::Stopped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(from: &Arc<PortShared>) -> WaitingPacket {
        let (begins, from) = (StartPoint::Pipeline, from.clone());
        let frame = Frame::copy_of(&[1; 60]);
        WaitingPacket {
            frame,
            from,
            begins,
            version: 1,
            counted: 0,
            answers: Said::NONE,
            reason: Reason::OTHER,
        }
    }

    #[test]
    fn a_frame_goes_on_or_is_counted_once_whoever_is_first() {
        let port = Arc::new(PortShared::new(1, "p", 0, 1));
        let drops = || port.counters().drops;
        let mut waiting = WaitQueue::default();
        assert!(waiting.keep(1, kept(&port)).is_none());
        assert!(waiting.ready(1).is_some());
        // Told before it was here.
        assert!(waiting.ready(2).is_none());
        assert!(waiting.keep(2, kept(&port)).is_some());
        assert!(drops().is_empty());
        waiting.lost(3);
        assert!(waiting.keep(3, kept(&port)).is_none());
        assert!(waiting.keep(4, kept(&port)).is_none());
        waiting.lost(4);
        assert_eq!(drops(), [("fragment_lost", 2)]);
        // What still waits when the service ends.
        assert!(waiting.keep(5, kept(&port)).is_none());
        drop(waiting);
        let mut all = drops();
        all.sort_unstable();
        assert_eq!(all, [("fragment_lost", 2), ("switch_stopped", 1)]);
    }
}
