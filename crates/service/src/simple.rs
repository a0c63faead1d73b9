//! Small services: a counter, one that does nothing, a memory walker, a rate limiter, a payload match, and, by the
//! tracker, SoftFlow's firewall and source translation.
//!
//! Each is an [`Element`] of its own; what it says of a packet is in `sf_metadata` (the register), in words
//! at the element. None drops but the rate limiter, the payload match where it is told to, and the translation where
//! nothing is left to translate to.
//!
//! Checked by: the tests below.

use crate::conntrack::{self, CtState, Drop, Nat, Outcome, Request, Selection, Ticket, Tracker};
use crate::element::{Element, Fate, Instance, Kept, Passing, Writes};
use crate::nat::{Outside, Pool, PoolError, Ports, Rule};
use crate::random::Random;
use crate::tracked;
use aho_corasick::AhoCorasick;
use std::net::IpAddr;
use std::sync::Arc;

/// Does nothing: what a call costs (SoftFlow's pipeline D). Reads no argument, leaves `sf_metadata`, counts
/// nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noop;

impl Element for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, _now_ns: u64, _seed: u64) -> Box<dyn Instance> {
        Box::new(Noop)
    }
}

impl Instance for Noop {
    fn ingress(&mut self, _now_ns: u64, burst: &mut [Passing<'_>]) {
        burst.iter_mut().for_each(|passing| passing.metadata.coalesce = true);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Counts packets and octets, those of frames as the switch has them. Reads no argument, leaves
/// `sf_metadata`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter {
    packets: u64,
    octets: u64,
}

impl Element for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, _now_ns: u64, _seed: u64) -> Box<dyn Instance> {
        Box::new(Counter::default())
    }
}

impl Instance for Counter {
    fn ingress(&mut self, _now_ns: u64, burst: &mut [Passing<'_>]) {
        for passing in burst {
            passing.metadata.coalesce = true;
            self.packets += 1;
            self.octets += passing.packet.frame.len() as u64;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("packets", self.packets), ("octets", self.octets)]
    }
}

/// Reads octets of a large block at random, as many lines of 64 as `sf_argument` octets need (SoftFlow
/// figure 10): what a service with large state costs. Leaves `sf_metadata`; counts lines.
#[derive(Debug, Clone)]
pub struct MemoryWalker {
    block: Arc<[u64]>,
}

impl MemoryWalker {
    /// A walker over a block of about so many octets, shared by its instances.
    pub fn new(octets: usize) -> MemoryWalker {
        // Not zero, so that the system gives pages of its own to each part.
        MemoryWalker { block: (1..=(octets / 8).max(1) as u64).collect() }
    }
}

struct Walk {
    block: Arc<[u64]>,
    random: Random,
    sum: u64,
    lines: u64,
}

impl Element for MemoryWalker {
    fn name(&self) -> &'static str {
        "memory_walker"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, _now_ns: u64, seed: u64) -> Box<dyn Instance> {
        Box::new(Walk { block: self.block.clone(), random: Random(seed), sum: 0, lines: 0 })
    }
}

impl Instance for Walk {
    fn ingress(&mut self, _now_ns: u64, burst: &mut [Passing<'_>]) {
        for passing in burst {
            passing.metadata.coalesce = true;
            for _ in 0..passing.metadata.argument.div_ceil(64) {
                // Addresses do not depend on what was read, so misses overlap, as prefetched reads do.
                let at = self.random.below(self.block.len() as u64) as usize;
                self.sum = self.sum.wrapping_add(self.block[at]);
                self.lines += 1;
            }
        }
        std::hint::black_box(self.sum);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("lines", self.lines)]
    }
}

/// A token bucket for each instance: what goes beyond it is dropped. Reads no argument, leaves
/// `sf_metadata`; counts packets passed and dropped.
#[derive(Debug, Clone, Copy)]
pub struct RateLimiter {
    /// Octets a second.
    pub octets_per_second: u64,
    /// Octets at once.
    pub burst_octets: u64,
}

struct Bucket {
    limit: RateLimiter,
    /// Nanoseconds of credit, as octets times 10⁹.
    tokens: u128,
    filled_ns: u64,
    passed: u64,
    dropped: u64,
}

impl Element for RateLimiter {
    fn name(&self) -> &'static str {
        "rate_limiter"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, now_ns: u64, _seed: u64) -> Box<dyn Instance> {
        Box::new(Bucket {
            limit: *self,
            tokens: u128::from(self.burst_octets) * 1_000_000_000,
            filled_ns: now_ns,
            passed: 0,
            dropped: 0,
        })
    }
}

impl Instance for Bucket {
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]) {
        let gone = now_ns.saturating_sub(self.filled_ns);
        self.filled_ns = self.filled_ns.max(now_ns);
        let full = u128::from(self.limit.burst_octets) * 1_000_000_000;
        let earned = u128::from(gone) * u128::from(self.limit.octets_per_second);
        self.tokens = (self.tokens + earned).min(full);
        for passing in burst.iter_mut().filter(|passing| passing.fate == Fate::Continue) {
            passing.metadata.coalesce = true;
            let cost = passing.packet.frame.len() as u128 * 1_000_000_000;
            if cost <= self.tokens {
                self.tokens -= cost;
                self.passed += 1;
            } else {
                passing.fate = Fate::Drop;
                self.dropped += 1;
            }
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("passed", self.passed), ("dropped", self.dropped)]
    }
}

/// Looks for patterns in payloads, all of them in one pass (Aho and Corasick, 1975): what follows a TCP or
/// UDP header, and of other protocols and later fragments what follows the IP header. A pattern cut by a
/// packet's end is not found: payloads are not put together.
///
/// Reads no argument. Writes into `sf_metadata` which pattern was found first, counted from 1; 0 for none.
/// Drops nothing, but packets with a match if it is [told to](PayloadMatch::dropping). Counts packets with
/// a match (`found`) and without (`none`).
#[derive(Debug, Clone)]
pub struct PayloadMatch {
    patterns: AhoCorasick,
    drops: bool,
}

impl PayloadMatch {
    /// A match of these patterns.
    ///
    /// # Errors
    /// If they are too many for the automaton.
    pub fn new(patterns: &[&[u8]]) -> Result<PayloadMatch, aho_corasick::BuildError> {
        Ok(PayloadMatch { patterns: AhoCorasick::new(patterns)?, drops: false })
    }

    /// Packets with a match are dropped.
    #[must_use]
    pub fn dropping(self) -> PayloadMatch {
        PayloadMatch { drops: true, ..self }
    }
}

struct Matching {
    patterns: AhoCorasick,
    drops: bool,
    found: u64,
    none: u64,
}

impl Element for PayloadMatch {
    fn name(&self) -> &'static str {
        "payload_match"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, _now_ns: u64, _seed: u64) -> Box<dyn Instance> {
        let (patterns, drops) = (self.patterns.clone(), self.drops);
        Box::new(Matching { patterns, drops, found: 0, none: 0 })
    }
}

impl Instance for Matching {
    fn ingress(&mut self, _now_ns: u64, burst: &mut [Passing<'_>]) {
        for passing in burst.iter_mut().filter(|passing| passing.fate == Fate::Continue) {
            passing.metadata.coalesce = true;
            let packet = &passing.packet;
            let (from, to) = (packet.at.l4 as usize, packet.at.end as usize);
            let payload =
                packet.frame.get(packet.payload().unwrap_or(from..to)).unwrap_or_default();
            let found = self.patterns.find(payload).map(|found| found.pattern().as_u64() + 1);
            passing.metadata.register = found.unwrap_or(0);
            if found.is_some() && self.drops {
                passing.fate = Fate::Drop;
            }
            self.found += u64::from(found.is_some());
            self.none += u64::from(found.is_none());
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("found", self.found), ("none", self.none)]
    }
}

/// SoftFlow's firewall (§4.1): the tables hold the access list, the tracker remembers. `sf_argument` 1 says
/// that the list allows the packet, and it may open a connection; 0, that it may only belong to one. The
/// register is 1 if it may pass.
///
/// Writes into `sf_metadata` 1 or 0; drops nothing: the tables decide. Counts what [`conntrack::Counters`]
/// has.
#[derive(Debug, Clone)]
pub struct Firewall {
    config: conntrack::Config,
}

impl Firewall {
    /// A firewall whose instances' trackers are configured so, but for the seed.
    pub fn new(config: conntrack::Config) -> Firewall {
        Firewall { config }
    }
}

struct Tracking {
    tracker: Tracker,
}

impl Element for Firewall {
    fn name(&self) -> &'static str {
        "conntrack"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, now_ns: u64, seed: u64) -> Box<dyn Instance> {
        let config = conntrack::Config { seed, ..self.config.clone() };
        Box::new(Tracking { tracker: Tracker::new(config, now_ns) })
    }
}

impl Instance for Tracking {
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]) {
        self.tracker.begin();
        // Runs of packets that ask for the same, so that order is kept.
        for run in burst.chunk_by_mut(|a, b| a.metadata.argument == b.metadata.argument) {
            let allowed = run[0].metadata.argument != 0;
            let (nat, apart) = (Nat::None, run[0].apart);
            let request = Request { commit: allowed, nat, apart, ..Request::default() };
            self.tracker.process_each(now_ns, &request, run, |passing, outcome| {
                let is = |state: CtState| outcome.state.contains(state);
                let known = is(CtState::ESTABLISHED) || is(CtState::RELATED);
                let pass = outcome.drop.is_none() && (known || allowed && is(CtState::NEW));
                passing.metadata.register = pass.into();
                passing.metadata.coalesce = true;
                // The tables decide about all others.
                if let Fate::Drop = fate(&outcome)
                    && !matches!(outcome.drop, Some(Drop::Fragment | Drop::Fenced))
                {
                    return;
                }
                passing.fate = fate(&outcome);
            });
        }
    }

    fn news(&mut self) -> (Vec<Ticket>, Vec<Ticket>) {
        news(&mut self.tracker)
    }

    fn tend(&mut self, now_ns: u64) {
        self.tracker.expire(now_ns, TENDED);
    }

    fn page(
        &self,
        now_ns: u64,
        from: usize,
        places: usize,
        see: &mut dyn FnMut(Kept),
    ) -> Option<usize> {
        tracked::page(&self.tracker, now_ns, from, places, see)
    }

    fn forget(&mut self, chosen: &Selection) -> usize {
        tracked::forget(&mut self.tracker, chosen)
    }

    fn size(&self) -> (usize, usize, usize) {
        let tracker = &self.tracker;
        (tracker.len(), tracker.half_open(), tracker.memory().total())
    }

    fn export(&mut self, now_ns: u64, taken_at: u64) -> Option<Vec<u8>> {
        Some(tracked::export(&mut self.tracker, now_ns, taken_at))
    }

    fn import(&mut self, now_ns: u64, image: Vec<u8>) -> Result<usize, String> {
        tracked::import(&mut self.tracker, now_ns, image)
    }

    fn tracker(&mut self) -> Option<&mut Tracker> {
        Some(&mut self.tracker)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.tracker.counters().all().collect()
    }
}

/// Records that an element's tracker looks at in one call of [`Instance::tend`].
const TENDED: usize = 256;

/// What a tracker wants to become of a packet.
fn fate(outcome: &Outcome) -> Fate {
    match outcome.drop {
        None => Fate::Continue,
        Some(Drop::Apart) => Fate::Apart,
        Some(Drop::Waits(ticket)) => Fate::Waits(ticket),
        Some(_) => Fate::Drop,
    }
}

fn news(tracker: &mut Tracker) -> (Vec<Ticket>, Vec<Ticket>) {
    match tracker.has_news() {
        true => (tracker.take_ready(), tracker.take_lost()),
        // Nearly always.
        false => (Vec::new(), Vec::new()),
    }
}

/// Source translation, as a router at home does it: packets that go out get an address and port of a pool, and
/// their answers get them back. Two elements of one group: [`OUT`] opens connections, [`IN`] only knows answers.
///
/// Reads no argument. Writes addresses and ports, also those that an ICMP error quotes, and into `sf_metadata` 1 for packets
/// of its connections and 0 for others, which it leaves as they are. Drops what it has no port or room for. Counts what
/// [`conntrack::Counters`] has.
#[derive(Debug, Clone)]
pub struct Translator {
    config: conntrack::Config,
    first: IpAddr,
    last: IpAddr,
    ports: Ports,
    role: u32,
}

/// The role of a [`Translator`] that packets out come to.
pub const OUT: u32 = 0;
/// The role of a [`Translator`] that packets in come to.
pub const IN: u32 = 1;

impl Translator {
    /// A translator to these addresses and ports, whose instances' trackers are configured so, but for the seed.
    ///
    /// # Errors
    /// If the addresses and ports are no pool.
    pub fn new(
        config: conntrack::Config,
        first: IpAddr,
        last: IpAddr,
        ports: Ports,
        out: bool,
    ) -> Result<Translator, PoolError> {
        Pool::new(first, last, ports)?;
        Ok(Translator { config, first, last, ports, role: if out { OUT } else { IN } })
    }
}

struct Translating {
    tracker: Tracker,
    rule: Rule,
    /// Of a group of one.
    role: u32,
}

impl Element for Translator {
    fn name(&self) -> &'static str {
        "nat"
    }

    fn writes(&self) -> Writes {
        Writes::Ends
    }

    fn role(&self) -> u32 {
        self.role
    }

    fn instance(&self, _worker: usize, now_ns: u64, seed: u64) -> Box<dyn Instance> {
        let config = conntrack::Config { seed, ..self.config.clone() };
        let mut tracker = Tracker::new(config, now_ns);
        // That it is one was seen when the element was made.
        let pool = Pool::new(self.first, self.last, self.ports).ok();
        let rule = Rule { source: pool.map(|pool| tracker.add_pool(pool)), destination: None };
        Box::new(Translating { tracker, rule, role: self.role })
    }
}

impl Instance for Translating {
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]) {
        self.ingress_as(self.role, now_ns, burst);
    }

    fn ingress_as(&mut self, role: u32, now_ns: u64, burst: &mut [Passing<'_>]) {
        let request = match role {
            OUT => Request { commit: true, nat: Nat::New(self.rule), ..Request::default() },
            _ => Request { nat: Nat::Existing, ..Request::default() },
        };
        self.tracker.begin();
        for run in burst.chunk_by_mut(|a, b| a.fate == b.fate) {
            if run[0].fate != Fate::Continue {
                continue;
            }
            let request = Request { apart: run[0].apart, ..request };
            self.tracker.process_each(now_ns, &request, run, |passing, outcome| {
                let is = |state: CtState| outcome.state.contains(state);
                let opens = role == OUT && is(CtState::NEW);
                let known = opens || is(CtState::ESTABLISHED) || is(CtState::RELATED);
                passing.metadata.register = known.into();
                passing.metadata.coalesce = true;
                passing.fate = fate(&outcome);
            });
        }
    }

    fn news(&mut self) -> (Vec<Ticket>, Vec<Ticket>) {
        news(&mut self.tracker)
    }

    fn tend(&mut self, now_ns: u64) {
        self.tracker.expire(now_ns, TENDED);
    }

    fn page(
        &self,
        now_ns: u64,
        from: usize,
        places: usize,
        see: &mut dyn FnMut(Kept),
    ) -> Option<usize> {
        tracked::page(&self.tracker, now_ns, from, places, see)
    }

    fn forget(&mut self, chosen: &Selection) -> usize {
        tracked::forget(&mut self.tracker, chosen)
    }

    fn size(&self) -> (usize, usize, usize) {
        let tracker = &self.tracker;
        (tracker.len(), tracker.half_open(), tracker.memory().total())
    }

    fn outside(&self, most: usize) -> Option<Outside> {
        Some(self.tracker.outside(most))
    }

    fn export(&mut self, now_ns: u64, taken_at: u64) -> Option<Vec<u8>> {
        Some(tracked::export(&mut self.tracker, now_ns, taken_at))
    }

    fn import(&mut self, now_ns: u64, image: Vec<u8>) -> Result<usize, String> {
        tracked::import(&mut self.tracker, now_ns, image)
    }

    fn tracker(&mut self) -> Option<&mut Tracker> {
        Some(&mut self.tracker)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.tracker.counters().all().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::craft::{Frame, checksums_are_right};
    use crate::packet::Packet;

    const A: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 1000);
    const B: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 80);

    /// Registers after a call on these frames, and fates.
    fn call(
        instance: &mut dyn Instance,
        now_ns: u64,
        argument: u32,
        frames: &mut [Vec<u8>],
    ) -> Vec<(u64, Fate)> {
        let mut burst: Vec<_> = frames.iter_mut().map(|f| Passing::new(Packet::of(f))).collect();
        burst.iter_mut().for_each(|passing| passing.metadata.argument = argument);
        instance.ingress(now_ns, &mut burst);
        burst.iter().map(|passing| (passing.metadata.register, passing.fate)).collect()
    }

    #[test]
    fn the_firewall_lets_answers_in_and_nothing_else() {
        let element = Firewall::new(conntrack::Config::new(100, 0));
        let mut firewall = element.instance(0, 0, 1);
        let mut there = [Frame::udp(A, B, 1).bytes()];
        let mut back = [Frame::udp(B, A, 1).bytes()];
        assert_eq!(call(&mut *firewall, 0, 0, &mut back), [(0, Fate::Continue)]);
        assert_eq!(call(&mut *firewall, 0, 1, &mut there), [(1, Fate::Continue)]);
        assert_eq!(call(&mut *firewall, 0, 0, &mut back), [(1, Fate::Continue)]);
        assert_eq!(call(&mut *firewall, 0, 0, &mut there), [(1, Fate::Continue)]);
        let late = 31 * 1_000_000_000;
        assert_eq!(call(&mut *firewall, late, 0, &mut back), [(0, Fate::Continue)]);
        let counters = firewall.counters();
        assert!(counters.contains(&("connections_opened", 1)), "{counters:?}");
    }

    /// Hands a frame to the element of a role; the register and the fate.
    fn one(instance: &mut dyn Instance, role: u32, frame: &mut [u8]) -> (u64, Fate) {
        let mut burst = [Passing::new(Packet::of(frame))];
        instance.ingress_as(role, 0, &mut burst);
        (burst[0].metadata.register, burst[0].fate)
    }

    #[test]
    fn a_group_of_two_translates_there_and_back() {
        let outside: IpAddr = [192, 0, 2, 1].into();
        let make = |out| {
            let mut config = conntrack::Config::new(100, 0);
            config.translated_max = 100;
            Translator::new(config, outside, outside, Ports::Range(2000, 2001), out).unwrap()
        };
        let (out, back) = (make(true), make(false));
        let mut group = out.instance(0, 0, 1);
        let mut frame = Frame::udp(A, B, 4).bytes();
        assert_eq!(one(&mut *group, out.role(), &mut frame), (1, Fate::Continue));
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        assert!((2000..=2001).contains(&port) && frame[26..30] == [192, 0, 2, 1]);
        assert!(checksums_are_right(&frame));
        let mut answer = Frame::udp(B, (outside, port), 4).bytes();
        assert_eq!(one(&mut *group, back.role(), &mut answer), (1, Fate::Continue));
        assert_eq!(answer, Frame::udp(B, A, 4).bytes());
        // Nobody's: it opens nothing from outside.
        for n in 0..2 {
            let stranger = Frame::udp((B.0, 81 + n), (outside, port), 4).bytes();
            let mut frame = stranger.clone();
            assert_eq!(one(&mut *group, back.role(), &mut frame), (0, Fate::Continue));
            assert_eq!(frame, stranger);
        }
        // Of two ports one is left for this destination.
        let other = |n| (IpAddr::from([10, 0, 0, n]), 1000);
        assert_eq!(one(&mut *group, OUT, &mut Frame::udp(other(5), B, 4).bytes()).0, 1);
        let none = one(&mut *group, OUT, &mut Frame::udp(other(6), B, 4).bytes());
        assert_eq!(none.1, Fate::Drop);
        assert!(group.counters().contains(&("nat_exhausted", 1)));
        // An instance of its own knows its role.
        let mut alone = back.instance(0, 0, 1);
        let mut burst = [Passing::new(Packet::of(&mut frame))];
        alone.ingress(0, &mut burst);
        assert_eq!(burst[0].metadata.register, 0);
    }

    #[test]
    fn the_rate_limiter_lets_its_rate_and_burst_pass() {
        let frame = Frame::udp(A, B, 58).bytes();
        assert_eq!(frame.len(), 100);
        let limit = RateLimiter { octets_per_second: 10_000, burst_octets: 1000 };
        let mut limiter = limit.instance(0, 0, 0);
        let passed = |fates: Vec<(u64, Fate)>| {
            fates.iter().filter(|(_, fate)| *fate == Fate::Continue).count()
        };
        assert_eq!(passed(call(&mut *limiter, 0, 0, &mut vec![frame.clone(); 32])), 10);
        // 10 ms are one frame's worth.
        assert_eq!(passed(call(&mut *limiter, 9_999_999, 0, &mut vec![frame.clone(); 3])), 0);
        assert_eq!(passed(call(&mut *limiter, 10_000_000, 0, &mut vec![frame.clone(); 3])), 1);
        assert_eq!(passed(call(&mut *limiter, 5, 0, &mut vec![frame.clone(); 3])), 0, "time back");
        assert_eq!(passed(call(&mut *limiter, u64::MAX, 0, &mut vec![frame; 32])), 10);
        assert_eq!(limiter.counters(), [("passed", 21), ("dropped", 52)]);
    }

    #[test]
    fn headers_are_no_payload() {
        // 0x03e8 is the source port, and 0x5010 TCP's header length and flags.
        let element = PayloadMatch::new(&[b"\x03\xe8", b"\x50\x10"]).unwrap();
        let mut matching = element.instance(0, 0, 0);
        let ack = wire::tcp::Flags::ACK;
        let mut frames = [Frame::udp(A, B, 3).bytes(), Frame::tcp(A, B, ack, (1, 1), 3).bytes()];
        assert_eq!(call(&mut *matching, 0, 0, &mut frames), [(0, Fate::Continue); 2]);
    }

    #[test]
    fn payloads_are_matched_and_the_first_is_told() {
        let element = PayloadMatch::new(&[b"EVIL", b"xxxx"]).unwrap();
        let mut matching = element.instance(0, 0, 0);
        let mut evil = Frame::udp(A, B, 11);
        evil.body[11..].copy_from_slice(b"EVILxxxx");
        let mut frames =
            [Frame::udp(A, B, 3).bytes(), Frame::udp(A, B, 4).bytes(), evil.bytes(), vec![0; 3]];
        let registers: Vec<_> =
            call(&mut *matching, 0, 0, &mut frames).into_iter().map(|(r, _)| r).collect();
        assert_eq!(registers, [0, 2, 1, 0]);
        assert_eq!(matching.counters(), [("found", 2), ("none", 2)]);
    }

    #[test]
    fn counters_walkers_and_noops() {
        let mut frames = vec![Frame::udp(A, B, 58).bytes(); 5];
        let mut counter = Counter::default().instance(0, 0, 0);
        call(&mut *counter, 0, 0, &mut frames);
        assert_eq!(counter.counters(), [("packets", 5), ("octets", 500)]);
        let mut walker = MemoryWalker::new(1 << 16).instance(0, 0, 1);
        call(&mut *walker, 0, 65, &mut frames);
        assert_eq!(walker.counters(), [("lines", 10)]);
        let mut noop = Noop.instance(0, 0, 0);
        assert_eq!(call(&mut *noop, 0, 0, &mut frames), [(0, Fate::Continue); 5]);
    }
}
