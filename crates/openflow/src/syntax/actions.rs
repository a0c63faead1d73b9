//! Actions and instructions.
//!
//! What stands outside other instructions is applied at once. Instructions come in the order in
//! which they take effect (meter, actions, `clear_actions`, `write_actions`, `write_metadata`,
//! `goto_table`), each at most once; another order is refused, as by `ovs-ofctl`.

pub(super) mod print;

use super::context::Context;
use super::error::{Fault, nearest};
use super::piece::{Piece, Result, Word, Words};
use crate::action::{
    Action, ExperimenterInstruction, Instruction, Instructions, StatTrigger, StatTriggerFlags,
};
use crate::actions;
use crate::actions::row::{Parsing, Row};
use crate::actions::text::experimenter;
use crate::ids::{Age, MeterId, TableId};
use crate::version::Version;

/// Words of instructions, and of none at all, with the first version that has each. From 1.5 on `meter` is an action.
const INSTRUCTIONS: [(&str, Version); 8] = [
    ("drop", Version::V10),
    ("meter", Version::V13),
    ("clear_actions", Version::V13),
    ("stat_trigger", Version::V15),
    ("write_actions", Version::V13),
    ("write_metadata", Version::V13),
    ("goto_table", Version::V13),
    ("experimenter_instruction", Version::V13),
];

/// Every word of actions and instructions.
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    let others = INSTRUCTIONS.iter().map(|(word, _)| *word);
    others.filter(|word| actions::of_word(word).is_none()).chain(actions::words())
}

/// What a word begins.
enum Begins {
    Action(&'static Row),
    Instruction,
}

/// What a word begins, if it is one, with its name and the first version that has it.
fn begins(key: Piece<'_>, version: Version) -> Option<(&'static str, Version, Begins)> {
    // Before 1.5 a meter is an instruction.
    let action = actions::of_word(key.text)
        .filter(|(name, ..)| *name != "meter" || version >= Version::V15)
        .map(|(name, since, row)| (name, since, Begins::Action(row)));
    action.or_else(|| {
        let instruction = INSTRUCTIONS.iter().find(|(name, _)| key.is(name));
        instruction.map(|(name, since)| (*name, *since, Begins::Instruction))
    })
}

/// Words of Open vSwitch's extensions.
const EXTENSIONS: &[&str] =
    &["debug_recirc", "debug_slow", "dec_nsh_ttl", "decap", "encap", "sample", "unroll_xlate"];

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
fn listed(piece: Piece<'_>, cx: &Context<'_>) -> Result<Vec<Action>> {
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
    let Some((name, since, begins)) = begins(key, cx.version) else {
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
        let nearest = nearest(key.text, words());
        return Err(key.error(Fault::Unknown { what: "action", nearest }));
    };
    if since > cx.version {
        return Err(word.not_in(cx.version, "action"));
    }
    match begins {
        Begins::Action(row) => {
            let parsing = Parsing { name, cx, list: listed };
            let action = row.parse(word, &parsing)?;
            match action.field_without_room() {
                None => Ok(Said::Action(action)),
                Some(field) => {
                    let name = field.info().ofctl[0];
                    Err(word.key.refused(format!("{name} has too long a header for this action")))
                }
            }
        }
        Begins::Instruction if name == "drop" => {
            word.bare()?;
            Ok(Said::Drop)
        }
        Begins::Instruction => instruction(name, word, cx).map(Said::Instruction),
    }
}

fn instruction(name: &str, word: &Word<'_>, cx: &Context<'_>) -> Result<Instruction> {
    Ok(match name {
        "meter" => Instruction::Meter(MeterId(word.arg()?.u32()?)),
        "goto_table" => Instruction::GotoTable(TableId(word.arg()?.u8()?)),
        "clear_actions" => {
            word.bare()?;
            Instruction::ClearActions
        }
        "write_actions" => match word.value {
            Some(list) => Instruction::WriteActions(listed(list, cx)?),
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
        // `experimenter_instruction`; every other word of the list is above.
        _ => {
            let (experimenter, data) = experimenter(word)?;
            let experimenter = ExperimenterInstruction { experimenter, data };
            Instruction::Experimenter(Box::new(experimenter))
        }
    })
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
