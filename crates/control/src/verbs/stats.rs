//! `stats`: counters of ports, tables and the switch.

use super::packets::{self, Packets};
use crate::logging;
use crate::protocol::Reply;
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use switch::{Load, Switch};

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stats {}

/// The answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The engine.
    pub engine: String,
    /// The version of the pipeline that is in force.
    pub version: u64,
    /// What the control side has counted.
    pub control: BTreeMap<String, u64>,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Ports by their numbers.
    pub ports: Vec<Port>,
    /// Tables that are in use.
    pub tables: Vec<Table>,
    /// The controllers that are connected, or `none`.
    pub controllers: String,
    /// Packets by what has run them.
    pub packets: Packets,
    /// What `--validate` has found.
    pub validation: Validation,
    /// Why changes are not kept over a restart, where they should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
    /// The process's workers, in order.
    pub workers: Vec<Worker>,
}

/// Of one worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Worker {
    /// Milliseconds in rounds that found frames or commands.
    pub busy_ms: u64,
    /// Milliseconds asleep, as nothing came.
    pub asleep_ms: u64,
    /// Rounds that found something.
    pub rounds: u64,
    /// Frames and commands that they found.
    pub taken: u64,
}

/// Of one port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Frames can go out.
    pub up: bool,
    /// Its interface is there.
    pub present: bool,
    /// Frames that came in.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that went out.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Copies for controllers.
    pub punted: u64,
    /// Digests that had no room.
    pub digests_refused: u64,
    /// Frames dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Frames that the kernel dropped.
    pub kernel_rx_dropped: u64,
}

/// Of one table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// Its name.
    pub table: String,
    /// Entries.
    pub entries: u64,
    /// Packets that were looked up.
    pub lookups: u64,
    /// Those that hit an entry.
    pub matches: u64,
}

/// What `--validate` has found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Validation {
    /// Packets checked.
    pub checked: u64,
    /// Packets that the interpreter forwards otherwise.
    pub mismatches: u64,
    /// The first of them.
    pub first: Option<String>,
}

impl Verb for Stats {
    const NAME: &'static str = "stats";
    const ABOUT: &'static str = "Counters of ports, tables and the switch";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let connected: Vec<String> =
            at.controllers()?.iter().flat_map(|one| one.connected()).collect();
        let controllers = match connected.is_empty() {
            true => "none".to_owned(),
            false => connected.join(", "),
        };
        let mut answer = answer(at.switch()?, controllers);
        answer.not_kept = at
            .bridge()
            .ok()
            .and_then(|bridge| bridge.kept())
            .and_then(|kept| Some(format!("{}: {}", kept.folder(), kept.status().failing?)));
        // A switch that no process serves has none to tell of.
        if let Ok(bridges) = at.bridges() {
            answer.workers = bridges.workers().loads().iter().map(worker).collect();
        }
        Ok(Reply::Answer(answer))
    }

    fn text(answer: &Answer) -> String {
        print(answer)
    }
}

fn worker(load: &Load) -> Worker {
    Worker {
        busy_ms: load.busy_ns / 1_000_000,
        asleep_ms: load.asleep_ns / 1_000_000,
        rounds: load.busy_rounds,
        taken: load.taken,
    }
}

fn answer(switch: &Switch, controllers: String) -> Answer {
    let ports = switch.port_counters().into_iter().map(|(view, counters, kernel)| Port {
        number: view.number,
        up: view.is_up(),
        present: view.link.present,
        rx_packets: counters.rx_packets,
        rx_bytes: counters.rx_bytes,
        tx_packets: counters.tx_packets,
        tx_bytes: counters.tx_bytes,
        punted: counters.punted,
        digests_refused: counters.digests_refused,
        drops: counters.drops.iter().map(|(word, n)| ((*word).to_string(), *n)).collect(),
        kernel_rx_dropped: kernel.rx_dropped,
        kind: view.info.kind.to_string(),
        name: view.info.name,
    });
    let names: Vec<String> =
        switch.with_pipeline(|p| p.program().tables.iter().map(|t| t.name.clone()).collect());
    let tables = names
        .into_iter()
        .zip(0..)
        .map(|(table, id)| {
            let stats = switch.table_stats(ir::TableId(id));
            let (entries, lookups, matches) = (stats.entries as u64, stats.lookups, stats.matches);
            Table { table, entries, lookups, matches }
        })
        .filter(|table| table.entries > 0 || table.lookups > 0);
    let mut control: BTreeMap<String, u64> =
        switch.tallies().into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
    let (log, changes) = logging::lost();
    for (name, n) in [("log_lines_lost", log), ("changes_lost", changes)] {
        if n > 0 {
            control.insert(name.to_owned(), n);
        }
    }
    let validated = switch.validation();
    Answer {
        engine: switch.engine().to_owned(),
        version: switch.version(),
        control,
        uptime_seconds: switch.now_ns() / 1_000_000_000,
        ports: ports.collect(),
        tables: tables.collect(),
        controllers,
        packets: packets::of(&switch.ran()),
        validation: Validation {
            checked: validated.checked,
            mismatches: validated.mismatches,
            first: validated.first,
        },
        workers: Vec::new(),
        not_kept: None,
    }
}

fn print(answer: &Answer) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "engine {}, version {}, up {} s, controllers: {}",
        answer.engine, answer.version, answer.uptime_seconds, answer.controllers
    );
    if let Some(why) = &answer.not_kept {
        let _ = writeln!(out, "warning: changes are not kept over a restart: {why}");
    }
    let _ = writeln!(
        out,
        "{:>5} {:<16} {:<10} {:<5} {:>12} {:>15} {:>12} {:>15} {:>9}  drops",
        "port",
        "name",
        "kind",
        "link",
        "rx packets",
        "rx bytes",
        "tx packets",
        "tx bytes",
        "punted"
    );
    for p in &answer.ports {
        let link = match (p.present, p.up) {
            (false, _) => "gone",
            (true, true) => "up",
            (true, false) => "down",
        };
        let mut drops: Vec<String> =
            p.drops.iter().map(|(reason, n)| format!("{reason}={n}")).collect();
        if p.digests_refused > 0 {
            drops.push(format!("(digests refused: {})", p.digests_refused));
        }
        let _ = writeln!(
            out,
            "{:>5} {:<16} {:<10} {:<5} {:>12} {:>15} {:>12} {:>15} {:>9}  {}",
            p.number,
            p.name,
            p.kind,
            link,
            p.rx_packets,
            p.rx_bytes,
            p.tx_packets,
            p.tx_bytes,
            p.punted,
            drops.join(" ")
        );
    }
    let control: Vec<String> = answer.control.iter().map(|(k, n)| format!("{k}={n}")).collect();
    if !control.is_empty() {
        let _ = writeln!(out, "control: {}", control.join(" "));
    }
    packets::print(&mut out, &answer.packets);
    let _ = writeln!(out, "{:<16} {:>10} {:>14} {:>14}", "table", "entries", "lookups", "matches");
    for t in &answer.tables {
        let _ =
            writeln!(out, "{:<16} {:>10} {:>14} {:>14}", t.table, t.entries, t.lookups, t.matches);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_digests_stand_beside_the_drops() {
        let port = |refused| Port {
            name: "p".to_owned(),
            drops: BTreeMap::from([("no_match".to_owned(), 2)]),
            digests_refused: refused,
            ..Port::default()
        };
        let shown = |refused| print(&Answer { ports: vec![port(refused)], ..Answer::default() });
        assert!(shown(3).contains("  no_match=2 (digests refused: 3)\n"), "{}", shown(3));
        assert!(shown(0).contains("  no_match=2\n"), "{}", shown(0));
    }
}
