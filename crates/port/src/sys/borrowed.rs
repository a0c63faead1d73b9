//! Borrowed frames: known by their owner's tokens alone.
//!
//! A driver that keeps beside its buffers what there is to say of a frame (DPDK's mbufs do) need not have
//! it copied: the shortest way through a worker carries pointers. [`BorrowedBurst`] is a burst of them as it has come in,
//! each shown to generated code as an [`abi::Packet`] in the same pass in which the driver looks at it; [`Batch`] is
//! what is gathered for a port, over several bursts if that is worth while.
//!
//! Invariant: all tokens in a list are of its owner, point to [`Mbuf`]s, and each stands for a buffer that
//! nobody else has; within it lies the frame. An empty list may have any owner. The first packets of a burst are its
//! frames as they came in, one for each, and where they lie only as long as nobody has dealt them.
#![allow(unsafe_code)]

mod batch;
mod deal;
#[cfg(test)]
mod tests;
mod token;
mod view;

pub use self::batch::{BATCH_MAX, Batch, PLACES};
pub use self::token::Sizes;

use self::token::{csum, frames, read_extent, release_all};
use super::buffer::BufferOwner;
use crate::burst::{BURST_MAX, Burst};
use crate::offload::Csum;
use abi::deal::Places;
use abi::{Outcome, Packet, Ways};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

const _: () = assert!(BURST_MAX == abi::BURST_MAX);

/// Frames in buffers of a driver's own, in order of arrival, of which nobody has made [`Frame`]s. Nothing is
/// owed of them, and of no mark is anything known. Those that are left when it ends go back to their owner.
#[derive(Debug, Default)]
pub struct BorrowedBurst {
    owner: Option<&'static BufferOwner>,
    tokens: Vec<NonNull<()>>,
    /// The frames as generated code sees them, then room.
    packets: Vec<Packet<'static>>,
    in_port: u32,
    sizes: Sizes,
    /// A bit for each of the first 64: the device vouches for the transport checksum.
    valid: u64,
}

// SAFETY: each token is the only way to its buffer, which may be used and released on any thread; packets are read
// only together with the tokens of their frames.
unsafe impl Send for BorrowedBurst {}

impl BorrowedBurst {
    /// None, with room for a burst.
    pub fn new() -> BorrowedBurst {
        let mut borrowed = BorrowedBurst::default();
        borrowed.make_room();
        borrowed
    }

    #[cold]
    fn make_room(&mut self) {
        self.tokens.reserve(BURST_MAX);
        self.packets.resize_with(BURST_MAX, Packet::none);
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Frames that are added from now on have come in by this port.
    #[inline(always)]
    pub fn set_in_port(&mut self, in_port: u32) {
        self.in_port = in_port;
    }

    /// Adds a frame to a burst that is not full. `valid`: the device vouches for its transport checksum.
    ///
    /// # Safety
    /// `owner`'s tokens point to [`Mbuf`]s, and it is the same for all in the list; the token stands for a buffer of its own,
    /// initialised memory that any thread may read and write and nobody else touches until it was released or
    /// taken out; the frame lies within it, and the buffer has less than 64 KiB.
    pub unsafe fn push(&mut self, owner: &'static BufferOwner, token: NonNull<()>, valid: bool) {
        self.owner = Some(owner);
        if self.packets.len() < BURST_MAX {
            self.make_room();
        }
        let at = self.tokens.len();
        self.valid |= u64::from(valid).unbounded_shl(at as u32);
        // SAFETY: a token of its owner's.
        let extent = unsafe { read_extent(token) };
        // Within the buffer, so not longer than that.
        self.sizes.add(extent.len as u16);
        // SAFETY: what it says of its frame holds, and the buffer is this list's alone.
        unsafe { extent.show(&mut self.packets[at], self.in_port) };
        self.tokens.push(token);
    }

    /// Room for the tokens of a burst, of an empty list: see [`fill`](Self::fill).
    #[inline(always)]
    pub fn room(&mut self) -> &mut [MaybeUninit<NonNull<()>>; BURST_MAX] {
        if self.packets.len() < BURST_MAX || self.tokens.capacity() - self.tokens.len() < BURST_MAX
        {
            self.make_room();
        }
        let room = self.tokens.spare_capacity_mut();
        room.first_chunk_mut().expect("so many were reserved")
    }

    /// Fills an empty list with the first `n` frames whose tokens were written into its [room](Self::room), of whose
    /// checksums nothing is known, if all are plain: each lies within one buffer, that nobody else uses, and the device has
    /// said nothing of it. Else nothing happens, and it says so.
    ///
    /// # Safety
    /// `owner`'s tokens point to [`Mbuf`]s. So many were written, and of one that is plain what [`push`](Self::push)
    /// demands holds.
    #[inline(always)]
    pub unsafe fn fill(&mut self, owner: &'static BufferOwner, n: usize) -> bool {
        let (in_port, empty) = (self.in_port, self.tokens.is_empty());
        let tokens = self.tokens.spare_capacity_mut();
        if !empty || n > tokens.len().min(self.packets.len()) {
            return false;
        }
        // SAFETY: nobody is shown these packets unless all of them are plain.
        let seen = unsafe { view::show(&tokens[..n], &mut self.packets[..n], in_port) };
        if let Some(sizes) = seen {
            (self.owner, self.valid, self.sizes) = (Some(owner), 0, sizes);
            // SAFETY: so many were written.
            unsafe { self.tokens.set_len(n) };
        }
        seen.is_some()
    }

    /// Shows all of them to `f`, to be edited, and for what becomes of them to be noted.
    #[inline(always)]
    pub fn show<R>(&mut self, f: impl for<'a> FnOnce(&mut [Packet<'a>]) -> R) -> R {
        let n = self.tokens.len();
        // Whatever `f` is, it may put no packet here that does not live for ever, as it knows nothing of `'a`.
        f(&mut self.packets[..n])
    }

    /// As [`show`](Self::show), and says where the frames may be dealt to, by port: code that runs the packets deals them.
    #[inline(always)]
    pub fn show_to<R>(
        &mut self,
        places: &Places,
        f: impl for<'a> FnOnce(&mut [Packet<'a>], Ways<'_>) -> R,
    ) -> R {
        let n = self.tokens.len();
        let packets = &mut self.packets[..n];
        let ways = match self.valid {
            // SAFETY: tokens of their owner's, each with a buffer that nobody else has, and the packets are their frames as they came in.
            0 => unsafe { Ways::lent(places, &self.tokens, packets) },
            // What the device says of a frame goes with it.
            _ => Ways::none(),
        };
        f(packets, ways)
    }

    /// What has become of each.
    #[inline(always)]
    pub fn outcomes(&self) -> impl ExactSizeIterator<Item = &Outcome> {
        self.packets[..self.tokens.len()].iter().map(|packet| &**packet)
    }

    /// How long they are.
    #[inline(always)]
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Whether of any frame's transport checksum something is known.
    #[inline(always)]
    pub fn vouches(&self) -> bool {
        self.valid != 0
    }

    /// What is known of each frame's transport checksum.
    pub fn csums(&self) -> impl ExactSizeIterator<Item = Csum> {
        (0..self.len()).map(|at| csum(self.valid.into(), at))
    }

    /// Makes frames of all of them, behind those of a burst that has room for them.
    pub fn become_frames(&mut self, burst: &mut Burst) {
        (self.valid, self.sizes) = {
            let valid = self.valid.into();
            let Some(owner) = self.owner.take() else { return };
            // SAFETY: tokens of its owner's, which leave the list.
            unsafe { frames(owner, self.tokens.drain(..), valid, burst) };
            (0, Sizes::default())
        };
    }
}

impl Drop for BorrowedBurst {
    fn drop(&mut self) {
        release_all(self.owner, &mut self.tokens);
    }
}
