//! Runs a test file on an engine, and rewrites its expectations to what happened.

use super::notation::hex;
use super::{CheckKind, Document, Packet, Parsing, Step, StepAction};
use crate::bits::Bits;
use crate::id::{MeterId, RegisterId};
use crate::pipeline::{Pipeline, Update};
use crate::verdict::{PuntReason, Verdict};
use std::collections::BTreeMap;

/// What runs a pipeline: the interpreter, or compiled code.
pub trait Engine {
    /// Begins anew with this pipeline; registers, counters and meters are zero, all ports up.
    fn load(&mut self, pipeline: &Pipeline);
    /// Follows updates that were found good; `pipeline` is what came of them.
    fn update(&mut self, updates: &[Update], pipeline: &Pipeline);
    /// Runs a packet to its end, resubmissions included.
    fn packet(&mut self, packet: &Injected<'_>) -> Outcome;
    /// What the program's parser makes of these bytes, for showing them; `None` if it cannot say.
    fn parse(&mut self, bytes: &[u8]) -> Option<Parsing>;
    /// Sets a register's cell.
    fn set_register(&mut self, register: RegisterId, cell: u32, value: &Bits);
    /// A register's cell, if there is one.
    fn register(&mut self, register: RegisterId, cell: u32) -> Option<Bits>;
    /// A port goes up or down.
    fn set_port(&mut self, port: u32, up: bool);
    /// A meter answers with this colour and level from now on; false if the engine's meters always
    /// measure.
    fn set_meter(&mut self, meter: MeterId, color: u8, level: u8) -> bool {
        let _ = (meter, color, level);
        false
    }
    /// The count of something, as text: of `table NAME`, `group NUMBER`, `counter NAME(CELL)`,
    /// `entry ID`. `None` if the engine keeps no such count.
    fn stats(&mut self, what: &str) -> Option<String>;
    /// How tables are looked up and why, in lines; `None` if the engine does not choose.
    fn plan(&mut self) -> Option<Vec<String>> {
        None
    }
}

/// A packet that comes in.
#[derive(Clone, Copy, Debug)]
pub struct Injected<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The port.
    pub in_port: u32,
    /// When, in nanoseconds of the switch's clock.
    pub now_ns: u64,
}

/// Something that left the pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A copy went to a port.
    Out {
        /// The port.
        port: u32,
        /// The queue.
        queue: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A copy went to the control plane.
    Punt {
        /// Why.
        reason: PuntReason,
        /// Values beside it.
        args: Vec<Bits>,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A message of values went to the control plane.
    Digest {
        /// The digest's name.
        name: String,
        /// Its values.
        args: Vec<Bits>,
    },
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What left, in order.
    pub events: Vec<Event>,
    /// The verdict.
    pub verdict: Verdict,
    /// The trace's lines.
    pub trace: Vec<String>,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line in the file, from 1.
    pub line: u32,
    /// What was expected and what happened.
    pub text: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Checks made.
    pub checks: usize,
    /// Those that failed.
    pub failures: Vec<Failure>,
    /// Why the run ended before the file did, if it did: the engine lacks something.
    pub skipped: Option<String>,
    /// For [`bless`]: comment lines that take the place of a step's checks, by the step's last line;
    /// with the lines of the checks that go.
    rewrites: BTreeMap<u32, (Vec<u32>, Vec<String>)>,
}

/// Runs all steps.
pub fn run(doc: &Document, engine: &mut dyn Engine) -> Report {
    let mut report = Report::default();
    let mut pipeline = doc.pipeline.clone();
    let mut next = doc.next_entry();
    engine.load(&pipeline);
    for step in &doc.steps {
        match &step.action {
            StepAction::Packet { port, at_ns, packet, bytes } => {
                let injected = Injected { bytes, in_port: *port, now_ns: *at_ns };
                let outcome = engine.packet(&injected);
                let shown = show(doc, engine, packet.as_ref(), bytes, &outcome);
                packet_checks(step, &outcome, &shown, &mut report);
            }
            StepAction::Updates(statements) => {
                let before = next;
                let result = Document::updates(statements, &pipeline, &mut next)
                    .map_err(|e| e.text)
                    .and_then(|updates| match pipeline.transact(&updates) {
                        Ok(_) => Ok(updates),
                        Err((_, e)) => Err(e.to_string()),
                    });
                match &result {
                    Ok(updates) => engine.update(updates, &pipeline),
                    // What was refused used no ids.
                    Err(_) => next = before,
                }
                update_checks(step, result.err(), &mut report);
            }
            StepAction::Register(r, cell, value) => engine.set_register(*r, *cell, value),
            StepAction::Port(port, up) => engine.set_port(*port, *up),
            StepAction::Color { meter, color, level } => {
                if !engine.set_meter(*meter, *color, *level) {
                    let text = format!("line {}: the engine's meters cannot be set", step.line);
                    report.skipped = Some(text);
                    break;
                }
            }
        }
        other_checks(doc, step, engine, &mut report);
    }
    report
}

/// The copies of a packet as expectations, one line each.
fn show(
    doc: &Document,
    engine: &mut dyn Engine,
    input: Option<&Packet>,
    input_bytes: &[u8],
    outcome: &Outcome,
) -> Vec<String> {
    let program = doc.pipeline.program();
    let mut shape = |bytes: &[u8]| {
        if bytes == input_bytes {
            return "same".to_string();
        }
        let parsed = engine.parse(bytes);
        let full = parsed.as_ref().and_then(|p| Packet::show(program, &doc.fills, p, bytes));
        let change = parsed
            .as_ref()
            .zip(input)
            .and_then(|(p, input)| input.show_change(program, &doc.fills, p, bytes));
        let shortest = change.into_iter().chain(full).min_by_key(String::len);
        shortest.unwrap_or_else(|| format!("hex {}", hex(bytes)))
    };
    let list = |args: &[Bits]| args.iter().map(|a| format!("{a:#}")).collect::<Vec<_>>().join(", ");
    let mut out: Vec<String> = Vec::new();
    for event in &outcome.events {
        out.push(match event {
            Event::Out { port, queue: 0, bytes } => format!("out={port} {}", shape(bytes)),
            Event::Out { port, queue, bytes } => {
                format!("out={port} queue={queue} {}", shape(bytes))
            }
            Event::Punt { reason, args, bytes } if args.is_empty() => {
                format!("punt {reason} {}", shape(bytes))
            }
            Event::Punt { reason, args, bytes } => {
                format!("punt {reason}({}) {}", list(args), shape(bytes))
            }
            Event::Digest { name, args } => format!("digest {name}({})", list(args)),
        });
    }
    if let Verdict::Drop(reason) = outcome.verdict {
        out.push(format!("drop {reason}"));
    }
    out
}

/// The expectation holds for what left as number `i`, or for the verdict.
fn holds(kind: &CheckKind, event: Option<&Event>, verdict: Verdict) -> bool {
    match (kind, event) {
        (
            CheckKind::Out { port, queue, bytes },
            Some(Event::Out { port: p, queue: q, bytes: b }),
        ) => port == p && queue == q && bytes == b,
        (
            CheckKind::Punt { reason, args, bytes },
            Some(Event::Punt { reason: r, args: a, bytes: b }),
        ) => {
            let shown: Vec<String> = a.iter().map(|v| format!("{v:#}")).collect();
            reason == r
                && args.as_ref().is_none_or(|args| *args == shown)
                && bytes.as_ref().is_none_or(|bytes| bytes == b)
        }
        (CheckKind::Digest(text), Some(Event::Digest { name, args })) => {
            let shown: Vec<String> = args.iter().map(|v| format!("{v:#}")).collect();
            let squeeze = |s: &str| s.split_whitespace().collect::<String>();
            squeeze(text) == squeeze(&format!("{name}({})", shown.join(", ")))
        }
        (CheckKind::Drop(reason), None) => verdict == Verdict::Drop(*reason),
        _ => false,
    }
}

fn packet_checks(step: &Step, outcome: &Outcome, shown: &[String], report: &mut Report) {
    let expected: Vec<_> = step.checks.iter().filter(|c| c.kind.is_expectation()).collect();
    let mut failed = None;
    let dropped = matches!(outcome.verdict, Verdict::Drop(_));
    let happened = outcome.events.len() + usize::from(dropped);
    for (i, check) in expected.iter().enumerate() {
        report.checks += 1;
        let possible = i < happened;
        if !(possible && holds(&check.kind, outcome.events.get(i), outcome.verdict)) {
            let text = match shown.get(i) {
                Some(shown) => format!("happened: {shown}"),
                None => format!("nothing more happened; the verdict is {}", outcome.verdict),
            };
            failed = failed.or(Some(Failure { line: check.line, text }));
        }
    }
    if failed.is_none()
        && let Some(more) = shown.get(expected.len())
    {
        let text = if expected.is_empty() {
            format!("nothing is expected of this packet; happened: {}", shown.join("; "))
        } else {
            format!("not expected, but happened: {more}")
        };
        failed = Some(Failure { line: step.line, text });
    }
    let traces: Vec<_> = step
        .checks
        .iter()
        .filter_map(|c| match &c.kind {
            CheckKind::Trace(t) => Some((c.line, t.as_str())),
            _ => None,
        })
        .collect();
    let lines: Vec<&str> = outcome.trace.iter().map(|l| l.trim()).collect();
    let mut at = 0;
    let mut trace_failed = false;
    let mut blessed_traces = Vec::new();
    for (line, text) in &traces {
        report.checks += 1;
        match lines[at..].iter().position(|l| l == text) {
            Some(found) => {
                at += found + 1;
                blessed_traces.push((*text).to_string());
            }
            None => {
                trace_failed = true;
                let head = text.split(':').next().unwrap_or(text);
                let near = lines[at..].iter().find(|l| l.split(':').next() == Some(head));
                let text = match near {
                    Some(near) => format!("the trace says: {near}"),
                    None => format!("the trace has no such line: {}", lines.join(" / ")),
                };
                report.failures.push(Failure { line: *line, text });
                blessed_traces.extend(near.map(|n| n.to_string()));
            }
        }
    }
    if failed.is_some() || trace_failed {
        report.failures.extend(failed);
        let old = expected.iter().map(|c| c.line).chain(traces.iter().map(|(l, _)| *l)).collect();
        let new = shown
            .iter()
            .map(|s| format!("; expect {s}"))
            .chain(blessed_traces.iter().map(|t| format!("; trace {t}")))
            .collect();
        report.rewrites.insert(step.last_line, (old, new));
    }
}

fn update_checks(step: &Step, error: Option<String>, report: &mut Report) {
    report.checks += 1;
    let expected: Vec<_> = step
        .checks
        .iter()
        .filter_map(|c| match &c.kind {
            CheckKind::Error(t) => Some((c.line, t.as_str())),
            _ => None,
        })
        .collect();
    let good = match (&error, expected.as_slice()) {
        (None, []) => true,
        (Some(e), [(_, text)]) => e == text,
        _ => false,
    };
    if good {
        return;
    }
    let line = expected.first().map_or(step.line, |(l, _)| *l);
    let text = match &error {
        Some(e) => format!("it was refused: {e}"),
        None => "it was not refused".to_string(),
    };
    report.failures.push(Failure { line, text });
    let new = error.into_iter().map(|e| format!("; error {e}")).collect();
    let old = expected.iter().map(|(l, _)| *l).collect();
    report.rewrites.insert(step.last_line, (old, new));
}

/// Lines of the plan, in order, others between; the blanks in them do not matter.
fn plan_checks(step: &Step, engine: &mut dyn Engine, report: &mut Report) {
    let of = |c: &super::Check| match &c.kind {
        CheckKind::Plan(text) => Some((c.line, text.clone())),
        _ => None,
    };
    let wanted: Vec<(u32, String)> = step.checks.iter().filter_map(of).collect();
    if wanted.is_empty() {
        return;
    }
    // An engine that does not choose has nothing to be asked for.
    let Some(lines) = engine.plan() else { return };
    let squeeze = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = lines.iter().map(|l| squeeze(l)).collect();
    let mut at = 0;
    for (line, text) in wanted {
        report.checks += 1;
        match lines[at..].iter().position(|l| *l == squeeze(&text)) {
            Some(found) => at += found + 1,
            None => {
                let text = format!("the plan says: {}", lines[at..].join(" / "));
                report.failures.push(Failure { line, text });
            }
        }
    }
}

fn other_checks(doc: &Document, step: &Step, engine: &mut dyn Engine, report: &mut Report) {
    plan_checks(step, engine, report);
    for check in &step.checks {
        let (line, new) = match &check.kind {
            CheckKind::Register(r, cell, want) => {
                report.checks += 1;
                let have = engine.register(*r, *cell);
                if have.as_ref() == Some(want) {
                    continue;
                }
                let name = &doc.pipeline.program().registers[r.index()].name;
                match have {
                    Some(have) => (
                        format!("the cell holds {have:#}"),
                        format!("; register {}({cell}) = {have:#}", super::super::print_name(name)),
                    ),
                    None => ("the register has no such cell".to_string(), String::new()),
                }
            }
            CheckKind::Stats(what, want) => {
                report.checks += 1;
                // An engine that keeps no such count is not asked again.
                let Some(have) = engine.stats(what) else { continue };
                if have == *want {
                    continue;
                }
                (format!("{what}: {have}"), format!("; stats {what}: {have}"))
            }
            _ => continue,
        };
        report.failures.push(Failure { line: check.line, text: line });
        if !new.is_empty() {
            report.rewrites.insert(check.line, (vec![check.line], vec![new]));
        }
    }
}

/// The file with the lines of failed checks rewritten to what happened; everything else stays.
pub fn bless(source: &str, report: &Report) -> String {
    let gone: Vec<u32> = report.rewrites.values().flat_map(|(old, _)| old.clone()).collect();
    let mut out = String::with_capacity(source.len());
    for (i, line) in source.lines().enumerate() {
        let number = i as u32 + 1;
        if !gone.contains(&number) {
            out.push_str(line);
            out.push('\n');
        }
        if let Some((_, new)) = report.rewrites.get(&number) {
            for line in new {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}
