//! Several bridges on one worker, between a port in memory that gives frames and one that forgets them.
//!
//! | module | holds |
//! |---|---|
//! | [`patch`] | `bench patch`: bridges joined by patch ports |
//! | [`tunnels`] | `bench tunnels`: into a tunnel and out of it |
//! | [`own`] | a bridge's own port, and the network that it leads to |

mod own;
pub(super) mod patch;
pub(super) mod tunnels;

use super::feed::{self, Feed};
use super::trace::Trace;
use control::failure::Failure;
use control::program::tables::{self, Parts, Told};
use of_pipeline::Agent;
use port::Port;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::{EngineKind, Switch, Workers};

/// Frames of a run.
const FRAMES: u64 = 1 << 18;
/// A run that takes longer has failed.
const RUN_MAX: Duration = Duration::from_secs(60);

/// Bridges of one worker. Frames come in by a port of one of them and leave by a port of one of them.
struct Chain {
    workers: Workers,
    switches: Vec<Switch>,
    from: Feed,
    to: Feed,
    /// Frames that take turns.
    length: usize,
    /// The ports of both ends, until they are somewhere.
    ends: Option<[Box<dyn Port>; 2]>,
}

/// Of so many flows, IPv4 and UDP.
fn flows(flows: u32, octets: usize) -> Trace {
    let mut trace = Trace::default();
    for n in 0..flows.max(1) {
        let mut frame = vec![0u8; octets.max(60)];
        frame[5] = 2;
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        let len = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        (frame[22], frame[23]) = (64, 17);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = wire::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        // A port for each.
        frame[34..36].copy_from_slice(&(n as u16).to_be_bytes());
        frame[38..40].copy_from_slice(&(len - 20).to_be_bytes());
        trace.push(1, &frame);
    }
    trace
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

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Has a bridge take a flow entry.
fn flow(agent: &mut Agent, line: &str) -> Result<(), Failure> {
    tables::tell(agent, Told::Flow, line, &|_| None).map_err(Failure::Bad)
}

impl Chain {
    /// Without bridges.
    fn new(trace: Trace) -> Result<Chain, Failure> {
        let workers = Workers::start(1, &[]).map_err(Failure::bad)?;
        let length = trace.len();
        let (first, from) = feed::port("from", Arc::new(trace)).map_err(Failure::bad)?;
        let (last, to) = feed::port("to", Arc::default()).map_err(Failure::bad)?;
        let ends = Some([first, last]);
        Ok(Chain { workers, switches: Vec::new(), from, to, length, ends })
    }

    /// The ports by which frames come in, and leave.
    fn ends(&mut self) -> Result<[Box<dyn Port>; 2], Failure> {
        self.ends.take().ok_or_else(|| Failure::Bad("both ends are in use".to_owned()))
    }

    /// Adds a bridge with these as its ports 1 and 2, and with entries that `told` gives it.
    fn bridge(
        &mut self,
        ports: [Box<dyn Port>; 2],
        told: impl FnOnce(&mut Agent) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (config, services) = tables::parts(Parts {
            workers: 1,
            cpus: Vec::new(),
            punt_rate: 1000,
            engine: EngineKind::default(),
            validate: None,
            tracking: control::program::tables::Tracking::of(1024),
        });
        let switch = Switch::start_on(&self.workers, config, services).map_err(Failure::bad)?;
        for (number, port) in (1..).zip(ports) {
            switch.add_port(Some(number), port).map_err(Failure::bad)?;
        }
        told(&mut tables::agent(&switch, Some(1))?)?;
        self.switches.push(switch);
        Ok(())
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
