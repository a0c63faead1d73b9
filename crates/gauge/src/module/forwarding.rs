//! How long do frames of each size take from port to port, and are any lost, doubled or reordered?

use super::question::{Module, Over};
use crate::bench::Bench;
use crate::error::Error;
use crate::judge::{blindness, both_latencies};
use crate::run::{Finding, Run, WIRE};
use crate::traffic::Plan;

/// The module.
pub const MODULE: Module = Module {
    name: "forwarding",
    about: "how long frames of each size take from port to port, and how many are lost",
    figures: &["bytes", "sent", "lost", "doubled", "reordered"],
    latencies: &["latency", WIRE],
    over: &[
        Over {
            title: "latency over frame size",
            x: "bytes",
            x_label: "frame size (bytes, with the check sequence)",
            y_label: "latency (us)",
            ys: &["latency_min_us", "latency_p50_us", "latency_p90_us"],
            log: (false, true),
            note: "OFLOPS-SUME, figures 6a and 6b: least, median and 90th percentile. There, hardware stamped frames at the port; here the kernel \
                   or the process does, so the floor is part of every figure.",
        },
        Over {
            title: "what the wire took over frame size",
            x: "bytes",
            x_label: "frame size (bytes, with the check sequence)",
            y_label: "from leaving our port to arriving (us)",
            ys: &["wire_min_us", "wire_p50_us", "wire_p90_us"],
            log: (false, true),
            note: "By the kernel's stamps at both ends, as the paper's hardware stamps frames at the port: without what our own sending took. Only \
                   of probes that left, so a stall of the generator is not in it.",
        },
        Over {
            title: "loss over frame size",
            x: "bytes",
            x_label: "frame size (bytes, with the check sequence)",
            y_label: "frames lost",
            ys: &["lost"],
            log: (false, false),
            note: "OFLOPS-SUME, table I has the loss at line rate; here it is at the rates that the lines name.",
        },
    ],
    run,
};

fn run(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = bench.forward(0);
    bench.only(rule)?;
    // The first packets may take another way (a cache is filled, code is compiled).
    let warm_up = Plan { probes: bench.settings.probes.min(1000), ..bench.plan() };
    bench.traffic(&warm_up, |_, _| Ok(()))?;
    let mut runs = Vec::new();
    let longest = bench.input.len_max().min(bench.output.len_max());
    for size in bench.settings.sizes.clone() {
        let len = size.saturating_sub(4);
        if len > longest {
            progress(&format!("forwarding: {size} bytes are left out, longer than the ports' MTU"));
            continue;
        }
        for rate_pps in bench.settings.rates_pps() {
            progress(&format!("forwarding: {size} bytes, {rate_pps} a second"));
            runs.push(bench.repeat(|bench| once(bench, size, len, rate_pps))?);
        }
    }
    Ok(runs)
}

fn once(bench: &mut Bench, size: usize, len: usize, rate_pps: f64) -> Result<Run, Error> {
    let plan = Plan { len, rate_pps, ..bench.plan() };
    let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
    let sent = capture.sent_count();
    let lost = capture.lost_count();
    let mut findings = Vec::new();
    if blindness(&capture).is_empty() {
        let mut found = |what, n: u64, did: &str| {
            if n > 0 {
                findings.push(Finding { what, text: format!("{n} of {sent} frames {did}") });
            }
        };
        found("frames_lost", lost, "did not come out");
        found("frames_reordered", capture.reordered, "came out after one that was sent later");
    }
    Ok(Run {
        label: format!("{size} bytes, {} a second", plan.rate_pps),
        group: format!("{} a second", plan.rate_pps),
        disturbed: bench.disturbances(&capture),
        figures: vec![
            ("bytes", size as f64),
            ("sent", sent as f64),
            ("lost", lost as f64),
            ("doubled", capture.odd.doubled as f64),
            ("reordered", capture.reordered as f64),
        ],
        latencies: both_latencies(&capture),
        findings,
        ..Run::default()
    })
}
