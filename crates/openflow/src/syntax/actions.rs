//! Actions and instructions.
//!
//! What stands outside other instructions is applied at once. Instructions come in the order in
//! which they take effect (meter, actions, `clear_actions`, `write_actions`, `write_metadata`,
//! `goto_table`), each at most once; another order is refused, as by `ovs-ofctl`.

mod learn;
pub(super) mod print;
mod subfield;

use self::learn::learn;
use self::print::REASONS;
use self::subfield::{bits, settable_bits, subfield};
use super::context::Context;
use super::error::{Fault, nearest};
use super::piece::{Piece, Result, Word, Words};
use super::value;
use crate::action::{
    Action, CopyField, ExperimenterAction, ExperimenterInstruction, Instruction, Instructions,
    SetField, StatTrigger, StatTriggerFlags, Subfield,
};
use crate::extension::{
    Bits, BundleAlgorithm, Conjunction, Conntrack, FinTimeout, HashAlgorithm, HashFields,
    Multipath, Nat, NatRange, NatSide, PortBundle, ToController, Zone,
};
use crate::field::FieldId;
use crate::ids::{Age, GroupId, MeterId, PortNo, QueueId, TableId};
use crate::packet::PacketInReason;
use crate::softflow::{ElementName, Softflow};
use crate::version::Version;

/// Every word of actions and instructions, with the first version that has it.
pub(super) const WORDS: &[(&str, Version)] = &[
    ("output", Version::V10),
    ("controller", Version::V10),
    ("in_port", Version::V10),
    ("normal", Version::V10),
    ("flood", Version::V10),
    ("all", Version::V10),
    ("local", Version::V10),
    ("table", Version::V10),
    ("drop", Version::V10),
    ("enqueue", Version::V10),
    ("mod_vlan_vid", Version::V10),
    ("mod_vlan_pcp", Version::V10),
    ("strip_vlan", Version::V10),
    ("mod_dl_src", Version::V10),
    ("mod_dl_dst", Version::V10),
    ("mod_nw_src", Version::V10),
    ("mod_nw_dst", Version::V10),
    ("mod_nw_tos", Version::V10),
    ("mod_tp_src", Version::V10),
    ("mod_tp_dst", Version::V10),
    ("set_field", Version::V10),
    ("experimenter", Version::V10),
    ("pop_vlan", Version::V10),
    ("group", Version::V10),
    ("set_queue", Version::V10),
    ("push_vlan", Version::V13),
    ("push_mpls", Version::V10),
    ("pop_mpls", Version::V10),
    ("push_pbb", Version::V13),
    ("pop_pbb", Version::V13),
    ("mod_nw_ecn", Version::V10),
    ("mod_nw_ttl", Version::V10),
    ("dec_ttl", Version::V10),
    ("set_mpls_label", Version::V10),
    ("set_mpls_tc", Version::V10),
    ("set_mpls_ttl", Version::V10),
    ("dec_mpls_ttl", Version::V10),
    ("move", Version::V10),
    ("load", Version::V10),
    ("note", Version::V10),
    ("resubmit", Version::V10),
    ("learn", Version::V10),
    ("push", Version::V10),
    ("pop", Version::V10),
    ("check_pkt_larger", Version::V10),
    ("multipath", Version::V10),
    ("bundle", Version::V10),
    ("bundle_load", Version::V10),
    ("clone", Version::V10),
    ("pop_queue", Version::V10),
    ("set_tunnel", Version::V10),
    ("set_tunnel64", Version::V10),
    ("fin_timeout", Version::V10),
    ("ct", Version::V10),
    ("ct_clear", Version::V10),
    ("exit", Version::V10),
    ("conjunction", Version::V10),
    ("softflow", Version::V10),
    ("copy_ttl_in", Version::V13),
    ("copy_ttl_out", Version::V13),
    ("meter", Version::V13),
    ("clear_actions", Version::V13),
    ("stat_trigger", Version::V15),
    ("write_actions", Version::V13),
    ("write_metadata", Version::V13),
    ("goto_table", Version::V13),
    ("experimenter_instruction", Version::V13),
];

/// Words of Open vSwitch's extensions.
const EXTENSIONS: &[&str] = &[
    "debug_recirc",
    "debug_slow",
    "dec_nsh_ttl",
    "decap",
    "delete_field",
    "encap",
    "sample",
    "unroll_xlate",
];

const ORDER: &[&str] =
    &["meter", "actions", "clear_actions", "write_actions", "write_metadata", "goto_table"];

/// Reads what follows `actions=`: actions and instructions.
///
/// # Errors
/// The first word that is wrong, or that the version cannot say.
pub fn parse_actions(text: &str, cx: &Context<'_>) -> Result<Instructions> {
    instructions(Piece::line(text), cx)
}

/// What a word says.
enum Said {
    Action(Action),
    Instruction(Instruction),
    /// Nothing else may stand beside it.
    Drop,
}

/// Reads instructions.
pub(super) fn instructions(piece: Piece<'_>, cx: &Context<'_>) -> Result<Instructions> {
    let mut words = Words::of(piece);
    let mut list = Instructions::new();
    let mut dropped: Option<Piece<'_>> = None;
    let mut last = 0;
    while let Some(word) = words.next()? {
        if let Some(drop) = dropped {
            return Err(drop.refused("it must stand alone"));
        }
        let said = one(&word, cx)?;
        let rank = match &said {
            Said::Drop if list.is_empty() => {
                dropped = Some(word.key);
                continue;
            }
            Said::Drop => return Err(word.key.refused("it must stand alone")),
            Said::Action(_) => 1,
            Said::Instruction(instruction) => match instruction {
                Instruction::Meter(_) => 0,
                Instruction::ApplyActions(_) => 1,
                Instruction::ClearActions => 2,
                Instruction::WriteActions(_) => 3,
                Instruction::WriteMetadata { .. } => 4,
                Instruction::GotoTable(_) => 5,
                // No place is laid down for these.
                Instruction::StatTrigger(_) | Instruction::Experimenter(_) => last,
            },
        };
        if rank < last {
            return Err(word.key.refused(format!("it must come before `{}`", ORDER[last])));
        }
        let applied = list.iter().any(|i| matches!(i, Instruction::ApplyActions(_)));
        match (said, list.last_mut()) {
            (Said::Action(action), Some(Instruction::ApplyActions(actions))) => {
                action.spread(|one| actions.push(one));
            }
            (Said::Action(_), _) if applied => {
                return Err(word.key.refused("the actions must stand side by side"));
            }
            (Said::Action(action), _) => {
                let mut actions = Vec::new();
                action.spread(|one| actions.push(one));
                list.push(Instruction::ApplyActions(actions));
            }
            (Said::Instruction(instruction), _) => {
                let same = |i: &Instruction| i.instruction_type() == instruction.instruction_type();
                if list.iter().any(same) {
                    return Err(word.key.error(Fault::Twice));
                }
                list.push(instruction);
            }
            (Said::Drop, _) => {}
        }
        last = rank;
    }
    Ok(list)
}

/// Reads actions where no instruction may stand: in `write_actions(...)`.
fn actions(piece: Piece<'_>, cx: &Context<'_>) -> Result<Vec<Action>> {
    let mut words = Words::of(piece);
    let mut list = Vec::new();
    while let Some(word) = words.next()? {
        action(&word, cx, &mut list)?;
    }
    Ok(list)
}

/// Reads one action where no instruction may stand, and adds it to a list. False for `drop`.
pub(super) fn action(word: &Word<'_>, cx: &Context<'_>, list: &mut Vec<Action>) -> Result<bool> {
    // Looked at before it is read, so that instructions do not nest.
    let meters = cx.version >= Version::V15 && word.key.is("meter");
    let unordered = ["experimenter_instruction", "stat_trigger"];
    if !meters && ORDER.iter().chain(&unordered).any(|w| word.key.is(w)) {
        return Err(word.key.refused("an instruction, where only actions may stand"));
    }
    let said = one(word, cx)?;
    let is_action = matches!(said, Said::Action(_));
    if let Said::Action(action) = said {
        action.spread(|one| list.push(one));
    }
    Ok(is_action)
}

fn one(word: &Word<'_>, cx: &Context<'_>) -> Result<Said> {
    let key = word.key;
    let Some((name, since)) = WORDS.iter().find(|(name, _)| key.is(name)) else {
        if EXTENSIONS.iter().any(|e| key.is(e)) {
            return Err(word.extension());
        }
        if key.is("apply_actions") {
            return Err(key.refused(
                "actions outside other instructions are applied at once; leave the word out",
            ));
        }
        let number = key.text.starts_with(|c: char| c.is_ascii_digit());
        let port = if number { Some(key.port(cx)?) } else { key.port_name(cx) };
        if let Some(port) = port {
            word.bare()?;
            return Ok(Said::Action(Action::output(port)));
        }
        let nearest = nearest(key.text, WORDS.iter().map(|(name, _)| *name));
        return Err(key.error(Fault::Unknown { what: "action", nearest }));
    };
    if *since > cx.version {
        return Err(word.not_in(cx.version, "action"));
    }
    if let Some(instruction) = instruction(name, word, cx)? {
        return Ok(Said::Instruction(instruction));
    }
    let set = |field, value: u64| Action::set_field(field, value.into());
    let port = |port| {
        word.bare()?;
        Ok(Action::output(port))
    };
    let plain = |action| {
        word.bare()?;
        Ok(action)
    };
    let action = match *name {
        "drop" => {
            word.bare()?;
            return Ok(Said::Drop);
        }
        "output" => output(word, cx),
        "controller" => controller(word),
        "in_port" => port(PortNo::IN_PORT),
        "normal" => port(PortNo::NORMAL),
        "flood" => port(PortNo::FLOOD),
        "all" => port(PortNo::ALL),
        "local" => port(PortNo::LOCAL),
        "table" => port(PortNo::TABLE),
        "enqueue" => enqueue(word, cx),
        "set_queue" => Ok(Action::SetQueue(QueueId(word.arg()?.u32()?))),
        "group" => Ok(Action::Group(GroupId(word.arg()?.u32()?))),
        "mod_vlan_vid" => Ok(Action::SetVlanVid(word.arg()?.number(12)? as u16)),
        "mod_vlan_pcp" => Ok(Action::SetVlanPcp(word.arg()?.number(3)? as u8)),
        "strip_vlan" | "pop_vlan" => plain(Action::PopVlan),
        "push_vlan" => pushed(word, &[0x8100, 0x88a8]).map(Action::PushVlan),
        "push_mpls" => pushed(word, &[0x8847, 0x8848]).map(Action::PushMpls),
        "push_pbb" => pushed(word, &[0x88e7]).map(Action::PushPbb),
        "pop_mpls" => Ok(Action::PopMpls(word.arg()?.u16()?)),
        "pop_pbb" => plain(Action::PopPbb),
        "mod_dl_src" => exact(word.arg()?, FieldId::EthSrc, cx),
        "mod_dl_dst" => exact(word.arg()?, FieldId::EthDst, cx),
        "mod_nw_src" => Ok(Action::SetNwSrc(value::ipv4(word.arg()?)?)),
        "mod_nw_dst" => Ok(Action::SetNwDst(value::ipv4(word.arg()?)?)),
        "mod_nw_tos" => match word.arg()?.u8()? {
            tos if tos & 3 == 0 => Ok(Action::SetNwTos(tos)),
            _ => Err(word.arg()?.expected("a type of service whose two low bits are 0")),
        },
        "mod_nw_ecn" => Ok(set(FieldId::IpEcn, word.arg()?.number(2)?)),
        "mod_nw_ttl" => Ok(Action::SetNwTtl(word.arg()?.u8()?)),
        "mod_tp_src" => Ok(Action::SetTpSrc(word.arg()?.u16()?)),
        "mod_tp_dst" => Ok(Action::SetTpDst(word.arg()?.u16()?)),
        "set_mpls_label" => Ok(set(FieldId::MplsLabel, word.arg()?.number(20)?)),
        "set_mpls_tc" => Ok(set(FieldId::MplsTc, word.arg()?.number(3)?)),
        "set_mpls_ttl" => Ok(Action::SetMplsTtl(word.arg()?.u8()?)),
        "dec_mpls_ttl" => plain(Action::DecMplsTtl),
        "dec_ttl" => match word.value {
            // As `ovs-ofctl` takes `dec_ttl()`.
            Some(ids) if !ids.text.is_empty() => {
                let ids = ids.text.split(',').map(|id| id.trim().parse().ok());
                let ids: Option<Vec<u16>> = ids.collect();
                ids.map(Action::DecNwTtlTo)
                    .ok_or_else(|| word.key.expected("`dec_ttl(ID,ID...)`, ids from 0 to 65535"))
            }
            _ => plain(Action::DecNwTtl),
        },
        // From 1.5 on; before it is an instruction.
        "meter" => Ok(Action::Meter(MeterId(word.arg()?.u32()?))),
        "move" => moved(word),
        "load" => loaded(word),
        "note" => note(word),
        "resubmit" => resubmit(word, cx),
        "learn" => learn(word, cx),
        "push" => bits(word.arg()?).map(Action::StackPush),
        "pop" => settable_bits(word.arg()?).map(Action::StackPop),
        "check_pkt_larger" => larger(word),
        "multipath" => multipath(word),
        "bundle" | "bundle_load" => bundle(word, cx),
        "clone" => cloned(word, cx),
        "ct" => conntrack(word, cx),
        "ct_clear" => plain(Action::CtClear),
        "exit" => plain(Action::Exit),
        "pop_queue" => plain(Action::PopQueue),
        "set_tunnel" | "set_tunnel64" => Ok(set(FieldId::TunnelId, word.arg()?.number(64)?)),
        "fin_timeout" => fin_timeout(word),
        "conjunction" => conjunction(word),
        "softflow" => softflow(word),
        "copy_ttl_in" => plain(Action::CopyTtlIn),
        "copy_ttl_out" => plain(Action::CopyTtlOut),
        "experimenter" => {
            let (experimenter, data) = experimenter(word)?;
            Ok(Action::Experimenter(Box::new(ExperimenterAction { experimenter, data })))
        }
        // `set_field`; every other word of the list is above.
        _ => set_field(word, cx),
    };
    action.map(Said::Action)
}

fn instruction(name: &str, word: &Word<'_>, cx: &Context<'_>) -> Result<Option<Instruction>> {
    Ok(Some(match name {
        "meter" if cx.version < Version::V15 => Instruction::Meter(MeterId(word.arg()?.u32()?)),
        "goto_table" => Instruction::GotoTable(TableId(word.arg()?.u8()?)),
        "clear_actions" => {
            word.bare()?;
            Instruction::ClearActions
        }
        "write_actions" => match word.value {
            Some(list) => Instruction::WriteActions(actions(list, cx)?),
            None => return Err(word.key.refused("its actions follow in parentheses")),
        },
        "write_metadata" => {
            let arg = word.arg()?;
            let (value, mask) = match arg.split_once("/") {
                Some((value, mask)) if mask.text == "-1" => (value.number(64)?, u64::MAX),
                Some((value, mask)) => (value.number(64)?, mask.number(64)?),
                None => (arg.number(64)?, u64::MAX),
            };
            Instruction::WriteMetadata { value, mask }
        }
        "stat_trigger" => Instruction::StatTrigger(Box::new(stat_trigger(word)?)),
        "experimenter_instruction" => {
            let (experimenter, data) = experimenter(word)?;
            let experimenter = ExperimenterInstruction { experimenter, data };
            Instruction::Experimenter(Box::new(experimenter))
        }
        _ => return Ok(None),
    }))
}

fn output(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
    let arg = word.arg()?;
    // To what a field says.
    if arg.text.contains('[') {
        return Ok(Action::OutputField { from: bits(arg)?, max_len: Action::NO_BUFFER });
    }
    if arg.text.contains('=') {
        return truncated(word, arg, cx);
    }
    let port = arg.port(cx).map(Action::output);
    // A whole field, by its name alone.
    match port.is_err() && !arg.text.starts_with(|c: char| c.is_ascii_digit()) {
        true => match bits(arg) {
            Ok(from) => Ok(Action::OutputField { from, max_len: Action::NO_BUFFER }),
            Err(_) => port,
        },
        false => port,
    }
}

/// `output(port=PORT,max_len=BYTES)`.
fn truncated(word: &Word<'_>, arg: Piece<'_>, cx: &Context<'_>) -> Result<Action> {
    let (mut port, mut max_len) = (None, None);
    let mut words = Words::of(arg);
    while let Some(option) = words.next()? {
        match option.key.text {
            "port" => {
                let to = option.arg()?;
                port = Some(to.port(cx)?);
                if !port.is_some_and(PortNo::takes_truncated) {
                    return Err(to.expected("an ordinary port, IN_PORT or LOCAL"));
                }
            }
            "max_len" => {
                let bytes = option.arg()?;
                max_len = Some(bytes.u32()?);
                if max_len < Some(Action::TRUNCATED_MIN) {
                    return Err(bytes.expected("14 bytes, an Ethernet header, or more"));
                }
            }
            name => {
                let nearest = nearest(name, ["port", "max_len"]);
                let fault = Fault::Unknown { what: "option of `output`", nearest };
                return Err(option.key.error(fault));
            }
        }
    }
    match (port, max_len) {
        (Some(port), Some(max_len)) => Ok(Action::OutputTruncated { port, max_len }),
        _ => Err(word.key.expected("`output(port=PORT,max_len=BYTES)`")),
    }
}

/// `fin_timeout(idle_timeout=N,hard_timeout=N)`, either or both.
fn fin_timeout(word: &Word<'_>) -> Result<Action> {
    let mut fin = FinTimeout::default();
    let Some(options) = word.value else {
        let right = "`fin_timeout(idle_timeout=SECONDS,hard_timeout=SECONDS)`";
        return Err(word.key.expected(right));
    };
    let mut words = Words::of(options);
    while let Some(option) = words.next()? {
        match option.key.text {
            "idle_timeout" => fin.idle_timeout = option.arg()?.u16()?,
            "hard_timeout" => fin.hard_timeout = option.arg()?.u16()?,
            name => {
                let nearest = nearest(name, ["idle_timeout", "hard_timeout"]);
                let fault = Fault::Unknown { what: "option of `fin_timeout`", nearest };
                return Err(option.key.error(fault));
            }
        }
    }
    Ok(Action::FinTimeout(fin))
}

/// `controller`, `controller:N`, `controller(max_len=N)`.
fn controller(word: &Word<'_>) -> Result<Action> {
    let mut max_len = Action::NO_BUFFER;
    let (mut why, mut id, mut userdata) = (PacketInReason::Action, 0, Vec::new());
    let (mut meter, mut pause) = (None, false);
    match word.value {
        Some(options) if word.parenthesised() => {
            let mut words = Words::of(options);
            while let Some(option) = words.next()? {
                match option.key.text {
                    "max_len" => max_len = option.arg()?.u16()?,
                    "id" => id = option.arg()?.u16()?,
                    "reason" => {
                        let known = REASONS.iter().find(|(name, _)| option.value_is(name));
                        match known {
                            Some((_, reason)) => why = *reason,
                            None => {
                                let names: Vec<_> = REASONS.iter().map(|(name, _)| *name).collect();
                                return Err(option.arg()?.expected(names.join(", ")));
                            }
                        }
                    }
                    "userdata" => userdata = dotted(option.arg()?)?,
                    "meter_id" => {
                        meter = Some(MeterId(option.arg()?.u32()?)).filter(|meter| meter.0 != 0);
                    }
                    "pause" => {
                        option.bare()?;
                        pause = true;
                    }
                    name => {
                        let known = ["max_len", "reason", "id", "userdata", "meter_id", "pause"];
                        let nearest = nearest(name, known);
                        let fault = Fault::Unknown { what: "option of `controller`", nearest };
                        return Err(option.key.error(fault));
                    }
                }
            }
        }
        Some(_) => max_len = word.arg()?.u16()?,
        None => {}
    }
    let to = ToController { max_len, reason: why, id, userdata, meter, pause };
    match to.is_output() {
        true => Ok(Action::Output { port: PortNo::CONTROLLER, max_len }),
        false => Ok(Action::Controller(to)),
    }
}

/// `stat_trigger(packets=N,bytes=N,duration=SECONDS,idle=SECONDS,periodic,only_first)`.
fn stat_trigger(word: &Word<'_>) -> Result<StatTrigger> {
    let mut trigger = StatTrigger::default();
    let to = &mut trigger.thresholds;
    let Some(list) = word.value else {
        return Err(word.key.expected("`stat_trigger(packets=N,...)`"));
    };
    let mut words = Words::of(list);
    while let Some(word) = words.next()? {
        match word.key.text {
            "packets" => to.packets = Some(word.arg()?.number(64)?),
            "bytes" => to.bytes = Some(word.arg()?.number(64)?),
            "duration" => to.duration = Some(seconds(word.arg()?)?),
            "idle" => to.idle = Some(seconds(word.arg()?)?),
            "periodic" => trigger.flags |= StatTriggerFlags::PERIODIC,
            "only_first" => trigger.flags |= StatTriggerFlags::ONLY_FIRST,
            _ => {
                let right = "`packets`, `bytes`, `duration`, `idle`, `periodic` or `only_first`";
                return Err(word.key.expected(right));
            }
        }
    }
    Ok(trigger)
}

/// Seconds with up to nine decimals.
fn seconds(arg: Piece<'_>) -> Result<Age> {
    let wrong = || arg.expected("seconds, such as `5` or `0.25`");
    let (whole, part) = match arg.split_once(".") {
        Some((whole, part)) => (whole, part.text),
        None => (arg, "0"),
    };
    if part.is_empty() || part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let nsec = format!("{part:0<9}").parse().map_err(|_| wrong())?;
    Ok(Age { sec: whole.u32()?, nsec })
}

/// `check_pkt_larger(BYTES)->FIELD[BIT]`.
fn larger(word: &Word<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let Some((bytes, to)) = arg.split_once("->") else {
        return Err(arg.expected("`check_pkt_larger(BYTES)->FIELD[BIT]`"));
    };
    let bytes = bytes.strip(&['(', ')']);
    let Bits { of: to, count: 1 } = settable_bits(to)? else {
        return Err(to.expected("one bit"));
    };
    Ok(Action::CheckPktLarger { bytes: bytes.u16()?, to })
}

/// `multipath(FIELDS,BASIS,ALGORITHM,LINKS,ARG,FIELD[BITS])`.
fn multipath(word: &Word<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let wrong = || arg.expected("`multipath(FIELDS,BASIS,ALGORITHM,LINKS,ARG,FIELD[BITS])`");
    let mut rest = Some(arg);
    let mut next = || -> Result<Piece<'_>> {
        let piece = rest.take().ok_or_else(wrong)?;
        Ok(match piece.split_once(",") {
            Some((first, others)) => {
                rest = Some(others);
                first.trim()
            }
            None => piece.trim(),
        })
    };
    let (fields, basis, algorithm) = (next()?, next()?, next()?);
    let (links, value, to) = (next()?, next()?, next()?);
    let found = HashFields::ALL.iter().find(|(_, name)| fields.is(name));
    let (hashed, _) = *found.ok_or_else(|| fields.expected("fields that can be hashed"))?;
    let found = HashAlgorithm::ALL.iter().find(|(_, name)| algorithm.is(name));
    let (how, _) = *found.ok_or_else(|| algorithm.expected("`modulo_n` or `hash_threshold`"))?;
    let count = links.u32()?;
    let to = settable_bits(to)?;
    let most = (1u64 << to.count.min(16)).min(65_536);
    if count == 0 || u64::from(count) > most {
        return Err(links.expected(format!("1 to {most} links")));
    }
    Ok(Action::Multipath(Box::new(Multipath {
        fields: hashed,
        basis: basis.u16()?,
        algorithm: how,
        max_link: (count - 1) as u16,
        arg: value.u32()?,
        to,
    })))
}

/// `bundle(FIELDS,BASIS,ALGORITHM,ofport,members:PORT...)`; `bundle_load` has `FIELD[BITS]` before the
/// members, which may also be called `slaves`.
fn bundle(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let load = word.key.is("bundle_load");
    let (head, members) = match arg.split_once("members:") {
        Some(parts) => parts,
        None => arg.split_once("slaves:").ok_or_else(|| {
            arg.expected("`FIELDS,BASIS,ALGORITHM,ofport,members:PORT...` in parentheses")
        })?,
    };
    let head = head.list();
    let (&[fields, basis, algorithm, kind], to) = match (load, head.as_slice()) {
        (false, [a, b, c, d]) => (&[*a, *b, *c, *d], None),
        (true, [a, b, c, d, to]) => (&[*a, *b, *c, *d], Some(settable_bits(*to)?)),
        _ => {
            let to = if load { ",FIELD[BITS]" } else { "" };
            return Err(arg.expected(format!("FIELDS,BASIS,ALGORITHM,ofport{to},members:PORT...")));
        }
    };
    let found = HashFields::ALL.iter().find(|(_, name)| fields.is(name));
    let (hashed, _) = *found.ok_or_else(|| fields.expected("fields that can be hashed"))?;
    let found = BundleAlgorithm::ALL.iter().find(|(_, name)| algorithm.is(name));
    let (how, _) = *found.ok_or_else(|| algorithm.expected("`active_backup` or `hrw`"))?;
    if !kind.is("ofport") {
        return Err(kind.expected("`ofport`"));
    }
    if to.is_some_and(|to| to.count < 16) {
        return Err(arg.refused("a port's number has 16 bits"));
    }
    let ports = members.list();
    if !(1..=PortBundle::MEMBERS_MAX).contains(&ports.len()) {
        return Err(members.expected(format!("1 to {} members", PortBundle::MEMBERS_MAX)));
    }
    let member = |piece: &Piece<'_>| match piece.port(cx)? {
        port if port.to_v10().is_some() => Ok(port),
        _ => Err(piece.expected("a port of 16 bits")),
    };
    let members = ports.iter().map(member).collect::<Result<_>>()?;
    let basis = basis.u16()?;
    Ok(Action::Bundle(Box::new(PortBundle { fields: hashed, basis, algorithm: how, members, to })))
}

/// `clone(ACTIONS)`.
fn cloned(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
    let list = match word.value {
        Some(list) if word.parenthesised() => list,
        _ => return Err(word.key.refused("its actions follow in parentheses")),
    };
    // No deeper than they may be, whatever else has parentheses.
    let mut depth = 0;
    let most = list.text.chars().fold(0, |most, c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        most.max(depth)
    });
    if most >= Action::CLONE_DEPTH_MAX as i32 {
        let max = Action::CLONE_DEPTH_MAX;
        return Err(word.key.refused(format!("at most {max} of them stand inside each other")));
    }
    actions(list, cx).map(Action::Clone)
}

/// `ct(commit,force,table=N,zone=N,nat(...),exec(...))`, in any order, each at most once.
fn conntrack(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
    let mut ct = Conntrack {
        commit: false,
        force: false,
        zone: Zone::Number(0),
        table: None,
        nat: None,
        alg: 0,
        exec: Vec::new(),
    };
    let options = match word.value {
        None => return Ok(Action::Ct(Box::new(ct))),
        Some(options) if word.parenthesised() => options,
        Some(_) => return Err(word.key.expected("`ct(OPTIONS)`")),
    };
    let mut depth = 0;
    let most = options.text.chars().fold(0, |most, c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        most.max(depth)
    });
    if most > 2 {
        return Err(word.key.refused("no such action stands inside of another"));
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut words = Words::of(options);
    while let Some(option) = words.next()? {
        let key = option.key;
        if seen.contains(&key.text) {
            return Err(key.error(Fault::Twice));
        }
        seen.push(key.text);
        match key.text {
            "commit" => {
                option.bare()?;
                ct.commit = true;
            }
            "force" => {
                option.bare()?;
                ct.force = true;
            }
            "table" => match option.arg()?.u8()? {
                255 => return Err(option.arg()?.expected("a table from 0 to 254")),
                table => ct.table = Some(TableId(table)),
            },
            "zone" => {
                let arg = option.arg()?;
                ct.zone = match arg.text.starts_with(|c: char| c.is_ascii_digit()) {
                    true => Zone::Number(arg.u16()?),
                    false => match bits(arg)? {
                        bits if bits.count <= 16 => Zone::Field(bits),
                        _ => return Err(arg.expected("at most 16 bits of a field")),
                    },
                };
            }
            "nat" => ct.nat = Some(nat(&option)?),
            "exec" => match option.value {
                Some(list) => {
                    let list = actions(list, cx)?;
                    let fine = |action: &Action| match action {
                        Action::SetField(set) => set.field.is_of_connection(),
                        Action::CopyField(copy) => copy.to.field.is_of_connection(),
                        _ => false,
                    };
                    if !list.iter().all(fine) || list.len() > Conntrack::EXEC_MAX {
                        let right = "set_field, load and move of ct_mark and ct_label, at most 64";
                        return Err(key.expected(right));
                    }
                    ct.exec = list;
                }
                None => return Err(key.refused("its actions follow in parentheses")),
            },
            "alg" => {
                let known = Conntrack::ALGS.iter().find(|(name, _)| option.value_is(name));
                let Some((_, number)) = known else {
                    return Err(option.arg()?.expected("`ftp` or `tftp`"));
                };
                ct.alg = *number;
            }
            name => {
                let known = ["commit", "force", "table", "zone", "nat", "alg", "exec"];
                let nearest = nearest(name, known);
                return Err(key.error(Fault::Unknown { what: "option of `ct`", nearest }));
            }
        }
    }
    if !ct.commit && (ct.force || !ct.exec.is_empty() || ct.nat.is_some_and(Nat::is_of_new)) {
        return Err(word
            .key
            .refused("force, exec and a new translation need `commit` beside them"));
    }
    Ok(Action::Ct(Box::new(ct)))
}

/// `nat`, `nat(src=A[-B][:P[-Q]],OPTIONS)`, `nat(src)`; IPv6 addresses with ports stand in brackets.
fn nat(word: &Word<'_>) -> Result<Nat> {
    let Some(options) = word.value else { return Ok(Nat::Existing) };
    let (mut range, mut flags) = (None, 0);
    let mut words = Words::of(options);
    while let Some(option) = words.next()? {
        let side = match option.key.text {
            "src" => NatSide::Source,
            "dst" => NatSide::Destination,
            name => match NatRange::FLAGS.iter().find(|(word, _)| *word == name) {
                Some((_, bit)) => {
                    option.bare()?;
                    flags |= bit;
                    continue;
                }
                None => {
                    let nearest = nearest(name, ["src", "dst", "persistent", "hash", "random"]);
                    let fault = Fault::Unknown { what: "option of `nat`", nearest };
                    return Err(option.key.error(fault));
                }
            },
        };
        if range.is_some() {
            return Err(option.key.error(Fault::Twice));
        }
        range = Some((side, option.value.map(|_| option.arg()).transpose()?));
    }
    let (side, arg) = match range {
        Some((side, Some(arg))) => (side, arg),
        Some((side, None)) if NatRange::are_flags(flags) => {
            return Ok(Nat::Unranged { side, flags });
        }
        None if flags == 0 && options.text.is_empty() => return Ok(Nat::Existing),
        _ => return Err(word.key.expected("`nat(src=ADDRESS)`, `nat(dst=ADDRESS)` or `nat(src)`")),
    };
    let wrong = || arg.expected("addresses FIRST[-LAST] and ports [:FIRST[-LAST]], in order");
    let text = arg.text;
    let (addresses, ports) = if text.starts_with('[') {
        let end = text.rfind(']').ok_or_else(wrong)?;
        let rest = &text[end + 1..];
        let ports =
            if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(wrong)?) };
        (&text[..=end], ports)
    } else if text.contains('.') && !text.contains("::") {
        match text.split_once(':') {
            Some((addresses, ports)) => (addresses, Some(ports)),
            None => (text, None),
        }
    } else {
        (text, None)
    };
    let pair = |text: &str| match text.split_once('-') {
        Some((first, last)) => (first.to_string(), last.to_string()),
        None => (text.to_string(), text.to_string()),
    };
    let address = |text: String| text.trim_matches(['[', ']']).parse().map_err(|_| wrong());
    let (first, last) = pair(addresses);
    let (first, last) = (address(first)?, address(last)?);
    let ports = match ports {
        None => None,
        Some(ports) => {
            let port = |text: String| text.parse::<u16>().map_err(|_| wrong());
            let (first, last) = pair(ports);
            Some((port(first)?, port(last)?))
        }
    };
    let range = NatRange { side, first, last, ports, flags };
    if range.is_sound() { Ok(Nat::New(range)) } else { Err(wrong()) }
}

/// `conjunction(ID,K/N)`, K from 1 on.
fn conjunction(word: &Word<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let wrong = || arg.expected("`conjunction(ID,K/N)`, K from 1 to N, N from 2 to 64");
    let (id, place) = arg.split_once(",").ok_or_else(wrong)?;
    let (k, n) = place.split_once("/").ok_or_else(wrong)?;
    let (id, k, n) = (id.trim().u32()?, k.trim().u8()?, n.trim().u8()?);
    let dimension = k.checked_sub(1).ok_or_else(wrong)?;
    let conjunction = Conjunction { id, dimension, dimensions: n };
    if conjunction.is_sound() { Ok(Action::Conjunction(conjunction)) } else { Err(wrong()) }
}

/// `softflow(NAME)` or `softflow(NAME,ARG)`.
fn softflow(word: &Word<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let (name, argument) = match arg.split_once(",") {
        Some((name, argument)) => (name.trim(), argument.trim().u32()?),
        None => (arg.trim(), 0),
    };
    let name = ElementName::new(name.text).map_err(|e| name.expected(e.to_string()))?;
    Ok(Action::Softflow(Box::new(Softflow { name, argument })))
}

/// `enqueue:PORT:QUEUE`, `enqueue(PORT,QUEUE)`.
fn enqueue(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let Some((port, queue)) = arg.split_once(":").or_else(|| arg.split_once(",")) else {
        return Err(arg.expected("`enqueue:PORT:QUEUE`"));
    };
    Ok(Action::Enqueue { port: port.trim().port(cx)?, queue: QueueId(queue.trim().u32()?) })
}

fn pushed(word: &Word<'_>, allowed: &[u16]) -> Result<u16> {
    let arg = word.arg()?;
    let eth_type = arg.u16()?;
    if allowed.contains(&eth_type) {
        return Ok(eth_type);
    }
    let allowed: Vec<_> = allowed.iter().map(|t| format!("{t:#06x}")).collect();
    Err(arg.expected(allowed.join(" or ")))
}

/// The whole of a field.
fn exact(arg: Piece<'_>, field: FieldId, cx: &Context<'_>) -> Result<Action> {
    match value::parse(field, arg, cx)? {
        (value, mask) if mask == field.all_bits() => Ok(Action::set_field(field, value)),
        _ => Err(arg.refused(format!("it takes no mask; set_field:VALUE/MASK->{field} does"))),
    }
}

/// A field, or bits of it: a version without masks says it by Nicira's load.
fn masked(arg: Piece<'_>, field: FieldId, cx: &Context<'_>) -> Result<Action> {
    let (value, mask) = value::parse(field, arg, cx)?;
    let mask = (mask != field.all_bits()).then_some(mask);
    Ok(Action::SetField(SetField { field, value, mask }.narrowed()))
}

/// `set_field:VALUE->FIELD`.
fn set_field(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let Some((value, name)) = arg.split_once("->") else {
        return Err(arg.expected("`set_field:VALUE->FIELD`"));
    };
    if name.is("mpls_ttl") || name.text.contains('[') {
        return Err(name.error(Fault::Extension));
    }
    if name.is("nw_tos") {
        return match value.u8()? {
            tos if tos & 3 == 0 => Ok(Action::set_field(FieldId::IpDscp, (tos >> 2).into())),
            _ => Err(value.expected("a type of service whose two low bits are 0")),
        };
    }
    let Some(field) = FieldId::from_name(name.text) else {
        return Err(super::matches::unknown_field(name));
    };
    if field.is_of_connection() {
        return masked(value, field, cx);
    }
    if !field.info().settable {
        return Err(name.refused("no action may set this field"));
    }
    if field.info().since > cx.version && cx.version > Version::V10 {
        return Err(name.error(Fault::NotIn { version: cx.version, what: "field to set" }));
    }
    masked(value, field, cx)
}

/// `move:SRC[a..b]->DST[c..d]`.
fn moved(word: &Word<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let Some((from, to)) = arg.split_once("->") else {
        return Err(arg.expected("`move:SRC[BITS]->DST[BITS]`"));
    };
    let ((from, bits), (to, to_bits)) = (subfield(from)?, subfield(to)?);
    if bits != to_bits {
        return Err(arg.expected("as many bits on both sides"));
    }
    Ok(Action::CopyField(CopyField { bits, from, to }))
}

/// `load:VALUE->FIELD[a..b]`.
fn loaded(word: &Word<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let Some((value, to)) = arg.split_once("->") else {
        return Err(arg.expected("`load:VALUE->FIELD[BITS]`"));
    };
    let (Subfield { field, offset }, bits) = subfield(to)?;
    if !field.info().settable && !field.is_of_connection() {
        return Err(to.refused("no action may set this field"));
    }
    let value = u128::from(value.number(u32::from(bits).min(64))?);
    // Nicira's ingress ports have 16 bits.
    if field == FieldId::InPort && (offset, bits) == (0, 16) {
        return Ok(Action::set_field(field, PortNo::from_v10(value as u16).0.into()));
    }
    let mask = (u128::MAX >> (128 - u32::from(bits))) << offset;
    let mask = (mask != field.all_bits()).then_some(mask);
    Ok(Action::SetField(SetField { field, value: value << offset, mask }.narrowed()))
}

/// `note:XX.XX...`: bytes in hexadecimal, filled up with zeros to 6, 14, ... of them.
fn note(word: &Word<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let mut bytes = dotted(arg)?;
    bytes.resize((bytes.len() + 2).next_multiple_of(8) - 2, 0);
    Ok(Action::Note(bytes))
}

/// Bytes with dots between.
fn dotted(arg: Piece<'_>) -> Result<Vec<u8>> {
    let byte = |text: &str| u8::from_str_radix(text, 16).ok().filter(|_| text.len() == 2);
    let bytes: Option<Vec<u8>> = arg.text.split('.').map(byte).collect();
    bytes.ok_or_else(|| arg.expected("bytes of two hexadecimal digits with dots between"))
}

/// `resubmit:PORT`, `resubmit(PORT,TABLE)`, `resubmit(PORT,TABLE,ct)`; what is not said may be left out
/// in parentheses.
fn resubmit(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let (port, table) = match arg.split_once(",") {
        Some((port, rest)) => (port.trim(), Some(rest)),
        None => (arg, None),
    };
    let (table, ct) = match table.and_then(|table| table.split_once(",")) {
        Some((table, last)) if last.trim().is("ct") => (Some(table.trim()), true),
        Some((_, last)) => return Err(last.trim().expected("`ct`")),
        None => (table.map(Piece::trim), false),
    };
    let in_port = match port.text {
        "" => PortNo::IN_PORT,
        _ => port.port(cx)?,
    };
    let table = match table {
        Some(table) if !table.text.is_empty() => TableId(table.u8()?),
        _ => TableId::ALL,
    };
    Ok(Action::Resubmit { in_port, table, ct })
}

/// `experimenter:ID:BYTES`, the bytes in hexadecimal, a multiple of eight of them.
fn experimenter(word: &Word<'_>) -> Result<(u32, Vec<u8>)> {
    let arg = word.arg()?;
    let Some((id, bytes)) = arg.split_once(":") else {
        return Err(arg.expected(format!("`{}:ID:BYTES`", word.key.text)));
    };
    let data = bytes.hex_bytes()?;
    if data.len() % 8 != 0 {
        return Err(bytes.expected("a multiple of 8 bytes"));
    }
    Ok((id.u32()?, data))
}
