//! Flow monitors: who watches flow entries is told what becomes of them (1.4.1 §7.3.5.17).
//!
//! The agent tells each change as an [`Event::FlowChange`](crate::Event::FlowChange) while somebody watches
//! ([`Agent::set_watched`](crate::Agent::set_watched)); which monitor it concerns is decided here ([`concerns`], [`told`]), and
//! whoever keeps connections keeps the monitors and asks. Changes of a bundle are told when it has
//! happened.
//!
//! Cost: nothing while nobody watches; else a copy of match and instructions for each change.

use crate::flow::{Flow, FlowKey, outputs_to, uses_group};
use openflow::{
    FlowMonitorRequest, FlowUpdate, FlowUpdateKind, FullUpdate, GroupId, Instructions,
    MonitorFlags, PortNo, TableId, Xid,
};

/// Whose request it was: a number of the connection's, and the request's transaction id.
pub type Requester = (u64, Xid);

/// What became of a flow entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowChange {
    /// The entry as it is now, or was when it went.
    pub update: FullUpdate,
    /// What it did before, if that has changed.
    pub before: Option<Instructions>,
    /// Who asked for it; none if time did.
    pub by: Option<Requester>,
}

/// The flag of monitors that are told of this kind.
fn flag(kind: FlowUpdateKind) -> MonitorFlags {
    match kind {
        FlowUpdateKind::Initial => MonitorFlags::INITIAL,
        FlowUpdateKind::Added => MonitorFlags::ADD,
        FlowUpdateKind::Removed => MonitorFlags::REMOVED,
        FlowUpdateKind::Modified => MonitorFlags::MODIFY,
    }
}

/// Whether a change is told to a monitor of the connection `watcher`.
pub fn concerns(monitor: &FlowMonitorRequest, change: &FlowChange, watcher: u64) -> bool {
    let own = change.by.is_some_and(|(id, _)| id == watcher);
    if !monitor.flags.contains(flag(change.update.kind)) {
        return false;
    }
    //= openflow-1.4.1 §7.3.5.17: ONLY_OWN leaves out what others changed.
    if monitor.flags.contains(MonitorFlags::ONLY_OWN) && !own {
        return false;
    }
    let lists = || std::iter::once(&change.update.instructions).chain(&change.before);
    is_watched(monitor, change.update.table_id, &change.update.matching)
        && (monitor.out_port == PortNo::ANY || lists().any(|l| outputs_to(l, monitor.out_port)))
        && (monitor.out_group == GroupId::ANY || lists().any(|l| uses_group(l, monitor.out_group)))
}

fn is_watched(monitor: &FlowMonitorRequest, table: TableId, matching: &openflow::Match) -> bool {
    (monitor.table_id == TableId::ALL || monitor.table_id == table)
        && monitor.matching.covers(matching)
}

/// What the connection `watcher` is told of a change that [`concerns`] some of its monitors, whose
/// flags these are together.
pub fn told(flags: MonitorFlags, change: &FlowChange, watcher: u64) -> FlowUpdate {
    match change.by {
        //= openflow-1.4.1 §7.3.5.17: the watcher's own changes are told by their transaction alone
        //= unless NO_ABBREV is set.
        Some((id, xid)) if id == watcher && !flags.contains(MonitorFlags::NO_ABBREV) => {
            FlowUpdate::Abbreviated(xid)
        }
        _ => {
            let mut update = change.update.clone();
            if !flags.contains(MonitorFlags::INSTRUCTIONS) {
                update.instructions = Instructions::new();
            }
            FlowUpdate::Full(update)
        }
    }
}

/// A flow entry as monitors tell it.
pub(crate) fn full(kind: FlowUpdateKind, key: FlowKey, flow: &Flow) -> FullUpdate {
    FullUpdate {
        kind,
        table_id: TableId(key.table),
        reason: 0,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        priority: flow.priority,
        cookie: flow.cookie,
        matching: flow.matching.clone(),
        instructions: flow.instructions.to_owned(),
    }
}
