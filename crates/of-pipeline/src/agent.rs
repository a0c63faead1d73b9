//! The façade: one OpenFlow agent for a switch, shared by all its connections.
//!
//! Requests come by [`Agent::handle`], what happens in the switch by [`Agent::poll`]. All methods
//! are synchronous and short: nothing waits for traffic. A request that is refused has changed
//! nothing.
//!
//! Absent: connections, roles, barriers (whoever keeps connections calls
//! [`Switch::sync`] for those), bytes of messages.

use crate::admission::Admission;
use crate::bundle::Deferred;
use crate::config::Miss;
use crate::conjunction::Conjunctions;
use crate::emergency::Emergency;
use crate::event::Event;
use crate::features;
use crate::flow_table::FlowTables;
use crate::group_table::GroupTable;
use crate::learning::Learning;
use crate::meter_table::MeterTable;
use crate::monitor::Requester;
use crate::normal::Stations;
use crate::ports::{Ports, Unread};
use crate::refusal::Refusal;
use crate::synchronised::{self, Synchronised};
use crate::table_config::TableConfigs;
use crate::transaction::Stage;
use crate::trigger::Triggers;
use crate::validate::Rules;
use crate::waiting::Injections;
use of_lower::{Layout, ProgramConfig};
use openflow::table::{TABLE_EVICTION, TABLE_VACANCY_EVENTS};
use openflow::{
    ElementName, Message, MultipartRequest, MultipartRequestBody, PortNo, QueueConfigReply,
    QueueId, QueueStatsRequest, SwitchConfig, SwitchDesc, TableId, TableMod, Version,
};
use std::sync::Arc;
use switch::Switch;

/// Messages of the switch that one [`Agent::poll`] takes: so many that it stays short.
const POLL_MAX: usize = 4096;
/// The same in time, looked at after so many messages: requests wait for the agent meanwhile.
const POLL_NS: u64 = 10_000_000;
const POLL_STEP: usize = 32;

/// 1.3's deprecated table configuration bits, which are ignored.
const TABLE_CONFIG_DEPRECATED: u32 = 3;

/// What an agent tells controllers about itself, and its limits.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The datapath id: low 48 bits an address, the rest the operator's.
    pub datapath_id: u64,
    /// Who made it, which it is.
    pub desc: SwitchDesc,
    /// What the switch's program was made of.
    pub program: ProgramConfig,
    /// Greatest number that a port may get later: flow entries may name it although no port has it
    /// yet. Ports that exist may always be named.
    pub port_max: u32,
    /// Flow entries in all tables together, at most.
    pub flows_max: u32,
    /// What the matches and actions of all entries, or the buckets of all groups, may be in messages, in
    /// bytes; none for several times what so many ordinary entries are, so that it bounds long ones.
    pub content_max: Option<usize>,
    /// Groups, at most.
    pub groups_max: u32,
    /// Meters, at most.
    pub meters_max: u32,
    /// Tables that reflect others.
    pub synchronised: Vec<Synchronised>,
}

impl Default for AgentConfig {
    fn default() -> AgentConfig {
        let text = str::to_owned;
        AgentConfig {
            datapath_id: 1,
            desc: SwitchDesc {
                manufacturer: text("millrace"),
                hardware: text("software switch"),
                software: text(env!("CARGO_PKG_VERSION")),
                serial: text("none"),
                datapath: text("none"),
            },
            program: ProgramConfig::default(),
            port_max: 0xfeff,
            flows_max: 1 << 24,
            content_max: None,
            groups_max: 65_536,
            meters_max: 65_536,
            synchronised: Vec::new(),
        }
    }
}

impl AgentConfig {
    /// What one table holds, at most.
    pub(crate) fn entries_max(&self) -> u32 {
        self.program.table_capacity.min(self.flows_max)
    }

    /// What [`content_max`](Self::content_max) comes to.
    pub(crate) fn content(&self) -> usize {
        let derived = (self.flows_max as usize).saturating_mul(CONTENT_EACH).max(CONTENT_MIN);
        self.content_max.unwrap_or(derived)
    }
}

/// Bytes of an entry's match and actions, on average, at most; and of all, at least.
const CONTENT_EACH: usize = 512;
const CONTENT_MIN: usize = 16 << 20;

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
}

/// The OpenFlow agent of one switch.
pub struct Agent {
    pub(crate) switch: Switch,
    pub(crate) config: AgentConfig,
    pub(crate) layout: Arc<Layout>,
    pub(crate) interner: Stage,
    pub(crate) deferred: Deferred,
    pub(crate) flows: FlowTables,
    pub(crate) emergency: Emergency,
    pub(crate) conjunctions: Conjunctions,
    pub(crate) table_configs: TableConfigs,
    pub(crate) groups: GroupTable,
    pub(crate) meters: MeterTable,
    pub(crate) ports: Ports,
    pub(crate) unread: Option<Unread>,
    pub(crate) stations: Stations,
    pub(crate) settings: SwitchConfig,
    pub(crate) miss: Miss,
    pub(crate) events: Vec<Event>,
    /// A packet has asked for something that those behind it should find.
    hurries: bool,
    pub(crate) watched: bool,
    pub(crate) triggers: Triggers,
    pub(crate) learning: Learning,
    pub(crate) injections: Injections,
    pub(crate) requester: Option<Requester>,
}

impl Agent {
    /// Takes charge of a switch that was started with [`of_lower::program`](of_lower::program()) for the
    /// same [`ProgramConfig`], and that nobody else writes entries, groups or meters into.
    pub fn new(switch: Switch, config: AgentConfig) -> Result<Agent, AgentError> {
        let (program, layout) = of_lower::program(&config.program);
        if !switch.with_pipeline(|p| **p.program() == program) {
            return Err(AgentError::Program);
        }
        let layout = Arc::new(layout);
        let admission = Arc::new(Admission::default());
        switch.services().admission().set_judge(admission.clone());
        let mut agent = Agent {
            interner: Stage::new(layout.clone(), admission.clone()),
            deferred: Deferred::default(),
            flows: FlowTables::new(layout.tables).told_to(admission),
            emergency: Emergency::default(),
            conjunctions: Conjunctions::default(),
            table_configs: TableConfigs::new(layout.tables, config.entries_max())
                .synchronised(&config.synchronised),
            layout,
            switch,
            config,
            groups: GroupTable::default(),
            meters: MeterTable::default(),
            ports: Ports::default(),
            unread: None,
            stations: Stations::default(),
            settings: SwitchConfig::DEFAULT,
            miss: Miss::default(),
            events: Vec::new(),
            hurries: false,
            watched: false,
            triggers: Triggers::default(),
            learning: Learning::default(),
            injections: Injections::default(),
            requester: None,
        };
        synchronised::check(&agent.config.synchronised, &agent.rules())?;
        // Ports that are there now are told in descriptions; what happened to them is past.
        while agent.switch.try_port_event().is_some() {}
        for view in agent.switch.ports() {
            agent.ports.add(view.number);
        }
        agent.set_flood_groups()?;
        Ok(agent)
    }

    /// The switch.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// What it tells about itself.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// The flow entries.
    pub fn flows(&self) -> &FlowTables {
        &self.flows
    }

    /// The groups.
    pub fn groups(&self) -> &GroupTable {
        &self.groups
    }

    /// The meters.
    pub fn meters(&self) -> &MeterTable {
        &self.meters
    }

    /// The stations that NORMAL knows.
    pub fn stations(&self) -> &Stations {
        &self.stations
    }

    /// What the checks of instructions and actions look at.
    pub(crate) fn rules(&self) -> Rules<'_> {
        Rules {
            tables: self.flows.tables(),
            configs: &self.table_configs,
            own: None,
            port_max: self.config.port_max,
            ports: &self.ports,
            groups: &self.groups,
            meters: &self.meters,
        }
    }

    /// Executes one request of a controller; replies in order, none for most. What belongs to a
    /// connection (hello, echo, barrier, role, asynchronous configuration) is not for the agent.
    pub fn handle(&mut self, version: Version, message: Message) -> Result<Vec<Message>, Refusal> {
        let mut replies = Vec::new();
        self.handle_into(version, message, &mut |reply| replies.push(reply))?;
        Ok(replies)
    }

    /// As [`handle`](Self::handle), handing out each reply as soon as it is made: a large multipart
    /// reply then never lies in memory whole. `reply` must not call the switch.
    pub fn handle_into(
        &mut self,
        version: Version,
        message: Message,
        reply: &mut dyn FnMut(Message),
    ) -> Result<(), Refusal> {
        let done = self.execute(version, message, reply);
        self.delete_orphans();
        done
    }

    fn execute(
        &mut self,
        version: Version,
        message: Message,
        reply: &mut dyn FnMut(Message),
    ) -> Result<(), Refusal> {
        self.open_rooms(&message);
        match message {
            Message::FlowMod(request) => self.flow_mod(request),
            Message::GroupMod(request) => {
                let done = self.group_mod(request);
                self.settle(done)
            }
            Message::MeterMod(request) => {
                let done = self.meter_mod(request);
                self.settle(done)
            }
            Message::PortMod(request) => self.port_mod(request),
            Message::TableMod(request) => self.table_mod(version, request),
            Message::PacketOut(request) => self.packet_out(request),
            Message::Resume(request) => self.resume(*request),
            Message::MultipartRequest(MultipartRequest {
                more: false,
                body: MultipartRequestBody::TableFeatures(wanted),
            }) if !wanted.is_empty() => {
                self.set_table_features(version, &wanted)?;
                //= openflow-1.3.5 §7.3.5.5: what the tables are then is the answer.
                self.table_features(version, reply);
                Ok(())
            }
            Message::MultipartRequest(request) => self.multipart(version, request, reply),
            Message::SetConfig(request) => self.set_config(request),
            Message::GetConfigRequest => {
                reply(Message::GetConfigReply(self.settings));
                Ok(())
            }
            Message::FeaturesRequest => {
                let tables = self.flows.tables();
                let features = features::switch(&self.config, version, tables, self.port_descs());
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

    /// A request about entries is done, or nothing of it is; in a bundle, that is seen at its end.
    pub(crate) fn settle<T>(&mut self, done: Result<T, Refusal>) -> Result<T, Refusal> {
        if !self.interner.is_staging() {
            match &done {
                Ok(_) => self.conjunctions.keep(),
                Err(_) => self.conjunctions.undo(),
            }
        }
        done
    }

    /// Forgets the tracked connections of a zone; says how many there were.
    pub fn flush_zone(&self, zone: u16) -> usize {
        let connections = self.switch.services().connections();
        connections.map_or(0, |connections| connections.flush(Some(zone)))
    }

    /// Executes a table-mod.
    fn table_mod(&mut self, version: Version, request: TableMod) -> Result<(), Refusal> {
        let TableId(table) = request.table_id;
        let tables = self.flows.tables();
        if request.table_id != TableId::ALL && !self.table_configs.contains(table) {
            return Err(Refusal::NoTable { table, tables });
        }
        //= openflow-1.3.5 §7.3.3: the only bits are deprecated ones, which are ignored.
        let known = match version {
            Version::V10 | Version::V13 => TABLE_CONFIG_DEPRECATED,
            //= openflow-1.4.1 §7.3.3: eviction and vacancy events.
            Version::V14 | Version::V15 => {
                TABLE_CONFIG_DEPRECATED | TABLE_EVICTION | TABLE_VACANCY_EVENTS
            }
        };
        let bits = request.config & !known;
        if bits != 0 {
            return Err(Refusal::TableConfig { bits });
        }
        self.configure_tables(version, &request)
    }

    /// Follows what happened to ports so far, so that packets are flooded to those that were just added. The next
    /// [`poll`](Self::poll) tells of it.
    pub fn follow_ports(&mut self) {
        while let Some(event) = self.switch.try_port_event() {
            self.port_event(event);
        }
    }

    /// What happened since the last call, for controllers. Also follows ports, learns for NORMAL and
    /// removes what has expired; so it is to be called whenever the switch has a message or a port
    /// event, and several times a second.
    pub fn poll(&mut self) -> Vec<Event> {
        self.follow_ports();
        let begin_ns = self.switch.now_ns();
        for count in 1..=POLL_MAX {
            let Some(message) = self.switch.try_message() else { break };
            self.receive(message);
            let looks = count % POLL_STEP == 0;
            if looks && self.switch.now_ns().saturating_sub(begin_ns) >= POLL_NS {
                break;
            }
        }
        if std::mem::take(&mut self.hurries) {
            // What a controller changes may gather for a while. What was learnt changes where the next packets go.
            self.switch.advance();
        }
        self.expire();
        self.delete_orphans();
        self.watch_vacancy();
        self.watch_triggers();
        std::mem::take(&mut self.events)
    }

    /// Takes one message that the caller already has from the switch
    /// ([`Switch::next_message`]); the next [`poll`](Self::poll) tells what came of it.
    pub fn receive(&mut self, message: switch::Message) {
        match message {
            switch::Message::Punt(punt) => {
                let event = self.packet_in(punt);
                self.events.extend(event);
            }
            switch::Message::Digest { digest, args } if digest == self.layout.learn => {
                self.learn(&args);
                self.hurries = true;
            }
            switch::Message::Digest { digest, args } if digest == self.layout.learn_entry => {
                self.learn_entry(&args);
                self.hurries = true;
            }
            switch::Message::Digest { digest, args } if digest == self.layout.fin_timeout => {
                self.fin_seen(&args);
            }
            switch::Message::Digest { digest, .. } => {
                tracing::error!(%digest, "a digest that the program does not send");
            }
        }
    }
}

/// The services that flows may name: whether the one of a name may write packets.
pub(crate) fn elements(switch: &Switch) -> impl Fn(&ElementName) -> Option<bool> + use<> {
    let list = switch.services().elements().cloned();
    move |name| {
        list.as_ref()?.get(name.number()).filter(|e| e.name == name.as_str()).map(|e| e.edits())
    }
}
