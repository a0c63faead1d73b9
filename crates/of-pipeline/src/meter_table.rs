//! Meters: the store (1.3.5 §5.7).
//!
//! A meter is kept as its controller wrote it: what is told back is what was sent, a burst size of 0
//! included, which leaves the choice to the switch.

use crate::touched::Numbers;
use openflow::{Band, MeterFlags};
use std::collections::BTreeMap;

/// Bands of one meter, at most.
pub const BANDS_MAX: usize = 255;

/// One meter.
#[derive(Clone, Debug)]
pub struct MeterEntry {
    /// How it counts.
    pub flags: MeterFlags,
    /// Its bands, in the order of the message.
    pub bands: Vec<Band>,
    /// When it was added, in nanoseconds of the switch's clock.
    pub created_ns: u64,
    /// How long it had been there in a process before this one.
    pub before_ns: u64,
    /// What it had been asked about when it was last modified: the switch counts from there.
    pub before: Asked,
}

impl MeterEntry {
    /// How long it has been there.
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.created_ns).saturating_add(self.before_ns)
    }
}

/// What a meter was asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// All meters of a switch.
#[derive(Debug, Default)]
pub struct MeterTable {
    meters: BTreeMap<u32, MeterEntry>,
    /// What meters were since a bundle began, to be undone if nothing comes of it.
    journal: Option<Vec<(u32, Option<MeterEntry>)>>,
    /// Those that came, changed or went, to be kept.
    pub(crate) touched: Numbers,
}

impl MeterTable {
    /// From here on changes can be undone.
    pub(crate) fn begin(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// What changed stays.
    pub(crate) fn keep(&mut self) {
        self.journal = None;
    }

    /// All is as it was when it began.
    pub(crate) fn undo(&mut self) {
        for (meter, entry) in self.journal.take().into_iter().flatten().rev() {
            self.put(meter, entry);
        }
    }

    /// The meter is this from now on.
    pub(crate) fn put(&mut self, meter: u32, entry: Option<MeterEntry>) {
        self.touched.touch(meter);
        let old = match entry {
            Some(entry) => self.meters.insert(meter, entry),
            None => self.meters.remove(&meter),
        };
        if let Some(journal) = &mut self.journal {
            journal.push((meter, old));
        }
    }

    /// The meter is there.
    pub fn contains(&self, meter: u32) -> bool {
        self.meters.contains_key(&meter)
    }

    /// The meter.
    pub fn get(&self, meter: u32) -> Option<&MeterEntry> {
        self.meters.get(&meter)
    }

    /// A meter had been there so long before.
    pub(crate) fn set_before(&mut self, meter: u32, before_ns: u64) {
        if let Some(entry) = self.meters.get_mut(&meter) {
            entry.before_ns = before_ns;
        }
    }

    /// All meters by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &MeterEntry)> {
        self.meters.iter().map(|(id, m)| (*id, m))
    }

    /// All meters by number, from one on.
    pub(crate) fn iter_from(&self, from: u32) -> impl Iterator<Item = (u32, &MeterEntry)> {
        self.meters.range(from..).map(|(id, m)| (*id, m))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.meters.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.meters.is_empty()
    }
}
