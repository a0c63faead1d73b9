//! Flow monitors: who watches flow entries is told what becomes of them (1.4.1 §7.3.5.17).
//!
//! The agent tells each change as an [`Event::FlowChange`] while somebody watches
//! ([`Agent::set_watched`]); which monitor it concerns is decided here ([`concerns`], [`told`]), and
//! whoever keeps connections keeps the monitors and asks. Changes of a bundle are told when it has
//! happened.
//!
//! Cost: nothing while nobody watches; else a copy of match and instructions for each change.

use crate::agent::Agent;
use crate::event::Event;
use crate::flow_table::{Flow, FlowKey, outputs_to, uses_group};
use crate::refusal::Refusal;
use openflow::{
    FlowMonitorRequest, FlowRemovedReason, FlowUpdate, FlowUpdateKind, FullUpdate, GroupId,
    Instructions, MonitorFlags, PortNo, TableId, Version, Xid,
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
fn full(kind: FlowUpdateKind, key: FlowKey, flow: &Flow) -> FullUpdate {
    FullUpdate {
        kind,
        table_id: TableId(key.table),
        reason: 0,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        priority: flow.priority,
        cookie: flow.cookie,
        matching: flow.matching.clone(),
        instructions: flow.instructions.clone(),
    }
}

impl Agent {
    /// Whether somebody watches flow entries, so that changes are to be told.
    pub fn set_watched(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// Whose request comes next; none when it is done.
    pub fn set_requester(&mut self, requester: Option<Requester>) {
        self.requester = requester;
    }

    /// The entries that a monitor watches now.
    pub fn monitored(
        &self,
        version: Version,
        monitor: &FlowMonitorRequest,
    ) -> Result<Vec<FlowUpdate>, Refusal> {
        let tables = self.flows.tables();
        let TableId(table) = monitor.table_id;
        let one = version == Version::V10;
        //= openflow-1.4.1 §7.5.4.16: a table that is not there is OFPMOFC_BAD_TABLE_ID.
        if monitor.table_id != TableId::ALL && !self.table_configs.contains(table) {
            return Err(Refusal::MonitorTable { table, tables });
        }
        monitor.matching.check()?;
        if !monitor.flags.contains(MonitorFlags::INITIAL)
            || monitor.flags.contains(MonitorFlags::ONLY_OWN)
        {
            return Ok(Vec::new());
        }
        let kind = if one { FlowUpdateKind::Added } else { FlowUpdateKind::Initial };
        let mut list = Vec::new();
        for (key, flow) in (0..tables as u8).flat_map(|table| self.flows.iter(table)) {
            let change = FlowChange { update: full(kind, key, flow), before: None, by: None };
            let watches = FlowMonitorRequest { flags: MonitorFlags::all(), ..monitor.clone() };
            let all = watches.flags - MonitorFlags::ONLY_OWN;
            if concerns(&FlowMonitorRequest { flags: all, ..watches }, &change, 0) {
                list.push(told(monitor.flags, &change, 0));
            }
        }
        Ok(list)
    }

    /// Tells that an entry came, or was changed and did this before.
    pub(crate) fn tell_change(&mut self, key: FlowKey, before: Option<Instructions>) {
        if !self.watched {
            return;
        }
        let kind = match before {
            Some(_) => FlowUpdateKind::Modified,
            None => FlowUpdateKind::Added,
        };
        let Some(update) = self.flows.get(key).map(|flow| full(kind, key, flow)) else { return };
        let change = FlowChange { update, before, by: self.requester };
        self.events.push(Event::FlowChange(Box::new(change)));
    }

    /// Tells that an entry went.
    pub(crate) fn tell_gone(&mut self, key: FlowKey, flow: &Flow, reason: FlowRemovedReason) {
        if !self.watched {
            return;
        }
        let reason = reason.wire(Version::V14);
        let update = FullUpdate { reason, ..full(FlowUpdateKind::Removed, key, flow) };
        let change = FlowChange { update, before: None, by: self.requester };
        self.events.push(Event::FlowChange(Box::new(change)));
    }
}
