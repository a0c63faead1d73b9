//! What a burst has told the control side ([`crate::told`]), until it is read.

use crate::records::Records;

/// What a burst has told: for each message what it is, its place, what was looked up last, and values.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) records: Records,
    /// A message while it is put together.
    rest: Vec<u64>,
}

impl Messages {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.records.clear();
    }

    /// `args` are the values, each behind its width.
    #[inline]
    pub(crate) fn add(&mut self, packet: usize, what: u64, place: u64, last: u64, args: &[u64]) {
        self.rest.clear();
        self.rest.extend([place, last]);
        self.rest.extend_from_slice(args);
        self.records.add(packet, what, &self.rest);
    }
}
