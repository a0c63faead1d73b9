//! Layer 3: a routing table; every frame's destination is in it. A route sets both addresses,
//! decrements the time to live and outputs.

use super::case::{Case, anybody, draw, mac, mac_text};
use super::routes::{self, Route};
use crate::frame::Flow;
use crate::limit::{self, Limit};
use port::prng::Prng;
use std::net::Ipv4Addr;

/// Next hops.
const HOPS: u32 = 64;
/// Ports that they are behind: 2 and the following ones. Traffic comes in by port 1.
const PORTS: u32 = 8;

/// A next hop: its address, ours, and the port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    /// Ethernet destination.
    pub(crate) dst: u64,
    /// Ethernet source.
    pub(crate) src: u64,
    /// The port.
    pub(crate) port: u32,
}

/// The use case.
pub(crate) struct L3 {
    /// The table.
    pub(crate) routes: Vec<Route>,
    /// The next hops by number.
    pub(crate) hops: Vec<Hop>,
}

impl L3 {
    /// With so many routes.
    pub(crate) fn new(routes: usize) -> L3 {
        let routes = routes::draw(routes, HOPS, &mut Prng::new(0x6c33));
        let hop = |n| Hop { dst: mac(2, n), src: mac(3, n % PORTS), port: 2 + n % PORTS };
        L3 { routes, hops: (0..HOPS).map(hop).collect() }
    }
}

impl Case for L3 {
    fn name(&self) -> String {
        format!("l3:{}", self.routes.len())
    }

    fn entries(&self, line: &mut dyn FnMut(String)) {
        for Route { prefix, len, hop } in &self.routes {
            let Hop { dst, src, port } = self.hops[*hop as usize];
            line(format!(
                "table=0,priority={len},ip,nw_dst={}/{len},actions=dec_ttl,set_field:{}->eth_src,\
                 set_field:{}->eth_dst,output:{port}",
                Ipv4Addr::from(*prefix),
                mac_text(src),
                mac_text(dst)
            ));
        }
    }

    fn flow(&self, n: u64) -> Flow {
        let route = self.routes[(n % self.routes.len() as u64) as usize];
        let mut random = draw(0x6c33, n);
        let dst = route.address(random.next_u64());
        Flow { dst, dst_mac: mac(3, 0), ..anybody(&mut random) }
    }

    fn limit(&self) -> Option<Box<dyn Limit>> {
        Some(Box::new(limit::L3::new(self)))
    }
}
