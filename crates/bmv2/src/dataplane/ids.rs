//! Which request a frame came in by: told by its time of arrival, which no other frame has.

use std::collections::VecDeque;

/// Requests that are remembered, the newest ones.
const REMEMBERED: usize = 4096;

/// Times of arrival and ids, in the order of the times.
#[derive(Debug, Default)]
pub(super) struct Ids(VecDeque<(u64, u64)>);

impl Ids {
    /// The time of arrival for a frame with this id: now, and later than that of any before.
    pub(super) fn arrived(&mut self, id: u64, now_ns: u64) -> u64 {
        let ns = self.0.back().map_or(now_ns, |(last, _)| now_ns.max(last + 1));
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((ns, id));
        ns
    }

    /// The id of the request of this time; 0 where none is known.
    pub(super) fn of(&self, ns: u64) -> u64 {
        let found = self.0.binary_search_by_key(&ns, |(ns, _)| *ns);
        found.map_or(0, |at| self.0[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_differ_and_lead_back() {
        let mut ids = Ids::default();
        let times: Vec<u64> =
            [(7, 100), (8, 100), (9, 50)].map(|(id, ns)| ids.arrived(id, ns)).into();
        assert_eq!(times, [100, 101, 102]);
        assert_eq!([100, 101, 102, 103, 0].map(|ns| ids.of(ns)), [7, 8, 9, 0, 0]);
        for id in 0..2 * REMEMBERED as u64 {
            ids.arrived(id, 0);
        }
        assert_eq!((ids.0.len(), ids.of(100)), (REMEMBERED, 0));
    }
}
