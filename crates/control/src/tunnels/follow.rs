//! Tunnel ports of a bridge lay descriptors out by the map that its agent has.

use crate::controllers::openflow::OpenFlow;
use port::kind::Environment;
use switch::Switch;
use tunnel::hub::Hub;

/// From now on.
pub(crate) fn follow_options(openflow: &OpenFlow, switch: &Switch, environment: &Environment) {
    let Some(hub) = environment.get::<Hub>().cloned() else { return };
    let switch = switch.clone();
    openflow.agent().set_options_follower(Box::new(move |map| {
        for port in switch.ports().iter().filter(|port| port.info.described) {
            let name = &port.info.name;
            if !hub.set_options(name, map.clone()) {
                tracing::warn!(port = %name, "the port is none of the hub's, so it keeps its map of Geneve options");
            }
        }
    }));
}
