//! A prefix trie of 64-way nodes with bitmaps (Eatherton, Varghese, Dittia, *Tree Bitmap*, 2004).
//!
//! A node covers six bits. One bitmap says which of the 63 prefixes that end inside the node exist
//! (lengths 0 to 5), another which of its 64 children do; children lie side by side, results too,
//! so a node is 24 bytes and finding either is a population count.
//!
//! Chosen over a hash per length (up to 129 probes, or updates that place markers when searched by
//! halving) and over expanded tables (DIR-24-8: one or two loads, but 32 MiB and updates of up to
//! 65,536 slots): here an update touches at most 22 nodes and two short blocks, and memory follows
//! the number of prefixes.
//!
//! Invariants: a node without results and children exists only as a root that was never used;
//! blocks are as long as their bitmaps have bits, rounded up by [`class_of`].
//! Cost: lookup, one node per six bits until no child covers the key, and one result.
//! Checked by: `tests/model.rs` and the unit test below.

/// Bits a node covers.
const STRIDE: u32 = 6;
/// Widest prefix in bits.
pub(crate) const BITS_MAX: u32 = 128;
/// Nodes on the longest path.
const DEPTH_MAX: usize = (BITS_MAX / STRIDE) as usize + 1;

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

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    results: u64,
    children: u64,
    result_base: u32,
    child_base: u32,
}

/// Blocks of up to 64 items in one vector, with a free list per size class.
#[derive(Debug)]
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
            let base = self.items.len();
            self.items.resize(base + CLASSES[class], T::default());
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

/// Tries that share their memory, each named by its root.
#[derive(Debug)]
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
        Trie { nodes: Blocks::new(), results: Blocks::new() }
    }

    /// A new empty trie.
    pub(crate) fn open(&mut self) -> u32 {
        let root = self.nodes.allocate(1);
        self.nodes.items[root as usize] = Node::default();
        root
    }

    /// Gives an empty trie's root back.
    pub(crate) fn close(&mut self, root: u32) {
        self.nodes.free[class_of(1)].push(root);
    }

    /// The result of the longest prefix of `bits` (left-aligned).
    #[inline]
    pub(crate) fn lookup(&self, root: u32, mut bits: u128) -> Option<u32> {
        let nodes = &*self.nodes.items;
        let mut node = &nodes[root as usize];
        let mut best = None;
        loop {
            let c = chunk(bits);
            let covering = node.results & COVERS[c as usize];
            if covering != 0 {
                best = Some(node.result_base as usize + rank(node.results, covering.ilog2()));
            }
            if node.children >> c & 1 == 0 {
                break;
            }
            node = &nodes[node.child_base as usize + rank(node.children, c)];
            bits <<= STRIDE;
        }
        best.map(|at| self.results.items[at])
    }

    /// Sets the result of the prefix of `len` bits, new or not.
    pub(crate) fn set(&mut self, root: u32, mut bits: u128, mut len: u32, result: u32) {
        let mut at = root as usize;
        while len >= STRIDE {
            let c = chunk(bits);
            let node = self.nodes.items[at];
            let rank = rank(node.children, c);
            if node.children >> c & 1 == 0 {
                let count = node.children.count_ones() as usize;
                let base = self.nodes.insert(node.child_base, count, rank, Node::default());
                let node = &mut self.nodes.items[at];
                node.child_base = base;
                node.children |= 1 << c;
            }
            at = self.nodes.items[at].child_base as usize + rank;
            bits <<= STRIDE;
            len -= STRIDE;
        }
        let bit = inner_index(u64::from(chunk(bits)), len);
        let node = &mut self.nodes.items[at];
        let rank = rank(node.results, bit);
        if node.results >> bit & 1 == 1 {
            self.results.items[node.result_base as usize + rank] = result;
            return;
        }
        let count = node.results.count_ones() as usize;
        node.result_base = self.results.insert(node.result_base, count, rank, result);
        node.results |= 1 << bit;
    }

    /// Clears the prefix's result; true if the trie is empty now.
    pub(crate) fn clear(&mut self, root: u32, mut bits: u128, mut len: u32) -> bool {
        let mut path = [(0usize, 0u32); DEPTH_MAX];
        let mut depth = 0;
        let mut at = root as usize;
        while len >= STRIDE {
            let c = chunk(bits);
            let node = self.nodes.items[at];
            if node.children >> c & 1 == 0 {
                return false;
            }
            path[depth] = (at, c);
            depth += 1;
            at = node.child_base as usize + rank(node.children, c);
            bits <<= STRIDE;
            len -= STRIDE;
        }
        let bit = inner_index(u64::from(chunk(bits)), len);
        let node = &mut self.nodes.items[at];
        if node.results >> bit & 1 == 0 {
            return false;
        }
        let count = node.results.count_ones() as usize;
        let rank_of = rank(node.results, bit);
        node.result_base = self.results.remove(node.result_base, count, rank_of);
        node.results &= !(1 << bit);
        let mut empty = node.results == 0 && node.children == 0;
        while empty && depth > 0 {
            depth -= 1;
            let (parent, c) = path[depth];
            let node = self.nodes.items[parent];
            let count = node.children.count_ones() as usize;
            let base = self.nodes.remove(node.child_base, count, rank(node.children, c));
            let node = &mut self.nodes.items[parent];
            node.child_base = base;
            node.children &= !(1 << c);
            empty = node.results == 0 && node.children == 0;
        }
        empty
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
        for step in 0..20_000u32 {
            let dense = random() % 2 == 0;
            let raw =
                if dense { u128::from(random() % 16) << 124 } else { u128::from(random()) << 64 };
            let len = (random() % 129) as u32;
            let len = if dense { len % 9 } else { len };
            let bits = cut(raw, len);
            if random() % 5 < 3 {
                trie.set(root, bits, len, step);
                twin.insert((len, bits), step);
            } else {
                let key = twin.keys().nth(random() as usize % twin.len().max(1)).copied();
                if let Some((len, bits)) = key {
                    twin.remove(&(len, bits));
                    assert_eq!(trie.clear(root, bits, len), twin.is_empty());
                }
            }
            let probe = raw | u128::from(random() % 4);
            let want = (0..=128u32).rev().find_map(|len| twin.get(&(len, cut(probe, len))));
            assert_eq!(trie.lookup(root, probe), want.copied());
            if step % 4000 == 3999 {
                while let Some(((len, bits), _)) = twin.pop_last() {
                    assert_eq!(trie.clear(root, bits, len), twin.is_empty());
                }
                let used: usize = trie.nodes.items.len();
                let free: usize =
                    (0..CLASSES.len()).map(|c| trie.nodes.free[c].len() * CLASSES[c]).sum();
                assert_eq!(used - free, 1, "only the root is left");
            }
        }
    }
}
