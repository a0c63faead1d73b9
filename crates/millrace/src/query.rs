//! `trace`, `stats`, `explain`: looks into a running switch by its control socket, or into files.
//!
//! The switch's side of the socket ([`answer`]) is here, too, so that question and answer stand in
//! one place.

use crate::cli::{DumpOptions, ExplainOptions, QueryOptions, Source, TraceOptions};
use crate::ctl::{Request, ask};
use control::failure::Failure;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use switch::{Counted, Ran, Switch};

/// An engine comes to rest within so long, or is asked as it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between looks whether it has.
const PAUSE: Duration = Duration::from_millis(2);

/// `millrace stats`.
pub(crate) fn stats(options: QueryOptions) -> Result<(), Failure> {
    let value = ask(options.ctl.as_deref(), &Request::Stats)?;
    show(&value, options.json, print_stats)
}

/// `millrace explain`.
pub(crate) fn explain(options: ExplainOptions) -> Result<(), Failure> {
    let mut value = look(&options.source, Request::Explain)?;
    if let (Some(name), Some(tables)) = (&options.table, value["tables"].as_array_mut()) {
        tables.retain(|t| t["table"] == **name);
        if tables.is_empty() {
            return Err(Failure::Bad(format!("table {name} has no entries, or does not exist")));
        }
        value["packets"] = Value::Null;
    }
    show(&value, options.json, print_explain)
}

/// `millrace dump`.
pub(crate) fn dump(options: DumpOptions) -> Result<(), Failure> {
    let stage = options.stage.word().to_string();
    let value = look(&options.source, Request::Dump { stage })?;
    show(&value, options.json, |value| text(&value["text"]).to_string())
}

/// A switch made of the files that are named, if any are.
fn offline(source: &Source) -> Result<Option<Switch>, Failure> {
    if let Some(p4) = &source.p4 {
        return control::program::host::offline(p4, source.entries.as_deref()).map(Some);
    }
    if source.flows.is_empty() && source.groups.is_empty() && source.meters.is_empty() {
        return Ok(None);
    }
    control::program::tables::offline(&source.flows, &source.groups, &source.meters).map(Some)
}

/// Asks a running switch or, if files are named, one that is made of them.
fn look(source: &Source, request: Request) -> Result<Value, Failure> {
    let Some(switch) = offline(source)? else {
        return ask(source.ctl.as_deref(), &request);
    };
    rest(&switch);
    let value = answer(&switch, &|| Value::Null, request);
    switch.stop();
    value.map_err(Failure::Bad)
}

/// Waits until the engine has made what it would of the files' entries, as it does of a running switch's; not for ever.
fn rest(switch: &Switch) {
    let until = Instant::now() + PATIENCE;
    while !switch.is_settled() && Instant::now() < until {
        switch.advance();
        std::thread::sleep(PAUSE);
    }
}

/// `millrace trace`.
pub(crate) fn trace(options: TraceOptions) -> Result<(), Failure> {
    let (in_port, bytes) = packet(&options.packet, options.in_port)?;
    let value = match offline(&options.source)? {
        Some(switch) => {
            let value = trace_value(&switch, in_port, &bytes);
            switch.stop();
            value
        }
        None => {
            let request = Request::Trace { in_port, packet: digits(&bytes) };
            ask(options.source.ctl.as_deref(), &request)?
        }
    };
    show(&value, options.json, print_trace)
}

/// A packet as users write it: bytes in hexadecimal, or a match that describes it.
fn packet(text: &str, in_port: Option<u32>) -> Result<(u32, Vec<u8>), Failure> {
    if let Some(bytes) = hex(text) {
        return Ok((in_port.unwrap_or(1), bytes));
    }
    let described = openflow::syntax::parse_packet(text).map_err(|e| {
        Failure::Usage(format!("the packet is neither hexadecimal bytes nor a match: {e}"))
    })?;
    Ok((in_port.or(described.in_port).unwrap_or(1), described.bytes))
}

/// Bytes in hexadecimal, white space and colons between them allowed; at least an Ethernet header.
pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .trim_start_matches("0x")
        .bytes()
        .filter(|b| !b.is_ascii_whitespace() && *b != b':')
        .collect();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Bytes in hexadecimal, as [`hex`] reads them.
fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn show(value: &Value, json: bool, print: fn(&Value) -> String) -> Result<(), Failure> {
    if json {
        println!("{value}")
    } else {
        print!("{}", print(value))
    }
    Ok(())
}

/// What the running switch answers.
pub(crate) fn answer(
    switch: &Switch,
    channel: &dyn Fn() -> Value,
    request: Request,
) -> Result<Value, String> {
    match request {
        Request::Stats => Ok(stats_value(switch, channel())),
        Request::Explain => Ok(json!({
            "engine": switch.engine(),
            "tables": switch.explain().iter().map(|t| json!({
                "table": t.table, "entries": t.entries, "choice": t.choice, "memory_bytes": t.memory_bytes,
            })).collect::<Vec<_>>(),
            "leaves": switch.leaves(),
            "packets": packets_value(&switch.ran()),
        })),
        Request::Dump { stage } => {
            let text = switch.dump(&stage)?;
            Ok(json!({"stage": stage, "engine": switch.engine(), "text": text}))
        }
        Request::Trace { in_port, packet } => {
            let bytes = hex(&packet).ok_or("the packet is not hexadecimal")?;
            check_port(switch, in_port)?;
            Ok(trace_value(switch, in_port, &bytes))
        }
        Request::Queue { set, clear } => crate::queue::answer(switch, &set, &clear),
        Request::Conntrack { flush, zone, limit } => {
            crate::conntrack::answer(switch, flush, zone, limit)
        }
        Request::ConntrackImport { path } => crate::image::answer(switch, &path),
        Request::TakeOver => Err("a switch that runs a P4 program hands nothing over".to_owned()),
        Request::ConntrackExport => Err("only a running switch has connections".to_owned()),
        Request::Service { add, set, remove } => {
            crate::services::answer(switch, add.as_deref(), set.as_deref(), remove.as_deref())
        }
        Request::Capture(_) => Err("only a running switch has frames to capture".to_owned()),
        Request::P4Do { .. } | Request::P4Load { .. } => Err(
            "this switch runs OpenFlow's tables; `millrace run --p4 PROGRAM.p4` runs a P4 program"
                .to_owned(),
        ),
    }
}

/// A port that frames can come in by, or the controller's, that packet-outs name.
fn check_port(switch: &Switch, in_port: u32) -> Result<(), String> {
    let ports = switch.ports();
    let known = |number: u32| ports.iter().any(|port| port.number == number);
    if known(in_port) || in_port == openflow::PortNo::CONTROLLER.0 {
        return Ok(());
    }
    let there: Vec<String> =
        ports.iter().map(|port| format!("{} ({})", port.number, port.info.name)).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Err(format!("there is no port {in_port}; there are: {there}"))
}

/// What a request changes, if anything: what, how, and all of it.
pub(crate) fn change(request: &Request) -> Option<(&'static str, &'static str, String)> {
    let words = |words: &[String]| words.join(" ");
    Some(match request {
        Request::Service { add: Some(new), .. } => ("service", "add", words(new)),
        Request::Service { set: Some(set), .. } => ("service", "modify", words(set)),
        Request::Service { remove: Some(name), .. } => ("service", "delete", name.clone()),
        Request::Queue { set, clear } if !set.is_empty() || !clear.is_empty() => {
            ("queue", "modify", [words(set), words(clear)].join(" ").trim().to_owned())
        }
        Request::Conntrack { flush: true, zone, .. } => {
            let zone = zone.map_or_else(|| "all zones".to_owned(), |zone| format!("zone {zone}"));
            ("conntrack", "delete", zone)
        }
        Request::ConntrackImport { path } => ("conntrack", "add", path.display().to_string()),
        Request::P4Load { source } => ("p4_program", "modify", source.file.display().to_string()),
        _ => return None,
    })
}

fn stats_value(switch: &Switch, controllers: Value) -> Value {
    let ports: Vec<Value> = switch
        .port_counters()
        .into_iter()
        .map(|(view, counters, kernel)| {
            let drops: serde_json::Map<String, Value> =
                counters.drops.iter().map(|(word, n)| ((*word).to_string(), json!(n))).collect();
            json!({
                "number": view.number, "name": view.info.name, "kind": view.info.kind,
                "up": view.is_live(), "present": view.link.present,
                "rx_packets": counters.rx_packets, "rx_bytes": counters.rx_bytes,
                "tx_packets": counters.tx_packets, "tx_bytes": counters.tx_bytes,
                "punted": counters.punted, "digests_refused": counters.digests_refused,
                "drops": drops, "kernel_rx_dropped": kernel.rx_dropped,
            })
        })
        .collect();
    let names: Vec<String> =
        switch.with_pipeline(|p| p.program().tables.iter().map(|t| t.name.clone()).collect());
    let tables: Vec<Value> = names
        .into_iter()
        .enumerate()
        .map(|(i, name)| (name, switch.table_stats(ir::TableId(i as u32))))
        .filter(|(_, s)| s.entries > 0 || s.lookups > 0)
        .map(|(name, s)| json!({"table": name, "entries": s.entries, "lookups": s.lookups, "matches": s.matches}))
        .collect();
    let mut control: serde_json::Map<String, Value> =
        switch.tallies().into_iter().map(|(name, n)| (name.to_owned(), json!(n))).collect();
    let (log, changes) = crate::logging::lost();
    for (name, n) in [("log_lines_lost", log), ("changes_lost", changes)] {
        if n > 0 {
            control.insert(name.to_owned(), json!(n));
        }
    }
    json!({
        "engine": switch.engine(), "version": switch.version(), "control": control,
        "uptime_seconds": switch.now_ns() / 1_000_000_000,
        "ports": ports, "tables": tables, "controllers": controllers,
        "packets": packets_value(&switch.ran()),
        "validation": validation_value(switch),
    })
}

/// Packets by what ran them, and why it was not the code for bursts.
pub(crate) fn packets_value(ran: &Counted) -> Value {
    let engine = |engine: Ran| {
        let (packets, reasons) = ran.of(engine);
        let reasons: serde_json::Map<String, Value> =
            reasons.iter().map(|(text, n)| (text.to_string(), json!(n))).collect();
        let mut value = json!({"packets": packets});
        if engine != Ran::Code {
            value["reasons"] = Value::Object(reasons);
        }
        (engine.name().to_owned(), value)
    };
    Ran::ALL.into_iter().map(engine).collect::<serde_json::Map<_, _>>().into()
}

/// The same for people: how many, and a line for each reason, the most first.
fn print_packets(out: &mut String, packets: &Value) {
    let count = |engine: Ran| packets[engine.name()]["packets"].as_u64().unwrap_or(0);
    let all: u64 = Ran::ALL.into_iter().map(count).sum();
    let share = |n: u64| 100.0 * n as f64 / all.max(1) as f64;
    let engines: Vec<String> = Ran::ALL
        .into_iter()
        .map(|engine| {
            format!("{} {} ({:.1} %)", engine.name(), count(engine), share(count(engine)))
        })
        .collect();
    let _ = writeln!(out, "packets run by: {}", engines.join(", "));
    for engine in [Ran::Interpreter, Ran::Whole] {
        let reasons = packets[engine.name()]["reasons"].as_object();
        let mut reasons: Vec<(&String, u64)> = reasons
            .into_iter()
            .flatten()
            .map(|(text, n)| (text, n.as_u64().unwrap_or(0)))
            .collect();
        reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        for (text, n) in reasons {
            let _ = writeln!(out, "  {}: {n}: {text}", engine.name());
        }
    }
}

fn validation_value(switch: &Switch) -> Value {
    let v = switch.validation();
    json!({"checked": v.checked, "mismatches": v.mismatches, "first": v.first})
}

fn print_stats(value: &Value) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "engine {}, version {}, up {} s, controllers: {}",
        text(&value["engine"]),
        value["version"],
        value["uptime_seconds"],
        text(&value["controllers"])
    );
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
    for p in list(&value["ports"]) {
        let link = match (&p["present"], &p["up"]) {
            (Value::Bool(false), _) => "gone",
            (_, Value::Bool(true)) => "up",
            _ => "down",
        };
        let mut drops: Vec<String> =
            p["drops"].as_object().into_iter().flatten().map(|(k, v)| format!("{k}={v}")).collect();
        let n = |key: &str| p[key].as_u64().unwrap_or(0);
        if n("digests_refused") > 0 {
            drops.push(format!("(digests refused: {})", n("digests_refused")));
        }
        let _ = writeln!(
            out,
            "{:>5} {:<16} {:<10} {:<5} {:>12} {:>15} {:>12} {:>15} {:>9}  {}",
            n("number"),
            text(&p["name"]),
            text(&p["kind"]),
            link,
            n("rx_packets"),
            n("rx_bytes"),
            n("tx_packets"),
            n("tx_bytes"),
            n("punted"),
            drops.join(" ")
        );
    }
    let control: Vec<String> = value["control"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, n)| format!("{k}={n}"))
        .collect();
    if !control.is_empty() {
        let _ = writeln!(out, "control: {}", control.join(" "));
    }
    print_packets(&mut out, &value["packets"]);
    let _ = writeln!(out, "{:<16} {:>10} {:>14} {:>14}", "table", "entries", "lookups", "matches");
    for t in list(&value["tables"]) {
        let n = |key: &str| t[key].as_u64().unwrap_or(0);
        let _ = writeln!(
            out,
            "{:<16} {:>10} {:>14} {:>14}",
            text(&t["table"]),
            n("entries"),
            n("lookups"),
            n("matches")
        );
    }
    out
}

fn print_explain(value: &Value) -> String {
    let tables = list(&value["tables"]);
    let mut out = String::new();
    if tables.is_empty() {
        out.push_str("no table has entries\n");
    }
    for t in tables {
        let choice = text(&t["choice"]).trim_end();
        let _ = writeln!(out, "{choice}\n  {} bytes", t["memory_bytes"]);
    }
    // Of one table that was asked for, that is all.
    if value["packets"].is_null() {
        return out;
    }
    match list(&value["leaves"]) {
        [] => out.push_str("the code for bursts runs every packet\n"),
        leaves => {
            out.push_str("the code for bursts leaves:\n");
            leaves.iter().for_each(|leaf| {
                let _ = writeln!(out, "  {}", text(leaf));
            });
        }
    }
    print_packets(&mut out, &value["packets"]);
    out
}

/// An entry that was hit, in a line: its priority, cookie and counters.
pub(crate) fn entry_line(
    switch: &Switch,
    table: ir::TableId,
    entry: ir::EntryId,
) -> Option<String> {
    let (priority, cookie, counted) = switch.with_pipeline(|pipeline| {
        let counted = pipeline.program().tables.get(table.index())?.counters;
        let found = pipeline.entries(table).iter().find(|e| e.id == entry)?;
        Some((found.priority, found.cookie, counted))
    })?;
    let mut line = format!("entry {}: priority {priority}, cookie {cookie:#x}", entry.0);
    if counted {
        let count = switch.counter(entry.0);
        // Writing to a string does not fail.
        let _ = write!(line, ", {} packets, {} bytes so far", count.packets, count.bytes);
    }
    Some(line)
}

fn trace_value(switch: &Switch, in_port: u32, bytes: &[u8]) -> Value {
    let traced = switch.trace(in_port, bytes);
    let ports = switch.ports();
    let name = |number: u32| ports.iter().find(|p| p.number == number).map(|p| p.info.name.clone());
    let frame = |bytes: &[u8]| {
        json!({
            "summary": wire::summary(bytes),
            "hex": digits(bytes),
        })
    };
    json!({
        "version": traced.version, "in_port": in_port, "packet": frame(bytes),
        "verdict": traced.verdict.to_string(),
        "steps": traced.trace.lines_with(&mut |table, entry| entry_line(switch, table, entry)),
        "in_name": name(in_port),
        "outputs": traced.outputs.iter().map(|(port, b)| json!({"port": port, "name": name(*port), "packet": frame(b)})).collect::<Vec<_>>(),
        "not_called": traced.not_called,
        "punts": traced.punts.iter().map(|(reason, b)| json!({"reason": reason.word(), "packet": frame(b)})).collect::<Vec<_>>(),
    })
}

fn print_trace(value: &Value) -> String {
    let port = |number: &Value, name: &Value| match name.as_str() {
        Some(name) => format!("{number} ({name})"),
        None => number.to_string(),
    };
    let came = port(&value["in_port"], &value["in_name"]);
    let mut out = format!("in {came}: {}\n", text(&value["packet"]["summary"]));
    for step in list(&value["steps"]) {
        let _ = writeln!(out, "  {}", text(step));
    }
    for service in list(&value["not_called"]) {
        let _ = writeln!(
            out,
            "  service {} was not called, because it would remember this packet; \
             the rest holds if it lets the packet go on unchanged",
            text(service)
        );
    }
    for o in list(&value["outputs"]) {
        let to = port(&o["port"], &o["name"]);
        let _ = writeln!(out, "out {to}: {}", text(&o["packet"]["summary"]));
    }
    for p in list(&value["punts"]) {
        let _ = writeln!(
            out,
            "to the controller ({}): {}",
            text(&p["reason"]),
            text(&p["packet"]["summary"])
        );
    }
    out
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_digests_stand_beside_the_drops() {
        let port =
            |refused| json!({"name": "p", "drops": {"no_match": 2}, "digests_refused": refused});
        let shown = |refused| print_stats(&json!({"ports": [port(refused)]}));
        assert!(shown(3).contains("  no_match=2 (digests refused: 3)\n"), "{}", shown(3));
        assert!(shown(0).contains("  no_match=2\n"), "{}", shown(0));
    }

    #[test]
    fn packets_are_told_by_engine_and_reason_the_most_first() {
        let left = |n: u64, texts: &[(&str, u64)]| {
            let reasons = texts.iter().map(|(text, n)| ((*text).into(), *n)).collect();
            datapath::tally::Left { packets: n, reasons }
        };
        let ran = Counted {
            code: 90,
            whole: left(6, &[("a clone", 6)]),
            interpreter: left(4, &[("table b: a group", 3), ("a meter", 1)]),
        };
        let value = packets_value(&ran);
        assert_eq!(value["interpreter"]["reasons"]["a meter"], 1);
        assert_eq!(value["code"], json!({"packets": 90}));
        let mut out = String::new();
        print_packets(&mut out, &value);
        let expected = "packets run by: code 90 (90.0 %), whole 6 (6.0 %), interpreter 4 (4.0 %)
  interpreter: 3: table b: a group
  interpreter: 1: a meter
  whole: 6: a clone
";
        assert_eq!(out, expected);
        let explained = print_explain(&json!({"leaves": ["a meter"], "packets": value}));
        let head = "no table has entries\nthe code for bursts leaves:\n  a meter\npackets run by";
        assert!(explained.starts_with(head), "{explained}");
    }

    #[test]
    fn hexadecimal_with_and_without_separators() {
        assert_eq!(hex("0x00ff"), Some(vec![0, 255]));
        assert_eq!(hex("00:ff 01"), Some(vec![0, 255, 1]));
        assert_eq!(hex("0"), None);
        assert_eq!(hex("in_port=1"), None);
        assert_eq!(hex(""), None);
    }
}
