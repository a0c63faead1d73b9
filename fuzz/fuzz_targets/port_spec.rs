//! Specifications of ports.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| control::fuzz::port_spec(data));
