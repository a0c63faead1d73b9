//! A replica: what it takes to forward by a version.
//!
//! A [`Replica`] is the program, an index per table ([`classify::Table`]), action records, entries, groups, meters, and
//! perhaps compiled code, which looks tables up in these same indexes ([`compiled`](crate::compiled)). The interpreter engine
//! (module `engine`) keeps two of them; the compiling engine builds on that.
//!
//! Cost: an update, two index edits; a lookup, evaluating the used key fields and one index lookup.
//! Checked by: `tests/replica.rs`, which compares every verdict with the interpreter on the plain
//! [`ir::Pipeline`] (linear scan) under random updates.

mod engine;
mod index;
mod step;
mod structures;
mod tree;
mod view;

pub use self::engine::InterpEngine;
use self::structures::Planning;
pub(crate) use self::structures::{RebuildInput, Replacement, StructureChoice};

use self::index::Index;
use self::step::{Step, TOGETHER};
use crate::compiled::Code;
use crate::counts::Counts;
use crate::engine::{Forward, Scratch};
use crate::externs::Calls;
use crate::meter::LiveMeter;
use crate::program_state::ProgramState;
use crate::records::Records;
use crate::samples::EVERY;
use crate::tally::{Ran, Reason, Tally};
use classify::{Hit, Kind, Rule};
use hashbrown::HashMap;
use interp::{Externs, Input, Sink, Trace};
use ir::{Action, ActionId, Entry, Group, GroupId, MeterId, Program, Select, TableId, Verdict};
use plan::Model;
use plan::choose::{self, TablePlan};
use smallvec::SmallVec;
use std::sync::Arc;

/// One of the two replicas.
pub struct Replica {
    version: u64,
    program: Arc<Program>,
    state: Arc<ProgramState>,
    tables: Vec<Index>,
    actions: HashMap<ActionId, Arc<Action>>,
    groups: HashMap<GroupId, Arc<Group>>,
    /// The same for compiled code.
    chunks: jit::Groups,
    meters: HashMap<MeterId, Arc<LiveMeter>>,
    value_sets: Vec<Vec<Select>>,
    forced: Option<Kind>,
    tally: Arc<Tally>,
    /// Why packets are interpreted if there is no code.
    without: Reason,
    /// Code that fits what the tables hold.
    code: Option<Arc<Code>>,
    /// By node of the code, where it is looked up.
    looked_up: Vec<Place>,
    /// Code that runs what that code leaves; it has all actions.
    whole: Option<Arc<jit::whole::Code>>,
    /// Tables are to have trees for it.
    trees: bool,
}

/// Where a node's lookups go.
#[derive(Clone, Copy)]
struct Place {
    /// The table, if it can be looked up as the code does it, else `NOWHERE`.
    table: u32,
    /// The number of one of its parts, else `NOWHERE`: the table's own index.
    part: u32,
}

impl Replica {
    fn new(
        program: Arc<Program>,
        state: Arc<ProgramState>,
        forced: Option<Kind>,
        stamp: u64,
        (tally, without): (Arc<Tally>, Reason),
    ) -> Replica {
        Replica {
            version: 0,
            tables: program.tables.iter().map(|t| Index::new(t, forced, stamp)).collect(),
            actions: HashMap::new(),
            groups: HashMap::new(),
            chunks: jit::Groups::default(),
            meters: HashMap::new(),
            value_sets: vec![Vec::new(); program.value_sets.len()],
            forced,
            tally,
            without,
            code: None,
            looked_up: Vec::new(),
            whole: None,
            trees: false,
            state,
            program,
        }
    }

    /// Follows steps in order. What they change lies anywhere in memory: a handful of steps asks for
    /// it together, so that they wait once.
    fn follow_all(&mut self, steps: &[Step]) {
        for steps in steps.chunks(TOGETHER) {
            // Tables of a program that comes with these steps are not there yet.
            let changed = || {
                let changed = steps.iter().filter_map(Step::changes);
                changed.filter_map(|(table, id)| Some((self.tables.get(table.index())?, id.0)))
            };
            for (index, id) in changed() {
                index.table.touch(id);
                if let Some(held) = index.entries.get(id) {
                    classify::prefetch(&*held.entry);
                }
            }
            // Entries that come lie side by side, mostly.
            let inserted = |step: &Step| step.inserts().map(|(table, _)| table);
            for run in steps.chunk_by(|a, b| inserted(a) == inserted(b)) {
                let Some(table) = inserted(&run[0]) else { continue };
                if let (Some(index), true) = (self.tables.get(table.index()), run.len() > 1) {
                    index.expect(run.iter().filter_map(|step| Some(step.inserts()?.1)));
                }
            }
            // The last to let go of an entry goes through all that it owns.
            for (index, id) in changed() {
                if let Some(held) = index.entries.get(id) {
                    held.entry.matches.first().into_iter().for_each(classify::prefetch);
                    held.entry.action.args.first().into_iter().for_each(classify::prefetch);
                }
            }
            steps.iter().for_each(|step| self.follow(step));
        }
    }

    fn follow(&mut self, step: &Step) {
        fn set<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: Option<V>) {
            match value {
                Some(v) => map.insert(key, v),
                None => map.remove(&key),
            };
        }
        match step {
            Step::Insert(t, entry, seq) => {
                self.tables[t.index()].insert(&self.program.tables[t.index()], entry, *seq);
            }
            Step::Modify(t, entry) => {
                self.tables[t.index()].modify(&self.program.tables[t.index()], entry);
            }
            Step::Delete(t, id) => {
                self.tables[t.index()].remove(&self.program.tables[t.index()], id.0);
            }
            Step::Clear(t) => self.tables[t.index()].clear(&self.program.tables[t.index()]),
            Step::SetDefault(t, call) => self.tables[t.index()].set_default(call),
            Step::Serve(t, served) => self.tables[t.index()].serve(served),
            Step::Adopt(t, beside) => {
                self.tables[t.index()].adopt(&self.program.tables[t.index()], beside)
            }
            Step::SetAction(id, None) => {
                // Only what is not used is removed, so only those tables know it that have used it.
                self.actions.remove(id);
                self.tables.iter_mut().for_each(|index| index.records.retire(*id));
                self.chunks.retire(*id);
            }
            Step::SetAction(id, action) => set(&mut self.actions, *id, action.clone()),
            Step::SetGroup(id, group) => {
                set(&mut self.groups, *id, group.clone());
                self.chunks.set(*id, group.as_ref());
            }
            Step::SetMeter(id, meter) => set(&mut self.meters, *id, meter.clone()),
            Step::SetValueSet(id, members) => self.value_sets[id.index()] = members.clone(),
            Step::SetProgram(program, state, stamp) => {
                let counts = (self.tally.clone(), self.without);
                let state = state.clone();
                *self = Replica::new(program.clone(), state, self.forced, *stamp, counts)
            }
            Step::Version(version) => self.version = *version,
        }
    }
}

/// What the compiling engine asks of it.
impl Replica {
    /// Key positions that a table's packed key holds.
    pub(crate) fn columns(&self, table: TableId) -> &[u16] {
        &self.tables[table.index()].used
    }

    /// Action records of a table.
    pub(crate) fn records(&self, table: TableId) -> &Records {
        &self.tables[table.index()].records
    }

    /// Groups, as compiled code sees them.
    pub(crate) fn chunks(&self) -> &jit::Groups {
        &self.chunks
    }

    /// Entries in a table.
    pub(crate) fn len(&self, table: TableId) -> usize {
        self.tables[table.index()].entries.len()
    }

    /// What a table holds.
    pub(crate) fn contents(&self, table: TableId) -> opt::TableContents {
        let index = &self.tables[table.index()];
        let mut actions: Vec<ActionId> = Vec::new();
        let mut only = None;
        if !index.entries.is_empty() {
            let entries = index.entries.values();
            actions = index.records.of_entries().collect();
            actions.sort_unstable();
            if index.entries.len() == 1 {
                only = entries.map(|held| held.entry.action.clone()).next();
            }
        }
        opt::TableContents {
            entries: index.entries.len(),
            columns: index.used.clone(),
            actions,
            only,
            default: index.default.clone(),
        }
    }

    /// A table's entries, best first, as the pipeline has them.
    pub(crate) fn entries_in_order(&self, table: TableId) -> Vec<Arc<Entry>> {
        let index = &self.tables[table.index()];
        let entries = index.in_order(&self.program.tables[table.index()]);
        entries.into_iter().cloned().collect()
    }

    /// A table's entries, best first.
    pub(crate) fn direct_entries(&self, table: TableId) -> Vec<jit::DirectEntry> {
        let index = &self.tables[table.index()];
        let entries = index.in_order(&self.program.tables[table.index()]);
        let direct = |e: &Arc<Entry>| jit::DirectEntry {
            entry: e.id,
            matches: e.matches.clone(),
            call: e.action.clone(),
        };
        entries.into_iter().map(direct).collect()
    }

    /// How a table is best looked up by what it holds now.
    pub(crate) fn plan(
        &self,
        table: TableId,
        model: &Model,
        options: &choose::Options,
    ) -> Option<TablePlan> {
        self.planning(table, model, options).possible(&self.tables[table.index()].table)
    }

    /// The same, to be found elsewhere of a copy of its rules. `general`: if nothing is better, the general form is to be
    /// arranged anew.
    pub(crate) fn planned(
        &self,
        table: TableId,
        model: &Model,
        options: &choose::Options,
        general: bool,
    ) -> StructureChoice {
        StructureChoice::Planned(Arc::new(self.planning(table, model, options)), general)
    }

    fn planning(&self, table: TableId, model: &Model, options: &choose::Options) -> Planning {
        let at = table.index();
        self.tables[at].planning(&self.program.tables[at], model, options)
    }

    /// What serves a table.
    pub(crate) fn kind(&self, table: TableId) -> Kind {
        self.tables[table.index()].table.kind()
    }

    /// What serves a table for packets that run one at a time.
    pub(crate) fn kind_for_one(&self, table: TableId) -> String {
        match self.tables[table.index()].tree.get() {
            Some(_) => "a decision tree".to_string(),
            None => self.kind(table).to_string(),
        }
    }

    /// How the general form holds a table's entries, if it does.
    pub(crate) fn accounting(&self, table: TableId) -> Option<String> {
        self.tables[table.index()].accounting()
    }

    /// Keys of a table that traffic has brought, how many ever, and what looking one up takes, counted, if a
    /// general form serves.
    pub(crate) fn measured(&self, table: TableId) -> (usize, Option<f64>) {
        let index = &self.tables[table.index()];
        let keys = index.traffic();
        let ns = match index.table.kind().is_general() && !keys.is_empty() {
            true => index.table.ns(&mut keys.iter().map(|key| &**key)),
            false => None,
        };
        (index.samples.noted(), ns)
    }

    /// What another structure for a table is made of.
    pub(crate) fn wanted(&self, table: TableId, served: StructureChoice) -> RebuildInput {
        let index = &self.tables[table.index()];
        let (keys, over) = (index.traffic(), index.over());
        RebuildInput { served, table: index.table.snapshot(), keys, over }
    }

    /// What these entries of a table are now, as its structures know them.
    pub(crate) fn rules_now(&self, table: TableId, ids: &[u32]) -> Vec<(u32, Option<Rule>)> {
        let index = &self.tables[table.index()];
        let of = &self.program.tables[table.index()];
        let now = |&id: &u32| (id, index.entries.get(id).map(|held| index.rule(of, held)));
        ids.iter().map(now).collect()
    }

    /// A kind of structure is forced on the tables, and serves this one.
    pub(crate) fn is_forced(&self, table: TableId) -> bool {
        self.tables[table.index()].forced.is_some()
    }

    /// Bytes that a table's lookups go through.
    pub(crate) fn memory_bytes(&self, table: TableId) -> usize {
        let index = &self.tables[table.index()];
        let parts: usize = index.parts.iter().map(|part| part.table.memory_bytes()).sum();
        let tree = index.tree.memory_bytes();
        index.table.memory_bytes() + parts + tree + index.records.memory_bytes()
    }

    /// Entries that may match where this is known look at no other fields than the view has.
    pub(crate) fn holds(&self, table: TableId, view: &opt::View) -> bool {
        let index = &self.tables[table.index()];
        match index.parts.iter().find(|part| part.view == *view) {
            Some(part) => part.others.is_empty(),
            None => view.holds(&self.entries_in_order(table)),
        }
    }

    /// Entries of the part of a table that a node of the code looks up, and what serves them.
    pub(crate) fn part(&self, node: usize) -> Option<(usize, Kind)> {
        let place = self.looked_up.get(node)?;
        let part = self.tables.get(place.table as usize)?.parts.get(place.part as usize)?;
        Some((part.table.len(), part.table.kind()))
    }

    /// Forwards by this code from now on, as far as the tables allow.
    pub(crate) fn bind(&mut self, code: Option<Arc<Code>>) {
        self.looked_up.clear();
        if let Some(code) = &code {
            let nodes = || code.unit.nodes.iter().zip(&code.views);
            for (at, index) in self.tables.iter_mut().enumerate() {
                let own = nodes().filter(|(node, _)| node.table.index() == at);
                let views: Vec<&opt::View> = own.filter_map(|(_, view)| view.as_ref()).collect();
                if !(views.is_empty() && index.parts.is_empty()) {
                    index.keep(&self.program.tables[at], &views);
                }
            }
            let place = |(node, view): (&jit::NodeSpec, &Option<opt::View>)| {
                let index = &self.tables[node.table.index()];
                let part = view.as_ref().map(|view| {
                    let at = index.parts.iter().position(|part| part.view == *view);
                    at.filter(|at| index.parts[*at].others.is_empty())
                });
                let serves = match part {
                    None => index.used == node.columns && index.unindexed.is_empty(),
                    Some(part) => part.is_some(),
                };
                let fits = serves && index.records.stride() as u32 == node.record_words;
                let table = if fits { node.table.0 } else { NOWHERE };
                Place { table, part: part.flatten().map_or(NOWHERE, |at| at as u32) }
            };
            self.looked_up.extend(nodes().map(place));
        }
        self.code = code;
    }

    /// Runs packets by this code from now on.
    pub(crate) fn bind_whole(&mut self, code: Option<Arc<jit::whole::Code>>) {
        // Code that is lacking for a moment will be back.
        if code.is_some() && !self.trees {
            self.trees = true;
            for (index, table) in self.tables.iter_mut().zip(&self.program.tables) {
                index.want_tree(table, true);
            }
        }
        self.whole = code;
    }
}

/// No table, or no part of one.
const NOWHERE: u32 = u32::MAX;

/// Compiled code's lookups at its nodes.
struct Nodes<'a> {
    replica: &'a Replica,
    /// A key of each lookup is noted: this one, counted around.
    noted: Option<u32>,
    /// Which ports are live.
    live: &'a abi::Live,
    /// Where packets may be dealt to.
    ways: abi::Ways<'a>,
}

impl Nodes<'_> {
    #[inline(always)]
    fn index(&self, node: usize) -> Option<&Index> {
        self.replica.tables.get(self.replica.looked_up[node].table as usize)
    }

    /// What of an index a node looks up.
    #[inline(always)]
    fn table<'i>(&self, index: &'i Index, node: usize) -> &'i classify::Table {
        let part = index.parts.get(self.replica.looked_up[node].part as usize);
        part.map_or(&index.table, |part| &part.table)
    }

    /// Notes a key of a lookup of so many.
    #[cold]
    fn note(
        &self,
        at: u32,
        node: impl Fn(usize) -> usize,
        keys: &[u8],
        stride: usize,
        count: usize,
    ) {
        let at = at as usize % count.max(1);
        if let Some(index) = self.index(node(at))
            && self.replica.looked_up[node(at)].part == NOWHERE
            && let Some(key) = keys.get(at * stride..(at + 1) * stride)
        {
            index.samples.note(key);
        }
    }
}

impl jit::Tables for Nodes<'_> {
    #[inline]
    fn lookup(&self, node: usize, keys: &[u8], stride: usize, hits: &mut [Hit]) -> bool {
        let index = self.index(node);
        if let Some(at) = self.noted {
            self.note(at, |_| node, keys, stride, hits.len());
        }
        if let Some(index) = index {
            self.table(index, node).lookup_burst(keys, stride, hits);
        }
        index.is_some()
    }

    #[inline]
    fn lookup_mixed(
        &self,
        nodes: &[u32],
        of: &[u8],
        keys: &[u8],
        stride: usize,
        hits: &mut [Hit],
    ) -> bool {
        if let Some(at) = self.noted {
            self.note(at, |at| nodes[usize::from(of[at])] as usize, keys, stride, hits.len());
        }
        let mut tables: SmallVec<[&classify::Table; abi::BURST_MAX]> = SmallVec::new();
        for node in nodes {
            let Some(index) = self.index(*node as usize) else { return false };
            tables.push(self.table(index, *node as usize));
        }
        classify::lookup_mixed(&tables, of, keys, stride, hits);
        true
    }

    #[inline]
    fn records(&self, node: usize) -> &[u64] {
        self.index(node).map_or(&[], |index| index.records.words())
    }

    #[inline]
    fn groups(&self) -> abi::Groups<'_> {
        self.replica.chunks.view(self.live)
    }

    #[inline]
    fn ways(&self) -> abi::Ways<'_> {
        self.ways
    }
}

impl Forward for Replica {
    fn version(&self) -> u64 {
        self.version
    }

    fn state(&self) -> &Arc<ProgramState> {
        &self.state
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn reason(&self, bail: u32) -> Reason {
        self.code.as_ref().map_or(self.without, |code| code.reason(bail))
    }

    fn meter(&self, meter: MeterId) -> Option<&LiveMeter> {
        self.meters.get(&meter).map(|m| &**m)
    }

    fn burst(
        &self,
        scratch: &mut Scratch,
        packets: &mut [abi::Packet<'_>],
        counts: &mut Counts<'_>,
        now_ns: u64,
    ) {
        match &self.code {
            Some(code) => {
                scratch.bursts = scratch.bursts.wrapping_add(1);
                let noted =
                    (scratch.bursts.is_multiple_of(EVERY)).then_some(scratch.bursts / EVERY);
                let nodes = Nodes { replica: self, noted, live: counts.live, ways: counts.ways };
                let counters = counts.counters();
                let mut calls = Calls { program: &self.program, forward: self, counts };
                let scratch = &mut scratch.code;
                code.compiled.run(&nodes, counters, &mut calls, scratch, packets, now_ns);
            }
            None => {
                scratch.code.forget();
                packets.iter_mut().for_each(|packet| packet.bail(0));
            }
        }
    }

    fn run(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> Verdict {
        if let Some(code) = &self.whole
            && let Some(verdict) = scratch.whole.run(code, self, input, externs, sink)
        {
            scratch.ran = Ran::Whole;
            return verdict;
        }
        scratch.machine.run(self, input, externs, sink, None)
    }

    fn trace(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> (Verdict, Trace) {
        let mut trace = Trace::default();
        let verdict = scratch.machine.run(self, input, externs, sink, Some(&mut trace));
        (verdict, trace)
    }
}
