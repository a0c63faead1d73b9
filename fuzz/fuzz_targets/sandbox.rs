//! What a module in a sandbox answers: of a frame, only what the module was declared to write is taken. The body is in
//! the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| service::fuzz::sandbox(data));
