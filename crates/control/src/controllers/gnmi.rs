//! gNMI: the ports of all bridges as interfaces, whatever programs them.

use super::kind::{Joined, Kind};
use crate::config::{Config, GnmiAt};
use crate::controller::{Controller, Switches};
use crate::failure::Failure;
use crate::start;
use crate::sync::lock;
use gnmi::Gnmi;
use grpc::{Bind, Server, Services};
use std::sync::{Arc, Mutex};
use switch::Switch;

pub(super) const KIND: Kind = Kind { begin: Kind::brings_nothing, join };

/// A server of gNMI at an address of its own.
struct Served {
    gnmi: Gnmi,
    /// None once the switch stops.
    server: Mutex<Option<Server>>,
}

impl Controller for Served {
    fn listening(&self) -> Vec<String> {
        lock(&self.server).iter().map(|server| format!("gnmi:{}", server.address())).collect()
    }

    fn connected(&self) -> Vec<String> {
        vec!["gNMI".to_owned(); self.gnmi.streams()]
    }

    fn stop(&self) {
        let server = lock(&self.server).take();
        drop(server);
    }
}

/// All ports; the port of packets between a program and its clients is no interface.
fn ports(config: &Config, first: &Switch, switches: &Switches) -> Result<Gnmi, Failure> {
    let hidden = config.p4_runtime.iter().map(|p4_runtime| p4_runtime.cpu_port).collect();
    let (beginning, switches) = (first.clone(), switches.clone());
    let switches = Arc::new(move || {
        let all = switches();
        // The first one is there before there are bridges.
        if all.is_empty() { vec![beginning.clone()] } else { all }
    });
    Gnmi::new(first.clone(), hidden, switches).map_err(Failure::bad)
}

/// What the server of P4Runtime serves beside it, if anything.
pub(super) fn beside(
    config: &Config,
    switch: &Switch,
    switches: &Switches,
) -> Result<Option<Gnmi>, Failure> {
    match config.gnmi {
        GnmiAt::Nowhere => Ok(None),
        GnmiAt::P4Runtime | GnmiAt::Address(_) => ports(config, switch, switches).map(Some),
    }
}

fn join(config: &Config, switch: &Switch, switches: &Switches) -> Joined {
    let GnmiAt::Address(address) = config.gnmi else { return Ok(None) };
    let gnmi = ports(config, switch, switches)?;
    let tls = start::tls(config, address)?;
    let bind = match config.take_over {
        // Whoever is taken over has the address to its end.
        Some(_) => Bind::WhenFree,
        None => Bind::Now,
    };
    let services = Services::default().with(gnmi.service());
    let server = Server::start(address, "gNMI", bind, tls, services).map_err(Failure::bad)?;
    Ok(Some(Arc::new(Served { gnmi, server: Mutex::new(Some(server)) })))
}
