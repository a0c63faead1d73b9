//! `mirror`: mirrors of a bridge, shown, added and removed.

use crate::bridges::{Bridge, Mirror, MirrorError};
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question: what to do, in this order, or nothing; then the mirrors are told.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mirrors {
    /// Remove those of these names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Add these: `NAME,all,to=PORT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The mirrors of the bridge that was named, or of all.
    pub mirrors: Vec<One>,
}

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

impl Verb for Mirrors {
    const NAME: &'static str = "mirror";
    const ABOUT: &'static str = "Mirrors of a bridge, shown, added and removed";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridges = at.bridges()?;
        let added = self.add.iter().map(|text| text.parse::<Mirror>());
        let added = added.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        if !(self.add.is_empty() && self.remove.is_empty()) {
            let bridge = at.bridge()?;
            let mut mirrors = bridge.config().mirrors;
            for name in &self.remove {
                let before = mirrors.len();
                mirrors.retain(|mirror| mirror.name != *name);
                if mirrors.len() == before {
                    return Err(MirrorError::NoMirror(name.clone()).to_string());
                }
            }
            for mirror in &added {
                bridge.check_ports(mirror).map_err(|e| e.to_string())?;
            }
            mirrors.extend(added);
            bridges.set_mirrors(bridge.name(), mirrors).map_err(|e| e.to_string())?;
        }
        let mirrors = match at.named() {
            Some(bridge) => of(bridge),
            None => bridges.all().iter().flat_map(of).collect(),
        };
        Ok(Reply::Answer(Answer { mirrors }))
    }

    fn change(&self) -> Option<Change> {
        let how = match (self.add.is_empty(), self.remove.is_empty()) {
            (false, _) => "add",
            (_, false) => "delete",
            _ => return None,
        };
        let words: Vec<String> = self.remove.iter().chain(&self.add).cloned().collect();
        Some(Change { kind: "mirror", how, text: words.join(" ") })
    }

    fn text(answer: &Answer) -> String {
        print(answer)
    }
}

fn of(bridge: &std::sync::Arc<Bridge>) -> Vec<One> {
    let one = |mirror: Mirror| {
        let counts = bridge.mirror_counts(&mirror.name);
        let (tx_packets, tx_bytes) = counts.unwrap_or_default();
        One {
            bridge: bridge.name().to_owned(),
            words: mirror.to_string(),
            present: counts.is_some(),
            name: mirror.name,
            tx_packets,
            tx_bytes,
        }
    };
    bridge.config().mirrors.into_iter().map(one).collect()
}

fn print(answer: &Answer) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{:<16} {:>12} {:>14}  mirror", "bridge", "packets", "bytes");
    for one in &answer.mirrors {
        let note = if one.present { "" } else { " (its port is not there)" };
        let _ = writeln!(
            out,
            "{:<16} {:>12} {:>14}  {}{note}",
            one.bridge, one.tx_packets, one.tx_bytes, one.words
        );
    }
    out
}
