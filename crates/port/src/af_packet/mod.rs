//! A port on an existing Linux interface, by AF_PACKET sockets (`packet(7)`).
//!
//! Every frame crosses with its virtio-net header (`PACKET_VNET_HDR`), so that a host behind a veth
//! pair keeps its default offloads: unfinished checksums and 64 KiB TSO frames come in whole and
//! leave whole. A VLAN tag that the kernel moved out of the frame is put back.
//!
//! Receiving is by `recvmmsg`, up to a burst in one system call, straight into frames. The
//! alternatives are memory-mapped rings. `TPACKET_V3` hands frames over by the block: a block that
//! does not fill waits for its timer (1 ms at least), which a ping pays in latency and a TCP flow in
//! throughput. `TPACKET_V2` has no such delay, but each slot must be as long as the longest frame
//! (68 KiB), and every frame is copied twice, into the ring and out of it. With `recvmmsg` the
//! kernel queues a reference and copies once, when we ask. Through two such ports, on two shared
//! cores of a Zen 5: TCP with default offloads 7 to 15 Gb/s, a ping 0.02 to 0.06 ms, and 0.2 million
//! short frames a second with sender and receiver on the same box. The rings were judged by these
//! properties, not timed; for short frames at high rates there is AF_XDP.
//!
//! Invariants: an interface that is deleted and made anew gets all sockets back by `bind`, in
//! [`Port::link`]; their descriptors never change. Sending never blocks: what the kernel cannot take
//! is counted.
//! Port and queues must be opened in the same network namespace, that of the calling thread.
//! Cost: one system call a burst in each direction.
//! Checked by: `tests/namespaces.rs`, with pings and iperf3 through two ports.

mod kind;

pub use kind::KIND;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::io::Errno;

use crate::intake::Intake;
use crate::link::{self, LinkRequest, Totals, Watcher, speed_kbps};
use crate::offload::VNET_HDR_LEN;
use crate::sys::{ioctl, packet};
use crate::{
    BURST_MAX, Burst, DropReason, Drops, Error, Frame, KernelStats, LinkState, Offload, Pool, Port,
    PortInfo, RxError, RxQueue, StampedBy, TxQueue, TxReport, gso,
};

/// Bytes of frames (as the kernel accounts them) that may wait for us in a socket.
const RX_BUFFER_BYTES: i32 = 16 << 20;
/// Bytes of frames that may wait for the interface.
const TX_BUFFER_BYTES: i32 = 8 << 20;

/// The control side.
pub struct AfPacket {
    info: PortInfo,
    /// Its name in the switch.
    called: String,
    watcher: Watcher,
    ifindex: Option<u32>,
    rx: Weak<OwnedFd>,
    /// Of another process: what its receive queue goes on with.
    handed: Option<OwnedFd>,
    tx: Vec<Weak<OwnedFd>>,
    totals: Totals,
    rx_dropped: u64,
    stamps: StampedBy,
    /// The clock of a device that stamps, and how it stamped before us.
    clock: Option<(Arc<OwnedFd>, ioctl::StampConfig)>,
}

impl AfPacket {
    /// Opens an existing Ethernet interface, and brings it up. Needs `CAP_NET_RAW`, and
    /// `CAP_NET_ADMIN` for the promiscuous mode.
    pub fn open(name: &str) -> Result<AfPacket, Error> {
        crate::check_interface_name(name)?;
        let (watcher, link) = link::bring_up(name, "CAP_NET_ADMIN")?;
        let info = PortInfo {
            name: name.to_owned(),
            kind: "af_packet",
            mac: link.mac,
            mtu: link.mtu,
            curr_speed_kbps: speed_kbps(&watcher, name).unwrap_or(0),
            carries_offload: true,
            described: false,
            rx_queues: 1,
            warnings: Vec::new(),
        };
        Ok(AfPacket {
            info,
            called: name.to_owned(),
            watcher,
            ifindex: Some(link.index),
            rx: Weak::new(),
            handed: None,
            tx: Vec::new(),
            totals: Totals::starting_at(link.stats),
            rx_dropped: 0,
            stamps: StampedBy::Process,
            clock: None,
        })
    }

    /// Opens a socket with everything set but not yet bound.
    fn socket(&self, receive_bytes: i32, send_bytes: i32) -> io::Result<OwnedFd> {
        let fd = packet::open()?;
        packet::set_vnet_header(fd.as_fd())?;
        packet::set_buffers(fd.as_fd(), receive_bytes, send_bytes);
        Ok(fd)
    }

    /// Binds all sockets to an interface that has taken the old one's place.
    fn rebind(&mut self, ifindex: u32) -> io::Result<()> {
        if let Some(rx) = self.rx.upgrade() {
            packet::bind(rx.as_fd(), ifindex, true)?;
            packet::set_promiscuous(rx.as_fd(), ifindex)?;
        }
        self.tx.retain(|tx| tx.strong_count() > 0);
        for tx in self.tx.iter().filter_map(Weak::upgrade) {
            packet::bind(tx.as_fd(), ifindex, false)?;
        }
        Ok(())
    }

    /// Has the device stamp what arrives; `None` where it cannot, or not by a clock that we may read.
    fn stamp_by_device(&self) -> Option<(Arc<OwnedFd>, ioctl::StampConfig)> {
        let fd = packet::open().ok()?;
        let name = &self.info.name;
        let ability = ioctl::hardware_stamps(fd.as_fd(), name)?;
        let clock = File::open(format!("/dev/ptp{}", ability.clock)).ok()?;
        ioctl::read_clock(clock.as_fd()).ok()?;
        let before = ioctl::stamp_config(fd.as_fd(), name).ok()?;
        ioctl::set_stamp_config(fd.as_fd(), name, before.with_arrivals()).ok()?;
        Some((Arc::new(clock.into()), before))
    }

    fn failed(&self, action: &'static str, error: io::Error) -> Error {
        Error::io(&self.info.name, action, "CAP_NET_RAW", error)
    }

    fn present_ifindex(&self) -> Result<u32, Error> {
        self.ifindex.ok_or_else(|| Error::NoInterface { name: self.info.name.clone() })
    }
}

impl Port for AfPacket {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.called);
    }

    fn link(&mut self) -> LinkState {
        self.watcher.drain();
        let Ok(Some(link)) = self.watcher.query(&self.info.name) else {
            self.ifindex = None;
            return LinkState::GONE;
        };
        if self.ifindex != Some(link.index) {
            // It may vanish again at this very moment; the next call tries anew.
            if let Err(error) = self.rebind(link.index) {
                tracing::warn!(port = %self.called, interface = %self.info.name, %error, "could not re-open the interface");
                self.ifindex = None;
                return LinkState::GONE;
            }
            tracing::info!(port = %self.called, interface = %self.info.name, ifindex = link.index, "re-opened");
            self.ifindex = Some(link.index);
            self.totals.restart();
            if !link.state.admin_up {
                // As at the first opening; if it fails, the state says so.
                let _ = self.watcher.set_up(link.index, true);
            }
        }
        self.info.mac = link.mac;
        self.info.mtu = link.mtu;
        self.totals.see(link.stats);
        link.state
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watcher.fd())
    }

    fn glance(&self) -> Option<bool> {
        crate::link::carrier(&self.watcher, &self.info.name)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        let ifindex = self.present_ifindex()?;
        self.watcher.set_up(ifindex, up).map_err(|e| self.failed("bringing it up or down", e))
    }

    fn set_link(&mut self, wanted: LinkRequest) -> Result<(), Error> {
        let ifindex = self.present_ifindex()?;
        let set = self.watcher.set(ifindex, wanted);
        set.map_err(|e| self.failed("setting its MTU or address", e))
    }

    fn stamp_arrivals(&mut self) -> StampedBy {
        if self.clock.is_none() {
            self.clock = self.stamp_by_device();
        }
        let by_device = self.clock.is_some();
        self.stamps = if by_device { StampedBy::Device } else { StampedBy::Kernel };
        self.stamps
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let ifindex = self.present_ifindex()?;
        self.info.check_rx_queue(queue, self.rx.strong_count() > 0)?;
        let stamped = |fd: OwnedFd| {
            match self.stamps {
                StampedBy::Process => {}
                StampedBy::Kernel => packet::set_stamps(fd.as_fd())?,
                StampedBy::Device => packet::set_hardware_stamps(fd.as_fd())?,
            }
            Ok(fd)
        };
        let handed = self.handed.take();
        let open = || {
            if let Some(fd) = handed {
                return stamped(fd);
            }
            let fd = stamped(self.socket(RX_BUFFER_BYTES, 0)?)?;
            packet::set_auxdata(fd.as_fd())?;
            packet::set_ignore_outgoing(fd.as_fd())?;
            packet::set_promiscuous(fd.as_fd(), ifindex)?;
            packet::bind(fd.as_fd(), ifindex, true)?;
            Ok(fd)
        };
        let fd = Arc::new(open().map_err(|e| self.failed("opening a packet socket", e))?);
        self.rx = Arc::downgrade(&fd);
        let clock = self.clock.as_ref().map(|(clock, _)| clock.clone());
        Ok(Box::new(Rx { fd, clock, intake: Intake::new(BURST_MAX), drops: Drops::default() }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let ifindex = self.present_ifindex()?;
        let open = || {
            let fd = self.socket(0, TX_BUFFER_BYTES)?;
            packet::bind(fd.as_fd(), ifindex, false)?;
            Ok(fd)
        };
        let fd = Arc::new(open().map_err(|e| self.failed("opening a packet socket", e))?);
        self.tx.push(Arc::downgrade(&fd));
        Ok(Box::new(Tx {
            fd,
            pending: Vec::with_capacity(BURST_MAX),
            spare: Pool::default(),
            report: TxReport::default(),
            cuts_udp: false,
            departed: None,
        }))
    }

    fn receiving(&self) -> Option<OwnedFd> {
        self.rx.upgrade()?.try_clone().ok()
    }

    fn receive_by(&mut self, socket: OwnedFd) -> bool {
        self.handed = Some(socket);
        true
    }

    fn tx_waiting(&mut self) -> u64 {
        let open = self.tx.iter().filter_map(Weak::upgrade);
        open.map(|tx| ioctl::waiting(tx.as_fd()).unwrap_or(0)).sum()
    }

    fn kernel_stats(&mut self) -> KernelStats {
        if let Some(rx) = self.rx.upgrade() {
            self.rx_dropped += u64::from(packet::take_drops(rx.as_fd()).unwrap_or(0));
        }
        if let Ok(Some(link)) = self.watcher.query(&self.info.name)
            && self.ifindex == Some(link.index)
        {
            self.totals.see(link.stats);
        }
        // The interface's own count of dropped frames includes those that the host's stack did
        // not want: only the socket's are ours.
        KernelStats { rx_dropped: self.rx_dropped, ..self.totals.total() }
    }
}

/// A device stamps as it did before us.
impl Drop for AfPacket {
    fn drop(&mut self) {
        if let (Some((_, before)), Ok(fd)) = (&self.clock, packet::open()) {
            // It may be gone.
            let _ = ioctl::set_stamp_config(fd.as_fd(), &self.info.name, *before);
        }
    }
}

struct Rx {
    fd: Arc<OwnedFd>,
    /// That of a device that stamps.
    clock: Option<Arc<OwnedFd>>,
    intake: Intake,
    drops: Drops,
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let room = burst.room();
        if room == 0 {
            return Ok(0);
        }
        let mut messages = [packet::Message::default(); BURST_MAX];
        let (rooms, overflow) = self.intake.rooms(room, pool);
        let received = match packet::receive(self.fd.as_fd(), rooms, overflow, &mut messages) {
            Ok(received) => received,
            Err(error) => return rx_error(error),
        };
        // Once a burst: the device's clock is far away.
        let device_now = self.clock.as_ref().and_then(|c| ioctl::read_clock(c.as_fd()).ok());
        let now = crate::now_ns();
        let mut added = 0;
        for (index, message) in messages[..received].iter().enumerate() {
            if message.truncated {
                self.drops.add(DropReason::RxTruncated, 1);
                continue;
            }
            let Ok(offload) = Offload::from_vnet(&message.vnet) else {
                self.drops.add(DropReason::RxBadOffload, 1);
                continue;
            };
            let mut frame = self.intake.take(index, message.len, pool);
            frame.offload = offload;
            let by_device = device_now.zip(message.device_ns);
            frame.rx_ns = match by_device {
                Some((device_now, at)) => in_our_time(at, device_now, now),
                None => message.stamp_ns.unwrap_or(now),
            };
            if let Some(tag) = message.vlan {
                insert_vlan_tag(&mut frame, tag);
            }
            // No more were received than the burst has room for.
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

/// When it was by our clock, what a device says was `at` by its own.
fn in_our_time(at: u64, device_now: u64, now: u64) -> u64 {
    now.saturating_sub(device_now.saturating_sub(at))
}

/// Tells "nothing there" from trouble.
fn rx_error(error: io::Error) -> Result<usize, RxError> {
    match Errno::from_io_error(&error) {
        Some(Errno::AGAIN | Errno::INTR) => Ok(0),
        Some(Errno::NETDOWN) => Err(RxError::Down),
        Some(Errno::NXIO | Errno::NODEV) => Err(RxError::Gone),
        _ => Err(error.into()),
    }
}

/// Puts a tag (TPID, TCI) back behind the addresses.
fn insert_vlan_tag(frame: &mut Frame, (tpid, tci): (u16, u16)) {
    if frame.len() < 12 {
        return;
    }
    frame.push_front(4);
    let data = frame.data_mut();
    data.copy_within(4..16, 0);
    data[12..14].copy_from_slice(&tpid.to_be_bytes());
    data[14..16].copy_from_slice(&tci.to_be_bytes());
}

struct Tx {
    fd: Arc<OwnedFd>,
    pending: Vec<Frame>,
    spare: Pool,
    report: TxReport,
    /// The kernel has refused a UDP frame that was to be cut.
    cuts_udp: bool,
    /// Where departures are stamped: the number of the last that the kernel told of, or of the first if it told of none.
    departed: Option<u64>,
}

impl Tx {
    fn queue(&mut self, frame: Frame) {
        self.pending.push(frame);
        if self.pending.len() == BURST_MAX {
            self.send_pending();
        }
    }

    /// Sends what is queued; what the kernel refuses is counted, frame by frame. UDP segmentation exists since Linux 6.2:
    /// a frame that an older one refuses is cut here, and its segments are queued.
    fn send_pending(&mut self) {
        let mut uncut = Vec::new();
        let mut headers = [[0; VNET_HDR_LEN]; BURST_MAX];
        for (header, frame) in headers.iter_mut().zip(&self.pending) {
            *header = gso::kernel_header(frame);
        }
        let mut done = 0;
        while done < self.pending.len() {
            let headers = &headers[done..self.pending.len()];
            match packet::send(self.fd.as_fd(), &self.pending[done..], headers) {
                Ok(sent) => {
                    for frame in &self.pending[done..done + sent] {
                        self.report.count_sent(frame.len());
                    }
                    done += sent;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let reason = tx_reason(&error);
                    if reason == DropReason::TxRefused && gso::is_udp(&self.pending[done]) {
                        uncut.push(self.pending[done].take());
                    } else {
                        tracing::debug!(%reason, %error, "frame not sent");
                        self.report.drops.add(reason, 1);
                    }
                    done += 1;
                    // Whether the kernel has numbered this one is not known.
                    self.departed = None;
                }
            }
        }
        for frame in self.pending.drain(..) {
            self.spare.give(frame);
        }
        if uncut.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.cuts_udp, true) {
            tracing::info!(
                "the kernel refuses UDP frames that it is to cut: they are cut before it gets them"
            );
        }
        for frame in uncut {
            if let Err(reason) = self.queue_completed(&frame) {
                self.report.drops.add(reason, 1);
            }
            self.spare.give(frame);
        }
    }

    /// Queues the segments of a frame that Linux cannot carry as it is.
    fn queue_completed(&mut self, frame: &Frame) -> Result<(), DropReason> {
        let mut spare = std::mem::take(&mut self.spare);
        let result = gso::complete(frame, &mut spare, |part| self.queue(part));
        self.spare = spare;
        result
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        check_len(frame)?;
        if !gso::kernel_carries(frame) {
            return self.queue_completed(frame);
        }
        let copy = self.spare.clone_of(frame);
        self.queue(copy);
        Ok(())
    }

    fn tx_owned(&mut self, frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        let checked = check_len(&frame);
        if checked.is_err() || !gso::kernel_carries(&frame) {
            let result = checked.and_then(|()| self.queue_completed(&frame));
            pool.give(frame);
            return result;
        }
        // In exchange for the frame that we keep until it is sent.
        pool.give(self.spare.take(frame.len()));
        self.queue(frame);
        Ok(())
    }

    fn flush(&mut self) -> TxReport {
        // Segments of what the kernel has refused are queued meanwhile.
        while !self.pending.is_empty() {
            self.send_pending();
        }
        std::mem::take(&mut self.report)
    }

    fn stamp_departures(&mut self, on: bool) -> bool {
        let fd = self.fd.as_fd();
        // Numbers begin anew only after it was off; what is told of earlier ones goes.
        let off = packet::set_departure_stamps(fd, false);
        let cleared = off.and_then(|()| packet::take_departures(fd, &mut |_, _| {}));
        let done = cleared.and_then(|()| match on {
            true => {
                packet::set_buffers(fd, TX_BUFFER_BYTES, TX_BUFFER_BYTES);
                packet::set_departure_stamps(fd, true)
            }
            false => Ok(()),
        });
        if let Err(error) = &done {
            tracing::debug!(%error, "the kernel does not stamp what leaves");
        }
        self.departed = (on && done.is_ok()).then_some(0);
        self.departed.is_some()
    }

    fn departures(&mut self, sink: &mut dyn FnMut(u64, u64)) {
        let Some(mut last) = self.departed else { return };
        let told = packet::take_departures(self.fd.as_fd(), &mut |number, at| {
            // Nearest to the last: both ways, as devices may tell in another order.
            let ahead = number.wrapping_sub(last as u32) as i32;
            last = last.saturating_add_signed(ahead.into());
            sink(last, at);
        });
        self.departed = told.is_ok().then_some(last);
    }
}

fn check_len(frame: &Frame) -> Result<(), DropReason> {
    if frame.len() < 14 { Err(DropReason::TxTooShort) } else { Ok(()) }
}

/// Why the kernel did not take a frame.
fn tx_reason(error: &io::Error) -> DropReason {
    match Errno::from_io_error(error) {
        Some(Errno::NOBUFS | Errno::AGAIN | Errno::NOMEM) => DropReason::TxRingFull,
        Some(Errno::NETDOWN) => DropReason::TxLinkDown,
        Some(Errno::NXIO | Errno::NODEV) => DropReason::PortGone,
        Some(Errno::MSGSIZE) => DropReason::TxTooLong,
        Some(Errno::INVAL) => DropReason::TxRefused,
        _ => DropReason::TxIo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Csum;

    #[test]
    fn puts_vlan_tags_back() {
        let mut frame = Frame::copy_of(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0, 99]);
        frame.offload.csum = Csum::Partial { start: 34, offset: 16 };
        insert_vlan_tag(&mut frame, (0x8100, 0x2005));
        let wanted = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0x20, 5, 8, 0, 99];
        assert_eq!(frame.data(), wanted);
        assert_eq!(frame.offload.csum, Csum::Partial { start: 38, offset: 16 });
        let mut short = Frame::copy_of(&[1; 11]);
        insert_vlan_tag(&mut short, (0x8100, 1));
        assert_eq!(short.len(), 11);
    }

    #[test]
    fn a_devices_time_is_told_in_ours() {
        // Its clock counts from its own start, and is not ours.
        assert_eq!(in_our_time(5_000, 5_700, 1_000_000), 999_300);
        // A stamp cannot be later than now.
        assert_eq!(in_our_time(5_800, 5_700, 1_000_000), 1_000_000);
    }

    #[test]
    fn says_what_is_wrong_with_a_name() {
        for name in ["", "sixteen-bytes-xx", "a/b", "a b", "..", "a:1"] {
            assert!(matches!(AfPacket::open(name), Err(Error::BadInterfaceName { .. })), "{name}");
        }
        let error = AfPacket::open("mrp-nothing").err().unwrap().to_string();
        assert_eq!(
            error,
            "mrp-nothing: there is no such interface; `ip link` lists those there are"
        );
        assert!(matches!(AfPacket::open("lo"), Err(Error::NotEthernet { arphrd: 772, .. })));
    }
}
