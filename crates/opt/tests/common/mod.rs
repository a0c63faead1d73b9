//! The oracle: the interpreter on a pipeline, and on the same with its program rewritten.

#![allow(dead_code, reason = "each test uses a part of it")]

use interp::{Collect, Externs, Input, Machine, MemoryExterns, Start, Trace, View, trace};
use ir::{
    Action, ActionCall, ActionId, Bits, Entry, Group, GroupId, Pipeline, Program, Select, TableId,
    ValueSetId, Verdict,
};
use opt::{Bail, Contents, Optimised, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pipeline whose program and actions were rewritten.
pub(crate) struct Rewritten<'a> {
    pipeline: &'a Pipeline,
    program: Arc<Program>,
    actions: BTreeMap<ActionId, Arc<Action>>,
}

impl<'a> Rewritten<'a> {
    pub(crate) fn new(pipeline: &'a Pipeline, by: &Optimised) -> Rewritten<'a> {
        Rewritten { pipeline, program: Arc::new(by.program.clone()), actions: by.actions.clone() }
    }
}

impl View for Rewritten<'_> {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn action(&self, id: ActionId) -> Option<&Action> {
        self.actions.get(&id).map(|a| &**a)
    }

    fn lookup(&self, table: TableId, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Entry> {
        View::lookup(self.pipeline, table, key)
    }

    fn default_action(&self, table: TableId) -> &ActionCall {
        View::default_action(self.pipeline, table)
    }

    fn group(&self, id: GroupId) -> Option<&Group> {
        View::group(self.pipeline, id)
    }

    fn value_set(&self, id: ValueSetId) -> &[Select] {
        View::value_set(self.pipeline, id)
    }
}

/// Everything that a run shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) verdict: Verdict,
    pub(crate) collect: Collect,
    pub(crate) counts: String,
}

/// A machine and what it counts.
pub(crate) struct Lane {
    machine: Machine,
    pub(crate) externs: MemoryExterns,
}

impl Lane {
    pub(crate) fn new(pipeline: &Pipeline, seed: u64) -> Lane {
        let mut externs = MemoryExterns::new(pipeline.program());
        externs.seed = seed;
        for (id, meter) in pipeline.meters() {
            externs.set_meter(id, Some(meter));
        }
        Lane { machine: Machine::new(), externs }
    }

    pub(crate) fn run(
        &mut self,
        view: &dyn View,
        bytes: &[u8],
        in_port: u32,
        now_ns: u64,
        trace: Option<&mut Trace>,
    ) -> Shown {
        self.externs.now_ns = now_ns;
        let input = Input { bytes, in_port, now_ns, start: Start::Pipeline };
        let mut collect = Collect::default();
        let externs: &mut dyn Externs = &mut self.externs;
        let verdict = self.machine.run(view, input, externs, &mut collect, trace);
        collect.outputs.iter_mut().for_each(|output| output.unchanged = false);
        let e = &self.externs;
        let counts = format!(
            "{:?} {:?} {:?} {:?} {:?} {}",
            e.tables, e.entries, e.counters, e.arrays, e.registers, e.seed
        );
        Shown { verdict, collect, counts }
    }
}

/// The rewritten program obeys the verifier.
pub(crate) fn verify(optimised: &Optimised, what: &str) {
    if let Err(error) = ir::verify::program(&optimised.program) {
        panic!("{what}: {error}");
    }
    for action in optimised.actions.values() {
        if let Err(error) = ir::verify::action(&optimised.program, action) {
            panic!("{what}: {error}");
        }
    }
    for (table, live) in optimised.tables.iter().enumerate() {
        for action in live.iter().flat_map(|t| &t.actions) {
            assert!(optimised.actions.contains_key(action), "{what}: table {table}, {action}");
        }
    }
}

/// Runs packets on both; the first difference, as text.
pub(crate) fn compare(
    pipeline: &Pipeline,
    optimised: &Optimised,
    bail: Bail,
    packets: &[(u32, Vec<u8>)],
) -> Option<String> {
    let rewritten = Rewritten::new(pipeline, optimised);
    let (mut old, mut new) = (Lane::new(pipeline, 7), Lane::new(pipeline, 7));
    for (i, (in_port, bytes)) in packets.iter().enumerate() {
        let now_ns = 1_000_000 * i as u64;
        if bail != Bail::default() {
            // What bails is run by the interpreter alone, and must not be counted twice.
            let mut trace = Trace::new();
            let mut probe = Lane::new(pipeline, 7);
            probe.externs = old.externs.clone();
            probe.run(pipeline, bytes, *in_port, now_ns, Some(&mut trace));
            if bails(&trace, bail) {
                continue;
            }
        }
        let was = old.run(pipeline, bytes, *in_port, now_ns, None);
        let is = new.run(&rewritten, bytes, *in_port, now_ns, None);
        if was != is {
            let traces = [pipeline as &dyn View, &rewritten].map(|view| {
                let mut trace = Trace::new();
                Lane::new(pipeline, 7).run(view, bytes, *in_port, now_ns, Some(&mut trace));
                trace.to_string()
            });
            return Some(format!(
                "packet {i} {bytes:02x?}\nwas {was:?}\nis  {is:?}\n{}\n-- rewritten --\n{}",
                traces[0], traces[1]
            ));
        }
    }
    None
}

fn bails(trace: &Trace, bail: Bail) -> bool {
    fn walk(events: &[trace::Event], bail: Bail, parses: &mut u32) -> bool {
        events.iter().any(|event| {
            let here = match event.kind {
                trace::Kind::Group => bail.groups,
                trace::Kind::Clone if event.text.starts_with("clone ") => bail.clones,
                trace::Kind::Clone if event.text.starts_with("on_copy") => bail.copies,
                trace::Kind::Clone => bail.calls,
                trace::Kind::Pass => bail.passes,
                trace::Kind::Parse => {
                    *parses += u32::from(event.text.starts_with("parse "));
                    bail.reparses && *parses > 1
                }
                trace::Kind::Op => bail.services && event.text.starts_with("service "),
                trace::Kind::Drop => event.text.contains("recirculation_limit"),
                _ => false,
            };
            here || walk(&event.children, bail, parses)
        })
    }
    walk(&trace.events, bail, &mut 0)
}

/// Optimises, verifies and compares; on a difference, tells which pass makes it.
pub(crate) fn check(
    pipeline: &Pipeline,
    contents: &Contents,
    options: Options,
    packets: &[(u32, Vec<u8>)],
    what: &str,
) {
    let run = |options: Options| {
        let optimised = opt::optimise(pipeline.program(), contents, &options);
        verify(&optimised, what);
        (compare(pipeline, &optimised, options.bail, packets), optimised)
    };
    let (Some(difference), optimised) = run(options) else { return };
    let mut culprits = Vec::new();
    for pass in Options::PASSES {
        let mut without = options;
        without.set(pass, false);
        if run(without).0.is_none() {
            culprits.push(*pass);
        }
    }
    let mut after = Pipeline::new(Arc::new(optimised.program.clone())).unwrap();
    for (id, action) in &optimised.actions {
        let _ = after.transact(&[ir::Update::AddAction(*id, action.clone())]);
    }
    panic!(
        "{what}: {options:?}\nnot without any of {culprits:?}\n{difference}\n{}\n== rewritten ==\n{}",
        ir::text::print_pipeline(pipeline),
        ir::text::print_pipeline(&after),
    );
}
