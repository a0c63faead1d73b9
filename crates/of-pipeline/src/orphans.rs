//! Learned entries that are to go, as the last entry went that learned such with `delete_learned`.

use crate::flow::{Flow, FlowKey, actions};
use crate::observer::Observer;
use hashbrown::HashMap;
use openflow::{Action, Instruction};
use std::collections::BTreeSet;

/// Who learns entries for as long as it is there.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// How many entries have a `learn` with `delete_learned` of this table and cookie.
    learners: HashMap<(u8, u64), usize>,
    /// Those that lost the last one.
    left: BTreeSet<(u8, u64)>,
}

/// Table and cookie of what instructions learn for as long as they are there.
fn deletes_learned(instructions: &[Instruction]) -> impl Iterator<Item = (u8, u64)> {
    actions(instructions).filter_map(|action| match action {
        Action::Learn(learn) if learn.delete_learned => Some((learn.table_id.0, learn.cookie)),
        _ => None,
    })
}

impl Orphans {
    /// Tables and cookies of learned entries that are to go, as nothing is left that learns such.
    pub(crate) fn take(&mut self) -> BTreeSet<(u8, u64)> {
        let mut orphans = std::mem::take(&mut self.left);
        orphans.retain(|learned| !self.learners.contains_key(learned));
        orphans
    }
}

impl Observer for Orphans {
    fn came(&mut self, _: FlowKey, flow: &Flow) {
        for learned in deletes_learned(&flow.instructions) {
            *self.learners.entry(learned).or_default() += 1;
        }
    }

    fn went(&mut self, _: FlowKey, flow: &Flow) {
        for learned in deletes_learned(&flow.instructions) {
            let Some(users) = self.learners.get_mut(&learned) else { continue };
            *users -= 1;
            if *users == 0 {
                self.learners.remove(&learned);
                self.left.insert(learned);
            }
        }
    }
}
