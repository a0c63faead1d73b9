//! The rules that share one mask, and the hash that finds them.
//!
//! A row is a run of words in one vector: the rule's value seen through the mask's windows, then
//! three words of administration. What a probe compares and what it answers lie side by side.
//! Rules with the same value (different priorities, or ranges) form a chain, best first; the index
//! knows the chain's head.
//!
//! Invariants: every live row is on exactly one chain; chains are sorted by precedence; the index
//! holds the heads; `priorities` counts the live rows by priority.
//! Cost: a probe is one hash, one tag match and one row; an update the same plus its chain's
//! length before it, which is 1 unless rules differ in nothing but priority or ranges.
//! Checked by: `tests/model.rs`.

use std::collections::BTreeMap;

use hashbrown::HashTable;

use crate::mask::{self, Window};
use crate::rule::{Range, Rule};

/// No row, no ranges.
pub(crate) const NONE: u32 = u32::MAX;

/// In the place of a row's ranges: the row is not in use.
const FREE: u32 = u32::MAX - 1;

/// Words of a row behind the value: priority and id, seq, next and ranges.
const EXTRA: usize = 3;

/// Lists of ranges, held apart because few rules have any.
#[derive(Debug, Default)]
pub(crate) struct RangeLists {
    lists: Vec<Box<[Range]>>,
    free: Vec<u32>,
}

impl RangeLists {
    /// Keeps a list; [`NONE`] for an empty one.
    pub(crate) fn keep(&mut self, list: &[Range]) -> u32 {
        if list.is_empty() {
            return NONE;
        }
        if let Some(at) = self.free.pop() {
            self.lists[at as usize] = list.into();
            return at;
        }
        self.lists.push(list.into());
        (self.lists.len() - 1) as u32
    }

    fn take(&mut self, at: u32) -> Box<[Range]> {
        if at == NONE {
            return Box::new([]);
        }
        self.free.push(at);
        std::mem::take(&mut self.lists[at as usize])
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> &[Range] {
        if at == NONE { &[] } else { &self.lists[at as usize] }
    }

    /// Rules that have ranges.
    pub(crate) fn len(&self) -> usize {
        self.lists.len() - self.free.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.lists.capacity() * size_of::<Box<[Range]>>()
            + self.lists.iter().map(|l| size_of_val(&**l)).sum::<usize>()
            + self.free.capacity() * 4
    }
}

/// A match, with what decides between it and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) priority: u32,
    pub(crate) seq: u64,
    pub(crate) id: u32,
}

impl Hit {
    /// Whether this one wins.
    #[inline]
    pub(crate) fn beats(&self, other: &Hit) -> bool {
        (self.priority, other.seq, other.id) > (other.priority, self.seq, self.id)
    }
}

/// Where an insert or a removal left a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The id at its head now; none if the chain is gone.
    pub(crate) head_id: Option<u32>,
    /// The row concerned.
    pub(crate) row: u32,
}

/// All rules of one mask.
#[derive(Debug)]
pub(crate) struct Group {
    mask: Box<[u8]>,
    windows: Box<[Window]>,
    seed: u64,
    rows: Vec<u64>,
    free: u32,
    live: usize,
    heads: HashTable<u32>,
    priorities: BTreeMap<u32, u32>,
}

/// The words of a row.
#[inline]
fn row_of(rows: &[u64], width: usize, row: u32) -> &[u64] {
    let stride = width + EXTRA;
    &rows[row as usize * stride..][..stride]
}

impl Group {
    pub(crate) fn new(mask: &[u8], seed: u64) -> Group {
        Group {
            mask: mask.into(),
            windows: mask::windows(mask),
            seed,
            rows: Vec::new(),
            free: NONE,
            live: 0,
            heads: HashTable::new(),
            priorities: BTreeMap::new(),
        }
    }

    pub(crate) fn mask(&self) -> &[u8] {
        &self.mask
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Lowest and highest priority; `None` when empty.
    pub(crate) fn priorities(&self) -> Option<(u32, u32)> {
        let (&low, _) = self.priorities.first_key_value()?;
        let (&high, _) = self.priorities.last_key_value()?;
        Some((low, high))
    }

    fn width(&self) -> usize {
        self.windows.len()
    }

    #[inline]
    fn row(&self, row: u32) -> &[u64] {
        row_of(&self.rows, self.width(), row)
    }

    fn row_mut(&mut self, row: u32) -> &mut [u64] {
        let stride = self.width() + EXTRA;
        &mut self.rows[row as usize * stride..][..stride]
    }

    #[inline]
    fn hit(&self, row: u32) -> Hit {
        let extra = &self.row(row)[self.width()..];
        Hit { priority: (extra[0] >> 32) as u32, id: extra[0] as u32, seq: extra[1] }
    }

    #[inline]
    fn next(&self, row: u32) -> u32 {
        (self.row(row)[self.width() + 2] >> 32) as u32
    }

    #[inline]
    fn ranges(&self, row: u32) -> u32 {
        self.row(row)[self.width() + 2] as u32
    }

    fn set_next(&mut self, row: u32, next: u32) {
        let at = self.width() + 2;
        let word = &mut self.row_mut(row)[at];
        *word = u64::from(next) << 32 | *word & 0xffff_ffff;
    }

    /// The best rule of this group that matches.
    #[inline]
    pub(crate) fn lookup(&self, key: &[u8], ranges: &RangeLists) -> Option<Hit> {
        self.lookup_hashed(mask::hash_key(self.seed, &self.windows, key), key, ranges)
    }

    /// The hash of a key under this group's mask.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        mask::hash_key(self.seed, &self.windows, key)
    }

    /// As [`Group::lookup`], the hash being known.
    #[inline]
    pub(crate) fn lookup_hashed(&self, hash: u64, key: &[u8], ranges: &RangeLists) -> Option<Hit> {
        let (windows, width) = (&*self.windows, self.width());
        let equal = |&row: &u32| mask::equals(windows, row_of(&self.rows, width, row), key);
        let mut row = *self.heads.find(hash, equal)?;
        loop {
            let list = self.ranges(row);
            if list == NONE || ranges.get(list).iter().all(|range| range.contains(key)) {
                return Some(self.hit(row));
            }
            row = self.next(row);
            if row == NONE {
                return None;
            }
        }
    }

    /// Adds a rule whose mask is this group's and whose id is new.
    pub(crate) fn insert(&mut self, rule: &Rule, ranges: u32) -> Chain {
        let width = self.width();
        let row = self.allocate();
        let mut words = std::mem::take(&mut self.rows);
        let stride = width + EXTRA;
        let target = &mut words[row as usize * stride..][..stride];
        for (to, window) in target.iter_mut().zip(&self.windows) {
            *to = mask::word(&rule.value, window);
        }
        target[width] = u64::from(rule.priority) << 32 | u64::from(rule.id);
        target[width + 1] = rule.seq;
        target[width + 2] = u64::from(NONE) << 32 | u64::from(ranges);
        self.rows = words;
        self.live += 1;
        *self.priorities.entry(rule.priority).or_insert(0) += 1;

        let hash = mask::hash_words(self.seed, &self.row(row)[..width]);
        let Some(head) = self.head(hash, row) else {
            let (rows, seed) = (&self.rows, self.seed);
            self.heads.insert_unique(hash, row, |&r| {
                mask::hash_words(seed, &row_of(rows, width, r)[..width])
            });
            return Chain { head_id: Some(rule.id), row };
        };
        let new = self.hit(row);
        if new.beats(&self.hit(head)) {
            self.set_next(row, head);
            self.replace_head(hash, head, row);
            return Chain { head_id: Some(rule.id), row };
        }
        let mut before = head;
        loop {
            let next = self.next(before);
            if next == NONE || new.beats(&self.hit(next)) {
                self.set_next(row, next);
                self.set_next(before, row);
                return Chain { head_id: Some(self.hit(head).id), row };
            }
            before = next;
        }
    }

    /// Takes a live row out.
    pub(crate) fn remove(&mut self, row: u32, ranges: &mut RangeLists) -> (Rule, Chain) {
        let width = self.width();
        let mut rule = self.rule(row, ranges);
        rule.ranges = ranges.take(self.ranges(row));
        let hash = mask::hash_words(self.seed, &self.row(row)[..width]);
        let next = self.next(row);
        let head = self.head(hash, row).expect("a live row is on a chain");
        let mut head_id = Some(self.hit(head).id);
        if head == row && next == NONE {
            if let Ok(entry) = self.heads.find_entry(hash, |&r| r == row) {
                entry.remove();
            }
            head_id = None;
        } else if head == row {
            self.replace_head(hash, row, next);
            head_id = Some(self.hit(next).id);
        } else {
            let mut before = head;
            while self.next(before) != row {
                before = self.next(before);
            }
            self.set_next(before, next);
        }
        let free = self.free;
        self.row_mut(row)[width + 2] = u64::from(free) << 32 | u64::from(FREE);
        self.free = row;
        self.live -= 1;
        if let Some(count) = self.priorities.get_mut(&rule.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&rule.priority);
            }
        }
        (rule, Chain { head_id, row })
    }

    /// The head of the chain with the same value as `row`.
    fn head(&self, hash: u64, row: u32) -> Option<u32> {
        let width = self.width();
        let words = &self.row(row)[..width];
        self.heads.find(hash, |&r| &row_of(&self.rows, width, r)[..width] == words).copied()
    }

    fn replace_head(&mut self, hash: u64, old: u32, new: u32) {
        if let Some(slot) = self.heads.find_mut(hash, |&r| r == old) {
            *slot = new;
        }
    }

    fn allocate(&mut self) -> u32 {
        let stride = self.width() + EXTRA;
        if self.free != NONE {
            let row = self.free;
            self.free = self.next(row);
            return row;
        }
        let row = self.rows.len() / stride;
        self.rows.resize(self.rows.len() + stride, 0);
        row as u32
    }

    /// The rule in a live row.
    pub(crate) fn rule(&self, row: u32, ranges: &RangeLists) -> Rule {
        let Hit { priority, seq, id } = self.hit(row);
        let mut rule = Rule::new(id, priority, seq, &self.mask, &self.mask);
        rule.value.fill(0);
        mask::unload(&self.windows, self.row(row), &mut rule.value);
        rule.ranges = ranges.get(self.ranges(row)).into();
        rule
    }

    /// The live rows, in the order of their places.
    pub(crate) fn live_rows(&self) -> impl Iterator<Item = u32> + '_ {
        let stride = self.width() + EXTRA;
        (0..(self.rows.len() / stride) as u32).filter(|&row| self.ranges(row) != FREE)
    }

    /// The heads of all chains, in no order, as rows.
    pub(crate) fn heads(&self) -> impl Iterator<Item = u32> + '_ {
        self.heads.iter().copied()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.mask.len()
            + size_of_val(&*self.windows)
            + self.rows.capacity() * 8
            + self.heads.allocation_size()
            + self.priorities.len() * 14
    }
}
