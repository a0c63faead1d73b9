//! VLANs, bonds, learning and mirrors of the database, as bridges are told them.

use control::bridges::{Bond, Learning, Mirror, MirrorTo, PriorityTags, TagType, Vlan, VlanMode};
use of_pipeline::table_limits::TableLimit;
use std::collections::{BTreeMap, BTreeSet};
use vswitch::desired::bridge::BridgeSettings;
use vswitch::desired::flow_table::FlowTableSettings;
use vswitch::desired::mirror::MirrorSettings;
use vswitch::desired::port::{self as database, PortSettings};

/// VLAN tags that are parsed; Open vSwitch parses two at most, and takes 0 for as many as it can.
fn tags(limit: u32) -> u8 {
    if limit == 1 { 1 } else { 2 }
}

/// How a bridge learns and floods.
pub(super) fn learning(settings: &BridgeSettings) -> Learning {
    let mut learning = Learning {
        flood_vlans: settings.flood_vlans.clone(),
        forwards_bpdu: settings.forwards_bpdu,
        vlan_limit: Some(tags(settings.vlan_limit)),
        ..Learning::default()
    };
    learning.stations.max = settings.stations_max;
    if let Some(age_s) = settings.station_age_s {
        learning.stations.age_s = age_s;
    }
    learning
}

/// Names and bounds of a bridge's flow tables.
pub(super) fn tables(settings: &BridgeSettings) -> BTreeMap<u8, TableLimit> {
    let limit = |(id, table): (&u8, &FlowTableSettings)| {
        let limit =
            TableLimit { name: table.name.clone(), entries_max: table.limit, evicts: table.evicts };
        (*id, limit)
    };
    settings.tables.iter().map(limit).collect()
}

/// A port's VLANs, and whether it is protected.
pub(super) fn vlan(port: &PortSettings) -> Vlan {
    let settings = &port.vlan;
    let is_tunnel = settings.mode == database::VlanMode::Tunnel;
    Vlan {
        mode: match settings.mode {
            database::VlanMode::Trunk => VlanMode::Trunk,
            database::VlanMode::Access => VlanMode::Access,
            database::VlanMode::NativeTagged => VlanMode::NativeTagged,
            database::VlanMode::NativeUntagged => VlanMode::NativeUntagged,
            database::VlanMode::Tunnel => VlanMode::Dot1qTunnel,
        },
        tag: settings.tag.unwrap_or(0),
        vlans: if is_tunnel { settings.customers.clone() } else { settings.trunks.clone() },
        tag_type: match is_tunnel && !settings.service_tag {
            true => TagType::Customer,
            false => TagType::Service,
        },
        priority_tags: match settings.priority_tags {
            database::PriorityTags::Never => PriorityTags::Never,
            database::PriorityTags::IfNonZero => PriorityTags::IfNonZero,
            database::PriorityTags::Always => PriorityTags::Always,
        },
        protected: port.protected,
    }
}

/// The bond that a port is, if it is one.
pub(super) fn bond(port: &database::PortSettings) -> Option<Bond> {
    let bond = port.bond.as_ref()?;
    Some(Bond {
        name: port.name.clone(),
        members: port.interfaces.clone(),
        settings: bond.settings.clone(),
        links: bond.links.clone(),
    })
}

/// A mirror, where a bond is its members. What goes to the port that copies go to is not selected.
pub(super) fn mirror(
    settings: &MirrorSettings,
    bonds: &BTreeMap<String, Bond>,
) -> Result<Mirror, String> {
    let name = &settings.name;
    let members = |ports: &BTreeSet<String>| {
        let of = |port: &String| match bonds.get(port) {
            Some(bond) => bond.members.clone(),
            None => BTreeSet::from([port.clone()]),
        };
        ports.iter().flat_map(of).collect::<BTreeSet<String>>()
    };
    if let Some(port) = settings.to_port.as_ref().filter(|port| bonds.contains_key(*port)) {
        return Err(format!("mirror {name}: output_port {port} is a bond: name another port"));
    }
    let to = match (&settings.to_port, settings.to_vlan) {
        (Some(port), _) => MirrorTo::Port(port.clone()),
        (None, Some(vlan)) => MirrorTo::Vlan(vlan),
        (None, None) => return Err(format!("mirror {name}: copies go nowhere")),
    };
    let mut mirror = Mirror {
        name: settings.name.clone(),
        all: settings.all,
        sources: members(&settings.sources),
        destinations: members(&settings.destinations),
        vlans: settings.vlans.clone(),
        to,
        length_max: settings.length_max,
    };
    if let MirrorTo::Port(port) = &mirror.to {
        mirror.sources.remove(port);
        mirror.destinations.remove(port);
    }
    Ok(mirror)
}

#[cfg(test)]
mod tests {
    use vswitch::desired::bridge::STATIONS_MAX;

    #[test]
    fn as_many_stations_may_be_asked_for_as_a_bridge_holds() {
        assert_eq!(of_pipeline::lower::ProgramConfig::default().normal_capacity, STATIONS_MAX);
    }
}
