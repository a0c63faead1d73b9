//! The highest rate that a switch keeps up with, by binary search (RFC 2544 §26.1).
//!
//! A trial offers one rate for a while and counts what is lost. There are two goals: no loss at all, and a
//! share of loss that is still borne (`loss_goal`). The trials of one goal bound the other, and each search ends
//! when its bounds are within [`CLOSE`] of each other: the lower one passed a whole trial, the upper one failed
//! one (the multiple loss ratio search of the IETF's benchmarking group works on the same idea).
//!
//! A switch with deep buffers loses nothing for a while at a rate that it cannot forward. So a trial passes only if it came
//! out as fast as it went in: where the least latency grows in the course of a trial ([`grows`]), a queue is filling up. That
//! is looked at once more, for twice as long, before it counts. A trial ends early once the queue is plain ([`QUEUE_MAX`]),
//! and what is left in it is waited for before the next. A rate that is too high by less than [`GROWTH_MIN`] is not seen.
//!
//! The offered rate is what was really sent. Where the generator itself could not send faster, and nothing was
//! lost, the rate is only known to be at least that: `at_limit` is 1.

use super::question::{Module, Over};
use crate::bench::Bench;
use crate::clock;
use crate::control::packet_out;
use crate::error::Error;
use crate::judge::blindness;
use crate::probe::{self, Probe};
use crate::run::Run;
use crate::traffic::{Capture, Plan};
use openflow::PortNo;
use std::time::Duration;

/// Port to port.
pub const THROUGHPUT: Module = Module {
    name: "throughput",
    about: "the highest rate without loss, and with a share of loss that is borne, over frame sizes",
    figures: FIGURES_BY_SIZE,
    latencies: &[],
    over: &[
        Over {
            title: "throughput over frame size",
            x: "bytes",
            x_label: "frame size (bytes, with the check sequence)",
            y_label: "frames per second",
            ys: &["no_loss_pps", "borne_loss_pps"],
            log: (false, true),
            note: "RFC 2544, section 26.1.",
        },
        Over {
            title: "processor load of the switch over frame size",
            x: "bytes",
            x_label: "frame size (bytes, with the check sequence)",
            y_label: "processors busy",
            ys: &["cpu_load"],
            log: (false, false),
            note: "OFLOPS-SUME, table I: there at line rate, here at the highest rate that was offered.",
        },
    ],
    run: throughput,
};

/// Port to controller.
pub const PACKET_IN_RATE: Module = Module {
    name: "packet_in_rate",
    about: "how many packets a second reach the controller without loss",
    figures: FIGURES,
    latencies: &[],
    over: &[],
    run: packet_in_rate,
};

/// Controller to port.
pub const PACKET_OUT_RATE: Module = Module {
    name: "packet_out_rate",
    about: "how many packets a second from the controller come out without loss",
    figures: FIGURES,
    latencies: &[],
    over: &[],
    run: packet_out_rate,
};

const FIGURES: &[&str] = &[
    "no_loss_pps",
    "no_loss_upper_pps",
    "borne_loss_pps",
    "borne_loss_upper_pps",
    "offered_max_pps",
    "lost_share_at_max",
    "forwarded_at_max_pps",
    "queue_at_max_us",
    "at_limit",
    "trials",
];
const FIGURES_BY_SIZE: &[&str] = &[
    "bytes",
    "no_loss_pps",
    "no_loss_upper_pps",
    "borne_loss_pps",
    "borne_loss_upper_pps",
    "offered_max_pps",
    "lost_share_at_max",
    "forwarded_at_max_pps",
    "queue_at_max_us",
    "at_limit",
    "trials",
    "cpu_load",
];

/// The bounds of a finished search are no further apart, as a ratio.
const CLOSE: f64 = 1.05;
/// The most trials of a search.
const TRIALS_MAX: u32 = 14;
/// No lower rate is tried.
const RATE_MIN: f64 = 10.0;

/// What one rate led to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// What was really sent, a second.
    pub offered_pps: f64,
    /// The share of it that was lost.
    pub lost: f64,
    /// How fast it came out, from the first to the last.
    pub forwarded_pps: f64,
    /// Whether it came out more slowly than it went in, into a queue.
    pub queues: bool,
    /// By how much latencies grew, in nanoseconds.
    pub queue_ns: u64,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// The highest rate that met each goal and the lowest that did not, or none if all did.
    pub bounds: Vec<(f64, Option<f64>)>,
    /// All trials.
    pub trials: Vec<Trial>,
}

/// Searches for each goal, the greatest share of loss that is borne, up to a rate.
pub fn search(
    max_pps: f64,
    goals: &[f64],
    mut try_one: impl FnMut(f64, f64) -> Result<Trial, Error>,
) -> Result<Searched, Error> {
    let mut trial = |rate_pps: f64| {
        let made = try_one(rate_pps, 1.0)?;
        // Without loss, the growth of a queue is the only word against it.
        let doubtful = made.queues && made.lost <= goals.iter().copied().fold(0.0, f64::max);
        if doubtful { try_one(rate_pps, 2.0) } else { Ok(made) }
    };
    let mut trials = vec![trial(max_pps)?];
    let mut bounds = Vec::new();
    for goal in goals {
        for _ in 0..TRIALS_MAX {
            let (low, high) = bounds_of(&trials, *goal);
            let Some(high) = high else { break };
            // The first guess is what came through; from then on half way, by ratio.
            let next = match low {
                Some(low) if high / low <= CLOSE => break,
                Some(low) => (low * high).sqrt(),
                None if trials.len() == 1 => high.min(trials[0].forwarded_pps.max(RATE_MIN)),
                None => high / 2.0,
            };
            if next < RATE_MIN {
                break;
            }
            // A guess just below a bound would not part the range.
            let next = next.min(high / CLOSE.sqrt()).max(RATE_MIN);
            let made = trial(next)?;
            let stuck = trials.contains(&made);
            trials.push(made);
            if stuck {
                break;
            }
        }
        let (low, high) = bounds_of(&trials, *goal);
        bounds.push((low.unwrap_or(0.0), high));
    }
    Ok(Searched { bounds, trials })
}

/// The highest rate that passed below all that failed, and the lowest that failed.
fn bounds_of(trials: &[Trial], goal: f64) -> (Option<f64>, Option<f64>) {
    let of = |passed: bool| {
        trials
            .iter()
            .filter(move |t| (t.lost <= goal && !t.queues) == passed)
            .map(|t| t.offered_pps)
    };
    let high = of(false).min_by(f64::total_cmp);
    let below = |pps: &f64| high.is_none_or(|high| *pps < high);
    (of(true).filter(below).max_by(f64::total_cmp), high)
}

impl Searched {
    fn figures(&self) -> Vec<(&'static str, f64)> {
        let names =
            [("no_loss_pps", "no_loss_upper_pps"), ("borne_loss_pps", "borne_loss_upper_pps")];
        let fastest = self.trials.iter().max_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps));
        let most = fastest.map_or(0.0, |t| t.offered_pps);
        let mut figures = Vec::new();
        for ((low, upper), (pps, high)) in names.into_iter().zip(&self.bounds) {
            figures.push((low, pps.round()));
            figures.push((upper, high.unwrap_or(most).round()));
        }
        let at_limit = self.bounds.first().is_some_and(|(_, high)| high.is_none());
        figures.push(("offered_max_pps", most.round()));
        figures.push(("lost_share_at_max", fastest.map_or(0.0, |t| t.lost)));
        figures.push(("forwarded_at_max_pps", fastest.map_or(0.0, |t| t.forwarded_pps.round())));
        figures.push(("queue_at_max_us", fastest.map_or(0.0, |t| t.queue_ns as f64 / 1000.0)));
        figures.push(("at_limit", f64::from(u8::from(at_limit))));
        figures.push(("trials", self.trials.len() as f64));
        figures
    }
}

/// What became of a capture, as a trial.
pub fn trial_of(capture: &Capture) -> Trial {
    let mut trial = judged(&capture.sent, &capture.received);
    let sent = capture.sent_count().saturating_sub(capture.refused);
    let lost = sent.saturating_sub(capture.received_count() + capture.odd.unreadable);
    // A generator that is late with the first and catches up has sent no more in the trial than it was to.
    let due = || capture.due.iter().copied().filter(|at| *at > 0);
    let due_ns = due().max().zip(due().min()).map_or(0, |(last, first)| last - first);
    let seconds = capture.sending_ns.max(due_ns) as f64 / 1e9;
    trial.offered_pps = sent.saturating_sub(1) as f64 / seconds.max(1e-6);
    trial.lost = lost as f64 / sent.max(1) as f64;
    trial.queues |= capture.queued;
    trial
}

/// The share by which a trial may come out more slowly than it went in.
pub const GROWTH_MIN: f64 = 0.02;
/// Growth of latencies that is no queue's yet, in nanoseconds: how late a process may be scheduled.
const GROWTH_MIN_NS: u64 = 2_000_000;
/// Latencies that have grown by so much show a queue.
pub const QUEUE_MAX: Duration = Duration::from_millis(400);
/// The longest that a queue is waited for to empty.
const EMPTIED: Duration = Duration::from_secs(30);

/// A trial by when each frame was sent and came; 0 is never.
fn judged(sent: &[u64], received: &[u64]) -> Trial {
    let both = || sent.iter().zip(received).filter(|(sent, _)| **sent > 0);
    let came: Vec<(u64, u64)> = both().filter(|(_, r)| **r > 0).map(|(s, r)| (*s, *r)).collect();
    let span = |times: &mut dyn Iterator<Item = u64>| {
        let (low, high) = times.fold((u64::MAX, 0), |(l, h), t| (l.min(t), h.max(t)));
        high.saturating_sub(low)
    };
    let sending_ns = span(&mut both().map(|(s, _)| *s));
    let coming_ns = span(&mut came.iter().map(|(_, r)| *r));
    let (count, per) = (both().count(), |n: usize, ns: u64| {
        n.saturating_sub(1) as f64 / (ns as f64 / 1e9).max(1e-6)
    });
    let (queues, queue_ns) = grows(&came, sending_ns);
    Trial {
        offered_pps: per(count, sending_ns),
        lost: (count - came.len()) as f64 / count.max(1) as f64,
        forwarded_pps: per(came.len(), coming_ns),
        queues,
        queue_ns,
    }
}

/// Whether latencies grow as those of a queue do that fills up, and by how much. The least of the last quarter is above
/// the least of all by [`GROWTH_MIN`] of the time between. A stall of ours only ever adds to latencies. So it hides no
/// queue, and looks like one only if it lasts for the whole last quarter.
fn grows(came: &[(u64, u64)], sending_ns: u64) -> (bool, u64) {
    let quarter = came.len() / 4;
    if quarter < 3 {
        return (false, 0);
    }
    let least = |part: &[(u64, u64)]| part.iter().map(|(s, r)| r.saturating_sub(*s)).min();
    let growth =
        least(&came[came.len() - quarter..]).zip(least(came)).map_or(0, |(last, all)| last - all);
    let bound = (sending_ns as f64 * 0.75 * GROWTH_MIN) as u64;
    (growth > bound.max(GROWTH_MIN_NS), growth)
}

/// The plan of a trial at a rate, so much longer than the settings say.
pub fn trial_plan(bench: &mut Bench, rate_pps: f64, longer: f64) -> Plan {
    let seconds = f64::from(bench.settings.trial_ms) / 1000.0 * longer;
    let probes = ((rate_pps * seconds) as u32).max(10);
    let (queue_max, drain_max) = (Some(QUEUE_MAX), EMPTIED);
    let drain = Duration::from_millis(300);
    Plan { probes, rate_pps, drain, queue_max, drain_max, ..bench.plan() }
}

fn throughput(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = bench.forward(0);
    bench.only(rule)?;
    let longest = bench.input.len_max().min(bench.output.len_max());
    let mut runs = Vec::new();
    for size in bench.settings.sizes.clone() {
        let len = size.saturating_sub(4);
        if len > longest {
            progress(&format!("throughput: {size} bytes are left out, longer than the ports' MTU"));
            continue;
        }
        runs.push(bench.repeat_up_to(1, |bench| {
            let (max, goals) = (bench.settings.rate_max_pps, [0.0, bench.settings.loss_goal]);
            let (mut blind, mut load) = (Vec::new(), None);
            let searched = search(max, &goals, |rate_pps, longer| {
                let plan = Plan { len, ..trial_plan(bench, rate_pps, longer) };
                let before = bench.busy();
                let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
                // The first trial is the fastest.
                load = load.or(before.and_then(|b| Some((bench.busy()?, b))));
                let trial = trial_of(&capture);
                progress(&format!(
                    "throughput: {size} bytes, {:.0} a second: {:.3}% lost{}",
                    trial.offered_pps,
                    trial.lost * 100.0,
                    if trial.queues { ", the rest out of a queue that grew" } else { "" }
                ));
                if capture.missed > 0 {
                    blind.push(format!(
                        "at {:.0} a second {} frames were lost on our side, captured too slowly",
                        trial.offered_pps, capture.missed
                    ));
                }
                Ok(trial)
            })?;
            // What our side loses at rates that fail anyway does no harm.
            let fails_by_us =
                blind.len() == searched.trials.iter().filter(|t| t.lost > 0.0).count();
            let mut figures = vec![("bytes", size as f64)];
            figures.extend(searched.figures());
            figures.extend(load.map(|(after, before)| ("cpu_load", before.load(&after))));
            Ok(Run {
                label: format!("{size} bytes"),
                disturbed: if fails_by_us { blind } else { Vec::new() },
                figures,
                ..Run::default()
            })
        })?);
    }
    Ok(runs)
}

fn packet_in_rate(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = bench.rule(0, PortNo::CONTROLLER);
    bench.only(rule)?;
    Ok(vec![bench.repeat_up_to(1, |bench| packet_in_search(bench, progress))?])
}

fn packet_in_search(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Run, Error> {
    let (max, goals) = (bench.settings.punt_max_pps, [0.0, bench.settings.loss_goal]);
    let searched = search(max, &goals, |rate_pps, longer| {
        let plan = Plan { drain: Duration::from_millis(1), ..trial_plan(bench, rate_pps, longer) };
        let (mut came, mut seen) = (0u64, vec![0u64; plan.probes as usize]);
        bench.control.take_packet_ins();
        let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
        while came < capture.sent_count()
            && bench.control.next(Duration::from_millis(500))?.is_some()
        {
            for (at, packet) in bench.control.take_packet_ins() {
                let Some(probe) = probe::parse(&packet.data) else { continue };
                let slot = seen.get_mut(probe.seq as usize).filter(|_| probe.stream == plan.stream);
                if let Some(slot) = slot.filter(|slot| **slot == 0) {
                    (*slot, came) = (at, came + 1);
                }
            }
        }
        let lost =
            capture.sent_count().saturating_sub(came) as f64 / capture.sent_count().max(1) as f64;
        let offered_pps = trial_of(&capture).offered_pps;
        let trial = Trial { lost, offered_pps, ..judged(&capture.sent, &seen) };
        progress(&format!(
            "packet_in_rate: {:.0} a second: {:.3}% lost",
            trial.offered_pps,
            lost * 100.0
        ));
        Ok(trial)
    })?;
    Ok(Run { label: "64 bytes".into(), figures: searched.figures(), ..Run::default() })
}

fn packet_out_rate(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    Ok(vec![bench.repeat_up_to(1, |bench| packet_out_search(bench, progress))?])
}

fn packet_out_search(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Run, Error> {
    let number = bench.output.number;
    let (max, goals) = (bench.settings.punt_max_pps, [0.0, bench.settings.loss_goal]);
    let mut blind = Vec::new();
    let searched = search(max, &goals, |rate_pps, longer| {
        let plan = Plan { transmit: false, ..trial_plan(bench, rate_pps, longer) };
        let (capture, (ns, at)) = bench.traffic(&plan, |control, live| {
            let mut at = Vec::with_capacity(plan.probes as usize);
            let start = clock::now() + 1_000_000;
            let offsets = plan.arrivals.offsets(plan.rate_pps, plan.seed);
            for (seq, offset) in (0..plan.probes).zip(offsets) {
                let due = start + offset;
                let wait = due.saturating_sub(clock::now());
                // Sleeping is no use for less; a sender behind its schedule sends at once.
                if wait > 100_000 {
                    std::thread::sleep(Duration::from_nanos(wait - 50_000));
                }
                while clock::now() < due {
                    std::hint::spin_loop();
                }
                let probe = Probe { stream: plan.stream, seq, due };
                at.push(control.send(&packet_out(control.version(), number, probe))?.0);
            }
            let ns = clock::now() - start;
            live.stop();
            Ok((ns, at))
        })?;
        blind.extend(blindness(&capture));
        let sent = f64::from(plan.probes);
        let trial = Trial {
            offered_pps: sent / (ns as f64 / 1e9),
            lost: (sent - capture.received_count() as f64).max(0.0) / sent,
            ..judged(&at, &capture.received)
        };
        progress(&format!(
            "packet_out_rate: {:.0} a second: {:.3}% lost",
            trial.offered_pps,
            trial.lost * 100.0
        ));
        Ok(trial)
    })?;
    Ok(Run {
        label: "64 bytes".into(),
        disturbed: blind,
        figures: searched.figures(),
        ..Run::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A switch that forwards at most so many a second, before a generator that sends at most so many.
    fn found(capacity: f64, generator: f64, max: f64) -> Searched {
        search(max, &[0.0, 0.01], |rate, _| {
            let offered_pps = rate.min(generator);
            let lost = (1.0 - capacity / offered_pps).max(0.0);
            let forwarded_pps = offered_pps.min(capacity);
            Ok(Trial { offered_pps, lost, forwarded_pps, queues: false, queue_ns: 0 })
        })
        .unwrap()
    }

    #[test]
    fn bounds_enclose_the_capacity() {
        for capacity in [37.0, 12_345.0, 99_000.0] {
            let found = found(capacity, 1e9, 100_000.0);
            let (low, high) = found.bounds[0];
            let high = high.unwrap();
            assert!(low <= capacity && capacity < high && high / low <= CLOSE, "{low} {high}");
            let (low, high) = found.bounds[1];
            let (borne, high) = (capacity / 0.99, high.unwrap());
            assert!(low <= borne * 1.0001 && borne < high * 1.0001 && high / low <= CLOSE);
            assert!(found.trials.len() < 20, "{}", found.trials.len());
        }
    }

    #[test]
    fn a_generator_at_its_limit_is_told() {
        let found = found(1e6, 50_000.0, 100_000.0);
        assert_eq!(found.bounds, [(50_000.0, None), (50_000.0, None)]);
        assert_eq!(found.figures().iter().find(|f| f.0 == "at_limit").unwrap().1, 1.0);
        assert_eq!(found.trials.len(), 1);
    }

    #[test]
    fn a_switch_that_always_loses_ends_the_search() {
        let mut trials = 0;
        let found = search(1e5, &[0.0], |offered_pps, _| {
            trials += 1;
            let forwarded_pps = offered_pps / 2.0;
            Ok(Trial { offered_pps, lost: 0.5, forwarded_pps, queues: false, queue_ns: 0 })
        })
        .unwrap();
        assert_eq!(found.bounds[0].0, 0.0);
        assert!(trials <= TRIALS_MAX + 1);
    }

    /// A path that forwards so many a second, and keeps so many waiting: when each of a trial's frames came, from 50 us on.
    fn queue(rate: f64, seconds: f64, capacity: f64, room: usize) -> (Vec<u64>, Vec<u64>) {
        let gap = |pps: f64| (1e9 / pps) as u64;
        let sent: Vec<u64> = (1..=(rate * seconds) as u64).map(|i| i * gap(rate)).collect();
        let (mut free, mut waiting) = (0, std::collections::VecDeque::new());
        let received = sent.iter().map(|at| {
            while waiting.front().is_some_and(|out| out < at) {
                waiting.pop_front();
            }
            if waiting.len() >= room {
                return 0;
            }
            free = free.max(*at) + gap(capacity);
            waiting.push_back(free);
            free + 50_000
        });
        let received = received.collect();
        (sent, received)
    }

    #[test]
    fn the_rate_is_told_at_any_depth_of_the_queue() {
        for room in [4, 20, 100, 1000, 60_000, usize::MAX] {
            for capacity in [2460.0, 17_000.0] {
                let found = search(40_000.0, &[0.0, 0.005], |rate, longer| {
                    let (sent, received) = queue(rate, longer, capacity, room);
                    Ok(judged(&sent, &received))
                })
                .unwrap();
                let (low, high) = found.bounds[0];
                let (least, most) = (capacity * 0.94, capacity * 1.03);
                assert!((least..most).contains(&low), "{room}: {low} {high:?} of {capacity}");
                assert!(found.trials.len() < 20, "{room}: {}", found.trials.len());
            }
        }
    }

    /// 1,000 a second for 100 ms. The first 20 are late and leave at once with the one behind them.
    #[test]
    fn a_late_start_adds_nothing_to_the_rate() {
        let due: Vec<u64> = (0..100).map(|i| 1_000_000_000 + i * 1_000_000).collect();
        let sent: Vec<u64> = due.iter().map(|at| *at.max(&due[20])).collect();
        let received = sent.iter().map(|at| at + 50_000).collect();
        let sending_ns = sent[99] - sent[0];
        let capture = Capture { due, sent, received, sending_ns, ..Capture::default() };
        assert!(
            (990.0..1001.0).contains(&trial_of(&capture).offered_pps),
            "{:?}",
            trial_of(&capture)
        );
    }

    #[test]
    fn a_stall_of_ours_is_no_queue() {
        let (sent, mut received) = queue(5000.0, 1.0, 1e9, usize::MAX);
        assert!(!judged(&sent, &received).queues);
        for end in [1500, 3000, 4999] {
            // 100 ms in which nothing was taken.
            let until = received[end];
            received
                .iter_mut()
                .filter(|r| until - 100_000_000 < **r && **r < until)
                .for_each(|r| *r = until);
            assert!(!judged(&sent, &received).queues, "{end}");
        }
        // Nor does one hide a queue, wherever it is.
        for end in (200..6000).step_by(200) {
            let (sent, mut received) = queue(6000.0, 1.0, 5000.0, usize::MAX);
            let until = received[end - 1];
            received
                .iter_mut()
                .filter(|r| until.saturating_sub(100_000_000) < **r && **r < until)
                .for_each(|r| *r = until);
            assert!(judged(&sent, &received).queues, "{end}");
        }
        // A long way that is always as long is none either.
        let (sent, mut received) = queue(5000.0, 1.0, 1e9, usize::MAX);
        received.iter_mut().for_each(|r| *r += 500_000_000);
        assert!(!judged(&sent, &received).queues);
        assert_eq!(judged(&[], &[]).lost, 0.0);
    }
}
