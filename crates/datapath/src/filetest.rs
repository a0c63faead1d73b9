//! Test files (`.mill`) run on the compiling engine.
//!
//! Packets go through the engine's snapshot as bursts of one; what its code leaves, the interpreter
//! runs. State that only interpreted packets reach (meters, registers, counter arrays, groups) is kept
//! as [`interp::filetest`] keeps it; what code counts is kept as a worker keeps it, and the two are
//! added. A trace is the interpreter's, of another run of the packet whose effects are thrown away.

use crate::compiled::{JitEngine, Options};
use crate::counts::Counts;
use crate::engine::{Engine as _, Forward, Scratch};
use crate::externs::{Imitated, Resumed};
use crate::notify::notify_one;
use crate::validate::full_copies;
use interp::filetest::{Events, Interpreter};
use interp::{Externs, Input, Start};
use ir::text::filetest::{Engine, Event, Injected, Outcome, Parsing};
use ir::{Bits, EntryId, Pipeline, Program, RegisterId, Update};
use plan::decompose::Goal;
use port::prng::Prng;
use state::counters::{CounterArena, WorkerCounters};
use std::sync::Arc;

/// Entry ids up to this are counted.
const IDS_MAX: u32 = 1 << 20;
/// Bytes in front of a packet.
const HEADROOM: usize = 128;

struct Running {
    engine: JitEngine,
    forward: Arc<dyn Forward>,
    program: Arc<Program>,
    arena: Arc<CounterArena>,
    counters: WorkerCounters,
    allocated: u32,
}

/// The compiling engine, as the runner of test files sees it.
pub struct Compiled {
    options: Options,
    interpreter: Interpreter,
    running: Option<Running>,
    scratch: Scratch,
    now_ns: u64,
}

impl Compiled {
    /// Without a pipeline yet. Fails where there is no code for this machine.
    pub fn new(options: Options) -> Result<Compiled, jit::Error> {
        let options = Options { synchronous: true, ..options };
        let arena = Arc::new(CounterArena::new(1));
        JitEngine::new(Arc::new(Program::new()), 1, arena, options.clone())?;
        Ok(Compiled {
            options,
            interpreter: Interpreter::new(),
            running: None,
            scratch: Scratch::default(),
            now_ns: 0,
        })
    }

    /// All that makes a pipeline what it is, as updates of an empty one.
    fn contents(pipeline: &Pipeline) -> Vec<Update> {
        let program = pipeline.program();
        let mut updates = Vec::new();
        for (id, action) in pipeline.added_actions() {
            updates.push(Update::AddAction(id, action.clone()));
        }
        for (id, meter) in pipeline.meters() {
            updates.push(Update::SetMeter(id, meter.clone()));
        }
        for (id, group) in pipeline.groups() {
            updates.push(Update::SetGroup(id, group.clone()));
        }
        for at in 0..program.value_sets.len() as u32 {
            let id = ir::ValueSetId(at);
            updates.push(Update::SetValueSet(id, pipeline.value_set(id).to_vec()));
        }
        for at in 0..program.tables.len() as u32 {
            let id = ir::TableId(at);
            let entries = pipeline.entries(id);
            updates.push(Update::SetDefault(id, entries.default().clone()));
            // Best first is an order of insertion that keeps who wins.
            updates.extend(entries.iter().map(|e| Update::Insert(id, e.clone())));
        }
        updates
    }

    fn follow(&mut self, updates: &[Update], pipeline: &Pipeline) {
        let Some(running) = &mut self.running else { return };
        for update in updates {
            if let Update::Insert(_, entry) = update {
                while running.allocated <= entry.id.0.min(IDS_MAX - 1) {
                    // Ids come in order, and there are enough of them.
                    let _ = running.arena.allocate();
                    running.allocated += 1;
                }
            }
        }
        running.engine.apply(pipeline, updates, self.now_ns);
        running.forward = running.engine.publish(&|| {});
    }
}

impl Engine for Compiled {
    fn load(&mut self, pipeline: &Pipeline) {
        self.interpreter.load(pipeline);
        let arena = Arc::new(CounterArena::new(IDS_MAX));
        let program = pipeline.program().clone();
        let made = JitEngine::new(program.clone(), 1, arena.clone(), self.options.clone());
        // It was made once already, so there is code for this machine.
        let Ok((engine, forward)) = made else { return };
        let counters = arena.worker();
        self.running = Some(Running { engine, forward, program, arena, counters, allocated: 0 });
        self.follow(&Compiled::contents(pipeline), pipeline);
    }

    fn update(&mut self, updates: &[Update], pipeline: &Pipeline) {
        self.interpreter.update(updates, pipeline);
        if let Some(running) = &mut self.running {
            running.program = pipeline.program().clone();
        }
        self.follow(updates, pipeline);
    }

    /// # Panics
    /// If nothing was loaded: a mistake in the caller's code.
    fn packet(&mut self, packet: &Injected<'_>) -> Outcome {
        let running = self.running.as_ref().expect("a pipeline is loaded before packets come");
        let Injected { bytes, in_port, now_ns } = *packet;
        self.now_ns = now_ns;
        let forward = &*running.forward;
        let input = Input { bytes, in_port, now_ns, start: Start::Pipeline };
        let externs = self.interpreter.externs();
        externs.now_ns = now_ns;

        // The trace first, from the state of now, on copies of everything.
        let mut unseen = Events::new(&running.program);
        let mut copy = externs.clone();
        let (_, trace) = forward.trace(&mut self.scratch, input, &mut copy, &mut unseen);

        let mut buffer = vec![0; HEADROOM + bytes.len()];
        buffer[HEADROOM..].copy_from_slice(bytes);
        let mut burst = [abi::Packet::new(&mut buffer, HEADROOM, bytes.len(), in_port)];
        let counters = &running.counters;
        let mut services = Imitated;
        let dead: Vec<u32> = externs.dead_ports.iter().copied().collect();
        let (mut random, live) = (Prng::new(0), abi::Live::all_but(dead));
        let answers = (&mut services as &mut _, &mut random as &mut _);
        let mut counts = Counts::new(0, forward.state(), counters, answers, &live, now_ns);
        counts.outside = Some(&mut *externs);
        forward.burst(&mut self.scratch, &mut burst, &mut counts, now_ns);
        let [done] = burst;
        let outcome = *done;
        let lookups = outcome.lookups;
        let mut events = Events::new(&running.program);
        let verdict = match self.scratch.code.verdict(0, &outcome) {
            Some(verdict) => {
                let place = (&buffer[..], HEADROOM, bytes.len());
                let copies = self.scratch.code.copies(0, &outcome);
                let copies = full_copies(&outcome, copies, place).into_iter().enumerate();
                let mut told = self.scratch.code.told(0, &outcome).peekable();
                for (at, (port, queue, bytes)) in copies {
                    while let Some(told) = told.next_if(|told| told.outputs <= at) {
                        notify_one(&told, &outcome, place, &mut events);
                    }
                    events.events.push(Event::Out { port, queue, bytes });
                }
                told.for_each(|told| notify_one(&told, &outcome, place, &mut events));
                verdict
            }
            None => {
                let answers = self.scratch.code.said(0);
                let mut resumed = Resumed::new(externs, lookups, &answers);
                forward.run(&mut self.scratch, input, &mut resumed, &mut events)
            }
        };
        Outcome { events: events.events, verdict, trace: trace.lines() }
    }

    fn parse(&mut self, bytes: &[u8]) -> Option<Parsing> {
        self.interpreter.parse(bytes)
    }

    fn set_register(&mut self, register: RegisterId, cell: u32, value: &Bits) {
        self.interpreter.externs().register_write(register, cell, value.clone());
    }

    fn register(&mut self, register: RegisterId, cell: u32) -> Option<Bits> {
        self.interpreter.register(register, cell)
    }

    fn set_port(&mut self, port: u32, up: bool) {
        self.interpreter.set_port(port, up);
    }

    fn set_meter(&mut self, meter: ir::MeterId, color: u8, level: u8) -> bool {
        self.interpreter.set_meter(meter, color, level)
    }

    fn stats(&mut self, what: &str) -> Option<String> {
        let running = self.running.as_ref()?;
        let (kind, name) = what.split_once(' ')?;
        let name = name.trim().trim_matches('"');
        let externs = self.interpreter.externs();
        match kind {
            "table" => {
                let table = running.program.find_table(name)?;
                let (hits, misses) = externs.tables.get(&table).copied().unwrap_or_default();
                let (lookups, matches) = running.forward.state().table(table);
                let (lookups, hits) = (lookups + hits + misses, matches + hits);
                Some(format!("lookups {lookups}, hits {hits}"))
            }
            "entry" => {
                let id: u32 = name.parse().ok()?;
                let code = running.arena.read(id).unwrap_or_default();
                let rest = externs.entries.get(&EntryId(id)).copied().unwrap_or_default();
                let (packets, bytes) = (code.packets + rest.packets, code.bytes + rest.bytes);
                Some(format!("packets {packets}, bytes {bytes}"))
            }
            _ => self.interpreter.stats(what),
        }
    }

    fn plan(&mut self) -> Option<Vec<String>> {
        let explained = self.running.as_ref()?.engine.explain();
        let lines = explained.iter().flat_map(|t| t.choice.lines());
        Some(lines.map(|line| line.trim().to_string()).collect())
    }
}

/// Engines of this build, by the word that files and `--engine` call them.
pub const ENGINES: [&str; 2] = ["interp", "jit"];

/// The engine that a file names: `interp`, `jit`, `jit(template=hash)`, `jit(no-decompose)`; `None` if this build lacks it.
pub fn engine(name: &str) -> Result<Option<Box<dyn Engine>>, String> {
    let (word, how) = match name.trim().split_once('(') {
        Some((word, how)) => (word.trim(), how.trim_end_matches(')')),
        None => (name.trim(), ""),
    };
    match word {
        "interp" => Ok(Some(Box::new(Interpreter::new()))),
        "jit" => {
            let mut options = Options::default();
            for option in how.split(',').map(str::trim).filter(|o| !o.is_empty()) {
                match option.split_once('=') {
                    Some(("template", kind)) => options.template = Some(kind.trim().parse()?),
                    None if option == "no-decompose" => options.decompose = false,
                    None if option == "one-column" => options.goal = Goal::OneColumn,
                    _ => return Err(format!("there is no option {option:?} of jit")),
                }
            }
            Ok(Some(Box::new(Compiled::new(options).map_err(|e| e.to_string())?)))
        }
        _ => Ok(None),
    }
}
