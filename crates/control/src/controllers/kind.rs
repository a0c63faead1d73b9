//! What a kind of controller is.

use crate::config::Config;
use crate::controller::{Begun, Controller, Switches};
use crate::failure::Failure;
use std::sync::Arc;
use switch::{Switch, Workers};

/// A switch that has begun, if the configuration asks for one.
pub(crate) type BegunSwitch<'a> = Result<Option<Box<dyn Begun + 'a>>, Failure>;

/// A kind of controller. It does what the configuration asks of it, and nothing where that does not name it.
pub(crate) struct Kind {
    /// Starts a switch with the program that this kind brings, on these workers.
    pub(crate) begin: for<'a> fn(&'a Config, &Workers) -> BegunSwitch<'a>,
    /// Joins a switch whose program another kind has brought, and that is one of these; ports are there.
    pub(crate) join: fn(&Config, &Switch, &Switches) -> Joined,
}

/// Who has joined, if anybody has.
pub(crate) type Joined = Result<Option<Arc<dyn Controller>>, Failure>;

impl Kind {
    /// For a kind that only joins.
    pub(crate) fn brings_nothing<'a>(_: &'a Config, _: &Workers) -> BegunSwitch<'a> {
        Ok(None)
    }

    /// For a kind that only brings programs.
    pub(crate) fn joins_nobody(_: &Config, _: &Switch, _: &Switches) -> Joined {
        Ok(None)
    }
}
