//! The oracle: the interpreter on a pipeline, and on the same with its program rewritten.

#![allow(dead_code, reason = "each test uses a part of it")]

use interp::{Collect, Externs, Input, Machine, MemoryExterns, Start, Trace, View, trace};
use ir::{
    Action, ActionCall, ActionId, Bits, Entry, Group, GroupId, Pipeline, Program, Select, TableId,
    ValueSetId, Verdict,
};
use opt::unroll::{copied_action, original_table};
use opt::{Bail, Contents, Optimised, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pipeline whose program and actions were rewritten.
pub(crate) struct Rewritten<'a> {
    pipeline: &'a Pipeline,
    program: Arc<Program>,
    actions: BTreeMap<ActionId, Arc<Action>>,
    /// By table of a copy: what its entries do, and what a miss does.
    copied: BTreeMap<TableId, (Vec<Entry>, ActionCall)>,
}

impl<'a> Rewritten<'a> {
    pub(crate) fn new(pipeline: &'a Pipeline, by: &Optimised) -> Rewritten<'a> {
        let tables = pipeline.program().tables.len();
        let mut copied = BTreeMap::new();
        for table in (tables..by.program.tables.len()).map(|at| TableId(at as u32)) {
            let own = |call: &ActionCall| ActionCall {
                action: copied_action(call.action, table, tables),
                args: call.args.clone(),
            };
            let held = pipeline.entries(original_table(table, tables));
            let entry = |e: &Arc<Entry>| Entry { action: own(&e.action), ..Entry::clone(e) };
            copied.insert(table, (held.iter().map(entry).collect(), own(held.default())));
        }
        let (program, actions) = (Arc::new(by.program.clone()), by.actions.clone());
        Rewritten { pipeline, program, actions, copied }
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
        let tables = self.pipeline.program().tables.len();
        let found = View::lookup(self.pipeline, original_table(table, tables), key)?;
        match self.copied.get(&table) {
            Some((entries, _)) => entries.iter().find(|entry| entry.id == found.id),
            None => Some(found),
        }
    }

    fn default_action(&self, table: TableId) -> &ActionCall {
        match self.copied.get(&table) {
            Some((_, default)) => default,
            None => View::default_action(self.pipeline, table),
        }
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
    /// How many tables the pipeline has.
    tables: usize,
    pub(crate) externs: MemoryExterns,
}

impl Lane {
    pub(crate) fn new(pipeline: &Pipeline, seed: u64) -> Lane {
        let mut externs = MemoryExterns::new(pipeline.program());
        externs.seed = seed;
        for (id, meter) in pipeline.meters() {
            externs.set_meter(id, Some(meter));
        }
        Lane { machine: Machine::new(), tables: pipeline.program().tables.len(), externs }
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
        // What copies of a table count is the table's.
        let mut tables: BTreeMap<TableId, (u64, u64)> = BTreeMap::new();
        for (table, (hits, misses)) in &e.tables {
            let of = tables.entry(original_table(*table, self.tables)).or_default();
            (of.0, of.1) = (of.0 + hits, of.1 + misses);
        }
        let counts = format!(
            "{:?} {:?} {:?} {:?} {:?} {}",
            tables, e.entries, e.counters, e.arrays, e.registers, e.seed
        );
        Shown { verdict, collect, counts }
    }
}

/// The rewritten program obeys the verifier.
pub(crate) fn verify(optimised: &Optimised, what: &str) {
    let mut program = optimised.program.clone();
    if program.tables.iter().any(|table| table.name.contains('@')) {
        // Copies of tables name actions of the pipeline, but do what the copies of these do.
        program.actions.iter_mut().for_each(|action| Arc::make_mut(action).body.clear());
    }
    if let Err(error) = ir::verify::program(&program) {
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
    let laid = optimised.program.tables.len() > pipeline.program().tables.len();
    let (mut old, mut new) = (Lane::new(pipeline, 7), Lane::new(pipeline, 7));
    for (i, (in_port, bytes)) in packets.iter().enumerate() {
        let now_ns = 1_000_000 * i as u64;
        if bail != Bail::default() {
            // What bails is run by the interpreter alone, and must not be counted twice.
            let mut trace = Trace::new();
            let mut probe = Lane::new(pipeline, 7);
            probe.externs = old.externs.clone();
            probe.run(pipeline, bytes, *in_port, now_ns, Some(&mut trace));
            let mut left = Bail { calls: bail.calls && !laid, ..bail };
            if bails(&trace, left) {
                continue;
            }
            if laid {
                // A call that is left is where the packet is given up.
                let mut trace = Trace::new();
                let mut probe = Lane::new(pipeline, 7);
                probe.externs = new.externs.clone();
                probe.run(&rewritten, bytes, *in_port, now_ns, Some(&mut trace));
                left.calls = bail.calls;
                if bails(&trace, left) {
                    continue;
                }
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
    fn walk(events: &[trace::Event], bail: Bail, copied: bool, parses: &mut u32) -> bool {
        events.iter().any(|event| {
            let on_copy = event.kind == trace::Kind::Clone && event.text.starts_with("on_copy");
            let here = match event.kind {
                trace::Kind::Group => bail.groups,
                trace::Kind::Clone if event.text.starts_with("clone ") => bail.clones,
                trace::Kind::Clone if on_copy => bail.copies,
                trace::Kind::Clone => bail.calls,
                trace::Kind::Pass => bail.passes,
                trace::Kind::Parse => {
                    *parses += u32::from(event.text.starts_with("parse "));
                    bail.reparses && *parses > 1
                }
                trace::Kind::Op if event.text.starts_with("service ") => {
                    bail.services || copied && bail.copied_services
                }
                trace::Kind::Drop => event.text.contains("recirculation_limit"),
                _ => false,
            };
            here || walk(&event.children, bail, copied || on_copy, parses)
        })
    }
    walk(&trace.events, bail, false, &mut 0)
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
