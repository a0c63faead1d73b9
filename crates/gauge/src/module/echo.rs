//! How long does an echo request take through the control channel of an idle switch?

use super::question::Module;
use crate::arrivals::Arrivals;
use crate::bench::Bench;
use crate::clock;
use crate::control::{Control, Received};
use crate::error::Error;
use crate::latency::Latency;
use crate::run::{Finding, Floor, Run};
use openflow::Message;
use std::time::Duration;

/// The module.
pub const MODULE: Module = Module {
    name: "echo",
    about: "how long an echo request takes",
    figures: &["sent", "unanswered"],
    latencies: &["latency"],
    over: &[],
    run,
};

/// What came of echo requests.
pub struct Echoes {
    /// From due to answered.
    pub latency: Latency,
    /// Requests that were not answered.
    pub unanswered: u32,
}

/// Sends echo requests on schedule and waits for their replies.
pub fn exchange(
    control: &mut Control,
    requests: u32,
    rate_pps: f64,
    arrivals: Arrivals,
) -> Result<Echoes, Error> {
    let start = clock::now() + 1_000_000;
    let due: Vec<u64> =
        arrivals.offsets(rate_pps, 0).take(requests as usize).map(|o| start + o).collect();
    let mut latency = Latency::default();
    let mut answered = vec![false; due.len()];
    let mut take = |received: Received, latency: &mut Latency| {
        let Message::EchoReply(data) = received.message else { return };
        let Some(seq) = data.first_chunk().map(|b| u32::from_be_bytes(*b) as usize) else { return };
        if let (Some(due), Some(answered)) = (due.get(seq), answered.get_mut(seq))
            && !std::mem::replace(answered, true)
        {
            latency.record(received.at.saturating_sub(*due));
        }
    };
    for (seq, at) in due.iter().enumerate() {
        loop {
            let wait = at.saturating_sub(clock::now());
            if wait == 0 {
                break;
            }
            if let Some(received) = control.next(Duration::from_nanos(wait))? {
                take(received, &mut latency);
            }
        }
        control.send(&Message::EchoRequest((seq as u32).to_be_bytes().to_vec()))?;
    }
    while latency.count() < requests.into() {
        match control.next(Duration::from_secs(2))? {
            Some(received) => take(received, &mut latency),
            None => break,
        }
    }
    let unanswered = requests - latency.count() as u32;
    Ok(Echoes { latency, unanswered })
}

fn run(bench: &mut Bench, _: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let (requests, rate) = (bench.settings.echoes, bench.settings.echo_pps);
    let arrivals = bench.settings.arrivals;
    Ok(vec![bench.repeat(|bench| once(bench, requests, rate, arrivals))?])
}

fn once(bench: &mut Bench, requests: u32, rate: f64, arrivals: Arrivals) -> Result<Run, Error> {
    let echoes = exchange(&mut bench.control, requests, rate, arrivals)?;
    let mut findings = Vec::new();
    if echoes.unanswered > 0 {
        let text = format!("{} of {requests} requests had no reply", echoes.unanswered);
        findings.push(Finding { what: "echo_unanswered", text });
    }
    Ok(Run {
        label: format!("{rate} a second"),
        attempts: 1,
        figures: vec![("sent", requests.into()), ("unanswered", echoes.unanswered.into())],
        latencies: vec![("latency", echoes.latency.summary())],
        floor: Floor::Control,
        findings,
        ..Run::default()
    })
}
