//! An allocator that counts what is allocated, to be a test's global one.
//!
//! Memory in use as the system tells it also holds what the system's allocator keeps for later, so that
//! it says neither what a thing costs nor whether all of it was given back. This tells bytes that were
//! asked for and not given back yet.
//!
//!     #[global_allocator]
//!     static HEAP: testkit::heap::Counting = testkit::heap::Counting::new();
//!
//! Cost: two atomic additions an allocation, on a line that all threads share.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The system's allocator, counted.
#[derive(Debug, Default)]
pub struct Counting {
    bytes: AtomicUsize,
    blocks: AtomicUsize,
}

impl Counting {
    /// Nothing allocated yet.
    pub const fn new() -> Counting {
        Counting { bytes: AtomicUsize::new(0), blocks: AtomicUsize::new(0) }
    }

    /// Bytes that are allocated.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Blocks that are allocated.
    pub fn blocks(&self) -> usize {
        self.blocks.load(Relaxed)
    }

    /// Bytes that are allocated once they have not changed by more than a thousandth for half a second; what there is after
    /// `patience`, if that does not come about.
    pub fn settled(&self, patience: Duration) -> usize {
        let began = Instant::now();
        let (mut last, mut since) = (self.bytes(), Instant::now());
        while since.elapsed() < Duration::from_millis(500) && began.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.bytes();
            if now.abs_diff(last) > last / 1000 {
                (last, since) = (now, Instant::now());
            }
        }
        self.bytes()
    }
}

// SAFETY: every call is handed on to the system's allocator as it came, and its answer back.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps what `GlobalAlloc` asks of it.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            self.bytes.fetch_add(layout.size(), Relaxed);
            self.blocks.fetch_add(1, Relaxed);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            self.bytes.fetch_add(layout.size(), Relaxed);
            self.blocks.fetch_add(1, Relaxed);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
        self.bytes.fetch_sub(layout.size(), Relaxed);
        self.blocks.fetch_sub(1, Relaxed);
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let grown = unsafe { System.realloc(block, layout, size) };
        if !grown.is_null() {
            self.bytes.fetch_add(size, Relaxed);
            self.bytes.fetch_sub(layout.size(), Relaxed);
        }
        grown
    }
}
