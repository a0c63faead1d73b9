//! Messages of the kernel about its network. The body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| underlay::fuzz::underlay(data));
