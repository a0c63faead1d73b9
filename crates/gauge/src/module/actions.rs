//! What does it cost to change a packet on its way?
//!
//! The latency of a rule that only forwards, then of rules that do one thing more. Each is measured next to
//! a plain one of its own, so that a drift of the machine is not taken for a cost; what is told is the
//! difference of the medians.

use super::question::{Module, Over};
use crate::bench::Bench;
use crate::error::Error;
use crate::expect::Makes;
use crate::judge::{blindness, both_latencies, latencies, wires};
use crate::run::{Finding, Run, WIRE};
use crate::traffic::Plan;
use openflow::{Action, FieldId, FlowMod, Instruction, PortNo};
use std::sync::Arc;

/// The module.
pub const MODULE: Module = Module {
    name: "actions",
    about: "what each change of a packet adds to its latency, over frame sizes",
    figures: &["bytes", "sent", "lost", "plain_p50_us", "added_p50_us", "added_wire_p50_us"],
    latencies: &["latency", WIRE],
    over: &[
        Over {
            title: "added to the median latency over frame size",
            x: "bytes",
            x_label: "frame size (bytes, with the check sequence)",
            y_label: "added latency (us)",
            ys: &["added_p50_us"],
            log: (false, false),
            note: "OFLOPS-SUME, figure 6c, which has the rewriting of a transport port: `set UDP destination`.",
        },
        Over {
            title: "added to the median of what the wire took over frame size",
            x: "bytes",
            x_label: "frame size (bytes, with the check sequence)",
            y_label: "added from leaving our port to arriving (us)",
            ys: &["added_wire_p50_us"],
            log: (false, false),
            note: "The same by the kernel's stamps at both ends, without what our own sending took.",
        },
    ],
    run,
};

fn changes() -> Vec<(&'static str, Vec<Action>)> {
    let set = |field, value| vec![Action::set_field(field, value)];
    vec![
        ("set UDP destination", set(FieldId::UdpDst, 4242)),
        ("set Ethernet destination", set(FieldId::EthDst, 0x0200_0000_aa02)),
        ("set IPv4 source", set(FieldId::Ipv4Src, 0xc612_0909)),
        ("set DSCP", set(FieldId::IpDscp, 10)),
        ("decrement TTL", vec![Action::DecNwTtl]),
        ("push VLAN", vec![Action::PushVlan(0x8100), Action::set_field(FieldId::VlanVid, 0x1005)]),
        ("push MPLS", vec![Action::PushMpls(0x8847), Action::set_field(FieldId::MplsLabel, 77)]),
    ]
}

fn run(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let longest = bench.input.len_max().min(bench.output.len_max());
    let sizes: Vec<usize> =
        // Less the check sequence, and with room for what is pushed.
        bench.settings.sizes.iter().copied().filter(|size| size + 4 <= longest).collect();
    let mut runs = Vec::new();
    for (name, actions) in changes() {
        for size in &sizes {
            progress(&format!("actions: {name}, {size} bytes"));
            let done = bench.repeat(|bench| once(bench, name, &actions, *size));
            match done {
                Ok(run) => runs.push(run),
                // This switch or version has no such action: the others are asked all the same.
                Err(e) if e.is_of_one_module() => {
                    progress(&format!("actions: {name} is left out: {e}"));
                    break;
                }
                Err(e) => return Err(e),
            }
        }
    }
    match runs.is_empty() {
        true => Err(Error::NotAsked("the switch took none of the actions".into())),
        false => Ok(runs),
    }
}

fn once(bench: &mut Bench, name: &str, actions: &[Action], size: usize) -> Result<Run, Error> {
    let plain = bench.forward(0);
    // A rule that changes a UDP port must match UDP, which probes are.
    let matching = plain.matching.clone().with(FieldId::IpProto, 17);
    let plain = FlowMod { matching, ..plain };
    let output = Action::output(PortNo(bench.output.number));
    let all: Vec<Action> = actions.iter().cloned().chain([output]).collect();
    let changing = FlowMod {
        instructions: [Instruction::ApplyActions(all)].into_iter().collect(),
        ..plain.clone()
    };
    let len = size.saturating_sub(4);
    let mut measure = |rule: FlowMod, makes: Makes| {
        bench.only(rule)?;
        let warm_up = Plan { probes: 200, makes: makes.clone(), ..bench.plan() };
        bench.traffic(&warm_up, |_, _| Ok(()))?;
        let probes = bench.settings.probes.div_ceil(4);
        let plan = Plan { len, probes, makes, ..bench.plan() };
        Ok::<_, Error>((bench.traffic(&plan, |_, _| Ok(()))?.0, plan))
    };
    let (before, _) = measure(plain, Makes::Same)?;
    let (capture, plan) = measure(changing, Makes::Changed(Arc::new(actions.to_vec())))?;
    let sent = capture.sent_count();
    let lost = capture.lost_count();
    let mut findings = Vec::new();
    if lost > 0 && blindness(&capture).is_empty() {
        let text = format!("{lost} of {sent} frames did not come out ({name})");
        findings.push(Finding { what: "frames_lost", text });
    }
    let (plain, changed) = (latencies(&before).summary(), latencies(&capture).summary());
    let p50 = |summary: &crate::latency::Summary| {
        summary.percentile(50.0).map_or(0.0, |ns| ns as f64 / 1000.0)
    };
    let mut disturbed = bench.disturbances(&before);
    disturbed.extend(bench.disturbances(&capture));
    let mut figures = vec![
        ("bytes", size as f64),
        ("sent", sent as f64),
        ("lost", lost as f64),
        ("plain_p50_us", p50(&plain)),
        ("added_p50_us", p50(&changed) - p50(&plain)),
    ];
    if let (Some(plain), Some(changed)) = (wires(&before), wires(&capture)) {
        figures.push(("added_wire_p50_us", p50(&changed.summary()) - p50(&plain.summary())));
    }
    Ok(Run {
        label: format!("{name}, {size} bytes, {} a second", plan.rate_pps),
        group: name.into(),
        disturbed,
        figures,
        latencies: both_latencies(&capture),
        findings,
        ..Run::default()
    })
}
