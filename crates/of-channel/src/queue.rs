//! What waits for one connection, bounded.
//!
//! Two kinds of messages wait here. Some may be lost when a peer is slow: packet-ins, and what a
//! snooper is shown; of those at most [`LOSSY_BYTES_MAX`] wait. Others must not be, because a
//! controller that missed them would be wrong about the switch: flow-removed and port-status. They
//! have room of their own, so that a flood of packets cannot displace them, and room for many,
//! because one request can remove every entry of a switch. A peer for whom [`STATE_MAX`] of them
//! wait has lost track: the queue is overrun, and its connection ends.

use crate::roles::Asynchronous;
use openflow::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Bytes of packet-ins or snooped messages that wait for one connection, at most.
pub(crate) const LOSSY_BYTES_MAX: usize = 4 << 20;
/// What a waiting message costs beside its bytes, roughly.
const LOSSY_OVERHEAD: usize = 256;
/// Flow-removed and port-status messages that wait for one connection, at most.
pub(crate) const STATE_MAX: usize = 1 << 20;

/// An asynchronous message, the same for all connections.
#[derive(Debug)]
pub(crate) struct Told {
    /// Its kind, which decides who wants it.
    pub(crate) kind: Asynchronous,
    /// The message.
    pub(crate) message: Message,
}

impl Told {
    /// Bytes that count if it may be lost; none if it must not be.
    fn lossy_bytes(&self) -> Option<usize> {
        match &self.message {
            Message::PacketIn(p) => Some(p.data.len() + LOSSY_OVERHEAD),
            _ => None,
        }
    }
}

/// What waits.
#[derive(Debug)]
pub(crate) enum Queued {
    /// An asynchronous message, if it is still wanted when its turn comes.
    Told(Arc<Told>),
    /// A message of another connection, for a snooper.
    Raw(Arc<[u8]>),
}

impl Queued {
    fn lossy_bytes(&self) -> Option<usize> {
        match self {
            Queued::Told(told) => told.lossy_bytes(),
            Queued::Raw(bytes) => Some(bytes.len() + LOSSY_OVERHEAD),
        }
    }
}

#[derive(Default)]
struct Waiting {
    lossy_bytes: AtomicUsize,
    state: AtomicUsize,
    overrun: AtomicBool,
    /// Flow monitors tell nothing until what waits has been taken.
    paused: AtomicBool,
}

/// The end that events are put in.
pub(crate) struct Sender {
    sender: mpsc::UnboundedSender<Queued>,
    waiting: Arc<Waiting>,
}

/// The connection's end.
pub(crate) struct Receiver {
    receiver: mpsc::UnboundedReceiver<Queued>,
    waiting: Arc<Waiting>,
}

/// An empty queue.
pub(crate) fn queue() -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::<Waiting>::default();
    (Sender { sender, waiting: waiting.clone() }, Receiver { receiver, waiting })
}

impl Sender {
    /// Puts in a message, never waiting; false if it was lost.
    pub(crate) fn put(&self, queued: Queued) -> bool {
        // Relaxed: the counts bound memory and guard nothing.
        let (count, amount, most) = match queued.lossy_bytes() {
            Some(bytes) => (&self.waiting.lossy_bytes, bytes, LOSSY_BYTES_MAX),
            None => (&self.waiting.state, 1, STATE_MAX),
        };
        if count.fetch_add(amount, Ordering::Relaxed) + amount > most {
            count.fetch_sub(amount, Ordering::Relaxed);
            if queued.lossy_bytes().is_none() {
                self.waiting.overrun.store(true, Ordering::Relaxed);
            }
            return false;
        }
        self.sender.send(queued).is_ok()
    }
}

impl Sender {
    /// Messages that must not be lost and wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.state.load(Ordering::Relaxed)
    }

    /// Flow monitors pause.
    pub(crate) fn pause(&self) {
        self.waiting.paused.store(true, Ordering::Relaxed);
    }
}

impl Receiver {
    /// Whether flow monitors paused and all that waited is taken: they go on.
    pub(crate) fn resumes(&self) -> bool {
        self.waiting.paused.load(Ordering::Relaxed)
            && self.receiver.is_empty()
            && self.waiting.paused.swap(false, Ordering::Relaxed)
    }

    /// The next message, waiting for it. None when there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Queued> {
        let queued = self.receiver.recv().await;
        self.taken(queued)
    }

    /// The next message, if one is there.
    pub(crate) fn try_next(&mut self) -> Option<Queued> {
        let queued = self.receiver.try_recv().ok();
        self.taken(queued)
    }

    /// Messages that wait now.
    pub(crate) fn len(&self) -> usize {
        self.receiver.len()
    }

    /// A message that must not be lost was.
    pub(crate) fn is_overrun(&self) -> bool {
        self.waiting.overrun.load(Ordering::Relaxed)
    }

    fn taken(&self, queued: Option<Queued>) -> Option<Queued> {
        match queued.as_ref().map(Queued::lossy_bytes) {
            Some(Some(bytes)) => self.waiting.lossy_bytes.fetch_sub(bytes, Ordering::Relaxed),
            Some(None) => self.waiting.state.fetch_sub(1, Ordering::Relaxed),
            None => 0,
        };
        queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{PacketIn, PacketInReason, PortReason, TableId};

    fn packet(bytes: usize) -> Queued {
        Queued::Told(Arc::new(Told {
            kind: Asynchronous::PacketIn(PacketInReason::Action),
            message: Message::PacketIn(PacketIn {
                buffer_id: None,
                total_len: 0,
                reason: PacketInReason::Action,
                table_id: TableId(0),
                cookie: 0,
                matching: openflow::Match::new(),
                data: vec![0; bytes],
                userdata: Vec::new(),
            }),
        }))
    }

    fn state() -> Queued {
        // Any message that is no packet-in counts as one that must not be lost.
        let kind = Asynchronous::PortStatus(PortReason::Add);
        Queued::Told(Arc::new(Told { kind, message: Message::BarrierReply }))
    }

    #[test]
    fn packets_are_lost_by_bytes_and_leave_room_for_the_rest() {
        let (sender, mut receiver) = queue();
        let mut fit = 0;
        while sender.put(packet(65_000)) {
            fit += 1;
        }
        assert_eq!(fit, LOSSY_BYTES_MAX / (65_000 + LOSSY_OVERHEAD));
        assert!(sender.put(state()) && !receiver.is_overrun());
        assert!(receiver.try_next().is_some());
        assert!(sender.put(packet(65_000)), "what was taken makes room");
        for _ in 0..fit {
            assert!(matches!(receiver.try_next(), Some(Queued::Told(_))));
        }
        assert!(receiver.try_next().is_some() && receiver.try_next().is_none());
        assert_eq!(receiver.waiting.lossy_bytes.load(Ordering::Relaxed), 0);
        assert_eq!(receiver.waiting.state.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn empty_packets_are_bounded_too() {
        let (sender, _receiver) = queue();
        let fit = (0..).take_while(|_| sender.put(packet(0))).count();
        assert_eq!(fit, LOSSY_BYTES_MAX / LOSSY_OVERHEAD);
    }

    #[test]
    fn losing_state_is_an_overrun() {
        let (sender, receiver) = queue();
        for _ in 0..STATE_MAX {
            assert!(sender.put(state()));
        }
        assert!(!receiver.is_overrun());
        assert!(!sender.put(state()));
        assert!(receiver.is_overrun());
    }

    #[test]
    fn a_receiver_that_is_gone_takes_nothing() {
        let (sender, receiver) = queue();
        drop(receiver);
        assert!(!sender.put(state()));
    }
}
