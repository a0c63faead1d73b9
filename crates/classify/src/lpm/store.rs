//! The rules of an `lpm` table, each in a slot whose number the tries and indices hold.
//!
//! What a lookup answers, the hits, stands apart from what only updates read. Rules of the same
//! prefix form a chain, best first; the prefix's number is the slot of the chain's head. Slot 0 is
//! no rule's: its hit is what a lookup answers that finds no prefix.
//!
//! A slot takes 33 bytes for fields of up to 32 bits, 49 for wider ones, and 5 to 11 for finding it
//! by the rule's id; vectors grow by an eighth, since tables are held once per replica.
//!
//! Invariants: every live slot but 0 is on exactly one chain; chains are sorted by precedence.
//! Cost: one hash probe to find an id; a chain's length before the rule to add or remove it.
//! Checked by: `tests/lpm.rs`.

use hashbrown::HashTable;

use super::bits::{NONE, top_u32};
use crate::hit::Hit;
use crate::mask;

/// In the place of a slot's prefix length: the slot is not in use.
const FREE: u8 = u8::MAX;

/// What a rule is besides its hit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) priority: u32,
    /// The next on the chain, or of the free slots.
    next: u32,
    /// Which side key the prefix belongs to.
    pub(super) set: u32,
    /// The prefix's first 32 bits.
    top: u32,
}

/// Where a removal left a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Its head is what it was.
    Head,
    /// It begins with this slot now.
    NewHead(u32),
    /// It is gone.
    Nothing,
}

/// Rules by slot.
#[derive(Debug, Clone)]
pub(super) struct Store {
    hits: Vec<Hit>,
    entries: Vec<Entry>,
    lens: Vec<u8>,
    /// The prefixes' bits, where 32 do not hold them.
    wide: Option<Vec<u128>>,
    free: u32,
    by_id: HashTable<u32>,
    seed: u64,
}

fn push<T>(items: &mut Vec<T>, item: T) {
    if items.len() == items.capacity() {
        items.reserve_exact((items.len() / 8).max(16));
    }
    items.push(item);
}

fn hash_id(seed: u64, id: u32) -> u64 {
    mask::hash_words(seed, &[u64::from(id)])
}

impl Store {
    /// An empty one, for prefixes of at most 32 bits if `narrow`.
    pub(super) fn new(narrow: bool, seed: u64) -> Store {
        let none = Entry { seq: 0, priority: 0, next: NONE, set: 0, top: 0 };
        Store {
            hits: vec![Hit::MISS],
            entries: vec![none],
            lens: vec![FREE],
            wide: (!narrow).then(|| vec![0]),
            free: NONE,
            by_id: HashTable::new(),
            seed,
        }
    }

    /// What lookups answer, by number.
    #[inline(always)]
    pub(super) fn hits(&self) -> &[Hit] {
        &self.hits
    }

    /// Sets what a lookup answers that finds no prefix: the hit of a slot, which may be [`NONE`].
    pub(super) fn set_miss(&mut self, from: u32) {
        self.hits[NONE as usize] = if from == NONE { Hit::MISS } else { self.hits[from as usize] };
    }

    /// Number of rules.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The slot of an id.
    pub(super) fn find(&self, id: u32) -> Option<u32> {
        let hits = &self.hits;
        let found = self.by_id.find(hash_id(self.seed, id), |&at| hits[at as usize].entry == id);
        found.copied()
    }

    /// Gives a rule another action.
    pub(super) fn set_action(&mut self, slot: u32, action: u32) {
        self.hits[slot as usize].action = action;
    }

    pub(super) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    /// Length of a rule's prefix.
    pub(super) fn prefix_len(&self, slot: u32) -> u32 {
        u32::from(self.lens[slot as usize])
    }

    /// A rule's prefix.
    pub(super) fn bits(&self, slot: u32) -> u128 {
        match &self.wide {
            Some(wide) => wide[slot as usize],
            None => u128::from(self.entries[slot as usize].top) << 96,
        }
    }

    /// A new slot with a chain of its own; the id is new.
    pub(super) fn add(
        &mut self,
        hit: Hit,
        (priority, seq): (u32, u64),
        set: u32,
        bits: u128,
        len: u32,
    ) -> u32 {
        let entry = Entry { seq, priority, next: NONE, set, top: top_u32(bits) };
        let slot = if self.free != NONE {
            let slot = self.free;
            self.free = self.entries[slot as usize].next;
            self.hits[slot as usize] = hit;
            self.entries[slot as usize] = entry;
            self.lens[slot as usize] = len as u8;
            self.wide.iter_mut().for_each(|wide| wide[slot as usize] = bits);
            slot
        } else {
            push(&mut self.hits, hit);
            push(&mut self.entries, entry);
            push(&mut self.lens, len as u8);
            self.wide.iter_mut().for_each(|wide| push(wide, bits));
            (self.hits.len() - 1) as u32
        };
        let (hits, seed) = (&self.hits, self.seed);
        self.by_id.insert_unique(hash_id(seed, hit.entry), slot, |&at| {
            hash_id(seed, hits[at as usize].entry)
        });
        slot
    }

    /// Whether the first of two rules wins.
    fn beats(&self, a: u32, b: u32) -> bool {
        let rank = |slot: u32| {
            let entry = self.entry(slot);
            (std::cmp::Reverse(entry.priority), entry.seq, self.hits[slot as usize].entry)
        };
        rank(a) < rank(b)
    }

    /// Puts a new slot on the chain that begins with `head`; returns the chain's head.
    pub(super) fn chain(&mut self, head: u32, slot: u32) -> u32 {
        if head == NONE {
            return slot;
        }
        if self.beats(slot, head) {
            self.entries[slot as usize].next = head;
            return slot;
        }
        let mut before = head;
        loop {
            let next = self.entries[before as usize].next;
            if next == NONE || self.beats(slot, next) {
                self.entries[slot as usize].next = next;
                self.entries[before as usize].next = slot;
                return head;
            }
            before = next;
        }
    }

    /// Takes a rule out whose chain begins with `head`.
    pub(super) fn remove(&mut self, head: u32, slot: u32) -> Left {
        let next = self.entries[slot as usize].next;
        let left = match (head == slot, next) {
            (true, NONE) => Left::Nothing,
            (true, _) => Left::NewHead(next),
            (false, _) => {
                let mut before = head;
                while self.entries[before as usize].next != slot {
                    before = self.entries[before as usize].next;
                    assert_ne!(before, NONE, "a rule is on the chain of its prefix");
                }
                self.entries[before as usize].next = next;
                Left::Head
            }
        };
        let hash = hash_id(self.seed, self.hits[slot as usize].entry);
        if let Ok(found) = self.by_id.find_entry(hash, |&at| at == slot) {
            found.remove();
        }
        self.hits[slot as usize] = Hit::MISS;
        self.lens[slot as usize] = FREE;
        self.entries[slot as usize].next = self.free;
        self.free = slot;
        left
    }

    /// The live slots, in their order.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.lens).filter(|&(_, &len)| len != FREE).map(|(slot, _)| slot)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.hits.capacity() * size_of::<Hit>()
            + self.entries.capacity() * size_of::<Entry>()
            + self.lens.capacity()
            + self.wide.as_ref().map_or(0, |wide| wide.capacity() * size_of::<u128>())
            + self.by_id.allocation_size()
    }
}
