//! Frames in sequences through the connection tracker, with translation: each is counted once, limits
//! hold, and all is gone in the end. The body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| service::fuzz::conntrack(data));
