//! `bench patch`: what a patch port costs a packet.
//!
//! Frames come in by a port in memory and leave by one. Between them lie a bridge, or two, or more, each patched to the
//! next, on one worker; each outputs all that comes in by its first port to its second. So what one bridge more costs is
//! one pipeline, one patch port and what a worker does for a burst. Chains are timed in turns. `bench constructs` has a row of
//! one bridge and two.

use super::{Chain, FRAMES, timed};
use crate::constructs;
use crate::options::BenchPatchOptions;
use control::failure::Failure;
use port::patch::Panel;
use switch::{Ran, Switch};

/// Chains have so many bridges.
const BRIDGES: [usize; 3] = [1, 2, 5];
/// What `bench constructs` calls it.
pub(crate) const ROW: &str = "patch port";
/// `millrace bench patch`.
pub(crate) fn run(options: &BenchPatchOptions) -> Result<(), Failure> {
    let chains = BRIDGES.iter().map(|bridges| chain(*bridges, options.flows));
    let chains = chains.collect::<Result<Vec<_>, Failure>>()?;
    let medians = timed(&chains, options.runs)?;
    let each = |at: usize| (medians[at] - medians[0]) / (BRIDGES[at] - BRIDGES[0]).max(1) as f64;
    if options.json {
        let all: Vec<_> = BRIDGES
            .iter()
            .zip(&medians)
            .map(|(bridges, ns)| serde_json::json!({"bridges": bridges, "ns": ns}))
            .collect();
        let last = BRIDGES.len() - 1;
        println!("{}", serde_json::json!({"chains": all, "ns_for_one_more": each(last)}));
    } else {
        for (at, (bridges, ns)) in BRIDGES.iter().zip(&medians).enumerate() {
            match at {
                0 => println!("{bridges} bridge:  {ns:6.1} ns a packet"),
                _ => println!(
                    "{bridges} bridges: {ns:6.1} ns a packet, {:.1} for each more",
                    each(at)
                ),
            }
        }
    }
    Ok(())
}

/// The row of `bench constructs`: two bridges beside one, all packets of both counted by what has run them.
pub(crate) fn row(check: bool, runs: usize) -> Result<serde_json::Value, Failure> {
    let chains = [1, 2].map(|bridges| chain(bridges, 1));
    let [one, two] = chains;
    let chains = [one?, two?];
    // Code is there before anything is counted.
    chains.iter().try_for_each(|chain| chain.run().map(drop))?;
    let counts = |chain: &Chain| chain.switches.iter().map(Switch::ran).collect::<Vec<_>>();
    let before = counts(&chains[1]);
    let runs = if check { 1 } else { runs };
    let medians = timed(&chains, runs)?;
    let (mut packets, mut whole, mut interpreted) = (0, 0, 0);
    let mut reasons = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
    for (now, before) in counts(&chains[1]).iter().zip(&before) {
        let ran = constructs::since(now, before);
        packets += ran.packets();
        for (ran_by, count, told) in
            [(Ran::Whole, &mut whole, 0), (Ran::Interpreter, &mut interpreted, 1)]
        {
            let (n, why) = ran.of(ran_by);
            *count += n;
            reasons[told].extend(why.iter().map(|(text, _)| text.to_string()));
        }
    }
    let sent = 2 * FRAMES * (runs.max(1) as u64 + 1);
    if packets != sent {
        return Err(Failure::Bad(format!(
            "of {sent} packets in two bridges, {packets} were run by something"
        )));
    }
    let share = |n: u64| n as f64 / packets.max(1) as f64;
    let mut row = serde_json::json!({
        "language": "openflow", "name": ROW, "copies": 1, "told": 0, "packets": packets,
        "whole": share(whole), "interpreted": share(interpreted),
        "why_whole": reasons[0], "why_interpreted": reasons[1],
    });
    if !check {
        row["ns"] = medians[1].into();
        row["plain_ns"] = medians[0].into();
        row["more_ns"] = (medians[1] - medians[0]).into();
        row["ratio"] = (medians[1] / medians[0].max(f64::MIN_POSITIVE)).into();
    }
    Ok(row)
}

/// So many bridges, each patched to the next.
fn chain(bridges: usize, flows: u32) -> Result<Chain, Failure> {
    let mut chain = Chain::new(super::flows(flows, 60))?;
    let panel = Panel::new(1);
    let patch = |own: String, peer: String| {
        let port = panel.open(&own, &peer).map_err(Failure::bad)?;
        Ok::<_, Failure>(Box::new(port) as Box<dyn port::Port>)
    };
    let [first, last] = chain.ends()?;
    let (mut left, mut last) = (first, Some(last));
    for bridge in 0..bridges {
        let next = bridge + 1;
        let right = match last.take_if(|_| next == bridges) {
            Some(last) => last,
            None => patch(format!("right{bridge}"), format!("left{next}"))?,
        };
        chain.bridge([left, right], |agent| super::flow(agent, "in_port=1 actions=output:2"))?;
        if next == bridges {
            break;
        }
        left = patch(format!("left{next}"), format!("right{bridge}"))?;
    }
    chain.settle()?;
    Ok(chain)
}
