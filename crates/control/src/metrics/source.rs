//! What the page is made of.

use crate::bridges::{Bridge, Bridges};
use std::sync::Arc;

/// Groups, meters, cells of counters and outside addresses of a bridge that are told one by one.
pub(super) const SERIES_MOST: usize = 1000;

/// The bridges of the process.
pub(super) struct Source<'a> {
    pub(super) bridges: &'a Bridges,
    /// Those that there are now.
    pub(super) all: Vec<Arc<Bridge>>,
    /// Entries of a bridge that are told one by one.
    pub(super) entries: usize,
}
