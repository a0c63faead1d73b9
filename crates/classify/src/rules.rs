//! The store behind every structure but `linear`: groups by mask, and ids.
//!
//! Kept apart from the structures so that a table can change its structure without touching its
//! rules.
//!
//! Invariants: a rule is stored normalised, in the group of its normalised mask; no group is
//! empty; ids are unique. Group numbers are stable while the group lives and are reused after.
//! Cost: an update is two hash lookups and one group's update.
//! Checked by: `tests/model.rs`.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::InsertError;
use crate::group::{Chain, Group, Hit, RangeLists};
use crate::rule::{Layout, Rule};

/// What an update changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    /// The group concerned; for a removal it may be gone by now.
    pub(crate) group: u32,
    /// Its chain with this value.
    pub(crate) chain: Chain,
}

/// All rules of a table.
#[derive(Debug)]
pub(crate) struct Rules {
    layout: Layout,
    groups: Vec<Option<Group>>,
    free: Vec<u32>,
    by_mask: HashMap<Box<[u8]>, u32, FixedState>,
    by_id: HashMap<u32, (u32, u32), FixedState>,
    ranges: RangeLists,
}

impl Rules {
    pub(crate) fn new(layout: Layout) -> Rules {
        let state = FixedState::with_seed(layout.seed());
        Rules {
            layout,
            groups: Vec::new(),
            free: Vec::new(),
            by_mask: HashMap::with_hasher(state.clone()),
            by_id: HashMap::with_hasher(state),
            ranges: RangeLists::default(),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Rules that have ranges to compare.
    pub(crate) fn ranged(&self) -> usize {
        self.ranges.len()
    }

    /// Distinct masks.
    pub(crate) fn masks(&self) -> usize {
        self.by_mask.len()
    }

    /// Whether the rule could be added to some structure; its normalised form if so.
    pub(crate) fn admit(&self, rule: &Rule) -> Result<Rule, InsertError> {
        admit(&self.layout, rule, self.by_id.contains_key(&rule.id))
    }

    /// Adds a rule that [`Rules::admit`] returned.
    pub(crate) fn insert(&mut self, rule: &Rule) -> Change {
        let group = match self.by_mask.get(&rule.mask) {
            Some(&group) => group,
            None => self.open(&rule.mask),
        };
        let ranges = self.ranges.keep(&rule.ranges);
        let chain = self.group_mut(group).insert(rule, ranges);
        self.by_id.insert(rule.id, (group, chain.row));
        Change { group, chain }
    }

    /// Takes a rule out, and its group if it was the last there.
    pub(crate) fn remove(&mut self, id: u32) -> Option<(Rule, Change)> {
        let (group, row) = self.by_id.remove(&id)?;
        let slot = &mut self.groups[group as usize];
        let owner = slot.as_mut().expect("an id names a live group");
        let (rule, chain) = owner.remove(row, &mut self.ranges);
        if owner.len() == 0 {
            self.by_mask.remove(&rule.mask);
            *slot = None;
            self.free.push(group);
        }
        Some((rule, Change { group, chain }))
    }

    /// The group that holds an id.
    pub(crate) fn group_of(&self, id: u32) -> Option<u32> {
        self.by_id.get(&id).map(|&(group, _)| group)
    }

    /// The group of a mask.
    pub(crate) fn group_for(&self, mask: &[u8]) -> Option<u32> {
        self.by_mask.get(mask).copied()
    }

    fn open(&mut self, mask: &[u8]) -> u32 {
        let group = Group::new(mask, self.layout.seed());
        let at = match self.free.pop() {
            Some(at) => {
                self.groups[at as usize] = Some(group);
                at
            }
            None => {
                self.groups.push(Some(group));
                (self.groups.len() - 1) as u32
            }
        };
        self.by_mask.insert(mask.into(), at);
        at
    }

    /// The group of that number, if it lives.
    #[inline]
    pub(crate) fn group(&self, at: u32) -> Option<&Group> {
        self.groups.get(at as usize)?.as_ref()
    }

    fn group_mut(&mut self, at: u32) -> &mut Group {
        self.groups[at as usize].as_mut().expect("a mask names a live group")
    }

    /// Live groups with their numbers.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (u32, &Group)> + '_ {
        self.groups.iter().enumerate().filter_map(|(at, g)| Some((at as u32, g.as_ref()?)))
    }

    /// The best match within one group.
    #[inline]
    pub(crate) fn lookup_in(&self, group: u32, key: &[u8]) -> Option<Hit> {
        self.group(group)?.lookup(key, &self.ranges)
    }

    pub(crate) fn ranges(&self) -> &RangeLists {
        &self.ranges
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Rule> + '_ {
        self.groups().flat_map(|(_, g)| g.live_rows().map(|row| g.rule(row, &self.ranges)))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Option<Group>>()
            + self.groups().map(|(_, g)| g.memory_bytes()).sum::<usize>()
            + self.free.capacity() * 4
            + self.by_mask.allocation_size()
            + self.by_mask.len() * self.layout.key_len()
            + self.by_id.allocation_size()
            + self.ranges.memory_bytes()
    }
}

/// The gate of every structure: sound, and under a new id.
pub(crate) fn admit(layout: &Layout, rule: &Rule, id_taken: bool) -> Result<Rule, InsertError> {
    rule.checked(layout)?;
    if id_taken {
        return Err(InsertError::DuplicateId(rule.id));
    }
    Ok(rule.normalised())
}

/// A key of the wrong length is a fault of ours, not of the packet.
#[inline]
pub(crate) fn assert_key(layout: &Layout, key: &[u8]) {
    assert_eq!(key.len(), layout.key_len(), "a key is as long as the table's layout says");
}
