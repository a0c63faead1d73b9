//! Rows, and what the switch lacks.

use super::notes::Notes;
use crate::feature::Feature;
use ovsdb::Database;

/// Reads rows, and knows what the switch lacks.
pub(crate) struct Reader<'a> {
    pub(crate) database: &'a Database,
    pub(super) lacks: &'a dyn Fn(&Feature) -> Option<String>,
}

impl Reader<'_> {
    /// The switch can do it. If it cannot, that is noted.
    pub(crate) fn can(&self, notes: &mut Notes, feature: Feature) -> bool {
        match (self.lacks)(&feature) {
            None => true,
            Some(why) => {
                notes.add(format!("{feature}: {why}"));
                false
            }
        }
    }
}
