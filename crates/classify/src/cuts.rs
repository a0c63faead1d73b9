//! Ternary lookup by cuts: bits of the key lead through a few levels to a handful of rules.
//!
//! A *node* takes some bits of the key and goes on with the child that they name. A rule that leaves some of
//! these bits open stands in each child that it allows while these are few, else *aside*: in a structure
//! of its own that every key at the node asks as well. So nothing is expanded without bound, and what is
//! wild in one field is cut by another. A *leaf* holds rules side by side, eight in a block, which are compared
//! at once, the best first. Every way says what the best rule behind it is worth, so that a key goes on
//! only where it may still win.
//!
//! A burst goes down level by level, all keys together, and the memory of the next step is asked for ahead. Where
//! there is much of it, every way of every key is followed a step at a time ([`Wave`]), and a block's first look is at
//! one word of the key, which mostly rules it out.
//!
//! Learnt from: DBTable (bits that tell rules apart make the index), CutSplit and CutTSS (rules that are wild
//! in a field are kept apart), rte_acl (a burst in step).
//!
//! Made for all rules at once ([`Cuts::of`]); later rules go the ways that there are, and a leaf that grows
//! is cut in turn. Its bits are not chosen anew, so it is meant to be rebuilt where traffic shows that
//! this would pay ([`Table::rebuilt`](crate::Table::rebuilt)). A leaf that no bits part may grow to
//! [`LEAF_MAX`]; then the structure declines.
//!
//! Invariants: the way of a rule depends on its mask and value and on the nodes alone, so it is found again for
//! its removal; lanes of a leaf stand in the order of precedence, without gaps; a way's worth is never less
//! than the best priority behind it.
//! Cost: lookup, a node and a leaf for each way that may still win; update, those of the rule's ways.
//! Checked by: [`linear`](crate::linear), in the tests below and `tests/model.rs`.

use std::cmp::Reverse;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::declined::{Declined, InsertError};
use crate::hit::Hit;
use crate::kind::Kind;
mod lookup;

use crate::mask::{extract, load};
use crate::probes::Probes;
use crate::rows::Ids;
use crate::rule::{Layout, Range, Rule};
use crate::rules::{admit, assert_burst, assert_key};
use crate::shape::TableShape;
use crate::simd::{self, PHASE};
use crate::structure::{Explain, Structure};
use lookup::Search;

/// Rules of a block.
const LANES: usize = 8;
/// Rules of a leaf that is not cut, at most, if it can be.
const LEAF: usize = 2 * LANES;
/// What a step at a node costs, in rules compared.
const NODE_COST: f64 = 30.0;
/// What it costs to ask something aside, in rules compared.
const ASIDE_COST: f64 = 30.0;
/// Fields of two bytes whose ranges are compared in the lanes.
const PORTS: usize = 2;
/// Rules of a leaf that cannot be cut, at most.
pub const LEAF_MAX: usize = 1 << 12;
/// Bits of a node, at most.
const BITS_MAX: u32 = 16;
/// Rules by which a node's bits are chosen, at most.
const SAMPLE: usize = 2048;
/// What part of the rules cares for a bit that is chosen, at least.
const CARING: f64 = 0.4;
/// Rules of a leaf from which on bits are chosen for which only [`CARING_LONG`] of the rules care, and rules
/// are copied that leave up to [`OPEN_LONG`] of them open.
const LEAF_LONG: usize = 16 * LANES;
const CARING_LONG: f64 = 0.1;
const OPEN_LONG: u32 = 5;
/// Copies of each rule, on average, from which on no more are made but of the rules that none can do without.
const COPIES_MAX: usize = 4;
/// Children of nodes for each rule, about, at most.
const WAYS_MAX: usize = 16;
/// Nodes on a way, at most.
const DEPTH_MAX: usize = 40;
/// Rules up to which copies are cheap: all of them fit into the processor's own caches.
const SMALL: usize = 4096;
/// Bytes of blocks from which on a burst waits for memory more than for anything else.
const FAR: usize = 1 << 24;
/// No row.
const NONE: u32 = u32::MAX;
/// In a lane's row: the rule compares ranges that the lane does not hold.
const RANGED: u32 = 1 << 31;
/// In a way: it leads to a node.
const NODE: u32 = 1 << 31;
/// In a way to a leaf, where the logarithm of its number of blocks stands.
const CLASS: u32 = 27;

/// Where to go on: the highest 32 bits are what the best rule there is worth, at most; then what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way(u64);

/// Nothing there.
const NOWHERE: Way = Way(0);

impl Way {
    fn node(at: usize, worth: u32) -> Way {
        Way(u64::from(worth) << 32 | u64::from(NODE | at as u32))
    }

    fn leaf(block: u32, class: u32, worth: u32) -> Way {
        Way(u64::from(worth) << 32 | u64::from(class << CLASS | block))
    }

    #[inline(always)]
    fn worth(self) -> i64 {
        (self.0 >> 32) as i64
    }

    #[inline(always)]
    fn is_somewhere(self) -> bool {
        self.0 as u32 != 0
    }

    #[inline(always)]
    fn is_node(self) -> bool {
        self.0 as u32 & NODE != 0
    }

    /// The number of the node.
    #[inline(always)]
    fn at(self) -> usize {
        (self.0 as u32 & !NODE) as usize
    }

    /// The first block of the leaf.
    #[inline(always)]
    fn block(self) -> u32 {
        self.0 as u32 & ((1 << CLASS) - 1)
    }

    /// Blocks of the leaf.
    #[inline(always)]
    fn blocks(self) -> u32 {
        1 << self.class()
    }

    #[inline(always)]
    fn class(self) -> u32 {
        self.0 as u32 >> CLASS & 15
    }

    fn worth_at_least(self, priority: u32) -> Way {
        Way(self.0.max(u64::from(priority) << 32 | self.0 & 0xffff_ffff))
    }
}

/// Bits of the key, and where each of their values leads.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Bits of two words of the key.
    masks: [u64; 2],
    words: [u8; 2],
    /// How many bits the first mask has.
    shift: u8,
    /// Bits that a rule in the children may leave open, at most.
    open: u8,
    /// The first of its children's ways.
    base: u32,
    aside: Way,
}

/// A cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// A rule that is held.
#[derive(Debug, Clone)]
struct Row {
    priority: u32,
    id: u32,
    seq: u64,
    action: u32,
    /// Whether it has ranges that its lanes do not hold.
    ranged: bool,
    /// Lowest values and widths of the ranges that they do hold.
    ports: [[u16; PORTS]; 2],
}

/// What decides between two rules.
type Rank = (u32, Reverse<u64>, Reverse<u32>);

/// Nodes and leaves.
#[derive(Debug, Clone)]
pub struct Cuts {
    layout: Layout,
    /// Words of a key.
    words: usize,
    /// Lines of a block.
    span: usize,
    rows: Vec<Row>,
    /// Mask and value of each row, a word after the other.
    bits: Vec<u64>,
    ranges: HashMap<u32, Box<[Range]>, FixedState>,
    /// Where in the key the ranges lie that lanes hold.
    ports: [u32; PORTS],
    free: Vec<u32>,
    ids: Ids,
    nodes: Vec<Node>,
    ways: Vec<Way>,
    lines: Vec<Line>,
    /// Leaves that are no longer used, by the logarithm of their size.
    spare: Vec<Vec<u32>>,
    root: Way,
    /// Rules of the longest leaf that there was.
    longest: usize,
    /// Lanes in use.
    copies: usize,
    /// The word of the key in which rules care for the most bits.
    keen: usize,
    /// Bytes of blocks from which on bursts are followed in waves.
    far: usize,
}

/// The best rule that a key has met so far.
#[derive(Debug, Clone, Copy)]
struct Best {
    /// Less than any, if there is none.
    priority: i64,
    row: u32,
}

const NOBODY: Best = Best { priority: -1, row: NONE };

impl Cuts {
    /// An empty one.
    pub fn new(layout: Layout) -> Cuts {
        let words = layout.key_len().div_ceil(8).max(1);
        let span = 2 * words + 2;
        Cuts {
            words,
            span,
            rows: Vec::new(),
            bits: Vec::new(),
            ranges: HashMap::with_hasher(FixedState::with_seed(layout.seed())),
            ports: [NONE; PORTS],
            free: Vec::new(),
            ids: Ids::new(layout.seed()),
            nodes: Vec::new(),
            ways: Vec::new(),
            lines: nothing(span),
            spare: Vec::new(),
            root: NOWHERE,
            longest: 0,
            copies: 0,
            keen: 0,
            far: FAR,
            layout,
        }
    }

    /// Rules that are there at once; those refused are left out. None if they cannot be parted.
    pub fn of(layout: Layout, rules: impl IntoIterator<Item = Rule>) -> Result<Cuts, Declined> {
        let mut cuts = Cuts::new(layout);
        if cuts.words > usize::from(u8::MAX) {
            return Err(Declined::Planned);
        }
        for rule in rules {
            let taken = cuts.ids.get(rule.id).is_some();
            if let Ok(rule) = admit(&cuts.layout, &rule, taken) {
                cuts.write(&rule);
            }
        }
        let mut rows: Vec<u32> = (0..cuts.rows.len() as u32).collect();
        rows.sort_unstable_by_key(|&row| Reverse(cuts.rank(row)));
        let cared = |word: &usize| -> u64 {
            rows.iter().map(|&row| u64::from(cuts.mask(row)[*word].count_ones())).sum()
        };
        // Of equals the first.
        cuts.keen = (0..cuts.words).rev().max_by_key(cared).unwrap_or(0);
        cuts.root = cuts.build(&rows, 0);
        cuts.lines.shrink_to_fit();
        cuts.ways.shrink_to_fit();
        cuts.fits()?;
        Ok(cuts)
    }

    fn fits(&self) -> Result<(), Declined> {
        let (entries, max) = (self.longest, LEAF_MAX);
        if entries > max { Err(Declined::Entries { entries, max }) } else { Ok(()) }
    }

    /// The rules, summed up.
    pub(crate) fn shape(&self) -> TableShape {
        TableShape::of_iter(self.layout.clone(), self.iter())
    }

    /// Whether there are so few rules that their copies lie in the processor's own caches.
    fn is_small(&self) -> bool {
        self.rows.len() <= SMALL
    }

    /// Whether so much memory is looked at that most of it lies behind the processor's own caches.
    fn is_far(&self) -> bool {
        self.lines.len() * size_of::<Line>() >= self.far
    }

    /// Nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Copies of rules in leaves.
    pub fn copies(&self) -> usize {
        self.copies
    }

    // Rows.

    fn mask(&self, row: u32) -> &[u64] {
        &self.bits[2 * self.words * row as usize..][..self.words]
    }

    fn value(&self, row: u32) -> &[u64] {
        &self.bits[2 * self.words * row as usize + self.words..][..self.words]
    }

    fn rank(&self, row: u32) -> Rank {
        let Row { priority, id, seq, .. } = self.rows[row as usize];
        (priority, Reverse(seq), Reverse(id))
    }

    /// Writes a rule into a free row.
    fn write(&mut self, rule: &Rule) -> u32 {
        let Rule { priority, id, seq, action, .. } = *rule;
        let (ranged, ports) = self.ports_of(&rule.ranges);
        let new = Row { priority, id, seq, action, ranged, ports };
        let row = match self.free.pop() {
            Some(row) => {
                self.rows[row as usize] = new;
                row
            }
            None => {
                self.rows.push(new);
                self.bits.resize(self.bits.len() + 2 * self.words, 0);
                (self.rows.len() - 1) as u32
            }
        };
        let from = 2 * self.words * row as usize;
        for at in 0..self.words {
            self.bits[from + at] = load(&rule.mask, 8 * at);
            self.bits[from + self.words + at] = load(&rule.value, 8 * at);
        }
        if !rule.ranges.is_empty() {
            self.ranges.insert(row, rule.ranges.clone());
        }
        self.ids.insert(id, row);
        row
    }

    /// What lanes hold of these ranges, and whether there is more. Places for ranges are given away as
    /// they are asked for.
    fn ports_of(&mut self, ranges: &[Range]) -> (bool, [[u16; PORTS]; 2]) {
        let (mut more, mut ports) = (false, [[0; PORTS], [u16::MAX; PORTS]]);
        for (at, range) in ranges.iter().enumerate() {
            let again = ranges[..at].iter().any(|other| other.offset == range.offset);
            let free = |port: &u32| *port == NONE || *port == range.offset;
            let place = self.ports.iter().position(free);
            match (place, u16::try_from(range.lo), u16::try_from(range.hi)) {
                (Some(place), Ok(lo), Ok(hi)) if range.len == 2 && !again => {
                    self.ports[place] = range.offset;
                    (ports[0][place], ports[1][place]) = (lo, hi - lo);
                }
                _ => more = true,
            }
        }
        (more, ports)
    }

    /// What lanes compare of a key.
    #[inline(always)]
    fn ports_in(&self, key: &[u8]) -> [u16; PORTS] {
        let mut values = [0; PORTS];
        for (value, offset) in values.iter_mut().zip(&self.ports) {
            if let Some(bytes) = key.get(*offset as usize..).and_then(|key| key.first_chunk::<2>())
            {
                *value = u16::from_be_bytes(*bytes);
            }
        }
        values
    }

    fn read(&self, row: u32) -> Rule {
        let bytes = |words: &[u64]| -> Vec<u8> {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            bytes.take(self.layout.key_len()).collect()
        };
        let Row { priority, id, seq, action, .. } = self.rows[row as usize];
        let (value, mask) = (bytes(self.value(row)), bytes(self.mask(row)));
        let mut rule = Rule::new(id, priority, seq, &value, &mask).with_action(action);
        rule.ranges = self.ranges.get(&row).cloned().unwrap_or_default();
        rule
    }

    #[cold]
    fn meets(&self, row: u32, key: &[u8]) -> bool {
        let ranges = self.ranges.get(&row);
        ranges.is_none_or(|ranges| ranges.iter().all(|range| range.contains(key)))
    }

    // Leaves.

    /// The place of a lane's row and worth.
    fn tail(&self, block: u32, lane: usize) -> usize {
        (block as usize + lane / LANES) * self.span + 2 * self.words
    }

    fn lane(&self, block: u32, lane: usize) -> u64 {
        self.lines[self.tail(block, lane)].0[lane % LANES]
    }

    /// Puts a row into a lane, or none.
    fn set_lane(&mut self, block: u32, lane: usize, row: u32) {
        let from = (block as usize + lane / LANES) * self.span;
        let at = lane % LANES;
        for word in 0..self.words {
            let (mask, value) = match row {
                // Nothing is the complement of nothing.
                NONE => (0, u64::MAX),
                row => (self.mask(row)[word], self.value(row)[word]),
            };
            self.lines[from + 2 * word].0[at] = mask;
            self.lines[from + 2 * word + 1].0[at] = value;
        }
        let ports = self.rows.get(row as usize).map_or([[0; PORTS]; 2], |row| row.ports);
        let pairs = ports.map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 16);
        self.lines[from + 2 * self.words + 1].0[at] = pairs[0] | pairs[1] << 32;
        let tail = match row {
            NONE => u64::from(NONE),
            row => {
                let of = &self.rows[row as usize];
                let ranged = if of.ranged { RANGED } else { 0 };
                u64::from(of.priority) << 32 | u64::from(row | ranged)
            }
        };
        self.lines[from + 2 * self.words].0[at] = tail;
    }

    fn copy_lane(&mut self, block: u32, from: usize, to: usize) {
        let at = |lane: usize| (block as usize + lane / LANES) * self.span;
        for line in 0..self.span {
            let word = self.lines[at(from) + line].0[from % LANES];
            self.lines[at(to) + line].0[to % LANES] = word;
        }
    }

    fn row_in(&self, block: u32, lane: usize) -> Option<u32> {
        let row = self.lane(block, lane) as u32;
        (row != NONE).then_some(row & !RANGED)
    }

    /// The rows of a leaf, the best first.
    fn rows_of(&self, leaf: Way) -> Vec<u32> {
        let lanes = 0..leaf.blocks() as usize * LANES;
        lanes.map_while(|lane| self.row_in(leaf.block(), lane)).collect()
    }

    /// A leaf of these rows, the best first.
    fn leaf(&mut self, rows: &[u32]) -> Way {
        let Some(&first) = rows.first() else { return NOWHERE };
        self.longest = self.longest.max(rows.len());
        let class = rows.len().div_ceil(LANES).next_power_of_two().trailing_zeros();
        let block = self.spare.get_mut(class as usize).and_then(Vec::pop).unwrap_or_else(|| {
            let block = (self.lines.len() / self.span) as u32;
            self.lines.resize(self.lines.len() + (self.span << class), Line([0; 8]));
            block
        });
        for lane in 0..LANES << class {
            self.set_lane(block, lane, rows.get(lane).copied().unwrap_or(NONE));
        }
        self.copies += rows.len();
        Way::leaf(block, class, self.rows[first as usize].priority)
    }

    fn drop_leaf(&mut self, leaf: Way) {
        let class = leaf.class() as usize;
        if self.spare.len() <= class {
            self.spare.resize_with(class + 1, Vec::new);
        }
        self.spare[class].push(leaf.block());
    }

    // Nodes.

    /// A way to these rows, the best first.
    fn build(&mut self, rows: &[u32], depth: usize) -> Way {
        let full = self.ways.len() > WAYS_MAX * self.rows.len().max(LEAF);
        if rows.len() <= LEAF || depth == DEPTH_MAX || full {
            return self.leaf(rows);
        }
        let open = match self.is_small() {
            _ if self.copies > COPIES_MAX * self.rows.len() => 0,
            true => 3,
            false => 1,
        };
        let mut chosen = self.choose_bits(rows, open, CARING).map(|bits| (bits, open));
        if chosen.is_none() && rows.len() > LEAF_LONG && self.copies < COPIES_MAX * self.rows.len()
        {
            // Few rules care for any bit, and most stand in many children.
            chosen = self.choose_bits(rows, OPEN_LONG, CARING_LONG).map(|bits| (bits, OPEN_LONG));
        }
        let Some((bits, open)) = chosen else { return self.leaf(rows) };
        let base = self.ways.len();
        let at = self.nodes.len();
        let shift = bits.masks[0].count_ones();
        let children = 1usize << (shift + bits.masks[1].count_ones());
        let node = Node {
            masks: bits.masks,
            words: bits.words,
            shift: shift as u8,
            open: open as u8,
            base: base as u32,
            aside: NOWHERE,
        };
        self.nodes.push(node);
        self.ways.resize(base + children, NOWHERE);
        let mut parts: Vec<Vec<u32>> = vec![Vec::new(); children];
        let mut aside = Vec::new();
        for &row in rows {
            match self.children(&node, row) {
                Some(children) => children.for_each(|child| parts[child].push(row)),
                None => aside.push(row),
            }
        }
        if aside.len() == rows.len() || parts.iter().any(|part| part.len() == rows.len()) {
            self.nodes.pop();
            self.ways.truncate(base);
            return self.leaf(rows);
        }
        for (child, part) in parts.into_iter().enumerate() {
            self.ways[base + child] = self.build(&part, depth + 1);
        }
        self.nodes[at].aside = self.build(&aside, depth + 1);
        Way::node(at, self.rows[rows[0] as usize].priority)
    }

    /// The children of a node that a row allows, or none if they are too many.
    fn children(&self, node: &Node, row: u32) -> Option<impl Iterator<Item = usize> + use<>> {
        let (mask, value) = (self.mask(row), self.value(row));
        let of = |words: &dyn Fn(usize) -> u64| -> usize {
            let [a, b] = [0, 1].map(|n| extract(words(usize::from(node.words[n])), node.masks[n]));
            (a | b << node.shift) as usize
        };
        let (named, open) = (of(&|word| value[word]), of(&|word| !mask[word]));
        if open.count_ones() > u32::from(node.open) {
            return None;
        }
        // Every part of the open bits.
        let mut next = Some(open);
        Some(std::iter::from_fn(move || {
            let part = next?;
            next = (part != 0).then(|| (part - 1) & open);
            Some(named & !open | part)
        }))
    }

    /// Bits that part some rows well, for each of which at least such a part of them cares; none if no bits do.
    fn choose_bits(&self, rows: &[u32], open: u32, caring_min: f64) -> Option<Bits> {
        let step = rows.len().div_ceil(SAMPLE);
        let sample: Vec<u32> = rows.iter().copied().step_by(step).collect();
        let scale = rows.len() as f64 / sample.len() as f64;
        // Rows with the part that they are in, and the bits that they have left open so far.
        let mut parts: Vec<(u32, u32, u32)> = sample.iter().map(|&row| (row, 0, 0)).collect();
        let most = (rows.len() / if self.is_small() { 2 } else { 1 }).ilog2().clamp(1, BITS_MAX);
        let mut chosen: Vec<(usize, u32)> = Vec::new();
        let mut aside = 0.0;
        let mut expected = rows.len() as f64;
        let total = sample.len() as f64;
        while (chosen.len() as u32) < most && expected > LANES as f64 {
            let count = 1 << chosen.len();
            let mut best: Option<(f64, f64, (usize, u32))> = None;
            for word in (0..self.words).filter(|&word| fits_with(&chosen, word)) {
                // How many rows care for a bit at all.
                let mut caring = [0usize; 64];
                for &row in &sample {
                    let mut mask = self.mask(row)[word];
                    while mask != 0 {
                        caring[mask.trailing_zeros() as usize] += 1;
                        mask &= mask - 1;
                    }
                }
                let enough = caring_min * sample.len() as f64;
                for bit in (0..64u32).filter(|&bit| caring[bit as usize] as f64 >= enough) {
                    if chosen.contains(&(word, bit)) {
                        continue;
                    }
                    let mut sums = vec![[0.0f64; 3]; count];
                    let mut dropped = 0.0;
                    for &(row, part, so_far) in &parts {
                        let cares = self.mask(row)[word] >> bit & 1 == 1;
                        if !cares && so_far == open {
                            // Its copies are counted as one rule.
                            dropped += 0.5f64.powi(so_far as i32);
                            continue;
                        }
                        let which = if cares { self.value(row)[word] >> bit & 1 } else { 2 };
                        sums[part as usize][which as usize] += 1.0;
                    }
                    let inside: f64 = sums
                        .iter()
                        .map(|[zero, one, both]| {
                            (zero + both / 2.0) * (zero + both) + (one + both / 2.0) * (one + both)
                        })
                        .sum();
                    let cost = scale * inside / total + beside((aside + dropped) * scale);
                    let grown: f64 =
                        sums.iter().map(|[zero, one, both]| zero + one + 2.0 * both).sum();
                    let growth = grown / parts.len() as f64;
                    if best.is_none_or(|(least, ..)| cost < least) {
                        best = Some((cost, growth, (word, bit)));
                    }
                }
            }
            let Some((cost, growth, (word, bit))) = best else { break };
            // Copies must be worth their room.
            let room = match open {
                OPEN_LONG => 0.05,
                _ if self.is_small() => 0.4,
                _ => 2.0,
            };
            if cost > (0.97 - room * (growth - 1.0).max(0.0)) * expected {
                break;
            }
            expected = cost;
            let bit_at = chosen.len();
            chosen.push((word, bit));
            let mut next = Vec::with_capacity(parts.len() * 2);
            for (row, part, so_far) in parts {
                if self.mask(row)[word] >> bit & 1 == 1 {
                    let set = (self.value(row)[word] >> bit & 1) as u32;
                    next.push((row, part | set << bit_at, so_far));
                } else if so_far < open {
                    next.push((row, part, so_far + 1));
                    next.push((row, part | 1 << bit_at, so_far + 1));
                } else {
                    aside += 0.5f64.powi(so_far as i32);
                }
            }
            parts = next;
        }
        if expected + NODE_COST > rows.len() as f64 {
            return None;
        }
        let first = chosen.first()?.0;
        let second = chosen.iter().map(|&(word, _)| word).find(|&word| word != first);
        let words = [first, second.unwrap_or(first)];
        let mut masks = [0; 2];
        for (word, bit) in chosen {
            masks[usize::from(word != first)] |= 1 << bit;
        }
        Some(Bits { masks, words: words.map(|word| word as u8) })
    }

    /// Adds a row on a way; the way that it is then.
    fn add(&mut self, way: Way, row: u32, depth: usize) -> Way {
        let priority = self.rows[row as usize].priority;
        if !way.is_somewhere() {
            return self.leaf(&[row]);
        }
        if way.is_node() {
            let node = self.nodes[way.at()];
            match self.children(&node, row) {
                Some(children) => {
                    for child in children {
                        let at = node.base as usize + child;
                        self.ways[at] = self.add(self.ways[at], row, depth + 1);
                    }
                }
                None => self.nodes[way.at()].aside = self.add(node.aside, row, depth + 1),
            }
            return way.worth_at_least(priority);
        }
        let (block, room) = (way.block(), way.blocks() as usize * LANES);
        if self.lane(block, room - 1) as u32 != NONE {
            let mut rows = self.rows_of(way);
            let rank = self.rank(row);
            let at = rows.partition_point(|&other| self.rank(other) > rank);
            rows.insert(at, row);
            self.copies -= rows.len() - 1;
            self.drop_leaf(way);
            return self.build(&rows, depth);
        }
        // The lanes behind it make room.
        let mut len = 0;
        while self.lane(block, len) as u32 != NONE {
            len += 1;
        }
        let rank = self.rank(row);
        while len > 0 && self.row_in(block, len - 1).is_some_and(|other| self.rank(other) < rank) {
            self.copy_lane(block, len - 1, len);
            len -= 1;
        }
        self.set_lane(block, len, row);
        self.copies += 1;
        way.worth_at_least(priority)
    }

    /// Takes a row off a way; the way that it is then.
    fn take(&mut self, way: Way, row: u32) -> Way {
        if way.is_node() {
            let node = self.nodes[way.at()];
            match self.children(&node, row) {
                Some(children) => {
                    for child in children {
                        let at = node.base as usize + child;
                        self.ways[at] = self.take(self.ways[at], row);
                    }
                }
                None => self.nodes[way.at()].aside = self.take(node.aside, row),
            }
            return way;
        }
        if !way.is_somewhere() {
            return way;
        }
        let (block, room) = (way.block(), way.blocks() as usize * LANES);
        let found = (0..room).find(|&lane| self.row_in(block, lane) == Some(row));
        let Some(mut lane) = found else { return way };
        self.copies -= 1;
        while lane + 1 < room && self.lane(block, lane + 1) as u32 != NONE {
            self.copy_lane(block, lane + 1, lane);
            lane += 1;
        }
        self.set_lane(block, lane, NONE);
        match self.row_in(block, 0) {
            None => {
                self.drop_leaf(way);
                NOWHERE
            }
            Some(first) => Way::leaf(block, way.class(), self.rows[first as usize].priority),
        }
    }
}

/// Block 0, which is no leaf's: nothing matches there, and it is worth nothing.
fn nothing(span: usize) -> Vec<Line> {
    let mut lines = vec![Line([0; 8]); span];
    lines.iter_mut().skip(1).step_by(2).for_each(|line| *line = Line([u64::MAX; 8]));
    lines[span - 2] = Line([u64::from(NONE); 8]);
    lines
}

/// The bits of a node.
struct Bits {
    masks: [u64; 2],
    words: [u8; 2],
}

/// Whether a word may have bits beside those chosen: they lie in two words at most.
fn fits_with(chosen: &[(usize, u32)], word: usize) -> bool {
    let Some(&(first, _)) = chosen.first() else { return true };
    let second = chosen.iter().map(|&(word, _)| word).find(|&word| word != first);
    word == first || second.is_none_or(|second| second == word)
}

/// What it costs to ask so many rules aside, in rules compared.
fn beside(rules: f64) -> f64 {
    match rules {
        0.0 => 0.0,
        ..16.0 => ASIDE_COST + rules / 2.0,
        _ => ASIDE_COST + 8.0 + NODE_COST * (rules / 16.0).log2(),
    }
}

impl Structure for Cuts {
    fn kind(&self) -> Kind {
        Kind::Cuts
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        let rule = admit(&self.layout, rule, self.ids.get(rule.id).is_some())?;
        if self.words > usize::from(u8::MAX) {
            return Err(InsertError::Declined(Declined::Planned));
        }
        self.fits().map_err(InsertError::Declined)?;
        let row = self.write(&rule);
        self.root = self.add(self.root, row, 0);
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let row = self.ids.remove(id)?;
        let rule = self.read(row);
        self.root = self.take(self.root, row);
        self.ranges.remove(&row);
        self.free.push(row);
        Some(rule)
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        let Some(row) = self.ids.get(id) else { return false };
        self.rows[row as usize].action = action;
        true
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(&self.layout, key);
        self.find(key, &mut Probes::default())
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        assert_burst(&self.layout, keys, stride, hits.len());
        for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
            let keys = &keys[part * PHASE * stride..];
            match self.words {
                1 => simd::fastest(Search::<1> { cuts: self, keys, stride, hits }),
                2 => simd::fastest(Search::<2> { cuts: self, keys, stride, hits }),
                3 => simd::fastest(Search::<3> { cuts: self, keys, stride, hits }),
                4 => simd::fastest(Search::<4> { cuts: self, keys, stride, hits }),
                5 => simd::fastest(Search::<5> { cuts: self, keys, stride, hits }),
                _ => {
                    let len = self.layout.key_len();
                    for (hit, key) in hits.iter_mut().zip(keys.chunks_exact(stride)) {
                        *hit = self.find(&key[..len], &mut Probes::default());
                    }
                }
            }
        }
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
            + self.bits.capacity() * 8
            + self.ranges.allocation_size()
            + self.ranges.values().map(|ranges| size_of_val(&**ranges)).sum::<usize>()
            + self.free.capacity() * 4
            + self.ids.memory_bytes()
            + self.nodes.capacity() * size_of::<Node>()
            + self.ways.capacity() * size_of::<Way>()
            + self.lines.capacity() * size_of::<Line>()
            + self.spare.iter().map(|spare| 24 + spare.capacity() * 4).sum::<usize>()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        let freed: hashbrown::HashSet<u32> = self.free.iter().copied().collect();
        let rows = 0..self.rows.len() as u32;
        Box::new(rows.filter(move |row| !freed.contains(row)).map(|row| self.read(row)))
    }

    fn probes(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Probes> {
        let mut probes = Probes::default();
        keys.for_each(|key| {
            probes.lookups += 1;
            self.find(key, &mut probes);
        });
        Some(probes)
    }

    fn explain(&self) -> Explain {
        let masks: hashbrown::HashSet<Box<[u8]>> = self.iter().map(|rule| rule.mask).collect();
        Explain {
            kind: Kind::Cuts,
            entries: self.len(),
            masks: masks.len(),
            probes_max: self.nodes.len(),
            ranged: self.ranges.len(),
            memory_bytes: self.memory_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classbench::Draw;
    use crate::linear::Linear;

    /// One prefix of so many may be of any length.
    const WILD: usize = 4;

    /// Rules of two prefixes and a port or a range of ports; of `lens` bits, or anything down to none.
    fn rules(count: u32, lens: std::ops::Range<u32>, draw: &mut Draw) -> Vec<Rule> {
        let rule = |id: u32| {
            let mut prefix = || {
                let wild = draw.below(WILD) == 0;
                let from = if wild { 0 } else { lens.start };
                let len = from + draw.below((lens.end - from) as usize) as u32;
                let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
                ((draw.word() as u32 & mask).to_be_bytes(), mask.to_be_bytes())
            };
            let ((src, src_mask), (dst, dst_mask)) = (prefix(), prefix());
            let port = draw.below(1000) as u16;
            let (value, mask) = match draw.below(3) {
                0 => ([0; 4], [0; 4]),
                _ => ([0, 0, (port >> 8) as u8, port as u8], [0, 0, 255, 255]),
            };
            let value = [src, dst, value].concat();
            let mask = [src_mask, dst_mask, mask].concat();
            let mut rule = Rule::new(id, draw.below(300) as u32, u64::from(id), &value, &mask);
            if draw.below(8) == 0 {
                let lo = u128::from(port);
                rule.ranges = [Range { offset: 8, len: 2, lo, hi: lo + 700 }].into();
            }
            rule
        };
        (0..count).map(rule).collect()
    }

    /// Keys, most of which meet some rule, as a burst has them.
    fn keys(rules: &[Rule], count: usize, draw: &mut Draw) -> Vec<u8> {
        let mut keys = Vec::new();
        for _ in 0..count {
            let rule = &rules[draw.below(rules.len())];
            let bits = rule.value.iter().zip(&rule.mask);
            keys.extend(bits.map(|(value, mask)| value | draw.word() as u8 & !mask));
            keys.extend([0; 4]);
        }
        keys
    }

    fn agrees(subject: &Cuts, oracle: &Linear, keys: &[u8]) {
        let mut hits = vec![Hit::MISS; keys.len() / 16];
        subject.lookup_burst(keys, 16, &mut hits);
        for (key, hit) in keys.chunks(16).zip(hits) {
            let want = oracle.lookup(&key[..12]);
            assert_eq!((hit, subject.lookup(&key[..12])), (want, want), "{key:x?}");
        }
    }

    #[test]
    fn bursts_are_answered_alike_near_and_far() {
        for (lens, seed) in [(0..33, 1), (8..33, 2), (20..33, 3)] {
            let draw = &mut Draw::new(seed);
            let all = rules(6000, lens, draw);
            let layout = Layout::new(&[4, 4, 2, 2]).unwrap();
            let mut oracle = Linear::new(layout.clone());
            all.iter().for_each(|rule| oracle.insert(rule).unwrap());
            let mut subject = Cuts::of(layout, all.iter().cloned()).unwrap();
            let keys = keys(&all, 999, draw);
            for far in [0, usize::MAX] {
                subject.far = far;
                assert_eq!(subject.is_far(), far == 0);
                agrees(&subject, &oracle, &keys);
            }
            for step in 0..1500 {
                let rule = &all[draw.below(all.len())];
                if oracle.remove(rule.id).is_some() {
                    assert!(subject.remove(rule.id).is_some());
                } else {
                    oracle.insert(rule).unwrap();
                    subject.insert(rule).unwrap();
                }
                if step % 500 == 0 {
                    for far in [0, usize::MAX] {
                        subject.far = far;
                        agrees(&subject, &oracle, &keys);
                    }
                }
            }
        }
    }

    #[test]
    fn rules_that_care_for_few_bits_are_parted_by_copies() {
        let draw = &mut Draw::new(5);
        let all = rules(9000, 0..9, draw);
        let layout = Layout::new(&[4, 4, 2, 2]).unwrap();
        let mut oracle = Linear::new(layout.clone());
        all.iter().for_each(|rule| oracle.insert(rule).unwrap());
        let mut subject = Cuts::of(layout, all.iter().cloned()).unwrap();
        assert!(subject.longest < LEAF_MAX / 4, "{}", subject.longest);
        assert!(subject.copies <= (COPIES_MAX + 1) * all.len(), "{}", subject.copies);
        let keys = keys(&all, 500, draw);
        for far in [0, usize::MAX] {
            subject.far = far;
            agrees(&subject, &oracle, &keys);
        }
    }
}
