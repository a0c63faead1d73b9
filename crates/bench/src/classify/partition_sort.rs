//! PartitionSort (Yingchareonthawornchai, Daly, Liu, Torng, ICNP 2016), plain, for comparison.
//!
//! Rules are split into *sortable* sets: there is an order of the fields by which any two rules of a set,
//! compared field by field, have the same interval or disjoint ones in each field up to the first in which
//! they differ. A sortable set is a tree of ordered maps, a level per field, in which a header has one way.
//! Sets are asked in the order of their best priorities until none left can win.
//!
//! Rules that are there at once are split as the paper's GrInd does: of the rules left, the set takes, field by
//! field, the field and the intervals that keep the most rules. A rule that comes later joins the first set
//! that takes it, or makes one of its own, whose fields come in the order of the first set's.
//!
//! A rule's fields are intervals here: a mask that is no prefix is refused.
//!
//! Checked by: the unit test below, and by linear search before each bench.

use super::subject::Subject;
use classify::{Hit, Rule, classbench};
use std::collections::{BTreeMap, HashMap};

/// Fields of a key.
const FIELDS: usize = 5;
/// Where each lies in the key, and how long it is.
const PLACES: [(usize, usize); FIELDS] = [(0, 4), (4, 4), (8, 2), (10, 2), (12, 1)];

/// Lowest and highest value.
type Interval = (u32, u32);
/// The order of the fields.
type Order = [usize; FIELDS];

/// A rule as intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Boxed {
    fields: [Interval; FIELDS],
    priority: u32,
    hit: Hit,
}

/// A level of a set's tree: by the low ends of disjoint intervals.
#[derive(Debug, Default)]
struct Level(BTreeMap<u32, Branch>);

#[derive(Debug)]
struct Branch {
    high: u32,
    below: Below,
}

#[derive(Debug)]
enum Below {
    Level(Level),
    /// Rules that match the same, the best first.
    Rules(Vec<Boxed>),
}

/// A sortable set.
#[derive(Debug)]
struct Set {
    order: Order,
    root: Level,
    /// How many rules have each priority.
    priorities: BTreeMap<u32, u32>,
}

/// Sortable sets.
#[derive(Debug, Default)]
pub(super) struct PartitionSort {
    /// By their best priorities, descending.
    sets: Vec<Set>,
    rules: HashMap<u32, (Boxed, usize)>,
    /// Sets by number, as `rules` has them; `sets` are in another order.
    numbers: Vec<usize>,
}

impl PartitionSort {
    /// Of rules that are there at once; those whose masks are no prefixes are left out.
    pub(super) fn of(rules: &[&Rule]) -> PartitionSort {
        let mut sorted = PartitionSort::default();
        let mut left: Vec<Boxed> = rules.iter().filter_map(|rule| boxed(rule)).collect();
        left.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        while !left.is_empty() {
            let (order, taken) = sortable(&left);
            let number = sorted.open(order);
            let mut keep = taken.iter();
            left.retain(|rule| {
                let kept = *keep.next().unwrap_or(&false);
                // What is alike in all fields is always taken, so an insert cannot fail.
                !(kept && sorted.join(number, *rule))
            });
        }
        sorted.sort();
        sorted
    }

    fn open(&mut self, order: Order) -> usize {
        let set = Set { order, root: Level::default(), priorities: BTreeMap::new() };
        self.sets.push(set);
        self.numbers.push(self.numbers.len());
        self.numbers.len() - 1
    }

    fn set_of(&mut self, number: usize) -> Option<&mut Set> {
        let at = self.numbers.iter().position(|&other| other == number)?;
        self.sets.get_mut(at)
    }

    /// Adds a rule to a set, if it fits there.
    fn join(&mut self, number: usize, rule: Boxed) -> bool {
        let Some(set) = self.set_of(number) else { return false };
        let order = set.order;
        if !set.root.insert(&order, rule) {
            return false;
        }
        *set.priorities.entry(rule.priority).or_insert(0) += 1;
        self.rules.insert(rule.hit.entry, (rule, number));
        true
    }

    /// Puts the sets in the order in which they are asked; they nearly are.
    fn sort(&mut self) {
        let sets = std::mem::take(&mut self.sets);
        let mut both: Vec<(usize, Set)> = self.numbers.drain(..).zip(sets).collect();
        both.sort_by_key(|(_, set)| std::cmp::Reverse(set.best()));
        (self.numbers, self.sets) = both.into_iter().unzip();
    }

    fn is_sorted(&self) -> bool {
        self.sets.is_sorted_by_key(|set| std::cmp::Reverse(set.best()))
    }
}

impl Set {
    fn best(&self) -> Option<u32> {
        self.priorities.last_key_value().map(|(&priority, _)| priority)
    }
}

impl Level {
    /// Adds a rule below, if its intervals allow.
    fn insert(&mut self, order: &[usize], rule: Boxed) -> bool {
        let Some((&field, rest)) = order.split_first() else { return false };
        let (low, high) = rule.fields[field];
        if let Some((&begin, branch)) = self.0.range_mut(..=high).next_back() {
            if (begin, branch.high) == (low, high) {
                return match &mut branch.below {
                    Below::Level(level) => level.insert(rest, rule),
                    Below::Rules(rules) => {
                        let at = rules.partition_point(|other| other.beats(&rule));
                        rules.insert(at, rule);
                        true
                    }
                };
            }
            if branch.high >= low {
                return false;
            }
        }
        let below = if rest.is_empty() {
            Below::Rules(vec![rule])
        } else {
            let mut level = Level::default();
            level.insert(rest, rule);
            Below::Level(level)
        };
        self.0.insert(low, Branch { high, below });
        true
    }

    /// Takes a rule out.
    fn remove(&mut self, order: &[usize], rule: &Boxed) -> bool {
        let Some((&field, rest)) = order.split_first() else { return false };
        let low = rule.fields[field].0;
        let Some(branch) = self.0.get_mut(&low) else { return false };
        let (removed, empty) = match &mut branch.below {
            Below::Level(level) => (level.remove(rest, rule), level.0.is_empty()),
            Below::Rules(rules) => {
                let before = rules.len();
                rules.retain(|other| other.hit.entry != rule.hit.entry);
                (rules.len() < before, rules.is_empty())
            }
        };
        if empty {
            self.0.remove(&low);
        }
        removed
    }

    fn lookup(&self, order: &[usize], values: &[u32; FIELDS]) -> Option<&Boxed> {
        let (&field, rest) = order.split_first()?;
        let (_, branch) = self.0.range(..=values[field]).next_back()?;
        if branch.high < values[field] {
            return None;
        }
        match &branch.below {
            Below::Level(level) => level.lookup(rest, values),
            Below::Rules(rules) => rules.first(),
        }
    }

    fn memory_bytes(&self) -> usize {
        let below = self.0.values().map(|branch| match &branch.below {
            Below::Level(level) => level.memory_bytes(),
            Below::Rules(rules) => rules.capacity() * size_of::<Boxed>(),
        });
        // A node of the ordered map has room for eleven, and is two thirds full on average.
        let nodes = self.0.len().div_ceil(7);
        nodes * 11 * (4 + size_of::<Branch>()) + below.sum::<usize>()
    }
}

impl Boxed {
    fn beats(&self, other: &Boxed) -> bool {
        (self.priority, other.hit.entry) > (other.priority, self.hit.entry)
    }
}

/// A rule as intervals, if it is.
fn boxed(rule: &Rule) -> Option<Boxed> {
    let number = |bytes: &[u8]| bytes.iter().fold(0u32, |n, &byte| n << 8 | u32::from(byte));
    let mut fields = [(0, 0); FIELDS];
    for (to, (at, len)) in fields.iter_mut().zip(PLACES) {
        let (value, mask) = (number(&rule.value[at..at + len]), number(&rule.mask[at..at + len]));
        let below = !mask & (u32::MAX >> (32 - 8 * len));
        if below & below.wrapping_add(1) != 0 {
            return None;
        }
        *to = (value, value | below);
    }
    for range in &rule.ranges {
        let at = PLACES.iter().position(|(at, _)| *at == range.offset as usize)?;
        fields[at] = (u32::try_from(range.lo).ok()?, u32::try_from(range.hi).ok()?);
    }
    Some(Boxed { fields, priority: rule.priority, hit: rule.hit() })
}

/// Which of these rules make a sortable set, and by which order of the fields.
fn sortable(rules: &[Boxed]) -> (Order, Vec<bool>) {
    // Rules that are alike in the fields chosen so far have one group.
    let mut groups: Vec<Option<usize>> = vec![Some(0); rules.len()];
    let mut order = Vec::new();
    while order.len() < FIELDS {
        let open = (0..FIELDS).filter(|field| !order.contains(field));
        let split = open.map(|field| (field, keep(rules, &groups, field)));
        let best = split
            .max_by_key(|(field, kept)| (kept.iter().flatten().count(), std::cmp::Reverse(*field)));
        let Some((field, kept)) = best else { break };
        order.push(field);
        groups = kept;
    }
    let order = std::array::from_fn(|at| order.get(at).copied().unwrap_or(at));
    (order, groups.iter().map(Option::is_some).collect())
}

/// Of each group the rules of disjoint intervals in a field, as many as can be, in groups by interval.
fn keep(rules: &[Boxed], groups: &[Option<usize>], field: usize) -> Vec<Option<usize>> {
    // Group, high end, low end: weights.
    let mut weights: BTreeMap<(usize, u32, u32), usize> = BTreeMap::new();
    for (rule, group) in rules.iter().zip(groups) {
        let (low, high) = rule.fields[field];
        if let Some(group) = group {
            *weights.entry((*group, high, low)).or_insert(0) += 1;
        }
    }
    let all: Vec<((usize, u32, u32), usize)> = weights.into_iter().collect();
    // The best weight of the first so many, and whether the last of them is part of it.
    let mut best = vec![(0, false); all.len() + 1];
    let before = |at: usize| {
        let ((group, _, low), _) = all[at];
        all[..at].partition_point(|&((other, high, _), _)| (other, high) < (group, low))
    };
    for at in 0..all.len() {
        let with = best[before(at)].0 + all[at].1;
        let without = best[at].0;
        best[at + 1] = (with.max(without), with > without);
    }
    let mut kept = HashMap::new();
    let mut at = all.len();
    while at > 0 {
        if best[at].1 {
            kept.insert(all[at - 1].0, at);
            at = before(at - 1);
        } else {
            at -= 1;
        }
    }
    let of = |(rule, group): (&Boxed, &Option<usize>)| {
        let (low, high) = rule.fields[field];
        kept.get(&((*group)?, high, low)).copied()
    };
    rules.iter().zip(groups).map(of).collect()
}

impl Subject for PartitionSort {
    fn insert(&mut self, rule: &Rule) -> bool {
        let Some(rule) = boxed(rule) else { return false };
        let numbers = self.numbers.clone();
        if !numbers.into_iter().any(|number| self.join(number, rule)) {
            let order = self.sets.first().map_or([0, 1, 2, 3, 4], |set| set.order);
            let number = self.open(order);
            self.join(number, rule);
        }
        if !self.is_sorted() {
            self.sort();
        }
        true
    }

    fn remove(&mut self, id: u32) -> bool {
        let Some((rule, number)) = self.rules.remove(&id) else { return false };
        let Some(set) = self.set_of(number) else { return false };
        let order = set.order;
        set.root.remove(&order, &rule);
        if let Some(count) = set.priorities.get_mut(&rule.priority) {
            *count -= 1;
            if *count == 0 {
                set.priorities.remove(&rule.priority);
            }
        }
        if !self.is_sorted() {
            self.sort();
        }
        true
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        let number = |bytes: &[u8]| bytes.iter().fold(0u32, |n, &byte| n << 8 | u32::from(byte));
        let values = PLACES.map(|(at, len)| number(&key[at..at + len]));
        let mut best: Option<&Boxed> = None;
        for set in &self.sets {
            if best.is_some_and(|best| Some(best.priority) > set.best()) {
                break;
            }
            if let Some(found) = set.root.lookup(&set.order, &values)
                && best.is_none_or(|best| found.beats(best))
            {
                best = Some(found);
            }
        }
        best.map_or(Hit::MISS, |best| best.hit)
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        for (key, hit) in keys.chunks(stride).zip(hits) {
            *hit = self.lookup(&key[..classbench::KEY_LEN]);
        }
    }

    fn memory_bytes(&self) -> usize {
        let trees: usize = self.sets.iter().map(|set| set.root.memory_bytes()).sum();
        trees + self.rules.capacity() * (size_of::<(u32, Boxed, usize)>() + 1)
    }

    fn tables(&self) -> usize {
        self.sets.len()
    }

    fn text(&self) -> String {
        format!("partition_sort: {} entries, {} sortable sets", self.rules.len(), self.sets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use classify::classbench::{Draw, KEY_LEN, STRIDE};

    #[test]
    fn it_finds_what_linear_search_finds() {
        let lines: Vec<String> = (0..400)
            .map(|n: u32| {
                let (a, b) = (n * 7 % 5, n * 11 % 13);
                let (low, high) = (n % 40, n % 40 + n % 7 * 100);
                format!(
                    "@10.{a}.{b}.0/{} 20.{b}.{a}.0/{} {low}:{high} 0:{} 6/{}",
                    n * 3 % 33,
                    n * 5 % 33,
                    65535 - n % 3,
                    ["ff", "0"][n as usize % 2]
                )
            })
            .collect();
        let rules = classbench::rules(&lines.join("\n")).unwrap();
        let mut present: Vec<bool> = (0..rules.len()).map(|n| n % 3 != 0).collect();
        let loaded: Vec<&Rule> =
            rules.iter().zip(&present).filter(|(_, there)| **there).map(|(rule, _)| rule).collect();
        let mut subject = PartitionSort::of(&loaded);
        let keys = classbench::headers(&rules, 500, 3);
        let check = |subject: &PartitionSort, present: &[bool]| {
            for key in keys.chunks(STRIDE).map(|key| &key[..KEY_LEN]) {
                let wanted = rules.iter().zip(present).find(|(r, there)| **there && r.matches(key));
                assert_eq!(subject.lookup(key), wanted.map_or(Hit::MISS, |(rule, _)| rule.hit()));
            }
        };
        check(&subject, &present);
        let mut draw = Draw::new(5);
        for step in 0..3000 {
            let at = draw.below(rules.len());
            let done = match present[at] {
                true => subject.remove(rules[at].id),
                false => subject.insert(&rules[at]),
            };
            assert!(done);
            present[at] = !present[at];
            if step % 300 == 0 {
                check(&subject, &present);
            }
        }
        assert!(
            subject.is_sorted() && subject.rules.len() == present.iter().filter(|p| **p).count()
        );
    }
}
