//! Where a line that adds an entry stands to what is there: for who keeps a list of such lines and changes it.

use super::{entry_priority, entry_words, line_of};
use crate::control::Control;

/// The word of lines that can be placed.
const ADDS: &str = "table_add";

/// A line `table_add`, placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Table, keys and priority: lines with the same are of one entry.
    pub key: String,
    /// The table's full name.
    table: String,
    /// Action and arguments.
    action: String,
    args: String,
    /// Of the entry that is there.
    handle: Option<u32>,
    /// A line that makes that one again.
    pub there: Option<String>,
}

/// Whether a line can be placed.
pub fn adds(line: &str) -> bool {
    line.split_whitespace().next() == Some(ADDS)
}

/// Places a line.
///
/// # Errors
/// If it is no line `table_add` that the program can read, or its entry is of an action profile.
pub fn place(control: &Control, line: &str) -> Result<Placed, String> {
    let text = line.split('#').next().unwrap_or("");
    let words: Vec<&str> = text.split_whitespace().collect();
    let [ADDS, table, action, rest @ ..] = &words[..] else {
        return Err(format!("write `{ADDS} TABLE ACTION KEY ... => [ARGUMENT ...] [PRIORITY]`"));
    };
    let t = control.table(table)?;
    let (keys, mut args) = entry_words(t, rest, "the arguments")?;
    let params = t.action(action).map(|a| a.params.len());
    let has = params.is_none_or(|n| args.len() > n);
    let priority = entry_priority(t, &mut args, has)?;
    let matches = Control::matches(t, &keys)?;
    let there = control.pipeline.entries(t.id).find_strict(priority, &matches);
    if let Some(entry) = there
        && control.refers(t.id, Some(entry.id)).is_some()
    {
        return Err(format!(
            "the entry of the table `{}` that is there is of an action profile",
            t.name
        ));
    }
    let word = |(name, value): &crate::control::Written| match name {
        Some(name) => format!(" {name}={value}"),
        None => format!(" {value}"),
    };
    Ok(Placed {
        key: format!("{} {matches:?} {priority}", t.name),
        table: t.name.clone(),
        action: (*action).to_owned(),
        args: args.iter().map(word).collect(),
        handle: there.and_then(|entry| control.handle(t.id, entry.id)),
        there: there.map(|entry| line_of(t, entry, None)),
    })
}

impl Placed {
    /// The line that has what is there make way for this one's action; none if nothing is there.
    pub fn modifies(&self, wanted: &Placed) -> Option<String> {
        let handle = self.handle?;
        let Placed { action, args, .. } = wanted;
        Some(format!("table_modify {} {action} {handle} =>{args}", self.table))
    }

    /// The line that takes away what is there; none if nothing is.
    pub fn deletes(&self) -> Option<String> {
        let handle = self.handle?;
        Some(format!("table_delete {} {handle}", self.table))
    }
}
