//! A program on its way through the passes, and what they are told.

use crate::contents::Contents;
use ir::{Action, ActionId, Op, Program};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A table that packets can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTable {
    /// Positions of the key fields that matter, ascending.
    pub columns: Vec<u16>,
    /// Actions that can run, the default's among them, ascending.
    pub actions: Vec<ActionId>,
}

/// What a pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The pass, by its name in [`Options`].
    pub pass: &'static str,
    /// What it did.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pass, self.text)
    }
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Which passes run, and what the engine behind them leaves to another one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Options {
            $($(#[$doc])* pub $name: bool,)*
            /// Where the engine gives a packet up. Not a pass; nothing by default.
            pub bail: Bail,
        }

        impl Options {
            /// Names of all passes, in their order.
            pub const PASSES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// No pass at all: the program as it was.
            pub fn none() -> Options {
                Options { $($name: false,)* bail: Bail::default() }
            }

            /// Switches a pass on or off by its name. False: there is no such pass.
            pub fn set(&mut self, pass: &str, on: bool) -> bool {
                match pass {
                    $(stringify!($name) => self.$name = on,)*
                    _ => return false,
                }
                true
            }
        }

        impl Default for Options {
            fn default() -> Options {
                Options { $($name: true,)* bail: Bail::default() }
            }
        }
    };
}

options! {
    /// Keeps only blocks, tables and actions that a packet can reach. Without it no other pass has
    /// anything to go by, and none runs.
    reach,
    /// Known bits and header validity, forward: expressions, conditions, writes without effect.
    fold,
    /// Arguments that all calls of an action share count as constants in it.
    arguments,
    /// Lays what a call leads to out as a copy of blocks that lead back.
    calls,
    /// Lays what follows a service out as a copy of the pipeline.
    unroll,
    /// Looks only at what is left of tables there.
    narrow,
    /// Skips blocks that do nothing.
    thread_jumps,
    /// Joins a block with the only one that leads to it.
    merge_blocks,
    /// Drops checksums whose inputs nothing changes.
    drop_checksums,
    /// Writes a field whole that was written in slices.
    join_slices,
    /// Drops writes that nobody reads.
    drop_dead_writes,
    /// Stops parsing where nothing that follows is looked at.
    cut_parser,
}

/// Operations at which the engine that is to run the program gives a packet up, so that another one
/// runs the packet from its start on the program as it was. What lies behind them is dead, and what
/// they look at need not be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bail {
    /// `Op::Group`. Where it is not given up, buckets do what [`Contents::buckets`] says.
    pub groups: bool,
    /// `Op::Clone`.
    pub clones: bool,
    /// `Op::Reparse`.
    pub reparses: bool,
    /// `Op::Resubmit`, `Op::Recirculate`.
    pub passes: bool,
    /// `Op::Call`. Where it is not given up, a program that has one is left as it was: a call may lead back.
    pub calls: bool,
    /// `Op::OnCopy`. Where it is not given up, a program that has one is left as it was if something is done in it, and not
    /// given up, that leads elsewhere.
    pub copies: bool,
    /// `Op::Service`.
    pub services: bool,
    /// `Op::Service` among what is done on a copy in place.
    pub copied_services: bool,
}

impl Bail {
    /// At all of them.
    pub const ALL: Bail = Bail {
        groups: true,
        clones: true,
        reparses: true,
        passes: true,
        calls: true,
        copies: true,
        services: true,
        copied_services: true,
    };

    /// The packet is given up here.
    pub fn at(&self, op: &Op) -> bool {
        match op {
            Op::Group { .. } => self.groups,
            Op::Clone { .. } => self.clones,
            Op::Reparse => self.reparses,
            Op::Resubmit { .. } | Op::Recirculate { .. } => self.passes,
            Op::Call { .. } => self.calls,
            Op::OnCopy { .. } => self.copies,
            Op::Service { .. } => self.services,
            _ => false,
        }
    }
}

/// A program on its way through the passes.
pub(crate) struct Work<'a> {
    pub(crate) contents: &'a Contents,
    pub(crate) options: &'a Options,
    pub(crate) program: Program,
    /// Live actions.
    pub(crate) actions: BTreeMap<ActionId, Arc<Action>>,
    pub(crate) tables: Vec<Option<LiveTable>>,
    pub(crate) notes: Vec<Note>,
}

impl Work<'_> {
    pub(crate) fn note(&mut self, pass: &'static str, text: String) {
        self.notes.push(Note { pass, text });
    }

    /// Puts another body in place of a live action's.
    pub(crate) fn set_body(&mut self, id: ActionId, body: Vec<Op>) {
        if let Some(action) = self.actions.get_mut(&id)
            && action.body != body
        {
            let (name, params) = (action.name.clone(), action.params.clone());
            *action = Arc::new(Action { name, params, body });
        }
    }
}
