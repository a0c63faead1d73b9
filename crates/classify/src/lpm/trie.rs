//! A prefix trie of 64-way nodes with bitmaps (Eatherton, Varghese, Dittia, *Tree Bitmap*, 2004).
//!
//! A node covers six bits. One bitmap says which of the 63 prefixes that end inside the node exist
//! (lengths 0 to 5), another which of its 64 children do; children lie side by side, results too,
//! so finding either is a population count. Where a path does not fork for up to 60 bits, the node
//! at its end holds those bits to compare (path compression), so a node is 32 bytes and a trie of
//! ten IPv6 prefixes a node or two deep. Many tries share the memory, so one of a few prefixes
//! costs a few hundred bytes.
//!
//! It is the record of every prefix held, at any width: nothing is pushed down into the leaves, so
//! an update touches one node and its path, and the prefix that covers another is met on the way.
//! Faster indices ([`dir`](super::dir)) are built over it and told what it learnt.
//!
//! Invariants: results are never [`NONE`]; a node without results and children exists only as a
//! root; one without results and with one child exists only where the two hold too many bits to
//! compare for one; blocks are as long as their bitmaps have bits, rounded up by [`class_of`].
//! Cost: lookup, at most one node per six bits until no child covers the key, and one result; an
//! update at most 22 nodes and three short blocks.
//! Checked by: the unit test below, against a list; `tests/lpm.rs`.

use super::bits::{BURST, NONE, nearest};
use super::popcnt;
use crate::simd::prefetch;

/// Bits a node covers.
const STRIDE: u32 = 6;
/// Widest prefix in bits.
pub(crate) const BITS_MAX: u32 = 128;
/// Nodes on the longest path.
const DEPTH_MAX: usize = (BITS_MAX / STRIDE) as usize + 1;

/// Chunks that a node can hold to compare.
const SKIP_MAX: u32 = 10;

/// The root of a trie that is always empty.
pub(crate) const EMPTY: u32 = 0;

/// For each six bits of a key, the prefixes of length 0 to 5 that cover them.
const COVERS: [u64; 64] = {
    let mut covers = [0u64; 64];
    let mut chunk = 0;
    while chunk < 64 {
        let mut len = 0;
        while len < STRIDE {
            covers[chunk] |= 1 << inner_index(chunk as u64, len);
            len += 1;
        }
        chunk += 1;
    }
    covers
};

/// Where the prefix of `len` < 6 bits of a six-bit chunk stands in a node's result bitmap.
const fn inner_index(chunk: u64, len: u32) -> u32 {
    (1 << len) - 1 + (chunk >> (STRIDE - len)) as u32
}

/// The places of prefixes of fewer than `len` bits in a node's result bitmap.
#[inline]
fn shorter(len: u32) -> u64 {
    if len >= STRIDE { u64::MAX } else { (1 << ((1 << len) - 1)) - 1 }
}

/// Up to ten chunks that a key must have before those that a node covers: left-aligned, with their
/// number in the last four bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Skip(u64);

impl Skip {
    /// The first `count` chunks of a left-aligned key.
    fn of(bits: u128, count: u32) -> Skip {
        let kept = u64::MAX.checked_shl(64 - count * STRIDE).unwrap_or(0);
        Skip((bits >> 64) as u64 & kept | u64::from(count))
    }

    #[inline(always)]
    fn count(self) -> u32 {
        (self.0 & 15) as u32
    }

    /// How many bits that is.
    #[inline(always)]
    fn bits(self) -> u32 {
        self.count() * STRIDE
    }

    /// Whether a key has them.
    #[inline(always)]
    fn matches(self, bits: u128) -> bool {
        ((bits >> 64) as u64 ^ self.0) >> 4 >> (60 - self.bits()) == 0
    }

    /// How many of them a prefix has.
    fn shared(self, bits: u128, len: u32) -> u32 {
        let differing = (bits >> 64) as u64 ^ self.0;
        (differing.leading_zeros() / STRIDE).min(self.count()).min(len / STRIDE)
    }

    /// The chunks as the leading bits of a key.
    fn leading(self) -> u128 {
        u128::from(self.0 & !15) << 64
    }

    /// These chunks, one more, and others behind it; none if they are too many.
    fn joined(self, c: u32, behind: Skip) -> Option<Skip> {
        let count = self.count() + 1 + behind.count();
        let chunk = u128::from(c) << (128 - STRIDE) >> self.bits();
        let bits = self.leading() | chunk | behind.leading() >> (self.bits() + STRIDE);
        (count <= SKIP_MAX).then(|| Skip::of(bits, count))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    skip: Skip,
    results: u64,
    children: u64,
    result_base: u32,
    child_base: u32,
}

impl Node {
    /// Where the result of the longest prefix here lies that covers the chunk, among `allowed`.
    #[inline]
    fn covering(&self, chunk: u32, allowed: u64) -> Option<u32> {
        let covering = self.results & COVERS[chunk as usize] & allowed;
        (covering != 0).then(|| self.result_base + rank(self.results, covering.ilog2()) as u32)
    }

    /// Whether nothing is here or below.
    fn is_bare(&self) -> bool {
        self.results == 0 && self.children == 0
    }

    #[inline]
    fn has_child(&self, chunk: u32) -> bool {
        self.children >> chunk & 1 == 1
    }

    #[inline]
    fn child(&self, chunk: u32) -> u32 {
        self.child_base + rank(self.children, chunk) as u32
    }
}

/// Blocks of up to 64 items in one vector, with a free list per size class.
#[derive(Debug, Clone)]
struct Blocks<T> {
    items: Vec<T>,
    free: [Vec<u32>; CLASSES.len()],
}

/// Sizes in which blocks are handed out.
const CLASSES: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// The smallest class that holds `len` items.
fn class_of(len: usize) -> usize {
    CLASSES.iter().position(|&size| size >= len).expect("a node has at most 64 of anything")
}

impl<T: Copy + Default> Blocks<T> {
    fn new() -> Self {
        Blocks { items: Vec::new(), free: Default::default() }
    }

    fn allocate(&mut self, len: usize) -> u32 {
        let class = class_of(len);
        self.free[class].pop().unwrap_or_else(|| {
            let (base, size) = (self.items.len(), CLASSES[class]);
            if self.items.capacity() - base < size {
                // By an eighth, not by doubling: large tables are held twice, once per replica.
                self.items.reserve_exact((base / 8).max(1024));
            }
            self.items.resize(base + size, T::default());
            base as u32
        })
    }

    /// Puts `item` at `at` into a block of `len` items; returns where the block is now.
    fn insert(&mut self, base: u32, len: usize, at: usize, item: T) -> u32 {
        let from = base as usize;
        if len > 0 && class_of(len) == class_of(len + 1) {
            self.items.copy_within(from + at..from + len, from + at + 1);
            self.items[from + at] = item;
            return base;
        }
        let moved = self.allocate(len + 1);
        let to = moved as usize;
        self.items.copy_within(from..from + at, to);
        self.items[to + at] = item;
        self.items.copy_within(from + at..from + len, to + at + 1);
        if len > 0 {
            self.free[class_of(len)].push(base);
        }
        moved
    }

    /// Takes the item at `at` out of a block of `len`; returns where the block is now.
    fn remove(&mut self, base: u32, len: usize, at: usize) -> u32 {
        let from = base as usize;
        self.items.copy_within(from + at + 1..from + len, from + at);
        let class = class_of(len);
        if len == 1 {
            self.free[class].push(base);
            return 0;
        }
        if class_of(len - 1) == class {
            return base;
        }
        let moved = self.allocate(len - 1);
        self.items.copy_within(from..from + len - 1, moved as usize);
        self.free[class].push(base);
        moved
    }

    fn memory_bytes(&self) -> usize {
        self.items.capacity() * size_of::<T>()
            + self.free.iter().map(|f| f.capacity() * 4).sum::<usize>()
    }
}

/// What an insert found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Added {
    /// The result the prefix had before and keeps; [`NONE`] if it is new.
    pub(crate) held: u32,
    /// The result of the longest shorter prefix that covers it.
    pub(crate) cover: u32,
}

/// What a removal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removed {
    /// The result the prefix had; [`NONE`] if it was not there.
    pub(crate) held: u32,
    /// The result of the longest shorter prefix that covers it.
    pub(crate) cover: u32,
    /// Whether the trie has no prefix any more.
    pub(crate) empty: bool,
}

/// Tries that share their memory, each named by its root.
#[derive(Debug, Clone)]
pub(crate) struct Trie {
    nodes: Blocks<Node>,
    results: Blocks<u32>,
}

/// How many of the bits below `bit` are set.
#[inline]
fn rank(bitmap: u64, bit: u32) -> usize {
    (bitmap & ((1u64 << bit) - 1)).count_ones() as usize
}

/// The next six bits of a left-aligned key.
#[inline]
fn chunk(bits: u128) -> u32 {
    (bits >> (128 - STRIDE)) as u32
}

impl Trie {
    pub(crate) fn new() -> Trie {
        let mut trie = Trie { nodes: Blocks::new(), results: Blocks::new() };
        let empty = trie.open();
        debug_assert_eq!(empty, EMPTY);
        trie
    }

    /// A new empty trie. Its root stays where it is until it is closed.
    pub(crate) fn open(&mut self) -> u32 {
        let root = self.nodes.allocate(1);
        self.nodes.items[root as usize] = Node::default();
        root
    }

    /// Gives an empty trie's root back.
    pub(crate) fn close(&mut self, root: u32) {
        debug_assert_ne!(root, EMPTY);
        self.nodes.free[class_of(1)].push(root);
    }

    /// The result of the longest prefix of `bits` (left-aligned), or `miss`.
    #[inline]
    pub(crate) fn lookup(&self, root: u32, bits: u128, miss: u32) -> u32 {
        popcnt::lookup(self, root, bits, miss)
    }

    /// As [`Trie::lookup`] for up to [`BURST`] keys; if in `phases`, one level of all of them after
    /// the other, so that their cache misses overlap. `found` holds each key's `miss` before and
    /// its result after; `bits` are used up.
    pub(crate) fn lookup_burst(
        &self,
        roots: &[u32],
        bits: &mut [u128],
        found: &mut [u32],
        phases: bool,
    ) {
        popcnt::lookup_burst(self, roots, bits, found, phases);
    }

    /// [`Trie::lookup`] itself.
    #[inline(always)]
    pub(super) fn walk_one(&self, root: u32, mut bits: u128, miss: u32) -> u32 {
        let nodes = &*self.nodes.items;
        let mut node = &nodes[root as usize];
        let mut best = None;
        while node.skip.matches(bits) {
            bits <<= node.skip.bits();
            let c = chunk(bits);
            best = node.covering(c, u64::MAX).or(best);
            if !node.has_child(c) {
                break;
            }
            node = &nodes[node.child(c) as usize];
            bits <<= STRIDE;
        }
        best.map_or(miss, |at| self.results.items[at as usize])
    }

    /// [`Trie::lookup_burst`] itself.
    #[inline(always)]
    pub(super) fn walk_burst(
        &self,
        roots: &[u32],
        bits: &mut [u128],
        found: &mut [u32],
        phases: bool,
    ) {
        if !phases {
            for ((found, &root), &bits) in found.iter_mut().zip(roots).zip(&*bits) {
                *found = self.walk_one(root, bits, *found);
            }
            return;
        }
        let count = roots.len().min(bits.len()).min(found.len()).min(BURST);
        let (nodes, results) = (&*self.nodes.items, &*self.results.items);
        let mut at = [0u32; BURST];
        let mut best = [u32::MAX; BURST];
        let mut walking = [0u8; BURST];
        for i in 0..count {
            at[i] = roots[i];
            walking[i] = i as u8;
            prefetch(nearest(nodes, roots[i]));
        }
        let mut left = count;
        while left > 0 {
            let mut kept = 0;
            for n in 0..left {
                let i = walking[n] as usize % BURST;
                let node = &nodes[at[i] as usize];
                let matches = node.skip.matches(bits[i]);
                let below = bits[i] << node.skip.bits();
                let c = chunk(below);
                let allowed = if matches { u64::MAX } else { 0 };
                best[i] = node.covering(c, allowed).unwrap_or(best[i]);
                bits[i] = below << STRIDE;
                at[i] = node.child(c);
                prefetch(nearest(nodes, at[i]));
                walking[kept] = i as u8;
                kept += usize::from(matches & node.has_child(c));
            }
            left = kept;
        }
        if !results.is_empty() {
            best[..count].iter().for_each(|&place| prefetch(nearest(results, place)));
        }
        for (found, &place) in found.iter_mut().zip(&best[..count]) {
            *found = results.get(place as usize).copied().unwrap_or(*found);
        }
    }

    /// Where the result of exactly this prefix lies.
    fn place_of(&self, root: u32, mut bits: u128, mut len: u32) -> Option<usize> {
        let mut node = &self.nodes.items[root as usize];
        loop {
            if node.skip.shared(bits, len) < node.skip.count() {
                return None;
            }
            bits <<= node.skip.bits();
            len -= node.skip.bits();
            if len < STRIDE {
                break;
            }
            let c = chunk(bits);
            if !node.has_child(c) {
                return None;
            }
            node = &self.nodes.items[node.child(c) as usize];
            bits <<= STRIDE;
            len -= STRIDE;
        }
        let bit = inner_index(u64::from(chunk(bits)), len);
        let is_there = node.results >> bit & 1 == 1;
        is_there.then(|| node.result_base as usize + rank(node.results, bit))
    }

    /// The result of exactly this prefix, or [`NONE`].
    pub(crate) fn get(&self, root: u32, bits: u128, len: u32) -> u32 {
        self.place_of(root, bits, len).map_or(NONE, |at| self.results.items[at])
    }

    /// Gives the prefix another result and returns the one it had; [`NONE`] if it is not there.
    pub(crate) fn renumber(&mut self, root: u32, bits: u128, len: u32, to: u32) -> u32 {
        let Some(at) = self.place_of(root, bits, len) else { return NONE };
        std::mem::replace(&mut self.results.items[at], to)
    }

    /// Takes every prefix out.
    pub(crate) fn clear(&mut self, root: u32) {
        let Node { results, children, result_base, child_base, .. } =
            std::mem::take(&mut self.nodes.items[root as usize]);
        let (results, children) = (results.count_ones(), children.count_ones());
        for child in child_base..child_base + children {
            self.clear(child);
        }
        if children > 0 {
            self.nodes.free[class_of(children as usize)].push(child_base);
        }
        if results > 0 {
            self.results.free[class_of(results as usize)].push(result_base);
        }
    }

    /// Adds the prefix of `len` bits; one that is there keeps its result.
    pub(crate) fn insert(&mut self, root: u32, mut bits: u128, mut len: u32, result: u32) -> Added {
        let mut at = root as usize;
        let mut cover = None;
        if self.nodes.items[at].is_bare() {
            self.nodes.items[at].skip = Skip::of(bits, (len / STRIDE).min(SKIP_MAX));
        }
        loop {
            let skip = self.nodes.items[at].skip;
            let shared = skip.shared(bits, len);
            if shared < skip.count() {
                self.split(at, shared);
            }
            bits <<= shared * STRIDE;
            len -= shared * STRIDE;
            if len < STRIDE {
                break;
            }
            let c = chunk(bits);
            let node = self.nodes.items[at];
            cover = node.covering(c, u64::MAX).or(cover);
            let rank = rank(node.children, c);
            bits <<= STRIDE;
            len -= STRIDE;
            if !node.has_child(c) {
                let skip = Skip::of(bits, (len / STRIDE).min(SKIP_MAX));
                let child = Node { skip, ..Node::default() };
                let count = node.children.count_ones() as usize;
                let base = self.nodes.insert(node.child_base, count, rank, child);
                let node = &mut self.nodes.items[at];
                node.child_base = base;
                node.children |= 1 << c;
            }
            at = self.nodes.items[at].child_base as usize + rank;
        }
        let c = chunk(bits);
        let bit = inner_index(u64::from(c), len);
        let node = &mut self.nodes.items[at];
        cover = node.covering(c, shorter(len)).or(cover);
        let cover = cover.map_or(NONE, |at| self.results.items[at as usize]);
        let rank = rank(node.results, bit);
        if node.results >> bit & 1 == 1 {
            return Added { held: self.results.items[node.result_base as usize + rank], cover };
        }
        let count = node.results.count_ones() as usize;
        node.result_base = self.results.insert(node.result_base, count, rank, result);
        node.results |= 1 << bit;
        Added { held: NONE, cover }
    }

    /// Puts a node before another that has more than `shared` chunks to compare.
    fn split(&mut self, at: usize, shared: u32) {
        let mut below = self.nodes.items[at];
        let (first, rest) = (below.skip.leading(), below.skip.leading() << (shared * STRIDE));
        below.skip = Skip::of(rest << STRIDE, below.skip.count() - shared - 1);
        let child_base = self.nodes.insert(0, 0, 0, below);
        let children = 1 << chunk(rest);
        let skip = Skip::of(first, shared);
        self.nodes.items[at] = Node { skip, children, child_base, ..Node::default() };
    }

    /// Puts a node that has nothing but one child together with it, if it can.
    fn join(&mut self, at: usize) {
        let node = self.nodes.items[at];
        if node.results != 0 || node.children.count_ones() != 1 {
            return;
        }
        let child = self.nodes.items[node.child_base as usize];
        if let Some(skip) = node.skip.joined(node.children.trailing_zeros(), child.skip) {
            self.nodes.items[at] = Node { skip, ..child };
            self.nodes.free[class_of(1)].push(node.child_base);
        }
    }

    /// Takes the prefix out.
    pub(crate) fn remove(&mut self, root: u32, mut bits: u128, mut len: u32) -> Removed {
        const NOT_THERE: Removed = Removed { held: NONE, cover: NONE, empty: false };
        let mut path = [(0usize, 0u32); DEPTH_MAX];
        let mut depth = 0;
        let mut at = root as usize;
        let mut cover = None;
        loop {
            let node = self.nodes.items[at];
            if node.skip.shared(bits, len) < node.skip.count() {
                return NOT_THERE;
            }
            bits <<= node.skip.bits();
            len -= node.skip.bits();
            if len < STRIDE {
                break;
            }
            let c = chunk(bits);
            cover = node.covering(c, u64::MAX).or(cover);
            if !node.has_child(c) {
                return NOT_THERE;
            }
            path[depth] = (at, c);
            depth += 1;
            at = node.child(c) as usize;
            bits <<= STRIDE;
            len -= STRIDE;
        }
        let c = chunk(bits);
        let bit = inner_index(u64::from(c), len);
        let node = &mut self.nodes.items[at];
        if node.results >> bit & 1 == 0 {
            return NOT_THERE;
        }
        cover = node.covering(c, shorter(len)).or(cover);
        let cover = cover.map_or(NONE, |at| self.results.items[at as usize]);
        let count = node.results.count_ones() as usize;
        let rank_of = rank(node.results, bit);
        let held = self.results.items[node.result_base as usize + rank_of];
        node.result_base = self.results.remove(node.result_base, count, rank_of);
        node.results &= !(1 << bit);
        let mut bare = node.is_bare();
        while bare && depth > 0 {
            depth -= 1;
            let c;
            (at, c) = path[depth];
            let node = self.nodes.items[at];
            let count = node.children.count_ones() as usize;
            let base = self.nodes.remove(node.child_base, count, rank(node.children, c));
            let node = &mut self.nodes.items[at];
            node.child_base = base;
            node.children &= !(1 << c);
            bare = node.is_bare();
        }
        if bare {
            self.nodes.items[at] = Node::default();
        } else {
            self.join(at);
        }
        Removed { held, cover, empty: bare }
    }

    /// Every prefix, a shorter one before those it covers: its bits, its length, its result, and
    /// the result of the longest shorter prefix that covers it.
    pub(crate) fn walk(&self, root: u32, visit: &mut impl FnMut(u128, u32, u32, u32)) {
        self.walk_below(root, 0, 0, NONE, visit);
    }

    fn walk_below(
        &self,
        at: u32,
        bits: u128,
        depth: u32,
        cover: u32,
        visit: &mut impl FnMut(u128, u32, u32, u32),
    ) {
        let node = self.nodes.items[at as usize];
        let (bits, depth) = (bits | node.skip.leading() >> depth, depth + node.skip.bits());
        let result = |at: u32| self.results.items[at as usize];
        // A chunk's bits at this depth; at the 22nd node fewer than six are left, the rest zero.
        let place = |c: u32| bits | u128::from(c) << (128 - STRIDE) >> depth;
        let mut rest = node.results;
        for n in 0..node.results.count_ones() {
            let index = rest.trailing_zeros();
            rest &= rest - 1;
            let len = (index + 1).ilog2();
            let c = (index + 1 - (1 << len)) << (STRIDE - len);
            let above = node.covering(c, shorter(len)).map_or(cover, result);
            visit(place(c), depth + len, result(node.result_base + n), above);
        }
        let mut rest = node.children;
        while rest != 0 {
            let c = rest.trailing_zeros();
            rest &= rest - 1;
            let above = node.covering(c, u64::MAX).map_or(cover, result);
            self.walk_below(node.child(c), place(c), depth + STRIDE, above, visit);
        }
    }

    /// Nodes in use, with what their blocks have to spare.
    #[cfg(test)]
    pub(crate) fn live(&self) -> usize {
        let free = |class: usize| self.nodes.free[class].len() * CLASSES[class];
        self.nodes.items.len() - (0..CLASSES.len()).map(free).sum::<usize>()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.results.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_list_of_prefixes_and_empties_itself() {
        let mut trie = Trie::new();
        let root = trie.open();
        let mut twin = BTreeMap::<(u32, u128), u32>::new();
        let mut n = 1u64;
        let mut random = || {
            n ^= n << 13;
            n ^= n >> 7;
            n ^= n << 17;
            n
        };
        let cut = |bits: u128, len: u32| if len == 0 { 0 } else { bits & u128::MAX << (128 - len) };
        let longest = |twin: &BTreeMap<(u32, u128), u32>, bits: u128, below: u32| {
            (0..below).rev().find_map(|len| twin.get(&(len, cut(bits, len)))).copied()
        };
        for step in 1..20_001u32 {
            let dense = random() % 2 == 0;
            let raw =
                if dense { u128::from(random() % 16) << 124 } else { u128::from(random()) << 64 };
            let len = (random() % 129) as u32;
            let len = if dense { len % 9 } else { len };
            let bits = cut(raw, len);
            let cover = longest(&twin, bits, len).unwrap_or(NONE);
            if random() % 5 < 3 {
                let held = twin.get(&(len, bits)).copied().unwrap_or(NONE);
                assert_eq!(trie.insert(root, bits, len, step), Added { held, cover });
                twin.entry((len, bits)).or_insert(step);
            } else {
                let key = twin.keys().nth(random() as usize % twin.len().max(1)).copied();
                if let Some((len, bits)) = key {
                    let held = twin[&(len, bits)];
                    assert_eq!(trie.renumber(root, bits, len, held), held);
                    assert_eq!(trie.get(root, bits, len), held);
                    twin.remove(&(len, bits));
                    let cover = longest(&twin, bits, len).unwrap_or(NONE);
                    let removed = Removed { held, cover, empty: twin.is_empty() };
                    assert_eq!(trie.remove(root, bits, len), removed);
                    assert_eq!(trie.renumber(root, bits, len, 1), NONE);
                    assert_eq!(trie.remove(root, bits, len).held, NONE);
                }
            }
            let probe = raw | u128::from(random() % 4);
            let want = longest(&twin, probe, 129).unwrap_or(7);
            assert_eq!(trie.lookup(root, probe, 7), want);
            assert_eq!(trie.walk_one(root, probe, 7), want);
            let mut found = [7, 7, 9];
            let other = probe ^ 1 << (random() % 128);
            let want_other = longest(&twin, other, 129).unwrap_or(7);
            assert_eq!(trie.lookup(root, other, 7), want_other);
            let phases = step % 2 == 0;
            let mut bits = [probe, other, probe];
            trie.lookup_burst(&[root, root, EMPTY], &mut bits, &mut found, phases);
            assert_eq!(found, [want, want_other, 9]);
            found[1] = 7;
            trie.walk_burst(&[root, EMPTY], &mut [probe, probe], &mut found[1..], phases);
            assert_eq!(found, [want, want, 9]);
            if step % 4000 == 0 {
                let mut seen = BTreeMap::new();
                trie.walk(root, &mut |bits, len, result, cover| {
                    assert_eq!(longest(&twin, bits, len).unwrap_or(NONE), cover);
                    assert_eq!(seen.insert((len, bits), result), None);
                });
                assert_eq!(seen, twin);
                while let Some(((len, bits), _)) = twin.pop_last() {
                    assert_eq!(trie.remove(root, bits, len).empty, twin.is_empty());
                }
                assert_eq!(trie.live(), 2, "only the roots are left");
            }
        }
    }
}
