//! The reader of pcap and pcapng files on any bytes; what it reads is written and read again. The
//! body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| port::pcap::fuzz(data));
