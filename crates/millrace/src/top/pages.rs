//! Rows of each page, and rates between two readings.

use super::read::Reading;
use clap::ValueEnum;
use console::short;
use control::verbs::flows::One;
use control::verbs::stats;
use std::collections::{BTreeMap, HashMap};

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Page {
    /// Rates of each port, and its drops
    #[default]
    Ports,
    /// Flow entries, those with most packets a second first
    Flows,
    /// Lookups and hits of each table, and how it is looked up
    Tables,
    /// Drops by port and reason
    Drops,
    /// What workers spend their time on
    Workers,
    /// Connections of OpenFlow's ct
    Connections,
}

impl Page {
    pub(super) const ALL: [Page; 6] =
        [Page::Ports, Page::Flows, Page::Tables, Page::Drops, Page::Workers, Page::Connections];

    pub(super) fn name(self) -> &'static str {
        match self {
            Page::Ports => "ports",
            Page::Flows => "flows",
            Page::Tables => "tables",
            Page::Drops => "drops",
            Page::Workers => "workers",
            Page::Connections => "connections",
        }
    }
}

/// What a page is narrowed to: whoever goes from a port to its drops, from a table to its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// Entries of this table.
    pub(super) table: Option<String>,
    /// Drops at this port.
    pub(super) port: Option<String>,
}

/// A column.
pub(super) struct Column {
    pub(super) name: &'static str,
    /// Words stand at the left, numbers at the right.
    pub(super) left: bool,
}

/// A row.
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    /// Something happens there.
    pub(super) busy: bool,
    /// Something is wrong there.
    pub(super) bad: bool,
    /// What it stands for, to go on from there: a port's or table's name, an entry's number.
    pub(super) key: String,
    rate: f64,
}

/// A page.
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// What is not shown, or why nothing is.
    pub(super) remark: Option<String>,
}

/// Names of columns; those that stand at the left begin with `<`.
fn columns(names: &[&'static str]) -> Vec<Column> {
    let column = |name: &&'static str| Column {
        name: name.trim_start_matches('<'),
        left: name.starts_with('<'),
    };
    names.iter().map(column).collect()
}

/// Something a second, of two counts.
struct Rates {
    seconds: f64,
}

impl Rates {
    fn between(before: &Reading, now: &Reading) -> Rates {
        Rates { seconds: now.at.duration_since(before.at).as_secs_f64().max(1e-3) }
    }

    fn of(&self, before: u64, now: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.seconds
    }
}

fn drops(ports: &[stats::Port]) -> u64 {
    ports.iter().flat_map(|port| port.drops.values()).sum()
}

fn sum(ports: &[stats::Port], count: fn(&stats::Port) -> u64) -> u64 {
    ports.iter().map(count).sum()
}

/// The line above each page.
pub(super) fn head(before: &Reading, now: &Reading) -> String {
    let rates = Rates::between(before, now);
    let (old, new) = (&before.stats, &now.stats);
    let of = |count: fn(&stats::Port) -> u64| {
        short(rates.of(sum(&old.ports, count), sum(&new.ports, count)))
    };
    let ran = |answer: &stats::Answer| {
        answer
            .packets
            .iter()
            .filter(|(name, _)| *name == "interpreter")
            .map(|(_, run)| run.packets)
            .sum()
    };
    format!(
        "in {}pps  out {}pps  {}b/s  dropped {}/s  to controllers {}/s  interpreted {}/s  engine {}  version {}  \
         controllers {}",
        of(|port| port.rx_packets),
        of(|port| port.tx_packets),
        short(8.0 * rates.of(sum(&old.ports, |p| p.tx_bytes), sum(&new.ports, |p| p.tx_bytes))),
        short(rates.of(drops(&old.ports), drops(&new.ports))),
        of(|port| port.punted),
        short(rates.of(ran(old), ran(new))),
        new.engine,
        new.version,
        new.controllers,
    )
}

/// A page's rows between two readings.
pub(super) fn table(page: Page, scope: &Scope, before: &Reading, now: &Reading) -> Table {
    let rates = Rates::between(before, now);
    match page {
        Page::Ports => ports(&rates, &before.stats, &now.stats),
        Page::Flows => flows(&rates, before, now),
        Page::Tables => tables(&rates, before, now),
        Page::Drops => dropped(&rates, scope, &before.stats, &now.stats),
        Page::Workers => workers(&rates, &before.stats, &now.stats),
        Page::Connections => connections(&rates, before, now),
    }
}

fn ports(rates: &Rates, before: &stats::Answer, now: &stats::Answer) -> Table {
    let none = stats::Port::default();
    let rows = now.ports.iter().map(|port| {
        let old = before.ports.iter().find(|old| old.number == port.number).unwrap_or(&none);
        let (rx, tx) =
            (rates.of(old.rx_packets, port.rx_packets), rates.of(old.tx_packets, port.tx_packets));
        let lost = rates.of(drops(std::slice::from_ref(old)), drops(std::slice::from_ref(port)));
        let link = match (port.present, port.up) {
            (false, _) => "gone",
            (true, true) => "up",
            (true, false) => "down",
        };
        Row {
            cells: vec![
                port.number.to_string(),
                port.name.clone(),
                port.kind.clone(),
                link.to_owned(),
                short(rx),
                short(8.0 * rates.of(old.rx_bytes, port.rx_bytes)),
                short(tx),
                short(8.0 * rates.of(old.tx_bytes, port.tx_bytes)),
                short(lost),
                short(rates.of(old.punted, port.punted)),
            ],
            busy: rx + tx > 0.0,
            bad: lost > 0.0 || !port.up,
            key: port.name.clone(),
            rate: rx + tx,
        }
    });
    let names = [
        "port", "<name", "<kind", "<link", "in pps", "in b/s", "out pps", "out b/s", "drops/s",
        "punts/s",
    ];
    Table { columns: columns(&names), rows: rows.collect(), remark: None }
}

/// Most packets first; of equals those with most packets so far.
fn flows(rates: &Rates, before: &Reading, now: &Reading) -> Table {
    let names = ["table", "priority", "pps", "b/s", "packets", "idle", "<match", "<actions"];
    let columns = columns(&names);
    let answer = match &now.flows {
        Some(Ok(answer)) => answer,
        Some(Err(text)) => {
            return Table { columns, rows: Vec::new(), remark: Some(text.clone()) };
        }
        None => return Table { columns, rows: Vec::new(), remark: None },
    };
    let old: HashMap<u32, &One> = match &before.flows {
        Some(Ok(answer)) => answer.flows.iter().map(|one| (one.id, one)).collect(),
        _ => HashMap::new(),
    };
    let known = matches!(&before.flows, Some(Ok(_)));
    let mut rows: Vec<(u64, Row)> = answer
        .flows
        .iter()
        .map(|one| {
            // Of an entry that was not told before nothing is known but that it was idle, or new.
            let from = |count: fn(&One) -> u64| match old.get(&one.id) {
                Some(old) => count(old),
                None if known && one.age_seconds == 0 => 0,
                None => count(one),
            };
            let packets = rates.of(from(|one| one.packets), one.packets);
            let row = Row {
                cells: vec![
                    one.table.to_string(),
                    one.priority.to_string(),
                    short(packets),
                    short(8.0 * rates.of(from(|one| one.bytes), one.bytes)),
                    one.packets.to_string(),
                    one.idle_seconds.map_or_else(|| "-".to_owned(), |idle| format!("{idle} s")),
                    if one.matching.is_empty() { "*".to_owned() } else { one.matching.clone() },
                    one.actions.clone(),
                ],
                busy: packets > 0.0,
                bad: false,
                key: one.id.to_string(),
                rate: packets,
            };
            (one.packets, row)
        })
        .collect();
    rows.sort_by(|(a_count, a), (b_count, b)| b.rate.total_cmp(&a.rate).then(b_count.cmp(a_count)));
    let (told, chosen) = (answer.flows.len(), answer.chosen);
    let remark = (told < chosen).then(|| format!("the {told} entries hit last, of {chosen}"));
    Table { columns, rows: rows.into_iter().map(|(_, row)| row).collect(), remark }
}

fn tables(rates: &Rates, before: &Reading, now: &Reading) -> Table {
    let choices: BTreeMap<&str, String> = match &now.tables {
        Some(explained) => {
            explained.tables.iter().map(|table| (&*table.table, chosen(&table.choice))).collect()
        }
        None => BTreeMap::new(),
    };
    let none = stats::Table::default();
    let rows = now.stats.tables.iter().map(|table| {
        let old = before.stats.tables.iter().find(|old| old.table == table.table).unwrap_or(&none);
        let lookups = rates.of(old.lookups, table.lookups);
        let matched = rates.of(old.matches, table.matches);
        let share = match lookups > 0.0 {
            true => format!("{:.1} %", (100.0 * matched / lookups).min(100.0)),
            false => "-".to_owned(),
        };
        Row {
            cells: vec![
                table.table.clone(),
                table.entries.to_string(),
                short(lookups),
                share,
                choices.get(&*table.table).cloned().unwrap_or_default(),
            ],
            busy: lookups > 0.0,
            bad: false,
            key: table.table.clone(),
            rate: lookups,
        }
    });
    let names = ["<table", "entries", "lookups/s", "hits", "<lookup, and why"];
    Table { columns: columns(&names), rows: rows.collect(), remark: None }
}

/// Of what `explain` says of a table: the structure that was chosen, and why.
fn chosen(choice: &str) -> String {
    let line = choice.lines().find_map(|line| line.trim().split_once("chosen:"));
    match line {
        Some((name, why)) => format!("{}: {}", name.trim(), why.trim()),
        None => choice.lines().next().unwrap_or_default().to_owned(),
    }
}

/// Those that happen first, the most first.
fn dropped(rates: &Rates, scope: &Scope, before: &stats::Answer, now: &stats::Answer) -> Table {
    let mut rows = Vec::new();
    for port in &now.ports {
        if scope.port.as_ref().is_some_and(|only| *only != port.name) {
            continue;
        }
        let old = before.ports.iter().find(|old| old.number == port.number);
        for (reason, n) in port.drops.iter().filter(|(_, n)| **n > 0) {
            let was = old.and_then(|old| old.drops.get(reason)).copied().unwrap_or(0);
            let rate = rates.of(was, *n);
            let text = ir::DropReason::from_word(reason).map_or("", ir::DropReason::text);
            rows.push(Row {
                cells: vec![
                    port.name.clone(),
                    reason.clone(),
                    short(rate),
                    n.to_string(),
                    text.to_owned(),
                ],
                busy: rate > 0.0,
                bad: rate > 0.0,
                key: port.name.clone(),
                rate,
            });
        }
    }
    rows.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    let remark = match (&scope.port, rows.is_empty()) {
        (Some(port), true) => Some(format!("nothing was dropped at {port}")),
        (None, true) => Some("nothing was dropped".to_owned()),
        _ => None,
    };
    let names = ["<port", "<reason", "per s", "in all", "<meaning"];
    Table { columns: columns(&names), rows, remark }
}

fn workers(rates: &Rates, before: &stats::Answer, now: &stats::Answer) -> Table {
    let none = stats::Worker::default();
    let rows = now.workers.iter().enumerate().map(|(n, worker)| {
        let old = before.workers.get(n).unwrap_or(&none);
        let taken = rates.of(old.taken, worker.taken);
        let rounds = rates.of(old.rounds, worker.rounds);
        Row {
            cells: vec![
                n.to_string(),
                format!("{:.1} %", (rates.of(old.busy_ms, worker.busy_ms) / 10.0).min(100.0)),
                short(taken),
                format!("{:.1}", if rounds > 0.0 { taken / rounds } else { 0.0 }),
            ],
            busy: taken > 0.0,
            bad: false,
            key: n.to_string(),
            rate: taken,
        }
    });
    let names = ["worker", "busy", "frames/s", "frames a round"];
    Table { columns: columns(&names), rows: rows.collect(), remark: None }
}

fn connections(rates: &Rates, before: &Reading, now: &Reading) -> Table {
    let columns = columns(&["<connections", "per s", "now or in all"]);
    let known = match &now.connections {
        Some(Ok(known)) => known,
        Some(Err(text)) => return Table { columns, rows: Vec::new(), remark: Some(text.clone()) },
        None => return Table { columns, rows: Vec::new(), remark: None },
    };
    let old = before.connections.as_ref().and_then(|old| old.as_ref().ok());
    let row = |name: &str, rate: Option<f64>, n: u64| Row {
        cells: vec![name.replace('_', " "), rate.map_or_else(String::new, short), n.to_string()],
        busy: n > 0,
        bad: false,
        key: name.to_owned(),
        rate: rate.unwrap_or(0.0),
    };
    let mut rows = vec![
        row("held", None, known.held),
        row("half open", None, known.half_open),
        row("bytes of memory", None, known.memory_bytes),
    ];
    rows.extend(known.counters.iter().map(|(name, n)| {
        let was = old.and_then(|old| old.counters.get(name)).copied().unwrap_or(*n);
        row(name, Some(rates.of(was, *n)), *n)
    }));
    Table { columns, rows, remark: None }
}

/// What is known of one entry, a line each: all of it, its rate, how its table is looked up.
pub(super) fn entry(id: &str, before: &Reading, now: &Reading) -> Vec<String> {
    let found = |reading: &Reading| match &reading.flows {
        Some(Ok(answer)) => answer.flows.iter().find(|one| one.id.to_string() == id).cloned(),
        _ => None,
    };
    let Some(one) = found(now) else {
        return vec!["The entry has gone, or others were hit since.".to_owned()];
    };
    let rates = Rates::between(before, now);
    let old = found(before).unwrap_or_else(|| one.clone());
    let seconds =
        |timeout: u16| if timeout == 0 { "never".to_owned() } else { format!("{timeout} s") };
    let name = format!("t{}", one.table);
    let mut explained = now.tables.iter().flat_map(|explained| &explained.tables);
    let looked_up = explained.find(|table| table.table == name).map(|table| chosen(&table.choice));
    vec![
        format!("table      {}", one.table),
        format!("priority   {}", one.priority),
        format!("cookie     {}", one.cookie),
        format!("match      {}", if one.matching.is_empty() { "*" } else { &one.matching }),
        format!("actions    {}", one.actions),
        format!("packets    {} ({}pps)", one.packets, short(rates.of(old.packets, one.packets))),
        format!("bytes      {} ({}b/s)", one.bytes, short(8.0 * rates.of(old.bytes, one.bytes))),
        format!("age        {} s", one.age_seconds),
        format!(
            "last hit   {}",
            one.idle_seconds.map_or_else(|| "never".to_owned(), |idle| format!("{idle} s ago"))
        ),
        format!(
            "goes       idle: {}, hard: {}",
            seconds(one.idle_timeout),
            seconds(one.hard_timeout)
        ),
        format!("lookup     {}", looked_up.unwrap_or_else(|| "not known".to_owned())),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use control::verbs::{explain, flows};
    use std::time::{Duration, Instant};

    /// Two readings, two seconds apart.
    pub(in crate::top) fn readings() -> (Reading, Reading) {
        let began = Instant::now();
        let reading = |seconds: u64| {
            let port = |number: u32, up| stats::Port {
                number,
                name: format!("p{number}"),
                kind: "tap".to_owned(),
                up,
                present: true,
                rx_packets: 1000 * seconds * u64::from(number),
                rx_bytes: 64_000 * seconds,
                tx_packets: 500 * seconds,
                drops: BTreeMap::from([(
                    "action_drop".to_owned(),
                    10 * seconds * u64::from(number),
                )]),
                ..stats::Port::default()
            };
            let one = |id: u32, rate: u64| One {
                id,
                priority: id as u16,
                packets: 100 + rate * seconds,
                matching: format!("tcp,tp_dst={id}"),
                actions: "output:2".to_owned(),
                age_seconds: 9,
                ..One::default()
            };
            Reading {
                at: began + Duration::from_secs(seconds),
                stats: stats::Answer {
                    engine: "compiled".to_owned(),
                    ports: vec![port(1, true), port(2, false)],
                    tables: vec![stats::Table {
                        table: "t0".to_owned(),
                        entries: 3,
                        lookups: 200 * seconds,
                        matches: 150 * seconds,
                    }],
                    workers: vec![stats::Worker {
                        busy_ms: 250 * seconds,
                        asleep_ms: 500 * seconds,
                        rounds: 10 * seconds,
                        taken: 320 * seconds,
                    }],
                    ..stats::Answer::default()
                },
                flows: Some(Ok(flows::Answer {
                    chosen: 5,
                    total: 9,
                    flows: vec![one(1, 5), one(2, 50)],
                })),
                tables: Some(explain::Answer {
                    tables: vec![explain::Table {
                        table: "t0".to_owned(),
                        choice:
                            "t0 (exact)\n  direct_code  declined\n  hash         chosen: exact keys"
                                .to_owned(),
                        ..explain::Table::default()
                    }],
                    ..explain::Answer::default()
                }),
                connections: Some(Err("no connections here".to_owned())),
            }
        };
        (reading(2), reading(4))
    }

    fn cells(page: Page, scope: &Scope) -> Vec<Vec<String>> {
        let (before, now) = readings();
        table(page, scope, &before, &now).rows.into_iter().map(|row| row.cells).collect()
    }

    #[test]
    fn counts_become_rates_of_a_second() {
        let all = Scope::default();
        assert_eq!(
            cells(Page::Ports, &all)[1],
            ["2", "p2", "tap", "down", "2.0k", "512.0k", "500", "0", "20", "0"]
        );
        assert_eq!(cells(Page::Tables, &all)[0], ["t0", "3", "200", "75.0 %", "hash: exact keys"]);
        assert_eq!(cells(Page::Workers, &all)[0], ["0", "25.0 %", "320", "32.0"]);
        // The busiest first.
        let flows = cells(Page::Flows, &all);
        assert_eq!((&*flows[0][2], &*flows[0][6]), ("50", "tcp,tp_dst=2"));
        let drops = cells(Page::Drops, &all);
        assert_eq!(drops[0][..4], ["p2", "action_drop", "20", "80"]);
        assert_eq!(drops.len(), 2);
        let (before, now) = readings();
        assert!(
            head(&before, &now).starts_with("in 3.0kpps  out 1.0kpps  "),
            "{}",
            head(&before, &now)
        );
    }

    #[test]
    fn a_page_may_be_narrowed_and_says_what_it_leaves_out() {
        let (before, now) = readings();
        let scope = Scope { port: Some("p1".to_owned()), ..Scope::default() };
        assert_eq!(cells(Page::Drops, &scope).len(), 1);
        let flows = table(Page::Flows, &Scope::default(), &before, &now);
        assert_eq!(flows.remark.as_deref(), Some("the 2 entries hit last, of 5"));
        let connections = table(Page::Connections, &Scope::default(), &before, &now);
        assert_eq!(connections.remark.as_deref(), Some("no connections here"));
        let told = entry("2", &before, &now).join("\n");
        assert!(told.contains("300 (50pps)") && told.contains("hash: exact keys"), "{told}");
        assert!(entry("7", &before, &now)[0].contains("has gone"));
    }
}
