//! A ring shared with the kernel: one side produces, the other consumes, without locks.
//!
//! Producer and consumer each have a counter that only they advance, modulo 2^32; entries between
//! them are full. Who reads a foreign counter does so with *acquire*, who advances his own with
//! *release*, so that an entry is visible before it is announced.
//!
//! Each end here remembers the foreign counter and looks again only when it seems to have run out,
//! and announces a batch at once.
//!
//! Invariant: `consumer <= producer <= consumer + entries`, as wrapping differences. A kernel that
//! broke it could make us read a stale entry, never one outside the mapping.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::{Mapping, RingOffset};

const NEED_WAKEUP: u32 = 1;

/// What both ends know of the mapped ring.
struct Shared<T> {
    mapping: Mapping,
    offset: RingOffset,
    mask: u32,
    entries: PhantomData<T>,
}

/// The end that fills entries.
pub(crate) struct Producer<T> {
    shared: Shared<T>,
    /// Where the next entry goes; announced up to the shared counter.
    next: u32,
    /// The foreign counter when we last looked.
    consumed: u32,
}

/// The end that empties entries.
pub(crate) struct Consumer<T> {
    shared: Shared<T>,
    /// Where the next entry comes from; released up to the shared counter.
    next: u32,
    /// The foreign counter when we last looked.
    produced: u32,
}

/// What an entry may be: plain integers, for which any bytes are valid.
pub(crate) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

impl<T: Entry> Shared<T> {
    /// Checks that everything lies within the mapping, aligned.
    fn new(mapping: Mapping, offset: RingOffset, entries: u32) -> io::Result<Shared<T>> {
        let fits = |at: u64, bytes: usize, align: usize| {
            usize::try_from(at).is_ok_and(|at| {
                at % align == 0 && at.checked_add(bytes).is_some_and(|end| end <= mapping.len())
            })
        };
        let words = [offset.producer, offset.consumer, offset.flags];
        let all_fit = entries.is_power_of_two()
            && words.into_iter().all(|at| fits(at, 4, 4))
            && fits(offset.entries, entries as usize * size_of::<T>(), align_of::<T>());
        if !all_fit {
            return Err(io::Error::other("the kernel describes a ring outside its mapping"));
        }
        Ok(Shared { mapping, offset, mask: entries - 1, entries: PhantomData })
    }

    /// One of the shared words.
    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: `new` has checked that the word lies within the mapping, aligned; the kernel
        // accesses it atomically too.
        unsafe { AtomicU32::from_ptr(self.mapping.start().as_ptr().add(at as usize).cast()) }
    }

    /// The entry for a counter's value.
    fn entry(&self, counter: u32) -> NonNull<T> {
        let at = self.offset.entries as usize + (counter & self.mask) as usize * size_of::<T>();
        // SAFETY: the mask keeps the entry among those that `new` has checked to lie within the
        // mapping, which does not begin at 0.
        unsafe { self.mapping.start().add(at).cast() }
    }

    fn needs_wakeup(&self) -> bool {
        self.word(self.offset.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

impl<T: Entry> Producer<T> {
    /// The producing end of a mapped ring.
    pub(crate) fn new(mapping: Mapping, offset: RingOffset, entries: u32) -> io::Result<Self> {
        let shared = Shared::new(mapping, offset, entries)?;
        let next = shared.word(offset.producer).load(Ordering::Relaxed);
        let consumed = shared.word(offset.consumer).load(Ordering::Acquire);
        Ok(Producer { shared, next, consumed })
    }

    /// Whether no entry is free.
    pub(crate) fn is_full(&mut self) -> bool {
        let entries = self.shared.mask + 1;
        if self.next.wrapping_sub(self.consumed) >= entries {
            let word = self.shared.word(self.shared.offset.consumer);
            self.consumed = word.load(Ordering::Acquire);
        }
        self.next.wrapping_sub(self.consumed) >= entries
    }

    /// Fills an entry, unannounced; gives it back if none is free.
    pub(crate) fn push(&mut self, entry: T) -> Result<(), T> {
        if self.is_full() {
            return Err(entry);
        }
        // SAFETY: the entry lies within the mapping; it is free, so the kernel does not read it
        // until it is announced.
        unsafe { self.shared.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Announces what was filled.
    pub(crate) fn publish(&mut self) {
        self.shared.word(self.shared.offset.producer).store(self.next, Ordering::Release);
    }

    /// Whether entries that were announced wait for the other end.
    pub(crate) fn has_waiting(&self) -> bool {
        let word = self.shared.word(self.shared.offset.consumer);
        word.load(Ordering::Acquire) != self.next
    }

    /// Whether the kernel sleeps and wants a system call.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

impl<T: Entry> Consumer<T> {
    /// The consuming end of a mapped ring.
    pub(crate) fn new(mapping: Mapping, offset: RingOffset, entries: u32) -> io::Result<Self> {
        let shared = Shared::new(mapping, offset, entries)?;
        let next = shared.word(offset.consumer).load(Ordering::Relaxed);
        let produced = shared.word(offset.producer).load(Ordering::Acquire);
        Ok(Consumer { shared, next, produced })
    }

    /// Empties an entry, unannounced; `None` if there is none.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.next == self.produced {
            let word = self.shared.word(self.shared.offset.producer);
            self.produced = word.load(Ordering::Acquire);
        }
        if self.next == self.produced {
            return None;
        }
        // SAFETY: the entry lies within the mapping and was announced, so the kernel does not write
        // to it until it is released; any bytes are a valid entry.
        let entry = unsafe { self.shared.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Announces that what was emptied is free.
    pub(crate) fn release(&mut self) {
        self.shared.word(self.shared.offset.consumer).store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: RingOffset = RingOffset { producer: 0, consumer: 64, entries: 256, flags: 128 };

    /// Two ends of one ring of four; the second mapping is only a view of the first.
    fn with_ring(start: u32, test: impl FnOnce(&mut Producer<u64>, &mut Consumer<u64>)) {
        let mapping = Mapping::anonymous(4096).unwrap();
        let word = |at: usize| {
            // SAFETY: within the page just mapped, aligned.
            unsafe { AtomicU32::from_ptr(mapping.start().as_ptr().add(at).cast()) }
        };
        word(0).store(start, Ordering::Relaxed);
        word(64).store(start, Ordering::Relaxed);
        // SAFETY: a bitwise copy of the mapping, which is forgotten below and never unmapped twice.
        let view = unsafe { std::ptr::read(&raw const mapping) };
        let mut producer = Producer::new(mapping, OFFSET, 4).unwrap();
        let mut consumer = Consumer::new(view, OFFSET, 4).unwrap();
        test(&mut producer, &mut consumer);
        std::mem::forget(consumer);
    }

    #[test]
    fn fills_empties_and_wraps() {
        for start in [0, 2, u32::MAX - 1] {
            with_ring(start, |producer, consumer| {
                for round in 0..10 {
                    for i in 0..4 {
                        assert_eq!(producer.push(round * 4 + i), Ok(()));
                    }
                    assert_eq!(producer.push(99), Err(99));
                    assert_eq!(consumer.pop(), None);
                    producer.publish();
                    assert!(producer.has_waiting());
                    for i in 0..4 {
                        assert_eq!(consumer.pop(), Some(round * 4 + i));
                    }
                    assert_eq!(consumer.pop(), None);
                    assert!(producer.is_full());
                    consumer.release();
                    assert!(!producer.is_full() && !producer.has_waiting());
                }
            });
        }
    }

    #[test]
    fn behaves_as_a_queue() {
        let mut random = port::prng::Prng::new(2);
        with_ring(u32::MAX - 7, |producer, consumer| {
            let (mut model, mut number) = (std::collections::VecDeque::new(), 0);
            for _ in 0..10_000 {
                if random.chance(0.5) {
                    if producer.push(number).is_ok() {
                        model.push_back(number);
                        number += 1;
                    } else {
                        assert_eq!(model.len(), 4);
                    }
                    producer.publish();
                } else {
                    assert_eq!(consumer.pop(), model.pop_front());
                    consumer.release();
                }
            }
        });
    }

    #[test]
    fn refuses_rings_outside_their_mapping() {
        for offset in [
            RingOffset { producer: 4094, ..OFFSET },
            RingOffset { entries: 4096 - 24, ..OFFSET },
            RingOffset { flags: u64::MAX, ..OFFSET },
            RingOffset { entries: 257, ..OFFSET },
        ] {
            assert!(Producer::<u64>::new(Mapping::anonymous(4096).unwrap(), offset, 4).is_err());
        }
        assert!(Producer::<u64>::new(Mapping::anonymous(4096).unwrap(), OFFSET, 3).is_err());
    }
}
