//! Who knows the whole map, to write it anew after the disk failed.

use crate::record::Record;

/// Who knows the whole map.
pub trait Source: Send {
    /// Calls `begin` at a moment when nothing is appended, and returns the map of that moment; none if it is no more there.
    fn whole(&self, begin: &dyn Fn()) -> Option<Record>;
}
