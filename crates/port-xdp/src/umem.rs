//! The memory that sockets share with the kernel, and with each other, in chunks of [`CHUNK_BYTES`].
//!
//! A frame that comes in by one AF_XDP port and leaves by another stays where it lies: the pipeline is
//! borrowed the chunk ([`Umem::borrow`]), and the chunk is what the other socket sends ([`reclaim`]). For that all
//! sockets must know the same memory. Each registers it for itself, where `XDP_SHARED_UMEM` would have
//! them bind to one that did: that one would have to stay, and all would have to copy, or none. So
//! ports come and go in any order, and one that copies serves beside one that need not.
//!
//! A [`Chunk`] is a token: who holds it may access that chunk. While the kernel has a chunk, a bit in
//! a [`Held`] stands for it; while a frame has it, the frame's buffer is borrowed. What the kernel hands back is
//! looked up there, so that a chunk that it never had makes no token.
//!
//! Idle chunks lie in a list of each thread that receives or sends ([`Umem::with_local`]) and go to and
//! from the common list, under a lock, many at a time.
//!
//! Invariants: of each chunk there is one token, or one bit, or one borrowed buffer. The common list is not emptied
//! below what sockets that may still be opened need to begin with. What the kernel had when a socket
//! was closed comes back after that; from a driver that receives into the chunks itself, a while
//! later ([`Left`]).
//! Cost: memory of [`SOCKETS`] sockets at once, with the first port, for good: 128 MiB.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use port::{BufferOwner, Frame};

use crate::sys::Mapping;

/// Bytes of a chunk: one page.
pub(crate) const CHUNK_BYTES: usize = 4096;
/// Chunks that one direction of a socket has in the kernel, at most.
pub(crate) const DIRECTION_CHUNKS: u32 = 2048;
/// Sockets that a memory has chunks for, at least. More sockets have another one; frames that go from
/// one memory to another are copied.
pub(crate) const SOCKETS: u32 = 8;
/// Memories there may be.
const UMEMS_MAX: usize = 64;
/// Idle chunks that a thread keeps, at most, and how many it takes or gives at once.
const LOCAL_MAX: usize = 512;
const LOCAL_STEP: usize = LOCAL_MAX / 2;
/// How long a driver may still write into chunks after its socket was closed: the kernel takes them from it
/// on a thread of its own, which waits for locks of the control side and no traffic.
const REST: Duration = Duration::from_secs(3);
/// Chunks of a memory have numbers below this.
const INDEX_END: usize = 1 << 24;

/// The right to access one chunk.
#[derive(Debug)]
#[must_use = "a chunk that is dropped is lost"]
pub(crate) struct Chunk {
    index: u32,
}

/// The memory. It is there for good, as frames may lie in it as long as they like.
pub(crate) struct Umem {
    number: usize,
    memory: Mapping,
    chunks: u32,
    sockets_max: u32,
    common: Mutex<Common>,
}

/// What all threads share.
struct Common {
    idle: Vec<Chunk>,
    /// What sockets of drivers had that receive by themselves, and until when they may.
    resting: Vec<(Instant, Vec<Chunk>)>,
    /// Sockets that have a seat.
    sockets: u32,
}

static UMEMS: [OnceLock<Umem>; UMEMS_MAX] = [const { OnceLock::new() }; UMEMS_MAX];

/// Every step leaves what is locked whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Some sockets' right to a memory.
pub(crate) struct Seats {
    umem: &'static Umem,
    sockets: u32,
}

impl Seats {
    /// For so many sockets, in the first memory that has room for them, or in a new one.
    pub(crate) fn take(sockets: u32) -> io::Result<Seats> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = lock(&ONE_AT_A_TIME);
        for (number, place) in UMEMS.iter().enumerate() {
            let umem = match place.get() {
                Some(umem) => umem,
                None => {
                    let new = Umem::new(number, sockets.max(SOCKETS))?;
                    place.get_or_init(|| new)
                }
            };
            let mut common = lock(&umem.common);
            if umem.sockets_max - common.sockets >= sockets {
                common.sockets += sockets;
                return Ok(Seats { umem, sockets });
            }
        }
        Err(io::Error::other(format!("{UMEMS_MAX} memories of {SOCKETS} sockets are in use")))
    }

    /// The memory.
    pub(crate) fn umem(&self) -> &'static Umem {
        self.umem
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        lock(&self.umem.common).sockets -= self.sockets;
    }
}

impl Umem {
    fn new(number: usize, sockets_max: u32) -> io::Result<Umem> {
        let chunks = sockets_max
            .checked_mul(2 * DIRECTION_CHUNKS)
            .filter(|chunks| (*chunks as usize) < INDEX_END)
            .ok_or_else(|| io::Error::other("too many queues for one memory"))?;
        let memory = Mapping::frames(chunks as usize * CHUNK_BYTES)?;
        // The last is taken first.
        let idle = (0..chunks).rev().map(|index| Chunk { index }).collect();
        let common = Mutex::new(Common { idle, resting: Vec::new(), sockets: 0 });
        Ok(Umem { number, memory, chunks, sockets_max, common })
    }

    /// The mapping, to be registered.
    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// The frame of `len` bytes that the kernel has put at `address`, which lies in `chunk`; the chunk alone
    /// if the frame does not lie within it.
    #[inline]
    pub(crate) fn placed(&self, chunk: Chunk, address: u64, len: u32) -> Result<Placed, Chunk> {
        let at = address.wrapping_sub(chunk.address());
        match at.checked_add(u64::from(len)) {
            // At most `CHUNK_BYTES` each.
            Some(end) if end <= CHUNK_BYTES as u64 => {
                Ok(Placed { chunk, at: at as u16, len: len as u16 })
            }
            _ => Err(chunk),
        }
    }

    /// A chunk with a copy of `data`; the chunk alone if it does not fit.
    pub(crate) fn filled(&self, chunk: Chunk, data: &[u8]) -> Result<Placed, Chunk> {
        if data.len() > CHUNK_BYTES {
            return Err(chunk);
        }
        let placed = Placed { chunk, at: 0, len: data.len() as u16 };
        // SAFETY: so many bytes within the chunk, to which nobody else has access while its token is ours;
        // so `data` cannot overlap them.
        unsafe {
            let start = self.start(&placed.chunk).as_ptr();
            std::ptr::copy_nonoverlapping(data.as_ptr(), start, data.len());
        }
        Ok(placed)
    }

    /// The bytes of a frame of this memory.
    pub(crate) fn bytes(&self, placed: &Placed) -> &[u8] {
        let (at, len) = (usize::from(placed.at), usize::from(placed.len));
        // SAFETY: `Placed` lies within its chunk; its token says that neither the kernel nor anyone else
        // writes there while it is borrowed. The mapping was zeroed when it was made.
        unsafe { std::slice::from_raw_parts(self.start(&placed.chunk).as_ptr().add(at), len) }
    }

    /// The chunk's first byte.
    #[inline]
    fn start(&self, chunk: &Chunk) -> NonNull<u8> {
        // Tokens are of this memory, but nothing in their type says so.
        let index = chunk.index.min(self.chunks - 1) as usize;
        // SAFETY: within the mapping, which has room for so many chunks.
        unsafe { self.memory.start().add(index * CHUNK_BYTES) }
    }

    /// Lends the chunk of a frame of this memory to a hollow frame.
    #[inline]
    pub(crate) fn borrow<'f>(&self, placed: Placed, frame: &'f mut Frame) -> &'f mut Frame {
        let Placed { chunk, at, len } = placed;
        let (start, token) = (self.start(&chunk), self.token(&chunk));
        // SAFETY: the whole chunk, of a mapping that stays and was zeroed when it was made; the token
        // of the chunk is spent, and another one is made only when the frame is reclaimed or released.
        // `Placed` lies within its chunk.
        unsafe { frame.borrow(&OWNER, token, start, CHUNK_BYTES as u16, at, len) };
        frame
    }

    /// What stands for a borrowed chunk: its number and the memory's, never an address.
    #[inline]
    fn token(&self, chunk: &Chunk) -> NonNull<()> {
        let number = self.number * INDEX_END + chunk.index as usize;
        NonNull::without_provenance(NonZeroUsize::MIN.saturating_add(number))
    }

    /// Runs `work` with this thread's idle chunks.
    pub(crate) fn with_local<R>(&'static self, work: impl FnOnce(&mut Local) -> R) -> R {
        let mut work = Some(work);
        let done = LOCALS.try_with(|locals| {
            let mut locals = locals.try_borrow_mut().ok()?;
            let at = locals.iter().position(|local| std::ptr::eq(local.umem, self));
            let at = at.unwrap_or_else(|| {
                locals.push(Local::new(self));
                locals.len() - 1
            });
            work.take().map(|work| work(&mut locals[at]))
        });
        match (done, work) {
            (Ok(Some(result)), _) => result,
            // The thread ends, or is at its chunks already: with a list that ends at once.
            (_, Some(work)) => work(&mut Local::new(self)),
            (_, None) => unreachable!("work that was taken has given a result"),
        }
    }

    /// Takes chunks from the common list, not more than it can spare.
    fn spare(&self, most: usize, into: &mut Vec<Chunk>) {
        let mut common = lock(&self.common);
        common.wake(Instant::now);
        let kept = (self.sockets_max - common.sockets) as usize * DIRECTION_CHUNKS as usize;
        let from = common.idle.len() - most.min(common.idle.len().saturating_sub(kept));
        into.extend(common.idle.drain(from..));
    }

    /// Chunks in the common list and in this thread's.
    pub(crate) fn idle(&'static self) -> usize {
        let here = self.with_local(|local| local.chunks.len());
        let mut common = lock(&self.common);
        common.wake(Instant::now);
        common.idle.len() + here
    }
}

impl Common {
    /// Puts what has rested long enough among the idle.
    fn wake(&mut self, now: impl FnOnce() -> Instant) {
        if self.resting.is_empty() {
            return;
        }
        let now = now();
        let rested = self.resting.extract_if(.., |(until, _)| *until <= now);
        self.idle.extend(rested.flat_map(|(_, chunks)| chunks));
    }
}

/// Chunks of the memories there are: idle ones, and all. Those in the lists of other threads count as
/// in use; a thread gives them back when it ends.
pub(crate) fn census() -> (usize, usize) {
    let there = UMEMS.iter().map_while(OnceLock::get);
    there.fold((0, 0), |(idle, all), umem| (idle + umem.idle(), all + umem.chunks as usize))
}

/// Gives a borrowed chunk back.
///
/// # Safety
///
/// The token is of a borrowed buffer that goes back with this; nobody uses the chunk any more.
unsafe fn release(token: NonNull<()>) {
    let Some((umem, chunk)) = of_token(token) else { return };
    umem.with_local(|local| local.give(chunk));
}

/// The owner of chunks that frames borrow.
// SAFETY: a chunk may be given back on any thread; each token stands for one borrowed buffer.
static OWNER: BufferOwner = unsafe { BufferOwner::new("af_xdp", release) };

/// The chunk behind a token, whose buffer goes back with this.
fn of_token(token: NonNull<()>) -> Option<(&'static Umem, Chunk)> {
    let number = token.addr().get() - 1;
    let umem = UMEMS.get(number / INDEX_END)?.get()?;
    Some((umem, Chunk { index: (number % INDEX_END) as u32 }))
}

/// A frame in a chunk, and the right to access it. Lies within the chunk.
#[derive(Debug)]
#[must_use = "a chunk that is dropped is lost"]
pub(crate) struct Placed {
    chunk: Chunk,
    /// Where in the chunk it begins.
    at: u16,
    len: u16,
}

impl Placed {
    /// The frame's bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.into()
    }

    /// The chunk, and where in it the frame begins.
    #[inline]
    pub(crate) fn into_chunk(self) -> (Chunk, u32) {
        (self.chunk, self.at.into())
    }
}

/// Takes a frame's chunk, and the memory that it is of; the frame is hollow then. `None`, and nothing
/// happens, if it lies elsewhere.
#[inline]
pub(crate) fn reclaim(frame: &mut Frame) -> Option<(&'static Umem, Placed)> {
    let reclaimed = frame.reclaim(&OWNER)?;
    let (umem, chunk) = of_token(reclaimed.token)?;
    // The whole chunk was borrowed, so both lie within it.
    Some((umem, Placed { chunk, at: reclaimed.start as u16, len: reclaimed.len as u16 }))
}

/// Idle chunks of one thread.
pub(crate) struct Local {
    umem: &'static Umem,
    chunks: Vec<Chunk>,
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

impl Local {
    fn new(umem: &'static Umem) -> Local {
        Local { umem, chunks: Vec::new() }
    }

    /// A chunk, if this thread or the common list has one to spare.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Chunk> {
        self.chunks.pop().or_else(|| self.fetch())
    }

    #[cold]
    fn fetch(&mut self) -> Option<Chunk> {
        self.umem.spare(LOCAL_STEP, &mut self.chunks);
        self.chunks.pop()
    }

    /// Whether [`take`](Self::take) would have to ask for more.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Takes a chunk back, of the same memory.
    #[inline]
    pub(crate) fn give(&mut self, chunk: Chunk) {
        if self.chunks.len() >= LOCAL_MAX {
            self.unload(LOCAL_STEP);
        }
        self.chunks.push(chunk);
    }

    #[cold]
    fn unload(&mut self, keep: usize) {
        lock(&self.umem.common).idle.extend(self.chunks.drain(keep..));
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if !self.chunks.is_empty() {
            self.unload(0);
        }
    }
}

/// The chunks that the kernel has by one direction of a socket.
pub(crate) struct Held {
    /// A bit for each chunk of the memory.
    bits: Box<[u64]>,
    count: u32,
    left: Arc<Left>,
}

impl Held {
    /// None; what is there in the end goes to `left`.
    pub(crate) fn new(left: Arc<Left>) -> Held {
        let bits = vec![0; (left.umem.chunks as usize).div_ceil(64)].into_boxed_slice();
        Held { bits, count: 0, left }
    }

    /// How many they are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Hands a chunk over: its address.
    #[inline]
    pub(crate) fn put(&mut self, chunk: Chunk) -> u64 {
        let address = chunk.address();
        if let Some(word) = self.bits.get_mut(chunk.index as usize / 64) {
            *word |= 1 << (chunk.index % 64);
            self.count += 1;
        }
        address
    }

    /// Takes back the chunk that the kernel names by an address in it; `None` if the kernel does not
    /// have it.
    #[inline]
    pub(crate) fn take(&mut self, address: u64) -> Option<Chunk> {
        let index = u32::try_from(address / CHUNK_BYTES as u64).ok()?;
        let (word, bit) = (self.bits.get_mut(index as usize / 64)?, 1 << (index % 64));
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.count -= 1;
        Some(Chunk { index })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut chunks = lock(&self.left.chunks);
        for (at, word) in self.bits.iter().enumerate().filter(|(_, word)| **word != 0) {
            let set = (0..64).filter(|bit| word >> bit & 1 == 1);
            chunks.extend(set.map(|bit| Chunk { index: at as u32 * 64 + bit }));
        }
    }
}

/// What the kernel had of a socket. Goes back when it is dropped, which has to be after the socket was
/// closed. The kernel copies no frame into it any more then; but where a driver receives into the chunks
/// itself, it may for a while.
pub(crate) struct Left {
    umem: &'static Umem,
    chunks: Mutex<Vec<Chunk>>,
    /// A driver receives into them.
    pub(crate) rests: AtomicBool,
}

impl Left {
    /// Nothing yet.
    pub(crate) fn new(umem: &'static Umem) -> Left {
        Left { umem, chunks: Mutex::default(), rests: AtomicBool::new(false) }
    }

    /// The memory.
    pub(crate) fn umem(&self) -> &'static Umem {
        self.umem
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let chunks = std::mem::take(&mut *lock(&self.chunks));
        let mut common = lock(&self.umem.common);
        if self.rests.load(Relaxed) {
            common.resting.push((Instant::now() + REST, chunks));
        } else {
            common.idle.extend(chunks);
        }
    }
}

impl Chunk {
    /// Its address as the kernel names it: the offset in the memory.
    pub(crate) fn address(&self) -> u64 {
        u64::from(self.index) * CHUNK_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that no test shares.
    fn umem() -> &'static Umem {
        // Beyond what `Seats` would give out here: these tests know no sockets.
        static NEXT: std::sync::atomic::AtomicUsize =
            std::sync::atomic::AtomicUsize::new(UMEMS_MAX);
        let number = NEXT.fetch_sub(1, Relaxed) - 1;
        UMEMS[number].get_or_init(|| Umem::new(number, 1).expect("memory"))
    }

    /// As if the one socket were there: nothing is kept for it.
    fn seated() -> &'static Umem {
        let umem = umem();
        lock(&umem.common).sockets = 1;
        umem
    }

    fn take(umem: &'static Umem) -> Chunk {
        umem.with_local(Local::take).expect("an idle chunk")
    }

    fn give(umem: &'static Umem, chunk: Chunk) {
        umem.with_local(|local| local.give(chunk));
    }

    #[test]
    fn frames_stay_within_chunks() {
        let umem = seated();
        let chunk = take(umem);
        let base = chunk.address();
        let refused = umem.filled(chunk, &[7; CHUNK_BYTES + 1]).unwrap_err();
        let placed = umem.filled(refused, &[7; CHUNK_BYTES]).unwrap();
        assert_eq!(umem.bytes(&placed), [7; CHUNK_BYTES]);
        let (mut chunk, at) = placed.into_chunk();
        assert_eq!((at, chunk.address()), (0, base));
        for (address, len) in [
            (base + 4092, 5),
            (base + 4097, 0),
            (base, 4097),
            (base, u32::MAX),
            (base.wrapping_sub(1), 2),
            (u64::MAX, 1),
            (u64::MAX, u32::MAX),
        ] {
            chunk = umem.placed(chunk, address, len).unwrap_err();
        }
        let placed = umem.placed(chunk, base + 4092, 4).unwrap();
        assert_eq!(umem.bytes(&placed), [7; 4]);
        give(umem, placed.into_chunk().0);
        assert_eq!(umem.idle(), umem.chunks as usize);
    }

    #[test]
    fn a_frame_has_its_chunk_until_it_ends() {
        let umem = seated();
        let all = umem.idle();
        let placed = |bytes: &[u8]| {
            let (chunk, _) = umem.filled(take(umem), bytes).unwrap().into_chunk();
            let address = chunk.address();
            umem.placed(chunk, address, bytes.len() as u32).unwrap()
        };
        // Dropped, here or elsewhere.
        for elsewhere in [false, true] {
            let mut frame = Frame::hollow();
            umem.borrow(placed(b"abcdef"), &mut frame);
            assert_eq!((frame.data(), frame.buffer_len()), (&b"abcdef"[..], CHUNK_BYTES));
            assert_eq!(umem.idle(), all - 1);
            if elsewhere {
                std::thread::spawn(move || drop(frame)).join().unwrap();
            } else {
                drop(frame);
            }
            assert_eq!(umem.idle(), all);
        }
        // Edited in place, and taken back as it is.
        let mut frame = Frame::hollow();
        umem.borrow(placed(b"abcdef"), &mut frame);
        frame.pull_front(2);
        frame.data_mut()[0] = b'x';
        let (of, placed) = reclaim(&mut frame).unwrap();
        assert!(std::ptr::eq(of, umem) && frame.is_hollow());
        assert_eq!((umem.bytes(&placed), placed.len()), (&b"xdef"[..], 4));
        // What outgrows it leaves it.
        let mut frame = Frame::hollow();
        umem.borrow(placed, &mut frame);
        assert_eq!(umem.idle(), all - 1);
        frame.set_len(5000);
        assert_eq!((umem.idle(), &frame.data()[..4]), (all, &b"xdef"[..]));
        assert!(reclaim(&mut frame).is_none() && reclaim(&mut Frame::copy_of(b"abc")).is_none());
    }

    #[test]
    fn the_kernel_gives_back_what_it_has_and_nothing_else() {
        let umem = seated();
        let all = umem.idle();
        let left = Arc::new(Left::new(umem));
        let mut held = Held::new(left.clone());
        let addresses: Vec<u64> = (0..100).map(|_| held.put(take(umem))).collect();
        assert_eq!((held.count(), umem.idle()), (100, all - 100));
        for address in [1 << 40, u64::MAX, umem.chunks as u64 * CHUNK_BYTES as u64] {
            assert!(held.take(address).is_none());
        }
        // Anywhere within a chunk, once.
        give(umem, held.take(addresses[7] + 300).unwrap());
        assert!(held.take(addresses[7]).is_none());
        assert_eq!((held.count(), umem.idle()), (99, all - 99));
        // The rest comes back when the socket is closed.
        drop(held);
        assert_eq!(umem.idle(), all - 99);
        drop(left);
        assert_eq!(umem.idle(), all);
    }

    #[test]
    fn what_a_driver_writes_into_rests_first() {
        let umem = seated();
        let all = umem.idle();
        let left = Arc::new(Left::new(umem));
        left.rests.store(true, Relaxed);
        let mut held = Held::new(left.clone());
        held.put(take(umem));
        drop((held, left));
        assert_eq!(umem.idle(), all - 1);
        lock(&umem.common).wake(|| Instant::now() + REST / 2);
        assert_eq!(umem.idle(), all - 1);
        lock(&umem.common).wake(|| Instant::now() + REST);
        assert_eq!(umem.idle(), all);
    }

    #[test]
    fn the_last_chunks_are_kept_for_sockets_to_come() {
        let umem = umem();
        let mut taken = Vec::new();
        let mut take_all = || {
            while let Some(chunk) = umem.with_local(Local::take) {
                taken.push(chunk);
            }
            taken.len()
        };
        assert_eq!(take_all(), DIRECTION_CHUNKS as usize);
        lock(&umem.common).sockets = 1;
        assert_eq!(take_all(), umem.chunks as usize);
        // Each of them once.
        let mut addresses: Vec<u64> = taken.iter().map(Chunk::address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), umem.chunks as usize);
        taken.into_iter().for_each(|chunk| give(umem, chunk));
        assert_eq!(umem.idle(), umem.chunks as usize);
    }

    #[test]
    fn threads_keep_few_and_give_back_all() {
        let umem = seated();
        let all = umem.idle();
        let taken: Vec<Chunk> = (0..2000).map(|_| take(umem)).collect();
        let (one, other) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                taken.into_iter().for_each(|chunk| give(umem, chunk));
                one.wait();
                other.wait();
            });
            one.wait();
            assert!(umem.idle() >= all - LOCAL_MAX && umem.idle() < all);
            other.wait();
        });
        // The list of the thread ends with it, perhaps a moment after the scope.
        let begun = Instant::now();
        while umem.idle() < all && begun.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        assert_eq!(umem.idle(), all);
    }

    #[test]
    fn seats_are_taken_where_there_is_room() {
        let first = Seats::take(SOCKETS - 1).unwrap();
        let second = Seats::take(2).unwrap();
        let third = Seats::take(1).unwrap();
        assert!(!std::ptr::eq(first.umem(), second.umem()));
        assert!(std::ptr::eq(first.umem(), third.umem()));
        drop(first);
        let fourth = Seats::take(SOCKETS - 1).unwrap();
        assert!(std::ptr::eq(fourth.umem(), third.umem()));
    }
}
