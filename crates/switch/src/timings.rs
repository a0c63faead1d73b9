//! How long changes take, counted since the start; and who is told of those that are slow.

use metrics::Histogram;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What a switch does on its control side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// From a request's updates to a new version of the pipeline.
    Transaction,
    /// From a version of the pipeline to one that workers may take up. Code that no packet may do without is made here.
    Publication,
    /// Work beside packets and changes: better code, rearranged tables.
    Background,
    /// From when a barrier is made until all workers forward by what came before it.
    Barrier,
}

impl Work {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Work::Transaction => "transaction",
            Work::Publication => "publication",
            Work::Background => "background work",
            Work::Barrier => "barrier",
        }
    }
}

/// Is told what was slow, when it began and how long it took. It must not wait: who does the work calls it.
pub type Watcher = Box<dyn Fn(Work, Instant, Duration) + Send + Sync>;

/// Who is told of what is slow.
struct Slow {
    from: Duration,
    tell: Watcher,
}

impl std::fmt::Debug for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slow({:?})", self.from)
    }
}

/// Durations of what a switch does on its control side.
#[derive(Debug, Default)]
pub struct Timings {
    /// [`Work::Transaction`].
    pub transactions: Histogram,
    /// [`Work::Publication`].
    pub publications: Histogram,
    /// [`Work::Background`].
    pub background: Histogram,
    /// [`Work::Barrier`].
    pub barriers: Histogram,
    slow: OnceLock<Slow>,
}

impl Timings {
    /// Tells of all that takes this long or longer from now on. False if somebody is told already.
    pub fn watch(&self, from: Duration, tell: Watcher) -> bool {
        self.slow.set(Slow { from, tell }).is_ok()
    }

    /// Counts work that has just ended.
    pub(crate) fn ended(&self, work: Work, began: Instant) {
        let took = began.elapsed();
        let histogram = match work {
            Work::Transaction => &self.transactions,
            Work::Publication => &self.publications,
            Work::Background => &self.background,
            Work::Barrier => &self.barriers,
        };
        histogram.add(took);
        if let Some(slow) = self.slow.get().filter(|slow| took >= slow.from) {
            (slow.tell)(work, began, took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn who_watches_is_told_of_what_is_slow_and_of_nothing_else() {
        let timings = Timings::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = told.clone();
        let watcher = move |work, _, took| to.lock().unwrap().push((work, took));
        assert!(timings.watch(LONG, Box::new(watcher)));
        assert!(
            !timings.watch(Duration::ZERO, Box::new(|_, _, _| panic!("somebody watches already")))
        );
        let now = Instant::now();
        timings.ended(Work::Barrier, now);
        let before = now.checked_sub(LONG).expect("a machine up for so long");
        timings.ended(Work::Transaction, before);
        let told = told.lock().unwrap();
        assert!(matches!(told[..], [(Work::Transaction, took)] if took >= LONG));
        assert_eq!(timings.barriers.counts().count(), 1);
    }
}
