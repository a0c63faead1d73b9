//! `queue`: egress queues: some are set, then all are told.

use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use datapath::queues::{PortRef, Setting};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use switch::Switch;

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Queue {
    /// Settings as users write them: `PORT[:ID],OPTION=VALUE...`.
    pub set: Vec<String>,
    /// Ports that lose theirs, by name or number.
    pub clear: Vec<String>,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Ports that have queues.
    pub ports: Vec<Port>,
}

/// A port that has queues.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its rate in bits a second.
    pub max_bps: Option<u64>,
    /// Its queues.
    pub queues: Vec<One>,
}

/// A queue.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its number.
    pub id: u32,
    /// Bits a second that it has in any case.
    pub min_bps: Option<u64>,
    /// Bits a second at most.
    pub max_bps: Option<u64>,
    /// Its priority.
    pub priority: u64,
    /// Its weight among those of the same priority.
    pub weight: u64,
    /// Packets that it holds at most.
    pub limit: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets dropped.
    pub tx_errors: u64,
}

impl Verb for Queue {
    const NAME: &'static str = "queue";
    const ABOUT: &'static str = "Egress queues: set, cleared, shown";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        answer(at.switch()?, &self.set, &self.clear).map(Reply::Answer)
    }

    fn change(&self) -> Option<Change> {
        if self.set.is_empty() && self.clear.is_empty() {
            return None;
        }
        let text = [self.set.join(" "), self.clear.join(" ")].join(" ").trim().to_owned();
        Some(Change { kind: "queue", how: "modify", text })
    }

    fn text(answer: &Answer) -> String {
        print(answer)
    }
}

/// A setting as users write it.
pub fn setting(text: &str) -> Result<Setting, String> {
    Setting::parse(text).map_err(|e| format!("{text}: {e}"))
}

fn answer(switch: &Switch, set: &[String], clear: &[String]) -> Result<Answer, String> {
    let settings = set.iter().map(|text| setting(text)).collect::<Result<Vec<_>, _>>()?;
    let number = |port: &String| switch.port_number(&PortRef::from(port.as_str()));
    let cleared = clear.iter().map(number).collect::<Result<Vec<_>, _>>();
    for port in cleared.map_err(|e| e.to_string())? {
        switch.clear_queues(port).map_err(|e| e.to_string())?;
    }
    switch.set_queues(&settings).map_err(|e| e.to_string())?;
    let ports = switch.ports().into_iter().filter_map(|port| {
        let queues = switch.queues(port.number)?;
        let each = queues.counters().map(|(config, counters)| One {
            id: config.id,
            min_bps: config.min_bps,
            max_bps: config.max_bps,
            priority: config.priority.into(),
            weight: config.weight.into(),
            limit: config.limit as u64,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            tx_errors: counters.tx_errors,
        });
        let (max_bps, queues) = (queues.config().max_bps, each.collect());
        Some(Port { number: port.number, name: port.info.name, max_bps, queues })
    });
    Ok(Answer { ports: ports.collect() })
}

fn print(answer: &Answer) -> String {
    let mut out = String::new();
    let rate = |bps: Option<u64>| bps.map_or_else(|| "-".to_owned(), short);
    if answer.ports.is_empty() {
        return "no port has queues; `millrace queue set PORT:ID,max=RATE` makes one\n".to_owned();
    }
    // Writing to a string does not fail.
    for port in &answer.ports {
        let _ = writeln!(out, "port {} {}, max {}", port.number, port.name, rate(port.max_bps));
        let _ = writeln!(
            out,
            "{:>8} {:>8} {:>8} {:>9} {:>7} {:>7} {:>14} {:>16} {:>10}",
            "queue", "min", "max", "priority", "weight", "limit", "packets", "bytes", "dropped"
        );
        for queue in &port.queues {
            let _ = writeln!(
                out,
                "{:>8} {:>8} {:>8} {:>9} {:>7} {:>7} {:>14} {:>16} {:>10}",
                queue.id,
                rate(queue.min_bps),
                rate(queue.max_bps),
                queue.priority,
                queue.weight,
                queue.limit,
                queue.tx_packets,
                queue.tx_bytes,
                queue.tx_errors
            );
        }
    }
    out
}

/// A rate as it is written in a setting.
fn short(bps: u64) -> String {
    for (scale, letter) in [(1_000_000_000, 'G'), (1_000_000, 'M'), (1_000, 'k')] {
        if bps >= scale && bps.is_multiple_of(scale) {
            return format!("{}{letter}", bps / scale);
        }
    }
    bps.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn queues_are_shown_as_they_were_set() {
        let print = |value| print(&serde_json::from_value(value).unwrap());
        let queue = json!({"id": 1, "min_bps": 2_000_000, "max_bps": null, "priority": 3, "weight": 4,
            "limit": 1000, "tx_packets": 5, "tx_bytes": 600, "tx_errors": 7});
        let value = json!({"ports": [
            {"number": 2, "name": "eth0", "max_bps": 1_500_000_000u64, "queues": [queue]}]});
        let expected = "\
port 2 eth0, max 1500M
   queue      min      max  priority  weight   limit        packets            bytes    dropped
       1       2M        -         3       4    1000              5              600          7
";
        assert_eq!(print(value), expected);
        assert!(print(json!({"ports": []})).starts_with("no port has queues"));
        assert_eq!([short(1), short(1500), short(3_000)], ["1", "1500", "3k"]);
    }
}
