//! Ternary lookup by merged tuples (Daly et al., *TupleMerge*, IEEE/ACM Transactions on Networking 2019).
//!
//! The general form: it takes every rule. Where tuple space search has a hash per distinct mask, rules
//! whose masks are close share one *tuple* here: a mask that leaves out some bits of theirs, so that a
//! lookup asks few tuples. What the tuple leaves out is checked on the rules themselves, which hang in
//! chains, best first. A new rule joins the first tuple, in the order of their best priorities, whose
//! mask is part of its own; if none is, a new tuple is made from its mask with some slack. Where more
//! than a limit of rules would hang on one chain, the tuple has ignored too much: the bits that the
//! chain's rules have in common make another tuple, to which move all rules that have these bits.
//! Ranges stay ranges: the leading bits that their ends share go into the mask, the rest is compared.
//!
//! All tuples share one hash (module `tagged`), from a tuple's number and the masked key to a
//! chain's head. A burst is looked up tuple by tuple, in stages: hash, look at the buckets, compare the
//! rules that these name.
//!
//! Beyond the paper: address fields are those of four bytes and more in which some rule has had a
//! prefix; fields of other widths, and arbitrary masks, are taken as they are. [`TupleMerge::arranged`]
//! is the offline form: tuples are chosen for all rules at once, each taking as many of the best rules
//! left as it can with short chains.
//!
//! Invariants: a rule hangs in exactly one chain, that of its own tuple and value; a tuple's mask is part
//! of the masks of all its rules; `order` holds each tuple once, by its best priority, descending; no
//! chain is longer than the limit, unless its rules differ in nothing by which they could be parted.
//! Cost: lookup, a probe per tuple until none left can win; insert, a walk over the tuples' masks and to the rule's place on one
//! chain, rarely a split, which moves a tuple's rules; removal, a rule and its neighbours.
//! Checked by: [`linear`](crate::linear), in `tests/model.rs` and `benches/classbench.rs`.

use std::cmp::Reverse;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

mod lookup;
mod priorities;
#[cfg(test)]
mod tests;

use crate::declined::InsertError;
use crate::hit::Hit;
use crate::kind::Kind;
use crate::mask::load;
use crate::probe::hash;
use crate::probes::{Noise, Probes};
use crate::rows::Ids;
use crate::rule::{Layout, Range, Rule, spans_of};
use crate::rules::{admit, assert_burst, assert_key};
use crate::shape::{MaskShape, TableShape, prefix_len};
use crate::simd::{self, PHASE};
use crate::structure::{Explain, Structure};
use crate::tagged::{NONE, Tagged};
use lookup::meets;
use priorities::Priorities;

/// Rules of a chain, at most, where they come one by one.
const CHAIN_MAX: usize = 40;
/// Rules of a chain, at most, where tuples are chosen for all rules at once.
const CHAIN_ARRANGED_MAX: usize = 8;
/// Tuples that are chosen so, at most; rules beyond them come one by one.
const ARRANGED_MAX: usize = 128;
/// Lookups by which two arrangements are compared, about.
const SAMPLES: usize = 1000;
/// Address fields whose prefixes are so close, in bits of 32, are both part of a tuple.
const CLOSE_BITS: u32 = 4;
/// Ranges that a row holds itself.
const RANGES: usize = 2;
/// Tuples that a lookup of one key asks at a time.
const AHEAD: usize = 4;
/// In a row's link: the rule compares ranges.
const RANGED: u32 = 1 << 31;
/// In a row's link: no row behind it.
const LAST: u32 = RANGED - 1;
/// In the place of the row before: there is none.
const HEAD: u32 = 1 << 31;
/// In the place of a row's first range: they lie apart.
const APART: u64 = u64::MAX;

/// A cache line of a row.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// What lookups do not need of a row.
#[derive(Debug, Clone, Copy)]
struct Aside {
    seq: u64,
    tuple: u32,
    /// The row before it on its chain; of the first row [`HEAD`], and how many rows the chain has at most: what left from
    /// behind the first is not counted.
    before: u32,
}

/// Rules whose masks have some bits in common.
#[derive(Debug, Clone)]
struct Tuple {
    mask: Box<[u64]>,
    salt: u64,
    len: usize,
    priorities: Priorities,
}

/// A tuple's place in the order of probing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    best: Reverse<u32>,
    tuple: u32,
}

/// Where in a tuple a row belongs.
#[derive(Debug)]
struct Spot {
    hash: u64,
    /// The first row of its chain.
    head: Option<u32>,
    /// The last row that is ahead of it.
    before: Option<u32>,
    /// Rows of the chain, at most.
    noted: usize,
}

/// Merged tuples.
#[derive(Debug, Clone)]
pub struct TupleMerge {
    layout: Layout,
    /// Words of a key.
    words: usize,
    /// Lines of a row.
    span: usize,
    lines: Vec<Line>,
    aside: Vec<Aside>,
    free: Vec<u32>,
    ids: Ids,
    /// Ranges that do not fit into their rows.
    apart: HashMap<u32, Box<[Range]>, FixedState>,
    tuples: Vec<Option<Tuple>>,
    free_tuples: Vec<u32>,
    order: Vec<Place>,
    heads: Tagged,
    /// Fields in which some rule has had a prefix shorter than the field.
    prefixed: Vec<bool>,
    ranged: usize,
    chain_max: usize,
}

/// Rows by the hash of their masked values.
type Lengths = HashMap<u64, usize, FixedState>;

/// What decides between two rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: u32,
    seq: Reverse<u64>,
    id: Reverse<u32>,
}

impl TupleMerge {
    /// An empty one.
    pub fn new(layout: Layout) -> TupleMerge {
        Self::with_chain_max(layout, CHAIN_MAX)
    }

    /// An empty one with another limit of rules on a chain: the lower, the more tuples.
    pub fn with_chain_max(layout: Layout, chain_max: usize) -> TupleMerge {
        let words = layout.key_len().div_ceil(8).max(1);
        let seed = layout.seed();
        TupleMerge {
            words,
            span: (2 * words + 2 + RANGES).div_ceil(8),
            lines: Vec::new(),
            aside: Vec::new(),
            free: Vec::new(),
            ids: Ids::new(seed),
            apart: HashMap::with_hasher(FixedState::with_seed(seed)),
            tuples: Vec::new(),
            free_tuples: Vec::new(),
            order: Vec::new(),
            heads: Tagged::new(),
            prefixed: vec![false; layout.fields().len()],
            ranged: 0,
            chain_max: chain_max.max(1),
            layout,
        }
    }

    /// Rules that come one by one, all at once; those refused are left out.
    pub(crate) fn of(layout: Layout, rules: impl IntoIterator<Item = Rule>) -> TupleMerge {
        let mut merged = TupleMerge::new(layout);
        for rule in rules {
            let _ = merged.insert(&rule);
        }
        merged
    }

    /// Rules that are all there at once, in tuples chosen for all of them, or as if they came one by one,
    /// whichever makes less work of looking some of them up; those refused are left out.
    ///
    /// Takes a pass over the rules for each tuple and for each mask that comes into question for it.
    pub fn arranged(layout: Layout, rules: impl IntoIterator<Item = Rule>) -> TupleMerge {
        let mut merged = TupleMerge::new(layout);
        for rule in rules {
            let taken = merged.ids.get(rule.id).is_some();
            if let Ok(rule) = admit(&merged.layout, &rule, taken) {
                merged.note_prefixes(&rule);
                merged.write(&rule);
            }
        }
        let mut rows: Vec<u32> = (0..merged.aside.len() as u32).collect();
        rows.sort_unstable_by_key(|&row| Reverse(merged.rank(row)));
        merged.choose_tuples(rows.clone());
        let chosen = merged.work(&rows);
        rows.iter().for_each(|&row| merged.unhang(row));
        // In no order: what comes in the order of precedence needs more tuples.
        let mut mixed = rows.clone();
        mixed.sort_unstable_by_key(|&row| hash(0, &[u64::from(row)]));
        mixed.into_iter().for_each(|row| merged.place(row));
        if chosen < merged.work(&rows) {
            rows.iter().for_each(|&row| merged.unhang(row));
            merged.choose_tuples(rows);
        }
        merged
    }

    /// Hangs rows, the best first, into tuples chosen for all of them.
    fn choose_tuples(&mut self, mut left: Vec<u32>) {
        while !left.is_empty() && self.order.len() < ARRANGED_MAX {
            let Some(mask) = self.choose_tuple(&left) else { break };
            let (taken, others) = self.take(&left, &mask);
            let at = self.open(&mask);
            taken.into_iter().for_each(|row| self.hang(row, at));
            left = others;
        }
        left.into_iter().for_each(|row| self.place(row));
    }

    /// What it takes to look some keys up that meet some of these rows: tuples asked and rows compared.
    fn work(&self, rows: &[u32]) -> usize {
        let mut noise = Noise::default();
        let mut probes = Probes::default();
        let mut words = vec![0; self.words];
        for &row in rows.iter().step_by(rows.len() / SAMPLES + 1) {
            for (word, at) in words.iter_mut().zip(0..) {
                *word = self.word(row, self.words + at) | noise.word() & !self.word(row, at);
            }
            self.count(|at| words[at], &mut probes);
        }
        // Heads are asked for ahead, the rows behind are waited for.
        probes.tables + probes.compared + 2 * probes.behind
    }

    /// Counts what a lookup takes, ranges left out.
    fn count(&self, word: impl Fn(usize) -> u64, probes: &mut Probes) {
        probes.lookups += 1;
        let mut best = None;
        for place in &self.order {
            if best > Some(place.best.0) {
                break;
            }
            let Some(tuple) = self.tuple(place.tuple) else { continue };
            probes.tables += 1;
            let hash = hash_of(tuple.salt, self.words, |at| word(at) & tuple.mask[at]);
            for head in self.heads.heads(hash) {
                let worse = |row: &u32| best <= Some(self.priority(*row));
                for (row, at) in self.chain(Some(head)).take_while(worse).zip(0..) {
                    probes.compared += 1;
                    probes.behind += usize::from(at > 0);
                    let mut bits = self.mask(row).zip(self.value(row)).zip(0..);
                    if bits.all(|((mask, value), at)| (word(at) ^ value) & mask == 0) {
                        best = Some(self.priority(row));
                        break;
                    }
                }
            }
        }
    }

    /// Of the masks that are common to the first so many rows, the one whose tuple leaves the latest row
    /// as the first that it cannot take; of several, the one that takes the most.
    fn choose_tuple(&self, rows: &[u32]) -> Option<Vec<u64>> {
        let mut common = vec![u64::MAX; self.words];
        let mut masks: Vec<Vec<u64>> = Vec::new();
        for &row in rows {
            if masks.is_empty() || !part_of(&common, self.mask(row)) {
                common.iter_mut().zip(self.mask(row)).for_each(|(all, mask)| *all &= mask);
                masks.push(common.clone());
            }
        }
        // How many of the first rows each takes.
        let reach = |mask: &[u64]| {
            let mut lengths = Lengths::default();
            rows.iter().take_while(|&&row| self.takes(row, mask, &mut lengths)).count()
        };
        let reaches: Vec<usize> = masks.iter().map(|mask| reach(mask)).collect();
        let most = reaches.iter().copied().max()?;
        let best = masks.into_iter().zip(reaches).filter(|&(_, reach)| reach == most);
        best.map(|(mask, _)| mask).max_by_key(|mask| self.take(rows, mask).0.len())
    }

    /// The rows that a tuple of this mask takes, with chains as short as they should be, and the others.
    fn take(&self, rows: &[u32], mask: &[u64]) -> (Vec<u32>, Vec<u32>) {
        let mut lengths = Lengths::default();
        rows.iter().partition(|&&row| self.takes(row, mask, &mut lengths))
    }

    /// Whether a row has room in a tuple of this mask.
    fn takes(&self, row: u32, mask: &[u64], lengths: &mut Lengths) -> bool {
        if !part_of(mask, self.mask(row)) {
            return false;
        }
        let value = |at| self.word(row, self.words + at) & mask[at];
        let length = lengths.entry(hash_of(0, self.words, value)).or_insert(0);
        *length += 1;
        *length <= CHAIN_ARRANGED_MAX
    }

    /// The rules, summed up.
    pub(crate) fn shape(&self) -> TableShape {
        let mut places: HashMap<Vec<u64>, usize> = HashMap::new();
        let mut shape = TableShape {
            layout: self.layout.clone(),
            entries: self.len(),
            ranged: self.ranged,
            ranges: Vec::new(),
            masks: Vec::new(),
        };
        for row in self.rows() {
            let priority = self.priority(row);
            let mask: Vec<u64> = self.mask(row).collect();
            let at = *places.entry(mask).or_insert_with_key(|mask| {
                let bytes = mask.iter().flat_map(|word| word.to_le_bytes());
                let mask = bytes.take(self.layout.key_len()).collect();
                let (entries, ranged) = (0, 0);
                let (priority_min, priority_max) = (priority, priority);
                shape.masks.push(MaskShape { mask, entries, ranged, priority_min, priority_max });
                shape.masks.len() - 1
            });
            let sum = &mut shape.masks[at];
            sum.entries += 1;
            sum.priority_min = sum.priority_min.min(priority);
            sum.priority_max = sum.priority_max.max(priority);
            if self.link(row) & RANGED != 0 {
                sum.ranged += 1;
                shape.ranges.extend(spans_of(&self.ranges(row)));
            }
        }
        shape.ranges.sort_unstable();
        shape.ranges.dedup();
        shape
    }

    /// Tuples asked by a lookup, at most.
    pub fn tuples(&self) -> usize {
        self.order.len()
    }

    /// Rules of the longest chain.
    pub fn chain_longest(&self) -> usize {
        let mut lengths: HashMap<(u32, Vec<u64>), usize> = HashMap::new();
        for row in self.rows() {
            let tuple = self.aside[row as usize].tuple;
            let Some(of) = self.tuple(tuple) else { continue };
            *lengths.entry((tuple, self.masked(row, &of.mask))).or_insert(0) += 1;
        }
        lengths.into_values().max().unwrap_or(0)
    }

    /// Whether there is a rule of this id.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.ids.get(id).is_some()
    }

    /// What decides between the rule of this id and others, if it is there: the greater wins.
    pub(crate) fn precedence_of(&self, id: u32) -> Option<(u32, Reverse<u64>, Reverse<u32>)> {
        let Rank { priority, seq, id } = self.rank(self.ids.get(id)?);
        Some((priority, seq, id))
    }

    // Rows.

    /// Asks for what lookups need of a row.
    #[inline(always)]
    fn prefetch_line(&self, row: u32) {
        if let Some(line) = self.lines.get(row as usize * self.span) {
            simd::prefetch(line);
        }
    }

    /// Asks for a row's memory.
    fn prefetch(&self, row: u32) {
        if let Some(aside) = self.aside.get(row as usize) {
            simd::prefetch(aside);
            simd::prefetch(&self.lines[row as usize * self.span]);
        }
    }

    #[inline]
    fn word(&self, row: u32, at: usize) -> u64 {
        self.lines[row as usize * self.span + at / 8].0[at % 8]
    }

    #[inline]
    fn set_word(&mut self, row: u32, at: usize, word: u64) {
        self.lines[row as usize * self.span + at / 8].0[at % 8] = word;
    }

    fn mask(&self, row: u32) -> impl Iterator<Item = u64> + '_ {
        (0..self.words).map(move |at| self.word(row, at))
    }

    fn value(&self, row: u32) -> impl Iterator<Item = u64> + '_ {
        (0..self.words).map(move |at| self.word(row, self.words + at))
    }

    /// A row's value under a mask.
    fn masked(&self, row: u32, mask: &[u64]) -> Vec<u64> {
        self.value(row).zip(mask).map(|(value, mask)| value & mask).collect()
    }

    fn priority(&self, row: u32) -> u32 {
        (self.word(row, 2 * self.words) >> 32) as u32
    }

    fn link(&self, row: u32) -> u32 {
        self.word(row, 2 * self.words) as u32
    }

    /// The row behind it on its chain, or [`LAST`].
    fn next(&self, row: u32) -> u32 {
        self.link(row) & LAST
    }

    fn set_next(&mut self, row: u32, next: u32) {
        let at = 2 * self.words;
        let word = self.word(row, at);
        self.set_word(row, at, word & !u64::from(LAST) | u64::from(next));
    }

    /// Notes what comes before a row, if there is such a row.
    fn set_before(&mut self, row: u32, before: u32) {
        if row != LAST {
            self.aside[row as usize].before = before;
        }
    }

    fn hit(&self, row: u32) -> Hit {
        let word = self.word(row, 2 * self.words + 1);
        Hit { entry: word as u32, action: (word >> 32) as u32 }
    }

    fn rank(&self, row: u32) -> Rank {
        let (seq, id) = (self.aside[row as usize].seq, self.hit(row).entry);
        Rank { priority: self.priority(row), seq: Reverse(seq), id: Reverse(id) }
    }

    /// Whether a row decides before another: mostly its priority says so, and `seq` is far off.
    fn is_ahead(&self, row: u32, other: u32) -> bool {
        match self.priority(row).cmp(&self.priority(other)) {
            std::cmp::Ordering::Equal => self.rank(row) > self.rank(other),
            order => order.is_gt(),
        }
    }

    fn ranges(&self, row: u32) -> Vec<Range> {
        if self.link(row) & RANGED == 0 {
            return Vec::new();
        }
        let at = 2 * self.words + 2;
        if self.word(row, at) == APART {
            return self.apart.get(&row).map_or(Vec::new(), |ranges| ranges.to_vec());
        }
        (at..at + RANGES).filter_map(|at| unpack(self.word(row, at))).collect()
    }

    /// Whether a key meets the ranges of a row that has some. `words` are the row's ranges.
    fn meets(&self, row: u32, words: [u64; RANGES], key: &[u8]) -> bool {
        if words[0] == APART {
            let ranges = self.apart.get(&row);
            return ranges.is_none_or(|ranges| ranges.iter().all(|range| range.contains(key)));
        }
        words.iter().all(|&word| meets(word, key))
    }

    /// Writes a rule into a free row.
    fn write(&mut self, rule: &Rule) -> u32 {
        let row = self.free.pop().unwrap_or_else(|| {
            self.lines.resize(self.lines.len() + self.span, Line([0; 8]));
            self.aside.push(Aside { seq: 0, tuple: NONE, before: NONE });
            (self.aside.len() - 1) as u32
        });
        for at in 0..self.words {
            self.set_word(row, at, load(&rule.mask, 8 * at));
            self.set_word(row, self.words + at, load(&rule.value, 8 * at));
        }
        let ranged = if rule.ranges.is_empty() { 0 } else { RANGED };
        let at = 2 * self.words;
        self.set_word(row, at, u64::from(rule.priority) << 32 | u64::from(ranged | LAST));
        self.set_word(row, at + 1, u64::from(rule.action) << 32 | u64::from(rule.id));
        let mut packed = [0; RANGES];
        let fits = rule.ranges.len() <= RANGES
            && rule.ranges.iter().zip(&mut packed).all(|(range, to)| {
                *to = pack(range).unwrap_or_default();
                *to != 0
            });
        if !fits {
            packed[0] = APART;
            self.apart.insert(row, rule.ranges.clone());
        }
        packed.into_iter().zip(at + 2..).for_each(|(word, at)| self.set_word(row, at, word));
        self.ranged += usize::from(ranged != 0);
        self.aside[row as usize].seq = rule.seq;
        self.ids.insert(rule.id, row);
        row
    }

    /// The rule in a row.
    fn read(&self, row: u32) -> Rule {
        let bytes = |from: usize| -> Box<[u8]> {
            let mut bytes = vec![0; self.layout.key_len()].into_boxed_slice();
            for (to, at) in bytes.chunks_mut(8).zip(from..) {
                to.copy_from_slice(&self.word(row, at).to_le_bytes()[..to.len()]);
            }
            bytes
        };
        let Hit { entry: id, action } = self.hit(row);
        let (value, mask) = (bytes(self.words), bytes(0));
        let (priority, seq) = (self.priority(row), self.aside[row as usize].seq);
        Rule { id, priority, seq, value, mask, ranges: self.ranges(row).into(), action }
    }

    /// Rows in use, in the order of their numbers.
    fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        let used = |(row, aside): (u32, &Aside)| (aside.tuple != NONE).then_some(row);
        (0..).zip(&self.aside).filter_map(used)
    }

    // Tuples.

    fn tuple(&self, at: u32) -> Option<&Tuple> {
        self.tuples.get(at as usize)?.as_ref()
    }

    /// The hash by which a row is found in a tuple.
    fn hash_in(&self, row: u32, tuple: &Tuple) -> u64 {
        hash_of(tuple.salt, self.words, |at| self.word(row, self.words + at) & tuple.mask[at])
    }

    /// The hash of a row that hangs in a tuple.
    fn hash_of(&self, row: u32) -> u64 {
        let tuple = self.tuple(self.aside[row as usize].tuple);
        self.hash_in(row, tuple.expect("a row in use has a tuple"))
    }

    /// The head of the chain on which a row hangs, or would.
    fn head(&self, row: u32, at: u32, tuple: &Tuple, hash: u64) -> Option<u32> {
        self.heads.heads(hash).find(|&head| {
            // Both are far off; let them come at once.
            self.prefetch(head);
            (self.value(head).zip(self.value(row)).zip(&tuple.mask))
                .all(|((a, b), mask)| (a ^ b) & mask == 0)
                && self.aside[head as usize].tuple == at
        })
    }

    fn chain(&self, head: Option<u32>) -> impl Iterator<Item = u32> + '_ {
        let next = |&row: &u32| Some(self.next(row)).filter(|&next| next != LAST);
        std::iter::successors(head, next)
    }

    /// Where in a tuple a row belongs.
    fn spot(&self, row: u32, at: u32, tuple: &Tuple) -> Spot {
        let hash = self.hash_in(row, tuple);
        let head = self.head(row, at, tuple, hash);
        let before = self.chain(head).take_while(|&other| self.is_ahead(other, row)).last();
        let noted = head.map_or(0, |head| (self.aside[head as usize].before & !HEAD) as usize);
        Spot { hash, head, before, noted }
    }

    /// Hangs a row into a tuple.
    fn hang(&mut self, row: u32, at: u32) {
        let Some(tuple) = self.tuple(at) else { return };
        let spot = self.spot(row, at, tuple);
        self.hang_at(row, at, &spot);
    }

    /// Hangs a row into a tuple, where it belongs.
    fn hang_at(&mut self, row: u32, at: u32, &Spot { hash, head, before, noted }: &Spot) {
        let first = HEAD | (noted as u32 + 1).min(LAST);
        match (head, before) {
            (Some(head), Some(before)) => {
                let next = self.next(before);
                self.set_next(before, row);
                self.set_next(row, next);
                self.set_before(row, before);
                self.set_before(next, row);
                self.set_before(head, first);
            }
            (Some(head), None) => {
                self.heads.set(hash, head, row);
                self.set_next(row, head);
                self.set_before(row, first);
                self.set_before(head, row);
            }
            (None, _) => {
                // Rows hash by their tuples, and this one has none yet; it does not have to move.
                let mut heads = std::mem::take(&mut self.heads);
                heads.insert(hash, row, |row| self.hash_of(row));
                self.heads = heads;
                self.set_next(row, LAST);
                self.set_before(row, first);
            }
        }
        let priority = self.priority(row);
        let Some(tuple) = self.tuples[at as usize].as_mut() else { return };
        let best = tuple.priorities.best();
        tuple.len += 1;
        tuple.priorities.add(priority);
        self.aside[row as usize].tuple = at;
        self.reorder(at, best);
    }

    /// Takes a row off its tuple, which goes if it was the last.
    fn unhang(&mut self, row: u32) {
        let at = self.aside[row as usize].tuple;
        let Some(tuple) = self.tuple(at) else { return };
        let (before, next) = (self.aside[row as usize].before, self.next(row));
        if before & HEAD == 0 {
            self.set_next(before, next);
            self.set_before(next, before);
        } else {
            let hash = self.hash_in(row, tuple);
            if next != LAST {
                self.heads.set(hash, row, next);
                self.set_before(next, before - 1);
            } else {
                let mut heads = std::mem::take(&mut self.heads);
                heads.remove(hash, row, |row| self.hash_of(row));
                self.heads = heads;
            }
        }
        self.aside[row as usize].tuple = NONE;
        let priority = self.priority(row);
        let Some(tuple) = self.tuples[at as usize].as_mut() else { return };
        let best = tuple.priorities.best();
        tuple.len -= 1;
        tuple.priorities.remove(priority);
        self.reorder(at, best);
        if self.tuple(at).is_some_and(|tuple| tuple.len == 0) {
            self.tuples[at as usize] = None;
            self.free_tuples.push(at);
        }
    }

    /// Moves a tuple whose best priority was `before` to where it belongs now.
    fn reorder(&mut self, tuple: u32, before: Option<u32>) {
        let now = self.tuple(tuple).and_then(|tuple| tuple.priorities.best());
        if now == before {
            return;
        }
        let place = |best: u32| Place { best: Reverse(best), tuple };
        if let Some(Ok(at)) = before.map(|best| self.order.binary_search(&place(best))) {
            self.order.remove(at);
        }
        if let Some(best) = now {
            let at = self.order.partition_point(|other| *other < place(best));
            self.order.insert(at, place(best));
        }
    }

    /// A tuple of this mask: one there is, or a new one.
    fn open(&mut self, mask: &[u64]) -> u32 {
        let there = |tuple: &Option<Tuple>| tuple.as_ref().is_some_and(|t| *t.mask == *mask);
        if let Some(at) = self.tuples.iter().position(there) {
            return at as u32;
        }
        let at = self.free_tuples.pop().unwrap_or(self.tuples.len() as u32);
        let salt = self.layout.seed() ^ u64::from(at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (mask, priorities) = (mask.into(), Priorities::default());
        let tuple = Some(Tuple { mask, salt, len: 0, priorities });
        match self.tuples.get_mut(at as usize) {
            Some(slot) => *slot = tuple,
            None => self.tuples.push(tuple),
        }
        at
    }

    /// The first tuple, in the order of probing, whose mask is part of a row's.
    fn first_fit(&self, row: u32) -> Option<u32> {
        let line = &self.lines[row as usize * self.span].0;
        let fits = |place: &&Place| {
            let Some(tuple) = self.tuple(place.tuple) else { return false };
            match line.get(..self.words) {
                Some(own) => tuple.mask.iter().zip(own).fold(0, |d, (m, own)| d | m & !own) == 0,
                // A mask of more than a line.
                None => part_of(&tuple.mask, self.mask(row)),
            }
        };
        self.order.iter().find(fits).map(|place| place.tuple)
    }

    /// Finds a tuple for a row that hangs in none.
    fn place(&mut self, row: u32) {
        let Some(at) = self.first_fit(row) else {
            let mask = self.relaxed(row);
            let at = self.open(&mask);
            return self.hang(row, at);
        };
        let Some(tuple) = self.tuple(at) else { return };
        let mut spot = self.spot(row, at, tuple);
        if spot.noted >= self.chain_max {
            spot.noted = self.chain(spot.head).count();
        }
        // A chain that is longer already could not be parted; it is tried again now and then.
        if spot.noted < self.chain_max || !spot.noted.is_multiple_of(self.chain_max) {
            return self.hang_at(row, at, &spot);
        }
        let colliding: Vec<u32> = self.chain(spot.head).chain([row]).collect();
        let Some(mask) = self.parted(&colliding) else { return self.hang_at(row, at, &spot) };
        let to = self.open(&mask);
        for moved in self.rows_of(at) {
            if part_of(&mask, self.mask(moved)) {
                self.unhang(moved);
                self.hang(moved, to);
            }
        }
        let at = if part_of(&mask, self.mask(row)) || self.tuple(at).is_none() { to } else { at };
        self.hang(row, at);
    }

    /// The rows of a tuple: a pass over all, but a tuple that is parted has many of them.
    fn rows_of(&self, at: u32) -> Vec<u32> {
        let of = |(row, aside): (u32, &Aside)| (aside.tuple == at).then_some(row);
        (0..).zip(&self.aside).filter_map(of).collect()
    }

    /// The mask of a tuple that takes some of these rows, which collide, and parts them; none if there
    /// is no such mask.
    fn parted(&self, rows: &[u32]) -> Option<Vec<u64>> {
        let mut common = vec![u64::MAX; self.words];
        for &row in rows {
            common.iter_mut().zip(self.mask(row)).for_each(|(all, mask)| *all &= mask);
        }
        if self.parts(rows, &common) {
            return Some(common);
        }
        // Of the field in which they differ most, the bits that the longer half have in common.
        let fields = self.layout.fields().iter();
        let lens = |field: &crate::rule::Field| -> Vec<u32> {
            let bytes = field.offset..field.offset + field.len;
            rows.iter()
                .map(|&row| bytes.clone().map(|at| self.mask_byte(row, at).count_ones()).sum())
                .collect()
        };
        let spread = |lens: &[u32]| -> Option<(u32, u32)> {
            let (least, most) = (lens.iter().min()?, lens.iter().max()?);
            Some((most - least, (least + most).div_ceil(2)))
        };
        let mut fields: Vec<(u32, u32, Vec<u32>, std::ops::Range<usize>)> = fields
            .filter_map(|field| {
                let lens = lens(field);
                let (spread, middle) = spread(&lens)?;
                let bytes = field.offset..field.offset + field.len;
                (spread > 0).then_some((spread, middle, lens, bytes))
            })
            .collect();
        fields.sort_by_key(|(spread, ..)| Reverse(*spread));
        for (_, middle, lens, bytes) in fields {
            let longer = rows.iter().zip(&lens).filter(|&(_, &len)| len >= middle);
            let mut mask = common.clone();
            for at in bytes {
                let byte =
                    longer.clone().fold(0xff, |all, (&row, _)| all & self.mask_byte(row, at));
                mask[at / 8] |= u64::from(byte) << (at % 8 * 8);
            }
            if self.parts(rows, &mask) {
                return Some(mask);
            }
        }
        None
    }

    fn mask_byte(&self, row: u32, at: usize) -> u8 {
        (self.word(row, at / 8) >> (at % 8 * 8)) as u8
    }

    /// Whether no chain of a tuple of this mask, nor what it leaves, would be as long as all these rows.
    fn parts(&self, rows: &[u32], mask: &[u64]) -> bool {
        let mut lengths: HashMap<Option<Vec<u64>>, usize> = HashMap::new();
        for &row in rows {
            let fits = part_of(mask, self.mask(row));
            *lengths.entry(fits.then(|| self.masked(row, mask))).or_insert(0) += 1;
        }
        lengths.values().all(|&len| len < rows.len())
    }

    /// The mask of a new tuple for a row: with slack, and without the lesser address.
    fn relaxed(&self, row: u32) -> Vec<u64> {
        let mut mask: Vec<u8> = self.mask(row).flat_map(u64::to_le_bytes).collect();
        let fields = self.layout.fields();
        let is_address = |at: usize| fields[at].len >= 4 && self.prefixed[at];
        let addresses: Vec<usize> = (0..fields.len()).filter(|&at| is_address(at)).collect();
        // Ports belong to addresses if there is one for each, in the same order.
        let behind = addresses.last().map_or(0, |&last| last + 1);
        let ports: Vec<usize> = (behind..fields.len()).filter(|&at| fields[at].len == 2).collect();
        let ports = if ports.len() == addresses.len() { ports } else { Vec::new() };
        let span = |at: usize| fields[at].offset..fields[at].offset + fields[at].len;
        // In parts of 32 of the field.
        let unit = |at: usize| fields[at].len as u32 / 4;
        let lens: Vec<Option<u32>> =
            addresses.iter().map(|&at| prefix_len(&mask[span(at)])).collect();
        let of_32 = |(len, &at): (&Option<u32>, &usize)| len.map(|len| len / unit(at));
        let most = lens.iter().zip(&addresses).filter_map(of_32).max().unwrap_or(0);
        for (n, (&len, &at)) in lens.iter().zip(&addresses).enumerate() {
            let Some(len) = len else { continue };
            let parts = len / unit(at);
            let kept = if most - parts > CLOSE_BITS {
                if let Some(&port) = ports.get(n) {
                    mask[span(port)].fill(0);
                }
                0
            } else {
                // Of a whole address four bits, of one longer than 24 of 32 bits three, and so on.
                let slack = if parts == 32 { 4 } else { parts.saturating_sub(1) / 8 };
                len - unit(at) * slack
            };
            for (byte, at) in mask[span(at)].iter_mut().zip(0u32..) {
                let ones = kept.saturating_sub(8 * at).min(8);
                *byte = !(0xff_u16 >> ones) as u8;
            }
        }
        let (words, _) = mask.as_chunks::<8>();
        words.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
    }

    /// Notes in which fields a rule has a prefix.
    fn note_prefixes(&mut self, rule: &Rule) {
        for (field, prefixed) in self.layout.fields().iter().zip(&mut self.prefixed) {
            if !*prefixed && field.len >= 4 {
                let len = prefix_len(&rule.mask[field.offset..field.offset + field.len]);
                *prefixed = len.is_some_and(|len| len > 0 && len < 8 * field.len as u32);
            }
        }
    }
}

/// Whether all bits of one mask are in the other.
fn part_of(part: &[u64], mut whole: impl Iterator<Item = u64>) -> bool {
    part.iter().all(|bits| whole.next().is_some_and(|all| bits & !all == 0))
}

/// The hash of so many words.
#[inline]
fn hash_of(salt: u64, words: usize, word: impl Fn(usize) -> u64) -> u64 {
    let mut sum = salt;
    let mut from = 0;
    while from < words {
        let mut part = [0; 8];
        let len = (words - from).min(8);
        part[..len].iter_mut().zip(from..).for_each(|(to, at)| *to = word(at));
        sum = hash(sum, &part[..len]);
        from += 8;
    }
    sum
}

/// A range of up to two bytes in a word; none if it is wider or too far off.
fn pack(range: &Range) -> Option<u64> {
    let offset = u16::try_from(range.offset).ok()?;
    let (lo, hi) = (u16::try_from(range.lo).ok()?, u16::try_from(range.hi).ok()?);
    let len = u64::from(range.len);
    (len <= 2).then(|| u64::from(lo) | u64::from(hi) << 16 | u64::from(offset) << 32 | len << 48)
}

/// The range in a word, if there is one.
fn unpack(word: u64) -> Option<Range> {
    let len = (word >> 48) as u8;
    let (lo, hi) = (u128::from(word as u16), u128::from((word >> 16) as u16));
    (len != 0).then(|| Range { offset: u32::from((word >> 32) as u16), len, lo, hi })
}

impl Structure for TupleMerge {
    fn kind(&self) -> Kind {
        Kind::TupleMerge
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        if let Some(&row) = self.free.last() {
            self.prefetch(row);
        }
        let rule = admit(&self.layout, rule, self.ids.get(rule.id).is_some())?;
        self.note_prefixes(&rule);
        let row = self.write(&rule);
        self.place(row);
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let row = self.ids.get(id)?;
        self.prefetch(row);
        // What comes before and behind is far off and asked for first.
        self.unhang(row);
        let rule = self.read(row);
        self.ids.remove(id);
        if !rule.ranges.is_empty() {
            self.ranged -= 1;
            self.apart.remove(&row);
        }
        self.free.push(row);
        Some(rule)
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        let Some(row) = self.ids.get(id) else { return false };
        self.set_word(row, 2 * self.words + 1, u64::from(action) << 32 | u64::from(id));
        true
    }

    fn touch(&self, id: u32) {
        if let Some(row) = self.ids.get(id) {
            self.prefetch(row);
        }
    }

    /// Asks tuples until none left can win.
    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(&self.layout, key);
        match self.words {
            1 => self.search_one::<1>(key),
            2 => self.search_one::<2>(key),
            3 => self.search_one::<3>(key),
            4 => self.search_one::<4>(key),
            5 => self.search_one::<5>(key),
            _ => self.search_wide(key),
        }
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        assert_burst(&self.layout, keys, stride, hits.len());
        for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
            let keys = &keys[part * PHASE * stride..];
            match self.words {
                1 => self.search::<1>(keys, stride, hits),
                2 => self.search::<2>(keys, stride, hits),
                3 => self.search::<3>(keys, stride, hits),
                4 => self.search::<4>(keys, stride, hits),
                5 => self.search::<5>(keys, stride, hits),
                _ => {
                    let keys = keys.chunks_exact(stride);
                    hits.iter_mut().zip(keys).for_each(|(hit, key)| *hit = self.search_wide(key));
                }
            }
        }
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn memory_bytes(&self) -> usize {
        let tuples = self.tuples.iter().flatten();
        self.lines.capacity() * size_of::<Line>()
            + self.aside.capacity() * size_of::<Aside>()
            + self.free.capacity() * 4
            + self.ids.memory_bytes()
            + self.apart.allocation_size()
            + self.apart.values().map(|ranges| size_of_val(&**ranges)).sum::<usize>()
            + self.tuples.capacity() * size_of::<Option<Tuple>>()
            + tuples.map(|t| size_of_val(&*t.mask) + t.priorities.memory_bytes()).sum::<usize>()
            + self.free_tuples.capacity() * 4
            + self.order.capacity() * size_of::<Place>()
            + self.heads.memory_bytes()
            + self.prefixed.capacity()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        Box::new(self.rows().map(|row| self.read(row)))
    }

    fn probes(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Probes> {
        let mut probes = Probes::default();
        keys.for_each(|key| self.count(|at| load(key, 8 * at), &mut probes));
        Some(probes)
    }

    fn explain(&self) -> Explain {
        let masks: hashbrown::HashSet<Vec<u64>> =
            self.rows().map(|row| self.mask(row).collect()).collect();
        Explain {
            kind: Kind::TupleMerge,
            entries: self.len(),
            masks: masks.len(),
            probes_max: self.order.len(),
            ranged: self.ranged,
            memory_bytes: self.memory_bytes(),
        }
    }
}
