//! The access gateway of figure 8: users' traffic to the Internet and back.
//!
//! | table | does |
//! |---|---|
//! | 0 | a customer's VLAN to its table, untagged; the Internet's traffic to table 120 |
//! | 1 and following | one a customer: a user's private source address becomes its public one |
//! | 110 | routes: addresses, time to live, output |
//! | 120 | a public address to its user: private address, tag, addresses, time to live, output |
//!
//! Users that nobody has admitted miss their customer's table and are dropped; in the paper, a
//! controller hears of them. Half of the traffic goes each way.

use super::case::{Case, anybody, draw, mac, mac_text};
use super::routes::{self, Route};
use crate::frame::Flow;
use crate::limit::{self, Limit};
use port::prng::Prng;
use std::net::Ipv4Addr;

/// The port to users.
pub(crate) const ACCESS: u32 = 1;
/// The port to the Internet.
pub(crate) const INTERNET: u32 = 2;
/// The table of routes.
pub(crate) const ROUTES: u8 = 110;
/// The table of users by public address.
const BACK: u8 = 120;
/// VLAN of the first customer.
const VLAN_BASE: u16 = 101;
/// Customers' tables come before that of routes.
pub(crate) const CUSTOMERS_MAX: u32 = 108;
/// Addresses of users lie in 10.0.0.0/16 and 100.64.0.0/10.
pub(crate) const USERS_MAX: u32 = 20_000;
const HOPS: u32 = 64;
/// Kinds of addresses.
const USER: u8 = 1;
const HOP: u8 = 2;
const OURS: u8 = 3;

/// The use case.
pub(crate) struct Gateway {
    /// How many customers.
    pub(crate) customers: u32,
    /// Users of each.
    pub(crate) users: u32,
    /// The table of routes.
    pub(crate) routes: Vec<Route>,
}

impl Gateway {
    /// `CxU,R`.
    pub(crate) fn parse(text: &str) -> Option<Gateway> {
        let text = if text.is_empty() { "10x20,10000" } else { text };
        let (people, routes) = text.split_once(',')?;
        let (customers, users) = people.split_once('x')?;
        let number = |text: &str, max| text.parse().ok().filter(|n| (1..=max).contains(n));
        let customers = number(customers, CUSTOMERS_MAX)?;
        let users = number(users, USERS_MAX)?;
        Some(Gateway::new(customers, users, number(routes, 1_000_000)? as usize))
    }

    /// With so many of each.
    pub(crate) fn new(customers: u32, users: u32, routes: usize) -> Gateway {
        let routes = routes::draw(routes, HOPS, &mut Prng::new(0x6777));
        Gateway { customers, users, routes }
    }

    /// A customer's VLAN.
    pub(crate) fn vlan(customer: u32) -> u16 {
        VLAN_BASE + customer as u16
    }

    /// The number of a customer's table.
    pub(crate) fn table(customer: u32) -> u8 {
        1 + customer as u8
    }

    /// A user's private address, which one of each customer has.
    pub(crate) fn private(user: u32) -> u32 {
        0x0a00_0001 + user
    }

    /// A user's public address.
    pub(crate) fn public(&self, customer: u32, user: u32) -> u32 {
        0x6440_0001 + customer * self.users + user
    }

    /// A user's Ethernet address.
    pub(crate) fn user_mac(&self, customer: u32, user: u32) -> u64 {
        mac(USER, customer * self.users + user)
    }

    /// A next hop's Ethernet address.
    pub(crate) fn hop_mac(hop: u32) -> u64 {
        mac(HOP, hop)
    }

    /// Ours, towards users or the Internet.
    pub(crate) fn our_mac(port: u32) -> u64 {
        mac(OURS, port)
    }

    /// A flow of a user to an address, as it leaves the user.
    pub(crate) fn upstream(customer: u32, user: u32, dst: u32, flow: Flow) -> Flow {
        Flow {
            in_port: ACCESS,
            dst_mac: Self::our_mac(ACCESS),
            vlan: Some(Self::vlan(customer)),
            src: Self::private(user),
            dst,
            ..flow
        }
    }
}

impl Case for Gateway {
    fn name(&self) -> String {
        format!("gateway:{}x{},{}", self.customers, self.users, self.routes.len())
    }

    fn entries(&self, line: &mut dyn FnMut(String)) {
        let (inner, outer) = (Self::our_mac(ACCESS), Self::our_mac(INTERNET));
        let (inner, outer) = (mac_text(inner), mac_text(outer));
        for customer in 0..self.customers {
            let (vlan, table) = (Self::vlan(customer), Self::table(customer));
            line(format!(
                "table=0,priority=100,in_port={ACCESS},dl_vlan={vlan},actions=pop_vlan,goto_table:{table}"
            ));
            for user in 0..self.users {
                let private = Ipv4Addr::from(Self::private(user));
                let public = Ipv4Addr::from(self.public(customer, user));
                line(format!(
                    "table={table},priority=100,ip,nw_src={private},actions=set_field:{public}->ip_src,\
                     goto_table:{ROUTES}"
                ));
                // OpenFlow's VLAN_VID has bit 12 set where there is a tag (1.3.5 table 13).
                let (vid, user_mac) = (0x1000 | vlan, mac_text(self.user_mac(customer, user)));
                line(format!(
                    "table={BACK},priority=100,ip,nw_dst={public},actions=set_field:{private}->ip_dst,\
                     dec_ttl,push_vlan:0x8100,set_field:{vid}->vlan_vid,set_field:{inner}->eth_src,\
                     set_field:{user_mac}->eth_dst,output:{ACCESS}"
                ));
            }
        }
        line(format!("table=0,priority=100,in_port={INTERNET},ip,actions=goto_table:{BACK}"));
        for Route { prefix, len, hop } in &self.routes {
            let (prefix, hop) = (Ipv4Addr::from(*prefix), mac_text(Self::hop_mac(*hop)));
            line(format!(
                "table={ROUTES},priority={len},ip,nw_dst={prefix}/{len},actions=set_field:{outer}->eth_src,\
                 set_field:{hop}->eth_dst,dec_ttl,output:{INTERNET}"
            ));
        }
    }

    fn flow(&self, n: u64) -> Flow {
        let mut random = draw(0x6777, n);
        let all = u64::from(self.customers) * u64::from(self.users);
        let who = (n / 2 % all) as u32;
        // Neighbours among flows are users of different customers.
        let (customer, user) = (who % self.customers, who / self.customers);
        let route = self.routes[random.below(self.routes.len() as u64) as usize];
        let host = route.address(random.next_u64());
        let flow = anybody(&mut random);
        if n.is_multiple_of(2) {
            return Self::upstream(customer, user, host, flow);
        }
        Flow {
            in_port: INTERNET,
            dst_mac: Self::our_mac(INTERNET),
            src: host,
            dst: self.public(customer, user),
            ..flow
        }
    }

    fn limit(&self) -> Option<Box<dyn Limit>> {
        Some(Box::new(limit::Gateway::new(self)))
    }

    fn gateway(&self) -> Option<&Gateway> {
        Some(self)
    }
}
