//! Files of a journal: as they are, as records in right frames, and cut or changed. The body is in the crate, where the unit
//! tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| journal::fuzz::journal(data));
