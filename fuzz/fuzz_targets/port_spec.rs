//! Specifications of ports.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| port::spec::fuzz(data));
