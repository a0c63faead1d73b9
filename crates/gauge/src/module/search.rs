//! The highest rate that a switch keeps up with, by binary search (RFC 2544 §26.1).
//!
//! A trial offers one rate for a while and counts what is lost. There are two goals: no loss at all, and a
//! share of loss that is still borne (`loss_goal`). The trials of one goal bound the other, and each search ends
//! when its bounds are within [`CLOSE`] of each other: the lower one passed a whole trial, the upper one failed
//! one (the multiple loss ratio search of the IETF's benchmarking group works on the same idea).
//!
//! The offered rate is what was really sent. Where the generator itself could not send faster, and nothing was
//! lost, the rate is only known to be at least that: `at_limit` is 1.

use super::{Module, Over};
use crate::bench::{Bench, blindness, packet_out};
use crate::clock;
use crate::error::Error;
use crate::probe::{self, Probe};
use crate::report::Run;
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
    mut trial: impl FnMut(f64) -> Result<Trial, Error>,
) -> Result<Searched, Error> {
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
                None if trials.len() == 1 => high * (1.0 - trials[0].lost),
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
        trials.iter().filter(move |t| (t.lost <= goal) == passed).map(|t| t.offered_pps)
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
        figures.push(("at_limit", f64::from(u8::from(at_limit))));
        figures.push(("trials", self.trials.len() as f64));
        figures
    }
}

/// What became of a capture, as a trial.
pub fn trial_of(capture: &Capture) -> Trial {
    let sent = capture.sent_count().saturating_sub(capture.refused);
    let lost = sent.saturating_sub(capture.received_count());
    let seconds = capture.sending_ns as f64 / 1e9;
    Trial {
        offered_pps: sent.saturating_sub(1) as f64 / seconds.max(1e-6),
        lost: lost as f64 / sent.max(1) as f64,
    }
}

/// The plan of a trial at a rate.
pub fn trial_plan(bench: &mut Bench, rate_pps: f64) -> Plan {
    let seconds = f64::from(bench.settings.trial_ms) / 1000.0;
    let probes = ((rate_pps * seconds) as u32).max(10);
    Plan { probes, rate_pps, drain: Duration::from_millis(300), ..bench.plan() }
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
        let (max, goals) = (bench.settings.rate_max_pps, [0.0, bench.settings.loss_goal]);
        let (mut blind, mut load) = (Vec::new(), None);
        let searched = search(max, &goals, |rate_pps| {
            let plan = Plan { len, ..trial_plan(bench, rate_pps) };
            let before = bench.busy();
            let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
            // The first trial is the fastest.
            load = load.or(before.and_then(|b| Some((bench.busy()?, b))));
            let trial = trial_of(&capture);
            progress(&format!(
                "throughput: {size} bytes, {:.0} a second: {:.3}% lost",
                trial.offered_pps,
                trial.lost * 100.0
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
        let fails_by_us = blind.len() == searched.trials.iter().filter(|t| t.lost > 0.0).count();
        let mut figures = vec![("bytes", size as f64)];
        figures.extend(searched.figures());
        figures.extend(load.map(|(after, before)| ("cpu_load", before.load(&after))));
        runs.push(Run {
            label: format!("{size} bytes"),
            attempts: 1,
            disturbed: if fails_by_us { blind } else { Vec::new() },
            figures,
            ..Run::default()
        });
    }
    Ok(runs)
}

fn packet_in_rate(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = bench.rule(0, PortNo::CONTROLLER);
    bench.only(rule)?;
    let (max, goals) = (bench.settings.punt_max_pps, [0.0, bench.settings.loss_goal]);
    let searched = search(max, &goals, |rate_pps| {
        let plan = Plan { drain: Duration::from_millis(1), ..trial_plan(bench, rate_pps) };
        let (mut came, mut seen) = (0u64, vec![false; plan.probes as usize]);
        bench.control.take_packet_ins();
        let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
        while came < capture.sent_count()
            && bench.control.next(Duration::from_millis(500))?.is_some()
        {
            for (_, packet) in bench.control.take_packet_ins() {
                let Some(probe) = probe::parse(&packet.data) else { continue };
                let slot = seen.get_mut(probe.seq as usize).filter(|_| probe.stream == plan.stream);
                came += u64::from(slot.is_some_and(|slot| !std::mem::replace(slot, true)));
            }
        }
        let sent = capture.sent_count();
        let lost = sent.saturating_sub(came) as f64 / sent.max(1) as f64;
        let trial = Trial { lost, ..trial_of(&capture) };
        progress(&format!(
            "packet_in_rate: {:.0} a second: {:.3}% lost",
            trial.offered_pps,
            lost * 100.0
        ));
        Ok(trial)
    })?;
    Ok(vec![Run {
        label: "64 bytes".into(),
        attempts: 1,
        figures: searched.figures(),
        ..Run::default()
    }])
}

fn packet_out_rate(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let number = bench.output.number;
    let (max, goals) = (bench.settings.punt_max_pps, [0.0, bench.settings.loss_goal]);
    let mut blind = Vec::new();
    let searched = search(max, &goals, |rate_pps| {
        let plan = Plan { transmit: false, ..trial_plan(bench, rate_pps) };
        let (capture, ns) = bench.traffic(&plan, |control, live| {
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
                control.send(&packet_out(control.version(), number, probe))?;
            }
            let ns = clock::now() - start;
            live.stop();
            Ok(ns)
        })?;
        blind.extend(blindness(&capture));
        let sent = f64::from(plan.probes);
        let trial = Trial {
            offered_pps: sent / (ns as f64 / 1e9),
            lost: (sent - capture.received_count() as f64) / sent,
        };
        progress(&format!(
            "packet_out_rate: {:.0} a second: {:.3}% lost",
            trial.offered_pps,
            trial.lost * 100.0
        ));
        Ok(trial)
    })?;
    Ok(vec![Run {
        label: "64 bytes".into(),
        attempts: 1,
        disturbed: blind,
        figures: searched.figures(),
        ..Run::default()
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A switch that forwards at most so many a second, before a generator that sends at most so many.
    fn found(capacity: f64, generator: f64, max: f64) -> Searched {
        search(max, &[0.0, 0.01], |rate| {
            let offered_pps = rate.min(generator);
            Ok(Trial { offered_pps, lost: (1.0 - capacity / offered_pps).max(0.0) })
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
        let found = search(1e5, &[0.0], |offered_pps| {
            trials += 1;
            Ok(Trial { offered_pps, lost: 0.5 })
        })
        .unwrap();
        assert_eq!(found.bounds[0].0, 0.0);
        assert!(trials <= TRIALS_MAX + 1);
    }
}
