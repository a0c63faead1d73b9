//! OpenFlow: the agent, and the way to controllers.

use super::kind::Kind;
use crate::config::Config;
use crate::controller::{Begun, Controller, Switches};
use crate::failure::Failure;
use crate::persist::kept::{Kept, Opened, Owner};
use crate::program::tables;
use crate::sync::lock;
use crate::takeover::running::Running;
use crate::{room, start};
use of_channel::{Bound, Channel, ChannelError, Listen};
use of_pipeline::Agent;
use openflow::ControllerStatus;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};
use switch::{EngineKind, Switch, Workers};

pub(super) const KIND: Kind = Kind { begin, join: Kind::joins_nobody };

/// The OpenFlow agent and the way to controllers.
pub struct OpenFlow {
    pub(crate) agent: Arc<Mutex<Agent>>,
    /// None once the switch stops, or another takes its place.
    pub(crate) channel: Mutex<Option<Channel>>,
    config: Mutex<of_channel::Config>,
    /// Keeps what changes over a restart.
    kept: Option<Kept>,
}

impl OpenFlow {
    pub(crate) fn new(agent: Agent, config: of_channel::Config) -> OpenFlow {
        let (agent, channel) = (Arc::new(Mutex::new(agent)), Mutex::new(None));
        OpenFlow { agent, channel, config: Mutex::new(config), kept: None }
    }

    /// Keeps all that changes from now on. Goes before [`begin`](Self::begin).
    pub(crate) fn keep(&mut self, opened: Opened) -> Result<(), Failure> {
        self.kept = Some(opened.begin(&self.agent)?);
        Ok(())
    }

    /// Controllers may come.
    pub(crate) fn start(&self, switch: &Switch) -> Result<(), Failure> {
        self.begin(switch).map_err(Failure::bad)
    }

    /// Controllers may come.
    pub(crate) fn begin(&self, switch: &Switch) -> Result<(), ChannelError> {
        let config = lock(&self.config).clone();
        let channel = Bound::open(config)?.start(switch.clone(), self.agent.clone())?;
        *lock(&self.channel) = Some(channel);
        Ok(())
    }

    /// Lets go of controllers, and takes others by another configuration. If that cannot be, those of before may come again.
    pub(crate) fn reconfigure(
        &self,
        switch: &Switch,
        config: of_channel::Config,
    ) -> Result<(), ChannelError> {
        config.check()?;
        drop(lock(&self.channel).take());
        let before = std::mem::replace(&mut *lock(&self.config), config);
        self.begin(switch).inspect_err(|error| {
            *lock(&self.config) = before;
            if let Err(again) = self.begin(switch) {
                tracing::error!(%error, %again, "controllers cannot come any more");
            }
        })
    }

    /// Sets the id that controllers are told when they come.
    pub(crate) fn set_datapath_id(&self, id: u64) {
        lock(&self.agent).set_datapath_id(id);
    }

    /// Packets are flooded to ports that have just come, and no more to those that have gone.
    pub(crate) fn follow_ports(&self) {
        lock(&self.agent).follow_ports();
    }

    /// Where controllers may come to.
    pub(crate) fn listening_at(&self) -> Vec<Listen> {
        lock(&self.channel).iter().flat_map(|channel| channel.listening().to_vec()).collect()
    }

    /// Controllers of the configuration, in its order, and those that have come.
    pub(crate) fn states(&self) -> Vec<ControllerStatus> {
        lock(&self.channel).as_ref().map_or_else(Vec::new, Channel::controllers)
    }

    /// What has become of attempts to reach each controller of the configuration, by target.
    pub fn contacts(&self) -> BTreeMap<String, of_channel::Contact> {
        lock(&self.channel).as_ref().map_or_else(BTreeMap::new, Channel::contacts)
    }

    /// Connections to controllers are made anew. Says how many targets there are.
    pub fn reconnect(&self, switch: &Switch) -> Result<usize, ChannelError> {
        let config = lock(&self.config).clone();
        let targets = config.controllers.len();
        self.reconfigure(switch, config)?;
        Ok(targets)
    }

    /// The agent, which holds entries, groups, meters and stations. It is the controllers' as well: nobody waits with it.
    pub fn agent(&self) -> MutexGuard<'_, Agent> {
        lock(&self.agent)
    }

    /// Those who have come may begin.
    pub(crate) fn start_bound(&self, switch: &Switch, bound: Bound) -> Result<(), Failure> {
        let channel = bound.start(switch.clone(), self.agent.clone());
        *lock(&self.channel) = Some(channel.map_err(Failure::bad)?);
        Ok(())
    }
}

impl Controller for OpenFlow {
    fn kept(&self) -> Option<Kept> {
        self.kept.clone()
    }

    fn listening(&self) -> Vec<String> {
        let channel = lock(&self.channel);
        channel.iter().flat_map(Channel::listening).map(ToString::to_string).collect()
    }

    fn connected(&self) -> Vec<String> {
        let channel = lock(&self.channel);
        let connected = channel.as_ref().map_or_else(Vec::new, Channel::connected);
        connected.iter().map(|version| version.name().to_owned()).collect()
    }

    fn advise(&self) {
        let entries = lock(&self.agent).flows().total().0;
        let config = lock(&self.config).clone();
        let by = start::Programmers {
            controllers: config.controllers.len(),
            listeners: &config.listeners,
            fail_mode: config.fail_mode,
        };
        if let Some(text) = start::unprogrammed(entries, &by) {
            tracing::warn!("{text}");
        }
        start::warn_of_open(&config.listeners);
    }

    fn stop(&self) {
        drop(lock(&self.channel).take());
        if let Some(kept) = &self.kept {
            kept.close();
        }
    }
}

fn begin<'a>(
    config: &'a Config,
    workers: &Workers,
) -> Result<Option<Box<dyn Begun + 'a>>, Failure> {
    if config.p4.is_some() {
        return Ok(None);
    }
    let (parts, services) = tables::parts(tables::Parts {
        workers: config.workers,
        cpus: config.cpus.clone(),
        punt_rate: config.punt_rate,
        engine: config.engine.clone(),
        validate: config.validate,
        tracking: config.tracking,
    });
    let switch = Switch::start_on(workers, parts, services).map_err(Failure::bad)?;
    let flows_max = config.flows_max.unwrap_or_else(room::flows);
    // What another process has is opened once that one has let go of it.
    let opened = match (&config.persist, &config.take_over) {
        (Some(place), None) => Some(Opened::open(place, &config.bridge_name, Owner::OpenFlow)?),
        _ => None,
    };
    Ok(Some(Box::new(Tables { switch, config, flows_max, taken: None, opened })))
}

/// A switch of OpenFlow's tables that has begun.
struct Tables<'a> {
    switch: Switch,
    config: &'a Config,
    flows_max: u32,
    /// What was taken from a running switch; controllers wait to be accepted.
    taken: Option<(Agent, Bound)>,
    /// What was kept.
    opened: Option<Opened>,
}

impl Tables<'_> {
    /// An agent without entries.
    fn agent(&self, datapath_id: Option<u64>) -> Result<Agent, Failure> {
        let synchronised = &self.config.synchronised;
        tables::limited_agent(&self.switch, datapath_id, synchronised, self.flows_max)
    }

    /// The way to controllers, within what there is room for.
    fn channel(&self) -> of_channel::Config {
        let mut config = self.config.channel.clone();
        let controllers = config.controllers.len() as u64 * (1 + u64::from(config.auxiliary));
        let ports = self.config.ports.len() as u64;
        config.connections_max = room::connections(config.connections_max, controllers, ports);
        config.bundles_bytes_max = room::bundles(self.flows_max);
        config
    }
}

impl Begun for Tables<'_> {
    fn switch(&self) -> &Switch {
        &self.switch
    }

    fn check(&self, ports: &[(String, u32)]) -> Result<(), Failure> {
        let Config { flows, groups, meters, synchronised, .. } = self.config;
        if flows.is_empty() && groups.is_empty() && meters.is_empty() {
            return Ok(());
        }
        let switch = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None)?;
        let agent = tables::limited_agent(&switch, Some(1), synchronised, self.flows_max)?;
        tables::load(&Mutex::new(agent), ports, flows, groups, meters)?;
        switch.stop();
        Ok(())
    }

    fn take(&mut self, running: &mut Running<UnixStream>) -> Result<(), Failure> {
        let own = self.config.datapath_id;
        let agent = running.agent(|id| self.agent(Some(own.unwrap_or(id))))?;
        let bound = Bound::open(self.channel()).map_err(Failure::bad)?;
        self.taken = Some((agent, bound));
        Ok(())
    }

    fn start(self: Box<Self>, _: &Switches) -> Result<Arc<dyn Controller>, Failure> {
        let channel = self.channel();
        let mut this = *self;
        let side = match this.taken.take() {
            Some((mut agent, bound)) => {
                // The first packet may have to be flooded to ports that have just come.
                agent.follow_ports();
                let mut side = OpenFlow::new(agent, channel);
                if let Some(place) = &this.config.persist {
                    let name = &this.config.bridge_name;
                    side.keep(Opened::open_after(place, name, Owner::OpenFlow)?)?;
                }
                side.start_bound(&this.switch, bound)?;
                side
            }
            None => {
                let Config { datapath_id, flows, groups, meters, .. } = this.config;
                let mut side = OpenFlow::new(this.agent(*datapath_id)?, channel);
                match &mut this.opened {
                    Some(opened) if !opened.is_fresh() => opened.put_back(&side.agent)?,
                    _ => {
                        let ports = tables::names(&this.switch);
                        tables::load(&side.agent, &ports, flows, groups, meters)?;
                    }
                }
                if let Some(opened) = this.opened.take() {
                    side.keep(opened)?;
                }
                side.start(&this.switch)?;
                side
            }
        };
        Ok(Arc::new(side))
    }
}
