//! Counters that generated code writes: of entries, by id, and of tables.
//!
//! Ids are dense numbers. The cells of all ids that there may ever be have one range of addresses,
//! reserved at once and given memory [`CHUNK`] ids at a time, so a cell is found by a comparison and
//! an addition, and never moves while control adds ids. Generated code counts with plain loads and
//! stores, which for aligned words are what the atomics here do with relaxed order; `packets` is
//! written last.
//!
//! Holds true: the first [`Cells::ready`] cells are zeros or counts and may be written; that number
//! only grows. One thread at a time writes the cells (else counts are lost, no more).
//! Cost: 32 bytes an id, as far as pages were touched; addresses for all ids.
//! Checked by: the tests below; `state`'s model test; the tests of `jit`.

#![allow(unsafe_code)]

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::Release;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed};

/// Ids that get memory together: 2 MiB of cells, as large as a huge page.
pub const CHUNK: usize = 1 << 16;
const CHUNK_BYTES: usize = CHUNK * size_of::<Cell>();

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
    /// The first cell, at a multiple of [`CHUNK_BYTES`].
    cells: NonNull<Cell>,
    /// All that was reserved.
    reserved: (*mut c_void, usize),
    ids_max: u32,
    /// How many cells have memory.
    ready: AtomicU32,
    /// Above the highest id that was asked for.
    grown: AtomicU32,
}

// SAFETY: cells are atomics in memory that is this value's own; growing is atomic, too.
unsafe impl Send for Cells {}
// SAFETY: as above.
unsafe impl Sync for Cells {}

/// So many cells are near: 8 KiB.
const NEAR: u32 = 256;

impl Cells {
    /// No cells yet.
    pub fn new(ids_max: u32) -> Cells {
        let (ready, grown) = (AtomicU32::new(0), AtomicU32::new(0));
        let bytes = (ids_max as usize).div_ceil(CHUNK) * CHUNK_BYTES;
        if bytes == 0 {
            let reserved = (ptr::null_mut(), 0);
            return Cells { cells: NonNull::dangling(), reserved, ids_max, ready, grown };
        }
        // One more, so that a multiple lies within.
        let reserved = bytes + CHUNK_BYTES;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
        let at = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                reserved,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let Some(at) = at.ok().and_then(NonNull::new) else { no_memory(reserved) };
        let skip = at.as_ptr().align_offset(CHUNK_BYTES);
        // SAFETY: `skip` is below the chunk's size, by which the mapping is larger than the cells.
        let cells = unsafe { at.byte_add(skip) }.cast();
        Cells { cells, reserved: (at.as_ptr(), reserved), ids_max, ready, grown }
    }

    /// Makes sure that the id has a cell; an id past the maximum never has one.
    pub fn grow(&self, id: u32) {
        if id >= self.ids_max {
            return;
        }
        self.grown.fetch_max(id.saturating_add(1), Relaxed);
        let ready = self.ready.load(Acquire) as usize;
        if (id as usize) < ready {
            return;
        }
        // Several threads may do so at once: it comes to the same.
        let end = (id as usize + 1).next_multiple_of(CHUNK);
        let bytes = (end - ready) * size_of::<Cell>();
        // SAFETY: whole chunks within what was reserved, beyond those that are in use.
        let done = unsafe {
            let from = self.cells.as_ptr().add(ready).cast();
            let done = mprotect(from, bytes, MprotectFlags::READ | MprotectFlags::WRITE);
            if ready > 0 {
                // Many cells: fewer, larger pages serve them better where the kernel has them.
                let _ = madvise(from, bytes, Advice::LinuxHugepage);
            }
            done
        };
        if done.is_err() {
            no_memory(bytes);
        }
        self.ready.fetch_max(end as u32, Release);
    }

    /// How many cells, from that of id 0 on, may be written.
    #[inline(always)]
    pub fn ready(&self) -> u32 {
        self.ready.load(Acquire)
    }

    /// The first cell, for generated code, which asks [`ready`](Self::ready) first.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const Cell {
        self.cells.as_ptr()
    }

    /// An id's cell.
    #[inline(always)]
    pub fn cell(&self, id: u32) -> Option<&Cell> {
        if id >= self.ready() {
            return None;
        }
        // SAFETY: so many cells are there, and live as long as `self`.
        Some(unsafe { &*self.cells.as_ptr().add(id as usize) })
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
        // Where there is no cell, this fetches nothing.
        prefetch(self.cells.as_ptr().wrapping_add(id as usize));
    }

    /// There may be so many that they do not stay in a processor's nearest cache.
    #[inline(always)]
    pub fn is_far(&self) -> bool {
        self.grown.load(Relaxed) > NEAR
    }
}

/// The process ends: nobody could go on without the memory.
fn no_memory(bytes: usize) -> ! {
    handle_alloc_error(
        Layout::from_size_align(bytes, size_of::<Cell>()).unwrap_or(Layout::new::<Cell>()),
    )
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

impl Drop for Cells {
    fn drop(&mut self) {
        if self.reserved.1 > 0 {
            // SAFETY: it was mapped by `new`, and no cell is borrowed any more. Unmapping a whole
            // mapping does not fail.
            let _ = unsafe { munmap(self.reserved.0, self.reserved.1) };
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
    fn cells_come_once_and_strange_ids_do_nothing() {
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
