//! The control side's handles of a worker and of its lanes, and the worker's inbox.
//!
//! A [`WorkerHandle`] adds lanes. A [`Handle`] sends [`Command`]s to a lane and wakes the worker; the worker takes them
//! from its [`Inbox`] between bursts. A mark ([`Handle::sent`]) says later whether the worker has obeyed all commands up
//! to it, whichever lane they were for.

use super::lane::{Lane, LaneConfig};
use super::load::{self, Load};
use super::receive::Receiving;
use crate::capture::Tap;
use crate::ports::{PortShared, PortTable};
use crate::queues::Queues;
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use ir::{Action, Bits, DropReason};
use port::{RxQueue, TxQueue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A command of the control side to a lane of a worker. Taken between bursts.
pub enum Command {
    /// A port, with the receive queues that this worker serves and its transmit queue.
    AddPort {
        /// Flags and counters.
        shared: Arc<PortShared>,
        /// Receive queues, perhaps none.
        rx: Vec<Box<dyn RxQueue>>,
        /// The transmit queue.
        tx: Box<dyn TxQueue>,
    },
    /// A port is gone. Its queues go to whoever waits for them: to close one may take the kernel longer than a worker should
    /// be away from the others. If nobody does, they are closed here.
    RemovePort(u32, Option<Sender<Removed>>),
    /// A port has another number: its queues stay with the worker. It has no egress queues then.
    Renumber {
        /// Which port.
        number: u32,
        /// What it is from now on.
        shared: Arc<PortShared>,
    },
    /// A port has other egress queues, or none any more.
    Queues {
        /// Which port.
        number: u32,
        /// What it has now.
        queues: Option<Arc<Queues>>,
    },
    /// The ports by number have changed.
    Ports(Arc<PortTable>),
    /// A packet from the control side.
    Inject(Injection),
    /// Somebody looks at frames, until that is over.
    Capture(Arc<Tap>),
    /// Receive, or leave what comes in the ports.
    Receive(Receiving),
    /// Tell whether frames wait between lanes of this worker, to be received by this one.
    Waits(Sender<bool>),
    /// Nothing: that it was obeyed tells that the worker does not stand still.
    Answer,
    /// The lane ends.
    Stop,
}

/// What a worker is told.
pub(super) enum Order {
    /// A lane that it has from now on.
    Add(Box<Lane>),
    /// A command to a lane.
    Lane(Arc<Key>, Command),
    /// Never sleep (true), or when all is silent.
    Poll(bool),
    /// It ends, and its lanes with it.
    End,
}

/// By which a lane is known to those who send it commands.
pub(super) struct Key {
    /// The worker's number.
    pub(super) worker: usize,
    /// Counts the packets of the control side.
    pub(super) control: Arc<PortShared>,
    /// The lane is no more.
    pub(super) ended: AtomicBool,
}

impl Key {
    /// Counts packets of the control side that came when the lane was no more.
    pub(super) fn count_late(&self, packets: u64) {
        let cell = self.control.cell(self.worker);
        cell.count_rx(packets, 0);
        cell.count_drop(DropReason::Stopped, packets);
    }
}

/// The queues of a port that a worker no longer has.
pub struct Removed {
    /// Receive queues that it served.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// The transmit queue.
    pub tx: Option<Box<dyn TxQueue>>,
}

/// A packet from the control side, with what is to be done with it.
pub struct Injection {
    /// The port it claims to have come in by.
    pub in_port: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Run on it after the parser.
    pub action: Arc<Action>,
    /// The action's arguments.
    pub args: Vec<Bits>,
}

/// Wakes a worker that sleeps.
#[derive(Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    fn new() -> std::io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Waker(Arc::new(fd)))
    }

    /// Ends the worker's sleep, or the next one.
    pub fn wake(&self) {
        // Full only after 2^64-1 wake-ups that nobody took: then it is readable all the same.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        // Empty is what we want.
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }
}

/// How far a worker is with its commands.
#[derive(Default)]
struct Progress {
    /// Commands that were sent, or are about to be.
    sent: AtomicU64,
    /// Commands obeyed, with all that they sent flushed.
    obeyed: AtomicU64,
    /// The worker is no more.
    ended: AtomicBool,
    /// A handle has gone since the worker last looked whether any is left.
    left: AtomicBool,
}

/// The way to a worker.
#[derive(Clone)]
struct Link {
    /// Taken only by `drop`.
    sender: Option<Sender<Order>>,
    waker: Waker,
    progress: Arc<Progress>,
}

impl Link {
    fn send(&self, order: Order) -> bool {
        self.progress.sent.fetch_add(1, Ordering::Relaxed);
        let sent = self.sender.as_ref().is_some_and(|s| s.send(order).is_ok());
        self.waker.wake();
        sent
    }
}

/// A worker ends with its last handle: it is woken to notice.
impl Drop for Link {
    fn drop(&mut self) {
        self.sender = None;
        self.progress.left.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// The control side's handle of a worker, by which lanes are added. A worker without lanes waits for some as long as there
/// is such a handle.
#[derive(Clone)]
pub struct WorkerHandle {
    index: usize,
    bursts_max: usize,
    /// Before the link, whose end wakes the worker.
    _owner: Arc<()>,
    link: Link,
    load: load::Reader,
}

impl WorkerHandle {
    /// Adds a lane without ports. It counts as running from now on.
    pub fn add(&self, config: LaneConfig) -> Handle {
        let control = config.control.clone();
        let key = Arc::new(Key { worker: self.index, control, ended: AtomicBool::new(false) });
        let lane = Lane::new(config, key.clone(), self.bursts_max);
        // One that has stopped drops it, and it is not waited for.
        self.link.send(Order::Add(Box::new(lane)));
        Handle { key, link: self.link.clone() }
    }

    /// How busy it has been since the start.
    pub fn load(&self) -> Load {
        self.load.load()
    }

    /// The worker never sleeps (true), or when all is silent.
    pub fn set_polling(&self, polls: bool) {
        self.link.send(Order::Poll(polls));
    }

    /// The worker ends, with its lanes, after what it was told before.
    pub fn stop(&self) {
        self.link.send(Order::End);
    }
}

/// The control side's handle of a lane.
#[derive(Clone)]
pub struct Handle {
    key: Arc<Key>,
    link: Link,
}

impl Handle {
    /// Sends the lane a command; its worker obeys at its next round. False if either has stopped.
    pub fn send(&self, command: Command) -> bool {
        !self.key.ended.load(Ordering::Acquire)
            && self.link.send(Order::Lane(self.key.clone(), command))
    }

    /// How many commands were sent to the worker so far; a mark for [`has_obeyed`](Self::has_obeyed).
    pub fn sent(&self) -> u64 {
        self.link.progress.sent.load(Ordering::Relaxed)
    }

    /// The worker has obeyed all that was sent before the mark was taken, and what these commands
    /// sent has left; or it has ended.
    pub fn has_obeyed(&self, mark: u64) -> bool {
        let progress = &self.link.progress;
        progress.ended.load(Ordering::Acquire) || progress.obeyed.load(Ordering::Acquire) >= mark
    }

    /// How many commands the worker obeyed so far.
    pub fn obeyed(&self) -> u64 {
        self.link.progress.obeyed.load(Ordering::Relaxed)
    }

    /// Commands that wait to be obeyed by the worker.
    pub fn waiting(&self) -> u64 {
        if self.link.progress.ended.load(Ordering::Acquire) {
            return 0;
        }
        self.sent().saturating_sub(self.obeyed())
    }

    /// Wakes the worker, so that it adopts what was published.
    pub fn wake(&self) {
        self.link.waker.wake();
    }
}

/// The worker's end: commands, and what ends its sleep.
pub(super) struct Inbox {
    orders: Receiver<Order>,
    waker: Waker,
    progress: Arc<Progress>,
    /// Gone once nobody can add lanes any more.
    owner: Weak<()>,
    /// Commands obeyed so far.
    obeyed: u64,
    /// See [`WorkerConfig::commands_time`](super::WorkerConfig::commands_time).
    pub(super) time_max: Duration,
}

impl Inbox {
    /// An inbox and the handle that reaches it, for this worker.
    pub(super) fn new(
        index: usize,
        bursts_max: usize,
        time_max: Duration,
        load: load::Reader,
    ) -> std::io::Result<(Inbox, WorkerHandle)> {
        let (sender, orders) = crossbeam_channel::unbounded();
        let waker = Waker::new()?;
        let progress = Arc::new(Progress::default());
        let owner = Arc::new(());
        let inbox = Inbox {
            orders,
            waker: waker.clone(),
            progress: progress.clone(),
            owner: Arc::downgrade(&owner),
            obeyed: 0,
            time_max,
        };
        let link = Link { sender: Some(sender), waker, progress };
        Ok((inbox, WorkerHandle { index, bursts_max, _owner: owner, link, load }))
    }

    /// The next order, after so many of this round; the end, if no handle is left.
    #[inline]
    pub(super) fn next(&self, round: u64) -> Option<Order> {
        // To ask an empty channel costs a fence, behind which everything waits.
        if !self.has_more(round) {
            return None;
        }
        match self.orders.try_recv() {
            Ok(order) => Some(order),
            Err(TryRecvError::Empty) => None,
            // Nobody is left who could tell it to stop.
            Err(TryRecvError::Disconnected) => Some(Order::End),
        }
    }

    /// There are commands beside those that were obeyed, so many of them in this round, or a handle was dropped.
    #[inline]
    fn has_more(&self, round: u64) -> bool {
        let progress = &*self.progress;
        progress.sent.load(Ordering::Relaxed) != self.obeyed + round
            || progress.left.load(Ordering::Relaxed) && progress.left.swap(false, Ordering::Acquire)
    }

    /// Nobody can add lanes any more, and none is on its way.
    pub(super) fn is_final(&self) -> bool {
        self.owner.strong_count() == 0 && {
            // What the last one has sent is seen from here on.
            fence(Ordering::Acquire);
            self.orders.is_empty()
        }
    }

    /// So many commands more were obeyed, and what they sent was flushed.
    #[inline]
    pub(super) fn note_obeyed(&mut self, round: u64) {
        if round > 0 {
            self.obeyed += round;
            self.progress.obeyed.store(self.obeyed, Ordering::Release);
        }
    }

    /// Readable once somebody wakes the worker.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.waker.0
    }

    /// The worker is awake.
    pub(super) fn clear(&self) {
        self.waker.clear();
    }

    /// The worker is no more. Packets of the control side that it never took are counted.
    pub(super) fn close(&self) {
        self.progress.ended.store(true, Ordering::Release);
        for order in self.orders.try_iter() {
            if let Order::Lane(key, Command::Inject(_)) = order {
                key.count_late(1);
            }
        }
    }
}
