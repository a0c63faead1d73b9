//! Locks.

use std::sync::{Mutex, MutexGuard};

/// A poisoned lock is taken all the same: what the server's locks guard changes in single steps, so
/// it is whole even if a thread of ours panicked over it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
