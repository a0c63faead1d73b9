//! How often one message is said: a token bucket for each place in the code that logs.
//!
//! Whoever can make the switch log something can make it do so again and again. Of each message
//! [`BURST`] are said at once and [`RATE`] a second; how many more there were is said when it is over,
//! and every [`REPORT_NS`] while it goes on. What only `-v` shows is not limited.

use state::RateLimit;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tracing::Level;
use tracing::callsite::Identifier;

/// Of one message, said a second on average.
pub(super) const RATE: u64 = 5;
/// Of one message, said at once.
pub(super) const BURST: u64 = 50;
/// While a message is suppressed, that is said so often.
pub(super) const REPORT_NS: u64 = 10_000_000_000;
/// A message that was not suppressed for so long is over.
const OVER_NS: u64 = 1_000_000_000;

struct Site {
    limit: RateLimit,
    level: Level,
    target: &'static str,
    /// The message, of the first that was suppressed.
    message: String,
    suppressed: u64,
    since_ns: u64,
    last_ns: u64,
}

/// Who may say something.
#[derive(Default)]
pub(super) struct Limits(Mutex<HashMap<Identifier, Site>>);

/// Messages that were not said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suppressed {
    pub(super) level: Level,
    pub(super) target: &'static str,
    pub(super) message: String,
    pub(super) count: u64,
    pub(super) seconds: u64,
}

impl Limits {
    /// Whether a message is to be said now. `text` gives its words, asked for the first time that it
    /// is not.
    pub(super) fn admit(
        &self,
        metadata: &'static tracing::Metadata<'static>,
        now_ns: u64,
        text: impl FnOnce() -> String,
    ) -> bool {
        let level = *metadata.level();
        // What is kept of changes has a rate of its own.
        if level > Level::INFO || metadata.target() == switch::changes::TARGET {
            return true;
        }
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let site = sites.entry(metadata.callsite()).or_insert_with(|| Site {
            limit: RateLimit::new(RATE, BURST, now_ns),
            level,
            target: metadata.target(),
            message: String::new(),
            suppressed: 0,
            since_ns: now_ns,
            last_ns: now_ns,
        });
        if site.limit.admit(1, now_ns) {
            return true;
        }
        if site.suppressed == 0 {
            (site.message, site.since_ns) = (text(), now_ns);
        }
        site.suppressed += 1;
        site.last_ns = now_ns;
        false
    }

    /// What is to be said of messages that were not.
    pub(super) fn report(&self, now_ns: u64) -> Vec<Suppressed> {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = |site: &&mut Site| {
            let since = |ns: u64| now_ns.saturating_sub(ns);
            site.suppressed > 0
                && (since(site.last_ns) >= OVER_NS || since(site.since_ns) >= REPORT_NS)
        };
        let of = |site: &mut Site| Suppressed {
            level: site.level,
            target: site.target,
            message: std::mem::take(&mut site.message),
            count: std::mem::take(&mut site.suppressed),
            seconds: now_ns.saturating_sub(site.since_ns).div_ceil(1_000_000_000),
        };
        sites.values_mut().filter(due).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing::subscriber::with_default;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt};

    const S: u64 = 1_000_000_000;

    #[derive(Clone, Default)]
    struct Probe(Arc<Mutex<(u64, Vec<bool>)>>, Arc<Limits>);

    impl<T: tracing::Subscriber> Layer<T> for Probe {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, T>) {
            let mut state = self.0.lock().unwrap();
            let said = self.1.admit(event.metadata(), state.0, || "flood".into());
            state.1.push(said);
        }
    }

    impl Probe {
        /// What was said of what happens at this time.
        fn at(&self, ns: u64, happens: impl FnOnce()) -> usize {
            *self.0.lock().unwrap() = (ns, Vec::new());
            with_default(tracing_subscriber::registry().with(self.clone()), happens);
            self.0.lock().unwrap().1.iter().filter(|said| **said).count()
        }
    }

    fn flood(times: u32) {
        (0..times).for_each(|_| tracing::info!("flood"));
    }

    #[test]
    fn one_message_is_limited_and_others_are_not_and_what_was_left_out_is_said() {
        let probe = Probe::default();
        assert_eq!(probe.at(S, || flood(590)), BURST as usize);
        assert_eq!(probe.at(S, || tracing::warn!("another")), 1);
        assert!(probe.1.report(S + OVER_NS / 2).is_empty(), "it may go on");
        let told = probe.1.report(3 * S);
        let expected = Suppressed {
            level: Level::INFO,
            target: "millrace::logging::limit::tests",
            message: "flood".into(),
            count: 540,
            seconds: 2,
        };
        assert_eq!(told, [expected]);
        assert!(probe.1.report(100 * S).is_empty(), "said once");
        assert_eq!(probe.at(60 * S, || flood(10)), 10, "a pause makes up for it");
    }

    #[test]
    fn what_goes_on_is_said_now_and_then() {
        let probe = Probe::default();
        let (mut said, mut told) = (0, Vec::new());
        for second in 1..=30 {
            said += probe.at(second * S, || flood(100));
            told.extend(probe.1.report(second * S));
        }
        assert_eq!(said, (BURST + 29 * RATE) as usize);
        assert!((2..=3).contains(&told.len()), "{told:?}");
        told.extend(probe.1.report(60 * S));
        assert_eq!(told.iter().map(|t| t.count).sum::<u64>(), 3000 - said as u64);
    }

    #[test]
    fn details_are_not_limited() {
        let probe = Probe::default();
        let details = || (0..300).for_each(|_| tracing::debug!("detail"));
        assert_eq!(probe.at(S, details), 300);
        let changes =
            || (0..300).for_each(|_| tracing::info!(target: switch::changes::TARGET, "x"));
        assert_eq!(probe.at(S, changes), 300);
        assert!(probe.1.report(100 * S).is_empty());
    }

    #[test]
    fn a_clock_that_goes_back_does_no_harm() {
        let probe = Probe::default();
        assert_eq!(probe.at(100 * S, || flood(60)), 50);
        assert_eq!(probe.at(S, || flood(60)), 0);
        assert!(probe.1.report(S).is_empty());
        assert_eq!(probe.1.report(200 * S)[0].count, 70);
    }
}
