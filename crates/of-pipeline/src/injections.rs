//! Packets that the control side has sent, whose lists something is found by: they have no flow entry.

use of_lower::needs_entry;
use of_lower::rest::Left;
use openflow::Action;
use std::collections::VecDeque;
use std::sync::Arc;

/// Lists of packets that the control side has sent are known for so many packets.
const INJECTIONS_MAX: usize = 1024;

/// A packet of the control side's own.
struct Injected {
    number: u32,
    list: Arc<Left>,
    learns: Vec<u32>,
}

/// The lists of packets that the control side has sent, in which something waits, learns, or leads to a table.
#[derive(Default)]
pub(crate) struct Injections {
    last: u32,
    known: VecDeque<Injected>,
}

impl Injections {
    /// The number of the next one, which is not 0.
    pub(crate) fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1).max(1);
        self.last
    }

    /// Keeps it; gives back the `learn`s of one that is forgotten.
    pub(crate) fn keep(&mut self, number: u32, list: Left, learns: Vec<u32>) -> Vec<u32> {
        self.known.push_back(Injected { number, list: Arc::new(list), learns });
        let old = match self.known.len() > INJECTIONS_MAX {
            true => self.known.pop_front(),
            false => None,
        };
        old.map_or(Vec::new(), |old| old.learns)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Left>> {
        self.known.iter().rev().find(|one| one.number == number).map(|one| &one.list)
    }
}

/// Whether something in a list is found by the packet's number.
pub(crate) fn is_found(actions: &[Action]) -> bool {
    Action::flat(actions).any(|action| match action {
        Action::Resubmit { .. } | Action::Learn(_) => true,
        Action::Controller(to) => needs_entry(to),
        _ => false,
    })
}
