//! The kinds of lookup structures, by name.

use std::fmt;

/// The structures there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// [`crate::linear`]; never chosen, used as the oracle.
    Linear,
    /// [`crate::hash`]
    Hash,
    /// [`crate::lpm`]
    Lpm,
    /// [`crate::range`]
    Range,
    /// [`crate::scan`]
    Scan,
    /// [`crate::tuple_merge`]
    TupleMerge,
    /// [`crate::tuple_space`]
    TupleSpace,
    /// [`crate::cuts`]; made where there is time to choose for all entries at once
    /// ([`Table::improved`](crate::Table::improved)).
    Cuts,
    /// [`crate::bit_vectors`]; made as cuts are, of some thousand entries at most.
    BitVectors,
    /// A tree of tables, one column first; planned from the entries and handed to
    /// [`Table::from_structure`](crate::Table::from_structure).
    Decomposed,
}

impl Kind {
    /// Every kind, special ones first after the oracle.
    pub const ALL: [Kind; 10] = [
        Kind::Linear,
        Kind::Hash,
        Kind::Lpm,
        Kind::Range,
        Kind::Scan,
        Kind::TupleMerge,
        Kind::TupleSpace,
        Kind::Cuts,
        Kind::BitVectors,
        Kind::Decomposed,
    ];

    /// Whether it is one of the forms that may take any rules, between which measured lookups decide.
    pub fn is_general(self) -> bool {
        matches!(self, Kind::TupleMerge | Kind::Cuts | Kind::BitVectors)
    }

    /// The name in reports and options.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Linear => "linear",
            Kind::Hash => "hash",
            Kind::Lpm => "lpm",
            Kind::Range => "range",
            Kind::Scan => "scan",
            Kind::TupleMerge => "tuple_merge",
            Kind::TupleSpace => "tuple_space",
            Kind::Cuts => "cuts",
            Kind::BitVectors => "bit_vectors",
            Kind::Decomposed => "decomposed",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Kind, UnknownKind> {
        Kind::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| UnknownKind(name.into()))
    }
}

/// A name that is no structure's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown lookup structure {0:?}; there are linear, hash, lpm, range, scan, tuple_merge, tuple_space, \
     cuts, bit_vectors and decomposed"
)]
pub struct UnknownKind(pub String);
