//! A small switch with memory ports, in the charge of an agent: what tests and fuzz targets run on.

use crate::{Agent, AgentConfig, Synchronised};
use of_lower::ProgramConfig;
use port::memory::{self, Handle};
use std::sync::Arc;
use switch::{Config, EngineKind, StartError, Switch};

/// Ports of a fuzz target's switch, numbered from 1.
pub(crate) const PORTS: u32 = 3;

/// What may differ.
pub(crate) struct Small {
    pub(crate) engine: EngineKind,
    pub(crate) program: ProgramConfig,
    /// How many, numbered from 1.
    pub(crate) ports: u32,
    /// Tables that reflect others.
    pub(crate) synchronised: Vec<Synchronised>,
}

impl Default for Small {
    fn default() -> Small {
        Small {
            engine: EngineKind::default(),
            program: program(),
            ports: PORTS,
            synchronised: Vec::new(),
        }
    }
}

/// Few tables with little room.
pub(crate) fn program() -> ProgramConfig {
    ProgramConfig { tables: 8, table_capacity: 100, normal_capacity: 16 }
}

impl Small {
    /// The agent, and its ports' far ends, which keep the links up. `start` starts the switch.
    pub(crate) fn agent(
        self,
        start: impl FnOnce(Config) -> Result<Switch, StartError>,
    ) -> (Agent, Vec<Handle>) {
        let (ir, _) = of_lower::program(&self.program);
        let config = Config {
            program: Arc::new(ir),
            workers: 1,
            cpus: vec![],
            punt_rate: 100_000,
            engine: self.engine,
            validate: None,
        };
        let switch = start(config).expect("a switch starts");
        let mut far = Vec::new();
        for n in 1..=self.ports {
            let (near, handle) =
                memory::port(&format!("p{n}"), memory::Config::default()).expect("a port");
            switch.add_port(None, Box::new(near)).expect("a port is taken");
            far.push(handle);
        }
        let config = AgentConfig {
            program: self.program,
            groups_max: 10,
            meters_max: 4,
            synchronised: self.synchronised,
            ..AgentConfig::default()
        };
        (Agent::new(switch, config).expect("an agent takes charge"), far)
    }
}
