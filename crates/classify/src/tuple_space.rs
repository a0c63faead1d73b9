//! Tuple space search (Srinivasan, Suri, Varghese, 1999): one hash per distinct mask.
//!
//! The general form: it takes every rule. Tuples are probed in the order of their best priority,
//! and the search ends when no tuple left can win. A burst is looked up tuple by tuple, all keys
//! that are still undecided at once, in stages; the winners' answers are read at the end.
//!
//! Invariants: `order` holds each live group once, sorted by its highest priority, descending;
//! payloads are priorities and rows.
//! Cost: lookup, one probe per mask until the winner's priority exceeds those of the tuples left,
//! then the winner's row; update, one group's, and a move within `order` when the group's best
//! priority changed.
//! Checked by: [`linear`](crate::linear), in `tests/model.rs`.

use std::cmp::Reverse;

use crate::buckets::EMPTY;
use crate::declined::InsertError;
use crate::group::{Group, Payload, meeting};
use crate::hit::Hit;
use crate::kind::Kind;
use crate::rows::{NONE, Rows};
use crate::rule::{Layout, Rule};
use crate::rules::{Rules, assert_burst, assert_key};
use crate::simd::{PHASE, View};
use crate::structure::{Explain, Structure};

/// A tuple's place in the order of probing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tuple {
    priority_max: u32,
    group: u32,
}

/// One hash per distinct mask.
#[derive(Debug, Clone)]
pub struct TupleSpace {
    rules: Rules,
    order: Vec<Tuple>,
}

impl TupleSpace {
    /// An empty one.
    pub fn new(layout: Layout) -> TupleSpace {
        Self::from_rules(Rules::new(layout))
    }

    /// Takes over a store as it is; costs a sort of its masks, and a probe per rule if its payloads
    /// were others.
    pub(crate) fn from_rules(rules: Rules) -> TupleSpace {
        let rules = rules.paying(Payload::Row);
        let tuples = rules
            .groups()
            .filter_map(|(group, g)| Some(Tuple { priority_max: g.priorities()?.1, group }));
        let mut order: Vec<Tuple> = tuples.collect();
        order.sort_unstable_by_key(sort_key);
        TupleSpace { rules, order }
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn into_rules(self) -> Rules {
        self.rules
    }

    fn best_of(&self, group: u32) -> Option<u32> {
        Some(self.rules.group(group)?.priorities()?.1)
    }

    /// Moves a tuple whose best priority was `before` to where it belongs now.
    fn place(&mut self, group: u32, before: Option<u32>) {
        let now = self.best_of(group);
        if now == before {
            return;
        }
        if let Some(priority_max) = before {
            let old = sort_key(&Tuple { priority_max, group });
            if let Ok(at) = self.order.binary_search_by_key(&old, sort_key) {
                self.order.remove(at);
            }
        }
        if let Some(priority_max) = now {
            let tuple = Tuple { priority_max, group };
            let at = self.order.partition_point(|t| sort_key(t) < sort_key(&tuple));
            self.order.insert(at, tuple);
        }
    }
}

fn sort_key(tuple: &Tuple) -> (Reverse<u32>, u32) {
    (Reverse(tuple.priority_max), tuple.group)
}

/// Whether the best so far goes before all that a tuple holds.
#[inline(always)]
fn settled(best: u64, tuple: &Tuple) -> bool {
    best != EMPTY && (best >> 32) as u32 > tuple.priority_max
}

/// The better of two payloads; `found` is none or the head of its chain in `group`.
#[inline(always)]
fn better(rows: &Rows, group: &Group, key: &[u8], best: u64, found: u64) -> u64 {
    if found == EMPTY {
        return best;
    }
    if group.ranged() > 0 {
        return better_meeting(rows, key, best, found);
    }
    beats(rows, best, found)
}

#[inline(always)]
fn beats(rows: &Rows, best: u64, found: u64) -> u64 {
    let (new, old) = ((found >> 32) as u32, (best >> 32) as u32);
    match best {
        EMPTY => found,
        _ if new != old => {
            if new > old {
                found
            } else {
                best
            }
        }
        _ if rows.candidate(found as u32).beats(&rows.candidate(best as u32)) => found,
        _ => best,
    }
}

/// As [`better`], where rules of the chain may have ranges.
fn better_meeting(rows: &Rows, key: &[u8], best: u64, found: u64) -> u64 {
    let row = meeting(rows, found as u32, key);
    if row == NONE {
        return best;
    }
    beats(rows, best, u64::from(rows.candidate(row).priority) << 32 | u64::from(row))
}

/// Keys of a burst that a tuple is asked about.
struct Asked<'a> {
    keys: &'a [u8],
    stride: usize,
    /// Keys of the burst.
    count: usize,
    /// Which of them.
    pending: &'a [u8],
}

impl Asked<'_> {
    #[inline(always)]
    fn key(&self, i: u8) -> &[u8] {
        &self.keys[usize::from(i) * self.stride..][..self.stride]
    }
}

/// Asks one tuple, whose keys are `W` words.
#[inline(never)]
fn ask<const W: usize>(rows: &Rows, group: &Group, asked: &Asked<'_>, best: &mut [u64; PHASE]) {
    let Some(windows) = group.windows().first_chunk::<W>() else { return };
    let (index, pending) = (group.index(), asked.pending);
    let view = View::new(asked.keys, asked.stride, asked.count, windows);
    let (mut words, mut homes) = ([[0; W]; PHASE], [0; PHASE]);
    for ((&i, words), home) in pending.iter().zip(&mut words).zip(&mut homes) {
        *words = view.words(usize::from(i));
        *home = index.home(words);
    }
    for &home in &homes[..pending.len()] {
        index.prefetch::<W>(home);
    }
    for ((&i, words), &home) in pending.iter().zip(&words).zip(&homes) {
        let found = index.find(home, words);
        let best = &mut best[usize::from(i) % PHASE];
        *best = better(rows, group, asked.key(i), *best, found);
    }
}

/// As [`ask`], for more words than are unrolled.
#[inline(never)]
fn ask_wide(rows: &Rows, group: &Group, asked: &Asked<'_>, best: &mut [u64; PHASE]) {
    let (index, windows) = (group.index(), group.windows());
    let mut homes = [0; PHASE];
    for (&i, home) in asked.pending.iter().zip(&mut homes) {
        *home = index.home_wide(windows, asked.key(i));
        index.prefetch_wide(*home);
    }
    for (&i, &home) in asked.pending.iter().zip(&homes) {
        let found = index.find_wide(home, windows, asked.key(i));
        let best = &mut best[usize::from(i) % PHASE];
        *best = better(rows, group, asked.key(i), *best, found);
    }
}

/// Looks up to [`PHASE`] keys up.
fn search(rules: &Rules, order: &[Tuple], keys: &[u8], stride: usize, hits: &mut [Hit]) {
    let rows = &rules.store().rows;
    let mut best = [EMPTY; PHASE];
    let mut pending: [u8; PHASE] = std::array::from_fn(|i| i as u8);
    let mut count = hits.len().min(PHASE);
    for tuple in order {
        let mut kept = 0;
        for at in 0..count {
            let i = pending[at];
            pending[kept] = i;
            kept += usize::from(!settled(best[usize::from(i) % PHASE], tuple));
        }
        count = kept;
        if count == 0 {
            break;
        }
        let Some(group) = rules.group(tuple.group) else { continue };
        let asked = Asked { keys, stride, count: hits.len(), pending: &pending[..count] };
        match group.windows().len() {
            1 => ask::<1>(rows, group, &asked, &mut best),
            2 => ask::<2>(rows, group, &asked, &mut best),
            3 => ask::<3>(rows, group, &asked, &mut best),
            4 => ask::<4>(rows, group, &asked, &mut best),
            5 => ask::<5>(rows, group, &asked, &mut best),
            6 => ask::<6>(rows, group, &asked, &mut best),
            7 => ask::<7>(rows, group, &asked, &mut best),
            _ => ask_wide(rows, group, &asked, &mut best),
        }
    }
    for &best in best[..hits.len()].iter().filter(|&&best| best != EMPTY) {
        rows.prefetch(best as u32);
    }
    for (hit, &best) in hits.iter_mut().zip(&best) {
        *hit = if best == EMPTY { Hit::MISS } else { rows.hit(best as u32) };
    }
}

impl Structure for TupleSpace {
    fn kind(&self) -> Kind {
        Kind::TupleSpace
    }

    fn layout(&self) -> &Layout {
        self.rules.layout()
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        let rule = self.rules.admit(rule)?;
        let before = self.rules.group_for(&rule.mask).and_then(|group| self.best_of(group));
        let group = self.rules.insert(&rule);
        self.place(group, before);
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let group = self.rules.group_of(id)?;
        let before = self.best_of(group);
        let (rule, _) = self.rules.remove(id)?;
        self.place(group, before);
        Some(rule)
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        self.rules.set_action(id, action)
    }

    /// Probes tuples until none left can win.
    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(self.layout(), key);
        let rows = &self.rules.store().rows;
        let mut best = EMPTY;
        for tuple in &self.order {
            if settled(best, tuple) {
                break;
            }
            if let Some(group) = self.rules.group(tuple.group) {
                best = better(rows, group, key, best, group.find(key));
            }
        }
        if best == EMPTY { Hit::MISS } else { rows.hit(best as u32) }
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        assert_burst(self.layout(), keys, stride, hits.len());
        for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
            search(&self.rules, &self.order, &keys[part * PHASE * stride..], stride, hits);
        }
    }

    fn len(&self) -> usize {
        self.rules.len()
    }

    fn memory_bytes(&self) -> usize {
        self.rules.memory_bytes() + self.order.capacity() * size_of::<Tuple>()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        Box::new(self.rules.iter())
    }

    fn explain(&self) -> Explain {
        Explain {
            kind: Kind::TupleSpace,
            entries: self.len(),
            masks: self.rules.masks(),
            probes_max: self.order.len(),
            ranged: self.rules.ranged(),
            memory_bytes: self.memory_bytes(),
        }
    }
}
