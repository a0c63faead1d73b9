//! Longest prefix match on one field of up to 128 bits, other fields exact under one mask.
//!
//! What the mask demands outside the field is the side key. Each of its values has a [`Set`] of
//! prefixes; few sets are told apart by comparing, many by a hash. A set finds the number of the
//! longest prefix: for fields of at most 32 bits in a direct index ([`dir`]), for wider ones and
//! for sets of few prefixes in a trie ([`trie`]). The number is the slot of a rule in the
//! [`Store`], and of its hit.
//!
//! Where there is a side key, rules that match everything (an OpenFlow table-miss entry) stand
//! beside the sets as the catch-all: their best is the hit of number 0, which every lookup answers
//! that finds no prefix.
//!
//! A field of a width that is no multiple of eight lies right-aligned in its bytes, so its prefixes
//! begin behind bits that no mask demands. They are passed over ([`Lpm`]'s `skip`).
//!
//! Invariants: every mask but the catch-all's is a prefix on the field and the same elsewhere; no
//! ranges; every priority of a longer prefix exceeds every priority of a shorter one, so that the
//! longest match is the best (priority = prefix length satisfies this), and all exceed the
//! catch-all's; a set holds each prefix once, under the slot of the best rule of that prefix.
//! Cost: lookup, the side key, then one load for the index and one for each four bits beyond it (or
//! a trie node per six bits), and the hit; update, a hash probe, a walk of the trie, and the leaves
//! in the prefix's range. Leaving for another structure copies every rule.
//! Checked by: [`linear`](crate::linear), in `tests/lpm.rs` and `tests/model.rs`; `benches/lpm.rs`
//! times it beside a DIR-24-8.

mod bits;
mod dir;
mod direct;
mod pages;
mod popcnt;
mod set;
mod store;
mod trie;

use std::collections::BTreeMap;

use hashbrown::HashTable;

use crate::declined::{Declined, InsertError};
use crate::hit::Hit;
use crate::kind::Kind;
use crate::mask::{self, Window};
use crate::rule::{Field, Layout, Rule};
use crate::rules::{Rules, admit, assert_burst, assert_key};
use crate::shape::{MaskShape, TableShape};
use crate::simd::prefetch;
use crate::structure::{Explain, Structure};
use bits::{BURST, NONE, bits_of, narrow_of, nearest};
use dir::Dir;
use set::{Set, Sets};
use store::{Left, Store};
use trie::{BITS_MAX, EMPTY, Trie};

/// Sets up to which a key's is found by comparing.
const COMPARED_MAX: usize = 4;
/// Sets up to which each may have an index, however few its prefixes are.
const ROOMY_MAX: usize = 8;
/// Bytes of index and hits from which on a burst goes through them in phases: about what the
/// nearer caches hold.
const PHASES_FROM: usize = 1 << 19;
/// In the place of a rule's set: it is of the catch-all.
const CATCH_ALL: u32 = u32::MAX;

/// Prefixes under a side key.
#[derive(Debug, Clone)]
pub struct Lpm {
    layout: Layout,
    field: Field,
    /// Bits of the field before its prefixes begin; set by the first rule whose prefix has bits.
    skip: Option<u32>,
    /// The side key's mask; set by the first rule.
    exact: Option<Exact>,
    store: Store,
    trie: Trie,
    sets: Vec<Option<Set>>,
    /// Their side keys, as many words for each as the mask has windows.
    words: Vec<u64>,
    free: Vec<u32>,
    /// The sets by the hash of their side keys.
    by_words: HashTable<u32>,
    /// The slot of the best rule beside the sets.
    catch_all: u32,
    catch_all_priorities: Priorities,
    /// By prefix length.
    priorities: Vec<Priorities>,
    /// While a store is taken over: indices are made at its end.
    loading: bool,
}

/// How many rules have each priority.
#[derive(Debug, Clone, Default)]
struct Priorities(BTreeMap<u32, u32>);

impl Priorities {
    fn add(&mut self, priority: u32) {
        *self.0.entry(priority).or_insert(0) += 1;
    }

    fn take(&mut self, priority: u32) {
        if let Some(count) = self.0.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&priority);
            }
        }
    }

    fn low(&self) -> Option<u32> {
        Some(*self.0.first_key_value()?.0)
    }

    fn high(&self) -> Option<u32> {
        Some(*self.0.last_key_value()?.0)
    }

    fn count(&self) -> usize {
        self.0.values().map(|&count| count as usize).sum()
    }
}

/// The mask outside the prefix field.
#[derive(Debug, Clone)]
struct Exact {
    mask: Box<[u8]>,
    windows: Box<[Window]>,
}

impl Exact {
    fn of(mask: &[u8], field: Field) -> Exact {
        let mask = outside(mask, field);
        Exact { windows: mask::windows(&mask), mask }
    }
}

/// Whether such a table can be held here; the index of its prefix field if so.
///
/// The field is the one whose masks differ. Where none do, it is the last that is masked in part,
/// else the last of at most 128 bits.
pub fn fits(shape: &TableShape) -> Result<usize, Declined> {
    if shape.ranged > 0 {
        return Err(Declined::Ranges { entries: shape.ranged });
    }
    let as_it_is = fits_sets(&shape.layout, shape.masks.iter());
    let Some(at) = shape.masks.iter().position(|m| is_zero(&m.mask)) else { return as_it_is };
    if as_it_is.is_ok() || shape.masks.len() == 1 {
        return as_it_is;
    }
    let rest = || shape.masks.iter().filter(|m| !is_zero(&m.mask));
    let field = fits_sets(&shape.layout, rest())?;
    let catch_all = &shape.masks[at];
    let low = rest().map(|m| m.priority_min).min().unwrap_or(u32::MAX);
    if catch_all.priority_max < low {
        return Ok(field);
    }
    Err(Declined::CatchAll { priority: catch_all.priority_max, not_below: low })
}

/// How the masks of a table lie on one of its fields.
enum Span {
    /// All the same.
    Fixed,
    /// Prefixes of different lengths.
    Prefix,
    Ternary,
}

/// Whether the sets alone can hold the table, its ranges left aside.
fn fits_sets<'a>(
    layout: &Layout,
    masks: impl Iterator<Item = &'a MaskShape> + Clone,
) -> Result<usize, Declined> {
    let Some(first) = masks.clone().next() else { return Err(Declined::Empty) };
    let part = |m: &'a MaskShape, f: &Field| &m.mask[f.offset..f.offset + f.len];
    let fields = layout.fields();
    let skips: Vec<u32> =
        fields.iter().map(|f| skip_of(masks.clone().map(|m| part(m, f))).unwrap_or(0)).collect();
    let span = |at: usize| {
        let field = &fields[at];
        let mut parts = masks.clone().map(|m| part(m, field));
        if parts.clone().all(|p| p == part(first, field)) {
            Span::Fixed
        } else if parts.all(|p| prefix_len(p, skips[at]).is_some()) {
            Span::Prefix
        } else {
            Span::Ternary
        }
    };
    let spans: Vec<Span> = (0..fields.len()).map(span).collect();
    let ternary = spans.iter().filter(|s| matches!(s, Span::Ternary)).count();
    if ternary > 0 {
        return Err(Declined::Ternary { fields: ternary });
    }
    let prefixes = spans.iter().filter(|s| matches!(s, Span::Prefix)).count();
    if prefixes > 1 {
        return Err(Declined::Prefixes { fields: prefixes });
    }
    let able = |at: usize| {
        let field = &fields[at];
        let prefix = prefix_len(part(first, field), skips[at]);
        field.len as u32 * 8 <= BITS_MAX && prefix.is_some()
    };
    let partly = |at: usize| {
        let field = &fields[at];
        able(at) && prefix_len(part(first, field), skips[at]) != Some(field.len as u32 * 8)
    };
    let mut places = 0..fields.len();
    let at = match spans.iter().position(|s| matches!(s, Span::Prefix)) {
        Some(at) => at,
        None => (places.clone().rev().find(|&at| partly(at)))
            .or_else(|| places.rfind(|&at| able(at)))
            .ok_or(Declined::NoPrefix)?,
    };
    let field = &fields[at];
    let bits = field.len as u32 * 8;
    if bits > BITS_MAX {
        return Err(Declined::Wide { bits });
    }
    let mut by_len: Vec<(u32, u32, u32)> = masks
        .map(|m| {
            let len = prefix_len(part(m, field), skips[at]).unwrap_or(0);
            (len, m.priority_min, m.priority_max)
        })
        .collect();
    by_len.sort_unstable();
    match by_len.windows(2).find(|pair| pair[0].2 >= pair[1].1) {
        Some(pair) => Err(Declined::Priorities {
            shorter: pair[0].0,
            priority: pair[0].2,
            longer: pair[1].0,
            not_above: pair[1].1,
        }),
        None => Ok(at),
    }
}

impl Lpm {
    /// An empty one, with the index of its prefix field.
    ///
    /// Declines a field that the layout has not, or that is wider than 128 bits.
    pub fn new(layout: Layout, field: usize) -> Result<Lpm, Declined> {
        let Some(&field) = layout.fields().get(field) else { return Err(Declined::NoPrefix) };
        if field.len > BITS_MAX as usize / 8 {
            return Err(Declined::Wide { bits: field.len as u32 * 8 });
        }
        Ok(Self::empty(layout, field))
    }

    fn empty(layout: Layout, field: Field) -> Lpm {
        Lpm {
            store: Store::new(is_narrow(field), layout.seed()),
            layout,
            field,
            skip: None,
            exact: None,
            trie: Trie::new(),
            sets: Vec::new(),
            words: Vec::new(),
            free: Vec::new(),
            by_words: HashTable::new(),
            catch_all: NONE,
            catch_all_priorities: Priorities::default(),
            priorities: vec![Priorities::default(); field.len * 8 + 1],
            loading: false,
        }
    }

    /// Takes over a store that [`fits`] with that field; costs an insert per rule.
    pub(crate) fn from_rules(rules: Rules, field: usize) -> Lpm {
        let layout = rules.layout().clone();
        let field = layout.fields()[field];
        let mut lpm = Self::empty(layout, field);
        let parts = || rules.groups().map(|(_, g)| &g.mask()[field.offset..][..field.len]);
        lpm.skip = skip_of(parts());
        // A mask with bits is never the catch-all's, so it tells the exact part of them all.
        let telling = rules.groups().map(|(_, g)| g.mask()).find(|m| !is_zero(m));
        lpm.exact =
            telling.or(rules.groups().map(|(_, g)| g.mask()).next()).map(|m| Exact::of(m, field));
        let mut all: Vec<Rule> = rules.iter().collect();
        drop(rules);
        // In key order: neighbours in a set are neighbours in memory, and equal stores give equal
        // tables.
        all.sort_unstable_by(|a, b| (&a.value, &a.mask, a.id).cmp(&(&b.value, &b.mask, b.id)));
        lpm.loading = true;
        for rule in &all {
            let len = lpm.prefix_len(&rule.mask).unwrap_or(0);
            lpm.add(rule, len);
        }
        lpm.loading = false;
        let sets = lpm.sets();
        for set in lpm.sets.iter_mut().flatten() {
            set.settle(&mut lpm.trie, sets);
        }
        lpm
    }

    /// The rules in the store that other structures share; costs a copy of each.
    pub(crate) fn into_rules(self) -> Rules {
        let mut rules = Rules::new(self.layout.clone());
        for rule in self.iter() {
            rules.insert(&rule);
        }
        rules
    }

    /// The rules, summed up by mask.
    pub(crate) fn shape(&self) -> TableShape {
        let masks = (0u32..).zip(&self.priorities).filter_map(|(len, priorities)| {
            let (priority_min, priority_max) = (priorities.low()?, priorities.high()?);
            let (mask, entries) = (self.mask_of(len), priorities.count());
            Some(MaskShape { mask, entries, ranged: 0, priority_min, priority_max })
        });
        let beside = &self.catch_all_priorities;
        let catch_all = beside.low().zip(beside.high()).map(|(priority_min, priority_max)| {
            let mask = vec![0; self.layout.key_len()].into();
            let entries = beside.count();
            MaskShape { mask, entries, ranged: 0, priority_min, priority_max }
        });
        TableShape {
            masks: masks.chain(catch_all).collect(),
            layout: self.layout.clone(),
            entries: self.len(),
            ranged: 0,
            ranges: Vec::new(),
        }
    }

    /// The mask of a rule in the sets.
    fn mask_of(&self, len: u32) -> Box<[u8]> {
        let mut mask = match &self.exact {
            Some(exact) => exact.mask.clone(),
            None => vec![0; self.layout.key_len()].into(),
        };
        let bits = u128::MAX.checked_shl(BITS_MAX - len).unwrap_or(0);
        put_bits(&mut mask, self.field, self.skip.unwrap_or(0), bits);
        mask
    }

    /// The length of a mask's prefix, if it is one here.
    fn prefix_len(&self, mask: &[u8]) -> Option<u32> {
        let part = &mask[self.field.offset..self.field.offset + self.field.len];
        prefix_len(part, self.skip.or(skip_of([part])).unwrap_or(0))
    }

    /// The field as the leading bits of a number.
    #[inline(always)]
    fn bits(&self, key: &[u8]) -> u128 {
        let bits = bits_of(key, self.field);
        match self.skip {
            None | Some(0) => bits,
            Some(skip) => bits << skip,
        }
    }

    fn sets(&self) -> Sets {
        match self.sets.len() - self.free.len() {
            0..=1 => Sets::One,
            2..=ROOMY_MAX => Sets::Few,
            _ => Sets::Many,
        }
    }

    /// Whether a mask is that of rules beside the sets.
    fn is_catch_all(&self, mask: &[u8]) -> bool {
        self.exact.as_ref().is_some_and(|exact| !exact.windows.is_empty()) && is_zero(mask)
    }

    /// Whether a rule fits beside the sets that are there.
    fn fits_beside(&self, rule: &Rule) -> Result<(), Declined> {
        match self.priorities.iter().filter_map(Priorities::low).min() {
            Some(low) if rule.priority >= low => {
                Err(Declined::CatchAll { priority: rule.priority, not_below: low })
            }
            _ => Ok(()),
        }
    }

    /// The prefix length of a rule that fits beside those held.
    fn fits_in(&self, rule: &Rule) -> Result<u32, Declined> {
        if !rule.ranges.is_empty() {
            return Err(Declined::Ranges { entries: 1 });
        }
        let Some(len) = self.prefix_len(&rule.mask) else {
            return Err(Declined::Ternary { fields: 1 });
        };
        if let Some(exact) = &self.exact
            && !same_outside(&exact.mask, &rule.mask, self.field)
        {
            return Err(Declined::ExactPart);
        }
        if let Some(high) = self.catch_all_priorities.high()
            && rule.priority <= high
        {
            return Err(Declined::CatchAll { priority: high, not_below: rule.priority });
        }
        let at = len as usize;
        let refuse = |shorter, priority, longer, not_above| {
            Err(Declined::Priorities { shorter, priority, longer, not_above })
        };
        let below = (0..at).rev().find_map(|l| Some((l as u32, self.priorities[l].high()?)));
        if let Some((shorter, high)) = below.filter(|b| b.1 >= rule.priority) {
            return refuse(shorter, high, len, rule.priority);
        }
        let mut longer = at + 1..self.priorities.len();
        let above = longer.find_map(|l| Some((l as u32, self.priorities[l].low()?)));
        if let Some((longer, low)) = above.filter(|a| a.1 <= rule.priority) {
            return refuse(len, rule.priority, longer, low);
        }
        Ok(len)
    }

    /// Adds a rule that fits, whose id is new.
    fn add(&mut self, rule: &Rule, len: u32) {
        let rank = (rule.priority, rule.seq);
        if self.is_catch_all(&rule.mask) {
            let slot = self.store.add(rule.hit(), rank, CATCH_ALL, 0, 0);
            self.catch_all = self.store.chain(self.catch_all, slot);
            self.catch_all_priorities.add(rule.priority);
            self.store.set_miss(self.catch_all);
            return;
        }
        if len > 0 && self.skip.is_none() {
            let part = &rule.mask[self.field.offset..self.field.offset + self.field.len];
            self.skip = skip_of([part]);
        }
        let at = self.open(rule);
        let bits = self.bits(&rule.value);
        let slot = self.store.add(rule.hit(), rank, at, bits, len);
        self.priorities[len as usize].add(rule.priority);
        let sets = self.sets();
        let Some(set) = &mut self.sets[at as usize] else { return };
        let held = set.insert(&mut self.trie, bits, len, slot);
        if held == NONE {
            if !self.loading {
                set.grown(&mut self.trie, sets);
            }
        } else if self.store.chain(held, slot) == slot {
            set.renumber(&mut self.trie, bits, len, slot);
        }
    }

    /// The set for a rule, new if need be.
    fn open(&mut self, rule: &Rule) -> u32 {
        let field = self.field;
        let exact = self.exact.get_or_insert_with(|| Exact::of(&rule.mask, field));
        let (seed, windows) = (self.layout.seed(), &*exact.windows);
        let hash = mask::hash_key(seed, windows, &rule.value);
        let words = &self.words;
        let equal = |&at: &u32| mask::equals(windows, words_of(words, windows, at), &rule.value);
        if let Some(&at) = self.by_words.find(hash, equal) {
            return at;
        }
        let new = windows.iter().map(|w| mask::word(&rule.value, w));
        let set = Some(Set::new(&mut self.trie, is_narrow(field)));
        let at = match self.free.pop() {
            Some(at) => {
                self.sets[at as usize] = set;
                let from = at as usize * windows.len();
                self.words[from..].iter_mut().zip(new).for_each(|(word, new)| *word = new);
                at
            }
            None => {
                self.sets.push(set);
                self.words.extend(new);
                (self.sets.len() - 1) as u32
            }
        };
        let words = &self.words;
        self.by_words
            .insert_unique(hash, at, |&at| mask::hash_words(seed, words_of(words, windows, at)));
        at
    }

    /// Forgets a set that holds nothing any more.
    fn close(&mut self, at: u32) {
        let (Some(exact), Some(set)) = (&self.exact, self.sets[at as usize].take()) else { return };
        set.close(&mut self.trie);
        let words = words_of(&self.words, &exact.windows, at);
        let hash = mask::hash_words(self.layout.seed(), words);
        if let Ok(found) = self.by_words.find_entry(hash, |&other| other == at) {
            found.remove();
        }
        self.free.push(at);
        if self.free.len() == self.sets.len() {
            self.free.clear();
            self.sets.clear();
            self.words.clear();
        }
    }

    /// The rule in a slot.
    fn rule(&self, slot: u32) -> Rule {
        let (hit, entry) = (self.store.hits()[slot as usize], *self.store.entry(slot));
        let key_len = self.layout.key_len();
        let mut value: Box<[u8]> = vec![0; key_len].into();
        let mut mask = value.clone();
        if entry.set != CATCH_ALL {
            mask = self.mask_of(self.store.prefix_len(slot));
            if let Some(exact) = &self.exact {
                let words = words_of(&self.words, &exact.windows, entry.set);
                mask::unload(&exact.windows, words, &mut value);
            }
            put_bits(&mut value, self.field, self.skip.unwrap_or(0), self.store.bits(slot));
        }
        Rule {
            id: hit.entry,
            action: hit.action,
            priority: entry.priority,
            seq: entry.seq,
            value,
            mask,
            ranges: Box::new([]),
        }
    }

    /// The number of the set for a key.
    #[inline(always)]
    fn set_of(&self, exact: &Exact, key: &[u8]) -> Option<u32> {
        let windows = &*exact.windows;
        if windows.is_empty() {
            return (!self.sets.is_empty()).then_some(0);
        }
        let equal = |&at: &u32| mask::equals(windows, words_of(&self.words, windows, at), key);
        if self.sets.len() <= COMPARED_MAX {
            let live = |at: &u32| self.sets[*at as usize].is_some() && equal(at);
            return (0..self.sets.len() as u32).find(live);
        }
        self.by_words.find(mask::hash_key(self.layout.seed(), windows, key), equal).copied()
    }

    /// Where the field and the only set's side key lie.
    #[inline(always)]
    fn place<'a>(&'a self, exact: &'a Exact) -> direct::Place<'a> {
        direct::Place::new(self.field, self.skip.unwrap_or(0), &exact.windows, &self.words)
    }

    /// The only set, if it has a direct index.
    #[inline(always)]
    fn only_dir(&self) -> Option<&Dir> {
        match &self.sets[..] {
            [Some(set)] => set.dir(),
            _ => None,
        }
    }

    /// A burst of keys, each in its own set.
    fn lookup_any(&self, exact: &Exact, burst: &Keys<'_>, hits: &mut [Hit]) {
        let (answers, count) = (self.store.hits(), hits.len());
        let mut places = [u32::MAX; BURST];
        for (i, place) in places.iter_mut().enumerate().take(count) {
            let Some(at) = self.set_of(exact, burst.key(i)) else { continue };
            *place = at;
            prefetch(&self.sets[at as usize]);
        }
        let set_at = |i: usize| self.sets.get(places[i] as usize).and_then(Option::as_ref);
        let dir_at = |i: usize| set_at(i).and_then(Set::dir);
        let mut tops = [0u32; BURST];
        let mut found = [NONE; BURST];
        let mut walks = Walks::new();
        for (i, top) in tops.iter_mut().enumerate().take(count) {
            let Some(set) = set_at(i) else { continue };
            let key = burst.key(i);
            if let Some(dir) = set.dir() {
                *top = narrow_of(key, self.field) << self.skip.unwrap_or(0);
                dir.prefetch_first(*top);
            } else {
                walks.add(i, set.start(self.bits(key)));
            }
        }
        if walks.count < count {
            for (i, &top) in tops.iter().enumerate().take(count) {
                if let Some(dir) = dir_at(i).filter(|dir| dir.blocks() > 0) {
                    dir.prefetch_second(top, answers);
                }
            }
            for (i, &top) in tops.iter().enumerate().take(count) {
                if let Some(dir) = dir_at(i) {
                    found[i] = dir.lookup(top);
                }
            }
        }
        walks.go(&self.trie, &mut found);
        if size_of_val(answers) >= PHASES_FROM {
            found[..count].iter().for_each(|&number| prefetch(nearest(answers, number)));
        }
        for (hit, &number) in hits.iter_mut().zip(&found) {
            *hit = answers[number as usize];
        }
    }
}

/// Those keys of a burst that are looked up in tries.
struct Walks {
    count: usize,
    /// Which of the burst's keys each is.
    keys: [u8; BURST],
    roots: [u32; BURST],
    bits: [u128; BURST],
    found: [u32; BURST],
}

impl Walks {
    #[inline(always)]
    fn new() -> Walks {
        let (keys, roots, bits, found) = ([0; BURST], [EMPTY; BURST], [0; BURST], [NONE; BURST]);
        Walks { count: 0, keys, roots, bits, found }
    }

    #[inline(always)]
    fn add(&mut self, key: usize, (root, bits, miss): (u32, u128, u32)) {
        let at = self.count % BURST;
        self.keys[at] = key as u8;
        (self.roots[at], self.bits[at], self.found[at]) = (root, bits, miss);
        self.count += 1;
    }

    fn go(&mut self, trie: &Trie, found: &mut [u32; BURST]) {
        let count = self.count;
        let phases = trie.memory_bytes() >= PHASES_FROM;
        let (bits, results) = (&mut self.bits[..count], &mut self.found[..count]);
        trie.lookup_burst(&self.roots[..count], bits, results, phases);
        for (&key, &number) in self.keys.iter().zip(&*results) {
            found[key as usize % BURST] = number;
        }
    }
}

/// Keys of a burst.
struct Keys<'a> {
    keys: &'a [u8],
    stride: usize,
}

impl Keys<'_> {
    /// A key with what pads it.
    #[inline(always)]
    fn key(&self, i: usize) -> &[u8] {
        &self.keys[i * self.stride..][..self.stride]
    }
}

/// The words of a set's side key.
#[inline(always)]
fn words_of<'a>(words: &'a [u64], windows: &[Window], at: u32) -> &'a [u64] {
    &words[at as usize * windows.len()..][..windows.len()]
}

/// Whether a field's keys fit a direct index.
fn is_narrow(field: Field) -> bool {
    field.len <= 4
}

fn is_zero(mask: &[u8]) -> bool {
    mask.iter().all(|&byte| byte == 0)
}

/// Bits that no mask of a field demands before the first that one does, if it lies in the first
/// byte; none if no mask demands any.
fn skip_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Option<u32> {
    let nonzero = parts.into_iter().filter(|part| !is_zero(part));
    nonzero.map(|part| part[0].leading_zeros() % 8).min()
}

/// The length in bits of a field's mask that is a prefix behind `skip` bits.
fn prefix_len(part: &[u8], skip: u32) -> Option<u32> {
    let (mut len, mut ended) = (0, false);
    for (i, &byte) in part.iter().enumerate() {
        let mut byte = byte;
        let mut bits = 8;
        if i == 0 {
            if byte.leading_zeros() < skip {
                return None;
            }
            byte <<= skip;
            bits -= skip;
        }
        let ones = byte.leading_ones();
        if ones != byte.count_ones() || ended && byte != 0 {
            return None;
        }
        len += ones;
        ended |= ones < bits;
    }
    Some(len)
}

/// A mask with the field's bytes cleared.
fn outside(mask: &[u8], field: Field) -> Box<[u8]> {
    let mut mask: Box<[u8]> = mask.into();
    mask[field.offset..field.offset + field.len].fill(0);
    mask
}

/// Whether a mask is the side key's, the field's bytes left aside.
fn same_outside(exact: &[u8], mask: &[u8], field: Field) -> bool {
    let end = field.offset + field.len;
    exact[..field.offset] == mask[..field.offset] && exact[end..] == mask[end..]
}

/// Writes the leading bits of a number to the field, behind `skip` bits.
fn put_bits(bytes: &mut [u8], field: Field, skip: u32, bits: u128) {
    let part = &mut bytes[field.offset..field.offset + field.len];
    part.copy_from_slice(&(bits >> skip).to_be_bytes()[..field.len]);
}

impl Structure for Lpm {
    fn kind(&self) -> Kind {
        Kind::Lpm
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        let rule = admit(&self.layout, rule, self.store.find(rule.id).is_some())?;
        if rule.ranges.is_empty() && self.is_catch_all(&rule.mask) {
            self.fits_beside(&rule).map_err(InsertError::Declined)?;
            self.add(&rule, 0);
            return Ok(());
        }
        let len = self.fits_in(&rule).map_err(InsertError::Declined)?;
        self.add(&rule, len);
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let slot = self.store.find(id)?;
        let rule = self.rule(slot);
        let at = self.store.entry(slot).set;
        if at == CATCH_ALL {
            match self.store.remove(self.catch_all, slot) {
                Left::Head => {}
                Left::NewHead(head) => self.catch_all = head,
                Left::Nothing => self.catch_all = NONE,
            }
            self.catch_all_priorities.take(rule.priority);
            self.store.set_miss(self.catch_all);
        } else {
            let (bits, len) = (self.store.bits(slot), self.store.prefix_len(slot));
            self.priorities[len as usize].take(rule.priority);
            let sets = self.sets();
            if let Some(set) = &mut self.sets[at as usize] {
                let head = set.number(&self.trie, bits, len);
                match self.store.remove(head, slot) {
                    Left::Head => {}
                    Left::NewHead(head) => set.renumber(&mut self.trie, bits, len, head),
                    Left::Nothing => set.remove(&mut self.trie, bits, len, sets),
                }
                if set.len() == 0 {
                    self.close(at);
                }
            }
        }
        if self.store.len() == 0 {
            self.exact = None;
            self.skip = None;
        }
        Some(rule)
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        let Some(slot) = self.store.find(id) else { return false };
        self.store.set_action(slot, action);
        self.store.set_miss(self.catch_all);
        true
    }

    fn touch(&self, id: u32) {
        if let Some(slot) = self.store.find(id) {
            prefetch(self.store.entry(slot));
        }
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(&self.layout, key);
        let Some(exact) = self.exact.as_ref() else { return Hit::MISS };
        let number = match self.only_dir() {
            Some(_) if !mask::equals(&exact.windows, &self.words, key) => NONE,
            Some(dir) => dir.lookup(narrow_of(key, self.field) << self.skip.unwrap_or(0)),
            None => match self.set_of(exact, key).map(|at| &self.sets[at as usize]) {
                Some(Some(set)) => set.lookup(&self.trie, self.bits(key)),
                _ => NONE,
            },
        };
        self.store.hits()[number as usize]
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        assert_burst(&self.layout, keys, stride, hits.len());
        let Some(exact) = self.exact.as_ref() else {
            hits.fill(Hit::MISS);
            return;
        };
        let only = self.only_dir();
        for (n, hits) in hits.chunks_mut(BURST).enumerate() {
            let burst = Keys { keys: &keys[n * BURST * stride..], stride };
            let Some(dir) = only else {
                self.lookup_any(exact, &burst, hits);
                continue;
            };
            let place = self.place(exact);
            direct::burst(dir, &place, self.store.hits(), burst.keys, stride, hits);
        }
    }

    fn len(&self) -> usize {
        self.store.len()
    }

    fn memory_bytes(&self) -> usize {
        let indices = self.sets.iter().flatten().map(Set::index_bytes);
        self.store.memory_bytes()
            + self.trie.memory_bytes()
            + indices.sum::<usize>()
            + self.sets.capacity() * size_of::<Option<Set>>()
            + self.words.capacity() * size_of::<u64>()
            + self.free.capacity() * size_of::<u32>()
            + self.by_words.allocation_size()
            + self.priorities.capacity() * size_of::<Priorities>()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        Box::new(self.store.slots().map(|slot| self.rule(slot)))
    }

    fn explain(&self) -> Explain {
        let lens = self.priorities.iter().map(|p| usize::from(!p.0.is_empty()));
        let longest = self.priorities.iter().rposition(|p| !p.0.is_empty());
        let steps = self.sets.iter().flatten().map(|s| s.steps(longest.unwrap_or(0) as u32));
        Explain {
            kind: Kind::Lpm,
            entries: self.len(),
            masks: lens.sum::<usize>() + usize::from(self.catch_all != NONE),
            probes_max: steps.max().unwrap_or(0) as usize,
            ranged: 0,
            memory_bytes: self.memory_bytes(),
        }
    }
}
