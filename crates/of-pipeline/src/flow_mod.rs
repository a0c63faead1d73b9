//! Flow-mods: add, modify, delete, strict or not (1.3.5 §6.4, §7.3.4.1; 1.0.2 §4.6, §5.3.3).
//!
//! | | adds where none is | cookie | counters | timeouts, flags |
//! |---|---|---|---|---|
//! | add over an equal entry, 1.3 | - | set | kept, unless `RESET_COUNTS` | set |
//! | add over an equal entry, 1.0 | - | set | zero | set |
//! | modify, 1.3 | no | kept (a filter) | kept, unless `RESET_COUNTS` | kept |
//! | modify, 1.0 | yes, unless a cookie filters | set | kept | kept |
//!
//! A request of 1.0 without a table number is about all tables, as in Open vSwitch; what it adds goes to
//! the first one. Packets are not kept, so a buffer is never known.
//!
//! Cost: an add, two hashes of the match and the switch's transaction; non-strict requests and the
//! overlap check look at every entry of their tables.
//! Checked by: tables of cases, and random requests against a plain list that follows the text of
//! the specification.

use crate::agent::{Agent, elements};
use crate::conjunction::{Conjunctions, Making};
use crate::flow_table::{Filter, Flow, FlowKey, FlowTables};
use crate::refusal::Refusal;
use crate::removed;
use crate::stats::{flow_bytes, instructions_bytes};
use crate::synchronised::Reflection;
use crate::transaction::Transaction;
use crate::trigger;
use ir::{ActionCall, Entry, EntryId, TableId, Update};
use of_lower::conjunctive::{self, Part};
use of_lower::{Call, Context, Layout, lower_instructions};
use openflow::{
    FlowMod, FlowModCommand, FlowModFlags, FlowRemovedReason, Match, PacketIn, Version,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nanoseconds of a timeout in seconds.
pub(crate) fn timeout_ns(seconds: u16) -> u64 {
    u64::from(seconds) * 1_000_000_000
}

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

/// Whose actions they are: packets that a table-miss entry sends have a reason of their own. 1.0 has
/// no such entries.
fn context(dialect: Version, priority: u16, matching: &Match) -> Context {
    //= openflow-1.3.5 §5.4: a table-miss entry wildcards everything and has priority 0.
    let miss = priority == 0 && matching.is_empty() && dialect != Version::V10;
    if miss { Context::TableMiss } else { Context::Entry }
}

/// Collects the updates that put an entry in its table, where an equal one may be (`at`), and completes it with its
/// action; says where it will be.
fn place(
    tx: &mut Transaction<'_>,
    conjunctions: &mut Conjunctions,
    layout: &Layout,
    flows: &FlowTables,
    at: (u8, Option<FlowKey>),
    flow: &mut Flow,
    call: Call,
) -> Result<FlowKey, Refusal> {
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

impl Agent {
    /// Executes a flow-mod.
    pub(crate) fn flow_mod(&mut self, request: FlowMod) -> Result<(), Refusal> {
        if request.flags.contains(FlowModFlags::EMERG) {
            return self.emergency_mod(request);
        }
        request.matching.check()?;
        let done = match request.command {
            FlowModCommand::Add => self.add_flow(request),
            FlowModCommand::Modify => self.modify_flows(request, false),
            FlowModCommand::ModifyStrict => self.modify_flows(request, true),
            FlowModCommand::Delete => self.delete_flows(&request, false),
            FlowModCommand::DeleteStrict => self.delete_flows(&request, true),
        };
        self.settle(done)
    }

    /// The tables that a modify or delete is about: one, or all of them.
    fn tables_of(&self, request: &FlowMod) -> Result<Option<u8>, Refusal> {
        //= openflow-1.3.5 §6.4: OFPTT_ALL deletes in every table.
        let deletes =
            matches!(request.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
        let all = request.table_id == openflow::TableId::ALL;
        // 1.0 has no table numbers: what it modifies or deletes may be in any table.
        if all && (deletes || request.dialect == Version::V10) {
            return Ok(None);
        }
        self.one_table(request).map(Some)
    }

    /// The one table that a request is about; of 1.0, the first one unless it says another.
    fn one_table(&self, request: &FlowMod) -> Result<u8, Refusal> {
        let table = match (request.dialect, request.table_id) {
            (Version::V10, openflow::TableId::ALL) => 0,
            (_, openflow::TableId(table)) => table,
        };
        //= openflow-1.3.5 §6.4: a table that is not there is OFPFMFC_BAD_TABLE_ID.
        if !self.table_configs.contains(table) {
            return Err(Refusal::FlowTable { table, tables: self.flows.tables() });
        }
        Ok(table)
    }

    //= openflow-1.3.5 §7.3.4.1: a kept packet that is not there is OFPBRC_BUFFER_UNKNOWN. None is.
    fn no_buffer(request: &FlowMod) -> Result<(), Refusal> {
        request.buffer_id.map_or(Ok(()), |buffer| Err(Refusal::BufferUnknown { buffer: buffer.0 }))
    }

    /// Sets an entry's counter to zero; in a bundle, once that is done.
    fn reset_counter(&mut self, id: u32) {
        if self.interner.is_staging() {
            self.deferred.resets.push(id);
        } else {
            self.switch.reset_counter(id);
        }
    }

    /// Whether so many more entries, of so many bytes in messages, may be there in all tables together,
    /// once so many have gone.
    fn has_room(&self, fresh: usize, gone: usize, bytes: usize) -> Result<(), Refusal> {
        let (flows, content) = self.flows.total();
        let max = self.config.flows_max;
        if fresh > gone && flows + fresh - gone > max as usize {
            return Err(Refusal::FlowsFull { max });
        }
        let max = self.config.content();
        if content + bytes > max {
            return Err(Refusal::ContentFull { max });
        }
        Ok(())
    }

    fn add_flow(&mut self, request: FlowMod) -> Result<(), Refusal> {
        let table = self.one_table(&request)?;
        Self::no_buffer(&request)?;
        //= openflow-1.3.5 §7.3.4.1: the cookie of all ones is reserved; packet-ins without an entry
        //= have it.
        if request.cookie == PacketIn::NO_COOKIE && request.dialect != Version::V10 {
            return Err(Refusal::Cookie);
        }
        let FlowMod { dialect, priority, .. } = request;
        let old = self.flows.find_strict(table, priority, &request.matching);
        self.leaves_sources(old.as_slice())?;
        let matching = Some(&request.matching);
        self.rules().instructions(dialect, table, matching, &request.instructions)?;
        if let Some(trigger) = trigger::of(&request.instructions) {
            trigger::check(&trigger, request.flags)?;
        }
        //= openflow-1.3.5 §6.4: with CHECK_OVERLAP, an entry of the same priority that could match
        //= the same packet refuses the add with OFPFMFC_OVERLAP.
        if request.flags.contains(FlowModFlags::CHECK_OVERLAP)
            && self.flows.overlaps(table, priority, &request.matching)
        {
            return Err(Refusal::Overlap { table, priority });
        }
        //= openflow-1.3.5 §6.4: no room is OFPFMFC_TABLE_FULL.
        let capacity = self.table_configs.capacity(table);
        let table_full = self.flows.len(table) >= capacity as usize;
        let (all, flows_max) = (self.flows.total().0, self.config.flows_max);
        let full = old.is_none() && (table_full || all >= flows_max as usize);
        //= openflow-1.4.1 §7.3.3: a table that may evict makes room.
        let victim = if full { self.victim(table, request.importance) } else { None };
        if full && victim.is_none() {
            return Err(match table_full {
                true => Refusal::TableFull { table, capacity },
                false => Refusal::FlowsFull { max: flows_max },
            });
        }
        let victims = self.with_reflections(victim.into_iter().collect());
        let context = context(request.dialect, priority, &request.matching);
        let elements = elements(&self.switch);
        let call =
            lower_instructions(&self.layout, &elements, table, context, &request.instructions)?;
        let flags = request.flags;
        let flow = Flow::asked_for(FlowMod { priority, ..request }, self.switch.now_ns());
        let reflections = self.reflect(dialect, table, &flow, &victims)?;
        let fresh = usize::from(old.is_none())
            + reflections.iter().filter(|reflection| reflection.old.is_none()).count();
        self.has_room(fresh, victims.len(), flow_bytes(&flow) * (1 + reflections.len()))?;

        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        let (conjunctions, layout, flows) = (&mut self.conjunctions, &self.layout, &self.flows);
        removed::take_out(&mut tx, conjunctions, layout, flows, victims.iter().copied())?;
        let of_reflections = |r: Reflection| (r.table, r.old, r.flow, r.call);
        let all = std::iter::once((table, old, flow, call));
        let mut placed = Vec::with_capacity(1 + reflections.len());
        for (table, old, mut flow, call) in all.chain(reflections.into_iter().map(of_reflections)) {
            let key = place(&mut tx, conjunctions, layout, flows, (table, old), &mut flow, call)?;
            placed.push((key, flow));
        }
        let spent = tx.commit()?;
        let gone = victims.into_iter().map(|victim| (victim, FlowRemovedReason::Eviction));
        self.forget_flows(gone, spent);
        for (key, flow) in placed {
            let before = self.flows.remove(key).map(|old| old.instructions);
            //= openflow-1.0.2 §4.6: the counters of the replaced entry go with it.
            let v10 = dialect == Version::V10;
            if before.is_some() && (v10 || flags.contains(FlowModFlags::RESET_COUNTS)) {
                self.reset_counter(key.id);
            }
            self.flows.insert(key, flow);
            self.tell_change(key, before);
        }
        Ok(())
    }

    fn modify_flows(&mut self, request: FlowMod, strict: bool) -> Result<(), Refusal> {
        let table = self.tables_of(&request)?;
        Self::no_buffer(&request)?;
        let v10 = request.dialect == Version::V10;
        let new_cookie = request.cookie_of_modify();
        //= openflow-1.3.5 §6.4: out_port and out_group filter deletes only.
        let filter = Filter {
            table,
            matching: &request.matching,
            cookie: request.cookie,
            cookie_mask: if v10 && !request.extended { 0 } else { request.cookie_mask },
            out_port: openflow::PortNo::ANY,
            out_group: openflow::GroupId::ANY,
        };
        let mut keys = if strict {
            self.flows.select_strict(&filter, request.priority)
        } else {
            self.flows.select(&filter).map(|(key, _)| key).collect()
        };
        if keys.is_empty() {
            //= openflow-1.0.2 §4.6: a modify that finds nothing adds. One that looks for entries of some
            //= cookie has none to add.
            if v10 && filter.cookie_mask == 0 && new_cookie.is_some() {
                return self.add_flow(request);
            }
            //= openflow-1.3.5 §6.4: a modify that finds nothing changes nothing, and is no error.
            let (rules, table) = (self.rules(), table.unwrap_or(0));
            return rules.instructions(request.dialect, table, None, &request.instructions);
        }
        self.leaves_sources(&keys)?;
        // Reflections follow what they reflect.
        keys.retain(|key| self.flows.get(*key).is_some_and(|flow| !flow.synchronised));
        let rules = self.rules();
        let flows = || keys.iter().filter_map(|key| Some((*key, self.flows.get(*key)?)));
        for (key, flow) in flows() {
            let matching = Some(&flow.matching);
            rules.instructions(request.dialect, key.table, matching, &request.instructions)?;
        }
        let mut reflected = Vec::new();
        for (key, _) in flows() {
            for reflection in self.reflections_of(key) {
                let to = self.synchronised_from(reflection.table);
                let Some((to, flow)) = to.zip(self.flows.get(reflection)) else { continue };
                let (dialect, matching) = (request.dialect, &flow.matching);
                let new =
                    self.reflected_instructions(dialect, to, matching, &request.instructions)?;
                reflected.push((reflection, new));
            }
        }
        let each = instructions_bytes(&request.instructions);
        let before: usize = flows().map(|(_, flow)| instructions_bytes(&flow.instructions)).sum();
        self.has_room(0, 0, (each * keys.len()).saturating_sub(before))?;
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        // What it becomes is the same for all entries of a table but its table-miss entry.
        let mut calls: BTreeMap<(u8, bool), Call> = BTreeMap::new();
        let mut changed = Vec::with_capacity(keys.len() + reflected.len());
        let all = keys.iter().map(|key| (*key, None));
        for (key, own) in all.chain(reflected.into_iter().map(|(key, own)| (key, Some(own)))) {
            let Some(flow) = self.flows.get(key) else { continue };
            let (own, call) = match own {
                Some((instructions, call)) => (Some(instructions), call),
                None => {
                    let context = context(request.dialect, flow.priority, &flow.matching);
                    let like = (key.table, context == Context::TableMiss);
                    if let Some(call) = calls.get(&like) {
                        (None, call.clone())
                    } else {
                        let (layout, what) = (&self.layout, &request.instructions);
                        let elements = elements(&self.switch);
                        let call = lower_instructions(layout, &elements, key.table, context, what)?;
                        calls.insert(like, call.clone());
                        (None, call)
                    }
                }
            };
            let instructions = own.as_ref().unwrap_or(&request.instructions);
            let was = conjunctive::part(&flow.matching, &flow.instructions);
            let is = conjunctive::part(&flow.matching, instructions);
            let call = if matches!(is, Part::Own(_)) { call.of_conjunctive() } else { call };
            let own_id = call.own.clone();
            let mut action = tx.intern(call);
            tell_id(&mut action, &own_id, key);
            let became = action.action;
            tx.release(flow.action);
            let (id, mut new) = entry(&self.layout, key, flow, is, action);
            if let (Some(cookie), Some(entry)) = (new_cookie, Arc::get_mut(&mut new)) {
                entry.cookie = cookie;
            }
            if was == is && is != Part::Dimension {
                tx.push(Update::Modify(id, new));
            } else {
                let (from, _) = conjunctive::place(&self.layout, key.table, &flow.matching, was);
                tx.push(Update::Delete(from, EntryId(key.id)));
                let make = &mut Making { tx: &mut tx, flows: &self.flows, about: key.id };
                let instructions = instructions.clone();
                let then = Flow { instructions, matching: flow.matching.clone(), ..*flow };
                self.conjunctions.remove(make, key.table, flow)?;
                self.conjunctions.add(make, key.table, &then)?;
                tx.push(Update::Insert(id, new));
            }
            changed.push((key, own, became));
        }
        tx.commit()?.retire(&self.switch);
        for (key, own, action) in changed {
            //= openflow-1.3.5 §6.4: instructions change; cookie, timeouts, flags, counters and
            //= durations stay, unless RESET_COUNTS is set.
            let mut before = Default::default();
            self.flows.change(key, |flow| {
                let instructions = own.unwrap_or_else(|| request.instructions.clone());
                before = std::mem::replace(&mut flow.instructions, instructions);
                flow.action = action;
                //= openflow-1.0.2 §5.3.3: a modify sets the cookie.
                if let Some(cookie) = new_cookie {
                    flow.cookie = cookie;
                }
            });
            self.tell_change(key, Some(before));
            if request.flags.contains(FlowModFlags::RESET_COUNTS) {
                self.reset_counter(key.id);
            }
        }
        Ok(())
    }

    fn delete_flows(&mut self, request: &FlowMod, strict: bool) -> Result<(), Refusal> {
        let v10 = request.dialect == Version::V10;
        let table = self.tables_of(request)?;
        let filter = Filter {
            table,
            matching: &request.matching,
            cookie: request.cookie,
            cookie_mask: if v10 && !request.extended { 0 } else { request.cookie_mask },
            out_port: request.out_port,
            out_group: request.out_group,
        };
        let keys: Vec<FlowKey> = if strict {
            self.flows.select_strict(&filter, request.priority)
        } else {
            self.flows.select(&filter).map(|(key, _)| key).collect()
        };
        //= openflow-1.3.5 §6.4: a delete that finds nothing is no error.
        if keys.is_empty() {
            return Ok(());
        }
        self.leaves_sources(&keys)?;
        let keys = self.with_reflections(keys);
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        let conjunctions = &mut self.conjunctions;
        let all = keys.iter().copied();
        removed::take_out(&mut tx, conjunctions, &self.layout, &self.flows, all)?;
        let spent = tx.commit()?;
        self.forget_flows(keys.into_iter().map(|key| (key, FlowRemovedReason::Delete)), spent);
        Ok(())
    }
}
