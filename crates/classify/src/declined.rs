//! Why a structure cannot hold a table, or a rule.

use crate::rule::RuleError;
use std::fmt;

/// Why a special form cannot hold a table. Not an error: the general form can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declined {
    /// There is nothing to judge by.
    Empty,
    /// Entries compare ranges.
    Ranges {
        /// How many.
        entries: usize,
    },
    /// A tree is planned from the entries, not filled one by one.
    Planned,
    /// More than one mask.
    Masks {
        /// How many.
        masks: usize,
    },
    /// Masks that are no prefixes.
    Ternary {
        /// In how many fields.
        fields: usize,
    },
    /// Prefixes of different lengths in more than one field.
    Prefixes {
        /// In how many.
        fields: usize,
    },
    /// No field of at most 128 bits is masked by prefixes.
    NoPrefix,
    /// The prefix field is too wide.
    Wide {
        /// Its width in bits.
        bits: u32,
    },
    /// The masks outside the prefix field differ.
    ExactPart,
    /// Rules that match everything do not rank below all others.
    CatchAll {
        /// Their highest priority.
        priority: u32,
        /// The lowest of the others, which it should be below.
        not_below: u32,
    },
    /// Ranges in more than one field, or across fields.
    RangeFields {
        /// In how many places.
        fields: usize,
    },
    /// No field of at most 64 bits for ranges.
    NoRangeField,
    /// The field with ranges is too wide.
    RangeWide {
        /// Its width in bits.
        bits: u32,
    },
    /// The masks outside the field with ranges differ.
    RangeExactPart,
    /// Rules that match everything do not rank below all others.
    CatchAllOver {
        /// Their highest priority.
        priority: u32,
        /// The lowest of the others, which it should be below.
        not_below: u32,
    },
    /// Too many entries.
    Entries {
        /// How many.
        entries: usize,
        /// How many at most.
        max: usize,
    },
    /// Too many entries under masks of few entries.
    Compared {
        /// How many.
        entries: usize,
        /// How many at most.
        max: usize,
    },
    /// Too many entries with ranges that may have one value otherwise.
    Colliding {
        /// How many.
        entries: usize,
        /// How many at most.
        max: usize,
    },
    /// Too many masks of many entries.
    Probes {
        /// How many.
        masks: usize,
        /// How many at most.
        max: usize,
    },
    /// A longer prefix does not outrank a shorter one.
    Priorities {
        /// Length in bits of the shorter prefix.
        shorter: u32,
        /// Its priority.
        priority: u32,
        /// Length in bits of the longer.
        longer: u32,
        /// Its priority, which should be above the shorter one's.
        not_above: u32,
    },
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |n: usize| if n == 1 { "" } else { "s" };
        match self {
            Declined::Empty => write!(f, "no entries yet"),
            Declined::Ranges { entries: 1 } => write!(f, "1 entry compares ranges"),
            Declined::Ranges { entries } => write!(f, "{entries} entries compare ranges"),
            Declined::Planned => write!(f, "it is planned from the entries of a table"),
            Declined::Masks { masks } => write!(f, "{masks} distinct masks"),
            Declined::Ternary { fields } => write!(f, "ternary in {fields} field{}", s(*fields)),
            Declined::Prefixes { fields } => write!(f, "prefixes in {fields} fields"),
            Declined::NoPrefix => write!(f, "no prefix field of at most 128 bits"),
            Declined::Wide { bits } => write!(f, "a prefix field of {bits} bits; 128 at most"),
            Declined::ExactPart => write!(f, "masks differ outside the prefix field"),
            Declined::CatchAll { priority, not_below } => write!(
                f,
                "a catch-all of priority {priority} is not below the lowest prefix's, {not_below}"
            ),
            Declined::RangeFields { fields: 1 } => write!(f, "ranges of bytes that are no field"),
            Declined::RangeFields { fields } => write!(f, "ranges in {fields} fields"),
            Declined::NoRangeField => write!(f, "no field of at most 64 bits"),
            Declined::RangeWide { bits } => write!(f, "ranges of {bits} bits; 64 at most"),
            Declined::RangeExactPart => write!(f, "masks differ outside the range field"),
            Declined::CatchAllOver { priority, not_below } => write!(
                f,
                "a catch-all of priority {priority} is not below the lowest other, {not_below}"
            ),
            Declined::Entries { entries, max } => write!(f, "{entries} entries; {max} at most"),
            Declined::Compared { entries, max } => {
                write!(f, "{entries} entries of rare masks; {max} at most")
            }
            Declined::Colliding { entries, max } => {
                write!(f, "{entries} entries of masks of many compare ranges; {max} at most")
            }
            Declined::Probes { masks, max } => {
                write!(f, "{masks} masks of many entries; {max} at most")
            }
            Declined::Priorities { shorter, priority, longer, not_above } => write!(
                f,
                "priorities do not grow with the prefix: /{shorter} has {priority}, \
                 /{longer} has {not_above}"
            ),
        }
    }
}

/// Why a structure refused a rule. It is unchanged after a refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InsertError {
    /// The rule itself is malformed for this table.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The id is taken; ids are the caller's entry slots and unique in a table.
    #[error("entry id {0} is in use; remove it first or choose another id")]
    DuplicateId(u32),
    /// The rule is sound but this structure cannot hold it; a more general one can.
    #[error("declined: {0}")]
    Declined(Declined),
}
