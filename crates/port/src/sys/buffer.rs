//! A frame's buffer: bytes on the heap, or bytes that are borrowed from a driver.
//!
//! A driver that has its own buffers (DPDK's mbufs) has one borrowed with each frame, so that nothing is
//! copied on the way in; when the frame leaves by a port of the same driver, it is taken back as it
//! is ([`Buffer::reclaim`]). However else a frame ends, the owner hears of it once, by
//! [`BufferOwner::release`], on whatever thread that happens.
//!
//! Invariant: a buffer is the only way to its bytes for as long as it lives.
#![allow(unsafe_code)]

pub use abi::Mbuf;

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The owner of buffers that frames borrow. One `static` for each driver; its address tells owners apart.
#[derive(Debug)]
pub struct BufferOwner {
    /// The driver, for messages.
    pub name: &'static str,
    /// Takes a buffer back, on any thread.
    release: unsafe fn(NonNull<()>),
    /// The same of several, if that is less than to do so one by one.
    release_all: Option<unsafe fn(&[NonNull<()>])>,
}

impl BufferOwner {
    /// A owner.
    ///
    /// # Safety
    /// `release` may be called on any thread, once with each token that came with a buffer.
    pub const unsafe fn new(name: &'static str, release: unsafe fn(NonNull<()>)) -> BufferOwner {
        BufferOwner { name, release, release_all: None }
    }

    /// A owner whose frames can be carried by their tokens alone ([`BorrowedBurst`](crate::BorrowedBurst)).
    ///
    /// # Safety
    /// As for [`new`](Self::new); and a token points to a [`Mbuf`], aligned, for as long as the buffer is borrowed.
    pub const unsafe fn of_mbufs(
        name: &'static str,
        release: unsafe fn(NonNull<()>),
    ) -> BufferOwner {
        // SAFETY: the caller's promise.
        unsafe { BufferOwner::new(name, release) }
    }

    /// The same owner, who takes several buffers back at once by a function of its own.
    ///
    /// # Safety
    /// That does with each token what [`new`](Self::new)'s `release` does.
    #[must_use]
    pub const unsafe fn at_once(self, release_all: unsafe fn(&[NonNull<()>])) -> BufferOwner {
        BufferOwner { release_all: Some(release_all), ..self }
    }

    /// Takes buffers back.
    ///
    /// # Safety
    /// As for [`release`](Self::release), for each token; none is there twice.
    #[inline]
    pub(super) unsafe fn release_all(&self, tokens: &[NonNull<()>]) {
        match self.release_all {
            // SAFETY: the caller's promise.
            Some(release_all) => unsafe { release_all(tokens) },
            None => {
                for token in tokens {
                    // SAFETY: the caller's promise.
                    unsafe { self.release(*token) };
                }
            }
        }
    }

    /// Takes a buffer back.
    ///
    /// # Safety
    /// The token came with a buffer that nobody has any more.
    #[inline]
    pub(super) unsafe fn release(&self, token: NonNull<()>) {
        // SAFETY: the caller's promise.
        unsafe { (self.release)(token) }
    }
}

/// Owned bytes of a fixed number, less than 4 GiB. Half a cache line.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    /// Whose they are; without one, they are a box's.
    owner: Option<&'static BufferOwner>,
    /// What the owner knows them by; meaningless without one.
    token: NonNull<()>,
    len: u32,
    /// Where the frame began in them when they were borrowed, and how long it was.
    borrowed_at: u16,
    borrowed_len: u16,
}

// SAFETY: a buffer is the only way to its bytes (as a box is), and a owner's `release` may be called
// on any thread.
unsafe impl Send for Buffer {}
// SAFETY: through a shared buffer, bytes can only be read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// So many zeros, on the heap.
    pub(crate) fn zeroed(len: usize) -> Buffer {
        Buffer::from(vec![0; len].into_boxed_slice())
    }

    /// `len` bytes from `start` on, which `owner` knows by `token`; a frame of `frame_len` bytes
    /// begins `frame_at` bytes into them.
    ///
    /// # Safety
    /// The bytes are initialised, may be read and written from any thread, and nobody else touches
    /// them until `token` was given to `owner.release` or handed out by [`reclaim`](Self::reclaim).
    pub(crate) unsafe fn borrowed(
        owner: &'static BufferOwner,
        token: NonNull<()>,
        start: NonNull<u8>,
        len: u16,
        (borrowed_at, borrowed_len): (u16, u16),
    ) -> Buffer {
        Buffer { start, owner: Some(owner), token, len: len.into(), borrowed_at, borrowed_len }
    }

    /// Whether it is borrowed from `owner`.
    #[inline]
    pub(crate) fn is_borrowed_from(&self, owner: &'static BufferOwner) -> bool {
        self.owner.is_some_and(|own| std::ptr::eq(own, owner))
    }

    /// Whether it is borrowed.
    #[inline]
    pub(crate) fn is_borrowed(&self) -> bool {
        self.owner.is_some()
    }

    /// Where the frame began when the buffer was borrowed, and how long it was.
    #[inline]
    pub(crate) fn borrowed_as(&self) -> (u16, u16) {
        (self.borrowed_at, self.borrowed_len)
    }

    /// No bytes, and no memory.
    #[inline]
    pub(crate) const fn hollow() -> Buffer {
        // A box of no bytes is what nothing needs to be freed for.
        Buffer {
            start: NonNull::dangling(),
            owner: None,
            token: NonNull::dangling(),
            len: 0,
            borrowed_at: 0,
            borrowed_len: 0,
        }
    }

    /// Whether it is [`hollow`](Self::hollow).
    #[inline]
    pub(crate) fn is_hollow(&self) -> bool {
        self.len == 0 && self.owner.is_none()
    }

    /// Gives the buffer back without a release: the token, if it is borrowed from `owner`. The buffer is hollow then.
    #[inline]
    pub(crate) fn reclaim(&mut self, owner: &'static BufferOwner) -> Option<NonNull<()>> {
        if !self.is_borrowed_from(owner) {
            return None;
        }
        // It is a box then, of no bytes.
        (self.owner, self.len) = (None, 0);
        Some(self.token)
    }
}

impl From<Box<[u8]>> for Buffer {
    fn from(bytes: Box<[u8]>) -> Buffer {
        let len = u32::try_from(bytes.len()).expect("a frame's buffer has less than 4 GiB");
        // SAFETY: a box's pointer is not null.
        let start = unsafe { NonNull::new_unchecked(Box::into_raw(bytes).cast::<u8>()) };
        Buffer { start, len, ..Buffer::hollow() }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes from `start` on, of a box or as `borrowed` was promised.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        match self.owner {
            // SAFETY: the token came with this buffer, which ends here, and once.
            Some(owner) => unsafe { (owner.release)(self.token) },
            None => {
                let bytes =
                    std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len as usize);
                // SAFETY: pointer and length are those of the box that it was made from.
                drop(unsafe { Box::from_raw(bytes) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Reclaimed;
    use crate::{Frame, Pool};
    use std::sync::atomic::{AtomicUsize, Ordering};

    static RELEASED: AtomicUsize = AtomicUsize::new(0);

    unsafe fn release(token: NonNull<()>) {
        RELEASED.fetch_add(1, Ordering::SeqCst);
        // SAFETY: every token of these tests is a box that was leaked for it.
        drop(unsafe { Box::from_raw(token.cast::<[u8; 512]>().as_ptr()) });
    }

    // SAFETY: `release` frees a box, on any thread.
    static OWNER: BufferOwner = unsafe { BufferOwner::new("test", release) };
    // SAFETY: as above.
    static OTHER: BufferOwner = unsafe { BufferOwner::new("other", release) };

    fn borrow(bytes: &[u8], start: usize) -> Frame {
        let mut memory = Box::new([0u8; 512]);
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        let memory = NonNull::from(Box::leak(memory));
        // SAFETY: 512 bytes that nobody else knows of.
        unsafe {
            Frame::borrowed(
                &OWNER,
                memory.cast(),
                memory.cast(),
                512,
                start as u16,
                bytes.len() as u16,
            )
        }
    }

    /// One test, as all of them count releases.
    #[test]
    fn lent_buffers_go_back_once() {
        // Freed.
        let mut frame = borrow(b"abc", 64);
        assert_eq!((frame.data(), frame.headroom(), frame.tailroom()), (&b"abc"[..], 64, 445));
        frame.push_front(64).fill(1);
        assert!(frame.is_borrowed_from(&OWNER) && !frame.is_borrowed_from(&OTHER));
        drop(frame);
        assert_eq!(RELEASED.load(Ordering::SeqCst), 1);
        // Outgrown: the bytes move to the heap.
        let mut frame = borrow(b"abc", 64);
        frame.push_front(500).fill(1);
        assert_eq!((frame.len(), RELEASED.load(Ordering::SeqCst)), (503, 2));
        assert!(!frame.is_borrowed_from(&OWNER));
        assert_eq!(&frame.data()[500..], b"abc");
        // Given to a pool, which keeps none of others' buffers.
        let mut pool = Pool::new();
        pool.give(borrow(b"abc", 0));
        assert_eq!((RELEASED.load(Ordering::SeqCst), pool.idle()), (3, (0, 0)));
        // Taken back whole, by its owner alone.
        let mut frame = borrow(b"abc", 7);
        assert!(frame.reclaim(&OTHER).is_none());
        assert_eq!(frame.data(), b"abc");
        let mut other = borrow(b"xy", 9);
        let Reclaimed { token, start, len, edited } = other.reclaim(&OWNER).unwrap();
        assert!(!edited);
        assert!(other.reclaim(&OWNER).is_none() && other.is_empty());
        other.push_front(3).fill(5);
        assert_eq!(other.data(), [5, 5, 5]);
        drop(other);
        assert_eq!((start, len, RELEASED.load(Ordering::SeqCst)), (9, 2, 3));
        // SAFETY: reclaimed, so it is ours again.
        unsafe { release(token) };
        std::thread::spawn(move || drop(frame)).join().unwrap();
        assert_eq!(RELEASED.load(Ordering::SeqCst), 5);
        // Filled where it lies.
        let mut burst = crate::Burst::new();
        let memory = NonNull::from(Box::leak(Box::new([7u8; 512])));
        let frame = burst.add().unwrap();
        // SAFETY: 512 bytes that nobody else knows of, and a hollow frame.
        unsafe { frame.borrow(&OWNER, memory.cast(), memory.cast(), 512, 100, 3) };
        assert_eq!((burst.frames()[0].data(), burst.len()), (&[7, 7, 7][..], 1));
        let taken = burst.frames_mut()[0].take();
        burst.clear();
        assert_eq!(RELEASED.load(Ordering::SeqCst), 5);
        drop(taken);
        assert_eq!(RELEASED.swap(5, Ordering::SeqCst), 6);
        // A copy is the heap's.
        let frame = borrow(b"abc", 7);
        let copy = frame.clone();
        drop(frame);
        assert_eq!((copy.data(), RELEASED.load(Ordering::SeqCst)), (&b"abc"[..], 6));
        drop(copy);
        assert_eq!(RELEASED.load(Ordering::SeqCst), 6);
    }
}
