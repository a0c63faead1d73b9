//! For tests: a switch that remembers what it was told, and refuses what it is told to refuse.

use crate::desired::bridge::BridgeSettings;
use crate::desired::controller::ControllerSettings;
use crate::desired::datapath::{Policies, ZoneLimits};
use crate::desired::interface::InterfaceSettings;
use crate::desired::mirror::MirrorSettings;
use crate::desired::port::PortSettings;
use crate::switch::{
    BridgeView, Connections, ControllerView, Feature, InterfaceView, LOCAL, Limits, Listed, Mac,
    Station, Switch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A bridge as it was told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FakeBridge {
    /// Settings.
    pub settings: BridgeSettings,
    /// Interfaces with their numbers.
    pub interfaces: BTreeMap<String, (u32, InterfaceSettings)>,
    /// Ports.
    pub ports: BTreeMap<String, PortSettings>,
    /// Mirrors.
    pub mirrors: Vec<MirrorSettings>,
    /// Controllers.
    pub controllers: Vec<ControllerSettings>,
    /// Addresses.
    pub stations: Vec<Station>,
}

/// What it holds.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Bridges by name.
    pub bridges: BTreeMap<String, FakeBridge>,
    /// Interfaces that cannot be opened, and why.
    pub unopenable: BTreeMap<String, String>,
    /// Interfaces of which nothing can be set, and why.
    pub unsettable: BTreeMap<String, String>,
    /// Interfaces whose device is gone.
    pub vanished: BTreeSet<String>,
    /// Packets come in.
    pub forwards: bool,
    /// How often it settled.
    pub settled: u64,
    /// Calls in order, in words.
    pub calls: Vec<String>,
    /// Limits of connections.
    pub limits: Limits,
    /// Timeouts of connections by zone.
    pub timeouts: Policies,
    /// Limits on connections by zone, of the database.
    pub zone_limits: ZoneLimits,
}

/// The switch.
#[derive(Debug, Default)]
pub struct Fake {
    held: Mutex<Held>,
    lacks: BTreeSet<Feature>,
}

impl Fake {
    /// One that lacks this.
    pub fn lacking(features: impl IntoIterator<Item = Feature>) -> Fake {
        Fake { held: Mutex::default(), lacks: features.into_iter().collect() }
    }

    /// What it holds, to look at or change.
    pub fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of<T>(
        &self,
        bridge: &str,
        call: String,
        change: impl FnOnce(&mut FakeBridge) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut held = self.held();
        held.calls.push(call);
        let bridge = held.bridges.get_mut(bridge);
        change(bridge.ok_or("there is no such bridge")?)
    }
}

impl Switch for Fake {
    fn lacks(&self, feature: &Feature) -> Option<String> {
        let types = ["system", "internal", "tap", "patch"];
        let unknown =
            matches!(feature, Feature::Interface(kind) if !types.contains(&kind.as_str()));
        (unknown || self.lacks.contains(feature)).then(|| "not there".to_owned())
    }

    fn interface_types(&self) -> Vec<String> {
        ["internal", "patch", "system", "tap"].map(str::to_owned).to_vec()
    }

    fn capabilities(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("recirc".to_owned(), "true".to_owned())])
    }

    fn set_timeouts(&self, policies: &Policies) {
        let mut held = self.held();
        held.calls.push("set timeouts".to_owned());
        held.timeouts = policies.clone();
    }

    fn set_zone_limits(&self, limits: &ZoneLimits) {
        let mut held = self.held();
        held.calls.push("set zone limits".to_owned());
        held.zone_limits = limits.clone();
    }

    fn add_bridge(&self, bridge: &BridgeSettings) -> Result<(), String> {
        let mut held = self.held();
        held.calls.push(format!("add bridge {}", bridge.name));
        let new = FakeBridge { settings: bridge.clone(), ..Default::default() };
        match held.bridges.insert(bridge.name.clone(), new) {
            None => Ok(()),
            Some(_) => Err("it is there already".to_owned()),
        }
    }

    fn set_bridge(&self, bridge: &BridgeSettings) -> Result<(), String> {
        self.of(&bridge.name, format!("set bridge {}", bridge.name), |has| {
            has.settings = bridge.clone();
            Ok(())
        })
    }

    fn remove_bridge(&self, bridge: &str) -> Result<(), String> {
        let mut held = self.held();
        held.calls.push(format!("remove bridge {bridge}"));
        held.bridges.remove(bridge).map(drop).ok_or_else(|| "it is not there".to_owned())
    }

    fn add_interface(
        &self,
        bridge: &str,
        number: u32,
        interface: &InterfaceSettings,
    ) -> Result<(), String> {
        let name = interface.name.clone();
        if let Some(why) = self.held().unopenable.get(&name) {
            return Err(why.clone());
        }
        self.of(bridge, format!("add interface {name} {number}"), |has| {
            if has.interfaces.values().any(|(other, _)| *other == number) {
                return Err(format!("{number} is taken"));
            }
            match has.interfaces.insert(name, (number, interface.clone())) {
                None => Ok(()),
                Some(_) => Err("it is there already".to_owned()),
            }
        })
    }

    fn set_interface(&self, bridge: &str, interface: &InterfaceSettings) -> Result<(), String> {
        if let Some(why) = self.held().unsettable.get(&interface.name) {
            return Err(why.clone());
        }
        self.of(bridge, format!("set interface {}", interface.name), |has| {
            let (_, settings) =
                has.interfaces.get_mut(&interface.name).ok_or("there is no such interface")?;
            *settings = interface.clone();
            Ok(())
        })
    }

    fn remove_interface(&self, bridge: &str, interface: &str) -> Result<(), String> {
        self.of(bridge, format!("remove interface {interface}"), |has| {
            let gone = has.interfaces.remove(interface);
            gone.map(drop).ok_or_else(|| "there is no such interface".to_owned())
        })
    }

    fn set_port(&self, bridge: &str, port: &PortSettings) -> Result<(), String> {
        self.of(bridge, format!("set port {}", port.name), |has| {
            if !port.interfaces.iter().all(|name| has.interfaces.contains_key(name)) {
                return Err("it has interfaces that are not there".to_owned());
            }
            has.ports.insert(port.name.clone(), port.clone());
            Ok(())
        })
    }

    fn remove_port(&self, bridge: &str, port: &str) -> Result<(), String> {
        self.of(bridge, format!("remove port {port}"), |has| {
            has.ports.remove(port).map(drop).ok_or_else(|| "there is no such port".to_owned())
        })
    }

    fn set_mirrors(&self, bridge: &str, mirrors: &[MirrorSettings]) -> Result<(), String> {
        self.of(bridge, "set mirrors".to_owned(), |has| {
            has.mirrors = mirrors.to_vec();
            Ok(())
        })
    }

    fn set_controllers(
        &self,
        bridge: &str,
        controllers: &[ControllerSettings],
    ) -> Result<(), String> {
        self.of(bridge, "set controllers".to_owned(), |has| {
            has.controllers = controllers.to_vec();
            Ok(())
        })
    }

    fn set_forwarding(&self, forwards: bool) {
        self.held().forwards = forwards;
    }

    fn settle(&self) {
        self.held().settled += 1;
    }

    fn bridges(&self) -> Vec<String> {
        self.held().bridges.keys().cloned().collect()
    }

    fn ports(&self, bridge: &str) -> Vec<Listed> {
        let held = self.held();
        let interfaces = held.bridges.get(bridge).into_iter().flat_map(|has| &has.interfaces);
        let listed = interfaces.map(|(name, (number, settings))| Listed {
            name: name.clone(),
            number: *number,
            below: if *number == LOCAL { 1 } else { number + 1 },
            kind: settings.kind.clone(),
            kind_is_patch: settings.kind == "patch",
            options: settings.options.clone(),
        });
        listed.collect()
    }

    fn looked_up(&self) -> u64 {
        7
    }

    fn bridge(&self, bridge: &str) -> Option<BridgeView> {
        let held = self.held();
        let has = held.bridges.get(bridge)?;
        let stations = (has.stations.len() as u64, 8192);
        Some(BridgeView {
            datapath_id: has.settings.datapath_id.unwrap_or(0xabc),
            stations,
            ..BridgeView::default()
        })
    }

    fn interface(&self, bridge: &str, interface: &str) -> Option<InterfaceView> {
        let held = self.held();
        let (number, settings) = held.bridges.get(bridge)?.interfaces.get(interface)?;
        Some(InterfaceView {
            present: !held.vanished.contains(interface),
            up: true,
            carrier: true,
            link_resets: 0,
            lacp_current: None,
            bfd_status: BTreeMap::new(),
            speed: Some(10_000_000_000),
            full_duplex: Some(true),
            mtu: Some(settings.mtu.unwrap_or(1500)),
            mac: Some(Mac([2, 0, 0, 0, (number >> 8) as u8, *number as u8])),
            ifindex: Some(*number),
            statistics: BTreeMap::from([("rx_packets", 3), ("tx_packets", 4)]),
            status: BTreeMap::new(),
        })
    }

    fn controllers(&self, bridge: &str) -> BTreeMap<String, ControllerView> {
        let held = self.held();
        let controllers = held.bridges.get(bridge).into_iter().flat_map(|has| &has.controllers);
        let view = ControllerView {
            connected: true,
            role: Some("master"),
            status: BTreeMap::from([("state", "ACTIVE".to_owned())]),
        };
        controllers.map(|one| (one.target.clone(), view.clone())).collect()
    }

    fn stations(&self, bridge: &str) -> Result<Vec<Station>, String> {
        let held = self.held();
        let has = held.bridges.get(bridge).ok_or("there is no such bridge")?;
        Ok(has.stations.clone())
    }

    fn flush_stations(&self, bridge: Option<&str>) -> Result<(), String> {
        let mut held = self.held();
        let chosen = held.bridges.iter_mut();
        let chosen = chosen.filter(|(name, _)| bridge.is_none_or(|bridge| bridge == *name));
        chosen.for_each(|(_, has)| has.stations.retain(|station| station.age_s.is_none()));
        Ok(())
    }

    fn add_station(
        &self,
        bridge: &str,
        interface: &str,
        vlan: u16,
        mac: Mac,
    ) -> Result<(), String> {
        self.of(bridge, "add station".to_owned(), |has| {
            let (port, _) = has.interfaces.get(interface).ok_or("there is no such port")?;
            has.stations.push(Station { port: *port, vlan, mac, age_s: None });
            Ok(())
        })
    }

    fn remove_station(&self, bridge: &str, vlan: u16, mac: Mac) -> Result<bool, String> {
        self.of(bridge, "remove station".to_owned(), |has| {
            let before = has.stations.len();
            has.stations.retain(|station| (station.vlan, station.mac) != (vlan, mac));
            Ok(has.stations.len() < before)
        })
    }

    fn flows(&self, bridge: &str) -> Result<Vec<String>, String> {
        self.of(bridge, "flows".to_owned(), |_| Ok(vec!["priority=0,actions=NORMAL".to_owned()]))
    }

    fn trace(&self, bridge: &str, flow: &str, packet: Option<&[u8]>) -> Result<String, String> {
        Ok(format!("{bridge} {flow} {packet:?}"))
    }

    fn reconnect(&self, bridge: Option<&str>) -> Result<(), String> {
        self.held().calls.push(format!("reconnect {bridge:?}"));
        Ok(())
    }

    fn ask(&self, family: &str, words: &[&str]) -> Result<String, String> {
        Ok(format!("{family} {}", words.join(" ")))
    }

    fn connections(&self) -> &dyn Connections {
        self
    }

    fn counts(&self) -> Vec<(String, u64)> {
        vec![("fake_settled".to_owned(), self.held().settled), ("fake_never".to_owned(), 0)]
    }

    fn usage(&self) -> Vec<(String, u64)> {
        vec![("ports".to_owned(), 2)]
    }
}

impl Connections for Fake {
    fn lines(&self, zone: Option<u16>) -> Vec<String> {
        vec![format!("tcp,zone={}", zone.unwrap_or(0))]
    }

    fn flush(&self, words: &[&str]) -> Result<(), String> {
        self.held().calls.push(format!("flush connections {words:?}"));
        Ok(())
    }

    fn by_protocol(&self, _zone: Option<u16>) -> BTreeMap<String, u64> {
        BTreeMap::from([("TCP".to_owned(), 2), ("UDP".to_owned(), 1)])
    }

    fn most(&self) -> u64 {
        262_144
    }

    fn limits(&self) -> Result<Limits, String> {
        Ok(self.held().limits.clone())
    }

    fn set_limits(&self, default: Option<u32>, zones: &[(u16, u32)]) -> Result<(), String> {
        let mut held = self.held();
        held.limits.default = default.unwrap_or(held.limits.default);
        held.limits.zones.extend(zones.iter().map(|(zone, limit)| (*zone, *limit, 0)));
        Ok(())
    }

    fn clear_limits(&self, default: bool, zones: &[u16]) -> Result<(), String> {
        let mut held = self.held();
        if default {
            held.limits.default = 0;
        }
        held.limits.zones.retain(|(zone, ..)| !zones.contains(zone));
        Ok(())
    }
}
