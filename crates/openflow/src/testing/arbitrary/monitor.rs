//! Flow monitors at random.

use super::{age, instructions, matching, port};
use crate::flow::{EntryStats, FlowCounts};
use crate::ids::{GroupId, TableId, Xid};
use crate::monitor::{
    FlowMonitorRequest, FlowUpdate, FlowUpdateKind, FullUpdate, MonitorCommand, MonitorFlags,
};
use crate::testing::Rng;
use crate::version::Version;

pub(super) fn flow_monitor(rng: &mut Rng, version: Version) -> FlowMonitorRequest {
    FlowMonitorRequest {
        monitor_id: rng.u32(),
        command: rng.choose(&[MonitorCommand::Add, MonitorCommand::Modify, MonitorCommand::Delete]),
        flags: MonitorFlags::from_bits_truncate(rng.u16()),
        out_port: port(rng, version),
        out_group: GroupId(rng.u32()),
        table_id: TableId(rng.u8()),
        matching: matching(rng, version),
    }
}

pub(super) fn flow_update(rng: &mut Rng, version: Version) -> FlowUpdate {
    match rng.below(6) {
        0 => FlowUpdate::Abbreviated(Xid(rng.u32())),
        1 => FlowUpdate::Paused,
        2 => FlowUpdate::Resumed,
        _ => FlowUpdate::Full(FullUpdate {
            kind: rng.choose(&[
                FlowUpdateKind::Initial,
                FlowUpdateKind::Added,
                FlowUpdateKind::Removed,
                FlowUpdateKind::Modified,
            ]),
            table_id: TableId(rng.u8()),
            reason: rng.u8(),
            idle_timeout: rng.u16(),
            hard_timeout: rng.u16(),
            priority: rng.u16(),
            cookie: rng.u64(),
            matching: matching(rng, version),
            instructions: instructions(rng, version),
        }),
    }
}

pub(super) fn flow_counts(rng: &mut Rng, version: Version) -> FlowCounts {
    FlowCounts {
        table_id: TableId(rng.u8()),
        reason: rng.u8(),
        priority: rng.u16(),
        matching: matching(rng, version),
        stats: EntryStats {
            duration: rng.one_in(2).then(|| age(rng)),
            idle: rng.one_in(2).then(|| age(rng)),
            flows: rng.one_in(2).then(|| rng.u32()),
            packets: rng.one_in(2).then(|| rng.u64()),
            bytes: rng.one_in(2).then(|| rng.u64()),
        },
    }
}
