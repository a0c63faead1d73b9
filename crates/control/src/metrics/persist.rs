//! What is kept over a restart, by bridge; nothing where nothing is.

use super::source::Source;
use metrics::{Family, Text};

const FAILING: Family = Family::gauge(
    "millrace_persist_failing",
    "1 while changes cannot be kept over a restart, as the disk fails",
);
const FAILURES: Family =
    Family::counter("millrace_persist_failures", "How often the disk failed that keeps changes");
const RECORDS: Family =
    Family::counter("millrace_persist_records", "Changes that were kept, by what became of them");
const SNAPSHOTS: Family =
    Family::counter("millrace_persist_snapshots", "Snapshots of all that is kept");
const BYTES: Family = Family::gauge("millrace_persist_bytes", "Bytes of files that are in use");

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let mut all = Vec::new();
    for bridge in &source.all {
        let status = bridge.kept().map(|kept| kept.status());
        all.extend(status.map(|status| (bridge.name(), status)));
    }
    if all.is_empty() {
        return;
    }
    let mut family = text.family(&FAILING);
    all.iter().for_each(|(bridge, status)| {
        family.put(&[("bridge", bridge)], u64::from(status.failing.is_some()));
    });
    let mut family = text.family(&FAILURES);
    all.iter().for_each(|(bridge, status)| family.put(&[("bridge", bridge)], status.failures));
    let mut family = text.family(&RECORDS);
    for (bridge, status) in &all {
        family.put(&[("bridge", bridge), ("outcome", "kept")], status.records);
        family.put(&[("bridge", bridge), ("outcome", "dropped")], status.dropped);
    }
    let mut family = text.family(&SNAPSHOTS);
    all.iter().for_each(|(bridge, status)| family.put(&[("bridge", bridge)], status.snapshots));
    let mut family = text.family(&BYTES);
    for (bridge, status) in &all {
        family.put(&[("bridge", bridge), ("file", "log")], status.log_bytes);
        family.put(&[("bridge", bridge), ("file", "snapshot")], status.snapshot_bytes);
    }
}
