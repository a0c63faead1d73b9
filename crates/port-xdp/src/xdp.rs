//! The port: control side and queues around a `socket`.
//!
//! An interface that is deleted takes socket, memory and program with it. When it is there again,
//! [`Port::link`] opens all of them anew and puts them into the queues' hands; workers notice
//! nothing but a pause. The descriptor that a worker sleeps on is an epoll instance that stays, with
//! the socket of the day in it.
//!
//! All workers send through the one socket of the queue, under a lock taken for a frame and for a
//! flush; a queue of an interface takes no second socket with memory of its own.
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
    queue: u32,
    mode: XdpMode,
    native: bool,
    watcher: Watcher,
    ifindex: Option<u32>,
    attachment: Option<Attachment>,
    shared: Arc<Shared>,
    base: Option<Arc<Base>>,
    rx_open: bool,
    totals: Totals,
    /// Receive drops of sockets that are gone.
    past_dropped: u64,
}

/// What queues and control side share.
struct Shared {
    rx: Mutex<Option<RxHalf>>,
    tx: Mutex<Option<TxHalf>>,
    ready: OwnedFd,
    /// Wanted up and with carrier, when we last looked.
    up: AtomicBool,
    /// Whether unfinished checksums may come in: the interface is virtual.
    owes: AtomicBool,
    /// Payload bytes of a frame, when we last looked.
    mtu: AtomicU32,
}

/// The halves are whole whatever a holder did: every step leaves the rings consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Xdp {
    /// Opens the queue of the interface and brings the interface up.
    pub fn open(spec: &port::spec::Xdp) -> Result<Xdp, Error> {
        let name = spec.interface.as_str();
        port::check_interface_name(name)?;
        let (watcher, link) = port::link::bring_up(name, NEEDS)?;
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|e| Error::io(name, "making an epoll instance", NEEDS, e))?;
        let shared = Arc::new(Shared {
            rx: Mutex::new(None),
            tx: Mutex::new(None),
            ready,
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
            rx_queues: 1,
            warnings: Vec::new(),
        };
        let mut port = Xdp {
            info,
            queue: spec.queue,
            mode: spec.mode,
            native: false,
            watcher,
            ifindex: None,
            attachment: None,
            shared,
            base: None,
            rx_open: false,
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

    /// Opens socket and program on the interface, in the first mode that works.
    fn attach(&mut self, link: &Link) -> Result<(), Error> {
        let modes: &[bool] = match self.mode {
            XdpMode::Auto => &[true, false],
            XdpMode::Native => &[true],
            XdpMode::Generic => &[false],
        };
        let mut refused = None;
        for &native in modes {
            match socket::open(link.index, self.queue, native) {
                Ok((rx, tx, attachment)) => {
                    self.native = native;
                    self.base = Some(rx.base().clone());
                    let event = epoll::EventData::new_u64(0);
                    epoll::add(&self.shared.ready, rx.fd(), event, epoll::EventFlags::IN)
                        .map_err(|e| self.failed("watching the socket", e.into()))?;
                    self.shared.owes.store(!link.kind.is_empty(), Relaxed);
                    *lock(&self.shared.rx) = Some(rx);
                    *lock(&self.shared.tx) = Some(tx);
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
        if let Some(base) = self.base.take() {
            self.past_dropped += dropped(&base);
        }
        // Closing the socket takes it out of the epoll instance.
        *lock(&self.shared.rx) = None;
        *lock(&self.shared.tx) = None;
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
                    self.queue, self.info.name
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
    let queues = std::fs::read_dir(format!("/sys/class/net/{}/queues", port.info.name));
    let rx_queues = queues.map_or(1, |entries| {
        entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("rx-")).count()
    });
    if rx_queues > 1 {
        warnings.push(format!(
            "the interface spreads frames over {rx_queues} queues, of which this port takes queue \
             {}; remedy: ethtool -L {} combined 1 (or rx 1)",
            port.queue, port.info.name
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
        self.info.check_rx_queue(queue, self.rx_open)?;
        self.rx_open = true;
        Ok(Box::new(Rx { shared: self.shared.clone(), drops: Drops::default() }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        Ok(Box::new(Tx {
            shared: self.shared.clone(),
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
        let now = self.base.as_deref().map_or(0, dropped);
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
    drops: Drops,
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let mut half = lock(&self.shared.rx);
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
        Some(self.shared.ready.as_fd())
    }

    fn drops(&self) -> Drops {
        self.drops
    }
}

struct Tx {
    shared: Arc<Shared>,
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

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        let mut half = lock(&self.shared.tx);
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
            && let Some(half) = lock(&self.shared.tx).as_mut()
            && let Err(error) = half.flush()
        {
            tracing::debug!(%error, "sending was put off");
        }
        std::mem::take(&mut self.report)
    }
}
