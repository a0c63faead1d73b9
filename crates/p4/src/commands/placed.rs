//! Where a line stands to what is there: for who keeps a list of lines and changes it while the program runs.
//!
//! A line that says what is to be there has a *key*, by which it is told from others. It comes, becomes another and goes:
//!
//! | line | key | without the line |
//! |---|---|---|
//! | `table_add` | table, keys, priority | the entry is gone |
//! | `table_set_default` | table | the program's default |
//! | `mirroring_add`, `mirroring_add_mc` | session | the session is gone |
//! | `mc_mgrp_set` | group | the group is gone |
//! | `meter_set_rates` of an array | meter, index | the cell is green |
//! | `pvs_add` | value set, value | the value is gone |
//! | `register_write` | register, index | 0, unless packets have written since |
//!
//! Other lines are [fixed](Place::Fixed): they mean something in their order alone, from the start on. Lines `mc_` name nodes by
//! handles, which count from the start, too; [`grouped`] makes lines `mc_mgrp_set` of them, which name none.

use super::{Plane, call, entry_priority, entry_words, int, line_of, multicast, named};
use crate::control::multicast::Cut;
use crate::control::value::{show, value};
use crate::control::{Control, Written};
use crate::lower::names::find;
use ir::{Bits, MeterId};

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has a key, and can come and go while the program runs.
    Live(Placed),
    /// It means something at the start alone: why.
    Fixed(&'static str),
}

/// A line, placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Lines with the same are of one thing.
    pub key: String,
    /// A line that makes what is there again; none if nothing is, or no line can.
    pub there: Option<String>,
    /// Why no line can make again what is there.
    pub unsaid: Option<String>,
    of: Of,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// An entry.
    Entry {
        /// The table's full name.
        table: String,
        action: String,
        args: String,
        /// Of the entry that is there.
        handle: Option<u32>,
    },
    /// A value of a set, which has no other state than to be there.
    Value { removes: String },
    /// What the line itself makes of whatever is there.
    Put { removes: Option<String> },
}

impl Placed {
    /// It is of an entry of a table.
    pub fn is_entry(&self) -> bool {
        matches!(self.of, Of::Entry { .. })
    }

    /// The line, perhaps empty, that has what is there make way for another line's; none if that line does it itself.
    pub fn modifies(&self, wanted: &Placed) -> Option<String> {
        match (&self.of, &wanted.of) {
            (Of::Entry { table, handle, .. }, Of::Entry { action, args, .. }) => {
                let handle = (*handle)?;
                Some(format!("table_modify {table} {action} {handle} =>{args}"))
            }
            (Of::Value { .. }, _) => self.there.is_some().then(String::new),
            _ => None,
        }
    }

    /// The line that takes away what is there; none if nothing is.
    pub fn deletes(&self) -> Option<String> {
        self.there.as_ref()?;
        match &self.of {
            Of::Entry { table, handle, .. } => Some(format!("table_delete {table} {}", (*handle)?)),
            Of::Value { removes } => Some(removes.clone()),
            Of::Put { removes } => removes.clone(),
        }
    }
}

/// Why a line is fixed; none if it has a key.
fn fixed(word: &str) -> Option<&'static str> {
    Some(match word {
        "table_add" | "table_set_default" | "mirroring_add" | "mirroring_add_mc"
        | "mc_mgrp_set" | "meter_set_rates" | "pvs_add" | "register_write" => return None,
        "table_modify" | "table_delete" | "table_set_timeout" => {
            "it names an entry by its handle, and a running program has given others: write table_add alone"
        }
        word if word.starts_with("act_prof_") || word.starts_with("table_indirect_") => {
            "it names members or groups by handles, and a running program has given others"
        }
        word if word.starts_with("mc_") => {
            "lines mc_ name nodes by their order, and not all that these name come from lines"
        }
        "meter_array_set_rates" => {
            "it changes cells that other lines have set: write meter_set_rates for each"
        }
        word if word.starts_with("set_crc") => "other parameters of a CRC are another program",
        _ => "it says what to do once, and not what is to be there",
    })
}

/// Places a line.
///
/// # Errors
/// If it is no line that the program can read.
pub fn place(control: &Control, plane: &mut dyn Plane, line: &str) -> Result<Place, String> {
    let text = line.split('#').next().unwrap_or("");
    let words: Vec<&str> = text.split_whitespace().collect();
    let [word, rest @ ..] = &words[..] else {
        return Ok(Place::Fixed("it is empty"));
    };
    let known = super::known::command(word)?;
    if let Some(why) = fixed(word) {
        return Ok(Place::Fixed(why));
    }
    if rest.len() < known.least || rest.len() > known.most {
        return Err(format!("write `{word} {}`", known.usage));
    }
    let placed = match *word {
        "table_add" => entry(control, rest),
        "table_set_default" => default(control, rest),
        "mirroring_add" | "mirroring_add_mc" => session(control, rest),
        "mc_mgrp_set" => group(control, rest),
        "meter_set_rates" => match meter(control, rest)? {
            Some(placed) => Ok(placed),
            None => {
                return Ok(Place::Fixed(
                    "it names an entry by its handle, and a running program has given others",
                ));
            }
        },
        "pvs_add" => member(control, rest),
        _ => cell(control, plane, rest),
    };
    placed.map(Place::Live)
}

fn written((name, value): &Written) -> String {
    match name {
        Some(name) => format!(" {name}={value}"),
        None => format!(" {value}"),
    }
}

fn entry(control: &Control, words: &[&str]) -> Result<Placed, String> {
    let (table, action, rest) = (words[0], words[1], &words[2..]);
    let t = control.table(table)?;
    let (keys, mut args) = entry_words(t, rest, "the arguments")?;
    let params = t.action(action).map(|a| a.params.len());
    let has = params.is_none_or(|n| args.len() > n);
    let priority = entry_priority(t, &mut args, has)?;
    let matches = Control::matches(t, &keys)?;
    let found = control.pipeline.entries(t.id).find_strict(priority, &matches);
    let refers = found.is_some_and(|entry| control.refers(t.id, Some(entry.id)).is_some());
    let there = found.filter(|_| !refers);
    Ok(Placed {
        key: format!("{} {matches:?} {priority}", t.name),
        there: there.map(|entry| line_of(t, entry, None)),
        unsaid: refers.then(|| {
            format!("the entry of the table `{}` that is there is of an action profile", t.name)
        }),
        of: Of::Entry {
            table: t.name.clone(),
            action: action.to_owned(),
            args: args.iter().map(written).collect(),
            handle: there.and_then(|entry| control.handle(t.id, entry.id)),
        },
    })
}

fn default(control: &Control, words: &[&str]) -> Result<Placed, String> {
    let t = control.table(words[0])?;
    let refers = control.refers(t.id, None).is_some();
    let own = &control.pipeline.program().tables[t.id.index()].default;
    let differs = !refers && control.pipeline.entries(t.id).default() != own;
    let is = control.default_of(t.id);
    Ok(Placed {
        key: format!("default {}", t.name),
        there: differs.then(|| format!("table_set_default {} {}", t.name, call(t, &is))),
        unsaid: refers
            .then(|| format!("the default of the table `{}` is of an action profile", t.name)),
        of: Of::Put { removes: Some(format!("table_reset_default {}", t.name)) },
    })
}

fn session(control: &Control, words: &[&str]) -> Result<Placed, String> {
    let number = int(words[0], "the session")?;
    let (mut there, mut unsaid) = (None, None);
    match control.session_of(number) {
        None => {}
        Some((_, Some(group))) => there = Some(format!("mirroring_add_mc {number} {group}")),
        Some((of, None)) => match &of.replicas[..] {
            [one] if of.cut == Cut::default() && one.instance == 0 && one.backups.is_empty() => {
                there = Some(format!("mirroring_add {number} {}", one.port));
            }
            _ => {
                unsaid = Some(format!(
                    "the clone session {number} that is there was made by P4Runtime, and no line can make it again"
                ));
            }
        },
    }
    Ok(Placed {
        key: format!("session {number}"),
        there,
        unsaid,
        of: Of::Put { removes: Some(format!("mirroring_delete {number}")) },
    })
}

fn group(control: &Control, words: &[&str]) -> Result<Placed, String> {
    let number = int(words[0], "the group")?;
    let found = control.multicast_groups().find(|(group, _)| *group == number);
    let (mut there, mut unsaid) = (None, None);
    match found {
        None => {}
        Some((_, copies)) if copies.replicas.iter().all(|r| r.backups.is_empty()) => {
            let copies = copies.replicas.iter().map(|r| (r.instance, r.port));
            there = Some(multicast::line(number, copies));
        }
        Some(_) => {
            unsaid = Some(format!(
                "the multicast group {number} that is there has backups, and no line can make it again"
            ));
        }
    }
    Ok(Placed {
        key: format!("group {number}"),
        there,
        unsaid,
        of: Of::Put { removes: Some(format!("mc_mgrp_destroy {number}")) },
    })
}

/// None for the meter of an entry.
fn meter(control: &Control, words: &[&str]) -> Result<Option<Placed>, String> {
    let Some(array) = find(&control.names.meters, |m| &m.name, words[0]) else {
        let direct = control.names.tables.iter().filter_map(|t| Some(&t.meter.as_ref()?.name));
        let direct: Vec<&String> = direct.collect();
        if find(&direct, |name| name, words[0]).is_some() {
            return Ok(None);
        }
        return named(&control.names.meters, |m| &m.name, "meter", words[0]).map(|_| None);
    };
    let (name, index) = (&array.name, int(words[1], "the index")?);
    if index >= array.size {
        return Err(format!(
            "the meter `{name}` has {} cells: 0 to {}",
            array.size,
            array.size.saturating_sub(1)
        ));
    }
    let rates = control.pipeline.meter(MeterId(array.first + index));
    let there = rates.map(|rates| {
        let rates = super::externs::rates_text(rates);
        format!("meter_set_rates {name} {index}{rates}")
    });
    Ok(Some(Placed {
        key: format!("meter {name} {index}"),
        there,
        unsaid: None,
        of: Of::Put { removes: Some(format!("meter_reset_rates {name} {index}")) },
    }))
}

fn member(control: &Control, words: &[&str]) -> Result<Placed, String> {
    let (name, id, widths) =
        named(&control.names.value_sets, |v| &v.0, "value set", words[0])?.clone();
    let member = super::externs::member(words[1], widths.iter().sum())?;
    let is_there = control.pipeline.value_set(id).contains(&member);
    let text = super::externs::member_text(&member);
    Ok(Placed {
        key: format!("value {name} {text}"),
        there: is_there.then(|| format!("pvs_add {name} {text}")),
        unsaid: None,
        of: Of::Value { removes: format!("pvs_remove {name} {text}") },
    })
}

fn cell(control: &Control, plane: &mut dyn Plane, words: &[&str]) -> Result<Placed, String> {
    let (name, id, width) =
        named(&control.names.registers, |r| &r.0, "register", words[0])?.clone();
    let (index, to) = (int(words[1], "the index")?, value(words[2], width)?);
    let size = control.pipeline.program().registers[id.index()].size;
    if index >= size {
        return Err(format!(
            "the register `{name}` has {size} cells: 0 to {}",
            size.saturating_sub(1)
        ));
    }
    let is = plane.register(id, index)?.unwrap_or_else(|| Bits::zero(width));
    Ok(Placed {
        key: format!("register {name} {index}"),
        there: (!is.is_zero()).then(|| format!("register_write {name} {index} {}", show(&is))),
        unsaid: None,
        // Packets may have written it since.
        of: Of::Put { removes: (is == to).then(|| format!("register_write {name} {index} 0")) },
    })
}

/// Lines whose multicast groups are lines `mc_mgrp_set`, each where the group is made. If that cannot be said, all stay as
/// they are, and are [fixed](Place::Fixed).
pub fn grouped(lines: &[String]) -> Vec<String> {
    multicast::grouped(lines).unwrap_or_else(|| lines.to_vec())
}
