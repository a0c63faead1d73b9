//! How long does a packet take from a data port to the controller, and the other way?

use super::question::Module;
use crate::bench::Bench;
use crate::clock;
use crate::control::packet_out;
use crate::error::Error;
use crate::judge::{blindness, latencies};
use crate::latency::Latency;
use crate::probe::{self, Probe, Reading};
use crate::run::{Finding, Run};
use crate::traffic::Plan;
use openflow::PortNo;
use std::collections::HashSet;
use std::time::Duration;

/// Packets to the controller.
pub const PACKET_IN: Module = Module {
    name: "packet_in",
    about: "how long a packet takes to the controller",
    figures: &["sent", "lost", "doubled", "changed"],
    latencies: &["latency"],
    over: &[],
    run: packet_in,
};

/// Packets from the controller.
pub const PACKET_OUT: Module = Module {
    name: "packet_out",
    about: "how long a packet takes from the controller",
    figures: &["sent", "lost", "doubled", "changed"],
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
        let (mut doubled, mut changed) = (0u64, 0u64);
        loop {
            for (at, packet) in bench.control.take_packet_ins() {
                let read = match probe::read(&packet.data) {
                    Some(Reading::Ours(probe) | Reading::Damaged(probe)) => probe,
                    _ => continue,
                };
                let due = capture.due.get(read.seq as usize).copied();
                if read.stream != plan.stream || due.map(probe::due_told) != Some(read.due) {
                    continue;
                }
                if !seen.insert(read.seq) {
                    doubled += 1;
                    continue;
                }
                changed += u64::from(probe::frame(plan.len, 0, read) != packet.data);
                latency.record(at.saturating_sub(read.due));
            }
            let all = latency.count() >= capture.sent_count();
            if all || bench.control.next(Duration::from_secs(2))?.is_none() {
                break;
            }
        }
        // The last one's double comes after it.
        bench.control.settle()?;
        for (_, packet) in bench.control.take_packet_ins() {
            let again = |p: Probe| p.stream == plan.stream && seen.contains(&p.seq);
            doubled += u64::from(probe::parse(&packet.data).is_some_and(again));
        }
        let lost = capture.sent_count().saturating_sub(latency.count());
        let blind = !blindness(&capture).is_empty();
        let disturbed = bench.disturbances(&capture);
        let of = Came { sent: capture.sent_count(), lost, doubled, changed };
        Ok(result(
            &plan,
            of,
            latency,
            disturbed,
            blind,
            ["packet_in_lost", "packet_in_doubled", "packet_in_changed"],
        ))
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
        let lost = u64::from(plan.probes)
            .saturating_sub(capture.received_count() + capture.odd.unreadable);
        let capture = crate::traffic::Capture { late, ..capture };
        let blind = !blindness(&capture).is_empty();
        let disturbed = bench.disturbances(&capture);
        let (odd, sent) = (&capture.odd, plan.probes.into());
        let of = Came { sent, lost, doubled: odd.doubled, changed: odd.changed + odd.corrupted };
        // What is wrong with them is found as that of all frames is.
        Ok(result(&plan, of, latencies(&capture), disturbed, blind, ["packet_out_lost", "", ""]))
    })?])
}

/// What became of packets.
struct Came {
    sent: u64,
    lost: u64,
    doubled: u64,
    changed: u64,
}

fn result(
    plan: &Plan,
    of: Came,
    latency: Latency,
    disturbed: Vec<String>,
    blind: bool,
    words: [&'static str; 3],
) -> Run {
    let mut findings = Vec::new();
    let Came { sent, lost, doubled, changed } = of;
    let did = ["did not arrive", "arrived more than once", "arrived other than they were sent"];
    for ((what, n), did) in words.into_iter().zip([lost, doubled, changed]).zip(did) {
        if n > 0 && !blind && !what.is_empty() {
            let text = format!("{n} of {sent} packets {did}, at {} a second", plan.rate_pps);
            findings.push(Finding { what, text });
        }
    }
    Run {
        label: format!("64 bytes, {} a second", plan.rate_pps),
        disturbed,
        figures: vec![
            ("sent", sent as f64),
            ("lost", lost as f64),
            ("doubled", doubled as f64),
            ("changed", changed as f64),
        ],
        latencies: vec![("latency", latency.summary())],
        findings,
        ..Run::default()
    }
}
