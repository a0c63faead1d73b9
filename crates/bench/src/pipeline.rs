//! `bench pipeline`: traces from memory through a pipeline, ports left out; and `bench use-case`.

use crate::cases::case::Case;
use crate::contents::Contents;
use crate::lane::{Bed, Kind, Lane};
use crate::measure::{Sample, Tally, cpu, median};
use crate::options::{BenchPipelineOptions, BenchUseCaseOptions};
use crate::trace::Trace;
use crate::{cases, check, measure, ovn, stages, update};
use control::engine::EngineName;
use control::failure::Failure;
use control::program::tables::Told;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// Active flows, at most: what a trace of theirs may take of memory.
const FLOWS_MAX: usize = 16 << 20;
/// Changes of an entry that are timed.
const EDITS: usize = 50;

/// What is put into the pipeline, and what is sent through it.
struct Subject {
    case: Option<Box<dyn Case>>,
    contents: Contents,
    trace: Trace,
    /// Ports that are there.
    ports: u32,
}

fn subject(options: &BenchPipelineOptions) -> Result<Subject, Failure> {
    if let Some(name) = &options.use_case {
        if !options.trace.is_empty() {
            return Err(Failure::usage("a use case brings its own traffic: leave --trace out"));
        }
        let case = cases::parse(name).map_err(Failure::Usage)?;
        let trace = Trace::of_case(&*case, active(options.active_flows)?, |_| {});
        let ports = options.ports.unwrap_or(0);
        let services = [case.services(), options.services.clone()].concat();
        let contents = Contents::load(ports, services, |entry| {
            let mut result = Ok(());
            case.entries(&mut |line| {
                if result.is_ok() {
                    result = entry(&line).map_err(|e| Failure::Bad(format!("{line}: {e}")));
                }
            });
            result
        })?;
        return Ok(Subject { case: Some(case), contents, trace, ports });
    }
    if options.flows.is_none() && options.p4.is_none() {
        return Err(Failure::usage(
            "say what to bench: --flows FILE, --p4 FILE or --use-case NAME",
        ));
    }
    if options.trace.is_empty() {
        return Err(Failure::usage("say what to send: --trace [PORT=]FILE.pcap"));
    }
    let trace = Trace::of_files(&options.trace)?;
    let ports = options.ports.unwrap_or(0);
    let contents = match (&options.p4, &options.flows) {
        (Some(p4), _) => Contents::p4(p4, options.entries.as_deref())?,
        (None, Some(flows)) => {
            let meters = options.meters.iter().map(|path| (Told::Meter, path.as_path()));
            let groups = options.groups.iter().map(|path| (Told::Group, path.as_path()));
            let flows = [(Told::Flow, flows.as_path())];
            let files: Vec<_> = meters.chain(groups).chain(flows).collect();
            Contents::read(&files, ports, options.services.clone())?
        }
        (None, None) => unreachable!("one of them was given, as was checked above"),
    };
    Ok(Subject { case: None, contents, trace, ports })
}

fn active(flows: usize) -> Result<usize, Failure> {
    match flows {
        1..=FLOWS_MAX => Ok(flows),
        _ => Err(Failure::Usage(format!("--active-flows must be 1 to {FLOWS_MAX}"))),
    }
}

/// One thing that is timed in turns with the others.
#[derive(Default)]
struct Series {
    samples: Vec<Sample>,
}

impl Series {
    fn ns(&self) -> f64 {
        median(self.samples.iter().map(Sample::ns).collect())
    }

    /// The median of what each of these took by what stood beside it, a moment later: a clock that
    /// changes from run to run changes both.
    fn per(&self, beside: &Series) -> f64 {
        let pairs = self.samples.iter().zip(&beside.samples);
        median(pairs.map(|(one, other)| one.ns() / other.ns()).collect())
    }
}

/// `millrace bench pipeline`.
pub(crate) fn pipeline(options: &BenchPipelineOptions) -> Result<(), Failure> {
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return Err(Failure::usage("--seconds must be above 0 and at most 3600"));
    }
    let (runs, workers) = (options.runs, options.workers);
    if runs == 0 || workers == 0 || workers > 1024 {
        return Err(Failure::usage(
            "--runs and --workers must be at least 1, workers at most 1024",
        ));
    }
    let mut subject = subject(options)?;
    for pass in &options.without {
        if !subject.contents.passes.set(pass, false) {
            let passes = opt::Options::PASSES.join(", ");
            return Err(Failure::Usage(format!("--without {pass}: there are {passes}")));
        }
    }
    let Subject { case, contents, trace, ports } = &subject;
    if options.stages {
        let time = Duration::from_secs_f64(options.seconds);
        let value = stages::run(contents, trace, *ports, runs, time)?;
        match options.json {
            true => println!("{value}"),
            false => print!("{}", stages::text(&value)),
        }
        if value["mismatches"] != 0 {
            return Err(Failure::bad(
                "what the bench forwarded is not what the interpreter forwards",
            ));
        }
        return Ok(());
    }
    let needs_case = options.limit || options.attack.is_some();
    if needs_case && case.is_none() {
        return Err(Failure::usage("--limit and --attack need a --use-case"));
    }
    let gateway = case.as_ref().and_then(|c| c.gateway());
    if (options.updates.is_some() || options.check.is_some()) && gateway.is_none() {
        return Err(Failure::usage("--updates and --check need the use case gateway"));
    }
    let kind = match options.engine {
        EngineName::Jit => Kind::Jit,
        EngineName::Interp => Kind::Interp,
    };
    let mut bed = Bed::new(kind, contents, *ports, workers)?;

    let mut oracle = check::Oracle::new(contents, *ports, trace.len_max())?;
    let checked = oracle.engine(&bed, trace);
    let attack = options.attack.zip(case.as_ref());
    let attack = attack.map(|(attack, case)| {
        (attack, Trace::of_case(&**case, options.active_flows, attack.changes()))
    });
    let mut limit = case.as_ref().filter(|_| options.limit).and_then(|case| case.limit());
    if options.limit && limit.is_none() {
        return Err(Failure::usage("this use case has no hand-written loop: leave --limit out"));
    }
    let limit_checked = limit.as_mut().map(|limit| oracle.limit(&mut **limit, trace));
    drop(oracle);

    let time = Duration::from_secs_f64(options.seconds);
    let mut lanes: Vec<Lane> = (0..workers).map(|n| bed.lane(n, trace.len_max())).collect();
    let mut ats: Vec<usize> = (0..workers).map(|n| n * (trace.len() / workers)).collect();
    // Caches, predictors, pages.
    engine_run(&mut lanes, trace, &mut ats, time / 4);
    let mut engine: Vec<(Sample, Tally)> = Vec::new();
    let mut clocks = Vec::new();
    let mut attacked = Series::default();
    let (mut counted, mut plain, mut copied) = Default::default();
    let mut series: [&mut Series; 3] = [&mut counted, &mut plain, &mut copied];
    let (mut limit_at, mut attack_at, mut attack_left) = (0, 0, 0);
    for run in 0..runs {
        engine.push(engine_run(&mut lanes, trace, &mut ats, time));
        clocks.push(plan::calibrate::clock_ghz());
        if let Some((_, trace)) = &attack {
            let mut tally = Tally::new();
            let lane = &mut lanes[0];
            attacked.samples.push(measure::lane(lane, trace, &mut attack_at, time, &mut tally));
            attack_left += tally.left;
        }
        if let Some(limit) = &mut limit {
            let (mut tally, at) = (Tally::new(), &mut limit_at);
            let limit = &mut **limit;
            if run == 0 {
                measure::limit(limit, true, trace, at, time / 4, &mut tally);
            }
            for (which, series) in [true, false].into_iter().zip(&mut series) {
                let sample = measure::limit(limit, which, trace, at, time, &mut tally);
                series.samples.push(sample);
            }
            series[2].samples.push(measure::copy(trace, at, time / 4));
        }
    }
    drop(lanes);
    let own = Series { samples: engine.iter().map(|(sample, _)| *sample).collect() };
    engine.sort_by(|a, b| a.0.ns().total_cmp(&b.0.ns()));
    let spread = (engine[0].0.ns(), engine[runs - 1].0.ns());
    let (sample, tally) = &engine[runs / 2];
    let ns = sample.ns() * workers as f64;
    let clock = median(clocks);
    let flows = if case.is_some() { options.active_flows } else { trace.len() };

    let predicted = predicted(&bed, trace, flows);
    let mut value = json!({
        "engine": bed.engine.name(),
        "packets": sample.packets,
        "seconds": sample.seconds,
        "pps": sample.packets as f64 / sample.seconds,
        "ns_per_packet": ns,
        "verdicts": { "forward": tally.forward, "drop": tally.drop, "punt": tally.punt },
        "per_port": per_port(tally),
        "checked": checked.frames,
        "mismatches": checked.mismatches,
        "tables": tables(&bed),
        "compile_ms": bed.compile.as_secs_f64() * 1e3,
        "predicted_ns_per_packet": predicted.as_ref().map(|p| p.cycles / clock),
        "predicted_parts": predicted.as_ref().map(|p| parts(p, clock)),
        "clock_ghz": clock,
        "cpu": cpu(),
        "first_ms": bed.first.as_secs_f64() * 1e3,
        "ns_least": spread.0 * workers as f64,
        "ns_most": spread.1 * workers as f64,
        "interpreted": tally.left,
        "whole": tally.whole,
        "workers": workers,
        "runs": runs,
        "trace": { "packets": trace.len(), "in_ports": trace.in_ports() },
        "entries": contents.updates.iter().filter(|u| matches!(u, ir::Update::Insert(..))).count(),
    });
    let mut bad = checked.mismatches > 0;
    if let Some(case) = case {
        value["use_case"] = json!(case.name());
        value["active_flows"] = json!(options.active_flows);
    }
    if let Some(limit) = &limit_checked {
        bad |= limit.mismatches > 0;
        value["limit"] = json!({
            "ns_per_packet": counted.ns(),
            "ns_per_packet_uncounted": plain.ns(),
            "ns_copy": copied.ns(),
            "ratio": own.per(&counted) * workers as f64,
            "checked": limit.frames,
            "mismatches": limit.mismatches,
        });
    }
    if let Some((attack, _)) = &attack {
        value["attack"] = json!({
            "name": attack.word(),
            "ns_per_packet": attacked.ns(),
            "rate_change": own.per(&attacked) - 1.0,
            "interpreted": attack_left,
        });
    }
    if let Some(rate) = options.updates.filter(|_| options.check.is_none()) {
        value["updates"] = updates(&mut bed, trace, rate, runs, time)?;
    }
    if options.edits {
        let mut lane = bed.lane(0, trace.len_max());
        if let Some((table, figures)) = update::edits(&mut bed, trace, &mut lane, EDITS)? {
            value["edits"] = json!({
                "table": table,
                "median_us": median(figures.clone()),
                "most_us": figures.iter().copied().fold(0.0, f64::max),
            });
        }
    }
    if let (Some(frames), Some(gateway)) = (options.check, gateway) {
        let rate = options.updates.unwrap_or(100_000);
        let result = update::check(&mut bed, gateway, frames, rate)?;
        bad |= result.mixed > 0;
        value["consistency"] = json!({
            "checked": result.packets,
            "mixed": result.mixed,
            "ahead_of_version": result.ahead,
            "interpreted": result.left,
            "versions_held": result.versions,
            "updates": result.updated.updates,
            "updates_per_second": result.updated.rate(),
            "first": result.first,
        });
    }
    if options.json {
        println!("{value}")
    } else {
        print!("{}", text(&value))
    }
    if bad {
        return Err(Failure::bad("what the bench forwarded is not what the interpreter forwards"));
    }
    Ok(())
}

/// What the cost model says of the traffic that has gone through; none if the engine has no code.
fn predicted(bed: &Bed, trace: &Trace, flows: usize) -> Option<plan::Prediction> {
    let snapshot = bed.publisher.snapshot();
    let lookups = |table| snapshot.state().table(table).0;
    // Every packet looks the first table up.
    let packets = lookups(ir::TableId(0));
    let bytes = trace.bytes() as u64;
    let stages = bed.engine.stages(packets, flows as u64, bytes, &lookups)?;
    Some(control::model::load().predict(&stages))
}

/// What a prediction is made of, in nanoseconds at this clock. Prices were taken at the model's own:
/// a slower one makes all of them dearer alike, as the caches, but for the memory, run with it.
fn parts(predicted: &plan::Prediction, clock_ghz: f64) -> Vec<(&str, f64)> {
    let scale = predicted.cycles / clock_ghz / predicted.ns_per_packet.max(1e-9);
    predicted.lines.iter().map(|(name, ns)| (name.as_str(), ns * scale)).collect()
}

/// One run of all lanes, each on a thread of its own if there are several.
fn engine_run(
    lanes: &mut [Lane],
    trace: &Trace,
    ats: &mut [usize],
    time: Duration,
) -> (Sample, Tally) {
    if let ([lane], [at]) = (&mut *lanes, &mut *ats) {
        let mut tally = Tally::new();
        return (measure::lane(lane, trace, at, time, &mut tally), tally);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = lanes
            .iter_mut()
            .zip(ats)
            .map(|(lane, at)| {
                scope.spawn(move || {
                    let mut tally = Tally::new();
                    (measure::lane(lane, trace, at, time, &mut tally), tally)
                })
            })
            .collect();
        let (mut sample, mut tally) = (Sample::default(), Tally::new());
        for thread in threads {
            // A lane that panics has broken an invariant: the bench ends with it.
            let (one, its) = thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
            sample.packets += one.packets;
            sample.seconds = sample.seconds.max(one.seconds);
            tally.add(&its);
        }
        (sample, tally)
    })
}

/// Forwarding beside updates, in turns with forwarding without.
fn updates(
    bed: &mut Bed,
    trace: &Trace,
    rate: u64,
    runs: usize,
    time: Duration,
) -> Result<Value, Failure> {
    let mut lane = bed.lane(0, trace.len_max());
    let (mut quiet, mut loaded) = (Series::default(), Series::default());
    let (mut at, mut achieved, mut left) = (0, Vec::new(), 0);
    for _ in 0..runs {
        let mut tally = Tally::new();
        quiet.samples.push(measure::lane(&mut lane, trace, &mut at, time, &mut tally));
        let mut tally = Tally::new();
        let (sample, updated) =
            update::beside(bed, trace, &mut lane, &mut at, time, rate, &mut tally)?;
        loaded.samples.push(sample);
        achieved.push(updated.rate());
        left += tally.left;
    }
    Ok(json!({
        "asked_per_second": rate,
        "per_second": median(achieved),
        "ns_per_packet_unloaded": quiet.ns(),
        "ns_per_packet": loaded.ns(),
        "relative_rate": quiet.ns() / loaded.ns(),
        "interpreted": left,
    }))
}

fn per_port(tally: &Tally) -> BTreeMap<String, u64> {
    tally.ports().into_iter().map(|(port, n)| (port.to_string(), n)).collect()
}

fn tables(bed: &Bed) -> Vec<Value> {
    let program = bed.pipeline.program();
    let explained = bed.engine.explain();
    let table = |t: &datapath::engine::TableExplanation| {
        let id = program.tables.iter().position(|table| table.name == t.table);
        json!({
            "id": id,
            "name": t.table,
            "entries": t.entries,
            "template": template(&t.choice),
            "memory_bytes": t.memory_bytes,
        })
    };
    explained.iter().map(table).collect()
}

/// The template that serves, from the explanation's lines: the last one that says so.
fn template(choice: &str) -> &str {
    let says = |line: &&str| line.contains(" serves") || line.contains(" chosen");
    let line = choice.lines().rfind(says).unwrap_or(choice);
    let line = line.rsplit("chosen anew, ").next().unwrap_or(line);
    line.split_whitespace().next().unwrap_or("").trim_end_matches(':')
}

/// For people.
fn text(value: &Value) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let number = |v: &Value| v.as_f64().unwrap_or(0.0);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{}: {:.2} ns a packet ({:.2} to {:.2}), {:.2} million a second; {} entries, compiled in {:.1} ms",
        value["engine"].as_str().unwrap_or(""),
        number(&value["ns_per_packet"]),
        number(&value["ns_least"]),
        number(&value["ns_most"]),
        number(&value["pps"]) / 1e6,
        value["entries"],
        number(&value["compile_ms"]),
    );
    let _ = writeln!(
        out,
        "verdicts: {}; checked {}, mismatches {}; of {}, interpreted {}, run one at a time {}",
        value["verdicts"],
        value["checked"],
        value["mismatches"],
        value["packets"],
        value["interpreted"],
        value["whole"]
    );
    for table in value["tables"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "  {} ({} entries): {}",
            table["name"].as_str().unwrap_or(""),
            table["entries"],
            table["template"].as_str().unwrap_or("")
        );
    }
    if let Some(limit) = value.get("limit") {
        let _ = writeln!(
            out,
            "by hand: {:.2} ns a packet, {:.2} without counters, {:.2} to copy alone; ratio {:.2}; mismatches {}",
            number(&limit["ns_per_packet"]),
            number(&limit["ns_per_packet_uncounted"]),
            number(&limit["ns_copy"]),
            number(&limit["ratio"]),
            limit["mismatches"]
        );
    }
    if let Some(attack) = value.get("attack") {
        let _ = writeln!(
            out,
            "attack {}: {:.2} ns a packet, rate {:+.1} %",
            attack["name"].as_str().unwrap_or(""),
            number(&attack["ns_per_packet"]),
            100.0 * number(&attack["rate_change"])
        );
    }
    for part in ["updates", "edits", "consistency"] {
        if let Some(value) = value.get(part) {
            let _ = writeln!(out, "{part}: {value}");
        }
    }
    out
}

/// `millrace bench use-case`: the entries, and a capture for each port.
pub(crate) fn use_case(options: &BenchUseCaseOptions) -> Result<(), Failure> {
    if options.name == "ovn" {
        return ovn::run(options);
    }
    let Some(out) = &options.out else {
        return Err(Failure::usage("say where to: --out FOLDER"));
    };
    let case = cases::parse(&options.name).map_err(Failure::Usage)?;
    let trace = Trace::of_case(&*case, active(options.active_flows.unwrap_or(1000))?, |_| {});
    let at = |path: &Path, e: &dyn std::fmt::Display| {
        Failure::Bad(format!("cannot write {}: {e}", path.display()))
    };
    std::fs::create_dir_all(out).map_err(|e| at(out, &e))?;
    let path = out.join("flows.txt");
    let write = || -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(File::create(&path)?);
        let mut result = Ok(());
        case.entries(&mut |line| {
            if result.is_ok() {
                result = writeln!(file, "{line}");
            }
        });
        result?;
        file.flush()
    };
    write().map_err(|e| at(&path, &e))?;
    for port in trace.in_ports() {
        let path = out.join(format!("port{port}.pcap"));
        let write = || -> std::io::Result<()> {
            let mut writer = port::pcap::Writer::new(File::create(&path)?)?;
            for n in 0..trace.len() {
                let (in_port, bytes) = trace.frame(n);
                if in_port == port {
                    // A microsecond apart.
                    writer.write(n as u64 * 1000, &bytes)?;
                }
            }
            writer.flush()
        };
        write().map_err(|e| at(&path, &e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
