//! How long does a batch of new rules take, by the control plane's word and by the data plane's?
//!
//! The control plane's latency is from writing the first flow-mod to the barrier's reply, the data
//! plane's to the coming out of the first probe of the last rule (OFLOPS-SUME §V-B, fig. 7). Probes
//! of all rules flow in turn all the time, so a rule's beginning is known to within one turn, which
//! is told as `resolution_us`.

use super::Module;
use crate::bench::{Bench, wait};
use crate::error::Error;
use crate::report::{Finding, Floor, Run, Series};
use crate::traffic::{Capture, Plan};
use openflow::Message;
use std::time::Duration;

/// The module.
pub const MODULE: Module = Module {
    name: "insertion",
    about: "how long a batch of new rules takes, by its barrier and by the first packet of its last rule",
    figures: &["rules", "control_us", "data_us", "resolution_us", "inactive"],
    latencies: &["rule_active"],
    run,
};

/// A batch of rules that was added while their probes flowed.
///
/// One flow more, the *reference*, has its rule from the start. Its probes show that the path is
/// alive, and that what was sent before them has had its turn.
pub struct Inserted {
    /// When the first flow-mod was written.
    pub at: u64,
    /// When the barrier's reply came.
    pub barrier_at: u64,
    /// What became of the probes; rule *i* has each (*rules* + 1)-th from *i* on.
    pub capture: Capture,
    /// Rules in the batch.
    pub rules: u32,
    /// How long one turn of the probes over all rules takes, in nanoseconds.
    pub turn_ns: u64,
}

impl Inserted {
    /// When the first probe of each rule came out; 0 if none did.
    pub fn active(&self) -> Vec<u64> {
        let flows = self.rules as usize + 1;
        let mut first = vec![0; flows];
        for (seq, at) in self.capture.received.iter().enumerate().filter(|(_, at)| **at > 0) {
            let rule = &mut first[seq % flows];
            *rule = if *rule == 0 { *at } else { (*rule).min(*at) };
        }
        first.truncate(self.rules as usize);
        first
    }

    /// For each rule: probes sent after the barrier's reply that did not come out, though one sent
    /// after them did, before the first one of the rule that did; and when that one was sent, if
    /// there is one. Probes that were still on their way at the end say nothing.
    pub fn silent_after_barrier(&self) -> Vec<(u32, Option<u64>)> {
        let flows = self.rules as usize + 1;
        let mut rules = vec![(0, None); flows];
        let seen = self.capture.received.iter().rposition(|at| *at > 0).unwrap_or(0);
        let probes = self.capture.sent.iter().zip(&self.capture.received).take(seen + 1);
        for (seq, (sent, received)) in probes.enumerate() {
            let (silent, first): &mut (u32, Option<u64>) = &mut rules[seq % flows];
            if *sent <= self.barrier_at || first.is_some() {
                continue;
            }
            if *received > 0 {
                *first = Some(*sent);
            } else {
                *silent += 1;
            }
        }
        rules.truncate(self.rules as usize);
        rules
    }
}

/// Adds a batch of rules to an empty switch, while probes of all of them flow.
pub fn insert(bench: &mut Bench, rules: u32) -> Result<Inserted, Error> {
    let reference = bench.forward(rules);
    bench.only(reference)?;
    let flows = rules + 1;
    let turn = Duration::from_secs_f64(f64::from(flows) / bench.settings.rate_pps);
    // As long as it may take: two turns before, two seconds for the rules, three turns after.
    let most = turn * 6 + Duration::from_secs(12);
    let probes = (most.as_secs_f64() * bench.settings.rate_pps) as u32;
    let plan = Plan { probes, flows, ..bench.plan() };
    let mut messages: Vec<Message> =
        (0..rules).map(|flow| Message::FlowMod(bench.forward(flow))).collect();
    messages.push(Message::BarrierRequest);
    let (capture, (at, barrier_at)) = bench.traffic(&plan, |control, live| {
        let patience = Duration::from_secs(5) + turn * 2;
        wait(patience, || live.sent() >= u64::from(flows) * 2);
        let (at, xid) = control.send_all(&messages)?;
        let reply = control.answer("a batch of flow entries and a barrier", xid)?;
        if let Some((_, error)) = control.take_errors().pop() {
            return Err(Error::Refused { what: "a flow entry", error: Box::new(error) });
        }
        wait(Duration::from_secs(2) + turn, || live.flows_seen() >= flows.into());
        std::thread::sleep(turn * 3);
        live.stop();
        Ok((at, reply.at))
    })?;
    Ok(Inserted { at, barrier_at, capture, rules, turn_ns: turn.as_nanos() as u64 })
}

fn run(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for rules in bench.settings.batches.clone() {
        progress(&format!("insertion: {rules} rules"));
        runs.push(bench.repeat(|bench| once(bench, rules))?);
    }
    Ok(runs)
}

fn once(bench: &mut Bench, rules: u32) -> Result<Run, Error> {
    let inserted = insert(bench, rules)?;
    let active = inserted.active();
    let us = |to: u64| to.saturating_sub(inserted.at) as f64 / 1000.0;
    let mut latency = crate::latency::Latency::default();
    active.iter().filter(|t| **t > 0).for_each(|t| latency.record(t.saturating_sub(inserted.at)));
    let inactive = active.iter().filter(|t| **t == 0).count();
    let mut findings = Vec::new();
    if inactive > 0 && crate::bench::blindness(&inserted.capture).is_empty() {
        let text = format!("{inactive} of {rules} rules forwarded nothing within 2 s");
        findings.push(Finding { what: "rule_inactive", text });
    }
    let mut figures = vec![
        ("rules", f64::from(rules)),
        ("control_us", us(inserted.barrier_at)),
        ("resolution_us", inserted.turn_ns as f64 / 1000.0),
        ("inactive", inactive as f64),
    ];
    if inactive == 0 {
        figures.insert(2, ("data_us", us(active.iter().copied().max().unwrap_or(0))));
    }
    Ok(Run {
        label: format!("{rules} rules"),
        disturbed: bench.disturbances(&inserted.capture),
        figures,
        latencies: vec![("rule_active", latency.summary())],
        series: series(&active, inserted.at),
        floor: Floor::Data,
        findings,
        ..Run::default()
    })
}

/// How many rules are active over time, and in which order they became so (OFLOPS-SUME fig. 8).
fn series(active: &[u64], began: u64) -> Vec<Series> {
    let mut order: Vec<(u64, usize)> = active
        .iter()
        .enumerate()
        .filter(|(_, at)| **at > 0)
        .map(|(rule, at)| (*at, rule))
        .collect();
    order.sort_unstable();
    let ranked =
        || (1..).zip(&order).map(|(rank, (at, rule))| (f64::from(rank), *at, *rule as f64));
    let mut by_rule: Vec<(f64, f64)> = ranked().map(|(rank, _, rule)| (rule + 1.0, rank)).collect();
    by_rule.sort_by(|a, b| a.0.total_cmp(&b.0));
    vec![
        Series {
            name: "rules active over time",
            x: "time since the first flow-mod (us)",
            y: "rules active",
            points: ranked().map(|(n, at, _)| (at.saturating_sub(began) as f64 / 1e3, n)).collect(),
        },
        Series {
            name: "order",
            x: "rule, in the order in which it was sent",
            y: "rule, in the order in which it became active",
            points: by_rule,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_tell_when_and_in_which_order() {
        // The third rule came first, the second never.
        let [over_time, order] = &series(&[3_500, 0, 2_000], 1_000)[..] else {
            panic!("two series")
        };
        assert_eq!(over_time.points, [(1.0, 1.0), (2.5, 2.0)]);
        assert_eq!(order.points, [(1.0, 2.0), (3.0, 1.0)]);
    }
}
