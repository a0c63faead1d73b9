//! Images of connections, as they are or with checksums made right: what is read is restored within limits, written
//! again, and all gone in the end. The body is in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    service::fuzz::image(data);
});
