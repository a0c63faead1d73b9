//! Which outside port an inside socket has: endpoint-independent mapping (RFC 4787 REQ-1).
//!
//! A socket that talks to several ends is to look the same to all of them, so that one can tell another where to reach
//! it (STUN, hole punching). The first connection of a socket at an outside address decides; while one of
//! those that have its port is there, new ones are offered the same port. What is found here is an offer: a port
//! that is taken towards the new end serves another socket there, and this one gets another port.
//!
//! Invariant: a socket's count is not more than the connections kept that have its port.
//! Cost: 16 octets a socket, one look-up for each connection that is opened or goes, and one more for a socket's first and
//! last: sockets of each outside address are counted, for metrics. Sockets are known by a keyed
//! hash alone; two that share one only share an offer.
//! Checked by: the tests of [`nat`](super).

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The outside ports of inside sockets.
#[derive(Debug)]
pub(crate) struct Mappings {
    of: HashMap<u64, (u16, u32), FixedState>,
    /// Sockets that have a port, of each outside address; whether it is IPv6's.
    at: HashMap<(u128, bool), u64, FixedState>,
}

impl Mappings {
    /// Room for so many sockets, so that it does not grow while packets wait.
    pub(crate) fn new(sockets_max: usize) -> Mappings {
        let seed = FixedState::with_seed(0);
        let of = HashMap::with_capacity_and_hasher(sockets_max, seed.clone());
        Mappings { of, at: HashMap::with_hasher(seed) }
    }

    /// Octets taken.
    pub(crate) fn bytes(&self) -> usize {
        self.of.allocation_size() + self.at.allocation_size()
    }

    /// Whether no socket has one.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty() && self.at.is_empty()
    }

    /// The port of a socket.
    pub(crate) fn get(&self, socket: u64) -> Option<u16> {
        self.of.get(&socket).map(|(port, _)| *port)
    }

    /// Outside addresses at which sockets have ports, whether they are IPv6's, and how many sockets.
    pub(crate) fn outside(&self) -> impl Iterator<Item = ((u128, bool), u64)> + '_ {
        self.at.iter().map(|(address, sockets)| (*address, *sockets))
    }

    /// A connection of the socket has this port of this outside address.
    pub(crate) fn note(&mut self, socket: u64, outside: (u128, bool), port: u16) {
        let at = &mut self.at;
        let (has, connections) = self.of.entry(socket).or_insert_with(|| {
            *at.entry(outside).or_default() += 1;
            (port, 0)
        });
        if *has == port {
            *connections += 1;
        }
    }

    /// Such a connection is gone.
    pub(crate) fn forget(&mut self, socket: u64, outside: (u128, bool), port: u16) {
        let Some((has, connections)) = self.of.get_mut(&socket) else { return };
        if *has != port {
            return;
        }
        *connections -= 1;
        if *connections == 0 {
            self.of.remove(&socket);
            if let Some(sockets) = self.at.get_mut(&outside) {
                *sockets -= 1;
                if *sockets == 0 {
                    self.at.remove(&outside);
                }
            }
        }
    }
}
