//! The bridges of a process: made, changed, looked at and removed while packets pass.
//!
//! A bridge is a switch with tables, ports and controllers of its own. All bridges share the process's workers, so ports
//! of two of them can be patched together ([`port::patch`]). [`Bridges`] is what programs of this process use: the
//! configuration at the start, the verbs of the control socket, a database's reconciler. It is typed throughout: a failure
//! is an [`Error`] that says which rule was broken, and texts are made of it only for people.
//!
//! | file | is |
//! |---|---|
//! | `config` | what a bridge and a port are to be |
//! | `bridge` | one bridge: its switch, controllers, ports |
//! | `ports` | ports added, removed, given other numbers |
//! | `normal` | VLANs of ports, mirrors and bonds, as the switch has them |
//! | `status` | what is told of bridges, ports, controllers |
//! | `stations` | stations that were learnt, and that stay |
//! | `error` | what can go wrong |
//!
//! Invariants: a port's name is there once in the process; what one change does is all in force when the call returns, or
//! nothing is; other bridges' and other ports' packets never wait for it. Changes are made one at a time.
//! Locks: changes → bridges → a bridge's own.
//! Checked by: the tests of this folder; `tests/bridges.rs`, with traffic.

#[cfg(test)]
pub(crate) mod bed;
mod bridge;
pub(crate) mod config;
pub(crate) mod error;
mod normal;
#[cfg(test)]
pub(crate) mod p4_bed;
mod ports;
mod stations;
mod status;
#[cfg(test)]
mod tests;

pub use crate::bfd::BfdError;
pub use crate::bonds::{Bond, BondError};
pub use crate::normal::learning::{Learning, LearningError};
pub use crate::normal::mirror::{Mirror, MirrorError, To as MirrorTo};
pub use crate::normal::vlan::{PriorityTags, TagType, Vlan, VlanError, VlanMode, of_named_port};
pub use bridge::Bridge;
pub use config::{BridgeConfig, DEFAULT_NAME, Defaults, PortConfig};
pub use error::Error;
pub use stations::Station;
pub use status::{BridgeStatus, ControllerState, PortState};

use crate::config::diff::{BridgeSetup, Change};
use crate::controller::{Controllers, Switches};
use crate::group::Group;
use crate::program::entries::Entries;
use crate::sync::lock;
use crate::tunnels;
use datapath::policer::Policing;
use datapath::queues::QueuesConfig;
use of_pipeline::{Agent, AgentError};
use port::kind::Environment;
use port::link::LinkRequest;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use switch::{Switch, Workers};

/// The bridges of a process. Clones are handles of the same ones.
#[derive(Clone)]
pub struct Bridges(Arc<Inner>);

struct Inner {
    workers: Workers,
    defaults: Defaults,
    /// In the order in which they were made.
    all: Mutex<Vec<Arc<Bridge>>>,
    /// Held by who changes something.
    changes: Mutex<()>,
    /// The group that the process is a member of.
    replication: OnceLock<Arc<dyn Group>>,
    /// The fleet whose configuration it has.
    fleet: OnceLock<Arc<crate::fleet::View>>,
}

impl Bridges {
    /// None yet, on these workers.
    pub fn new(workers: Workers, defaults: Defaults) -> Bridges {
        let environment = tunnels::meeting(defaults.environment.clone(), workers.len());
        Bridges::with_environment(workers, environment, defaults)
    }

    /// The same, whose ports find this; a panel is among it.
    pub(crate) fn with_environment(
        workers: Workers,
        environment: Environment,
        defaults: Defaults,
    ) -> Bridges {
        let defaults = Defaults { environment, ..defaults };
        let (all, changes) = (Mutex::default(), Mutex::default());
        let (replication, fleet) = (OnceLock::new(), OnceLock::new());
        Bridges(Arc::new(Inner { workers, defaults, all, changes, replication, fleet }))
    }

    /// What bridges have in common.
    pub fn defaults(&self) -> &Defaults {
        &self.0.defaults
    }

    /// The group that the process is a member of, if it is of one.
    pub(crate) fn replication(&self) -> Option<&Arc<dyn Group>> {
        self.0.replication.get()
    }

    /// The process is a member of this group.
    pub(crate) fn join(&self, group: Arc<dyn Group>) {
        // Once, at the start.
        let _ = self.0.replication.set(group);
    }

    /// The fleet whose configuration the process has, if it has one's.
    pub(crate) fn fleet(&self) -> Option<&Arc<crate::fleet::View>> {
        self.0.fleet.get()
    }

    /// The process has the configuration of this fleet.
    pub(crate) fn configured_by(&self, fleet: Arc<crate::fleet::View>) {
        // Once, at the start.
        let _ = self.0.fleet.set(fleet);
    }

    /// The threads that all bridges share.
    pub fn workers(&self) -> &Workers {
        &self.0.workers
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        lock(&self.0.changes)
    }

    /// Makes a bridge without ports. It forwards, and its controllers may come, when this returns.
    pub fn add(&self, config: BridgeConfig) -> Result<(), Error> {
        let _changing = self.changing();
        self.check_new(&config.name)?;
        let bridge = Bridge::start(&self.0.workers, &self.0.defaults, config)?;
        if let Err(error) = bridge.set_normal() {
            bridge.end()?;
            return Err(bridge.learning_refused(error));
        }
        lock(&self.0.all).push(Arc::new(bridge));
        Ok(())
    }

    /// A switch of OpenFlow's tables on these workers, for a bridge of this name that is to be [adopted](Self::adopt).
    pub(crate) fn new_switch(&self, bridge: &str) -> Result<Switch, Error> {
        bridge::new_switch(&self.0.workers, &self.0.defaults, bridge)
    }

    /// Its agent, without entries.
    pub(crate) fn new_agent(&self, switch: &Switch, datapath_id: u64) -> Result<Agent, AgentError> {
        bridge::new_agent(switch, datapath_id, &self.0.defaults)
    }

    /// Takes a switch that runs on these workers in as a bridge, with what programs it and the ports that it has.
    pub(crate) fn adopt(
        &self,
        config: BridgeConfig,
        switch: Switch,
        controllers: Controllers,
        ports: Vec<PortConfig>,
    ) -> Result<(), Error> {
        let _changing = self.changing();
        self.check_new(&config.name)?;
        let bridge = Bridge::of(config, switch, controllers, ports);
        if let Some(openflow) = bridge.openflow() {
            tunnels::follow::follow_options(
                &openflow,
                bridge.switch(),
                &self.0.defaults.environment,
            );
        }
        bridge.set_normal()?;
        lock(&self.0.all).push(Arc::new(bridge));
        Ok(())
    }

    /// What was changed in any bridge is written, where changes are kept.
    pub(crate) fn flush_kept(&self) {
        self.all().iter().filter_map(|bridge| bridge.kept()).for_each(|kept| kept.flush());
    }

    fn check_new(&self, name: &str) -> Result<(), Error> {
        config::check_name(name)?;
        match self.get(name) {
            Some(_) => Err(Error::BridgeExists { bridge: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// Removes a bridge: its ports are closed, its controllers let go of, and its switch has stopped when this returns.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let _changing = self.changing();
        let bridge = self.bridge(name)?;
        lock(&self.0.all).retain(|other| !Arc::ptr_eq(other, &bridge));
        self.forget_elsewhere(&bridge, |_| true);
        let ended = bridge.end();
        if let Some(kept) = bridge.kept() {
            kept.forget();
        }
        ended
    }

    /// Gives a bridge another configuration, under the same name: what did not change goes on undisturbed. Entries and
    /// ports stay. Controllers are let go of if what is said of them changed.
    pub fn reconfigure(&self, name: &str, config: BridgeConfig) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(name)?.reconfigure(config)
    }

    /// All bridges, in the order in which they were made.
    pub fn list(&self) -> Vec<BridgeStatus> {
        self.all().iter().map(|bridge| bridge.status()).collect()
    }

    /// Handles of all bridges, in the same order.
    pub fn all(&self) -> Vec<Arc<Bridge>> {
        lock(&self.0.all).clone()
    }

    /// The switches of the bridges that there are when it is asked, in the same order; it does not keep them.
    pub(crate) fn switches(&self) -> Switches {
        let bridges = Arc::downgrade(&self.0);
        Arc::new(move || {
            let all = bridges.upgrade().map(|bridges| lock(&bridges.all).clone());
            all.iter().flatten().map(|bridge| bridge.switch().clone()).collect()
        })
    }

    /// The bridge of a name, if it is there.
    pub fn get(&self, name: &str) -> Option<Arc<Bridge>> {
        lock(&self.0.all).iter().find(|bridge| bridge.name() == name).cloned()
    }

    /// The bridge of a name.
    pub fn bridge(&self, name: &str) -> Result<Arc<Bridge>, Error> {
        self.get(name).ok_or_else(|| Error::NoBridge { bridge: name.to_owned() })
    }

    /// The bridge that is meant where none is named: the first one.
    pub fn first(&self) -> Option<Arc<Bridge>> {
        lock(&self.0.all).first().cloned()
    }

    /// Adds a port, which forwards when this returns, if its link is up. Returns its number.
    pub fn add_port(&self, bridge: &str, config: PortConfig) -> Result<u32, Error> {
        let _changing = self.changing();
        let bridge = self.bridge(bridge)?;
        for other in self.all() {
            if other.has_port(&config.name) {
                let bridge = other.name().to_owned();
                return Err(Error::PortExists { bridge, port: config.name });
            }
        }
        bridge.add_port(&self.0.defaults.environment, config)
    }

    /// Removes a port. Its interface is free when this returns.
    pub fn remove_port(&self, bridge: &str, port: &str) -> Result<(), Error> {
        let _changing = self.changing();
        let bridge = self.bridge(bridge)?;
        let number = bridge.number(port)?;
        self.forget_elsewhere(&bridge, |station| station.port == number);
        bridge.remove_port(port)
    }

    /// What was behind a port that goes may be behind another bridge's: stations of a bridge are forgotten by the others.
    fn forget_elsewhere(&self, bridge: &Arc<Bridge>, goes: impl Fn(&Station) -> bool) {
        let others: Vec<_> =
            self.all().into_iter().filter(|other| !Arc::ptr_eq(other, bridge)).collect();
        if others.is_empty() {
            return;
        }
        let gone: Vec<Station> = bridge.stations().into_iter().filter(goes).collect();
        if !gone.is_empty() {
            others.iter().for_each(|other| other.forget_stations(&gone));
        }
    }

    /// Gives a port another number, or with none the least free one; frames that wait in its queues stay there. Returns
    /// the number.
    pub fn renumber(&self, bridge: &str, port: &str, number: Option<u32>) -> Result<u32, Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.renumber(port, number)
    }

    /// Puts a port down or up, as OpenFlow's and gNMI's clients do.
    pub fn set_down(&self, bridge: &str, port: &str, down: bool) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.set_down(port, down)
    }

    /// Sets a port's MTU and address, as far as they are said.
    pub fn set_link(&self, bridge: &str, port: &str, wanted: LinkRequest) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.set_link(port, wanted)
    }

    /// Sets a port's rate and all of its egress queues.
    pub fn set_queues(&self, bridge: &str, port: &str, config: QueuesConfig) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.set_queues(port, config)
    }

    /// Sets what is asked of a tunnel port's BFD; without it there is no session.
    pub fn set_bfd(
        &self,
        bridge: &str,
        port: &str,
        config: Option<bfd::Config>,
    ) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.set_bfd(&self.0.defaults.environment, port, config)
    }

    /// Sets what a port may receive.
    pub fn set_policing(&self, bridge: &str, port: &str, policing: Policing) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.set_policing(port, policing)
    }

    /// Sets the VLANs of a port under NORMAL.
    pub fn set_vlan(&self, bridge: &str, port: &str, vlan: Vlan) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.set_vlan(port, vlan)
    }

    /// Sets the mirrors of a bridge, all of them.
    pub fn set_mirrors(&self, bridge: &str, mirrors: Vec<Mirror>) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.set_mirrors(mirrors)
    }

    /// Sets the bonds of a bridge, all of them.
    pub fn set_bonds(&self, bridge: &str, bonds: Vec<Bond>) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.set_bonds(bonds)
    }

    /// What the bridges and their ports are to be, numbers filled in.
    pub fn setup(&self) -> Vec<BridgeSetup> {
        let of = |bridge: &Arc<Bridge>| BridgeSetup {
            bridge: bridge.config(),
            ports: lock(&bridge.ports).clone(),
            entries: bridge.entries(),
        };
        self.all().iter().map(of).collect()
    }

    /// Makes one change of those from one configuration to another.
    pub fn apply(&self, change: Change) -> Result<(), Error> {
        match change {
            Change::Restart(setting) => Err(Error::NeedsRestart { setting }),
            Change::RemovePort { bridge, port } => self.remove_port(&bridge, &port),
            Change::RemoveBridge(bridge) => self.remove(&bridge),
            Change::AddBridge(bridge) => self.add(bridge),
            Change::ChangeBridge(bridge) => self.reconfigure(&bridge.name.clone(), bridge),
            Change::AddPort { bridge, port } => self.add_port(&bridge, port).map(drop),
            Change::ChangePort { bridge, port } => {
                let _changing = self.changing();
                self.bridge(&bridge)?.change_port(port)
            }
            Change::SetEntries { bridge, entries } => self.set_entries(&bridge, &entries, false),
        }
    }

    /// Makes the entries of a bridge's configuration these. `missing`: at a start, what is there under a line's key stays.
    pub(crate) fn set_entries(
        &self,
        bridge: &str,
        entries: &Entries,
        missing: bool,
    ) -> Result<(), Error> {
        let _changing = self.changing();
        self.bridge(bridge)?.set_entries(entries, missing)
    }

    /// Lets go of all controllers, and stops all switches and the workers.
    pub fn stop(&self) {
        let all = self.all();
        for bridge in &all {
            bridge.bfd.stop(bridge.switch());
            bridge.bonds.stop();
            bridge.controllers().iter().for_each(|one| one.stop());
        }
        for bridge in &all {
            bridge.switch().stop();
        }
        self.0.workers.stop();
    }
}
