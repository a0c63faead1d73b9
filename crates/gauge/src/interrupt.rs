//! An end from outside: a signal, or whoever drives the measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says that all is to end as soon as it can; clones say the same.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// One that is raised by setting this.
    pub fn by(flag: Arc<AtomicBool>) -> Interrupt {
        Interrupt(flag)
    }

    /// All is to end.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether all is to end.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
