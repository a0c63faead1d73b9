//! Entries that `learn` makes of packets (ovs-actions(7), NXAST_LEARN).
//!
//! The packet path tells the values of a packet in a digest; the entry is made here, some time later
//! ([`Agent::poll`]), as a controller's add would make it: packets that come before it is there do
//! not find it. An entry that is there already is added anew at most every [`REFRESH_NS`], so that
//! its timeouts begin anew while packets keep coming, and its counters stay.
//!
//! A worker tells of an entry once, and then again after a while ([`switch::Forgotten`]). It tells at once if the entry has
//! gone or changed, which [`Learned`](crate::relearning::Learned) sees.

use crate::agent::Agent;
use crate::flow::{FlowKey, fin_timeout, lists, timeout_ns};
use crate::learned::{Learning, entry};
use crate::stage::Batch;
use crate::transaction::{Change, Transaction};
use ir::{Bits, EntryId, Update};
use of_lower::conjunctive;
use openflow::{Action, FlowMod, FlowModCommand, Instructions, Learn, Match, TableId};
use std::sync::Arc;
use switch::Place;

/// An entry that has been there for so long is added anew.
const REFRESH_NS: u64 = 500_000_000;

impl Agent {
    /// What became of `learn`s.
    pub fn learning(&self) -> Learning {
        self.learning
    }

    /// A digest came: an entry is to be learned.
    pub(crate) fn learn_entry(&mut self, args: &[Bits], place: Option<Place>) {
        self.learning.messages += 1;
        let which = args.first().map_or(0, Bits::low_u64) as u32;
        // A digest may be older than the entry's removal that asked for it.
        let Some(learn) = self.stage.learn_of(which).cloned() else { return };
        let request = entry(&learn, args[1..].iter().map(Bits::low_u128));
        let (priority, matching) = (request.priority, request.matching.clone());
        self.learn(&learn, request);
        // While it is there as it is, workers need not tell of it again.
        let table = learn.table_id.0;
        if let Some(place) = place
            && let Some(key) = self.stores.flows.find_strict(table, priority, &matching)
        {
            self.stores.flows.learned(key, place);
        }
    }

    /// An entry is to be there.
    fn learn(&mut self, learn: &Learn, request: FlowMod) {
        let table = learn.table_id.0;
        let known = self.stores.flows.find_strict(table, request.priority, &request.matching);
        let admission = self.stage.admission().clone();
        let mut same = false;
        if let Some(flow) = known.and_then(|key| self.stores.flows.get(key)) {
            same = *flow.instructions == request.instructions && flow.cookie == request.cookie;
            let timed = flow.idle_timeout != 0 || flow.hard_timeout != 0;
            let old = self.env.switch.now_ns().saturating_sub(flow.created_ns) >= REFRESH_NS;
            if same && !(timed && old) {
                return admission.settle(learn, &request);
            }
        }
        if learn.limit != 0 && !same && !admission.promised(learn, &request) {
            // Who was told that it will not be there is taken at the word.
            if learn.result_dst.is_some() {
                let why = format!("the limit of {} entries was reached", learn.limit);
                return self.learning.refuse(&self.env.switch, table, learn.cookie, &why);
            }
            let learned =
                self.stores.flows.iter(table).filter(|(_, f)| f.cookie == learn.cookie).count();
            if learned >= learn.limit as usize {
                let why = format!("the limit of {} entries is reached", learn.limit);
                return self.learning.refuse(&self.env.switch, table, learn.cookie, &why);
            }
        }
        let asked = learn.result_dst.is_some().then(|| request.clone());
        if let Err(refusal) = self.transaction(None).apply(Change::Flow(request)) {
            asked.iter().for_each(|request| admission.settle(learn, request));
            let why = refusal.to_string();
            self.learning.refuse(&self.env.switch, table, learn.cookie, &why);
        }
    }
}

impl Transaction<'_> {
    /// A request may bring `learn`s whose packets ask what comes of them.
    pub(crate) fn open_rooms(&self, change: &Change) {
        let open = |actions: &[Action]| self.open_learns(actions);
        match change {
            Change::Flow(request) | Change::Emergency(request) => {
                lists(&request.instructions).for_each(open);
            }
            Change::Group(request) => request.buckets.iter().for_each(|b| open(&b.actions)),
            Change::Packet(request) => open(&request.actions),
            Change::Meter(_) | Change::Port(_) => {}
        }
    }

    /// The same of a list.
    pub(crate) fn open_learns(&self, actions: &[Action]) {
        let learns = Action::flat(actions).filter_map(|action| match action {
            Action::Learn(learn) => Some(&**learn),
            _ => None,
        });
        let flows = &self.stores.flows;
        let entries = |table| flows.iter(table).map(|(_, flow)| flow);
        self.stage.admission().open(learns, entries);
    }

    /// Entries that were learned by others with `delete_learned` go with the last of those.
    pub(crate) fn delete_orphans(&mut self) {
        if self.stage.is_staging() {
            return;
        }
        loop {
            let orphans = self.stores.flows.take_orphans();
            if orphans.is_empty() {
                return;
            }
            for (table, cookie) in orphans {
                let request = FlowMod {
                    command: FlowModCommand::Delete,
                    table_id: TableId(table),
                    cookie,
                    cookie_mask: u64::MAX,
                    ..FlowMod::add(Match::new(), Instructions::new())
                };
                if let Err(refusal) = self.apply(Change::Flow(request)) {
                    tracing::error!(table, cookie, %refusal, "learned entries stay");
                }
            }
        }
    }

    /// A digest came: an entry with a `fin_timeout` saw a FIN or RST. Its timeouts become what that says, unless
    /// they are shorter; they begin anew.
    pub(crate) fn fin_seen(&mut self, args: &[Bits]) {
        let at = |i: usize| args.get(i).map_or(0, Bits::low_u64) as u32;
        let key = FlowKey { table: at(0) as u8, id: at(1) };
        // A digest may be older than a change of the entry.
        let Some(flow) = self.stores.flows.get(key) else { return };
        let Some(fin) = fin_timeout(&flow.instructions) else { return };
        let shorter = |was: u16, to: u16| if to != 0 && (was == 0 || to < was) { to } else { was };
        let mut flow = flow.clone();
        let before = (flow.idle_timeout, flow.hard_timeout);
        flow.idle_timeout = shorter(flow.idle_timeout, fin.idle_timeout);
        flow.hard_timeout = shorter(flow.hard_timeout, fin.hard_timeout);
        if before == (flow.idle_timeout, flow.hard_timeout) {
            return;
        }
        let part = conjunctive::part(&flow.matching, &flow.instructions);
        let (table, _) = conjunctive::place(&self.env.layout, key.table, &flow.matching, part);
        let id = EntryId(key.id);
        let Some(mut entry) = self.env.switch.with_pipeline(|p| p.entries(table).get(id).cloned())
        else {
            return;
        };
        let timed = Arc::make_mut(&mut entry);
        timed.idle_timeout_ns = timeout_ns(flow.idle_timeout);
        timed.hard_timeout_ns = timeout_ns(flow.hard_timeout);
        let mut tx = Batch::new(&self.env.switch, self.stage);
        tx.push(Update::Delete(table, id));
        tx.push(Update::Insert(table, entry));
        match tx.commit() {
            Ok(spent) => {
                spent.retire(&self.env.switch);
                self.stores.flows.remove(key);
                self.stores.flows.insert(key, flow);
            }
            Err(refusal) => tracing::error!(%refusal, "an entry's timeouts stay"),
        }
    }
}
