//! Both sides of a take-over.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| control::fuzz::take_over(data));
