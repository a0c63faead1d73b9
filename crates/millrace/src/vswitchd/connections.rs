//! The connection trackers of all bridges, as `dpctl` asks for them.

use control::bridges::{Bridge, Bridges};
use service::conntrack::{Connection, Selection, Timeouts, Tuple, ZoneLimits, ZoneTimeouts};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use vswitch::desired::datapath::{Policies, Policy, ZoneLimits as DatabaseLimits};
use vswitch::switch::{Connections, Limits};

/// So many lines are told of each bridge at most.
const LINES_MAX: usize = 100_000;

/// The trackers, with limits and timeouts of zones, which are the same in each.
pub(super) struct Trackers {
    bridges: Bridges,
    limits: Mutex<Held>,
    timeouts: Mutex<ZoneTimeouts>,
}

/// Limits in force, and those of them that the database has set.
#[derive(Default)]
struct Held {
    limits: ZoneLimits,
    database: DatabaseLimits,
}

impl Held {
    /// Those of the database take the place of those that it set before.
    fn set(&mut self, database: DatabaseLimits) {
        let was = std::mem::replace(&mut self.database, database);
        self.limits.zones.retain(|zone, _| !was.zones.contains_key(zone));
        self.limits.zones.extend(&self.database.zones);
        match (self.database.default, was.default) {
            (Some(limit), _) => self.limits.default = limit,
            (None, Some(_)) => self.limits.default = 0,
            (None, None) => {}
        }
    }

    /// A command may change limits.
    fn check(&self, instead: &str) -> Result<(), String> {
        match self.database.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "the zone limits are set via database, use 'ovs-vsctl {instead} <...>' instead."
            )),
        }
    }
}

/// A timeout by the database's name.
fn timeout<'a>(of: &'a mut Timeouts, key: &str) -> Option<&'a mut u32> {
    Some(match key {
        "tcp_syn_sent" => &mut of.tcp.syn_sent,
        "tcp_syn_recv" => &mut of.tcp.syn_received,
        "tcp_established" => &mut of.tcp.established,
        "tcp_fin_wait" => &mut of.tcp.fin_wait,
        "tcp_close_wait" => &mut of.tcp.close_wait,
        "tcp_last_ack" => &mut of.tcp.last_ack,
        "tcp_time_wait" => &mut of.tcp.time_wait,
        "tcp_close" => &mut of.tcp.closed,
        "tcp_retransmit" => &mut of.tcp.repeating,
        "tcp_unack" => &mut of.tcp.unacknowledged,
        "udp_single" => &mut of.udp,
        "udp_multiple" => &mut of.udp_stream,
        "icmp_first" => &mut of.icmp,
        _ => return None,
    })
}

/// Why a timeout cannot be given; none if it can.
pub(super) fn lacks(key: &str) -> Option<String> {
    let why = match key {
        "udp_first" => "packets of one direction have one timeout, udp_single",
        "icmp_reply" => "requests and replies have one timeout, icmp_first",
        "tcp_syn_sent2" => "two SYNs that cross have the timeout tcp_syn_recv",
        key if timeout(&mut Timeouts::default(), key).is_some() => return None,
        _ => "not known",
    };
    Some(why.to_owned())
}

fn is_in(connection: &Connection, zone: Option<u16>) -> bool {
    zone.is_none_or(|zone| connection.original.zone == zone)
}

impl Trackers {
    pub(super) fn new(bridges: Bridges) -> Trackers {
        Trackers { bridges, limits: Mutex::default(), timeouts: Mutex::default() }
    }

    fn held(&self) -> ZoneLimits {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).limits.clone()
    }

    fn change(&self, change: impl FnOnce(&mut Held) -> Result<(), String>) -> Result<(), String> {
        let limits = {
            let mut held = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut held)?;
            held.limits.clone()
        };
        self.bridges.all().iter().for_each(|bridge| limit(bridge, &limits));
        Ok(())
    }

    /// What the database says of limits.
    pub(super) fn set_database_limits(&self, limits: &DatabaseLimits) {
        let done = self.change(|held| {
            held.set(limits.clone());
            Ok(())
        });
        debug_assert!(done.is_ok(), "the database may set limits");
    }

    /// A bridge that has come has the limits of the others.
    pub(super) fn came(&self, bridge: &str) {
        if let Some(bridge) = self.bridges.get(bridge) {
            limit(&bridge, &self.held());
            give(&bridge, &self.timeouts.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Zones have these timeouts from now on, the usual ones for what a policy does not say.
    pub(super) fn set_timeouts(&self, policies: &Policies) {
        let one = |(zone, policy): (&u16, &Policy)| {
            let mut own = Timeouts::default();
            for (key, seconds) in policy {
                if let Some(place) = timeout(&mut own, key) {
                    *place = *seconds;
                }
            }
            (*zone, own)
        };
        let all: ZoneTimeouts = policies.iter().map(one).collect();
        let mut held = self.timeouts.lock().unwrap_or_else(PoisonError::into_inner);
        self.bridges.all().iter().for_each(|bridge| give(bridge, &all));
        *held = all;
    }

    fn each(&self, zone: Option<u16>) -> Vec<Connection> {
        let mut all = Vec::new();
        for bridge in self.bridges.all() {
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

fn give(bridge: &Bridge, timeouts: &ZoneTimeouts) {
    if let Some(connections) = bridge.switch().services().connections() {
        connections.set_zone_timeouts(timeouts.clone());
    }
}

/// Addresses and ports, or what stands for ports.
fn side(tuple: &Tuple) -> String {
    let address = |bits: u128| match tuple.v6 {
        true => Ipv6Addr::from(bits).to_string(),
        false => Ipv4Addr::from(bits as u32).to_string(),
    };
    let (src, dst) = (address(tuple.src), address(tuple.dst));
    match tuple.message() {
        Some((id, kind, code)) => format!("src={src},dst={dst},id={id},type={kind},code={code}"),
        None => format!("src={src},dst={dst},sport={},dport={}", tuple.src_port, tuple.dst_port),
    }
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
            let mut line = format!("{of},orig=({original}),reply=({reply})");
            // Of 0 nothing is said.
            let zone = connection.original.zone;
            for (name, number) in [("zone", zone.into()), ("mark", connection.mark)] {
                if number != 0 {
                    line += &format!(",{name}={number}");
                }
            }
            if connection.label != 0 {
                line += &format!(",labels={:#x}", connection.label);
            }
            line
        };
        self.each(zone).into_iter().map(line).collect()
    }

    fn flush(&self, words: &[&str]) -> Result<(), String> {
        let chosen = Selection::parse(words)?;
        for bridge in self.bridges.all() {
            if let Some(connections) = bridge.switch().services().connections() {
                connections.flush_selected(&chosen);
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
        self.bridges.defaults().tracking.connections as u64
    }

    fn limits(&self) -> Result<Limits, String> {
        let mut sums: BTreeMap<u16, u64> = BTreeMap::new();
        for bridge in self.bridges.all() {
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
        self.change(|held| {
            held.check("set-zone-limit")?;
            let limits = &mut held.limits;
            limits.default = default.unwrap_or(limits.default);
            limits.zones.extend(zones.iter().copied());
            Ok(())
        })
    }

    fn clear_limits(&self, default: bool, zones: &[u16]) -> Result<(), String> {
        self.change(|held| {
            held.check("del-zone-limit")?;
            if default {
                held.limits.default = 0;
            }
            held.limits.zones.retain(|zone, _| !zones.contains(zone));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_database_take_the_place_of_those_that_it_set_before() {
        let limits = ZoneLimits { default: 3, zones: [(1, 10), (2, 20)].into() };
        let mut held = Held { limits, ..Held::default() };
        held.set(DatabaseLimits { default: None, zones: [(2, 5), (4, 0)].into() });
        assert_eq!(held.limits, ZoneLimits { default: 3, zones: [(1, 10), (2, 5), (4, 0)].into() });
        assert!(held.check("set-zone-limit").is_err_and(|why| why.contains("set-zone-limit <")));
        held.set(DatabaseLimits { default: Some(7), zones: [(4, 6)].into() });
        assert_eq!(held.limits, ZoneLimits { default: 7, zones: [(1, 10), (4, 6)].into() });
        held.set(DatabaseLimits::default());
        assert_eq!(held.limits, ZoneLimits { default: 0, zones: [(1, 10)].into() });
        assert_eq!(held.check("del-zone-limit"), Ok(()));
    }

    #[test]
    fn a_timeout_is_there_or_it_is_told_why_not() {
        assert_eq!(lacks("tcp_established"), None);
        assert!(lacks("udp_first").is_some_and(|why| why.contains("udp_single")));
        assert_eq!(lacks("odd").as_deref(), Some("not known"));
        let mut all = Timeouts::default();
        *timeout(&mut all, "tcp_unack").unwrap() = 9;
        assert_eq!(all.tcp.unacknowledged, 9);
    }
}
