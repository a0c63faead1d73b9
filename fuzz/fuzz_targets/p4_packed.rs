//! P4 programs that come with their files as one JSON object. The body is in the crate.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| p4::packed::fuzz(data));
