//! Where rules lie: rows of words, found by number and by id.
//!
//! A row is priority and id, `seq`, link and action, then the rule's value as seen through the
//! windows of its group's mask: 32 bytes for a key of one word. What few rules have, a successor of
//! the same value and ranges, lies apart, and the link names it. Rows are handed out in chunks that
//! belong to one group, so nothing moves when a table grows.
//!
//! Ids are found side by side, or, far off ones, through pages of sixteen.
//!
//! Invariants: a row number stays while its rule does; numbers of free rows are reused.
//! Cost: a row of any number is two loads away; an id, one load, or one hash lookup.
//! Checked by: `tests/model.rs`.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::hit::Hit;
use crate::mask::{self, Window};
use crate::rule::{Range, Rule};
use crate::simd;

/// No row, no link.
pub(crate) const NONE: u32 = u32::MAX;
/// In the place of a row's link: the row is not in use.
const FREE: u32 = u32::MAX - 1;
/// Words of a row before the value.
const META: usize = 3;
/// Rows of a chunk.
const CHUNK: usize = 16;

/// What decides between two rules that match, and what the winner answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) priority: u32,
    pub(crate) seq: u64,
    pub(crate) hit: Hit,
}

impl Candidate {
    /// Whether this one wins.
    #[inline]
    pub(crate) fn beats(&self, other: &Candidate) -> bool {
        (self.priority, other.seq, other.hit.entry) > (other.priority, self.seq, self.hit.entry)
    }
}

/// Rows that belong to one group.
#[derive(Debug, Clone)]
struct Chunk {
    words: Box<[u64]>,
    group: u32,
}

/// What few rules have.
#[derive(Debug, Clone)]
struct Extra {
    next: u32,
    ranges: Box<[Range]>,
}

/// The row numbers of a chunk.
fn places(chunk: u32) -> std::ops::RangeInclusive<u32> {
    let first = chunk * CHUNK as u32;
    first..=first + (CHUNK as u32 - 1)
}

/// All rows of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    chunks: Vec<Chunk>,
    free_chunks: Vec<u32>,
    extras: Vec<Extra>,
    free_extras: Vec<u32>,
    ranged: usize,
}

/// The rows of one group.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    group: u32,
    width: usize,
    chunks: Vec<u32>,
    free: u32,
}

impl Share {
    /// No rows yet, of `width` value words.
    pub(crate) fn new(group: u32, width: usize) -> Share {
        Share { group, width, chunks: Vec::new(), free: NONE }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * 4
    }
}

impl Rows {
    #[inline]
    fn row(&self, row: u32) -> &[u64] {
        let words = &self.chunks[row as usize / CHUNK].words;
        let stride = words.len() / CHUNK;
        &words[row as usize % CHUNK * stride..][..stride]
    }

    fn row_mut(&mut self, row: u32) -> &mut [u64] {
        let words = &mut self.chunks[row as usize / CHUNK].words;
        let stride = words.len() / CHUNK;
        &mut words[row as usize % CHUNK * stride..][..stride]
    }

    /// Asks for a row's memory.
    #[inline]
    pub(crate) fn prefetch(&self, row: u32) {
        if let [first, ..] = self.row(row) {
            simd::prefetch(first);
        }
    }

    /// What a row decides and answers.
    #[inline]
    pub(crate) fn candidate(&self, row: u32) -> Candidate {
        let row = self.row(row);
        let hit = Hit { entry: row[0] as u32, action: row[2] as u32 };
        Candidate { priority: (row[0] >> 32) as u32, seq: row[1], hit }
    }

    /// What a row answers.
    #[inline]
    pub(crate) fn hit(&self, row: u32) -> Hit {
        let row = self.row(row);
        Hit { entry: row[0] as u32, action: row[2] as u32 }
    }

    /// Its value, through its group's windows.
    #[inline]
    pub(crate) fn value(&self, row: u32) -> &[u64] {
        &self.row(row)[META..]
    }

    /// The group that a row belongs to.
    pub(crate) fn group(&self, row: u32) -> u32 {
        self.chunks[row as usize / CHUNK].group
    }

    #[inline]
    fn link(&self, row: u32) -> u32 {
        (self.row(row)[2] >> 32) as u32
    }

    fn set_link(&mut self, row: u32, link: u32) {
        let word = &mut self.row_mut(row)[2];
        *word = u64::from(link) << 32 | *word & 0xffff_ffff;
    }

    #[inline]
    fn extra(&self, row: u32) -> Option<&Extra> {
        self.extras.get(self.link(row) as usize)
    }

    /// The row behind it on its chain, or [`NONE`].
    #[inline]
    pub(crate) fn next(&self, row: u32) -> u32 {
        self.extra(row).map_or(NONE, |extra| extra.next)
    }

    pub(crate) fn set_next(&mut self, row: u32, next: u32) {
        let link = self.link(row) as usize;
        match self.extras.get_mut(link) {
            Some(extra) => extra.next = next,
            None if next == NONE => {}
            None => self.keep(row, Extra { next, ranges: Box::new([]) }),
        }
    }

    /// The ranges that a key must meet besides.
    #[inline]
    pub(crate) fn ranges(&self, row: u32) -> &[Range] {
        self.extra(row).map_or(&[], |extra| &extra.ranges)
    }

    fn keep(&mut self, row: u32, extra: Extra) {
        let link = match self.free_extras.pop() {
            Some(link) => {
                self.extras[link as usize] = extra;
                link
            }
            None => {
                self.extras.push(extra);
                (self.extras.len() - 1) as u32
            }
        };
        self.set_link(row, link);
    }

    pub(crate) fn set_action(&mut self, row: u32, action: u32) {
        let word = &mut self.row_mut(row)[2];
        *word = *word >> 32 << 32 | u64::from(action);
    }

    /// The distinct byte spans over which there are ranges, as offset and length, ascending.
    pub(crate) fn range_spans(&self) -> Vec<(usize, usize)> {
        let ranges = self.extras.iter().flat_map(|extra| &extra.ranges);
        crate::rule::spans_of(ranges)
    }

    /// Rows that have ranges.
    pub(crate) fn ranged(&self) -> usize {
        self.ranged
    }

    /// Puts a rule into a free row of its group.
    pub(crate) fn insert(&mut self, share: &mut Share, windows: &[Window], rule: &Rule) -> u32 {
        if share.free == NONE {
            self.open_chunk(share);
        }
        let at = share.free;
        let row = self.row_mut(at);
        share.free = row[2] as u32;
        row[0] = u64::from(rule.priority) << 32 | u64::from(rule.id);
        row[1] = rule.seq;
        row[2] = u64::from(NONE) << 32 | u64::from(rule.action);
        for (to, window) in row[META..].iter_mut().zip(windows) {
            *to = mask::word(&rule.value, window);
        }
        if !rule.ranges.is_empty() {
            self.ranged += 1;
            self.keep(at, Extra { next: NONE, ranges: rule.ranges.clone() });
        }
        at
    }

    fn open_chunk(&mut self, share: &mut Share) {
        let stride = META + share.width;
        let chunk = Chunk { words: vec![0; CHUNK * stride].into_boxed_slice(), group: share.group };
        let at = match self.free_chunks.pop() {
            Some(at) => {
                self.chunks[at as usize] = chunk;
                at
            }
            None => {
                self.chunks.push(chunk);
                (self.chunks.len() - 1) as u32
            }
        };
        share.chunks.push(at);
        for row in places(at).rev() {
            self.row_mut(row)[2] = u64::from(FREE) << 32 | u64::from(share.free);
            share.free = row;
        }
    }

    /// Gives a row back; the ranges it had.
    pub(crate) fn remove(&mut self, share: &mut Share, row: u32) -> Box<[Range]> {
        let link = self.link(row);
        let mut ranges: Box<[Range]> = Box::new([]);
        if let Some(extra) = self.extras.get_mut(link as usize) {
            ranges = std::mem::take(&mut extra.ranges);
            self.free_extras.push(link);
            self.ranged -= usize::from(!ranges.is_empty());
        }
        self.row_mut(row)[2] = u64::from(FREE) << 32 | u64::from(share.free);
        share.free = row;
        ranges
    }

    /// Gives back all that an empty group held.
    pub(crate) fn close(&mut self, share: &Share) {
        for &at in &share.chunks {
            self.chunks[at as usize].words = Box::new([]);
            self.free_chunks.push(at);
        }
    }

    /// The rows in use of one group, in the order of their places.
    pub(crate) fn live<'a>(&'a self, share: &'a Share) -> impl Iterator<Item = u32> + 'a {
        let rows = share.chunks.iter().flat_map(|&at| places(at));
        rows.filter(|&row| self.link(row) != FREE)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>()
            + self.chunks.iter().map(|c| size_of_val(&*c.words)).sum::<usize>()
            + self.free_chunks.capacity() * 4
            + self.extras.capacity() * size_of::<Extra>()
            + self.extras.iter().map(|e| size_of_val(&*e.ranges)).sum::<usize>()
            + self.free_extras.capacity() * 4
    }
}

/// Ids of a page.
const PAGE: u32 = 16;
/// Ids below so many, and below so many for each that is held, lie side by side.
const NEAR_MIN: usize = 1 << 10;
const NEAR_EACH: usize = 4;

/// From ids to rows.
///
/// Callers number their entries from 0 on and use numbers again, so nearly all ids are found in one array, with one
/// look at memory; those far off lie in pages that are found by a hash.
#[derive(Debug, Clone)]
pub(crate) struct Ids {
    near: Vec<u32>,
    pages: HashMap<u32, [u32; PAGE as usize], FixedState>,
    len: usize,
}

impl Ids {
    pub(crate) fn new(seed: u64) -> Ids {
        Ids { near: Vec::new(), pages: HashMap::with_hasher(FixedState::with_seed(seed)), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The row of an id.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<u32> {
        let row = match self.near.get(id as usize) {
            Some(row) => *row,
            None => self.pages.get(&(id / PAGE))?[(id % PAGE) as usize],
        };
        (row != NONE).then_some(row)
    }

    /// Adds an id that is not there yet.
    pub(crate) fn insert(&mut self, id: u32, row: u32) {
        self.len += 1;
        if id as usize >= self.near.len() && (id as usize) < NEAR_MIN.max(NEAR_EACH * self.len) {
            self.widen(id as usize + 1);
        }
        if let Some(slot) = self.near.get_mut(id as usize) {
            *slot = row;
            return;
        }
        let page = self.pages.entry(id / PAGE).or_insert([NONE; PAGE as usize]);
        page[(id % PAGE) as usize] = row;
    }

    /// Lets so many ids, at least, lie side by side.
    fn widen(&mut self, ids: usize) {
        let ids = ids.next_power_of_two().max(2 * PAGE as usize);
        self.near.resize(ids, NONE);
        let near = &mut self.near;
        // The length is a multiple of a page, so pages are either here or there.
        self.pages.retain(|at, page| {
            let from = *at as usize * PAGE as usize;
            let Some(to) = near.get_mut(from..from + PAGE as usize) else { return true };
            to.copy_from_slice(page);
            false
        });
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<u32> {
        let row = match self.near.get_mut(id as usize) {
            Some(slot) => std::mem::replace(slot, NONE),
            None => {
                let page = self.pages.get_mut(&(id / PAGE))?;
                let row = std::mem::replace(&mut page[(id % PAGE) as usize], NONE);
                if page.iter().all(|&row| row == NONE) {
                    self.pages.remove(&(id / PAGE));
                }
                row
            }
        };
        if row == NONE {
            return None;
        }
        self.len -= 1;
        if self.len == 0 {
            // What many ids needed is not kept.
            self.near = Vec::new();
        }
        Some(row)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.near.capacity() * 4 + self.pages.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn ids_near_and_far_are_found() {
        let mut ids = Ids::new(3);
        let mut held = BTreeMap::new();
        let mut state = 7u64;
        for step in 0..60_000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let draw = (state >> 33) as u32;
            // Side by side, some way off, anywhere, and the last ones there are.
            let id = match step / 3 % 4 {
                0 => draw % 500,
                1 => draw % 9000,
                2 => draw.wrapping_mul(40_503),
                _ => u32::MAX - 1 - draw % 20,
            };
            if held.contains_key(&id) || step % 20_000 > 15_000 {
                assert_eq!(ids.remove(id), held.remove(&id));
            } else {
                ids.insert(id, step);
                held.insert(id, step);
            }
            assert_eq!((ids.get(id), ids.len()), (held.get(&id).copied(), held.len()));
        }
        for (id, row) in std::mem::take(&mut held) {
            assert_eq!(ids.get(id), Some(row));
            assert_eq!((ids.remove(id), ids.remove(id)), (Some(row), None));
        }
        assert_eq!((ids.len(), ids.pages.len(), ids.near.len()), (0, 0, 0));
    }
}
