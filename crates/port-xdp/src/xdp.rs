//! The port: control side and queues around a `socket`.
//!
//! An interface that is deleted takes socket, memory and program with it. When it is there again,
//! [`Port::link`] opens all of them anew and puts them into the queues' hands; workers notice
//! nothing but a pause. The descriptor that a worker sleeps on is an epoll instance that stays, with
//! the socket of the day in it.
//!
//! Each queue of the interface has a socket: a receive queue of the port. Workers send through one of
//! the sockets, each through its own while there are as many, under a lock taken for a frame and for
//! a flush; a queue of an interface takes no second socket with memory of its own.
//!
//! Cost: a copy and a lock a frame; a system call a burst where the driver sleeps (always with veth
//! and in generic mode).
//! Checked by: `tests/namespaces.rs`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use port::link::{Link, Totals, Watcher};
use port::spec::XdpMode;
use port::{
    Burst, DropReason, Drops, Error, Frame, KernelStats, LinkState, Offload, Pool, Port, PortInfo,
    RxError, RxQueue, TxQueue, TxReport, gso,
};
use rustix::event::epoll;

use crate::socket::{self, Attachment, Base, RxHalf, TxHalf};
use crate::umem::CHUNK_BYTES;

/// The control side.
pub struct Xdp {
    info: PortInfo,
    /// The interface's queues that the port takes.
    queues: Vec<u32>,
    mode: XdpMode,
    busy_poll_us: Option<u32>,
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
}

/// The socket of a queue, while there is one.
struct Socket {
    rx: Mutex<Option<RxHalf>>,
    tx: Mutex<Option<TxHalf>>,
    ready: OwnedFd,
}

/// The halves are whole whatever a holder did: every step leaves the rings consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Xdp {
    /// Opens queues of the interface and brings the interface up.
    pub fn open(spec: &port::spec::Xdp) -> Result<Xdp, Error> {
        let name = spec.interface.as_str();
        port::check_interface_name(name)?;
        let (watcher, link) = port::link::bring_up(name, NEEDS)?;
        let queues: Vec<u32> = match spec.queue {
            Some(queue) => vec![queue],
            None => (0..port::link::rx_queues(&watcher, name)).collect(),
        };
        let socket = |_: &u32| {
            let ready = epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(|e| Error::io(name, "making an epoll instance", NEEDS, e))?;
            Ok(Socket { rx: Mutex::new(None), tx: Mutex::new(None), ready })
        };
        let shared = Arc::new(Shared {
            sockets: queues.iter().map(socket).collect::<Result<_, Error>>()?,
            up: AtomicBool::new(true),
            owes: AtomicBool::new(false),
            mtu: AtomicU32::new(link.mtu),
        });
        let info = PortInfo {
            name: name.to_owned(),
            kind: "af_xdp",
            mac: link.mac,
            mtu: link.mtu,
            curr_speed_kbps: port::link::speed_kbps(&watcher, name).unwrap_or(0),
            carries_offload: false,
            rx_queues: queues.len(),
            warnings: Vec::new(),
        };
        let mut port = Xdp {
            info,
            rx_open: vec![false; queues.len()],
            queues,
            mode: spec.mode,
            busy_poll_us: spec.busy_poll_us,
            native: false,
            watcher,
            ifindex: None,
            attachment: None,
            shared,
            bases: Vec::new(),
            tx_given: 0,
            totals: Totals::starting_at(link.stats),
            past_dropped: 0,
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
            XdpMode::Auto => &[true, false],
            XdpMode::Native => &[true],
            XdpMode::Generic => &[false],
        };
        let mut refused = None;
        let there = port::link::rx_queues(&self.watcher, &self.info.name);
        let queues: Vec<u32> = match &self.queues[..] {
            [only] => vec![*only],
            all => all.iter().copied().filter(|queue| *queue < there).collect(),
        };
        let busy_poll_us = self.busy_poll_us;
        for &native in modes {
            match socket::open(link.index, &queues, socket::How { native, busy_poll_us }) {
                Ok((sockets, attachment)) => {
                    self.native = native;
                    self.shared.owes.store(!link.kind.is_empty(), Relaxed);
                    for ((rx, tx), place) in sockets.into_iter().zip(&self.shared.sockets) {
                        self.bases.push(rx.base().clone());
                        let event = epoll::EventData::new_u64(0);
                        epoll::add(&place.ready, rx.fd(), event, epoll::EventFlags::IN)
                            .map_err(|e| self.failed("watching the socket", e.into()))?;
                        *lock(&place.rx) = Some(rx);
                        *lock(&place.tx) = Some(tx);
                    }
                    self.attachment = Some(attachment);
                    self.ifindex = Some(link.index);
                    return Ok(());
                }
                Err((action, error)) => {
                    tracing::debug!(port = %self.info.name, native, action, %error, "declined");
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
            *lock(&socket.rx) = None;
            *lock(&socket.tx) = None;
        }
        self.attachment = None;
        self.ifindex = None;
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
const NEEDS: &str = "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF";

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
                        tracing::warn!(%error, "could not re-open the interface");
                        self.detach();
                        self.shared.up.store(false, Relaxed);
                        return LinkState::GONE;
                    }
                    tracing::info!(port = %self.info.name, ifindex = link.index, "re-opened");
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

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        let name = || self.info.name.clone();
        let ifindex = self.ifindex.ok_or_else(|| Error::NoInterface { name: name() })?;
        let done = self.watcher.set_up(ifindex, up);
        done.map_err(|e| Error::io(&self.info.name, "bringing it up or down", NEEDS, e))
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.info.check_rx_queue(queue, self.rx_open.get(queue) == Some(&true))?;
        self.rx_open[queue] = true;
        Ok(Box::new(Rx { shared: self.shared.clone(), queue, drops: Drops::default() }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let queue = self.tx_given % self.queues.len();
        self.tx_given += 1;
        Ok(Box::new(Tx {
            shared: self.shared.clone(),
            queue,
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
    /// Its place among the port's sockets.
    queue: usize,
    drops: Drops,
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let mut half = lock(&self.shared.sockets[self.queue].rx);
        let Some(half) = half.as_mut() else { return Err(RxError::Gone) };
        let owes = self.shared.owes.load(Relaxed);
        let (room, mut added, mut now) = (burst.room(), 0, 0);
        half.receive(room, |bytes| {
            let Some(bytes) = bytes else {
                self.drops.add(DropReason::RxCorrupt, 1);
                return;
            };
            if now == 0 {
                now = port::now_ns();
            }
            let mut frame = pool.copy_of(bytes);
            frame.rx_ns = now;
            if owes {
                frame.offload = Offload { csum: gso::find_debt(bytes), gso: None };
            }
            // No more are received than there is room for.
            drop(burst.push(frame));
            added += 1;
        });
        Ok(added)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.sockets[self.queue].ready.as_fd())
    }

    fn drops(&self) -> Drops {
        self.drops
    }
}

struct Tx {
    shared: Arc<Shared>,
    /// Its place among the port's sockets.
    queue: usize,
    spare: Pool,
    report: TxReport,
}

/// Queues a frame that owes nothing.
fn queue(half: &mut TxHalf, frame: &Frame, report: &mut TxReport) -> Result<(), DropReason> {
    if frame.len() > CHUNK_BYTES {
        return Err(DropReason::TxTooLong);
    }
    if !half.queue(frame.data()) {
        // Perhaps what fills the ring only waits to be sent.
        let _ = half.flush();
        if !half.queue(frame.data()) {
            return Err(DropReason::TxRingFull);
        }
    }
    report.count_sent(frame.len());
    Ok(())
}

impl Shared {
    /// The sending half of a queue, or of the first where the interface has lost that one.
    fn tx(&self, queue: usize) -> MutexGuard<'_, Option<TxHalf>> {
        let half = lock(&self.sockets[queue].tx);
        if half.is_none() && queue > 0 { lock(&self.sockets[0].tx) } else { half }
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        let mut half = self.shared.tx(self.queue);
        let half = half.as_mut().ok_or(DropReason::PortGone)?;
        if !self.shared.up.load(Relaxed) {
            return Err(DropReason::TxLinkDown);
        }
        gso::check_len(frame, self.shared.mtu.load(Relaxed))?;
        let report = &mut self.report;
        if frame.offload.is_plain() {
            return queue(half, frame, report);
        }
        gso::complete(frame, &mut self.spare, |part| {
            if let Err(reason) = queue(half, &part, report) {
                report.drops.add(reason, 1);
            }
        })
    }

    fn flush(&mut self) -> TxReport {
        if self.report.sent > 0
            && let Some(half) = self.shared.tx(self.queue).as_mut()
            && let Err(error) = half.flush()
        {
            tracing::debug!(%error, "sending was put off");
        }
        std::mem::take(&mut self.report)
    }
}
