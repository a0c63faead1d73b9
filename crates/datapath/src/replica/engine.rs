//! The interpreter engine: two replicas of the tables, one serving, one following.
//!
//! Updates go to the replica that no worker uses, [`publish`](crate::Engine::publish) makes it current, and the other
//! one catches up with the same updates when the next ones come (left-right, after Ramalhete and
//! Correia). So an update costs two edits in place and no copy, readers take no lock, and no `unsafe`
//! is needed: `Arc::get_mut` succeeds exactly when the last worker has let go. When all is quiet,
//! [`settle`](crate::Engine::settle) lets the other one catch up at once, so that what was deleted is
//! freed.

use super::Replica;
use super::step::Step;
use super::structures::{Replacement, StructureChoice};
use crate::compiled::Code;
use crate::engine::{Engine, Forward, TableExplanation};
use crate::meter::LiveMeter;
use crate::program_state::ProgramState;
use crate::tally::{Reason, Tally};
use classify::Kind;
use ir::{Pipeline, Program, TableId, Update};
use state::counters::CounterArena;
use std::sync::Arc;
use std::time::Duration;

/// Looks at a replica's users so often before it sleeps between looks.
const SPINS: u32 = 200;
/// Room for so many steps is kept for the next transactions.
const STEPS_KEPT: usize = 1024;

/// The interpreter engine.
pub struct InterpEngine {
    workers: usize,
    arena: Arc<CounterArena>,
    serving: Arc<Replica>,
    /// Not used by any worker once they have passed the last publication.
    following: Arc<Replica>,
    /// What `following` lacks: first what `serving` already has, then what came since.
    behind: Vec<Step>,
    sequence: u64,
    /// Programs that have come.
    programs: u64,
    /// Steps to take before the next publication that `serving` lacks, too.
    fresh: Vec<Step>,
}

impl InterpEngine {
    /// An engine that forwards by version 0 of this program, and its first snapshot.
    pub fn new(
        program: Arc<Program>,
        workers: usize,
        arena: Arc<CounterArena>,
    ) -> (InterpEngine, Arc<dyn Forward>) {
        InterpEngine::without_code(program, workers, arena, Reason::ENGINE)
    }

    /// As [`new`](InterpEngine::new), and why packets are interpreted that come by while there is no code.
    pub(crate) fn without_code(
        program: Arc<Program>,
        workers: usize,
        arena: Arc<CounterArena>,
        why: Reason,
    ) -> (InterpEngine, Arc<dyn Forward>) {
        let state = Arc::new(ProgramState::new(&program, workers));
        let tally = Arc::new(Tally::new(workers));
        let counts = || (tally.clone(), why);
        let replica = || Arc::new(Replica::new(program.clone(), state.clone(), None, 0, counts()));
        let serving = replica();
        let engine = InterpEngine {
            workers,
            arena,
            following: replica(),
            serving: serving.clone(),
            behind: Vec::new(),
            sequence: 0,
            programs: 0,
            fresh: Vec::new(),
        };
        (engine, serving)
    }

    fn step(&mut self, update: &Update, now_ns: u64) -> Step {
        match update {
            Update::Insert(t, entry) => {
                self.sequence += 1;
                Step::Insert(*t, entry.clone(), self.sequence)
            }
            Update::Modify(t, entry) => Step::Modify(*t, entry.clone()),
            Update::Delete(t, id) => Step::Delete(*t, *id),
            Update::Clear(t) => Step::Clear(*t),
            Update::SetDefault(t, call) => Step::SetDefault(*t, call.clone()),
            Update::AddAction(id, action) => Step::SetAction(*id, Some(action.clone())),
            Update::RemoveAction(id) => Step::SetAction(*id, None),
            Update::SetGroup(id, group) => Step::SetGroup(*id, Some(group.clone())),
            Update::RemoveGroup(id) => Step::SetGroup(*id, None),
            Update::SetMeter(id, meter) => match LiveMeter::new(meter, now_ns, &self.arena) {
                Ok(meter) => Step::SetMeter(*id, Some(Arc::new(meter))),
                Err(error) => {
                    tracing::error!(meter = id.0, %error, "the meter passes everything");
                    Step::SetMeter(*id, None)
                }
            },
            Update::RemoveMeter(id) => Step::SetMeter(*id, None),
            Update::SetValueSet(id, members) => Step::SetValueSet(*id, members.clone()),
            Update::SetProgram(program) => {
                // Packets have written to what serves, whatever was set and not published since.
                let before = Some((&*self.serving.program, &*self.serving.state));
                let state = ProgramState::after(program, self.workers, before);
                self.programs += 1;
                Step::SetProgram(program.clone(), Arc::new(state), self.programs << 40)
            }
        }
    }
}

/// What the compiling engine does step by step.
impl InterpEngine {
    /// Lets the replica that no worker uses catch up with everything; waits for workers to leave it.
    pub(crate) fn catch_up(&mut self, nudge: &dyn Fn()) {
        let mut waited = 0u32;
        let replica = loop {
            if let Some(replica) = Arc::get_mut(&mut self.following) {
                break replica;
            }
            waited = waited.saturating_add(1);
            if waited < SPINS {
                std::hint::spin_loop();
                continue;
            }
            nudge();
            std::thread::sleep(Duration::from_micros(20));
            if waited == SPINS + 10_000 {
                tracing::warn!(version = self.serving.version, "a worker does not adopt versions");
            }
        };
        replica.follow_all(&self.behind);
        self.behind.clear();
        replica.follow_all(&self.fresh);
        std::mem::swap(&mut self.behind, &mut self.fresh);
        self.fresh.shrink_to(STEPS_KEPT);
    }

    /// No worker uses the replica that is to catch up.
    pub(crate) fn is_free(&mut self) -> bool {
        Arc::get_mut(&mut self.following).is_some()
    }

    /// Makes the replica that has caught up the serving one.
    pub(crate) fn swap(&mut self) -> Arc<dyn Forward> {
        std::mem::swap(&mut self.serving, &mut self.following);
        self.serving.clone()
    }

    /// The replica that has caught up: between [`catch_up`](Self::catch_up) and
    /// [`swap`](Self::swap) the following one, else the serving one.
    pub(crate) fn following(&self) -> &Replica {
        &self.following
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Packets by what ran them.
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.serving.tally
    }

    /// The replica that workers use.
    pub(crate) fn serving(&self) -> &Replica {
        &self.serving
    }

    /// All that was applied was published.
    pub(crate) fn is_published(&self) -> bool {
        self.fresh.is_empty()
    }

    /// Binds code to the following replica, which has caught up.
    pub(crate) fn bind(&mut self, code: Option<Arc<Code>>) {
        match Arc::get_mut(&mut self.following) {
            Some(replica) => replica.bind(code),
            None => unreachable!("code is bound after the replica has caught up"),
        }
    }

    /// The same for code that runs what that leaves.
    pub(crate) fn bind_whole(&mut self, code: Option<Arc<jit::whole::Code>>) {
        match Arc::get_mut(&mut self.following) {
            Some(replica) => replica.bind_whole(code),
            None => unreachable!("code is bound after the replica has caught up"),
        }
    }

    /// Every table of both replicas, empty ones still, is looked up by this kind of structure.
    pub(crate) fn force(&mut self, kind: Kind) {
        for replica in [&mut self.serving, &mut self.following] {
            let (program, state) = (replica.program.clone(), replica.state.clone());
            let counts = (replica.tally.clone(), replica.without);
            *replica = Arc::new(Replica::new(program, state, Some(kind), 0, counts));
        }
    }

    /// Has both replicas look a table up by another structure: the following one, which has caught up and is not
    /// published yet, at once.
    pub(crate) fn serve(&mut self, table: TableId, served: StructureChoice) {
        let step = Step::Serve(table, served);
        match Arc::get_mut(&mut self.following) {
            Some(replica) => {
                replica.follow(&step);
                self.behind.push(step);
            }
            None => self.fresh.push(step),
        }
    }

    /// Has both replicas move a table, with the next publication, to what was made beside. `lacks` are the entries
    /// that have come, changed or gone since it was last brought up to date.
    pub(crate) fn adopt(&mut self, table: TableId, beside: Replacement, lacks: Vec<u32>) {
        self.fresh.push(Step::Adopt(table, Arc::new(beside.lacking(lacks))));
    }
}

impl Engine for InterpEngine {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn apply(&mut self, pipeline: &Pipeline, updates: &[Update], now_ns: u64) {
        for update in updates {
            let step = self.step(update, now_ns);
            self.fresh.push(step);
        }
        self.fresh.push(Step::Version(pipeline.version()));
    }

    fn publish(&mut self, nudge: &dyn Fn()) -> Arc<dyn Forward> {
        self.catch_up(nudge);
        self.swap()
    }

    fn is_free(&mut self) -> bool {
        InterpEngine::is_free(self)
    }

    fn settle(&mut self) -> bool {
        if let Some(replica) = Arc::get_mut(&mut self.following) {
            replica.follow_all(&self.behind);
            self.behind.clear();
            self.behind.shrink_to(STEPS_KEPT);
        }
        false
    }

    fn explain(&self) -> Vec<TableExplanation> {
        let tables = self.serving.program.tables.iter().zip(&self.serving.tables);
        let with_entries = tables.filter(|(_, index)| !index.entries.is_empty());
        with_entries
            .map(|(table, index)| TableExplanation {
                table: table.name.clone(),
                entries: index.entries.len(),
                choice: index.choice(&table.name),
                memory_bytes: index.table.memory_bytes(),
            })
            .collect()
    }
}
