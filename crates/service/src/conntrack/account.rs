//! Packets and octets of connections, by direction: Linux's `nf_conntrack_acct`.
//!
//! Octets are those of IP packets, from the IP header on, as Linux counts them. Not counted are packets that are dropped,
//! invalid ones, and errors about a connection's packets.
//!
//! Invariant: without [`Config::accounting`](super::Config::accounting) there is no memory for it, and no place has an account.
//! Cost: 32 octets a connection, and another line of memory for each packet; without it, one comparison.
//! Checked by: the tests below, and those of [`image`](super::image).

use super::cells::Cells;
use super::state::Direction;
use crate::packet::Packet;

/// What was counted of a connection: the opener's direction, and the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// Packets.
    pub packets: [u64; 2],
    /// Octets of them, from the IP header on.
    pub octets: [u64; 2],
}

/// Accounts by the places of records; empty where nothing is counted.
#[derive(Debug)]
pub(super) struct Accounts(pub(super) Cells<[u64; 4]>);

impl Accounts {
    /// Room for so many connections. The memory is the system's until it is written to.
    pub(super) fn new(connections_max: usize) -> Accounts {
        Accounts(Cells::of(vec![[0; 4]; connections_max]))
    }

    /// Whether connections have accounts.
    #[inline(always)]
    pub(super) fn counts(&self) -> bool {
        !self.0.is_empty()
    }

    /// Octets taken.
    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<[u64; 4]>()
    }

    #[inline(always)]
    pub(super) fn add(&mut self, at: u32, direction: Direction, octets: u64) {
        if let Some(of) = self.0.get_mut(at as usize) {
            Accounts::add_to(of, direction, octets);
        }
    }

    #[inline(always)]
    pub(super) fn add_to(of: &mut [u64; 4], direction: Direction, octets: u64) {
        let way = direction as usize;
        of[way] += 1;
        of[way + 2] += octets;
    }

    /// What is known of the connection at this place.
    pub(super) fn get(&self, at: u32) -> Option<Account> {
        let of = self.0.get(at as usize)?;
        Some(Account { packets: [of[0], of[1]], octets: [of[2], of[3]] })
    }

    /// A connection begins with this much.
    pub(super) fn set(&mut self, at: u32, account: Account) {
        if let Some(of) = self.0.get_mut(at as usize) {
            let Account { packets, octets } = account;
            *of = [packets[0], packets[1], octets[0], octets[1]];
        }
    }
}

/// Octets of an IP packet.
#[inline(always)]
pub(super) fn octets(packet: &Packet<'_>) -> u64 {
    packet.at.end.saturating_sub(packet.at.l3).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conntrack::{Config, Outcome, Request, Tracker};
    use crate::craft::Frame;
    use std::net::IpAddr;
    use wire::tcp::Flags;

    const A: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 1000);
    const B: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 80);

    fn send(tracker: &mut Tracker, frames: &[Frame]) {
        let request = Request { commit: true, ..Request::default() };
        let mut bytes: Vec<Vec<u8>> = frames.iter().map(Frame::bytes).collect();
        let mut packets: Vec<_> = bytes.iter_mut().map(|frame| Packet::of(frame)).collect();
        let mut outcomes = vec![Outcome::default(); packets.len()];
        tracker.process(0, &request, &mut packets, &mut outcomes);
    }

    fn counts(tracker: &Tracker) -> Vec<Option<Account>> {
        tracker.connections(0).map(|connection| connection.account).collect()
    }

    #[test]
    fn packets_are_counted_by_direction_the_usual_and_the_others() {
        let config = Config { accounting: true, ..Config::new(10, 1) };
        let mut tracker = Tracker::new(config, 0);
        let tcp = |from, to, flags, numbers, len| Frame::tcp(from, to, flags, numbers, len);
        send(&mut tracker, &[tcp(A, B, Flags::SYN, (1, 0), 0)]);
        send(&mut tracker, &[tcp(B, A, Flags::SYN | Flags::ACK, (7, 2), 0)]);
        send(&mut tracker, &[tcp(A, B, Flags::ACK, (2, 8), 0), tcp(A, B, Flags::ACK, (2, 8), 100)]);
        // An answer beyond all windows is invalid, and not counted.
        send(&mut tracker, &[tcp(B, A, Flags::ACK, (1 << 30, 102), 0)]);
        let account = Account { packets: [3, 1], octets: [40 + 40 + 140, 40] };
        assert_eq!(counts(&tracker), [Some(account)]);
        // Another connection at the same place begins anew.
        tracker.flush(None);
        send(&mut tracker, &[Frame::udp(A, B, 10)]);
        assert_eq!(counts(&tracker), [Some(Account { packets: [1, 0], octets: [38, 0] })]);
    }

    #[test]
    fn without_the_option_nothing_is_counted_and_no_memory_taken() {
        let mut tracker = Tracker::new(Config::new(10, 1), 0);
        send(&mut tracker, &[Frame::udp(A, B, 10)]);
        assert_eq!(counts(&tracker), [None]);
        assert_eq!(tracker.accounts.bytes(), 0);
    }
}
