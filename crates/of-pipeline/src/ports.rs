//! Ports as controllers see and configure them (1.3.5 §7.2.1).
//!
//! The switch knows whether a port is down, receives and forwards; what else a controller sets
//! (no packet-ins, no flooding) is kept here, by number, so that it outlives a port that vanishes
//! and comes back.

use crate::touched::Numbers;
use ir::CounterId;
use openflow::{MacAddr, PortConfig, PortDesc, PortFeatures, PortNo, PortState};
use std::collections::{BTreeMap, BTreeSet};
use switch::PortView;

/// What only OpenFlow configures of a port.
pub(crate) const OURS: PortConfig = PortConfig::NO_PACKET_IN
    .union(PortConfig::NO_FLOOD)
    .union(PortConfig::NO_STP)
    .union(PortConfig::NO_RECV_STP);

/// What the agent knows of ports beyond what the switch does.
#[derive(Debug, Default)]
pub struct Ports {
    numbers: BTreeSet<u32>,
    /// Bits of [`OURS`] that are set, by port; also of ports that are gone for the moment.
    ours: BTreeMap<u32, PortConfig>,
    /// Once there are the groups of ALL and FLOOD.
    pub(crate) unread: Option<Unread>,
    /// How often something of the above changed.
    pub(crate) changes: u64,
    /// Ports that were configured, to be kept.
    pub(crate) touched: Numbers,
}

impl Ports {
    /// The port is there.
    pub fn contains(&self, port: u32) -> bool {
        self.numbers.contains(&port)
    }

    /// What only OpenFlow configured of a port.
    pub fn configured(&self, port: u32) -> PortConfig {
        self.ours.get(&port).copied().unwrap_or_default()
    }

    /// All ports by number.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.iter().copied()
    }

    /// Ports that take part in flooding.
    pub(crate) fn flooding(&self) -> impl Iterator<Item = u32> {
        let floods = |port: &u32| !self.configured(*port).contains(PortConfig::NO_FLOOD);
        self.numbers.iter().copied().filter(floods)
    }

    /// A port came.
    pub(crate) fn add(&mut self, port: u32) -> bool {
        self.changes += 1;
        self.numbers.insert(port)
    }

    /// A port went.
    pub(crate) fn remove(&mut self, port: u32) -> bool {
        self.changes += 1;
        self.numbers.remove(&port)
    }

    /// This is what only OpenFlow configures of a port.
    pub(crate) fn set(&mut self, port: u32, config: PortConfig) {
        self.changes += 1;
        if config.is_empty() {
            self.ours.remove(&port);
        } else {
            self.ours.insert(port, config);
        }
    }
}

/// The counters of the groups of ALL and FLOOD, which nobody reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread {
    pub(crate) all: CounterId,
    pub(crate) flood: CounterId,
}

/// The feature bit of a speed in kb/s.
fn speed(kbps: u32) -> PortFeatures {
    match kbps {
        0 => PortFeatures::empty(),
        10_000 => PortFeatures::MB10_FD,
        100_000 => PortFeatures::MB100_FD,
        1_000_000 => PortFeatures::GB1_FD,
        10_000_000 => PortFeatures::GB10_FD,
        40_000_000 => PortFeatures::GB40_FD,
        100_000_000 => PortFeatures::GB100_FD,
        1_000_000_000 => PortFeatures::TB1_FD,
        _ => PortFeatures::OTHER,
    }
}

/// A port as the switch tells about it, with what OpenFlow configured of it.
pub(crate) fn describe(view: &PortView, ours: PortConfig) -> PortDesc {
    let mut config = ours;
    config.set(PortConfig::PORT_DOWN, view.config.down || view.link.present && !view.link.admin_up);
    config.set(PortConfig::NO_RECV, view.config.no_receive);
    config.set(PortConfig::NO_FWD, view.config.no_forward);
    let mut state = PortState::empty();
    state.set(PortState::LINK_DOWN, !(view.link.present && view.link.carrier));
    state.set(PortState::LIVE, view.is_live());
    PortDesc {
        port_no: PortNo(view.number),
        hw_addr: MacAddr(view.info.mac),
        name: view.info.name.clone(),
        config,
        state,
        curr: speed(view.info.curr_speed_kbps),
        advertised: PortFeatures::empty(),
        supported: PortFeatures::empty(),
        peer: PortFeatures::empty(),
        curr_speed: view.info.curr_speed_kbps,
        max_speed: view.info.curr_speed_kbps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_outlives_the_port() {
        let mut ports = Ports::default();
        ports.add(1);
        ports.add(2);
        ports.set(1, PortConfig::NO_FLOOD);
        assert_eq!(ports.flooding().collect::<Vec<_>>(), [2]);
        ports.numbers.remove(&1);
        assert!(!ports.contains(1));
        ports.add(1);
        assert_eq!(ports.flooding().collect::<Vec<_>>(), [2]);
        ports.set(1, PortConfig::empty());
        assert_eq!(ports.flooding().collect::<Vec<_>>(), [1, 2]);
        assert!(ports.ours.is_empty());
    }

    #[test]
    fn speeds() {
        assert_eq!(speed(0), PortFeatures::empty());
        assert_eq!(speed(10_000_000), PortFeatures::GB10_FD);
        assert_eq!(speed(25_000_000), PortFeatures::OTHER);
    }
}
