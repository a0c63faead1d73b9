//! One hash under one global mask over any set of fields.
//!
//! Besides the rules of that mask there may be rules that match everything (an OpenFlow table-miss
//! entry), the catch-all: they answer when the hash does not.
//!
//! Invariants: the store holds at most one group with a mask that has bits, and one without; no
//! rule carries ranges; every priority of the former exceeds every priority of the latter; payloads
//! are hits.
//! Cost: lookup, one hash and one cache line in most cases; update the same.
//! Checked by: [`linear`](crate::linear), in `tests/model.rs`.

use crate::buckets::{EMPTY, PHASE};
use crate::choose::{Declined, Kind};
use crate::group::{Group, Payload, pack, unpack};
use crate::rule::{Layout, Rule};
use crate::rules::{Rules, assert_burst, assert_key};
use crate::shape::TableShape;
use crate::simd::View;
use crate::{Explain, Hit, InsertError, Structure};

/// All rules under one mask.
#[derive(Debug)]
pub struct Hash {
    rules: Rules,
    /// The group under the mask, while there is one.
    group: Option<u32>,
    /// The group that matches everything, while there is one.
    catch_all: Option<u32>,
    /// The answer when the hash has none.
    otherwise: Hit,
}

/// Whether a hash can hold such a table.
pub fn fits(shape: &TableShape) -> Result<(), Declined> {
    if shape.ranged > 0 {
        return Err(Declined::Ranges { entries: shape.ranged });
    }
    let declined = Err(Declined::Masks { masks: shape.masks.len() });
    match &shape.masks[..] {
        [] | [_] => Ok(()),
        [one, other] => {
            let (catch_all, others) = match (is_zero(&one.mask), is_zero(&other.mask)) {
                (true, _) => (one, other),
                (_, true) => (other, one),
                _ => return declined,
            };
            beside(catch_all.priority_max, others.priority_min)
        }
        _ => declined,
    }
}

/// Whether a catch-all of priority `high` ranks below rules of priority `low` and up.
fn beside(high: u32, low: u32) -> Result<(), Declined> {
    if high < low {
        return Ok(());
    }
    Err(Declined::CatchAllOver { priority: high, not_below: low })
}

fn is_zero(mask: &[u8]) -> bool {
    mask.iter().all(|&byte| byte == 0)
}

impl Hash {
    /// An empty one; the first rule whose mask has bits sets the mask.
    pub fn new(layout: Layout) -> Hash {
        Self::from_rules(Rules::new(layout))
    }

    /// Takes over a store that [`fits`].
    pub(crate) fn from_rules(rules: Rules) -> Hash {
        let rules = rules.paying(Payload::Hit);
        let (mut group, mut catch_all) = (None, None);
        for (at, held) in rules.groups() {
            *if is_zero(held.mask()) { &mut catch_all } else { &mut group } = Some(at);
        }
        let mut hash = Hash { rules, group, catch_all, otherwise: Hit::MISS };
        hash.set_otherwise();
        hash
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn into_rules(self) -> Rules {
        self.rules
    }

    fn set_otherwise(&mut self) {
        let found = self.catch_all.and_then(|at| self.rules.group(at)).map(|g| g.find(&[]));
        self.otherwise = unpack(found.unwrap_or(EMPTY));
    }

    fn priorities(&self, group: Option<u32>) -> Option<(u32, u32)> {
        self.rules.group(group?)?.priorities()
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
        if is_zero(&rule.mask) {
            if let Some((low, _)) = self.priorities(self.group) {
                beside(rule.priority, low).map_err(InsertError::Declined)?;
            }
            self.catch_all = Some(self.rules.insert(&rule));
            self.set_otherwise();
            return Ok(());
        }
        if self.group.is_some() && self.rules.group_for(&rule.mask) != self.group {
            return Err(InsertError::Declined(Declined::Masks { masks: self.rules.masks() + 1 }));
        }
        if let Some((_, high)) = self.priorities(self.catch_all) {
            beside(high, rule.priority).map_err(InsertError::Declined)?;
        }
        self.group = Some(self.rules.insert(&rule));
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let (rule, group) = self.rules.remove(id)?;
        if self.rules.group(group).is_none() {
            self.group = self.group.filter(|&at| at != group);
            self.catch_all = self.catch_all.filter(|&at| at != group);
        }
        self.set_otherwise();
        Some(rule)
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        let known = self.rules.set_action(id, action);
        self.set_otherwise();
        known
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(self.layout(), key);
        let found = self.group.and_then(|at| self.rules.group(at)).map(|group| group.find(key));
        match found {
            None | Some(EMPTY) => self.otherwise,
            Some(found) => unpack(found),
        }
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        assert_burst(self.layout(), keys, stride, hits.len());
        let Some(group) = self.group.and_then(|at| self.rules.group(at)) else {
            hits.fill(self.otherwise);
            return;
        };
        match group.windows().len() {
            1 => burst::<1>(group, self.otherwise, keys, stride, hits),
            2 => burst::<2>(group, self.otherwise, keys, stride, hits),
            3 => burst::<3>(group, self.otherwise, keys, stride, hits),
            4 => burst::<4>(group, self.otherwise, keys, stride, hits),
            5 => burst::<5>(group, self.otherwise, keys, stride, hits),
            6 => burst::<6>(group, self.otherwise, keys, stride, hits),
            7 => burst::<7>(group, self.otherwise, keys, stride, hits),
            _ => burst_wide(group, self.otherwise, keys, stride, hits),
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
            probes_max: usize::from(self.group.is_some()),
            ranged: 0,
            memory_bytes: self.memory_bytes(),
        }
    }
}

/// Looks a burst up whose keys are `W` words under the mask.
#[inline(never)]
fn burst<const W: usize>(
    group: &Group,
    otherwise: Hit,
    keys: &[u8],
    stride: usize,
    hits: &mut [Hit],
) {
    let Some(windows) = group.windows().first_chunk::<W>() else { return };
    let (index, otherwise) = (group.index(), pack(otherwise));
    for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
        let view = View::new(&keys[part * PHASE * stride..], stride, hits.len(), windows);
        let (mut words, mut homes) = ([[0; W]; PHASE], [0; PHASE]);
        for (i, (words, home)) in words.iter_mut().zip(&mut homes).enumerate().take(hits.len()) {
            *words = view.words(i);
            *home = index.home(words);
        }
        for &home in &homes[..hits.len()] {
            index.prefetch::<W>(home);
        }
        for ((hit, words), &home) in hits.iter_mut().zip(&words).zip(&homes) {
            let found = index.find(home, words);
            *hit = unpack(if found == EMPTY { otherwise } else { found });
        }
    }
}

/// As [`burst`], for more words than are unrolled.
#[inline(never)]
fn burst_wide(group: &Group, otherwise: Hit, keys: &[u8], stride: usize, hits: &mut [Hit]) {
    let (index, windows) = (group.index(), group.windows());
    for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
        let keys = &keys[part * PHASE * stride..];
        let mut homes = [0; PHASE];
        for (i, home) in homes[..hits.len()].iter_mut().enumerate() {
            *home = index.home_wide(windows, &keys[i * stride..][..stride]);
            index.prefetch_wide(*home);
        }
        for (i, hit) in hits.iter_mut().enumerate() {
            let found = index.find_wide(homes[i], windows, &keys[i * stride..][..stride]);
            *hit = if found == EMPTY { otherwise } else { unpack(found) };
        }
    }
}
