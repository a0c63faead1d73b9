//! `Flow_Table`: how a bridge's flow table is bounded.

use super::notes::Notes;
use super::reader::Reader;
use crate::feature::Feature;
use ovsdb::Row;

/// A flow table's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowTableSettings {
    /// Its name.
    pub name: Option<String>,
    /// So many entries at most.
    pub limit: Option<u32>,
    /// Beyond the limit an entry gives way, in place of the new one being refused.
    pub evicts: bool,
}

impl FlowTableSettings {
    /// From a row. Fields in `prefixes` speed Open vSwitch's classifier up; here lookups are planned from the entries, so
    /// that column has nothing to say and none is asked for.
    pub(crate) fn of(
        reader: &Reader<'_>,
        id: u8,
        row: &Row,
        notes: &mut Notes,
    ) -> FlowTableSettings {
        let mut own = Notes::default();
        let mut settings =
            FlowTableSettings { name: row.text("name").map(str::to_owned), ..Default::default() };
        let limit = row.integer("flow_limit");
        if limit.is_some() && reader.can(&mut own, Feature::FlowLimit) {
            settings.limit = limit.and_then(|limit| u32::try_from(limit).ok());
            settings.evicts = row.text("overflow_policy") == Some("evict");
        }
        if settings.evicts
            && settings.limit.is_some()
            && row.get("groups").is_some_and(|groups| !groups.is_empty())
        {
            own.add("groups: entries give way one by one, not by fairness among groups");
        }
        own.iter().for_each(|note| notes.add(format!("table {id}: {note}")));
        settings
    }
}
