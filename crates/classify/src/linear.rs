//! The oracle: every rule in precedence order, read one by one.
//!
//! Shares no code with the structures it judges but the definition of a rule; it keeps rules as
//! they came, and removal returns them normalised only so that its answers compare.
//!
//! Cost: lookup, every rule that precedes the winner; insert, a move of the vector's tail.

use crate::declined::InsertError;
use crate::hit::Hit;
use crate::kind::Kind;
use crate::rule::{Layout, Rule};
use crate::rules::{admit, assert_key};
use crate::structure::{Explain, Structure};

/// Rules in order of precedence.
#[derive(Debug, Clone)]
pub struct Linear {
    layout: Layout,
    rules: Vec<Rule>,
}

impl Linear {
    /// An empty one.
    pub fn new(layout: Layout) -> Linear {
        Linear { layout, rules: Vec::new() }
    }

    /// The winning rule itself.
    pub fn winner(&self, key: &[u8]) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(key))
    }
}

impl Structure for Linear {
    fn kind(&self) -> Kind {
        Kind::Linear
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        admit(&self.layout, rule, self.rules.iter().any(|r| r.id == rule.id))?;
        let at = self.rules.partition_point(|r| r.precedence(rule).is_lt());
        self.rules.insert(at, rule.clone());
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let at = self.rules.iter().position(|r| r.id == id)?;
        Some(self.rules.remove(at).normalised())
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        let rule = self.rules.iter_mut().find(|r| r.id == id);
        rule.map(|rule| rule.action = action).is_some()
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(&self.layout, key);
        self.winner(key).map_or(Hit::MISS, Rule::hit)
    }

    fn len(&self) -> usize {
        self.rules.len()
    }

    fn memory_bytes(&self) -> usize {
        let one = |r: &Rule| r.value.len() + r.mask.len() + size_of_val(&*r.ranges);
        self.rules.capacity() * size_of::<Rule>() + self.rules.iter().map(one).sum::<usize>()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        Box::new(self.rules.iter().map(Rule::normalised))
    }

    fn explain(&self) -> Explain {
        let masks: std::collections::BTreeSet<_> = self.iter().map(|r| r.mask).collect();
        Explain {
            kind: Kind::Linear,
            entries: self.len(),
            masks: masks.len(),
            probes_max: self.len(),
            ranged: self.iter().filter(|r| !r.ranges.is_empty()).count(),
            memory_bytes: self.memory_bytes(),
        }
    }
}
