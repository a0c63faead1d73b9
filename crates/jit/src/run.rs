//! The driver: a burst on its way through the segments.
//!
//! A service that was called has remembered that. So a packet that bails out behind a call takes the answers
//! along ([`Scratch::answered`]): the interpreter, which runs it from the start, is told them again instead. What a
//! service has changed in such a packet's bytes is undone, and comes with the answer.
//!
//! Cost: nothing is allocated per burst once a [`Scratch`] has served the same code before.

#![allow(unsafe_code)]

use crate::compile::{Behind, Compiled, Node, Segment, StopNode};
use crate::unit::{Handed, Services, Tables};
use abi::{BURST_MAX, Context, Counters, Hit, NodeIo, Packet, PointIo, status};
use smallvec::SmallVec;
use std::mem::transmute;
use std::ptr;
use std::slice;

/// Memory with the alignment of a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Buffers of a burst, used again from burst to burst.
#[derive(Default)]
pub struct Scratch {
    /// The code that they are laid out for.
    id: Option<u64>,
    state: Vec<Line>,
    /// Keys, hits, twins and items of every node and point, one after the other.
    keys: Vec<Line>,
    hits: Vec<Hit>,
    tables: Vec<u32>,
    items: Vec<u32>,
    nodes: Vec<NodeIo>,
    points: Vec<PointIo>,
    /// Answers of services, stop by stop.
    answers: Vec<u64>,
    /// Where each stop's begin.
    answered: Vec<usize>,
    /// Calls of the last burst, in order.
    calls: Vec<Call>,
    /// Bytes of packets before calls that might change them, and after.
    bytes: Vec<u8>,
}

/// A packet was handed to a service.
#[derive(Clone, Copy, Debug)]
struct Call {
    packet: usize,
    /// Its answers begin here, so many words.
    answers: (usize, usize),
    passes: bool,
    /// For a service that edits: where the packet's bytes before the call are.
    before: Option<usize>,
    /// And behind it, if the packet has bailed out: where they are, and how many.
    after: Option<(usize, usize)>,
}

/// What a service has said of a packet, and made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The packet goes on.
    pub passes: bool,
    /// Its answers, as [`Handed::results`].
    pub results: SmallVec<[u64; 16]>,
    /// The packet's bytes behind the call, if the service may have changed them.
    pub bytes: Option<Vec<u8>>,
}

// SAFETY: the pointers in `nodes` and `points` are into the other vectors, but for those to records,
// which every burst sets anew before they are used.
unsafe impl Send for Scratch {}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scratch(for {:?})", self.id)
    }
}

impl Scratch {
    /// Nothing yet.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    fn prepare(&mut self, code: &Compiled) {
        if self.id == Some(code.id) {
            return;
        }
        let lines = |bytes: usize| bytes.div_ceil(64);
        let slots = &code.slots;
        let state = slots.start() as usize + BURST_MAX * slots.stride as usize;
        self.state.clear();
        self.state.resize(lines(state), Line([0; 64]));
        let told = code.stops.iter().map(|stop| 8 * stop.words.0.max(1));
        let strides: Vec<usize> = code.nodes.iter().map(|n| n.stride).chain(told).collect();
        let keys: usize = strides.iter().map(|stride| lines(BURST_MAX * stride)).sum();
        self.keys.clear();
        self.keys.resize(keys, Line([0; 64]));
        self.hits.clear();
        self.hits.resize(BURST_MAX * strides.len(), Hit { entry: Hit::MISS_ENTRY, action: 0 });
        self.tables.clear();
        self.tables.resize(BURST_MAX * strides.len(), 0);
        self.answered.clear();
        let mut answers = 0;
        for stop in &code.stops {
            self.answered.push(answers);
            answers += BURST_MAX * stop.words.1;
        }
        self.answers.clear();
        self.answers.resize(answers, 0);
        self.items.clear();
        self.items.resize(BURST_MAX * code.points, 0);
        self.nodes.clear();
        let mut key = 0;
        for (i, stride) in strides.into_iter().enumerate() {
            self.nodes.push(NodeIo {
                records: ptr::null(),
                keys: self.keys[key..].as_mut_ptr().cast(),
                hits: self.hits[BURST_MAX * i..].as_mut_ptr(),
                tables: self.tables[BURST_MAX * i..].as_mut_ptr(),
                len: 0,
                reserved: 0,
            });
            key += lines(BURST_MAX * stride);
        }
        let items = self.items.chunks_exact_mut(BURST_MAX);
        let point = |items: &mut [u32]| PointIo { items: items.as_mut_ptr(), len: 0, reserved: 0 };
        self.points = items.map(point).collect();
        self.id = Some(code.id);
    }

    /// A burst is run without code: no service has seen any of its packets.
    pub fn forget(&mut self) {
        self.calls.clear();
        self.bytes.clear();
    }

    /// What services have said of a packet of the last burst, call by call. Bytes are there for packets that
    /// have bailed out.
    pub fn answered(&self, packet: usize) -> Vec<Answered> {
        // Nearly always.
        if self.calls.is_empty() {
            return Vec::new();
        }
        let calls = self.calls.iter().filter(|call| call.packet == packet);
        let answered = calls.map(|call| {
            let (from, words) = call.answers;
            Answered {
                passes: call.passes,
                results: SmallVec::from_slice(&self.answers[from..from + words]),
                bytes: call.after.map(|(from, len)| self.bytes[from..from + len].to_vec()),
            }
        });
        answered.collect()
    }

    /// Some service has seen, and might have changed, this packet of the last burst.
    pub fn was_edited(&self, packet: usize) -> bool {
        self.calls.iter().any(|call| call.packet == packet && call.before.is_some())
    }

    /// Packets that have bailed out behind calls that changed their bytes are as they came in again.
    fn undo(&mut self, packets: &mut [Packet<'_>]) {
        for (n, packet) in packets.iter_mut().enumerate() {
            if packet.status != status::BAIL {
                continue;
            }
            packet.changed = 0;
            let (data, len) = packet.bytes();
            // SAFETY: a packet owns its bytes, and nothing else looks at them here.
            let bytes = unsafe { slice::from_raw_parts_mut(data, len) };
            let mut later: Option<usize> = None;
            for at in (0..self.calls.len()).rev() {
                let Call { packet, before: Some(before), .. } = self.calls[at] else { continue };
                if packet != n {
                    continue;
                }
                // As the next call has found it, or as it is now.
                let after = *later.get_or_insert_with(|| {
                    self.bytes.extend_from_slice(bytes);
                    self.bytes.len() - len
                });
                self.calls[at].after = Some((after, len));
                later = Some(before);
            }
            if let Some(before) = later {
                bytes.copy_from_slice(&self.bytes[before..before + len]);
            }
        }
    }
}

/// Calls a segment.
///
/// # Safety
/// The segment was compiled for this machine; all of `context` is as that code expects it.
unsafe fn call(segment: &Segment, context: &mut Context) {
    // SAFETY: a segment's first byte is a function of this signature (see `segment::generate`).
    let function: abi::Segment = unsafe { transmute(segment.entry.address()) };
    // SAFETY: the caller's promise.
    unsafe { function(context) }
}

/// Bytes of action records that stay in the nearest cache, so that fetching them ahead gains nothing.
const NEAR: usize = 4096;

impl Node {
    /// Looks at answers before the code does: how many matched, or none if some answer is no action
    /// record. Has what the code will touch fetched, unless that is little.
    #[inline(always)]
    fn review(&self, records: &[u64], counters: Counters<'_>, hits: &[Hit]) -> Option<u64> {
        let (mut matches, mut last) = (0u64, 0u32);
        for hit in hits {
            matches += u64::from(hit.is_hit());
            last = last.max(hit.action);
        }
        // One record more than the last answer's ends within the records.
        let end = (last as usize + 1).checked_mul(self.record_words)?;
        if end > records.len() {
            return None;
        }
        if records.len() > NEAR / 8 {
            for hit in hits {
                // The bounds were checked above.
                if let Some(record) = records.get(hit.action as usize * self.record_words) {
                    classify::prefetch(record);
                }
            }
        }
        if self.counters && counters.cells.is_far() {
            hits.iter().for_each(|hit| counters.cells.prefetch(hit.entry));
        }
        Some(matches)
    }
}

impl Compiled {
    /// Runs a burst of at most [`BURST_MAX`] packets (what is beyond stays as it is). Afterwards
    /// every packet has a status other than [`PENDING`](abi::status::PENDING).
    pub fn run(
        &self,
        tables: &impl Tables,
        counters: Counters<'_>,
        services: &mut impl Services,
        scratch: &mut Scratch,
        packets: &mut [Packet<'_>],
        now_ns: u64,
    ) {
        let n = packets.len().min(BURST_MAX);
        let packets = &mut packets[..n];
        scratch.forget();
        if !self.runs_here || counters.tables.len() < self.tables {
            packets.iter_mut().for_each(|packet| packet.bail(self.table_changed));
            return;
        }
        scratch.prepare(self);
        self.run_all(tables, counters, services, scratch, packets, now_ns);
        let mut edited = false;
        for call in scratch.calls.iter().filter(|call| call.before.is_some()) {
            edited = true;
            packets[call.packet].changed = 1;
        }
        if edited {
            scratch.undo(packets);
        }
    }

    fn run_all(
        &self,
        tables: &impl Tables,
        counters: Counters<'_>,
        services: &mut impl Services,
        scratch: &mut Scratch,
        packets: &mut [Packet<'_>],
        now_ns: u64,
    ) {
        let n = packets.len();
        let packets: *mut Packet<'static> = packets.as_mut_ptr().cast();
        let (nodes, points) = (scratch.nodes.as_mut_ptr(), scratch.points.as_mut_ptr());
        let mut context = Context {
            packets,
            state: scratch.state.as_mut_ptr().cast(),
            nodes,
            points,
            cells: counters.cells.as_ptr(),
            tables: counters.tables.as_ptr(),
            cells_len: counters.cells.ready(),
            len: n as u32,
            now_ns,
        };
        // SAFETY: the code was compiled for this machine, and the buffers were laid out for it. A
        // `Packet` owns its buffer for as long as it lives, and what it says about it is right. The
        // counters are those of at least as many tables as the program has.
        unsafe { call(&self.start, &mut context) };
        if let Some((point, segment)) = &self.rest {
            // SAFETY: there is a `PointIo` for every point.
            let waiting = unsafe { &raw mut (*points.add(*point)).len };
            // SAFETY: as above.
            if unsafe { *waiting } > 0 {
                // SAFETY: as for the first segment.
                unsafe { call(segment, &mut context) };
                // SAFETY: as above.
                unsafe { *waiting = 0 };
            }
        }
        for i in &self.waited {
            let i = *i as usize;
            // SAFETY: there is a `NodeIo` for every node and stop.
            let io = unsafe { &mut *nodes.add(i) };
            let waiting = io.len as usize;
            if waiting == 0 {
                continue;
            }
            io.len = 0;
            let Some(node) = self.nodes.get(i) else {
                let at = i - self.nodes.len();
                // SAFETY: `context` has what belongs to this code and burst; `io` is the stop's.
                unsafe { self.stop(at, io, services, scratch, &mut context) };
                continue;
            };
            // SAFETY: generated code waits at most once with each packet, so at most `BURST_MAX`
            // keys, hits and twins are in use; all of them were initialised.
            let (keys, hits, twins) = unsafe {
                (
                    slice::from_raw_parts(io.keys, waiting * node.stride),
                    slice::from_raw_parts_mut(io.hits, waiting),
                    slice::from_raw_parts(io.tables, waiting),
                )
            };
            let answered = match node.mixed {
                false => {
                    let records = tables.records(i);
                    io.records = records.as_ptr();
                    let matches = tables
                        .lookup(i, keys, node.stride, hits)
                        .then(|| node.review(records, counters, hits))
                        .flatten();
                    if let Some(matches) = matches {
                        counters.table(node.table.index(), waiting as u64, matches);
                    }
                    matches.is_some()
                }
                true => {
                    let table = |at: usize| twins[at] as usize;
                    // SAFETY: `nodes` has a `NodeIo` for every node, and `io` is not used
                    // meanwhile.
                    tables.lookup_mixed(table, keys, node.stride, hits)
                        && unsafe { self.answer_mixed(node, tables, counters, twins, hits, nodes) }
                }
            };
            for Behind { point, lookups, segment } in &node.segments {
                // SAFETY: there is a `PointIo` for every point.
                let point = unsafe { points.add(*point) };
                // SAFETY: as above.
                let here = unsafe { (*point).len } as usize;
                if here == 0 {
                    continue;
                }
                if answered {
                    // SAFETY: as for the first segment; every answer has a whole record, in slices
                    // that are borrowed from `tables`.
                    unsafe { call(segment, &mut context) };
                } else {
                    // SAFETY: so many items are in use.
                    let items = unsafe { slice::from_raw_parts((*point).items, here) };
                    for item in items {
                        let packet = (*item >> abi::ITEM_PACKET_SHIFT) as usize;
                        // SAFETY: items are numbers of packets of this burst.
                        let packet = unsafe { &mut *packets.add(packet) };
                        packet.bail(self.table_changed);
                        packet.outputs_len = 0;
                        packet.lookups = lookups.unwrap_or(packet.lookups);
                    }
                }
                // SAFETY: as above.
                unsafe { (*point).len = 0 };
            }
        }
    }

    /// Hands the packets that wait at a stop to its service, and lets them go on.
    ///
    /// # Safety
    /// `context` and `io` are laid out for this code; the burst's packets are nobody else's.
    unsafe fn stop(
        &self,
        at: usize,
        io: &NodeIo,
        services: &mut impl Services,
        scratch: &mut Scratch,
        context: &mut Context,
    ) {
        let stop = &self.stops[at];
        let StopNode { service, edits, words: (told, said), .. } = stop;
        let (told, said) = (told.max(&1), *said);
        let mut waiting: SmallVec<[u32; BURST_MAX]> = SmallVec::new();
        for behind in &stop.segments {
            // SAFETY: there is a `PointIo` for every point, with so many items in use.
            let items = unsafe {
                let point = &*context.points.add(behind.point);
                slice::from_raw_parts(point.items, point.len as usize)
            };
            waiting.extend_from_slice(items);
        }
        // By packet, as they came in, whichever way each has come here.
        if !waiting.is_sorted() {
            waiting.sort_unstable();
        }
        let split = |item: u32| {
            ((item >> abi::ITEM_PACKET_SHIFT) as usize, (item & abi::ITEM_PLACE_MASK) as usize)
        };
        let first = scratch.answered[at];
        let places = waiting.iter().map(|item| split(*item).1 + 1).max().unwrap_or(0);
        scratch.answers[first..first + places * said].fill(0);
        let answers = scratch.answers[first..first + BURST_MAX * said].as_mut_ptr();
        let mut handed: SmallVec<[Handed<'_>; BURST_MAX]> = SmallVec::new();
        for item in &waiting {
            let (packet, place) = split(*item);
            // SAFETY: items are numbers of packets of this burst, each there once, so that no bytes are
            // borrowed twice; places are below `BURST_MAX`, each there once.
            let (bytes, args, results) = unsafe {
                let (data, len) = (*context.packets.add(packet)).bytes();
                (
                    slice::from_raw_parts_mut(data, len),
                    slice::from_raw_parts(io.keys.cast::<u64>().add(place * told), *told),
                    slice::from_raw_parts_mut(answers.add(place * said), said),
                )
            };
            let before = edits.then_some(scratch.bytes.len());
            if *edits {
                scratch.bytes.extend_from_slice(bytes);
            }
            scratch.calls.push(Call {
                packet,
                answers: (first + place * said, said),
                passes: true,
                before,
                after: None,
            });
            handed.push(Handed { packet, bytes, args, results, passes: true });
        }
        services.call(*service, &mut handed);
        let calls = scratch.calls.len() - handed.len();
        let slots = self.slots.start() as usize;
        for ((item, handed), call) in
            waiting.iter().zip(&mut handed).zip(&mut scratch.calls[calls..])
        {
            let (packet, place) = split(*item);
            call.passes = handed.passes;
            // SAFETY: as above; answers for `BURST_MAX` places are the stop's.
            unsafe {
                *io.hits.add(place) = Hit { entry: handed.passes.into(), action: 0 };
            }
            let to = slots + packet * self.slots.stride as usize;
            for (word, width, slot) in &stop.results {
                // SAFETY: the slots of every packet of a burst are there, of words.
                let to = unsafe { context.state.add(to + slot).cast::<u64>() };
                if (1..=64).contains(width) {
                    // Nothing above its width.
                    let limb = handed.results[*word] & u64::MAX >> (64 - width);
                    handed.results[*word] = limb;
                    // SAFETY: as above.
                    unsafe { *to = limb };
                    continue;
                }
                let limbs = width.div_ceil(64) as usize;
                let limbs = &mut handed.results[*word..*word + limbs];
                let spare = 64 * limbs.len() as u32 - width;
                if let Some(last) = limbs.last_mut() {
                    *last &= u64::MAX >> spare;
                }
                // SAFETY: as above, of so many words.
                unsafe { ptr::copy_nonoverlapping(limbs.as_ptr(), to, limbs.len()) };
            }
        }
        drop(handed);
        for Behind { point, segment, .. } in &stop.segments {
            // SAFETY: there is a `PointIo` for every point.
            let len = unsafe { &raw mut (*context.points.add(*point)).len };
            // SAFETY: as above.
            if unsafe { *len } > 0 {
                // SAFETY: as for the first segment.
                unsafe {
                    call(segment, context);
                    *len = 0;
                }
            }
        }
    }

    /// Looks up keys of several tables alike, and notes where their action records are.
    ///
    /// # Safety
    /// `nodes` leads to a `NodeIo` for every node, which nobody else uses meanwhile.
    unsafe fn answer_mixed(
        &self,
        node: &Node,
        tables: &impl Tables,
        counters: Counters<'_>,
        twins: &[u32],
        hits: &[Hit],
        nodes: *mut NodeIo,
    ) -> bool {
        // All are looked at before any is counted.
        for (hit, twin) in hits.iter().zip(twins) {
            let records = tables.records(*twin as usize);
            let first = hit.action as usize * node.record_words;
            if records.get(first..first + node.record_words).is_none() {
                return false;
            }
            if records.len() > NEAR / 8 {
                classify::prefetch(&records[first]);
            }
            // SAFETY: a twin is a node.
            unsafe { (*nodes.add(*twin as usize)).records = records.as_ptr() };
        }
        let far = node.counters && counters.cells.is_far();
        for (hit, twin) in hits.iter().zip(twins) {
            let table = self.nodes[*twin as usize].table;
            counters.table(table.index(), 1, u64::from(hit.is_hit()));
            if far {
                counters.cells.prefetch(hit.entry);
            }
        }
        true
    }
}
