//! Configuration files of `run`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| control::fuzz::config(data));
