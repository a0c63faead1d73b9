//! What the agent keeps of what controllers asked for: one type a store, each with its own methods.
//!
//! Requests change the stores in a [`Transaction`](crate::transaction::Transaction). How flow entries come, change and
//! go is said once, in `entries`.

use crate::config::AgentConfig;
use crate::conjunction::Conjunctions;
use crate::env::Env;
use crate::flow::{Flow, FlowKey};
use crate::flow_table::FlowTables;
use crate::group_table::GroupTable;
use crate::meter_table::MeterTable;
use crate::ports::Ports;
use crate::refusal::Refusal;
use crate::synchronised::Synchronised;
use crate::table_config::TableConfigs;
use crate::tunnels::map::Tunnels;
use crate::validate::Rules;
use of_lower::Call;

/// All of them.
pub(crate) struct Stores {
    pub(crate) flows: FlowTables,
    pub(crate) conjunctions: Conjunctions,
    /// Tables that reflect others.
    pub(crate) synchronised: Vec<Synchronised>,
    pub(crate) tables: TableConfigs,
    pub(crate) groups: GroupTable,
    pub(crate) meters: MeterTable,
    pub(crate) ports: Ports,
    pub(crate) tunnels: Tunnels,
}

/// An entry that is to be in a table.
pub(crate) struct Placing {
    pub(crate) table: u8,
    /// The equal one that is there.
    pub(crate) old: Option<FlowKey>,
    /// All but its action.
    pub(crate) flow: Flow,
    pub(crate) call: Call,
}

impl Stores {
    /// From here on changes can be undone, but those of ports and tables.
    pub(crate) fn begin(&mut self) {
        self.flows.begin();
        self.conjunctions.keep();
        self.groups.begin();
        self.meters.begin();
    }

    /// What changed stays.
    pub(crate) fn keep(&mut self) {
        self.flows.keep();
        self.conjunctions.keep();
        self.groups.keep();
        self.meters.keep();
    }

    /// All is as it was when it began.
    pub(crate) fn undo(&mut self) {
        self.flows.undo();
        self.conjunctions.undo();
        self.groups.undo();
        self.meters.undo();
    }

    /// What the checks of instructions and actions look at.
    pub(crate) fn rules(&self, env: &Env) -> Rules<'_> {
        Rules {
            tables: self.flows.tables(),
            configs: &self.tables,
            own: None,
            port_max: env.config.port_max,
            ports: &self.ports,
            groups: &self.groups,
            meters: &self.meters,
        }
    }

    /// Whether so many more entries, of so many bytes in messages, may be there in all tables together,
    /// once so many have gone.
    pub(crate) fn has_room(
        &self,
        config: &AgentConfig,
        fresh: usize,
        gone: usize,
        bytes: usize,
    ) -> Result<(), Refusal> {
        let (flows, content) = self.flows.total();
        let max = config.flows_max;
        if fresh > gone && flows + fresh - gone > max as usize {
            return Err(Refusal::FlowsFull { max });
        }
        let max = config.content();
        if content + bytes > max {
            return Err(Refusal::ContentFull { max });
        }
        Ok(())
    }
}
