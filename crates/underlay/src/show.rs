//! Lists in the form of `ovs-appctl ovs/route/show` and `tnl/neigh/show`.

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;

use crate::state::{
    Prefix, RouteKind, RuleAction, State, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, width,
};
use crate::underlay::Underlay;

/// A line of `ovs/route/show`: one hop of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLine {
    /// Its destination.
    pub to: Prefix,
    /// The mark that leads to its table, if a rule asks for one.
    pub mark: Option<u32>,
    /// The device's name.
    pub device: String,
    /// The router.
    pub gateway: Option<IpAddr>,
    /// The source address, if this host has one for it.
    pub source: Option<IpAddr>,
    /// The destination is this host.
    pub is_local: bool,
}

impl fmt::Display for RouteLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cached: {}/{}", self.to.address, self.to.len)?;
        if let Some(mark) = self.mark {
            write!(f, " MARK {mark}")?;
        }
        write!(f, " dev {}", self.device)?;
        if let Some(gateway) = self.gateway {
            write!(f, " GW {gateway}")?;
        }
        if let Some(source) = self.source {
            write!(f, " SRC {source}")?;
        }
        f.write_str(if self.is_local { " local" } else { "" })
    }
}

/// An address of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressLine {
    /// The address.
    pub address: IpAddr,
    /// The length of its prefix.
    pub len: u8,
    /// The device's name.
    pub device: String,
}

impl fmt::Display for AddressLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} dev {}", self.address, self.len, self.device)
    }
}

/// A line of `tnl/neigh/show`: a neighbour whose MAC address is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourLine {
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The device's name.
    pub device: String,
}

impl fmt::Display for NeighbourLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.mac;
        let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}");
        write!(f, "{:<45} {mac}   {}", self.address.to_string(), self.device)
    }
}

/// What stands above the lines of `tnl/neigh/show`.
pub const NEIGHBOURS_HEAD: &str = concat!(
    "IP                                            MAC                 Bridge\n",
    "==========================================================================\n",
);
/// What stands above the lines of `ovs/route/show`.
pub const ROUTES_HEAD: &str = "Route Table:\n";

impl Underlay {
    /// Routes that lead to a device, by the length of their prefixes as Open vSwitch counts it: 96 bits more for IPv4.
    pub fn routes(&self) -> Vec<RouteLine> {
        self.look(routes)
    }

    /// Addresses by their devices.
    pub fn addresses(&self) -> Vec<AddressLine> {
        self.look(|state| {
            let lines = state.addresses().map(|one| AddressLine {
                address: one.address,
                len: one.len,
                device: name(state, one.device),
            });
            lines.collect()
        })
    }

    /// Neighbours whose MAC addresses are known, by address.
    pub fn neighbours(&self) -> Vec<NeighbourLine> {
        self.look(|state| {
            let known = state.neighbours().filter_map(|(device, address, known)| {
                let link = state.links.get(&device).filter(|link| link.resolves)?;
                Some(NeighbourLine { address, mac: known.mac?, device: link.name.clone() })
            });
            let mut lines: Vec<_> = known.filter(|line| !line.address.is_multicast()).collect();
            lines.sort_by(|a, b| (a.address, &a.device).cmp(&(b.address, &b.device)));
            lines
        })
    }
}

fn name(state: &State, device: u32) -> String {
    state.name_of(device).map_or_else(|| device.to_string(), str::to_owned)
}

fn routes(state: &State) -> Vec<RouteLine> {
    let mut lines = Vec::new();
    for route in state.routes() {
        if !matches!(route.kind, RouteKind::Unicast | RouteKind::Local) {
            continue;
        }
        let mark = mark_of(state, route.table, route.to.address.is_ipv6());
        let is_local = route.kind == RouteKind::Local;
        for hop in route.hops.iter().filter(|hop| !hop.dead) {
            let here = || match route.to.address {
                to if is_local => Some(to),
                IpAddr::V4(_) => {
                    state.source_v4(hop.device, hop.gateway, route.scope).map(IpAddr::V4)
                }
                IpAddr::V6(to) => {
                    let to = match hop.gateway {
                        Some(IpAddr::V6(gateway)) => gateway,
                        _ => to,
                    };
                    state.source_v6(hop.device, to).map(IpAddr::V6)
                }
            };
            lines.push(RouteLine {
                to: route.to,
                mark,
                device: name(state, hop.device),
                gateway: hop.gateway,
                source: route.source.or_else(here),
                is_local,
            });
        }
    }
    let order = |line: &RouteLine| {
        let len = u16::from(line.to.len) + 128 - u16::from(width(line.to.address));
        (Reverse(len), line.to.address, line.mark, line.device.clone(), line.gateway)
    };
    lines.sort_by_cached_key(order);
    lines
}

/// The mark by which alone packets get to a table.
fn mark_of(state: &State, table: u32, v6: bool) -> Option<u32> {
    if [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT].contains(&table) {
        return None;
    }
    let mut rules = state.rules[usize::from(v6)].iter();
    let leads = |rule: &&crate::state::Rule| rule.action == RuleAction::Table(table);
    rules.find(leads).filter(|rule| rule.mask != 0 && !rule.invert).map(|rule| rule.mark)
}
