//! The last events of the process, for who asks later what has happened.
//!
//! In: what is logged at the levels error, warn and info, floods summed up as in the log. Out: the last [`KEPT`] of them,
//! numbered in their order, and a wait for the next. Whoever is told of numbers that do not follow has missed some.
//!
//! What logs waits for a lock that is held while one event is added or a few are copied.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// So many events are kept.
pub(crate) const KEPT: usize = 4096;
/// A text of an event is no longer than this, in bytes.
const TEXT_MAX: usize = 1024;

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Its number, from 1; 0 of what only the reader is told.
    pub number: u64,
    /// When, in UTC, as the log tells it: 2026-11-29T02:30:25.108233Z.
    pub time: String,
    /// The same in nanoseconds since 1970.
    #[serde(skip)]
    pub(crate) unix_ns: u64,
    /// `error`, `warn` or `info`.
    pub level: String,
    /// The part of the program that tells it.
    pub target: String,
    /// What has happened.
    pub message: String,
    /// To whom, by whom, why.
    pub fields: BTreeMap<String, String>,
}

impl Event {
    /// Says that events came faster than they were read.
    pub(crate) fn missed(count: u64) -> Event {
        Event {
            time: super::now(),
            unix_ns: unix_ns(),
            level: "warn".to_owned(),
            target: module_path!().to_owned(),
            message: "events came faster than they were read".to_owned(),
            fields: BTreeMap::from([("missed".to_owned(), count.to_string())]),
            number: 0,
        }
    }
}

fn unix_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Event>,
    /// The number of the last one.
    last: u64,
}

/// The last events, and who waits for more.
pub(crate) struct Events {
    ring: Mutex<Ring>,
    added: Condvar,
}

/// Those of this process.
pub(crate) static EVENTS: Events = Events::new();

impl Events {
    pub(crate) const fn new() -> Events {
        let ring = Ring { events: VecDeque::new(), last: 0 };
        Events { ring: Mutex::new(ring), added: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        // What is guarded is valid after each step.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one; its number is given here.
    pub(crate) fn add(&self, event: Event) {
        let mut ring = self.lock();
        ring.last += 1;
        let number = ring.last;
        if ring.events.len() == KEPT {
            ring.events.pop_front();
        }
        ring.events.push_back(Event { number, ..event });
        drop(ring);
        self.added.notify_all();
    }

    /// Those with a number above `after`, oldest first.
    pub(crate) fn since(&self, after: u64) -> Vec<Event> {
        let ring = self.lock();
        let from = ring.events.partition_point(|event| event.number <= after);
        ring.events.range(from..).cloned().collect()
    }

    /// The number of the last one.
    pub(crate) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Waits for one with a number above `after`, for so long at most.
    pub(crate) fn wait(&self, after: u64, most: Duration) {
        let ring = self.lock();
        // Whoever waits looks again in any case.
        drop(self.added.wait_timeout_while(ring, most, |ring| ring.last <= after));
    }
}

/// Takes what is logged.
pub(super) struct Keep;

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        if *meta.level() > Level::INFO {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        EVENTS.add(Event {
            number: 0,
            time: super::now(),
            unix_ns: unix_ns(),
            level: meta.level().as_str().to_ascii_lowercase(),
            target: meta.target().to_owned(),
            message: fields.message,
            fields: fields.others,
        });
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: BTreeMap<String, String>,
}

impl Fields {
    fn add(&mut self, field: &Field, text: &str) {
        let text = shortened(text);
        match field.name() {
            "message" => self.message = text,
            name => drop(self.others.insert(name.to_owned(), text)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

/// A text of at most [`TEXT_MAX`] bytes, and a mark where it was longer.
fn shortened(text: &str) -> String {
    if text.len() <= TEXT_MAX {
        return text.to_owned();
    }
    let mut end = TEXT_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: &str) -> Event {
        Event { message: message.to_owned(), ..Event::default() }
    }

    #[test]
    fn the_last_are_kept_in_their_order() {
        let events = Events::new();
        for n in 0..KEPT + 3 {
            events.add(event(&n.to_string()));
        }
        let all = events.since(0);
        assert_eq!((all.len(), all[0].number, &*all[0].message), (KEPT, 4, "3"));
        assert_eq!(events.last(), KEPT as u64 + 3);
        let some = events.since(KEPT as u64 + 1);
        assert_eq!(some.iter().map(|one| one.number).collect::<Vec<_>>(), [4098, 4099]);
        assert!(events.since(events.last()).is_empty());
        assert!(events.since(u64::MAX).is_empty());
    }

    #[test]
    fn who_waits_is_woken_by_the_next() {
        let events = Events::new();
        events.add(event("a"));
        // There is one already.
        events.wait(0, Duration::from_secs(60));
        events.wait(1, Duration::from_millis(1));
        std::thread::scope(|scope| {
            scope.spawn(|| events.wait(1, Duration::from_secs(60)));
            events.add(event("b"));
        });
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let cut = shortened(&"ä".repeat(TEXT_MAX));
        assert_eq!(cut.len(), TEXT_MAX + 3);
        assert!(cut.ends_with("ä..."));
    }

    #[test]
    fn what_is_logged_is_kept_with_its_fields() {
        use tracing_subscriber::layer::SubscriberExt;
        let subscriber = tracing_subscriber::registry().with(Keep);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(peer = "tcp:x", n = 7, "events-test");
            tracing::debug!("events-test too");
        });
        let kept: Vec<Event> =
            EVENTS.since(0).into_iter().filter(|one| one.message.contains("events-test")).collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(
            (&*kept[0].level, &*kept[0].fields["peer"], &*kept[0].fields["n"]),
            ("warn", "tcp:x", "7")
        );
        assert!(kept[0].time.ends_with('Z') && kept[0].time.starts_with("20"), "{}", kept[0].time);
    }
}
