//! What the tables hold: from flow entries to one list of updates.
//!
//! Entries go through a switch's OpenFlow agent, so that the rules of flow tables apply to them as to
//! a controller's. What the agent makes of them is then taken out of the switch, which is given up:
//! each engine that is measured, and the interpreter that judges it, gets the same updates.

use crate::Failure;
use crate::run;
use ir::{Pipeline, Program, Update};
use openflow::Message;
use openflow::syntax::{self, Context};
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
        let switch = run::start(1, Vec::new(), 1000, EngineKind::Interp, None)?;
        if let Some(elements) = switch.services().elements() {
            crate::services::add_all(elements, &services).map_err(Failure::Bad)?;
        }
        // Nothing is sent through them; they are there for entries that flood. The far ends go.
        for n in 1..=ports {
            let name = format!("bench{n}-{}", std::process::id());
            let (port, _) =
                port::memory::port(&name, port::memory::Config::default()).map_err(Failure::bad)?;
            switch.add_port(Some(n), Box::new(port)).map_err(Failure::bad)?;
        }
        let mut agent = run::agent(&switch, Some(1))?;
        fill(&mut |line| {
            let read = |version| syntax::parse_flow(line, &Context::new(version));
            let (version, flow) = syntax::in_a_version(read).map_err(|e| e.to_string())?;
            let taken = agent.handle(version, Message::FlowMod(flow));
            taken.map(|_| ()).map_err(|e| e.to_string())
        })?;
        let contents = switch.with_pipeline(Contents::of);
        switch.stop();
        Ok(Contents { services, ..contents })
    }

    /// Of a file in `ovs-ofctl`'s syntax.
    pub(crate) fn read(
        path: &Path,
        ports: u32,
        services: Vec<String>,
    ) -> Result<Contents, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::Bad(format!("cannot read {}: {e}", path.display())))?;
        Contents::load(ports, services, |entry| {
            syntax::lines(&text).try_for_each(|(number, line)| {
                entry(line.trim())
                    .map_err(|e| Failure::Bad(format!("{}:{number}: {e}", path.display())))
            })
        })
    }

    /// Of a P4 program and its entries.
    pub(crate) fn p4(program: &Path, entries: Option<&Path>) -> Result<Contents, Failure> {
        let lowered = crate::p4::compile(&crate::p4_host::source(program))?;
        let mut control = p4::control::Control::new(lowered).map_err(Failure::Bad)?;
        if let Some(path) = entries {
            let text = crate::p4::read(path)?;
            let (_, wrong) = p4::commands::run(&text, &mut control, &mut p4::commands::Blind);
            crate::p4_host::refuse(path, &wrong)?;
        }
        Ok(Contents::of(&control.pipeline))
    }

    fn of(pipeline: &Pipeline) -> Contents {
        let updates = pipeline.contents();
        let mut ids = 0;
        let mut id = |n: u32| ids = ids.max(n + 1);
        for update in &updates {
            match update {
                Update::Insert(_, entry) => id(entry.id.0),
                Update::SetGroup(_, group) => {
                    id(group.counter.0);
                    group.buckets.iter().for_each(|b| id(b.counter.0));
                }
                _ => {}
            }
        }
        let passes = datapath::compiled::Options::default().passes;
        let program = pipeline.program().clone();
        Contents { program, updates, ids, services: Vec::new(), passes }
    }
}
