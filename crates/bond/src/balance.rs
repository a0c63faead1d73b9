//! Slots moved from members that send much to those that send little (behaviour: Open vSwitch's `bond_rebalance`).
//!
//! Every interval the busiest member gives slots to the least busy one, each time the one that brings the two closest, as
//! long as the ratio of their loads improves by a tenth and they differ by more than 100,000 bytes and a thirty-second of
//! the smaller one. Then what was counted is halved, so that the past matters less and less.

use crate::bond::Bond;
use crate::lacp::LinkStatus;
use crate::settings::Mode;
use std::collections::BTreeMap;

/// Bytes by which two members may differ.
const DIFFERENCE: u64 = 100_000;

/// By how much the lighter of two is behind the heavier: 1000 when both are equal.
fn ratio(one: u64, other: u64) -> u64 {
    (one.min(other) * 1000).checked_div(one.max(other)).unwrap_or(1000)
}

impl Bond {
    /// Slots are counted: a mode that balances does so now.
    pub fn balances(&self) -> bool {
        match self.settings.mode {
            Mode::ActiveBackup => false,
            Mode::BalanceSlb => self.lacp_status() != LinkStatus::Configured,
            Mode::BalanceTcp => self.lacp_status() == LinkStatus::Negotiated,
        }
    }

    /// Notes what each slot has sent so far.
    pub fn count(&mut self, bytes: &[u64]) {
        for (slot, bytes) in self.slots.iter_mut().zip(bytes) {
            slot.bytes += bytes.saturating_sub(slot.seen);
            slot.seen = *bytes;
        }
    }

    /// When slots are moved next, if they are at all.
    pub fn rebalances_at_ms(&self) -> Option<u64> {
        self.rebalance_at_ms
    }

    /// Moves slots if it is time to; says how many.
    pub fn rebalance(&mut self, now_ms: u64) -> usize {
        let Some(at) = self.rebalance_at_ms.filter(|at| *at <= now_ms) else { return 0 };
        self.rebalance_at_ms = Some(at.max(now_ms) + self.settings.rebalance_ms);
        if !self.balances() {
            return 0;
        }
        let mut moved = 0;
        let mut loads: BTreeMap<String, u64> = BTreeMap::new();
        for (name, _) in self.members.iter().filter(|(_, member)| member.enabled) {
            loads.insert(name.clone(), 0);
        }
        for slot in &self.slots {
            if let Some(load) = slot.member.as_ref().and_then(|name| loads.get_mut(name)) {
                *load += slot.bytes;
            }
        }
        // Each move brings two members closer, and there are so many slots.
        while moved < self.slots.len() {
            let by_load = |(name, load): (&String, &u64)| (*load, name.clone());
            let most = loads.iter().map(by_load).max();
            let least = loads.iter().map(by_load).min();
            let (Some((from_load, from)), Some((to_load, to))) = (most, least) else { break };
            let over = from_load - to_load;
            if over < to_load >> 5 || over < DIFFERENCE {
                break;
            }
            let now = ratio(from_load, to_load);
            let of = |(at, slot): (usize, &crate::bond::Slot)| {
                let theirs = slot.member.as_ref() == Some(&from) && slot.bytes > 0;
                let (less, more) = (from_load.checked_sub(slot.bytes)?, to_load + slot.bytes);
                theirs.then(|| (ratio(less, more), std::cmp::Reverse(at)))
            };
            let best = self.slots.iter().enumerate().filter_map(of).max();
            let Some((_, std::cmp::Reverse(at))) = best.filter(|(r, _)| *r > now + 100) else {
                break;
            };
            let bytes = self.slots[at].bytes;
            self.slots[at].member = Some(to.clone());
            loads.insert(from, from_load - bytes);
            loads.insert(to, to_load + bytes);
            moved += 1;
        }
        for slot in &mut self.slots {
            slot.bytes /= 2;
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bond::MemberConfig;
    use crate::settings::Settings;

    fn slb() -> Bond {
        let settings = Settings { mode: Mode::BalanceSlb, ..Settings::default() };
        let mut bond = Bond::new("b", settings, [2; 6], 0);
        let member = |port| MemberConfig { port, mac: [port as u8; 6], ..MemberConfig::default() };
        let two = [("p1", 1), ("p2", 2)];
        bond.set_members(two.map(|(n, port)| (n.to_owned(), member(port))).into(), 0);
        two.iter().for_each(|(name, _)| bond.set_carrier(name, true, 0));
        bond.run(0);
        bond
    }

    fn slots_of(bond: &Bond, name: &str) -> Vec<usize> {
        let all = bond.slots.iter().enumerate();
        all.filter(|(_, slot)| slot.member.as_deref() == Some(name)).map(|(at, _)| at).collect()
    }

    #[test]
    fn the_busy_one_gives_slots_away_until_both_are_about_even() {
        let mut bond = slb();
        let busy = slots_of(&bond, "p1");
        let mut bytes = vec![0; crate::SLOTS];
        busy[..4].iter().for_each(|at| bytes[*at] = 1_000_000);
        bond.count(&bytes);
        assert_eq!(bond.rebalance(9_999), 0, "it is not time yet");
        assert_eq!(bond.rebalance(10_000), 2);
        let theirs = slots_of(&bond, "p2");
        assert_eq!(busy[..4].iter().filter(|at| theirs.contains(at)).count(), 2);
        assert_eq!(bond.slots[busy[0]].bytes, 500_000, "the past counts half");
        assert_eq!(bond.rebalances_at_ms(), Some(20_000));
        assert_eq!(bond.rebalance(20_000), 0, "they are even");
    }

    #[test]
    fn one_slot_alone_and_little_traffic_stay_where_they_are() {
        let mut bond = slb();
        let busy = slots_of(&bond, "p1");
        let mut bytes = vec![0; crate::SLOTS];
        bytes[busy[0]] = 50_000_000;
        bond.count(&bytes);
        assert_eq!(bond.rebalance(10_000), 0, "it would only be as busy there");
        let mut bond = slb();
        bytes = vec![0; crate::SLOTS];
        busy[..4].iter().for_each(|at| bytes[*at] = 10_000);
        bond.count(&bytes);
        assert_eq!(bond.rebalance(10_000), 0, "less than 100,000 bytes");
    }
}
