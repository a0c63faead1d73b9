//! Actions and instructions as `ovs-ofctl` prints them.

use crate::action::{Action, Instruction, StatTrigger, StatTriggerFlags};
use crate::actions::row;
use crate::actions::row::Printing;
use crate::ids::Age;
use crate::syntax::matches::text;
use crate::version::Version;
use std::fmt::{self, Write};

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
pub(in crate::syntax) fn print(
    out: &mut dyn Write,
    list: &[Instruction],
    version: Version,
) -> fmt::Result {
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
pub(in crate::syntax) fn list(
    out: &mut dyn Write,
    actions: &[Action],
    version: Version,
) -> fmt::Result {
    if actions.is_empty() {
        return out.write_str("drop");
    }
    let printing = Printing { version, list };
    for (i, action) in actions.iter().enumerate() {
        if i > 0 {
            out.write_char(',')?;
        }
        row(action).print(out, action, &printing)?;
    }
    Ok(())
}
