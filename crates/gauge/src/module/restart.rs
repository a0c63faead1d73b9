//! How long is traffic lost, and the control channel, when the switch is restarted?
//!
//! A command that was given (`--restart`) restarts it while probes flow. Then we connect again, as often as
//! it takes; if probes do not come out soon after, the rule is added anew. The outage is the longest time between
//! the sending of two probes that came out one after the other, less what we only waited for the rule to come back by itself.

use super::question::Module;
use crate::bench::Bench;
use crate::clock;
use crate::clock::wait;
use crate::error::Error;
use crate::run::{Finding, Run};
use crate::traffic::Plan;
use openflow::Message;
use std::process::Command;
use std::time::{Duration, Instant};

/// The module.
pub const MODULE: Module = Module {
    name: "restart",
    about: "how long traffic and the control channel are lost when the switch is restarted",
    figures: &["outage_ms", "control_ms", "rules_kept", "lost"],
    latencies: &[],
    over: &[],
    run,
};

/// The longest that a restart may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn run(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let Some(command) = bench.settings.restart.clone() else {
        let text = "no command that restarts the switch was given (--restart COMMAND)";
        return Err(Error::NotAsked(text.into()));
    };
    progress(&format!("restart: {command}"));
    Ok(vec![bench.repeat_up_to(1, |bench| once(bench, &command))?])
}

fn once(bench: &mut Bench, command: &str) -> Result<Run, Error> {
    let rule = bench.forward(0);
    bench.only(rule.clone())?;
    let seconds = PATIENCE.as_secs_f64() * 2.0 + 10.0;
    let rate_pps = bench.settings.rate_pps.min(5000.0);
    let probes = (rate_pps * seconds) as u32;
    let plan = Plan { probes, rate_pps, drain: Duration::from_millis(300), ..bench.plan() };
    let (capture, (kept, control_ns, waited_ns)) = bench.traffic(&plan, |control, live| {
        wait(Duration::from_secs(2), || live.received() > 100);
        let began = clock::now();
        let status = Command::new("sh").args(["-c", command]).status();
        let status = status.map_err(|e| Error::NotAsked(format!("{command}: {e}")))?;
        if !status.success() {
            return Err(Error::NotAsked(format!("{command}: {status}")));
        }
        let until = Instant::now() + PATIENCE;
        while let Err(e) = control.reopen() {
            if Instant::now() > until {
                return Err(e);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let control_ns = clock::now() - began;
        // What is on its way after the reconnection is no proof: more than that must come.
        let back_at = clock::now();
        let enough = live.received() + (rate_pps / 10.0) as u64;
        let kept = wait(Duration::from_secs(3), || live.received() > enough);
        let waited_ns = if kept { 0 } else { clock::now() - back_at };
        if !kept {
            control.clear()?;
            control.send(&Message::FlowMod(rule.clone()))?;
            control.barrier("a flow entry")?;
            wait(PATIENCE, || live.received() > enough);
        }
        std::thread::sleep(Duration::from_millis(200));
        live.stop();
        Ok((kept, control_ns, waited_ns))
    })?;
    let out = capture.sent.iter().zip(&capture.received).filter(|(_, r)| **r > 0).map(|(s, _)| *s);
    let times: Vec<u64> = out.collect();
    let silent = times.windows(2).map(|w| w[1].saturating_sub(w[0])).max().unwrap_or(0);
    let outage_ns = outage(silent, waited_ns);
    let after = times.last().copied().unwrap_or(0);
    let end = capture.sent.iter().copied().max().unwrap_or(0);
    let mut findings = Vec::new();
    if end.saturating_sub(after) > 1_000_000_000 {
        let text = "nothing came out any more after the restart, though its rule was added anew"
            .to_string();
        findings.push(Finding { what: "not_back", text });
    }
    Ok(Run {
        label: format!("{rate_pps} a second"),
        figures: vec![
            ("outage_ms", outage_ns as f64 / 1e6),
            ("control_ms", control_ns as f64 / 1e6),
            ("rules_kept", f64::from(u8::from(kept))),
            ("lost", capture.lost_count() as f64),
        ],
        findings,
        ..Run::default()
    })
}

/// How long traffic was lost by the restart: not while we only looked whether the rules would come back by themselves.
fn outage(silent_ns: u64, waited_ns: u64) -> u64 {
    silent_ns.saturating_sub(waited_ns)
}

#[cfg(test)]
mod tests {
    use super::outage;

    #[test]
    fn our_own_waiting_is_no_outage() {
        assert_eq!(outage(3_200, 3_000), 200);
        assert_eq!(outage(200, 0), 200);
        assert_eq!(outage(5, 10), 0);
    }
}
