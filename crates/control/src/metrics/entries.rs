//! The flow entries that packets hit most, as many as `--metrics-entries` says.
//!
//! An entry's series begins when it comes among them, and ends when others are hit more: queries by `rate` want the same entry
//! in two scrapes.

use super::source::Source;
use crate::verbs::flows;
use metrics::{Family, Text};

const PACKETS: Family =
    Family::counter("millrace_entry_packets", "Packets that hit a flow entry, of those hit most");
const BYTES: Family =
    Family::counter("millrace_entry_bytes", "Bytes of packets that hit a flow entry");

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    if source.entries == 0 {
        return;
    }
    let mut all = Vec::new();
    for bridge in &source.all {
        let most = flows::most_used(bridge, source.entries);
        all.extend(most.into_iter().map(|one| (bridge.name(), one)));
    }
    for (is_bytes, family) in [PACKETS, BYTES].iter().enumerate() {
        let mut family = text.family(family);
        for (bridge, one) in &all {
            let (table, priority) = (one.table.to_string(), one.priority.to_string());
            let labels = [
                ("bridge", *bridge),
                ("table", &*table),
                ("priority", &*priority),
                ("cookie", &*one.cookie),
                ("match", &*one.matching),
            ];
            family.put(&labels, if is_bytes == 1 { one.bytes } else { one.packets });
        }
    }
}
