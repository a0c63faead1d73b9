//! What the control side counts by name, as in `millrace stats`; lines of the log that were lost.

use super::source::Source;
use crate::logging;
use metrics::{Family, Text};

const EVENTS: Family = Family::counter("millrace_events", "What the control side counts, by name");
const LOST: Family =
    Family::counter("millrace_log_lost_lines", "Lines of the log that nobody took, by log");

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
}
