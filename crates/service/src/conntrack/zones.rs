//! Limits and timeouts of connections for each zone (Open vSwitch's `dpctl/ct-set-limits`, and its database's `CT_Zone`).
//!
//! A connection that would be one too many for its zone is refused, as where all room is taken. Those that are there when a
//! limit is set stay. Counts are kept only while there are limits: without them a connection costs nothing more.
//!
//! Timeouts hold from a connection's next packet on.

use super::config::Timeouts;
use std::collections::BTreeMap;

/// Zones that have timeouts of their own.
pub type ZoneTimeouts = BTreeMap<u16, Timeouts>;

/// How many connections zones may have; 0 for as many as there is room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Zones of which nothing else is said.
    pub default: u32,
    /// The others.
    pub zones: BTreeMap<u16, u32>,
}

impl ZoneLimits {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.default == 0 && self.zones.values().all(|limit| *limit == 0)
    }

    /// That of a zone.
    pub fn of(&self, zone: u16) -> u32 {
        self.zones.get(&zone).copied().unwrap_or(self.default)
    }
}

/// Limits, and how many connections there are.
#[derive(Debug, Default)]
pub(super) struct Zones {
    limits: ZoneLimits,
    /// While there are limits.
    counts: Option<Box<hashbrown::HashMap<u16, u32>>>,
    /// While a zone has its own.
    timeouts: Option<Box<hashbrown::HashMap<u16, Timeouts>>>,
}

impl Zones {
    pub(super) fn limits(&self) -> &ZoneLimits {
        &self.limits
    }

    /// Sets limits; `live` are the zones of all connections.
    pub(super) fn set(&mut self, limits: ZoneLimits, live: impl Iterator<Item = u16>) {
        self.counts = (!limits.is_empty()).then(|| {
            let mut counts = Box::new(hashbrown::HashMap::new());
            live.for_each(|zone| *counts.entry(zone).or_default() += 1);
            counts
        });
        self.limits = limits;
    }

    /// Zones have these timeouts of their own.
    pub(super) fn set_timeouts(&mut self, all: ZoneTimeouts) {
        self.timeouts = (!all.is_empty()).then(|| Box::new(all.into_iter().collect()));
    }

    /// A zone's timeouts: its own, or the usual ones.
    #[inline]
    pub(super) fn timeouts<'a>(&'a self, zone: u16, usual: &'a Timeouts) -> &'a Timeouts {
        match &self.timeouts {
            None => usual,
            Some(own) => own.get(&zone).unwrap_or(usual),
        }
    }

    /// One more may come.
    pub(super) fn admits(&self, zone: u16) -> bool {
        let Some(counts) = &self.counts else { return true };
        let limit = self.limits.of(zone);
        limit == 0 || counts.get(&zone).copied().unwrap_or(0) < limit
    }

    pub(super) fn came(&mut self, zone: u16) {
        if let Some(counts) = &mut self.counts {
            *counts.entry(zone).or_default() += 1;
        }
    }

    pub(super) fn left(&mut self, zone: u16) {
        if let Some(counts) = &mut self.counts
            && let Some(count) = counts.get_mut(&zone)
        {
            *count -= 1;
            if *count == 0 {
                counts.remove(&zone);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_the_default_unless_something_is_said_of_them() {
        let mut zones = Zones::default();
        assert!(zones.admits(1));
        let limits = ZoneLimits { default: 2, zones: [(7, 1), (8, 0)].into() };
        zones.set(limits, [1, 1, 7].into_iter());
        assert!(!zones.admits(1) && !zones.admits(7) && zones.admits(8) && zones.admits(2));
        zones.left(1);
        assert!(zones.admits(1));
        zones.came(1);
        assert!(!zones.admits(1));
        zones.set(ZoneLimits::default(), std::iter::empty());
        assert!(zones.admits(1));
    }
}
