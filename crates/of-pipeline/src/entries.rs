//! How flow entries come, change and go: what the switch is told, and who else follows.
//!
//! Requests say which entries they are about and what becomes of them. Here is what that means for the switch's
//! tables, and for conjunctive flows, whose choices stand beside the entries ([`Conjunctions`]). What reflects an
//! entry follows it, too: [`Stores::with_reflections`] and its like say how.
//!
//! These collect updates of a [`Batch`]. The store changes once they are committed, and tells its observers.
//!
//! [`Conjunctions`]: crate::conjunction::Conjunctions

use crate::conjunction::Making;
use crate::flow::{Flow, FlowKey, timeout_ns};
use crate::refusal::Refusal;
use crate::stage::Batch;
use crate::stores::Stores;
use ir::{ActionCall, ActionId, Entry, EntryId, TableId, Update};
use of_lower::conjunctive::{self, Part};
use of_lower::{Call, Layout};
use openflow::Instructions;
use std::sync::Arc;

/// What the switch keeps of an entry, and in which table.
fn entry(
    layout: &Layout,
    key: FlowKey,
    flow: &Flow,
    part: Part,
    action: ActionCall,
) -> (TableId, Arc<Entry>) {
    let (table, matches) = conjunctive::place(layout, key.table, &flow.matching, part);
    let entry = Entry {
        id: EntryId(key.id),
        priority: flow.priority.into(),
        matches,
        action,
        cookie: flow.cookie,
        idle_timeout_ns: timeout_ns(flow.idle_timeout),
        hard_timeout_ns: timeout_ns(flow.hard_timeout),
    };
    (table, Arc::new(entry))
}

/// Writes an entry's id into the arguments of its action that are that.
fn tell_id(action: &mut ActionCall, own: &[usize], key: FlowKey) {
    for at in own {
        if let Some(arg) = action.args.get_mut(*at) {
            *arg = ir::Bits::from_u128(key.id.into(), 32);
        }
    }
}

impl Stores {
    /// Collects the updates that put an entry in its table, where an equal one may be (`at`), and completes it with its
    /// action; says where it will be.
    pub(crate) fn put(
        &mut self,
        tx: &mut Batch<'_>,
        layout: &Layout,
        at: (u8, Option<FlowKey>),
        flow: &mut Flow,
        call: Call,
    ) -> Result<FlowKey, Refusal> {
        let Stores { flows, conjunctions, .. } = self;
        let (table, old) = at;
        let is = conjunctive::part(&flow.matching, &flow.instructions);
        let call = if matches!(is, Part::Own(_)) { call.of_conjunctive() } else { call };
        let own = call.own.clone();
        let mut action = tx.intern(call);
        flow.action = action.action;
        let Some((key, old)) = old.and_then(|key| Some((key, flows.get(key)?))) else {
            let EntryId(fresh) = tx.take_entry_id()?;
            conjunctions.add(&mut Making { tx, flows, about: fresh }, table, flow)?;
            let key = FlowKey { table, id: fresh };
            tell_id(&mut action, &own, key);
            let (id, new) = entry(layout, key, flow, is, action);
            tx.push(Update::Insert(id, new));
            return Ok(key);
        };
        //= openflow-1.3.5 §6.4: an equal entry is replaced, without a flow-removed message; its
        //= counters go over to the new one unless RESET_COUNTS is set.
        tx.release(old.action);
        let timed = [old.idle_timeout, old.hard_timeout, flow.idle_timeout, flow.hard_timeout];
        let was = conjunctive::part(&old.matching, &old.instructions);
        tell_id(&mut action, &own, key);
        let (id, new) = entry(layout, key, flow, is, action);
        if timed == [0; 4] && was == is && is != Part::Dimension {
            tx.push(Update::Modify(id, new));
            return Ok(key);
        }
        // Timeouts start anew with an entry, which keeps its id and with it its counter.
        let (from, _) = conjunctive::place(layout, table, &old.matching, was);
        tx.push(Update::Delete(from, EntryId(key.id)));
        if was != is || is == Part::Dimension {
            let make = &mut Making { tx, flows, about: key.id };
            conjunctions.remove(make, table, old)?;
            conjunctions.add(make, table, flow)?;
        }
        tx.push(Update::Insert(id, new));
        Ok(key)
    }

    /// Collects the updates that make an entry do this, with this cookie if it is said. Its action then; none if it is
    /// not there.
    pub(crate) fn alter(
        &mut self,
        tx: &mut Batch<'_>,
        layout: &Layout,
        key: FlowKey,
        to: (&Instructions, Option<u64>),
        call: Call,
    ) -> Result<Option<ActionId>, Refusal> {
        let Stores { flows, conjunctions, .. } = self;
        let Some(flow) = flows.get(key) else { return Ok(None) };
        let (instructions, cookie) = to;
        let was = conjunctive::part(&flow.matching, &flow.instructions);
        let is = conjunctive::part(&flow.matching, instructions);
        let call = if matches!(is, Part::Own(_)) { call.of_conjunctive() } else { call };
        let own_id = call.own.clone();
        let mut action = tx.intern(call);
        tell_id(&mut action, &own_id, key);
        let became = action.action;
        tx.release(flow.action);
        let (id, mut new) = entry(layout, key, flow, is, action);
        if let (Some(cookie), Some(entry)) = (cookie, Arc::get_mut(&mut new)) {
            entry.cookie = cookie;
        }
        if was == is && is != Part::Dimension {
            tx.push(Update::Modify(id, new));
        } else {
            let (from, _) = conjunctive::place(layout, key.table, &flow.matching, was);
            tx.push(Update::Delete(from, EntryId(key.id)));
            let make = &mut Making { tx, flows, about: key.id };
            let instructions = instructions.clone().into();
            let then = Flow { instructions, matching: flow.matching.clone(), ..*flow };
            conjunctions.remove(make, key.table, flow)?;
            conjunctions.add(make, key.table, &then)?;
            tx.push(Update::Insert(id, new));
        }
        Ok(Some(became))
    }

    /// Collects the updates that take entries out. Tables that lose all are cleared at once.
    pub(crate) fn take_out(
        &mut self,
        tx: &mut Batch<'_>,
        layout: &Layout,
        keys: impl Iterator<Item = FlowKey>,
    ) -> Result<(), Refusal> {
        let Stores { flows, conjunctions, .. } = self;
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
}
