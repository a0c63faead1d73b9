//! What the control side counts by name, as in `millrace stats`; lines of the log that were lost.

use super::source::Source;
use crate::{logging, otlp};
use metrics::{Family, Text};
use std::sync::atomic::Ordering;

const EVENTS: Family = Family::counter("millrace_events", "What the control side counts, by name");
const LOST: Family =
    Family::counter("millrace_log_lost_lines", "Lines of the log that nobody took, by log");

const SENT: Family =
    Family::counter("millrace_otlp_sent", "Logs and spans that the OTLP collector took");
const DROPPED: Family = Family::counter(
    "millrace_otlp_dropped",
    "Logs and spans that the OTLP collector refused, or that did not wait until it answered",
);
const FAILED: Family = Family::counter(
    "millrace_otlp_failed_requests",
    "Requests that the OTLP collector did not answer, or refused",
);

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let mut family = text.family(&EVENTS);
    for bridge in &source.all {
        for (event, n) in bridge.switch().tallies() {
            family.put(&[("bridge", bridge.name()), ("event", event)], n);
        }
    }
    let (log, changes) = logging::lost();
    let mut family = text.family(&LOST);
    family.put(&[("log", "log")], log);
    family.put(&[("log", "changes")], changes);
    let Some(counts) = otlp::counts() else { return };
    for (family, of) in [(SENT, &counts.sent), (DROPPED, &counts.dropped)] {
        let mut family = text.family(&family);
        for (signal, n) in otlp::SIGNALS.iter().zip(of) {
            family.put(&[("signal", signal)], n.load(Ordering::Relaxed));
        }
    }
    text.family(&FAILED).put(&[], counts.failed.load(Ordering::Relaxed));
}
