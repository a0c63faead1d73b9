//! OpenFlow: flow entries, groups, meters, controllers, stations.

use super::source::{SERIES_MOST, Source};
use crate::sync::lock;
use metrics::{Family, Text};

const FLOWS: Family = Family::gauge("millrace_flow_entries", "Flow entries of all tables");
const GROUPS: Family = Family::gauge("millrace_groups", "Groups");
const METERS: Family = Family::gauge("millrace_meters", "Meters");
const STATIONS: Family = Family::gauge("millrace_stations", "Addresses that NORMAL has learnt");
const GROUP_PACKETS: Family =
    Family::counter("millrace_group_packets", "Packets that a group forwarded");
const GROUP_BYTES: Family =
    Family::counter("millrace_group_bytes", "Bytes of packets that a group forwarded");
const METER_PACKETS: Family =
    Family::counter("millrace_meter_packets", "Packets that came to a meter");
const METER_BYTES: Family =
    Family::counter("millrace_meter_bytes", "Bytes of packets that came to a meter");
const BANDS: Family = Family::counter(
    "millrace_meter_band_packets",
    "Packets that a band of a meter took, to drop or remark them",
);
const LEFT_OUT: Family = Family::gauge(
    "millrace_metrics_left_out",
    "Groups, meters and entries that have no series of their own, as there are too many",
);
const CONNECTED: Family =
    Family::gauge("millrace_controller_connected", "A controller is connected, by its role");

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let mut sizes = Vec::new();
    let mut groups = Vec::new();
    let mut meters = Vec::new();
    for bridge in &source.all {
        let Some(openflow) = bridge.openflow() else { continue };
        let agent = lock(&openflow.agent);
        let counts = [
            agent.flows().total().0,
            agent.groups().len(),
            agent.meters().len(),
            agent.stations().len(),
        ];
        sizes.push((bridge.name(), counts));
        groups
            .extend(agent.counted_groups(SERIES_MOST).into_iter().map(|one| (bridge.name(), one)));
        meters
            .extend(agent.counted_meters(SERIES_MOST).into_iter().map(|one| (bridge.name(), one)));
    }
    for (at, family) in [FLOWS, GROUPS, METERS, STATIONS].iter().enumerate() {
        let mut family = text.family(family);
        sizes.iter().for_each(|(bridge, counts)| family.put(&[("bridge", bridge)], counts[at]));
    }
    let mut family = text.family(&LEFT_OUT);
    for (bridge, [entries, groups, meters, _]) in &sizes {
        for (kind, n) in [("groups", groups), ("meters", meters)] {
            let left_out = n.saturating_sub(SERIES_MOST);
            family.put(&[("bridge", bridge), ("kind", kind)], left_out);
        }
        if source.entries > 0 {
            let left_out = entries.saturating_sub(source.entries);
            family.put(&[("bridge", bridge), ("kind", "entries")], left_out);
        }
    }
    for (is_bytes, family) in [GROUP_PACKETS, GROUP_BYTES].iter().enumerate() {
        let mut family = text.family(family);
        for (bridge, (group, counted)) in &groups {
            let value = if is_bytes == 1 { counted.bytes } else { counted.packets };
            family.put(&[("bridge", bridge), ("group", &group.to_string())], value);
        }
    }
    for (is_bytes, family) in [METER_PACKETS, METER_BYTES].iter().enumerate() {
        let mut family = text.family(family);
        for (bridge, (meter, counted)) in &meters {
            let (packets, bytes) = (counted.packet_in_count, counted.byte_in_count);
            let value = if is_bytes == 1 { bytes } else { packets };
            family.put(&[("bridge", bridge), ("meter", &meter.to_string())], value);
        }
    }
    let mut family = text.family(&BANDS);
    for (bridge, (meter, counted)) in &meters {
        for (band, taken) in counted.bands.iter().enumerate() {
            let (meter, band) = (meter.to_string(), band.to_string());
            let labels = [("bridge", *bridge), ("meter", &*meter), ("band", &*band)];
            family.put(&labels, taken.packet_count);
        }
    }
    let mut family = text.family(&CONNECTED);
    for bridge in &source.all {
        for state in bridge.controller_states() {
            let role = state.role.map_or("none", role);
            let labels = [("bridge", bridge.name()), ("target", &*state.target), ("role", role)];
            family.put(&labels, state.connected);
        }
    }
}

fn role(role: ::openflow::Role) -> &'static str {
    match role {
        ::openflow::Role::Master => "master",
        ::openflow::Role::Slave => "slave",
        _ => "equal",
    }
}
