//! How is traffic forwarded that someone else describes: by ranges of header fields, or by a capture file?
//!
//! The frames ([`Frames`]) are sent with a probe written over their ends, by the schedule of the settings or by
//! the file's own times. One rule forwards all that comes in, so what is seen is what the switch does with such
//! traffic, not whether its rules fit.

use super::question::Module;
use crate::bench::Bench;
use crate::error::Error;
use crate::judge::{blindness, both_latencies};
use crate::run::{Finding, Run, WIRE};
use crate::traffic::{Frames, Plan};
use openflow::{Action, FieldId, FlowMod, Instruction, Match, PortNo};
use std::time::Duration;

/// The module.
pub const MODULE: Module = Module {
    name: "described",
    about: "how traffic is forwarded that is described by ranges of fields, or comes from a capture file",
    figures: &["frames", "sent", "lost", "doubled", "reordered", "bytes_per_second"],
    latencies: &["latency", WIRE],
    over: &[],
    run,
};

fn run(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let traffic = bench.settings.described.clone();
    if traffic.is_empty() {
        let text = "no traffic was described (--flow FIELD=RANGE,..., or --trace FILE)";
        return Err(Error::NotAsked(text.into()));
    }
    let matching = Match::new().with(FieldId::InPort, bench.input.number.into());
    let apply = Instruction::ApplyActions(vec![Action::output(PortNo(bench.output.number))]);
    bench.only(FlowMod {
        priority: 1000,
        ..FlowMod::add(matching, [apply].into_iter().collect())
    })?;
    let mut runs = Vec::new();
    for (name, frames) in traffic {
        progress(&format!("described: {name}"));
        let Frames { frames: list, offsets } = &*frames;
        let count = list.len();
        let longest = bench.input.len_max().min(bench.output.len_max());
        if let Some(long) = list.iter().map(Vec::len).find(|len| *len > longest) {
            let text = format!("{name} has a frame of {long} bytes; the ports take {longest}");
            return Err(Error::NotAsked(text));
        }
        // A recording is played once; a description by the number of probes.
        let probes = if offsets.is_some() { count as u32 } else { bench.settings.probes };
        runs.push(bench.repeat(|bench| {
            let drain = Duration::from_millis(500);
            let plan = Plan { probes, frames: Some(frames.clone()), drain, ..bench.plan() };
            let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
            let sent = capture.sent_count();
            let lost = capture.lost_count();
            let mut findings = Vec::new();
            for (what, n, did) in [
                ("frames_lost", lost, "did not come out"),
                ("frames_reordered", capture.reordered, "came out after one that was sent later"),
            ] {
                if n > 0 && blindness(&capture).is_empty() {
                    let text = format!("{n} of {sent} frames {did}");
                    findings.push(Finding { what, text });
                }
            }
            let bytes: usize = list.iter().map(Vec::len).sum();
            let mean = bytes as f64 / count as f64;
            let seconds = (capture.sending_ns as f64 / 1e9).max(1e-6);
            Ok(Run {
                label: name.clone(),
                disturbed: bench.disturbances(&capture),
                figures: vec![
                    ("frames", count as f64),
                    ("sent", sent as f64),
                    ("lost", lost as f64),
                    ("doubled", capture.odd.doubled as f64),
                    ("reordered", capture.reordered as f64),
                    ("bytes_per_second", (mean * sent as f64 / seconds).round()),
                ],
                latencies: both_latencies(&capture),
                findings,
                ..Run::default()
            })
        })?);
    }
    Ok(runs)
}
