//! Entries that `learn` makes of packets (ovs-actions(7), NXAST_LEARN).
//!
//! The packet path tells the values of a packet in a digest; the entry is made here, some time later
//! ([`Agent::poll`]), as a controller's add would make it: packets that come before it is there do
//! not find it. An entry that is there already is added anew at most every [`REFRESH_NS`], so that
//! its timeouts begin anew while packets keep coming, and its counters stay.

use crate::agent::Agent;
use crate::flow_mod::timeout_ns;
use crate::flow_table::{self, FlowKey};
use crate::transaction::Transaction;
use ir::{Bits, EntryId, Update};
use of_lower::conjunctive;
use openflow::field::VLAN_PRESENT;
use openflow::{
    Action, FieldId, FinTimeout, FlowMod, FlowModCommand, FlowModFlags, Instruction, Instructions,
    Learn, LearnSource, LearnTarget, Match, Message, PortNo, SetField, TableId,
};
use std::sync::Arc;

/// An entry that has been there for so long is added anew.
const REFRESH_NS: u64 = 500_000_000;

/// So many low bits.
fn ones(bits: u16) -> u128 {
    u128::MAX >> (128 - u32::from(bits.clamp(1, 128)))
}

/// A port's number as a packet's fields have it: reserved ones of 16 bits mean those of 32.
fn port(value: u128) -> PortNo {
    match value as u32 {
        short @ 0xfff8..=0xffff => PortNo(short | 0xffff_0000),
        number => PortNo(number),
    }
}

/// The entry that a `learn` makes of these values, one for each part that is taken of the packet.
pub(crate) fn entry(learn: &Learn, mut values: impl Iterator<Item = u128>) -> FlowMod {
    let mut matching = Match::new();
    let mut actions = Vec::new();
    for spec in &learn.specs {
        let value = match spec.from {
            LearnSource::Value(value) => value,
            LearnSource::Field(_) => values.next().unwrap_or(0),
        } & ones(spec.bits);
        match spec.to {
            LearnTarget::Match(to) => {
                // NXM's ports have 16 bits, OpenFlow's field 32.
                let whole = to.field == FieldId::InPort && spec.bits >= 16;
                let bits = if whole { to.field.all_bits() } else { ones(spec.bits) << to.offset };
                if to.field.is_composite() {
                    match_several(&mut matching, to.field, value << to.offset, bits);
                    continue;
                }
                let before = matching.get(to.field).map_or((0, 0), |f| (f.value, f.mask));
                let value = if whole { port(value).0.into() } else { value };
                let mut value = before.0 | value << to.offset;
                let mask = before.1 | bits;
                // An exact VLAN id says that there is a tag.
                if to.field == FieldId::VlanVid && mask & VLAN_PRESENT != 0 && value != 0 {
                    value |= VLAN_PRESENT;
                }
                matching.set_masked(to.field, value & mask, mask);
            }
            LearnTarget::Load(to) => {
                let mask = ones(spec.bits) << to.offset;
                let part = (mask != to.field.all_bits()).then_some(mask);
                // Nicira's ingress ports have 16 bits.
                if to.field == FieldId::InPort && mask == 0xffff {
                    let port = PortNo::from_v10(value as u16).0.into();
                    actions.push(Action::set_field(to.field, port));
                    continue;
                }
                let value = value << to.offset;
                let load = Action::SetField(SetField { field: to.field, value, mask: part });
                load.spread(|one| actions.push(one));
            }
            LearnTarget::Output => actions.push(Action::output(port(value))),
        }
    }
    let fin =
        FinTimeout { idle_timeout: learn.fin_idle_timeout, hard_timeout: learn.fin_hard_timeout };
    if fin != FinTimeout::default() {
        actions.insert(0, Action::FinTimeout(fin));
    }
    let mut instructions = Instructions::new();
    if !actions.is_empty() {
        instructions.push(Instruction::ApplyActions(actions));
    }
    let flags =
        if learn.send_flow_rem { FlowModFlags::SEND_FLOW_REM } else { FlowModFlags::empty() };
    FlowMod {
        table_id: learn.table_id,
        idle_timeout: learn.idle_timeout,
        hard_timeout: learn.hard_timeout,
        priority: learn.priority,
        cookie: learn.cookie,
        flags,
        ..FlowMod::add(matching, instructions)
    }
}

/// What became of `learn`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    /// Entries that were not learned, since the agent took charge.
    pub refused: u64,
    /// How many of them were told of in the log, and when it was last written.
    told: u64,
    told_ns: Option<u64>,
}

/// The log tells at most so often that entries are not learned.
const TELL_NS: u64 = 10_000_000_000;

/// Bits of a field that is several, as matches of its parts.
fn match_several(matching: &mut Match, field: FieldId, value: u128, mask: u128) {
    let mut part = |id: FieldId, shift: u32| {
        let (old, all) = matching.get(id).map_or((0, 0), |f| (f.value, f.mask));
        let mask = mask >> shift & id.all_bits();
        let (value, mask) = (old | value >> shift & mask, all | mask);
        // A whole tag of zero says that there is none, which no priority follows.
        if mask != 0 {
            matching.set_masked(id, value, mask);
        }
    };
    match field.registers() {
        Some((first, count)) => {
            for i in 0..count {
                part(FieldId::register(first + i), 32 * (count - 1 - i) as u32);
            }
        }
        None if field == FieldId::IpTos => part(FieldId::IpDscp, 2),
        None => {
            let no_tag = mask & VLAN_PRESENT != 0 && value & VLAN_PRESENT == 0;
            part(FieldId::VlanVid, 0);
            if !no_tag {
                part(FieldId::VlanPcp, 13);
            }
        }
    }
}

impl Agent {
    /// What became of `learn`s.
    pub fn learning(&self) -> Learning {
        self.learning
    }

    /// An entry is not learned: it is counted, and the log tells the reason now and then.
    fn not_learned(&mut self, table: u8, cookie: u64, why: &str) {
        self.switch.tally("learn_refused", 1);
        let now_ns = self.switch.now_ns();
        let learning = &mut self.learning;
        learning.refused += 1;
        if learning.told_ns.is_some_and(|then| now_ns.saturating_sub(then) < TELL_NS) {
            return;
        }
        let entries = learning.refused - std::mem::replace(&mut learning.told, learning.refused);
        learning.told_ns = Some(now_ns);
        tracing::warn!(table, cookie = format_args!("{cookie:#x}"), entries, why, "not learned");
    }

    /// A request may bring `learn`s whose packets ask what comes of them.
    pub(crate) fn open_rooms(&self, request: &Message) {
        let open = |actions: &[Action]| self.open_learns(actions);
        match request {
            Message::FlowMod(request) => flow_table::lists(&request.instructions).for_each(open),
            Message::GroupMod(request) => request.buckets.iter().for_each(|b| open(&b.actions)),
            Message::PacketOut(request) => open(&request.actions),
            _ => {}
        }
    }

    /// The same of a list.
    pub(crate) fn open_learns(&self, actions: &[Action]) {
        let learns = Action::flat(actions).filter_map(|action| match action {
            Action::Learn(learn) => Some(&**learn),
            _ => None,
        });
        self.interner.admission().open(learns, &self.flows);
    }

    /// Entries that were learned by others with `delete_learned` go with the last of those.
    pub(crate) fn delete_orphans(&mut self) {
        if self.interner.is_staging() {
            return;
        }
        loop {
            let orphans = self.flows.take_orphans();
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
                if let Err(refusal) = self.flow_mod(request) {
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
        let Some(flow) = self.flows.get(key) else { return };
        let Some(fin) = flow_table::fin_timeout(&flow.instructions) else { return };
        let shorter = |was: u16, to: u16| if to != 0 && (was == 0 || to < was) { to } else { was };
        let mut flow = flow.clone();
        let before = (flow.idle_timeout, flow.hard_timeout);
        flow.idle_timeout = shorter(flow.idle_timeout, fin.idle_timeout);
        flow.hard_timeout = shorter(flow.hard_timeout, fin.hard_timeout);
        if before == (flow.idle_timeout, flow.hard_timeout) {
            return;
        }
        let part = conjunctive::part(&flow.matching, &flow.instructions);
        let (table, _) = conjunctive::place(&self.layout, key.table, &flow.matching, part);
        let id = EntryId(key.id);
        let Some(mut entry) = self.switch.with_pipeline(|p| p.entries(table).get(id).cloned())
        else {
            return;
        };
        let timed = Arc::make_mut(&mut entry);
        timed.idle_timeout_ns = timeout_ns(flow.idle_timeout);
        timed.hard_timeout_ns = timeout_ns(flow.hard_timeout);
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        tx.push(Update::Delete(table, id));
        tx.push(Update::Insert(table, entry));
        match tx.commit() {
            Ok(spent) => {
                spent.retire(&self.switch);
                self.flows.remove(key);
                self.flows.insert(key, flow);
            }
            Err(refusal) => tracing::error!(%refusal, "an entry's timeouts stay"),
        }
    }

    /// A digest came: an entry is to be learned.
    pub(crate) fn learn_entry(&mut self, args: &[Bits]) {
        let which = args.first().map_or(0, Bits::low_u64) as u32;
        // A digest may be older than the entry's removal that asked for it.
        let Some(learn) = self.interner.learn_of(which).cloned() else { return };
        let request = entry(&learn, args[1..].iter().map(Bits::low_u128));
        let table = learn.table_id.0;
        let known = self.flows.find_strict(table, request.priority, &request.matching);
        let admission = self.interner.admission().clone();
        let mut same = false;
        if let Some(flow) = known.and_then(|key| self.flows.get(key)) {
            same = flow.instructions == request.instructions && flow.cookie == request.cookie;
            let timed = flow.idle_timeout != 0 || flow.hard_timeout != 0;
            let old = self.switch.now_ns().saturating_sub(flow.created_ns) >= REFRESH_NS;
            if same && !(timed && old) {
                return admission.settle(&learn, &request);
            }
        }
        if learn.limit != 0 && !same && !admission.promised(&learn, &request) {
            // Who was told that it will not be there is taken at the word.
            if learn.result_dst.is_some() {
                let why = format!("the limit of {} entries was reached", learn.limit);
                return self.not_learned(table, learn.cookie, &why);
            }
            let learned = self.flows.iter(table).filter(|(_, f)| f.cookie == learn.cookie).count();
            if learned >= learn.limit as usize {
                let why = format!("the limit of {} entries is reached", learn.limit);
                return self.not_learned(table, learn.cookie, &why);
            }
        }
        let asked = learn.result_dst.is_some().then(|| request.clone());
        if let Err(refusal) = self.flow_mod(request) {
            asked.iter().for_each(|request| admission.settle(&learn, request));
            self.not_learned(table, learn.cookie, &refusal.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{LearnSpec, Subfield};

    #[test]
    fn parts_become_match_and_actions() {
        let of = |field, offset| Subfield { field, offset };
        let spec = |bits, from, to| LearnSpec { bits, from, to };
        let learn = Learn {
            idle_timeout: 1,
            hard_timeout: 2,
            priority: 3,
            cookie: 4,
            send_flow_rem: true,
            table_id: TableId(5),
            specs: vec![
                spec(16, LearnSource::Value(0x800), LearnTarget::Match(of(FieldId::EthType, 0))),
                spec(
                    48,
                    LearnSource::Field(of(FieldId::EthSrc, 0)),
                    LearnTarget::Match(of(FieldId::EthDst, 0)),
                ),
                spec(
                    12,
                    LearnSource::Field(of(FieldId::VlanVid, 0)),
                    LearnTarget::Match(of(FieldId::VlanVid, 0)),
                ),
                spec(
                    16,
                    LearnSource::Field(of(FieldId::InPort, 0)),
                    LearnTarget::Load(of(FieldId::Reg0, 16)),
                ),
                spec(16, LearnSource::Field(of(FieldId::InPort, 0)), LearnTarget::Output),
            ],
            ..Learn::default()
        };
        let made = entry(&learn, [0x0200_0000_0001, 100, 7, 7].into_iter());
        let mut matching =
            Match::new().with(FieldId::EthType, 0x800).with(FieldId::EthDst, 0x0200_0000_0001);
        matching.set_masked(FieldId::VlanVid, 100, 0xfff);
        assert_eq!(made.matching, matching);
        let load = SetField { field: FieldId::Reg0, value: 7 << 16, mask: Some(0xffff_0000) };
        let actions = vec![Action::SetField(load), Action::output(PortNo(7))];
        assert_eq!(made.instructions[..], [Instruction::ApplyActions(actions)]);
        assert_eq!((made.table_id, made.priority, made.cookie), (TableId(5), 3, 4));
        assert_eq!((made.idle_timeout, made.hard_timeout), (1, 2));
        assert!(made.flags.contains(FlowModFlags::SEND_FLOW_REM));
    }
}
