//! Test files (`.mill`) run on the interpreter.
//!
//! Registers, counters and meters are kept in plain collections; every port is up until the file says
//! otherwise.
//!
//! Statistics that a file may ask for:
//!
//! | of | text |
//! |---|---|
//! | `table NAME` | `lookups 3, hits 2` |
//! | `entry ID`, `group NUMBER`, `counter NAME(CELL)` | `packets 2, bytes 120` |

use crate::externs::{Count, MemoryExterns};
use crate::machine::{Input, Machine, Start};
use crate::sink::{Packet, Punt, Sink};
use crate::trace::Trace;
use ir::text::filetest::{Engine, Event, Injected, Outcome, Parsing};
use ir::{Bits, DigestId, EntryId, GroupId, Pipeline, Program, RegisterId, Update};
use std::sync::Arc;

/// The interpreter, as the runner of test files sees it.
#[derive(Debug, Default)]
pub struct Interpreter {
    pipeline: Option<Pipeline>,
    externs: MemoryExterns,
    machine: Machine,
}

impl Interpreter {
    /// Without a pipeline yet.
    pub fn new() -> Interpreter {
        Interpreter::default()
    }

    /// What packets read and write outside of themselves, for an engine that leaves some packets to
    /// the interpreter.
    pub fn externs(&mut self) -> &mut MemoryExterns {
        &mut self.externs
    }

    fn program(&self) -> Option<&Arc<Program>> {
        self.pipeline.as_ref().map(Pipeline::program)
    }
}

/// A sink that keeps what leaves as events, in order.
pub struct Events<'a> {
    program: &'a Program,
    /// What has left so far.
    pub events: Vec<Event>,
}

impl<'a> Events<'a> {
    /// Of packets of this program.
    pub fn new(program: &'a Program) -> Events<'a> {
        Events { program, events: Vec::new() }
    }
}

impl Sink for Events<'_> {
    fn output(&mut self, port: u32, queue: u32, packet: Packet<'_>) {
        self.events.push(Event::Out { port, queue, bytes: packet.to_vec() });
    }

    fn punt(&mut self, punt: Punt<'_>) {
        self.events.push(Event::Punt {
            reason: punt.reason,
            args: punt.args.to_vec(),
            bytes: punt.packet.to_vec(),
        });
    }

    fn digest(&mut self, digest: DigestId, args: &[Bits]) {
        let name = self.program.digests[digest.index()].name.clone();
        self.events.push(Event::Digest { name, args: args.to_vec() });
    }
}

impl Engine for Interpreter {
    fn load(&mut self, pipeline: &Pipeline) {
        self.externs = MemoryExterns::new(pipeline.program());
        for (id, meter) in pipeline.meters() {
            self.externs.set_meter(id, Some(meter));
        }
        self.pipeline = Some(pipeline.clone());
    }

    fn update(&mut self, updates: &[Update], pipeline: &Pipeline) {
        if self.program().is_none_or(|program| !Arc::ptr_eq(program, pipeline.program())) {
            return self.load(pipeline);
        }
        for update in updates {
            match update {
                Update::SetMeter(id, meter) => self.externs.set_meter(*id, Some(meter)),
                Update::RemoveMeter(id) => self.externs.set_meter(*id, None),
                _ => {}
            }
        }
        self.pipeline = Some(pipeline.clone());
    }

    /// # Panics
    /// If nothing was loaded: a mistake in the caller's code.
    fn packet(&mut self, packet: &Injected<'_>) -> Outcome {
        let pipeline = self.pipeline.as_ref().expect("a pipeline is loaded before packets come");
        let Injected { bytes, in_port, now_ns } = *packet;
        let input = Input { bytes, in_port, now_ns, start: Start::Pipeline };
        self.externs.now_ns = now_ns;
        let mut events = Events::new(pipeline.program());
        let mut trace = Trace::new();
        let verdict =
            self.machine.run(pipeline, input, &mut self.externs, &mut events, Some(&mut trace));
        Outcome { events: events.events, verdict, trace: trace.lines() }
    }

    fn parse(&mut self, bytes: &[u8]) -> Option<Parsing> {
        let parsed = self.machine.parse(self.pipeline.as_ref()?, bytes)?;
        Some(Parsing { headers: parsed.headers, payload: parsed.payload })
    }

    fn set_register(&mut self, register: RegisterId, cell: u32, value: &Bits) {
        use crate::externs::Externs;
        self.externs.register_write(register, cell, value.clone());
    }

    fn register(&mut self, register: RegisterId, cell: u32) -> Option<Bits> {
        self.externs.registers.get(register.index())?.get(cell as usize).cloned()
    }

    fn set_port(&mut self, port: u32, up: bool) {
        if up {
            self.externs.dead_ports.remove(&port);
        } else {
            self.externs.dead_ports.insert(port);
        }
    }

    fn stats(&mut self, what: &str) -> Option<String> {
        let (kind, name) = what.split_once(' ')?;
        let name = name.trim().trim_matches('"');
        let count: Option<&Count> = match kind {
            "table" => {
                let table = self.program()?.find_table(name)?;
                let (hits, misses) = self.externs.tables.get(&table).copied().unwrap_or_default();
                return Some(format!("lookups {}, hits {hits}", hits + misses));
            }
            "entry" => self.externs.entries.get(&EntryId(name.parse().ok()?)),
            "group" => {
                let group = self.pipeline.as_ref()?.group(GroupId(name.parse().ok()?))?;
                self.externs.counters.get(&group.counter)
            }
            "counter" => {
                let (array, cell) = name.strip_suffix(')')?.split_once('(')?;
                let array = array.trim_matches('"');
                let at = self.program()?.counters.iter().position(|c| c.name == array)?;
                self.externs.arrays.get(&(at as u32, cell.parse().ok()?))
            }
            _ => return None,
        };
        let Count { packets, bytes } = count.copied().unwrap_or_default();
        Some(format!("packets {packets}, bytes {bytes}"))
    }
}
