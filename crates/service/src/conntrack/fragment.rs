//! Fragments: which connection a later fragment belongs to, and which fragments wait for their first.
//!
//! Nothing is put together. The first fragment has the ports; what it said is kept under the
//! datagram's addresses, protocol and identification (RFC 791 §3.2, RFC 8200 §4.5), and later fragments
//! belong to the same tuple. One that comes before its first *waits* (RFC 4787 §11, REQ-14): whoever has the packet
//! keeps it under a [`Ticket`], and is told when the first has come ([`Fragments::take_ready`]) or will not come any more
//! ([`Fragments::take_lost`]). Where nobody can keep packets, it is an orphan.
//!
//! What a receiver may put together in more than one way does not pass: a fragment that overlaps another of its datagram,
//! or ends elsewhere than the datagram does, spoils the datagram, of which nothing passes any more (RFC 5722, also
//! for IPv4). The same octets again are a repetition, which passes: a packet may come to several calls. A later fragment that
//! begins within the transport header is refused, whatever else came (RFC 1858, RFC 3128).
//!
//! All is bounded: datagrams, pieces of each, fragments that wait and their octets, and time. Where room is wanted, the
//! source that takes most of it gives up its oldest datagram, so that who sends many takes from himself. Of IPv6, a source is a
//! network of 64 bits. A datagram of which all has come makes room soon.
//!
//! Cost: some lookups in maps and trees for each fragment; nothing for other packets.
//! Checked by: the tests below, and those of the tracker; `fuzz::conntrack`.

use super::tuple::Tuple;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use wire::IpProtocol;

/// Pieces of one datagram, at most.
const PIECES_MAX: usize = 128;
/// Datagrams that make room for one, at most.
const EVICTIONS_MAX: usize = 16;
/// Ticks that a datagram of which all has come is known for.
const LINGER: u32 = 16;

/// Under which a packet waits.
pub type Ticket = u64;

/// Which octets of its datagram a fragment has, in units of eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u16,
    /// One past its last unit, which may be partly filled in the last fragment.
    pub(crate) end: u16,
    /// Nothing comes behind it.
    pub(crate) last: bool,
}

impl Piece {
    /// A fragment from this unit on, of so many octets. None if it has none, or would reach beyond the longest datagram.
    pub(crate) fn new(start: u16, octets: usize, last: bool) -> Option<Piece> {
        let units = if last { octets.div_ceil(8) } else { octets / 8 };
        let fits = usize::from(start) * 8 + octets <= usize::from(u16::MAX);
        (units > 0 && fits).then(|| Piece { start, end: start + units as u16, last })
    }
}

/// Octets of a transport header that a first fragment must have, so that no later one can change them.
fn header(protocol: IpProtocol) -> u16 {
    match protocol {
        IpProtocol::TCP => 20,
        IpProtocol::SCTP | IpProtocol::DCCP => 12,
        _ => 8,
    }
}

/// Which datagram a fragment is of. `hash` is of all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    pub(crate) hash: u64,
    /// Without ports.
    pub(crate) bare: Tuple,
    pub(crate) ident: u32,
}

/// What a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Of this connection.
    Of(Tuple),
    /// Its first has not come. It waits under this ticket.
    Waits(Ticket),
    /// Its first has not come, and it cannot wait.
    Orphan,
    /// It overlaps others, or is of a datagram that was spoilt so.
    Overlaps,
    /// It begins within the transport header.
    Tiny,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    start: u16,
    octets: u32,
}

#[derive(Debug)]
struct Datagram {
    /// The first fragment's tuple, once that has come.
    tuple: Option<Tuple>,
    name: Name,
    source: u32,
    /// The tick at which it is gone.
    deadline: u32,
    /// Its place in the order of arrival.
    number: u64,
    /// By their beginning.
    pieces: SmallVec<[(u16, u16); 4]>,
    /// Where it ends.
    end: Option<u16>,
    spoilt: bool,
    complete: bool,
    waiting: Vec<Waiting>,
    /// The hash of what it is behind a translation.
    alias: Option<u64>,
}

impl Datagram {
    /// Whether `name` is of the same datagram.
    fn is(&self, name: &Name) -> bool {
        let (have, want) = (&self.name.bare, &name.bare);
        self.name.ident == name.ident
            && (have.src, have.dst) == (want.src, want.dst)
            && (have.zone, have.protocol, have.v6) == (want.zone, want.protocol, want.v6)
    }

    /// What it takes of its source's share.
    fn weight(&self) -> u32 {
        1 + self.waiting.len() as u32
    }

    /// Adds a piece. False if it cannot be of this datagram, together with what has come.
    fn add(&mut self, piece: Piece) -> bool {
        let Piece { start, end, last } = piece;
        let at = self.pieces.partition_point(|(other, _)| *other < start);
        if self.pieces.get(at) == Some(&(start, end)) && (self.end == Some(end)) == last {
            return true;
        }
        let before = at.checked_sub(1).and_then(|at| self.pieces.get(at));
        let overlaps = before.is_some_and(|(_, other)| *other > start)
            || self.pieces.get(at).is_some_and(|(other, _)| *other < end);
        let furthest = self.pieces.last().map_or(0, |(_, end)| *end);
        let beyond = match (last, self.end) {
            (true, Some(known)) => known != end,
            (true, None) => furthest > end,
            (false, Some(known)) => end >= known,
            (false, None) => false,
        };
        if overlaps || beyond || self.pieces.len() >= PIECES_MAX {
            return false;
        }
        self.pieces.insert(at, (start, end));
        if last {
            self.end = Some(end);
        }
        let mut reached = 0;
        let whole = self.pieces.iter().all(|(start, end)| {
            let follows = *start == reached;
            reached = *end;
            follows
        });
        self.complete = whole && self.end == Some(reached);
        true
    }
}

/// What a source has here.
#[derive(Debug, Default)]
struct Source {
    key: (u128, bool),
    weight: u32,
    /// Its datagrams by their order of arrival.
    datagrams: BTreeSet<(u64, u32)>,
}

/// Fragments' limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) datagrams: usize,
    /// Fragments that wait.
    pub(crate) waiting: usize,
    /// Their octets.
    pub(crate) octets: usize,
}

/// Datagrams that come in fragments.
#[derive(Debug)]
pub(crate) struct Fragments {
    limits: Limits,
    datagrams: Vec<Option<Datagram>>,
    free: Vec<u32>,
    index: HashMap<u64, u32, FixedState>,
    sources: Vec<Source>,
    free_sources: Vec<u32>,
    by_source: HashMap<(u128, bool), u32, FixedState>,
    /// What datagrams are behind a translation: their first fragments' tuples there.
    aliases: HashMap<u64, (u64, Tuple), FixedState>,
    /// By weight; of the same, the one with the oldest datagram last.
    by_weight: BTreeSet<(u32, Reverse<u64>, u32)>,
    by_deadline: BTreeSet<(u32, u64, u32)>,
    /// The first deadline there is.
    next_deadline: u32,
    number: u64,
    waiting: usize,
    octets: usize,
    ready: Vec<Ticket>,
    lost: Vec<Ticket>,
    evicted: u64,
}

impl Fragments {
    /// Nothing yet. `seed` is a number that nobody outside can guess.
    pub(crate) fn new(limits: Limits, seed: u64) -> Fragments {
        let limits = Limits { datagrams: limits.datagrams.max(1), ..limits };
        let map = || FixedState::with_seed(seed);
        Fragments {
            limits,
            datagrams: Vec::new(),
            free: Vec::new(),
            index: HashMap::with_hasher(map()),
            sources: Vec::new(),
            free_sources: Vec::new(),
            by_source: HashMap::with_hasher(map()),
            aliases: HashMap::with_hasher(map()),
            by_weight: BTreeSet::new(),
            by_deadline: BTreeSet::new(),
            next_deadline: u32::MAX,
            number: 0,
            waiting: 0,
            octets: 0,
            ready: Vec::new(),
            lost: Vec::new(),
            evicted: 0,
        }
    }

    /// Octets taken, about.
    pub(crate) fn bytes(&self) -> usize {
        self.datagrams.capacity() * size_of::<Option<Datagram>>()
            + self.sources.capacity() * size_of::<Source>()
            + self.index.allocation_size()
            + self.by_source.allocation_size()
    }

    /// Fragments that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Datagrams that have made room for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Whether the first fragment of this datagram has come.
    pub(crate) fn knows(&self, name: &Name, now: u32) -> bool {
        self.find(name).is_some_and(|at| {
            let of = self.datagrams[at as usize].as_ref();
            of.is_some_and(|of| of.tuple.is_some() && of.deadline > now)
        })
    }

    /// A first fragment, with its tuple.
    pub(crate) fn first(
        &mut self,
        name: Name,
        tuple: Tuple,
        piece: Piece,
        (now, deadline): (u32, u32),
    ) -> Arrival {
        self.expire(now, EVICTIONS_MAX);
        let mut at = self.find(&name);
        if let Some(old) = at {
            let of = self.datagrams[old as usize].as_ref();
            // The identification is used again: for other ports, or for another datagram behind one of which all has come.
            let other = of.is_some_and(|of| {
                of.tuple.is_some_and(|known| known != tuple)
                    || of.complete && !of.pieces.contains(&(piece.start, piece.end))
            });
            if other {
                self.remove(old);
                at = None;
            }
        }
        let at = at.unwrap_or_else(|| self.open(name, now, deadline));
        let Some(datagram) = &mut self.datagrams[at as usize] else { return Arrival::Orphan };
        datagram.tuple = Some(tuple);
        let fits = !datagram.spoilt && datagram.add(piece);
        if !fits {
            self.spoil(at);
            return Arrival::Overlaps;
        }
        self.release(at);
        self.completed(at, now);
        Arrival::Of(tuple)
    }

    /// A later fragment; `octets` is what it takes to keep it, if it can wait.
    pub(crate) fn later(
        &mut self,
        name: Name,
        piece: Piece,
        octets: Option<usize>,
        (now, deadline): (u32, u32),
    ) -> Arrival {
        if piece.start * 8 < header(name.bare.protocol) {
            return Arrival::Tiny;
        }
        self.expire(now, EVICTIONS_MAX);
        let mut at = self.find(&name);
        if let Some(old) = at {
            let of = self.datagrams[old as usize].as_ref();
            if of.is_some_and(|of| of.complete && !of.pieces.contains(&(piece.start, piece.end))) {
                self.remove(old);
                at = None;
            }
        }
        let known = |at: u32| self.datagrams[at as usize].as_ref();
        let has_first = at.and_then(known).is_some_and(|of| of.tuple.is_some());
        if !has_first {
            let Some(octets) = octets else { return Arrival::Orphan };
            return self.wait(name, at, piece, octets, (now, deadline));
        }
        let Some((at, Some(datagram))) = at.map(|at| (at, &mut self.datagrams[at as usize])) else {
            return Arrival::Orphan;
        };
        let tuple = datagram.tuple;
        if datagram.spoilt || !datagram.add(piece) {
            self.spoil(at);
            return Arrival::Overlaps;
        }
        self.completed(at, now);
        tuple.map_or(Arrival::Orphan, Arrival::Of)
    }

    /// A datagram is known under another name, too, and with another tuple: it was translated.
    pub(crate) fn rename(&mut self, name: &Name, behind: &Name, tuple: Tuple) {
        let Some(at) = self.find(name) else { return };
        let Some(datagram) = &mut self.datagrams[at as usize] else { return };
        if datagram.alias == Some(behind.hash) {
            return;
        }
        if let Some(old) = datagram.alias.replace(behind.hash) {
            self.aliases.remove(&old);
        }
        if let Some((other, _)) = self.aliases.insert(behind.hash, (name.hash, tuple))
            && other != name.hash
            && let Some(of) = self.index.get(&other)
            && let Some(datagram) = &mut self.datagrams[*of as usize]
        {
            datagram.alias = None;
        }
    }

    /// The tuple of a later fragment that was translated.
    pub(crate) fn renamed(&self, behind: &Name) -> Option<Tuple> {
        let (_, tuple) = self.aliases.get(&behind.hash)?;
        let bare = &behind.bare;
        ((tuple.src, tuple.dst) == (bare.src, bare.dst)).then_some(*tuple)
    }

    /// Forgets datagrams whose time is over, so many at most. True if more may be due.
    #[inline]
    pub(crate) fn expire(&mut self, now: u32, most: usize) -> bool {
        // Nearly always.
        if self.next_deadline > now {
            return false;
        }
        self.expire_due(now, most)
    }

    #[cold]
    fn expire_due(&mut self, now: u32, most: usize) -> bool {
        for _ in 0..most {
            match self.by_deadline.first() {
                Some((deadline, _, at)) if *deadline <= now => {
                    let at = *at;
                    self.remove(at);
                }
                _ => break,
            }
        }
        let next = self.by_deadline.first().map(|(deadline, ..)| *deadline);
        self.next_deadline = next.unwrap_or(u32::MAX);
        next.is_some_and(|deadline| deadline <= now)
    }

    /// Tickets of fragments whose first has come, by their place in the datagram.
    pub(crate) fn take_ready(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.ready)
    }

    /// Tickets of fragments that wait no longer, since their first has not come in time, others have taken their room, or
    /// their datagram was spoilt.
    pub(crate) fn take_lost(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.lost)
    }

    /// Whether there are tickets to be taken.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.ready.is_empty() || !self.lost.is_empty()
    }

    /// Nothing waits any more, and nothing is known.
    pub(crate) fn clear(&mut self) {
        while let Some((_, _, at)) = self.by_deadline.first() {
            let at = *at;
            self.remove(at);
        }
        self.next_deadline = u32::MAX;
    }

    fn find(&self, name: &Name) -> Option<u32> {
        let at = *self.index.get(&name.hash)?;
        self.datagrams[at as usize].as_ref().filter(|datagram| datagram.is(name))?;
        Some(at)
    }

    /// A fragment whose first has not come is to be kept.
    fn wait(
        &mut self,
        name: Name,
        at: Option<u32>,
        piece: Piece,
        octets: usize,
        (now, deadline): (u32, u32),
    ) -> Arrival {
        let number = at.and_then(|at| self.datagrams[at as usize].as_ref()).map(|of| of.number);
        for _ in 0..EVICTIONS_MAX {
            if self.waiting < self.limits.waiting && self.octets + octets <= self.limits.octets {
                break;
            }
            self.evict();
        }
        if self.waiting >= self.limits.waiting || self.octets + octets > self.limits.octets {
            return Arrival::Orphan;
        }
        // Its own datagram may have made room.
        let still = |at: &u32| {
            let of = self.datagrams[*at as usize].as_ref();
            of.map(|of| of.number) == number
        };
        let at = at.filter(still).unwrap_or_else(|| self.open(name, now, deadline));
        let ticket = self.number;
        self.number += 1;
        let Some(datagram) = &mut self.datagrams[at as usize] else { return Arrival::Orphan };
        let known = datagram.pieces.contains(&(piece.start, piece.end));
        if datagram.spoilt || known || !datagram.add(piece) {
            // The same again, of which one waits already, is one too many.
            if !known {
                self.spoil(at);
            }
            return Arrival::Overlaps;
        }
        self.reweigh(at, |datagram| {
            let octets = octets as u32;
            datagram.waiting.push(Waiting { ticket, start: piece.start, octets });
        });
        self.waiting += 1;
        self.octets += octets;
        Arrival::Waits(ticket)
    }

    /// A datagram of which nothing has come before.
    fn open(&mut self, name: Name, _now: u32, deadline: u32) -> u32 {
        if let Some(other) = self.index.get(&name.hash).copied() {
            // The same number for another: it makes room.
            self.remove(other);
        }
        if self.by_deadline.len() >= self.limits.datagrams {
            self.evict();
        }
        let key = match name.bare.v6 {
            true => (name.bare.src >> 64, true),
            false => (name.bare.src, false),
        };
        let source = *self.by_source.entry(key).or_insert_with(|| match self.free_sources.pop() {
            Some(source) => source,
            None => {
                self.sources.push(Source::default());
                self.sources.len() as u32 - 1
            }
        });
        self.number += 1;
        let number = self.number;
        let datagram = Datagram {
            tuple: None,
            name,
            source,
            deadline,
            number,
            pieces: SmallVec::new(),
            end: None,
            spoilt: false,
            complete: false,
            waiting: Vec::new(),
            alias: None,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.datagrams[at as usize] = Some(datagram);
                at
            }
            None => {
                self.datagrams.push(Some(datagram));
                self.datagrams.len() as u32 - 1
            }
        };
        self.index.insert(name.hash, at);
        self.by_deadline.insert((deadline, number, at));
        self.next_deadline = self.next_deadline.min(deadline);
        self.unrank(source);
        let of = &mut self.sources[source as usize];
        of.key = key;
        of.weight += 1;
        of.datagrams.insert((number, at));
        self.rank(source);
        at
    }

    /// The source that takes most gives up its oldest datagram.
    fn evict(&mut self) {
        let Some((_, _, source)) = self.by_weight.last() else { return };
        let Some((_, at)) = self.sources[*source as usize].datagrams.first() else { return };
        let at = *at;
        self.evicted += 1;
        self.remove(at);
    }

    /// Forgets a datagram; what waits of it is lost.
    fn remove(&mut self, at: u32) {
        let Some(datagram) = self.datagrams[at as usize].take() else { return };
        for waiting in &datagram.waiting {
            self.lost.push(waiting.ticket);
            self.waiting -= 1;
            self.octets -= waiting.octets as usize;
        }
        self.free.push(at);
        self.index.remove(&datagram.name.hash);
        if let Some(alias) = datagram.alias {
            self.aliases.remove(&alias);
        }
        self.by_deadline.remove(&(datagram.deadline, datagram.number, at));
        let source = datagram.source;
        self.unrank(source);
        let of = &mut self.sources[source as usize];
        of.weight -= datagram.weight();
        of.datagrams.remove(&(datagram.number, at));
        if of.datagrams.is_empty() {
            self.by_source.remove(&of.key);
            self.free_sources.push(source);
        }
        self.rank(source);
    }

    /// Of a datagram with overlaps nothing passes; what waits of it is lost.
    fn spoil(&mut self, at: u32) {
        let mut waiting = Vec::new();
        self.reweigh(at, |datagram| {
            datagram.spoilt = true;
            waiting = std::mem::take(&mut datagram.waiting);
        });
        for waiting in waiting {
            self.lost.push(waiting.ticket);
            self.waiting -= 1;
            self.octets -= waiting.octets as usize;
        }
    }

    /// The first fragment has come: what waits for it goes on.
    fn release(&mut self, at: u32) {
        let mut waiting = Vec::new();
        self.reweigh(at, |datagram| waiting = std::mem::take(&mut datagram.waiting));
        waiting.sort_by_key(|waiting| waiting.start);
        for waiting in waiting {
            self.ready.push(waiting.ticket);
            self.waiting -= 1;
            self.octets -= waiting.octets as usize;
        }
    }

    /// A datagram of which all has come is known for a short time only.
    fn completed(&mut self, at: u32, now: u32) {
        let Some(datagram) = &mut self.datagrams[at as usize] else { return };
        let soon = now.saturating_add(LINGER);
        if !datagram.complete || datagram.deadline <= soon {
            return;
        }
        self.by_deadline.remove(&(datagram.deadline, datagram.number, at));
        datagram.deadline = soon;
        self.by_deadline.insert((soon, datagram.number, at));
        self.next_deadline = self.next_deadline.min(soon);
    }

    fn reweigh(&mut self, at: u32, change: impl FnOnce(&mut Datagram)) {
        let Some(datagram) = &mut self.datagrams[at as usize] else { return };
        let before = datagram.weight();
        change(datagram);
        let (after, source) = (datagram.weight(), datagram.source);
        if before != after {
            self.unrank(source);
            let of = &mut self.sources[source as usize];
            of.weight = of.weight - before + after;
            self.rank(source);
        }
    }

    fn place(&self, source: u32) -> Option<(u32, Reverse<u64>, u32)> {
        let of = &self.sources[source as usize];
        let (oldest, _) = of.datagrams.first()?;
        Some((of.weight, Reverse(*oldest), source))
    }

    fn unrank(&mut self, source: u32) {
        if let Some(place) = self.place(source) {
            self.by_weight.remove(&place);
        }
    }

    fn rank(&mut self, source: u32) {
        if let Some(place) = self.place(source) {
            self.by_weight.insert(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conntrack::tuple::Role;
    use crate::random::Random;

    const LIMITS: Limits = Limits { datagrams: 64, waiting: 32, octets: 32_000 };
    const TIME: (u32, u32) = (0, 200);

    fn name(src: u32, ident: u32) -> Name {
        let bare = Tuple {
            src: src.into(),
            dst: 9,
            src_port: 0,
            dst_port: 0,
            zone: 0,
            protocol: IpProtocol::UDP,
            v6: false,
            role: Role::Any,
        };
        Name { hash: u64::from(src) << 32 | u64::from(ident), bare, ident }
    }

    fn tuple(name: &Name, port: u16) -> Tuple {
        Tuple { src_port: port, dst_port: 53, ..name.bare }
    }

    fn piece(start: u16, octets: usize, last: bool) -> Piece {
        Piece::new(start, octets, last).unwrap()
    }

    /// A first fragment of 64 octets.
    fn first(of: &mut Fragments, name: Name) -> Arrival {
        of.first(name, tuple(&name, 7), piece(0, 64, false), TIME)
    }

    #[test]
    fn what_came_too_early_goes_on_in_the_datagrams_order() {
        let mut of = Fragments::new(LIMITS, 1);
        let name = name(1, 5);
        let mut tickets = Vec::new();
        for (start, octets, last) in [(16, 30, true), (8, 64, false)] {
            let arrival = of.later(name, piece(start, octets, last), Some(100), TIME);
            let Arrival::Waits(ticket) = arrival else { panic!("{arrival:?}") };
            tickets.push(ticket);
        }
        assert!(of.waiting() == 2 && !of.has_news());
        assert_eq!(first(&mut of, name), Arrival::Of(tuple(&name, 7)));
        tickets.reverse();
        assert_eq!((of.take_ready(), of.waiting(), of.octets), (tickets, 0, 0));
        // They come back, now known.
        for (start, octets, last) in [(8, 64, false), (16, 30, true)] {
            let arrival = of.later(name, piece(start, octets, last), Some(100), TIME);
            assert_eq!(arrival, Arrival::Of(tuple(&name, 7)));
        }
        // All has come: soon it is not known any more.
        assert!(of.knows(&name, LINGER - 1) && !of.knows(&name, LINGER));
        assert_eq!(of.later(name, piece(8, 64, false), None, (LINGER, 500)), Arrival::Orphan);
    }

    #[test]
    fn overlaps_spoil_a_datagram_and_repetitions_do_not() {
        for (what, pieces, spoilt) in [
            ("the same again", &[(8, 64, false), (8, 64, false)][..], false),
            ("within another", &[(8, 64, false), (9, 8, false)], true),
            ("over the end of the first", &[(7, 64, false)], true),
            ("over the beginning of the next", &[(16, 64, false), (9, 64, false)], true),
            ("around another", &[(10, 16, false), (9, 64, false)], true),
            ("two ends", &[(16, 20, true), (24, 20, true)], true),
            ("behind the end", &[(16, 20, true), (19, 8, false)], true),
            ("an end before what came", &[(16, 64, false), (9, 8, true)], true),
            ("in any order", &[(24, 8, true), (16, 64, false), (8, 64, false)], false),
        ] {
            let mut of = Fragments::new(LIMITS, 1);
            let name = name(1, 5);
            first(&mut of, name);
            let told: Vec<_> = pieces
                .iter()
                .map(|(start, octets, last)| {
                    of.later(name, piece(*start, *octets, *last), None, TIME)
                })
                .collect();
            assert_eq!(told.contains(&Arrival::Overlaps), spoilt, "{what}: {told:?}");
            let more = of.later(name, piece(100, 8, false), None, TIME);
            let complete = what == "in any order";
            let passes = matches!(more, Arrival::Of(_));
            assert_eq!(passes, !spoilt && !complete, "{what}: nothing more passes: {more:?}");
        }
        // Among those that wait, too: then all of them are lost.
        let mut of = Fragments::new(LIMITS, 1);
        let name = name(1, 5);
        assert!(matches!(of.later(name, piece(8, 64, false), Some(9), TIME), Arrival::Waits(_)));
        assert_eq!(of.later(name, piece(8, 64, false), Some(9), TIME), Arrival::Overlaps);
        assert!(!of.has_news(), "a repetition costs itself alone");
        assert_eq!(of.later(name, piece(10, 64, false), Some(9), TIME), Arrival::Overlaps);
        assert_eq!((of.take_lost().len(), of.waiting()), (1, 0));
        assert_eq!(first(&mut of, name), Arrival::Overlaps);
    }

    #[test]
    fn nothing_begins_within_a_transport_header() {
        for (protocol, least) in [
            (IpProtocol::TCP, 3),
            (IpProtocol::SCTP, 2),
            (IpProtocol::DCCP, 2),
            (IpProtocol::UDP, 1),
        ] {
            for v6 in [false, true] {
                let mut of = Fragments::new(LIMITS, 1);
                let mut name = name(1, 5);
                (name.bare.protocol, name.bare.v6) = (protocol, v6);
                for start in 1..5 {
                    let tiny = of.later(name, piece(start, 8, false), None, TIME) == Arrival::Tiny;
                    assert_eq!(tiny, start < least, "{protocol:?} {start}");
                }
            }
        }
        assert_eq!(Piece::new(1, 0, true), None);
        assert_eq!(Piece::new(8190, 16, true), None, "beyond the longest datagram");
        assert!(Piece::new(8190, 15, true).is_some());
    }

    #[test]
    fn who_sends_many_takes_from_himself() {
        let mut of = Fragments::new(LIMITS, 1);
        let honest: Vec<Name> = (0..8).map(|n| name(100 + n, 1)).collect();
        for name in &honest {
            assert!(matches!(first(&mut of, *name), Arrival::Of(_)));
        }
        let early = name(300, 1);
        assert!(matches!(of.later(early, piece(8, 8, true), Some(1000), TIME), Arrival::Waits(_)));
        for ident in 0..3000 {
            first(&mut of, name(1, ident));
            of.later(name(2, ident), piece(8, 8, true), Some(1000), TIME);
            assert!(of.by_deadline.len() <= 64 && of.waiting() <= 32 && of.octets <= 32_000);
        }
        assert!(of.evicted() > 2000);
        for name in honest {
            assert!(matches!(of.later(name, piece(8, 8, true), None, TIME), Arrival::Of(_)));
        }
        of.take_lost();
        first(&mut of, early);
        assert_eq!(of.take_ready().len(), 1);
        of.clear();
        assert!(of.by_weight.is_empty() && of.by_source.is_empty() && of.waiting() == 0);
    }

    #[test]
    fn an_identification_is_used_again() {
        let mut of = Fragments::new(LIMITS, 1);
        let name = name(1, 5);
        first(&mut of, name);
        let other = tuple(&name, 8);
        assert_eq!(of.first(name, other, piece(0, 64, false), TIME), Arrival::Of(other));
        assert_eq!(of.later(name, piece(8, 8, true), None, TIME), Arrival::Of(other));
        // Behind a whole datagram, one that is cut elsewhere is another.
        assert_eq!(of.first(name, other, piece(0, 48, false), TIME), Arrival::Of(other));
        assert_eq!(of.later(name, piece(6, 8, true), None, TIME), Arrival::Of(other));
        assert_eq!(of.later(name, piece(9, 8, true), None, TIME), Arrival::Orphan);
    }

    /// Random fragments of few datagrams: each that waits is told once, and all is gone in the end.
    #[test]
    fn each_that_waits_is_told_once() {
        let mut random = Random(3);
        let mut of = Fragments::new(LIMITS, 1);
        let mut waiting = std::collections::HashSet::new();
        for now in 0..20_000_u32 {
            let name = name(random.below(20) as u32, random.below(9) as u32);
            let piece = piece(random.below(12) as u16 * 3, 24, random.below(4) == 0);
            let time = (now, now + random.below(50) as u32);
            let arrival = match piece.start {
                0 => of.first(name, tuple(&name, random.below(3) as u16), piece, time),
                _ => of.later(name, piece, (random.below(5) > 0).then_some(900), time),
            };
            if let Arrival::Waits(ticket) = arrival {
                assert!(waiting.insert(ticket));
            }
            for ticket in of.take_ready().into_iter().chain(of.take_lost()) {
                assert!(waiting.remove(&ticket));
            }
            assert_eq!(of.waiting(), waiting.len());
        }
        while of.expire(u32::MAX, 7) {}
        assert!(of.take_lost().into_iter().all(|ticket| waiting.remove(&ticket)));
        assert!(waiting.is_empty() && of.by_weight.is_empty() && of.octets == 0);
    }
}
