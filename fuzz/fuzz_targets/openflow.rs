//! Any bytes as a stream of OpenFlow messages: what decodes must encode and decode to the same. The
//! body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| openflow::testing::fuzz_decode(data));
