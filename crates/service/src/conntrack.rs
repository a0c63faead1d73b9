//! Connection tracking: which packets belong together, and whether they make sense.
//!
//! In: bursts of packets with their offsets, a [`Request`] (what the pipeline's action says) and the
//! time. Out: for each packet its `ct_state`, and the connection's mark and label. A tracker is one
//! worker's own: traffic must be spread so that both directions of a connection come to one worker.
//!
//! A burst is taken in stages over eight packets each, so that cache misses overlap: read the tuples, hash them and
//! ask for their buckets; look into these and ask for the records; only then judge packet by packet, in order. What the
//! stages have found is no more than a guess, which the record itself confirms when the packet's turn has come:
//! connections come and go within a burst.
//!
//! Most packets are TCP or UDP over IPv4, of a connection that is open, and change nothing but how far it has come:
//! [`Tracker::usual`] takes those and no others, with the rules that hold for all.
//!
//! A packet may come with a [`Hint`] by its port's hardware: the place of its connection. It is believed if the connection at
//! that place has the packet's tuple, which no other then has; else the packet is looked up as any other. So a hint, whatever it says,
//! changes no verdict.
//!
//! # What is tracked
//!
//! TCP by windows and state ([`tcp`]), SCTP by tags and state ([`sctp`]), UDP and UDP-Lite by ports,
//! ICMP's and ICMPv6's requests by identifier; their errors belong to the connection of the packet that
//! they quote (`rel`). Any other protocol is tracked by addresses. Neighbour discovery and multicast
//! listener messages are not tracked. Verdicts are Linux's; `lab/conntrack` compares them.
//!
//! # When there is too much
//!
//! All memory is bounded. Connections that nobody answered are *half-open*: at most
//! [`Config::half_open_max`], beyond which the oldest of the most frequent kind makes room, as it does
//! when all room is taken and no connection is over. Those that are over (reset, or closed by both ends) make room first.
//! An answered connection that is open makes room for nobody: when only such are left,
//! a new one is refused ([`Drop::TableFull`]). So a flood from forged sources, whatever its rate, costs
//! established connections nothing.
//!
//! # Packets that must not be judged where they are
//!
//! In a burst, all packets come to one call before the first comes to the next. What a request of a program's second
//! call keeps is not there yet when its answer, or a later fragment, comes to the first call. So a caller that can take packets out
//! of a burst says so ([`Apart::Leave`]), and is told which ([`Drop::Apart`]): packets of a connection that an earlier
//! one of the burst might open, first fragments, and later ones whose first is not known. They are judged alone, behind the burst.
//! Where nobody opens the connection that they waited for, that was in vain: it is not done again for the same connection, and rarely
//! for any once it is often so.
//!
//! A later fragment that comes alone before its first waits, if the caller can keep it ([`Apart::Hold`], [`fragment`]).
//!
//! [`image`] takes connections to another process.
//!
//! Timeouts take effect at once: a connection whose time is over is gone for the next packet. Its
//! memory is taken back by [`Tracker::expire`], a few records at a time, also while packets come.
//!
//! Invariants: a live record is on one list, and in the index under its original tuple, and under
//! its reply tuple if that is not the inverse. Nothing here knows clocks, sockets or threads.
//! Cost: 127 octets a connection at full capacity, all taken at the start. Tables of less than 32 MiB are touched as needed; larger
//! ones lie in large pages and are touched at the start, so that no packet waits for the system.
//! Checked by: a model test (a list of connections), `fuzz::conntrack`, `fuzz::image`, `lab/conntrack`.

pub mod alg;
mod fragment;
pub mod image;
mod index;
mod lists;
pub(crate) mod parse;
mod record;
pub mod sctp;
pub mod tcp;
#[cfg(test)]
mod tests;
mod tuple;

use crate::nat;
use crate::packet::{Carries, Checksum, Fragment, Hint, Network, Packet};
use crate::random::Random;
use crate::simd::prefetch;
use fragment::{Arrival, Fragments, Limits, Name};
use index::{Index, Places};
use lists::{Lists, Queue, Step};
use parse::{Subject, Transport};
use record::{Extensions, Flags, NONE, Notes, Progress, Record, Rest};
use smallvec::SmallVec;
use std::ops::Range;
use tuple::Hasher;
use wire::IpProtocol;

pub use alg::Alg;
pub use fragment::Ticket;
use tuple::Key;
pub use tuple::{Role, Tuple};

/// The shift from nanoseconds to ticks: 134 ms. Time ends 18 years after the clock's zero.
const TICK_SHIFT: u32 = 27;
/// Packets that are taken through the stages together.
const BURST: usize = 64;
/// Packets that are taken through one stage together. So many are between asking the memory for something of a packet and needing
/// it: some 200 ns of work.
const LAG: usize = 8;
const _: () = assert!(LAG < 64);
/// Connections that are over that are looked at to make room for one.
const CLOSED_MAX: usize = 64;
/// Source ports tried for a connection that was announced.
const ALG_PORTS: u16 = 64;
/// Records looked at for expiry per packet, so that expiry keeps up with any rate of new ones.
const STEPS_PER_PACKET: usize = 2;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// As the connection's first packet.
    Original = 0,
    /// The other way.
    Reply = 1,
}

/// The bits of `ct_state`, as Open vSwitch numbers them (ovs-fields(7)).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CtState(pub u8);

impl CtState {
    /// It opens a connection, or the connection was not answered yet.
    pub const NEW: CtState = CtState(0x01);
    /// Of a connection that was answered.
    pub const ESTABLISHED: CtState = CtState(0x02);
    /// An error about a packet of a connection.
    pub const RELATED: CtState = CtState(0x04);
    /// In the reply direction.
    pub const REPLY: CtState = CtState(0x08);
    /// It makes no sense.
    pub const INVALID: CtState = CtState(0x10);
    /// It went through the tracker.
    pub const TRACKED: CtState = CtState(0x20);
    /// Its source was translated.
    pub const SOURCE_NAT: CtState = CtState(0x40);
    /// Its destination was translated.
    pub const DESTINATION_NAT: CtState = CtState(0x80);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: CtState) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for CtState {
    type Output = CtState;
    fn bitor(self, other: CtState) -> CtState {
        CtState(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for CtState {
    fn bitor_assign(&mut self, other: CtState) {
        self.0 |= other.0;
    }
}

/// As `ovs-ofctl` writes a match that sets these bits: `+est+rpl+trk`; `untracked` for none.
impl std::fmt::Display for CtState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 {
            return f.write_str("untracked");
        }
        let names = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
        names.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 != 0).try_for_each(
            |(_, name)| {
                f.write_str("+")?;
                f.write_str(name)
            },
        )
    }
}

impl std::fmt::Debug for CtState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Why the tracker wants a packet dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Drop {
    /// It opens a connection, and all room is taken by answered ones.
    TableFull,
    /// No address and port is left to translate it to.
    NatExhausted,
    /// Its answers would be another connection's packets: one that is translated has this address and port.
    Clash,
    /// A line of a control connection that may announce another, and is cut off.
    Partial,
    /// Its translation would change a checksum that covers what is not in the packet (SCTP fragments).
    NatImpossible,
    /// A fragment that overlaps others of its datagram, or begins within the transport header.
    Fragment,
    /// It is to come alone, behind its burst. Nothing was counted or noted.
    Apart,
    /// It is to be kept under this ticket. Nothing was counted.
    Waits(Ticket),
}

/// What a caller can do with packets that must not be judged where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Apart {
    /// Nothing.
    #[default]
    Never,
    /// Take them out of their burst, to come alone: [`Drop::Apart`].
    Leave,
    /// Keep them, until they are told to come again or are lost: [`Drop::Waits`].
    Hold,
}

/// Timeouts in seconds, with Linux's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP's.
    pub tcp: tcp::Timeouts,
    /// SCTP's.
    pub sctp: sctp::Timeouts,
    /// UDP, not answered or younger than two seconds.
    pub udp: u32,
    /// UDP, traffic both ways.
    pub udp_stream: u32,
    /// ICMP's requests.
    pub icmp: u32,
    /// Other protocols.
    pub other: u32,
    /// From the first fragment on.
    pub fragment: u32,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            tcp: tcp::Timeouts::default(),
            sctp: sctp::Timeouts::default(),
            udp: 30,
            udp_stream: 120,
            icmp: 30,
            other: 600,
            fragment: 30,
        }
    }
}

/// A tracker's size and settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Connections at most, below 2³¹.
    pub connections_max: usize,
    /// Of them, at most so many whose addresses or ports are translated.
    pub translated_max: usize,
    /// Of them, at most so many that nobody has answered.
    pub half_open_max: usize,
    /// Datagrams in fragments at a time.
    pub fragmented_max: usize,
    /// Fragments that wait for their first.
    pub waiting_max: usize,
    /// Their octets.
    pub waiting_octets_max: usize,
    /// Whether transport checksums are checked, of packets whose port has not done so.
    pub check_checksums: bool,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// How TCP is judged.
    pub tcp: tcp::Settings,
    /// A number that nobody outside can guess.
    pub seed: u64,
}

impl Config {
    /// Room for so many connections; half of it for half-open ones, none translated.
    pub fn new(connections_max: usize, seed: u64) -> Config {
        Config {
            connections_max,
            translated_max: 0,
            half_open_max: connections_max.div_ceil(2),
            fragmented_max: 4096,
            waiting_max: 1024,
            waiting_octets_max: 2 << 20,
            check_checksums: true,
            timeouts: Timeouts::default(),
            tcp: tcp::Settings::default(),
            seed,
        }
    }

    /// What TCP's segments are judged by.
    fn tcp_rules(&self) -> tcp::Rules<'_> {
        tcp::Rules { settings: &self.tcp, timeouts: &self.timeouts.tcp }
    }
}

/// What translation an action asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nat {
    /// None.
    #[default]
    None,
    /// Packets of connections that are translated, from their first answer on.
    Existing,
    /// That, and new connections by this rule.
    New(nat::Rule),
}

/// What the pipeline's action says: Open vSwitch's `ct(...)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// The zone.
    pub zone: u16,
    /// Whether a new connection is kept.
    pub commit: bool,
    /// Whether a connection that goes the other way is replaced by one that goes this way.
    pub force: bool,
    /// Translation.
    pub nat: Nat,
    /// Value and mask for the mark of connections that are kept.
    pub mark: Option<(u32, u32)>,
    /// Value and mask for the label of connections that are kept.
    pub label: Option<(u128, u128)>,
    /// Which helper a new connection that is kept has.
    pub alg: Option<Alg>,
    /// What can be done with packets that must not be judged here.
    pub apart: Apart,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Its `ct_state`.
    pub state: CtState,
    /// Its `ct_mark`.
    pub mark: u32,
    /// Its `ct_label`.
    pub label: u128,
    /// Of its connection, the opener's direction; none for a packet that belongs to none.
    pub original: Option<Tuple>,
    /// Set if it must be dropped.
    pub drop: Option<Drop>,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What has happened. Each packet is counted under one of the first eight.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Names, in stable words, and numbers.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Packets that open a connection or come before its answer.
    new,
    /// Packets of answered connections.
    established,
    /// Errors about packets of connections.
    related,
    /// Packets not tracked, by protocol.
    untracked,
    /// Headers cut short, flags that make no sense, a wrong checksum.
    malformed,
    /// Fragments without their first.
    fragment_orphan,
    /// Packets that their connection, or the lack of one, makes invalid.
    invalid,
    /// Packets to be dropped for want of room or ports.
    refused,
    /// Connections kept.
    connections_opened,
    /// Connections whose time was over.
    connections_expired,
    /// Connections closed by a packet.
    connections_closed,
    /// Half-open connections that made room for others.
    half_open_evicted,
    /// Closed connections that made room for others.
    closed_evicted,
    /// Closed connections whose address and port another one has got.
    closed_replaced,
    /// Connections refused for want of room.
    table_full,
    /// Connections refused for want of an address and port.
    nat_exhausted,
    /// Connections refused since their answers would be another's packets.
    insert_failed,
    /// Packets whose translation is impossible.
    nat_impossible,
    /// Connections taken over from an [`image`].
    connections_imported,
    /// Packets whose port has named their connection.
    hints_used,
    /// Packets whose port has named another, or none that is there.
    hints_stale,
    /// Connections that control connections have announced.
    alg_announced,
    /// Of them, those that came and were kept.
    alg_related,
    /// Announcements of another's address, or for which there is no port or room.
    alg_refused,
    /// Segments dropped since an announcement in them is cut off.
    alg_partial,
    /// Packets left to come alone, behind their burst.
    left_apart,
    /// Fragments that have waited for their first.
    fragments_waited,
    /// Of them, those whose first has not come, or that made room for others.
    fragments_lost,
    /// Fragments that overlap others of their datagram, dropped.
    fragments_overlapping,
    /// Fragments that begin within the transport header, dropped.
    fragments_tiny,
    /// Datagrams in fragments that made room for others.
    fragmented_evicted,
}

/// A connection, as shown to people and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The opener's direction.
    pub original: Tuple,
    /// The other.
    pub reply: Tuple,
    /// The mark.
    pub mark: u32,
    /// The label.
    pub label: u128,
    /// The state of TCP's machine.
    pub tcp: Option<tcp::State>,
    /// The state of SCTP's.
    pub sctp: Option<sctp::State>,
    /// Whether it was answered.
    pub replied: bool,
    /// Whether both ends have proved themselves.
    pub assured: bool,
    /// Seconds until it is gone unless a packet comes, rounded.
    pub timeout: u32,
}

/// Memory taken, in octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Records and what goes with each.
    pub records: usize,
    /// The index.
    pub index: usize,
    /// Extensions, fragments.
    pub other: usize,
}

impl Memory {
    /// All of it.
    pub fn total(&self) -> usize {
        self.records + self.index + self.other
    }
}

/// Connections of one worker.
#[derive(Debug)]
pub struct Tracker {
    config: Config,
    pub(crate) hasher: Hasher,
    index: Index,
    records: Vec<Record>,
    rests: Vec<Rest>,
    extensions: Extensions,
    free: u32,
    live: usize,
    translated: usize,
    lists: Lists,
    fragments: Fragments,
    pub(crate) pools: Vec<nat::Pool>,
    /// Which outside ports inside sockets have.
    pub(crate) mappings: nat::Mappings,
    pub(crate) random: Random,
    pub(crate) counters: Counters,
    /// What hints about this tracker's connections have; not 0.
    generation: u32,
    /// Connections that are gone since a watching writer last told which, while there is one.
    gone: Option<image::Gone>,
    /// Memory for what is seen of a burst, between bursts.
    sight: Option<Box<Sight>>,
    apart: Pending,
    helpers: alg::Helpers,
    /// The last packet, if it has another length now.
    rewritten: Option<Vec<u8>>,
}

/// Which connections packets of this burst might open later, by the hashes of their tuples.
#[derive(Debug)]
struct Pending {
    now: Apart,
    /// A bit for each of them, and all of them.
    bits: u64,
    opening: Vec<u64>,
    /// Of which packets were left to come alone.
    left: [u64; 64],
    /// Of which packets were left in vain.
    vain: [u64; 64],
    /// How often that may yet be; some come back with each tick.
    credit: u32,
    tick: u32,
}

/// Packets that may be left in vain at once, and in a tick.
const CREDIT_MAX: u32 = 256;
const CREDIT_EACH: u32 = 32;

impl Pending {
    const NEW: Pending = Pending {
        now: Apart::Never,
        bits: 0,
        opening: Vec::new(),
        left: [0; 64],
        vain: [0; 64],
        credit: CREDIT_MAX,
        tick: 0,
    };

    fn bit(hash: u64) -> usize {
        (hash >> 58) as usize
    }

    /// Whether an earlier packet of the burst might open this connection.
    fn has(&self, hash: u64) -> bool {
        self.bits >> Pending::bit(hash) & 1 != 0 && self.opening.contains(&hash)
    }

    /// A packet that was left might open this connection.
    fn opens(&mut self, hash: u64) {
        if !self.has(hash) {
            self.bits |= 1 << Pending::bit(hash);
            self.opening.push(hash);
        }
    }

    /// A packet might open this connection later. True if an earlier one might, too, and this one is to come alone.
    fn meets(&mut self, hash: u64, now: u32) -> bool {
        if !self.has(hash) {
            self.opens(hash);
            return false;
        }
        let ticks = now.saturating_sub(self.tick);
        self.credit = self.credit.saturating_add(ticks.saturating_mul(CREDIT_EACH)).min(CREDIT_MAX);
        self.tick = now;
        let bit = Pending::bit(hash);
        if self.credit == 0 || self.vain[bit] == hash {
            return false;
        }
        self.left[bit] = hash;
        true
    }

    /// Nobody has opened this connection, of which packets may have been left.
    fn none(&mut self, hash: u64) {
        let bit = Pending::bit(hash);
        if self.left[bit] == hash {
            (self.left[bit], self.vain[bit]) = (0, hash);
            self.credit = self.credit.saturating_sub(1);
        }
    }

    /// It was opened.
    fn opened(&mut self, hash: u64) {
        let bit = Pending::bit(hash);
        if self.vain[bit] == hash {
            self.vain[bit] = 0;
        }
    }
}

/// What a packet that makes no sense is told.
const INVALID: Outcome = Outcome {
    state: CtState(CtState::INVALID.0 | CtState::TRACKED.0),
    mark: 0,
    label: 0,
    original: None,
    drop: None,
};

/// What became of a packet that changed nothing but its connection's place and time: its state, and the connection, which
/// may have a mark or a label; none of one that is invalid.
struct Usual {
    state: CtState,
    at: u32,
    marked: bool,
}

/// A connection found, and which way the packet goes.
type Found = Option<(u32, Direction)>;

impl Tracker {
    /// A tracker without connections, at time `now_ns` of a monotonic clock.
    pub fn new(config: Config, now_ns: u64) -> Tracker {
        let connections_max = config.connections_max.min(NONE as usize / 2);
        Tracker {
            hasher: Hasher::new(config.seed),
            index: Index::new(connections_max + config.translated_max),
            records: crate::pages::with_capacity(connections_max),
            rests: crate::pages::with_capacity(connections_max),
            extensions: Extensions::new(),
            free: NONE,
            live: 0,
            translated: 0,
            lists: Lists::new(ticks(now_ns), far(&config.timeouts.tcp)),
            fragments: Fragments::new(
                Limits {
                    datagrams: config.fragmented_max,
                    waiting: config.waiting_max,
                    octets: config.waiting_octets_max,
                },
                config.seed,
            ),
            pools: Vec::new(),
            mappings: nat::Mappings::new(config.translated_max),
            random: Random(config.seed.rotate_left(17)),
            counters: Counters::default(),
            generation: Random(config.seed ^ 0x6869_6e74).next() as u32 | 1,
            gone: None,
            sight: None,
            apart: Pending::NEW,
            helpers: alg::Helpers::default(),
            rewritten: None,
            config: Config { connections_max, ..config },
        }
    }

    /// Adds a pool for [`nat::Rule`]s to name.
    pub fn add_pool(&mut self, pool: nat::Pool) -> nat::PoolId {
        self.pools.push(pool);
        nat::PoolId(self.pools.len() - 1)
    }

    /// A pool, for its counters.
    pub fn pool(&self, id: nat::PoolId) -> Option<&nat::Pool> {
        self.pools.get(id.0)
    }

    /// Connections held, expired ones that were not yet found included.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Connections that nobody has answered.
    pub fn half_open(&self) -> usize {
        self.lists.half_open()
    }

    /// What has happened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A burst begins: packets that come from here on are behind none that might open a connection later.
    pub fn begin(&mut self) {
        self.apart.bits = 0;
        self.apart.opening.clear();
    }

    /// Whether [`take_ready`](Self::take_ready) or [`take_lost`](Self::take_lost) have something to tell.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.fragments.has_news()
    }

    /// Packets that are to come again, by their tickets, in this order: what they have waited for has come.
    pub fn take_ready(&mut self) -> Vec<Ticket> {
        self.fragments.take_ready()
    }

    /// Packets that are lost, by their tickets.
    pub fn take_lost(&mut self) -> Vec<Ticket> {
        let lost = self.fragments.take_lost();
        self.counters.fragments_lost += lost.len() as u64;
        self.counters.fragment_orphan += lost.len() as u64;
        lost
    }

    /// Packets that wait.
    pub fn waiting(&self) -> usize {
        self.fragments.waiting()
    }

    /// The octets of the packet that came last and alone, if they are more or fewer than they were: what it announces was translated.
    pub fn take_rewritten(&mut self) -> Option<Vec<u8>> {
        self.rewritten.take()
    }

    /// Nothing waits any more: all of it is lost.
    pub fn give_up_waiting(&mut self) {
        self.fragments.clear();
    }

    /// Memory taken from the system, touched or not.
    pub fn memory(&self) -> Memory {
        Memory {
            records: self.records.capacity() * size_of::<Record>()
                + self.rests.capacity() * size_of::<Rest>(),
            index: self.index.bytes(),
            other: self.extensions.bytes() + self.fragments.bytes() + self.mappings.bytes(),
        }
    }

    /// Tracks a burst: `outcomes[n]` says what became of `packets[n]`. With translation, packets are
    /// changed. Some expired connections are removed on the way.
    ///
    /// # Panics
    /// If there are fewer outcomes than packets.
    pub fn process(
        &mut self,
        now_ns: u64,
        request: &Request,
        packets: &mut [Packet<'_>],
        outcomes: &mut [Outcome],
    ) {
        assert!(outcomes.len() >= packets.len(), "an outcome is needed for each packet");
        let mut outcomes = outcomes.iter_mut();
        self.process_each(now_ns, request, packets, |_, outcome| {
            if let Some(to) = outcomes.next() {
                *to = outcome;
            }
        });
    }

    /// The same for whatever carries packets; what became of each is told in their order.
    #[inline]
    pub fn process_each<'a, P: Carries<'a>>(
        &mut self,
        now_ns: u64,
        request: &Request,
        packets: &mut [P],
        mut tell: impl FnMut(&mut P, Outcome),
    ) {
        for packets in packets.chunks_mut(BURST) {
            self.burst(now_ns, request, packets, &mut tell);
            self.expire(now_ns, packets.len() * STEPS_PER_PACKET);
        }
    }

    fn burst<'a, P: Carries<'a>>(
        &mut self,
        now_ns: u64,
        request: &Request,
        packets: &mut [P],
        tell: &mut impl FnMut(&mut P, Outcome),
    ) {
        let now = ticks(now_ns);
        self.apart.now = request.apart;
        let plain = (request.mark.is_none() && request.label.is_none() && !request.force)
            || !request.commit;
        let rests = request.nat != Nat::None || !plain;
        // Taken out and put back: what it holds of earlier bursts needs no clearing.
        let mut sight = self.sight.take().unwrap_or_default();
        sight.begin();
        let mut odd = 0;
        let len = packets.len();
        let blocks = len.div_ceil(LAG);
        let part = |block: usize| block * LAG..((block + 1) * LAG).min(len);
        // One that no stage of is left is beyond them.
        let before = |block: usize, n: usize| block.checked_sub(n).filter(|block| *block < blocks);
        for block in 0..blocks + 3 {
            if block < blocks {
                let part = part(block);
                sight.read(self, now, request.zone, part.start, &mut packets[part]);
            }
            if let Some(block) = before(block, 1) {
                sight.find(self, part(block), rests);
            }
            if let Some(block) = before(block, 2) {
                sight.find_elsewhere(self, part(block), request.zone);
            }
            let Some(block) = before(block, 3) else { continue };
            for n in part(block) {
                let carrier = &mut packets[n];
                let (packet, hint) = (carrier.packet(), sight.hinted >> n & 1 != 0);
                let Seen { key, places, likely } = &sight.seen[n % BURST];
                let subject = if sight.odds >> n & 1 != 0 {
                    odd += 1;
                    sight.odd.get(odd - 1).copied().unwrap_or(Subject::Malformed)
                } else {
                    let usual = match plain {
                        true => self.usual((now_ns, now), request.zone, key, *likely, packet),
                        false => None,
                    };
                    if let Some(Usual { state, at, marked }) = usual {
                        self.counters.hints_used += u64::from(hint);
                        // What nobody asks of an outcome is not even made where it is seen to be told.
                        match self.records.get(at as usize) {
                            Some(_) if marked => tell(carrier, self.marked(at, state)),
                            Some(record) => {
                                let original = Some(record.original_v4());
                                tell(carrier, Outcome { state, original, ..Outcome::default() });
                            }
                            None => tell(carrier, INVALID),
                        }
                        continue;
                    }
                    Subject::Flow { tuple: key.tuple(request.zone), transport: Transport::Whole }
                };
                let outcome = self.search(now_ns, now, request, packet, subject, hint, *places);
                tell(carrier, outcome);
            }
        }
        self.sight = Some(sight);
    }

    /// Asks for what lies beside a record, in one line or in two.
    #[inline]
    fn prefetch_rest(&self, at: u32) {
        if let Some(rest) = self.rests.get(at as usize) {
            prefetch(rest);
            prefetch(&rest.list);
        }
    }

    /// Takes a packet whose key the connection at this place has, if nothing but the packet's place in it and its time are
    /// to be noted: the connection was answered, or the packet goes the way of the first. None if not, and nothing has changed.
    #[inline(always)]
    fn usual(
        &mut self,
        (now_ns, now): (u64, u32),
        zone: u16,
        key: &Key,
        at: u32,
        packet: &Packet<'_>,
    ) -> Option<Usual> {
        let record = self.records.get_mut(at as usize)?;
        let direction = record.way_of(key, zone)?;
        let flags = record.flags();
        let (replied, assured) = (flags.has(Flags::REPLIED), flags.has(Flags::ASSURED));
        if record.deadline <= now || !replied && direction == Direction::Reply {
            return None;
        }
        let (timeout, assured, spared) = if key.protocol == IpProtocol::TCP {
            if record.state != tcp::State::Established as u8 {
                return None;
            }
            let segment = tcp::Segment::bare_ack(parse::payload(packet))?;
            let mut notes = match record.last() {
                Some((last_ack, last_end)) => Notes { last_ack, last_end, ..Notes::NEW },
                None => self.rests.get(at as usize)?.notes,
            };
            let known = tcp::Known { replied, assured };
            let state = tcp::State::Established;
            let arrival = tcp::Arrival { state, direction, segment: &segment, known };
            let rules = self.config.tcp_rules();
            match tcp::bare_ack(&mut record.progress, &mut notes, arrival, rules) {
                tcp::Decision::Accept { state: tcp::State::Established, timeout, assured } => {
                    let spared = record.spared((notes.last_ack, notes.last_end));
                    if spared == Flags::default() {
                        self.note(at, notes.last_ack, notes.last_end);
                    }
                    (timeout, assured, spared)
                }
                decision => {
                    // What was last said has not changed, but may be at the edge no more.
                    self.note(at, notes.last_ack, notes.last_end);
                    return Some(self.without_effect(now_ns, now, at, direction, decision));
                }
            }
        } else {
            let timeouts = &self.config.timeouts;
            let stream = replied && now > record.stream_from();
            (
                Some(if stream { timeouts.udp_stream } else { timeouts.udp }),
                stream,
                Flags::default(),
            )
        };
        let record = self.records.get_mut(at as usize)?;
        // All at once: each would wait for the one before.
        let mut flags = flags;
        flags.touch();
        flags.clear(Flags::AT_EDGE | Flags::UNNOTED);
        flags.set(Flags::ASSURED.when(assured) | spared);
        *record.flags_mut() = flags;
        if let Some(timeout) = timeout {
            let (before, deadline) = (record.deadline, deadline_of(now_ns, timeout));
            // What was answered and is open waits in the wheel, what was not in a queue.
            match replied {
                true if !self.lists.is_nearer(now, before, deadline) => record.deadline = deadline,
                false if (before..=before + deadline_after(1)).contains(&deadline) => {}
                _ => self.refresh(now_ns, at, timeout),
            }
        }
        Some(self.counted(at, flags, direction))
    }

    /// What a packet of a connection is told, and it is counted.
    #[inline(always)]
    fn counted(&mut self, at: u32, flags: Flags, direction: Direction) -> Usual {
        let state = told(flags, direction);
        let established = state.contains(CtState::ESTABLISHED);
        self.counters.established += u64::from(established);
        self.counters.new += u64::from(!established);
        Usual { state, at, marked: flags.has(Flags::MARKED) }
    }

    /// What a packet of a connection that may have a mark or a label is told.
    #[cold]
    fn marked(&self, at: u32, state: CtState) -> Outcome {
        let mut outcome = Outcome { state, ..Outcome::default() };
        self.tell_rest(at, &mut outcome);
        outcome
    }

    /// What the last segment has said is kept beside the record.
    #[cold]
    fn note(&mut self, at: u32, last_ack: u32, last_end: u32) {
        self.records[at as usize].flags_mut().clear(Flags::AT_EDGE | Flags::UNNOTED);
        let notes = &mut self.rests[at as usize].notes;
        (notes.last_ack, notes.last_end) = (last_ack, last_end);
    }

    /// A segment of such a connection that is outside its windows, or passes and changes nothing.
    #[cold]
    fn without_effect(
        &mut self,
        now_ns: u64,
        now: u32,
        at: u32,
        direction: Direction,
        decision: tcp::Decision,
    ) -> Usual {
        let flags = self.records[at as usize].flags_mut();
        flags.touch();
        let flags = *flags;
        if let tcp::Decision::Invalid { shorten } = decision {
            self.doubt(now_ns, now, at, shorten);
            self.counters.invalid += 1;
            return Usual { state: INVALID.state, at: NONE, marked: false };
        }
        self.counted(at, flags, direction)
    }

    /// A connection may be out of step with its ends: it is not to outlive what is not acknowledged.
    fn doubt(&mut self, now_ns: u64, now: u32, at: u32, shorten: bool) {
        let left = self.records[at as usize].deadline - now;
        let at_most = self.config.timeouts.tcp.unacknowledged;
        if shorten && left > deadline_after(at_most.max(120)) {
            self.refresh(now_ns, at, at_most);
        }
    }

    /// Looks for a packet's connection, and judges it.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "what a packet's turn needs")]
    fn search(
        &mut self,
        now_ns: u64,
        now: u32,
        request: &Request,
        packet: &mut Packet<'_>,
        subject: Subject,
        hint: bool,
        places: Places,
    ) -> Outcome {
        let mut found = None;
        if let Some(tuple) = subject.tuple() {
            let mut places = places;
            if hint {
                found = self.named(packet.hint.mark, tuple);
                match found {
                    Some(_) => self.counters.hints_used += 1,
                    None => self.counters.hints_stale += 1,
                }
                places = self.index.places(self.hasher.hash(tuple));
            }
            found = found.or_else(|| self.find(tuple, places));
        }
        self.judge(now_ns, now, request, packet, &subject, found)
    }

    /// What a port has to say with packets that have this tuple, so that their connection is found without a search: for whoever
    /// programs its hardware. It needs not be taken back: when the connection is gone, it is noticed.
    pub fn hint(&self, tuple: &Tuple) -> Option<Hint> {
        let (at, _) = self.find(tuple, self.index.places(self.hasher.hash(tuple)))?;
        Some(Hint { mark: at, generation: self.generation })
    }

    /// The connection that a hint names, if it has this tuple.
    #[inline]
    fn named(&self, at: u32, tuple: &Tuple) -> Found {
        let record = self.records.get(at as usize)?;
        if !record.flags().has(Flags::LIVE) {
            return None;
        }
        Some((at, self.way(record, at, tuple)?))
    }

    /// Which way a packet with this tuple goes, if it is of this connection.
    #[inline]
    fn way(&self, record: &Record, at: u32, tuple: &Tuple) -> Option<Direction> {
        let rest = &self.rests[at as usize];
        let extension = match record.flags().has(Flags::V6) {
            true => self.extensions.get(rest.extension),
            false => None,
        };
        record.way(rest, tuple, extension)
    }

    /// Removes expired connections, looking at no more than `steps_max` records. True if more may be
    /// due.
    pub fn expire(&mut self, now_ns: u64, steps_max: usize) -> bool {
        let now = ticks(now_ns);
        self.fragments.expire(now, steps_max);
        for _ in 0..steps_max {
            match self.lists.step(&self.records, &mut self.rests, now) {
                Step::Expired(at) => {
                    self.counters.connections_expired += 1;
                    self.forget(at);
                }
                Step::Moved => {}
                Step::Idle => return false,
            }
        }
        true
    }

    /// The connection that a packet with this tuple would belong to, and its direction.
    pub fn get(&self, now_ns: u64, tuple: &Tuple) -> Option<(Connection, Direction)> {
        let (at, direction) = self.find(tuple, self.index.places(self.hasher.hash(tuple)))?;
        let record = &self.records[at as usize];
        let now = ticks(now_ns);
        (record.deadline > now).then(|| (self.show(at, now), direction))
    }

    /// All connections whose time is not over, in no order.
    pub fn connections(&self, now_ns: u64) -> impl Iterator<Item = Connection> {
        let now = ticks(now_ns);
        (0..self.records.len() as u32)
            .filter(move |at| {
                let record = &self.records[*at as usize];
                record.flags().has(Flags::LIVE) && record.deadline > now
            })
            .map(move |at| self.show(at, now))
    }

    /// Removes all connections of a zone, or of all; says how many. Not bounded: for the control side.
    pub fn flush(&mut self, zone: Option<u16>) -> usize {
        let before = self.live;
        for at in 0..self.records.len() as u32 {
            let record = &self.records[at as usize];
            if record.flags().has(Flags::LIVE) && zone.is_none_or(|zone| record.zone == zone) {
                self.counters.connections_closed += 1;
                self.remove(at);
            }
        }
        before - self.live
    }

    /// A packet that this tracker has translated comes again, in the same zone: it is not judged or translated
    /// a second time. None if its connection is not known, and it is a packet like any other.
    pub fn again(
        &mut self,
        now_ns: u64,
        request: &Request,
        packet: &Packet<'_>,
    ) -> Option<Outcome> {
        let (tuple, error) = match parse::subject(packet, request.zone, false) {
            Subject::Fragment { tuple, ident, first: false } => {
                (self.fragments.renamed(&self.name_of(&tuple, ident))?, false)
            }
            Subject::Flow { tuple, .. } | Subject::Fragment { tuple, .. } => (tuple, false),
            Subject::Error { tuple } => (tuple, true),
            _ => return None,
        };
        // It left as the inverse of what the other side's answers come in as.
        let back = tuple.inverted();
        let (at, back) = self.find(&back, self.index.places(self.hasher.hash(&back)))?;
        if self.records[at as usize].deadline <= ticks(now_ns) {
            return None;
        }
        let direction = match back {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        };
        if request.commit {
            self.exec(at, request);
        }
        let (original, reply) = self.tuples(at);
        let mut outcome = self.outcome(at, direction);
        let (from, to) = match direction {
            Direction::Original => (original, reply.inverted()),
            Direction::Reply => (reply, original.inverted()),
        };
        outcome.state |= nat::changed(&from, &to);
        if error {
            let kept = CtState::REPLY | CtState::SOURCE_NAT | CtState::DESTINATION_NAT;
            outcome.state = CtState(outcome.state.0 & kept.0) | CtState::RELATED | CtState::TRACKED;
        }
        Some(outcome)
    }

    /// What would be said of a packet, with nothing changed, kept or translated; the rules of the
    /// packet's own protocol are left out, and a later fragment is nobody's.
    pub fn look(&self, now_ns: u64, zone: u16, packet: &Packet<'_>) -> Outcome {
        let invalid = Outcome { state: CtState::INVALID | CtState::TRACKED, ..Outcome::default() };
        let subject = parse::subject(packet, zone, self.config.check_checksums);
        let (tuple, error) = match subject {
            Subject::Untracked => return Outcome::default(),
            Subject::Flow { tuple, .. } | Subject::Fragment { tuple, first: true, .. } => {
                (tuple, false)
            }
            Subject::Error { tuple } => (tuple, true),
            _ => return invalid,
        };
        let found = self.find(&tuple, self.index.places(self.hasher.hash(&tuple)));
        let alive = |at: u32| self.records[at as usize].deadline > ticks(now_ns);
        match found.filter(|(at, _)| alive(*at)) {
            Some((at, direction)) => {
                let mut outcome = self.outcome(at, direction);
                if error {
                    let reply = CtState(outcome.state.0 & CtState::REPLY.0);
                    outcome.state = CtState::RELATED | CtState::TRACKED | reply;
                }
                outcome
            }
            None if error || tuple.role == Role::Reply => invalid,
            None => {
                let state = CtState::NEW | CtState::TRACKED;
                Outcome { state, original: Some(tuple), ..Outcome::default() }
            }
        }
    }

    fn show(&self, at: u32, now: u32) -> Connection {
        let record = &self.records[at as usize];
        let state = record.state;
        let protocol = IpProtocol(record.protocol);
        let left = u64::from(record.deadline.saturating_sub(now)) << TICK_SHIFT;
        Connection {
            original: self.original_of(at),
            reply: self.reply_of(at),
            mark: self.rests[at as usize].mark,
            label: self.label_of(at),
            tcp: (protocol == IpProtocol::TCP).then(|| tcp::State::from_number(state)),
            sctp: (protocol == IpProtocol::SCTP).then(|| sctp::State::from_number(state)),
            replied: record.flags().has(Flags::REPLIED),
            assured: record.flags().has(Flags::ASSURED),
            timeout: ((left + 500_000_000) / 1_000_000_000) as u32,
        }
    }

    /// Both directions' tuples.
    fn tuples(&self, at: u32) -> (Tuple, Tuple) {
        (self.original_of(at), self.reply_of(at))
    }

    /// The connection that has this tuple, and which way a packet with it goes.
    pub(crate) fn holder(&self, tuple: &Tuple) -> Option<(u32, Direction)> {
        self.find(tuple, self.index.places(self.hasher.hash(tuple)))
    }

    fn original_of(&self, at: u32) -> Tuple {
        self.records[at as usize].original(&self.rests[at as usize])
    }

    fn reply_of(&self, at: u32) -> Tuple {
        let rest = &self.rests[at as usize];
        self.records[at as usize].reply(rest, self.extensions.get(rest.extension))
    }

    fn label_of(&self, at: u32) -> u128 {
        let rest = &self.rests[at as usize];
        if !self.records[at as usize].flags().has(Flags::V6) {
            return rest.label_v4();
        }
        self.extensions.get(rest.extension).map_or(0, |extension| extension.label)
    }

    fn set_label(&mut self, at: u32, (value, mask): (u128, u128)) {
        let label = self.label_of(at) & !mask | value & mask;
        let rest = &mut self.rests[at as usize];
        let flags = self.records[at as usize].flags_mut();
        if !flags.has(Flags::V6) {
            rest.set_label_v4(label);
        } else if rest.extension != NONE || label != 0 {
            if rest.extension == NONE {
                rest.extension = self.extensions.take();
            }
            self.extensions[rest.extension].label = label;
        }
        flags.set(Flags::MARKED);
    }

    /// Which datagram a fragment is of.
    fn name_of(&self, tuple: &Tuple, ident: u32) -> Name {
        let bare = Tuple { src_port: 0, dst_port: 0, role: Role::Any, ..*tuple };
        // The hash is the same for both directions, which have identifications of their own.
        let way = u64::from(tuple.src < tuple.dst) << 62;
        let hash = crate::hash::fold(self.hasher.hash(&bare), u64::from(ident) | way | 1 << 63);
        Name { hash, bare, ident }
    }

    /// A fragment was translated: its datagram is known by its new addresses, too.
    #[cold]
    fn rename(&mut self, ident: u32, from: &Tuple, to: &Tuple) {
        let (before, behind) = (self.name_of(from, ident), self.name_of(to, ident));
        self.fragments.rename(&before, &behind, *to);
    }

    /// What a packet is about. First fragments are noted, later ones looked up.
    fn subject(&mut self, now: u32, zone: u16, packet: &Packet<'_>) -> Subject {
        let subject = parse::subject(packet, zone, self.config.check_checksums);
        let Subject::Fragment { tuple, ident, first } = subject else { return subject };
        let name = self.name_of(&tuple, ident);
        let leaves = self.apart.now == Apart::Leave;
        if leaves && (first || !self.fragments.knows(&name, now)) {
            if first {
                // What it may open, others of the burst are not to open before it.
                self.apart.opens(self.hasher.hash(&tuple));
            }
            return Subject::Apart;
        }
        let Some(piece) = parse::piece(packet) else { return Subject::Malformed };
        let time = (now, now.saturating_add(deadline_after(self.config.timeouts.fragment)));
        let transport = if first { Transport::Whole } else { Transport::Later };
        let arrival = if first {
            self.fragments.first(name, tuple, piece, time)
        } else {
            let holds = self.apart.now == Apart::Hold;
            self.fragments.later(name, piece, holds.then_some(packet.frame.len()), time)
        };
        self.counters.fragmented_evicted = self.fragments.evicted();
        match arrival {
            Arrival::Of(tuple) => Subject::Flow { tuple, transport },
            Arrival::Waits(ticket) => Subject::Waits(ticket),
            Arrival::Orphan => Subject::Orphan,
            Arrival::Overlaps => Subject::Refused { tiny: false },
            Arrival::Tiny => Subject::Refused { tiny: true },
        }
    }

    /// The connection that has this tuple, expired or not.
    #[inline]
    fn find(&self, tuple: &Tuple, places: Places) -> Found {
        for at in self.index.candidates(places) {
            let record = &self.records[at as usize];
            if let Some(way) = self.way(record, at, tuple) {
                return Some((at, way));
            }
        }
        None
    }

    /// What becomes of a packet.
    fn judge(
        &mut self,
        now_ns: u64,
        now: u32,
        request: &Request,
        packet: &mut Packet<'_>,
        subject: &Subject,
        mut found: Found,
    ) -> Outcome {
        if let Some((at, direction)) = found {
            let record = &self.records[at as usize];
            if record.deadline <= now {
                self.counters.connections_expired += 1;
                self.remove(at);
                found = None;
            } else if request.force
                && request.commit
                && direction == Direction::Reply
                && matches!(subject, Subject::Flow { transport: Transport::Whole, .. })
            {
                self.counters.connections_closed += 1;
                self.remove(at);
                found = None;
            }
        }
        let (tuple, transport) = match *subject {
            Subject::Flow { tuple, transport } => (tuple, transport),
            Subject::Apart => {
                self.counters.left_apart += 1;
                return Outcome { drop: Some(Drop::Apart), ..INVALID };
            }
            Subject::Waits(ticket) => {
                self.counters.fragments_waited += 1;
                return Outcome { drop: Some(Drop::Waits(ticket)), ..INVALID };
            }
            Subject::Refused { tiny } => {
                self.counters.malformed += 1;
                self.counters.fragments_tiny += u64::from(tiny);
                self.counters.fragments_overlapping += u64::from(!tiny);
                return Outcome { drop: Some(Drop::Fragment), ..INVALID };
            }
            Subject::Error { tuple } => {
                if found.is_none()
                    && self.apart.now == Apart::Leave
                    && self.apart.has(self.hasher.hash(&tuple))
                {
                    self.counters.left_apart += 1;
                    return Outcome { drop: Some(Drop::Apart), ..INVALID };
                }
                return self.error(request, packet, found).unwrap_or_else(|| {
                    self.counters.invalid += 1;
                    INVALID
                });
            }
            Subject::Untracked => {
                self.counters.untracked += 1;
                return Outcome::default();
            }
            Subject::Malformed => {
                self.counters.malformed += 1;
                return INVALID;
            }
            Subject::Orphan | Subject::Fragment { .. } => {
                self.counters.fragment_orphan += 1;
                return INVALID;
            }
        };
        if let Some((at, direction)) = found {
            let controls = self.records[at as usize].flags().has(Flags::CONTROL)
                && packet.at.fragment == Fragment::Whole;
            if controls && request.apart == Apart::Leave && self.may_grow(request, packet) {
                self.counters.left_apart += 1;
                return Outcome { drop: Some(Drop::Apart), ..INVALID };
            }
            let before = if controls { self.unshift(packet, at, direction) } else { None };
            match self.advance(now_ns, now, packet, transport, at, direction) {
                Advance::Invalid => {
                    if let Some(before) = before {
                        packet.frame.copy_from_slice(&before);
                    }
                    self.counters.invalid += 1;
                    return INVALID;
                }
                Advance::Reopen => {
                    self.counters.connections_closed += 1;
                    self.remove(at);
                }
                Advance::Valid { forget } => {
                    if request.commit {
                        self.exec(at, request);
                    }
                    self.counted(at, self.records[at as usize].flags(), direction);
                    let mut outcome = self.outcome(at, direction);
                    if direction == Direction::Reply {
                        self.records[at as usize].flags_mut().set(Flags::REPLIED);
                    }
                    let announced = match controls {
                        true => self.announced(now, request, packet, at, direction),
                        false => Ok(None),
                    };
                    // As Linux does it: while nobody has answered, only who may open a connection translates its packets.
                    let unanswered = direction == Direction::Original
                        && !self.records[at as usize].flags().has(Flags::REPLIED);
                    if request.nat != Nat::None && !(unanswered && request.nat == Nat::Existing) {
                        let tuples = self.tuples(at);
                        self.translate((&tuples.0, &tuples.1), direction, packet, &mut outcome);
                        if let Fragment::First { ident } | Fragment::Later { ident } =
                            packet.at.fragment
                        {
                            let to = match direction {
                                Direction::Original => tuples.1.inverted(),
                                Direction::Reply => tuples.0.inverted(),
                            };
                            self.rename(ident, &tuple, &to);
                        }
                    }
                    match announced {
                        Err(alg::Partial) => outcome.drop = Some(Drop::Partial),
                        Ok(announced) if controls => {
                            self.shift(request, packet, at, direction, announced, before);
                        }
                        Ok(_) => {}
                    }
                    if forget {
                        self.counters.connections_closed += 1;
                        self.remove(at);
                    } else {
                        self.requeue(at);
                    }
                    return outcome;
                }
            }
        }
        self.open(now_ns, now, request, packet, tuple, transport).unwrap_or_else(|| {
            self.counters.invalid += 1;
            INVALID
        })
    }

    /// A packet that no connection has. None if it cannot open one.
    fn open(
        &mut self,
        now_ns: u64,
        now: u32,
        request: &Request,
        packet: &mut Packet<'_>,
        tuple: Tuple,
        transport: Transport,
    ) -> Option<Outcome> {
        if self.apart.now != Apart::Never
            && let Some(apart) = self.behind_others(now, request, &tuple)
        {
            return Some(apart);
        }
        // Who replies needs to have been asked.
        if tuple.role == Role::Reply {
            return None;
        }
        // A later fragment says too little to keep a connection, but has its first one's, which nobody has kept.
        if transport == Transport::Later {
            if matches!(tuple.protocol, IpProtocol::TCP | IpProtocol::SCTP) {
                return None;
            }
            self.counters.new += 1;
            let state = CtState::NEW | CtState::TRACKED;
            return Some(Outcome { state, original: Some(tuple), ..Outcome::default() });
        }
        let (mut progress, mut notes) = (Progress::NEW, Notes::NEW);
        let payload = parse::payload(packet);
        let timeouts = &self.config.timeouts;
        let (state, timeout) = match tuple.protocol {
            IpProtocol::TCP => {
                let segment = tcp::Segment::parse(payload)?;
                if !tcp::open(&mut progress, &segment, &self.config.tcp) {
                    return None;
                }
                let first = tcp::Arrival {
                    state: tcp::State::None,
                    direction: Direction::Original,
                    segment: &segment,
                    known: tcp::Known { replied: false, assured: false },
                };
                match tcp::segment(&mut progress, &mut notes, first, self.config.tcp_rules()) {
                    tcp::Decision::Accept { state, timeout, .. } => (state as u8, timeout),
                    _ => return None,
                }
            }
            IpProtocol::SCTP => {
                let (state, way) = (sctp::State::None, Direction::Original);
                let timeouts = &timeouts.sctp;
                match sctp::packet(&mut progress, &mut notes, state, way, payload, true, timeouts) {
                    sctp::Decision::Accept { state, timeout, .. } => (state as u8, timeout),
                    sctp::Decision::Invalid => return None,
                }
            }
            IpProtocol::UDP | IpProtocol::UDP_LITE => {
                progress.sides[0].end = now.saturating_add(deadline_after(2));
                (0, Some(timeouts.udp))
            }
            _ if tuple.is_query() => (0, Some(timeouts.icmp)),
            _ => (0, Some(timeouts.other)),
        };
        let mut outcome = Outcome {
            state: CtState::NEW | CtState::TRACKED,
            original: Some(tuple),
            ..Outcome::default()
        };
        let expected = match self.helpers.expects() {
            true => self.helpers.expected(&tuple, now),
            // Nearly always.
            false => None,
        };
        if let Some(expected) = &expected {
            outcome.state |= CtState::RELATED;
            (outcome.mark, outcome.label) = (expected.mark, expected.label);
            outcome.original = Some(expected.parent);
        }
        if !request.commit {
            self.counters.new += 1;
            return Some(outcome);
        }
        let deadline = deadline_of(now_ns, timeout.unwrap_or(timeouts.other));
        let bound = match expected.filter(|_| request.nat != Nat::None) {
            Some(expected) => self.bind_expected(&expected, &tuple),
            None => Ok(None),
        };
        let kept = bound.and_then(|bound| {
            self.insert(now, request, tuple, bound, (progress, notes), (state, deadline))
        });
        match kept {
            Ok(at) => {
                self.counters.new += 1;
                if let Some(expected) = expected {
                    self.relate(at, &tuple, &expected);
                }
                self.exec(at, request);
                self.control(at, request);
                if self.records[at as usize].flags().has(Flags::CONTROL) {
                    // Of UDP, the first packet says it.
                    let _ = self.announced(now, request, packet, at, Direction::Original);
                }
                outcome = self.outcome(at, Direction::Original);
                if request.nat != Nat::None {
                    let tuples = self.tuples(at);
                    self.translate(
                        (&tuples.0, &tuples.1),
                        Direction::Original,
                        packet,
                        &mut outcome,
                    );
                    if let Fragment::First { ident } = packet.at.fragment {
                        self.rename(ident, &tuple, &tuples.1.inverted());
                    }
                }
            }
            Err(drop) => {
                self.counters.refused += 1;
                outcome.drop = Some(drop);
            }
        }
        Some(outcome)
    }

    /// A packet that no connection has: whether it is to come alone, as an earlier one of its burst might open one.
    fn behind_others(&mut self, now: u32, request: &Request, tuple: &Tuple) -> Option<Outcome> {
        let hash = self.hasher.hash(tuple);
        match self.apart.now {
            Apart::Leave if !request.commit => {
                if !self.apart.meets(hash, now) {
                    return None;
                }
                self.counters.left_apart += 1;
                Some(Outcome { drop: Some(Drop::Apart), ..INVALID })
            }
            Apart::Hold if !request.commit => {
                self.apart.none(hash);
                None
            }
            _ => {
                self.apart.opened(hash);
                None
            }
        }
    }

    /// Makes room for a connection: those that are over go first, then those that nobody has answered.
    fn make_room(&mut self) -> Result<(), Drop> {
        let mut half_open = self.lists.half_open() >= self.config.half_open_max;
        if !half_open && self.live >= self.config.connections_max {
            match self.lists.oldest_closed() {
                Some(closed) => {
                    self.counters.closed_evicted += 1;
                    self.remove(closed);
                }
                None => half_open = true,
            }
        }
        if half_open {
            let Some(oldest) = self.lists.oldest() else {
                self.counters.table_full += 1;
                return Err(Drop::TableFull);
            };
            self.counters.half_open_evicted += 1;
            self.remove(oldest);
        }
        Ok(())
    }

    /// Makes room among those that are translated, if one of the oldest that are over is.
    fn make_translated_room(&mut self) -> bool {
        let translated = |at: u32| self.records[at as usize].flags().has(Flags::TWO_KEYS);
        let Some(closed) = self.lists.closed(&self.rests, CLOSED_MAX, translated) else {
            return false;
        };
        self.counters.closed_evicted += 1;
        self.remove(closed);
        true
    }

    /// Whether the connection at this place, which has the reply tuple that a newcomer wants, gives way to it: its time is over,
    /// or both ends have closed it or one has reset it, its source was translated, and the newcomer's SYN is beyond what its opener
    /// has sent, so that no segment of the old one is taken for the new one's (RFC 6191 §2; as Linux's `nf_nat_may_kill`).
    pub(crate) fn gives_way(&self, at: u32, direction: Direction, to: &nat::Newcomer) -> bool {
        let record = &self.records[at as usize];
        if record.deadline <= to.now {
            return true;
        }
        let state = tcp::State::from_number(record.state);
        let over = matches!(state, tcp::State::TimeWait | tcp::State::Closed);
        let advanced =
            to.syn_end.is_some_and(|end| end.wrapping_sub(record.progress.sides[0].end) as i32 > 0);
        direction == Direction::Reply
            && IpProtocol(record.protocol) == IpProtocol::TCP
            && record.flags().has(Flags::SOURCE_NAT)
            && over
            && advanced
    }

    /// Of the oldest connections that are over, one of this sender, that would give way.
    pub(crate) fn closed_of(&self, original: &Tuple, to: &nat::Newcomer) -> Option<u32> {
        self.lists.closed(&self.rests, CLOSED_MAX, |at| {
            let reply = self.reply_of(at);
            let elsewhere = (reply.src, reply.src_port) != (original.dst, original.dst_port);
            let record = &self.records[at as usize];
            let source = record.flags().has(Flags::SOURCE_NAT);
            source
                && record.protocol == original.protocol.0
                && self.original_of(at).src == original.src
                && (elsewhere || self.gives_way(at, Direction::Reply, to))
        })
    }

    /// A connection has given way to another.
    pub(crate) fn replace(&mut self, at: u32, now: u32) {
        match self.records[at as usize].deadline <= now {
            true => self.counters.connections_expired += 1,
            false => self.counters.closed_replaced += 1,
        }
        self.remove(at);
    }

    /// Keeps a connection.
    fn insert(
        &mut self,
        now: u32,
        request: &Request,
        tuple: Tuple,
        bound: Option<Tuple>,
        (progress, notes): (Progress, Notes),
        (state, deadline): (u8, u32),
    ) -> Result<u32, Drop> {
        // What is translated anew gets an address and port that nobody has.
        if bound.is_none() && !matches!(request.nat, Nat::New(_)) {
            let answer = tuple.inverted();
            let places = self.index.places(self.hasher.hash(&answer));
            if let Some((at, _)) = self.find(&answer, places) {
                if self.records[at as usize].deadline > now {
                    self.counters.insert_failed += 1;
                    return Err(Drop::Clash);
                }
                self.counters.connections_expired += 1;
                self.remove(at);
            }
        }
        self.make_room()?;
        let mut reply = tuple.inverted();
        if let Some(bound) = bound {
            reply = bound;
        } else if let Nat::New(rule) = request.nat {
            let syn = tuple.protocol == IpProtocol::TCP && state == tcp::State::SynSent as u8;
            let syn_end = syn.then_some(progress.sides[0].end);
            let Some(bound) = self.bind(&rule, &tuple, &nat::Newcomer { now, syn_end }) else {
                self.counters.nat_exhausted += 1;
                return Err(Drop::NatExhausted);
            };
            reply = bound;
        }
        if reply != tuple.inverted()
            && self.translated >= self.config.translated_max
            && !self.make_translated_room()
        {
            self.release(&tuple, &reply);
            self.counters.table_full += 1;
            return Err(Drop::TableFull);
        }
        let (mut record, mut rest) = Record::new(&tuple, &reply);
        record.state = state;
        record.deadline = deadline;
        record.progress = progress.with(record.flags());
        rest.notes = notes;
        let Some(at) = self.place(&tuple, &reply, record, rest) else {
            self.counters.table_full += 1;
            self.release(&tuple, &reply);
            return Err(Drop::TableFull);
        };
        self.counters.connections_opened += 1;
        Ok(at)
    }

    /// Puts a connection into index and lists; none if the index has no room. Its translation, if it has one,
    /// is bound already.
    fn place(
        &mut self,
        original: &Tuple,
        reply: &Tuple,
        mut record: Record,
        mut rest: Rest,
    ) -> Option<u32> {
        if (reply.src, reply.src_port) != (original.dst, original.dst_port) {
            record.flags_mut().set(Flags::DESTINATION_NAT);
        }
        if (reply.dst, reply.dst_port) != (original.src, original.src_port) {
            record.flags_mut().set(Flags::SOURCE_NAT);
        }
        let two_keys = record.flags().has(Flags::TWO_KEYS);
        if two_keys && original.v6 {
            rest.extension = self.extensions.take();
            let extension = &mut self.extensions[rest.extension];
            (extension.reply_src, extension.reply_dst) = (reply.src, reply.dst);
        }
        let at = self.allocate(record, rest);
        let keys = [self.hasher.hash(original), self.hasher.hash(reply)];
        let places = keys.map(|hash| self.index.places(hash));
        let mut fits = self.index.insert(places[0], at);
        if fits && two_keys && !self.index.insert(places[1], at) {
            self.index.remove(places[0], at);
            fits = false;
        }
        if !fits {
            self.give_back(at);
            return None;
        }
        self.live += 1;
        self.translated += usize::from(two_keys);
        if self.records[at as usize].flags().has(Flags::SOURCE_NAT) {
            self.map_socket(original, reply);
        }
        self.enlist(at);
        Some(at)
    }

    /// A free record, filled.
    fn allocate(&mut self, record: Record, rest: Rest) -> u32 {
        if self.free == NONE {
            self.records.push(record);
            self.rests.push(rest);
            return (self.records.len() - 1) as u32;
        }
        let at = self.free;
        self.free = self.rests[at as usize].next;
        self.records[at as usize] = record;
        self.rests[at as usize] = rest;
        at
    }

    /// A record that is on no list and not in the index becomes free.
    fn give_back(&mut self, at: u32) {
        let rest = &mut self.rests[at as usize];
        if rest.extension != NONE {
            self.extensions.give(rest.extension);
        }
        rest.next = self.free;
        *self.records[at as usize].flags_mut() = Flags::default();
        self.free = at;
    }

    /// Forgets a live connection.
    fn remove(&mut self, at: u32) {
        self.lists.unlink(&mut self.rests, at);
        self.forget(at);
    }

    /// Forgets a live connection that is on no list.
    fn forget(&mut self, at: u32) {
        let (original, reply) = (self.original_of(at), self.reply_of(at));
        if let Some(gone) = &mut self.gone {
            gone.note(original);
        }
        self.index.remove(self.index.places(self.hasher.hash(&original)), at);
        let flags = self.records[at as usize].flags();
        if flags.has(Flags::TWO_KEYS) {
            self.index.remove(self.index.places(self.hasher.hash(&reply)), at);
            self.translated -= 1;
        }
        if flags.has(Flags::SOURCE_NAT) {
            self.unmap_socket(&original, &reply);
            self.release(&original, &reply);
        }
        if flags.has(Flags::CONTROL | Flags::RELATED) {
            self.helpers.forget(at);
        }
        self.give_back(at);
        self.live -= 1;
    }

    /// Where a connection waits for its end.
    fn queue(&self, at: u32) -> Option<Queue> {
        queue(&self.records[at as usize])
    }

    fn enlist(&mut self, at: u32) {
        match self.queue(at) {
            Some(queue) => self.lists.enqueue(&mut self.rests, at, queue),
            None => self.lists.file(&self.records, &mut self.rests, at),
        }
    }

    /// Puts a connection where it now belongs.
    fn requeue(&mut self, at: u32) {
        let (rest, queue) = (&self.rests[at as usize], self.queue(at));
        if !Lists::is_queued(rest) && queue.is_none() {
            return;
        }
        match queue {
            Some(queue) if Lists::is_in(rest, queue) => {}
            _ => {
                self.lists.unlink(&mut self.rests, at);
                self.enlist(at);
            }
        }
    }

    /// Sets the time at which a connection is gone.
    fn refresh(&mut self, now_ns: u64, at: u32, timeout: u32) {
        let deadline = deadline_of(now_ns, timeout);
        let record = &mut self.records[at as usize];
        let before = record.deadline;
        if Lists::is_queued(&self.rests[at as usize]) {
            // Moved with its place, once in a second at most.
            if deadline < before || deadline - before > deadline_after(1) {
                self.lists.unlink(&mut self.rests, at);
                self.records[at as usize].deadline = deadline;
                self.enlist(at);
            }
            return;
        }
        record.deadline = deadline;
        if self.lists.is_nearer(ticks(now_ns), before, deadline) {
            self.lists.unlink(&mut self.rests, at);
            self.lists.file(&self.records, &mut self.rests, at);
        }
    }

    /// Mark and label, as the action sets them.
    fn exec(&mut self, at: u32, request: &Request) {
        let flags = self.records[at as usize].flags_mut();
        flags.touch();
        if let Some((value, mask)) = request.mark {
            let rest = &mut self.rests[at as usize];
            rest.mark = rest.mark & !mask | value & mask;
            flags.set(Flags::MARKED);
        }
        if let Some(label) = request.label {
            self.set_label(at, label);
        }
    }

    /// What a packet of a connection is told.
    #[inline(always)]
    fn outcome(&self, at: u32, direction: Direction) -> Outcome {
        let record = &self.records[at as usize];
        let state = told(record.flags(), direction);
        let mut outcome =
            Outcome { state, original: Some(record.original_v4()), ..Outcome::default() };
        if record.flags().has(Flags::MARKED | Flags::V6 | Flags::RELATED) {
            self.tell_rest(at, &mut outcome);
        }
        outcome
    }

    /// What of that is not in the record.
    #[cold]
    fn tell_rest(&self, at: u32, outcome: &mut Outcome) {
        (outcome.mark, outcome.label) = (self.rests[at as usize].mark, self.label_of(at));
        outcome.original = Some(self.original_of(at));
        if self.records[at as usize].flags().has(Flags::RELATED)
            && let Some(parent) = self.helpers.parent(at)
        {
            outcome.original = Some(parent);
            outcome.state |= CtState::RELATED;
        }
    }

    /// An error that quotes a packet of the connection found: it goes the way that the quoted packet's
    /// answer would. None without a connection, or if it is not for who sent the quoted packet.
    fn error(
        &mut self,
        request: &Request,
        packet: &mut Packet<'_>,
        found: Found,
    ) -> Option<Outcome> {
        let (at, direction) = found?;
        self.counters.related += 1;
        let mut outcome = self.outcome(at, direction);
        outcome.state = CtState::RELATED | CtState::TRACKED;
        if direction == Direction::Reply {
            outcome.state |= CtState::REPLY;
        }
        if request.nat != Nat::None {
            let tuples = self.tuples(at);
            self.translate_error((&tuples.0, &tuples.1), direction, packet, &mut outcome);
        }
        Some(outcome)
    }

    /// A new connection has the helper that the action names, if it is of its protocol and there is room.
    fn control(&mut self, at: u32, request: &Request) {
        let Some(alg) = request.alg else { return };
        let record = &mut self.records[at as usize];
        if IpProtocol(record.protocol) != alg.protocol() {
            return;
        }
        if self.helpers.controls.len() >= alg::CONTROLS_MAX {
            self.counters.alg_refused += 1;
            return;
        }
        record.flags_mut().set(Flags::CONTROL);
        self.helpers.controls.insert(at, alg::Control::new(alg));
    }

    /// A connection that was announced has come.
    fn relate(&mut self, at: u32, tuple: &Tuple, expected: &alg::Expected) {
        self.counters.alg_related += 1;
        self.helpers.came(tuple, at, expected.parent);
        let flags = self.records[at as usize].flags_mut();
        flags.set(Flags::RELATED);
        if expected.mark != 0 || expected.label != 0 {
            flags.set(Flags::MARKED);
            self.rests[at as usize].mark = expected.mark;
            self.set_label(at, (expected.label, !0));
        }
    }

    /// What the answers of an announced connection look like, if it is translated: as its control connection is.
    fn bind_expected(
        &self,
        expected: &alg::Expected,
        tuple: &Tuple,
    ) -> Result<Option<Tuple>, Drop> {
        let (src, src_port) = expected.end;
        let reply = Tuple { src, src_port, dst: expected.peer, ..tuple.inverted() };
        if reply == tuple.inverted() {
            return Ok(None);
        }
        let ports = (0..ALG_PORTS).map(|n| match tuple.src_port.wrapping_add(n) {
            port @ 0..1024 if n > 0 => port + 1024,
            port => port,
        });
        let mut replies = ports.map(|dst_port| Tuple { dst_port, ..reply });
        let free = replies.find(|reply| self.holder(reply).is_none());
        free.map(Some).ok_or(Drop::NatExhausted)
    }

    /// A packet of a control connection may get another length.
    fn may_grow(&self, request: &Request, packet: &Packet<'_>) -> bool {
        let tcp = packet.at.protocol == IpProtocol::TCP;
        tcp && request.nat != Nat::None && packet.payload().is_some_and(|place| !place.is_empty())
    }

    /// Takes what acknowledgments of moved segments are too high by off them; the octets before that, if it did.
    fn unshift(
        &mut self,
        packet: &mut Packet<'_>,
        at: u32,
        direction: Direction,
    ) -> Option<Vec<u8>> {
        let control = self.helpers.controls.get(&at)?;
        let shift = control.shifts[1 - direction as usize];
        if shift.is_none() || control.alg != Alg::Ftp {
            return None;
        }
        let before = packet.frame.to_vec();
        let (l4, end) = (packet.at.l4 as usize, packet.at.end as usize);
        let segment = packet.frame.get_mut(l4..end)?;
        let header = usize::from(*segment.get(12)? >> 4) * 4;
        let mut back = |at: usize| {
            if let Some(place) = segment.get_mut(at..at + 4).and_then(|p| p.first_chunk_mut::<4>())
            {
                let ack = u32::from_be_bytes(*place);
                *place = ack.wrapping_sub(shift.of_ack(ack)).to_be_bytes();
            }
        };
        back(8);
        // Blocks of selective acknowledgments (RFC 2018 §3).
        let mut option = 20;
        while option + 1 < header {
            let (kind, len) = match before.get(l4 + option..l4 + option + 2) {
                Some([1, _]) => (1, 1),
                Some([kind, len]) => (*kind, usize::from(*len)),
                _ => break,
            };
            if kind == 0 || len == 0 || option + len > header {
                break;
            }
            if kind == 5 {
                (option + 2..option + len).step_by(4).for_each(&mut back);
            }
            option += len;
        }
        Tracker::mend(packet);
        Some(before)
    }

    /// Checksums of a packet whose octets were changed anyhow.
    fn mend(packet: &mut Packet<'_>) {
        if packet.checksum != Checksum::Partial {
            let _ = wire::offload::fill_checksums(packet.frame);
        }
    }

    /// What a packet of a control connection announces is expected from here on. The text that takes an announcement's place, and where,
    /// if the connection is translated.
    fn announced(
        &mut self,
        now: u32,
        request: &Request,
        packet: &Packet<'_>,
        at: u32,
        direction: Direction,
    ) -> Result<Option<(Range<usize>, String)>, alg::Partial> {
        let Some(control) = self.helpers.controls.get(&at) else { return Ok(None) };
        let alg = control.alg;
        let Some(place) = packet.payload() else { return Ok(None) };
        let payload = &packet.frame[place.clone()];
        let (original, reply) = self.tuples(at);
        let (from, to) = match direction {
            Direction::Original => (original, reply.inverted()),
            Direction::Reply => (reply, original.inverted()),
        };
        let said = (self.rests[at as usize].mark, self.label_of(at));
        let time = (now, now.saturating_add(deadline_after(alg::EXPECTED_SECONDS)));
        let announced = match alg {
            Alg::Tftp if direction == Direction::Original && alg::is_request(payload) => {
                let ports = (from.src_port, to.src_port);
                let ends = (&from, &to);
                let told = self.helpers.expect(
                    at,
                    ends,
                    original,
                    said,
                    IpProtocol::UDP,
                    ports,
                    false,
                    time,
                );
                self.counters.alg_announced += u64::from(told.is_some());
                self.counters.alg_refused += u64::from(told.is_none());
                return Ok(None);
            }
            Alg::Tftp => return Ok(None),
            Alg::Ftp if payload.is_empty() => return Ok(None),
            Alg::Ftp => {
                let l4 = packet.at.l4 as usize;
                let seq = packet.frame.get(l4 + 4..l4 + 8).and_then(|seq| seq.first_chunk());
                let Some(seq) = seq.map(|seq| u32::from_be_bytes(*seq)) else { return Ok(None) };
                self.helpers.read(at, direction, seq, payload)
            }
        };
        let announced = announced.inspect_err(|_| self.counters.alg_partial += 1)?;
        let Some(announced) = announced else { return Ok(None) };
        // Nobody announces another's address, nor one of the other family.
        if announced.address.is_some_and(|address| address != from.src) {
            self.counters.alg_refused += 1;
            return Ok(None);
        }
        let translates = request.nat != Nat::None && from != to;
        // Where what it says is not translated, nobody can come to another address than it names.
        let to = if translates { to } else { from };
        let (ports, ends) = ((announced.port, announced.port), (&from, &to));
        let tcp = IpProtocol::TCP;
        let told = self.helpers.expect(at, ends, original, said, tcp, ports, translates, time);
        let Some(port) = told else {
            self.counters.alg_refused += 1;
            return Ok(None);
        };
        self.counters.alg_announced += 1;
        if !translates || (to.src, port) == (from.src, announced.port) {
            return Ok(None);
        }
        let text = announced.text((to.src, to.v6), port);
        let announced = announced.place.start + place.start..announced.place.end + place.start;
        Ok(Some((announced, text)))
    }

    /// What a control connection's packet becomes behind its translation: its sequence number, and what it announces.
    fn shift(
        &mut self,
        request: &Request,
        packet: &mut Packet<'_>,
        at: u32,
        direction: Direction,
        announced: Option<(Range<usize>, String)>,
        before: Option<Vec<u8>>,
    ) {
        if request.nat == Nat::None {
            // Nothing is written for who only looks.
            if let Some(before) = before {
                packet.frame.copy_from_slice(&before);
            }
            return;
        }
        let Some(control) = self.helpers.controls.get_mut(&at) else { return };
        let shift = &mut control.shifts[direction as usize];
        let l4 = packet.at.l4 as usize;
        let Some(place) =
            packet.frame.get_mut(l4 + 4..l4 + 8).and_then(|p| p.first_chunk_mut::<4>())
        else {
            return;
        };
        if control.alg != Alg::Ftp {
            return;
        }
        let seq = u32::from_be_bytes(*place);
        if !shift.is_none() {
            *place = seq.wrapping_add(shift.of(seq)).to_be_bytes();
        }
        let Some((old, text)) = announced else {
            if !shift.is_none() {
                Tracker::mend(packet);
            }
            return;
        };
        let by = text.len() as i32 - old.len() as i32;
        shift.lengthen(seq, by);
        if by == 0 {
            packet.frame[old].copy_from_slice(text.as_bytes());
            Tracker::mend(packet);
            return;
        }
        let (l3, end) = (packet.at.l3 as usize, packet.at.end as usize);
        let mut bytes = packet.frame[..old.start].to_vec();
        bytes.extend(text.as_bytes());
        bytes.extend(&packet.frame[old.end..end]);
        let length = match packet.at.network {
            Network::V4 => (l3 + 2, bytes.len() - l3),
            _ => (l3 + 4, bytes.len() - l3 - 40),
        };
        let Ok(len) = u16::try_from(length.1) else { return };
        bytes[length.0..length.0 + 2].copy_from_slice(&len.to_be_bytes());
        let _ = match packet.checksum {
            Checksum::Partial => wire::offload::pseudo_header_partial(&mut bytes).map(drop),
            _ => wire::offload::fill_checksums(&mut bytes).map(drop),
        };
        if packet.checksum == Checksum::Partial && packet.at.network == Network::V4 {
            // The header's own checksum is not left to anybody.
            if let Ok(mut header) = wire::ipv4::Packet::new_header_checked(&mut bytes[l3..]) {
                header.fill_checksum();
            }
        }
        self.rewritten = Some(bytes);
    }

    /// Moves a connection on by a packet.
    fn advance(
        &mut self,
        now_ns: u64,
        now: u32,
        packet: &Packet<'_>,
        transport: Transport,
        at: u32,
        direction: Direction,
    ) -> Advance {
        const VALID: Advance = Advance::Valid { forget: false };
        let record = &mut self.records[at as usize];
        record.flags_mut().touch();
        if transport == Transport::Later {
            return VALID;
        }
        let rest = &mut self.rests[at as usize];
        rest.notes = record.notes(rest);
        record.flags_mut().clear(Flags::AT_EDGE | Flags::UNNOTED);
        let flags = record.flags();
        let timeouts = &self.config.timeouts;
        let (progress, notes) = (&mut record.progress, &mut rest.notes);
        let (state, timeout, assured) = match IpProtocol(record.protocol) {
            IpProtocol::TCP => {
                let Some(segment) = tcp::Segment::parse(parse::payload(packet)) else {
                    return Advance::Invalid;
                };
                let known = tcp::Known {
                    replied: flags.has(Flags::REPLIED),
                    assured: flags.has(Flags::ASSURED),
                };
                let state = tcp::State::from_number(record.state);
                let arrival = tcp::Arrival { state, direction, segment: &segment, known };
                match tcp::segment(progress, notes, arrival, self.config.tcp_rules()) {
                    tcp::Decision::Accept { state, timeout, assured } => {
                        (state as u8, timeout, assured)
                    }
                    tcp::Decision::Ignore => return VALID,
                    tcp::Decision::Forget => return Advance::Valid { forget: true },
                    tcp::Decision::Reopen => return Advance::Reopen,
                    tcp::Decision::Invalid { shorten } => {
                        self.doubt(now_ns, now, at, shorten);
                        return Advance::Invalid;
                    }
                }
            }
            IpProtocol::SCTP => {
                let state = sctp::State::from_number(record.state);
                let payload = parse::payload(packet);
                let timeouts = &timeouts.sctp;
                match sctp::packet(progress, notes, state, direction, payload, false, timeouts) {
                    sctp::Decision::Accept { state, timeout, assured } => {
                        (state as u8, timeout, assured)
                    }
                    sctp::Decision::Invalid => return Advance::Invalid,
                }
            }
            IpProtocol::UDP | IpProtocol::UDP_LITE => {
                let stream = flags.has(Flags::REPLIED) && now > progress.sides[0].end;
                let timeout = if stream { timeouts.udp_stream } else { timeouts.udp };
                (0, Some(timeout), stream)
            }
            _ if flags.has(Flags::QUERY) => (0, Some(timeouts.icmp), false),
            _ => (0, Some(timeouts.other), false),
        };
        let record = &mut self.records[at as usize];
        record.state = state;
        if assured {
            record.flags_mut().set(Flags::ASSURED);
        }
        if let Some(timeout) = timeout {
            self.refresh(now_ns, at, timeout);
        }
        VALID
    }
}

/// What a packet of a connection with these flags is told.
#[inline(always)]
fn told(flags: Flags, direction: Direction) -> CtState {
    let state = match direction {
        Direction::Reply => CtState::ESTABLISHED | CtState::REPLY,
        Direction::Original if flags.has(Flags::REPLIED) => CtState::ESTABLISHED,
        Direction::Original => CtState::NEW,
    };
    state | CtState::TRACKED
}

/// Where a connection waits for its end: in a queue while it is half-open, then in the wheel, and in a queue when it is over.
fn queue(record: &Record) -> Option<Queue> {
    let replied = record.flags().has(Flags::REPLIED);
    match IpProtocol(record.protocol) {
        IpProtocol::TCP => match tcp::State::from_number(record.state) {
            tcp::State::SynReceived => Some(Queue::SynReceived),
            state if state.is_handshake() => Some(Queue::SynSent),
            _ if !replied => Some(Queue::PickedUp),
            tcp::State::TimeWait => Some(Queue::TimeWait),
            tcp::State::Closed => Some(Queue::Closed),
            _ => None,
        },
        IpProtocol::SCTP => {
            let assured = record.flags().has(Flags::ASSURED);
            match sctp::State::from_number(record.state) {
                _ if !replied || !assured => Some(Queue::Sctp),
                sctp::State::Closed => Some(Queue::Closed),
                _ => None,
            }
        }
        _ if replied => None,
        IpProtocol::UDP | IpProtocol::UDP_LITE => Some(Queue::Udp),
        _ if record.flags().has(Flags::QUERY) => Some(Queue::Icmp),
        _ => Some(Queue::Other),
    }
}

/// What was seen of a burst's packets before they are judged, in steps that lie [`LAG`] packets apart: what one asks
/// the memory for is there when the next one needs it.
#[derive(Debug)]
struct Sight {
    seen: [Seen; BURST],
    /// Those that have no key, in their order.
    odd: SmallVec<[Subject; 4]>,
    /// Bits by packet: it has no key; it needs more than the record; it has a hint; it may be in its second bucket.
    odds: u64,
    others: u64,
    hinted: u64,
    elsewhere: u64,
}

/// What was seen of a packet. Two in a line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Seen {
    key: Key,
    places: Places,
    /// The record that may be the packet's connection's.
    likely: u32,
}

const _: () = assert!(size_of::<Seen>() == 32);

impl Seen {
    /// Nothing yet.
    const NONE: Seen = Seen { key: Key::NONE, places: Places::NONE, likely: NONE };
}

impl Default for Box<Sight> {
    fn default() -> Box<Sight> {
        Box::new(Sight {
            seen: [Seen::NONE; BURST],
            odd: SmallVec::new(),
            odds: 0,
            others: 0,
            hinted: 0,
            elsewhere: 0,
        })
    }
}

impl Sight {
    /// A burst begins. What was [seen](Seen) of each packet is written when it is read.
    fn begin(&mut self) {
        self.odd.clear();
        (self.odds, self.others, self.hinted, self.elsewhere) = (0, 0, 0, 0);
    }

    /// Reads packets, of which the first is the `first`-th, and asks for their buckets.
    #[inline(never)]
    fn read<'a, P: Carries<'a>>(
        &mut self,
        of: &mut Tracker,
        now: u32,
        zone: u16,
        first: usize,
        packets: &mut [P],
    ) {
        let (hasher, generation) = (of.hasher, of.generation);
        let check_checksums = of.config.check_checksums;
        let (mut others, mut hinted) = (0, 0);
        for (n, carrier) in (first..).zip(packets) {
            let packet = carrier.packet();
            let mut seen = Seen::NONE;
            let hash = match parse::usual(packet, check_checksums) {
                Some((key, other)) => {
                    seen.key = key;
                    others |= u64::from(other) << n;
                    Some(hasher.hash_key(&key, zone))
                }
                None => self.read_odd(of, now, zone, n, packet),
            };
            if packet.hint.generation == generation {
                hinted |= 1 << n;
                seen.likely = packet.hint.mark;
            } else if let Some(hash) = hash {
                seen.places = of.index.places(hash);
                of.index.prefetch(seen.places);
            }
            self.seen[n % BURST] = seen;
        }
        self.others |= others;
        self.hinted |= hinted;
    }

    /// One that has no key: the hash of its tuple, if it has that.
    #[cold]
    fn read_odd(
        &mut self,
        of: &mut Tracker,
        now: u32,
        zone: u16,
        n: usize,
        packet: &Packet<'_>,
    ) -> Option<u64> {
        let subject = of.subject(now, zone, packet);
        let hash = subject.tuple().map(|tuple| of.hasher.hash(tuple));
        self.odd.push(subject);
        self.odds |= 1 << n;
        self.others |= 1 << n;
        hash
    }

    /// Asks for the records that buckets say, or for second buckets.
    #[inline(never)]
    fn find(&mut self, of: &Tracker, packets: Range<usize>, rests: bool) {
        let all = if rests { u64::MAX } else { 0 };
        let (hinted, others) = (self.hinted, self.others | all);
        for n in packets {
            let Seen { places, likely, .. } = &mut self.seen[n % BURST];
            if hinted >> n & 1 == 0 {
                match of.index.likely(*places) {
                    Some(at) => *likely = at,
                    None => self.elsewhere |= 1 << n,
                }
            }
            if let Some(record) = of.records.get(*likely as usize) {
                prefetch(record);
            }
            if others >> n & 1 != 0 {
                of.prefetch_rest(*likely);
            }
        }
    }

    /// Asks for the records that second buckets say. A hint that names another connection is one no more.
    #[inline(always)]
    fn find_elsewhere(&mut self, of: &mut Tracker, packets: Range<usize>, zone: u16) {
        let all = self.elsewhere | self.hinted & !self.odds;
        let mut left = all >> packets.start & ((1 << packets.len()) - 1);
        while left != 0 {
            self.look_elsewhere(of, packets.start + left.trailing_zeros() as usize, zone);
            left &= left - 1;
        }
    }

    #[cold]
    fn look_elsewhere(&mut self, of: &mut Tracker, n: usize, zone: u16) {
        let Seen { key, places, likely } = &mut self.seen[n % BURST];
        if self.elsewhere >> n & 1 == 0 {
            let tuple = key.tuple(zone);
            let right = |record: &Record| record.way_of(key, zone).is_some();
            if of.records.get(*likely as usize).is_some_and(right)
                || of.named(*likely, &tuple).is_some()
            {
                return;
            }
            of.counters.hints_stale += 1;
            self.hinted &= !(1 << n);
            *places = of.index.places(of.hasher.hash_key(key, zone));
        }
        let found = of.index.likely(*places);
        if let Some(at) = found.or_else(|| of.index.less_likely(*places)) {
            *likely = at;
            of.records.get(at as usize).iter().for_each(|record| prefetch(*record));
            of.prefetch_rest(at);
        }
    }
}

/// How a connection takes a packet.
enum Advance {
    Valid { forget: bool },
    Reopen,
    Invalid,
}

fn ticks(now_ns: u64) -> u32 {
    u32::try_from(now_ns >> TICK_SHIFT).unwrap_or(u32::MAX)
}

/// The first tick that is not before so many seconds from now.
fn deadline_of(now_ns: u64, seconds: u32) -> u32 {
    let at = now_ns.saturating_add(u64::from(seconds) * 1_000_000_000);
    u32::try_from(at.div_ceil(1 << TICK_SHIFT)).unwrap_or(u32::MAX)
}

/// How far ahead a connection is filed by its end: no further than to where an open TCP connection's comes while data is
/// under way, so that it need not be filed anew for that.
fn far(timeouts: &tcp::Timeouts) -> u32 {
    let seconds = timeouts.unacknowledged.min(timeouts.repeating);
    // Looked at once in a minute at most, however short those are.
    ((u64::from(seconds.max(60)) * 1_000_000_000) >> TICK_SHIFT) as u32
}

/// Ticks in so many seconds, rounded up.
fn deadline_after(seconds: u32) -> u32 {
    deadline_of(0, seconds)
}
