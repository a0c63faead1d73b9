//! Netlink messages read as changes of the [`State`](crate::state::State).
//!
//! `netlink-packet-route` decodes a message. It refuses a message for any attribute that it cannot read, and new kernels have new
//! ones. So [`sift`] first takes out the attributes that are not needed here.

use std::borrow::Cow;
use std::net::IpAddr;

use netlink_packet_core::{NetlinkBuffer, Nla, NlasIterator, ParseableParametrized};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHopFlags,
    RouteType, RouteVia,
};
use netlink_packet_route::rule::{RuleAction as Action, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::state::{
    Address, Hop, Link, Neighbour, Prefix, Route, RouteKind, Rule, RuleAction, unspecified,
};

pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;
pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
/// `RTM_NEWNEXTHOP` and `RTM_DELNEXTHOP`.
const NEXT_HOPS: [u16; 2] = [104, 105];

/// The last attribute of rules that is known here.
const FRA_DPORT_RANGE: u16 = 24;

const NUD_REACHABLE: u16 = 0x02;
const NUD_STALE: u16 = 0x04;
const NUD_DELAY: u16 = 0x08;
const NUD_PROBE: u16 = 0x10;
const NUD_NOARP: u16 = 0x40;
const NUD_PERMANENT: u16 = 0x80;
const NUD_VALID: u16 =
    NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_NOARP | NUD_PERMANENT;

/// What a message tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Link(Link),
    LinkGone(u32),
    Address(Address),
    AddressGone(Address),
    Neighbour(u32, IpAddr, Neighbour),
    NeighbourGone(u32, IpAddr),
    /// A route, and whether it took the place of one.
    Route(Route, bool),
    RouteGone(Route),
    Rule(Rule),
    /// Rules are read anew, as their order says much.
    RuleGone,
    /// Next hops of routes are others now.
    NextHops,
    /// A route that is not for packets of this host; why, if it is one that the kernel would use.
    Ignored(&'static str),
    /// Nothing that matters here.
    Other,
}

/// A message as it lies in a datagram.
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

/// Takes the first message off a datagram. `None` at its end; what is malformed is an error, and ends it.
pub(crate) fn next_message<'a>(datagram: &mut &'a [u8]) -> Option<Result<Message<'a>, String>> {
    if datagram.is_empty() {
        return None;
    }
    let bytes = std::mem::take(datagram);
    let buffer = match NetlinkBuffer::new_checked(bytes) {
        Ok(buffer) => buffer,
        Err(error) => return Some(Err(error.to_string())),
    };
    let len = buffer.length() as usize;
    *datagram = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some(Ok(Message {
        kind: buffer.message_type(),
        flags: buffer.flags(),
        sequence: buffer.sequence_number(),
        payload: buffer.payload(),
    }))
}

/// Octets of the fixed part of a message, and the attributes that are needed of it. Of rules and neighbours all: they are few.
fn needed(kind: u16) -> Option<(usize, &'static [u16])> {
    Some(match kind {
        // IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU.
        16..=19 => (16, &[1, 3, 4]),
        // IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS.
        20..=22 => (8, &[1, 2, 8]),
        // RTA_DST, RTA_SRC, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC, RTA_METRICS, RTA_MULTIPATH, RTA_TABLE, RTA_VIA.
        24..=26 => (12, &[1, 2, 4, 5, 6, 7, 8, 9, 15, 18]),
        // NDA_DST, NDA_LLADDR.
        28..=30 => (12, &[1, 2]),
        _ => return None,
    })
}

/// The payload without attributes that are not needed.
fn sift(kind: u16, payload: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let Some((fixed, wanted)) = needed(kind) else { return Ok(Cow::Borrowed(payload)) };
    let (head, attributes) =
        payload.split_at_checked(fixed).ok_or_else(|| "a message is cut off".to_owned())?;
    let mut kept = head.to_vec();
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute.map_err(|error| error.to_string())?;
        if wanted.contains(&attribute.kind()) {
            let value = attribute.value();
            kept.extend((value.len() as u16 + 4).to_ne_bytes());
            kept.extend(attribute.kind().to_ne_bytes());
            kept.extend(value);
            kept.resize(kept.len().next_multiple_of(4), 0);
        }
    }
    Ok(Cow::Owned(kept))
}

/// What a message tells.
pub(crate) fn read(message: &Message<'_>) -> Result<Change, String> {
    if NEXT_HOPS.contains(&message.kind) {
        return Ok(Change::NextHops);
    }
    if needed(message.kind).is_none() && !(32..=34).contains(&message.kind) {
        return Ok(Change::Other);
    }
    let payload = sift(message.kind, message.payload)?;
    let decoded = RouteNetlinkMessage::parse_with_param(&payload, message.kind)
        .map_err(|error| error.to_string())?;
    Ok(match decoded {
        RouteNetlinkMessage::NewLink(link) => read_link(&link).map_or(Change::Other, Change::Link),
        RouteNetlinkMessage::DelLink(link) if of_link(&link) => Change::LinkGone(link.header.index),
        RouteNetlinkMessage::NewAddress(it) => {
            read_address(&it).map_or(Change::Other, Change::Address)
        }
        RouteNetlinkMessage::DelAddress(it) => {
            read_address(&it).map_or(Change::Other, Change::AddressGone)
        }
        RouteNetlinkMessage::NewNeighbour(it) => read_neighbour(&it, false),
        RouteNetlinkMessage::DelNeighbour(it) => read_neighbour(&it, true),
        RouteNetlinkMessage::NewRoute(it) => match read_route(&it)? {
            Ok(route) => Change::Route(route, message.flags & NLM_F_REPLACE != 0),
            Err(why) => why.map_or(Change::Other, Change::Ignored),
        },
        RouteNetlinkMessage::DelRoute(it) => {
            read_route(&it)?.map_or(Change::Other, Change::RouteGone)
        }
        RouteNetlinkMessage::NewRule(it) => read_rule(&it).map_or(Change::Other, Change::Rule),
        RouteNetlinkMessage::DelRule(_) => Change::RuleGone,
        _ => Change::Other,
    })
}

/// Bridges tell of their ports by messages of a family of their own.
fn of_link(message: &LinkMessage) -> bool {
    message.header.interface_family == AddressFamily::Unspec
}

fn read_link(message: &LinkMessage) -> Option<Link> {
    if !of_link(message) {
        return None;
    }
    let has = |flag| message.header.flags.contains(flag);
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mac: [0; 6],
        mtu: 0,
        up: has(LinkFlags::Up),
        carrier: has(LinkFlags::LowerUp),
        resolves: !has(LinkFlags::Noarp) && !has(LinkFlags::Loopback),
        loopback: has(LinkFlags::Loopback),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(mac) => {
                link.mac = mac.as_slice().try_into().unwrap_or_default();
            }
            _ => {}
        }
    }
    (link.index != 0 && !link.name.is_empty()).then_some(link)
}

fn read_address(message: &AddressMessage) -> Option<Address> {
    let header = &message.header;
    let (mut local, mut peer) = (None, None);
    let mut flags = AddressFlags::from_bits_retain(u32::from(header.flags.bits()));
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => peer = Some(*address),
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    let (address, peer) = (local.or(peer)?, peer.or(local)?);
    let is_v6 = header.family == AddressFamily::Inet6;
    if address.is_ipv6() != is_v6 || peer.is_ipv6() != is_v6 {
        return None;
    }
    let has = |flag| flags.contains(flag);
    Some(Address {
        device: header.index,
        address,
        peer,
        len: header.prefix_len,
        scope: header.scope.into(),
        // Of IPv6 the same bit says that it is a temporary one.
        secondary: !is_v6 && has(AddressFlags::Secondary),
        deprecated: has(AddressFlags::Deprecated),
        tentative: has(AddressFlags::Dadfailed)
            || has(AddressFlags::Tentative) && !has(AddressFlags::Optimistic),
    })
}

fn read_neighbour(message: &NeighbourMessage, gone: bool) -> Change {
    let header = &message.header;
    if header.flags.contains(NeighbourFlags::Proxy) {
        return Change::Other;
    }
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                address = Some(IpAddr::V4(*v4));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                address = Some(IpAddr::V6(*v6));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    let Some(address) = address else { return Change::Other };
    if gone {
        return Change::NeighbourGone(header.ifindex, address);
    }
    let state = u16::from(header.state);
    let mac = mac.filter(|_| state & NUD_VALID != 0);
    Change::Neighbour(header.ifindex, address, Neighbour { mac, state })
}

/// Whether a family is IPv6; none if it is another one than that and IPv4.
fn is_v6(family: AddressFamily) -> Option<bool> {
    match family {
        AddressFamily::Inet => Some(false),
        AddressFamily::Inet6 => Some(true),
        _ => None,
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        RouteAttribute::Via(RouteVia::Inet(v4)) => Some(IpAddr::V4(*v4)),
        RouteAttribute::Via(RouteVia::Inet6(v6)) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}

/// A route; or why it is none for packets of this host, if the kernel would use it.
type Read = Result<Route, Option<&'static str>>;

fn read_route(message: &RouteMessage) -> Result<Read, String> {
    let header = &message.header;
    let Some(is_v6) = is_v6(header.address_family) else { return Ok(Err(None)) };
    if header.flags.contains(RouteFlags::Cloned) {
        return Ok(Err(None));
    }
    if header.tos != 0 {
        return Ok(Err(Some("a route for a type of service")));
    }
    if header.source_prefix_length != 0 {
        return Ok(Err(Some("a route for a source prefix")));
    }
    let kind = match header.kind {
        RouteType::Unicast => RouteKind::Unicast,
        RouteType::Local => RouteKind::Local,
        RouteType::Broadcast => RouteKind::Broadcast,
        RouteType::Anycast => RouteKind::Anycast,
        RouteType::Multicast => RouteKind::Multicast,
        RouteType::BlackHole => RouteKind::Blackhole,
        RouteType::Unreachable => RouteKind::Unreachable,
        RouteType::Prohibit => RouteKind::Prohibit,
        RouteType::Throw => RouteKind::Throw,
        _ => return Ok(Err(Some("a route of an unknown type"))),
    };
    let mut to = unspecified(is_v6);
    let mut route = Route {
        table: u32::from(header.table),
        to: Prefix::all(is_v6),
        metric: 0,
        kind,
        scope: header.scope.into(),
        source: None,
        mtu: None,
        hops: Vec::new(),
    };
    let mut first = Hop {
        device: 0,
        gateway: None,
        weight: 1,
        dead: header.flags.contains(RouteFlags::Dead),
        link_down: header.flags.contains(RouteFlags::Linkdown),
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => to = ip(address).unwrap_or(to),
            RouteAttribute::Oif(device) => first.device = *device,
            RouteAttribute::Gateway(_) | RouteAttribute::Via(_) => {
                first.gateway = gateway(attribute);
            }
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::PrefSource(address) => route.source = ip(address),
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Metrics(metrics) => {
                route.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) if *mtu > 0 => Some(*mtu),
                    _ => None,
                });
            }
            RouteAttribute::MultiPath(hops) => {
                route.hops.extend(hops.iter().map(|hop| Hop {
                    device: hop.interface_index,
                    gateway: hop.attributes.iter().find_map(gateway),
                    weight: u16::from(hop.hops) + 1,
                    dead: hop.flags.contains(RouteNextHopFlags::Dead),
                    link_down: hop.flags.contains(RouteNextHopFlags::Linkdown),
                }));
            }
            _ => {}
        }
    }
    if route.hops.is_empty() && first.device != 0 {
        route.hops.push(first);
    }
    if to.is_ipv6() != is_v6 {
        return Err("a route to an address of another family".to_owned());
    }
    route.to = Prefix::new(to, header.destination_prefix_length);
    Ok(Ok(route))
}

fn read_rule(message: &RuleMessage) -> Option<Rule> {
    let header = &message.header;
    let is_v6 = is_v6(header.family)?;
    let mut table = u32::from(header.table);
    let (mut target, mut has_mask) = (None, false);
    let mut rule = Rule {
        priority: 0,
        v6: is_v6,
        to: Prefix::all(is_v6),
        from: Prefix::all(is_v6),
        mark: 0,
        mask: 0,
        input: None,
        invert: header.flags.contains(RuleFlags::Invert),
        suppress_len: None,
        action: RuleAction::Nop,
        ignored: (header.tos != 0).then_some("a type of service"),
    };
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Destination(to) => rule.to = Prefix::new(*to, header.dst_len),
            RuleAttribute::Source(from) => rule.from = Prefix::new(*from, header.src_len),
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::FwMark(mark) => rule.mark = *mark,
            RuleAttribute::FwMask(mask) => (rule.mask, has_mask) = (*mask, true),
            RuleAttribute::Table(all) => table = *all,
            RuleAttribute::Goto(to) => target = Some(*to),
            RuleAttribute::Iifname(name) => rule.input = Some(name.clone()),
            RuleAttribute::SuppressPrefixLen(len) => rule.suppress_len = u8::try_from(*len).ok(),
            // A packet of this host that is bound to no device: no such rule holds for it.
            RuleAttribute::Oifname(name) => rule.input = Some(format!("to {name}")),
            RuleAttribute::L3MDev(true) => rule.input = Some("of a VRF".to_owned()),
            RuleAttribute::SuppressIfGroup(u32::MAX) => {}
            RuleAttribute::SuppressIfGroup(_) => rule.ignored = Some("a group of devices"),
            RuleAttribute::UidRange(_) => rule.ignored = Some("a user"),
            RuleAttribute::IpProtocol(_) => rule.ignored = Some("a protocol"),
            RuleAttribute::SourcePortRange(_) | RuleAttribute::DestinationPortRange(_) => {
                rule.ignored = Some("ports");
            }
            RuleAttribute::TunId(id) if *id != 0 => rule.ignored = Some("a tunnel's key"),
            RuleAttribute::Other(other) if other.kind() > FRA_DPORT_RANGE => {
                rule.ignored = Some("something newer");
            }
            _ => {}
        }
    }
    if !has_mask && rule.mark != 0 {
        rule.mask = u32::MAX;
    }
    if rule.to.address.is_ipv6() != is_v6 || rule.from.address.is_ipv6() != is_v6 {
        return None;
    }
    rule.action = match header.action {
        Action::ToTable => RuleAction::Table(table),
        Action::Goto => RuleAction::Goto(target?),
        Action::Blackhole => RuleAction::Blackhole,
        Action::Unreachable => RuleAction::Unreachable,
        Action::Prohibit => RuleAction::Prohibit,
        _ => RuleAction::Nop,
    };
    Some(rule)
}
