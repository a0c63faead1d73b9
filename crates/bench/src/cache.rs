//! Asks for cache lines before they are needed, and for large pages.

#![allow(unsafe_code)]

/// Asks for the line where this value lies.
#[inline(always)]
pub(super) fn prefetch<T>(slice: &[T], index: usize) {
    if let Some(at) = slice.get(index) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE, which has the instruction, is part of x86-64; it reads nothing.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(at).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        std::hint::black_box(at);
    }
}

/// As [`prefetch`], to the second cache.
#[inline(always)]
pub(super) fn prefetch_second<T>(slice: &[T], index: usize) {
    if let Some(at) = slice.get(index) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(at).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        std::hint::black_box(at);
    }
}

/// Has what will be pushed lie in large pages, where the kernel has them.
pub(super) fn large_pages<T>(vec: &mut Vec<T>) {
    let room = vec.spare_capacity_mut();
    let (from, to) = (room.as_ptr() as usize, room.as_ptr_range().end as usize);
    let (from, to) = (from.next_multiple_of(PAGE), to / PAGE * PAGE);
    if from < to {
        // SAFETY: whole pages of the vector's own room; only how they are mapped changes.
        let asked = unsafe {
            let advice = rustix::mm::Advice::LinuxHugepage;
            rustix::mm::madvise(std::ptr::without_provenance_mut(from), to - from, advice)
        };
        // Small pages serve as well, slower.
        let _ = asked;
    }
}

/// The smallest page there is.
const PAGE: usize = 4096;
