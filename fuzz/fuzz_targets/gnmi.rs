//! Messages and paths of gNMI. The body is in the crate.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnmi::fuzz::fuzz(data));
