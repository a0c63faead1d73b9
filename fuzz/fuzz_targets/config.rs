//! Configuration files of `run`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace::fuzz::config(data));
