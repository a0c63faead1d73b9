//! Any frames through a pipeline of flow entries, groups and meters of all kinds. The body is in the
//! crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| of_pipeline::fuzz::packet(data));
