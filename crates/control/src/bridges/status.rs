//! What is told of bridges: ports with their counters, controllers.

use super::bridge::Bridge;
use super::config::PortConfig;
use super::error::Error;
use crate::sync::lock;
use datapath::ports::PortCounters;
use of_channel::{Listen, Target};
use openflow::Role;
use port::KernelStats;
use std::collections::HashMap;
use switch::PortView;

/// A bridge as it is.
#[derive(Clone, Debug)]
pub struct BridgeStatus {
    /// Its name.
    pub name: String,
    /// Its datapath id; none of a P4 program.
    pub datapath_id: Option<u64>,
    /// Its ports, by number.
    pub ports: Vec<(u32, String)>,
    /// Where it listens for controllers.
    pub listening: Vec<Listen>,
    /// Its controllers.
    pub controllers: Vec<ControllerState>,
    /// Flow entries that it has.
    pub flows: usize,
    /// Stations that NORMAL knows.
    pub stations: usize,
}

/// A controller as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerState {
    /// Where it is, as [`Target`] writes it, or whoever has connected.
    pub target: String,
    /// It is of the configuration, and connected to.
    pub configured: bool,
    /// It is connected, and has shaken hands.
    pub connected: bool,
    /// Its role, if it is connected.
    pub role: Option<Role>,
}

/// A port as it is.
#[derive(Clone, Debug)]
pub struct PortState {
    /// As it was asked for, its number filled in.
    pub config: PortConfig,
    /// As the switch sees it: address, MTU, speed, link.
    pub view: PortView,
    /// What it has counted.
    pub counters: PortCounters,
    /// What the kernel, or what is behind the port, has counted.
    pub kernel: KernelStats,
}

impl Bridge {
    /// What is told of it.
    pub fn status(&self) -> BridgeStatus {
        let openflow = self.openflow();
        let ports = lock(&self.ports);
        let mut ports: Vec<(u32, String)> =
            ports.iter().filter_map(|port| Some((port.number?, port.name.clone()))).collect();
        ports.sort_unstable();
        let (datapath_id, flows, stations) = match &openflow {
            Some(openflow) => {
                let agent = lock(&openflow.agent);
                let id = agent.config().datapath_id;
                (Some(id), agent.flows().total().0, agent.stations().len())
            }
            None => (None, crate::start::entries(self.switch()), 0),
        };
        BridgeStatus {
            name: self.name().to_owned(),
            datapath_id,
            ports,
            listening: openflow.as_ref().map_or_else(Vec::new, |one| one.listening_at()),
            controllers: self.controller_states(),
            flows,
            stations,
        }
    }

    /// Its controllers: first those of the configuration, in its order.
    pub fn controller_states(&self) -> Vec<ControllerState> {
        let Some(openflow) = self.openflow() else { return Vec::new() };
        let targets: Vec<String> =
            lock(&self.config).channel.controllers.iter().map(Target::to_string).collect();
        let states = openflow.states().into_iter();
        states
            .map(|status| ControllerState {
                configured: targets.contains(&status.uri),
                connected: status.up,
                role: status.up.then_some(status.role),
                target: status.uri,
            })
            .collect()
    }

    /// Its ports, by number.
    pub fn ports(&self) -> Vec<PortState> {
        let configs = lock(&self.ports).clone().into_iter();
        let mut configs: HashMap<u32, PortConfig> =
            configs.filter_map(|port| Some((port.number?, port))).collect();
        let counters = self.switch().port_counters();
        counters
            .into_iter()
            .filter_map(|(view, counters, kernel)| {
                let config = configs.remove(&view.number)?;
                Some(PortState { config, view, counters, kernel })
            })
            .collect()
    }

    /// One of its ports.
    pub fn port(&self, name: &str) -> Result<PortState, Error> {
        let none = || Error::NoPort { bridge: self.name().to_owned(), port: name.to_owned() };
        let held = lock(&self.ports).iter().find(|port| port.name == name).cloned();
        let config = held.ok_or_else(none)?;
        let number = config.number.ok_or_else(none)?;
        let (view, counters, kernel) = self.switch().counters_of_port(number).ok_or_else(none)?;
        Ok(PortState { config, view, counters, kernel })
    }
}
