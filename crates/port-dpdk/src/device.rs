//! The port: control side and queues around a [`sys::Device`](crate::sys::Device).
//!
//! Receive queues are polled: they have no descriptor to sleep on. A receive queue hands out mbufs as
//! frames; a transmit queue gathers mbufs and sends them in bursts. What a device does not take at
//! once, it is offered again while it takes anything; the rest is counted as `tx_ring_full`, as is what
//! is sent while a memif's peer comes or goes (see [`gate`](crate::gate)).
//!
//! # What a frame owes
//! Where the driver completes TCP's and UDP's checksums, or cuts TCP into segments, frames that owe
//! it leave with DPDK's flags for it (`Owed`). All else is completed in software, as for any port.
//! DPDK wants the pseudo header's sum without the length in a frame to be cut; Linux and vhost want
//! it with the length. So the sum is rewritten for every driver but vhost.
//!
//! A device that cannot be taken down (most virtual ones) is down by the switch's own flag alone.

use std::sync::{Arc, Mutex, PoisonError};

use port::marks::Marks;
use port::{
    BURST_MAX, Batch, BorrowedBurst, Burst, Csum, DropReason, Drops, Error, Frame, GsoKind,
    KernelStats, LinkState, Pool, Port, PortInfo, RxError, RxQueue, Sizes, TxQueue, TxReport, gso,
};
use wire::layers::{Layers, Network};

use crate::Options;
use crate::eal::{self, Machine};
use crate::sys::{self, Device, Mbuf, Mbufs, Owed, RxLine, TxLine};

/// Whether DPDK runs, or why it does not.
static STARTED: Mutex<Option<Result<(), String>>> = Mutex::new(None);

/// Starts DPDK, the first time.
fn start(name: &str, options: &Options) -> Result<(), Error> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let result = started.get_or_insert_with(|| {
        let args = eal::arguments(&options.eal, Machine::read(), options.mbufs);
        tracing::info!(arguments = %args[1..].join(" "), "starting DPDK");
        let mbufs = options.mbufs;
        // A thread that ends: DPDK pins the one that starts it.
        let thread = std::thread::Builder::new().name("dpdk-start".into());
        let spawned = thread.spawn(move || {
            sys::start(&args, mbufs).map_err(|e| format!("with `{}`: {e}", args[1..].join(" ")))
        });
        match spawned.map(std::thread::JoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("its thread panicked".into()),
            Err(error) => Err(error.to_string()),
        }
    });
    result.clone().map_err(|error| Error::Unsupported {
        name: name.to_owned(),
        what: format!(
            "DPDK does not start: {error}; `millrace doctor` says what this machine lacks, and \
             --eal \"--log-level=*:8 ...\" shows what DPDK itself has to say"
        ),
    })
}

/// The control side.
pub(crate) struct Dpdk {
    info: PortInfo,
    /// Its name in the switch.
    called: String,
    device: Arc<Device>,
    rx_open: Vec<bool>,
    /// Transmit queues given out so far.
    tx_given: usize,
    /// The device's transmit queues, where it has fewer than there are workers.
    tx_shared: Vec<Arc<Mutex<TxLine>>>,
    admin_up: bool,
}

impl Dpdk {
    /// Starts the device.
    pub(crate) fn open(name: &str, devargs: &str, options: &Options) -> Result<Dpdk, Error> {
        start(name, options)?;
        let count = |n: usize| u16::try_from(n.max(1)).unwrap_or(u16::MAX);
        let (rx, tx) = (options.rx_queues.unwrap_or(options.workers), options.workers);
        let device = Device::start(devargs, count(rx), count(tx))
            .map_err(|e| Error::io(name, "starting the DPDK device", "", e))?;
        let setup = &device.setup;
        let mut warnings = Vec::new();
        if let Some(wanted) = options.rx_queues.filter(|n| *n > usize::from(setup.rx_queues)) {
            warnings.push(format!(
                "{wanted} receive queues were asked for, the device has {}",
                setup.rx_queues_max
            ));
        }
        if setup.rx_queues > 1 && setup.can & sys::CAN_RSS == 0 {
            tracing::debug!(port = name, "the driver does not spread frames by itself");
        }
        let link = device.link().unwrap_or_default();
        let info = PortInfo {
            name: name.to_owned(),
            kind: "dpdk",
            mac: setup.mac,
            mtu: setup.mtu.into(),
            curr_speed_kbps: match link.mbps {
                u32::MAX => 0,
                mbps => mbps.saturating_mul(1000),
            },
            carries_offload: setup.can & (sys::CAN_CSUM | sys::CAN_TSO)
                == sys::CAN_CSUM | sys::CAN_TSO,
            described: false,
            rx_queues: setup.rx_queues.into(),
            warnings,
        };
        tracing::info!(
            port = name,
            driver = device.driver(),
            rx_queues = setup.rx_queues,
            tx_queues = setup.tx_queues,
            most_tx_queues = setup.tx_queues_max,
            "DPDK device started"
        );
        let rx_open = vec![false; info.rx_queues];
        let tx_shared = match setup.tx_queues {
            n if usize::from(n) >= options.workers => Vec::new(),
            n => (0..n)
                .map(|queue| Arc::new(Mutex::new(TxLine::new(device.clone(), queue))))
                .collect(),
        };
        let called = name.to_owned();
        Ok(Dpdk { info, called, device, rx_open, tx_given: 0, tx_shared, admin_up: true })
    }
}

impl Port for Dpdk {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.called);
    }

    fn link(&mut self) -> LinkState {
        match self.device.link() {
            Ok(link) => {
                let carrier = self.admin_up && link.up != 0;
                LinkState { admin_up: self.admin_up, carrier, present: true }
            }
            Err(_) => LinkState::GONE,
        }
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        self.admin_up = up;
        if let Err(error) = self.device.set_link(up) {
            tracing::debug!(port = %self.called, up, %error, "by the switch's flag alone");
        }
        Ok(())
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.info.check_rx_queue(queue, self.rx_open.get(queue) == Some(&true))?;
        self.rx_open[queue] = true;
        // It is one of the device's, of which there are at most 2^16.
        let line = RxLine::new(self.device.clone(), queue as u16);
        Ok(Box::new(Rx { line, drops: Drops::default() }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let setup = &self.device.setup;
        let line = match self.tx_shared.len() {
            // The device has as many as there are workers, so this is one of its own.
            0 => Own::Alone(TxLine::new(self.device.clone(), self.tx_given as u16)),
            n => Own::Shared(self.tx_shared[self.tx_given % n].clone()),
        };
        if self.tx_shared.is_empty() && self.tx_given >= setup.tx_queues.into() {
            let name = self.info.name.clone();
            return Err(Error::Busy { name, what: "every transmit queue" });
        }
        self.tx_given += 1;
        Ok(Box::new(Tx {
            line,
            can_sum: setup.can & sys::CAN_CSUM != 0,
            can_cut: setup.can & sys::CAN_TSO != 0,
            can_chain: setup.can & sys::CAN_CHAIN != 0,
            keeps_length: self.device.driver() == "net_vhost",
            mtu: self.info.mtu,
            pending: Mbufs::new(),
            pending_bytes: 0,
            prepare: false,
            spare: Pool::default(),
            report: TxReport::default(),
        }))
    }

    fn marks(&self) -> Option<Arc<dyn Marks>> {
        Some(self.device.clone())
    }

    fn kernel_stats(&mut self) -> KernelStats {
        let stats = self.device.stats();
        KernelStats {
            rx_dropped: stats.missed + stats.rx_nombuf,
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors,
            ..KernelStats::default()
        }
    }
}

struct Rx {
    line: RxLine,
    drops: Drops,
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let drops = &mut self.drops;
        Ok(self.line.receive(burst, pool, |reason| drops.add(reason, 1)))
    }

    fn rx_borrowed(
        &mut self,
        borrowed: &mut BorrowedBurst,
        burst: &mut Burst,
        pool: &mut Pool,
    ) -> Result<usize, RxError> {
        let drops = &mut self.drops;
        Ok(self.line.receive_borrowed(borrowed, burst, pool, |reason| drops.add(reason, 1)))
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn drops(&self) -> Drops {
        self.drops
    }
}

/// Whose a device's transmit queue is.
enum Own {
    /// One worker's.
    Alone(TxLine),
    /// Several workers'.
    Shared(Arc<Mutex<TxLine>>),
}

struct Tx {
    line: Own,
    /// The driver completes TCP's and UDP's checksums.
    can_sum: bool,
    /// The driver cuts TCP into segments.
    can_cut: bool,
    /// The driver sends frames of several mbufs.
    can_chain: bool,
    /// In a frame to be cut, the pseudo header's sum is to have the length in it.
    keeps_length: bool,
    mtu: u32,
    pending: Mbufs,
    /// Bytes of all that is pending.
    pending_bytes: u64,
    /// Something pending owes what the driver has to prepare.
    prepare: bool,
    spare: Pool,
    report: TxReport,
}

/// The longest frame that fits one mbuf, in bytes.
const ROOM: usize = 2048;

impl Tx {
    #[inline]
    fn queue(&mut self, mbuf: Mbuf, len: usize) {
        self.pending.push(mbuf);
        self.pending_bytes += len as u64;
        if self.pending.len() >= BURST_MAX {
            self.send_pending();
        }
    }

    /// Queues a copy in mbufs of our own.
    fn queue_copy(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        if bytes.len() > ROOM && !self.can_chain {
            return Err(DropReason::TxTooLong);
        }
        // The pool is shared by everything, so what is missing in it fails to leave here.
        let mbuf = Mbuf::copy_of(bytes).ok_or(DropReason::TxRingFull)?;
        self.queue(mbuf, bytes.len());
        Ok(())
    }

    /// Queues a frame that owes something.
    #[cold]
    fn queue_owing(&mut self, mut frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        let Some(owed) = self.carried(&frame) else {
            let mut spare = std::mem::take(&mut self.spare);
            let mut result = Ok(());
            let done = gso::complete(&frame, &mut spare, |part| {
                if let Err(reason) = self.queue_copy(part.data()) {
                    self.report.drops.add(reason, 1);
                    result = Err(reason);
                }
            });
            self.spare = spare;
            pool.give(frame);
            return done;
        };
        if owed.segment != 0 && !self.keeps_length {
            let l4 = usize::from(owed.l2_len + owed.l3_len);
            forget_length(frame.data_mut(), l4);
        }
        let len = frame.len();
        let mut mbuf = match Mbuf::of(&mut frame) {
            Some(mbuf) => mbuf,
            None => {
                let copied = (frame.len() <= ROOM || self.can_chain)
                    .then(|| Mbuf::copy_of(frame.data()))
                    .flatten();
                pool.give(frame);
                copied.ok_or(DropReason::TxRingFull)?
            }
        };
        mbuf.owe(&owed);
        self.prepare = true;
        self.queue(mbuf, len);
        Ok(())
    }

    /// What the driver is told of a frame's debts; `None` if it cannot carry them.
    fn carried(&self, frame: &Frame) -> Option<Owed> {
        let Csum::Partial { start, offset } = frame.offload.csum else { return None };
        let segment = match frame.offload.gso {
            None => 0,
            Some(gso) if matches!(gso.kind, GsoKind::TcpV4 | GsoKind::TcpV6) && self.can_cut => {
                gso.size
            }
            Some(_) => return None,
        };
        owed(frame.data(), start, offset, segment).filter(|_| self.can_sum)
    }

    fn send_pending(&mut self) {
        let prepare = std::mem::take(&mut self.prepare);
        while !self.pending.is_empty() {
            let before = self.pending.len();
            let (prepared, n) = match &mut self.line {
                Own::Alone(line) => line.send(&mut self.pending, prepare),
                Own::Shared(line) => line
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .send(&mut self.pending, prepare),
            };
            let left = self.pending.bytes();
            self.report.sent += n as u64;
            self.report.sent_bytes += self.pending_bytes.saturating_sub(left);
            self.pending_bytes = left;
            if n > 0 {
                continue;
            }
            // The driver cannot prepare the first one, or takes none at all.
            let lost = if prepared == 0 { 1 } else { before };
            let reason = match prepared {
                0 => DropReason::TxNoOffload,
                _ => DropReason::TxRingFull,
            };
            self.report.drops.add(reason, lost as u64);
            self.pending.drop_first(lost);
            self.pending_bytes = self.pending.bytes();
        }
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        gso::check_len(frame, self.mtu)?;
        if frame.offload.is_plain() {
            return self.queue_copy(frame.data());
        }
        let mut spare = std::mem::take(&mut self.spare);
        let result = self.queue_owing(frame.clone(), &mut spare);
        self.spare = spare;
        result
    }

    fn tx_owned(&mut self, mut frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        self.tx_taken(&mut frame, pool)
    }

    fn tx_taken(&mut self, frame: &mut Frame, pool: &mut Pool) -> Result<(), DropReason> {
        if let Err(reason) = gso::check_len(frame, self.mtu) {
            pool.give(frame.take());
            return Err(reason);
        }
        if !frame.offload.is_plain() {
            return self.queue_owing(frame.take(), pool);
        }
        let len = frame.len();
        match Mbuf::of(frame) {
            Some(mbuf) => {
                self.queue(mbuf, len);
                Ok(())
            }
            None => {
                let result = self.queue_copy(frame.data());
                pool.give(frame.take());
                result
            }
        }
    }

    fn tx_batch(
        &mut self,
        batch: &mut Batch,
        pool: &mut Pool,
        refused: &mut dyn FnMut(DropReason),
    ) {
        let Sizes { bytes, least, most } = batch.sizes();
        let fit = gso::fits(least.into(), self.mtu) && gso::fits(most.into(), self.mtu);
        if fit && self.pending.take_all(batch) {
            self.pending_bytes += u64::from(bytes);
            if self.pending.len() >= BURST_MAX {
                self.send_pending();
            }
            return;
        }
        // Each on its own.
        let mut burst = Burst::new();
        while !batch.is_empty() {
            batch.become_frames(&mut burst);
            for frame in burst.frames_mut() {
                if let Err(reason) = self.tx_taken(frame, pool) {
                    refused(reason);
                }
            }
            burst.clear();
        }
    }

    fn flush(&mut self) -> TxReport {
        self.send_pending();
        std::mem::take(&mut self.report)
    }
}

/// Lengths of the headers of a TCP or UDP frame behind VLAN tags, whose checksum is to be completed
/// from `start` on, at `start + offset`.
fn owed(data: &[u8], start: u16, offset: u16, segment: u16) -> Option<Owed> {
    let layers = Layers::of(data);
    let (l3, l4) = (layers.l3?, layers.l4?);
    let ipv6 = match layers.network {
        Network::Ipv4 => false,
        Network::Ipv6 => true,
        Network::Other | Network::Arp => return None,
    };
    let udp = match (layers.protocol?, offset) {
        (wire::IpProtocol::TCP, 16) => false,
        (wire::IpProtocol::UDP, 6) => true,
        _ => return None,
    };
    // DPDK's length fields have 7 and 9 bits.
    if layers.mpls_labels > 0 || l4 != usize::from(start) || l3 > 127 || l4 - l3 > 511 {
        return None;
    }
    let l4_len = if udp { 8 } else { u16::from(*data.get(l4 + 12)? >> 4) * 4 };
    Some(Owed {
        l2_len: l3 as u16,
        l3_len: (l4 - l3) as u16,
        l4_len,
        segment,
        ipv6: ipv6.into(),
        udp: udp.into(),
    })
}

/// Takes the length out of the pseudo header's sum in a TCP header at `l4`.
fn forget_length(data: &mut [u8], l4: usize) {
    let end = Layers::of(data).l3_end;
    let len = (end.saturating_sub(l4)) as u32;
    let Some(field) = data.get_mut(l4 + 16..l4 + 18) else { return };
    let mut sum = u32::from(u16::from_be_bytes([field[0], field[1]]));
    // One's complement: to subtract is to add the complement.
    for part in [len >> 16, len & 0xffff] {
        sum += !part & 0xffff;
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    field.copy_from_slice(&(sum as u16).to_be_bytes());
}
