//! What a fleet's store holds, and where it is.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| control::fuzz::fleet(data));
