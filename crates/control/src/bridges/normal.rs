//! VLANs of ports, mirrors and bonds, as the switch has them: by numbers, and before a port's first packet.

use super::bridge::Bridge;
use super::config::{BridgeConfig, PortConfig};
use super::error::Error;
use crate::bonds::{Bond, BondError};
use crate::normal::mirror::{Mirror, MirrorError};
use crate::normal::vlan::{Vlan, VlanError};
use crate::sync::lock;
use of_pipeline::vlans::{NormalConfig, NormalRefusal};
use std::collections::BTreeMap;

impl Bridge {
    /// What ports and mirrors come to.
    fn normal(&self) -> NormalConfig {
        let ports = lock(&self.ports);
        let config = lock(&self.config);
        let number =
            |name: &str| ports.iter().find(|port| port.name == name).and_then(|port| port.number);
        let vlans = |port: &PortConfig| Some((port.number?, port.vlan.of_port()?));
        let protected = ports.iter().filter(|port| port.vlan.protected);
        NormalConfig {
            vlan_limit: config.learning.vlan_limit,
            ports: ports.iter().filter_map(vlans).collect(),
            mirrors: config.mirrors.iter().filter_map(|mirror| mirror.of_ports(number)).collect(),
            protected: protected.filter_map(|port| port.number).collect(),
            flood_vlans: config.learning.flood_vlans.iter().copied().collect(),
            forwards_bpdu: config.learning.forwards_bpdu,
            stations: config.learning.stations,
            // Bonds tell what they are themselves.
            bonds: Vec::new(),
        }
    }

    /// NORMAL and mirrors are as ports and mirrors say.
    fn follow(&self) -> Result<(), Option<NormalRefusal>> {
        let wanted = self.normal();
        let BridgeConfig { bonds, address, .. } = self.config();
        let Some(openflow) = self.openflow() else {
            return if wanted.is_empty() && bonds.is_empty() { Ok(()) } else { Err(None) };
        };
        let named = |port: &PortConfig| Some((port.name.clone(), port.number?));
        let ports: BTreeMap<String, u32> = lock(&self.ports).iter().filter_map(named).collect();
        let [_, _, of_id @ ..] = openflow.agent().config().datapath_id.to_be_bytes();
        let system = address.unwrap_or(of_id);
        let tell = |bonds| {
            let wanted = NormalConfig { bonds, ..wanted };
            openflow.agent().set_normal_config(wanted).map_err(Some)
        };
        self.bonds.follow(&bonds, self.switch(), &ports, system, tell)?;
        self.bonds.start(self.name(), self.switch(), &openflow.agent);
        Ok(())
    }

    /// All of it, when the bridge begins.
    pub(super) fn set_normal(&self) -> Result<(), Error> {
        for port in lock(&self.ports).iter() {
            check(&port.name, &port.vlan)?;
        }
        let named = self.config().mirrors;
        self.check_mirrors(&named)?;
        self.check_bonds(&self.config().bonds)?;
        self.follow().map_err(|error| self.mirrors_refused(error))?;
        self.switch().sync();
        Ok(())
    }

    /// Does something with the ports as they are kept, such as to put in one that is still to be opened, and has NORMAL
    /// follow. If that is refused they are as before.
    pub(super) fn with_ports(
        &self,
        port: &str,
        change: impl FnOnce(&mut Vec<PortConfig>),
    ) -> Result<(), Error> {
        let before = lock(&self.ports).clone();
        change(&mut lock(&self.ports));
        self.follow().map_err(|error| {
            *lock(&self.ports) = before;
            let error = error.map_or(VlanError::NoNormal, VlanError::from);
            Error::Vlan { port: port.to_owned(), error }
        })
    }

    pub(super) fn set_vlan(&self, name: &str, vlan: Vlan) -> Result<(), Error> {
        self.number(name)?;
        check(name, &vlan)?;
        if lock(&self.ports).iter().any(|port| port.name == name && port.vlan == vlan) {
            return Ok(());
        }
        self.with_ports(name, |ports| {
            for port in ports.iter_mut().filter(|port| port.name == name) {
                port.vlan = vlan.clone();
            }
        })?;
        self.switch().sync();
        Ok(())
    }

    pub(super) fn set_mirrors(&self, mirrors: Vec<Mirror>) -> Result<(), Error> {
        self.check_mirrors(&mirrors)?;
        let before = std::mem::replace(&mut lock(&self.config).mirrors, mirrors);
        if let Err(error) = self.follow() {
            lock(&self.config).mirrors = before;
            return Err(self.mirrors_refused(error));
        }
        self.switch().sync();
        Ok(())
    }

    pub(super) fn set_bonds(&self, bonds: Vec<Bond>) -> Result<(), Error> {
        self.check_bonds(&bonds)?;
        let before = std::mem::replace(&mut lock(&self.config).bonds, bonds);
        if let Err(error) = self.follow() {
            lock(&self.config).bonds = before;
            let error = error.map_or(BondError::NoNormal, BondError::from);
            return Err(Error::Bond { bridge: self.name().to_owned(), error });
        }
        self.switch().sync();
        Ok(())
    }

    pub(super) fn check_bonds(&self, bonds: &[Bond]) -> Result<(), Error> {
        let failed = |error| Error::Bond { bridge: self.name().to_owned(), error };
        crate::bonds::check(bonds).map_err(failed)
    }

    /// The address of a bond's active member, all zeros for none; none if there is no such bond.
    pub fn bond_active(&self, name: &str) -> Option<[u8; 6]> {
        self.bonds.active_mac(name)
    }

    /// Whether frames of a port's partner of LACP come; none of a port without it.
    pub fn lacp_current(&self, port: &str) -> Option<bool> {
        self.bonds.lacp_current(port)
    }

    /// The configuration's part that NORMAL follows has changed.
    pub(super) fn follow_config(&self) -> Result<(), Error> {
        self.follow().map_err(|error| self.mirrors_refused(error))
    }

    /// Packets and bytes that a mirror has copied.
    pub fn mirror_counts(&self, name: &str) -> Option<(u64, u64)> {
        let config = self.config();
        // Those without a port for copies are not there.
        let number = |name: &str| self.number(name).ok();
        let there = config.mirrors.iter().filter(|mirror| mirror.of_ports(number).is_some());
        let place = there.into_iter().position(|mirror| mirror.name == name)?;
        self.openflow()?.agent().mirror_counts(place)
    }

    /// The ports that a mirror names are there.
    pub(crate) fn check_ports(&self, mirror: &Mirror) -> Result<(), MirrorError> {
        match mirror.ports().find(|port| !self.has_port(port)) {
            Some(port) => {
                let (mirror, port) = (mirror.name.clone(), port.clone());
                Err(MirrorError::NoPort { mirror, port })
            }
            None => Ok(()),
        }
    }

    pub(super) fn check_mirrors(&self, mirrors: &[Mirror]) -> Result<(), Error> {
        for (at, mirror) in mirrors.iter().enumerate() {
            let failed = |error| Error::Mirror { bridge: self.name().to_owned(), error };
            if mirrors[..at].iter().any(|other| other.name == mirror.name) {
                return Err(failed(MirrorError::Exists(mirror.name.clone())));
            }
            mirror.check().map_err(failed)?;
        }
        Ok(())
    }

    /// The same of how it learns.
    pub(super) fn learning_refused(&self, error: Error) -> Error {
        match error {
            Error::Mirror { bridge, error: MirrorError::Refused(error) } => {
                Error::Learning { bridge, error }
            }
            other => other,
        }
    }

    fn mirrors_refused(&self, error: Option<NormalRefusal>) -> Error {
        let error = error.map_or(MirrorError::NoNormal, MirrorError::from);
        Error::Mirror { bridge: self.name().to_owned(), error }
    }
}

pub(super) fn check(port: &str, vlan: &Vlan) -> Result<(), Error> {
    vlan.check().map_err(|error| Error::Vlan { port: port.to_owned(), error })
}
