//! The driver: a burst on its way through the segments.
//!
//! Cost: nothing is allocated per burst once a [`Scratch`] has served the same code before.

#![allow(unsafe_code)]

use crate::compile::{Behind, Compiled, Node, Segment};
use crate::unit::Tables;
use abi::{BURST_MAX, Context, Counters, Hit, NodeIo, Packet, PointIo};
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
        let keys: usize = code.nodes.iter().map(|n| lines(BURST_MAX * n.stride)).sum();
        self.keys.clear();
        self.keys.resize(keys, Line([0; 64]));
        self.hits.clear();
        self.hits.resize(BURST_MAX * code.nodes.len(), Hit { entry: Hit::MISS_ENTRY, action: 0 });
        self.tables.clear();
        self.tables.resize(BURST_MAX * code.nodes.len(), 0);
        self.items.clear();
        self.items.resize(BURST_MAX * code.points, 0);
        self.nodes.clear();
        let mut key = 0;
        for (i, node) in code.nodes.iter().enumerate() {
            self.nodes.push(NodeIo {
                records: ptr::null(),
                keys: self.keys[key..].as_mut_ptr().cast(),
                hits: self.hits[BURST_MAX * i..].as_mut_ptr(),
                tables: self.tables[BURST_MAX * i..].as_mut_ptr(),
                len: 0,
                reserved: 0,
            });
            key += lines(BURST_MAX * node.stride);
        }
        let items = self.items.chunks_exact_mut(BURST_MAX);
        let point = |items: &mut [u32]| PointIo { items: items.as_mut_ptr(), len: 0, reserved: 0 };
        self.points = items.map(point).collect();
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
        scratch: &mut Scratch,
        packets: &mut [Packet<'_>],
        now_ns: u64,
    ) {
        let n = packets.len().min(BURST_MAX);
        let packets = &mut packets[..n];
        if !self.runs_here || counters.tables.len() < self.tables {
            packets.iter_mut().for_each(|packet| packet.bail(self.table_changed));
            return;
        }
        scratch.prepare(self);
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
            let (i, node) = (*i as usize, &self.nodes[*i as usize]);
            // SAFETY: there is a `NodeIo` for every node.
            let io = unsafe { &mut *nodes.add(i) };
            let waiting = io.len as usize;
            if waiting == 0 {
                continue;
            }
            io.len = 0;
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
