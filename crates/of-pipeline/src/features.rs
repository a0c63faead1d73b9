//! What the switch, its tables, groups and meters can do (1.3.5 §7.3.1, §7.3.5.5, §7.3.5.11,
//! §7.3.5.14; 1.0.2 §5.3.1).
//!
//! All tables can do the same, but that goto leads forward only, and that egress tables' action sets
//! take no output, and that some are synchronised. Every field may be matched, left
//! out, and (where it can be written at all) set.

use crate::config::AgentConfig;
use crate::meter_table::BANDS_MAX;
use crate::table_config::TableConfigs;
use of_lower::slots::has_slot;
use openflow::table::{TABLE_EVICTION, TABLE_VACANCY_EVENTS};
use openflow::{
    ActionType, Capabilities, FIELDS, Features, GroupCapabilities, GroupFeatures, InstructionType,
    MeterFeatures, MeterFlags, OxmHeader, PortDesc, TableFeatures, TableId, TableProperty, Version,
};

/// Bits of 1.0's action types `OUTPUT` to `ENQUEUE`.
const ACTIONS_V10: u32 = (1 << 12) - 1;
/// Bits of the meter band types `DROP` and `DSCP_REMARK`.
const BAND_TYPES: u32 = 1 << 1 | 1 << 2;
/// `OFPTFF_INGRESS_TABLE`: it can be one.
const TABLE_INGRESS: u32 = 1;
/// `OFPTFF_EGRESS_TABLE`: it can be one.
const TABLE_EGRESS: u32 = 1 << 1;
/// `OFPTFF_FIRST_EGRESS`.
pub(crate) const TABLE_FIRST_EGRESS: u32 = 1 << 4;
/// Colours that meters know: as they do not look at a packet's colour, none.
const COLORS: u8 = 0;

/// What the switch is.
pub(crate) fn switch(
    config: &AgentConfig,
    version: Version,
    tables: u32,
    ports: Vec<PortDesc>,
) -> Features {
    let v10 = version == Version::V10;
    let stats = Capabilities::FLOW_STATS | Capabilities::TABLE_STATS | Capabilities::PORT_STATS;
    //= openflow-1.5.1 §7.3.1: bundles and flow monitors are capabilities from 1.5 on.
    let newest =
        if version >= Version::V15 { Capabilities::BUNDLES } else { Capabilities::empty() };
    let more = if v10 { Capabilities::ARP_MATCH_IP } else { Capabilities::GROUP_STATS };
    Features {
        datapath_id: config.datapath_id,
        n_buffers: 0,
        //= openflow-1.0.2 §5.3.1: of the tables, 1.0 sees the first.
        n_tables: if v10 { 1 } else { tables as u8 },
        auxiliary_id: 0,
        capabilities: stats | more | newest,
        actions: if v10 { ACTIONS_V10 } else { 0 },
        ports: if v10 {
            ports.into_iter().filter(|p| p.port_no.to_v10().is_some()).collect()
        } else {
            Vec::new()
        },
    }
}

/// What a table can do.
pub(crate) fn table(version: Version, table: u8, configs: &TableConfigs) -> TableFeatures {
    // Matches have the parts of what is several fields; actions have all of it, too.
    // Which options have fields is another question (`NXT_TLV_TABLE_REQUEST`).
    let all = || FIELDS.iter().filter(|f| f.since <= version && f.id.tun_metadata().is_none());
    let written = || all().filter(|f| f.settable);
    let known = || all().filter(|f| !f.id.is_composite());
    let header = |id, mask| OxmHeader::in_version(id, mask, version);
    //= openflow-1.5.1 §5.12: goto leads from ingress to ingress tables, from egress to egress tables.
    let next: Vec<TableId> = configs
        .tables()
        .filter(|to| *to > table && configs.leads(table, *to))
        .map(TableId)
        .collect();
    let instructions = InstructionType::STANDARD
        .into_iter()
        .filter(|t| *t != InstructionType::GotoTable || !next.is_empty())
        .filter(|t| t.is_in(version))
        .collect();
    //= openflow-1.5.1 §7.3.5.18: what an action set cannot hold is left out of write-actions.
    let only_applied = [ActionType::Meter, ActionType::CopyField];
    let apply = ActionType::standard(version).to_vec();
    //= openflow-1.5.1 §5.12: the action set of egress tables takes neither output nor group.
    let of_ports = [ActionType::Output, ActionType::Group];
    let in_set = |t: &ActionType| {
        !(only_applied.contains(t) || configs.is_egress(table) && of_ports.contains(t))
    };
    let write = apply.iter().copied().filter(in_set).collect();
    let settable = || -> Vec<OxmHeader> { written().map(|f| header(f.id, false)).collect() };
    let in_set = known().filter(|f| has_slot(f.id)).map(|f| header(f.id, false)).collect();
    let matched = known().map(|f| header(f.id, f.maskable)).collect();
    let wildcards = known().map(|f| header(f.id, false)).collect();
    let miss = false;
    //= openflow-1.3.5 §7.3.5.5.2: what is said of entries holds for the table-miss entry where its
    //= own property is left out.
    let mut properties = vec![
        TableProperty::Instructions { miss, types: instructions },
        TableProperty::NextTables { miss, tables: next },
        TableProperty::WriteActions { miss, types: write },
        TableProperty::ApplyActions { miss, types: apply },
        TableProperty::Match(matched),
        TableProperty::Wildcards(wildcards),
        TableProperty::WriteSetField { miss, fields: in_set },
        TableProperty::ApplySetField { miss, fields: settable() },
    ];
    if version >= Version::V15 {
        properties.push(TableProperty::ApplyCopyField { miss, fields: settable() });
    }
    //= openflow-1.4.1 §7.3.5.5: a synchronised table tells which one it is synchronised from.
    let from = configs.get(table).and_then(|config| config.from);
    if let Some(from) = from.filter(|_| version >= Version::V14) {
        properties.push(TableProperty::SyncFrom(vec![TableId(from)]));
    }
    TableFeatures {
        command: 0,
        features: if version >= Version::V15 { flags(table, configs) } else { 0 },
        table_id: TableId(table),
        name: configs.name(table),
        metadata_match: u64::MAX,
        metadata_write: u64::MAX,
        //= openflow-1.4.1 §7.3.5.5: what a table can be configured to do.
        config: if version >= Version::V14 { TABLE_EVICTION | TABLE_VACANCY_EVENTS } else { 0 },
        max_entries: configs.capacity(table),
        properties,
    }
}

//= openflow-1.5.1 §7.3.5.18: what a table can be, and whether it is the first egress table. The first
//= table is always one for ingress processing.
/// `OFPTFF_*` bits of a table.
pub(crate) fn flags(table: u8, configs: &TableConfigs) -> u32 {
    let first = if configs.first_egress == Some(table) { TABLE_FIRST_EGRESS } else { 0 };
    if table == 0 { TABLE_INGRESS } else { TABLE_INGRESS | TABLE_EGRESS | first }
}

/// Bytes of a table's features in a message, at most.
pub(crate) fn bytes(features: &TableFeatures) -> usize {
    let property = |p: &TableProperty| match p {
        TableProperty::Instructions { types, .. } => 8 * types.len(),
        TableProperty::NextTables { tables, .. } | TableProperty::SyncFrom(tables) => tables.len(),
        TableProperty::PacketTypes(types) => 8 * types.len(),
        TableProperty::WriteActions { types, .. } | TableProperty::ApplyActions { types, .. } => {
            8 * types.len()
        }
        TableProperty::Match(fields)
        | TableProperty::Wildcards(fields)
        | TableProperty::WriteSetField { fields, .. }
        | TableProperty::ApplySetField { fields, .. }
        | TableProperty::WriteCopyField { fields, .. }
        | TableProperty::ApplyCopyField { fields, .. } => 8 * fields.len(),
        TableProperty::Experimenter { data, .. } => 8 + data.len(),
    };
    64 + features.properties.iter().map(|p| 16 + property(p)).sum::<usize>()
}

/// What groups can do, with actions by the version's numbers.
pub(crate) fn groups(config: &AgentConfig, version: Version) -> GroupFeatures {
    let actions = match version {
        Version::V10 => ACTIONS_V10,
        _ => ActionType::STANDARD.iter().fold(0, |bits, t| bits | 1 << t.wire()),
    };
    GroupFeatures {
        types: 0b1111,
        capabilities: GroupCapabilities::SELECT_WEIGHT
            | GroupCapabilities::SELECT_LIVENESS
            | GroupCapabilities::CHAINING
            | GroupCapabilities::CHAINING_CHECKS,
        max_groups: [config.groups_max; 4],
        actions: [actions; 4],
    }
}

/// What meters can do.
pub(crate) fn meters(config: &AgentConfig) -> MeterFeatures {
    MeterFeatures {
        max_meter: config.meters_max,
        band_types: BAND_TYPES,
        capabilities: MeterFlags::all().bits().into(),
        max_bands: BANDS_MAX as u8,
        max_color: COLORS,
        features: 0,
    }
}

const _: () = assert!(BANDS_MAX <= u8::MAX as usize, "the message has one byte for them");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_table_leads_nowhere() {
        let mut configs = TableConfigs::new(3, 10);
        let of = |t| table(Version::V13, t, &configs);
        let next = |f: &TableFeatures| match &f.properties[1] {
            TableProperty::NextTables { tables, .. } => tables.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(next(&of(0)), [TableId(1), TableId(2)]);
        assert_eq!(next(&of(2)), []);
        let TableProperty::Instructions { types, .. } = &of(2).properties[0] else {
            panic!("{:?}", of(2));
        };
        assert!(!types.contains(&InstructionType::GotoTable));
        configs.first_egress = Some(2);
        let of = |t| table(Version::V15, t, &configs);
        assert_eq!((next(&of(0)), next(&of(1)), next(&of(2))), (vec![TableId(1)], vec![], vec![]));
        assert_eq!([0, 1, 2].map(|t| of(t).features), [1, 3, 0x13]);
    }

    #[test]
    fn versions_see_their_own_switch() {
        let config = AgentConfig { datapath_id: 7, ..AgentConfig::default() };
        let old = switch(&config, Version::V10, 254, Vec::new());
        assert_eq!((old.datapath_id, old.n_tables, old.n_buffers), (7, 1, 0));
        assert_eq!(old.actions, 0xfff);
        let new = switch(&config, Version::V13, 254, Vec::new());
        assert_eq!((new.n_tables, new.actions), (254, 0));
        assert!(new.capabilities.contains(Capabilities::GROUP_STATS));
    }
}
