//! Setting table features (1.3.5 §7.3.5.5; 1.5.1 §7.3.5.18).
//!
//! | in a request | here |
//! |---|---|
//! | tables | those of a replacing request are the pipeline; others leave it, and come back later |
//! | name | set; an empty one gives the table its own name back |
//! | `max_entries` | set, up to what the table was made for |
//! | first egress table (1.5) | set, or unset: from that table on they are egress tables |
//! | properties, metadata, capabilities | what a table can do holds all of it, or the request is refused; tables go on to do all that they can, so that an answer may tell more than was asked for |
//!
//! Before 1.5 every request replaces; 1.5 also modifies, enables and disables the tables of a request.
//! The first table stays, and it is an ingress table. Entries that the new pipeline would refuse go
//! with the change, without flow-removed messages: those of tables that leave it, those that lead to
//! such tables or to the other side of the first egress table, and outputs that egress tables' action
//! sets cannot hold.
//!
//! With another first egress table the switch gets another program, whose ids are those of the one
//! before ([`of_lower::program_of`]), and in the same transaction all that the old one held. Counters and
//! timeouts go on.

use crate::agent::Agent;
use crate::features::{self, TABLE_FIRST_EGRESS};
use crate::flow::{Flow, FlowKey};
use crate::monitor::Requester;
use crate::refusal::Refusal;
use crate::stage::Batch;
use crate::table_config::TableConfigs;
use crate::validate::Rules;
use openflow::table::{TABLE_EVICTION, TABLE_VACANCY_EVENTS};
use openflow::{FlowRemovedReason, OxmHeader, TableFeatures, TableId, TableProperty, Version};
use std::fmt::Debug;

/// What a request does with the tables that it lists (`OFPTFC_*`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    /// They are the pipeline.
    Replace,
    Modify,
    Enable,
    Disable,
}

impl Command {
    //= openflow-1.5.1 §7.3.5.18: from 1.5 on a request says what it does; one before replaces.
    fn of(version: Version, wanted: &[TableFeatures]) -> Result<Command, Refusal> {
        if version < Version::V15 {
            return Ok(Command::Replace);
        }
        let first = wanted.first().map_or(0, |table| table.command);
        let other = wanted.iter().map(|table| table.command).find(|command| *command != first);
        match other.unwrap_or(first) {
            command if other.is_some() => Err(Refusal::FeaturesCommand { command }),
            0 => Ok(Command::Replace),
            1 => Ok(Command::Modify),
            2 => Ok(Command::Enable),
            3 => Ok(Command::Disable),
            command => Err(Refusal::FeaturesCommand { command }),
        }
    }
}

impl Agent {
    /// Sets what a request says of the tables, or nothing of it.
    pub(crate) fn set_table_features(
        &mut self,
        by: Option<Requester>,
        version: Version,
        wanted: &[TableFeatures],
    ) -> Result<(), Refusal> {
        let command = Command::of(version, wanted)?;
        let new = self.wanted_tables(version, command, wanted)?;
        let gone = self.refused_by(&new);
        for table in new.tables() {
            let left =
                self.stores.flows.len(table) - gone.iter().filter(|k| k.table == table).count();
            let (entries, most) = (new.capacity(table), self.env.config.entries_max());
            if left > entries as usize {
                let least = left as u32;
                return Err(Refusal::FeaturesSize { table, entries, least, most });
            }
        }
        self.take_out_quietly(by, &gone)?;
        let first_egress = new.first_egress;
        let changes = self.stores.tables.first_egress != first_egress;
        self.stores.tables = new;
        if changes { self.set_program() } else { Ok(()) }
    }

    /// The tables as a request wants them.
    fn wanted_tables(
        &self,
        version: Version,
        command: Command,
        wanted: &[TableFeatures],
    ) -> Result<TableConfigs, Refusal> {
        let mut new = self.stores.tables.clone();
        let tables = self.stores.flows.tables();
        let mut before = None;
        for table in wanted {
            let TableId(id) = table.table_id;
            //= openflow-1.3.5 §7.3.5.5: features of a table that is not there are OFPTFFC_BAD_TABLE.
            //= openflow-1.5.1 §7.3.5.18: tables come in ascending order.
            if u32::from(id) >= tables || before.is_some_and(|before| before >= id) {
                return Err(Refusal::FeaturesTable { table: id, tables });
            }
            before = Some(id);
        }
        let listed = |id: u8| wanted.iter().any(|table| table.table_id == TableId(id));
        //= openflow-1.3.5 §7.3.5.5: tables that a replacing request leaves out are taken out of the
        //= pipeline.
        for id in 0..tables as u8 {
            let Some(config) = new.get_mut(id) else { continue };
            config.gone = match command {
                Command::Replace => !listed(id),
                Command::Enable => config.gone && !listed(id),
                Command::Disable => config.gone || listed(id),
                Command::Modify => config.gone,
            };
        }
        if !new.contains(0) {
            let why = "packets begin there; list it, too";
            return Err(Refusal::FeaturesStay { table: 0, why });
        }
        //= openflow-1.4.1 §5.11: what is synchronised is the switch's; a request does not end it.
        for synchronised in &self.env.config.synchronised {
            let both = [
                (synchronised.table, "it is synchronised from another one; list both"),
                (synchronised.from, "another one is synchronised from it; list both"),
            ];
            if let Some((table, why)) = both.into_iter().find(|(table, _)| !new.contains(*table)) {
                return Err(Refusal::FeaturesStay { table, why });
            }
        }
        if matches!(command, Command::Replace | Command::Modify) {
            for table in wanted {
                self.want(version, table, &mut new)?;
            }
            let mut flagged = wanted.iter().filter(|t| t.features & TABLE_FIRST_EGRESS != 0);
            let first = flagged.next().map(|table| table.table_id.0);
            if let Some(second) = flagged.next() {
                let right = "one table is the first egress table";
                let flags = second.features;
                return Err(Refusal::FeaturesFlags { table: second.table_id.0, flags, right });
            }
            //= openflow-1.5.1 §7.3.5.18: OFPTFF_FIRST_EGRESS sets the first egress table; a request
            //= about that table without the flag unsets it.
            let was = new.first_egress.filter(|first| version < Version::V15 || !listed(*first));
            new.first_egress = first.or(was);
        }
        if let Some(first) = new.first_egress
            && !new.contains(first)
        {
            if command != Command::Replace {
                let why = "it is the first egress table; let another one be that before";
                return Err(Refusal::FeaturesStay { table: first, why });
            }
            new.first_egress = None;
        }
        Ok(new)
    }

    /// One table as a request wants it.
    fn want(
        &self,
        version: Version,
        wanted: &TableFeatures,
        new: &mut TableConfigs,
    ) -> Result<(), Refusal> {
        let TableId(table) = wanted.table_id;
        if version >= Version::V15 {
            //= openflow-1.5.1 §7.3.5.18: what a table can be is the switch's; a request does not change it.
            let can = features::flags(table, &self.stores.tables);
            let first = if table == 0 { 0 } else { TABLE_FIRST_EGRESS };
            let flags = wanted.features;
            if flags & !(can | first) != 0 {
                let right = match table {
                    0 => "the first table is an ingress table",
                    _ => "1 (ingress), 2 (egress) and 16 (first egress) are possible",
                };
                return Err(Refusal::FeaturesFlags { table, flags, right });
            }
        }
        if version >= Version::V14 {
            let bits = wanted.config & !(TABLE_EVICTION | TABLE_VACANCY_EVENTS);
            if bits != 0 {
                return Err(Refusal::FeaturesCapabilities { table, bits });
            }
        }
        let (entries, most) = (wanted.max_entries, self.env.config.entries_max());
        if entries == 0 || entries > most {
            return Err(Refusal::FeaturesSize { table, entries, least: 1, most });
        }
        // What it can do at most: every other table is there, and all are ingress tables.
        let all = TableConfigs::new(self.stores.flows.tables(), most)
            .synchronised(&self.env.config.synchronised);
        properties(version, table, &wanted.properties, &all)?;
        if let Some(config) = new.get_mut(table) {
            config.name.clone_from(&wanted.name);
            config.capacity = entries;
        }
        Ok(())
    }

    /// Entries that the tables as they will be refuse, and those of today take.
    fn refused_by(&self, new: &TableConfigs) -> Vec<FlowKey> {
        let now = self.stores.rules(&self.env);
        let then = Rules { configs: new, ..now };
        let takes = |rules: &Rules<'_>, key: FlowKey, flow: &Flow| {
            let matching = Some(&flow.matching);
            rules.configs.contains(key.table)
                && rules.instructions(Version::V10, key.table, matching, &flow.instructions).is_ok()
        };
        let all =
            (0..self.stores.flows.tables() as u8).flat_map(|table| self.stores.flows.iter(table));
        let gone = all.filter(|(key, flow)| takes(&now, *key, flow) && !takes(&then, *key, flow));
        // An entry whose reflection cannot stay goes, too.
        let gone = gone.map(|(key, _)| self.stores.source_of(key).unwrap_or(key)).collect();
        let mut gone = self.stores.with_reflections(gone);
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    //= openflow-1.3.5 §7.3.5.5: entries that a new pipeline has no place for are removed without
    //= flow-removed messages.
    /// Removes entries, and tells nobody but those who watch entries.
    fn take_out_quietly(&mut self, by: Option<Requester>, gone: &[FlowKey]) -> Result<(), Refusal> {
        let mut tx = self.transaction(by);
        if gone.is_empty() {
            return tx.settle(Ok(()));
        }
        let (switch, layout) = (&tx.env.switch, &tx.env.layout);
        let mut batch = Batch::new(switch, tx.stage);
        let done = tx.stores.take_out(&mut batch, layout, gone.iter().copied());
        let done = done.and_then(|()| batch.commit());
        let spent = tx.settle(done)?;
        for key in gone {
            if let Some(flow) = tx.stores.flows.remove(*key) {
                tx.outbox.gone(by, *key, &flow, FlowRemovedReason::Delete);
            }
        }
        spent.retire(switch);
        Ok(())
    }
}

/// What a table is asked to do, it can do.
fn properties(
    version: Version,
    table: u8,
    wanted: &[TableProperty],
    all: &TableConfigs,
) -> Result<(), Refusal> {
    let can = features::table(version, table, all).properties;
    for (i, property) in wanted.iter().enumerate() {
        let (name, miss) = name(property);
        let is = |other: &TableProperty| self::name(other).0 == name;
        let twice = |other: &TableProperty| self::name(other) == (name, miss);
        if wanted[..i].iter().any(twice) && name != EXPERIMENTER {
            return Err(Refusal::FeaturesTwice { table, property: name });
        }
        let ours = can.iter().find(|ours| is(ours));
        if let Some(what) = beyond(property, ours) {
            return Err(Refusal::FeaturesProperty { table, property: name, what });
        }
    }
    Ok(())
}

const EXPERIMENTER: &str = "an experimenter's";

/// A property's name, and whether it is the table-miss entry's.
fn name(property: &TableProperty) -> (&'static str, bool) {
    match property {
        TableProperty::Instructions { miss, .. } => ("instructions", *miss),
        TableProperty::NextTables { miss, .. } => ("next tables", *miss),
        TableProperty::WriteActions { miss, .. } => ("write-actions", *miss),
        TableProperty::ApplyActions { miss, .. } => ("apply-actions", *miss),
        TableProperty::Match(_) => ("match", false),
        TableProperty::Wildcards(_) => ("wildcards", false),
        TableProperty::WriteSetField { miss, .. } => ("write set-field", *miss),
        TableProperty::ApplySetField { miss, .. } => ("apply set-field", *miss),
        TableProperty::SyncFrom(_) => ("synchronised from", false),
        TableProperty::WriteCopyField { miss, .. } => ("write copy-field", *miss),
        TableProperty::ApplyCopyField { miss, .. } => ("apply copy-field", *miss),
        TableProperty::PacketTypes(_) => ("packet types", false),
        TableProperty::Experimenter { miss, .. } => (EXPERIMENTER, *miss),
    }
}

//= openflow-1.3.5 §7.3.5.5: a table's new capabilities are those that were asked for, or more.
/// Something of a property that a table cannot do, in words; `ours` is what it can.
fn beyond(wanted: &TableProperty, ours: Option<&TableProperty>) -> Option<String> {
    use TableProperty as P;
    fn other<T: PartialEq + Debug>(wanted: &[T], ours: &[T]) -> Option<String> {
        wanted.iter().find(|one| !ours.contains(one)).map(|one| format!("{one:?}"))
    }
    let fields = |wanted: &[OxmHeader], ours: &[OxmHeader]| {
        let has = |one: &OxmHeader| {
            ours.iter().any(|our| our.field() == one.field() && (our.has_mask() || !one.has_mask()))
        };
        let odd = wanted.iter().find(|one| one.field().is_none() || !has(one))?;
        let masked = if odd.has_mask() { " under a mask" } else { "" };
        Some(match odd.field() {
            Some(field) => format!("{field}{masked}"),
            None => format!("the field of OXM header {:#010x}", odd.0),
        })
    };
    match (wanted, ours) {
        (P::Instructions { types, .. }, Some(P::Instructions { types: ours, .. })) => {
            other(types, ours)
        }
        (P::NextTables { tables, .. }, Some(P::NextTables { tables: ours, .. })) => {
            other(tables, ours)
        }
        (P::WriteActions { types, .. }, Some(P::WriteActions { types: ours, .. }))
        | (P::ApplyActions { types, .. }, Some(P::ApplyActions { types: ours, .. })) => {
            other(types, ours)
        }
        (P::Match(list), Some(P::Match(ours)))
        | (P::Wildcards(list), Some(P::Wildcards(ours)))
        | (P::WriteSetField { fields: list, .. }, Some(P::WriteSetField { fields: ours, .. }))
        | (P::ApplySetField { fields: list, .. }, Some(P::ApplySetField { fields: ours, .. }))
        | (P::ApplyCopyField { fields: list, .. }, Some(P::ApplyCopyField { fields: ours, .. })) => {
            fields(list, ours)
        }
        (P::SyncFrom(tables), Some(P::SyncFrom(ours))) => other(tables, ours),
        // None of these is there, and a request for none of it is right.
        (P::SyncFrom(tables), _) => other(tables, &[]),
        (P::WriteCopyField { fields: list, .. }, _) => fields(list, &[]),
        // Every packet is an Ethernet frame.
        (P::PacketTypes(types), _) => other(types, &[0]),
        (P::Experimenter { experimenter, .. }, _) => Some(format!("{experimenter:#010x}")),
        (_, _) => Some("the property".to_string()),
    }
}
