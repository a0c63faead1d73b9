//! `bond`: bonds of a bridge, shown, added and removed.

use crate::bonds::{Bond, BondError};
use crate::bridges::Bridge;
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question: what to do, in this order, or nothing; then the bonds are told.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bonds {
    /// Remove those of these names; their ports are ports as any other then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Add these: `NAME,members=PORT,PORT,mode=balance-slb`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The bonds of the bridge that was named, or of all.
    pub bonds: Vec<One>,
}

/// Of one bond.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its bridge.
    pub bridge: String,
    /// Its name.
    pub name: String,
    /// As it was added.
    pub words: String,
    /// `off`, `configured` or `negotiated`.
    pub lacp: String,
    /// The active member, if one is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// Members that are enabled.
    pub enabled: Vec<String>,
}

impl Verb for Bonds {
    const NAME: &'static str = "bond";
    const ABOUT: &'static str = "Bonds of a bridge, shown, added and removed";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridges = at.bridges()?;
        let added = self.add.iter().map(|text| text.parse::<Bond>());
        let added = added.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        if !(self.add.is_empty() && self.remove.is_empty()) {
            let bridge = at.bridge()?;
            let mut bonds = bridge.config().bonds;
            for name in &self.remove {
                let before = bonds.len();
                bonds.retain(|bond| bond.name != *name);
                if bonds.len() == before {
                    return Err(BondError::NoBond(name.clone()).to_string());
                }
            }
            bonds.extend(added);
            bridges.set_bonds(bridge.name(), bonds).map_err(|e| e.to_string())?;
        }
        let bonds = match at.named() {
            Some(bridge) => of(bridge),
            None => bridges.all().iter().flat_map(of).collect(),
        };
        Ok(Reply::Answer(Answer { bonds }))
    }

    fn change(&self) -> Option<Change> {
        let how = match (self.add.is_empty(), self.remove.is_empty()) {
            (false, _) => "add",
            (_, false) => "delete",
            _ => return None,
        };
        let words: Vec<String> = self.remove.iter().chain(&self.add).cloned().collect();
        Some(Change { kind: "bond", how, text: words.join(" ") })
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{:<16} {:<11} {:<16}  bond", "bridge", "lacp", "active");
        for one in &answer.bonds {
            let active = one.active.as_deref().unwrap_or("none");
            let _ =
                writeln!(out, "{:<16} {:<11} {active:<16}  {}", one.bridge, one.lacp, one.words);
        }
        out
    }
}

fn of(bridge: &std::sync::Arc<Bridge>) -> Vec<One> {
    let one = |bond: Bond| {
        let seen = bridge.bonds.seen(&bond.name).unwrap_or_default();
        One {
            bridge: bridge.name().to_owned(),
            words: bond.to_string(),
            name: bond.name,
            lacp: seen.lacp.to_owned(),
            active: seen.active,
            enabled: seen.enabled,
        }
    };
    bridge.config().bonds.into_iter().map(one).collect()
}
