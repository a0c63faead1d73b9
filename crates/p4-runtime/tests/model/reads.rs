//! What a read is to be answered with, by the plain model.

use super::world::{COUNTERS, Ids, METERS, REGISTERS, World};
use p4_runtime::proto::v1;
use v1::entity::Entity as E;
use v1::packet_replication_engine_entry::Type as Pre;

/// An entity of replication.
pub(crate) fn pre(of: Pre) -> E {
    E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(of) })
}

/// Cells that are asked for.
fn cells(index: Option<&v1::Index>, size: i64) -> Vec<(i64, Option<v1::Index>)> {
    let wanted = |at: &i64| index.is_none_or(|i| i.index == *at);
    (0..size).filter(wanted).map(|at| (at, Some(v1::Index { index: at }))).collect()
}

impl World {
    /// The answer to a read that is not refused, in any order.
    pub(crate) fn read(&self, ids: &Ids, asked: &E) -> Vec<E> {
        match asked {
            E::TableEntry(e) if e.is_default_action => {
                vec![E::TableEntry(self.default_told(ids, e.table_id))]
            }
            E::TableEntry(e) => self.entries_told(e).map(E::TableEntry).collect(),
            E::DirectCounterEntry(e) => {
                let of = e.table_entry.clone().unwrap_or_default();
                let of = v1::TableEntry { counter_data: Some(v1::CounterData::default()), ..of };
                let told = self.entries_told(&of).filter_map(|mut e| {
                    let data = Some(e.counter_data.take()?);
                    let table_entry = Some(v1::TableEntry { action: None, ..e });
                    Some(E::DirectCounterEntry(v1::DirectCounterEntry { table_entry, data }))
                });
                told.collect()
            }
            E::DirectMeterEntry(e) => {
                let of = e.table_entry.clone().unwrap_or_default();
                let of = v1::TableEntry {
                    meter_config: Some(v1::MeterConfig::default()),
                    meter_counter_data: e.counter_data,
                    ..of
                };
                let told = self.entries_told(&of).filter(|e| e.table_id == ids.slow);
                let told = told.map(|mut e| {
                    let config = e.meter_config.take();
                    let counter_data = e.meter_counter_data.take();
                    let table_entry = Some(v1::TableEntry { action: None, ..e });
                    E::DirectMeterEntry(v1::DirectMeterEntry { table_entry, config, counter_data })
                });
                told.collect()
            }
            E::ActionProfileMember(e) => {
                let all = self.members.iter();
                let all = all.filter(|(id, _)| e.member_id == 0 || e.member_id == **id);
                let told = all.map(|(id, action)| v1::ActionProfileMember {
                    action_profile_id: ids.hops,
                    member_id: *id,
                    action: Some(action.clone()),
                });
                told.map(E::ActionProfileMember).collect()
            }
            E::ActionProfileGroup(e) => {
                let all = self.groups.values();
                let all = all.filter(|g| e.group_id == 0 || e.group_id == g.group_id);
                all.cloned().map(E::ActionProfileGroup).collect()
            }
            E::CounterEntry(e) => {
                let told = |(at, index)| v1::CounterEntry {
                    counter_id: ids.hits,
                    index,
                    data: Some(self.counters.get(&at).copied().unwrap_or_default()),
                };
                let cells = cells(e.index.as_ref(), COUNTERS).into_iter();
                cells.map(|cell| E::CounterEntry(told(cell))).collect()
            }
            E::MeterEntry(e) => {
                let told = |(at, index)| v1::MeterEntry {
                    meter_id: ids.rate,
                    index,
                    config: self.meters.get(&at).map(|(config, _)| *config),
                    counter_data: self
                        .meters
                        .get(&at)
                        .map(|(_, counts)| *counts)
                        .filter(|_| e.counter_data.is_some()),
                };
                let cells = cells(e.index.as_ref(), METERS).into_iter();
                cells.map(|cell| E::MeterEntry(told(cell))).collect()
            }
            E::RegisterEntry(e) => {
                let told = |(at, index)| {
                    let bytes = self.registers.get(&at).cloned().unwrap_or(vec![0]);
                    let data = Some(v1::p4_data::Data::Bitstring(bytes));
                    let data = Some(v1::P4Data { data });
                    v1::RegisterEntry { register_id: ids.last, index, data }
                };
                let cells = cells(e.index.as_ref(), REGISTERS).into_iter();
                cells.map(|cell| E::RegisterEntry(told(cell))).collect()
            }
            E::ValueSetEntry(_) => {
                let (value_set_id, members) = (ids.seen, self.seen.clone());
                vec![E::ValueSetEntry(v1::ValueSetEntry { value_set_id, members })]
            }
            E::DigestEntry(_) => {
                let told = self
                    .digests
                    .iter()
                    .map(|(id, config)| v1::DigestEntry { digest_id: *id, config: Some(*config) });
                told.map(E::DigestEntry).collect()
            }
            E::PacketReplicationEngineEntry(e) => match &e.r#type {
                Some(Pre::MulticastGroupEntry(e)) => {
                    let wanted = |g: &&v1::MulticastGroupEntry| {
                        [0, g.multicast_group_id].contains(&e.multicast_group_id)
                    };
                    let all = self.multicast.values().filter(wanted).cloned();
                    all.map(|g| pre(Pre::MulticastGroupEntry(g))).collect()
                }
                Some(Pre::CloneSessionEntry(e)) => {
                    let wanted =
                        |s: &&v1::CloneSessionEntry| [0, s.session_id].contains(&e.session_id);
                    let all = self.sessions.values().filter(wanted).cloned();
                    all.map(|s| pre(Pre::CloneSessionEntry(s))).collect()
                }
                None => Vec::new(),
            },
            E::ExternEntry(_) => Vec::new(),
        }
    }

    fn default_told(&self, ids: &Ids, table_id: u32) -> v1::TableEntry {
        let action = self.defaults.get(&table_id).cloned().or_else(|| {
            // What the program says, where it says something that has an id.
            let action = v1::Action { action_id: ids.drop, params: Vec::new() };
            let action = Some(v1::table_action::Type::Action(action));
            (table_id == ids.longest).then_some(v1::TableAction { r#type: action })
        });
        v1::TableEntry { table_id, action, is_default_action: true, ..v1::TableEntry::default() }
    }

    #[allow(deprecated, reason = "old clients keep their word there")]
    fn entries_told(&self, e: &v1::TableEntry) -> impl Iterator<Item = v1::TableEntry> {
        let by_key = (!e.r#match.is_empty()).then(|| World::key(e));
        let wanted = move |(key, held): &(&super::world::Key, &v1::TableEntry)| match &by_key {
            Some(by_key) => by_key == *key,
            None => {
                [0, held.table_id].contains(&e.table_id)
                    && [0, held.priority].contains(&e.priority)
                    && (e.metadata.is_empty() || e.metadata == held.metadata)
                    && [0, held.controller_metadata].contains(&e.controller_metadata)
            }
        };
        self.entries.iter().filter(wanted).map(|(_, held)| v1::TableEntry {
            counter_data: held.counter_data.filter(|_| e.counter_data.is_some()),
            meter_config: held.meter_config.filter(|_| e.meter_config.is_some()),
            meter_counter_data: held.meter_counter_data.filter(|_| e.meter_counter_data.is_some()),
            ..held.clone()
        })
    }
}
