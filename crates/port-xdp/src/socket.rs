//! AF_XDP sockets on queues of an interface, one each, with the program that feeds them: everything
//! that is made anew when the interface is.
//!
//! The two directions share the socket and nothing else. All sockets share memory ([`umem`](crate::umem)): a
//! chunk goes from the fill ring to the receive ring, perhaps as a frame through the pipeline to some
//! socket's transmit ring, from its completion ring to the idle ones of a thread, and from there to a fill
//! ring again.
//!
//! Invariant: the receiving direction never gives away its last chunks. A frame is handed on in its chunk
//! only where an idle one takes its place in the fill ring, and by its bytes otherwise; so neither
//! full transmit rings nor frames that wait anywhere can stop a socket from receiving.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::live::{Live, Maps};
use crate::program;
use crate::ring::{Consumer, Producer};
use crate::sys::{self, Mapping, RingKind, RingOffset, Statistics};
use crate::umem::{CHUNK_BYTES, Chunk, DIRECTION_CHUNKS, Held, Left, Local, Placed, Umem};

/// Entries of each ring, and chunks for each direction.
pub(crate) const RING_ENTRIES: u32 = DIRECTION_CHUNKS;
/// System calls tried to get one flush out; each sends at least some tens of frames.
const KICKS_MAX: u32 = 64;

/// What both directions need, and what keeps the program attached.
///
/// Fields end in their order: what the kernel had of the memory goes back after the socket was closed.
pub(crate) struct Base {
    fd: OwnedFd,
    left: Arc<Left>,
}

/// The receiving direction.
///
/// Fields end in their order: a mapped ring keeps its socket from being closed.
pub(crate) struct RxHalf {
    pub(crate) fill: Producer<u64>,
    pub(crate) rx: Consumer<libc::xdp_desc>,
    /// The driver's loop runs only when it is called.
    busy_polls: bool,
    held: Held,
    umem: &'static Umem,
    base: Arc<Base>,
}

/// The sending direction. Fields end in their order, as above.
pub(crate) struct TxHalf {
    pub(crate) tx: Producer<libc::xdp_desc>,
    pub(crate) completion: Consumer<u64>,
    held: Held,
    base: Arc<Base>,
}

/// A frame that has come in.
pub(crate) enum Received<'a> {
    /// In its chunk, which is the taker's.
    Placed(Placed),
    /// Its bytes; the chunk stays.
    Bytes(&'a [u8]),
    /// A descriptor that makes no sense.
    Corrupt,
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
    /// As in [`Settings`](crate::Settings).
    pub(crate) busy_poll_us: Option<u32>,
    /// Bursts may leave as [`Live`] frames.
    pub(crate) live: bool,
}

/// Sockets, the program that feeds them, and the other way to send, or why there is none.
pub(crate) struct Opened {
    pub(crate) sockets: Vec<(RxHalf, TxHalf)>,
    pub(crate) attachment: Attachment,
    pub(crate) live: Result<Live, String>,
}

/// Opens a socket on each queue and attaches a program that feeds them.
pub(crate) fn open(
    ifindex: u32,
    queues: &[u32],
    how: How,
    umem: &'static Umem,
) -> Result<Opened, Failed> {
    let last = queues.iter().max().copied().unwrap_or(0);
    let map = sys::create_xsk_map(last + 1).map_err(|e| ("making a map of sockets", e))?;
    let mut sockets = Vec::with_capacity(queues.len());
    for &queue in queues {
        let (rx, tx) = open_one(ifindex, queue, how, umem)?;
        sys::set_xsk_map(map.as_fd(), queue, rx.base().fd())
            .map_err(|e| ("putting the socket into the map", e))?;
        sockets.push((rx, tx));
    }
    let sending = match how.live {
        true => load_sending(&map, ifindex),
        false => Err("it was not asked for".to_owned()),
    };
    let (program, live) = match sending {
        Ok((program, live)) => (program, Ok(live)),
        Err(reason) => {
            let program = sys::load_program(&program::redirect(map.as_raw_fd()));
            (program.map_err(|e| ("loading the XDP program", e))?, Err(reason))
        }
    };
    let link = sys::attach(program.as_fd(), ifindex, how.native)
        .map_err(|e| ("attaching the XDP program", e))?;
    Ok(Opened { sockets, attachment: Attachment { _link: link, _map: map }, live })
}

/// The program that sends, too, and what it sends by; or why not.
fn load_sending(map: &OwnedFd, ifindex: u32) -> Result<(OwnedFd, Live), String> {
    if ifindex == program::LOOPBACK as u32 {
        return Err("the loopback cannot be told from a test run".to_owned());
    }
    let failed = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    let maps = Maps::new(ifindex).map_err(failed("making its maps"))?;
    let [slots, target] = [maps.slots(), maps.target()].map(AsRawFd::as_raw_fd);
    let code = program::receive_and_send(map.as_raw_fd(), slots, target);
    let program = sys::load_program(&code).map_err(failed("loading the XDP program"))?;
    let ours = program.try_clone().map_err(failed("keeping the XDP program"))?;
    Ok((program, Live::new(maps, ours)))
}

fn open_one(
    ifindex: u32,
    queue: u32,
    how: How,
    umem: &'static Umem,
) -> Result<(RxHalf, TxHalf), Failed> {
    let fd = sys::socket().map_err(|e| ("opening an AF_XDP socket", e))?;
    if let Some(us) = how.busy_poll_us {
        sys::set_busy_poll(fd.as_fd(), us).map_err(|e| ("asking for busy polling", e))?;
    }
    sys::register_umem(fd.as_fd(), umem.memory(), CHUNK_BYTES as u32)
        .map_err(|e| ("registering the frames' memory", e))?;
    let base = Arc::new(Base { fd, left: Arc::new(Left::new(umem)) });
    let rings = make_rings(&base).map_err(|e| ("mapping the rings", e))?;
    let (mut rx, tx) = rings;
    rx.busy_polls = how.busy_poll_us.is_some();
    umem.with_local(|local| rx.refill(local));
    rx.fill.publish();
    bind(&base, ifindex, queue, how).map_err(|e| ("binding to the queue", e))?;
    // A kernel that does not say is taken for one whose driver receives by itself.
    let copies = sys::is_copied(base.fd()).unwrap_or(false);
    base.left.rests.store(!copies, Relaxed);
    sys::set_tx_budget(base.fd(), RING_ENTRIES);
    Ok((rx, tx))
}

/// The kernel lets go of a queue some time after the socket that had it was closed, on a thread of its own: a
/// port that is opened again at once waits for that, no longer than [`RELEASE_MAX`].
fn bind(base: &Base, ifindex: u32, queue: u32, how: How) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match sys::bind(base.fd(), ifindex, queue, !how.native) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < RELEASE_MAX => {
                std::thread::sleep(RELEASE_STEP);
            }
            done => return done,
        }
    }
}

fn make_rings(base: &Arc<Base>) -> io::Result<(RxHalf, TxHalf)> {
    let fd = base.fd();
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
    let (umem, held) = (base.left.umem(), || Held::new(base.left.clone()));
    let rx = RxHalf {
        fill: Producer::new(fill, offsets.fill, RING_ENTRIES)?,
        rx: Consumer::new(rx, offsets.rx, RING_ENTRIES)?,
        busy_polls: false,
        held: held(),
        umem,
        base: base.clone(),
    };
    let tx = TxHalf {
        tx: Producer::new(tx, offsets.tx, RING_ENTRIES)?,
        completion: Consumer::new(completion, offsets.completion, RING_ENTRIES)?,
        held: held(),
        base: base.clone(),
    };
    Ok((rx, tx))
}

impl RxHalf {
    /// Hands up to `max` frames to `sink`; returns how many.
    pub(crate) fn receive(&mut self, max: usize, mut sink: impl FnMut(Received<'_>)) -> usize {
        let umem = self.umem;
        let received = umem.with_local(|local| {
            let mut received = 0;
            // Asked once a burst, as a common list that has nothing to spare costs a lock.
            let mut spares = true;
            while received < max {
                let Some(desc) = self.rx.pop() else { break };
                received += 1;
                let Some(chunk) = self.held.take(desc.addr) else {
                    sink(Received::Corrupt);
                    continue;
                };
                let placed = match umem.placed(chunk, desc.addr, desc.len) {
                    Ok(placed) => placed,
                    Err(chunk) => {
                        self.supply(chunk);
                        sink(Received::Corrupt);
                        continue;
                    }
                };
                let other = if local.is_empty() && !spares { None } else { local.take() };
                spares = other.is_some();
                match other {
                    Some(other) => {
                        self.supply(other);
                        sink(Received::Placed(placed));
                    }
                    None => {
                        sink(Received::Bytes(umem.bytes(&placed)));
                        self.supply(placed.into_chunk().0);
                    }
                }
            }
            if self.held.count() < RING_ENTRIES {
                self.refill(local);
            }
            received
        });
        if received > 0 {
            self.rx.release();
            self.fill.publish();
        }
        if self.fill.needs_wakeup() || self.busy_polls && received < max {
            self.kick();
        }
        received
    }

    /// Puts a chunk into the fill ring.
    #[inline]
    fn supply(&mut self, chunk: Chunk) {
        let address = self.held.put(chunk);
        // This side has no more chunks than the ring has entries, so there is room.
        let _ = self.fill.push(address);
    }

    /// Supplies as many chunks as this side may have, unannounced.
    #[cold]
    fn refill(&mut self, local: &mut Local) {
        while self.held.count() < RING_ENTRIES
            && let Some(chunk) = local.take()
        {
            self.supply(chunk);
        }
    }

    /// Has the driver look into the fill ring.
    pub(crate) fn kick(&self) {
        sys::kick_rx(self.base.fd());
    }

    /// What both directions share.
    pub(crate) fn base(&self) -> &Arc<Base> {
        &self.base
    }
}

impl TxHalf {
    /// Queues a frame of the memory; gives it back if the ring is full.
    #[inline]
    pub(crate) fn queue(&mut self, placed: Placed, local: &mut Local) -> Result<(), Placed> {
        if self.held.count() >= RING_ENTRIES {
            self.collect(local);
        }
        if self.held.count() >= RING_ENTRIES || self.tx.is_full() {
            return Err(placed);
        }
        let len = placed.len();
        let (chunk, at) = placed.into_chunk();
        let addr = self.held.put(chunk) + u64::from(at);
        // The ring is not full, as just checked.
        let _ = self.tx.push(libc::xdp_desc { addr, len, options: 0 });
        Ok(())
    }

    /// Announces what was queued and has the kernel send it; takes back the chunks of frames that are sent.
    pub(crate) fn flush(&mut self, local: &mut Local) -> io::Result<()> {
        let TxHalf { tx, completion, held, base, .. } = self;
        let result = send(base.fd(), tx, || collect(completion, held, local));
        collect(completion, held, local);
        result
    }

    /// What both directions share.
    pub(crate) fn base(&self) -> &Arc<Base> {
        &self.base
    }

    /// Takes back the chunks of frames that are sent.
    pub(crate) fn collect(&mut self, local: &mut Local) {
        collect(&mut self.completion, &mut self.held, local);
    }
}

fn collect(completion: &mut Consumer<u64>, held: &mut Held, local: &mut Local) {
    while let Some(address) = completion.pop() {
        if let Some(chunk) = held.take(address) {
            local.give(chunk);
        }
    }
    completion.release();
}

/// Announces what is in a transmit ring and has the kernel send it; `collect` empties the completion ring.
pub(crate) fn send(
    xsk: BorrowedFd<'_>,
    tx: &mut Producer<libc::xdp_desc>,
    mut collect: impl FnMut(),
) -> io::Result<()> {
    tx.publish();
    for _ in 0..KICKS_MAX {
        if !tx.has_waiting() || !tx.needs_wakeup() {
            break;
        }
        match sys::kick_tx(xsk) {
            Ok(()) => {}
            // The kernel sends so many a call, or waits for completions to be collected.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => collect(),
            // The interface's own queue is full: what is left goes with the next flush.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Base {
    /// The socket.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The kernel's counters.
    pub(crate) fn statistics(&self) -> io::Result<Statistics> {
        sys::statistics(self.fd())
    }
}
