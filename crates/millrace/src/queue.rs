//! `millrace queue`: egress queues of a running switch, shown and changed.
//!
//! The switch's side of the question ([`answer`]) is here, too.

use crate::cli::{QueueCommand, QueueOptions};
use crate::ctl::{Request, ask};
use control::failure::Failure;
use datapath::queues::{PortRef, Setting};
use serde_json::{Value, json};
use std::fmt::Write as _;
use switch::Switch;

/// `millrace queue`.
pub(crate) fn queue(options: QueueOptions) -> Result<(), Failure> {
    let (set, clear) = match options.command {
        None | Some(QueueCommand::Show) => (Vec::new(), Vec::new()),
        Some(QueueCommand::Set { settings }) => (settings, Vec::new()),
        Some(QueueCommand::Clear { ports }) => (Vec::new(), ports),
    };
    // What is wrong with a setting by itself is told without a switch.
    for text in &set {
        setting(text).map_err(Failure::Usage)?;
    }
    let value = ask(options.ctl.as_deref(), &Request::Queue { set, clear })?;
    crate::query::show(&value, options.json, print)
}

fn setting(text: &str) -> Result<Setting, String> {
    Setting::parse(text).map_err(|e| format!("{text}: {e}"))
}

/// The switch's answer.
pub(crate) fn answer(switch: &Switch, set: &[String], clear: &[String]) -> Result<Value, String> {
    let settings = set.iter().map(|text| setting(text)).collect::<Result<Vec<_>, _>>()?;
    let number = |port: &String| switch.port_number(&PortRef::from(port.as_str()));
    let cleared = clear.iter().map(number).collect::<Result<Vec<_>, _>>();
    for port in cleared.map_err(|e| e.to_string())? {
        switch.clear_queues(port).map_err(|e| e.to_string())?;
    }
    switch.set_queues(&settings).map_err(|e| e.to_string())?;
    let ports = switch.ports().into_iter().filter_map(|port| {
        let queues = switch.queues(port.number)?;
        let each = queues.counters().map(|(config, counters)| {
            json!({
                "id": config.id, "min_bps": config.min_bps, "max_bps": config.max_bps,
                "priority": config.priority, "weight": config.weight, "limit": config.limit,
                "tx_packets": counters.tx_packets, "tx_bytes": counters.tx_bytes,
                "tx_errors": counters.tx_errors,
            })
        });
        Some(json!({
            "number": port.number, "name": port.info.name,
            "max_bps": queues.config().max_bps, "queues": each.collect::<Vec<_>>(),
        }))
    });
    Ok(json!({"ports": ports.collect::<Vec<_>>()}))
}

fn print(value: &Value) -> String {
    let mut out = String::new();
    let rate = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), short);
    let ports = value["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if ports.is_empty() {
        return "no port has queues; `millrace queue set PORT:ID,max=RATE` makes one\n".to_owned();
    }
    // Writing to a string does not fail.
    for port in ports {
        let name = port["name"].as_str().unwrap_or("?");
        let _ = writeln!(out, "port {} {name}, max {}", port["number"], rate(&port["max_bps"]));
        let _ = writeln!(
            out,
            "{:>8} {:>8} {:>8} {:>9} {:>7} {:>7} {:>14} {:>16} {:>10}",
            "queue", "min", "max", "priority", "weight", "limit", "packets", "bytes", "dropped"
        );
        for queue in port["queues"].as_array().into_iter().flatten() {
            let n = |key: &str| queue[key].as_u64().unwrap_or(0);
            let _ = writeln!(
                out,
                "{:>8} {:>8} {:>8} {:>9} {:>7} {:>7} {:>14} {:>16} {:>10}",
                n("id"),
                rate(&queue["min_bps"]),
                rate(&queue["max_bps"]),
                n("priority"),
                n("weight"),
                n("limit"),
                n("tx_packets"),
                n("tx_bytes"),
                n("tx_errors")
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

    #[test]
    fn queues_are_shown_as_they_were_set() {
        let queue = json!({"id": 1, "min_bps": 2_000_000, "max_bps": null, "priority": 3, "weight": 4,
            "limit": 1000, "tx_packets": 5, "tx_bytes": 600, "tx_errors": 7});
        let value = json!({"ports": [
            {"number": 2, "name": "eth0", "max_bps": 1_500_000_000u64, "queues": [queue]}]});
        let expected = "\
port 2 eth0, max 1500M
   queue      min      max  priority  weight   limit        packets            bytes    dropped
       1       2M        -         3       4    1000              5              600          7
";
        assert_eq!(print(&value), expected);
        assert!(print(&json!({"ports": []})).starts_with("no port has queues"));
        assert_eq!([short(1), short(1500), short(3_000)], ["1", "1500", "3k"]);
    }
}
