//! Frames taken together: what a worker carries through the pipeline at once.

use crate::{Frame, Mark, Pool};

/// Frames in a full burst.
pub const BURST_MAX: usize = 64;

/// Up to [`BURST_MAX`] frames, in order of arrival.
///
/// The default is empty and holds no memory until a frame comes; [`Burst::new`] has room for all.
/// Invariant: places beyond `len` hold hollow frames, so that a driver fills one where it lies, and have no marks.
#[derive(Default)]
pub struct Burst {
    places: Box<[Frame]>,
    len: usize,
    /// Room for as many as there are places, or for none while nothing was ever marked.
    marks: Box<[Mark]>,
    /// One of them is set.
    marked: bool,
}

impl Burst {
    /// An empty burst; the only allocation it makes, but for marks.
    pub fn new() -> Burst {
        let places = (0..BURST_MAX).map(|_| Frame::hollow()).collect();
        Burst { places, ..Burst::default() }
    }

    /// How many frames it holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many more frames fit.
    #[inline]
    pub fn room(&self) -> usize {
        BURST_MAX - self.len
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
        match self.add() {
            Some(place) => {
                *place = frame;
                Ok(())
            }
            None => Err(frame),
        }
    }

    /// Adds a hollow frame, to be filled where it lies; `None` when the burst is full. A frame that is
    /// made elsewhere and then moved here costs more than all else that a driver does for it.
    #[inline]
    pub fn add(&mut self) -> Option<&mut Frame> {
        if self.places.is_empty() {
            *self = Burst::new();
        }
        let place = self.places.get_mut(self.len)?;
        self.len += 1;
        Some(place)
    }

    /// The frames.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.places[..self.len]
    }

    /// The frames, in order, to be changed.
    #[inline]
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.places[..self.len]
    }

    /// Notes what the port reports of frame `at`, which is there.
    pub fn mark(&mut self, at: usize, mark: Mark) {
        if self.marks.is_empty() {
            self.marks = vec![Mark::NONE; BURST_MAX].into_boxed_slice();
        }
        if at < self.len {
            self.marks[at] = mark;
            self.marked = true;
        }
    }

    /// What the port reports of the frames, in their order; none if it reports nothing.
    #[inline]
    pub fn marks(&self) -> Option<&[Mark]> {
        self.marked.then(|| &self.marks[..self.len])
    }

    #[inline]
    fn forget_marks(&mut self) {
        if std::mem::take(&mut self.marked) {
            self.marks.fill(Mark::NONE);
        }
    }

    /// Takes all frames out, in order. Those that are not taken from the iterator end with it.
    pub fn drain(&mut self) -> Drain<'_> {
        self.forget_marks();
        let len = std::mem::take(&mut self.len);
        Drain(self.places[..len].iter_mut())
    }

    /// Forgets all frames, those that are hollow and those that are not.
    #[inline]
    pub fn clear(&mut self) {
        self.forget_marks();
        let len = std::mem::take(&mut self.len);
        for place in &mut self.places[..len] {
            if !place.is_hollow() {
                *place = Frame::hollow();
            }
        }
    }

    /// Gives all frames back to `pool`.
    pub fn recycle(&mut self, pool: &mut Pool) {
        for frame in self.drain() {
            pool.give(frame);
        }
    }
}

/// Frames on their way out of a [`Burst`].
pub struct Drain<'a>(std::slice::IterMut<'a, Frame>);

impl Iterator for Drain<'_> {
    type Item = Frame;

    #[inline]
    fn next(&mut self) -> Option<Frame> {
        self.0.next().map(Frame::take)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        self.by_ref().for_each(drop);
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
        // What was left in a drain is gone.
        let mut burst = Burst::default();
        (0..5).for_each(|n| burst.push(Frame::copy_of(&[n])).unwrap());
        assert_eq!(burst.drain().next().unwrap().data(), [0]);
        assert!(burst.is_empty() && burst.places.iter().all(Frame::is_hollow));
        burst.push(Frame::copy_of(&[7])).unwrap();
        assert_eq!(burst.frames()[0].data(), [7]);
        burst.clear();
        assert!(burst.is_empty() && burst.places[0].is_hollow());
    }
}
