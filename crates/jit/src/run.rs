//! The driver: a burst on its way through the segments.
//!
//! A service that was called has remembered that. So a packet that bails out behind a call takes the answers
//! along ([`Scratch::answered`]): the interpreter, which runs it from the start, is told them again instead. What a
//! service has changed in such a packet's bytes is undone, and comes with the answer.
//!
//! A packet that was changed in front of a call is shown to the service as it would leave: the code lays the headers that it
//! has written beside the packet, and they are put in for the call. Where the service edits, and the packet is parsed again, they
//! stay; else they are taken out again, since checksums follow the difference to what was parsed.
//!
//! What a packet did to state ([`crate::state`]) it takes along likewise.
//!

#![allow(unsafe_code)]

use crate::compile::{Behind, Compiled, Node, Segment, StopNode};
use crate::frame::{Frame, Station};
use crate::host::Host;
use crate::scratch::{Call, Edited, Scratch};
use crate::state::Turn;
use crate::unit::{Handed, Services, State, Tables};
use abi::{BURST_MAX, Context, Counters, Hit, NodeIo, Packet, PointIo, status};
use classify::Review;
use smallvec::SmallVec;
use std::mem::{MaybeUninit, transmute};
use std::ptr;
use std::slice;

// Packets of a burst are bits of a word.
const _: () = assert!(BURST_MAX <= 64);

/// The numbers of the bits that are set, ascending.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let n = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            n
        })
    })
}

impl Scratch {
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
            let mut later: Option<u32> = None;
            for at in (0..self.edited.len()).rev() {
                let Edited { packet, before, .. } = self.edited[at];
                if packet as usize != n {
                    continue;
                }
                // As the next call has found it, or as it is now.
                let after = *later.get_or_insert_with(|| {
                    self.bytes.extend_from_slice(bytes);
                    (self.bytes.len() - len) as u32
                });
                self.edited[at].after = Some((after, len as u32));
                later = Some(before);
            }
            if let Some(before) = later {
                let before = before as usize;
                bytes.copy_from_slice(&self.bytes[before..before + len]);
            }
        }
    }
}

/// A burst's memory: a [`Scratch`]'s lines, by parts.
struct Block<'c> {
    at: *mut u8,
    frame: &'c Frame,
}

impl Block<'_> {
    /// The part that begins so many bytes into it. What lies there belongs to the code's frame.
    fn part<T>(&self, bytes: usize) -> *mut T {
        self.at.wrapping_add(bytes).cast()
    }

    /// What belongs to a node or stop.
    fn io(&self, station: usize) -> *mut NodeIo {
        self.part(self.frame.io(station))
    }

    /// Who waits at a point.
    fn point(&self, point: usize) -> *mut PointIo {
        self.part(self.frame.point(point))
    }

    /// Calls a segment.
    ///
    /// # Safety
    /// The segment was compiled for this machine; all of the block is as that code expects it.
    unsafe fn call(&self, segment: &Segment) {
        // SAFETY: a segment's first byte is a function of this signature (see `segment::generate`).
        let function: abi::Segment = unsafe { transmute(segment.entry.address()) };
        // SAFETY: the caller's promise.
        unsafe { function(self.at.cast()) }
    }
}

/// The context that the last burst of code has left.
pub(crate) fn context(scratch: &Scratch) -> Option<&Context> {
    let there = scratch.ran && size_of_val(&*scratch.block) >= size_of::<Context>();
    // SAFETY: the block of a burst that was run begins with a context, and no code runs while the scratch is borrowed.
    there.then(|| unsafe { &*scratch.block.as_ptr().cast::<Context>() })
}

/// What answers hold when a service is called, where debug assertions are on: nothing that one would answer.
const UNWRITTEN: u64 = 0x0dd_ba11_5eed_f00d;

/// Puts written headers, which lie among a packet's slots, into the packet, and what is there in their place.
///
/// # Safety
/// `slots` are the packet's, and have, at each of these places of which a bit is set, the address of so many of
/// its bytes, and so many bytes behind it.
unsafe fn exchange(images: &[(usize, usize)], changed: u64, slots: *mut u64, bytes: &mut [u8]) {
    let start = bytes.as_ptr() as usize;
    for (number, (at, len)) in images.iter().enumerate() {
        if changed >> number & 1 == 0 {
            continue;
        }
        // SAFETY: the caller's promise.
        let (address, image) = unsafe {
            let image = slots.byte_add(at + 8).cast::<u8>();
            (*slots.byte_add(*at), slice::from_raw_parts_mut(image, *len))
        };
        // Checked, which costs next to nothing: a wrong address would be a bug of the code's.
        let from = address as usize - start;
        bytes[from..from + len].swap_with_slice(image);
    }
}

/// Lets packets that wait for several versions of the code behind a node go on in the order in which they came in. Nothing is done
/// where all wait for one.
///
/// # Safety
/// The block is laid out for this code, and its answers are the node's.
unsafe fn in_order(segments: &[Behind], block: &Block<'_>) {
    let mut items: SmallVec<[(u64, usize); BURST_MAX]> = SmallVec::new();
    for (at, behind) in segments.iter().enumerate() {
        // SAFETY: there is a `PointIo` for every point, which nothing else refers to here, with so many items in use.
        let point = unsafe { &*block.point(behind.point) };
        items.extend(point.items[..point.len as usize].iter().map(|item| (*item, at)));
    }
    if items.first().map(|first| first.1) == items.last().map(|last| last.1) {
        return;
    }
    // Packets lie side by side; the place is below what tells them apart.
    items.sort_unstable();
    for part in items.chunk_by(|a, b| a.1 == b.1) {
        let Behind { point, segment, .. } = &segments[part[0].1];
        // SAFETY: as above.
        unsafe {
            let point = block.point(*point);
            for (to, item) in (*point).items.iter_mut().zip(part) {
                *to = item.0;
            }
            (*point).len = part.len() as u32;
            block.call(segment);
        }
    }
    for behind in segments {
        // SAFETY: as above.
        unsafe { (*block.point(behind.point)).len = 0 };
    }
}

/// The number of an item's packet, in a burst that begins there.
fn number_of(item: u64, packets: *mut Packet<'static>) -> usize {
    ((item & !abi::ITEM_PLACE_MASK) as usize - packets as usize) / size_of::<Packet<'static>>()
}

/// Bytes of action records that stay in the nearest cache, so that fetching them ahead gains nothing.
const NEAR: usize = 4096;

impl Node {
    /// Looks at answers before the code does: how many matched, or none if some answer is no action
    /// record. Has what the code will touch fetched, unless that is little.
    #[inline(always)]
    fn review(&self, records: &[u64], counters: Counters<'_>, hits: &[Hit]) -> Option<u64> {
        let Review { matches, action_max } = classify::review(hits);
        // One record more than the last answer's ends within the records.
        let end = (action_max as usize + 1).checked_mul(self.record_words)?;
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
        Some(matches.into())
    }
}

impl Compiled {
    /// Runs a burst of at most [`BURST_MAX`] packets (what is beyond stays as it is). Afterwards
    /// every packet has a status other than [`PENDING`](abi::status::PENDING).
    pub fn run(
        &self,
        tables: &impl Tables,
        counters: Counters<'_>,
        outside: &mut (impl Services + State),
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
        self.run_all(tables, counters, outside, scratch, packets, now_ns);
        // No bytes were kept: no service has seen any that might have changed them.
        if scratch.bytes.is_empty() {
            return;
        }
        for edited in &scratch.edited {
            let packet = edited.packet as usize;
            packets[packet].changed = 1;
            // Later copies are of the packet as it was edited.
            if let Some(noted) = scratch.noted.get_mut(packet) {
                let laid = usize::from(packets[packet].laid);
                let later = noted.laid[..laid].iter_mut().skip(edited.laid.into());
                later.for_each(|laid| laid.changed = 1);
            }
        }
        scratch.undo(packets);
    }

    fn run_all(
        &self,
        tables: &impl Tables,
        counters: Counters<'_>,
        outside: &mut (impl Services + State),
        scratch: &mut Scratch,
        packets: &mut [Packet<'_>],
        now_ns: u64,
    ) {
        let outside = std::ptr::from_mut(outside);
        let at = packets.as_ptr().cast();
        let several = packets.len() > 1;
        let alone = self.turn == Turn::Alone && several && scratch.pace.alone;
        let past = &raw mut *scratch.past;
        // SAFETY: the box is there as long as the scratch, and until the end of this nobody else looks into it.
        let (journal, messages) = unsafe { (&raw mut (*past).journal, &raw mut (*past).messages) };
        let mut host = Host::new(outside, journal, messages, at, (&self.widths, self.preface));
        let (groups, ways) = (tables.groups(), tables.ways().of(packets));
        let context = Context {
            packets: packets.as_mut_ptr().cast(),
            cells: counters.cells.as_ptr(),
            tables: counters.tables.as_ptr(),
            cells_len: counters.cells.ready(),
            len: packets.len() as u32,
            now_ns,
            noted: scratch.noted.as_mut_ptr(),
            images: scratch.images.as_mut_ptr(),
            images_len: 0,
            from: 0,
            state: (&raw mut host).cast(),
            left: u32::from(!alone && self.turn == Turn::Alone && several),
            reserved: 0,
            groups: groups.slots().as_ptr(),
            groups_mask: groups.slots().len() as u64 - 1,
            live: groups.live().as_ptr(),
            crcs: abi::groups::crcs().as_ptr().cast(),
            logs: abi::groups::LOGS.as_ptr(),
            ways: ways.places(),
            mbufs: ways.mbufs(),
            dealt: abi::Dealt::NONE,
        };
        let block = Block { at: scratch.block.as_mut_ptr().cast(), frame: &self.frame };
        // SAFETY: the block was laid out for this code, and begins with a context.
        unsafe { block.at.cast::<Context>().write(context) };
        scratch.ran = true;
        let (mut asked, mut asks) = (0, 0);
        // One call for both ways, so that all of it is in one place.
        for at in 0..if alone { packets.len() } else { 1 } {
            if alone {
                // SAFETY: the context lies in the block, and no code runs.
                let context = unsafe { &mut *block.at.cast::<Context>() };
                (context.from, context.len) = (at as u32, at as u32 + 1);
            }
            // SAFETY: all that the context has the address of is there until the end of this, and used by nobody else;
            // packets are looked at by their address.
            unsafe { self.pass(tables, counters, outside, scratch, &block, context.packets) };
            if alone {
                // SAFETY: as above; the journal is the functions' that code calls.
                let packet = unsafe { &*context.packets.add(at) };
                let left = packet.status == status::BAIL;
                // What it does next comes before what those behind it do.
                // SAFETY: as above.
                unsafe { (*block.at.cast::<Context>()).left |= u32::from(left) };
                // SAFETY: as above.
                let asks_now = unsafe { (&*journal).asks() };
                asked += usize::from(asks_now != asks);
                asks = asks_now;
            }
        }
        if alone {
            scratch.pace.asked(asked, packets.len());
        } else if self.turn == Turn::Alone && several {
            let left = packets.iter().filter(|packet| packet.status == status::BAIL).count();
            scratch.pace.left(left, packets.len());
        }
    }

    /// Takes the packets that the context names through all segments.
    ///
    /// # Safety
    /// The block is laid out for this code, and begins with the burst's context, whose packets are these. `outside` is what the
    /// context's functions work with, and nobody else refers to it.
    #[inline(always)]
    unsafe fn pass<S: Services + State>(
        &self,
        tables: &impl Tables,
        counters: Counters<'_>,
        outside: *mut S,
        scratch: &mut Scratch,
        block: &Block<'_>,
        packets: *mut Packet<'static>,
    ) {
        // SAFETY: The code was compiled for this machine. A `Packet` owns its buffer for as long as it lives, and what it says
        // about it is right. The counters are those of at least as many tables as the program has. Groups and live ports
        // are borrowed, and chunks lie where slots say for as long. Where the code notes anything, there is room for what it
        // notes of every packet, and it stays within `IMAGES_BYTES`. Ways are borrowed from `tables`, and lent frames are
        // their packets', as whoever made the ways has promised.
        unsafe { block.call(&self.start) };
        if let Some((point, segment)) = &self.rest {
            // SAFETY: there is a `PointIo` for every point.
            let waiting = unsafe { &raw mut (*block.point(*point)).len };
            // SAFETY: as above.
            if unsafe { *waiting } > 0 {
                // SAFETY: as for the first segment.
                unsafe { block.call(segment) };
                // SAFETY: as above.
                unsafe { *waiting = 0 };
            }
        }
        for i in &self.waited {
            let i = *i as usize;
            // SAFETY: there is a `NodeIo` for every node and stop, which nothing else refers to here.
            let waiting = std::mem::take(unsafe { &mut (*block.io(i)).len }) as usize;
            if waiting == 0 {
                continue;
            }
            let Some(node) = self.nodes.get(i) else {
                let at = i - self.nodes.len();
                // SAFETY: the block has what belongs to this code and burst; no code runs, so nobody else refers to what is outside.
                unsafe { self.stop(at, &mut *outside, scratch, block, packets) };
                continue;
            };
            // SAFETY: generated code waits at most once with each packet, so at most `BURST_MAX`
            // keys, hits and twins are in use; all of them were initialised.
            let (keys, hits, twins) = unsafe {
                let Station { keys, hits, tables } = self.frame.station(i);
                (
                    slice::from_raw_parts(block.part::<u8>(keys), waiting * node.stride),
                    slice::from_raw_parts_mut(block.part::<Hit>(hits), waiting),
                    slice::from_raw_parts(block.part::<u32>(tables), waiting),
                )
            };
            let answered = match node.mixed {
                false => {
                    let records = tables.records(i);
                    // SAFETY: as above.
                    unsafe { (*block.io(i)).records = records.as_ptr() };
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
                    let mut asked = Asked::nothing();
                    asked.list(twins);
                    tables.lookup_mixed(&asked.nodes, &asked.of[..waiting], keys, node.stride, hits)
                        // SAFETY: the block was laid out for this code.
                        && unsafe { self.answer_mixed(node, tables, counters, &asked, hits, block) }
                }
            };
            if answered && self.turn == Turn::At(i) {
                // SAFETY: as for the first segment; every answer has a whole record.
                unsafe { in_order(&node.segments, block) };
            }
            for Behind { point, lookups, segment } in &node.segments {
                let point = block.point(*point);
                // SAFETY: there is a `PointIo` for every point.
                let here = unsafe { (*point).len } as usize;
                if here == 0 {
                    continue;
                }
                if answered {
                    // SAFETY: as for the first segment; every answer has a whole record, in slices
                    // that are borrowed from `tables`.
                    unsafe { block.call(segment) };
                } else {
                    // SAFETY: so many items are in use.
                    let items = unsafe { (*point).items };
                    for item in &items[..here] {
                        let packet = number_of(*item, packets);
                        // SAFETY: items are packets of this burst.
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
    /// The block is laid out for this code, and the burst's packets are these.
    unsafe fn stop(
        &self,
        at: usize,
        services: &mut impl Services,
        scratch: &mut Scratch,
        block: &Block<'_>,
        packets: *mut Packet<'static>,
    ) {
        let stop = &self.stops[at];
        let StopNode { service, edits, images, words: (told, said), .. } = stop;
        let (told, said) = (told.max(&1), *said);
        let Station { keys: args_at, hits, .. } = self.frame.station(self.nodes.len() + at);
        // By packet, as they came in, whichever way each has come here; and each one's place.
        let (mut waiting, mut places) = (0u64, [0u8; BURST_MAX]);
        for behind in &stop.segments {
            // SAFETY: there is a `PointIo` for every point, with so many items in use.
            let point = unsafe { &*block.point(behind.point) };
            for item in &point.items[..point.len as usize] {
                let packet = number_of(*item, packets) % BURST_MAX;
                waiting |= 1 << packet;
                places[packet] = (item & abi::ITEM_PLACE_MASK) as u8;
            }
        }
        let first = scratch.answered[at];
        let answers = scratch.answers[first..first + BURST_MAX * said].as_mut_ptr();
        let slots = self.frame.state() + self.slots.start() as usize;
        let slots = |packet: usize| block.part::<u64>(slots + packet * self.slots.stride as usize);
        // Which of its headers were written.
        let changed = |packet: usize| match images.is_empty() {
            true => 0,
            // SAFETY: the slots of every packet of a burst are there, of words; the code has stored this one.
            false => unsafe { *slots(packet).byte_add(self.slots.changed as usize) },
        };
        let edited = edits.then_some(scratch.edited.len());
        // Written where they are read: they are several thousand octets.
        let mut handed = [const { MaybeUninit::<Handed<'_>>::uninit() }; BURST_MAX];
        for (packet, handed) in ones(waiting).zip(&mut handed) {
            let place = usize::from(places[packet]);
            // SAFETY: items are numbers of packets of this burst, each there once, so that no bytes are
            // borrowed twice; places are below `BURST_MAX`, each there once.
            let (laid, bytes, args, results) = unsafe {
                let shown = &mut *packets.add(packet);
                let (laid, (data, len)) = (shown.laid, shown.bytes());
                (
                    laid,
                    slice::from_raw_parts_mut(data, len),
                    slice::from_raw_parts(block.part::<u64>(args_at).add(place * told), *told),
                    slice::from_raw_parts_mut(answers.add(packet * said), said),
                )
            };
            if *edits {
                let before = scratch.bytes.len() as u32;
                let (packet, len) = (packet as u32, bytes.len() as u32);
                scratch.edited.push(Edited { packet, laid, before, len, after: None });
                scratch.bytes.extend_from_slice(bytes);
            }
            if changed(packet) != 0 {
                // SAFETY: the slots are this packet's, and the code has laid these headers there.
                unsafe { exchange(images, changed(packet), slots(packet), bytes) };
            }
            handed.write(Handed { packet, bytes, args, results, passes: true, left: false });
        }
        // SAFETY: one was written for each packet that waits.
        let handed = unsafe {
            let len = waiting.count_ones() as usize;
            slice::from_raw_parts_mut(handed.as_mut_ptr().cast::<Handed<'_>>(), len)
        };
        if cfg!(debug_assertions) {
            handed.iter_mut().for_each(|handed| handed.results.fill(UNWRITTEN));
        }
        services.call(*service, handed);
        if cfg!(debug_assertions) {
            let forgot = |h: &Handed<'_>| h.passes && !h.left && h.results.contains(&UNWRITTEN);
            assert!(!handed.iter().any(forgot), "service {} left an answer out", stop.name);
        }
        let (mut passes, mut left) = (0, 0);
        for (packet, handed) in ones(waiting).zip(handed) {
            left |= u64::from(handed.left) << packet;
            passes |= u64::from(handed.passes) << packet;
            if !edits && changed(packet) != 0 {
                // The pass goes on: what it has written is not the packet's yet.
                // SAFETY: as above.
                unsafe { exchange(images, changed(packet), slots(packet), handed.bytes) };
            }
            let hit = Hit { entry: handed.passes.into(), action: 0 };
            // SAFETY: as above; answers for `BURST_MAX` places are the stop's.
            unsafe { *block.part::<Hit>(hits).add(usize::from(places[packet])) = hit };
            for (word, width, slot) in &stop.wide {
                let limbs = width.div_ceil(64) as usize;
                let limbs = &mut handed.results[*word..*word + limbs];
                let spare = 64 * limbs.len() as u32 - width;
                if let Some(last) = limbs.last_mut() {
                    *last &= u64::MAX >> spare;
                }
                // SAFETY: the slots of every packet of a burst are there, of words.
                unsafe {
                    let to = slots(packet).byte_add(*slot);
                    ptr::copy_nonoverlapping(limbs.as_ptr(), to, limbs.len());
                }
            }
        }
        // One answer of all packets after the other: nothing else is looked at.
        for (word, mask, slot) in &stop.narrow {
            assert!(*word < said, "an answer is one of the words that are said");
            for packet in ones(waiting) {
                // SAFETY: answers of `BURST_MAX` packets are the stop's, which nobody borrows any more; slots as above.
                unsafe {
                    let answer = answers.add(packet * said + word);
                    // Nothing above its width.
                    *answer &= mask;
                    *slots(packet).byte_add(*slot) = *answer;
                }
            }
        }
        let answered = waiting & !left;
        scratch.calls.push(Call {
            answers: (first, said),
            packets: answered,
            passes,
            handed: waiting,
            edited,
        });
        if left != 0 {
            // SAFETY: the block and the packets are these.
            unsafe { self.leave(stop, left, block, packets) };
        }
        for Behind { point, segment, .. } in &stop.segments {
            // SAFETY: there is a `PointIo` for every point.
            let len = unsafe { &raw mut (*block.point(*point)).len };
            // SAFETY: as above.
            if unsafe { *len } > 0 {
                // SAFETY: as for the first segment.
                unsafe {
                    block.call(segment);
                    *len = 0;
                }
            }
        }
    }

    /// Packets that wait at a stop and that its service has left bail out there.
    ///
    /// # Safety
    /// The block is laid out for this code, and the burst's packets are these.
    #[cold]
    unsafe fn leave(
        &self,
        stop: &StopNode,
        left: u64,
        block: &Block<'_>,
        packets: *mut Packet<'static>,
    ) {
        for behind in &stop.segments {
            // SAFETY: there is a `PointIo` for every point, which nothing else refers to here, with so many items in use.
            let point = unsafe { &mut *block.point(behind.point) };
            let mut stay = 0;
            for at in 0..point.len as usize {
                let item = point.items[at];
                let packet = number_of(item, packets) % BURST_MAX;
                if left >> packet & 1 == 0 {
                    point.items[stay] = item;
                    stay += 1;
                    continue;
                }
                // SAFETY: items are packets of this burst.
                let packet = unsafe { &mut *packets.add(packet) };
                packet.bail(self.left_apart);
                packet.outputs_len = 0;
                packet.lookups = behind.lookups.unwrap_or(packet.lookups);
            }
            point.len = stay as _;
        }
    }

    /// Looks at answers of several tables alike before the code does, counts them, and notes where the tables' action
    /// records are. False if some answer is no action record.
    ///
    /// # Safety
    /// The block is laid out for this code.
    unsafe fn answer_mixed(
        &self,
        node: &Node,
        tables: &impl Tables,
        counters: Counters<'_>,
        asked: &Asked,
        hits: &[Hit],
        block: &Block<'_>,
    ) -> bool {
        /// What the answers of one of the tables come to.
        #[derive(Clone, Copy, Default)]
        struct Sum {
            lookups: u32,
            matches: u32,
            action_max: u32,
        }
        let of = &asked.of[..hits.len()];
        let mut sums = [Sum::default(); BURST_MAX];
        for (hit, of) in hits.iter().zip(of) {
            // Below `BURST_MAX` anyway.
            let sum = &mut sums[usize::from(*of) % BURST_MAX];
            sum.lookups += 1;
            sum.matches += u32::from(hit.is_hit());
            sum.action_max = sum.action_max.max(hit.action);
        }
        // All are looked at before any is counted.
        let mut records: [&[u64]; BURST_MAX] = [&[]; BURST_MAX];
        let mut far = false;
        for ((records, twin), sum) in records.iter_mut().zip(&asked.nodes).zip(&sums) {
            let own = tables.records(*twin as usize);
            // One record more than the last answer's ends within the records.
            let end = (sum.action_max as usize + 1).checked_mul(node.record_words);
            if end.is_none_or(|end| end > own.len()) {
                return false;
            }
            // SAFETY: a twin is a node, and there is a `NodeIo` for each.
            unsafe { (*block.io(*twin as usize)).records = own.as_ptr() };
            far |= own.len() > NEAR / 8;
            *records = own;
        }
        for (twin, sum) in asked.nodes.iter().zip(&sums) {
            let table = self.nodes[*twin as usize].table;
            counters.table(table.index(), sum.lookups.into(), sum.matches.into());
        }
        if far {
            for (hit, of) in hits.iter().zip(of) {
                let records = records[usize::from(*of) % BURST_MAX];
                // The bounds were checked above.
                if let Some(record) = records.get(hit.action as usize * node.record_words) {
                    classify::prefetch(record);
                }
            }
        }
        if node.counters && counters.cells.is_far() {
            hits.iter().for_each(|hit| counters.cells.prefetch(hit.entry));
        }
        true
    }
}

/// Which nodes' tables the keys of a burst ask.
struct Asked {
    /// Each once, if its number is a small one, as nearly all are.
    nodes: SmallVec<[u32; BURST_MAX]>,
    /// Each key's, as a place among them.
    of: [u8; BURST_MAX],
}

impl Asked {
    /// Nothing is asked yet.
    #[inline(always)]
    fn nothing() -> Asked {
        const { assert!(BURST_MAX < 256) };
        Asked { nodes: SmallVec::new(), of: [0; BURST_MAX] }
    }

    /// By at most [`BURST_MAX`] keys.
    fn list(&mut self, twins: &[u32]) {
        /// Nodes below this are told apart.
        const SMALL: usize = 256;
        // One more than the place.
        let mut places = [0u8; SMALL];
        for (of, twin) in self.of.iter_mut().zip(twins) {
            let known = places.get(*twin as usize).copied().unwrap_or(0);
            *of = match known.checked_sub(1) {
                Some(place) => place,
                None => {
                    let place = self.nodes.len() as u8;
                    self.nodes.push(*twin);
                    if let Some(known) = places.get_mut(*twin as usize) {
                        *known = place + 1;
                    }
                    place
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Answered;

    #[test]
    fn bits_are_numbered_from_the_lowest() {
        assert_eq!(ones(0).count(), 0);
        assert_eq!(ones(1 << 63 | 0b10010).collect::<Vec<_>>(), [1, 4, 63]);
        assert!(ones(u64::MAX).eq(0..64));
    }

    #[test]
    fn a_packet_is_told_its_own_answers_call_by_call() {
        let mut scratch = Scratch::new();
        scratch.answers = (0..2 * BURST_MAX as u64 + BURST_MAX as u64).collect();
        let call = |first, words, packets, passes, edited| Call {
            answers: (first, words),
            handed: packets,
            packets,
            passes,
            edited,
        };
        let edited = |packet, after| Edited { packet, laid: 0, before: 0, len: 0, after };
        scratch.calls = vec![
            call(0, 2, 0b1101, 0b0101, None),
            call(2 * BURST_MAX, 1, 1 << 63 | 0b1010, 1 << 63, Some(0)),
        ];
        scratch.edited = vec![edited(1, None), edited(3, Some((1, 2))), edited(63, Some((0, 1)))];
        scratch.bytes = vec![7, 8, 9];
        let answered = |passes, results: &[u64], bytes: Option<&[u8]>| Answered {
            passes,
            results: SmallVec::from_slice(results),
            bytes: bytes.map(<[u8]>::to_vec),
        };
        assert_eq!(scratch.answered(0), [answered(true, &[0, 1], None)]);
        assert_eq!(scratch.answered(1), [answered(false, &[129], None)]);
        assert_eq!(scratch.answered(2), [answered(true, &[4, 5], None)]);
        let both = [answered(false, &[6, 7], None), answered(false, &[131], Some(&[8, 9]))];
        assert_eq!(scratch.answered(3), both);
        assert_eq!(scratch.answered(4), []);
        assert_eq!(scratch.answered(63), [answered(true, &[191], Some(&[7]))]);
        assert!([1, 3, 63].map(|n| scratch.was_edited(n)) == [true; 3] && !scratch.was_edited(0));
    }
}
