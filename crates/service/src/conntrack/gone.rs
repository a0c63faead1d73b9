//! Connections that are gone since a watching writer of an [image](super::image) last told which.

use super::tuple::Tuple;

/// Connections that are gone, noted at most.
pub(super) const GONE_MAX: usize = 1 << 20;

/// Connections of a watched tracker that are gone.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub(super) tuples: Vec<Tuple>,
}

impl Gone {
    /// One is gone. Of more than can be noted, the reader keeps some until their time is over.
    pub(crate) fn note(&mut self, original: Tuple) {
        if self.tuples.len() < GONE_MAX {
            self.tuples.push(original);
        }
    }
}
