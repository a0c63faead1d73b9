//! What is gathered for a transmit queue, over several bursts if that is worth while.
#![allow(unsafe_code)]

use super::BorrowedBurst;
use super::token::{Sizes, frames, release_all};
use crate::burst::{BURST_MAX, Burst};
use crate::sys::buffer::BufferOwner;
use std::ptr::NonNull;

/// Frames in a [`Batch`], at most.
pub const BATCH_MAX: usize = 2 * BURST_MAX;
/// How many batches there are to [deal](BorrowedBurst::deal) into, so that any place of eight bits is one.
pub const PLACES: usize = 256;

/// Frames in buffers of a driver's own that are to leave by one queue, in order. Their tokens say where they lie now.
/// Nothing is owed of them. Those that are left when it ends go back to their owner.
#[derive(Debug)]
pub struct Batch {
    pub(super) owner: Option<&'static BufferOwner>,
    /// With room for so many.
    pub(super) tokens: Vec<NonNull<()>>,
    pub(super) room: usize,
    pub(super) sizes: Sizes,
    /// A bit for each: a device vouches for the transport checksum.
    pub(super) valid: u128,
}

// SAFETY: as of `BorrowedBurst`.
unsafe impl Send for Batch {}

impl Batch {
    /// None.
    pub fn new() -> Batch {
        let (tokens, room) = (Vec::with_capacity(BATCH_MAX), BATCH_MAX);
        Batch { owner: None, tokens, room, sizes: Sizes::NONE, valid: 0 }
    }

    /// None, and no room for any.
    pub const fn none() -> Batch {
        Batch { owner: None, tokens: Vec::new(), room: 0, sizes: Sizes::NONE, valid: 0 }
    }

    /// There is room for one more.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.tokens.len() < self.room
    }

    /// Adds a frame of so many bytes. It is lost if there is no room.
    #[inline(always)]
    pub(super) fn push(&mut self, token: NonNull<()>, len: u32) {
        let at = self.tokens.len();
        if at < self.room {
            self.sizes.bytes += len;
            // SAFETY: there is room for so many.
            unsafe {
                self.tokens.as_mut_ptr().add(at).write(token);
                self.tokens.set_len(at + 1);
            }
        }
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

    /// How long they are; `least` and `most` are bounds.
    #[inline(always)]
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Makes frames of the first ones, as many as the burst has room for.
    pub fn become_frames(&mut self, burst: &mut Burst) {
        let Some(owner) = self.owner else { return };
        let n = burst.room().min(self.tokens.len());
        let valid = self.valid;
        // SAFETY: tokens of its owner's, which leave the list.
        unsafe { frames(owner, self.tokens.drain(..n), valid, burst) };
        self.valid = valid.unbounded_shr(n as u32);
        if self.is_empty() {
            (self.owner, self.sizes) = (None, Sizes::default());
        }
    }

    /// Moves the first ones into an empty list, as many as a burst has, as they lie now. Says how many.
    pub fn move_to(&mut self, borrowed: &mut BorrowedBurst) -> usize {
        debug_assert!(borrowed.is_empty(), "what is there may be another's");
        let Some(owner) = self.owner else { return 0 };
        let n = self.tokens.len().min(BURST_MAX);
        let plain = self.valid == 0 && {
            for (place, token) in borrowed.room().iter_mut().zip(&self.tokens[..n]) {
                place.write(*token);
            }
            // SAFETY: tokens of its owner's, so many of them, each of a buffer that this list alone had; they leave it below.
            unsafe { borrowed.fill(owner, n) }
        };
        if !plain {
            for (at, token) in self.tokens[..n].iter().enumerate() {
                let valid = self.valid.unbounded_shr(at as u32) & 1 == 1;
                // SAFETY: as above.
                unsafe { borrowed.push(owner, *token, valid) };
            }
        }
        self.tokens.drain(..n);
        self.valid = self.valid.unbounded_shr(n as u32);
        if self.is_empty() {
            (self.owner, self.sizes) = (None, Sizes::NONE);
        }
        n
    }

    /// Gives all of them back.
    pub fn release(&mut self) {
        release_all(self.owner.take(), &mut self.tokens);
        (self.valid, self.sizes) = (0, Sizes::NONE);
    }

    /// Hands all to their owner without a release, behind those in `to`, if it is this one; else nothing happens, and it
    /// says so. Their bytes may have changed since they were borrowed, and where they begin: their tokens say so.
    #[inline]
    pub fn reclaim(&mut self, owner: &'static BufferOwner, to: &mut Vec<NonNull<()>>) -> bool {
        let own = self.owner.is_some_and(|own| std::ptr::eq(own, owner));
        if own {
            (self.owner, self.valid, self.sizes) = (None, 0, Sizes::default());
            if to.is_empty() {
                // The lists change places, and this one has room for as many as before.
                std::mem::swap(to, &mut self.tokens);
                self.tokens.reserve(self.room);
            } else {
                to.extend_from_slice(&self.tokens);
                self.tokens.clear();
            }
        }
        own
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        release_all(self.owner, &mut self.tokens);
    }
}
