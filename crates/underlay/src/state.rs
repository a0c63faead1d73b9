//! What the kernel has told, as plain values.
//!
//! Holds true: routes of one prefix lie by their metric, those with the same one in the order of arrival.
//! Cost: a lookup asks one hash table for each length of prefix that the table has, from the longest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// The table that holds this host's own addresses.
pub const TABLE_LOCAL: u32 = 255;
/// The table of routes that name none.
pub const TABLE_MAIN: u32 = 254;
/// The table that is asked last.
pub const TABLE_DEFAULT: u32 = 253;

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address; zeros if it has none of six octets.
    pub mac: [u8; 6],
    /// The largest IP packet.
    pub mtu: u32,
    /// It was brought up.
    pub up: bool,
    /// It has carrier.
    pub carrier: bool,
    /// Its neighbours have MAC addresses that are asked for.
    pub resolves: bool,
    /// It is the loopback device.
    pub loopback: bool,
}

/// An address of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The device.
    pub device: u32,
    /// The address.
    pub address: IpAddr,
    /// Whose prefix the device reaches: the other end's address of a point-to-point device, else the address itself.
    pub peer: IpAddr,
    /// Length of that prefix.
    pub len: u8,
    /// As in `rtnetlink(7)`: 0 everywhere, 253 on the link, 254 on this host.
    pub scope: u8,
    /// Another address of the same prefix comes first.
    pub secondary: bool,
    /// It is no longer for new connections.
    pub deprecated: bool,
    /// Whether it is this host's alone is not known yet, or is not so.
    pub tentative: bool,
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its MAC address, if it may be used.
    pub mac: Option<[u8; 6]>,
    /// The kernel's state (`NUD_*`).
    pub state: u16,
}

/// A prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// Its first address.
    pub address: IpAddr,
    /// Its length in bits.
    pub len: u8,
}

impl Prefix {
    /// The prefix of this length that has the address. A length above the address's is cut.
    pub fn new(address: IpAddr, len: u8) -> Prefix {
        let len = len.min(width(address));
        Prefix { address: masked(address, len), len }
    }

    /// All addresses of a family.
    pub fn all(v6: bool) -> Prefix {
        Prefix { address: unspecified(v6), len: 0 }
    }

    /// Whether the address is of this prefix.
    pub fn has(&self, address: IpAddr) -> bool {
        address.is_ipv6() == self.address.is_ipv6() && masked(address, self.len) == self.address
    }
}

/// Bits of an address of the same family.
pub(crate) fn width(address: IpAddr) -> u8 {
    if address.is_ipv6() { 128 } else { 32 }
}

/// `0.0.0.0` or `::`.
pub(crate) fn unspecified(v6: bool) -> IpAddr {
    if v6 { IpAddr::V6(0.into()) } else { IpAddr::V4(0.into()) }
}

fn masked(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4(
            (v4.to_bits() & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)).into(),
        ),
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// Sends by one of its hops.
    Unicast,
    /// The address is this host's.
    Local,
    /// Sends to all of a link.
    Broadcast,
    /// Of IPv6: one of many hosts that have the address, this one among them.
    Anycast,
    /// Sends to a group.
    Multicast,
    /// Drops in silence.
    Blackhole,
    /// Refuses: the host is unreachable.
    Unreachable,
    /// Refuses: not allowed.
    Prohibit,
    /// Ends the lookup in this table.
    Throw,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The device.
    pub device: u32,
    /// The router; none if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Its share, from 1.
    pub weight: u16,
    /// The kernel does not use it now.
    pub dead: bool,
    /// Its device has no carrier: others are better.
    pub link_down: bool,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Its table.
    pub table: u32,
    /// Its destination.
    pub to: Prefix,
    /// The least is used.
    pub metric: u32,
    /// What it does.
    pub kind: RouteKind,
    /// How far its destinations are: 0 anywhere, 253 on the link, 254 on this host.
    pub scope: u8,
    /// The source address that it prefers.
    pub source: Option<IpAddr>,
    /// The largest packet, if the route limits it.
    pub mtu: Option<u32>,
    /// Where it leads.
    pub hops: Vec<Hop>,
}

impl Route {
    /// Whether both stand at the same place of a table.
    pub(crate) fn same_place(&self, other: &Route) -> bool {
        (self.table, self.to, self.metric) == (other.table, other.to, other.metric)
    }
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Asks a table.
    Table(u32),
    /// Goes on at the first rule of this priority or a higher number.
    Goto(u32),
    /// Nothing.
    Nop,
    /// Drops in silence.
    Blackhole,
    /// Refuses: the host is unreachable.
    Unreachable,
    /// Refuses: not allowed.
    Prohibit,
}

/// A rule of the policy database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The least is asked first.
    pub priority: u32,
    /// Of IPv6.
    pub v6: bool,
    /// Destinations.
    pub to: Prefix,
    /// Sources.
    pub from: Prefix,
    /// The mark, of those bits that `mask` has.
    pub mark: u32,
    /// Bits of the mark.
    pub mask: u32,
    /// The device that packets come in by; `lo` is this host.
    pub input: Option<String>,
    /// It holds where the rest does not.
    pub invert: bool,
    /// Routes whose prefix is not longer are skipped.
    pub suppress_len: Option<u8>,
    /// What it does.
    pub action: RuleAction,
    /// Why it is skipped: it selects by what is not known here.
    pub ignored: Option<&'static str>,
}

/// One family's routes of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    lens: BTreeMap<u8, HashMap<IpAddr, Vec<Route>>>,
}

impl Table {
    /// Routes to an address, from the longest prefix and the least metric.
    pub(crate) fn lookup(&self, to: IpAddr) -> impl Iterator<Item = &Route> {
        let found = self.lens.iter().rev();
        found.filter_map(move |(len, routes)| routes.get(&masked(to, *len))).flatten()
    }

    fn routes(&self) -> impl Iterator<Item = &Route> {
        self.lens.values().flat_map(HashMap::values).flatten()
    }
}

/// All routes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    tables: [BTreeMap<u32, Table>; 2],
}

/// A change could not be made for sure: what the kernel has is to be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Doubt;

impl Routes {
    pub(crate) fn table(&self, v6: bool, table: u32) -> Option<&Table> {
        self.tables[usize::from(v6)].get(&table)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Route> {
        self.tables.iter().flat_map(|tables| tables.values()).flat_map(Table::routes)
    }

    /// Puts a route at its place, behind those of the same place.
    pub(crate) fn put(&mut self, route: Route) {
        let here = self.here(&route);
        let at = here.partition_point(|other| other.metric <= route.metric);
        here.insert(at, route);
    }

    fn here(&mut self, route: &Route) -> &mut Vec<Route> {
        let tables = &mut self.tables[usize::from(route.to.address.is_ipv6())];
        let table = tables.entry(route.table).or_default();
        table.lens.entry(route.to.len).or_default().entry(route.to.address).or_default()
    }

    /// The kernel has told of a route that it has added, or that took the place of one.
    pub(crate) fn added(&mut self, route: Route, replaces: bool) -> Result<bool, Doubt> {
        let here = self.here(&route);
        let mut same = here.iter_mut().filter(|other| other.same_place(&route));
        match (same.next(), same.next()) {
            (None, _) => self.put(route),
            (Some(one), None) if *one == route => return Ok(false),
            (Some(one), None) if replaces => *one = route,
            _ => return Err(Doubt),
        }
        Ok(true)
    }

    /// The kernel has told of a route that it has removed.
    pub(crate) fn removed(&mut self, route: &Route) -> Result<bool, Doubt> {
        let here = self.here(route);
        let mut same = here.iter().enumerate().filter(|(_, other)| other.same_place(route));
        let found = match (same.next(), same.next()) {
            (None, _) => None,
            (Some((at, one)), None) if one.hops.len() == route.hops.len() => Some(at),
            _ => return Err(Doubt),
        };
        if let Some(at) = found {
            here.remove(at);
        }
        if here.is_empty() {
            self.prune(route);
        }
        Ok(found.is_some())
    }

    fn prune(&mut self, route: &Route) {
        let tables = &mut self.tables[usize::from(route.to.address.is_ipv6())];
        let Some(table) = tables.get_mut(&route.table) else { return };
        if let Some(routes) = table.lens.get_mut(&route.to.len) {
            routes.remove(&route.to.address);
            if routes.is_empty() {
                table.lens.remove(&route.to.len);
            }
        }
        if table.lens.is_empty() {
            tables.remove(&route.table);
        }
    }
}

/// All that the kernel has told.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(crate) links: BTreeMap<u32, Link>,
    /// Of each device, in the kernel's order.
    pub(crate) addresses: BTreeMap<u32, Vec<Address>>,
    /// Which device has an address.
    pub(crate) owners: HashMap<IpAddr, u32>,
    pub(crate) neighbours: BTreeMap<(u32, IpAddr), Neighbour>,
    /// By family, then by priority, in the kernel's order.
    pub(crate) rules: [Vec<Rule>; 2],
    pub(crate) routes: Routes,
}

impl State {
    /// Devices by their numbers.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    /// Addresses by their devices.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.addresses.values().flatten()
    }

    /// Neighbours with their devices and addresses.
    pub fn neighbours(&self) -> impl Iterator<Item = (u32, IpAddr, Neighbour)> {
        self.neighbours.iter().map(|((device, address), known)| (*device, *address, *known))
    }

    /// Rules, IPv4's first, by priority.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().flatten()
    }

    /// Routes of all tables, in no order.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.all()
    }

    /// The name of a device.
    pub fn name_of(&self, device: u32) -> Option<&str> {
        self.links.get(&device).map(|link| link.name.as_str())
    }

    pub(crate) fn put_address(&mut self, address: Address) -> bool {
        let here = self.addresses.entry(address.device).or_default();
        let same = |other: &&mut Address| {
            (other.address, other.peer, other.len) == (address.address, address.peer, address.len)
        };
        match here.iter_mut().find(same) {
            Some(one) if *one == address => return false,
            Some(one) => *one = address,
            None => here.push(address),
        }
        self.own();
        true
    }

    pub(crate) fn remove_address(&mut self, gone: &Address) -> bool {
        let Some(here) = self.addresses.get_mut(&gone.device) else { return false };
        let before = here.len();
        here.retain(|one| (one.address, one.peer, one.len) != (gone.address, gone.peer, gone.len));
        let changed = here.len() != before;
        if here.is_empty() {
            self.addresses.remove(&gone.device);
        }
        self.own();
        changed
    }

    /// Notes anew who has which address. Of several devices, the one with the least number has it.
    pub(crate) fn own(&mut self) {
        let all = self.addresses.values().flatten().rev();
        self.owners = all.map(|one| (one.address, one.device)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(to: &str, len: u8, metric: u32, device: u32) -> Route {
        Route {
            table: TABLE_MAIN,
            to: Prefix::new(to.parse().expect("an address"), len),
            metric,
            kind: RouteKind::Unicast,
            scope: 0,
            source: None,
            mtu: None,
            hops: vec![Hop { device, gateway: None, weight: 1, dead: false, link_down: false }],
        }
    }

    fn devices(routes: &Routes, to: &str) -> Vec<u32> {
        let to: IpAddr = to.parse().expect("an address");
        let table = routes.table(to.is_ipv6(), TABLE_MAIN);
        table.into_iter().flat_map(|table| table.lookup(to)).map(|one| one.hops[0].device).collect()
    }

    #[test]
    fn prefixes_of_every_length_are_cut_and_match() {
        for (address, width) in [("255.255.255.255", 32), ("ffff::ffff", 128)] {
            let address: IpAddr = address.parse().expect("an address");
            for len in 0..=width {
                assert!(Prefix::new(address, len).has(address), "{address}/{len}");
            }
            assert_eq!(Prefix::new(address, 0), Prefix::all(address.is_ipv6()));
            assert_eq!(Prefix::new(address, 255).len, width, "a length beyond the address");
        }
        assert!(!Prefix::all(false).has("::".parse().expect("an address")), "of another family");
    }

    #[test]
    fn the_longest_prefix_comes_first_then_the_least_metric() {
        let mut routes = Routes::default();
        for (to, len, metric, device) in [
            ("0.0.0.0", 0, 0, 1),
            ("10.0.0.0", 8, 20, 2),
            ("10.0.0.0", 8, 10, 3),
            ("10.1.0.0", 16, 99, 4),
            ("11.0.0.0", 8, 0, 5),
            ("fd00::", 8, 1, 6),
        ] {
            routes.put(route(to, len, metric, device));
        }
        assert_eq!(devices(&routes, "10.1.2.3"), [4, 3, 2, 1]);
        assert_eq!(devices(&routes, "12.0.0.1"), [1]);
        assert_eq!(devices(&routes, "fd01::1"), [6]);
        assert_eq!(devices(&routes, "fe80::1"), [] as [u32; 0]);
    }

    #[test]
    fn what_is_told_of_a_route_is_done_or_in_doubt() {
        let mut routes = Routes::default();
        assert_eq!(routes.removed(&route("10.0.0.0", 8, 0, 1)), Ok(false));
        assert_eq!(routes.added(route("10.0.0.0", 8, 0, 1), false), Ok(true));
        assert_eq!(routes.added(route("10.0.0.0", 8, 0, 1), false), Ok(false), "it is known");
        assert_eq!(routes.added(route("10.0.0.0", 8, 0, 2), false), Err(Doubt), "appended, or not");
        assert_eq!(routes.added(route("10.0.0.0", 8, 0, 2), true), Ok(true));
        assert_eq!(devices(&routes, "10.0.0.1"), [2]);
        let mut two = route("10.0.0.0", 8, 0, 2);
        two.hops.push(two.hops[0]);
        assert_eq!(routes.removed(&two), Err(Doubt), "one hop of several");
        assert_eq!(routes.removed(&route("10.0.0.0", 8, 0, 2)), Ok(true));
        assert!(routes.tables[0].is_empty(), "empty tables are not kept");
    }
}
