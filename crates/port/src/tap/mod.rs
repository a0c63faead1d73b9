//! A port on a TAP interface: the host's kernel, or a virtual machine's, is at the other end of a
//! file descriptor (`/dev/net/tun`).
//!
//! Frames cross with their virtio-net header, and we promise the kernel to take unfinished
//! checksums, TSO and UDP segmentation, so that the host keeps its default offloads.
//!
//! The interface is made if it does not exist, and vanishes with us unless it was made persistent.
//! It may be moved into another network namespace: the descriptor follows, and so do our questions
//! about its state. If somebody deletes it, it is made again. A process that takes over goes on with the descriptor
//! ([`inherited`](crate::inherited)), so that the interface stays as it is.
//!
//! One queue of the kernel's: an attached descriptor receives its share of the host's flows, so one for each worker
//! would leave frames in the hands of workers that only send. All of them write to the same
//! descriptor, which the kernel allows without a lock of ours.
//!
//! Invariant: queues and control side share one descriptor, which never changes.
//! Cost: a system call a frame; for bulk TCP a frame is 64 KiB.
//! Checked by: `tests/namespaces.rs`.

mod attended;
mod kind;

pub use kind::{INTERNAL, KIND};

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, readv, writev};

use crate::intake::Intake;
use crate::link::{self, LinkRequest, Totals, Watcher, speed_kbps};
use crate::offload::VNET_HDR_LEN;
use crate::sys::ioctl;
use crate::terminal::Terminal;
use crate::{
    Burst, DropReason, Drops, Error, Frame, KernelStats, LinkState, Offload, Pool, Port, PortInfo,
    RxError, RxQueue, TxQueue, TxReport, gso,
};

use attended::Guests;

const FLAGS: u16 = ioctl::IFF_TAP | ioctl::IFF_NO_PI | ioctl::IFF_VNET_HDR;

/// The control side.
pub struct Tap {
    info: PortInfo,
    /// Its name in the switch.
    called: String,
    fd: Arc<OwnedFd>,
    watcher: Watcher,
    /// Whether the interface has left the namespace we were opened in.
    moved: bool,
    /// It is where we may not look, which was said.
    unseen: bool,
    rx_open: bool,
    totals: Totals,
    /// Who attends to it, if somebody does.
    attended: Option<Guests>,
}

impl Tap {
    /// Opens the TAP interface `name`, made if there is none, and brings it up. Needs
    /// `CAP_NET_ADMIN`, or an interface that was made for this user (`ip tuntap add ... user`) and
    /// is up already.
    pub fn open(name: &str) -> Result<Tap, Error> {
        Tap::open_as(name, "tap", None, None)
    }

    /// The same, shown as of this kind, with who attends to it; on a descriptor that another process had, if there is one.
    fn open_as(
        name: &str,
        kind: &'static str,
        terminal: Option<&Terminal>,
        inherited: Option<OwnedFd>,
    ) -> Result<Tap, Error> {
        crate::check_interface_name(name)?;
        let failed = |action, e: io::Error| Error::io(name, action, "CAP_NET_ADMIN", e);
        // One that is attached to nothing, or is something else, is none.
        let inherited = inherited.and_then(|fd| Some((ioctl::tun_name(fd.as_fd()).ok()?, fd)));
        let (fd, watcher, link, moved) = match inherited {
            Some((present, fd)) => {
                let failed = |e| failed("going on with the TAP interface", e);
                let (watcher, link, moved) = found(&present, fd.as_fd()).map_err(failed)?;
                (fd, watcher, link, moved)
            }
            None => {
                let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let device = open("/dev/net/tun", flags, Mode::empty());
                let fd = device.map_err(|e| failed("opening /dev/net/tun", e.into()))?;
                attach(fd.as_fd(), name)
                    .map_err(|e| failed("attaching to the TAP interface", e))?;
                let (watcher, link) = link::bring_up(name, "CAP_NET_ADMIN")?;
                (fd, watcher, link, false)
            }
        };
        let attended = terminal.and_then(|terminal| terminal.0.attend(name)).map(Guests::new);
        let info = PortInfo {
            name: name.to_owned(),
            kind,
            mac: link.mac,
            mtu: link.mtu,
            curr_speed_kbps: speed_kbps(&watcher, name).unwrap_or(0),
            carries_offload: true,
            described: false,
            rx_queues: 1 + attended.as_ref().map_or(0, Guests::queues),
            warnings: Vec::new(),
        };
        let totals = Totals::starting_at(link.stats);
        let called = name.to_owned();
        let (fd, unseen, rx_open) = (Arc::new(fd), false, false);
        Ok(Tap { info, called, fd, watcher, moved, unseen, rx_open, totals, attended })
    }

    /// The interface's present name, made again if it was deleted.
    fn present_name(&mut self) -> io::Result<String> {
        if let Ok(name) = ioctl::tun_name(self.fd.as_fd()) {
            return Ok(name);
        }
        attach(self.fd.as_fd(), &self.info.name)?;
        if self.moved {
            self.watcher = Watcher::open()?;
            self.moved = false;
        }
        self.totals.restart();
        tracing::info!(port = %self.called, interface = %self.info.name, "the interface was deleted; made it again");
        if let Some(link) = self.watcher.query(&self.info.name)? {
            self.watcher.set_up(link.index, true)?;
        }
        ioctl::tun_name(self.fd.as_fd())
    }

    /// Follows the interface into its namespace, if need be, and asks for its state.
    fn query(&mut self) -> io::Result<crate::link::Link> {
        let name = self.present_name()?;
        if let Some(link) = self.watcher.query(&name)? {
            return Ok(link);
        }
        self.watcher = Watcher::open_in(ioctl::tun_namespace(self.fd.as_fd())?)?;
        self.moved = true;
        self.watcher.query(&name)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The interface behind an attached descriptor, in whichever network namespace it is; and whether that is another one.
fn found(name: &str, fd: BorrowedFd<'_>) -> io::Result<(Watcher, link::Link, bool)> {
    let mut watcher = Watcher::open()?;
    if let Some(link) = watcher.query(name)? {
        return Ok((watcher, link, false));
    }
    match ioctl::tun_namespace(fd).and_then(Watcher::open_in) {
        Ok(mut watcher) => {
            let link = watcher.query(name)?.ok_or(io::ErrorKind::NotFound)?;
            Ok((watcher, link, true))
        }
        // It is there, and nothing more can be said of it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok((watcher, link::Link { state: LinkState::UP, ..link::Link::default() }, false))
        }
        Err(error) => Err(error),
    }
}

/// Attaches to the interface, of one queue or (made by somebody else) of several.
fn attach(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let one = ioctl::tun_attach(fd, name, FLAGS);
    if one.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::InvalidInput) {
        ioctl::tun_attach(fd, name, FLAGS | ioctl::IFF_MULTI_QUEUE)?;
    } else {
        one?;
    }
    ioctl::tun_set_vnet_len(fd, VNET_HDR_LEN as i32)?;
    let tcp = ioctl::TUN_F_CSUM | ioctl::TUN_F_TSO4 | ioctl::TUN_F_TSO6 | ioctl::TUN_F_TSO_ECN;
    // UDP segmentation exists since Linux 6.2.
    ioctl::tun_set_offload(fd, tcp | ioctl::TUN_F_USO4 | ioctl::TUN_F_USO6)
        .or_else(|_| ioctl::tun_set_offload(fd, tcp))
}

impl Port for Tap {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.called);
    }

    fn link(&mut self) -> LinkState {
        self.watcher.drain();
        match self.query() {
            Ok(link) => {
                self.info.mac = link.mac;
                self.info.mtu = link.mtu;
                self.totals.see(link.stats);
                link.state
            }
            // Its descriptor is attached, and frames pass: who brought it down there gets none.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if !std::mem::replace(&mut self.unseen, true) {
                    tracing::warn!(
                        port = %self.called, interface = %self.info.name,
                        "the TAP interface is in another network namespace, where its state cannot be seen without \
                         CAP_SYS_ADMIN: it is taken to be up"
                    );
                }
                LinkState::UP
            }
            Err(error) => {
                tracing::debug!(port = %self.called, interface = %self.info.name, %error, "the TAP interface is gone");
                LinkState::GONE
            }
        }
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watcher.fd())
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        let result = self.query().and_then(|link| self.watcher.set_up(link.index, up));
        result.map_err(|e| Error::io(&self.info.name, "bringing it up or down", "CAP_NET_ADMIN", e))
    }

    fn set_link(&mut self, wanted: LinkRequest) -> Result<(), Error> {
        let result = self.query().and_then(|link| self.watcher.set(link.index, wanted));
        result.map_err(|e| {
            Error::io(&self.info.name, "setting its MTU or address", "CAP_NET_ADMIN", e)
        })
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        if let (Some(guests), Some(queue)) = (&mut self.attended, queue.checked_sub(1)) {
            return guests.rx_queue(queue, &self.info);
        }
        self.info.check_rx_queue(queue, self.rx_open)?;
        self.rx_open = true;
        let fd = self.fd.clone();
        Ok(Box::new(Rx { fd, intake: Intake::new(1), drops: Drops::default() }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let fd = self.fd.clone();
        let tx = Tx { fd, spare: Pool::default(), report: TxReport::default() };
        match &mut self.attended {
            Some(guests) => guests.tx_queue(tx, &self.info),
            None => Ok(Box::new(tx)),
        }
    }

    fn receiving(&self) -> Option<OwnedFd> {
        self.fd.try_clone().ok()
    }

    fn worker_of(&self, queue: usize) -> Option<usize> {
        self.attended.as_ref().and(queue.checked_sub(1))
    }

    fn kernel_stats(&mut self) -> KernelStats {
        if let Ok(link) = self.query() {
            self.totals.see(link.stats);
        }
        // What the interface received is what we sent, and the other way round. A frame that its
        // sender, the host, could not queue for us counts as dropped in transmission there.
        let host = self.totals.total();
        let lost = self.attended.as_ref().map_or_else(KernelStats::default, Guests::lost);
        KernelStats {
            rx_dropped: host.tx_dropped + lost.rx_dropped,
            rx_errors: host.tx_errors,
            tx_dropped: host.rx_dropped + lost.tx_dropped,
            tx_errors: host.rx_errors,
            ..KernelStats::default()
        }
    }
}

struct Rx {
    fd: Arc<OwnedFd>,
    intake: Intake,
    drops: Drops,
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let mut added = 0;
        let mut now = 0;
        while !burst.is_full() {
            let mut header = [0; VNET_HDR_LEN];
            let (rooms, overflow) = self.intake.rooms(1, pool);
            let room = rooms[0].room_mut();
            let fits = VNET_HDR_LEN + room.len() + overflow[0].len();
            let mut pieces = [
                IoSliceMut::new(&mut header),
                IoSliceMut::new(room),
                IoSliceMut::new(&mut overflow[0]),
            ];
            let len = match readv(&self.fd, &mut pieces) {
                Ok(len) => len,
                Err(Errno::AGAIN | Errno::INTR) => break,
                // What has been received is handed over first; the trouble will still be there.
                Err(_) if added > 0 => break,
                Err(Errno::BADFD) => return Err(RxError::Gone),
                Err(Errno::IO) => return Err(RxError::Down),
                Err(error) => return Err(RxError::Io(error.into())),
            };
            if len >= fits {
                self.drops.add(DropReason::RxTruncated, 1);
                continue;
            }
            let (Ok(offload), true) = (Offload::from_vnet(&header), len > VNET_HDR_LEN) else {
                self.drops.add(DropReason::RxBadOffload, 1);
                continue;
            };
            if now == 0 {
                now = crate::now_ns();
            }
            let mut frame = self.intake.take(0, len - VNET_HDR_LEN, pool);
            frame.offload = offload;
            frame.rx_ns = now;
            // The loop runs only while there is room.
            drop(burst.push(frame));
            added += 1;
        }
        Ok(added)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn drops(&self) -> Drops {
        self.drops
    }
}

struct Tx {
    fd: Arc<OwnedFd>,
    spare: Pool,
    report: TxReport,
}

/// Writes one frame; every frame is a system call of its own anyway, so nothing is queued.
fn write(fd: BorrowedFd<'_>, frame: &Frame) -> Result<(), DropReason> {
    let header = gso::kernel_header(frame);
    loop {
        return match writev(fd, &[IoSlice::new(&header), IoSlice::new(frame.data())]) {
            Ok(_) => Ok(()),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => Err(DropReason::TxRingFull),
            Err(Errno::IO | Errno::NETDOWN) => Err(DropReason::TxLinkDown),
            Err(Errno::BADFD) => Err(DropReason::PortGone),
            Err(Errno::INVAL) => Err(DropReason::TxRefused),
            Err(_) => Err(DropReason::TxIo),
        };
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        if frame.len() < 14 {
            return Err(DropReason::TxTooShort);
        }
        if gso::kernel_carries(frame) {
            match write(self.fd.as_fd(), frame) {
                Ok(()) => {
                    self.report.count_sent(frame.len());
                    return Ok(());
                }
                // It is cut below.
                Err(DropReason::TxRefused) if gso::is_udp(frame) => {}
                Err(reason) => return Err(reason),
            }
        }
        let (fd, report) = (self.fd.as_fd(), &mut self.report);
        gso::complete(frame, &mut self.spare, |part| match write(fd, &part) {
            Ok(()) => report.count_sent(part.len()),
            Err(reason) => report.drops.add(reason, 1),
        })
    }

    fn flush(&mut self) -> TxReport {
        std::mem::take(&mut self.report)
    }
}
