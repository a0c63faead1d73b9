//! Large pages for large tables.
//!
//! A packet of one of a million connections reads five lines of memory at random places. In pages of 4 KiB nearly each of
//! them also misses the processor's table of addresses; in pages of 2 MiB none does. The system gives those if it
//! is asked, and when they are taken one by one it clears 2 MiB while a packet waits, so they are taken at the start.
//!
//!
//! `unsafe` here: advice about memory of our own, which changes nothing that anybody can read.

use rustix::mm::{Advice, madvise};

/// Octets from which on a table is worth it; those below are cheap to have by the thousand.
const LARGE: usize = 4 << 20;
const PAGE: usize = 2 << 20;

/// Room for `n` values; in large pages, and taken at once, if that is much.
pub(crate) fn with_capacity<T>(n: usize) -> Vec<T> {
    let mut values: Vec<T> = Vec::with_capacity(n);
    if n.saturating_mul(size_of::<T>()) >= LARGE {
        take(&mut values);
    }
    values
}

#[allow(unsafe_code)]
fn take<T>(values: &mut Vec<T>) {
    let room = values.spare_capacity_mut();
    let (octets, start) = (size_of_val(room), room.as_mut_ptr().cast::<u8>());
    // Whole pages of the usual size; within them the system finds the large ones.
    let skip = start.align_offset(4096);
    let Some(octets) = octets.checked_sub(skip).map(|octets| octets & !4095) else { return };
    let from = start.wrapping_add(skip).cast();
    // Where the system has no large pages, or is older than the second, the table is as it was.
    // SAFETY: the range lies within room that this vector owns and that nothing refers to; large pages and taking them
    // change no octet of it.
    unsafe {
        let _ = madvise(from, octets, Advice::LinuxHugepage);
        if octets >= PAGE {
            let _ = madvise(from, octets, Advice::LinuxPopulateWrite);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_room_whatever_its_size() {
        for n in [0, 1, 1000, LARGE / 8 - 1, LARGE / 8, LARGE / 8 + 12_345] {
            let mut values: Vec<u64> = with_capacity(n);
            assert!(values.capacity() >= n && values.is_empty());
            values.resize(n, 7);
            assert!(values.iter().all(|value| *value == 7));
        }
    }
}
