//! `millrace bench samples`: other people's P4 programs, each beside as many plain tables as its packets go through.
//!
//! A program brings its entries and packets along: those of the packet test that lies beside it, or entries of its own
//! keys and packets that follow its parser ([`program`]). The interpreter judges a sample of them, and says how many
//! tables a packet is looked up in. Then the program is timed in turns with an OpenFlow pipeline of that many tables, of
//! which each looks up one address among as many as there are flows, and the last one sends the frame to a port.

mod program;

use super::check::Oracle;
use super::constructs;
use super::contents::Contents;
use super::lane::{Bed, Kind, Lane};
use super::measure::{self, Tally, median};
use super::trace::Trace;
use crate::options::BenchSamplesOptions;
use control::failure::Failure;
use program::Sample;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Ports that are there.
const PORTS: u32 = 16;
/// Plain tables, at most: OpenFlow has no more.
const TABLES_MAX: usize = 250;
/// What a plain table looks up, in turns, and the address of flow `{n}`.
const KEYS: [(&str, &str); 4] = [
    ("dl_dst", "02:00:00:00:02:{x}"),
    ("nw_dst", "10.2.0.{n}"),
    ("dl_src", "02:00:00:00:01:{x}"),
    ("nw_src", "10.1.0.{n}"),
];

/// `millrace bench samples`.
pub(crate) fn run(options: &BenchSamplesOptions) -> Result<(), Failure> {
    if !(options.seconds > 0.0 && options.seconds <= 60.0) || options.runs == 0 {
        return Err(Failure::usage("--seconds must be above 0 and at most 60, --runs at least 1"));
    }
    let mut files = Vec::new();
    for path in &options.programs {
        program::find(path, &mut files)?;
    }
    let named = |path: &PathBuf| {
        options.only.as_ref().is_none_or(|only| path.to_string_lossy().contains(only.as_str()))
    };
    files.retain(named);
    if files.is_empty() {
        return Err(Failure::usage("there are no P4 programs of v1model with such a name"));
    }
    let mut plain = BTreeMap::new();
    let mut rows = Vec::new();
    if !options.json {
        println!("{HEAD}");
    }
    for path in &files {
        let row = match Sample::of(path) {
            Ok(sample) => one(path, &sample, &mut plain, options)?,
            Err(why) => json!({ "program": path.display().to_string(), "refused": why }),
        };
        if !options.json {
            print!("{}", text(&row));
        }
        rows.push(row);
    }
    let summary = summary(&rows, options.most);
    match options.json {
        true => {
            println!("{}", json!({ "programs": rows, "summary": summary, "cpu": measure::cpu() }))
        }
        false => println!("{}", said(&summary, options.most)),
    }
    let wrong = |key: &str| summary[key].as_u64().unwrap_or(0) > 0;
    if wrong("with_mismatches") {
        return Err(Failure::bad("what the bench forwarded is not what the interpreter forwards"));
    }
    if options.check && (wrong("with_interpreted") || wrong("beyond")) {
        return Err(Failure::bad("packets were interpreted, or took longer than they may"));
    }
    Ok(())
}

/// A pipeline that is timed, and how far its trace has come.
struct Station {
    trace: Trace,
    lane: Lane,
    // Behind the lane, which lets go of its version first.
    bed: Bed,
    at: usize,
}

impl Station {
    fn new(contents: &Contents, trace: Trace) -> Result<Station, Failure> {
        let bed = Bed::new(Kind::Jit, contents, PORTS, 1)?;
        Ok(Station::of(bed, trace))
    }

    fn of(bed: Bed, trace: Trace) -> Station {
        let lane = bed.lane(0, trace.len_max());
        Station { trace, lane, bed, at: 0 }
    }

    fn run(&mut self, time: Duration, tally: &mut Tally) -> measure::Sample {
        measure::lane(&mut self.lane, &self.trace, &mut self.at, time, tally)
    }
}

/// So many plain tables.
fn plain(tables: usize) -> Result<Station, Failure> {
    let contents = Contents::load(PORTS, Vec::new(), |entry| {
        for table in 0..tables {
            let (key, address) = KEYS[table % KEYS.len()];
            let ether = if key.starts_with("nw") { "ip," } else { "" };
            let action = match table + 1 == tables {
                true => "output:2".to_owned(),
                false => format!("goto_table:{}", table + 1),
            };
            for flow in 0..constructs::FLOWS {
                let address = address.replace("{x}", &format!("{flow:02x}"));
                let address = address.replace("{n}", &flow.to_string());
                let line = format!("table={table},{ether}{key}={address},actions={action}");
                entry(&line).map_err(|e| Failure::Bad(format!("{line}: {e}")))?;
            }
        }
        Ok(())
    })?;
    Station::new(&contents, constructs::tcp()?)
}

fn one(
    path: &Path,
    sample: &Sample,
    plains: &mut BTreeMap<usize, Station>,
    options: &BenchSamplesOptions,
) -> Result<Value, Failure> {
    let trace = sample.trace();
    let mut oracle = Oracle::new(&sample.contents, PORTS, trace.len_max())?;
    let bed = Bed::new(Kind::Jit, &sample.contents, PORTS, 1)?;
    let checked = oracle.engine(&bed, &trace);
    let tables = oracle.lookups() as f64 / checked.frames.max(1) as f64;
    drop(oracle);
    let mut row = json!({
        "program": path.display().to_string(), "packets": sample.from.name(), "tables": tables,
        "checked": checked.frames,
        // Random numbers are drawn in another order by bursts.
        "mismatches": if sample.random { 0 } else { checked.mismatches },
        "random": sample.random,
    });
    let beside = (tables.round() as usize).clamp(1, TABLES_MAX);
    let plain = match plains.entry(beside) {
        std::collections::btree_map::Entry::Occupied(made) => made.into_mut(),
        std::collections::btree_map::Entry::Vacant(room) => room.insert(plain(beside)?),
    };
    let mut station = Station::of(bed, trace);
    let time = Duration::from_secs_f64(options.seconds);
    let mut tally = Tally::new();
    station.run(time, &mut tally);
    plain.run(time / 4, &mut Tally::new());
    let (mut ns, mut plain_ns, mut pairs, mut packets) = (Vec::new(), Vec::new(), Vec::new(), 0);
    tally = Tally::new();
    for _ in 0..options.runs {
        let other = plain.run(time, &mut Tally::new()).ns();
        let own = station.run(time, &mut tally);
        packets += own.packets;
        ns.push(own.ns());
        plain_ns.push(other);
        pairs.push(own.ns() / other);
    }
    let all = packets.max(1) as f64;
    row["ns"] = json!(median(ns));
    row["plain_tables"] = json!(beside);
    row["plain_ns"] = json!(median(plain_ns));
    row["ratio"] = json!(median(pairs));
    row["interpreted"] = json!(tally.left as f64 / all);
    row["whole"] = json!(tally.whole as f64 / all);
    let counted = station.bed.publisher.snapshot().tally().counted();
    let reasons = counted.whole.reasons.iter().chain(&counted.interpreter.reasons);
    row["why"] = json!(reasons.map(|(text, _)| &**text).collect::<Vec<_>>());
    Ok(row)
}

fn summary(rows: &[Value], most: f64) -> Value {
    let timed: Vec<&Value> = rows.iter().filter(|row| row["refused"].is_null()).collect();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or(0.0);
    let with = |key: &str| timed.iter().filter(|row| number(row, key) > 0.0).count();
    let ratios: Vec<f64> = timed.iter().map(|row| number(row, "ratio")).collect();
    json!({
        "timed": timed.len(),
        "refused": rows.len() - timed.len(),
        "beyond": ratios.iter().filter(|ratio| **ratio > most).count(),
        "most_ratio": ratios.iter().copied().fold(0.0, f64::max),
        "median_ratio": median(ratios),
        "with_interpreted": with("interpreted"),
        "with_whole": with("whole"),
        "with_mismatches": with("mismatches"),
    })
}

const HEAD: &str = "program                                    tables      ns   plain   ratio  interpreted   whole  why";

/// For people.
fn text(row: &Value) -> String {
    let mut out = String::new();
    let path = row["program"].as_str().unwrap_or("");
    let name = Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy());
    // Writing to a string does not fail.
    let _ = write!(out, "{name:<40}");
    if let Some(why) = row["refused"].as_str() {
        let _ = writeln!(out, "  refused: {}", why.lines().next().unwrap_or(""));
        return out;
    }
    let number = |key: &str| row[key].as_f64().unwrap_or(0.0);
    let _ = write!(
        out,
        " {:>7.1} {:>7.1} {:>7.1} {:>7.2}  {:>9.1} %  {:>5.1} %",
        number("tables"),
        number("ns"),
        number("plain_ns"),
        number("ratio"),
        100.0 * number("interpreted"),
        100.0 * number("whole")
    );
    if number("mismatches") > 0.0 {
        let _ = write!(out, "  {} mismatches", row["mismatches"]);
    }
    if let Some(why) = row["why"][0].as_str() {
        let _ = write!(out, "  {why}");
    }
    out.push('\n');
    out
}

fn said(summary: &Value, most: f64) -> String {
    let number = |key: &str| summary[key].as_f64().unwrap_or(0.0);
    format!(
        "{} programs timed, {} refused; {} above {most} times as many plain tables (median {:.2}, most {:.2}), \
         {} with interpreted packets, {} with mismatches",
        summary["timed"],
        summary["refused"],
        summary["beyond"],
        number("median_ratio"),
        number("most_ratio"),
        summary["with_interpreted"],
        summary["with_mismatches"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::BenchCommand;

    fn project() -> &'static Path {
        let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        above.into_iter().find(|p| p.join("examples/p4").exists()).expect("the project's root")
    }

    #[test]
    fn the_projects_own_programs_run_by_code_as_the_interpreter_runs_them() {
        let folder = project().join("filetests/p4");
        let words =
            ["bench", "samples", folder.to_str().unwrap(), "--seconds", "0.0001", "--runs", "1"];
        let command = crate::options::parsed(words.iter()).command;
        let BenchCommand::Samples(options) = command else { panic!("another command") };
        let mut files = Vec::new();
        program::find(&folder, &mut files).unwrap();
        assert!(files.len() >= 3, "{files:?}");
        let mut plain = BTreeMap::new();
        for path in &files[..3] {
            let sample = Sample::of(path).unwrap();
            let row = one(path, &sample, &mut plain, &options).unwrap();
            assert_eq!(
                (&row["mismatches"], &row["interpreted"]),
                (&json!(0), &json!(0.0)),
                "{row}"
            );
            assert!(row["checked"].as_u64().unwrap() >= 64, "{row}");
        }
    }

    #[test]
    fn what_is_beyond_and_what_is_wrong_is_counted() {
        let rows = [
            json!({ "program": "a.p4", "ratio": 2.0, "interpreted": 0.0, "whole": 1.0, "mismatches": 0 }),
            json!({ "program": "b.p4", "ratio": 4.0, "interpreted": 0.5, "whole": 0.0, "mismatches": 7 }),
            json!({ "program": "c.p4", "refused": "no" }),
        ];
        let summary = summary(&rows, 3.0);
        assert_eq!((&summary["timed"], &summary["refused"]), (&json!(2), &json!(1)));
        assert_eq!((&summary["beyond"], &summary["most_ratio"]), (&json!(1), &json!(4.0)));
        assert_eq!(
            (&summary["with_interpreted"], &summary["with_mismatches"]),
            (&json!(1), &json!(1))
        );
        assert!(text(&rows[1]).contains("4.00") && text(&rows[1]).contains("7 mismatches"));
        assert!(text(&rows[2]).contains("refused: no"));
    }
}
