//! One hash under one global mask over any set of fields.
//!
//! Invariants: the store holds at most one group; no rule carries ranges.
//! Cost: lookup, one hash, one tag match, one row; update the same.
//! Checked by: [`linear`](crate::linear), in `tests/model.rs`.

use crate::choose::{Declined, Kind};
use crate::rule::{Layout, Rule};
use crate::rules::{Rules, assert_key};
use crate::shape::TableShape;
use crate::{Explain, InsertError, Structure};

/// Keys whose hashes are taken together before any is looked up.
const PHASE: usize = 32;

/// All rules under one mask.
#[derive(Debug)]
pub struct Hash {
    rules: Rules,
    /// The only group, while there is one.
    group: Option<u32>,
}

/// Whether a hash can hold such a table.
pub fn fits(shape: &TableShape) -> Result<(), Declined> {
    if shape.ranged > 0 {
        return Err(Declined::Ranges { entries: shape.ranged });
    }
    if shape.masks.len() > 1 {
        return Err(Declined::Masks { masks: shape.masks.len() });
    }
    Ok(())
}

impl Hash {
    /// An empty one; the first rule sets the mask.
    pub fn new(layout: Layout) -> Hash {
        Hash { rules: Rules::new(layout), group: None }
    }

    /// Takes over a store that [`fits`].
    pub(crate) fn from_rules(rules: Rules) -> Hash {
        let group = rules.groups().map(|(group, _)| group).next();
        Hash { rules, group }
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn into_rules(self) -> Rules {
        self.rules
    }
}

impl Structure for Hash {
    fn kind(&self) -> Kind {
        Kind::Hash
    }

    fn layout(&self) -> &Layout {
        self.rules.layout()
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        let rule = self.rules.admit(rule)?;
        if !rule.ranges.is_empty() {
            return Err(InsertError::Declined(Declined::Ranges { entries: 1 }));
        }
        if self.group.is_some() && self.rules.group_for(&rule.mask).is_none() {
            return Err(InsertError::Declined(Declined::Masks { masks: 2 }));
        }
        self.group = Some(self.rules.insert(&rule).group);
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let (rule, change) = self.rules.remove(id)?;
        if self.rules.group(change.group).is_none() {
            self.group = None;
        }
        Some(rule)
    }

    fn lookup(&self, key: &[u8]) -> Option<u32> {
        assert_key(self.layout(), key);
        self.rules.lookup_in(self.group?, key).map(|hit| hit.id)
    }

    /// In two phases, so that the probes' cache misses overlap.
    fn lookup_batch(&self, keys: &[u8], out: &mut [Option<u32>]) {
        let key_len = self.layout().key_len();
        assert_eq!(keys.len(), key_len * out.len(), "a batch holds one key per answer");
        let Some(group) = self.group.and_then(|at| self.rules.group(at)) else {
            out.fill(None);
            return;
        };
        let ranges = self.rules.ranges();
        let mut hashes = [0u64; PHASE];
        for (n, answers) in out.chunks_mut(PHASE).enumerate() {
            let key = |i: usize| &keys[(n * PHASE + i) * key_len..][..key_len];
            for (i, hash) in hashes.iter_mut().enumerate().take(answers.len()) {
                *hash = group.hash(key(i));
            }
            for (i, answer) in answers.iter_mut().enumerate() {
                *answer = group.lookup_hashed(hashes[i], key(i), ranges).map(|hit| hit.id);
            }
        }
    }

    fn len(&self) -> usize {
        self.rules.len()
    }

    fn memory_bytes(&self) -> usize {
        self.rules.memory_bytes()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        Box::new(self.rules.iter())
    }

    fn explain(&self) -> Explain {
        Explain {
            kind: Kind::Hash,
            entries: self.len(),
            masks: self.rules.masks(),
            probes_max: self.rules.masks(),
            ranged: 0,
            memory_bytes: self.memory_bytes(),
        }
    }
}
