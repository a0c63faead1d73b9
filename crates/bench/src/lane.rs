//! An engine under test, and a worker's way through it without ports.
//!
//! [`Bed`] is the control side: a pipeline, an engine that follows it, and the publication of
//! versions. [`Lane`] is a worker: it copies each burst's frames from the trace to its buffers, runs
//! it by the version it holds, has the interpreter run what compiled code leaves, and tells a
//! [`Seen`] what became of each frame. It adopts versions between bursts, as a worker does.

use super::contents::Contents;
use super::frame::LINE;
use super::trace::Trace;
use control::failure::Failure;
use datapath::compiled::{JitEngine, Options};
use datapath::counts::Counts;
use datapath::externs::{Resumed, State};
use datapath::publish::{Held, Publisher};
use datapath::replica::InterpEngine;
use datapath::services::Services;
use datapath::tally::Ran;
use datapath::{Engine, Forward, PortFlags, PortShared, PortTable, Scratch};
use interp::{Externs, Input, Sink, Start};
use ir::{Pipeline, Update, Verdict};
use port::prng::Prng;
use smallvec::SmallVec;
use state::counters::{CounterArena, WorkerCounters};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use abi::BURST_MAX as BURST;

/// An engine has seen that all is quiet after so long.
const QUIET: Duration = Duration::from_millis(150);
/// Bytes in front of a frame, for tags and tunnels.
const FRONT: usize = abi::PUSH_MAX;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The one that compiles.
    Jit,
    /// The reference.
    Interp,
}

/// The control side.
pub(crate) struct Bed {
    /// The truth.
    pub(crate) pipeline: Pipeline,
    /// What follows it.
    pub(crate) engine: Box<dyn Engine>,
    /// Where its snapshots go.
    pub(crate) publisher: Arc<Publisher>,
    /// Counters of entries.
    pub(crate) arena: Arc<CounterArena>,
    /// How long it took from the updates to the first snapshot that forwards by them.
    pub(crate) first: Duration,
    /// How long the engine worked in all, until it had nothing left to make better.
    pub(crate) compile: Duration,
    /// Ports that are there.
    ports: Arc<PortTable>,
    /// Services that each lane has for itself.
    services: Vec<String>,
}

impl Bed {
    /// An engine that forwards by these contents, for so many lanes.
    pub(crate) fn new(
        kind: Kind,
        contents: &Contents,
        ports: u32,
        lanes: usize,
    ) -> Result<Bed, Failure> {
        let arena = Arc::new(CounterArena::new((contents.ids + contents.meters).max(1)));
        while arena.len() < contents.ids as usize {
            arena.allocate().map_err(Failure::bad)?;
        }
        let mut pipeline = Pipeline::new(contents.program.clone()).map_err(Failure::bad)?;
        let (program, counters) = (contents.program.clone(), arena.clone());
        let options = Options { passes: contents.passes, ..Options::default() };
        let (mut engine, first): (Box<dyn Engine>, _) = match kind {
            Kind::Interp => {
                let (engine, first) = InterpEngine::new(program, lanes, counters);
                (Box::new(engine), first)
            }
            Kind::Jit => {
                let (engine, first) = JitEngine::new(program, lanes, counters, options)
                    .map_err(|e| Failure::Bad(format!("the jit engine does not start: {e}")))?;
                (Box::new(engine), first)
            }
        };
        let publisher = Arc::new(Publisher::new(first, lanes));
        pipeline.transact(&contents.updates).map_err(|(_, e)| Failure::bad(e))?;
        let started = Instant::now();
        engine.apply(&pipeline, &contents.updates, 0);
        let snapshot = engine.publish(&|| {});
        publisher.publish(snapshot);
        let first = started.elapsed();
        let mut table = PortTable::default();
        for n in 1..=ports {
            table.insert(Arc::new(PortShared::new(n, &format!("bench{n}"), PortFlags::UP, lanes)));
        }
        let ports = Arc::new(table);
        let services = contents.services.clone();
        let mut bed =
            Bed { pipeline, engine, publisher, arena, first, compile: first, ports, services };
        // What the engine does as soon as it has time, and once all has been quiet.
        for quiet in [0, 1, 1] {
            std::thread::sleep(quiet * QUIET);
            let started = Instant::now();
            bed.settle();
            bed.compile += started.elapsed();
        }
        Ok(bed)
    }

    /// Commits updates, one transaction; they are in force after [`publish`](Self::publish).
    pub(crate) fn transact(&mut self, updates: &[Update], now_ns: u64) -> Result<u64, Failure> {
        let version = self.pipeline.transact(updates).map_err(|(_, e)| Failure::bad(e))?;
        self.engine.apply(&self.pipeline, updates, now_ns);
        Ok(version)
    }

    /// Makes what was committed current.
    pub(crate) fn publish(&mut self) {
        let snapshot = self.engine.publish(&|| {});
        self.publisher.publish(snapshot);
    }

    /// Does what the engine would do when it has time.
    pub(crate) fn settle(&mut self) {
        if self.engine.settle() {
            self.publish();
        }
        while let Some(job) = self.engine.job() {
            if self.engine.finish(job()) {
                self.publish();
            }
        }
    }

    /// A lane, the `n`-th, with room for frames of this length.
    pub(crate) fn lane(&self, n: usize, len_max: usize) -> Lane {
        let stride = FRONT + len_max.next_multiple_of(LINE).max(LINE);
        let rooms = vec![0; stride * BURST + LINE];
        Lane {
            index: n,
            held: self.publisher.start(n),
            services: {
                let mut services = Services::default();
                services.track(control::program::tables::tracker(
                    control::program::tables::Tracking::of(CONNECTIONS),
                ));
                services.soft();
                if let Some(elements) = services.elements() {
                    // A switch has taken them already.
                    let _: Result<(), String> =
                        control::program::services::add_all(elements, &self.services);
                }
                services
            },
            publisher: self.publisher.clone(),
            scratch: Scratch::default(),
            counters: self.arena.worker(),
            ports: self.ports.clone(),
            random: Prng::new(1),
            skip: rooms.as_ptr().align_offset(LINE),
            rooms,
            stride,
        }
    }
}

/// Copies frame `at` of the trace into a buffer.
#[inline(always)]
fn fetch<'r>(trace: &Trace, at: usize, room: &'r mut [u8]) -> abi::Packet<'r> {
    let (in_port, len, line) = trace.head(at);
    match room.get_mut(FRONT..FRONT + LINE) {
        Some(to) if len <= LINE => to.copy_from_slice(line),
        _ => trace.copy(at, &mut room[FRONT..]),
    }
    abi::Packet::new(room, FRONT, len, in_port)
}

/// Copies the burst that begins with frame `first` into its buffers. A function of its own: amid all that a burst does, its
/// loop had no registers left, and 20 more instructions a frame went through the stack.
#[inline(never)]
fn fetch_burst<'r>(
    trace: &Trace,
    first: usize,
    rooms: &'r mut [u8],
    stride: usize,
    packets: &mut SmallVec<[abi::Packet<'r>; BURST]>,
) {
    let rooms = rooms.chunks_exact_mut(stride).take(BURST);
    // Nearly always no frame of the burst is beyond the trace's end.
    if first + BURST <= trace.len() {
        packets.extend((first..).zip(rooms).map(|(at, room)| fetch(trace, at, room)));
    } else {
        packets.extend((first..).zip(rooms).map(|(at, room)| fetch(trace, at % trace.len(), room)));
    }
}

/// Told what became of each frame of a burst.
pub(crate) trait Seen {
    /// Compiled code has done with frame `i`.
    fn compiled(&mut self, i: usize, packet: &abi::Packet<'_>, code: &jit::Scratch);
    /// Compiled code has done with these frames, but for those that it has left. True if it has left
    /// some.
    fn burst(&mut self, packets: &[abi::Packet<'_>], code: &jit::Scratch) -> bool {
        let done = |packet: &abi::Packet<'_>| packet.status != abi::status::BAIL;
        let all = packets.iter().enumerate();
        all.clone().filter(|(_, p)| done(p)).for_each(|(i, packet)| self.compiled(i, packet, code));
        !packets.iter().all(done)
    }
    /// Frame `i`, which the code for bursts has left, is run with the sink that this gives to `run`, which says by what.
    fn interpreted(&mut self, i: usize, run: &mut dyn FnMut(&mut dyn Sink) -> (Verdict, Ran));
}

/// Connections that a lane keeps, at most.
const CONNECTIONS: usize = 1 << 21;

/// A worker without ports.
pub(crate) struct Lane {
    index: usize,
    publisher: Arc<Publisher>,
    held: Held,
    scratch: Scratch,
    counters: WorkerCounters,
    ports: Arc<PortTable>,
    random: Prng,
    /// Each lane's own, as its frames are.
    services: Services,
    rooms: Vec<u8>,
    /// Bytes to the first cache line of `rooms`.
    skip: usize,
    stride: usize,
}

impl Lane {
    /// The snapshot it runs by.
    pub(crate) fn forward(&self) -> &dyn Forward {
        &*self.held.forward
    }

    /// Takes the current version, if it holds another one.
    #[inline]
    pub(crate) fn adopt(&mut self) {
        if self.publisher.is_stale(&self.held) {
            self.publisher.adopt(self.index, &mut self.held);
        }
    }

    /// Runs the burst that begins with frame `first` of the trace, which starts again at its end.
    #[inline]
    pub(crate) fn burst(&mut self, trace: &Trace, first: usize, now_ns: u64, seen: &mut impl Seen) {
        self.adopt();
        let mut packets: SmallVec<[abi::Packet<'_>; BURST]> = SmallVec::new();
        fetch_burst(trace, first, &mut self.rooms[self.skip..], self.stride, &mut packets);
        let mut serving = self.services.serve(&[port::Csum::Valid; BURST], now_ns);
        let answers = (&mut serving as &mut _, &mut self.random as &mut _);
        let (state, live) = (self.held.forward.state(), self.ports.live());
        let mut counts = Counts::new(self.index, state, &self.counters, answers, live, now_ns);
        self.held.forward.burst(&mut self.scratch, &mut packets, &mut counts, now_ns);
        let mut left: SmallVec<[(usize, u32, u32); BURST]> = SmallVec::new();
        if seen.burst(&packets, &self.scratch.code) {
            let bailed = packets.iter().enumerate();
            let bailed = bailed.filter(|(_, packet)| packet.status == abi::status::BAIL);
            left.extend(bailed.map(|(i, packet)| (i, packet.lookups, packet.reason)));
        }
        drop(packets);
        for (i, lookups, bail) in &left {
            let i = *i;
            let (in_port, len, _) = trace.head((first + i) % trace.len());
            let from = i * self.stride + FRONT;
            let bytes = &self.rooms[self.skip..][from..from + len];
            let mut externs = State {
                worker: self.index,
                forward: &*self.held.forward,
                counters: &self.counters,
                ports: &self.ports,
                random: &mut self.random,
                services: &self.services,
                received: bytes,
                csum: port::Csum::Valid,
                now_ns,
                late: None,
            };
            let input = Input { bytes, in_port, now_ns, start: Start::Pipeline };
            let said = self.scratch.code.said(i);
            let (forward, scratch) = (&*self.held.forward, &mut self.scratch);
            let worker = self.index;
            let externs: &mut dyn Externs = &mut externs;
            seen.interpreted(i, &mut |sink| {
                let mut resumed = Resumed::new(externs, *lookups, &said);
                (scratch.ran, scratch.reason) = (Ran::Interpreter, None);
                let verdict = forward.run(scratch, input, &mut resumed, sink);
                let reason = scratch.reason.unwrap_or_else(|| forward.reason(*bail));
                forward.tally().count(worker, scratch.ran, reason);
                (verdict, scratch.ran)
            });
        }
    }

    /// The bytes of frame `i` of the last burst, which compiled code has moved by `shift`.
    pub(crate) fn bytes(&self, i: usize, shift: i32, len: usize) -> &[u8] {
        let from = i * self.stride + FRONT;
        &self.rooms[self.skip..][from.saturating_add_signed(shift as isize)..from + len]
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.publisher.stop(self.index);
    }
}
