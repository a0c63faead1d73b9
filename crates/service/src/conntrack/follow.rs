//! Changes of connections, told as they happen: for who keeps a copy elsewhere, to go on when this process cannot.
//!
//! A tracker that is [followed](Tracker::follow) writes down what becomes of its connections, under the lock that its packets hold
//! already. Who follows [takes](Tracker::take_changes) what was written, some times a second, and gives an empty buffer in its
//! place, so that packets never wait for it. The buffer is bounded. When it is full, nothing more is written and the
//! follower is told: it has [all of them](Tracker::tell_all) told then, as it has at the start.
//!
//! # What is told
//!
//! - A connection of TCP or SCTP once its handshake is over, and each later state of it; of another protocol, from its first
//!   answer on. Never one that is half-open: its opener tries again.
//! - Mark and label, when they change.
//! - That it is gone, whatever the cause.
//!
//! A follower may care for connections of some age alone: most do not live to be told then, and cost nothing but a place in a queue.
//!
//! Never windows: they are older than the ends' by the time that they are read, and who judges by them stalls connections. What was
//! told has windows that are not checked, as `conntrackd` has it in Linux. They stay so: an end may hold segments beyond a hole that the
//! copy has never heard of, and acknowledge all of them at once when the hole is filled.
//!
//! # Records
//!
//! One behind another: 1, then the connection as [images](super::image) have it, with bit 256 and without accounts and pools; or
//! 2, then a connection that is gone, likewise. A record is a whole state, so the same again does no harm.
//!
//! # The copy
//!
//! A tracker that is a copy stands [still](Tracker::stand_still): its clock does too, and no connection ages. When it
//! [goes on](Tracker::go_on), each has the time that it had when it was told last; that costs the same for any number of them.
//! A resynchronisation is [begun](Tracker::begin_sync), gets all connections and whatever is told meanwhile, and is
//! [ended](Tracker::end_sync): what was not told of in between is gone.
//!
//! Cost: 40 to 60 ns a record, 31 to 60 octets in IPv4. Packets that change nothing are not looked at.
//! Checked by: the tests below, `fuzz::follow`.

use super::image::entry::{Entry, Restored, bit, has_stream, read_gone, take, until, write_gone};
use super::lists::Queue;
use super::record::{Flags, Record, Rest};
use super::time::ticks;
use super::told::queue;
use super::tuple::Tuple;
use super::{Tracker, tcp};
use std::collections::VecDeque;
use wire::IpProtocol;

/// Octets of a record, at most: an IPv6 connection of SCTP that is translated and labelled.
pub const RECORD_MAX: usize = 256;
/// Octets of a record of IPv4 that is not SCTP's, at most.
const SHORT: usize = 72;

/// Connections that wait to be old enough, at most.
const YOUNG_MAX: usize = 1 << 21;
/// Those that are told in one lock's time, at most.
const GROWN: usize = 4096;

mod kind {
    pub(super) const CONNECTION: u8 = 1;
    pub(super) const GONE: u8 = 2;
}

/// What is told.
#[derive(Debug)]
pub(super) struct Log {
    octets: Vec<u8>,
    max: usize,
    /// There was no room, and what came since was not told.
    full: bool,
    told: u64,
    /// Connections that are younger are not told yet, and never if they do not last.
    min_age_ns: u64,
    /// Those, by their places, and when they are old enough.
    young: VecDeque<(u64, u32)>,
}

/// What has changed since it was asked last.
#[derive(Debug, Default)]
pub struct Changes {
    /// Records, one behind another.
    pub records: Vec<u8>,
    /// More has changed than there was room for: all is to be told anew.
    pub full: bool,
    /// How many records.
    pub told: u64,
}

/// What became of records that were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Of connections.
    pub connections: u64,
    /// Of connections that are gone.
    pub gone: u64,
    /// Connections for which there was no room.
    pub no_room: u64,
    /// Connections left as they are: packets have touched them here.
    pub known: u64,
}

/// The tracker's time, by the switch's.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// How far it is behind.
    behind: u64,
    /// The time at which it stands.
    still: Option<u64>,
}

impl Clock {
    #[inline(always)]
    pub(super) fn at(&self, now_ns: u64) -> u64 {
        match self.still {
            None => now_ns.saturating_sub(self.behind),
            Some(still) => still,
        }
    }
}

/// Of a connection, what is told when it changes: state, flags. Mark and label are looked at where an action sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Worth {
    state: u8,
    flags: Flags,
}

impl Tracker {
    /// From now on changes are written down, in so many octets at most, for [`take_changes`](Self::take_changes).
    pub fn follow(&mut self, octets_max: usize) {
        let max = octets_max.max(RECORD_MAX);
        let octets = Vec::with_capacity(max);
        let young = VecDeque::new();
        let (full, told, min_age_ns) = (false, 0, 0);
        self.log = Some(Box::new(Log { octets, max, full, told, min_age_ns, young }));
    }

    /// Who follows cares for connections alone that are older than this, counted from when they were worth telling.
    pub fn follow_older_than(&mut self, min_age_ns: u64) {
        if let Some(log) = &mut self.log {
            log.min_age_ns = min_age_ns;
        }
    }

    /// Nobody follows any more.
    pub fn unfollow(&mut self) {
        self.log = None;
    }

    /// Whether somebody follows.
    pub fn is_followed(&self) -> bool {
        self.log.is_some()
    }

    /// What has changed since it was asked last. `spare` is a buffer that takes what comes next; one of another size makes
    /// packets wait for the system.
    pub fn take_changes(&mut self, now_ns: u64, mut spare: Vec<u8>) -> Changes {
        self.tell_grown(self.clock.at(now_ns));
        let Some(log) = &mut self.log else { return Changes::default() };
        spare.clear();
        if log.octets.is_empty() && !log.full {
            return Changes { records: spare, ..Changes::default() };
        }
        let records = std::mem::replace(&mut log.octets, spare);
        Changes {
            records,
            full: std::mem::take(&mut log.full),
            told: std::mem::take(&mut log.told),
        }
    }

    /// Tells connections that are old enough by now.
    fn tell_grown(&mut self, now_ns: u64) {
        for _ in 0..GROWN {
            let Some(log) = &mut self.log else { return };
            let Some((_, at)) = log.young.pop_front_if(|(due, _)| *due <= now_ns) else { return };
            let flags = self.records[at as usize].flags();
            // Where another one is by now, it is told a bit early.
            if flags.has(Flags::LIVE) && !flags.has(Flags::TOLD) && self.is_settled(at) {
                self.tell_now(now_ns, at);
            }
        }
    }

    /// Whether a connection is worth telling: it is not half-open.
    pub(super) fn is_settled(&self, at: u32) -> bool {
        !queue(&self.records[at as usize]).is_some_and(Queue::is_half_open)
    }

    #[inline(always)]
    pub(super) fn worth_telling(&self, at: u32) -> Worth {
        let record = &self.records[at as usize];
        let flags = record.flags().only(Flags::REPLIED | Flags::ASSURED);
        Worth { state: record.state(), flags }
    }

    /// A packet has come, before which it was so; `marks` tells whether mark or label are others now.
    #[inline(always)]
    pub(super) fn tell_if_changed(&mut self, now_ns: u64, at: u32, before: Worth, marks: bool) {
        if marks || self.worth_telling(at) != before {
            self.tell(now_ns, at);
        }
    }

    /// Writes a connection down if it is worth telling.
    pub(super) fn tell(&mut self, now_ns: u64, at: u32) {
        let flags = self.records[at as usize].flags();
        if !self.is_settled(at) {
            // One that was told and is half open again, as it has closed and opens anew, is gone until it is answered.
            if flags.has(Flags::TOLD) {
                self.records[at as usize].flags_mut().clear(Flags::TOLD);
                let (original, _) = self.tuples(at);
                self.tell_gone(&original);
            }
            return;
        }
        if let Some(log) = &mut self.log
            && !flags.has(Flags::TOLD)
            && log.min_age_ns > 0
        {
            return log.wait(now_ns, at);
        }
        self.tell_now(now_ns, at);
    }

    fn tell_now(&mut self, now_ns: u64, at: u32) {
        let short = self.short(now_ns, at);
        let long = match short {
            Some(_) => None,
            None => Some(Entry { loose: true, ..self.entry(at, now_ns) }),
        };
        self.records[at as usize].flags_mut().set(Flags::TOLD);
        let Some(log) = &mut self.log else { return };
        if log.has_room() {
            match (short, long) {
                (Some((octets, len)), _) => log.octets.extend_from_slice(&octets[..len]),
                (None, Some(entry)) => {
                    log.octets.push(kind::CONNECTION);
                    entry.write(&mut log.octets);
                }
                (None, None) => {}
            }
        }
    }

    /// The record of a connection as most are: of IPv4, and not SCTP's. The same octets as [`Entry::write`] makes, in one go.
    fn short(&self, now_ns: u64, at: u32) -> Option<([u8; SHORT], usize)> {
        let (record, rest) = (&self.records[at as usize], &self.rests[at as usize]);
        let flags = record.flags();
        let protocol = IpProtocol(record.protocol);
        if flags.has(Flags::V6) || protocol == IpProtocol::SCTP {
            return None;
        }
        let (tcp, stream) = (protocol == IpProtocol::TCP, has_stream(protocol));
        let label = if flags.has(Flags::MARKED) { rest.label_v4() } else { 0 };
        let mark = if flags.has(Flags::MARKED) { rest.mark } else { 0 };
        let said = [
            (flags.has(Flags::QUERY), bit::QUERY),
            (flags.has(Flags::REPLIED), bit::REPLIED),
            (flags.has(Flags::ASSURED), bit::ASSURED),
            (flags.has(Flags::TWO_KEYS), bit::TRANSLATED),
            (label != 0, bit::LABELLED),
            (tcp, bit::LOOSE),
        ];
        let bits = said.iter().fold(0, |bits, (set, bit)| bits | (bit * u16::from(*set)));
        let (mut octets, mut len) = ([0; SHORT], 0);
        let mut put = |some: &[u8]| {
            octets[len..len + some.len()].copy_from_slice(some);
            len += some.len();
        };
        put(&[kind::CONNECTION]);
        put(&bits.to_le_bytes());
        put(&[record.protocol, record.state()]);
        put(&record.zone.to_le_bytes());
        put(&mark.to_le_bytes());
        put(&until(record.deadline, now_ns).to_le_bytes());
        record.ends_v4(rest, false).iter().for_each(|end| put(&end.to_le_bytes()));
        record.ports_of(rest, false).iter().for_each(|port| put(&port.to_le_bytes()));
        if flags.has(Flags::TWO_KEYS) {
            record.ends_v4(rest, true).iter().for_each(|end| put(&end.to_le_bytes()));
            record.ports_of(rest, true).iter().for_each(|port| put(&port.to_le_bytes()));
        }
        if label != 0 {
            put(&label.to_le_bytes());
        }
        if tcp {
            put(&record.progress.said.map(|said| said & tcp::OFFERS));
            put(&record.progress.scales);
        } else if stream {
            put(&until(record.stream_from().saturating_add(1), now_ns).to_le_bytes());
        }
        Some((octets, len))
    }

    /// Appends records of all connections that are worth telling, of so many places from this one on, in a lock's time. The place to go on
    /// from; none if these were the last.
    pub fn tell_all(
        &mut self,
        now_ns: u64,
        from: usize,
        places: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let now_ns = self.clock.at(now_ns);
        let end = self.records.len().min(from.saturating_add(places.max(1)));
        for at in from.min(end)..end {
            let record = &self.records[at];
            if !record.flags().has(Flags::LIVE) || record.deadline <= ticks(now_ns) {
                continue;
            }
            let at = at as u32;
            if self.is_settled(at) {
                self.records[at as usize].flags_mut().set(Flags::TOLD);
                if let Some((octets, len)) = self.short(now_ns, at) {
                    out.extend_from_slice(&octets[..len]);
                } else {
                    out.push(kind::CONNECTION);
                    Entry { loose: true, ..self.entry(at, now_ns) }.write(out);
                }
            }
        }
        (end < self.records.len()).then_some(end)
    }

    /// Writes down that a connection is gone which was told of.
    #[cold]
    pub(super) fn tell_gone(&mut self, original: &Tuple) {
        let Some(log) = &mut self.log else { return };
        if log.has_room() {
            log.octets.push(kind::GONE);
            write_gone(original, &mut log.octets);
        }
    }

    /// It is a copy from now on: nothing ages, until it [goes on](Self::go_on). It must not be asked about packets.
    pub fn stand_still(&mut self, now_ns: u64) {
        let at = self.clock.at(now_ns);
        self.clock.still = Some(at);
        // What packets have made of connections is older than what will be told.
        self.each_live(|flags| flags.set(Flags::UNTOUCHED));
    }

    /// It is no copy any more: time goes on where it stood.
    pub fn go_on(&mut self, now_ns: u64) {
        if let Some(still) = self.clock.still.take() {
            self.clock.behind = now_ns.saturating_sub(still);
        }
    }

    /// What is told from here on is all that there is.
    pub fn begin_sync(&mut self) {
        self.each_live(|flags| flags.clear(Flags::TOLD));
    }

    /// Connections that were not told of since [`begin_sync`](Self::begin_sync) are gone: looks at so many places from this one on. The
    /// place to go on from, none if these were the last.
    pub fn end_sync(&mut self, from: usize, places: usize) -> Option<usize> {
        let end = self.records.len().min(from.saturating_add(places.max(1)));
        for at in from.min(end)..end {
            let flags = self.records[at].flags();
            if flags.has(Flags::LIVE) && !flags.has(Flags::TOLD) && flags.has(Flags::UNTOUCHED) {
                self.remove(at as u32);
            }
        }
        (end < self.records.len()).then_some(end)
    }

    fn each_live(&mut self, mut change: impl FnMut(&mut Flags)) {
        for record in self.records.iter_mut().filter(|record| record.flags().has(Flags::LIVE)) {
            change(record.flags_mut());
        }
    }

    /// Applies records that another tracker has told, up to so many; those that are left are what `records` is afterwards.
    ///
    /// # Errors
    /// For what is no record. Those before it were applied.
    pub fn apply(
        &mut self,
        now_ns: u64,
        records: &mut &[u8],
        most: usize,
    ) -> Result<Applied, &'static str> {
        let now_ns = self.clock.at(now_ns);
        let (mut applied, mut restored) = (Applied::default(), Restored::default());
        for _ in 0..most {
            if records.is_empty() {
                break;
            }
            match take(records)? {
                [kind::CONNECTION] => {
                    let entry = Entry::read(records)?;
                    if entry.bound.is_some() {
                        return Err("a change names a pool");
                    }
                    if queue(&entry.record().0).is_some_and(Queue::is_half_open) {
                        return Err("a change of a connection that is half open");
                    }
                    self.restore(&entry, None, (now_ns, 0), true, &mut restored);
                    applied.connections += 1;
                }
                [kind::GONE] => {
                    let original = read_gone(records)?;
                    self.take_away(&original);
                    applied.gone += 1;
                }
                _ => return Err("a change of no kind that is known"),
            }
        }
        (applied.no_room, applied.known) = (restored.no_room, restored.known);
        Ok(applied)
    }

    /// A connection that no packet has touched here is as it is told now; false if it is another one.
    pub(super) fn renew(&mut self, at: u32, entry: &Entry, (from, rest): (&Record, &Rest)) -> bool {
        if !entry.loose || self.tuples(at) != (entry.original, entry.reply) {
            return false;
        }
        let record = &mut self.records[at as usize];
        let kept = Flags::TWO_KEYS | Flags::SOURCE_NAT | Flags::DESTINATION_NAT | Flags::UNTOUCHED;
        let flags = from.flags() | record.flags().only(kept) | Flags::TOLD;
        record.progress = from.progress.with(flags);
        record.set_state(from.state());
        record.deadline = from.deadline;
        (self.rests[at as usize].mark, self.rests[at as usize].notes) = (rest.mark, rest.notes);
        if entry.label != self.label_of(at) {
            self.set_label(at, (entry.label, !0));
        }
        self.lists.unlink(&mut self.rests, at);
        self.enlist(at);
        true
    }

    /// A translation that was told is bound in the pool of blocks that has its address and port.
    pub(super) fn claim_told(&mut self, original: &Tuple, reply: &Tuple) {
        for pool in &mut self.pools {
            if pool.is_of_blocks()
                && pool.definition().2 == original.v6
                && pool.claim(original.src, reply.dst, reply.dst_port)
            {
                return;
            }
        }
    }
}

impl Log {
    /// A connection is told when it is old enough.
    fn wait(&mut self, now_ns: u64, at: u32) {
        if self.young.len() >= YOUNG_MAX {
            self.full = true;
            return;
        }
        self.young.push_back((now_ns.saturating_add(self.min_age_ns), at));
    }

    /// Whether there is room for a record, which is written then.
    #[inline]
    fn has_room(&mut self) -> bool {
        if self.full || self.octets.len() + RECORD_MAX > self.max {
            self.full = true;
            return false;
        }
        self.told += 1;
        true
    }
}

#[cfg(test)]
mod tests;
