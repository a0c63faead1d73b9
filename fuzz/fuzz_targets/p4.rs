//! P4 programs: preprocessor, parser, checker, lowering. The body is in the crate.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| p4::fuzz(data));
