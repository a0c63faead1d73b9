//! Memory of connections, by place: what one thread at a time has as slices, and several may have element by element.
//!
//! `unsafe` here: values taken for cells, and cells for values, for who has the tracker to himself.
//!
//! Invariant: a [`Cells`] is not `Sync`, so a reference to one is one thread's. Who shares a tracker among threads
//! ([`together`](super::together)) reads and writes elements by [`at`](Cells::at), each under its record's lock, and nothing else.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// Elements by place; they are given room at the start, and never move.
#[derive(Debug)]
pub(super) struct Cells<T>(Vec<UnsafeCell<T>>);

impl<T> Cells<T> {
    /// None of them, and room for so many.
    pub(super) fn with_capacity(n: usize) -> Cells<T> {
        Cells(crate::pages::with_capacity(n))
    }

    /// These.
    pub(super) fn of(all: Vec<T>) -> Cells<T> {
        let mut all = ManuallyDrop::new(all);
        let (start, len, room) = (all.as_mut_ptr(), all.len(), all.capacity());
        // SAFETY: an `UnsafeCell` is laid out as what is in it, so this is the same allocation with the same room; the vector that had it
        // lets go of it. In place, since memory that nobody has written to is to stay so.
        Cells(unsafe { Vec::from_raw_parts(start.cast(), len, room) })
    }

    pub(super) fn push(&mut self, value: T) {
        self.0.push(UnsafeCell::new(value));
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Where the element at this place is. Whoever uses it keeps others from it.
    #[inline(always)]
    pub(super) fn at(&self, at: u32) -> Option<*mut T> {
        self.0.get(at as usize).map(UnsafeCell::get)
    }

    /// Asks for the element's line.
    #[inline(always)]
    pub(super) fn prefetch(&self, at: u32) {
        if let Some(cell) = self.0.get(at as usize) {
            crate::simd::prefetch(cell);
        }
    }
}

impl<T> Deref for Cells<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: an `UnsafeCell` is laid out as what is in it. This type is not `Sync`, so no other thread has a reference to it but by
        // `together`, which asks for no slice; and here nothing is written while one is read, as there is only `at` to write by.
        unsafe { &*(&raw const *self.0 as *const [T]) }
    }
}

impl<T> DerefMut for Cells<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and nobody else has a reference at all.
        unsafe { &mut *(&raw mut *self.0 as *mut [T]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_the_same_by_slice_and_by_place() {
        let mut cells = Cells::with_capacity(3);
        (1..=3).for_each(|n| cells.push(n));
        cells[1] = 7;
        assert_eq!((&*cells, cells.len()), (&[1, 7, 3][..], 3));
        assert!(cells.at(3).is_none());
        let place = cells.at(1).unwrap();
        // SAFETY: nobody else has it.
        unsafe { *place = 9 };
        assert_eq!(cells.iter().sum::<i32>(), 13);
        assert_eq!(&*Cells::of(vec![1, 9, 3]), &*cells);
    }
}
