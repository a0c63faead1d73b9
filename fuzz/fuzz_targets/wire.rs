//! Every view, value and walk of `wire` on any bytes. The body is in the crate, where the unit
//! tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz::fuzz_all(data));
