//! Until when this member opens connections of a share: what its trackers ask, on whichever worker.
//!
//! The member's thread renews it as long as the others hear this member. A process that stands still renews nothing, so when it goes
//! on, its workers find it over before the thread has learnt what happened meanwhile.

use service::conntrack::MayOpen;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The lease of a share.
pub(super) struct Lease {
    began: Instant,
    /// Its end, in nanoseconds since then; 0 while there is none.
    until_ns: AtomicU64,
}

impl Lease {
    /// One that is over.
    pub(super) fn over() -> Arc<Lease> {
        Arc::new(Lease { began: Instant::now(), until_ns: AtomicU64::new(0) })
    }

    /// It lasts for so long from now on.
    pub(super) fn renew(&self, span: Duration) {
        let until = (!span.is_zero()).then(|| nanos(self.began.elapsed().saturating_add(span)));
        self.until_ns.store(until.unwrap_or(0), Relaxed);
    }

    /// What a tracker asks.
    pub(super) fn question(self: &Arc<Lease>) -> MayOpen {
        let lease = self.clone();
        Arc::new(move || nanos(lease.began.elapsed()) < lease.until_ns.load(Relaxed))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
