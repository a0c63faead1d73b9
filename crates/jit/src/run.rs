//! The driver: a burst on its way through the segments.
//!
//! Cost: nothing is allocated per burst once a [`Scratch`] has served the same code before.

#![allow(unsafe_code)]

use crate::compile::{Compiled, Node, Segment};
use crate::unit::{Counts, Tables};
use abi::{BURST_MAX, Context, Hit, LogEntry, NodeIo, Packet};
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
    /// Keys, hits and items of every node, one after the other.
    keys: Vec<Line>,
    hits: Vec<Hit>,
    items: Vec<u32>,
    nodes: Vec<NodeIo>,
    /// Action records of the answers at the node that is looked up now.
    records: Vec<*const u64>,
    log: Vec<LogEntry>,
}

// SAFETY: the pointers in `nodes` are into the other vectors, and those in `records` are set anew by
// every burst before they are used.
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
        let keys: usize = code.nodes.iter().map(|n| lines(BURST_MAX * n.stride)).sum();
        self.keys.clear();
        self.keys.resize(keys, Line([0; 64]));
        self.hits.clear();
        self.hits.resize(BURST_MAX * code.nodes.len(), Hit { entry: Hit::MISS_ENTRY, action: 0 });
        self.items.clear();
        self.items.resize(BURST_MAX * code.nodes.len(), 0);
        self.log.clear();
        self.log.resize(BURST_MAX * code.log_max, LogEntry::default());
        self.records.clear();
        self.records.resize(BURST_MAX, ptr::null());
        self.nodes.clear();
        let mut key = 0;
        for (i, node) in code.nodes.iter().enumerate() {
            self.nodes.push(NodeIo {
                records: self.records.as_ptr(),
                keys: self.keys[key..].as_mut_ptr().cast(),
                hits: self.hits[BURST_MAX * i..].as_mut_ptr(),
                items: self.items[BURST_MAX * i..].as_mut_ptr(),
                len: 0,
                reserved: 0,
            });
            key += lines(BURST_MAX * node.stride);
        }
        self.id = Some(code.id);
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

/// Finds the action record of each answer, and has it and the entries' counters fetched. False: some
/// answer is no action record, which must not be read.
#[inline(always)]
fn prepare(
    node: &Node,
    records: &[u64],
    counts: &impl Counts,
    hits: &[Hit],
    places: &mut [*const u64],
) -> bool {
    let mut sound = true;
    for (hit, place) in hits.iter().zip(places) {
        let first = hit.action as usize * node.record_words;
        match records.get(first..first + node.record_words) {
            Some(record) => {
                classify::prefetch(&record[0]);
                *place = record.as_ptr();
            }
            None => sound = false,
        }
        if node.counters && hit.is_hit() {
            counts.prefetch(hit.entry);
        }
    }
    sound
}

impl Compiled {
    /// Runs a burst of at most [`BURST_MAX`] packets (what is beyond stays as it is). Afterwards
    /// every packet has a status other than [`PENDING`](abi::status::PENDING).
    pub fn run(
        &self,
        tables: &impl Tables,
        counts: &mut impl Counts,
        scratch: &mut Scratch,
        packets: &mut [Packet<'_>],
        now_ns: u64,
    ) {
        let n = packets.len().min(BURST_MAX);
        let packets = &mut packets[..n];
        if !self.runs_here {
            packets.iter_mut().for_each(|packet| packet.bail(self.table_changed));
            return;
        }
        scratch.prepare(self);
        let packets: *mut Packet<'static> = packets.as_mut_ptr().cast();
        let nodes = scratch.nodes.as_mut_ptr();
        let mut context = Context {
            packets,
            state: scratch.state.as_mut_ptr().cast(),
            nodes,
            log: scratch.log.as_mut_ptr(),
            log_len: 0,
            len: n as u32,
            now_ns,
        };
        // SAFETY: the code was compiled for this machine, and the buffers were laid out for it. A
        // `Packet` owns its buffer for as long as it lives, and what it says about it is right. A
        // segment logs at most `log_max` lookups of each packet, and the log is emptied below.
        unsafe { call(&self.start, &mut context) };
        self.count_log(counts, &mut context);
        for (i, node) in self.nodes.iter().enumerate() {
            let Some(segment) = &node.segment else { continue };
            // SAFETY: there is a `NodeIo` for every node.
            let io = unsafe { &mut *nodes.add(i) };
            let waiting = io.len as usize;
            if waiting == 0 {
                continue;
            }
            // SAFETY: generated code waits at most once with each packet, so at most `BURST_MAX`
            // items, keys and hits are in use; all of them were initialised.
            let (keys, hits, items) = unsafe {
                (
                    slice::from_raw_parts(io.keys, waiting * node.stride),
                    slice::from_raw_parts_mut(io.hits, waiting),
                    slice::from_raw_parts(io.items, waiting),
                )
            };
            let places = &mut scratch.records[..waiting];
            let answered = match node.mixed {
                true => self.answer_mixed(i, tables, counts, items, keys, hits, places),
                false => {
                    let answered = tables.lookup(i, keys, node.stride, hits);
                    answered & prepare(node, tables.records(i), counts, hits, places)
                }
            };
            if !answered {
                for item in items {
                    let packet = (*item & abi::ITEM_PACKET_MASK) as usize;
                    // SAFETY: items are numbers of packets of this burst.
                    let packet = unsafe { &mut *packets.add(packet) };
                    packet.bail(self.table_changed);
                    packet.outputs_len = 0;
                }
                io.len = 0;
                continue;
            }
            let mut matches = 0;
            for (hit, item) in hits.iter().zip(items) {
                let packet = (*item & abi::ITEM_PACKET_MASK) as usize;
                // SAFETY: as above.
                let packet = unsafe { &mut *packets.add(packet) };
                packet.lookups += 1;
                matches += u32::from(hit.is_hit());
                let mut table = node.table;
                if node.mixed {
                    table = self.nodes[(*item >> abi::ITEM_NODE_SHIFT) as usize].table;
                    counts.table(table, 1, u32::from(hit.is_hit()));
                }
                if node.counters && hit.is_hit() {
                    counts.entry(table, hit.entry, packet.len());
                }
            }
            if !node.mixed {
                counts.table(node.table, waiting as u32, matches);
            }
            // SAFETY: as for the first segment; every answer has a whole record, in slices that
            // are borrowed from `tables`.
            unsafe { call(segment, &mut context) };
            // SAFETY: as above; the reference made before is not used any more.
            unsafe { (*nodes.add(i)).len = 0 };
            self.count_log(counts, &mut context);
        }
    }

    /// Looks up keys of several tables alike.
    #[allow(clippy::too_many_arguments)]
    fn answer_mixed(
        &self,
        leader: usize,
        tables: &impl Tables,
        counts: &impl Counts,
        items: &[u32],
        keys: &[u8],
        hits: &mut [Hit],
        places: &mut [*const u64],
    ) -> bool {
        let node = &self.nodes[leader];
        let node_of = |at: usize| (items[at] >> abi::ITEM_NODE_SHIFT) as usize;
        let mut answered = tables.lookup_mixed(node_of, keys, node.stride, hits);
        for (at, (hit, place)) in hits.iter().zip(places).enumerate() {
            let records = tables.records(node_of(at));
            let (hit, place) = (std::slice::from_ref(hit), std::slice::from_mut(place));
            answered &= prepare(node, records, counts, hit, place);
        }
        answered
    }

    /// Counts what generated code looked up itself.
    fn count_log(&self, counts: &mut impl Counts, context: &mut Context) {
        if context.log_len == 0 {
            return;
        }
        // SAFETY: generated code wrote so many entries, within the log.
        let log = unsafe { slice::from_raw_parts(context.log, context.log_len as usize) };
        for entry in log {
            let table = ir::TableId(entry.table);
            let matched = entry.entry != Hit::MISS_ENTRY;
            counts.table(table, 1, u32::from(matched));
            if matched && self.counters.get(table.index()).copied().unwrap_or(false) {
                counts.entry(table, entry.entry, entry.bytes);
            }
        }
        context.log_len = 0;
    }
}
