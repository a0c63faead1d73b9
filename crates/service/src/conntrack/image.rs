//! An image of a tracker's connections: what one process writes and another goes on from.
//!
//! A [`Writer`] walks the records a slice at a time, so that whoever guards the tracker by a lock lets
//! go of it between slices; what it was handed is framed outside the lock. An [`Image`] is read whole and
//! checked whole before a tracker sees any of it: a damaged, cut or newer file changes nothing. It
//! is then restored a slice at a time, too.
//!
//! # What is in it
//!
//! Of each connection whose time is not over: both tuples, zone, mark, label, what was seen of both
//! sides (TCP's state, windows and scales, SCTP's tags), the time it has left, and the block of ports that its
//! translation is bound in. Of pools, those of blocks, by definition: of all others a binding is the
//! connection's reply tuple and nothing else, so that the port is taken as soon as the connection
//! is there. A pool of the same definition that the tracker has is used, else one is added.
//!
//! Not in it: counters; first fragments, so that of a datagram under way later fragments are invalid; the
//! order in which blocks were given back and the numbers of the generator, so that *new* connections may get
//! other ports than they would have got.
//!
//! # Time
//!
//! What is left is a duration, counted from the moment at which the connection was written. A reader that
//! knows how long ago that was says so ([`Image::age`]).
//!
//! # What went on behind it
//!
//! Packets that come after a connection was written move its windows. Who restores it from an image of a
//! tracker that went on, and has no image of what changed, would take a segment of today for one outside of
//! yesterday's window. An image tells whether its tracker had stopped ([`Image::went_on`]), and restores TCP's connections
//! with windows that are not checked, as Linux has those of `conntrackd`, when it is [told to](Image::loosen).
//!
//! # Format, versions 2 and 3
//!
//! Numbers have their least significant octet first. A header of 32 octets:
//!
//! | octets | are |
//! |---|---|
//! | 8 | `millconn` |
//! | 4 | the version; a reader refuses one that it does not know |
//! | 8 | seconds since 1970 when writing began, as the writer was told |
//! | 8 | connections held at that time, for showing progress; nothing rests on it |
//! | 4 | CRC-32C of the octets before |
//!
//! Then chunks, numbered from 0 without a gap:
//!
//! | octets | are |
//! |---|---|
//! | 1 | the kind: 1 pools, 2 connections, 3 the end, 4 connections that are gone |
//! | 4 | the number |
//! | 4 | the payload's length, at most 2²⁰ |
//! | that | the payload |
//! | 4 | CRC-32C of the chunk's octets before |
//!
//! Pools come before all else, what is gone before connections, the end comes once and last; its payload is the
//! number of connections, 8 octets, and 1 if the tracker had stopped, else 0 (version 1 does not tell). A pool: first address and number of addresses (16 each), 1 if IPv6, first and last port, ports in a
//! block, blocks for a sender (2 each). A connection:
//!
//! | octets | are |
//! |---|---|
//! | 2 | bits: 1 IPv6, 2 an ICMP query, 4 answered, 8 assured, 16 translated, 32 labelled, 64 bound in a block |
//! | 1, 1, 2, 4 | protocol, state, zone, mark |
//! | 8 | nanoseconds left |
//! | 4 or 16, twice; 2, 2 | the opener's source and destination; ports |
//! | the same | if translated: the other side's |
//! | 16 | if labelled: the label |
//! | 2 | if bound: the pool, as numbered in the image |
//! | 52 | TCP, SCTP: of each side `end`, `max_end`, `max_window`, `max_ack`; then acknowledgment, end, window and length of the last segment, what each side said, their scales, repeats, the last segment's kind, what was noted and its scale |
//! | 8 | UDP, UDP-Lite: nanoseconds until it is a stream |
//! | 32 | if counted (bit 128): packets of the opener's direction and of the other, octets likewise |
//!
//! Version 3 is written where connections are counted, and only there.
//!
//! A connection that is gone: the first two of its bits (1), its protocol (1), its zone (2), and the opener's
//! addresses and ports as above.
//!
//! # Changes
//!
//! A tracker that is handed over while packets come is written more than once. The first writer
//! [watches](Writer::watch): from then on the tracker notes which connections change and which go. The next ones
//! write [no more than that](Writer::changes), so that little is left to be written when packets have stopped. A
//! reader that has taken the first image over takes the changes over in place of what it has
//! ([`Image::supersede`]).
//!
//! # Two that are the same
//!
//! While packets come, a connection may end behind the writer and open again before it. A connection
//! that the tracker knows is left as it is, but for one that came from an image and that no packet has
//! touched since: an answered one takes its place, which is the newer if both are of one image.
//!
//! Checked by: the tests below (the same packets to both trackers), `fuzz::image`.

pub(super) mod entry;
mod error;

use super::gone::Gone;
use super::lists::Queue;
use super::record::Flags;
use super::time::{TICK_SHIFT, ticks};
use super::told::queue;
use super::tuple::Tuple;
use super::{Tracker, tcp};
use crate::nat::{Pool, PoolId, Ports};
use wire::IpProtocol;
use wire::crc32c::crc32c;

pub use entry::Restored;
use entry::{
    Entry, VERSION, VERSION_MIN, VERSION_UNCOUNTED, has_stream, read_gone, take, until, write_gone,
};
pub use error::Error;

const MAGIC: &[u8; 8] = b"millconn";
const HEADER_LEN: usize = 32;
const CHUNK_HEADER_LEN: usize = 9;
const CHUNK_MAX: usize = 1 << 20;
const POOL_LEN: usize = 41;
/// Records looked at in one slice, at most; no connection takes more than 256 octets, so they fit a chunk.
const SLOTS_MAX: usize = 4096;
/// Blocks of all pools of an image, at most.
const BLOCKS_MAX: u128 = 1 << 20;

/// Kinds of chunks.
mod kind {
    pub(super) const POOLS: u8 = 1;
    pub(super) const CONNECTIONS: u8 = 2;
    pub(super) const END: u8 = 3;
    pub(super) const GONE: u8 = 4;
}

/// Of those, in one chunk: none takes more than 40 octets.
const GONE_CHUNK: usize = 16 << 10;

/// The first tick that is not before so many nanoseconds from now.
fn tick_in(left_ns: u64, now_ns: u64) -> u32 {
    let at = now_ns.saturating_add(left_ns).div_ceil(1 << TICK_SHIFT);
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Writes a tracker's connections, a slice at a time.
#[derive(Debug)]
pub struct Writer {
    /// The record that comes next.
    next: u32,
    /// Chunks begun.
    chunks: u32,
    connections: u64,
    /// The pools of blocks: their places among the tracker's.
    pools: Vec<usize>,
    chunk: Vec<u8>,
    /// What is written counts as unchanged from then on.
    watches: bool,
    /// Only what has changed is written.
    changes: bool,
    /// No packet comes to the tracker any more.
    stopped: bool,
}

impl Writer {
    /// Begins an image of all connections, as [`Writer::new`] does, and has the tracker note from now on what
    /// changes and what goes, for [`Writer::changes`], until [`Tracker::unwatch`].
    pub fn watch(tracker: &mut Tracker, taken_at: u64) -> (Writer, Vec<u8>) {
        tracker.gone = Some(Gone::default());
        let (writer, out) = Writer::new(tracker, taken_at);
        (Writer { watches: true, ..writer }, out)
    }

    /// Begins an image of what has changed in a tracker since its last writer that watched, or wrote changes,
    /// passed.
    pub fn changes(tracker: &mut Tracker, taken_at: u64) -> (Writer, Vec<u8>) {
        let gone = tracker.gone.replace(Gone::default()).unwrap_or_default();
        let (mut writer, mut out) = Writer::new(tracker, taken_at);
        for some in gone.tuples.chunks(GONE_CHUNK) {
            writer.begin(kind::GONE);
            some.iter().for_each(|tuple| write_gone(tuple, &mut writer.chunk));
            out.extend(writer.frame());
        }
        (Writer { watches: true, changes: true, ..writer }, out)
    }

    /// Begins an image of this tracker: the writer and the image's first octets. `taken_at` is in
    /// seconds since 1970.
    pub fn new(tracker: &Tracker, taken_at: u64) -> (Writer, Vec<u8>) {
        let mut out = MAGIC.to_vec();
        let version = if tracker.accounts.counts() { VERSION } else { VERSION_UNCOUNTED };
        out.extend(version.to_le_bytes());
        out.extend(taken_at.to_le_bytes());
        out.extend((tracker.len() as u64).to_le_bytes());
        out.extend(crc32c(&out).to_le_bytes());
        let mut writer = Writer {
            next: 0,
            chunks: 0,
            connections: 0,
            pools: Vec::new(),
            chunk: Vec::with_capacity(CHUNK_HEADER_LEN + (64 << 10)),
            watches: false,
            changes: false,
            stopped: false,
        };
        let mut blocks_left = BLOCKS_MAX;
        for (at, pool) in tracker.pools.iter().enumerate() {
            let (first, count, v6, ports) = pool.definition();
            let Ports::Blocks { first: low, last: high, size, blocks_max } = ports else {
                continue;
            };
            // What a reader would refuse is left out: its connections keep their ports, unbound.
            let blocks = pool.blocks().map_or(0, |(_, total)| total as u128);
            if blocks > blocks_left || writer.pools.len() >= CHUNK_MAX / POOL_LEN {
                continue;
            }
            blocks_left -= blocks;
            if writer.pools.is_empty() {
                writer.begin(kind::POOLS);
            }
            writer.chunk.extend(first.to_le_bytes());
            writer.chunk.extend(count.to_le_bytes());
            writer.chunk.push(v6.into());
            for word in [low, high, size, blocks_max] {
                writer.chunk.extend(word.to_le_bytes());
            }
            writer.pools.push(at);
        }
        if !writer.pools.is_empty() {
            out.extend(writer.frame());
        }
        (writer, out)
    }

    /// No packet has come to the tracker since the image began, and none will.
    #[must_use]
    pub fn of_stopped(self) -> Writer {
        Writer { stopped: true, ..self }
    }

    /// Looks at so many records and notes the connections among them, for [`Writer::frame`] to frame;
    /// false if these were the last. Takes the place of what was noted before.
    pub fn slice(&mut self, tracker: &mut Tracker, now_ns: u64, records: usize) -> bool {
        self.begin(kind::CONNECTIONS);
        let now_ns = tracker.clock.at(now_ns);
        let now = ticks(now_ns);
        let first = self.next as usize;
        let last = tracker.records.len().min(first + records.clamp(1, SLOTS_MAX));
        for at in first as u32..last as u32 {
            let flags = tracker.records[at as usize].flags();
            if !flags.has(Flags::LIVE) || self.changes && !flags.has(Flags::CHANGED) {
                continue;
            }
            if self.watches {
                tracker.records[at as usize].flags_mut().clear(Flags::CHANGED);
            }
            let record = &tracker.records[at as usize];
            if record.deadline <= now {
                continue;
            }
            let mut entry = tracker.entry(at, now_ns);
            let record = &tracker.records[at as usize];
            if record.flags().has(Flags::SOURCE_NAT) {
                entry.bound = self.bound(tracker, &entry.original, &entry.reply);
            }
            entry.account = tracker.accounts.get(at);
            entry.write(&mut self.chunk);
            self.connections += 1;
        }
        self.next = last as u32;
        last < tracker.records.len()
    }

    /// The pool of blocks, as numbered in the image, in which a translation is bound.
    fn bound(&self, tracker: &Tracker, original: &Tuple, reply: &Tuple) -> Option<u16> {
        let at = self.pools.iter().position(|at| {
            let pool = tracker.pools.get(*at);
            pool.is_some_and(|pool| {
                pool.definition().2 == original.v6
                    && pool.holds(original.src, reply.dst, reply.dst_port)
            })
        })?;
        u16::try_from(at).ok()
    }

    fn begin(&mut self, kind: u8) {
        self.chunk.clear();
        self.chunk.push(kind);
        self.chunk.extend([0; CHUNK_HEADER_LEN - 1]);
    }

    /// The octets of what the last slice has noted, to be written next; none if it has noted nothing. The
    /// tracker is not needed for it.
    pub fn frame(&mut self) -> &[u8] {
        let len = self.chunk.len().saturating_sub(CHUNK_HEADER_LEN);
        if len == 0 {
            return &[];
        }
        self.chunk[1..5].copy_from_slice(&self.chunks.to_le_bytes());
        self.chunk[5..9].copy_from_slice(&(len as u32).to_le_bytes());
        let sum = crc32c(&self.chunk);
        self.chunk.extend(sum.to_le_bytes());
        self.chunks += 1;
        &self.chunk
    }

    /// Connections noted until now.
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// The image's last octets.
    pub fn end(mut self) -> Vec<u8> {
        self.begin(kind::END);
        self.chunk.extend(self.connections.to_le_bytes());
        self.chunk.push(self.stopped.into());
        self.frame();
        self.chunk
    }
}

/// An image that was read and is whole.
#[derive(Debug)]
pub struct Image {
    bytes: Vec<u8>,
    /// Where connections begin: answered ones, then half-open ones, those with least time first, which is
    /// the order in which they make room.
    order: Vec<usize>,
    next: usize,
    /// Pools of blocks, all bound as the connections say, until the tracker has them.
    pools: Vec<Pool>,
    ids: Vec<PoolId>,
    /// Pools that nobody needs, to be freed with the image and not while a tracker is waited for.
    spare: Vec<Pool>,
    /// Connections that are gone, those that come next last.
    gone: Vec<Tuple>,
    supersedes: bool,
    /// Its tracker had stopped.
    stopped: bool,
    /// TCP's windows are not checked.
    loose: bool,
    taken_at: u64,
    age_ns: u64,
    restored: Restored,
}

impl Image {
    /// Reads an image and checks all of it.
    ///
    /// # Errors
    /// [`Error`], for what is no image, is damaged, cut, or of another version.
    pub fn read(bytes: Vec<u8>) -> Result<Image, Error> {
        let all = bytes.as_slice();
        if all.get(..MAGIC.len()) != Some(MAGIC) {
            return Err(Error::Magic);
        }
        let word =
            |at: usize| all.get(at..at + 4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
        let version = word(8).ok_or(Error::Short(all.len()))?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(Error::Version(version));
        }
        let mut header = all.get(12..HEADER_LEN).ok_or(Error::Short(all.len()))?;
        if word(28) != Some(crc32c(&all[..28])) {
            return Err(Error::Header);
        }
        let taken_at = take(&mut header).map(u64::from_le_bytes).unwrap_or(0);
        let (mut answered, mut half_open) = (Vec::new(), Vec::new());
        let (mut pools, mut claims) = (Vec::<Pool>::new(), Vec::new());
        let (mut gone, mut stopped) = (Vec::new(), false);
        let mut at = HEADER_LEN;
        for number in 0.. {
            let short = || Error::Short(all.len());
            let head = all.get(at..at + CHUNK_HEADER_LEN).ok_or_else(short)?;
            let bad = |what| Error::Chunk { number, at, what };
            let len = word(at + 5).unwrap_or(0) as usize;
            if len > CHUNK_MAX {
                return Err(bad("it is longer than chunks are"));
            }
            let begin = at + CHUNK_HEADER_LEN;
            let end = begin + len;
            let sum = word(end).ok_or_else(short)?;
            if sum != crc32c(&all[at..end]) {
                return Err(Error::Checksum { number, at });
            }
            if word(at + 1) != Some(number) {
                return Err(bad("another chunk was to come here"));
            }
            let mut payload = &all[begin..end];
            match head[0] {
                kind::POOLS if number == 0 => {
                    let mut blocks_left = BLOCKS_MAX;
                    while !payload.is_empty() {
                        let at = end - payload.len();
                        let bad = |what| Error::Entry { at, what };
                        let pool = read_pool(&mut payload, &mut blocks_left).map_err(bad)?;
                        pools.push(pool);
                        claims.push(Vec::new());
                    }
                }
                kind::POOLS => return Err(bad("pools come first")),
                kind::GONE if answered.is_empty() && half_open.is_empty() => {
                    while !payload.is_empty() {
                        let at = end - payload.len();
                        let bad = |what| Error::Entry { at, what };
                        gone.push(read_gone(&mut payload).map_err(bad)?);
                    }
                }
                kind::GONE => return Err(bad("what is gone comes before connections")),
                kind::CONNECTIONS => {
                    while !payload.is_empty() {
                        let at = end - payload.len();
                        let bad = |what| Error::Entry { at, what };
                        let entry = Entry::read(&mut payload).map_err(bad)?;
                        if entry.loose {
                            return Err(bad("an image has all of a connection's windows"));
                        }
                        if let Some(pool) = entry.bound {
                            let claims: &mut Vec<_> =
                                claims.get_mut(usize::from(pool)).ok_or_else(|| {
                                    bad("it is bound in a pool that the image does not have")
                                })?;
                            if entry.original.v6 != pools[usize::from(pool)].definition().2 {
                                return Err(bad("it is bound in a pool of the other family"));
                            }
                            let Entry { original, reply, .. } = entry;
                            if (reply.dst, reply.dst_port) == (original.src, original.src_port) {
                                return Err(bad("it is bound, and its source is not translated"));
                            }
                            claims.push((original.src, reply.dst, reply.dst_port));
                        }
                        match queue(&entry.record().0) {
                            None => answered.push(at),
                            Some(_) => half_open.push((entry.left_ns, at)),
                        }
                    }
                }
                kind::END => {
                    let has = (answered.len() + half_open.len()) as u64;
                    let said = take(&mut payload).map_err(|_| bad("the end is cut short"))?;
                    let said = u64::from_le_bytes(said);
                    stopped = match (version, payload) {
                        (1, []) | (2..=VERSION, [0]) => false,
                        (2..=VERSION, [1]) => true,
                        _ => return Err(bad("the end is told otherwise than in this version")),
                    };
                    if said != has {
                        return Err(Error::Count { said, has });
                    }
                    if end + 4 != all.len() {
                        return Err(Error::Trailing(end + 4));
                    }
                    break;
                }
                _ => return Err(bad("its kind is not known")),
            }
            at = end + 4;
        }
        half_open.sort_unstable();
        answered.extend(half_open.iter().map(|(_, at)| *at));
        for (pool, claims) in pools.iter_mut().zip(claims) {
            pool.claim_all(&claims);
        }
        Ok(Image {
            bytes,
            order: answered,
            next: 0,
            pools,
            ids: Vec::new(),
            spare: Vec::new(),
            gone,
            supersedes: false,
            stopped,
            loose: false,
            taken_at,
            age_ns: 0,
            restored: Restored::default(),
        })
    }

    /// Connections in it.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// When writing began, in seconds since 1970, by the writer's word.
    pub fn taken_at(&self) -> u64 {
        self.taken_at
    }

    /// Says how long ago it was taken: so much less time is left.
    pub fn age(&mut self, age_ns: u64) {
        self.age_ns = age_ns;
    }

    /// Its tracker had not stopped, or it does not say: packets may have come behind it.
    pub fn went_on(&self) -> bool {
        !self.stopped
    }

    /// Nothing is known of what came behind it: windows of TCP's connections are not checked.
    pub fn loosen(&mut self) {
        self.loose = true;
    }

    /// It is of [changes](Writer::changes): what the tracker has of an earlier image makes way, if no packet has
    /// touched it since.
    pub fn supersede(&mut self) {
        self.supersedes = true;
    }

    /// Connections that it says are gone.
    pub fn gone(&self) -> usize {
        self.gone.len()
    }

    /// Restores so many connections into a tracker, the same each time; false if these were the last.
    /// Pools come with the first, with all that is bound in them, so this is to be called until it says so.
    pub fn restore(&mut self, tracker: &mut Tracker, now_ns: u64, connections: usize) -> bool {
        let now_ns = tracker.clock.at(now_ns);
        for pool in std::mem::take(&mut self.pools) {
            let (id, left) = tracker.adopt(pool);
            self.ids.push(id);
            self.spare.extend(left);
        }
        if !self.gone.is_empty() {
            let left = self.gone.len().saturating_sub(connections.max(1));
            for original in self.gone.drain(left..) {
                tracker.take_away(&original);
            }
            return true;
        }
        let last = self.order.len().min(self.next.saturating_add(connections.max(1)));
        for at in &self.order[self.next..last] {
            // It was read before, when the image was checked.
            let Ok(mut entry) = Entry::read(&mut &self.bytes[*at..]) else { continue };
            if self.loose && entry.original.protocol == IpProtocol::TCP {
                entry.progress.said = entry.progress.said.map(|said| said | tcp::UNCHECKED);
            }
            let pool = entry.bound.and_then(|pool| self.ids.get(usize::from(pool))).copied();
            let times = (now_ns, self.age_ns);
            tracker.restore(&entry, pool, times, self.supersedes, &mut self.restored);
        }
        self.next = last;
        last < self.order.len()
    }

    /// What became of those that were restored until now.
    pub fn restored(&self) -> Restored {
        self.restored
    }
}

/// The pool at the front of `bytes`.
fn read_pool(bytes: &mut &[u8], blocks_left: &mut u128) -> Result<Pool, &'static str> {
    let (first, count) = (u128::from_le_bytes(take(bytes)?), u128::from_le_bytes(take(bytes)?));
    let v6 = match take(bytes)? {
        [0] => false,
        [1] => true,
        _ => return Err("a pool is neither of IPv4 nor of IPv6"),
    };
    let mut word = || take(bytes).map(u16::from_le_bytes);
    let (low, high, size, blocks_max) = (word()?, word()?, word()?, word()?);
    let len = u128::from(high).saturating_sub(low.into()) + 1;
    // A pool lists blocks of at most 2¹⁶ addresses.
    let blocks = count.min(1 << 16) * (len / u128::from(size.max(1)));
    *blocks_left = blocks_left.checked_sub(blocks).ok_or("pools of more than 2^20 blocks")?;
    let ports = Ports::Blocks { first: low, last: high, size, blocks_max };
    Pool::from_definition(first, count, v6, ports)
        .ok_or("a pool whose addresses or ports are no range")
}

impl Tracker {
    /// The pool of the same definition as this one.
    pub fn pool_like(&self, pool: &Pool) -> Option<PoolId> {
        let definition = pool.definition();
        self.pools.iter().position(|have| have.definition() == definition).map(PoolId)
    }

    /// Takes a pool and its bindings over, in place of the one of the same definition if nothing of that is
    /// bound; what is left over is given back. What was bound otherwise is bound connection by connection.
    fn adopt(&mut self, mut pool: Pool) -> (PoolId, Option<Pool>) {
        let Some(id) = self.pool_like(&pool) else { return (self.add_pool(pool), None) };
        let have = &mut self.pools[id.0];
        if have.blocks().is_some_and(|(used, _)| used == 0) {
            have.adopt(&mut pool);
        }
        (id, Some(pool))
    }

    /// A connection that cannot be beside one with these tuples: the opener's packets are the same, or a
    /// translation has come upon the same addresses and ports. (A connection whose *answers* look like another's
    /// first packets is not one: trackers hold such side by side.)
    fn twin(&self, original: &Tuple, reply: &Tuple) -> Option<u32> {
        let candidates = |tuple| self.index.candidates(self.index.places(self.hasher.hash(tuple)));
        let same = candidates(original).find(|at| {
            let record = &self.records[*at as usize];
            self.original_of(*at) == *original
                || record.flags().has(Flags::TWO_KEYS) && self.reply_of(*at) == *original
        });
        let translated = *reply != original.inverted();
        same.or_else(|| {
            candidates(reply).find(|at| {
                translated && [self.original_of(*at), self.reply_of(*at)].contains(reply)
            })
        })
    }

    /// Nothing is noted for writers of changes any more.
    pub fn unwatch(&mut self) {
        self.gone = None;
    }

    /// A connection of an earlier image is gone where it comes from.
    pub(super) fn take_away(&mut self, original: &Tuple) {
        let mut candidates = self.index.candidates(self.index.places(self.hasher.hash(original)));
        let found = candidates.find(|at| {
            let record = &self.records[*at as usize];
            self.original_of(*at) == *original && record.flags().has(Flags::UNTOUCHED)
        });
        if let Some(at) = found {
            self.remove(at);
        }
    }

    /// A connection as it is written: not counted, and bound in no pool.
    pub(super) fn entry(&self, at: u32, now_ns: u64) -> Entry {
        let (original, reply) = self.tuples(at);
        let (record, rest) = (&self.records[at as usize], &self.rests[at as usize]);
        let stream_ns = match has_stream(original.protocol) {
            true => until(record.stream_from().saturating_add(1), now_ns),
            false => 0,
        };
        Entry {
            original,
            reply,
            replied: record.flags().has(Flags::REPLIED),
            assured: record.flags().has(Flags::ASSURED),
            state: record.state(),
            mark: rest.mark,
            label: self.label_of(at),
            left_ns: until(record.deadline, now_ns),
            stream_ns,
            progress: record.progress,
            notes: record.notes(rest),
            bound: None,
            account: None,
            loose: false,
        }
    }

    pub(super) fn restore(
        &mut self,
        entry: &Entry,
        pool: Option<PoolId>,
        (now_ns, age_ns): (u64, u64),
        supersedes: bool,
        restored: &mut Restored,
    ) {
        let Entry { original, reply, .. } = entry;
        // A binding came with the pool; without its connection it is nobody's.
        let give_up = |tracker: &mut Tracker| {
            if pool.is_some() {
                tracker.release(original, reply);
            }
        };
        let deadline = tick_in(entry.left_ns.saturating_sub(age_ns), now_ns);
        if deadline <= ticks(now_ns) || entry.left_ns <= age_ns {
            restored.expired += 1;
            give_up(self);
            return;
        }
        let (mut record, rest) = entry.record();
        record.deadline = deadline;
        if has_stream(original.protocol) {
            record.progress.sides[0].end = match entry.stream_ns.saturating_sub(age_ns) {
                0 => ticks(now_ns).saturating_sub(1),
                left => tick_in(left, now_ns).saturating_sub(1),
            };
        }
        let half_open = queue(&record).is_some_and(Queue::is_half_open);
        while let Some(at) = self.twin(original, reply) {
            let older = self.records[at as usize].flags().has(Flags::UNTOUCHED)
                && (supersedes || !half_open);
            if !older {
                restored.known += 1;
                // If it is the same connection, the binding is its.
                if self.reply_of(at) != *reply {
                    give_up(self);
                }
                return;
            }
            if self.renew(at, entry, (&record, &rest)) {
                restored.renewed += 1;
                return;
            }
            self.remove(at);
            restored.replaced += 1;
        }
        let translated = *reply != original.inverted();
        if self.live >= self.config.connections_max
            || half_open && self.lists.half_open() >= self.config.half_open_max
            || translated && self.translated >= self.config.translated_max
        {
            restored.no_room += 1;
            give_up(self);
            return;
        }
        let bound = match pool.and_then(|PoolId(id)| self.pools.get_mut(id)) {
            Some(pool) => pool.claim(original.src, reply.dst, reply.dst_port),
            None => true,
        };
        let Some(at) = self.place(original, reply, record, rest) else {
            restored.no_room += 1;
            give_up(self);
            return;
        };
        if entry.label != 0 {
            self.set_label(at, (entry.label, !0));
        }
        if let Some(account) = entry.account {
            self.accounts.set(at, account);
        }
        if entry.loose && pool.is_none() && self.records[at as usize].flags().has(Flags::SOURCE_NAT)
        {
            self.claim_told(original, reply);
        }
        self.records[at as usize].flags_mut().set(Flags::UNTOUCHED | Flags::TOLD);
        self.counters.connections_imported += 1;
        restored.connections += 1;
        restored.unbound += u64::from(!bound);
    }
}

#[cfg(test)]
pub(super) mod tests;
