//! Transmit: a lane's transmit queues and egress queues, and the worker's free buffers while it is the lane's turn.
//!
//! Frames that stay in their driver's buffers are dealt to batches ([`Transmit::deal`]); all else goes to a queue at once, or
//! waits in an egress queue. [`Transmit::flush`] hands over what has gathered.

use crate::capture::Watch;
use crate::ports::{PortFlags, PortShared, PortTable};
use crate::queues::{Queues, Shaper};
use crate::sink::{Notes, OutputCopy};
use crate::tx_ports::{TxPort, TxPorts};
use abi::Dealt;
use ir::DropReason;
use port::{Batch, BorrowedBurst, Frame, Pool, TxQueue};
use std::sync::Arc;

/// The transmit side of a lane.
pub(super) struct Transmit {
    /// The worker's number.
    index: usize,
    /// The ports there are, by number.
    pub(super) ports: Arc<PortTable>,
    queues: TxPorts,
    /// Free buffers, while it is the lane's turn.
    pub(super) pool: Pool,
    /// When frames that wait in egress queues may go; never, if none wait.
    due_ns: u64,
}

impl Transmit {
    /// No queues.
    pub(super) fn new(index: usize) -> Transmit {
        let (ports, queues) = (Arc::new(PortTable::default()), TxPorts::default());
        Transmit { index, ports, queues, pool: Pool::new(), due_ns: u64::MAX }
    }

    /// Adds a port's queue. Nothing is left behind of a port that had its number before.
    pub(super) fn add(&mut self, port: Arc<PortShared>, queue: Box<dyn TxQueue>, now_ns: u64) {
        self.flush(false, now_ns);
        self.discard(|line| line.shared.number == port.number, DropReason::PortUnknown);
        self.queues.insert(port, queue);
    }

    /// Takes out a port's queue, when all that may leave by it has left.
    pub(super) fn remove(&mut self, port: u32, now_ns: u64) -> Option<Box<dyn TxQueue>> {
        self.flush(false, now_ns);
        self.discard(|line| line.shared.number == port, DropReason::PortUnknown);
        self.queues.remove(port).map(|line| line.queue)
    }

    /// Sends what may leave; the rest is dropped: the worker stops.
    pub(super) fn stop(&mut self, now_ns: u64) {
        self.flush(false, now_ns);
        self.discard(|_| true, DropReason::Stopped);
    }

    /// When frames that wait in egress queues may go, if some wait.
    pub(super) fn due_ns(&self) -> Option<u64> {
        (self.due_ns < u64::MAX).then_some(self.due_ns)
    }

    /// Ends a round: sends what is due, and what was queued in it. With `keep`, small batches wait for more.
    #[inline]
    pub(super) fn end_round(&mut self, keep: bool, worked: bool, now_ns: u64) {
        if self.due_ns <= now_ns {
            self.queues.touch_waiting();
            self.flush(keep, now_ns);
        } else if worked || self.queues.holds() {
            self.flush(keep, now_ns);
        }
    }

    /// Where frames may be dealt to, by port.
    #[inline]
    pub(super) fn places(&self) -> &abi::deal::Places {
        self.queues.places()
    }

    /// Deals all frames to batches as code has said, if it has said so of all of them.
    #[inline]
    pub(super) fn deal_as(
        &mut self,
        borrowed: &mut BorrowedBurst,
        dealt: &Dealt,
        from: &PortShared,
    ) -> bool {
        let index = self.index;
        let dropped = &mut |why, n| count_lost(from, index, why, n);
        if self.queues.deal_as(borrowed, dealt, dropped) {
            return true;
        }
        // There may be room behind what was dealt before.
        let again = self.queues.is_dealt(borrowed.len(), dealt);
        if again {
            self.hand_over_batches();
        }
        again && self.queues.deal_as(borrowed, dealt, dropped)
    }

    /// Deals frames to batches as far as their outcomes allow. Returns how many were dealt or dropped: nearly always all.
    #[inline]
    pub(super) fn deal(&mut self, borrowed: &mut BorrowedBurst, from: &PortShared) -> usize {
        let index = self.index;
        let dropped = &mut |why, n| count_lost(from, index, why, n);
        let mut dealt = self.queues.deal(borrowed, dropped);
        while !borrowed.is_empty() {
            // The rest may go once there is room, or, as frames, behind what was dealt.
            self.hand_over_batches();
            match self.queues.deal(borrowed, dropped) {
                0 => break,
                more => dealt += more,
            }
        }
        dealt
    }

    /// Hands what was dealt to ports over to their queues, so that what is sent next leaves behind it.
    #[inline]
    pub(super) fn hand_over_batches(&mut self) {
        if self.queues.holds() {
            let (pool, index) = (&mut self.pool, self.index);
            self.queues.give(false, |tx, batch| hand_over(tx, batch, pool, index));
        }
    }

    /// Sends a frame where it lies to a port that forwards and has no egress queues. False, with nothing done, if it is
    /// another port.
    #[inline]
    pub(super) fn send_direct(&mut self, frame: &mut Frame, port: u32) -> bool {
        let sends = PortFlags::UP | PortFlags::NO_FORWARD | PortFlags::QUEUES;
        match self.queues.get(port) {
            Some(tx) if tx.shared.flags().0 & sends == PortFlags::UP => {
                if let Err(reason) = tx.queue.tx_taken(frame, &mut self.pool) {
                    tx.shared.cell(self.index).count_tx_drop(reason, 1);
                }
                true
            }
            _ => false,
        }
    }

    /// Sends the copies that were noted of a frame.
    pub(super) fn send_copies(
        &mut self,
        frame: Frame,
        notes: &mut Notes,
        from: &PortShared,
        watch: &Watch,
        now_ns: u64,
    ) {
        let cell = from.cell(self.index);
        let (index, ports, queues) = (self.index, &self.ports, &mut self.queues);
        let looks = !watch.is_off();
        let drop = |port: u32, reason: DropReason| {
            match ports.get(port) {
                Some(to) => to.cell(index).count_drop(reason, 1),
                None => cell.count_drop(reason, 1),
            }
            if looks {
                watch.note_drop(reason.word(), Some(port));
            }
        };
        let out = |outgoing: OutputCopy, pool: &mut Pool| match queues.get(outgoing.port) {
            Some(tx) => {
                if looks {
                    watch.out(&tx.shared, &outgoing.frame, from.number, now_ns);
                }
                let sent = match &mut tx.shaper {
                    None => tx.queue.tx_owned(outgoing.frame, pool),
                    Some(shaper) => shaper.push(outgoing.queue, outgoing.frame, pool),
                };
                if let Err(reason) = sent {
                    tx.shared.cell(index).count_tx_drop(reason, 1);
                }
                if looks {
                    match sent {
                        Ok(()) => watch.note_sent(outgoing.port),
                        Err(reason) => watch.note_drop(reason.name(), Some(outgoing.port)),
                    }
                }
            }
            None => {
                drop(outgoing.port, DropReason::PortUnknown);
                pool.give(outgoing.frame);
            }
        };
        notes.finish(frame, &mut self.pool, ports, drop, out);
    }

    /// Sends what was queued, and of what waits in egress queues what may go. With `keep`, small batches wait for more.
    pub(super) fn flush(&mut self, keep: bool, now_ns: u64) {
        let (index, pool, mut due_ns) = (self.index, &mut self.pool, self.due_ns);
        if due_ns <= now_ns {
            due_ns = u64::MAX;
        }
        if self.queues.holds() {
            self.queues.give(keep, |tx, batch| hand_over(tx, batch, pool, index));
        }
        self.queues.flush(|tx| {
            let cell = tx.shared.cell(index);
            if let Some(shaper) = &mut tx.shaper {
                if tx.shared.flags().has(PortFlags::UP) {
                    let due = shaper.run(now_ns, &mut *tx.queue, pool, cell);
                    due_ns = due_ns.min(due.unwrap_or(u64::MAX));
                } else {
                    cell.count_drop(DropReason::PortDown, shaper.discard(pool));
                }
            }
            let report = tx.queue.flush();
            cell.count_tx(report.sent, report.sent_bytes);
            if !report.drops.is_zero() {
                for (reason, n) in report.drops.iter() {
                    cell.count_tx_drop(reason, n);
                }
            }
        });
        self.due_ns = due_ns;
    }

    /// Gives up what waits in the egress queues of some ports.
    fn discard(&mut self, of: impl Fn(&TxPort) -> bool, reason: DropReason) {
        for line in self.queues.iter_mut().filter(|line| of(line)) {
            if let Some(shaper) = &mut line.shaper {
                line.shared.cell(self.index).count_drop(reason, shaper.discard(&mut self.pool));
            }
        }
    }

    /// Gives a port other egress queues; what waits moves over, and leaves at once where the port
    /// has none any more.
    pub(super) fn set_queues(&mut self, port: u32, queues: Option<Arc<Queues>>) {
        let Some(line) = self.queues.get(port) else { return };
        let cell = line.shared.cell(self.index);
        let new = queues.map(|queues| Box::new(Shaper::new(queues, self.index)));
        let old = std::mem::replace(&mut line.shaper, new);
        match (old, &mut line.shaper) {
            (None, _) => {}
            (Some(mut old), Some(new)) => {
                let lost = old.move_to(new, &mut self.pool);
                cell.count_tx_drop(port::DropReason::TxQueueFull, lost);
            }
            (Some(mut old), None) => old.release(&mut *line.queue, &mut self.pool, cell),
        }
        self.queues.arrange();
    }
}

/// Gives a queue what was dealt to it, or counts it there, if its port forwards nothing by now.
#[inline]
fn hand_over(line: &mut TxPort, batch: &mut Batch, pool: &mut Pool, index: usize) {
    let TxPort { queue, shared, .. } = line;
    let flags = shared.flags();
    if flags.0 & (PortFlags::UP | PortFlags::NO_FORWARD) == PortFlags::UP {
        return queue.tx_batch(batch, pool, &mut |why| shared.cell(index).count_tx_drop(why, 1));
    }
    let reason = match flags.has(PortFlags::NO_FORWARD) {
        true => DropReason::PortNoForward,
        false => DropReason::PortDown,
    };
    shared.cell(index).count_drop(reason, batch.len() as u64);
    batch.release();
}

/// Counts packets that are dropped, unless they are not lost.
#[inline]
pub(super) fn count_lost(from: &PortShared, worker: usize, reason: u32, n: u64) {
    if reason != abi::reason::NONE {
        from.cell(worker).count_drop(drop_reason(reason), n);
    }
}

/// Why compiled code has dropped a packet, from its outcome.
#[inline]
pub(super) fn drop_reason(reason: u32) -> DropReason {
    DropReason::ALL.get(reason as usize).copied().unwrap_or(DropReason::NoOutput)
}
