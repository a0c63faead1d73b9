//! The façade: one OpenFlow agent for a switch, shared by all its connections.
//!
//! Requests come by [`Agent::handle`], what happens in the switch by [`Agent::poll`]. All methods
//! are synchronous and short: nothing waits for traffic. A request that is refused has changed
//! nothing.
//!
//! Absent: connections, roles, barriers (whoever keeps connections calls
//! [`Switch::sync`] for those), bytes of messages.

use crate::admission::Admission;
use crate::config::AgentConfig;
use crate::conjunction::Conjunctions;
use crate::emergency::Emergency;
use crate::env::Env;
use crate::event::Event;
use crate::features;
use crate::flow_table::FlowTables;
use crate::group_table::GroupTable;
use crate::injections::Injections;
use crate::learned::Learning;
use crate::meter_table::MeterTable;
use crate::monitor::Requester;
use crate::normal::Stations;
use crate::outbox::Outbox;
use crate::ports::Ports;
use crate::reflection;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::stage::Stage;
use crate::stores::Stores;
use crate::synchronised;
use crate::table_config::TableConfigs;
use crate::table_limits::TableLimit;
use crate::touched::{Changed, Written};
use crate::transaction::{Change, Transaction};
use crate::trigger::Triggers;
use crate::tunnels::map::Tunnels;
use crate::vlans::{NormalRefusal, Vlans};
use of_lower::Layout;
use openflow::{
    Match, Message, MultipartRequest, MultipartRequestBody, PortNo, QueueConfigReply, QueueId,
    QueueStatsRequest, Version,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use switch::Switch;

/// Messages of the switch that one [`Agent::poll`] takes: so many that it stays short.
const POLL_MAX: usize = 4096;
/// The same in time, looked at after so many messages: requests wait for the agent meanwhile.
const POLL_NS: u64 = 10_000_000;
const POLL_STEP: usize = 32;

/// Why an agent could not take charge of a switch.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AgentError {
    /// The switch runs another program.
    #[error(
        "the switch does not run OpenFlow's program; start it with that of `of_lower::program` for \
         the same configuration"
    )]
    Program,
    /// A table cannot be synchronised so.
    #[error("{0}")]
    Synchronised(#[from] synchronised::Impossible),
    /// A first update was refused.
    #[error("the switch refused the agent's first updates: {0}")]
    Refused(#[from] Refusal),
    /// What services want answered was refused.
    #[error(transparent)]
    Services(#[from] NormalRefusal),
}

/// Takes a frame of a protocol that the switch itself speaks: the port that it came in by, and its bytes. It must not wait.
pub type ProtocolFrames = Box<dyn Fn(u32, &[u8]) + Send>;

/// Keeps what changes.
pub trait Keeper: Send {
    /// This has changed, all of it together.
    fn keep(&mut self, agent: &Agent, changed: Changed);
}

/// The agent's keeper, and what is still to be told it.
#[derive(Default)]
pub(crate) struct Keeping {
    pub(crate) keeper: Option<Box<dyn Keeper>>,
    pub(crate) written: Option<Written>,
    pub(crate) tables: bool,
    pub(crate) settings: bool,
    pub(crate) options: bool,
}

impl Keeping {
    /// What is set of tables has changed.
    pub(crate) fn tables(&mut self) {
        self.tables = true;
    }

    /// What is set of the switch has changed.
    pub(crate) fn settings(&mut self) {
        self.settings = true;
    }

    /// The map of Geneve options has changed.
    pub(crate) fn options(&mut self) {
        self.options = true;
    }
}

/// The OpenFlow agent of one switch.
pub struct Agent {
    pub(crate) env: Env,
    /// What controllers asked for.
    pub(crate) stores: Stores,
    pub(crate) emergency: Emergency,
    /// The actions in use, and what a bundle under way gathers.
    pub(crate) stage: Stage,
    pub(crate) settings: Settings,
    pub(crate) stations: Stations,
    pub(crate) vlans: Vlans,
    pub(crate) table_limits: BTreeMap<u8, TableLimit>,
    pub(crate) injections: Injections,
    pub(crate) triggers: Triggers,
    pub(crate) learning: Learning,
    pub(crate) outbox: Outbox,
    pub(crate) keeping: Keeping,
    /// Who takes frames of protocols that the switch itself speaks.
    protocols: Option<ProtocolFrames>,
    /// A packet has asked for something that those behind it should find.
    hurries: bool,
}

impl Agent {
    /// The parts of the program that runs.
    pub fn layout(&self) -> Arc<Layout> {
        self.env.layout.clone()
    }

    /// Takes charge of a switch that was started with [`of_lower::program`](of_lower::program()) for the
    /// same [`ProgramConfig`](of_lower::ProgramConfig), and that nobody else writes entries, groups or meters into.
    pub fn new(switch: Switch, config: AgentConfig) -> Result<Agent, AgentError> {
        let (program, layout) = of_lower::program(&config.program);
        if !switch.with_pipeline(|p| **p.program() == program) {
            return Err(AgentError::Program);
        }
        let layout: Arc<Layout> = Arc::new(layout);
        let admission = Arc::new(Admission::default());
        switch.services().admission().set_judge(admission.clone());
        let synchronised = config.synchronised.clone();
        let stores = Stores {
            flows: FlowTables::new(layout.tables)
                .told_to(admission.clone(), switch.forgotten().clone()),
            conjunctions: Conjunctions::default(),
            tables: TableConfigs::new(layout.tables, config.entries_max())
                .synchronised(&synchronised),
            synchronised,
            groups: GroupTable::default(),
            meters: MeterTable::default(),
            ports: Ports::default(),
            tunnels: Tunnels::default(),
        };
        let mut agent = Agent {
            stage: Stage::new(layout.clone(), admission, switch.forgotten().clone()),
            env: Env { switch, config, layout },
            stores,
            emergency: Emergency::default(),
            settings: Settings::default(),
            stations: Stations::default(),
            vlans: Vlans::default(),
            table_limits: BTreeMap::new(),
            injections: Injections::default(),
            triggers: Triggers::default(),
            learning: Learning::default(),
            outbox: Outbox::default(),
            keeping: Keeping::default(),
            protocols: None,
            hurries: false,
        };
        reflection::check(&agent.stores.synchronised, &agent.stores.rules(&agent.env))?;
        // Ports that are there now are told in descriptions; what happened to them is past.
        while agent.env.switch.try_port_event().is_some() {}
        for view in agent.env.switch.ports() {
            agent.stores.ports.add(view.number);
            if view.info.described {
                agent.stores.tunnels.see_port();
            }
        }
        agent.transaction(None).set_flood_groups()?;
        agent.follow_tunnels()?;
        agent.follow_services()?;
        Ok(agent)
    }

    /// A request under way; `by` tells whose it is.
    pub(crate) fn transaction(&mut self, by: Option<Requester>) -> Transaction<'_> {
        Transaction {
            env: &self.env,
            stores: &mut self.stores,
            emergency: &mut self.emergency,
            injections: &mut self.injections,
            stage: &mut self.stage,
            outbox: &mut self.outbox,
            by,
        }
    }

    /// The switch.
    pub fn switch(&self) -> &Switch {
        &self.env.switch
    }

    /// What it tells about itself.
    pub fn config(&self) -> &AgentConfig {
        &self.env.config
    }

    /// The flow entries.
    pub fn flows(&self) -> &FlowTables {
        &self.stores.flows
    }

    /// The groups.
    pub fn groups(&self) -> &GroupTable {
        &self.stores.groups
    }

    /// The meters.
    pub fn meters(&self) -> &MeterTable {
        &self.stores.meters
    }

    /// The stations that NORMAL knows.
    pub fn stations(&self) -> &Stations {
        &self.stations
    }

    /// Frames of LACP that came in by members of bonds go there from now on.
    pub fn set_protocol_frames(&mut self, take: ProtocolFrames) {
        self.protocols = Some(take);
    }

    fn protocol_frame(&self, punt: &switch::Punt) {
        let in_port = of_lower::PuntArgs::read(&punt.args).in_port;
        match &self.protocols {
            Some(take) => take(in_port, &punt.bytes),
            None => self.env.switch.tally("protocol_frames_untaken", 1),
        }
    }

    /// Forgets the stations that NORMAL has learnt; says how many there were.
    pub fn forget_stations(&mut self) -> usize {
        self.stations.forget_all(&self.env, &mut self.stage, false)
    }

    /// Sets the datapath id that controllers are told from now on.
    pub fn set_datapath_id(&mut self, id: u64) {
        self.env.config.datapath_id = id;
    }

    /// Whether the entry of this priority and match reflects another one.
    pub fn is_reflection(&self, table: u8, priority: u16, matching: &Match) -> bool {
        self.stores.is_reflection(table, priority, matching)
    }

    /// Executes one request of a controller; replies in order, none for most. What belongs to a
    /// connection (hello, echo, barrier, role, asynchronous configuration) is not for the agent.
    /// Nobody's: who watches entries is told of no requester.
    pub fn handle(&mut self, version: Version, message: Message) -> Result<Vec<Message>, Refusal> {
        let mut replies = Vec::new();
        self.handle_by(None, version, message, &mut |reply| replies.push(reply))?;
        Ok(replies)
    }

    /// As [`handle`](Self::handle), handing out each reply as soon as it is made: a large multipart
    /// reply then never lies in memory whole. `reply` must not call the switch. `by` tells whose request it is.
    pub fn handle_by(
        &mut self,
        by: Option<Requester>,
        version: Version,
        message: Message,
        reply: &mut dyn FnMut(Message),
    ) -> Result<(), Refusal> {
        let done = match Change::of(message) {
            Ok(change) => self.transaction(by).apply(change),
            Err(message) => self.execute(by, version, message, reply),
        };
        self.transaction(None).delete_orphans();
        self.follow_ports_with_vlans();
        self.keep();
        done
    }

    /// Executes a request that changes no store, or those of tables alone.
    fn execute(
        &mut self,
        by: Option<Requester>,
        version: Version,
        message: Message,
        reply: &mut dyn FnMut(Message),
    ) -> Result<(), Refusal> {
        match message {
            Message::TableMod(request) => {
                self.keeping.tables();
                self.stores.tables.configure(version, &request, &self.stores.flows)
            }
            Message::Resume(request) => self.transaction(by).resume(*request),
            Message::MultipartRequest(MultipartRequest {
                more: false,
                body: MultipartRequestBody::TableFeatures(wanted),
            }) if !wanted.is_empty() => {
                self.keeping.tables();
                self.set_table_features(by, version, &wanted)?;
                //= openflow-1.3.5 §7.3.5.5: what the tables are then is the answer.
                self.table_features(version, reply);
                Ok(())
            }
            Message::MultipartRequest(request) => self.multipart(version, request, reply),
            Message::SetConfig(request) => {
                self.keeping.settings();
                self.settings.set(&self.env, &mut self.stage, request)
            }
            Message::GetConfigRequest => {
                reply(Message::GetConfigReply(self.settings.config()));
                Ok(())
            }
            Message::FeaturesRequest => {
                let (config, tables) = (&self.env.config, self.stores.flows.tables());
                let features = features::switch(config, version, tables, self.port_descs());
                reply(Message::FeaturesReply(features));
                Ok(())
            }
            Message::QueueGetConfigRequest(request) => {
                let port_no = request.port_no;
                if port_no == PortNo::ANY && version == Version::V10 {
                    return Err(Refusal::QueuePort { port: port_no });
                }
                let all = QueueStatsRequest { port_no, queue_id: QueueId::ALL };
                let queues = self.queue_configs(&all)?;
                reply(Message::QueueGetConfigReply(QueueConfigReply { port_no, queues }));
                Ok(())
            }
            Message::Experimenter(e) => Err(Refusal::Experimenter { experimenter: e.experimenter }),
            other => Err(Refusal::NotARequest { name: other.type_name() }),
        }
    }

    /// Whether somebody watches flow entries, so that changes are to be told.
    pub fn set_watched(&mut self, watched: bool) {
        self.outbox.watched = watched;
    }

    /// Packets that no entry of the first table matches are sent to 1.0's controllers (true), or
    /// dropped (false, as 1.3 has it). To be on while a 1.0 controller is connected.
    pub fn set_miss_to_controller(&mut self, on: bool) {
        self.settings.set_miss_to_controller(&self.env, &mut self.stage, on);
    }

    /// Packets that no entry of the first table matches are switched as by a learning bridge (true):
    /// for when controllers are gone and the switch is to stand on its own (1.3.5 §6.3.2). Goes
    /// before [`set_miss_to_controller`](Self::set_miss_to_controller).
    pub fn set_standalone(&mut self, on: bool) {
        self.settings.set_standalone(&self.env, &mut self.stage, on);
    }

    /// The last controller is gone: if there are emergency entries, they take the place of all others.
    pub fn lost_controllers(&mut self) {
        let Some(requests) = self.emergency.takes_over() else { return };
        match self.bundle(Version::V10, requests) {
            Ok(()) => tracing::warn!("no controller is left; emergency entries are in use"),
            Err(fault) => tracing::error!(%fault, "emergency entries cannot be used"),
        }
    }

    /// Follows what happened to ports so far, so that packets are flooded to those that were just added. The next
    /// [`poll`](Self::poll) tells of it.
    pub fn follow_ports(&mut self) {
        while let Some(event) = self.env.switch.try_port_event() {
            self.port_event(event);
        }
        self.follow_ports_with_vlans();
    }

    /// What happened since the last call, for controllers. Also follows ports, learns for NORMAL and
    /// removes what has expired; so it is to be called whenever the switch has a message or a port
    /// event, and several times a second.
    pub fn poll(&mut self) -> Vec<Event> {
        self.follow_ports();
        let begin_ns = self.env.switch.now_ns();
        for count in 1..=POLL_MAX {
            let Some(message) = self.env.switch.try_message() else { break };
            self.receive(message);
            let looks = count % POLL_STEP == 0;
            if looks && self.env.switch.now_ns().saturating_sub(begin_ns) >= POLL_NS {
                break;
            }
        }
        if std::mem::take(&mut self.hurries) {
            // What a controller changes may gather for a while. What was learnt changes where the next packets go.
            self.env.switch.advance();
        }
        self.expire();
        self.transaction(None).delete_orphans();
        let crossed = self.stores.tables.crossed(&self.stores.flows);
        self.outbox.extend(crossed.into_iter().map(Event::TableStatus));
        let flows = &self.stores.flows;
        let reached = self.triggers.look(flows.triggered(), |key| flows.get(key), &self.env.switch);
        self.outbox.extend(reached.into_iter().map(Event::FlowStats));
        self.keep();
        self.outbox.take()
    }

    /// Takes one message that the caller already has from the switch
    /// ([`Switch::next_message`]); the next [`poll`](Self::poll) tells what came of it.
    pub fn receive(&mut self, message: switch::Message) {
        match message {
            switch::Message::Punt(punt) if punt.reason == ir::PuntReason::Control => {
                self.protocol_frame(&punt);
            }
            switch::Message::Punt(punt) => {
                let event = self.packet_in(punt);
                self.outbox.extend(event);
            }
            switch::Message::Digest { digest, args, .. } if digest == self.env.layout.learn => {
                self.stations.learn(&self.env, &mut self.stage, &args);
                self.hurries = true;
            }
            switch::Message::Digest { digest, args, place }
                if self.env.layout.learn_entries.contains(&digest) =>
            {
                self.learn_entry(&args, place);
                self.hurries = true;
            }
            switch::Message::Digest { digest, args, .. }
                if digest == self.env.layout.fin_timeout =>
            {
                self.transaction(None).fin_seen(&args);
            }
            switch::Message::Digest { digest, .. } => {
                tracing::error!(%digest, "a digest that the program does not send");
            }
        }
    }
}
