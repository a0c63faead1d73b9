//! Do the counters of ports tell what came and what left, and how soon?
//!
//! As [`statistics`](super::statistics) for flow entries: so many probes are sent, then the counters are asked
//! for until they have grown by the right number, any from those that came out to those that were sent. Other
//! frames may pass the ports meanwhile (a host's own), so some more are borne, one in a hundred.

use super::Module;
use crate::bench::{Bench, blindness};
use crate::clock;
use crate::error::Error;
use crate::latency::Latency;
use crate::report::{Finding, Floor, Run};
use crate::traffic::Plan;
use openflow::{MultipartReplyBody, MultipartRequestBody, PortNo, PortStats};
use std::time::Duration;

/// The module.
pub const MODULE: Module = Module {
    name: "port_statistics",
    about: "whether the counters of ports are right, and after how long",
    figures: &["sent", "rx_packets", "tx_packets", "fresh_us"],
    latencies: &["reply"],
    over: &[],
    run,
};

/// The longest that counters may take to be right, in nanoseconds.
const WRONG_NS: u64 = 5_000_000_000;

fn run(bench: &mut Bench, _: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    Ok(vec![bench.repeat(once)?])
}

fn of_port(bench: &mut Bench, number: u32) -> Result<PortStats, Error> {
    let body = MultipartRequestBody::PortStats(PortNo(number));
    let parts = bench.control.multipart("port statistics", body)?;
    let mut ports = parts.into_iter().flat_map(|part| match part {
        MultipartReplyBody::PortStats(ports) => ports,
        _ => Vec::new(),
    });
    ports.find(|p| p.port_no == PortNo(number)).ok_or_else(|| {
        Error::NotAsked(format!("the switch has no statistics of its port {number}"))
    })
}

fn once(bench: &mut Bench) -> Result<Run, Error> {
    let rule = bench.forward(0);
    bench.only(rule)?;
    let (from, to) = (bench.input.number, bench.output.number);
    // What is still on its way to the counters is not to be taken for ours.
    std::thread::sleep(Duration::from_millis(bench.settings.fresh_max_ms.min(1500).into()));
    let before = (of_port(bench, from)?, of_port(bench, to)?);
    let plan = Plan { probes: bench.settings.probes.min(5000), ..bench.plan() };
    let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
    let (sent, received) = (capture.sent_count(), capture.received_count());
    let since = capture.received.iter().chain(&capture.sent).copied().max().unwrap_or(0);
    let mut reply = Latency::default();
    let fits = |count: u64, least: u64| (least..=sent + sent / 100).contains(&count);
    let (rx, tx, fresh_ns) = loop {
        let asked = clock::now();
        let now_in = of_port(bench, from)?;
        let now = clock::now();
        reply.record(now - asked);
        let now_out = of_port(bench, to)?;
        let rx = now_in.rx_packets.wrapping_sub(before.0.rx_packets);
        let tx = now_out.tx_packets.wrapping_sub(before.1.tx_packets);
        // What it lost before its port's counter it need not count.
        if fits(rx, received) && fits(tx, received) {
            break (rx, tx, Some(now.saturating_sub(since)));
        }
        if now.saturating_sub(since) > WRONG_NS {
            break (rx, tx, None);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut findings = Vec::new();
    let max_ms = bench.settings.fresh_max_ms;
    if blindness(&capture).is_empty() {
        match fresh_ns {
            None => findings.push(Finding {
                what: "port_count_wrong",
                text: format!(
                    "{} s after {sent} frames were sent and {received} had come out, port {from} counts {rx} \
                     received and port {to} counts {tx} sent",
                    WRONG_NS / 1_000_000_000
                ),
            }),
            Some(ns) if ns > u64::from(max_ms) * 1_000_000 => findings.push(Finding {
                what: "port_count_stale",
                text: format!("the counters were right only after {:.1} ms", ns as f64 / 1e6),
            }),
            Some(_) => {}
        }
    }
    let mut figures =
        vec![("sent", sent as f64), ("rx_packets", rx as f64), ("tx_packets", tx as f64)];
    figures.extend(fresh_ns.map(|ns| ("fresh_us", ns as f64 / 1000.0)));
    Ok(Run {
        label: format!("{sent} frames"),
        disturbed: blindness(&capture),
        figures,
        latencies: vec![("reply", reply.summary())],
        floor: Floor::Control,
        findings,
        ..Run::default()
    })
}
