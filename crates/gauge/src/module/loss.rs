//! Does a switch lose a frame now and then, at a rate that does not trouble it?
//!
//! Many probes in one run: a loss of one in *n* is seen with probability 1 - e^(-probes/n). With the
//! 120,000 by default a loss of one in 10,000 is missed once in e^12, some 160,000 times.

use super::question::Module;
use crate::bench::Bench;
use crate::error::Error;
use crate::judge::{blindness, both_latencies};
use crate::run::{Finding, Run, WIRE};
use crate::traffic::Plan;

/// The module.
pub const MODULE: Module = Module {
    name: "loss",
    about: "whether a frame is lost, doubled or overtaken now and then, in a long run",
    figures: &["sent", "lost", "lost_share_upper", "doubled", "reordered"],
    latencies: &["latency", WIRE],
    over: &[],
    run,
};

fn run(bench: &mut Bench, _: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = bench.forward(0);
    bench.only(rule)?;
    let warm_up = Plan { probes: 1000, ..bench.plan() };
    bench.traffic(&warm_up, |_, _| Ok(()))?;
    Ok(vec![bench.repeat(once)?])
}

fn once(bench: &mut Bench) -> Result<Run, Error> {
    let (probes, rate_pps) = (bench.settings.loss_probes, bench.settings.loss_pps);
    let plan = Plan { probes, rate_pps, ..bench.plan() };
    let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
    let sent = capture.sent_count();
    let lost = capture.lost_count();
    let mut blind = blindness(&capture);
    // Late probes are no reason not to believe that none was lost; but those that leave in a burst may overrun a switch.
    if lost > 0 || capture.reordered > 0 {
        blind.extend(bench.lateness(&capture));
    }
    let mut findings = Vec::new();
    if blind.is_empty() {
        for (what, n, did) in [
            ("frames_lost", lost, "did not come out"),
            ("frames_reordered", capture.reordered, "came out after one that was sent later"),
        ] {
            if n > 0 {
                let share = sent as f64 / n as f64;
                let text = format!("{n} of {sent} frames (one in {share:.0}) {did}");
                findings.push(Finding { what, text });
            }
        }
    }
    Ok(Run {
        label: format!("{probes} frames, {rate_pps} a second"),
        disturbed: blind,
        figures: vec![
            ("sent", sent as f64),
            ("lost", lost as f64),
            ("lost_share_upper", upper(lost, sent)),
            ("doubled", capture.odd.doubled as f64),
            ("reordered", capture.reordered as f64),
        ],
        latencies: both_latencies(&capture),
        findings,
        ..Run::default()
    })
}

/// The upper end of the 95% confidence interval of a share (Wilson's score interval).
fn upper(hits: u64, all: u64) -> f64 {
    const Z: f64 = 1.96;
    let (n, p) = (all.max(1) as f64, hits as f64 / all.max(1) as f64);
    let middle = p + Z * Z / (2.0 * n);
    let margin = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle + margin) / (1.0 + Z * Z / n)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_loss_seen_is_not_no_loss() {
        assert!((3e-5..4e-5).contains(&upper(0, 100_000)));
        assert!((0.59..0.60).contains(&upper(50, 100)));
        assert_eq!(upper(0, 0), 1.0f64.min(upper(0, 0)));
    }
}
