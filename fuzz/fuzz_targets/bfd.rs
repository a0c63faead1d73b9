//! Frames of BFD, settings and time. The body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bfd::fuzz::bfd(data));
