//! Modules of `millrace gauge` in Lua: scripts, and calls of the API with any arguments, beside no switch. The body is in the
//! crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gauge::lua::fuzz(data));
