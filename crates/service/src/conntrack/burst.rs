//! A burst through the tracker: what can be told of all packets first, the memory that they need, the usual ones at once.

use super::Tracker;
use super::account::octets;
use super::index::Places;
use super::parse;
use super::parse::{Subject, Transport};
use super::record::{Flags, NONE, Record};
use super::request::{INVALID, Nat, Outcome, Request};
use super::sight::{BURST, Seen, Sight};
use super::state::{CtState, Direction};
use super::time::{deadline_after, ticks};
use super::told::told;
use super::tuple::Key;
use super::usual::{Left, Parts, Setting, Taken};
use crate::packet::{Carries, Packet};
use crate::simd::prefetch;
use std::ops::Range;

/// Packets that are taken through one stage together. So many are between asking the memory for something of a packet and needing
/// it: some 200 ns of work.
const LAG: usize = 8;

const _: () = assert!(LAG < 64);
/// Records looked at for expiry per packet, so that expiry keeps up with any rate of new ones.
const STEPS_PER_PACKET: usize = 2;

/// What became of a packet that changed nothing but its connection's place and time: its state, and the connection, which
/// may have a mark or a label; none of one that is invalid.
pub(super) struct Usual {
    pub(super) state: CtState,
    pub(super) at: u32,
    pub(super) marked: bool,
}

/// Which way a packet of this state goes.
#[inline(always)]
fn way(state: CtState) -> Direction {
    if state.contains(CtState::REPLY) { Direction::Reply } else { Direction::Original }
}

impl Tracker {
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
            let now_ns = self.clock.at(now_ns);
            self.burst(now_ns, request, packets, &mut tell);
            self.expire_at(now_ns, packets.len() * STEPS_PER_PACKET);
        }
    }

    pub(super) fn burst<'a, P: Carries<'a>>(
        &mut self,
        now_ns: u64,
        request: &Request,
        packets: &mut [P],
        tell: &mut impl FnMut(&mut P, Outcome),
    ) {
        let now = ticks(now_ns);
        self.apart.now = request.apart;
        self.fence.begin();
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
                        if self.accounts.counts() {
                            self.accounts.add(at, way(state), octets(packet));
                        }
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
                    if plain
                        && let Some(outcome) =
                            self.translated((now_ns, now), request, key, *likely, packet)
                    {
                        self.counters.hints_used += u64::from(hint);
                        tell(carrier, outcome);
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
    pub(super) fn prefetch_rest(&self, at: u32) {
        if let Some(rest) = self.rests.get(at as usize) {
            prefetch(rest);
            prefetch(&rest.list);
        }
    }

    /// Takes a packet whose key the connection at this place has, if it is a [usual](Setting::take) one. None if not, and nothing
    /// has changed.
    #[inline(always)]
    pub(super) fn usual(
        &mut self,
        times: (u64, u32),
        zone: u16,
        key: &Key,
        at: u32,
        packet: &Packet<'_>,
    ) -> Option<Usual> {
        let record = self.records.get_mut(at as usize)?;
        let rest = self.rests.get_mut(at as usize)?;
        let direction = record.way_of(key, zone)?;
        let setting = Setting { config: &self.config, zones: &self.zones, lists: &self.lists };
        let parts = Parts::of(record, rest);
        let taken = setting.take(times, direction, key.protocol, parts, packet)?;
        Some(self.taken(times, at, direction, taken))
    }

    #[inline(always)]
    fn taken(&mut self, times: (u64, u32), at: u32, direction: Direction, taken: Taken) -> Usual {
        match taken {
            Taken::Told { flags, left } => {
                if !left.is_nothing() {
                    self.finish(times.0, at, left);
                }
                self.counted(at, flags, direction)
            }
            Taken::Invalid { shorten } => {
                self.doubt(times.0, times.1, at, shorten);
                self.counters.invalid += 1;
                Usual { state: INVALID.state, at: NONE, marked: false }
            }
        }
    }

    /// The same of a connection that is translated and was answered.
    #[inline(never)]
    fn translated(
        &mut self,
        times: (u64, u32),
        request: &Request,
        key: &Key,
        at: u32,
        packet: &mut Packet<'_>,
    ) -> Option<Outcome> {
        let record = self.records.get_mut(at as usize)?;
        let rest = self.rests.get_mut(at as usize)?;
        let direction = record.way_translated(rest, key, request.zone)?;
        let setting = Setting { config: &self.config, zones: &self.zones, lists: &self.lists };
        let parts = Parts::of(record, rest);
        let taken = setting.take(times, direction, key.protocol, parts, packet)?;
        let Usual { state, at, marked } = self.taken(times, at, direction, taken);
        if at == NONE {
            return Some(INVALID);
        }
        let original = Some(self.records[at as usize].original_v4());
        let mut outcome = match marked {
            true => self.marked(at, state),
            false => Outcome { state, original, ..Outcome::default() },
        };
        if request.nat != Nat::None {
            let (original, reply) = self.tuples(at);
            self.translate((&original, &reply), direction, packet, &mut outcome);
        }
        if self.accounts.counts() && outcome.drop.is_none() {
            self.accounts.add(at, direction, octets(packet));
        }
        Some(outcome)
    }

    /// What a usual packet has left to be done.
    #[cold]
    pub(super) fn finish(&mut self, now_ns: u64, at: u32, left: Left) {
        if let Some(timeout) = left.refresh {
            self.refresh(now_ns, at, timeout);
        }
        if left.assured && self.log.is_some() {
            self.tell(now_ns, at);
        }
    }

    /// What a packet of a connection is told, and it is counted.
    #[inline(always)]
    pub(super) fn counted(&mut self, at: u32, flags: Flags, direction: Direction) -> Usual {
        let state = told(flags, direction);
        let established = state.contains(CtState::ESTABLISHED);
        self.counters.established += u64::from(established);
        self.counters.new += u64::from(!established);
        Usual { state, at, marked: flags.has(Flags::MARKED) }
    }

    /// What a packet of a connection that may have a mark or a label is told.
    #[cold]
    pub(super) fn marked(&self, at: u32, state: CtState) -> Outcome {
        let mut outcome = Outcome { state, ..Outcome::default() };
        self.tell_rest(at, &mut outcome);
        outcome
    }

    /// A connection may be out of step with its ends: it is not to outlive what is not acknowledged.
    pub(super) fn doubt(&mut self, now_ns: u64, now: u32, at: u32, shorten: bool) {
        let left = self.records[at as usize].deadline - now;
        let at_most = self.timeouts(self.records[at as usize].zone).tcp.unacknowledged;
        if shorten && left > deadline_after(at_most.max(120)) {
            self.refresh(now_ns, at, at_most);
        }
    }

    /// Looks for a packet's connection, and judges it.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "what a packet's turn needs")]
    pub(super) fn search(
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
        if !self.accounts.counts() {
            return self.judge(now_ns, now, request, packet, &subject, found);
        }
        let octets = octets(packet);
        let outcome = self.judge(now_ns, now, request, packet, &subject, found);
        self.account(&subject, &outcome, octets);
        outcome
    }
}

impl Tracker {
    /// Counts a packet that was judged, if its connection is kept.
    #[cold]
    pub(super) fn account(&mut self, subject: &Subject, outcome: &Outcome, octets: u64) {
        let wrong = outcome.drop.is_some() || outcome.state.contains(CtState::INVALID);
        let Subject::Flow { tuple, .. } = subject else { return };
        if !wrong && let Some((at, direction)) = self.holder(tuple) {
            self.accounts.add(at, direction, octets);
        }
    }
}

impl Sight {
    /// Reads packets, of which the first is the `first`-th, and asks for their buckets.
    #[inline(never)]
    pub(super) fn read<'a, P: Carries<'a>>(
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
    pub(super) fn read_odd(
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
    pub(super) fn find(&mut self, of: &Tracker, packets: Range<usize>, rests: bool) {
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
    pub(super) fn find_elsewhere(&mut self, of: &mut Tracker, packets: Range<usize>, zone: u16) {
        let all = self.elsewhere | self.hinted & !self.odds;
        let mut left = all >> packets.start & ((1 << packets.len()) - 1);
        while left != 0 {
            self.look_elsewhere(of, packets.start + left.trailing_zeros() as usize, zone);
            left &= left - 1;
        }
    }

    #[cold]
    pub(super) fn look_elsewhere(&mut self, of: &mut Tracker, n: usize, zone: u16) {
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
