//! A P4 program's pipeline and what clients have written, in a journal. Keys and values are [`p4_runtime::keeping`]'s.

use journal::{Journal, Record, Source};
use p4_runtime::device::Device;
use p4_runtime::keeping::{Change, Image, Keeper};
use std::sync::Weak;

/// An image as the record that makes it.
pub(crate) fn record(image: &Image) -> Record {
    let mut record = Record::default();
    image.iter().for_each(|(key, value)| record.put(key, value));
    record
}

/// Appends what changes.
pub(crate) struct Keeping {
    journal: Journal,
    record: Record,
}

impl Keeping {
    /// To this journal.
    pub(crate) fn new(journal: Journal) -> Keeping {
        Keeping { journal, record: Record::default() }
    }
}

impl Keeper for Keeping {
    fn keep(&mut self, changes: &[Change]) {
        for (key, value) in changes {
            match value {
                Some(value) => self.record.put(key, value),
                None => self.record.remove(key),
            }
        }
        self.journal.append(&self.record);
        self.record.clear();
    }
}

/// A device knows all that there is.
pub(crate) struct Whole(pub(crate) Weak<Device>);

impl Source for Whole {
    fn whole(&self, begin: &dyn Fn()) -> Option<Record> {
        Some(record(&self.0.upgrade()?.image(begin)))
    }
}
