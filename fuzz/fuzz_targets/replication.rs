//! Messages and heartbeats of a group, from outside: what is read is written the same again. The body is in the crate, where the unit
//! tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    replication::fuzz::messages(data);
});
