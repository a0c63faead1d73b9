//! Any bytes as a pipeline's text, and as a test file: what reads prints to a text that reads back to
//! the same. The body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ir::text::fuzz(data));
