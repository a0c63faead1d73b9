//! Any requests of a controller against an agent on a running switch. The body is in the crate, where
//! the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| of_pipeline::fuzz::agent(data));
