//! What waits for one connection, bounded.
//!
//! Two kinds of messages wait here. Some may be lost when a peer is slow: packet-ins, and what a
//! snooper is shown; of those at most [`LOSSY_BYTES_MAX`] wait. Others must not be, because a
//! controller that missed them would be wrong about the switch: flow-removed and port-status. They
//! have room of their own, so that a flood of packets cannot displace them, and room for many,
//! because one request can remove every entry of a switch. A peer for whom [`STATE_MAX`] of them
//! wait has lost track: the queue is overrun, and its connection ends.
//!
//! Packet-ins share their room by the ports that packets came in by, so that a flood at one port costs
//! another one nothing: a port may hold no more than [`SHARE`] times the room that is left. They are
//! taken in turns, by bytes (deficit round robin), and beside them what must not be lost, each kind in
//! its order.

use crate::roles::Asynchronous;
use openflow::Message;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Bytes of packet-ins or snooped messages that wait for one connection, at most.
pub(crate) const LOSSY_BYTES_MAX: usize = 4 << 20;
/// What a waiting message costs beside its bytes, roughly.
const LOSSY_OVERHEAD: usize = 256;
/// A port's packet-ins hold so many times the room that is left, at most.
const SHARE: usize = 8;
/// Bytes of one port's packet-ins that are taken in its turn, about.
const QUANTUM: isize = 16 << 10;
/// What a snooper is shown waits as if it were of this port, so that it stays in its order.
const SHOWN: u32 = u32::MAX;
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
    /// The port and the bytes that count if it may be lost; none if it must not be.
    fn lossy(&self) -> Option<(u32, usize)> {
        match &self.message {
            Message::PacketIn(p) => {
                Some((p.in_port().0, p.data.len() + p.userdata.len() + LOSSY_OVERHEAD))
            }
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
    fn lossy(&self) -> Option<(u32, usize)> {
        match self {
            Queued::Told(told) => told.lossy(),
            Queued::Raw(bytes) => Some((SHOWN, bytes.len() + LOSSY_OVERHEAD)),
        }
    }
}

/// What waits of one port, and may be lost.
#[derive(Default)]
struct Lane {
    messages: VecDeque<(Queued, usize)>,
    bytes: usize,
    /// Bytes that it may still give in its turn.
    credit: isize,
}

#[derive(Default)]
struct Waiting {
    state: VecDeque<Queued>,
    /// The lanes in which something waits, and whose turn it is.
    lanes: HashMap<u32, Lane>,
    turns: VecDeque<u32>,
    lossy_bytes: usize,
    lossy: usize,
    /// What must not be lost was taken last.
    state_was_last: bool,
    overrun: bool,
    /// Flow monitors tell nothing until what waits has been taken.
    paused: bool,
    /// One end is gone.
    ended: bool,
}

impl Waiting {
    fn put(&mut self, queued: Queued) -> bool {
        let Some((port, bytes)) = queued.lossy() else {
            let fits = self.state.len() < STATE_MAX;
            self.overrun |= !fits;
            if fits {
                self.state.push_back(queued);
            }
            return fits;
        };
        let own = self.lanes.get(&port).map_or(0, |lane| lane.bytes);
        let used = self.lossy_bytes + bytes;
        let left = LOSSY_BYTES_MAX.saturating_sub(used);
        if used > LOSSY_BYTES_MAX || (own > 0 && own + bytes > left.saturating_mul(SHARE)) {
            return false;
        }
        let turns = &mut self.turns;
        let lane = self.lanes.entry(port).or_insert_with(|| {
            turns.push_back(port);
            Lane { credit: QUANTUM, ..Lane::default() }
        });
        lane.messages.push_back((queued, bytes));
        lane.bytes += bytes;
        self.lossy_bytes = used;
        self.lossy += 1;
        true
    }

    fn take(&mut self) -> Option<Queued> {
        let state_first = !self.state_was_last || self.turns.is_empty();
        if state_first && let Some(queued) = self.state.pop_front() {
            self.state_was_last = true;
            return Some(queued);
        }
        self.state_was_last = false;
        // Each turn that is passed on pays a debt in part, so one of them has its message.
        while let Some(port) = self.turns.front().copied() {
            let Some(lane) = self.lanes.get_mut(&port) else {
                self.turns.pop_front();
                continue;
            };
            if lane.credit <= 0 {
                lane.credit += QUANTUM;
                self.turns.rotate_left(1);
                continue;
            }
            let taken = lane.messages.pop_front();
            if let Some((_, bytes)) = &taken {
                lane.credit -= *bytes as isize;
                lane.bytes -= bytes;
                self.lossy_bytes -= bytes;
                self.lossy -= 1;
            }
            if lane.messages.is_empty() {
                self.lanes.remove(&port);
                self.turns.pop_front();
            }
            if let Some((queued, _)) = taken {
                return Some(queued);
            }
        }
        self.state.pop_front()
    }
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // What it guards changes in single steps.
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn end(&self) {
        self.waiting().ended = true;
        self.changed.notify_one();
    }
}

/// The end that events are put in.
pub(crate) struct Sender(Arc<Shared>);

/// The connection's end.
pub(crate) struct Receiver(Arc<Shared>);

/// An empty queue.
pub(crate) fn queue() -> (Sender, Receiver) {
    let shared = Arc::<Shared>::default();
    (Sender(shared.clone()), Receiver(shared))
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        *waiting = Waiting { ended: true, ..Waiting::default() };
    }
}

impl Sender {
    /// Puts in a message, never waiting; false if it was lost.
    pub(crate) fn put(&self, queued: Queued) -> bool {
        let mut waiting = self.0.waiting();
        let kept = !waiting.ended && waiting.put(queued);
        drop(waiting);
        if kept {
            self.0.changed.notify_one();
        }
        kept
    }

    /// Messages that must not be lost and wait.
    pub(crate) fn waiting(&self) -> usize {
        self.0.waiting().state.len()
    }

    /// Flow monitors pause.
    pub(crate) fn pause(&self) {
        self.0.waiting().paused = true;
    }
}

impl Receiver {
    /// Whether flow monitors paused and all that waited is taken: they go on.
    pub(crate) fn resumes(&self) -> bool {
        let mut waiting = self.0.waiting();
        let empty = waiting.state.is_empty() && waiting.lossy == 0;
        waiting.paused && empty && std::mem::take(&mut waiting.paused)
    }

    /// The next message, waiting for it. None when there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Queued> {
        loop {
            {
                let mut waiting = self.0.waiting();
                if let Some(queued) = waiting.take() {
                    return Some(queued);
                }
                if waiting.ended {
                    return None;
                }
            }
            // What was put in since is noted there.
            self.0.changed.notified().await;
        }
    }

    /// The next message, if one is there.
    pub(crate) fn try_next(&mut self) -> Option<Queued> {
        self.0.waiting().take()
    }

    /// Messages that wait now.
    pub(crate) fn len(&self) -> usize {
        let waiting = self.0.waiting();
        waiting.state.len() + waiting.lossy
    }

    /// A message that must not be lost was.
    pub(crate) fn is_overrun(&self) -> bool {
        self.0.waiting().overrun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{FieldId, PacketIn, PacketInReason, PortReason, TableId};

    fn packet_of(port: u32, bytes: usize) -> Queued {
        Queued::Told(Arc::new(Told {
            kind: Asynchronous::PacketIn(PacketInReason::Action),
            message: Message::PacketIn(PacketIn {
                buffer_id: None,
                total_len: 0,
                reason: PacketInReason::Action,
                table_id: TableId(0),
                cookie: 0,
                matching: openflow::Match::new().with(FieldId::InPort, port.into()),
                data: vec![0; bytes],
                userdata: Vec::new(),
                continuation: Vec::new(),
            }),
        }))
    }

    fn packet(bytes: usize) -> Queued {
        packet_of(1, bytes)
    }

    fn state() -> Queued {
        // Any message that is no packet-in counts as one that must not be lost.
        let kind = Asynchronous::PortStatus(PortReason::Add);
        Queued::Told(Arc::new(Told { kind, message: Message::BarrierReply }))
    }

    /// The port of a packet-in; none of another message.
    fn port(queued: &Queued) -> Option<(u32, usize)> {
        let Queued::Told(told) = queued else { return None };
        match &told.message {
            Message::PacketIn(p) => Some((p.in_port().0, p.data.len())),
            _ => None,
        }
    }

    /// What one port may hold while others hold nothing.
    const LONE: usize = LOSSY_BYTES_MAX / (SHARE + 1) * SHARE;

    #[test]
    fn packets_are_lost_by_bytes_and_leave_room_for_the_rest() {
        let (sender, mut receiver) = queue();
        let mut fit = 0;
        while sender.put(packet(65_000)) {
            fit += 1;
        }
        assert_eq!(fit, LONE / (65_000 + LOSSY_OVERHEAD));
        assert!(sender.put(state()) && !receiver.is_overrun());
        assert!(receiver.try_next().is_some() && receiver.try_next().is_some());
        assert!(sender.put(packet(65_000)), "what was taken makes room");
        for _ in 0..fit {
            assert!(matches!(receiver.try_next(), Some(Queued::Told(_))));
        }
        assert!(receiver.try_next().is_none() && receiver.len() == 0);
        let waiting = receiver.0.waiting();
        assert_eq!((waiting.lossy_bytes, waiting.lossy), (0, 0));
        assert!(waiting.lanes.is_empty() && waiting.turns.is_empty());
    }

    #[test]
    fn empty_packets_are_bounded_too() {
        let (sender, _receiver) = queue();
        let fit = (0..).take_while(|_| sender.put(packet(0))).count();
        assert_eq!(fit, LONE / LOSSY_OVERHEAD);
    }

    #[test]
    fn a_flood_leaves_room_and_turns_for_quiet_ports() {
        let (sender, mut receiver) = queue();
        while sender.put(packet_of(1, 1400)) {}
        for number in 0..10 {
            assert!(sender.put(packet_of(2, number)) && sender.put(packet_of(3, number)));
        }
        assert!(!sender.put(packet_of(1, 1400)), "the flood waits for room");
        let (mut quiet, mut taken) = (Vec::new(), 0);
        while quiet.len() < 20 {
            let next = receiver.try_next().unwrap();
            quiet.extend(port(&next).filter(|(port, _)| *port > 1));
            taken += 1;
        }
        assert!(taken < 60, "{taken}");
        for port in [2, 3] {
            let order: Vec<_> = quiet.iter().filter(|(p, _)| *p == port).map(|(_, n)| *n).collect();
            assert_eq!(order, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_must_not_be_lost_is_not_held_up_by_a_flood_nor_holds_up_packets() {
        let (sender, mut receiver) = queue();
        while sender.put(packet(60)) {}
        for _ in 0..100 {
            assert!(sender.put(state()));
        }
        let first: Vec<_> = (0..200).map(|_| receiver.try_next().unwrap()).collect();
        assert_eq!(first.iter().filter(|q| port(q).is_none()).count(), 100);
    }

    #[test]
    fn what_is_shown_stays_in_its_order() {
        let (sender, mut receiver) = queue();
        let raw = |n: u8| Queued::Raw(vec![n; 100 * usize::from(n)].into());
        (0..50).for_each(|n| assert!(sender.put(raw(n))));
        for n in 0..50 {
            assert!(
                matches!(receiver.try_next(), Some(Queued::Raw(bytes)) if bytes.len() == 100 * n)
            );
        }
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
    fn an_end_that_is_gone_is_noticed() {
        let (sender, receiver) = queue();
        drop(receiver);
        assert!(!sender.put(state()));
        let (sender, mut receiver) = queue();
        assert!(sender.put(state()));
        drop(sender);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(receiver.next()).is_some());
        assert!(runtime.block_on(receiver.next()).is_none());
    }
}
