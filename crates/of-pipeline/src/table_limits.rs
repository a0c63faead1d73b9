//! Names and bounds of flow tables that whoever configures the bridge sets, not a controller (Open vSwitch's
//! `Flow_Table`).
//!
//! Holds true: a table that may not hold what it has gives up entries where it evicts, told as evictions; where it does
//! not, it keeps them and takes no more. What is not said any more is as the switch was made.

use crate::agent::Agent;
use crate::refusal::Refusal;
use openflow::FlowRemovedReason;
use std::collections::BTreeMap;

/// What is said of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableLimit {
    /// Its name; its number with a letter without one.
    pub name: Option<String>,
    /// Entries, at most.
    pub entries_max: Option<u32>,
    /// An entry gives way to a new one, in place of the new one being refused.
    pub evicts: bool,
}

/// A limit that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitRefusal {
    /// There is no such table.
    #[error("there is no flow table {table}; there are {tables}")]
    NoTable {
        /// The table.
        table: u8,
        /// How many there are.
        tables: u32,
    },
    /// Entries could not be given up.
    #[error("flow table {table}: {why}")]
    Refused {
        /// The table.
        table: u8,
        /// Why.
        why: String,
    },
}

impl Agent {
    /// What is said of tables now.
    pub fn table_limits(&self) -> &BTreeMap<u8, TableLimit> {
        &self.table_limits
    }

    /// Tables are named and bounded so from now on.
    pub fn set_table_limits(
        &mut self,
        limits: BTreeMap<u8, TableLimit>,
    ) -> Result<(), LimitRefusal> {
        let tables = self.stores.flows.tables();
        if let Some(table) = limits.keys().copied().find(|table| u32::from(*table) >= tables) {
            return Err(LimitRefusal::NoTable { table, tables });
        }
        let before = std::mem::replace(&mut self.table_limits, limits);
        let most = self.env.config.entries_max();
        let none = TableLimit::default();
        let touched = before.keys().chain(self.table_limits.keys()).copied();
        let touched: Vec<u8> = touched.collect();
        for table in touched {
            let limit = self.table_limits.get(&table).unwrap_or(&none);
            if before.get(&table) == Some(limit) {
                continue;
            }
            if let Some(config) = self.stores.tables.get_mut(table) {
                config.name = limit.name.clone().unwrap_or_default();
                config.capacity = limit.entries_max.map_or(most, |max| max.min(most));
                config.eviction = limit.evicts;
            }
            self.evict_beyond(table)
                .map_err(|why| LimitRefusal::Refused { table, why: why.to_string() })?;
        }
        Ok(())
    }

    /// A table that evicts gives up what it has too much.
    fn evict_beyond(&mut self, table: u8) -> Result<(), Refusal> {
        let most = self.stores.tables.capacity(table) as usize;
        while self.stores.flows.len(table) > most {
            let switch = &self.env.switch;
            let used = |id: u32| switch.counter(id).last_used_ns.unwrap_or(0);
            let flows = &mut self.stores.flows;
            let first = self.stores.tables.victim(flows, table, u16::MAX, used);
            let Some(victim) = first else { break };
            let mut tx = self.transaction(None);
            let done = tx.remove(vec![(victim, FlowRemovedReason::Eviction)]);
            tx.settle(done)?;
        }
        Ok(())
    }
}
