//! Does a switch forward by how the traffic looks, not by what its tables say?
//!
//! Switches that remember decisions (flow caches) are fast while traffic fits what they remember.
//! [`FLOWS`] sends the same rate as ever more flows in random order through one rule that covers all.
//! [`MASKS`] makes a cache of wildcards hold ever more masks (the tuple-space explosion, Csikor et al., 2019):
//! two rules of higher priority match one destination and one source; packets that differ from these in the
//! i-th and the j-th bit first take a cache entry under a mask of their own for each (i, j).
//!
//! No finding: a cliff is no fault, but worth knowing.

use super::question::{Module, Over};
use crate::bench::Bench;
use crate::error::Error;
use crate::judge::both_latencies;
use crate::probe::{self, Probe};
use crate::run::{Run, WIRE};
use crate::traffic::{Frames, Plan, Turns};
use openflow::{Action, FieldId, FlowMod, Instruction, Instructions, Match, Message, PortNo};
use std::sync::Arc;
use std::time::Duration;

/// Active flows.
pub const FLOWS: Module = Module {
    name: "flows",
    about: "whether forwarding suffers as the same rate is spread over more flows",
    figures: &["flows", "offered_pps", "lost_share"],
    latencies: &["latency", WIRE],
    over: &[
        over("latency over active flows", "flows", "active flows", LATENCY),
        over("loss over active flows", "flows", "active flows", LOSS),
    ],
    run: flows,
};

/// Masks.
pub const MASKS: Module = Module {
    name: "masks",
    about: "whether forwarding suffers as traffic takes more masks in a wildcard cache",
    figures: &["masks", "offered_pps", "lost_share"],
    latencies: &["latency", WIRE],
    over: &[
        over("latency over masks", "masks", "masks that a wildcard cache needs", LATENCY),
        over("loss over masks", "masks", "masks that a wildcard cache needs", LOSS),
    ],
    run: masks,
};

/// What lies upwards, and whether by logarithm.
type Upwards = (&'static str, &'static [&'static str], bool);
const LATENCY: Upwards = ("latency (us)", &["latency_p50_us", "latency_p99_us"], true);
const LOSS: Upwards = ("share of frames lost", &["lost_share"], false);

const fn over(
    title: &'static str,
    x: &'static str,
    x_label: &'static str,
    (y_label, ys, log): Upwards,
) -> Over {
    Over { title, x, x_label, y_label, ys, log: (true, log), note: "" }
}

/// Forwards all that comes in.
fn all(bench: &Bench) -> FlowMod {
    let matching = Match::new().with(FieldId::InPort, bench.input.number.into());
    let output = Action::output(PortNo(bench.output.number));
    let apply = Instruction::ApplyActions(vec![output]);
    FlowMod { priority: 1000, ..FlowMod::add(matching, [apply].into_iter().collect()) }
}

fn flows(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = all(bench);
    bench.only(rule)?;
    let mut runs = Vec::new();
    for flows in bench.settings.active_flows.clone() {
        progress(&format!("flows: {flows}"));
        runs.push(bench.repeat(|bench| {
            let plan = Plan { flows, turns: Turns::Random, ..plan(bench) };
            once(bench, &plan, format!("{flows} flows"), ("flows", f64::from(flows)))
        })?);
    }
    Ok(runs)
}

fn masks(bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    let rule = all(bench);
    bench.only(rule)?;
    let one = |field, value: u32, priority| {
        let matching = Match::new().with(FieldId::EthType, 0x0800).with(field, value.into());
        Message::FlowMod(FlowMod { priority, ..FlowMod::add(matching, Instructions::default()) })
    };
    let rules = [one(FieldId::Ipv4Dst, TARGET, 3000), one(FieldId::Ipv4Src, SOURCE, 2000)];
    bench.control.send_all(&rules)?;
    bench.control.barrier("flow entries by address")?;
    bench.settle();
    let mut runs = Vec::new();
    for masks in bench.settings.masks.clone() {
        progress(&format!("masks: {masks}"));
        runs.push(bench.repeat(|bench| {
            let frames = Frames { frames: exploding(masks), offsets: None };
            let frames = Some(Arc::new(frames));
            let plan = Plan { frames, turns: Turns::Random, ..plan(bench) };
            once(bench, &plan, format!("{masks} masks"), ("masks", f64::from(masks)))
        })?);
    }
    Ok(runs)
}

/// The destination and the source that rules match and no packet has.
const TARGET: u32 = 0xc612_aaaa;
const SOURCE: u32 = 0xc613_5555;
/// Packets for each mask.
const COPIES: u32 = 8;

/// Packets that first differ from [`TARGET`] in bit i and from [`SOURCE`] in bit j, for so many pairs of bits.
fn exploding(masks: u32) -> Vec<Vec<u8>> {
    let masks = masks.clamp(1, MASKS_MAX);
    // As square as can be, so that few masks need few bits.
    let wide = (1..=32).find(|n| n * n >= masks).unwrap_or(32);
    let mut frames = Vec::new();
    for mask in 0..masks {
        // Bits are counted from the top; what lies below the first that differs is free.
        let (i, j) = (31 - mask % wide, 31 - mask / wide);
        for copy in 0..COPIES {
            let differs = |of: u32, bit: u32| {
                let free = copy.wrapping_mul(0x9e37_79b9) & ((1u32 << bit) - 1);
                (of ^ (1 << bit)) & !((1u32 << bit) - 1) | free
            };
            let mut frame = probe::frame(probe::LEN_MIN, 0, Probe { stream: 0, seq: 0, due: 0 });
            probe::readdress(&mut frame, differs(SOURCE, j), differs(TARGET, i));
            frames.push(frame);
        }
    }
    frames
}

/// As many masks as there are pairs of bits.
pub const MASKS_MAX: u32 = 32 * 32;

fn plan(bench: &mut Bench) -> Plan {
    let (rate_pps, seconds) = (bench.settings.cliff_pps, f64::from(bench.settings.cliff_ms) / 1e3);
    let probes = ((rate_pps * seconds) as u32).max(100);
    Plan { rate_pps, probes, drain: Duration::from_millis(500), ..bench.plan() }
}

fn once(
    bench: &mut Bench,
    plan: &Plan,
    label: String,
    x: (&'static str, f64),
) -> Result<Run, Error> {
    let (capture, ()) = bench.traffic(plan, |_, _| Ok(()))?;
    let sent = capture.sent_count();
    let lost = capture.lost_count();
    Ok(Run {
        label: format!("{label}, {} a second", plan.rate_pps),
        disturbed: bench.disturbances(&capture),
        figures: vec![
            x,
            ("offered_pps", plan.rate_pps),
            ("lost_share", lost as f64 / sent.max(1) as f64),
        ],
        latencies: both_latencies(&capture),
        ..Run::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_pair_of_bits_is_a_mask_of_its_own() {
        for masks in [1, 4, 10, 64, MASKS_MAX] {
            let frames = exploding(masks);
            let word = |f: &[u8], at: usize| u32::from_be_bytes(f[at..at + 4].try_into().unwrap());
            let pairs: BTreeSet<(u32, u32)> = frames
                .iter()
                .map(|f| {
                    let (src, dst) = (word(f, 26), word(f, 30));
                    ((src ^ SOURCE).leading_zeros(), (dst ^ TARGET).leading_zeros())
                })
                .collect();
            assert_eq!(pairs.len(), masks as usize);
            assert_eq!(frames.len(), (masks * COPIES) as usize);
        }
    }
}
