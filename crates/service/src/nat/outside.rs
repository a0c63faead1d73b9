//! What is taken of a tracker's outside addresses, for metrics.
//!
//! Cost: time that grows with the addresses, none of it on a packet's way.
//! Checked by: the tests here.

use super::{Blocks, Ports, address};
use crate::conntrack::Tracker;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// An outside address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// Inside sockets that have a port of it, of all protocols.
    pub sockets: u64,
    /// Ports that it has for each protocol.
    pub ports: u32,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outside {
    /// In order; at most as many as were asked for.
    pub addresses: Vec<Address>,
    /// Those beyond.
    pub left_out: u64,
    /// Connections for which there was nothing left.
    pub exhausted: u64,
    /// Blocks of ports in use, and of how many, of pools that give out blocks.
    pub blocks: Option<(usize, usize)>,
}

impl Tracker {
    /// What is taken of the addresses of its pools; at most so many addresses one by one.
    pub fn outside(&self, most: usize) -> Outside {
        let mut ports: BTreeMap<(bool, u128), u32> = BTreeMap::new();
        let mut beyond: u128 = 0;
        for pool in &self.pools {
            beyond = beyond.saturating_add(pool.count.saturating_sub(most as u128));
            let of_each = match pool.ports {
                Ports::Keep => u32::from(u16::MAX) + 1,
                Ports::Range(first, last)
                | Ports::Blocks { first, last, .. }
                | Ports::Deterministic { first, last, .. } => u32::from(last - first) + 1,
            };
            for n in 0..pool.count.min(most as u128) {
                let has = ports.entry((pool.v6, pool.first + n)).or_default();
                *has = of_each.max(*has);
            }
        }
        beyond = beyond.saturating_add(ports.len().saturating_sub(most) as u128);
        let sockets: BTreeMap<_, _> = self.mappings.outside().collect();
        let addresses = ports.into_iter().take(most).map(|((v6, bits), ports)| Address {
            address: address(bits, v6),
            sockets: sockets.get(&(bits, v6)).copied().unwrap_or_default(),
            ports,
        });
        let blocks = self.pools.iter().filter_map(|pool| pool.blocks.as_ref().map(Blocks::used));
        Outside {
            addresses: addresses.collect(),
            left_out: u64::try_from(beyond).unwrap_or(u64::MAX),
            exhausted: self.pools.iter().map(|pool| pool.exhausted).sum(),
            blocks: blocks.reduce(|(used, of), (more, of_more)| (used + more, of + of_more)),
        }
    }
}

impl Blocks {
    /// Blocks that senders have, of how many.
    pub(super) fn used(&self) -> (usize, usize) {
        (self.total - self.free.len(), self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conntrack::{Config, Nat, Outcome, Request};
    use crate::craft::Frame;
    use crate::nat::{Pool, Rule};
    use crate::packet::Packet;

    fn v4(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn sockets_are_counted_at_the_address_that_they_have_a_port_of() {
        let config = Config { translated_max: 5000, ..Config::new(5000, 7) };
        let mut tracker = Tracker::new(config, 0);
        let ports = Ports::Blocks { first: 1000, last: 1199, size: 100, blocks_max: 1 };
        let pool = Pool::new(v4("198.51.100.1"), v4("198.51.100.2"), ports).unwrap();
        let rule = Rule { source: Some(tracker.add_pool(pool)), destination: None };
        let request = Request { commit: true, nat: Nat::New(rule), ..Request::default() };
        assert_eq!(tracker.outside(9).blocks, Some((0, 4)));
        // Five senders, of which four find a block of ports; each has two sockets, and speaks to two servers.
        for (sender, port, server) in
            (1..=5).flat_map(|n| [(n, 1, 1), (n, 1, 2), (n, 2, 1), (n, 2, 2)])
        {
            let from = (IpAddr::from([10, 0, 0, sender]), 4000 + port);
            let mut frame = Frame::udp(from, (IpAddr::from([192, 0, 2, server]), 53), 4).bytes();
            let mut outcome = [Outcome::default()];
            tracker.process(0, &request, &mut [Packet::of(&mut frame)], &mut outcome);
            assert_eq!(outcome[0].drop.is_some(), sender == 5);
        }
        let told = tracker.outside(9);
        let of = |told: &Outside| {
            told.addresses
                .iter()
                .map(|one| (one.address, one.sockets, one.ports))
                .collect::<Vec<_>>()
        };
        let expected = [(v4("198.51.100.1"), 4, 200), (v4("198.51.100.2"), 4, 200)];
        assert_eq!((of(&told), told.left_out), (expected.to_vec(), 0));
        assert_eq!((told.exhausted, told.blocks), (4, Some((4, 4))));
        let one = tracker.outside(1);
        assert_eq!((of(&one), one.left_out), (expected[..1].to_vec(), 1));
        tracker.flush(None);
        let none = tracker.outside(9);
        assert!(none.addresses.iter().all(|one| one.sockets == 0), "{none:?}");
    }
}
