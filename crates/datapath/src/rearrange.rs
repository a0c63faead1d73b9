//! A table is rearranged aside: a better structure is made on a control core while the old one serves.
//!
//! The rules are copied as they are ([`Replica::wanted`]), and what is made of the copy takes its time. Updates go
//! on meanwhile, to the replicas alone; which entries they touch is noted. What was made is brought up to date in
//! rounds, each of which is shorter than the one before, as it takes less time; once little is left, both replicas
//! take it over, each with the next publication that reaches it, and the entries touched last with it.
//! So nobody waits: neither updates nor readers.
//!
//! What an entry *is now* is taken over, not what happened to it: an entry that came, went and came again is
//! simply there. So it does not matter in which order, or how often, an entry is brought up to date.
//!
//! A decomposition is a plan for the very rules that it was made from. If they change before the copy is made, the
//! plan is given up ([`Rearrangement::is_stale`]); what is made of the copy then follows updates as any structure does.
//!
//! Invariants: an entry that has changed since the copy, or since the last round, is among those touched; so
//! copy, rounds and touched entries together are the table. A table whose keys are laid out otherwise by then, or
//! which was cleared, keeps what it has ([`Rearrangement::touch`], [`Replacement`]).
//! Checked by: `tests/arranging.rs`, updates at every stage against the interpreter on the plain pipeline.

use crate::replica::{RebuildInput, Replacement, Replica, StructureChoice};
use classify::Rule;
use ir::TableId;

/// Entries that are brought up to date in a publication, at most: a few milliseconds' worth.
const ADOPTED_MAX: usize = 2048;
/// Rounds after which what is left is brought up to date however much it is: updates come faster than they can be
/// followed.
const ROUNDS_MAX: u32 = 32;

/// A table that is being rearranged.
pub(crate) struct Rearrangement {
    /// Tells it from those before and after it.
    pub(crate) number: u64,
    table: TableId,
    stage: Stage,
    touched: Vec<u32>,
    rounds: u32,
    /// The table was cleared: what is being made is of no use any more.
    void: bool,
}

enum Stage {
    /// To be made of the table's rules.
    RebuildInput(StructureChoice),
    /// It was made, and must be brought up to date.
    Behind(Replacement),
    /// At work.
    Away,
}

/// What there is to do on a control core.
pub(crate) enum Task {
    Make(Box<RebuildInput>),
    Follow(Box<Replacement>, Vec<(u32, Option<Rule>)>),
}

impl Task {
    /// Does it: what was made, or none if there is nothing to gain.
    pub(crate) fn run(self) -> Option<Replacement> {
        match self {
            Task::Make(wanted) => wanted.make(),
            Task::Follow(mut beside, changes) => {
                beside.follow(&changes);
                Some(*beside)
            }
        }
    }
}

/// What comes of a task.
pub(crate) enum Next {
    /// Another task.
    Work,
    /// There is nothing to gain.
    Nothing,
    /// It may be taken over, with these entries brought up to date.
    Adopt(Replacement, Vec<u32>),
}

impl Rearrangement {
    pub(crate) fn new(number: u64, table: TableId, served: StructureChoice) -> Rearrangement {
        let (touched, stage) = (Vec::new(), Stage::RebuildInput(served));
        Rearrangement { number, table, stage, touched, rounds: 0, void: false }
    }

    pub(crate) fn table(&self) -> TableId {
        self.table
    }

    /// An entry of this table has come, changed or gone; all of them, if none is named.
    pub(crate) fn touch(&mut self, entry: Option<u32>) {
        match entry {
            Some(entry) => self.touched.push(entry),
            None => self.void = true,
        }
    }

    /// A plan was made for the rules, and they have changed before anything was made of it: to be planned anew.
    pub(crate) fn is_stale(&self) -> bool {
        let planned = matches!(self.stage, Stage::RebuildInput(StructureChoice::Decomposed(_)));
        planned && (self.void || !self.touched.is_empty())
    }

    /// Whether there is a task.
    pub(crate) fn wants_work(&self) -> bool {
        !matches!(self.stage, Stage::Away)
    }

    /// The next task, of the replica that holds all updates so far.
    pub(crate) fn task(&mut self, replica: &Replica) -> Option<Task> {
        let mut touched = std::mem::take(&mut self.touched);
        match std::mem::replace(&mut self.stage, Stage::Away) {
            Stage::RebuildInput(served) => {
                self.void = false;
                Some(Task::Make(Box::new(replica.wanted(self.table, served))))
            }
            Stage::Behind(beside) => {
                touched.sort_unstable();
                touched.dedup();
                let changes = replica.rules_now(self.table, &touched);
                Some(Task::Follow(Box::new(beside), changes))
            }
            Stage::Away => {
                self.touched = touched;
                None
            }
        }
    }

    /// Takes what came of a task.
    pub(crate) fn done(&mut self, made: Option<Replacement>) -> Next {
        let Some(beside) = made.filter(|_| !self.void) else { return Next::Nothing };
        if self.touched.len() > ADOPTED_MAX && self.rounds < ROUNDS_MAX {
            self.rounds += 1;
            self.stage = Stage::Behind(beside);
            return Next::Work;
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        Next::Adopt(beside, touched)
    }
}
