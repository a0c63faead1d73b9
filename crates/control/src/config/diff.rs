//! What is different between two configurations, as changes in the order in which they are made.
//!
//! A [`Setup`] is all that a process is to be. [`Setup::check`] looks at it as a whole. [`diff`] compares two: what is gone,
//! what has come, what is another, and which settings only a restart changes. Whoever applies a configuration to a process
//! gives it those changes ([`Bridges::apply`](crate::bridges::Bridges::apply)): the file at the start, verbs of the control
//! socket, a database.
//!
//! What goes, goes before anything comes, so that a name or a number can pass from one port to another. Ports that ask for a
//! number come before those that take any. The order of bridges and ports is no part of a configuration.
//!
//! Invariants: after the changes from one to another there are none left, and each of them can be made when its turn comes:
//! names and numbers are free. Checked by: random configurations, in the tests below.

use crate::bridges::config::{BridgeConfig, PortConfig, check_name, check_port_name};
use crate::bridges::error::Error;
use crate::program::entries::Entries;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use switch::ports::{NUMBER_LOCAL, NUMBER_MAX};

/// All that a process is to be.
#[derive(Clone, Default)]
pub struct Setup {
    /// What it has from its start on, by the option's name. Values may hold keys: nothing shows them.
    pub process: BTreeMap<&'static str, String>,
    /// Its bridges, in the order in which they are made.
    pub bridges: Vec<BridgeSetup>,
}

/// A bridge with its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeSetup {
    /// The bridge.
    pub bridge: BridgeConfig,
    /// Its ports, in the order in which they are made.
    pub ports: Vec<PortConfig>,
    /// The entries that the configuration has itself.
    pub entries: Entries,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A setting that is another, and that a restart changes.
    Restart(&'static str),
    /// A port goes.
    RemovePort {
        /// Its bridge.
        bridge: String,
        /// Its name.
        port: String,
    },
    /// A bridge goes, with its ports.
    RemoveBridge(String),
    /// A bridge comes, without ports.
    AddBridge(BridgeConfig),
    /// A bridge becomes another.
    ChangeBridge(BridgeConfig),
    /// A port becomes another, and stays open.
    ChangePort {
        /// Its bridge.
        bridge: String,
        /// What it becomes.
        port: PortConfig,
    },
    /// A port comes.
    AddPort {
        /// Its bridge.
        bridge: String,
        /// What it is.
        port: PortConfig,
    },
    /// The entries of the configuration are others: behind all ports, as they may name them.
    SetEntries {
        /// Their bridge.
        bridge: String,
        /// All of them.
        entries: Entries,
    },
}

/// What is different between two configurations of one bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeParts {
    /// Its name, which it keeps.
    pub name: bool,
    /// Its datapath id.
    pub datapath_id: bool,
    /// What is said of controllers.
    pub channel: bool,
    /// What NORMAL, bonds and mirrors follow.
    pub normal: bool,
    /// How NORMAL learns and floods, which is a part of that.
    pub learning: bool,
    /// Names and bounds of flow tables.
    pub tables: bool,
}

impl BridgeParts {
    /// Compares two.
    pub fn between(from: &BridgeConfig, to: &BridgeConfig) -> BridgeParts {
        // In full, so that a part that is added is compared.
        let BridgeConfig { name, datapath_id, address, channel, mirrors, learning, tables, bonds } =
            to;
        BridgeParts {
            name: *name != from.name,
            datapath_id: *datapath_id != from.datapath_id,
            channel: *channel != from.channel,
            normal: (mirrors, learning, bonds, *address)
                != (&from.mirrors, &from.learning, &from.bonds, from.address),
            learning: *learning != from.learning,
            tables: *tables != from.tables,
        }
    }

    /// Something is.
    pub fn any(self) -> bool {
        self != BridgeParts::default()
    }

    /// Controllers are let go of: they were told another id, or reached by what is no more said.
    pub fn disconnects(self) -> bool {
        self.datapath_id || self.channel
    }
}

/// What is different between two configurations of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortParts {
    /// What it is opened with.
    pub opened: bool,
    /// Its number, if one is asked for.
    pub number: bool,
    /// Its VLANs.
    pub vlan: bool,
}

impl PortParts {
    /// Compares two.
    pub fn between(from: &PortConfig, to: &PortConfig) -> PortParts {
        let PortConfig { name, number, attachment, vlan, rx_rate, places } = to;
        PortParts {
            opened: (name, attachment, rx_rate, places)
                != (&from.name, &from.attachment, &from.rx_rate, &from.places),
            number: number.is_some() && *number != from.number,
            vlan: *vlan != from.vlan,
        }
    }

    /// Something is.
    pub fn any(self) -> bool {
        self != PortParts::default()
    }
}

impl Setup {
    /// The bridge of a name.
    pub fn bridge(&self, name: &str) -> Option<&BridgeSetup> {
        self.bridges.iter().find(|one| one.bridge.name == name)
    }

    /// All of it can be, as far as that can be known without opening anything.
    pub fn check(&self) -> Result<(), Error> {
        let (mut bridges, mut ports) = (BTreeSet::new(), BTreeMap::new());
        for (at, BridgeSetup { bridge, ports: own, entries }) in self.bridges.iter().enumerate() {
            check_name(&bridge.name)?;
            entries.check().map_err(|why| Error::Entries { bridge: bridge.name.clone(), why })?;
            if !bridges.insert(&bridge.name) {
                return Err(Error::BridgeExists { bridge: bridge.name.clone() });
            }
            let mut numbers = BTreeMap::new();
            for port in own {
                check_port_name(&port.name)?;
                if let Some(other) = ports.insert(&port.name, &bridge.name) {
                    let (bridge, port) = (other.clone(), port.name.clone());
                    return Err(Error::PortExists { bridge, port });
                }
                let failed = |error| Error::Vlan { port: port.name.clone(), error };
                port.vlan.check().map_err(failed)?;
                let Some(number) = port.number else { continue };
                // The first bridge may run a P4 program, which has a port 0.
                let least = u32::from(at > 0);
                if number != NUMBER_LOCAL && !(least..=NUMBER_MAX).contains(&number) {
                    return Err(Error::NumberReserved { number });
                }
                if let Some(by) = numbers.insert(number, &port.name) {
                    return Err(Error::NumberInUse { number, by: by.clone() });
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process: Vec<_> = self.process.keys().collect();
        f.debug_struct("Setup").field("process", &process).field("bridges", &self.bridges).finish()
    }
}

/// The changes from one to another, in the order in which they are made.
pub fn diff(from: &Setup, to: &Setup) -> Vec<Change> {
    let settings: BTreeSet<_> = from.process.keys().chain(to.process.keys()).copied().collect();
    let restart = settings.into_iter().filter(|key| from.process.get(key) != to.process.get(key));
    let mut changes: Vec<Change> = restart.map(Change::Restart).collect();
    let stays = |had: &BridgeSetup| to.bridge(&had.bridge.name);
    let (mut bridges, mut ports) = (Vec::new(), Vec::new());
    let none = Entries::default();
    let entries = to.bridges.iter().filter(|wanted| {
        let had = from.bridge(&wanted.bridge.name).map_or(&none, |had| &had.entries);
        *had != wanted.entries
    });
    let set = |wanted: &BridgeSetup| Change::SetEntries {
        bridge: wanted.bridge.name.clone(),
        entries: wanted.entries.clone(),
    };
    let entries: Vec<Change> = entries.map(set).collect();
    for had in &from.bridges {
        if let Some(wanted) = stays(had) {
            ports.extend(ports_of(had, wanted, &mut changes));
            if BridgeParts::between(&had.bridge, &wanted.bridge).any() {
                bridges.push(Change::ChangeBridge(wanted.bridge.clone()));
            }
        }
    }
    let gone = from.bridges.iter().filter(|had| stays(had).is_none());
    changes.extend(gone.map(|had| Change::RemoveBridge(had.bridge.name.clone())));
    for wanted in to.bridges.iter().filter(|wanted| from.bridge(&wanted.bridge.name).is_none()) {
        bridges.push(Change::AddBridge(wanted.bridge.clone()));
        let bridge = || wanted.bridge.name.clone();
        let new = |port: &PortConfig| Change::AddPort { bridge: bridge(), port: port.clone() };
        ports.extend(wanted.ports.iter().map(new));
    }
    changes.extend(bridges);
    // Those that stay give up their numbers first; who asks for a number comes before who takes any.
    ports.sort_by_key(|change| match change {
        Change::AddPort { port, .. } => 1 + u8::from(port.number.is_none()),
        _ => 0,
    });
    changes.extend(ports);
    changes.extend(entries);
    changes
}

/// A bridge's ports that go, which go at once; and those that become others or come.
fn ports_of(had: &BridgeSetup, wanted: &BridgeSetup, changes: &mut Vec<Change>) -> Vec<Change> {
    let bridge = || wanted.bridge.name.clone();
    let named = |ports: &[PortConfig], name: &str| ports.iter().any(|port| port.name == name);
    let mut later = Vec::new();
    for port in had.ports.iter().filter(|port| !named(&wanted.ports, &port.name)) {
        changes.push(Change::RemovePort { bridge: bridge(), port: port.name.clone() });
    }
    for port in &wanted.ports {
        let add = Change::AddPort { bridge: bridge(), port: port.clone() };
        let Some(has) = had.ports.iter().find(|has| has.name == port.name) else {
            later.push(add);
            continue;
        };
        let parts = PortParts::between(has, port);
        // A number that a port has which stays is free only when that one has given it up.
        let waits = parts.number
            && had
                .ports
                .iter()
                .any(|other| other.number == port.number && named(&wanted.ports, &other.name));
        // It takes any number, and has one that another asks for.
        let yields = port.number.is_none()
            && wanted
                .ports
                .iter()
                .any(|other| other.number.is_some() && other.number == has.number);
        if parts.opened || waits || yields {
            changes.push(Change::RemovePort { bridge: bridge(), port: port.name.clone() });
            later.push(add);
        } else if parts.any() {
            later.push(Change::ChangePort { bridge: bridge(), port: port.clone() });
        }
    }
    later
}

/// In a line, without values.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Restart(setting) => write!(f, "{setting} changes with a restart"),
            Change::RemovePort { bridge, port } => write!(f, "bridge {bridge}: port {port} goes"),
            Change::RemoveBridge(bridge) => write!(f, "bridge {bridge} goes"),
            Change::AddBridge(bridge) => write!(f, "bridge {} comes", bridge.name),
            Change::ChangeBridge(bridge) => write!(f, "bridge {} changes", bridge.name),
            Change::ChangePort { bridge, port } => {
                write!(f, "bridge {bridge}: port {} changes", port.name)
            }
            Change::AddPort { bridge, port } => {
                write!(f, "bridge {bridge}: port {} comes", port.name)
            }
            Change::SetEntries { bridge, .. } => write!(f, "bridge {bridge}: entries change"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::prng::Prng;

    /// Makes a change to what a process is, as the process itself would: a name or number must be free.
    fn make(setup: &mut Setup, change: Change, to: &Setup) {
        fn bridge<'a>(setup: &'a mut Setup, name: &str) -> &'a mut BridgeSetup {
            setup.bridges.iter_mut().find(|one| one.bridge.name == name).expect("a bridge")
        }
        match change {
            Change::Restart(setting) => match to.process.get(setting) {
                Some(value) => drop(setup.process.insert(setting, value.clone())),
                None => drop(setup.process.remove(setting)),
            },
            Change::RemovePort { bridge: name, port } => {
                let ports = &mut bridge(setup, &name).ports;
                let at = ports.iter().position(|one| one.name == port).expect("a port");
                ports.remove(at);
            }
            Change::RemoveBridge(name) => {
                let at = setup.bridges.iter().position(|one| one.bridge.name == name);
                setup.bridges.remove(at.expect("a bridge"));
            }
            Change::AddBridge(bridge) => {
                let (ports, entries) = (Vec::new(), Entries::default());
                setup.bridges.push(BridgeSetup { bridge, ports, entries });
            }
            Change::ChangeBridge(config) => {
                let name = config.name.clone();
                bridge(setup, &name).bridge = config;
            }
            Change::ChangePort { bridge: name, port } => {
                let ports = &mut bridge(setup, &name).ports;
                let held = ports.iter_mut().find(|one| one.name == port.name).expect("a port");
                assert!(!PortParts::between(held, &port).opened, "it stays open");
                let number = port.number.or(held.number);
                *held = PortConfig { number, ..port };
            }
            Change::AddPort { bridge: name, mut port } => {
                let ports = &mut bridge(setup, &name).ports;
                let free = |n: &u32| ports.iter().all(|one| one.number != Some(*n));
                port.number = port.number.or_else(|| (1..).find(free));
                ports.push(port);
            }
            Change::SetEntries { bridge: name, entries } => bridge(setup, &name).entries = entries,
        }
        setup.check().expect("it can be made in its turn");
    }

    /// The same but for their order, and for numbers that nobody asks for.
    fn assert_same(has: &Setup, wanted: &Setup) {
        assert_eq!(has.process, wanted.process);
        assert_eq!(has.bridges.len(), wanted.bridges.len());
        for wanted in &wanted.bridges {
            let has = has.bridge(&wanted.bridge.name).expect("a bridge");
            assert_eq!(has.bridge, wanted.bridge);
            assert_eq!(has.entries, wanted.entries);
            assert_eq!(has.ports.len(), wanted.ports.len());
            for port in &wanted.ports {
                let found = has.ports.iter().find(|has| has.name == port.name).expect("a port");
                let number = port.number.or(found.number);
                assert_eq!(*found, PortConfig { number, ..port.clone() });
            }
        }
    }

    fn random(random: &mut Prng, numbered: bool) -> Setup {
        let mut setup = Setup::default();
        for setting in ["--workers", "--poll", "--ctl"] {
            if random.below(2) == 0 {
                setup.process.insert(setting, random.below(3).to_string());
            }
        }
        let mut names: Vec<String> = (0..6).map(|n| format!("p{n}")).collect();
        for n in 0..random.below(4) {
            let mut bridge = BridgeConfig::named(&format!("br{}", (n + random.below(2)) % 4));
            if setup.bridge(&bridge.name).is_some() {
                continue;
            }
            bridge.datapath_id = (random.below(2) == 0).then(|| random.below(3));
            bridge.learning.vlan_limit = Some(1 + random.below(2) as u8);
            bridge.channel.auxiliary = random.below(2) as u8;
            bridge.learning.forwards_bpdu = random.below(2) == 0;
            if random.below(3) == 0 {
                bridge.bonds = vec!["b,members=p0,p1".parse().unwrap()];
            }
            if random.below(3) == 0 {
                bridge.mirrors = vec!["m,all,to=p0".parse().unwrap()];
            }
            let mut numbers: Vec<u32> = (1..5).collect();
            let mut ports = Vec::new();
            while !names.is_empty() && !numbers.is_empty() && random.below(4) > 0 {
                let name = names.remove(random.below(names.len() as u64) as usize);
                let spec = ["memory:a", "memory:b", "patch:c"][random.below(3) as usize];
                let spec = crate::port_kinds::parse(&format!("{name}={spec}")).unwrap();
                let mut port = PortConfig::of_spec(&spec);
                if numbered || random.below(2) == 0 {
                    let number = numbers.remove(random.below(numbers.len() as u64) as usize);
                    port.number = Some(number);
                }
                port.rx_rate = (random.below(4) == 0).then_some(7);
                if random.below(3) == 0 {
                    port.vlan = "vlan=10".parse().unwrap();
                }
                ports.push(port);
            }
            let mut entries = Entries::default();
            for n in 0..random.below(3) {
                entries.flows.push(format!("priority={n},actions=output:{}", 1 + random.below(2)));
            }
            setup.bridges.push(BridgeSetup { bridge, ports, entries });
        }
        setup.check().unwrap();
        setup
    }

    #[test]
    fn the_changes_from_one_to_another_lead_there() {
        for seed in 0..5_000 {
            let mut prng = Prng::new(seed);
            // What a process has, has numbers.
            let from = random(&mut prng, true);
            let to = random(&mut prng, false);
            let mut has = from.clone();
            for change in diff(&from, &to) {
                make(&mut has, change, &to);
            }
            assert_same(&has, &to);
            assert_eq!(diff(&has, &to), [], "seed {seed}");
            assert_eq!(diff(&to, &to), [], "seed {seed}");
        }
    }

    #[test]
    fn what_is_wrong_as_a_whole_is_found() {
        let port = |text: &str| PortConfig::of_spec(&crate::port_kinds::parse(text).unwrap());
        let bridge = |name: &str, ports: &[&str]| BridgeSetup {
            bridge: BridgeConfig::named(name),
            ports: ports.iter().map(|text| port(text)).collect(),
            entries: Entries::default(),
        };
        let check =
            |bridges| Setup { bridges, ..Setup::default() }.check().map_err(|e| e.to_string());
        assert_eq!(check(vec![bridge("a", &["p=memory:x"]), bridge("b", &["q=memory:y"])]), Ok(()));
        for (bridges, wanted) in [
            (vec![bridge("a", &[]), bridge("a", &[])], "there is a bridge \"a\" already"),
            (vec![bridge("a/b", &[])], "\"a/b\" cannot be a bridge's name"),
            (
                vec![bridge("a", &["p=memory:x"]), bridge("b", &["p=memory:y"])],
                "there is a port \"p\" already, at bridge \"a\"",
            ),
            (
                vec![bridge("a", &["p:3=memory:x", "q:3=memory:y"])],
                "port number 3 is in use by port \"p\"",
            ),
            (vec![bridge("a", &["p:4294967290=memory:x"])], "is reserved"),
        ] {
            let error = check(bridges).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn only_names_are_shown() {
        let mut setup = Setup::default();
        setup.process.insert("--service", "aes key=00112233".to_owned());
        let change = &diff(&Setup::default(), &setup)[0];
        assert_eq!(change.to_string(), "--service changes with a restart");
        assert!(!format!("{setup:?}{change:?}").contains("0011"));
    }
}
