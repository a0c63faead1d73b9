//! From a unit to code, by way of a cache.
//!
//! Each segment is generated anew, which is quick; its machine code is taken from the cache if the
//! very same function was compiled before, which is what a change of one table leaves most segments
//! at. The key is a 128-bit hash of Cranelift's function. Functions that are new are compiled side by side, on
//! as many threads as there are processors for the one that asks, but no more than [`THREADS_MAX`].

use crate::bails::Bails;
use crate::emit::Gen;
use crate::frame::{Frame, Slots};
use crate::isa::{self, Machine, OptLevel, Settings, compile_function};
use crate::memory::{self, Entry};
use crate::plan::Plan;
use crate::segment::generate;
use crate::state::Turn;
use crate::unit::Unit;
use crate::version::{Bounds, Points, Which};
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_frontend::FunctionBuilderContext;
use foldhash::fast::FixedState;
use ir::{HeaderId, Preface, ServiceId, TableId};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The machine that code is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isa {
    /// The one that this runs on.
    #[default]
    Host,
    /// Baseline 64-bit Arm: to be looked at; it runs only there.
    Aarch64,
    /// Baseline 64-bit x86: likewise.
    X86_64,
}

/// How to compile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// For which machine.
    pub isa: Isa,
    /// How hard to try, and what to check.
    pub settings: Settings,
    /// Keep Cranelift's IR and the disassembly of every segment.
    pub keep_text: bool,
    /// Leave nothing because the code would become too long: for programs that were not optimised, however long they
    /// take.
    pub unbounded: bool,
    /// Make one version of everything at once, as where several would become too long: for tests.
    pub one_version: bool,
}

impl Options {
    /// Quick compilation rather than fast code.
    pub fn quick() -> Options {
        let settings = Settings { opt_level: OptLevel::None, ..Settings::default() };
        Options { settings, ..Options::default() }
    }
}

/// Why a unit was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The code generator failed.
    #[error(transparent)]
    Isa(#[from] isa::Error),
    /// There is no memory for the code.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// The unit contradicts itself.
    #[error("node {node}: {what}")]
    Unit {
        /// Which node.
        node: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A program has something for which there is no code.
    #[error("no code for a whole program: {0}")]
    Whole(String),
}

/// A segment as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Cranelift's IR.
    pub clif: String,
    /// Machine instructions.
    pub disasm: String,
}

/// Compiled code of one function.
#[derive(Clone, Debug)]
struct Cached {
    entry: Entry,
    text: Option<Arc<Text>>,
    used: u64,
}

/// What was compiled before, and the numbers of bail-outs.
#[derive(Default)]
pub struct Cache {
    code: HashMap<u128, Cached>,
    pub(crate) bails: Bails,
    isas: HashMap<(Isa, Settings), OwnedTargetIsa>,
    frontend: FunctionBuilderContext,
    generation: u64,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} functions)", self.code.len())
    }
}

/// Compilations after which code that was not used again is forgotten.
const GENERATIONS: u64 = 8;

impl Cache {
    /// Empty.
    pub fn new() -> Cache {
        Cache::default()
    }

    /// How many functions it holds.
    pub fn functions(&self) -> usize {
        self.code.len()
    }
}

/// What the driver needs to know about a node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) table: TableId,
    pub(crate) counters: bool,
    /// Bytes from one key to the next.
    pub(crate) stride: usize,
    pub(crate) record_words: usize,
    /// Packets of its twins wait here, too.
    pub(crate) mixed: bool,
    /// The versions of the code behind it, if packets wait there.
    pub(crate) segments: Vec<Behind>,
}

/// What the driver needs to know about a stop.
#[derive(Clone, Debug)]
pub(crate) struct StopNode {
    pub(crate) service: ServiceId,
    /// The service's name.
    pub(crate) name: String,
    pub(crate) edits: bool,
    /// Headers that may have been written in front of it: where the address of each is among the slots, with the
    /// octets behind it, and how many they are. None if none can be.
    pub(crate) images: Vec<(usize, usize)>,
    /// Words of its arguments and of its answers.
    pub(crate) words: (usize, usize),
    /// Where answers of one word go that are looked at: the word, the bits of it that count, their place among the slots.
    pub(crate) narrow: Vec<(usize, u64, usize)>,
    /// Those of several: their first word, their width, their place.
    pub(crate) wide: Vec<(usize, u32, usize)>,
    pub(crate) segments: Vec<Behind>,
}

/// A version of the code behind a node or a stop.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    /// Where its packets wait.
    pub(crate) point: usize,
    /// How many lookups were counted for each of them; otherwise they say it themselves.
    pub(crate) lookups: Option<u32>,
    pub(crate) segment: Segment,
}

/// A function and what is known about it.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) entry: Entry,
    text: Option<Arc<Text>>,
}

/// A unit as machine code.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// No two compilations have the same.
    pub(crate) id: u64,
    pub(crate) start: Segment,
    /// For packets that the first one does not parse, who wait at this point.
    pub(crate) rest: Option<(usize, Segment)>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) stops: Vec<StopNode>,
    /// The nodes, and behind their numbers the stops, at which packets can wait, in the order in which they
    /// are taken up.
    pub(crate) waited: Vec<u32>,
    pub(crate) slots: Slots,
    /// Where the parts of a burst's memory lie.
    pub(crate) frame: Frame,
    /// How many points there are.
    pub(crate) points: usize,
    /// Outputs or copies are noted beside packets.
    pub(crate) notes: bool,
    /// Numbers of the tables that are looked up are below this.
    pub(crate) tables: usize,
    pub(crate) table_changed: u32,
    pub(crate) left_apart: u32,
    pub(crate) turn: Turn,
    /// Bits of the program's registers.
    pub(crate) widths: Box<[u32]>,
    pub(crate) preface: Option<Preface>,
    pub(crate) runs_here: bool,
    bails: Arc<[Arc<str>]>,
    /// Those of this code.
    leaves: Arc<[Arc<str>]>,
    compile_time: Duration,
    reused: usize,
}

impl Compiled {
    /// Reasons to bail out, by number: what is not compiled, and where.
    pub fn bails(&self) -> &[Arc<str>] {
        &self.bails
    }

    /// Why this code may bail out. (The numbers of [`Compiled::bails`] are those of all that a cache has seen.)
    pub fn leaves(&self) -> &[Arc<str>] {
        &self.leaves
    }

    /// Bytes of machine code.
    pub fn code_bytes(&self) -> usize {
        self.segments().map(|(_, s)| s.entry.bytes().len()).sum()
    }

    /// How long it took.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// How many segments there are, and how many of them were in the cache.
    pub fn reused(&self) -> (usize, usize) {
        (self.segments().count(), self.reused)
    }

    /// The services that packets wait for, call by call: what comes behind the nodes among [`texts`](Self::texts).
    pub fn stops(&self) -> impl Iterator<Item = &str> {
        self.stops.iter().map(|stop| &*stop.name)
    }

    /// The texts of the versions of a node's code, or of the entry's, or, numbered behind the nodes, of a
    /// stop's; none unless [`Options::keep_text`] was set.
    pub fn texts(&self, node: Option<usize>) -> impl Iterator<Item = &Text> {
        let here = self.segments().filter(move |(n, _)| *n == node);
        here.filter_map(|(_, s)| s.text.as_deref())
    }

    fn segments(&self) -> impl Iterator<Item = (Option<usize>, &Segment)> {
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.flat_map(|(i, n)| n.segments.iter().map(move |s| (Some(i), &s.segment)));
        let rest = self.rest.iter().map(|(_, s)| (None, s));
        let stops = (self.nodes.len()..).zip(&self.stops);
        let stops = stops.flat_map(|(i, n)| n.segments.iter().map(move |s| (Some(i), &s.segment)));
        [(None, &self.start)].into_iter().chain(rest).chain(nodes).chain(stops)
    }
}

/// A hash of everything that the machine code follows from.
fn key(function: &Function, options: &Options) -> u128 {
    let half = |seed: u64| {
        let state = FixedState::with_seed(seed);
        u128::from(state.hash_one(Keyed(function, options)))
    };
    half(0x6a09_e667_f3bc_c908) << 64 | half(0xbb67_ae85_84ca_a73b)
}

struct Keyed<'a>(&'a Function, &'a Options);

impl Hash for Keyed<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.stencil.hash(state);
        self.1.isa.hash(state);
        self.1.settings.hash(state);
        self.1.keep_text.hash(state);
    }
}

/// A segment that the code needs.
struct Wanted {
    which: Which,
    key: u128,
}

/// Functions of a unit.
struct Generated {
    points: Points,
    functions: Vec<(u128, Function)>,
    wanted: Vec<Wanted>,
}

impl Generated {
    /// With so many versions. None if the code would become too long, and this is not the last thing to try.
    fn of(
        plan: &Plan<'_>,
        bounds: Bounds,
        bails: &mut Bails,
        last: bool,
        key: impl Fn(&Function) -> u128,
        isa: &dyn TargetIsa,
        frontend: &mut FunctionBuilderContext,
    ) -> Option<Generated> {
        let mut points = Points::new(plan.stops.order.clone(), bounds);
        let (mut functions, mut wanted) = (Vec::new(), Vec::new());
        let mut next = Some(Which::Entry);
        while let Some(which) = next {
            let function = generate(plan, which, bails, &mut points, isa, frontend);
            if bails.is_over() && !last {
                return None;
            }
            let key = key(&function);
            wanted.push(Wanted { which, key });
            functions.push((key, function));
            // Code behind a node leads to later nodes only, so these have all their versions by then.
            next = points.after(which);
        }
        Some(Generated { points, functions, wanted })
    }
}

/// Threads that compile functions of one unit.
const THREADS_MAX: usize = 8;

/// Values of a function for which another thread is worth its start, about 50 microseconds.
const WORTH_A_THREAD: usize = 500;

/// A function's machine code, and its text if that was asked for.
type Made = (Machine, Option<Arc<Text>>);

/// Machine code of functions, and their texts if `keep_text`, in the functions' order.
pub(crate) fn machines(
    isa: &dyn TargetIsa,
    functions: Vec<Function>,
    keep_text: bool,
) -> Result<Vec<Made>, isa::Error> {
    let one = |function: Function| {
        let clif = keep_text.then(|| function.display().to_string());
        let machine = compile_function(isa, function, keep_text)?;
        let text = clif.map(|clif| {
            Arc::new(Text { clif, disasm: machine.disasm.clone().unwrap_or_default() })
        });
        Ok((machine, text))
    };
    let size: usize = functions.iter().map(|f| f.dfg.num_values()).sum();
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(THREADS_MAX).min(functions.len()).min(1 + size / WORTH_A_THREAD);
    // The longest is taken first, so that it is not begun when all others are done.
    let mut left: Vec<(usize, Function)> = functions.into_iter().enumerate().collect();
    left.sort_by_key(|(_, function)| function.dfg.num_values());
    let left = Mutex::new(left);
    let work = || {
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        std::iter::from_fn(next).map(|(at, function)| (at, one(function))).collect::<Vec<_>>()
    };
    let mut done = std::thread::scope(|scope| {
        let spawn = || std::thread::Builder::new().name("compile".into()).spawn_scoped(scope, work);
        // Where no thread can be had, this one does it all.
        let others: Vec<_> = (1..threads).map_while(|_| spawn().ok()).collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(theirs) => done.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, compiled)| compiled).collect()
}

/// Compiles a unit.
pub fn compile(unit: &Unit, cache: &mut Cache, options: &Options) -> Result<Compiled, Error> {
    static IDS: AtomicU64 = AtomicU64::new(0);
    let begun = Instant::now();
    check(unit)?;
    let unit = &*crate::stops::normalised(unit);
    let plan = Plan::new(unit);
    let Cache { code, bails, isas, frontend, generation } = cache;
    *generation += 1;
    let isa = match isas.entry((options.isa, options.settings)) {
        std::collections::hash_map::Entry::Occupied(isa) => isa.into_mut(),
        std::collections::hash_map::Entry::Vacant(place) => place.insert(match options.isa {
            Isa::Host => isa::host(options.settings)?,
            Isa::Aarch64 => isa::aarch64(options.settings)?,
            Isa::X86_64 => isa::x86_64(options.settings)?,
        }),
    };
    let skipped = if options.one_version { Bounds::LADDER.len() - 1 } else { 0 };
    let mut ladder = Bounds::LADDER.into_iter().skip(skipped).peekable();
    let (generated, [table_changed, left_apart]) = loop {
        let Some(bounds) = ladder.next() else {
            return Err(Error::Unit { node: 0, what: "nothing was generated" });
        };
        let last = ladder.peek().is_none();
        bails.begin(options.unbounded, last);
        let own = ["the table has changed its shape", "a service is to see it alone"];
        let own = own.map(|why| bails.number(why, ""));
        let generated = Generated::of(
            &plan,
            bounds,
            bails,
            last,
            |function| key(function, options),
            &**isa,
            frontend,
        );
        if let Some(generated) = generated {
            break (generated, own);
        }
    };
    let Generated { mut points, functions, wanted } = generated;
    let (mut new, mut reused): (Vec<(u128, Function)>, usize) = (Vec::new(), 0);
    for (key, function) in functions {
        if let Some(cached) = code.get_mut(&key) {
            cached.used = *generation;
            reused += 1;
        } else if !new.iter().any(|(k, _)| *k == key) {
            new.push((key, function));
        }
    }
    let (keys, functions): (Vec<u128>, Vec<Function>) = new.into_iter().unzip();
    let made = machines(&**isa, functions, options.keep_text)?;
    let (machines, texts): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    let entries = memory::publish_many(&machines)?;
    for ((key, entry), text) in keys.into_iter().zip(entries).zip(texts) {
        code.insert(key, Cached { entry, text, used: *generation });
    }
    code.retain(|_, cached| cached.used + GENERATIONS > *generation);
    let mut segments: Vec<Vec<Behind>> = vec![Vec::new(); plan.stops.order.len()];
    let (mut start, mut rest) = (None, None);
    for Wanted { which, key } in wanted {
        let Some(cached) = code.get(&key) else { continue };
        let segment = Segment { entry: cached.entry.clone(), text: cached.text.clone() };
        match which {
            Which::Entry => start = Some(segment),
            Which::Rest => rest = Some((points.rest() as usize, segment)),
            Which::Behind { node, version } => {
                let Some((facts, point)) = points.get(node, version) else { continue };
                let lookups = Gen::known_lookups(facts);
                segments[node].push(Behind { point: point as usize, lookups, segment });
            }
        }
    }
    let Some(start) = start else {
        return Err(Error::Unit { node: 0, what: "there is no entry" });
    };
    let waited = plan.stops.order.iter().filter(|station| !segments[**station].is_empty());
    let waited: Vec<u32> = waited.map(|station| *station as u32).collect();
    let behind_stops = segments.split_off(unit.nodes.len());
    let stops = plan.stops.all.iter().enumerate().zip(behind_stops).map(|((i, stop), segments)| {
        let service = &plan.program.services[stop.service.index()];
        let mut word = 0;
        let (mut narrow, mut wide) = (Vec::new(), Vec::new());
        for (at, result) in service.results.iter().enumerate() {
            let slot = stop.results.get(at).and_then(|m| plan.slots.meta[m.index()]);
            match (slot, result.width) {
                (Some(slot), width @ 1..=64) => {
                    narrow.push((word, u64::MAX >> (64 - width), slot as usize));
                }
                (Some(slot), width @ 65..) => wide.push((word, width, slot as usize)),
                _ => {}
            }
            word += result.width.div_ceil(64) as usize;
        }
        let (args, answers) = plan.words(i);
        StopNode {
            service: stop.service,
            name: service.name.clone(),
            edits: stop.edits,
            images: match plan.may_change(i) {
                false => Vec::new(),
                true => {
                    let bytes = |h: HeaderId| plan.shape.headers[h.index()].fixed as usize / 8;
                    plan.slots.images.iter().map(|(h, at)| (*at as usize, bytes(*h))).collect()
                }
            },
            words: (args as usize, answers as usize),
            narrow,
            wide,
            segments,
        }
    });
    let stops = stops.collect();
    let nodes = segments.into_iter().enumerate().map(|(i, segments)| {
        let spec = &unit.nodes[i];
        Node {
            table: spec.table,
            counters: plan.program.tables[spec.applied.index()].counters,
            stride: plan.key(i).0,
            record_words: spec.record_words as usize,
            mixed: plan.is_mixed(i),
            segments,
        }
    });
    let nodes: Vec<Node> = nodes.collect();
    Ok(Compiled {
        id: IDS.fetch_add(1, Ordering::Relaxed),
        start,
        rest,
        nodes,
        stops,
        slots: plan.slots.clone(),
        frame: plan.frame.clone(),
        points: points.len(),
        notes: points.notes,
        tables: unit.nodes.iter().map(|spec| spec.table.index() + 1).max().unwrap_or(0),
        table_changed,
        left_apart,
        turn: Turn::of(&points.asked, &waited, unit.nodes.len()),
        waited,
        preface: plan.program.preface,
        widths: plan.program.registers.iter().map(|register| register.width).collect(),
        runs_here: runs_here(options.isa),
        bails: bails.sentences().into(),
        leaves: bails.used().collect(),
        compile_time: begun.elapsed(),
        reused,
    })
}

fn runs_here(isa: Isa) -> bool {
    match isa {
        Isa::Host => true,
        Isa::Aarch64 => cfg!(all(target_arch = "aarch64", unix)),
        Isa::X86_64 => cfg!(all(target_arch = "x86_64", unix)),
    }
}

fn check(unit: &Unit) -> Result<(), Error> {
    let program = &unit.program.program;
    let mut last = None;
    for (node, spec) in unit.nodes.iter().enumerate() {
        let wrong = |what| Err(Error::Unit { node, what });
        if last.is_some_and(|last| last >= spec.block) {
            return wrong("nodes must be in the order of their blocks");
        }
        last = Some(spec.block);
        let applies = |block: &ir::Block| matches!(block.end, ir::Terminator::Apply { table, .. } if table == spec.applied);
        if !program.blocks.get(spec.block.index()).is_some_and(applies) {
            return wrong("the block does not apply the table");
        }
        let Some(table) = program.tables.get(spec.applied.index()) else {
            return wrong("the table does not exist");
        };
        if spec.columns.iter().any(|c| *c as usize >= table.key.len()) {
            return wrong("a column does not exist");
        }
        if let Some(leader) = spec.leader {
            let twins = leader > node
                && unit.nodes.get(leader).is_some_and(|other| {
                    other.leader.is_none() && crate::unit::are_twins(program, spec, other)
                });
            if !twins {
                return wrong("its leader is no twin");
            }
        }
        if spec.direct.is_none() && spec.record_words == 0 {
            return wrong("action records must have a word at least");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_shared_between_threads_and_compiled_on_any() {
        fn shared<T: Send + Sync>() {}
        fn moved<T: Send>() {}
        shared::<Compiled>();
        shared::<Unit>();
        moved::<Cache>();
        moved::<crate::Scratch>();
    }
}
