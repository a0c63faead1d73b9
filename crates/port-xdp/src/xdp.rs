//! The port: control side and queues around a `socket`.
//!
//! An interface that is deleted takes socket, memory and program with it. When it is there again,
//! [`Port::link`] opens all of them anew and puts them into the queues' hands; workers notice
//! nothing but a pause. The descriptor that a worker sleeps on is an epoll instance that stays, with
//! the socket of the day in it.
//!
//! Each queue of the interface has a socket: a receive queue of the port. Workers send through one of
//! the sockets, each through its own while there are as many, under a lock taken once a burst.
//!
//! With `send=live`, a burst that has gathered leaves past the ring, as frames of a test run ([`Live`]), while the
//! interface takes such; whether it does is looked at when the port is opened and by [`Port::sending`]. Order is kept:
//! what is in the ring leaves first.
//!
//! A frame stays in the chunk that it was received into, also when it leaves by another AF_XDP port. Copied
//! are frames of other kinds of port, all but the last copy of a frame that goes to several ports, those
//! that are cut into segments, and frames that come in while no idle chunk is to be had.
//!
//! Cost: a lock a burst in each direction; a system call a burst where the driver sleeps (always with veth
//! and in generic mode).
//! Checked by: `tests/namespaces.rs`, `tests/shared_memory.rs`.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::settings::{Mode, SendBy, Settings};
use port::link::{Link, Totals, Watcher, XdpFeatures};
use port::{
    BURST_MAX, Burst, DropReason, Drops, Error, Frame, KernelStats, LinkState, Offload, Pool, Port,
    PortInfo, RxError, RxQueue, TxQueue, TxReport, gso,
};
use rustix::event::epoll;

use crate::live::{LIVE_MAX, LIVE_MIN, Live};
use crate::socket::{self, Attachment, Base, Opened, Received, RxHalf, TxHalf};
use crate::umem::{self, CHUNK_BYTES, Chunk, Local, Placed, Seats, Umem};

/// Why bursts leave by the ring, where nothing else was asked for.
const NOT_LIVE: &str = "there is no other way yet";

/// The control side.
pub struct Xdp {
    info: PortInfo,
    /// Its name in the switch.
    called: String,
    /// The interface's queues that the port takes.
    queues: Vec<u32>,
    mode: Mode,
    busy_poll_us: Option<u32>,
    send: SendBy,
    /// Asked whether frames can leave past the ring, if they are to.
    features: Option<XdpFeatures>,
    native: bool,
    watcher: Watcher,
    ifindex: Option<u32>,
    attachment: Option<Attachment>,
    shared: Arc<Shared>,
    bases: Vec<Arc<Base>>,
    rx_open: Vec<bool>,
    /// Transmit queues given out so far.
    tx_given: usize,
    totals: Totals,
    /// Receive drops of sockets that are gone.
    past_dropped: u64,
    /// The memory of its sockets.
    seats: Seats,
}

/// What queues and control side share.
struct Shared {
    /// As many as the port has receive queues.
    sockets: Vec<Socket>,
    /// Wanted up and with carrier, when we last looked.
    up: AtomicBool,
    /// Whether unfinished checksums may come in: the interface is virtual.
    owes: AtomicBool,
    /// Payload bytes of a frame, when we last looked.
    mtu: AtomicU32,
    /// How bursts leave past the rings, or why they do not.
    live: Mutex<Result<Live, String>>,
    /// Whether they do: there is a way, and the interface took such frames when we last looked.
    goes_live: AtomicBool,
}

/// The socket of a queue, while there is one.
struct Socket {
    rx: Mutex<Option<RxHalf>>,
    tx: Mutex<Option<TxHalf>>,
    /// Readable while frames may be waiting: an epoll instance, which outlives the socket.
    ready: OwnedFd,
    /// Whether the socket is in the instance; changed under `rx`. While it is, the kernel wakes whoever might
    /// sleep for each frame that comes, and for each that is sent, which takes up to a fourth of the time that a
    /// frame takes. So the one who receives takes it out while there is work, and puts it back before it sleeps.
    watched: AtomicBool,
}

impl Socket {
    /// Puts the socket into the instance.
    fn watch(&self, rx: &RxHalf) -> std::io::Result<()> {
        if !self.watched.load(Relaxed) {
            let event = epoll::EventData::new_u64(0);
            epoll::add(&self.ready, rx.base().fd(), event, epoll::EventFlags::IN)?;
            self.watched.store(true, Relaxed);
        }
        Ok(())
    }

    /// Takes it out.
    #[cold]
    fn look_away(&self, rx: &RxHalf) {
        if let Err(error) = epoll::delete(&self.ready, rx.base().fd()) {
            tracing::debug!(%error, "the socket stays watched, which costs speed");
        } else {
            self.watched.store(false, Relaxed);
        }
    }
}

/// The halves are whole whatever a holder did: every step leaves the rings consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Xdp {
    /// Opens queues of the interface and brings the interface up.
    pub fn open(spec: &Settings) -> Result<Xdp, Error> {
        let name = spec.interface.as_str();
        port::check_interface_name(name)?;
        let (watcher, link) = port::link::bring_up(name, NEEDS)?;
        let queues: Vec<u32> = match spec.queue {
            Some(queue) => vec![queue],
            None => (0..port::link::rx_queues(&watcher, name)).collect(),
        };
        let seats = Seats::take(queues.len() as u32)
            .map_err(|e| Error::io(name, "mapping the frames' memory", NEEDS, e))?;
        let socket = |_: &u32| {
            let ready = epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(|e| Error::io(name, "making an epoll instance", NEEDS, e))?;
            let watched = AtomicBool::new(false);
            Ok(Socket { rx: Mutex::new(None), tx: Mutex::new(None), ready, watched })
        };
        let shared = Arc::new(Shared {
            sockets: queues.iter().map(socket).collect::<Result<_, Error>>()?,
            up: AtomicBool::new(true),
            owes: AtomicBool::new(false),
            mtu: AtomicU32::new(link.mtu),
            live: Mutex::new(Err(NOT_LIVE.to_owned())),
            goes_live: AtomicBool::new(false),
        });
        let info = PortInfo {
            name: name.to_owned(),
            kind: "af_xdp",
            mac: link.mac,
            mtu: link.mtu,
            curr_speed_kbps: port::link::speed_kbps(&watcher, name).unwrap_or(0),
            carries_offload: false,
            described: false,
            rx_queues: queues.len(),
            warnings: Vec::new(),
        };
        let mut port = Xdp {
            info,
            called: name.to_owned(),
            rx_open: vec![false; queues.len()],
            queues,
            mode: spec.mode,
            busy_poll_us: spec.busy_poll_us,
            send: spec.send,
            features: None,
            native: false,
            watcher,
            ifindex: None,
            attachment: None,
            shared,
            bases: Vec::new(),
            tx_given: 0,
            totals: Totals::starting_at(link.stats),
            past_dropped: 0,
            seats,
        };
        port.attach(&link)?;
        port.info.warnings = warnings(&port, &link);
        Ok(port)
    }

    /// Whether the program runs in the driver.
    pub fn is_native(&self) -> bool {
        self.native
    }

    /// Opens sockets and program on the interface, in the first mode that works. One that came back
    /// with fewer queues is served by as many.
    fn attach(&mut self, link: &Link) -> Result<(), Error> {
        let modes: &[bool] = match self.mode {
            Mode::Auto => &[true, false],
            Mode::Native => &[true],
            Mode::Generic => &[false],
        };
        let mut refused = None;
        let there = port::link::rx_queues(&self.watcher, &self.info.name);
        let queues: Vec<u32> = match &self.queues[..] {
            [only] => vec![*only],
            all => all.iter().copied().filter(|queue| *queue < there).collect(),
        };
        let busy_poll_us = self.busy_poll_us;
        for &native in modes {
            let live = self.send == SendBy::Live;
            let how = socket::How { native, busy_poll_us, live };
            match socket::open(link.index, &queues, how, self.seats.umem()) {
                Ok(Opened { sockets, attachment, live }) => {
                    self.native = native;
                    self.shared.owes.store(!link.kind.is_empty(), Relaxed);
                    for ((rx, tx), place) in sockets.into_iter().zip(&self.shared.sockets) {
                        self.bases.push(rx.base().clone());
                        place.watch(&rx).map_err(|e| self.failed("watching the socket", e))?;
                        *lock(&place.rx) = Some(rx);
                        *lock(&place.tx) = Some(tx);
                    }
                    self.attachment = Some(attachment);
                    self.ifindex = Some(link.index);
                    *lock(&self.shared.live) = live;
                    self.sending();
                    return Ok(());
                }
                Err((action, error)) => {
                    tracing::debug!(port = %self.called, interface = %self.info.name, native, action, %error, "declined");
                    refused = Some(self.failed(action, error));
                }
            }
        }
        Err(refused.unwrap_or_else(|| Error::NoInterface { name: self.info.name.clone() }))
    }

    /// Lets go of everything that belonged to an interface that is gone.
    fn detach(&mut self) {
        for base in self.bases.drain(..) {
            self.past_dropped += dropped(&base);
        }
        for socket in &self.shared.sockets {
            // Closing the socket takes it out of the epoll instance.
            let mut rx = lock(&socket.rx);
            *rx = None;
            socket.watched.store(false, Relaxed);
            drop(rx);
            *lock(&socket.tx) = None;
        }
        self.shared.goes_live.store(false, Relaxed);
        *lock(&self.shared.live) = Err(NOT_LIVE.to_owned());
        self.attachment = None;
        self.ifindex = None;
    }

    /// Whether bursts can leave past the ring now; if not, why.
    fn can_go_live(&mut self) -> Result<(), String> {
        lock(&self.shared.live).as_ref().map_err(Clone::clone)?;
        let failed =
            |e| format!("the kernel does not say whether the interface takes XDP frames: {e}");
        let index = self.ifindex.ok_or_else(|| NOT_LIVE.to_owned())?;
        if self.features.is_none() {
            self.features = Some(XdpFeatures::open().map_err(failed)?);
        }
        match self.features.as_mut().map(|features| features.takes_frames(index)) {
            Some(Ok(true)) => Ok(()),
            Some(Err(e)) => Err(failed(e)),
            _ => Err("the interface takes no XDP frames; a veth does while its peer has an XDP program, or by \
                      `ethtool -K PEER gro on` in the peer's namespace"
                .to_owned()),
        }
    }

    fn failed(&self, action: &'static str, error: std::io::Error) -> Error {
        let name = self.info.name.clone();
        match error.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Error::Unsupported {
                name,
                what: format!(
                    "{action} failed, as somebody else uses queue {} or has a program attached; \
                     `ip link show` names it, `ip link set dev {} xdp off` takes it off",
                    words(&self.queues),
                    self.info.name
                ),
            },
            Some(libc::EAFNOSUPPORT) => Error::Unsupported {
                name,
                what: "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS); use af_packet".to_owned(),
            },
            _ => Error::io(&name, action, NEEDS, error),
        }
    }
}

/// Numbers as a sentence names them.
fn words(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
}

/// The capabilities an AF_XDP port needs.
pub(crate) const NEEDS: &str = "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF";

/// What a user should know, given what the interface is.
fn warnings(port: &Xdp, link: &Link) -> Vec<String> {
    let mut warnings = Vec::new();
    if link.kind == "veth" {
        warnings.push(if port.native {
            "af_xdp cannot carry segmentation offload: the kernel has switched TSO and GSO off at \
             the peer while this port is open, so its TCP is slower; af_packet carries them"
                .to_owned()
        } else {
            "af_xdp in generic mode loses TSO/GSO frames of the peer, and its TCP stands still; remedy, in the peer's \
             namespace: ethtool -K PEER tso off gso off; or use mode=native or af_packet"
                .to_owned()
        });
    }
    let there = port::link::rx_queues(&port.watcher, &port.info.name);
    if there as usize > port.queues.len() {
        warnings.push(format!(
            "the interface spreads frames over {there} queues, of which this port takes queue {}; \
             remedy: leave out queue=, or ethtool -L {} combined 1 (or rx 1)",
            words(&port.queues),
            port.info.name
        ));
    }
    warnings
}

/// Frames that a socket lost before we could take them.
fn dropped(base: &Base) -> u64 {
    base.statistics().map_or(0, |s| s.rx_dropped + s.rx_ring_full)
}

impl Port for Xdp {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.called);
    }

    fn link(&mut self) -> LinkState {
        self.watcher.drain();
        let state = match self.watcher.query(&self.info.name) {
            Ok(Some(link)) => {
                if self.ifindex.is_some_and(|index| index != link.index) {
                    self.detach();
                }
                if self.ifindex.is_none() {
                    // It may vanish again at this very moment; the next call tries anew.
                    if let Err(error) = self.attach(&link) {
                        tracing::warn!(port = %self.called, interface = %self.info.name, %error, "could not re-open the interface");
                        self.detach();
                        self.shared.up.store(false, Relaxed);
                        return LinkState::GONE;
                    }
                    tracing::info!(port = %self.called, interface = %self.info.name, ifindex = link.index, "re-opened");
                    self.totals.restart();
                    if !link.state.admin_up {
                        // As at the first opening; if it fails, the state says so.
                        let _ = self.watcher.set_up(link.index, true);
                    }
                }
                self.info.mac = link.mac;
                self.info.mtu = link.mtu;
                self.shared.mtu.store(link.mtu, Relaxed);
                self.totals.see(link.stats);
                link.state
            }
            _ => {
                self.detach();
                LinkState::GONE
            }
        };
        self.shared.up.store(state.is_up(), Relaxed);
        state
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watcher.fd())
    }

    fn glance(&self) -> Option<bool> {
        port::link::carrier(&self.watcher, &self.info.name)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        let name = || self.info.name.clone();
        let ifindex = self.ifindex.ok_or_else(|| Error::NoInterface { name: name() })?;
        let done = self.watcher.set_up(ifindex, up);
        done.map_err(|e| Error::io(&self.info.name, "bringing it up or down", NEEDS, e))
    }

    fn sending(&mut self) -> Option<String> {
        if self.send != SendBy::Live {
            return None;
        }
        let can = self.can_go_live();
        self.shared.goes_live.store(can.is_ok(), Relaxed);
        Some(match can {
            Ok(()) => format!("bursts of {LIVE_MIN} and more as live XDP frames"),
            Err(reason) => format!("all by the ring, as {reason}"),
        })
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.info.check_rx_queue(queue, self.rx_open.get(queue) == Some(&true))?;
        self.rx_open[queue] = true;
        let (shared, umem) = (self.shared.clone(), self.seats.umem());
        let (drops, asked) = (Drops::default(), Cell::new(0));
        Ok(Box::new(Rx { shared, umem, queue, drops, asked }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let queue = self.tx_given % self.queues.len();
        self.tx_given += 1;
        Ok(Box::new(Tx {
            shared: self.shared.clone(),
            umem: self.seats.umem(),
            queue,
            pending: Vec::with_capacity(LIVE_MAX),
            spare: Pool::default(),
            report: TxReport::default(),
        }))
    }

    fn kernel_stats(&mut self) -> KernelStats {
        if let Ok(Some(link)) = self.watcher.query(&self.info.name)
            && self.ifindex == Some(link.index)
        {
            self.totals.see(link.stats);
        }
        let now: u64 = self.bases.iter().map(|base| dropped(base)).sum();
        KernelStats { rx_dropped: self.past_dropped + now, ..self.totals.total() }
    }
}

/// The socket closes when the last half is dropped; queues may outlive the port, frames may not.
impl Drop for Xdp {
    fn drop(&mut self) {
        self.detach();
    }
}

struct Rx {
    shared: Arc<Shared>,
    umem: &'static Umem,
    /// Its place among the port's sockets.
    queue: usize,
    drops: Drops,
    /// How often it was asked since its worker last slept, or wanted to.
    asked: Cell<u32>,
}

/// A worker that has asked so often without a pause has work, if not from this queue. An idle one goes to sleep
/// after fewer rounds.
const AWAKE: u32 = 256;

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let socket = &self.shared.sockets[self.queue];
        let mut half = lock(&socket.rx);
        let Some(half) = half.as_mut() else { return Err(RxError::Gone) };
        let owes = self.shared.owes.load(Relaxed);
        let (umem, drops, room, before) = (self.umem, &mut self.drops, burst.room(), burst.len());
        let mut now = 0;
        let received = half.receive(room, |received| {
            // No more are received than there is room for.
            let frame = match received {
                Received::Corrupt => None,
                Received::Placed(placed) => burst.add().map(|frame| umem.borrow(placed, frame)),
                Received::Bytes(bytes) => burst.add().map(|frame| {
                    *frame = pool.copy_of(bytes);
                    frame
                }),
            };
            let Some(frame) = frame else { return drops.add(DropReason::RxCorrupt, 1) };
            if now == 0 {
                now = port::now_ns();
            }
            frame.rx_ns = now;
            if owes {
                frame.offload = Offload { csum: gso::find_debt(frame.data()), gso: None };
            }
        });
        self.asked.set(self.asked.get().saturating_add(1));
        if socket.watched.load(Relaxed) && (received > 0 || self.asked.get() > AWAKE) {
            socket.look_away(half);
        }
        Ok(burst.len() - before)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        let socket = &self.shared.sockets[self.queue];
        self.asked.set(0);
        // Frames that have come meanwhile make it readable at once. A socket of an interface that comes
        // back is watched from the start; one that cannot be watched has to be asked.
        match lock(&socket.rx).as_ref().map(|rx| socket.watch(rx)) {
            Some(Err(_)) => None,
            _ => Some(socket.ready.as_fd()),
        }
    }

    fn drops(&self) -> Drops {
        self.drops
    }
}

struct Tx {
    shared: Arc<Shared>,
    umem: &'static Umem,
    /// Its place among the port's sockets.
    queue: usize,
    /// Frames that were accepted and are in no ring yet.
    pending: Vec<Placed>,
    spare: Pool,
    report: TxReport,
}

impl Shared {
    /// The sending half of a queue, or of the first where the interface has lost that one.
    fn tx(&self, queue: usize) -> MutexGuard<'_, Option<TxHalf>> {
        let half = lock(&self.sockets[queue].tx);
        if half.is_none() && queue > 0 { lock(&self.sockets[0].tx) } else { half }
    }
}

impl Tx {
    /// Whether the port could send the frame now.
    #[inline]
    fn check(&self, frame: &Frame) -> Result<(), DropReason> {
        if !self.shared.up.load(Relaxed) {
            // Which of the two it is matters to nobody in a hurry.
            let gone = self.shared.tx(self.queue).is_none();
            return Err(if gone { DropReason::PortGone } else { DropReason::TxLinkDown });
        }
        gso::check_len(frame, self.shared.mtu.load(Relaxed))?;
        if frame.offload.gso.is_none() && frame.len() > CHUNK_BYTES {
            return Err(DropReason::TxTooLong);
        }
        Ok(())
    }

    #[inline]
    fn queue(&mut self, placed: Placed) {
        self.pending.push(placed);
        let gathered = self.pending.len();
        if gathered == BURST_MAX && !self.shared.goes_live.load(Relaxed) || gathered == LIVE_MAX {
            self.send(false);
        }
    }

    /// Queues a copy of a frame's bytes.
    fn queue_copy(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let chunk = self.idle_chunk().ok_or(DropReason::TxRingFull)?;
        match self.umem.filled(chunk, bytes) {
            Ok(placed) => {
                self.queue(placed);
                Ok(())
            }
            Err(chunk) => {
                self.umem.with_local(|local| local.give(chunk));
                Err(DropReason::TxTooLong)
            }
        }
    }

    /// A chunk to copy to, if need be one that comes back now.
    fn idle_chunk(&self) -> Option<Chunk> {
        self.umem.with_local(|local| {
            if let Some(chunk) = local.take() {
                return Some(chunk);
            }
            self.shared.tx(self.queue).as_mut()?.collect(local);
            local.take()
        })
    }

    /// Queues copies of what a frame that owes something becomes.
    #[cold]
    fn queue_owing(&mut self, frame: &Frame) -> Result<(), DropReason> {
        let mut spare = std::mem::take(&mut self.spare);
        let done = gso::complete(frame, &mut spare, |part| {
            if let Err(reason) = self.queue_copy(part.data()) {
                self.report.drops.add(reason, 1);
            }
        });
        self.spare = spare;
        done
    }

    /// Sends what is pending past the ring, as far as it goes: from its start, frames of one length, if they are
    /// enough and nothing waits in the ring.
    fn send_live(&mut self) {
        let Tx { shared, umem, queue, pending, report, .. } = self;
        if shared.tx(*queue).as_ref().is_none_or(|half| half.tx.has_waiting()) {
            return;
        }
        let mut live = lock(&shared.live);
        let Ok(way) = live.as_mut() else { return };
        let mut failed = None;
        while let Some(first) = pending.first().map(|placed| placed.len() as usize)
            && failed.is_none()
            && Live::fits(first)
        {
            let alike = pending.iter().take(LIVE_MAX).take_while(|p| p.len() as usize == first);
            let alike = alike.count();
            if alike < LIVE_MIN {
                break;
            }
            way.begin(first);
            // As many as there are slots, of the length that was said.
            for placed in &pending[..alike] {
                if !way.push(umem.bytes(placed)) {
                    break;
                }
            }
            let (sent, done) = way.run();
            failed = done.err();
            umem.with_local(|local| {
                for placed in pending.drain(..sent) {
                    report.count_sent(first);
                    local.give(placed.into_chunk().0);
                }
            });
        }
        if let Some(error) = failed {
            tracing::warn!(%error, "bursts leave by the ring from now on");
            *live = Err(format!("a test run failed: {error}"));
            shared.goes_live.store(false, Relaxed);
        }
    }

    /// Moves what is pending into the ring, and has the kernel send it if it is to `leave`.
    fn send(&mut self, leave: bool) {
        if self.pending.len() >= LIVE_MIN && self.shared.goes_live.load(Relaxed) {
            self.send_live();
        }
        let Tx { shared, umem, queue, pending, report, .. } = self;
        umem.with_local(|local| {
            let mut half = shared.tx(*queue);
            let Some(half) = half.as_mut() else {
                report.drops.add(DropReason::PortGone, pending.len() as u64);
                return pending.drain(..).for_each(|placed| local.give(placed.into_chunk().0));
            };
            let mut flushes = 1;
            for placed in pending.drain(..) {
                let len = placed.len() as usize;
                let done = half.queue(placed, local).or_else(|placed| {
                    // Perhaps what fills the ring only waits to be sent; asked once.
                    if flushes > 0 {
                        flushes -= 1;
                        flush(half, local);
                    }
                    half.queue(placed, local)
                });
                match done {
                    Ok(()) => report.count_sent(len),
                    Err(placed) => {
                        report.drops.add(DropReason::TxRingFull, 1);
                        local.give(placed.into_chunk().0);
                    }
                }
            }
            if leave {
                flush(half, local);
            }
        });
    }
}

fn flush(half: &mut TxHalf, local: &mut Local) {
    if let Err(error) = half.flush(local) {
        tracing::debug!(%error, "sending was put off");
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.check(frame)?;
        if frame.offload.is_plain() {
            self.queue_copy(frame.data())
        } else {
            self.queue_owing(frame)
        }
    }

    fn tx_owned(&mut self, mut frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        self.tx_taken(&mut frame, pool)
    }

    fn tx_taken(&mut self, frame: &mut Frame, pool: &mut Pool) -> Result<(), DropReason> {
        let plain = self.check(frame).and_then(|()| match frame.offload {
            offload if offload.is_plain() => Ok(true),
            Offload { gso: None, .. } => gso::complete_sum(frame).map(|()| true),
            _ => Ok(false),
        });
        let result = match plain {
            Ok(true) => match umem::reclaim(frame) {
                Some((umem, placed)) if std::ptr::eq(umem, self.umem) => {
                    self.queue(placed);
                    return Ok(());
                }
                // In the memory of other sockets.
                Some((umem, placed)) => {
                    let result = self.queue_copy(umem.bytes(&placed));
                    umem.with_local(|local| local.give(placed.into_chunk().0));
                    return result;
                }
                None => self.queue_copy(frame.data()),
            },
            Ok(false) => self.queue_owing(frame),
            Err(reason) => Err(reason),
        };
        pool.give(frame.take());
        result
    }

    fn flush(&mut self) -> TxReport {
        if self.report.sent > 0 || !self.pending.is_empty() {
            self.send(true);
        }
        std::mem::take(&mut self.report)
    }
}

/// What was accepted and never flushed.
impl Drop for Tx {
    fn drop(&mut self) {
        let Tx { umem, pending, .. } = self;
        umem.with_local(|local| {
            pending.drain(..).for_each(|placed| local.give(placed.into_chunk().0))
        });
    }
}
