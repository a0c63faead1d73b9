//! Ports as controllers see and configure them (1.3.5 §7.2.1, §7.3.4.3, §7.4.3).
//!
//! The switch knows whether a port is down, receives and forwards; what else a controller sets
//! (no packet-ins, no flooding) is kept here, by number, so that it outlives a port that vanishes
//! and comes back. `OFPP_ALL` and `OFPP_FLOOD` are groups of the pipeline, one bucket per port,
//! rebuilt here when ports come, go or leave flooding. A port that is merely down stays in them: its
//! copies are dropped under a reason of their own, and nothing is lost once it is up.

use crate::agent::Agent;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::transaction::Transaction;
use ir::{CounterId, GroupKind, Update};
use of_lower::layout::{GROUP_ALL, GROUP_FLOOD};
use openflow::{
    MacAddr, PortConfig, PortDesc, PortFeatures, PortMod, PortNo, PortReason, PortState, PortStatus,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use switch::{PortEvent, PortView};

/// What only OpenFlow configures of a port.
const OURS: PortConfig = PortConfig::NO_PACKET_IN
    .union(PortConfig::NO_FLOOD)
    .union(PortConfig::NO_STP)
    .union(PortConfig::NO_RECV_STP);

/// What the agent knows of ports beyond what the switch does.
#[derive(Debug, Default)]
pub struct Ports {
    numbers: BTreeSet<u32>,
    /// Bits of [`OURS`] that are set, by port; also of ports that are gone for the moment.
    ours: BTreeMap<u32, PortConfig>,
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

    /// Ports that take part in flooding.
    fn flooding(&self) -> impl Iterator<Item = u32> {
        let floods = |port: &u32| !self.configured(*port).contains(PortConfig::NO_FLOOD);
        self.numbers.iter().copied().filter(floods)
    }

    /// A port came.
    pub(crate) fn add(&mut self, port: u32) -> bool {
        self.numbers.insert(port)
    }

    pub(crate) fn set(&mut self, port: u32, config: PortConfig) {
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
    all: CounterId,
    flood: CounterId,
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

impl Agent {
    /// All ports by number.
    pub(crate) fn port_descs(&self) -> Vec<PortDesc> {
        let describe = |view: &PortView| describe(view, self.ports.configured(view.number));
        self.switch.ports().iter().map(describe).collect()
    }

    /// Executes a port-mod.
    pub(crate) fn port_mod(&mut self, request: PortMod) -> Result<(), Refusal> {
        let port = request.port_no;
        let view = self.switch.port(port.0).ok_or(Refusal::NoPort { port })?;
        //= openflow-1.3.5 §7.3.4.3: the address must be the port's, else OFPPMFC_BAD_HW_ADDR.
        let right = MacAddr(view.info.mac);
        if request.hw_addr != right {
            return Err(Refusal::HwAddr { port, given: request.hw_addr, right });
        }
        //= openflow-1.3.5 §7.3.4.3: no feature bits set leaves what is advertised as it is.
        if !request.advertise.is_empty() {
            return Err(Refusal::Advertise { port });
        }
        let unknown = (request.mask - PortConfig::all()).bits();
        if unknown != 0 {
            return Err(Refusal::PortConfig { port, bits: unknown });
        }
        let old = describe(&view, self.ports.configured(port.0)).config;
        let new = (old - request.mask) | (request.config & request.mask);
        if new & OURS != old & OURS {
            let before = self.ports.configured(port.0);
            self.ports.set(port.0, new & OURS);
            if (new ^ old).contains(PortConfig::NO_FLOOD)
                && let Err(refusal) = self.set_flood_groups()
            {
                self.ports.set(port.0, before);
                return Err(refusal);
            }
        }
        let config = switch::PortConfig {
            down: new.contains(PortConfig::PORT_DOWN),
            no_receive: new.contains(PortConfig::NO_RECV),
            no_forward: new.contains(PortConfig::NO_FWD),
        };
        if config != view.config {
            // The switch reports the change, and with it what changed here.
            return self.switch.configure_port(port.0, config).map_err(|error| {
                self.ports.set(port.0, old & OURS);
                Refusal::PortRefused { port, reason: error.to_string() }
            });
        }
        if new != old {
            let desc = describe(&view, self.ports.configured(port.0));
            self.events.push(Event::PortStatus(PortStatus { reason: PortReason::Modify, desc }));
        }
        Ok(())
    }

    /// Follows a port's coming, going or changing.
    pub(crate) fn port_event(&mut self, event: PortEvent) {
        let (reason, view) = match event {
            PortEvent::Added(view) => (PortReason::Add, view),
            PortEvent::Modified(view) => (PortReason::Modify, view),
            PortEvent::Removed(view) => (PortReason::Delete, view),
        };
        let changed = match reason {
            PortReason::Add => self.ports.numbers.insert(view.number),
            PortReason::Delete => self.ports.numbers.remove(&view.number),
            PortReason::Modify => false,
        };
        if changed && let Err(refusal) = self.set_flood_groups() {
            tracing::error!(port = view.number, %refusal, "flooding does not follow the ports");
        }
        if !view.is_live() || reason == PortReason::Delete {
            self.forget_stations(view.number);
        }
        //= openflow-1.3.5 §7.4.3: ports that come, go or change are told.
        let mut desc = describe(&view, self.ports.configured(view.number));
        if reason == PortReason::Delete {
            desc.state.insert(PortState::LINK_DOWN);
            desc.state.remove(PortState::LIVE);
        }
        self.events.push(Event::PortStatus(PortStatus { reason, desc }));
    }

    /// Makes the groups of ALL and FLOOD what the ports are now.
    pub(crate) fn set_flood_groups(&mut self) -> Result<(), Refusal> {
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        let unread = match self.unread {
            Some(unread) => unread,
            None => Unread { all: tx.take_group_counter()?, flood: tx.take_group_counter()? },
        };
        let layout = &self.layout;
        let group = |ports: Vec<u32>, counter: CounterId| {
            let bucket = |port: u32| ir::Bucket {
                weight: 0,
                watch_port: None,
                watch_group: None,
                action: layout.output_call(port),
                counter,
            };
            Arc::new(ir::Group {
                kind: GroupKind::All,
                buckets: ports.into_iter().map(bucket).collect(),
                hash: [].into(),
                counter,
            })
        };
        //= openflow-1.3.5 §4.5: ALL is every port but the ingress port; FLOOD leaves out those that
        //= are configured so. (The action of the buckets leaves out the ingress port.)
        let all = group(self.ports.numbers.iter().copied().collect(), unread.all);
        let flood = group(self.ports.flooding().collect(), unread.flood);
        tx.push(Update::SetGroup(GROUP_ALL, all));
        tx.push(Update::SetGroup(GROUP_FLOOD, flood));
        tx.commit()?.retire(&self.switch);
        self.unread = Some(unread);
        Ok(())
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
