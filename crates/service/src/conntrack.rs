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
//! `usual` takes those and no others, with the rules that hold for all.
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

mod account;
pub mod alg;
mod burst;
mod cells;
mod config;
mod fence;
pub mod follow;
mod fragment;
mod gone;
mod helped;
pub mod image;
mod index;
mod judge;
mod lists;
mod look;
pub(crate) mod parse;
mod pending;
mod record;
mod request;
mod room;
pub mod sctp;
mod select;
mod sight;
mod state;
pub mod tcp;
#[cfg(test)]
mod tests;
mod time;
pub mod together;
mod told;
mod tuple;
mod usual;
mod zones;

use crate::nat;
use crate::packet::{Hint, Packet};
use crate::random::Random;
pub use account::Account;
use account::Accounts;
pub use alg::Alg;
use cells::Cells;
pub use config::{Config, Timeouts};
use fence::Fence;
pub use fence::MayOpen;
pub use follow::{Applied, Changes};
use follow::{Clock, Log};
pub use fragment::Ticket;
use fragment::{Fragments, Limits, Name};
use gone::Gone;
use index::{Index, Places};
use lists::{Lists, Step};
use parse::Subject;
use pending::Pending;
use record::{Extensions, Flags, NONE, Record, Rest};
pub use request::{Connection, Counters, Memory, Nat, Outcome, Request};
pub use select::{Ends, Selection};
use sight::Sight;
pub use state::{Apart, CtState, Direction, Drop};
use time::{TICK_SHIFT, far, ticks};
use tuple::Hasher;
pub use tuple::{Role, Tuple};
use wire::IpProtocol;
pub use zones::{ZoneLimits, ZoneTimeouts};

/// Connections of one worker.
#[derive(Debug)]
pub struct Tracker {
    config: Config,
    pub(crate) hasher: Hasher,
    index: Index,
    records: Cells<Record>,
    rests: Cells<Rest>,
    accounts: Accounts,
    extensions: Extensions,
    free: u32,
    live: usize,
    translated: usize,
    lists: Lists,
    zones: zones::Zones,
    fragments: Fragments,
    pub(crate) pools: Vec<nat::Pool>,
    /// Which outside ports inside sockets have.
    pub(crate) mappings: nat::Mappings,
    pub(crate) random: Random,
    /// Whose outside ports new connections get.
    pub(crate) stripes: nat::Stripes,
    pub(crate) counters: Counters,
    /// What hints about this tracker's connections have; not 0.
    generation: u32,
    /// Connections that are gone since a watching writer last told which, while there is one.
    gone: Option<Gone>,
    /// Where changes are told, while somebody follows.
    log: Option<Box<Log>>,
    clock: Clock,
    fence: Fence,
    /// Memory for what is seen of a burst, between bursts.
    sight: Option<Box<Sight>>,
    apart: Pending,
    helpers: alg::Helpers,
    /// The last packet, if it has another length now.
    rewritten: Option<Vec<u8>>,
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
            records: Cells::with_capacity(connections_max),
            rests: Cells::with_capacity(connections_max),
            accounts: Accounts::new(if config.accounting { connections_max } else { 0 }),
            extensions: Extensions::new(),
            free: NONE,
            live: 0,
            translated: 0,
            zones: zones::Zones::default(),
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
            stripes: nat::Stripes::ALL,
            counters: Counters::default(),
            generation: Random(config.seed ^ 0x6869_6e74).next() as u32 | 1,
            gone: None,
            log: None,
            clock: Clock::default(),
            fence: Fence::default(),
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

    /// From now on connections are opened only where this says so; or always.
    pub fn set_fence(&mut self, may_open: Option<MayOpen>) {
        self.fence = Fence::new(may_open);
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
            other: self.extensions.bytes()
                + self.fragments.bytes()
                + self.mappings.bytes()
                + self.accounts.bytes(),
        }
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
        self.expire_at(self.clock.at(now_ns), steps_max)
    }

    /// The same, at this time of the tracker's own clock.
    fn expire_at(&mut self, now_ns: u64, steps_max: usize) -> bool {
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
        let now = ticks(self.clock.at(now_ns));
        (record.deadline > now).then(|| (self.show(at, now), direction))
    }

    /// All connections whose time is not over, in no order.
    pub fn connections(&self, now_ns: u64) -> impl Iterator<Item = Connection> {
        let now = ticks(self.clock.at(now_ns));
        (0..self.records.len() as u32)
            .filter(move |at| {
                let record = &self.records[*at as usize];
                record.flags().has(Flags::LIVE) && record.deadline > now
            })
            .map(move |at| self.show(at, now))
    }

    /// Connections whose time is not over, of so many places from this one on: for who guards the tracker by a lock and lets
    /// go of it between slices. The place to go on from; none if these were the last.
    pub fn page(
        &self,
        now_ns: u64,
        from: usize,
        places: usize,
        see: &mut dyn FnMut(Connection),
    ) -> Option<usize> {
        let now = ticks(self.clock.at(now_ns));
        let end = self.records.len().min(from.saturating_add(places.max(1)));
        for at in from.min(end)..end {
            let record = &self.records[at];
            if record.flags().has(Flags::LIVE) && record.deadline > now {
                see(self.show(at as u32, now));
            }
        }
        (end < self.records.len()).then_some(end)
    }

    /// Limits of zones.
    pub fn zone_limits(&self) -> &ZoneLimits {
        self.zones.limits()
    }

    /// Sets them. Connections that are there stay. Not bounded: for the control side.
    pub fn set_zone_limits(&mut self, limits: ZoneLimits) {
        let live = self.records.iter().filter(|record| record.flags().has(Flags::LIVE));
        self.zones.set(limits, live.map(|record| record.zone));
    }

    /// Zones have these timeouts of their own; of connections that are there, from their next packet on.
    pub fn set_zone_timeouts(&mut self, all: ZoneTimeouts) {
        self.zones.set_timeouts(all);
    }

    /// A zone's timeouts.
    #[inline]
    fn timeouts(&self, zone: u16) -> &Timeouts {
        self.zones.timeouts(zone, &self.config.timeouts)
    }

    /// Removes all connections of a zone, or of all; says how many. Not bounded: for the control side.
    pub fn flush(&mut self, zone: Option<u16>) -> usize {
        self.flush_selected(&Selection::zone(zone))
    }

    /// Removes those that are chosen, likewise.
    pub fn flush_selected(&mut self, chosen: &Selection) -> usize {
        let before = self.live;
        for at in 0..self.records.len() as u32 {
            let record = &self.records[at as usize];
            let goes = record.flags().has(Flags::LIVE)
                && chosen.zone.is_none_or(|zone| record.zone == zone)
                // What is shown of a deadline that is over says no less of the rest.
                && (chosen.is_zone_only() || chosen.takes(&self.show(at, 0)));
            if goes {
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
        let (at, direction, error) = self.known_again(now_ns, request, packet)?;
        if request.commit && self.exec(at, request) && self.log.is_some() {
            self.tell(self.clock.at(now_ns), at);
        }
        Some(self.outcome_again(at, direction, error))
    }

    /// The connection of a packet that was translated, which way it goes, and whether it is an error.
    fn known_again(
        &self,
        now_ns: u64,
        request: &Request,
        packet: &Packet<'_>,
    ) -> Option<(u32, Direction, bool)> {
        let (tuple, error) = match parse::subject(packet, request.zone, false) {
            Subject::Fragment { tuple, ident, first: false } => {
                (self.fragments.renamed(&self.name_of(&tuple, ident))?, false)
            }
            Subject::Flow { tuple, .. } | Subject::Fragment { tuple, .. } => (tuple, false),
            Subject::Error { tuple } => (tuple, true),
            _ => return None,
        };
        // It left as the inverse of what the other side's answers come in as.
        let (at, back) = self.holder(&tuple.inverted())?;
        if self.records[at as usize].deadline <= ticks(self.clock.at(now_ns)) {
            return None;
        }
        let direction = match back {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        };
        Some((at, direction, error))
    }

    fn outcome_again(&self, at: u32, direction: Direction, error: bool) -> Outcome {
        let (original, reply) = self.tuples(at);
        let mut outcome = self.outcome(at, direction);
        let (from, to) = nat::ways(&original, &reply, direction);
        outcome.state |= nat::changed(&from, &to);
        if error {
            let kept = CtState::REPLY | CtState::SOURCE_NAT | CtState::DESTINATION_NAT;
            outcome.state = CtState(outcome.state.0 & kept.0) | CtState::RELATED | CtState::TRACKED;
        }
        outcome
    }

    fn show(&self, at: u32, now: u32) -> Connection {
        let record = &self.records[at as usize];
        let state = record.state();
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
            account: self.accounts.get(at),
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
}
