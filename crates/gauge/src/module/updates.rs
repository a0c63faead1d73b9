//! How long does a batch of changes to the flow table take, by the control plane's word and by the data
//! plane's, and in which order do the changes show?
//!
//! The control plane's latency is from writing the first flow-mod to the barrier's reply, the data
//! plane's to the coming out of the first probe of the last rule (OFLOPS-SUME §IV-B, fig. 7); of a
//! deletion, to the sending of the first probe that no longer comes out. Probes of all rules flow in
//! turn all the time, so the time of a change is known to within one turn, which is told as
//! `resolution_us`.
//!
//! The questions differ in what is asked of the switch: new rules (all of one priority, or of rising,
//! falling or random priorities), rules that are there and begin to forward, rules that go, and new rules
//! beside many that are there already.
//!
//! A switch may reorder flow-mods between two barriers (1.3.5 §6.2); [`ORDER`] puts a barrier behind
//! each. A rule is out of order if one that was asked for after it had already forwarded when two or more
//! of its own probes were sent that came to nothing.

use super::question::{Module, Over, add_run};
use crate::bench::Bench;
use crate::error::Error;
use crate::judge::blindness;
use crate::latency::Latency;
use crate::run::{Finding, Floor, Run, Series};
use crate::traffic::{Capture, Live, Plan};
use openflow::{FieldId, FlowMod, FlowModCommand, Instructions, Match, Message};
use port::prng::Prng;
use std::time::{Duration, Instant};

/// New rules.
pub const INSERTION: Module = Module {
    name: "insertion",
    about: "how long a batch of new rules takes, by its barrier and by the first packet of its last rule",
    figures: FIGURES,
    latencies: LATENCIES,
    over: &[Over {
        note: "OFLOPS-SUME, figures 7b and 7c: from the first flow-mod to the barrier's reply (control) and to \
               the first packet of the last rule (data). There the batches' priorities rise; see `priority`.",
        ..BY_BOTH_WORDS
    }],
    run: |bench, progress| each_batch(bench, progress, Change::Add(Priorities::Equal)),
};

/// Rules that drop begin to forward.
pub const MODIFICATION: Module = Module {
    name: "modification",
    about: "how long a batch of changed rules takes, by its barrier and by the first packet of its last rule",
    figures: FIGURES,
    latencies: LATENCIES,
    over: &[Over {
        note: "OFLOPS-SUME, figure 7a: as insertion, of rules that are there and get other actions.",
        ..BY_BOTH_WORDS
    }],
    run: |bench, progress| each_batch(bench, progress, Change::Modify),
};

/// Rules go.
pub const DELETION: Module = Module {
    name: "deletion",
    about: "how long the removal of a batch of rules takes, by its barrier and by when the last rule is silent",
    figures: FIGURES,
    latencies: LATENCIES,
    over: &[BY_BOTH_WORDS],
    run: |bench, progress| each_batch(bench, progress, Change::Delete),
};

/// New rules of different priorities.
pub const PRIORITY: Module = Module {
    name: "priority",
    about: "whether new rules take longer when their priorities rise, fall or follow no order",
    figures: FIGURES,
    latencies: LATENCIES,
    over: &[Over {
        note: "OFLOPS-SUME, §IV-B: a TCAM that is kept in order has to be moved about when priorities rise.",
        ..BY_BOTH_WORDS
    }],
    run: priorities,
};

/// New rules beside many others.
pub const OCCUPANCY: Module = Module {
    name: "occupancy",
    about: "whether new rules take longer when the table holds many",
    figures: &[
        "occupied",
        "fill_us",
        "rules",
        "control_us",
        "data_us",
        "resolution_us",
        "inactive",
        "overtaken",
    ],
    latencies: LATENCIES,
    over: &[Over {
        title: "a batch of new rules beside others",
        x: "occupied",
        x_label: "rules in the table before",
        ..BY_BOTH_WORDS
    }],
    run: occupancy,
};

/// New rules, with a barrier behind each.
pub const ORDER: Module = Module {
    name: "order",
    about: "whether rules with barriers between them become active in their order",
    figures: &["rules", "disordered", "inactive", "resolution_us"],
    latencies: &[],
    over: &[],
    run: order,
};

const FIGURES: &[&str] =
    &["rules", "control_us", "data_us", "resolution_us", "inactive", "overtaken"];
const LATENCIES: &[&str] = &["rule_changed"];
const BY_BOTH_WORDS: Over = Over {
    title: "by the control plane's and the data plane's word",
    x: "rules",
    x_label: "rules in the batch",
    y_label: "latency (us)",
    ys: &["control_us", "data_us"],
    log: (true, true),
    note: "",
};

/// Probes in a row that must be missing before a rule counts as silent: one may be lost.
pub const SILENT_MIN: u32 = 2;

/// In which order the priorities of a batch come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priorities {
    /// They are equal.
    Equal,
    /// Each is above the one before.
    Rising,
    /// Each is below the one before.
    Falling,
    /// No order.
    Random,
}

impl Priorities {
    const ORDERS: [(&'static str, Priorities); 3] = [
        ("rising", Priorities::Rising),
        ("falling", Priorities::Falling),
        ("random", Priorities::Random),
    ];

    fn of(self, rules: u32, seed: u64) -> Vec<u16> {
        const LEAST: u16 = 1000;
        let mut list: Vec<u16> = (0..rules).map(|i| LEAST + (i % 60_000) as u16).collect();
        match self {
            Priorities::Equal => list.fill(LEAST),
            Priorities::Rising => {}
            Priorities::Falling => list.reverse(),
            Priorities::Random => {
                let mut prng = Prng::new(seed);
                for i in (1..list.len()).rev() {
                    list.swap(i, prng.below(i as u64 + 1) as usize);
                }
            }
        }
        list
    }
}

/// What is asked of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// New rules that forward.
    Add(Priorities),
    /// Rules that drop begin to forward.
    Modify,
    /// Rules that forward go.
    Delete,
}

/// A batch of changes.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Of which kind.
    pub change: Change,
    /// How many rules.
    pub rules: u32,
    /// A barrier behind each, not only behind the last.
    pub apart: bool,
    /// The rules are looked at as often as the rates that are asked for allow, up to each fiftieth of a second: to see when
    /// they change. A switch that loses frames at that rate must not be judged by them.
    pub closely: bool,
}

/// A batch of rules that was changed while their probes flowed.
///
/// One flow more, the *reference*, has its rule from the start. Its probes show that the path is
/// alive, and that what was sent before them has had its turn.
pub struct Updated {
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
    change: Change,
}

impl Updated {
    /// When each rule had changed; 0 if it never did.
    pub fn changed(&self) -> Vec<u64> {
        match self.change {
            Change::Delete => self.silenced(),
            _ => self.first_received(),
        }
    }

    /// When the first probe of each rule came out of those sent since the flow-mods were; 0 if none did. Earlier ones
    /// can only have come out by what is left of rules that are gone.
    fn first_received(&self) -> Vec<u64> {
        let flows = self.rules as usize + 1;
        let mut first = vec![0; flows];
        let probes = self.capture.sent.iter().zip(&self.capture.received).enumerate();
        let due = probes.filter(|(_, (sent, received))| **received > 0 && **sent >= self.at);
        for (seq, (_, at)) in due {
            let rule = &mut first[seq % flows];
            *rule = if *rule == 0 { *at } else { (*rule).min(*at) };
        }
        first.truncate(self.rules as usize);
        first
    }

    /// When the first probe of each rule was sent that did not come out, nor did any later one; 0 if there
    /// is none.
    fn silenced(&self) -> Vec<u64> {
        let flows = self.rules as usize + 1;
        let mut silent = vec![0; flows];
        for (seq, sent, received) in self.settled() {
            let since = &mut silent[seq % flows];
            if received > 0 {
                *since = 0;
            } else if *since == 0 && sent > 0 {
                *since = sent;
            }
        }
        silent.truncate(self.rules as usize);
        silent
    }

    /// Probes of which we know what became: one that was sent later came out.
    fn settled(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let seen = self.capture.received.iter().rposition(|at| *at > 0).unwrap_or(0);
        let probes = self.capture.sent.iter().zip(&self.capture.received).take(seen + 1);
        probes.enumerate().map(|(seq, (sent, received))| (seq, *sent, *received))
    }

    /// For each rule: probes sent after `since(rule)` that did not come out, though one sent after them
    /// did, before the first one of the rule that did; and when that one was sent, if there is one.
    fn silent_since(&self, since: impl Fn(usize) -> u64) -> Vec<(u32, Option<u64>)> {
        let flows = self.rules as usize + 1;
        let mut rules = vec![(0, None); flows];
        for (seq, sent, received) in self.settled() {
            let (silent, first): &mut (u32, Option<u64>) = &mut rules[seq % flows];
            if sent <= since(seq % flows) || first.is_some() {
                continue;
            }
            if received > 0 {
                *first = Some(sent);
            } else {
                *silent += 1;
            }
        }
        rules.truncate(self.rules as usize);
        rules
    }

    /// As the name says, of new rules; see [`Updated`] for what a silent probe is.
    pub fn silent_after_barrier(&self) -> Vec<(u32, Option<u64>)> {
        self.silent_since(|_| self.barrier_at)
    }

    /// Rules that were silent after a later one had forwarded.
    pub fn disordered(&self) -> u32 {
        let first = self.first_received();
        // For each rule, when the first of those after it had forwarded.
        let mut overtaken = vec![u64::MAX; first.len() + 1];
        for i in (0..first.len().saturating_sub(1)).rev() {
            let next = if first[i + 1] > 0 { first[i + 1] } else { u64::MAX };
            overtaken[i] = overtaken[i + 1].min(next);
        }
        let silent = self.silent_since(|rule| overtaken[rule]);
        // One that never forwarded is missing, and has no place in an order.
        silent.iter().filter(|(silent, first)| *silent >= SILENT_MIN && first.is_some()).count()
            as u32
    }
}

/// A rule that is in no probe's way.
fn bystander(number: u32) -> FlowMod {
    let matching = Match::new()
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::Ipv4Dst, (0x0a00_0000 + number).into());
    FlowMod { priority: 500, ..FlowMod::add(matching, Instructions::default()) }
}

/// Puts so many rules into the table that are in no probe's way; how long it took, in nanoseconds.
pub fn fill(bench: &mut Bench, rules: u32) -> Result<u64, Error> {
    let messages: Vec<Message> = (0..rules).map(|n| Message::FlowMod(bystander(n))).collect();
    let began = crate::clock::now();
    for some in messages.chunks(1000) {
        bench.control.send_all(some)?;
        bench.control.barrier("flow entries that no packet hits")?;
    }
    Ok(crate::clock::now() - began)
}

/// How long rules that are gone may still forward: Open vSwitch empties its datapath's cache some time after it has said
/// that a rule is gone.
const STALE_MAX: Duration = Duration::from_secs(3);

/// Waits until, for a turn, no probe came out but those of the reference. Says whether none ever did: else what forwarded
/// at first has been counted as seen.
fn silence(live: &Live, flows: u32, turn: Duration) -> bool {
    let began = Instant::now();
    let step = turn.max(Duration::from_millis(5));
    while began.elapsed() < STALE_MAX {
        let (sent, received) = (live.sent(), live.received());
        std::thread::sleep(step);
        let (sent, received) = (live.sent() - sent, live.received() - received);
        // What was on its way at either end counts as one more, each.
        if received <= sent / u64::from(flows) + 2 {
            break;
        }
    }
    live.flows_seen() <= 1
}

/// The rate at which so many flows have their turn fifty times a second, within the rates that there are.
fn looking_pps(rates: &[f64], flows: u32) -> f64 {
    let least = rates.first().copied().unwrap_or(1.0);
    let most = rates.iter().copied().fold(least, f64::max);
    (f64::from(flows) * 50.0).clamp(least, most)
}

/// Changes a batch of rules while probes of all of them flow. `occupied`: rules that are there besides,
/// after [`fill`]; without, the table is emptied first.
pub fn update(bench: &mut Bench, batch: Batch, occupied: u32) -> Result<Updated, Error> {
    let Batch { change, rules, apart, closely } = batch;
    let reference = bench.forward(rules);
    if occupied == 0 {
        bench.only(reference)?;
    } else {
        bench.control.send(&Message::FlowMod(reference))?;
        bench.control.barrier("a flow entry")?;
    }
    let priorities = match change {
        Change::Add(priorities) => priorities.of(rules, bench.settings.seed),
        _ => Priorities::Equal.of(rules, 0),
    };
    let forward =
        |flow: u32| FlowMod { priority: priorities[flow as usize], ..bench.forward(flow) };
    let changed = |flow: u32| match change {
        Change::Add(_) => forward(flow),
        Change::Modify => FlowMod { command: FlowModCommand::ModifyStrict, ..forward(flow) },
        Change::Delete => FlowMod { command: FlowModCommand::DeleteStrict, ..forward(flow) },
    };
    let before: Vec<Message> = match change {
        Change::Add(_) => Vec::new(),
        Change::Modify => (0..rules)
            .map(|flow| {
                Message::FlowMod(FlowMod { instructions: Instructions::default(), ..forward(flow) })
            })
            .collect(),
        Change::Delete => (0..rules).map(|flow| Message::FlowMod(forward(flow))).collect(),
    };
    let mut messages = Vec::new();
    for flow in 0..rules {
        messages.push(Message::FlowMod(changed(flow)));
        if apart || flow + 1 == rules {
            messages.push(Message::BarrierRequest);
        }
    }
    if !before.is_empty() {
        bench.control.send_all(&before)?;
        bench.control.barrier("flow entries")?;
        // An early barrier is another module's finding.
        bench.settle();
    }
    let flows = rules + 1;
    let rate_pps = match closely {
        true => looking_pps(&bench.settings.rates_pps(), flows),
        false => bench.settings.rate_pps,
    };
    let turn = Duration::from_secs_f64(f64::from(flows) / rate_pps);
    // As long as it may take: two turns and the stale ones before, two seconds for the rules, three turns after.
    let most = turn * 8 + Duration::from_secs(12) + STALE_MAX;
    let probes = (most.as_secs_f64() * rate_pps) as u32;
    let plan = Plan { probes, flows, rate_pps, ..bench.plan() };
    let (capture, (at, barrier_at)) = bench.traffic(&plan, |control, live| {
        let patience = Duration::from_secs(5) + turn * 2;
        live.wait(patience, || live.sent() >= u64::from(flows) * 2);
        let stale = change != Change::Delete && !silence(live, flows, turn);
        let (at, xid) = control.send_all(&messages)?;
        let reply = control.answer("a batch of flow-mods and a barrier", xid)?;
        if let Some((_, error)) = control.take_errors().pop() {
            return Err(Error::Refused { what: "a flow entry", error: Box::new(error) });
        }
        match change {
            Change::Delete => std::thread::sleep(Duration::from_millis(300) + turn),
            // Flows that have been seen are not those of new rules only.
            _ if stale => std::thread::sleep(Duration::from_secs(2) + turn),
            _ => {
                let _ =
                    live.wait(Duration::from_secs(2) + turn, || live.flows_seen() >= flows.into());
            }
        }
        std::thread::sleep(turn * 3);
        live.stop();
        Ok((at, reply.at))
    })?;
    Ok(Updated { at, barrier_at, capture, rules, turn_ns: turn.as_nanos() as u64, change })
}

fn each_batch(
    bench: &mut Bench,
    progress: &mut dyn FnMut(&str),
    change: Change,
) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for rules in bench.settings.batches.clone() {
        progress(&format!("{}: {rules} rules", name(change)));
        let batch = Batch { change, rules, apart: false, closely: true };
        let done = bench.repeat(|bench| {
            let updated = update(bench, batch, 0)?;
            Ok(told(bench, &updated, format!("{rules} rules")))
        });
        let what = format!("{}: {rules} rules", name(change));
        if !add_run(&mut runs, done, &what, progress)? {
            break;
        }
    }
    Ok(runs)
}

fn name(change: Change) -> &'static str {
    match change {
        Change::Add(_) => "insertion",
        Change::Modify => "modification",
        Change::Delete => "deletion",
    }
}

fn priorities(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for rules in bench.settings.batches.clone().into_iter().filter(|rules| *rules > 1) {
        for (word, priorities) in Priorities::ORDERS {
            progress(&format!("priority: {rules} rules, {word}"));
            let batch =
                Batch { change: Change::Add(priorities), rules, apart: false, closely: true };
            let done = bench.repeat(|bench| {
                let updated = update(bench, batch, 0)?;
                Ok(told(bench, &updated, format!("{rules} rules, {word}")))
            });
            let done = done.map(|run| Run { group: word.into(), ..run });
            if !add_run(&mut runs, done, &format!("priority: {rules} rules"), progress)? {
                return Ok(runs);
            }
        }
    }
    match runs.is_empty() {
        true => Err(Error::NotAsked(
            "an order of priorities needs a batch of more than one rule".into(),
        )),
        false => Ok(runs),
    }
}

fn occupancy(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    let rules = bench.settings.batches.iter().copied().filter(|n| *n <= 100).max().unwrap_or(100);
    for occupied in bench.settings.occupancies.clone() {
        progress(&format!("occupancy: {rules} rules beside {occupied}"));
        let done = bench.repeat(|bench| {
            bench.control.clear()?;
            let fill_ns = fill(bench, occupied)?;
            let batch = Batch {
                change: Change::Add(Priorities::Equal),
                rules,
                apart: false,
                closely: true,
            };
            let updated = update(bench, batch, occupied.max(1))?;
            let mut run = told(bench, &updated, format!("{rules} rules beside {occupied}"));
            run.figures.insert(0, ("occupied", occupied.into()));
            run.figures.insert(1, ("fill_us", fill_ns as f64 / 1000.0));
            Ok(run)
        });
        if !add_run(&mut runs, done, &format!("occupancy: {occupied} rules"), progress)? {
            break;
        }
    }
    Ok(runs)
}

/// The run that a batch makes.
fn told(bench: &Bench, updated: &Updated, label: String) -> Run {
    let changed = updated.changed();
    let us = |to: u64| to.saturating_sub(updated.at) as f64 / 1000.0;
    let mut latency = Latency::default();
    changed.iter().filter(|t| **t > 0).for_each(|t| latency.record(t.saturating_sub(updated.at)));
    let inactive = changed.iter().filter(|t| **t == 0).count();
    let mut findings = Vec::new();
    if inactive > 0 && blindness(&updated.capture).is_empty() {
        let rules = updated.rules;
        let (what, did) = match updated.change {
            Change::Delete => ("rule_undead", "still forwarded at the end"),
            _ => ("rule_inactive", "forwarded nothing within 2 s"),
        };
        findings.push(Finding { what, text: format!("{inactive} of {rules} rules {did}") });
    }
    let mut figures = vec![
        ("rules", f64::from(updated.rules)),
        ("control_us", us(updated.barrier_at)),
        ("resolution_us", updated.turn_ns as f64 / 1000.0),
        ("inactive", inactive as f64),
        ("overtaken", overtaken(&changed, updated.turn_ns) as f64),
    ];
    if inactive == 0 {
        figures.insert(2, ("data_us", us(changed.iter().copied().max().unwrap_or(0))));
    }
    Run {
        label,
        disturbed: bench.disturbances(&updated.capture),
        figures,
        latencies: vec![("rule_changed", latency.summary())],
        series: series(&changed, updated.at),
        floor: Floor::Data,
        findings,
        ..Run::default()
    }
}

/// Rules that changed later than one that was asked for after them, by more than the probes' turn.
fn overtaken(changed: &[u64], turn_ns: u64) -> usize {
    let mut first_after = u64::MAX;
    let mut count = 0;
    for at in changed.iter().rev().filter(|at| **at > 0) {
        count += usize::from(at.saturating_sub(turn_ns) > first_after);
        first_after = first_after.min(*at);
    }
    count
}

/// How many rules have changed over time, and in which order they did (OFLOPS-SUME fig. 8).
fn series(changed: &[u64], began: u64) -> Vec<Series> {
    let mut order: Vec<(u64, usize)> = changed
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
            name: "rules changed over time",
            x: "time since the first flow-mod (us)",
            y: "rules changed",
            points: ranked().map(|(n, at, _)| (at.saturating_sub(began) as f64 / 1e3, n)).collect(),
        },
        Series {
            name: "order",
            x: "rule, in the order in which it was sent",
            y: "rule, in the order in which it changed",
            points: by_rule,
        },
    ]
}

fn order(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for rules in bench.settings.batches.clone().into_iter().filter(|rules| *rules > 1) {
        progress(&format!("order: {rules} rules"));
        let done = bench.repeat(|bench| {
            let batch = Batch { change: Change::Add(Priorities::Equal), rules, apart: true, closely: false };
            let updated = update(bench, batch, 0)?;
            let disordered = updated.disordered();
            let mut findings = Vec::new();
            let blind = blindness(&updated.capture);
            let changed = updated.changed();
            let inactive = changed.iter().filter(|at| **at == 0).count();
            if inactive > 0 && blind.is_empty() {
                let text = format!("{inactive} of {rules} rules forwarded nothing within 2 s");
                findings.push(Finding { what: "rule_inactive", text });
            }
            if disordered > 0 && blind.is_empty() {
                let text = format!(
                    "{disordered} of {rules} rules were inactive though one that was asked for later, behind a \
                     barrier, had forwarded"
                );
                findings.push(Finding { what: "rules_reordered", text });
            }
            Ok(Run {
                label: format!("{rules} rules with barriers between them"),
                // What is lost on our side hides what the switch did; late probes do not.
                disturbed: blind,
                figures: vec![
                    ("rules", f64::from(rules)),
                    ("disordered", f64::from(disordered)),
                    ("inactive", inactive as f64),
                    ("resolution_us", updated.turn_ns as f64 / 1000.0),
                ],
                series: series(&changed, updated.at),
                findings,
                ..Run::default()
            })
        });
        if !add_run(&mut runs, done, &format!("order: {rules} rules"), progress)? {
            break;
        }
    }
    match runs.is_empty() {
        true => Err(Error::NotAsked("an order needs a batch of more than one rule".into())),
        false => Ok(runs),
    }
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
        assert_eq!(overtaken(&[3_500, 0, 2_000], 1_000), 1);
        assert_eq!(overtaken(&[3_500, 0, 2_000], 1_500), 0);
    }

    #[test]
    fn priorities_are_those_that_were_asked_for() {
        assert_eq!(Priorities::Rising.of(3, 0), [1000, 1001, 1002]);
        assert_eq!(Priorities::Falling.of(3, 0), [1002, 1001, 1000]);
        let mut random = Priorities::Random.of(100, 7);
        assert_ne!(random, Priorities::Rising.of(100, 7));
        random.sort_unstable();
        assert_eq!(random, Priorities::Rising.of(100, 7));
    }

    /// Two rules and the reference; each row is a turn: when its probes were sent, and which came out.
    fn updated(change: Change, turns: &[[bool; 3]]) -> Updated {
        let sent: Vec<u64> = (0..turns.len() as u64 * 3).map(|i| 100 + i * 10).collect();
        let out = turns.iter().flatten();
        let received =
            sent.iter().zip(out).map(|(at, out)| if *out { at + 5 } else { 0 }).collect();
        let capture = Capture { sent, received, ..Capture::default() };
        Updated { at: 100, barrier_at: 125, capture, rules: 2, turn_ns: 30, change }
    }

    #[test]
    fn a_rule_is_out_of_order_only_after_two_silent_probes() {
        let add = Change::Add(Priorities::Equal);
        let turns =
            [[false, false, true], [false, true, true], [false, true, true], [true, true, true]];
        // The second rule forwarded from the second turn on; the first was silent once more after that.
        assert_eq!(updated(add, &turns).disordered(), 0);
        let longer = [&turns[..2], &turns[1..]].concat();
        let updated = updated(add, &longer);
        assert_eq!(updated.disordered(), 1);
        assert_eq!(updated.changed(), [225, 145]);
        // From 125 on, three of the first rule's probes came to nothing.
        assert_eq!(updated.silent_after_barrier()[0], (3, Some(220)));
    }

    #[test]
    fn a_rule_that_never_comes_is_neither_late_nor_out_of_order() {
        let add = Change::Add(Priorities::Equal);
        let turns = [[false, true, true]; 4];
        let updated = updated(add, &turns);
        assert_eq!(updated.disordered(), 0);
        assert_eq!(updated.silent_after_barrier()[0], (3, None));
        assert_eq!(updated.changed()[0], 0);
    }

    #[test]
    fn many_rules_are_looked_at_faster_where_that_is_allowed() {
        assert_eq!(looking_pps(&[5000.0], 1001), 5000.0);
        assert_eq!(looking_pps(&[5000.0, 20_000.0], 1001), 20_000.0);
        assert_eq!(looking_pps(&[5000.0, 20_000.0], 201), 10_050.0);
        assert_eq!(looking_pps(&[5000.0, 100.0], 2), 5000.0);
    }

    #[test]
    fn what_comes_out_by_rules_that_are_gone_is_no_change() {
        let turns =
            [[true, true, true], [false, false, true], [false, true, true], [true, true, true]];
        let add = Change::Add(Priorities::Equal);
        assert_eq!(updated(add, &turns).changed(), [105, 115]);
        // The flow-mods were sent after the first turn.
        let later = Updated { at: 125, ..updated(add, &turns) };
        assert_eq!(later.changed(), [195, 175]);
    }

    #[test]
    fn a_deleted_rule_has_gone_when_it_stays_silent() {
        let turns =
            [[true, true, true], [false, true, true], [true, false, true], [false, false, true]];
        // The first rule's probe that was lost in the second turn is no end.
        assert_eq!(updated(Change::Delete, &turns).changed(), [190, 170]);
        let alive = [[true, true, true], [false, true, true]];
        assert_eq!(updated(Change::Delete, &alive).changed(), [130, 0]);
    }
}
