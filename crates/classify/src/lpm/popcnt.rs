//! The trie's lookups, compiled for processors that count bits in one instruction.
//!
//! A node is found by population counts, which x86-64 at its plainest takes a dozen instructions
//! for; with the instruction a lookup takes half the time (`benches/lpm.rs`, IPv6). Elsewhere the
//! same functions run as they are compiled.
//!
//! Checked by: the unit test in [`trie`](super::trie), which asks both.
#![allow(unsafe_code)]

use super::trie::Trie;

/// As [`Trie::walk_one`].
#[inline]
pub(super) fn lookup(trie: &Trie, root: u32, bits: u128, miss: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if x86::is_there() {
        // SAFETY: the processor has the instructions that the function was compiled for.
        // WHY: `lookup` of an IPv6 address takes half the time.
        return unsafe { x86::lookup(trie, root, bits, miss) };
    }
    trie.walk_one(root, bits, miss)
}

/// As [`Trie::walk_burst`].
#[inline]
pub(super) fn lookup_burst(
    trie: &Trie,
    roots: &[u32],
    bits: &mut [u128],
    found: &mut [u32],
    phases: bool,
) {
    #[cfg(target_arch = "x86_64")]
    if x86::is_there() {
        // SAFETY: the processor has the instructions that the function was compiled for.
        // WHY: as above.
        return unsafe { x86::lookup_burst(trie, roots, bits, found, phases) };
    }
    trie.walk_burst(roots, bits, found, phases);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Trie;

    #[inline]
    pub(super) fn is_there() -> bool {
        is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
    }

    #[target_feature(enable = "popcnt,lzcnt,bmi1,bmi2")]
    pub(super) fn lookup(trie: &Trie, root: u32, bits: u128, miss: u32) -> u32 {
        trie.walk_one(root, bits, miss)
    }

    #[target_feature(enable = "popcnt,lzcnt,bmi1,bmi2")]
    pub(super) fn lookup_burst(
        trie: &Trie,
        roots: &[u32],
        bits: &mut [u128],
        found: &mut [u32],
        phases: bool,
    ) {
        trie.walk_burst(roots, bits, found, phases);
    }
}
