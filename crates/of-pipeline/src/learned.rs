//! The entry that a `learn` makes of a packet's values, and what became of such entries.

use openflow::field::VLAN_PRESENT;
use openflow::{
    Action, FieldId, FinTimeout, FlowMod, FlowModFlags, Instruction, Instructions, Learn,
    LearnSource, LearnTarget, Match, PortNo, SetField,
};
use switch::Switch;

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

/// The entry that a `learn` makes of these values, in the order of [`Learn::values`].
pub(crate) fn entry(learn: &Learn, mut values: impl Iterator<Item = u128>) -> FlowMod {
    let (matched, _) = learn.values();
    let matched: Vec<u128> = values.by_ref().take(matched.len()).collect();
    let mut matched = matched.into_iter();
    let mut matching = Match::new();
    let mut actions = Vec::new();
    for spec in &learn.specs {
        let value = match spec.from {
            LearnSource::Value(value) => value,
            LearnSource::Field(_) => match spec.to {
                LearnTarget::Match(_) => matched.next().unwrap_or(0),
                _ => values.next().unwrap_or(0),
            },
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

/// What became of `learn`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    /// Messages of packets that entries are to be learned from, since the agent took charge.
    pub messages: u64,
    /// Entries that were not learned, since the agent took charge.
    pub refused: u64,
    /// How many of them were told of in the log, and when it was last written.
    told: u64,
    told_ns: Option<u64>,
}

/// The log tells at most so often that entries are not learned.
const TELL_NS: u64 = 10_000_000_000;

impl Learning {
    /// An entry is not learned: it is counted, and the log tells the reason now and then.
    pub(crate) fn refuse(&mut self, switch: &Switch, table: u8, cookie: u64, why: &str) {
        switch.tally("learn_refused", 1);
        let now_ns = switch.now_ns();
        self.refused += 1;
        if self.told_ns.is_some_and(|then| now_ns.saturating_sub(then) < TELL_NS) {
            return;
        }
        let entries = self.refused - std::mem::replace(&mut self.told, self.refused);
        self.told_ns = Some(now_ns);
        tracing::warn!(table, cookie = format_args!("{cookie:#x}"), entries, why, "not learned");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{LearnSpec, Subfield, TableId};

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
