//! The connection trackers of all bridges, as `dpctl` asks for them.

use control::bridges::{Bridge, Bridges};
use service::conntrack::{Connection, Tuple, ZoneLimits};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use vswitch::switch::{Connections, Limits};

/// So many lines are told of each bridge at most.
const LINES_MAX: usize = 100_000;

/// The trackers, and the limits of zones, which are the same in each.
pub(super) struct Trackers(Bridges, Mutex<ZoneLimits>);

fn is_in(connection: &Connection, zone: Option<u16>) -> bool {
    zone.is_none_or(|zone| connection.original.zone == zone)
}

impl Trackers {
    pub(super) fn new(bridges: Bridges) -> Trackers {
        Trackers(bridges, Mutex::default())
    }

    fn held(&self) -> ZoneLimits {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut ZoneLimits)) {
        let limits = {
            let mut held = self.1.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut held);
            held.clone()
        };
        self.0.all().iter().for_each(|bridge| limit(bridge, &limits));
    }

    /// A bridge that has come has the limits of the others.
    pub(super) fn came(&self, bridge: &str) {
        if let Some(bridge) = self.0.get(bridge) {
            limit(&bridge, &self.held());
        }
    }

    fn each(&self, zone: Option<u16>) -> Vec<Connection> {
        let mut all = Vec::new();
        for bridge in self.0.all() {
            let switch = bridge.switch();
            if let Some(connections) = switch.services().connections() {
                let chosen = |connection: &Connection| is_in(connection, zone);
                all.extend(connections.list(switch.now_ns(), LINES_MAX, &chosen));
            }
        }
        all
    }
}

fn limit(bridge: &Bridge, limits: &ZoneLimits) {
    if let Some(connections) = bridge.switch().services().connections() {
        connections.set_zone_limits(limits.clone());
    }
}

/// Addresses and ports, or what stands for ports.
fn side(tuple: &Tuple) -> String {
    let address = |bits: u128| match tuple.v6 {
        true => Ipv6Addr::from(bits).to_string(),
        false => Ipv4Addr::from(bits as u32).to_string(),
    };
    let (src, dst) = (address(tuple.src), address(tuple.dst));
    format!("src={src},dst={dst},sport={},dport={}", tuple.src_port, tuple.dst_port)
}

fn protocol(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        132 => "sctp".to_owned(),
        other => other.to_string(),
    }
}

impl Connections for Trackers {
    fn lines(&self, zone: Option<u16>) -> Vec<String> {
        let line = |connection: Connection| {
            let of = protocol(connection.original.protocol.0);
            let (original, reply) = (side(&connection.original), side(&connection.reply));
            let zone = connection.original.zone;
            format!("{of},orig=({original}),reply=({reply}),zone={zone},mark={}", connection.mark)
        };
        self.each(zone).into_iter().map(line).collect()
    }

    fn flush(&self, zone: Option<u16>) -> Result<(), String> {
        for bridge in self.0.all() {
            if let Some(connections) = bridge.switch().services().connections() {
                connections.flush(zone);
            }
        }
        Ok(())
    }

    fn by_protocol(&self, zone: Option<u16>) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for connection in self.each(zone) {
            let name = protocol(connection.original.protocol.0).to_ascii_uppercase();
            *counts.entry(name).or_default() += 1;
        }
        counts
    }

    fn most(&self) -> u64 {
        self.0.defaults().connections as u64
    }

    fn limits(&self) -> Result<Limits, String> {
        let mut sums: BTreeMap<u16, u64> = BTreeMap::new();
        for bridge in self.0.all() {
            let switch = bridge.switch();
            if let Some(connections) = switch.services().connections() {
                for (zone, count) in connections.zone_limits(switch.now_ns()).1 {
                    *sums.entry(zone).or_default() += count;
                }
            }
        }
        let limits = self.held();
        let zone =
            |(zone, limit): (&u16, &u32)| (*zone, *limit, sums.get(zone).copied().unwrap_or(0));
        Ok(Limits { default: limits.default, zones: limits.zones.iter().map(zone).collect() })
    }

    fn set_limits(&self, default: Option<u32>, zones: &[(u16, u32)]) -> Result<(), String> {
        self.change(|limits| {
            limits.default = default.unwrap_or(limits.default);
            limits.zones.extend(zones.iter().copied());
        });
        Ok(())
    }

    fn clear_limits(&self, zones: &[u16]) -> Result<(), String> {
        self.change(|limits| limits.zones.retain(|zone, _| !zones.contains(zone)));
        Ok(())
    }
}
