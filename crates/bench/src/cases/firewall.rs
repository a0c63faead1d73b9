//! The firewall of figure 1, scaled: the inside goes everywhere, the outside to services of servers.
//!
//! Besides, as any such list has them: sources that are blocked, a network that may manage, echo
//! requests. What no entry allows is dropped. One table, with some ten different masks.

use super::case::{Case, anybody, draw};
use super::routes::mask;
use crate::frame::{Flow, Transport};
use crate::limit::{self, Limit};
use port::prng::Prng;
use std::net::Ipv4Addr;

/// The port to the outside.
pub(crate) const OUTSIDE: u32 = 1;
/// The port to the inside, servers included.
pub(crate) const INSIDE: u32 = 2;
/// Ports of each server's services.
pub(crate) const SERVICES: [u16; 2] = [80, 443];
/// The network that may manage: 203.0.113.0/24.
pub(crate) const MANAGERS: u32 = 0xcb00_7100;
/// Blocked networks.
const BLOCKED: usize = 16;

/// What a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From outside to a service.
    Service,
    /// From inside.
    Outbound,
    /// From a blocked source to a service.
    Blocked,
    /// A manager's.
    Management,
    /// An echo request.
    Echo,
    /// To a port that is no service.
    Denied,
}

/// The use case.
pub(crate) struct Firewall {
    /// How many servers.
    pub(crate) servers: u32,
    /// Blocked networks: prefix, length.
    pub(crate) blocked: Vec<(u32, u32)>,
}

impl Firewall {
    /// With so many servers.
    pub(crate) fn new(servers: u32) -> Firewall {
        let mut random = Prng::new(0x6677);
        let mut blocked: Vec<(u32, u32)> = Vec::new();
        while blocked.len() < BLOCKED {
            let len = [12, 14, 16, 18, 20, 22, 23, 24][blocked.len() % 8];
            // 32.0.0.0/3: far from everybody else.
            let prefix = (0x2000_0000 | random.next_u64() as u32 >> 3) & mask(len);
            let apart = |(p, l): &(u32, u32)| (p ^ prefix) & mask(len.min(*l)) != 0;
            if blocked.iter().all(apart) {
                blocked.push((prefix, len));
            }
        }
        Firewall { servers, blocked }
    }

    /// A server's address.
    pub(crate) fn address(server: u32) -> u32 {
        0xc612_0000 + 1 + server
    }

    /// What flow `n` is.
    pub(crate) fn kind(n: u64) -> Kind {
        match n % 20 {
            0 | 2 | 5 | 7 | 10 | 12 | 15 | 17 => Kind::Service,
            1 | 3 | 6 | 8 | 11 | 13 | 16 => Kind::Outbound,
            4 => Kind::Blocked,
            9 => Kind::Management,
            14 => Kind::Echo,
            _ => Kind::Denied,
        }
    }
}

impl Case for Firewall {
    fn name(&self) -> String {
        format!("firewall:{}", self.servers)
    }

    fn entries(&self, line: &mut dyn FnMut(String)) {
        for (prefix, len) in &self.blocked {
            let prefix = Ipv4Addr::from(*prefix);
            line(format!(
                "table=0,priority=100,ip,in_port={OUTSIDE},nw_src={prefix}/{len},actions=drop"
            ));
        }
        for server in 0..self.servers {
            let address = Ipv4Addr::from(Self::address(server));
            for port in SERVICES {
                line(format!(
                    "table=0,priority=90,tcp,in_port={OUTSIDE},nw_dst={address},tp_dst={port},\
                     actions=output:{INSIDE}"
                ));
            }
        }
        let managers = Ipv4Addr::from(MANAGERS);
        line(format!(
            "table=0,priority=80,tcp,in_port={OUTSIDE},nw_src={managers}/24,tp_dst=22,actions=output:{INSIDE}"
        ));
        line(format!(
            "table=0,priority=70,icmp,in_port={OUTSIDE},icmp_type=8,actions=output:{INSIDE}"
        ));
        line(format!("table=0,priority=60,in_port={INSIDE},actions=output:{OUTSIDE}"));
        line("table=0,priority=0,actions=drop".to_string());
    }

    fn flow(&self, n: u64) -> Flow {
        let mut random = draw(0x6677, n);
        let server = Self::address(random.below(self.servers.into()) as u32);
        let service = SERVICES[random.below(2) as usize];
        let draw = random.next_u64();
        let blocked = self.blocked[(draw >> 32) as usize % self.blocked.len()];
        let flow = Flow { in_port: OUTSIDE, dst: server, ..anybody(&mut random) };
        let web = Flow { transport: Transport::Tcp, dst_port: service, ..flow };
        match Self::kind(n) {
            Kind::Service => web,
            Kind::Outbound => Flow { in_port: INSIDE, src: flow.dst, dst: flow.src, ..flow },
            Kind::Blocked => Flow { src: blocked.0 | (draw as u32 & !mask(blocked.1)), ..web },
            Kind::Management => {
                let src = MANAGERS | (draw as u32 & 0xff);
                Flow { src, transport: Transport::Tcp, dst_port: 22, ..flow }
            }
            Kind::Echo => Flow { transport: Transport::Icmp, ..flow },
            Kind::Denied => flow,
        }
    }

    fn limit(&self) -> Option<Box<dyn Limit>> {
        Some(Box::new(limit::Firewall::new(self)))
    }
}
