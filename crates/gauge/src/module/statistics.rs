//! Do a flow entry's counters tell what came, and how soon?
//!
//! So many probes are sent through one entry, then its counters are asked for until they are right.
//! Right is any number from those that came out to those that were sent: what a switch lost before
//! its lookup it need not count. Bytes may count the frame check sequence or not.

use super::Module;
use crate::bench::{Bench, blindness};
use crate::clock;
use crate::error::Error;
use crate::report::{Finding, Floor, Run};
use crate::traffic::Plan;
use openflow::{FlowStatsRequest, MultipartReplyBody, MultipartRequestBody};
use std::time::Duration;

/// The module.
pub const MODULE: Module = Module {
    name: "statistics",
    about: "whether a flow entry's counters are right, and after how long",
    figures: &["sent", "packets", "bytes", "fresh_us"],
    latencies: &["reply"],
    over: &[],
    run,
};

/// The longest that counters may take to be right, in nanoseconds.
const FRESH_NS: u64 = 5_000_000_000;
/// How long they must stay right, in nanoseconds: wrong ones may pass by the right number.
const STEADY_NS: u64 = 500_000_000;

fn run(bench: &mut Bench, _: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    Ok(vec![bench.repeat(once)?])
}

fn once(bench: &mut Bench) -> Result<Run, Error> {
    let rule = bench.forward(0);
    bench.only(rule)?;
    let plan = Plan { probes: bench.settings.probes.min(5000), ..bench.plan() };
    let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
    let (sent, received) = (capture.sent_count(), capture.received_count());
    let len = plan.len as u64;
    let since = capture.received.iter().chain(&capture.sent).copied().max().unwrap_or(0);
    let mut reply = crate::latency::Latency::default();
    let mut right_since = None;
    let (packets, bytes, fresh_ns) = loop {
        let asked = clock::now();
        let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
        let parts = bench.control.multipart("flow statistics", body)?;
        let now = clock::now();
        reply.record(now - asked);
        let entries = parts.into_iter().flat_map(|part| match part {
            MultipartReplyBody::Flow(entries) => entries,
            _ => Vec::new(),
        });
        let (packets, bytes) = entries
            .filter(|entry| entry.priority == 1000)
            .fold((0, 0), |(p, b), entry| (p + entry.packet_count, b + entry.byte_count));
        let fits = |count: u64, unit: u64| (received * unit..=sent * unit).contains(&count);
        if fits(packets, 1) && (fits(bytes, len) || fits(bytes, len + 4)) {
            let right = *right_since.get_or_insert(now);
            if now - right >= STEADY_NS {
                break (packets, bytes, Some(right.saturating_sub(since)));
            }
        } else {
            right_since = None;
        }
        if right_since.is_none() && now.saturating_sub(since) > FRESH_NS {
            break (packets, bytes, None);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut findings = Vec::new();
    if fresh_ns.is_none() && blindness(&capture).is_empty() {
        let text = format!(
            "{} s after {sent} frames of {len} bytes were sent and {received} had come out, the entry \
             counts {packets} packets and {bytes} bytes",
            FRESH_NS / 1_000_000_000
        );
        findings.push(Finding { what: "flow_count_wrong", text });
    }
    let max_ms = bench.settings.fresh_max_ms;
    if let Some(ns) = fresh_ns.filter(|ns| *ns > u64::from(max_ms) * 1_000_000)
        && blindness(&capture).is_empty()
    {
        let text = format!("the entry's counters were right only after {:.1} ms", ns as f64 / 1e6);
        findings.push(Finding { what: "flow_count_stale", text });
    }
    let mut figures =
        vec![("sent", sent as f64), ("packets", packets as f64), ("bytes", bytes as f64)];
    figures.extend(fresh_ns.map(|ns| ("fresh_us", ns as f64 / 1000.0)));
    Ok(Run {
        label: format!("{sent} frames"),
        // Counting does not hang on when probes were sent.
        disturbed: blindness(&capture),
        figures,
        latencies: vec![("reply", reply.summary())],
        floor: Floor::Control,
        findings,
        ..Run::default()
    })
}
