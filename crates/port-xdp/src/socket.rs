//! AF_XDP sockets on queues of an interface, one each, with the program that feeds them: everything
//! that is made anew when the interface is.
//!
//! The two directions share the socket and its memory, and nothing else: half of the chunks travel
//! between the fill and the receive ring, the other half between the transmit and the completion
//! ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::program;
use crate::ring::{Consumer, Producer};
use crate::sys::{self, Mapping, RingKind, RingOffset, Statistics};
use crate::umem::{CHUNK_BYTES, Chunk, Umem};

/// Entries of each ring, and chunks for each direction.
pub(crate) const RING_ENTRIES: u32 = 2048;
/// System calls tried to get one flush out; each sends at least some tens of frames.
const KICKS_MAX: u32 = 64;

/// What both directions need, and what keeps the program attached.
pub(crate) struct Base {
    fd: OwnedFd,
    umem: Umem,
}

/// The receiving direction.
pub(crate) struct RxHalf {
    base: Arc<Base>,
    fill: Producer<u64>,
    rx: Consumer<libc::xdp_desc>,
    /// The driver's loop runs only when it is called.
    busy_polls: bool,
}

/// The sending direction.
pub(crate) struct TxHalf {
    base: Arc<Base>,
    tx: Producer<libc::xdp_desc>,
    completion: Consumer<u64>,
    idle: Vec<Chunk>,
}

/// An attached program; dropping it detaches.
pub(crate) struct Attachment {
    _link: OwnedFd,
    _map: OwnedFd,
}

/// A step that failed, and how.
pub(crate) type Failed = (&'static str, io::Error);

/// How long a queue may stay taken after its port was closed.
const RELEASE_MAX: Duration = Duration::from_secs(1);
/// How often that is looked at.
const RELEASE_STEP: Duration = Duration::from_millis(5);

/// How sockets are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// The program runs in the driver.
    pub(crate) native: bool,
    /// As in [`port::spec::Xdp`].
    pub(crate) busy_poll_us: Option<u32>,
}

/// Opens a socket on each queue and attaches a program that feeds them.
pub(crate) fn open(
    ifindex: u32,
    queues: &[u32],
    how: How,
) -> Result<(Vec<(RxHalf, TxHalf)>, Attachment), Failed> {
    let last = queues.iter().max().copied().unwrap_or(0);
    let map = sys::create_xsk_map(last + 1).map_err(|e| ("making a map of sockets", e))?;
    let mut sockets = Vec::with_capacity(queues.len());
    for &queue in queues {
        let (rx, tx) = open_one(ifindex, queue, how)?;
        sys::set_xsk_map(map.as_fd(), queue, rx.fd())
            .map_err(|e| ("putting the socket into the map", e))?;
        sockets.push((rx, tx));
    }
    let code = program::redirect(std::os::fd::AsRawFd::as_raw_fd(&map));
    let program = sys::load_program(&code).map_err(|e| ("loading the XDP program", e))?;
    let link = sys::attach(program.as_fd(), ifindex, how.native)
        .map_err(|e| ("attaching the XDP program", e))?;
    Ok((sockets, Attachment { _link: link, _map: map }))
}

fn open_one(ifindex: u32, queue: u32, how: How) -> Result<(RxHalf, TxHalf), Failed> {
    let (umem, mut chunks) =
        Umem::new(2 * RING_ENTRIES).map_err(|e| ("mapping the frames' memory", e))?;
    let tx_chunks = chunks.split_off(RING_ENTRIES as usize);
    let fd = sys::socket().map_err(|e| ("opening an AF_XDP socket", e))?;
    if let Some(us) = how.busy_poll_us {
        sys::set_busy_poll(fd.as_fd(), us).map_err(|e| ("asking for busy polling", e))?;
    }
    sys::register_umem(fd.as_fd(), umem.memory(), CHUNK_BYTES as u32)
        .map_err(|e| ("registering the frames' memory", e))?;
    let base = Arc::new(Base { fd, umem });
    let rings = make_rings(&base, tx_chunks).map_err(|e| ("mapping the rings", e))?;
    let (mut rx, tx) = rings;
    rx.busy_polls = how.busy_poll_us.is_some();
    for chunk in chunks {
        // As many chunks as the ring has entries.
        let _ = rx.fill.push(chunk.address());
    }
    rx.fill.publish();
    bind(&base, ifindex, queue, how).map_err(|e| ("binding to the queue", e))?;
    Ok((rx, tx))
}

/// The kernel lets go of a queue some time after the socket that had it was closed, on a thread of its own: a
/// port that is opened again at once waits for that, no longer than [`RELEASE_MAX`].
fn bind(base: &Base, ifindex: u32, queue: u32, how: How) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match sys::bind(base.fd.as_fd(), ifindex, queue, !how.native) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < RELEASE_MAX => {
                std::thread::sleep(RELEASE_STEP);
            }
            done => return done,
        }
    }
}

fn make_rings(base: &Arc<Base>, idle: Vec<Chunk>) -> io::Result<(RxHalf, TxHalf)> {
    let fd = base.fd.as_fd();
    for ring in [RingKind::Fill, RingKind::Completion, RingKind::Rx, RingKind::Tx] {
        sys::set_ring_size(fd, ring, RING_ENTRIES)?;
    }
    let offsets = sys::ring_offsets(fd)?;
    let map = |ring, offset: RingOffset, entry_bytes: usize| {
        let len = offset.entries as usize + RING_ENTRIES as usize * entry_bytes;
        Mapping::ring(fd, ring, len)
    };
    let desc_bytes = size_of::<libc::xdp_desc>();
    let fill = map(RingKind::Fill, offsets.fill, 8)?;
    let rx = map(RingKind::Rx, offsets.rx, desc_bytes)?;
    let completion = map(RingKind::Completion, offsets.completion, 8)?;
    let tx = map(RingKind::Tx, offsets.tx, desc_bytes)?;
    let rx = RxHalf {
        base: base.clone(),
        fill: Producer::new(fill, offsets.fill, RING_ENTRIES)?,
        rx: Consumer::new(rx, offsets.rx, RING_ENTRIES)?,
        busy_polls: false,
    };
    let tx = TxHalf {
        base: base.clone(),
        tx: Producer::new(tx, offsets.tx, RING_ENTRIES)?,
        completion: Consumer::new(completion, offsets.completion, RING_ENTRIES)?,
        idle,
    };
    Ok((rx, tx))
}

impl RxHalf {
    /// Hands up to `max` frames to `sink`, `None` for a descriptor that makes no sense; returns how
    /// many.
    pub(crate) fn receive(&mut self, max: usize, mut sink: impl FnMut(Option<&[u8]>)) -> usize {
        let mut received = 0;
        while received < max {
            let Some(desc) = self.rx.pop() else { break };
            received += 1;
            let umem = &self.base.umem;
            let Some(chunk) = umem.reclaim(desc.addr) else {
                sink(None);
                continue;
            };
            sink(umem.bytes(&chunk, desc.addr, desc.len));
            // There are as many chunks on this side as entries in the ring, so it has room.
            let _ = self.fill.push(chunk.address());
        }
        if received > 0 {
            self.rx.release();
            self.fill.publish();
        }
        if self.fill.needs_wakeup() || self.busy_polls && received < max {
            sys::kick_rx(self.base.fd.as_fd());
        }
        received
    }

    /// The socket.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.base.fd.as_fd()
    }

    /// What both directions share.
    pub(crate) fn base(&self) -> &Arc<Base> {
        &self.base
    }
}

impl TxHalf {
    /// Queues a frame that fits a chunk; false if the ring is full.
    pub(crate) fn queue(&mut self, data: &[u8]) -> bool {
        if self.idle.is_empty() {
            self.collect();
        }
        if self.tx.is_full() {
            return false;
        }
        let Some(mut chunk) = self.idle.pop() else { return false };
        if !self.base.umem.fill(&mut chunk, data) {
            self.idle.push(chunk);
            return false;
        }
        let desc = libc::xdp_desc { addr: chunk.address(), len: data.len() as u32, options: 0 };
        // The ring is not full, as just checked.
        self.tx.push(desc).is_ok()
    }

    /// Announces what was queued and has the kernel send it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.tx.publish();
        let mut result = Ok(());
        for _ in 0..KICKS_MAX {
            if !self.tx.has_waiting() || !self.tx.needs_wakeup() {
                break;
            }
            result = match sys::kick_tx(self.base.fd.as_fd()) {
                Ok(()) => Ok(()),
                // The kernel sends a few dozen a call, or waits for completions to be collected.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {
                    self.collect();
                    Ok(())
                }
                // The interface's own queue is full: what is left goes with the next flush.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => break,
                Err(error) => Err(error),
            };
            if result.is_err() {
                break;
            }
        }
        self.collect();
        result
    }

    /// Takes back the chunks of frames that are sent.
    fn collect(&mut self) {
        while let Some(address) = self.completion.pop() {
            self.idle.extend(self.base.umem.reclaim(address));
        }
        self.completion.release();
    }
}

impl Base {
    /// The kernel's counters.
    pub(crate) fn statistics(&self) -> io::Result<Statistics> {
        sys::statistics(self.fd.as_fd())
    }
}
