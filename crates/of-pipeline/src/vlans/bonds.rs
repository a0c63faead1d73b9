//! Bonds: several ports that are one under NORMAL.
//!
//! In: what a bond's members let in and what each slot of its hash leaves by, which is whoever runs the bond's to decide.
//! Out: rows of `bond_in`, and a group for each bond. A change of members that are there is a change of these alone.

use ir::Expr;
use of_lower::Layout;
use of_lower::layout::group_of_bond;
use of_lower::normal::bond::hash_inputs;
pub use of_lower::normal::bond::{Admission, BondHash, slot_of_source};
pub use of_lower::normal::config::BONDS_MAX;
use std::collections::BTreeMap;
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
    pub(super) fn keep(&mut self, bonds: &[BondConfig]) {
        let used: Vec<BondHash> = bonds.iter().filter_map(BondConfig::hash).collect();
        self.0.retain(|(hash, _)| used.contains(hash));
    }

    pub(super) fn of(&mut self, hash: BondHash, layout: &Layout) -> Arc<[Expr]> {
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

    /// Some member sends. Who runs the bond's gives every slot to a member as long as one is enabled.
    pub(super) fn is_up(&self) -> bool {
        match &self.sends {
            Sends::One(member) => member.is_some(),
            Sends::Slots(_, slots) => slots.iter().any(Option::is_some),
        }
    }

    fn hash(&self) -> Option<BondHash> {
        match &self.sends {
            Sends::One(_) => None,
            Sends::Slots(hash, _) => Some(*hash),
        }
    }
}
