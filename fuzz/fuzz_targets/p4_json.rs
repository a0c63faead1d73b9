//! Programs as bmv2's JSON: the reader, and the compiler behind it. The body is in the crate.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| p4::bmv2::fuzz(data));
