//! A connection's memory: two arrays of fixed size, and a third for what few connections need.
//!
//! A [`Record`] (64 octets, one cache line) holds all that a packet of an IPv4 connection reads and writes that was answered and
//! is not translated or marked: the opener's addresses and ports, deadline, state, and the [`Progress`] of protocols with a state
//! machine: TCP's windows, SCTP's tags. A [`Rest`] (56 octets) holds the other direction's addresses and ports, which are the
//! opener's inverted most of the time, mark and label, list, and what is seldom asked of the last segment. With the index's 64
//! octets for nine keys a connection takes 127.1 octets, all in; one that is translated has a second key, 7.1 octets more.
//!
//! The last segment's [`Notes`] need no place of their own while they are what its side has shown at most, which they are
//! where nothing is lost or repeated: [`Flags::AT_EDGE`]. Nor do they while nothing was noted, as in a connection of which only
//! one side is seen, from its middle on: [`Flags::UNNOTED`].
//!
//! An IPv6 connection has its addresses in the place of an IPv4 connection's addresses of both directions and label; one that
//! is translated or labelled has an [`Extension`].
//!
//! Invariants: a record on the free list has no flag set; an extension belongs to one record; a record without
//! [`Flags::MARKED`] has neither mark nor label.

use super::state::Direction;
use super::tuple::{Key, Role, Tuple};
use std::sync::atomic::{AtomicU8, Ordering};
use wire::IpProtocol;

/// No record, no extension.
pub(crate) const NONE: u32 = u32::MAX;

/// What is true of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u16);

impl Flags {
    /// It is in use.
    pub(crate) const LIVE: Flags = Flags(1);
    /// Its addresses are IPv6's.
    pub(crate) const V6: Flags = Flags(2);
    /// It is of ICMP's informational messages.
    pub(crate) const QUERY: Flags = Flags(4);
    /// A reply was seen.
    pub(crate) const REPLIED: Flags = Flags(8);
    /// Traffic in both directions was seen that only the two ends can have made.
    pub(crate) const ASSURED: Flags = Flags(16);
    /// Its source is translated.
    pub(crate) const SOURCE_NAT: Flags = Flags(32);
    /// Its destination is translated.
    pub(crate) const DESTINATION_NAT: Flags = Flags(64);
    /// Its reply tuple has a place of its own in the index.
    pub(crate) const TWO_KEYS: Flags = Flags(128);
    /// It was taken over from an image, and no packet of it was seen since.
    pub(crate) const UNTOUCHED: Flags = Flags(256);
    /// Something of it has changed since a [watching](super::image) writer has passed it.
    pub(crate) const CHANGED: Flags = Flags(512);
    /// Its last segment's acknowledgment and end are the highest that its side has shown, and not in [`Notes`].
    pub(crate) const AT_EDGE: Flags = Flags(1024);
    /// Its last segment's acknowledgment and end are 0, as in a connection of which nothing was noted, and not in [`Notes`].
    pub(crate) const UNNOTED: Flags = Flags(4096);
    /// It may have a mark or a label.
    pub(crate) const MARKED: Flags = Flags(2048);

    /// It is a control connection, with a helper.
    pub(crate) const CONTROL: Flags = Flags(8192);
    /// A control connection has announced it.
    pub(crate) const RELATED: Flags = Flags(16384);

    /// Who follows the tracker was told of it; where another tracker is followed, it was told of here.
    pub(crate) const TOLD: Flags = Flags(32768);

    /// A packet of it was seen, or an action sets something of it.
    #[inline]
    pub(crate) fn touch(&mut self) {
        self.0 = self.0 & !Flags::UNTOUCHED.0 | Flags::CHANGED.0;
    }

    #[inline]
    pub(crate) fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// This, or nothing.
    #[inline(always)]
    pub(crate) fn when(self, wanted: bool) -> Flags {
        Flags(self.0 * u16::from(wanted))
    }

    /// Those of these that are true.
    #[inline]
    pub(crate) fn only(self, these: Flags) -> Flags {
        Flags(self.0 & these.0)
    }

    #[inline]
    pub(crate) fn set(&mut self, other: Flags) {
        self.0 |= other.0;
    }

    #[inline]
    pub(crate) fn clear(&mut self, other: Flags) {
        self.0 &= !other.0;
    }
}

/// What a helper looks at.
pub(super) const SLOW: Flags = Flags(Flags::CONTROL.0 | Flags::RELATED.0);

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The protocol's state; beside it a lock, for [several workers](super::together) at one connection. A state is a small number, so
/// the highest bit is free for it.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct StateCell(AtomicU8);

impl StateCell {
    const HELD: u8 = 0x80;

    #[inline(always)]
    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed) & !StateCell::HELD
    }

    /// Takes the lock; the state, with which it is to be [let go](Self::release).
    #[inline(always)]
    pub(crate) fn hold(&self) -> u8 {
        let mut tries = 0_u32;
        loop {
            let state = self.get();
            let held = state | StateCell::HELD;
            let taken =
                self.0.compare_exchange_weak(state, held, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return state;
            }
            tries += 1;
            // Its holder may have been interrupted.
            if tries.is_multiple_of(128) {
                std::thread::yield_now()
            } else {
                std::hint::spin_loop()
            }
        }
    }

    /// Lets go of the lock.
    #[inline(always)]
    pub(crate) fn release(&self, state: u8) {
        self.0.store(state, Ordering::Release);
    }
}

impl Clone for StateCell {
    fn clone(&self) -> StateCell {
        StateCell(AtomicU8::new(self.get()))
    }
}

/// What every packet reads, and most packets write.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct Record {
    /// IPv4: the original source and destination. IPv6: their least significant words.
    ends: [u32; 2],
    /// Original source and destination.
    ports: [u16; 2],
    pub(crate) zone: u16,
    pub(crate) protocol: u8,
    /// The protocol's state.
    pub(super) state: StateCell,
    /// The tick at which it is gone unless a packet comes.
    pub(crate) deadline: u32,
    pub(crate) progress: Progress,
}

/// What few packets read.
#[derive(Debug, Clone)]
#[repr(C)]
pub(crate) struct Rest {
    /// IPv4: reply source and destination, label. IPv6: the three more significant words of original source and destination.
    /// Words are in the order of their significance, the most significant first.
    addresses: [u32; 6],
    /// Reply source and destination.
    ports: [u16; 2],
    pub(crate) mark: u32,
    /// Neighbours in the list that it is on.
    pub(crate) next: u32,
    pub(crate) prev: u32,
    /// The connection's extension, or `NONE`.
    pub(crate) extension: u32,
    pub(crate) notes: Notes,
    /// The list that it is on.
    pub(crate) list: u16,
}

impl Record {
    /// A connection with these two directions, and its rest. A label and a reply tuple that is not the inverse
    /// of the original are [`Extension`]'s in IPv6.
    pub(crate) fn new(original: &Tuple, reply: &Tuple) -> (Record, Rest) {
        let mut addresses = [0; 6];
        let mut flags = Flags::LIVE | Flags::CHANGED;
        if original.v6 {
            addresses[..3].copy_from_slice(&words(original.src)[..3]);
            addresses[3..].copy_from_slice(&words(original.dst)[..3]);
            flags.set(Flags::V6);
        } else {
            (addresses[0], addresses[1]) = (reply.src as u32, reply.dst as u32);
        }
        if original.is_query() {
            flags.set(Flags::QUERY);
        }
        if *reply != original.inverted() {
            flags.set(Flags::TWO_KEYS);
        }
        let record = Record {
            ends: [original.src as u32, original.dst as u32],
            ports: [original.src_port, original.dst_port],
            zone: original.zone,
            protocol: original.protocol.0,
            state: StateCell::default(),
            deadline: 0,
            progress: Progress { flags, ..Progress::NEW },
        };
        let rest = Rest {
            addresses,
            ports: [reply.src_port, reply.dst_port],
            mark: 0,
            next: NONE,
            prev: NONE,
            extension: NONE,
            notes: Notes::NEW,
            list: 0,
        };
        (record, rest)
    }

    /// The protocol's state.
    #[inline(always)]
    pub(crate) fn state(&self) -> u8 {
        self.state.get()
    }

    /// Sets it.
    #[inline(always)]
    pub(crate) fn set_state(&mut self, state: u8) {
        *self.state.0.get_mut() = state;
    }

    /// What is true of it.
    #[inline(always)]
    pub(crate) fn flags(&self) -> Flags {
        self.progress.flags
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(crate) fn flags_mut(&mut self) -> &mut Flags {
        &mut self.progress.flags
    }

    /// Which way a packet with this tuple goes, if it is of this connection.
    #[inline]
    pub(crate) fn way(
        &self,
        rest: &Rest,
        tuple: &Tuple,
        extension: Option<&Extension>,
    ) -> Option<Direction> {
        let (v6, query) = (self.flags().has(Flags::V6), self.flags().has(Flags::QUERY));
        let alike = self.zone == tuple.zone
            && self.protocol == tuple.protocol.0
            && v6 == tuple.v6
            && query == (tuple.role != Role::Any);
        if !alike {
            return None;
        }
        if v6 {
            return match tuple {
                _ if tuple.role != Role::Reply && self.original(rest) == *tuple => {
                    Some(Direction::Original)
                }
                _ if tuple.role != Role::Request && self.reply(rest, extension) == *tuple => {
                    Some(Direction::Reply)
                }
                _ => None,
            };
        }
        let ends = [tuple.src as u32, tuple.dst as u32];
        let ports = [tuple.src_port, tuple.dst_port];
        if tuple.role != Role::Reply && self.ends == ends && self.ports == ports {
            return Some(Direction::Original);
        }
        let reply = rest.addresses[..2] == ends && rest.ports == ports;
        (tuple.role != Role::Request && reply).then_some(Direction::Reply)
    }

    /// The same for a packet that has a key, of a connection whose reply tuple is the inverse of the original and that has to do
    /// with no helper; without a choice that depends on the direction. None for others, and for a record that is not in use.
    #[inline(always)]
    pub(crate) fn way_of(&self, key: &Key, zone: u16) -> Option<Direction> {
        let kind = Flags::LIVE.0 | Flags::V6.0 | Flags::QUERY.0 | Flags::TWO_KEYS.0 | SLOW.0;
        let alike = (self.flags().0 & kind == Flags::LIVE.0)
            & (self.zone == zone)
            & (self.protocol == key.protocol.0);
        let ([a, b], [e, f]) = (self.ends, self.ports);
        let original = (pair([a, b]) == pair(key.ends)) & ([e, f] == key.ports);
        let reply = (pair([b, a]) == pair(key.ends)) & ([f, e] == key.ports);
        if !(alike & (original | reply)) {
            return None;
        }
        Some(if original { Direction::Original } else { Direction::Reply })
    }

    /// The same of a connection that is translated and was answered.
    #[inline]
    pub(crate) fn way_translated(&self, rest: &Rest, key: &Key, zone: u16) -> Option<Direction> {
        let flags = self.flags();
        let usual = flags.only(Flags::LIVE | Flags::V6 | Flags::QUERY | Flags::TWO_KEYS | SLOW)
            == Flags::LIVE | Flags::TWO_KEYS;
        if !(usual && flags.has(Flags::REPLIED))
            || self.zone != zone
            || self.protocol != key.protocol.0
        {
            return None;
        }
        if self.ends == key.ends && self.ports == key.ports {
            return Some(Direction::Original);
        }
        let reply = rest.addresses[..2] == key.ends && rest.ports == key.ports;
        reply.then_some(Direction::Reply)
    }

    /// Addresses and ports as the opener's packets come in.
    #[inline]
    pub(crate) fn original(&self, rest: &Rest) -> Tuple {
        if !self.flags().has(Flags::V6) {
            return self.original_v4();
        }
        let [a, b, c, d, e, f] = rest.addresses;
        let src = address(&[a, b, c, self.ends[0]]);
        let dst = address(&[d, e, f, self.ends[1]]);
        Tuple { src, dst, ..self.original_v4() }
    }

    /// The same of an IPv4 connection.
    #[inline(always)]
    pub(crate) fn original_v4(&self) -> Tuple {
        let [src, dst] = self.ends.map(u128::from);
        Tuple { src, dst, src_port: self.ports[0], dst_port: self.ports[1], ..self.frame(true) }
    }

    /// Addresses of an IPv4 connection, of the opener's direction or of the other.
    #[inline(always)]
    pub(crate) fn ends_v4(&self, rest: &Rest, reply: bool) -> [u32; 2] {
        if reply { [rest.addresses[0], rest.addresses[1]] } else { self.ends }
    }

    /// Ports, likewise.
    #[inline(always)]
    pub(crate) fn ports_of(&self, rest: &Rest, reply: bool) -> [u16; 2] {
        if reply { rest.ports } else { self.ports }
    }

    /// Addresses and ports as the other side's packets come in.
    pub(crate) fn reply(&self, rest: &Rest, extension: Option<&Extension>) -> Tuple {
        let [src, dst] = match extension {
            Some(extension) if self.flags().has(Flags::V6) && self.flags().has(Flags::TWO_KEYS) => {
                [extension.reply_src, extension.reply_dst]
            }
            _ if self.flags().has(Flags::V6) => {
                let original = self.original(rest);
                [original.dst, original.src]
            }
            _ => [rest.addresses[0].into(), rest.addresses[1].into()],
        };
        Tuple { src, dst, src_port: rest.ports[0], dst_port: rest.ports[1], ..self.frame(false) }
    }

    #[inline(always)]
    fn frame(&self, original: bool) -> Tuple {
        let role = match (self.flags().has(Flags::QUERY), original) {
            (false, _) => Role::Any,
            (true, true) => Role::Request,
            (true, false) => Role::Reply,
        };
        Tuple {
            src: 0,
            dst: 0,
            src_port: 0,
            dst_port: 0,
            zone: self.zone,
            protocol: IpProtocol(self.protocol),
            v6: self.flags().has(Flags::V6),
            role,
        }
    }

    /// UDP: the tick after which it is a stream.
    #[inline(always)]
    pub(crate) fn stream_from(&self) -> u32 {
        self.progress.stream_from()
    }

    /// What the last segment has said, wherever it is kept.
    #[inline(always)]
    pub(crate) fn notes(&self, rest: &Rest) -> Notes {
        match self.progress.last_said() {
            Some((last_ack, last_end)) => Notes { last_ack, last_end, ..rest.notes },
            None => rest.notes,
        }
    }
}
impl Rest {
    /// The label of an IPv4 connection.
    #[inline]
    pub(crate) fn label_v4(&self) -> u128 {
        address(&self.addresses[2..])
    }

    /// Sets the label of an IPv4 connection.
    pub(crate) fn set_label_v4(&mut self, label: u128) {
        self.addresses[2..].copy_from_slice(&words(label));
    }
}

#[inline(always)]
fn pair([a, b]: [u32; 2]) -> u64 {
    u64::from(a) | u64::from(b) << 32
}

fn words(address: u128) -> [u32; 4] {
    [(address >> 96) as u32, (address >> 64) as u32, (address >> 32) as u32, address as u32]
}

#[inline]
fn address(words: &[u32]) -> u128 {
    words.iter().fold(0, |sum, word| sum << 32 | u128::from(*word))
}

/// What one side of a TCP connection has shown. SCTP keeps its verification tag in `end`, UDP in the original side's the tick
/// after which a flow is a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Side {
    /// One past the highest sequence number sent.
    pub(crate) end: u32,
    /// One past the highest that the other side has room for.
    pub(crate) max_end: u32,
    /// The largest window offered, scaled; 0 if nothing was seen of this side.
    pub(crate) max_window: u32,
    /// The highest acknowledgment sent.
    pub(crate) max_ack: u32,
}

/// What protocols with a state machine keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Progress {
    /// Original, reply.
    pub(crate) sides: [Side; 2],
    /// The last segment's window, not scaled.
    pub(crate) last_window: u16,
    /// Its length, low bits.
    pub(crate) last_len: u16,
    /// What each side has said; see `tcp`.
    pub(crate) said: [u8; 2],
    /// Each side's window scale.
    pub(crate) scales: [u8; 2],
    /// Repetitions of the last segment.
    pub(crate) repeats: u8,
    /// The last segment's kind, and its direction in bit 7.
    pub(crate) last: u8,
    /// What is true of the whole connection; here, where there is room.
    flags: Flags,
}

/// What was said last and is seldom asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, packed(2))]
pub(crate) struct Notes {
    /// The acknowledgment number of the last segment noted.
    pub(crate) last_ack: u32,
    /// One past its last sequence number.
    pub(crate) last_end: u32,
    /// What a SYN that was let through without effect has said.
    pub(crate) noted: u8,
    /// And its window scale.
    pub(crate) noted_scale: u8,
}

impl Notes {
    /// Nothing seen yet.
    pub(crate) const NEW: Notes = Notes { last_ack: 0, last_end: 0, noted: 0, noted_scale: 0 };
}

impl Progress {
    /// Nothing seen yet.
    pub(crate) const NEW: Progress = Progress {
        sides: [Side { end: 0, max_end: 0, max_window: 0, max_ack: 0 }; 2],
        last_window: 0,
        last_len: 0,
        said: [0; 2],
        scales: [0; 2],
        repeats: 0,
        last: 0,
        flags: Flags(0),
    };

    /// This, of a connection of which that is true.
    pub(crate) fn with(self, flags: Flags) -> Progress {
        Progress { flags, ..self }
    }

    /// What is true of the connection.
    #[inline(always)]
    pub(crate) fn flags(&self) -> Flags {
        self.flags
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(crate) fn flags_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }

    /// UDP: the tick after which it is a stream.
    #[inline(always)]
    pub(crate) fn stream_from(&self) -> u32 {
        self.sides[0].end
    }

    /// The last segment's acknowledgment and end, unless they are in [`Notes`].
    #[inline(always)]
    pub(crate) fn last_said(&self) -> Option<(u32, u32)> {
        match self.flags {
            flags if flags.has(Flags::AT_EDGE) => Some(self.edge()),
            flags if flags.has(Flags::UNNOTED) => Some((0, 0)),
            _ => None,
        }
    }

    /// How they need no place in [`Notes`], if they need none.
    #[inline(always)]
    pub(crate) fn spared(&self, last: (u32, u32)) -> Flags {
        if last == self.edge() { Flags::AT_EDGE } else { Flags::UNNOTED.when(last == (0, 0)) }
    }

    /// What the side that has sent the last segment has acknowledged and sent at most.
    #[inline(always)]
    pub(crate) fn edge(&self) -> (u32, u32) {
        let side = &self.sides[usize::from(self.last >> 7)];
        (side.max_ack, side.end)
    }
}

const _: () = assert!(size_of::<Record>() == 64 && size_of::<Rest>() == 56);

/// What an IPv6 connection needs beyond a record if it is translated or labelled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extension {
    pub(crate) reply_src: u128,
    pub(crate) reply_dst: u128,
    pub(crate) label: u128,
    /// The next free one.
    next: u32,
}

/// Extensions in chunks, so that taking one never copies the others.
#[derive(Debug)]
pub(crate) struct Extensions {
    chunks: Vec<Box<[Extension]>>,
    free: u32,
}

const CHUNK: usize = 256;

impl Extensions {
    pub(crate) fn new() -> Extensions {
        Extensions { chunks: Vec::new(), free: NONE }
    }

    pub(crate) fn take(&mut self) -> u32 {
        if self.free == NONE {
            let first = (self.chunks.len() * CHUNK) as u32;
            let chunk = (1..=CHUNK as u32).map(|n| {
                let next = if n as usize == CHUNK { NONE } else { first + n };
                Extension { next, ..Extension::default() }
            });
            self.chunks.push(chunk.collect());
            self.free = first;
        }
        let at = self.free;
        self.free = self[at].next;
        self[at] = Extension::default();
        at
    }

    pub(crate) fn give(&mut self, at: u32) {
        self[at].next = self.free;
        self.free = at;
    }

    pub(crate) fn get(&self, at: u32) -> Option<&Extension> {
        (at != NONE).then(|| &self[at])
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<Extension>()
    }
}

impl std::ops::Index<u32> for Extensions {
    type Output = Extension;
    fn index(&self, at: u32) -> &Extension {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}

impl std::ops::IndexMut<u32> for Extensions {
    fn index_mut(&mut self, at: u32) -> &mut Extension {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_its_tuples() {
        for v6 in [false, true] {
            for role in [Role::Any, Role::Request] {
                let wide = |n: u128| if v6 { n << 100 | n } else { n };
                let original = Tuple {
                    src: wide(0x0a00_0001),
                    dst: wide(0xc0a8_0002),
                    src_port: 1,
                    dst_port: 2,
                    zone: 3,
                    protocol: IpProtocol::UDP,
                    v6,
                    role,
                };
                let (plain, rest) = Record::new(&original, &original.inverted());
                assert_eq!(plain.original(&rest), original);
                assert_eq!(plain.reply(&rest, None), original.inverted());
                assert!(!plain.flags().has(Flags::TWO_KEYS));
                let plain = (plain, rest);
                let reply = Tuple { dst: wide(7), dst_port: 9, ..original.inverted() };
                let translated = Record::new(&original, &reply);
                let inverse = original.inverted();
                for ((record, rest), other) in [(&plain, &inverse), (&translated, &reply)] {
                    let extension = Extension {
                        reply_src: reply.src,
                        reply_dst: reply.dst,
                        ..Extension::default()
                    };
                    let way = |tuple: &Tuple| {
                        let way = record.way(rest, tuple, Some(&extension));
                        let inverse = !record.flags().has(Flags::TWO_KEYS);
                        if !tuple.v6 && tuple.role == Role::Any && inverse {
                            let key = Key {
                                ends: [tuple.src as u32, tuple.dst as u32],
                                ports: [tuple.src_port, tuple.dst_port],
                                protocol: tuple.protocol,
                            };
                            assert_eq!(record.way_of(&key, tuple.zone), way);
                        }
                        way
                    };
                    assert_eq!(way(&original), Some(Direction::Original));
                    assert_eq!(way(other), Some(Direction::Reply));
                    for not in [
                        Tuple { zone: 4, ..original },
                        Tuple { src_port: 3, ..original },
                        Tuple { dst: wide(1), ..original },
                        Tuple { protocol: IpProtocol::TCP, ..original },
                        Tuple { v6: !v6, ..original },
                        Tuple { role: Role::Reply, ..original },
                        Tuple { role: Role::Request, ..*other },
                    ] {
                        let same = not == original || not == *other;
                        assert_eq!(way(&not).is_some(), same, "{not:?}");
                    }
                }
                let extension = Extension {
                    reply_src: reply.src,
                    reply_dst: reply.dst,
                    ..Extension::default()
                };
                let (translated, rest) = translated;
                assert_eq!(translated.original(&rest), original);
                assert_eq!(translated.reply(&rest, Some(&extension)), reply);
                assert!(translated.flags().has(Flags::TWO_KEYS));
            }
        }
    }

    #[test]
    fn extensions_are_reused() {
        let mut extensions = Extensions::new();
        let taken: Vec<u32> = (0..600).map(|_| extensions.take()).collect();
        let bytes = extensions.bytes();
        assert_eq!(taken.iter().collect::<std::collections::HashSet<_>>().len(), 600);
        for at in taken {
            extensions[at].label = 1;
            extensions.give(at);
        }
        assert!((0..600).all(|_| {
            let at = extensions.take();
            extensions[at].label == 0
        }));
        assert_eq!(extensions.bytes(), bytes);
        assert!(extensions.get(NONE).is_none());
    }
}
