//! Load balancing: which backend a connection goes to.
//!
//! [`Maglev`] (Eisenbud et al., NSDI 2016) fills a table of prime size so that each backend has a share of
//! it by its weight, in an order of its own; a connection's hash picks the entry. When a backend goes, nearly
//! all entries of the others stay, so most connections keep their backend even without a state; those that
//! have one, keep it for sure: [`Balancer`] remembers the backend of each flow it has seen (affinity), in
//! fixed memory.
//!
//! A backend that *drains* gets no new flows and keeps those it has; one that is *down* loses both. Health
//! is told from outside: a port's state, or a controller.
//!
//! [`Buckets`] is SoftFlow's balancer (§4.2): a flow goes to one of eight buckets, the one with the least
//! load of late; tables decide what a bucket is.
//!
//! [`Spread`] and [`Eight`] are the two as elements. What a flow is to them says the module `flow`.
//!
//! Checked by: the tests below.

mod backends;
pub mod check;
mod elements;
mod flow;
mod follow;
mod kept;
pub(crate) mod settings;

use crate::hash::fold;
use crate::packet::Packet;
use std::fmt;
use std::sync::Arc;

pub use crate::kept::Given;
pub use backends::{AllDown, Backends, Clash, Member, Status, Unknown};
pub use elements::{Eight, Spread};

/// Backends' states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It takes new flows.
    Up,
    /// It keeps its flows and takes no new ones.
    Draining,
    /// It takes none.
    Down,
}

/// A backend's place: its number, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend(pub u16);

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "backend {}", self.0)
    }
}

/// The table that spreads flows.
#[derive(Debug, Clone)]
pub struct Maglev {
    entries: Vec<u16>,
}

/// An entry of no backend.
const NOBODY: u16 = u16::MAX;
/// The largest number that a backend may have, counted from 1.
pub const NUMBERS_MAX: u16 = u16::MAX - 1;
/// Entries of a table: a prime, 100 for each of some 650 backends (the paper's small size).
pub const TABLE_LEN: usize = 65_537;

impl Maglev {
    /// A table for backends with these names and weights; a weight of 0 takes no part. Which backend has an entry
    /// depends on names and weights, not on the order of the list. Takes some milliseconds: for the control side.
    pub fn new(backends: &[(u64, u32)]) -> Maglev {
        let len = TABLE_LEN as u64;
        let heaviest = backends.iter().map(|(_, weight)| *weight).max().unwrap_or(0);
        let mut entries = vec![NOBODY; TABLE_LEN];
        if heaviest == 0 {
            return Maglev { entries };
        }
        // Each backend's own order of the entries: from an offset on, by a skip. It takes its next free one
        // each time its turn comes, which it does in proportion to its weight.
        struct Turn {
            of: u16,
            name: u64,
            weight: u64,
            at: u64,
            skip: u64,
            credit: u64,
        }
        let places = 0..NOBODY;
        let mut turns: Vec<Turn> = places
            .zip(backends)
            .filter(|(_, (_, weight))| *weight != 0)
            .map(|(of, (name, weight))| {
                let at = fold(*name ^ 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9) % len;
                let skip =
                    fold(*name ^ 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93) % (len - 1) + 1;
                Turn { of, name: *name, weight: u64::from(*weight), at, skip, credit: 0 }
            })
            .collect();
        turns.sort_by_key(|turn| turn.name);
        let mut left = TABLE_LEN;
        'fill: loop {
            for turn in &mut turns {
                turn.credit += turn.weight;
                if turn.credit < u64::from(heaviest) {
                    continue;
                }
                turn.credit -= u64::from(heaviest);
                while entries[turn.at as usize] != NOBODY {
                    turn.at = (turn.at + turn.skip) % len;
                }
                entries[turn.at as usize] = turn.of;
                left -= 1;
                if left == 0 {
                    break 'fill;
                }
            }
        }
        Maglev { entries }
    }

    /// A table for those of these backends (name, weight, health) that take new flows.
    pub fn of_healthy(backends: &[(u64, u32, Health)]) -> Maglev {
        let weight = |weight: u32, health: Health| if health == Health::Up { weight } else { 0 };
        let weighed: Vec<_> = backends.iter().map(|(n, w, h)| (*n, weight(*w, *h))).collect();
        Maglev::new(&weighed)
    }

    /// The backend of a flow with this hash; none if there is none.
    #[inline]
    pub fn backend(&self, hash: u64) -> Option<Backend> {
        let at = ((u128::from(hash) * self.entries.len() as u128) >> 64) as usize;
        Some(self.entries[at]).filter(|n| *n != NOBODY).map(Backend)
    }
}

#[derive(Debug, Clone)]
struct Known {
    name: u64,
    weight: u32,
    health: Health,
    flows: u64,
    packets: u64,
    octets: u64,
    /// How many names have had this place before.
    holder: u16,
}

/// Ways of a set of remembered flows.
const WAYS: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    hash: u64,
    /// Seconds of the last packet, and where it went.
    seen: u32,
    place: u16,
    /// The place's [`Known::holder`] at that time: another name's flows are not this one's.
    holder: u16,
}

/// Which way flows went, in fixed memory: sets of four, of which the one not seen for longest makes room.
#[derive(Debug)]
struct Memory {
    sets: Box<[[Flow; WAYS]]>,
    idle_timeout_s: u32,
}

impl Memory {
    /// Room for about so many flows, 0 for none.
    fn new(flows_max: usize, idle_timeout_s: u32) -> Memory {
        let sets = vec![[Flow::default(); WAYS]; flows_max.div_ceil(WAYS)];
        Memory { sets: sets.into_boxed_slice(), idle_timeout_s }
    }

    #[inline]
    fn set_of(&self, hash: u64) -> usize {
        ((u128::from(hash.rotate_left(32)) * self.sets.len() as u128) >> 64) as usize
    }

    /// The set of a flow, and whether an entry of it counts at that time.
    fn set(&mut self, now: u32, hash: u64) -> (&mut [Flow], impl Fn(&Flow) -> bool + Copy) {
        let at = self.set_of(hash);
        let timeout = self.idle_timeout_s;
        let lives = move |flow: &Flow| flow.hash != 0 && now.saturating_sub(flow.seen) <= timeout;
        (self.sets.get_mut(at).map_or(&mut [], |set| &mut set[..]), lives)
    }

    /// The flow of this hash, if it is known. Neither hash nor time is 0.
    fn find(&mut self, now: u32, hash: u64) -> Option<&mut Flow> {
        let (set, lives) = self.set(now, hash);
        set.iter_mut().find(|flow| flow.hash == hash && lives(flow))
    }

    /// Remembers a flow that is not known; says whether another was forgotten to make room, and the place that it has.
    fn insert(&mut self, flow: Flow) -> (bool, Option<usize>) {
        let first = self.set_of(flow.hash) * WAYS;
        let (set, lives) = self.set(flow.seen, flow.hash);
        let age = |flow: &Flow| if lives(flow) { flow.seen } else { 0 };
        let oldest = set.iter_mut().enumerate().min_by_key(|(_, flow)| age(flow));
        let Some((way, oldest)) = oldest else { return (false, None) };
        let forgotten = lives(oldest);
        *oldest = flow;
        (forgotten, Some(first + way))
    }
}

/// Hash and time as [`Memory`] wants them: 0 says that an entry is empty.
fn not_zero(now_s: u32, hash: u64) -> (u32, u64) {
    (now_s.saturating_add(1), hash.max(1))
}

/// What has happened to flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Flows given a backend.
    pub assigned: u64,
    /// Packets that went where their flow's packets went before.
    pub kept: u64,
    /// Flows that lost their backend because it went down.
    pub moved: u64,
    /// Flows forgotten to make room.
    pub forgotten: u64,
    /// Packets for which there was no backend.
    pub nobody: u64,
}

/// Flows to backends, with a memory.
#[derive(Debug)]
pub struct Balancer {
    backends: Vec<Known>,
    table: Arc<Maglev>,
    memory: Memory,
    /// Of each place of `memory`.
    ends: Vec<kept::Ends>,
    counters: Counters,
    /// The holder of places beyond the list, if they come (back).
    gone: u16,
}

impl Balancer {
    /// A balancer that remembers about `flows_max` flows (0: none), each for so long after its last
    /// packet.
    pub fn new(flows_max: usize, idle_timeout_s: u32) -> Balancer {
        let memory = Memory::new(flows_max, idle_timeout_s);
        Balancer {
            backends: Vec::new(),
            table: Arc::new(Maglev::new(&[])),
            ends: vec![[0; 5]; memory.sets.len() * WAYS],
            memory,
            counters: Counters::default(),
            gone: 0,
        }
    }

    /// Sets all backends: a name that is the same in other balancers and after a restart, weight and
    /// health. One that has its name and its place as before keeps its flows; a place that nobody has is down.
    /// Takes some milliseconds.
    pub fn set_backends(&mut self, backends: &[(u64, u32, Health)]) {
        self.adopt(backends, Arc::new(Maglev::of_healthy(backends)));
    }

    /// Sets all backends, with the table that [`Maglev::of_healthy`] made of them, perhaps shared by
    /// balancers: quick.
    pub fn adopt(&mut self, backends: &[(u64, u32, Health)], table: Arc<Maglev>) {
        let known = |(n, (name, weight, health)): (usize, &(u64, u32, Health))| {
            let (name, weight, health) = (*name, *weight, *health);
            let holder = match self.backends.get(n) {
                Some(before) if before.name == name => {
                    return Known { weight, health, ..before.clone() };
                }
                Some(before) => before.holder.wrapping_add(1),
                None => self.gone,
            };
            Known { name, weight, health, flows: 0, packets: 0, octets: 0, holder }
        };
        let new: Vec<_> = backends.iter().take(NOBODY.into()).enumerate().map(known).collect();
        // Places beyond the new end may come back: as others.
        let beyond = self.backends.iter().skip(new.len()).map(|b| b.holder.wrapping_add(1));
        self.gone = beyond.max().unwrap_or(0).max(self.gone);
        self.backends = new;
        self.table = table;
    }

    /// Sets the health of a backend; false if there is none of that number.
    pub fn set_health(&mut self, backend: Backend, health: Health) -> bool {
        let Some(known) = self.backends.get_mut(usize::from(backend.0)) else { return false };
        known.health = health;
        let all: Vec<_> = self.backends.iter().map(|b| (b.name, b.weight, b.health)).collect();
        self.table = Arc::new(Maglev::of_healthy(&all));
        true
    }

    /// What has happened.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Flows that a backend was given.
    pub fn flows(&self, backend: Backend) -> u64 {
        self.backends.get(usize::from(backend.0)).map_or(0, |known| known.flows)
    }

    /// Where a packet of a flow with this hash goes at second `now_s` of a monotonic clock.
    pub fn pick(&mut self, now_s: u32, hash: u64) -> Option<Backend> {
        self.choose(now_s, hash, 0, || [0; 5])
    }

    /// The same, and the packet is counted; a new flow's ends are kept for those who look.
    #[inline]
    pub fn pick_for(&mut self, now_s: u32, hash: u64, packet: &Packet<'_>) -> Option<Backend> {
        self.choose(now_s, hash, packet.frame.len() as u64, || kept::ends(packet))
    }

    #[inline(always)]
    fn choose(
        &mut self,
        now_s: u32,
        hash: u64,
        octets: u64,
        ends: impl FnOnce() -> kept::Ends,
    ) -> Option<Backend> {
        let (now, hash) = not_zero(now_s, hash);
        if let Some(flow) = self.memory.find(now, hash) {
            let known = self.backends.get_mut(usize::from(flow.place));
            let its =
                |known: &&mut Known| known.health != Health::Down && known.holder == flow.holder;
            if let Some(known) = known.filter(its) {
                known.packets += 1;
                known.octets += octets;
                flow.seen = now;
                self.counters.kept += 1;
                return Some(Backend(flow.place));
            }
            self.counters.moved += 1;
            flow.hash = 0;
        }
        let Some(backend) = self.table.backend(hash) else {
            self.counters.nobody += 1;
            return None;
        };
        let mut flow = Flow { hash, seen: now, place: backend.0, holder: 0 };
        if let Some(known) = self.backends.get_mut(usize::from(backend.0)) {
            known.flows += 1;
            known.packets += 1;
            known.octets += octets;
            flow.holder = known.holder;
        }
        let (forgotten, at) = self.memory.insert(flow);
        if let Some(place) = at.and_then(|at| self.ends.get_mut(at)) {
            *place = ends();
        }
        self.counters.forgotten += u64::from(forgotten);
        self.counters.assigned += 1;
        Some(backend)
    }
}

/// SoftFlow's eight buckets: what they were given of late decides who gets the next flow.
#[derive(Debug, Clone)]
pub struct Buckets {
    /// Octets, halved every `half_life_ns`.
    loads: [u64; 8],
    halved_ns: u64,
    half_life_ns: u64,
}

impl Buckets {
    /// Empty buckets that forget half of what they were given in every `half_life_ns` (at least 1).
    pub fn new(now_ns: u64, half_life_ns: u64) -> Buckets {
        Buckets { loads: [0; 8], halved_ns: now_ns, half_life_ns: half_life_ns.max(1) }
    }

    /// The bucket with the least load; of several, the first.
    pub fn least(&self) -> usize {
        (0..8).min_by_key(|n| self.loads[*n]).unwrap_or(0)
    }

    /// Counts octets for a bucket; the number is taken modulo 8.
    pub fn add(&mut self, now_ns: u64, bucket: usize, octets: u64) {
        let halvings = now_ns.saturating_sub(self.halved_ns) / self.half_life_ns;
        if halvings > 0 {
            self.halved_ns += halvings * self.half_life_ns;
            let shift = u32::try_from(halvings).unwrap_or(u32::MAX);
            for load in &mut self.loads {
                *load = load.checked_shr(shift).unwrap_or(0);
            }
        }
        let load = &mut self.loads[bucket % 8];
        *load = load.saturating_add(octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn shares_follow_weights_and_few_move() {
        let backends: Vec<(u64, u32)> =
            (0..10).map(|n| (n * 77, if n < 5 { 1 } else { 3 })).collect();
        let table = Maglev::new(&backends);
        let mut shares = [0; 10];
        table.entries.iter().for_each(|n| shares[usize::from(*n)] += 1);
        for (share, (_, weight)) in shares.iter().zip(&backends) {
            let want = f64::from(*weight) / 20.0 * TABLE_LEN as f64;
            assert!((f64::from(*share) / want - 1.0).abs() < 0.02, "{shares:?}");
        }
        let mut fewer = backends.clone();
        fewer[7].1 = 0;
        let without = Maglev::new(&fewer);
        let moved = table.entries.iter().zip(&without.entries);
        let moved = moved.filter(|(a, b)| **a != 7 && a != b).count();
        assert!(moved < TABLE_LEN / 12, "{moved} entries moved that need not");
        assert!(without.entries.iter().all(|n| *n != 7 && *n != NOBODY));
        assert_eq!(Maglev::new(&[(1, 0)]).backend(5), None);
    }

    #[test]
    fn flows_stay_while_backends_come_drain_and_go() {
        let mut balancer = Balancer::new(10_000, 60);
        assert_eq!(balancer.pick(0, 5), None);
        let up = |n: u64| (0..n).map(|n| (n, 1, Health::Up)).collect::<Vec<_>>();
        balancer.set_backends(&up(3));
        let mut random = Random(1);
        let hashes: Vec<u64> = (0..300).map(|_| random.next()).collect();
        let first: Vec<_> = hashes.iter().map(|h| balancer.pick(0, *h).unwrap()).collect();
        balancer.set_backends(&up(6));
        balancer.set_health(Backend(0), Health::Draining);
        for (hash, backend) in hashes.iter().zip(&first) {
            assert_eq!(balancer.pick(1, *hash), Some(*backend), "kept");
        }
        let given = balancer.flows(Backend(0));
        (0..500).for_each(|_| assert_ne!(balancer.pick(1, random.next()), Some(Backend(0))));
        assert_eq!(balancer.flows(Backend(0)), given, "a draining backend gets no new flows");
        balancer.set_health(Backend(0), Health::Down);
        for (hash, backend) in hashes.iter().zip(&first) {
            let now = balancer.pick(2, *hash).unwrap();
            assert!(if *backend == Backend(0) { now != Backend(0) } else { now == *backend });
        }
        assert!(balancer.counters().moved > 50);
        assert!(!balancer.set_health(Backend(6), Health::Up));
        // After a pause a flow is a new one.
        let assigned = balancer.counters().assigned;
        balancer.pick(100, hashes[0]);
        assert_eq!(balancer.counters().assigned, assigned + 1);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes() {
        let mut balancer = Balancer::new(4, 60);
        balancer.set_backends(&[(1, 1, Health::Up)]);
        (0..5).for_each(|n| assert!(balancer.pick(n, u64::from(n) + 1).is_some()));
        assert_eq!(balancer.counters().forgotten, 1);
        balancer.pick(6, 5);
        assert_eq!(balancer.counters().kept, 1);
    }

    #[test]
    fn the_least_loaded_bucket_is_next_and_load_is_forgotten() {
        let mut buckets = Buckets::new(0, 1000);
        for n in 0..8 {
            assert_eq!(buckets.least(), n);
            buckets.add(0, n, 100 + n as u64);
        }
        assert_eq!(buckets.least(), 0);
        buckets.add(0, 0, 1000);
        assert_eq!(buckets.least(), 1);
        buckets.add(10_000, 5, 1);
        assert_eq!(buckets.loads, [1, 0, 0, 0, 0, 1, 0, 0]);
        buckets.add(u64::MAX, 13, u64::MAX);
        assert_eq!(buckets.least(), 0);
    }
}
