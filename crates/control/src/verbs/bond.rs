//! `bond`: bonds of a bridge, shown, added and removed: `NAME,members=PORT,PORT,mode=balance-slb`.

use super::named::{List, Named};
use crate::bonds::{Bond, BondError};
use crate::bridges::{Bridge, Bridges, Error};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question. Ports of a bond that is removed are ports as any other then.
pub type Bonds = List<Bond>;

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

impl Named for Bond {
    const NAME: &'static str = "bond";
    const ABOUT: &'static str = "Bonds of a bridge, shown, added and removed";
    const LIST: &'static str = "bonds";
    type Shown = One;

    fn name(&self) -> &str {
        &self.name
    }

    fn of(bridge: &Bridge) -> Vec<Bond> {
        bridge.config().bonds
    }

    fn set(bridges: &Bridges, bridge: &str, all: Vec<Bond>) -> Result<(), Error> {
        bridges.set_bonds(bridge, all)
    }

    fn none(name: &str) -> String {
        BondError::NoBond(name.to_owned()).to_string()
    }

    fn shown(self, bridge: &Bridge) -> One {
        let seen = bridge.bonds.seen(&self.name).unwrap_or_default();
        One {
            bridge: bridge.name().to_owned(),
            words: self.to_string(),
            name: self.name,
            lacp: seen.lacp.to_owned(),
            active: seen.active,
            enabled: seen.enabled,
        }
    }

    fn text(all: &[One]) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{:<16} {:<11} {:<16}  bond", "bridge", "lacp", "active");
        for one in all {
            let active = one.active.as_deref().unwrap_or("none");
            let _ =
                writeln!(out, "{:<16} {:<11} {active:<16}  {}", one.bridge, one.lacp, one.words);
        }
        out
    }
}
