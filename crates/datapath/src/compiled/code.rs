//! Code for a version, with what it depends on.

use crate::tally::Reason;
use ir::{ActionId, Expr, TableId};
use jit::Unit;
use opt::Contents;
use std::sync::Arc;
use std::time::Duration;

/// Code for a version, and for those after it as long as it fits.
pub struct Code {
    /// What was compiled.
    pub unit: Unit,
    /// The code.
    pub compiled: jit::Compiled,
    /// What the tables held.
    pub(super) contents: Contents,
    /// How often each table had changed.
    pub(super) changes: Vec<u64>,
    /// How often anything else that code depends on had changed.
    pub(super) epoch: u64,
    /// Packets come to groups in it.
    pub(super) groups: bool,
    /// Tables that were changing when it was made, so that nothing of them could be left.
    pub(super) restless: Vec<TableId>,
    /// By node: what of the table is looked up there, if that is not all of it.
    pub(crate) views: Vec<Option<opt::View>>,
    /// By the number of a bail-out, what it is counted under.
    pub(super) reasons: Box<[Reason]>,
    /// How long it took.
    pub compile_time: Duration,
}

impl Code {
    /// What packets are counted under that leave by the bail-out of this number.
    pub(crate) fn reason(&self, bail: u32) -> Reason {
        self.reasons.get(bail as usize).copied().unwrap_or(Reason::OTHER)
    }

    /// It has what buckets do now, and the hashes that groups choose by.
    pub(super) fn knows(&self, groups: &jit::Groups) -> bool {
        let (actions, hashes) = (groups.actions(), groups.hashes());
        let has = |(at, id): (usize, &ActionId)| {
            *id == jit::NO_ACTION || self.unit.buckets.get(at) == Some(id)
        };
        let hashed = |(at, hash): (usize, &Option<Arc<[Expr]>>)| {
            hash.is_none() || self.unit.hashes.get(at) == Some(hash)
        };
        actions.iter().enumerate().all(has) && hashes.iter().enumerate().all(hashed)
    }
}
