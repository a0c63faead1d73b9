//! Entries that go: expiry, and flow-removed messages (1.3.5 §5.5, §7.4.2).
//!
//! A message's counters are read when every worker forwards without the entry, so they are final.

use crate::agent::Agent;
use crate::conjunction::{Conjunctions, Making};
use crate::event::Event;
use crate::flow_table::{Flow, FlowKey, FlowTables};
use crate::refusal::Refusal;
use crate::transaction::{Spent, Transaction};
use ir::{EntryId, TableId, Update};
use of_lower::{Layout, conjunctive};
use openflow::{Age, FlowModFlags, FlowRemoved, FlowRemovedReason};
use std::time::Duration;
use switch::Reason;

/// Collects the updates that take entries out. Tables that lose all are cleared at once.
pub(crate) fn take_out(
    tx: &mut Transaction<'_>,
    conjunctions: &mut Conjunctions,
    layout: &Layout,
    flows: &FlowTables,
    keys: impl Iterator<Item = FlowKey>,
) -> Result<(), Refusal> {
    let mut keys: Vec<FlowKey> = keys.filter(|key| flows.get(*key).is_some()).collect();
    keys.sort_unstable();
    keys.dedup();
    for of_table in keys.chunk_by(|a, b| a.table == b.table) {
        let table = of_table[0].table;
        let id = TableId(table.into());
        let all = of_table.len() == flows.len(table);
        if all {
            tx.push(Update::Clear(id));
            conjunctions.clear(tx, layout, table);
        }
        for key in of_table {
            let Some(flow) = flows.get(*key) else { continue };
            if !all {
                let part = conjunctive::part(&flow.matching, &flow.instructions);
                let (id, _) = conjunctive::place(layout, table, &flow.matching, part);
                tx.push(Update::Delete(id, EntryId(key.id)));
                conjunctions.remove(&mut Making { tx, flows, about: key.id }, table, flow)?;
            }
            tx.release(flow.action);
            tx.spend(key.id);
        }
    }
    Ok(())
}

/// How long something created then has been there.
pub(crate) fn age(created_ns: u64, now_ns: u64) -> Age {
    Duration::from_nanos(now_ns.saturating_sub(created_ns)).into()
}

/// Counts that an entry's flags leave out are told as unknown (all ones).
pub(crate) fn told(flags: FlowModFlags, packets: u64, bytes: u64) -> (u64, u64) {
    //= openflow-1.3.5 §7.3.4.1: NO_PKT_COUNTS and NO_BYT_COUNTS; §7.3.5: what is not counted is -1.
    let unless = |flag, n| if flags.contains(flag) { u64::MAX } else { n };
    (unless(FlowModFlags::NO_PKT_COUNTS, packets), unless(FlowModFlags::NO_BYT_COUNTS, bytes))
}

/// An entry that went and asked for that to be told.
pub(crate) type Removed = (FlowKey, FlowRemovedReason, Box<Flow>);

impl Agent {
    /// Takes entries that are out of the switch out of the store, and tells controllers.
    pub(crate) fn forget_flows(
        &mut self,
        gone: impl Iterator<Item = (FlowKey, FlowRemovedReason)>,
        spent: Spent,
    ) {
        let mut wanted = Vec::new();
        for (key, reason) in gone {
            let Some(flow) = self.flows.remove(key) else { continue };
            self.tell_gone(key, &flow, reason);
            //= openflow-1.3.5 §5.5: entries with SEND_FLOW_REM are reported when they go.
            if flow.flags.contains(FlowModFlags::SEND_FLOW_REM) {
                wanted.push((key, reason, flow));
            }
        }
        if self.interner.is_staging() {
            self.deferred.removed.append(&mut wanted);
        } else {
            self.tell_removed(wanted);
        }
        spent.retire(&self.switch);
    }

    /// Tells controllers of entries that are out of the switch.
    pub(crate) fn tell_removed(&mut self, wanted: Vec<Removed>) {
        if wanted.is_empty() {
            return;
        }
        self.switch.sync();
        let now_ns = self.switch.now_ns();
        let reader = self.switch.counters();
        let removed = |(key, reason, flow): Removed| {
            let count = reader.read(key.id).unwrap_or_default();
            let (packet_count, byte_count) = told(flow.flags, count.packets, count.bytes);
            Event::FlowRemoved(FlowRemoved {
                cookie: flow.cookie,
                priority: flow.priority,
                reason,
                table_id: openflow::TableId(key.table),
                age: age(flow.created_ns, now_ns),
                idle_timeout: flow.idle_timeout,
                hard_timeout: flow.hard_timeout,
                packet_count,
                byte_count,
                uncounted: flow.uncounted,
                matching: flow.matching,
            })
        };
        self.events.extend(wanted.into_iter().map(removed));
    }

    /// Removes what has expired: flow entries, and stations of NORMAL.
    pub(crate) fn expire(&mut self) {
        let expired = self.switch.expired();
        if expired.is_empty() {
            return;
        }
        let mut stations = Vec::new();
        let mut flows = Vec::new();
        for e in expired {
            if e.table == self.layout.normal_src {
                stations.push(e.entry);
            } else if let Some(table) = self.layout.flow_table(e.table) {
                //= openflow-1.3.5 §5.5: why an entry went: idle or hard timeout.
                let reason = match e.reason {
                    Reason::Idle => FlowRemovedReason::IdleTimeout,
                    Reason::Hard => FlowRemovedReason::HardTimeout,
                };
                flows.push((FlowKey { table, id: e.entry.0 }, reason));
            }
        }
        self.expire_stations(&stations);
        flows.retain(|(key, _)| self.flows.get(*key).is_some());
        if flows.is_empty() {
            return;
        }
        let beside = |(key, reason): &(FlowKey, FlowRemovedReason)| {
            let reason = *reason;
            self.reflections_of(*key).into_iter().map(move |key| (key, reason))
        };
        let beside: Vec<_> = flows.iter().flat_map(beside).collect();
        flows.extend(beside);
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        let keys = flows.iter().map(|(key, _)| *key);
        let out = take_out(&mut tx, &mut self.conjunctions, &self.layout, &self.flows, keys);
        let done = out.and_then(|()| tx.commit());
        match self.settle(done) {
            Ok(spent) => self.forget_flows(flows.into_iter(), spent),
            Err(refusal) => tracing::error!(%refusal, "expired entries stay"),
        }
    }
}
