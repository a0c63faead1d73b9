//! Stations that stay where somebody has put them (Open vSwitch's `fdb/add` and `fdb/del`).
//!
//! Such a station does not age, is not moved by its packets at another port, and gives way to no other. It goes when it is
//! removed, when its port goes, or when the port's VLANs change; not with its link.

use super::{Place, Stations};
use crate::agent::Agent;
use crate::env::Env;
use crate::refusal::Refusal;
use crate::stage::Stage;

/// Why a station is not put at a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StationRefusal {
    /// A VLAN's number.
    #[error("VLAN {0} does not exist; they are 0 to 4095")]
    Vlan(u16),
    /// A group, or no address.
    #[error("{0:012x} is no address of one station")]
    Address(u64),
    /// All packets of the VLAN are flooded, whatever is known.
    #[error("in VLAN {0} all packets are flooded, so no station has a place")]
    Flooded(u16),
    /// No such port.
    #[error("there is no port {0}")]
    NoPort(u32),
    /// Nobody is behind a mirror's port.
    #[error("port {0} takes a mirror's copies, so no station is behind it")]
    Mirrors(u32),
    /// No room.
    #[error("there is room for {0} stations, and those that are known stay")]
    Full(usize),
    /// The switch did not take it.
    #[error("the switch refused it: {0}")]
    Refused(Refusal),
}

impl Stations {
    /// Those that stay, with the ports or bonds that they are at.
    pub(crate) fn fixed(&self) -> Vec<(Place, u32)> {
        let fixed = self.known.iter().filter(|(_, station)| station.fixed);
        fixed.map(|(place, station)| (*place, station.port)).collect()
    }

    /// They are put where they were. One that cannot be is told.
    pub(crate) fn fix_again(&mut self, env: &Env, stage: &mut Stage, all: Vec<(Place, u32)>) {
        for ((vlan, mac), port) in all {
            let done = self.place(env, stage, (vlan, mac), (port, true));
            if !matches!(done, Ok(true)) {
                tracing::error!(
                    vlan,
                    mac = format_args!("{mac:012x}"),
                    port,
                    "a station that was to stay is lost"
                );
            }
        }
    }
}

impl Agent {
    /// A station stays at a port, wherever it was known before.
    pub fn add_station(&mut self, vlan: u16, mac: u64, port: u32) -> Result<(), StationRefusal> {
        let config = &self.vlans.config;
        if vlan > 4095 {
            return Err(StationRefusal::Vlan(vlan));
        }
        if mac == 0 || mac >> 40 & 1 == 1 || mac >> 48 != 0 {
            return Err(StationRefusal::Address(mac));
        }
        if config.flood_vlans.contains(vlan) {
            return Err(StationRefusal::Flooded(vlan));
        }
        if self.env.switch.port(port).is_none() {
            return Err(StationRefusal::NoPort(port));
        }
        if config.is_mirrors(port) {
            return Err(StationRefusal::Mirrors(port));
        }
        let at = config.bond_of(port).map_or(port, |bond| bond.bundle());
        let done = self.stations.place(&self.env, &mut self.stage, (vlan, mac), (at, true));
        match done {
            Ok(true) => Ok(()),
            Ok(false) => Err(StationRefusal::Full(self.stations.most(&self.env))),
            Err(refusal) => Err(StationRefusal::Refused(refusal)),
        }
    }

    /// These stations, by VLAN and address, may be anywhere now. Those that stay do.
    pub fn forget_these_stations(&mut self, places: &[(u16, u64)]) {
        self.stations.forget_these(&self.env, &mut self.stage, places);
    }

    /// A station that was to stay is forgotten. Says whether there was one.
    pub fn remove_station(&mut self, vlan: u16, mac: u64) -> bool {
        let there = self.stations.known.get(&(vlan, mac)).is_some_and(|station| station.fixed);
        if there {
            self.stations.remove_all(&self.env, &mut self.stage, vec![(vlan, mac)]);
        }
        there
    }
}
