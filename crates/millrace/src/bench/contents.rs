//! What the tables hold: from flow entries to one list of updates.
//!
//! Entries go through a switch's OpenFlow agent, so that the rules of flow tables apply to them as to
//! a controller's. What the agent makes of them is then taken out of the switch, which is given up:
//! each engine that is measured, and the interpreter that judges it, gets the same updates.

use crate::Failure;
use crate::run;
use ir::{Pipeline, Program, TableId, Update, ValueSetId};
use openflow::syntax::{self, Context};
use openflow::{Message, Version};
use std::path::Path;
use std::sync::Arc;
use switch::EngineKind;

/// A program, and what is put into it.
pub(crate) struct Contents {
    /// The program.
    pub(crate) program: Arc<Program>,
    /// All of it.
    pub(crate) updates: Vec<Update>,
    /// Counters and entries have ids below this.
    pub(crate) ids: u32,
}

/// Takes flow entries one by one.
pub(crate) type Entries<'a> = dyn FnMut(&str) -> Result<(), String> + 'a;

impl Contents {
    /// Of a switch with so many ports that takes what `fill` gives it.
    pub(crate) fn load(
        ports: u32,
        fill: impl FnOnce(&mut Entries<'_>) -> Result<(), Failure>,
    ) -> Result<Contents, Failure> {
        let switch = run::start(1, Vec::new(), 1000, EngineKind::Interp, None)?;
        // Nothing is sent through them; they are there for entries that flood. The far ends go.
        for n in 1..=ports {
            let name = format!("bench{n}-{}", std::process::id());
            let (port, _) =
                port::memory::port(&name, port::memory::Config::default()).map_err(Failure::bad)?;
            switch.add_port(Some(n), Box::new(port)).map_err(Failure::bad)?;
        }
        let mut agent = run::agent(&switch, Some(1))?;
        let context = Context::new(Version::V13);
        fill(&mut |line| {
            let flow = syntax::parse_flow(line, &context).map_err(|e| e.to_string())?;
            let taken = agent.handle(Version::V13, Message::FlowMod(flow));
            taken.map(|_| ()).map_err(|e| e.to_string())
        })?;
        let contents = switch.with_pipeline(Contents::of);
        switch.stop();
        Ok(contents)
    }

    /// Of a file in `ovs-ofctl`'s syntax.
    pub(crate) fn read(path: &Path, ports: u32) -> Result<Contents, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::Bad(format!("cannot read {}: {e}", path.display())))?;
        Contents::load(ports, |entry| {
            syntax::lines(&text).try_for_each(|(number, line)| {
                entry(line.trim())
                    .map_err(|e| Failure::Bad(format!("{}:{number}: {e}", path.display())))
            })
        })
    }

    fn of(pipeline: &Pipeline) -> Contents {
        let program = pipeline.program().clone();
        let mut updates = Vec::new();
        let mut ids = 0;
        let mut id = |n: u32| ids = ids.max(n + 1);
        updates.extend(pipeline.added_actions().map(|(id, a)| Update::AddAction(id, a.clone())));
        for set in (0..program.value_sets.len() as u32).map(ValueSetId) {
            updates.push(Update::SetValueSet(set, pipeline.value_set(set).to_vec()));
        }
        for (meter, config) in pipeline.meters() {
            updates.push(Update::SetMeter(meter, (**config).clone().into()));
        }
        for (group, config) in pipeline.groups() {
            id(config.counter.0);
            config.buckets.iter().for_each(|b| id(b.counter.0));
            updates.push(Update::SetGroup(group, config.clone()));
        }
        for (n, table) in (0..).zip(&program.tables) {
            let entries = pipeline.entries(TableId(n));
            if *entries.default() != table.default {
                updates.push(Update::SetDefault(TableId(n), entries.default().clone()));
            }
            for entry in entries.iter() {
                id(entry.id.0);
                updates.push(Update::Insert(TableId(n), entry.clone()));
            }
        }
        Contents { program, updates, ids }
    }
}
