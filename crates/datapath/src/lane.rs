//! A worker's way through a snapshot: what counts for its packets, and the rest of a burst that
//! compiled code has left to the interpreter.
//!
//! [`Counts`] takes the counts of compiled code, [`State`] is the outside of interpreted packets. A
//! packet that compiled code gave up after some lookups is run by the interpreter from the start, by
//! the same version, so it takes the same way; [`Resumed`] leaves out what was counted already, and repeats what
//! services have said.
//!
//! Checked by: `tests/differential`, which compares every counter.

use crate::engine::Forward;
use crate::ports::PortTable;
use crate::program_state::ProgramState;
use crate::services::{Call, News, Services, one_by_one};
use interp::{Color, Externs};
use ir::program::Service;
use ir::{Bits, CounterId, EntryId, MeterId, RegisterId, TableId};
use jit::{Answered, Handed};
use port::Csum;
use port::prng::Prng;
use service::packet::{Fragment, Offsets};
use state::counters::WorkerCounters;

/// Answers the calls of services that compiled code's packets come to.
pub trait Serve {
    /// Takes packets that have come to the same call, in the order in which they came in.
    fn serve(&mut self, service: &Service, packets: &mut [Handed<'_>]);
}

/// No services: nothing happens, the answers are zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServices;

impl Serve for NoServices {
    fn serve(&mut self, _: &Service, packets: &mut [Handed<'_>]) {
        packets.iter_mut().for_each(|handed| handed.results.fill(0));
    }
}

/// The service without state that tests have ([`interp::externs::imitate`]), under every name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Imitated;

impl Serve for Imitated {
    fn serve(&mut self, service: &Service, packets: &mut [Handed<'_>]) {
        one_by_one(service, packets, |_, args, packet, results| {
            interp::externs::imitate(service, args, packet, results)
        });
    }
}

/// The services that a program declares, by number, in its copies too.
pub(crate) struct Calls<'a> {
    pub(crate) program: &'a ir::Program,
    pub(crate) serve: &'a mut dyn Serve,
}

impl jit::Services for Calls<'_> {
    fn call(&mut self, service: ir::ServiceId, packets: &mut [Handed<'_>]) {
        let declared = &self.program.services;
        let service = opt::unroll::original_service(service, declared.len());
        if let Some(service) = declared.get(service.index()) {
            self.serve.serve(service, packets);
        }
    }
}

/// Where the counts of compiled code go, and who answers its calls.
pub struct Counts<'a> {
    /// The worker's number.
    pub worker: usize,
    /// Counters of the program's tables.
    pub state: &'a ProgramState,
    /// Its share of the entries' counters.
    pub counters: &'a WorkerCounters,
    /// Who answers calls of services.
    pub services: &'a mut dyn Serve,
    /// Which ports are live.
    pub live: &'a abi::Live,
    /// The time.
    pub now_ns: u64,
}

impl<'a> Counts<'a> {
    /// As generated code reaches them.
    #[inline]
    pub fn counters(&self) -> abi::Counters<'a> {
        abi::Counters { cells: self.counters.cells(), tables: self.state.tables(self.worker) }
    }
}

/// The state that an interpreted packet reaches.
pub struct State<'a> {
    /// The worker's number.
    pub worker: usize,
    /// The version it runs by.
    pub forward: &'a dyn Forward,
    /// The worker's share of the counters.
    pub counters: &'a WorkerCounters,
    /// The ports there are.
    pub ports: &'a PortTable,
    /// Chance.
    pub random: &'a mut Prng,
    /// What programs call by name.
    pub services: &'a Services,
    /// What is known of the packet's transport checksum.
    pub csum: Csum,
    /// The time.
    pub now_ns: u64,
    /// What may wait, and what is known by then of how far it has come.
    pub late: Option<Late>,
}

/// How far a packet has come that may have to wait.
#[derive(Default)]
pub struct Late {
    /// What services say of packets that wait.
    pub news: News,
    /// What was counted before, as [`abi::Outcome::lookups`] has it.
    pub lookups: u32,
    /// Calls that were answered before, if it is a fragment: no other packet waits.
    pub answers: Option<Vec<Answered>>,
}

impl Late {
    /// Of this frame.
    pub fn of(frame: &[u8]) -> Late {
        let whole = Offsets::of(frame).fragment == Fragment::Whole;
        Late { answers: (!whole).then(Vec::new), ..Late::default() }
    }
}

impl Externs for State<'_> {
    fn port_live(&self, port: u32) -> bool {
        self.ports.is_live(port)
    }

    fn count_table(&mut self, table: TableId, hit: bool) {
        if let Some(late) = &mut self.late {
            late.lookups += u32::from(late.news.waits.is_none());
        }
        self.forward.state().count_table(self.worker, table, hit);
    }

    fn count_entry(&mut self, _table: TableId, entry: EntryId, bytes: u32) {
        self.counters.add(entry.0, 1, u64::from(bytes), self.now_ns);
    }

    fn count(&mut self, counter: CounterId, bytes: u32) {
        if let Some(late) = &mut self.late
            && late.news.waits.is_none()
        {
            late.lookups = late.lookups.saturating_add(abi::COUNTED);
        }
        self.counters.add(counter.0, 1, u64::from(bytes), self.now_ns);
    }

    fn count_indirect(&mut self, array: u32, index: u32, bytes: u32) {
        self.forward.state().count_array(self.worker, array, index, bytes);
    }

    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        match self.forward.meter(meter) {
            Some(meter) => meter.measure(self.counters, bytes, self.now_ns),
            None => Color { color: 0, level: 0 },
        }
    }

    fn service(
        &mut self,
        service: &Service,
        args: &[Bits],
        packet: &mut Vec<u8>,
        results: &mut [Bits],
    ) -> bool {
        let (csum, now_ns) = (self.csum, self.now_ns);
        // One that waits goes no further.
        if self.late.as_ref().is_some_and(|late| late.news.waits.is_some()) {
            return false;
        }
        let news = self.late.as_mut().map(|late| &mut late.news);
        let call = Call { service, args, packet, csum, now_ns, look: false, news };
        let passes = self.services.call(call, results);
        if let Some(late) = &mut self.late
            && late.news.waits.is_none()
            && let Some(answers) = &mut late.answers
        {
            let bytes = service.edits.then(|| packet.clone());
            let results = results.iter().flat_map(|result| result.limbs()).copied().collect();
            answers.push(Answered { passes, results, bytes });
        }
        passes
    }

    fn register_read(&mut self, register: RegisterId, index: u32) -> Option<Bits> {
        self.forward.state().read_register(register, index)
    }

    fn register_write(&mut self, register: RegisterId, index: u32, value: Bits) {
        self.forward.state().write_register(register, index, &value);
    }

    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        random_between(self.random, lo, hi)
    }
}

/// Externs that leave out the first table lookups, with what their entries would count, and the first counts of groups and
/// buckets, and in place of the first calls of services repeat what was answered.
pub struct Resumed<'a> {
    /// The others.
    pub externs: &'a mut dyn Externs,
    /// Lookups still to be left out.
    pub skip: u32,
    /// Groups and buckets likewise.
    counted: u32,
    /// The lookup counted last was left out.
    skipping: bool,
    /// What services have said already.
    answered: &'a [Answered],
}

impl<'a> Resumed<'a> {
    /// Leaves out what was counted, which is said as [`abi::Outcome::lookups`] says it, and calls that were answered.
    pub fn new(externs: &'a mut dyn Externs, skip: u32, answered: &'a [Answered]) -> Resumed<'a> {
        let (skip, counted) = (skip % abi::COUNTED, skip / abi::COUNTED);
        Resumed { externs, skip, counted, skipping: false, answered }
    }
}

impl Externs for Resumed<'_> {
    fn port_live(&self, port: u32) -> bool {
        self.externs.port_live(port)
    }

    fn count_table(&mut self, table: TableId, hit: bool) {
        self.skipping = self.skip > 0;
        if self.skipping {
            self.skip -= 1;
        } else {
            self.externs.count_table(table, hit);
        }
    }

    fn count_entry(&mut self, table: TableId, entry: EntryId, bytes: u32) {
        if !self.skipping {
            self.externs.count_entry(table, entry, bytes);
        }
    }

    fn count(&mut self, counter: CounterId, bytes: u32) {
        match self.counted.checked_sub(1) {
            Some(left) => self.counted = left,
            None => self.externs.count(counter, bytes),
        }
    }

    fn count_indirect(&mut self, array: u32, index: u32, bytes: u32) {
        self.externs.count_indirect(array, index, bytes);
    }

    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        self.externs.meter(meter, bytes)
    }

    fn service(
        &mut self,
        service: &Service,
        args: &[Bits],
        packet: &mut Vec<u8>,
        results: &mut [Bits],
    ) -> bool {
        let Some((first, rest)) = self.answered.split_first() else {
            return self.externs.service(service, args, packet, results);
        };
        self.answered = rest;
        let mut words = &first.results[..];
        for result in results {
            *result = Bits::from_words(words, result.width());
            words = words.get(result.limbs().len()..).unwrap_or_default();
        }
        if let Some(bytes) = &first.bytes
            && bytes.len() == packet.len()
        {
            packet.copy_from_slice(bytes);
        }
        first.passes
    }

    fn register_read(&mut self, register: RegisterId, index: u32) -> Option<Bits> {
        self.externs.register_read(register, index)
    }

    fn register_write(&mut self, register: RegisterId, index: u32, value: Bits) {
        self.externs.register_write(register, index, value);
    }

    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        self.externs.random(lo, hi)
    }
}

/// A random value between two others, both included; `lo` if there is none.
fn random_between(random: &mut Prng, lo: &Bits, hi: &Bits) -> Bits {
    if hi.compare(lo).is_lt() {
        return lo.clone();
    }
    let width = lo.width();
    let bytes: Vec<u8> = (0..width.div_ceil(8)).map(|_| random.below(256) as u8).collect();
    let any = Bits::from_be_bytes(&bytes, width);
    match (lo.to_u128(), hi.to_u128()) {
        (Some(lo), Some(hi)) => {
            let (span, any) = (hi - lo, any.low_u128());
            let offset = if span == u128::MAX { any } else { any % (span + 1) };
            Bits::from_u128(lo + offset, width)
        }
        // Above 128 bits: the high bits decide, so clamping hardly ever happens.
        _ if any.compare(lo).is_lt() => lo.clone(),
        _ if any.compare(hi).is_gt() => hi.clone(),
        _ => any,
    }
}
