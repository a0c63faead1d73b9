//! The bridges beside the first, as the new process takes them over.
//!
//! In: the running process's bridges, and this one's configuration. A bridge of the same name goes on with its entries,
//! connections and services, and with the ports that the configuration has. If the configuration does not have one, nothing is
//! taken over. One that only the configuration has is made as at any start.
//!
//! Checked by: millrace's `tests/take_over_bridges.rs`, with processes; `lab/take_over_bridges`.

use super::running::Running;
use crate::bridges::{BridgeConfig, Bridges, Error};
use crate::config::diff::Setup;
use crate::controller::Controllers;
use crate::controllers::openflow::OpenFlow;
use crate::failure::Failure;
use crate::guard;
use crate::persist::kept::{Opened as Journal, Owner};
use crate::ports::{Opened, Opening, Ports};
use of_channel::Bound;
use of_pipeline::Agent;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use switch::Switch;

/// A bridge that is being taken over; the running process still forwards.
pub(crate) struct Other {
    config: BridgeConfig,
    switch: Switch,
    ports: Ports,
    /// Those of its ports that two processes may have.
    opened: Opened,
    agent: Agent,
    /// Controllers wait to be accepted.
    bound: Bound,
}

/// Switches of those bridges, with the entries that they have in the running process; they receive nothing yet.
pub(crate) fn take(
    setup: &Setup,
    bridges: &Bridges,
    running: &mut Running<UnixStream>,
    switches: &mut Vec<Switch>,
) -> Result<Vec<Other>, Failure> {
    let mut others = Vec::new();
    let names: Vec<String> = running.others().map(|one| one.name.clone()).collect();
    for name in names {
        let wanted = setup.bridges.iter().skip(1).find(|one| one.bridge.name == name);
        let Some(wanted) = wanted else {
            return Err(Failure::Bad(format!(
                "--take-over: the running switch has a bridge {name:?}, and the configuration has none: add it there, as \
                 `millrace save` does, or remove it with `millrace bridge remove {name}`"
            )));
        };
        let failed =
            |error: &dyn std::fmt::Display| Failure::Bad(format!("bridge {name:?}: {error}"));
        let switch = bridges.new_switch(&name).map_err(|e| failed(&e))?;
        switches.push(switch.clone());
        switch.set_receiving(false);
        let config = wanted.bridge.clone();
        running.of_bridge(Some(&name));
        running.add_services(&switch)?;
        let agent = running.agent(|id| {
            let id = config.datapath_id.unwrap_or(id);
            bridges.new_agent(&switch, id).map_err(|e| failed(&e))
        })?;
        let bound = Bound::open(config.channel.clone()).map_err(|e| failed(&e))?;
        let ports = Ports::of_bridge(&wanted.ports, bridges.defaults().environment.clone());
        let mut opened = Opened::default();
        ports.open(Opening::Early, &mut opened)?;
        switch.sync();
        others.push(Other { config, switch, ports, opened, agent, bound });
    }
    Ok(others)
}

impl Other {
    /// While packets still come: its connections.
    pub(crate) fn connections(&self, running: &mut Running<UnixStream>) -> Result<(), Failure> {
        running.of_bridge(Some(&self.config.name));
        running.connections(&self.switch)
    }

    /// Packets have stopped: the rest, its ports, and it is one of the bridges.
    pub(crate) fn join(
        self,
        running: &mut Running<UnixStream>,
        bridges: &Bridges,
    ) -> Result<(), Failure> {
        let Other { config, switch, ports, mut opened, mut agent, bound } = self;
        let name = config.name.clone();
        running.of_bridge(Some(&name));
        running.changes(&switch)?;
        running.services(&switch)?;
        opened.receive_by(&ports, running.sockets()?);
        ports.add(&switch, opened)?;
        agent.follow_ports();
        let mut openflow = OpenFlow::new(agent, config.channel.clone());
        if let Some(place) = &bridges.defaults().persist {
            openflow.keep(Journal::open_after(place, &name, Owner::OpenFlow)?)?;
        }
        openflow.start_bound(&switch, bound)?;
        if let Some(within) = bridges.defaults().watchdog
            && let Err(error) = guard::watch(&switch, within)
        {
            tracing::warn!(bridge = name, %error, "nobody watches its threads");
        }
        let controllers = Controllers::of(vec![Arc::new(openflow)]);
        let adopted = bridges.adopt(config, switch, controllers, ports.configs());
        adopted.map_err(|e: Error| Failure::Bad(format!("bridge {name:?}: {e}")))
    }
}
