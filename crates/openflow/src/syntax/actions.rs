//! Actions and instructions.
//!
//! What stands outside other instructions is applied at once. Instructions come in the order in
//! which they take effect (meter, actions, `clear_actions`, `write_actions`, `write_metadata`,
//! `goto_table`), each at most once; another order is refused, as by `ovs-ofctl`.

use super::error::{Fault, nearest};
use super::matches::text;
use super::piece::{Piece, Result, Word, Words};
use super::{Context, value};
use crate::action::{
    Action, CopyField, ExperimenterAction, ExperimenterInstruction, Instruction, Instructions,
    SetField, StatTrigger, StatTriggerFlags, Subfield,
};
use crate::extension::{
    Bits, BundleAlgorithm, Conjunction, Conntrack, FinTimeout, HashAlgorithm, HashFields, Learn,
    LearnSource, LearnSpec, LearnTarget, Multipath, Nat, NatRange, NatSide, PortBundle,
    ToController, Zone,
};
use crate::field::FieldId;
use crate::ids::{Age, GroupId, MeterId, PortNo, QueueId, TableId};
use crate::packet::PacketInReason;
use crate::softflow::{ElementName, Softflow};
use crate::version::Version;
use std::fmt::{self, Write};

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

/// What a `controller` action may give as its reason.
const REASONS: [(&str, PacketInReason); 6] = [
    ("no_match", PacketInReason::NoMatch),
    ("action", PacketInReason::Action),
    ("invalid_ttl", PacketInReason::InvalidTtl),
    ("action_set", PacketInReason::ActionSet),
    ("group", PacketInReason::Group),
    ("packet_out", PacketInReason::PacketOut),
];

/// Bits of a field.
fn bits(arg: Piece<'_>) -> Result<Bits> {
    subfield(arg).map(|(of, count)| Bits { of, count })
}

/// Bits of a field that actions may write.
fn settable_bits(arg: Piece<'_>) -> Result<Bits> {
    let bits = bits(arg)?;
    if bits.of.field.info().settable {
        Ok(bits)
    } else {
        Err(arg.refused("no action may set this field"))
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

fn print_ct(out: &mut dyn Write, ct: &Conntrack, version: Version) -> fmt::Result {
    let mut parts = Vec::new();
    for (word, said) in [("commit", ct.commit), ("force", ct.force)] {
        if said {
            parts.push(word.to_string());
        }
    }
    if let Some(table) = ct.table {
        parts.push(format!("table={table}"));
    }
    match ct.zone {
        Zone::Number(0) => {}
        Zone::Number(zone) => parts.push(format!("zone={zone}")),
        Zone::Field(Bits { of, count }) => {
            let name = text(|out| print_subfield(out, of, count));
            parts.push(format!("zone={name}"));
        }
    }
    match ct.nat {
        None => {}
        Some(Nat::Existing) => parts.push("nat".to_string()),
        Some(Nat::New(range)) => parts.push(format!("nat({})", print_nat(&range))),
        Some(Nat::Unranged { side, flags }) => {
            parts.push(format!("nat({}{})", side_name(side), nat_flags(flags)));
        }
    }
    if let Some((name, _)) = Conntrack::ALGS.iter().find(|(_, number)| *number == ct.alg) {
        parts.push(format!("alg={name}"));
    }
    if !ct.exec.is_empty() {
        parts.push(format!("exec({})", text(|out| list(out, &ct.exec, version))));
    }
    write!(out, "ct({})", parts.join(","))
}

fn print_nat(range: &NatRange) -> String {
    let side = side_name(range.side);
    let brackets = range.first.is_ipv6() && range.ports.is_some();
    let address = |a| if brackets { format!("[{a}]") } else { format!("{a}") };
    let mut out = format!("{side}={}", address(range.first));
    if range.last != range.first {
        out += &format!("-{}", address(range.last));
    }
    if let Some((first, last)) = range.ports {
        out += &format!(":{first}");
        if last != first {
            out += &format!("-{last}");
        }
    }
    out + &nat_flags(range.flags)
}

fn side_name(side: NatSide) -> &'static str {
    match side {
        NatSide::Source => "src",
        NatSide::Destination => "dst",
    }
}

fn nat_flags(flags: u16) -> String {
    let words = NatRange::FLAGS.iter().filter(|(_, bit)| flags & bit != 0);
    words.map(|(word, _)| format!(",{word}")).collect()
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

/// `learn(OPTIONS, FIELD[BITS]=FIELD[BITS], FIELD=VALUE, load:...->..., output:FIELD[BITS])`.
fn learn(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
    let mut learn = Learn::default();
    let arg = word.arg()?;
    for piece in arg.list() {
        let (key, value) = match piece.split_once("=") {
            Some((key, value)) if !piece.text.starts_with("load:") => (key, Some(value)),
            _ => (piece, None),
        };
        match (key.text, value) {
            ("idle_timeout", Some(value)) => learn.idle_timeout = value.u16()?,
            ("hard_timeout", Some(value)) => learn.hard_timeout = value.u16()?,
            ("priority", Some(value)) => learn.priority = value.u16()?,
            ("cookie", Some(value)) => learn.cookie = value.number(64)?,
            ("table", Some(value)) => match value.u8()? {
                255 => return Err(value.expected("a table from 0 to 254")),
                table => learn.table_id = TableId(table),
            },
            ("send_flow_rem", None) => learn.send_flow_rem = true,
            ("delete_learned", None) => learn.delete_learned = true,
            ("fin_idle_timeout", Some(value)) => learn.fin_idle_timeout = value.u16()?,
            ("fin_hard_timeout", Some(value)) => learn.fin_hard_timeout = value.u16()?,
            ("limit", Some(value)) => learn.limit = value.u32()?,
            ("result_dst", Some(value)) => match settable_bits(value)? {
                Bits { of, count: 1 } => learn.result_dst = Some(of),
                _ => return Err(value.expected("one bit")),
            },
            _ => learn.specs.push(learned(piece, key, value, cx)?),
        }
    }
    Ok(Action::Learn(Box::new(learn)))
}

/// One part of a learned entry.
fn learned(
    piece: Piece<'_>,
    key: Piece<'_>,
    value: Option<Piece<'_>>,
    cx: &Context<'_>,
) -> Result<LearnSpec> {
    if let Some((_, load)) = piece.split_once("load:").filter(|(before, _)| before.text.is_empty())
    {
        let Some((from, to)) = load.split_once("->") else {
            return Err(piece.expected("`load:VALUE->FIELD[BITS]` or `load:FIELD[BITS]->...`"));
        };
        let Bits { of, count: bits } = settable_bits(to)?;
        let from = if from.text.contains('[') {
            let (source, n) = subfield(from)?;
            if n != bits {
                return Err(piece.expected("as many bits on both sides"));
            }
            LearnSource::Field(source)
        } else {
            LearnSource::Value(from.number(u32::from(bits).min(64))?.into())
        };
        return Ok(LearnSpec { bits, from, to: LearnTarget::Load(of) });
    }
    if let Some((_, port)) = piece.split_once("output:").filter(|(b, _)| b.text.is_empty()) {
        let (source, bits) = subfield(port)?;
        let from = LearnSource::Field(source);
        return Ok(LearnSpec { bits, from, to: LearnTarget::Output });
    }
    let (of, bits) = subfield(key)?;
    let from = match value {
        // The field's own value.
        None => LearnSource::Field(of),
        Some(value) if value.text.contains('[') => {
            let (source, n) = subfield(value)?;
            if n != bits {
                return Err(piece.expected("as many bits on both sides"));
            }
            LearnSource::Field(source)
        }
        Some(value) => {
            let (number, mask) = value::parse(of.field, value, cx)?;
            if mask != of.field.all_bits() {
                return Err(value.expected("a value without a mask"));
            }
            LearnSource::Value(number)
        }
    };
    Ok(LearnSpec { bits, from, to: LearnTarget::Match(of) })
}

fn print_learn(out: &mut dyn Write, m: &Learn) -> fmt::Result {
    write!(out, "learn(table={}", m.table_id)?;
    if m.idle_timeout != 0 {
        write!(out, ",idle_timeout={}", m.idle_timeout)?;
    }
    if m.hard_timeout != 0 {
        write!(out, ",hard_timeout={}", m.hard_timeout)?;
    }
    if m.priority != 0x8000 {
        write!(out, ",priority={}", m.priority)?;
    }
    if m.fin_idle_timeout != 0 {
        write!(out, ",fin_idle_timeout={}", m.fin_idle_timeout)?;
    }
    if m.fin_hard_timeout != 0 {
        write!(out, ",fin_hard_timeout={}", m.fin_hard_timeout)?;
    }
    if m.send_flow_rem {
        out.write_str(",send_flow_rem")?;
    }
    if m.delete_learned {
        out.write_str(",delete_learned")?;
    }
    if m.cookie != 0 {
        write!(out, ",cookie={:#x}", m.cookie)?;
    }
    if m.limit != 0 {
        write!(out, ",limit={}", m.limit)?;
    }
    if let Some(to) = m.result_dst {
        out.write_str(",result_dst=")?;
        print_subfield(out, to, 1)?;
    }
    for LearnSpec { bits, from, to } in &m.specs {
        out.write_char(',')?;
        match (to, from) {
            (LearnTarget::Match(to), LearnSource::Field(from)) => {
                print_subfield(out, *to, *bits)?;
                if to != from {
                    out.write_char('=')?;
                    print_subfield(out, *from, *bits)?;
                }
            }
            (LearnTarget::Match(to), LearnSource::Value(value)) => {
                let info = to.field.info();
                if u32::from(*bits) == info.bits {
                    write!(out, "{}=", set_field_name(to.field))?;
                    match to.field {
                        // Of any number of digits, other than in matches.
                        FieldId::EthType => write!(out, "{value:#x}")?,
                        field => value::print(out, field, *value, field.all_bits())?,
                    }
                } else {
                    print_subfield(out, *to, *bits)?;
                    write!(out, "={value:#x}")?;
                }
            }
            (LearnTarget::Load(to), from) => {
                out.write_str("load:")?;
                match from {
                    LearnSource::Field(from) => print_subfield(out, *from, *bits)?,
                    LearnSource::Value(value) => write!(out, "{value:#x}")?,
                }
                out.write_str("->")?;
                print_subfield(out, *to, *bits)?;
            }
            (LearnTarget::Output, from) => {
                out.write_str("output:")?;
                match from {
                    LearnSource::Field(from) => print_subfield(out, *from, *bits)?,
                    LearnSource::Value(value) => write!(out, "{value}")?,
                }
            }
        }
    }
    out.write_char(')')
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

/// `FIELD`, `FIELD[]`, `FIELD[a]` or `FIELD[a..b]`, and how many bits it has.
fn subfield(piece: Piece<'_>) -> Result<(Subfield, u16)> {
    let (name, bits) = match piece.split_once("[") {
        None => (piece, None),
        Some((name, rest)) => match rest.split_once("]") {
            Some((bits, rest)) if rest.text.is_empty() => (name, Some(bits)),
            _ => return Err(rest.expected("bits and `]`")),
        },
    };
    let (field, width) = match crate::codec::nxm_field(name.text) {
        Some(known) => known,
        None => {
            let Some(field) = FieldId::from_name(name.text) else {
                return Err(super::matches::unknown_field(name));
            };
            (field, field.info().bits as u16)
        }
    };
    let (first, last) = match bits {
        None => (0, width - 1),
        Some(bits) if bits.text.is_empty() => (0, width - 1),
        Some(bits) => match bits.split_once("..") {
            None => (bits.u16()?, bits.u16()?),
            Some((first, last)) => (first.u16()?, last.u16()?),
        },
    };
    if first > last || last >= width {
        return Err(piece.expected(format!("bits from 0 to {}", width - 1)));
    }
    let count = last - first + 1;
    Ok((Subfield { field, offset: first }.narrowed(count), count))
}

fn print_subfield(out: &mut dyn Write, of: Subfield, bits: u16) -> fmt::Result {
    let (name, shift, width) = crate::codec::nxm_name(of.field);
    let of = Subfield { offset: of.offset + shift, ..of };
    out.write_str(name)?;
    match (of.offset, of.offset + bits - 1) {
        (0, last) if last + 1 == width => out.write_str("[]"),
        (first, last) if first == last => write!(out, "[{first}]"),
        (first, last) => write!(out, "[{first}..{last}]"),
    }
}

/// Whether 1.0 has an action that sets the field.
fn settable_in_v10(field: FieldId) -> bool {
    use FieldId::*;
    matches!(
        field,
        EthSrc
            | EthDst
            | VlanVid
            | VlanPcp
            | Ipv4Src
            | Ipv4Dst
            | IpDscp
            | TcpSrc
            | TcpDst
            | UdpSrc
            | UdpDst
            | SctpSrc
            | SctpDst
    )
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

/// Prints actions as `ovs-ofctl` does; `drop` for none.
pub fn print_actions(actions: &[Action], version: Version) -> String {
    text(|out| list(out, actions, version))
}

/// Prints instructions as `ovs-ofctl` prints what follows `actions=`; `drop` for none.
pub fn print_instructions(instructions: &[Instruction], version: Version) -> String {
    text(|out| print(out, instructions, version))
}

fn print_trigger(out: &mut dyn Write, trigger: &StatTrigger) -> fmt::Result {
    let to = &trigger.thresholds;
    let mut parts = Vec::new();
    for (name, count) in [("packets", to.packets), ("bytes", to.bytes)] {
        parts.extend(count.map(|count| format!("{name}={count}")));
    }
    for (name, age) in [("duration", to.duration), ("idle", to.idle)] {
        parts.extend(age.map(|Age { sec, nsec }| match nsec {
            0 => format!("{name}={sec}"),
            nsec => format!("{name}={sec}.{}", format!("{nsec:09}").trim_end_matches('0')),
        }));
    }
    let words =
        [(StatTriggerFlags::PERIODIC, "periodic"), (StatTriggerFlags::ONLY_FIRST, "only_first")];
    for (flag, word) in words {
        if trigger.flags.contains(flag) {
            parts.push(word.to_owned());
        }
    }
    write!(out, "stat_trigger({})", parts.join(","))
}

/// Prints instructions.
pub(super) fn print(out: &mut dyn Write, list: &[Instruction], version: Version) -> fmt::Result {
    let mut first = true;
    for instruction in list {
        if matches!(instruction, Instruction::ApplyActions(actions) if actions.is_empty()) {
            continue;
        }
        if !std::mem::replace(&mut first, false) {
            out.write_char(',')?;
        }
        match instruction {
            Instruction::GotoTable(table) => write!(out, "goto_table:{table}")?,
            Instruction::WriteMetadata { value, mask: u64::MAX } => {
                write!(out, "write_metadata:{value:#x}")?;
            }
            Instruction::WriteMetadata { value, mask } => {
                write!(out, "write_metadata:{value:#x}/{mask:#x}")?;
            }
            Instruction::WriteActions(actions) => {
                out.write_str("write_actions(")?;
                self::list(out, actions, version)?;
                out.write_char(')')?;
            }
            Instruction::ApplyActions(actions) => self::list(out, actions, version)?,
            Instruction::ClearActions => out.write_str("clear_actions")?,
            Instruction::Meter(meter) => write!(out, "meter:{meter}")?,
            Instruction::StatTrigger(trigger) => print_trigger(out, trigger)?,
            Instruction::Experimenter(e) => {
                write!(out, "experimenter_instruction:{:#x}:", e.experimenter)?;
                e.data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            }
        }
    }
    if first { out.write_str("drop") } else { Ok(()) }
}

/// Prints actions with commas between.
pub(super) fn list(out: &mut dyn Write, actions: &[Action], version: Version) -> fmt::Result {
    if actions.is_empty() {
        return out.write_str("drop");
    }
    for (i, action) in actions.iter().enumerate() {
        if i > 0 {
            out.write_char(',')?;
        }
        print_one(out, action, version)?;
    }
    Ok(())
}

fn print_one(out: &mut dyn Write, action: &Action, version: Version) -> fmt::Result {
    match action {
        Action::Output { port: PortNo::CONTROLLER, max_len } => write!(out, "CONTROLLER:{max_len}"),
        Action::Output { port: PortNo::ANY, .. } => out.write_str("output:NONE"),
        Action::Output { port, .. } => match port.reserved_name() {
            Some(name) => out.write_str(name),
            None => write!(out, "output:{port}"),
        },
        Action::CopyTtlOut => out.write_str("copy_ttl_out"),
        Action::CopyTtlIn => out.write_str("copy_ttl_in"),
        Action::SetMplsTtl(ttl) => write!(out, "set_mpls_ttl({ttl})"),
        Action::DecMplsTtl => out.write_str("dec_mpls_ttl"),
        Action::PushVlan(eth_type) => write!(out, "push_vlan:{eth_type:#06x}"),
        Action::PopVlan if version == Version::V10 => out.write_str("strip_vlan"),
        Action::PopVlan => out.write_str("pop_vlan"),
        Action::PushMpls(eth_type) => write!(out, "push_mpls:{eth_type:#06x}"),
        Action::PopMpls(eth_type) => write!(out, "pop_mpls:{eth_type:#06x}"),
        Action::SetQueue(queue) => write!(out, "set_queue:{queue}"),
        Action::Group(group) => write!(out, "group:{group}"),
        Action::SetNwTtl(ttl) => write!(out, "mod_nw_ttl:{ttl}"),
        Action::DecNwTtl => out.write_str("dec_ttl"),
        Action::SetField(set) => print_set_field(out, set, version),
        Action::Meter(meter) => write!(out, "meter:{meter}"),
        Action::CopyField(CopyField { bits, from, to }) => {
            out.write_str("move:")?;
            print_subfield(out, *from, *bits)?;
            out.write_str("->")?;
            print_subfield(out, *to, *bits)
        }
        Action::Controller(ToController { max_len, reason, id, userdata, meter, pause }) => {
            let mut parts = Vec::new();
            if *reason != PacketInReason::Action {
                let name = REASONS.iter().find(|(_, r)| r == reason).map_or("action", |(n, _)| n);
                parts.push(format!("reason={name}"));
            }
            if *max_len != Action::NO_BUFFER {
                parts.push(format!("max_len={max_len}"));
            }
            if *id != 0 {
                parts.push(format!("id={id}"));
            }
            if !userdata.is_empty() {
                let bytes: Vec<_> = userdata.iter().map(|byte| format!("{byte:02x}")).collect();
                parts.push(format!("userdata={}", bytes.join(".")));
            }
            if let Some(meter) = meter {
                parts.push(format!("meter_id={}", meter.0));
            }
            if *pause {
                parts.push("pause".to_owned());
            }
            write!(out, "controller({})", parts.join(","))
        }
        Action::DecNwTtlTo(ids) => {
            let ids: Vec<String> = ids.iter().map(u16::to_string).collect();
            write!(out, "dec_ttl({})", ids.join(","))
        }
        Action::OutputField { from, .. } => {
            out.write_str("output:")?;
            print_subfield(out, from.of, from.count)
        }
        Action::StackPush(bits) => {
            out.write_str("push:")?;
            print_subfield(out, bits.of, bits.count)
        }
        Action::StackPop(bits) => {
            out.write_str("pop:")?;
            print_subfield(out, bits.of, bits.count)
        }
        Action::CheckPktLarger { bytes, to } => {
            write!(out, "check_pkt_larger({bytes})->")?;
            print_subfield(out, *to, 1)
        }
        Action::Multipath(m) => {
            let fields = HashFields::ALL.iter().find(|(f, _)| *f == m.fields).map_or("", |f| f.1);
            let how = HashAlgorithm::ALL.iter().find(|(a, _)| *a == m.algorithm);
            let how = how.map_or("", |a| a.1);
            let links = u32::from(m.max_link) + 1;
            write!(out, "multipath({fields},{},{how},{links},{},", m.basis, m.arg)?;
            print_subfield(out, m.to.of, m.to.count)?;
            out.write_char(')')
        }
        Action::Bundle(m) => {
            let fields = HashFields::ALL.iter().find(|(f, _)| *f == m.fields).map_or("", |f| f.1);
            let how = BundleAlgorithm::ALL.iter().find(|(a, _)| *a == m.algorithm);
            let how = how.map_or("", |a| a.1);
            let word = if m.to.is_some() { "bundle_load" } else { "bundle" };
            write!(out, "{word}({fields},{},{how},ofport,", m.basis)?;
            if let Some(to) = m.to {
                print_subfield(out, to.of, to.count)?;
                out.write_char(',')?;
            }
            out.write_str("members:")?;
            m.members
                .iter()
                .enumerate()
                .try_for_each(|(i, port)| write!(out, "{}{port}", if i == 0 { "" } else { "," }))?;
            out.write_char(')')
        }
        Action::Clone(inner) => {
            out.write_str("clone(")?;
            match inner.is_empty() {
                true => out.write_str("drop")?,
                false => list(out, inner, version)?,
            }
            out.write_char(')')
        }
        Action::Ct(ct) => print_ct(out, ct, version),
        Action::CtClear => out.write_str("ct_clear"),
        Action::Exit => out.write_str("exit"),
        Action::Learn(m) => print_learn(out, m),
        Action::Conjunction(m) => {
            write!(out, "conjunction({},{}/{})", m.id, m.dimension + 1, m.dimensions)
        }
        Action::Note(bytes) => {
            out.write_str("note:")?;
            bytes.iter().enumerate().try_for_each(|(i, byte)| {
                write!(out, "{}{byte:02x}", if i == 0 { "" } else { "." })
            })
        }
        Action::Resubmit { in_port, table: TableId::ALL, ct: false }
            if *in_port != PortNo::IN_PORT =>
        {
            write!(out, "resubmit:{in_port}")
        }
        Action::PopQueue => out.write_str("pop_queue"),
        Action::OutputTruncated { port, max_len } => {
            write!(out, "output(port={port},max_len={max_len})")
        }
        Action::FinTimeout(FinTimeout { idle_timeout, hard_timeout }) => {
            let parts = [("idle_timeout", idle_timeout), ("hard_timeout", hard_timeout)];
            let said: Vec<_> = parts.iter().filter(|(_, seconds)| **seconds != 0).collect();
            let said: Vec<_> = said.iter().map(|(name, n)| format!("{name}={n}")).collect();
            write!(out, "fin_timeout({})", said.join(","))
        }
        Action::Resubmit { in_port, table, ct } => {
            out.write_str("resubmit(")?;
            if *in_port != PortNo::IN_PORT {
                write!(out, "{in_port}")?;
            }
            out.write_char(',')?;
            if *table != TableId::ALL {
                write!(out, "{table}")?;
            }
            out.write_str(if *ct { ",ct)" } else { ")" })
        }
        Action::Softflow(softflow) => write!(out, "{softflow}"),
        Action::PushPbb(eth_type) => write!(out, "push_pbb:{eth_type:#06x}"),
        Action::PopPbb => out.write_str("pop_pbb"),
        Action::SetVlanVid(vid) => write!(out, "mod_vlan_vid:{vid}"),
        Action::SetVlanPcp(pcp) => write!(out, "mod_vlan_pcp:{pcp}"),
        Action::SetNwSrc(v) => write!(out, "mod_nw_src:{}", std::net::Ipv4Addr::from(*v)),
        Action::SetNwDst(v) => write!(out, "mod_nw_dst:{}", std::net::Ipv4Addr::from(*v)),
        Action::SetNwTos(tos) => write!(out, "mod_nw_tos:{tos}"),
        Action::SetTpSrc(port) => write!(out, "mod_tp_src:{port}"),
        Action::SetTpDst(port) => write!(out, "mod_tp_dst:{port}"),
        Action::Enqueue { port, queue } => write!(out, "enqueue:{port}:{queue}"),
        Action::Experimenter(e) => {
            write!(out, "experimenter:{:#x}:", e.experimenter)?;
            e.data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
    }
}

fn print_set_field(out: &mut dyn Write, set: &SetField, version: Version) -> fmt::Result {
    let &SetField { field, value, mask } = set;
    let mask = mask.unwrap_or(field.all_bits());
    let (offset, count) = (mask.trailing_zeros(), mask.count_ones());
    let part = mask != field.all_bits() && mask != 0 && count <= 64;
    if version == Version::V10 && mask == field.all_bits() {
        match field {
            FieldId::MplsLabel => return write!(out, "set_mpls_label({value})"),
            FieldId::MplsTc => return write!(out, "set_mpls_tc({value})"),
            // 1.0 has no set-field; Nicira's load has 64 bits.
            field if !settable_in_v10(field) && count <= 64 => {
                write!(out, "load:{value:#x}->")?;
                return print_subfield(out, Subfield { field, offset: 0 }, count as u16);
            }
            _ => {}
        }
    }
    if field.is_of_connection() && version < Version::V15 && part {
        let run = mask >> offset == u128::MAX >> (128 - count);
        if run {
            write!(out, "load:{:#x}->", value >> offset)?;
            return print_subfield(out, Subfield { field, offset: offset as u16 }, count as u16);
        }
    }
    let mod_dl = match field {
        FieldId::EthSrc => Some("mod_dl_src:"),
        FieldId::EthDst => Some("mod_dl_dst:"),
        _ => None,
    };
    if let (Version::V10, Some(word)) = (version, mod_dl) {
        out.write_str(word)?;
        return value::print(out, field, value, mask);
    }
    out.write_str("set_field:")?;
    value::print(out, field, value, mask)?;
    write!(out, "->{}", set_field_name(field))
}

/// The name of a field in `set_field`; where it differs from a match's, it is the specification's.
pub(super) fn set_field_name(field: FieldId) -> &'static str {
    match field {
        FieldId::EthSrc => "eth_src",
        FieldId::EthDst => "eth_dst",
        FieldId::EthType => "eth_type",
        FieldId::VlanPcp => "vlan_pcp",
        FieldId::Ipv4Src => "ip_src",
        FieldId::Ipv4Dst => "ip_dst",
        _ => field.info().ofctl[0],
    }
}
