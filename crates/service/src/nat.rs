//! Address and port translation, on the tracker's connections.
//!
//! A connection's two tuples say all: its opener's packets come in as the original tuple and leave as
//! the inverse of the reply tuple, the other side's come in as the reply tuple and leave as the
//! inverse of the original. A new connection that a [`Rule`] translates gets a reply tuple that no
//! other has; this module finds it ([`Pool`]) and changes packets.
//!
//! A rule may translate source, destination or both at once. Both are what a *hairpin* needs: a host
//! inside that talks to another one inside by its outside address is translated to that host, and
//! from an outside address, so that the answers come back through the translator (RFC 4787 §6).
//!
//! # How a source port is found
//!
//! - [`Ports::Range`]: the port that this inside socket has outside already, if it is free towards the new end: a
//!   socket keeps one outside port for all ends (RFC 4787 REQ-1, [`mapping`]). Else the port that the sender uses, if it is in
//!   range and free, else the first free one from a random place on, of at most [`TRIES_MAX`]. Where the range is all
//!   ports, the sender's own is taken whatever it is, 0 included; where it is not free, a port below 512, below 1024 or
//!   above becomes one of the same kind. A port serves many connections if they go to different ends. A sender keeps
//!   its outside address (RFC 4787 REQ-2), and senders are spread evenly over the addresses by a hash.
//! - [`Ports::Blocks`]: each sender has blocks of ports, taken as it needs them and given back when
//!   empty, so that one line of a log says whose a port was (RFC 6888 §4). A port serves one
//!   connection at a time.
//! - [`Ports::Deterministic`]: a sender's ports follow from its address (RFC 7422); no log is needed. Within them, as
//!   with a range.
//!
//! When nothing is free, the packet is dropped and counted.
//!
//! A destination that is translated alone, so that the answers would be another connection's, costs the client its port:
//! it becomes another that is free (a client may use one port towards two addresses of the same server).
//!
//! Checksums are edited by what has changed (RFC 1624). An ICMP error is translated inside, too: the
//! packet that it quotes looks as its sender sent it (RFC 5508 §4). One that quotes less than 8 octets of the transport
//! header (RFC 792) is dropped, and so is a redirect, whose gateway is none of the receiver's.
//!
//! A packet whose addresses are part of what a checksum or a signature covers, and which cannot be edited, is dropped
//! and counted (`nat_impossible`): behind an authentication header (RFC 4302 §3.3.3), a mobility or HIP header among IPv6's
//! extension headers, or a source route with stops left (RFC 8200 §8.1), and VRRP, whose versions differ.
//!
//! Checked by: the tests below, which recompute every checksum; `lab/conntrack` against the kernel.

mod mapping;

use crate::conntrack::{CtState, Direction, Drop, Outcome, Role, Tracker, Tuple};
use crate::packet::{Checksum, Fragment, Packet};
use crate::random::Random;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::checksum::{self, Delta};
use wire::{IpProtocol, icmpv4, ipv6, sctp};

pub(crate) use mapping::Mappings;

/// Ports looked at for one connection.
pub const TRIES_MAX: u32 = 128;
/// Octets of a transport header that an error quotes, at least (RFC 792).
const QUOTED_MIN: usize = 8;
/// Outside addresses looked at for one connection.
const ADDRESSES_MAX: u32 = 4;

/// A pool of a tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolId(pub(crate) usize);

/// How a new connection is translated. A pool that the tracker does not have, or of the other address
/// family, has no address left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rule {
    /// Where the source is taken from.
    pub source: Option<PoolId>,
    /// Where the destination is taken from: a pool of [`Ports::Keep`] or [`Ports::Range`]. Ports that are
    /// a sender's own are no destinations, so other pools have none left.
    pub destination: Option<PoolId>,
}

/// How ports are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// Ports are left as they are; a connection for which that cannot be has none left.
    Keep,
    /// Ports from the first to the last, the sender's own if it can be.
    Range(u16, u16),
    /// The same in blocks of so many ports, so many blocks at most for a sender.
    Blocks {
        /// The first port.
        first: u16,
        /// The last.
        last: u16,
        /// Ports in a block, at least 1.
        size: u16,
        /// Blocks for one sender.
        blocks_max: u16,
    },
    /// The same, cut evenly among so many senders from an address on.
    Deterministic {
        /// The first port.
        first: u16,
        /// The last.
        last: u16,
        /// The first sender.
        inside: IpAddr,
        /// How many there are.
        senders: u32,
    },
}

/// Why a pool cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolError {
    /// The last address comes before the first, or is of the other family.
    Addresses(IpAddr, IpAddr),
    /// The last port comes before the first.
    Ports(u16, u16),
    /// A block of no port, or of more than there are.
    BlockSize(u16),
    /// More senders than ports.
    Senders(u32),
}

impl std::fmt::Display for PoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PoolError::Addresses(first, last) => write!(
                f,
                "addresses {first} to {last} are no range; the first comes first, of one family"
            ),
            PoolError::Ports(first, last) => {
                write!(f, "ports {first} to {last} are no range; the smaller comes first")
            }
            PoolError::BlockSize(size) => {
                write!(f, "a block of {size} ports does not fit; take 1 up to the number of ports")
            }
            PoolError::Senders(senders) => {
                write!(f, "{senders} senders have no port each; take more addresses or ports")
            }
        }
    }
}

impl std::error::Error for PoolError {}

/// Outside addresses and ports.
#[derive(Debug)]
pub struct Pool {
    first: u128,
    count: u128,
    v6: bool,
    ports: Ports,
    blocks: Option<Blocks>,
    /// Connections for which there was nothing left.
    exhausted: u64,
}

impl Pool {
    /// A pool of the addresses from `first` to `last`.
    ///
    /// # Errors
    /// [`PoolError`], for ranges that are none.
    pub fn new(first: IpAddr, last: IpAddr, ports: Ports) -> Result<Pool, PoolError> {
        let ((low, v6), (high, high_v6)) = (bits(first), bits(last));
        if high < low || v6 != high_v6 {
            return Err(PoolError::Addresses(first, last));
        }
        let count = (high - low).saturating_add(1);
        let range = |first: u16, last: u16| {
            let len = u32::from(last).checked_sub(u32::from(first)).map(|len| len + 1);
            len.ok_or(PoolError::Ports(first, last))
        };
        let mut blocks = None;
        match ports {
            Ports::Keep => {}
            Ports::Range(first, last) => drop(range(first, last)?),
            Ports::Blocks { first, last, size, .. } => {
                let len = range(first, last)?;
                if size == 0 || u32::from(size) > len {
                    return Err(PoolError::BlockSize(size));
                }
                blocks = Some(Blocks::new(low, count, first, len / u32::from(size), size));
            }
            Ports::Deterministic { first, last, senders, .. } => {
                let len = range(first, last)?;
                let per_address = u128::from(senders).div_ceil(count);
                if senders == 0 || per_address > u128::from(len) {
                    return Err(PoolError::Senders(senders));
                }
            }
        }
        Ok(Pool { first: low, count, v6, ports, blocks, exhausted: 0 })
    }

    /// Connections for which there was nothing left.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }

    /// Blocks of ports in use, of how many.
    pub fn blocks(&self) -> Option<(usize, usize)> {
        self.blocks.as_ref().map(|blocks| (blocks.total - blocks.free.len(), blocks.total))
    }

    /// Its first address, how many there are, whether they are IPv6's, and its ports: what it was made of.
    pub(crate) fn definition(&self) -> (u128, u128, bool, Ports) {
        (self.first, self.count, self.v6, self.ports)
    }

    /// The pool of that definition, with nothing bound.
    pub(crate) fn from_definition(
        first: u128,
        count: u128,
        v6: bool,
        ports: Ports,
    ) -> Option<Pool> {
        let last = first.checked_add(count.checked_sub(1)?)?;
        if !v6 && last > u32::MAX.into() {
            return None;
        }
        Pool::new(address(first, v6), address(last, v6), ports).ok()
    }

    /// Whether a sender has this outside address and port, of one of its blocks.
    pub(crate) fn holds(&self, sender: u128, address: u128, port: u16) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.holds(sender, address, port))
    }

    /// Binds a port to a sender, who may have it already; false if its block is another's, or of none.
    /// Looks through the free blocks if the sender does not have this one.
    pub(crate) fn claim(&mut self, sender: u128, address: u128, port: u16) -> bool {
        self.blocks.as_mut().is_some_and(|blocks| blocks.claim(sender, address, port))
    }

    /// The same for many at once, of a pool of which nothing is bound, in time that grows with the pool and
    /// with the claims. Of those that cannot all be had, the first come first.
    pub(crate) fn claim_all(&mut self, claims: &[(u128, u128, u16)]) {
        let Ports::Blocks { first, size, .. } = self.ports else { return };
        let Some(blocks) = &mut self.blocks else { return };
        let mut free: HashMap<(u128, u16), bool, FixedState> =
            blocks.free.iter().map(|block| (*block, true)).collect();
        for (sender, address, port) in claims {
            let Some(n) = port.checked_sub(first) else { continue };
            let block = (*address, first + n / size * size);
            match free.get_mut(&block) {
                Some(open) if *open => {
                    *open = false;
                    blocks.own(*sender, block);
                }
                _ => {}
            }
            blocks.mark(*sender, *address, *port);
        }
        blocks.free.retain(|block| free.get(block).is_some_and(|open| *open));
    }

    /// Takes another's bindings, of the same definition; its own are lost.
    pub(crate) fn adopt(&mut self, other: &mut Pool) {
        std::mem::swap(&mut self.blocks, &mut other.blocks);
    }

    /// Who an outside address and port belong to, of a deterministic pool.
    pub fn sender(&self, outside: IpAddr, port: u16) -> Option<IpAddr> {
        let Ports::Deterministic { first, inside, senders, .. } = self.ports else { return None };
        let (outside, v6) = bits(outside);
        let index = outside.checked_sub(self.first).filter(|n| v6 == self.v6 && *n < self.count)?;
        let (per_address, per_sender) = self.shares()?;
        let of_port = u128::from(port.checked_sub(first)?) / u128::from(per_sender);
        let sender = index * per_address + of_port;
        if of_port >= per_address || sender >= u128::from(senders) {
            return None;
        }
        let (inside, v6) = bits(inside);
        Some(address(inside + sender, v6))
    }

    /// Of a deterministic pool, senders for each address, and ports for each sender.
    fn shares(&self) -> Option<(u128, u16)> {
        let Ports::Deterministic { first, last, senders, .. } = self.ports else { return None };
        let per_address = u128::from(senders).div_ceil(self.count);
        let len = u32::from(last - first) + 1;
        Some((per_address, (u128::from(len) / per_address) as u16))
    }

    /// Which of the addresses a sender comes to first: the same one each time, and of all senders about as many to each.
    fn place(&self, sender: u128) -> u128 {
        // Neither factor depends on the sender: one that may be 0 or all ones would say the same of all of them.
        let once = crate::hash::fold(sender as u64 ^ 0x9e37_79b9_7f4a_7c15, 0x9fb2_1c65_1e98_df25);
        let both = crate::hash::fold(once ^ (sender >> 64) as u64, 0xd6e8_feb8_6659_fd93);
        let more = crate::hash::fold(both ^ 0x2d35_8dcc_aa6c_78a5, 0xbf58_476d_1ce4_e5b9);
        (u128::from(both) << 64 | u128::from(more)) % self.count
    }

    /// An outside address and port for a sender, for which `free` holds. `has` tells the port that the sender's socket
    /// has at an address already.
    fn take(
        &mut self,
        tuple: &Tuple,
        (sender, own): (u128, u16),
        random: &mut Random,
        has: &dyn Fn(u128) -> Option<u16>,
        free: &mut dyn FnMut(u128, u16) -> bool,
    ) -> Option<(u128, u16)> {
        if self.v6 != tuple.v6 {
            return None;
        }
        let place = self.place(sender);
        let numbered = tuple.has_ports() || tuple.is_query();
        match self.ports {
            Ports::Keep => {
                let tries = self.count.min(ADDRESSES_MAX.into());
                (0..tries)
                    .map(|n| self.first + (place + n) % self.count)
                    .find(|address| free(*address, own))
                    .map(|address| (address, own))
            }
            Ports::Range(first, last) => {
                let all = matches!((first, last), (0 | 1, u16::MAX));
                let (from, to) = if all { class(tuple, own) } else { (first, last) };
                let tries = self.count.min(ADDRESSES_MAX.into());
                (0..tries).find_map(|n| {
                    let address = self.first + (place + n) % self.count;
                    if !numbered {
                        return free(address, own).then_some((address, own));
                    }
                    let mut free = |port| free(address, port);
                    let may = |port: u16| all || (first..=last).contains(&port);
                    let known = has(address).filter(|port| may(*port) && free(*port));
                    known
                        .or_else(|| (all && free(own)).then_some(own))
                        .or_else(|| search(from, to, own, random, free))
                        .map(|port| (address, port))
                })
            }
            Ports::Blocks { blocks_max, .. } if numbered => {
                self.blocks.as_mut()?.take(sender, blocks_max.into(), free)
            }
            Ports::Deterministic { first, inside, senders, .. } if numbered => {
                let (inside, v6) = bits(inside);
                let n = sender.checked_sub(inside)?;
                if n >= u128::from(senders) || v6 != tuple.v6 {
                    return None;
                }
                let (per_address, per_sender) = self.shares()?;
                let address = self.first + n / per_address;
                let base = first + (n % per_address) as u16 * per_sender;
                let last = base + (per_sender - 1);
                let mut free = |port| free(address, port);
                let known = has(address).filter(|p| (base..=last).contains(p) && free(*p));
                known.or_else(|| search(base, last, own, random, free)).map(|port| (address, port))
            }
            // A protocol without ports cannot share an address by them.
            Ports::Blocks { .. } | Ports::Deterministic { .. } => {
                let address = self.first + place;
                free(address, own).then_some((address, own))
            }
        }
    }
}

/// A free port: the sender's own, or from a random one on.
fn search(
    first: u16,
    last: u16,
    own: u16,
    random: &mut Random,
    mut free: impl FnMut(u16) -> bool,
) -> Option<u16> {
    if (first..=last).contains(&own) && free(own) {
        return Some(own);
    }
    let len = u32::from(last - first) + 1;
    let start = random.below(len.into()) as u32;
    (0..len.min(TRIES_MAX))
        .map(|n| first + ((start + n) % len) as u16)
        .find(|port| *port != own && free(*port))
}

/// Ports, or identifiers, that serve in place of one if any may: privileged ones stay privileged.
fn class(original: &Tuple, port: u16) -> (u16, u16) {
    match port {
        _ if original.is_query() => (0, u16::MAX),
        0..512 => (1, 511),
        512..1024 => (600, 1023),
        _ => (1024, u16::MAX),
    }
}

/// Blocks of ports, and who has them.
#[derive(Debug)]
struct Blocks {
    size: u16,
    total: usize,
    /// Outside address and first port of blocks that nobody has, the longest unused first.
    free: VecDeque<(u128, u16)>,
    of: HashMap<u128, Vec<Block>, FixedState>,
}

#[derive(Debug)]
struct Block {
    address: u128,
    first: u16,
    used: Box<[u64]>,
    count: u16,
}

impl Blocks {
    fn new(first: u128, addresses: u128, port: u16, per_address: u32, size: u16) -> Blocks {
        // A pool is of outside addresses, which are few; its blocks are listed.
        let addresses = addresses.min(1 << 16);
        let free: VecDeque<(u128, u16)> = (0..per_address)
            .flat_map(|n| (0..addresses).map(move |a| (first + a, port + n as u16 * size)))
            .collect();
        let total = free.len();
        // Never more senders than blocks: the map does not grow while packets wait.
        let of = HashMap::with_capacity_and_hasher(total, FixedState::with_seed(0));
        Blocks { size, total, free, of }
    }

    fn take(
        &mut self,
        sender: u128,
        blocks_max: usize,
        free: &mut dyn FnMut(u128, u16) -> bool,
    ) -> Option<(u128, u16)> {
        let size = self.size;
        let blocks = self.of.entry(sender).or_default();
        for block in blocks.iter_mut().filter(|block| block.count < size) {
            if let Some(port) = block.take(size, free) {
                return Some((block.address, port));
            }
        }
        // A sender keeps its address if it can be.
        let address = blocks.first().map(|block| block.address);
        if blocks.len() < blocks_max {
            let same = self.free.iter().take(TRIES_MAX as usize);
            let at = same.into_iter().position(|(a, _)| Some(*a) == address).unwrap_or(0);
            if let Some((address, first)) = self.free.remove(at) {
                let used = vec![0; usize::from(size).div_ceil(64)].into_boxed_slice();
                let mut block = Block { address, first, used, count: 0 };
                if let Some(port) = block.take(size, free) {
                    blocks.push(block);
                    return Some((address, port));
                }
                // Others use all its ports, which no pool knows of: perhaps not for long.
                self.free.push_back((address, first));
            }
        }
        if blocks.is_empty() {
            self.of.remove(&sender);
        }
        None
    }

    /// The block of a sender in which this port lies.
    fn block(&mut self, sender: u128, address: u128, port: u16) -> Option<&mut Block> {
        let size = self.size;
        self.of.get_mut(&sender)?.iter_mut().find(|block| block.has(address, port, size))
    }

    fn holds(&self, sender: u128, address: u128, port: u16) -> bool {
        let of = self
            .of
            .get(&sender)
            .and_then(|blocks| blocks.iter().find(|block| block.has(address, port, self.size)));
        of.is_some_and(|block| {
            let n = usize::from(port - block.first);
            block.used[n / 64] >> (n % 64) & 1 != 0
        })
    }

    /// Notes that a port of a block that the sender has is used; false if he has none such.
    fn mark(&mut self, sender: u128, address: u128, port: u16) -> bool {
        let Some(block) = self.block(sender, address, port) else { return false };
        let n = usize::from(port - block.first);
        let bit = 1 << (n % 64);
        block.count += u16::from(block.used[n / 64] & bit == 0);
        block.used[n / 64] |= bit;
        true
    }

    /// Makes a block that nobody has a sender's; it is not in `free` any more.
    fn own(&mut self, sender: u128, (address, first): (u128, u16)) {
        let used = vec![0; usize::from(self.size).div_ceil(64)].into_boxed_slice();
        self.of.entry(sender).or_default().push(Block { address, first, used, count: 0 });
    }

    fn claim(&mut self, sender: u128, address: u128, port: u16) -> bool {
        if self.mark(sender, address, port) {
            return true;
        }
        let size = self.size;
        let at = self.free.iter().position(|(of, first)| {
            *of == address && port.checked_sub(*first).is_some_and(|n| n < size)
        });
        let Some(block) = at.and_then(|at| self.free.remove(at)) else { return false };
        self.own(sender, block);
        self.mark(sender, address, port)
    }

    fn give(&mut self, sender: u128, address: u128, port: u16) {
        let Some(blocks) = self.of.get_mut(&sender) else { return };
        let Some(at) = blocks.iter().position(|block| block.has(address, port, self.size)) else {
            return;
        };
        let block = &mut blocks[at];
        let n = usize::from(port - block.first);
        if block.used[n / 64] >> (n % 64) & 1 != 0 {
            block.used[n / 64] &= !(1 << (n % 64));
            block.count -= 1;
        }
        if block.count == 0 {
            let block = blocks.swap_remove(at);
            self.free.push_back((block.address, block.first));
            if blocks.is_empty() {
                self.of.remove(&sender);
            }
        }
    }
}

impl Block {
    fn has(&self, address: u128, port: u16, size: u16) -> bool {
        self.address == address && port.checked_sub(self.first).is_some_and(|n| n < size)
    }

    fn take(&mut self, size: u16, free: &mut dyn FnMut(u128, u16) -> bool) -> Option<u16> {
        for (at, word) in self.used.iter_mut().enumerate() {
            let mut open = !*word;
            while open != 0 {
                let n = at as u16 * 64 + open.trailing_zeros() as u16;
                if n >= size {
                    return None;
                }
                if free(self.address, self.first + n) {
                    *word |= 1 << (n % 64);
                    self.count += 1;
                    return Some(self.first + n);
                }
                open &= open - 1;
            }
        }
        None
    }
}

fn bits(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), false),
        IpAddr::V6(address) => (address.to_bits(), true),
    }
}

fn address(bits: u128, v6: bool) -> IpAddr {
    if v6 { IpAddr::V6(bits.into()) } else { IpAddr::V4((bits as u32).into()) }
}

/// A connection that wants an address and port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newcomer {
    /// The tick at which it comes.
    pub(crate) now: u32,
    /// One past its SYN's sequence number, if it comes with one.
    pub(crate) syn_end: Option<u32>,
}

impl Tracker {
    /// A reply tuple by this rule that no connection has. None if there is none left.
    ///
    /// Where there is none, a connection that is over gives way: one that has the tuple, or, where ports are a sender's own, one of
    /// the sender's that has a port.
    pub(crate) fn bind(&mut self, rule: &Rule, original: &Tuple, to: &Newcomer) -> Option<Tuple> {
        if *rule == Rule::default() {
            return self.same_address(original);
        }
        let exhausted = self.exhausted_of(rule);
        if let Some(reply) = self.bind_by(rule, original, None) {
            return Some(reply);
        }
        self.set_exhausted(rule, exhausted);
        if let Some(reply) = self.bind_by(rule, original, Some(to)) {
            if let Some((old, _)) = self.holder(&reply) {
                self.replace(old, to.now);
                self.keep_bound(rule, original, &reply);
            }
            return Some(reply);
        }
        let blocks = |id: PoolId| self.pools.get(id.0).is_some_and(|pool| pool.blocks.is_some());
        if to.syn_end.is_none() || !rule.source.is_some_and(blocks) {
            return None;
        }
        let old = self.closed_of(original, to)?;
        self.set_exhausted(rule, exhausted);
        self.replace(old, to.now);
        self.bind_by(rule, original, None)
    }

    fn bind_by(&mut self, rule: &Rule, original: &Tuple, to: Option<&Newcomer>) -> Option<Tuple> {
        // Taken out while the index is asked; nothing in between removes connections.
        let mut pools = std::mem::take(&mut self.pools);
        let mut random = self.random.clone();
        let reply = self.choose(&mut pools, &mut random, rule, original, to);
        self.random = random;
        self.pools = pools;
        reply
    }

    /// Translation to no address in particular (`nat(src)`, or all zeroes): the connection's own, with another source port where its
    /// answers would be another connection's.
    fn same_address(&mut self, original: &Tuple) -> Option<Tuple> {
        let plain = original.inverted();
        if self.holder(&plain).is_none() {
            return Some(plain);
        }
        if !original.has_ports() && !original.is_query() {
            return None;
        }
        let (first, last) = class(original, original.src_port);
        let mut random = self.random.clone();
        let free = |dst_port| self.holder(&Tuple { dst_port, ..plain }).is_none();
        let port = search(first, last, original.src_port, &mut random, free);
        self.random = random;
        Some(Tuple { dst_port: port?, ..plain })
    }

    /// Connections for which a rule's pools had nothing left.
    fn exhausted_of(&self, rule: &Rule) -> [u64; 2] {
        let of = |id: Option<PoolId>| id.and_then(|id| self.pools.get(id.0));
        [of(rule.source), of(rule.destination)].map(|pool| pool.map_or(0, |pool| pool.exhausted))
    }

    fn set_exhausted(&mut self, rule: &Rule, [source, destination]: [u64; 2]) {
        for (id, exhausted) in [(rule.source, source), (rule.destination, destination)] {
            if let Some(pool) = id.and_then(|id| self.pools.get_mut(id.0)) {
                pool.exhausted = exhausted;
            }
        }
    }

    /// What a connection that gave way had bound is the newcomer's now.
    fn keep_bound(&mut self, rule: &Rule, original: &Tuple, reply: &Tuple) {
        if let Some(pool) = rule.source.and_then(|id| self.pools.get_mut(id.0)) {
            pool.claim(original.src, reply.dst, reply.dst_port);
        }
    }

    /// Whether a new connection may have this reply tuple: none has it, or one that gives way.
    fn is_free(&self, reply: &Tuple, to: Option<&Newcomer>) -> bool {
        match self.holder(reply) {
            None => true,
            Some((at, way)) => to.is_some_and(|to| self.gives_way(at, way, to)),
        }
    }

    fn choose(
        &self,
        pools: &mut [Pool],
        random: &mut Random,
        rule: &Rule,
        original: &Tuple,
        to: Option<&Newcomer>,
    ) -> Option<Tuple> {
        let free = |reply: &Tuple| self.is_free(reply, to);
        let plain = original.inverted();
        let mut reply = plain;
        let mut shared = false;
        if let Some(PoolId(id)) = rule.destination {
            let pool = pools.get_mut(id)?;
            let sender = (original.src, if original.is_query() { 0 } else { original.dst_port });
            // With a source still to be chosen, any destination will do.
            let mut fits = |src: u128, port: u16| {
                let src_port = if original.has_ports() { port } else { plain.src_port };
                rule.source.is_some() || free(&Tuple { src, src_port, ..plain })
            };
            // What a socket has outside is a source, no destination.
            let has = |_| None;
            let taken = match pool.ports {
                Ports::Keep | Ports::Range(..) => {
                    let mut taken = pool.take(original, sender, random, &has, &mut fits);
                    if taken.is_none() && (original.has_ports() || original.is_query()) {
                        shared = true;
                        taken = pool.take(original, sender, random, &has, &mut |_, _| true);
                    }
                    taken
                }
                Ports::Blocks { .. } | Ports::Deterministic { .. } => None,
            };
            let Some((src, port)) = taken else {
                pool.exhausted += 1;
                return None;
            };
            reply.src = src;
            if original.has_ports() {
                reply.src_port = port;
            }
            if shared {
                // The client's port is what tells the two apart.
                let (first, last) = class(original, original.src_port);
                let fits = |dst_port| free(&Tuple { dst_port, ..reply });
                let Some(port) = search(first, last, original.src_port, random, fits) else {
                    pool.exhausted += 1;
                    return None;
                };
                reply.dst_port = port;
            }
        }
        if let Some(PoolId(id)) = rule.source {
            let pool = pools.get_mut(id)?;
            let mut fits = |dst: u128, port: u16| free(&Tuple { dst, dst_port: port, ..reply });
            let sender = (original.src, original.src_port);
            let has = |outside| self.mappings.get(self.socket(original, outside));
            let Some((dst, port)) = pool.take(original, sender, random, &has, &mut fits) else {
                pool.exhausted += 1;
                return None;
            };
            (reply.dst, reply.dst_port) = (dst, port);
        }
        // Without a rule that applies, two translated connections could still meet.
        (reply == plain || rule.source.is_some() || free(&reply)).then_some(reply)
    }

    /// The name of an inside socket at an outside address, for [`Mappings`].
    fn socket(&self, original: &Tuple, outside: u128) -> u64 {
        let socket = Tuple { dst: outside, dst_port: 0, role: Role::Any, ..*original };
        crate::hash::fold(self.hasher.hash(&socket), 0x2d35_8dcc_aa6c_78a5)
    }

    /// Notes what the source of a connection that is now kept was translated to.
    pub(crate) fn map_socket(&mut self, original: &Tuple, reply: &Tuple) {
        self.mappings.note(self.socket(original, reply.dst), reply.dst_port);
    }

    /// Such a connection is gone.
    pub(crate) fn unmap_socket(&mut self, original: &Tuple, reply: &Tuple) {
        self.mappings.forget(self.socket(original, reply.dst), reply.dst_port);
    }

    /// What a connection's source was translated to is free again.
    pub(crate) fn release(&mut self, original: &Tuple, reply: &Tuple) {
        for pool in &mut self.pools {
            if let Some(blocks) = &mut pool.blocks
                && pool.v6 == original.v6
            {
                blocks.give(original.src, reply.dst, reply.dst_port);
            }
        }
    }

    /// Changes a packet of a connection as its direction asks.
    pub(crate) fn translate(
        &mut self,
        (original, reply): (&Tuple, &Tuple),
        direction: Direction,
        packet: &mut Packet<'_>,
        outcome: &mut Outcome,
    ) {
        let (from, to) = match direction {
            Direction::Original => (original, reply.inverted()),
            Direction::Reply => (reply, original.inverted()),
        };
        if *from == to {
            return;
        }
        match rewrite(packet, from, &to) {
            Ok(()) => outcome.state |= changed(from, &to),
            Err(drop) => {
                outcome.drop = Some(drop);
                self.counters.nat_impossible += 1;
            }
        }
    }

    /// Changes an error that goes in `direction`, outside and inside.
    pub(crate) fn translate_error(
        &mut self,
        (original, reply): (&Tuple, &Tuple),
        direction: Direction,
        packet: &mut Packet<'_>,
        outcome: &mut Outcome,
    ) {
        let (from, to) = match direction {
            Direction::Original => (original, reply.inverted()),
            Direction::Reply => (reply, original.inverted()),
        };
        if *from == to {
            return;
        }
        // What it quotes went the other way, and left as the inverse of `from`; its sender knows it as
        // the inverse of `to`.
        match rewrite_error(packet, from, &to) {
            Some(()) => outcome.state |= changed(from, &to),
            None => {
                outcome.drop = Some(Drop::NatImpossible);
                self.counters.nat_impossible += 1;
            }
        }
    }
}

pub(crate) fn changed(from: &Tuple, to: &Tuple) -> CtState {
    let mut state = CtState::default();
    if (from.src, from.src_port) != (to.src, to.src_port) {
        state |= CtState::SOURCE_NAT;
    }
    if (from.dst, from.dst_port) != (to.dst, to.dst_port) {
        state |= CtState::DESTINATION_NAT;
    }
    state
}

/// Where the numbers that a translation changes lie in the transport header, and what they become.
fn numbers(from: &Tuple, to: &Tuple) -> [Option<(usize, u16, u16)>; 2] {
    if from.has_ports() {
        let ports = [(0, from.src_port, to.src_port), (2, from.dst_port, to.dst_port)];
        return ports.map(|(at, old, new)| (old != new).then_some((at, old, new)));
    }
    let ident = match from.role {
        Role::Request => (4, from.src_port, to.src_port),
        Role::Reply => (4, from.dst_port, to.dst_port),
        Role::Any => return [None; 2],
    };
    [(ident.1 != ident.2).then_some(ident), None]
}

/// Where the checksum lies in the transport header, and whether it covers the addresses (which in some protocols it does over
/// IPv6 alone: RFC 5340 §A.3.1, RFC 7761 §4.9).
fn checksum_of(protocol: IpProtocol, v6: bool) -> Option<(usize, bool)> {
    match protocol {
        IpProtocol::TCP => Some((16, true)),
        IpProtocol::UDP | IpProtocol::UDP_LITE | IpProtocol::DCCP => Some((6, true)),
        IpProtocol::ICMPV6 => Some((2, true)),
        IpProtocol::ICMP => Some((2, false)),
        IpProtocol::OSPF if v6 => Some((12, true)),
        IpProtocol::PIM if v6 => Some((2, true)),
        IpProtocol::HIP => Some((4, true)),
        _ => None,
    }
}

/// Whether something covers the addresses of an IP packet that cannot be edited with them. `header` begins with the IP header.
fn is_sealed(header: &[u8], v6: bool, protocol: IpProtocol) -> bool {
    if matches!(protocol, IpProtocol::AUTH | IpProtocol::VRRP) {
        return true;
    }
    // What most packets are: no extension header.
    if !v6 || header.get(6).copied().map(IpProtocol) == Some(protocol) {
        return false;
    }
    let Ok(view) = ipv6::Packet::new_header_checked(header) else { return false };
    view.extensions().flatten().any(|header| match header.kind {
        IpProtocol::AUTH | IpProtocol::MOBILITY | IpProtocol::HIP => true,
        IpProtocol::ROUTING => header.segments_left() != 0,
        _ => false,
    })
}

/// Whether a checksum that is 0 says that there is none (UDP), or is none that may be (RFC 3828 §3.1).
fn never_zero(protocol: IpProtocol) -> bool {
    matches!(protocol, IpProtocol::UDP | IpProtocol::UDP_LITE)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Writes addresses into an IP header at the front of `header`, with the header's checksum. The change
/// of the addresses is added to `delta`. None if the header is cut off.
fn readdress(header: &mut [u8], from: &Tuple, to: &Tuple, delta: &mut Delta) -> Option<()> {
    if from.v6 {
        header.get_mut(8..24)?.copy_from_slice(&to.src.to_be_bytes());
        header.get_mut(24..40)?.copy_from_slice(&to.dst.to_be_bytes());
        delta.u128(from.src, to.src).u128(from.dst, to.dst);
        return Some(());
    }
    let [from_src, from_dst, to_src, to_dst] =
        [from.src, from.dst, to.src, to.dst].map(|address| address as u32);
    header.get_mut(12..16)?.copy_from_slice(&to_src.to_be_bytes());
    header.get_mut(16..20)?.copy_from_slice(&to_dst.to_be_bytes());
    let mut addresses = Delta::new();
    addresses.u32(from_src, to_src).u32(from_dst, to_dst);
    delta.u32(from_src, to_src).u32(from_dst, to_dst);
    let checksum = word(header, 10)?;
    put(header, 10, addresses.apply(checksum));
    Some(())
}

/// Changes a packet whose tuple is `from` so that it is `to`.
pub(crate) fn rewrite(packet: &mut Packet<'_>, from: &Tuple, to: &Tuple) -> Result<(), Drop> {
    let at = packet.at;
    let numbers = numbers(from, to);
    let has_transport = !matches!(at.fragment, Fragment::Later { .. });
    // SCTP's CRC covers the ports and all that is not here.
    let is_sctp = from.protocol == IpProtocol::SCTP && numbers != [None; 2];
    if is_sctp && at.fragment != Fragment::Whole {
        return Err(Drop::NatImpossible);
    }
    let mut addresses = Delta::new();
    let header = packet.frame.get_mut(at.l3 as usize..).ok_or(Drop::NatImpossible)?;
    if is_sealed(header, from.v6, at.protocol) {
        return Err(Drop::NatImpossible);
    }
    readdress(header, from, to, &mut addresses).ok_or(Drop::NatImpossible)?;
    if !has_transport {
        return Ok(());
    }
    let (l4, end) = (at.l4 as usize, at.end as usize);
    let body = packet.frame.get_mut(l4..end).ok_or(Drop::NatImpossible)?;
    let mut all = addresses;
    for (place, old, new) in numbers.into_iter().flatten() {
        put(body, place, new);
        all.u16(old, new);
    }
    if is_sctp {
        if packet.checksum != Checksum::Partial
            && let Ok(mut packet) = sctp::Packet::new_checked(body)
        {
            packet.fill_checksum();
        }
        return Ok(());
    }
    if let Some((place, covers)) = checksum_of(from.protocol, from.v6)
        && let Some(old) = word(body, place)
    {
        let new = match (packet.checksum, covers) {
            // The sum of the pseudo-header alone, which has the addresses and no ports.
            (Checksum::Partial, true) => addresses.apply_partial(old),
            (Checksum::Partial, false) => old,
            (_, true) if never_zero(from.protocol) => all.apply_udp(old),
            (_, true) => all.apply(old),
            (_, false) => {
                let mut own = Delta::new();
                for (_, old, new) in numbers.into_iter().flatten() {
                    own.u16(old, new);
                }
                own.apply(old)
            }
        };
        put(body, place, new);
    }
    Ok(())
}

/// Changes an error that goes the way of `from`, and the packet that it quotes. None if that is cut
/// short.
fn rewrite_error(packet: &mut Packet<'_>, from: &Tuple, to: &Tuple) -> Option<()> {
    let at = packet.at;
    let (l4, end) = (at.l4 as usize, at.end as usize);
    if !from.v6 && packet.frame.get(l4) == Some(&icmpv4::REDIRECT) {
        return None;
    }
    // Inside.
    let quoted_at = l4 + icmpv4::HEADER_LEN;
    let quoted = packet.frame.get_mut(quoted_at..end)?;
    let inner_l4 = if from.v6 {
        let view = ipv6::Packet::new_header_checked(&*quoted).ok()?;
        ipv6::HEADER_LEN + view.extensions().end().ok()?.offset
    } else {
        usize::from(*quoted.first()? & 0x0f) * 4
    };
    let (was, becomes) = (from.inverted(), to.inverted());
    // As far as the transport header's checksum: all that changes lies before its end.
    let reach = quoted.len().min(inner_l4 + 18) & !1;
    let before = checksum::sum(&quoted[..reach]);
    let mut inner = Delta::new();
    if is_sealed(quoted, from.v6, was.protocol) {
        return None;
    }
    readdress(quoted, &was, &becomes, &mut inner)?;
    let (_, body) = quoted.split_at_mut_checked(inner_l4)?;
    let numbered = was.has_ports() || was.role != Role::Any;
    if numbered && body.len() < QUOTED_MIN {
        return None;
    }
    let mut own = Delta::new();
    for (place, old, new) in numbers(&was, &becomes).into_iter().flatten() {
        put(body, place, new);
        inner.u16(old, new);
        own.u16(old, new);
    }
    if let Some((place, covers)) = checksum_of(was.protocol, from.v6)
        && let Some(old) = word(body, place)
    {
        let new = match covers {
            true if never_zero(was.protocol) => inner.apply_udp(old),
            true => inner.apply(old),
            false => own.apply(old),
        };
        put(body, place, new);
    }
    let after = checksum::sum(&quoted[..reach]);
    // Outside. The sender may be a router on the way, whose address stays, unless the connection's end
    // on that side is one that must not be seen.
    let header = packet.frame.get_mut(at.l3 as usize..)?;
    let mut outer = Tuple { protocol: at.protocol, dst: from.dst, ..*from };
    outer.src = if from.v6 {
        u128::from_be_bytes(*header.get(8..24)?.first_chunk()?)
    } else {
        u32::from_be_bytes(*header.get(12..16)?.first_chunk()?).into()
    };
    let src = if from.src == to.src { outer.src } else { to.src };
    let new = Tuple { src, dst: to.dst, ..outer };
    let mut delta = Delta::new();
    readdress(header, &outer, &new, &mut delta)?;
    if !from.v6 {
        delta = Delta::new();
    }
    delta.u16(before, after);
    let place = l4 + icmpv4::CHECKSUM_AT;
    let old = word(packet.frame, place)?;
    if packet.checksum != Checksum::Partial {
        put(packet.frame, place, delta.apply(old));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conntrack::{Config, Nat, Request};
    use crate::craft::{Frame, checksums_are_right};
    use std::collections::HashSet;
    use wire::checksum::Pseudo;
    use wire::tcp::Flags;

    fn v4(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn tracker() -> Tracker {
        Tracker::new(Config { translated_max: 5000, ..Config::new(5000, 7) }, 0)
    }

    fn pool(first: &str, last: &str, ports: Ports) -> Pool {
        Pool::new(v4(first), v4(last), ports).unwrap()
    }

    /// The frame as it leaves, and what is said of it.
    fn pass(tracker: &mut Tracker, nat: Nat, frame: &[u8]) -> (Vec<u8>, Outcome) {
        let mut frame = frame.to_vec();
        let mut outcome = [Outcome::default()];
        let request = Request { commit: nat != Nat::Existing, nat, ..Request::default() };
        tracker.process(0, &request, &mut [Packet::of(&mut frame)], &mut outcome);
        assert!(outcome[0].drop.is_some() || checksums_are_right(&frame), "{frame:02x?}");
        (frame, outcome[0])
    }

    /// Source and destination of a frame: address and port.
    fn ends(frame: &[u8]) -> [(IpAddr, u16); 2] {
        let at = crate::packet::Offsets::of(frame);
        let l4 = at.l4 as usize;
        let (src, dst) = match at.network {
            crate::packet::Network::V4 => {
                let view = wire::ipv4::Packet::new_header_checked(&frame[14..]).unwrap();
                (view.src().into(), view.dst().into())
            }
            _ => {
                let view = wire::ipv6::Packet::new_header_checked(&frame[14..]).unwrap();
                (view.src().into(), view.dst().into())
            }
        };
        [(src, word(frame, l4).unwrap()), (dst, word(frame, l4 + 2).unwrap())]
    }

    fn source(tracker: &mut Tracker, pool: Pool) -> Nat {
        Nat::New(Rule { source: Some(tracker.add_pool(pool)), destination: None })
    }

    #[test]
    fn a_source_is_translated_there_and_back() {
        let udp = |a, b| Frame::udp(a, b, 5).bytes();
        let tcp = |a, b| Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes();
        for (inside, server, outside) in [
            ("10.0.0.1", "192.0.2.1", "203.0.113.5"),
            ("fd00::1", "2001:db8::1", "2001:db8:ffff::5"),
        ] {
            for make in [&udp as &dyn Fn(_, _) -> Vec<u8>, &tcp] {
                let mut tracker = tracker();
                let nat = source(&mut tracker, pool(outside, outside, Ports::Range(1024, 65535)));
                let (a, b) = ((v4(inside), 5000), (v4(server), 53));
                let (out, outcome) = pass(&mut tracker, nat, &make(a, b));
                assert_eq!(ends(&out), [(v4(outside), 5000), b]);
                assert_eq!(outcome.state.to_string(), "+new+trk+snat");
                let (back, outcome) = pass(
                    &mut tracker,
                    Nat::Existing,
                    &Frame::udp(b, (v4(outside), 5000), 9).bytes(),
                );
                if word(&out, 12) == Some(0x0800) && out[23] == 17 {
                    assert_eq!(ends(&back), [b, a]);
                    assert_eq!(outcome.state.to_string(), "+est+rpl+trk+dnat");
                }
                // Another host with the same port gets another.
                let (other, _) = pass(
                    &mut tracker,
                    nat,
                    &make((v4(&inside.replace('1', "2").replace("20.0.0.2", "10.0.0.2")), 5000), b),
                );
                let [(address, port), _] = ends(&other);
                assert_eq!(address, v4(outside));
                assert!(port != 5000 && port >= 1024);
            }
        }
    }

    #[test]
    fn a_destination_and_a_hairpin() {
        let mut tracker = tracker();
        let inside = tracker.add_pool(pool("10.0.0.9", "10.0.0.9", Ports::Range(8080, 8080)));
        let outside =
            tracker.add_pool(pool("203.0.113.5", "203.0.113.5", Ports::Range(1024, 65535)));
        let forward = Nat::New(Rule { source: None, destination: Some(inside) });
        let hairpin = Nat::New(Rule { source: Some(outside), destination: Some(inside) });
        let vip = (v4("203.0.113.5"), 80);
        let server = (v4("10.0.0.9"), 8080);
        let syn = |a, b| Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes();
        let answer = |a, b| Frame::tcp(a, b, Flags::SYN | Flags::ACK, (9, 2), 0).bytes();

        let client = (v4("198.51.100.1"), 4000);
        let (out, outcome) = pass(&mut tracker, forward, &syn(client, vip));
        assert_eq!(
            (ends(&out), outcome.state.to_string().as_str()),
            ([client, server], "+new+trk+dnat")
        );
        let (back, outcome) = pass(&mut tracker, Nat::Existing, &answer(server, client));
        assert_eq!(
            (ends(&back), outcome.state.to_string().as_str()),
            ([vip, client], "+est+rpl+trk+snat")
        );

        let host = (v4("10.0.0.1"), 4000);
        let (out, outcome) = pass(&mut tracker, hairpin, &syn(host, vip));
        assert_eq!(ends(&out), [(v4("203.0.113.5"), 4000), server]);
        assert_eq!(outcome.state.to_string(), "+new+trk+snat+dnat");
        let (back, _) =
            pass(&mut tracker, Nat::Existing, &answer(server, (v4("203.0.113.5"), 4000)));
        assert_eq!(ends(&back), [vip, host]);
    }

    /// A pipeline asks first for known connections, then lets some hosts open them, by the addresses that packets came with
    /// (Linux's `ovs_ct_nat`, which leaves packets of unanswered connections to who commits them).
    #[test]
    fn packets_of_an_unanswered_connection_are_translated_by_who_may_open_it() {
        let (a, b) = ((v4("10.0.0.1"), 5000), (v4("192.0.2.1"), 53));
        let outside = (v4("203.0.113.5"), 7);
        let udp = |from, to| Frame::udp(from, to, 5);
        let tcp = |from, to, flags, numbers| Frame::tcp(from, to, flags, numbers, 0);
        let both = Flags::SYN | Flags::ACK;
        for [there, back, next] in [
            [udp(a, b), udp(b, outside), udp(a, b)],
            [
                tcp(a, b, Flags::SYN, (1, 0)),
                tcp(b, outside, both, (9, 2)),
                tcp(a, b, Flags::ACK, (2, 10)),
            ],
        ] {
            let mut tracker = tracker();
            let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(7, 7)));
            // The second is a repetition: nobody has answered the first.
            for _ in 0..2 {
                let (asked, outcome) = pass(&mut tracker, Nat::Existing, &there.bytes());
                assert_eq!(
                    (ends(&asked), outcome.state.to_string().as_str()),
                    ([a, b], "+new+trk")
                );
                let (opened, outcome) = pass(&mut tracker, nat, &asked);
                assert_eq!(ends(&opened), [outside, b]);
                assert_eq!(outcome.state.to_string(), "+new+trk+snat");
            }
            let (back, _) = pass(&mut tracker, Nat::Existing, &back.bytes());
            assert_eq!(ends(&back), [b, a]);
            let (next, outcome) = pass(&mut tracker, Nat::Existing, &next.bytes());
            assert_eq!(
                (ends(&next), outcome.state.to_string().as_str()),
                ([outside, b], "+est+trk+snat")
            );
        }
    }

    #[test]
    fn errors_are_translated_inside() {
        for (inside, server, outside, router, kind) in [
            ("10.0.0.1", "192.0.2.1", "203.0.113.5", "192.0.2.77", 3),
            ("fd00::1", "2001:db8::1", "2001:db8:ffff::5", "2001:db8::77", 1),
        ] {
            let mut tracker = tracker();
            let nat = source(&mut tracker, pool(outside, outside, Ports::Range(7000, 7999)));
            let (a, b) = ((v4(inside), 5000), (v4(server), 53));
            let sent = Frame::udp(a, b, 16);
            let (out, _) = pass(&mut tracker, nat, &sent.bytes());
            let [(_, port), _] = ends(&out);
            assert!((7000..8000).contains(&port));
            for quoted in [28, 48, 200] {
                if quoted < 48 && kind == 1 {
                    continue;
                }
                // A router on the way complains about what it saw; the sender must know it again.
                let seen = Frame::udp((v4(outside), port), b, 16);
                let error = seen.error(v4(router), kind, 1, quoted);
                let (back, outcome) = pass(&mut tracker, Nat::Existing, &error.bytes());
                assert_eq!(outcome.state.to_string(), "+rel+rpl+trk+dnat");
                let header = if kind == 3 { 20 } else { 40 };
                let inner = &back[14 + header + 8..];
                let original = &sent.bytes()[14..];
                let len = inner.len().min(original.len());
                assert_eq!(inner[..len], original[..len], "as its sender sent it");
                let [(src, _), (dst, _)] = ends(&back);
                assert_eq!((src, dst), (v4(router), a.0));
            }
        }
    }

    #[test]
    fn an_error_that_quotes_too_little_or_redirects_is_not_translated() {
        let mut tracker = tracker();
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(1, 65535)));
        let (a, b, out) = ((v4("10.0.0.1"), 5000), (v4("192.0.2.1"), 53), v4("203.0.113.5"));
        pass(&mut tracker, nat, &Frame::udp(a, b, 16).bytes());
        let seen = Frame::udp((out, 5000), b, 16);
        for (kind, quoted, drop) in [
            (3, 24, Some(Drop::NatImpossible)),
            (3, 27, Some(Drop::NatImpossible)),
            (3, 28, None),
            (5, 28, Some(Drop::NatImpossible)),
        ] {
            let error = seen.error(v4("192.0.2.77"), kind, 1, quoted);
            let (_, outcome) = pass(&mut tracker, Nat::Existing, &error.bytes());
            assert_eq!(outcome.drop, drop, "{kind} {quoted}");
        }
        assert_eq!(tracker.counters().nat_impossible, 3);
    }

    #[test]
    fn of_all_ports_one_of_the_same_kind_is_chosen() {
        let mut tracker = tracker();
        let all = Ports::Range(1, u16::MAX);
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", all));
        for (own, kind) in [(4000, 1024..=65535), (700, 600..=1023), (80, 1..=511)] {
            for host in 1..=50 {
                let from = (IpAddr::from([10, 0, 0, host]), own);
                let frame = Frame::udp(from, (v4("192.0.2.1"), 53), 0);
                let (out, outcome) = pass(&mut tracker, nat, &frame.bytes());
                let [(_, port), _] = ends(&out);
                assert!(outcome.drop.is_none() && kind.contains(&port), "{own} became {port}");
            }
        }
    }

    #[test]
    fn a_client_of_one_server_by_two_addresses_is_told_apart_by_its_port() {
        let mut tracker = tracker();
        let server = tracker.add_pool(pool("10.0.0.9", "10.0.0.9", Ports::Range(8080, 8080)));
        let forward = Nat::New(Rule { source: None, destination: Some(server) });
        let server = (v4("10.0.0.9"), 8080);
        let answer = |a, b| Frame::tcp(a, b, Flags::SYN | Flags::ACK, (9, 2), 0).bytes();
        for (own, ports) in [(4000, 1024..=65535), (700, 600..=1023), (80, 1..=511)] {
            let client = (v4("198.51.100.1"), own);
            let mut used = HashSet::new();
            for vip in ["203.0.113.5", "203.0.113.6", "203.0.113.7"] {
                let vip = (v4(vip), 80);
                let syn = Frame::tcp(client, vip, Flags::SYN, (1, 0), 0).bytes();
                let (out, outcome) = pass(&mut tracker, forward, &syn);
                let [from, to] = ends(&out);
                assert_eq!((from.0, to, outcome.drop), (client.0, server, None));
                assert!(ports.contains(&from.1) && used.insert(from.1), "{from:?}");
                assert!(used.len() > 1 || from.1 == own);
                // The answers go to whom they are for, as from where they are expected.
                let (back, _) = pass(&mut tracker, Nat::Existing, &answer(server, from));
                assert_eq!(ends(&back), [vip, client]);
            }
        }
        // Without ports nothing tells them apart.
        let other = |to| Frame::new(v4("198.51.100.1"), v4(to), wire::IpProtocol(50), vec![0; 20]);
        assert_eq!(pass(&mut tracker, forward, &other("203.0.113.5").bytes()).1.drop, None);
        let (_, outcome) = pass(&mut tracker, forward, &other("203.0.113.6").bytes());
        assert_eq!(outcome.drop, Some(Drop::NatExhausted));
    }

    #[test]
    fn a_connection_whose_answers_would_be_anothers_is_refused() {
        let mut tracker = tracker();
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(100, 109)));
        let (a, b) = ((v4("10.0.0.1"), 2000), (v4("192.0.2.1"), 53));
        let there = Frame::udp(a, b, 0).bytes();
        let (out, _) = pass(&mut tracker, nat, &there);
        assert_eq!(ends(&out)[0].0, v4("203.0.113.5"));
        // Its answers would be packets from A to B, which are translated.
        let back = Frame::udp(b, a, 0).bytes();
        let (_, outcome) = pass(&mut tracker, Nat::None, &back);
        assert_eq!(outcome.drop, Some(Drop::Clash));
        assert_eq!(tracker.counters().insert_failed, 1);
        let (again, outcome) = pass(&mut tracker, nat, &there);
        assert_eq!((again, outcome.drop), (out, None), "the first is as it was");
        let other = Frame::udp(b, (a.0, 2001), 0).bytes();
        assert_eq!(pass(&mut tracker, Nat::None, &other).1.drop, None);
    }

    #[test]
    fn pings_are_translated_by_their_identifier() {
        let mut tracker = tracker();
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(1, 9)));
        let (a, b, n) = (v4("10.0.0.1"), v4("192.0.2.1"), v4("203.0.113.5"));
        let (out, _) = pass(&mut tracker, nat, &Frame::icmp(a, b, 8, 0, 0x5555_0001, b"x").bytes());
        let ident = word(&out, 38).unwrap();
        assert!((1..10).contains(&ident));
        let reply = Frame::icmp(b, n, 0, 0, u32::from(ident) << 16 | 1, b"x");
        let (back, outcome) = pass(&mut tracker, Nat::Existing, &reply.bytes());
        assert_eq!(
            (word(&back, 38), outcome.state.to_string().as_str()),
            (Some(0x5555), "+est+rpl+trk+dnat")
        );
        assert_eq!(ends(&back)[1].0, a);
    }

    #[test]
    fn exhaustion_is_counted_and_ends_when_connections_do() {
        let mut tracker = tracker();
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(100, 109)));
        let server = (v4("192.0.2.1"), 53);
        let from = |n: u16| Frame::udp((v4("10.0.0.1"), 2000 + n), server, 0).bytes();
        let mut ports = HashSet::new();
        for n in 0..10 {
            let (out, outcome) = pass(&mut tracker, nat, &from(n));
            assert_eq!(outcome.drop, None);
            assert!(ports.insert(ends(&out)[0].1));
        }
        let (_, outcome) = pass(&mut tracker, nat, &from(10));
        assert_eq!(outcome.drop, Some(Drop::NatExhausted));
        assert_eq!(tracker.counters().nat_exhausted, 1);
        // To another server, the ports serve again.
        let elsewhere = Frame::udp((v4("10.0.0.1"), 2010), (v4("192.0.2.2"), 53), 0).bytes();
        assert_eq!(pass(&mut tracker, nat, &elsewhere).1.drop, None);
        tracker.flush(Some(0));
        assert_eq!(pass(&mut tracker, nat, &from(10)).1.drop, None);
    }

    #[test]
    fn blocks_are_a_senders_own_and_come_back() {
        let mut tracker = tracker();
        let ports = Ports::Blocks { first: 1000, last: 1099, size: 10, blocks_max: 2 };
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.6", ports));
        let Nat::New(Rule { source: Some(id), .. }) = nat else { unreachable!() };
        let server = (v4("192.0.2.1"), 53);
        let from =
            |host: u8, n: u16| Frame::udp((IpAddr::from([10, 0, 0, host]), n), server, 0).bytes();
        let mut of = std::collections::HashMap::new();
        for host in 1..=10 {
            for n in 0..20 {
                let (out, outcome) = pass(&mut tracker, nat, &from(host, n));
                assert_eq!(outcome.drop, None);
                let (address, port) = ends(&out)[0];
                assert_eq!(*of.entry((address, port / 10)).or_insert(host), host);
            }
            let outcome = pass(&mut tracker, nat, &from(host, 20)).1;
            assert_eq!(outcome.drop, Some(Drop::NatExhausted), "two blocks, no more");
        }
        assert_eq!(tracker.pool(id).unwrap().blocks(), Some((20, 20)));
        assert_eq!(pass(&mut tracker, nat, &from(11, 0)).1.drop, Some(Drop::NatExhausted));
        tracker.flush(Some(0));
        assert_eq!(tracker.pool(id).unwrap().blocks(), Some((0, 20)));
        assert_eq!(pass(&mut tracker, nat, &from(11, 0)).1.drop, None);
    }

    #[test]
    fn blocks_are_not_lost_where_none_of_their_ports_serves() {
        let mut tracker = tracker();
        let ports = Ports::Blocks { first: 1000, last: 1001, size: 2, blocks_max: 1 };
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", ports));
        let Nat::New(Rule { source: Some(id), .. }) = nat else { unreachable!() };
        let server = (v4("192.0.2.1"), 53);
        for port in [1000, 1001] {
            let other = Frame::udp(server, (v4("203.0.113.5"), port), 0).bytes();
            assert_eq!(pass(&mut tracker, Nat::None, &other).1.drop, None);
        }
        let from = |host: u8| Frame::udp((IpAddr::from([10, 0, 0, host]), 1), server, 0).bytes();
        assert_eq!(pass(&mut tracker, nat, &from(1)).1.drop, Some(Drop::NatExhausted));
        assert_eq!(tracker.pool(id).unwrap().blocks(), Some((0, 1)));
        tracker.flush(Some(0));
        assert_eq!(pass(&mut tracker, nat, &from(2)).1.drop, None);
    }

    #[test]
    fn ports_that_are_a_senders_own_are_no_destinations() {
        let inside = v4("10.0.0.0");
        for ports in [
            Ports::Blocks { first: 1, last: 8, size: 2, blocks_max: 2 },
            Ports::Deterministic { first: 1, last: 8, inside, senders: 4 },
        ] {
            let mut tracker = tracker();
            let id = tracker.add_pool(pool("203.0.113.5", "203.0.113.5", ports));
            let nat = Nat::New(Rule { source: None, destination: Some(id) });
            let frame = Frame::udp((v4("10.0.0.1"), 1), (v4("192.0.2.1"), 53), 0).bytes();
            assert_eq!(pass(&mut tracker, nat, &frame).1.drop, Some(Drop::NatExhausted));
            let pool = tracker.pool(id).unwrap();
            assert_eq!((pool.exhausted(), pool.blocks().map_or(0, |(used, _)| used)), (1, 0));
        }
    }

    #[test]
    fn deterministic_ports_tell_their_sender() {
        let mut tracker = tracker();
        let inside = v4("10.0.0.0");
        let ports = Ports::Deterministic { first: 1024, last: 65535, inside, senders: 100 };
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.7", ports));
        let Nat::New(Rule { source: Some(id), .. }) = nat else { unreachable!() };
        let server = (v4("192.0.2.1"), 53);
        for host in 0..100_u8 {
            for n in 0..3 {
                let a = IpAddr::from([10, 0, 0, host]);
                let (out, _) = pass(&mut tracker, nat, &Frame::udp((a, n), server, 0).bytes());
                let (address, port) = ends(&out)[0];
                assert_eq!(tracker.pool(id).unwrap().sender(address, port), Some(a));
            }
        }
        let stranger = Frame::udp((v4("10.0.0.100"), 1), server, 0).bytes();
        assert_eq!(pass(&mut tracker, nat, &stranger).1.drop, Some(Drop::NatExhausted));
        assert_eq!(tracker.pool(id).unwrap().sender(v4("203.0.113.8"), 1024), None);
        assert_eq!(tracker.pool(id).unwrap().sender(v4("203.0.113.7"), 65535), None);
    }

    #[test]
    fn pools_that_cannot_be() {
        let (a, b) = (v4("10.0.0.1"), v4("10.0.0.2"));
        let deterministic =
            |senders| Ports::Deterministic { first: 1, last: 2, inside: a, senders };
        let blocks = |size| Ports::Blocks { first: 1, last: 2, size, blocks_max: 1 };
        for (first, last, ports, text) in [
            (
                b,
                a,
                Ports::Keep,
                "addresses 10.0.0.2 to 10.0.0.1 are no range; the first comes first, of one family",
            ),
            (
                a,
                v4("fd00::1"),
                Ports::Keep,
                "addresses 10.0.0.1 to fd00::1 are no range; the first comes first, of one family",
            ),
            (a, b, Ports::Range(2, 1), "ports 2 to 1 are no range; the smaller comes first"),
            (a, b, blocks(3), "a block of 3 ports does not fit; take 1 up to the number of ports"),
            (a, b, blocks(0), "a block of 0 ports does not fit; take 1 up to the number of ports"),
            (a, b, deterministic(5), "5 senders have no port each; take more addresses or ports"),
        ] {
            assert_eq!(Pool::new(first, last, ports).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn sctp_ports_cost_a_new_crc_and_partial_checksums_stay_partial() {
        let mut tracker = tracker();
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(7, 7)));
        let mut body = vec![0; 12];
        body[..4].copy_from_slice(&[0x10, 0, 0x0b, 0x59]);
        body.extend([1, 0, 0, 20, 0, 0, 0, 9, 0, 0, 16, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
        let (a, b) = (v4("10.0.0.1"), v4("192.0.2.1"));
        let (out, outcome) =
            pass(&mut tracker, nat, &Frame::new(a, b, IpProtocol::SCTP, body).bytes());
        assert_eq!((ends(&out)[0], outcome.drop), ((v4("203.0.113.5"), 7), None));

        let mut frame = Frame::udp((a, 9), (b, 53), 8).bytes();
        let place = wire::pseudo_header_partial(&mut frame).unwrap();
        let mut outcome = [Outcome::default()];
        let request = Request { commit: true, nat, ..Request::default() };
        let packet = Packet { checksum: Checksum::Partial, ..Packet::of(&mut frame) };
        tracker.process(0, &request, &mut [packet], &mut outcome);
        wire::complete_partial_checksum(&mut frame, place.start.into(), place.offset.into())
            .unwrap();
        assert!(checksums_are_right(&frame) && ends(&frame)[0] == (v4("203.0.113.5"), 7));
    }

    #[test]
    fn a_pool_is_used_evenly_whoever_sends() {
        let nth = |first: IpAddr, n: u128| {
            let (bits, v6) = bits(first);
            address(bits + n, v6)
        };
        // Senders one after the other, in steps, far apart, of one prefix; pools that begin anywhere.
        for (first, step, outside, last, server) in [
            ("10.0.0.1", 1, "198.51.100.1", "198.51.100.8", "203.0.113.1"),
            ("10.0.0.1", 256, "198.51.100.4", "198.51.100.11", "203.0.113.1"),
            ("10.0.0.1", 1 << 16 | 1, "198.51.100.255", "198.51.101.6", "203.0.113.1"),
            ("2001:db8::1", 1, "2001:db8:f::", "2001:db8:f::7", "2001:db8:9::1"),
            ("2001:db8::1", 1 << 64, "2001:db8:f::", "2001:db8:f::7", "2001:db8:9::1"),
            ("::1", 1, "2001:db8:f::", "2001:db8:f::7", "2001:db8:9::1"),
        ] {
            for ports in [Ports::Range(1, u16::MAX), Ports::Range(5000, 5999), Ports::Keep] {
                for is_source in [true, false] {
                    let mut tracker = tracker();
                    let id = Some(tracker.add_pool(pool(outside, last, ports)));
                    let (source, destination) = if is_source { (id, None) } else { (None, id) };
                    let nat = Nat::New(Rule { source, destination });
                    let mut shares = std::collections::BTreeMap::new();
                    for n in 0..200 {
                        let port = 4000 + n as u16;
                        let (a, b) = ((nth(v4(first), n * step), port), (v4(server), 53));
                        let (out, outcome) = pass(&mut tracker, nat, &Frame::udp(a, b, 3).bytes());
                        assert_eq!(outcome.drop, None);
                        let end = ends(&out)[usize::from(!is_source)];
                        *shares.entry(end.0).or_insert(0) += 1;
                        // Another connection of the sender comes from the same address.
                        let again = Frame::udp((a.0, port + 1000), b, 3).bytes();
                        let (out, _) = pass(&mut tracker, nat, &again);
                        assert_eq!(ends(&out)[usize::from(!is_source)].0, end.0);
                    }
                    let even = shares.len() == 8 && shares.values().all(|n| (10..=42).contains(n));
                    assert!(even, "{first} by {step} to {outside} {ports:?}: {shares:?}");
                }
            }
        }
    }

    #[test]
    fn a_socket_has_one_outside_port_for_all_ends() {
        let all = Ports::Range(1, u16::MAX);
        let ours =
            Ports::Deterministic { first: 1024, last: 65535, inside: v4("10.0.0.0"), senders: 8 };
        let udp = |a, b| Frame::udp(a, b, 4).bytes();
        let tcp = |a, b| Frame::tcp(a, b, Flags::SYN, (1, 0), 0).bytes();
        for ports in [all, Ports::Range(10_000, 10_999), ours] {
            for make in [&udp as &dyn Fn(_, _) -> Vec<u8>, &tcp] {
                let mut tracker = tracker();
                let nat = source(&mut tracker, pool("198.51.100.1", "198.51.100.4", ports));
                // Enough sockets with this port that some share an address, and so meet.
                let sockets: Vec<_> =
                    (1..=6).map(|n| (IpAddr::from([10, 0, 0, n]), 4444)).collect();
                let mut outside = Vec::new();
                for socket in &sockets {
                    let out = pass(&mut tracker, nat, &make(*socket, (v4("203.0.113.7"), 80))).0;
                    outside.push(ends(&out)[0]);
                }
                assert_eq!(outside.iter().collect::<HashSet<_>>().len(), 6, "{ports:?}");
                for server in ["203.0.113.8", "203.0.113.9", "192.0.2.200"] {
                    for (socket, outside) in sockets.iter().zip(&outside) {
                        let out = pass(&mut tracker, nat, &make(*socket, (v4(server), 80))).0;
                        assert_eq!(ends(&out)[0], *outside, "{ports:?} {socket:?} to {server}");
                    }
                }
                // It is forgotten with the last connection, in any order.
                tracker.flush(Some(0));
                assert!(tracker.mappings.is_empty());
            }
        }
    }

    #[test]
    fn identifiers_of_pings_are_a_sockets_own_too_and_taken_ones_are_not_offered() {
        let mut tracker = tracker();
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(100, 199)));
        let ping = |host: u8, to| {
            Frame::icmp(IpAddr::from([10, 0, 0, host]), v4(to), 8, 0, 0x5555_0001, b"x").bytes()
        };
        let ident = |frame: Vec<u8>| word(&frame, 38).unwrap();
        let first = ident(pass(&mut tracker, nat, &ping(1, "192.0.2.1")).0);
        assert_eq!(ident(pass(&mut tracker, nat, &ping(1, "192.0.2.2")).0), first);
        // Who has this port towards an end keeps it; the socket gets another one there, and its own elsewhere.
        let (server, taken) = (v4("192.0.2.3"), (v4("203.0.113.5"), first));
        let theirs = Frame::udp((v4("203.0.113.5"), first), (server, 53), 0).bytes();
        assert_eq!(pass(&mut tracker, Nat::None, &theirs).1.drop, None);
        let socket = (v4("10.0.0.9"), first);
        let to = |n: &str| Frame::udp(socket, (v4(n), 53), 0).bytes();
        assert_eq!(ends(&pass(&mut tracker, nat, &to("192.0.2.1")).0)[0], taken);
        let elsewhere = ends(&pass(&mut tracker, nat, &to("192.0.2.3")).0)[0];
        assert_ne!(elsewhere, taken);
        assert_eq!(ends(&pass(&mut tracker, nat, &to("192.0.2.4")).0)[0], taken);
    }

    #[test]
    fn of_all_ports_any_own_port_is_kept_if_it_is_free() {
        for own in [0, 1, 511, 512, 599, 600, 1023, 1024, 65535] {
            let mut tracker = tracker();
            let all = Ports::Range(1, u16::MAX);
            let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", all));
            let from = |host: u8| {
                let a = (IpAddr::from([10, 0, 0, host]), own);
                Frame::udp(a, (v4("192.0.2.1"), 53), 0).bytes()
            };
            assert_eq!(ends(&pass(&mut tracker, nat, &from(1)).0)[0].1, own);
            let (out, outcome) = pass(&mut tracker, nat, &from(2));
            assert!(outcome.drop.is_none() && ![own, 0].contains(&ends(&out)[0].1), "{own}");
        }
        // A range that is told is kept to.
        let mut tracker = tracker();
        let nat = source(&mut tracker, pool("203.0.113.5", "203.0.113.5", Ports::Range(2, 9)));
        let zero = Frame::udp((v4("10.0.0.1"), 0), (v4("192.0.2.1"), 53), 0).bytes();
        assert!((2..10).contains(&ends(&pass(&mut tracker, nat, &zero).0)[0].1));
    }

    /// A packet of this protocol, its checksum over pseudo-header and body, at `place`.
    fn covered((src, dst): (&str, &str), protocol: IpProtocol, place: usize) -> Frame {
        let mut body: Vec<u8> = (0..24).map(|n| n * 7 + 1).collect();
        put(&mut body, place, 0);
        let pseudo: Pseudo = match (v4(src), v4(dst)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (src, dst).into(),
            (IpAddr::V6(src), IpAddr::V6(dst)) => (src, dst).into(),
            _ => unreachable!("addresses of one family"),
        };
        let sum = !pseudo.sum_over(protocol, &body);
        put(&mut body, place, sum);
        Frame::new(v4(src), v4(dst), protocol, body)
    }

    #[test]
    fn checksums_of_rarer_transports_follow_their_addresses() {
        let (v4_ends, v6_ends) = (("10.0.0.5", "203.0.113.5"), ("fd00::5", "2001:db8::5"));
        for (ends, protocol, place) in [
            (v4_ends, IpProtocol::DCCP, 6),
            (v6_ends, IpProtocol::DCCP, 6),
            (v4_ends, IpProtocol::HIP, 4),
            (v6_ends, IpProtocol::OSPF, 12),
            (v6_ends, IpProtocol::PIM, 2),
        ] {
            let mut tracker = tracker();
            let outside = if ends.0.contains(':') { "2001:db8:f::1" } else { "198.51.100.1" };
            let range = Ports::Range(7000, 7009);
            let nat = source(&mut tracker, pool(outside, outside, range));
            let frame = covered(ends, protocol, place).bytes();
            let (mut out, mut outcome) = (frame.clone(), [Outcome::default()]);
            let request = Request { commit: true, nat, ..Request::default() };
            tracker.process(0, &request, &mut [Packet::of(&mut out)], &mut outcome);
            assert_eq!(outcome[0].drop, None, "{protocol}");
            let at = crate::packet::Offsets::of(&out);
            let body = &out[at.l4 as usize..at.end as usize];
            let pseudo: Pseudo = match (v4(outside), v4(ends.1)) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => (src, dst).into(),
                (IpAddr::V6(src), IpAddr::V6(dst)) => (src, dst).into(),
                _ => unreachable!("addresses of one family"),
            };
            assert_eq!(pseudo.sum_over(protocol, body), 0xffff, "{protocol}: {body:02x?}");
            if protocol == IpProtocol::DCCP {
                assert!((7000..=7009).contains(&word(body, 0).unwrap()), "it has ports");
            }
        }
    }

    #[test]
    fn what_covers_addresses_and_cannot_be_edited_is_not_translated() {
        let mut tracker = tracker();
        let all = Ports::Range(1, u16::MAX);
        let nat4 = source(&mut tracker, pool("198.51.100.1", "198.51.100.1", all));
        let nat6 = source(&mut tracker, pool("2001:db8:f::1", "2001:db8:f::1", all));
        let (a, b) = (v4("10.0.0.5"), v4("203.0.113.5"));
        let (a6, b6) = (v4("fd00::5"), v4("2001:db8::5"));
        let udp = Frame::udp((a6, 5), (b6, 53), 8).body;
        let behind = |header: &[u8]| [header, &udp].concat();
        let ah =
            behind(&[17, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let hip = behind(&[17, 0, 1, 1, 0x12, 0x34, 0, 0]);
        let mobility = behind(&[17, 0, 1, 0, 0x12, 0x34, 0, 0]);
        let mut route = vec![17, 2, 0, 1, 0, 0, 0, 0];
        route.extend(u128::to_be_bytes(0x2001_0db8_0000_0000_0000_0000_0000_0077));
        let route = behind(&route);
        let frames = [
            (nat4, Frame::new(a, b, IpProtocol::AUTH, ah.clone())),
            (nat4, Frame::new(a, b, IpProtocol::VRRP, vec![0x31, 1, 100, 1, 0, 100, 0x12, 0x34])),
            (nat6, Frame::new(a6, b6, IpProtocol::AUTH, ah)),
            (nat6, Frame::new(a6, b6, IpProtocol::HIP, hip)),
            (nat6, Frame::new(a6, b6, IpProtocol::MOBILITY, mobility)),
            (nat6, Frame::new(a6, b6, IpProtocol::ROUTING, route)),
        ];
        for (n, (nat, frame)) in frames.into_iter().enumerate() {
            let mut octets = frame.bytes();
            let mut outcome = [Outcome::default()];
            let request = Request { commit: true, nat, ..Request::default() };
            let packet = Packet { checksum: Checksum::Good, ..Packet::of(&mut octets) };
            tracker.process(0, &request, &mut [packet], &mut outcome);
            assert_eq!(outcome[0].drop, Some(Drop::NatImpossible), "{}", frame.protocol);
            assert_eq!(octets, frame.bytes(), "nothing is half done");
            assert_eq!(tracker.counters().nat_impossible, n as u64 + 1);
        }
    }
}
