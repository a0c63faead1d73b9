//! Which flow entries use a group or a meter, so that the deletion of one need not look at the other entries.

use crate::flow::{Flow, FlowKey, actions};
use crate::observer::Observer;
use hashbrown::HashMap;
use openflow::{Action, Instruction};
use std::collections::BTreeSet;

/// The entries that use something, by its number.
type By = HashMap<u32, BTreeSet<FlowKey>>;

/// The entries that use groups and meters.
#[derive(Debug, Default)]
pub(crate) struct Users {
    groups: By,
    meters: By,
}

impl Users {
    /// The entries that use a group.
    pub(crate) fn of_group(&self, group: u32) -> impl Iterator<Item = FlowKey> {
        self.groups.get(&group).into_iter().flatten().copied()
    }

    /// The entries that use a meter.
    pub(crate) fn of_meter(&self, meter: u32) -> impl Iterator<Item = FlowKey> {
        self.meters.get(&meter).into_iter().flatten().copied()
    }
}

impl Observer for Users {
    fn came(&mut self, key: FlowKey, flow: &Flow) {
        let (groups, meters) = (&mut self.groups, &mut self.meters);
        references(
            &flow.instructions,
            &mut |id| {
                groups.entry(id).or_default().insert(key);
            },
            &mut |id| {
                meters.entry(id).or_default().insert(key);
            },
        );
    }

    fn went(&mut self, key: FlowKey, flow: &Flow) {
        let (groups, meters) = (&mut self.groups, &mut self.meters);
        references(&flow.instructions, &mut |id| disuse(groups, id, key), &mut |id| {
            disuse(meters, id, key)
        });
    }
}

/// Groups and meters that instructions name: `group` and `meter` are called with each.
fn references(
    instructions: &[Instruction],
    group: &mut dyn FnMut(u32),
    meter: &mut dyn FnMut(u32),
) {
    for action in actions(instructions) {
        match action {
            Action::Group(id) => group(id.0),
            Action::Meter(id) => meter(id.0),
            Action::Controller(to) => to.meter.iter().for_each(|id| meter(id.0)),
            _ => {}
        }
    }
    for instruction in instructions {
        if let Instruction::Meter(id) = instruction {
            meter(id.0);
        }
    }
}

fn disuse(users: &mut By, id: u32, key: FlowKey) {
    if let Some(set) = users.get_mut(&id) {
        set.remove(&key);
        if set.is_empty() {
            users.remove(&id);
        }
    }
}
