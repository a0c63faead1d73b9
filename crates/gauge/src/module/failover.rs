//! How long is traffic lost when the port that a fast-failover group prefers goes down?
//!
//! The group's first bucket watches the output port, the second sends what comes back out of the input port.
//! In the middle of the run our end of the output port's wire is taken down; the outage is from the sending of
//! the last probe that came out there before, to the sending of the first that came out at the input port. It
//! begins when we asked for the link to go down, so what our own kernel takes for that is in it.

use super::question::Module;
use crate::bench::Bench;
use crate::clock::wait;
use crate::error::Error;
use crate::run::{Finding, Run};
use crate::traffic::Plan;
use openflow::{
    Action, Bucket, BucketId, FlowMod, GroupId, GroupMod, GroupModCommand, GroupType, Instruction,
    Message, PortNo, Version,
};
use std::time::Duration;

/// The module.
pub const MODULE: Module = Module {
    name: "failover",
    about: "how long traffic is lost when a fast-failover group's first port goes down",
    figures: &["outage_us", "lost", "resolution_us"],
    latencies: &[],
    over: &[],
    run,
};

const GROUP: GroupId = GroupId(1);
/// The longest that we wait for the second bucket.
const PATIENCE: Duration = Duration::from_secs(5);

fn run(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    if bench.control.version() == Version::V10 {
        return Err(Error::NotAsked("OpenFlow 1.0 has no groups; offer a later version".into()));
    }
    let mut runs = Vec::new();
    for round in 1..=bench.settings.failovers {
        progress(&format!("failover: {round} of {}", bench.settings.failovers));
        let done = bench.repeat(|bench| once(bench, round));
        let removed = remove(bench);
        runs.push(done?);
        removed?;
    }
    Ok(runs)
}

fn group_mod(command: GroupModCommand, buckets: Vec<Bucket>) -> Message {
    let (group_type, command_bucket) = (GroupType::FastFailover, BucketId::ALL);
    let selection = None;
    Message::GroupMod(GroupMod {
        command,
        group_type,
        group_id: GROUP,
        command_bucket,
        selection,
        buckets,
    })
}

fn remove(bench: &mut Bench) -> Result<(), Error> {
    bench.control.clear()?;
    bench.control.send(&group_mod(GroupModCommand::Delete, Vec::new()))?;
    bench.control.barrier("removing a group")?;
    Ok(())
}

fn once(bench: &mut Bench, round: u32) -> Result<Run, Error> {
    remove(bench)?;
    let (input, output) = (PortNo(bench.input.number), PortNo(bench.output.number));
    let bucket = |id, watch_port, to| Bucket {
        id: BucketId(id),
        weight: 0,
        watch_port,
        watch_group: GroupId::ANY,
        actions: vec![Action::output(to)],
    };
    // A packet leaves by the port that it came in by only if that is named so (1.3.5 §4.5).
    let buckets = vec![bucket(0, output, output), bucket(1, input, PortNo::IN_PORT)];
    bench.control.send(&group_mod(GroupModCommand::Add, buckets))?;
    bench.control.barrier("a fast-failover group")?;
    let apply = Instruction::ApplyActions(vec![Action::Group(GROUP)]);
    let rule = FlowMod { instructions: [apply].into_iter().collect(), ..bench.forward(0) };
    bench.control.send(&Message::FlowMod(rule))?;
    bench.control.barrier("a flow entry with a group")?;
    bench.settle();
    let probes = (bench.settings.rate_pps * (PATIENCE.as_secs_f64() + 3.0)) as u32;
    let plan = Plan { probes, both: true, drain: Duration::from_millis(100), ..bench.plan() };
    let rate = plan.rate_pps;
    let (capture, alive) = bench.traffic(&plan, |_, live| {
        let alive = wait(Duration::from_secs(2), || live.received() > (rate / 5.0) as u64);
        live.cut();
        wait(PATIENCE, || live.returned() > (rate / 50.0) as u64);
        live.stop();
        Ok(alive)
    })?;
    // The link needs a while to be seen as up again.
    std::thread::sleep(Duration::from_millis(500));
    let returned = capture.returned.iter().position(|back| *back);
    let last_before = |to: usize| (0..to).rev().find(|i| capture.received[*i] > 0);
    let mut findings = Vec::new();
    let mut figures = Vec::new();
    match returned {
        Some(first) => {
            let since = last_before(first).map_or(capture.cut_at, |i| capture.sent[i]);
            figures.push(("outage_us", capture.sent[first].saturating_sub(since) as f64 / 1000.0));
            figures.push((
                "lost",
                capture.received[..first].iter().filter(|at| **at == 0).count() as f64,
            ));
        }
        None if alive && capture.cut_at > 0 => {
            let seconds = PATIENCE.as_secs();
            let still = capture.received.iter().filter(|at| **at > capture.cut_at).count();
            let text = format!(
                "nothing came by the second bucket within {seconds} s of the first port's going down; {still} of \
                 {} frames still came by the first",
                capture.sent_count()
            );
            findings.push(Finding { what: "failover_missing", text });
        }
        None => {
            let text = "nothing came by the first bucket while its port was up".to_string();
            findings.push(Finding { what: "group_inactive", text });
        }
    }
    figures.push(("resolution_us", 1e6 / rate));
    Ok(Run {
        label: format!("cut {round}"),
        disturbed: match capture.late as f64
            > capture.due.len() as f64 * bench.settings.late_share_max
        {
            true => vec![format!("{} probes missed their slot", capture.late)],
            false => Vec::new(),
        },
        figures,
        findings,
        ..Run::default()
    })
}
