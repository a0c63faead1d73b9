//! Capture filters of `millrace gauge` and frames that they judge. The body is in the crate, where the unit
//! tests run its like.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gauge::filter::fuzz(data));
