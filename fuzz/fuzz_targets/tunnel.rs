//! Packets of tunnels, and options of tunnel ports. The body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tunnel::fuzz::tunnel(data));
