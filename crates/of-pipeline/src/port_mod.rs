//! Port-mods, and ports that come, go or change (1.3.5 §7.3.4.3, §7.4.3); the groups of ALL and FLOOD.
//!
//! `OFPP_ALL` and `OFPP_FLOOD` are groups of the pipeline, one bucket per port,
//! rebuilt here when ports come, go or leave flooding. A port that is merely down stays in them: its
//! copies are dropped under a reason of their own, and nothing is lost once it is up.

use crate::agent::Agent;
use crate::event::Event;
use crate::ports::{OURS, Unread, describe};
use crate::refusal::Refusal;
use crate::stage::Batch;
use crate::transaction::Transaction;
use ir::{CounterId, GroupKind, Update};
use of_lower::layout::{GROUP_ALL, GROUP_FLOOD};
use openflow::{MacAddr, PortConfig, PortDesc, PortMod, PortReason, PortState, PortStatus};
use std::sync::Arc;
use switch::{PortEvent, PortView};

impl Agent {
    /// All ports by number.
    pub(crate) fn port_descs(&self) -> Vec<PortDesc> {
        let describe = |view: &PortView| describe(view, self.stores.ports.configured(view.number));
        self.env.switch.ports().iter().map(describe).collect()
    }

    /// Follows a port's coming, going or changing.
    pub(crate) fn port_event(&mut self, event: PortEvent) {
        let (reason, view) = match event {
            PortEvent::Added(view) => (PortReason::Add, view),
            PortEvent::Modified(view) => (PortReason::Modify, view),
            PortEvent::Removed(view) => (PortReason::Delete, view),
        };
        let changed = match reason {
            PortReason::Add => self.stores.ports.add(view.number),
            PortReason::Delete => self.stores.ports.remove(view.number),
            PortReason::Modify => false,
        };
        if view.info.described && reason == PortReason::Add {
            self.stores.tunnels.see_port();
            if let Err(refusal) = self.follow_tunnels() {
                tracing::error!(port = view.number, %refusal, "the program cannot serve tunnel ports");
            }
            self.tell_options();
        }
        if changed && let Err(refusal) = self.transaction(None).set_flood_groups() {
            tracing::error!(port = view.number, %refusal, "flooding does not follow the ports");
        }
        if !view.is_up() || reason == PortReason::Delete {
            let gone = reason == PortReason::Delete;
            self.stations.forget_port(&self.env, &mut self.stage, view.number, gone);
        }
        //= openflow-1.3.5 §7.4.3: ports that come, go or change are told.
        let mut desc = describe(&view, self.stores.ports.configured(view.number));
        if reason == PortReason::Delete {
            desc.state.insert(PortState::LINK_DOWN);
            desc.state.remove(PortState::LIVE);
        }
        self.outbox.push(Event::PortStatus(PortStatus { reason, desc }));
    }
}

impl Transaction<'_> {
    /// Executes a port-mod.
    pub(crate) fn port_mod(&mut self, request: PortMod) -> Result<(), Refusal> {
        let port = request.port_no;
        let view = self.env.switch.port(port.0).ok_or(Refusal::NoPort { port })?;
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
        let old = describe(&view, self.stores.ports.configured(port.0)).config;
        let new = (old - request.mask) | (request.config & request.mask);
        if new & OURS != old & OURS {
            let before = self.stores.ports.configured(port.0);
            self.stores.ports.set(port.0, new & OURS);
            if (new ^ old).contains(PortConfig::NO_FLOOD)
                && let Err(refusal) = self.set_flood_groups()
            {
                self.stores.ports.set(port.0, before);
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
            self.env.switch.configure_port(port.0, config).map_err(|error| {
                self.stores.ports.set(port.0, old & OURS);
                Refusal::PortRefused { port, reason: error.to_string() }
            })?;
        } else if new != old {
            let desc = describe(&view, self.stores.ports.configured(port.0));
            self.outbox.push(Event::PortStatus(PortStatus { reason: PortReason::Modify, desc }));
        }
        self.stores.ports.touched.touch(port.0);
        if let Some(deferred) = self.stage.deferred() {
            deferred.ports.push((port.0, view.config, old & OURS));
        }
        Ok(())
    }

    /// Makes the groups of ALL and FLOOD what the ports are now.
    pub(crate) fn set_flood_groups(&mut self) -> Result<(), Refusal> {
        let mut tx = Batch::new(&self.env.switch, self.stage);
        let unread = match self.stores.ports.unread {
            Some(unread) => unread,
            None => Unread { all: tx.take_group_counter()?, flood: tx.take_group_counter()? },
        };
        let layout = &self.env.layout;
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
        let all = group(self.stores.ports.numbers().collect(), unread.all);
        let flood = group(self.stores.ports.flooding().collect(), unread.flood);
        tx.push(Update::SetGroup(GROUP_ALL, all));
        tx.push(Update::SetGroup(GROUP_FLOOD, flood));
        tx.commit()?.retire(&self.env.switch);
        self.stores.ports.unread = Some(unread);
        Ok(())
    }
}
