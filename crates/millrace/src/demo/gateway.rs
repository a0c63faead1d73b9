//! The access gateway of Molnár et al., *Dataplane Specialization for High-performance OpenFlow
//! Software Switching* (SIGCOMM 2016), §4.1.
//!
//! Customers, one VLAN each, whose users have private addresses that are the same in every VLAN.
//!
//! | table | does |
//! |---|---|
//! | 0 | users' traffic to its customer's table, untagged; the Internet's to table 120 |
//! | 1 to 10 | one a customer: known users get a public source address; others are dropped |
//! | 110 | 10,000 routes: next hop's address, time to live |
//! | 120 | public address back to VLAN, private address and user |
//!
//! The paper hands unknown users to a controller that admits them; here nobody does, so that they
//! show what must not pass.

use super::frames::{Datagram, PAYLOAD_MIN, Transport, mac};
use super::scene::{Scene, Tally};
use super::traffic::{self, Stream};
use port::memory::Handle;
use port::prng::Prng;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;

const CUSTOMERS: u32 = 10;
const USERS: u32 = 20;
const ROUTES: usize = 10_000;
const NEXT_HOPS: u64 = 64;
const STREAMS: usize = 4000;
/// VLAN of the first customer.
const VLAN_BASE: u16 = 101;
/// OpenFlow's VLAN_VID has bit 12 set where there is a tag (1.3.5 table 13).
const VID_PRESENT: u16 = 0x1000;
/// Indices of the ports.
const ACCESS: usize = 0;
const INTERNET: usize = 1;
/// Kinds of hardware addresses: users, next hops, the gateway.
const USER: u8 = 1;
const NEXT_HOP: u8 = 2;
const GATEWAY: u8 = 3;

/// A route: prefix, its length, and the next hop's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    prefix: u32,
    len: u32,
    hop: u32,
}

/// The scene.
pub(super) struct Gateway {
    routes: Vec<Route>,
    streams: Vec<Stream>,
}

/// Percent of routes by prefix length, roughly as the Internet's table has them; /24 takes the rest.
const LENGTHS: [(u32, u64); 16] = [
    (8, 1),
    (9, 1),
    (10, 1),
    (11, 1),
    (12, 1),
    (13, 1),
    (14, 1),
    (15, 1),
    (16, 3),
    (17, 1),
    (18, 2),
    (19, 3),
    (20, 5),
    (21, 6),
    (22, 12),
    (23, 10),
];

fn mask(len: u32) -> u32 {
    u32::MAX.checked_shl(32 - len).unwrap_or(0)
}

/// Addresses that a route may cover: unicast, neither private nor ours.
fn is_routable(prefix: u32, len: u32) -> bool {
    let [a, b, c, _] = Ipv4Addr::from(prefix).octets();
    let ours = Ipv4Addr::new(203, 0, 113, 0).to_bits() & mask(len) == prefix;
    (1..224).contains(&a) && !matches!((a, b, c), (10 | 127, _, _) | (192, 168, _)) && !ours
}

fn routes(random: &mut Prng) -> Vec<Route> {
    let mut seen = BTreeSet::new();
    let mut routes = Vec::with_capacity(ROUTES);
    while routes.len() < ROUTES {
        let mut draw = random.below(100);
        let mut len = 24;
        for (candidate, share) in LENGTHS {
            if draw < share {
                len = candidate;
                break;
            }
            draw -= share;
        }
        let prefix = random.next_u64() as u32 & mask(len);
        if is_routable(prefix, len) && seen.insert((prefix, len)) {
            routes.push(Route { prefix, len, hop: random.below(NEXT_HOPS) as u32 });
        }
    }
    routes
}

/// The longest route that covers an address, by looking at all of them.
fn route(routes: &[Route], dst: Ipv4Addr) -> Option<Route> {
    let covers = |r: &&Route| dst.to_bits() & mask(r.len) == r.prefix;
    routes.iter().filter(covers).max_by_key(|r| r.len).copied()
}

fn vlan(customer: u32) -> u16 {
    VLAN_BASE + customer as u16
}

fn private(user: u32) -> Ipv4Addr {
    Ipv4Addr::from(Ipv4Addr::new(10, 0, 0, 1).to_bits() + user)
}

fn public(customer: u32, user: u32) -> Ipv4Addr {
    Ipv4Addr::from(Ipv4Addr::new(203, 0, 113, 1).to_bits() + customer * USERS + user)
}

impl Gateway {
    /// The scene, the same each time.
    pub(super) fn new() -> Gateway {
        let mut random = Prng::new(0x6777);
        let routes = routes(&mut random);
        let streams = (0..STREAMS as u32).map(|n| stream(n, &routes, &mut random)).collect();
        Gateway { routes, streams }
    }
}

/// A stream between a user and a host on the Internet, or one that must not pass.
fn stream(n: u32, routes: &[Route], random: &mut Prng) -> Stream {
    let customer = random.below(CUSTOMERS.into()) as u32;
    let user = random.below(USERS.into()) as u32;
    let towards = routes[random.below(routes.len() as u64) as usize];
    let host = Ipv4Addr::from(towards.prefix | (random.next_u64() as u32 & !mask(towards.len)));
    let sizes = [PAYLOAD_MIN, PAYLOAD_MIN, PAYLOAD_MIN, 512, 1400];
    let up = Datagram {
        src_mac: mac(USER, customer * USERS + user),
        dst_mac: mac(GATEWAY, 0),
        vlan: Some(vlan(customer)),
        src: private(user),
        dst: host,
        ttl: 64,
        transport: if random.chance(0.5) { Transport::Tcp } else { Transport::Udp },
        src_port: 1024 + random.below(60_000) as u16,
        dst_port: [53, 80, 443, 8080][random.below(4) as usize],
        payload: sizes[random.below(5) as usize],
    };
    // How it looks on the other side of the gateway.
    let hop = route(routes, host).map_or(0, |r| r.hop);
    let beyond = Datagram {
        src_mac: mac(GATEWAY, 1),
        dst_mac: mac(NEXT_HOP, hop),
        vlan: None,
        src: public(customer, user),
        ttl: 63,
        ..up.clone()
    };
    match n % 16 {
        0..7 => Stream { port: ACCESS, frame: up.bytes(n), out: Some((INTERNET, beyond.bytes(n))) },
        7..14 => {
            let down = Datagram {
                src_mac: beyond.dst_mac,
                dst_mac: mac(GATEWAY, 1),
                src: host,
                dst: beyond.src,
                ttl: 58,
                src_port: up.dst_port,
                dst_port: up.src_port,
                ..beyond
            };
            let home = Datagram {
                src_mac: mac(GATEWAY, 0),
                dst_mac: up.src_mac,
                vlan: up.vlan,
                dst: up.src,
                ttl: 57,
                ..down.clone()
            };
            Stream { port: INTERNET, frame: down.bytes(n), out: Some((ACCESS, home.bytes(n))) }
        }
        // A user that the gateway does not know.
        14 => {
            let stranger = Datagram { src: private(USERS + user), ..up };
            Stream { port: ACCESS, frame: stranger.bytes(n), out: None }
        }
        // A customer that it does not know.
        _ => {
            let stranger = Datagram { vlan: Some(vlan(CUSTOMERS + customer)), ..up };
            Stream { port: ACCESS, frame: stranger.bytes(n), out: None }
        }
    }
}

impl Scene for Gateway {
    fn title(&self) -> String {
        format!("gateway: {CUSTOMERS} customers of {USERS} users, NAT, {ROUTES} routes")
    }

    fn ports(&self) -> Vec<String> {
        vec!["access".to_string(), "internet".to_string()]
    }

    fn flows(&self) -> Vec<String> {
        let (access, internet) = (ACCESS + 1, INTERNET + 1);
        let (inner, outer) = (mac(GATEWAY, 0), mac(GATEWAY, 1));
        let mut lines = Vec::new();
        for customer in 0..CUSTOMERS {
            let (vlan, table) = (vlan(customer), customer + 1);
            lines.push(format!("table=0,priority=100,in_port={access},dl_vlan={vlan},actions=pop_vlan,goto_table:{table}"));
            for user in 0..USERS {
                let (private, public) = (private(user), public(customer, user));
                lines.push(format!("table={table},priority=100,ip,nw_src={private},actions=set_field:{public}->ip_src,goto_table:110"));
                let (vid, user_mac) = (VID_PRESENT | vlan, mac(USER, customer * USERS + user));
                lines.push(format!(
                    "table=120,priority=100,ip,nw_dst={public},actions=set_field:{private}->ip_dst,dec_ttl,\
                     push_vlan:0x8100,set_field:{vid}->vlan_vid,set_field:{inner}->eth_src,set_field:{user_mac}->eth_dst,output:{access}"
                ));
            }
        }
        lines.push(format!("table=0,priority=100,in_port={internet},ip,actions=goto_table:120"));
        for Route { prefix, len, hop } in &self.routes {
            let (prefix, hop) = (Ipv4Addr::from(*prefix), mac(NEXT_HOP, *hop));
            lines.push(format!(
                "table=110,priority={len},ip,nw_dst={prefix}/{len},actions=set_field:{outer}->eth_src,\
                 set_field:{hop}->eth_dst,dec_ttl,output:{internet}"
            ));
        }
        lines
    }

    fn play(&mut self, ends: &[Handle], stop: &AtomicBool, tally: &Tally) {
        traffic::play(&self.streams, ends, stop, tally);
    }

    fn is_unicast(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_wins() {
        let routes = [
            Route { prefix: 0x0100_0000, len: 8, hop: 1 },
            Route { prefix: 0x0102_0000, len: 16, hop: 2 },
        ];
        let hop = |a: [u8; 4]| route(&routes, a.into()).map(|r| r.hop);
        assert_eq!(
            [hop([1, 2, 3, 4]), hop([1, 3, 3, 4]), hop([2, 0, 0, 1])],
            [Some(2), Some(1), None]
        );
    }

    #[test]
    fn the_scene_is_whole_and_always_the_same() {
        let (a, b) = (Gateway::new(), Gateway::new());
        assert_eq!(a.flows(), b.flows());
        assert_eq!(a.flows().len(), 10 + 2 * 200 + 1 + ROUTES);
        assert_eq!(a.streams.len(), STREAMS);
        assert!(a.streams.iter().any(|s| s.out.is_none()));
        assert!(
            a.routes.iter().all(|r| r.prefix & !mask(r.len) == 0 && is_routable(r.prefix, r.len))
        );
        assert!(!is_routable(0xcb00_7000, 20));
    }
}
