//! What wakes and ends the threads behind the façade.

use crate::monitor::Bell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the thread that publishes sleeps on.
pub(crate) struct Due {
    waker: Mutex<bool>,
    changed: Condvar,
}

impl Due {
    fn new() -> Due {
        Due { waker: Mutex::new(false), changed: Condvar::new() }
    }

    /// While no thread has taken the last call there is no need for another: that spares a system call for each transaction.
    pub(crate) fn wake(&self) {
        if !std::mem::replace(&mut *self.waker(), true) {
            self.changed.notify_one();
        }
    }

    fn waker(&self) -> MutexGuard<'_, bool> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until woken, or so long; says whether it was woken since it last said so.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let due = self.waker();
        let waited = self.changed.wait_timeout_while(due, timeout, |due| !*due);
        let (mut due, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::take(&mut *due)
    }
}

/// What wakes and ends the threads behind the façade.
pub(crate) struct Signals {
    pub(crate) publish: Due,
    pub(crate) work: Due,
    pub(crate) monitor: Bell,
    /// A group watches a port.
    pub(crate) watched: AtomicBool,
    pub(crate) stopping: AtomicBool,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            publish: Due::new(),
            work: Due::new(),
            monitor: Bell::new()?,
            watched: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        })
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.publish.wake();
        self.work.wake();
        self.monitor.ring();
    }
}
