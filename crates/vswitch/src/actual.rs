//! What the switch has: all that was asked of it and that it did not refuse.
//!
//! Kept here rather than asked of the switch, since a switch knows its state, not the settings that led to it.

use crate::desired::bridge::BridgeSettings;
use crate::desired::controller::ControllerSettings;
use crate::desired::datapath::{Policies, ZoneLimits};
use crate::desired::interface::InterfaceSettings;
use crate::desired::mirror::MirrorSettings;
use crate::desired::port::PortSettings;
use crate::numbers::Numbers;
use std::collections::BTreeMap;

/// Bridges by name.
#[derive(Clone, Debug, Default)]
pub struct Actual {
    /// Timeouts of connections by zone.
    pub timeouts: Policies,
    /// Limits on connections by zone.
    pub zone_limits: ZoneLimits,
    /// Those that are there.
    pub bridges: BTreeMap<String, ActualBridge>,
}

/// A bridge.
#[derive(Clone, Debug, Default)]
pub struct ActualBridge {
    /// As it was told.
    pub settings: BridgeSettings,
    /// Ports as they were told.
    pub ports: BTreeMap<String, PortSettings>,
    /// Interfaces that are open.
    pub interfaces: BTreeMap<String, ActualInterface>,
    /// Mirrors as they were told.
    pub mirrors: Vec<MirrorSettings>,
    /// Controllers as they were told.
    pub controllers: Vec<ControllerSettings>,
    /// Numbers that are given.
    pub numbers: Numbers,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActualInterface {
    /// As it was told.
    pub settings: InterfaceSettings,
    /// Its number.
    pub number: u32,
    /// The request that its number was given for.
    pub request: Option<u32>,
}

/// What was refused, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// By bridge.
    pub bridges: BTreeMap<String, String>,
    /// By port.
    pub ports: BTreeMap<String, String>,
    /// By interface.
    pub interfaces: BTreeMap<String, String>,
}

impl Refusals {
    /// Nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.bridges.is_empty() && self.ports.is_empty() && self.interfaces.is_empty()
    }
}
