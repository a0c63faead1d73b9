//! A case on an engine and on its oracle, compared after every packet.

use super::case::{Case, Incoming, Step};
use super::effects::{Count, Effects, Outside, Plain, draw};
use super::{Made, Subject, Tested};
use abi::{BURST_MAX, status};
use datapath::counts::{Chance, Counts, Serve};
use datapath::externs::Resumed;
use datapath::notify::notify_one;
use datapath::services::one_by_one;
use datapath::tally::Ran;
use datapath::validate::{FullCopy, full_copies};
use datapath::{Forward, Scratch};
use interp::{Color, Externs, Input, Machine, Start};
use ir::{
    Bits, CounterId, DropReason, EntryId, MeterId, Pipeline, PortIs, RegisterId, TableId, Update,
    Verdict,
};
use smallvec::SmallVec;
use state::counters::{CounterArena, WorkerCounters};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Ids of entries, groups and buckets that are counted are below this.
pub(crate) const IDS_MAX: u32 = 4096;
/// The port that is down.
pub(crate) const DEAD_PORT: u32 = 1;
/// The port whose frames begin with a descriptor.
pub(crate) const TUNNEL_PORT: u32 = 2;
/// Bytes in front of a packet, as a port leaves them.
const HEADROOM: usize = 128;
/// Time between bursts.
const STEP_NS: u64 = 1000;

/// What a run did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) packets: u64,
    /// Of these, so many left by a port.
    pub(crate) forwarded: u64,
    /// And of these, so many as compiled code has them by more ports than a few, or by copies that differ.
    pub(crate) copied: u64,
    /// And so many of which compiled code has told the control side something.
    pub(crate) told: u64,
    /// Lookups, and those that matched.
    pub(crate) lookups: u64,
    pub(crate) matches: u64,
    pub(crate) transactions: u64,
    pub(crate) refused: u64,
    /// Packets that the code for bursts left, by the reason.
    pub(crate) bails: BTreeMap<String, u64>,
    /// Of these, so many as the interpreter ran.
    pub(crate) interpreted: u64,
}

impl Stats {
    pub(crate) fn add(&mut self, other: &Stats) {
        self.packets += other.packets;
        self.forwarded += other.forwarded;
        self.copied += other.copied;
        self.told += other.told;
        self.lookups += other.lookups;
        self.matches += other.matches;
        self.transactions += other.transactions;
        self.refused += other.refused;
        for (reason, n) in &other.bails {
            *self.bails.entry(reason.clone()).or_default() += n;
        }
        self.interpreted += other.interpreted;
    }
}

/// Where engine and oracle differ.
#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    /// The step of the case; past the last one, it is a counter.
    pub(crate) step: usize,
    /// The packet of the burst, if it is one.
    pub(crate) packet: Option<usize>,
    /// What happened, and what was right.
    pub(crate) what: String,
    /// The version that the worker forwarded by.
    pub(crate) pipeline: Option<Box<Pipeline>>,
}

/// What kind of mismatch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A packet was treated otherwise.
    Packet,
    /// A counter, a register or a version is another one.
    State,
    /// Something panicked.
    Panic,
}

impl Mismatch {
    /// What kind it is.
    pub(crate) fn kind(&self) -> Fault {
        match self.packet {
            Some(_) => Fault::Packet,
            None if self.what.starts_with("panic") => Fault::Panic,
            None => Fault::State,
        }
    }
}

/// The worker's outside, with chance by the packet's number and one port down.
struct Live<'a> {
    forward: &'a dyn Forward,
    counters: &'a WorkerCounters,
    now_ns: u64,
    seed: &'a mut u64,
    called: &'a mut Called,
}

/// How often services were called with what. They have no state, so that the order in which a burst's packets
/// come to them does not matter: what matters is that each comes to each call once.
pub(crate) type Called = BTreeMap<u64, u64>;

/// Calls a service without state, and notes that.
pub(crate) fn note(
    called: &mut Called,
    service: &ir::program::Service,
    args: &[Bits],
    packet: &mut [u8],
    results: &mut [Bits],
) -> bool {
    let mut hasher = std::hash::DefaultHasher::new();
    (&service.name, &*packet, format!("{args:?}")).hash(&mut hasher);
    *called.entry(hasher.finish()).or_default() += 1;
    interp::externs::imitate(service, args, packet, results)
}

/// Notes what compiled code hands over.
struct Noting<'a>(&'a mut Called);

impl Serve for Noting<'_> {
    fn serve(&mut self, service: &ir::program::Service, packets: &mut [jit::Handed<'_>]) {
        assert!(packets.is_sorted_by_key(|p| p.packet), "in the order in which they came");
        one_by_one(service, packets, |_, args, packet, results| {
            note(self.0, service, args, packet, results)
        });
    }
}

/// Chance by the packet's number.
struct Seeds([u64; BURST_MAX]);

impl Chance for Seeds {
    fn between(&mut self, packet: usize, lo: &Bits, hi: &Bits) -> Bits {
        draw(&mut self.0[packet], lo, hi)
    }
}

impl Externs for Live<'_> {
    fn port_is(&self, what: PortIs, port: u32) -> bool {
        match what {
            PortIs::Live => port != DEAD_PORT,
            PortIs::Tunnel => port == TUNNEL_PORT,
        }
    }

    fn count_table(&mut self, table: TableId, hit: bool) {
        self.forward.state().count_table(0, table, hit);
    }

    fn count_entry(&mut self, _: TableId, entry: EntryId, bytes: u32) {
        self.counters.add(entry.0, 1, u64::from(bytes), self.now_ns);
    }

    fn count(&mut self, counter: CounterId, bytes: u32) {
        self.counters.add(counter.0, 1, u64::from(bytes), self.now_ns);
    }

    fn count_indirect(&mut self, array: u32, index: u32, bytes: u32) {
        self.forward.state().count_array(0, array, index, bytes);
    }

    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        match self.forward.meter(meter) {
            Some(meter) => meter.measure(self.counters, bytes, self.now_ns),
            None => Color::default(),
        }
    }

    fn service(
        &mut self,
        service: &ir::program::Service,
        args: &[Bits],
        packet: &mut Vec<u8>,
        results: &mut [Bits],
    ) -> bool {
        note(self.called, service, args, packet, results)
    }

    fn register_read(&mut self, register: RegisterId, index: u32) -> Option<Bits> {
        self.forward.state().read_register(register, index)
    }

    fn register_write(&mut self, register: RegisterId, index: u32, value: Bits) {
        self.forward.state().write_register(register, index, &value);
    }

    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        draw(self.seed, lo, hi)
    }
}

/// What compiled code says of a packet, copied out so that the buffers are free again.
struct Said {
    outcome: abi::Outcome,
    copies: Vec<FullCopy>,
}

/// A worker with its oracle beside it, for one engine's counters.
pub(crate) struct Lane {
    counters: WorkerCounters,
    arena: Arc<CounterArena>,
    plain: Plain,
    number: u64,
    now_ns: u64,
    stats: Stats,
    /// Packets that the code for bursts left, by the number of the reason.
    bails: BTreeMap<u32, u64>,
    called: Called,
    /// What compiled code knows of ports.
    ports: abi::Live,
}

/// Buffers and machines, used for one case after the other.
#[derive(Default)]
pub(crate) struct Buffers {
    scratch: Scratch,
    machine: Machine,
    frames: Vec<Vec<u8>>,
    said: Vec<Said>,
    effects: Vec<Effects>,
    right: Effects,
}

impl Lane {
    /// A worker of a fresh arena.
    pub(crate) fn new(program: &ir::Program) -> Lane {
        let arena = Arc::new(CounterArena::new(4 * IDS_MAX));
        for id in 0..IDS_MAX {
            assert_eq!(arena.allocate(), Ok(id), "a fresh arena hands out ids in order");
        }
        Lane {
            counters: arena.worker(),
            plain: Plain::new(program, IDS_MAX, DEAD_PORT),
            arena,
            number: 0,
            now_ns: 0,
            stats: Stats::default(),
            bails: BTreeMap::new(),
            called: Called::new(),
            ports: {
                let ports = abi::Live::all_but([DEAD_PORT]);
                ports.set_tunnel(TUNNEL_PORT, true);
                ports
            },
        }
    }

    /// The arena that the engine takes its meters' counters from.
    pub(crate) fn arena(&self) -> &Arc<CounterArena> {
        &self.arena
    }

    /// What was done, at the end.
    pub(crate) fn stats(mut self, engine: &dyn Tested) -> Stats {
        let sentences = engine.bails();
        for (number, n) in &self.bails {
            // What is not compiled; the place in front of it is the case's own.
            let sentence = sentences.get(*number as usize).map_or("no code", |s| s);
            let what = sentence.rsplit(": ").next().unwrap_or(sentence);
            *self.stats.bails.entry(what.to_string()).or_default() += n;
        }
        self.stats
    }

    /// Another program: what belongs to the old one is compared, and begins anew.
    pub(crate) fn adopt(
        &mut self,
        old: &dyn Forward,
        before: &ir::Program,
        program: &ir::Program,
    ) -> Result<(), String> {
        self.check_state(old)?;
        self.plain.adopt(before, program);
        Ok(())
    }

    /// Runs a burst by a snapshot and by the same version of the plain pipeline. An error is the
    /// place of the packet that differs, and how.
    pub(crate) fn burst(
        &mut self,
        b: &mut Buffers,
        forward: &dyn Forward,
        pipeline: &Pipeline,
        packets: &[Incoming],
    ) -> Result<(), (usize, String)> {
        self.now_ns += STEP_NS;
        for (chunk, packets) in packets.chunks(BURST_MAX).enumerate() {
            self.subject(b, forward, packets).map_err(|(i, e)| (chunk * BURST_MAX + i, e))?;
            for (i, packet) in packets.iter().enumerate() {
                self.plain.seed = self.number + i as u64;
                self.plain.now_ns = self.now_ns;
                b.right.clear();
                let input = input(packet, self.now_ns);
                let mut outside = Outside { plain: &mut self.plain, pipeline };
                let verdict = b.machine.run(pipeline, input, &mut outside, &mut b.right, None);
                b.right.end(verdict);
                if b.effects[i] != b.right {
                    let by = match b.said[i].outcome.status {
                        status::BAIL => "the interpreter, after compiled code left it",
                        _ => "compiled code",
                    };
                    let (wrong, right) = (&b.effects[i], &b.right);
                    let text = format!("by {by}:\n{wrong}right is\n{right}");
                    return Err((chunk * BURST_MAX + i, text));
                }
                self.stats.forwarded += u64::from(b.right.forwarded());
            }
            self.number += packets.len() as u64;
            self.stats.packets += packets.len() as u64;
        }
        Ok(())
    }

    /// The engine's side of a burst: as the worker does it.
    fn subject(
        &mut self,
        b: &mut Buffers,
        forward: &dyn Forward,
        packets: &[Incoming],
    ) -> Result<(), (usize, String)> {
        if b.frames.is_empty() {
            b.frames.resize_with(BURST_MAX, Vec::new);
            b.effects.resize_with(BURST_MAX, Effects::default);
        }
        b.said.clear();
        let mut list: SmallVec<[abi::Packet<'_>; BURST_MAX]> = SmallVec::new();
        for (frame, packet) in b.frames.iter_mut().zip(packets) {
            frame.clear();
            frame.resize(HEADROOM, 0);
            frame.extend_from_slice(&packet.bytes);
            list.push(abi::Packet::new(frame, HEADROOM, packet.bytes.len(), packet.in_port));
        }
        let state = &**forward.state();
        let mut services = Noting(&mut self.called);
        let mut seeds = Seeds(std::array::from_fn(|i| self.number + i as u64));
        let answers = (&mut services as &mut _, &mut seeds as &mut _);
        let (counters, live) = (&self.counters, &self.ports);
        let mut counts = Counts::new(0, state, counters, answers, live, self.now_ns);
        forward.burst(&mut b.scratch, &mut list, &mut counts, self.now_ns);
        b.said.extend(list.iter().map(|p| Said { outcome: **p, copies: Vec::new() }));
        drop(list);
        // Before the interpreter runs any.
        for (i, (said, packet)) in b.said.iter_mut().zip(packets).enumerate() {
            let start = HEADROOM as i64 + i64::from(said.outcome.shift);
            if !(0..=b.frames[i].len() as i64).contains(&start) {
                return Err((i, format!("the packet begins {} bytes later", said.outcome.shift)));
            }
            let copies = b.scratch.code.copies(i, &said.outcome);
            said.copies =
                full_copies(&said.outcome, copies, (&b.frames[i], HEADROOM, packet.bytes.len()));
        }
        for (i, packet) in packets.iter().enumerate() {
            let (Said { outcome: said, copies }, frame, effects) =
                (&b.said[i], &b.frames[i], &mut b.effects[i]);
            effects.clear();
            let same = frame[HEADROOM..] == packet.bytes[..];
            match said.status {
                status::FORWARD | status::COPIES | status::TOLD => {
                    if !(said.changed != 0 || same && said.shift == 0) {
                        return Err((i, "its bytes changed, and nothing says so".to_string()));
                    }
                    let place = (&frame[..], HEADROOM, packet.bytes.len());
                    let mut told = b.scratch.code.told(i, said).peekable();
                    for (at, (port, queue, bytes)) in copies.iter().enumerate() {
                        while let Some(told) = told.next_if(|told| told.outputs <= at) {
                            notify_one(&told, said, place, effects);
                        }
                        effects.out(*port, *queue, bytes);
                    }
                    told.for_each(|told| notify_one(&told, said, place, effects));
                    self.stats.copied += u64::from(said.status == status::COPIES);
                    self.stats.told += u64::from(said.status == status::TOLD);
                    match b.scratch.code.verdict(i, said) {
                        Some(verdict) => effects.end(verdict),
                        None => return Err((i, "nothing became of it".to_string())),
                    }
                }
                status::DROP => match DropReason::ALL.get(said.reason as usize) {
                    Some(reason) => effects.end(Verdict::Drop(*reason)),
                    None => return Err((i, format!("{} is no reason to drop", said.reason))),
                },
                status::BAIL => {
                    if !same {
                        return Err((i, "it was left to the interpreter with other bytes".into()));
                    }
                    *self.bails.entry(said.reason).or_default() += 1;
                    let mut live = Live {
                        forward,
                        counters: &self.counters,
                        now_ns: self.now_ns,
                        seed: &mut seeds.0[i],
                        called: &mut self.called,
                    };
                    let told = b.scratch.code.said(i);
                    let mut externs = Resumed::new(&mut live, said.lookups, &told);
                    let input = input(packet, self.now_ns);
                    b.scratch.ran = Ran::Interpreter;
                    let verdict = forward.run(&mut b.scratch, input, &mut externs, effects);
                    self.stats.interpreted += u64::from(b.scratch.ran == Ran::Interpreter);
                    effects.end(verdict);
                }
                other => return Err((i, format!("its status is {other}"))),
            }
        }
        Ok(())
    }

    /// What belongs to a program: table counters, counter arrays, registers.
    pub(crate) fn check_state(&mut self, forward: &dyn Forward) -> Result<(), String> {
        let state = forward.state();
        for (i, right) in self.plain.tables.iter().enumerate() {
            let (lookups, matches) = state.table(TableId(i as u32));
            self.stats.lookups += right.0;
            self.stats.matches += right.1;
            if (lookups, matches) != *right {
                return Err(format!(
                    "table{i}: {lookups} lookups, {matches} matches; right is {}, {}\n",
                    right.0, right.1
                ));
            }
        }
        for (i, cells) in self.plain.registers.iter().enumerate() {
            for (at, right) in cells.iter().enumerate() {
                let value = state.read_register(RegisterId(i as u32), at as u32);
                if value.as_ref() != Some(right) {
                    return Err(format!("register{i}({at}): {value:?}; right is {right:?}\n"));
                }
            }
        }
        for (i, size) in self.plain.array_sizes().iter().enumerate() {
            for cell in 0..*size {
                let right = self.plain.arrays.get(&(i as u32, cell)).copied().unwrap_or_default();
                let value = state.array(i as u32, cell);
                if value != Some(right) {
                    return Err(format!("counter{i}({cell}): {value:?}; right is {right:?}\n"));
                }
            }
        }
        Ok(())
    }

    /// Counters of entries, groups and buckets.
    pub(crate) fn check_counts(&self) -> Result<(), String> {
        if self.called != self.plain.called {
            let sum = |called: &Called| called.values().sum::<u64>();
            let (is, right) = (sum(&self.called), sum(&self.plain.called));
            return Err(format!("{is} calls of services, or others; right is {right}\n"));
        }
        let reader = self.arena.reader();
        for (id, right) in (0..).zip(&self.plain.counts) {
            let value = reader.read(id).unwrap_or_default();
            let value =
                Count { packets: value.packets, bytes: value.bytes, last_ns: value.last_used_ns };
            if value != *right {
                return Err(format!("entry or counter {id}: {value:?}; right is {right:?}\n"));
            }
        }
        Ok(())
    }
}

fn input(packet: &Incoming, now_ns: u64) -> Input<'_> {
    Input { bytes: &packet.bytes, in_port: packet.in_port, now_ns, start: Start::Pipeline }
}

/// Runs a case on an engine and beside it on the oracle. A panic is a mismatch, too.
pub(crate) fn run(case: &Case, subject: &Subject, b: &mut Buffers) -> Result<Stats, Box<Mismatch>> {
    let mut at = 0;
    match catch_unwind(AssertUnwindSafe(|| walk(case, subject, b, &mut at))) {
        Ok(result) => result,
        Err(panic) => {
            *b = Buffers::default();
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(Box::new(Mismatch {
                step: at,
                packet: None,
                what: format!("panic: {text}\n"),
                pipeline: None,
            }))
        }
    }
}

fn walk(
    case: &Case,
    subject: &Subject,
    b: &mut Buffers,
    at: &mut usize,
) -> Result<Stats, Box<Mismatch>> {
    let Ok(mut truth) = Pipeline::new(case.program.clone()) else { return Ok(Stats::default()) };
    let mut lane = Lane::new(&case.program);
    let (mut engine, mut forward): Made =
        (subject.make)(case.program.clone(), lane.arena().clone());
    let mut shown = truth.clone();
    let mut before: Option<(Arc<dyn Forward>, Pipeline)> = None;
    let mut outcome = None;
    for (step, what) in case.steps.iter().enumerate() {
        *at = step;
        let fail = |what: String| {
            let pipeline = Some(Box::new(shown.clone()));
            Box::new(Mismatch { step, packet: None, what, pipeline })
        };
        let mut publish = false;
        match what {
            Step::Transact(updates) => match truth.transact(updates) {
                Ok(_) => {
                    engine.apply(&truth, updates, lane.now_ns);
                    lane.stats.transactions += 1;
                }
                Err(_) => lane.stats.refused += 1,
            },
            Step::Publish => publish = true,
            Step::Settle => publish = engine.settle() && truth.version() == shown.version(),
            Step::Work => {
                if outcome.is_none() {
                    outcome = engine.job().map(|job| job());
                }
            }
            Step::Finish => {
                if let Some(done) = outcome.take() {
                    publish = engine.finish(done) && truth.version() == shown.version();
                }
            }
            Step::Burst { late, packets } => {
                let old = before
                    .as_ref()
                    .filter(|(_, p)| *late && Arc::ptr_eq(p.program(), shown.program()));
                let (by, version) = old.map_or((&forward, &shown), |(f, p)| (f, p));
                if let Err((packet, what)) = lane.burst(b, &**by, version, packets) {
                    let pipeline = Some(Box::new(version.clone()));
                    return Err(Box::new(Mismatch { step, packet: Some(packet), what, pipeline }));
                }
            }
        }
        if publish {
            drop(before.take());
            // Whoever asks to be nudged waits for a snapshot that nobody holds.
            let next = engine.publish(&|| panic!("the engine waits for a snapshot that is free"));
            if next.version() != truth.version() {
                let (is, right) = (next.version(), truth.version());
                return Err(fail(format!("version {is} was published; right is {right}\n")));
            }
            if !Arc::ptr_eq(truth.program(), shown.program()) {
                lane.adopt(&*forward, shown.program(), truth.program()).map_err(fail)?;
            }
            let old = std::mem::replace(&mut forward, next);
            before = Some((old, std::mem::replace(&mut shown, truth.clone())));
        }
    }
    *at = case.steps.len();
    let ended = lane.check_state(&*forward).and_then(|()| lane.check_counts());
    let step = case.steps.len();
    let pipeline = || Some(Box::new(shown.clone()));
    ended.map_err(|what| Box::new(Mismatch { step, packet: None, what, pipeline: pipeline() }))?;
    Ok(lane.stats(&*engine))
}

/// A case's packets and updates, told.
pub(crate) fn updates(case: &Case) -> impl Iterator<Item = &Update> {
    case.steps.iter().flat_map(|step| match step {
        Step::Transact(updates) => &updates[..],
        _ => &[],
    })
}
