//! Is a rule active when the barrier that follows it is answered?
//!
//! A probe of the rule that is *sent* after the barrier's reply has *come* must be forwarded (1.3.5
//! §7.3.8: all before the barrier is done). A single lost probe is no proof, as a switch may lose
//! frames; a rule is late if two or more of its probes in a row, from the reply on, did not come out.
//! A rule of which no probe ever came out is not late but missing, which says nothing of the barrier (`rule_inactive`).
//! So a lie shorter than two turns of the probes is not seen; `resolution_us` says how long that is.

use super::question::{Module, add_run};
use super::updates::{Batch, Change, Priorities, SILENT_MIN, update};
use crate::bench::Bench;
use crate::error::Error;
use crate::judge::blindness;
use crate::run::{Finding, Run};

/// The module.
pub const MODULE: Module = Module {
    name: "barrier",
    about: "whether rules are active when the barrier behind them is answered",
    figures: &["late", "late_us", "inactive", "resolution_us"],
    latencies: &[],
    over: &[],
    run,
};

fn run(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    for rules in bench.settings.batches.clone() {
        progress(&format!("barrier: {rules} rules, {} times", bench.settings.barrier_rounds));
        let done = bench.repeat(|bench| rounds(bench, rules));
        if !add_run(&mut runs, done, &format!("barrier: {rules} rules"), progress)? {
            break;
        }
    }
    Ok(runs)
}

fn rounds(bench: &mut Bench, rules: u32) -> Result<Run, Error> {
    let (mut late, mut late_ns, mut silent_rounds, mut inactive) = (0, 0, 0, 0);
    let (mut disturbed, mut turn_ns) = (Vec::new(), 0);
    let rounds = bench.settings.barrier_rounds;
    for _ in 0..rounds {
        let batch =
            Batch { change: Change::Add(Priorities::Equal), rules, apart: false, closely: false };
        let inserted = update(bench, batch, 0)?;
        turn_ns = inserted.turn_ns;
        let blind = blindness(&inserted.capture);
        if !blind.is_empty() {
            // What came in this round proves nothing.
            disturbed.extend(blind);
            continue;
        }
        // Not even the rule that was there before forwards.
        if inserted.capture.received_count() == 0 {
            inactive += rules;
            continue;
        }
        let before = late;
        for (silent, first) in inserted.silent_after_barrier() {
            match first {
                Some(first) if silent >= SILENT_MIN => {
                    late += 1;
                    late_ns = late_ns.max(first.saturating_sub(inserted.barrier_at));
                }
                None if silent >= SILENT_MIN => inactive += 1,
                _ => {}
            }
        }
        silent_rounds += u32::from(late > before);
    }
    let mut findings = Vec::new();
    if late > 0 {
        let text = format!(
            "in {silent_rounds} of {rounds} rounds, rules were inactive after the barrier's reply: {late} of {}, \
             for up to {:.1} ms",
            rules * rounds,
            late_ns as f64 / 1e6
        );
        findings.push(Finding { what: "barrier_early", text });
    }
    if inactive > 0 {
        let text = format!(
            "{inactive} of {} rules forwarded nothing for as long as was looked, 2 s and more after the barrier's reply",
            rules * rounds
        );
        findings.push(Finding { what: "rule_inactive", text });
    }
    Ok(Run {
        label: format!("{rules} rules, {rounds} times"),
        disturbed,
        figures: vec![
            ("late", f64::from(late)),
            ("late_us", late_ns as f64 / 1000.0),
            ("inactive", f64::from(inactive)),
            ("resolution_us", (turn_ns * u64::from(SILENT_MIN)) as f64 / 1000.0),
        ],
        findings,
        ..Run::default()
    })
}
