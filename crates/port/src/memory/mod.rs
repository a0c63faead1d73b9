//! Ports in this process: bounded rings between a switch and whoever plays its hosts.
//!
//! A [`Memory`] port has a far end, a [`Handle`], through which tests, the demo and benches put
//! frames in ([`Handle::inject`]) and take out what the switch sent ([`Handle::take`]). Two ports
//! can also be joined back to back ([`cable`]). Named ends are kept in a registry, so that a
//! specification `memory:NAME` and code in the same process meet by name, whoever comes first.
//!
//! Each direction is a ring under a mutex that is held for a burst at a time, with an eventfd that
//! is readable exactly while the ring has frames.
//!
//! Invariants: a ring never holds more than its capacity; a frame that finds it full is counted.
//! `readable(eventfd) == !frames.is_empty()`, as both change under the lock.
//! Cost: one lock a burst; one system call when a ring becomes filled, one when it becomes empty.

mod kind;

pub use kind::KIND;

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};

use crate::{
    Burst, DropReason, Error, Frame, KernelStats, LinkState, Pool, Port, PortInfo, RxError,
    RxQueue, TxQueue, TxReport, gso,
};

/// How a memory port is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frames in flight in each direction and queue, at most.
    pub capacity: usize,
    /// Payload bytes of a frame, as [`PortInfo::mtu`].
    pub mtu: u32,
    /// Whether frames leave with their offload or completed in software.
    pub carries_offload: bool,
    /// Receive queues of the port.
    pub rx_queues: usize,
    /// Speed told to controllers, in kb/s.
    pub speed_kbps: u32,
    /// Bytes of a frame that may leave, at least: those of an Ethernet header, unless the frames are none.
    pub shortest: usize,
    /// Frames begin with a descriptor, as those of a tunnel port do.
    pub described: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            capacity: 4096,
            mtu: 1500,
            carries_offload: true,
            rx_queues: 1,
            speed_kbps: 10_000_000,
            shortest: gso::ETH_LEN,
            described: false,
        }
    }
}

/// The control side of a memory port.
pub struct Memory {
    info: PortInfo,
    link: Arc<Link>,
    side: Side,
    opened: Vec<bool>,
    admin_up: bool,
}

/// The far end of a memory port; clones share it.
#[derive(Clone)]
pub struct Handle {
    link: Arc<Link>,
}

/// Which end of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Near,
    Far,
}

/// Both directions of a link.
struct Link {
    name: String,
    config: Config,
    /// Towards the near end, one ring for each of its receive queues.
    inward: Vec<Ring>,
    /// Towards the far end.
    outward: Vec<Ring>,
    state: Mutex<LinkFlags>,
}

#[derive(Default)]
struct LinkFlags {
    near_open: bool,
    near_down: bool,
    far_down: bool,
    carrier_off: bool,
}

/// Makes an unregistered port and its far end.
pub fn port(name: &str, config: Config) -> Result<(Memory, Handle), Error> {
    let link = Link::new(name, config)?;
    let memory = Memory::on(link.clone(), Side::Near, name);
    Ok((memory, Handle { link }))
}

/// Makes two ports joined back to back: what one sends, the other receives.
pub fn cable(name_a: &str, name_b: &str, config: Config) -> Result<(Memory, Memory), Error> {
    let link = Link::new(name_a, config)?;
    let a = Memory::on(link.clone(), Side::Near, name_a);
    Ok((a, Memory::on(link, Side::Far, name_b)))
}

/// Opens the port of a name, as `memory:NAME` says. Fails if it is open already.
pub fn open(name: &str) -> Result<Memory, Error> {
    let link = find_or_make(name)?;
    let mut flags = lock(&link.state);
    if flags.near_open {
        return Err(Error::Busy { name: name.to_owned(), what: "the memory port of this name" });
    }
    flags.near_open = true;
    drop(flags);
    Ok(Memory::on(link, Side::Near, name))
}

/// The far end of the port of a name, whether or not the port is open yet.
pub fn attach(name: &str) -> Result<Handle, Error> {
    Ok(Handle { link: find_or_make(name)? })
}

/// As [`attach`], of a port that is made so; one that is there already must be the same.
pub fn attach_as(name: &str, config: Config) -> Result<Handle, Error> {
    let link = find_or_make_as(name, config.clone())?;
    match link.config == config {
        true => Ok(Handle { link }),
        false => Err(Error::Busy { name: name.to_owned(), what: "the memory port of this name" }),
    }
}

fn find_or_make(name: &str) -> Result<Arc<Link>, Error> {
    find_or_make_as(name, Config::default())
}

fn find_or_make_as(name: &str, config: Config) -> Result<Arc<Link>, Error> {
    static NAMED: Mutex<Option<HashMap<String, Weak<Link>>>> = Mutex::new(None);
    let mut named = lock(&NAMED);
    let named = named.get_or_insert_default();
    named.retain(|_, link| link.strong_count() > 0);
    if let Some(link) = named.get(name).and_then(Weak::upgrade) {
        return Ok(link);
    }
    let link = Link::new(name, config)?;
    named.insert(name.to_owned(), Arc::downgrade(&link));
    Ok(link)
}

/// A lock whose content stays valid whatever its holder did: every change under it is complete in
/// itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    fn new(name: &str, config: Config) -> Result<Arc<Link>, Error> {
        let queues = config.rx_queues.max(1);
        let rings = |n: usize| -> Result<Vec<Ring>, Error> {
            (0..n).map(|_| Ring::new(name, config.capacity)).collect()
        };
        Ok(Arc::new(Link {
            name: name.to_owned(),
            inward: rings(queues)?,
            outward: rings(1)?,
            state: Mutex::default(),
            config,
        }))
    }
}

impl Memory {
    fn on(link: Arc<Link>, side: Side, name: &str) -> Memory {
        let rx_queues = if side == Side::Near { link.inward.len() } else { link.outward.len() };
        let info = PortInfo {
            name: name.to_owned(),
            kind: "memory",
            mac: crate::mac_of_name(name),
            mtu: link.config.mtu,
            curr_speed_kbps: link.config.speed_kbps,
            carries_offload: link.config.carries_offload,
            described: link.config.described,
            rx_queues,
            warnings: Vec::new(),
        };
        Memory { info, link, side, opened: vec![false; rx_queues], admin_up: true }
    }
}

impl Port for Memory {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn link(&mut self) -> LinkState {
        let flags = lock(&self.link.state);
        let peer_down = if self.side == Side::Near { flags.far_down } else { flags.near_down };
        let carrier = !flags.carrier_off && !peer_down && self.admin_up;
        LinkState { admin_up: self.admin_up, carrier, present: true }
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        self.admin_up = up;
        let mut flags = lock(&self.link.state);
        match self.side {
            Side::Near => flags.near_down = !up,
            Side::Far => flags.far_down = !up,
        }
        Ok(())
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.info.check_rx_queue(queue, self.opened.get(queue) == Some(&true))?;
        self.opened[queue] = true;
        Ok(Box::new(Rx { link: self.link.clone(), side: self.side, queue }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let queue = Tx {
            link: self.link.clone(),
            side: self.side,
            spread: 0,
            pending: Vec::new(),
            spare: Pool::default(),
            report: TxReport::default(),
        };
        Ok(Box::new(queue))
    }

    fn kernel_stats(&mut self) -> KernelStats {
        let rings = if self.side == Side::Near { &self.link.inward } else { &self.link.outward };
        let rx_dropped = rings.iter().map(|r| lock(&r.queue).refused).sum();
        KernelStats { rx_dropped, ..KernelStats::default() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.side == Side::Near {
            lock(&self.link.state).near_open = false;
        }
    }
}

impl Handle {
    /// The port's name.
    pub fn name(&self) -> &str {
        &self.link.name
    }

    /// Puts a frame where the port will receive it (queue 0); gives it back when the ring is full,
    /// which [`Port::kernel_stats`] counts.
    // The frame comes back whole so that it can be put in again.
    #[allow(clippy::result_large_err)]
    pub fn inject(&self, frame: Frame) -> Result<(), Frame> {
        self.inject_at(0, frame)
    }

    /// As [`inject`](Handle::inject), at a given receive queue (modulo how many there are).
    // As above.
    #[allow(clippy::result_large_err)]
    pub fn inject_at(&self, queue: usize, frame: Frame) -> Result<(), Frame> {
        let ring = &self.link.inward[queue % self.link.inward.len()];
        let mut once = Some(frame);
        match ring.push_all(|| once.take()) {
            None => Ok(()),
            Some(frame) => {
                lock(&ring.queue).refused += 1;
                Err(frame)
            }
        }
    }

    /// Puts a copy of `bytes` in; says whether there was room.
    pub fn inject_bytes(&self, bytes: &[u8]) -> bool {
        self.inject(Frame::copy_of(bytes)).is_ok()
    }

    /// Takes one frame that the switch sent, if there is one.
    pub fn take(&self) -> Option<Frame> {
        let mut taken = None;
        self.link.outward[0].pop(1, |frame| taken = Some(frame));
        taken
    }

    /// Takes up to `max` frames that the switch sent, in order, and returns how many.
    pub fn take_into(&self, max: usize, sink: impl FnMut(Frame)) -> usize {
        self.link.outward[0].pop(max, sink)
    }

    /// Readable while [`take`](Handle::take) has something to give.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.link.outward[0].ready.as_fd()
    }

    /// Waits until [`take`](Handle::take) has a frame and takes it; `None` after `timeout`.
    pub fn take_within(&self, timeout: std::time::Duration) -> Option<Frame> {
        let until = std::time::Instant::now() + timeout;
        loop {
            if let Some(frame) = self.take() {
                return Some(frame);
            }
            let left = until.checked_duration_since(std::time::Instant::now())?;
            crate::wait_readable(self.fd(), left);
        }
    }

    /// Plugs (`true`) or pulls the cable: the port's carrier follows.
    pub fn set_carrier(&self, on: bool) {
        lock(&self.link.state).carrier_off = !on;
    }
}

/// Frames on their way in one direction.
struct Ring {
    queue: Mutex<RingQueue>,
    ready: OwnedFd,
    capacity: usize,
}

#[derive(Default)]
struct RingQueue {
    frames: VecDeque<Frame>,
    refused: u64,
}

impl Ring {
    fn new(name: &str, capacity: usize) -> Result<Ring, Error> {
        let ready = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|e| Error::io(name, "making an eventfd", "", e))?;
        Ok(Ring { queue: Mutex::default(), ready, capacity: capacity.max(1) })
    }

    /// Takes frames from `source` until it has no more; returns the first that found no room.
    fn push_all(&self, mut source: impl FnMut() -> Option<Frame>) -> Option<Frame> {
        let mut queue = lock(&self.queue);
        let was_empty = queue.frames.is_empty();
        let mut left = None;
        while let Some(frame) = source() {
            if queue.frames.len() >= self.capacity {
                left = Some(frame);
                break;
            }
            queue.frames.push_back(frame);
        }
        if was_empty && !queue.frames.is_empty() {
            // An eventfd refuses only a count of 2^64 - 1; it goes from 0 to 1 here.
            let _ = rustix::io::write(&self.ready, &1u64.to_ne_bytes());
        }
        left
    }

    fn pop(&self, max: usize, mut sink: impl FnMut(Frame)) -> usize {
        let mut queue = lock(&self.queue);
        let n = max.min(queue.frames.len());
        if n == 0 {
            return 0;
        }
        queue.frames.drain(..n).for_each(&mut sink);
        if queue.frames.is_empty() {
            // Reads the 1 back; it cannot fail, as the count is 1 while there are frames.
            let _ = rustix::io::read(&self.ready, &mut [0u8; 8]);
        }
        n
    }
}

struct Rx {
    link: Arc<Link>,
    side: Side,
    queue: usize,
}

impl Rx {
    fn ring(&self) -> &Ring {
        match self.side {
            Side::Near => &self.link.inward[self.queue],
            Side::Far => &self.link.outward[self.queue],
        }
    }
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, _pool: &mut Pool) -> Result<usize, RxError> {
        let room = burst.room();
        // `pop` gives at most `room` frames, so `push` cannot refuse one.
        Ok(self.ring().pop(room, |frame| drop(burst.push(frame))))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring().ready.as_fd())
    }
}

struct Tx {
    link: Arc<Link>,
    side: Side,
    spread: usize,
    pending: Vec<Frame>,
    spare: Pool,
    report: TxReport,
}

impl Tx {
    fn check(&self, frame: &Frame) -> Result<(), DropReason> {
        let flags = lock(&self.link.state);
        if flags.near_down || flags.far_down || flags.carrier_off {
            return Err(DropReason::TxLinkDown);
        }
        drop(flags);
        if frame.len() < self.link.config.shortest {
            return Err(DropReason::TxTooShort);
        }
        match frame.len() < gso::ETH_LEN {
            true => Ok(()),
            false => gso::check_len(frame, self.link.config.mtu),
        }
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.check(frame)?;
        if frame.offload.is_plain() || self.link.config.carries_offload {
            let copy = self.spare.clone_of(frame);
            self.pending.push(copy);
            return Ok(());
        }
        gso::complete(frame, &mut self.spare, |part| self.pending.push(part))
    }

    fn tx_owned(&mut self, frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        if frame.offload.is_plain() || self.link.config.carries_offload {
            let result = self.check(&frame);
            match result {
                Ok(()) => self.pending.push(frame),
                Err(_) => pool.give(frame),
            }
            return result;
        }
        let result = self.tx(&frame);
        pool.give(frame);
        result
    }

    fn flush(&mut self) -> TxReport {
        let rings = match self.side {
            Side::Near => &self.link.outward,
            Side::Far => &self.link.inward,
        };
        let ring = &rings[self.spread % rings.len()];
        self.spread = self.spread.wrapping_add(1);
        let report = &mut self.report;
        let (mut frames, mut bytes) = (0, 0);
        let mut waiting = self.pending.drain(..);
        let mut refused = ring.push_all(|| {
            let frame = waiting.next()?;
            frames += 1;
            bytes += frame.len() as u64;
            Some(frame)
        });
        if let Some(frame) = refused.take() {
            frames -= 1;
            bytes -= frame.len() as u64;
            self.spare.give(frame);
            report.drops.add(DropReason::TxRingFull, 1);
            for frame in waiting {
                self.spare.give(frame);
                report.drops.add(DropReason::TxRingFull, 1);
            }
        }
        report.sent += frames;
        report.sent_bytes += bytes;
        std::mem::take(report)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn small(capacity: usize) -> Config {
        Config { capacity, ..Config::default() }
    }

    fn readable(fd: BorrowedFd<'_>) -> bool {
        crate::wait_readable(fd, Duration::ZERO)
    }

    #[test]
    fn passes_frames_both_ways_with_their_offload() {
        let (mut port, far) = port("m", Config::default()).unwrap();
        let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue().unwrap());
        let (mut burst, mut pool) = (Burst::new(), Pool::new());
        assert!(!readable(rx.fd().unwrap()));
        let mut frame = Frame::copy_of(&[1; 60]);
        frame.offload.csum = crate::Csum::Partial { start: 34, offset: 16 };
        far.inject(frame).unwrap();
        assert!(readable(rx.fd().unwrap()));
        assert_eq!(rx.rx(&mut burst, &mut pool).unwrap(), 1);
        assert!(!readable(rx.fd().unwrap()));
        assert_eq!(rx.rx(&mut burst, &mut pool).unwrap(), 0);
        let frame = burst.drain().next().unwrap();
        let offload = frame.offload;
        tx.tx(&frame).unwrap();
        tx.tx_owned(frame, &mut pool).unwrap();
        assert!(far.take().is_none());
        let report = tx.flush();
        assert_eq!((report.sent, report.sent_bytes, report.drops.total()), (2, 120, 0));
        assert!(readable(far.fd()));
        assert_eq!(far.take().unwrap().offload, offload);
        assert_eq!(far.take_within(Duration::ZERO).unwrap().data(), [1; 60]);
        assert!(far.take().is_none() && !readable(far.fd()));
    }

    #[test]
    fn full_rings_count_once() {
        let (mut port, far) = port("m", small(2)).unwrap();
        for i in 0..3 {
            assert_eq!(far.inject_bytes(&[i; 60]), i < 2);
        }
        assert_eq!(port.kernel_stats().rx_dropped, 1);
        let mut tx = port.tx_queue().unwrap();
        for _ in 0..5 {
            tx.tx(&Frame::copy_of(&[0; 60])).unwrap();
        }
        let report = tx.flush();
        assert_eq!((report.sent, report.drops.get(DropReason::TxRingFull)), (2, 3));
        assert_eq!(tx.flush(), TxReport::default());
    }

    #[test]
    fn refuses_what_does_not_fit_and_a_pulled_cable() {
        let (mut port, far) = port("m", Config::default()).unwrap();
        let mut tx = port.tx_queue().unwrap();
        assert_eq!(tx.tx(&Frame::copy_of(&[0; 13])), Err(DropReason::TxTooShort));
        assert_eq!(tx.tx(&Frame::copy_of(&[0; 1523])), Err(DropReason::TxTooLong));
        assert_eq!(tx.tx(&Frame::copy_of(&[0; 1522])), Ok(()));
        far.set_carrier(false);
        assert_eq!(tx.tx(&Frame::copy_of(&[0; 60])), Err(DropReason::TxLinkDown));
        assert!(!port.link().is_up());
        far.set_carrier(true);
        assert_eq!(port.link(), LinkState::UP);
        port.set_admin(false).unwrap();
        assert_eq!(tx.tx(&Frame::copy_of(&[0; 60])), Err(DropReason::TxLinkDown));
    }

    #[test]
    fn frames_may_be_shorter_than_a_header_where_that_is_asked() {
        let config = Config { shortest: 1, ..Config::default() };
        let far = attach_as("memory-short", config.clone()).unwrap();
        assert!(attach_as("memory-short", config).is_ok());
        assert!(matches!(attach_as("memory-short", small(1)), Err(Error::Busy { .. })));
        let mut port = open("memory-short").unwrap();
        let mut tx = port.tx_queue().unwrap();
        assert_eq!(tx.tx(&Frame::copy_of(&[])), Err(DropReason::TxTooShort));
        assert_eq!(tx.tx(&Frame::copy_of(&[5; 2])), Ok(()));
        tx.flush();
        assert_eq!(far.take().unwrap().data(), [5; 2]);
        assert_eq!(tx.tx(&Frame::copy_of(&[0; 1523])), Err(DropReason::TxTooLong));
    }

    #[test]
    fn queues_open_once() {
        let (mut port, _far) = port("m", Config { rx_queues: 2, ..small(9) }).unwrap();
        assert!(port.rx_queue(0).is_ok() && port.rx_queue(1).is_ok());
        assert!(matches!(port.rx_queue(1), Err(Error::Busy { .. })));
        assert!(matches!(port.rx_queue(2), Err(Error::NoQueue { queue: 2, queues: 2, .. })));
    }

    #[test]
    fn named_ends_meet_in_any_order() {
        let far = attach("memory-test-a").unwrap();
        let mut port = open("memory-test-a").unwrap();
        assert!(matches!(open("memory-test-a"), Err(Error::Busy { .. })));
        far.inject_bytes(&[5; 60]);
        let mut burst = Burst::new();
        port.rx_queue(0).unwrap().rx(&mut burst, &mut Pool::new()).unwrap();
        assert_eq!(burst.frames()[0].data(), [5; 60]);
        drop(port);
        assert!(open("memory-test-a").is_ok());
    }

    #[test]
    fn cables_join_two_ports() {
        let (mut a, mut b) = cable("a", "b", Config::default()).unwrap();
        let (mut tx, mut rx) = (a.tx_queue().unwrap(), b.rx_queue(0).unwrap());
        let mut burst = Burst::new();
        for i in 0..100u8 {
            tx.tx(&Frame::copy_of(&[i; 60])).unwrap();
        }
        assert_eq!(tx.flush().sent, 100);
        let mut next = 0;
        while rx.rx(&mut burst, &mut Pool::new()).unwrap() > 0 {
            for frame in burst.drain() {
                assert_eq!(frame.data()[0], next);
                next += 1;
            }
        }
        assert_eq!(next, 100);
        b.set_admin(false).unwrap();
        assert!(!a.link().carrier);
    }

    #[test]
    fn completes_offloads_for_ports_without() {
        let config = Config { carries_offload: false, ..Config::default() };
        let (mut port, far) = port("m", config).unwrap();
        let mut tx = port.tx_queue().unwrap();
        let mut frame = Frame::copy_of(&[1; 60]);
        frame.offload.csum = crate::Csum::Partial { start: 34, offset: 16 };
        tx.tx_owned(frame, &mut Pool::new()).unwrap();
        tx.flush();
        let done = far.take().unwrap();
        assert!(done.offload.is_plain());
        assert_ne!(done.data()[50..52], [1, 1]);
    }

    /// A sleeper wakes for every frame, whatever the interleaving.
    #[test]
    fn wakes_sleepers() {
        let (mut port, far) = port("m", small(4)).unwrap();
        let mut rx = port.rx_queue(0).unwrap();
        let feeder = std::thread::spawn(move || {
            for i in 0..2000u32 {
                while !far.inject_bytes(&i.to_be_bytes()) {
                    std::thread::yield_now();
                }
            }
        });
        let (mut burst, mut pool, mut next) = (Burst::new(), Pool::new(), 0u32);
        while next < 2000 {
            assert!(crate::wait_readable(rx.fd().unwrap(), Duration::from_secs(5)), "lost wake-up");
            rx.rx(&mut burst, &mut pool).unwrap();
            for frame in burst.frames() {
                assert_eq!(frame.data(), next.to_be_bytes());
                next += 1;
            }
            burst.recycle(&mut pool);
        }
        feeder.join().unwrap();
    }
}
