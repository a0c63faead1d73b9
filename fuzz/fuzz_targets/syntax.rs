//! The flow, group, meter and packet syntax on any text. The body is in the crate, where the unit
//! tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| openflow::syntax::fuzz(data));
