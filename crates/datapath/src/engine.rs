//! The seam between the switch and whatever gives its pipeline effect.
//!
//! The control side talks to an [`Engine`]: it follows committed updates and publishes snapshots.
//! A worker talks to a [`Forward`], the snapshot: it runs a burst against it as far as compiled code
//! goes ([`Forward::burst`]), and the packets that are left one at a time ([`Forward::run`]). The
//! interpreter engine ([`replica`](crate::replica)) has no code, so all packets are left; the
//! compiling engine ([`compiled`](crate::compiled)) leaves few.

use crate::counts::Counts;
use crate::meter::LiveMeter;
use crate::program_state::ProgramState;
use crate::tally::{Ran, Reason, Tally};
use interp::{Externs, Input, Machine, Sink};
use ir::{Action, Pipeline, Update, Verdict};
use std::sync::Arc;

/// What a worker keeps between frames for its engine: buffers, nothing of meaning.
#[derive(Default)]
pub struct Scratch {
    /// The interpreter's.
    pub machine: Machine,
    /// Compiled code's.
    pub code: jit::Scratch,
    /// Of code that runs whole programs.
    pub whole: jit::whole::Machine,
    /// Bursts run so far, counted around.
    pub bursts: u32,
    /// What [`Forward::run`] had the packet run by. Before each call it is the interpreter; whoever runs it
    /// otherwise says so.
    pub ran: Ran,
    /// Why that was not something faster, if [`Forward::run`] knows more than the code's reason to leave the packet. None before
    /// each call.
    pub reason: Option<Reason>,
}

/// A published version, as a worker sees it. Immutable while any worker uses it.
pub trait Forward: Send + Sync {
    /// The version of the pipeline it forwards by.
    fn version(&self) -> u64;

    /// Table counters, registers, counter arrays: what its program's packets write.
    fn state(&self) -> &Arc<ProgramState>;

    /// Packets by what ran them.
    fn tally(&self) -> &Tally;

    /// Why the code for bursts has left a packet, by the [`reason`](abi::Outcome::reason) of its outcome.
    fn reason(&self, _bail: u32) -> Reason {
        Reason::ENGINE
    }

    /// What the meter with this number is, if it exists.
    fn meter(&self, meter: ir::MeterId) -> Option<&LiveMeter>;

    /// Runs a burst of received packets as far as compiled code goes, counting on the way. Packets
    /// that are left have the status [`BAIL`](abi::status::BAIL) and are as they came in; they are to
    /// be [`run`](Self::run), with `externs` that skip the lookups that were counted and the calls that were
    /// answered ([`externs::Resumed`](crate::externs::Resumed)). At most [`abi::BURST_MAX`] packets.
    fn burst(
        &self,
        scratch: &mut Scratch,
        packets: &mut [abi::Packet<'_>],
        _counts: &mut Counts<'_>,
        _now_ns: u64,
    ) {
        scratch.code.forget();
        packets.iter_mut().for_each(|packet| packet.bail(0));
    }

    /// Runs one packet, sending copies to `sink`.
    fn run(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> Verdict;

    /// Runs one packet and traces every step.
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

/// Work for a control core.
pub type Job = Box<dyn FnOnce() -> Done + Send>;

/// What came of a [`Job`]: for the engine that gave it.
pub type Done = Box<dyn std::any::Any + Send>;

/// The control side of an engine.
pub trait Engine: Send {
    /// Its name: `interp`, `jit`.
    fn name(&self) -> &'static str;

    /// Follows updates that `pipeline` has already taken, in order, at this time of the switch's
    /// clock. They take effect with the next [`publish`](Engine::publish).
    fn apply(&mut self, pipeline: &Pipeline, updates: &[Update], now_ns: u64);

    /// [`publish`](Engine::publish) would wait for no worker.
    fn is_free(&mut self) -> bool {
        true
    }

    /// A packet of the control side's that comes next begins with this action. True: the engine has something better
    /// to publish for it, and those alike.
    fn begins_with(&mut self, action: &Arc<Action>) -> bool {
        let _ = action;
        false
    }

    /// So many packets a second have come in lately. While they are few, an engine that has better code to make need not
    /// keep a publication waiting for it.
    fn note_traffic(&mut self, per_second: u64) {
        let _ = per_second;
    }

    /// The snapshot of all that was applied. May wait for workers to leave the snapshot before the
    /// last one (they do within a burst; `nudge` wakes those that sleep).
    fn publish(&mut self, nudge: &dyn Fn()) -> Arc<dyn Forward>;

    /// Lets go of what only earlier versions needed, if that can be done without waiting. To be
    /// called now and then when nothing else is to be done. True: there is something better to
    /// publish for the same version.
    fn settle(&mut self) -> bool {
        false
    }

    /// It has nothing better in mind for what was published, and all tables have been quiet for as long as it waits.
    fn is_settled(&self) -> bool {
        true
    }

    /// There is a [`job`](Engine::job) to be done.
    fn wants_work(&self) -> bool {
        false
    }

    /// Work that would make forwarding faster and takes its time, to be run on a control core while the engine goes
    /// on: compiling, or rearranging a table, of which either waits for no more than its own kind.
    fn job(&mut self) -> Option<Job> {
        None
    }

    /// Takes the outcome of a [`job`](Engine::job). True: there is something better to publish.
    fn finish(&mut self, _done: Done) -> bool {
        false
    }

    /// The pipeline as the cost model sees it: when `packets` packets of `flows` flows, in frames
    /// spread over so many bytes, visited each table as often as `lookups` tells. None if the engine
    /// has no code for it.
    fn stages(
        &self,
        packets: u64,
        flows: u64,
        frame_bytes: u64,
        lookups: &dyn Fn(ir::TableId) -> u64,
    ) -> Option<plan::cost::Pipeline> {
        let _ = (packets, flows, frame_bytes, lookups);
        None
    }

    /// A stage of what was made of the pipeline, as text.
    fn dump(&self, stage: &str) -> Result<String, String> {
        Err(format!("the engine {} has no stage {stage:?}; it has ir", self.name()))
    }

    /// What the code for bursts leaves, one reason each, whether or not a packet has met it; the engine says more
    /// only of packets that have ([`tally`](crate::tally)).
    fn leaves(&self) -> Vec<String> {
        vec![format!("everything: the engine is {}", self.name())]
    }

    /// How each table that has entries is looked up.
    fn explain(&self) -> Vec<TableExplanation>;
}
