//! Spans of slow work, until they are sent. The newest [`KEPT`] are kept.

use crate::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use switch::Switch;

/// So many wait at most.
pub(super) const KEPT: usize = 2048;

/// Something that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) bridge: String,
    /// What was done.
    pub(super) name: &'static str,
    /// In nanoseconds since 1970.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Spans {
    waiting: Mutex<(VecDeque<Span>, u64)>,
}

impl Spans {
    /// Has a switch tell of what takes this long or longer; once is enough.
    pub(super) fn watch(self: &Arc<Spans>, bridge: &str, switch: &Switch, from: Duration) {
        let (spans, bridge) = (self.clone(), bridge.to_owned());
        // False of a switch that tells already.
        let _ = switch.timings().watch(
            from,
            Box::new(move |work, began, took| {
                let start_ns = unix_ns(began);
                let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                let end_ns = start_ns.saturating_add(took_ns);
                spans.add(Span { bridge: bridge.clone(), name: work.name(), start_ns, end_ns });
            }),
        );
    }

    pub(super) fn add(&self, span: Span) {
        let (waiting, dropped) = &mut *lock(&self.waiting);
        if waiting.len() == KEPT {
            waiting.pop_front();
            *dropped += 1;
        }
        waiting.push_back(span);
    }

    /// The oldest, so many at most, and how many had no room since this was last asked.
    pub(super) fn take(&self, most: usize) -> (Vec<Span>, u64) {
        let (waiting, dropped) = &mut *lock(&self.waiting);
        let n = waiting.len().min(most);
        (waiting.drain(..n).collect(), std::mem::take(dropped))
    }

    /// Those that could not be sent wait on, as far as there is room.
    pub(super) fn give_back(&self, spans: Vec<Span>) {
        let (waiting, dropped) = &mut *lock(&self.waiting);
        for span in spans.into_iter().rev() {
            match waiting.len() {
                KEPT => *dropped += 1,
                _ => waiting.push_front(span),
            }
        }
    }
}

fn unix_ns(at: Instant) -> u64 {
    let then = SystemTime::now().checked_sub(at.elapsed()).unwrap_or(UNIX_EPOCH);
    let since = then.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
