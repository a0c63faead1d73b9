//! Rules, routes and sources, as the kernel chooses them for a packet that this host sends.
//!
//! Rules are asked by priority. In a table the longest prefix wins, then the least metric; a route whose hops are all dead is
//! passed over. Of several living hops a hash of the destination chooses by their weights.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::state::{
    Address, Hop, Link, Route, RouteKind, Rule, RuleAction, State, TABLE_LOCAL, width,
};

/// Rules that one lookup follows, at most: `goto` goes forward alone, so this is never reached by the kernel's own.
const RULES_MAX: usize = 65_536;

/// How a packet gets to its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The device that it leaves by. For an address of this host it is the loopback device.
    pub device: u32,
    /// Its source address.
    pub source: IpAddr,
    /// The device's MAC address; zeros if it has none.
    pub local_mac: [u8; 6],
    /// Who gets the frame: a router, or the destination itself.
    pub gateway: IpAddr,
    /// The gateway's MAC address, if it is known. [`Underlay::ask`](crate::Underlay::ask) has the kernel find out. Zeros on
    /// devices without such addresses.
    pub neighbour: Option<[u8; 6]>,
    /// The largest IP packet.
    pub mtu: u32,
}

/// Why a packet does not get to its destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// No table has a route.
    #[error("there is no route to {to}")]
    NoRoute {
        /// The destination.
        to: IpAddr,
    },
    /// A route or rule refuses.
    #[error("a route or rule refuses packets to {to} ({kind})")]
    Refused {
        /// The destination.
        to: IpAddr,
        /// What `ip route` calls it: `blackhole`, `unreachable` or `prohibit`.
        kind: &'static str,
    },
    /// The route's device is gone, or not told of yet.
    #[error("the route to {to} leads to device {device}, which is not there")]
    NoDevice {
        /// The destination.
        to: IpAddr,
        /// The device's number.
        device: u32,
    },
    /// The device is down.
    #[error("the route to {to} leads to {device}, which is down: bring it up")]
    Down {
        /// The destination.
        to: IpAddr,
        /// The device's name.
        device: String,
    },
    /// No address can be the source.
    #[error(
        "the route to {to} leads to {device}, and this host has no address of its family: add one"
    )]
    NoSource {
        /// The destination.
        to: IpAddr,
        /// The device's name.
        device: String,
    },
    /// Source and destination are of two families.
    #[error("{from} cannot be the source of packets to {to}: one is IPv4, the other IPv6")]
    Family {
        /// The destination.
        to: IpAddr,
        /// The source.
        from: IpAddr,
    },
}

impl State {
    pub(crate) fn resolve(
        &self,
        to: IpAddr,
        from: Option<IpAddr>,
        mark: u32,
    ) -> Result<Next, Unreachable> {
        if let Some(from) = from {
            if from.is_ipv6() != to.is_ipv6() {
                return Err(Unreachable::Family { to, from });
            }
            return self.resolve_from(to, Some(from), mark);
        }
        // As for a socket that connects: the source that the first lookup gives may have rules of its own.
        let first = self.resolve_from(to, None, mark)?;
        self.resolve_from(to, Some(first.source), mark)
    }

    fn resolve_from(
        &self,
        to: IpAddr,
        from: Option<IpAddr>,
        mark: u32,
    ) -> Result<Next, Unreachable> {
        if let Some(from) = from.filter(|_| is_for_all(to)) {
            return self.to_all(to, from);
        }
        let (route, hop) = self.route(to, from, mark)?;
        let is_local = matches!(route.kind, RouteKind::Local | RouteKind::Anycast);
        let loopback = || self.links.values().find(|link| link.loopback);
        let device = match loopback() {
            Some(link) if is_local => link.index,
            _ => hop.device,
        };
        let link = self.links.get(&device).ok_or(Unreachable::NoDevice { to, device })?;
        if !link.up {
            return Err(Unreachable::Down { to, device: link.name.clone() });
        }
        let gateway = hop.gateway.filter(|_| !is_local && !goes_to_all(route, to)).unwrap_or(to);
        let chosen = from.or(route.source).or_else(|| match to {
            _ if is_local => Some(to),
            IpAddr::V4(_) => self.source_v4(device, hop.gateway, route.scope).map(IpAddr::V4),
            IpAddr::V6(to) => self.source_v6(device, to).map(IpAddr::V6),
        });
        let no_source = || Unreachable::NoSource { to, device: link.name.clone() };
        let source = chosen.ok_or_else(no_source)?;
        let mtu = route.mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu));
        let neighbour = self.neighbour(link, gateway, route.kind);
        Ok(Next { device, source, local_mac: link.mac, gateway, neighbour, mtu })
    }

    /// A broadcast or to a group, by the device that has the source.
    fn to_all(&self, to: IpAddr, from: IpAddr) -> Result<Next, Unreachable> {
        let device = self.owners.get(&from).copied().ok_or(Unreachable::NoRoute { to })?;
        let link = self.links.get(&device).ok_or(Unreachable::NoDevice { to, device })?;
        if !link.up {
            return Err(Unreachable::Down { to, device: link.name.clone() });
        }
        let neighbour = self.neighbour(link, to, RouteKind::Multicast);
        let (local_mac, mtu) = (link.mac, link.mtu);
        Ok(Next { device, source: from, local_mac, gateway: to, neighbour, mtu })
    }

    fn neighbour(&self, link: &Link, gateway: IpAddr, kind: RouteKind) -> Option<[u8; 6]> {
        if !link.resolves {
            return Some([0; 6]);
        }
        match gateway {
            _ if kind == RouteKind::Broadcast => Some([0xff; 6]),
            IpAddr::V4(v4) if v4.is_broadcast() => Some([0xff; 6]),
            IpAddr::V4(v4) if v4.is_multicast() => {
                let [_, b, c, d] = v4.octets();
                Some([1, 0, 0x5e, b & 0x7f, c, d])
            }
            IpAddr::V6(v6) if v6.is_multicast() => {
                let [.., a, b, c, d] = v6.octets();
                Some([0x33, 0x33, a, b, c, d])
            }
            _ => self.neighbours.get(&(link.index, gateway)).and_then(|known| known.mac),
        }
    }

    /// The route that a packet takes, and which of its hops.
    fn route(
        &self,
        to: IpAddr,
        from: Option<IpAddr>,
        mark: u32,
    ) -> Result<(&Route, Hop), Unreachable> {
        let refused = |kind| Unreachable::Refused { to, kind };
        let rules = &self.rules[usize::from(to.is_ipv6())];
        let mut at = 0;
        for _ in 0..RULES_MAX {
            let Some(rule) = rules.get(at) else { break };
            at += 1;
            if !holds(rule, to, from, mark) {
                continue;
            }
            match rule.action {
                RuleAction::Nop => {}
                RuleAction::Blackhole => return Err(refused("blackhole")),
                RuleAction::Unreachable => return Err(refused("unreachable")),
                RuleAction::Prohibit => return Err(refused("prohibit")),
                RuleAction::Goto(priority) => {
                    at = at.max(rules.partition_point(|other| other.priority < priority));
                }
                RuleAction::Table(table) => {
                    match self.in_table(table, to) {
                        Found::Route(route, _) if suppressed(rule, route) => {}
                        Found::Route(route, hop) => return Ok((route, hop)),
                        Found::Refused(kind) => return Err(refused(kind)),
                        Found::Nothing => {}
                    };
                }
            }
        }
        Err(Unreachable::NoRoute { to })
    }

    fn in_table(&self, table: u32, to: IpAddr) -> Found<'_> {
        let Some(table) = self.routes.table(to.is_ipv6(), table) else { return Found::Nothing };
        for route in table.lookup(to) {
            match route.kind {
                RouteKind::Blackhole => return Found::Refused("blackhole"),
                RouteKind::Unreachable => return Found::Refused("unreachable"),
                RouteKind::Prohibit => return Found::Refused("prohibit"),
                RouteKind::Throw => return Found::Nothing,
                _ => {}
            }
            if let Some(hop) = choose(&route.hops, to) {
                return Found::Route(route, hop);
            }
        }
        Found::Nothing
    }

    /// Whether packets to the address are this host's.
    pub(crate) fn is_local(&self, address: IpAddr) -> bool {
        if self.owners.contains_key(&address) {
            return true;
        }
        let table = self.routes.table(address.is_ipv6(), TABLE_LOCAL);
        let first = table.and_then(|table| table.lookup(address).next());
        first.is_some_and(|route| route.kind == RouteKind::Local)
    }

    /// The first address that reaches the gateway, or else the first of the device, or else of another.
    pub(crate) fn source_v4(
        &self,
        device: u32,
        gateway: Option<IpAddr>,
        scope: u8,
    ) -> Option<Ipv4Addr> {
        let fits = |one: &&Address| !one.secondary && one.scope <= scope && one.address.is_ipv4();
        let here = || self.addresses.get(&device).into_iter().flatten().filter(fits);
        let reaches = |one: &&Address| {
            gateway.is_none_or(|it| crate::state::Prefix::new(one.peer, one.len).has(it))
        };
        let elsewhere = || self.addresses.values().flatten().filter(fits);
        let found = here().find(reaches).or_else(|| here().next());
        let found = found.or_else(|| elsewhere().find(|one| one.scope != SCOPE_LINK));
        found.and_then(|one| match one.address {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        })
    }

    /// By the rules of RFC 6724 §5 that need no policy table: same address, scope, not deprecated, device, longest match.
    pub(crate) fn source_v6(&self, device: u32, to: Ipv6Addr) -> Option<Ipv6Addr> {
        let wanted = scope_v6(to);
        let alone = wanted < SCOPE_V6_GLOBAL;
        let candidates = self.addresses.values().flatten().filter_map(|one| match one.address {
            IpAddr::V6(v6) if !one.tentative && (one.device == device || !alone) => Some((one, v6)),
            _ => None,
        });
        let rank = |(one, v6): &(&Address, Ipv6Addr)| {
            let scope = scope_v6(*v6);
            // A scope that reaches is better than one that does not; of those that reach, the smallest.
            let reach = if scope >= wanted { 32 - i32::from(scope) } else { i32::from(scope) - 32 };
            let same = (v6.to_bits() ^ to.to_bits()).leading_zeros().min(u32::from(one.len));
            (*v6 == to, reach, !one.deprecated, one.device == device, same)
        };
        // Of equals the first.
        let mut best: Option<((&Address, Ipv6Addr), _)> = None;
        for candidate in candidates {
            let rank = rank(&candidate);
            if best.as_ref().is_none_or(|(_, other)| rank > *other) {
                best = Some((candidate, rank));
            }
        }
        best.map(|((_, v6), _)| v6)
    }
}

const SCOPE_LINK: u8 = 253;
const SCOPE_V6_GLOBAL: u8 = 14;

/// The scope of an address, as multicast addresses write it.
fn scope_v6(address: Ipv6Addr) -> u8 {
    match address {
        it if it.is_multicast() => it.octets()[1] & 15,
        it if it.is_loopback() || it.is_unicast_link_local() => 2,
        _ => SCOPE_V6_GLOBAL,
    }
}

/// An IPv4 broadcast or group, whose packets leave by the device that has their source.
fn is_for_all(to: IpAddr) -> bool {
    matches!(to, IpAddr::V4(v4) if v4.is_broadcast() || v4.is_multicast())
}

/// A router passes on no broadcast, and no group that only a default route has.
fn goes_to_all(route: &Route, to: IpAddr) -> bool {
    match to {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_multicast() && route.to.len < 4,
        IpAddr::V6(_) => false,
    }
}

enum Found<'a> {
    Route(&'a Route, Hop),
    Refused(&'static str),
    Nothing,
}

/// Whether a rule is for the packet. Packets of this host come in by `lo`.
fn holds(rule: &Rule, to: IpAddr, from: Option<IpAddr>, mark: u32) -> bool {
    if rule.ignored.is_some() {
        return false;
    }
    let from = from.unwrap_or(crate::state::unspecified(to.is_ipv6()));
    let all = rule.input.as_deref().is_none_or(|device| device == "lo")
        && (mark ^ rule.mark) & rule.mask == 0
        && rule.to.has(to)
        && rule.from.has(from);
    all != rule.invert
}

fn suppressed(rule: &Rule, route: &Route) -> bool {
    rule.suppress_len.is_some_and(|len| route.to.len <= len)
}

/// A living hop, by weights; one without carrier if no other lives. The same one for the same destination.
fn choose(hops: &[Hop], to: IpAddr) -> Option<Hop> {
    let carried = hops.iter().any(|hop| !hop.dead && !hop.link_down);
    let living = || hops.iter().filter(|hop| !(hop.dead || carried && hop.link_down));
    let all: u64 = living().map(|hop| u64::from(hop.weight)).sum();
    let mut left = hash(to).checked_rem(all)?;
    for hop in living() {
        match left.checked_sub(u64::from(hop.weight)) {
            Some(less) => left = less,
            None => return Some(*hop),
        }
    }
    None
}

fn hash(address: IpAddr) -> u64 {
    let bits = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let mut z = (bits as u64) ^ ((bits >> 64) as u64) ^ u64::from(width(address));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
