//! The compiling engine: the interpreter engine's replicas, with machine code for them.
//!
//! The tables, their indexes and the publication of versions are those of
//! [`replica`](crate::replica). On top of them, each published snapshot may carry [`Code`]: a
//! program optimised for what its tables hold, compiled. Code looks tables up in the snapshot's own
//! indexes, so most updates do not concern it at all: they edit the indexes in place. Before each
//! publication [`Code::fit`] decides:
//!
//! - *fits*: the code forwards by the new version as it is;
//! - *slower*: it is right, but packets that meet what it does not know (an action, a key field) bail
//!   out to the interpreter, so better code is wanted;
//! - *broken*: something that is part of the code has changed (an entry of a `direct_code` table, a
//!   default action, the first entry of an empty table, a value set, the program), or an entry does
//!   what only misses did when the code was made.
//!
//! What is wanted is compiled at once, before the publication, while compiling takes little time in
//! all ([`Budget`]): workers go on by the old version meanwhile. Else, and while so little traffic comes that it need
//! not run in bursts ([`LIGHT_WHOLE`]; [`LIGHT`], where the interpreter would run it), the snapshot goes out with what
//! fits, at worst with no code, so that packets run one at a time, and the code is made on a
//! control core ([`Engine::job`]) and published when it is done. What runs them one at a time is code of whole programs
//! (module `whole`), which does not depend on entries. A table that changes often is not
//! compiled into the code but looked up in its index, until it has been quiet. Which structure that index should be
//! is thought over when the table has been quiet; where a general form serves, also when an eighth of it has changed, or
//! when lookups of the keys that workers have sampled ([`samples`](crate::samples)) have come to take longer than
//! they did. The other structure is then made on a control core (module `rearrange`).
//!
//! What follows a service is compiled as a copy of the pipeline ([`opt::unroll`]), in which a table may be a
//! few entries that are part of the code, while it is looked up in its index elsewhere. Such code is broken when
//! what is left of the table there has changed, and not when other entries have. Where more is left, but of fewer key fields,
//! it is looked up in an index of that alone ([`opt::View`]), which follows updates as the table's own does.
//!
//! Groups are data ([`jit::Groups`]): a group-mod that has buckets do what some did before edits that.
//!
//! Invariants: code is bound to a replica only after `fit` was asked with that replica's contents;
//! both replicas see the same steps, so variants and columns agree between them. The body that code
//! has for an action is right for those tables alone that ran it when the code was made: it may hold
//! the arguments of those calls as constants, and what held where they were.
//! Cost: an update that fits, a look at its table's summary; compiling, see `docs/performance.md`.
//! Checked by: `tests/differential`, `tests/compiled.rs`, `tests/filetests.rs`.

mod code;
mod compile;
mod explain;
mod options;
mod pace;

pub use self::code::Code;
pub use self::options::{DIRECT_MAX, Options, Template};

use self::compile::{Input, TableFacts};
use self::options::DIRECT_FORCED_MAX;
use self::pace::{Budget, Churn};
use crate::engine::{Done, Engine, Forward, Job, TableExplanation};
use crate::rearrange::{Next, Rearrangement};
use crate::records::RETIRED;
use crate::replica::{InterpEngine, Replacement, Replica, StructureChoice};
use crate::tally::Reason;
use crate::whole::{Made, Whole};
use classify::Kind;
use ir::{Action, ActionId, Pipeline, Program, Select, TableId, Update};
use opt::Contents;
use plan::choose::{self, TablePlan};
use state::counters::CounterArena;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tables of more entries are looked up whole in copies of the pipeline, too: what is left of one is looked for by
/// looking at all of its entries.
const NARROW_MAX: usize = 4096;
/// A table that has changed so often since it was last quiet does not become code.
const CHANGES_MAX: u32 = 4;
/// So few packets a second the interpreter runs beside all else, at some microseconds each.
const LIGHT: u64 = 20_000;
/// So few a second and worker the code of whole programs runs beside all else, at a fraction of a microsecond each.
const LIGHT_WHOLE: u64 = 1_500_000;
/// How much longer a lookup may take, by what traffic of now has been measured to take, before another arrangement
/// is looked for.
const WORSE: f64 = 1.25;
/// Keys of traffic that are enough to judge by.
const TRAFFIC_MIN: usize = 64;
/// Entries of a table that is planned while updates wait, at most: a fraction of a millisecond's worth.
const PLANNED_AT_ONCE_MAX: usize = 256;

/// Whether code can serve a version.
enum Fit {
    Fits,
    Slower(String),
    Broken(String),
}

type Outcome = (Result<Code, jit::Error>, jit::Cache);

/// What came of rearranging a table.
struct Rearranged {
    /// The number of its [`Rearrangement`].
    number: u64,
    /// None if there is nothing to gain.
    made: Option<Replacement>,
    took: Duration,
}

/// The compiling engine.
pub struct JitEngine {
    replicas: InterpEngine,
    options: Options,
    program: Arc<Program>,
    actions: BTreeMap<ActionId, Arc<Action>>,
    value_sets: Vec<Vec<Select>>,
    epoch: u64,
    /// A program was set since code was chosen last.
    new_program: bool,
    churn: Vec<Churn>,
    /// Tables touched since the last publication, each once.
    touched: Vec<TableId>,
    /// What the snapshot published last runs by.
    code: Option<Arc<Code>>,
    /// Made on a control core, not published yet.
    ready: Option<Arc<Code>>,
    /// Why other code is wanted.
    wanted: Option<String>,
    /// Why the last compilation failed; not tried again until something changes.
    failed: Option<String>,
    /// A table that is getting another structure.
    rearranging: Option<Rearrangement>,
    /// How many tables have been.
    rearrangements: u64,
    /// With whoever compiles in the background, if there is none.
    cache: Option<jit::Cache>,
    compiling: bool,
    /// Code for packets that the code of bursts leaves.
    whole: Whole,
    budget: Budget,
    /// Packets that have come in lately, a second.
    traffic: u64,
    /// When tables were last looked at for having become quiet.
    checked: Instant,
}

impl JitEngine {
    /// An engine that forwards by version 0 of this program, and its first snapshot. Without an
    /// interface to this processor, it says so.
    pub fn new(
        program: Arc<Program>,
        workers: usize,
        arena: Arc<CounterArena>,
        options: Options,
    ) -> Result<(JitEngine, Arc<dyn Forward>), jit::Error> {
        let (mut replicas, _) =
            InterpEngine::without_code(program.clone(), workers, arena, Reason::NO_CODE);
        if let Some(Template::Index(kind)) = options.template
            && kind != Kind::Decomposed
        {
            replicas.force(kind);
        }
        let whole = Whole::new(options.whole.then_some(options.code.settings));
        let mut engine = JitEngine {
            replicas,
            options,
            actions: BTreeMap::new(),
            value_sets: Vec::new(),
            epoch: 0,
            new_program: false,
            churn: Vec::new(),
            touched: Vec::new(),
            code: None,
            ready: None,
            wanted: None,
            failed: None,
            rearranging: None,
            rearrangements: 0,
            cache: Some(jit::Cache::default()),
            compiling: false,
            whole,
            budget: Budget::new(),
            traffic: u64::MAX,
            checked: Instant::now(),
            program: program.clone(),
        };
        engine.set_program(program);
        let code = engine.compile_now().map(Arc::new)?;
        engine.code = Some(code);
        // The first program has its code.
        engine.new_program = false;
        let first = engine.publish(&|| {});
        Ok((engine, first))
    }

    /// The code that the snapshot published last runs by, if it has some.
    pub fn code(&self) -> Option<&Arc<Code>> {
        self.code.as_ref()
    }

    /// From now on, and until something has been compiled, nothing is compiled while a transaction waits.
    pub fn spend_budget(&mut self) {
        // More than is ever saved up, however long it takes until the transaction comes.
        self.budget.expected = Duration::MAX;
    }

    fn set_program(&mut self, program: Arc<Program>) {
        let actions = program.actions.iter().zip(0..).map(|(a, id)| (ActionId(id), a.clone()));
        self.actions = actions.collect();
        self.value_sets = vec![Vec::new(); program.value_sets.len()];
        let (at, ns) = (Instant::now(), None);
        let activity = Churn { changes: 0, recent: 0, arranged: 0, ns, after: at, at };
        self.churn = vec![activity; program.tables.len()];
        self.rearranging = None;
        self.touched.clear();
        self.epoch += 1;
        self.program = program;
        self.new_program = true;
        self.whole.forget();
    }

    fn touch(&mut self, table: TableId) {
        self.churn[table.index()].touch();
        if !self.touched.contains(&table) {
            self.touched.push(table);
        }
    }

    /// What code would be made of for a replica.
    fn input(&self, replica: &Replica) -> Input {
        let mut contents = Contents {
            tables: Vec::with_capacity(self.program.tables.len()),
            actions: self.actions.clone(),
            value_sets: self.value_sets.clone(),
            buckets: None,
        };
        let (buckets, hashes) = (replica.chunks().actions(), replica.chunks().hashes());
        contents.buckets = Some(opt::Buckets {
            actions: buckets.iter().copied().filter(|id| *id != jit::NO_ACTION).collect(),
            hashes: hashes.iter().flatten().cloned().collect(),
        });
        let mut tables = Vec::with_capacity(self.program.tables.len());
        for at in 0..self.program.tables.len() {
            let id = TableId(at as u32);
            let held = replica.contents(id);
            // What code knows of an action holds for the calls of now alone: a variant that nothing
            // uses is left to the interpreter.
            let used = |id: ActionId| id == held.default.action || held.actions.contains(&id);
            let variant = |id| if used(id) { id } else { RETIRED };
            tables.push(TableFacts {
                columns: replica.columns(id).to_vec(),
                variants: replica.records(id).variants().map(variant).collect(),
                stride: replica.records(id).stride() as u32,
                direct: self.is_direct(replica, id).then(|| replica.direct_entries(id)),
            });
            contents.tables.push(held);
        }
        // In copies of the pipeline, if there are some, forced templates hold.
        let narrows = matches!(self.options.template, None | Some(Template::DirectCode))
            && opt::unroll::may(&self.program, &contents);
        let mut restless = Vec::new();
        let mut entries = opt::Entries::new();
        let all = (0..self.program.tables.len() as u32).map(TableId);
        for id in all.filter(|id| narrows && (1..=NARROW_MAX).contains(&replica.len(*id))) {
            match self.is_calm(id) {
                true => drop(entries.insert(id, replica.entries_in_order(id))),
                false => restless.push(id),
            }
        }
        Input {
            program: self.program.clone(),
            contents,
            tables,
            buckets,
            hashes,
            entries,
            restless,
            changes: self.churn.iter().map(|w| w.changes).collect(),
            epoch: self.epoch,
            passes: self.options.passes,
            options: self.options.code,
            tally: self.replicas.tally().clone(),
        }
    }

    /// The table's entries are to become code.
    fn is_direct(&self, replica: &Replica, table: TableId) -> bool {
        let entries = replica.len(table);
        match self.options.template {
            Some(Template::DirectCode) => entries <= DIRECT_FORCED_MAX,
            // A table without entries is a default action.
            Some(Template::Index(_)) => entries == 0,
            None if entries == 0 => true,
            None => entries <= self.options.direct_max && self.is_calm(table),
        }
    }

    /// The table does not change often.
    fn is_calm(&self, table: TableId) -> bool {
        let activity = &self.churn[table.index()];
        let calm = activity.recent <= CHANGES_MAX || activity.at.elapsed() >= self.options.quiet;
        calm || self.options.synchronous
    }

    fn compile_now(&mut self) -> Result<Code, jit::Error> {
        let input = self.input(self.replicas.following());
        let mut cache = self.cache.take().unwrap_or_default();
        let start = Instant::now();
        let code = input.compile(&mut cache);
        self.budget.spend(start.elapsed());
        if !self.compiling {
            self.cache = Some(cache);
        }
        code
    }

    /// Whether code can serve what the following replica holds.
    fn fit(&self, code: &Code) -> Fit {
        if code.epoch != self.epoch {
            return Fit::Broken("the program or a value set has changed".to_string());
        }
        let mut slower = None;
        let replica = self.replicas.following();
        if code.groups && !code.knows(replica.chunks()) {
            slower = Some("groups do what is new to them".to_string());
        }
        for (node, view) in code.unit.nodes.iter().zip(&code.views) {
            let table = node.table;
            let at = table.index();
            if code.changes[at] == self.churn[at].changes {
                continue;
            }
            let name = || &self.program.tables[at].name;
            let residuals = &code.unit.program.residuals;
            if let Some(residual) = residuals.iter().find(|r| r.applied == node.applied) {
                let default = &code.contents.tables[at].default;
                let same = *default == replica.contents(table).default;
                if !(same && residual.holds(&replica.entries_in_order(table))) {
                    return Fit::Broken(format!(
                        "other entries of table {} concern what follows a service",
                        name()
                    ));
                }
                continue;
            }
            let (then, now) = (&code.contents.tables[at], replica.contents(table));
            if node.direct.is_some() {
                return Fit::Broken(format!("table {} is part of the code", name()));
            }
            if then.default != now.default {
                return Fit::Broken(format!("table {} has another default action", name()));
            }
            if then.columns.is_empty() {
                return Fit::Broken(format!("table {} had no key fields to look at", name()));
            }
            if then.only.is_some() && now.only != then.only {
                return Fit::Broken(format!("table {} does more than one thing now", name()));
            }
            let mut fresh = now.actions.iter().filter(|id| !then.actions.contains(id));
            if fresh.clone().any(|id| *id == then.default.action) {
                // Its variant is that of a miss: with those arguments, and going on from there.
                return Fit::Broken(format!("entries of table {} do what a miss does", name()));
            }
            let thinned = code.unit.program.thinned.iter().find(|t| t.applied == node.applied);
            let runs = |t: &opt::Thinned| t.holds(&replica.entries_in_order(table));
            let records = replica.records(table);
            if !thinned.is_none_or(runs) {
                slower = Some(format!("table {} does more before a service is called", name()));
            } else if !match view {
                Some(view) => replica.holds(table, view),
                None => replica.columns(table) == node.columns,
            } {
                slower = Some(format!("table {} looks at other key fields", name()));
            } else if records.stride() as u32 != node.record_words {
                slower = Some(format!("table {} has longer action records", name()));
            } else if fresh.next().is_some()
                || records.in_use().any(|(_, number)| number as usize > node.actions.len())
            {
                slower = Some(format!("table {} has an action that is new to it", name()));
            }
        }
        slower.map_or(Fit::Fits, Fit::Slower)
    }

    /// What a plan may choose for a table that is looked up in its index; none if there is nothing to plan.
    fn plannable(&self, replica: &Replica, table: TableId) -> Option<choose::Options> {
        if replica.len(table) == 0 || replica.is_forced(table) {
            return None;
        }
        let forced = self.options.template == Some(Template::Index(Kind::Decomposed));
        Some(choose::Options {
            direct_code_max: self.options.direct_max,
            decompose: self.options.decompose,
            goal: self.options.goal,
            force: forced.then_some(plan::Template::Decomposed),
            ..choose::Options::default()
        })
    }

    /// The plan of a table that is looked up in its index; none if there is nothing to plan.
    fn plan(&self, replica: &Replica, table: TableId) -> Option<TablePlan> {
        replica.plan(table, &self.options.model, &self.plannable(replica, table)?)
    }

    /// The structure that serves a table best, if it is another one than serves it now.
    fn replan(&self, replica: &Replica, table: TableId) -> Option<StructureChoice> {
        StructureChoice::of_plan(self.plan(replica, table)?, replica.kind(table))
    }

    /// The same, while others wait: large tables take their time, and are planned where nobody does.
    fn replan_soon(&mut self, table: TableId) -> Option<StructureChoice> {
        let replica = self.replicas.serving();
        if replica.len(table) <= PLANNED_AT_ONCE_MAX {
            return self.replan(replica, table);
        }
        let options = self.plannable(replica, table)?;
        let general = self.may_gain(table);
        Some(self.replicas.serving().planned(table, &self.options.model, &options, general))
    }

    /// Whether a table that a general form serves may gain by another arrangement: much of it has changed, or
    /// lookups of the traffic of now take longer than was measured when it was last looked into.
    fn may_gain(&mut self, table: TableId) -> bool {
        let replica = self.replicas.serving();
        let activity = &self.churn[table.index()];
        let now = Instant::now();
        if !replica.kind(table).is_general() || replica.is_forced(table) || now < activity.after {
            return false;
        }
        let many = activity.changes - activity.arranged > replica.len(table) as u64 / 8;
        let (keys, ns) = replica.measured(table);
        let ns = ns.filter(|_| keys >= TRAFFIC_MIN);
        let worse = match (ns, activity.ns) {
            (Some(now), Some(then)) => now > WORSE * then,
            // The first traffic since.
            (Some(_), None) => true,
            (None, _) => false,
        };
        let activity = &mut self.churn[table.index()];
        activity.after = now + 10 * self.options.quiet;
        if many || worse {
            (activity.arranged, activity.ns) = (activity.changes, ns);
        }
        many || worse
    }

    /// Decides what the next snapshot runs by.
    fn choose_code(&mut self) {
        if let Some(ready) = self.ready.take()
            && !matches!(self.fit(&ready), Fit::Broken(_))
        {
            self.code = Some(ready);
        }
        let (why, broken) = match self.code.as_deref().map(|code| self.fit(code)) {
            Some(Fit::Fits) => return,
            Some(Fit::Slower(why)) => (why, false),
            Some(Fit::Broken(why)) => (why, true),
            None => ("there is no code".to_string(), true),
        };
        // Workers go on with the old program until there is code for the new one.
        let at_once = std::mem::take(&mut self.new_program) || self.options.synchronous;
        // Whoever changes an entry then has the answer in a fraction of what compiling takes.
        let light = match self.whole.serves(&self.actions) {
            Some(_) => LIGHT_WHOLE * self.replicas.workers() as u64,
            None => LIGHT,
        };
        let waits = at_once || (self.traffic >= light && self.budget.allows());
        if self.failed.is_none() && waits {
            match self.compile_now() {
                Ok(code) => {
                    tracing::debug!(%why, us = code.compile_time.as_micros(), "compiled");
                    self.code = Some(Arc::new(code));
                    self.wanted = None;
                    return;
                }
                Err(error) => self.fail(&error),
            }
        }
        if broken {
            self.code = None;
        }
        self.wanted = Some(why);
    }

    fn fail(&mut self, error: &jit::Error) {
        tracing::error!(%error, "the pipeline cannot be compiled; the interpreter runs it");
        self.failed = Some(error.to_string());
    }

    /// Tables that have been quiet may become code, and their indexes what now serves best. A table of the general
    /// form is looked at even if it is never quiet.
    fn check_quiet(&mut self) {
        let mut busy = self.rearranging.as_ref().map(|_| ());
        for at in 0..self.churn.len() {
            let (table, activity) = (TableId(at as u32), &self.churn[at]);
            let calmed = activity.recent > 0 && activity.at.elapsed() >= self.options.quiet;
            // One at a time: the others keep until it is done.
            if busy.is_none() {
                let served = match calmed {
                    true => self.replan_soon(table),
                    false => None,
                };
                let general = || StructureChoice::Kind(Kind::TupleMerge);
                let served = served.or_else(|| self.may_gain(table).then(general));
                if let Some(served) = served {
                    self.rearrangements += 1;
                    self.rearranging = Some(Rearrangement::new(self.rearrangements, table, served));
                    busy = Some(());
                }
                if calmed {
                    self.churn[at].recent = 0;
                }
            }
        }
        let Some(code) = self.code.as_deref() else { return };
        let replica = self.replicas.serving();
        let wants = code
            .unit
            .nodes
            .iter()
            .find(|node| node.direct.is_none() && self.is_direct(replica, node.table));
        if let Some(node) = wants {
            let name = &self.program.tables[node.table.index()].name;
            self.wanted = Some(format!("table {name} has been quiet and can become code"));
        } else if let [first, ..] = &code.restless[..]
            && code.restless.iter().all(|table| self.is_calm(*table))
        {
            let name = &self.program.tables[first.index()].name;
            self.wanted = Some(format!("table {name} has been quiet: less of it may be left"));
        }
    }

    /// Makes code of whole programs while the transaction waits, if that takes little time or has to be.
    fn make_whole(&mut self) {
        let whole = &mut self.whole;
        whole.serves(&self.actions);
        if whole.wants_work() && (self.options.synchronous || whole.lacks_little(&self.actions)) {
            let made = whole.task(&self.program, &self.actions).run();
            whole.finish(made, &self.program);
        }
    }

    fn wants_code(&self) -> bool {
        self.wanted.is_some() && self.failed.is_none() && !self.compiling
    }

    /// Takes what came of rearranging a table. True: there is something better to publish.
    fn rearranged(&mut self, Rearranged { number, made, took }: Rearranged) -> bool {
        // The program may have been replaced meanwhile.
        let current = self.rearranging.as_mut().filter(|current| current.number == number);
        let Some(current) = current else { return false };
        let (table, next) = (current.table(), current.done(made));
        if let Next::Work = next {
            return false;
        }
        self.rearranging = None;
        // Whoever rearranges spends a tenth of the time at it, at most.
        let activity = &mut self.churn[table.index()];
        activity.after = activity.after.max(Instant::now() + 10 * took);
        if let Next::Adopt(beside, lacks) = next {
            activity.ns = beside.ns;
            self.replicas.adopt(table, beside, lacks);
            return true;
        }
        false
    }
}

impl Engine for JitEngine {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn apply(&mut self, pipeline: &Pipeline, updates: &[Update], now_ns: u64) {
        self.failed = None;
        for update in updates {
            if let Some(current) = &mut self.rearranging {
                match update {
                    Update::Insert(table, entry) | Update::Modify(table, entry) => {
                        (*table == current.table()).then(|| current.touch(Some(entry.id.0)));
                    }
                    Update::Delete(table, id) if *table == current.table() => {
                        current.touch(Some(id.0))
                    }
                    Update::Clear(table) if *table == current.table() => current.touch(None),
                    _ => {}
                }
            }
            if self.rearranging.as_ref().is_some_and(Rearrangement::is_stale) {
                self.rearranging = None;
            }
            match update {
                Update::Insert(t, _)
                | Update::Modify(t, _)
                | Update::Delete(t, _)
                | Update::Clear(t)
                | Update::SetDefault(t, _) => self.touch(*t),
                Update::AddAction(id, action) => {
                    self.actions.insert(*id, action.clone());
                    self.whole.changed();
                }
                Update::RemoveAction(id) => {
                    self.actions.remove(id);
                    self.whole.changed();
                }
                Update::SetValueSet(id, members) => {
                    self.value_sets[id.index()] = members.clone();
                    self.epoch += 1;
                }
                Update::SetProgram(program) => self.set_program(program.clone()),
                Update::SetGroup(id, group) => self.whole.set_group(*id, Some(group)),
                Update::RemoveGroup(id) => self.whole.set_group(*id, None),
                Update::SetMeter(..) | Update::RemoveMeter(_) => {}
            }
        }
        self.replicas.apply(pipeline, updates, now_ns);
    }

    fn is_free(&mut self) -> bool {
        self.replicas.is_free()
    }

    fn publish(&mut self, nudge: &dyn Fn()) -> Arc<dyn Forward> {
        self.replicas.catch_up(nudge);
        let now = Instant::now();
        for table in std::mem::take(&mut self.touched) {
            self.churn[table.index()].at = now;
            if self.options.synchronous
                && let Some(served) = self.replan(self.replicas.following(), table)
            {
                self.replicas.serve(table, served);
            }
        }
        self.make_whole();
        self.choose_code();
        self.replicas.bind(self.code.clone());
        let whole = self.whole.serves(&self.actions).cloned();
        self.replicas.bind_whole(whole);
        self.replicas.swap()
    }

    fn begins_with(&mut self, action: &Arc<Action>) -> bool {
        self.whole.begins_with(action);
        self.whole.wants_work() && self.whole.lacks_little(&self.actions)
    }

    fn note_traffic(&mut self, per_second: u64) {
        self.traffic = per_second;
    }

    fn settle(&mut self) -> bool {
        self.replicas.settle();
        if self.checked.elapsed() >= self.options.quiet && self.replicas.is_published() {
            self.checked = Instant::now();
            self.check_quiet();
        }
        self.ready.is_some()
    }

    fn is_settled(&self) -> bool {
        let works = self.compiling || self.ready.is_some() || self.rearranging.is_some();
        let quiet = self.churn.iter().all(|activity| activity.recent == 0);
        let whole = !self.whole.is_at_work();
        !works && quiet && whole && (self.wanted.is_none() || self.failed.is_some())
    }

    fn wants_work(&self) -> bool {
        let current = self.rearranging.as_ref().is_some_and(Rearrangement::wants_work);
        (self.wants_code() || self.whole.wants_work() || current) && self.replicas.is_published()
    }

    fn job(&mut self) -> Option<Job> {
        if !self.wants_work() {
            return None;
        }
        if !self.wants_code() && self.whole.wants_work() {
            let task = self.whole.task(&self.program, &self.actions);
            return Some(Box::new(move || Box::new(task.run())));
        }
        if !self.wants_code() {
            let current = self.rearranging.as_mut()?;
            let (number, task) = (current.number, current.task(self.replicas.serving())?);
            return Some(Box::new(move || {
                let began = Instant::now();
                let made = task.run();
                Box::new(Rearranged { number, made, took: began.elapsed() })
            }));
        }
        self.wanted = None;
        self.compiling = true;
        let input = self.input(self.replicas.serving());
        let mut cache = self.cache.take().unwrap_or_default();
        Some(Box::new(move || {
            let code = input.compile(&mut cache);
            let outcome: Outcome = (code, cache);
            Box::new(outcome)
        }))
    }

    fn finish(&mut self, done: Done) -> bool {
        let done = match done.downcast::<Rearranged>() {
            Ok(outcome) => return self.rearranged(*outcome),
            Err(done) => done,
        };
        let done = match done.downcast::<Made>() {
            Ok(made) => return self.whole.finish(*made, &self.program),
            Err(done) => done,
        };
        let Ok(outcome) = done.downcast::<Outcome>() else { return false };
        self.compiling = false;
        let (code, cache) = *outcome;
        self.cache = Some(cache);
        match code {
            Ok(code) => {
                self.budget.expected = code.compile_time;
                self.ready = Some(Arc::new(code));
                true
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn stages(
        &self,
        packets: u64,
        flows: u64,
        frame_bytes: u64,
        lookups: &dyn Fn(TableId) -> u64,
    ) -> Option<plan::cost::Pipeline> {
        self.stages_of((packets, flows, frame_bytes), lookups)
    }

    fn dump(&self, stage: &str) -> Result<String, String> {
        self.dump_text(stage)
    }

    fn leaves(&self) -> Vec<String> {
        self.leave_texts()
    }

    fn explain(&self) -> Vec<TableExplanation> {
        self.explanations()
    }
}
