//! The store behind every structure but `linear`: groups by mask, rows, and ids.
//!
//! Kept apart from the structures so that a table can change its structure without copying its
//! rules.
//!
//! Invariants: a rule is stored normalised, in the group of its normalised mask; no group is
//! empty; ids are unique. Group numbers are stable while the group lives and are reused after.
//! Cost: an update is two hash lookups and one group's update; a change of what payloads mean, a
//! probe per rule.
//! Checked by: `tests/model.rs`.

use std::borrow::Cow;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::declined::InsertError;
use crate::group::{Group, Payload, Store};
use crate::rows::{Candidate, Ids, Rows};
use crate::rule::{Layout, Rule};

/// All rules of a table.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    layout: Layout,
    groups: Vec<Option<Group>>,
    free: Vec<u32>,
    by_mask: HashMap<Box<[u8]>, u32, FixedState>,
    store: Store,
}

impl Rules {
    /// An empty store whose payloads are hits.
    pub(crate) fn new(layout: Layout) -> Rules {
        let seed = layout.seed();
        Rules {
            layout,
            groups: Vec::new(),
            free: Vec::new(),
            by_mask: HashMap::with_hasher(FixedState::with_seed(seed)),
            store: Store { rows: Rows::default(), ids: Ids::new(seed), payload: Payload::Hit },
        }
    }

    /// The same rules with payloads of this meaning.
    pub(crate) fn paying(mut self, payload: Payload) -> Rules {
        if self.store.payload != payload {
            for group in self.groups.iter_mut().flatten() {
                group.repay(payload, &mut self.store);
            }
            self.store.payload = payload;
        }
        self
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn len(&self) -> usize {
        self.store.ids.len()
    }

    /// Rules that have ranges to compare.
    pub(crate) fn ranged(&self) -> usize {
        self.store.rows.ranged()
    }

    /// Distinct masks.
    pub(crate) fn masks(&self) -> usize {
        self.by_mask.len()
    }

    /// Whether the rule could be added to some structure; its normalised form if so.
    pub(crate) fn admit<'a>(&self, rule: &'a Rule) -> Result<Cow<'a, Rule>, InsertError> {
        admit(&self.layout, rule, self.store.ids.get(rule.id).is_some())
    }

    /// Adds a rule that [`Rules::admit`] returned; the number of its group.
    pub(crate) fn insert(&mut self, rule: &Rule) -> u32 {
        let at = match self.by_mask.get(&rule.mask) {
            Some(&at) => at,
            None => self.open(&rule.mask),
        };
        let group = self.groups[at as usize].as_mut().expect("a mask names a live group");
        group.insert(rule, &mut self.store);
        at
    }

    /// Takes a rule out, and its group if it was the last there; the number of the group besides.
    pub(crate) fn remove(&mut self, id: u32) -> Option<(Rule, u32)> {
        let row = self.store.ids.get(id)?;
        let at = self.store.rows.group(row);
        let slot = &mut self.groups[at as usize];
        let group = slot.as_mut().expect("a row names a live group");
        let rule = group.remove(row, &mut self.store);
        if group.len() == 0 {
            self.by_mask.remove(&rule.mask);
            if let Some(group) = slot.take() {
                group.close(&mut self.store.rows);
            }
            self.free.push(at);
        }
        Some((rule, at))
    }

    /// Gives a rule another action; false if there is none of that id.
    pub(crate) fn set_action(&mut self, id: u32, action: u32) -> bool {
        let Some(row) = self.store.ids.get(id) else { return false };
        let at = self.store.rows.group(row);
        let group = self.groups[at as usize].as_mut().expect("a row names a live group");
        group.set_action(row, action, &mut self.store);
        true
    }

    /// The group that holds an id.
    pub(crate) fn group_of(&self, id: u32) -> Option<u32> {
        Some(self.store.rows.group(self.store.ids.get(id)?))
    }

    /// The group of a mask.
    pub(crate) fn group_for(&self, mask: &[u8]) -> Option<u32> {
        self.by_mask.get(mask).copied()
    }

    fn open(&mut self, mask: &[u8]) -> u32 {
        let at = self.free.pop().unwrap_or(self.groups.len() as u32);
        let group = Some(Group::new(at, mask, self.layout.seed()));
        match self.groups.get_mut(at as usize) {
            Some(slot) => *slot = group,
            None => self.groups.push(group),
        }
        self.by_mask.insert(mask.into(), at);
        at
    }

    /// The group of that number, if it lives.
    #[inline]
    pub(crate) fn group(&self, at: u32) -> Option<&Group> {
        self.groups.get(at as usize)?.as_ref()
    }

    /// Live groups with their numbers.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (u32, &Group)> + '_ {
        self.groups.iter().enumerate().filter_map(|(at, g)| Some((at as u32, g.as_ref()?)))
    }

    /// The best match within one group.
    pub(crate) fn lookup_in(&self, group: u32, key: &[u8]) -> Option<Candidate> {
        self.group(group)?.lookup(key, &self.store)
    }

    /// Rows and ids.
    #[inline]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// What decides about a rule.
    pub(crate) fn candidate_of(&self, id: u32) -> Option<Candidate> {
        Some(self.store.rows.candidate(self.store.ids.get(id)?))
    }

    /// The rule of an id.
    pub(crate) fn rule_of(&self, id: u32) -> Option<Rule> {
        Some(self.rule(self.store.ids.get(id)?))
    }

    /// The rule in a row.
    pub(crate) fn rule(&self, row: u32) -> Rule {
        let group = self.group(self.store.rows.group(row));
        group.expect("a row names a live group").rule(row, &self.store.rows)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Rule> + '_ {
        self.groups().flat_map(|(_, group)| group.iter(&self.store.rows))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Option<Group>>()
            + self.groups().map(|(_, g)| g.memory_bytes()).sum::<usize>()
            + self.free.capacity() * 4
            + self.by_mask.allocation_size()
            + self.by_mask.len() * self.layout.key_len()
            + self.store.rows.memory_bytes()
            + self.store.ids.memory_bytes()
    }
}

/// The gate of every structure: sound, and under a new id.
pub(crate) fn admit<'a>(
    layout: &Layout,
    rule: &'a Rule,
    id_taken: bool,
) -> Result<Cow<'a, Rule>, InsertError> {
    rule.checked(layout)?;
    if id_taken {
        return Err(InsertError::DuplicateId(rule.id));
    }
    // Most rules come as they should be; they are not copied.
    let normal =
        rule.ranges.is_empty() && rule.value.iter().zip(&rule.mask).all(|(v, m)| v & !m == 0);
    Ok(if normal { Cow::Borrowed(rule) } else { Cow::Owned(rule.normalised()) })
}

/// As [`assert_key`], for a burst of `count` keys.
#[inline]
pub(crate) fn assert_burst(layout: &Layout, keys: &[u8], stride: usize, count: usize) {
    assert!(
        stride >= layout.stride() && stride.is_multiple_of(8),
        "keys of a burst lie on 8 byte boundaries and do not overlap"
    );
    assert!(
        count.checked_mul(stride).is_some_and(|len| len <= keys.len()),
        "a burst holds one key per answer"
    );
}

/// A key of the wrong length is a fault of ours, not of the packet.
#[inline]
pub(crate) fn assert_key(layout: &Layout, key: &[u8]) {
    assert_eq!(key.len(), layout.key_len(), "a key is as long as the table's layout says");
}
