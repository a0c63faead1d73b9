//! The façade: one OpenFlow agent for a switch, shared by all its connections.

use crate::event::Event;
use crate::refusal::Refusal;
use openflow::{Message, SwitchDesc, Version};
use switch::Switch;

/// What an agent tells controllers about itself, and its limits.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The datapath id: low 48 bits an address, the rest the operator's.
    pub datapath_id: u64,
    /// Who made it, which it is.
    pub desc: SwitchDesc,
    /// Greatest number that a port may get later: flow entries may name it although no port has it
    /// yet. Ports that exist may always be named.
    pub port_max: u32,
    /// Entries in one flow table.
    pub flows_max: u32,
    /// Groups.
    pub groups_max: u32,
    /// Meters.
    pub meters_max: u32,
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
            port_max: 0xfeff,
            flows_max: 1_000_000,
            groups_max: 65_536,
            meters_max: 65_536,
        }
    }
}

/// Why an agent could not take charge of a switch.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AgentError {
    /// The switch runs another program.
    #[error("the switch does not run OpenFlow's program; start it with `lower::program`")]
    Program,
    /// A first update was refused.
    #[error("the switch refused the agent's first entries: {0}")]
    Refused(#[from] Refusal),
}

/// The OpenFlow agent of one switch.
pub struct Agent {
    switch: Switch,
    config: AgentConfig,
}

impl Agent {
    /// Takes charge of a switch that was started with [`lower::program`](crate::lower::program()).
    pub fn new(switch: Switch, config: AgentConfig) -> Result<Agent, AgentError> {
        Ok(Agent { switch, config })
    }

    /// The switch.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// What it tells about itself.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Executes one request of a controller; replies in order.
    pub fn handle(&mut self, version: Version, message: Message) -> Result<Vec<Message>, Refusal> {
        let mut replies = Vec::new();
        self.handle_into(version, message, &mut |reply| replies.push(reply))?;
        Ok(replies)
    }

    /// As [`handle`](Self::handle), handing out each reply as soon as it is made: a large multipart
    /// reply then never lies in memory whole.
    pub fn handle_into(
        &mut self,
        _version: Version,
        message: Message,
        _reply: &mut dyn FnMut(Message),
    ) -> Result<(), Refusal> {
        Err(Refusal::NotARequest { name: message.type_name() })
    }

    /// What happened since the last call, for controllers.
    pub fn poll(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// Misses of the first table go to 1.0's controllers (true), or are dropped.
    pub fn set_miss_to_controller(&mut self, _on: bool) {}

    /// Misses of the first table are switched as by a learning bridge while controllers are gone.
    pub fn set_standalone(&mut self, _on: bool) {}
}
