//! The connection tracker of each bridge.

use super::source::Source;
use metrics::{Family, Text};

const HELD: Family = Family::gauge("millrace_conntrack_connections", "Connections that are known");
const HALF_OPEN: Family = Family::gauge(
    "millrace_conntrack_half_open_connections",
    "Connections that nothing has answered yet",
);
const MEMORY: Family = Family::gauge("millrace_conntrack_memory_bytes", "Memory for connections");
const EVENTS: Family = Family::counter(
    "millrace_conntrack_events",
    "Packets by verdict, and connections by what became of them",
);

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let trackers: Vec<_> = source
        .all
        .iter()
        .filter_map(|bridge| {
            let tracker = bridge.switch().services().connections()?;
            Some((bridge.name(), tracker.size(), tracker.counters()))
        })
        .collect();
    let mut family = text.family(&HELD);
    trackers.iter().for_each(|(bridge, (held, ..), _)| family.put(&[("bridge", bridge)], *held));
    let mut family = text.family(&HALF_OPEN);
    trackers.iter().for_each(|(bridge, (_, half, _), _)| family.put(&[("bridge", bridge)], *half));
    let mut family = text.family(&MEMORY);
    for (bridge, (_, _, memory), _) in &trackers {
        family.put(&[("bridge", bridge)], memory.total());
    }
    let mut family = text.family(&EVENTS);
    for (bridge, _, counters) in &trackers {
        for (event, n) in counters.all() {
            family.put(&[("bridge", bridge), ("event", event)], n);
        }
    }
}
