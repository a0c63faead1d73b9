//! What a report is made of.

use crate::actual::{Actual, Refusals};
use crate::desired::Desired;
use crate::switch::{BridgeView, ControllerView, InterfaceView, Mac};
use ovsdb::Database;
use std::collections::{BTreeMap, BTreeSet};

/// What the switch shows.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// Bridges by name.
    pub bridges: BTreeMap<String, BridgeView>,
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, InterfaceView>,
    /// Addresses of the active members of bonds, by port.
    pub bonds: BTreeMap<String, Mac>,
    /// Controllers by bridge and target.
    pub controllers: BTreeMap<String, BTreeMap<String, ControllerView>>,
}

/// What is reported.
pub struct Report<'a> {
    /// The database as it was seen last.
    pub database: &'a Database,
    /// What the database asks for.
    pub desired: &'a Desired,
    /// What the switch has.
    pub actual: &'a Actual,
    /// What it refused.
    pub refusals: &'a Refusals,
    /// What it shows.
    pub views: &'a Views,
    /// The types of interfaces that it has.
    pub interface_types: &'a [String],
    /// What a datapath can do.
    pub capabilities: &'a BTreeMap<String, String>,
    /// Only these ports are reported; all without them.
    pub only: Option<&'a BTreeSet<String>>,
    /// Statistics are due.
    pub statistics: bool,
    /// Figures of the machine, if they are due.
    pub machine: Option<BTreeMap<String, String>>,
}
