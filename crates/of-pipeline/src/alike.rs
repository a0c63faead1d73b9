//! Instruction lists that entries share.
//!
//! Of a million entries nearly all have one of some lists: an output to one of the ports. Each list is there once, and what
//! an entry has is the way to it.
//!
//! Lists are found again in a cache of a bounded number, in which a later one takes the place of an earlier one of the same
//! hash. So one that is there twice costs memory, and nothing else; nobody has to count who uses it.
//! Cost: 8 octets an entry, where lists are alike; without it 104 for an output.
//! Checked by: the test below; the model test of `flow_mod`.

use hashbrown::DefaultHashBuilder;
use openflow::Instructions;
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::Arc;

/// Lists that are looked at, at most.
const SLOTS: usize = 4096;

/// An instruction list that other entries may have, too.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedInstructions(Arc<Instructions>);

impl SharedInstructions {
    /// A copy of its own.
    pub fn to_owned(&self) -> Instructions {
        (*self.0).clone()
    }
}

impl From<Instructions> for SharedInstructions {
    fn from(list: Instructions) -> SharedInstructions {
        SharedInstructions(Arc::new(list))
    }
}

impl Deref for SharedInstructions {
    type Target = Instructions;

    fn deref(&self) -> &Instructions {
        &self.0
    }
}

impl fmt::Debug for SharedInstructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The lists that entries came with lately.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    slots: Vec<Option<SharedInstructions>>,
}

impl Alike {
    /// An equal list that others have, in place of this one, if one is known; the next that comes finds this one otherwise.
    pub(crate) fn share(&mut self, hasher: &DefaultHashBuilder, list: &mut SharedInstructions) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, None);
        }
        match &mut self.slots[hasher.hash_one(&**list) as usize % SLOTS] {
            Some(known) if known == list => list.clone_from(known),
            slot => *slot = Some(list.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{Action, Instruction, PortNo};

    fn output(port: u32) -> SharedInstructions {
        let output = Action::output(PortNo(port));
        Instructions::from_iter([Instruction::ApplyActions(vec![output])]).into()
    }

    #[test]
    fn lists_that_are_alike_are_one() {
        let (mut alike, hasher) = (Alike::default(), DefaultHashBuilder::default());
        let mut lists: Vec<_> = (0..10_000).map(|n| output(n % 8)).collect();
        lists.iter_mut().for_each(|list| alike.share(&hasher, list));
        for (list, n) in lists.iter().zip(0..) {
            assert_eq!(*list, output(n % 8));
        }
        // Two of the eight may have one place, and take it from one another.
        let mut different: Vec<_> = lists.iter().map(|list| Arc::as_ptr(&list.0)).collect();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() < 10_000 / 2, "{}", different.len());
        // However many come, so many are kept.
        (0..20_000).for_each(|n| alike.share(&hasher, &mut output(n)));
        assert_eq!(alike.slots.len(), SLOTS);
    }
}
