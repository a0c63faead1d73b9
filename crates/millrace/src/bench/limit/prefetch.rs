//! Asks for a cache line before it is needed.

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
