//! Frames taken together: what a worker carries through the pipeline at once.

use crate::{Frame, Pool};

/// Frames in a full burst.
pub const BURST_MAX: usize = 64;

/// Up to [`BURST_MAX`] frames, in order of arrival.
///
/// The default is empty and holds no memory until a frame comes; [`Burst::new`] has room for all.
#[derive(Default)]
pub struct Burst {
    frames: Vec<Frame>,
}

impl Burst {
    /// An empty burst; the only allocation it ever makes.
    pub fn new() -> Burst {
        Burst { frames: Vec::with_capacity(BURST_MAX) }
    }

    /// How many frames it holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// How many more frames fit.
    #[inline]
    pub fn room(&self) -> usize {
        BURST_MAX - self.frames.len()
    }

    /// Whether none fits any more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Adds a frame; gives it back when the burst is full.
    // The frame comes back whole so that no one loses it uncounted.
    #[allow(clippy::result_large_err)]
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.is_full() {
            return Err(frame);
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Adds a hollow frame, to be filled where it lies; `None` when the burst is full. A frame that is
    /// made elsewhere and then moved here costs more than all else that a driver does for it.
    #[inline]
    pub fn add(&mut self) -> Option<&mut Frame> {
        const HOLLOW: Frame = Frame::hollow();
        if self.is_full() {
            return None;
        }
        self.frames.push(HOLLOW);
        self.frames.last_mut()
    }

    /// The frames.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The frames, in order, to be changed.
    #[inline]
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.frames
    }

    /// Takes all frames out, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Frame> {
        self.frames.drain(..)
    }

    /// Forgets all frames, those that are hollow and those that are not.
    #[inline]
    pub fn clear(&mut self) {
        self.frames.clear();
    }

    /// Gives all frames back to `pool`.
    pub fn recycle(&mut self, pool: &mut Pool) {
        for frame in self.frames.drain(..) {
            pool.give(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_bounded() {
        let mut burst = Burst::new();
        for i in 0..BURST_MAX {
            assert_eq!(burst.room(), BURST_MAX - i);
            burst.push(Frame::copy_of(&[i as u8])).unwrap();
        }
        assert!(burst.is_full());
        assert_eq!(burst.push(Frame::copy_of(&[99])).unwrap_err().data(), [99]);
        let mut pool = Pool::new();
        burst.recycle(&mut pool);
        assert!(burst.is_empty());
        assert_eq!(pool.idle(), (BURST_MAX, 0));
    }
}
