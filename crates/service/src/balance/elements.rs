//! The balancers as elements: Maglev with affinity, and SoftFlow's eight buckets.

use super::{Balancer, Buckets, Health, Maglev, Memory, not_zero};
use crate::catalogue;
use crate::element::{Element, Fate, Instance, Passing, Writes};
use crate::hash::fold;
use crate::packet::{Fragment, Network, Packet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use wire::IpProtocol;

/// A packet's flow as a number, the same for all its packets of one direction, whatever worker or switch
/// asks with the same `key`; who does not know the key cannot well choose flows that collide.
///
/// A flow is addresses and protocol, and ports of TCP, UDP, UDP-Lite, SCTP and DCCP. Fragments, of which
/// only the first has ports, are told apart by addresses and protocol alone, so that the parts of a datagram
/// stay together; they may go another way than whole packets of their connection. ICMP errors
/// are their sender's, not the connection's about which they are. What is no IP packet goes by its
/// Ethernet header.
pub fn flow_hash(packet: &Packet<'_>, key: u64) -> u64 {
    const FACTOR: u64 = 0x9fb2_1c65_1e98_df25;
    let mut hash = key ^ 0x2d35_8dcc_aa6c_78a5;
    let mut mix = |octets: &[u8]| {
        for part in octets.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            hash = fold(hash ^ u64::from_le_bytes(word), FACTOR);
        }
    };
    let (at, frame) = (&packet.at, &*packet.frame);
    let l3 = at.l3 as usize;
    let addresses = match at.network {
        Network::V4 => frame.get(l3 + 12..l3 + 20),
        Network::V6 => frame.get(l3 + 8..l3 + 40),
        Network::Other => frame.get(..14),
    };
    mix(addresses.unwrap_or(frame));
    if at.network != Network::Other {
        let ports = match at.protocol {
            IpProtocol::TCP
            | IpProtocol::UDP
            | IpProtocol::UDP_LITE
            | IpProtocol::SCTP
            | IpProtocol::DCCP
                if at.fragment == Fragment::Whole =>
            {
                frame.get(at.l4 as usize..at.l4 as usize + 4).unwrap_or_default()
            }
            _ => &[],
        };
        let mut word = [at.protocol.0, 0, 0, 0, 0];
        word[1..=ports.len()].copy_from_slice(ports);
        mix(&word);
    }
    fold(hash ^ key.rotate_left(32), 0xd6e8_feb8_6659_fd93)
}

/// A backend, as people write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name: what decides its entries of the table, so the same on all switches.
    pub name: String,
    /// Its share, against those of others.
    pub weight: u32,
    /// Whether it takes flows.
    pub health: Health,
}

/// `NAME:WEIGHT`, and the health where it is not up.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.weight)?;
        match self.health {
            Health::Up => Ok(()),
            Health::Draining => f.write_str(":draining"),
            Health::Down => f.write_str(":down"),
        }
    }
}

/// The backends of a service and their table, shared by all workers' instances and whoever watches over
/// health. Instances see a change with their next burst.
#[derive(Debug)]
pub struct Backends {
    state: RwLock<State>,
    /// How often `state` has changed.
    changes: AtomicU64,
}

#[derive(Debug)]
struct State {
    members: Vec<Member>,
    numbers: Vec<(u64, u32, Health)>,
    table: Arc<Maglev>,
}

impl State {
    fn new(members: Vec<Member>) -> State {
        let number = |m: &Member| (name_number(&m.name), m.weight, m.health);
        let numbers: Vec<_> = members.iter().map(number).collect();
        let table = Arc::new(Maglev::of_healthy(&numbers));
        State { members, numbers, table }
    }
}

/// A name as a number, the same at all times (FNV-1a).
fn name_number(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x100_0000_01b3)
    })
}

impl Backends {
    /// These backends, numbered as listed.
    pub fn new(members: Vec<Member>) -> Backends {
        Backends { state: RwLock::new(State::new(members)), changes: AtomicU64::new(1) }
    }

    /// Puts others in place of the backends; one that keeps its place in the list keeps its flows. Takes
    /// some milliseconds, in which packets go on by the old table.
    pub fn set(&self, members: Vec<Member>) {
        let new = State::new(members);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = new;
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Sets the health of the backends of this name; false if there is none.
    pub fn set_health(&self, name: &str, health: Health) -> bool {
        let mut members = self.list();
        let mut found = false;
        for member in members.iter_mut().filter(|member| member.name == name) {
            (member.health, found) = (health, true);
        }
        if found {
            self.set(members);
        }
        found
    }

    /// The backends, in the order of their numbers.
    pub fn list(&self) -> Vec<Member> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).members.clone()
    }
}

/// Load balancing by Maglev's table, with affinity.
///
/// Reads nothing of `sf_argument`. Writes into `sf_metadata` the backend's number, counted from 1 in the
/// order of the list, and 0 where no backend takes flows; sets `coalesce`. Drops nothing: the tables
/// decide. Counts flows that were given a backend (`assigned`), packets that followed their flow (`kept`),
/// flows whose backend went down (`moved`), flows forgotten to make room (`forgotten`), packets with no
/// backend (`nobody`).
///
/// While it runs, [`Element::set`] takes `backends=` and `health=NAME:up|draining|down,...`.
#[derive(Debug, Clone)]
pub struct Spread {
    backends: Arc<Backends>,
    flows_max: usize,
    idle_timeout_s: u32,
    key: u64,
}

impl Spread {
    /// Spreads over these backends; each instance remembers about `flows_max` flows, for so long after
    /// their last packet. `key` is [`flow_hash`]'s.
    pub fn new(backends: Arc<Backends>, flows_max: usize, idle_timeout_s: u32, key: u64) -> Spread {
        Spread { backends, flows_max, idle_timeout_s, key }
    }
}

struct Spreading {
    backends: Arc<Backends>,
    /// Of `backends`, as `balancer` knows it.
    changes: u64,
    balancer: Balancer,
    key: u64,
}

impl Element for Spread {
    fn name(&self) -> &'static str {
        "balancer"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, _now_ns: u64, _seed: u64) -> Box<dyn Instance> {
        let balancer = Balancer::new(self.flows_max, self.idle_timeout_s);
        Box::new(Spreading { backends: self.backends.clone(), changes: 0, balancer, key: self.key })
    }

    fn set(&self, settings: &[(String, String)]) -> Result<(), catalogue::Error> {
        catalogue::set_backends(&self.backends, settings)
    }

    fn current(&self) -> Vec<(String, String)> {
        let members: Vec<String> = self.backends.list().iter().map(Member::to_string).collect();
        vec![("backends".to_string(), members.join(","))]
    }
}

impl Instance for Spreading {
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]) {
        // Read before the state, so that a change between the two is seen next time.
        let changes = self.backends.changes.load(Ordering::Acquire);
        if changes != self.changes {
            let state = self.backends.state.read().unwrap_or_else(PoisonError::into_inner);
            self.balancer.adopt(&state.numbers, state.table.clone());
            self.changes = changes;
        }
        let now_s = seconds(now_ns);
        for passing in burst.iter_mut().filter(|passing| passing.fate == Fate::Continue) {
            let backend = self.balancer.pick(now_s, flow_hash(&passing.packet, self.key));
            passing.metadata.register = backend.map_or(0, |backend| u64::from(backend.0) + 1);
            passing.metadata.coalesce = true;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = self.balancer.counters();
        vec![
            ("assigned", c.assigned),
            ("kept", c.kept),
            ("moved", c.moved),
            ("forgotten", c.forgotten),
            ("nobody", c.nobody),
        ]
    }
}

/// SoftFlow's balancer (§4.2): a new flow goes to the one of eight buckets that was given the fewest octets
/// of late, and stays there while it is remembered.
///
/// Reads nothing of `sf_argument`. Writes into `sf_metadata` the bucket, 0 to 7, and clears `coalesce`: the
/// tables take the packet the full way. Drops nothing. Counts flows assigned (`assigned`), packets that
/// followed their flow (`kept`), flows forgotten to make room (`forgotten`), and octets by bucket.
#[derive(Debug, Clone)]
pub struct Eight {
    /// The time in which half of a bucket's load is forgotten.
    pub half_life_ns: u64,
    /// Flows remembered by an instance, about.
    pub flows_max: usize,
    /// For so long after their last packet.
    pub idle_timeout_s: u32,
}

struct EightInstance {
    buckets: Buckets,
    memory: Memory,
    key: u64,
    assigned: u64,
    kept: u64,
    forgotten: u64,
    octets: [u64; 8],
}

impl Element for Eight {
    fn name(&self) -> &'static str {
        "balancer8"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, now_ns: u64, seed: u64) -> Box<dyn Instance> {
        Box::new(EightInstance {
            buckets: Buckets::new(now_ns, self.half_life_ns),
            memory: Memory::new(self.flows_max, self.idle_timeout_s),
            key: seed,
            assigned: 0,
            kept: 0,
            forgotten: 0,
            octets: [0; 8],
        })
    }
}

impl Instance for EightInstance {
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]) {
        let now_s = seconds(now_ns);
        for passing in burst.iter_mut().filter(|passing| passing.fate == Fate::Continue) {
            let (now, hash) = not_zero(now_s, flow_hash(&passing.packet, self.key));
            let bucket = if let Some(flow) = self.memory.find(now, hash) {
                flow.seen = now;
                self.kept += 1;
                usize::from(flow.place)
            } else {
                let bucket = self.buckets.least();
                self.forgotten += u64::from(self.memory.insert(now, hash, bucket as u16));
                self.assigned += 1;
                bucket
            };
            let octets = passing.packet.frame.len() as u64;
            self.buckets.add(now_ns, bucket, octets);
            self.octets[bucket % 8] += octets;
            passing.metadata.register = bucket as u64;
            passing.metadata.coalesce = false;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        const NAMES: [&str; 8] = [
            "octets_0", "octets_1", "octets_2", "octets_3", "octets_4", "octets_5", "octets_6",
            "octets_7",
        ];
        let first =
            [("assigned", self.assigned), ("kept", self.kept), ("forgotten", self.forgotten)];
        first.into_iter().chain(NAMES.into_iter().zip(self.octets)).collect()
    }
}

/// Seconds of a clock in nanoseconds.
fn seconds(now_ns: u64) -> u32 {
    u32::try_from(now_ns / 1_000_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::craft::Frame;
    use std::net::IpAddr;
    use wire::tcp::Flags;

    fn flow(n: u16, len: usize) -> Vec<u8> {
        let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        Frame::tcp((a, n), (b, 80), Flags::ACK, (1, 1), len).bytes()
    }

    fn call(instance: &mut dyn Instance, now_s: u64, frames: &mut [Vec<u8>]) -> Vec<(u64, bool)> {
        let mut burst: Vec<_> = frames.iter_mut().map(|f| Passing::new(Packet::of(f))).collect();
        instance.ingress(now_s * 1_000_000_000, &mut burst);
        burst.iter().map(|p| (p.metadata.register, p.metadata.coalesce)).collect()
    }

    fn members(names: &[&str]) -> Vec<Member> {
        let up = |name: &&str| Member { name: name.to_string(), weight: 1, health: Health::Up };
        names.iter().map(up).collect()
    }

    #[test]
    fn workers_agree_and_flows_outlive_a_drain() {
        let backends = Arc::new(Backends::new(members(&["a", "b", "c"])));
        let element = Spread::new(backends.clone(), 10_000, 60, 0);
        let mut workers = [element.instance(0, 0, 1), element.instance(1, 0, 2)];
        let mut frames: Vec<_> = (0..300).map(|n| flow(n, 5)).collect();
        let first = call(&mut *workers[0], 0, &mut frames);
        assert_eq!(call(&mut *workers[1], 0, &mut frames), first);
        for n in 1..=3 {
            assert!(first.iter().filter(|(to, _)| *to == n).count() > 70, "{first:?}");
        }
        assert!(backends.set_health("b", Health::Draining));
        assert!(!backends.set_health("d", Health::Draining));
        assert_eq!(call(&mut *workers[0], 1, &mut frames), first, "those it has stay");
        let mut others: Vec<_> = (300..600).map(|n| flow(n, 5)).collect();
        let new = call(&mut *workers[0], 1, &mut others);
        assert!(new.iter().all(|(to, coalesce)| (*to == 1 || *to == 3) && *coalesce), "{new:?}");
        assert!(backends.set_health("b", Health::Down));
        let moved = call(&mut *workers[0], 2, &mut frames);
        for ((was, _), (is, _)) in first.iter().zip(&moved) {
            assert!(if *was == 2 { *is != 2 } else { was == is });
        }
        backends.set(members(&[]));
        assert_eq!(call(&mut *workers[0], 3, &mut frames[..1]), [(0, true)]);
        assert!(workers[0].counters().contains(&("nobody", 1)), "{:?}", workers[0].counters());
    }

    #[test]
    fn without_memory_the_table_alone_decides() {
        let backends = Arc::new(Backends::new(members(&["a", "b"])));
        let mut instance = Spread::new(backends, 0, 60, 0).instance(0, 0, 1);
        let mut frames: Vec<_> = (0..50).map(|n| flow(n, 5)).collect();
        let first = call(&mut *instance, 0, &mut frames);
        assert_eq!(call(&mut *instance, 0, &mut frames), first);
        assert!(instance.counters().contains(&("kept", 0)));
    }

    #[test]
    fn all_parts_of_a_datagram_are_one_flow_and_all_frames_have_one() {
        let ends = (([10, 0, 0, 1].into(), 5), ([10, 0, 0, 2].into(), 6));
        let mut first = Frame::udp(ends.0, ends.1, 16);
        first.fragment = (7, 0x2000);
        let mut later = Frame::new(ends.0.0, ends.1.0, IpProtocol::UDP, vec![9; 24]);
        later.fragment = (7, 3);
        let hash = |mut frame: Vec<u8>| flow_hash(&Packet::of(&mut frame), 0);
        assert_eq!(hash(first.bytes()), hash(later.bytes()));
        first.fragment = (0, 0);
        assert_ne!(hash(first.bytes()), hash(later.bytes()));
        let all: std::collections::HashSet<u64> = (0..14).map(|n| hash(vec![7; n])).collect();
        assert_eq!(all.len(), 14);
        assert_eq!(hash([7; 14].to_vec()), hash([7; 60].to_vec()));
    }

    #[test]
    fn eight_buckets_are_filled_evenly_and_flows_stay() {
        let element = Eight { half_life_ns: u64::MAX, flows_max: 1000, idle_timeout_s: 10 };
        let mut instance = element.instance(0, 0, 5);
        let mut frames: Vec<_> = (0..8).map(|n| flow(n, 50)).collect();
        let first = call(&mut *instance, 0, &mut frames);
        assert_eq!(first, (0..8).map(|n| (n, false)).collect::<Vec<_>>());
        let mut heavy = vec![flow(0, 1400)];
        assert_eq!(call(&mut *instance, 0, &mut heavy), [(0, false)], "it stays");
        let mut others: Vec<_> = (8..15).map(|n| flow(n, 50)).collect();
        let next = call(&mut *instance, 0, &mut others);
        assert_eq!(next, (1..8).map(|n| (n, false)).collect::<Vec<_>>());
        assert!(call(&mut *instance, 20, &mut heavy)[0].0 != 0, "after a pause it is a new flow");
        let counters = instance.counters();
        assert_eq!(counters[..3], [("assigned", 16), ("kept", 1), ("forgotten", 0)]);
    }
}
