//! Capture: copies of frames for somebody who looks, with what became of each.
//!
//! A [`Tap`] says which frames: those that come in by a port or go out by one, those that hit some
//! entries. Workers copy frames that it wants before the pipeline edits them, follow what becomes of
//! them, and put both into the tap's ring. A worker never waits: what finds no room in the ring, or
//! would cost too much to look for, is counted as missed.
//!
//! Compiled code does not report who hits an entry. So while such a tap is there, a worker looks at the
//! entries' counters around each burst, and only if they have moved runs the burst's frames again by
//! the interpreter, on the copies and without effect, at most [`HITS_LOOKED_FOR`] a second. A packet
//! that a meter gave up later, or that read registers, may be taken for one that was not.
//!
//! A tap may be content with a [sample](Filter::rate): whole bursts are looked at as long as its rate allows,
//! and all others run as if nobody looked. Below the rate each frame is seen.
//!
//! Cost: without taps, one branch a burst; with one, a copy of each frame it wants; with one that samples, that
//! for so many frames a second, and an addition for each burst between.
//! Checked by: `switch`'s `tests/capture.rs`; `lab/capture`, with tcpdump.

use crate::engine::{Forward, Scratch};
use crate::ports::PortShared;
use crate::sink::Notified;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use interp::{Color, Externs, Input, NullExterns, Start};
use ir::{Bits, CounterId, EntryId, MeterId, PortIs, RegisterId, TableId};
use port::Frame;
use smallvec::SmallVec;
use state::counters::WorkerCounters;
use std::cell::RefCell;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// Records that wait to be taken, at most.
pub const RECORDS_MAX: usize = 4096;
/// Bytes of frames that wait to be taken, at most.
pub const BYTES_MAX: usize = 16 << 20;
/// Lookups of a frame that are reported, at most.
const LOOKUPS_TOLD: usize = 64;
/// A sample's rate may be exceeded by what it allows in this time.
const OWED_NS: u64 = 100_000_000;
/// Frames that a worker runs again for each tap on entries, a second.
pub const HITS_LOOKED_FOR: u64 = 20_000;

/// Which frames a tap wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those that come in, before anything was done with them.
    pub ingress: bool,
    /// Those that go out, as they are handed to the port.
    pub egress: bool,
    /// Of this port only.
    pub port: Option<u32>,
    /// Those that come in and hit one of the tap's entries of this table.
    pub table: Option<TableId>,
    /// Of that table, those that are looked up there, whatever they hit.
    pub any_entry: bool,
    /// Of those that come in, the ones that are dropped, or of which a copy is.
    pub dropped: bool,
    /// Told with the entries that they hit.
    pub hits: bool,
    /// Each worker looks at so many frames a second, by whole bursts; at all of them if nothing is said.
    pub rate: Option<NonZeroU32>,
    /// Bytes kept of each.
    pub snap_len: usize,
}

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It came in by the port.
    In,
    /// It went out by the port.
    Out,
}

/// What became of a frame that came in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Ports that copies were handed to.
    pub sent: SmallVec<[u32; 4]>,
    /// Why it, or copies of it, went nowhere, and the port that a copy should have gone to.
    pub dropped: SmallVec<[(&'static str, Option<u32>); 1]>,
    /// Copies that went to the control side.
    pub punted: u32,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: SmallVec<[String; 2]> = SmallVec::new();
        if !self.sent.is_empty() {
            let ports: Vec<String> = self.sent.iter().map(u32::to_string).collect();
            parts.push(format!("sent to {}", ports.join(", ")));
        }
        for (reason, port) in &self.dropped {
            parts.push(match port {
                Some(port) => format!("dropped at port {port}: {reason}"),
                None => format!("dropped: {reason}"),
            });
        }
        if self.punted > 0 {
            parts.push("to the controller".to_owned());
        }
        f.write_str(&parts.join("; "))
    }
}

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When: nanoseconds of the switch's clock.
    pub ns: u64,
    /// The port.
    pub port: u32,
    /// Which way it went there.
    pub way: Way,
    /// As many of its bytes as the filter wants.
    pub bytes: Vec<u8>,
    /// How many it had.
    pub len: usize,
    /// What became of it, if it came in.
    pub fate: Fate,
    /// The port that it had come in by, if it went out.
    pub from: Option<u32>,
    /// What it was looked up in, and the entries that it hit, where that is reported.
    pub hits: SmallVec<[(TableId, Option<EntryId>); 2]>,
}

impl Record {
    /// What there is to say of it, in a few words.
    pub fn comment(&self) -> String {
        match self.from {
            Some(from) => format!("from port {from}"),
            None => self.fate.to_string(),
        }
    }
}

/// Who looks, and at what.
#[derive(Debug)]
pub struct Tap {
    filter: Filter,
    /// Ascending.
    entries: RwLock<Arc<[EntryId]>>,
    sender: Sender<Record>,
    waiting_bytes: AtomicUsize,
    missed: AtomicU64,
    passed: AtomicU64,
    over: AtomicBool,
}

/// The other end of a tap; dropping it ends the capture.
#[derive(Debug)]
pub struct Captured {
    tap: Arc<Tap>,
    receiver: Receiver<Record>,
}

/// A tap for workers, and what comes out of it.
pub fn tap(filter: Filter) -> (Arc<Tap>, Captured) {
    let (sender, receiver) = crossbeam_channel::bounded(RECORDS_MAX);
    let tap = Arc::new(Tap {
        filter,
        entries: RwLock::new(Arc::new([])),
        sender,
        waiting_bytes: AtomicUsize::new(0),
        missed: AtomicU64::new(0),
        passed: AtomicU64::new(0),
        over: AtomicBool::new(false),
    });
    (tap.clone(), Captured { tap, receiver })
}

impl Captured {
    /// The next frame, waiting for it at most so long.
    pub fn next(&self, timeout: std::time::Duration) -> Option<Record> {
        let record = self.receiver.recv_timeout(timeout).ok()?;
        self.tap.waiting_bytes.fetch_sub(record.bytes.len(), Relaxed);
        Some(record)
    }

    /// Frames that were wanted and are not there, so far.
    pub fn missed(&self) -> u64 {
        self.tap.missed.load(Relaxed)
    }

    /// Frames that nobody looked at, so far: a sample has others.
    pub fn passed(&self) -> u64 {
        self.tap.passed.load(Relaxed)
    }

    /// From now on these entries are meant.
    pub fn set_entries(&self, mut entries: Vec<EntryId>) {
        entries.sort_unstable();
        *self.tap.entries.write().unwrap_or_else(PoisonError::into_inner) = entries.into();
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.tap.over.store(true, Relaxed);
    }
}

impl Tap {
    fn entries(&self) -> Arc<[EntryId]> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wants(&self, way: Way, port: u32) -> bool {
        let filter = &self.filter;
        let wanted = match way {
            Way::In => filter.ingress || filter.table.is_some() || filter.dropped,
            Way::Out => filter.egress && filter.table.is_none() && !filter.dropped,
        };
        wanted && filter.port.is_none_or(|only| only == port)
    }

    fn put(&self, record: Record) {
        let bytes = record.bytes.len();
        if self.waiting_bytes.load(Relaxed) + bytes > BYTES_MAX {
            self.missed.fetch_add(1, Relaxed);
            return;
        }
        self.waiting_bytes.fetch_add(bytes, Relaxed);
        match self.sender.try_send(record) {
            Ok(()) => {}
            Err(TrySendError::Full(record) | TrySendError::Disconnected(record)) => {
                self.waiting_bytes.fetch_sub(record.bytes.len(), Relaxed);
                self.missed.fetch_add(1, Relaxed);
            }
        }
    }

    fn keep(&self, bytes: &[u8]) -> Vec<u8> {
        bytes[..bytes.len().min(self.filter.snap_len)].to_vec()
    }
}

/// A tap, and when this worker looks for it.
struct Armed {
    tap: Arc<Tap>,
    /// It looks at the burst at hand.
    on: bool,
    /// A sample allows the next burst then.
    due_ns: u64,
}

impl Armed {
    fn wants(&self, way: Way, port: u32) -> bool {
        self.on && self.tap.wants(way, port)
    }

    /// A burst of `n` frames of a port comes.
    fn begin(&mut self, port: u32, n: u64, now_ns: u64) {
        let Some(rate) = self.tap.filter.rate else { return };
        let meant = self.tap.wants(Way::In, port);
        self.on = meant && now_ns >= self.due_ns;
        if self.on {
            // Frames that the rate allows and that did not come are owed for a tenth of a second, so that
            // a burst behind a lull is seen whole.
            let each_ns = 1_000_000_000 / u64::from(rate.get());
            self.due_ns = self.due_ns.max(now_ns.saturating_sub(OWED_NS)) + n * each_ns;
        } else if meant {
            self.tap.passed.fetch_add(n, Relaxed);
        }
    }
}

/// A worker's taps.
#[derive(Default)]
pub(crate) struct Watch {
    taps: Vec<Armed>,
    /// One of them looks.
    looking: bool,
    scratch: Scratch,
    /// Frames that went out: they are reported behind those that came in.
    outs: RefCell<Vec<(Arc<Tap>, Record)>>,
    /// What becomes of the frame at hand.
    fate: RefCell<Fate>,
    /// When the second at hand began, in nanoseconds, and how many frames were run again in it.
    looked_for: (u64, u64),
}

/// Frames of a burst before it ran.
pub(crate) struct Before {
    port: u32,
    /// What it is to the pipeline.
    in_port: u32,
    /// Octets in front of its frames.
    descriptor: usize,
    frames: Vec<Vec<u8>>,
    fates: Vec<Fate>,
    /// By tap: its entries, and what their counters said.
    hits: Vec<Option<(Arc<[EntryId]>, u64)>>,
}

impl Before {
    /// This became of the frame at this place.
    pub(crate) fn became(&mut self, at: usize, fate: Fate) {
        if let Some(place) = self.fates.get_mut(at) {
            *place = fate;
        }
    }
}

impl Watch {
    pub(crate) fn add(&mut self, tap: Arc<Tap>) {
        let on = tap.filter.rate.is_none();
        self.looking |= on;
        self.taps.push(Armed { tap, on, due_ns: 0 });
    }

    /// A burst of so many frames of a port is about to run: from now on it is known who looks at it.
    #[inline]
    pub(crate) fn begin(&mut self, port: u32, n: usize, now_ns: u64) {
        if !self.taps.is_empty() {
            self.arm(port, n as u64, now_ns);
        }
    }

    #[cold]
    fn arm(&mut self, port: u32, n: u64, now_ns: u64) {
        self.taps.retain(|armed| !armed.tap.over.load(Relaxed));
        self.taps.iter_mut().for_each(|armed| armed.begin(port, n, now_ns));
        self.looking = self.taps.iter().any(|armed| armed.on);
    }

    /// The frame at hand, or a copy of it for this port, is dropped.
    pub(crate) fn note_drop(&self, reason: &'static str, port: Option<u32>) {
        self.fate.borrow_mut().dropped.push((reason, port));
    }

    /// A copy of it was handed to this port.
    pub(crate) fn note_sent(&self, port: u32) {
        self.fate.borrow_mut().sent.push(port);
    }

    /// This became of its copies for the control side.
    pub(crate) fn note_notified(&self, notified: &Notified) {
        let mut fate = self.fate.borrow_mut();
        fate.dropped.extend(notified.refused.iter().map(|reason| (reason.word(), None)));
        fate.punted += notified.punted;
    }

    /// What became of the frame at hand; nothing is noted of the next one.
    pub(crate) fn take_fate(&self) -> Fate {
        self.fate.take()
    }

    /// This has become so far of the frame at hand.
    pub(crate) fn set_fate(&self, fate: Fate) {
        self.fate.replace(fate);
    }

    /// Nobody looks.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        !self.looking
    }

    /// Copies a burst that came in by a port, if somebody wants that.
    pub(crate) fn before(
        &mut self,
        frames: &[Frame],
        from: &PortShared,
        counters: &WorkerCounters,
    ) -> Option<Before> {
        if !self.taps.iter().any(|armed| armed.wants(Way::In, from.number)) {
            return None;
        }
        let hits = self.taps.iter().map(|Armed { tap, .. }| {
            tap.filter.table.filter(|_| !tap.filter.any_entry)?;
            let entries = tap.entries();
            let count = counted(counters, &entries);
            Some((entries, count))
        });
        Some(Before {
            port: from.number,
            in_port: from.ingress(),
            descriptor: from.descriptor() as usize,
            hits: hits.collect(),
            frames: frames.iter().map(|frame| frame.data().to_vec()).collect(),
            fates: vec![Fate::default(); frames.len()],
        })
    }

    /// The burst has run, by this version.
    pub(crate) fn after(
        &mut self,
        before: Before,
        forward: &dyn Forward,
        counters: &WorkerCounters,
        now_ns: u64,
    ) {
        for (armed, hits) in self.taps.iter().zip(&before.hits) {
            if !armed.wants(Way::In, before.port) {
                continue;
            }
            let tap = &armed.tap;
            let mut left = match hits {
                Some((entries, count)) => counted(counters, entries).wrapping_sub(*count),
                None => before.frames.len() as u64,
            };
            for (bytes, fate) in before.frames.iter().zip(&before.fates) {
                if left == 0 {
                    break;
                }
                if tap.filter.dropped && fate.dropped.is_empty() {
                    continue;
                }
                let mut look = Look::default();
                if tap.filter.table.is_some() || tap.filter.hits {
                    if now_ns.saturating_sub(self.looked_for.0) >= 1_000_000_000 {
                        self.looked_for = (now_ns, 0);
                    }
                    let may_look = self.looked_for.1 < HITS_LOOKED_FOR;
                    if !may_look && tap.filter.table.is_some() {
                        tap.missed.fetch_add(left, Relaxed);
                        break;
                    }
                    if may_look {
                        self.looked_for.1 += 1;
                        let input = Input {
                            bytes,
                            in_port: before.in_port,
                            now_ns,
                            start: Start::Pipeline,
                        };
                        forward.run(&mut self.scratch, input, &mut look, &mut Nowhere);
                    }
                }
                let hit = |table: TableId| match hits {
                    Some((entries, _)) => look.hits_one_of(table, entries),
                    None => look.0.iter().any(|(at, _)| *at == table),
                };
                if tap.filter.table.is_some_and(|table| !hit(table)) {
                    continue;
                }
                left -= 1;
                let bytes = &bytes[before.descriptor.min(bytes.len())..];
                tap.put(Record {
                    ns: now_ns,
                    port: before.port,
                    way: Way::In,
                    bytes: tap.keep(bytes),
                    len: bytes.len(),
                    fate: fate.clone(),
                    from: None,
                    hits: if tap.filter.hits { look.0 } else { SmallVec::new() },
                });
            }
        }
    }

    /// A frame that came in by port `from` is about to go out.
    pub(crate) fn out(&self, to: &PortShared, frame: &Frame, from: u32, now_ns: u64) {
        let port = to.number;
        let bytes = &frame.data()[(to.descriptor() as usize).min(frame.len())..];
        for Armed { tap, .. } in self.taps.iter().filter(|armed| armed.wants(Way::Out, port)) {
            let record = Record {
                ns: now_ns,
                port,
                way: Way::Out,
                bytes: tap.keep(bytes),
                len: bytes.len(),
                fate: Fate::default(),
                from: Some(from),
                hits: SmallVec::new(),
            };
            self.outs.borrow_mut().push((tap.clone(), record));
        }
    }

    /// Tells of the frames that went out.
    pub(crate) fn settle(&mut self) {
        self.outs.get_mut().drain(..).for_each(|(tap, record)| tap.put(record));
    }
}

/// Packets that a worker has counted for entries.
fn counted(counters: &WorkerCounters, entries: &[EntryId]) -> u64 {
    let packets = |entry: &EntryId| counters.cells().cell(entry.0).map(|c| c.packets.load(Relaxed));
    entries.iter().filter_map(packets).fold(0, u64::wrapping_add)
}

/// Takes nothing.
struct Nowhere;

impl interp::Sink for Nowhere {
    fn output(&mut self, _: u32, _: u32, _: interp::Packet<'_>) {}

    fn punt(&mut self, _: interp::Punt<'_>) {}

    fn digest(&mut self, _: ir::DigestId, _: &[Bits]) {}
}

/// Which entries are hit. Nothing is counted or changed.
#[derive(Default)]
struct Look(SmallVec<[(TableId, Option<EntryId>); 2]>);

impl Look {
    fn hits_one_of(&self, table: TableId, entries: &[EntryId]) -> bool {
        let is_one = |entry: &EntryId| entries.binary_search(entry).is_ok();
        self.0.iter().any(|(at, entry)| *at == table && entry.is_some_and(|entry| is_one(&entry)))
    }
}

impl Externs for Look {
    fn port_is(&self, what: PortIs, port: u32) -> bool {
        NullExterns.port_is(what, port)
    }

    fn count_table(&mut self, table: TableId, _: bool) {
        if self.0.len() < LOOKUPS_TOLD {
            self.0.push((table, None));
        }
    }

    fn count_entry(&mut self, table: TableId, entry: EntryId, _: u32) {
        // Told of its lookup just before.
        match self.0.last_mut() {
            Some((at, hit @ None)) if *at == table => *hit = Some(entry),
            _ => {}
        }
    }

    fn count(&mut self, _: CounterId, _: u32) {}

    fn count_indirect(&mut self, _: u32, _: u32, _: u32) {}

    fn meter(&mut self, meter: MeterId, bytes: u32) -> Color {
        NullExterns.meter(meter, bytes)
    }

    fn register_read(&mut self, register: RegisterId, index: u32) -> Option<Bits> {
        NullExterns.register_read(register, index)
    }

    fn register_write(&mut self, _: RegisterId, _: u32, _: Bits) {}

    fn random(&mut self, lo: &Bits, hi: &Bits) -> Bits {
        NullExterns.random(lo, hi)
    }
}
