//! One bridge: its switch, what programs it, and its ports as they were asked for.

use super::config::{BridgeConfig, Defaults, PortConfig};
use super::error::Error;
use crate::bfd::Sessions;
use crate::bonds::Bonds;
use crate::config::diff::BridgeParts;
use crate::controller::Controllers;
use crate::controllers::openflow::OpenFlow;
use crate::controllers::p4::P4;
use crate::persist::kept::{Kept, Opened, Owner};
use crate::persist::place::Place;
use crate::program::entries::{Entries, Inline};
use crate::program::p4_entries::P4Entries;
use crate::program::tables;
use crate::sync::lock;
use crate::tunnels::follow::follow_options;
use crate::{guard, room};
use of_pipeline::{Agent, AgentError};
use openflow::PortNo;
use std::sync::{Arc, Mutex};
use switch::{Switch, Workers};

/// A bridge that runs.
pub struct Bridge {
    name: String,
    switch: Switch,
    controllers: Controllers,
    pub(crate) bonds: Bonds,
    pub(crate) bfd: Sessions,
    pub(super) config: Mutex<BridgeConfig>,
    /// As they were asked for, by number; each is one of the switch's.
    pub(super) ports: Mutex<Vec<PortConfig>>,
    /// The entries that the configuration has itself.
    inline: Mutex<Inline>,
    p4_entries: Mutex<P4Entries>,
}

impl Bridge {
    /// A bridge of OpenFlow's tables, without ports.
    pub(super) fn start(
        workers: &Workers,
        defaults: &Defaults,
        config: BridgeConfig,
    ) -> Result<Bridge, Error> {
        let bridge = || config.name.clone();
        let switch = new_switch(workers, defaults, &config.name)?;
        let id = config.datapath_id.unwrap_or_else(|| id_of_name(&config.name));
        let agent = new_agent(&switch, id, defaults);
        let openflow = agent
            .map_err(|error: AgentError| Error::Agent { bridge: bridge(), error })
            .and_then(|agent| {
                let mut openflow = OpenFlow::new(agent, config.channel.clone());
                if let Some(place) = &defaults.persist {
                    keep(&mut openflow, place, &config.name)?;
                }
                match openflow.begin(&switch) {
                    Ok(()) => Ok(openflow),
                    Err(error) => Err(Error::Channel { bridge: bridge(), error }),
                }
            });
        let openflow = openflow.and_then(|openflow| {
            let limits = openflow.agent().set_table_limits(config.tables.clone());
            limits.map_err(|error| Error::Table { bridge: bridge(), error })?;
            Ok(openflow)
        });
        match openflow {
            Ok(openflow) => {
                follow_options(&openflow, &switch, &defaults.environment);
                if let Some(bound) = defaults.watchdog
                    && let Err(error) = guard::watch(&switch, bound)
                {
                    tracing::warn!(bridge = config.name, %error, "nobody watches its threads");
                }
                let controllers = Controllers::of(vec![Arc::new(openflow)]);
                Ok(Bridge::of(config, switch, controllers, Vec::new()))
            }
            Err(error) => {
                switch.stop();
                Err(error)
            }
        }
    }

    /// A bridge of a switch that runs.
    pub(super) fn of(
        config: BridgeConfig,
        switch: Switch,
        controllers: Controllers,
        ports: Vec<PortConfig>,
    ) -> Bridge {
        let name = config.name.clone();
        let (config, ports) = (Mutex::new(config), Mutex::new(ports));
        let (bonds, bfd) = (Bonds::default(), Sessions::default());
        let (inline, p4_entries) = (Mutex::default(), Mutex::default());
        Bridge { name, switch, controllers, bonds, bfd, config, ports, inline, p4_entries }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its switch.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// What programs it.
    pub fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// Its OpenFlow side, unless a P4 program forwards.
    pub fn openflow(&self) -> Option<Arc<OpenFlow>> {
        self.controllers.find::<OpenFlow>()
    }

    /// What keeps what is programmed, if anything does.
    pub(crate) fn kept(&self) -> Option<Kept> {
        self.controllers.iter().find_map(|one| one.kept())
    }

    /// Its configuration.
    pub fn config(&self) -> BridgeConfig {
        lock(&self.config).clone()
    }

    /// The entries that the configuration has itself.
    pub(crate) fn entries(&self) -> Entries {
        let p4 = lock(&self.p4_entries).lines().to_vec();
        Entries { p4, ..lock(&self.inline).entries().clone() }
    }

    /// Lines of a P4 program that only a restart changes, if its lines are to be these: each with the reason.
    pub(crate) fn fixed_entries(&self, to: &Entries) -> Vec<(String, &'static str)> {
        let program = self.controllers.find::<P4>();
        program.map_or_else(Vec::new, |p4| lock(&self.p4_entries).fixed(&*p4, &to.p4))
    }

    /// Makes them these. `missing`: what is there under a line's key stays.
    pub(super) fn set_entries(&self, to: &Entries, missing: bool) -> Result<(), Error> {
        let bridge = || self.name.clone();
        if to.is_empty() && self.entries().is_empty() {
            return Ok(());
        }
        if let Some(p4) = self.controllers.find::<P4>() {
            if to.of_openflow() {
                return Err(Error::NotOpenFlow { bridge: bridge() });
            }
            let done = lock(&self.p4_entries).set(&*p4, &to.p4, missing);
            done.map_err(|why| Error::Entries { bridge: bridge(), why })?;
            self.switch.sync();
            return Ok(());
        }
        if !to.p4.is_empty() {
            let why = "entry is of a P4 program, and this bridge has OpenFlow's tables".to_owned();
            return Err(Error::Entries { bridge: bridge(), why });
        }
        let openflow = self.openflow().ok_or_else(|| Error::NotOpenFlow { bridge: bridge() })?;
        let ports = self.port_configs();
        let named = |name: &str| {
            let port = ports.iter().find(|port| port.name == name)?;
            port.number.map(PortNo)
        };
        let mut inline = lock(&self.inline);
        let done = inline.set(&mut openflow.agent(), &named, to, missing);
        done.map_err(|why| Error::Entries { bridge: bridge(), why })?;
        self.switch.sync();
        Ok(())
    }

    /// Its ports as they were asked for, with their numbers.
    pub(crate) fn port_configs(&self) -> Vec<PortConfig> {
        lock(&self.ports).clone()
    }

    pub(super) fn reconfigure(&self, config: BridgeConfig) -> Result<(), Error> {
        let bridge = || self.name.clone();
        let parts = BridgeParts::between(&lock(&self.config), &config);
        if parts.name {
            return Err(Error::Renamed { bridge: bridge() });
        }
        self.check_mirrors(&config.mirrors)?;
        self.check_bonds(&config.bonds)?;
        let openflow = self.openflow().ok_or_else(|| Error::NotOpenFlow { bridge: bridge() })?;
        // First, as it is the one that entries may refuse.
        if parts.tables {
            let limits = openflow.agent().set_table_limits(config.tables.clone());
            limits.map_err(|error| Error::Table { bridge: bridge(), error })?;
        }
        let mut held = lock(&self.config);
        if parts.datapath_id {
            let id = config.datapath_id.unwrap_or_else(|| id_of_name(&self.name));
            openflow.set_datapath_id(id);
        }
        if parts.disconnects() {
            openflow
                .reconfigure(&self.switch, config.channel.clone())
                .map_err(|error| Error::Channel { bridge: bridge(), error })?;
        }
        let learns = parts.learning;
        let before = std::mem::replace(&mut *held, config);
        drop(held);
        if parts.normal
            && let Err(error) = self.follow_config()
        {
            let mut held = lock(&self.config);
            (held.mirrors, held.learning) = (before.mirrors, before.learning);
            (held.bonds, held.address) = (before.bonds, before.address);
            return Err(if learns { self.learning_refused(error) } else { error });
        }
        Ok(())
    }

    /// Ports are closed, controllers let go of, and the switch has stopped.
    pub(super) fn end(&self) -> Result<(), Error> {
        self.bfd.stop(&self.switch);
        self.bonds.stop();
        self.controllers.iter().for_each(|one| one.stop());
        let numbers: Vec<u32> = self.switch.ports().iter().map(|port| port.number).collect();
        let removed = self.switch.remove_ports(&numbers);
        lock(&self.ports).clear();
        self.switch.stop();
        removed.map_err(|error| Error::Switch { port: String::new(), error })
    }
}

/// A switch of OpenFlow's tables.
pub(super) fn new_switch(
    workers: &Workers,
    defaults: &Defaults,
    bridge: &str,
) -> Result<Switch, Error> {
    let (config, services) = tables::parts(tables::Parts {
        workers: workers.len(),
        cpus: Vec::new(),
        punt_rate: defaults.punt_rate,
        engine: defaults.engine.clone(),
        validate: defaults.validate,
        tracking: defaults.tracking,
    });
    Switch::start_on(workers, config, services)
        .map_err(|error| Error::Start { bridge: bridge.to_owned(), error })
}

/// Its agent, without entries.
pub(super) fn new_agent(
    switch: &Switch,
    datapath_id: u64,
    defaults: &Defaults,
) -> Result<Agent, AgentError> {
    let flows_max = defaults.flows_max.unwrap_or_else(room::flows);
    tables::agent_of(switch, datapath_id, &[], flows_max)
}

/// What was programmed before is put back, and what is programmed from now on is kept.
fn keep(openflow: &mut OpenFlow, place: &Place, bridge: &str) -> Result<(), Error> {
    let kept = Opened::open(place, bridge, Owner::OpenFlow).and_then(|mut opened| {
        if !opened.is_fresh() {
            opened.put_back(&openflow.agent)?;
        }
        openflow.keep(opened)
    });
    kept.map_err(|failure| Error::Kept { bridge: bridge.to_owned(), why: failure.text() })
}

/// A datapath id for a bridge that is given none: the same for the same name, and its upper 16 bits zero, as of those that
/// are made of addresses.
fn id_of_name(name: &str) -> u64 {
    // FNV-1a.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // A locally administered address, of one station.
    hash & 0xfcff_ffff_ffff | 0x0200_0000_0000
}
