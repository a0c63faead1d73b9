//! What the language does not offer: hints to the processor, and loads checked once for many.
//!
//! The only module of this crate with `unsafe` code. A hint does nothing where the processor has no
//! such thing; the loads have a plain twin, [`mask::gather`](crate::mask::gather).
//!
//! Checked by: the unit test below; `tests/model.rs`, whose bursts go through here.

#![allow(unsafe_code)]

use crate::mask::Window;

/// The keys of a burst as seen through the windows of a mask.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, const W: usize> {
    keys: &'a [u8],
    stride: usize,
    count: usize,
    windows: [Window; W],
}

impl<'a, const W: usize> View<'a, W> {
    /// Panics unless `keys` holds `count` keys and every window lies inside a stride.
    #[inline]
    pub(crate) fn new(keys: &'a [u8], stride: usize, count: usize, windows: &[Window; W]) -> Self {
        let inside = count.checked_mul(stride).is_some_and(|len| len <= keys.len());
        assert!(inside, "a burst holds one key per answer");
        let seen = windows.iter().all(|w| w.offset as usize + 8 <= stride);
        assert!(seen, "a window lies inside a key");
        View { keys, stride, count, windows: *windows }
    }

    /// The masked words of a key.
    #[inline(always)]
    pub(crate) fn words(&self, i: usize) -> [u64; W] {
        assert!(i < self.count, "a burst has so many keys");
        let at = i * self.stride;
        std::array::from_fn(|k| {
            let window = &self.windows[k];
            // SAFETY: `new` has checked that the window's eight bytes end within a stride and that
            // `count` strides end within the keys; `i` is below `count`.
            // WHY: two branches per word in the loop that every lookup runs through.
            let word = unsafe {
                self.keys.as_ptr().add(at + window.offset as usize).cast::<u64>().read_unaligned()
            };
            u64::from_le(word) & window.mask
        })
    }
}

/// Asks for the cache line in which `at` begins.
#[inline(always)]
pub fn prefetch<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the reference is valid for reads, and the hint reads nothing that the program sees.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(at).cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the reference is valid for reads, and the hint reads nothing that the program sees.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) std::ptr::from_ref(at),
                options(readonly, nostack, preserves_flags));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask;

    #[test]
    fn a_view_sees_what_plain_loads_see() {
        for len in 1..30usize {
            let stride = len.next_multiple_of(8).max(8);
            let keys: Vec<u8> = (0..stride * 5).map(|i| (i * 31) as u8).collect();
            for bits in [0xffu8, 0x18] {
                let windows = mask::windows(&vec![bits; len]);
                let Some(first) = windows.first_chunk::<1>() else { continue };
                let view = View::new(&keys, stride, 5, first);
                for i in 0..5 {
                    let key = &keys[i * stride..][..stride];
                    assert_eq!(view.words(i), mask::gather(first, key));
                    if let Some(two) = windows.first_chunk::<2>() {
                        let view = View::new(&keys, stride, 5, two);
                        assert_eq!(view.words(i), mask::gather(two, key));
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a burst has so many keys")]
    fn no_key_beyond_the_last_is_read() {
        View::new(&[0; 24], 8, 2, &[Window { offset: 0, mask: 1 }]).words(2);
    }

    #[test]
    #[should_panic(expected = "a burst holds one key per answer")]
    fn too_few_keys_are_refused() {
        View::new(&[0; 23], 8, 3, &[Window { offset: 0, mask: 1 }]);
    }

    #[test]
    #[should_panic(expected = "a window lies inside a key")]
    fn a_window_outside_is_refused() {
        View::new(&[0; 24], 8, 3, &[Window { offset: 1, mask: 1 }]);
    }
}
