//! How many connections a second can a stateful switch take?
//!
//! Each packet goes through Open vSwitch's `ct(commit)` (an extension; a switch without it refuses the rule
//! and the question is not asked) and is the first of a flow of its own, so that each makes an entry in the
//! connection tracker. The highest rate without loss is searched for as in
//! [`throughput`](super::search::THROUGHPUT); flows do not come again until all of
//! [`FLOWS_MAX`](crate::probe::FLOWS_MAX) have been used.

use super::question::Module;
use super::search::{search, trial_of, trial_plan};
use crate::bench::Bench;
use crate::error::Error;
use crate::probe;
use crate::run::Run;
use crate::traffic::Plan;
use openflow::{Action, FieldId, FlowMod, Instruction, Match, PortNo, action::ExperimenterAction};

/// The module.
pub const MODULE: Module = Module {
    name: "connections",
    about: "how many new connections a second pass a connection tracker without loss",
    figures: &["connections_per_second", "upper", "existing_pps", "trials"],
    latencies: &[],
    over: &[],
    run,
};

const NICIRA: u32 = 0x2320;

/// `ct(commit)` in zone 0 (`struct nx_action_conntrack`, ovs-actions(7)).
fn commit() -> Action {
    const SUBTYPE: [u8; 2] = 35u16.to_be_bytes();
    const COMMIT: [u8; 2] = 1u16.to_be_bytes();
    let mut data = Vec::new();
    data.extend([SUBTYPE, COMMIT].concat());
    // The zone is an immediate 0; 0xff: no table to go on in.
    data.extend([0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0]);
    Action::Experimenter(Box::new(ExperimenterAction { experimenter: NICIRA, data }))
}

fn run(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let matching = Match::new()
        .with(FieldId::InPort, bench.input.number.into())
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::IpProto, 17);
    let output = Action::output(PortNo(bench.output.number));
    let apply = Instruction::ApplyActions(vec![commit(), output]);
    bench.only(FlowMod {
        priority: 1000,
        ..FlowMod::add(matching, [apply].into_iter().collect())
    })?;
    Ok(vec![bench.repeat_up_to(1, |bench| searched(bench, progress))?])
}

fn searched(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Run, Error> {
    let max = bench.settings.rate_max_pps;
    let mut first_flow = 0;
    let searched = search(max, &[bench.settings.loss_goal], |rate_pps, longer| {
        let plan =
            Plan { flows: probe::FLOWS_MAX, first_flow, ..trial_plan(bench, rate_pps, longer) };
        first_flow = (first_flow + plan.probes) % probe::FLOWS_MAX;
        let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
        let trial = trial_of(&capture);
        progress(&format!(
            "connections: {:.0} a second: {:.3}% lost",
            trial.offered_pps,
            trial.lost * 100.0
        ));
        Ok(trial)
    })?;
    // The same rule, packets of one connection: what the tracker costs without making entries.
    let existing = search(max, &[bench.settings.loss_goal], |rate_pps, longer| {
        let plan = Plan { flows: 1, ..trial_plan(bench, rate_pps, longer) };
        let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
        Ok(trial_of(&capture))
    })?;
    let (low, high) = searched.bounds.first().copied().unwrap_or_default();
    Ok(Run {
        label: "UDP, a packet each".into(),
        figures: vec![
            ("connections_per_second", low.round()),
            ("upper", high.unwrap_or(low).round()),
            ("existing_pps", existing.bounds.first().map_or(0.0, |b| b.0.round())),
            ("trials", searched.trials.len() as f64),
        ],
        ..Run::default()
    })
}
