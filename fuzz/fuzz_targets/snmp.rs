//! Answers of an SNMP agent, read by `millrace gauge`. The body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gauge::snmp::fuzz(data));
