//! Bonds: several ports that are one under NORMAL.
//!
//! In: what a bond's members let in and what each slot of its hash leaves by, which is whoever runs the bond's to decide.
//! Out: rows of `bond_in`, and a group for each bond. A change of members that are there is a change of these alone.

use super::wanted::{Group, Row, Wanted};
use super::{NormalConfig, NormalRefusal};
use crate::agent::Agent;
use ir::{CounterId, Expr};
use of_lower::Layout;
use of_lower::layout::group_of_bond;
pub use of_lower::normal::bond::{Admission, BondHash, slot_of_source};
use of_lower::normal::bond::{admit_matches, hash_inputs};
pub use of_lower::normal::config::BONDS_MAX;
use of_lower::normal::config::Bonding;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Slots of a bond that balances.
pub const SLOTS: usize = 256;

/// A bond as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BondConfig {
    /// Its place among bonds, below [`BONDS_MAX`]; stations are learnt by it.
    pub place: u32,
    /// Its members, with what they let in.
    pub members: BTreeMap<u32, Member>,
    /// Members speak LACP: such frames are for the switch.
    pub lacp: bool,
    /// It may balance by source, so packets that come in by [`Admission::Unmoved`] are to be expected.
    pub by_source: bool,
    /// What packets for it leave by.
    pub sends: Sends,
}

/// What a member lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Of packets to one station.
    pub unicast: Admission,
    /// Of packets to many.
    pub multicast: Admission,
}

/// What packets for a bond leave by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sends {
    /// By one member, or none.
    One(Option<u32>),
    /// By the member of the slot that a hash says.
    Slots(BondHash, Arc<[Option<u32>; SLOTS]>),
}

/// The inputs of hashes in use: engines know them by where they are.
#[derive(Debug, Default)]
pub(super) struct Hashes(Vec<(BondHash, Arc<[Expr]>)>);

impl Hashes {
    /// Keeps those that are used.
    pub(super) fn keep(&mut self, config: &NormalConfig) {
        let used: Vec<BondHash> = config.bonds.iter().filter_map(BondConfig::hash).collect();
        self.0.retain(|(hash, _)| used.contains(hash));
    }

    fn of(&mut self, hash: BondHash, layout: &Layout) -> Arc<[Expr]> {
        if let Some((_, inputs)) = self.0.iter().find(|(known, _)| *known == hash) {
            return inputs.clone();
        }
        let inputs = hash_inputs(&layout.headers, hash);
        self.0.push((hash, inputs.clone()));
        inputs
    }
}

impl BondConfig {
    /// Its number among ports and bonds.
    pub fn bundle(&self) -> u32 {
        group_of_bond(self.place).0
    }

    fn hash(&self) -> Option<BondHash> {
        match &self.sends {
            Sends::One(_) => None,
            Sends::Slots(hash, _) => Some(*hash),
        }
    }
}

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

impl Wanted {
    /// Rows of admission, and the groups.
    pub(super) fn bonds(&mut self, config: &NormalConfig, layout: &Layout, hashes: &mut Hashes) {
        let ids = &layout.vlans.bonds;
        let Some(table) = ids.admit else { return };
        for bond in &config.bonds {
            for (port, member) in &bond.members {
                for (group, how) in [(false, member.unicast), (true, member.multicast)] {
                    let matches = admit_matches(*port, group);
                    let action = ids.admits(bond.place, how);
                    self.rows.push(Row { table, matches, priority: 0, action });
                }
            }
            let slot = |member: &Option<u32>| {
                let vlans = member.and_then(|port| config.ports.get(&port));
                ids.slot(&layout.vlans, *member, vlans)
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

impl Agent {
    /// Bonds are these from now on; ports' VLANs and mirrors stay.
    pub fn set_bonds(&mut self, bonds: Vec<BondConfig>) -> Result<(), NormalRefusal> {
        let config = NormalConfig { bonds, ..self.vlans.config.clone() };
        self.set_normal_config(config)
    }

    /// Bytes that each slot of a bond has sent, if it balances.
    pub fn bond_slot_bytes(&self, place: u32) -> Option<Vec<u64>> {
        let counters: &Vec<CounterId> = self.vlans.slots.get(&place)?;
        let reader = self.env.switch.counters();
        let bytes = |counter: &CounterId| reader.read(counter.0).map_or(0, |value| value.bytes);
        Some(counters.iter().map(bytes).collect())
    }
}
