//! What a program's control has by name, for who helps a person to write commands.

use super::known::KNOWN;
use crate::control::Control;
use serde::{Deserialize, Serialize};

/// Names, and what belongs to them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Names {
    /// Commands.
    pub commands: Vec<Command>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Registers.
    pub registers: Vec<String>,
    /// Counters, direct ones among them.
    pub counters: Vec<String>,
    /// Meters, direct ones among them.
    pub meters: Vec<String>,
    /// Action profiles and selectors.
    pub profiles: Vec<Profile>,
    /// Value sets.
    pub value_sets: Vec<String>,
}

/// A command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Command {
    /// Its word.
    pub word: String,
    /// What follows.
    pub usage: String,
    /// What it does.
    pub about: String,
}

/// A table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its keys.
    pub keys: Vec<Key>,
    /// Its actions.
    pub actions: Vec<Action>,
    /// Whether entries have a priority.
    pub prioritised: bool,
}

/// A key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// How it is compared: exact, lpm, ternary, range, optional.
    pub kind: String,
    /// Its width in bits.
    pub width: u32,
}

/// An action.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// Names of its parameters, and their widths in bits.
    pub params: Vec<(String, u32)>,
}

/// An action profile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Its members' actions.
    pub actions: Vec<Action>,
}

fn action(a: &crate::lower::names::ActionName) -> Action {
    Action { name: a.name.clone(), params: a.params.clone() }
}

impl Names {
    /// Those of a program under control; tables of the architecture's own are left out.
    pub fn of(control: &Control) -> Names {
        let names = &control.names;
        let own = names.tables.iter().filter(|t| t.source.is_some());
        let table = |t: &crate::lower::names::TableName| Table {
            name: t.name.clone(),
            keys: t
                .keys
                .iter()
                .map(|k| Key {
                    name: k.name.clone(),
                    kind: k.kind.word().to_owned(),
                    width: k.width,
                })
                .collect(),
            actions: t.actions.iter().map(action).collect(),
            prioritised: crate::control::prioritised(t),
        };
        let profile = |(at, p): (usize, &crate::lower::names::ProfileName)| {
            let of = names.tables.iter().find(|t| t.profile == Some(at));
            let actions = of.map(|t| t.actions.iter().map(action).collect());
            Profile { name: p.name.clone(), actions: actions.unwrap_or_default() }
        };
        let direct = |name: fn(&crate::lower::names::TableName) -> Option<String>| {
            names.tables.iter().filter_map(name)
        };
        Names {
            commands: KNOWN
                .iter()
                .map(|known| Command {
                    word: known.word.to_owned(),
                    usage: known.usage.to_owned(),
                    about: known.about.to_owned(),
                })
                .collect(),
            tables: own.map(table).collect(),
            registers: names.registers.iter().map(|r| r.0.clone()).collect(),
            counters: names
                .counters
                .iter()
                .map(|c| c.0.clone())
                .chain(direct(|t| t.counter.clone()))
                .collect(),
            meters: names
                .meters
                .iter()
                .map(|m| m.name.clone())
                .chain(direct(|t| t.meter.as_ref().map(|m| m.name.clone())))
                .collect(),
            profiles: names.profiles.iter().enumerate().map(profile).collect(),
            value_sets: names.value_sets.iter().map(|v| v.0.clone()).collect(),
        }
    }
}
