//! A direct index over prefixes of at most 32 bits: one load for the first bits of a key, another
//! for each four bits that follow where longer prefixes make a difference.
//!
//! As DIR-24-8 (Gupta, Lin, McKeown, 1998), but with a first level sized to the number of prefixes
//! (2^12, 2^16, 2^20 or 2^24 leaves) and blocks of 16 leaves, one cache line, below it. Prefixes of
//! up to 24 bits are so found in one load under a first level of 2^24, in two under one of 2^20;
//! each four bits more cost a load more. What counts as much as the loads: under 2^24 leaves almost
//! every key ends at the first, so the branch that asks is foreseen, where under 2^20 a key in two
//! is not (500,000 prefixes, 100,000 flows in a loop: 6 against 25 ns).
//!
//! A first level of 2^24 leaves is 64 MiB of addresses, of which memory holds the pages that a
//! prefix touched: [`First`] remembers them. A full table's fill most of it; 1,000 prefixes, about
//! what they would fill of a level of 2^20.
//!
//! The prefix of no bits is no leaf's: a leaf that says [`NONE`] stands for it. So a default route
//! comes, goes and changes in one place, and leaves the memory alone that no other prefix touches.
//!
//! Every leaf says which prefix is the longest there (leaf pushing), as a small number whose
//! meaning is the caller's. Numbers are unique, so leaves that belong to one prefix are told from
//! those of longer ones by it alone: an insert gives the leaves in the prefix's range that were its
//! cover's to it, a removal gives them back, and both are [`Dir::replace`].
//!
//! Chosen over a leaf that holds the whole hit (8 bytes): that saves a load from an array of hits,
//! but doubles everything else; at 500K prefixes and 1M flows both take the same time, at 1K the
//! wide leaf is faster by a tenth, and an entry's action would no longer change in one place.
//!
//! Invariants: a block has leaves that differ, or a child; the way from the root to any block is
//! unique; numbers are below 2^31.
//! Cost: lookup as said; update, the leaves in the prefix's range: one to eight for a /24 or /21
//! under 2^20, 4,096 and their blocks for a /8; sixteen times that under 2^24.
//! Checked by: the unit test below, against a list; `tests/lpm.rs`.

use super::bits::{NONE, nearest};
use super::pages::map_zeroes;
use crate::hit::Hit;
use crate::simd::prefetch;

/// Bits that a block covers.
const STRIDE: u32 = Dir::STRIDE;
/// Set in a leaf's place: the rest is the number of a block.
const CHILD: u32 = 1 << 31;

/// What lies below one leaf's place: a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Block([u32; 1 << STRIDE]);

/// Leaves of the first level in a page of memory.
const PAGE: usize = 4096 / size_of::<u32>();

/// The first level: memory that is not there until it is written.
#[derive(Debug)]
struct First {
    leaves: Vec<u32>,
    /// A bit for each page that was written.
    written: Vec<u64>,
}

impl First {
    fn new(bits: u32) -> First {
        const { assert!(NONE == 0, "leaves come as the zeroes of fresh memory") };
        let leaves = vec![0; 1 << bits];
        if bits == Dir::FLAT {
            let page = leaves.as_ptr().align_offset(4096);
            map_zeroes(&leaves[page..]);
        }
        First { written: vec![0; leaves.len().div_ceil(PAGE * 64)], leaves }
    }

    #[inline]
    fn set(&mut self, at: usize, leaf: u32) {
        // Ranges are walked whole, though most of a short prefix's leaves stay as they are.
        if self.leaves[at] != leaf {
            self.leaves[at] = leaf;
            self.written[at / PAGE / 64] |= 1 << (at / PAGE % 64);
        }
    }

    fn memory_bytes(&self) -> usize {
        let pages: u32 = self.written.iter().map(|word| word.count_ones()).sum();
        pages as usize * PAGE.min(self.leaves.len()) * size_of::<u32>()
    }
}

impl Clone for First {
    fn clone(&self) -> First {
        let mut copy = First::new(self.leaves.len().ilog2());
        let pages = copy.leaves.chunks_mut(PAGE).zip(self.leaves.chunks(PAGE));
        for (page, (to, from)) in pages.enumerate() {
            if self.written[page / 64] >> (page % 64) & 1 != 0 {
                to.copy_from_slice(from);
            }
        }
        copy.written.clone_from(&self.written);
        copy
    }
}

/// An index over prefixes of left-aligned keys.
#[derive(Debug, Clone)]
pub(crate) struct Dir {
    /// Bits that the first level leaves over.
    below: u32,
    /// The number of the prefix without bits.
    default: u32,
    first: First,
    blocks: Vec<Block>,
    free: Vec<u32>,
}

impl Dir {
    /// Bits that a block covers.
    pub(super) const STRIDE: u32 = 4;
    /// Bits of the largest first level, under which most lookups end.
    pub(super) const FLAT: u32 = 24;

    /// What the first bits of a key stand for.
    #[inline(always)]
    pub(super) fn first(&self) -> &[u32] {
        &self.first.leaves
    }

    /// All blocks. A leaf's place that has the highest bit, without it, is the index of one.
    #[inline(always)]
    pub(super) fn lower(&self) -> &[Block] {
        &self.blocks
    }

    /// An index without prefixes, whose first level covers 12, 16, 20 or 24 bits.
    pub(crate) fn new(first_bits: u32) -> Dir {
        assert!(
            matches!(first_bits, 12 | 16 | 20 | Dir::FLAT),
            "blocks of four bits end at bit 32"
        );
        let first = First::new(first_bits);
        Dir { below: 32 - first_bits, default: NONE, first, blocks: Vec::new(), free: Vec::new() }
    }

    /// Bits of the first level.
    pub(crate) fn first_bits(&self) -> u32 {
        32 - self.below
    }

    /// The number of the longest prefix of the key, or [`NONE`].
    #[inline(always)]
    pub(crate) fn lookup(&self, key: u32) -> u32 {
        self.below(self.first.leaves[(key >> self.below) as usize], key)
    }

    /// As [`Dir::lookup`], of a key whose place in the first level holds `leaf`.
    #[inline(always)]
    pub(super) fn below(&self, mut leaf: u32, key: u32) -> u32 {
        let mut below = self.below;
        while leaf & CHILD != 0 {
            below -= STRIDE;
            leaf = self.blocks[(leaf & !CHILD) as usize].0[(key >> below & 15) as usize];
        }
        if leaf == NONE { self.default } else { leaf }
    }

    /// What a leaf stands for that says [`NONE`].
    #[inline(always)]
    pub(super) fn default(&self) -> u32 {
        self.default
    }

    /// Asks for the place of the key in the first level.
    #[inline(always)]
    pub(crate) fn prefetch_first(&self, key: u32) {
        prefetch(&self.first.leaves[(key >> self.below) as usize]);
    }

    /// Asks for what the first level points to: a leaf in a block, or the prefix's hit. Without a
    /// branch, since which it is differs from key to key. There must be a block.
    #[inline(always)]
    pub(crate) fn prefetch_second(&self, key: u32, hits: &[Hit]) {
        self.prefetch_below(self.first.leaves[(key >> self.below) as usize], key, hits);
    }

    /// As [`Dir::prefetch_second`], of a key whose place in the first level holds `leaf`.
    #[inline(always)]
    pub(super) fn prefetch_below(&self, leaf: u32, key: u32, hits: &[Hit]) {
        let within = (key >> (self.below - STRIDE) & 15) as usize;
        let block = &nearest(&self.blocks, leaf & !CHILD).0[within];
        let hit = &nearest(hits, leaf).entry;
        prefetch(if leaf & CHILD != 0 { block } else { hit });
    }

    /// Gives to `to` every leaf of `from` in the range of a prefix.
    ///
    /// To add a prefix, `from` is the longest shorter one that covers it; to take it out, `to` is.
    pub(crate) fn replace(&mut self, bits: u32, len: u32, from: u32, to: u32) {
        if len == 0 {
            self.default = to;
            return;
        }
        let leaf_of = |number| if number == self.default { NONE } else { number };
        let (from, to) = (leaf_of(from), leaf_of(to));
        let left = 32 - len;
        let at = (bits >> self.below) as usize;
        if left >= self.below {
            for at in at..at + (1 << (left - self.below)) {
                let leaf = self.first.leaves[at];
                let leaf = self.replace_all(leaf, from, to);
                self.first.set(at, leaf);
            }
            return;
        }
        let leaf = self.first.leaves[at];
        let leaf = self.replace_within(leaf, self.below, bits, left, from, to);
        self.first.set(at, leaf);
    }

    /// In a leaf's whole range; what stands in the leaf's place after.
    fn replace_all(&mut self, leaf: u32, from: u32, to: u32) -> u32 {
        if leaf & CHILD == 0 {
            return if leaf == from { to } else { leaf };
        }
        let block = (leaf & !CHILD) as usize;
        for at in 0..1 << STRIDE {
            self.blocks[block].0[at] = self.replace_all(self.blocks[block].0[at], from, to);
        }
        self.joined(leaf)
    }

    /// In a part of the range of a leaf that has `below` bits under it.
    fn replace_within(
        &mut self,
        mut leaf: u32,
        below: u32,
        bits: u32,
        left: u32,
        from: u32,
        to: u32,
    ) -> u32 {
        if leaf & CHILD == 0 {
            if leaf != from {
                return leaf;
            }
            leaf = CHILD | self.open(leaf);
        }
        let block = (leaf & !CHILD) as usize;
        let below = below - STRIDE;
        let at = (bits >> below & 15) as usize;
        if left >= below {
            for at in at..at + (1 << (left - below)) {
                self.blocks[block].0[at] = self.replace_all(self.blocks[block].0[at], from, to);
            }
        } else {
            let part = self.replace_within(self.blocks[block].0[at], below, bits, left, from, to);
            self.blocks[block].0[at] = part;
        }
        self.joined(leaf)
    }

    /// The leaf that can stand for a block, if its leaves do not differ; else the block.
    fn joined(&mut self, leaf: u32) -> u32 {
        let block = leaf & !CHILD;
        let leaves = &self.blocks[block as usize].0;
        if leaves[0] & CHILD != 0 || leaves.iter().any(|&other| other != leaves[0]) {
            return leaf;
        }
        self.free.push(block);
        leaves[0]
    }

    fn open(&mut self, fill: u32) -> u32 {
        if let Some(at) = self.free.pop() {
            self.blocks[at as usize] = Block([fill; 1 << STRIDE]);
            return at;
        }
        if self.blocks.len() == self.blocks.capacity() {
            // By an eighth, not by doubling: large tables are held twice, once per replica.
            self.blocks.reserve_exact((self.blocks.len() / 8).max(16));
        }
        self.blocks.push(Block([fill; 1 << STRIDE]));
        (self.blocks.len() - 1) as u32
    }

    /// Blocks in use.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len() - self.free.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.first.memory_bytes()
            + self.blocks.capacity() * size_of::<Block>()
            + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bits: u32, len: u32) -> u32 {
        bits & u32::MAX.checked_shl(32 - len).unwrap_or(0)
    }

    fn longest(held: &[(u32, u32, u32)], key: u32, below: u32) -> u32 {
        let covering = held.iter().filter(|&&(b, l, _)| l < below && cut(key, l) == b);
        covering.max_by_key(|&&(_, l, _)| l).map_or(NONE, |&(_, _, n)| n)
    }

    #[test]
    fn agrees_with_a_list_and_empties_itself() {
        let mut n = 7u64;
        let mut random = || {
            n ^= n << 13;
            n ^= n >> 7;
            n ^= n << 17;
            n
        };
        for first_bits in [12, 16, 20, Dir::FLAT] {
            let mut dir = Dir::new(first_bits);
            let mut held: Vec<(u32, u32, u32)> = Vec::new();
            for step in 1..4_000u32 {
                // Few bits are set, in places that cross every level.
                let raw = (random() as u32 & random() as u32) & 0xc00f_ff13;
                // The shortest ones take long where the first level is long.
                let least = if first_bits == Dir::FLAT && step % 256 != 0 { 8 } else { 0 };
                let len = least + random() as u32 % (33 - least);
                let bits = cut(raw, len);
                let at = held.iter().position(|&(b, l, _)| (b, l) == (bits, len));
                match at {
                    Some(at) if random() % 2 == 0 => {
                        let (bits, len, number) = held.swap_remove(at);
                        dir.replace(bits, len, number, longest(&held, bits, len));
                    }
                    Some(at) => {
                        let old = std::mem::replace(&mut held[at].2, step);
                        dir.replace(bits, len, old, step);
                    }
                    None => {
                        dir.replace(bits, len, longest(&held, bits, len), step);
                        held.push((bits, len, step));
                    }
                }
                if step % 1000 == 0 {
                    let copy = dir.clone();
                    assert_eq!(copy.first(), dir.first());
                    assert_eq!(copy.first.memory_bytes(), dir.first.memory_bytes());
                    dir = copy;
                }
                if step % 400 > 300 && held.len() > 3 {
                    let (bits, len, number) = held.swap_remove(random() as usize % held.len());
                    dir.replace(bits, len, number, longest(&held, bits, len));
                }
                for key in [raw, raw ^ 1, raw ^ 0x80, bits.wrapping_sub(1), random() as u32] {
                    assert_eq!(dir.lookup(key), longest(&held, key, 33), "{key:#x} step {step}");
                }
            }
            while let Some((bits, len, number)) = held.pop() {
                dir.replace(bits, len, number, longest(&held, bits, len));
            }
            assert_eq!(dir.blocks(), 0);
            assert!(dir.first().iter().all(|&leaf| leaf == NONE));
        }
    }
}
