//! The pipelines of Jackson et al., *SoftFlow: A Middlebox Architecture for Open vSwitch* (USENIX ATC 2016), §7.2.
//!
//! - A: 500 Ethernet destinations, 500 prefixes, 500 access rules in front of a firewall that tracks connections, and a
//!   table of ports, which decrements the time to live.
//! - B: A, then a transcoder of payloads (AES-128 in CBC), then a translation of the destination to 10.0.0.0/8 by
//!   plain flow entries.
//! - C: A with the balancer of eight buckets behind the firewall.
//! - `d:N`: N services that do nothing, one behind another.
//!
//! What comes back from a service is handled at the beginning of table 0, as the paper's figure 4 has it. Flows
//! follow the published statistics of trace T2: 64-byte frames of 11,000 addresses, four conversations of TCP for
//! three of UDP; active flows are its conversations.

use super::case::{Case, anybody, draw, mac, mac_text};
use crate::frame::{Flow, Transport};
use crate::limit::Limit;
use std::net::Ipv4Addr;

/// Addresses, prefixes and access rules, each.
const RULES: u32 = 500;
/// Hosts that talk.
const HOSTS: u64 = 11_000;
/// Services behind each other, at most.
pub(crate) const CHAIN_MAX: u32 = 8;

/// Which of the pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pipeline {
    /// A firewall.
    A,
    /// And a transcoder.
    B,
    /// A firewall and a balancer.
    C,
    /// So many services that do nothing.
    D(u32),
}

/// The use case.
pub(crate) struct Softflow {
    pipeline: Pipeline,
}

impl Softflow {
    /// By its name: a, b, c or d:N.
    pub(crate) fn parse(name: &str) -> Option<Softflow> {
        let pipeline = match name {
            "" | "a" => Pipeline::A,
            "b" => Pipeline::B,
            "c" => Pipeline::C,
            _ => {
                let n = name.strip_prefix("d:")?.parse().ok()?;
                (1..=CHAIN_MAX).contains(&n).then_some(Pipeline::D(n))?
            }
        };
        Some(Softflow { pipeline })
    }

    /// The `n`-th prefix, a /16.
    fn prefix(n: u32) -> u32 {
        (0x1400 + n) << 16
    }
}

impl Case for Softflow {
    fn name(&self) -> String {
        match self.pipeline {
            Pipeline::A => "softflow:a".to_string(),
            Pipeline::B => "softflow:b".to_string(),
            Pipeline::C => "softflow:c".to_string(),
            Pipeline::D(n) => format!("softflow:d:{n}"),
        }
    }

    fn services(&self) -> Vec<String> {
        let firewall = "fw conntrack connections=1000000".to_string();
        match self.pipeline {
            Pipeline::A => vec![firewall],
            Pipeline::B => {
                let key = "key=000102030405060708090a0b0c0d0e0f";
                vec![firewall, format!("aes transcoder direction=encrypt mode=cbc {key}")]
            }
            Pipeline::C => vec![firewall, "lb balancer8".to_string()],
            Pipeline::D(_) => vec!["idle noop".to_string()],
        }
    }

    fn entries(&self, line: &mut dyn FnMut(String)) {
        if let Pipeline::D(n) = self.pipeline {
            for stage in 0..n {
                line(format!("priority=100,sf_stage={stage},ip actions=softflow(idle)"));
            }
            line(format!("priority=100,sf_stage={n},ip actions=output:2"));
            return;
        }
        // What comes back, in front of all else.
        let last = match self.pipeline {
            Pipeline::B => "goto_table:4",
            _ => "goto_table:3",
        };
        let passed = match self.pipeline {
            Pipeline::B => "softflow(aes)",
            Pipeline::C => "softflow(lb)",
            _ => last,
        };
        line(format!("priority=1000,sf_stage=1,sf_action=fw,sf_metadata=1 actions={passed}"));
        line("priority=900,sf_stage=1,sf_action=fw actions=drop".to_string());
        match self.pipeline {
            Pipeline::B => line(format!("priority=1000,sf_stage=2,sf_action=aes actions={last}")),
            // A bucket is a port; port 2 and the following ones.
            Pipeline::C => {
                for bucket in 0..8 {
                    line(format!(
                        "priority=1000,sf_stage=2,sf_action=lb,sf_metadata={bucket} \
                         actions=output:{}",
                        2 + bucket
                    ));
                }
            }
            _ => {}
        }
        for n in 0..RULES {
            let address = mac_text(mac(0x5f, n));
            line(format!("priority=100,dl_dst={address} actions=goto_table:1"));
            let prefix = Ipv4Addr::from(Self::prefix(n));
            line(format!("table=1,priority=100,ip,nw_dst={prefix}/16 actions=goto_table:2"));
        }
        // Access rules look at the transport ports and at prefixes of the source; half of them allow.
        for n in 0..RULES {
            let (protocol, source) = (["tcp", "udp"][n as usize % 2], 0x0b00_0000 | n << 13);
            let port = 1024 + n * 97;
            let argument = u32::from(n % 4 < 2);
            line(format!(
                "table=2,priority={},{protocol},nw_src={}/19,tp_dst={port} \
                 actions=softflow(fw,{argument})",
                1000 + n,
                Ipv4Addr::from(source)
            ));
        }
        line("table=2,priority=10,tcp actions=softflow(fw,1)".to_string());
        line("table=2,priority=10,udp actions=softflow(fw,1)".to_string());
        line("table=2,priority=1 actions=softflow(fw)".to_string());
        if self.pipeline == Pipeline::B {
            line("table=4,ip actions=load:0x0a->NXM_OF_IP_DST[24..31],goto_table:5".to_string());
        }
        let ports = if self.pipeline == Pipeline::B { 5 } else { 3 };
        for n in 0..RULES {
            let address = mac_text(mac(0x5f, n));
            line(format!("table={ports},dl_dst={address} actions=dec_ttl,output:{}", 2 + n % 8));
        }
    }

    fn flow(&self, n: u64) -> Flow {
        let mut random = draw(0x7366, n);
        let udp = n % 7 >= 4;
        let (host, to) = (random.below(HOSTS) as u32, random.below(u64::from(RULES)) as u32);
        Flow {
            dst_mac: mac(0x5f, to),
            src: 0x0b00_0000 | host << 8,
            dst: Self::prefix(random.below(u64::from(RULES)) as u32) | random.below(1 << 16) as u32,
            transport: if udp { Transport::Udp } else { Transport::Tcp },
            ..anybody(&mut random)
        }
    }

    fn limit(&self) -> Option<Box<dyn Limit>> {
        None
    }
}
