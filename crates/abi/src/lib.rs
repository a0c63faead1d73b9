//! What generated code and Rust share: layouts, written once.
//!
//! A burst is described to generated code by one block of memory. A [`Context`] is its beginning: packets,
//! where it counts ([`counters`]), the time. At offsets that are constants of the code lie behind it the
//! input and output of each table lookup ([`NodeIo`], keys, answers), per-packet state slots, and who waits
//! where ([`PointIo`]), so that no pointer leads to any of them. Within these, generated code goes by the
//! offsets of [`offset`], which are derived from the declarations here; nothing else may be assumed.
//!
//! What few packets have lies elsewhere: more outputs than a [`Packet`] has room for, and copies of it as it was before it
//! changed again ([`Noted`], [`Context::images`]). Groups ([`groups`]) are data that code reads.
//!
//! In: nothing. Out: types, offsets, status and reason numbers.
//!
//! Generated code calls the functions of [`state::State`], and no others: what else would need one bails out
//! instead.
//!
//! Invariants: everything is `repr(C)`; a packet's bytes are written only in its commit, after which
//! it cannot bail out.

pub mod counters;
pub mod deal;
pub mod groups;
mod ran;
mod show;
pub mod state;

pub use classify::Hit;
pub use counters::{Cell, Cells, Counters, TableCell};
pub use deal::{BURST_MAX, Dealt, Mbuf, Ways};
pub use groups::{Groups, Live};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Outputs of one packet that fit into one cache line with the rest of a [`Packet`].
pub const OUTPUTS_MAX: usize = 3;
/// Outputs of one packet behind those, which are [noted](Noted::more) beside it. A packet with still more bails out.
pub const MORE_MAX: usize = 125;
/// Copies of one packet that are [laid](Laid) beside it because it has changed since, at most; with more it bails out.
pub const LAID_MAX: usize = 40;
/// Room for the headers of copies that are laid, of all packets of a burst, in bytes.
pub const IMAGES_BYTES: usize = 1 << 16;
/// What [`Outcome::lookups`] has for a group or a bucket that was counted; below it are lookups of tables.
pub const COUNTED: u32 = 1 << 20;
/// Groups and buckets of one packet, at most, before it comes to another group; with more it bails out.
pub const COUNTED_MAX: u32 = 128;
/// Buckets of one group that code runs, at most.
pub const BUCKETS_MAX: usize = 256;
/// Bytes in front of a packet's data that a commit may use, at most.
pub const PUSH_MAX: usize = 64;

/// Bits of a [`PointIo`]'s item in which the place of the packet's key and answer stands. The others are the
/// [`Packet`]'s address, in which these are zero.
pub const ITEM_PLACE_MASK: u64 = align_of::<Packet<'static>>() as u64 - 1;
const _: () = assert!(BURST_MAX <= ITEM_PLACE_MASK as usize + 1);

/// What has become of a packet.
pub mod status {
    /// Nothing yet.
    pub const PENDING: u8 = 0;
    /// It goes to the ports in [`Outcome::outputs`](super::Outcome::outputs).
    pub const FORWARD: u8 = 1;
    /// It is dropped, for [`Outcome::reason`](super::Outcome::reason) (an `ir::DropReason`).
    pub const DROP: u8 = 2;
    /// It must be run from the start, without this code; [`Outcome::reason`](super::Outcome::reason) is the
    /// number of the bail-out. Its bytes are as they came in.
    pub const BAIL: u8 = 3;
    /// It goes to ports, too, but its outputs are more than fit into [`Outcome::outputs`](super::Outcome::outputs), or not
    /// all copies are alike: what lies in [`Noted`](super::Noted) belongs to it.
    pub const COPIES: u8 = 4;
    /// Something of it is told the control side; beside that, it goes to its outputs, as with [`COPIES`], or, if it has none and no
    /// copy of it is told, it is dropped for [`Outcome::reason`](super::Outcome::reason).
    pub const TOLD: u8 = 5;
    /// Code has left it, it was run from the start, and whoever has run it knows what was sent. Code never says this.
    pub const RAN: u8 = 6;
}

/// Reasons of packets that are dropped, besides those of `ir::DropReason`.
pub mod reason {
    /// It is not lost: it has gone to the control side, or was kept.
    pub const NONE: u32 = u32::MAX;
}

/// Where a copy of a packet goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Output {
    /// The port number.
    pub port: u32,
    /// The port's queue.
    pub queue: u32,
}

/// What generated code has made of a packet. Plain data: it outlives the burst.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Outcome {
    /// What has become of it, of [`status`].
    pub status: u8,
    /// How many outputs there are: the first of them are `outputs`.
    pub outputs_len: u8,
    /// The bytes have changed (length and place, too, if `shift` is not zero).
    pub changed: u8,
    /// How many copies were laid beside the packet.
    pub laid: u8,
    /// Why it was dropped, or which bail-out it took.
    pub reason: u32,
    /// What was counted for it so far, if it waits or has bailed out: lookups of tables, and groups and buckets, each
    /// [`COUNTED`] times.
    pub lookups: u32,
    /// The packet now begins so many bytes later and is so much shorter.
    pub shift: i32,
    /// Where it goes, in order. If its status is [`FORWARD`](status::FORWARD), all copies are alike, and these are all.
    pub outputs: [Output; OUTPUTS_MAX],
}

// So that a look at both is one comparison.
const _: () = {
    assert!(
        std::mem::offset_of!(Outcome, outputs_len) == std::mem::offset_of!(Outcome, status) + 1
    );
};

impl Outcome {
    /// Nothing was done yet.
    pub const PENDING: Outcome = Outcome {
        status: status::PENDING,
        outputs_len: 0,
        changed: 0,
        laid: 0,
        reason: 0,
        lookups: 0,
        shift: 0,
        outputs: [Output { port: 0, queue: 0 }; OUTPUTS_MAX],
    };

    /// The port that it goes to, if that is one.
    #[inline(always)]
    pub fn single(&self) -> Option<u32> {
        let is = u16::from_ne_bytes([self.status, self.outputs_len]);
        (is == u16::from_ne_bytes([status::FORWARD, 1])).then_some(self.outputs[0].port)
    }

    /// Where it goes: the first outputs, if there are more.
    #[inline]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs[..usize::from(self.outputs_len).min(OUTPUTS_MAX)]
    }
}

/// One packet of a burst, in a buffer that is its own for as long as this lives. The caller says what
/// it is ([`Packet::new`]), generated code what has become of it: its [`Outcome`], which this
/// dereferences to.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Packet<'a> {
    /// The first byte.
    data: *mut u8,
    /// Bytes.
    len: u32,
    /// Bytes in front of `data` that may be written.
    headroom: u32,
    /// The port it came in by.
    in_port: u32,
    outcome: Outcome,
    buffer: PhantomData<&'a mut [u8]>,
}

impl Deref for Packet<'_> {
    type Target = Outcome;

    #[inline(always)]
    fn deref(&self) -> &Outcome {
        &self.outcome
    }
}

impl DerefMut for Packet<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Outcome {
        &mut self.outcome
    }
}

impl<'a> Packet<'a> {
    /// A packet without bytes: a place to [show](Self::show) others in.
    pub const fn none() -> Packet<'a> {
        Packet {
            data: std::ptr::dangling_mut(),
            len: 0,
            headroom: 0,
            in_port: 0,
            outcome: Outcome::PENDING,
            buffer: PhantomData,
        }
    }

    /// A packet that nothing was done with yet: `len` bytes from `headroom` on. Past the buffer's
    /// end it is shorter.
    #[inline(always)]
    pub fn new(buffer: &'a mut [u8], headroom: usize, len: usize, in_port: u32) -> Packet<'a> {
        let headroom = headroom.min(buffer.len());
        let len = len.min(buffer.len() - headroom);
        Packet {
            // All of the buffer is this pointer's to reach: a commit may write in front of it.
            data: buffer.as_mut_ptr().wrapping_add(headroom),
            len: len as u32,
            headroom: headroom as u32,
            in_port,
            outcome: Outcome::PENDING,
            buffer: PhantomData,
        }
    }

    /// Its length in bytes as it came in.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// It came in without any bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The port it came in by.
    pub fn in_port(&self) -> u32 {
        self.in_port
    }

    /// Bytes in front of it that may be written, as it came in.
    #[inline]
    pub fn headroom(&self) -> u32 {
        self.headroom
    }

    /// Its bytes as they came in: the first one's address, and how many there are.
    #[inline]
    pub fn bytes(&mut self) -> (*mut u8, usize) {
        (self.data, self.len as usize)
    }

    /// Its frame was moved within its buffer as its outcome says, and has so many bytes now: nothing of that is left to be done.
    #[inline]
    pub fn was_moved(&mut self, headroom: u32, len: u32) {
        self.data = self.data.wrapping_offset(self.shift as isize);
        (self.headroom, self.len, self.shift) = (headroom, len, 0);
    }

    /// Leaves it to whoever runs it from the start, for this reason.
    #[inline]
    pub fn bail(&mut self, reason: u32) {
        self.status = status::BAIL;
        self.reason = reason;
    }
}

const _: () = assert!(size_of::<Packet<'static>>() == 64);

/// What belongs to the lookups at one node. Their input and output lie elsewhere in the block, by place, that is
/// in the order in which packets came: [`BURST_MAX`] keys at the node's stride, as many answers ([`Hit`]), and,
/// written only if the node has twins, the numbers of the nodes whose tables are looked up.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodeIo {
    /// The table's action records.
    pub records: *const u64,
    /// How many wait.
    pub len: u32,
    /// Padding.
    pub reserved: u32,
}

/// Packets that wait at a node and about which the code behind it knows the same.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct PointIo {
    /// A packet's place at the node ([`ITEM_PLACE_MASK`]) and its address.
    pub items: [u64; BURST_MAX],
    /// How many wait.
    pub len: u32,
    /// Padding.
    pub reserved: u32,
}

/// A copy of a packet as it was before it changed: new headers, then what came in from some byte on. It goes to the outputs that
/// were noted since the one before it; outputs behind the last one have the packet as code has left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Laid {
    /// How many outputs had been noted when the packet changed.
    pub outputs: u32,
    /// Bytes that this copy has at most.
    pub cut: u32,
    /// Where its headers begin among [`Context::images`].
    pub at: u32,
    /// How many bytes they are.
    pub len: u32,
    /// Where, in the packet as it came in, the rest begins.
    pub payload: u32,
    /// Not zero: its bytes may differ from those that came in.
    pub changed: u32,
}

/// What generated code notes beside a packet.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Noted {
    /// Copies that were laid, as many as [`Outcome::laid`] says.
    pub laid: [Laid; LAID_MAX],
    /// Outputs behind those in the packet's line.
    pub more: [Output; MORE_MAX],
}

impl Noted {
    /// Nothing.
    pub const NONE: Noted = Noted {
        laid: [Laid { outputs: 0, cut: 0, at: 0, len: 0, payload: 0, changed: 0 }; LAID_MAX],
        more: [Output { port: 0, queue: 0 }; MORE_MAX],
    };
}

// Numbers of a byte.
const _: () = assert!(OUTPUTS_MAX + MORE_MAX <= u8::MAX as usize);
const _: () = assert!(LAID_MAX <= u8::MAX as usize);

/// A burst, as generated code sees it. The only argument of a segment is a pointer to it, and what else
/// belongs to the burst lies behind it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Context {
    /// The packets.
    pub packets: *mut Packet<'static>,
    /// Counters of entries, by id.
    pub cells: *const Cell,
    /// Counters of tables, one for each of the program's.
    pub tables: *const TableCell,
    /// How many entries' counters there are.
    pub cells_len: u32,
    /// Packets in the burst, as far as it has come.
    pub len: u32,
    /// The time, in nanoseconds of the switch's clock.
    pub now_ns: u64,
    /// What is noted of each packet, by place; looked at only by code that says so.
    pub noted: *mut Noted,
    /// Headers of copies: [`IMAGES_BYTES`].
    pub images: *mut u8,
    /// How many of these are in use.
    pub images_len: u32,
    /// The first packet that the start of the burst takes; those before it were taken already.
    pub from: u32,
    /// What code calls.
    pub state: *mut state::State,
    /// Not zero: a packet before those that are taken now has bailed out, so that they may not ask for what depends on it.
    pub left: u32,
    /// Padding.
    pub reserved: u32,
    /// Where groups are found, and what places among them are masked with.
    pub groups: *const groups::GroupSlot,
    /// One less than how many slots there are.
    pub groups_mask: u64,
    /// Which ports are live, by bits.
    pub live: *const std::sync::atomic::AtomicU64,
    /// [`groups::crcs`].
    pub crcs: *const u32,
    /// [`groups::LOGS`].
    pub logs: *const u32,
    /// [`Ways::places`].
    pub ways: *const u8,
    /// [`Ways::mbufs`].
    pub mbufs: *const std::ptr::NonNull<()>,
    /// Where packets go.
    pub dealt: Dealt,
}

/// The signature of a segment.
pub type Segment = unsafe extern "C" fn(*mut Context);

/// Offsets in bytes for generated code.
pub mod offset {
    use super::state::State;
    use super::{Cell, Context, Laid, Mbuf, NodeIo, Noted, Packet, PointIo, TableCell};

    macro_rules! offsets {
        ($($(#[$doc:meta])* $name:ident = $ty:ty, $($field:ident).+;)*) => {$(
            $(#[$doc])*
            pub const $name: i32 = std::mem::offset_of!($ty, $($field).+) as i32;
        )*};
    }

    offsets! {
        /// `Packet::data`.
        PACKET_DATA = Packet<'static>, data;
        /// `Packet::len`.
        PACKET_LEN = Packet<'static>, len;
        /// `Packet::headroom`.
        PACKET_HEADROOM = Packet<'static>, headroom;
        /// `Packet::in_port`.
        PACKET_IN_PORT = Packet<'static>, in_port;
        /// `Outcome::status`.
        PACKET_STATUS = Packet<'static>, outcome.status;
        /// `Outcome::outputs_len`.
        PACKET_OUTPUTS_LEN = Packet<'static>, outcome.outputs_len;
        /// `Outcome::changed`.
        PACKET_CHANGED = Packet<'static>, outcome.changed;
        /// `Outcome::laid`.
        PACKET_LAID = Packet<'static>, outcome.laid;
        /// `Outcome::reason`.
        PACKET_REASON = Packet<'static>, outcome.reason;
        /// `Outcome::lookups`.
        PACKET_LOOKUPS = Packet<'static>, outcome.lookups;
        /// `Outcome::shift`.
        PACKET_SHIFT = Packet<'static>, outcome.shift;
        /// `Outcome::outputs`.
        PACKET_OUTPUTS = Packet<'static>, outcome.outputs;
        /// [`NodeIo::records`](super::NodeIo::records).
        NODE_RECORDS = NodeIo, records;
        /// [`NodeIo::len`](super::NodeIo::len).
        NODE_LEN = NodeIo, len;
        /// [`PointIo::items`](super::PointIo::items).
        POINT_ITEMS = PointIo, items;
        /// [`PointIo::len`](super::PointIo::len).
        POINT_LEN = PointIo, len;
        /// [`Cell::packets`](super::Cell::packets).
        CELL_PACKETS = Cell, packets;
        /// [`Cell::bytes`](super::Cell::bytes).
        CELL_BYTES = Cell, bytes;
        /// [`Cell::last_used_ns`](super::Cell::last_used_ns).
        CELL_LAST_USED_NS = Cell, last_used_ns;
        /// [`TableCell::lookups`](super::TableCell::lookups).
        TABLE_LOOKUPS = TableCell, lookups;
        /// [`TableCell::matches`](super::TableCell::matches).
        TABLE_MATCHES = TableCell, matches;
        /// [`Context::packets`](super::Context::packets).
        CONTEXT_PACKETS = Context, packets;
        /// [`Context::cells`](super::Context::cells).
        CONTEXT_CELLS = Context, cells;
        /// [`Context::tables`](super::Context::tables).
        CONTEXT_TABLES = Context, tables;
        /// [`Context::cells_len`](super::Context::cells_len).
        CONTEXT_CELLS_LEN = Context, cells_len;
        /// [`Context::len`](super::Context::len).
        CONTEXT_LEN = Context, len;
        /// [`Context::now_ns`](super::Context::now_ns).
        CONTEXT_NOW_NS = Context, now_ns;
        /// [`Context::noted`](super::Context::noted).
        CONTEXT_NOTED = Context, noted;
        /// [`Context::images`](super::Context::images).
        CONTEXT_IMAGES = Context, images;
        /// [`Context::images_len`](super::Context::images_len).
        CONTEXT_IMAGES_LEN = Context, images_len;
        /// [`Context::from`](super::Context::from).
        CONTEXT_FROM = Context, from;
        /// [`Context::state`](super::Context::state).
        CONTEXT_STATE = Context, state;
        /// [`Context::left`](super::Context::left).
        CONTEXT_LEFT = Context, left;
        /// [`State::count`](super::state::State::count).
        STATE_COUNT = State, count;
        /// [`State::meter`](super::state::State::meter).
        STATE_METER = State, meter;
        /// [`State::read`](super::state::State::read).
        STATE_READ = State, read;
        /// [`State::write`](super::state::State::write).
        STATE_WRITE = State, write;
        /// [`State::random`](super::state::State::random).
        STATE_RANDOM = State, random;
        /// [`State::tell`](super::state::State::tell).
        STATE_TELL = State, tell;
        /// [`Context::groups`](super::Context::groups).
        CONTEXT_GROUPS = Context, groups;
        /// [`Context::groups_mask`](super::Context::groups_mask).
        CONTEXT_GROUPS_MASK = Context, groups_mask;
        /// [`Context::live`](super::Context::live).
        CONTEXT_LIVE = Context, live;
        /// [`Context::crcs`](super::Context::crcs).
        CONTEXT_CRCS = Context, crcs;
        /// [`Context::logs`](super::Context::logs).
        CONTEXT_LOGS = Context, logs;
        /// [`Context::ways`](super::Context::ways).
        CONTEXT_WAYS = Context, ways;
        /// [`Context::mbufs`](super::Context::mbufs).
        CONTEXT_MBUFS = Context, mbufs;
        /// [`Dealt::places`](super::Dealt::places).
        CONTEXT_PLACES = Context, dealt.places;
        /// [`Dealt::moved`](super::Dealt::moved).
        CONTEXT_MOVED = Context, dealt.moved;
        /// [`Mbuf::start`](super::Mbuf::start).
        MBUF_START = Mbuf, start;
        /// [`Mbuf::len`](super::Mbuf::len).
        MBUF_LEN = Mbuf, len;
        /// [`Mbuf::len_here`](super::Mbuf::len_here).
        MBUF_LEN_HERE = Mbuf, len_here;
        /// [`Mbuf::buffer_len`](super::Mbuf::buffer_len).
        MBUF_BUFFER_LEN = Mbuf, buffer_len;
        /// [`Noted::laid`](super::Noted::laid).
        NOTED_LAID = Noted, laid;
        /// [`Noted::more`](super::Noted::more).
        NOTED_MORE = Noted, more;
        /// [`Laid::outputs`](super::Laid::outputs).
        LAID_OUTPUTS = Laid, outputs;
        /// [`Laid::cut`](super::Laid::cut).
        LAID_CUT = Laid, cut;
        /// [`Laid::at`](super::Laid::at).
        LAID_AT = Laid, at;
        /// [`Laid::len`](super::Laid::len).
        LAID_LEN = Laid, len;
        /// [`Laid::payload`](super::Laid::payload).
        LAID_PAYLOAD = Laid, payload;
        /// [`Laid::changed`](super::Laid::changed).
        LAID_CHANGED = Laid, changed;
    }

    /// The entry within a [`Hit`](super::Hit).
    pub const HIT_ENTRY: i32 = std::mem::offset_of!(super::Hit, entry) as i32;
    /// The action within a [`Hit`](super::Hit).
    pub const HIT_ACTION: i32 = std::mem::offset_of!(super::Hit, action) as i32;
}

/// Sizes in bytes for generated code.
pub mod size {
    /// A [`Packet`](super::Packet).
    pub const PACKET: usize = size_of::<super::Packet<'static>>();
    /// A [`Cell`](super::Cell).
    pub const CELL: usize = size_of::<super::Cell>();
    /// A [`TableCell`](super::TableCell).
    pub const TABLE_CELL: usize = size_of::<super::TableCell>();
    /// A [`NodeIo`](super::NodeIo).
    pub const NODE_IO: usize = size_of::<super::NodeIo>();
    /// A [`Hit`](super::Hit).
    pub const HIT: usize = size_of::<super::Hit>();
    /// An [`Output`](super::Output).
    pub const OUTPUT: usize = size_of::<super::Output>();
    /// A [`Laid`](super::Laid).
    pub const LAID: usize = size_of::<super::Laid>();
    /// What is noted of a packet.
    pub const NOTED: usize = size_of::<super::Noted>();
}
