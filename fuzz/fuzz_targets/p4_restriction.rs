//! Restrictions of entries in the language of p4-constraints. The body is in the crate.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| p4_runtime::restriction::fuzz(data));
