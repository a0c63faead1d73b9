//! Bursts of frames through the crypto transcoder and back: only payloads and checksums are written, and what
//! comes back is what went in. The body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| service::fuzz::transcode(data));
