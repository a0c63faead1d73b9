//! A gate: many inside at once, or one who has shut it.
//!
//! Who goes in notes it in a line of the thread's own, so that threads that come and go do not wait for each other's lines. Who
//! shuts the gate looks at all of these: few, and seldom. (A readers-writer lock has one line for all.)
//!
//! Threads have one of [`PLACES`] places by the order in which they came. Two that share a place are right, and slower.
//!
//! Checked by: the tests below, with threads that go in and shut at random.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Threads that have a line of their own.
const PLACES: usize = 32;
/// How often somebody looks whether he may go on before he sleeps: some microseconds.
const SPINS: u32 = 512;
/// What those who are inside may count.
pub(super) const COUNTS: usize = 5;

/// A thread's line, and another for what it counts.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place {
    inside: AtomicU32,
    counts: [AtomicU64; COUNTS],
}

/// The gate.
#[derive(Debug, Default)]
pub(super) struct Gate {
    shut: Mutex<()>,
    is_shut: AtomicBool,
    /// Places from which somebody has come, as bits.
    known: AtomicU32,
    places: [Place; PLACES],
}

const _: () = assert!(PLACES == u32::BITS as usize);

/// The place of this thread.
fn place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static PLACE: Cell<usize> = const { Cell::new(usize::MAX) });
    PLACE.with(|place| {
        if place.get() == usize::MAX {
            place.set(NEXT.fetch_add(1, Ordering::Relaxed) % PLACES);
        }
        place.get()
    })
}

impl Gate {
    /// Goes in, once the gate is open. None if no other thread has ever asked to.
    #[inline]
    pub(super) fn enter(&self) -> Option<Entered<'_>> {
        let place = place();
        let bit = 1 << place;
        let mut known = self.known.load(Ordering::Relaxed);
        if known & bit == 0 {
            // Before it goes in: who shuts the gate looks at the places that are known.
            known = self.known.fetch_or(bit, Ordering::SeqCst) | bit;
        }
        if known == bit {
            return None;
        }
        let place = &self.places[place];
        loop {
            place.inside.fetch_add(1, Ordering::SeqCst);
            if !self.is_shut.load(Ordering::SeqCst) {
                return Some(Entered { place });
            }
            place.inside.fetch_sub(1, Ordering::Release);
            self.wait();
        }
    }

    /// Shuts it, and waits until nobody is inside.
    #[inline]
    pub(super) fn shut(&self) -> Shut<'_> {
        let lock = self.lock();
        self.is_shut.store(true, Ordering::SeqCst);
        let mut known = self.known.load(Ordering::SeqCst);
        while known != 0 {
            let place = &self.places[known.trailing_zeros() as usize];
            let mut tries = 0_u32;
            while place.inside.load(Ordering::SeqCst) != 0 {
                tries += 1;
                // A burst takes microseconds; one whose thread was interrupted longer.
                if tries > 8 * SPINS { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
            known &= known - 1;
        }
        Shut { gate: self, _lock: lock }
    }

    /// Waits until it is open, or has been for a moment.
    #[cold]
    fn wait(&self) {
        // Mostly a packet's time: less than it takes to sleep and be woken.
        for _ in 0..SPINS {
            if !self.is_shut.load(Ordering::Relaxed) {
                return;
            }
            std::hint::spin_loop();
        }
        drop(self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        for _ in 0..SPINS {
            match self.shut.try_lock() {
                Ok(lock) => return lock,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        self.shut.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What was counted inside, by all.
    pub(super) fn counted(&self) -> [u64; COUNTS] {
        std::array::from_fn(|n| {
            self.places.iter().map(|place| place.counts[n].load(Ordering::Relaxed)).sum()
        })
    }
}

/// Somebody is inside.
#[derive(Debug)]
pub(super) struct Entered<'a> {
    place: &'a Place,
}

impl Entered<'_> {
    /// Counts.
    pub(super) fn count(&self, counts: [u64; COUNTS]) {
        for (sum, count) in self.place.counts.iter().zip(counts) {
            if count != 0 {
                sum.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}

impl std::ops::Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.place.inside.fetch_sub(1, Ordering::Release);
    }
}

/// The gate is shut, and nobody is inside.
#[derive(Debug)]
pub(super) struct Shut<'a> {
    gate: &'a Gate,
    // Let go of when the gate is open again.
    _lock: MutexGuard<'a, ()>,
}

impl std::ops::Drop for Shut<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.is_shut.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_inside_while_it_is_shut() {
        let gate = Gate::default();
        let (inside, alone) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (gate, inside, alone) = (&gate, &inside, &alone);
                scope.spawn(move || {
                    for n in 0..20_000 {
                        if (n + thread) % 7 == 0 {
                            let _shut = gate.shut();
                            assert!(!alone.swap(true, Ordering::SeqCst));
                            assert_eq!(inside.load(Ordering::SeqCst), 0);
                            assert!(alone.swap(false, Ordering::SeqCst));
                        } else if let Some(entered) = gate.enter() {
                            inside.fetch_add(1, Ordering::SeqCst);
                            assert!(!alone.load(Ordering::SeqCst));
                            entered.count([1, 0, 0, 0, n]);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        let [times, none, ..] = gate.counted();
        assert!(times > 20_000 && none == 0, "{times}");
    }

    #[test]
    fn the_only_one_who_has_come_need_not_go_in() {
        let gate = Gate::default();
        assert!(gate.enter().is_none() && gate.enter().is_none());
        std::thread::scope(|scope| {
            // Its place is another one, unless 32 threads have come between.
            scope.spawn(|| {
                while gate.enter().is_none() && gate.known.load(Ordering::SeqCst).count_ones() > 1 {
                }
            });
        });
        assert_eq!(gate.enter().is_some(), gate.known.load(Ordering::SeqCst).count_ones() > 1);
    }
}
