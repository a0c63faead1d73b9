//! What controllers put into a pipeline: entries, groups, meters; and the updates that do it.

use crate::bits::Bits;
use crate::call::ActionCall;
use crate::expr::Expr;
use crate::id::{ActionId, CounterId, EntryId, GroupId, MeterId, TableId, ValueSetId};
use crate::program::{Action, MatchKind, Program, Select, Table};
use std::sync::Arc;

/// What one key field must look like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Equal to this.
    Exact(Bits),
    /// Equal in the highest bits: value (zero below the prefix) and length.
    Prefix(Bits, u32),
    /// Equal where the mask is one: value (zero elsewhere) and mask.
    Masked(Bits, Bits),
    /// Between these, both included.
    Range(Bits, Bits),
}

impl Pattern {
    /// A value matches.
    pub fn matches(&self, value: &Bits) -> bool {
        match self {
            Pattern::Exact(v) => v == value,
            Pattern::Prefix(v, len) => {
                let by = value.width() - (*len).min(value.width());
                value.shr(by) == v.shr(by)
            }
            Pattern::Masked(v, mask) => value.and(mask) == *v,
            Pattern::Range(lo, hi) => value.compare(lo).is_ge() && value.compare(hi).is_le(),
        }
    }
}

/// A pattern for the key field at position `key` of its table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyMatch {
    /// Position in the table's key.
    pub key: u16,
    /// What it must look like.
    pub pattern: Pattern,
}

/// An entry: what must match, what then happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique in the pipeline, chosen by whoever inserts; also the index of its direct counter.
    pub id: EntryId,
    /// The highest one wins.
    pub priority: i32,
    /// Patterns by ascending key position; a key that is not listed matches anything.
    pub matches: Box<[KeyMatch]>,
    /// What happens on a match.
    pub action: ActionCall,
    /// The control plane's own; opaque to the lookup.
    pub cookie: u64,
    /// Removed after so long without a match; 0 is never. Nanoseconds.
    pub idle_timeout_ns: u64,
    /// Removed after so long; 0 is never. Nanoseconds.
    pub hard_timeout_ns: u64,
}

impl Entry {
    /// Every key field matches.
    pub fn matches(&self, key: &[Bits]) -> bool {
        self.matches.iter().all(|m| key.get(m.key as usize).is_some_and(|v| m.pattern.matches(v)))
    }

    /// Length of the entry's only prefix, for tables whose ties go to the longest one.
    pub(crate) fn prefix_len(&self, table: &Table) -> u32 {
        let mut lpm = table.key.iter().enumerate().filter(|(_, k)| k.kind == MatchKind::Lpm);
        let (Some((at, key)), None) = (lpm.next(), lpm.next()) else { return 0 };
        let pattern = self.matches.iter().find(|m| m.key as usize == at).map(|m| &m.pattern);
        match pattern {
            Some(Pattern::Prefix(_, len)) => *len,
            Some(Pattern::Exact(_)) => key.width,
            _ => 0,
        }
    }
}

/// What a group does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// One copy to every bucket (multicast).
    All,
    /// One copy to one live bucket, chosen by the hash of [`Group::hash`], in proportion to weights.
    Select,
    /// One copy to the only bucket.
    Indirect,
    /// One copy to the first live bucket.
    FastFailover,
    /// One copy to the bucket whose place is the hash of [`Group::hash`], modulo their number; whether it is live is of
    /// no interest.
    Slots,
}

impl GroupKind {
    /// A hash of the packet chooses the bucket.
    pub fn hashes(self) -> bool {
        matches!(self, GroupKind::Select | GroupKind::Slots)
    }
}

/// One bucket of a group: an action for its copy, which ends with it.
///
/// A bucket that watches a port and a group is live while either is; one that watches nothing always
/// is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Share of the packets in a `Select` group; 0 is none.
    pub weight: u16,
    /// Live while this port is up.
    pub watch_port: Option<u32>,
    /// Live while this group has a live bucket.
    pub watch_group: Option<GroupId>,
    /// What happens to the copy.
    pub action: ActionCall,
    /// Counts the copies.
    pub counter: CounterId,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its kind.
    pub kind: GroupKind,
    /// Buckets in order.
    pub buckets: Vec<Bucket>,
    /// Inputs of the hash that selects (`Select` and `Slots` only). Groups that share them cost the engines least.
    pub hash: Arc<[Expr]>,
    /// Counts the packets that reach the group.
    pub counter: CounterId,
}

/// A band of a meter: what happens to packets above a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// Packets per second, or bits per second.
    pub rate: u64,
    /// Packets, or bits, that may come at once; 0 leaves the choice to the switch.
    pub burst: u64,
    /// 1 marks (yellow), 2 drops (red).
    pub color: u8,
    /// Handed to the program with the colour.
    pub level: u8,
}

/// A meter. The band with the highest rate that is exceeded applies (OpenFlow 1.3.5 §5.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Rates count packets; otherwise bits.
    pub packets: bool,
    /// Bands in any order.
    pub bands: Vec<Band>,
}

/// One change.
#[derive(Clone, Debug)]
pub enum Update {
    /// Adds an entry; its id is not in use and no entry of the table has the same key and priority.
    Insert(TableId, Arc<Entry>),
    /// Replaces the entry with the same id; key and priority stay.
    Modify(TableId, Arc<Entry>),
    /// Removes an entry.
    Delete(TableId, EntryId),
    /// Removes every entry of a table.
    Clear(TableId),
    /// Sets a table's default action.
    SetDefault(TableId, ActionCall),
    /// Adds an action under an id that is not in use.
    AddAction(ActionId, Arc<Action>),
    /// Removes an action that was added and that nothing refers to.
    RemoveAction(ActionId),
    /// Adds or replaces a group.
    SetGroup(GroupId, Arc<Group>),
    /// Removes a group.
    RemoveGroup(GroupId),
    /// Adds or replaces a meter.
    SetMeter(MeterId, Arc<Meter>),
    /// Removes a meter.
    RemoveMeter(MeterId),
    /// Sets the members of a value set.
    SetValueSet(ValueSetId, Vec<Select>),
    /// Another program; entries, groups, meters and value sets begin empty.
    SetProgram(Arc<Program>),
}
