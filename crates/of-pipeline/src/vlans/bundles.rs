//! Ports and bonds as places under NORMAL: who belongs to which, and what cannot be.

use super::bonds::{BONDS_MAX, BondConfig};
use super::{NormalConfig, NormalRefusal};
use of_lower::normal::config::Bonding;
use std::collections::BTreeSet;
use std::sync::Arc;

impl NormalConfig {
    /// The bond that a port is a member of.
    pub fn bond_of(&self, port: u32) -> Option<&BondConfig> {
        self.bonds.iter().find(|bond| bond.members.contains_key(&port))
    }

    /// The bond that has this number among ports and bonds.
    pub fn bond(&self, bundle: u32) -> Option<&BondConfig> {
        self.bonds.iter().find(|bond| bond.bundle() == bundle)
    }

    /// The ports behind a port's or bond's number.
    pub(super) fn ports_of(&self, bundle: u32) -> Vec<u32> {
        self.bond(bundle)
            .map_or_else(|| vec![bundle], |bond| bond.members.keys().copied().collect())
    }

    /// Numbers of ports become those of ports and bonds. A bond is there if all its members that `exist` are among them.
    pub(super) fn bundles(
        &self,
        ports: impl Iterator<Item = u32>,
        exists: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let ports: BTreeSet<u32> = ports.collect();
        let single = ports.iter().copied().filter(|port| self.bond_of(*port).is_none());
        let whole = |bond: &&BondConfig| {
            let mut there = bond.members.keys().filter(|port| exists(**port)).peekable();
            there.peek().is_some() && there.all(|port| ports.contains(port))
        };
        single.chain(self.bonds.iter().filter(whole).map(BondConfig::bundle)).collect()
    }

    pub(super) fn check_bonds(&self) -> Result<(), NormalRefusal> {
        if self.bonds.len() > BONDS_MAX {
            return Err(NormalRefusal::Bonds(self.bonds.len()));
        }
        let mut members = BTreeSet::new();
        let mut places = BTreeSet::new();
        for bond in &self.bonds {
            if bond.place as usize >= BONDS_MAX || !places.insert(bond.place) {
                return Err(NormalRefusal::BondPlace(bond.place));
            }
            for port in bond.members.keys() {
                if !members.insert(*port) {
                    return Err(NormalRefusal::TwoBonds(*port));
                }
                if self.is_mirrors(*port) {
                    return Err(NormalRefusal::MirrorsBond(*port));
                }
            }
        }
        Ok(())
    }

    /// The program's part.
    pub(super) fn bonding(&self) -> Option<Arc<Bonding>> {
        let speaks = self.bonds.iter().filter(|bond| bond.lacp);
        let lacp: BTreeSet<u32> = speaks.flat_map(|bond| bond.members.keys().copied()).collect();
        let by_source = self.bonds.iter().any(|bond| bond.by_source);
        let bonding = Bonding { lacp: lacp.into_iter().collect(), by_source };
        (!self.bonds.is_empty()).then(|| Arc::new(bonding))
    }

    /// Ports and bonds behind which stations may be at other places than they were.
    pub(super) fn moved(&self, before: &NormalConfig) -> BTreeSet<u32> {
        let mut moved = BTreeSet::new();
        for (one, other) in [(self, before), (before, self)] {
            for bond in &one.bonds {
                moved.extend(bond.members.keys().filter(|port| {
                    other.bond_of(**port).map(BondConfig::bundle) != Some(bond.bundle())
                }));
                let same = other.bond(bond.bundle()).is_some_and(|other| {
                    let vlans = |config: &NormalConfig, bond: &BondConfig| {
                        bond.members.keys().next().and_then(|port| config.ports.get(port)).cloned()
                    };
                    let stays = bond.members.keys().any(|port| other.members.contains_key(port));
                    stays && vlans(self, bond) == vlans(before, bond)
                });
                if !same {
                    moved.insert(bond.bundle());
                }
            }
        }
        moved
    }
}
