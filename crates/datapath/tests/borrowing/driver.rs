//! A driver with buffers of its own, in front of a memory port's queues.

#![allow(unsafe_code)]

use port::{
    Batch, BorrowedBurst, BufferOwner, Burst, Csum, DropReason, Drops, Frame, Mbuf, Pool, RxError,
    RxQueue, TxQueue, TxReport,
};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, Ordering};

const BYTES: usize = 2048;

/// Frames that left as they were borrowed.
pub(crate) static RETURNED: AtomicI64 = AtomicI64::new(0);

// SAFETY: `take` frees boxes, on any thread; a token is a `Mbuf`.
static OWNER: BufferOwner = unsafe { BufferOwner::of_mbufs("test", release) };

/// Buffers that are borrowed now.
pub(crate) static LENT: AtomicI64 = AtomicI64::new(0);

unsafe fn release(token: NonNull<()>) {
    // SAFETY: the caller's promise is that of `take`.
    drop(unsafe { take(token) });
}

/// The bytes of a frame, whose buffer ends.
///
/// # Safety
/// The token is one of `borrow`'s that nobody has any more.
unsafe fn take(token: NonNull<()>) -> Vec<u8> {
    LENT.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: both boxes were leaked in `borrow`, and nobody has them any more.
    let (kept, buffer) = unsafe {
        let kept = Box::from_raw(token.cast::<Mbuf>().as_ptr());
        let buffer = Box::from_raw(kept.buffer.cast::<[u8; BYTES]>());
        (kept, buffer)
    };
    let start = usize::from(kept.start);
    buffer[start..start + kept.len as usize].to_vec()
}

fn borrow(borrowed: &mut BorrowedBurst, frame: &Frame) {
    LENT.fetch_add(1, Ordering::Relaxed);
    let mut memory = Box::new([0u8; BYTES]);
    memory[128..128 + frame.len()].copy_from_slice(frame.data());
    let buffer = Box::into_raw(memory).cast();
    let (len, buffer_len) = (frame.len(), BYTES as u16);
    let (len, len_here) = (len as u32, len as u16);
    let kept = Mbuf { buffer, len, len_here, start: 128, buffer_len, ..Mbuf::default() };
    let token = NonNull::from(Box::leak(Box::new(kept))).cast();
    let valid = frame.offload.csum == Csum::Valid;
    // SAFETY: memory that nobody else knows of, and a structure of that kind.
    unsafe { borrowed.push(&OWNER, token, valid) };
}

/// Lends what comes, unless something of a burst owes something.
pub(crate) struct Rx(pub(crate) Box<dyn RxQueue>);

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        self.0.rx(burst, pool)
    }

    fn rx_borrowed(
        &mut self,
        borrowed: &mut BorrowedBurst,
        burst: &mut Burst,
        pool: &mut Pool,
    ) -> Result<usize, RxError> {
        let n = self.0.rx(burst, pool)?;
        if burst.frames().iter().all(|frame| frame.offload.is_plain()) {
            burst.drain().for_each(|frame| borrow(borrowed, &frame));
        }
        Ok(n)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }

    fn drops(&self) -> Drops {
        self.0.drops()
    }
}

/// Takes borrowed buffers back as they are.
pub(crate) struct Tx(pub(crate) Box<dyn TxQueue>);

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.0.tx(frame)
    }

    fn tx_batch(
        &mut self,
        batch: &mut Batch,
        pool: &mut Pool,
        refused: &mut dyn FnMut(DropReason),
    ) {
        let mut tokens = Vec::new();
        assert!(batch.reclaim(&OWNER, &mut tokens), "there is one driver");
        for token in tokens {
            RETURNED.fetch_add(1, Ordering::Relaxed);
            // SAFETY: reclaimed, so it is ours again.
            let bytes = unsafe { take(token) };
            if let Err(reason) = self.0.tx_owned(Frame::copy_of(&bytes), pool) {
                refused(reason);
            }
        }
    }

    fn flush(&mut self) -> TxReport {
        self.0.flush()
    }
}
