//! The seam between the switch and whatever gives its pipeline effect.
//!
//! The control side talks to an [`Engine`]: it follows committed updates and publishes snapshots.
//! A worker talks to a [`Forward`], the snapshot: it runs one frame of a burst at a time against
//! it. The interpreter engine ([`replica`](crate::replica)) is one implementation; compiled
//! pipelines are another, behind the same two traits.

use crate::meter::LiveMeter;
use crate::program_state::ProgramState;
use interp::{Externs, Input, Machine, Sink};
use ir::{Pipeline, Update, Verdict};
use std::sync::Arc;

/// What a worker keeps between frames for its engine: buffers, nothing of meaning.
#[derive(Default)]
pub struct Scratch {
    /// The interpreter's.
    pub machine: Machine,
}

/// A published version, as a worker sees it. Immutable while any worker uses it.
pub trait Forward: Send + Sync {
    /// The version of the pipeline it forwards by.
    fn version(&self) -> u64;

    /// Table counters, registers, counter arrays: what its program's packets write.
    fn state(&self) -> &Arc<ProgramState>;

    /// What the meter with this number is, if it exists.
    fn meter(&self, meter: ir::MeterId) -> Option<&LiveMeter>;

    /// Runs one packet, sending copies to `sink`.
    fn run(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> Verdict;

    /// Runs one packet and tells every step.
    fn trace(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> (Verdict, interp::Trace);
}

/// How one table is looked up, and why.
#[derive(Clone, Debug)]
pub struct TableExplanation {
    /// The table's name.
    pub table: String,
    /// Entries in it.
    pub entries: usize,
    /// The structure chosen, and why the others declined, one line each.
    pub choice: String,
    /// Bytes on the heap.
    pub memory_bytes: usize,
}

/// The control side of an engine.
pub trait Engine: Send {
    /// Its name: `interp`, `jit`.
    fn name(&self) -> &'static str;

    /// Follows updates that `pipeline` has already taken, in order, at this time of the switch's
    /// clock. They take effect with the next [`publish`](Engine::publish).
    fn apply(&mut self, pipeline: &Pipeline, updates: &[Update], now_ns: u64);

    /// The snapshot of all that was applied. May wait for workers to leave the snapshot before the
    /// last one (they do within a burst; `nudge` wakes those that sleep).
    fn publish(&mut self, nudge: &dyn Fn()) -> Arc<dyn Forward>;

    /// Lets go of what only earlier versions needed, if that can be done without waiting. To be
    /// called now and then when nothing else is to be done.
    fn settle(&mut self) {}

    /// How each table that has entries is looked up.
    fn explain(&self) -> Vec<TableExplanation>;
}
