//! Switches of OpenFlow's tables, and files of entries in `ovs-ofctl`'s syntax put into them.

use super::lines;
use crate::failure::Failure;
use crate::sync::lock;
use datapath::services::Services;
use of_pipeline::{Agent, AgentConfig, AgentError, Synchronised, lower};
use openflow::syntax::{self, Context};
use openflow::{Message, PortNo};
use service::conntrack;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use switch::{EngineKind, Switch};

/// Connections held at most, unless told otherwise: 32 MiB of them.
pub const CONNECTIONS: usize = 1 << 18;
/// Entries that a switch can have at all: each has a counter.
pub const FLOWS_MOST: u32 = 1 << 24;

/// What a switch's tracker is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracking {
    /// Connections that are kept at most.
    pub connections: usize,
    /// Whether packets and octets of each are counted.
    pub accounting: bool,
}

impl Default for Tracking {
    fn default() -> Tracking {
        Tracking::of(CONNECTIONS)
    }
}

impl Tracking {
    /// So many connections, not counted.
    pub fn of(connections: usize) -> Tracking {
        Tracking { connections, accounting: false }
    }
}

/// A running switch with OpenFlow's program and no ports.
pub fn start(
    workers: usize,
    cpus: Vec<usize>,
    punt_rate: u64,
    engine: EngineKind,
    validate: Option<u32>,
) -> Result<Switch, Failure> {
    start_with(workers, cpus, punt_rate, engine, validate, CONNECTIONS)
}

/// The same, of so many connections.
pub fn start_with(
    workers: usize,
    cpus: Vec<usize>,
    punt_rate: u64,
    engine: EngineKind,
    validate: Option<u32>,
    connections: usize,
) -> Result<Switch, Failure> {
    let tracking = Tracking::of(connections);
    let parts = Parts { workers, cpus, punt_rate, engine, validate, tracking };
    let (config, services) = self::parts(parts);
    Switch::start_with(config, services).map_err(Failure::bad)
}

/// What a switch of OpenFlow's tables is told.
pub struct Parts {
    /// Worker threads.
    pub workers: usize,
    /// Their processors.
    pub cpus: Vec<usize>,
    /// Packets per second to controllers, at most.
    pub punt_rate: u64,
    /// What gives the pipeline effect.
    pub engine: EngineKind,
    /// One packet in so many is run by the interpreter, too.
    pub validate: Option<u32>,
    /// Its tracker.
    pub tracking: Tracking,
}

/// What a switch of OpenFlow's tables is made of.
pub fn parts(of: Parts) -> (switch::Config, Services) {
    let Parts { workers, cpus, punt_rate, engine, validate, tracking } = of;
    let (program, _) = lower::program(&lower::ProgramConfig::default());
    let program = Arc::new(program);
    let config = switch::Config { program, workers, cpus, punt_rate, engine, validate };
    let mut services = Services::default();
    services.track(tracker(tracking));
    services.soft();
    (config, services)
}

/// What a tracker is made of: as many connections as it keeps may be translated. Its secret is this
/// process's own.
pub fn tracker(tracking: Tracking) -> conntrack::Config {
    let Tracking { connections, accounting } = tracking;
    let seed = RandomState::new().build_hasher().finish();
    let config = conntrack::Config::new(connections, seed);
    conntrack::Config { translated_max: connections, accounting, ..config }
}

/// The OpenFlow agent of a switch. Without a datapath id, one is made from the first port's address.
pub fn agent(switch: &Switch, datapath_id: Option<u64>) -> Result<Agent, Failure> {
    limited_agent(switch, datapath_id, &[], FLOWS_MOST)
}

/// The same, with tables that reflect others, and so many entries at most.
pub fn limited_agent(
    switch: &Switch,
    datapath_id: Option<u64>,
    synchronised: &[Synchronised],
    flows_max: u32,
) -> Result<Agent, Failure> {
    let from_port = || {
        let ports = switch.ports();
        let mac = ports.first().map_or([0, 0, 0, 0, 0, 1], |p| p.info.mac);
        mac.iter().fold(0, |id, byte| id << 8 | u64::from(*byte))
    };
    let datapath_id = datapath_id.unwrap_or_else(from_port);
    agent_of(switch, datapath_id, synchronised, flows_max).map_err(Failure::bad)
}

/// The OpenFlow agent of a switch that has a datapath id.
pub fn agent_of(
    switch: &Switch,
    datapath_id: u64,
    synchronised: &[Synchronised],
    flows_max: u32,
) -> Result<Agent, AgentError> {
    let synchronised = synchronised.to_vec();
    let config = AgentConfig { datapath_id, synchronised, flows_max, ..AgentConfig::default() };
    Agent::new(switch.clone(), config)
}

/// A switch without ports that holds these files' entries, for looking into them.
pub fn offline(
    flows: &[PathBuf],
    groups: &[PathBuf],
    meters: &[PathBuf],
) -> Result<Switch, Failure> {
    let switch = start(1, Vec::new(), 1000, EngineKind::default(), None)?;
    let agent = Arc::new(Mutex::new(agent(&switch, Some(1))?));
    load(&agent, &[], flows, groups, meters)?;
    Ok(switch)
}

/// Names and numbers of a switch's ports.
pub fn names(switch: &Switch) -> Vec<(String, u32)> {
    switch.ports().into_iter().map(|p| (p.info.name, p.number)).collect()
}

/// Puts the files' meters, groups and flow entries into the switch, in this order, so that entries
/// find what they refer to.
pub fn load(
    agent: &Mutex<Agent>,
    ports: &[(String, u32)],
    flows: &[PathBuf],
    groups: &[PathBuf],
    meters: &[PathBuf],
) -> Result<(), Failure> {
    let resolve = |name: &str| ports.iter().find(|(n, _)| n == name).map(|(_, n)| PortNo(*n));
    let mut agent = lock(agent);
    for (what, paths) in [(Told::Meter, meters), (Told::Group, groups), (Told::Flow, flows)] {
        for path in paths {
            each_line(path, |line| tell(&mut agent, what, line, &resolve))?;
        }
    }
    Ok(())
}

/// What a line in `ovs-ofctl`'s syntax is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A meter to add.
    Meter,
    /// A group to add.
    Group,
    /// A flow entry to add.
    Flow,
}

/// Has an agent take a line, in the version that has all its words.
pub fn tell(
    agent: &mut Agent,
    what: Told,
    line: &str,
    ports: &dyn Fn(&str) -> Option<PortNo>,
) -> Result<(), String> {
    let read = |version| {
        let context = Context { version, ports };
        Ok(match what {
            Told::Meter => Message::MeterMod(syntax::parse_meter(line, &context)?),
            Told::Group => Message::GroupMod(syntax::parse_group(line, &context)?),
            Told::Flow => Message::FlowMod(syntax::parse_flow(line, &context)?),
        })
    };
    let (version, message) = syntax::in_a_version(read).map_err(|e| e.to_string())?;
    agent.handle(version, message).map(|_| ()).map_err(|e| e.to_string())
}

/// Calls `f` on every line of a file that is neither empty nor a comment, nor the head of a dump.
pub fn each_line(
    path: &Path,
    mut f: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Bad(format!("cannot read {}: {e}", path.display())))?;
    for (number, line) in lines::lines(&text) {
        f(&line).map_err(|e| Failure::Bad(format!("{}:{number}: {e}", path.display())))?;
    }
    Ok(())
}
