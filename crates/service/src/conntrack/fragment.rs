//! Fragments: which connection a later fragment belongs to.
//!
//! Nothing is put together. The first fragment has the ports; what it said is kept under the
//! datagram's addresses, protocol and identification (RFC 791 §3.2, RFC 8200 §4.5), and later fragments
//! belong to the same tuple. One that comes before its first, or after its entry has gone, is invalid.
//! (Open vSwitch holds fragments back until all are there and judges the whole; Linux puts them
//! together. Here a packet is never held, so order matters, and a segment's window is judged by its
//! first fragment.)
//!
//! Fixed memory: sets of four, the one that goes first making room. Who sends many first fragments
//! can only make later fragments invalid, of all connections in those sets, until he stops.
//!
//! Checked by: the tests below, and those of the tracker.

use super::tuple::Tuple;

const WAYS: usize = 4;

#[derive(Debug, Clone)]
struct Entry {
    /// The first fragment's tuple.
    tuple: Tuple,
    ident: u32,
    /// The tick at which it is gone; 0 for an empty one.
    deadline: u32,
}

/// First fragments seen.
#[derive(Debug)]
pub(crate) struct Fragments {
    sets: Box<[[Option<Entry>; WAYS]]>,
}

impl Fragments {
    /// Room for about `entries_max` datagrams.
    pub(crate) fn new(entries_max: usize) -> Fragments {
        let sets = entries_max.div_ceil(WAYS).max(1);
        Fragments { sets: vec![const { [const { None }; WAYS] }; sets].into_boxed_slice() }
    }

    /// Octets taken.
    pub(crate) fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.sets)
    }

    /// Whether `entry` is a fragment of the same datagram as one with this tuple, whose ports are
    /// not known.
    fn is_same(entry: &Entry, tuple: &Tuple, ident: u32) -> bool {
        let have = &entry.tuple;
        entry.ident == ident
            && (have.src, have.dst) == (tuple.src, tuple.dst)
            && (have.zone, have.protocol, have.v6) == (tuple.zone, tuple.protocol, tuple.v6)
    }

    /// Notes a first fragment. `hash` is of the datagram, ports left out.
    pub(crate) fn note(&mut self, hash: u64, tuple: Tuple, ident: u32, now: u32, deadline: u32) {
        let set = self.set(hash);
        let set = &mut self.sets[set];
        let age = |entry: &Option<Entry>| match entry {
            Some(entry) if Fragments::is_same(entry, &tuple, ident) => 0,
            Some(entry) if entry.deadline > now => u64::from(entry.deadline) + 2,
            _ => 1,
        };
        if let Some(place) = set.iter_mut().min_by_key(|entry| age(entry)) {
            *place = Some(Entry { tuple, ident, deadline });
        }
    }

    /// The tuple of the datagram that a later fragment is of.
    pub(crate) fn find(&self, hash: u64, tuple: &Tuple, ident: u32, now: u32) -> Option<Tuple> {
        let entry = self.sets[self.set(hash)]
            .iter()
            .flatten()
            .find(|entry| entry.deadline > now && Fragments::is_same(entry, tuple, ident))?;
        Some(entry.tuple)
    }

    fn set(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.sets.len() as u128) >> 64) as usize
    }
}
