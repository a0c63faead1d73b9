//! `mirror`: mirrors of a bridge, shown, added and removed: `NAME,all,to=PORT`.

use super::named::{List, Named};
use crate::bridges::{Bridge, Bridges, Error, Mirror, MirrorError};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question.
pub type Mirrors = List<Mirror>;

/// Of one mirror.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its bridge.
    pub bridge: String,
    /// Its name.
    pub name: String,
    /// As it was added.
    pub words: String,
    /// Its port is there.
    pub present: bool,
    /// Packets that it has copied.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
}

impl Named for Mirror {
    const NAME: &'static str = "mirror";
    const ABOUT: &'static str = "Mirrors of a bridge, shown, added and removed";
    const LIST: &'static str = "mirrors";
    type Shown = One;

    fn name(&self) -> &str {
        &self.name
    }

    fn of(bridge: &Bridge) -> Vec<Mirror> {
        bridge.config().mirrors
    }

    fn check(&self, bridge: &Bridge) -> Result<(), String> {
        bridge.check_ports(self).map_err(|e| e.to_string())
    }

    fn set(bridges: &Bridges, bridge: &str, all: Vec<Mirror>) -> Result<(), Error> {
        bridges.set_mirrors(bridge, all)
    }

    fn none(name: &str) -> String {
        MirrorError::NoMirror(name.to_owned()).to_string()
    }

    fn shown(self, bridge: &Bridge) -> One {
        let counts = bridge.mirror_counts(&self.name);
        let (tx_packets, tx_bytes) = counts.unwrap_or_default();
        One {
            bridge: bridge.name().to_owned(),
            words: self.to_string(),
            present: counts.is_some(),
            name: self.name,
            tx_packets,
            tx_bytes,
        }
    }

    fn text(all: &[One]) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{:<16} {:>12} {:>14}  mirror", "bridge", "packets", "bytes");
        for one in all {
            let note = if one.present { "" } else { " (its port is not there)" };
            let _ = writeln!(
                out,
                "{:<16} {:>12} {:>14}  {}{note}",
                one.bridge, one.tx_packets, one.tx_bytes, one.words
            );
        }
        out
    }
}
