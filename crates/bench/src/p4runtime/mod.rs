//! `millrace bench p4runtime`: what writes and reads of P4Runtime take, beside a server that only decodes and answers.
//!
//! One client, over loopback, waits for each answer; a write is answered when the worker forwards by it. The switch has one
//! worker and its default engine. Server and stub are asked in turns; figures are medians. What was written is read
//! back and compared before it counts.
//!
//! | module | holds |
//! |---|---|
//! | [`client`] | the client |
//! | [`subject`] | the server that is measured |
//! | [`stub`] | the server beside |
//! | [`requests`] | what is written |
//! | [`swap`] | programs replaced under traffic and writes |
//!
//! `--check` fails where a bound is not held: at batches of 1,000 half of the stub's rate, at 100 a third; one update's
//! answer within three times the stub's; members and groups within 0.1 s; 100,000 entries read within 0.25 s.

mod client;
mod requests;
mod stub;
mod subject;
mod swap;

use super::measure::median;
use crate::options::BenchP4RuntimeOptions;
use client::{Client, framed};
use control::failure::Failure;
use p4_runtime::proto::v1::update::Type;
use requests::{GROUPS, MEMBERS, Requests};
use serde_json::{Value, json};
use std::time::Instant;
use subject::{any, start};
use tonic::codegen::Bytes;

/// Sizes of batches, and the share of the stub's rate that each is to reach.
const BATCHES: [(usize, f64); 2] = [(100, 1.0 / 3.0), (1000, 0.5)];
/// Updates of one each.
const SINGLES: usize = 2000;
/// How many times the stub's median an update may take.
const SINGLE_MOST: f64 = 3.0;
/// Seconds that members and groups may take.
const GROUPED_MOST: f64 = 0.1;
/// Seconds that reading 100,000 entries may take.
const READ_MOST: f64 = 0.25;

/// What one of both servers has shown, each a run's.
#[derive(Default)]
struct Shown {
    /// Entries a second by the size of batches.
    rates: [Vec<f64>; 2],
    /// Medians of an update with its answer, in seconds.
    singles: Vec<f64>,
    /// Members and groups, in seconds.
    grouped: Vec<f64>,
    /// All entries read, in seconds.
    read: Vec<f64>,
}

/// Seconds that a client takes for these.
fn timed(client: &Client, writes: &[Bytes]) -> Result<f64, Failure> {
    let started = Instant::now();
    writes.iter().try_for_each(|request| client.write(request))?;
    Ok(started.elapsed().as_secs_f64())
}

/// A round of one server.
fn round(client: &Client, work: &Work<'_>, real: bool, shown: &mut Shown) -> Result<(), Failure> {
    for (at, writes) in work.batches.iter().enumerate() {
        let seconds = timed(client, writes)?;
        shown.rates[at].push(work.entries as f64 / seconds);
        if real {
            let started = Instant::now();
            let told = client.read(&work.requests.all_entries())?;
            shown.read.push(started.elapsed().as_secs_f64());
            work.requests.are_all(&told, work.entries)?;
            timed(client, &work.deletes)?;
        }
    }
    let mut singles = Vec::with_capacity(SINGLES);
    for request in &work.singles {
        singles.push(timed(client, std::slice::from_ref(request))?);
    }
    shown.singles.push(median(singles));
    shown.grouped.push(timed(client, &work.grouped)?);
    if real {
        let (members, groups) = work.requests.profile();
        for (asked, wanted) in [(members, MEMBERS), (groups, GROUPS)] {
            let told = client.read(&asked)?.len();
            if told != wanted {
                return Err(Failure::Bad(format!("{told} members or groups, not {wanted}")));
            }
        }
        timed(client, &work.undo)?;
        let left = client.read(&work.requests.all_entries())?.len();
        if left != 0 {
            return Err(Failure::Bad(format!("{left} entries are left behind")));
        }
    }
    Ok(())
}

/// All that is written, encoded.
struct Work<'a> {
    requests: &'a Requests,
    entries: usize,
    batches: [Vec<Bytes>; 2],
    deletes: Vec<Bytes>,
    singles: Vec<Bytes>,
    grouped: Vec<Bytes>,
    undo: Vec<Bytes>,
}

impl Work<'_> {
    fn new(requests: &Requests, entries: usize) -> Work<'_> {
        let all = |kind, n: usize, size: usize| -> Vec<Bytes> {
            let from = (0..n).step_by(size);
            from.map(|from| framed(&requests.entries(kind, from..(from + size).min(n)))).collect()
        };
        let batches = BATCHES.map(|(size, _)| all(Type::Insert, entries, size));
        let deletes = all(Type::Delete, entries, 1000);
        let singles = all(Type::Insert, SINGLES, 1);
        let grouped = [requests.members(Type::Insert), requests.groups(Type::Insert)];
        let undo = [requests.groups(Type::Delete), requests.members(Type::Delete)];
        let mut undo: Vec<Bytes> = undo.iter().map(framed).collect();
        undo.extend(all(Type::Delete, SINGLES, 1000));
        let grouped = grouped.iter().map(framed).collect();
        Work { requests, entries, batches, deletes, singles, grouped, undo }
    }
}

/// `millrace bench p4runtime`.
pub(super) fn run(options: &BenchP4RuntimeOptions) -> Result<(), Failure> {
    if let Some(swaps) = options.swaps {
        return swap::run(options, swaps);
    }
    let subject = start()?;
    let stub = stub::start(any())?;
    let work = Work::new(&subject.requests, options.entries as usize);
    let mut client = Client::connect(subject.server.address())?;
    client.arbitrate()?;
    let beside = Client::connect(stub.address())?;
    let mut shown = [Shown::default(), Shown::default()];
    for n in 0..=options.runs.max(1) {
        // The first one warms up.
        let mut cold = [Shown::default(), Shown::default()];
        let into = if n == 0 { &mut cold } else { &mut shown };
        round(&beside, &work, false, &mut into[0])?;
        round(&client, &work, true, &mut into[1])?;
    }
    tell(options, &work, &shown)
}

fn tell(
    options: &BenchP4RuntimeOptions,
    work: &Work<'_>,
    shown: &[Shown; 2],
) -> Result<(), Failure> {
    let mut missed = Vec::new();
    let mut rows: Vec<Value> = Vec::new();
    let mut row = |what: String, unit: &str, stub: Option<f64>, own: f64, bound: (f64, bool)| {
        let (bound, at_least) = bound;
        let measured = stub.map_or(own, |stub| own / stub);
        let holds = if at_least { measured >= bound } else { measured <= bound };
        if !holds {
            missed.push(what.clone());
        }
        rows.push(json!({
            "what": what, "unit": unit, "stub": stub, "millrace": own,
            "ratio": stub.map(|_| measured), "bound": bound, "holds": holds,
        }));
    };
    let of = |get: fn(&Shown) -> &Vec<f64>| [0, 1].map(|at| median(get(&shown[at]).clone()));
    let rates: [fn(&Shown) -> &Vec<f64>; 2] = [|s| &s.rates[0], |s| &s.rates[1]];
    for ((size, least), get) in BATCHES.into_iter().zip(rates) {
        let [stub, own] = of(get);
        row(format!("entries in batches of {size}"), "1/s", Some(stub), own, (least, true));
    }
    let [stub, own] = of(|s| &s.singles);
    row("one update and its answer".into(), "s", Some(stub), own, (SINGLE_MOST, false));
    let [_, own] = of(|s| &s.grouped);
    row(format!("{MEMBERS} members, {GROUPS} groups"), "s", None, own, (GROUPED_MOST, false));
    let read = median(shown[1].read.clone());
    let bound = READ_MOST * work.entries as f64 / 100_000.0;
    row(format!("{} entries read", work.entries), "s", None, read, (bound, false));
    if options.json {
        println!("{}", json!({ "rows": rows, "runs": options.runs }));
    } else {
        rows.iter().for_each(line);
    }
    match missed.is_empty() || !options.check {
        true => Ok(()),
        false => Err(Failure::Bad(format!("beyond the bound: {}", missed.join("; ")))),
    }
}

/// A row for people.
fn line(row: &Value) {
    let number = |key: &str| row[key].as_f64();
    let told = |n: f64| match row["unit"].as_str() {
        Some("1/s") => format!("{:.0} K/s", n / 1e3),
        _ if n < 0.01 => format!("{:.0} µs", n * 1e6),
        _ => format!("{n:.3} s"),
    };
    let (own, bound) = (number("millrace").unwrap_or(0.0), number("bound").unwrap_or(0.0));
    let what = row["what"].as_str().unwrap_or_default();
    let beside = match (number("stub"), number("ratio")) {
        (Some(stub), Some(ratio)) => {
            format!("stub {}, {ratio:.2} of it (bound {bound:.2})", told(stub))
        }
        _ => format!("bound {}", told(bound)),
    };
    let short = if row["holds"] == Value::Bool(true) { "" } else { "  BEYOND" };
    println!("{what:<28} {:>10}   {beside}{short}", told(own));
}
