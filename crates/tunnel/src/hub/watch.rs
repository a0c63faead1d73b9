//! Who is shown the inner frames of a tunnel port before the port has them: BFD takes its own packets out here.
//!
//! Cost for a port that nobody watches: a look at a flag for each frame.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;

/// What became of a frame that was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// It goes on to the port.
    Other,
    /// It was taken.
    Taken,
    /// It would have been taken, and there was no room for it.
    Lost,
}

/// Is shown inner frames, each with its tunnel key (0 without one). Workers call it, so it must not wait.
pub struct Watch(Box<Show>);

type Show = dyn Fn(&[u8], u64) -> Watched + Send + Sync;

impl Watch {
    /// One that does this with a frame.
    pub fn new(show: impl Fn(&[u8], u64) -> Watched + Send + Sync + 'static) -> Watch {
        Watch(Box::new(show))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// Who watches a port, if somebody does.
#[derive(Default)]
pub(super) struct Watcher {
    watch: ArcSwapOption<Watch>,
    /// There is one.
    is_there: AtomicBool,
}

impl Watcher {
    pub(super) fn set(&self, watch: Option<Watch>) {
        let is_there = watch.is_some();
        self.watch.store(watch.map(Arc::new));
        self.is_there.store(is_there, Ordering::Release);
    }

    /// Shows an inner frame.
    #[inline]
    pub(super) fn show(&self, frame: &[u8], key: u64) -> Watched {
        if !self.is_there.load(Ordering::Acquire) {
            return Watched::Other;
        }
        self.watch.load().as_ref().map_or(Watched::Other, |watch| (watch.0)(frame, key))
    }
}
