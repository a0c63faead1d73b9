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

use crate::flow::{Filter, Flow, FlowKey, tight};
use crate::refusal::Refusal;
use crate::sizes::{flow_bytes, instructions_bytes};
use crate::stage::Batch;
use crate::stores::Placing;
use crate::transaction::Transaction;
use of_lower::{Call, Context, lower_instructions};
use openflow::{
    FlowMod, FlowModCommand, FlowModFlags, FlowRemovedReason, Match, PacketIn, Version,
};
use std::collections::BTreeMap;

/// Whose actions they are: packets that a table-miss entry sends have a reason of their own. 1.0 has
/// no such entries.
fn context(dialect: Version, priority: u16, matching: &Match) -> Context {
    //= openflow-1.3.5 §5.4: a table-miss entry wildcards everything and has priority 0.
    let miss = priority == 0 && matching.is_empty() && dialect != Version::V10;
    if miss { Context::TableMiss } else { Context::Entry }
}

impl Transaction<'_> {
    /// Executes a flow-mod.
    pub(crate) fn flow_mod(&mut self, request: FlowMod) -> Result<(), Refusal> {
        request.matching.check()?;
        match request.command {
            FlowModCommand::Add => self.add_flow(request),
            FlowModCommand::Modify => self.modify_flows(request, false),
            FlowModCommand::ModifyStrict => self.modify_flows(request, true),
            FlowModCommand::Delete => self.delete_flows(&request, false),
            FlowModCommand::DeleteStrict => self.delete_flows(&request, true),
        }
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
        if !self.stores.tables.contains(table) {
            return Err(Refusal::FlowTable { table, tables: self.stores.flows.tables() });
        }
        Ok(table)
    }

    //= openflow-1.3.5 §7.3.4.1: a kept packet that is not there is OFPBRC_BUFFER_UNKNOWN. None is.
    fn no_buffer(request: &FlowMod) -> Result<(), Refusal> {
        request.buffer_id.map_or(Ok(()), |buffer| Err(Refusal::BufferUnknown { buffer: buffer.0 }))
    }

    fn add_flow(&mut self, request: FlowMod) -> Result<(), Refusal> {
        let env = self.env;
        let table = self.one_table(&request)?;
        Self::no_buffer(&request)?;
        //= openflow-1.3.5 §7.3.4.1: the cookie of all ones is reserved; packet-ins without an entry
        //= have it.
        if request.cookie == PacketIn::NO_COOKIE && request.dialect != Version::V10 {
            return Err(Refusal::Cookie);
        }
        let FlowMod { dialect, priority, .. } = request;
        let old = self.stores.flows.find_strict(table, priority, &request.matching);
        self.stores.may_change(old.as_slice())?;
        self.stores.rules(env).entry(table, &request)?;
        //= openflow-1.3.5 §6.4: with CHECK_OVERLAP, an entry of the same priority that could match
        //= the same packet refuses the add with OFPFMFC_OVERLAP.
        if request.flags.contains(FlowModFlags::CHECK_OVERLAP)
            && self.stores.flows.overlaps(table, priority, &request.matching)
        {
            return Err(Refusal::Overlap { table, priority });
        }
        //= openflow-1.3.5 §6.4: no room is OFPFMFC_TABLE_FULL.
        let capacity = self.stores.tables.capacity(table);
        let table_full = self.stores.flows.len(table) >= capacity as usize;
        let (all, flows_max) = (self.stores.flows.total().0, env.config.flows_max);
        let full = old.is_none() && (table_full || all >= flows_max as usize);
        //= openflow-1.4.1 §7.3.3: a table that may evict makes room.
        let victim = if full { self.victim(table, request.importance) } else { None };
        if full && victim.is_none() {
            return Err(match table_full {
                true => Refusal::TableFull { table, capacity },
                false => Refusal::FlowsFull { max: flows_max },
            });
        }
        let victims = self.stores.with_reflections(victim.into_iter().collect());
        let context = context(request.dialect, priority, &request.matching);
        let (layout, elements) = (&env.layout, env.elements());
        let call = lower_instructions(layout, &elements, table, context, &request.instructions)?;
        let flags = request.flags;
        let flow = Flow::asked_for(FlowMod { priority, ..request }, env.switch.now_ns());
        let own = Placing { table, old, flow, call };
        let reflections = self.stores.reflect(env, dialect, &own, &victims)?;
        let fresh = usize::from(own.old.is_none())
            + reflections.iter().filter(|reflection| reflection.old.is_none()).count();
        let bytes = flow_bytes(&own.flow) * (1 + reflections.len());
        self.stores.has_room(&env.config, fresh, victims.len(), bytes)?;

        let mut batch = Batch::new(&env.switch, self.stage);
        self.stores.take_out(&mut batch, layout, victims.iter().copied())?;
        let mut placed = Vec::with_capacity(1 + reflections.len());
        for Placing { table, old, mut flow, call } in std::iter::once(own).chain(reflections) {
            let key = self.stores.put(&mut batch, layout, (table, old), &mut flow, call)?;
            placed.push((key, flow));
        }
        let spent = batch.commit()?;
        let gone = victims.into_iter().map(|victim| (victim, FlowRemovedReason::Eviction));
        self.forget_flows(gone, spent);
        for (key, flow) in placed {
            let before = self.stores.flows.remove(key).map(|old| old.instructions);
            //= openflow-1.0.2 §4.6: the counters of the replaced entry go with it.
            let v10 = dialect == Version::V10;
            if before.is_some() && (v10 || flags.contains(FlowModFlags::RESET_COUNTS)) {
                self.reset_counter(key.id);
            }
            self.stores.flows.insert(key, flow);
            self.tell_change(key, before);
        }
        Ok(())
    }

    /// The entry of a full table that makes room for one of this importance; none if no entry may go.
    fn victim(&mut self, table: u8, importance: u16) -> Option<FlowKey> {
        let reader = self.env.switch.counters();
        let used = |id| reader.read(id).and_then(|count| count.last_used_ns).unwrap_or(0);
        self.stores.tables.victim(&mut self.stores.flows, table, importance, used)
    }

    fn modify_flows(&mut self, request: FlowMod, strict: bool) -> Result<(), Refusal> {
        let env = self.env;
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
            self.stores.flows.select_strict(&filter, request.priority)
        } else {
            self.stores.flows.select(&filter).map(|(key, _)| key).collect()
        };
        if keys.is_empty() {
            //= openflow-1.0.2 §4.6: a modify that finds nothing adds. One that looks for entries of some
            //= cookie has none to add.
            if v10 && filter.cookie_mask == 0 && new_cookie.is_some() {
                return self.add_flow(request);
            }
            //= openflow-1.3.5 §6.4: a modify that finds nothing changes nothing, and is no error.
            let (rules, table) = (self.stores.rules(env), table.unwrap_or(0));
            return rules.instructions(request.dialect, table, None, &request.instructions);
        }
        self.stores.may_change(&keys)?;
        // Reflections follow what they reflect.
        keys.retain(|key| self.stores.flows.get(*key).is_some_and(|flow| !flow.synchronised));
        let rules = self.stores.rules(env);
        let flows = || keys.iter().filter_map(|key| Some((*key, self.stores.flows.get(*key)?)));
        for (key, flow) in flows() {
            let matching = Some(&flow.matching);
            rules.instructions(request.dialect, key.table, matching, &request.instructions)?;
        }
        let (dialect, to) = (request.dialect, &request.instructions);
        let reflected = self.stores.reflect_change(env, dialect, &keys, to)?;
        let each = instructions_bytes(&request.instructions);
        let before: usize = flows().map(|(_, flow)| instructions_bytes(&flow.instructions)).sum();
        let bytes = (each * keys.len()).saturating_sub(before);
        self.stores.has_room(&env.config, 0, 0, bytes)?;
        let mut batch = Batch::new(&env.switch, self.stage);
        // What it becomes is the same for all entries of a table but its table-miss entry.
        let mut calls: BTreeMap<(u8, bool), Call> = BTreeMap::new();
        let mut changed = Vec::with_capacity(keys.len() + reflected.len());
        let all = keys.iter().map(|key| (*key, None));
        for (key, own) in all.chain(reflected.into_iter().map(|(key, own)| (key, Some(own)))) {
            let Some(flow) = self.stores.flows.get(key) else { continue };
            let (own, call) = match own {
                Some((instructions, call)) => (Some(instructions), call),
                None => {
                    let context = context(request.dialect, flow.priority, &flow.matching);
                    let like = (key.table, context == Context::TableMiss);
                    if let Some(call) = calls.get(&like) {
                        (None, call.clone())
                    } else {
                        let (layout, elements) = (&env.layout, env.elements());
                        let call = lower_instructions(layout, &elements, key.table, context, to)?;
                        calls.insert(like, call.clone());
                        (None, call)
                    }
                }
            };
            let to = (own.as_ref().unwrap_or(&request.instructions), new_cookie);
            let became = self.stores.alter(&mut batch, &env.layout, key, to, call)?;
            changed.extend(became.map(|action| (key, own, action)));
        }
        batch.commit()?.retire(&env.switch);
        for (key, own, action) in changed {
            //= openflow-1.3.5 §6.4: instructions change; cookie, timeouts, flags, counters and
            //= durations stay, unless RESET_COUNTS is set.
            let mut before = None;
            self.stores.flows.change(key, |flow| {
                let instructions = own.unwrap_or_else(|| request.instructions.clone());
                let new = tight(instructions).into();
                before = Some(std::mem::replace(&mut flow.instructions, new));
                flow.action = action;
                //= openflow-1.0.2 §5.3.3: a modify sets the cookie.
                if let Some(cookie) = new_cookie {
                    flow.cookie = cookie;
                }
            });
            self.tell_change(key, before);
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
            self.stores.flows.select_strict(&filter, request.priority)
        } else {
            self.stores.flows.select(&filter).map(|(key, _)| key).collect()
        };
        //= openflow-1.3.5 §6.4: a delete that finds nothing is no error.
        if keys.is_empty() {
            return Ok(());
        }
        self.stores.may_change(&keys)?;
        self.remove(keys.into_iter().map(|key| (key, FlowRemovedReason::Delete)).collect())
    }
}
