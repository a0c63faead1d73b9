//! The threads of the packet path, which several switches may share.
//!
//! A switch has a lane on each worker ([`datapath::worker`]): its version, its ports' queues, its counters. Ports of two
//! switches on the same workers can be patched together, as what one sends is at hand for the other on the same thread.
//! The threads end with [`Workers::stop`], or with the last handle of them and of their switches.

use crate::start::StartError;
use datapath::worker::{BURSTS_MAX, COMMANDS_TIME, Load, Worker, WorkerConfig, WorkerHandle};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// The calling thread's number in the kernel.
pub(crate) fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Workers on threads. Clones are handles of the same ones.
#[derive(Clone)]
pub struct Workers(Arc<Inner>);

struct Inner {
    epoch: Instant,
    handles: Vec<WorkerHandle>,
    /// Their threads, 0 before they run.
    tids: Vec<Arc<AtomicI32>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    /// So many workers, pinned to these processors in order; fewer processors than workers leaves the rest unpinned.
    pub fn start(count: usize, cpus: &[usize]) -> Result<Workers, StartError> {
        if count == 0 {
            return Err(StartError::NoWorkers);
        }
        let epoch = Instant::now();
        let (mut handles, mut tids, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..count {
            let (worker, handle) = Worker::new(WorkerConfig {
                index,
                cpu: cpus.get(index).copied(),
                commands_time: COMMANDS_TIME,
                bursts_max: BURSTS_MAX,
            })?;
            handles.push(handle);
            let number = Arc::new(AtomicI32::new(0));
            tids.push(number.clone());
            let run = move || {
                number.store(tid(), Ordering::Relaxed);
                worker.run(epoch);
            };
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            threads.push(thread.spawn(run)?);
        }
        let threads = Mutex::new(threads);
        Ok(Workers(Arc::new(Inner { epoch, handles, tids, threads })))
    }

    /// How many there are.
    // There is at least one.
    #[expect(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.handles.len()
    }

    /// The zero of the clock.
    pub(crate) fn epoch(&self) -> Instant {
        self.0.epoch
    }

    /// Their handles, in order.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &WorkerHandle> {
        self.0.handles.iter()
    }

    /// The kernel's numbers of their threads, 0 before they run.
    pub(crate) fn tids(&self) -> impl Iterator<Item = i32> + '_ {
        self.0.tids.iter().map(|tid| tid.load(Ordering::Relaxed))
    }

    /// How busy each has been since the start, in order.
    pub fn loads(&self) -> Vec<Load> {
        self.handles().map(WorkerHandle::load).collect()
    }

    /// Whether they poll without ever sleeping; by default they sleep when all is silent.
    pub fn set_polling(&self, polls: bool) {
        self.0.handles.iter().for_each(|handle| handle.set_polling(polls));
    }

    /// Stops them, after what they have in hand, and waits for them. Switches that are still there forward nothing more.
    pub fn stop(&self) {
        self.0.handles.iter().for_each(WorkerHandle::stop);
        let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in std::mem::take(&mut *threads) {
            if thread.join().is_err() {
                tracing::error!("a worker panicked");
            }
        }
    }
}
