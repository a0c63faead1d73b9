//! The outside of packets: state, services and counters, as compiled code and the interpreter reach them.
//!
//! [`Calls`] answers compiled code, [`State`] is the outside of packets that run one at a time. A
//! packet that compiled code gave up after some lookups is run from the start, by
//! the same version, so it takes the same way; [`Resumed`] leaves out what was counted already, and repeats what
//! services have answered.
//!
//! Checked by: `tests/differential`, which compares every counter.

use crate::counts::{Counts, Serve, random_between};
use crate::engine::Forward;
use crate::ports::PortTable;
use crate::services::{Call, Services, WaitNews, WordsCall, one_by_one};
use interp::{Color, Externs, Lookup};
use ir::program::Service;
use ir::{Bits, CounterId, EntryId, MeterId, PortIs, RegisterId, TableId};
use jit::{Answered, Did, Handed, Repeatable, Said};
use port::Csum;
use port::prng::Prng;
use service::packet::{Fragment, Offsets};
use state::counters::WorkerCounters;

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

/// What compiled code reaches: the services that a program declares, by number, in its copies too; and state.
pub(crate) struct Calls<'c, 'a, F> {
    pub(crate) program: &'c ir::Program,
    pub(crate) forward: &'c F,
    pub(crate) counts: &'c mut Counts<'a>,
}

impl<F> jit::Services for Calls<'_, '_, F> {
    fn call(&mut self, service: ir::ServiceId, packets: &mut [Handed<'_>]) {
        let declared = &self.program.services;
        let service = opt::unroll::original_service(service, declared.len());
        if let Some(service) = declared.get(service.index()) {
            self.counts.services.serve(service, packets);
        }
    }
}

impl<F: Forward> jit::State for Calls<'_, '_, F> {
    #[inline]
    fn count(&mut self, array: u32, index: u32, bytes: u32) {
        match &mut self.counts.outside {
            None => self.counts.state.count_array(self.counts.worker, array, index, bytes),
            Some(outside) => outside.count_indirect(array, index, bytes),
        }
    }

    #[inline]
    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        let counts = &mut *self.counts;
        if let Some(outside) = &mut counts.outside {
            return outside.meter(meter, bytes);
        }
        match self.forward.meter(meter) {
            Some(meter) => meter.measure(counts.counters, bytes, counts.now_ns),
            None => Color::default(),
        }
    }

    #[inline]
    fn read_register(&mut self, register: RegisterId, index: u32, value: &mut [u64]) {
        match &mut self.counts.outside {
            None => self.counts.state.read_words(register, index, value),
            Some(outside) => {
                let read = outside.register_read(register, index);
                let limbs = read.iter().flat_map(Bits::limbs);
                value.iter_mut().zip(limbs).for_each(|(word, limb)| *word = *limb);
            }
        }
    }

    #[inline]
    fn write_register(&mut self, register: RegisterId, index: u32, value: &[u64]) {
        match &mut self.counts.outside {
            None => self.counts.state.write_words(register, index, value),
            Some(outside) => {
                let width = self.program.registers.get(register.index()).map_or(0, |r| r.width);
                outside.register_write(register, index, Bits::from_words(value, width));
            }
        }
    }

    fn random(&mut self, packet: usize, lo: &Bits, hi: &Bits) -> Bits {
        match &mut self.counts.outside {
            None => self.counts.random.between(packet, lo, hi),
            Some(outside) => outside.random(lo, hi),
        }
    }

    #[inline]
    fn holds_back(&mut self, packet: usize, punt: bool) -> bool {
        self.counts.held.as_mut().is_some_and(|held| held.holds_back(packet, punt))
    }

    #[inline]
    fn is_repeat(&mut self, message: &Repeatable<'_>) -> bool {
        let Counts { repeats, now_ns, .. } = &mut *self.counts;
        repeats.as_mut().is_some_and(|repeats| repeats.is_repeat(message, *now_ns))
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
    /// The frame as it came in.
    pub received: &'a [u8],
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
    /// Whether it is a fragment is known.
    asked: bool,
    /// What services say of packets that wait.
    pub news: WaitNews,
    /// What was counted before, as [`abi::Outcome::lookups`] has it.
    pub lookups: u32,
    /// Calls that were answered before, if it is a fragment: no other packet waits.
    pub answers: Option<Vec<Answered>>,
}

impl Late {
    /// A service is about to be asked of this frame.
    fn ask(&mut self, frame: &[u8]) {
        if !std::mem::replace(&mut self.asked, true)
            && Offsets::of(frame).fragment != Fragment::Whole
        {
            self.answers = Some(Vec::new());
        }
    }
}

impl State<'_> {
    /// A service has answered, which is kept if the frame may wait.
    fn answered(
        &mut self,
        service: &Service,
        passes: bool,
        packet: &[u8],
        results: impl Iterator<Item = u64>,
    ) {
        if let Some(late) = &mut self.late
            && late.news.waits.is_none()
            && let Some(answers) = &mut late.answers
        {
            let bytes = service.edits.then(|| packet.to_vec());
            answers.push(Answered { passes, results: results.collect(), bytes });
        }
    }
}

impl Externs for State<'_> {
    fn port_is(&self, what: PortIs, port: u32) -> bool {
        self.ports.is(what, port)
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

    fn count_lookups(&mut self, lookups: &[Lookup], bytes: u32) {
        if let Some(late) = &mut self.late
            && late.news.waits.is_none()
        {
            late.lookups += lookups.len() as u32;
        }
        let state = self.forward.state();
        for Lookup { table, entry, counts } in lookups {
            state.count_table(self.worker, *table, entry.is_some());
            if let Some(entry) = entry
                && *counts
            {
                self.counters.add(entry.0, 1, u64::from(bytes), self.now_ns);
            }
        }
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
        let news = self.late.as_mut().map(|late| {
            late.ask(self.received);
            &mut late.news
        });
        let call = Call { service, args, packet, csum, now_ns, look: false, news };
        let passes = self.services.call(call, results);
        let words = results.iter().flat_map(|result| result.limbs()).copied();
        self.answered(service, passes, packet, words);
        passes
    }

    fn service_words(
        &mut self,
        service: &Service,
        args: &[u64],
        packet: &mut Vec<u8>,
        results: &mut [u64],
    ) -> bool {
        let (csum, now_ns) = (self.csum, self.now_ns);
        // One that waits goes no further.
        if self.late.as_ref().is_some_and(|late| late.news.waits.is_some()) {
            return false;
        }
        let news = self.late.as_mut().map(|late| {
            late.ask(self.received);
            &mut late.news
        });
        let call = WordsCall { service, args, packet, csum, now_ns, news };
        let passes = self.services.call_words(call, results);
        self.answered(service, passes, packet, results.iter().copied());
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
/// buckets; in place of the first calls of services repeat what was answered, and in place of the first operations on state
/// what came of them.
pub struct Resumed<'a> {
    /// The others.
    pub externs: &'a mut dyn Externs,
    /// Lookups still to be left out.
    pub skip: u32,
    /// Groups and buckets likewise.
    counted: u32,
    /// The lookup counted last was left out.
    skipping: bool,
    /// What services have answered already.
    answered: &'a [Answered],
    /// What was done to state already.
    did: &'a [Did],
}

impl<'a> Resumed<'a> {
    /// Leaves out what was counted, in the form of [`abi::Outcome::lookups`], and what was answered.
    pub fn new(externs: &'a mut dyn Externs, skip: u32, answers: &'a Said) -> Resumed<'a> {
        let (skip, counted) = (skip % abi::COUNTED, skip / abi::COUNTED);
        let (answered, did) = (&answers.calls[..], &answers.did[..]);
        Resumed { externs, skip, counted, skipping: false, answered, did }
    }

    /// What came of the next operation on state, if it was done already.
    fn did(&mut self) -> Option<&'a Did> {
        let (first, rest) = self.did.split_first()?;
        self.did = rest;
        Some(first)
    }
}

impl Externs for Resumed<'_> {
    fn port_is(&self, what: PortIs, port: u32) -> bool {
        self.externs.port_is(what, port)
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

    fn count_lookups(&mut self, lookups: &[Lookup], bytes: u32) {
        let skipped = (self.skip as usize).min(lookups.len());
        self.skip -= skipped as u32;
        self.skipping = skipped == lookups.len() && skipped > 0;
        if skipped < lookups.len() {
            self.externs.count_lookups(&lookups[skipped..], bytes);
        }
    }

    fn count(&mut self, counter: CounterId, bytes: u32) {
        match self.counted.checked_sub(1) {
            Some(left) => self.counted = left,
            None => self.externs.count(counter, bytes),
        }
    }

    fn count_indirect(&mut self, array: u32, index: u32, bytes: u32) {
        match self.did() {
            None => self.externs.count_indirect(array, index, bytes),
            Some(did) => debug_assert_eq!(*did, Did::Count, "it takes the same way"),
        }
    }

    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        match self.did() {
            Some(Did::Meter(color)) => *color,
            did => {
                debug_assert_eq!(did, None, "it takes the same way");
                self.externs.meter(meter, bytes)
            }
        }
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

    fn service_words(
        &mut self,
        service: &Service,
        args: &[u64],
        packet: &mut Vec<u8>,
        results: &mut [u64],
    ) -> bool {
        let Some((first, rest)) = self.answered.split_first() else {
            return self.externs.service_words(service, args, packet, results);
        };
        self.answered = rest;
        results.iter_mut().zip(&first.results).for_each(|(to, word)| *to = *word);
        if let Some(bytes) = &first.bytes
            && bytes.len() == packet.len()
        {
            packet.copy_from_slice(bytes);
        }
        first.passes
    }

    fn register_read(&mut self, register: RegisterId, index: u32) -> Option<Bits> {
        match self.did() {
            Some(Did::Read(value)) => Some(value.clone()),
            did => {
                debug_assert_eq!(did, None, "it takes the same way");
                self.externs.register_read(register, index)
            }
        }
    }

    fn register_write(&mut self, register: RegisterId, index: u32, value: Bits) {
        match self.did() {
            None => self.externs.register_write(register, index, value),
            Some(did) => debug_assert_eq!(*did, Did::Write, "it takes the same way"),
        }
    }

    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        match self.did() {
            Some(Did::Random(value)) => value.clone(),
            did => {
                debug_assert_eq!(did, None, "it takes the same way");
                self.externs.random(lo, hi)
            }
        }
    }
}
