//! What tables and groups hold for bonds: rows of admission, and slots.

use super::NormalConfig;
use super::bonds::{Hashes, Sends};
use super::wanted::{Group, Row, Wanted};
use of_lower::Layout;
use of_lower::layout::group_of_bond;
use of_lower::normal::bond::admit_matches;

impl Wanted {
    /// Rows of admission, and the groups.
    pub(super) fn bonds(&mut self, config: &NormalConfig, layout: &Layout, hashes: &mut Hashes) {
        let ids = &layout.vlans.bonds;
        let Some(table) = ids.admit else { return };
        for bond in &config.bonds {
            for (port, member) in &bond.members {
                for (group, how) in [(false, member.unicast), (true, member.multicast)] {
                    let matches = admit_matches(*port, group);
                    let action = ids.admits(bond.bundle(), how);
                    self.rows.push(Row { table, matches, priority: 0, action });
                }
            }
            let slot = |member: &Option<u32>| {
                let vlans = member.and_then(|port| config.ports.get(&port));
                layout.vlans.slot(*member, vlans)
            };
            let group = match &bond.sends {
                Sends::One(member) => Group { buckets: vec![slot(member)], slots: None },
                Sends::Slots(hash, members) => Group {
                    buckets: members.iter().map(slot).collect(),
                    slots: Some((bond.place, hashes.of(*hash, layout))),
                },
            };
            self.groups.insert(group_of_bond(bond.place), group);
        }
    }
}
