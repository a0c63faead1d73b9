//! What do the control plane and the data plane do to each other?
//!
//! - [`ECHO_LOADED`]: echo requests while probes flow, at rising rates.
//! - [`POLLING`]: forwarding while the switch is asked for its statistics without a pause.
//! - [`UPDATE_RATE`]: how many rules a second can be changed, and what that does to forwarding.
//!
//! The first run of each is without the load, so that the others can be compared with it.

use super::echo;
use super::question::{Module, Over};
use super::updates::fill;
use crate::bench::Bench;
use crate::clock;
use crate::error::Error;
use crate::judge::{blindness, latencies};
use crate::latency::Latency;
use crate::probe;
use crate::run::{Finding, Floor, Run};
use crate::traffic::{Capture, Plan};
use openflow::{
    FieldId, FlowMod, FlowModCommand, FlowStatsRequest, Instructions, Match, Message,
    MultipartRequestBody, PortNo,
};
use std::time::{Duration, Instant};

/// Echo requests beside traffic.
pub const ECHO_LOADED: Module = Module {
    name: "echo_loaded",
    about: "how long an echo request takes while packets are forwarded",
    figures: &["load_pps", "sent", "unanswered", "frames_lost"],
    latencies: &["latency"],
    over: &[Over {
        title: "echo latency under load",
        x: "load_pps",
        x_label: "frames forwarded a second",
        y_label: "latency (us)",
        ys: &["latency_p50_us", "latency_p99_us"],
        log: (false, true),
        note: "",
    }],
    run: echo_loaded,
};

/// Forwarding beside statistics.
pub const POLLING: Module = Module {
    name: "polling",
    about: "whether asking for statistics disturbs forwarding",
    figures: &["polls_per_second", "sent", "lost"],
    latencies: &["latency", "reply"],
    over: &[],
    run: polling,
};

/// Updates, beside traffic and alone.
pub const UPDATE_RATE: Module = Module {
    name: "update_rate",
    about: "how many rules can be changed a second, alone and beside traffic, and what traffic suffers",
    figures: &["load_pps", "updates_per_second", "updates", "lost"],
    latencies: &["barrier"],
    over: &[Over {
        title: "rules changed a second, over traffic",
        x: "load_pps",
        x_label: "frames forwarded a second",
        y_label: "rules changed a second",
        ys: &["updates_per_second"],
        log: (false, false),
        note: "",
    }],
    run: update_rate,
};

/// No traffic, then the rates of forwarding.
fn loads(bench: &Bench) -> Vec<f64> {
    [0.0].into_iter().chain(bench.settings.rates_pps()).collect()
}

/// A plan that outlasts anything that is done beside it.
fn endless(bench: &mut Bench, rate_pps: f64, seconds: f64) -> Plan {
    let probes = ((rate_pps * seconds) as u32).max(1);
    Plan { probes, rate_pps, transmit: rate_pps > 0.0, ..bench.plan() }
}

fn lost(capture: &Capture) -> u64 {
    capture.lost_count()
}

fn echo_loaded(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = bench.forward(0);
    bench.only(rule)?;
    let (requests, echo_pps) = (bench.settings.echoes, bench.settings.echo_pps);
    let arrivals = bench.settings.arrivals;
    let mut runs = Vec::new();
    for load in loads(bench) {
        progress(&format!("echo_loaded: beside {load} frames a second"));
        runs.push(bench.repeat(|bench| {
            let seconds = f64::from(requests) / echo_pps + 30.0;
            let plan = endless(bench, load, seconds);
            let (capture, echoes) = bench.traffic(&plan, |control, live| {
                let echoes = echo::exchange(control, requests, echo_pps, arrivals)?;
                live.stop();
                Ok(echoes)
            })?;
            let mut findings = Vec::new();
            if echoes.unanswered > 0 {
                let text = format!("{} of {requests} requests had no reply", echoes.unanswered);
                findings.push(Finding { what: "echo_unanswered", text });
            }
            Ok(Run {
                label: format!("beside {load} frames a second"),
                disturbed: match plan.transmit {
                    true => bench.disturbances(&capture),
                    false => Vec::new(),
                },
                figures: vec![
                    ("load_pps", load),
                    ("sent", requests.into()),
                    ("unanswered", echoes.unanswered.into()),
                    ("frames_lost", lost(&capture) as f64),
                ],
                latencies: vec![("latency", echoes.latency.summary())],
                floor: Floor::Control,
                findings,
                ..Run::default()
            })
        })?);
    }
    Ok(runs)
}

fn polling(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = bench.forward(0);
    bench.only(rule)?;
    let entries = bench.settings.polled_entries;
    fill(bench, entries)?;
    let polled: [(String, Option<MultipartRequestBody>); 3] = [
        ("nothing asked".into(), None),
        (
            format!("{entries} flow entries asked for"),
            Some(MultipartRequestBody::Flow(FlowStatsRequest::all())),
        ),
        ("all ports asked for".into(), Some(MultipartRequestBody::PortStats(PortNo::ANY))),
    ];
    let mut runs = Vec::new();
    for (label, body) in polled {
        progress(&format!("polling: {label}"));
        runs.push(bench.repeat(|bench| {
            let plan = bench.plan();
            let seconds = f64::from(plan.probes) / plan.rate_pps;
            let (capture, (polls, reply)) = bench.traffic(&plan, |control, _| {
                let (mut polls, mut reply) = (0u32, Latency::default());
                let until = Instant::now() + Duration::from_secs_f64(seconds);
                while let (Some(body), true) = (&body, Instant::now() < until) {
                    let asked = clock::now();
                    control.multipart("statistics", body.clone())?;
                    reply.record(clock::now() - asked);
                    polls += 1;
                }
                Ok((polls, reply))
            })?;
            let mut findings = Vec::new();
            if lost(&capture) > 0 && blindness(&capture).is_empty() {
                let (n, sent) = (lost(&capture), capture.sent_count());
                let text = format!("{n} of {sent} frames did not come out ({label})");
                findings.push(Finding { what: "frames_lost", text });
            }
            Ok(Run {
                label: label.clone(),
                disturbed: bench.disturbances(&capture),
                figures: vec![
                    ("polls_per_second", f64::from(polls) / seconds),
                    ("sent", capture.sent_count() as f64),
                    ("lost", lost(&capture) as f64),
                ],
                latencies: vec![
                    ("latency", latencies(&capture).summary()),
                    ("reply", reply.summary()),
                ],
                findings,
                ..Run::default()
            })
        })?);
    }
    Ok(runs)
}

/// Rules of a batch that is sent before each barrier.
const BATCH: u32 = 50;
/// Rules that are added in turn before they are removed in turn.
const WORKING_SET: u32 = 2000;

fn update_rate(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for load in loads(bench) {
        progress(&format!("update_rate: beside {load} frames a second"));
        runs.push(bench.repeat(|bench| {
            let rule = bench.forward(0);
            bench.only(rule)?;
            let period = Duration::from_millis(bench.settings.update_ms.into());
            let plan = endless(bench, load, period.as_secs_f64() + 30.0);
            let in_port = bench.input.number;
            let (capture, (updates, ns, barrier)) = bench.traffic(&plan, |control, live| {
                let (mut updates, mut barrier) = (0u32, Latency::default());
                let (began, mut now) = (clock::now(), 0);
                while now < period.as_nanos() as u64 {
                    let mut messages: Vec<Message> = (updates..updates + BATCH)
                        .map(|n| Message::FlowMod(churn(in_port, n)))
                        .collect();
                    messages.push(Message::BarrierRequest);
                    let (at, xid) = control.send_all(&messages)?;
                    let reply = control.answer("flow-mods and a barrier", xid)?;
                    if let Some((_, error)) = control.take_errors().pop() {
                        let (what, error) = ("a flow entry", Box::new(error));
                        return Err(Error::Refused { what, error });
                    }
                    barrier.record(reply.at.saturating_sub(at));
                    updates += BATCH;
                    now = clock::now() - began;
                }
                live.stop();
                Ok((updates, now, barrier))
            })?;
            let mut findings = Vec::new();
            if lost(&capture) > 0 && blindness(&capture).is_empty() {
                let (n, sent) = (lost(&capture), capture.sent_count());
                let text = format!(
                    "{n} of {sent} frames did not come out while rules that no frame hits were changed"
                );
                findings.push(Finding { what: "frames_lost", text });
            }
            let mut all = vec![("barrier", barrier.summary())];
            if plan.transmit {
                all.push(("latency", latencies(&capture).summary()));
            }
            Ok(Run {
                label: format!("beside {load} frames a second"),
                disturbed: match plan.transmit {
                    true => bench.disturbances(&capture),
                    false => Vec::new(),
                },
                figures: vec![
                    ("load_pps", load),
                    ("updates_per_second", (f64::from(updates) / (ns as f64 / 1e9)).round()),
                    ("updates", updates.into()),
                    ("lost", lost(&capture) as f64),
                ],
                latencies: all,
                findings,
                ..Run::default()
            })
        })?);
    }
    Ok(runs)
}

/// The n-th update: rules of another source are added one after the other, then removed likewise, and again.
fn churn(in_port: u32, n: u32) -> FlowMod {
    let (rule, added) = (n % WORKING_SET, (n / WORKING_SET).is_multiple_of(2));
    let matching = Match::new()
        .with(FieldId::InPort, in_port.into())
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::Ipv4Src, (0x0a80_0000 + rule).into())
        .with(FieldId::Ipv4Dst, probe::address(rule).into());
    let command = if added { FlowModCommand::Add } else { FlowModCommand::DeleteStrict };
    FlowMod { command, priority: 2000, ..FlowMod::add(matching, Instructions::default()) }
}
