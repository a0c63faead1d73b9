//! What a worker sends by a tunnel port: descriptors off, headers on, and on to the device of the route.
//!
//! A frame that stands for many segments is cut here once, and partial checksums are completed, since nothing behind a
//! tunnel could do so. Where outer headers are UDP's with a checksum, the packets of all segments leave as one frame: a
//! datagram that is to be cut into such of equal size ([`joined`]).
//!
//! By the route's device a packet enters the bridge of a port to the host, or leaves by the kernel's sockets. A packet that is
//! longer than the device's MTU is dropped and counted, since Open vSwitch's userspace loses it as well. With `df_default=false`
//! it goes through the kernel's sockets in IPv4 fragments. Ports to the host get no fragments.
//!
//! Cost: beyond the headers, a look at two counters; for another destination than the last one, a hash lookup.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::{ArcSwap, Cache};
use contract::tunnel::{LEN, OPTIONS_LEN, OptionMap};
use port::gso::Segments;
use port::local::Sender;
use port::{DropReason, Frame, Offload, Pool, TxQueue, TxReport, gso};

use crate::descriptor::{self, Fields};
use crate::fragments::cut::{NotCut, cut};
use crate::headers::{HEADERS_MAX, Packet, Path};
use crate::hub::joined;
use crate::hub::pending::Way;
use crate::hub::shared::{Device, Routes, Shared, TunnelPort};
use crate::ready::Ready;
use crate::refused::Refused;
use crate::underlay::Next;

/// Octets of a descriptor, at most.
pub(super) const DESCRIPTOR_MAX: usize = LEN + OPTIONS_LEN;
/// Destinations that a queue remembers; it forgets all when there are more.
const ROUTES_MAX: usize = 4096;

/// By what packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// This one of the devices.
    Device(usize),
    Sockets,
    Nothing,
}

/// A way that is known.
struct Known {
    next: Next,
    by: By,
    /// Headers of packets that go this way, if that is all they need.
    ready: Option<Box<Ready>>,
}

type Route = Option<Known>;
type Ends = (IpAddr, Option<IpAddr>);

/// Headers that were written, and where they lead.
struct Head {
    /// Octets.
    len: usize,
    ends: Ends,
    /// Where the way is among those known.
    at: usize,
}

/// A device, as one worker sends to it.
struct Exit {
    device: Arc<Device>,
    to: Sender,
}

pub(super) struct Tx {
    map: Cache<PortMap, Arc<OptionMap>>,
    /// That of the frame at hand.
    descriptor: Box<[u8; DESCRIPTOR_MAX]>,
    way: Outlet,
}

/// All but the map, which is lent from its cache.
struct Outlet {
    shared: Arc<Shared>,
    port: Arc<TunnelPort>,
    worker: usize,
    /// Where in `known` a way is.
    routes: Routes<usize>,
    known: Vec<Route>,
    /// That of the last frame.
    last: Option<(Ends, usize)>,
    /// What routes and devices were learnt by.
    version: (u64, u64),
    exits: Vec<Exit>,
    room: Box<[u8; HEADERS_MAX]>,
    segments: Vec<Frame>,
    spare: Pool,
    report: TxReport,
}

/// The map of a port, as a cache wants it.
pub(super) struct PortMap(pub(super) Arc<TunnelPort>);

impl std::ops::Deref for PortMap {
    type Target = ArcSwap<OptionMap>;

    fn deref(&self) -> &ArcSwap<OptionMap> {
        &self.0.map
    }
}

impl Tx {
    pub(super) fn new(shared: Arc<Shared>, port: Arc<TunnelPort>, worker: usize) -> Tx {
        let map = Cache::new(PortMap(port.clone()));
        let way = Outlet {
            version: shared.version(),
            shared,
            port,
            worker,
            routes: Routes::default(),
            known: Vec::new(),
            last: None,
            exits: Vec::new(),
            room: Box::new([0; HEADERS_MAX]),
            segments: Vec::new(),
            spare: Pool::default(),
            report: TxReport::default(),
        };
        Tx { map, descriptor: Box::new([0; DESCRIPTOR_MAX]), way }
    }
}

impl Outlet {
    /// Sends a frame with its descriptor, which is hollow then; or says why not, and leaves it.
    fn send(
        &mut self,
        frame: &mut Frame,
        map: &OptionMap,
        descriptor: &mut [u8; DESCRIPTOR_MAX],
        pool: &mut Pool,
    ) -> Result<(), Refused> {
        if !self.port.wanted_up.load(Ordering::Relaxed) {
            return Err(Refused::PortDown);
        }
        if frame.offload.is_plain()
            && let Some(result) = self.send_ready(frame, map)
        {
            return result;
        }
        let len = map.descriptor_len();
        let descriptor = descriptor.get_mut(..len).ok_or(Refused::Descriptor)?;
        descriptor.copy_from_slice(frame.data().get(..len).ok_or(Refused::Descriptor)?);
        frame.pull_front(len);
        if frame.offload.is_plain() {
            return self.wrap(frame, descriptor, map);
        }
        self.send_segments(frame, descriptor, map, pool)
    }

    /// Sends a frame that needs no more than headers that are [ready](Ready). None, with nothing done, if it needs more.
    #[inline]
    fn send_ready(&mut self, frame: &mut Frame, map: &OptionMap) -> Option<Result<(), Refused>> {
        let (from, to) = descriptor::ends(frame.data())?;
        let ends = self.port.out.ends_of(from, to).ok()?;
        let at = self.route(ends);
        let Known { next, by: By::Device(exit), ready: Some(ready) } = self.known[at].as_ref()?
        else {
            return None;
        };
        let to = &mut self.exits[*exit].to;
        let hops = match to.check() {
            Ok(hops) => hops,
            Err(DropReason::PatchLoop) => return Some(Err(Refused::Loop)),
            Err(_) => return Some(Err(Refused::QueueFull)),
        };
        let inner_len = frame.len().saturating_sub(map.descriptor_len());
        if !ready.push(frame, map, next.mtu, &mut self.room[..]) {
            return None;
        }
        frame.offload = Offload::NONE;
        to.push(frame.take(), hops);
        self.report.count_sent(inner_len);
        Some(Ok(()))
    }

    /// Sends what a frame stands for, with its checksums completed.
    #[cold]
    fn send_segments(
        &mut self,
        frame: &mut Frame,
        descriptor: &[u8],
        map: &OptionMap,
        pool: &mut Pool,
    ) -> Result<(), Refused> {
        if self.send_joined(frame, descriptor, map, pool) {
            pool.give(frame.take());
            return Ok(());
        }
        let mut segments = std::mem::take(&mut self.segments);
        let result = gso::complete(frame, pool, |segment| segments.push(segment));
        if result.is_ok() {
            pool.give(frame.take());
        }
        for mut segment in segments.drain(..) {
            if let Err(reason) = self.wrap(&mut segment, descriptor, map) {
                pool.give(segment);
                self.port.unsent.add(&self.port.name, reason);
                self.report.drops.add(drop_reason(reason), 1);
            }
        }
        self.segments = segments;
        result.map_err(|_| Refused::Offload)
    }

    /// Puts headers in front of a frame, and sends it on.
    fn wrap(
        &mut self,
        frame: &mut Frame,
        descriptor: &[u8],
        map: &OptionMap,
    ) -> Result<(), Refused> {
        let inner_len = frame.len();
        let way = self.head(frame.data(), descriptor, map)?;
        frame.push_front(way.len).copy_from_slice(&self.room[..way.len]);
        frame.offload = Offload::NONE;
        self.leave(frame, &way)?;
        self.report.count_sent(inner_len);
        Ok(())
    }

    /// Writes the headers of an inner frame to the room, and says where it goes.
    fn head(&mut self, inner: &[u8], descriptor: &[u8], map: &OptionMap) -> Result<Head, Refused> {
        if inner.len() < 14 {
            return Err(Refused::TooShort);
        }
        let packet = Packet::of(descriptor, inner, map)?;
        let ends = self.port.out.ends(&packet.fields)?;
        let at = self.route(ends);
        let Known { next, by, .. } = self.known[at].as_ref().ok_or(Refused::Unreachable)?;
        let path = Path {
            remote: ends.0,
            source: ends.1.unwrap_or(next.source),
            local_mac: next.local_mac,
            next_mac: next.neighbour.unwrap_or_default(),
            stamp: if self.has_stamps(&packet.fields) { stamp() } else { 0 },
        };
        let len = self.port.out.write(&packet, &path, &mut self.room[..])?;
        let config = self.port.out.config();
        let fragments = *by == By::Sockets && !config.df_default && ends.0.is_ipv4();
        if len - 14 + inner.len() > next.mtu as usize && !fragments {
            return Err(Refused::Mtu);
        }
        Ok(Head { len, ends, at })
    }

    /// Sends a packet with its headers.
    fn leave(&mut self, frame: &mut Frame, head: &Head) -> Result<(), Refused> {
        let Known { next, by, .. } = self.known[head.at].as_ref().ok_or(Refused::Unreachable)?;
        match *by {
            By::Device(exit) if next.neighbour.is_some() => {
                let to = &mut self.exits[exit].to;
                match to.check() {
                    Ok(hops) => to.push(frame.take(), hops),
                    Err(DropReason::PatchLoop) => return Err(Refused::Loop),
                    Err(_) => return Err(Refused::QueueFull),
                }
            }
            By::Device(exit) => {
                let next = *next;
                self.wait(frame, head.ends, &next, exit)?;
            }
            By::Sockets => {
                let mtu = next.mtu as usize;
                self.leave_by_sockets(frame, mtu)?;
            }
            By::Nothing => return Err(Refused::NoDevice),
        }
        Ok(())
    }

    /// Sends all that a frame stands for as few frames. False: its packets have to leave one by one.
    fn send_joined(
        &mut self,
        frame: &Frame,
        descriptor: &[u8],
        map: &OptionMap,
        pool: &mut Pool,
    ) -> bool {
        let Some(segments) = Segments::of(frame) else { return false };
        if segments.count() < 2 || !joined::may_join(self.port.out.config()) {
            return false;
        }
        // All headers that the outer ones depend on are those of the first segment.
        let first = &frame.data()[..segments.len_of(0)];
        // What is refused is told of one by one.
        let Ok(head) = self.head(first, descriptor, map) else { return false };
        if !matches!(self.known[head.at], Some(Known { by: By::Device(_), .. })) {
            return false;
        }
        let mut from = 0;
        while from < segments.count() {
            let headers = &self.room[..head.len];
            let (mut packet, until) = joined::join(headers, &segments, from, pool);
            packet.rx_ns = frame.rx_ns;
            match self.leave(&mut packet, &head) {
                Ok(()) => (from..until).for_each(|i| self.report.count_sent(segments.len_of(i))),
                Err(reason) => {
                    pool.give(packet);
                    for _ in from..until {
                        self.port.unsent.add(&self.port.name, reason);
                    }
                    self.report.drops.add(drop_reason(reason), (until - from) as u64);
                }
            }
            from = until;
        }
        true
    }

    fn has_stamps(&self, fields: &Fields) -> bool {
        use crate::config::{Given, Kind};
        let config = self.port.out.config();
        let version = match config.erspan_ver {
            Given::Fixed(version) => version,
            Given::Flow => fields.erspan_ver,
        };
        config.kind == Kind::Erspan && version == 2
    }

    /// Where the way to these ends is known, as it is now.
    #[inline]
    fn route(&mut self, ends: Ends) -> usize {
        let version = self.shared.version();
        if version != self.version {
            self.version = version;
            self.forget_routes();
            self.forget_devices();
        }
        match self.last {
            Some((last, at)) if last == ends => at,
            _ => self.other_route(ends),
        }
    }

    fn other_route(&mut self, ends: Ends) -> usize {
        let at = match self.routes.get(&ends) {
            Some(at) => *at,
            None => {
                let route = self.resolve(ends);
                if self.known.len() >= ROUTES_MAX {
                    self.forget_routes();
                }
                self.known.push(route);
                self.routes.insert(ends, self.known.len() - 1);
                self.known.len() - 1
            }
        };
        self.last = Some((ends, at));
        at
    }

    fn forget_routes(&mut self) {
        self.routes.clear();
        self.known.clear();
        self.last = None;
    }

    #[cold]
    fn resolve(&mut self, ends: Ends) -> Route {
        let mark = self.port.out.config().egress_pkt_mark;
        let next = self.shared.underlay.resolve(ends.0, ends.1, mark)?;
        let by = match self.shared.device(next.device) {
            Some(device) => By::Device(self.exit(device)),
            None if self.shared.sockets.is_some() => By::Sockets,
            None => By::Nothing,
        };
        let path = Path {
            remote: ends.0,
            source: ends.1.unwrap_or(next.source),
            local_mac: next.local_mac,
            next_mac: next.neighbour.unwrap_or_default(),
            stamp: 0,
        };
        // By the kernel's sockets, a frame is longer than the MTU at times.
        let is_near = next.neighbour.is_some() && matches!(by, By::Device(_));
        let ready = is_near.then(|| Ready::new(&self.port.out, &path)).flatten().map(Box::new);
        Some(Known { next, by, ready })
    }

    fn exit(&mut self, device: Arc<Device>) -> usize {
        let is = |exit: &Exit| Arc::ptr_eq(&exit.device, &device);
        if let Some(at) = self.exits.iter().position(is) {
            return at;
        }
        let wire = device.wires[self.worker].clone();
        let to = Sender::new(wire, self.worker, self.shared.hops.clone());
        self.exits.push(Exit { device, to });
        self.exits.len() - 1
    }

    /// Lets go of devices that are gone. What was gathered for them is lost with them.
    fn forget_devices(&mut self) {
        self.exits.iter_mut().for_each(|exit| exit.to.flush());
        let devices = self.shared.devices.load();
        self.exits.retain(|exit| devices.iter().any(|device| Arc::ptr_eq(device, &exit.device)));
    }

    /// Has the neighbour asked for, and the packet wait.
    #[cold]
    fn wait(
        &mut self,
        frame: &mut Frame,
        (remote, local): Ends,
        next: &Next,
        at: usize,
    ) -> Result<(), Refused> {
        let mark = self.port.out.config().egress_pkt_mark;
        self.shared.underlay.ask(next.device, next.gateway);
        let (device, gateway) = (next.device, next.gateway);
        let way = Way { remote, local, mark, device, gateway };
        let pending = &self.exits[at].device.pending[self.worker];
        pending.add(frame, way, &self.port)
    }

    fn leave_by_sockets(&mut self, frame: &mut Frame, mtu: usize) -> Result<(), Refused> {
        let mark = self.port.out.config().egress_pkt_mark;
        let sockets = self.shared.sockets.as_ref().ok_or(Refused::NoDevice)?;
        let sent = cut(&frame.data()[14..], mtu, |packet| match sockets.send(packet, mark) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        match sent {
            Ok(ControlFlow::Continue(())) => {
                self.spare.give(frame.take());
                Ok(())
            }
            Err(NotCut) => Err(Refused::Mtu),
            Ok(ControlFlow::Break(error)) => {
                tracing::debug!(port = %self.port.name, %error, "the kernel refused a packet");
                Err(Refused::KernelSocket)
            }
        }
    }

    /// Counts a frame that was refused.
    #[cold]
    fn refused(&mut self, reason: Refused) -> DropReason {
        self.port.unsent.add(&self.port.name, reason);
        drop_reason(reason)
    }
}

/// A refusal, as the worker counts it.
fn drop_reason(reason: Refused) -> DropReason {
    match reason {
        Refused::PortDown => DropReason::TxLinkDown,
        Refused::Mtu | Refused::TooLong => DropReason::TxTooLong,
        Refused::TooShort => DropReason::TxTooShort,
        Refused::Offload => DropReason::TxNoOffload,
        Refused::Loop => DropReason::PatchLoop,
        Refused::QueueFull => DropReason::TxQueueFull,
        Refused::KernelSocket => DropReason::TxRefused,
        _ => DropReason::TunnelRefused,
    }
}

/// The time in units of 100 µs.
fn stamp() -> u32 {
    (port::now_ns() / 100_000) as u32
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        let mut pool = std::mem::take(&mut self.way.spare);
        let copy = pool.clone_of(frame);
        let result = self.tx_owned(copy, &mut pool);
        self.way.spare = pool;
        result
    }

    fn tx_owned(&mut self, mut frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        self.tx_taken(&mut frame, pool)
    }

    fn tx_taken(&mut self, frame: &mut Frame, pool: &mut Pool) -> Result<(), DropReason> {
        self.way.send(frame, self.map.load(), &mut self.descriptor, pool).map_err(|reason| {
            pool.give(frame.take());
            self.way.refused(reason)
        })
    }

    fn flush(&mut self) -> TxReport {
        self.way.exits.iter_mut().for_each(|exit| exit.to.flush());
        std::mem::take(&mut self.way.report)
    }
}
