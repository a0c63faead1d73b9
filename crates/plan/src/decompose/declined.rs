//! Why a table was left whole.

use std::fmt;

/// Columns that are handled: one bit each.
pub(super) const COLUMNS_MAX: usize = 128;

/// Why a table was left whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declined {
    /// Nothing to split.
    OneColumn,
    /// One hash serves it already.
    Simple,
    /// In every column, patterns overlap in part.
    Overlap,
    /// It would take too many tables.
    Tables {
        /// The bound.
        max: usize,
    },
    /// It would take too many rows.
    Rows {
        /// The bound.
        max: usize,
    },
    /// More columns than are handled.
    Columns {
        /// How many.
        columns: usize,
    },
    /// A rule asks for bits and a range of one column at once, or for a range across columns.
    Mixed,
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Declined::OneColumn => write!(f, "one column"),
            Declined::Simple => write!(f, "one mask serves all entries"),
            Declined::Overlap => write!(f, "patterns overlap in part in every column"),
            Declined::Tables { max } => write!(f, "more than {max} tables"),
            Declined::Rows { max } => write!(f, "more than {max} rows in its tables"),
            Declined::Columns { columns } => write!(f, "{columns} columns, {COLUMNS_MAX} at most"),
            Declined::Mixed => write!(f, "a range that is not the only demand on its column"),
        }
    }
}
