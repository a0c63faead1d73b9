//! `stations`: which addresses NORMAL has learnt, and where.

use super::bridge::number;
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stations {
    /// Forget all that were learnt.
    pub flush: bool,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// How many were forgotten.
    pub flushed: usize,
    /// Those that are known, by port, VLAN and address.
    pub stations: Vec<One>,
}

/// Of one station.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// The port that it is behind.
    pub port: u32,
    /// Its VLAN, 0 for none.
    pub vlan: u16,
    /// Its address.
    pub mac: String,
    /// Seconds since its last packet; none of one that stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
}

impl Verb for Stations {
    const NAME: &'static str = "stations";
    const ABOUT: &'static str = "The addresses that NORMAL has learnt, shown or forgotten";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridge = at.bridge()?;
        if bridge.openflow().is_none() {
            return Err(format!(
                "bridge {:?} runs a P4 program, which learns by itself",
                bridge.name()
            ));
        }
        let flushed = if self.flush { bridge.flush_stations() } else { 0 };
        let stations = bridge.stations().into_iter().map(|station| One {
            port: station.port,
            vlan: station.vlan,
            mac: station.mac.map(|byte| format!("{byte:02x}")).join(":"),
            age_seconds: station.age.map(|age| age.as_secs()),
        });
        Ok(Reply::Answer(Answer { flushed, stations: stations.collect() }))
    }

    fn change(&self) -> Option<Change> {
        self.flush.then(|| Change { kind: "stations", how: "delete", text: String::new() })
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{:>5} {:>5}  {:<17} {:>8}", "port", "vlan", "address", "age");
        for one in &answer.stations {
            let port = number(one.port);
            let age = one.age_seconds.map_or_else(|| "static".to_owned(), |age| format!("{age} s"));
            let _ = writeln!(out, "{port:>5} {:>5}  {:<17} {age:>8}", one.vlan, one.mac);
        }
        out
    }
}
