//! A change of what is put into a program, before it is done, and who is asked.

use super::indirect::{Does, Member};
use super::refused::Refused;
use ir::{EntryId, KeyMatch, TableId};

/// What is to be changed.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// An entry comes.
    Insert {
        /// Where.
        table: TableId,
        /// Its key.
        matches: &'a [KeyMatch],
        /// What it does.
        does: &'a Does,
    },
    /// An entry does something else.
    Modify {
        /// Where.
        table: TableId,
        /// Which.
        entry: EntryId,
        /// What it does then.
        does: &'a Does,
    },
    /// An entry goes.
    Remove {
        /// Where.
        table: TableId,
        /// Which.
        entry: EntryId,
    },
    /// All entries of a table go.
    Clear {
        /// Where.
        table: TableId,
    },
    /// A default action is another one; none is the program's.
    Default {
        /// Where.
        table: TableId,
        /// What it does then.
        does: Option<&'a Does>,
    },
    /// A member of a profile comes, is another one, or goes.
    Member {
        /// The profile's full name.
        profile: &'a str,
        /// Its handle.
        member: u32,
        /// What it is then.
        to: Option<&'a Member>,
    },
    /// A multicast group comes, or goes.
    Group {
        /// Its number.
        group: u32,
        /// It is there then.
        there: bool,
    },
}

/// Whoever is asked before a control `C` changes something.
pub trait Guard<C>: Send {
    /// Whether it may be done; nothing is done yet.
    fn may(&mut self, control: &C, change: &Change<'_>) -> Result<(), Refused>;

    /// What was asked last is done, or was refused by something else.
    fn done(&mut self, control: &C, did: bool);
}
