//! How long does a packet take from a data port to the controller, and the other way?

use super::Module;
use crate::bench::{Bench, blindness, latencies, packet_out};
use crate::clock;
use crate::error::Error;
use crate::latency::Latency;
use crate::probe::{self, Probe};
use crate::report::{Finding, Run};
use crate::traffic::Plan;
use openflow::PortNo;
use std::collections::HashSet;
use std::time::Duration;

/// Packets to the controller.
pub const PACKET_IN: Module = Module {
    name: "packet_in",
    about: "how long a packet takes to the controller",
    figures: &["sent", "lost"],
    latencies: &["latency"],
    over: &[],
    run: packet_in,
};

/// Packets from the controller.
pub const PACKET_OUT: Module = Module {
    name: "packet_out",
    about: "how long a packet takes from the controller",
    figures: &["sent", "lost"],
    latencies: &["latency"],
    over: &[],
    run: packet_out_run,
};

fn plan(bench: &mut Bench) -> Plan {
    let (probes, rate_pps) = (bench.settings.punts, bench.settings.punt_pps);
    Plan { probes, rate_pps, ..bench.plan() }
}

fn packet_in(bench: &mut Bench, _: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = bench.rule(0, PortNo::CONTROLLER);
    bench.only(rule)?;
    Ok(vec![bench.repeat(|bench| {
        // None comes out of the output port: there is nothing to wait for.
        let plan = Plan { drain: Duration::from_millis(1), ..plan(bench) };
        bench.control.take_packet_ins();
        let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
        let (mut latency, mut seen) = (Latency::default(), HashSet::new());
        loop {
            for (at, packet) in bench.control.take_packet_ins() {
                match probe::parse(&packet.data) {
                    Some(probe) if probe.stream == plan.stream && seen.insert(probe.seq) => {
                        latency.record(at.saturating_sub(probe.due));
                    }
                    _ => {}
                }
            }
            let all = latency.count() >= capture.sent_count();
            if all || bench.control.next(Duration::from_secs(2))?.is_none() {
                break;
            }
        }
        let lost = capture.sent_count() - latency.count();
        let blind = !blindness(&capture).is_empty();
        let disturbed = bench.disturbances(&capture);
        Ok(result(&plan, capture.sent_count(), lost, latency, disturbed, blind, "packet_in_lost"))
    })?])
}

fn packet_out_run(bench: &mut Bench, _: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    Ok(vec![bench.repeat(|bench| {
        let plan = Plan { transmit: false, ..plan(bench) };
        let number = bench.output.number;
        let (capture, late) = bench.traffic(&plan, |control, live| {
            let start = clock::now() + 1_000_000;
            let mut late = 0;
            let offsets = plan.arrivals.offsets(plan.rate_pps, plan.seed);
            for (seq, offset) in (0..plan.probes).zip(offsets) {
                let due = start + offset;
                std::thread::sleep(Duration::from_nanos(due.saturating_sub(clock::now())));
                let probe = Probe { stream: plan.stream, seq, due };
                let (sent, _) = control.send(&packet_out(control.version(), number, probe))?;
                late += u64::from(sent - due > crate::traffic::SLOT_NS);
            }
            live.stop();
            Ok(late)
        })?;
        let lost = u64::from(plan.probes) - capture.received_count();
        let capture = crate::traffic::Capture { late, ..capture };
        let blind = !blindness(&capture).is_empty();
        let disturbed = bench.disturbances(&capture);
        let sent = plan.probes.into();
        Ok(result(&plan, sent, lost, latencies(&capture), disturbed, blind, "packet_out_lost"))
    })?])
}

fn result(
    plan: &Plan,
    sent: u64,
    lost: u64,
    latency: Latency,
    disturbed: Vec<String>,
    blind: bool,
    what: &'static str,
) -> Run {
    let mut findings = Vec::new();
    if lost > 0 && !blind {
        let text =
            format!("{lost} of {sent} packets did not arrive, at {} a second", plan.rate_pps);
        findings.push(Finding { what, text });
    }
    Run {
        label: format!("64 bytes, {} a second", plan.rate_pps),
        disturbed,
        figures: vec![("sent", sent as f64), ("lost", lost as f64)],
        latencies: vec![("latency", latency.summary())],
        findings,
        ..Run::default()
    }
}
