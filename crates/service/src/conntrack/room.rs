//! Places of connections: taken, given back, and made free for others; lists by when they end.

use super::Tracker;
use super::account::Account;
use super::lists::{Lists, Queue};
use super::record::{Flags, NONE, Notes, Progress, Record, Rest};
use super::request::{Nat, Request};
use super::state::{Direction, Drop};
use super::tcp;
use super::time::{deadline_after, deadline_of, ticks};
use super::told::queue;
use super::tuple::Tuple;
use crate::nat;
use wire::IpProtocol;

/// Connections that are over that are looked at to make room for one.
const CLOSED_MAX: usize = 64;

impl Tracker {
    /// Makes room for a connection: those that are over go first, then those that nobody has answered.
    pub(super) fn make_room(&mut self) -> Result<(), Drop> {
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
    pub(super) fn make_translated_room(&mut self) -> bool {
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
        let state = tcp::State::from_number(record.state());
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
    pub(super) fn insert(
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
        if !self.zones.admits(tuple.zone) {
            self.counters.zone_full += 1;
            return Err(Drop::TableFull);
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
        record.set_state(state);
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
    pub(super) fn place(
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
        self.accounts.set(at, Account::default());
        self.live += 1;
        self.zones.came(original.zone);
        self.translated += usize::from(two_keys);
        if self.records[at as usize].flags().has(Flags::SOURCE_NAT) {
            self.map_socket(original, reply);
        }
        self.enlist(at);
        Some(at)
    }

    /// A free record, filled.
    pub(super) fn allocate(&mut self, record: Record, rest: Rest) -> u32 {
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
    pub(super) fn give_back(&mut self, at: u32) {
        let rest = &mut self.rests[at as usize];
        if rest.extension != NONE {
            self.extensions.give(rest.extension);
        }
        rest.next = self.free;
        *self.records[at as usize].flags_mut() = Flags::default();
        self.free = at;
    }

    /// Forgets a live connection.
    pub(super) fn remove(&mut self, at: u32) {
        self.lists.unlink(&mut self.rests, at);
        self.forget(at);
    }

    /// Forgets a live connection that is on no list.
    pub(super) fn forget(&mut self, at: u32) {
        let (original, reply) = (self.original_of(at), self.reply_of(at));
        if let Some(gone) = &mut self.gone {
            gone.note(original);
        }
        self.index.remove(self.index.places(self.hasher.hash(&original)), at);
        let flags = self.records[at as usize].flags();
        if flags.has(Flags::TOLD) {
            self.tell_gone(&original);
        }
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
        self.zones.left(original.zone);
        self.live -= 1;
    }

    /// Where a connection waits for its end.
    pub(super) fn queue(&self, at: u32) -> Option<Queue> {
        queue(&self.records[at as usize])
    }

    pub(super) fn enlist(&mut self, at: u32) {
        match self.queue(at) {
            Some(queue) => self.lists.enqueue(&mut self.rests, at, queue),
            None => self.lists.file(&self.records, &mut self.rests, at),
        }
    }

    /// Puts a connection where it now belongs.
    pub(super) fn requeue(&mut self, at: u32) {
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
    pub(super) fn refresh(&mut self, now_ns: u64, at: u32, timeout: u32) {
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
}
