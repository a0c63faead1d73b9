//! A page of metrics, read by `millrace gauge`. The body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gauge::metrics::fuzz(data));
