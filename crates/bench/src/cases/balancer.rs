//! The load balancer of figure 7: from outside, web traffic to a service goes to one of its two
//! servers by the first bit of the source; anything else is dropped. From servers, all goes outside.
//!
//! One table, as the paper's controller gives it; half of the traffic is for a service.

use super::case::{Case, anybody, draw};
use crate::frame::{Flow, Transport};
use crate::limit::{self, Limit};
use std::net::Ipv4Addr;

/// The port to the outside. Servers are behind ports 2 and the following ones.
pub(crate) const OUTSIDE: u32 = 1;

/// The use case.
pub(crate) struct Balancer {
    /// How many services.
    pub(crate) services: u32,
}

impl Balancer {
    /// With so many services.
    pub(crate) fn new(services: u32) -> Balancer {
        Balancer { services }
    }

    /// A service's address.
    pub(crate) fn address(service: u32) -> u32 {
        // 198.18.0.0/15, RFC 2544's.
        0xc612_0000 + 1 + service
    }

    /// The port of a service's server.
    pub(crate) fn server(service: u32, second: bool) -> u32 {
        2 + 2 * service + u32::from(second)
    }
}

impl Case for Balancer {
    fn name(&self) -> String {
        format!("lb:{}", self.services)
    }

    fn entries(&self, line: &mut dyn FnMut(String)) {
        for service in 0..self.services {
            let address = Ipv4Addr::from(Self::address(service));
            for (half, second) in [("0.0.0.0/1", false), ("128.0.0.0/1", true)] {
                let server = Self::server(service, second);
                line(format!(
                    "table=0,priority=100,tcp,in_port={OUTSIDE},nw_src={half},nw_dst={address},\
                     tp_dst=80,actions=output:{server}"
                ));
            }
        }
        line(format!("table=0,priority=50,in_port={OUTSIDE},actions=drop"));
        line(format!("table=0,priority=10,actions=output:{OUTSIDE}"));
    }

    fn flow(&self, n: u64) -> Flow {
        let mut random = draw(0x6c62, n);
        let service = random.below(self.services.into()) as u32;
        let src = random.next_u64() as u32;
        let flow = Flow { src, transport: Transport::Tcp, ..anybody(&mut random) };
        if n.is_multiple_of(2) {
            return Flow { dst: Self::address(service), dst_port: 80, ..flow };
        }
        // Another port of a service, or another address.
        if random.below(2) == 0 { Flow { dst: Self::address(service), ..flow } } else { flow }
    }

    fn limit(&self) -> Option<Box<dyn Limit>> {
        Some(Box::new(limit::Balancer::new(self)))
    }
}
