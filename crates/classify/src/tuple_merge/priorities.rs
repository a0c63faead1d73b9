//! The priorities of a tuple's rules, counted, so that the best is known when rules go.

use std::collections::BTreeMap;

/// Priorities of a tuple that are told apart, at most.
const PRIORITIES_MAX: usize = 512;

/// How many rules have which priority: by ranges of priorities, where they have many.
///
/// So few are told apart that counting touches little memory; what comes of it is a bound ([`Priorities::best`]).
#[derive(Debug, Clone, Default)]
pub(super) struct Priorities {
    /// Low bits that are left out.
    shift: u32,
    counts: BTreeMap<u32, u32>,
}

impl Priorities {
    pub(super) fn add(&mut self, priority: u32) {
        *self.counts.entry(priority >> self.shift).or_insert(0) += 1;
        if self.counts.len() > PRIORITIES_MAX {
            // Neighbours are taken together; where that joins few, it comes to it again.
            self.shift += 1;
            let counts = std::mem::take(&mut self.counts);
            for (at, count) in counts {
                *self.counts.entry(at >> 1).or_insert(0) += count;
            }
        }
    }

    pub(super) fn remove(&mut self, priority: u32) {
        if let Some(count) = self.counts.get_mut(&(priority >> self.shift)) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&(priority >> self.shift));
            }
        }
    }

    /// A priority than which none is greater; the greatest, if there are few.
    pub(super) fn best(&self) -> Option<u32> {
        let (&best, _) = self.counts.last_key_value()?;
        Some(best << self.shift | ((1 << self.shift) - 1))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.counts.len() * 14
    }
}
