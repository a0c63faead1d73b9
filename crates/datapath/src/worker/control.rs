//! The control side's handle of a worker, and the worker's inbox.
//!
//! A [`Handle`] sends [`Command`]s and wakes the worker; the worker takes them from its [`Inbox`] between bursts.
//! A mark ([`Handle::sent`]) says later whether the worker has obeyed all commands up to it.

use crate::capture::Tap;
use crate::ports::{PortShared, PortTable};
use crate::queues::Queues;
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use ir::{Action, Bits};
use port::{RxQueue, TxQueue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A command of the control side to a worker. Taken between bursts.
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
    /// Never sleep (true), or when all is silent.
    Poll(bool),
    /// Receive, or leave what comes in the ports.
    Receive(bool),
    /// Nothing: that it was obeyed tells that the worker does not stand still.
    Answer,
    /// The worker ends.
    Stop,
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

/// The control side's handle of a worker.
#[derive(Clone)]
pub struct Handle {
    /// Taken only by `drop`.
    sender: Option<Sender<Command>>,
    waker: Waker,
    progress: Arc<Progress>,
}

impl Handle {
    /// Sends the worker a command; it obeys at its next round. False if it has stopped.
    pub fn send(&self, command: Command) -> bool {
        self.progress.sent.fetch_add(1, Ordering::Relaxed);
        let sent = self.sender.as_ref().is_some_and(|s| s.send(command).is_ok());
        self.waker.wake();
        sent
    }

    /// How many commands were sent so far; a mark for [`has_obeyed`](Self::has_obeyed).
    pub fn sent(&self) -> u64 {
        self.progress.sent.load(Ordering::Relaxed)
    }

    /// The worker has obeyed all that was sent before the mark was taken, and what these commands
    /// sent has left; or it has ended.
    pub fn has_obeyed(&self, mark: u64) -> bool {
        self.progress.ended.load(Ordering::Acquire)
            || self.progress.obeyed.load(Ordering::Acquire) >= mark
    }

    /// How many commands were obeyed so far.
    pub fn obeyed(&self) -> u64 {
        self.progress.obeyed.load(Ordering::Relaxed)
    }

    /// Commands that wait to be obeyed.
    pub fn waiting(&self) -> u64 {
        if self.progress.ended.load(Ordering::Acquire) {
            return 0;
        }
        self.sent().saturating_sub(self.progress.obeyed.load(Ordering::Relaxed))
    }

    /// Wakes the worker, so that it adopts what was published.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

/// A worker ends with its last handle: it is woken to notice.
impl Drop for Handle {
    fn drop(&mut self) {
        self.sender = None;
        self.progress.left.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// The worker's end: commands, and what ends its sleep.
pub(super) struct Inbox {
    commands: Receiver<Command>,
    waker: Waker,
    progress: Arc<Progress>,
    /// Commands obeyed so far.
    obeyed: u64,
    /// See [`WorkerConfig::commands_time`](super::WorkerConfig::commands_time).
    pub(super) time_max: Duration,
}

impl Inbox {
    /// An inbox and the handle that reaches it.
    pub(super) fn new(time_max: Duration) -> std::io::Result<(Inbox, Handle)> {
        let (sender, commands) = crossbeam_channel::unbounded();
        let waker = Waker::new()?;
        let progress = Arc::new(Progress::default());
        let handle =
            Handle { sender: Some(sender), waker: waker.clone(), progress: progress.clone() };
        Ok((Inbox { commands, waker, progress, obeyed: 0, time_max }, handle))
    }

    /// The next command, after so many of this round; stop, if no handle is left.
    #[inline]
    pub(super) fn next(&self, round: u64) -> Option<Command> {
        // To ask an empty channel costs a fence, behind which everything waits.
        if !self.has_more(round) {
            return None;
        }
        match self.commands.try_recv() {
            Ok(command) => Some(command),
            Err(TryRecvError::Empty) => None,
            // Nobody is left who could tell it to stop.
            Err(TryRecvError::Disconnected) => Some(Command::Stop),
        }
    }

    /// There are commands beside those that were obeyed, so many of them in this round, or a handle was dropped.
    #[inline]
    fn has_more(&self, round: u64) -> bool {
        let progress = &*self.progress;
        progress.sent.load(Ordering::Relaxed) != self.obeyed + round
            || progress.left.load(Ordering::Relaxed) && progress.left.swap(false, Ordering::Acquire)
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

    /// The worker is no more. Returns how many packets of the control side it never took.
    pub(super) fn close(&self) -> u64 {
        self.progress.ended.store(true, Ordering::Release);
        self.commands.try_iter().filter(|c| matches!(c, Command::Inject(_))).count() as u64
    }
}
