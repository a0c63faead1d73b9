//! Does a meter let through what it is told to?
//!
//! A meter of *n* packets a second with a band that drops is offered twice as much, then half as much. The
//! rate that comes out is taken from the second half of the run, when bursts are used up. A token bucket of
//! any sane depth then lets through *n*, so [`TOLERANCE`] is for timer granularity.

use super::question::{Module, Over};
use crate::bench::Bench;
use crate::error::Error;
use crate::judge::blindness;
use crate::run::{Finding, Run};
use crate::traffic::Plan;
use openflow::{
    Action, Band, BandKind, FlowMod, Instruction, Message, MeterFlags, MeterId, MeterMod,
    MeterModCommand, PortNo, Version,
};
use std::time::Duration;

/// The module.
pub const MODULE: Module = Module {
    name: "meter",
    about: "whether a meter lets through what it is told to",
    figures: &["meter_pps", "offered_pps", "passed_pps", "error_share"],
    latencies: &[],
    over: &[Over {
        title: "what a meter lets through",
        x: "meter_pps",
        x_label: "rate of the meter (packets a second)",
        y_label: "passed (packets a second)",
        ys: &["passed_pps"],
        log: (true, true),
        note: "",
    }],
    run,
};

/// How far what passes may be from what should, as a share.
const TOLERANCE: f64 = 0.1;
const METER: MeterId = MeterId(1);

fn run(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    if bench.control.version() == Version::V10 {
        return Err(Error::NotAsked("OpenFlow 1.0 has no meters; offer a later version".into()));
    }
    let mut runs = Vec::new();
    for meter_pps in bench.settings.meters_pps.clone() {
        for (word, factor) in [("twice", 2.0), ("half", 0.5)] {
            progress(&format!("meter: {meter_pps} a second, offered {word} that"));
            let done = bench.repeat(|bench| once(bench, meter_pps, word, factor));
            let removed = remove(bench);
            runs.push(done?);
            removed?;
        }
    }
    Ok(runs)
}

fn meter_mod(command: MeterModCommand, meter_pps: u32) -> Message {
    let band = Band { rate: meter_pps, burst_size: meter_pps / 10 + 1, kind: BandKind::Drop };
    let bands = if command == MeterModCommand::Delete { Vec::new() } else { vec![band] };
    let flags = MeterFlags::PKTPS | MeterFlags::BURST;
    Message::MeterMod(MeterMod { command, flags, meter_id: METER, bands })
}

fn remove(bench: &mut Bench) -> Result<(), Error> {
    bench.control.clear()?;
    bench.control.send(&meter_mod(MeterModCommand::Delete, 1))?;
    bench.control.barrier("removing a meter")?;
    Ok(())
}

fn once(bench: &mut Bench, meter_pps: u32, word: &str, factor: f64) -> Result<Run, Error> {
    remove(bench)?;
    bench.control.send(&meter_mod(MeterModCommand::Add, meter_pps))?;
    bench.control.barrier("a meter of packets a second")?;
    let output = Action::output(PortNo(bench.output.number));
    // An instruction until 1.4, an action from 1.5 on.
    let instructions = match bench.control.version() {
        Version::V15 => vec![Instruction::ApplyActions(vec![Action::Meter(METER), output])],
        _ => vec![Instruction::Meter(METER), Instruction::ApplyActions(vec![output])],
    };
    let rule = FlowMod { instructions: instructions.into_iter().collect(), ..bench.forward(0) };
    bench.control.send(&Message::FlowMod(rule))?;
    bench.control.barrier("a flow entry with a meter")?;
    bench.settle();
    let rate_pps = f64::from(meter_pps) * factor;
    let probes = (rate_pps * f64::from(bench.settings.meter_ms) / 1000.0) as u32;
    let drain = Duration::from_millis(300);
    let plan = Plan { probes: probes.max(20), rate_pps, drain, ..bench.plan() };
    let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
    let half = capture.due.len() / 2;
    let passed = capture.received[half..].iter().filter(|at| **at > 0).count() as f64;
    let seconds = (capture.due.len() - half) as f64 / rate_pps;
    let (passed_pps, expected) = (passed / seconds, f64::from(meter_pps).min(rate_pps));
    let error = passed_pps / expected - 1.0;
    let mut findings = Vec::new();
    let mut disturbed = bench.disturbances(&capture);
    // A sender that stalls gives the bucket time to fill: nothing that passes then is the meter's word.
    if disturbed.is_empty() && capture.late * 50 > capture.due.len() as u64 {
        disturbed.push(format!("{} probes missed their slot", capture.late));
    }
    if error.abs() > TOLERANCE && disturbed.is_empty() && blindness(&capture).is_empty() {
        let text = format!(
            "a meter of {meter_pps} packets a second lets {passed_pps:.0} of {rate_pps:.0} pass, not {expected:.0}"
        );
        findings.push(Finding { what: "meter_inaccurate", text });
    }
    Ok(Run {
        label: format!("{meter_pps} a second, offered {word} that"),
        group: format!("offered {word}"),
        disturbed,
        figures: vec![
            ("meter_pps", meter_pps.into()),
            ("offered_pps", rate_pps),
            ("passed_pps", passed_pps),
            ("error_share", error),
        ],
        findings,
        ..Run::default()
    })
}
