//! The prefixes of one side key: a trie, and the index over it that their number calls for.
//!
//! | index | over | used for |
//! |---|---|---|
//! | none | the trie alone | few prefixes |
//! | [`Dir`] | fields of at most 32 bits | more: 2^12 to 2^24 leaves; all, where sets are few |
//! | [`Slots`] | wider fields | 256 prefixes or more; any field: hosts too far apart for a `Dir` |
//!
//! The choice is made again when the number of prefixes reaches a power of two from below, and one
//! size down when it falls to half of what the index was made for; so the cost of building indices
//! is spread over as many updates.
//!
//! Invariants: the trie holds all prefixes, or under [`Slots`] all shorter than 16 bits, the others
//! being in the tries of their first 16 bits; an index agrees with its tries.
//! Cost: update, that of the trie and of the index; a new index, one update per prefix.
//! Checked by: the unit test below; `tests/lpm.rs`.

use super::bits::{NONE, top_u32};
use super::dir::Dir;
use super::trie::{EMPTY, Trie};

/// Bits that [`Slots`] resolve.
const SLOT_BITS: u32 = 16;

/// A trie for each value of the first 16 bits.
#[derive(Debug, Clone)]
pub(crate) struct Slots(Box<[Slot]>);

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The trie of the bits that follow.
    root: u32,
    /// The longest prefix of fewer than 16 bits here.
    best: u32,
}

/// Prefixes from which on a first level of 2^24 leaves pays: its pages take time to come (10,000
/// prefixes, two replicas: 50 ms), and below that pipelines are no faster for it. Unit tests come
/// there sooner.
const FLAT_FROM: u32 = if cfg!(test) { 512 } else { 65_536 };

/// How many sets share the memory that a table may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sets {
    /// This one is alone.
    One,
    /// So few that each may have an index, however few its prefixes are.
    Few,
    Many,
}

/// What makes lookups faster than the trie alone.
#[derive(Debug, Clone)]
enum Index {
    None,
    Dir(Dir),
    Slots(Slots),
}

/// An index by size, the smaller first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Size {
    None,
    Dir(u32),
    Slots,
}

/// Prefixes with distinct numbers.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    /// A trie of the shared memory.
    root: u32,
    count: u32,
    /// Whether the field has at most 32 bits.
    narrow: bool,
    index: Index,
}

impl Set {
    /// An empty one.
    pub(crate) fn new(trie: &mut Trie, narrow: bool) -> Set {
        Set { root: trie.open(), count: 0, narrow, index: Index::None }
    }

    /// Gives the memory of an empty one back.
    pub(crate) fn close(self, trie: &mut Trie) {
        debug_assert_eq!(self.count, 0);
        if let Index::Slots(slots) = &self.index {
            slots.close(trie);
        }
        trie.close(self.root);
    }

    /// Number of prefixes.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// The direct index, if that serves.
    pub(crate) fn dir(&self) -> Option<&Dir> {
        match &self.index {
            Index::Dir(dir) => Some(dir),
            _ => None,
        }
    }

    /// Where a lookup in the tries begins: the trie, what to look up there, and what to answer if
    /// nothing is found. It is of use where there is no direct index.
    #[inline(always)]
    pub(crate) fn start(&self, bits: u128) -> (u32, u128, u32) {
        match &self.index {
            Index::Slots(slots) => {
                let slot = slots.0[(bits >> (128 - SLOT_BITS)) as usize];
                (slot.root, bits << SLOT_BITS, slot.best)
            }
            _ => (self.root, bits, NONE),
        }
    }

    /// The number of the longest prefix of the key, or [`NONE`].
    #[inline]
    pub(crate) fn lookup(&self, trie: &Trie, bits: u128) -> u32 {
        if let Index::Dir(dir) = &self.index {
            return dir.lookup(top_u32(bits));
        }
        let (root, below, miss) = self.start(bits);
        trie.lookup(root, below, miss)
    }

    /// Adds a prefix and returns [`NONE`], or returns the number of the one that is there.
    pub(crate) fn insert(&mut self, trie: &mut Trie, bits: u128, len: u32, number: u32) -> u32 {
        let held = self.place(trie, bits, len, number);
        if held != NONE {
            return held;
        }
        self.count += 1;
        if let Index::Dir(dir) = &self.index
            && dir.blocks() > 16_384 + self.count as usize * 3 / 2
        {
            self.rebuild(trie, Size::Slots);
        }
        NONE
    }

    /// Chooses the index anew if the set has grown to a power of two.
    pub(crate) fn grown(&mut self, trie: &mut Trie, sets: Sets) {
        if self.count.is_power_of_two() {
            self.settle(trie, sets);
        }
    }

    /// Chooses the index that the number of prefixes calls for, if that is larger.
    pub(crate) fn settle(&mut self, trie: &mut Trie, sets: Sets) {
        let size = self.size_for(self.count, sets);
        if size > self.size() {
            self.rebuild(trie, size);
        }
    }

    fn place(&mut self, trie: &mut Trie, bits: u128, len: u32, number: u32) -> u32 {
        let (root, below, left) = match &mut self.index {
            Index::Slots(slots) if len >= SLOT_BITS => {
                let slot = slots.at(bits);
                if slot.root == EMPTY {
                    slot.root = trie.open();
                }
                (slot.root, bits << SLOT_BITS, len - SLOT_BITS)
            }
            _ => (self.root, bits, len),
        };
        let added = trie.insert(root, below, left, number);
        if added.held == NONE {
            self.replace(bits, len, added.cover, number);
        }
        added.held
    }

    /// Tells the index that a prefix's range went from one number to another.
    fn replace(&mut self, bits: u128, len: u32, from: u32, to: u32) {
        match &mut self.index {
            Index::None => {}
            Index::Dir(dir) => dir.replace(top_u32(bits), len, from, to),
            Index::Slots(slots) => slots.replace(bits, len, from, to),
        }
    }

    /// Gives a prefix that is there another number.
    pub(crate) fn renumber(&mut self, trie: &mut Trie, bits: u128, len: u32, to: u32) {
        let (root, below, left) = self.find(bits, len);
        let from = trie.renumber(root, below, left, to);
        if from != NONE {
            self.replace(bits, len, from, to);
        }
    }

    /// The trie where a prefix belongs, with what it is there.
    fn find(&self, bits: u128, len: u32) -> (u32, u128, u32) {
        match &self.index {
            Index::Slots(slots) if len >= SLOT_BITS => (
                slots.0[(bits >> (128 - SLOT_BITS)) as usize].root,
                bits << SLOT_BITS,
                len - SLOT_BITS,
            ),
            _ => (self.root, bits, len),
        }
    }

    /// The number of exactly this prefix, or [`NONE`].
    pub(crate) fn number(&self, trie: &Trie, bits: u128, len: u32) -> u32 {
        let (root, below, left) = self.find(bits, len);
        trie.get(root, below, left)
    }

    /// Takes a prefix out.
    pub(crate) fn remove(&mut self, trie: &mut Trie, bits: u128, len: u32, sets: Sets) {
        let (root, below, left) = self.find(bits, len);
        let removed = trie.remove(root, below, left);
        if removed.held == NONE {
            return;
        }
        if let Index::Slots(slots) = &mut self.index
            && len >= SLOT_BITS
            && removed.empty
        {
            trie.close(std::mem::replace(&mut slots.at(bits).root, EMPTY));
        }
        self.replace(bits, len, removed.held, removed.cover);
        self.count -= 1;
        if self.count.is_power_of_two() {
            // One who adds and removes at a threshold stays on one side of it.
            let size = self.size_for(self.count * 2 - 1, sets);
            if size < self.size() {
                self.rebuild(trie, size);
            }
        }
    }

    fn size(&self) -> Size {
        match &self.index {
            Index::None => Size::None,
            Index::Dir(dir) => Size::Dir(dir.first_bits()),
            Index::Slots(_) => Size::Slots,
        }
    }

    fn size_for(&self, count: u32, sets: Sets) -> Size {
        let roomy = sets != Sets::Many;
        match (self.narrow, count) {
            // One load for most, whatever their length.
            (true, FLAT_FROM..) if sets == Sets::One => Size::Dir(Dir::FLAT),
            // Among many sets, at most 64 bytes of the first level for each prefix.
            (true, 65_536..) => Size::Dir(20),
            // Most prefixes have 20 to 24 bits: two loads under this, three under the next.
            (true, 512..) if roomy => Size::Dir(20),
            (true, 4_096..) => Size::Dir(16),
            (true, 64..) if roomy => Size::Dir(16),
            (true, 256..) => Size::Dir(12),
            (true, _) if roomy => Size::Dir(12),
            (false, 16_384..) => Size::Slots,
            (false, 256..) if roomy => Size::Slots,
            _ => Size::None,
        }
    }

    fn rebuild(&mut self, trie: &mut Trie, size: Size) {
        if size == Size::Slots || self.size() == Size::Slots {
            let held = self.drain(trie);
            self.fill(trie, &held, size);
            return;
        }
        self.index = Index::None;
        if let Size::Dir(bits) = size {
            let mut dir = Dir::new(bits);
            trie.walk(self.root, &mut |bits, len, number, cover| {
                dir.replace(top_u32(bits), len, cover, number);
            });
            self.index = Index::Dir(dir);
        }
    }

    /// Empties the set: every prefix that it held, a shorter one before those it covers.
    fn drain(&mut self, trie: &mut Trie) -> Vec<(u128, u32, u32)> {
        let mut held = Vec::with_capacity(self.count as usize);
        trie.walk(self.root, &mut |bits, len, number, _| held.push((bits, len, number)));
        trie.clear(self.root);
        if let Index::Slots(slots) = &self.index {
            for (at, slot) in slots.0.iter().enumerate().filter(|(_, slot)| slot.root != EMPTY) {
                let above = (at as u128) << (128 - SLOT_BITS);
                trie.walk(slot.root, &mut |bits, len, number, _| {
                    held.push((above | bits >> SLOT_BITS, len + SLOT_BITS, number));
                });
                trie.clear(slot.root);
            }
            slots.close(trie);
        }
        self.index = Index::None;
        held
    }

    fn fill(&mut self, trie: &mut Trie, held: &[(u128, u32, u32)], size: Size) {
        self.index = match size {
            Size::None => Index::None,
            Size::Dir(bits) => Index::Dir(Dir::new(bits)),
            Size::Slots => Index::Slots(Slots::new()),
        };
        for &(bits, len, number) in held {
            self.place(trie, bits, len, number);
        }
    }

    /// Steps of the longest lookup of a prefix of `len` bits.
    pub(crate) fn steps(&self, len: u32) -> u32 {
        match &self.index {
            Index::None => len / 6 + 1,
            Index::Dir(dir) => 1 + len.saturating_sub(dir.first_bits()).div_ceil(4),
            Index::Slots(_) => 1 + len.checked_sub(SLOT_BITS).map_or(0, |len| len / 6 + 1),
        }
    }

    /// What the index takes, the tries apart.
    pub(crate) fn index_bytes(&self) -> usize {
        match &self.index {
            Index::None => 0,
            Index::Dir(dir) => size_of::<Dir>() + dir.memory_bytes(),
            Index::Slots(slots) => size_of_val(&*slots.0),
        }
    }
}

impl Slots {
    fn new() -> Slots {
        Slots(vec![Slot { root: EMPTY, best: NONE }; 1 << SLOT_BITS].into())
    }

    fn at(&mut self, bits: u128) -> &mut Slot {
        &mut self.0[(bits >> (128 - SLOT_BITS)) as usize]
    }

    fn replace(&mut self, bits: u128, len: u32, from: u32, to: u32) {
        if len >= SLOT_BITS {
            return;
        }
        let at = (bits >> (128 - SLOT_BITS)) as usize;
        for slot in &mut self.0[at..at + (1 << (SLOT_BITS - len))] {
            if slot.best == from {
                slot.best = to;
            }
        }
    }

    /// Gives the tries back, which are empty.
    fn close(&self, trie: &mut Trie) {
        for slot in self.0.iter().filter(|slot| slot.root != EMPTY) {
            trie.close(slot.root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn cut(bits: u128, len: u32) -> u128 {
        if len == 0 { 0 } else { bits & u128::MAX << (128 - len) }
    }

    fn longest(held: &BTreeMap<(u32, u128), u32>, bits: u128) -> u32 {
        (0..=128u32).rev().find_map(|len| held.get(&(len, cut(bits, len)))).copied().unwrap_or(NONE)
    }

    /// Grows through every index and shrinks to nothing again.
    fn tide(narrow: bool, hosts: bool, sets: Sets, top: u32) -> Vec<Size> {
        let (mut trie, mut sizes) = (Trie::new(), vec![Size::None]);
        let mut set = Set::new(&mut trie, narrow);
        let mut held = BTreeMap::new();
        let mut n = 11u64;
        let mut random = || {
            n ^= n << 13;
            n ^= n >> 7;
            n ^= n << 17;
            n
        };
        let widest = if narrow { 32 } else { 128 };
        let (mut number, mut growing) = (0, true);
        loop {
            let raw = u128::from(random()) << 64 | u128::from(random());
            // Half of all prefixes lie close together.
            let raw = if random() % 2 == 0 && !hosts { raw >> 10 } else { raw };
            if growing || random() % 4 == 0 {
                number += 1;
                let len = if hosts { widest } else { random() as u32 % (widest + 1) };
                let bits = cut(raw, len);
                let before = held.get(&(len, bits)).copied().unwrap_or(NONE);
                assert_eq!(set.insert(&mut trie, bits, len, number), before);
                held.entry((len, bits)).or_insert(number);
                set.grown(&mut trie, sets);
            } else {
                let key = held.range((random() as u32 % (widest + 1), raw)..).next();
                if let Some((&(len, bits), _)) = key.or(held.first_key_value()) {
                    set.remove(&mut trie, bits, len, sets);
                    held.remove(&(len, bits));
                }
            }
            if random() % 64 == 0
                && let Some((&(len, bits), number_of)) = held.range_mut((24, raw)..).next()
            {
                number += 1;
                *number_of = number;
                set.renumber(&mut trie, bits, len, number);
            }
            assert_eq!(set.len() as usize, held.len());
            if number % 4 == 0 {
                let near = held.range((random() as u32 % 33, raw)..).next().map_or(0, |(k, _)| k.1);
                for key in [raw, near, near | raw >> 100 << 90] {
                    let key = cut(key, widest);
                    assert_eq!(set.lookup(&trie, key), longest(&held, key));
                }
            }
            if sizes.last() != Some(&set.size()) {
                sizes.push(set.size());
            }
            growing &= set.count < top;
            if set.count == 0 {
                break;
            }
        }
        set.close(&mut trie);
        assert_eq!(trie.live(), 1, "only the empty root is left");
        sizes
    }

    #[test]
    fn agrees_with_a_list_while_its_index_changes() {
        use Size::{Dir, None, Slots};
        let all = [Dir(12), Dir(16), Dir(20), Dir(16), Dir(12)];
        assert_eq!(tide(true, false, Sets::Few, 9_000)[1..], all);
        let all = [Dir(12), Dir(16), Dir(24), Dir(16), Dir(12)];
        assert_eq!(tide(true, false, Sets::One, 1_100)[1..], all);
        let many = [None, Dir(12), Dir(16), Dir(12), None];
        assert_eq!(tide(true, false, Sets::Many, 5_000), many);
        assert_eq!(tide(false, false, Sets::Few, 1_500), [None, Slots, None]);
    }

    #[test]
    fn hosts_far_apart_move_to_slots() {
        let sizes = tide(true, true, Sets::Few, 11_500);
        assert!(sizes.contains(&Size::Slots), "{sizes:?}");
    }
}
