//! Several workers at one tracker.
//!
//! What nearly all packets need is read by them and written by nobody: the index, settings, lists. What such a packet writes is its
//! connection's own. So workers take [usual](super::usual) packets side by side ([`Together::shared`]), each under its connection's lock, which lies in
//! the record's line. What opens, closes or looks for a connection has the tracker to [itself](Together::alone): so does all else.
//!
//! A worker takes a burst's usual packets, then those that are left, in their order. Packets of one connection keep their order: behind one
//! that is left, others of its connection are left, too.
//!
//! A connection's two directions may come to different workers, as translated ones do. No hash of a packet need tell where it is.
//!
//! Where one worker alone has ever come, it has the tracker to itself at once: there is nothing to share, and nothing more to pay.
//!
//! Cost: an addition to a line of the worker's own for each burst, and one locked instruction for each packet, in a line that it writes
//! anyhow. Who wants the tracker alone waits for the bursts that are under way.
//! Checked by: the tests below (the same packets through a tracker that is one's own; several threads at one), and by those of `gate`.
//!
//! `unsafe` here: what stands behind the gate.

#![allow(unsafe_code)]

mod gate;
#[cfg(test)]
mod tests;
mod view;

use super::Tracker;
use super::request::Counters;
use gate::{Entered, Gate, Shut};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
pub use view::{After, View};

/// A tracker, and what else stands behind its gate.
#[derive(Debug)]
pub struct Both<X> {
    /// The tracker.
    pub tracker: Tracker,
    /// What its keeper keeps beside it.
    pub beside: X,
}

/// A tracker that several workers have.
#[derive(Debug)]
pub struct Together<X> {
    gate: Gate,
    inner: UnsafeCell<Both<X>>,
}

// SAFETY: the gate lets either one thread have what is inside as its own, or several a `View` of the tracker and a reference to what is
// beside it. A view writes nothing but a connection's memory, and that under its lock; what is beside is `Sync`. What is sent to
// another thread that way is `Send`.
unsafe impl<X: Send + Sync> Sync for Together<X> {}

impl<X> Together<X> {
    /// One that nobody has yet.
    pub fn new(tracker: Tracker, beside: X) -> Together<X> {
        Together { gate: Gate::default(), inner: UnsafeCell::new(Both { tracker, beside }) }
    }

    /// All of it, for this thread alone. Waits until nobody else is inside: a thread that has it [shared](Self::shared) lets go first,
    /// or waits for itself.
    pub fn alone(&self) -> Alone<'_, X> {
        Alone { shut: self.gate.shut(), inner: &self.inner }
    }

    /// What several workers may have at once. None where this thread is the only one that has ever asked: it may as well have it
    /// [alone](Self::alone).
    pub fn shared(&self) -> Option<Shared<'_, X>> {
        Some(Shared { entered: self.gate.enter()?, inner: &self.inner })
    }

    /// What workers have counted side by side, beside what the tracker itself has.
    pub fn counted(&self) -> Counters {
        let [new, established, invalid, hints_used, nat_impossible] = self.gate.counted();
        Counters { new, established, invalid, hints_used, nat_impossible, ..Counters::default() }
    }
}

/// What is behind the gate, while nobody else is.
#[derive(Debug)]
pub struct Alone<'a, X> {
    // Opened when this is dropped.
    #[expect(dead_code, reason = "held, not used")]
    shut: Shut<'a>,
    inner: &'a UnsafeCell<Both<X>>,
}

impl<X> Deref for Alone<'_, X> {
    type Target = Both<X>;
    #[inline(always)]
    fn deref(&self) -> &Both<X> {
        // SAFETY: the gate is shut as long as this is there, so no other thread has a reference.
        unsafe { &*self.inner.get() }
    }
}

impl<X> DerefMut for Alone<'_, X> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Both<X> {
        // SAFETY: as above, and this reference is the only way to it.
        unsafe { &mut *self.inner.get() }
    }
}

/// What is behind the gate, while others may be, too.
#[derive(Debug)]
pub struct Shared<'a, X> {
    entered: Entered<'a>,
    inner: &'a UnsafeCell<Both<X>>,
}

impl<X> Shared<'_, X> {
    /// The tracker, for usual packets.
    pub fn view(&self) -> View<'_> {
        // SAFETY: who is inside keeps those out who would write to the tracker, and others who are inside write to connections alone, by
        // cells. A view asks for no slice of these.
        let tracker = unsafe { &(*self.inner.get()).tracker };
        View::new(tracker, &self.entered)
    }

    /// What its keeper keeps beside it.
    pub fn beside(&self) -> &X {
        // SAFETY: as above; nobody writes to it while somebody is inside.
        unsafe { &(*self.inner.get()).beside }
    }
}
