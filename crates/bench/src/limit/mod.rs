//! The limit: for each use case, the loop that somebody would write by hand for it and nothing else.
//!
//! Each is plain Rust over bursts of [`BURST`] frames in phases (parse and hash, touch, compare,
//! rewrite), with the data structures that suit it best and the very same work: addresses, tags, time
//! to live and checksums rewritten in place, and packets, bytes and last use counted for every entry
//! on the way. A bench runs it beside the engine, on the same frames, with the same copy into buffers
//! before each burst. It knows its use case when it is compiled and its entries when it is made, and
//! cannot follow any update.
//!
//! What it may leave out: whatever no frame of its use case needs. Frames that a loop does not know
//! (other ethertypes, IP options) it drops.
//!
//! Checked by: `check::limit`, which compares its outcome with the interpreter's before it is timed.

mod balancer;
mod firewall;
mod gateway;
mod index;
mod l2;
mod l3;
mod rewrite;

pub(crate) use balancer::Balancer;
pub(crate) use firewall::Firewall;
pub(crate) use gateway::Gateway;
pub(crate) use l2::L2;
pub(crate) use l3::L3;

/// Frames of a burst.
pub(crate) const BURST: usize = 64;
/// Bytes of a buffer.
pub(crate) const ROOM: usize = 128;
/// Where a frame starts in its buffer.
pub(crate) const FRONT: usize = 64;
/// The port of a frame that is dropped.
pub(crate) const DROP: u32 = 0;

/// A frame's buffer.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Room(pub(crate) [u8; ROOM]);

/// A burst: frames in, outcomes out.
pub(crate) struct Burst {
    /// The frames, each from [`FRONT`] on.
    pub(crate) rooms: [Room; BURST],
    /// How many bytes each has.
    pub(crate) len: [u32; BURST],
    /// The ports they came in by.
    pub(crate) in_port: [u32; BURST],
    /// How many there are.
    pub(crate) n: usize,
    /// Where each goes, or [`DROP`].
    pub(crate) out_port: [u32; BURST],
    /// Where each begins now.
    pub(crate) start: [u32; BURST],
}

impl Burst {
    /// Empty.
    pub(crate) fn new() -> Box<Burst> {
        Box::new(Burst {
            rooms: [Room([0; ROOM]); BURST],
            len: [0; BURST],
            in_port: [0; BURST],
            n: 0,
            out_port: [0; BURST],
            start: [0; BURST],
        })
    }

    /// Port and bytes of frame `i` as it goes out; `None` if it is dropped.
    pub(crate) fn outcome(&self, i: usize) -> Option<(u32, &[u8])> {
        let end = FRONT + self.len[i] as usize;
        let bytes = &self.rooms[i].0[self.start[i] as usize..end];
        (self.out_port[i] != DROP).then_some((self.out_port[i], bytes))
    }
}

/// A hand-written loop.
pub(crate) trait Limit: Send {
    /// Runs a burst; with `counted`, entries are counted.
    fn run(&mut self, burst: &mut Burst, counted: bool, now_ns: u64);
}

/// Counts of an entry, and a word beside them for what a lookup needs next.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Cell {
    packets: u64,
    bytes: u64,
    last_used_ns: u64,
    word: u64,
}

impl Cell {
    fn with(word: u64) -> Cell {
        Cell { word, ..Cell::default() }
    }

    #[inline(always)]
    fn count<const COUNT: bool>(&mut self, bytes: u32, now_ns: u64) {
        if COUNT {
            self.packets += 1;
            self.bytes += u64::from(bytes);
            self.last_used_ns = now_ns;
        }
    }
}

/// A big-endian field of a buffer.
#[inline(always)]
fn be16(room: &Room, at: usize) -> u16 {
    u16::from_be_bytes([room.0[at & 127], room.0[(at + 1) & 127]])
}

/// A big-endian field of a buffer.
#[inline(always)]
fn be32(room: &Room, at: usize) -> u32 {
    match room.0.get(at..at + 4) {
        Some(b) => u32::from_be_bytes([b[0], b[1], b[2], b[3]]),
        None => 0,
    }
}

/// A big-endian field of a buffer.
#[inline(always)]
fn be64(room: &Room, at: usize) -> u64 {
    match room.0.get(at..at + 8) {
        Some(b) => u64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
        None => 0,
    }
}

/// Writes bytes into a buffer.
#[inline(always)]
fn put<const N: usize>(room: &mut Room, at: usize, bytes: [u8; N]) {
    if let Some(to) = room.0.get_mut(at..at + N) {
        to.copy_from_slice(&bytes);
    }
}
