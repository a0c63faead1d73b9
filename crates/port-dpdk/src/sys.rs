//! The shim's declarations, and safe wrappers around them: the only `unsafe` of this crate.
//!
//! What goes out is safe by ownership. [`Device`] closes its device when the last of its clones goes;
//! [`RxLine`] and [`TxLine`] are one queue each, not to be cloned, so that DPDK's rule (one thread at
//! a time in a queue) holds by exclusive borrowing. A received mbuf is a frame's borrowed buffer from the
//! moment it is seen, and an [`Mbuf`] owns one that is about to leave. Queues of a device whose driver
//! takes their memory away on a thread of DPDK's are entered only as [`gate`](crate::gate) allows.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::gate::{self, Guard};

use port::marks::{Flow, Mark, MarkError, Marks};
use port::{
    BATCH_MAX, BURST_MAX, Batch, BorrowedBurst, BufferOwner, Burst, Csum, DropReason, Frame, Gso,
    GsoKind, Mbuf as MbufFields, Offload, Pool, Reclaimed,
};
use wire::IpProtocol;

/// `struct mr_bits`.
#[repr(C)]
struct Bits {
    special: u64,
    l4: u64,
    l4_good: u64,
    l4_owed: u64,
}

/// `struct mr_frame`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Received {
    mbuf: *mut c_void,
    buffer: *mut u8,
    len: u32,
    buffer_len: u16,
    start: u16,
    segment: u16,
    flags: u16,
    mark: u32,
}

/// `struct mr_flow`.
#[repr(C)]
struct FlowNow {
    src: [u8; 16],
    dst: [u8; 16],
    src_port: [u8; 2],
    dst_port: [u8; 2],
    ipv6: u8,
    udp: u8,
}

const CSUM_GOOD: u16 = 1;
const CSUM_OWED: u16 = 2;
const SCATTERED: u16 = 4;
const LRO: u16 = 8;
const MARK: u16 = 16;

/// `struct mr_device`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Setup {
    driver: [c_char; 32],
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u16,
    pub(crate) rx_queues_max: u16,
    pub(crate) tx_queues_max: u16,
    pub(crate) rx_queues: u16,
    pub(crate) tx_queues: u16,
    pub(crate) can: u32,
}

/// Completes TCP and UDP checksums.
pub(crate) const CAN_CSUM: u32 = 1;
/// Cuts TCP into segments.
pub(crate) const CAN_TSO: u32 = 2;
/// Sends frames of several buffers.
pub(crate) const CAN_CHAIN: u32 = 4;
/// Spreads over queues by a hash.
pub(crate) const CAN_RSS: u32 = 16;

/// `struct mr_owed`: what a frame still owes when it leaves, lengths in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Owed {
    pub(crate) l2_len: u16,
    pub(crate) l3_len: u16,
    pub(crate) l4_len: u16,
    pub(crate) segment: u16,
    pub(crate) ipv6: u8,
    pub(crate) udp: u8,
}

/// `struct mr_link`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct LinkNow {
    pub(crate) up: u8,
    /// `u32::MAX`: unknown.
    pub(crate) mbps: u32,
}

/// `struct mr_stats`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Stats {
    pub(crate) missed: u64,
    pub(crate) rx_errors: u64,
    pub(crate) rx_nombuf: u64,
    pub(crate) tx_errors: u64,
}

unsafe extern "C" {
    fn mr_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    fn mr_pool(mbufs: u32) -> c_int;
    fn mr_pool_free() -> u32;
    fn mr_probe(devargs: *const c_char, port: *mut u16) -> c_int;
    fn mr_setup(port: u16, rx: u16, tx: u16, symmetric: c_int, out: *mut Setup) -> c_int;
    fn mr_start(port: u16) -> c_int;
    fn mr_restart(port: u16) -> c_int;
    fn mr_call_on(fd: c_int, call: extern "C" fn(*mut c_void)) -> c_int;
    fn mr_close(port: u16);
    fn mr_link(port: u16, out: *mut LinkNow) -> c_int;
    fn mr_set_link(port: u16, up: c_int) -> c_int;
    fn mr_stats(port: u16, out: *mut Stats) -> c_int;
    fn mr_thread(on: c_int) -> c_int;
    fn mr_flow(
        port: u16,
        flow: *const FlowNow,
        mark: u32,
        queues: u16,
        out: *mut *mut c_void,
    ) -> c_int;
    fn mr_flow_end(port: u16, flow: *mut c_void) -> c_int;
    fn mr_rx(port: u16, queue: u16, mbufs: *mut MaybeUninit<NonNull<()>>, max: u16) -> u16;
    fn mr_look(mbuf: *mut c_void, out: *mut Received);
    static mr_bits: Bits;
    fn mr_tx(port: u16, queue: u16, mbufs: *mut NonNull<()>, n: u16) -> u16;
    fn mr_tx_prepare(port: u16, queue: u16, mbufs: *mut NonNull<()>, n: u16) -> u16;
    fn mr_cut(mbuf: *mut (), start: u16, len: u16);
    fn mr_len(mbuf: *const ()) -> u32;
    fn mr_owe(mbuf: *mut (), owed: *const Owed);
    fn mr_copy_in(bytes: *const u8, len: u32) -> *mut ();
    fn mr_copy_out(mbuf: *const c_void, bytes: *mut u8, len: u32) -> c_int;
    fn mr_free(mbuf: *mut ());
    fn mr_free_all(mbufs: *const NonNull<()>, n: u32);
    fn mr_error(error: c_int) -> *const c_char;
}

/// A negative result as an error, with DPDK's words for it.
fn check(result: c_int) -> io::Result<()> {
    if result >= 0 {
        return Ok(());
    }
    // SAFETY: a string constant, or one of this thread that stays until the next call.
    let words = unsafe { CStr::from_ptr(mr_error(result)) }.to_string_lossy().into_owned();
    Err(io::Error::other(words))
}

/// Starts DPDK; once in a process. The calling thread becomes DPDK's first and is pinned by it, so it
/// should be one that ends soon.
pub(crate) fn start(args: &[String], mbufs: u32) -> io::Result<()> {
    let args: Vec<CString> =
        args.iter().map(|a| CString::new(a.as_str())).collect::<Result<_, _>>()?;
    // DPDK reorders the list and keeps pointers into it: both stay for good.
    let mut list: Vec<*mut c_char> = args.into_iter().map(CString::into_raw).collect();
    let count = list.len() as c_int;
    list.push(std::ptr::null_mut());
    // SAFETY: a list of so many strings, ended by a null, none of which is ever freed.
    check(unsafe { mr_init(count, Box::leak(list.into_boxed_slice()).as_mut_ptr()) })?;
    // SAFETY: DPDK runs.
    check(unsafe { mr_pool(mbufs) })
}

/// Buffers of the pool that nobody has.
pub(crate) fn pool_free() -> u32 {
    // SAFETY: no arguments.
    unsafe { mr_pool_free() }
}

/// Has DPDK's interrupt thread call `call` whenever `fd` is readable, for good.
pub(crate) fn call_on(fd: OwnedFd, call: extern "C" fn(*mut c_void)) -> io::Result<()> {
    // The descriptor stays open for good.
    // SAFETY: DPDK runs; the function is there as long as the process, and takes any argument.
    check(unsafe { mr_call_on(fd.into_raw_fd(), call) })
}

/// A descriptor that DPDK has open, to be polled: at worst it is closed meanwhile, or another by then,
/// and polling it wakes for nothing.
pub(crate) fn borrowed(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: not -1; it is polled and nothing else, which harms no descriptor whosoever it is.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// This thread is known to DPDK, and has a cache of the pool.
struct Known;

impl Drop for Known {
    fn drop(&mut self) {
        // SAFETY: this thread was made known, and it ends.
        unsafe { mr_thread(0) };
    }
}

thread_local! {
    static KNOWN: RefCell<Option<Option<Known>>> = const { RefCell::new(None) };
}

/// Makes this thread known to DPDK until it ends, once.
fn know_thread() {
    KNOWN.with_borrow_mut(|known| {
        if known.is_none() {
            // SAFETY: DPDK runs, as there are devices; this thread is none of its own.
            let result = check(unsafe { mr_thread(1) });
            if let Err(error) = &result {
                tracing::warn!(%error, "DPDK does not take this thread, which costs speed");
            }
            *known = Some(result.is_ok().then_some(Known));
        }
    });
}

unsafe fn release(token: NonNull<()>) {
    // SAFETY: the token is an mbuf that we own.
    unsafe { mr_free(token.as_ptr()) }
}

unsafe fn release_all(tokens: &[NonNull<()>]) {
    // SAFETY: the tokens are mbufs that we own; a slice is not longer than what a 32-bit number counts, as there are fewer
    // mbufs.
    unsafe { mr_free_all(tokens.as_ptr(), tokens.len() as u32) }
}

/// The owner of mbufs that frames borrow.
// SAFETY: DPDK takes an mbuf back on any thread, and is told once. The shim asserts that an mbuf is laid out as
// `port::Mbuf`.
pub(crate) static OWNER: BufferOwner =
    unsafe { BufferOwner::of_mbufs("dpdk", release).at_once(release_all) };

/// An mbuf of ours.
#[repr(transparent)]
pub(crate) struct Mbuf(NonNull<()>);

// SAFETY: an mbuf may be handled by any thread, one at a time.
unsafe impl Send for Mbuf {}

impl Drop for Mbuf {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { release(self.0) }
    }
}

impl Mbuf {
    /// The mbuf that a frame came in, told what its bytes are now; the frame is hollow then. `None`,
    /// and nothing happens, if it is in no mbuf.
    #[inline]
    pub(crate) fn of(frame: &mut Frame) -> Option<Mbuf> {
        let Reclaimed { token, start, len, edited } = frame.reclaim(&OWNER)?;
        if edited {
            // A borrowed buffer is no longer than 64 KiB, and start and length lie within it.
            // SAFETY: the mbuf is ours again, and has one buffer.
            unsafe { mr_cut(token.as_ptr(), start as u16, len as u16) }
        }
        Some(Mbuf(token))
    }

    /// A copy of these bytes, in as many mbufs as it takes; none if the pool has no more.
    pub(crate) fn copy_of(bytes: &[u8]) -> Option<Mbuf> {
        let len = u32::try_from(bytes.len()).ok()?;
        // SAFETY: so many readable bytes; there is a pool, as DPDK runs.
        NonNull::new(unsafe { mr_copy_in(bytes.as_ptr(), len) }).map(Mbuf)
    }

    /// What the device is to complete.
    pub(crate) fn owe(&mut self, owed: &Owed) {
        // SAFETY: ours; `Owed` is laid out as the shim's.
        unsafe { mr_owe(self.0.as_ptr(), owed) }
    }
}

/// Mbufs of ours that are about to leave, in order.
#[derive(Default)]
pub(crate) struct Mbufs(Vec<NonNull<()>>);

// SAFETY: as of `Mbuf`.
unsafe impl Send for Mbufs {}

impl Drop for Mbufs {
    fn drop(&mut self) {
        self.drop_first(usize::MAX);
    }
}

impl Mbufs {
    /// None, with room for a batch.
    pub(crate) fn new() -> Mbufs {
        Mbufs(Vec::with_capacity(BATCH_MAX))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their bytes, in all their buffers.
    pub(crate) fn bytes(&self) -> u64 {
        // SAFETY: they are ours.
        self.0.iter().map(|mbuf| u64::from(unsafe { mr_len(mbuf.as_ptr()) })).sum()
    }

    #[inline]
    pub(crate) fn push(&mut self, mbuf: Mbuf) {
        self.0.push(ManuallyDrop::new(mbuf).0);
    }

    /// Adds those of frames, which say where these lie now; nothing happens, and it says so, if they are in none.
    #[inline]
    pub(crate) fn take_all(&mut self, batch: &mut Batch) -> bool {
        batch.reclaim(&OWNER, &mut self.0)
    }

    /// Frees so many at most.
    pub(crate) fn drop_first(&mut self, n: usize) {
        let n = n.min(self.0.len());
        // SAFETY: ours, and they leave the list.
        self.0.drain(..n).for_each(|mbuf| unsafe { release(mbuf) });
    }
}

/// A started device.
pub(crate) struct Device {
    port: u16,
    pub(crate) setup: Setup,
    /// Who may be in its queues, where its driver does not see to that.
    pub(crate) guard: Option<Guard>,
    marked: Mutex<Marked>,
    /// Of the marks that it gives; 0 while it gives none.
    generation: AtomicU32,
}

/// What the device marks.
#[derive(Default)]
struct Marked(HashMap<Flow, Rule>);

/// DPDK's handle of a rule.
struct Rule(*mut c_void);

// SAFETY: it is only ever handed back to DPDK, under the lock of the list that it is in.
unsafe impl Send for Rule {}

impl Device {
    /// Ends a rule. The caller holds the lock of the list that it was in.
    fn end(&self, rule: &Rule) {
        // SAFETY: a rule of this device that was not ended yet; if DPDK cannot end it, it marks on, which whoever reads
        // marks is prepared for.
        unsafe { mr_flow_end(self.port, rule.0) };
    }
}

impl Marks for Device {
    fn set(&self, flow: Flow, mark: Mark) -> Result<(), MarkError> {
        if mark.generation == 0 {
            return Err(MarkError::Generation);
        }
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        let octets = |address: IpAddr| match address {
            IpAddr::V6(address) => address.octets(),
            IpAddr::V4(address) => {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&address.octets());
                octets
            }
        };
        if flow.src.is_ipv6() != flow.dst.is_ipv6() {
            return Err(MarkError::Refused("its addresses are of two families".into()));
        }
        let udp = match flow.protocol {
            IpProtocol::UDP => 1,
            IpProtocol::TCP => 0,
            other => return Err(MarkError::Refused(format!("{other} has no rule"))),
        };
        let now = FlowNow {
            src: octets(flow.src),
            dst: octets(flow.dst),
            src_port: flow.src_port.to_be_bytes(),
            dst_port: flow.dst_port.to_be_bytes(),
            ipv6: u8::from(flow.src.is_ipv6()),
            udp,
        };
        // Rules with the same pattern exclude one another.
        if let Some(rule) = marked.0.remove(&flow) {
            self.end(&rule);
        }
        let mut rule = std::ptr::null_mut();
        let queues = self.setup.rx_queues;
        // SAFETY: a started device, a flow, and a place for the rule.
        let made = unsafe { mr_flow(self.port, &raw const now, mark.value, queues, &raw mut rule) };
        check(made).map_err(|error| MarkError::Refused(format!("{}: {error}", self.driver())))?;
        if self.generation.swap(mark.generation, Ordering::Relaxed) != mark.generation {
            marked.0.drain().for_each(|(_, rule)| self.end(&rule));
        }
        marked.0.insert(flow, Rule(rule));
        Ok(())
    }

    fn clear(&self, flow: &Flow) -> bool {
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = marked.0.remove(flow);
        rule.iter().for_each(|rule| self.end(rule));
        rule.is_some()
    }

    fn len(&self) -> usize {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner).0.len()
    }
}

impl Device {
    /// Finds or makes the device of these devargs, sets it up with so many queues (or as many as it
    /// has), and starts it.
    pub(crate) fn start(devargs: &str, rx: u16, tx: u16) -> io::Result<Arc<Device>> {
        let devargs = CString::new(devargs)?;
        gate::settle();
        let mut port = 0;
        // SAFETY: a string, and a place for the number.
        check(unsafe { mr_probe(devargs.as_ptr(), &raw mut port) })?;
        let mut setup = Setup {
            driver: [0; 32],
            mac: [0; 6],
            mtu: 0,
            rx_queues_max: 0,
            tx_queues_max: 0,
            rx_queues: 0,
            tx_queues: 0,
            can: 0,
        };
        // SAFETY: a device that is there, and a place for the answer.
        let done = check(unsafe { mr_setup(port, rx, tx, 1, &raw mut setup) });
        // From here on it is closed by being dropped.
        let (marked, generation) = (Mutex::default(), AtomicU32::new(0));
        let mut device = Device { port, setup, guard: None, marked, generation };
        done?;
        let lines = usize::from(setup.rx_queues) + usize::from(setup.tx_queues);
        device.guard = Guard::of(&device.driver(), devargs.to_bytes(), lines)?;
        let device = Arc::new(device);
        if device.guard.is_some() {
            gate::start(&device)?;
        } else {
            // SAFETY: a device that is set up.
            check(unsafe { mr_start(port) })?;
        }
        Ok(device)
    }

    /// Stops it, if it runs, and starts it. For devices with a guard: nobody is in its queues.
    pub(crate) fn restart(&self) -> io::Result<()> {
        // SAFETY: a device that is set up, without anybody in its queues.
        check(unsafe { mr_restart(self.port) })
    }

    /// The driver's name: `net_pcap`, `net_mlx5`, ...
    pub(crate) fn driver(&self) -> String {
        let bytes = self.setup.driver.iter().map(|&c| c.cast_unsigned());
        bytes.take_while(|&b| b != 0).map(char::from).collect()
    }

    pub(crate) fn link(&self) -> io::Result<LinkNow> {
        let mut link = LinkNow::default();
        // SAFETY: the device is there, and a place for the answer.
        check(unsafe { mr_link(self.port, &raw mut link) }).map(|()| link)
    }

    pub(crate) fn set_link(&self, up: bool) -> io::Result<()> {
        // SAFETY: the device is there.
        check(unsafe { mr_set_link(self.port, c_int::from(up)) })
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: the device is there, and a place for the answer. An error leaves zeros.
        unsafe { mr_stats(self.port, &raw mut stats) };
        stats
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        /// DPDK closes one device at a time.
        static CLOSING: Mutex<()> = Mutex::new(());
        let close = || {
            let _closing = CLOSING.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the last of port and queues goes, so nobody is in it.
            unsafe { mr_close(self.port) }
        };
        match self.guard {
            None => close(),
            Some(_) => gate::while_held(close),
        }
    }
}

/// A receive queue.
pub(crate) struct RxLine {
    device: Arc<Device>,
    queue: u16,
    /// The thread that uses it has been made known to DPDK.
    known: bool,
    received: [MaybeUninit<NonNull<()>>; BURST_MAX],
}

// SAFETY: the pointers are those of the last burst, and are not followed between calls.
unsafe impl Send for RxLine {}

impl RxLine {
    /// Queue `queue`, which is the device's and nobody else's.
    pub(crate) fn new(device: Arc<Device>, queue: u16) -> RxLine {
        let received = [MaybeUninit::uninit(); BURST_MAX];
        RxLine { device, queue, known: false, received }
    }

    /// Fetches mbufs, as many as there is room for, and says how many.
    #[inline]
    fn fetch(&mut self, room: &mut [MaybeUninit<NonNull<()>>]) -> usize {
        if !self.known {
            know_thread();
            self.known = true;
        }
        let entered = match &self.device.guard {
            None => None,
            Some(guard) => match guard.enter(self.queue.into()) {
                None => return 0,
                entered => entered,
            },
        };
        let (port, max) = (self.device.port, room.len().min(BURST_MAX) as u16);
        // SAFETY: the queue is ours alone, and there is room for as many.
        let n = unsafe { mr_rx(port, self.queue, room.as_mut_ptr(), max) };
        drop(entered);
        n.into()
    }

    /// One of those that were fetched last and kept here.
    fn received(&self, at: usize) -> NonNull<()> {
        // SAFETY: a driver gives no null, and whoever asks has seen so many come.
        unsafe { self.received[at].assume_init() }
    }

    /// Fills the burst; `lost` hears why of a frame that was lost.
    pub(crate) fn receive(
        &mut self,
        burst: &mut Burst,
        pool: &mut Pool,
        lost: impl FnMut(DropReason),
    ) -> usize {
        let (mut room, max) = (self.received, burst.room());
        let n = self.fetch(&mut room[..max]);
        self.received = room;
        self.frames(0..n, burst, pool, lost)
    }

    /// Fills `borrowed`, both being empty, if of every frame there is nothing to say but where it lies, else the
    /// burst.
    #[inline]
    pub(crate) fn receive_borrowed(
        &mut self,
        borrowed: &mut BorrowedBurst,
        burst: &mut Burst,
        pool: &mut Pool,
        lost: impl FnMut(DropReason),
    ) -> usize {
        let room = borrowed.room();
        let n = self.fetch(room);
        // Nearly always none has anything to say.
        // SAFETY: as in `borrow`, for each.
        if unsafe { borrowed.fill(&OWNER, n) } {
            return n;
        }
        self.received[..n].copy_from_slice(&borrowed.room()[..n]);
        for at in 0..n {
            if !borrow(self.received(at), borrowed) {
                borrowed.become_frames(burst);
                self.frames(at..n, burst, pool, lost);
                return burst.len();
            }
        }
        n
    }

    /// Makes frames of what was fetched.
    fn frames(
        &self,
        which: std::ops::Range<usize>,
        burst: &mut Burst,
        pool: &mut Pool,
        mut lost: impl FnMut(DropReason),
    ) -> usize {
        let before = burst.len();
        let generation = self.device.generation.load(Ordering::Relaxed);
        for mbuf in which.map(|at| self.received(at)) {
            let mut received = Received {
                mbuf: std::ptr::null_mut(),
                buffer: std::ptr::null_mut(),
                len: 0,
                buffer_len: 0,
                start: 0,
                segment: 0,
                flags: 0,
                mark: 0,
            };
            // SAFETY: an mbuf of ours, and a place for what is said of it.
            unsafe { mr_look(mbuf.as_ptr().cast(), &raw mut received) };
            match frame(&received, pool) {
                Ok(frame) => {
                    let at = burst.len();
                    // There is room for as many as were fetched.
                    drop(burst.push(frame));
                    if received.flags & MARK != 0 && generation != 0 {
                        burst.mark(at, Mark { value: received.mark, generation });
                    }
                }
                Err(reason) => lost(reason),
            }
        }
        burst.len() - before
    }
}

/// Lends an mbuf that was just received, if there is nothing to say of it but where the frame lies, or that its
/// checksum is right.
fn borrow(token: NonNull<()>, borrowed: &mut BorrowedBurst) -> bool {
    // SAFETY: an mbuf of ours, laid out as the shim has asserted, and nobody else's.
    let plain = unsafe { token.cast::<MbufFields>().as_mut() };
    let within = u32::from(plain.start) + plain.len <= u32::from(plain.buffer_len);
    let alone = plain.segments == 1 && plain.references == 1;
    if !alone || !within {
        return false;
    }
    let mut valid = false;
    if plain.flags != 0 {
        // SAFETY: a constant.
        let bits = unsafe { &mr_bits };
        if plain.flags & bits.special != 0 || plain.flags & bits.l4 == bits.l4_owed {
            return false;
        }
        valid = plain.flags & bits.l4 == bits.l4_good;
        // What the frame owes when it leaves is said anew.
        plain.flags = 0;
    }
    // SAFETY: an mbuf of ours alone (one segment, no flag of a buffer that is another's, no other reference), whose
    // memory DPDK has mapped zeroed; the list is the only way to it until released or reclaimed.
    unsafe { borrowed.push(&OWNER, token, valid) };
    true
}

/// A frame in its mbuf, or copied where it lies in several.
#[cold]
fn frame(received: &Received, pool: &mut Pool) -> Result<Frame, DropReason> {
    let Received { len, buffer_len, start, .. } = *received;
    let (Some(token), Some(buffer)) =
        (NonNull::new(received.mbuf.cast::<()>()), NonNull::new(received.buffer))
    else {
        return Err(DropReason::RxCorrupt);
    };
    let within = u32::from(start) + len <= u32::from(buffer_len);
    let mut frame = if received.flags & SCATTERED != 0 {
        let mut frame = pool.take(len as usize);
        // SAFETY: an mbuf of ours, and so much room.
        let copied = unsafe {
            mr_copy_out(received.mbuf, frame.room_mut()[..len as usize].as_mut_ptr(), len)
        };
        // SAFETY: ours, and no longer needed.
        unsafe { release(token) };
        if copied < 0 {
            return Err(DropReason::RxCorrupt);
        }
        frame.set_filled(len as usize);
        frame
    } else if !within {
        // SAFETY: ours.
        unsafe { release(token) };
        return Err(DropReason::RxCorrupt);
    } else {
        // SAFETY: an mbuf of ours alone (one segment, its own buffer, no other reference), whose
        // memory DPDK has mapped zeroed; `frame` is the only way to it until released or reclaimed.
        unsafe { Frame::borrowed(&OWNER, token, buffer, buffer_len, start, len as u16) }
    };
    if received.flags & !MARK != 0 {
        frame.offload = offload(received, &frame);
    }
    Ok(frame)
}

/// What the driver says that a frame owes, or has been checked for.
#[cold]
fn offload(received: &Received, frame: &Frame) -> Offload {
    let csum = match received.flags {
        flags if flags & CSUM_OWED != 0 => port::gso::find_debt(frame.data()),
        flags if flags & CSUM_GOOD != 0 => Csum::Valid,
        _ => Csum::None,
    };
    if received.flags & LRO == 0 || received.segment == 0 {
        return Offload { csum, gso: None };
    }
    let ipv6 = wire::layers::Layers::of(frame.data()).network == wire::layers::Network::Ipv6;
    let kind = if ipv6 { GsoKind::TcpV6 } else { GsoKind::TcpV4 };
    let gso = Gso { kind, size: received.segment, hdr_len: 0, ecn: false };
    Offload { csum, gso: Some(gso) }
}

/// A transmit queue.
pub(crate) struct TxLine {
    device: Arc<Device>,
    queue: u16,
    /// The thread that uses it has been made known to DPDK.
    known: bool,
}

impl TxLine {
    /// Queue `queue`, which is the device's and nobody else's.
    pub(crate) fn new(device: Arc<Device>, queue: u16) -> TxLine {
        TxLine { device, queue, known: false }
    }

    /// Sends from the start of the list; those sent are taken off it. Returns how many the driver
    /// could prepare, if it was asked to, and how many it took.
    #[inline]
    pub(crate) fn send(&mut self, mbufs: &mut Mbufs, prepare: bool) -> (usize, usize) {
        if !self.known {
            know_thread();
            self.known = true;
        }
        let mut n = mbufs.len().min(BURST_MAX) as u16;
        let entered = match &self.device.guard {
            None => None,
            Some(guard) => {
                match guard.enter(usize::from(self.device.setup.rx_queues + self.queue)) {
                    None => return (n.into(), 0),
                    entered => entered,
                }
            }
        };
        let list = mbufs.0.as_mut_ptr();
        if prepare {
            // SAFETY: a list of so many mbufs of ours.
            n = unsafe { mr_tx_prepare(self.device.port, self.queue, list, n) };
        }
        // SAFETY: as above; the queue is borrowed exclusively.
        let sent = usize::from(unsafe { mr_tx(self.device.port, self.queue, list, n) });
        drop(entered);
        // Those sent are the device's now.
        mbufs.0.drain(..sent.min(usize::from(n)));
        (usize::from(n), sent)
    }
}
