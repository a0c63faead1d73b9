//! What a port is to the rest of the switch: a control side, and queues for workers.

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::burst::Burst;
use crate::drops::{DropReason, Drops, TxReport};
use crate::error::{Error, RxError};
use crate::frame::Frame;
use crate::link::LinkRequest;
use crate::marks;
use crate::pool::Pool;
use crate::sys::borrowed::{Batch, BorrowedBurst};

/// What a port is, fixed when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The name shown to people and controllers; for an interface, the interface's name.
    pub name: String,
    /// The kind, as it is spelled in a specification: `tap`, `af_packet`, `memory`, ...
    pub kind: &'static str,
    /// The hardware address; locally administered for ports that have none of their own.
    pub mac: [u8; 6],
    /// Largest payload of an Ethernet frame, in bytes (without the Ethernet header).
    pub mtu: u32,
    /// Current speed in kb/s; 0 where nobody knows.
    pub curr_speed_kbps: u32,
    /// Whether partial checksums and GSO frames leave this port as they are. If not, its transmit
    /// queues complete them in software.
    pub carries_offload: bool,
    /// Its frames begin with a descriptor (`contract::tunnel`), as those of tunnel ports do.
    pub described: bool,
    /// How many receive queues [`Port::rx_queue`] gives, at least 1.
    pub rx_queues: usize,
    /// What a user should know at start, one sentence each, with the remedy.
    pub warnings: Vec<String>,
}

impl PortInfo {
    /// Whether receive queue `queue` may be opened: it is one of the port's, and not `open` already.
    pub fn check_rx_queue(&self, queue: usize, open: bool) -> Result<(), Error> {
        let name = || self.name.clone();
        if queue >= self.rx_queues {
            return Err(Error::NoQueue { name: name(), queue, queues: self.rx_queues });
        }
        if open {
            return Err(Error::Busy { name: name(), what: "this receive queue" });
        }
        Ok(())
    }
}

/// What is known of a port's link at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Somebody wants it up.
    pub admin_up: bool,
    /// A signal, or a peer, is there.
    pub carrier: bool,
    /// The interface exists. While it does not, the other two are false.
    pub present: bool,
}

impl LinkState {
    /// Present, wanted up, and with carrier.
    pub const UP: LinkState = LinkState { admin_up: true, carrier: true, present: true };
    /// The interface does not exist.
    pub const GONE: LinkState = LinkState { admin_up: false, carrier: false, present: false };

    /// Whether frames can pass.
    pub fn is_up(self) -> bool {
        self.present && self.admin_up && self.carrier
    }
}

/// What the kernel (or the ring) counted for a port since it was opened, where it counts at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// Frames that came but found our queue full.
    pub rx_dropped: u64,
    /// Frames the interface received wrongly, of any kind.
    pub rx_errors: u64,
    /// Of `rx_errors`: bad framing.
    pub rx_frame_errors: u64,
    /// Of `rx_errors`: overrun.
    pub rx_over_errors: u64,
    /// Of `rx_errors`: bad frame checksum.
    pub rx_crc_errors: u64,
    /// Frames the interface dropped on their way out.
    pub tx_dropped: u64,
    /// Frames the interface failed to send.
    pub tx_errors: u64,
    /// Collisions.
    pub collisions: u64,
}

/// Who says when a frame arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StampedBy {
    /// This process, when it fetched the frame.
    #[default]
    Process,
    /// The kernel, when it took the frame from its device.
    Kernel,
    /// The device, by its own clock, as that is told in the system's time.
    Device,
}

impl StampedBy {
    /// As reports name it.
    pub fn word(self) -> &'static str {
        match self {
            StampedBy::Process => "process",
            StampedBy::Kernel => "kernel",
            StampedBy::Device => "device",
        }
    }
}

impl std::fmt::Display for StampedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// The control side of a port.
///
/// Not in the packet path: each call may cost system calls. Dropping it leaves queues working
/// until they are dropped, but nobody then notices link changes.
pub trait Port: Send {
    /// What it is.
    fn info(&self) -> &PortInfo;

    /// What it is called in the switch, which what it logs says beside the name of what is behind it.
    fn set_name(&mut self, _: &str) {}

    /// The state of the link now. Drains pending events, and re-opens an interface that has come
    /// back. Cheap enough to call a few times per second without any event.
    fn link(&mut self) -> LinkState;

    /// Readable when [`link`](Port::link) may have something new to say; `None` when the state
    /// changes only by our own hand or must be asked for.
    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether there is carrier now, for kinds whose [`event_fd`](Port::event_fd) may tell late that it
    /// was lost: cheap enough to be asked some hundred times a second. `None` where events do.
    fn glance(&self) -> Option<bool> {
        None
    }

    /// Brings the port administratively up or down.
    fn set_admin(&mut self, up: bool) -> Result<(), Error>;

    /// Sets MTU and address. Refused by kinds that have none to set.
    fn set_link(&mut self, wanted: LinkRequest) -> Result<(), Error> {
        if wanted == LinkRequest::default() {
            return Ok(());
        }
        let what = format!("MTU and address of a port of kind {} are fixed", self.info().kind);
        Err(Error::Unsupported { name: self.info().name.clone(), what })
    }

    /// Has frames of queues that are opened from now on bear the time at which they arrived, by the best that the port
    /// has: [`Frame::rx_ns`] is then that, in place of when we fetched them. Costs the kernel a reading of the
    /// clock for each frame. Says by whom they are stamped.
    fn stamp_arrivals(&mut self) -> StampedBy {
        StampedBy::Process
    }

    /// Looks anew how frames can leave, where there is more than one way, and says so in a few words. To be asked before
    /// a run of traffic, as it may change with what is at the other end.
    fn sending(&mut self) -> Option<String> {
        None
    }

    /// Opens receive queue `queue`, counting from 0, below [`PortInfo::rx_queues`]; each once.
    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error>;

    /// The worker that must serve this receive queue, if it may not be any: its frames come from that worker itself.
    fn worker_of(&self, queue: usize) -> Option<usize> {
        let _ = queue;
        None
    }

    /// Opens a transmit queue: one for each worker.
    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error>;

    /// Its socket or descriptor, for a process that receives where this one stops: what comes meanwhile waits in it. None for
    /// kinds that have none which another process can go on with.
    fn receiving(&self) -> Option<OwnedFd> {
        None
    }

    /// The receive queue that is opened next goes on with a socket that such a port of another process, on the same interface,
    /// [has](Self::receiving). False: this kind opens its own.
    fn receive_by(&mut self, socket: OwnedFd) -> bool {
        let _ = socket;
        false
    }

    /// What the kernel counted for this port since it was opened.
    fn kernel_stats(&mut self) -> KernelStats {
        KernelStats::default()
    }

    /// Bytes that the kernel has taken from us to send and has not sent, with what it needs beside them.
    fn tx_waiting(&mut self) -> u64 {
        0
    }

    /// The table by which its hardware marks flows, if it has one.
    fn marks(&self) -> Option<std::sync::Arc<dyn marks::Marks>> {
        None
    }
}

/// A receive queue, in the hands of one worker.
pub trait RxQueue: Send {
    /// Adds frames to `burst` until it is full or nothing more is there; never blocks. Returns how
    /// many were added. Frames come from `pool`; their `rx_port` is left 0 for the worker to set.
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError>;

    /// As [`rx`](RxQueue::rx), for a driver with buffers of its own: frames of which there is nothing to
    /// say but where they lie are put into `borrowed`, a burst of them at most. Either all that came, or none, and then
    /// all is in `burst`. Both are empty before.
    fn rx_borrowed(
        &mut self,
        borrowed: &mut BorrowedBurst,
        burst: &mut Burst,
        pool: &mut Pool,
    ) -> Result<usize, RxError> {
        let _ = borrowed;
        self.rx(burst, pool)
    }

    /// Readable (level-triggered) while frames may be waiting: what a worker sleeps on, after
    /// [`rx`](RxQueue::rx) has returned 0. `None`: frames may be there at any time, so it must be
    /// polled until [`RxError::Ended`]. After [`RxError::Down`] or [`RxError::Gone`] it may stay
    /// readable until the interface is back: wait a while instead of sleeping on it.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Of a queue whose frames come from the same worker that serves it, and from nowhere else: whether some wait. A worker
    /// does not sleep while some do; it sleeps on its [`fd`](RxQueue::fd), if it has one, which tells when some may have come.
    fn local(&self) -> Option<bool> {
        None
    }

    /// What it gave last was run, and has been given to the queues by which it leaves. Told to queues that are
    /// [local](RxQueue::local) alone.
    fn done(&mut self) {}

    /// Frames lost in this queue since it was opened.
    fn drops(&self) -> Drops {
        Drops::default()
    }
}

/// A transmit queue, in the hands of one worker.
pub trait TxQueue: Send {
    /// Queues a copy of `frame`, or sends it. `Err`: it was dropped, for this reason, and is *not*
    /// in any [`TxReport`]. A queued frame leaves at the latest with the next
    /// [`flush`](TxQueue::flush).
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason>;

    /// As [`tx`](TxQueue::tx), for a frame nobody else needs: saves the copy where it can. The
    /// buffer goes back to `pool`, now or later.
    fn tx_owned(&mut self, frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        let result = self.tx(&frame);
        pool.give(frame);
        result
    }

    /// As [`tx_owned`](TxQueue::tx_owned), for a frame that stays where it lies: it is hollow then.
    fn tx_taken(&mut self, frame: &mut Frame, pool: &mut Pool) -> Result<(), DropReason> {
        self.tx_owned(frame.take(), pool)
    }

    /// As [`tx_owned`](TxQueue::tx_owned), for frames that are still their driver's; `refused` hears why of each that
    /// was dropped. None is left.
    fn tx_batch(
        &mut self,
        batch: &mut Batch,
        pool: &mut Pool,
        refused: &mut dyn FnMut(DropReason),
    ) {
        let mut burst = Burst::new();
        while !batch.is_empty() {
            batch.become_frames(&mut burst);
            for frame in burst.drain() {
                if let Err(reason) = self.tx_owned(frame, pool) {
                    refused(reason);
                }
            }
        }
    }

    /// Sends all that is queued, and reports what became of the frames accepted since the last
    /// report. A frame segmented in software counts as its segments.
    fn flush(&mut self) -> TxReport;

    /// Has the kernel stamp the frames that are given from now on when it hands them to their device, or no more; costs
    /// it a buffer for each. Says whether it will: `false` for kinds of port that have no such stamps.
    fn stamp_departures(&mut self, on: bool) -> bool {
        let _ = on;
        false
    }

    /// Hands over what the kernel has reported of departures since the last call: which frame, counted from 0 since
    /// [`stamp_departures`](TxQueue::stamp_departures), and when, in nanoseconds of the wall clock. A frame of which it
    /// tells nothing may have left all the same. After a frame was refused, nothing is told until it is asked for anew.
    fn departures(&mut self, sink: &mut dyn FnMut(u64, u64)) {
        let _ = sink;
    }
}
