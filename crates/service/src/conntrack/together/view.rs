//! Usual packets of a burst, while other workers take theirs.
//!
//! `unsafe` here: a connection's memory, under its lock.

#![allow(unsafe_code)]

use super::gate::Entered;
use crate::conntrack::account::{Accounts, octets};
use crate::conntrack::index::Places;
use crate::conntrack::parse::{self, Subject, Transport};
use crate::conntrack::record::{Flags, NONE, Record, Rest, SLOW, StateCell};
use crate::conntrack::request::INVALID;
use crate::conntrack::time::ticks;
use crate::conntrack::told::told;
use crate::conntrack::tuple::Key;
use crate::conntrack::usual::{Left, Parts, Setting, Taken};
use crate::conntrack::{CtState, Direction, Drop, Nat, Outcome, Request, Tracker, Tuple};
use crate::nat::{changed, rewrite, ways};
use crate::packet::{Carries, Fragment, Network, Packet};
use smallvec::SmallVec;
use wire::IpProtocol;

/// Packets that are taken through the stages together.
const BURST: usize = 64;
/// Packets that are taken through one stage together.
const LAG: usize = 8;

/// What a worker sees of a tracker that others see, too, while it takes a burst.
#[derive(Debug)]
pub struct View<'a> {
    tracker: &'a Tracker,
    entered: &'a Entered<'a>,
    behind: Behind,
}

/// What a packet has left to be done by who has the tracker alone.
#[derive(Clone, Copy, Debug)]
pub struct After {
    at: u32,
    tuple: Tuple,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Finish(Left),
    Doubt { shorten: bool },
}

/// A connection under its lock, its place, and which way a packet of it goes.
type Found<'a> = (Held<'a>, u32, Direction);

/// What was seen of a packet.
#[derive(Clone, Copy)]
struct Seen {
    key: Key,
    places: Places,
    /// The record that may be its connection's.
    likely: u32,
}

/// What is counted, by the order of [`Together::counted`](super::Together::counted).
#[derive(Default)]
struct Counts {
    new: u64,
    established: u64,
    invalid: u64,
    hints_used: u64,
    nat_impossible: u64,
}

/// Connections of which a packet of the burst was left, roughly; or any may be one.
#[derive(Debug, Default)]
struct Behind {
    bits: [u64; 4],
    all: bool,
}

impl Behind {
    fn bit(at: u32) -> (usize, u64) {
        ((at >> 6 & 3) as usize, 1 << (at & 63))
    }

    #[inline(always)]
    fn has(&self, at: u32) -> bool {
        let (word, bit) = Behind::bit(at);
        self.bits[word] & bit != 0
    }

    fn note(&mut self, at: u32) {
        let (word, bit) = Behind::bit(at);
        self.bits[word] |= bit;
    }
}

/// A connection, under its lock.
struct Held<'a> {
    record: *mut Record,
    rest: *mut Rest,
    lock: &'a StateCell,
    state: u8,
}

impl std::ops::Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.release(self.state);
    }
}

impl Held<'_> {
    #[inline(always)]
    fn record(&self) -> &Record {
        // SAFETY: it is of the tracker's memory. Who else is inside touches nothing of it without the lock, but for the lock's own
        // octet, which is atomic.
        unsafe { &*self.record }
    }

    #[inline(always)]
    fn rest(&self) -> &Rest {
        // SAFETY: likewise; it has no octet that others touch.
        unsafe { &*self.rest }
    }

    /// What a packet may change of it. The lock's octet is not in it, since others look at that.
    #[inline(always)]
    fn parts(&mut self) -> Parts<'_> {
        let zone = self.record().zone;
        // SAFETY: as above; the three lie apart, and the references are this value's own while it is borrowed.
        let (deadline, progress, notes) = unsafe {
            (&mut (*self.record).deadline, &mut (*self.record).progress, &mut (*self.rest).notes)
        };
        Parts { state: self.state, zone, deadline, progress, notes }
    }
}

impl<'a> View<'a> {
    pub(super) fn new(tracker: &'a Tracker, entered: &'a Entered<'a>) -> View<'a> {
        View { tracker, entered, behind: Behind::default() }
    }

    /// The connection at this place, under its lock.
    #[inline(always)]
    fn hold(&self, at: u32) -> Option<Held<'a>> {
        let (record, rest) = (self.tracker.records.at(at)?, self.tracker.rests.at(at)?);
        // SAFETY: it is of the tracker's memory, and atomic: nobody refers to this octet in another way while others are inside.
        let lock: &'a StateCell = unsafe { &(*record).state };
        Some(Held { record, rest, lock, state: lock.hold() })
    }

    /// Packets of whichever connections are left: so are all that come behind them in this burst.
    pub fn leave(&mut self) {
        self.behind.all = true;
    }

    /// Takes the usual ones of a burst's packets, or of those that come to one request: what became of them is told in their order. Of the others it is told that they are
    /// left ([`None`]), for [`Tracker::process_each`] behind these. What is added to `after` is for [`Tracker::finish_after`].
    pub fn process_each<'p, P: Carries<'p>>(
        &mut self,
        now_ns: u64,
        request: &Request,
        packets: &mut [P],
        after: &mut SmallVec<[After; 4]>,
        mut tell: impl FnMut(&mut P, Option<Outcome>),
    ) {
        let now_ns = self.tracker.clock.at(now_ns);
        for packets in packets.chunks_mut(BURST) {
            self.burst((now_ns, ticks(now_ns)), request, packets, after, &mut tell);
        }
    }

    fn burst<'p, P: Carries<'p>>(
        &mut self,
        times: (u64, u32),
        request: &Request,
        packets: &mut [P],
        after: &mut SmallVec<[After; 4]>,
        tell: &mut impl FnMut(&mut P, Option<Outcome>),
    ) {
        // As in `Tracker::burst`.
        let plain = (request.mark.is_none() && request.label.is_none() && !request.force)
            || !request.commit;
        self.behind.all |= !plain;
        if self.behind.all {
            packets.iter_mut().for_each(|packet| tell(packet, None));
            return;
        }
        let mut seen = [Seen { key: Key::NONE, places: Places::NONE, likely: NONE }; BURST];
        let (mut odd, mut hinted) = (0_u64, 0_u64);
        let mut counts = Counts::default();
        let len = packets.len();
        let blocks = len.div_ceil(LAG);
        let part = |block: usize| block * LAG..((block + 1) * LAG).min(len);
        for block in 0..blocks + 2 {
            if block < blocks {
                for n in part(block) {
                    self.read(
                        request.zone,
                        n,
                        packets[n].packet(),
                        &mut seen[n],
                        (&mut odd, &mut hinted),
                    );
                }
            }
            if let Some(block) = block.checked_sub(1).filter(|block| *block < blocks) {
                for n in part(block) {
                    self.find(&mut seen[n], (hinted | odd) >> n & 1 != 0, request.nat != Nat::None);
                }
            }
            let Some(block) = block.checked_sub(2) else { continue };
            for n in part(block) {
                let carrier = &mut packets[n];
                let (packet, hint) = (carrier.packet(), hinted >> n & 1 != 0);
                let known = match odd >> n & 1 == 0 {
                    true => self.holder(&seen[n], request.zone),
                    false => self.odd_holder(request.zone, packet),
                };
                // One of no connection is left: it may open one.
                let told = known.and_then(|(held, at, way)| {
                    let told = match self.behind.has(at) {
                        true => None,
                        false => {
                            self.take(times, request, (held, at, way), packet, after, &mut counts)
                        }
                    };
                    match told {
                        Some(_) => counts.hints_used += u64::from(hint),
                        None => self.behind.note(at),
                    }
                    told
                });
                tell(carrier, told);
            }
        }
        let Counts { new, established, invalid, hints_used, nat_impossible } = counts;
        self.entered.count([new, established, invalid, hints_used, nat_impossible]);
    }

    /// Reads a packet, and asks for its bucket.
    #[inline(always)]
    fn read(
        &self,
        zone: u16,
        n: usize,
        packet: &Packet<'_>,
        seen: &mut Seen,
        (odd, hinted): (&mut u64, &mut u64),
    ) {
        let tracker = self.tracker;
        let Some((key, _)) = parse::usual(packet, tracker.config.check_checksums) else {
            *odd |= 1 << n;
            return;
        };
        seen.key = key;
        if packet.hint.generation == tracker.generation {
            *hinted |= 1 << n;
            seen.likely = packet.hint.mark;
            return;
        }
        seen.places = tracker.index.places(tracker.hasher.hash_key(&key, zone));
        tracker.index.prefetch(seen.places);
    }

    /// Asks for the record that a bucket says.
    #[inline(always)]
    fn find(&self, seen: &mut Seen, known: bool, translates: bool) {
        if !known && let Some(at) = self.tracker.index.likely(seen.places) {
            seen.likely = at;
        }
        self.tracker.records.prefetch(seen.likely);
        if translates {
            self.tracker.rests.prefetch(seen.likely);
        }
    }

    /// The connection of a packet that has a key, under its lock, and which way the packet goes.
    #[inline(always)]
    fn holder(&self, seen: &Seen, zone: u16) -> Option<Found<'a>> {
        if let Some(held) = self.hold(seen.likely) {
            let record = held.record();
            let way = record
                .way_of(&seen.key, zone)
                .or_else(|| record.way_translated(held.rest(), &seen.key, zone));
            if let Some(way) = way {
                return Some((held, seen.likely, way));
            }
        }
        self.search(&seen.key.tuple(zone))
    }

    /// The same, wherever it is.
    #[cold]
    fn search(&self, tuple: &Tuple) -> Option<Found<'a>> {
        let places = self.tracker.index.places(self.tracker.hasher.hash(tuple));
        self.tracker.index.candidates(places).find_map(|at| {
            let held = self.hold(at)?;
            let (record, rest) = (held.record(), held.rest());
            if !record.flags().has(Flags::LIVE) {
                return None;
            }
            let way = record.way(rest, tuple, self.tracker.extensions.get(rest.extension))?;
            Some((held, at, way))
        })
    }

    /// The same of a packet without a key: of IPv6.
    #[cold]
    fn odd_holder(&self, zone: u16, packet: &Packet<'_>) -> Option<Found<'a>> {
        let at = &packet.at;
        let open = matches!(at.protocol, IpProtocol::TCP | IpProtocol::UDP);
        if at.network != Network::V6 || at.fragment != Fragment::Whole || !open {
            return None;
        }
        match parse::subject(packet, zone, self.tracker.config.check_checksums) {
            Subject::Flow { tuple, transport: Transport::Whole } => self.search(&tuple),
            _ => None,
        }
    }

    /// Takes a packet of this connection, if it is a usual one.
    #[inline(always)]
    fn take(
        &self,
        times: (u64, u32),
        request: &Request,
        (mut held, at, way): Found<'_>,
        packet: &mut Packet<'_>,
        after: &mut SmallVec<[After; 4]>,
        counts: &mut Counts,
    ) -> Option<Outcome> {
        let tracker = self.tracker;
        let (config, zones, lists) = (&tracker.config, &tracker.zones, &tracker.lists);
        let protocol = IpProtocol(held.record().protocol);
        let flags = held.record().flags();
        let unanswered = flags.has(Flags::TWO_KEYS) && !flags.has(Flags::REPLIED);
        if flags.has(SLOW) || unanswered || !matches!(protocol, IpProtocol::TCP | IpProtocol::UDP) {
            return None;
        }
        let setting = Setting { config, zones, lists };
        let (flags, left) = match setting.take(times, way, protocol, held.parts(), packet)? {
            Taken::Told { flags, left } => (flags, left),
            Taken::Invalid { shorten } => {
                counts.invalid += 1;
                let tuple = held.record().original(held.rest());
                after.push(After { at, tuple, what: What::Doubt { shorten } });
                return Some(INVALID);
            }
        };
        if !left.is_nothing() {
            let tuple = held.record().original(held.rest());
            after.push(After { at, tuple, what: What::Finish(left) });
        }
        let state = told(flags, way);
        let established = state.contains(CtState::ESTABLISHED);
        counts.established += u64::from(established);
        counts.new += u64::from(!established);
        let record = held.record();
        let mut outcome =
            Outcome { state, original: Some(record.original_v4()), ..Outcome::default() };
        if flags.has(Flags::MARKED | Flags::V6) {
            self.tell_rest(&held, &mut outcome);
        }
        if flags.has(Flags::TWO_KEYS) && request.nat != Nat::None {
            translate(&held, tracker, way, packet, &mut outcome);
            counts.nat_impossible += u64::from(outcome.drop.is_some());
        }
        if tracker.accounts.counts()
            && outcome.drop.is_none()
            && let Some(account) = tracker.accounts.0.at(at)
        {
            // SAFETY: it is the connection's own, under its lock.
            Accounts::add_to(unsafe { &mut *account }, way, octets(packet));
        }
        Some(outcome)
    }

    /// What an outcome says that is not in the record.
    #[cold]
    fn tell_rest(&self, held: &Held<'_>, outcome: &mut Outcome) {
        let (record, rest) = (held.record(), held.rest());
        outcome.mark = rest.mark;
        outcome.label = match record.flags().has(Flags::V6) {
            true => self.tracker.extensions.get(rest.extension).map_or(0, |more| more.label),
            false => rest.label_v4(),
        };
        outcome.original = Some(record.original(rest));
    }
}

/// Translates a packet of a connection that is translated.
#[inline(never)]
fn translate(
    held: &Held<'_>,
    tracker: &Tracker,
    way: Direction,
    packet: &mut Packet<'_>,
    outcome: &mut Outcome,
) {
    let (record, rest) = (held.record(), held.rest());
    let reply = record.reply(rest, tracker.extensions.get(rest.extension));
    let (from, to) = ways(&record.original(rest), &reply, way);
    match rewrite(packet, &from, &to) {
        Ok(()) => outcome.state |= changed(&from, &to),
        Err(drop) => outcome.drop = Some::<Drop>(drop),
    }
}

impl Tracker {
    /// Does what usual packets have left to be done, if their connections are still there.
    pub fn finish_after(&mut self, now_ns: u64, after: &[After]) {
        let now_ns = self.clock.at(now_ns);
        for After { at, tuple, what } in after {
            let record = &self.records[*at as usize];
            if !record.flags().has(Flags::LIVE) || self.original_of(*at) != *tuple {
                continue;
            }
            match *what {
                What::Finish(left) => self.finish(now_ns, *at, left),
                What::Doubt { shorten } => {
                    let now = ticks(now_ns);
                    if record.deadline > now {
                        self.doubt(now_ns, now, *at, shorten);
                    }
                }
            }
        }
    }
}
