//! A whole switch of one worker behind ports in memory ([`feed`](super::feed)), to be measured.
//!
//! What the switch tells its control side is taken by whoever holds it here, between slices of frames: learning, and
//! copies that a controller would get, take no time of the worker's, and the ring has room for all that the rate lets
//! through.

use super::feed::{self, Feed};
use super::measure::Sample;
use super::trace::Trace;
use control::failure::Failure;
use control::program::host;
use control::program::tables::{self, Told};
use of_pipeline::Agent;
use of_pipeline::vlans::NormalConfig;
use openflow::{TlvMapping, TlvTableCommand, TlvTableMod};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::{EngineKind, Switch};

/// Frames between looks at what the control side is told, where it is told something.
const SLICE: u64 = 256;
/// Between looks whether the engine has come to rest.
const PAUSE: Duration = Duration::from_millis(5);
/// Whatever is waited for is there by then, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// A switch, and the near ends of its ports 1, 2, ...
pub(super) struct Wired {
    switch: Switch,
    /// None of a P4 program.
    agent: Option<Box<Agent>>,
    feeds: Vec<Feed>,
    /// Frames of each port's trace.
    lengths: Vec<u64>,
}

impl Wired {
    /// With OpenFlow's program, empty, and so many ports: those that frames of the trace come in by have them.
    pub(super) fn openflow(
        engine: EngineKind,
        punt_rate: u64,
        ports: u32,
        trace: &Trace,
    ) -> Result<Wired, Failure> {
        Wired::with_tunnels(engine, punt_rate, ports, trace, &[])
    }

    /// The same; frames of these ports begin with a descriptor.
    pub(super) fn with_tunnels(
        engine: EngineKind,
        punt_rate: u64,
        ports: u32,
        trace: &Trace,
        tunnels: &[u32],
    ) -> Result<Wired, Failure> {
        let switch = tables::start(1, Vec::new(), punt_rate, engine, None)?;
        let (feeds, lengths) = wire(&switch, ports, trace, tunnels)?;
        let agent = Some(Box::new(tables::agent(&switch, Some(1))?));
        Ok(Wired { switch, agent, feeds, lengths })
    }

    /// With a P4 program, its entries given as commands.
    pub(super) fn p4(
        engine: EngineKind,
        punt_rate: u64,
        ports: u32,
        trace: &Trace,
        (name, program, commands): (&str, &str, &str),
    ) -> Result<Wired, Failure> {
        let name = Path::new(name);
        let lowered = control::program::p4_file::compile_text(name, program)?;
        let mut p4 = host::of(lowered, |program| switch::Config {
            program,
            workers: 1,
            cpus: Vec::new(),
            punt_rate,
            engine,
            validate: None,
        })?;
        host::tell(&mut p4, name, commands)?;
        let switch = p4.switch().clone();
        let (feeds, lengths) = wire(&switch, ports, trace, &[])?;
        Ok(Wired { switch, agent: None, feeds, lengths })
    }

    /// The switch.
    pub(super) fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Geneve options have fields.
    pub(crate) fn map_options(&mut self, mappings: Vec<TlvMapping>) -> Result<(), Failure> {
        let (Some(agent), false) = (&mut self.agent, mappings.is_empty()) else { return Ok(()) };
        let request = TlvTableMod { command: TlvTableCommand::Add, mappings };
        agent.change_options(&request).map_err(|e| Failure::Bad(e.to_string()))
    }

    /// Sets VLANs and mirrors.
    pub(crate) fn set_normal(&mut self, config: NormalConfig) -> Result<(), Failure> {
        match &mut self.agent {
            Some(agent) => agent.set_normal_config(config).map_err(|e| Failure::Bad(e.to_string())),
            None => Ok(()),
        }
    }

    /// Gives the agent a line in `ovs-ofctl`'s syntax.
    pub(super) fn tell(&mut self, what: Told, line: &str) -> Result<(), String> {
        match &mut self.agent {
            Some(agent) => tables::tell(agent, what, line, &|_| None),
            None => Err("a P4 program takes no flow entries".to_owned()),
        }
    }

    /// Takes what the control side is told: how many copies and digests.
    pub(super) fn pump(&mut self) -> u64 {
        let mut told = 0;
        while let Some(message) = self.switch.try_message() {
            told += 1;
            if let Some(agent) = &mut self.agent {
                agent.receive(message);
            }
        }
        if let Some(agent) = &mut self.agent {
            agent.poll();
        }
        told
    }

    /// Waits until there is code for all that was told, and the engine has nothing better in mind.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        self.pump();
        self.switch.sync();
        let until = Instant::now() + PATIENCE;
        // The engine makes code of tables that have been quiet for a while.
        while !self.switch.is_settled() {
            if Instant::now() > until {
                return Err(Failure::bad("the engine has not come to rest in a minute"));
            }
            self.switch.advance();
            std::thread::sleep(PAUSE);
        }
        self.switch.sync();
        Ok(())
    }

    /// Has so many frames come in by a port, and says what they took and how many messages the control side got.
    pub(super) fn run(
        &mut self,
        port: u32,
        frames: u64,
        told: bool,
    ) -> Result<(Sample, u64), Failure> {
        let all = 0..self.lengths[port as usize - 1] as usize;
        self.run_part(port, all, frames, told)
    }

    /// The same, of a part of the port's frames.
    pub(super) fn run_part(
        &mut self,
        port: u32,
        part: Range<usize>,
        frames: u64,
        told: bool,
    ) -> Result<(Sample, u64), Failure> {
        let slice = if told { SLICE } else { frames };
        let (mut left, mut spent, mut messages) = (frames, Duration::ZERO, 0);
        while left > 0 {
            let n = left.min(slice.max(1));
            let feed = &self.feeds[port as usize - 1];
            feed.give(part.clone(), n);
            let until = Instant::now() + PATIENCE;
            while !feed.is_done() {
                if Instant::now() > until {
                    return Err(Failure::bad("the worker has taken no frames for a minute"));
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            spent += feed.spent();
            left -= n;
            if told {
                // Digests and copies are there when the frame is done with.
                messages += self.pump();
            }
        }
        let sample = Sample { packets: frames, seconds: spent.as_secs_f64() };
        Ok((sample, messages))
    }

    /// Has each port's frames come in once, port by port; how many those are, and how many messages the control side
    /// got.
    pub(super) fn round(&mut self) -> Result<(u64, u64), Failure> {
        let (mut frames, mut told) = (0, 0);
        for (port, n) in (1..).zip(self.lengths.clone()) {
            if n > 0 {
                told += self.run(port, n, true)?.1;
                frames += n;
            }
        }
        self.switch.sync();
        Ok((frames, told + self.pump()))
    }

    /// Entries of all tables.
    pub(super) fn entries(&self) -> usize {
        self.switch.with_pipeline(|pipeline| {
            let tables = (0..pipeline.program().tables.len() as u32).map(ir::TableId);
            tables.map(|table| pipeline.entries(table).len()).sum()
        })
    }

    /// The near end of a port.
    pub(super) fn feed(&self, port: u32) -> &Feed {
        &self.feeds[port as usize - 1]
    }

    /// Frames that were sent so far, by port.
    pub(super) fn sent(&self) -> Vec<u64> {
        self.feeds.iter().map(Feed::sent).collect()
    }

    /// Keeps what is sent from now on, or no more.
    pub(super) fn record(&self, on: bool) {
        self.feeds.iter().for_each(|feed| feed.record(on));
    }

    /// What was kept, by port.
    pub(super) fn recorded(&self) -> Vec<Vec<Vec<u8>>> {
        self.feeds.iter().map(Feed::recorded).collect()
    }
}

impl Drop for Wired {
    fn drop(&mut self) {
        self.switch.stop();
    }
}

/// Adds ports, each with its part of the trace.
pub(super) fn wire(
    switch: &Switch,
    ports: u32,
    trace: &Trace,
    tunnels: &[u32],
) -> Result<(Vec<Feed>, Vec<u64>), Failure> {
    let mut own: Vec<Trace> = (0..ports).map(|_| Trace::default()).collect();
    for n in 0..trace.len() {
        let (in_port, bytes) = trace.frame(n);
        match own.get_mut((in_port as usize).wrapping_sub(1)) {
            Some(of_port) => of_port.push(in_port, &bytes),
            None => return Err(Failure::Bad(format!("there is no port {in_port}"))),
        }
    }
    let (mut feeds, mut lengths) = (Vec::new(), Vec::new());
    for (number, own) in (1..).zip(own) {
        lengths.push(own.len() as u64);
        let (name, described) = (format!("bench{number}"), tunnels.contains(&number));
        let (port, feed) = feed::port_as(&name, Arc::new(own), described).map_err(Failure::bad)?;
        switch.add_port(Some(number), port).map_err(Failure::bad)?;
        feeds.push(feed);
    }
    switch.sync();
    Ok((feeds, lengths))
}
