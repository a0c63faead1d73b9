//! Up to some two thousand rules of any masks: a bit for each of them, and for each part of the key the bits of
//! those that its value allows (Lakshman and Stiliadis, *High-speed policy-based packet forwarding using efficient
//! multi-dimensional range matching*, SIGCOMM 1998).
//!
//! A key's fields are cut into *parts* of two bytes or one. A part's value leads by two small tables, one byte
//! after the other, to a *row*: a bit for each rule that allows this value, the best rule first. All rows of a key,
//! taken together (and), leave the rules that match; the first bit is the answer. With registers of 512 bits that
//! is an instruction for each part and 512 rules, and there is no branch on what the rules are like: sets on
//! which tuples and cuts do badly take no longer than others.
//!
//! Made for all rules at once ([`BitVectors::of`]). A rule that goes loses its bit in a row that is common to all keys; one
//! that comes takes the bit of a rule that has gone and matched the same at the same priority, or else stands *beside*,
//! in merged tuples, which are asked too while there are such rules. When
//! they are many the structure declines, and it is meant to be made anew long before
//! ([`Table::improved`](crate::Table::improved)).
//!
//! Where a generator is at hand, a burst is looked up by code that was made for these very parts
//! ([`BitVectors::generate`]), as long as no rules stand beside.
//!
//! It declines more rules than [`ENTRIES_MAX`], rows that are many times as many as rules, and ranges of more than
//! two bytes.
//!
//! Invariants: bits stand in the order of precedence, and only those of rules that are held are set in `alive`; a rule
//! is either there or beside.
//! Cost: lookup, two loads for each part, and a line for each part and 512 rules; insert, that of merged tuples;
//! removal, one bit, as is an insert of a rule that was there before.
//! Checked by: [`linear`](crate::linear), in the tests below and `tests/model.rs`; generated code in `tests/lookup.rs` of
//! `jit`.

use std::cmp::Reverse;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::declined::{Declined, InsertError};
use crate::generated::{Form, Generator, Piece, Places, Step};
use crate::hit::Hit;
use crate::kind::Kind;
use crate::probes::Probes;
use crate::rows::Ids;
use crate::rule::{Layout, Rule};
use crate::rules::{admit, assert_burst, assert_key};
use crate::shape::TableShape;
use crate::simd::{self, Kernel, Lanes, Line, PHASE};
use crate::structure::{Explain, Structure};
use crate::tuple_merge::TupleMerge;

/// Rules held, at most.
pub const ENTRIES_MAX: usize = LINES_MAX * LINE;
/// Lines of a row, at most.
const LINES_MAX: usize = 4;
/// Bits of a line.
const LINE: usize = 512;
/// Parts of a key that some rule looks at, at most.
const PARTS_MAX: usize = 24;
/// Rows for each rule, about, at most.
const ROWS_MAX: usize = 8;
/// Rules beside, at most: so many, or half as many as there are bits.
const BESIDE_MAX: usize = 64;

/// What asking a tuple beside costs, in parts looked up.
const BESIDE_COST: usize = 8;

/// Bytes of the keys, at most, whose parts are taken without looking whether they are there.
const NEAR: usize = 16;

/// A piece of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// Its first byte.
    offset: usize,
    /// One or two.
    len: usize,
}

impl Part {
    /// Its bytes in a key, of which the first is 0 if there is only one.
    #[inline(always)]
    fn bytes(self, key: &[u8]) -> (u8, u8) {
        let high = key[self.offset] & if self.len == 2 { 0xff } else { 0 };
        (high, key[self.offset + self.len - 1])
    }

    /// As [`Part::bytes`], of a part that lies within these bytes; no check stands in the way.
    #[inline(always)]
    fn bytes_near(self, key: &[u8; NEAR]) -> (u8, u8) {
        let high = key[self.offset % NEAR] & if self.len == 2 { 0xff } else { 0 };
        (high, key[(self.offset + self.len - 1) % NEAR])
    }
}

/// What a rule demands of a part's value: `(mask, value, lowest, highest)`.
type Demand = (u16, u16, u16, u16);

/// Bits of rules, by parts of the key.
#[derive(Debug, Clone)]
pub struct BitVectors {
    layout: Layout,
    parts: Vec<Part>,
    /// Lines of a row.
    span: usize,
    /// By the parts' values: which rows.
    places: Places,
    /// Rules whose bits count.
    alive: Vec<Line>,
    /// By bit: the answers, and misses behind them, as far as generated code looks.
    hits: Vec<Hit>,
    /// By bit: the rules, those that are gone too.
    rules: Vec<Rule>,
    /// From ids to bits.
    ids: Ids,
    /// Bits of rules that are gone, by what these match; of several with the same, the latest.
    gone: HashMap<u64, u32, FixedState>,
    /// Rules that came later.
    beside: TupleMerge,
}

impl BitVectors {
    /// Rules that are there at once; those refused are left out. None if there are too many rules or rows, or
    /// ranges that no part holds.
    pub fn of(
        layout: Layout,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Result<BitVectors, Declined> {
        let mut ids = Ids::new(layout.seed());
        let mut held: Vec<Rule> = Vec::new();
        for rule in rules {
            if let Ok(rule) = admit(&layout, &rule, ids.get(rule.id).is_some()) {
                ids.insert(rule.id, 0);
                held.push(rule.into_owned());
            }
            if held.len() > ENTRIES_MAX {
                return Err(Declined::Entries { entries: held.len(), max: ENTRIES_MAX });
            }
        }
        held.sort_unstable_by_key(|rule| (Reverse(rule.priority), rule.seq, rule.id));
        let mut ids = Ids::new(layout.seed());
        held.iter().zip(0..).for_each(|(rule, at)| ids.insert(rule.id, at));
        let parts = parts(&layout, &held)?;
        let span = held.len().div_ceil(LINE).max(1);
        let mut making = Making { rules: &held, span, firsts: vec![], steps: vec![], rows: vec![] };
        for part in &parts {
            making.add_part(*part, parts.len())?;
        }
        let Making { firsts, mut steps, mut rows, .. } = making;
        rows.shrink_to_fit();
        steps.shrink_to_fit();
        let pieces = parts.iter().zip(&firsts).map(|(part, first)| {
            let same = part.len == 1 || first.iter().all(|step| *step == first[0]);
            let only = same.then_some(first[0]);
            Piece { offset: part.offset as u32, len: part.len as u8, only }
        });
        let form = Form { span: span as u32, pieces: pieces.collect() };
        let mut alive = vec![Line([0; 8]); span];
        (0..held.len()).for_each(|at| set(&mut alive, at));
        let mut hits: Vec<Hit> = held.iter().map(Rule::hit).collect();
        hits.resize(LINE * span + 65, Hit::MISS);
        Ok(BitVectors {
            alive,
            hits,
            beside: TupleMerge::new(layout.clone()),
            gone: HashMap::with_hasher(FixedState::with_seed(layout.seed())),
            layout,
            span,
            parts,
            places: Places::new(form, firsts, steps, rows),
            ids,
            rules: held,
        })
    }

    /// The rules, summed up.
    pub(crate) fn shape(&self) -> TableShape {
        TableShape::of_iter(self.layout.clone(), self.iter())
    }

    /// Has code made for these parts, which bursts are looked up by from now on; false if there is none. Copies made
    /// after this share it.
    pub fn generate(&mut self, generator: Generator<'_>) -> bool {
        self.places.generate(generator)
    }

    /// Bytes of code that was made for these parts.
    pub fn code_bytes(&self) -> usize {
        self.places.code_bytes()
    }

    /// Parts of the key that are looked at.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Rules that came later, and stand beside.
    pub fn beside(&self) -> usize {
        self.beside.len()
    }

    /// The first bit that all of these rows have, of rows of `N` lines; behind the last, if there is none.
    #[inline(always)]
    fn first<L: Lanes, const N: usize>(&self, rows: &[[Line; N]], chosen: &[u16]) -> usize {
        let Some(alive) = self.alive.first_chunk::<N>() else { return self.hits.len() - 1 };
        L::common(alive, rows, chosen).unwrap_or(self.hits.len() - 1)
    }

    /// Where a rule's match and priority are looked for among those that are gone.
    fn trace(&self, rule: &Rule) -> u64 {
        self.gone.hasher().hash_one((&rule.value, &rule.mask, &rule.ranges, rule.priority))
    }

    /// The bit of a rule that is gone, if it can be this one's: the same matched, and no rule that is held comes
    /// between.
    fn again(&self, rule: &Rule) -> Option<usize> {
        let bit = *self.gone.get(&self.trace(rule))? as usize;
        let was = self.rules.get(bit)?;
        let same = (&was.value, &was.mask, &was.ranges) == (&rule.value, &rule.mask, &rule.ranges);
        if !same || was.priority != rule.priority {
            return None;
        }
        let held = |at: &usize| self.alive[at / LINE].0[at % LINE / 64] >> (at % 64) & 1 == 1;
        let rank = |rule: &Rule| (rule.priority, Reverse(rule.seq), Reverse(rule.id));
        let ahead = (0..bit).rev().find(held).is_none_or(|at| rank(&self.rules[at]) > rank(rule));
        let mut after = bit + 1..self.rules.len();
        let behind = after.find(held).is_none_or(|at| rank(&self.rules[at]) < rank(rule));
        (ahead && behind).then_some(bit)
    }

    /// The better of what a key meets at a bit and what it meets beside.
    fn better(&self, bit: usize, beside: Hit) -> Hit {
        let Some(rule) = self.rules.get(bit) else { return beside };
        match self.beside.precedence_of(beside.entry) {
            Some(other) if other > (rule.priority, Reverse(rule.seq), Reverse(rule.id)) => beside,
            _ => self.hits[bit],
        }
    }
}

/// Tables and rows on their way into [`Places`].
struct Making<'a> {
    rules: &'a [Rule],
    span: usize,
    firsts: Vec<Step>,
    steps: Vec<Step>,
    rows: Vec<Line>,
}

impl Making<'_> {
    /// Makes the tables and rows of a part.
    fn add_part(&mut self, part: Part, parts: usize) -> Result<(), Declined> {
        // Rules by what they demand of it.
        let mut demands: Vec<(Demand, Vec<usize>)> = Vec::new();
        let mut places: HashMap<Demand, usize> = HashMap::new();
        for (at, rule) in self.rules.iter().enumerate() {
            let demand = demand(rule, part);
            let place = *places.entry(demand).or_insert(demands.len());
            if place == demands.len() {
                demands.push((demand, Vec::new()));
            }
            demands[place].1.push(at);
        }
        let rows_max = ROWS_MAX * self.rules.len() + 256 * parts;
        let mut first = [0; 256];
        // What is left of the demands once the high byte is known; then which of them the low byte meets.
        let mut blocks: HashMap<Vec<(usize, Demand)>, u16> = HashMap::new();
        let mut rows: HashMap<Vec<usize>, u16> = HashMap::new();
        let highs = if part.len == 2 { 256 } else { 1 };
        for (high, to) in (0..highs as u16).zip(&mut first) {
            let rest = demands.iter().zip(0..).filter_map(|(&(demand, _), n)| {
                let rest = if part.len == 2 { below(demand, high) } else { Some(demand) };
                Some((n, rest?))
            });
            let rest: Vec<(usize, Demand)> = rest.collect();
            if let Some(&known) = blocks.get(&rest) {
                *to = known;
                continue;
            }
            let mut step = [0; 256];
            for (low, to) in (0..=255u16).zip(&mut step) {
                let met = rest.iter().filter(|(_, demand)| meets(*demand, low)).map(|(n, _)| *n);
                let met: Vec<usize> = met.collect();
                if let Some(&known) = rows.get(&met) {
                    *to = known;
                    continue;
                }
                let row = self.rows.len() / self.span;
                if row >= rows_max.min(usize::from(u16::MAX)) {
                    return Err(Declined::Planned);
                }
                let from = self.rows.len();
                self.rows.resize(from + self.span, Line([0; 8]));
                let lines = &mut self.rows[from..];
                met.iter().for_each(|&n| demands[n].1.iter().for_each(|&at| set(lines, at)));
                *to = row as u16;
                rows.insert(met, row as u16);
            }
            *to = self.steps.len() as u16;
            blocks.insert(rest, *to);
            self.steps.push(step);
        }
        self.firsts.push(first);
        Ok(())
    }
}

/// Pieces of the fields that some rule looks at.
fn parts(layout: &Layout, rules: &[Rule]) -> Result<Vec<Part>, Declined> {
    let mut parts = Vec::new();
    for field in layout.fields() {
        for offset in (field.offset..field.offset + field.len).step_by(2) {
            let len = (field.offset + field.len - offset).min(2);
            parts.push(Part { offset, len });
        }
    }
    let mut used = vec![false; parts.len()];
    for rule in rules {
        for (part, used) in parts.iter().zip(&mut used) {
            *used |= rule.mask[part.offset..part.offset + part.len].iter().any(|bits| *bits != 0);
        }
        for range in &rule.ranges {
            let is = |part: &Part| {
                part.offset == range.offset as usize && part.len == usize::from(range.len)
            };
            match parts.iter().position(is) {
                Some(at) => used[at] = true,
                None => return Err(Declined::RangeWide { bits: 8 * u32::from(range.len) }),
            }
        }
    }
    let mut used = used.into_iter();
    parts.retain(|_| used.next() == Some(true));
    match parts.len() {
        0..=PARTS_MAX => Ok(parts),
        fields => Err(Declined::Prefixes { fields }),
    }
}

/// What a rule demands of a part.
fn demand(rule: &Rule, part: Part) -> Demand {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| n << 8 | u16::from(byte));
    let span = part.offset..part.offset + part.len;
    let (mut lowest, mut highest) = (0, u16::MAX);
    for range in rule.ranges.iter().filter(|range| range.offset as usize == part.offset) {
        // They have two bytes at most.
        lowest = lowest.max(range.lo as u16);
        highest = highest.min(range.hi as u16);
    }
    (number(&rule.mask[span.clone()]), number(&rule.value[span]), lowest, highest)
}

/// What a demand on two bytes demands of the lower one, where this is the higher; none if that is not met.
fn below((mask, value, lowest, highest): Demand, high: u16) -> Option<Demand> {
    let met = (high ^ value >> 8) & mask >> 8 == 0 && lowest >> 8 <= high && high <= highest >> 8;
    let least = if lowest >> 8 == high { lowest & 0xff } else { 0 };
    let most = if highest >> 8 == high { highest & 0xff } else { 0xff };
    met.then_some((mask & 0xff, value & 0xff, least, most))
}

fn meets((mask, value, lowest, highest): Demand, number: u16) -> bool {
    (number ^ value) & mask == 0 && lowest <= number && number <= highest
}

/// Sets a bit.
fn set(lines: &mut [Line], at: usize) {
    lines[at / LINE].0[at % LINE / 64] |= 1 << (at % 64);
}

/// One key, rows of `N` lines.
struct One<'a, const N: usize> {
    of: &'a BitVectors,
    key: &'a [u8],
    found: &'a mut usize,
}

impl<const N: usize> Kernel for One<'_, N> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let One { of, key, found } = self;
        let parts = of.parts.len().min(PARTS_MAX);
        let steps = of.places.steps();
        let mut chosen = [0u16; PARTS_MAX];
        for (to, (part, first)) in
            chosen.iter_mut().zip(of.parts[..parts].iter().zip(of.places.firsts()))
        {
            let (high, low) = part.bytes(key);
            *to = steps[usize::from(first[usize::from(high)])][usize::from(low)];
        }
        *found = of.first::<L, N>(of.places.rows().as_chunks().0, &chosen[..parts]);
    }
}

/// A burst of keys, rows of `N` lines.
struct Search<'a, const N: usize> {
    of: &'a BitVectors,
    keys: &'a [u8],
    stride: usize,
    hits: &'a mut [Hit],
}

impl<const N: usize> Kernel for Search<'_, N> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Search { of, keys, stride, hits } = self;
        let count = hits.len().min(PHASE);
        let parts = of.parts.len().min(PARTS_MAX);
        let steps = of.places.steps();
        let mut chosen = [[0u16; PARTS_MAX]; PHASE];
        for (at, (part, first)) in of.parts[..parts].iter().zip(of.places.firsts()).enumerate() {
            let keys = keys.chunks_exact(stride).take(count);
            for (chosen, key) in chosen.iter_mut().zip(keys) {
                let (high, low) = part.bytes(key);
                chosen[at] = steps[usize::from(first[usize::from(high)])][usize::from(low)];
            }
        }
        let rows: &[[Line; N]] = of.places.rows().as_chunks().0;
        if of.beside.is_empty() {
            for (hit, chosen) in hits.iter_mut().zip(&chosen) {
                *hit = of.hits[of.first::<L, N>(rows, &chosen[..parts])];
            }
            return;
        }
        of.beside.lookup_burst(keys, stride, hits);
        for (hit, chosen) in hits.iter_mut().zip(&chosen) {
            *hit = of.better(of.first::<L, N>(rows, &chosen[..parts]), *hit);
        }
    }
}

/// A burst of keys that are looked at in `P` parts, rows of `N` lines: as [`Search`], made for one form of rule sets.
///
/// What the rules leave open of a lookup's steps is known when this is compiled, so that nothing is counted and a
/// key's lines are asked for together.
struct Shaped<'a, const N: usize, const P: usize> {
    of: &'a BitVectors,
    keys: &'a [u8],
    stride: usize,
    hits: &'a mut [Hit],
}

impl<const N: usize, const P: usize> Kernel for Shaped<'_, N, P> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Shaped { of, keys, stride, hits } = self;
        let (Some(parts), Some(firsts)) =
            (of.parts.first_chunk::<P>(), of.places.firsts().first_chunk::<P>())
        else {
            return;
        };
        let count = hits.len().min(PHASE);
        let steps = of.places.steps();
        let mut chosen = [[0u16; P]; PHASE];
        let is_near = parts.iter().all(|part| part.offset + part.len <= NEAR);
        for (chosen, key) in chosen.iter_mut().zip(keys.chunks_exact(stride)).take(count) {
            let near = key.first_chunk::<NEAR>().filter(|_| is_near);
            for at in 0..P {
                let part = parts[at];
                let (high, low) = near.map_or_else(|| part.bytes(key), |key| part.bytes_near(key));
                let step = firsts[at][usize::from(high)];
                chosen[at] = steps[usize::from(step)][usize::from(low)];
            }
        }
        let rows: &[[Line; N]] = of.places.rows().as_chunks().0;
        for (hit, chosen) in hits.iter_mut().zip(&chosen) {
            *hit = of.hits[of.first::<L, N>(rows, chosen)];
        }
    }
}

/// Runs the form of [`Shaped`] that fits a set, if there is one.
macro_rules! shaped {
    ($of:expr, $keys:expr, $stride:expr, $hits:expr, $(($n:literal, $p:literal))*) => {
        match ($of.span, $of.parts.len()) {
            $(($n, $p) => {
                let (of, keys, stride, hits) = ($of, $keys, $stride, &mut *$hits);
                simd::fastest(Shaped::<$n, $p> { of, keys, stride, hits });
                true
            })*
            _ => false,
        }
    };
}

impl Structure for BitVectors {
    fn kind(&self) -> Kind {
        Kind::BitVectors
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        let taken = self.ids.get(rule.id).is_some() || self.beside.has(rule.id);
        let rule = admit(&self.layout, rule, taken)?;
        if let Some(bit) = self.again(&rule) {
            self.gone.remove(&self.trace(&rule));
            self.ids.insert(rule.id, bit as u32);
            self.hits[bit] = rule.hit();
            self.rules[bit] = rule.into_owned();
            set(&mut self.alive, bit);
            return Ok(());
        }
        let (entries, max) = (self.beside.len() + 1, BESIDE_MAX.max(self.rules.len() / 2));
        if entries > max {
            return Err(InsertError::Declined(Declined::Entries { entries, max }));
        }
        self.beside.insert(&rule)
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let Some(bit) = self.ids.remove(id) else { return self.beside.remove(id) };
        let bit = bit as usize;
        self.alive[bit / LINE].0[bit % LINE / 64] &= !(1 << (bit % 64));
        let rule = self.rules[bit].clone();
        self.gone.insert(self.trace(&rule), bit as u32);
        Some(rule)
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        let Some(bit) = self.ids.get(id) else { return self.beside.set_action(id, action) };
        self.rules[bit as usize].action = action;
        self.hits[bit as usize].action = action;
        true
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(&self.layout, key);
        let mut bit = 0;
        let found = &mut bit;
        match self.span {
            1 => simd::fastest(One::<1> { of: self, key, found }),
            2 => simd::fastest(One::<2> { of: self, key, found }),
            3 => simd::fastest(One::<3> { of: self, key, found }),
            _ => simd::fastest(One::<4> { of: self, key, found }),
        }
        match self.beside.is_empty() {
            true => self.hits[bit],
            false => self.better(bit, self.beside.lookup(key)),
        }
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        assert_burst(&self.layout, keys, stride, hits.len());
        if self.beside.is_empty()
            && self.places.lookup_burst(&self.alive, &self.hits, keys, stride, hits)
        {
            return;
        }
        for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
            let keys = &keys[part * PHASE * stride..];
            let done = self.beside.is_empty()
                && shaped!(
                    self,
                    keys,
                    stride,
                    hits,
                    (1, 4)(1, 5)(1, 6)(1, 7)(1, 8)(2, 4)(2, 5)(2, 6)(2, 7)(2, 8)
                );
            if done {
                continue;
            }
            match self.span {
                1 => simd::fastest(Search::<1> { of: self, keys, stride, hits }),
                2 => simd::fastest(Search::<2> { of: self, keys, stride, hits }),
                3 => simd::fastest(Search::<3> { of: self, keys, stride, hits }),
                _ => simd::fastest(Search::<4> { of: self, keys, stride, hits }),
            }
        }
    }

    fn len(&self) -> usize {
        self.ids.len() + self.beside.len()
    }

    fn memory_bytes(&self) -> usize {
        let of = |rule: &Rule| {
            rule.value.len() + rule.mask.len() + size_of_val(&*rule.ranges) + size_of::<Rule>()
        };
        self.parts.capacity() * size_of::<Part>()
            + self.places.memory_bytes()
            + self.alive.capacity() * size_of::<Line>()
            + self.hits.capacity() * size_of::<Hit>()
            + self.rules.iter().map(of).sum::<usize>()
            + self.ids.memory_bytes()
            + self.gone.allocation_size()
            + self.beside.memory_bytes()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        let there = |rule: &&Rule| self.ids.get(rule.id).is_some();
        Box::new(self.rules.iter().filter(there).cloned().chain(self.beside.iter()))
    }

    fn probes(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Probes> {
        let keys: Vec<&[u8]> = keys.collect();
        let beside = match self.beside.is_empty() {
            true => Probes::default(),
            false => self.beside.probes(&mut keys.iter().copied())?,
        };
        let (lookups, parts) = (keys.len(), self.parts.len());
        Some(Probes {
            lookups,
            tables: lookups * parts + BESIDE_COST * beside.tables,
            compared: lookups * parts * self.span + beside.compared,
            behind: beside.behind,
        })
    }

    fn explain(&self) -> Explain {
        let masks: hashbrown::HashSet<Box<[u8]>> = self.iter().map(|rule| rule.mask).collect();
        Explain {
            kind: Kind::BitVectors,
            entries: self.len(),
            masks: masks.len(),
            probes_max: self.parts.len() + self.beside.explain().probes_max,
            ranged: self.iter().filter(|rule| !rule.ranges.is_empty()).count(),
            memory_bytes: self.memory_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::Linear;
    use crate::rule::Range;

    fn layout() -> Layout {
        Layout::new(&[4, 2, 1]).unwrap()
    }

    /// Rule `n` of rules of all sorts.
    fn rule(n: u32) -> Rule {
        let mixed = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let len = mixed as u32 >> 7 & 31;
        let mask = (!0u32).checked_shl(len).unwrap_or(0)
            & if n.is_multiple_of(7) { 0xffff_0ff0 } else { !0 };
        let value = [&(mixed as u32).to_be_bytes()[..], &[0, 0], &[n as u8 & 3]].concat();
        let mask = [&mask.to_be_bytes()[..], &[0, 0], &[n.is_multiple_of(5) as u8 * 3]].concat();
        let mut rule = Rule::new(n, n % 97, u64::from(n), &value, &mask).with_action(n + 1);
        let (lo, hi) = (u128::from(mixed >> 40 & 0xffff), u128::from(mixed >> 48));
        if n.is_multiple_of(3) && lo <= hi {
            rule.ranges = [Range { offset: 4, len: 2, lo, hi }].into();
        }
        rule
    }

    #[test]
    fn keys_of_any_number_of_parts_answer_as_linear() {
        let mut draw = crate::classbench::Draw::new(4);
        for (parts, count) in (1..=10).flat_map(|parts| [(parts, 300), (parts, 700), (parts, 1300)])
        {
            // The last part is one byte.
            let lens: Vec<usize> = (1..parts).map(|_| 2).chain([1]).collect();
            let layout = Layout::new(&lens).unwrap();
            let (len, stride) = (layout.key_len(), layout.stride());
            let mut oracle = Linear::new(layout.clone());
            for id in 0..count {
                // Each part is demanded in full, in half, or not at all; few values, so that many meet.
                let mut demand = || {
                    let [mask, of] = [[0, 0], [1, 1], [3, 3], [255, 3]][draw.below(4)];
                    (mask, draw.word() as u8 & of)
                };
                let (mask, value): (Vec<u8>, Vec<u8>) = (0..len).map(|_| demand()).unzip();
                let priority = draw.below(1000) as u32;
                oracle.insert(&Rule::new(id, priority, u64::from(id), &value, &mask)).unwrap();
            }
            let mut subject = BitVectors::of(layout, oracle.iter()).unwrap();
            let mut keys = vec![0; 95 * stride];
            for key in keys.chunks_mut(stride) {
                key[..len].fill_with(|| draw.word() as u8 & 3);
            }
            for gone in 0..40 {
                let mut hits = [Hit::MISS; 95];
                subject.lookup_burst(&keys, stride, &mut hits);
                for (key, hit) in keys.chunks(stride).zip(hits) {
                    assert_eq!(hit, oracle.lookup(&key[..len]), "{parts} parts, {count} rules");
                }
                assert_eq!(subject.remove(gone * 7), oracle.remove(gone * 7));
            }
        }
    }

    #[test]
    fn rows_of_every_length_answer_as_linear() {
        for count in [0, 1, 511, 512, 513, 1100, 1600, 2048] {
            let mut oracle = Linear::new(layout());
            (0..count).for_each(|n| oracle.insert(&rule(n)).unwrap());
            let subject = BitVectors::of(layout(), oracle.iter()).unwrap();
            let stride = layout().stride();
            let mut keys = Vec::new();
            for n in 0..320u32 {
                let mut key = [0; 8];
                let near = rule(n * 7).value;
                key[..7].copy_from_slice(&near);
                key[4..6].copy_from_slice(&((n * 205) as u16).to_be_bytes());
                key[3] ^= (n % 11) as u8;
                keys.extend(key);
            }
            let want: Vec<Hit> = keys.chunks(8).map(|key| oracle.lookup(&key[..7])).collect();
            let check = || {
                for (keys, want) in keys.chunks(33 * stride).zip(want.chunks(33)) {
                    let mut hits = vec![Hit::MISS; want.len()];
                    subject.lookup_burst(keys, stride, &mut hits);
                    assert_eq!(hits, want, "{count} rules");
                }
            };
            check();
            simd::LANES_MAX.set(0);
            check();
            simd::LANES_MAX.set(2);
            for (key, want) in keys.chunks(8).zip(&want) {
                assert_eq!(subject.lookup(&key[..7]), *want);
            }
        }
    }

    #[test]
    fn what_comes_again_takes_its_bit_again() {
        let mut subject = BitVectors::of(layout(), (0..200).map(rule)).unwrap();
        let mut oracle = Linear::new(layout());
        (0..200).for_each(|n| oracle.insert(&rule(n)).unwrap());
        let mut state = 5u64;
        for step in 0..4000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let n = (state >> 33) as u32 % 200;
            assert_eq!(subject.remove(n), oracle.remove(n));
            let mut again = rule(n);
            // As it was, later, or with another action or id.
            match state >> 50 & 7 {
                0 => again.seq = u64::from(1000 + step),
                1 => again.action = step,
                2 if oracle.len() < 199 => again.id = 200 + n,
                3 => continue,
                _ => {}
            }
            if oracle.iter().any(|rule| rule.id == again.id) {
                continue;
            }
            // Only later ones stand beside, and a few of these at most.
            if subject.insert(&again).is_err() {
                assert!(subject.beside() >= 100);
                continue;
            }
            oracle.insert(&again).unwrap();
            assert_eq!(subject.len(), oracle.len());
            let key = &rule(state as u32 % 400).value;
            assert_eq!(subject.lookup(key), oracle.lookup(key));
        }
        let mut subject = BitVectors::of(layout(), (0..200).map(rule)).unwrap();
        let changed = BitVectors::of(layout(), (0..200).map(|n| rule(n).with_action(7))).unwrap();
        for n in 0..200 {
            let was = subject.remove(n).unwrap();
            assert_eq!(subject.insert(&was.with_action(7)), Ok(()));
        }
        for n in 0..200 {
            let key = &rule(n).value;
            assert_eq!(subject.lookup(key), changed.lookup(key));
        }
        assert_eq!((subject.len(), subject.beside(), subject.gone.len()), (200, 0, 0));
    }

    #[test]
    fn it_declines_what_it_cannot_hold() {
        let many = (0..=ENTRIES_MAX as u32).map(rule);
        let max = ENTRIES_MAX;
        let declined = BitVectors::of(layout(), many).unwrap_err();
        assert_eq!(declined, Declined::Entries { entries: max + 1, max });
        let mut wide = rule(1);
        wide.ranges = [Range { offset: 0, len: 4, lo: 3, hi: 70_000 }].into();
        wide.mask.fill(0);
        let declined = BitVectors::of(layout(), [wide]).unwrap_err();
        assert_eq!(declined, Declined::RangeWide { bits: 32 });
        // Each value of a part allows other rules: bit for bit.
        let bits = (0..2000u32).map(|n| {
            let mask = (1u16 << (n % 16)).to_be_bytes();
            let tail = [(n / 16) as u8, 0, 0];
            let (value, mask) = ([&mask[..], &tail].concat(), [&mask[..], &[0xff; 3]].concat());
            Rule::new(n, 1, 1, &value, &mask)
        });
        let layout = Layout::new(&[2, 1, 2]).unwrap();
        assert_eq!(BitVectors::of(layout, bits).unwrap_err(), Declined::Planned);
    }

    #[test]
    fn what_comes_later_stands_beside() {
        let mut subject = BitVectors::of(layout(), (0..200).map(rule)).unwrap();
        let mut oracle = Linear::new(layout());
        (0..200).for_each(|n| oracle.insert(&rule(n)).unwrap());
        assert_eq!(subject.insert(&rule(7)), Err(InsertError::DuplicateId(7)));
        for n in 0..100 {
            assert_eq!(subject.remove(n), oracle.remove(n));
            assert_eq!(subject.remove(n), None);
            let mut again = rule(n + 300);
            again.id = n;
            assert_eq!(subject.insert(&again), oracle.insert(&again));
        }
        let declined = subject.insert(&rule(1000));
        assert!(matches!(declined, Err(InsertError::Declined(Declined::Entries { max: 100, .. }))));
        assert_eq!((subject.len(), subject.beside(), subject.iter().count()), (200, 100, 200));
        for n in 0..500u32 {
            let key = &rule(n).value;
            assert_eq!(subject.lookup(key), oracle.lookup(key));
        }
    }
}
