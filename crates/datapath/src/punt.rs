//! The ring to the control side: punted copies and digests, bounded in messages, bytes and rate.
//!
//! Workers put messages in and never wait; the control side takes them out. What does not fit is
//! refused and counted by the worker: a copy as a drop with its reason, a digest, with which no
//! frame is lost, by itself. So no traffic can grow memory or starve the control path.
//!
//! Ports share all three bounds fairly, so that a flood at one port costs no other port its messages.
//! The rate is dealt among ports ([`FairLimit`]). Each port has a queue; it may hold no more than
//! [`SHARE`] times the room that is left, so that room is always left for a port that had nothing to
//! say so far. The control side takes from the queues in turns, by bytes (deficit round robin).
//!
//! Cost: a punt is slow in any case (its frame is copied). A worker takes the lock of [`Admission`],
//! which workers alone hold, but for the moment in which the control side learns of a new port.
//! Checked by: tests below; `switch`'s `tests/punts.rs`.

use crate::repeats::{Forgotten, Place};
use crossbeam_channel::{Receiver, Sender, unbounded};
pub use interp::Caller;
use ir::{Bits, DigestId, DropReason, EntryId, GroupId, PuntReason, TableId};
use state::FairLimit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Messages in the ring, at most.
pub const MESSAGES_MAX: usize = 8192;
/// Bytes of frames in the ring, at most.
pub const BYTES_MAX: usize = 16 << 20;
/// Messages per second, unless configured otherwise.
pub const RATE_DEFAULT: u64 = 100_000;
/// A port's queue holds so many times the room that is left, at most.
const SHARE: usize = 8;
/// Bytes of one port that are taken in its turn, about.
const QUANTUM: isize = 16 << 10;
/// Turns that a port can owe for a frame longer than what it was due.
const DEBT_MAX: isize = 5;
/// What a message costs in its port's turn beside its bytes.
const OVERHEAD: isize = 256;

/// A message of a worker to the control side.
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
        /// By what workers remember it, so that they leave repeats out ([`Forgotten`]).
        place: Option<Place>,
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
    /// The bucket that punted it, if it was no entry: its group, and its place in it.
    pub bucket: Option<(GroupId, u32)>,
    /// Who called what it was in, the first one first.
    pub callers: Vec<Caller>,
    /// Values that the program wants known.
    pub args: Vec<Bits>,
    /// The port it came in by.
    pub in_port: u32,
    /// The frame, checksums complete.
    pub bytes: Vec<u8>,
}

/// What waits of one port.
struct Lane {
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Lane {
    fn new() -> Lane {
        let (sender, receiver) = unbounded();
        Lane { sender, receiver, messages: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }
}

/// Who may pass, and the ports' lanes, by the limit's places.
struct Admission {
    limit: FairLimit,
    lanes: Vec<Arc<Lane>>,
}

struct Shared {
    admission: Mutex<Admission>,
    /// How many lanes there are.
    lanes: AtomicUsize,
    messages: AtomicUsize,
    bytes: AtomicUsize,
    /// Ends that workers hold.
    rings: AtomicUsize,
    /// Nobody takes messages any more.
    closed: AtomicBool,
    /// Full while something may be there.
    bell: Sender<()>,
    forgotten: Arc<Forgotten>,
}

/// The workers' end. Cheap to clone.
pub struct PuntRing {
    shared: Arc<Shared>,
}

/// The control side's end.
pub struct PuntReceiver {
    shared: Arc<Shared>,
    bell: Receiver<()>,
    turns: Mutex<Turns>,
}

/// Whose turn it is.
#[derive(Default)]
struct Turns {
    /// The ports' lanes, each with the bytes that it may still give in its turn.
    lanes: Vec<(Arc<Lane>, isize)>,
    at: usize,
}

/// A ring that lets `rate` messages per second pass, with a burst of a tenth of that.
pub fn ring(rate: u64) -> (PuntRing, PuntReceiver) {
    let (bell, rung) = crossbeam_channel::bounded(1);
    let limit = FairLimit::new(rate, (rate / 10).max(64), 0);
    let shared = Arc::new(Shared {
        admission: Mutex::new(Admission { limit, lanes: Vec::new() }),
        lanes: AtomicUsize::new(0),
        messages: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        rings: AtomicUsize::new(1),
        closed: AtomicBool::new(false),
        bell,
        forgotten: Arc::default(),
    });
    let receiver =
        PuntReceiver { shared: shared.clone(), bell: rung, turns: Mutex::new(Turns::default()) };
    (PuntRing { shared }, receiver)
}

fn size(message: &Message) -> usize {
    match message {
        Message::Punt(punt) => punt.bytes.len(),
        Message::Digest { .. } => 0,
    }
}

impl Shared {
    /// A poisoned lock holds token buckets and a list that grows, which are sound at every step.
    fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn lane(&self, in_port: u32) -> Arc<Lane> {
        let mut admission = self.admission();
        let place = admission.limit.place(in_port);
        if place >= admission.lanes.len() {
            admission.lanes.resize_with(place + 1, || Arc::new(Lane::new()));
            self.lanes.store(place + 1, Ordering::Release);
        }
        admission.lanes[place].clone()
    }

    /// Room for one more message of so many bytes; taken if there is. Relaxed: the counts bound
    /// memory and guard nothing.
    fn reserve(&self, lane: &Lane, size: usize) -> bool {
        let take = |all: &AtomicUsize, own: &AtomicUsize, n: usize, most: usize| {
            let used = all.fetch_add(n, Ordering::Relaxed) + n;
            let before = own.fetch_add(n, Ordering::Relaxed);
            let left = most.saturating_sub(used);
            used <= most && (before == 0 || before + n <= left.saturating_mul(SHARE))
        };
        let count = take(&self.messages, &lane.messages, 1, MESSAGES_MAX);
        let bytes = take(&self.bytes, &lane.bytes, size, BYTES_MAX);
        if !(count && bytes) {
            self.release(lane, size);
        }
        count && bytes
    }

    fn release(&self, lane: &Lane, size: usize) {
        for (count, n) in [(&self.messages, 1), (&lane.messages, 1)] {
            count.fetch_sub(n, Ordering::Relaxed);
        }
        for count in [&self.bytes, &lane.bytes] {
            count.fetch_sub(size, Ordering::Relaxed);
        }
    }

    fn ring(&self) {
        // A bell that has been rung is as good.
        let _ = self.bell.try_send(());
    }
}

impl Clone for PuntRing {
    fn clone(&self) -> PuntRing {
        self.shared.rings.fetch_add(1, Ordering::Relaxed);
        PuntRing { shared: self.shared.clone() }
    }
}

impl Drop for PuntRing {
    fn drop(&mut self) {
        if self.shared.rings.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.ring();
        }
    }
}

impl Drop for PuntReceiver {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

impl PuntRing {
    /// What the control side makes workers forget of what they sent.
    pub fn forgotten(&self) -> &Arc<Forgotten> {
        &self.shared.forgotten
    }

    /// Whether one more of a frame that came in by this port may pass now: the rate. Ask before
    /// copying the frame.
    pub fn admit(&self, in_port: u32, now_ns: u64) -> Result<(), DropReason> {
        match self.shared.admission().limit.admit(in_port, now_ns) {
            true => Ok(()),
            false => Err(DropReason::PuntRateLimit),
        }
    }

    /// Whether [`admit`](Self::admit) would refuse.
    pub fn refuses(&self, in_port: u32, now_ns: u64) -> bool {
        self.shared.admission().limit.refuses(in_port, now_ns)
    }

    /// Puts a message about a frame that came in by this port in, or says that there is no room.
    pub fn send(&self, in_port: u32, message: Message) -> Result<(), DropReason> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(DropReason::Stopped);
        }
        let lane = self.shared.lane(in_port);
        let size = size(&message);
        if !self.shared.reserve(&lane, size) {
            return Err(DropReason::PuntRingFull);
        }
        if lane.sender.send(message).is_err() {
            self.shared.release(&lane, size);
            return Err(DropReason::Stopped);
        }
        self.shared.ring();
        Ok(())
    }
}

impl PuntReceiver {
    /// Makes workers forget what they sent.
    pub fn forgotten(&self) -> &Arc<Forgotten> {
        &self.shared.forgotten
    }

    /// The next message, if there is one.
    pub fn try_recv(&self) -> Option<Message> {
        if let Some(message) = self.take() {
            return Some(message);
        }
        // What comes from here on rings again; what came before is seen now.
        let _ = self.bell.try_recv();
        let message = self.take();
        if message.is_some() {
            self.shared.ring();
        }
        message
    }

    /// The next message, waiting for it at most so long; `None` also when all workers are gone.
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Message> {
        let until = Instant::now().checked_add(timeout);
        loop {
            if let Some(message) = self.try_recv() {
                return Some(message);
            }
            if self.shared.rings.load(Ordering::Acquire) == 0 {
                return self.try_recv();
            }
            let left = until.map_or(timeout, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() || self.bell.recv_timeout(left).is_err() {
                return self.try_recv();
            }
        }
    }

    /// Ready while a message may be there, to be waited for with others; take messages by the methods
    /// above only.
    pub fn bell(&self) -> &Receiver<()> {
        &self.bell
    }

    /// The next message by turns.
    fn take(&self) -> Option<Message> {
        if self.shared.messages.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut turns = self.turns.lock().unwrap_or_else(|e| e.into_inner());
        let Turns { lanes, at } = &mut *turns;
        if lanes.len() < self.shared.lanes.load(Ordering::Acquire) {
            let admission = self.shared.admission();
            lanes.extend(admission.lanes[lanes.len()..].iter().map(|lane| (lane.clone(), 0)));
        }
        // In one round each is asked once; the longest debt is paid in all of them but the last.
        for _ in 0..(DEBT_MAX + 2) as usize * lanes.len() {
            let (lane, credit) = &mut lanes[*at];
            if *credit > 0 {
                if let Ok(message) = lane.receiver.try_recv() {
                    let size = size(&message);
                    *credit = (*credit - size as isize - OVERHEAD).max(-DEBT_MAX * QUANTUM);
                    self.shared.release(lane, size);
                    return Some(message);
                }
                *credit = 0;
            }
            *credit = (*credit + QUANTUM).min(QUANTUM);
            *at = (*at + 1) % lanes.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn punt_of(in_port: u32, len: usize) -> Message {
        Message::Punt(Punt {
            reason: PuntReason::Action,
            table: None,
            entry: None,
            bucket: None,
            callers: Vec::new(),
            args: Vec::new(),
            in_port,
            bytes: vec![0; len],
        })
    }

    /// Sends messages of so many bytes by a port until one is refused; how many there were.
    fn fill(ring: &PuntRing, in_port: u32, len: usize) -> usize {
        (0..).take_while(|_| ring.send(in_port, punt_of(in_port, len)).is_ok()).count()
    }

    fn from(message: Option<Message>) -> Option<u32> {
        match message? {
            Message::Punt(punt) => Some(punt.in_port),
            Message::Digest { .. } => panic!("a digest"),
        }
    }

    #[test]
    fn bounded_in_messages_and_bytes() {
        let (ring, receiver) = ring(RATE_DEFAULT);
        let (big, floods) = (BYTES_MAX / 64, 40);
        let sent: usize = (1..=floods).map(|port| fill(&ring, port, big)).sum();
        assert!((60..=64).contains(&sent), "{sent}");
        assert_eq!(ring.send(1, punt_of(1, big)), Err(DropReason::PuntRingFull));
        let taken = std::iter::from_fn(|| receiver.try_recv()).count();
        assert_eq!(taken, sent);
        let sent: usize = (1..=floods).map(|port| fill(&ring, port, 0)).sum();
        assert!((MESSAGES_MAX - 128..=MESSAGES_MAX).contains(&sent), "{sent}");
        drop(receiver);
        assert_eq!(ring.send(1, punt_of(1, 0)), Err(DropReason::Stopped));
    }

    #[test]
    fn one_port_may_use_most_of_it_and_leaves_room_for_others() {
        for len in [0, 60, 1500, 65_535] {
            let (ring, _receiver) = ring(RATE_DEFAULT);
            let lone = fill(&ring, 1, len);
            assert!(
                lone * (len + 1) >= (BYTES_MAX / 2).min(MESSAGES_MAX / 2 * (len + 1)),
                "{lone}"
            );
            for quiet in 2..20 {
                ring.send(quiet, punt_of(quiet, len)).unwrap();
            }
            assert!(fill(&ring, 20, len) > lone / 50, "{len}: another one that wants much");
        }
    }

    #[test]
    fn limited_in_rate() {
        let (ring, _receiver) = ring(1000);
        let admitted = (0..10_000).filter(|_| ring.admit(1, 5).is_ok()).count();
        assert_eq!(admitted, 100);
        assert!(ring.admit(2, 5).is_ok(), "another port has its part");
        assert!(ring.admit(1, 1_000_000_000).is_ok());
    }

    #[test]
    fn taken_by_turns_each_port_in_its_order() {
        let (ring, receiver) = ring(RATE_DEFAULT);
        fill(&ring, 1, 1500);
        fill(&ring, 2, 60);
        let marked = |n: usize| punt_of(3, n);
        (1..=5).for_each(|n| ring.send(3, marked(n)).unwrap());
        let mut lengths = Vec::new();
        let before = (0..).take_while(|_| {
            if let Some(Message::Punt(punt)) = receiver.try_recv()
                && punt.in_port == 3
            {
                lengths.push(punt.bytes.len());
            }
            lengths.len() < 5
        });
        assert!(before.count() < 200, "port 3 does not wait for all of the others");
        assert_eq!(lengths, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn turns_are_even_in_bytes() {
        let (ring, receiver) = ring(RATE_DEFAULT);
        fill(&ring, 1, 9000);
        fill(&ring, 2, 250);
        let mut bytes = [0usize; 2];
        for _ in 0..1500 {
            let Some(Message::Punt(punt)) = receiver.try_recv() else { panic!("there are more") };
            bytes[punt.in_port as usize - 1] += punt.bytes.len() + OVERHEAD as usize;
        }
        assert!(bytes[0].abs_diff(bytes[1]) <= 2 * QUANTUM as usize + 9256, "{bytes:?}");
    }

    #[test]
    fn the_bell_is_rung_while_something_is_there() {
        let (ring, receiver) = ring(RATE_DEFAULT);
        assert!(receiver.try_recv().is_none() && receiver.bell().is_empty());
        (0..3).for_each(|port| ring.send(port, punt_of(port, 9)).unwrap());
        for _ in 0..3 {
            assert!(!receiver.bell().is_empty());
            assert!(receiver.try_recv().is_some());
        }
        assert!(receiver.try_recv().is_none() && receiver.bell().is_empty());
        ring.send(7, punt_of(7, 9)).unwrap();
        assert_eq!(from(receiver.recv_timeout(Duration::from_secs(60))), Some(7));
        drop(ring.clone());
        assert!(receiver.recv_timeout(Duration::ZERO).is_none());
        drop(ring);
        assert!(receiver.recv_timeout(Duration::from_secs(3600)).is_none(), "no worker is left");
    }

    #[test]
    fn what_is_sent_by_many_threads_is_taken_once() {
        let (ring, receiver) = ring(RATE_DEFAULT);
        let sent = std::thread::scope(|scope| {
            let sending: Vec<_> = (0..4u32)
                .map(|thread| {
                    let ring = ring.clone();
                    let send = move |n: u32| ring.send(n % 7, punt_of(n % 7, 100)).is_ok();
                    scope.spawn(move || (0..5000).filter(|n| send(n * 4 + thread)).count())
                })
                .collect();
            drop(ring);
            let mut taken = 0;
            while receiver.recv_timeout(Duration::from_secs(60)).is_some() {
                taken += 1;
            }
            let sent: usize = sending.into_iter().map(|t| t.join().unwrap()).sum();
            taken += std::iter::from_fn(|| receiver.try_recv()).count();
            assert_eq!(taken, sent);
            sent
        });
        assert!(sent >= MESSAGES_MAX / 2);
        assert_eq!(receiver.shared.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(receiver.shared.messages.load(Ordering::Relaxed), 0);
    }
}
