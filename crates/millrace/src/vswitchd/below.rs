//! [`Switch`] upon the bridges of this process.

use super::connections::Trackers;
use super::{channel, connections, flows, interface, normal, qos, trace};
use control::bridges::{Bond, Bridge, BridgeConfig, Bridges, Mirror, PortConfig, Vlan};
use control::port_kinds::KINDS;
use openflow::PortNo;
use port::link::LinkRequest;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use switch::ports::NUMBER_LOCAL;
use vswitch::desired::bridge::{BridgeSettings, STATIONS_MAX};
use vswitch::desired::controller::ControllerSettings;
use vswitch::desired::datapath::{Policies, ZoneLimits};
use vswitch::desired::interface::InterfaceSettings;
use vswitch::desired::mirror::MirrorSettings;
use vswitch::desired::port::PortSettings;
use vswitch::desired::qos::QosSettings;
use vswitch::switch::{
    BridgeView, Connections, ControllerView, Feature, InterfaceView, LOCAL, Listed, Mac, Station,
    Switch,
};

/// A bridge as it was told.
#[derive(Clone, Default)]
struct Told {
    settings: BridgeSettings,
    controllers: Vec<ControllerSettings>,
    interfaces: BTreeMap<String, InterfaceSettings>,
    /// Egress queues of ports, by interface.
    qos: BTreeMap<String, QosSettings>,
    /// VLANs of ports, by interface.
    vlans: BTreeMap<String, Vlan>,
    mirrors: Vec<MirrorSettings>,
    /// Bonds, by port.
    bonds: BTreeMap<String, Bond>,
}

/// The bridges, and what was told of them.
pub(super) struct Below {
    bridges: Bridges,
    trackers: Trackers,
    run: PathBuf,
    told: Mutex<BTreeMap<String, Told>>,
}

/// A local port's number is another in the database.
fn to_switch(number: u32) -> u32 {
    if number == LOCAL { NUMBER_LOCAL } else { number }
}

fn of_switch(number: u32) -> u32 {
    if number == NUMBER_LOCAL { LOCAL } else { number }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Below {
    pub(super) fn new(bridges: Bridges, run: PathBuf) -> Below {
        let trackers = Trackers::new(bridges.clone());
        Below { bridges, trackers, run, told: Mutex::default() }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<String, Told>> {
        // Settings are replaced whole: whoever panicked left them so.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, bridge: &str) -> Result<Arc<Bridge>, String> {
        self.bridges.bridge(bridge).map_err(text)
    }

    /// What a bridge is to be, and controllers that cannot be.
    fn config(&self, told: &Told) -> (BridgeConfig, Vec<String>) {
        let settings = &told.settings;
        let mut config = BridgeConfig::named(&settings.name);
        config.mirrors = mirrors(told).unwrap_or_default();
        config.bonds = told.bonds.values().cloned().collect();
        config.learning = normal::learning(settings);
        let bits = |Mac(mac)| mac.iter().fold(0, |id, byte| id << 8 | u64::from(*byte));
        let id = settings.datapath_id.or(settings.address.map(bits));
        config.datapath_id = id.or_else(|| Some(default_id(&settings.name)));
        config.address = settings.address.map(|Mac(mac)| mac);
        config.tables = normal::tables(settings);
        let refused = channel::config(&mut config.channel, settings, &told.controllers, &self.run);
        (config, refused)
    }

    /// The bridge that an interface is at, and what it was told.
    fn of_interface(&self, interface: &str) -> Result<(Arc<Bridge>, Told), String> {
        let told = self.told();
        let at = told.iter().find(|(_, told)| told.interfaces.contains_key(interface));
        let (bridge, told) = at.ok_or("no such interface")?;
        Ok((self.found(bridge)?, told.clone()))
    }

    /// Egress queues of an interface, which keep their counters while they stay as they are.
    fn set_qos(
        &self,
        bridge: &str,
        interface: &str,
        wanted: Option<&QosSettings>,
    ) -> Result<(), String> {
        let now = self.told().get(bridge).and_then(|told| told.qos.get(interface).cloned());
        if now.as_ref() == wanted {
            return Ok(());
        }
        self.bridges.set_queues(bridge, interface, qos::queues(wanted)?).map_err(text)?;
        if let Some(told) = self.told().get_mut(bridge) {
            match wanted {
                Some(wanted) => drop(told.qos.insert(interface.to_owned(), wanted.clone())),
                None => drop(told.qos.remove(interface)),
            }
        }
        Ok(())
    }

    /// A bridge's own interface has the address that the bridge is to have.
    fn set_own_address(&self, bridge: &str) -> Result<(), String> {
        let address = self.told().get(bridge).and_then(|told| told.settings.address);
        let Some(Mac(mac)) = address else { return Ok(()) };
        let wanted = LinkRequest { mtu: None, mac: Some(mac) };
        self.bridges.set_link(bridge, bridge, wanted).map_err(text)
    }

    /// A port is this bond, or none; mirrors follow its members.
    fn set_bond(&self, bridge: &str, port: &str, bond: Option<Bond>) -> Result<(), String> {
        // Most ports are none: the settings of all are not copied for them.
        let changed = |told: &&Told| told.bonds.get(port) != bond.as_ref();
        let changed = self.told().get(bridge).filter(changed).cloned();
        let Some(mut told) = changed else { return Ok(()) };
        match bond {
            Some(bond) => drop(told.bonds.insert(port.to_owned(), bond)),
            None => drop(told.bonds.remove(port)),
        }
        self.bridges.set_bonds(bridge, told.bonds.values().cloned().collect()).map_err(text)?;
        if let Some(held) = self.told().get_mut(bridge) {
            held.bonds = told.bonds.clone();
        }
        match told.mirrors.is_empty() {
            true => Ok(()),
            false => self.bridges.set_mirrors(bridge, mirrors(&told)?).map_err(text),
        }
    }

    fn change(&self, bridge: &str, change: impl FnOnce(&mut Told)) -> Result<(), String> {
        let mut told = self.told().get(bridge).cloned().unwrap_or_default();
        change(&mut told);
        let (config, refused) = self.config(&told);
        self.bridges.reconfigure(bridge, config).map_err(text)?;
        self.told().insert(bridge.to_owned(), told);
        match refused.is_empty() {
            true => Ok(()),
            false => Err(format!("controllers: {}", refused.join("; "))),
        }
    }
}

/// An interface as it is, with what its protocols have found.
fn seen(bridge: &Bridge, port: &control::bridges::PortState) -> InterfaceView {
    let name = &port.config.name;
    let bfd_status = bridge.bfd_status(name).unwrap_or_default();
    InterfaceView { lacp_current: bridge.lacp_current(name), bfd_status, ..interface::view(port) }
}

/// Mirrors as bridges have them: a bond is its members.
fn mirrors(told: &Told) -> Result<Vec<Mirror>, String> {
    told.mirrors.iter().map(|one| normal::mirror(one, &told.bonds)).collect()
}

/// An id of the bridge's name, the same after every start: FNV's sum, made an address that is administered locally.
fn default_id(name: &str) -> u64 {
    let sum = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (sum & 0xfcff_ffff_ffff) | 0x0200_0000_0000
}

impl Switch for Below {
    fn lacks(&self, feature: &Feature) -> Option<String> {
        Some(match feature {
            Feature::Interface(kind) if KINDS.of_database(kind).is_some() => return None,
            Feature::Interface(kind)
                if kind.starts_with("dpdk") && KINDS.of_database("dpdk").is_none() =>
            {
                "this build has no DPDK; one that has is made by `cargo build --release --features dpdk`"
                    .to_owned()
            }
            Feature::Interface(_) => {
                format!("not there; there are {}", KINDS.database_words().join(", "))
            }
            Feature::Vlan
            | Feature::Mirror
            | Feature::Bond
            | Feature::Lacp
            | Feature::Protected
            | Feature::FloodVlans
            | Feature::MacTableSize
            | Feature::MacAging
            | Feature::ForwardBpdu
            | Feature::Address
            | Feature::Mtu
            | Feature::Policing
            | Feature::FlowLimit
            | Feature::ControllerRate => return None,
            Feature::Bfd(kind) if control::tunnels::are_of_type(kind) => return None,
            Feature::Bfd(_) => "only tunnel ports have it".to_owned(),
            Feature::Timeout(key) => return connections::lacks(key),
            Feature::Qos(kind) if qos::TYPES.contains(&kind.as_str()) => return None,
            Feature::Qos(_) => format!("not there; there are {}", qos::TYPES.join(", ")),
            _ => "not built yet".to_owned(),
        })
    }

    fn interface_types(&self) -> Vec<String> {
        KINDS.database_words().into_iter().map(str::to_owned).collect()
    }

    fn capabilities(&self) -> BTreeMap<String, String> {
        let all = [
            ("recirc", "true"),
            ("ct_state", "true"),
            ("ct_zone", "true"),
            ("ct_mark", "true"),
            ("ct_label", "true"),
            ("ct_state_nat", "true"),
            ("ct_orig_tuple", "true"),
            ("ct_orig_tuple6", "true"),
            ("ct_clear", "true"),
            ("ct_timeout", "true"),
            ("ct_zero_snat", "true"),
            ("ct_flush", "true"),
            // Of connections that come and go nobody is told.
            ("ct_eventmask", "false"),
            ("clone", "true"),
            // `output` to a port sends whole frames.
            ("trunc", "false"),
            ("check_pkt_len", "true"),
            ("masked_set_action", "true"),
            ("tnl_push_pop", "true"),
            // `dp_hash` by both directions of a connection alike.
            ("max_hash_alg", "1"),
            ("nd_ext", "false"),
            ("add_mpls", "false"),
            ("psample", "false"),
            ("lb_output_action", "false"),
        ];
        all.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect()
    }

    fn set_timeouts(&self, policies: &Policies) {
        self.trackers.set_timeouts(policies);
    }

    fn set_zone_limits(&self, limits: &ZoneLimits) {
        self.trackers.set_database_limits(limits);
    }

    fn add_bridge(&self, bridge: &BridgeSettings) -> Result<(), String> {
        let told = Told { settings: bridge.clone(), ..Told::default() };
        self.bridges.add(self.config(&told).0).map_err(text)?;
        self.trackers.came(&bridge.name);
        self.told().insert(bridge.name.clone(), told);
        Ok(())
    }

    fn set_bridge(&self, bridge: &BridgeSettings) -> Result<(), String> {
        self.change(&bridge.name, |told| told.settings = bridge.clone())?;
        let is_there = |told: &Told| told.interfaces.contains_key(&bridge.name);
        let there = self.told().get(&bridge.name).is_some_and(is_there);
        if there { self.set_own_address(&bridge.name) } else { Ok(()) }
    }

    fn remove_bridge(&self, bridge: &str) -> Result<(), String> {
        self.bridges.remove(bridge).map_err(text)?;
        self.told().remove(bridge);
        Ok(())
    }

    fn add_interface(
        &self,
        bridge: &str,
        number: u32,
        interface: &InterfaceSettings,
    ) -> Result<(), String> {
        let name = interface.name.clone();
        let kind = KINDS.of_database(&interface.kind);
        let kind = kind.ok_or_else(|| format!("interface type {} is not there", interface.kind))?;
        let attachment = (kind.attach)(&name, &interface.options);
        let vlan = self.told().get(bridge).and_then(|told| told.vlans.get(&name).cloned());
        let config = PortConfig {
            number: Some(to_switch(number)),
            vlan: vlan.unwrap_or_default(),
            ..PortConfig::new(&name, attachment)
        };
        self.bridges
            .add_port(bridge, config)
            .map_err(|error| format!("could not open network device {name} ({error})"))?;
        if let Some(told) = self.told().get_mut(bridge) {
            told.interfaces.insert(name.clone(), interface.clone());
        }
        if name == bridge
            && let Err(error) = self.set_own_address(bridge)
        {
            tracing::warn!(bridge, error, "other_config:hwaddr is not set");
        }
        Ok(())
    }

    fn set_interface(&self, bridge: &str, interface: &InterfaceSettings) -> Result<(), String> {
        // A bridge's own address is its other_config:hwaddr, if it has one.
        let own = self.told().get(bridge).and_then(|told| told.settings.address);
        let address = own.filter(|_| interface.name == bridge).or(interface.address);
        let link = LinkRequest { mtu: interface.mtu, mac: address.map(|address| address.0) };
        let name = &interface.name;
        let policing = qos::policing(interface.policing);
        self.bridges.set_policing(bridge, name, policing).map_err(text)?;
        self.bridges.set_link(bridge, name, link).map_err(text)?;
        self.bridges.set_bfd(bridge, name, interface.bfd.clone()).map_err(text)?;
        if let Some(told) = self.told().get_mut(bridge) {
            told.interfaces.insert(interface.name.clone(), interface.clone());
        }
        Ok(())
    }

    fn remove_interface(&self, bridge: &str, interface: &str) -> Result<(), String> {
        self.bridges.remove_port(bridge, interface).map_err(text)?;
        if let Some(told) = self.told().get_mut(bridge) {
            told.vlans.remove(interface);
            told.qos.remove(interface);
            told.interfaces.remove(interface);
        }
        Ok(())
    }

    fn prepare_port(&self, bridge: &str, port: &PortSettings) -> Result<(), String> {
        if let Some(told) = self.told().get_mut(bridge) {
            let vlan = normal::vlan(port);
            told.vlans.extend(port.interfaces.iter().map(|name| (name.clone(), vlan.clone())));
        }
        self.set_bond(bridge, &port.name, normal::bond(port))
    }

    fn set_port(&self, bridge: &str, port: &PortSettings) -> Result<(), String> {
        self.prepare_port(bridge, port)?;
        for interface in &port.interfaces {
            let set = self.bridges.set_vlan(bridge, interface, normal::vlan(port));
            set.map_err(text)?;
            self.set_qos(bridge, interface, port.qos.as_ref())?;
        }
        Ok(())
    }

    fn remove_port(&self, bridge: &str, port: &str) -> Result<(), String> {
        self.set_bond(bridge, port, None)
    }

    fn set_mirrors(&self, bridge: &str, settings: &[MirrorSettings]) -> Result<(), String> {
        let mut told = self.told().get(bridge).cloned().unwrap_or_default();
        told.mirrors = settings.to_vec();
        self.bridges.set_mirrors(bridge, mirrors(&told)?).map_err(text)?;
        if let Some(held) = self.told().get_mut(bridge) {
            held.mirrors = told.mirrors;
        }
        Ok(())
    }

    fn set_controllers(
        &self,
        bridge: &str,
        controllers: &[ControllerSettings],
    ) -> Result<(), String> {
        self.change(bridge, |told| told.controllers = controllers.to_vec())
    }

    fn set_forwarding(&self, forwards: bool) {
        for bridge in self.bridges.all() {
            bridge.switch().set_receiving(forwards);
        }
    }

    fn settle(&self) {
        for bridge in self.bridges.all() {
            bridge.switch().sync();
        }
    }

    fn bridges(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.bridges.all().iter().map(|bridge| bridge.name().to_owned()).collect();
        names.sort();
        names
    }

    fn ports(&self, bridge: &str) -> Vec<Listed> {
        let Ok(found) = self.found(bridge) else { return Vec::new() };
        let told = self.told().get(bridge).cloned().unwrap_or_default();
        let one = |(number, name): (u32, String)| {
            let settings = told.interfaces.get(&name).cloned().unwrap_or_default();
            Listed {
                number: of_switch(number),
                below: of_switch(number),
                kind_is_patch: settings.kind == "patch",
                kind: settings.kind,
                options: settings.options,
                name,
            }
        };
        let mut ports: Vec<Listed> = found.status().ports.into_iter().map(one).collect();
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        ports
    }

    fn looked_up(&self) -> u64 {
        let received = |bridge: &Arc<Bridge>| {
            let ports = bridge.switch().port_counters();
            ports.iter().map(|(_, counters, _)| counters.rx_packets).sum::<u64>()
        };
        self.bridges.all().iter().map(received).sum()
    }

    fn bridge(&self, bridge: &str) -> Option<BridgeView> {
        let found = self.bridges.get(bridge)?;
        let status = found.status();
        let copied = found.config().mirrors.into_iter().filter_map(|mirror| {
            let counts = found.mirror_counts(&mirror.name)?;
            Some((mirror.name, counts))
        });
        let mirrors = copied.collect();
        let most = found.config().learning.stations.most(STATIONS_MAX);
        let stations = (status.stations as u64, u64::from(most));
        Some(BridgeView { datapath_id: status.datapath_id.unwrap_or(0), stations, mirrors })
    }

    fn bond_active(&self, bridge: &str, port: &str) -> Option<Mac> {
        self.bridges.get(bridge)?.bond_active(port).map(Mac)
    }

    fn interface(&self, bridge: &str, interface: &str) -> Option<InterfaceView> {
        let found = self.bridges.get(bridge)?;
        Some(seen(&found, &found.port(interface).ok()?))
    }

    fn controllers(&self, bridge: &str) -> BTreeMap<String, ControllerView> {
        let Some(found) = self.bridges.get(bridge) else { return BTreeMap::new() };
        let told = self.told().get(bridge).cloned().unwrap_or_default();
        channel::views(&found, &told.controllers)
    }

    fn stations(&self, bridge: &str) -> Result<Vec<Station>, String> {
        let stations = self.found(bridge)?.stations().into_iter();
        let one = |station: control::bridges::Station| Station {
            port: of_switch(station.port),
            vlan: station.vlan,
            mac: Mac(station.mac),
            age_s: station.age.map(|age| age.as_secs()),
        };
        Ok(stations.map(one).collect())
    }

    fn flush_stations(&self, bridge: Option<&str>) -> Result<(), String> {
        let chosen = match bridge {
            Some(bridge) => vec![self.found(bridge)?],
            None => self.bridges.all(),
        };
        for bridge in chosen {
            bridge.flush_stations();
        }
        Ok(())
    }

    fn add_station(
        &self,
        bridge: &str,
        interface: &str,
        vlan: u16,
        Mac(mac): Mac,
    ) -> Result<(), String> {
        self.found(bridge)?.add_station(interface, vlan, mac).map_err(text)
    }

    fn remove_station(&self, bridge: &str, vlan: u16, Mac(mac): Mac) -> Result<bool, String> {
        self.found(bridge)?.remove_station(vlan, mac).map_err(text)
    }

    fn flows(&self, bridge: &str) -> Result<Vec<String>, String> {
        let found = self.found(bridge)?;
        flows::dump(&found)
    }

    fn trace(&self, bridge: &str, flow: &str, packet: Option<&[u8]>) -> Result<String, String> {
        let found = self.found(bridge)?;
        let described = openflow::syntax::parse_packet(flow)
            .map_err(|error| format!("Bad openflow flow syntax: {flow}: {error}"))?;
        // As in Open vSwitch: a flow without a port has come in by none.
        let in_port = described.in_port.map_or(PortNo::ANY.0, to_switch);
        let bytes = packet.unwrap_or(&described.bytes);
        Ok(trace::show(&found, (flow, in_port, bytes), of_switch))
    }

    fn reconnect(&self, bridge: Option<&str>) -> Result<(), String> {
        let chosen = match bridge {
            Some(bridge) => vec![self.found(bridge)?],
            None => self.bridges.all(),
        };
        for bridge in chosen {
            if let Some(openflow) = bridge.openflow() {
                openflow.reconnect(bridge.switch()).map_err(text)?;
            }
        }
        Ok(())
    }

    fn ask(&self, family: &str, words: &[&str]) -> Result<String, String> {
        match (family, words) {
            ("bfd", _) => control::bfd::ask(&self.bridges, words),
            ("bond" | "lacp", _) => control::bonds::ask(&self.bridges, family, words),
            ("route" | "tnl", _) => {
                control::tunnels::show::answer(&self.bridges.defaults().environment, family, words)
            }
            ("qos", ["show", interface]) => {
                let (bridge, told) = self.of_interface(interface)?;
                Ok(qos::show(&bridge, interface, told.qos.get(*interface)))
            }
            ("qos", ["show-types", interface]) => {
                self.of_interface(interface)?;
                Ok(qos::types())
            }
            _ => Err(format!("{family}: not built yet")),
        }
    }

    fn connections(&self) -> &dyn Connections {
        &self.trackers
    }

    fn counts(&self) -> Vec<(String, u64)> {
        let mut sums = BTreeMap::new();
        for bridge in self.bridges.all() {
            for (name, count) in bridge.switch().tallies() {
                *sums.entry(name.to_owned()).or_default() += count;
            }
        }
        let refused = control::tunnels::show::refused(&self.bridges.defaults().environment);
        sums.extend(refused);
        sums.into_iter().collect()
    }

    fn usage(&self) -> Vec<(String, u64)> {
        let list = self.bridges.list();
        let sum = |of: fn(&control::bridges::BridgeStatus) -> usize| {
            list.iter().map(of).sum::<usize>() as u64
        };
        vec![
            ("ports".to_owned(), sum(|bridge| bridge.ports.len())),
            ("rules".to_owned(), sum(|bridge| bridge.flows)),
            ("stations".to_owned(), sum(|bridge| bridge.stations)),
        ]
    }
}
