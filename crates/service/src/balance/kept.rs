//! Which flows a balancer remembers, as people see them, and as another process goes on with them.
//!
//! A flow's addresses are written when it is given a backend, beside [`Memory`](super::Memory), so that packets of flows that
//! are known touch nothing more. The memory is the system's until a flow is written there.
//!
//! # Image
//!
//! All numbers have their least significant octet first. `millbal1`; the number of backends (4 octets), and of each the number
//! that it has (2), its name as a number (8), flows, packets and octets (8 each); the balancer's counters (8 each, in the order
//! of [`Counters`]); then flows up to the end: hash (8), seconds without a packet (4), backend's number (2), addresses (40).
//! Which backend a hash is given depends on the service's `key=`; a reader with another key takes no flow, since it would not be
//! found: the key's own hash (8) stands before the backends.
//!
//! Checked by: the tests below.

use super::{Balancer, Counters, Flow, WAYS};
use crate::conntrack::parse::{self, Subject};
use crate::conntrack::{Connection, Role, Tuple};
use crate::kept::{Given, Kept};
use crate::packet::{Network, Packet};
use wire::IpProtocol;

/// A flow's ends: source and destination, two words each; then ports, protocol and what it is.
pub(super) type Ends = [u64; 5];

const IS_V6: u64 = 1 << 40;
const IS_QUERY: u64 = 1 << 41;
const MAGIC: &[u8; 8] = b"millbal1";

/// The ends of a packet's flow; all 0 for what is no IP packet.
pub(super) fn ends(packet: &Packet<'_>) -> Ends {
    if packet.at.network == Network::Other {
        return [0; 5];
    }
    let tuple = match parse::subject(packet, 0, false) {
        Subject::Flow { tuple, .. }
        | Subject::Fragment { tuple, .. }
        | Subject::Error { tuple } => tuple,
        _ => return [0; 5],
    };
    let two = |address: u128| [address as u64, (address >> 64) as u64];
    let ([a, b], [c, d]) = (two(tuple.src), two(tuple.dst));
    let query = if tuple.is_query() { IS_QUERY } else { 0 };
    let v6 = if tuple.v6 { IS_V6 } else { 0 };
    let ports = u64::from(tuple.src_port) | u64::from(tuple.dst_port) << 16;
    [a, b, c, d, ports | u64::from(tuple.protocol.0) << 32 | v6 | query]
}

fn tuple([a, b, c, d, rest]: Ends) -> Tuple {
    let one = |low: u64, high: u64| u128::from(low) | u128::from(high) << 64;
    Tuple {
        src: one(a, b),
        dst: one(c, d),
        src_port: rest as u16,
        dst_port: (rest >> 16) as u16,
        zone: 0,
        protocol: IpProtocol((rest >> 32) as u8),
        v6: rest & IS_V6 != 0,
        role: if rest & IS_QUERY != 0 { Role::Request } else { Role::Any },
    }
}

impl Balancer {
    /// Flows that are remembered and whose backend takes them, in so many sets from this one on; the set to go on from.
    pub(super) fn page(
        &self,
        now_s: u32,
        from: usize,
        sets: usize,
        see: &mut dyn FnMut(Kept),
    ) -> Option<usize> {
        let now = now_s.saturating_add(1);
        let all = &self.memory.sets;
        let end = all.len().min(from.saturating_add(sets.max(1)));
        for (set, flows) in all.iter().enumerate().take(end).skip(from) {
            for (way, flow) in flows.iter().enumerate() {
                let idle = now.saturating_sub(flow.seen);
                if flow.hash == 0 || idle > self.memory.idle_timeout_s || !self.is_its(flow) {
                    continue;
                }
                let original = tuple(self.ends[set * WAYS + way]);
                let connection = Connection {
                    original,
                    reply: original.inverted(),
                    mark: 0,
                    label: 0,
                    tcp: None,
                    sctp: None,
                    replied: false,
                    assured: false,
                    timeout: self.memory.idle_timeout_s - idle,
                    account: None,
                };
                see(Kept { connection, backend: Some(flow.place + 1) });
            }
        }
        (end < all.len()).then_some(end)
    }

    pub(super) fn is_its(&self, flow: &Flow) -> bool {
        let known = self.backends.get(usize::from(flow.place));
        known
            .is_some_and(|known| known.holder == flow.holder && known.health != super::Health::Down)
    }

    /// What backends were given, those that there are.
    pub(super) fn given(&self) -> Vec<Given> {
        let listed = (1..).zip(&self.backends).filter(|(_, known)| known.name != 0);
        let given = |(number, known): (u16, &super::Known)| Given {
            number,
            flows: known.flows,
            packets: known.packets,
            octets: known.octets,
        };
        listed.map(given).collect()
    }

    /// The image of all that it remembers. `key` tells which flows have which hash.
    pub(super) fn export(&self, now_s: u32, key: u64) -> Vec<u8> {
        let now = now_s.saturating_add(1);
        let mut out = MAGIC.to_vec();
        let word = |out: &mut Vec<u8>, n: u64| out.extend(n.to_le_bytes());
        word(&mut out, key);
        let given = self.given();
        out.extend((given.len() as u32).to_le_bytes());
        for Given { number, flows, packets, octets } in given {
            out.extend(number.to_le_bytes());
            word(&mut out, self.backends[usize::from(number) - 1].name);
            [flows, packets, octets].into_iter().for_each(|n| word(&mut out, n));
        }
        let Counters { assigned, kept, moved, forgotten, nobody } = self.counters;
        [assigned, kept, moved, forgotten, nobody].into_iter().for_each(|n| word(&mut out, n));
        for (flow, ends) in self.memory.sets.iter().flatten().zip(&self.ends) {
            let idle = now.saturating_sub(flow.seen);
            if flow.hash == 0 || idle > self.memory.idle_timeout_s || !self.is_its(flow) {
                continue;
            }
            word(&mut out, flow.hash);
            out.extend(idle.to_le_bytes());
            out.extend((flow.place + 1).to_le_bytes());
            ends.iter().for_each(|n| word(&mut out, *n));
        }
        out
    }

    /// Goes on with an image: flows of backends that have their name and number here, too, and what those were given. How many
    /// flows it has taken.
    pub(super) fn import(
        &mut self,
        now_s: u32,
        key: u64,
        image: &[u8],
    ) -> Result<usize, &'static str> {
        let now = now_s.saturating_add(1);
        let bytes = &mut { image };
        if &take::<8>(bytes)? != MAGIC {
            return Err("it is no image of a balancer");
        }
        let same_key = u64::from_le_bytes(take(bytes)?) == key;
        let count = u32::from_le_bytes(take(bytes)?);
        let mut same = std::collections::HashSet::new();
        for _ in 0..count {
            let number = u16::from_le_bytes(take(bytes)?);
            let mut word = || take(bytes).map(u64::from_le_bytes);
            let (name, flows, packets, octets) = (word()?, word()?, word()?, word()?);
            let at = usize::from(number).wrapping_sub(1);
            let Some(known) = self.backends.get_mut(at).filter(|known| known.name == name) else {
                continue;
            };
            known.flows = known.flows.saturating_add(flows);
            known.packets = known.packets.saturating_add(packets);
            known.octets = known.octets.saturating_add(octets);
            same.insert(number);
        }
        let counters = &mut self.counters;
        for counter in [
            &mut counters.assigned,
            &mut counters.kept,
            &mut counters.moved,
            &mut counters.forgotten,
            &mut counters.nobody,
        ] {
            *counter = counter.saturating_add(u64::from_le_bytes(take(bytes)?));
        }
        let mut taken = 0;
        while !bytes.is_empty() {
            let hash = u64::from_le_bytes(take(bytes)?);
            let idle = u32::from_le_bytes(take(bytes)?);
            let number = u16::from_le_bytes(take(bytes)?);
            let mut ends = [0; 5];
            for word in &mut ends {
                *word = u64::from_le_bytes(take(bytes)?);
            }
            if !same_key || !same.contains(&number) || hash == 0 {
                continue;
            }
            let place = number - 1;
            let holder = self.backends[usize::from(place)].holder;
            // A clock that began after the flow was seen last has no such time: it counts as seen at the clock's begin.
            let seen = now.saturating_sub(idle).max(1);
            let (_, at) = self.memory.insert(Flow { hash, seen, place, holder });
            if let Some(to) = at.and_then(|at| self.ends.get_mut(at)) {
                *to = ends;
            }
            taken += 1;
        }
        Ok(taken)
    }
}

/// The octets at the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], &'static str> {
    let (front, rest) = bytes.split_first_chunk().ok_or("it is cut short")?;
    *bytes = rest;
    Ok(*front)
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;
    use crate::craft::Frame;
    use std::net::IpAddr;

    fn balancer(names: &[u64]) -> Balancer {
        let mut balancer = Balancer::new(10_000, 60);
        let up: Vec<_> = names.iter().map(|name| (*name, 1, Health::Up)).collect();
        balancer.set_backends(&up);
        balancer
    }

    fn rows(balancer: &Balancer, now_s: u32, sets: usize) -> Vec<(Option<u16>, u32, u16)> {
        let (mut rows, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            from = balancer.page(now_s, at, sets, &mut |kept| {
                let Connection { original, timeout, .. } = kept.connection;
                rows.push((kept.backend, timeout, original.src_port));
            });
        }
        rows.sort_unstable();
        rows
    }

    fn run(balancer: &mut Balancer, now_s: u32, ports: std::ops::Range<u16>) -> Vec<u16> {
        let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 9].into());
        let pick = |port: u16| {
            let mut frame = Frame::udp((a, port), (b, 80), 10).bytes();
            let packet = Packet::of(&mut frame);
            let hash = crate::hash::fold(port.into(), 0x9e37_79b9_7f4a_7c15);
            balancer.pick_for(now_s, hash, &packet).unwrap().0
        };
        ports.map(pick).collect()
    }

    #[test]
    fn flows_are_told_with_their_ends_page_by_page() {
        let mut balancer = balancer(&[7, 8]);
        let went = run(&mut balancer, 5, 100..150);
        let mut expected: Vec<_> = (100..).zip(&went).map(|(p, w)| (Some(w + 1), 50, p)).collect();
        expected.sort_unstable();
        assert_eq!(rows(&balancer, 15, 3), expected);
        assert_eq!(rows(&balancer, 15, usize::MAX), expected);
        assert!(rows(&balancer, 66, 9).is_empty(), "their time is over");
        let given = balancer.given();
        assert_eq!(given.iter().map(|given| given.flows).sum::<u64>(), 50);
        assert_eq!(
            given
                .iter()
                .map(|given| (given.packets, given.octets))
                .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
            (50, 50 * 52)
        );
        // Those of one that is down are nobody's.
        balancer.set_backends(&[(7, 1, Health::Down), (8, 1, Health::Up)]);
        assert!(rows(&balancer, 15, 9).iter().all(|(backend, ..)| *backend == Some(2)));
    }

    #[test]
    fn another_process_goes_on_with_flows_and_counters() {
        let mut first = balancer(&[7, 8, 9]);
        let went = run(&mut first, 1000, 100..400);
        let image = first.export(1010, 5);
        // The same backends, of which one drains: its flows stay with it.
        let mut second = balancer(&[7, 8, 9]);
        let drained = [(7, 1, Health::Up), (8, 1, Health::Draining), (9, 1, Health::Up)];
        second.set_backends(&drained);
        let taken = second.import(2, 5, &image).unwrap();
        assert_eq!(taken, 300);
        let again = run(&mut second, 3, 100..400);
        assert_eq!(went, again);
        assert_eq!(second.counters().assigned, first.counters().assigned);
        assert_eq!(second.given()[1].octets, 2 * first.given()[1].octets);
        // Another name at a number has nothing of it; another key finds no flow.
        let mut third = balancer(&[7, 77, 9]);
        let of_8 = went.iter().filter(|place| **place == 1).count();
        assert_eq!(third.import(2, 5, &image), Ok(taken - of_8));
        assert_eq!(third.given()[1].flows, 0);
        assert_eq!(third.import(2, 6, &image), Ok(0));
        for at in [0, 7, 20, image.len() - 1] {
            assert!(balancer(&[7]).import(2, 5, &image[..at]).is_err(), "{at}");
        }
    }
}
