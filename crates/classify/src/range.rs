//! Ranges in one field of up to 64 bits, other fields exact under one mask.
//!
//! The exact part of the key is hashed to a set of intervals; without an exact part there is one
//! set. A set divides the field's values into pieces, each with the rule that wins there already
//! worked out, so that ranges may overlap with any priorities and a lookup is one search by halves.
//! Prefixes and exact values of the field are ranges, too. Where there is an exact part, rules that
//! match everything (an OpenFlow table-miss entry) stand beside it as the catch-all, asked when the
//! sets have no answer.
//!
//! Invariants: every mask but the catch-all's is a prefix on the field and the same elsewhere; all
//! ranges are over the field; the catch-all's priorities are below all others. A set's first piece
//! starts at 0 and neighbouring pieces have different winners.
//! Cost: lookup, a hash probe and log2 of the set's pieces; insert, the pieces that the range
//! covers, and a move of the set's tail; removal, a look at every rule of the set.
//! Checked by: [`linear`](crate::linear), in `tests/model.rs`.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::buckets::{Buckets, EMPTY};
use crate::declined::{Declined, InsertError};
use crate::hit::Hit;
use crate::kind::Kind;
use crate::mask::{self, Window};
use crate::rows::Candidate;
use crate::rule::{Field, Layout, Rule};
use crate::rules::{Rules, assert_burst, assert_key};
use crate::shape::{TableShape, prefix_len};
use crate::simd::{self, PHASE};
use crate::structure::{Explain, Structure};

/// Widest field in bytes.
const FIELD_MAX: usize = 8;

/// Intervals of one field under a hash of the exact part.
#[derive(Debug, Clone)]
pub struct Intervals {
    rules: Rules,
    field: Field,
    exact: Exact,
    /// Which set, by the words of the exact part.
    index: Buckets,
    sets: Vec<Set>,
    free_sets: Vec<u32>,
    /// The group of rules that match everything, where it is not the sets'.
    catch_all: Option<u32>,
    /// The answer where the sets have none.
    otherwise: Hit,
}

/// The mask outside the field.
#[derive(Debug, Clone)]
struct Exact {
    mask: Box<[u8]>,
    /// At least one.
    windows: Box<[Window]>,
}

impl Exact {
    fn of(mask: &[u8], field: Field) -> Exact {
        let mask = outside(mask, field);
        let mut windows = mask::windows(&mask);
        if windows.is_empty() {
            windows = Box::new([Window { offset: 0, mask: 0 }]);
        }
        Exact { windows, mask }
    }

    fn words(&self, value: &[u8]) -> Vec<u64> {
        self.windows.iter().map(|w| mask::word(value, w)).collect()
    }
}

/// A mask with the field's bytes cleared.
fn outside(mask: &[u8], field: Field) -> Box<[u8]> {
    let mut mask: Box<[u8]> = mask.into();
    mask[field.offset..field.offset + field.len].fill(0);
    mask
}

fn is_zero(mask: &[u8]) -> bool {
    mask.iter().all(|&byte| byte == 0)
}

/// Whether intervals can hold such a table; the index of their field if so.
///
/// The field is the one with ranges. Where none has, it is the one whose masks differ, else the
/// last of at most 64 bits.
pub fn fits(shape: &TableShape) -> Result<usize, Declined> {
    let fields = shape.layout.fields();
    let at = match shape.ranges[..] {
        [] => {
            let able = |f: &Field| f.len <= FIELD_MAX && f.len > 0;
            let differ = |f: &Field| {
                let part = |m: &[u8]| m[f.offset..f.offset + f.len].to_vec();
                let mut masks = shape.masks.iter().filter(|m| !is_zero(&m.mask));
                let first = masks.next().map(|m| part(&m.mask));
                masks.any(|m| Some(part(&m.mask)) != first)
            };
            let differing = fields.iter().rposition(|f| able(f) && differ(f));
            differing.or_else(|| fields.iter().rposition(able)).ok_or(Declined::NoRangeField)?
        }
        [(offset, len)] => {
            let found = fields.iter().position(|f| (f.offset, f.len) == (offset, len));
            found.ok_or(Declined::RangeFields { fields: 1 })?
        }
        _ => return Err(Declined::RangeFields { fields: shape.ranges.len() }),
    };
    let field = fields[at];
    if field.len > FIELD_MAX {
        return Err(Declined::RangeWide { bits: field.len as u32 * 8 });
    }
    // A mask with bits outside is never the catch-all's, so it tells the exact part of them all.
    let outsides: Vec<Box<[u8]>> = shape.masks.iter().map(|m| outside(&m.mask, field)).collect();
    let exact = outsides.iter().find(|m| !is_zero(m));
    let (mut high, mut low) = (None, None);
    for (shape, outside) in shape.masks.iter().zip(&outsides) {
        if exact.is_some() && is_zero(&shape.mask) && shape.ranged == 0 {
            high = Some(shape.priority_max);
            continue;
        }
        if exact.is_some_and(|exact| exact != outside) {
            return Err(Declined::RangeExactPart);
        }
        if prefix_len(&shape.mask[field.offset..field.offset + field.len]).is_none() {
            return Err(Declined::Ternary { fields: 1 });
        }
        low = Some(low.unwrap_or(u32::MAX).min(shape.priority_min));
    }
    beside(high, low).map(|()| at)
}

/// Whether a catch-all of priority `high` ranks below rules of priority `low` and up.
fn beside(high: Option<u32>, low: Option<u32>) -> Result<(), Declined> {
    match (high, low) {
        (Some(priority), Some(not_below)) if priority >= not_below => {
            Err(Declined::CatchAllOver { priority, not_below })
        }
        _ => Ok(()),
    }
}

/// A rule as a set sees it: the values it holds for, both ends included.
#[derive(Debug, Clone, Copy)]
struct Member {
    lo: u64,
    hi: u64,
    id: u32,
}

/// The rules with one exact part.
#[derive(Debug, Clone)]
struct Set {
    /// Where each piece starts; the first at 0.
    starts: Vec<u64>,
    /// Who wins there.
    winners: Vec<Hit>,
    members: Vec<Member>,
}

/// The piece that holds a value; `starts` is not empty and begins with 0.
#[inline(always)]
fn piece(starts: &[u64], value: u64) -> usize {
    let (mut at, mut len) = (0, starts.len());
    while len > 1 {
        let half = len / 2;
        at = if starts[at + half] <= value { at + half } else { at };
        len -= half;
    }
    at
}

impl Set {
    fn new() -> Set {
        Set { starts: vec![0], winners: vec![Hit::MISS], members: Vec::new() }
    }

    #[inline]
    fn lookup(&self, value: u64) -> Hit {
        self.winners[piece(&self.starts, value)]
    }

    /// Works out all pieces from the members.
    fn build(&mut self, rules: &Rules) {
        struct Ranked {
            candidate: Candidate,
            hi: u64,
        }
        impl PartialEq for Ranked {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }
        impl Eq for Ranked {}
        impl PartialOrd for Ranked {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for Ranked {
            fn cmp(&self, other: &Self) -> Ordering {
                let (a, b) = (&self.candidate, &other.candidate);
                let by = |c: &Candidate, d: &Candidate| (c.priority, d.seq, d.hit.entry);
                by(a, b).cmp(&by(b, a))
            }
        }

        let mut members = self.members.clone();
        members.sort_unstable_by_key(|m| (m.lo, m.id));
        let mut bounds: Vec<u64> = vec![0];
        bounds.extend(members.iter().map(|m| m.lo));
        bounds.extend(members.iter().filter_map(|m| m.hi.checked_add(1)));
        bounds.sort_unstable();
        bounds.dedup();
        let mut heap = BinaryHeap::new();
        let mut coming = members.iter().peekable();
        (self.starts, self.winners) = (Vec::new(), Vec::new());
        for start in bounds {
            while let Some(member) = coming.next_if(|m| m.lo == start) {
                if let Some(candidate) = rules.candidate_of(member.id) {
                    heap.push(Ranked { candidate, hi: member.hi });
                }
            }
            while heap.peek().is_some_and(|top| top.hi < start) {
                heap.pop();
            }
            let winner = heap.peek().map_or(Hit::MISS, |top| top.candidate.hit);
            self.push(start, winner);
        }
    }

    /// Adds a piece behind the last, unless the last goes on.
    fn push(&mut self, start: u64, winner: Hit) {
        if self.winners.last().is_none_or(|last| last.entry != winner.entry) {
            self.starts.push(start);
            self.winners.push(winner);
        }
    }

    /// Lets a rule have all pieces from `lo` to `hi` in which it beats the winner.
    fn paint(&mut self, lo: u64, hi: u64, new: &Candidate, rules: &Rules) {
        // With a neighbour on either side, so that equal ones join.
        let first = piece(&self.starts, lo).saturating_sub(1);
        let last = (piece(&self.starts, hi) + 1).min(self.starts.len() - 1);
        let mut made = Set { starts: Vec::new(), winners: Vec::new(), members: Vec::new() };
        for at in first..=last {
            let (start, winner) = (self.starts[at], self.winners[at]);
            let end = self.starts.get(at + 1).map_or(u64::MAX, |next| next - 1);
            let loses = || rules.candidate_of(winner.entry).is_none_or(|old| new.beats(&old));
            if end < lo || start > hi || !loses() {
                made.push(start, winner);
                continue;
            }
            if start < lo {
                made.push(start, winner);
            }
            made.push(start.max(lo), new.hit);
            if end > hi {
                made.push(hi + 1, winner);
            }
        }
        self.starts.splice(first..=last, made.starts);
        self.winners.splice(first..=last, made.winners);
    }

    /// Forgets a rule that held for `lo` to `hi`.
    fn remove(&mut self, gone: &Member, rules: &Rules) {
        self.members.retain(|m| m.id != gone.id);
        let (first, last) = (piece(&self.starts, gone.lo), piece(&self.starts, gone.hi));
        let mut won = false;
        for winner in &mut self.winners[first..=last] {
            if winner.entry == gone.id {
                (*winner, won) = (Hit::MISS, true);
            }
        }
        if !won {
            return;
        }
        for m in std::mem::take(&mut self.members) {
            if m.lo <= gone.hi
                && m.hi >= gone.lo
                && let Some(candidate) = rules.candidate_of(m.id)
            {
                self.paint(m.lo.max(gone.lo), m.hi.min(gone.hi), &candidate, rules);
            }
            self.members.push(m);
        }
        let (starts, winners) =
            (std::mem::take(&mut self.starts), std::mem::take(&mut self.winners));
        starts.into_iter().zip(winners).for_each(|(start, winner)| self.push(start, winner));
    }

    fn memory_bytes(&self) -> usize {
        self.starts.capacity() * 8
            + self.winners.capacity() * size_of::<Hit>()
            + self.members.capacity() * size_of::<Member>()
    }
}

impl Intervals {
    /// An empty one, with the index of the field that has ranges.
    ///
    /// Declines a field that the layout has not, or that is wider than 64 bits.
    pub fn new(layout: Layout, field: usize) -> Result<Intervals, Declined> {
        match layout.fields().get(field) {
            Some(found) if found.len > FIELD_MAX => {
                Err(Declined::RangeWide { bits: found.len as u32 * 8 })
            }
            Some(found) if found.len > 0 => Ok(Self::from_rules(Rules::new(layout), field)),
            _ => Err(Declined::NoRangeField),
        }
    }

    /// Takes over a store that [`fits`] with that field; costs a sort of its rules.
    pub(crate) fn from_rules(rules: Rules, field: usize) -> Intervals {
        let field = rules.layout().fields()[field];
        let none = vec![0; rules.layout().key_len()];
        let telling = |mask: &&[u8]| !is_zero(&outside(mask, field));
        let mask: Option<Box<[u8]>> =
            rules.groups().map(|(_, g)| g.mask()).find(telling).map(|mask| mask.into());
        let exact = Exact::of(mask.as_deref().unwrap_or(&none), field);
        let mut new = Intervals {
            index: Buckets::new(exact.windows.len(), rules.layout().seed()),
            rules: Rules::new(rules.layout().clone()),
            field,
            exact,
            sets: Vec::new(),
            free_sets: Vec::new(),
            catch_all: None,
            otherwise: Hit::MISS,
        };
        for (at, group) in rules.groups() {
            if new.is_catch_all(group.mask(), group.ranged() > 0) {
                new.catch_all = Some(at);
                continue;
            }
            for rule in group.iter(&rules.store().rows) {
                if let Some(member) = new.member(&rule) {
                    let set = new.set_for(&rule);
                    new.sets[set].members.push(member);
                }
            }
        }
        new.rules = rules;
        for set in &mut new.sets {
            set.build(&new.rules);
        }
        new.set_otherwise();
        new
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn into_rules(self) -> Rules {
        self.rules
    }

    /// Whether a mask is that of rules beside the sets.
    fn is_catch_all(&self, mask: &[u8], ranged: bool) -> bool {
        !ranged && is_zero(mask) && !is_zero(&self.exact.mask)
    }

    fn set_otherwise(&mut self) {
        let found = self.catch_all.and_then(|at| self.rules.lookup_in(at, &[]));
        self.otherwise = found.map_or(Hit::MISS, |found| found.hit);
    }

    /// The values for which a normalised rule holds; none if its range is at odds with its mask.
    fn member(&self, rule: &Rule) -> Option<Member> {
        let span = self.field.offset..self.field.offset + self.field.len;
        let number = |bytes: &[u8]| bytes.iter().fold(0u64, |n, &b| n << 8 | u64::from(b));
        let top = u64::MAX >> (64 - 8 * self.field.len as u32);
        let lo = number(&rule.value[span.clone()]);
        let mut member = Member { lo, hi: lo | top & !number(&rule.mask[span]), id: rule.id };
        for range in &rule.ranges {
            // Sound ranges over this field fit.
            member.lo = member.lo.max(range.lo as u64);
            member.hi = member.hi.min(range.hi as u64);
        }
        (member.lo <= member.hi).then_some(member)
    }

    /// The set of a rule's exact part, made if there is none.
    fn set_for(&mut self, rule: &Rule) -> usize {
        let words = self.exact.words(&rule.value);
        if let Some(set) = self.index.get(&words) {
            return set as usize;
        }
        let set = match self.free_sets.pop() {
            Some(set) => set,
            None => {
                self.sets.push(Set::new());
                (self.sets.len() - 1) as u32
            }
        };
        self.index.insert(&words, u64::from(set));
        set as usize
    }

    /// Rules that are not the catch-all's.
    fn in_sets(&self) -> usize {
        let beside = self.catch_all.and_then(|at| self.rules.group(at));
        self.rules.len() - beside.map_or(0, |group| group.len())
    }

    /// The lowest priority of the rules in the sets.
    fn lowest(&self) -> Option<u32> {
        let groups = self.rules.groups().filter(|(at, _)| Some(*at) != self.catch_all);
        groups.filter_map(|(_, g)| g.priorities()).map(|span| span.0).min()
    }

    fn highest_beside(&self) -> Option<u32> {
        Some(self.rules.group(self.catch_all?)?.priorities()?.1)
    }

    /// Whether a rule fits in the sets.
    fn fits_in(&self, rule: &Rule) -> Result<(), Declined> {
        let span = (self.field.offset, self.field.len);
        if rule.ranges.iter().any(|r| (r.offset as usize, usize::from(r.len)) != span) {
            return Err(Declined::RangeFields { fields: 2 });
        }
        if prefix_len(&rule.mask[span.0..span.0 + span.1]).is_none() {
            return Err(Declined::Ternary { fields: 1 });
        }
        if self.exact.mask != outside(&rule.mask, self.field) {
            return Err(Declined::RangeExactPart);
        }
        beside(self.highest_beside(), Some(rule.priority))
    }

    #[inline(always)]
    fn find(&self, key: &[u8]) -> u64 {
        fn go<const W: usize>(my: &Intervals, key: &[u8]) -> u64 {
            let Some(windows) = my.exact.windows.first_chunk::<W>() else { return EMPTY };
            let words = mask::gather(windows, key);
            my.index.find(my.index.home(&words), &words)
        }
        match self.exact.windows.len() {
            1 => go::<1>(self, key),
            2 => go::<2>(self, key),
            _ => {
                let home = self.index.home_wide(&self.exact.windows, key);
                self.index.find_wide(home, &self.exact.windows, key)
            }
        }
    }

    /// Where the field's value is in a key: eight bytes, and how far they are shifted.
    fn place(&self) -> Place {
        let at = self.field.offset.min(self.layout().stride() - 8);
        let behind = 8 - (self.field.offset - at) - self.field.len;
        Place {
            offset: at,
            shift: 8 * behind as u32,
            top: u64::MAX >> (64 - 8 * self.field.len as u32),
        }
    }
}

/// How to read a field of up to eight bytes with one load.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: usize,
    shift: u32,
    top: u64,
}

impl Place {
    #[inline(always)]
    fn value(&self, key: &[u8]) -> u64 {
        mask::load(key, self.offset).swap_bytes() >> self.shift & self.top
    }
}

impl Structure for Intervals {
    fn kind(&self) -> Kind {
        Kind::Range
    }

    fn layout(&self) -> &Layout {
        self.rules.layout()
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        let rule = self.rules.admit(rule)?;
        if self.in_sets() == 0
            && (self.rules.len() == 0 || !is_zero(&outside(&rule.mask, self.field)))
        {
            // The first in the sets tells the exact part.
            self.exact = Exact::of(&rule.mask, self.field);
            self.index = Buckets::new(self.exact.windows.len(), self.layout().seed());
        }
        if self.is_catch_all(&rule.mask, !rule.ranges.is_empty()) {
            beside(Some(rule.priority), self.lowest()).map_err(InsertError::Declined)?;
            self.catch_all = Some(self.rules.insert(&rule));
            self.set_otherwise();
            return Ok(());
        }
        self.fits_in(&rule).map_err(InsertError::Declined)?;
        self.rules.insert(&rule);
        if let (Some(member), Some(candidate)) =
            (self.member(&rule), self.rules.candidate_of(rule.id))
        {
            let set = self.set_for(&rule);
            self.sets[set].members.push(member);
            self.sets[set].paint(member.lo, member.hi, &candidate, &self.rules);
        }
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let (rule, group) = self.rules.remove(id)?;
        if self.catch_all == Some(group) {
            self.catch_all = self.catch_all.filter(|&at| self.rules.group(at).is_some());
            self.set_otherwise();
            return Some(rule);
        }
        if let Some(member) = self.member(&rule) {
            let at = self.set_for(&rule);
            self.sets[at].remove(&member, &self.rules);
            if self.sets[at].members.is_empty() {
                self.sets[at] = Set::new();
                self.free_sets.push(at as u32);
                self.index.remove(&self.exact.words(&rule.value));
            }
        }
        Some(rule)
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        if !self.rules.set_action(id, action) {
            return false;
        }
        self.set_otherwise();
        if let Some(rule) = self.rules.rule_of(id)
            && self.rules.group_of(id) != self.catch_all
            && let Some(member) = self.member(&rule)
        {
            let at = self.set_for(&rule);
            let set = &mut self.sets[at];
            let (first, last) = (piece(&set.starts, member.lo), piece(&set.starts, member.hi));
            for winner in set.winners[first..=last].iter_mut().filter(|w| w.entry == id) {
                winner.action = action;
            }
        }
        true
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(self.layout(), key);
        let found = match self.find(key) {
            EMPTY => Hit::MISS,
            set => self.sets[set as usize].lookup(self.place().value(key)),
        };
        if found.is_hit() { found } else { self.otherwise }
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        assert_burst(self.layout(), keys, stride, hits.len());
        let place = self.place();
        for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
            let key = |i: usize| &keys[(part * PHASE + i) * stride..][..stride];
            let mut homes = [0; PHASE];
            let mut found: [Option<&Set>; PHASE] = [None; PHASE];
            for (i, home) in homes[..hits.len()].iter_mut().enumerate() {
                *home = self.index.home_wide(&self.exact.windows, key(i));
                self.index.prefetch_wide(*home);
            }
            for (i, found) in found[..hits.len()].iter_mut().enumerate() {
                let set = self.index.find_wide(homes[i], &self.exact.windows, key(i));
                *found = self.sets.get(set as u32 as usize);
                found.iter().for_each(|set| simd::prefetch(*set));
            }
            for (i, hit) in hits.iter_mut().enumerate() {
                let found = found[i].map_or(Hit::MISS, |set| set.lookup(place.value(key(i))));
                *hit = if found.is_hit() { found } else { self.otherwise };
            }
        }
    }

    fn len(&self) -> usize {
        self.rules.len()
    }

    fn memory_bytes(&self) -> usize {
        self.rules.memory_bytes()
            + self.index.memory_bytes()
            + self.sets.capacity() * size_of::<Set>()
            + self.sets.iter().map(Set::memory_bytes).sum::<usize>()
            + self.free_sets.capacity() * 4
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        Box::new(self.rules.iter())
    }

    fn explain(&self) -> Explain {
        let pieces = self.sets.iter().map(|s| s.starts.len()).max().unwrap_or(0);
        Explain {
            kind: Kind::Range,
            entries: self.len(),
            masks: self.rules.masks(),
            probes_max: pieces.checked_ilog2().map_or(0, |log| log as usize + 2),
            ranged: self.rules.ranged(),
            memory_bytes: self.memory_bytes(),
        }
    }
}
