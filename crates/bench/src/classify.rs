//! `millrace bench classify`: lookup structures on rules in ClassBench's form.
//!
//! Rules and headers are read, or headers are drawn from the rules (a million), or the rules themselves are
//! made afresh, in the likeness of the file's. A structure takes the rules one by one in random order, is
//! judged by linear search on a sample, and then timed: keys one by one, and in bursts of 32, in runs that
//! take turns; figures are medians. With `--updates`, half of the rules are loaded and half a million inserts
//! and as many removals follow, shuffled, as the TupleMerge paper has it (IV.A); what is left is judged again.
//!
//! | module | holds |
//! |---|---|
//! | [`subject`] | the structures by name |
//! | [`beside`] | lookups while rules come and go |
//! | [`partition_sort`] | PartitionSort, for comparison |

mod beside;
mod partition_sort;
mod subject;

use super::measure::{cpu, median};
use crate::options::BenchClassifyOptions;
use classify::classbench::{self, Draw, KEY_LEN, STRIDE};
use classify::{Hit, Rule};
use control::failure::Failure;
use serde_json::{Value, json};
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;
use subject::Subject;

/// Keys of a burst.
const BURST: usize = 32;
/// Headers drawn from the rules, if no trace is given.
pub(crate) const HEADERS: usize = 1_000_000;
/// Inserts, and as many removals.
const UPDATES: usize = 500_000;
/// Headers by which tables asked and rules compared are counted.
const PROBED: usize = 20_000;
/// Rules that linear search may read in all, while it judges.
const COMPARES: usize = 400_000_000;
/// Headers that are judged, at most and at least.
const CHECKED: std::ops::RangeInclusive<usize> = 500..=200_000;

/// `millrace bench classify`.
pub(crate) fn run(options: &BenchClassifyOptions) -> Result<(), Failure> {
    if options.runs == 0 || options.headers == 0 || options.headers > classbench::HEADERS_MAX {
        return Err(Failure::Usage(format!(
            "--runs must be at least 1, --headers 1 to {}",
            classbench::HEADERS_MAX
        )));
    }
    let rules = rules(options)?;
    let trace = trace(options, &rules)?;
    let new = subject::named(&options.algorithm).map_err(Failure::Usage)?;
    let (value, mismatches) = measure(options, &rules, &trace, new)?;
    if options.json {
        println!("{value}")
    } else {
        print!("{}", text(&value))
    }
    if mismatches > 0 {
        return Err(Failure::bad(
            "what the structure finds is not what linear search finds, or what the trace says",
        ));
    }
    Ok(())
}

/// Keys, and the rules that the trace says they meet.
struct Trace {
    keys: Vec<u8>,
    wanted: Option<Vec<Hit>>,
}

impl Trace {
    fn len(&self) -> usize {
        self.keys.len() / STRIDE
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.chunks_exact(STRIDE).map(|key| &key[..KEY_LEN])
    }
}

/// The text of a file; one that ends in `.xz` is unpacked by `xz`.
fn read(path: &Path) -> Result<String, Failure> {
    let bad =
        |e: &dyn std::fmt::Display| Failure::Bad(format!("cannot read {}: {e}", path.display()));
    let bytes = if path.extension().is_some_and(|e| e == "xz") {
        let output = std::process::Command::new("xz").arg("-dc").arg(path).output();
        let output = output.map_err(|e| bad(&format!("xz, which unpacks it: {e}")))?;
        if !output.status.success() {
            return Err(bad(&String::from_utf8_lossy(&output.stderr).trim()));
        }
        output.stdout
    } else {
        std::fs::read(path).map_err(|e| bad(&e))?
    };
    String::from_utf8(bytes).map_err(|e| bad(&e))
}

fn rules(options: &BenchClassifyOptions) -> Result<Vec<Rule>, Failure> {
    let path = &options.rules;
    let named = |e: classbench::ParseError| Failure::Bad(format!("{}: {e}", path.display()));
    let mut rules = classbench::rules(&read(path)?).map_err(named)?;
    if rules.is_empty() {
        return Err(Failure::Bad(format!("{} holds no rules", path.display())));
    }
    if let Some(count) = options.fresh {
        if !(1..=classbench::RULES_MAX).contains(&count) {
            let most = classbench::RULES_MAX;
            return Err(Failure::Usage(format!("--fresh must be 1 to {most}")));
        }
        rules = classbench::fresh(&rules, count, options.seed);
    }
    if let Some(path) = &options.write_rules {
        write(path, rules.iter().map(classbench::write_rule))?;
    }
    Ok(rules)
}

fn trace(options: &BenchClassifyOptions, rules: &[Rule]) -> Result<Trace, Failure> {
    let Some(path) = &options.trace else {
        let keys = classbench::headers(rules, options.headers, options.seed);
        return Ok(Trace { keys, wanted: None });
    };
    let named = |e: classbench::ParseError| Failure::Bad(format!("{}: {e}", path.display()));
    let headers = classbench::trace(&read(path)?).map_err(named)?;
    if headers.is_empty() {
        return Err(Failure::Bad(format!("{} holds no headers", path.display())));
    }
    let mut keys = vec![0; headers.len() * STRIDE];
    for (to, header) in keys.chunks_exact_mut(STRIDE).zip(&headers) {
        to[..KEY_LEN].copy_from_slice(&header.key);
    }
    let wanted = headers.iter().map(|header| {
        let rule = header.rule?;
        Some(rules.get(rule as usize).map_or(Hit::MISS, Rule::hit))
    });
    Ok(Trace { keys, wanted: wanted.collect() })
}

fn write(path: &Path, lines: impl Iterator<Item = String>) -> Result<(), Failure> {
    let write = || -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        for line in lines {
            writeln!(file, "{line}")?;
        }
        file.flush()
    };
    write().map_err(|e| Failure::Bad(format!("cannot write {}: {e}", path.display())))
}

/// What a structure is seen to do, and how many answers were wrong.
fn measure(
    options: &BenchClassifyOptions,
    rules: &[Rule],
    trace: &Trace,
    new: subject::New,
) -> Result<(Value, usize), Failure> {
    let mut order: Vec<&Rule> = rules.iter().collect();
    let draw = &mut Draw::new(options.seed ^ 0x5eed);
    draw.shuffle(&mut order);
    let build = |rules: &[&Rule]| {
        new(rules).map_err(|why| {
            Failure::Bad(format!("{} cannot hold these rules: {why}", options.algorithm))
        })
    };
    let began = Instant::now();
    let mut subject = build(&order)?;
    let build_ms = began.elapsed().as_secs_f64() * 1e3;

    let present = vec![true; rules.len()];
    let (checked, mut mismatches) = judge(&*subject, rules, &present, trace);
    let mut hits = vec![Hit::MISS; trace.len()];
    if let Some(wanted) = &trace.wanted {
        bursts(&*subject, trace, &mut hits);
        mismatches += hits.iter().zip(wanted).filter(|(hit, wanted)| hit != wanted).count();
    }
    if let Some(path) = &options.write_trace {
        bursts(&*subject, trace, &mut hits);
        let lines = trace
            .keys()
            .zip(&hits)
            .map(|(key, hit)| classbench::write_header(key, hit.is_hit().then_some(hit.entry)));
        write(path, lines)?;
    }
    let (mut single, mut batched) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        let began = Instant::now();
        bursts(&*subject, trace, black_box(&mut hits));
        batched.push(began.elapsed().as_nanos() as f64 / trace.len() as f64);
        let began = Instant::now();
        for key in trace.keys() {
            black_box(subject.lookup(key));
        }
        single.push(began.elapsed().as_nanos() as f64 / trace.len() as f64);
    }
    let probes = subject.probes(&mut trace.keys().take(PROBED));
    let mut value = json!({
        "algorithm": options.algorithm,
        "rules": rules.len(),
        "lookups": trace.len(),
        "ns_per_lookup": median(single.clone()),
        "ns_per_lookup_batched": median(batched.clone()),
        "ns_least": least(&single),
        "ns_least_batched": least(&batched),
        "build_ms": build_ms,
        "memory_bytes": subject.memory_bytes(),
        "tables": subject.tables(),
        "updates_per_second": Value::Null,
        "update_us": Value::Null,
        "checked": checked,
        "structure": subject.text(),
        "tables_per_lookup": probes.map(|probes| probes.tables_per_lookup()),
        "compares_per_lookup": probes.map(|probes| probes.compared_per_lookup()),
        "runs": options.runs,
        "cpu": cpu(),
    });
    if options.updates {
        drop(subject);
        let plan = Plan::new(rules.len(), draw);
        let loaded: Vec<&Rule> = plan.loaded.iter().map(|&at| &rules[at as usize]).collect();
        subject = build(&loaded)?;
        let began = Instant::now();
        for &(inserts, at) in &plan.updates {
            let rule = &rules[at as usize];
            let done = if inserts { subject.insert(rule) } else { subject.remove(rule.id) };
            if !done {
                return Err(Failure::Bad(format!(
                    "{} declines to {} rule {at}",
                    options.algorithm,
                    if inserts { "insert" } else { "remove" }
                )));
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        value["updates_per_second"] = json!(plan.updates.len() as f64 / seconds);
        value["update_us"] = json!(seconds * 1e6 / plan.updates.len() as f64);
        let (checked, wrong) = judge(&*subject, rules, &plan.present, trace);
        value["checked"] = json!(value["checked"].as_u64().unwrap_or(0) + checked as u64);
        mismatches += wrong;
    }
    if let Some(rate) = options.beside {
        let (figures, wrong) = beside::beside(new, rules, trace, rate, options.runs, draw)?;
        value["beside"] = figures;
        mismatches += wrong;
    }
    if let Some(lookups) = options.soak {
        let judge = subject::named("tuple_space").map_err(Failure::Bad)?;
        let (figures, wrong) = beside::soak(new, judge, rules, trace, lookups, draw)?;
        value["soak"] = figures;
        mismatches += wrong;
    }
    value["mismatches"] = json!(mismatches);
    Ok((value, mismatches))
}

fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}

fn bursts(subject: &dyn Subject, trace: &Trace, hits: &mut [Hit]) {
    for (keys, hits) in trace.keys.chunks(BURST * STRIDE).zip(hits.chunks_mut(BURST)) {
        subject.lookup_burst(keys, STRIDE, hits);
    }
}

/// Compares the answers to some headers, alone and in bursts, with those of linear search among the rules
/// that are there: how many were asked for, and how many are wrong.
fn judge(subject: &dyn Subject, rules: &[Rule], present: &[bool], trace: &Trace) -> (usize, usize) {
    let checks = (COMPARES / rules.len()).clamp(*CHECKED.start(), *CHECKED.end()).min(trace.len());
    // Whole bursts, from all over the trace.
    let every = (trace.len() / checks).max(1) * BURST;
    let (mut checked, mut wrong) = (0, 0);
    for from in (0..trace.len()).step_by(every) {
        let count = BURST.min(trace.len() - from).min(checks - checked);
        let keys = &trace.keys[from * STRIDE..][..count * STRIDE];
        let mut hits = [Hit::MISS; BURST];
        subject.lookup_burst(keys, STRIDE, &mut hits[..count]);
        for (key, hit) in keys.chunks_exact(STRIDE).zip(&hits) {
            let key = &key[..KEY_LEN];
            let found =
                rules.iter().zip(present).find(|(rule, there)| **there && rule.matches(key));
            let wanted = found.map_or(Hit::MISS, |(rule, _)| rule.hit());
            wrong += usize::from(*hit != wanted || subject.lookup(key) != wanted);
        }
        checked += count;
        if checked == checks {
            break;
        }
    }
    (checked, wrong)
}

/// Which rules come and go, and when.
struct Plan {
    /// Rules that are there at first.
    loaded: Vec<u32>,
    /// Inserts (true) and removals.
    updates: Vec<(bool, u32)>,
    /// Which rules are there in the end.
    present: Vec<bool>,
}

impl Plan {
    fn new(rules: usize, draw: &mut Draw) -> Plan {
        let mut inside: Vec<u32> = (0..rules as u32).collect();
        draw.shuffle(&mut inside);
        let mut outside = inside.split_off(rules / 2);
        let loaded = inside.clone();
        let mut kinds: Vec<bool> = (0..2 * UPDATES).map(|n| n % 2 == 0).collect();
        draw.shuffle(&mut kinds);
        let mut updates = Vec::with_capacity(kinds.len());
        for inserts in kinds {
            // Where none is left to insert or to remove, the other is done.
            let inserts = if inserts { !outside.is_empty() } else { inside.is_empty() };
            let (from, to) =
                if inserts { (&mut outside, &mut inside) } else { (&mut inside, &mut outside) };
            let at = from.swap_remove(draw.below(from.len()));
            to.push(at);
            updates.push((inserts, at));
        }
        let mut present = vec![false; rules];
        inside.iter().for_each(|&at| present[at as usize] = true);
        Plan { loaded, updates, present }
    }
}

/// For people.
fn text(value: &Value) -> String {
    use std::fmt::Write as _;
    let number = |name: &str| value[name].as_f64().unwrap_or(0.0);
    let mut out = format!(
        "{}: {} rules, {:.1} ns a lookup, {:.1} in bursts; {} tables, {:.0} bytes a rule, \
         built in {:.1} ms\nchecked {}, mismatches {}\n",
        value["algorithm"].as_str().unwrap_or(""),
        value["rules"],
        number("ns_per_lookup"),
        number("ns_per_lookup_batched"),
        value["tables"],
        number("memory_bytes") / number("rules").max(1.0),
        number("build_ms"),
        value["checked"],
        value["mismatches"],
    );
    if !value["update_us"].is_null() {
        let (us, rate) = (number("update_us"), number("updates_per_second"));
        // Writing to a string does not fail.
        let _ = writeln!(out, "an update takes {us:.3} us: {rate:.0} a second");
    }
    for part in ["beside", "soak"] {
        if let Some(value) = value.get(part) {
            let _ = writeln!(out, "{part}: {value}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
