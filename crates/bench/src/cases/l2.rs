//! Layer 2: a table of random addresses; every frame's destination is in it.

use super::case::{Case, anybody, draw, mac_text};
use crate::frame::Flow;
use crate::limit::{self, Limit};
use port::prng::Prng;
use std::collections::HashSet;

/// Ports that stations are behind: 2 and the following ones. Traffic comes in by port 1.
const PORTS: u64 = 8;

/// The use case.
pub(crate) struct L2 {
    /// Address and port of each station.
    pub(crate) stations: Vec<(u64, u32)>,
}

impl L2 {
    /// With so many stations.
    pub(crate) fn new(stations: usize) -> L2 {
        let mut random = Prng::new(0x6c32);
        let mut seen = HashSet::with_capacity(stations);
        while seen.len() < stations {
            // Unicast: the lowest bit of the first byte is zero.
            seen.insert(random.next_u64() >> 16 & !(1 << 40));
        }
        let mut addresses: Vec<u64> = seen.into_iter().collect();
        // A set's order is another one each time.
        addresses.sort_unstable();
        let mut shuffle = Prng::new(0x6c33);
        for i in (1..addresses.len()).rev() {
            addresses.swap(i, shuffle.below(i as u64 + 1) as usize);
        }
        let port = |n: usize| 2 + (n as u64 % PORTS) as u32;
        let stations = addresses.into_iter().enumerate().map(|(n, mac)| (mac, port(n))).collect();
        L2 { stations }
    }
}

impl Case for L2 {
    fn name(&self) -> String {
        format!("l2:{}", self.stations.len())
    }

    fn entries(&self, line: &mut dyn FnMut(String)) {
        for (mac, port) in &self.stations {
            line(format!("table=0,priority=10,dl_dst={},actions=output:{port}", mac_text(*mac)));
        }
    }

    fn flow(&self, n: u64) -> Flow {
        let (dst_mac, _) = self.stations[(n % self.stations.len() as u64) as usize];
        Flow { dst_mac, ..anybody(&mut draw(0x6c32, n)) }
    }

    fn limit(&self) -> Option<Box<dyn Limit>> {
        Some(Box::new(limit::L2::new(self)))
    }
}
