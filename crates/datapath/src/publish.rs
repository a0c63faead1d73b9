//! Publication: one swap makes a version current; each worker says when it has adopted it.
//!
//! A worker compares one atomic, the number of publications, with that of its snapshot before each
//! burst, and only if they differ takes the new snapshot. (One version may be published again, with
//! better code for it.) The control side knows a version to be in force when every running
//! worker has adopted it or a later one ([`Publisher::adopted_by_all`]): that is what barriers wait
//! for.
//!
//! Ordering: `current` is swapped before `generation` is stored (Release); a worker that reads the
//! generation (Acquire) therefore finds that snapshot or a later one. A worker stores `adopted`
//! (Release) after it has dropped the older snapshot, so an engine may take that one apart once all
//! workers have passed it.
//!
//! A worker that sleeps holds no snapshot and is not waited for ([`Publisher::stop`]); when it wakes
//! it takes the current one ([`Publisher::start`]). So a transaction on a silent switch wakes nobody.
//! Both sides store first and look then, with a full fence in between (Dekker): either the control
//! side sees the worker running, or the worker sees the version that was just published.

use crate::engine::Forward;
use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

struct Published {
    forward: Arc<dyn Forward>,
    generation: u64,
}

/// A snapshot that a worker runs by.
pub struct Held {
    /// The snapshot.
    pub forward: Arc<dyn Forward>,
    /// The number of its publication.
    generation: u64,
}

/// A worker's side of the publication: which version it runs by, and whether it runs at all.
struct Slot {
    adopted: AtomicU64,
    running: AtomicBool,
}

/// The current version, and who has adopted which.
pub struct Publisher {
    current: ArcSwap<Published>,
    version: AtomicU64,
    generation: AtomicU64,
    slots: Box<[CachePadded<Slot>]>,
}

impl Publisher {
    /// A first version, for so many workers, none of them running.
    pub fn new(forward: Arc<dyn Forward>, workers: usize) -> Publisher {
        let slot = || {
            CachePadded::new(Slot { adopted: AtomicU64::new(0), running: AtomicBool::new(false) })
        };
        Publisher {
            version: AtomicU64::new(forward.version()),
            current: ArcSwap::from_pointee(Published { forward, generation: 0 }),
            generation: AtomicU64::new(0),
            slots: (0..workers).map(|_| slot()).collect(),
        }
    }

    /// Makes a snapshot current. Workers adopt it at their next burst. One thread at a time.
    pub fn publish(&self, forward: Arc<dyn Forward>) {
        let version = forward.version();
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        self.current.store(Arc::new(Published { forward, generation }));
        self.version.store(version, Ordering::Release);
        self.generation.store(generation, Ordering::Release);
    }

    /// The number of the current version.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What a worker holds is not the current snapshot.
    #[inline]
    pub fn is_stale(&self, held: &Held) -> bool {
        self.generation.load(Ordering::Acquire) != held.generation
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> Arc<dyn Forward> {
        self.current.load_full().forward.clone()
    }

    fn current(&self) -> Held {
        let published = self.current.load_full();
        Held { forward: published.forward.clone(), generation: published.generation }
    }

    /// Worker `worker` starts, or wakes: from now on its adoption counts.
    pub fn start(&self, worker: usize) -> Held {
        self.slots[worker].running.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let held = self.current();
        self.slots[worker].adopted.store(held.forward.version(), Ordering::Release);
        held
    }

    /// Worker `worker` takes the current snapshot in place of its own.
    pub fn adopt(&self, worker: usize, mine: &mut Held) {
        *mine = self.current();
        self.slots[worker].adopted.store(mine.forward.version(), Ordering::Release);
    }

    /// Worker `worker` stops, or goes to sleep: nobody waits for it any more. It has let go of its
    /// snapshot.
    pub fn stop(&self, worker: usize) {
        self.slots[worker].running.store(false, Ordering::SeqCst);
    }

    /// Every running worker forwards by `version` or a later one.
    pub fn adopted_by_all(&self, version: u64) -> bool {
        fence(Ordering::SeqCst);
        self.slots.iter().all(|s| {
            !s.running.load(Ordering::SeqCst) || s.adopted.load(Ordering::Acquire) >= version
        })
    }
}

/// A worker's way to the current version: it holds one snapshot, and none while it sleeps.
pub struct Reader {
    publisher: Arc<Publisher>,
    worker: usize,
    held: Option<Held>,
}

impl Reader {
    /// A reader for this worker, which counts as running from now on.
    pub fn new(publisher: Arc<Publisher>, worker: usize) -> Reader {
        let held = Some(publisher.start(worker));
        Reader { publisher, worker, held }
    }

    /// Takes the current version, if it holds another one. One that holds none takes it when it is [asked](Self::get).
    #[inline]
    pub fn adopt(&mut self) {
        if let Some(held) = &mut self.held
            && self.publisher.is_stale(held)
        {
            self.publisher.adopt(self.worker, held);
        }
    }

    /// What it holds; the current version, if it held none.
    #[inline]
    pub fn get(&mut self) -> &mut Held {
        self.held.get_or_insert_with(|| self.publisher.start(self.worker))
    }

    /// What it holds.
    #[inline]
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Nobody waits for the worker any more.
    pub fn stop(&self) {
        self.publisher.stop(self.worker);
    }

    /// Lets go of what it holds: the worker goes to sleep.
    pub fn sleep(&mut self) {
        if self.held.take().is_some() {
            self.stop();
        }
    }
}
