//! Entries, groups, registers and the rest as lines of text, in the manner of `simple_switch_CLI`.
//!
//! ```text
//! table_add TABLE ACTION KEY ... => [ARGUMENT ...] [PRIORITY]     tells the entry's handle
//! table_modify TABLE ACTION HANDLE [=>] [ARGUMENT ...]
//! table_delete TABLE HANDLE;  table_clear TABLE
//! table_set_default TABLE ACTION [ARGUMENT ...];  table_reset_default TABLE
//! table_dump TABLE;  table_dump_entry TABLE HANDLE;  table_info TABLE;  table_num_entries TABLE
//! show_tables;  show_actions
//! mc_mgrp_create GROUP;  mc_mgrp_destroy GROUP;  mc_mgrp_set GROUP [RID:PORT ...]
//! mc_node_create RID PORT ...;  mc_node_update NODE PORT ...;  mc_node_destroy NODE
//! mc_node_associate GROUP NODE;  mc_node_dissociate GROUP NODE
//! mirroring_add SESSION PORT;  mirroring_add_mc SESSION GROUP;  mirroring_delete SESSION
//! register_read REGISTER [INDEX];  register_write REGISTER INDEX VALUE;  register_reset REGISTER
//! counter_read COUNTER INDEX;  counter_reset COUNTER
//! meter_set_rates METER INDEX RATE:BURST [RATE:BURST];  meter_array_set_rates METER RATE:BURST ...
//! meter_get_rates METER INDEX;  meter_reset_rates METER INDEX    the index of a direct meter is the entry's handle
//! act_prof_create_member PROFILE ACTION [ARGUMENT ...];  act_prof_create_group PROFILE   tell handles
//! act_prof_modify_member PROFILE ACTION MEMBER [ARGUMENT ...];  act_prof_delete_member PROFILE MEMBER
//! act_prof_add_member_to_group PROFILE MEMBER GROUP;  act_prof_delete_group PROFILE GROUP
//! act_prof_remove_member_from_group PROFILE MEMBER GROUP
//! act_prof_dump PROFILE;  act_prof_dump_member PROFILE MEMBER;  act_prof_dump_group PROFILE GROUP
//! table_indirect_add TABLE KEY ... => MEMBER [PRIORITY];  table_indirect_delete TABLE HANDLE
//! table_indirect_add_with_group TABLE KEY ... => GROUP [PRIORITY]
//! table_indirect_set_default TABLE MEMBER;  table_indirect_set_default_with_group TABLE GROUP
//! table_indirect_reset_default TABLE
//! set_crc16_parameters CRC POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER;  set_crc32_...
//! show_crcs                          uses of crc16_custom and crc32_custom: calc, calc_0, calc_1 ...
//! pvs_add VALUE_SET VALUE;  pvs_remove VALUE_SET VALUE;  pvs_clear VALUE_SET;  pvs_get VALUE_SET
//! help [COMMAND]
//! ```
//! A key is `5`, `0x1f`, `10.0.0.1`, `02:00:00:00:00:01`, by its kind also `10.0.0.0/8`, `5&&&7`,
//! `1->5`, `*`; it may be named (`hdr.ip.dst=10.0.0.1`), and then in any order. As in bmv2, a
//! *smaller* priority wins, only tables with ternary, range or optional keys have one, and they need
//! it. Names may be left out from the front (`routes` for `MyIngress.routes`). Rates are a microsecond's,
//! in bytes or packets as the meter counts; the first one marks yellow, the second one red. `#` begins a
//! comment. `table_dump` prints what `table_add` reads.
//!
//! A text that begins with `{` is a `runtime.json` of the tutorials.
//!
//! Lines that go wrong change nothing and are told with their number; the others are done.

mod externs;
mod known;
mod multicast;
mod names;
mod placed;
mod runtime;

pub use names::Names;
pub use placed::{Place, Placed, grouped, place};
pub use runtime::is_runtime;

use crate::control::profiles::{Member, Refers};
use crate::control::value::{show_as, show_pattern, value};
use crate::control::{Control, Written, nearest, prioritised};
use crate::lower::names::{TableName, find};
use ir::{ActionCall, Bits, Entry, EntryId, RegisterId, TableId, Update};
use std::fmt::Write as _;

/// Packets and bytes.
pub type Counted = (u64, u64);

/// Whatever forwards by the pipeline: follows its updates, has what packets write.
pub trait Plane {
    /// Takes updates, one transaction, that the pipeline under control has taken.
    fn update(&mut self, updates: &[Update]) -> Result<(), String>;

    /// A cell of a register; `None` past its end.
    fn register(&mut self, register: RegisterId, index: u32) -> Result<Option<Bits>, String>;

    /// Writes a cell of a register.
    fn set_register(&mut self, register: RegisterId, index: u32, to: &Bits) -> Result<(), String>;

    /// A cell of a counter array; `None` past its end.
    fn counter(&mut self, array: u32, index: u32) -> Result<Option<Counted>, String>;

    /// Sets a counter array to zero.
    fn reset_counter(&mut self, array: u32, size: u32) -> Result<(), String>;

    /// What an entry has counted.
    fn entry(&mut self, entry: EntryId) -> Result<Counted, String>;

    /// Sets an entry's counter to zero.
    fn reset_entry(&mut self, entry: EntryId) -> Result<(), String>;

    /// Lookups and matches of a table.
    fn table(&mut self, table: TableId) -> Result<(u64, u64), String>;
}

/// A line that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct Wrong {
    /// Its number, from 1; 0 is what the plane refused of all that was gathered, and what is wrong with a file of the
    /// tutorials, which has its place in its words.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub text: String,
}

/// Does the lines of a text in order. What they told, and which went wrong. Updates are handed to
/// `plane` together as far as no line asks for something in between.
pub fn run(text: &str, control: &mut Control, plane: &mut dyn Plane) -> (Vec<String>, Vec<Wrong>) {
    let mut session = Session { control, plane, updates: Vec::new(), told: Vec::new() };
    let mut wrong = Vec::new();
    if is_runtime(text) {
        let (updates, refused) = runtime::run(text, session.control);
        session.updates = updates;
        // Each has its place in its words.
        wrong.extend(refused.into_iter().map(|text| Wrong { line: 0, text }));
        if let Err(text) = session.flush() {
            wrong.push(Wrong { line: 0, text });
        }
        return (session.told, wrong);
    }
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or("").trim();
        if text.is_empty() {
            continue;
        }
        if let Err(text) = session.line(text) {
            wrong.push(Wrong { line, text });
        }
    }
    if let Err(text) = session.flush() {
        wrong.push(Wrong { line: 0, text });
    }
    (session.told, wrong)
}

struct Session<'a> {
    control: &'a mut Control,
    plane: &'a mut dyn Plane,
    /// Taken by the pipeline and not yet by the plane.
    updates: Vec<Update>,
    told: Vec<String>,
}

/// Something of a list by name, or what the nearest is.
fn named<'a, T>(
    list: &'a [T],
    name_of: impl Fn(&T) -> &str,
    kind: &str,
    name: &str,
) -> Result<&'a T, String> {
    find(list, &name_of, name).ok_or_else(|| {
        let near = nearest(name, list.iter().map(&name_of));
        format!("there is no {kind} `{name}`{near}")
    })
}

fn int(text: &str, what: &str) -> Result<u32, String> {
    value(text, 32).map(|v| v.low_u32()).map_err(|e| format!("{what}: {e}"))
}

fn port(text: &str) -> Result<u16, String> {
    match value(text, 9) {
        Ok(v) => Ok(v.low_u32() as u16),
        Err(_) => Err(format!("`{text}` is no port: 0 to 511 are")),
    }
}

/// `NAME=VALUE`, or a value alone.
fn written(text: &str) -> Written {
    match text.split_once('=') {
        Some((name, value))
            if !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            (Some(name.to_string()), value.to_string())
        }
        _ => (None, text.to_string()),
    }
}

/// An action's arguments; a `=>` may stand in front of them.
fn arguments(words: &[&str]) -> Vec<Written> {
    let words = words.strip_prefix(&["=>"]).unwrap_or(words);
    words.iter().map(|w| written(w)).collect()
}

impl Session<'_> {
    fn flush(&mut self) -> Result<(), String> {
        let updates = std::mem::take(&mut self.updates);
        if updates.is_empty() { Ok(()) } else { self.plane.update(&updates) }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let Some(word) = words.next() else { return Ok(()) };
        let rest: Vec<&str> = words.collect();
        let known = known::command(word)?;
        if rest.len() < known.least || rest.len() > known.most {
            return Err(format!("write `{word} {}`", known.usage));
        }
        self.command(word, &rest).map_err(|e| format!("{word}: {e}"))
    }

    fn take(&mut self, updates: Vec<Update>) -> Result<(), String> {
        self.updates.extend(updates);
        Ok(())
    }

    fn tell(&mut self, line: impl Into<String>) -> Result<(), String> {
        self.told.push(line.into());
        Ok(())
    }

    fn command(&mut self, word: &str, rest: &[&str]) -> Result<(), String> {
        let ports = |words: &[&str]| -> Result<Vec<u16>, String> {
            if words.contains(&"|") {
                return Err("link aggregation groups are not supported: write ports".into());
            }
            words.iter().map(|p| port(p)).collect()
        };
        match word {
            "table_add" => self.add(rest),
            "table_modify" => {
                let handle = int(rest[2], "the handle")?;
                let (_, entry) = self.control.entry(rest[0], handle)?;
                let args = arguments(&rest[3..]);
                let updates = self.control.modify(rest[0], entry, rest[1], &args)?;
                self.take(updates)
            }
            "table_set_timeout" => {
                let (_, entry) = self.control.entry(rest[0], int(rest[1], "the handle")?)?;
                let idle_ns = u64::from(int(rest[2], "the milliseconds")?) * 1_000_000;
                let updates = self.control.set_timeout(rest[0], entry, idle_ns)?;
                self.take(updates)
            }
            "table_delete" | "table_indirect_delete" => {
                let (table, entry) = self.control.entry(rest[0], int(rest[1], "the handle")?)?;
                let updates = self.control.remove(table, entry)?;
                self.take(updates)
            }
            "table_clear" => {
                let updates = self.control.clear(rest[0])?;
                self.take(updates)
            }
            "table_set_default" => {
                let args = arguments(&rest[2..]);
                let updates = self.control.set_default(rest[0], rest[1], &args)?;
                self.take(updates)
            }
            "table_reset_default" | "table_indirect_reset_default" => {
                let updates = self.control.reset_default(rest[0])?;
                self.take(updates)
            }
            "table_indirect_add" => self.add_indirect(rest, "member", Refers::Member),
            "table_indirect_add_with_group" => self.add_indirect(rest, "group", Refers::Group),
            "table_indirect_set_default" => {
                let refers = Refers::Member(int(rest[1], "the member")?);
                let updates = self.control.set_default_indirect(rest[0], refers)?;
                self.take(updates)
            }
            "table_indirect_set_default_with_group" => {
                let refers = Refers::Group(int(rest[1], "the group")?);
                let updates = self.control.set_default_indirect(rest[0], refers)?;
                self.take(updates)
            }
            "table_dump" => self.dump(rest[0]),
            "table_dump_entry" => {
                let t = self.control.table(rest[0])?.clone();
                let (_, entry) = self.control.entry(rest[0], int(rest[1], "the handle")?)?;
                self.flush()?;
                let line = self.entry_line(&t, entry)?;
                self.tell(line)
            }
            "table_info" => {
                let t = self.control.table(rest[0])?.clone();
                self.table_info(&t)
            }
            "table_num_entries" => {
                let id = self.control.table(rest[0])?.id;
                let n = self.control.pipeline.entries(id).len();
                self.tell(n.to_string())
            }
            "show_tables" => {
                let tables = self.control.names.tables.clone();
                tables.iter().try_for_each(|t| self.table_info(t))
            }
            "show_actions" => {
                let mut lines: Vec<String> =
                    self.control.names.tables.iter().flat_map(|t| &t.actions).map(action).collect();
                lines.sort();
                lines.dedup();
                self.told.extend(lines);
                Ok(())
            }
            "mc_mgrp_create" => {
                let updates = self.control.group_create(int(rest[0], "the group")?)?;
                self.take(updates)
            }
            "mc_mgrp_destroy" => {
                let updates = self.control.group_destroy(int(rest[0], "the group")?)?;
                self.take(updates)
            }
            "mc_mgrp_set" => {
                let group = int(rest[0], "the group")?;
                let copies = rest[1..].iter().map(|text| multicast::copy(text));
                let updates =
                    self.control.multicast_put(group, &copies.collect::<Result<Vec<_>, _>>()?)?;
                self.take(updates)
            }
            "mc_node_create" => {
                let rid = value(rest[0], 16).map_err(|e| format!("the replica: {e}"))?;
                let node = self.control.node_create(rid.low_u32() as u16, ports(&rest[1..])?);
                self.tell(format!("node {node}"))
            }
            "mc_node_update" => {
                let node = int(rest[0], "the node")? as usize;
                let updates = self.control.node_update(node, ports(&rest[1..])?)?;
                self.take(updates)
            }
            "mc_node_destroy" => {
                let updates = self.control.node_destroy(int(rest[0], "the node")? as usize)?;
                self.take(updates)
            }
            "mc_node_associate" | "mc_node_dissociate" => {
                let (group, node) =
                    (int(rest[0], "the group")?, int(rest[1], "the node")? as usize);
                let updates = match word {
                    "mc_node_associate" => self.control.node_associate(group, node)?,
                    _ => self.control.node_dissociate(group, node)?,
                };
                self.take(updates)
            }
            "mirroring_add" => {
                let updates = self.control.mirror(int(rest[0], "the session")?, port(rest[1])?)?;
                self.take(updates)
            }
            "mirroring_add_mc" => {
                let (session, group) = (int(rest[0], "the session")?, int(rest[1], "the group")?);
                let updates = self.control.mirror_group(session, group)?;
                self.take(updates)
            }
            "mirroring_delete" => {
                let updates = self.control.mirror_delete(int(rest[0], "the session")?)?;
                self.take(updates)
            }
            profile if profile.starts_with("act_prof_") => self.profile(profile, rest),
            "register_read" | "register_write" | "register_reset" => self.register(word, rest),
            "counter_read" | "counter_reset" => self.counter(word, rest),
            "meter_set_rates"
            | "meter_array_set_rates"
            | "meter_get_rates"
            | "meter_reset_rates" => self.meter(word, rest),
            "help" => {
                self.told.extend(known::help(rest.first().copied())?);
                Ok(())
            }
            "set_crc16_parameters" => self.set_crc(rest, 16),
            "set_crc32_parameters" => self.set_crc(rest, 32),
            "show_crcs" => {
                for c in &self.control.names.calculations {
                    let (name, crc) = (&c.name, c.crc);
                    self.told.push(format!(
                        "{name} {:#x} {:#x} {:#x} {} {} ({} bits)",
                        crc.polynomial,
                        crc.init,
                        crc.xor_out,
                        crc.reflect_in,
                        crc.reflect_out,
                        crc.width
                    ));
                }
                Ok(())
            }
            _ => self.value_set(word, rest),
        }
    }

    fn set_crc(&mut self, rest: &[&str], width: u32) -> Result<(), String> {
        let number = |i: usize, what: &str| {
            value(rest[i], width).map(|v| v.low_u32()).map_err(|e| format!("{what}: {e}"))
        };
        let truth = |i: usize| match rest[i] {
            "true" | "True" | "1" => Ok(true),
            "false" | "False" | "0" => Ok(false),
            other => Err(format!("`{other}` is neither true nor false")),
        };
        let crc = ir::Crc {
            width,
            polynomial: number(1, "the polynomial")?,
            init: number(2, "the initial remainder")?,
            xor_out: number(3, "the final XOR")?,
            reflect_in: truth(4)?,
            reflect_out: truth(5)?,
            function: 0,
        };
        let updates = self.control.set_crc(rest[0], crc)?;
        self.take(updates)
    }

    fn add(&mut self, rest: &[&str]) -> Result<(), String> {
        let (table, name) = (rest[0], rest[1]);
        let t = self.control.table(table)?;
        let (keys, mut args) = entry_words(t, &rest[2..], "the arguments")?;
        let params = t.action(name).map(|a| a.params.len());
        let has = params.is_none_or(|n| args.len() > n);
        let priority = entry_priority(t, &mut args, has)?;
        let (entry, updates) = self.control.add(table, &keys, priority, name, &args)?;
        self.added(table, entry, updates)
    }

    fn add_indirect(
        &mut self,
        rest: &[&str],
        what: &str,
        refers: impl FnOnce(u32) -> Refers,
    ) -> Result<(), String> {
        let t = self.control.table(rest[0])?;
        let (keys, mut args) = entry_words(t, &rest[1..], what)?;
        let has = args.len() > 1;
        let priority = entry_priority(t, &mut args, has)?;
        let [(None, handle)] = args.as_slice() else {
            return Err(format!("after `=>` comes the handle of one {what}"));
        };
        let refers = refers(int(handle, what)?);
        let (entry, updates) = self.control.add_indirect(rest[0], &keys, priority, refers)?;
        self.added(rest[0], entry, updates)
    }

    fn added(&mut self, table: &str, entry: EntryId, updates: Vec<Update>) -> Result<(), String> {
        let id = self.control.table(table)?.id;
        let handle = self.control.handle(id, entry).unwrap_or_default();
        self.take(updates)?;
        self.tell(format!("handle {handle}"))
    }

    fn profile(&mut self, word: &str, rest: &[&str]) -> Result<(), String> {
        let name = rest[0];
        match word {
            "act_prof_create_member" => {
                let args = arguments(&rest[2..]);
                let handle = self.control.member_create(name, rest[1], &args)?;
                self.tell(format!("member {handle}"))
            }
            "act_prof_modify_member" => {
                let member = int(rest[2], "the member")?;
                let args = arguments(&rest[3..]);
                let updates = self.control.member_modify(name, member, rest[1], &args)?;
                self.take(updates)
            }
            "act_prof_delete_member" => {
                Ok(self.control.member_delete(name, int(rest[1], "the member")?)?)
            }
            "act_prof_create_group" => {
                let handle = self.control.group_new(name)?;
                self.tell(format!("group {handle}"))
            }
            "act_prof_delete_group" => {
                let updates = self.control.group_drop(name, int(rest[1], "the group")?)?;
                self.take(updates)
            }
            "act_prof_add_member_to_group" | "act_prof_remove_member_from_group" => {
                let (member, group) = (int(rest[1], "the member")?, int(rest[2], "the group")?);
                let into = word == "act_prof_add_member_to_group";
                let updates = self.control.group_member(name, member, group, into)?;
                self.take(updates)
            }
            _ => self.profile_dump(word, rest),
        }
    }

    fn profile_dump(&mut self, word: &str, rest: &[&str]) -> Result<(), String> {
        let name = self.control.profile(rest[0])?.name.clone();
        let only = rest.get(1).map(|handle| int(handle, "the handle")).transpose()?;
        let before = self.told.len();
        if word != "act_prof_dump_group" {
            for (handle, Member { action, args }) in self.control.members(&name)? {
                if only.is_none_or(|o| o == handle) {
                    let line = format!(
                        "act_prof_create_member {name} {action}{}",
                        args_text(&params_of(self.control, &action), args.iter())
                    );
                    self.told.push(format!("{line}  # member {handle}"));
                }
            }
        }
        if word != "act_prof_dump_member" {
            for (handle, members) in self.control.groups(&name)? {
                if only.is_none_or(|o| o == handle) {
                    let members: String = members.iter().map(|m| format!(" {m}")).collect();
                    self.told.push(format!(
                        "act_prof_create_group {name}  # group {handle}, members{members}"
                    ));
                }
            }
        }
        match only {
            Some(handle) if self.told.len() == before => {
                Err(format!("`{name}` has none with the handle {handle}"))
            }
            _ => Ok(()),
        }
    }

    fn dump(&mut self, table: &str) -> Result<(), String> {
        self.flush()?;
        let t = self.control.table(table)?.clone();
        let entries: Vec<EntryId> = self.control.handles(t.id).map(|(_, e)| e).collect();
        for entry in entries {
            let line = self.entry_line(&t, entry)?;
            self.told.push(line);
        }
        let default = &self.control.default_of(t.id);
        // A table without a default action has one that no command can name: it does nothing.
        match (self.control.refers(t.id, None), Control::action_of(&t, default.action)) {
            (Some(Refers::Member(m)), _) => {
                self.tell(format!("table_indirect_set_default {} {m}", t.name))
            }
            (Some(Refers::Group(g)), _) => {
                self.tell(format!("table_indirect_set_default_with_group {} {g}", t.name))
            }
            (None, Some(_)) => {
                self.tell(format!("table_set_default {} {}", t.name, call(&t, default)))
            }
            (None, None) => Ok(()),
        }
    }

    /// An entry as it could be added, with its handle and counts as a comment.
    fn entry_line(&mut self, t: &TableName, id: EntryId) -> Result<String, String> {
        let entry = self.control.pipeline.entries(t.id).get(id).cloned();
        let Some(entry) = entry else { return Err("the entry is gone".into()) };
        let refers = self.control.refers(t.id, Some(id));
        let mut line = line_of(t, &entry, refers);
        let handle = self.control.handle(t.id, id).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = write!(line, "  # handle {handle}");
        if self.control.pipeline.program().tables[t.id.index()].counters {
            let (packets, bytes) = self.plane.entry(id)?;
            let _ = write!(line, ", {packets} packets, {bytes} bytes");
        }
        if entry.idle_timeout_ns > 0 {
            let _ =
                write!(line, ", told of when idle for {} ms", entry.idle_timeout_ns / 1_000_000);
        }
        Ok(line)
    }

    fn table_info(&mut self, t: &TableName) -> Result<(), String> {
        self.flush()?;
        let (lookups, matches) = self.plane.table(t.id)?;
        let entries = self.control.pipeline.entries(t.id).len();
        let keys: Vec<String> = t.keys.iter().map(key).collect();
        let actions: Vec<String> = t.actions.iter().map(action).collect();
        self.told
            .push(format!("{}: {entries} entries, {lookups} lookups, {matches} matches", t.name));
        self.told.push(format!(
            "  keys {}",
            if keys.is_empty() { "none".into() } else { keys.join(", ") }
        ));
        self.tell(format!("  actions {}", actions.join(", ")))
    }
}

/// Words of keys with what belongs to them: `5 &&& 7` is one key.
fn joined(words: &[&str]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut open = false;
    for w in words {
        let links = matches!(*w, "&&&" | "->");
        match out.last_mut() {
            Some(last) if open || links => last.push_str(w),
            _ => out.push((*w).to_string()),
        }
        open = links;
    }
    out
}

/// Keys and what comes after `=>`, of a line that adds an entry.
fn entry_words(
    t: &TableName,
    words: &[&str],
    after: &str,
) -> Result<(Vec<Written>, Vec<Written>), String> {
    let Some(arrow) = words.iter().position(|w| *w == "=>") else {
        let keys: Vec<&str> = t.keys.iter().map(|k| k.name.as_str()).collect();
        return Err(format!(
            "`=>` is missing between the keys ({}) and {after}",
            if keys.is_empty() { "none here".to_string() } else { keys.join(", ") }
        ));
    };
    // A key's value may itself be written with spaces around `&&&` and `->`.
    let keys: Vec<Written> = joined(&words[..arrow]).iter().map(|k| written(k)).collect();
    let args = arguments(&words[arrow + 1..]);
    if keys.len() != t.keys.len() && keys.iter().all(|k| k.0.is_none()) {
        let all: Vec<String> = t.keys.iter().map(key).collect();
        return Err(format!(
            "the table `{}` has {} keys, not {}: {}",
            t.name,
            t.keys.len(),
            keys.len(),
            all.join(", ")
        ));
    }
    Ok((keys, args))
}

/// The priority, which comes last where a table has them; `has`: there are more words than arguments.
fn entry_priority(t: &TableName, args: &mut Vec<Written>, has: bool) -> Result<i32, String> {
    if !prioritised(t) {
        return Ok(0);
    }
    let Some((None, text)) = args.last().filter(|_| has) else {
        return Err(format!(
            "the table `{}` needs a priority after the arguments, as it has ternary, range or optional keys; smaller ones win",
            t.name
        ));
    };
    let p: i32 =
        text.parse().ok().filter(|p| *p >= 0).ok_or_else(|| {
            format!("`{text}` is no priority: write a number from 0 to {}", i32::MAX)
        })?;
    args.pop();
    Ok(-p)
}

fn key(k: &crate::lower::names::KeyName) -> String {
    format!("{} ({}, {} bits)", k.name, k.kind.word(), k.width)
}

fn action(a: &crate::lower::names::ActionName) -> String {
    let params: Vec<String> = a.params.iter().map(|(n, w)| format!("{n}: {w} bits")).collect();
    format!("{}({})", a.name, params.join(", "))
}

/// Arguments in order, by what their parameters are.
fn args_text<'c>(params: &[(String, u32)], args: impl Iterator<Item = &'c Bits>) -> String {
    let names = params.iter().map(|(name, _)| name.as_str()).chain(std::iter::repeat(""));
    args.zip(names).map(|(a, name)| format!(" {}", show_as(a, name))).collect()
}

/// The parameters of an action of this name.
fn params_of(control: &Control, action: &str) -> Vec<(String, u32)> {
    let actions = control.names.tables.iter().flat_map(|t| &t.actions);
    let mut found = actions.filter(|a| a.name == action);
    found.next().map(|a| a.params.clone()).unwrap_or_default()
}

/// The arguments that the control plane gives; an entry's own meter is not among them.
fn given<'c>(t: &TableName, call: &'c ActionCall) -> impl Iterator<Item = &'c Bits> {
    let n = Control::action_of(t, call.action).map_or(call.args.len(), |a| a.params.len());
    call.args.iter().take(n)
}

fn call(t: &TableName, call: &ActionCall) -> String {
    let action = Control::action_of(t, call.action);
    let name = action.map_or("NoAction", |a| a.name.as_str());
    let params = action.map(|a| a.params.as_slice()).unwrap_or_default();
    format!("{name}{}", args_text(params, given(t, call)))
}

/// An entry as `table_add` reads it.
pub fn entry_text(t: &TableName, entry: &Entry) -> String {
    line_of(t, entry, None)
}

/// An entry as a line that adds it.
fn line_of(t: &TableName, entry: &Entry, refers: Option<Refers>) -> String {
    let name = Control::action_of(t, entry.action.action).map_or("NoAction", |a| a.name.as_str());
    let mut line = match refers {
        None => format!("table_add {} {name}", t.name),
        Some(Refers::Member(_)) => format!("table_indirect_add {}", t.name),
        Some(Refers::Group(_)) => format!("table_indirect_add_with_group {}", t.name),
    };
    for (i, k) in t.keys.iter().enumerate() {
        let pattern = entry.matches.iter().find(|m| m.key as usize == i).map(|m| &m.pattern);
        let _ = write!(line, " {}", show_pattern(pattern, k));
    }
    line.push_str(" =>");
    match refers {
        Some(Refers::Member(n) | Refers::Group(n)) => {
            let _ = write!(line, " {n}");
        }
        None => {
            let action = Control::action_of(t, entry.action.action);
            let params = action.map(|a| a.params.as_slice()).unwrap_or_default();
            line.push_str(&args_text(params, given(t, &entry.action)));
        }
    }
    if prioritised(t) {
        let _ = write!(line, " {}", -i64::from(entry.priority));
    }
    line
}

/// The body of the fuzz target: any text is done or refused line by line, and what a table then holds
/// reads back to the same entries, but for those that refer to members and groups.
///
/// # Panics
/// If it does not.
pub fn fuzz(program: &crate::lower::Lowered, data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut control = Control::new(program.clone()).expect("the program is good");
    let (_, wrong) = run(&text, &mut control, &mut Blind);
    for w in &wrong {
        assert!(!w.text.is_empty());
    }
    let mut again = Control::new(program.clone()).expect("the program is good");
    for t in control.names.tables.clone().into_iter().filter(|t| !t.entries_const) {
        let of = |c: &Control| -> Vec<String> {
            let entries = c.pipeline.entries(t.id).iter();
            let direct = entries.filter(|e| c.refers(t.id, Some(e.id)).is_none());
            direct.map(|e| entry_text(&t, e)).collect()
        };
        let lines = of(&control);
        again.clear(&t.name).expect("the table exists");
        let (_, wrong) = run(&lines.join("\n"), &mut again, &mut Blind);
        // An entry of the program's own may have a priority that no line can have.
        let odd = wrong.iter().all(|w| w.text.contains("is no priority"));
        assert!(odd, "{wrong:?}\n{}", lines.join("\n"));
        if wrong.is_empty() {
            let sorted = |mut lines: Vec<String>| {
                lines.sort();
                lines
            };
            assert_eq!(sorted(of(&control)), sorted(of(&again)));
        }
    }
}

/// A plane that forwards nothing: for checking a file, and where nothing but the pipeline counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blind;

impl Plane for Blind {
    fn update(&mut self, _: &[Update]) -> Result<(), String> {
        Ok(())
    }

    fn register(&mut self, _: RegisterId, _: u32) -> Result<Option<Bits>, String> {
        Err("only a running switch has registers to read".into())
    }

    fn set_register(&mut self, _: RegisterId, _: u32, _: &Bits) -> Result<(), String> {
        Err("only a running switch has registers to write".into())
    }

    fn counter(&mut self, _: u32, _: u32) -> Result<Option<Counted>, String> {
        Err("only a running switch counts".into())
    }

    fn reset_counter(&mut self, _: u32, _: u32) -> Result<(), String> {
        Err("only a running switch counts".into())
    }

    fn entry(&mut self, _: EntryId) -> Result<Counted, String> {
        Ok((0, 0))
    }

    fn reset_entry(&mut self, _: EntryId) -> Result<(), String> {
        Err("only a running switch counts".into())
    }

    fn table(&mut self, _: TableId) -> Result<(u64, u64), String> {
        Ok((0, 0))
    }
}
