//! Ages and counters of entries, as controllers are told them.

use crate::flow::{Flow, FlowKey};
use openflow::{Age, EntryStats, FlowCounts, FlowModFlags, TableId};
use std::time::Duration;
use switch::CounterValue;

/// How long something created then has been there.
pub(crate) fn age(created_ns: u64, now_ns: u64) -> Age {
    age_of_ns(now_ns.saturating_sub(created_ns))
}

/// So many nanoseconds.
pub(crate) fn age_of_ns(ns: u64) -> Age {
    Duration::from_nanos(ns).into()
}

/// How long an entry has been there.
pub(crate) fn age_of(flow: &Flow, now_ns: u64) -> Age {
    Duration::from_nanos(flow.age_ns(now_ns)).into()
}

/// Counts that an entry's flags leave out are told as unknown (all ones).
pub(crate) fn told(flags: FlowModFlags, packets: u64, bytes: u64) -> (u64, u64) {
    //= openflow-1.3.5 §7.3.4.1: NO_PKT_COUNTS and NO_BYT_COUNTS; §7.3.5: what is not counted is -1.
    let unless = |flag, n| if flags.contains(flag) { u64::MAX } else { n };
    (unless(FlowModFlags::NO_PKT_COUNTS, packets), unless(FlowModFlags::NO_BYT_COUNTS, bytes))
}

/// An entry's counters as 1.5 tells them, and why.
pub(crate) fn counts(
    key: FlowKey,
    flow: &Flow,
    count: CounterValue,
    now_ns: u64,
    reason: u8,
) -> FlowCounts {
    let (packets, bytes) = told(flow.flags, count.packets, count.bytes);
    FlowCounts {
        table_id: TableId(key.table),
        reason,
        priority: flow.priority,
        matching: flow.matching.clone(),
        stats: EntryStats {
            duration: Some(age_of(flow, now_ns)),
            packets: Some(packets),
            bytes: Some(bytes),
            ..EntryStats::default()
        },
    }
}
