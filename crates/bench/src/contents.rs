//! What the tables hold: from flow entries to one list of updates.
//!
//! Entries go through a switch's OpenFlow agent, so that the rules of flow tables apply to them as to
//! a controller's. What the agent makes of them is then taken out of the switch, which is given up:
//! each engine that is measured, and the interpreter that judges it, gets the same updates.

use control::failure::Failure;
use control::program::tables::{self, Told};
use ir::{Pipeline, Program, Update};
use of_pipeline::Agent;
use std::path::Path;
use std::sync::Arc;
use switch::EngineKind;

/// A program, and what is put into it.
#[derive(Clone)]
pub(crate) struct Contents {
    /// The program.
    pub(crate) program: Arc<Program>,
    /// All of it.
    pub(crate) updates: Vec<Update>,
    /// Counters and entries have ids below this.
    pub(crate) ids: u32,
    /// Counters that meters and their bands take beside those.
    pub(crate) meters: u32,
    /// The services that entries name: `NAME KIND [KEY=VALUE...]`.
    pub(crate) services: Vec<String>,
    /// Rewrites of the program.
    pub(crate) passes: opt::Options,
}

/// Takes flow entries one by one.
pub(crate) type Entries<'a> = dyn FnMut(&str) -> Result<(), String> + 'a;

impl Contents {
    /// Of a switch with so many ports and these services that takes what `fill` gives it.
    pub(crate) fn load(
        ports: u32,
        services: Vec<String>,
        fill: impl FnOnce(&mut Entries<'_>) -> Result<(), Failure>,
    ) -> Result<Contents, Failure> {
        Contents::told(ports, services, |agent| {
            fill(&mut |line| tables::tell(agent, Told::Flow, line, &|_| None))
        })
    }

    /// Of a switch with so many ports and these services whose agent is told something.
    fn told(
        ports: u32,
        services: Vec<String>,
        tell: impl FnOnce(&mut Agent) -> Result<(), Failure>,
    ) -> Result<Contents, Failure> {
        let switch = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None)?;
        if let Some(elements) = switch.services().elements() {
            control::program::services::add_all(elements, &services).map_err(Failure::Bad)?;
        }
        // Nothing is sent through them; they are there for entries that flood. The far ends go.
        for n in 1..=ports {
            let name = format!("bench{n}-{}", std::process::id());
            let (port, _) =
                port::memory::port(&name, port::memory::Config::default()).map_err(Failure::bad)?;
            switch.add_port(Some(n), Box::new(port)).map_err(Failure::bad)?;
        }
        let mut agent = tables::agent(&switch, Some(1))?;
        // It learns of its ports.
        agent.poll();
        tell(&mut agent)?;
        let contents = switch.with_pipeline(Contents::of);
        switch.stop();
        Ok(Contents { services, ..contents })
    }

    /// Of files in `ovs-ofctl`'s syntax: meters, groups and flow entries, in this order.
    pub(crate) fn read(
        files: &[(Told, &Path)],
        ports: u32,
        services: Vec<String>,
    ) -> Result<Contents, Failure> {
        Contents::told(ports, services, |agent| {
            files.iter().try_for_each(|(what, path)| {
                tables::each_line(path, |line| tables::tell(agent, *what, line, &|_| None))
            })
        })
    }

    /// Of a P4 program and its entries.
    pub(crate) fn p4(program: &Path, entries: Option<&Path>) -> Result<Contents, Failure> {
        let lowered =
            control::program::p4_file::compile(&control::program::p4_file::source(program))?;
        let mut control = p4::control::Control::new(lowered).map_err(Failure::bad)?;
        if let Some(path) = entries {
            let text = control::program::p4_file::read(path)?;
            let (_, wrong) = p4::commands::run(&text, &mut control, &mut p4::commands::Blind);
            control::program::p4_file::refuse(path, &wrong)?;
        }
        Ok(Contents::of(&control.pipeline))
    }

    /// All that a pipeline holds.
    pub(crate) fn of(pipeline: &Pipeline) -> Contents {
        let updates = pipeline.contents();
        let (mut ids, mut meters) = (0, 0);
        let mut id = |n: u32| ids = ids.max(n + 1);
        for update in &updates {
            match update {
                Update::Insert(_, entry) => id(entry.id.0),
                Update::SetGroup(_, group) => {
                    id(group.counter.0);
                    group.buckets.iter().for_each(|b| id(b.counter.0));
                }
                Update::SetMeter(_, meter) => meters += 1 + meter.bands.len() as u32,
                _ => {}
            }
        }
        let passes = datapath::compiled::Options::default().passes;
        let program = pipeline.program().clone();
        Contents { program, updates, ids, meters, services: Vec::new(), passes }
    }
}
