//! The rules that share one mask, and the hash that finds them.
//!
//! Rules with the same value (different priorities, or ranges) form a chain, best first; the index
//! knows the chain's head. Its payload is what the structure above wants to read there: the head's
//! answer, or its priority and row.
//!
//! Invariants: every row of the group is on exactly one chain; chains are sorted by precedence; the
//! index holds the heads; `priorities` counts the rows by priority.
//! Cost: a probe is one bucket; an update the same plus its chain's length before it, which is 1
//! unless rules differ in nothing but priority or ranges.
//! Checked by: `tests/model.rs`.

use std::collections::BTreeMap;

use crate::buckets::{Buckets, EMPTY};
use crate::hit::pack;
use crate::mask::{self, Window};
use crate::rows::{Candidate, Ids, NONE, Rows, Share};
use crate::rule::Rule;
use crate::simd::UNROLLED_MAX;

/// What the buckets of all groups of a table answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// The [`Hit`]: nothing more to read. For tables in which a value's best rule wins.
    Hit,
    /// Priority and row: what wins is decided between groups.
    Row,
}

/// Rows, ids, and what payloads mean: what all groups of a table share.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) rows: Rows,
    pub(crate) ids: Ids,
    pub(crate) payload: Payload,
}

impl Store {
    /// The payload that names a row.
    fn payload_of(&self, row: u32) -> u64 {
        match self.payload {
            Payload::Hit => pack(self.rows.hit(row)),
            Payload::Row => u64::from(self.rows.candidate(row).priority) << 32 | u64::from(row),
        }
    }

    /// The row that a payload names.
    fn row_of(&self, payload: u64) -> u32 {
        match self.payload {
            Payload::Hit => self.ids.get(payload as u32).expect("a payload names a live rule"),
            Payload::Row => payload as u32,
        }
    }
}

/// All rules of one mask.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    mask: Box<[u8]>,
    windows: Box<[Window]>,
    /// The seed and the first two windows, to be compared with another group's.
    sight: [u64; 4],
    index: Buckets,
    share: Share,
    live: usize,
    /// Rules with ranges.
    ranged: usize,
    priorities: BTreeMap<u32, u32>,
}

impl Group {
    pub(crate) fn new(at: u32, mask: &[u8], seed: u64) -> Group {
        let mut windows = mask::windows(mask);
        if windows.is_empty() {
            // A mask without bits still makes a key of one word, which is zero.
            windows = Box::new([Window { offset: 0, mask: 0 }]);
        }
        Group {
            mask: mask.into(),
            sight: {
                let (one, two) = (windows[0], windows[1.min(windows.len() - 1)]);
                [seed, one.mask, two.mask, u64::from(one.offset) << 32 | u64::from(two.offset)]
            },
            index: Buckets::new(windows.len(), seed),
            share: Share::new(at, windows.len()),
            windows,
            live: 0,
            ranged: 0,
            priorities: BTreeMap::new(),
        }
    }

    pub(crate) fn mask(&self) -> &[u8] {
        &self.mask
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Rules with ranges.
    #[inline]
    pub(crate) fn ranged(&self) -> usize {
        self.ranged
    }

    /// Lowest and highest priority; `None` when empty.
    pub(crate) fn priorities(&self) -> Option<(u32, u32)> {
        let (&low, _) = self.priorities.first_key_value()?;
        let (&high, _) = self.priorities.last_key_value()?;
        Some((low, high))
    }

    /// How a key is seen; at least one window.
    #[inline]
    pub(crate) fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Whether every key has the same words and hash in this group and in another.
    #[inline(always)]
    pub(crate) fn sees_as(&self, other: &Group) -> bool {
        let same = self.sight == other.sight;
        same && (self.windows.len() <= 2 || self.windows == other.windows)
    }

    /// Payloads of the chains' heads by value.
    #[inline]
    pub(crate) fn index(&self) -> &Buckets {
        &self.index
    }

    /// The payload under a key, or [`EMPTY`].
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> u64 {
        fn go<const W: usize>(group: &Group, key: &[u8]) -> u64 {
            let Some(windows) = group.windows.first_chunk::<W>() else { return EMPTY };
            let words = mask::gather(windows, key);
            group.index.find(group.index.home(&words), &words)
        }
        const { assert!(UNROLLED_MAX == 7) };
        match self.windows.len() {
            1 => go::<1>(self, key),
            2 => go::<2>(self, key),
            3 => go::<3>(self, key),
            4 => go::<4>(self, key),
            5 => go::<5>(self, key),
            6 => go::<6>(self, key),
            7 => go::<7>(self, key),
            _ => {
                let home = self.index.home_wide(&self.windows, key);
                self.index.find_wide(home, &self.windows, key)
            }
        }
    }

    /// The best rule of this group that matches, ranges and all.
    pub(crate) fn lookup(&self, key: &[u8], store: &Store) -> Option<Candidate> {
        let found = self.find(key);
        if found == EMPTY {
            return None;
        }
        let row = meeting(&store.rows, store.row_of(found), key);
        (row != NONE).then(|| store.rows.candidate(row))
    }

    /// Adds a rule whose mask is this group's and whose id is new.
    pub(crate) fn insert(&mut self, rule: &Rule, store: &mut Store) {
        let row = store.rows.insert(&mut self.share, &self.windows, rule);
        store.ids.insert(rule.id, row);
        self.live += 1;
        self.ranged += usize::from(!rule.ranges.is_empty());
        *self.priorities.entry(rule.priority).or_insert(0) += 1;

        let payload = store.payload_of(row);
        let Some(found) = self.index.get(store.rows.value(row)) else {
            self.index.insert(store.rows.value(row), payload);
            return;
        };
        let head = store.row_of(found);
        let rows = &mut store.rows;
        let new = rows.candidate(row);
        if new.beats(&rows.candidate(head)) {
            rows.set_next(row, head);
            self.index.set(rows.value(row), payload);
            return;
        }
        let mut before = head;
        while rows.next(before) != NONE && !new.beats(&rows.candidate(rows.next(before))) {
            before = rows.next(before);
        }
        rows.set_next(row, rows.next(before));
        rows.set_next(before, row);
    }

    /// Takes a row of this group out, and its id.
    pub(crate) fn remove(&mut self, row: u32, store: &mut Store) -> Rule {
        let mut rule = self.rule(row, &store.rows);
        let words = store.rows.value(row);
        let found = self.index.get(words).expect("a row is on a chain, whose head is indexed");
        let (mut before, next) = (store.row_of(found), store.rows.next(row));
        if before != row {
            while store.rows.next(before) != row {
                before = store.rows.next(before);
            }
            store.rows.set_next(before, next);
        } else if next == NONE {
            self.index.remove(words);
        } else {
            self.index.set(words, store.payload_of(next));
        }
        store.ids.remove(rule.id);
        rule.ranges = store.rows.remove(&mut self.share, row);
        self.live -= 1;
        self.ranged -= usize::from(!rule.ranges.is_empty());
        if let Some(count) = self.priorities.get_mut(&rule.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&rule.priority);
            }
        }
        rule
    }

    /// Gives a row of this group another action.
    pub(crate) fn set_action(&mut self, row: u32, action: u32, store: &mut Store) {
        store.rows.set_action(row, action);
        if store.payload == Payload::Hit {
            let words = store.rows.value(row);
            if self.index.get(words).is_some_and(|found| store.row_of(found) == row) {
                self.index.set(words, store.payload_of(row));
            }
        }
    }

    /// Makes payloads mean this from now on; the store, what they meant before.
    pub(crate) fn repay(&mut self, payload: Payload, store: &mut Store) {
        let heads: Vec<u32> = self.heads(store).collect();
        let before = std::mem::replace(&mut store.payload, payload);
        for row in heads {
            self.index.set(store.rows.value(row), store.payload_of(row));
        }
        store.payload = before;
    }

    /// The heads of all chains, in the order of the buckets.
    pub(crate) fn heads<'a>(&'a self, store: &'a Store) -> impl Iterator<Item = u32> + 'a {
        self.index.payloads().map(|payload| store.row_of(payload))
    }

    /// The rule in a row of this group.
    pub(crate) fn rule(&self, row: u32, rows: &Rows) -> Rule {
        let Candidate { priority, seq, hit } = rows.candidate(row);
        let mut rule = Rule::new(hit.entry, priority, seq, &self.mask, &self.mask);
        rule.action = hit.action;
        rule.value.fill(0);
        mask::unload(&self.windows, rows.value(row), &mut rule.value);
        rule.ranges = rows.ranges(row).into();
        rule
    }

    /// All rules, in the order of their rows.
    pub(crate) fn iter<'a>(&'a self, rows: &'a Rows) -> impl Iterator<Item = Rule> + 'a {
        rows.live(&self.share).map(|row| self.rule(row, rows))
    }

    /// Gives back what an empty group held.
    pub(crate) fn close(self, rows: &mut Rows) {
        rows.close(&self.share);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.mask.len()
            + size_of_val(&*self.windows)
            + self.index.memory_bytes()
            + self.share.memory_bytes()
            + self.priorities.len() * 14
    }
}

/// The first row of a chain whose ranges a key meets, or [`NONE`].
#[inline]
pub(crate) fn meeting(rows: &Rows, head: u32, key: &[u8]) -> u32 {
    let mut row = head;
    while row != NONE && !rows.ranges(row).iter().all(|range| range.contains(key)) {
        row = rows.next(row);
    }
    row
}
