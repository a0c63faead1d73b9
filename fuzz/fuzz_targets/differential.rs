//! Compiled code against the interpreter: any programs, entries and updates of a seed, any packets. The
//! body is in the test `differential` of `datapath`, which runs it on random bytes too.
#![no_main]

#[path = "../../crates/datapath/tests/differential/harness/mod.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::fuzz(data));
