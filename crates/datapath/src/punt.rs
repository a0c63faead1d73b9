//! The ring to the control side: punted copies and digests, bounded in messages, bytes and rate.
//!
//! Workers put messages in and never wait; the control side takes them out. What does not fit is
//! refused and counted by the worker: a copy as a drop with its reason, a digest, with which no
//! frame is lost, by itself. So no traffic can grow memory or starve the control path (DESIGN 6).

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use ir::{Bits, DigestId, DropReason, EntryId, PuntReason, TableId};
use state::rate_limit::RateLimit;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Messages in the ring, at most.
pub const MESSAGES_MAX: usize = 8192;
/// Bytes of frames in the ring, at most.
pub const BYTES_MAX: usize = 16 << 20;
/// Messages per second, unless configured otherwise.
pub const RATE_DEFAULT: u64 = 100_000;

/// What a worker tells the control side.
#[derive(Clone, Debug)]
pub enum Message {
    /// A copy of a packet.
    Punt(Punt),
    /// Values that the program wants known.
    Digest {
        /// Which digest.
        digest: DigestId,
        /// One value for each of its fields.
        args: Vec<Bits>,
    },
}

/// A punted copy of a packet.
#[derive(Clone, Debug)]
pub struct Punt {
    /// Why.
    pub reason: PuntReason,
    /// The table whose entry punted it.
    pub table: Option<TableId>,
    /// That entry.
    pub entry: Option<EntryId>,
    /// Values that the program wants known.
    pub args: Vec<Bits>,
    /// The port it came in by.
    pub in_port: u32,
    /// The frame, checksums complete.
    pub bytes: Vec<u8>,
}

struct Shared {
    bytes: AtomicUsize,
    limit: Mutex<RateLimit>,
}

/// The workers' end. Cheap to clone.
#[derive(Clone)]
pub struct PuntRing {
    sender: Sender<Message>,
    shared: Arc<Shared>,
}

/// The control side's end.
pub struct PuntReceiver {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
}

/// A ring that lets `rate` messages per second pass, with a burst of a tenth of that.
pub fn ring(rate: u64) -> (PuntRing, PuntReceiver) {
    let (sender, receiver) = bounded(MESSAGES_MAX);
    let limit = RateLimit::new(rate, (rate / 10).max(64), 0);
    let shared = Arc::new(Shared { bytes: AtomicUsize::new(0), limit: Mutex::new(limit) });
    (PuntRing { sender, shared: shared.clone() }, PuntReceiver { receiver, shared })
}

fn size(message: &Message) -> usize {
    match message {
        Message::Punt(punt) => punt.bytes.len(),
        Message::Digest { .. } => 0,
    }
}

impl PuntRing {
    /// Whether one more may pass now: the rate. Ask before copying the frame.
    pub fn admit(&self, now_ns: u64) -> Result<(), DropReason> {
        // A poisoned lock holds a token bucket, which is sound at every step.
        let mut limit = self.shared.limit.lock().unwrap_or_else(|e| e.into_inner());
        if limit.admit(1, now_ns) { Ok(()) } else { Err(DropReason::PuntRateLimit) }
    }

    /// Puts a message in, or says that the ring is full.
    pub fn send(&self, message: Message) -> Result<(), DropReason> {
        let size = size(&message);
        let before = self.shared.bytes.fetch_add(size, Ordering::Relaxed);
        let result = if before + size > BYTES_MAX {
            Err(DropReason::PuntRingFull)
        } else {
            self.sender.try_send(message).map_err(|e| match e {
                TrySendError::Full(_) => DropReason::PuntRingFull,
                TrySendError::Disconnected(_) => DropReason::Stopped,
            })
        };
        if result.is_err() {
            self.shared.bytes.fetch_sub(size, Ordering::Relaxed);
        }
        result
    }
}

impl PuntReceiver {
    /// The next message, if there is one.
    pub fn try_recv(&self) -> Option<Message> {
        self.receiver.try_recv().ok().inspect(|m| self.took(m))
    }

    /// The next message, waiting for it at most so long; `None` also when all workers are gone.
    pub fn recv_timeout(&self, timeout: std::time::Duration) -> Option<Message> {
        self.receiver.recv_timeout(timeout).ok().inspect(|m| self.took(m))
    }

    /// The channel, to wait for with others; take messages by the methods above only.
    pub fn channel(&self) -> &Receiver<Message> {
        &self.receiver
    }

    fn took(&self, message: &Message) {
        self.shared.bytes.fetch_sub(size(message), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn punt(len: usize) -> Message {
        Message::Punt(Punt {
            reason: PuntReason::Action,
            table: None,
            entry: None,
            args: Vec::new(),
            in_port: 1,
            bytes: vec![0; len],
        })
    }

    #[test]
    fn bounded_in_messages_and_bytes() {
        let (ring, receiver) = ring(RATE_DEFAULT);
        let big = BYTES_MAX / 4;
        (0..4).for_each(|_| ring.send(punt(big)).unwrap());
        assert_eq!(ring.send(punt(1)), Err(DropReason::PuntRingFull));
        assert!(receiver.try_recv().is_some());
        ring.send(punt(big)).unwrap();
        while receiver.try_recv().is_some() {}
        (0..MESSAGES_MAX).for_each(|_| ring.send(punt(0)).unwrap());
        assert_eq!(ring.send(punt(0)), Err(DropReason::PuntRingFull));
        drop(receiver);
        assert_eq!(ring.send(punt(0)), Err(DropReason::Stopped));
    }

    #[test]
    fn limited_in_rate() {
        let (ring, _receiver) = ring(1000);
        let admitted = (0..10_000).filter(|_| ring.admit(5).is_ok()).count();
        assert_eq!(admitted, 100);
        assert!(ring.admit(1_000_000_000).is_ok());
    }
}
