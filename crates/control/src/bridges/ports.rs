//! A bridge's ports: opened and added, removed, given other numbers.

use super::bridge::Bridge;
use super::config::{PortConfig, check_port_name};
use super::error::Error;
use super::normal;
use crate::bfd::{Around, BfdError};
use crate::config::diff::PortParts;
use crate::ports::{open, places};
use crate::sync::lock;
use datapath::policer::Policing;
use datapath::queues::QueuesConfig;
use port::kind::Environment;
use port::link::LinkRequest;
use std::collections::BTreeMap;
use switch::PortError;
use switch::ports::{NUMBER_LOCAL, NUMBER_MAX};
use tunnel::hub::Hub;

impl Bridge {
    /// There is a port of this name.
    pub(super) fn has_port(&self, name: &str) -> bool {
        lock(&self.ports).iter().any(|port| port.name == name)
    }

    pub(super) fn add_port(
        &self,
        environment: &Environment,
        mut config: PortConfig,
    ) -> Result<u32, Error> {
        check_port_name(&config.name)?;
        normal::check(&config.name, &config.vlan)?;
        let number = self.free_number(config.number)?;
        let name = config.name.as_str();
        let opened = open(&*config.attachment, name, config.rx_rate, environment);
        let port = opened.map_err(|error| Error::Port { port: name.to_owned(), error })?;
        if port.info().described && self.openflow().is_none() {
            return Err(Error::NotOpenFlow { bridge: self.name().to_owned() });
        }
        for warning in &port.info().warnings {
            tracing::warn!(bridge = self.name(), port = name, "{warning}");
        }
        let places = places(&*config.attachment, &*port, &config.places);
        config.number = Some(number);
        let (name, kept) = (config.name.clone(), config);
        // Its VLANs hold for its first packet.
        self.with_ports(&name, |ports| ports.push(kept))?;
        let added = self.switch().add_port_as(&name, Some(number), port, &places);
        if let Err(error) = added {
            self.with_ports(&name, |ports| ports.retain(|port| port.name != name))?;
            return Err(self.refused(&name, error));
        }
        self.settle();
        Ok(number)
    }

    pub(super) fn remove_port(&self, name: &str) -> Result<(), Error> {
        let number = self.number(name)?;
        self.switch().remove_port(number).map_err(|error| self.refused(name, error))?;
        self.bfd.remove(self.switch(), name);
        self.with_ports(name, |ports| ports.retain(|port| port.name != name))?;
        self.settle();
        Ok(())
    }

    /// Gives an open port what can change while it is open.
    pub(super) fn change_port(&self, to: PortConfig) -> Result<(), Error> {
        let held = lock(&self.ports).iter().find(|port| port.name == to.name).cloned();
        let Some(held) = held else {
            let (bridge, port) = (self.name().to_owned(), to.name);
            return Err(Error::NoPort { bridge, port });
        };
        let parts = PortParts::between(&held, &to);
        if parts.opened {
            let (bridge, what) = (self.name().to_owned(), "what a port is opened with");
            return Err(Error::Fixed { bridge, what });
        }
        if parts.vlan {
            self.set_vlan(&to.name, to.vlan)?;
        }
        if parts.number {
            self.renumber(&to.name, to.number)?;
        }
        Ok(())
    }

    pub(super) fn renumber(&self, name: &str, number: Option<u32>) -> Result<u32, Error> {
        let old = self.number(name)?;
        if number == Some(old) {
            return Ok(old);
        }
        let number = self.free_number(number)?;
        // Its VLANs are those of both numbers until it has the new one.
        let renumber = |ports: &mut Vec<PortConfig>, number| {
            for port in ports.iter_mut().filter(|port| port.name == name) {
                port.number = Some(number);
            }
        };
        let both = |ports: &mut Vec<PortConfig>| {
            let old = ports.iter().find(|port| port.name == name).cloned();
            renumber(ports, number);
            // Behind it, so that the name has the new number.
            ports.extend(old.map(|port| PortConfig { name: String::new(), ..port }));
        };
        self.with_ports(name, both)?;
        let done = self.switch().renumber_port(old, number);
        self.with_ports(name, |ports| {
            ports.retain(|port| !port.name.is_empty());
            renumber(ports, if done.is_ok() { number } else { old });
        })?;
        done.map_err(|error| self.refused(name, error))?;
        self.bfd.renumber(name, number);
        self.settle();
        Ok(number)
    }

    pub(super) fn set_down(&self, name: &str, down: bool) -> Result<(), Error> {
        let number = self.number(name)?;
        let config = self.switch().port(number).map(|view| view.config).unwrap_or_default();
        let done = self.switch().configure_port(number, switch::PortConfig { down, ..config });
        done.map_err(|error| self.refused(name, error))
    }

    pub(super) fn set_link(&self, name: &str, wanted: LinkRequest) -> Result<(), Error> {
        let number = self.number(name)?;
        self.switch().set_link(number, wanted).map_err(|error| self.refused(name, error))
    }

    pub(super) fn set_queues(&self, name: &str, config: QueuesConfig) -> Result<(), Error> {
        let number = self.number(name)?;
        self.switch().replace_queues(number, config).map_err(|error| self.refused(name, error))
    }

    pub(super) fn set_bfd(
        &self,
        environment: &Environment,
        name: &str,
        config: Option<bfd::Config>,
    ) -> Result<(), Error> {
        let number = self.number(name)?;
        let failed = |error| Error::Bfd { port: name.to_owned(), error };
        let (Some(hub), Some(openflow)) = (environment.get::<Hub>(), self.openflow()) else {
            return if config.is_none() { Ok(()) } else { Err(failed(BfdError::NoTunnel)) };
        };
        let around =
            Around { bridge: self.name(), switch: self.switch(), agent: &openflow.agent, hub };
        self.bfd.set(&around, (name, number), config).map_err(failed)
    }

    /// What the database shows of a port's BFD; none of a port without it.
    pub fn bfd_status(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.bfd.status(name)
    }

    pub(super) fn set_policing(&self, name: &str, policing: Policing) -> Result<(), Error> {
        let number = self.number(name)?;
        self.switch().set_policing(number, policing).map_err(|error| self.refused(name, error))
    }

    /// The number of a port.
    pub(super) fn number(&self, name: &str) -> Result<u32, Error> {
        let ports = lock(&self.ports);
        let found = ports.iter().find(|port| port.name == name).and_then(|port| port.number);
        found.ok_or_else(|| Error::NoPort { bridge: self.name().to_owned(), port: name.to_owned() })
    }

    /// A number that nobody has: this one, or the least.
    fn free_number(&self, wanted: Option<u32>) -> Result<u32, Error> {
        let ports = lock(&self.ports);
        let by = |number| ports.iter().find(|port| port.number == Some(number));
        match wanted {
            Some(number) if number != NUMBER_LOCAL && !(1..=NUMBER_MAX).contains(&number) => {
                Err(Error::NumberReserved { number })
            }
            Some(number) => match by(number) {
                Some(port) => Err(Error::NumberInUse { number, by: port.name.clone() }),
                None => Ok(number),
            },
            None => {
                let mut taken: Vec<u32> = ports.iter().filter_map(|port| port.number).collect();
                taken.sort_unstable();
                // The first place at which they leave the sequence.
                let gap = (1..).zip(&taken).find(|(n, taken)| n != *taken);
                Ok(gap.map_or(taken.len() as u32 + 1, |(n, _)| n))
            }
        }
    }

    /// The agent knows of the ports, and workers forward so.
    fn settle(&self) {
        if let Some(openflow) = self.openflow() {
            openflow.follow_ports();
        }
        self.switch().sync();
    }

    fn refused(&self, name: &str, error: PortError) -> Error {
        match error {
            PortError::Port(error) => Error::Port { port: name.to_owned(), error },
            error => Error::Switch { port: name.to_owned(), error },
        }
    }
}
