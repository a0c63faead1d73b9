//! Queues from a worker to itself: what it sends there while it serves one switch, it takes for another in the next turn.
//!
//! Patch ports are made of these, and so is all else that leads from port to port within a process. A [`Sender`] gathers
//! frames and hands them over at its flush; a [`Receiver`] takes them. That costs no system call, no lock that anybody waits
//! for, and no copy; frames that are still their driver's stay where they lie ([`Batch`]).
//!
//! Frames that go round in circles are dropped after [`HOPS_MAX`] hops: a frame that came out of such a queue has made one
//! hop more than the burst that it was sent with ([`Hops`]). The worker tells the queue when that burst is done
//! ([`RxQueue::done`]), and gives what it has dealt to ports before and behind it. A frame that has waited in an egress
//! queue or for another packet begins anew.
//!
//! Invariants: a sender adds nothing to a wire with [`FRAMES_MAX`] frames, those that it has gathered included; a batch is
//! added whole. What is left in a wire when its reader goes, or comes after that, is counted as lost.
//! Cost: a lock, which nobody holds, for each burst; for a frame, two moves of it, or of its token.
//! Checked by: the tests of [`patch`](crate::patch); between switches by the tests of `control::bridges`.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Batch, BorrowedBurst, Burst, DropReason, Frame, Pool, RxError, RxQueue};

/// Such queues in a row that a frame goes through, at most.
pub const HOPS_MAX: u8 = 64;
/// Frames that wait in a wire, at most.
pub const FRAMES_MAX: usize = 4096;
/// Free lists of a wire that are kept.
const SPARE_MAX: usize = 8;

/// Hops that the burst at hand has made, of each worker. Clones are the same.
#[derive(Clone, Debug)]
pub struct Hops(Arc<[AtomicU8]>);

impl Hops {
    /// For so many workers, one at least.
    pub fn new(workers: usize) -> Hops {
        Hops((0..workers.max(1)).map(|_| AtomicU8::new(0)).collect())
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, worker: usize) -> u8 {
        self.0[worker].load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, worker: usize, hops: u8) {
        self.0[worker].store(hops, Ordering::Relaxed);
    }
}

/// A worker's queue in one direction.
#[derive(Default)]
pub struct Wire {
    waiting: Mutex<Waiting>,
    frames: AtomicUsize,
    /// Frames that had no reader any more.
    lost: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    parcels: VecDeque<Parcel>,
    /// Empty, to be filled again.
    batches: Vec<Batch>,
    lists: Vec<Vec<Frame>>,
    /// The reader has gone, and none has come since.
    deserted: bool,
}

/// Frames that were sent one behind the other.
struct Parcel {
    /// What they have made, this one included.
    hops: u8,
    of: Content,
}

enum Content {
    Frames(Vec<Frame>),
    Batch(Batch),
}

impl Content {
    fn len(&self) -> usize {
        match self {
            Content::Frames(frames) => frames.len(),
            Content::Batch(batch) => batch.len(),
        }
    }
}

impl Waiting {
    /// The first parcel is empty: its list is used again.
    fn pop_front(&mut self) {
        match self.parcels.pop_front().map(|parcel| parcel.of) {
            Some(Content::Frames(list)) if self.lists.len() < SPARE_MAX => self.lists.push(list),
            Some(Content::Batch(batch)) if self.batches.len() < SPARE_MAX => {
                self.batches.push(batch);
            }
            _ => {}
        }
    }
}

impl Wire {
    /// Frames that were lost because their reader had gone.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// What is guarded is valid after each step.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what waits as lost.
    fn drain(&self, waiting: &mut Waiting) {
        let left = std::mem::take(&mut waiting.parcels);
        let frames: usize = left.iter().map(|parcel| parcel.of.len()).sum();
        self.frames.fetch_sub(frames, Ordering::Relaxed);
        self.lost.fetch_add(frames as u64, Ordering::Relaxed);
    }
}

/// Takes what was sent into a wire.
pub struct Receiver {
    wire: Arc<Wire>,
    worker: usize,
    hops: Hops,
}

impl Receiver {
    /// Of a wire of this worker, which is one of those of `hops`.
    pub fn new(wire: Arc<Wire>, worker: usize, hops: Hops) -> Receiver {
        wire.waiting().deserted = false;
        Receiver { wire, worker, hops }
    }

    /// Takes frames of one number of hops. What lies with its driver goes to `borrowed`, if there is one.
    fn take(&mut self, mut borrowed: Option<&mut BorrowedBurst>, burst: &mut Burst) -> usize {
        if self.wire.frames.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let mut waiting = self.wire.waiting();
        let (mut taken, mut hops) = (0, None);
        while burst.room() > 0
            && let Some(parcel) = waiting.parcels.front_mut()
            && hops.is_none_or(|hops| hops == parcel.hops)
        {
            hops = Some(parcel.hops);
            match (&mut parcel.of, &mut borrowed) {
                (Content::Batch(batch), Some(borrowed)) => {
                    if burst.is_empty() {
                        taken += batch.move_to(borrowed);
                    }
                    // All came in the same way, or none did.
                    if batch.is_empty() {
                        waiting.pop_front();
                    }
                    break;
                }
                (Content::Batch(batch), None) => {
                    let before = burst.len();
                    batch.become_frames(burst);
                    taken += burst.len() - before;
                    if batch.is_empty() {
                        waiting.pop_front();
                    }
                }
                (Content::Frames(frames), _) => {
                    let n = frames.len().min(burst.room());
                    for frame in frames.drain(..n) {
                        // There is room.
                        let _ = burst.push(frame);
                    }
                    taken += n;
                    if frames.is_empty() {
                        waiting.pop_front();
                    }
                }
            }
        }
        drop(waiting);
        self.wire.frames.fetch_sub(taken, Ordering::Relaxed);
        self.hops.set(self.worker, hops.unwrap_or(0));
        taken
    }
}

impl RxQueue for Receiver {
    fn rx(&mut self, burst: &mut Burst, _: &mut Pool) -> Result<usize, RxError> {
        Ok(self.take(None, burst))
    }

    fn rx_borrowed(
        &mut self,
        borrowed: &mut BorrowedBurst,
        burst: &mut Burst,
        _: &mut Pool,
    ) -> Result<usize, RxError> {
        Ok(self.take(Some(borrowed), burst))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn local(&self) -> Option<bool> {
        Some(self.wire.frames.load(Ordering::Relaxed) > 0)
    }

    fn done(&mut self) {
        self.hops.set(self.worker, 0);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut waiting = self.wire.waiting();
        waiting.deserted = true;
        self.wire.drain(&mut waiting);
    }
}

/// Sends into a wire.
pub struct Sender {
    wire: Arc<Wire>,
    worker: usize,
    hops: Hops,
    /// What has gathered since the last parcel.
    frames: Vec<Frame>,
    frames_hops: u8,
    /// What has gathered since the last flush.
    parcels: Vec<Parcel>,
    /// Frames of both.
    gathered: usize,
}

impl Sender {
    /// Into a wire of this worker, which is one of those of `hops`.
    pub fn new(wire: Arc<Wire>, worker: usize, hops: Hops) -> Sender {
        let (frames, parcels) = (Vec::new(), Vec::new());
        Sender { wire, worker, hops, frames, frames_hops: 0, parcels, gathered: 0 }
    }

    /// The hops of what is sent now, unless it must not go.
    #[inline]
    pub fn check(&self) -> Result<u8, DropReason> {
        let waiting = self.wire.frames.load(Ordering::Relaxed);
        if waiting + self.gathered >= FRAMES_MAX {
            return Err(DropReason::TxQueueFull);
        }
        let hops = self.hops.get(self.worker);
        if hops >= HOPS_MAX {
            return Err(DropReason::PatchLoop);
        }
        Ok(hops + 1)
    }

    /// Adds a frame that was [checked](Self::check) and has made so many hops.
    #[inline]
    pub fn push(&mut self, frame: Frame, hops: u8) {
        if hops != self.frames_hops {
            self.close();
            self.frames_hops = hops;
        }
        self.gathered += 1;
        self.frames.push(frame);
    }

    /// Adds frames that are still their driver's; the batch is empty then.
    pub fn push_batch(&mut self, batch: &mut Batch, hops: u8) {
        self.close();
        let empty = self.wire.waiting().batches.pop().unwrap_or_default();
        let sent = std::mem::replace(batch, empty);
        self.gathered += sent.len();
        self.parcels.push(Parcel { hops, of: Content::Batch(sent) });
    }

    /// What is sent next goes into another parcel.
    fn close(&mut self) {
        if !self.frames.is_empty() {
            let frames = std::mem::take(&mut self.frames);
            self.parcels.push(Parcel { hops: self.frames_hops, of: Content::Frames(frames) });
        }
    }

    /// Hands over what has gathered.
    pub fn flush(&mut self) {
        self.close();
        if self.parcels.is_empty() {
            return;
        }
        let mut waiting = self.wire.waiting();
        waiting.parcels.extend(self.parcels.drain(..));
        self.frames = waiting.lists.pop().unwrap_or_default();
        self.wire.frames.fetch_add(std::mem::take(&mut self.gathered), Ordering::Relaxed);
        if waiting.deserted {
            self.wire.drain(&mut waiting);
        }
    }
}
