//! Connection tracking and address translation as services: `ct` only looks at packets, `ct_nat` may
//! translate them. Both are one tracker.
//!
//! Arguments by position ([`ARGS`], [`NAT_ARGS`]) and results ([`RESULTS`]) are those of [`contract::ct`].
//!
//! One tracker serves all workers: a packet of a connection may come to any of them, and with
//! translation its two directions look unlike each other, so that no hash of a packet tells which shard a
//! connection would be in. Workers take packets of open connections [side by side](service::conntrack::together). For the others of a
//! burst, at one call, one of them has the tracker alone; so has one slice of
//! [`Service::tend`], [`Connections::export`] or [`Connections::import`].
//!
//! A packet that was translated and comes again in the same zone gets the answer that it got before, as in
//! Linux: translating it twice, or taking it for another connection's, would be wrong.
//!
//! Checked by: the tests below; those of `of_pipeline`; `lab/conntrack` and the tests of `service` for
//! the tracker itself.

use super::call::{Burst, Call, Service, WordsCall, answer};
use super::waiting::{WaitNews, WaitQueue, WaitTicket, WaitingPacket};
pub use contract::ct::{ARGS, NAME, NAT_ARGS, NAT_NAME, RESULTS, flags, kind};
use hashbrown::HashMap;
use ir::{Bits, DropReason};
use jit::Handed;
use port::{Csum, Mark};
use service::conntrack::image::{Image, Restored, Writer};
use service::conntrack::together::{After, Alone, Both, Shared, Together};
use service::conntrack::{
    Alg, Apart, Config, Connection, Counters, CtState, Drop, Memory, Nat, Outcome, Request,
    Selection, Tracker, Tuple, ZoneLimits, ZoneTimeouts,
};
use service::nat::{Outside, Pool, PoolId, Ports, Rule};
use service::packet::{Carries, Checksum, Packet};
use smallvec::SmallVec;
use std::borrow::BorrowMut;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Different ranges of addresses and ports that actions may name.
const POOLS_MAX: usize = 4096;
/// Records that one slice of maintenance looks at, while packets wait.
const SLICE: usize = 256;
/// Slices in one round of maintenance.
const SLICES_MAX: usize = 4096;

/// Records that one slice of an export looks at, and connections that one of an import restores: each some tens of
/// microseconds.
const EXPORTED: usize = 256;
const IMPORTED: usize = 32;

/// The helper that `flags` name.
fn alg(named: u8) -> Option<Alg> {
    match named & (flags::FTP | flags::TFTP) {
        flags::FTP => Some(Alg::Ftp),
        flags::TFTP => Some(Alg::Tftp),
        _ => None,
    }
}

/// A pool is known by what an action says: kind, addresses, ports.
type PoolKey = (u8, u128, u128, u16, u16);

/// What is kept beside the tracker.
#[derive(Default)]
struct Beside {
    waiting: WaitQueue,
    pools: HashMap<PoolKey, Option<PoolId>>,
}

type Inner = Both<Beside>;

/// The tracker of a switch.
pub struct Connections {
    inner: Together<Beside>,
}

impl Connections {
    /// A tracker without connections, at this time of the switch's clock.
    pub fn new(config: Config, now_ns: u64) -> Connections {
        Connections { inner: Together::new(Tracker::new(config, now_ns), Beside::default()) }
    }

    fn lock(&self) -> Alone<'_, Beside> {
        self.inner.alone()
    }

    /// Does something with the tracker, while packets wait.
    pub fn with<R>(&self, act: impl FnOnce(&mut Tracker) -> R) -> R {
        act(&mut self.lock().tracker)
    }

    /// Connections that somebody wants and whose time is not over, at most so many; packets wait meanwhile.
    pub fn list(
        &self,
        now_ns: u64,
        most: usize,
        wanted: &dyn Fn(&Connection) -> bool,
    ) -> Vec<Connection> {
        self.lock().tracker.connections(now_ns).filter(wanted).take(most).collect()
    }

    /// Connections whose time is not over, of so many places from this one on, in a lock's time; the place to go on from.
    pub fn page(
        &self,
        now_ns: u64,
        from: usize,
        places: usize,
        see: &mut dyn FnMut(Connection),
    ) -> Option<usize> {
        self.lock().tracker.page(now_ns, from, places, see)
    }

    /// Limits of zones, and how many connections each has.
    pub fn zone_limits(&self, now_ns: u64) -> (ZoneLimits, BTreeMap<u16, u64>) {
        let inner = self.lock();
        let mut counts = BTreeMap::new();
        for connection in inner.tracker.connections(now_ns) {
            *counts.entry(connection.original.zone).or_default() += 1;
        }
        (inner.tracker.zone_limits().clone(), counts)
    }

    /// Sets them. Packets wait meanwhile.
    pub fn set_zone_limits(&self, limits: ZoneLimits) {
        self.lock().tracker.set_zone_limits(limits);
    }

    /// Zones have these timeouts of their own. Packets wait meanwhile.
    pub fn set_zone_timeouts(&self, all: ZoneTimeouts) {
        self.lock().tracker.set_zone_timeouts(all);
    }

    /// Removes the connections of a zone, or all; says how many. Packets wait meanwhile.
    pub fn flush(&self, zone: Option<u16>) -> usize {
        self.lock().tracker.flush(zone)
    }

    /// Removes the connections that are chosen; says how many. Packets wait meanwhile.
    pub fn flush_selected(&self, chosen: &Selection) -> usize {
        self.lock().tracker.flush_selected(chosen)
    }

    /// Writes an [image](service::conntrack::image) of all connections, in slices between which packets go on;
    /// says how many there are. `taken_at` is in seconds since 1970.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn export(
        &self,
        now_ns: &dyn Fn() -> u64,
        taken_at: u64,
        out: &mut dyn Write,
    ) -> std::io::Result<u64> {
        let begin = |tracker: &mut Tracker| Writer::new(tracker, taken_at);
        self.write(begin, now_ns, out)
    }

    /// The same of a switch that has stopped.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn export_stopped(
        &self,
        now_ns: &dyn Fn() -> u64,
        taken_at: u64,
        out: &mut dyn Write,
    ) -> std::io::Result<u64> {
        let begin = |tracker: &mut Tracker| {
            let (writer, begun) = Writer::new(tracker, taken_at);
            (writer.of_stopped(), begun)
        };
        self.write(begin, now_ns, out)
    }

    /// The same; from then on it is noted what changes, for [`export_changes`](Self::export_changes), until
    /// [`unwatch`](Self::unwatch).
    ///
    /// # Errors
    /// Those of `out`.
    pub fn export_watched(
        &self,
        now_ns: &dyn Fn() -> u64,
        taken_at: u64,
        out: &mut dyn Write,
    ) -> std::io::Result<u64> {
        let begin = |tracker: &mut Tracker| Writer::watch(tracker, taken_at);
        self.write(begin, now_ns, out)
    }

    /// Writes what has changed since the last image.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn export_changes(
        &self,
        now_ns: &dyn Fn() -> u64,
        taken_at: u64,
        out: &mut dyn Write,
    ) -> std::io::Result<u64> {
        let begin = |tracker: &mut Tracker| Writer::changes(tracker, taken_at);
        self.write(begin, now_ns, out)
    }

    /// Nothing is noted for [`export_changes`](Self::export_changes) any more.
    pub fn unwatch(&self) {
        self.lock().tracker.unwatch();
    }

    fn write(
        &self,
        begin: impl FnOnce(&mut Tracker) -> (Writer, Vec<u8>),
        now_ns: &dyn Fn() -> u64,
        out: &mut dyn Write,
    ) -> std::io::Result<u64> {
        let (mut writer, begun) = begin(&mut self.lock().tracker);
        out.write_all(&begun)?;
        loop {
            let more = writer.slice(&mut self.lock().tracker, now_ns(), EXPORTED);
            out.write_all(writer.frame())?;
            if !more {
                break;
            }
            std::thread::yield_now();
        }
        let connections = writer.connections();
        out.write_all(&writer.end())?;
        Ok(connections)
    }

    /// Takes an image's connections over, in slices between which packets go on. Ranges of addresses that actions
    /// name need nothing: what is bound in them is the connections' own.
    pub fn import(&self, image: &mut Image, now_ns: &dyn Fn() -> u64) -> Restored {
        while image.restore(&mut self.lock().tracker, now_ns(), IMPORTED) {
            std::thread::yield_now();
        }
        image.restored()
    }

    /// What a port's hardware has to say with packets of this tuple, so that they are found without a search.
    pub fn hint(&self, tuple: &Tuple) -> Option<Mark> {
        let hint = self.lock().tracker.hint(tuple)?;
        Some(Mark { value: hint.mark, generation: hint.generation })
    }

    /// What has happened.
    pub fn counters(&self) -> Counters {
        let alone = *self.lock().tracker.counters();
        alone.with(&self.inner.counted())
    }

    /// Connections held, those that nobody answered among them, and memory taken.
    pub fn size(&self) -> (usize, usize, Memory) {
        let inner = self.lock();
        (inner.tracker.len(), inner.tracker.half_open(), inner.tracker.memory())
    }

    /// What is taken of the outside addresses of `ct(nat)`, at most so many one by one; none without translation.
    pub fn outside(&self, most: usize) -> Option<Outside> {
        let inner = self.lock();
        (!inner.beside.pools.is_empty()).then(|| inner.tracker.outside(most))
    }
}

/// Frames that are to go on, and those that are lost, as the tracker says by now.
fn settle(inner: &mut Inner, news: Option<&mut WaitNews>) {
    // Nearly always.
    if !inner.tracker.has_news() {
        return;
    }
    let waiting = &mut inner.beside.waiting;
    let ready = inner.tracker.take_ready();
    match news {
        Some(news) => {
            news.ready.extend(ready.into_iter().filter_map(|ticket| waiting.ready(ticket)));
        }
        // Nobody is there who could run them.
        None => ready.into_iter().for_each(|ticket| waiting.lost(ticket)),
    }
    inner.tracker.take_lost().into_iter().for_each(|ticket| waiting.lost(ticket));
}

/// The pool that an action names. A range that is none has nothing left; of too many different ones,
/// neither have those above the limit.
fn pool(inner: &mut Inner, key: PoolKey) -> Option<PoolId> {
    let pools = &mut inner.beside.pools;
    if let Some(known) = pools.get(&key) {
        return *known;
    }
    if pools.len() >= POOLS_MAX {
        return None;
    }
    let (what, first, last, first_port, last_port) = key;
    let address = |bits: u128| match what & kind::IPV6 {
        0 => IpAddr::V4(Ipv4Addr::from(bits as u32)),
        _ => IpAddr::V6(Ipv6Addr::from(bits)),
    };
    let ports = match (first_port, what & kind::DESTINATION) {
        (0, 0) => Ports::Range(1, u16::MAX),
        (0, _) => Ports::Keep,
        (first, _) => Ports::Range(first, last_port.max(first)),
    };
    let pool = Pool::new(address(first), address(last), ports);
    let id = pool.ok().map(|pool| inner.tracker.add_pool(pool));
    pools.insert(key, id);
    id
}

/// What `nat(...)` asks for, by the values of [`NAT_ARGS`].
fn nat(inner: &mut Inner, args: &[u128]) -> Option<Nat> {
    match plain_nat(args) {
        Ok(nat) => Some(nat),
        Err(key) => Some(by(key.0, pool(inner, key)?)),
    }
}

/// The same where nothing need be added. None where it need.
fn known_nat(beside: &Beside, args: &[u128]) -> Option<Nat> {
    match plain_nat(args) {
        Ok(nat) => Some(nat),
        Err(key) => Some(by(key.0, (*beside.pools.get(&key)?)?)),
    }
}

/// What is asked for without a pool, or the pool.
fn plain_nat(args: &[u128]) -> Result<Nat, PoolKey> {
    let word = |at: usize| args.get(at).copied().unwrap_or(0);
    let what = word(0) as u8;
    if what & (kind::SOURCE | kind::DESTINATION) == 0 {
        return Ok(Nat::Existing);
    }
    // No address in particular: the connection's own.
    if (word(1), word(2)) == (0, 0) {
        return Ok(Nat::New(Rule::default()));
    }
    Err((what, word(1), word(2), word(3) as u16, word(4) as u16))
}

/// Translation by this pool.
fn by(what: u8, id: PoolId) -> Nat {
    let (mut source, mut destination) = (None, None);
    *(if what & kind::SOURCE != 0 { &mut source } else { &mut destination }) = Some(id);
    Nat::New(Rule { source, destination })
}

/// A value under a mask, if the mask has a bit.
fn masked<T: Copy + PartialEq + Default>(value: T, mask: T) -> Option<(T, T)> {
    (mask != T::default()).then_some((value, mask))
}

/// Words of arguments that [`Service::burst`] is told: those of an action come first, and what belongs to the
/// packet alone.
const WORDS: usize = 10;
/// The last words of them: what an earlier call has said, and in which zone.
const SAID: usize = 8;

/// What an action asks of the tracker, by the words of its arguments; without translation.
fn request(args: &[u64]) -> Request {
    let word = |at: usize| args.get(at).copied().unwrap_or(0);
    let wide = |at: usize| u128::from(word(at)) | u128::from(word(at + 1)) << 64;
    let asked = word(1) as u8;
    Request {
        zone: word(0) as u16,
        commit: asked & flags::COMMIT != 0,
        force: asked & flags::FORCE != 0,
        nat: Nat::None,
        mark: masked(word(2) as u32, word(3) as u32),
        label: masked(wide(4), wide(6)),
        alg: alg(asked),
        ..Request::default()
    }
}

/// A packet that was translated, by an earlier call in the same zone.
fn comes_again(args: &[u64]) -> bool {
    let word = |at: usize| args.get(at).copied().unwrap_or(0);
    let translated = u64::from(CtState::SOURCE_NAT.0 | CtState::DESTINATION_NAT.0);
    word(SAID) & translated != 0 && word(SAID + 1) == word(0)
}

/// The tracker asks the same of two packets.
fn alike(a: &Handed<'_>, b: &Handed<'_>) -> bool {
    let both = a.args.split_first_chunk::<WORDS>().zip(b.args.split_first_chunk::<WORDS>());
    let Some(((a_first, a_more), (b_first, b_more))) = both else { return a.args == b.args };
    // Words in a row, without a choice at each.
    let pairs = a_first.iter().zip(b_first).take(SAID);
    let differ = pairs.fold(0, |sum, (a, b)| sum | (a ^ b));
    differ == 0
        && (a_more.is_empty() && b_more.is_empty() || a_more == b_more)
        && !comes_again(a_first)
        && !comes_again(b_first)
}

/// A packet that the tracker is asked about, and where its answer goes.
struct Asked<'a> {
    packet: Packet<'a>,
    results: &'a mut [u64],
    passes: &'a mut bool,
    left: &'a mut bool,
}

impl Asked<'_> {
    /// Takes what became of the packet.
    #[inline(always)]
    fn told(&mut self, zone: u16, outcome: &Outcome) {
        tell_words(self.results, zone, outcome);
        *self.passes = outcome.drop.is_none();
        *self.left = outcome.drop == Some(Drop::Apart);
    }
}

impl<'a> Carries<'a> for Asked<'a> {
    #[inline(always)]
    fn packet(&mut self) -> &mut Packet<'a> {
        &mut self.packet
    }
}

/// What is known of a packet's transport checksum, as the tracker takes it.
fn checksum(csum: Csum) -> Checksum {
    match csum {
        Csum::None => Checksum::Unknown,
        Csum::Valid => Checksum::Good,
        Csum::Partial { .. } => Checksum::Partial,
    }
}

/// Packets of one call, as the tracker is asked about them.
fn asked<'a, 'h: 'a, H: BorrowMut<Handed<'h>>>(
    burst: Burst<'_>,
    run: &'a mut [H],
) -> SmallVec<[Asked<'a>; abi::BURST_MAX]> {
    run.iter_mut()
        .map(|handed| {
            let handed = handed.borrow_mut();
            let (checksum, hint) = (checksum(burst.csum(handed)), burst.hint(handed));
            let packet = Packet { checksum, hint, ..Packet::of(&mut *handed.bytes) };
            let Handed { results, passes, left, .. } = handed;
            Asked { packet, results, passes, left }
        })
        .collect()
}

impl Connections {
    /// Takes packets while nobody else has the tracker.
    fn take<'h, H: BorrowMut<Handed<'h>>>(inner: &mut Inner, burst: Burst<'_>, packets: &mut [H]) {
        inner.tracker.begin();
        for run in packets.chunk_by_mut(|a, b| alike(a.borrow(), b.borrow())) {
            let args = run[0].borrow().args;
            let mut request = request(args);
            if burst.leaves {
                request.apart = Apart::Leave;
            }
            let mut asked = asked(burst, run);
            if comes_again(args)
                && let Some(outcome) = inner.tracker.again(burst.now_ns, &request, &asked[0].packet)
            {
                asked[0].told(request.zone, &outcome);
                continue;
            }
            let nat = match burst.service.edits {
                true => nat(inner, &nat_values(args)),
                false => Some(Nat::None),
            };
            let Some(nat) = nat else {
                // No such addresses: as if all of them were taken.
                asked.iter_mut().for_each(|asked| *asked.passes = false);
                continue;
            };
            request.nat = nat;
            let zone = request.zone;
            inner.tracker.process_each(burst.now_ns, &request, &mut asked, |asked, outcome| {
                asked.told(zone, &outcome);
            });
        }
        // Nothing has got another length where packets come together: those are left.
        inner.tracker.take_rewritten();
        settle(inner, None);
    }

    /// Takes usual packets while other workers take theirs. The others are [left](Handed::left), for [`take`](Self::take).
    fn take_usual(
        shared: &Shared<'_, Beside>,
        burst: Burst<'_>,
        packets: &mut [Handed<'_>],
        after: &mut SmallVec<[After; 4]>,
    ) {
        let mut view = shared.view();
        for run in packets.chunk_by_mut(alike) {
            let args = run[0].args;
            let mut request = request(args);
            let nat = match burst.service.edits {
                true => known_nat(shared.beside(), &nat_values(args)),
                false => Some(Nat::None),
            };
            let Some(nat) = nat.filter(|_| !comes_again(args)) else {
                view.leave();
                run.iter_mut().for_each(|handed| handed.left = true);
                continue;
            };
            request.nat = nat;
            let (zone, now_ns) = (request.zone, burst.now_ns);
            let mut asked = asked(burst, run);
            view.process_each(
                now_ns,
                &request,
                &mut asked,
                after,
                |asked, outcome| match outcome {
                    Some(outcome) => asked.told(zone, &outcome),
                    None => *asked.left = true,
                },
            );
        }
    }
}

impl Service for Connections {
    fn burst(&self, burst: Burst<'_>, packets: &mut [Handed<'_>]) {
        let Some(shared) = self.inner.shared() else {
            return Connections::take(&mut self.lock(), burst, packets);
        };
        let mut after = SmallVec::new();
        Connections::take_usual(&shared, burst, packets, &mut after);
        drop(shared);
        let mut others: SmallVec<[&mut Handed<'_>; abi::BURST_MAX]> =
            packets.iter_mut().filter(|handed| handed.left).collect();
        if others.is_empty() && after.is_empty() {
            return;
        }
        others.iter_mut().for_each(|handed| handed.left = false);
        let mut inner = self.lock();
        inner.tracker.finish_after(burst.now_ns, &after);
        Connections::take(&mut inner, burst, &mut others);
    }

    fn call(&self, call: Call<'_>, results: &mut [Bits]) -> bool {
        let word = |at: usize| call.args.get(at).map_or(0, Bits::low_u128);
        let zone = word(0) as u16;
        let asked = word(1) as u8;
        let mut request = Request {
            zone,
            commit: asked & flags::COMMIT != 0,
            force: asked & flags::FORCE != 0,
            nat: Nat::None,
            mark: masked(word(2) as u32, word(3) as u32),
            label: masked(word(4), word(5)),
            alg: alg(asked),
            apart: if call.news.is_some() { Apart::Hold } else { Apart::Never },
        };
        let said = CtState(word(6) as u8);
        let translated = CtState::SOURCE_NAT.0 | CtState::DESTINATION_NAT.0;
        let again = said.0 & translated != 0 && word(7) as u16 == zone;
        let mut packet = Packet::of(call.packet);
        packet.checksum = checksum(call.csum);
        let mut inner = self.lock();
        if call.look {
            let nat = match call.service.edits && !again {
                true => nat(&mut inner, &nat_values_of(call.args)),
                false => Some(Nat::None),
            };
            let Some(nat) = nat else { return false };
            request.nat = nat;
            let outcome = match again {
                true => inner.tracker.look_again(call.now_ns, &request, &packet, said),
                false => inner.tracker.look(call.now_ns, &request, &mut packet),
            };
            drop(inner);
            tell(results, zone, &outcome);
            return outcome.drop.is_none();
        }
        let known = match again {
            true => inner.tracker.again(call.now_ns, &request, &packet),
            false => None,
        };
        let outcome = match known {
            Some(outcome) => outcome,
            None => {
                if call.service.edits {
                    match nat(&mut inner, &nat_values_of(call.args)) {
                        Some(nat) => request.nat = nat,
                        // No such addresses: as if all of them were taken.
                        None => return false,
                    }
                }
                let mut outcome = [Outcome::default()];
                inner.tracker.process(
                    call.now_ns,
                    &request,
                    std::slice::from_mut(&mut packet),
                    &mut outcome,
                );
                outcome[0]
            }
        };
        if let Some(bytes) = inner.tracker.take_rewritten()
            && call.service.edits
        {
            *call.packet = bytes;
        }
        let mut news = call.news;
        if let (Some(news), Some(Drop::Waits(ticket))) = (&mut news, outcome.drop) {
            news.waits = Some(WaitTicket { service: 0, element: 0, ticket });
        }
        settle(&mut inner, news);
        drop(inner);
        tell(results, zone, &outcome);
        outcome.drop.is_none()
    }

    fn call_words(&self, call: WordsCall<'_>, results: &mut [u64]) -> bool {
        let mut request = request(call.args);
        request.apart = if call.news.is_some() { Apart::Hold } else { Apart::Never };
        let zone = request.zone;
        let mut packet = Packet::of(call.packet);
        packet.checksum = checksum(call.csum);
        let mut inner = self.lock();
        let known = match comes_again(call.args) {
            true => inner.tracker.again(call.now_ns, &request, &packet),
            false => None,
        };
        let outcome = match known {
            Some(outcome) => outcome,
            None => {
                if call.service.edits {
                    match nat(&mut inner, &nat_values(call.args)) {
                        Some(nat) => request.nat = nat,
                        // No such addresses: as if all of them were taken.
                        None => return false,
                    }
                }
                let mut outcome = [Outcome::default()];
                let packets = std::slice::from_mut(&mut packet);
                inner.tracker.process(call.now_ns, &request, packets, &mut outcome);
                outcome[0]
            }
        };
        if let Some(bytes) = inner.tracker.take_rewritten()
            && call.service.edits
        {
            *call.packet = bytes;
        }
        let mut news = call.news;
        if let (Some(news), Some(Drop::Waits(ticket))) = (&mut news, outcome.drop) {
            news.waits = Some(WaitTicket { service: 0, element: 0, ticket });
        }
        settle(&mut inner, news);
        drop(inner);
        tell_words(results, zone, &outcome);
        outcome.drop.is_none()
    }

    fn keep(&self, waits: WaitTicket, kept: WaitingPacket) -> Option<WaitingPacket> {
        self.lock().beside.waiting.keep(waits.ticket, kept)
    }

    fn give_up(&self, reason: DropReason) {
        let mut inner = self.lock();
        inner.beside.waiting.give_up(reason);
        inner.tracker.give_up_waiting();
        settle(&mut inner, None);
        // Of those that were reported lost, none is here any more.
        inner.beside.waiting.give_up(reason);
    }

    fn tend(&self, now_ns: u64) {
        for _ in 0..SLICES_MAX {
            let mut inner = self.lock();
            let more = inner.tracker.expire(now_ns, SLICE);
            settle(&mut inner, None);
            drop(inner);
            if !more {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// The values of [`NAT_ARGS`], by words.
fn nat_values(args: &[u64]) -> [u128; 5] {
    let word = |at: usize| u128::from(args.get(WORDS + at).copied().unwrap_or(0));
    let wide = |at: usize| word(at) | word(at + 1) << 64;
    [word(0), wide(1), wide(3), word(5), word(6)]
}

/// The same by arguments that are not cut into words.
fn nat_values_of(args: &[Bits]) -> SmallVec<[u128; 5]> {
    args.get(ARGS.len()..).unwrap_or_default().iter().map(Bits::low_u128).collect()
}

/// Of a packet that is of no connection.
const NO_TUPLE: Tuple = Tuple {
    src: 0,
    dst: 0,
    src_port: 0,
    dst_port: 0,
    zone: 0,
    protocol: wire::IpProtocol(0),
    v6: false,
    role: service::conntrack::Role::Any,
};

/// Writes what became of a packet into the words of the results.
#[inline(always)]
fn tell_words(results: &mut [u64], zone: u16, outcome: &Outcome) {
    let Ok(results) = <&mut [u64; 14]>::try_from(&mut *results) else {
        results.fill(0);
        return;
    };
    // What is not tracked makes no sense to a pipeline that asks for its connection.
    let state = match outcome.state.0 {
        0 => CtState::INVALID | CtState::TRACKED,
        _ => outcome.state,
    };
    let low = |value: u128| value as u64;
    let high = |value: u128| (value >> 64) as u64;
    let tuple = outcome.original.unwrap_or(NO_TUPLE);
    let (v4, v6) = match tuple.v6 {
        false => ([low(tuple.src), low(tuple.dst)], [0; 2]),
        true => ([0; 2], [tuple.src, tuple.dst]),
    };
    let (src, dst) = ports(&tuple);
    // All at once: nothing of what was there stays.
    *results = [
        state.0.into(),
        outcome.mark.into(),
        low(outcome.label),
        high(outcome.label),
        zone.into(),
        v4[0],
        v4[1],
        low(v6[0]),
        high(v6[0]),
        low(v6[1]),
        high(v6[1]),
        tuple.protocol.0.into(),
        src.into(),
        dst.into(),
    ];
}

/// Writes what became of a packet into the results.
fn tell(results: &mut [Bits], zone: u16, outcome: &Outcome) {
    // What is not tracked makes no sense to a pipeline that asks for its connection.
    let state = match outcome.state.0 {
        0 => CtState::INVALID | CtState::TRACKED,
        _ => outcome.state,
    };
    answer(results, 0, state.0);
    answer(results, 1, outcome.mark);
    answer(results, 2, outcome.label);
    answer(results, 3, zone);
    let Some(tuple) = outcome.original else { return };
    let first = if tuple.v6 { 6 } else { 4 };
    answer(results, first, tuple.src);
    answer(results, first + 1, tuple.dst);
    answer(results, 8, tuple.protocol.0);
    let (src, dst) = ports(&tuple);
    answer(results, 9, src);
    answer(results, 10, dst);
}

/// The opener's ports, or ICMP's type and code.
pub fn ports(tuple: &Tuple) -> (u16, u16) {
    match tuple.is_query() {
        true => (tuple.dst_port >> 8, tuple.dst_port & 0xff),
        false => (tuple.src_port, tuple.dst_port),
    }
}

#[cfg(test)]
mod tests;
