//! Flow entries: a line of `ovs-ofctl add-flows`, and a line of `ovs-ofctl dump-flows`.

use super::actions::{instructions, print};
use super::context::Context;
use super::error::Fault;
use super::matches::{Builder, print_match, text};
use super::piece::{Piece, Result, Word, Words};
use crate::action::Instructions;
use crate::flow::{FlowMod, FlowModCommand, FlowModFlags, FlowStats};
use crate::flow_match::Match;
use crate::ids::{GroupId, PortNo, TableId};
use crate::version::Version;
use std::fmt::{self, Write};

const COMMANDS: &[(&str, FlowModCommand)] = &[
    ("add", FlowModCommand::Add),
    ("modify", FlowModCommand::Modify),
    ("modify_strict", FlowModCommand::ModifyStrict),
    ("delete", FlowModCommand::Delete),
    ("delete_strict", FlowModCommand::DeleteStrict),
];

/// Flags, with the first version that has them.
const FLAGS: &[(&str, FlowModFlags, Version)] = &[
    ("send_flow_rem", FlowModFlags::SEND_FLOW_REM, Version::V10),
    ("check_overlap", FlowModFlags::CHECK_OVERLAP, Version::V10),
    ("reset_counts", FlowModFlags::RESET_COUNTS, Version::V13),
    ("no_packet_counts", FlowModFlags::NO_PKT_COUNTS, Version::V13),
    ("no_byte_counts", FlowModFlags::NO_BYT_COUNTS, Version::V13),
    ("emerg", FlowModFlags::EMERG, Version::V10),
];

/// The words of a flow that are no fields.
const WORDS: &[&str] = &[
    "table",
    "priority",
    "cookie",
    "idle_timeout",
    "hard_timeout",
    "out_port",
    "out_group",
    "actions",
    "send_flow_rem",
    "check_overlap",
    "reset_counts",
    "no_packet_counts",
    "no_byte_counts",
];

/// Words that `ovs-ofctl` takes and that no message carries: they are about Open vSwitch's own read-only tables and
/// hidden entries.
const WITHOUT_EFFECT: &[&str] = &["no_readonly_table", "allow_hidden_fields"];

/// Statistics, which a printed flow has and a read one does without.
const STATISTICS: &[&str] = &["duration", "n_packets", "n_bytes", "idle_age", "hard_age"];

const DEFAULT_PRIORITY: u16 = 0x8000;

/// Reads a line of `ovs-ofctl add-flows`: perhaps a command (`add` if there is none), then what the
/// entry is, then `actions=` with the rest of the line; deletes have no actions.
///
/// Without `table`, an add goes to table 0, others to all tables; 1.0 can say no more than that. A `cookie` without mask is the
/// entry's, one with a mask is the filter of a modify or delete. Statistics, as `dump-flows` prints
/// them, are passed over.
///
/// # Errors
/// The first word that is wrong, or that the version cannot say.
pub fn parse_flow(text: &str, cx: &Context<'_>) -> Result<FlowMod> {
    read(text, cx, None)
}

/// Reads which entries are meant, as `ovs-ofctl dump-flows` does: `table`, a match, `cookie` with a mask, `out_port`,
/// `out_group`. An empty line means all. What comes is a delete of them.
///
/// # Errors
/// The first word that is wrong, or that the version cannot say.
pub fn parse_filter(text: &str, cx: &Context<'_>) -> Result<FlowMod> {
    read(text, cx, Some(FlowModCommand::Delete))
}

/// Reads a line. It begins with its command, unless that is given.
fn read(text: &str, cx: &Context<'_>, command: Option<FlowModCommand>) -> Result<FlowMod> {
    let line = Piece::line(text);
    let mut words = Words::of(line);
    let mut flow = FlowMod::add(Match::new(), Instructions::new());
    flow.dialect = cx.version;
    flow.command = command.unwrap_or(flow.command);
    let mut matching = Builder::new(cx, WORDS);
    let mut table = None;
    let mut given: Vec<&str> = Vec::new();
    let mut acts = None;
    let mut first = command.is_none();
    while let Some(word) = words.next()? {
        if std::mem::replace(&mut first, false)
            && let Some((_, command)) = COMMANDS.iter().find(|(name, _)| word.whole.is(name))
        {
            flow.command = *command;
            continue;
        }
        let settings = WORDS.iter().chain(&["emerg"]);
        let Some(name) = settings.copied().find(|name| word.key.is(name)).or_else(|| {
            // `ovs-ofctl` takes both.
            word.key.is("action").then_some("actions")
        }) else {
            if STATISTICS.iter().any(|name| word.key.is(name)) {
                word.arg()?;
            } else if WITHOUT_EFFECT.iter().any(|name| word.key.is(name)) {
                word.bare()?;
            } else if word.key.is("importance") {
                if cx.version < Version::V14 {
                    return Err(word.not_in(cx.version, "setting"));
                }
                flow.importance = word.arg()?.u16()?;
            } else {
                matching.word(&word)?;
            }
            continue;
        };
        if given.contains(&name) {
            return Err(word.key.error(Fault::Twice));
        }
        given.push(name);
        match name {
            "actions" => {
                if word.value.is_none() {
                    return Err(word.key.expected("`actions=`"));
                }
                acts = Some((word.key, instructions(word.rest, cx)?));
                break;
            }
            "table" => table = Some(self::table(&flow, &word, cx)?),
            _ => setting(&mut flow, name, &word, cx)?,
        }
    }
    let is_add = flow.command == FlowModCommand::Add;
    let all = !is_add || cx.version == Version::V10;
    flow.table_id = table.unwrap_or(if all { TableId::ALL } else { TableId(0) });
    flow.matching = matching.finish()?;
    let is_delete = matches!(flow.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
    match (acts, is_delete) {
        (Some((key, _)), true) => return Err(key.refused("a delete has no actions")),
        (Some((_, list)), false) => flow.instructions = list,
        (None, true) => {}
        (None, false) => {
            let end = Piece { text: "", at: text.len() };
            return Err(end.expected("`actions=`"));
        }
    }
    Ok(flow)
}

/// The table. 1.0 cannot name one: an add goes to table 0, all else goes over all tables.
fn table(flow: &FlowMod, word: &Word<'_>, cx: &Context<'_>) -> Result<TableId> {
    let table = TableId(word.arg()?.u8()?);
    match (cx.version, flow.command, table) {
        (Version::V10, FlowModCommand::Add, TableId(0)) => Ok(TableId::ALL),
        (Version::V10, _, table) if table != TableId::ALL => {
            Err(word.not_in(cx.version, "setting"))
        }
        (Version::V13 | Version::V14 | Version::V15, FlowModCommand::Add, TableId::ALL) => {
            Err(word.whole.expected(format!("a table from 0 to {}", TableId::MAX)))
        }
        _ => Ok(table),
    }
}

fn setting(flow: &mut FlowMod, name: &str, word: &Word<'_>, cx: &Context<'_>) -> Result<()> {
    let is_delete = matches!(flow.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
    match name {
        "priority" => flow.priority = word.arg()?.u16()?,
        "cookie" => cookie(flow, word, cx)?,
        "idle_timeout" => flow.idle_timeout = word.arg()?.u16()?,
        "hard_timeout" => flow.hard_timeout = word.arg()?.u16()?,
        "out_port" | "out_group" if !is_delete => {
            return Err(word.key.refused("only a delete may filter by it"));
        }
        "out_port" => flow.out_port = word.arg()?.port(cx)?,
        "out_group" if cx.version == Version::V10 => return Err(word.not_in(cx.version, "filter")),
        "out_group" if word.arg()?.is("any") => flow.out_group = GroupId::ANY,
        "out_group" => flow.out_group = GroupId(word.arg()?.u32()?),
        // The flags; every other name is above.
        name => {
            for (flag, bit, since) in FLAGS {
                if *flag != name {
                    continue;
                }
                let gone = *flag == "emerg" && cx.version != Version::V10;
                if gone || *since > cx.version {
                    return Err(word.not_in(cx.version, "flag"));
                }
                word.bare()?;
                flow.flags |= *bit;
            }
        }
    }
    Ok(())
}

/// `cookie=V` is the entry's, `cookie=V/M` a filter.
fn cookie(flow: &mut FlowMod, word: &Word<'_>, cx: &Context<'_>) -> Result<()> {
    let arg = word.arg()?;
    let add = flow.command == FlowModCommand::Add;
    let Some((value, mask)) = arg.split_once("/") else {
        if matches!(flow.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict) {
            return Err(arg.expected("a cookie with a mask, to filter by, e.g. `cookie=1/-1`"));
        }
        flow.cookie = arg.number(64)?;
        return Ok(());
    };
    if add {
        return Err(arg.refused("an add sets the cookie; it takes no mask"));
    }
    if cx.version == Version::V10 {
        return Err(mask.error(Fault::NotIn { version: cx.version, what: "filter" }));
    }
    flow.cookie = value.number(64)?;
    flow.cookie_mask = match mask.text {
        "-1" => u64::MAX,
        _ => mask.number(64)?,
    };
    match flow.cookie_mask {
        0 => Err(mask.expected("a mask, as without one nothing is filtered")),
        _ => Ok(()),
    }
}

/// Prints a line of `ovs-ofctl dump-flows`, without the blank at its beginning.
///
/// `statistics` says whether duration and counts are in it.
pub fn print_flow(flow: &FlowStats, version: Version, statistics: bool) -> String {
    text(|out| {
        write!(out, "cookie={:#x}, ", flow.cookie)?;
        if statistics {
            write!(out, "duration={}s, ", Seconds(flow))?;
        }
        write!(out, "table={}, ", flow.table_id)?;
        if statistics {
            write!(out, "n_packets={}, n_bytes={}, ", flow.packet_count, flow.byte_count)?;
        }
        if flow.idle_timeout != 0 {
            write!(out, "idle_timeout={}, ", flow.idle_timeout)?;
        }
        if flow.hard_timeout != 0 {
            write!(out, "hard_timeout={}, ", flow.hard_timeout)?;
        }
        print_flags(out, flow.flags)?;
        print_importance(out, flow.importance)?;
        print_body(out, flow.priority, &flow.matching, version)?;
        out.write_str("actions=")?;
        print::print(out, &flow.instructions, version)
    })
}

/// A flow's age, without zeros at its end.
struct Seconds<'a>(&'a FlowStats);

impl fmt::Display for Seconds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = self.0.age;
        write!(f, "{}", age.sec)?;
        match age.nsec / 1_000_000 {
            0 => Ok(()),
            ms => f.write_str(format!(".{ms:03}").trim_end_matches('0')),
        }
    }
}

fn print_flags(out: &mut dyn Write, flags: FlowModFlags) -> fmt::Result {
    FLAGS
        .iter()
        .filter(|(_, bit, _)| flags.contains(*bit))
        .try_for_each(|(name, ..)| write!(out, "{name} "))
}

fn print_importance(out: &mut dyn Write, importance: u16) -> fmt::Result {
    if importance == 0 { Ok(()) } else { write!(out, "importance={importance}, ") }
}

/// Prints priority and match, with a blank behind them if there is anything.
fn print_body(
    out: &mut dyn Write,
    priority: u16,
    matching: &Match,
    version: Version,
) -> fmt::Result {
    let fields = print_match(matching, version);
    match (priority, fields.is_empty()) {
        (DEFAULT_PRIORITY, true) => Ok(()),
        (DEFAULT_PRIORITY, false) => write!(out, "{fields} "),
        (_, true) => write!(out, "priority={priority} "),
        (_, false) => write!(out, "priority={priority},{fields} "),
    }
}

/// Prints a flow-mod as [`parse_flow`] reads it, the command left out of an add. A buffer is left
/// out: the syntax has no word for it.
pub fn print_flow_mod(flow: &FlowMod, version: Version) -> String {
    let is_add = flow.command == FlowModCommand::Add;
    let is_delete = matches!(flow.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
    let line = text(|out| {
        if let (false, Some((name, _))) =
            (is_add, COMMANDS.iter().find(|(_, command)| *command == flow.command))
        {
            write!(out, "{name} ")?;
        }
        let all = !is_add || version == Version::V10;
        if flow.table_id != (if all { TableId::ALL } else { TableId(0) }) {
            write!(out, "table={}, ", flow.table_id)?;
        }
        match flow.cookie_mask {
            0 if flow.cookie == 0 || is_delete => {}
            0 => write!(out, "cookie={:#x}, ", flow.cookie)?,
            mask => write!(out, "cookie={:#x}/{mask:#x}, ", flow.cookie)?,
        }
        if flow.idle_timeout != 0 {
            write!(out, "idle_timeout={}, ", flow.idle_timeout)?;
        }
        if flow.hard_timeout != 0 {
            write!(out, "hard_timeout={}, ", flow.hard_timeout)?;
        }
        if is_delete && flow.out_port != PortNo::ANY {
            write!(out, "out_port={}, ", flow.out_port)?;
        }
        if is_delete && flow.out_group != GroupId::ANY {
            write!(out, "out_group={}, ", flow.out_group)?;
        }
        print_flags(out, flow.flags)?;
        print_importance(out, flow.importance)?;
        print_body(out, flow.priority, &flow.matching, version)?;
        if is_delete {
            return Ok(());
        }
        out.write_str("actions=")?;
        print::print(out, &flow.instructions, version)
    });
    line.trim_end_matches([' ', ',']).to_owned()
}
