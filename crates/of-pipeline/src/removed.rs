//! Entries that go: expiry, and flow-removed messages (1.3.5 §5.5, §7.4.2).
//!
//! A message's counters are read when every worker forwards without the entry, so they are final.

use crate::agent::Agent;
use crate::counts::{age_of, told};
use crate::event::Event;
use crate::flow::FlowKey;
use crate::refusal::Refusal;
use crate::stage::{Batch, Removed, Spent};
use crate::transaction::Transaction;
use openflow::{FlowModFlags, FlowRemoved, FlowRemovedReason};
use switch::Reason;

impl Transaction<'_> {
    /// Takes entries that are out of the switch out of the store, and tells controllers.
    pub(crate) fn forget_flows(
        &mut self,
        gone: impl Iterator<Item = (FlowKey, FlowRemovedReason)>,
        spent: Spent,
    ) {
        let mut wanted = Vec::new();
        for (key, reason) in gone {
            let Some(flow) = self.stores.flows.remove(key) else { continue };
            self.outbox.gone(self.by, key, &flow, reason);
            //= openflow-1.3.5 §5.5: entries with SEND_FLOW_REM are reported when they go.
            if flow.flags.contains(FlowModFlags::SEND_FLOW_REM) {
                wanted.push((key, reason, flow));
            }
        }
        match self.stage.deferred() {
            Some(deferred) => deferred.removed.append(&mut wanted),
            None => self.tell_removed(wanted),
        }
        spent.retire(&self.env.switch);
    }

    /// Tells controllers of entries that are out of the switch.
    pub(crate) fn tell_removed(&mut self, wanted: Vec<Removed>) {
        if wanted.is_empty() {
            return;
        }
        self.env.switch.sync();
        let now_ns = self.env.switch.now_ns();
        let reader = self.env.switch.counters();
        let removed = |(key, reason, flow): Removed| {
            let count = reader.read(key.id).unwrap_or_default();
            let (packet_count, byte_count) = told(flow.flags, count.packets, count.bytes);
            Event::FlowRemoved(FlowRemoved {
                cookie: flow.cookie,
                priority: flow.priority,
                reason,
                table_id: openflow::TableId(key.table),
                age: age_of(&flow, now_ns),
                idle_timeout: flow.idle_timeout,
                hard_timeout: flow.hard_timeout,
                packet_count,
                byte_count,
                uncounted: flow.uncounted,
                matching: flow.matching,
            })
        };
        self.outbox.extend(wanted.into_iter().map(removed));
    }

    /// Takes entries out of the switch and the store, with what reflects them, and tells controllers.
    pub(crate) fn remove(
        &mut self,
        mut gone: Vec<(FlowKey, FlowRemovedReason)>,
    ) -> Result<(), Refusal> {
        if !self.stores.synchronised.is_empty() {
            let beside = |(key, reason): &(FlowKey, FlowRemovedReason)| {
                let reason = *reason;
                self.stores.reflections_of(*key).into_iter().map(move |key| (key, reason))
            };
            let beside: Vec<_> = gone.iter().flat_map(beside).collect();
            gone.extend(beside);
        }
        let mut batch = Batch::new(&self.env.switch, self.stage);
        let keys = gone.iter().map(|(key, _)| *key);
        self.stores.take_out(&mut batch, &self.env.layout, keys)?;
        let spent = batch.commit()?;
        self.forget_flows(gone.into_iter(), spent);
        Ok(())
    }
}

impl Agent {
    /// Removes what has expired: flow entries, and stations of NORMAL.
    pub(crate) fn expire(&mut self) {
        let expired = self.env.switch.expired();
        if expired.is_empty() {
            return;
        }
        let mut stations = Vec::new();
        let mut flows = Vec::new();
        for e in expired {
            if e.table == self.env.layout.normal_src {
                stations.push(e.entry);
            } else if let Some(table) = self.env.layout.flow_table(e.table) {
                //= openflow-1.3.5 §5.5: why an entry went: idle or hard timeout.
                let reason = match e.reason {
                    Reason::Idle => FlowRemovedReason::IdleTimeout,
                    Reason::Hard => FlowRemovedReason::HardTimeout,
                };
                flows.push((FlowKey { table, id: e.entry.0 }, reason));
            }
        }
        self.stations.expire(&self.env, &mut self.stage, &stations);
        flows.retain(|(key, _)| self.stores.flows.get(*key).is_some());
        if flows.is_empty() {
            return;
        }
        let mut tx = self.transaction(None);
        let done = tx.remove(flows);
        if let Err(refusal) = tx.settle(done) {
            tracing::error!(%refusal, "expired entries stay");
        }
    }
}
