//! What an agent tells controllers about itself, and its limits.

use crate::synchronised::Synchronised;
use of_lower::ProgramConfig;
use openflow::SwitchDesc;

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
