//! A worker's free list of frame buffers.
//!
//! Frames that end their life in a worker's hands are given back here and taken again, without the
//! allocator. It belongs to one worker, so there is no lock. A frame that ends elsewhere (in a
//! punt, in another worker) is simply freed: nothing leaks, and nothing needs to find its way home.
//!
//! Invariants: the lists hold at most what [`Pool::with_limits`] was told, so idle memory is
//! bounded (by default [`SMALL_KEPT`] small and [`BIG_KEPT`] big buffers, 10.6 MB); live frames are
//! bounded by the bursts and rings that hold them.
//! Cost: a push or a pop; the most recently used buffer, the one still in cache, is taken first.

use crate::frame::{BIG_BYTES, BIG_LEN_MAX, Frame, SMALL_BYTES, SMALL_LEN_MAX};
use crate::sys::buffer::Buffer;

/// Small buffers kept by default.
pub const SMALL_KEPT: usize = 1024;
/// Big buffers kept by default.
pub const BIG_KEPT: usize = 128;

/// A free list of frame buffers.
pub struct Pool {
    small: Vec<Buffer>,
    big: Vec<Buffer>,
    small_max: usize,
    big_max: usize,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::with_limits(SMALL_KEPT, BIG_KEPT)
    }
}

impl Pool {
    /// An empty pool with the default limits.
    pub fn new() -> Pool {
        Pool::default()
    }

    /// An empty pool that keeps at most so many small and big buffers.
    pub fn with_limits(small_max: usize, big_max: usize) -> Pool {
        Pool { small: Vec::new(), big: Vec::new(), small_max, big_max }
    }

    /// An empty frame with room for `len` bytes behind the usual headroom.
    pub fn take(&mut self, len: usize) -> Frame {
        let recycled = if len <= SMALL_LEN_MAX {
            self.small.pop()
        } else if len <= BIG_LEN_MAX {
            self.big.pop()
        } else {
            None
        };
        recycled.map_or_else(|| Frame::with_room(len), Frame::from_buffer)
    }

    /// A frame with a copy of `bytes`.
    pub fn copy_of(&mut self, bytes: &[u8]) -> Frame {
        let mut frame = self.take(bytes.len());
        frame.replace(bytes);
        frame
    }

    /// A copy of `frame`, metadata included.
    pub fn clone_of(&mut self, frame: &Frame) -> Frame {
        let mut copy = self.copy_of(frame.data());
        copy.copy_metadata(frame);
        copy
    }

    /// Takes a frame back; frees it if the list is full or the buffer of an odd size or borrowed.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        let buffer = frame.into_buffer();
        if buffer.is_borrowed() {
            return;
        }
        let (list, max) = match buffer.len() {
            SMALL_BYTES => (&mut self.small, self.small_max),
            BIG_BYTES => (&mut self.big, self.big_max),
            _ => return,
        };
        if list.len() < max {
            list.push(buffer);
        }
    }

    /// How many small and big buffers lie here.
    pub fn idle(&self) -> (usize, usize) {
        (self.small.len(), self.big.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::Csum;

    #[test]
    fn recycles_by_class_and_forgets_the_past() {
        let mut pool = Pool::with_limits(2, 1);
        let mut frame = pool.copy_of(&[9; 10]);
        frame.rx_port = 3;
        frame.offload.csum = Csum::Valid;
        pool.give(frame);
        pool.give(Frame::with_room(BIG_LEN_MAX));
        pool.give(Frame::with_room(BIG_LEN_MAX + 1));
        assert_eq!(pool.idle(), (1, 1));
        let frame = pool.take(100);
        assert_eq!((frame.len(), frame.rx_port, frame.offload), (0, 0, Default::default()));
        assert_eq!(pool.idle(), (0, 1));
        assert_eq!(pool.take(SMALL_LEN_MAX + 1).buffer_len(), BIG_BYTES);
        assert_eq!(pool.idle(), (0, 0));
    }

    #[test]
    fn keeps_no_more_than_told() {
        let mut pool = Pool::with_limits(2, 0);
        for _ in 0..10 {
            pool.give(Frame::with_room(0));
            pool.give(Frame::with_room(BIG_LEN_MAX));
        }
        assert_eq!(pool.idle(), (2, 0));
    }
}
