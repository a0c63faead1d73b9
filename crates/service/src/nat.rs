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
mod outside;
mod stripes;
#[cfg(test)]
mod tests;
mod translate;

use crate::conntrack::{CtState, Direction, Drop, Role, Tuple};
use crate::packet::{Checksum, Fragment, Packet};
use crate::random::Random;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::checksum::{self, Delta};
use wire::{IpProtocol, icmpv4, ipv6, sctp};

pub(crate) use mapping::Mappings;
pub use outside::{Address, Outside};
pub use stripes::{STRIPES, Stripes};

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
        self.blocks.as_ref().map(Blocks::used)
    }

    /// Whether senders have blocks of its ports.
    pub(crate) fn is_of_blocks(&self) -> bool {
        self.blocks.is_some()
    }

    /// The same addresses and ports, for a trial: without what is bound.
    pub(crate) fn unbound(&self) -> Pool {
        Pool { blocks: None, exhausted: 0, ..*self }
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
        (random, stripes): (&mut Random, Stripes),
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
                    let mut free = |port| stripes.has(port) && free(address, port);
                    let may = |port: u16| all || (first..=last).contains(&port);
                    let known = has(address).filter(|port| may(*port) && free(*port));
                    known
                        .or_else(|| (all && free(own)).then_some(own))
                        .or_else(|| search(from, to, own, random, free))
                        .map(|port| (address, port))
                })
            }
            Ports::Blocks { blocks_max, .. } if numbered => {
                self.blocks.as_mut()?.take(sender, blocks_max.into(), stripes, free)
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
        stripes: Stripes,
        free: &mut dyn FnMut(u128, u16) -> bool,
    ) -> Option<(u128, u16)> {
        let size = self.size;
        let ours = |first: u16| stripes.has_block(first, size);
        let blocks = self.of.entry(sender).or_default();
        for block in blocks.iter_mut().filter(|block| block.count < size && ours(block.first)) {
            if let Some(port) = block.take(size, free) {
                return Some((block.address, port));
            }
        }
        // A sender keeps its address if it can be.
        let address = blocks.first().map(|block| block.address);
        if blocks.len() < blocks_max {
            let same = self.free.iter().take(TRIES_MAX as usize);
            let at = same.into_iter().position(|(a, first)| Some(*a) == address && ours(*first));
            let any = || self.free.iter().position(|(_, first)| ours(*first));
            if let Some((address, first)) = at.or_else(any).and_then(|at| self.free.remove(at)) {
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

/// What a packet of a connection comes as, and what it leaves as.
pub(crate) fn ways(original: &Tuple, reply: &Tuple, direction: Direction) -> (Tuple, Tuple) {
    match direction {
        Direction::Original => (*original, reply.inverted()),
        Direction::Reply => (*reply, original.inverted()),
    }
}

/// A connection that wants an address and port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newcomer {
    /// The tick at which it comes.
    pub(crate) now: u32,
    /// One past its SYN's sequence number, if it comes with one.
    pub(crate) syn_end: Option<u32>,
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
pub(crate) fn rewrite_error(packet: &mut Packet<'_>, from: &Tuple, to: &Tuple) -> Option<()> {
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
