//! The memory functions of `memory.S` against plain loops: every length up to a few hundred octets, all overlaps, and not one
//! octet outside.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(unsafe_code)]

use musl as _;

unsafe extern "C" {
    #[cfg_attr(not(target_env = "musl"), link_name = "millrace_memcpy")]
    fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8;
    #[cfg_attr(not(target_env = "musl"), link_name = "millrace_memmove")]
    fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8;
    #[cfg_attr(not(target_env = "musl"), link_name = "millrace_memset")]
    fn memset(to: *mut u8, octet: i32, n: usize) -> *mut u8;
    #[cfg_attr(not(target_env = "musl"), link_name = "millrace_memcmp")]
    fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32;
    #[cfg_attr(not(target_env = "musl"), link_name = "millrace_bcmp")]
    fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32;
}

/// Lengths: all short ones, and some on both sides of where the functions change their ways.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=300).chain([511, 512, 513, 1499, 1500, 4095, 4096, 4097, 70_001])
}

/// Octets that differ from their neighbours.
fn octets(n: usize) -> Vec<u8> {
    (0..n).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn copies_are_whole_and_nothing_else_is_touched() {
    for n in lengths() {
        let from = octets(n + 32);
        for (skew, place) in [(0, 0), (1, 3), (7, 8), (15, 1), (16, 16)] {
            let mut to = vec![0xee; n + 48];
            // SAFETY: both places hold so many octets behind these offsets, and are apart.
            let told = unsafe { memcpy(to.as_mut_ptr().add(place), from.as_ptr().add(skew), n) };
            assert_eq!(told, to.as_mut_ptr().wrapping_add(place));
            assert_eq!(to[place..place + n], from[skew..skew + n], "{n} from {skew} to {place}");
            assert!(to[..place].iter().chain(&to[place + n..]).all(|one| *one == 0xee), "{n}");
        }
    }
}

#[test]
fn places_may_overlap_in_every_way() {
    for n in lengths() {
        let near = [1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, n / 2, n];
        for (apart, forwards) in near.into_iter().flat_map(|apart| [(apart, true), (apart, false)])
        {
            let mut memory = octets(n + apart + 32);
            let mut expected = memory.clone();
            let (from, to) = if forwards { (16 + apart, 16) } else { (16, 16 + apart) };
            let moved = expected[from..from + n].to_vec();
            expected[to..to + n].copy_from_slice(&moved);
            // SAFETY: the memory holds both places, which may overlap.
            let told =
                unsafe { memmove(memory.as_mut_ptr().add(to), memory.as_ptr().add(from), n) };
            assert_eq!(told, memory.as_mut_ptr().wrapping_add(to));
            assert!(memory == expected, "{n} octets, {apart} apart, forwards {forwards}");
        }
    }
}

#[test]
fn what_is_filled_is_filled_and_nothing_else() {
    for n in lengths() {
        for place in [0, 1, 8, 15, 16] {
            let mut to = vec![0xee; n + 48];
            // SAFETY: so many octets are there.
            let told = unsafe { memset(to.as_mut_ptr().add(place), 0x1a7, n) };
            assert_eq!(told, to.as_mut_ptr().wrapping_add(place));
            assert!(to[place..place + n].iter().all(|one| *one == 0xa7), "{n} at {place}");
            assert!(to[..place].iter().chain(&to[place + n..]).all(|one| *one == 0xee), "{n}");
        }
    }
}

#[test]
fn the_first_octet_that_differs_decides() {
    let sign = |n: usize, a: &[u8], b: &[u8]| {
        // SAFETY: both have so many octets.
        let (told, equal) =
            unsafe { (memcmp(a.as_ptr(), b.as_ptr(), n), bcmp(a.as_ptr(), b.as_ptr(), n)) };
        assert_eq!(told == 0, equal == 0);
        told.signum()
    };
    for n in lengths().filter(|n| *n < 600) {
        let a = octets(n + 1);
        let mut b = a.clone();
        b[n] = !b[n];
        assert_eq!(sign(n, &a, &b), 0, "what is behind {n} octets is not asked");
        for at in 0..n {
            for (octet, more) in [(a[at].wrapping_add(1), !b[n - 1]), (a[at] ^ 0x80, b[n - 1])] {
                let mut b = a.clone();
                // What differs further on says nothing.
                b[n - 1] = more;
                b[at] = octet;
                let expected = a[at].cmp(&octet) as i32;
                assert_eq!(sign(n, &a, &b), expected, "{n} octets differ at {at}");
                assert_eq!(sign(n, &b, &a), -expected, "{n} octets differ at {at}");
            }
        }
    }
}
