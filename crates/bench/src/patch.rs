//! `bench patch`: what a patch port costs a packet.
//!
//! Frames come in by a port in memory and leave by one. Between them lie a bridge, or two, or more, each patched to the
//! next, on one worker; each outputs all that comes in by its first port to its second. So what one bridge more costs is
//! one pipeline, one patch port and what a worker does for a burst. Chains are timed in turns. `bench constructs` has a row of
//! one bridge and two.

use super::constructs;
use super::feed::{self, Feed};
use super::options::BenchPatchOptions;
use super::trace::Trace;
use control::failure::Failure;
use control::program::tables::{self, Parts, Told};
use port::patch::Panel;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::{EngineKind, Ran, Switch, Workers};

/// Chains have so many bridges.
const BRIDGES: [usize; 3] = [1, 2, 5];
/// What `bench constructs` calls it.
pub(super) const ROW: &str = "patch port";
/// Frames of a run.
const FRAMES: u64 = 1 << 18;
/// A run that takes longer has failed.
const RUN_MAX: Duration = Duration::from_secs(60);

/// Bridges in a row.
struct Chain {
    workers: Workers,
    switches: Vec<Switch>,
    from: Feed,
    to: Feed,
    length: usize,
}

/// `millrace bench patch`.
pub(super) fn run(options: &BenchPatchOptions) -> Result<(), Failure> {
    let chains = BRIDGES.iter().map(|bridges| Chain::new(*bridges, options.flows));
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

/// Nanoseconds a packet of each chain, timed in turns.
fn timed(chains: &[Chain], runs: usize) -> Result<Vec<f64>, Failure> {
    let mut times = vec![Vec::new(); chains.len()];
    for round in 0..=runs.max(1) {
        for (chain, times) in chains.iter().zip(&mut times) {
            let ns = chain.run()?;
            // The first one warms up.
            if round > 0 {
                times.push(ns);
            }
        }
    }
    Ok(times.iter_mut().map(|times| median(times)).collect())
}

/// The row of `bench constructs`: two bridges beside one, all packets of both counted by what has run them.
pub(super) fn row(check: bool, runs: usize) -> Result<serde_json::Value, Failure> {
    let chains = [1, 2].map(|bridges| Chain::new(bridges, 1));
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

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

impl Chain {
    fn new(bridges: usize, flows: u32) -> Result<Chain, Failure> {
        let workers = Workers::start(1, &[]).map_err(Failure::bad)?;
        let panel = Panel::new(1);
        let mut trace = Trace::default();
        for n in 0..flows.max(1) {
            let mut frame = [0u8; 60];
            frame[5] = 2;
            frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
            // IPv4, UDP, a port for each flow.
            frame[12..14].copy_from_slice(&[8, 0]);
            frame[14] = 0x45;
            frame[17] = 46;
            (frame[22], frame[23]) = (64, 17);
            frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            frame[34..36].copy_from_slice(&(n as u16).to_be_bytes());
            trace.push(1, &frame);
        }
        let length = trace.len();
        let (first, from) = feed::port("from", Arc::new(trace)).map_err(Failure::bad)?;
        let (last, to) = feed::port("to", Arc::default()).map_err(Failure::bad)?;
        let (mut first, mut last) = (Some(first), Some(last));
        let mut switches = Vec::new();
        for bridge in 0..bridges {
            let (config, services) = tables::parts(Parts {
                workers: 1,
                cpus: Vec::new(),
                punt_rate: 1000,
                engine: EngineKind::default(),
                validate: None,
                connections: 1024,
            });
            let switch = Switch::start_on(&workers, config, services).map_err(Failure::bad)?;
            let patch = |own: String, peer: String| {
                panel.open(&own, &peer).map(|port| Box::new(port) as Box<dyn port::Port>)
            };
            let left = match first.take() {
                Some(port) => port,
                None => patch(format!("left{bridge}"), format!("right{}", bridge - 1))
                    .map_err(Failure::bad)?,
            };
            let right = match bridge + 1 == bridges {
                true => last.take(),
                false => Some(
                    patch(format!("right{bridge}"), format!("left{}", bridge + 1))
                        .map_err(Failure::bad)?,
                ),
            };
            switch.add_port(Some(1), left).map_err(Failure::bad)?;
            if let Some(right) = right {
                switch.add_port(Some(2), right).map_err(Failure::bad)?;
            }
            let mut agent = tables::agent(&switch, Some(1))?;
            let flow = "in_port=1 actions=output:2";
            tables::tell(&mut agent, Told::Flow, flow, &|_| None).map_err(Failure::Bad)?;
            switches.push(switch);
        }
        let chain = Chain { workers, switches, from, to, length };
        chain.settle()?;
        Ok(chain)
    }

    /// Patch ports are up, and the engines have made the code that they want.
    fn settle(&self) -> Result<(), Failure> {
        let until = Instant::now() + RUN_MAX;
        let up = |switch: &Switch| switch.ports().iter().all(switch::PortView::is_live);
        while !self.switches.iter().all(|switch| switch.is_settled() && up(switch)) {
            self.switches.iter().for_each(Switch::advance);
            if Instant::now() > until {
                return Err(Failure::Bad("the bridges do not settle".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.switches.iter().for_each(|switch| {
            switch.sync();
        });
        Ok(())
    }

    /// Nanoseconds of processor time a packet, of a run; all of them have come through.
    fn run(&self) -> Result<f64, Failure> {
        let before = self.to.sent();
        let until = Instant::now() + RUN_MAX;
        self.from.give(0..self.length, FRAMES);
        while !self.from.is_done() || self.to.sent() - before < FRAMES {
            if Instant::now() > until {
                let sent = self.to.sent() - before;
                return Err(Failure::Bad(format!("{sent} of {FRAMES} frames have come through")));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(self.from.spent().as_nanos() as f64 / FRAMES as f64)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.switches.iter().for_each(Switch::stop);
        self.workers.stop();
    }
}
