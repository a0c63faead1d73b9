//! What comes to a worker from the underlay: outer headers off, a descriptor on, and on to the tunnel port that it is for.
//!
//! A packet around many segments of an inner flow stays one: the inner frame keeps what it owes. Inner TCP segments that
//! follow one another in a burst become one frame ([`Gro`]), so that the bridge runs them once.
//!
//! Cost for a packet that is none of a tunnel's: a look at its protocol, and for UDP at its port.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::{ArcSwap, Cache};
use contract::tunnel::OptionMap;
use port::gro::Gro;
use port::local::Sender;
use port::{Csum, DropReason, Frame, Pool, gso};

use crate::hub::outlet::{DESCRIPTOR_MAX, PortMap};
use crate::hub::reassembly::Reassembly;
use crate::hub::shared::{Shared, TunnelPort};
use crate::hub::watch::Watched;
use crate::inner::decapsulate;
use crate::parse::{Received, Whose, concerns};
use crate::plain::{Key, Near, Plain};
use crate::refused::Refused;
use crate::table::Table;

const ETHERNET: usize = 14;
/// What a frame has that nobody has asked about.
const NOTHING: Result<Received, Refused> = Err(Refused::NoPort);

/// The table of a hub, as a cache wants it.
struct HubTable(Arc<Shared>);

impl std::ops::Deref for HubTable {
    type Target = ArcSwap<Table<Arc<TunnelPort>>>;

    fn deref(&self) -> &Self::Target {
        &self.0.table
    }
}

/// A tunnel port, as one worker gives to it.
struct Entry {
    port: Arc<TunnelPort>,
    map: Cache<PortMap, Arc<OptionMap>>,
    to: Sender,
    gro: Gro,
}

impl Entry {
    /// Sends on an inner frame, which others may join, with a descriptor of so many octets.
    #[inline]
    fn give(&mut self, frame: Frame, descriptor: usize, pool: &mut Pool) {
        let Entry { port, to, gro, .. } = self;
        gro.add(frame, descriptor, pool, |frame| push(port, to, frame));
    }

    fn flush(&mut self) {
        let Entry { port, to, gro, .. } = self;
        gro.flush(|frame| push(port, to, frame));
        to.flush();
    }
}

/// Puts a frame into its port's queue; one that is refused is counted.
#[inline]
fn push(port: &TunnelPort, to: &mut Sender, frame: Frame) {
    match to.check() {
        Ok(hops) => to.push(frame, hops),
        Err(reason) => port.untaken.add(&port.name, refusal(reason)),
    }
}

/// Packets from the underlay, of one worker.
pub(super) struct Inlet {
    table: Cache<HubTable, Arc<Table<Arc<TunnelPort>>>>,
    opener: Opener,
    segments: Vec<Frame>,
    reassembly: Reassembly,
    /// What was read of the frame that is wanted. It stays where it lies, as it is large.
    found: Result<Received, Refused>,
    /// The frame that is wanted is one of these.
    plain: Option<Plain>,
    /// Where the last packet came in, while that holds of ports and addresses.
    near: Option<(Near, (u64, u64))>,
}

/// All but the table, which is lent from its cache.
struct Opener {
    shared: Arc<Shared>,
    /// Whose refusals are logged, where no port is known.
    of: String,
    worker: usize,
    entries: Vec<Entry>,
    /// What the last packet was found by, and its entry.
    last: Option<(Whose, usize)>,
    /// Likewise, of the last plain one.
    last_plain: Option<(Key, usize)>,
    generation: u64,
    descriptor: Box<[u8; DESCRIPTOR_MAX]>,
}

/// Whether segmentation is the inner packet's. Linux hands such frames over by veth: one outer packet around many segments.
fn is_owed_inside(frame: &Frame) -> bool {
    let Csum::Partial { start, .. } = frame.offload.csum else { return false };
    let outer = match frame.data().get(ETHERNET).map(|first| first >> 4) {
        Some(4) => ETHERNET + 20,
        _ => ETHERNET + 40,
    };
    usize::from(start) > outer
}

/// Where the IP header of an Ethernet frame without tags begins.
#[inline]
fn packet(frame: &[u8]) -> Option<&[u8]> {
    matches!(frame.get(12..ETHERNET)?, [0x08, 0x00] | [0x86, 0xdd]).then(|| &frame[ETHERNET..])
}

impl Inlet {
    pub(super) fn new(shared: Arc<Shared>, of: String, worker: usize) -> Inlet {
        let table = Cache::new(HubTable(shared.clone()));
        let opener = Opener {
            generation: shared.generation(),
            last: None,
            last_plain: None,
            shared,
            of,
            worker,
            entries: Vec::new(),
            descriptor: Box::new([0; DESCRIPTOR_MAX]),
        };
        let (segments, reassembly) = (Vec::new(), Reassembly::default());
        Inlet { table, opener, segments, reassembly, found: NOTHING, plain: None, near: None }
    }

    /// Whether a frame is one of a tunnel's, for this host. One that is wrong counts as such. If so, the frame or a copy of
    /// it is to be [taken](Self::take) next.
    #[inline]
    pub(super) fn wants(&mut self, frame: &Frame) -> bool {
        let Some(packet) = packet(frame.data()) else { return false };
        self.plain = None;
        let version = self.opener.shared.version();
        if let Some((near, known)) = &self.near
            && *known == version
            && let Some(plain) = Plain::read(packet, near, frame.offload.csum != Csum::None)
        {
            self.plain = Some(plain);
            return true;
        }
        self.wants_other(frame, packet, version)
    }

    /// The same for a packet that needs a look at all that it may be.
    fn wants_other(&mut self, frame: &Frame, packet: &[u8], version: (u64, u64)) -> bool {
        let table = self.table.load();
        if let Some(wanted) = self.reassembly.wants(packet, table, &self.opener.shared) {
            return wanted;
        }
        match concerns(packet, &**table) {
            Some(to) if self.opener.shared.underlay.is_local(to) => {}
            _ => return false,
        }
        match read(frame, packet, table) {
            Ok(None) => return false,
            Ok(Some(received)) => {
                if let (IpAddr::V4(local), udp_port @ 1..) = (received.local, received.udp_port) {
                    let near = Near { local, udp_port, kind: received.kind };
                    self.near = Some((near, version));
                }
                self.found = Ok(received);
            }
            Err(reason) => self.found = Err(reason),
        }
        true
    }

    /// Takes an Ethernet frame that is [wanted](Self::wants), and leaves it hollow.
    pub(super) fn take(&mut self, frame: &mut Frame, pool: &mut Pool) {
        if let Some(plain) = self.plain.take() {
            if frame.offload.gso.is_none() {
                return self.opener.give_plain(frame, &plain, self.table.load(), pool);
            }
            self.found = Ok(plain.received());
        }
        if self.reassembly.takes() {
            let Opener { shared, of, .. } = &self.opener;
            let frame = frame.take();
            let Some(mut whole) = self.reassembly.add(frame, pool, shared, of) else { return };
            let table = self.table.load();
            let found = match find(&whole, table) {
                // Others asked for it.
                Ok(received)
                    if !table.find(&received).is_some_and(|port| port.out.config().reassemble) =>
                {
                    Err(Refused::Fragment)
                }
                found => found,
            };
            self.opener.give(&mut whole, &found, table, pool);
            return;
        }
        if frame.offload.gso.is_none() || is_owed_inside(frame) {
            self.opener.give(frame, &self.found, self.table.load(), pool);
            self.found = NOTHING;
            return;
        }
        self.found = NOTHING;
        let mut segments = std::mem::take(&mut self.segments);
        // Nobody reads the outer sums any more.
        if gso::cut_without_sums(frame, pool, |segment| segments.push(segment)).is_err() {
            self.opener.shared.untaken.add(&self.opener.of, Refused::Offload);
        }
        pool.give(frame.take());
        for mut segment in segments.drain(..) {
            let table = self.table.load();
            let found = find(&segment, table);
            self.opener.give(&mut segment, &found, table, pool);
        }
        self.segments = segments;
    }

    /// Hands over what has gathered.
    pub(super) fn flush(&mut self) {
        self.opener.flush();
    }
}

/// Reads a packet, whose frame says whether its sum was checked. One that is still to be completed is right as well.
fn read(
    frame: &Frame,
    packet: &[u8],
    table: &Table<Arc<TunnelPort>>,
) -> Result<Option<Received>, Refused> {
    Received::read(packet, table, frame.offload.csum != Csum::None)
}

/// The same of a frame that is a tunnel's.
fn find(frame: &Frame, table: &Table<Arc<TunnelPort>>) -> Result<Received, Refused> {
    match packet(frame.data()).map(|packet| read(frame, packet, table)) {
        Some(Ok(Some(received))) => Ok(received),
        Some(Err(reason)) => Err(reason),
        Some(Ok(None)) | None => Err(Refused::NoPort),
    }
}

impl Opener {
    /// Makes an inner frame with a descriptor of a packet, and gives it to its port. What is refused is counted.
    fn give(
        &mut self,
        frame: &mut Frame,
        found: &Result<Received, Refused>,
        table: &Table<Arc<TunnelPort>>,
        pool: &mut Pool,
    ) {
        match found {
            Ok(received) => match self.entry(received, table) {
                Some(at) => {
                    let entry = &mut self.entries[at];
                    let port = &entry.port;
                    match open(frame, received, port, entry.map.load(), &mut self.descriptor) {
                        Ok((descriptor, Watched::Other)) => {
                            return entry.give(frame.take(), descriptor, pool);
                        }
                        Ok((_, Watched::Taken)) => {}
                        Ok((_, Watched::Lost)) => {
                            port.untaken.add(&port.name, Refused::WatchQueue);
                        }
                        Err(reason) => port.untaken.add(&port.name, reason),
                    }
                }
                None => self.shared.untaken.add(&self.of, Refused::NoPort),
            },
            Err(reason) => self.shared.untaken.add(&self.of, *reason),
        }
        pool.give(frame.take());
    }

    /// The same for a plain packet, which owes no segmentation.
    #[inline]
    fn give_plain(
        &mut self,
        frame: &mut Frame,
        plain: &Plain,
        table: &Table<Arc<TunnelPort>>,
        pool: &mut Pool,
    ) {
        let at = match self.last_plain {
            Some((key, at)) if key == plain.key && !self.is_outdated() => Some(at),
            _ => {
                let at = self.entry(&plain.received(), table);
                self.last_plain = at.map(|at| (plain.key, at));
                at
            }
        };
        let Some(at) = at else {
            self.shared.untaken.add(&self.of, Refused::NoPort);
            return pool.give(frame.take());
        };
        let Entry { port, map, to, gro } = &mut self.entries[at];
        match open_plain(frame, plain, port, map.load(), &mut self.descriptor) {
            Ok((len, Watched::Other)) => {
                return gro.add(frame.take(), len, pool, |frame| push(port, to, frame));
            }
            Ok((_, Watched::Taken)) => {}
            Ok((_, Watched::Lost)) => port.untaken.add(&port.name, Refused::WatchQueue),
            Err(reason) => port.untaken.add(&port.name, reason),
        }
        pool.give(frame.take());
    }

    /// Ports have changed since entries were made.
    fn is_outdated(&self) -> bool {
        self.shared.generation() != self.generation
    }

    /// The port that a packet is for.
    #[inline]
    fn entry(&mut self, received: &Received, table: &Table<Arc<TunnelPort>>) -> Option<usize> {
        let generation = self.shared.generation();
        if generation != self.generation {
            // Ports that are gone are let go of.
            self.flush();
            self.entries.clear();
            (self.last, self.last_plain) = (None, None);
            self.generation = generation;
        }
        let whose = received.whose();
        match self.last {
            Some((last, at)) if last == whose => Some(at),
            _ => self.other_entry(received, whose, table),
        }
    }

    fn other_entry(
        &mut self,
        received: &Received,
        whose: Whose,
        table: &Table<Arc<TunnelPort>>,
    ) -> Option<usize> {
        let port = table.find(received)?;
        let at = match self.entries.iter().position(|entry| Arc::ptr_eq(&entry.port, port)) {
            Some(at) => at,
            None => {
                let wire = port.wires[self.worker].clone();
                let to = Sender::new(wire, self.worker, self.shared.hops.clone());
                let map = Cache::new(PortMap(port.clone()));
                self.entries.push(Entry { port: port.clone(), map, to, gro: Gro::default() });
                self.entries.len() - 1
            }
        };
        self.last = Some((whose, at));
        Some(at)
    }

    fn flush(&mut self) {
        self.entries.iter_mut().for_each(Entry::flush);
    }
}

/// Puts a descriptor in place of the outer headers, unless whoever watches the port has the frame; says how long it is.
fn open(
    frame: &mut Frame,
    received: &Received,
    port: &TunnelPort,
    map: &OptionMap,
    descriptor: &mut [u8; DESCRIPTOR_MAX],
) -> Result<(usize, Watched), Refused> {
    if !port.wanted_up.load(Ordering::Relaxed) {
        return Err(Refused::PortDown);
    }
    received.suits(port.out.config())?;
    let packet = &frame.data()[ETHERNET..];
    let len = received.describe(packet, map, &mut descriptor[..])?;
    bare(frame, received.inner.clone(), (received.tos(), received.id), port, &descriptor[..len])
}

/// The same for a plain packet.
#[inline]
fn open_plain(
    frame: &mut Frame,
    plain: &Plain,
    port: &TunnelPort,
    map: &OptionMap,
    descriptor: &mut [u8; DESCRIPTOR_MAX],
) -> Result<(usize, Watched), Refused> {
    if !port.wanted_up.load(Ordering::Relaxed) {
        return Err(Refused::PortDown);
    }
    let packet = &frame.data()[ETHERNET..];
    let len = plain.describe(packet, map, &mut descriptor[..])?;
    let inner = usize::from(plain.start)..usize::from(plain.end);
    bare(frame, inner, (plain.tos, plain.id()), port, &descriptor[..len])
}

/// Leaves of a frame the inner one, which is there in its packet, with a descriptor.
#[inline]
fn bare(
    frame: &mut Frame,
    inner: Range<usize>,
    (tos, id): (u8, u64),
    port: &TunnelPort,
    descriptor: &[u8],
) -> Result<(usize, Watched), Refused> {
    frame.truncate(ETHERNET + inner.end);
    frame.pull_front(ETHERNET + inner.start);
    if frame.offload.gso.is_some() && !matches!(frame.offload.csum, Csum::Partial { .. }) {
        return Err(Refused::Offload);
    }
    decapsulate(tos, frame.data_mut())?;
    if frame.offload.csum == Csum::Valid {
        // That was said of the outer sum.
        frame.offload.csum = Csum::None;
    }
    match port.watcher.show(frame.data(), id) {
        Watched::Other => {}
        gone => return Ok((0, gone)),
    }
    frame.push_front(descriptor.len()).copy_from_slice(descriptor);
    Ok((descriptor.len(), Watched::Other))
}

/// Why a queue takes no more.
fn refusal(reason: DropReason) -> Refused {
    match reason {
        DropReason::PatchLoop => Refused::Loop,
        _ => Refused::QueueFull,
    }
}
