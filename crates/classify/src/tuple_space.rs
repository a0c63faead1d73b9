//! Tuple space search (Srinivasan, Suri, Varghese, 1999): one hash per distinct mask.
//!
//! The general form: it takes every rule. Tuples are probed in the order of their best priority,
//! and the search ends when no tuple left can win.
//!
//! Invariants: `order` holds each live group once, sorted by its highest priority, descending.
//! Cost: lookup, one probe per mask until the winner's priority exceeds those of the tuples left;
//! update, one group's, and a move within `order` when the group's best priority changed.
//! Checked by: [`linear`](crate::linear), in `tests/model.rs`.

use std::cmp::Reverse;

use crate::choose::Kind;
use crate::group::Hit;
use crate::rule::{Layout, Rule};
use crate::rules::{Rules, assert_key};
use crate::{Explain, InsertError, Structure};

/// A tuple's place in the order of probing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tuple {
    priority_max: u32,
    group: u32,
}

/// One hash per distinct mask.
#[derive(Debug)]
pub struct TupleSpace {
    rules: Rules,
    order: Vec<Tuple>,
}

impl TupleSpace {
    /// An empty one.
    pub fn new(layout: Layout) -> TupleSpace {
        Self::from_rules(Rules::new(layout))
    }

    /// Takes over a store as it is; costs a sort of its masks.
    pub(crate) fn from_rules(rules: Rules) -> TupleSpace {
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

/// Probes tuples until none left can win.
#[inline]
fn search(rules: &Rules, order: &[Tuple], key: &[u8]) -> Option<u32> {
    let mut best: Option<Hit> = None;
    for tuple in order {
        if best.is_some_and(|b| b.priority > tuple.priority_max) {
            break;
        }
        if let Some(hit) = rules.lookup_in(tuple.group, key)
            && best.is_none_or(|b| hit.beats(&b))
        {
            best = Some(hit);
        }
    }
    best.map(|hit| hit.id)
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
        let group = self.rules.insert(&rule).group;
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

    fn lookup(&self, key: &[u8]) -> Option<u32> {
        assert_key(self.layout(), key);
        search(&self.rules, &self.order, key)
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
