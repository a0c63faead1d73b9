//! Counters that generated code writes: of entries, by id, and of tables.
//!
//! Ids are dense numbers. Their cells lie in chunks that are allocated once and never move while the
//! [`Cells`] live, so whoever holds them reaches a cell by two loads while control adds chunks.
//! Generated code counts with plain loads and stores, which for aligned words are what the atomics
//! here do with relaxed order; `packets` is written last.
//!
//! Holds true: a chunk's pointer is null or leads to [`CHUNK`] cells; it changes once. One thread at
//! a time writes the cells (else counts are lost, no more).
//! Cost: 32 bytes an id; 8 bytes for each [`CHUNK`] ids that there may be.
//! Checked by: the tests below; `state`'s model test; the tests of `jit`.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::sync::atomic::{Ordering::AcqRel, Ordering::Release};

/// Cells per chunk, a power of two: 2 MiB of them.
pub const CHUNK: usize = 1 << 16;

/// What was counted for one id. Aligned so that it never straddles cache lines.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct Cell {
    /// Packets.
    pub packets: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// When a packet was last counted, in nanoseconds of the switch's clock.
    pub last_used_ns: AtomicU64,
}

/// What was counted for one table.
#[derive(Debug, Default)]
#[repr(C)]
pub struct TableCell {
    /// Packets that were looked up.
    pub lookups: AtomicU64,
    /// Those that matched an entry.
    pub matches: AtomicU64,
}

/// Adds to a counter that has one writer.
#[inline(always)]
pub fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// Cells of the ids below a maximum.
#[derive(Debug)]
pub struct Cells {
    chunks: Box<[AtomicPtr<Cell>]>,
    /// Above the highest id that was asked for.
    grown: AtomicU32,
}

/// So many cells are near: 8 KiB.
const NEAR: u32 = 256;

impl Cells {
    /// No cells yet.
    pub fn new(ids_max: u32) -> Cells {
        let chunks = (ids_max as usize).div_ceil(CHUNK);
        Cells {
            chunks: (0..chunks).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            grown: AtomicU32::new(0),
        }
    }

    /// Makes sure that the id has a cell; an id past the maximum never has one.
    pub fn grow(&self, id: u32) {
        let Some(place) = self.chunks.get(id as usize / CHUNK) else { return };
        self.grown.fetch_max(id.saturating_add(1), Relaxed);
        if !place.load(Acquire).is_null() {
            return;
        }
        let new = Box::into_raw(zeroed());
        if place.compare_exchange(ptr::null_mut(), new.cast(), AcqRel, Acquire).is_err() {
            // Another thread was first.
            // SAFETY: it came from `into_raw` just now and nobody else has it.
            drop(unsafe { Box::from_raw(new) });
        }
    }

    /// An id's cell.
    #[inline(always)]
    pub fn cell(&self, id: u32) -> Option<&Cell> {
        let chunk = self.chunks.get(id as usize / CHUNK)?.load(Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: a chunk that is not null holds `CHUNK` cells and lives as long as `self`.
        Some(unsafe { &*chunk.add(id as usize % CHUNK) })
    }

    /// Counts packets and their bytes, seen at `now_ns`; nothing if the id has no cell.
    #[inline]
    pub fn add(&self, id: u32, packets: u64, bytes: u64, now_ns: u64) {
        let Some(cell) = self.cell(id) else { return };
        cell.last_used_ns.store(now_ns, Relaxed);
        bump(&cell.bytes, bytes);
        // Last, so that whoever sees the packet sees its bytes and time.
        cell.packets.store(cell.packets.load(Relaxed).wrapping_add(packets), Release);
    }

    /// The id will soon be counted: its cell is fetched now.
    #[inline(always)]
    pub fn prefetch(&self, id: u32) {
        if let Some(chunk) = self.chunks.get(id as usize / CHUNK) {
            // Without a chunk this is an address near zero, which fetches nothing.
            let cell = chunk.load(Relaxed).wrapping_add(id as usize % CHUNK);
            prefetch(cell);
        }
    }

    /// There may be so many that they do not stay in a processor's nearest cache.
    #[inline(always)]
    pub fn is_far(&self) -> bool {
        self.grown.load(Relaxed) > NEAR
    }

    /// Pointers to the chunks, for generated code.
    pub fn chunks(&self) -> &[AtomicPtr<Cell>] {
        &self.chunks
    }
}

/// Has the processor fetch a cell, which need not be there.
#[inline(always)]
fn prefetch(cell: *const Cell) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(cell.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = cell;
}

type Chunk = [Cell; CHUNK];

/// A chunk of zeros that costs memory only where it is used.
fn zeroed() -> Box<Chunk> {
    let layout = std::alloc::Layout::new::<Chunk>();
    // SAFETY: the layout has a size. Zeros are cells that have counted nothing.
    unsafe {
        let at: *mut Chunk = std::alloc::alloc_zeroed(layout).cast();
        if at.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        Box::from_raw(at)
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        for chunk in &mut self.chunks {
            let at = std::mem::replace(chunk.get_mut(), ptr::null_mut());
            if !at.is_null() {
                // SAFETY: it came from `into_raw` of such a box and is not reachable any more.
                drop(unsafe { Box::from_raw(at.cast::<Chunk>()) });
            }
        }
    }
}

/// Where code counts: one worker's cells.
#[derive(Clone, Copy, Debug)]
pub struct Counters<'a> {
    /// Of entries.
    pub cells: &'a Cells,
    /// Of tables, by id.
    pub tables: &'a [TableCell],
}

impl Counters<'_> {
    /// Counts lookups of a table.
    #[inline(always)]
    pub fn table(&self, table: usize, lookups: u64, matches: u64) {
        if let Some(cell) = self.tables.get(table) {
            bump(&cell.lookups, lookups);
            bump(&cell.matches, matches);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_once_and_strange_ids_do_nothing() {
        let cells = Cells::new(CHUNK as u32 + 5);
        assert!(cells.cell(0).is_none());
        cells.add(3, 1, 60, 9);
        cells.grow(3);
        cells.add(3, 2, 60, 9);
        cells.grow(70);
        cells.add(CHUNK as u32, 1, 1, 1);
        cells.prefetch(CHUNK as u32);
        cells.prefetch(u32::MAX);
        cells.grow(u32::MAX);
        assert!(cells.cell(u32::MAX).is_none() && cells.cell(CHUNK as u32 + 1).is_none());
        let cell = cells.cell(3).unwrap();
        assert_eq!((cell.packets.load(Relaxed), cell.bytes.load(Relaxed)), (2, 60));
        assert_eq!(cell.last_used_ns.load(Relaxed), 9);
    }

    #[test]
    fn threads_that_grow_at_once_agree() {
        let cells = Cells::new(4 * CHUNK as u32);
        std::thread::scope(|scope| {
            for id in 0..4 {
                let cells = &cells;
                scope.spawn(move || {
                    for chunk in 0..4 {
                        cells.grow(chunk * CHUNK as u32 + id);
                    }
                });
            }
        });
        assert!((0..4).all(|chunk| cells.cell(chunk * CHUNK as u32).is_some()));
    }
}
