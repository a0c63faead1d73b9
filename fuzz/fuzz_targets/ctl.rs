//! Requests at the control socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| control::fuzz::ctl(data));
