//! How controllers configured the tables: eviction and vacancy events (1.4.1 §7.3.3), and what
//! [`crate::table_features`] sets: names, sizes, which tables there are, and the first egress table.
//!
//! A full table that may evict gives up, for a new entry, the one of the least importance, and among
//! those the one that would expire first; never one of greater importance than the new one. The table
//! keeps that order once it was asked for, so finding it takes no time with the table's size.
//!
//! Vacancy events have hysteresis: after one that less than the lower threshold is left comes none
//! until more than the upper one is, and the other way round.

use crate::flow::FlowKey;
use crate::flow_table::FlowTables;
use crate::refusal::Refusal;
use crate::synchronised::Synchronised;
use openflow::table::{TABLE_EVICTION, TABLE_VACANCY_EVENTS};
use openflow::{TableDesc, TableId, TableMod, TableReason, TableStatus, Vacancy, Version};

/// 1.3's deprecated table configuration bits, which are ignored.
const TABLE_CONFIG_DEPRECATED: u32 = 3;

/// `OFPTMPEF_IMPORTANCE`: entries of the least importance go first.
const BY_IMPORTANCE: u32 = 1 << 1;
/// `OFPTMPEF_LIFETIME`: among those, the one that would expire first.
const BY_LIFETIME: u32 = 1 << 2;

/// One table's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableConfig {
    /// Entries may be evicted to make room.
    pub(crate) eviction: bool,
    /// When controllers are told how full it is.
    pub(crate) vacancy: Option<Vacancy>,
    /// The next event is that more than the upper threshold is left; otherwise that less than the
    /// lower one is.
    pub(crate) awaits_up: bool,
    /// Its name; empty is its number with a letter.
    pub(crate) name: String,
    /// Entries, at most.
    pub(crate) capacity: u32,
    /// It is out of the pipeline.
    pub(crate) gone: bool,
    /// The table whose entries it reflects.
    pub(crate) from: Option<u8>,
}

/// The configuration of all tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableConfigs {
    tables: Vec<TableConfig>,
    /// From this table on they are egress tables; it is in the pipeline.
    pub(crate) first_egress: Option<u8>,
}

impl TableConfigs {
    /// Nothing configured yet.
    pub(crate) fn new(tables: u32, capacity: u32) -> TableConfigs {
        let table = TableConfig { capacity, ..TableConfig::default() };
        TableConfigs { tables: vec![table; tables as usize], first_egress: None }
    }

    /// The same, and these are synchronised.
    pub(crate) fn synchronised(mut self, list: &[Synchronised]) -> TableConfigs {
        for synchronised in list {
            if let Some(config) = self.get_mut(synchronised.table) {
                config.from = Some(synchronised.from);
            }
        }
        self
    }

    /// A table's; none of a table that is not there.
    pub(crate) fn get(&self, table: u8) -> Option<&TableConfig> {
        self.tables.get(usize::from(table))
    }

    /// A table's, to be changed.
    pub(crate) fn get_mut(&mut self, table: u8) -> Option<&mut TableConfig> {
        self.tables.get_mut(usize::from(table))
    }

    /// The table is there, and in the pipeline.
    pub(crate) fn contains(&self, table: u8) -> bool {
        self.get(table).is_some_and(|config| !config.gone)
    }

    /// The tables of the pipeline.
    pub(crate) fn tables(&self) -> impl Iterator<Item = u8> + '_ {
        (0..self.tables.len() as u8).filter(|table| self.contains(*table))
    }

    /// The table processes packets for output ports.
    pub(crate) fn is_egress(&self, table: u8) -> bool {
        self.first_egress.is_some_and(|first| table >= first)
    }

    /// A packet of an entry in one table may be looked up in the other one.
    pub(crate) fn leads(&self, from: u8, to: u8) -> bool {
        self.contains(to) && self.is_egress(from) == self.is_egress(to)
    }

    /// A table's name.
    pub(crate) fn name(&self, table: u8) -> String {
        match self.get(table) {
            Some(config) if !config.name.is_empty() => config.name.clone(),
            _ => format!("t{table}"),
        }
    }

    /// How many entries a table holds.
    pub(crate) fn capacity(&self, table: u8) -> u32 {
        self.get(table).map_or(0, |config| config.capacity)
    }

    /// Sets what a table-mod says.
    pub(crate) fn configure(
        &mut self,
        version: Version,
        request: &TableMod,
        flows: &FlowTables,
    ) -> Result<(), Refusal> {
        let TableId(table) = request.table_id;
        let tables = flows.tables();
        let all = request.table_id == TableId::ALL;
        if !all && !self.contains(table) {
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
        // 1.3's message says nothing of these.
        if version < Version::V14 {
            return Ok(());
        }
        let tables = if all { 0..tables as u8 } else { table..table + 1 };
        for table in tables {
            let now = self.vacancy(table, flows);
            let Some(config) = self.get_mut(table) else { continue };
            config.eviction = request.config & TABLE_EVICTION != 0;
            let wanted = request.config & TABLE_VACANCY_EVENTS != 0;
            //= openflow-1.4.1 §7.3.3: without thresholds those from before stay.
            let thresholds = request.vacancy.or(config.vacancy).unwrap_or_default();
            let begins = wanted && config.vacancy.is_none();
            config.vacancy = wanted.then_some(Vacancy { now: 0, ..thresholds });
            if begins {
                //= openflow-1.4.1 §7.3.3: which event comes first follows from what is left now.
                config.awaits_up = now < thresholds.up;
            }
        }
        Ok(())
    }

    /// The entry of a full table that makes room for one of this importance; none if no entry may go. `used_ns` tells
    /// when a packet last matched an entry.
    pub(crate) fn victim(
        &self,
        flows: &mut FlowTables,
        table: u8,
        importance: u16,
        used_ns: impl Fn(u32) -> u64,
    ) -> Option<FlowKey> {
        if !self.get(table).is_some_and(|config| config.eviction) {
            return None;
        }
        let first = flows.first_victim(table, used_ns);
        first.filter(|(_, least)| *least <= importance).map(|(key, _)| key)
    }

    /// The tables whose vacancy has crossed a threshold since this was asked last.
    pub(crate) fn crossed(&mut self, flows: &FlowTables) -> Vec<TableStatus> {
        let mut crossed = Vec::new();
        for table in 0..flows.tables() as u8 {
            let Some(config) = self.get(table) else { continue };
            let Some(vacancy) = config.vacancy else { continue };
            let now = self.vacancy(table, flows);
            //= openflow-1.4.1 §7.3.3: an event for each threshold crossed, in turn.
            let reason = match config.awaits_up {
                true if now > vacancy.up => TableReason::VacancyUp,
                false if now < vacancy.down => TableReason::VacancyDown,
                _ => continue,
            };
            if let Some(config) = self.get_mut(table) {
                config.awaits_up = !config.awaits_up;
            }
            crossed.push(TableStatus { reason, desc: self.desc(table, flows) });
        }
        crossed
    }

    /// How much of a table is left, in percent.
    fn vacancy(&self, table: u8, flows: &FlowTables) -> u8 {
        let capacity = self.capacity(table) as usize;
        let left = capacity.saturating_sub(flows.len(table));
        (left * 100 / capacity.max(1)) as u8
    }

    //= openflow-1.4.1 §7.3.5.16: a table's configuration, and how much of it is left.
    pub(crate) fn desc(&self, table: u8, flows: &FlowTables) -> TableDesc {
        let config = self.get(table).cloned().unwrap_or_default();
        let mut bits = 0;
        if config.eviction {
            bits |= TABLE_EVICTION;
        }
        if config.vacancy.is_some() {
            bits |= TABLE_VACANCY_EVENTS;
        }
        let now = self.vacancy(table, flows);
        TableDesc {
            table_id: TableId(table),
            config: bits,
            eviction: Some(BY_IMPORTANCE | BY_LIFETIME),
            vacancy: config.vacancy.map(|v| Vacancy { now, ..v }),
        }
    }
}
